//! Two hosts, handlers that are closures, and datagrams that meet them.

use crate::common::receive;
use std::net::UdpSocket;
use std::sync::mpsc;
use std::time::Duration;
use wifu_core::{
    Chain, Config, Full, Ground, Handler, Hook, Hooks, HopCx, Kinds, Packet, Seat, Verbs, Verdict,
};
use wifu_linux::core::by::{By, Selector, TunSettings};
use wifu_linux::core::config::{Needs, Settings, hooks_of};
use wifu_linux::core::report::Report;
use wifu_linux::core::routes::Routes;
use wifu_linux::core::rules::Rules;
use wifu_linux::core::{Control, Interception, Told};
use wifu_linux::netns::{End, Lab, Namespace};
use wifu_linux::steps::Steps;
use wifu_wire::{Rng, Span};

pub const A: &str = "10.83.0.1";
pub const B: &str = "10.83.0.2";
pub const PORT: u16 = 7000;

/// Two hosts on a link.
pub struct World {
    _lab: Lab,
    pub a: Namespace,
    pub b: Namespace,
}

impl World {
    pub fn new(name: &str) -> World {
        let mut lab = Lab::create(&format!("t-{name}-{}", std::process::id())).expect("lab");
        let (a, b) = (lab.node("a").expect("node"), lab.node("b").expect("node"));
        let ends = [("a", A), ("b", B)].map(|(node, ip)| (node, format!("{ip}/24")));
        let [x, y] = [&ends[0], &ends[1]].map(|(node, address)| End {
            node,
            device: "eth0",
            address,
        });
        lab.link(x, y, 1500).expect("link");
        World { _lab: lab, a, b }
    }
}

/// Asks a closure about the n-th packet.
pub struct Ask<F>(pub u32, pub F);

impl<F: FnMut(u32, &mut Packet<'_>) -> Verdict + Send> Handler for Ask<F> {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
        self.0 += 1;
        (self.1)(self.0, packet)
    }
}

pub fn chain(ask: impl FnMut(u32, &mut Packet<'_>) -> Verdict + Send + 'static) -> Chain {
    let mut chain = Chain::new();
    seat(&mut chain, "ask", Box::new(Ask(0, ask)), 100);
    chain
}

/// Add a handler at all hooks, for all packets.
pub fn seat(chain: &mut Chain, name: &str, handler: Box<dyn Handler>, most: u32) {
    let seat = Seat {
        most,
        ..Seat::new(name, Hooks::WIRED, Rng::new(1))
    };
    chain.push(seat, handler);
}

/// Add a handler that holds every packet for this long.
pub fn hold(chain: &mut Chain, time: Span) {
    let config = Config::from_toml(&format!(
        "[[handler]]\nuse = \"delay\"\nt = \"{} us\"\nmost_held = 100\n",
        time.micros()
    ));
    let kinds = &Kinds::new(wifu_engine::Registry::new(&[]));
    let ground = Ground {
        kinds,
        can: Verbs::HOLD,
        told: &[],
    };
    let config = config.expect("it is TOML");
    let appended = config.append(chain, &Rng::new(1), ground, None);
    appended.expect("delay is a handler");
}

/// The rule that sends the datagrams of a hook to its queue.
pub fn rule_of(hook: Hook) -> String {
    let (chain, number) = (hook.name().to_uppercase(), hook.number());
    format!("{chain} -p udp -j NFQUEUE --queue-bypass --queue-num {number}")
}

/// Run `chain` at one hook of `ns` while `work` runs.
pub fn with<T>(
    ns: &Namespace,
    chain: Chain,
    rule: &str,
    settings: &Settings,
    super_packets: bool,
    work: impl FnOnce() -> T,
) -> (T, Report) {
    let quiet = Control::default();
    told(
        ns,
        chain,
        rule,
        settings,
        super_packets,
        &quiet,
        |_| {},
        work,
    )
}

/// The same, with an interval between reports, and hearing what is told.
#[expect(clippy::too_many_arguments, reason = "what a program's user says")]
pub fn told<T>(
    ns: &Namespace,
    chain: Chain,
    rule: &str,
    settings: &Settings,
    super_packets: bool,
    control: &Control,
    tell: impl FnMut(Told) + Send,
    work: impl FnOnce() -> T,
) -> (T, Report) {
    let rules = [rule_of(rule.parse().expect("hook"))];
    ruled(
        ns,
        chain,
        &rules,
        settings,
        super_packets,
        control,
        tell,
        work,
    )
}

/// The same, with rules of any kind.
#[expect(clippy::too_many_arguments, reason = "what a program's user says")]
pub fn ruled<T>(
    ns: &Namespace,
    chain: Chain,
    rules: &[String],
    settings: &Settings,
    super_packets: bool,
    control: &Control,
    tell: impl FnMut(Told) + Send,
    work: impl FnOnce() -> T,
) -> (T, Report) {
    let hooks = hooks_of(rules).expect("rules");
    let (give, take) = mpsc::channel();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let inside = move || {
                let needs = Needs {
                    most_held: 100,
                    super_packets,
                    sends: true,
                };
                let i = Interception::open(chain, hooks, settings, needs);
                let i = i.expect("queues");
                let rules = Rules::install(rules, &mut Steps::real()).expect("rules");
                give.send(i.remote()).expect("test");
                i.run(control, tell, rules)
            };
            ns.run(inside).expect("namespace").expect("run")
        });
        let remote = take.recv().expect("start");
        let result = work();
        remote.stop();
        (result, thread.join().expect("interception"))
    })
}

/// Run `chain` at output of `ns`, for datagrams that come by a TUN device, while `work` runs.
pub fn by_tun<T>(
    ns: &Namespace,
    chain: Chain,
    settings: &Settings,
    work: impl FnOnce() -> T,
) -> (T, Report) {
    let tun = TunSettings::default();
    let settings = &Settings {
        by: By::Tun(tun.clone()),
        ..settings.clone()
    };
    let selector = Selector {
        hook: Hook::Output,
        protocols: Some([17].into()),
    };
    let (give, take) = mpsc::channel();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let inside = move || {
                let hooks = Hooks::of(&[Hook::Output]);
                let needs = Needs::default();
                let i = Interception::open(chain, hooks, settings, needs).expect("device");
                let steps = &mut Steps::real();
                let routes = Routes::install(&[selector], settings, &tun, steps).expect("routes");
                give.send(i.remote()).expect("test");
                i.run(&Control::default(), |_| {}, routes)
            };
            ns.run(inside).expect("namespace").expect("run")
        });
        let remote = take.recv().expect("start");
        let result = work();
        remote.stop();
        (result, thread.join().expect("interception"))
    })
}

/// Send `count` numbered datagrams from a to b, `pause` apart; gives those that came.
pub fn datagrams(w: &World, count: u32, size: usize, pause: Duration) -> Vec<Vec<u8>> {
    let at = || UdpSocket::bind((B, PORT)).expect("socket");
    let receiver = w.b.run(at).expect("namespace");
    let sender = sender(w);
    receiver
        .set_read_timeout(Some(Duration::from_millis(700)))
        .expect("timeout");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for n in 0..count {
                let mut octets = vec![0x33; size];
                octets[..4].copy_from_slice(&n.to_be_bytes());
                sender.send_to(&octets, (B, PORT)).expect("send");
                std::thread::sleep(pause);
            }
        });
        let mut came = Vec::new();
        let mut room = [0; 2000];
        while came.len() < count as usize {
            match receive(&receiver, &mut room) {
                Ok(length) => came.push(room[..length].to_vec()),
                Err(_) => break,
            }
        }
        came
    })
}

pub const MILLISECOND: Duration = Duration::from_millis(1);

pub fn settings(when_full: Full) -> Settings {
    Settings {
        when_full,
        stall: Span(100_000_000),
        ..Settings::default()
    }
}

/// A socket of b, in whose buffer all packets have room. One for all of a test: whoever forks
/// meanwhile keeps its port for a moment.
pub fn roomy(w: &World) -> UdpSocket {
    let at = || UdpSocket::bind((B, PORT)).expect("socket");
    let receiver = w.b.run(at).expect("namespace");
    let patience = Some(300 * MILLISECOND);
    receiver.set_read_timeout(patience).expect("timeout");
    let buffer = rustix::net::sockopt::set_socket_recv_buffer_size_force(&receiver, 1 << 26);
    buffer.expect("room");
    receiver
}

/// A socket of a, to send from.
pub fn sender(w: &World) -> UdpSocket {
    let at = || UdpSocket::bind((A, 0)).expect("socket");
    w.a.run(at).expect("namespace")
}

/// How many wait in it.
pub fn count(receiver: &UdpSocket) -> u64 {
    let came = (0..).take_while(|_| receive(receiver, &mut [0; 200]).is_ok());
    came.count() as u64
}

//! Handlers behind NFQUEUE and TUN devices: what becomes of packets when handlers fail, when nobody
//! keeps up, and when they are changed. Needs root; namespaces of its own.

mod common;

use core::sync::atomic::{AtomicBool, Ordering};
use std::net::UdpSocket;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::{privileged, receive};
use wifu_core::{
    Chain, Config, Full, Ground, Handler, Hook, Hooks, HopCx, Kinds, Packet, Seat, Verbs, Verdict,
};
use wifu_linux::core::by::{By, Selector, TunSettings};
use wifu_linux::core::config::{Needs, Settings, hooks_of};
use wifu_linux::core::report::Report;
use wifu_linux::core::routes::Routes;
use wifu_linux::core::rules::Rules;
use wifu_linux::core::{Control, Interception, Told};
use wifu_linux::delay::{Measure, Meter, Setup};
use wifu_linux::netns::{End, Lab, Namespace};
use wifu_linux::steps::{Steps, output_of};
use wifu_wire::{LinkTo, Neighbour, Rng, Span, Time};

const A: &str = "10.83.0.1";
const B: &str = "10.83.0.2";
const PORT: u16 = 7000;

/// Two hosts on a link.
struct World {
    _lab: Lab,
    a: Namespace,
    b: Namespace,
}

impl World {
    fn new(name: &str) -> World {
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
struct Ask<F>(u32, F);

impl<F: FnMut(u32, &mut Packet<'_>) -> Verdict + Send> Handler for Ask<F> {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
        self.0 += 1;
        (self.1)(self.0, packet)
    }
}

fn chain(ask: impl FnMut(u32, &mut Packet<'_>) -> Verdict + Send + 'static) -> Chain {
    let mut chain = Chain::new();
    seat(&mut chain, "ask", Box::new(Ask(0, ask)), 100);
    chain
}

/// Add a handler at all hooks, for all packets.
fn seat(chain: &mut Chain, name: &str, handler: Box<dyn Handler>, most: u32) {
    let seat = Seat {
        most,
        ..Seat::new(name, Hooks::WIRED, Rng::new(1))
    };
    chain.push(seat, handler);
}

/// Add a handler that holds every packet for this long.
fn hold(chain: &mut Chain, time: Span) {
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
fn rule_of(hook: Hook) -> String {
    let (chain, number) = (hook.name().to_uppercase(), hook.number());
    format!("{chain} -p udp -j NFQUEUE --queue-bypass --queue-num {number}")
}

/// Run `chain` at one hook of `ns` while `work` runs.
fn with<T>(
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
fn told<T>(
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
fn ruled<T>(
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
fn by_tun<T>(
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
fn datagrams(w: &World, count: u32, size: usize, pause: Duration) -> Vec<Vec<u8>> {
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

const MILLISECOND: Duration = Duration::from_millis(1);

fn settings(when_full: Full) -> Settings {
    Settings {
        when_full,
        stall: Span(100_000_000),
        ..Settings::default()
    }
}

#[test]
fn packets_pass_or_stop_when_a_handler_panics() {
    if !privileged() {
        return;
    }
    let w = World::new("panic");
    for full in [Full::Open, Full::Closed] {
        let bad = chain(|n, _| {
            assert!(n < 10, "the handler is broken on purpose");
            Verdict::Accept
        });
        let send = || datagrams(&w, 100, 100, MILLISECOND);
        let (came, report) = with(&w.b, bad, "INPUT", &settings(full), true, send);
        assert_eq!(report.state, "panicked");
        let decided = report.failed_open + report.failed_closed;
        // Those before, too, if their verdicts were in the same batch.
        assert!((91..=100).contains(&decided), "{report:?}");
        match full {
            Full::Open => assert_eq!((came.len(), report.failed_closed), (100, 0)),
            Full::Closed => assert_eq!(came.len() as u64, 100 - report.failed_closed),
        }
    }
}

#[test]
fn packets_pass_or_stop_when_a_handler_stalls() {
    if !privileged() {
        return;
    }
    let w = World::new("stall");
    for full in [Full::Open, Full::Closed] {
        let slow = chain(|n, _| {
            if n == 10 {
                std::thread::sleep(Duration::from_millis(1200));
            }
            Verdict::Accept
        });
        let begun = Instant::now();
        let send = || datagrams(&w, 300, 100, MILLISECOND);
        let (came, report) = with(&w.b, slow, "INPUT", &settings(full), true, send);
        assert_eq!(report.state, "stalled");
        match full {
            // Long before the handler comes back.
            Full::Open => {
                assert_eq!((came.len(), report.failed_closed), (300, 0));
                assert!(begun.elapsed() < Duration::from_millis(2500));
            }
            Full::Closed => assert_eq!(came.len() as u64, 300 - report.failed_closed),
        }
        let decided = report.failed_open + report.failed_closed;
        assert!((291..=300).contains(&decided), "{report:?}");
        // What it does when it comes back disturbs nobody.
        std::thread::sleep(Duration::from_millis(600));
    }
}

#[test]
fn a_buffer_that_overflows_is_counted_and_costs_packets_only_where_asked_for() {
    if !privileged() {
        return;
    }
    let w = World::new("enobufs");
    for full in [Full::Open, Full::Closed] {
        let slow = chain(|_, _| {
            std::thread::sleep(2 * MILLISECOND);
            Verdict::Accept
        });
        let tight = Settings {
            receive_buffer: 4096,
            ..settings(full)
        };
        let send = || datagrams(&w, 200, 1000, MILLISECOND / 10);
        let (came, report) = with(&w.b, slow, "INPUT", &tight, true, send);
        assert_eq!(report.state, "working");
        assert!(report.handlers.overflows > 0, "{report:?}");
        match full {
            Full::Open => {
                assert_eq!(came.len(), 200, "{report:?}");
                let hook = &report.handlers.hooks["input"];
                assert!(hook.passed_unseen > 0, "{report:?}");
                assert_eq!(hook.packets + hook.passed_unseen, 200, "{report:?}");
            }
            Full::Closed => {
                let lost = 200 - came.len() as u64;
                assert!(lost > 0, "{report:?}");
                assert_eq!(report.kernel["input"].dropped_buffer, lost);
            }
        }
    }
}

#[test]
fn packets_that_a_full_queue_let_pass_are_counted_to_the_last() {
    if !privileged() {
        return;
    }
    let w = World::new("full");
    for (length, some) in [(5, true), (4096, false)] {
        let slow = chain(|_, _| {
            std::thread::sleep(MILLISECOND);
            Verdict::Accept
        });
        let short = Settings {
            // The test opens with 100 more, for packets that are held.
            queue_length: length,
            ..settings(Full::Open)
        };
        let send = || datagrams(&w, 1000, 500, MILLISECOND / 10);
        let (came, report) = with(&w.b, slow, "INPUT", &short, true, send);
        assert_eq!(came.len(), 1000, "{report:?}");
        let hook = &report.handlers.hooks["input"];
        assert_eq!(hook.passed_unseen > 0, some, "{report:?}");
        assert_eq!(hook.packets + hook.passed_unseen, 1000, "{report:?}");
        let octets = hook.octets + hook.passed_unseen_octets;
        assert_eq!(octets, 1000 * 528, "{report:?}");
    }
}

#[test]
fn what_is_known_to_have_passed_unseen_is_not_taken_back_by_traffic_at_the_end() {
    if !privileged() {
        return;
    }
    let w = World::new("flow");
    let slow_at_first = chain(|n, _| {
        if n < 200 {
            std::thread::sleep(MILLISECOND);
        }
        Verdict::Accept
    });
    let short = Settings {
        queue_length: 5,
        ..settings(Full::Open)
    };
    let often = Control {
        interval: Some(Span(30_000_000)),
        ..Control::default()
    };
    let mut said = Vec::new();
    let hear = |told| {
        if let Told::Report(report) = told {
            let hook = report.handlers.hooks.get("input");
            said.push(hook.map_or(0, |h| h.passed_unseen));
        }
    };
    let over = AtomicBool::new(false);
    let sender = sender(&w);
    let send = || sender.send_to(&[0; 100], (B, PORT)).expect("send");
    let last = std::thread::scope(|scope| {
        let work = || {
            for _ in 0..1000 {
                send();
            }
            std::thread::sleep(1500 * MILLISECOND);
            // It goes on until the very end, and beyond.
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    send();
                    std::thread::sleep(MILLISECOND / 10);
                }
            });
            std::thread::sleep(300 * MILLISECOND);
        };
        let ((), last) = told(
            &w.b,
            slow_at_first,
            "INPUT",
            &short,
            true,
            &often,
            hear,
            work,
        );
        over.store(true, Ordering::Relaxed);
        last
    });
    let known = said[..said.len() - 1].iter().copied().max();
    let known = known.expect("reports");
    assert!(known > 500, "{said:?}");
    let unseen = last.handlers.hooks["input"].passed_unseen;
    assert!(unseen >= known, "{unseen}: {said:?}");
}

/// A socket of b, in whose buffer all packets have room. One for all of a test: whoever forks
/// meanwhile keeps its port for a moment.
fn roomy(w: &World) -> UdpSocket {
    let at = || UdpSocket::bind((B, PORT)).expect("socket");
    let receiver = w.b.run(at).expect("namespace");
    let patience = Some(300 * MILLISECOND);
    receiver.set_read_timeout(patience).expect("timeout");
    let buffer = rustix::net::sockopt::set_socket_recv_buffer_size_force(&receiver, 1 << 26);
    buffer.expect("room");
    receiver
}

/// A socket of a, to send from.
fn sender(w: &World) -> UdpSocket {
    let at = || UdpSocket::bind((A, 0)).expect("socket");
    w.a.run(at).expect("namespace")
}

/// How many wait in it.
fn count(receiver: &UdpSocket) -> u64 {
    let came = (0..).take_while(|_| receive(receiver, &mut [0; 200]).is_ok());
    came.count() as u64
}

#[test]
fn what_still_waits_at_the_end_passes_or_is_dropped_and_is_counted() {
    if !privileged() {
        return;
    }
    let w = World::new("end");
    let receiver = roomy(&w);
    const COUNT: u64 = 150;
    for (what, state) in [
        ("slow", "working"),
        ("hangs", "working"),
        ("panics", "panicked"),
    ] {
        for full in [Full::Open, Full::Closed] {
            let bad = chain(move |n, _| {
                assert!(what != "panics" || n < 20, "broken on purpose");
                let hangs = what == "hangs" && n == 10;
                std::thread::sleep(if hangs { 1500 } else { 8 } * MILLISECOND);
                Verdict::Accept
            });
            let settings = Settings {
                stall: Span(5_000_000_000),
                ..settings(full)
            };
            let sender = sender(&w);
            let burst = || {
                for _ in 0..COUNT {
                    sender.send_to(&[0; 100], (B, PORT)).expect("send");
                }
            };
            let ((), report) = with(&w.b, bad, "INPUT", &settings, true, burst);
            let came = count(&receiver);
            assert_eq!(report.state, state, "{what}");
            match full {
                Full::Open => {
                    assert_eq!(
                        (came, report.failed_closed),
                        (COUNT, 0),
                        "{what}: {report:?}"
                    );
                    assert!(report.failed_open > 10, "{what}: {report:?}");
                }
                Full::Closed => {
                    assert_eq!(came + report.failed_closed, COUNT, "{what}: {report:?}");
                    assert_eq!(report.failed_open, 0, "{what}");
                }
            }
            assert_eq!(report.kernel["input"].waiting, 0, "{what}");
        }
    }
}

#[test]
fn what_comes_while_the_rules_go_is_counted_also_when_handlers_failed_before() {
    if !privileged() {
        return;
    }
    let w = World::new("late");
    let receiver = roomy(&w);
    const LATE: u64 = 4000;
    for full in [Full::Open, Full::Closed] {
        let bad = chain(|_, _| panic!("broken on purpose"));
        // They go one by one, and the one that matters is the last.
        let others = (1..=80).map(|port| {
            format!("INPUT -p tcp --dport {port} -j NFQUEUE --queue-bypass --queue-num 0")
        });
        let rules: Vec<String> = others.chain([rule_of(Hook::Input)]).collect();
        let long = Settings {
            queue_length: 100_000,
            receive_buffer: 1 << 26,
            ..settings(full)
        };
        let sender = sender(&w);
        let send = || sender.send_to(&[0; 100], (B, PORT)).expect("send");
        let report = std::thread::scope(|scope| {
            let work = || {
                send();
                std::thread::sleep(100 * MILLISECOND);
                scope.spawn(|| {
                    std::thread::sleep(50 * MILLISECOND);
                    for n in 0..LATE {
                        send();
                        // A backlog that all namespaces share has room for 1000.
                        if n % 100 == 0 {
                            std::thread::sleep(MILLISECOND);
                        }
                    }
                });
            };
            let quiet = Control::default();
            ruled(&w.b, bad, &rules, &long, true, &quiet, |_| {}, work).1
        });
        let came = count(&receiver);
        assert_eq!(report.state, "panicked");
        let (open, closed) = (report.failed_open, report.failed_closed);
        // Those of the last moments find no rule any more.
        assert!(
            (LATE / 4 * 3..=LATE + 1).contains(&(open + closed)),
            "{report:?}"
        );
        match full {
            Full::Open => assert_eq!((came, closed), (LATE + 1, 0), "{report:?}"),
            Full::Closed => assert_eq!((came + closed, open), (LATE + 1, 0), "{report:?}"),
        }
    }
}

#[test]
fn what_is_held_at_the_end_is_waited_for_and_what_remains_is_counted() {
    if !privileged() {
        return;
    }
    let w = World::new("wait");
    let receiver = roomy(&w);
    const COUNT: u64 = 50;
    // Less than the time that is left, and more.
    for (ms, in_time) in [(120, true), (3000, false)] {
        for full in [Full::Open, Full::Closed] {
            let mut chain = Chain::new();
            hold(&mut chain, Span(ms * 1_000_000));
            let sender = sender(&w);
            let burst = || {
                for _ in 0..COUNT {
                    sender.send_to(&[0; 100], (B, PORT)).expect("send");
                }
            };
            let ((), report) = with(&w.b, chain, "INPUT", &settings(full), true, burst);
            let came = count(&receiver);
            let hook = &report.handlers.hooks["input"];
            assert_eq!((hook.packets, hook.held), (COUNT, COUNT), "{report:?}");
            assert_eq!(hook.dropped, 0, "{report:?}");
            let failed = if in_time { 0 } else { COUNT };
            assert_eq!(hook.accepted + failed, COUNT, "{ms} {report:?}");
            let (came_wanted, counts) = match full {
                Full::Open => (COUNT, (failed, 0)),
                Full::Closed => (hook.accepted, (0, failed)),
            };
            assert_eq!(came, came_wanted, "{ms} {report:?}");
            let counted = (report.failed_open, report.failed_closed);
            assert_eq!(counted, counts, "{ms} {report:?}");
            assert_eq!(report.kernel["input"].waiting, 0, "{report:?}");
            let held = (report.handlers.held_now, report.handlers.held_octets);
            assert_eq!(held, (0, 0), "{report:?}");
            assert_eq!(hook.passed_unseen, 0, "{report:?}");
        }
    }
}

#[test]
fn packets_that_a_slow_handler_has_yet_to_see_are_not_taken_for_unseen_ones() {
    if !privileged() {
        return;
    }
    let w = World::new("slow");
    // Batches of 32 take less time than a report waits, and more.
    for (each, count) in [(2, 600), (5, 300)] {
        let slow = chain(move |_, _| {
            std::thread::sleep(each * MILLISECOND);
            Verdict::Accept
        });
        let often = Control {
            interval: Some(Span(30_000_000)),
            ..Control::default()
        };
        let mut reports = Vec::new();
        let hear = |told| {
            if let Told::Report(report) = told {
                reports.push(report);
            }
        };
        let send = || datagrams(&w, count, 500, MILLISECOND / 10);
        let settings = settings(Full::Open);
        let (came, last) = told(&w.b, slow, "INPUT", &settings, true, &often, hear, send);
        assert_eq!(came.len(), count as usize, "{last:?}");
        assert!(reports.len() > 5, "{last:?}");
        for report in &reports {
            let hook = report.handlers.hooks.get("input");
            assert_eq!(hook.map_or(0, |h| h.passed_unseen), 0, "{report:?}");
        }
        assert_eq!(last.handlers.hooks["input"].packets, u64::from(count));
    }
}

#[test]
fn what_a_handler_changes_arrives_with_a_right_checksum() {
    if !privileged() {
        return;
    }
    let w = World::new("change");
    // At OUTPUT, with super-packets, checksums are not filled in yet; otherwise the kernel has
    // done so before we see the packet. At INPUT they have crossed the link.
    for (ns, hook, super_packets) in [
        (&w.a, "OUTPUT", true),
        (&w.a, "OUTPUT", false),
        (&w.b, "INPUT", true),
        (&w.b, "INPUT", false),
    ] {
        let mark = chain(|n, packet| {
            if n % 2 == 0 {
                packet.octets_mut()[40] = 0x77;
            } else {
                let longer = [packet.octets(), &[1, 2, 3]].concat();
                packet.replace(&longer);
            }
            Verdict::Accept
        });
        let send = || datagrams(&w, 100, 101, MILLISECOND);
        let (came, report) = with(ns, mark, hook, &settings(Full::Open), super_packets, send);
        assert_eq!(came.len(), 100, "{hook} {super_packets}: {report:?}");
        for (i, octets) in came.iter().enumerate() {
            if i % 2 == 0 {
                assert_eq!((octets.len(), &octets[101..]), (104, &[1, 2, 3][..]));
            } else {
                assert_eq!((octets.len(), octets[12]), (101, 0x77));
            }
        }
        let name = hook.to_lowercase();
        assert_eq!(report.handlers.hooks[name.as_str()].changed, 100);
    }
}

#[test]
fn what_changes_a_held_packet_leaves_a_right_checksum() {
    if !privileged() {
        return;
    }
    let w = World::new("held");
    let mark = || {
        let mark = |_, packet: &mut Packet<'_>| {
            packet.octets_mut()[40] = 0x77;
            Verdict::Accept
        };
        Box::new(Ask(0, mark))
    };
    let change = |chain: &mut Chain| {
        seat(chain, "mark", mark(), 0);
    };
    for super_packets in [true, false] {
        for (first, memory) in [(true, 1 << 20), (false, 1 << 20), (true, 0)] {
            let mut both = Chain::new();
            if first {
                change(&mut both);
            }
            hold(&mut both, Span(2_000_000));
            if !first {
                change(&mut both);
            }
            let open = Settings {
                held_octets: memory,
                ..settings(Full::Open)
            };
            let send = || datagrams(&w, 50, 101, MILLISECOND);
            let (came, report) = with(&w.a, both, "OUTPUT", &open, super_packets, send);
            assert_eq!(came.len(), 50, "{super_packets} {first}: {report:?}");
            assert!(came.iter().all(|octets| octets[12] == 0x77), "{memory}");
            let (held, lost) = if memory > 0 { (50, 0) } else { (0, 50) };
            assert_eq!(report.handlers.hooks["output"].held, held);
            assert_eq!(report.handlers.no_memory, lost);
        }
    }
}

/// Drops every packet and sends its copy instead; the first time also what cannot leave.
struct Instead;

impl Handler for Instead {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        packet.octets_mut()[40] = 0x55;
        let copy = packet.copy().expect("room for a copy");
        if cx.now > Time(0) && packet.octets()[31] == 0 {
            let nowhere = Neighbour::new(9999, [2; 6]).expect("a device");
            cx.send_kept(copy, true, LinkTo::Neighbour(nowhere));
            cx.send(&[0x45, 1, 2], LinkTo::Route);
        }
        cx.send_kept(copy, false, LinkTo::Route);
        Verdict::Drop("its copy goes instead")
    }
}

#[test]
fn what_a_handler_sends_meets_all_but_itself_and_arrives() {
    if !privileged() {
        return;
    }
    let w = World::new("send");
    let rules = [rule_of(Hook::Output), rule_of(Hook::Postrouting)];
    for super_packets in [true, false] {
        let mut both = Chain::new();
        // Room for all, which may come at once.
        seat(&mut both, "instead", Box::new(Instead), 50);
        let mark = |_, packet: &mut Packet<'_>| {
            packet.octets_mut()[41] = 0x77;
            Verdict::Accept
        };
        seat(&mut both, "mark", Box::new(Ask(0, mark)), 0);
        let send = || datagrams(&w, 50, 101, MILLISECOND);
        let open = settings(Full::Open);
        let quiet = Control::default();
        let (came, report) = ruled(
            &w.a,
            both,
            &rules,
            &open,
            super_packets,
            &quiet,
            |_| {},
            send,
        );
        assert_eq!(came.len(), 50, "{super_packets}: {report:?}");
        assert!(came.iter().all(|o| (o[12], o[13]) == (0x55, 0x77)));
        let [instead, mark] = &report.handlers.handlers[..] else {
            panic!("{report:?}")
        };
        assert_eq!((instead.packets, instead.kept, instead.sent), (50, 50, 52));
        assert_eq!(instead.dropped["its copy goes instead"], 50);
        assert_eq!(instead.dropped[NO_LINK], 1);
        assert_eq!(instead.dropped["sent, but no packet or too long"], 1);
        // What found no link, too.
        assert_eq!((mark.packets, mark.changed), (51, 51));
        assert_eq!(report.handlers.hooks["output"].accepted, 50, "{report:?}");
    }
}

/// Why nothing leaves to a neighbour on a device that is not there.
const NO_LINK: &str = "sent to a neighbour, but its device is gone, down or no Ethernet";

/// Sends a copy of each packet to `0`, too.
struct Twice(LinkTo);

impl Handler for Twice {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        // As many as are sent: they may all come at once.
        let copy = packet.copy().expect("room for a copy");
        cx.send_kept(copy, false, self.0);
        Verdict::Accept
    }
}

/// B's station, as a knows it.
fn station_of_b(w: &World) -> Neighbour {
    let said =
        w.b.command("ip")
            .expect("namespace")
            .args(["-o", "link"])
            .output();
    let said = String::from_utf8(said.expect("ip").stdout).expect("text");
    let line = said.lines().find(|l| l.contains("eth0")).expect("eth0");
    let (_, mac) = line.split_once("link/ether ").expect("an address");
    let octets = mac.split(' ').next().expect("an address").split(':');
    let octets: Vec<u8> = octets
        .map(|o| u8::from_str_radix(o, 16).expect("hex"))
        .collect();
    let index = || {
        let fd = UdpSocket::bind(("127.0.0.1", 0)).expect("socket");
        rustix::net::netdevice::name_to_index(&fd, "eth0").expect("eth0")
    };
    let index = w.a.run(index).expect("namespace");
    let index = u16::try_from(index).expect("a small number");
    Neighbour::new(index, octets.try_into().expect("six")).expect("a device")
}

/// How many of twenty datagrams and their copies come, with a copy of each `to`.
fn doubled(w: &World, to: LinkTo, tun: bool, after: impl FnOnce(&mut Chain)) -> (u64, Report) {
    let mut both = Chain::new();
    let seat = Seat {
        most: 20,
        ..Seat::new("twice", Hooks::of(&[Hook::Output]), Rng::new(1))
    };
    both.push(seat, Box::new(Twice(to)));
    after(&mut both);
    let receiver = roomy(w);
    let sender = sender(w);
    let send = || {
        for _ in 0..20 {
            sender.send_to(&[0x33; 100], (B, PORT)).expect("send");
            std::thread::sleep(MILLISECOND);
        }
        // Before the end, which knows no mercy with what is held.
        std::thread::sleep(100 * MILLISECOND);
    };
    let open = settings(Full::Open);
    let ((), report) = if tun {
        by_tun(&w.a, both, &open, send)
    } else {
        let rules = [rule_of(Hook::Output), rule_of(Hook::Postrouting)];
        let quiet = Control::default();
        ruled(&w.a, both, &rules, &open, false, &quiet, |_| {}, send)
    };
    (count(&receiver), report)
}

#[test]
fn what_a_handler_sends_to_a_neighbour_or_to_all_arrives_or_is_counted() {
    if !privileged() {
        return;
    }
    let nowhere = Neighbour::new(9999, [2; 6]).expect("a device");
    let nowhere = LinkTo::Neighbour(nowhere);
    for tun in [false, true] {
        for (near, to, came, lost) in [
            (true, LinkTo::Route, 40, 0),
            (false, LinkTo::All, 40, 0),
            (false, nowhere, 20, 20),
            (false, LinkTo::Route, 40, 0),
        ] {
            // Whoever forks meanwhile keeps port and device for a moment.
            let w = World::new("near");
            let to = if near {
                LinkTo::Neighbour(station_of_b(&w))
            } else {
                to
            };
            let (count, report) = doubled(&w, to, tun, |_| {});
            assert_eq!(count, came, "{tun} {to:?}: {report:?}");
            let twice = &report.handlers.handlers[0];
            assert_eq!((twice.packets, twice.sent), (20, 20), "{tun} {to:?}");
            let unsent = twice.dropped.get(NO_LINK).copied();
            assert_eq!(unsent.unwrap_or(0), lost, "{tun} {to:?}: {report:?}");
            assert_eq!(twice.dropped.len(), usize::from(lost > 0), "{report:?}");
        }
    }
}

#[test]
fn handlers_at_postrouting_are_asked_about_what_goes_to_a_neighbour() {
    if !privileged() {
        return;
    }
    let w = World::new("asked");
    let b = LinkTo::Neighbour(station_of_b(&w));
    let at_postrouting = |chain: &mut Chain, handler: Box<dyn Handler>| {
        let hooks = Hooks::of(&[Hook::Postrouting]);
        chain.push(Seat::new("last", hooks, Rng::new(1)), handler);
    };
    let every_other = |n: u32, _: &mut Packet<'_>| match n % 4 {
        // Each packet comes by its queue, and its copy is asked about before or after.
        0 => Verdict::Drop("every fourth"),
        _ => Verdict::Accept,
    };
    let (came, report) = doubled(&w, b, false, |chain| {
        at_postrouting(chain, Box::new(Ask(0, every_other)));
    });
    let last = &report.handlers.handlers[1];
    assert_eq!((last.packets, last.dropped["every fourth"]), (40, 10));
    assert_eq!(came, 30, "{report:?}");
    assert_eq!(
        report.handlers.hooks["postrouting"].packets, 20,
        "{report:?}"
    );
    // Held there, they leave later.
    let w = World::new("asked2");
    let b = LinkTo::Neighbour(station_of_b(&w));
    let (came, report) = doubled(&w, b, false, |chain| hold(chain, Span(3_000_000)));
    assert_eq!(came, 40, "{report:?}");
    // The packet at both hooks, its copy at the second.
    assert_eq!(report.handlers.handlers[1].held, 60, "{report:?}");
    assert_eq!(report.handlers.held_now, 0);
}

#[test]
fn by_tun_packets_pass_or_stop_when_a_handler_fails() {
    if !privileged() {
        return;
    }
    for full in [Full::Open, Full::Closed] {
        for (panics, state) in [(true, "panicked"), (false, "stalled")] {
            // Whoever forks meanwhile keeps the device for a moment.
            let w = World::new("tunfail");
            let bad = chain(move |n, _| {
                assert!(n < 10 || !panics, "the handler is broken on purpose");
                if n == 10 {
                    std::thread::sleep(Duration::from_millis(1200));
                }
                Verdict::Accept
            });
            let send = || datagrams(&w, 300, 100, MILLISECOND);
            let (came, report) = by_tun(&w.a, bad, &settings(full), send);
            assert_eq!(report.state, state);
            match full {
                Full::Open => assert_eq!((came.len(), report.failed_open), (300, 291)),
                Full::Closed => assert_eq!((came.len(), report.failed_closed), (9, 291)),
            }
        }
    }
}

#[test]
fn by_tun_what_still_waits_at_the_end_passes_or_is_dropped_and_is_counted() {
    if !privileged() {
        return;
    }
    for full in [Full::Open, Full::Closed] {
        // Whoever forks meanwhile keeps the device for a moment.
        let w = World::new("tunend");
        let receiver = roomy(&w);
        let slow = chain(|_, _| {
            std::thread::sleep(8 * MILLISECOND);
            Verdict::Accept
        });
        let sender = sender(&w);
        let burst = || {
            for _ in 0..150 {
                sender.send_to(&[0; 100], (B, PORT)).expect("send");
            }
        };
        let ((), report) = by_tun(&w.a, slow, &settings(full), burst);
        let came = count(&receiver);
        assert_eq!(report.state, "working");
        let left = report.failed_open + report.failed_closed;
        assert!((1..150).contains(&left), "{report:?}");
        match full {
            Full::Open => assert_eq!((came, report.failed_closed), (150, 0)),
            Full::Closed => assert_eq!((came, report.failed_open), (150 - left, 0)),
        }
    }
}

#[test]
fn by_tun_what_finds_the_queue_full_is_dropped_and_counted() {
    if !privileged() {
        return;
    }
    let w = World::new("tunfull");
    let receiver = roomy(&w);
    let slow = chain(|_, _| {
        std::thread::sleep(2 * MILLISECOND);
        Verdict::Accept
    });
    let short = Settings {
        queue_length: 10,
        ..settings(Full::Open)
    };
    let sender = sender(&w);
    let burst = || {
        for _ in 0..500 {
            let _ = sender.send_to(&[0; 100], (B, PORT));
        }
        std::thread::sleep(200 * MILLISECOND);
    };
    let ((), report) = by_tun(&w.a, slow, &short, burst);
    let queue = report.kernel["output"];
    assert!(queue.dropped_full > 0, "{report:?}");
    assert_eq!(queue.packets + queue.dropped_full, 500, "{report:?}");
    assert_eq!(count(&receiver), queue.packets, "{report:?}");
}

#[test]
fn a_queue_that_another_has_is_said_to_be_so() {
    if !privileged() {
        return;
    }
    let w = World::new("taken");
    let open = || {
        let hooks = Hooks::of(&[Hook::Input]);
        let chain = chain(|_, _| Verdict::Accept);
        Interception::open(chain, hooks, &settings(Full::Open), Needs::default())
    };
    let second = w.a.run(|| {
        let _first = open().expect("queue");
        open().err().map(|e| e.to_string())
    });
    let error = second.expect("namespace").expect("an error");
    assert!(error.contains("another program has it"), "{error}");
}

#[test]
fn a_devices_delay_is_what_its_reader_makes_of_it() {
    if !privileged() {
        return;
    }
    let w = World::new("delay");
    let measure = || {
        let (fd, name) = wifu_linux::sys::open_tun("wlan%d").expect("tun");
        // Its solicitations would come first.
        let ipv6 = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
        std::fs::write(ipv6, "1").expect("setting");
        for line in [
            format!("ip link set dev {name} up"),
            format!("ip addr add 10.85.0.1/24 dev {name}"),
        ] {
            output_of(&line).expect("ip");
        }
        let meter = Meter::open(&name, &Setup::default()).expect("meter");
        let socket = UdpSocket::bind(("10.85.0.1", 0)).expect("socket");
        let mut room = [0; 2000];
        let mut before = meter.read().expect("reading");
        assert_eq!(before.samples, 0);
        for (n, ms) in (1..).zip([2, 2, 7, 1, 4]) {
            socket.send_to(&[0; 100], "10.85.0.2:9").expect("send");
            std::thread::sleep(Duration::from_millis(ms));
            rustix::io::read(&fd, &mut room[..]).expect("packet");
            let now = meter.read().expect("reading");
            assert_eq!((now.entered, now.samples, now.dropped), (n, n, 0));
            // On a busy machine a sleep may take longer.
            assert!(
                (ms * 1_000_000..(ms + 50) * 1_000_000).contains(&now.sample),
                "{now:?}"
            );
            let wanted = match n {
                1 => now.sample,
                _ => before.average / 4 * 3 + now.sample / 4,
            };
            assert!(now.average.abs_diff(wanted) < 8, "{before:?} {now:?}");
            before = now;
        }
    };
    w.a.run(measure).expect("namespace");
}

fn queue() -> Setup {
    Setup {
        measure: Measure::Queue,
        ..Setup::default()
    }
}

#[test]
fn segments_are_not_timed_from_where_a_super_packet_began() {
    if !privileged() {
        return;
    }
    let w = World::new("cut");
    let tbf = "qdisc add dev eth0 root tbf rate 1gbit burst 3200 limit 1000000";
    output_of(&format!("tc -n {} {tbf}", w.a.name())).expect("tc");
    // Datagrams in super-packets (UDP_SEGMENT), which the bucket cuts.
    let send = "import socket, time\n\
                s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                s.setsockopt(socket.IPPROTO_UDP, 103, 1000)\n\
                for n in range(200):\n    \
                    s.sendto(bytes(20000), ('10.83.0.2', 9))\n    \
                    time.sleep(0.005)\n";
    let measure = || {
        let meter = Meter::open("eth0", &queue()).expect("meter");
        let mut python = std::process::Command::new("python3");
        let done = python.args(["-c", send]).status().expect("python3");
        assert!(done.success());
        meter.read().expect("reading")
    };
    let reading = w.a.run(measure).expect("namespace");
    assert!(reading.entered >= 200, "{reading:?}");
    // Nobody saw a segment begin; what remains is address resolution and the like.
    assert!(reading.samples <= reading.entered - 200, "{reading:?}");
}

#[test]
fn the_objects_in_the_repository_are_what_the_compiler_makes_of_the_sources() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf");
    if output_of("clang-14 --version").is_err() || output_of("llvm-strip-14 --version").is_err() {
        eprintln!("skipped: no clang-14 and llvm-14 here");
        return;
    }
    let out = std::env::temp_dir().join(format!("wifu-bpf-{}", std::process::id()));
    std::fs::create_dir_all(&out).expect("directory");
    output_of(&format!("{dir}/build.sh {}", out.display())).expect("clang");
    let mut compared = 0;
    for entry in std::fs::read_dir(&out).expect("directory").flatten() {
        let made = std::fs::read(entry.path()).expect("object");
        let kept = std::fs::read(std::path::Path::new(dir).join(entry.file_name()));
        assert!(
            kept.expect("object") == made,
            "{:?}: run bpf/build.sh",
            entry.file_name()
        );
        compared += 1;
    }
    assert!(compared > 0);
    std::fs::remove_dir_all(&out).expect("removal");
}

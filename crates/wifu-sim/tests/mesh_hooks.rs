//! What handlers at a relay see of a packet on its way from hook to hook.

use std::sync::{Arc, Mutex};
use wifu_core::LinkTo;
use wifu_core::{Chain, Full, Handler, Hook, Hooks, HopCx, Packet, Seat, TxStatus, Verdict};
use wifu_sim::mesh::Simulation;
use wifu_sim::scenario::Scenario;
use wifu_wire::{Rng, Span, Time, ipv4};

const SCENARIO: &str = r#"
    [[topology.node]]
    name = "a"
    wired_only = true
    [[topology.node]]
    name = "relay"
    wired_only = true
    [[topology.node]]
    name = "b"
    wired_only = true
    [[topology.wire]]
    a = "a"
    b = "relay"
    rate = "10Mb/s"
    delay = "1ms"
    [[topology.wire]]
    a = "relay"
    b = "b"
    rate = "10Mb/s"
    delay = "1ms"
    [host]
    fwd_cost = "FWD"
    [[flow]]
    from = "a"
    to = "b"
    protocol = "udp"
    rate = "1Mb/s"
    bytes = "20k"
    [stop]
    time = "10s"
"#;

/// (hook, TTL, octet 40) of each packet; a packet whose checksum is wrong has TTL 0.
type Log = Arc<Mutex<Vec<(Hook, u8, u8)>>>;

/// Notes what it sees; at `marks` it changes octet 40; at `holds` it lets go 1 ms later.
struct Notes {
    log: Log,
    marks: Option<Hook>,
    holds: Option<Hook>,
    kept: Vec<u64>,
}

impl Handler for Notes {
    fn on_packet(&mut self, hook: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        let octets = packet.octets();
        let ttl = ipv4::parse(octets).map_or(0, |(ip, _)| ip.ttl);
        self.log.lock().unwrap().push((hook, ttl, octets[40]));
        if self.marks == Some(hook) {
            packet.octets_mut()[40] = 0xEE;
        }
        if self.holds == Some(hook) {
            self.kept.push(packet.ticket);
            cx.arm(0, cx.now + Span::MILLI);
            return Verdict::Hold;
        }
        Verdict::Accept
    }

    fn on_timer(&mut self, _: u8, cx: &mut HopCx<'_>) {
        for ticket in self.kept.drain(..) {
            cx.release(ticket, Verdict::Accept);
        }
    }
}

/// A run with such a handler at these hooks of the relay: what it saw, packets delivered, corrupt
/// octets, packets that it was asked about.
fn run(
    hooks: &[Hook],
    marks: Option<Hook>,
    holds: Option<Hook>,
    cost: &str,
) -> (Vec<(Hook, u8, u8)>, u64, u64, u64) {
    let scenario = Scenario::from_toml(&SCENARIO.replace("FWD", cost)).unwrap();
    let open = |spec: &str| wifu_parts::blueprint(spec).map_err(|e| e.to_string());
    let mut simulation = Simulation::new(&scenario, &open).unwrap();
    let log = Log::default();
    let notes = Notes {
        log: Arc::clone(&log),
        marks,
        holds,
        kept: Vec::new(),
    };
    let mut chain = Chain::new();
    let seat = Seat {
        most: 100,
        full: Full::Closed,
        ..Seat::new("notes", Hooks::of(hooks), Rng::new(1))
    };
    chain.push(seat, Box::new(notes));
    simulation.set_chain(1, chain);
    simulation.run();
    let outcome = simulation.outcome();
    let flow = &outcome.flows[0];
    let seen = log.lock().unwrap().clone();
    let asked = outcome.nodes[1].handlers[0].packets;
    (seen, flow.packets.delivered, flow.corrupt, asked)
}

const WAY: [Hook; 3] = [Hook::Prerouting, Hook::Forward, Hook::Postrouting];

#[test]
fn ttl_and_checksum_are_right_at_every_hook_of_a_passage() {
    for cost in ["0s", "0.1ms"] {
        let (seen, delivered, corrupt, _) = run(&Hook::ALL, None, None, cost);
        assert!(delivered > 10 && corrupt == 0, "{delivered} {corrupt}");
        assert_eq!(seen.len() as u64, 3 * delivered);
        if cost == "0s" {
            for passage in seen.chunks(3) {
                assert_eq!([passage[0].0, passage[1].0, passage[2].0], WAY);
            }
        }
        for (hook, ttl, _) in seen {
            let lowered = u8::from(hook == Hook::Postrouting);
            assert_eq!(ttl, ipv4::TTL - lowered, "{hook:?}");
        }
    }
}

#[test]
fn what_one_hook_changed_the_next_ones_and_the_sink_see() {
    for (at, marks) in WAY.into_iter().enumerate() {
        let (seen, delivered, corrupt, _) = run(&Hook::ALL, Some(marks), None, "0s");
        assert_eq!(corrupt, delivered, "one byte each");
        for passage in seen.chunks(3) {
            for (k, (hook, ttl, octet)) in passage.iter().enumerate() {
                assert_eq!(*octet == 0xEE, k > at, "{marks:?} {hook:?}");
                assert_eq!(*ttl, ipv4::TTL - u8::from(*hook == Hook::Postrouting));
            }
        }
    }
}

#[test]
fn a_held_packet_goes_on_as_it_was() {
    for holds in WAY {
        let (seen, delivered, corrupt, asked) = run(&Hook::ALL, None, Some(holds), "0s");
        assert!(delivered > 10 && corrupt == 0, "{holds:?}");
        assert_eq!(asked, 3 * delivered, "not asked again where it was held");
        for (hook, ttl, _) in seen {
            assert_eq!(
                ttl,
                ipv4::TTL - u8::from(hook == Hook::Postrouting),
                "{holds:?}"
            );
        }
    }
}

#[test]
fn only_the_hooks_of_the_chain_are_asked() {
    for hook in Hook::ALL {
        let (seen, delivered, _, asked) = run(&[hook], None, None, "0s");
        let expected = if WAY.contains(&hook) { delivered } else { 0 };
        assert_eq!((seen.len() as u64, asked), (expected, expected), "{hook:?}");
    }
}

/// Writes a line of each transmission, or one at `AT`, when all have long been made.
struct Told {
    late: bool,
}

const AT: Time = Time(1_000_000_000);

impl Handler for Told {
    fn on_packet(&mut self, _: Hook, _: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
        unreachable!("no packet passes")
    }

    fn on_tx_status(&mut self, _: &TxStatus, cx: &mut HopCx<'_>) {
        match self.late {
            true => cx.arm(0, AT),
            false => cx.log("sent".to_string()),
        }
    }

    fn on_timer(&mut self, _: u8, cx: &mut HopCx<'_>) {
        assert_eq!(cx.now, AT);
        cx.log("timer".to_string());
    }
}

#[test]
fn lines_are_kept_of_handlers_that_no_packet_passes() {
    // The second flow has the run go on, and n1 sends nothing of it.
    let flow = |ends: &str, start: &str| {
        format!(
            "[[flow]]\n{ends}\nstart = \"{start}\"\nprotocol = \"udp\"\nrate = \"1Mb/s\"\nbytes = 3000\n"
        )
    };
    let scenario = format!(
        "[topology]\nwords = \"linear,2\"\nset = \"TB-W9\"\n{}{}",
        flow("from = \"n1\"\nto = \"n2\"", "0s"),
        flow("from = \"n2\"\nto = \"n1\"", "2s")
    );
    let scenario = Scenario::from_toml(&scenario).unwrap();
    let open = |spec: &str| wifu_parts::blueprint(spec).map_err(|e| e.to_string());
    for late in [false, true] {
        let mut simulation = Simulation::new(&scenario, &open).unwrap();
        let mut chain = Chain::new();
        let seat = Seat::new("told", Hooks::of(&[Hook::Forward]), Rng::new(1));
        chain.push(seat, Box::new(Told { late }));
        simulation.set_chain(0, chain);
        simulation.run();
        assert!(simulation.outcome().flows.iter().all(|f| f.finished));
        let wanted: &[&str] = if late { &["timer"] } else { &["sent"; 3] };
        let wanted: Vec<_> = wanted.iter().map(|l| (0, l.to_string())).collect();
        assert_eq!(simulation.take_lines(), wanted);
    }
}

/// Sends a copy of each packet that its node forwards.
struct Copier {
    to: fn(&Packet<'_>) -> LinkTo,
}

impl Handler for Copier {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        let copy = packet.copy().expect("a pool can copy");
        cx.send_kept(copy, false, (self.to)(packet));
        Verdict::Accept
    }
}

/// Datagrams over a chain of three.
fn datagrams(bytes: &str) -> Simulation {
    let scenario = format!(
        "[topology]\nwords = \"linear,3\"\nset = \"TB-W9\"\n[radio]\nattempts = 7\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"udp\"\nrate = \"100kb/s\"\n\
         bytes = \"{bytes}\"\n[stop]\ntime = \"10s\"\n"
    );
    let scenario = Scenario::from_toml(&scenario).unwrap();
    let open = |spec: &str| wifu_parts::blueprint(spec).map_err(|e| e.to_string());
    Simulation::new(&scenario, &open).unwrap()
}

fn seat(name: &str, hook: Hook) -> Seat {
    Seat {
        most: 100,
        full: Full::Closed,
        ..Seat::new(name, Hooks::of(&[hook]), Rng::new(1))
    }
}

/// Packets that reached n1 and n3, which stop there, over a relay that sends copies and holds all
/// that leaves it in so many places; and packets that n1 sent.
fn copied(to: fn(&Packet<'_>) -> LinkTo, holders: usize) -> (usize, usize, u64) {
    let mut simulation = datagrams("20k");
    let notes = |log: &Log, holds| Notes {
        log: Arc::clone(log),
        marks: None,
        holds,
        kept: Vec::new(),
    };
    let logs = [Log::default(), Log::default()];
    for (node, log) in [(0, &logs[0]), (2, &logs[1])] {
        let mut chain = Chain::new();
        chain.push(
            seat("ends", Hook::Prerouting),
            Box::new(Ends(Arc::clone(log))),
        );
        simulation.set_chain(node, chain);
    }
    let mut relay = Chain::new();
    relay.push(seat("copier", Hook::Forward), Box::new(Copier { to }));
    for _ in 0..holders {
        let holder = notes(&Log::default(), Some(Hook::Postrouting));
        relay.push(seat("holder", Hook::Postrouting), Box::new(holder));
    }
    simulation.set_chain(1, relay);
    simulation.run();
    let [back, on] = logs.map(|log| log.lock().unwrap().len());
    (back, on, simulation.outcome().flows[0].packets.sent)
}

/// Counts and drops what comes.
struct Ends(Log);

impl Handler for Ends {
    fn on_packet(&mut self, hook: Hook, _: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
        self.0.lock().unwrap().push((hook, 0, 0));
        Verdict::Drop("seen")
    }
}

#[test]
fn a_copy_that_was_held_goes_to_whom_it_was_sent() {
    for holders in 0..3 {
        let (back, on, sent) = copied(|_| LinkTo::Route, holders);
        assert_eq!((back, on as u64), (0, 2 * sent), "{holders} hold it");
        let transmitter = |p: &Packet<'_>| LinkTo::Neighbour(p.transmitter.unwrap());
        let (back, on, sent) = copied(transmitter, holders);
        assert_eq!((back as u64, on as u64), (sent, sent), "{holders} hold it");
        let (back, on, sent) = copied(|_| LinkTo::All, holders);
        assert_eq!(
            (back as u64, on as u64),
            (sent, 2 * sent),
            "{holders} hold it"
        );
    }
}

/// Looks at the TTL of what is about to leave.
struct Ttl(Log);

impl Handler for Ttl {
    fn on_packet(&mut self, hook: Hook, packet: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
        self.0.lock().unwrap().push((hook, packet.octets()[8], 0));
        Verdict::Accept
    }
}

#[test]
fn a_copy_made_before_relaying_has_lost_a_hop_too_when_it_leaves() {
    let mut simulation = datagrams("20k");
    let log = Log::default();
    let mut relay = Chain::new();
    let to = |_: &Packet<'_>| LinkTo::Route;
    relay.push(seat("copier", Hook::Forward), Box::new(Copier { to }));
    relay.push(
        seat("ttl", Hook::Postrouting),
        Box::new(Ttl(Arc::clone(&log))),
    );
    simulation.set_chain(1, relay);
    simulation.run();
    let seen = log.lock().unwrap();
    assert!(
        seen.len() > 20 && seen.iter().all(|s| s.1 == seen[0].1),
        "{seen:?}"
    );
}

#[test]
fn what_was_sent_to_all_and_held_on_the_way_in_is_relayed_by_nobody() {
    let mut simulation = datagrams("20k");
    let log = Log::default();
    let mut first = Chain::new();
    let to = |_: &Packet<'_>| LinkTo::All;
    first.push(seat("copier", Hook::Output), Box::new(Copier { to }));
    simulation.set_chain(0, first);
    let mut relay = Chain::new();
    let holder = Notes {
        log: Log::default(),
        marks: None,
        holds: Some(Hook::Prerouting),
        kept: Vec::new(),
    };
    relay.push(seat("holder", Hook::Prerouting), Box::new(holder));
    relay.push(seat("ttl", Hook::Forward), Box::new(Ttl(Arc::clone(&log))));
    simulation.set_chain(1, relay);
    simulation.run();
    let packets = simulation.outcome().flows[0].packets;
    assert!(packets.copies > 10 && packets.copies == packets.sent);
    assert_eq!(
        log.lock().unwrap().len() as u64,
        packets.sent,
        "the copies stay"
    );
}

/// Makes each packet longer, or leaves less of it than a header.
struct Stretch(i64);

impl Handler for Stretch {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
        let mut octets = packet.octets().to_vec();
        octets.resize((octets.len() as i64 + self.0).max(24) as usize, 7);
        packet.replace(&octets);
        Verdict::Accept
    }
}

#[test]
fn what_a_handler_makes_too_long_does_not_leave_and_what_is_too_short_is_corrupt() {
    let stretched = |by: i64| {
        let mut simulation = datagrams("29440");
        let mut chain = Chain::new();
        chain.push(seat("stretch", Hook::Output), Box::new(Stretch(by)));
        simulation.set_chain(0, chain);
        simulation.run();
        simulation.outcome().flows[0].clone()
    };
    let long = stretched(1);
    assert_eq!(
        (long.packets.delivered, long.packets.hop),
        (0, long.packets.sent)
    );
    let short = stretched(-5_000);
    assert_eq!(short.packets.delivered, short.packets.sent);
    assert!(short.corrupt > 0 && short.bytes == 0, "{short:?}");
}

/// Asks the way to nobody, and sends a packet there.
struct Astray;

impl Handler for Astray {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        for to in ["255.255.255.255", "192.168.0.3", "10.0.255.255", "10.0.0.0"] {
            let to: std::net::Ipv4Addr = to.parse().unwrap();
            assert!(cx.site.next_hop(to).is_none(), "{to}");
            let mut octets = packet.octets().to_vec();
            octets[16..20].copy_from_slice(&to.octets());
            cx.send(&octets, LinkTo::Route);
        }
        cx.send(&[0x45; 3_000], LinkTo::Route);
        cx.send(&[], LinkTo::Route);
        let mut dead = packet.octets().to_vec();
        dead[8] = 0;
        packet.replace(&dead);
        Verdict::Accept
    }
}

#[test]
fn packets_to_nobody_and_without_ttl_are_lost_and_counted() {
    let mut simulation = datagrams("20k");
    let mut chain = Chain::new();
    chain.push(seat("astray", Hook::Prerouting), Box::new(Astray));
    simulation.set_chain(1, chain);
    simulation.run();
    let outcome = simulation.outcome();
    let packets = outcome.flows[0].packets;
    assert_eq!((packets.route, packets.delivered), (packets.sent, 0));
    assert_eq!(outcome.nodes[1].handlers[0].dropped, 2 * packets.sent);
}

#[test]
fn a_sender_knows_when_the_acknowledgement_that_was_held_reaches_it() {
    let known = |more: &str| {
        let text = format!(
            "[topology]\nwords = \"linear,3,wire=2Mb/s,delay=3ms,queue=20\"\n[[flow]]\nfrom = \"n1\"\n\
             to = \"n3\"\nprotocol = \"tcp-newreno\"\napp = \"file\"\nbytes = \"100k\"\n{more}"
        );
        let scenario = Scenario::from_toml(&text).expect("it is sound");
        let mut simulation = Simulation::new(&scenario, &|s: &str| {
            wifu_parts::blueprint(s).map_err(|e| e.to_string())
        })
        .expect("it is sound");
        simulation.run();
        let flow = simulation.outcome().flows.remove(0);
        flow.known_s.expect("it is told") - flow.last_byte_s.expect("it arrived")
    };
    let held =
        "[[handler]]\nuse = \"delay\"\nt = \"50ms\"\nhooks = [\"input\"]\nnodes = [\"n1\"]\n";
    let later = known(held) - known("");
    assert!((later - 0.05).abs() < 1e-4, "{later} s later");
}

/// Changes the last octet of every seventh packet.
struct Spoils(u64);

impl Handler for Spoils {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
        self.0 += 1;
        if self.0.is_multiple_of(7)
            && let Some(last) = packet.octets_mut().last_mut()
        {
            *last ^= 1;
        }
        Verdict::Accept
    }
}

#[test]
fn a_run_says_why_endpoints_dropped_packets() {
    let text = SCENARIO
        .replace("FWD", "0s")
        .replace("\"udp\"", "\"tcp-newreno,profile=wifu-tahoe\"");
    let text = text.replace("rate = \"1Mb/s\"\n", "app = \"file\"\n");
    let scenario = Scenario::from_toml(&text).expect("it is sound");
    let open = |spec: &str| wifu_parts::blueprint(spec).map_err(|e| e.to_string());
    let mut simulation = Simulation::new(&scenario, &open).expect("it is sound");
    let mut chain = Chain::new();
    chain.push(seat("spoils", Hook::Forward), Box::new(Spoils(0)));
    simulation.set_chain(1, chain);
    simulation.run();
    let nodes = simulation.outcome().nodes;
    let spoilt = nodes[1].handlers[0].changed;
    let dropped = [0, 2].map(|n| nodes[n].dropped.get("checksum").copied().unwrap_or(0));
    assert!(spoilt > 2 && nodes[1].dropped.is_empty(), "{nodes:?}");
    assert_eq!(dropped[0] + dropped[1], spoilt);
}

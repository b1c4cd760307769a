//! What handlers change in packets, and what they send of their own.

use crate::common::privileged;
use crate::world::{
    Ask, B, MILLISECOND, PORT, World, by_tun, chain, count, datagrams, hold, roomy, rule_of, ruled,
    seat, sender, settings, with,
};
use std::net::UdpSocket;
use wifu_core::{Chain, Full, Handler, Hook, Hooks, HopCx, Packet, Seat, Verdict};
use wifu_linux::core::Control;
use wifu_linux::core::config::Settings;
use wifu_linux::core::report::Report;
use wifu_wire::{LinkTo, Neighbour, Rng, Span, Time};

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

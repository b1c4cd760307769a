//! Connections over IPv6: what their headers leave of a packet, who takes them, what is refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use wifu_engine::endpoint::{ConnId, Event};
use wifu_engine::{Blueprint, Endpoint, EndpointConfig, State};
use wifu_testkit::seg::{Seg, between};
use wifu_wire::{AnyIpInfo, Flags, Seq, SynOptions, Time};

const CLIENT: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const SERVER: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

fn at(ip: impl Into<IpAddr>, port: u16) -> SocketAddr {
    SocketAddr::new(ip.into(), port)
}

fn blueprint(spec: &str) -> Arc<Blueprint> {
    wifu_parts::blueprint(spec).expect("it is in the library")
}

/// What an end has to send now.
fn sent(end: &mut Endpoint, now: Time) -> Vec<(AnyIpInfo, Vec<u8>)> {
    let mut out = [0; 2_000];
    let next = || {
        let d = end.poll_transmit(now, &mut out)?;
        Some((d.ip, out[..d.len].to_vec()))
    };
    core::iter::from_fn(next).collect()
}

/// Let both ends talk until neither has anything to say; gives what the client sent.
fn talk(ends: &mut [Endpoint; 2], now: &mut Time) -> Vec<(AnyIpInfo, Vec<u8>)> {
    let mut all = Vec::new();
    loop {
        *now = Time(now.0 + 1_000_000);
        let mut silent = true;
        for from in [0, 1] {
            for (ip, bytes) in sent(&mut ends[from], *now) {
                silent = false;
                ends[1 - from].handle_packet(*now, &ip, &bytes);
                if from == 0 {
                    all.push((ip, bytes));
                }
            }
        }
        if silent {
            return all;
        }
    }
}

fn accepted(end: &mut Endpoint) -> Vec<ConnId> {
    let events = core::iter::from_fn(|| end.poll_event());
    let accepted = events.filter(|(_, e)| matches!(e, Event::Accepted(_)));
    accepted.map(|(id, _)| id).collect()
}

#[test]
fn data_fill_what_the_longer_header_leaves_and_arrive() {
    for spec in ["tcp-newreno,timestamps=off", "tcp-cubic"] {
        let b = blueprint(spec);
        let mut ends = [(); 2].map(|()| Endpoint::new(EndpointConfig::default()));
        let mut now = Time(1);
        ends[1].listen(&b, at(SERVER, 80), 4).expect("free");
        let id = ends[0]
            .connect(now, &b, at(CLIENT, 0), at(SERVER, 80))
            .expect("it can");
        let syn = sent(&mut ends[0], now).remove(0);
        assert_eq!((syn.0.src, syn.0.dst), (CLIENT.into(), SERVER.into()));
        // MSS: kind 2, length 4, 1500 - 40 - 20 (RFC 9293 3.7.1).
        let announced = syn.1[20..].windows(4).any(|w| w == [2, 4, 5, 160]);
        assert!(announced, "{:?}", syn.1);
        ends[1].handle_packet(now, &syn.0, &syn.1);
        talk(&mut ends, &mut now);
        let [there] = accepted(&mut ends[1])[..] else {
            panic!("one connection");
        };
        let data: Vec<u8> = (0..20_000u32).map(|i| (i * 7) as u8).collect();
        let mut read: Vec<u8> = Vec::new();
        let mut longest = 0;
        let mut written = 0;
        while read.len() < data.len() {
            written += ends[0].write(now, id, &data[written..]);
            let packets = talk(&mut ends, &mut now);
            longest = packets
                .iter()
                .map(|p| p.1.len())
                .max()
                .unwrap_or(0)
                .max(longest);
            let mut piece = [0; 30_000];
            let n = ends[1].read(now, there, &mut piece);
            read.extend(&piece[..n]);
        }
        assert_eq!(read, data, "{spec}");
        assert_eq!(longest, 1500 - 40, "{spec}: a full segment and its header");
    }
}

/// A SYN of a stranger that says nothing of the size of segments.
fn syn() -> Seg {
    Seg {
        ports: (9, 80),
        flags: Flags::SYN,
        seq: Seq(7),
        window: 1_000,
        options: SynOptions::default(),
        ..Seg::default()
    }
}

#[test]
fn who_offers_no_mss_gets_what_every_network_carries() {
    let b = blueprint("tcp-newreno");
    let v4 = Ipv4Addr::new(10, 0, 0, 1);
    for (from, to, mss) in [
        (IpAddr::from(CLIENT), IpAddr::from(SERVER), 1220),
        (v4.into(), Ipv4Addr::new(10, 0, 0, 2).into(), 536),
    ] {
        let mut end = Endpoint::new(EndpointConfig::default());
        end.listen(&b, at(to, 80), 4).expect("free");
        let ip = between(at(from, 9), at(to, 80), b.number);
        end.handle_packet(Time(1), &ip, &syn().bytes(&ip));
        let id = end.conns().next().expect("an embryo");
        assert_eq!(end.conn(id).expect("it").board().conn.mss, mss, "{from}");
    }
}

#[test]
fn a_listener_may_have_an_address_of_each_family() {
    let b = blueprint("tcp-sack");
    let mut end = Endpoint::new(EndpointConfig::default());
    let [v4, v6] = [at(Ipv4Addr::UNSPECIFIED, 80), at(Ipv6Addr::UNSPECIFIED, 80)];
    let id = end.listen(&b, v4, 4).expect("free");
    let ends = [
        (at(CLIENT, 9), at(SERVER, 80)),
        (
            at(Ipv4Addr::new(10, 0, 0, 1), 9),
            at(Ipv4Addr::new(10, 0, 0, 2), 80),
        ),
    ];
    let comes = |end: &mut Endpoint, (from, to)| {
        let before = end.len();
        let ip = between(from, to, b.number);
        end.handle_packet(Time(1), &ip, &syn().bytes(&ip));
        end.len() - before
    };
    assert_eq!(comes(&mut end, ends[0]), 0, "of IPv4 it is alone");
    end.listen_also(id, v6).expect("free");
    assert!(end.listen_also(id, v6).is_err(), "it has it");
    assert!(end.listen(&b, v6, 4).is_err(), "who has it has it");
    for pair in ends {
        assert_eq!(comes(&mut end, pair), 1, "{pair:?}");
    }
    let states = end.conns().map(|id| end.conn(id).expect("it").state());
    assert!(states.eq([State::SynRcvd; 2]));
    end.unlisten(id);
    assert!(end.is_empty());
    for pair in ends {
        assert_eq!(comes(&mut end, pair), 0, "{pair:?}");
    }
    end.listen(&b, v6, 4).expect("free again");
    assert_eq!(comes(&mut end, ends[1]), 0, "of IPv6 it is alone");
    assert_eq!(comes(&mut end, ends[0]), 1);
}

#[test]
fn groups_and_what_is_none_of_ours_are_dropped_and_counted() {
    let b = blueprint("tcp-reno");
    let mut end = Endpoint::new(EndpointConfig::default());
    end.listen(&b, at(Ipv6Addr::UNSPECIFIED, 80), 4)
        .expect("free");
    let mapped = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped();
    let group = "ff02::1".parse().expect("address");
    for (n, (from, to)) in [
        (group, SERVER),
        (CLIENT, group),
        (mapped, SERVER),
        (Ipv6Addr::UNSPECIFIED, SERVER),
    ]
    .into_iter()
    .enumerate()
    {
        let ip = between(at(from, 9), at(to, 80), b.number);
        end.handle_packet(Time(1), &ip, &syn().bytes(&ip));
        assert_eq!(end.drops()["group address"], n as u64 + 1, "{from} {to}");
    }
    // Sealed for another address.
    let ip = between(at(CLIENT, 9), at(SERVER, 80), b.number);
    let other = AnyIpInfo {
        src: "fd00::9".parse().expect("address"),
        ..ip
    };
    end.handle_packet(Time(1), &other, &syn().bytes(&ip));
    assert_eq!((end.drops()["checksum"], end.len()), (1, 0));
    // Nobody listens there: refused, by the address that was asked.
    let ip = between(at(CLIENT, 9), at(SERVER, 81), b.number);
    let asked = Seg {
        ports: (9, 81),
        ..syn()
    };
    end.handle_packet(Time(1), &ip, &asked.bytes(&ip));
    let [(ip, reset)] = &sent(&mut end, Time(1))[..] else {
        panic!("an answer");
    };
    assert_eq!(
        (ip.src, ip.dst, reset[13] & 4),
        (SERVER.into(), CLIENT.into(), 4)
    );
}

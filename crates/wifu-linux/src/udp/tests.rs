use super::*;
use crate::carrier::{BATCH, Carrier};
use crate::poller::{Coalesce, Poller};
use core::net::Ipv4Addr;
use std::time::Duration;
use wifu_wire::Ecn;
use wifu_wire::Time;

const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

fn open(config: &UdpConfig) -> (Carrier, Poller) {
    let mut carrier = Carrier::udp(config).expect("carrier");
    let poller = Poller::new(Coalesce::OFF).expect("poller");
    carrier.attach(&poller, 0).expect("watched");
    (carrier, poller)
}

fn at(port: u16) -> UdpConfig {
    UdpConfig {
        port,
        ..UdpConfig::new(vec![214])
    }
}

fn to(dst: Ipv4Addr) -> IpInfo {
    IpInfo {
        src: Ipv4Addr::new(127, 0, 0, 5),
        dst,
        proto: 214,
        ttl: ipv4::TTL,
        ecn: Ecn::NotEct,
    }
}

/// Queue a segment of so many octets, all the same.
fn put(carrier: &mut Carrier, ip: &IpInfo, octet: usize, len: usize) {
    let segment = vec![octet as u8; len];
    carrier.load(&ip.any(), &segment).expect("room");
}

/// What came until nothing more comes: payloads and the facts of their headers.
fn all(carrier: &mut Carrier, poller: &mut Poller, watched: usize) -> Vec<(IpInfo, Vec<u8>)> {
    let (mut came, mut events) = (Vec::new(), Vec::new());
    loop {
        let until = Time(Poller::now().0 + Duration::from_millis(100).as_nanos() as u64);
        poller.wait(until, 0, &mut events).expect("wait");
        if events.is_empty() {
            return came;
        }
        (0..watched).for_each(|i| carrier.mark_ready(i));
        while let Some(packets) = carrier.receive() {
            came.extend(packets.map(|p| (p.ip.v4().expect("IPv4"), p.payload.to_vec())));
        }
    }
}

#[test]
fn marks_and_who_understands_them_stay_with_each_packet() {
    let port = free_port();
    let (mut carrier, mut poller) = open(&at(port));
    let fields = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::Ect1];
    let sent: Vec<IpInfo> = (0..BATCH)
        .map(|n| IpInfo {
            ecn: fields[n / 2 % fields.len()],
            ..to(Ipv4Addr::new(127, 0, 0, 9))
        })
        .collect();
    for (n, ip) in sent.iter().enumerate() {
        put(&mut carrier, ip, n, 1000);
    }
    carrier.flush();
    let came = all(&mut carrier, &mut poller, 1);
    let came: Vec<IpInfo> = came.into_iter().map(|(ip, _)| ip).collect();
    assert_eq!(came, sent);
}

/// Have another port.
fn adopt(carrier: &mut Carrier, poller: &Poller, port: u16) {
    let fd = ports::open(port, 1 << 20).expect("socket");
    carrier.adopt((port, fd), (poller, 0)).expect("watched");
}

fn free_port() -> u16 {
    let socket = std::net::UdpSocket::bind((HERE, 0)).expect("socket");
    socket.local_addr().expect("address").port()
}

#[test]
fn a_packet_comes_as_it_left_and_what_is_none_is_counted() {
    let port = free_port();
    let (mut carrier, mut poller) = open(&at(port));
    assert_eq!(carrier.mtu(), 1500);
    let ip = to(Ipv4Addr::new(127, 0, 0, 9));
    for n in 0..2 * BATCH {
        put(&mut carrier, &ip, n, 1000 - n % 2);
    }
    carrier.flush();
    let came = all(&mut carrier, &mut poller, 1);
    assert_eq!(came.len(), 2 * BATCH);
    for (n, (info, payload)) in came.iter().enumerate() {
        assert_eq!((info, payload), (&ip, &vec![n as u8; 1000 - n % 2]));
    }
    let stranger = std::net::UdpSocket::bind((HERE, 0)).expect("socket");
    let long = [&[2, 1, 0, 214][..], &[0; 3000]].concat();
    let bad: [&[u8]; 7] = [
        &[],
        &[2, 1, 0],
        &[1, 1, 0, 214, 9],
        &[2, 2, 0, 214, 9],
        &[2, 1, 1, 214, 9],
        &[2, 1, 0, 6, 9],
        &long,
    ];
    for payload in bad {
        stranger.send_to(payload, (HERE, port)).expect("send");
    }
    stranger
        .send_to(&[2, 1, 0, 214, 7], (HERE, port))
        .expect("send");
    let came = all(&mut carrier, &mut poller, 1);
    let last: Vec<_> = came.iter().map(|(_, payload)| &payload[..]).collect();
    assert_eq!(last, [[7]]);
    let counters = carrier.counters();
    assert_eq!((counters.foreign, counters.truncated), (6, 1));
    assert_eq!(counters.received, 2 * BATCH as u64 + 1);
}

#[test]
fn a_port_that_another_has_is_an_error() {
    let port = free_port();
    let (_carrier, _) = open(&at(port));
    let error = Carrier::udp(&at(port)).err().map(|e| e.kind());
    assert_eq!(error, Some(io::ErrorKind::AddrInUse));
}

/// What a carrier counted after it sent a batch to itself, and what of it came.
fn batch(config: &UdpConfig, spoil: impl Fn(&Carrier)) -> (Counters, usize, String) {
    let (mut carrier, mut poller) = open(config);
    spoil(&carrier);
    // Groups of 20: two ends, and shorter ones between.
    for n in 0..BATCH {
        let last = 9 + (n / 20 % 2) as u8;
        let ip = to(Ipv4Addr::new(127, 0, 0, last));
        put(&mut carrier, &ip, n, 1000 - n % 20 / 19);
    }
    carrier.flush();
    let came = all(&mut carrier, &mut poller, 1);
    for (n, (info, payload)) in came.iter().enumerate() {
        assert_eq!(info.dst.octets()[3], 9 + (n / 20 % 2) as u8);
        assert_eq!(payload, &vec![n as u8; 1000 - n % 20 / 19], "packet {n}");
    }
    (carrier.counters(), came.len(), carrier.described())
}

#[test]
fn a_batch_takes_few_calls_with_and_without_groups() {
    for offload in [true, false] {
        let config = UdpConfig {
            offload,
            ..at(free_port())
        };
        let (c, came, said) = batch(&config, |_| ());
        assert_eq!((c.sent, c.send_calls, came), (64, 1, 64), "{said} {c:?}");
        // One that gave them, and at most those that found nothing.
        assert!(c.receive_calls <= 4, "{said} {c:?}");
        let without = said.contains("neither UDP_SEGMENT nor UDP_GRO");
        assert!(offload || without, "{said}");
    }
}

#[test]
fn a_kernel_that_cuts_no_groups_is_noticed_and_nothing_is_lost() {
    // Linux cuts none of a socket without checksums: EINVAL.
    const SO_NO_CHECK: libc::c_int = 11;
    let config = at(free_port());
    let (c, came, said) = batch(&config, |carrier| {
        let socket = carrier.descriptor(0);
        sys::set_option(socket, libc::SOL_SOCKET, SO_NO_CHECK, 1).expect("option");
    });
    assert_eq!((c.sent, c.refused, came), (64, 0, 64), "{said} {c:?}");
    assert!(!said.contains("UDP_SEGMENT and"), "{said}");
    assert!((2..=4).contains(&c.send_calls), "{c:?}");
}

#[test]
fn of_a_batch_only_what_the_kernel_refuses_is_lost() {
    for offload in [true, false] {
        let config = UdpConfig {
            offload,
            ..at(free_port())
        };
        let (mut carrier, mut poller) = open(&config);
        let (sound, forbidden) = (to(HERE), to(Ipv4Addr::BROADCAST));
        // EACCES: nobody has allowed broadcast. Alone, and two in a group.
        for n in 0..BATCH {
            let ip = match n {
                0 | 7 | 8 | 63 => &forbidden,
                _ => &sound,
            };
            put(&mut carrier, ip, n, 500);
        }
        carrier.flush();
        assert!(!carrier.is_blocked());
        let came = all(&mut carrier, &mut poller, 1);
        let numbers: Vec<u8> = came.iter().map(|(_, p)| p[0]).collect();
        let expected: Vec<u8> = (1..63).filter(|n| ![7, 8].contains(n)).collect();
        assert_eq!(numbers, expected);
        let c = carrier.counters();
        assert_eq!((c.sent, c.refused), (60, 4), "{c:?}");
        let said = carrier.described();
        assert_eq!(said.contains("neither"), !offload, "{said}: not for good");
    }
}

#[test]
fn a_group_that_does_not_fit_is_kept_for_the_next_batch() {
    let port = free_port();
    let (mut carrier, mut poller) = open(&at(port));
    for n in 0..4 * BATCH {
        put(&mut carrier, &to(HERE), n, 100);
        if n % BATCH == BATCH - 2 {
            carrier.flush();
        }
    }
    carrier.flush();
    let came = all(&mut carrier, &mut poller, 1);
    let numbers: Vec<usize> = came.iter().map(|(_, p)| usize::from(p[0])).collect();
    assert_eq!(numbers, (0..4 * BATCH).collect::<Vec<_>>());
    assert!(!carrier.holds());
}

#[test]
fn under_doubles_the_wire_has_the_number_proper() {
    let port = free_port();
    let doubles = Doubles::new(&[214], |_| true);
    let double = doubles
        .as_ref()
        .and_then(|d| d.double(214))
        .expect("double");
    let config = UdpConfig {
        protocols: vec![214, 245],
        doubles,
        ..at(port)
    };
    let (mut carrier, mut poller) = open(&config);
    let ip = IpInfo {
        proto: double,
        ..to(HERE)
    };
    put(&mut carrier, &ip, 5, 8);
    carrier.flush();
    let came = all(&mut carrier, &mut poller, 1);
    assert_eq!(came, [(ip, vec![5; 8])]);
    // What comes under 214 has the double inside.
    let socket = std::net::UdpSocket::bind((HERE, 0)).expect("socket");
    for number in [214, double, 245] {
        let datagram = [2, 1, 0, number, 7];
        socket.send_to(&datagram, (HERE, port)).expect("send");
    }
    let came = all(&mut carrier, &mut poller, 1);
    assert_eq!(came.len(), 1);
    assert_eq!((came[0].0.proto, &came[0].1[..]), (double, &[7][..]));
    let foreign = carrier.counters().foreign;
    assert_eq!(
        foreign, 2,
        "a double is on no wire, and 245 is of raw alone"
    );
}

#[test]
fn packets_that_are_datagrams_go_as_they_are_from_their_own_port() {
    let (own, service) = (free_port(), free_port());
    let config = UdpConfig {
        own_form: true,
        ..at(own)
    };
    let (mut carrier, mut poller) = open(&config);
    adopt(&mut carrier, &poller, service);
    let peer = std::net::UdpSocket::bind((HERE, 0)).expect("socket");
    let theirs = peer.local_addr().expect("address").port();
    let datagram = |from: u16, to: u16, octets: &[u8]| {
        let words = [from, to, 8 + octets.len() as u16, 0];
        let head = words.map(u16::to_be_bytes).concat();
        [&head, octets].concat()
    };
    let ip = IpInfo {
        src: HERE,
        proto: UDP,
        ..to(HERE)
    };
    // From one port of ours to another, to a stranger, and from one that is nobody's; others
    // beside them are wrapped as ever.
    for (ip, segment) in [
        (&ip, datagram(service, own, &[1, 1, 7])),
        (&ip, datagram(own, service, &[1, 1, 8])),
        (&ip, datagram(service, theirs, &[1, 1, 9])),
        (&ip, datagram(theirs, own, &[1, 1, 6])),
        (&to(HERE), vec![5; 9]),
    ] {
        carrier.load(&ip.any(), &segment).expect("room");
    }
    carrier.flush();
    let mut room = [0; 99];
    let (n, from) = peer.recv_from(&mut room).expect("datagram");
    assert_eq!((&room[..n], from.port()), (&[1, 1, 9][..], service));
    peer.send_to(&[1, 1, 10], (HERE, service)).expect("send");
    peer.send_to(&[2, 1, 0, 214, 3], (HERE, own)).expect("send");
    // At the port of a service everything is the service's; not so at the carrier's.
    peer.send_to(&[2, 2], (HERE, service)).expect("send");
    peer.send_to(&[2, 2], (HERE, own)).expect("send");
    let mut came = all(&mut carrier, &mut poller, 2);
    came.sort_by_key(|(ip, payload)| (ip.proto, payload.clone()));
    // The kernel's TTL, of the stranger.
    let other = IpInfo { ttl: 64, ..ip };
    let mut expected = vec![
        (ip, datagram(service, own, &[1, 1, 7])),
        (ip, datagram(own, service, &[1, 1, 8])),
        (other, datagram(theirs, service, &[1, 1, 10])),
        (other, datagram(theirs, service, &[2, 2])),
        (to(HERE), vec![5; 9]),
        (
            IpInfo {
                proto: 214,
                ..other
            },
            vec![3],
        ),
    ];
    expected.sort_by_key(|(ip, payload)| (ip.proto, payload.clone()));
    assert_eq!(came, expected);
    let counters = carrier.counters();
    assert_eq!((counters.foreign, counters.refused), (1, 1), "{counters:?}");
}

#[test]
fn a_port_that_was_given_up_is_anybodys_and_another_one_takes_its_place() {
    let (own, first, second) = (free_port(), free_port(), free_port());
    let config = UdpConfig {
        own_form: true,
        ..at(own)
    };
    let (mut carrier, mut poller) = open(&config);
    adopt(&mut carrier, &poller, first);
    assert_eq!(carrier.descriptors(), 2);
    carrier.release(first);
    let peer = std::net::UdpSocket::bind((HERE, first)).expect("free again");
    adopt(&mut carrier, &poller, second);
    assert_eq!(carrier.descriptors(), 2);
    for (n, port) in [own, second].into_iter().enumerate() {
        let datagram = [1, 1, n as u8];
        peer.send_to(&datagram, (HERE, port)).expect("send");
    }
    let came = all(&mut carrier, &mut poller, 2);
    let mut last: Vec<_> = came.iter().filter_map(|(_, p)| p.last().copied()).collect();
    last.sort_unstable();
    assert_eq!(last, [0, 1]);
}

#[test]
fn whatever_comes_at_a_port_is_a_packet_or_counted() {
    let port = free_port();
    let config = UdpConfig {
        own_form: true,
        ..at(port)
    };
    let (mut carrier, mut poller) = open(&config);
    let stranger = std::net::UdpSocket::bind((HERE, 0)).expect("socket");
    let mut rng = wifu_wire::units::Rng::new(20_261_127);
    let mut came = 0;
    const SENT: u64 = 2000;
    for _ in 0..SENT / 100 {
        for _ in 0..100 {
            let mut octets = vec![0; rng.below(1600) as usize];
            octets.iter_mut().for_each(|o| *o = rng.next_u32() as u8);
            if let [first, version, ..] = &mut octets[..] {
                (*first, *version) = (*first % 4, *version % 3);
            }
            stranger.send_to(&octets, (HERE, port)).expect("send");
        }
        came += all(&mut carrier, &mut poller, 1).len() as u64;
    }
    let c = carrier.counters();
    assert_eq!(c.received, came);
    assert_eq!(c.received + c.foreign + c.truncated, SENT, "{c:?}");
    assert!(c.received > SENT / 2 && c.foreign > SENT / 8, "{c:?}");
}

#[test]
fn tcp_of_one_composition_has_no_number_on_the_wire() {
    let port = free_port();
    let config = UdpConfig {
        protocols: vec![207, 214],
        tcp: Some(207),
        ..at(port)
    };
    let (mut carrier, mut poller) = open(&config);
    let peer = std::net::UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 9), port));
    assert!(peer.is_err(), "the carrier has the port of all addresses");
    let tahoe = IpInfo {
        proto: 207,
        ..to(HERE)
    };
    put(&mut carrier, &tahoe, 5, 8);
    put(&mut carrier, &to(HERE), 6, 8);
    carrier.flush();
    let came = all(&mut carrier, &mut poller, 1);
    assert_eq!(came, [(tahoe, vec![5; 8]), (to(HERE), vec![6; 8])]);
    let stranger = std::net::UdpSocket::bind((HERE, 0)).expect("socket");
    for number in [0, 207] {
        let datagram = [2, 1, 0, number, 7];
        stranger.send_to(&datagram, (HERE, port)).expect("send");
    }
    let came = all(&mut carrier, &mut poller, 1);
    let numbers: Vec<u8> = came.iter().map(|(ip, _)| ip.proto).collect();
    assert_eq!(numbers, [207, 207]);
}

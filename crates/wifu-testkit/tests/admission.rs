//! The endpoint over admission policies that are not TCP's: the first packet opens; connections
//! are told apart by their ends, or by an identifier that the packets carry.

mod support;

use core::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use wifu_engine::admission::{Admission, Claim, Holder, Kept, Key, first};
use wifu_engine::blueprint::HopHalf;
use wifu_engine::{
    Blueprint, ConnId, ConnectError, Descriptor, Endpoint, EndpointConfig, Event, Face, Fault,
    Library, State, Tuple, WordUse,
};
use wifu_testkit::pair::{App, CLIENT, Pair, SERVER, pattern};
use wifu_wire::{Ecn, Flags, Head, IpInfo, Seq, Span, Time};

/// By identifier: what is no opener proves that the peer hears us, and restores what made room.
#[derive(Debug)]
struct ByIdentifier {
    /// After so much silence another identifier takes the place of the connection between the same
    /// two ends; without it connections stand beside each other.
    replaces_after: Option<Span>,
}

impl Admission for ByIdentifier {
    fn key(&self, ends: &Tuple, id: u32) -> Key {
        Key::identifier(ends, id)
    }

    fn place(&self, ends: &Tuple, id: u32) -> Key {
        match self.replaces_after {
            Some(_) => Key::ends(ends),
            None => self.key(ends, id),
        }
    }

    fn draws_identifier(&self) -> bool {
        true
    }

    fn opens(&self, head: &Head) -> bool {
        first(head)
    }

    fn claim(&self, holder: &Holder<'_>, _head: &Head) -> Claim {
        match self.replaces_after {
            Some(span) if holder.silent >= span => Claim::Replaces,
            Some(_) => Claim::Refused,
            None => Claim::Own,
        }
    }

    fn proves(&self, head: &Head, _iss: Seq) -> bool {
        !first(head)
    }

    fn keeps(&self) -> Kept {
        Kept {
            openers: 64,
            span: Span::SECOND * 10,
        }
    }

    fn restores(&self, head: &Head, _iss: Seq) -> bool {
        !head.flags.has(Flags::RST)
    }
}

static BESIDE: Descriptor = Descriptor {
    name: "opener-beside",
    admission: Some(&ByIdentifier {
        replaces_after: None,
    }),
    ..support::opener::OPENS_AT_ONCE
};

static REPLACING: Descriptor = Descriptor {
    name: "opener-replacing",
    admission: Some(&ByIdentifier {
        replaces_after: Some(Span(3_000_000_000)),
    }),
    ..support::opener::OPENS_AT_ONCE
};

/// Over the one format that carries an identifier, and over `shim`, which carries none.
const PROTOCOLS: &str = r#"
[protocol.ends]
number = 253
wire = "shim"
store = "octets"
manager = "opener"
rtt = "hold-echo"
reliable = "holes"
receive = "reassemble"
gates = ["atp-rate", "peer-window"]
ack = "epochs"

[protocol.beside]
extends = "ends"
wire = "atp"
manager = "opener-beside"

[protocol.replacing]
extends = "beside"
manager = "opener-replacing"
"#;

const NAMES: [&str; 3] = ["ends", "beside", "replacing"];
const AT: SocketAddrV4 = SocketAddrV4::new(SERVER, 80);

fn protocol(name: &str) -> Arc<Blueprint> {
    let registry = wifu_parts::registry().with(&[&support::opener::OPENER, &BESIDE, &REPLACING]);
    // Nobody stands between these ends: what nodes would write stays as it was sent.
    let nobody = Face {
        words: ["delay", "hops", "idle"].map(WordUse::written).into(),
        ..Face::default()
    };
    let hops = HopHalf {
        handlers: &[nobody],
        adds: 0,
    };
    let composition = Library::parse(PROTOCOLS).and_then(|l| l.expand(name));
    let checked = composition.and_then(|c| Blueprint::with(&c, &registry, hops));
    Arc::new(checked.unwrap_or_else(|e| panic!("{e}")))
}

/// A packet of a stranger, in the protocol's format.
fn packet(protocol: &Blueprint, from: SocketAddrV4, head: &Head) -> (IpInfo, Vec<u8>) {
    let ip = IpInfo {
        src: *from.ip(),
        dst: SERVER,
        proto: protocol.number,
        ttl: 64,
        ecn: Ecn::NotEct,
    };
    let mut head = head.clone();
    (head.sport, head.dport) = (from.port(), AT.port());
    let mut bytes = vec![0; 256];
    let n = protocol.wire.emit(&head, &mut bytes);
    bytes.truncate(n);
    let pseudo = ip.pseudo();
    protocol.wire.seal(&pseudo, &mut bytes);
    (ip, bytes)
}

fn opener(conn_id: u32) -> Head {
    let mut head = Head::default();
    (head.conn_id, head.flags, head.seq) = (conn_id, Flags::SYN, Seq(1_000));
    head
}

/// What follows an opener, without payload.
fn later(conn_id: u32) -> Head {
    let mut head = Head::default();
    (head.conn_id, head.seq) = (conn_id, Seq(1_001));
    head
}

/// A listening server that was told nothing else.
fn server(protocol: &Arc<Blueprint>, backlog: usize) -> Endpoint {
    let mut end = Endpoint::new(EndpointConfig {
        max_conns: 500,
        ..EndpointConfig::default()
    });
    end.listen(protocol, AT, backlog).unwrap();
    end
}

/// All that an end has to send now: for whom, and the header.
fn polled(end: &mut Endpoint, protocol: &Blueprint, now: Time) -> Vec<Head> {
    let mut out = [0; 2_048];
    let mut heads = Vec::new();
    while let Some(d) = end.poll_transmit(now, &mut out) {
        let mut head = Head::default();
        protocol.wire.parse(&out[..d.len], &mut head).unwrap();
        heads.push(head);
    }
    heads
}

fn accepted(end: &mut Endpoint) -> Vec<ConnId> {
    let events = core::iter::from_fn(|| end.poll_event());
    let accepted = events.filter(|(_, e)| matches!(e, Event::Accepted(_)));
    accepted.map(|(id, _)| id).collect()
}

fn secs(n: u64) -> Span {
    Span::SECOND * n
}

fn port(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(CLIENT, port)
}

#[test]
fn a_format_that_carries_no_identifier_is_refused_to_who_needs_one() {
    let registry = wifu_parts::registry().with(&[&BESIDE]);
    let text = PROTOCOLS.replace("\"opener\"", "\"opener-beside\"");
    let composition = Library::parse(&text).and_then(|l| l.expand("ends"));
    let refused = composition.and_then(|c| Blueprint::new(&c, &registry));
    let said = "ends.wire: opener-beside tells connections apart by an identifier, which wire = \
                \"shim\" does not carry";
    assert!(refused.unwrap_err().to_string().contains(said));
}

#[test]
fn octets_arrive_and_nothing_is_left_behind() {
    for name in NAMES {
        let protocol = protocol(name);
        let mut pair = Pair::new(1);
        pair.apps[0].to_write = pattern(100_000, 1);
        pair.apps[0].close_after = true;
        let id = pair.connect(&protocol);
        let limit = pair.now + secs(60);
        pair.run(limit);
        assert!(pair.apps[1].read == pair.apps[0].to_write, "{name}");
        assert!(pair.apps[1].eof, "{name}");
        assert_eq!(pair.apps[0].ended, Some(None), "{name}");
        assert_eq!(pair.apps[1].ended, Some(None), "{name}");
        let ids = [id, pair.apps[1].conn.unwrap()];
        let identifiers = [0, 1].map(|n| pair.ends[n].conn(ids[n]).unwrap().board().site.conn_id);
        assert_eq!(identifiers[0], identifiers[1], "{name}");
        assert_eq!(identifiers[0] != 0, name != "ends", "{name}");
        let now = pair.now;
        for (end, id) in pair.ends.iter_mut().zip(ids) {
            end.close(now, id);
            assert!(end.is_empty(), "{name}: nothing waits");
        }
    }
}

#[test]
fn an_address_in_use_is_refused_unless_identifiers_tell_connections_apart() {
    for name in NAMES {
        let protocol = protocol(name);
        let mut end = Endpoint::new(EndpointConfig::default());
        end.listen(&protocol, port(80), 4).unwrap();
        assert!(end.listen(&protocol, port(80), 4).is_err(), "{name}");
        let from = port(40_000);
        end.connect(Time(1), &protocol, from, AT).unwrap();
        let again = end.connect(Time(1), &protocol, from, AT);
        match name {
            "beside" => assert!(again.is_ok()),
            _ => assert!(
                matches!(again, Err(ConnectError::InUse(a)) if a == from.into()),
                "{name}"
            ),
        }
    }
}

#[test]
fn a_packet_of_no_connection_opens_none() {
    for name in NAMES {
        let protocol = protocol(name);
        let mut end = server(&protocol, 4);
        let (mut answer, mut reset) = (opener(7), opener(7));
        answer.ack = Some(Seq(5));
        reset.flags = Flags::SYN.with(Flags::RST);
        let opens_not = [later(7), answer, reset];
        for head in &opens_not {
            let (ip, bytes) = packet(&protocol, port(40_000), head);
            end.handle_packet(Time(1), &ip, &bytes);
        }
        let (ip, bytes) = packet(&protocol, port(0), &opener(7));
        end.handle_packet(Time(1), &ip, &bytes);
        assert!(end.is_empty(), "{name}");
        assert_eq!(end.drops()["no such connection"], 4, "{name}");
        let answers = polled(&mut end, &protocol, Time(1));
        assert!(answers.iter().all(|h| h.flags.has(Flags::RST)), "{name}");
        assert_eq!(answers.len(), 3, "{name}: a reset is not answered");
    }
}

/// Where the first packet is enough, what bounds memory is the number of connections.
#[test]
fn a_flood_of_first_packets_that_open_at_once_is_bounded_by_the_endpoint() {
    let protocol = protocol("ends");
    let mut end = server(&protocol, 10);
    for n in 0..1_000 {
        let from = SocketAddrV4::new(Ipv4Addr::new(10, 1, (n / 256) as u8, n as u8), 9);
        let (ip, bytes) = packet(&protocol, from, &opener(0));
        end.handle_packet(Time(1), &ip, &bytes);
    }
    assert_eq!((end.len(), accepted(&mut end).len()), (500, 500));
    assert_eq!(end.drops()["too many connections"], 500);
}

#[test]
fn a_flood_of_openers_is_bounded_by_the_backlog_and_locks_nobody_out() {
    for name in ["beside", "replacing"] {
        let protocol = protocol(name);
        let mut end = server(&protocol, 10);
        for n in 1..=50u32 {
            let from = port(1_000 + n as u16);
            let (ip, bytes) = packet(&protocol, from, &opener(n));
            end.handle_packet(Time(1), &ip, &bytes);
        }
        assert_eq!(end.len(), 10, "{name}");
        assert!(
            accepted(&mut end).is_empty(),
            "{name}: nobody showed that he hears us"
        );
        let answers = polled(&mut end, &protocol, Time(1));
        let mut ids: Vec<u32> = answers.iter().map(|h| h.conn_id).collect();
        ids.sort_unstable();
        assert!(
            ids.iter().copied().eq(1..=50),
            "{name}: each is answered once"
        );
        // The first, which made room long ago, and the last.
        for n in [1, 50] {
            let (ip, bytes) = packet(&protocol, port(1_000 + n as u16), &later(n));
            end.handle_packet(Time(2), &ip, &bytes);
            let found = accepted(&mut end);
            assert_eq!(found.len(), 1, "{name}: {n}");
            assert_eq!(end.conn(found[0]).unwrap().board().site.conn_id, n);
        }
        let answers = polled(&mut end, &protocol, Time(2));
        let syn = |h: &&Head| h.flags.has(Flags::SYN);
        assert_eq!(
            answers.iter().filter(syn).count(),
            0,
            "{name}: no answer again"
        );
        // What is kept is no use after its time.
        let (ip, bytes) = packet(&protocol, port(1_002), &later(2));
        end.handle_packet(Time(1) + secs(11), &ip, &bytes);
        assert!(accepted(&mut end).is_empty(), "{name}");
    }
}

#[test]
fn two_connections_between_the_same_ends_and_ports_are_told_apart_by_identifier() {
    let protocol = protocol("beside");
    let mut pair = Pair::new(3);
    pair.ends[1].listen(&protocol, AT, 8).unwrap();
    pair.usher = Some(Box::new(App::default));
    let payloads = [pattern(50_000, 1), pattern(50_000, 2)];
    for payload in &payloads {
        let id = pair.ends[0].connect(pair.now, &protocol, port(40_000), AT);
        let app = App {
            to_write: payload.clone(),
            close_after: true,
            conn: Some(id.unwrap()),
            ..App::default()
        };
        pair.crowd[0].insert(app.conn.unwrap(), app);
    }
    let limit = pair.now + secs(60);
    pair.run(limit);
    let mut read: Vec<&Vec<u8>> = pair.crowd[1].values().map(|a| &a.read).collect();
    assert_eq!(read.len(), 2);
    if read[0] != &payloads[0] {
        read.swap(0, 1);
    }
    assert!(read[0] == &payloads[0] && read[1] == &payloads[1]);
}

#[test]
fn a_packet_from_another_port_still_finds_its_connection() {
    for name in ["beside", "replacing"] {
        let protocol = protocol(name);
        let mut end = server(&protocol, 4);
        for (from, head) in [(40_000, opener(7)), (40_001, later(7))] {
            let (ip, bytes) = packet(&protocol, port(from), &head);
            end.handle_packet(Time(1), &ip, &bytes);
        }
        let found = accepted(&mut end);
        assert_eq!((found.len(), end.len()), (1, 1), "{name}");
        let conn = end.conn(found[0]).unwrap();
        assert_eq!(conn.counters().segments_in, 2, "{name}");
        assert_eq!(
            conn.tuple().remote,
            port(40_000).into(),
            "{name}: its ends stay"
        );
        // By ends it is nobody's.
        let other = self::protocol("ends");
        let mut end = server(&other, 4);
        for (from, head) in [(40_000, opener(0)), (40_001, later(0))] {
            let (ip, bytes) = packet(&other, port(from), &head);
            end.handle_packet(Time(1), &ip, &bytes);
        }
        assert_eq!(end.drops()["no such connection"], 1);
    }
}

#[test]
fn another_identifier_replaces_a_silent_connection_after_three_seconds() {
    let protocol = protocol("replacing");
    let mut end = server(&protocol, 4);
    let hand = |end: &mut Endpoint, at: Time, head: &Head| {
        let (ip, bytes) = packet(&protocol, port(40_000), head);
        end.handle_packet(at, &ip, &bytes);
    };
    let start = Time(1_000_000_000);
    hand(&mut end, start, &opener(1));
    hand(&mut end, start + secs(1), &later(1));
    let old = accepted(&mut end);
    assert_eq!(old.len(), 1);
    let _ = polled(&mut end, &protocol, start + secs(1));

    // It was heard two seconds ago: refused.
    hand(&mut end, start + secs(3), &opener(2));
    assert_eq!((end.len(), end.drops()["no such connection"]), (1, 1));
    let answers = polled(&mut end, &protocol, start + secs(3));
    assert!(
        answers
            .iter()
            .any(|h| h.conn_id == 2 && h.flags.has(Flags::RST))
    );
    assert_eq!(end.poll_event(), None, "the old one lives");

    // Three seconds ago: replaced.
    hand(&mut end, start + secs(4), &opener(2));
    assert_eq!(
        end.poll_event(),
        Some((old[0], Event::Closed(Some(Fault::Reset))))
    );
    hand(&mut end, start + secs(4), &later(2));
    let new = accepted(&mut end);
    assert_eq!(new.len(), 1);
    assert_eq!(end.conn(new[0]).unwrap().board().site.conn_id, 2);
    let answers = polled(&mut end, &protocol, start + secs(4));
    assert!(
        answers.iter().all(|h| h.conn_id == 2),
        "nothing more of the old one"
    );
    end.close(start + secs(4), old[0]);
    assert_eq!(end.len(), 1);
    // Its identifier means nothing any more.
    hand(&mut end, start + secs(5), &later(1));
    assert_eq!(end.drops()["no such connection"], 2);
    // Nor does a late opener of it take the place back.
    hand(&mut end, start + secs(5), &opener(1));
    assert_eq!(end.conn(new[0]).unwrap().state(), State::Established);
}

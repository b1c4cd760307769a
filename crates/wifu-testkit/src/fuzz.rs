//! What the fuzz targets run: bytes become input of a parser, or a sequence of operations and
//! hostile segments for an endpoint. Each function panics if something is wrong.

use crate::dictionary;
use crate::seg::Seg;
use core::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, OnceLock};
use wifu_engine::{Blueprint, Board, ConnId, Endpoint, EndpointConfig, Library, ListenId};
use wifu_wire::checksum::Pseudo;
use wifu_wire::dot11;
use wifu_wire::front::{self, Answer, Header, Request};
use wifu_wire::over_udp;
use wifu_wire::radiotap::{self, Radiotap};
use wifu_wire::shim::{self, ShimWord};
use wifu_wire::tcp::Tcp;
use wifu_wire::{Ecn, Flags, Head, IpInfo, Seq, Span, SynOptions, Time, Wire};

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THEM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn pseudo() -> Pseudo {
    Pseudo::new(THEM, US, 6)
}

/// What a codec understands of any octets is written and understood again, the same.
///
/// # Panics
/// If it is not.
pub fn wire(wire: &dyn Wire, bytes: &[u8]) {
    wire.verify(&pseudo(), bytes);
    let mut head = Head::default();
    let Ok(n) = wire.parse(bytes, &mut head) else {
        return;
    };
    assert!(n <= bytes.len(), "a header longer than the packet");
    let mut out = vec![0; 2_048];
    let written = wire.emit(&head, &mut out);
    assert!(written <= out.len());
    wire.seal(&pseudo(), &mut out[..written]);
    assert!(wire.verify(&pseudo(), &out[..written]), "sealed, not valid");
    let mut again = Head::default();
    let read = wire.parse(&out[..written], &mut again);
    assert_eq!(read, Ok(written), "what was written is not understood");
    assert_eq!((again.seq, again.ack), (head.seq, head.ack));
    assert_eq!((again.ts, again.window), (head.ts, head.window));
    assert_eq!((again.sport, again.dport), (head.sport, head.dport));
    let kept = again.ranges().len();
    assert!(kept <= head.ranges().len());
    assert_eq!(again.ranges(), &head.ranges()[..kept]);
    let mut answer = Head::default();
    if wire.refuse(&head, (bytes.len() - n) as u32, &mut answer) {
        wire.emit(&answer, &mut out);
    }
    let mut held = bytes.to_vec();
    wire.patch(&head, &mut held);
    assert_eq!(held.len(), bytes.len());
}

/// The TCP header and its options.
pub fn tcp(bytes: &[u8]) {
    wire(&Tcp, bytes);
}

/// ATP's header and its holes, as it came and as if it were of our version.
pub fn atp(bytes: &[u8]) {
    let codec = (wifu_wire::atp::WIRE.make)();
    wire(&*codec, bytes);
    let mut ours = bytes.to_vec();
    if let Some(version) = ours.get_mut(8..10) {
        version.copy_from_slice(&[1, 1]);
        wire(&*codec, &ours);
    }
}

/// Identity and words of the composed header that is fuzzed.
const SHIM_ID: u32 = 7;
const SHIM_WORDS: [ShimWord; 4] = [
    ShimWord::new("rate", 32).by_hops(),
    ShimWord::new("hops", 5).by_hops(),
    ShimWord::new("mark", 1),
    ShimWord::new("epoch", 16),
];

/// By fuzz target, the dictionaries of those that take a declared header.
pub fn dictionaries() -> Vec<(&'static str, String)> {
    let mut all: Vec<_> = wifu_wire::WIRES
        .iter()
        .map(|w| (w.format.name, dictionary::of(w.format)))
        .collect();
    let shim = shim::format(SHIM_ID, &SHIM_WORDS);
    all.push((shim.name, dictionary::of(&shim)));
    all.push(("over_udp", dictionary::of(&over_udp::FORMAT)));
    all
}

/// A datagram of the carrier `udp`, and the segment in it as one of TCP.
///
/// # Panics
/// If what was understood is written otherwise.
pub fn over_udp(bytes: &[u8]) {
    let Some((proto, segment)) = over_udp::parse(bytes) else {
        return;
    };
    let again = [&over_udp::header(proto)[..], segment].concat();
    assert_eq!(again, bytes, "what was understood");
    tcp(segment);
}

/// The composed header.
pub fn shim(bytes: &[u8]) {
    let shim = shim::codec(SHIM_ID, &SHIM_WORDS).expect("a good layout");
    wire(&shim, bytes);
    // The same bytes as if they were for this layout, so that more than the identity is looked at.
    let mut ours = vec![0; 128];
    let n = shim.emit(&Head::default(), &mut ours).min(bytes.len());
    let mut bytes = bytes.to_vec();
    if n >= 12 {
        bytes[..2].copy_from_slice(&ours[..2]);
        bytes[8..12].copy_from_slice(&ours[8..12]);
    }
    wire(&shim, &bytes);
}

/// The IPv4 header.
pub fn ipv4(bytes: &[u8]) {
    if let Ok((info, payload)) = wifu_wire::ipv4::parse(bytes) {
        assert!(payload.len() + wifu_wire::ipv4::HEADER <= bytes.len());
        let mut out = vec![0; wifu_wire::ipv4::HEADER + payload.len()];
        wifu_wire::ipv4::emit(&info, payload.len(), &mut out);
        let (again, rest) = wifu_wire::ipv4::parse(&out).expect("what was written is understood");
        assert_eq!(
            (again.src, again.dst, again.proto),
            (info.src, info.dst, info.proto)
        );
        assert_eq!(rest.len(), payload.len());
    }
}

/// The IPv6 header and what may follow it, and the choice between it and IPv4.
pub fn ipv6(bytes: &[u8]) {
    use wifu_wire::{ip, ipv6};
    let whole = ipv6::parse(bytes);
    // A quotation may be cut, and is then understood as far as it goes.
    assert!(whole.is_err() || ipv6::upper(bytes).is_ok());
    if let Ok((info, payload)) = whole {
        assert_eq!(ip::parse(bytes), Ok((info.any(), payload)));
        assert!(ip::trimmed(bytes).ends_with(payload));
        let mut out = vec![0; ipv6::HEADER + payload.len()];
        ipv6::emit(&info, payload.len(), &mut out);
        let again = ipv6::parse(&out).expect("what was written is understood");
        assert_eq!((again.0, again.1.len()), (info, payload.len()));
    } else if ip::is_v6(bytes) {
        assert!(ip::parse(bytes).is_err());
    }
}

/// Radiotap and the 802.11 data frame behind it: what was understood is written and understood
/// again, the same.
pub fn radiotap(bytes: &[u8]) {
    let Ok((header, frame)) = Radiotap::parse(bytes) else {
        return;
    };
    assert!(frame.len() + 8 <= bytes.len());
    let mut out = Vec::new();
    header.emit(&mut out);
    let again = Radiotap::parse(&out);
    assert_eq!(again, Ok((header, &[][..])), "what was written");
    let frame = header.without_fcs(frame);
    let Ok(data) = dot11::parse(frame, header.has(radiotap::PADDED)) else {
        return;
    };
    out.clear();
    data.header.emit(&mut out);
    dot11::emit_snap(data.kind, &mut out);
    out.extend_from_slice(data.packet);
    assert_eq!(dot11::parse(&out, false), Ok(data), "what was written");
    assert!(out.len() <= frame.len());
}

/// The protocol between applications and the daemon.
pub fn front(bytes: &[u8]) {
    if let Ok(Some(header)) = Header::decode(bytes) {
        assert!(header.total() >= front::HEADER_LEN);
        let again = Header::decode(&header.encode()).expect("what was written is understood");
        assert!(again.is_some());
        if let Some(body) = bytes.get(front::HEADER_LEN..) {
            let body = &body[..body.len().min(header.body as usize)];
            request(header.kind, body);
        }
    }
    if let Ok(answer) = Answer::decode(bytes) {
        let mut out = vec![0; answer.room()];
        let n = answer.encode(&mut out).expect("the room it asked for");
        assert!(n <= out.len());
    }
    front::parse_peer(bytes);
    front::parse_service(bytes);
    if let Some(Ok(marker)) = bytes.get(..front::MARKER_LEN).map(TryInto::try_into)
        && let Some((cookie, hold)) = front::parse_marker(marker)
    {
        assert_eq!(&front::marker(cookie, hold), marker);
    }
}

fn request(kind: front::Kind, body: &[u8]) {
    let Ok(request) = Request::decode(kind, body) else {
        return;
    };
    assert_eq!(request.kind(), kind);
    let mut out = vec![0; front::HEADER_LEN + front::MAX_REQUEST + 1_024];
    if let Ok(n) = request.encode(&mut out, 0) {
        let header = Header::decode(&out[..n])
            .expect("well-formed")
            .expect("whole");
        let body = &out[front::HEADER_LEN..][..header.body as usize];
        let again = Request::decode(kind, body).expect("what was written is understood");
        assert_eq!(format!("{again:?}"), format!("{request:?}"));
    }
}

/// The built-in compositions, read once: most of a target's time would go there.
fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(wifu_parts::library)
}

/// Specifications (`tcp-newreno,iw=4`) and quantities with units.
pub fn spec(text: &str) {
    let registry = wifu_parts::registry();
    let _ = library().resolve(text, &registry);
    let _ = library().resolve(&format!("tcp-sack,{text}"), &registry);
    let _ = text.parse::<Span>();
    let _ = text.parse::<wifu_wire::Rate>();
    let _ = wifu_wire::units::parse_octets(text);
}

/// Composition files.
pub fn composition(text: &str) {
    let Ok(theirs) = Library::parse(text) else {
        return;
    };
    let whole = library().clone().merge(theirs.clone());
    for name in theirs.protocols() {
        let _ = whole.resolve(name, &wifu_parts::registry());
    }
}

/// Rule files of the mock network.
pub fn rules(text: &str) {
    if let Ok(mut rules) = text.parse::<wifu_sim::Rules>() {
        let left = rules.left();
        rules.judge(&wifu_sim::rules::Numbers::default());
        assert!(rules.left() <= left);
    }
}

/// Bytes as a stream of choices; zero when it ran out.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((b, rest)) => {
                self.0 = rest;
                *b
            }
            None => 0,
        }
    }

    /// True once in `n` times.
    fn one_in(&mut self, n: u8) -> bool {
        self.byte().is_multiple_of(n)
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn long(&mut self) -> u32 {
        u32::from(self.word()) << 16 | u32::from(self.word())
    }

    /// Something near `centre`, or far away.
    fn near(&mut self, centre: Seq) -> Seq {
        match self.byte() % 8 {
            0..=3 => centre,
            4 => centre.plus(u32::from(self.byte())),
            5 => centre.minus(u32::from(self.byte())),
            6 => centre.plus(u32::from(self.word())).minus(32_768),
            _ => Seq(self.long()),
        }
    }
}

struct Stage {
    end: Endpoint,
    now: Time,
    blueprint: Arc<Blueprint>,
    listener: Option<ListenId>,
    conns: Vec<ConnId>,
    out: Vec<u8>,
}

/// Operations and hostile segments for an endpoint.
pub fn engine(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let specs = [
        "tcp-tahoe,rcv_wnd=20000,snd_buf=20000",
        "tcp-reno,rcv_wnd=20000,snd_buf=20000,timestamps=off",
        "tcp-newreno,rcv_wnd=100000,snd_buf=20000,ltx=on,mss=500",
        "tcp-sack,rcv_wnd=20000,snd_buf=20000,ltx=on",
        "tcp-cubic,rcv_wnd=100000,snd_buf=50000",
        "tcp-sack,rcv_wnd=20000,snd_buf=20000,dsack=on,prr=on,rack=on,rfc1337=on",
    ];
    let spec = specs[usize::from(choices.byte()) % specs.len()];
    let mut stage = Stage {
        end: Endpoint::new(EndpointConfig {
            seed: 7,
            node: 1,
            max_conns: 24,
            max_time_wait: 4,
            ..EndpointConfig::default()
        }),
        now: Time(u64::from(choices.word()) * 67_000_000_000),
        blueprint: library()
            .resolve(spec, &wifu_parts::registry())
            .expect("a good specification"),
        listener: None,
        conns: Vec::new(),
        out: vec![0; 2_048],
    };
    stage.listen();
    while !choices.0.is_empty() {
        stage.act(&mut choices);
        stage.settle();
    }
}

impl Stage {
    fn listen(&mut self) {
        let at = SocketAddrV4::new(US, 80);
        if self.listener.is_none() {
            self.listener = self.end.listen(&self.blueprint, at, 6).ok();
        }
    }

    fn act(&mut self, c: &mut Choices<'_>) {
        let op = c.byte() % 24;
        let id = match self.conns.len() {
            0 => None,
            n => Some(self.conns[usize::from(c.byte()) % n]),
        };
        match (op, id) {
            (0, _) => {
                let port = 1_000 + u16::from(c.byte() % 8);
                let (local, remote) = (SocketAddrV4::new(US, port), SocketAddrV4::new(THEM, 80));
                let _ = self.end.connect(self.now, &self.blueprint, local, remote);
            }
            (1, _) => self.now += Span::MICRO * u64::from(c.word()),
            (2, _) => self.now += Span::MILLI * u64::from(c.word()),
            (3, _) => {
                let next = self.end.poll_timeout();
                if next != Time::NEVER {
                    self.now = self.now.max(next);
                }
                self.end.handle_timeout(self.now);
            }
            (4, Some(id)) => {
                let n = usize::from(c.word()) % 30_000;
                self.end.write(self.now, id, &vec![7; n]);
            }
            (5, Some(id)) => {
                let mut out = vec![0; usize::from(c.word()) % 30_000];
                self.end.read(self.now, id, &mut out);
            }
            (6, Some(id)) => self.end.shutdown_write(self.now, id),
            (7, Some(id)) => self.end.close(self.now, id),
            (8, Some(id)) => self.end.abort(self.now, id),
            (9, _) => self.end.set_room(u32::from(c.byte() % 4) * 1_000),
            (10, _) => match self.listener.take() {
                Some(l) => self.end.unlisten(l),
                None => self.listen(),
            },
            (11, _) => {
                let n = usize::from(c.byte()) % 100;
                let (raw, rest) = c.0.split_at(n.min(c.0.len()));
                c.0 = rest;
                self.raw(raw);
            }
            (12, Some(id)) => {
                let some = [
                    ("ack_every", "2"),
                    ("nagle", "on"),
                    ("cwv", "on"),
                    ("iw", "2"),
                    ("user_timeout", "2s"),
                    ("keepalive", "on"),
                    ("keep_idle", "1s"),
                ];
                let (name, value) = some[usize::from(c.byte()) % some.len()];
                let _ = self.end.set_param(self.now, id, name, value);
            }
            (13..=15, _) => self.syn(c),
            (16..=18, Some(id)) => self.honest(c, id),
            (_, Some(id)) => self.hostile(c, id),
            _ => {}
        }
    }

    fn raw(&mut self, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        let ip = self.ip();
        if bytes.len() >= 20 {
            let p = ip.pseudo();
            Tcp.seal(&p, &mut bytes);
        }
        self.end.handle_packet(self.now, &ip, &bytes);
    }

    fn ip(&self) -> IpInfo {
        IpInfo {
            src: THEM,
            dst: US,
            proto: self.blueprint.number,
            ttl: 64,
            ecn: Ecn::NotEct,
        }
    }

    fn inject(&mut self, seg: &Seg) {
        let ip = self.ip();
        self.end.handle_packet(self.now, &ip, &seg.bytes(&ip));
    }

    fn syn(&mut self, c: &mut Choices<'_>) {
        let stamped = c.one_in(2);
        let seg = Seg {
            ports: (2_000 + u16::from(c.byte() % 8), 80),
            seq: Seq(c.long()),
            flags: Flags::SYN,
            window: u32::from(c.word()),
            ts: stamped.then(|| (c.long(), 0)),
            options: SynOptions {
                mss: c.word(),
                scale: Some(c.byte() % 16).filter(|s| *s < 15),
                sack_ok: c.one_in(2),
                ts_ok: stamped,
            },
            ..Seg::default()
        };
        self.inject(&seg);
    }

    /// What a peer that plays by the rules could say next.
    fn honest(&mut self, c: &mut Choices<'_>, id: ConnId) {
        let Some(conn) = self.end.conn(id) else {
            return;
        };
        let (t, b) = (conn.tuple(), conn.board());
        let flight = b.tx.max.since(b.tx.una);
        let share = u64::from(flight) * u64::from(c.byte()) / 255;
        let opening = !b.rx.synced;
        let stamped = b.conn.peer.ts_ok || opening;
        let clock = self.now.wire_micros();
        let fin = !opening && c.one_in(8);
        let flags = match (opening, fin) {
            (true, _) => Flags::SYN,
            (false, true) => Flags::FIN,
            _ => Flags(0),
        };
        let payload = if opening {
            0
        } else {
            usize::from(c.word()) % 1_449
        };
        let seg = Seg {
            ports: (t.remote.port(), t.local.port()),
            seq: if opening { Seq(c.long()) } else { b.rx.nxt },
            ack: Some(b.tx.una.plus(share as u32)),
            flags,
            window: u32::from(c.word()),
            ts: stamped.then_some((clock, clock.wrapping_sub(20_000))),
            options: SynOptions {
                mss: 1_460,
                scale: Some(2),
                sack_ok: true,
                ts_ok: stamped,
            },
            data: vec![3; payload],
            ..Seg::default()
        };
        self.inject(&seg);
    }

    fn hostile(&mut self, c: &mut Choices<'_>, id: ConnId) {
        let Some(conn) = self.end.conn(id) else {
            return;
        };
        let (t, b) = (conn.tuple(), conn.board());
        let (una, max, expected) = (b.tx.una, b.tx.max, b.rx.nxt);
        let mut seg = Seg {
            ports: (t.remote.port(), t.local.port()),
            seq: c.near(expected),
            flags: Flags([0, 0, 0, 1, 2, 4, 3, 7][usize::from(c.byte() % 8)]),
            window: u32::from(c.word()),
            ..Seg::default()
        };
        seg.ack = (!c.one_in(8)).then(|| {
            let centre = if c.one_in(2) { una } else { max };
            c.near(centre)
        });
        if c.one_in(2) {
            seg.ts = Some((self.now.wire_micros(), c.long()));
        }
        for _ in 0..c.byte() % 4 {
            let range = (c.near(una.plus(1)), c.near(max));
            seg.ranges.push(range);
        }
        seg.options.mss = c.word();
        seg.data = vec![9; usize::from(c.word()) % 1_500];
        self.inject(&seg);
    }

    /// Drain what there is to drain; then all facts must make sense and time must not stand still.
    fn settle(&mut self) {
        while self.end.poll_event().is_some() {}
        let mut sent = 0;
        while let Some(d) = self.end.poll_transmit(self.now, &mut self.out) {
            assert!(d.len <= 1_480, "a segment larger than the MTU");
            sent += 1;
            assert!(sent < 5_000, "no end of sending");
        }
        self.end.handle_timeout(self.now);
        while self.end.poll_transmit(self.now, &mut self.out).is_some() {}
        while self.end.poll_event().is_some() {}
        self.end.set_room(1_000);
        while self.end.poll_transmit(self.now, &mut self.out).is_some() {}
        assert!(
            self.end.poll_timeout() > self.now,
            "a deadline that has passed"
        );
        self.conns = self.end.conns().collect();
        assert!(self.conns.len() <= 24);
        for id in &self.conns {
            let conn = self.end.conn(*id).expect("it was listed");
            facts(conn.board());
            let _ = self.end.info(*id);
        }
    }
}

/// What is true of every connection at any time.
fn facts(b: &Board) {
    let tx = &b.tx;
    let flight = tx.max.since(tx.una);
    assert!(flight < 1 << 30, "max before una: {tx:?}");
    assert!(tx.nxt.since(tx.una) <= flight, "nxt outside: {tx:?}");
    assert!(tx.sacked <= flight, "more reported than sent: {tx:?}");
    assert!(tx.pipe < 1 << 30, "pipe: {tx:?}");
    let marks = u32::from(b.app.fin) + u32::from(b.app.syn.is_some());
    assert!(
        !tx.max.after(b.app.end.plus(marks)),
        "sent the unwritten: {tx:?}"
    );
    assert!(b.app.unread <= b.site.rcv_buf, "more read than fits");
    let packet = b.conn.mss + b.conn.overhead;
    assert!(packet <= 1_500, "segments larger than the MTU");
    assert!(
        !b.conn.running || b.conn.mss >= 48,
        "segments of {}",
        b.conn.mss
    );
    assert!(
        !b.conn.running || b.win.cwnd >= b.conn.mss,
        "window {}",
        b.win.cwnd
    );
}

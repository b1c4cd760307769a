//! Bytes as operations and hostile segments for an endpoint, whose composition they choose, too.

use crate::fuzz::{THEM, US, library};
use crate::seg::Seg;
use core::net::SocketAddrV4;
use std::sync::{Arc, OnceLock};
use wifu_engine::{Blueprint, Board, ConnId, Endpoint, EndpointConfig, ListenId};
use wifu_wire::tcp::Tcp;
use wifu_wire::{Ecn, Flags, IpInfo, Seq, Span, SynOptions, Time, Wire};

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
    counts: Counts,
}

/// Compositions that are fuzzed, each with what is drawn of the switches.
const BASES: [&str; 10] = [
    "tcp-tahoe,rcv_wnd=20000,snd_buf=20000",
    "tcp-reno,rcv_wnd=20000,snd_buf=20000,timestamps=off",
    "tcp-newreno,rcv_wnd=100000,snd_buf=20000,mss=500",
    "tcp-sack,rcv_wnd=20000,snd_buf=20000,rfc1337=on",
    "tcp-cubic,rcv_wnd=100000,snd_buf=50000",
    "tcp-sack,congestion=bbr,rcv_wnd=100000,snd_buf=50000",
    "tcp-sack,congestion=vegas,rcv_wnd=100000,snd_buf=50000",
    "tcp-dctcp,rcv_wnd=100000,snd_buf=50000",
    "tcp-linux,rcv_wnd=100000,snd_buf=50000",
    "tcp-linux-reno,sack=off,rcv_wnd=20000,snd_buf=20000",
];

/// Switches, as far as a composition has them.
const SWITCHES: [&str; 22] = [
    "dsack=on",
    "prr=on",
    "rack=on",
    "frto=on",
    "undo=on",
    "emulate=on",
    "episodes=linux",
    "rearm=on",
    "ecn=on",
    "quickack=16",
    "quickack_again=on",
    "ack_every=2",
    "stretch=8",
    "reduces=window",
    "exit=threshold",
    "abc_limit=65535",
    "hystart=off",
    "cwv=off",
    "abc=off",
    "ltx=off",
    "nagle=on",
    "keepalive=on",
];

/// Which switches a base takes.
fn taken() -> &'static [Vec<&'static str>] {
    static TAKEN: OnceLock<Vec<Vec<&'static str>>> = OnceLock::new();
    let of = |base: &&str| {
        let fits = |switch: &&&str| resolve(&format!("{base},{switch}")).is_some();
        SWITCHES.iter().filter(fits).copied().collect()
    };
    TAKEN.get_or_init(|| BASES.iter().map(of).collect())
}

fn resolve(spec: &str) -> Option<Arc<Blueprint>> {
    let registry = wifu_parts::registry();
    library().resolve(spec, &registry).ok()
}

/// The composition that these octets choose.
fn drawn(c: &mut Choices<'_>) -> String {
    let base = usize::from(c.byte()) % BASES.len();
    let mut bits = c.long();
    let mut spec = BASES[base].to_owned();
    for switch in &taken()[base] {
        if bits & 1 != 0 {
            spec.extend([",", switch]);
        }
        bits >>= 1;
    }
    spec
}

/// What a connection has counted: how often something rare happened.
pub type Counts = std::collections::BTreeMap<&'static str, f64>;

/// Operations and hostile segments for an endpoint.
pub fn engine(bytes: &[u8]) {
    observed(bytes);
}

/// The same; the composition that was drawn, and the highest counts of connections.
///
/// # Panics
/// If something is wrong.
pub fn observed(bytes: &[u8]) -> (String, Counts) {
    let mut choices = Choices(bytes);
    let spec = drawn(&mut choices);
    let blueprint = resolve(&spec).unwrap_or_else(|| panic!("{spec} is not understood"));
    let mut stage = Stage {
        end: Endpoint::new(EndpointConfig {
            seed: 7,
            node: 1,
            max_conns: 24,
            max_resting: 4,
            ..EndpointConfig::default()
        }),
        now: Time(u64::from(choices.word()) * 67_000_000_000),
        blueprint,
        listener: None,
        conns: Vec::new(),
        out: vec![0; 2_048],
        counts: Counts::new(),
    };
    stage.listen();
    while !choices.0.is_empty() {
        stage.act(&mut choices);
        stage.settle();
    }
    (spec, stage.counts)
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
                let ip = self.ip(c);
                self.raw(ip, raw);
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

    fn raw(&mut self, ip: IpInfo, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        if bytes.len() >= 20 {
            let p = ip.pseudo();
            Tcp.seal(&p, &mut bytes);
        }
        self.end.handle_packet(self.now, &ip, &bytes);
    }

    /// One in four was marked.
    fn ip(&self, c: &mut Choices<'_>) -> IpInfo {
        IpInfo {
            src: THEM,
            dst: US,
            proto: self.blueprint.number,
            ttl: 64,
            ecn: [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][usize::from(c.byte() % 4)],
        }
    }

    fn inject(&mut self, c: &mut Choices<'_>, seg: &Seg) {
        let ip = self.ip(c);
        self.end.handle_packet(self.now, &ip, &seg.bytes(&ip));
    }

    fn syn(&mut self, c: &mut Choices<'_>) {
        let stamped = c.one_in(2);
        let seg = Seg {
            ports: (2_000 + u16::from(c.byte() % 8), 80),
            seq: Seq(c.long()),
            flags: Flags::SYN.with(echoes(c)),
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
        self.inject(c, &seg);
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
        let flags = flags.with(echoes(c));
        let payload = if opening {
            0
        } else {
            usize::from(c.word()) % 1_449
        };
        let seg = Seg {
            ports: (t.remote.port(), t.local.port()),
            seq: if opening { Seq(c.long()) } else { b.rx.nxt },
            ack: Some(b.tx.una.plus(share as u32)),
            ranges: reports(c, b.tx.una.plus(share as u32), b.tx.max),
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
        };
        self.inject(c, &seg);
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
            flags: Flags([0, 0, 0, 1, 2, 4, 3, 7][usize::from(c.byte() % 8)]).with(echoes(c)),
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
        self.inject(c, &seg);
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
            conn.observe(&mut |_, name, value| {
                let most = self.counts.entry(name).or_insert(value);
                *most = most.max(value);
            });
            let _ = self.end.info(*id);
        }
    }
}

/// Flags of RFC 3168, mostly none.
fn echoes(c: &mut Choices<'_>) -> Flags {
    match c.byte() % 8 {
        0 | 1 => Flags::ECE,
        2 => Flags::CWR,
        3 => Flags::ECE.with(Flags::CWR),
        _ => Flags(0),
    }
}

/// Up to three ranges of what is outstanding beyond `ack`, or one that was acknowledged before.
fn reports(c: &mut Choices<'_>, ack: Seq, max: Seq) -> Vec<(Seq, Seq)> {
    let mut ranges = Vec::new();
    if c.one_in(8) {
        ranges.push((ack.minus(u32::from(c.byte()) + 1), ack));
    }
    let mut from = ack;
    for _ in 0..c.byte() % 4 {
        let left = max.since(from);
        let start = from.plus(left / 255 * u32::from(c.byte()) / 4 + 1);
        let end = start.plus(u32::from(c.word() % 4_000) + 1).earlier(max);
        if !end.after(start) {
            break;
        }
        ranges.push((start, end));
        from = end;
    }
    ranges
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

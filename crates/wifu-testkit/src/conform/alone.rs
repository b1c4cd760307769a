//! One part on the bench, under random but plausible events.

use super::{edges, undeclared};
use wifu_engine::component::TIMERS;
use wifu_engine::signal::{Acked, Arrived, Congested, Lost, RttSample, Sent, Status};
use wifu_engine::{
    Arrival, Bench, Cause, Descriptor, Facts, Fault, Kind, Limit, Reason, Role, Signal, Want,
};
use wifu_wire::{Class, Flags, FrameFacts, Head, HeadField, Rng, Span};

const MSS: u32 = 1000;

/// `steps` random events for each of `seeds`. Offers and permits are asked twice and change
/// nothing; only declared signals are said, only declared fields of the header filled in; only
/// declared hooks are needed; a window holds at least one segment.
pub fn alone(d: &'static Descriptor, seeds: u64, steps: u32) -> Vec<String> {
    let mut faults = Vec::new();
    for seed in 0..seeds {
        let mut rng = Rng::new(seed).split(d.name);
        let mut run = match Run::new(d, &mut rng) {
            Ok(run) => run,
            Err(e) => return vec![format!("{}: {e}", d.name)],
        };
        for step in 0..steps {
            run.disturb(&mut rng);
            run.step(&mut rng);
            run.keeps();
            run.needs_declared();
            if !run.faults.is_empty() {
                let place = format!("seed {seed}, step {step}");
                faults.extend(run.faults.drain(..).map(|f| format!("{f} ({place})")));
                return faults;
            }
        }
    }
    faults
}

struct Run {
    d: &'static Descriptor,
    bench: Bench,
    heard: Vec<&'static str>,
    opened: bool,
    faults: Vec<String>,
}

impl Run {
    fn new(d: &'static Descriptor, rng: &mut Rng) -> Result<Run, String> {
        let pick = |p: &wifu_engine::ParamSpec, rng: &mut Rng| {
            let values = edges(p);
            let edge = values[rng.below(values.len() as u64) as usize];
            if rng.below(2) == 0 { p.default } else { edge }
        };
        let values: Vec<_> = d.params.iter().map(|p| (p.name, pick(p, rng))).collect();
        let mut bench = Bench::with_values(d, &values).map_err(|e| e.0)?;
        bench.board.conn.mss = MSS;
        bench.board.conn.running = true;
        bench.board.site.mtu = 1500;
        bench.board.site.rcv_buf = 65_535;
        bench.board.rx.synced = true;
        Ok(Run {
            d,
            bench,
            heard: d.heard().map(|(name, _)| name).collect(),
            opened: false,
            faults: Vec::new(),
        })
    }

    /// Facts that others write become something plausible.
    fn disturb(&mut self, rng: &mut Rng) {
        let (mine, b) = (self.d.writes, &mut self.bench.board);
        let mut upto = |n: u64| rng.below(n) as u32;
        if !mine.has(Facts::TX) {
            b.tx.una = b.tx.una.plus(upto(3 * 1000));
            b.tx.max = b.tx.una.plus(upto(100_000));
            b.tx.nxt = b.tx.una.plus(upto(u64::from(b.tx.max.since(b.tx.una)) + 1));
            b.tx.pipe = upto(u64::from(b.tx.max.since(b.tx.una)) + 1);
            b.tx.rto = Span::MILLI * u64::from(200 + upto(60_000));
            b.app.end = b.tx.max.plus(upto(10_000));
        }
        if !mine.has(Facts::RTT) {
            b.rtt.min = Span::MICRO * u64::from(1 + upto(100_000));
            b.rtt.srtt = b.rtt.min + Span::MICRO * u64::from(upto(1_000_000));
            (b.rtt.last, b.rtt.rto) = (b.rtt.srtt, b.rtt.srtt * 2);
            b.rtt.samples += upto(2);
        }
        if !mine.has(Facts::WIN) {
            b.win.cwnd = MSS + upto(100_000);
            b.win.ssthresh = 2 * MSS + upto(100_000);
        }
        if !mine.has(Facts::PEER) {
            b.peer.window = upto(65_536);
        }
        if !mine.has(Facts::RX) {
            b.rx.nxt = b.rx.nxt.plus(upto(2 * 1000));
            b.rx.window = upto(65_536);
        }
        b.app.limited = LIMITS[upto(LIMITS.len() as u64) as usize];
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(12) {
            0..5 => self.hear(rng),
            5 => self.meet(rng),
            6 => {
                let to = self.bench.now + Span::MICRO * rng.below(300_000);
                let said = self.bench.advance(to);
                self.may("timer", &said);
            }
            7 => self.change(rng),
            8 => self.stamp(rng),
            9 => self.is_deaf(rng),
            _ => self.send(rng),
        }
    }

    fn hear(&mut self, rng: &mut Rng) {
        if self.heard.is_empty() {
            return;
        }
        let first = self.heard.contains(&"opened") && !self.opened;
        let any = self.heard[rng.below(self.heard.len() as u64) as usize];
        let name = if first { "opened" } else { any };
        if name == "opened" && self.opened {
            return; // a connection opens once
        }
        self.opened |= first;
        let Some(signal) = plausible(name, &self.bench.board, rng) else {
            return;
        };
        let said = self.bench.signal(signal);
        self.may(name, &said);
    }

    /// A signal that is not in `hears` changes nothing: an arm for it would never be reached.
    fn is_deaf(&mut self, rng: &mut Rng) {
        let name = Signal::NAMES[rng.below(Signal::NAMES.len() as u64) as usize];
        if self.heard.contains(&name) {
            return;
        }
        let Some(signal) = plausible(name, &self.bench.board, rng) else {
            return;
        };
        let state = |bench: &Bench| {
            let offers: Vec<_> = self.d.offers.iter().map(|k| bench.offer(*k)).collect();
            let due: Vec<_> = (0..TIMERS as u8).map(|t| bench.due(t)).collect();
            let offers = format!("{offers:?}");
            (bench.probes(), format!("{:?}", bench.board), offers, due)
        };
        let before = state(&self.bench);
        let said = self.bench.signal(signal);
        // A narrow trait may do its own business around a method that is not overridden.
        let default = self.bench.board.defaulted.take();
        if !default && (!said.is_empty() || before != state(&self.bench)) {
            let what = format!(
                "{}: answers \"{name}\", which it does not hear",
                self.d.name
            );
            self.faults.push(what);
        }
    }

    fn meet(&mut self, rng: &mut Rng) {
        let mut head = Head::default();
        head.seq = self.bench.board.rx.nxt.plus(rng.below(5000) as u32);
        head.ack = (rng.below(4) > 0).then(|| self.bench.board.tx.una.plus(rng.below(3000) as u32));
        head.ts = (rng.below(2) > 0).then(|| rng.next_u32());
        head.ttl = rng.next_u32() as u8;
        head.window = rng.below(65_536) as u32;
        let payload = [0u8; 1500];
        let payload = &payload[..rng.below(1500) as usize];
        if self.d.has_hook("segment") {
            let (_, said) = self.bench.segment(&head, payload);
            self.may("segment", &said);
        }
        if self.d.has_hook("overheard") {
            let said = self.bench.overheard(&head, &FrameFacts::default());
            self.may("overheard", &said);
        }
    }

    fn change(&mut self, rng: &mut Rng) {
        if self.d.params.is_empty() {
            return;
        }
        let p = &self.d.params[rng.below(self.d.params.len() as u64) as usize];
        let values = edges(p);
        self.bench
            .set(p.name, values[rng.below(values.len() as u64) as usize]);
    }

    fn send(&mut self, rng: &mut Rng) {
        let Some(kind) = self.d.offers.get(rng.below(9) as usize).copied() else {
            return;
        };
        let Some(want) = self.bench.offer(kind) else {
            return;
        };
        let mut head = Head::default();
        head.ack = (rng.below(2) == 0).then_some(self.bench.board.rx.nxt);
        let before = head.clone();
        let (_, sent, said) = self.bench.fill(&want, &mut head);
        self.filled(&before, &head);
        self.may("fill", &said);
        if self.heard.contains(&"sent") {
            let said = self.bench.signal(Signal::Sent(sent));
            self.may("sent", &said);
        }
    }

    /// Another part's segment leaves.
    fn stamp(&mut self, rng: &mut Rng) {
        if !self.d.has_hook("stamp") {
            return;
        }
        let mut head = Head::default();
        let flag = FLAGS[rng.below(FLAGS.len() as u64) as usize];
        (head.seq, head.flags) = (self.bench.board.tx.nxt, flag);
        let before = head.clone();
        let kind = Kind::ALL[rng.below(Kind::ALL.len() as u64) as usize];
        self.bench.stamp(kind, &mut head);
        self.filled(&before, &head);
    }

    /// What the part put into the header is declared.
    fn filled(&mut self, before: &Head, after: &Head) {
        let new = |f: &HeadField| f.is_in(after) && !f.is_in(before);
        let declared = |f: &HeadField| self.d.fields.iter().any(|u| u.field == *f);
        for field in HeadField::ALL.iter().filter(|f| new(f) && !declared(f)) {
            let what = format!("{}: fills in {}, undeclared", self.d.name, field.name());
            self.faults.push(what);
        }
    }

    fn may(&mut self, source: &str, said: &[Signal]) {
        self.faults
            .extend(undeclared(&self.bench, self.d, source, said));
    }

    /// Only declared hooks were called: each must be overridden.
    fn needs_declared(&mut self) {
        if self.bench.board.defaulted.take() {
            let what = format!("{}: a declared hook is not overridden", self.d.name);
            self.faults.push(what);
        }
    }

    /// What holds after every event.
    fn keeps(&mut self) {
        let before = (self.bench.probes(), format!("{:?}", self.bench.board));
        for kind in Kind::ALL {
            if self.d.offers.contains(&kind) {
                let (a, b) = (self.bench.offer(kind), self.bench.offer(kind));
                if format!("{a:?}") != format!("{b:?}") {
                    let what = format!("{}: offered {a:?}, then {b:?}", self.d.name);
                    self.faults.push(what);
                }
            }
            let want = Want {
                kind,
                bytes: MSS,
                least: 1,
            };
            if self.d.has_hook("permit") {
                let (a, b) = (self.bench.permit(&want), self.bench.permit(&want));
                if a != b {
                    let what = format!("{}: permitted {a:?}, then {b:?}", self.d.name);
                    self.faults.push(what);
                }
            }
        }
        if before != (self.bench.probes(), format!("{:?}", self.bench.board)) {
            let what = format!("{}: an offer or a permit changed something", self.d.name);
            self.faults.push(what);
        }
        let win = &self.bench.board.win;
        if self.d.role == Role::Congestion && self.opened && win.cwnd < MSS {
            let what = format!("{}: cwnd {} is below one segment", self.d.name, win.cwnd);
            self.faults.push(what);
        }
    }
}

const FLAGS: [Flags; 4] = [Flags(0), Flags::FIN, Flags::SYN, Flags::RST];

const LIMITS: [Limit; 4] = [Limit::Window, Limit::Source, Limit::Peer, Limit::Pace];

/// A signal of that name as it could come now; `None` for names of other parts.
fn plausible(name: &str, b: &wifu_engine::Board, rng: &mut Rng) -> Option<Signal> {
    let flight = b.tx.max.since(b.tx.una).min(1 << 20);
    let mut below = |n: u32| rng.below(u64::from(n.max(1))) as u32;
    Some(match name {
        "connect" => Signal::Connect,
        "listen" => Signal::Listen,
        "wrote" => Signal::Wrote,
        "read" => Signal::Read,
        "closing" => Signal::Closing,
        "abort" => Signal::Abort,
        "opened" => Signal::Opened,
        "gave-up" => Signal::GaveUp,
        "ack-now" => Signal::AckNow,
        "dup-ack" => Signal::DupAck,
        "recovered" => Signal::Recovered { flight },
        "undone" => Signal::Undone,
        "ended" => Signal::Ended((below(2) == 0).then_some(Fault::Reset)),
        "sent" => Signal::Sent(Sent {
            kind: Kind::ALL[below(8) as usize],
            reason: Reason::First,
            acks: below(2) == 0,
            seq: b.tx.nxt,
            bytes: below(MSS + 1),
            late: Span::ZERO,
        }),
        "arrived" => Signal::Arrived(Arrived {
            seq: b.rx.nxt.minus(MSS),
            bytes: below(MSS + 1),
            gap: 0,
            order: ORDERS[below(7) as usize],
            fin: below(100) == 0,
            ce: below(50) == 0,
        }),
        "acked" => Signal::Acked(Acked {
            bytes: below(3 * MSS),
            upto: b.tx.una,
            in_recovery: below(5) == 0,
            limited_by: b.app.limited,
        }),
        "lost" => Signal::Lost(Lost {
            bytes: MSS,
            flight,
            cause: CAUSES[below(4) as usize],
            new_episode: below(2) == 0,
            repeat: below(4) == 0,
        }),
        "congested" => Signal::Congested(Congested {
            flight,
            cause: CAUSES[below(4) as usize],
            repeat: below(4) == 0,
        }),
        "rtt" => Signal::Rtt(RttSample {
            rtt: Span::MICRO * u64::from(1 + below(2_000_000)),
            data_bytes: 1 + below(1500),
            ack_bytes: 40,
        }),
        "returned" => Signal::Returned(b.tx.una),
        "expired" => Signal::Expired(b.tx.una),
        "status" => Signal::Status(Status {
            number: b.tx.una,
            class: Class::Data,
            delivered: below(2) == 0,
            attempts: 1 + below(7) as u8,
            airtime_ns: None,
            delay: None,
        }),
        "route" => Signal::Route,
        _ => return None,
    })
}

const CAUSES: [Cause; 4] = [Cause::DupAcks, Cause::Explicit, Cause::Mark, Cause::Timeout];

const ORDERS: [Arrival; 7] = [
    Arrival::InOrder,
    Arrival::InOrder,
    Arrival::InOrder,
    Arrival::InOrder,
    Arrival::Ahead,
    Arrival::Fills,
    Arrival::Duplicate,
];

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::descriptor::BuildError;
    use wifu_engine::kit::{WindowControl, Windowed};
    use wifu_engine::{Board, Component, Cx, FieldUse, Out, ParamSpec, Permit};
    use wifu_wire::{Seq, Time};

    static LOUD: Descriptor = Descriptor {
        name: "loud",
        hears: &[("read", &["acked"])],
        build: |_| Ok::<_, BuildError>(Box::new(Loud) as Box<dyn Component>),
        ..Descriptor::EMPTY
    };

    struct Loud;

    impl Component for Loud {
        fn on_signal(&mut self, _signal: &Signal, cx: &mut Cx<'_>) {
            cx.out.emit(Signal::DupAck);
        }
    }

    static EAGER: Descriptor = Descriptor {
        name: "eager",
        hears: &[("opened", &[])],
        probes: &["round_trips"],
        build: |_| Ok(Box::new(Eager(0, |s| matches!(s, Signal::Rtt(_))))),
        ..Descriptor::EMPTY
    };

    /// Those of links, which only few parts hear.
    static RETURNED: Descriptor = Descriptor {
        name: "returned",
        build: |_| Ok(Box::new(Eager(0, |s| matches!(s, Signal::Returned(_))))),
        hears: &[("opened", &[])],
        probes: &["round_trips"],
        ..Descriptor::EMPTY
    };
    static STATUS: Descriptor = Descriptor {
        name: "status",
        build: |_| Ok(Box::new(Eager(0, |s| matches!(s, Signal::Status(_))))),
        hears: &[("opened", &[])],
        probes: &["round_trips"],
        ..Descriptor::EMPTY
    };
    static ROUTE: Descriptor = Descriptor {
        name: "route",
        build: |_| Ok(Box::new(Eager(0, |s| matches!(s, Signal::Route)))),
        hears: &[("opened", &[])],
        probes: &["round_trips"],
        ..Descriptor::EMPTY
    };

    /// Counts signals of one kind, heard or not.
    struct Eager(u32, fn(&Signal) -> bool);

    impl Component for Eager {
        fn on_signal(&mut self, signal: &Signal, _cx: &mut Cx<'_>) {
            self.0 += u32::from((self.1)(signal));
        }
        fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
            probe("round_trips", f64::from(self.0));
        }
    }

    static FICKLE: Descriptor = Descriptor {
        name: "fickle",
        hooks: &["permit"],
        build: |_| Ok(Box::new(Fickle(core::sync::atomic::AtomicU32::new(0)))),
        ..Descriptor::EMPTY
    };

    struct Fickle(core::sync::atomic::AtomicU32);

    impl Component for Fickle {
        fn permit(&self, _want: &Want, _board: &Board, _now: Time) -> Permit {
            let n = self.0.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
            Permit::upto(n, Limit::Window)
        }
    }

    static TINY: Descriptor = Descriptor {
        name: "tiny",
        role: Role::Congestion,
        writes: Facts::WIN,
        hears: &[("opened", &[]), ("congested", &[])],
        hooks: &["permit"],
        build: |_| Ok(Box::new(Windowed(Tiny(2 * MSS)))),
        ..Descriptor::EMPTY
    };

    struct Tiny(u32);

    impl WindowControl for Tiny {
        fn window(&self) -> (u32, u32) {
            (self.0, self.0)
        }
        fn on_opened(&mut self, _board: &Board, _now: Time) {}
        fn on_acked(&mut self, _acked: &Acked, _board: &Board, _now: Time) {}
        fn on_congested(&mut self, _what: &Congested, _board: &Board, _now: Time) {
            self.0 /= 2;
        }
    }

    static FILLING: Descriptor = Descriptor {
        name: "filling",
        fields: &[FieldUse::of(HeadField::Ack)],
        hooks: &["stamp"],
        build: |_| Ok(Box::new(Filling)),
        ..Descriptor::EMPTY
    };

    struct Filling;

    impl Component for Filling {
        fn stamp(&mut self, out: &mut Out<'_>, _cx: &mut Cx<'_>) {
            (out.head.ack, out.head.window) = (Some(Seq(1)), 1);
        }
    }

    static LATE: Descriptor = Descriptor {
        name: "late",
        hooks: &["stamp"],
        build: |_| Ok(Box::new(Late)),
        ..Descriptor::EMPTY
    };

    struct Late;

    impl Component for Late {
        fn stamp(&mut self, out: &mut Out<'_>, _cx: &mut Cx<'_>) {
            if out.head.flags.has(Flags::FIN) {
                out.head.window = 1;
            }
        }
    }

    #[test]
    fn a_field_that_a_parameter_makes_needless_by_no_value_it_has_is_caught() {
        static ODD: Descriptor = Descriptor {
            name: "odd",
            doc: "Odd.",
            cites: &["own"],
            params: &[ParamSpec::flag("timed", true, "Whether it times.")],
            fields: &[FieldUse::of(HeadField::Ack).unless("timed", "never")],
            hooks: &["stamp"],
            build: |_| Ok(Box::new(Filling)),
            ..Descriptor::EMPTY
        };
        let what = "odd: does without a field with timed = never, which it cannot have";
        assert_eq!(super::super::described(&ODD), [what]);
    }

    #[test]
    fn a_part_that_breaks_its_word_is_caught() {
        for (d, word) in [
            (&EAGER, "eager: answers \"rtt\", which it does not hear"),
            (&RETURNED, "answers \"returned\", which it does not hear"),
            (&STATUS, "answers \"status\", which it does not hear"),
            (&ROUTE, "answers \"route\", which it does not hear"),
            (&LATE, "late: fills in window, undeclared"),
            (&FILLING, "filling: fills in window, undeclared"),
            (&LOUD, "undeclared"),
            (&FICKLE, "then"),
            (&TINY, "below one segment"),
        ] {
            let faults = alone(d, 2, 400);
            assert!(faults.iter().any(|f| f.contains(word)), "{faults:?}");
        }
    }

    #[test]
    fn a_hook_declared_in_vain_or_not_at_all_is_caught() {
        static VAIN: Descriptor = Descriptor {
            name: "vain",
            hooks: &["stamp"],
            build: |_| Ok(Box::new(Loud)),
            ..Descriptor::EMPTY
        };
        let faults = super::super::hooked(&VAIN);
        assert_eq!(
            faults,
            [
                "vain: signal overridden, not declared",
                "vain: stamp declared, not overridden"
            ]
        );
    }
}

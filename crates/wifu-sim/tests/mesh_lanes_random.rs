//! Lanes and handlers of many kinds in random networks: books balance, nothing hangs, nobody waits
//! for an event that does not come.

use std::cell::Cell;
use wifu_core::{Chain, Full, Handler, Hook, Hooks, HopCx, Packet, Seat, Verdict};
use wifu_engine::board::ConnFacts;
use wifu_engine::component::Cx;
use wifu_engine::{
    Admit, Board, Component, Descriptor, Facts, Kind, Library, Out, Payload, Role, Segment, Signal,
    Want, WordSpec,
};
use wifu_node::Registry;
use wifu_sim::mesh::Simulation;
use wifu_sim::scenario::Scenario;
use wifu_wire::{Class, LinkTo, Rng, Time, Word};

thread_local! { static CALLS: Cell<u64> = const { Cell::new(0) };
static OWED: Cell<(u64,u64)> = const { Cell::new((0,0)) }; }

const MARK: WordSpec = WordSpec::new("mark", 8).by_hops();
const SAYS: WordSpec = WordSpec::new("says", 1).marking(Class::Hop);
const QUEUE: Descriptor = Descriptor {
    role: Role::Reliable,
    words: &[MARK, SAYS, WordSpec::transmitter("transmitter")],
    writes: Facts::TX.with(Facts::CONN),
    hears: &[("segment", &[]), ("wrote", &["opened"]), ("status", &[])],
    offers: &[Kind::Urgent, Kind::New],
    needs: &[("store", &["packets"])],
    hooks: &["segment"],
    ..Descriptor::EMPTY
};
static PLAIN: Descriptor = Descriptor {
    name: "plain",
    doc: "x.",
    hears: &[("segment", &[]), ("wrote", &["opened"])],
    offers: &[Kind::New],
    build: |p| {
        Ok(Box::new(Queue {
            says: p.word("says"),
            mark: p.word("mark"),
            to: LinkTo::Route,
            owes: 0,
            reports: false,
            always: false,
        }))
    },
    ..QUEUE
};
static ALLDATA: Descriptor = Descriptor {
    name: "alldata",
    doc: "x.",
    hears: &[("segment", &[]), ("wrote", &["opened"])],
    offers: &[Kind::New],
    build: |p| {
        Ok(Box::new(Queue {
            says: p.word("says"),
            mark: p.word("mark"),
            to: LinkTo::All,
            owes: 0,
            reports: false,
            always: false,
        }))
    },
    ..QUEUE
};
static REPORTS: Descriptor = Descriptor {
    name: "reports",
    doc: "x.",
    build: |p| {
        Ok(Box::new(Queue {
            says: p.word("says"),
            mark: p.word("mark"),
            to: LinkTo::Route,
            owes: 0,
            reports: true,
            always: false,
        }))
    },
    ..QUEUE
};
thread_local! { static WORST: std::cell::RefCell<std::collections::BTreeMap<u32,Vec<u64>>> = const { std::cell::RefCell::new(std::collections::BTreeMap::new()) }; }
thread_local! { static SINCE: std::cell::RefCell<std::collections::BTreeMap<u32,std::collections::VecDeque<u64>>> = const { std::cell::RefCell::new(std::collections::BTreeMap::new()) }; }
struct Queue {
    says: Word,
    mark: Word,
    to: LinkTo,
    owes: u32,
    reports: bool,
    always: bool,
}
impl Component for Queue {
    fn on_segment(&mut self, s: &Segment<'_>, _: &mut Cx<'_>) -> Admit {
        if self.always && s.frame.along && !s.payload.is_empty() && s.head.get(self.says) == 0 {
            self.owes += 1;
        }
        Admit::Pass
    }
    fn on_signal(&mut self, s: &Signal, cx: &mut Cx<'_>) {
        if let Signal::Status(s) = s
            && self.reports
            && s.class == Class::Data
        {
            SINCE.with_borrow_mut(|m| m.entry(cx.board.site.me).or_default().push_back(cx.now.0));
            self.owes += 1;
            OWED.with(|o| {
                let (a, b) = o.get();
                o.set((a + 1, b));
            });
        }
        if !cx.board.conn.running {
            cx.write(|c: &mut ConnFacts| c.running = true);
            cx.out.emit(Signal::Opened);
        }
    }
    fn offer(&self, kind: Kind, board: &Board, _: Time) -> Option<Want> {
        let any = match kind {
            Kind::Urgent => self.owes > 0,
            _ => board.app.queued > 0,
        };
        any.then_some(Want {
            kind,
            bytes: 1,
            least: 1,
        })
    }
    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        CALLS.set(CALLS.get() + 1);
        assert!(CALLS.get() < 1_000_000, "a million fills at {:?}", cx.now);
        if want.kind == Kind::Urgent {
            self.owes -= 1;
            let at = SINCE.with_borrow_mut(|m| {
                m.entry(cx.board.site.me)
                    .or_default()
                    .pop_front()
                    .unwrap_or(cx.now.0)
            });
            WORST.with_borrow_mut(|m| m.entry(cx.board.site.me).or_default().push(cx.now.0 - at));
            OWED.with(|o| {
                let (a, b) = o.get();
                o.set((a, b + 1));
            });
            out.head.set(self.says, 1);
        } else if let Some((ticket, number)) = cx.store.pop() {
            out.head.seq = number;
            out.head.set(self.mark, 9);
            out.aside.to = self.to;
            out.payload = Payload::Packet {
                ticket,
                keep: false,
            };
        }
    }
}

/// Keeps each second packet and sends it again once when a status says that it was not delivered;
/// lets go when an answer passes, or a status says that it was.
static KEEPS: Descriptor = Descriptor {
    name: "keeps",
    doc: "x.",
    build: |p| {
        Ok(Box::new(Keeps {
            q: Queue {
                says: p.word("says"),
                mark: p.word("mark"),
                to: LinkTo::Route,
                owes: 0,
                reports: false,
                always: false,
            },
            kept: None,
            again: false,
            n: 0,
            all: false,
        }))
    },
    ..QUEUE
};
static BROAD: Descriptor = Descriptor {
    name: "broad",
    doc: "x.",
    build: |p| {
        Ok(Box::new(Keeps {
            q: Queue {
                says: p.word("says"),
                mark: p.word("mark"),
                to: LinkTo::Route,
                owes: 0,
                reports: false,
                always: false,
            },
            kept: None,
            again: false,
            n: 0,
            all: true,
        }))
    },
    ..QUEUE
};
struct Keeps {
    q: Queue,
    kept: Option<(wifu_engine::Ticket, wifu_wire::Seq)>,
    again: bool,
    n: u32,
    all: bool,
}
impl Component for Keeps {
    fn on_segment(&mut self, s: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        if !s.frame.along
            && let Some((t, _)) = self.kept.take()
        {
            cx.out.release(t);
            self.again = false;
        }
        Admit::Pass
    }
    fn on_signal(&mut self, s: &Signal, cx: &mut Cx<'_>) {
        if let Signal::Status(s) = s
            && let Some((t, n)) = self.kept
            && s.class == Class::Data
            && s.number == n
        {
            if s.delivered {
                cx.out.release(t);
                self.kept = None;
                self.again = false;
            } else {
                self.again = true;
            }
        }
        if let Signal::Returned(_) = s
            && self.kept.is_some()
        {
            self.again = true;
        }
        self.q.on_signal(s, cx);
    }
    fn offer(&self, kind: Kind, board: &Board, _: Time) -> Option<Want> {
        (kind == Kind::New && (self.again || (board.app.queued > 0 && self.kept.is_none())))
            .then_some(Want {
                kind,
                bytes: 1,
                least: 1,
            })
    }
    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        self.n += 1;
        if let (true, Some((ticket, number))) = (self.again, self.kept) {
            self.again = false;
            out.head.seq = number;
            out.head.set(self.q.mark, 9);
            out.payload = Payload::Packet { ticket, keep: true };
        } else if self.n.is_multiple_of(2)
            && let Some((ticket, number)) = cx.store.pop()
        {
            self.kept = Some((ticket, number));
            out.head.seq = number;
            out.head.set(self.q.mark, 9);
            if self.all {
                out.aside.to = LinkTo::All;
            }
            out.payload = Payload::Packet { ticket, keep: true };
        } else {
            self.q.fill(want, out, cx);
        }
    }
}

struct Wild {
    held: Vec<u64>,
    copies: Vec<u64>,
}
impl Handler for Wild {
    fn on_packet(&mut self, hook: Hook, p: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        if cx.rng.below(30) == 0
            && self.copies.len() < 5
            && let Some(c) = p.copy()
        {
            self.copies.push(c);
        }
        if cx.rng.below(20) == 0 && !self.copies.is_empty() {
            let t = self.copies.swap_remove(0);
            match cx.rng.below(3) {
                0 => cx.drop_kept(t),
                1 => {
                    cx.send_kept(t, true, LinkTo::All);
                    self.copies.push(t);
                }
                _ => {
                    cx.send_kept(t, false, LinkTo::Route);
                }
            }
        }
        if hook != Hook::Overheard && cx.rng.below(10) == 0 && self.held.len() < 10 {
            self.held.push(p.ticket);
            let at = cx.now + wifu_wire::Span(cx.rng.below(5_000_000));
            cx.arm(0, at);
            return Verdict::Hold;
        }
        if hook != Hook::Overheard && cx.rng.below(200) == 0 {
            return Verdict::Drop("wild");
        }
        Verdict::Accept
    }
    fn on_timer(&mut self, _: u8, cx: &mut HopCx<'_>) {
        for t in self.held.drain(..) {
            cx.release(t, Verdict::Accept);
        }
    }
}

fn random(seed: u64, wild: bool) -> (String, wifu_sim::outcome::Outcome) {
    let mut rng = Rng::new(seed);
    let lane = ["plain", "reports", "keeps", "broad"][rng.below(4) as usize];
    let packets = [2, 8, 40][rng.below(3) as usize];
    let own = format!(
        "[protocol.laned]\nextends = \"tcp-newreno\"\nnumber = 249\nwire = \"shim\"\n[lane.laned]\nset = {{ packets = {packets} }}\nreliable = \"{lane}\"\n"
    );
    let own = Library::parse(&own).unwrap();
    let parts = wifu_parts::registry().with(&[&PLAIN, &ALLDATA, &REPORTS, &KEEPS, &BROAD]);
    let registry = Registry::new(parts, wifu_parts::library().merge(own));
    let n = 3 + rng.below(5);
    let topology = match rng.below(if lane == "broad" { 3 } else { 5 }) {
        0 => format!("[topology]\nwords = \"linear,{n}\"\nset = \"TB-W9\"\n"),
        1 => format!("[topology]\nwords = \"random,{n}\"\n"),
        2 => format!(
            "[topology.placement]\nkind = \"uniform\"\narea_m = [60.0, 60.0]\ncount = {n}\n[topology.fading]\nsigma_db = 2\n[[mobility]]\nkind = \"waypoint\"\narea = [0, 0, 60, 60]\nspeed = [2, 20]\npause = \"0.5s\"\n"
        ),
        3 => format!(
            "[topology]\nwords = \"linear,{n},wire=2Mb/s,delay=3ms,queue=2,loss=0.02,variation=1ms\"\n"
        ),
        _ => {
            let mut t = String::new();
            for i in 1..=n {
                t += &format!("[[topology.node]]\nname = \"n{i}\"\nwired_only = true\n");
            }
            for i in 1..n {
                for _ in 0..2 {
                    t += &format!(
                        "[[topology.wire]]\na = \"n{i}\"\nb = \"n{}\"\nrate = \"2Mb/s\"\ndelay = \"2ms\"\nqueue = 2\n",
                        i + 1
                    );
                }
            }
            t
        }
    };
    let routing = ["", "[routing.olsr]\nwithdraw = true\nhello = \"0.2s\"\n"]
        [usize::from(topology.contains("mobility") && rng.below(2) == 0)];
    let host = [
        "",
        "[host]\nfwd_cost = \"300us\"\n",
        "[host]\nlanes = \"fifo\"\n",
        "[host]\nlanes = \"strict\"\n",
    ][rng.below(4) as usize];
    let mut flows = String::new();
    for _ in 0..1 + rng.below(4) {
        let from = 1 + rng.below(n);
        let to = 1 + (from + rng.below(n - 1)) % n;
        flows += &format!(
            "[[flow]]\nfrom = \"n{from}\"\nto = \"n{to}\"\nprotocol = \"laned\"\napp = \"file\"\nbytes = \"60k\"\n"
        );
    }
    let text = format!("seed = {seed}\n{topology}{routing}{host}{flows}[stop]\ntime = \"20s\"\n");
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut s = Simulation::new(&scenario, &registry).unwrap_or_else(|e| panic!("{e}\n{text}"));
    if wild {
        for i in 0..n as u16 {
            let mut chain = Chain::new();
            chain.push(
                Seat {
                    most: 30,
                    full: Full::Closed,
                    ..Seat::new("wild", Hooks::ALL, Rng::new(seed + u64::from(i)))
                },
                Box::new(Wild {
                    held: vec![],
                    copies: vec![],
                }),
            );
            s.set_chain(i, chain);
        }
    }
    s.run();
    (format!("{lane} {packets}\n{text}"), s.outcome())
}

#[test]
fn books_balance_whatever_lanes_and_handlers_do() {
    for wild in [false, true] {
        for seed in 0..120 {
            CALLS.set(0);
            SINCE.with_borrow_mut(|m| m.clear());
            let (text, o) = random(seed, wild);
            for f in &o.flows {
                let p = f.packets;
                let lost = p.queue + p.link + p.wire + p.route + p.hop;
                let known = p.delivered + lost + p.inside;
                assert_eq!(p.sent + p.copies, known, "{wild} {seed} {p:?} {text}");
                assert_eq!(f.corrupt, 0, "{wild} {seed}");
            }
        }
    }
}

static ALWAYS: Descriptor = Descriptor {
    name: "always",
    doc: "x.",
    hears: &[("segment", &[]), ("wrote", &["opened"])],
    build: |p| {
        Ok(Box::new(Queue {
            says: p.word("says"),
            mark: p.word("mark"),
            to: LinkTo::Route,
            owes: 0,
            reports: false,
            always: true,
        }))
    },
    ..QUEUE
};
#[test]
fn what_a_lane_says_while_the_way_ahead_is_full_waits_for_room() {
    SINCE.with_borrow_mut(|m| m.clear());
    CALLS.set(0);
    let mut s = simulation(
        "reliable = \"always\"",
        "linear,4,wire=2Mb/s,delay=3ms,queue=2",
        "",
    );
    s.run();
    let o = s.outcome();
    let lanes: Vec<_> = o
        .nodes
        .iter()
        .filter_map(|n| n.lanes)
        .map(|l| (l.sent, l.made, l.unsent))
        .collect();
    assert!(o.flows[0].finished);
    for (_, made, unsent) in &lanes[..3] {
        assert!(*made > 20 && *unsent == 0, "{lanes:?}");
    }
}
fn simulation(lane: &str, words: &str, extra: &str) -> Simulation {
    let own = format!(
        "[protocol.laned]\nextends = \"tcp-newreno\"\nnumber = 249\nwire = \"shim\"\n[lane.laned]\nset = {{ packets = 4 }}\n{lane}\n"
    );
    let own = Library::parse(&own).unwrap();
    let parts = wifu_parts::registry().with(&[&PLAIN, &ALLDATA, &REPORTS, &ALWAYS]);
    let registry = Registry::new(parts, wifu_parts::library().merge(own));
    let radios = if words.contains("wire") {
        ""
    } else {
        "set = \"TB-W9\"\n[radio]\nattempts = 7\n"
    };
    let text = format!(
        "[topology]\nwords = \"{words}\"\n{radios}[stop]\ntime = \"60s\"\n[[flow]]\nfrom = \"n1\"\nto = \"n4\"\nprotocol = \"laned\"\napp = \"file\"\nbytes = \"100k\"\n{extra}"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
    Simulation::new(&scenario, &registry).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn data_to_all_over_wires_does_not_hang() {
    CALLS.set(0);
    let mut s = simulation(
        "reliable = \"alldata\"",
        "linear,4,wire=2Mb/s,delay=3ms,queue=20",
        "",
    );
    s.run();
    // Each refusal is followed by a pause of 10 ms.
    assert!(CALLS.get() < 10_000, "{} fills", CALLS.get());
}

/// Drops data packets number `from` to `to`.
struct DropSome {
    seen: u64,
    from: u64,
    to: u64,
}
impl Handler for DropSome {
    fn on_packet(&mut self, _: Hook, p: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
        if p.octets().len() < 200 {
            return Verdict::Accept;
        }
        self.seen += 1;
        if (self.from..self.to).contains(&self.seen) {
            Verdict::Drop("some")
        } else {
            Verdict::Accept
        }
    }
}

#[test]
fn drops_at_output_do_not_starve_the_end() {
    for (from, to) in [(1, 2), (1, 5), (20, 24), (20, 40)] {
        CALLS.set(0);
        let mut s = simulation(
            "reliable = \"plain\"",
            "linear,4,wire=2Mb/s,delay=3ms,queue=20",
            "",
        );
        let mut chain = Chain::new();
        let seat = Seat {
            most: 100,
            full: Full::Closed,
            ..Seat::new("some", Hooks::of(&[Hook::Output]), Rng::new(1))
        };
        chain.push(seat, Box::new(DropSome { seen: 0, from, to }));
        s.set_chain(0, chain);
        s.run();
        let o = s.outcome();
        let f = &o.flows[0];
        assert!(f.finished && f.bytes == 100_000, "{from}..{to}: {f:?}");
        assert_eq!(f.packets.hop, to - from);
    }
}

#[test]
fn what_follows_a_status_leaves_at_a_relay() {
    CALLS.set(0);
    OWED.set((0, 0));
    let mut s = simulation("reliable = \"reports\"", "linear,4", "");
    s.run();
    let o = s.outcome();
    let lanes: Vec<_> = o
        .nodes
        .iter()
        .filter_map(|n| n.lanes)
        .map(|l| (l.sent, l.made, l.unsent))
        .collect();
    WORST.with_borrow_mut(|m| {
        for (n, v) in m {
            v.sort();
            assert!(v.iter().all(|d| *d == 0), "node {n}: {v:?}");
        }
    });
    let (reported, said) = OWED.get();
    assert!(o.flows[0].finished && reported > 100, "{lanes:?}");
    assert_eq!(reported, said);
}

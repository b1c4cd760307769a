//! Lanes and handlers of many kinds in random networks: books balance, nothing hangs, nobody waits
//! for an event that does not come.

mod laned;

use laned::Words;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use wifu_core::{Chain, Full, Handler, Hook, Hooks, HopCx, Packet, Seat, Verdict};
use wifu_engine::component::Cx;
use wifu_engine::{
    Admit, Board, Component, Descriptor, Kind, Out, Params, Payload, Segment, Signal, Ticket, Want,
};
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::{FlowOutcome, Outcome};
use wifu_testkit::wild::{Odds, Wild};
use wifu_wire::{Class, LinkTo, Rng, Seq, Span, Time};

/// What parts of the test that runs in this thread did.
#[derive(Default)]
struct Did {
    /// Calls to fill.
    fills: u64,
    /// Reports of data, and what was said for them.
    reported: u64,
    said: u64,
    /// Per node, when the reports came that nothing was said for yet.
    since: BTreeMap<u32, VecDeque<Time>>,
    /// Per node, how long each report waited.
    waited: BTreeMap<u32, Vec<Span>>,
}

thread_local! {
    static DID: RefCell<Did> = RefCell::default();
}

/// What parts of hop protocols are like here: they hear what drivers report.
const QUEUE: Descriptor = Descriptor {
    hears: &[("segment", &[]), ("wrote", &["opened"]), ("status", &[])],
    ..laned::QUEUE
};

/// Such as do not ask for reports, nor say anything.
const MUTE: Descriptor = Descriptor {
    offers: &[Kind::New],
    ..laned::QUEUE
};

static PLAIN: Descriptor = Descriptor {
    name: "plain",
    doc: "Hands packets on.",
    build: |p| Ok(Box::new(Queue::new(p))),
    ..MUTE
};

static ALLDATA: Descriptor = Descriptor {
    name: "alldata",
    doc: "Hands packets on to all who hear.",
    build: |p| {
        Ok(Box::new(Queue {
            to: LinkTo::All,
            ..Queue::new(p)
        }))
    },
    ..MUTE
};

static REPORTS: Descriptor = Descriptor {
    name: "reports",
    doc: "Says something for each report of the driver.",
    build: |p| {
        Ok(Box::new(Queue {
            reports: true,
            ..Queue::new(p)
        }))
    },
    ..QUEUE
};

static ALWAYS: Descriptor = Descriptor {
    name: "always",
    doc: "Says something for each packet of its flow.",
    build: |p| {
        Ok(Box::new(Queue {
            always: true,
            ..Queue::new(p)
        }))
    },
    ..laned::QUEUE
};

struct Queue {
    words: Words,
    to: LinkTo,
    owes: u32,
    reports: bool,
    always: bool,
}

impl Queue {
    fn new(p: &Params<'_>) -> Queue {
        Queue {
            words: Words::of(p),
            to: LinkTo::Route,
            owes: 0,
            reports: false,
            always: false,
        }
    }
}

impl Component for Queue {
    fn on_segment(&mut self, s: &Segment<'_>, _: &mut Cx<'_>) -> Admit {
        let data = s.frame.along && !s.payload.is_empty();
        if self.always && data && s.head.get(self.words.says) == 0 {
            self.owes += 1;
        }
        Admit::Pass
    }

    fn on_signal(&mut self, s: &Signal, cx: &mut Cx<'_>) {
        if let Signal::Status(s) = s
            && self.reports
            && s.class == Class::Data
        {
            self.owes += 1;
            DID.with_borrow_mut(|did| {
                did.reported += 1;
                did.since
                    .entry(cx.board.site.me)
                    .or_default()
                    .push_back(cx.now);
            });
        }
        laned::open(cx);
    }

    fn offer(&self, kind: Kind, board: &Board, _: Time) -> Option<Want> {
        laned::offer(self.owes > 0, kind, board)
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let (me, now) = (cx.board.site.me, cx.now);
        DID.with_borrow_mut(|did| {
            did.fills += 1;
            assert!(did.fills < 1_000_000, "a million fills at {now:?}");
        });
        if want.kind != Kind::Urgent {
            return self.words.hand_down(self.to, out, cx);
        }
        self.owes -= 1;
        DID.with_borrow_mut(|did| {
            did.said += 1;
            let since = did.since.entry(me).or_default().pop_front();
            let waited = did.waited.entry(me).or_default();
            waited.push(now - since.unwrap_or(now));
        });
        out.head.set(self.words.says, 1);
    }
}

/// Keeps each second packet and sends it again when it was not delivered or came back; lets go when
/// an answer passes, or a status says that it was delivered. If nobody tells what became of it, as
/// on wires, and no answer comes, it waits until its lane is closed.
const KEEPING: Descriptor = Descriptor {
    hears: &[
        ("segment", &[]),
        ("wrote", &["opened"]),
        ("status", &[]),
        ("returned", &[]),
    ],
    ..QUEUE
};

static KEEPS: Descriptor = Descriptor {
    name: "keeps",
    doc: "Keeps each second packet until an answer passes or it is reported as delivered.",
    build: |p| Ok(Box::new(Keeps::new(p, LinkTo::Route))),
    ..KEEPING
};

static BROAD: Descriptor = Descriptor {
    name: "broad",
    doc: "Keeps each second packet, and sends it to all who hear at first.",
    build: |p| Ok(Box::new(Keeps::new(p, LinkTo::All))),
    ..KEEPING
};

struct Keeps {
    q: Queue,
    kept: Option<(Ticket, Seq)>,
    again: bool,
    n: u32,
    /// To whom what is kept goes the first time.
    first: LinkTo,
}

impl Keeps {
    fn new(p: &Params<'_>, first: LinkTo) -> Keeps {
        Keeps {
            q: Queue::new(p),
            kept: None,
            again: false,
            n: 0,
            first,
        }
    }
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
        let (bytes, least) = (1, 1);
        let any = self.again || (board.app.queued > 0 && self.kept.is_none());
        (kind == Kind::New && any).then_some(Want { kind, bytes, least })
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        self.n += 1;
        if let (true, Some((ticket, number))) = (self.again, self.kept) {
            self.again = false;
            out.head.seq = number;
            out.head.set(self.q.words.mark, 9);
            out.payload = Payload::Packet { ticket, keep: true };
        } else if self.n.is_multiple_of(2)
            && let Some((ticket, number)) = cx.store.pop()
        {
            self.kept = Some((ticket, number));
            out.head.seq = number;
            out.head.set(self.q.words.mark, 9);
            out.aside.to = self.first;
            out.payload = Payload::Packet { ticket, keep: true };
        } else {
            self.q.fill(want, out, cx);
        }
    }
}

/// What handlers do: they hold, keep and send, and drop a few.
const ODDS: Odds = Odds {
    copies: 30,
    uses: 20,
    holds: 10,
    drops: 200,
    most: 10,
    patience: Span(5_000_000),
    memory: Span::SECOND,
    ..Odds::NEVER
};

/// What came of a random network.
struct Run {
    lane: &'static str,
    text: String,
    outcome: Outcome,
}

impl Run {
    /// Packets that lanes held when they were closed.
    fn idled(&self) -> u64 {
        let lanes = self.outcome.nodes.iter().filter_map(|n| n.lanes);
        lanes.map(|l| l.idled).sum()
    }
}

fn random(seed: u64, wild: bool) -> Run {
    let mut rng = Rng::new(seed);
    let lane = ["plain", "reports", "keeps", "broad"][rng.below(4) as usize];
    let packets = [2, 8, 40][rng.below(3) as usize];
    let parts: &[&'static Descriptor] = &[&PLAIN, &ALLDATA, &REPORTS, &KEEPS, &BROAD];
    let registry = laned::registry(packets, &format!("reliable = \"{lane}\""), parts);
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
    let text = format!("seed = {seed}\n{topology}{routing}{host}{flows}[stop]\ntime = \"3000s\"\n");
    let mut s = laned::simulation(&text, &registry);
    if wild {
        for i in 0..n as u16 {
            let mut chain = Chain::new();
            chain.push(
                Seat {
                    most: 30,
                    full: Full::Closed,
                    ..Seat::new("wild", Hooks::ALL, Rng::new(seed + u64::from(i)))
                },
                Box::new(Wild::new(ODDS)),
            );
            s.set_chain(i, chain);
        }
    }
    s.run();
    let outcome = s.outcome();
    Run {
        lane,
        text,
        outcome,
    }
}

/// How long the kindest of these transfers may take, and what is not spent waiting for timeouts in
/// any of them, seconds.
const SOON_S: f64 = 20.0;
const BUSY_S: f64 = 5.0;

/// A flow's books balance, it has arrived, and what kept it from arriving soon is known. True if
/// it was late.
fn check(run: &Run, flow: &FlowOutcome, what: &str) -> bool {
    let p = flow.packets;
    let lost = p.queue + p.link + p.wire + p.route + p.hop;
    assert_eq!(
        p.sent + p.copies,
        p.delivered + lost + p.inside,
        "{what}: {p:?}"
    );
    assert_eq!((flow.corrupt, flow.bytes), (0, 60_000), "{what}");
    assert!(flow.finished, "{what}");
    // All the time went into timeouts, and for each of those something was lost.
    let took = flow.until_s - flow.start_s;
    let (Some(waited), Some(timeouts)) = (flow.timeout_s, flow.timeouts) else {
        panic!("{what}: its ends have a timer");
    };
    assert!(took - waited < BUSY_S, "{what}: {took} s, {p:?}");
    assert!(timeouts <= lost, "{what}: {timeouts} for {p:?}");
    let late = took > SOON_S;
    match run.lane {
        // Broadcasts are not repeated, nor relayed: each of the timeouts has one.
        "broad" if late => assert!(timeouts <= p.link, "{what}: {p:?}"),
        // A lane waited for what was lost, until it was closed.
        "keeps" if late => assert!(run.idled() > 0, "{what}: {p:?}"),
        _ => assert!(!late, "{what}: {took} s, {p:?}"),
    }
    late
}

#[test]
fn books_balance_whatever_lanes_and_handlers_do() {
    let mut late = BTreeMap::new();
    for wild in [false, true] {
        for seed in 0..120 {
            DID.take();
            let run = random(seed, wild);
            let what = format!("{wild} {seed} {} {}", run.lane, run.text);
            for flow in &run.outcome.flows {
                let count: &mut u32 = late.entry(run.lane).or_default();
                *count += u32::from(check(&run, flow, &what));
            }
            // Only who waits for news of what he keeps holds anything for so long; a radio has
            // some, unless a handler took the packet.
            let waits = run.lane == "keeps" || (run.lane == "broad" && wild);
            assert!(waits || run.idled() == 0, "{what}");
        }
    }
    let late: Vec<_> = late.into_iter().map(|(lane, n)| (lane, n > 10)).collect();
    let known = [
        ("broad", true),
        ("keeps", true),
        ("plain", false),
        ("reports", false),
    ];
    assert_eq!(late, known, "each cause was met");
}

#[test]
fn what_a_lane_says_while_the_way_ahead_is_full_waits_for_room() {
    let mut s = simulation("always", "linear,4,wire=2Mb/s,delay=3ms,queue=2");
    s.run();
    let o = s.outcome();
    let lanes = said(&o);
    assert!(o.flows[0].finished);
    for (_, made, unsent) in &lanes[..3] {
        assert!(*made > 20 && *unsent == 0, "{lanes:?}");
    }
}

/// A file of 100 kB over four nodes with this part in the lanes, which have four packets.
fn simulation(part: &str, words: &str) -> Simulation {
    let parts: &[&'static Descriptor] = &[&PLAIN, &ALLDATA, &REPORTS, &ALWAYS];
    DID.take();
    let lane = format!("reliable = \"{part}\"");
    laned::file(words, &laned::registry(4, &lane, parts))
}

/// What the lanes of each node sent, what they said, and what of that no device took.
fn said(outcome: &Outcome) -> Vec<(u64, u64, u64)> {
    let lanes = outcome.nodes.iter().filter_map(|n| n.lanes);
    lanes.map(|l| (l.sent, l.made, l.unsent)).collect()
}

#[test]
fn data_to_all_over_wires_does_not_hang() {
    let mut s = simulation("alldata", "linear,4,wire=2Mb/s,delay=3ms,queue=20");
    s.run();
    // Each refusal is followed by a pause of 10 ms.
    let fills = DID.take().fills;
    assert!(fills < 10_000, "{fills} fills");
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
        let mut s = simulation("plain", "linear,4,wire=2Mb/s,delay=3ms,queue=20");
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
    let mut s = simulation("reports", "linear,4");
    s.run();
    let o = s.outcome();
    let lanes = said(&o);
    let did = DID.take();
    for (node, waited) in &did.waited {
        let at_once = waited.iter().all(|wait| *wait == Span::ZERO);
        assert!(at_once, "node {node}: {waited:?}");
    }
    assert!(o.flows[0].finished && did.reported > 100, "{lanes:?}");
    assert_eq!(did.reported, did.said);
}

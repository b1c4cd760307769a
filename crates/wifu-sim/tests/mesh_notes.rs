//! Annotations between hop and end: when a packet was received goes up; what hurries, what carries
//! feedback and until when a packet is worth sending goes down, and the node acts upon it.

mod laned;

use std::cell::RefCell;
use wifu_core::{Descriptor as HandlerDescriptor, Handler, Hook, Hooks, HopCx, Packet, Verdict};
use wifu_engine::component::Cx;
use wifu_engine::descriptor::{DEADLINE, FEEDBACK, NoteSpec, PRIORITY, ParamSpec};
use wifu_engine::{
    Access, Admit, Board, Component, Descriptor, Kind, Library, Out, Role, Segment, Signal, Want,
};
use wifu_node::{HostCost, Registry};
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;
use wifu_wire::{LinkTo, Moment, Note, Seq, Span, Time};

/// When somebody looked at a packet, and when that was received.
type Looks = Vec<(Time, Option<Time>)>;

thread_local! {
    /// Of the parts of the test that runs in this thread.
    static PARTS: RefCell<Looks> = const { RefCell::new(Vec::new()) };
    /// Of its handlers, with the hook.
    static HOOKS: RefCell<Vec<(Hook, Time, Option<Time>)>> = const { RefCell::new(Vec::new()) };
    /// Numbers of packets that lanes were told of: they left too late.
    static EXPIRED: RefCell<Vec<Seq>> = const { RefCell::new(Vec::new()) };
}

static WITNESS: Descriptor = Descriptor {
    name: "late-witness",
    role: Role::Watch,
    doc: "Writes down when segments were received and when it saw them.",
    hooks: &["segment"],
    requires: &[wifu_engine::Fact::Received],
    build: |_| Ok(Box::new(Witness)),
    ..Descriptor::EMPTY
};

struct Witness;

impl Component for Witness {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let received = seg.frame.received.map(Moment::time);
        PARTS.with(|p| p.borrow_mut().push((cx.now, received)));
        Admit::Pass
    }
}

static LOOKER: HandlerDescriptor = HandlerDescriptor {
    name: "looker",
    doc: "Writes down when packets were received and when it saw them.",
    hooks: Hooks::ALL,
    build: |_| Ok(Box::new(Looker)),
    ..HandlerDescriptor::EMPTY
};

struct Looker;

impl Handler for Looker {
    fn on_packet(&mut self, hook: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        let received = packet.received.map(Moment::time);
        HOOKS.with(|h| h.borrow_mut().push((hook, cx.now, received)));
        Verdict::Accept
    }
}

/// Each n-th segment with new data is worth nothing after so long; no other ever expires.
static DATED: Descriptor = Descriptor {
    name: "dated",
    role: Role::Watch,
    doc: "Notes a deadline on new data.",
    hooks: &["stamp"],
    notes: &[DEADLINE],
    params: &[
        ParamSpec::span(
            "worth",
            Span::MILLI,
            Span::ZERO,
            Span::SECOND,
            "From now on.",
        ),
        ParamSpec::int("each", 1, 1, 1_000, "Of how many."),
    ],
    build: |p| {
        Ok(Box::new(Dated {
            note: p.note("deadline"),
            worth: p.span("worth"),
            each: p.int("each"),
            seen: 0,
        }))
    },
    ..Descriptor::EMPTY
};

struct Dated {
    note: Note,
    worth: Span,
    each: u64,
    seen: u64,
}

impl Component for Dated {
    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if out.kind == Kind::New {
            self.seen += 1;
            if self.seen.is_multiple_of(self.each) {
                out.aside.notes.set_time(self.note, cx.now + self.worth);
            }
        }
    }
}

/// The same by a lane: each fourth packet that it hands down is worth nothing 5 ms later.
static HASTY: Descriptor = Descriptor {
    name: "hasty",
    doc: "Hands packets down, of which each fourth expires.",
    hears: &[("wrote", &["opened"]), ("expired", &[])],
    hooks: &[],
    notes: &[DEADLINE],
    build: |p| {
        Ok(Box::new(Hasty {
            words: laned::Words::of(p),
            note: p.note("deadline"),
            seen: 0,
        }))
    },
    ..laned::QUEUE
};

struct Hasty {
    words: laned::Words,
    note: Note,
    seen: u64,
}

impl Component for Hasty {
    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Expired(number) => EXPIRED.with_borrow_mut(|all| all.push(*number)),
            _ => laned::open(cx),
        }
    }

    fn offer(&self, kind: Kind, board: &Board, _: Time) -> Option<Want> {
        laned::offer(false, kind, board)
    }

    fn fill(&mut self, _: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        self.words.hand_down(LinkTo::Route, out, cx);
        self.seen += 1;
        if self.seen.is_multiple_of(4) {
            let note = self.note;
            out.aside.notes.set_time(note, cx.now + Span::MILLI * 5);
        }
    }
}

/// The same by a handler, for all that it sees.
static EXPIRES: HandlerDescriptor = HandlerDescriptor {
    name: "expires",
    doc: "Notes a deadline on what goes on.",
    hooks: Hooks::of(&[Hook::Forward]),
    notes: &[DEADLINE],
    build: |s| Ok(Box::new(Expires(s.params.note("deadline")))),
    ..HandlerDescriptor::EMPTY
};

struct Expires(Note);

impl Handler for Expires {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        packet.notes.set_time(self.0, cx.now + Span::MILLI);
        Verdict::Accept
    }
}

/// Marks what carries no data as feedback.
static MARKS: Descriptor = Descriptor {
    name: "marks",
    role: Role::Watch,
    doc: "Notes feedback on acknowledgements.",
    hooks: &["stamp"],
    notes: &[FEEDBACK],
    build: |p| Ok(Box::new(Marks(p.note("feedback")))),
    ..Descriptor::EMPTY
};

struct Marks(Note);

impl Component for Marks {
    fn stamp(&mut self, out: &mut Out<'_>, _: &mut Cx<'_>) {
        if !out.kind.is_data() {
            out.aside.notes.set(self.0, 1);
        }
    }
}

/// Gives short packets priority, and reads what others gave.
static HURRIES: HandlerDescriptor = HandlerDescriptor {
    name: "hurries",
    doc: "Notes a priority on short packets that go on.",
    hooks: Hooks::of(&[Hook::Forward, Hook::Postrouting]),
    notes: &[NoteSpec {
        access: Access::Both,
        ..PRIORITY
    }],
    counts: &["read"],
    build: |s| Ok(Box::new(Hurries(s.params.note("priority")))),
    ..HandlerDescriptor::EMPTY
};

struct Hurries(Note);

impl Handler for Hurries {
    fn on_packet(&mut self, hook: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        if hook == Hook::Forward && packet.octets().len() < 100 {
            packet.notes.set(self.0, 2);
        }
        if hook == Hook::Postrouting && packet.notes.get(self.0) == Some(2) {
            cx.count(0);
        }
        Verdict::Accept
    }
}

const PROTOCOLS: &str = "[protocol.watched]\nextends = \"tcp-newreno\"\nwatch.add = [\"late-witness\"]\n\
     [protocol.dated]\nextends = \"tcp-newreno\"\nwatch.add = [\"dated\"]\n\
     [protocol.marked]\nextends = \"tcp-newreno\"\nwatch.add = [\"marks\"]\n\
     [protocol.hasty]\nextends = \"tcp-newreno\"\nprofile = \"wifu-tahoe\"\nnumber = 249\n\
     wire = \"shim\"\n[lane.hasty]\nset = { packets = 20 }\nreliable = \"hasty\"\n";

fn made(text: &str) -> Result<Simulation, String> {
    let own = Library::parse(PROTOCOLS).unwrap_or_else(|e| panic!("{e}"));
    let parts = wifu_parts::registry().with(&[&WITNESS, &DATED, &MARKS, &HASTY]);
    let registry = Registry::new(parts, wifu_parts::library().merge(own));
    let registry = registry.with_handlers(&[&LOOKER, &EXPIRES, &HURRIES]);
    let scenario = Scenario::from_toml(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    Simulation::new(&scenario, &registry).map_err(|e| e.to_string())
}

fn run(text: &str) -> Outcome {
    let mut simulation = made(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    simulation.run();
    let outcome = simulation.outcome();
    for flow in &outcome.flows {
        let p = flow.packets;
        assert_eq!(
            p.sent + p.copies,
            p.delivered + p.lost() + p.inside,
            "{p:?}"
        );
        assert_eq!(flow.corrupt, 0);
    }
    outcome
}

/// A file over a chain of three radios.
fn file(protocol: &str, more: &str) -> String {
    format!(
        "stop.time = \"60s\"\n{more}\n[topology]\nwords = \"linear,3\"\nset = \"TB-W9\"\n\
         [radio]\nattempts = 7\n[[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"{protocol}\"\n\
         app = \"file\"\nbytes = \"50k\"\n"
    )
}

const PY: &str = "host.profile = \"py\"";

/// How long before it saw them what a part saw had been received.
fn waits(text: &str) -> Vec<Span> {
    assert!(run(text).flows[0].finished);
    let looks = PARTS.with(RefCell::take);
    assert!(looks.len() > 50, "{} segments", looks.len());
    let known = |(now, at): (Time, Option<Time>)| now - at.expect("a radio says");
    looks.into_iter().map(known).collect()
}

#[test]
fn a_part_learns_when_a_frame_came_however_long_its_host_took() {
    let free = waits(&file("watched", ""));
    assert!(free.iter().all(|w| *w == Span::ZERO), "{free:?}");
    let slow = waits(&file("watched", PY));
    let cost = HostCost::PY.rx;
    assert!(slow.iter().all(|w| *w >= cost), "{slow:?}");
    // What comes to an idle host waits for nothing but its own work; some had to wait for others.
    assert!(
        slow.contains(&cost) && slow.iter().any(|w| *w > cost),
        "{slow:?}"
    );
    // A handler that holds a packet does not make it a later one.
    let hold = "[[handler]]\nuse = \"delay\"\nt = \"3ms\"\nhooks = [\"input\"]\n";
    let held = waits(&(file("watched", "") + hold));
    assert!(held.iter().all(|w| *w == Span::MILLI * 3), "{held:?}");
}

#[test]
fn handlers_learn_it_at_the_hooks_that_a_packet_passes_before_it_goes_on() {
    run(&(file("tcp-newreno", PY) + "[[handler]]\nuse = \"looker\"\n"));
    let looks = HOOKS.with(RefCell::take);
    for hook in [
        Hook::Prerouting,
        Hook::Input,
        Hook::Forward,
        Hook::Overheard,
    ] {
        let of: Vec<_> = looks.iter().filter(|l| l.0 == hook).collect();
        assert!(of.len() > 30, "{hook:?}: {}", of.len());
        assert!(of.iter().all(|l| l.2 == Some(l.1)), "{hook:?}: {of:?}");
    }
    let out = looks
        .iter()
        .filter(|l| [Hook::Output, Hook::Postrouting].contains(&l.0));
    assert!(out.clone().count() > 100 && out.clone().all(|l| l.2.is_none()));
}

#[test]
fn what_leaves_too_late_is_dropped_and_counted() {
    // Without anything that takes time nothing is late, by however little.
    let swift = run(&file("dated,worth=0ms", ""));
    assert!(swift.flows[0].finished);
    assert_eq!((swift.nodes[0].late, swift.flows[0].packets.late), (0, 0));
    let hold =
        "[[handler]]\nuse = \"delay\"\nt = \"5ms\"\nhooks = [\"output\"]\nnodes = [\"n1\"]\n";
    let dated = |protocol: &str| run(&(file(protocol, "") + hold));
    let timely = dated("dated,worth=5ms");
    assert!(timely.flows[0].finished && timely.nodes[0].late == 0);
    let late = dated("dated,worth=4999us,each=4");
    let p = late.flows[0].packets;
    // Each fourth of 35 segments, and what is new of those that come after.
    assert!((8..=12).contains(&p.late), "{p:?}");
    assert_eq!(late.nodes[0].late, p.late);
    assert_eq!((late.nodes[1].late, late.nodes[2].late), (0, 0));
    assert!(late.flows[0].finished, "retransmissions never expire");
    assert!(late.flows[0].retransmissions >= p.late);
}

#[test]
fn a_lane_learns_of_what_it_handed_down_and_left_too_late() {
    let timely = run(&file("hasty", ""));
    assert!(timely.flows[0].finished && timely.nodes[0].late == 0);
    assert_eq!(EXPIRED.take(), []);
    // A handler holds it, behind the lane.
    let hold =
        "[[handler]]\nuse = \"delay\"\nt = \"6ms\"\nhooks = [\"postrouting\"]\nnodes = [\"n1\"]\n";
    let late = run(&(file("hasty", "") + hold));
    let told = EXPIRED.take();
    assert!(late.flows[0].finished && late.nodes[0].late > 5);
    assert_eq!(told.len() as u64, late.nodes[0].late);
    assert_eq!(late.flows[0].packets.late, late.nodes[0].late);
}

#[test]
fn a_slow_host_is_too_late_by_itself() {
    // 1.2 ms pass until a packet leaves.
    let late = |worth| run(&file(&format!("dated,each=5,worth={worth}"), PY));
    let (in_time, late) = (late("1200us"), late("1199us"));
    assert_eq!(in_time.flows[0].packets.late, 0);
    assert!(late.flows[0].packets.late >= 6 && late.flows[0].finished);
}

#[test]
fn a_deadline_that_a_handler_notes_counts_where_its_node_takes_time() {
    let expires = "[[handler]]\nuse = \"expires\"\nnodes = [\"n2\"]\n";
    let relayed = |cost: &str| {
        let more = format!("host.fwd_cost = \"{cost}\"");
        run(&(file("tcp-newreno", &more) + expires))
    };
    let in_time = relayed("999us");
    assert!(in_time.flows[0].finished && in_time.nodes[1].late == 0);
    let late = relayed("1001us");
    assert!(late.nodes[1].late > 2 && late.flows[0].bytes == 0);
    assert_eq!(
        late.flows[0].packets.late, late.nodes[1].late,
        "also those that came back"
    );
    assert_eq!(late.nodes[1].forwarded, late.nodes[1].late);
}

/// Much from the first to the last fills the queues on the way; what acknowledges a small window
/// the other way waits in them.
fn both_ways(topology: &str, protocol: &str, more: &str) -> String {
    let flow = |from: &str, to: &str, window: &str| {
        format!(
            "[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nprotocol = \"{protocol}{window}\"\n\
             app = \"bulk\"\n"
        )
    };
    let far = if topology == RADIOS { "n2" } else { "n3" };
    let flows = flow("n1", far, "") + &flow(far, "n1", ",rcv_wnd=6000");
    format!("stop.time = \"20s\"\n{more}\n[topology]\n{topology}\n{flows}")
}

const WIRES: &str = "words = \"linear,3,wire=1M,queue=100\"";
const RADIOS: &str = "words = \"linear,2\"\nset = \"TB-W9\"\n[radio]\nattempts = 7";
/// The queue is the relay's.
const NARROW: &str = "node = [{ name = \"n1\", wired_only = true }, \
     { name = \"n2\", wired_only = true }, { name = \"n3\", wired_only = true }]\n\
     wire = [{ a = \"n1\", b = \"n2\", rate = \"100Mb/s\" }, \
     { a = \"n2\", b = \"n3\", rate = \"1Mb/s\", queue = 100 }]";
const FIRST: &str = "host.prio_feedback = true";

/// Half of the segments of the small window are acknowledged sooner, seconds.
fn median(outcome: &Outcome) -> f64 {
    outcome.flows[1].rtt.expect("it is measured").p50_s
}

#[test]
fn feedback_goes_before_data_where_the_scenario_says_so() {
    for topology in [WIRES, RADIOS] {
        let plain = run(&both_ways(topology, "tcp-newreno", ""));
        let marked = run(&both_ways(topology, "marked", ""));
        assert_eq!(marked.trace_hash, plain.trace_hash, "marks change nothing");
        let first = run(&both_ways(topology, "marked", FIRST));
        for outcome in [&marked, &first] {
            let counted: Vec<u64> = outcome.nodes.iter().map(|n| n.first).collect();
            let (ends, relays) = ([counted[0], counted[counted.len() - 1]], counted.len() - 2);
            assert!(ends.iter().all(|n| *n > 20), "{counted:?}");
            assert!(counted[1..=relays].iter().all(|n| *n == 0), "{counted:?}");
        }
        let (before, after) = (median(&marked), median(&first));
        assert!(
            after < 0.5 * before,
            "{topology}: {after} s, {before} s without"
        );
        let bytes = [&marked, &first].map(|o| o.flows[1].bytes);
        assert!(bytes[1] > 2 * bytes[0], "{topology}: {bytes:?}");
    }
}

#[test]
fn a_discipline_is_no_reason_to_let_feedback_go_first() {
    for kind in ["codel", "fq_codel", "red"] {
        let queue = format!("host.queue.kind = \"{kind}\"");
        let [plain, marked] =
            ["tcp-newreno", "marked"].map(|protocol| run(&both_ways(RADIOS, protocol, &queue)));
        assert!(marked.nodes.iter().any(|n| n.first > 20), "it is counted");
        assert_eq!(marked.trace_hash, plain.trace_hash, "{kind}");
    }
}

#[test]
fn what_a_relays_handler_gives_priority_goes_first_there() {
    let hurries = "[[handler]]\nuse = \"hurries\"\nnodes = [\"n2\"]\n";
    let plain = run(&(both_ways(NARROW, "marked", "") + hurries));
    let ends = run(&both_ways(NARROW, "marked", FIRST));
    let all = run(&(both_ways(NARROW, "marked", FIRST) + hurries));
    for outcome in [&plain, &all] {
        let relay = &outcome.nodes[1];
        assert!(relay.first > 100, "{relay:?}");
        assert_eq!(relay.handlers[0].counts["read"], relay.first);
    }
    // What ends note ends with their nodes: the relay knows nothing of it.
    assert_eq!(ends.nodes[1].first, 0);
    let [plain, ends, all] = [&plain, &ends, &all].map(median);
    assert!(ends > 0.8 * plain, "{ends} s, {plain} s without");
    assert!(all < 0.2 * plain, "{all} s, {plain} s without");
}

#[test]
fn priority_that_nobody_gives_or_no_queue_heeds_is_refused() {
    let why = |text: &str| made(text).err().expect("it cannot act");
    let nobody = why(&both_ways(WIRES, "tcp-newreno", FIRST));
    assert!(
        nobody.starts_with("host.prio_feedback: nothing would go first"),
        "{nobody}"
    );
    let dated = why(&both_ways(WIRES, "dated", FIRST));
    assert!(dated.starts_with("host.prio_feedback: nothing"), "{dated}");
    let text = both_ways(
        WIRES,
        "marked",
        &format!("{FIRST}\nhost.queue.kind = \"codel\""),
    );
    let both = Scenario::from_toml(&text).err().map(|e| e.to_string());
    let both = both.expect("one of them");
    assert!(
        both.contains("host.prio_feedback: goes with drop-tail queues only"),
        "{both}"
    );
}

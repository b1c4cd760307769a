//! What TCPs for chains of radios do there: delayed acknowledgements, windows that grow slowly or
//! are limited by the hops, receivers that limit the sender.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_sim::mesh::{Seen, Simulation, Tap};
use wifu_sim::outcome::{FlowOutcome, Outcome};
use wifu_sim::scenario::Scenario;
use wifu_wire::pcapng::Direction;
use wifu_wire::{Seq, Span, Time};

fn open(spec: &str) -> Result<Arc<Blueprint>, String> {
    wifu_parts::blueprint(spec).map_err(|e| e.to_string())
}

fn simulation(text: &str) -> Simulation {
    let scenario = Scenario::from_toml(text).unwrap_or_else(|e| panic!("{e}"));
    Simulation::new(&scenario, &open).unwrap_or_else(|e| panic!("{e}"))
}

fn done(mut simulation: Simulation) -> Outcome {
    simulation.run();
    let outcome = simulation.outcome();
    for flow in &outcome.flows {
        let p = flow.packets;
        let known = p.delivered + p.queue + p.link + p.wire + p.route + p.hop + p.inside;
        assert_eq!((flow.corrupt, p.sent), (0, known), "{p:?}");
    }
    outcome
}

/// A file of 1 MB over so many hops of TB-W9, with more lines of a scenario.
fn chain(protocol: &str, hops: u32, more: &str) -> String {
    format!(
        "topology = {{ words = \"linear,{}\", set = \"TB-W9\" }}\n{more}\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n{}\"\nprotocol = \"{protocol}\"\napp = \"file\"\n\
         bytes = \"1M\"\n[stop]\ntime = \"600s\"\n",
        hops + 1,
        hops + 1
    )
}

/// Packets that the receiver of the first flow put on the air.
fn answers(outcome: &Outcome) -> u64 {
    let mut hops = outcome.hops.iter().filter(|h| h.flow == 1 && h.reverse);
    let first = hops.find(|h| h.hop == 1).expect("they cross a hop");
    first.packets + first.lost
}

/// Behaviour 17: 180 acknowledgements by count and one by the timer or the FIN, where one for each
/// segment are 691; beside them there are SYN and FIN.
#[test]
fn delayed_acknowledgements_put_a_quarter_as_many_packets_on_the_air() {
    let run = |protocol: &str| {
        let outcome = done(simulation(&chain(protocol, 3, "radio.attempts = 9")));
        let flow = &outcome.flows[0];
        assert!(flow.finished && flow.retransmissions == 0, "{flow:?}");
        (answers(&outcome), flow.goodput_bps)
    };
    let (each, base) = run("tcp-tahoe,profile=wifu-tahoe");
    let (few, goodput) = run("tcp-delack");
    assert_eq!(
        run("tcp-tahoe,profile=wifu-tahoe,ack=dynamic"),
        (few, goodput)
    );
    assert!((691..=694).contains(&each), "{each}");
    assert!((181..=184).contains(&few), "{few}");
    assert!(goodput > 1.05 * base, "{goodput} {base}");
    // The key exchanges the part of any TCP: 2 for each with da-rfc, and with da-code, whose d is 1
    // on the first 10 kB and 3 up to a megabyte.
    let (rfc, _) = run("tcp-newreno,profile=wifu-tahoe,ack=dynamic,da_profile=da-rfc");
    assert!((346..=349).contains(&rfc), "{rfc}");
    let (code, _) = run("tcp-sack,profile=wifu-tahoe,ack=dynamic,da_profile=da-code");
    assert!((235..=238).contains(&code), "{code}");
}

/// Paced by hops and acknowledged by fours at once: about as fast as with one for each. By
/// RFC 7323 the echo is that of the first segment withheld, so that the round trip has the
/// intervals between them in it, and the interval follows the round trip.
//= spec#4.4
#[test]
fn pacing_and_delayed_acknowledgements_go_together_with_the_last_echo() {
    let run = |protocol: &str| {
        let outcome = done(simulation(&chain(protocol, 3, "radio.attempts = 9")));
        let flow = &outcome.flows[0];
        assert!(flow.finished && flow.retransmissions == 0, "{flow:?}");
        let paced = flow.limited_s["pace"];
        (answers(&outcome), paced, flow.until_s - flow.start_s)
    };
    let (each, _, base) = run("tcp-ap05,nf=2");
    let (few, paced, both) = run("tcp-ap05-delack,nf=2");
    assert!((691..=694).contains(&each), "{each}");
    assert!((181..=184).contains(&few), "{few}");
    assert!(paced > 0.6 * both, "{paced} of {both} s");
    assert!((0.7..1.5).contains(&(both / base)), "{both} {base}");
    let (_, _, away) = run("tcp-ap05-delack,nf=2,ts_echo=rfc7323");
    assert!(away > 3.0 * both, "{away} {both}");
}

/// A segment at the receiver's node: when, in or out, first octet, octets, flags, acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Segment {
    at: Time,
    arrives: bool,
    seq: Seq,
    len: u32,
    flags: u8,
    ack: Seq,
}

struct Witness(u16, Rc<RefCell<Vec<Segment>>>);

impl Tap for Witness {
    fn packet(&mut self, seen: &Seen<'_>) {
        if seen.node != self.0 {
            return;
        }
        let (ip, tcp) = seen.bytes.split_at(20);
        let word = |at: usize| {
            Seq(u32::from_be_bytes([
                tcp[at],
                tcp[at + 1],
                tcp[at + 2],
                tcp[at + 3],
            ]))
        };
        let whole = u32::from(u16::from_be_bytes([ip[2], ip[3]]));
        self.1.borrow_mut().push(Segment {
            at: seen.at,
            arrives: seen.direction == Direction::In,
            seq: word(4),
            len: whole - 20 - 4 * u32::from(tcp[12] >> 4),
            flags: tcp[13],
            ack: word(8),
        });
    }
}

const FIN: u8 = 1;
const SYN: u8 = 2;

/// The receiver of Behaviour 5, told what arrived: when it acknowledges, and why.
#[derive(Default)]
struct Rule {
    irs: Option<Seq>,
    nxt: Seq,
    ahead: Vec<(Seq, Seq)>,
    withheld: u32,
    due: Option<Time>,
    acks: Vec<(Time, Seq, &'static str)>,
}

impl Rule {
    fn acknowledge(&mut self, at: Time, why: &'static str) {
        self.acks.push((at, self.nxt, why));
        (self.withheld, self.due) = (0, None);
    }

    //= spec#5
    fn arrives(&mut self, s: &Segment) {
        let Some(irs) = self.irs else { return };
        if let Some(due) = self.due.filter(|due| *due <= s.at) {
            self.acknowledge(due, "timer");
        }
        let end = s.seq.plus(s.len);
        let offset = s.seq.since(irs.plus(1));
        let limits = [1000, 10_000, 100_000];
        let d = 1 + limits.iter().filter(|l| offset >= **l).count() as u32;
        let holes = !self.ahead.is_empty();
        let new = s.len > 0 && end.after(self.nxt);
        let fin = s.flags & FIN > 0;
        if new && s.seq.after(self.nxt) {
            self.ahead.push((s.seq, end));
            return self.acknowledge(s.at, "ahead");
        }
        if s.len > 0 && !new {
            return self.acknowledge(s.at, "duplicate");
        }
        self.nxt = end;
        while let Some(next) = self.ahead.iter().find(|r| r.0.upto(self.nxt)).copied() {
            self.ahead.retain(|r| *r != next);
            self.nxt = self.nxt.later(next.1);
        }
        if fin {
            self.nxt = self.nxt.plus(1);
            return self.acknowledge(s.at, "fin");
        }
        if holes {
            return self.acknowledge(s.at, "fills");
        }
        self.withheld += 1;
        if self.withheld >= d {
            self.acknowledge(s.at, "count");
        } else if self.due.is_none() {
            self.due = Some(s.at + Span::MILLI * 100);
        }
    }
}

/// Each acknowledgement of a stream that loses segments leaves when the rule says, and no other.
#[test]
fn each_acknowledgement_leaves_when_the_rule_says() {
    let mut simulation = simulation(&chain("tcp-delack", 4, "radio.attempts = 2"));
    let seen = Rc::default();
    simulation.set_tap(Box::new(Witness(4, Rc::clone(&seen))));
    let outcome = done(simulation);
    assert!(outcome.flows[0].retransmissions > 20);
    let seen = seen.borrow();
    let mut rule = Rule::default();
    let mut left = Vec::new();
    for s in seen.iter() {
        match s.arrives {
            true if s.flags & SYN > 0 => {
                rule.irs = Some(s.seq);
                rule.nxt = s.seq.plus(1);
            }
            true if s.len > 0 || s.flags & FIN > 0 => rule.arrives(s),
            false if s.flags & (SYN | FIN) == 0 => left.push((s.at, s.ack)),
            _ => {}
        }
    }
    let expected: Vec<_> = rule.acks.iter().map(|a| (a.0, a.1)).collect();
    // Our own FIN, and what answers that of the peer, acknowledge too.
    let known = expected.len() - 1;
    assert_eq!(left[..known.min(left.len())], expected[..known]);
    for why in ["count", "timer", "ahead", "fills", "duplicate"] {
        let times = rule.acks.iter().filter(|a| a.2 == why).count();
        assert!(times > 2, "{why}: {times}");
    }
}

/// The values of a series that are known.
fn values(outcome: &Outcome, name: &str, from_s: f64) -> Vec<f64> {
    let all = outcome.series[name].iter();
    let late = all.filter(|p| p.0 >= from_s && !p.1.is_nan());
    late.map(|p| p.1).collect()
}

const RECORD: &str = "record = { interval = \"5ms\", series = [\"flow.1.cwnd\", \"flow.1.ssthresh\", \
                      \"flow.1.pipe\", \"flow.1.mss\", \"flow.1.srtt\"] }";

fn recorded(protocol: &str, hops: u32) -> Outcome {
    done(simulation(&chain(protocol, hops, RECORD)))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Retransmissions and goodput of four runs together.
fn four(protocol: &str, hops: u32) -> (u64, f64) {
    let run = |n: u32| done(simulation(&chain(protocol, hops, &format!("run = {n}"))));
    let flows = (1..=4).map(|n| run(n).flows.remove(0));
    flows.fold((0, 0.0), |sum, f| {
        assert!(f.finished, "{protocol}");
        (sum.0 + f.retransmissions, sum.1 + f.goodput_bps)
    })
}

/// Nahm, Helmy and Kuo: Reno's window outgrows the chain again and again; a window that takes a
/// hundred round trips for a segment stays where the first losses left it.
#[test]
fn a_window_that_grows_by_fractions_loses_less_over_a_chain() {
    let [few, newreno] = [
        "tcp-few,profile=wifu-tahoe",
        "tcp-newreno,profile=wifu-tahoe",
    ];
    let lost = [few, newreno].map(|p| four(p, 9).0);
    assert!(lost[0] < lost[1] / 2, "{lost:?}");
    // Segments between two looks in congestion avoidance, on average.
    let pace = |protocol: &str| {
        let o = recorded(protocol, 9);
        let mss = values(&o, "flow.1.mss", 0.0)[0];
        let (cwnd, ssthresh) = (
            values(&o, "flow.1.cwnd", 0.5),
            values(&o, "flow.1.ssthresh", 0.5),
        );
        let both = cwnd.windows(2).zip(&ssthresh);
        let grown = both.filter(|(w, s)| w[0] > **s && w[1] >= w[0]);
        let steps: Vec<f64> = grown.map(|(w, _)| (w[1] - w[0]) / mss).collect();
        assert!(steps.len() > 100, "{}", steps.len());
        mean(&steps)
    };
    let paces = [pace(few), pace(newreno)];
    assert!(paces[0] > 0.0 && paces[0] < paces[1] / 30.0, "{paces:?}");
}

/// Fu et al.: no more than h/4 segments are ever in flight, whatever the window of the TCP says.
#[test]
fn a_limit_by_hops_keeps_a_quarter_of_them_in_flight() {
    // The largest that is in the network, segments, of that which waits its turn: when a recovery
    // begins one more goes.
    let most = |outcome: &Outcome| {
        let mss = values(outcome, "flow.1.mss", 0.0)[0];
        let pipe = values(outcome, "flow.1.pipe", 0.0);
        pipe.iter().fold(0.0_f64, |a, b| a.max(*b)) / mss
    };
    let limited = |f: &FlowOutcome| {
        let all: f64 = f.limited_s.values().sum();
        f.limited_s.get("custom").copied().unwrap_or(0.0) / all
    };
    for (protocol, hops, segments) in [
        ("tcp-cwl", 9, 3.0),
        ("tcp-cwl", 5, 2.0),
        ("tcp-cwl,window_share=0.4", 9, 4.0),
        ("tcp-sack,gates.add=hop-window", 9, 3.0),
        ("tcp-cubic,gates.add=hop-window,window_least=6", 9, 6.0),
    ] {
        let outcome = recorded(protocol, hops);
        let flow = &outcome.flows[0];
        assert!(flow.finished, "{protocol}");
        let seen = most(&outcome);
        assert!(
            (segments..=segments + 1.0).contains(&seen),
            "{protocol}: {seen}"
        );
        assert!(limited(flow) > 0.3, "{protocol}: {:?}", flow.limited_s);
    }
    let free = most(&recorded("tcp-newreno", 9));
    assert!(free > 8.0, "{free}");
    // What they found: fewer losses, more goodput.
    let (lost, goodput) = four("tcp-cwl", 6);
    let (more, less) = four("tcp-newreno", 6);
    assert!(
        lost < more / 4 && goodput > 1.1 * less,
        "{lost} {goodput}, {more} {less}"
    );
}

/// Neither the routing table nor a watch tells of hops: nothing is limited. By the TTL of what
/// arrives, the mock network is one hop.
#[test]
fn what_is_not_known_of_the_path_limits_nothing() {
    let goodput = |spec: &str| {
        let blueprint = open(spec).expect("it is composed");
        let mut mock = wifu_sim::MockBuilder::new()
            .flow(wifu_sim::Flow::bulk(&blueprint, 1_000_000))
            .build();
        mock.run(Span::SECOND * 600);
        mock.verify(0).expect("byte-exact and closed");
        mock.goodput(0, wifu_sim::Side::B).expect("it was received")
    };
    let free = goodput("tcp-newreno");
    assert_eq!(goodput("tcp-newreno,gates.add=hop-window"), free);
    let two = goodput("tcp-cwl");
    let watched = goodput("tcp-newreno,gates.add=hop-window,watch.add=ttl-hops");
    assert!(two == watched && two < free / 3.0, "{two} {watched} {free}");
}

/// One or two flows over 10 Mb/s and 20 ms with a queue of 100 packets.
fn bottleneck(protocol: &str, flows: u32) -> Outcome {
    let nodes: String = (1..=3)
        .map(|i| format!("[[topology.node]]\nname = \"n{i}\"\nwired_only = true\n"))
        .collect();
    let flow = format!("[[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"{protocol}\"\n");
    let flows: String = (0..flows).map(|_| &*flow).collect();
    done(simulation(&format!(
        "{nodes}[[topology.wire]]\na = \"n1\"\nb = \"n2\"\nrate = \"100Mb/s\"\ndelay = \"1ms\"\n\
         [[topology.wire]]\na = \"n2\"\nb = \"n3\"\nrate = \"10Mb/s\"\ndelay = \"20ms\"\nqueue = 100\n\
         {flows}[stop]\ntime = \"60s\"\n[record]\ninterval = \"5ms\"\n\
         series = [\"flow.1.peer_window\", \"flow.1.srtt\"]\n"
    )))
}

/// Andrew, Hanly and Mukhtar: the queue is short, the link is busy, flows get equal shares, and all
/// that by the window that the receiver shows.
#[test]
fn a_receiver_that_clamps_keeps_the_queue_short_and_the_link_busy() {
    const SLOT: f64 = 1538.0 * 8.0 / 10e6;
    let wait = |o: &Outcome| mean(&values(o, "flow.1.srtt", 20.0)) / SLOT - 0.042 / SLOT;
    let share = |o: &Outcome| {
        let all: f64 = o.flows.iter().map(|f| f.goodput_bps).sum();
        all / (10e6 * 1448.0 / 1538.0)
    };
    let [free, one, two] = [("tcp-newreno", 1), ("tcp-clamp", 1), ("tcp-clamp", 2)]
        .map(|(protocol, flows)| bottleneck(protocol, flows));
    assert!(wait(&free) > 30.0);
    assert!(wait(&one) < 6.0 && share(&one) > 0.98);
    assert!(wait(&two) < 9.0 && share(&two) > 0.98);
    let flows: Vec<f64> = two.flows.iter().map(|f| f.goodput_bps).collect();
    assert!(
        flows[0] / flows[1] > 0.7 && flows[1] / flows[0] > 0.7,
        "{flows:?}"
    );
    for o in [&one, &two] {
        assert!(
            o.flows
                .iter()
                .all(|f| f.packets.queue == 0 && f.retransmissions == 0)
        );
        let peer = o.flows.iter().map(|f| f.limited_s["peer"]);
        assert!(peer.fold(0.0, f64::max) > 40.0);
    }
    let window = values(&one, "flow.1.peer_window", 20.0);
    let most = window.iter().fold(0.0_f64, |a, b| a.max(*b));
    assert!((50e3..70e3).contains(&most), "{most}");
}

/// Over a chain of radios the receiver's limit shortens round trips, for any TCP, by one key.
#[test]
fn a_receiver_that_clamps_shortens_round_trips_over_a_chain() {
    for base in ["tcp-newreno", "tcp-cubic"] {
        let run = |protocol: &str| {
            let outcome = done(simulation(
                &chain(protocol, 3, RECORD).replace("TB-W9", "TB-B"),
            ));
            let flow = &outcome.flows[0];
            assert!(flow.finished, "{protocol}");
            (
                mean(&values(&outcome, "flow.1.srtt", 0.3)),
                flow.goodput_bps,
            )
        };
        let free = run(base);
        let clamped = run(&format!("{base},watch.add=clamp"));
        assert!(clamped.0 < free.0 / 4.0, "{free:?} {clamped:?}");
        assert!(clamped.1 > 0.95 * free.1, "{free:?} {clamped:?}");
    }
}

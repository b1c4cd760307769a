//! What a rule of the window does to the queue of a bottleneck, and what that queue's discipline
//! does to it.

use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::{HopOutcome, Outcome, QueueOutcome};
use wifu_sim::scenario::Scenario;

fn open(spec: &str) -> Result<Arc<Blueprint>, String> {
    wifu_parts::blueprint(spec).map_err(|e| e.to_string())
}

/// A packet of 1500 octets and 38 of Ethernet at 10 Mb/s, seconds.
const SLOT: f64 = 1538.0 * 8.0 / 10e6;

/// What fills the path without any queue: 42 ms of it, and the packet being sent.
const PATH: f64 = 0.042 / SLOT + 1.0;

/// One flow for so many seconds from n1 over 100 Mb/s and 1 ms to n2, over 10 Mb/s, 20 ms and a
/// queue of 100 packets to n3; with more lines of a scenario before its tables.
fn bottleneck(protocol: &str, seconds: u32, more: &str) -> Outcome {
    bottleneck_losing(protocol, seconds, more, 0.0)
}

/// The same, where each packet from n2 to n3 and back is lost with this probability.
fn bottleneck_losing(protocol: &str, seconds: u32, more: &str, loss: f64) -> Outcome {
    let nodes: String = (1..=3)
        .map(|i| format!("[[topology.node]]\nname = \"n{i}\"\nwired_only = true\n"))
        .collect();
    let alpha = match protocol.starts_with("tcp-dctcp") {
        true => ", \"flow.1.dctcp.alpha\"",
        false => "",
    };
    let text = format!(
        "{more}\n{nodes}\
         [[topology.wire]]\na = \"n1\"\nb = \"n2\"\nrate = \"100Mb/s\"\ndelay = \"1ms\"\n\
         [[topology.wire]]\na = \"n2\"\nb = \"n3\"\nrate = \"10Mb/s\"\ndelay = \"20ms\"\n\
         queue = 100\nloss = {loss:?}\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"{protocol}\"\n\
         [stop]\ntime = \"{seconds}s\"\n[record]\ninterval = \"5ms\"\n\
         series = [\"flow.1.cwnd\", \"flow.1.srtt\", \"flow.1.handshake.ecn_cuts\", \
         \"flow.1.peer.handshake.ce\"{alpha}]\n"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut simulation = Simulation::new(&scenario, &open).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    let outcome = simulation.outcome();
    let flow = &outcome.flows[0];
    let p = flow.packets;
    let known = p.delivered + p.queue + p.link + p.wire + p.route + p.hop + p.inside;
    assert_eq!((flow.corrupt, p.sent), (0, known), "{p:?}");
    outcome
}

/// The share of the bottleneck that data got, 1448 of 1538 octets being the most.
fn share(outcome: &Outcome) -> f64 {
    outcome.flows[0].goodput_bps / (10e6 * 1448.0 / 1538.0)
}

/// Packets that wait at the bottleneck on average from some second on, by round-trip times: those
/// of a path without queue are 42 ms, a packet on each wire, its acknowledgement, and a second
/// packet that this waits for.
fn waiting(outcome: &Outcome, from: f64) -> f64 {
    let empty = 0.042 + 1.1 * SLOT + 0.1e-3 + SLOT;
    let all = outcome.series["flow.1.srtt"].iter();
    let late: Vec<f64> = all.filter(|p| p.0 >= from).map(|p| p.1).collect();
    (late.iter().sum::<f64>() / late.len() as f64 - empty) / SLOT
}

/// Packets that waited at the bottleneck on average over all that left it.
fn queued(outcome: &Outcome) -> f64 {
    let mut hops = outcome.hops.iter().filter(|h| !h.reverse);
    let hop = hops.find(|h| h.from == "n2").expect("it is on the way");
    hop.queue_s / hop.packets as f64 / SLOT
}

fn drops(outcome: &Outcome) -> u64 {
    outcome.wires.iter().map(|w| w.queue_drops).sum()
}

/// The least and the greatest value of a series from some second on.
fn range(outcome: &Outcome, series: &str, from: f64) -> (f64, f64) {
    let all = outcome.series[series].iter();
    let late = all.filter(|p| p.0 >= from && !p.1.is_nan()).map(|p| p.1);
    late.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)))
}

/// The last value of a series.
fn last(outcome: &Outcome, series: &str) -> f64 {
    outcome.series[series].last().expect("it was recorded").1
}

/// What the disciplines of n2's queues did.
fn queue(outcome: &Outcome) -> QueueOutcome {
    outcome.nodes[1].queue.expect("n2 has a discipline")
}

/// What a queue refuses or its discipline drops never left it: it is not lost on the hop behind.
#[test]
fn a_queue_s_drops_are_no_losses_of_the_hop_behind_it() {
    let kinds = ["", "codel", "fq_codel", "red"];
    for kind in kinds {
        let more = match kind {
            "" => String::new(),
            kind => format!("host.queue = {{ kind = \"{kind}\" }}"),
        };
        let outcome = bottleneck_losing("tcp-newreno", 60, &more, 0.001);
        let (p, on_wires) = (
            outcome.flows[0].packets,
            outcome.wires.iter().map(|w| w.lost).sum::<u64>(),
        );
        let sum = |of: fn(&HopOutcome) -> u64| outcome.hops.iter().map(of).sum::<u64>();
        assert_eq!(sum(|h| h.lost), on_wires, "{kind}: {:?}", outcome.hops);
        assert_eq!(
            sum(|h| h.queue_drops),
            p.queue,
            "{kind}: {:?}",
            outcome.hops
        );
        let early = outcome.nodes.iter().filter_map(|n| n.queue);
        let early: u64 = early.map(|q| q.dropped).sum();
        assert_eq!(sum(|h| h.early_drops), early, "{kind}");
        // A node's own table has its wires' queues, too.
        let refused = outcome.nodes.iter().map(|n| n.queue_drops).sum::<u64>();
        assert_eq!(refused + early, p.queue, "{kind}");
        assert!(
            on_wires > 0 && p.queue > 0 && (early > 0) != kind.is_empty(),
            "{kind}: {p:?}"
        );
    }
}

/// Brakmo and Peterson: between alpha and beta segments wait in the queue, where Reno fills it.
#[test]
fn vegas_holds_a_few_packets_in_the_queue_and_newreno_fills_it() {
    let vegas = bottleneck("tcp-vegas", 60, "");
    let newreno = bottleneck("tcp-newreno", 60, "");
    let (few, many) = (waiting(&vegas, 20.0), waiting(&newreno, 20.0));
    assert!((1.0..=5.0).contains(&few), "{few}");
    assert!(many > 30.0, "{many}");
    let (low, high) = range(&vegas, "flow.1.cwnd", 20.0);
    let [low, high] = [low, high].map(|octets| octets / 1448.0);
    assert!(low >= PATH + 1.0 && high <= PATH + 5.0, "{low} to {high}");
    assert_eq!((drops(&vegas), vegas.flows[0].retransmissions), (0, 0));
    assert!(drops(&newreno) > 0);
    assert!(share(&vegas) > 0.97, "{}", share(&vegas));
}

/// draft-ietf-ccwg-bbr 3.1: the throughput of the path with little queue, and losses that are no
/// congestion cost nothing.
#[test]
fn bbr_fills_the_path_and_holds_a_short_queue_with_and_without_random_losses() {
    let bbr = bottleneck("tcp-bbr", 60, "");
    let newreno = bottleneck("tcp-newreno", 60, "");
    let (few, many) = (waiting(&bbr, 20.0), waiting(&newreno, 20.0));
    assert!(few < 6.0 && many > 30.0, "{few} {many}");
    assert!(share(&bbr) > 0.95, "{}", share(&bbr));
    assert_eq!((drops(&bbr), bbr.flows[0].retransmissions), (0, 0));
    let with = |protocol: &str| {
        let outcome = bottleneck_losing(protocol, 60, "", 0.01);
        assert!(outcome.flows[0].packets.wire > 100, "{protocol}");
        share(&outcome)
    };
    let shares = ["tcp-bbr", "tcp-cubic", "tcp-newreno"].map(with);
    // One packet of the 35 in flight is more than the 2 % that it tolerates.
    assert!(shares[0] > 0.7, "{shares:?}");
    assert!(shares[1] < 0.45 && shares[2] < 0.4, "{shares:?}");
}

/// draft-ietf-ccwg-bbr 3.7: a mark is a congestion. What is in flight falls below the step.
#[test]
fn bbr_heeds_marks_if_it_asks_for_them() {
    let step = "host.queue = { kind = \"step\", above = 8, nodes = [\"n2\"] }";
    let [marked, deaf] = ["tcp-bbr,ecn=on", "tcp-bbr"].map(|spec| bottleneck(spec, 60, step));
    let (q, cuts) = (queue(&marked), last(&marked, "flow.1.handshake.ecn_cuts"));
    assert!(
        q.marked > 10 && cuts > 5.0 && q.dropped == 0,
        "{q:?} {cuts}"
    );
    assert!(queue(&deaf).dropped > 10, "{:?}", queue(&deaf));
    let most = range(&marked, "flow.1.cwnd", 20.0).1 / 1448.0;
    assert!(most < PATH + 25.0, "{most}");
    assert!(share(&marked) > 0.85, "{}", share(&marked));
}

const RED: &str = "host.queue = { kind = \"red\", nodes = [\"n2\"], thresh = 10, maxthresh = 30 }";

/// Floyd and Jacobson: an early mark costs nothing, an early drop is a loss, and either keeps the
/// queue short where drop-tail fills it.
#[test]
fn red_marks_what_understands_marks_and_drops_the_rest() {
    let marked = bottleneck("tcp-newreno,ecn=on", 60, RED);
    let early = bottleneck("tcp-newreno", 60, RED);
    let tail = bottleneck("tcp-newreno,ecn=on", 60, "");
    let q = queue(&marked);
    assert!(q.marked > 10 && q.dropped == 0, "{q:?}");
    assert_eq!(last(&marked, "flow.1.peer.handshake.ce"), q.marked as f64);
    let cuts = last(&marked, "flow.1.handshake.ecn_cuts");
    assert!(cuts >= 5.0 && cuts <= q.marked as f64, "{cuts}");
    let lost = [&marked, &early, &tail].map(|o| o.flows[0].packets.queue);
    assert!(lost[0] < lost[2] && lost[1] > 0, "{lost:?}");
    assert!(marked.flows[0].retransmissions < tail.flows[0].retransmissions);
    let q = queue(&early);
    assert_eq!((q.marked, q.dropped + q.full), (0, lost[1]));
    assert!(q.dropped > 10, "{q:?}");
    assert_eq!(last(&tail, "flow.1.handshake.ecn_cuts"), 0.0);
    assert!(tail.nodes.iter().all(|n| n.queue.is_none()));
    assert!(marked.nodes[0].queue.is_none(), "only n2 was named");
    let waits = [&marked, &early, &tail].map(queued);
    assert!(
        waits[0] < 20.0 && waits[1] < 20.0 && waits[2] > 20.0,
        "{waits:?}"
    );
    let shares = [share(&marked), share(&early)];
    assert!(shares[0] > 0.85, "{shares:?}");
}

/// RFC 8289: packets wait about as long as the target, whatever the round trip's length.
#[test]
fn codel_keeps_the_wait_near_its_target() {
    let codel = "host.queue = { kind = \"codel\" }";
    let tail = queued(&bottleneck("tcp-newreno,ecn=on", 60, ""));
    for (spec, ect) in [("tcp-newreno,ecn=on", true), ("tcp-newreno", false)] {
        let outcome = bottleneck(spec, 60, codel);
        let q = queue(&outcome);
        let acted = if ect { q.marked } else { q.dropped };
        assert!(acted > 10 && q.marked + q.dropped == acted, "{spec}: {q:?}");
        let ce = last(&outcome, "flow.1.peer.handshake.ce");
        let all: u64 = outcome
            .nodes
            .iter()
            .filter_map(|n| n.queue)
            .map(|q| q.marked)
            .sum();
        assert_eq!(ce, all as f64, "{spec}");
        // 5 ms are four packets.
        let waits = queued(&outcome);
        assert!(
            waits > 1.0 && waits < 12.0 && waits < tail / 3.0,
            "{spec}: {waits} of {tail}"
        );
        assert!(share(&outcome) > 0.75, "{spec}: {}", share(&outcome));
        let p = outcome.flows[0].packets;
        assert_eq!(p.queue, q.dropped + q.full, "{spec}");
    }
}

/// Two flows that share the bottleneck of [`bottleneck`]: one of TCP for 40 s, and one of `other`.
fn shared(protocol: &str, other: &str, queue: &str, packets: u32) -> Outcome {
    let nodes: String = (1..=3)
        .map(|i| format!("[[topology.node]]\nname = \"n{i}\"\nwired_only = true\n"))
        .collect();
    let text = format!(
        "{queue}\n{nodes}\
         [[topology.wire]]\na = \"n1\"\nb = \"n2\"\nrate = \"100Mb/s\"\ndelay = \"1ms\"\n\
         [[topology.wire]]\na = \"n2\"\nb = \"n3\"\nrate = \"10Mb/s\"\ndelay = \"20ms\"\n\
         queue = {packets}\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"{protocol}\"\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n3\"\n{other}\n\
         [stop]\ntime = \"40s\"\n"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut simulation = Simulation::new(&scenario, &open).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    let outcome = simulation.outcome();
    for flow in &outcome.flows {
        let p = flow.packets;
        let known = p.delivered + p.queue + p.link + p.wire + p.route + p.hop + p.inside;
        assert_eq!((flow.corrupt, p.sent), (0, known), "{p:?}");
    }
    outcome
}

const FQ: &str = "host.queue = { kind = \"fq_codel\" }";

/// RFC 8290 section 1.3: a flow that sends less than its share finds no queue, whoever fills his.
#[test]
fn a_sparse_flow_waits_for_nobody_behind_fq_codel() {
    let sparse = "protocol = \"udp\"\nrate = \"100kb/s\"\nsize = 200";
    let wait = |queue: &str| {
        let outcome = shared("tcp-newreno", sparse, queue, 100);
        let mut hops = outcome.hops.iter().filter(|h| h.flow == 2 && !h.reverse);
        let hop = hops.find(|h| h.from == "n2").expect("it is on the way");
        assert!(outcome.flows[0].goodput_bps > 7e6, "{queue}");
        // By packets of the other flow.
        hop.queue_s / hop.packets as f64 / SLOT
    };
    let waits = ["", "host.queue = { kind = \"codel\" }", FQ].map(wait);
    // Behind fq_codel it waits for what is left of the packet that is being sent.
    assert!(waits[2] < 0.6, "{waits:?}");
    assert!(waits[1] > 2.0 && waits[0] > 15.0, "{waits:?}");
}

/// Turns are by flow: who would take the link by filling the queue gets half of it.
#[test]
fn flows_share_a_link_behind_fq_codel_whatever_their_rules() {
    let vegas = "protocol = \"tcp-vegas\"";
    let shares = |queue: &str| {
        let outcome = shared("tcp-newreno", vegas, queue, 100);
        let all: f64 = outcome.flows.iter().map(|f| f.goodput_bps).sum();
        assert!(all > 7.5e6, "{queue}: {all}");
        outcome.flows[1].goodput_bps / all
    };
    let [tail, fq] = ["", FQ].map(shares);
    assert!(tail < 0.25 && (0.4..0.6).contains(&fq), "{tail} {fq}");
}

/// RFC 8290 section 4.1.3: when there is no room, whose flow has most waiting loses a packet.
#[test]
fn a_flood_loses_its_own_packets_behind_fq_codel() {
    let flood = "protocol = \"udp\"\nrate = \"30Mb/s\"\nsize = 1000";
    for (queue, least) in [(FQ, 3.5e6), ("", 0.0)] {
        let outcome = shared("tcp-newreno", flood, queue, 60);
        let goodput = outcome.flows[0].goodput_bps;
        match queue.is_empty() {
            true => assert!(goodput < 1e6, "drop-tail: {goodput}"),
            false => assert!(goodput > least, "fq_codel: {goodput}"),
        }
        let lost = outcome.flows.iter().map(|f| f.packets.queue);
        let lost: Vec<u64> = lost.collect();
        assert!(lost[1] > 10_000, "{lost:?}");
    }
}

/// RFC 8257: over a step of K packets the queue stays near K, below and above it, and the link is
/// busy; RFC 3168's halving leaves it idle at times.
#[test]
fn dctcp_stays_near_the_step_and_loses_no_goodput() {
    let step = |above: u32| {
        format!("host.queue = {{ kind = \"step\", above = {above}, nodes = [\"n2\"] }}")
    };
    for above in [8, 20] {
        let dctcp = bottleneck("tcp-dctcp", 60, &step(above));
        let (k, waits) = (f64::from(above), waiting(&dctcp, 10.0));
        assert!(waits > k - 7.0 && waits < k + 2.0, "{above}: {waits}");
        assert!(share(&dctcp) > 0.98, "{above}: {}", share(&dctcp));
        let q = queue(&dctcp);
        assert!(q.marked > 100 && q.dropped + q.full == 0, "{above}: {q:?}");
        assert_eq!(dctcp.flows[0].retransmissions, 0);
        let (low, high) = range(&dctcp, "flow.1.dctcp.alpha", 10.0);
        assert!(low > 0.0 && high < 0.6, "{above}: alpha {low} to {high}");
    }
    let halving = bottleneck("tcp-sack,ecn=on", 60, &step(8));
    let dctcp = bottleneck("tcp-dctcp", 60, &step(8));
    assert!(share(&halving) < share(&dctcp) - 0.01);
    let swing = |o: &Outcome| {
        let (low, high) = range(o, "flow.1.cwnd", 10.0);
        high / low
    };
    assert!(
        swing(&dctcp) < swing(&halving),
        "{} {}",
        swing(&dctcp),
        swing(&halving)
    );
}

#[test]
fn a_step_marks_all_that_come_above_it() {
    let step = "host.queue = { kind = \"step\", above = 20, nodes = [\"n2\"] }";
    let outcome = bottleneck("tcp-newreno,ecn=on", 60, step);
    let q = queue(&outcome);
    assert!(q.marked > 100 && q.dropped + q.full == 0, "{q:?}");
    assert!(queued(&outcome) < 20.0);
    // A receiver of RFC 3168 echoes until it is told: fewer reductions than marks.
    assert!(last(&outcome, "flow.1.handshake.ecn_cuts") < q.marked as f64 / 5.0);
}

/// Radios: packets wait in front of the driver's ring, which is short here.
#[test]
fn the_queues_of_radios_have_disciplines_too() {
    let run = |protocol: &str, queue: &str| {
        let text = format!(
            "{queue}\ntopology = {{ words = \"linear,3\", set = \"TB-B\" }}\n\
             [radio]\nring = 2\nqueue = 60\n[stop]\ntime = \"40s\"\n\
             [[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"{protocol},profile=rfc-modern\"\n"
        );
        let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
        let mut simulation = Simulation::new(&scenario, &open).unwrap_or_else(|e| panic!("{e}"));
        simulation.run();
        let outcome = simulation.outcome();
        let p = outcome.flows[0].packets;
        let known = p.delivered + p.queue + p.link + p.wire + p.route + p.hop + p.inside;
        assert_eq!(p.sent, known, "{queue}: {p:?}");
        outcome
    };
    let tail = run("tcp-newreno,ecn=on", "");
    for kind in [
        "kind = \"codel\"",
        "kind = \"red\", q_weight = 0.02",
        "kind = \"step\", above = 8",
        "kind = \"fq_codel\"",
    ] {
        let key = format!("host.queue = {{ {kind} }}");
        for ecn in ["on", "off"] {
            let outcome = run(&format!("tcp-newreno,ecn={ecn}"), &key);
            let queues = outcome.nodes.iter().filter_map(|n| n.queue);
            let (marked, dropped) = queues.fold((0, 0), |s, q| (s.0 + q.marked, s.1 + q.dropped));
            // Bare acknowledgements understand no marks.
            match ecn {
                "on" => assert!(marked > 5 && dropped < marked, "{kind}: {marked} {dropped}"),
                _ => assert!(marked == 0 && dropped > 5, "{kind}: {marked} {dropped}"),
            }
            assert_eq!(outcome.flows[0].packets.queue, dropped, "{kind} {ecn}");
            let srtt = [&outcome, &tail].map(|o| o.flows[0].srtt_s.expect("it ran"));
            assert!(srtt[0] < srtt[1] / 2.0, "{kind} {ecn}: {srtt:?}");
            let ratio = outcome.flows[0].goodput_bps / tail.flows[0].goodput_bps;
            assert!(ratio > 0.8, "{kind} {ecn}: {ratio}");
        }
    }
}

/// Who wonders why nothing is marked learns that the ring beneath holds all that waits.
#[test]
fn a_discipline_that_never_saw_a_packet_wait_is_told_with_its_ring() {
    let run = |radio: &str, queue: &str| {
        let text = format!(
            "{queue}\ntopology = {{ words = \"linear,3\", set = \"TB-B\" }}\n[radio]\n{radio}\n\
             [stop]\ntime = \"10s\"\n[[flow]]\nfrom = \"n1\"\nto = \"n3\"\n\
             protocol = \"tcp-newreno,rcv_wnd=65535,snd_buf=131071\"\n"
        );
        let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
        let mut simulation = Simulation::new(&scenario, &open).unwrap_or_else(|e| panic!("{e}"));
        simulation.run();
        simulation.outcome()
    };
    for kind in ["fq_codel", "codel", "red"] {
        let key = format!("host.queue = {{ kind = \"{kind}\" }}");
        let long = run("ring = 200", &key);
        let acted = |o: &Outcome| {
            o.nodes
                .iter()
                .filter_map(|n| n.queue)
                .map(|q| q.dropped)
                .sum::<u64>()
        };
        let (dropped, [said]): (u64, [String; 1]) =
            (acted(&long), long.warnings.clone().try_into().expect("one"));
        assert_eq!(dropped, 0, "{kind}");
        let begin =
            format!("host.queue: {kind} of the radios at n1, n2, n3 marked and dropped nothing");
        assert!(
            said.starts_with(&begin) && said.contains("holds 200"),
            "{said}"
        );
        let json = serde_json::to_value(&long).unwrap();
        assert_eq!(json["warnings"][0], said.as_str());
        let short = run("ring = 2", &key);
        assert!(short.warnings.is_empty(), "{:?}", short.warnings);
        assert!(acted(&short) > 0, "{kind}");
    }
    // Without a discipline nobody waits for it to act.
    assert!(run("ring = 200", "").warnings.is_empty());
}

#[test]
fn the_same_scenario_marks_the_same_packets() {
    let hash = |queue: &str| bottleneck("tcp-newreno,ecn=on", 10, queue).trace_hash;
    assert_eq!(hash(RED), hash(RED));
    assert_ne!(hash(RED), hash(""));
}

#[test]
fn a_discipline_that_makes_no_sense_is_refused_at_its_key() {
    for (keys, said) in [
        (
            "kind = \"rad\"",
            "host.queue.kind: unknown name `rad`; did you mean `red`?",
        ),
        (
            "kind = \"codel\", thresh = 5",
            "host.queue.thresh: a key of kind = \"red\"",
        ),
        (
            "kind = \"red\", target = \"5ms\"",
            "host.queue.target: a key of kind = \"codel\" or \"fq_codel\", and kind is \"red\"",
        ),
        (
            "kind = \"fq_codel\", quantum = 0",
            "host.queue.quantum: must not be 0",
        ),
        ("kind = \"red\", tresh = 5", "host.queue.tresh: unknown key"),
        (
            "kind = \"red\", thresh = 20",
            "host.queue.maxthresh: must be at least thresh",
        ),
        (
            "kind = \"red\", q_weight = 0",
            "host.queue.q_weight: must be above 0",
        ),
        (
            "kind = \"red\", linterm = 0.5",
            "host.queue.linterm: 1 / a probability",
        ),
        ("kind = \"step\"", "host.queue.above: missing"),
        (
            "kind = \"codel\", target = 0",
            "host.queue.target: must be greater than 0",
        ),
        (
            "kind = \"codel\", interval = \"1ms\"",
            "host.queue.interval: must be at least target",
        ),
    ] {
        let text = format!("host.queue = {{ {keys} }}\n");
        let error = Scenario::from_toml(&text).err().map(|e| e.to_string());
        let error = error.unwrap_or_default();
        assert!(error.starts_with(said), "{keys}: {error}");
    }
    let text = "host.queue = { kind = \"codel\", nodes = [\"n9\"] }\n\
                topology.words = \"linear,3\"\n\
                [[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"tcp-newreno\"\napp = \"file\"\n\
                bytes = 1\n";
    let scenario = Scenario::from_toml(text).expect("it may be a name");
    let error = Simulation::new(&scenario, &open)
        .err()
        .map(|e| e.to_string());
    assert!(error.is_some_and(|e| e.starts_with("host.queue.nodes.1")));
}

/// RFC 8289 5.6: what waits behind is counted in octets, so that packets of a third of the largest
/// one are not passed over.
#[test]
fn codel_acts_on_queues_of_small_packets_too() {
    let codel = "host.queue = { kind = \"codel\", nodes = [\"n2\"] }";
    let outcome = bottleneck("tcp-newreno,mss=440", 30, codel);
    let q = queue(&outcome);
    assert!(q.dropped > 5, "{q:?}");
}

//! What became of the packets of a flow that did not arrive.

use std::collections::BTreeSet;

use wifu_sim::outcome::{FlowOutcome, HopOutcome, Outcome};
use wifu_sim::why::percent;

/// Of more of a flow's datagrams than this share, which their own node refused, it is told.
const CROWDED: f64 = 0.01;

/// Of more of a connection's packets than this share, which nodes on its way refused where a
/// transport of theirs waits for room, it is told: few losses hold TCP up.
const SHUT_OUT: f64 = 0.005;

/// For such a share of its time a transport waits for room, and it keeps the queue full; else those
/// who pass do.
const MOSTLY: f64 = 0.5;

/// More of a flow's packets than this share that are on their way at the end are told.
const INSIDE: f64 = 0.01;

/// What became of packets that arrived nowhere; copies that nodes made are packets too.
pub(super) fn lost(outcome: &Outcome, f: &FlowOutcome) -> Option<String> {
    let p = f.packets;
    let all = |of: fn(&HopOutcome) -> u64| {
        let hops = outcome.hops.iter().filter(|h| h.flow == f.id);
        hops.map(of).sum::<u64>()
    };
    let early = all(|h| h.early_drops).min(p.queue);
    let lanes = all(|h| h.lane_drops).min(p.queue - early);
    let ends = [
        (p.queue - early - lanes, "full queues"),
        (early, "the discipline of queues"),
        (lanes, "full lanes"),
        (p.link, "the MAC's last attempt"),
        (p.wire, "wires"),
        (p.route, "missing routes or too many hops"),
        (p.hop, "hops' handlers, or lanes that let them go"),
        (p.host, "a host with too many to work off"),
        (p.late, "deadlines that had passed"),
    ];
    let ends = ends.iter().filter(|(n, _)| *n > 0);
    let lost: Vec<String> = ends.map(|(n, what)| format!("{n} by {what}")).collect();
    // What was under way at the end is neither lost nor delivered.
    let over = (p.sent + p.copies).saturating_sub(p.inside);
    let inside = match p.inside as f64 > INSIDE * (p.sent + p.copies) as f64 {
        true if p.inside == 1 => String::from("; at the end one more was still on its way"),
        true => format!("; at the end {} more were still on their way", p.inside),
        false => String::new(),
    };
    (!lost.is_empty()).then(|| {
        let share = percent(p.lost() as f64 / over.max(1) as f64);
        let all = lost.join(", ");
        let ways = if f.protocol == "udp" {
            ""
        } else {
            " of both directions"
        };
        match p.copies {
            0 => format!("Packets lost for good: {all}; of {over}{ways} ({share}){inside}"),
            n => format!(
                "Packets lost on the way: {all}; of {over}{ways}, {n} of them copies that nodes sent \
                 ({share}): what was lost with one another may have brought{inside}"
            ),
        }
    })
}

/// Datagrams that the full queue of their own node refused while a transport there waited for room
/// in it: it keeps the queue full, and looks as if it lost nothing. Where all datagrams of the node
/// are more than all packets that its links carried, they may have filled it without anybody, too.
pub(super) fn crowded(outcome: &Outcome, f: &FlowOutcome) -> Option<String> {
    let node = &f.from;
    // Of questions and answers, data begin where the answers do.
    let begins = |o: &FlowOutcome| if o.asked.is_some() { &o.to } else { &o.from } == node;
    let waits =
        |o: &&FlowOutcome| o.protocol != "udp" && begins(o) && o.limited_s.contains_key("queue");
    let others = outcome.flows.iter().filter(waits);
    let others: Vec<String> = others.map(|o| o.id.to_string()).collect();
    if f.protocol != "udp" || others.is_empty() {
        return None;
    }
    let refused = |h: &HopOutcome| h.queue_drops.saturating_sub(h.early_drops);
    let here = || outcome.hops.iter().filter(|h| h.from == *node);
    let datagrams = |id: u32| {
        outcome
            .flows
            .iter()
            .any(|o| o.id == id && o.protocol == "udp")
    };
    let asked = here().filter(|h| datagrams(h.flow));
    let asked: u64 = asked.map(|h| h.packets + refused(h)).sum();
    let own: u64 = here().filter(|h| h.flow == f.id).map(refused).sum();
    let share = own as f64 / f.packets.sent.max(1) as f64;
    if share <= CROWDED {
        return None;
    }
    // By their rates: what a transport wrote may take long to leave after the last datagram.
    let udp = outcome
        .flows
        .iter()
        .filter(|o| o.protocol == "udp" && o.from == *node);
    let asking = udp.map(|o| o.until_s - o.start_s).fold(0.0, f64::max);
    let carried: u64 = here().map(|h| h.packets).sum();
    let flood = match asked as f64 * outcome.sim_seconds > carried as f64 * asking {
        true => "; there are so many that they may be more than its links carry by themselves",
        false => "",
    };
    Some(format!(
        "{} of its datagrams were refused by the full queue of {node}, where data of flow{} {} begin, \
         too: a transport waits for room there, and so keeps it full{flood}",
        percent(share),
        if others.len() > 1 { "s" } else { "" },
        others.join(", ")
    ))
}

/// Packets of a connection that the full queue of a node on its way refused while a transport whose
/// data begin there waited for room in it for most of its time: that one loses nothing by it. A
/// node has a queue for each wire, and one of its radio for all neighbours.
pub(super) fn shut_out(outcome: &Outcome, f: &FlowOutcome) -> Option<String> {
    let begins = |o: &FlowOutcome| match o.asked {
        Some(_) => o.to.clone(),
        None => o.from.clone(),
    };
    let own = begins(f);
    let by_wire = |h: &HopOutcome| {
        let mut wires = outcome.wires.iter();
        wires.any(|w| w.from == h.from && w.to == h.to)
    };
    // The queue of a hop: of its radio whatever the neighbour, else of the wire.
    let queue = |h: &HopOutcome| (h.from.clone(), by_wire(h).then(|| h.to.clone()));
    let waits = |h: &&HopOutcome| {
        let other = outcome.flows.iter().find(|o| o.id == h.flow);
        other.is_some_and(|o| {
            let held = o.limited_s.get("queue").copied().unwrap_or(0.0);
            let all: f64 = o.limited_s.values().sum();
            o.id != f.id && o.protocol != "udp" && begins(o) == h.from && held > MOSTLY * all
        }) && h.reverse == other.is_some_and(|o| o.asked.is_some())
    };
    let mut refused = 0;
    let (mut nodes, mut others) = (BTreeSet::new(), BTreeSet::new());
    let lost = |h: &&HopOutcome| h.flow == f.id && h.from != own && h.queue_drops > h.early_drops;
    for hop in outcome.hops.iter().filter(lost) {
        let at = queue(hop);
        let here = outcome.hops.iter().filter(|h| queue(h) == at).filter(waits);
        let here: Vec<u32> = here.map(|h| h.flow).collect();
        if !here.is_empty() {
            refused += hop.queue_drops - hop.early_drops;
            nodes.insert(hop.from.clone());
            others.extend(here);
        }
    }
    let share = refused as f64 / f.packets.sent.max(1) as f64;
    (f.protocol != "udp" && share > SHUT_OUT).then(|| {
        let nodes: Vec<String> = nodes.into_iter().collect();
        let named: Vec<String> = others.iter().map(u32::to_string).collect();
        format!(
            "{} of its packets were refused by the full queue of {}, which it passes and where data \
             of flow{} {} begin: a transport waits for room there, loses nothing, and so keeps it full",
            percent(share),
            nodes.join(" and "),
            if named.len() > 1 { "s" } else { "" },
            named.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_are_on_their_way_at_the_end_are_told() {
        let mut flow = FlowOutcome {
            protocol: "udp".into(),
            ..FlowOutcome::default()
        };
        (flow.packets.sent, flow.packets.link) = (1000, 9);
        let mut said = |inside| {
            flow.packets.inside = inside;
            lost(&Outcome::default(), &flow).expect("some were lost")
        };
        let few = "Packets lost for good: 9 by the MAC's last attempt; of 990 (0.9 %)";
        assert_eq!(said(10), few);
        let many = "Packets lost for good: 9 by the MAC's last attempt; of 600 (1.5 %); at the end \
                    400 more were still on their way";
        assert_eq!(said(400), many);
        flow.packets.copies = 100;
        let told = lost(&Outcome::default(), &flow).expect("some were lost");
        assert!(
            told.ends_with("brought; at the end 400 more were still on their way"),
            "{told}"
        );
    }

    #[test]
    fn datagrams_that_a_transport_crowds_out_are_told() {
        let flow = |id: u32, protocol: &str| FlowOutcome {
            id,
            from: "n1".into(),
            to: "n2".into(),
            protocol: protocol.into(),
            ..FlowOutcome::default()
        };
        let hop = |flow: u32, packets: u64, queue_drops: u64| HopOutcome {
            flow,
            from: "n1".into(),
            to: "n2".into(),
            packets,
            queue_drops,
            ..HopOutcome::default()
        };
        let mut outcome = Outcome {
            flows: vec![flow(1, "udp"), flow(2, "tcp-reno")],
            hops: vec![hop(1, 80, 20), hop(2, 1000, 0)],
            sim_seconds: 10.0,
            ..Outcome::default()
        };
        (outcome.flows[0].packets.sent, outcome.flows[0].until_s) = (100, 10.0);
        let said = |outcome: &Outcome| crowded(outcome, &outcome.flows[0]);
        assert_eq!(said(&outcome), None, "nobody waited for room");
        let limits = &mut outcome.flows[1].limited_s;
        limits.insert("queue".into(), 3.0);
        let told = said(&outcome).expect("a fifth");
        let begins =
            "20 % of its datagrams were refused by the full queue of n1, where data of flow 2";
        assert!(told.starts_with(begins), "{told}");
        assert_eq!(crowded(&outcome, &outcome.flows[1]), None);
        outcome.hops[0].early_drops = 20;
        assert_eq!(said(&outcome), None, "by the discipline");
        outcome.hops[0].early_drops = 0;
        outcome.hops[1].packets = 10;
        let told = said(&outcome).expect("more than the link carries");
        assert!(told.ends_with("carry by themselves"), "{told}");
        outcome.hops[1].packets = 50;
        assert!(!said(&outcome).expect("a fifth").ends_with("themselves"));
        outcome.flows[0].until_s = 5.0;
        let told = said(&outcome).expect("20 datagrams a second, where 13 packets left");
        assert!(told.ends_with("carry by themselves"), "{told}");
        outcome.hops[1].packets = 1000;
        outcome.flows[1].from = "n3".into();
        assert_eq!(said(&outcome), None, "another node's queue");
    }

    #[test]
    fn connections_that_a_relays_own_transport_shuts_out_are_told() {
        let flow = |id: u32, from: &str| FlowOutcome {
            id,
            from: from.into(),
            to: "n4".into(),
            protocol: "tcp-newreno".into(),
            ..FlowOutcome::default()
        };
        let hop = |flow: u32, queue_drops: u64| HopOutcome {
            flow,
            from: "n2".into(),
            to: "n3".into(),
            packets: 100,
            queue_drops,
            ..HopOutcome::default()
        };
        let mut outcome = Outcome {
            flows: vec![flow(1, "n1"), flow(2, "n2")],
            hops: vec![hop(1, 20), hop(2, 0)],
            ..Outcome::default()
        };
        outcome.flows[0].packets.sent = 100;
        let said = |outcome: &Outcome| shut_out(outcome, &outcome.flows[0]);
        assert_eq!(said(&outcome), None, "nobody waited for room");
        outcome.flows[1].limited_s = [("queue".into(), 3.0), ("window".into(), 2.0)].into();
        let told = said(&outcome).expect("a fifth");
        let begins = "20 % of its packets were refused by the full queue of n2, which it passes and \
                      where data of flow 2 begin:";
        assert!(told.starts_with(begins), "{told}");
        assert_eq!(shut_out(&outcome, &outcome.flows[1]), None);
        outcome.hops[0].early_drops = 20;
        assert_eq!(said(&outcome), None, "by the discipline");
        outcome.hops[0].early_drops = 0;
        outcome.flows[1].limited_s.insert("window".into(), 4.0);
        assert_eq!(said(&outcome), None, "who passes fills the queue, too");
        outcome.flows[1].limited_s.insert("window".into(), 0.0);
        outcome.flows[1].from = "n3".into();
        assert_eq!(said(&outcome), None, "another node's queue");
    }
}

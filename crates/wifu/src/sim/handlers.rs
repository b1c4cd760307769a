//! What the handlers and lanes of each node did.

use wifu_node::SplitCounters;
use wifu_sim::outcome::{FlowOutcome, HandlerOutcome, NodeOutcome, Outcome};

use super::report::{millis, octets};
use super::table::{Table, number_of};

/// A row for each handler that was asked about a packet, at its node; one for those that were asked
/// about none at any; empty if there is no handler.
pub fn table(outcome: &Outcome) -> String {
    let mut table = Table::new(&[
        "<node", "<handler", ">packets", ">changed", ">dropped", ">held", ">full", ">kept",
        ">sent", "<counted",
    ]);
    let count = |n: u64| match n {
        0 => String::new(),
        n => n.to_string(),
    };
    for node in &outcome.nodes {
        for h in node.handlers.iter().filter(|h| h.packets > 0) {
            table.row([
                node.name.clone(),
                h.name.clone(),
                count(h.packets),
                count(h.changed),
                count(h.dropped),
                count(h.held),
                count(h.overflows),
                count(h.kept),
                count(h.sent),
                counted(h),
            ]);
        }
    }
    for name in idle(outcome) {
        let mut row = [const { String::new() }; 10];
        (row[0], row[1], row[2]) = ("(none)".into(), name.into(), "0".into());
        table.row(row);
    }
    if table.is_empty() {
        String::new()
    } else {
        table.text()
    }
}

/// Names of the handlers that were asked about no packet at any node: nothing of the scenario is
/// for them.
pub fn idle(outcome: &Outcome) -> Vec<&str> {
    let all = || outcome.nodes.iter().flat_map(|n| &n.handlers);
    let mut idle: Vec<&str> = Vec::new();
    for h in all() {
        let asked = all().any(|other| other.name == h.name && other.packets > 0);
        if !asked && !idle.contains(&&h.name[..]) {
            idle.push(&h.name);
        }
    }
    idle
}

/// A row for each node whose lanes saw a packet; empty if there is none.
pub fn lanes(outcome: &Outcome) -> String {
    let mut table = Table::new(&[
        "<node",
        ">lanes",
        ">taken",
        ">sent",
        ">kept",
        ">made",
        ">unsent",
        ">returned",
        ">full",
        ">refused",
        ">no lane",
        ">strangers",
        ">damaged",
        ">idle",
        ">most",
    ]);
    let count = |n: u64| match n {
        0 => String::new(),
        n => n.to_string(),
    };
    for node in &outcome.nodes {
        let Some(l) = node.lanes.filter(|l| l.opened + l.unlaned > 0) else {
            continue;
        };
        table.row([
            node.name.clone(),
            count(l.opened),
            count(l.taken),
            count(l.sent),
            count(l.kept),
            count(l.made),
            count(l.unsent),
            count(l.returned),
            count(l.full),
            count(l.refused),
            count(l.unlaned),
            count(l.strangers),
            count(l.damaged),
            count(l.idled),
            count(l.most.into()),
        ]);
    }
    if table.is_empty() {
        String::new()
    } else {
        table.text()
    }
}

/// What lanes say to the nodes beside them; nothing where they say nothing. Wires have no attempts
/// that it could be among.
pub fn own(outcome: &Outcome) -> Option<String> {
    let made = |n: &NodeOutcome| n.lanes.map_or(0, |l| l.made);
    let nodes = outcome.nodes.iter().filter(|n| made(n) > 0);
    let tried = nodes.clone().any(|n| n.attempts > 0);
    let said: Vec<String> = nodes.map(|n| format!("{} {}", n.name, made(n))).collect();
    (!said.is_empty()).then(|| {
        format!(
            "Lanes sent {} packets of their own (questions, answers, credits), in no flow's table\
             {} ({})",
            outcome.nodes.iter().map(made).sum::<u64>(),
            if tried {
                ", though among the attempts"
            } else {
                ""
            },
            said.join(", ")
        )
    })
}

/// How long data waited between the halves of a splitter on the mean: that is in no round trip, and
/// on no hop.
fn waited(s: &SplitCounters) -> String {
    match s.near.bytes + s.far.bytes {
        0 => String::new(),
        all => {
            let mean = s.waited_octet_us as f64 / 1e6 / all as f64;
            format!("data waited {} there on the mean, ", millis(mean))
        }
    }
}

/// What to say of a flow whose connection nodes on its way split.
pub fn split(outcome: &Outcome, f: &FlowOutcome) -> Option<String> {
    let on_its_way = f.split_at.iter();
    let nodes = on_its_way.filter_map(|name| outcome.nodes.iter().find(|n| n.name == *name));
    let told = nodes.filter_map(|n| {
        let s = n.split.filter(|s| s.accepted > 0)?;
        let (of, halves) = match s.accepted {
            1 => (String::new(), "its far half"),
            all => (
                format!("all {all} connections of that node: "),
                "far halves",
            ),
        };
        Some(format!(
            "{} ({of}{}up to {} at a time; {halves}: {}, {})",
            n.name,
            waited(&s),
            octets(s.most_held),
            number_of(s.far.retransmissions, "retransmission"),
            number_of(s.far.timeouts, "timeout")
        ))
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| {
        format!(
            "Its connection is split, and what is said of its sender is of the first half: {}",
            told.join(", ")
        )
    })
}

/// Two rows for each node that splits connections, one for each half; empty if there is none.
pub fn splits(outcome: &Outcome) -> String {
    let mut table = Table::new(&[
        "<node",
        "<half",
        ">taken",
        ">sent",
        ">accepted",
        ">joined",
        ">unopened",
        ">broken",
        ">forgotten",
        ">closed",
        ">open",
        ">most held",
        ">bytes on",
        ">segments",
        ">again",
        ">timeouts",
    ]);
    let count = |n: u64| match n {
        0 => String::new(),
        n => n.to_string(),
    };
    for node in &outcome.nodes {
        let Some(s) = node.split else { continue };
        let both = [
            s.taken,
            s.sent,
            s.accepted,
            s.joined,
            s.unopened,
            s.broken,
            s.forgotten,
            s.closed,
            s.open,
            s.most_held,
        ];
        for (name, half) in [("near", s.near), ("far", s.far)] {
            let far = name == "far";
            let mut row = [const { String::new() }; 16];
            row[0] = if far {
                String::new()
            } else {
                node.name.clone()
            };
            row[1] = name.to_owned();
            for (cell, n) in row[2..].iter_mut().zip(both).filter(|_| !far) {
                *cell = count(n);
            }
            let own = [
                half.bytes,
                half.segments,
                half.retransmissions,
                half.timeouts,
            ];
            for (cell, n) in row[12..].iter_mut().zip(own) {
                *cell = count(n);
            }
            table.row(row);
        }
    }
    if table.is_empty() {
        String::new()
    } else {
        table.text()
    }
}

fn counted(h: &HandlerOutcome) -> String {
    let some = h.counts.iter().filter(|(_, n)| **n > 0);
    let said: Vec<String> = some.map(|(name, n)| format!("{name} {n}")).collect();
    said.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_node::{HalfCounters, LaneCounters};

    #[test]
    fn what_was_not_counted_takes_no_place() {
        assert_eq!(table(&Outcome::default()), "");
        let mut snoop = HandlerOutcome {
            name: "snoop".into(),
            packets: 40,
            sent: 3,
            ..HandlerOutcome::default()
        };
        let shim = HandlerOutcome {
            name: "tpa-shim".into(),
            ..HandlerOutcome::default()
        };
        snoop.counts.insert("resent".into(), 3);
        snoop.counts.insert("timeouts".into(), 0);
        let base = NodeOutcome {
            name: "base".into(),
            handlers: vec![snoop, shim],
            lanes: Some(LaneCounters {
                opened: 2,
                full: 7,
                made: 5,
                ..LaneCounters::default()
            }),
            split: Some(SplitCounters {
                accepted: 3,
                far: HalfCounters {
                    retransmissions: 11,
                    ..HalfCounters::default()
                },
                ..SplitCounters::default()
            }),
            ..NodeOutcome::default()
        };
        let mut outcome = Outcome {
            nodes: vec![base],
            ..Outcome::default()
        };
        let said = own(&outcome).unwrap_or_default();
        assert!(
            said.starts_with("Lanes sent 5 packets") && said.ends_with("table (base 5)"),
            "{said}"
        );
        outcome.nodes[0].attempts = 9;
        let said = own(&outcome).unwrap_or_default();
        assert!(
            said.ends_with(", though among the attempts (base 5)"),
            "{said}"
        );
        outcome.nodes[0].attempts = 0;
        assert_eq!(own(&Outcome::default()), None);
        let text = table(&outcome);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert_eq!(idle(&outcome), ["tpa-shim"]);
        let row = text.lines().last().unwrap_or_default();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, ["(none)", "tpa-shim", "0"], "{text}");
        assert!(
            text.contains("snoop") && text.contains("resent 3"),
            "{text}"
        );
        assert!(
            !text.contains("dropped") && !text.contains("timeouts"),
            "{text}"
        );
        let text = lanes(&outcome);
        assert!(text.contains("full") && text.ends_with("7\n"), "{text}");
        assert!(!text.contains("copies"), "{text}");
        let mut flow = FlowOutcome {
            split_at: vec!["base".into()],
            ..FlowOutcome::default()
        };
        let said = split(&outcome, &flow).unwrap_or_default();
        assert!(
            said.contains("halves: 11 retransmissions, 0 timeouts)"),
            "{said}"
        );
        if let Some(split) = &mut outcome.nodes[0].split {
            (split.far.retransmissions, split.far.timeouts) = (1, 1);
        }
        let said = split(&outcome, &flow).unwrap_or_default();
        assert!(
            said.contains("halves: 1 retransmission, 1 timeout)"),
            "{said}"
        );
        flow.split_at.clear();
        assert_eq!(split(&outcome, &flow), None);
        if let Some(split) = &mut outcome.nodes[0].split {
            (split.far.retransmissions, split.far.timeouts) = (11, 0);
        }
        let text = splits(&outcome);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows[1..],
            [vec!["base", "near", "3"], vec!["far", "11"]],
            "{text}"
        );
    }
}

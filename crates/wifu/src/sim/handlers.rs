//! What the handlers and lanes of each node did.

use wifu_sim::outcome::{HandlerOutcome, Outcome};

use super::table::Table;

/// A row for each handler that was asked about a packet; empty if there is none.
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
    if table.is_empty() {
        String::new()
    } else {
        table.text()
    }
}

/// A row for each node whose lanes saw a packet; empty if there is none.
pub fn lanes(outcome: &Outcome) -> String {
    let mut table = Table::new(&[
        "<node",
        ">lanes",
        ">taken",
        ">sent",
        ">copies",
        ">made",
        ">unsent",
        ">returned",
        ">full",
        ">refused",
        ">no lane",
        ">strangers",
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
            count(l.copies),
            count(l.made),
            count(l.unsent),
            count(l.returned),
            count(l.full),
            count(l.refused),
            count(l.unlaned),
            count(l.strangers),
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

fn counted(h: &HandlerOutcome) -> String {
    let some = h.counts.iter().filter(|(_, n)| **n > 0);
    let said: Vec<String> = some.map(|(name, n)| format!("{name} {n}")).collect();
    said.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_node::LaneCounters;
    use wifu_sim::outcome::NodeOutcome;

    #[test]
    fn what_was_not_counted_takes_no_place() {
        assert_eq!(table(&Outcome::default()), "");
        let mut snoop = HandlerOutcome {
            name: "snoop".into(),
            packets: 40,
            sent: 3,
            ..HandlerOutcome::default()
        };
        snoop.counts.insert("resent".into(), 3);
        snoop.counts.insert("timeouts".into(), 0);
        let base = NodeOutcome {
            name: "base".into(),
            handlers: vec![snoop, HandlerOutcome::default()],
            lanes: Some(LaneCounters {
                opened: 2,
                full: 7,
                ..LaneCounters::default()
            }),
            ..NodeOutcome::default()
        };
        let outcome = Outcome {
            nodes: vec![base],
            ..Outcome::default()
        };
        let text = table(&outcome);
        assert_eq!(text.lines().count(), 2, "{text}");
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
    }
}

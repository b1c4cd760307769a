//! How each flow did, and all together.

use std::collections::BTreeSet;

use wifu_sim::outcome::{FlowOutcome, HopOutcome, Outcome};
use wifu_sim::why::percent;

use super::report::{Wants, millis, octets, rate};
use super::state::state;
use super::table::{Table, number_of};
use super::wanted;

/// Where all flows are on for less of the time, Jain's index says so.
const MOSTLY: f64 = 0.9;

/// Questions are more than this share of what was answered: to count answers alone is told.
const ASKED: f64 = 0.05;

/// A line for each flow, and what is to be said of all.
pub(super) fn flows(outcome: &Outcome, wants: &Wants) -> String {
    let rerouted = outcome.flows.iter().any(|f| rerouted(outcome, f));
    let mut table = Table::new(&[
        ">flow",
        "<",
        "<protocol",
        if rerouted {
            ">hops at the start"
        } else {
            ">hops"
        },
        ">delivered",
        ">in",
        ">goodput",
        ">RTT min",
        ">end",
        ">cwnd",
        ">retransmitted",
        ">again by nodes",
        ">timeouts",
        "<",
    ]);
    for f in &outcome.flows {
        let seconds = f.until_s - f.start_s;
        let tcp = f.protocol != "udp";
        let count = |n: u64| if tcp { n.to_string() } else { String::new() };
        // What no part of the protocol has is told apart from none.
        let lacks = || String::from(if tcp { "-" } else { "" });
        table.row([
            f.id.to_string(),
            format!("{} > {}", f.from, f.to),
            match wants.profiles.get(&f.protocol) {
                Some(profile) if !f.protocol.contains(&format!("profile={profile}")) => {
                    format!("{} ({profile})", f.protocol)
                }
                _ => f.protocol.clone(),
            },
            f.hops.to_string(),
            octets(f.bytes),
            format!("{:.3} s", seconds.max(0.0)),
            rate(f.goodput_bps),
            f.min_rtt_s.map_or(String::new(), millis),
            f.srtt_s.map_or(String::new(), millis),
            f.cwnd.map_or_else(lacks, octets),
            again(f),
            match f.packets.copies {
                0 => String::new(),
                n => n.to_string(),
            },
            f.timeouts.map_or_else(lacks, count),
            state(outcome, f),
        ]);
    }
    let asked: String = outcome.flows.iter().filter_map(asked).collect();
    table.text() + &asked + &timed(outcome) + &together(outcome, wants)
}

/// Segments that the sender sent again, and their share.
fn again(f: &FlowOutcome) -> String {
    match f.retransmissions {
        0 if f.protocol == "udp" => String::new(),
        n if n == 0 || f.data_segments == 0 => n.to_string(),
        n => {
            let share = percent(n as f64 / f.data_segments.max(1) as f64);
            format!("{n} ({share})")
        }
    }
}

/// Whose the numbers of a flow of questions and answers are, and what the other end sent.
fn asked(f: &FlowOutcome) -> Option<String> {
    let asked = f.asked.as_ref()?;
    let timeouts = match asked.timeouts {
        Some(n) => {
            let waited = asked.timeout_s.filter(|s| *s > 0.0);
            let waited =
                waited.map_or(String::new(), |s| format!(", for which it waited {s:.1} s"));
            format!(" and {}{waited}", number_of(n, "timeout"))
        }
        None => String::new(),
    };
    Some(format!(
        "flow {}: {} answers, and its row is of what that sent; {} asked with {}, {}{timeouts}\n",
        f.id,
        f.to,
        f.from,
        octets(asked.bytes),
        number_of(asked.retransmissions, "retransmission"),
    ))
}

/// What round-trip times are of where repairs are in them.
fn timed(outcome: &Outcome) -> String {
    let flows = outcome.flows.iter();
    let flows = flows.filter(|f| f.rtt_with_repairs && f.srtt_s.is_some());
    let names: BTreeSet<&str> = flows.map(|f| f.protocol.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    match &names[..] {
        [] => String::new(),
        names => format!(
            "RTT of {}: from when a packet left first, with what it waited to be repaired\n",
            names.join("; ")
        ),
    }
}

/// Whether packets of a flow took another way than the one that it had as it began.
fn rerouted(outcome: &Outcome, f: &FlowOutcome) -> bool {
    // What goes to all neighbours is on no route.
    let own = |h: &&HopOutcome| h.flow == f.id && !h.reverse && h.from != h.to;
    let hops: Vec<u32> = outcome.hops.iter().filter(own).map(|h| h.hop).collect();
    let each: BTreeSet<u32> = hops.iter().copied().collect();
    each.len() < hops.len() || hops.iter().any(|h| *h > f.hops)
}

/// What all flows got together, if there are several, and how evenly.
fn together(outcome: &Outcome, wants: &Wants) -> String {
    if outcome.flows.len() < 2 {
        return String::new();
    }
    let all = rate(outcome.goodput_bps());
    let Some(jain) = outcome.jain() else {
        return String::from("all flows: nobody got anything\n");
    };
    let datagrams = outcome.flows.iter().filter(|f| f.datagram.is_some());
    let datagrams = datagrams.count();
    let mixed = datagrams > 0 && datagrams < outcome.flows.len();
    let apart = apart(outcome, mixed);
    format!(
        "all flows: {all} from the first start to the last end, Jain's index {jain:.4}{apart}\n{}{}{}",
        answers(outcome),
        wanted::words(&wants.content),
        wants.step.unwrap_or_default()
    )
}

/// That what all got together lacks questions, where they are many.
fn answers(outcome: &Outcome) -> String {
    let asked = |f: &FlowOutcome| f.asked.as_ref().map_or(0, |a| a.bytes);
    let flows = outcome.flows.iter();
    let many = flows.filter(|f| asked(f) as f64 > ASKED * f.bytes as f64);
    let many: Vec<&FlowOutcome> = many.collect();
    if many.is_empty() {
        return String::new();
    }
    let numbers: Vec<u32> = many.iter().map(|f| f.id).collect();
    format!(
        "of {} both are of the answers alone ({}), without the questions ({})\n",
        wanted::numbered(&numbers),
        octets(many.iter().map(|f| f.bytes).sum()),
        octets(many.iter().map(|f| asked(f)).sum())
    )
}

/// What is to be said of what flows got that had unlike times; `mixed`: some are of datagrams.
fn apart(outcome: &Outcome, mixed: bool) -> String {
    let when = on_together(outcome.overlap(), together_for(outcome));
    let of = if mixed {
        "of all, datagrams included"
    } else {
        ""
    };
    match (of, &when[..]) {
        ("", "") => String::new(),
        ("", said) | (said, "") => format!(" ({said})"),
        (of, when) => format!(" ({of}; {when})"),
    }
}

/// What is to be said of flows that were on at different times: whether all were at any, and for
/// which share of the time from the first start to the last end.
pub(crate) fn on_together(overlap: bool, share: f64) -> String {
    match overlap {
        false => String::from("of flows that were not all on at the same time"),
        true if share < MOSTLY => {
            format!(
                "of flows that were all on for {} of that time",
                percent(share)
            )
        }
        true => String::new(),
    }
}

/// Of the time from the first flow's start to the last one's end, the share in which all were on.
fn together_for(outcome: &Outcome) -> f64 {
    let ends = |of: fn(&FlowOutcome) -> f64, more: fn(f64, f64) -> f64| {
        outcome.flows.iter().map(of).reduce(more).unwrap_or(0.0)
    };
    let all = ends(|f| f.until_s, f64::max) - ends(|f| f.start_s, f64::min);
    let both = ends(|f| f.until_s, f64::min) - ends(|f| f.start_s, f64::max);
    (both / all.max(1e-9)).max(0.0)
}

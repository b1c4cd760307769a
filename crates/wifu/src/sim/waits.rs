//! What senders waited for retransmission timeouts, and what attempts on their links failed by.

use std::collections::BTreeSet;

use wifu_sim::causes::Causes;
use wifu_sim::outcome::{FlowOutcome, HopOutcome, Outcome};
use wifu_sim::why::{Losses, percent, while_waiting};

use super::report::{index, whole_s};

/// From this share of its time on that a sender waited for timeouts, what failed meanwhile says
/// why it got so little.
const LEAST_WAITED: f64 = 0.1;

/// What attempts on the links of a flow failed by: while its sender waited for timeouts, where that
/// is much of its time, each wait by its length, for who starves makes few attempts; else mostly,
/// if that is not what those of the whole network, `all`, did.
pub(super) fn own_cause(
    outcome: &Outcome,
    f: &FlowOutcome,
    (causes, all): (&Causes, &Losses),
) -> Option<String> {
    let waits = f.timeout_s.unwrap_or(0.0) >= LEAST_WAITED * lasted_s(f);
    let stalled = causes.stalls.of(f.id).filter(|_| waits);
    if let Some(meanwhile) = stalled.and_then(while_waiting) {
        return Some(format!(
            "While flow {} waited, attempts on its links failed by: {meanwhile}",
            f.id
        ));
    }
    let hops = outcome.hops.iter().filter(|h| h.flow == f.id);
    let ends = |h: &HopOutcome| Some((index(outcome, &h.from)?, index(outcome, &h.to)?));
    let links: BTreeSet<(u16, u16)> = hops.filter_map(ends).collect();
    let links: Vec<(u16, u16)> = links.into_iter().collect();
    let own = Losses::of_links(causes, &links).unlike(all)?;
    Some(format!("On the links of flow {} mostly: {own}", f.id))
}

/// How long the sender of a flow waited for timeouts, if it did.
pub(super) fn words(f: &FlowOutcome) -> Option<String> {
    let waited = f.timeout_s.filter(|s| *s > 0.0)?;
    let count = f.timeouts?;
    // Of one that never opened there is no time to have a share of.
    let share = match f.limited_s.is_empty() {
        true => String::from(", before it opened,"),
        false => format!(", {} of its time,", percent(waited / lasted_s(f))),
    };
    let s = if count == 1 { "" } else { "s" };
    Some(format!(
        "It waited {waited:.1} s{share} for {count} retransmission timeout{s}"
    ))
}

/// The time of a flow with all that its first connection took to open, for whose SYNs it waited as
/// well, seconds.
fn lasted_s(f: &FlowOutcome) -> f64 {
    let took = f.connected_s.map_or(0.0, |at| at - f.start_s);
    whole_s(f).max(f.limited_s.values().sum::<f64>() + took)
}

//! What became of the packets of a flow that did not arrive.

use wifu_sim::outcome::{FlowOutcome, HopOutcome, Outcome};
use wifu_sim::why::percent;

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
    let copies = match p.copies {
        0 => String::new(),
        n => format!(", {n} of them copies that nodes sent"),
    };
    // What was under way at the end is neither lost nor delivered.
    let over = (p.sent + p.copies).saturating_sub(p.inside);
    (!lost.is_empty()).then(|| {
        let share = percent(p.lost() as f64 / over.max(1) as f64);
        let all = lost.join(", ");
        format!("Packets lost for good: {all}; of {over}{copies} ({share})")
    })
}

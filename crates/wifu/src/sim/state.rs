//! How a flow ended.

use wifu_sim::outcome::{FlowOutcome, Outcome};

/// Nothing delivered for this share of a flow's time, until the end, is standing still.
const LEAST_STANDING: f64 = 0.1;

/// Why a flow failed, if it did: not to be done when the run ends is no failure.
pub fn failure(outcome: &Outcome, f: &FlowOutcome) -> Option<String> {
    let heard = outcome.links.iter().any(|l| l.from == f.from);
    let heard = heard || outcome.wires.iter().any(|w| w.from == f.from);
    if f.corrupt > 0 {
        return Some(format!("{} bytes were WRONG", f.corrupt));
    }
    match &f.fault {
        Some(fault) => Some(match f.fault_s {
            Some(at) => format!("failed at {at:.3} s: {fault}"),
            None => format!("failed: {fault}"),
        }),
        None if f.bytes > 0 || unstarted(outcome, f) => None,
        None if f.hops == 0 => Some(String::from("no route")),
        None if !heard => Some(format!("nobody hears {}", f.from)),
        None => None,
    }
}

/// Whether the run ended before a flow's start.
fn unstarted(outcome: &Outcome, f: &FlowOutcome) -> bool {
    f.connections == 0 && f.bytes == 0 && f.sent_bytes == 0 && f.start_s >= outcome.sim_seconds
}

/// How a flow ended, if not as it should.
pub(super) fn state(outcome: &Outcome, f: &FlowOutcome) -> String {
    match failure(outcome, f) {
        Some(why) => why,
        None if unstarted(outcome, f) => String::from("not started"),
        None if f.hops == 0 => String::from("no route"),
        None if f.unserved > 0 => format!(
            "{} segments passed a relay that does not serve it, or tell of one{}",
            f.unserved,
            match &f.unserved_at[..] {
                [] => String::new(),
                names => format!(" ({})", names.join(", ")),
            }
        ),
        None if f.protocol != "udp" && f.connected_s.is_none() => String::from("never connected"),
        None if !f.finished && matches!(f.app.as_str(), "file" | "stream" | "trace") => {
            format!("unfinished{}", stood(outcome, f))
        }
        None => String::new(),
    }
}

/// Since when nothing of an unfinished flow was delivered, if that is long beside its time.
fn stood(outcome: &Outcome, f: &FlowOutcome) -> String {
    let Some(last) = f.last_byte_s else {
        return String::from(": nothing arrived");
    };
    let (silent, all) = (outcome.sim_seconds - last, outcome.sim_seconds - f.start_s);
    match silent >= LEAST_STANDING * all {
        true => format!(": nothing arrived after {last:.3} s"),
        false => String::new(),
    }
}

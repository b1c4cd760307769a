//! How a flow ended.

use wifu_sim::outcome::{FlowOutcome, Outcome};

/// Nothing delivered for this share of a flow's time, until the end, is standing still.
const LEAST_STANDING: f64 = 0.1;

/// Of a flow of datagrams as many as that must have been sent in this time, on the mean.
const LEAST_MISSED: f64 = 4.0;

/// Why a flow failed, if it did: not to be done when the run ends is no failure.
pub fn failure(outcome: &Outcome, f: &FlowOutcome) -> Option<String> {
    let heard = outcome.links.iter().any(|l| l.from == f.from);
    let heard = heard || outcome.wires.iter().any(|w| w.from == f.from);
    if f.corrupt > 0 {
        return Some(format!("{} bytes were WRONG", f.corrupt));
    }
    if let (Some(fault), Some(last)) = (&f.fault, f.requests_failed.last()) {
        let what = if f.app == "http" { "files" } else { "requests" };
        let (failed, all) = (f.requests_failed.len(), f.requests.len());
        let at = last.start_s + last.failed_s;
        return Some(format!(
            "{failed} of {} {what} failed, the last at {at:.3} s: {fault}",
            failed + all
        ));
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
        None if f.hops == 0 && f.bytes == 0 => String::from("no route"),
        None if f.unserved > 0 => format!(
            "{} segments passed a relay that does not serve it, or tell of one{}",
            f.unserved,
            match &f.unserved_at[..] {
                [] => String::new(),
                names => format!(" ({})", names.join(", ")),
            }
        ),
        None if f.protocol != "udp" && f.connected_s.is_none() => String::from("never connected"),
        None if f.finished => String::new(),
        None if matches!(f.app.as_str(), "file" | "stream" | "trace") => {
            match stood(f, (f.start_s, outcome.sim_seconds)) {
                Some(since) => format!("unfinished: {since}"),
                None => String::from("unfinished"),
            }
        }
        None => owed(f)
            .and_then(|since| stood(f, (since, f.until_s)))
            .unwrap_or_default(),
    }
}

/// From when on a flow without an end of its own, or one with pauses, had something to deliver, or
/// more; none if it had not when its time ended.
fn owed(f: &FlowOutcome) -> Option<f64> {
    match f.app.as_str() {
        "bulk" => Some(f.start_s),
        // It fell silent, or what it sent did not arrive: of datagrams nobody knows which.
        "onoff" => (f.protocol != "udp" && f.sent_bytes > f.bytes && waits(f)).then_some(f.start_s),
        _ => f.under_way_s,
    }
}

/// Since when nothing of an unfinished flow was delivered, if that is long beside its time. It had
/// something to deliver between these times.
fn stood(f: &FlowOutcome, (since, end): (f64, f64)) -> Option<String> {
    let Some(last) = f.last_byte_s else {
        return Some(String::from("nothing arrived"));
    };
    let (silent, all) = (end - last.max(since), end - f.start_s);
    // Where few are sent none comes for a while.
    let between = match f.datagram {
        Some(_) => LEAST_MISSED * all / f.packets.sent.max(1) as f64,
        None => 0.0,
    };
    (silent >= (LEAST_STANDING * all).max(between))
        .then(|| format!("nothing arrived after {last:.3} s"))
}

/// Whether a sender waited for timeouts for most of the time since anything arrived.
fn waits(f: &FlowOutcome) -> bool {
    let silent = f.until_s - f.last_byte_s.unwrap_or(f.start_s);
    f.timeout_s.is_some_and(|waited| waited > silent / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(app: &str, protocol: &str, last: Option<f64>) -> FlowOutcome {
        FlowOutcome {
            app: app.into(),
            protocol: protocol.into(),
            hops: 1,
            connections: 1,
            connected_s: Some(0.1),
            last_byte_s: last,
            until_s: 40.0,
            bytes: 1000,
            sent_bytes: 1000,
            ..FlowOutcome::default()
        }
    }

    fn said(f: &FlowOutcome) -> String {
        let outcome = Outcome {
            sim_seconds: 40.0,
            ..Outcome::default()
        };
        state(&outcome, f)
    }

    #[test]
    fn a_flow_without_an_end_says_since_when_it_stands() {
        let stands = "nothing arrived after 5.000 s";
        for protocol in ["udp", "tcp-reno"] {
            assert_eq!(said(&of("bulk", protocol, Some(5.0))), stands, "{protocol}");
            assert_eq!(said(&of("bulk", protocol, Some(38.0))), "", "{protocol}");
        }
        let done = FlowOutcome {
            finished: true,
            ..of("bulk", "udp", Some(5.0))
        };
        assert_eq!(said(&done), "");
        let file = of("file", "tcp-reno", Some(5.0));
        assert_eq!(said(&file), format!("unfinished: {stands}"));
    }

    #[test]
    fn a_pause_is_no_standing() {
        let under_way = |since| FlowOutcome {
            under_way_s: since,
            ..of("request", "tcp-reno", Some(5.0))
        };
        assert_eq!(said(&under_way(None)), "", "it pauses");
        assert_eq!(said(&under_way(Some(38.0))), "", "it paused until 38 s");
        assert_eq!(said(&under_way(Some(6.0))), "nothing arrived after 5.000 s");
        let mut spurts = of("onoff", "tcp-reno", Some(5.0));
        assert_eq!(said(&spurts), "", "all that it sent arrived");
        spurts.sent_bytes = 2000;
        assert_eq!(said(&spurts), "", "a spurt that just began");
        spurts.timeout_s = Some(30.0);
        assert_eq!(said(&spurts), "nothing arrived after 5.000 s");
        let mut slow = of("bulk", "udp", Some(35.0));
        (slow.datagram, slow.packets.sent) = (Some(1000), 8);
        assert_eq!(said(&slow), "", "one in 5 s");
        slow.packets.sent = 80;
        assert_eq!(said(&slow), "nothing arrived after 35.000 s");
    }
}

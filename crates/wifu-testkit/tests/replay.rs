//! Captures of a kernel's TCP: ours sends what it sent, where it is told the same.
//!
//! Linux 6.18 over emulated radios, 6 Mb/s at 5.6 dB with two attempts per frame, `wifu perf -C
//! kernel:reno`; `tools/capture_script.py` made the scripts of captures of the sender. What they
//! hold is said of each in docs/src/conformance.md.

use wifu_testkit::packetdrill::{Round, Script, Setup, Stack, agreement, replay};
use wifu_wire::Span;

/// Two ticks of the kernel's timers, and a little: it is late itself.
const TOLERANCE: Span = Span(9_000_000);

fn capture(name: &str) -> Script {
    let file = format!("{}/captures/{name}.pkt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).expect("a capture");
    text.parse().expect("a script")
}

fn replayed(name: &str, spec: Option<&str>, phase: u64) -> Vec<Round> {
    let capture = capture(name);
    let flags = spec.or(capture.setup.as_deref()).expect("a composition");
    let setup = Setup::parse(flags).expect("a composition");
    replay(&capture, &setup, Span::MILLI * phase).expect("a capture")
}

/// Where the kernel's ticks were when its SYN left is in no capture: a phase is known by its
/// timers.
const ALIKE: [(&str, u64, usize); 3] = [
    ("reno-three-hops", 29, 471),
    ("reno-three-hops-2", 18, 199),
    ("no-sack-two-hops", 0, 479),
];

#[test]
fn the_model_of_a_kernel_sends_what_the_kernel_sent() {
    for (name, phase, segments) in ALIKE {
        let rounds = replayed(name, None, phase);
        let all: usize = rounds.iter().map(|r| r.theirs.len()).sum();
        let parted = rounds.iter().find(|r| !r.agrees(TOLERANCE));
        assert_eq!(agreement(&rounds, TOLERANCE), all, "{name}: {parted:?}");
        assert_eq!(all, segments, "{name}");
        let again = rounds.iter().flat_map(|r| &r.theirs).map(|s| s.seq);
        let mut once = again.clone().collect::<Vec<_>>();
        once.sort_unstable();
        once.dedup();
        assert!(all - once.len() > 20, "{name}: most of it repairs nothing");
    }
}

/// A comparison that cannot fail would show nothing.
#[test]
fn another_sender_parts_from_it_soon() {
    for spec in [
        "tcp-newreno",
        "tcp-sack,profile=rfc-modern",
        "tcp-linux,profile=linux",
    ] {
        let rounds = replayed("reno-three-hops", Some(spec), 29);
        let alike = agreement(&rounds, TOLERANCE);
        assert!(alike < 100, "{spec}: {alike}");
    }
}

#[test]
fn what_is_no_capture_is_refused() {
    let setup = Setup::parse("tcp-linux,profile=linux").expect("a composition");
    assert!(Stack::new(setup.clone()).is_ok());
    for (text, wrong) in [
        ("0 < S 0:0(0) win 1 <mss 1460>", "does not begin with a SYN"),
        (
            "0 > S 0:0(0) <mss 1460>\n+1 < S. 0:0(0) ack 1 win 9 <mss 1460>",
            "no time",
        ),
        (
            "0 > S 0:0(0) <mss 1460>\n1 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3",
            "calls nothing",
        ),
    ] {
        let script: Script = text.parse().expect("a script");
        let problem = replay(&script, &setup, Span::ZERO).expect_err(text);
        assert!(problem.to_string().contains(wrong), "{problem}");
    }
}

//! What protocols cost: no allocation per packet once a connection runs.

use wifu_testkit::alloc::{Counting, allocations_in};
use wifu_testkit::lean::Lean;

#[global_allocator]
static COUNTING: Counting = Counting;

const PROTOCOLS: [&str; 19] = [
    "tcp-tahoe",
    "tcp-reno",
    "tcp-newreno",
    "tcp-sack",
    "tcp-cubic",
    "tcp-vegas",
    "tcp-dctcp",
    "tcp-bbr,rcv_wnd=65535",
    "tcp-delack",
    "tcp-few",
    "tcp-cwl",
    "tcp-clamp",
    "tcp-ap05,profile=ap05-wifu",
    "tcp-ap11",
    "ap-next",
    "atp,ds_first=2ms",
    "atp-adaptive,ds_first=2ms",
    "tp-alpha,ds_first=2ms",
    "tcp-sack,rcv_wnd=65535,dsack=on,prr=on,rack=on",
];

fn steady(spec: &str, lose_every: u64) -> (u64, Lean) {
    let mut lean = Lean::new(&wifu_parts::blueprint(spec).unwrap());
    lean.run(100);
    lean.lose_every = lose_every;
    if spec.starts_with("atp") {
        // Its table of what is on its way doubles until it holds what leaves in an epoch.
        lean.run(4_000);
    }
    let taken = allocations_in(|| lean.run(10_000));
    (taken, lean)
}

#[test]
fn ten_thousand_segments_allocate_nothing() {
    for spec in PROTOCOLS {
        let (taken, lean) = steady(spec, 0);
        assert_eq!(taken, 0, "{spec}");
        assert!(lean.read > 9_000 * 1_400, "{spec}: read {}", lean.read);
    }
}

#[test]
fn losses_and_their_repair_allocate_nothing() {
    for spec in PROTOCOLS {
        let (taken, lean) = steady(spec, 97);
        assert_eq!(taken, 0, "{spec}");
        assert!(lean.read > 4_000 * 1_400, "{spec}: read {}", lean.read);
    }
}

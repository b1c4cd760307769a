//! The published figures that timing and error models must meet, as the testbed sets combine them:
//! a wrong preamble, control rate or noise in a set shows here.

use wifu_radio::error::frame_error;
use wifu_radio::phy::{OVERHEAD, RTS, Standard};
use wifu_radio::plan::Plan;
use wifu_radio::sets;
use wifu_radio::topology::resolve;
use wifu_wire::{Rng, Span};

fn set(name: &str) -> Plan {
    let topology = sets::get(name).expect(name);
    resolve(&topology, &Rng::new(1)).expect(name)
}

/// Mb/s over one hop without loss and collision: `segments` of `payload` octets for each TCP ACK,
/// all in exchanges with the mean back-off.
fn goodput(plan: &Plan, payload: u32, headers: u32, segments: u64) -> f64 {
    let radio = &plan.nodes[0].radio;
    let cycle = |bytes| plan.phy.cycle(radio.rate, &radio.control_rates, bytes);
    let time = cycle(payload + headers) * segments + cycle(headers);
    f64::from(payload) * 8.0 * segments as f64 / (time.0 as f64 / 1e3)
}

fn near(found: f64, published: f64, slack: f64) {
    assert!(
        (found - published).abs() < slack,
        "{found}, not {published}"
    );
}

#[test]
fn an_exchange_at_24_and_6_mbps_takes_its_published_time() {
    for (name, data, ack, cycle) in [("TB-A", 536, 28, 681.5), ("TB-B", 2072, 44, 2233.5)] {
        let plan = set(name);
        let radio = &plan.nodes[0].radio;
        let mode = plan.phy.control(radio.rate, &radio.control_rates);
        let us = |s: Span| s.0 as f64 / 1e3;
        assert_eq!(
            us(plan.phy.airtime(radio.rate, 1500 + OVERHEAD)),
            f64::from(data)
        );
        assert_eq!(us(plan.phy.airtime(mode, 14)), f64::from(ack));
        assert_eq!(
            us(plan.phy.cycle(radio.rate, &radio.control_rates, 1500)),
            cycle
        );
    }
}

#[test]
fn tcp_over_one_hop_is_bounded_as_published() {
    // 802.11a with timestamps: an ACK for each segment, for every second.
    for (name, each, second) in [("TB-A", 13.18, 14.85), ("TB-B", 4.56, 4.85)] {
        near(goodput(&set(name), 1448, 52, 1), each, 0.006);
        near(goodput(&set(name), 1448, 52, 2), second, 0.006);
    }
    // 802.11b, short preamble, control frames at 2 Mb/s; then with timestamps on top.
    near(goodput(&set("TAP-16"), 1460, 40, 2), 5.64, 0.006);
    near(goodput(&set("TAP-16"), 1460, 40, 1), 4.85, 0.006);
    near(goodput(&set("TAP-16"), 1460, 52, 2), 5.60, 0.006);
    near(goodput(&set("TAP-16"), 1460, 52, 1), 4.81, 0.006);
    // Long preamble, control frames at 1 Mb/s.
    near(goodput(&set("NS2-CHAIN"), 1460, 40, 2), 4.78, 0.006);
    near(goodput(&set("NS2-CHAIN"), 1460, 40, 1), 4.02, 0.006);
}

#[test]
fn rts_and_cts_go_at_the_control_rate() {
    let plan = set("HX-9");
    let radio = &plan.nodes[0].radio;
    let mode = plan.phy.control(radio.rate, &radio.control_rates);
    // 22 + 160 bits at 24 Mb/s: two symbols; at the base rate eight.
    assert_eq!(plan.phy.airtime(mode, RTS), Span::MICRO * 28);
    assert_eq!(plan.phy.airtime(plan.phy.base(), RTS), Span::MICRO * 52);
    assert_eq!(plan.phy.standard, Standard::A);
}

#[test]
fn frames_two_hops_away_are_interference_that_kills_24_mbps_and_not_6() {
    let a = set("TB-A");
    let radio = &a.nodes[0].radio;
    // SIR over two hops of equal spacing is 9.03 dB, over three 14.3 dB.
    assert!(frame_error(&radio.error, radio.rate, 1536, 9.03) > 0.999);
    let b = set("TB-B");
    let radio = &b.nodes[0].radio;
    assert!(frame_error(&radio.error, radio.rate, 1536, 9.03) < 1e-6);
    assert!(frame_error(&radio.error, radio.rate, 1536, 14.3) < 1e-6);
}

//! What the radio model costs: packets over a chain of 6 hops at 24 Mb/s, ACKs of a transport's
//! size coming back. Prints nanoseconds and events per exchange.

use std::time::Instant;
use wifu_radio::phy::{Mode, Phy, Standard};
use wifu_radio::plan::{Gain, Plan, RadioConfig};
use wifu_radio::{Event, Frame, Radio};
use wifu_wire::{Rate, Rng, Span, Time};

fn chain(n: usize, snr: f64, sigma_db: f64) -> Plan {
    let phy = Phy::new(Standard::A, false);
    let rate = Mode::from_rate(Standard::A, Rate(24_000_000)).expect("a rate of 802.11a");
    let radio = RadioConfig {
        attempts: 2,
        ..RadioConfig::new(&phy, rate)
    };
    let db = move |d: usize| snr - 30.0 * (d as f64).log10();
    let row = |i: usize| (0..n).map(move |j| if i == j { f64::NAN } else { db(i.abs_diff(j)) });
    let snr: Vec<Vec<f64>> = (0..n).map(|i| row(i).collect()).collect();
    let mut plan = Plan::from_snr(phy, &radio, &snr);
    for (i, row) in plan.gains.iter_mut().enumerate() {
        for g in row {
            *g = Gain {
                sigma_db,
                tau: Span::from_secs_f64(0.5),
                rng: Rng::new(i as u64).split_n(u64::from(g.to)),
                ..g.clone()
            };
        }
    }
    plan
}

fn main() {
    let n = 7u16;
    let plan = chain(usize::from(n), 17.0, 2.0);
    let mut radio = Radio::new(&plan, &Rng::new(1));
    let mut now = Time::ZERO;
    let seconds = std::env::args()
        .nth(1)
        .and_then(|s| s.parse().ok())
        .unwrap_or(200);
    let end = Time::ZERO + Span::SECOND * seconds;
    let (mut sent, mut arrived, mut exchanges) = (0u64, 0u64, 0u64);
    // A window of 8 packets; every arrival makes an answer of 52 octets.
    for _ in 0..8 {
        radio.send(
            now,
            0,
            Frame {
                to: Some(1),
                bytes: 1500,
                cookie: 0,
            },
        );
        sent += 1;
    }
    let begun = Instant::now();
    while now < end {
        now = radio.poll_timeout();
        radio.handle_timeout(now);
        while let Some(event) = radio.poll_event() {
            match event {
                Event::Received { node, cookie, .. } => {
                    let onward = cookie == 0;
                    if onward && node == n - 1 {
                        arrived += 1;
                        radio.send(
                            now,
                            node,
                            Frame {
                                to: Some(node - 1),
                                bytes: 52,
                                cookie: 1,
                            },
                        );
                    } else if !onward && node == 0 {
                        radio.send(
                            now,
                            0,
                            Frame {
                                to: Some(1),
                                bytes: 1500,
                                cookie: 0,
                            },
                        );
                        sent += 1;
                    } else {
                        let to = if onward { node + 1 } else { node - 1 };
                        let bytes = if onward { 1500 } else { 52 };
                        radio.send(
                            now,
                            node,
                            Frame {
                                to: Some(to),
                                bytes,
                                cookie,
                            },
                        );
                    }
                }
                Event::Done { delivered, .. } => {
                    exchanges += 1;
                    if !delivered {
                        // The source begins again.
                        radio.send(
                            now,
                            0,
                            Frame {
                                to: Some(1),
                                bytes: 1500,
                                cookie: 0,
                            },
                        );
                        sent += 1;
                    }
                }
                _ => {}
            }
        }
    }
    let cpu = begun.elapsed();
    println!(
        "{sent} sent, {arrived} arrived, {:.0} simulated s per s, {:.0} ns per exchange ({:.0} exchanges per simulated s), hash {:016x}",
        (now - Time::ZERO).as_secs_f64() / cpu.as_secs_f64(),
        cpu.as_nanos() as f64 / exchanges as f64,
        exchanges as f64 / (now - Time::ZERO).as_secs_f64(),
        radio.trace_hash()
    );
}

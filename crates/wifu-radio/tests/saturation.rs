//! Saturation throughput against Bianchi's model (Behaviour 11.2).

mod common;

use common::*;
use wifu_radio::error::ErrorModel;
use wifu_radio::phy::{ACK, CTS, OVERHEAD, Phy, RTS, Standard};
use wifu_radio::plan::RadioConfig;

/// Goodput of IP octets over all stations, Mb/s: `n` senders and one receiver.
fn simulated(phy: &Phy, radio: &RadioConfig, n: usize, seconds: f64, seed: u64) -> f64 {
    let plan = cell(phy, radio, n + 1);
    let sources: Vec<Source> = (0..n).map(|i| saturate(i as u16, n as u16)).collect();
    let mut run = Run::new(&plan, seed, &sources);
    let (from, to) = (secs(0.5), secs(0.5 + seconds));
    run.until(to);
    let packets = run.received(n as u16, from, to);
    packets as f64 * 12_000.0 / seconds / 1e6
}

/// Bianchi's chance that a station transmits in a slot: window `w`, `m` doublings, `n` stations.
fn tau(n: usize, w: f64, m: i32) -> f64 {
    let (mut low, mut high) = (0.0f64, 1.0f64);
    for _ in 0..200 {
        let t = 0.5 * (low + high);
        let p = 1.0 - (1.0 - t).powi(n as i32 - 1);
        let sum: f64 = (0..m).map(|i| (2.0 * p).powi(i)).sum();
        let next = 2.0 / (1.0 + w + p * w * sum);
        if next > t { low = t } else { high = t }
    }
    0.5 * (low + high)
}

/// Goodput by the model, Mb/s; a collision costs what collides and EIFS.
fn bianchi(phy: &Phy, radio: &RadioConfig, n: usize, m: i32) -> f64 {
    let t = tau(n, f64::from(phy.cw_min) + 1.0, m);
    let idle = (1.0 - t).powi(n as i32);
    let one = n as f64 * t * (1.0 - t).powi(n as i32 - 1);
    let control = phy.control(radio.rate, &radio.control_rates);
    let (sifs, difs) = (phy.sifs.as_secs_f64(), phy.difs.as_secs_f64());
    let time = |mode, bytes| phy.airtime(mode, bytes).as_secs_f64();
    let mut success = time(radio.rate, 1500 + OVERHEAD) + sifs + time(control, ACK) + difs;
    let mut collision = time(radio.rate, 1500 + OVERHEAD) + phy.eifs().as_secs_f64();
    if radio.rts_threshold == 0 {
        success += time(control, RTS) + time(control, CTS) + 2.0 * sifs;
        collision = time(control, RTS) + phy.eifs().as_secs_f64();
    }
    let slot = phy.slot.as_secs_f64();
    let mean = idle * slot + one * success + (1.0 - idle - one) * collision;
    one * 12_000.0 / mean / 1e6
}

/// Repeats for ever, so that the window's stages are those of the model.
fn patient(phy: &Phy, standard: Standard, mbit: u64) -> RadioConfig {
    RadioConfig {
        attempts: 255,
        attempts_long: 255,
        intr_batch: 1,
        ..RadioConfig::new(phy, mode(standard, mbit))
    }
}

fn stages(phy: &Phy) -> i32 {
    (f64::from(phy.cw_max + 1) / f64::from(phy.cw_min + 1)).log2() as i32
}

fn agrees(phy: &Phy, radio: &RadioConfig, n: usize, m: i32, within: f64) {
    let found = simulated(phy, radio, n, 20.0, 7);
    let model = bianchi(phy, radio, n, m);
    let off = found / model - 1.0;
    println!("{n} stations: {found:.3} Mb/s, model {model:.3} ({off:+.4})");
    assert!(
        off.abs() < within,
        "{n} stations: {found:.3}, model {model:.3}: {off:+.4}"
    );
}

const CROWDS: [usize; 6] = [1, 2, 5, 10, 20, 50];

#[test]
fn throughput_of_802_11a_is_that_of_bianchis_model() {
    let phy = Phy::new(Standard::A, false);
    let radio = patient(&phy, Standard::A, 24);
    for n in CROWDS {
        agrees(&phy, &radio, n, stages(&phy), 0.02);
    }
}

#[test]
fn the_model_itself_gives_the_published_numbers() {
    let phy = Phy::new(Standard::A, false);
    let radio = patient(&phy, Standard::A, 24);
    let published = [(1, 17.61), (2, 17.41), (5, 16.03), (10, 14.76), (20, 13.50)];
    for (n, s) in published {
        assert!((bianchi(&phy, &radio, n, 6) - s).abs() < 0.01, "{n}");
    }
}

#[test]
fn with_rts_collisions_are_short() {
    let phy = Phy::new(Standard::A, false);
    let radio = RadioConfig {
        rts_threshold: 0,
        ..patient(&phy, Standard::A, 24)
    };
    for n in CROWDS {
        agrees(&phy, &radio, n, stages(&phy), 0.03);
    }
    // DSSS decodes one of two equally strong RTS; the model says that both are lost.
    let phy = Phy::new(Standard::B, false);
    let radio = RadioConfig {
        rts_threshold: 0,
        error: ErrorModel::Ideal { threshold_db: 3.0 },
        ..patient(&phy, Standard::B, 11)
    };
    for n in CROWDS {
        agrees(&phy, &radio, n, stages(&phy), 0.03);
    }
}

/// With the default error model one of two RTS that begin together is often decoded: 20 octets at
/// 2 Mb/s or less survive a noise as strong as they are, and the collision costs nothing.
#[test]
fn dsss_is_better_than_the_model_with_rts() {
    let phy = Phy::new(Standard::B, false);
    let radio = RadioConfig {
        rts_threshold: 0,
        ..patient(&phy, Standard::B, 11)
    };
    let published = [0.0, 0.013, 0.036, 0.056, 0.078, 0.110];
    for (n, published) in CROWDS.into_iter().zip(published) {
        let found = simulated(&phy, &radio, n, 20.0, 7);
        let off = found / bianchi(&phy, &radio, n, stages(&phy)) - 1.0;
        println!("{n} stations: {found:.3} Mb/s ({off:+.4})");
        assert!((off - published).abs() < 0.005, "{n}: {off:+.4}");
    }
}

#[test]
fn throughput_of_802_11b_is_that_of_bianchis_model() {
    let phy = Phy::new(Standard::B, false);
    let radio = patient(&phy, Standard::B, 11);
    for n in CROWDS {
        agrees(&phy, &radio, n, stages(&phy), 0.02);
    }
}

#[test]
fn with_one_attempt_the_window_stays_small() {
    let phy = Phy::new(Standard::A, false);
    let radio = RadioConfig {
        attempts: 1,
        ..patient(&phy, Standard::A, 24)
    };
    for (n, published) in [(2, 17.40), (5, 14.64), (10, 10.26)] {
        agrees(&phy, &radio, n, 0, 0.02);
        assert!((bianchi(&phy, &radio, n, 0) - published).abs() < 0.01);
    }
}

#[test]
fn a_back_off_that_stands_still_while_busy_favours_who_sent_last() {
    let phy = Phy::new(Standard::A, false);
    let radio = RadioConfig {
        legacy_backoff: true,
        ..patient(&phy, Standard::A, 24)
    };
    for n in CROWDS {
        agrees(&phy, &radio, n, stages(&phy), 0.03);
    }
}

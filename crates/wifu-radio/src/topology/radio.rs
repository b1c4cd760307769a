//! What `[channel]`, `[radio]` and a node's `radio` say, as numbers.

use wifu_wire::{Rate, Span};

use crate::error::ErrorModel;
use crate::geometry::Emission;
use crate::phy::{Mode, Phy, RTS_OFF, Standard};
use crate::plan::{RadioConfig, RateControl};

use super::error::TopologyError;
use super::law::range_thresholds;
use super::quantity::{BitRate, Limit};
use super::spec::*;
use super::values::{between, finite};

/// The node's own value of a key, else that of all nodes.
macro_rules! pick {
    ($own:ident, $common:ident, $key:ident) => {
        $own.$key.as_ref().or($common.$key.as_ref())
    };
}

/// Timing of the channel.
pub(crate) fn channel(spec: &ChannelSpec) -> Result<Phy, TopologyError> {
    let standard = match spec.standard.unwrap_or(StandardSpec::A) {
        StandardSpec::A => Standard::A,
        StandardSpec::B => Standard::B,
        StandardSpec::G => Standard::G,
    };
    let short = spec.preamble == Some(PreambleSpec::Short);
    let mut phy = Phy::new(standard, short);
    phy.slot = spec.slot.map_or(phy.slot, |s| s.0);
    phy.sifs = spec.sifs.map_or(phy.sifs, |s| s.0);
    phy.difs = spec.difs.map_or(phy.sifs + phy.slot * 2, |s| s.0);
    phy.cw_min = spec.cw_min.unwrap_or(phy.cw_min);
    phy.cw_max = spec.cw_max.unwrap_or(phy.cw_max);
    if phy.slot == Span::ZERO || phy.sifs == Span::ZERO {
        return Err(TopologyError::key(
            "channel.slot",
            "slot and SIFS must not be 0",
        ));
    }
    if phy.cw_max < phy.cw_min || phy.cw_max > 16_383 {
        let what = format!("must lie between cw_min ({}) and 16383", phy.cw_min);
        return Err(TopologyError::key("channel.cw_max", what));
    }
    Ok(phy)
}

/// A node's radio: its own keys, else those of `[radio]`, else the defaults.
pub(crate) fn configure(
    common: &RadioSpec,
    own: &RadioSpec,
    topology: &Topology,
    phy: &Phy,
    path: &str,
) -> Result<(RadioConfig, Emission), TopologyError> {
    numbers(own, path)?;
    numbers(common, "radio")?;
    let at = |key: &str| format!("{path}.{key}");
    let mode = |key: &str, rate: &BitRate| rate_mode(phy, rate, at(key));
    let rate = pick!(own, common, rate).map_or(Ok(phy.base()), |r| mode("rate", r))?;
    let mut c = RadioConfig::new(phy, rate);
    if let Some(rates) = pick!(own, common, control_rates) {
        let modes: Result<Vec<Mode>, _> = rates.iter().map(|r| mode("control_rates", r)).collect();
        c.control_rates = modes?;
        c.control_rates.sort();
        c.control_rates.dedup();
    }
    if let Some(r) = pick!(own, common, broadcast_rate) {
        c.broadcast_rate = mode("broadcast_rate", r)?;
    }
    if pick!(own, common, rate_control) == Some(&RateControlSpec::Minstrel) {
        c.rate_control = RateControl::Minstrel;
    }
    mac(&mut c, own, common, path)?;
    driver(&mut c, own, common, path)?;
    receiver(&mut c, own, common, path)?;
    thresholds(&mut c, own, common, topology, phy);
    reception(&mut c, own, common, topology);
    sensible(&c, own, path)?;
    let emission = Emission {
        power_dbm: *pick!(own, common, power_dbm).unwrap_or(&17.0),
        gain_db: pick!(own, common, gain_db).unwrap_or(&0.0)
            - pick!(own, common, attenuation_db).unwrap_or(&0.0),
    };
    Ok((c, emission))
}

fn rate_mode(phy: &Phy, rate: &BitRate, path: String) -> Result<Mode, TopologyError> {
    Mode::from_rate(phy.standard, rate.0).ok_or_else(|| {
        let names: Vec<&str> = phy.modes().iter().map(|m| m.name()).collect();
        let all = names.join(", ");
        let of = phy.standard.name();
        let what = format!("{} is none of the rates of {of}: {all}", rate.0);
        // A bare number is in b/s.
        let mega = rate.0.0.checked_mul(1_000_000).map(Rate);
        let meant = mega.and_then(|mega| Mode::from_rate(phy.standard, mega));
        let others = [Standard::A, Standard::B, Standard::G].into_iter();
        let mut others = others.filter(|s| Mode::from_rate(*s, rate.0).is_some());
        let hint = match (meant, others.next()) {
            (Some(mode), _) => format!("; write {}", mode.name()),
            (None, Some(s)) => format!("; of {} it is one (topology.channel.standard)", s.name()),
            (None, None) => String::new(),
        };
        TopologyError::key(path, what + &hint)
    })
}

/// Beyond +-60 dBm (1 kW, 1 nW) a transmitter's power is a mistake.
const MOST_DBM: f64 = 60.0;
/// Received signals are weaker than this, dBm: a threshold above it lacks its sign.
const MOST_RECEIVED_DBM: f64 = 0.0;
/// What antennas add.
const GAIN_DB: (f64, f64, &str) = (-60.0, 60.0, "dB");
/// What attenuators take away, to cut a link off among it.
const ATTENUATION_DB: (f64, f64, &str) = (-60.0, 300.0, "dB");
/// No receiver adds less noise than none.
const NOISE_FIGURE_DB: (f64, f64, &str) = (0.0, 60.0, "dB");
/// Thermal noise of 20 MHz is -101 dBm; ideal receivers have less.
const NOISE_DBM: (f64, f64, &str) = (-200.0, 0.0, "dBm");
/// By how much the stronger of two frames exceeds the other for it to be received.
const RATIO_DB: (f64, f64, &str) = (0.0, 100.0, "dB");
/// So far below its noise, dB, no receiver senses anything.
const BELOW_NOISE_DB: f64 = 10.0;

/// Every number is one, and a power is possible.
fn numbers(spec: &RadioSpec, path: &str) -> Result<(), TopologyError> {
    let values = [
        ("power_dbm", spec.power_dbm),
        ("gain_db", spec.gain_db),
        ("attenuation_db", spec.attenuation_db),
        ("noise_figure_db", spec.noise_figure_db),
        ("noise_dbm", spec.noise_dbm),
        ("cs_dbm", spec.cs_dbm),
        ("detect_dbm", spec.detect_dbm),
        ("lock_db", spec.lock_db),
        ("ideal_db", spec.ideal_db),
    ];
    for (key, value) in values {
        finite(&[(&format!("{path}.{key}"), value)])?;
    }
    let at = |limit: &Limit| match limit {
        Limit::At(dbm) => Some(*dbm),
        Limit::Off => None,
    };
    let thresholds = [
        ("cs_dbm", spec.cs_dbm),
        ("detect_dbm", spec.detect_dbm),
        ("energy_dbm", spec.energy_dbm.as_ref().and_then(at)),
        ("decode_dbm", spec.decode_dbm.as_ref().and_then(at)),
    ];
    for (key, value) in thresholds {
        if let Some(dbm) = value.filter(|dbm| *dbm > MOST_RECEIVED_DBM) {
            let what = format!(
                "{dbm} dBm: no radio receives so much; write -{dbm} for {dbm} dB below 1 mW"
            );
            return Err(TopologyError::key(format!("{path}.{key}"), what));
        }
    }
    let key = |key: &str, value| (format!("{path}.{key}"), value);
    between(GAIN_DB, &[key("gain_db", spec.gain_db)])?;
    between(
        ATTENUATION_DB,
        &[key("attenuation_db", spec.attenuation_db)],
    )?;
    between(
        NOISE_FIGURE_DB,
        &[key("noise_figure_db", spec.noise_figure_db)],
    )?;
    between(NOISE_DBM, &[key("noise_dbm", spec.noise_dbm)])?;
    for (name, limit) in [("capture_db", &spec.capture_db), ("mim_db", &spec.mim_db)] {
        between(RATIO_DB, &[key(name, limit.as_ref().and_then(at))])?;
    }
    match spec.power_dbm {
        Some(dbm) if dbm.abs() > MOST_DBM => {
            let what = format!(
                "{dbm} dBm: write a power between -{MOST_DBM} and {MOST_DBM} dBm; 20 dBm are 100 mW"
            );
            Err(TopologyError::key(format!("{path}.power_dbm"), what))
        }
        _ => Ok(()),
    }
}

/// Attempts, back-off and RTS.
fn mac(
    c: &mut RadioConfig,
    own: &RadioSpec,
    common: &RadioSpec,
    path: &str,
) -> Result<(), TopologyError> {
    c.attempts = *pick!(own, common, attempts).unwrap_or(&c.attempts);
    c.attempts_long = *pick!(own, common, attempts_long).unwrap_or(&c.attempts_long);
    for (key, attempts) in [("attempts", c.attempts), ("attempts_long", c.attempts_long)] {
        if attempts == 0 {
            let what = "must be from 1 to 255; 1: a frame is sent once";
            return Err(TopologyError::key(format!("{path}.{key}"), what));
        }
    }
    c.legacy_backoff = *pick!(own, common, legacy_backoff).unwrap_or(&c.legacy_backoff);
    c.reserve_undecoded = *pick!(own, common, reserve_undecoded).unwrap_or(&c.reserve_undecoded);
    c.rts_threshold = match pick!(own, common, rts_threshold) {
        None | Some(Limit::Off) => RTS_OFF,
        Some(Limit::At(n)) if *n < 0.0 => {
            let what = "must be a number of bytes (0: all frames), or \"off\"";
            return Err(TopologyError::key(format!("{path}.rts_threshold"), what));
        }
        Some(Limit::At(n)) => (*n as u32).min(RTS_OFF),
    };
    Ok(())
}

/// Queues, and interrupts by profile, then by their own keys.
fn driver(
    c: &mut RadioConfig,
    own: &RadioSpec,
    common: &RadioSpec,
    path: &str,
) -> Result<(), TopologyError> {
    let late = (Span(20_000), Span(80_000));
    // A node's own profile replaces the details that all nodes have.
    for spec in [common, own] {
        match spec.driver {
            Some(DriverSpec::Thesis) => (c.intr_batch, c.intr_latency) = (4, late),
            Some(DriverSpec::Code) => (c.intr_batch, c.intr_latency) = (1, late),
            Some(DriverSpec::Ideal) => {
                (c.intr_batch, c.intr_latency) = (1, (Span::ZERO, Span::ZERO));
            }
            None => {}
        }
        c.intr_batch = spec.intr_batch.unwrap_or(c.intr_batch);
        if let Some([least, most]) = spec.intr_latency {
            c.intr_latency = (least.0, most.0.max(least.0));
        }
    }
    c.queue = *pick!(own, common, queue).unwrap_or(&c.queue);
    c.ring = *pick!(own, common, ring).unwrap_or(&c.ring);
    for (key, value) in [
        ("queue", c.queue),
        ("ring", c.ring),
        ("intr_batch", c.intr_batch),
    ] {
        if value == 0 {
            return Err(TopologyError::key(format!("{path}.{key}"), "must not be 0"));
        }
    }
    Ok(())
}

/// What is received of what reaches the antenna.
fn receiver(
    c: &mut RadioConfig,
    own: &RadioSpec,
    common: &RadioSpec,
    path: &str,
) -> Result<(), TopologyError> {
    c.promiscuous = *pick!(own, common, promiscuous).unwrap_or(&c.promiscuous);
    c.overhear_loss = *pick!(own, common, overhear_loss).unwrap_or(&c.overhear_loss);
    if !(0.0..=1.0).contains(&c.overhear_loss) {
        let path = format!("{path}.overhear_loss");
        return Err(TopologyError::key(path, "must lie between 0 and 1"));
    }
    c.error = match pick!(own, common, error_model) {
        None | Some(ErrorModelSpec::Nist) => ErrorModel::Nist,
        Some(ErrorModelSpec::Yans) => ErrorModel::Yans,
        Some(ErrorModelSpec::Ideal) => ErrorModel::Ideal {
            threshold_db: *pick!(own, common, ideal_db).unwrap_or(&10.0),
        },
    };
    Ok(())
}

/// Noise, and what makes the medium busy and is detected.
fn thresholds(
    c: &mut RadioConfig,
    own: &RadioSpec,
    common: &RadioSpec,
    topology: &Topology,
    phy: &Phy,
) {
    let figure = own.noise_figure_db.or(common.noise_figure_db);
    let thermal = phy.noise_dbm(figure.unwrap_or(7.0));
    // A node's own noise figure says more than the noise that all nodes have.
    c.noise_dbm = match (own.noise_dbm, own.noise_figure_db) {
        (Some(dbm), _) => dbm,
        (None, Some(_)) => thermal,
        (None, None) => common.noise_dbm.unwrap_or(thermal),
    };
    let range = range_thresholds(&topology.propagation);
    let sensed = range.map_or(c.noise_dbm + 4.0, |(cs, _)| cs);
    c.cs_dbm = own.cs_dbm.or(common.cs_dbm).unwrap_or(sensed);
    // A node's own threshold for both says more than one that all nodes have.
    let common = match own.cs_dbm {
        Some(_) => (None, None),
        None => (common.detect_dbm, common.energy_dbm),
    };
    c.detect_dbm = own.detect_dbm.or(common.0);
    c.energy_dbm = own.energy_dbm.or(common.1).map(|limit| match limit {
        Limit::At(dbm) => dbm,
        Limit::Off => f64::INFINITY,
    });
}

/// What can be decoded at all, and lock and capture.
fn reception(c: &mut RadioConfig, own: &RadioSpec, common: &RadioSpec, topology: &Topology) {
    let range = range_thresholds(&topology.propagation);
    c.decode_dbm = match own.decode_dbm.or(common.decode_dbm) {
        Some(Limit::At(dbm)) => dbm,
        Some(Limit::Off) => f64::NEG_INFINITY,
        None => range.map_or(f64::NEG_INFINITY, |(_, decode)| decode),
    };
    c.lock_db = own.lock_db.or(common.lock_db).unwrap_or(c.lock_db);
    c.capture_db = match own.capture_db.or(common.capture_db) {
        Some(Limit::At(db)) => db,
        Some(Limit::Off) => f64::INFINITY,
        None => c.capture_db,
    };
    c.mim_db = match own.mim_db.or(common.mim_db) {
        Some(Limit::At(db)) => Some(db),
        Some(Limit::Off) => None,
        None => c.mim_db,
    };
}

/// A threshold that was asked for must not be lost in the noise.
fn sensible(c: &RadioConfig, own: &RadioSpec, path: &str) -> Result<(), TopologyError> {
    let noise = c.noise_dbm;
    let all = [
        ("cs_dbm", Some(c.cs_dbm), own.cs_dbm.is_some()),
        ("detect_dbm", c.detect_dbm, own.detect_dbm.is_some()),
        ("energy_dbm", c.energy_dbm, own.energy_dbm.is_some()),
    ];
    let lost = |dbm: Option<f64>| dbm.filter(|dbm| *dbm < noise - BELOW_NOISE_DB);
    let found = all
        .iter()
        .find_map(|(key, dbm, own)| Some((key, lost(*dbm)?, own)));
    let Some((key, cs, own)) = found else {
        return Ok(());
    };
    let at = if *own { path } else { "radio" };
    let what = format!(
        "{cs} dBm is more than {BELOW_NOISE_DB} dB below the noise of {noise:.1} dBm, where no \
         receiver senses anything; the default is 4 dB above the noise"
    );
    Err(TopologyError::key(format!("{at}.{key}"), what))
}

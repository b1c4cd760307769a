//! Values that no plan could use.

use super::chain::both;
use super::error::TopologyError;
use super::spec::Topology;

/// A greater signal to noise ratio of a link, dB, is a mistake: 20 dBm over thermal noise are 121.
pub const MOST_SNR_DB: f64 = 150.0;

/// Values outside the radios that no plan could use.
pub(super) fn check(t: &Topology) -> Result<(), TopologyError> {
    let p = &t.propagation;
    let anchor = p.anchor.as_ref();
    positive(&[
        ("propagation.exponent", p.exponent),
        ("propagation.antenna_m", p.antenna_m),
        ("propagation.decode_m", p.decode_m),
        ("propagation.sense_m", p.sense_m),
        ("propagation.floor_height_m", p.floor_height_m),
        ("propagation.cutoff_db", p.cutoff_db),
        (
            "propagation.anchor.distance_m",
            anchor.map(|a| a.distance_m),
        ),
        ("channel.frequency_mhz", t.channel.frequency_mhz),
    ])?;
    finite(&[
        ("propagation.reference_db", p.reference_db),
        ("propagation.floor_loss_db", p.floor_loss_db),
    ])?;
    ratios(&[("propagation.anchor.snr_db", anchor.map(|a| a.snr_db))])?;
    deviation("fading.sigma_db", t.fading.sigma_db)?;
    deviation("propagation.shadowing_db", p.shadowing_db)?;
    deviation("propagation.asymmetry_db", p.asymmetry_db)?;
    for (i, link) in t.link.iter().enumerate() {
        deviation(&format!("link[{i}].sigma_db"), link.sigma_db)?;
        ratios(&[
            (&format!("link[{i}].snr_db"), link.snr_db),
            (&format!("link[{i}].reverse_db"), link.reverse_db),
        ])?;
    }
    for (i, node) in t.node.iter().enumerate() {
        let axes = node.position.unwrap_or_default().map(Some);
        let path = format!("node[{i}].position");
        finite(&axes.map(|axis| (path.as_str(), axis)))?;
    }
    if let Some(place) = &t.placement {
        positive(&[
            ("placement.count", Some(place.count.into())),
            ("placement.spacing_m", place.spacing_m),
            ("placement.gap_m", place.gap_m),
            ("placement.area_m[0]", place.area_m.map(|a| a[0])),
            ("placement.area_m[1]", place.area_m.map(|a| a[1])),
        ])?;
    }
    tables(t)
}

/// Chains and matrices are complete.
fn tables(t: &Topology) -> Result<(), TopologyError> {
    for (i, hop) in t.chain.iter().flat_map(|c| c.snr_db.iter().enumerate()) {
        let (forward, reverse) = both(hop);
        let path = format!("chain.snr_db[{i}]");
        ratios(&[(&path, Some(forward)), (&path, Some(reverse))])?;
    }
    let Some(matrix) = &t.matrix else {
        return Ok(());
    };
    let n = matrix.snr_db.len();
    for (i, row) in matrix.snr_db.iter().enumerate() {
        if row.len() != n {
            let what = format!(
                "the matrix is not square: {} columns for {n} rows",
                row.len()
            );
            return Err(TopologyError::key(format!("matrix.snr_db[{i}]"), what));
        }
        // NaN: no link.
        for (j, snr) in row.iter().enumerate().filter(|(_, snr)| !snr.is_nan()) {
            most_snr(&format!("matrix.snr_db[{i}][{j}]"), *snr)?;
        }
    }
    Ok(())
}

/// Values that are greater than zero if given.
fn positive(values: &[(&str, Option<f64>)]) -> Result<(), TopologyError> {
    finite(values)?;
    match values.iter().find(|(_, v)| v.is_some_and(|v| v <= 0.0)) {
        Some((path, _)) => Err(TopologyError::key(*path, "must be greater than 0")),
        None => Ok(()),
    }
}

/// Values that are numbers if given.
pub(super) fn finite(values: &[(&str, Option<f64>)]) -> Result<(), TopologyError> {
    let wrong = |v: f64| !v.is_finite();
    match values.iter().find(|(_, v)| v.is_some_and(wrong)) {
        Some((path, _)) => Err(TopologyError::key(*path, "must be a finite number")),
        None => Ok(()),
    }
}

/// Signal to noise ratios, dB, that a link may have; however low, for there may be none.
fn ratios(values: &[(&str, Option<f64>)]) -> Result<(), TopologyError> {
    finite(values)?;
    let each = |(path, value): &(&str, Option<f64>)| value.map_or(Ok(()), |v| most_snr(path, v));
    values.iter().try_for_each(each)
}

fn most_snr(path: &str, snr_db: f64) -> Result<(), TopologyError> {
    if snr_db <= MOST_SNR_DB {
        return Ok(());
    }
    let what = format!("{snr_db} dB: no link has more than {MOST_SNR_DB} dB; 25 dB are a good one");
    Err(TopologyError::key(path, what))
}

/// Values that lie between these if given.
pub(super) fn between(
    (least, most, unit): (f64, f64, &str),
    values: &[(String, Option<f64>)],
) -> Result<(), TopologyError> {
    for (path, value) in values {
        if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
            let what = format!("{value} {unit}: must lie between {least} and {most} {unit}");
            return Err(TopologyError::key(path.as_str(), what));
        }
    }
    Ok(())
}

fn deviation(path: &str, value: Option<f64>) -> Result<(), TopologyError> {
    match value {
        Some(v) if !(0.0..=40.0).contains(&v) => {
            Err(TopologyError::key(path, "must lie between 0 and 40 dB"))
        }
        _ => Ok(()),
    }
}

//! Positions, powers and the law of path loss together: the mean power that a node receives.

use crate::propagation::{PathLoss, Shadowing, distance};

/// What a node sends with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Emission {
    /// Transmit power, dBm.
    pub power_dbm: f64,
    /// Antenna gain less attenuation, dB; acts on sending and on receiving.
    pub gain_db: f64,
}

/// The geometry of a resolved topology: kept in the plan, because nodes may move.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// How power falls with distance, before shadowing, floors and walls.
    pub law: PathLoss,
    /// What each node sends with.
    pub emissions: Vec<Emission>,
    /// Deviations of pairs.
    pub shadowing: Shadowing,
    /// Loss of one floor, dB, and the height of a storey, m.
    pub floors: (f64, f64),
}

impl Geometry {
    /// Power in dBm that `to` at `there` receives of what a source that is none of the nodes sends
    /// with `power_dbm`, antenna included, at `here`; minus infinity if nothing.
    pub fn from_outside(&self, power_dbm: f64, to: u16, here: &[f64; 3], there: &[f64; 3]) -> f64 {
        power_dbm + self.emissions[usize::from(to)].gain_db
            - self.law.loss_db(distance(here, there))
            - self.floors_db(here, there)
    }

    /// What the floors between two places take, dB.
    fn floors_db(&self, here: &[f64; 3], there: &[f64; 3]) -> f64 {
        let (floor_loss, height) = self.floors;
        let storey = |z: f64| (z / height).round();
        floor_loss * (storey(here[2]) - storey(there[2])).abs()
    }

    /// Mean power in dBm that `to` at `there` receives from `from` at `here`; minus infinity if
    /// nothing.
    pub fn mean_dbm(&self, from: u16, to: u16, here: &[f64; 3], there: &[f64; 3]) -> f64 {
        let sender = &self.emissions[usize::from(from)];
        let receiver = &self.emissions[usize::from(to)];
        sender.power_dbm + sender.gain_db + receiver.gain_db
            - self.law.loss_db(distance(here, there))
            - self.floors_db(here, there)
            + self.shadowing.of(from, to)
    }
}

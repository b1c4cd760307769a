//! What is changed about the links while an emulation runs: gains, cuts, silenced nodes, moves.

use std::collections::{BTreeMap, BTreeSet};
use wifu_radio::Radio;
use wifu_radio::plan::Plan;
use wifu_radio::topology::Geometry;

/// Below the noise by this much, nothing is received: as in resolving a topology.
const CUTOFF_DB: f64 = 20.0;

/// The links as they should be, from which follows what the radio is told.
pub struct Air {
    /// Mean received power of each direction, dBm.
    gains: BTreeMap<(u16, u16), f64>,
    noise: Vec<f64>,
    positions: Vec<Option<[f64; 3]>>,
    /// None if links do not follow from positions.
    geometry: Option<Geometry>,
    cut: BTreeSet<(u16, u16)>,
    paused: Vec<bool>,
    /// Switched off while its host restarts.
    off: Vec<bool>,
}

impl Air {
    /// As the plan says. `movable`: its links follow from its nodes' positions.
    pub fn new(plan: &Plan, movable: bool) -> Air {
        let rows = plan.gains.iter().enumerate();
        let gains = rows.flat_map(|(from, row)| {
            let from = from as u16;
            row.iter().map(move |g| ((from, g.to), g.mean_dbm))
        });
        Air {
            gains: gains.collect(),
            noise: plan.nodes.iter().map(|n| n.radio.noise_dbm).collect(),
            positions: plan.nodes.iter().map(|n| n.position).collect(),
            geometry: plan.geometry.clone().filter(|_| movable),
            cut: BTreeSet::new(),
            paused: vec![false; plan.nodes.len()],
            off: vec![false; plan.nodes.len()],
        }
    }

    /// Mean SNR of a direction as it acts now, dB; none if nothing is received.
    pub fn snr_db(&self, from: u16, to: u16) -> Option<f64> {
        let snr = self.acting(from, to)? - self.noise[usize::from(to)];
        (snr >= -CUTOFF_DB).then_some(snr)
    }

    /// Where a node is, if that is known.
    pub fn position(&self, node: u16) -> Option<[f64; 3]> {
        self.positions[usize::from(node)]
    }

    /// Whether a node neither sends nor hears.
    pub fn is_paused(&self, node: u16) -> bool {
        self.paused[usize::from(node)]
    }

    /// Whether the link between two nodes is cut.
    pub fn is_cut(&self, a: u16, b: u16) -> bool {
        self.cut.contains(&(a.min(b), a.max(b)))
    }

    /// Give a direction a mean SNR, dB.
    pub fn set_snr(&mut self, radio: &mut Radio, from: u16, to: u16, snr_db: f64) {
        let dbm = self.noise[usize::from(to)] + snr_db;
        self.gains.insert((from, to), dbm);
        self.apply(radio, from, to);
    }

    /// Give a direction a mean received power, dBm.
    pub fn set_gain(&mut self, radio: &mut Radio, from: u16, to: u16, dbm: f64) {
        self.gains.insert((from, to), dbm);
        self.apply(radio, from, to);
    }

    /// A node is there, metres; its links stay as they are.
    pub fn set_place(&mut self, node: u16, at: [f64; 3]) {
        self.positions[usize::from(node)] = Some(at);
    }

    /// Let nothing pass between two nodes, or let it pass again. Whether that is another state than
    /// before.
    pub fn set_cut(&mut self, radio: &mut Radio, a: u16, b: u16, cut: bool) -> bool {
        let pair = (a.min(b), a.max(b));
        let changed = match cut {
            true => self.cut.insert(pair),
            false => self.cut.remove(&pair),
        };
        self.apply(radio, a, b);
        self.apply(radio, b, a);
        changed
    }

    /// Undo all cuts; gives how many there were.
    pub fn restore_all(&mut self, radio: &mut Radio) -> usize {
        let all: Vec<_> = self.cut.iter().copied().collect();
        for (a, b) in &all {
            self.set_cut(radio, *a, *b, false);
        }
        all.len()
    }

    /// Make a node deaf and mute, or end that.
    pub fn set_paused(&mut self, radio: &mut Radio, node: u16, paused: bool) {
        self.paused[usize::from(node)] = paused;
        self.apply_all(radio, node);
    }

    /// Switch a node's radio off or on. A node that was paused stays so.
    pub fn set_off(&mut self, radio: &mut Radio, node: u16, off: bool) {
        self.off[usize::from(node)] = off;
        self.apply_all(radio, node);
    }

    fn apply_all(&self, radio: &mut Radio, node: u16) {
        for other in 0..self.paused.len() as u16 {
            self.apply(radio, node, other);
            self.apply(radio, other, node);
        }
    }

    /// Put a node elsewhere, metres.
    ///
    /// # Errors
    /// If links do not follow from positions here.
    pub fn set_position(
        &mut self,
        radio: &mut Radio,
        node: u16,
        to: [f64; 3],
    ) -> Result<(), &'static str> {
        let no_law = "the links of this topology are given as SNRs, not by positions: use `snr`";
        let Some(geometry) = &self.geometry else {
            return Err(no_law);
        };
        if self.positions[usize::from(node)].is_none() {
            return Err(no_law);
        }
        self.positions[usize::from(node)] = Some(to);
        let others = 0..self.positions.len() as u16;
        for other in others.filter(|o| *o != node) {
            let Some(there) = self.positions[usize::from(other)] else {
                continue;
            };
            for (from, at, via, end) in [(node, &to, other, &there), (other, &there, node, &to)] {
                let dbm = geometry.mean_dbm(from, via, at, end);
                let audible = dbm >= self.noise[usize::from(via)] - CUTOFF_DB;
                let dbm = if audible { dbm } else { f64::NEG_INFINITY };
                self.gains.insert((from, via), dbm);
            }
        }
        self.apply_all(radio, node);
        Ok(())
    }

    /// What is received over a direction, dBm; none if the plan has no such direction.
    fn acting(&self, from: u16, to: u16) -> Option<f64> {
        let dbm = *self.gains.get(&(from, to))?;
        let silent = |n: u16| self.is_paused(n) || self.off[usize::from(n)];
        let off = self.is_cut(from, to) || silent(from) || silent(to);
        Some(if off { f64::NEG_INFINITY } else { dbm })
    }

    fn apply(&self, radio: &mut Radio, from: u16, to: u16) {
        match self.acting(from, to) {
            Some(_) if self.is_cut(from, to) => radio.cut(from, to),
            Some(dbm) => radio.set_gain(from, to, dbm),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_radio::topology::{Topology, resolve};
    use wifu_wire::Rng;

    fn chain(words: &str) -> (Plan, Radio) {
        let topology = Topology::from_words(words, None).unwrap();
        let plan = resolve(&topology, &Rng::new(1)).unwrap();
        let radio = Radio::new(&plan, &Rng::new(1));
        (plan, radio)
    }

    #[test]
    fn cuts_and_pauses_add_up_and_are_undone() {
        let (plan, mut radio) = chain("linear,3");
        let mut air = Air::new(&plan, true);
        let before = air.snr_db(0, 1).unwrap();
        assert!((before - plan.snr_db(0, 1).unwrap()).abs() < 1e-9);
        assert!(!air.set_cut(&mut radio, 0, 1, false), "nothing was cut");
        assert!(air.set_cut(&mut radio, 1, 0, true));
        assert!(!air.set_cut(&mut radio, 0, 1, true), "it was already");
        assert_eq!((air.snr_db(0, 1), air.snr_db(1, 0)), (None, None));
        air.set_paused(&mut radio, 1, true);
        assert_eq!(air.snr_db(1, 2), None);
        assert_eq!(air.restore_all(&mut radio), 1);
        assert_eq!(air.snr_db(0, 1), None, "the node is still paused");
        air.set_off(&mut radio, 1, true);
        air.set_off(&mut radio, 1, false);
        assert_eq!(air.snr_db(0, 1), None, "a restart does not end the pause");
        air.set_off(&mut radio, 0, true);
        air.set_paused(&mut radio, 1, false);
        assert_eq!(air.snr_db(0, 1), None, "the other is off");
        air.set_off(&mut radio, 0, false);
        assert_eq!(air.snr_db(0, 1), Some(before));
        let told = radio.links(0).find(|l| l.0 == 1).unwrap().1;
        assert!((told - before).abs() < 1e-3, "{told} dB, not {before} dB");
    }

    #[test]
    fn a_node_that_moves_away_is_heard_less() {
        let (plan, mut radio) = chain("linear,3,spacing=20");
        let mut air = Air::new(&plan, true);
        let before = air.snr_db(0, 1).unwrap();
        let [x, y, z] = air.position(0).unwrap();
        air.set_position(&mut radio, 0, [x - 20.0, y, z]).unwrap();
        let now = air.snr_db(0, 1).unwrap();
        assert!(before - now > 6.0, "{before} dB, then {now} dB");
        air.set_position(&mut radio, 0, [x - 1e6, y, z]).unwrap();
        assert_eq!(air.snr_db(0, 1), None);
        let mut table = Air::new(&plan, false);
        assert!(table.set_position(&mut radio, 0, [0.0; 3]).is_err());
    }
}

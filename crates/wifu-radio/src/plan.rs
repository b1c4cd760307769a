//! What the radio machine runs on: a topology with every number resolved.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wifu_wire::{Rate, Rng, Span};

use crate::discipline::Discipline;
use crate::error::ErrorModel;
use crate::geometry::Geometry;
use crate::phy::{Mode, OVERHEAD, Phy, RTS_OFF, Standard};

/// A channel, its nodes and how they hear each other.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Timing of the channel.
    pub phy: Phy,
    /// The nodes; their index is their number everywhere.
    pub nodes: Vec<NodePlan>,
    /// `gains[from]`: who receives how much of a node's transmissions, sorted by `to`. Pairs whose
    /// mean lies more than 20 dB below the receiver's noise are absent.
    pub gains: Vec<Vec<Gain>>,
    /// Wires between nodes, each in both directions.
    pub wires: Vec<WirePlan>,
    /// Sources of power that are no 802.11.
    pub interferers: Vec<InterfererPlan>,
    /// What packets cost the hosts where they begin and end.
    pub host: HostProfile,
    /// How pairs vary over time that `gains` does not list: they may come near.
    pub variation: Variation,
    /// What mean powers follow from if nodes move; none if they were given by hand.
    pub geometry: Option<Geometry>,
    /// What resolving had to assume, for the user to read.
    pub notes: Vec<String>,
    /// Which reading of the testbed's numbers this is, of a set that has several.
    pub world: Option<String>,
    /// By name of a protocol, values of its parameters that hold here.
    pub transport: BTreeMap<String, BTreeMap<String, String>>,
}

impl Plan {
    /// A protocol with its parameters as it is here: `NAME,key=value`, with what the testbed says
    /// of `NAME` and the words do not.
    pub fn transport(&self, words: &str) -> String {
        transport(&self.transport, words)
    }
}

/// A protocol with its parameters as it is `here`, which names values of parameters by protocol: as
/// [`Plan::transport`], for those who have no plan.
pub fn transport(here: &BTreeMap<String, BTreeMap<String, String>>, words: &str) -> String {
    let name = words.split(',').next().unwrap_or_default().trim();
    let said = |key: &str| {
        let mut own = words.split(',').filter_map(|w| w.split_once('='));
        own.any(|(k, _)| k.trim().rsplit('.').next() == Some(key))
    };
    let more = here.get(name).into_iter().flatten();
    let more = more.filter(|(key, _)| !said(key));
    more.fold(words.to_string(), |all, (key, value)| {
        format!("{all},{key}={value}")
    })
}

/// One node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Unique in the plan.
    pub name: String,
    /// Metres; none if the topology gives SNRs only.
    pub position: Option<[f64; 3]>,
    /// The parameters of its radio.
    pub radio: RadioConfig,
    /// It has wires only: no radio hears it, and it hears none.
    pub wired_only: bool,
}

/// One direction of one pair of nodes.
#[derive(Clone, Debug)]
pub struct Gain {
    /// The receiver.
    pub to: u16,
    /// Mean received power, dBm.
    pub mean_dbm: f64,
    /// Standard deviation of the variation over time, dB; 0: none.
    pub sigma_db: f64,
    /// Time constant of the variation.
    pub tau: Span,
    /// The stream of the variation, this direction's own.
    pub rng: Rng,
}

/// The variation over time of pairs without a line of their own.
#[derive(Clone, Debug)]
pub struct Variation {
    /// Standard deviation, dB; 0: none.
    pub sigma_db: f64,
    /// Time constant.
    pub tau: Span,
    /// The stream from which each direction's is split.
    pub rng: Rng,
}

impl Default for Variation {
    fn default() -> Variation {
        Variation {
            sigma_db: 0.0,
            tau: Span::SECOND,
            rng: Rng::new(0),
        }
    }
}

impl Variation {
    /// A direction of this mean power that varies so. Its stream is that which it has had from the
    /// start if it was heard from the start.
    pub fn gain(&self, from: u16, to: u16, mean_dbm: f64) -> Gain {
        Gain {
            to,
            mean_dbm,
            sigma_db: self.sigma_db,
            tau: self.tau,
            rng: self.rng.split_n(from.into()).split_n(to.into()),
        }
    }
}

/// A wire between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct WirePlan {
    /// One end.
    pub a: u16,
    /// The other end.
    pub b: u16,
    /// Rate of each direction.
    pub rate: Rate,
    /// Propagation delay of each direction.
    pub delay: Span,
    /// Packets that wait in front of each direction.
    pub queue: u32,
    /// Octets that each packet costs beside its IP length.
    pub overhead: u32,
    /// Probability that a packet is lost, 0 to 1.
    pub loss: f64,
    /// A uniform time up to this is added to the delay; order is kept.
    pub variation: Span,
    /// Nodes that overhear what arrives over it, in both directions.
    pub overheard_by: Vec<u16>,
}

/// Names of what a packet costs the host where it begins or ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostProfile {
    /// Nothing.
    #[default]
    Off,
    /// What it takes a protocol stack in Python, one packet at a time: 1.2 ms to send, 0.6 ms to
    /// receive (ATP thesis).
    Py,
}

impl HostProfile {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            HostProfile::Off => "off",
            HostProfile::Py => "py",
        }
    }
}

/// A source of power that is no 802.11.
#[derive(Clone, Debug, PartialEq)]
pub struct InterfererPlan {
    /// For reports.
    pub name: String,
    /// Who receives how much of it, dBm, sorted by node.
    pub received: Vec<(u16, f64)>,
    /// When it is on first, since the beginning.
    pub start: Span,
    /// How long it is on at a time.
    pub on: Span,
    /// How long it is off between; zero: never.
    pub off: Span,
    /// Both are means of exponential times.
    pub random: bool,
    /// What is received follows from where it is.
    pub placed: bool,
}

/// How the mode of a unicast data frame is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RateControl {
    /// Always `rate`.
    #[default]
    Fixed,
    /// By the success of past frames, as Minstrel does; starts at `rate`.
    Minstrel,
}

/// The parameters of one node's radio, MAC and driver.
#[derive(Clone, Debug, PartialEq)]
pub struct RadioConfig {
    /// Mode of unicast data frames.
    pub rate: Mode,
    /// Whether `rate` is fixed.
    pub rate_control: RateControl,
    /// Modes for ACK, CTS and RTS, slowest first.
    pub control_rates: Vec<Mode>,
    /// Mode of broadcasts.
    pub broadcast_rate: Mode,
    /// Transmissions of a frame before it is dropped, the first included; without RTS.
    pub attempts: u8,
    /// The same for frames longer than `rts_threshold`.
    pub attempts_long: u8,
    /// Frames with a longer MPDU (octets) are announced by RTS; [`RTS_OFF`]: none.
    pub rts_threshold: u32,
    /// While the medium is busy the back-off stands still altogether (802.11-1999 9.2.5.2); else
    /// the slot in which it becomes busy counts (EDCA, 802.11-2012 9.19.2.5, and Bianchi's model).
    pub legacy_backoff: bool,
    /// A frame that is sensed and not decoded reserves the medium until its end and EIFS, as in
    /// ns-2: no RTS is answered meanwhile. Else EIFS is waited after those that were followed.
    pub reserve_undecoded: bool,
    /// Packets of the queueing discipline.
    pub queue: u32,
    /// What the queueing discipline does before it is full; `None`: nothing (drop-tail).
    pub discipline: Option<Discipline>,
    /// Buffers of the driver's transmit ring.
    pub ring: u32,
    /// An interrupt reports this many completed frames (or fewer when the ring runs empty).
    pub intr_batch: u32,
    /// Latency of an interrupt, uniform between the two.
    pub intr_latency: (Span, Span),
    /// Thermal noise and noise figure, dBm.
    pub noise_dbm: f64,
    /// Power at which the medium is busy and below which a frame never locks, dBm, where
    /// `energy_dbm` and `detect_dbm` do not say otherwise.
    pub cs_dbm: f64,
    /// Power of a frame below which its preamble is not detected: it never locks, dBm.
    pub detect_dbm: Option<f64>,
    /// Power of all that is on the air at which the medium is busy, whether or not a frame is
    /// followed, dBm; infinite: never for that.
    pub energy_dbm: Option<f64>,
    /// Power below which a frame that the receiver locked on cannot be decoded at any SINR, dBm;
    /// minus infinity: the error model alone decides.
    pub decode_dbm: f64,
    /// SINR during the preamble that a lock needs, dB.
    pub lock_db: f64,
    /// A frame this much stronger takes over during the preamble of the first, dB; infinite: never.
    pub capture_db: f64,
    /// A frame this much stronger takes over at any time, dB.
    pub mim_db: Option<f64>,
    /// Share of decoded frames for others that the capture path loses, 0 to 1.
    pub overhear_loss: f64,
    /// Report frames for others.
    pub promiscuous: bool,
    /// The receiver's error model.
    pub error: ErrorModel,
}

impl RadioConfig {
    /// The defaults on a channel: noise figure 7 dB, carrier sense at 4 dB over noise, 7 attempts
    /// (4 with RTS), no RTS, queue 1000, ring 200, an interrupt for 4 frames after 20 to 80 us,
    /// capture at 5 dB in the preamble and with OFDM at 10 dB any time.
    pub fn new(phy: &Phy, rate: Mode) -> RadioConfig {
        let noise_dbm = phy.noise_dbm(7.0);
        RadioConfig {
            rate,
            rate_control: RateControl::Fixed,
            control_rates: phy.default_control_rates(),
            broadcast_rate: phy.base(),
            attempts: 7,
            attempts_long: 4,
            rts_threshold: RTS_OFF,
            legacy_backoff: false,
            reserve_undecoded: false,
            queue: 1000,
            discipline: None,
            ring: 200,
            intr_batch: 4,
            intr_latency: (Span(20_000), Span(80_000)),
            noise_dbm,
            cs_dbm: noise_dbm + 4.0,
            detect_dbm: None,
            energy_dbm: None,
            decode_dbm: f64::NEG_INFINITY,
            lock_db: phy.lock_db(),
            capture_db: 5.0,
            mim_db: (phy.standard != Standard::B).then_some(10.0),
            overhear_loss: 0.0,
            promiscuous: true,
            error: ErrorModel::Nist,
        }
    }
}

impl RadioConfig {
    /// Whether a frame with an IP packet of so many octets for one receiver is announced by RTS.
    pub fn announces(&self, ip_bytes: u32) -> bool {
        ip_bytes + OVERHEAD > self.rts_threshold
    }

    /// Transmissions of such a frame before it is dropped, the first included: without RTS
    /// `attempts`, after it `attempts_long`.
    pub fn attempts_of(&self, ip_bytes: u32) -> u8 {
        let limit = if self.announces(ip_bytes) {
            self.attempts_long
        } else {
            self.attempts
        };
        limit.max(1)
    }

    /// Power from which on a preamble is detected, dBm.
    pub fn detects_dbm(&self) -> f64 {
        self.detect_dbm.unwrap_or(self.cs_dbm)
    }

    /// Power from which on what is on the air makes the medium busy, dBm.
    pub fn energy_dbm(&self) -> f64 {
        self.energy_dbm.unwrap_or(self.cs_dbm)
    }

    /// Power of a transmission from which on it makes the medium busy, be it followed or not, dBm.
    pub fn senses_dbm(&self) -> f64 {
        self.detects_dbm().min(self.energy_dbm())
    }
}

impl Default for RadioConfig {
    /// 802.11a at 6 Mb/s.
    fn default() -> RadioConfig {
        let phy = Phy::new(Standard::A, false);
        let rate = phy.base();
        RadioConfig::new(&phy, rate)
    }
}

impl Plan {
    /// Nodes `n1`, `n2`, ... with equal radios and constant links: `snr[from][to]` is the SNR in dB
    /// over the noise of `radio`, NaN where nothing is received.
    pub fn from_snr(phy: Phy, radio: &RadioConfig, snr: &[Vec<f64>]) -> Plan {
        let nodes = (1..=snr.len()).map(|i| NodePlan {
            name: format!("n{i}"),
            position: None,
            radio: radio.clone(),
            wired_only: false,
        });
        let gain = |(to, db): (usize, &f64)| Gain {
            to: to as u16,
            mean_dbm: radio.noise_dbm + db,
            sigma_db: 0.0,
            tau: Span::SECOND,
            rng: Rng::new(0),
        };
        let heard = |from: usize, row: &[f64]| -> Vec<Gain> {
            let pairs = row.iter().enumerate();
            pairs
                .filter(|(to, db)| *to != from && !db.is_nan())
                .map(gain)
                .collect()
        };
        Plan {
            phy,
            nodes: nodes.collect(),
            gains: snr.iter().enumerate().map(|(i, r)| heard(i, r)).collect(),
            wires: Vec::new(),
            interferers: Vec::new(),
            host: HostProfile::Off,
            variation: Variation::default(),
            geometry: None,
            notes: Vec::new(),
            world: None,
            transport: BTreeMap::new(),
        }
    }

    /// The direction from one node to another, if the receiver hears it at all.
    pub fn gain(&self, from: u16, to: u16) -> Option<&Gain> {
        let row = self.gains.get(usize::from(from))?;
        let at = row.binary_search_by_key(&to, |g| g.to).ok()?;
        row.get(at)
    }

    /// Mean SNR in dB of a direction; none if the receiver does not hear it at all.
    pub fn snr_db(&self, from: u16, to: u16) -> Option<f64> {
        let noise = self.nodes.get(usize::from(to))?.radio.noise_dbm;
        Some(self.gain(from, to)?.mean_dbm - noise)
    }

    /// The number of a node by its name, or by `n1`, `n2`, ... in order if no node is called so.
    pub fn index(&self, name: &str) -> Option<u16> {
        let by_name = self.nodes.iter().position(|n| n.name == name);
        let by_number = || {
            let number: usize = name.strip_prefix('n')?.parse().ok()?;
            (1..=self.nodes.len()).contains(&number).then(|| number - 1)
        };
        u16::try_from(by_name.or_else(by_number)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_of_snr_becomes_a_plan() {
        let nan = f64::NAN;
        let snr = [
            vec![nan, 20.0, nan],
            vec![19.0, nan, 21.0],
            vec![nan, 21.0, nan],
        ];
        let phy = Phy::new(Standard::A, false);
        let plan = Plan::from_snr(phy, &RadioConfig::default(), &snr);
        assert_eq!(plan.gains[1].len(), 2);
        assert!(plan.gain(0, 2).is_none());
        assert!((plan.snr_db(1, 0).unwrap() - 19.0).abs() < 1e-9);
        assert_eq!(plan.index("n3"), Some(2));
        assert!((plan.nodes[0].radio.cs_dbm + 90.0).abs() < 0.02);
    }
}

//! The tables of a topology file. What a file leaves out takes the default that is stated here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::plan::HostProfile;

use super::error::{TopologyError, complain};
use super::quantity::{BitRate, Limit, Seconds};

/// Everything that a topology file can say. What it leaves out has the defaults that the types of
/// the tables state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Topology {
    /// A name for reports.
    pub name: Option<String>,
    /// Where the numbers come from.
    pub source: Option<String>,
    /// The observable against which they were calibrated.
    pub observable: Option<String>,
    /// Which reading of the testbed's numbers this is, of a set that has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub world: Option<String>,
    /// By name of a protocol, values of its parameters that hold here. What a flow says itself
    /// goes before them; they go before its profile.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub transport: BTreeMap<String, BTreeMap<String, String>>,
    /// What all radios share.
    pub channel: ChannelSpec,
    /// What all hosts share.
    pub host: HostTable,
    /// Radio, MAC and driver of every node.
    pub radio: RadioSpec,
    /// How geometry becomes received power.
    pub propagation: PropagationSpec,
    /// Variation over time.
    pub fading: FadingSpec,
    /// Nodes that are generated.
    pub placement: Option<PlacementSpec>,
    /// SNRs of a chain's hops.
    pub chain: Option<ChainSpec>,
    /// SNRs of all pairs.
    pub matrix: Option<MatrixSpec>,
    /// Single pairs; they override every other source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<LinkSpec>,
    /// Nodes that are named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node: Vec<NodeSpec>,
    /// Links of cable between two nodes, `[[wire]]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wire: Vec<WireSpec>,
    /// Sources of power that are no 802.11.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interferer: Vec<InterfererSpec>,
    /// What had to be assumed so far, for the user to read.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// The file that it was read from, for messages.
    #[serde(skip)]
    pub origin: Option<String>,
}

/// Read a table as a topology; errors carry the key's path.
pub(crate) fn read(table: Table) -> Result<Topology, TopologyError> {
    serde_path_to_error::deserialize(Value::Table(table)).map_err(|e| {
        // `Topology::build` has taken these two.
        complain(
            &e.path().to_string(),
            e.inner().message(),
            &["words", "set"],
        )
    })
}

/// `[channel]`: what all radios share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChannelSpec {
    /// The clause of 802.11; 802.11a.
    pub standard: Option<StandardSpec>,
    /// PLCP preamble of 802.11b; long.
    pub preamble: Option<PreambleSpec>,
    /// Carrier, MHz; 5200, or 2437 with 802.11b and g.
    pub frequency_mhz: Option<f64>,
    /// Slot of the back-off; the standard's.
    pub slot: Option<Seconds>,
    /// SIFS; the standard's.
    pub sifs: Option<Seconds>,
    /// DIFS; SIFS + 2 slots.
    pub difs: Option<Seconds>,
    /// Smallest contention window, slots; the standard's.
    pub cw_min: Option<u16>,
    /// Largest contention window, slots; 1023.
    pub cw_max: Option<u16>,
}

/// `[host]`: what all hosts share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostTable {
    /// What a packet costs the host where it begins or ends; off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<HostProfile>,
}

/// Names of the standards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StandardSpec {
    /// OFDM at 5.2 GHz.
    #[serde(rename = "802.11a")]
    A,
    /// DSSS and CCK at 2.4 GHz.
    #[serde(rename = "802.11b")]
    B,
    /// OFDM at 2.4 GHz without 802.11b stations.
    #[serde(rename = "802.11g")]
    G,
}

/// Names of the preambles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PreambleSpec {
    /// 192 us with its header.
    Long,
    /// 96 us with its header; frames at 1 Mb/s keep the long one.
    Short,
}

/// `[radio]`, and `radio` of a node: radio, MAC and driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RadioSpec {
    /// Rate of unicast data frames; the slowest of the standard.
    pub rate: Option<BitRate>,
    /// `fixed`, or `minstrel`; fixed.
    pub rate_control: Option<RateControlSpec>,
    /// Rates for ACK, CTS and RTS; 6, 12, 24 Mb/s, or 1 and 2 Mb/s.
    pub control_rates: Option<Vec<BitRate>>,
    /// Rate of broadcasts; the slowest of the standard.
    pub broadcast_rate: Option<BitRate>,
    /// Transmissions of a frame, the first included, 1 to 255; 7.
    pub attempts: Option<u8>,
    /// The same for frames sent with RTS; 4.
    pub attempts_long: Option<u8>,
    /// MPDUs longer than this many octets are sent with RTS; off. 0: all.
    pub rts_threshold: Option<Limit>,
    /// While the medium is busy the back-off stands still altogether (802.11-1999 9.2.5.2); false:
    /// the slot in which it becomes busy counts (EDCA, and Bianchi's model).
    pub legacy_backoff: Option<bool>,
    /// Frames that are sensed and not decoded set the NAV until their end and EIFS, as in ns-2;
    /// false: EIFS is waited after those that were followed (802.11-2016, 10.3.2.3.7).
    pub reserve_undecoded: Option<bool>,
    /// Packets of the queueing discipline; 1000.
    pub queue: Option<u32>,
    /// Buffers of the driver's transmit ring; 200.
    pub ring: Option<u32>,
    /// A profile for `intr_batch` and `intr_latency`; thesis.
    pub driver: Option<DriverSpec>,
    /// Completed frames that one interrupt reports; by `driver`.
    pub intr_batch: Option<u32>,
    /// Least and greatest latency of an interrupt; by `driver`.
    pub intr_latency: Option<[Seconds; 2]>,
    /// Transmit power, dBm; 17. Acts where the geometry decides, and where a table of SNRs says
    /// for which power it holds.
    pub power_dbm: Option<f64>,
    /// Antenna gain, dB, added at both ends; 0. Acts where the geometry decides.
    pub gain_db: Option<f64>,
    /// Attenuator, dB, subtracted at both ends; 0. Acts where the geometry decides.
    pub attenuation_db: Option<f64>,
    /// Noise figure, dB; 7.
    pub noise_figure_db: Option<f64>,
    /// Noise in all, dBm; thermal noise and the noise figure.
    pub noise_dbm: Option<f64>,
    /// Power at which the medium is busy and a preamble is detected, dBm; noise + 4 dB.
    pub cs_dbm: Option<f64>,
    /// Power at which a preamble is detected, dBm; `cs_dbm`. Weaker frames are not followed.
    pub detect_dbm: Option<f64>,
    /// Power of all signals at which the medium is busy although no frame is followed, dBm;
    /// `cs_dbm`.
    pub energy_dbm: Option<Limit>,
    /// Power below which no frame can be decoded, dBm; off.
    pub decode_dbm: Option<Limit>,
    /// SINR that a receiver needs to lock, dB; 4 with OFDM, 0 with DSSS.
    pub lock_db: Option<f64>,
    /// A frame this much stronger takes over during the preamble, dB; 5.
    pub capture_db: Option<Limit>,
    /// A frame this much stronger takes over at any time, dB; 10 with OFDM, off with DSSS.
    pub mim_db: Option<Limit>,
    /// Share of decoded frames for others that are not seen, 0 to 1; 0.
    pub overhear_loss: Option<f64>,
    /// See frames for others; true.
    pub promiscuous: Option<bool>,
    /// `nist`, `yans` or `ideal`; nist.
    pub error_model: Option<ErrorModelSpec>,
    /// With `ideal`: the SINR at and above which everything arrives, dB; 10.
    pub ideal_db: Option<f64>,
}

/// Names of the rate controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RateControlSpec {
    /// Always `rate`.
    Fixed,
    /// By the success of past frames.
    Minstrel,
}

/// Names of the driver profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriverSpec {
    /// An interrupt for four frames, 20 to 80 us late.
    Thesis,
    /// An interrupt for each frame, 20 to 80 us late.
    Code,
    /// An interrupt for each frame, at once.
    Ideal,
}

/// Names of the error models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorModelSpec {
    /// Union bound over the whole distance spectrum.
    Nist,
    /// Its first terms.
    Yans,
    /// A step at `ideal_db`.
    Ideal,
}

/// `[propagation]`: how geometry becomes received power.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PropagationSpec {
    /// The law; log-distance.
    pub model: Option<PropagationModel>,
    /// Exponent of log-distance and range, and of the rule that fills a chain's table; 3.
    pub exponent: Option<f64>,
    /// Loss at 1 m, dB; 20 log10(MHz) - 28. Log-distance.
    pub reference_db: Option<f64>,
    /// The SNR at one distance, which fixes the loss at 1 m. Log-distance.
    pub anchor: Option<AnchorSpec>,
    /// Height of the antennas, m; 1.5. Two-ray.
    pub antenna_m: Option<f64>,
    /// Up to here frames can be decoded, m. Range.
    pub decode_m: Option<f64>,
    /// Up to here frames are sensed and interfere, m. Range.
    pub sense_m: Option<f64>,
    /// Deviation of a pair of nodes, both directions alike, dB; 0.
    pub shadowing_db: Option<f64>,
    /// Deviation of each direction, dB; 0.
    pub asymmetry_db: Option<f64>,
    /// Loss of one floor, dB; 0.
    pub floor_loss_db: Option<f64>,
    /// Height of a storey, m; 4.
    pub floor_height_m: Option<f64>,
    /// Receivers whose mean power lies this far below their noise are left out, dB; 20.
    pub cutoff_db: Option<f64>,
}

/// Names of the laws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PropagationModel {
    /// Loss at 1 m + 10 exponent log10(d).
    #[default]
    LogDistance,
    /// Friis.
    FreeSpace,
    /// Friis, then the fourth power of distance.
    TwoRay,
    /// Decodable up to one distance, sensed up to another, nothing beyond. Sets `cs_dbm` and
    /// `decode_dbm` of all radios to the powers at these distances.
    Range,
}

/// The mean SNR at one distance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnchorSpec {
    /// Mean SNR, dB.
    pub snr_db: f64,
    /// At this distance, m.
    pub distance_m: f64,
    /// The transmit power for which it holds, dBm; that of `[radio]`.
    #[serde(default)]
    pub power_dbm: Option<f64>,
    /// The noise over which it holds, dBm; that of `[radio]`.
    #[serde(default)]
    pub noise_dbm: Option<f64>,
}

/// `[fading]`: the variation of every link over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FadingSpec {
    /// Deviation, dB; 0: links are constant.
    pub sigma_db: Option<f64>,
    /// Time constant; 1 s.
    pub tau: Option<Seconds>,
}

/// One hop of a chain: both directions alike, or forward and reverse.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "must be an SNR in dB, or [forward, reverse]")]
pub enum Hop {
    /// Both directions, dB.
    Both(f64),
    /// Forward, reverse, dB.
    Each([f64; 2]),
}

/// `[chain]`: mean SNRs of a chain's hops. The SNR from node i to node j is the mean of the hops
/// between in that direction minus 10 exponent log10|i-j|.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainSpec {
    /// Mean SNR of each hop, dB.
    pub snr_db: Vec<Hop>,
    /// A longer chain repeats the table; else it continues with the table's mean, and says so.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub repeat: bool,
    /// The transmit power for which it holds, dBm; that of `[radio]`.
    #[serde(default)]
    pub power_dbm: Option<f64>,
    /// The noise over which it holds, dBm; that of `[radio]`.
    #[serde(default)]
    pub noise_dbm: Option<f64>,
}

/// `[matrix]`: mean SNR of every pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatrixSpec {
    /// `snr_db[from][to]`, dB; the diagonal is ignored. `nan`, or a very negative number where NaN
    /// cannot be written: nothing is received.
    pub snr_db: Vec<Vec<f64>>,
    /// The transmit power for which it holds, dBm; that of `[radio]`.
    #[serde(default)]
    pub power_dbm: Option<f64>,
    /// The noise over which it holds, dBm; that of `[radio]`.
    #[serde(default)]
    pub noise_dbm: Option<f64>,
}

/// `[[link]]`: one pair of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// Mean SNR from `from` to `to` over the receiver's noise, dB.
    #[serde(default)]
    pub snr_db: Option<f64>,
    /// Mean SNR from `to` to `from`, dB; that direction stays as it is if absent.
    #[serde(default)]
    pub reverse_db: Option<f64>,
    /// Deviation over time of both directions, dB; as `[fading]`.
    #[serde(default)]
    pub sigma_db: Option<f64>,
    /// Time constant of both directions; as `[fading]`.
    #[serde(default)]
    pub tau: Option<Seconds>,
    /// Nothing is received in either direction.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub off: bool,
}

/// `[placement]`: nodes that are generated, named n1, n2, ... unless `names` says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementSpec {
    /// The shape.
    pub kind: PlacementKind,
    /// Nodes in all; of each row with `rows`.
    pub count: u16,
    /// Rows of `grid` (each of `count`/`rows` nodes) and `rows`; 1.
    #[serde(default)]
    pub rows: Option<u16>,
    /// Distance of neighbours in a row, m; 10.
    #[serde(default)]
    pub spacing_m: Option<f64>,
    /// Distance of rows, m; `spacing_m`.
    #[serde(default)]
    pub gap_m: Option<f64>,
    /// Sides of the area of `uniform`, m.
    #[serde(default)]
    pub area_m: Option<[f64; 2]>,
    /// Storeys among which `uniform` deals the nodes equally; 1.
    #[serde(default)]
    pub floors: Option<u16>,
    /// Two nodes are never nearer, m; 0.
    #[serde(default)]
    pub min_distance_m: Option<f64>,
    /// What a random placement must satisfy, or it is drawn again.
    #[serde(default)]
    pub accept: Option<AcceptSpec>,
    /// Names in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// Shapes of placements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlacementKind {
    /// One row along x.
    Line,
    /// Rows at equal spacing.
    Grid,
    /// Parallel rows, `gap_m` apart.
    Rows,
    /// Independent and uniform over the area.
    Uniform,
}

/// When a random placement is taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AcceptSpec {
    /// Every node reaches every other over links whose ETX is below this.
    pub connected_etx: Option<f64>,
    /// The longest of the routes of least ETX has this many hops, and every node reaches every
    /// other.
    pub longest_route: Option<u16>,
    /// Draws before giving up; 100000.
    pub max_draws: Option<u32>,
}

/// `[[node]]`: a node that is named, or more about one that `[placement]` generates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Unique.
    pub name: String,
    /// Metres: x, y, z.
    #[serde(default)]
    pub position: Option<[f64; 3]>,
    /// What differs from `[radio]`.
    #[serde(default)]
    pub radio: RadioSpec,
    /// It has wires only: no radio hears it, and it hears none.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub wired_only: bool,
}

/// `[[interferer]]`: a source of power in the channel that is no 802.11.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InterfererSpec {
    /// For reports; i1, i2, ...
    pub name: Option<String>,
    /// Metres: x, y, z. Powers follow from it by the law of `[propagation]`, without shadowing and
    /// fading.
    pub position: Option<[f64; 3]>,
    /// What it sends with into the channel, antenna included, dBm; 17. For `position`.
    pub power_dbm: Option<f64>,
    /// What nodes receive of it, dBm, by name; of the others `position` decides, or nothing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub received_dbm: BTreeMap<String, f64>,
    /// Share of the time that it is on, above 0, up to 1; 1: always.
    pub duty: Option<f64>,
    /// On and off together; with a `duty` below 1.
    pub period: Option<Seconds>,
    /// Times on and off are exponential, with the means that `duty` and `period` say; false: they
    /// are exact.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub random: bool,
    /// When it is on first; 0.
    pub start: Option<Seconds>,
}

/// `[[wire]]`: a full-duplex wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireSpec {
    /// One end.
    pub a: String,
    /// The other.
    pub b: String,
    /// Rate of each direction.
    pub rate: BitRate,
    /// Propagation delay; 0.
    #[serde(default)]
    pub delay: Option<Seconds>,
    /// Packets that wait in front of each direction; 1000.
    #[serde(default)]
    pub queue: Option<u32>,
    /// Octets that each packet costs beside its IP length; 38: Ethernet's header, FCS, preamble
    /// and gap.
    #[serde(default)]
    pub overhead: Option<u32>,
    /// Probability that a packet is lost, each direction, 0 to 1; 0.
    #[serde(default)]
    pub loss: Option<f64>,
    /// A uniform time up to this is added to the delay of each packet, order kept; 0.
    #[serde(default)]
    pub variation: Option<Seconds>,
    /// Nodes that overhear what arrives over it, in both directions; none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overheard_by: Vec<String>,
}

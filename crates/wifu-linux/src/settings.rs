//! How a daemon runs, and why it does not.

use crate::faults::FaultConfig;
use crate::front::FrontConfig;
pub use crate::kind::Kind;
use crate::poller::Coalesce;
use crate::raw::KeepOff;
use crate::steps::StepError;
use crate::tun::TunConfig;
use core::str::FromStr;
use std::io;
use std::path::PathBuf;
use wifu_engine::{ConfigError, EndpointConfig};
use wifu_node::{HostCost, Registry, Scheduler};

/// One way to other hosts, and how it is opened.
#[derive(Clone, Debug)]
pub enum CarrierConfig {
    /// Raw sockets, one per protocol number of the library.
    Raw {
        /// Longest IP packet, octets.
        mtu: usize,
        /// Past the kernel's IP layer: neighbours by link address, a receive ring.
        direct: bool,
        /// How the kernel is kept from forwarding what is served.
        keep_off: KeepOff,
    },
    /// A TUN device: TCP proper, which any kernel understands.
    Tun(TunConfig),
    /// A UDP socket, for the protocols of the library.
    Udp {
        /// Longest IP packet on the wire, octets.
        mtu: usize,
        /// The port of both ends.
        port: u16,
        /// The kernel may cut and join datagrams.
        offload: bool,
        /// The composition with TCP's header whose datagrams say 0 for its number (Behaviour 8.1).
        tcp: Option<String>,
    },
}

impl CarrierConfig {
    /// What kind of carrier it is.
    pub fn kind(&self) -> Kind {
        match self {
            CarrierConfig::Raw { .. } => Kind::Raw,
            CarrierConfig::Tun(_) => Kind::Tun,
            CarrierConfig::Udp { .. } => Kind::Udp,
        }
    }
}

/// How a daemon runs.
#[derive(Clone)]
pub struct DaemonConfig {
    /// Carriers, at least one.
    pub carriers: Vec<CarrierConfig>,
    /// Socket, permissions and memory of the application side.
    pub front: FrontConfig,
    /// Where every segment is written as pcapng, sent and received; none: no capture.
    pub pcap: Option<PathBuf>,
    /// Pause to let packets gather when busy.
    pub coalesce: Coalesce,
    /// What shall go wrong with packets that leave: test equipment.
    pub faults: Option<FaultConfig>,
    /// What shall go wrong with packets that come.
    pub faults_in: Option<FaultConfig>,
    /// Limits of the endpoint; `mtu` is that of the carriers.
    pub endpoint: EndpointConfig,
    /// What can be named.
    pub registry: Registry,
    /// Compositions whose hop halves run here, for this host's connections and for those that it
    /// relays.
    pub serve: Vec<String>,
    /// UDP ports by which nodes tell packets that are datagrams of UDP by their own format; none:
    /// those of the formats.
    pub service_ports: Vec<u16>,
    /// How the lanes of what is served share the links of this host; none: by deficit round robin.
    pub lanes: Option<Scheduler>,
    /// Interfaces, by name, from which packets of what is served are taken, on which those for
    /// all who hear leave, and whose drivers tell facts; packets go on by the kernel's routes.
    /// None: all Ethernet interfaces with addresses.
    pub devices: Vec<String>,
    /// Where served compositions have facts from that the kernel's routes and neighbours do not
    /// tell.
    pub facts: FactsConfig,
    /// What packets of this host's connections cost it beside what they take anyhow.
    pub host: Option<HostWork>,
}

/// What packets of a host's connections cost it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostWork {
    /// By the clock of the network.
    pub cost: HostCost,
    /// How many times slower that passes than the clock on the wall, above 0.
    pub slower: f64,
}

/// Who tells the compositions that a daemon serves more than the kernel's routes and neighbours do.
#[derive(Clone, Debug, Default)]
pub struct FactsConfig {
    /// A monitor interface beside the radio, by name: it shows what is overheard, with what signal
    /// and rate frames came, and what became of those that left.
    pub monitor: Option<String>,
    /// Interfaces, by name, that hear frames for other stations, without signal and rate.
    pub overhear: Vec<String>,
    /// Where drivers' delays are. A device of which none is named is looked for where `wifu delay`
    /// writes unless told otherwise.
    pub delays: Vec<DelayDir>,
}

/// A directory with the files in which a driver tells its delay (Behaviour 7.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayDir {
    /// Of which device, by name; none: of every device that has no other.
    pub device: Option<String>,
    /// Where `Da` and `sample` are.
    pub dir: PathBuf,
}

impl FromStr for DelayDir {
    type Err = String;

    fn from_str(text: &str) -> Result<DelayDir, String> {
        let (device, dir) = match text.split_once('=') {
            Some((device, dir)) if !device.contains('/') => (Some(device.to_owned()), dir),
            _ => (None, text),
        };
        if dir.is_empty() || device.as_deref() == Some("") {
            return Err(String::from(
                "write DIR or DEVICE=DIR, such as wlan0=/run/wifu/delay/wlan0",
            ));
        }
        let dir = PathBuf::from(dir);
        Ok(DelayDir { device, dir })
    }
}

/// Why a daemon did not start or ended. What the system said is the source, and not repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// A carrier could not be opened.
    #[error("carrier {carrier}")]
    Carrier {
        /// Kind of the carrier, as `--carrier` names it.
        carrier: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A TUN device could not be set up.
    #[error("carrier tun")]
    Tun(#[from] StepError),
    /// The capture file could not be created.
    #[error("capture {path}")]
    Capture {
        /// The file that was asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A composition of the library is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// What is to be served cannot act here, or not together.
    #[error("{0}")]
    Serve(String),
    /// The event loop or the application side failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

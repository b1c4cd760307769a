//! How carriers are opened, and which one a protocol number has.

use super::{ERRORS, ERRORS_V6};
use crate::carrier::Carrier;
use crate::doubles::Doubles;
use crate::kind::Kind;
use crate::names::{TCP, numbers};
use crate::poller::{Interest, Poller};
use crate::raw::{RawConfig, check_number};
use crate::settings::{CarrierConfig, DaemonConfig, DaemonError};
use crate::udp::UdpConfig;
use crate::unreachable::Ear;
use std::io;
use wifu_core::ip::UDP;

/// Numbers for what `udp` carries beside `raw`, if that is asked for.
pub(super) fn doubles(
    config: &DaemonConfig,
    carried: &[u8],
) -> Result<Option<Doubles>, DaemonError> {
    let has = |kind| config.carriers.iter().any(|c| c.kind() == kind);
    if !(has(Kind::Raw) && has(Kind::Udp)) {
        return Ok(None);
    }
    let library = config.registry.library();
    let all = library
        .protocols()
        .iter()
        .filter_map(|p| library.expand(p).ok());
    let used: Vec<u8> = all
        .map(|c| c.number)
        .chain(carried.iter().copied())
        .collect();
    let free = |n: u8| check_number(n).is_ok() && !used.contains(&n);
    let doubles = Doubles::new(&numbers(library), free).ok_or_else(|| {
        let text = "too many protocol numbers for raw and udp at once: choose one";
        DaemonError::Carrier {
            carrier: Kind::Udp.name(),
            source: io::Error::new(io::ErrorKind::InvalidInput, text),
        }
    })?;
    Ok(Some(doubles))
}

/// The number of the composition with TCP's header whose datagrams are to say 0, if there is one.
pub(super) fn bare(config: &DaemonConfig) -> Result<Option<u8>, DaemonError> {
    let named = |c: &CarrierConfig| match c {
        CarrierConfig::Udp { tcp, .. } => tcp.clone(),
        CarrierConfig::Raw { .. } | CarrierConfig::Tun(_) => None,
    };
    let Some(name) = config.carriers.iter().find_map(named) else {
        return Ok(None);
    };
    let protocol = config.registry.resolve(&name)?;
    if protocol.ends.wire.name() == "tcp" && !protocol.has_hops() {
        return Ok(Some(protocol.ends.number));
    }
    let text = format!("{name} is not TCP between its ends alone, such as tcp-tahoe");
    Err(DaemonError::Carrier {
        carrier: Kind::Udp.name(),
        source: io::Error::new(io::ErrorKind::InvalidInput, text),
    })
}

/// The carrier of each protocol number: TCP proper goes by a TUN device, if there is one, doubles
/// by `udp`, and all others by what is left.
pub(super) fn ways(carriers: &[Carrier], doubles: Option<&Doubles>) -> [u8; 256] {
    let of = |kind| carriers.iter().position(|c| c.kind() == kind);
    let (raw, tun, udp) = (of(Kind::Raw), of(Kind::Tun), of(Kind::Udp));
    let way = |number: u8| match number {
        TCP => tun,
        UDP => udp,
        _ if doubles.is_some_and(|d| d.proper(number).is_some()) => udp,
        _ => raw.or(udp),
    };
    core::array::from_fn(|number| way(number as u8).unwrap_or(0) as u8)
}

/// A socket for ICMP, where any carrier may need it. A daemon without rights has none, and learns
/// by its timers alone; a TUN device brings such messages itself.
pub(super) fn ear(config: &DaemonConfig, poller: &Poller) -> io::Result<Option<Ear>> {
    if config.carriers.iter().all(|c| c.kind() == Kind::Tun) {
        return Ok(None);
    }
    let ear = match Ear::open() {
        Ok(ear) => ear,
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(e) => return Err(e),
    };
    let (four, six) = ear.descriptors();
    poller.add(four, ERRORS, Interest::READ)?;
    if let Some(six) = six {
        poller.add(six, ERRORS_V6, Interest::READ)?;
    }
    Ok(Some(ear))
}

pub(super) fn open_carrier(
    config: &CarrierConfig,
    numbers: &[u8],
    (relayed, guarded, services): (&[u8], &[u8], &[u16]),
    (devices, v6): (&[String], bool),
    (doubles, tcp): (Option<&Doubles>, Option<u8>),
) -> Result<Carrier, DaemonError> {
    match config {
        CarrierConfig::Raw {
            mtu,
            direct,
            keep_off,
        } => {
            let raw = RawConfig {
                v6,
                mtu: *mtu,
                direct: *direct,
                relayed: relayed.to_vec(),
                guarded: guarded.to_vec(),
                services: services.to_vec(),
                keep_off: *keep_off,
                devices: devices.to_vec(),
                ..RawConfig::new(numbers.to_vec())
            };
            Carrier::raw(&raw).map_err(|source| DaemonError::Carrier {
                carrier: "raw",
                source,
            })
        }
        CarrierConfig::Tun(tun) => Ok(Carrier::tun(tun)?),
        CarrierConfig::Udp {
            mtu, port, offload, ..
        } => {
            let udp = UdpConfig {
                mtu: *mtu,
                port: *port,
                offload: *offload,
                own_form: true,
                tcp,
                doubles: doubles.cloned(),
                ..UdpConfig::new(numbers.to_vec())
            };
            Carrier::udp(&udp).map_err(|source| DaemonError::Carrier {
                carrier: "udp",
                source,
            })
        }
    }
}

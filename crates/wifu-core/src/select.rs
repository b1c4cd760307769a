//! Which packets a handler is asked about, and where their words are.

use crate::{ip, shim};
use wifu_wire::{Place, Wire};

/// A header word as a handler reads and writes it ([`crate::Packet::get`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopWord {
    /// Where it is, from the start of its header.
    pub place: Place,
    /// It is in the shim between IP and transport, not in the transport's header.
    pub below: bool,
}

/// Which packets: of a protocol, of one composition, or all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Select {
    /// IP protocol number, of the packet or of what is inside its shim; `None`: any.
    pub protocol: Option<u8>,
    /// UDP ports of the service: packets of UDP to or from one of them are meant, too.
    pub ports: Vec<u16>,
    /// Values of the transport header that tell the composition.
    pub identity: Vec<(Place, u32)>,
    /// Of these, only packets of this IP protocol.
    pub only: Option<u8>,
}

impl Select {
    /// All packets.
    pub const ALL: Select = Select {
        protocol: None,
        ports: Vec::new(),
        identity: Vec::new(),
        only: None,
    };

    /// Packets of an IP protocol; `None`: all.
    pub fn protocol(protocol: Option<u8>) -> Select {
        Select {
            protocol,
            ..Select::ALL
        }
    }

    /// Packets of a composition that has this wire format and IP protocol number.
    pub fn composition(wire: &dyn Wire, number: u8) -> Select {
        Select {
            protocol: Some(number),
            ports: wire.format().port.into_iter().collect(),
            identity: wire.identity().to_vec(),
            only: None,
        }
    }

    /// Whether a packet is meant, by itself or inside a shim.
    pub fn fits(&self, packet: &[u8]) -> bool {
        let Some(wanted) = self.protocol else {
            return true;
        };
        let (protocol, at) = match shim::parse(packet) {
            Some((_, at)) if wanted == shim::PROTOCOL => (wanted, at),
            Some((head, at)) => (head.inner, at + usize::from(head.length)),
            None => match (ip::protocol(packet), ip::header(packet)) {
                (Some(protocol), Some(at)) => (protocol, at),
                _ => return false,
            },
        };
        let body = &packet[at..];
        let by_port = || {
            let port = |at: usize| Some(u16::from_be_bytes([*body.get(at)?, *body.get(at + 1)?]));
            let ours = |at| port(at).is_some_and(|p| self.ports.contains(&p));
            protocol == ip::UDP && (ours(0) || ours(2))
        };
        (protocol == wanted || by_port())
            && self.only.is_none_or(|only| only == protocol)
            && (self.identity.is_empty() || ip::payload(packet).is_some())
            && self.identity.iter().all(|(place, value)| {
                let inside = body.len() > usize::from(place.byte);
                inside && place.read(body) == *value
            })
    }

    /// Whether some packet could be meant by both.
    pub fn meets(&self, other: &Select) -> bool {
        let (Some(a), Some(b)) = (self.protocol, other.protocol) else {
            return true;
        };
        let same = a == b || self.ports.iter().any(|p| other.ports.contains(p));
        let of =
            |s: &Select, only| s.protocol == Some(only) || only == ip::UDP && !s.ports.is_empty();
        let allowed = self.only.is_none_or(|only| of(other, only))
            && other.only.is_none_or(|only| of(self, only));
        let apart = |(place, value): &(Place, u32)| {
            let differs = |(p, v): &(Place, u32)| {
                (p.byte, p.bit, p.bits) == (place.byte, place.bit, place.bits) && v != value
            };
            other.identity.iter().any(differs)
        };
        same && allowed && !self.identity.iter().any(apart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_wire::ipv4::emit;
    use wifu_wire::{Ecn, Head, IpInfo, shim as words};

    fn packet(proto: u8, id: u32) -> Vec<u8> {
        let info = IpInfo {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            proto,
            ttl: 60,
            ecn: Ecn::NotEct,
        };
        let codec = words::codec(id, &[]).unwrap();
        let mut packet = vec![0; 20 + 60];
        let n = codec.emit(&Head::default(), &mut packet[20..]);
        packet.truncate(20 + n);
        emit(&info, n, &mut packet);
        packet
    }

    #[test]
    fn two_compositions_of_one_number_are_told_apart_by_their_identity() {
        let select = |id| Select::composition(&words::codec(id, &[]).unwrap(), 200);
        assert!(select(1).fits(&packet(200, 1)) && !select(2).fits(&packet(200, 1)));
        assert!(!select(1).fits(&packet(201, 1)) && !select(1).fits(&packet(200, 1)[..22]));
        assert!(select(1).meets(&select(1)) && !select(1).meets(&select(2)));
        let tcp = |number| Select::composition(&wifu_wire::tcp::Tcp, number);
        assert!(tcp(207).meets(&tcp(207)) && !tcp(207).meets(&tcp(208)));
        assert!(Select::ALL.meets(&tcp(207)) && Select::ALL.fits(&[]));
        let inside = shim::insert(&packet(200, 1), shim::DELAY, &[0; 8]).unwrap();
        assert!(select(1).fits(&inside) && Select::protocol(Some(253)).fits(&inside));
        assert!(!select(2).fits(&inside));
    }

    #[test]
    fn a_service_in_udp_is_told_by_either_port() {
        let atp = Select::composition(&*(wifu_wire::atp::WIRE.make)(), 219);
        let mut udp = packet(17, 0);
        udp[28..30].copy_from_slice(&[1, 1]);
        assert!(!atp.fits(&udp));
        udp[22..24].copy_from_slice(&9438u16.to_be_bytes());
        assert!(atp.fits(&udp));
        udp[29] = 2;
        assert!(!atp.fits(&udp), "another version");
        assert!(atp.meets(&atp.clone()));
        udp[29] = 1;
        let listed = |ports: &[u16]| Select {
            ports: ports.to_vec(),
            ..atp.clone()
        };
        assert!(listed(&[7000, 9438]).fits(&udp) && !listed(&[7000, 9439]).fits(&udp));
        let elsewhere = Select {
            protocol: Some(231),
            ..listed(&[7000])
        };
        assert!(listed(&[9438, 7000]).meets(&elsewhere) && !listed(&[9438]).meets(&elsewhere));
        // One that wants those in UDP only is not asked about those of the number.
        let only = |protocol| Select {
            only: Some(protocol),
            ..atp.clone()
        };
        let bare = Select {
            ports: Vec::new(),
            ..atp.clone()
        };
        assert!(only(17).meets(&atp) && only(219).meets(&bare));
        assert!(!only(17).meets(&bare) && !bare.meets(&only(17)));
    }
}

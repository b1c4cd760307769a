//! TCP segments as tests see and forge them.

use core::net::{IpAddr, SocketAddr};
use wifu_wire::tcp::Tcp;
use wifu_wire::{AnyIpInfo, Ecn, Flags, Head, IpInfo, Seq, SynOptions, Wire};

/// A TCP segment, decoded; [`Seg::bytes`] encodes it with a right checksum.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Seg {
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Sequence number.
    pub seq: Seq,
    /// Acknowledgement number.
    pub ack: Option<Seq>,
    /// Flags, without ACK.
    pub flags: Flags,
    /// The window field.
    pub window: u32,
    /// Timestamp and echo.
    pub ts: Option<(u32, u32)>,
    /// What a SYN offers.
    pub options: SynOptions,
    /// SACK ranges.
    pub ranges: Vec<(Seq, Seq)>,
    /// Payload.
    pub data: Vec<u8>,
}

impl Seg {
    /// Decode.
    ///
    /// # Panics
    /// If it is no TCP segment.
    pub fn parse(bytes: &[u8]) -> Seg {
        let mut head = Head::default();
        let at = Tcp.parse(bytes, &mut head).expect("a TCP segment");
        Seg {
            ports: (head.sport, head.dport),
            seq: head.seq,
            ack: head.ack,
            flags: head.flags,
            window: head.window,
            ts: head.ts.map(|t| (t, head.ts_echo)),
            options: head.options,
            ranges: head.ranges().to_vec(),
            data: bytes[at..].to_vec(),
        }
    }

    /// Octets of payload.
    pub fn len(&self) -> u32 {
        self.data.len() as u32
    }

    /// Whether there is no payload.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// One past the sequence space that it takes.
    pub fn end(&self) -> Seq {
        let marks = u32::from(self.has(Flags::SYN)) + u32::from(self.has(Flags::FIN));
        self.seq.plus(self.len() + marks)
    }

    /// Whether it has the flag.
    pub fn has(&self, flag: Flags) -> bool {
        self.flags.has(flag)
    }

    /// Acknowledges and does nothing else.
    pub fn is_bare_ack(&self) -> bool {
        self.ack.is_some() && self.flags.0 == 0 && self.data.is_empty()
    }

    /// Encode for the path from `src` to `dst`.
    pub fn bytes<A: Copy + Into<IpAddr>>(&self, ip: &IpInfo<A>) -> Vec<u8> {
        let mut head = Head::default();
        (head.sport, head.dport) = self.ports;
        (head.seq, head.ack, head.flags) = (self.seq, self.ack, self.flags);
        (head.window, head.options) = (self.window, self.options);
        if let Some((ts, echo)) = self.ts {
            (head.ts, head.ts_echo) = (Some(ts), echo);
        }
        for range in &self.ranges {
            head.push_range(*range);
        }
        let mut out = vec![0; 60 + self.data.len()];
        let at = Tcp.emit(&head, &mut out[..60]);
        out.truncate(at);
        out.extend_from_slice(&self.data);
        let pseudo = ip.pseudo();
        Tcp.seal(&pseudo, &mut out);
        out
    }
}

/// The IP header facts of a packet between two ends.
pub fn between(from: impl Into<SocketAddr>, to: impl Into<SocketAddr>, proto: u8) -> AnyIpInfo {
    IpInfo {
        src: from.into().ip(),
        dst: to.into().ip(),
        proto,
        ttl: 64,
        ecn: Ecn::NotEct,
    }
}

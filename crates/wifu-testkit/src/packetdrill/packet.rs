//! TCP packets as scripts write them, and as they are on the wire. Read and written here once more,
//! and not by the codec that is being tested.

use core::fmt;
use core::net::SocketAddrV4;
use wifu_wire::{Ecn, IpInfo, ipv4};

/// TCP's protocol number.
pub(super) const NUMBER: u8 = 6;

/// Octets of the header without options.
const TCP: usize = 20;

/// The time to live of what a script injects.
const TTL: u8 = 64;

/// Letters of the flags, lowest bit first; the dot is ACK.
const LETTERS: [char; 8] = ['F', 'S', 'R', 'P', '.', 'U', 'E', 'W'];

/// What scripts call the values of the ECN field.
pub(super) const FIELDS: [(&str, Ecn); 4] = [
    ("noecn", Ecn::NotEct),
    ("ect0", Ecn::Ect0),
    ("ect1", Ecn::Ect1),
    ("ce", Ecn::Ce),
];

pub(super) const SYN: u8 = 2;
pub(super) const ACK: u8 = 16;
/// FIN and PSH, which only the last of several packets has that stand for one of the script.
pub(super) const LAST: u8 = 1 | 8;

/// An option of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opt {
    /// End of the list.
    Eol,
    /// Padding.
    Nop,
    /// Largest segment, octets.
    Mss(u16),
    /// Shift of the window field.
    Wscale(u8),
    /// Selective acknowledgements are understood.
    SackOk,
    /// Ranges that arrived: first octet and the one after the last.
    Sack(Vec<(u32, u32)>),
    /// Timestamp and echo.
    Ts(u32, u32),
    /// Another kind with its octets.
    Other(u8, Vec<u8>),
}

impl fmt::Display for Opt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opt::Eol => f.write_str("eol"),
            Opt::Nop => f.write_str("nop"),
            Opt::Mss(n) => write!(f, "mss {n}"),
            Opt::Wscale(n) => write!(f, "wscale {n}"),
            Opt::SackOk => f.write_str("sackOK"),
            Opt::Ts(value, echo) => write!(f, "TS val {value} ecr {echo}"),
            Opt::Sack(ranges) => {
                f.write_str("sack")?;
                ranges.iter().try_for_each(|(a, b)| write!(f, " {a}:{b}"))
            }
            Opt::Other(kind, body) => write!(f, "option {kind} of {} octets", body.len() + 2),
        }
    }
}

impl Opt {
    fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Opt::Eol => out.push(0),
            Opt::Nop => out.push(1),
            Opt::Mss(n) => {
                out.extend([2, 4]);
                out.extend(n.to_be_bytes());
            }
            Opt::Wscale(n) => out.extend([3, 3, *n]),
            Opt::SackOk => out.extend([4, 2]),
            Opt::Sack(ranges) => {
                out.extend([5, 2 + 8 * ranges.len() as u8]);
                for (a, b) in ranges {
                    out.extend(a.to_be_bytes());
                    out.extend(b.to_be_bytes());
                }
            }
            Opt::Ts(value, echo) => {
                out.extend([8, 10]);
                out.extend(value.to_be_bytes());
                out.extend(echo.to_be_bytes());
            }
            Opt::Other(kind, body) => {
                out.extend([*kind, 2 + body.len() as u8]);
                out.extend(body);
            }
        }
    }

    fn of(kind: u8, body: &[u8]) -> Opt {
        let word =
            |at: usize| u32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        match (kind, body.len()) {
            (2, 2) => Opt::Mss(u16::from_be_bytes([body[0], body[1]])),
            (3, 1) => Opt::Wscale(body[0]),
            (4, 0) => Opt::SackOk,
            (5, n) if n % 8 == 0 => {
                Opt::Sack((0..n).step_by(8).map(|i| (word(i), word(i + 4))).collect())
            }
            (8, 8) => Opt::Ts(word(0), word(4)),
            _ => Opt::Other(kind, body.to_vec()),
        }
    }
}

/// A TCP packet. In scripts sequence numbers count from where each side began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The ECN field of the IP header; `None`: not compared.
    pub ecn: Option<Ecn>,
    /// Flags as on the wire, ACK included.
    pub flags: u8,
    /// Number of the first octet.
    pub seq: u32,
    /// Octets of payload.
    pub len: u32,
    /// Acknowledgement; means nothing without the flag.
    pub ack: u32,
    /// The window field; `None`: not compared.
    pub window: Option<u16>,
    /// The options, in their order; `None`: not compared.
    pub options: Option<Vec<Opt>>,
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ecn) = self.ecn {
            let word = FIELDS.iter().find(|(_, e)| *e == ecn).map_or("", |f| f.0);
            write!(f, "[{word}] ")?;
        }
        for (bit, letter) in LETTERS.iter().enumerate().filter(|(_, l)| **l != '.') {
            if self.flags & 1 << bit != 0 {
                write!(f, "{letter}")?;
            }
        }
        if self.has(ACK) {
            f.write_str(".")?;
        }
        let end = self.seq.wrapping_add(self.len);
        write!(f, " {}:{end}({})", self.seq, self.len)?;
        if self.has(ACK) {
            write!(f, " ack {}", self.ack)?;
        }
        if let Some(window) = self.window {
            write!(f, " win {window}")?;
        }
        match self.options.as_deref() {
            None => f.write_str(" <...>"),
            Some([]) => Ok(()),
            Some(list) => {
                let list: Vec<String> = list.iter().map(Opt::to_string).collect();
                write!(f, " <{}>", list.join(","))
            }
        }
    }
}

impl Packet {
    /// The flags of these letters; `-` alone has none.
    pub(super) fn flags(letters: &str) -> Option<u8> {
        if letters == "-" {
            return Some(0);
        }
        letters.chars().try_fold(0, |flags, c| {
            let bit = LETTERS.iter().position(|l| *l == c)?;
            Some(flags | 1 << bit)
        })
    }

    /// Whether it has the flag.
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Timestamp and echo.
    pub(super) fn ts(&mut self) -> Option<(&mut u32, &mut u32)> {
        self.options.as_mut()?.iter_mut().find_map(|o| match o {
            Opt::Ts(value, echo) => Some((value, echo)),
            _ => None,
        })
    }

    /// Moves what counts octets of the other side: the acknowledgement and SACK ranges.
    pub(super) fn move_acks(&mut self, by: u32) {
        if self.has(ACK) {
            self.ack = self.ack.wrapping_add(by);
        }
        for option in self.options.iter_mut().flatten() {
            if let Opt::Sack(ranges) = option {
                for (a, b) in ranges {
                    (*a, *b) = (a.wrapping_add(by), b.wrapping_add(by));
                }
            }
        }
    }

    /// As IPv4 packet from `src` to `dst`, with zeros as payload.
    pub(super) fn emit(&self, src: SocketAddrV4, dst: SocketAddrV4) -> Vec<u8> {
        self.emit_with(src, dst, TTL, &vec![0; self.len as usize])
    }

    fn emit_with(&self, src: SocketAddrV4, dst: SocketAddrV4, ttl: u8, payload: &[u8]) -> Vec<u8> {
        let mut options = Vec::new();
        for option in self.options.iter().flatten() {
            option.emit(&mut options);
        }
        options.resize(options.len().next_multiple_of(4), 0);
        let mut tcp = vec![0; TCP];
        tcp[0..2].copy_from_slice(&src.port().to_be_bytes());
        tcp[2..4].copy_from_slice(&dst.port().to_be_bytes());
        tcp[4..8].copy_from_slice(&self.seq.to_be_bytes());
        let ack = if self.has(ACK) { self.ack } else { 0 };
        tcp[8..12].copy_from_slice(&ack.to_be_bytes());
        tcp[12] = ((TCP + options.len()) as u8 / 4) << 4;
        tcp[13] = self.flags;
        tcp[14..16].copy_from_slice(&self.window.unwrap_or(0).to_be_bytes());
        tcp.extend(options);
        tcp.extend(payload);
        let info = IpInfo {
            src: *src.ip(),
            dst: *dst.ip(),
            proto: NUMBER,
            ttl,
            ecn: self.ecn.unwrap_or_default(),
        };
        let pseudo = info.pseudo();
        let sum = pseudo.sum(tcp.len()).add(&tcp).finish();
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        let mut packet = vec![0; ipv4::HEADER];
        ipv4::emit(&info, tcp.len(), &mut packet);
        packet.extend(tcp);
        packet
    }

    /// Reads an IPv4 packet: its ends, the packet, the payload.
    pub(super) fn parse(bytes: &[u8]) -> Option<(SocketAddrV4, SocketAddrV4, Packet, &[u8])> {
        let (ip, tcp) = ipv4::parse(bytes).ok()?;
        let fixed = tcp.first_chunk::<TCP>()?;
        let word = |at: usize| {
            u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        let half = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let header = usize::from(fixed[12] >> 4) * 4;
        let options = options(tcp.get(TCP..header)?)?;
        let payload = &tcp[header..];
        let packet = Packet {
            ecn: Some(ip.ecn),
            flags: fixed[13],
            seq: word(4),
            len: payload.len() as u32,
            ack: word(8),
            window: Some(half(14)),
            options: Some(options),
        };
        let src = SocketAddrV4::new(ip.src, half(0));
        let dst = SocketAddrV4::new(ip.dst, half(2));
        Some((src, dst, packet, payload))
    }
}

/// The options of a header, padding included.
fn options(mut rest: &[u8]) -> Option<Vec<Opt>> {
    let mut list = Vec::new();
    while let [kind, tail @ ..] = rest {
        match kind {
            0 => {
                list.push(Opt::Eol);
                rest = tail;
            }
            1 => {
                list.push(Opt::Nop);
                rest = tail;
            }
            _ => {
                let len = usize::from(*tail.first()?);
                list.push(Opt::of(*kind, rest.get(2..len)?));
                rest = &rest[len..];
            }
        }
    }
    Some(list)
}

/// A SYN with its options in the order and padding that Linux has: MSS; SACK-permitted and
/// timestamps together, else either behind two NOPs; a NOP and the window's scale. Other packets
/// stay as they are, for their options have Linux's order already.
pub(super) fn in_linux_order(bytes: &[u8]) -> Option<Vec<u8>> {
    let (src, dst, mut packet, payload) = Packet::parse(bytes)?;
    if !packet.has(SYN) {
        return None;
    }
    let list = packet.options.take()?;
    let one = |is: fn(&Opt) -> bool| list.iter().find(|o| is(o)).cloned();
    let mut ordered: Vec<Opt> = one(|o| matches!(o, Opt::Mss(_))).into_iter().collect();
    let sack = one(|o| *o == Opt::SackOk);
    let ts = one(|o| matches!(o, Opt::Ts(..)));
    match (sack, ts) {
        (Some(sack), Some(ts)) => ordered.extend([sack, ts]),
        (None, Some(option)) | (Some(option), None) => {
            ordered.extend([Opt::Nop, Opt::Nop, option]);
        }
        (None, None) => {}
    }
    if let Some(scale) = one(|o| matches!(o, Opt::Wscale(_))) {
        ordered.extend([Opt::Nop, scale]);
    }
    packet.options = Some(ordered);
    Some(packet.emit_with(src, dst, bytes[8], payload))
}

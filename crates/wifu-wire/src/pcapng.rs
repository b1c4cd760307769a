//! pcapng (draft-ietf-opsawg-pcapng): the blocks of a capture file, written into a buffer.
//!
//! One section, one interface block per carrier, nanosecond timestamps, an optional comment and a
//! direction per packet: what Wireshark and `capinfos` read. Little endian throughout; the writer
//! does no input or output, the caller writes the buffer away whenever it likes.

/// What the octets of an interface's packets are (tcpdump.org/linktypes.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet frames.
    pub const ETHERNET: LinkType = LinkType(1);
    /// Packets that begin with an IP header.
    pub const RAW: LinkType = LinkType(101);
    /// 802.11 frames behind a radiotap header.
    pub const RADIOTAP: LinkType = LinkType(127);
}

/// Which way a packet went at its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// Names an interface of the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceId(u32);

/// One captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// Where it was captured.
    pub interface: InterfaceId,
    /// When, in nanoseconds since 1970-01-01 UTC.
    pub wall_ns: u64,
    /// Its octets, from the header that the interface's link type says.
    pub octets: &'a [u8],
    /// Which way it went.
    pub direction: Option<Direction>,
    /// A remark for the reader; empty for none, cut to 65535 octets.
    pub comment: &'a str,
}

const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const MAGIC: u32 = 0x1A2B_3C4D;
const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;

/// Writes one section.
#[derive(Debug)]
pub struct Writer {
    interfaces: u32,
    snap: u32,
}

impl Writer {
    /// Begin a section in `out`. Packets are cut to `snap` octets; 0 keeps them whole.
    pub fn begin(out: &mut Vec<u8>, application: &str, snap: u32) -> Writer {
        block(out, SECTION, |out| {
            out.extend(MAGIC.to_le_bytes());
            out.extend(1u16.to_le_bytes());
            out.extend(0u16.to_le_bytes());
            // The section's length is not known in advance.
            out.extend(u64::MAX.to_le_bytes());
            option(out, SHB_USERAPPL, application.as_bytes());
            option(out, OPT_END, &[]);
        });
        Writer {
            interfaces: 0,
            snap,
        }
    }

    /// Describe an interface; it must come before the packets that name it.
    pub fn interface(&mut self, out: &mut Vec<u8>, name: &str, link: LinkType) -> InterfaceId {
        block(out, INTERFACE, |out| {
            out.extend(link.0.to_le_bytes());
            out.extend(0u16.to_le_bytes());
            out.extend(self.snap.to_le_bytes());
            option(out, IF_NAME, name.as_bytes());
            // Timestamps count units of 10^-9 s.
            option(out, IF_TSRESOL, &[9]);
            option(out, OPT_END, &[]);
        });
        let id = InterfaceId(self.interfaces);
        self.interfaces += 1;
        id
    }

    /// Append a packet.
    ///
    /// # Panics
    /// If the interface is of another section.
    pub fn packet(&mut self, out: &mut Vec<u8>, packet: &Captured<'_>) {
        assert!(packet.interface.0 < self.interfaces, "no such interface");
        let whole = packet.octets.len();
        let kept = match self.snap {
            0 => whole,
            snap => whole.min(snap as usize),
        };
        block(out, ENHANCED_PACKET, |out| {
            out.extend(packet.interface.0.to_le_bytes());
            out.extend(((packet.wall_ns >> 32) as u32).to_le_bytes());
            out.extend((packet.wall_ns as u32).to_le_bytes());
            out.extend((kept as u32).to_le_bytes());
            out.extend((whole as u32).to_le_bytes());
            out.extend_from_slice(&packet.octets[..kept]);
            pad(out, kept);
            let direction = packet.direction;
            if let Some(direction) = direction {
                let bits: u32 = match direction {
                    Direction::In => 1,
                    Direction::Out => 2,
                };
                option(out, EPB_FLAGS, &bits.to_le_bytes());
            }
            if !packet.comment.is_empty() {
                option(out, OPT_COMMENT, packet.comment.as_bytes());
            }
            if direction.is_some() || !packet.comment.is_empty() {
                option(out, OPT_END, &[]);
            }
        });
    }
}

/// A block of `kind` around what `body` writes, whose length must be a multiple of four.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_le_bytes());
    out.extend(0u32.to_le_bytes());
    body(out);
    let length = (out.len() - start + 4) as u32;
    out.extend(length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    pad(out, value.len());
}

fn pad(out: &mut Vec<u8>, length: usize) {
    out.resize(out.len() + (4 - length % 4) % 4, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(octets: &[u8], at: usize) -> u32 {
        u32::from_le_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
    }

    /// Every block's kind, its length told twice.
    fn kinds(file: &[u8]) -> Vec<u32> {
        let (mut at, mut kinds) = (0, Vec::new());
        while at < file.len() {
            let length = word(file, at + 4) as usize;
            assert_eq!(length % 4, 0);
            assert_eq!(word(file, at + length - 4) as usize, length);
            kinds.push(word(file, at));
            at += length;
        }
        assert_eq!(at, file.len());
        kinds
    }

    #[test]
    fn blocks_chain_whatever_the_lengths() {
        let mut out = Vec::new();
        let mut writer = Writer::begin(&mut out, "test", 0);
        let first = writer.interface(&mut out, "raw", LinkType::RAW);
        let second = writer.interface(&mut out, "wifu0", LinkType::RAW);
        for n in 0..9 {
            let octets = vec![0x45; n];
            for (interface, comment) in [(first, ""), (second, "lost and retransmitted")] {
                writer.packet(
                    &mut out,
                    &Captured {
                        interface,
                        wall_ns: 1_700_000_000_123_456_789,
                        octets: &octets,
                        direction: (n % 2 == 0).then_some(Direction::Out),
                        comment: &comment[..comment.len().min(n)],
                    },
                );
            }
        }
        let mut expected = vec![SECTION, INTERFACE, INTERFACE];
        expected.extend([ENHANCED_PACKET; 18]);
        assert_eq!(kinds(&out), expected);
    }

    #[test]
    fn a_packet_is_cut_to_the_snap_length_and_says_so() {
        let mut out = Vec::new();
        let mut writer = Writer::begin(&mut out, "test", 40);
        let interface = writer.interface(&mut out, "raw", LinkType::RAW);
        let start = out.len();
        let packet = Captured {
            interface,
            wall_ns: (7 << 32) + 5,
            octets: &[9; 1500],
            direction: None,
            comment: "",
        };
        writer.packet(&mut out, &packet);
        let block = &out[start..];
        assert_eq!((word(block, 12), word(block, 16)), (7, 5));
        assert_eq!((word(block, 20), word(block, 24)), (40, 1500));
        assert_eq!(block.len(), 28 + 40 + 4);
    }
}

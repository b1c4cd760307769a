//! The `shim` format for new protocols: a fixed base, then words laid out by the blueprint.
//!
//! ```text
//!  0 version=1 | 1 header length/4 | 2 flags u16 | 4 sport | 6 dport | 8 composition id u32
//! 12 checksum  | 14 bits           | 15 scale    | 16 seq  | 20 ack  | 24 window u32
//! 28 ts u32    | 32 ts_echo u32    | 36 mss u16  | 38 number of ranges u16
//! 40 words that hops may write (4-byte aligned), then the other words, then ranges of 8 octets
//! ```
//!
//! The checksum leaves out the words that hops may write, so that a hop needs to mend nothing. A
//! segment whose composition id differs is refused.

use crate::checksum::{Pseudo, Sum};
use crate::head::{Flags, Head, Place, WORDS, Wire, Word};
use crate::units::Seq;

const BASE: usize = 40;
const ACK: u8 = 1;
const TS: u8 = 2;
const SACK_OK: u8 = 4;
const TS_OK: u8 = 8;
const SCALE: u8 = 16;

/// A word that a composition declares for its shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShimWord {
    /// Name, unique in the composition.
    pub name: &'static str,
    /// Width, 1 to 32 bits.
    pub bits: u8,
    /// Whether intermediate nodes may write it.
    pub hop_writable: bool,
}

/// The `shim` codec of one composition.
#[derive(Debug)]
pub struct Shim {
    id: u32,
    words: Vec<(&'static str, Place)>,
    /// End of the hop-writable area and end of all words, from the start of the header.
    hop_end: usize,
    end: usize,
}

impl Shim {
    /// Lay out `words`: those that hops may write first, each group in the order given, no word
    /// across a 32-bit boundary. Frozen: both ends derive the same layout from the composition.
    ///
    /// # Errors
    /// More than [`WORDS`] words, or a width outside 1..=32.
    pub fn new(id: u32, words: &[ShimWord]) -> Result<Shim, String> {
        if words.len() > WORDS {
            return Err(format!("{} words, but a header holds {WORDS}", words.len()));
        }
        if let Some(w) = words.iter().find(|w| w.bits == 0 || w.bits > 32) {
            return Err(format!(
                "word \"{}\" has {} bits; 1 to 32 are possible",
                w.name, w.bits
            ));
        }
        let mut shim = Shim {
            id,
            words: Vec::new(),
            hop_end: BASE,
            end: BASE,
        };
        let mut bit = BASE * 8;
        for group in [true, false] {
            for w in words.iter().filter(|w| w.hop_writable == group) {
                if bit % 32 + usize::from(w.bits) > 32 {
                    bit = bit.next_multiple_of(32);
                }
                let (byte, in_byte) = ((bit / 8) as u8, (bit % 8) as u8);
                let word = Word(shim.words.len() as u8);
                let place = Place {
                    word,
                    byte,
                    bit: in_byte,
                    bits: w.bits,
                };
                shim.words.push((w.name, place));
                bit += usize::from(w.bits);
            }
            bit = bit.next_multiple_of(32);
            if group {
                shim.hop_end = bit / 8;
            }
        }
        shim.end = bit / 8;
        Ok(shim)
    }

    fn sum(&self, pseudo: &Pseudo, bytes: &[u8]) -> Sum {
        pseudo
            .sum(bytes.len())
            .add(&bytes[..BASE])
            .add(&bytes[self.hop_end..])
    }
}

fn word16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Wire for Shim {
    fn name(&self) -> &'static str {
        "shim"
    }

    fn parse(&self, bytes: &[u8], head: &mut Head) -> Result<usize, &'static str> {
        head.reset();
        if bytes.len() < self.end {
            return Err("segment shorter than its header");
        }
        if bytes[0] != 1 {
            return Err("unknown shim version");
        }
        if word32(bytes, 8) != self.id {
            return Err("the peer runs another composition");
        }
        let count = usize::from(word16(bytes, 38));
        let length = self.end + 8 * count;
        if usize::from(bytes[1]) * 4 != self.end || length > bytes.len() {
            return Err("header length out of range");
        }
        head.flags = Flags(u32::from(word16(bytes, 2)));
        (head.sport, head.dport) = (word16(bytes, 4), word16(bytes, 6));
        let bits = bytes[14];
        head.seq = Seq(word32(bytes, 16));
        head.ack = (bits & ACK != 0).then(|| Seq(word32(bytes, 20)));
        head.window = word32(bytes, 24);
        head.ts = (bits & TS != 0).then(|| word32(bytes, 28));
        head.ts_echo = word32(bytes, 32);
        head.options.mss = word16(bytes, 36);
        head.options.scale = (bits & SCALE != 0).then_some(bytes[15].min(14));
        (head.options.sack_ok, head.options.ts_ok) = (bits & SACK_OK != 0, bits & TS_OK != 0);
        for (_, place) in &self.words {
            head.set(place.word, place.read(bytes));
        }
        for block in bytes[self.end..length].chunks_exact(8) {
            if !head.push_range((Seq(word32(block, 0)), Seq(word32(block, 4)))) {
                return Err("more ranges than any format has");
            }
        }
        Ok(length)
    }

    fn emit(&self, head: &Head, out: &mut [u8]) -> usize {
        let o = &head.options;
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let bits = bit(head.ack.is_some(), ACK)
            | bit(head.ts.is_some(), TS)
            | bit(o.sack_ok, SACK_OK)
            | bit(o.ts_ok, TS_OK)
            | bit(o.scale.is_some(), SCALE);
        let n = head
            .ranges()
            .len()
            .min(out.len().saturating_sub(self.end) / 8);
        out[..self.end].fill(0);
        (out[0], out[1]) = (1, (self.end / 4) as u8);
        out[2..4].copy_from_slice(&(head.flags.0 as u16).to_be_bytes());
        out[4..6].copy_from_slice(&head.sport.to_be_bytes());
        out[6..8].copy_from_slice(&head.dport.to_be_bytes());
        out[8..12].copy_from_slice(&self.id.to_be_bytes());
        (out[14], out[15]) = (bits, o.scale.unwrap_or(0));
        out[16..20].copy_from_slice(&head.seq.0.to_be_bytes());
        out[20..24].copy_from_slice(&head.ack.map_or(0, |a| a.0).to_be_bytes());
        out[24..28].copy_from_slice(&head.window.to_be_bytes());
        out[28..32].copy_from_slice(&head.ts.unwrap_or(0).to_be_bytes());
        out[32..36].copy_from_slice(&head.ts_echo.to_be_bytes());
        out[36..38].copy_from_slice(&o.mss.to_be_bytes());
        out[38..40].copy_from_slice(&(n as u16).to_be_bytes());
        for (_, place) in &self.words {
            place.write(out, head.get(place.word));
        }
        let mut at = self.end;
        for (start, end) in &head.ranges()[..n] {
            out[at..at + 4].copy_from_slice(&start.0.to_be_bytes());
            out[at + 4..at + 8].copy_from_slice(&end.0.to_be_bytes());
            at += 8;
        }
        at
    }

    fn patch(&self, head: &Head, bytes: &mut [u8]) {
        let by_hops = |p: &&(&str, Place)| usize::from(p.1.byte) < self.hop_end;
        for (_, place) in self.words.iter().filter(by_hops) {
            if head.is_set(place.word) {
                place.write(bytes, head.get(place.word));
            }
        }
    }

    fn seal(&self, pseudo: &Pseudo, bytes: &mut [u8]) {
        bytes[12..14].fill(0);
        let sum = self.sum(pseudo, bytes).finish();
        bytes[12..14].copy_from_slice(&sum.to_be_bytes());
    }

    fn verify(&self, pseudo: &Pseudo, bytes: &[u8]) -> bool {
        bytes.len() >= self.end && self.sum(pseudo, bytes).finish() == 0
    }

    fn place(&self, word: &str) -> Option<Place> {
        self.words
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, place)| *place)
    }

    fn refuse(&self, head: &Head, _len: u32, answer: &mut Head) -> bool {
        answer.reset();
        (answer.sport, answer.dport) = (head.dport, head.sport);
        answer.flags = Flags::RST;
        answer.seq = head.ack.unwrap_or(Seq(0));
        answer.ack = Some(head.seq);
        !head.flags.has(Flags::RST)
    }

    fn overhead(&self) -> u32 {
        self.end as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn shim(id: u32) -> Shim {
        let word = |name, bits, hop_writable| ShimWord {
            name,
            bits,
            hop_writable,
        };
        let words = [
            word("epoch", 12, false),
            word("delay", 32, true),
            word("hops", 8, true),
        ];
        Shim::new(id, &words).unwrap()
    }

    #[test]
    fn the_layout_is_frozen() {
        let places: Vec<_> = ["delay", "hops", "epoch"]
            .iter()
            .map(|w| shim(1).place(w).unwrap())
            .collect();
        assert_eq!(
            places
                .iter()
                .map(|p| (p.byte, p.bit, p.bits))
                .collect::<Vec<_>>(),
            [(40, 0, 32), (44, 0, 8), (48, 0, 12)]
        );
    }

    #[test]
    fn hops_write_their_words_without_touching_the_checksum() {
        let pseudo = Pseudo {
            src: Ipv4Addr::LOCALHOST,
            dst: Ipv4Addr::LOCALHOST,
            proto: 253,
        };
        let (codec, mut head, mut out) = (shim(1), Head::default(), [0u8; 80]);
        head.push_range((Seq(1), Seq(2)));
        head.set(codec.place("epoch").unwrap().word, 77);
        let n = codec.emit(&head, &mut out);
        codec.seal(&pseudo, &mut out[..n]);
        codec
            .place("delay")
            .unwrap()
            .write(&mut out[..n], 0xDEAD_BEEF);
        assert!(codec.verify(&pseudo, &out[..n]));
        let mut back = Head::default();
        assert_eq!(codec.parse(&out[..n], &mut back), Ok(n));
        assert_eq!(back.get(codec.place("delay").unwrap().word), 0xDEAD_BEEF);
        assert_eq!(back.get(codec.place("epoch").unwrap().word), 77);
        codec.place("epoch").unwrap().write(&mut out[..n], 78);
        assert!(!codec.verify(&pseudo, &out[..n]));
    }

    #[test]
    fn a_patch_changes_the_words_that_hops_may_write_and_that_were_set() {
        let codec = shim(7);
        let word = |name: &str| codec.place(name).unwrap().word;
        let (mut head, mut out) = (Head::default(), [0u8; 80]);
        head.set(word("epoch"), 77);
        head.set(word("delay"), 5);
        head.set(word("hops"), 3);
        let n = codec.emit(&head, &mut out);
        let (mut hop, mut back) = (Head::default(), Head::default());
        hop.set(word("epoch"), 1);
        hop.set(word("delay"), 9);
        codec.patch(&hop, &mut out[..n]);
        codec.parse(&out[..n], &mut back).unwrap();
        let values = ["epoch", "delay", "hops"].map(|name| back.get(word(name)));
        assert_eq!(values, [77, 9, 3]);
    }

    #[test]
    fn another_composition_is_refused() {
        let (mut head, mut out) = (Head::default(), [0u8; 80]);
        let n = shim(1).emit(&head.clone(), &mut out);
        assert_eq!(
            shim(2).parse(&out[..n], &mut head),
            Err("the peer runs another composition")
        );
    }
}

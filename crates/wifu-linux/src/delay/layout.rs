//! Where bpf/delay.bpf.c finds the words that it stamps, from the declaration of a format.

use wifu_wire::Format;
use wifu_wire::format::{Field, UDP_FORM, WordDecl};

/// HEADER_MAX in the program.
const MOST: usize = 64;

/// Bits of two octets, the first at an even offset: `struct bits` in the program.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Bits {
    at: u32,
    mask: u32,
}

impl Bits {
    fn of(f: &Format, w: &WordDecl) -> Result<Bits, String> {
        let octet = u32::from(f.base) + u32::from(w.byte);
        let bit = (octet % 2) * 8 + u32::from(w.bit);
        let bits = u32::from(w.bits);
        if bit + bits > 16 {
            return Err(format!("{} is not in one pair of bytes", w.name));
        }
        Ok(Bits {
            at: octet - octet % 2,
            mask: ((1 << bits) - 1) << (16 - bit - bits),
        })
    }

    /// That of a word which a format need not have.
    fn optional(f: &Format, word: &str) -> Result<Bits, String> {
        f.word(word).map_or(Ok(Bits::default()), |w| Bits::of(f, w))
    }

    fn numbers(self) -> [u32; 2] {
        [self.at, self.mask]
    }
}

/// The numbers of `struct config` from `number` on.
pub(super) const NUMBERS: usize = 19;

/// What the program must know of a header with the words `delay`, `hops` and `feedback`, and
/// perhaps `link_down`, `adapt` and `idle`.
///
/// # Errors
/// Why it can't be stamped.
pub(super) fn of(f: &Format) -> Result<[u32; NUMBERS], String> {
    let need = |name: &str| f.word(name).ok_or_else(|| format!("it has no word {name}"));
    let Some(number) = f.number else {
        return Err(String::from("it has no IP protocol number of its own"));
    };
    if usize::from(f.base) != UDP_FORM || f.fixed() > MOST || f.covers_hops {
        return Err(format!(
            "it must have ports as UDP has, at most {MOST} bytes, and a checksum that counts what \
             nodes write as zero"
        ));
    }
    let delay = need("delay")?;
    let at = u32::from(f.base) + u32::from(delay.byte);
    if delay.bits != 32 || delay.bit != 0 || at % 2 != 0 {
        return Err(String::from("delay has not 32 bits at an even offset"));
    }
    let (is, values) = identity(f)?;
    let bits = [
        is[0],
        is[1],
        // The values of the two.
        Bits {
            at: values[0],
            mask: values[1],
        },
        Bits::of(f, need("feedback")?)?,
        Bits::optional(f, "link_down")?,
        Bits::optional(f, "adapt")?,
        Bits::optional(f, "idle")?,
        Bits::of(f, need("hops")?)?,
    ];
    let mut numbers = [0; NUMBERS];
    (numbers[0], numbers[1]) = (u32::from(number), f.fixed() as u32);
    for (to, bits) in numbers[2..18].chunks_exact_mut(2).zip(bits) {
        to.copy_from_slice(&bits.numbers());
    }
    numbers[18] = at;
    Ok(numbers)
}

/// What tells a packet of the format, as at most two pairs of octets, and their values.
fn identity(f: &Format) -> Result<([Bits; 2], [u32; 2]), String> {
    let (mut all, mut used) = ([(Bits::default(), 0); 2], 0);
    for w in f.words.iter() {
        let Field::Is(value, _) = w.field else {
            continue;
        };
        let bits = Bits::of(f, w)?;
        let value = value << bits.mask.trailing_zeros();
        let known = all[..used].iter_mut().find(|(b, _)| b.at == bits.at);
        if let Some((b, v)) = known {
            (b.mask, *v) = (b.mask | bits.mask, *v | value);
        } else if used < all.len() {
            all[used] = (bits, value);
            used += 1;
        } else {
            return Err(String::from("too many constants tell it"));
        }
    }
    Ok((all.map(|(b, _)| b), all.map(|(_, v)| v)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;
    use wifu_wire::atp::FORMAT;

    #[test]
    fn the_places_are_those_of_the_header() {
        let expected = [
            219, 48, // number, octets
            8, 0xFFFF, 0, 0, 0x0101, 0, // ATP, version 1
            10, 0x4000, 10, 0x0100, 10, 0x0800, 10, 0x0400, // the control word
            14, 0xFF00, // hops
            24,     // delay
        ];
        assert_eq!(of(&FORMAT), Ok(expected));
    }

    #[test]
    fn a_format_that_cannot_be_stamped_is_refused() {
        let without = |name: &str| {
            let left = FORMAT.words.iter().filter(|w| w.name != name);
            Format {
                words: Cow::Owned(left.copied().collect()),
                ..FORMAT.clone()
            }
        };
        for name in ["delay", "hops", "feedback"] {
            let error = of(&without(name)).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
        assert_eq!(of(&without("link_down")).unwrap()[10..12], [0, 0]);
        assert!(of(&wifu_wire::tcp::FORMAT).is_err());
        let covering = Format {
            covers_hops: true,
            ..FORMAT.clone()
        };
        assert!(of(&covering).is_err());
    }
}

//! Packets that a handler changed or copied, made whole: lengths and checksums.

use super::copies::Copies;
use wifu_core::{Octets, ip};
use wifu_wire::checksum::{Pseudo, Sum};
use wifu_wire::numbers::TCP;

/// Where the checksum lies in the headers of TCP and UDP.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
/// Where UDP says its length.
const UDP_LENGTH: usize = 4;

/// A packet in a receive buffer, copied only if somebody changes it.
pub(crate) struct Borrowed<'a, 'c> {
    original: &'a [u8],
    changed: &'a mut Vec<u8>,
    is_changed: bool,
    /// Its transport checksum was not filled in yet.
    partial: bool,
    /// Where copies are kept, if they can be.
    copies: Option<&'c mut Copies>,
}

impl<'a, 'c> Borrowed<'a, 'c> {
    /// `room` will hold what it is changed to.
    pub(crate) fn new(original: &'a [u8], room: &'a mut Vec<u8>) -> Borrowed<'a, 'c> {
        room.clear();
        Borrowed {
            original,
            changed: room,
            is_changed: false,
            partial: false,
            copies: None,
        }
    }

    /// Its transport checksum was not filled in yet.
    pub(crate) fn partial(self, partial: bool) -> Borrowed<'a, 'c> {
        Borrowed { partial, ..self }
    }

    /// Copies of it are kept here; of a packet that is not `whole` there are none.
    pub(crate) fn kept_in(self, copies: &'c mut Copies, whole: bool) -> Borrowed<'a, 'c> {
        let copies = whole.then_some(copies);
        Borrowed { copies, ..self }
    }

    /// What it was changed to, lengths and checksums right; `None` if nobody changed it.
    pub(crate) fn repaired(self) -> Option<&'a [u8]> {
        if !self.is_changed {
            return None;
        }
        ip::repair(self.changed);
        repair_transport(self.original, self.changed, self.partial);
        Some(self.changed)
    }
}

impl Octets for Borrowed<'_, '_> {
    fn get(&self) -> &[u8] {
        if self.is_changed {
            self.changed
        } else {
            self.original
        }
    }

    fn get_mut(&mut self) -> &mut [u8] {
        if !self.is_changed {
            self.changed.extend_from_slice(self.original);
            self.is_changed = true;
        }
        self.changed
    }

    fn replace(&mut self, octets: &[u8]) {
        self.changed.clear();
        self.changed.extend_from_slice(octets);
        self.is_changed = true;
    }

    fn copy(&mut self) -> Option<u64> {
        let octets = if self.is_changed {
            &self.changed[..]
        } else {
            self.original
        };
        let mut octets = octets.to_vec();
        if self.is_changed {
            ip::repair(&mut octets);
        }
        if self.is_changed || self.partial {
            repair_transport(self.original, &mut octets, self.partial);
        }
        self.copies.as_mut()?.keep(octets)
    }
}

/// The header of TCP or UDP: where it begins, and where its checksum lies from there.
fn transport(packet: &[u8]) -> Option<(usize, usize)> {
    let body = ip::payload(packet)?;
    let checksum = match packet[9] {
        TCP => TCP_CHECKSUM,
        ip::UDP => UDP_CHECKSUM,
        _ => return None,
    };
    (body.len() >= checksum + 2).then_some((body.start, checksum))
}

/// The sum over pseudo-header and segment, as if its checksum were zero.
fn covered(packet: &[u8], start: usize, checksum: usize) -> Sum {
    let (src, dst) = ip::addresses(packet);
    let proto = packet[9];
    let segment = &packet[start..];
    Pseudo::new(src, dst, proto)
        .sum(segment.len())
        .add(&segment[..checksum])
        .add(&segment[checksum + 2..])
}

/// Bring the checksum of TCP or UDP along with a change, by the difference: what was wrong before
/// stays wrong, and what a handler corrected itself stays as it is. A checksum that was not filled
/// in yet is computed.
fn repair_transport(before: &[u8], after: &mut [u8], partial: bool) {
    let Some((start, checksum)) = transport(after) else {
        return;
    };
    // The checksum covers what is not here: it can follow what is replaced here, octet by octet.
    let more_fragments = after[6] & 0x20 != 0;
    if more_fragments && (partial || before.len() != after.len()) {
        return;
    }
    let field = start + checksum..start + checksum + 2;
    let now = u16::from_be_bytes([after[field.start], after[field.start + 1]]);
    if after[9] == ip::UDP && !more_fragments {
        let length = (after.len() - start) as u16;
        after[start + UDP_LENGTH..start + UDP_LENGTH + 2].copy_from_slice(&length.to_be_bytes());
    }
    let sum = if partial {
        covered(after, start, checksum).finish()
    } else {
        let Some((old_start, _)) = transport(before).filter(|_| before[9] == after[9]) else {
            return;
        };
        let at = old_start + checksum;
        let was = u16::from_be_bytes([before[at], before[at + 1]]);
        let none = after[9] == ip::UDP && was == 0;
        if none || was != now {
            return;
        }
        // RFC 1624, eqn. 3: ~(~was + ~(sum before) + (sum after)); `finish` complements.
        let old = covered(before, old_start, checksum).finish();
        let new = !covered(after, start, checksum).finish();
        let sum = Sum::default().add_word(!was).add_word(old).add_word(new);
        sum.finish()
    };
    // To UDP, zero would mean that there is none (RFC 768).
    let sum = if sum == 0 && after[9] == ip::UDP {
        0xFFFF
    } else {
        sum
    };
    after[field].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use wifu_wire::Rng;
    use wifu_wire::ipv4::{Ecn, IpInfo, emit};

    fn packet(proto: u8, body: usize, rng: &mut Rng) -> Vec<u8> {
        let info = IpInfo {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
            proto,
            ttl: 60,
            ecn: Ecn::NotEct,
        };
        let mut packet = vec![0; 20];
        emit(&info, body, &mut packet);
        packet.extend((0..body).map(|_| rng.next_u64() as u8));
        if proto == ip::UDP {
            packet[24..26].copy_from_slice(&(body as u16).to_be_bytes());
        }
        if let Some((start, checksum)) = transport(&packet) {
            let sum = covered(&packet, start, checksum).finish();
            packet[start + checksum..start + checksum + 2].copy_from_slice(&sum.to_be_bytes());
        }
        packet
    }

    fn is_right(packet: &[u8]) -> bool {
        let (start, checksum) = transport(packet).unwrap();
        let found = [packet[start + checksum], packet[start + checksum + 1]];
        wifu_wire::ipv4::parse(packet).is_ok()
            && covered(packet, start, checksum).finish() == u16::from_be_bytes(found)
    }

    #[test]
    fn a_changed_segment_has_a_right_checksum_and_a_wrong_one_stays_wrong() {
        let mut rng = Rng::new(7);
        for round in 0..2000 {
            let proto = if round % 2 == 0 { TCP } else { ip::UDP };
            let body = 24 + (rng.next_u64() % 60) as usize;
            let mut original = packet(proto, body, &mut rng);
            let wrong = round % 5 == 0;
            if wrong {
                let at = original.len() - 1;
                original[at] ^= 0x10;
            }
            let mut room = Vec::new();
            let mut octets = Borrowed::new(&original, &mut room);
            match round % 3 {
                0 => octets.get_mut()[41] = rng.next_u64() as u8,
                1 => octets.get_mut()[15] = 77,
                _ => {
                    let mut longer = octets.get().to_vec();
                    longer.extend_from_slice(&[1, 2, 3, 4, 5]);
                    octets.replace(&longer);
                }
            }
            let after = octets.repaired().unwrap().to_vec();
            assert_eq!(is_right(&after), !wrong, "round {round}");
        }
    }

    #[test]
    fn a_change_to_a_first_fragment_is_in_the_checksum_of_the_whole() {
        let mut rng = Rng::new(10);
        for proto in [TCP, ip::UDP] {
            let whole = packet(proto, 64, &mut rng);
            let mut first = whole[..20 + 40].to_vec();
            first[6] = 0x20;
            ip::repair(&mut first);
            let mut room = Vec::new();
            let mut octets = Borrowed::new(&first, &mut room);
            octets.get_mut()[50] ^= 0x5A;
            let changed = octets.repaired().unwrap();
            let mut again = [changed, &whole[60..]].concat();
            again[6] = 0;
            ip::repair(&mut again);
            assert!(is_right(&again), "{proto}");
            // Nothing can be right of a longer one.
            let mut octets = Borrowed::new(&first, &mut room);
            let longer = [&first[..], &[0; 8]].concat();
            octets.replace(&longer);
            let (start, checksum) = transport(&first).unwrap();
            let field = start + checksum..start + checksum + 2;
            let after = octets.repaired().unwrap();
            assert_eq!(after[field.clone()], first[field]);
        }
    }

    #[test]
    fn a_checksum_that_was_not_filled_in_is_computed() {
        let mut rng = Rng::new(8);
        for proto in [TCP, ip::UDP] {
            let mut original = packet(proto, 40, &mut rng);
            let (start, checksum) = transport(&original).unwrap();
            original[start + checksum] ^= 0x55;
            let mut room = Vec::new();
            let mut copies = Copies::default();
            copies.set_room(1000);
            let octets = Borrowed::new(&original, &mut room).partial(true);
            let mut octets = octets.kept_in(&mut copies, true);
            let before = octets.copy().unwrap();
            octets.get_mut()[50] = 1;
            let after = octets.copy().unwrap();
            let changed = octets.repaired().unwrap();
            assert!(is_right(changed));
            assert_eq!(copies.get(after), Some(changed));
            let before = copies.get(before).unwrap();
            assert!(is_right(before) && before[50] == original[50], "{proto}");
            let part = Borrowed::new(&original, &mut room);
            assert_eq!(part.kept_in(&mut copies, false).copy(), None);
        }
    }

    #[test]
    fn unchanged_packets_are_not_copied_and_foreign_ones_not_touched() {
        let mut rng = Rng::new(9);
        let original = packet(214, 40, &mut rng);
        let mut room = Vec::new();
        assert_eq!(
            Borrowed::new(&original, &mut room).partial(true).repaired(),
            None
        );
        let mut octets = Borrowed::new(&original, &mut room);
        octets.get_mut()[39] ^= 1;
        let mut wanted = original.clone();
        wanted[39] ^= 1;
        assert_eq!(octets.repaired(), Some(&wanted[..]));
        // UDP without a checksum keeps none.
        let mut plain = packet(ip::UDP, 40, &mut rng);
        plain[26..28].fill(0);
        let mut octets = Borrowed::new(&plain, &mut room);
        octets.get_mut()[45] ^= 1;
        assert_eq!(octets.repaired().unwrap()[26..28], [0, 0]);
    }
}

//! Packets that were let go and of which the driver has not reported yet, found again by what stays
//! the same in a packet between our hook and the air.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wifu_core::{Hook, ip};
use wifu_wire::numbers::TCP;
use wifu_wire::{Span, Time};

/// As many are remembered; beyond that, the oldest leaves.
const MOST: usize = 8192;
/// A driver reports in the order in which it got its frames: who is overtaken by one that was let
/// go this much later will not come.
const OVERTAKEN: Span = Span(100_000_000);
/// While nothing is reported, packets are waited for this long.
const PATIENCE: Span = Span(2_000_000_000);
/// Octets of what follows the IP header that count.
const COUNTED: usize = 64;

/// A packet that was let go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gone {
    /// The hook that let it go.
    pub hook: Hook,
    /// What the handlers know it by.
    pub ticket: u64,
    /// Towards the interface with this number.
    pub device: u32,
    pub at: Time,
}

/// Packets that were let go and of which no report has come yet, oldest first.
#[derive(Default)]
pub(crate) struct Pending {
    entries: VecDeque<Option<(u64, Gone)>>,
    /// Number of the first entry.
    first: u64,
    /// Numbers of entries, by hash.
    places: BTreeSet<(u64, u64)>,
    /// Numbers of entries that have not passed Postrouting, by hash and interface.
    before_last: BTreeSet<(u64, u32, u64)>,
    /// How many there are, by interface.
    counts: BTreeMap<u32, u32>,
    /// Packets that left the list without a report.
    lost: u64,
    /// Their tickets, until somebody takes them.
    left: Vec<u64>,
    matched_at: Time,
}

impl Pending {
    /// A packet of this hash is let go. If it passed another hook before, it is known by its new
    /// ticket from now on.
    pub fn add(&mut self, hash: u64, gone: Gone) {
        if gone.hook == Hook::Postrouting && self.pass_last(hash, gone) {
            return;
        }
        if self.entries.len() >= MOST {
            self.leave();
        }
        let number = self.first + self.entries.len() as u64;
        self.places.insert((hash, number));
        if gone.hook != Hook::Postrouting {
            self.before_last.insert((hash, gone.device, number));
        }
        self.entries.push_back(Some((hash, gone)));
        *self.counts.entry(gone.device).or_default() += 1;
    }

    /// A packet passes its last hook: of equal ones, the oldest that has not. Gives whether there
    /// is one.
    fn pass_last(&mut self, hash: u64, gone: Gone) -> bool {
        let equal = (hash, gone.device, 0)..=(hash, gone.device, u64::MAX);
        let Some(&found) = self.before_last.range(equal).next() else {
            return false;
        };
        self.before_last.remove(&found);
        let at = (found.2 - self.first) as usize;
        let Some(Some((_, before))) = self.entries.get_mut(at) else {
            return false;
        };
        *before = gone;
        true
    }

    /// The driver reports a packet of this hash: the oldest such leaves, and so do those that it
    /// overtook long ago.
    pub fn settle(&mut self, hash: u64, now: Time) -> Option<Gone> {
        let found = self.places.range((hash, 0)..=(hash, u64::MAX)).next();
        let (_, number) = *found?;
        let gone = self.take((number - self.first) as usize)?;
        self.matched_at = now;
        self.drop_older(|at| gone.at - at > OVERTAKEN);
        Some(gone)
    }

    /// Do not wait any longer for what should have been reported long ago.
    pub fn tidy(&mut self, now: Time) {
        if now - self.matched_at > PATIENCE {
            self.drop_older(|at| now - at > PATIENCE);
        }
    }

    /// How many there are on these interfaces.
    pub fn queued(&self, devices: &BTreeSet<u32>) -> u32 {
        devices.iter().filter_map(|d| self.counts.get(d)).sum()
    }

    /// How many left without a report.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The tickets of those that left without a report since the last call.
    pub fn take_left(&mut self) -> std::vec::Drain<'_, u64> {
        self.left.drain(..)
    }

    fn drop_older(&mut self, is_old: impl Fn(Time) -> bool) {
        while let Some(first) = self.entries.front() {
            match first {
                Some((_, gone)) if !is_old(gone.at) => return,
                _ => self.leave(),
            }
        }
    }

    /// Give up waiting for the report of the oldest.
    fn leave(&mut self) {
        if let Some(gone) = self.take(0) {
            self.lost += 1;
            self.left.push(gone.ticket);
        }
        self.entries.pop_front();
        self.first += 1;
    }

    fn take(&mut self, at: usize) -> Option<Gone> {
        let (hash, gone) = self.entries.get_mut(at)?.take()?;
        let number = self.first + at as u64;
        self.places.remove(&(hash, number));
        self.before_last.remove(&(hash, gone.device, number));
        if let Some(count) = self.counts.get_mut(&gone.device) {
            *count = count.saturating_sub(1);
        }
        Some(gone)
    }
}

/// A number that a packet keeps between a hook and the air: of addresses, protocol, length,
/// identification and fragment offset, and of the first octets behind the IP header but for
/// checksums, which may be filled in later. `None`: no IPv4 packet.
pub(crate) fn hash_of(packet: &[u8]) -> Option<u64> {
    let body = ip::payload(packet)?;
    let payload = packet.get(body)?;
    let counted = &payload[..payload.len().min(COUNTED)];
    let checksum = match packet[9] {
        TCP => 16..18,
        ip::UDP => 6..8,
        _ => 0..0,
    };
    // FNV-1a.
    let mix = |hash: u64, octet: &u8| (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01B3);
    let head = packet[2..8]
        .iter()
        .chain(&packet[9..10])
        .chain(&packet[12..20]);
    let hash = head.fold(0xCBF2_9CE4_8422_2325, mix);
    let kept = counted
        .iter()
        .enumerate()
        .filter(|(i, _)| !checksum.contains(i));
    Some(kept.map(|(_, octet)| octet).fold(hash, mix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(hook: Hook, ticket: u64, ms: u64) -> Gone {
        Gone {
            hook,
            ticket,
            device: 2,
            at: Time(ms * 1_000_000),
        }
    }

    fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    #[test]
    fn the_same_octets_are_matched_in_the_order_in_which_they_left() {
        let mut p = Pending::default();
        for ticket in 1..=3 {
            p.add(7, gone(Hook::Output, ticket, ticket));
        }
        p.add(8, gone(Hook::Forward, 4, 4));
        let devices = BTreeSet::from([2]);
        assert_eq!(p.queued(&devices), 4);
        let mut settle = |hash| p.settle(hash, ms(9)).map(|g| g.ticket);
        assert_eq!(
            [settle(7), settle(8), settle(7)],
            [Some(1), Some(4), Some(2)]
        );
        assert_eq!([settle(7), settle(7), settle(9)], [Some(3), None, None]);
        assert_eq!((p.queued(&devices), p.lost()), (0, 0));
        assert!(p.places.is_empty() && p.before_last.is_empty());
    }

    #[test]
    fn a_packet_that_passes_two_hooks_is_one_packet() {
        let mut p = Pending::default();
        p.add(7, gone(Hook::Output, 1, 1));
        p.add(7, gone(Hook::Postrouting, 2, 2));
        assert_eq!(p.queued(&BTreeSet::from([2])), 1);
        p.add(7, gone(Hook::Postrouting, 3, 3));
        let tickets = [5, 6, 7].map(|at| p.settle(7, ms(at)).map(|g| g.ticket));
        assert_eq!(tickets, [Some(2), Some(3), None]);
    }

    #[test]
    fn equal_packets_that_pass_two_hooks_keep_their_order() {
        let mut p = Pending::default();
        let both = BTreeSet::from([2, 3]);
        for ticket in 0..10 {
            p.add(7, gone(Hook::Output, ticket, 1));
        }
        let elsewhere = Gone {
            device: 3,
            ..gone(Hook::Postrouting, 99, 2)
        };
        p.add(7, elsewhere);
        for ticket in 10..20 {
            p.add(7, gone(Hook::Postrouting, ticket, 2));
        }
        assert_eq!(p.queued(&both), 11);
        let tickets: Vec<u64> = core::iter::from_fn(|| p.settle(7, ms(3)))
            .map(|g| g.ticket)
            .collect();
        // The one towards elsewhere came after those that passed both hooks.
        assert_eq!(tickets, Vec::from_iter((10..20).chain([99])));
        assert_eq!((p.queued(&both), p.lost()), (0, 0));
    }

    #[test]
    fn who_is_not_reported_leaves_in_time() {
        let devices = BTreeSet::from([2]);
        let mut p = Pending::default();
        p.add(1, gone(Hook::Output, 1, 0));
        p.add(2, gone(Hook::Output, 2, 90));
        p.add(3, gone(Hook::Output, 3, 150));
        assert_eq!(p.settle(3, ms(151)).map(|g| g.ticket), Some(3));
        assert_eq!(
            (p.queued(&devices), p.lost()),
            (1, 1),
            "one was overtaken long ago"
        );
        p.tidy(ms(2100));
        assert_eq!(p.queued(&devices), 1);
        p.tidy(ms(2200));
        assert_eq!((p.queued(&devices), p.lost()), (0, 2));
        assert!(p.entries.is_empty() && p.places.is_empty() && p.before_last.is_empty());
    }

    #[test]
    fn there_are_never_more_than_fit() {
        let mut p = Pending::default();
        for i in 0..MOST as u64 + 10 {
            p.add(i, gone(Hook::Output, i, 1));
        }
        assert_eq!((p.entries.len(), p.lost()), (MOST, 10));
        assert_eq!(p.settle(9, ms(2)), None);
        assert_eq!(p.settle(10, ms(2)).map(|g| g.ticket), Some(10));
    }

    #[test]
    fn what_changes_on_the_way_does_not_count_and_all_else_does() {
        for (protocol, checksum) in [(6, Some(36)), (17, Some(26)), (253, None)] {
            let mut packet: Vec<u8> = (0..120).collect();
            packet[0] = 0x45;
            packet[6..8].fill(0);
            packet[2..4].copy_from_slice(&120u16.to_be_bytes());
            packet[9] = protocol;
            let hash = hash_of(&packet).unwrap();
            let free: Vec<usize> = [1, 8, 10, 11].into_iter().chain(checksum).collect();
            for at in 1..84 {
                let mut other = packet.clone();
                other[at] ^= 1;
                let same = hash_of(&other) == Some(hash);
                let checksum = checksum.is_some_and(|c| at == c || at == c + 1);
                // A wrong length is no packet of the same kind, or none at all.
                assert_eq!(
                    same,
                    free.contains(&at) || checksum,
                    "{protocol}: byte {at}"
                );
            }
        }
        assert_eq!(hash_of(&[0x45; 10]), None);
        assert_eq!(hash_of(&[]), None);
    }
}

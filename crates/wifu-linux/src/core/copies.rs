//! Copies of packets that handlers keep.

use std::collections::BTreeMap;

/// Copies, by their tickets. They share the memory that is granted for packets that are held.
#[derive(Default)]
pub(crate) struct Copies {
    kept: BTreeMap<u64, Vec<u8>>,
    next: u64,
    octets: usize,
    /// What all of them may take, octets.
    room: usize,
    refused: u64,
}

impl Copies {
    /// All of them may take so many octets.
    pub(crate) fn set_room(&mut self, octets: usize) {
        self.room = octets;
    }

    /// Keep these octets; `None` if there is no room.
    pub(crate) fn keep(&mut self, octets: Vec<u8>) -> Option<u64> {
        if self.octets + octets.len() > self.room {
            self.refused += 1;
            return None;
        }
        self.octets += octets.len();
        self.next += 1;
        self.kept.insert(self.next, octets);
        Some(self.next)
    }

    /// The octets of a copy.
    pub(crate) fn get(&self, ticket: u64) -> Option<&[u8]> {
        self.kept.get(&ticket).map(Vec::as_slice)
    }

    /// Forget a copy.
    pub(crate) fn forget(&mut self, ticket: u64) {
        if let Some(gone) = self.kept.remove(&ticket) {
            self.octets -= gone.len();
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// What all of them take, octets.
    pub(crate) fn octets(&self) -> usize {
        self.octets
    }

    /// Copies for which there was no room, since the last call.
    pub(crate) fn take_refused(&mut self) -> u64 {
        core::mem::take(&mut self.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_take_no_more_than_their_room() {
        let mut copies = Copies::default();
        assert_eq!((copies.keep(vec![1]), copies.take_refused()), (None, 1));
        copies.set_room(10);
        let first = copies.keep(vec![1; 6]).unwrap();
        assert_eq!(copies.keep(vec![2; 5]), None);
        let second = copies.keep(vec![3; 4]).unwrap();
        assert_eq!((copies.len(), copies.octets()), (2, 10));
        assert_eq!(copies.get(first), Some(&[1; 6][..]));
        copies.forget(first);
        copies.forget(first);
        assert_eq!(
            (copies.get(first), copies.get(second)),
            (None, Some(&[3; 4][..]))
        );
        assert_eq!((copies.octets(), copies.take_refused()), (4, 1));
    }
}

//! What the lane and the ends of Hop share: the words of blocks, and what is missing of one.

use crate::descriptor::WordSpec;
use wifu_wire::{Head, RANGES, Seq};

/// Number of the first packet of a block.
pub const BLOCK: WordSpec = WordSpec::new("block", 32);
/// Packets of a block.
pub const SIZE: WordSpec = WordSpec::new("size", 16);
/// Which question of its sender a BSYN is, and a BACK answers; 0: of the source's end.
pub const ROUND: WordSpec = WordSpec::new("round", 8).by_hops();
/// A BSYN rides on the packet.
pub const ASK: WordSpec = WordSpec::new("ask", 1).by_hops();
/// The most packets of a block: a megabyte of them, and some.
pub const MOST: u32 = 1_024;
/// A BSYN of the source's end, or of who handed the block on already or got it beyond its places.
pub const VTX: WordSpec = WordSpec::new("vtx", 1);

/// Put on `head` which of the numbers from `first` to before `end` are missing, as runs, the lowest
/// first: as many runs as a list holds.
pub fn list_missing(head: &mut Head, first: Seq, end: Seq, missing: impl Fn(Seq) -> bool) {
    let mut at = first;
    while at.before(end) {
        let from = at;
        while at.before(end) && missing(at) {
            at = at.plus(1);
        }
        if at.after(from) && !head.push_range((from, at)) {
            return;
        }
        at = at.plus(1);
    }
}

/// One past the last number of a block up to `end` of which the list of `head` tells: a full one
/// may have been cut.
pub fn told_upto(head: &Head, end: Seq) -> Seq {
    let runs = head.ranges();
    let last = runs.last().filter(|_| runs.len() >= RANGES);
    last.map_or(end, |run| run.1.earlier(end))
}

/// Whether the list of `head` names `number`.
pub fn names(head: &Head, number: Seq) -> bool {
    let mut ranges = head.ranges().iter();
    ranges.any(|r| r.0.upto(number) && number.before(r.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes after its last run a full list does not tell.
    #[test]
    fn a_list_that_is_full_tells_only_what_is_before_its_end() {
        let (first, end) = (Seq(1), Seq(1).plus(MOST));
        for (every, upto) in [(2, first.plus(2 * RANGES as u32 - 1)), (16, end)] {
            let mut head = Head::default();
            list_missing(&mut head, first, end, |n| n.since(first) % every == 0);
            assert_eq!(told_upto(&head, end), upto, "{every}");
        }
    }

    #[test]
    fn runs_of_a_block_over_the_wrap_are_named_and_found() {
        let (mut head, first) = (Head::default(), Seq(u32::MAX - 2));
        let gone = [0, 1, 4, 7].map(|n| first.plus(n));
        list_missing(&mut head, first, first.plus(8), |n| gone.contains(&n));
        assert_eq!(
            head.ranges(),
            [(first, Seq(u32::MAX)), (Seq(1), Seq(2)), (Seq(4), Seq(5))]
        );
        for n in 0..8 {
            let number = first.plus(n);
            assert_eq!(names(&head, number), gone.contains(&number), "{n}");
        }
    }
}

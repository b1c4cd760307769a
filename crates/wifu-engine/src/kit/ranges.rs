//! A bounded list of ranges in sequence space.

use wifu_wire::{Head, Seq};

/// Sorted, disjoint, not adjacent ranges `start..end`. Memory for a few is taken by
/// [`Ranges::prepare`], for more when they come, up to the limit.
#[derive(Clone, Debug)]
pub struct Ranges {
    list: Vec<(Seq, Seq)>,
    limit: usize,
}

const FEW: usize = 255;

impl Ranges {
    /// Room for `limit` ranges.
    pub fn new(limit: usize) -> Ranges {
        Ranges {
            list: Vec::new(),
            limit,
        }
    }

    /// Take memory for a few, if that was not done: what is not used yet has none.
    #[inline]
    pub fn prepare(&mut self) {
        if self.list.capacity() == 0 {
            self.list.reserve_exact(self.limit.min(FEW) + 1);
        }
    }

    /// The ranges, in order.
    #[inline]
    pub fn list(&self) -> &[(Seq, Seq)] {
        &self.list
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Forget all.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// How much they cover.
    #[inline]
    pub fn total(&self) -> u32 {
        self.list.iter().map(|r| r.1.since(r.0)).sum()
    }

    /// How much of `from..to` they do not cover.
    #[inline]
    pub fn missing(&self, from: Seq, to: Seq) -> u32 {
        if !to.after(from) {
            return 0;
        }
        let covered = self.list.iter().map(|r| {
            let (a, b) = (r.0.later(from), r.1.earlier(to));
            b.beyond(a)
        });
        to.since(from) - covered.sum::<u32>()
    }

    /// Enter a range; returns how much of it was new. When the list is full the farthest range is
    /// forgotten.
    pub fn insert(&mut self, mut start: Seq, mut end: Seq) -> u32 {
        let first = self.list.iter().take_while(|r| r.1.before(start)).count();
        let last = first
            + self.list[first..]
                .iter()
                .take_while(|r| r.0.upto(end))
                .count();
        let mut known = 0;
        for r in &self.list[first..last] {
            known += r.1.since(r.0);
            start = start.earlier(r.0);
            end = end.later(r.1);
        }
        if last == first + 1 && self.list[first] == (start, end) {
            return 0;
        }
        self.list.drain(first..last);
        self.list.insert(first, (start, end));
        if self.list.len() > self.limit {
            self.list.pop();
        }
        end.since(start) - known
    }

    /// Forget everything before `upto`; returns how much that was.
    pub fn forget(&mut self, upto: Seq) -> u32 {
        let mut gone = 0;
        let passed = self.list.iter().take_while(|r| r.1.upto(upto)).count();
        for r in self.list.drain(..passed) {
            gone += r.1.since(r.0);
        }
        if let Some(r) = self.list.first_mut()
            && r.0.before(upto)
        {
            gone += upto.since(r.0);
            r.0 = upto;
        }
        gone
    }

    /// The range that covers `at`.
    pub fn covering(&self, at: Seq) -> Option<(Seq, Seq)> {
        self.list
            .iter()
            .copied()
            .find(|r| r.0.upto(at) && at.before(r.1))
    }

    /// The first range that starts after `at`.
    pub fn next_after(&self, at: Seq) -> Option<(Seq, Seq)> {
        self.list.iter().copied().find(|r| r.0.after(at))
    }
}

/// The ranges that a segment reports and that lie in what is outstanding, `una..max`: by distance
/// from `una`, since serial comparison finds nonsense far away in good order.
pub fn reported(head: &Head, una: Seq, max: Seq) -> impl Iterator<Item = &(Seq, Seq)> + Clone {
    let flight = max.since(una);
    head.ranges().iter().filter(move |(a, b)| {
        let (a, b) = (a.since(una), b.since(una));
        0 < a && a < b && b <= flight
    })
}

/// Ranges of one segment by rising number, from `una` on: a segment reports its newest first.
pub fn in_order<'a>(
    ranges: impl Iterator<Item = &'a (Seq, Seq)> + Clone,
    una: Seq,
) -> impl Iterator<Item = (Seq, Seq)> {
    let place = move |r: &(Seq, Seq)| (r.0.since(una), r.1.since(una));
    let mut last = None;
    core::iter::from_fn(move || {
        let later = |r: &&(Seq, Seq)| last.is_none_or(|l| place(r) > l);
        let next = *ranges.clone().filter(later).min_by_key(|r| place(r))?;
        last = Some(place(&next));
        Some(next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_are_forgotten() {
        let mut r = Ranges::new(8);
        assert_eq!(r.insert(Seq(10), Seq(20)), 10);
        assert_eq!(r.insert(Seq(30), Seq(40)), 10);
        assert_eq!(r.insert(Seq(12), Seq(18)), 0);
        assert_eq!(r.insert(Seq(15), Seq(32)), 10);
        assert_eq!(r.list(), [(Seq(10), Seq(40))]);
        assert_eq!(r.forget(Seq(25)), 15);
        assert_eq!(r.covering(Seq(39)), Some((Seq(25), Seq(40))));
        assert_eq!(r.covering(Seq(40)), None);
    }

    #[test]
    fn the_list_is_bounded() {
        let mut r = Ranges::new(3);
        for i in 0..10 {
            r.insert(Seq(i * 10), Seq(i * 10 + 5));
        }
        assert_eq!(r.list().len(), 3);
    }
}

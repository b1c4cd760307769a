//! An indexed heap: one deadline per connection, the earliest on top.

use wifu_wire::Time;

const NOWHERE: u32 = u32::MAX;

/// Deadlines by slot number. Ties go to the lower slot, so that order depends on nothing else.
#[derive(Debug, Default)]
pub struct Deadlines {
    heap: Vec<(Time, u32)>,
    place: Vec<u32>,
}

impl Deadlines {
    /// The earliest deadline and whose it is.
    pub fn first(&self) -> Option<(Time, u32)> {
        self.heap.first().copied()
    }

    /// Set, move or (with [`Time::NEVER`]) remove a slot's deadline.
    pub fn set(&mut self, slot: u32, at: Time) {
        let i = slot as usize;
        if self.place.len() <= i {
            self.place.resize(i + 1, NOWHERE);
        }
        match (self.place[i], at == Time::NEVER) {
            (NOWHERE, true) => {}
            (NOWHERE, false) => {
                self.place[i] = self.heap.len() as u32;
                self.heap.push((at, slot));
                self.up(self.heap.len() - 1);
            }
            (p, true) => {
                let p = p as usize;
                self.place[i] = NOWHERE;
                let Some(last) = self.heap.pop() else { return };
                if p < self.heap.len() {
                    self.heap[p] = last;
                    self.place[last.1 as usize] = p as u32;
                    self.up(p);
                    self.down(p);
                }
            }
            (p, false) => {
                let p = p as usize;
                if self.heap[p].0 != at {
                    self.heap[p].0 = at;
                    self.up(p);
                    self.down(self.place[i] as usize);
                }
            }
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a].1 as usize] = a as u32;
        self.place[self.heap[b].1 as usize] = b as u32;
    }

    fn up(&mut self, mut p: usize) {
        while p > 0 && self.heap[p] < self.heap[(p - 1) / 2] {
            self.swap(p, (p - 1) / 2);
            p = (p - 1) / 2;
        }
    }

    fn down(&mut self, mut p: usize) {
        loop {
            let (left, right) = (2 * p + 1, 2 * p + 2);
            let mut least = p;
            for child in [left, right] {
                if child < self.heap.len() && self.heap[child] < self.heap[least] {
                    least = child;
                }
            }
            if least == p {
                return;
            }
            self.swap(p, least);
            p = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_wire::Rng;

    #[test]
    fn the_earliest_is_first_after_any_changes() {
        let (mut heap, mut plain) = (Deadlines::default(), vec![Time::NEVER; 40]);
        let mut rng = Rng::new(3);
        for _ in 0..5000 {
            let slot = rng.below(40) as u32;
            let at = if rng.below(4) == 0 {
                Time::NEVER
            } else {
                Time(rng.below(100))
            };
            heap.set(slot, at);
            plain[slot as usize] = at;
            let least = (0..40u32).map(|i| (plain[i as usize], i)).min().unwrap();
            let expected = (least.0 != Time::NEVER).then_some(least);
            assert_eq!(heap.first(), expected);
        }
    }
}

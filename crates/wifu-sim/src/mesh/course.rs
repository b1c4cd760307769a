//! When in a run octets were delivered, in bins whose width grows with the run.

use wifu_wire::Time;

/// Of a run that is over half of these or more are full.
const BINS: usize = 128;

/// At first a bin has 2^23 ns, some 8 ms, of which all together have a second.
const FIRST_SHIFT: u32 = 23;

/// Octets by when they were delivered.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    /// A bin is 2^shift nanoseconds wide.
    shift: u32,
    octets: Vec<u64>,
}

impl Default for Course {
    fn default() -> Course {
        Course {
            shift: FIRST_SHIFT,
            octets: Vec::new(),
        }
    }
}

impl Course {
    /// So many were delivered.
    pub(crate) fn add(&mut self, now: Time, octets: u64) {
        while !self.counted(now, octets) {
            self.make_room();
        }
    }

    /// Counts them if there is a bin of that time.
    fn counted(&mut self, now: Time, octets: u64) -> bool {
        let bin = self.octets.get_mut((now.0 >> self.shift) as usize);
        bin.map(|bin| *bin += octets).is_some()
    }

    /// The first bins; later on two bins become one.
    #[cold]
    fn make_room(&mut self) {
        if self.octets.is_empty() {
            self.octets.resize(BINS, 0);
            return;
        }
        self.shift += 1;
        for bin in 0..BINS / 2 {
            self.octets[bin] = self.octets[2 * bin] + self.octets[2 * bin + 1];
        }
        self.octets[BINS / 2..].fill(0);
    }

    /// How many were delivered from a time on; those of its bin as if they had come evenly.
    pub(crate) fn since(&self, at: Time) -> u64 {
        let bin = (at.0 >> self.shift) as usize;
        let width = 1u128 << self.shift;
        let left = width - (u128::from(at.0) & (width - 1));
        let of = |n: usize| self.octets.get(n).copied().unwrap_or(0);
        let part = u128::from(of(bin)) * left / width;
        let later: u64 = self.octets.iter().skip(bin + 1).sum();
        later + part as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An octet a millisecond, for so many seconds.
    fn even(seconds: u64) -> Course {
        let mut course = Course::default();
        for ms in 0..seconds * 1000 {
            course.add(Time(ms * 1_000_000), 1);
        }
        course
    }

    #[test]
    fn what_came_since_a_time_is_known_to_a_bin() {
        for seconds in [1, 7, 60, 600] {
            let course = even(seconds);
            for part in [0, 1, 2, 3] {
                let at = Time(seconds * 1_000_000_000 * part / 4);
                let rest = seconds * 1000 * (4 - part) / 4;
                let error = course.since(at).abs_diff(rest);
                assert!(error <= seconds * 1000 / 64 + 1, "{seconds} {part} {error}");
            }
        }
        assert_eq!(even(5).since(Time(9_000_000_000)), 0);
        assert_eq!(Course::default().since(Time(0)), 0);
    }

    #[test]
    fn what_comes_after_a_long_pause_is_late() {
        let mut course = even(1);
        course.add(Time(3_600_000_000_000), 7);
        assert_eq!(course.since(Time(1_800_000_000_000)), 7);
        assert_eq!(course.since(Time(0)), 1007);
        // Time has an end, and so has the widest bin.
        course.add(Time(u64::MAX - 1), 1);
        assert_eq!(course.since(Time(u64::MAX / 2)), 1);
    }
}

//! The largest of recent values.

/// A windowed maximum by K. Nichols' algorithm: the best of the window, and the best of what came
/// after each, so that one is there when another expires. Three samples, whatever the window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peak {
    /// When, and how much; the largest first.
    best: [(u64, u32); 3],
}

impl Peak {
    //= bbr-draft#updating-the-bbrmaxbw-max-filter
    /// A value at `now`, in whatever unit the window is: the largest of the last `window` units.
    pub fn add(&mut self, window: u64, now: u64, value: u32) -> u32 {
        let new = (now, value);
        if value >= self.best[0].1 || now - self.best[2].0 > window {
            self.best = [new; 3];
            return value;
        }
        if value >= self.best[1].1 {
            (self.best[1], self.best[2]) = (new, new);
        } else if value >= self.best[2].1 {
            self.best[2] = new;
        }
        let age = now - self.best[0].0;
        if age > window {
            // The best one is too old, and perhaps the next.
            self.best = [self.best[1], self.best[2], new];
            if now - self.best[0].0 > window {
                self.best = [self.best[1], self.best[2], new];
            }
        } else if self.best[1].0 == self.best[0].0 && age > window / 4 {
            (self.best[1], self.best[2]) = (new, new);
        } else if self.best[2].0 == self.best[1].0 && age > window / 2 {
            self.best[2] = new;
        }
        self.best[0].1
    }

    /// The largest at the last [`Peak::add`].
    pub fn value(&self) -> u32 {
        self.best[0].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_the_window_and_then_the_next_one() {
        let mut p = Peak::default();
        let mut seen = Vec::new();
        for (at, value) in [
            (0, 50),
            (1, 90),
            (2, 10),
            (4, 70),
            (6, 20),
            (7, 60),
            (9, 5),
            (11, 5),
            (12, 5),
            (14, 5),
            (15, 5),
            (18, 5),
        ] {
            seen.push(p.add(10, at, value));
        }
        assert_eq!(seen, [50, 90, 90, 90, 90, 90, 90, 90, 70, 70, 60, 5]);
        assert_eq!(p.value(), 5);
    }

    /// Against all values: never less than the largest of the last quarter of the window, never
    /// one that is older than the window.
    #[test]
    fn no_value_is_kept_beyond_the_window() {
        let mut rng = wifu_wire::Rng::new(7);
        let (mut p, mut all) = (Peak::default(), Vec::new());
        for now in 0..5000u64 {
            let value = rng.below(1000) as u32;
            all.push(value);
            let most = p.add(20, now, value);
            let since = |age: u64| &all[now.saturating_sub(age) as usize..];
            assert!(since(21).contains(&most), "{now}");
            assert!(since(5).iter().all(|v| *v <= most), "{now}");
        }
    }
}

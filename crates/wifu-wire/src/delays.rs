//! Many delays in little memory: how many there were of each size.

use crate::Span;

/// Classes in which delays of one octave (from one power of two to the next) are counted.
const PARTS: u64 = 16;
/// Octaves above the first, which is counted exactly: up to 2^36 us, 19 hours.
const OCTAVES: usize = 32;
/// All classes.
const CLASSES: usize = (OCTAVES + 1) * PARTS as usize;

/// Delays, counted by size in classes of microseconds, each at most 1/16 as wide as it is long.
///
/// Memory is taken once, with the first delay; what is read from it is within 1/16 of the truth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    counts: Vec<u32>,
    total: u64,
}

/// The class of a delay in microseconds.
fn class(us: u64) -> usize {
    if us < PARTS {
        return us as usize;
    }
    let octave = u64::from(us.ilog2());
    let part = (us >> (octave - 4)) & (PARTS - 1);
    let class = (octave - 3) * PARTS + part;
    (class as usize).min(CLASSES - 1)
}

/// Where a class begins, microseconds.
fn floor(class: usize) -> u64 {
    let class = class as u64;
    if class < PARTS {
        return class;
    }
    let (octave, part) = (class / PARTS + 3, class % PARTS);
    (PARTS + part) << (octave - 4)
}

impl Delays {
    /// Count one more.
    #[inline]
    pub fn add(&mut self, delay: Span) {
        self.add_many(class(delay.0 / 1_000), 1);
    }

    fn add_many(&mut self, class: usize, n: u32) {
        if self.counts.is_empty() {
            self.counts.resize(CLASSES, 0);
        }
        self.counts[class] = self.counts[class].saturating_add(n);
        self.total += u64::from(n);
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Those of another one as well.
    pub fn merge(&mut self, other: &Delays) {
        for (class, n) in other.classes() {
            self.add_many(class, n);
        }
    }

    /// Without those that were counted `before` already.
    #[must_use]
    pub fn since(&self, before: &Delays) -> Delays {
        let mut rest = Delays::default();
        for (class, n) in self.classes() {
            let old = before.counts.get(class).copied().unwrap_or(0);
            if n > old {
                rest.add_many(class, n - old);
            }
        }
        rest
    }

    /// The delay that a share `q` (0 to 1) of all is below, in seconds: delays of a class are taken
    /// to lie evenly in it. None if there are none.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if self.total == 0 {
            return None;
        }
        let rank = q.clamp(0.0, 1.0) * self.total as f64;
        let mut below = 0.0;
        for (class, n) in self.classes() {
            let n = f64::from(n);
            if below + n >= rank {
                let (from, to) = (floor(class) as f64, floor(class + 1) as f64);
                return Some((from + (to - from) * (rank - below) / n) / 1e6);
            }
            below += n;
        }
        None
    }

    /// As text of at most `limit` bytes (and never less than one class): `CLASS:COUNT`, with spaces
    /// between. What would be longer has neighbouring classes counted as the upper of them.
    pub fn to_text(&self, limit: usize) -> String {
        let mut rows: Vec<(usize, u32)> = self.classes().collect();
        let mut width = 1;
        loop {
            let words: Vec<String> = rows.iter().map(|(c, n)| format!("{c}:{n}")).collect();
            let text = words.join(" ");
            if text.len() <= limit || rows.len() <= 1 {
                return text;
            }
            width *= 2;
            rows = joined(&rows, width);
        }
    }

    /// What [`Delays::to_text`] wrote; none if it is something else.
    pub fn from_text(text: &str) -> Option<Delays> {
        let mut found = Delays::default();
        for word in text.split_ascii_whitespace() {
            let (class, n) = word.split_once(':')?;
            let class = class.parse().ok().filter(|c| *c < CLASSES)?;
            found.add_many(class, n.parse().ok()?);
        }
        Some(found)
    }

    fn classes(&self) -> impl Iterator<Item = (usize, u32)> {
        let all = self.counts.iter().copied().enumerate();
        all.filter(|(_, n)| *n > 0)
    }
}

/// Rows of classes and counts with so many classes taken together.
fn joined(rows: &[(usize, u32)], width: usize) -> Vec<(usize, u32)> {
    let mut all: Vec<(usize, u32)> = Vec::new();
    for (class, n) in rows {
        let class = (class / width * width + width - 1).min(CLASSES - 1);
        match all.last_mut() {
            Some(last) if last.0 == class => last.1 = last.1.saturating_add(*n),
            _ => all.push((class, *n)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    fn us(n: u64) -> Span {
        Span(n * 1_000)
    }

    #[test]
    fn classes_follow_each_other_and_are_narrow() {
        for c in 0..CLASSES - 1 {
            let (from, to) = (floor(c), floor(c + 1));
            assert!(from < to, "{c}");
            assert_eq!((class(from), class(to - 1)), (c, c), "{from}..{to}");
            assert!(from < PARTS || (to - from) * PARTS <= from, "{from}..{to}");
        }
        assert_eq!(class(u64::MAX / 1_000), CLASSES - 1);
    }

    #[test]
    fn quantiles_are_within_a_sixteenth_of_those_of_the_sorted_delays() {
        let (mut rng, mut delays) = (Rng::new(7), Delays::default());
        assert_eq!(delays.quantile(0.5), None);
        let mut all: Vec<u64> = (0..20_000).map(|_| 50 + rng.below(400_000)).collect();
        for n in &all {
            delays.add(us(*n));
        }
        all.sort_unstable();
        for q in [0.01, 0.5, 0.95, 0.99, 1.0] {
            let truth = all[((q * all.len() as f64) as usize).min(all.len() - 1)] as f64 / 1e6;
            let found = delays.quantile(q).unwrap();
            assert!(
                (found / truth - 1.0).abs() < 1.0 / 16.0,
                "{q}: {found} {truth}"
            );
        }
    }

    #[test]
    fn texts_come_back_and_are_no_longer_than_allowed() {
        let mut delays = Delays::default();
        for n in 0..5_000 {
            delays.add(us(n * 97));
        }
        let whole = delays.to_text(usize::MAX);
        assert_eq!(Delays::from_text(&whole), Some(delays.clone()));
        let short = delays.to_text(600);
        assert!(short.len() <= 600 && whole.len() > 600, "{}", whole.len());
        let coarse = Delays::from_text(&short).unwrap();
        assert_eq!(coarse.total(), 5_000);
        let ratio = coarse.quantile(0.95).unwrap() / delays.quantile(0.95).unwrap();
        assert!((0.8..1.25).contains(&ratio), "{ratio}");
        assert_eq!(Delays::from_text(""), Some(Delays::default()));
        for wrong in ["5", "5:x", "-1:4", "9999:1"] {
            assert_eq!(Delays::from_text(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn parts_add_up_and_can_be_taken_away() {
        let (mut one, mut two) = (Delays::default(), Delays::default());
        for n in [3, 3, 900] {
            one.add(us(n));
        }
        two.add(us(50_000));
        let before = one.clone();
        one.merge(&two);
        assert_eq!((one.total(), one.since(&before)), (4, two));
        assert_eq!(one.since(&Delays::default()), one);
    }
}

//! Why attempts failed in the whole network, in a sentence: hidden stations, equal slots, noise.

use std::collections::BTreeMap;

use wifu_radio::plan::Plan;

use super::frames::{Causes, Link};
use super::report::percent;

/// Hidden pairs that are named.
const NAMED: usize = 3;

/// Below this share of failed attempts there is nothing to explain.
const LEAST: f64 = 0.005;

/// Who senses whom, by mean power; by default nobody can say.
#[derive(Default)]
pub struct Ears {
    /// `sensed[at]`: whose transmissions make the medium busy there; empty if nobody can say.
    sensed: Vec<Vec<u16>>,
}

impl Ears {
    /// By the mean powers that a run begins with; `moves`: they don't stay so, nothing is known.
    pub fn new(plan: &Plan, moves: bool) -> Ears {
        if moves {
            return Ears { sensed: Vec::new() };
        }
        let mut sensed = vec![Vec::new(); plan.nodes.len()];
        for (from, gains) in plan.gains.iter().enumerate() {
            for gain in gains {
                let at = usize::from(gain.to);
                if gain.mean_dbm >= plan.nodes[at].radio.senses_dbm() {
                    sensed[at].push(from as u16);
                }
            }
        }
        Ears { sensed }
    }

    /// Whether `at` does not sense `other`.
    fn hidden(&self, at: u16, other: u16) -> bool {
        let known = self.sensed.get(usize::from(at));
        known.is_some_and(|s| !s.contains(&other))
    }
}

/// Attempts that failed, of all links.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Losses {
    attempts: u64,
    failed: u64,
    /// Somebody was on the air whom the sender does not sense: sender, receiver, who.
    hidden: BTreeMap<(u16, u16, u16), u64>,
    /// Somebody whom the sender senses, so both began in the same moment; the receiver included.
    together: u64,
    noise: u64,
    /// What is no 802.11.
    interference: u64,
    unanswered: u64,
}

impl Losses {
    /// Of all links.
    pub fn of(causes: &Causes, ears: &Ears) -> Losses {
        let mut all = Losses::default();
        for ((from, to), link) in &causes.links {
            all.add(*from, *to, link, ears);
        }
        all
    }

    fn add(&mut self, from: u16, to: u16, link: &Link, ears: &Ears) {
        self.attempts += link.attempts.max(link.requests);
        self.failed += link.failed;
        self.noise += link.noise + link.weak;
        self.interference += link.interference;
        self.together += link.transmitting;
        self.unanswered += link.unanswered();
        for map in [&link.collisions, &link.locked, &link.drowned] {
            for (other, n) in map {
                if ears.hidden(from, *other) {
                    *self.hidden.entry((from, to, *other)).or_default() += n;
                } else {
                    self.together += n;
                }
            }
        }
    }

    /// The sentence; nothing if hardly any attempt failed.
    pub fn words(&self, name: &dyn Fn(u16) -> String) -> Option<String> {
        if self.failed == 0 || (self.failed as f64) < self.attempts as f64 * LEAST {
            return None;
        }
        let hidden: u64 = self.hidden.values().sum();
        let whole =
            (hidden + self.together + self.noise + self.interference + self.unanswered) as f64;
        let mut parts = [
            (
                hidden,
                format!(
                    "a station was on the air that the sender does not sense ({})",
                    self.pairs(name)
                ),
            ),
            (
                self.together,
                String::from("a station that it senses, or the receiver, began in the same moment"),
            ),
            (self.noise, String::from("noise")),
            (
                self.interference,
                String::from("a source that is no 802.11 was on"),
            ),
            (self.unanswered, String::from("the answer was lost")),
        ];
        parts.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
        let parts = parts.iter().filter(|(n, _)| *n > 0);
        let parts: Vec<String> = parts
            .map(|(n, what)| format!("{} {what}", percent(*n as f64 / whole)))
            .collect();
        let share = percent(self.failed as f64 / self.attempts.max(1) as f64);
        Some(format!(
            "Why {} of {} attempts failed ({share}): {}",
            self.failed,
            self.attempts,
            parts.join("; ")
        ))
    }

    /// Who was hidden from whom most often.
    fn pairs(&self, name: &dyn Fn(u16) -> String) -> String {
        let mut pairs: Vec<_> = self.hidden.iter().collect();
        pairs.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        let more = pairs.len() > NAMED;
        pairs.truncate(NAMED);
        let mut words: Vec<String> = pairs
            .iter()
            .map(|((from, to, other), n)| {
                format!(
                    "{} during {} > {}: {n}",
                    name(*other),
                    name(*from),
                    name(*to)
                )
            })
            .collect();
        if more {
            words.push(String::from("..."));
        }
        format!("hidden; {}", words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain in which everybody senses the next two.
    fn chain(nodes: u16) -> Ears {
        let near = |a: u16| (0..nodes).filter(|b| a.abs_diff(*b) <= 2).collect();
        Ears {
            sensed: (0..nodes).map(near).collect(),
        }
    }

    #[test]
    fn what_the_sender_does_not_sense_is_hidden_and_the_rest_began_together() {
        let mut causes = Causes::default();
        let link = causes.links.entry((0, 1)).or_default();
        (link.attempts, link.failed) = (1000, 100);
        link.collisions.extend([(3, 40), (2, 10)]);
        link.locked.insert(3, 20);
        (link.noise, link.transmitting) = (15, 5);
        let name = |n: u16| format!("n{}", n + 1);
        let words = Losses::of(&causes, &chain(5)).words(&name);
        assert_eq!(
            words.as_deref(),
            Some(
                "Why 100 of 1000 attempts failed (10 %): 60 % a station was on the air that the \
                 sender does not sense (hidden; n4 during n1 > n2: 60); 15 % a station that it \
                 senses, or the receiver, began in the same moment; 15 % noise; 10 % the answer \
                 was lost"
            )
        );
        let moving = Losses::of(&causes, &Ears { sensed: Vec::new() });
        assert!(moving.hidden.is_empty(), "nobody knows who senses whom");
    }

    #[test]
    fn a_few_failures_need_no_words() {
        let mut causes = Causes::default();
        let link = causes.links.entry((0, 1)).or_default();
        (link.attempts, link.failed, link.noise) = (10_000, 30, 30);
        let all = Losses::of(&causes, &chain(2));
        assert_eq!(all.words(&|n| n.to_string()), None);
        assert_eq!(Losses::default().words(&|n| n.to_string()), None, "wires");
    }
}

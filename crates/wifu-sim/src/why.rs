//! Why attempts failed in the whole network, in a sentence and as data: hidden stations, equal
//! slots, noise, lost control frames.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use wifu_radio::plan::Plan;

use crate::causes::{Causes, Link};

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
    /// Somebody whom the sender senses, so both began in the same slot; the receiver included.
    together: u64,
    noise: u64,
    /// What is no 802.11.
    interference: u64,
    rts_lost: u64,
    rts_unanswered: u64,
    cts_lost: u64,
    ack_unsent: u64,
    ack_lost: u64,
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
        self.rts_lost += link.rts_lost;
        self.rts_unanswered += link.rts_unanswered;
        self.cts_lost += link.cts_lost;
        self.ack_unsent += link.ack_unsent;
        self.ack_lost += link.ack_lost;
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

    /// The causes: a key for programs, how many attempts, and words.
    fn causes(&self) -> [(&'static str, u64, &'static str); 9] {
        [
            (
                "hidden",
                self.hidden.values().sum(),
                "a station was on the air that the sender does not sense",
            ),
            (
                "together",
                self.together,
                "a station that it senses, or the receiver, began in the same slot",
            ),
            ("noise", self.noise, "noise"),
            (
                "interference",
                self.interference,
                "a source that is no 802.11 was on",
            ),
            (
                "rts_lost",
                self.rts_lost,
                "the RTS was lost, whoever was on the air",
            ),
            (
                "rts_unanswered",
                self.rts_unanswered,
                "the RTS came where the medium was reserved, and was not answered",
            ),
            ("cts_lost", self.cts_lost, "the CTS was lost"),
            (
                "ack_unsent",
                self.ack_unsent,
                "the data came, and the receiver could not send its ACK",
            ),
            ("ack_lost", self.ack_lost, "the ACK was lost"),
        ]
    }

    /// How many by each of the causes.
    fn counts(&self) -> serde_json::Map<String, Json> {
        let causes = self.causes().into_iter();
        causes.map(|(key, n, _)| (key.into(), n.into())).collect()
    }

    /// The sentence; nothing if hardly any attempt failed.
    pub fn words(&self, name: &dyn Fn(u16) -> String) -> Option<String> {
        if self.failed == 0 || (self.failed as f64) < self.attempts as f64 * LEAST {
            return None;
        }
        let mut causes = self.causes();
        let whole = causes.iter().map(|(_, n, _)| n).sum::<u64>() as f64;
        causes.sort_by_key(|(_, n, _)| std::cmp::Reverse(*n));
        let causes = causes.iter().filter(|(_, n, _)| *n > 0);
        let parts: Vec<String> = causes
            .map(|(key, n, what)| {
                let share = percent(*n as f64 / whole);
                match *key {
                    "hidden" => format!("{share} {what} ({})", self.pairs(name)),
                    _ => format!("{share} {what}"),
                }
            })
            .collect();
        let share = percent(self.failed as f64 / self.attempts.max(1) as f64);
        Some(format!(
            "Why {} of {} attempts failed ({share}): {}",
            self.failed,
            self.attempts,
            parts.join("; ")
        ))
    }

    /// The same as data: `attempts`, `failed`, how many by each of the `causes`, every `hidden`
    /// pair, and the sentence as `words` (null if hardly any attempt failed).
    pub fn to_json(&self, name: &dyn Fn(u16) -> String) -> Json {
        let pair = |((from, to, other), n): (&(u16, u16, u16), &u64)| json!({"from": name(*from), "to": name(*to), "other": name(*other), "attempts": n});
        json!({
            "attempts": self.attempts, "failed": self.failed, "causes": self.counts(),
            "hidden": self.hidden.iter().map(pair).collect::<Vec<Json>>(),
            "words": self.words(name),
        })
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

/// What a run's trace of frames says of why attempts failed, as data: of all links together as
/// [`Losses::to_json`], and each of the `links` with its own counts. `names`: of the nodes, by
/// their numbers.
pub fn told(causes: &Causes, ears: &Ears, names: &[&str]) -> Json {
    let name = |n: u16| {
        let known = names.get(usize::from(n));
        known.map_or_else(|| n.to_string(), |k| (*k).to_string())
    };
    let link = |((from, to), link): (&(u16, u16), &Link)| {
        let mut own = Losses::default();
        own.add(*from, *to, link, ears);
        json!({"from": name(*from), "to": name(*to), "attempts": own.attempts,
            "failed": own.failed, "causes": own.counts()})
    };
    let mut all = Losses::of(causes, ears).to_json(&name);
    all["links"] = causes.links.iter().map(link).collect();
    all
}

/// A share in per cent, two digits.
pub fn percent(share: f64) -> String {
    let p = share * 100.0;
    match p {
        _ if p >= 9.95 => format!("{p:.0} %"),
        _ if p >= 0.095 || p <= 0.0 => format!("{p:.1} %"),
        _ => format!("{p:.2} %"),
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
        (link.noise, link.transmitting, link.ack_lost) = (15, 5, 10);
        let name = |n: u16| format!("n{}", n + 1);
        let words = Losses::of(&causes, &chain(5)).words(&name);
        assert_eq!(
            words.as_deref(),
            Some(
                "Why 100 of 1000 attempts failed (10 %): 60 % a station was on the air that the \
                 sender does not sense (hidden; n4 during n1 > n2: 60); 15 % a station that it \
                 senses, or the receiver, began in the same slot; 15 % noise; 10 % the ACK was \
                 lost"
            )
        );
        let moving = Losses::of(&causes, &Ears { sensed: Vec::new() });
        assert!(moving.hidden.is_empty(), "nobody knows who senses whom");
    }

    #[test]
    fn the_sentence_is_data_too() {
        let mut causes = Causes::default();
        let link = causes.links.entry((0, 1)).or_default();
        (link.attempts, link.requests, link.failed) = (20, 100, 90);
        (link.rts_lost, link.cts_lost, link.ack_lost) = (80, 4, 2);
        (link.rts_unanswered, link.ack_unsent) = (2, 1);
        link.collisions.insert(3, 1);
        let told = told(&causes, &chain(5), &["a", "b", "c", "d", "e"]);
        assert_eq!(
            told["causes"],
            json!({"hidden": 1, "together": 0, "noise": 0, "interference": 0, "rts_lost": 80,
                "rts_unanswered": 2, "cts_lost": 4, "ack_unsent": 1, "ack_lost": 2})
        );
        assert_eq!(
            (&told["attempts"], &told["failed"]),
            (&json!(100), &json!(90))
        );
        assert_eq!(
            told["hidden"],
            json!([{"from": "a", "to": "b", "other": "d", "attempts": 1}])
        );
        assert_eq!(
            told["links"][0]["causes"], told["causes"],
            "there is one link"
        );
        assert_eq!(told["links"][0]["to"], "b");
        let words = told["words"].as_str().unwrap_or_default();
        assert!(
            words.contains("89 % the RTS was lost, whoever was on the air; 4.4 % the CTS was lost"),
            "{words}"
        );
        assert!(!words.contains("answer was lost"));
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

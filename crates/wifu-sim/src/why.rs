//! Why attempts failed in the whole network, in a sentence and as data: hidden stations, equal
//! slots, noise, lost control frames.

use std::collections::BTreeMap;

use crate::causes::{Cause, Causes, Fates, Link};
use crate::stalls::Stalled;
use serde_json::{Value as Json, json};

/// Hidden pairs that are named.
const NAMED: usize = 3;

/// Below this share of failed attempts there is nothing to explain.
const LEAST: f64 = 0.005;

/// Attempts that failed, of all links.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Losses {
    attempts: u64,
    failed: u64,
    /// Somebody was on the air whom the sender does not sense: sender, receiver, who.
    hidden: BTreeMap<(u16, u16, u16), u64>,
    /// Somebody whom the sender senses began in the same slot; the receiver included.
    together: u64,
    /// Somebody whom it senses on the mean was on the air, and began at another time; the receiver
    /// included.
    unheard: u64,
    noise: u64,
    /// What is no 802.11.
    interference: u64,
    /// An event of the scenario had cut the link.
    cut: u64,
    rts_lost: u64,
    rts_unanswered: u64,
    cts_lost: u64,
    ack_unsent: u64,
    ack_lost: u64,
    /// What RTS, CTS and ACK were lost to.
    control: [Lost; 3],
}

/// What control frames of a kind were lost to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lost {
    /// Somebody was on the air whom the frame's sender does not sense: sender, receiver, who.
    hidden: BTreeMap<(u16, u16, u16), u64>,
    /// Somebody whom it senses; the receiver included.
    together: u64,
    noise: u64,
    /// What is no 802.11.
    interference: u64,
}

/// Control frames as JSON names them, in the order of `Losses::control`.
const CONTROL: [&str; 3] = ["rts", "cts", "ack"];

impl Lost {
    fn add(&mut self, from: u16, to: u16, fates: &Fates) {
        self.noise += fates.noise;
        self.interference += fates.interference;
        let all: u64 = fates.stations.values().sum();
        let hidden = add_hidden(&mut self.hidden, (from, to), &fates.hidden);
        self.together += (fates.transmitting + all).saturating_sub(hidden);
    }

    /// Keys for programs, how many, and words.
    fn causes(&self) -> [(&'static str, u64, &'static str); 4] {
        let hidden = self.hidden.values().sum();
        [
            (
                "hidden",
                hidden,
                "to stations that its sender does not sense",
            ),
            (
                "together",
                self.together,
                "to ones that its sender senses, or the receiver's own frame",
            ),
            ("noise", self.noise, "to noise"),
            ("interference", self.interference, "to what is no 802.11"),
        ]
    }

    fn counts(&self) -> Json {
        let causes = self.causes().into_iter();
        Json::Object(causes.map(|(key, n, _)| (key.into(), n.into())).collect())
    }

    /// Who spoiled how many of `lost`, in words; nothing if no record tells.
    fn words(&self, lost: u64, name: &dyn Fn(u16) -> String) -> Option<String> {
        let mut causes = self.causes();
        let known: u64 = causes.iter().map(|(_, n, _)| n).sum();
        if known == 0 {
            return None;
        }
        causes.sort_by_key(|(_, n, _)| std::cmp::Reverse(*n));
        let causes = causes.iter().filter(|(_, n, _)| *n > 0);
        let mut parts: Vec<String> = causes
            .map(|(key, n, what)| match *key {
                "hidden" => format!("{n} {what}: {}", pairs(&self.hidden, name)),
                _ => format!("{n} {what}"),
            })
            .collect();
        if lost > known {
            parts.push(format!("{} unknown", lost - known));
        }
        Some(parts.join("; "))
    }
}

impl Losses {
    /// Of all links.
    pub fn of(causes: &Causes) -> Losses {
        let mut all = Losses::default();
        for ((from, to), link) in &causes.links {
            all.add(*from, *to, link);
        }
        all
    }

    /// Of these links alone: senders and receivers.
    pub fn of_links(causes: &Causes, links: &[(u16, u16)]) -> Losses {
        let mut own = Losses::default();
        for at in links {
            if let Some(link) = causes.links.get(at) {
                own.add(at.0, at.1, link);
            }
        }
        own
    }

    /// Whether there is hardly anything to explain.
    fn few(&self) -> bool {
        self.failed == 0 || (self.failed as f64) < self.attempts as f64 * LEAST
    }

    /// The main cause: a key, how many attempts, and words; nothing if hardly any failed.
    fn main(&self) -> Option<(&'static str, u64, &'static str)> {
        // Of equal ones the first, as in the sentence.
        let main = self.causes().into_iter().rev().max_by_key(|(_, n, _)| *n);
        main.filter(|(_, n, _)| *n > 0 && !self.few())
    }

    /// What these attempts failed by mostly, in words, if that is not what `all` of the network
    /// did: who is starved may be so for another reason than those who fill the air.
    pub fn unlike(&self, all: &Losses) -> Option<String> {
        let (key, n, what) = self.main()?;
        if all.main().is_some_and(|(main, _, _)| main == key) {
            return None;
        }
        let whole: u64 = self.causes().iter().map(|(_, n, _)| n).sum();
        Some(format!(
            "{what} ({}), of {} failed of {} attempts ({})",
            percent(n as f64 / whole as f64),
            self.failed,
            self.attempts,
            percent(self.failed as f64 / self.attempts.max(1) as f64)
        ))
    }

    fn add(&mut self, from: u16, to: u16, link: &Link) {
        self.attempts += link.attempts;
        self.failed += link.failed;
        self.noise += link.noise + link.weak;
        self.interference += link.interference;
        self.cut += link.cut;
        self.rts_lost += link.rts_lost;
        self.rts_unanswered += link.rts_unanswered;
        self.cts_lost += link.cts_lost;
        self.ack_unsent += link.ack_unsent;
        self.ack_lost += link.ack_lost;
        let [rts, cts, ack] = &mut self.control;
        rts.add(from, to, &link.rts);
        // The receiver of the data answers.
        cts.add(to, from, &link.cts);
        ack.add(to, from, &link.ack);
        let by = [&link.collisions, &link.locked, &link.drowned];
        let all: u64 = by.iter().flat_map(|map| map.values()).sum();
        let hidden = add_hidden(&mut self.hidden, (from, to), &link.hidden);
        // A file of records may say anything.
        self.together += (link.transmitting + all).saturating_sub(hidden + link.unheard);
        self.unheard += link.unheard;
    }

    /// The causes, in the order of [`Cause`]: a key for programs, how many attempts, and words.
    fn causes(&self) -> [(&'static str, u64, &'static str); Cause::COUNT] {
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
            (
                "unheard",
                self.unheard,
                "a station that it senses on the mean, or the receiver, was on the air, one of the \
                 two unheard by the other just then (faded, preamble missed, or an answer to \
                 somebody who is not sensed)",
            ),
            ("noise", self.noise, "noise"),
            (
                "interference",
                self.interference,
                "a source that is no 802.11 was on",
            ),
            ("cut", self.cut, "an event had cut the link"),
            ("rts_lost", self.rts_lost, "the RTS was lost"),
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

    /// How many by each of the causes; `cut` only where a link was.
    fn counts(&self) -> serde_json::Map<String, Json> {
        let told = |(key, n, _): &(&str, u64, _)| *key != "cut" || *n > 0;
        let causes = self.causes().into_iter().filter(told);
        causes.map(|(key, n, _)| (key.into(), n.into())).collect()
    }

    /// The sentence; nothing if hardly any attempt failed.
    pub fn words(&self, name: &dyn Fn(u16) -> String) -> Option<String> {
        if self.few() {
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
                    "hidden" => {
                        format!("{share} {what} (hidden; {})", pairs(&self.hidden, name))
                    }
                    _ => match self.to_what(key, *n, name) {
                        Some(told) => format!("{share} {what} ({told})"),
                        None => format!("{share} {what}"),
                    },
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

    /// What the control frames of such a cause were lost to, in words.
    fn to_what(&self, key: &str, lost: u64, name: &dyn Fn(u16) -> String) -> Option<String> {
        let kind = key.strip_suffix("_lost")?;
        let at = CONTROL.iter().position(|known| *known == kind)?;
        self.control[at].words(lost, name)
    }

    /// The same as data: `attempts`, `failed`, how many by each of the `causes`, what control
    /// frames were lost to (`lost_to`), every `hidden` pair, with the `frame` that was lost, and
    /// the sentence as `words` (null if hardly any attempt failed).
    pub fn to_json(&self, name: &dyn Fn(u16) -> String) -> Json {
        let mut hidden = Vec::new();
        let maps = self.control.iter().map(|lost| &lost.hidden);
        let kinds = ["data"].into_iter().chain(CONTROL);
        for (frame, map) in kinds.zip([&self.hidden].into_iter().chain(maps)) {
            hidden.extend(map.iter().map(|((from, to, other), n)| {
                json!({"from": name(*from), "to": name(*to), "other": name(*other),
                    "attempts": n, "frame": frame})
            }));
        }
        json!({
            "attempts": self.attempts, "failed": self.failed, "causes": self.counts(),
            "lost_to": self.lost_to(), "hidden": hidden, "words": self.words(name),
        })
    }

    fn lost_to(&self) -> Json {
        let each = CONTROL.iter().zip(&self.control);
        Json::Object(
            each.map(|(kind, lost)| ((*kind).into(), lost.counts()))
                .collect(),
        )
    }
}

/// Causes of less than this share of a sender's waits are not worth a word.
const LEAST_OF_WAITS: f64 = 0.1;

/// By what attempts on a flow's links failed while its sender waited for timeouts, with how long
/// waits were in which they did; nothing if none failed.
pub fn while_waiting(of: &Stalled) -> Option<String> {
    let words = Losses::default().causes();
    let mut parts: Vec<(f64, &str)> = words
        .iter()
        .zip(of.by_cause)
        .map(|((.., what), seconds)| (seconds, *what))
        .collect();
    parts.retain(|(seconds, _)| *seconds > LEAST_OF_WAITS * of.all());
    if parts.is_empty() {
        return None;
    }
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut parts: Vec<String> = parts
        .iter()
        .map(|(seconds, what)| format!("{what} ({seconds:.1} s)"))
        .collect();
    if of.none > LEAST_OF_WAITS * of.all() {
        parts.push(format!("none failed in {:.1} s", of.none));
    }
    Some(parts.join("; "))
}

/// The same as data: seconds by cause, those of waits in which no attempt failed as `none`.
pub fn waited_json(of: &Stalled) -> Json {
    let keys = Losses::default().causes();
    let known = keys.iter().zip(of.by_cause).filter(|(_, s)| *s > 0.0);
    let mut all: serde_json::Map<String, Json> = known
        .map(|((key, ..), seconds)| ((*key).into(), seconds.into()))
        .collect();
    all.insert("none".into(), of.none.into());
    Json::Object(all)
}

/// Adds what was lost between two stations to others that the sender did not sense: how many.
fn add_hidden(
    all: &mut BTreeMap<(u16, u16, u16), u64>,
    (from, to): (u16, u16),
    by: &BTreeMap<u16, u64>,
) -> u64 {
    for (other, n) in by {
        *all.entry((from, to, *other)).or_default() += n;
    }
    by.values().sum()
}

/// Who was hidden from whom most often.
fn pairs(hidden: &BTreeMap<(u16, u16, u16), u64>, name: &dyn Fn(u16) -> String) -> String {
    let mut pairs: Vec<_> = hidden.iter().collect();
    pairs.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    let more = pairs.len() > NAMED;
    pairs.truncate(NAMED);
    let mut words: Vec<String> = pairs
        .iter()
        .map(|((from, to, other), n)| {
            let (from, to) = (name(*from), name(*to));
            format!("{} during {from} > {to}: {n}", name(*other))
        })
        .collect();
    if more {
        words.push(String::from("..."));
    }
    words.join(", ")
}

/// What a run's trace of frames says of why attempts failed, as data: of all links together as
/// [`Losses::to_json`], and each of the `links` with its own counts. `names`: of the nodes, by
/// their numbers.
pub fn told(causes: &Causes, names: &[&str]) -> Json {
    let name = |n: u16| {
        let known = names.get(usize::from(n));
        known.map_or_else(|| n.to_string(), |k| (*k).to_string())
    };
    let link = |((from, to), link): (&(u16, u16), &Link)| {
        let mut own = Losses::default();
        own.add(*from, *to, link);
        json!({"from": name(*from), "to": name(*to), "attempts": own.attempts,
            "failed": own.failed, "causes": own.counts(), "lost_to": own.lost_to()})
    };
    let mut all = Losses::of(causes).to_json(&name);
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

    #[test]
    fn what_the_sender_did_not_sense_is_hidden_and_the_rest_began_together() {
        let mut causes = Causes::default();
        let link = causes.links.entry((0, 1)).or_default();
        (link.attempts, link.failed) = (1000, 100);
        link.collisions.extend([(3, 40), (2, 10)]);
        link.locked.insert(3, 20);
        link.hidden.insert(3, 60);
        link.unheard = 4;
        (link.noise, link.transmitting, link.ack_lost) = (15, 5, 10);
        let name = |n: u16| format!("n{}", n + 1);
        let words = Losses::of(&causes).words(&name);
        assert_eq!(
            words.as_deref(),
            Some(
                "Why 100 of 1000 attempts failed (10 %): 60 % a station was on the air that the \
                 sender does not sense (hidden; n4 during n1 > n2: 60); 15 % noise; 11 % a \
                 station that it senses, or the receiver, began in the same slot; 10 % the ACK was \
                 lost; 4.0 % a station that it senses on the mean, or the receiver, was on the air, \
                 one of the two unheard by the other just then (faded, preamble missed, or an \
                 answer to somebody who is not sensed)"
            )
        );
    }

    #[test]
    fn the_sentence_is_data_too() {
        let mut causes = Causes::default();
        let link = causes.links.entry((0, 1)).or_default();
        (link.attempts, link.failed) = (100, 90);
        (link.rts_lost, link.cts_lost, link.ack_lost) = (80, 4, 2);
        (link.rts_unanswered, link.ack_unsent) = (2, 1);
        (link.collisions, link.hidden) = ([(3, 1)].into(), [(3, 1)].into());
        let told = told(&causes, &["a", "b", "c", "d", "e"]);
        assert_eq!(
            told["causes"],
            json!({"hidden": 1, "together": 0, "unheard": 0, "noise": 0, "interference": 0, "rts_lost": 80,
                "rts_unanswered": 2, "cts_lost": 4, "ack_unsent": 1, "ack_lost": 2})
        );
        assert_eq!(
            (&told["attempts"], &told["failed"]),
            (&json!(100), &json!(90))
        );
        assert_eq!(
            told["hidden"],
            json!([{"from": "a", "to": "b", "other": "d", "attempts": 1, "frame": "data"}])
        );
        assert_eq!(
            told["links"][0]["causes"], told["causes"],
            "there is one link"
        );
        assert_eq!(told["links"][0]["to"], "b");
        let words = told["words"].as_str().unwrap_or_default();
        assert!(
            words.contains("89 % the RTS was lost; 4.4 % the CTS was lost"),
            "{words}"
        );
        assert!(!words.contains("answer was lost"));
    }

    #[test]
    fn what_control_frames_were_lost_to_is_told_apart() {
        let mut causes = Causes::default();
        let link = causes.links.entry((0, 1)).or_default();
        (link.attempts, link.failed) = (100, 50);
        (link.rts_lost, link.cts_lost, link.ack_lost) = (36, 4, 10);
        // Station 3 is hidden from 0, whose the RTS is, and not from 1, which answers.
        link.rts.stations.extend([(3, 20), (2, 5)]);
        link.rts.hidden.insert(3, 20);
        (link.rts.transmitting, link.rts.noise, link.rts.interference) = (1, 3, 2);
        (link.cts.stations, link.cts.hidden) = ([(4, 4)].into(), [(4, 4)].into());
        link.ack.stations.insert(3, 10);
        let told = told(&causes, &["a", "b", "c", "d", "e"]);
        assert_eq!(
            told["lost_to"],
            json!({
                "rts": {"hidden": 20, "together": 6, "noise": 3, "interference": 2},
                "cts": {"hidden": 4, "together": 0, "noise": 0, "interference": 0},
                "ack": {"hidden": 0, "together": 10, "noise": 0, "interference": 0},
            })
        );
        assert_eq!(told["links"][0]["lost_to"], told["lost_to"]);
        assert_eq!(
            told["hidden"],
            json!([
                {"from": "a", "to": "b", "other": "d", "attempts": 20, "frame": "rts"},
                {"from": "b", "to": "a", "other": "e", "attempts": 4, "frame": "cts"},
            ])
        );
        assert_eq!(told["causes"]["rts_lost"], 36);
        assert_eq!(told["causes"]["hidden"], 0, "of data");
        assert_eq!(
            told["words"].as_str().unwrap_or_default(),
            "Why 50 of 100 attempts failed (50 %): 72 % the RTS was lost (20 to stations that its \
             sender does not sense: d during a > b: 20; 6 to ones that its sender senses, or the \
             receiver's own frame; 3 to noise; 2 to what is no 802.11; 5 unknown); 20 % the ACK \
             was lost (10 to ones that its sender senses, or the receiver's own frame); 8.0 % the CTS \
             was lost (4 to stations that its sender does not sense: e during b > a: 4)"
        );
    }

    #[test]
    fn links_whose_main_cause_is_another_say_so() {
        let mut causes = Causes::default();
        let busy = causes.links.entry((0, 1)).or_default();
        (busy.attempts, busy.failed) = (1000, 100);
        busy.collisions.extend([(3, 90), (2, 10)]);
        busy.hidden.insert(3, 90);
        let starved = causes.links.entry((3, 4)).or_default();
        (starved.attempts, starved.failed, starved.noise) = (50, 40, 30);
        starved.ack_lost = 10;
        let all = Losses::of(&causes);
        let own = |links: &[(u16, u16)]| Losses::of_links(&causes, links).unlike(&all);
        assert_eq!(
            own(&[(3, 4), (4, 3)]).as_deref(),
            Some("noise (75 %), of 40 failed of 50 attempts (80 %)")
        );
        assert_eq!(own(&[(0, 1)]), None, "the network's own");
        assert_eq!(own(&[(0, 1), (3, 4)]), None);
        assert_eq!(own(&[(4, 3)]), None, "nothing is known of it");
        // Where the network as a whole has nothing to explain they have it.
        let fine = causes.links.entry((1, 0)).or_default();
        fine.attempts = 1_000_000;
        let all = Losses::of(&causes);
        let own = Losses::of_links(&causes, &[(0, 1)]).unlike(&all);
        assert!(
            own.is_some_and(
                |words| words.ends_with("(90 %), of 100 failed of 1000 attempts (10 %)")
            )
        );
    }

    #[test]
    fn a_few_failures_need_no_words() {
        let mut causes = Causes::default();
        let link = causes.links.entry((0, 1)).or_default();
        (link.attempts, link.failed, link.noise) = (10_000, 30, 30);
        let all = Losses::of(&causes);
        assert_eq!(all.words(&|n| n.to_string()), None);
        assert_eq!(Losses::default().words(&|n| n.to_string()), None, "wires");
    }

    #[test]
    fn causes_of_waits_have_the_names_of_those_of_attempts() {
        let named = [
            (Cause::Hidden, "hidden"),
            (Cause::Together, "together"),
            (Cause::Unheard, "unheard"),
            (Cause::Noise, "noise"),
            (Cause::Interference, "interference"),
            (Cause::Cut, "cut"),
            (Cause::RtsLost, "rts_lost"),
            (Cause::RtsUnanswered, "rts_unanswered"),
            (Cause::CtsLost, "cts_lost"),
            (Cause::AckUnsent, "ack_unsent"),
            (Cause::AckLost, "ack_lost"),
        ];
        assert_eq!(named.len(), Cause::COUNT);
        for (cause, name) in named {
            let mut of = Stalled::default();
            of.by_cause[cause as usize] = 3.0;
            assert_eq!(waited_json(&of), json!({name: 3.0, "none": 0.0}));
        }
    }

    #[test]
    fn what_failed_while_a_sender_waited_is_told_from_a_tenth_on() {
        let mut of = Stalled::default();
        assert_eq!(while_waiting(&of), None);
        of.none = 2.0;
        assert_eq!(while_waiting(&of), None, "nothing failed");
        of.by_cause[Cause::Noise as usize] = 3.0;
        of.by_cause[Cause::AckLost as usize] = 4.5;
        of.by_cause[Cause::Cut as usize] = 0.5;
        assert_eq!(
            while_waiting(&of).as_deref(),
            Some("the ACK was lost (4.5 s); noise (3.0 s); none failed in 2.0 s")
        );
    }
}

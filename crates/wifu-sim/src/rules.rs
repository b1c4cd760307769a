//! Rule files (Behaviour 2.8): what happens to which packet, one rule a line.
//!
//! ```text
//! # seq ack delay_us           one packet with these numbers; delay -1 drops it
//! 2 2 -1
//! # -1 -1 p                    every packet, in both directions, is dropped with p percent
//! -1 -1 0.5
//! # data_index i action        the i-th data segment, from 0, first transmission only
//! data_index 14 drop
//! data_index 20 delay 35000
//! data_index 21 duplicate
//! data_index 22 corrupt
//! ```
//!
//! `seq` and `ack` are the numbers of the TCP header as if each side's initial sequence number
//! were 1: its SYN has 1, its first data octet 2; `ack` is 0 where the segment acknowledges
//! nothing. One of the two may be -1: any. A rule is used up by the first packet that it matches;
//! of several that match, the first in the file is taken, so that two equal lines catch two
//! transmissions. Percentages stay.

use core::fmt;
use core::str::FromStr;
use wifu_wire::Span;

/// What the network does to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing.
    Pass,
    /// It is lost.
    Drop,
    /// It waits this long before it goes on; later packets overtake it.
    Delay(Span),
    /// It goes on twice.
    Duplicate,
    /// One of its bits flips.
    Corrupt,
}

/// Which packet a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    Numbers { seq: Option<u32>, ack: Option<u32> },
    DataIndex(u64),
}

/// The numbers of a packet that rules look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Sequence number as if the initial one were 1.
    pub seq: u32,
    /// Acknowledgement as if the peer's initial number were 1; 0 without one.
    pub ack: u32,
    /// Which data segment this is, if it is its first transmission.
    pub new_data: Option<u64>,
}

/// The rules that are left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    rules: Vec<(Match, Fate)>,
    percent: f64,
}

/// A line of a rule file that is no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl core::error::Error for RuleError {}

impl FromStr for Rules {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Rules, RuleError> {
        let mut rules = Rules::default();
        for (n, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            if !words.is_empty() {
                let at = |what| RuleError { line: n + 1, what };
                rules.line(&words).map_err(at)?;
            }
        }
        Ok(rules)
    }
}

impl Rules {
    fn line(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["data_index", index, action @ ..] => {
                let index = number(index, "the index of a data segment, from 0")?;
                self.rules.push((Match::DataIndex(index), fate(action)?));
            }
            ["-1", "-1", percent] => self.percent = percentage(percent)?,
            [seq, ack, delay] => {
                let numbers = Match::Numbers {
                    seq: any_or(seq, "a sequence number")?,
                    ack: any_or(ack, "an acknowledgement number")?,
                };
                self.rules.push((numbers, fate(&[delay])?));
            }
            _ => {
                let line = words.join(" ");
                return Err(format!(
                    "\"{line}\" is no rule; write \"seq ack delay_us\" (delay -1 drops), \
                     \"-1 -1 percent\" or \"data_index i drop\""
                ));
            }
        }
        Ok(())
    }

    /// Lose the first transmission of a data segment.
    pub fn drop_data(&mut self, index: u64) {
        self.rules.push((Match::DataIndex(index), Fate::Drop));
    }

    /// What the rules say of a packet; the rule is then used up.
    pub fn judge(&mut self, packet: &Numbers) -> Fate {
        let fits = |what: &Match| match what {
            Match::Numbers { seq, ack } => {
                seq.is_none_or(|s| s == packet.seq) && ack.is_none_or(|a| a == packet.ack)
            }
            Match::DataIndex(i) => packet.new_data == Some(*i),
        };
        match self.rules.iter().position(|(what, _)| fits(what)) {
            Some(at) => self.rules.remove(at).1,
            None => Fate::Pass,
        }
    }

    /// Percentage of packets that are lost in both directions, 0 to 100.
    pub fn percent(&self) -> f64 {
        self.percent
    }

    /// How many rules no packet has matched yet.
    pub fn left(&self) -> usize {
        self.rules.len()
    }
}

fn number(word: &str, what: &str) -> Result<u64, String> {
    word.parse()
        .map_err(|_| format!("\"{word}\" is not {what}"))
}

fn any_or(word: &str, what: &str) -> Result<Option<u32>, String> {
    if word == "-1" {
        return Ok(None);
    }
    let wrong = |_| format!("\"{word}\" is not {what}; write 0 to 4294967295, or -1 for any");
    word.parse().map(Some).map_err(wrong)
}

fn percentage(word: &str) -> Result<f64, String> {
    match word.trim_end_matches('%').parse() {
        Ok(p) if (0.0..=100.0).contains(&p) => Ok(p),
        _ => Err(format!("\"{word}\" is no percentage from 0 to 100")),
    }
}

fn fate(action: &[&str]) -> Result<Fate, String> {
    match action {
        ["drop" | "-1"] => Ok(Fate::Drop),
        ["duplicate"] => Ok(Fate::Duplicate),
        ["corrupt"] => Ok(Fate::Corrupt),
        ["delay", us] | [us] if us.parse::<u64>().is_ok() => {
            number(us, "a delay").map(|us| Fate::Delay(Span::MICRO * us))
        }
        _ => {
            let action = action.join(" ");
            Err(format!(
                "\"{action}\" is no action; write a delay in microseconds (-1 drops), drop, \
                 duplicate, corrupt or delay MICROSECONDS"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seq: u32, ack: u32, new_data: Option<u64>) -> Numbers {
        Numbers { seq, ack, new_data }
    }

    #[test]
    fn each_rule_catches_one_packet_in_the_order_of_the_file() {
        let text = "# comment\n2 2 -1 # lost\n\n2 2 700\n-1 5002 0\ndata_index 3 duplicate\n";
        let mut rules: Rules = text.parse().unwrap();
        assert_eq!(rules.left(), 4);
        assert_eq!(rules.judge(&numbers(2, 9, None)), Fate::Pass);
        assert_eq!(rules.judge(&numbers(2, 2, None)), Fate::Drop);
        assert_eq!(
            rules.judge(&numbers(2, 2, None)),
            Fate::Delay(Span(700_000))
        );
        assert_eq!(rules.judge(&numbers(2, 2, None)), Fate::Pass);
        assert_eq!(rules.judge(&numbers(77, 5002, None)), Fate::Delay(Span(0)));
        assert_eq!(rules.judge(&numbers(3002, 2, Some(3))), Fate::Duplicate);
        assert_eq!(rules.judge(&numbers(3002, 2, Some(3))), Fate::Pass);
        assert_eq!(rules.left(), 0);
    }

    #[test]
    fn percentages_stay() {
        let mut rules: Rules = "-1 -1 12.5\n".parse().unwrap();
        assert_eq!(rules.judge(&numbers(1, 0, None)), Fate::Pass);
        assert_eq!((rules.percent(), rules.left()), (12.5, 0));
    }

    #[test]
    fn errors_name_the_line_and_what_would_be_right() {
        let wrong = |text: &str| text.parse::<Rules>().unwrap_err().to_string();
        assert_eq!(
            wrong("1 2 3\n\nfoo 2 3"),
            "line 3: \"foo\" is not a sequence number; write 0 to 4294967295, or -1 for any"
        );
        assert!(wrong("data_index 3 explode").contains("line 1: \"explode\" is no action"));
        assert!(wrong("data_index 3 delay long").contains("drop, duplicate, corrupt or delay"));
        assert!(wrong("-1 -1 101").contains("no percentage from 0 to 100"));
        assert!(wrong("1 2").contains("is no rule"));
        assert!(wrong("data_index x drop").contains("index of a data segment"));
    }
}

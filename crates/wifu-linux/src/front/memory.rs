//! What the front remembers about sockets that are no connection: options set before `connect` or
//! `listen`, and why a connection failed. Bounded: the oldest is forgotten.

use std::collections::{BTreeMap, VecDeque};

/// How many sockets are remembered.
const SOCKETS: usize = 8192;
/// How many options of one socket.
const OPTIONS: usize = 32;

/// Why a connection failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Why {
    pub(super) errno: i32,
    /// What an errno can't say.
    pub(super) text: Option<String>,
}

impl Why {
    pub(super) fn errno(errno: i32) -> Why {
        Why { errno, text: None }
    }
}

#[derive(Debug, Default)]
struct Entry {
    why: Option<Why>,
    /// `protocol` and parameters, as set.
    options: Vec<(String, String)>,
}

/// What is known of one user's sockets before they are connections, by cookie.
#[derive(Debug, Default)]
pub(super) struct Memory {
    entries: BTreeMap<u64, Entry>,
    order: VecDeque<u64>,
}

impl Memory {
    fn entry(&mut self, cookie: u64) -> &mut Entry {
        if !self.entries.contains_key(&cookie) {
            self.order.push_back(cookie);
            while self.order.len() > SOCKETS {
                if let Some(old) = self.order.pop_front() {
                    self.entries.remove(&old);
                }
            }
        }
        self.entries.entry(cookie).or_default()
    }

    pub(super) fn fail(&mut self, cookie: u64, why: Why) {
        self.entry(cookie).why = Some(why);
    }

    pub(super) fn why(&self, cookie: u64) -> Option<&Why> {
        self.entries.get(&cookie)?.why.as_ref()
    }

    /// Keeps an option; false if there are too many.
    pub(super) fn set(&mut self, cookie: u64, name: &str, value: &str) -> bool {
        let options = &mut self.entry(cookie).options;
        if let Some((_, old)) = options.iter_mut().find(|(n, _)| n == name) {
            value.clone_into(old);
            return true;
        }
        let fits = options.len() < OPTIONS;
        if fits {
            options.push((name.to_owned(), value.to_owned()));
        }
        fits
    }

    pub(super) fn options(&self, cookie: u64) -> &[(String, String)] {
        self.entries.get(&cookie).map_or(&[], |e| &e.options)
    }
}

/// A composition text with options merged in: a later value replaces an earlier one, and the option
/// [`PROTOCOL`] replaces all before it.
pub(super) fn merge<'a>(
    spec: &'a str,
    options: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
) -> String {
    let protocol = options.clone().into_iter().find(|(n, _)| *n == PROTOCOL);
    let base = protocol.map_or(spec, |(_, v)| v);
    let mut words = base.split(',').map(str::trim);
    let name = words.next().unwrap_or_default();
    let mut params: Vec<(&str, &str)> = Vec::new();
    let given = words
        .filter(|w| !w.is_empty())
        .map(|w| w.split_once('=').unwrap_or((w, "")));
    for (key, value) in given.chain(options.into_iter().filter(|(n, _)| *n != PROTOCOL)) {
        let (key, value) = (key.trim(), value.trim());
        match params.iter_mut().find(|(k, _)| *k == key) {
            Some(p) => p.1 = value,
            None => params.push((key, value)),
        }
    }
    let mut text = name.to_owned();
    for (key, value) in params {
        text.push(',');
        text.push_str(key);
        // A word without "=" stays one, so that the composition's own error names it.
        if !value.is_empty() {
            text.push('=');
            text.push_str(value);
        }
    }
    text
}

/// The option that holds the composition itself.
pub(super) const PROTOCOL: &str = "protocol";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten() {
        let mut m = Memory::default();
        for cookie in 0..SOCKETS as u64 + 5 {
            m.fail(
                cookie,
                Why {
                    errno: 111,
                    text: None,
                },
            );
            m.fail(
                cookie,
                Why {
                    errno: 110,
                    text: None,
                },
            );
        }
        assert_eq!(m.why(4), None);
        assert_eq!(m.why(5).map(|w| w.errno), Some(110));
        assert_eq!((m.entries.len(), m.order.len()), (SOCKETS, SOCKETS));
    }

    #[test]
    fn options_are_bounded_and_replaced() {
        let mut m = Memory::default();
        for i in 0..OPTIONS {
            assert!(m.set(1, &format!("p{i}"), "1"));
        }
        assert!(!m.set(1, "more", "1"));
        assert!(m.set(1, "p3", "2"));
        assert_eq!(m.options(1)[3], ("p3".to_owned(), "2".to_owned()));
        assert!(m.options(2).is_empty());
    }

    #[test]
    fn later_values_win_and_a_protocol_replaces_all() {
        assert_eq!(
            merge("tcp-reno, iw=4", [("iw", "7"), ("mss", "1000")]),
            "tcp-reno,iw=7,mss=1000"
        );
        assert_eq!(
            merge("tcp-reno,iw=4", [("mss", "9"), (PROTOCOL, "x,a=1")]),
            "x,a=1,mss=9"
        );
        assert_eq!(merge("tcp-reno", []), "tcp-reno");
        assert_eq!(merge("tcp-reno,junk", []), "tcp-reno,junk");
        assert_eq!(merge("", []), "");
    }
}

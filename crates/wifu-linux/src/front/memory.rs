//! What the front remembers about sockets that are no connection: options set before `connect` or
//! `listen`, and why a connection failed. Bounded: the oldest is forgotten.

use super::context::Host;
use super::options::{LINGER0, NODELAY, PROTOCOL, merge, normal};
use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

/// How many sockets are remembered.
const SOCKETS: usize = 8192;
/// Of how many connections that are over the addresses are remembered.
const OVER: usize = 4096;
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

    pub(super) fn text(errno: i32, text: impl Into<String>) -> Why {
        let text = Some(text.into());
        Why { errno, text }
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
    /// Addresses of sockets whose connections are over: a socket keeps its own for life.
    over: BTreeMap<u64, Ends>,
    over_order: VecDeque<u64>,
}

/// Local and remote address.
pub(super) type Ends = (SocketAddr, SocketAddr);

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

    /// A connection is over.
    pub(super) fn keep_ends(&mut self, cookie: u64, ends: Ends) {
        if self.over.insert(cookie, ends).is_none() {
            self.over_order.push_back(cookie);
        }
        while self.over_order.len() > OVER {
            if let Some(old) = self.over_order.pop_front() {
                self.over.remove(&old);
            }
        }
    }

    /// The addresses of a connection that is over.
    pub(super) fn ends(&self, cookie: u64) -> Option<Ends> {
        self.over.get(&cookie).copied()
    }

    pub(super) fn fail(&mut self, cookie: u64, why: Why) {
        self.entry(cookie).why = Some(why);
    }

    pub(super) fn why(&self, cookie: u64) -> Option<&Why> {
        self.entries.get(&cookie)?.why.as_ref()
    }

    /// Keeps an option; false if there are too many.
    fn set(&mut self, cookie: u64, name: &str, value: &str) -> bool {
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

    /// Keeps an option for `connect` or `listen`: tried at once, so that the program learns of
    /// mistakes.
    ///
    /// # Errors
    /// What is wrong with the composition that it makes of `spec`.
    pub(super) fn set_early(
        &mut self,
        cookie: u64,
        spec: &str,
        (name, value): (&str, &str),
        host: &mut dyn Host,
    ) -> Result<(), Why> {
        if matches!(name, NODELAY | LINGER0) {
            // The library keeps these itself and tells them with the connection.
            return Ok(());
        }
        let value = &normal(name, value);
        let have = as_strs(self.options(cookie));
        let merged = merge(spec, have.chain([(name, value.as_str())]));
        if let Err(first) = host.blueprint(&merged) {
            // TCP_CONGESTION with the kernel's names: "cubic" is our "tcp-cubic".
            let longer = format!("tcp-{value}");
            if name == PROTOCOL && host.blueprint(&longer).is_ok() {
                self.set(cookie, name, &longer);
                return Ok(());
            }
            let errno = if name == PROTOCOL {
                libc::ENOENT
            } else {
                libc::EINVAL
            };
            return Err(Why::text(errno, first));
        }
        if !self.set(cookie, name, value) {
            return Err(Why::errno(libc::ENOBUFS));
        }
        Ok(())
    }

    /// What was set on one socket is another's now, which has come into its place.
    pub(super) fn pass_on(&mut self, former: u64, cookie: u64) {
        let kept = self.entries.get_mut(&former);
        let options = kept.map(|e| core::mem::take(&mut e.options));
        if let Some(options) = options.filter(|o| !o.is_empty()) {
            self.entry(cookie).options = options;
        }
    }

    /// Keeps what was set on a connection that is being made: if it fails, its application may try
    /// again with the same socket.
    pub(super) fn keep(&mut self, cookie: u64, (name, value): (&str, &str)) {
        if !matches!(name, NODELAY | LINGER0 | PROTOCOL) {
            // Nobody waits to hear that there are too many.
            let _ = self.set(cookie, name, &normal(name, value));
        }
    }

    /// A composition text with the options of a socket merged in.
    pub(super) fn merged(&self, cookie: u64, spec: &str) -> String {
        merge(spec, as_strs(self.options(cookie)))
    }

    fn options(&self, cookie: u64) -> &[(String, String)] {
        self.entries.get(&cookie).map_or(&[], |e| &e.options)
    }
}

fn as_strs(options: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> + Clone {
    options.iter().map(|(n, v)| (n.as_str(), v.as_str()))
}

/// The memories of all users.
#[derive(Debug, Default)]
pub(super) struct Memories(BTreeMap<u32, Memory>);

impl Memories {
    /// What is remembered for a user's sockets.
    pub(super) fn of(&mut self, uid: u32) -> &mut Memory {
        self.0.entry(uid).or_default()
    }
}

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
    fn addresses_of_the_latest_connections_are_kept() {
        let mut m = Memory::default();
        let ends = |port| {
            let a = SocketAddr::new([10, 0, 0, 1].into(), port);
            (a, a)
        };
        for cookie in 0..OVER as u64 + 5 {
            m.keep_ends(cookie, ends(cookie as u16));
            m.keep_ends(cookie, ends(cookie as u16 + 1));
        }
        assert_eq!((m.ends(4), m.ends(5)), (None, Some(ends(6))));
        assert_eq!((m.over.len(), m.over_order.len()), (OVER, OVER));
    }

    #[test]
    fn options_go_over_to_the_socket_in_the_place_of_another() {
        let mut m = Memory::default();
        m.set(1, "iw", "4");
        m.keep(1, ("rcv_wnd", "1"));
        m.keep(1, (NODELAY, "on"));
        m.pass_on(1, 2);
        assert_eq!(m.merged(1, "tcp-reno"), "tcp-reno");
        assert_eq!(m.merged(2, "tcp-reno"), "tcp-reno,iw=4,rcv_wnd=1000");
        m.pass_on(7, 8);
        assert_eq!(m.entries.len(), 2);
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
}

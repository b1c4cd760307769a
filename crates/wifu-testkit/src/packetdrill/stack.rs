//! Sockets, packets and virtual time around an endpoint.

use super::calls::{Answer, CallId, Waiting};
use super::packet;
use super::socket::{Life, Role, Socket};
use core::net::Ipv4Addr;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wifu_engine::{Blueprint, ConfigError, ConnId, ConnInfo, Endpoint, EndpointConfig, Event};
use wifu_wire::ipv4::{self, IpError};
use wifu_wire::{Span, Time};

/// When the clock starts: not at 0, which some take for "never".
const START: Time = Time(1_000_000_000_000);

/// Octets of the longest packet.
const LONGEST: usize = 65_535;

/// Instants without progress of the clock after which time is said to stand still.
const STILL: u32 = 100_000;

/// What a stack is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The composition, such as `tcp-sack,profile=rfc-modern`.
    pub spec: String,
    /// The address that connections come from.
    pub local: Ipv4Addr,
    /// Write the options of a SYN in Linux's order and padding, which has no meaning to TCP, but is
    /// compared by packetdrill.
    pub linux_options: bool,
    /// Seed of the endpoint.
    pub seed: u64,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            spec: "tcp-sack,profile=rfc-modern".into(),
            local: Ipv4Addr::new(192, 168, 0, 1),
            linux_options: false,
            seed: 1,
        }
    }
}

impl Setup {
    /// From text: a composition, then what differs from the default, as in
    /// `tcp-cubic,iw=10;options=linux;local=10.0.0.1;seed=3`. An empty text is the default.
    ///
    /// # Errors
    /// What is wrong with it, for the user to read.
    pub fn parse(text: &str) -> Result<Setup, String> {
        let mut setup = Setup::default();
        for (i, word) in text.split(';').map(str::trim).enumerate() {
            if i == 0 {
                if !word.is_empty() {
                    setup.spec = word.into();
                }
                continue;
            }
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let wrong = |right: &str| format!("{key}={value}: write {right}");
            match key {
                "options" => {
                    setup.linux_options = match value {
                        "linux" => true,
                        "own" => false,
                        _ => return Err(wrong("options=linux or options=own")),
                    }
                }
                "local" => {
                    setup.local = value.parse().map_err(|_| wrong("an IPv4 address"))?;
                }
                "seed" => setup.seed = value.parse().map_err(|_| wrong("a number"))?,
                _ => {
                    return Err(format!(
                        "{key}: unknown; after the composition there may be options=, local= and \
                         seed="
                    ));
                }
            }
        }
        Ok(setup)
    }

    /// The composition as TCP proper: number 6, and timestamps in milliseconds, because the scripts
    /// were written for kernels (Behaviour 4.1).
    pub(super) fn blueprint(&self, spec: &str) -> Result<Arc<Blueprint>, ConfigError> {
        let mut composition = wifu_parts::library().expand(spec)?;
        if composition.wire != "tcp" {
            let what = format!("its wire is {}; packetdrill speaks TCP", composition.wire);
            return Err(ConfigError::one(spec, what));
        }
        composition.number = packet::NUMBER;
        let unit = (String::from("ts_unit"), String::from("1 ms"));
        composition.profile_params.push(unit);
        Blueprint::new(&composition, &wifu_parts::registry()).map(Arc::new)
    }
}

/// A packet that left: IPv4 header and segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// When.
    pub at: Time,
    /// The packet.
    pub bytes: Vec<u8>,
}

/// Sockets over an endpoint in virtual time: nothing happens but by a call of a method, and the
/// clock moves only where a method says so.
pub struct Stack {
    pub(super) end: Endpoint,
    pub(super) setup: Setup,
    pub(super) now: Time,
    pub(super) sockets: BTreeMap<i32, Socket>,
    pub(super) lives: BTreeMap<ConnId, Life>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) finished: BTreeMap<CallId, (Time, Answer)>,
    pub(super) calls: u64,
    left: VecDeque<Left>,
    still: u32,
}

impl Stack {
    /// A stack without sockets.
    ///
    /// # Errors
    /// What is wrong with the composition.
    pub fn new(setup: Setup) -> Result<Stack, ConfigError> {
        let blueprint = setup.blueprint(&setup.spec)?;
        let mut end = Endpoint::new(EndpointConfig {
            seed: setup.seed,
            node: 1,
            ..EndpointConfig::default()
        });
        // Who knocks at no door is told so.
        end.serve(&blueprint);
        Ok(Stack {
            end,
            setup,
            now: START,
            sockets: BTreeMap::new(),
            lives: BTreeMap::new(),
            waiting: Vec::new(),
            finished: BTreeMap::new(),
            calls: 0,
            left: VecDeque::new(),
            still: 0,
        })
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The endpoint, for what tests look at.
    pub fn endpoint(&self) -> &Endpoint {
        &self.end
    }

    /// The numbers of a socket's connection, if it has one.
    pub fn info(&self, fd: i32) -> Option<ConnInfo> {
        self.end.info(self.sockets.get(&fd)?.conn()?)
    }

    /// A packet arrives now.
    ///
    /// # Errors
    /// If it is no IPv4 packet; the endpoint counts what it drops.
    pub fn deliver(&mut self, packet: &[u8]) -> Result<(), IpError> {
        let (ip, segment) = ipv4::parse(packet)?;
        self.end.handle_packet(self.now, &ip, segment);
        self.settle();
        Ok(())
    }

    /// Lets time pass until `until`, and everything happen that is due before.
    pub fn advance(&mut self, until: Time) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// The next packet that left, at once if one waits; else time passes until one leaves, but not
    /// beyond `limit`. Whatever else is due happens on the way.
    pub fn packet(&mut self, limit: Time) -> Option<Left> {
        loop {
            if let Some(left) = self.left.pop_front() {
                return Some(left);
            }
            if !self.step(limit) {
                return None;
            }
        }
    }

    /// Lets time pass until the call is finished, but not beyond `limit`.
    pub fn finish(&mut self, call: CallId, limit: Time) -> Option<(Time, Answer)> {
        loop {
            if let Some(done) = self.finished.remove(&call) {
                return Some(done);
            }
            if !self.step(limit) {
                return None;
            }
        }
    }

    /// The result of a call that had to wait, and when it came, once it is there.
    pub fn finished(&mut self, call: CallId) -> Option<(Time, Answer)> {
        self.finished.remove(&call)
    }

    /// Lets happen what happens at the next instant, if that is not after `limit`.
    ///
    /// # Panics
    /// If time stands still: that is a bug of the endpoint.
    pub(super) fn step(&mut self, limit: Time) -> bool {
        let calls = self.waiting.iter().map(|w| w.deadline);
        let next = calls.fold(self.end.poll_timeout(), Time::min);
        if next > limit || next == Time::NEVER {
            return false;
        }
        self.still = if next > self.now { 0 } else { self.still + 1 };
        assert!(self.still < STILL, "time stands still at {:?}", self.now);
        self.now = self.now.max(next);
        self.end.handle_timeout(self.now);
        self.settle();
        true
    }

    /// Lets everybody do what they can at this instant.
    pub(super) fn settle(&mut self) {
        loop {
            self.hear();
            let moved = self.retry();
            let sent = self.send();
            if !moved && !sent {
                return;
            }
        }
    }

    /// Takes note of what happened to the connections.
    fn hear(&mut self) {
        while let Some((id, event)) = self.end.poll_event() {
            let life = self.lives.entry(id).or_default();
            match event {
                Event::Connected => life.open = true,
                Event::PeerClosed => life.peer_ended = true,
                Event::Closed(fault) => life.over = Some(fault),
                Event::Readable | Event::Writable => {}
                Event::Accepted(listener) => {
                    life.open = true;
                    let queue = self.sockets.values_mut().find_map(|s| match &mut s.role {
                        Role::Listening { id, queue, .. } if *id == listener => Some(queue),
                        _ => None,
                    });
                    match queue {
                        Some(queue) => queue.push_back(id),
                        None => self.end.abort(self.now, id),
                    }
                }
            }
        }
    }

    /// Asks the calls that wait once more; whether one got further.
    fn retry(&mut self) -> bool {
        let mut moved = false;
        for mut w in core::mem::take(&mut self.waiting) {
            let before = w.progress;
            match self.attempt(&w.call, &mut w.progress, true) {
                Ok(answer) => {
                    moved = true;
                    self.finished.insert(w.id, (self.now, answer));
                }
                Err(_) if w.deadline <= self.now => {
                    moved = true;
                    self.finished.insert(w.id, (self.now, w.call.expired()));
                }
                Err(_) => {
                    moved |= w.progress != before;
                    self.waiting.push(w);
                }
            }
        }
        moved
    }

    /// Takes what leaves; whether anything did.
    fn send(&mut self) -> bool {
        let mut out = vec![0; LONGEST];
        let mut any = false;
        while let Some(d) = self.end.poll_transmit(self.now, &mut out[ipv4::HEADER..]) {
            any = true;
            let ip = d.ip.v4().expect("scripts are of IPv4");
            ipv4::emit(&ip, d.len, &mut out);
            let mut bytes = out[..ipv4::HEADER + d.len].to_vec();
            if self.setup.linux_options {
                bytes = packet::in_linux_order(&bytes).unwrap_or(bytes);
            }
            self.left.push_back(Left {
                at: self.now,
                bytes,
            });
        }
        any
    }

    /// How long from the start of the clock.
    pub fn elapsed(&self) -> Span {
        self.now - START
    }
}

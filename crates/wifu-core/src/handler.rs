//! What a handler is.

use crate::hook::{Hook, Hooks, Verdict};
use crate::packet::Packet;
use crate::select::HopWord;
use core::net::Ipv4Addr;
use std::collections::VecDeque;
use wifu_engine::descriptor::{NoteSpec, ParamSpec, Params};
use wifu_engine::{Face, Fact};
use wifu_wire::names::Named;
use wifu_wire::{Format, LinkFacts, LinkTo, Neighbour, Rng, Span, Time};

pub use wifu_engine::WordUse as HopWordSpec;

/// Timers of each handler.
pub const TIMERS: usize = 4;

/// The MAC's account of one transmission, where the substrate can know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxStatus {
    /// The packet: its ticket at the last hook that it passed.
    pub ticket: u64,
    /// It was acknowledged, or was for all.
    pub delivered: bool,
    /// Times it was on the air, retries included; 0 if it never was.
    pub attempts: u8,
    /// How long the last attempt took with its acknowledgement, or the wait for one; `None` where
    /// nobody says.
    pub airtime: Option<Span>,
    /// From entering the driver's ring to its report; live, from leaving that hook.
    pub delay: Span,
}

/// Where a packet goes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextHop {
    /// Whom the frame is for, and by which device it leaves.
    pub neighbour: Neighbour,
    /// It is the destination.
    pub last: bool,
    /// Hops to the destination, if the routing says.
    pub hops: Option<core::num::NonZeroU8>,
}

/// Where a handler runs: what the node knows and a handler may ask for.
pub trait Site {
    /// Number of the node, for people.
    fn node(&self) -> u16;
    /// What its link layer reports now: of the way of the packet that is looked at, else of its
    /// first device.
    fn link(&self) -> LinkFacts;
    /// What it reports of the way to a destination.
    fn link_to(&self, _to: Ipv4Addr) -> LinkFacts {
        self.link()
    }
    /// Whether there is a route to a destination; also where the substrate can't say.
    fn has_route(&self, _to: Ipv4Addr) -> bool {
        true
    }
    /// The next hop to a destination; `None` without a route, or where the substrate can't say.
    fn next_hop(&self, _to: Ipv4Addr) -> Option<NextHop> {
        None
    }
}

/// What a handler may do besides looking at packets, changing and dropping them. Substrates differ
/// in what they can.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Verbs(u8);

impl Verbs {
    /// Nothing else.
    pub const NONE: Verbs = Verbs(0);
    /// Hold packets and let them go later.
    pub const HOLD: Verbs = Verbs(1);
    /// Keep copies of packets.
    pub const COPY: Verbs = Verbs(2);
    /// Send packets of its own, and copies.
    pub const SEND: Verbs = Verbs(4);
    /// All that a simulated node can.
    pub const ALL: Verbs = Verbs(7);

    const NAMES: [(Verbs, &'static str); 3] = [
        (Verbs::HOLD, "hold packets"),
        (Verbs::COPY, "keep copies of packets"),
        (Verbs::SEND, "send packets"),
    ];

    /// Both together.
    #[must_use]
    pub const fn with(self, other: Verbs) -> Verbs {
        Verbs(self.0 | other.0)
    }

    /// Whether it has all of `other`.
    pub const fn has(self, other: Verbs) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those that are not in `other`, in words.
    pub fn beyond(self, other: Verbs) -> Vec<&'static str> {
        let lacks = |v: &Verbs| self.0 & v.0 != 0 && other.0 & v.0 == 0;
        Verbs::NAMES
            .iter()
            .filter(|(v, _)| lacks(v))
            .map(|(_, name)| *name)
            .collect()
    }
}

/// Lines that handlers write for people to read.
pub type Lines = Vec<String>;

/// Why what a handler sent does not leave: it is no packet, or longer than a link takes.
pub const NO_PACKET: &str = "sent, but no packet or too long";

/// What a handler sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// These octets, from the IP header on; they are given back by [`crate::Chain::recycle`].
    Octets(Vec<u8>),
    /// A copy that it kept.
    Kept {
        /// As [`Packet::copy`] gave it.
        ticket: u64,
        /// It stays with the handler: another copy is sent.
        stays: bool,
    },
}

/// A packet that a handler sends: it enters before [`Hook::Postrouting`] and does not meet the
/// handler that sent it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sending {
    /// The place of who sent it.
    pub by: usize,
    /// Octets, or a copy that was kept.
    pub what: What,
    /// To whom it goes over the link.
    pub to: LinkTo,
}

/// What handlers asked for and the chain has not done yet.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) released: VecDeque<(usize, u64, Verdict)>,
    pub(crate) sending: VecDeque<Sending>,
    pub(crate) dropped: VecDeque<(usize, u64)>,
    pub(crate) lines: Lines,
    pub(crate) spare: Vec<Vec<u8>>,
}

/// What a handler may use while it is asked.
pub struct HopCx<'a> {
    /// The time of the call.
    pub now: Time,
    /// What the node knows.
    pub site: &'a dyn Site,
    /// This handler's own stream.
    pub rng: &'a mut Rng,
    /// Its place in the chain.
    pub(crate) at: usize,
    pub(crate) timers: &'a mut [Time; TIMERS],
    pub(crate) asked: &'a mut Asked,
    pub(crate) counts: &'a mut [u64],
}

impl HopCx<'_> {
    /// Say what becomes of a packet that this handler holds: `Accept` puts it back on its way, to
    /// the next handler. `Hold` is ignored, and so is a packet that it does not hold.
    pub fn release(&mut self, ticket: u64, verdict: Verdict) {
        self.asked.released.push_back((self.at, ticket, verdict));
    }

    /// Send a packet of one's own, from its IP header on; length and header checksum are made
    /// right.
    pub fn send(&mut self, octets: &[u8], to: LinkTo) {
        let mut own = self.asked.spare.pop().unwrap_or_default();
        own.clear();
        own.extend_from_slice(octets);
        self.push(What::Octets(own), to);
    }

    /// Send a copy that was kept ([`Packet::copy`]); with `stays`, keep it for another time.
    pub fn send_kept(&mut self, ticket: u64, stays: bool, to: LinkTo) {
        self.push(What::Kept { ticket, stays }, to);
    }

    fn push(&mut self, what: What, to: LinkTo) {
        self.asked.sending.push_back(Sending {
            by: self.at,
            what,
            to,
        });
    }

    /// Let go of a copy that was kept.
    pub fn drop_kept(&mut self, ticket: u64) {
        self.asked.dropped.push_back((self.at, ticket));
    }

    /// Be called at `at`, or as soon as possible if that has passed.
    ///
    /// # Panics
    /// If `timer` is not below [`TIMERS`].
    pub fn arm(&mut self, timer: u8, at: Time) {
        self.timers[usize::from(timer)] = at;
    }

    /// Be called no more for this timer.
    ///
    /// # Panics
    /// If `timer` is not below [`TIMERS`].
    pub fn disarm(&mut self, timer: u8) {
        self.timers[usize::from(timer)] = Time::NEVER;
    }

    /// Add one to the count of this number, in the order of [`Descriptor::counts`].
    ///
    /// # Panics
    /// If the descriptor declares no such count.
    pub fn count(&mut self, count: usize) {
        self.counts[count] += 1;
    }

    /// Write a line for people to read.
    pub fn log(&mut self, line: String) {
        self.asked.lines.push(line);
    }
}

/// Something that sees packets on their way.
#[allow(unused_variables)]
pub trait Handler: Send {
    /// A packet passes one of the handler's hooks.
    fn on_packet(&mut self, hook: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict;
    /// The driver reported a transmission.
    fn on_tx_status(&mut self, status: &TxStatus, cx: &mut HopCx<'_>) {}
    /// A timer expired.
    fn on_timer(&mut self, timer: u8, cx: &mut HopCx<'_>) {}
    /// A packet that it wanted to hold is not held, or not any more: it held as many as it may, or
    /// the substrate lost it. Its ticket may be another packet's later.
    fn on_lost(&mut self, ticket: u64) {}
}

/// What a build function gets.
#[derive(Debug)]
pub struct Setup<'a> {
    /// Values of the declared parameters, and numbers of the declared annotations.
    pub params: Params<'a>,
    /// Places of the declared words that the format has.
    pub words: &'a [(&'static str, HopWord)],
}

impl Setup<'_> {
    /// The declared word `name`, unless it is optional and the format lacks it.
    pub fn find(&self, name: &str) -> Option<HopWord> {
        self.words.iter().find(|w| w.0 == name).map(|w| w.1)
    }

    /// The declared word `name`.
    ///
    /// # Panics
    /// If the descriptor does not declare it, or as optional.
    pub fn word(&self, name: &str) -> HopWord {
        match self.find(name) {
            Some(word) => word,
            None => panic!("the handler does not declare the word {name}"),
        }
    }
}

/// The public face of a handler; everything else about it is generated from this.
pub struct Descriptor {
    /// Its name in configurations.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Papers and RFCs that it follows.
    pub cites: &'static [&'static str],
    /// The hooks at which it makes sense; all of them unless the configuration says fewer.
    pub hooks: Hooks,
    /// The IP protocol for which it is meant; `None`: all.
    pub protocol: Option<u8>,
    /// The format whose packets it is for where no composition says so.
    pub format: Option<&'static Format>,
    /// The format whose header it reads by itself, without naming words: a composition that brings
    /// it must have this one.
    pub parses: Option<&'static Format>,
    /// The format of a shim that it inserts between IP and transport: so much smaller are segments.
    pub inserts: Option<&'static Format>,
    /// Parameters, with ranges and defaults.
    pub params: &'static [ParamSpec],
    /// The parameter that binds the service to another UDP port than its format's.
    pub port_param: Option<&'static str>,
    /// Header words, of the transport's format or of the shim that it inserts.
    pub words: &'static [HopWordSpec],
    /// Annotations that it reads or writes.
    pub notes: &'static [NoteSpec],
    /// Names of what it counts ([`HopCx::count`]).
    pub counts: &'static [&'static str],
    /// What it must be able to do.
    pub needs: Verbs,
    /// What it cannot do without and only a substrate knows: refused where nobody tells it.
    pub requires: &'static [Fact],
    /// What it acts upon and can do without: said where nobody tells it, before the first packet.
    pub prefers: &'static [Fact],
    /// The same as `requires` while a parameter is on, by the parameter's name.
    pub requires_with: &'static [(&'static str, &'static [Fact])],
    /// Packets and copies that it holds at most unless the configuration says otherwise; 0: none.
    pub holds: u32,
    /// It neither changes nor counts packets, so that it may be given super-packets: up to 64 KB
    /// that the driver cuts into segments later, whose checksum is not filled in yet (GSO).
    pub super_packets: bool,
    /// Make one.
    pub build: fn(&Setup<'_>) -> Result<Box<dyn Handler>, String>,
}

impl Descriptor {
    /// A descriptor with nothing in it, for struct update syntax.
    pub const EMPTY: Descriptor = Descriptor {
        name: "",
        doc: "",
        cites: &[],
        hooks: Hooks::NONE,
        protocol: None,
        format: None,
        parses: None,
        inserts: None,
        params: &[],
        port_param: None,
        words: &[],
        notes: &[],
        counts: &[],
        needs: Verbs::NONE,
        requires: &[],
        prefers: &[],
        requires_with: &[],
        holds: 0,
        super_packets: false,
        build: |_| Err(String::from("this descriptor has no build function")),
    };

    /// What it has in common with parts.
    pub fn face(&self) -> Face {
        Face {
            name: self.name,
            role: None,
            doc: self.doc,
            cites: self.cites,
            params: self.params,
            words: self.words.to_vec(),
            fields: &[],
            notes: self.notes,
            requires: self.requires,
        }
    }

    /// Octets that it adds to packets on the wire.
    pub fn adds(&self) -> u32 {
        self.inserts.map_or(0, |f| f.fixed() as u32)
    }
}

impl Named for Descriptor {
    const KIND: &'static str = "handler";
    fn name(&self) -> &'static str {
        self.name
    }
}

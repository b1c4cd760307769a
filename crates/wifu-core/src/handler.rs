//! What a handler is.

use crate::hook::{Hook, Hooks, Packet, Verdict};
use std::collections::VecDeque;
use wifu_engine::descriptor::{ParamSpec, Params};
use wifu_wire::{LinkFacts, Rng, Span, Time};

/// Timers of each handler.
pub const TIMERS: usize = 4;

/// The MAC's account of one transmission, where the substrate can know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxStatus {
    /// The packet: its ticket at the last hook that it passed.
    pub ticket: u64,
    /// It was acknowledged, or was for all.
    pub delivered: bool,
    /// Attempts.
    pub tries: u8,
    /// From entering the driver's ring to its report; live, from leaving that hook.
    pub sample: Span,
}

/// Where a handler runs: what the node knows and a handler may ask for.
pub trait Site {
    /// Number of the node.
    fn node(&self) -> u16;
    /// What its link layer reports now.
    fn link(&self) -> LinkFacts;
}

/// Lines that handlers write for people to read.
pub type Lines = Vec<String>;

/// What a handler may use while it is asked.
pub struct HopCx<'a> {
    /// Now.
    pub now: Time,
    /// The node.
    pub site: &'a dyn Site,
    /// This handler's own stream.
    pub rng: &'a mut Rng,
    /// Its place in the chain.
    pub(crate) at: usize,
    pub(crate) timers: &'a mut [Time; TIMERS],
    pub(crate) released: &'a mut VecDeque<(usize, u64, Verdict)>,
    pub(crate) lines: &'a mut Lines,
}

impl HopCx<'_> {
    /// Say what becomes of a packet that this handler holds: `Accept` lets it go on to the next
    /// handler. `Hold` is ignored, and so is a packet that it does not hold.
    pub fn release(&mut self, ticket: u64, verdict: Verdict) {
        self.released.push_back((self.at, ticket, verdict));
    }

    /// Be called at `at`, or as soon as possible if that has passed.
    ///
    /// # Panics
    /// If `timer` is not below [`TIMERS`].
    pub fn arm(&mut self, timer: u8, at: Time) {
        self.timers[usize::from(timer)] = at;
    }

    /// Write a line for people to read.
    pub fn log(&mut self, line: String) {
        self.lines.push(line);
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

/// The public face of a handler; everything else about it is generated from this.
pub struct Descriptor {
    /// Its name in configurations.
    pub name: &'static str,
    /// What it does, and the source.
    pub doc: &'static str,
    /// The hooks at which it makes sense; all of them unless the configuration says fewer.
    pub hooks: Hooks,
    /// The IP protocol for which it is meant; `None`: all.
    pub protocol: Option<u8>,
    /// Parameters.
    pub params: &'static [ParamSpec],
    /// Packets that it holds at most unless the configuration says otherwise; 0: it holds none.
    pub holds: u32,
    /// It neither changes nor counts packets, so that it may be given super-packets: up to 64 KB
    /// that the driver cuts into segments later, whose checksum is not filled in yet (GSO).
    pub super_packets: bool,
    /// Make one.
    pub build: fn(&Params<'_>) -> Result<Box<dyn Handler>, String>,
}

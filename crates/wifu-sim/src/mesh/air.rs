//! The one place that knows `wifu_radio::Radio`: a network without radios has none.

use wifu_radio::discipline::{PacketClass, Put};
use wifu_radio::plan::Plan;
use wifu_radio::{Counters, Event, Frame, LinkCounters, OnAir, Radio};
use wifu_wire::{LinkFacts, Rng, Time};

/// All radios of the network, if it has any.
pub(crate) struct Air {
    radio: Option<Radio>,
}

impl Air {
    /// Whether a plan has radios; none if nobody hears anybody, and nobody `moves` who might.
    pub(crate) fn any(plan: &Plan, moves: bool) -> bool {
        moves || plan.gains.iter().any(|row| !row.is_empty())
    }

    /// The radios of a plan.
    pub(crate) fn new(plan: &Plan, moves: bool, rng: &Rng) -> Air {
        let mut radio = Air::any(plan, moves).then(|| Radio::new(plan, rng));
        if let Some(radio) = &mut radio {
            // Nobody asks what is overheard before there is a handler.
            for node in 0..plan.nodes.len() {
                radio.set_promiscuous(node as u16, false);
            }
        }
        Air { radio }
    }

    /// Report what a node overhears if it wants to know and its radio is promiscuous at all.
    pub(crate) fn listen(&mut self, plan: &Plan, node: u16, wants: bool) {
        if let Some(radio) = &mut self.radio {
            let able = plan.nodes[usize::from(node)].radio.promiscuous;
            radio.set_promiscuous(node, wants && able);
        }
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Time {
        self.radio.as_ref().map_or(Time::NEVER, Radio::poll_timeout)
    }

    /// Nothing happens at the radios until `now`.
    pub(crate) fn pass_to(&mut self, now: Time) {
        if let Some(radio) = &mut self.radio {
            radio.pass_to(now);
        }
    }

    /// What is due next, and on until `limit` as long as nobody has to learn anything: the time
    /// then, and at how many moments something happened.
    pub(crate) fn run_until(&mut self, limit: Time) -> (Time, u64) {
        let radio = self.radio.as_mut();
        radio.map_or((limit, 0), |r| r.run_until(limit))
    }

    /// What a node has to learn.
    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.radio.as_mut()?.poll_event()
    }

    /// Packets that the node's queue takes now.
    pub(crate) fn room(&self, node: u16) -> u32 {
        self.radio.as_ref().map_or(0, |r| r.room(node))
    }

    /// Queue a packet of this class; without a radio there is no room.
    #[inline]
    pub(crate) fn put(&mut self, now: Time, node: u16, frame: Frame, class: PacketClass) -> Put {
        let radio = self.radio.as_mut();
        radio.map_or(Put::Full, |r| r.put(now, node, frame, class))
    }

    /// Facts about a node's link layer.
    pub(crate) fn link(&self, node: u16) -> Option<LinkFacts> {
        self.radio.as_ref().map(|r| r.link(node))
    }

    /// A station's account.
    pub(crate) fn counters(&self, node: u16) -> Counters {
        self.radio
            .as_ref()
            .map_or_else(Counters::default, |r| r.counters(node))
    }

    /// The accounts of the links from a node: receiver, mean SNR in dB, counters.
    pub(crate) fn links(&self, node: u16) -> impl Iterator<Item = (u16, f64, &LinkCounters)> {
        self.radio.iter().flat_map(move |r| r.links(node))
    }

    /// Change the mean received power of one direction.
    pub(crate) fn set_gain(&mut self, from: u16, to: u16, mean_dbm: f64) {
        if let Some(radio) = &mut self.radio {
            radio.set_gain(from, to, mean_dbm);
        }
    }

    /// Let nothing pass in one direction until it has a mean power again.
    pub(crate) fn cut(&mut self, from: u16, to: u16) {
        if let Some(radio) = &mut self.radio {
            radio.cut(from, to);
        }
    }

    /// The radios' own hash over what happened.
    pub(crate) fn hash(&self) -> u64 {
        self.radio.as_ref().map_or(0, Radio::trace_hash)
    }

    /// Keep records of every frame's fate, and every transmission.
    pub(crate) fn watch(&mut self, records: bool, aired: bool) {
        if let Some(radio) = &mut self.radio {
            radio.set_tracing(records);
            radio.set_watching(aired);
        }
    }

    /// The records since the last call.
    pub(crate) fn take_trace(&mut self) -> Vec<wifu_radio::trace::Record> {
        self.radio
            .as_mut()
            .map(Radio::take_trace)
            .unwrap_or_default()
    }

    /// The transmissions that began since the last call.
    pub(crate) fn take_aired(&mut self) -> Vec<OnAir> {
        self.radio
            .as_mut()
            .map(Radio::take_aired)
            .unwrap_or_default()
    }
}

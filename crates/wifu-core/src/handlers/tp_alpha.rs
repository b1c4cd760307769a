//! The shim of TP-alpha (Behaviour 9): the largest delay on the path, between IP and TCP.

use crate::handler::{Descriptor, Handler, HopCx, HopWordSpec, Setup};
use crate::hook::{Hook, Hooks, Verdict};
use crate::packet::Packet;
use crate::select::HopWord;
use crate::{ip, shim};
use core::net::Ipv4Addr;
use std::collections::BTreeMap;
use wifu_engine::descriptor::{NoteSpec, ParamSpec, UNSERVED};
use wifu_engine::{Access, Fact};
use wifu_wire::Note;
use wifu_wire::ipv4::TTL;

const ETA: ParamSpec = ParamSpec::real(
    "eta",
    3.0,
    1.0,
    100.0,
    "On a SYN, an idle node reports this many times its delay (Behaviour 9, 7.4).",
);

/// The largest delay on the path of an arriving packet.
pub const MAX_DELAY: NoteSpec = NoteSpec {
    name: "max_delay",
    access: Access::Write,
    unit: "us",
    doc: "The largest delay of a node on the path of this packet; absent without a shim.",
};
/// The delay that the peer feeds back, or that this end does.
pub const FB_DELAY: NoteSpec = NoteSpec {
    name: "fb_delay",
    access: Access::Both,
    unit: "us",
    doc: "Of an arriving packet: the delay that the peer feeds back. Of a leaving one: what to feed \
          back; absent: nothing.",
};

/// See the module.
pub static TPA_SHIM: Descriptor = Descriptor {
    name: "tpa-shim",
    doc: "Inserts TP-alpha's shim where a packet is sent, raises its max_delay to this node's and \
          counts the node at each hop, and strips it where the packet arrives (Behaviour 9). For \
          packets of `protocol`, 208 unless set. The interface needs room for 12 bytes more \
          unless a composition brings the handler: then segments are so much smaller.",
    cites: &["WiFu paper V.B"],
    hooks: Hooks::of(&[Hook::Output, Hook::Forward, Hook::Input]),
    protocol: Some(PROTOCOL),
    inserts: Some(&shim::DELAY_FORMAT),
    params: &[ETA],
    prefers: &[Fact::LinkDelay],
    words: &[
        HopWordSpec::written("count"),
        HopWordSpec::written("max_delay"),
        HopWordSpec::written("missing"),
        HopWordSpec::written("fb_delay"),
    ],
    notes: &[MAX_DELAY, FB_DELAY, UNSERVED],
    build: |s| Ok(Box::new(TpAlpha::new(s))),
    ..Descriptor::EMPTY
};

/// IP protocol of TP-alpha.
const PROTOCOL: u8 = 208;
/// Peers whose missing nodes are remembered.
const PEERS: usize = 256;

struct TpAlpha {
    eta: f64,
    count: HopWord,
    max_delay: HopWord,
    missing: HopWord,
    fb_delay: HopWord,
    notes: [Note; 3],
    /// Nodes that did not look at the packets from a peer.
    unserved: BTreeMap<Ipv4Addr, u32>,
}

impl TpAlpha {
    fn new(s: &Setup<'_>) -> TpAlpha {
        TpAlpha {
            eta: s.params.real(ETA.name),
            count: s.word("count"),
            max_delay: s.word("max_delay"),
            missing: s.word("missing"),
            fb_delay: s.word("fb_delay"),
            notes: [MAX_DELAY, FB_DELAY, UNSERVED].map(|n| s.params.note(n.name)),
            unserved: BTreeMap::new(),
        }
    }

    /// What this node reports, us.
    fn here(&self, syn: bool, cx: &HopCx<'_>) -> u32 {
        let (delay, idle) = cx.site.link().reported(cx.now);
        let us = (delay.0 / 1000) as f64 * if idle && syn { self.eta } else { 1.0 };
        us.min(f64::from(self.max_delay.place.most())) as u32
    }

    fn insert(&self, packet: &mut Packet<'_>, cx: &HopCx<'_>) -> Verdict {
        let octets = packet.octets();
        let (here, to) = (self.here(syn(octets), cx), ip::addresses(octets).1);
        let body = usize::from(shim::DELAY_FORMAT.header) - shim::HEAD;
        let Some(with) = shim::insert(octets, shim::DELAY, &[0; 8][..body]) else {
            return Verdict::Drop("no room for the shim");
        };
        packet.replace(&with);
        packet.set(self.count, 1);
        packet.set(self.max_delay, here);
        packet.set(self.missing, self.unserved.get(&to).copied().unwrap_or(0));
        let feedback = packet.notes.get(self.notes[1]).unwrap_or(0);
        packet.set(self.fb_delay, feedback.min(self.fb_delay.place.most()));
        Verdict::Accept
    }

    fn forward(&self, packet: &mut Packet<'_>, cx: &HopCx<'_>) {
        let here = self.here(syn(packet.octets()), cx);
        packet.set(self.count, (packet.get(self.count) + 1).min(255));
        if here > packet.get(self.max_delay) {
            packet.set(self.max_delay, here);
        }
    }

    fn strip(&mut self, packet: &mut Packet<'_>) {
        let words = [self.max_delay, self.fb_delay, self.missing, self.count];
        let [max_delay, feedback, told, count] = words.map(|w| packet.get(w));
        let octets = packet.octets();
        let (from, ttl) = (ip::addresses(octets).0, octets[8]);
        // The sender looked at it, and each node that lowered its TTL should have.
        let looked = u32::from(TTL.saturating_sub(ttl)) + 1;
        let missing = looked.saturating_sub(count).min(255);
        if missing == 0 {
            self.unserved.remove(&from);
        } else if self.unserved.len() < PEERS || self.unserved.contains_key(&from) {
            self.unserved.insert(from, missing);
        }
        if let Some(without) = shim::remove(octets) {
            packet.replace(&without);
        }
        for (note, value) in self.notes.into_iter().zip([max_delay, feedback]) {
            packet.notes.set(note, value);
        }
        packet.notes.set(self.notes[2], missing.max(told));
    }
}

/// Whether the TCP segment behind a shim, or the packet's payload, has SYN set.
fn syn(octets: &[u8]) -> bool {
    let start = match shim::parse(octets) {
        Some((head, start)) => Some(start + usize::from(head.length)),
        None => ip::payload(octets).map(|r| r.start),
    };
    start
        .and_then(|s| octets.get(s + 13))
        .is_some_and(|flags| flags & 2 != 0)
}

impl Handler for TpAlpha {
    fn on_packet(&mut self, hook: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        let octets = packet.octets();
        // One that is too short for its words would have them in the header behind it.
        let whole = |h: &shim::Head| h.kind == shim::DELAY && h.length >= shim::DELAY_FORMAT.header;
        let ours = shim::parse(octets).is_some_and(|(h, _)| whole(&h));
        match hook {
            Hook::Output if ip::protocol(octets) != Some(shim::PROTOCOL) => {
                return self.insert(packet, cx);
            }
            Hook::Forward if ours => self.forward(packet, cx),
            Hook::Input if ours => self.strip(packet),
            _ => {}
        }
        Verdict::Accept
    }
}

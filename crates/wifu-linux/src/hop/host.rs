//! A daemon's node.

use super::{Came, Here, HopCounters, Known, Store};
use crate::carrier;
use crate::names::TCP;
use crate::net::{Arrival, Net};
use crate::settings::DaemonError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use wifu_core::{Chain, Ground, Verbs};
use wifu_engine::descriptor::UNSERVED;
use wifu_engine::{Endpoint, EndpointConfig, Ticket};
use wifu_node::facts::told;
use wifu_node::{
    Catalog, LaneCounters, Lanes, LanesConfig, Node, Protocol, Registry, Substrate, tell_apart,
};
use wifu_wire::{FrameFacts, Neighbour, Rng, Time};

/// The node of a host: its end, and what runs for those compositions that are served.
pub(crate) struct Hop {
    node: Node,
    /// Where packets are while handlers or lanes have them.
    store: Store,
    known: RefCell<Known>,
    counters: HopCounters,
    /// Packets that came before the node sees them, and who transmitted them.
    came: Vec<(Ticket, Option<Neighbour>)>,
}

impl Hop {
    /// A node that serves these.
    ///
    /// # Errors
    /// A handler that cannot act here, or what the route socket says.
    pub(crate) fn open(
        endpoint: EndpointConfig,
        registry: &Registry,
        served: &[Arc<Protocol>],
        mtu: usize,
    ) -> Result<Hop, DaemonError> {
        // Several may have one hop half in common.
        let halves = tell_apart(served).map_err(DaemonError::Serve)?;
        let rng = Rng::new(endpoint.seed).split("node");
        let mut node = Node::new(0);
        let lanes = LanesConfig {
            mtu: mtu as u32,
            ..LanesConfig::default()
        };
        let lanes = Lanes::new(lanes, &halves, rng.split("lanes"));
        let mut end = Endpoint::new(EndpointConfig {
            mtu: mtu as u32,
            lanes: lanes.is_some(),
            unserved: registry.parts().note(UNSERVED.name),
            ..endpoint
        });
        for protocol in served {
            end.serve(&protocol.ends);
        }
        let ground = Ground {
            kinds: registry.kinds(),
            can: Verbs::ALL,
            told: &told(Substrate::Live.tellers()),
        };
        let mut chain = Chain::new();
        for protocol in &halves {
            let appended = protocol.append(&mut chain, &rng.split("served"), ground);
            appended.map_err(|e| DaemonError::Serve(e.to_string()))?;
        }
        if !chain.is_empty() {
            node.set_chain(chain);
        }
        if let Some(lanes) = lanes {
            node.set_lanes(lanes);
        }
        node.set_end(end);
        Ok(Hop {
            node,
            store: Store::new(mtu),
            known: RefCell::new(Known::open()?),
            counters: HopCounters::default(),
            came: Vec::new(),
        })
    }

    /// Whether packets meet nothing here but the end.
    #[inline]
    pub(crate) fn is_passed(&self) -> bool {
        !self.node.mask().any()
    }

    /// Indices of the interfaces by which it reaches others.
    pub(crate) fn interfaces(&self) -> Vec<i32> {
        self.known.borrow().interfaces().to_vec()
    }

    /// The end: a daemon's node has one from the beginning.
    pub(crate) fn end(&self) -> &Endpoint {
        self.node.end().expect("it was opened with one")
    }

    /// The same, to call it.
    #[inline]
    pub(crate) fn end_mut(&mut self) -> &mut Endpoint {
        self.node.end_mut().expect("it was opened with one")
    }

    fn at<'a>(&'a mut self, now: Time, net: &'a mut Net) -> (&'a mut Node, Here<'a>) {
        let here = Here {
            now,
            store: &mut self.store,
            known: &self.known,
            net,
            counters: &mut self.counters,
        };
        (&mut self.node, here)
    }

    /// A packet came: it is copied, because the node sends by what it lies in.
    pub(crate) fn take(&mut self, arrival: &Arrival<'_>) {
        let (came, transmitter) = match arrival.came {
            carrier::Came::Host => (Came::Host, None),
            carrier::Came::Link(from) => (Came::Link, from),
            carrier::Came::All(from) => (Came::All, from),
        };
        // The kernel looks at what its IP layer brings.
        if came != Came::Host && self.known.get_mut().is_martian(&arrival.ip) {
            self.counters.martian += 1;
            return;
        }
        let ticket = match arrival.frame {
            Some(frame) => self.store.copy_of(frame, came),
            None => self.store.segment(&arrival.ip, arrival.payload, came),
        };
        match ticket {
            Some(ticket) => self.came.push((ticket, transmitter)),
            None => self.counters.too_long += 1,
        }
    }

    /// What was taken meets the node.
    pub(crate) fn arrive(&mut self, now: Time, net: &mut Net) {
        let mut came = core::mem::take(&mut self.came);
        for (ticket, transmitter) in came.drain(..) {
            let facts = FrameFacts {
                transmitter,
                ..FrameFacts::NONE
            };
            let (node, mut here) = self.at(now, net);
            node.arrive(&mut here, ticket, facts);
        }
        self.came = came;
        net.flush();
    }

    /// When the next thing is due.
    pub(crate) fn poll_timeout(&mut self, now: Time, net: &mut Net) -> Time {
        if self.is_passed() {
            return self.end().poll_timeout();
        }
        let (node, mut here) = self.at(now, net);
        node.poll_timeout(&mut here)
    }

    /// What is due.
    pub(crate) fn handle_timeout(&mut self, now: Time, net: &mut Net) {
        if self.is_passed() {
            return self.end_mut().handle_timeout(now);
        }
        let (node, mut here) = self.at(now, net);
        node.handle_timeout(&mut here);
    }

    /// Send what end, handlers and lanes have to send now. True if there may be more.
    pub(crate) fn transmit(&mut self, now: Time, net: &mut Net) -> bool {
        let (node, mut here) = self.at(now, net);
        let more = node.transmit(&mut here);
        net.send_late(now);
        net.flush();
        more
    }

    /// What became of packets.
    pub(crate) fn counters(&self) -> HopCounters {
        self.counters
    }

    /// What lanes did, if there are any.
    pub(crate) fn lanes(&self) -> Option<LaneCounters> {
        self.node.lanes().map(Lanes::counters)
    }

    /// The accounts of handlers, in the words of the simulator's report.
    pub(crate) fn handlers(&self) -> Vec<serde_json::Value> {
        let account = |(name, c): (&str, wifu_core::Counters)| {
            serde_json::json!({
                "name": name,
                "packets": c.packets,
                "changed": c.changed,
                "dropped": c.dropped.values().sum::<u64>(),
                "held": c.held,
                "overflows": c.overflows,
                "kept": c.kept,
                "sent": c.sent,
                "counts": c.counts.iter().copied().collect::<BTreeMap<_, _>>(),
            })
        };
        self.node.counters().map(account).collect()
    }
}

/// The compositions that are served.
pub(crate) fn served(
    registry: &Registry,
    names: &[String],
) -> Result<Vec<Arc<Protocol>>, DaemonError> {
    let mut served = Vec::new();
    for name in names {
        let protocol = registry.resolve_on(name, Substrate::Live)?;
        if !protocol.has_hops() {
            let name = &protocol.ends.name;
            return Err(DaemonError::Serve(format!(
                "{name} brings nothing for nodes on the way: its ends need no --serve"
            )));
        }
        if protocol.ends.number == TCP {
            let name = &protocol.ends.name;
            return Err(DaemonError::Serve(format!(
                "{name} has IP protocol {TCP}, which the kernel handles: give it a number of its own"
            )));
        }
        served.push(protocol);
    }
    Ok(served)
}

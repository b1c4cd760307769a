//! A daemon's node.

use super::air::{Air, Told};
use super::icmp::{Errors, QUOTED, Refused};
use super::{Came, Drivers, Ears, Here, HopCounters, Known, Store};
use crate::carrier;
use crate::changes::Changes;
use crate::core::report::MonitorCounters;
use crate::net::{Arrival, Net};
use crate::poller::{Event, Interest, Poller};
use crate::raw::check_number;
use crate::settings::{DaemonConfig, DaemonError, HostWork};
use core::net::{IpAddr, Ipv4Addr};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use wifu_core::{Chain, Ground, Verbs, ip};
use wifu_engine::descriptor::UNSERVED;
use wifu_engine::{Blueprint, Endpoint, EndpointConfig, Fact, Ticket};
use wifu_node::facts::{self, told};
use wifu_node::{
    Catalog, Heeds, HostCounters, LaneCounters, Lanes, LanesConfig, Node, Protocol, Registry,
    Scheduler, Substrate, Teller, tell_apart,
};
use wifu_wire::{FrameFacts, Moment, Neighbour, Rng, Span, Time};

/// The node of a host: its end, and what runs for those compositions that are served.
pub(crate) struct Hop {
    node: Node,
    /// Where packets are while handlers or lanes have them.
    store: Store,
    known: RefCell<Known>,
    changes: Changes,
    /// The kernel told of changes.
    changed: bool,
    /// What a monitor interface shows, if there is one.
    air: Option<Air>,
    ears: Ears,
    drivers: Drivers,
    /// Peers of whose ways the end is still to be told anew.
    renewing: Vec<Ipv4Addr>,
    /// When the kernel's tables were last read.
    renewed: Time,
    /// Interfaces that came too late to be served, as was said.
    late: BTreeSet<i32>,
    told: Vec<Told>,
    counters: HopCounters,
    errors: Errors,
    /// What errors are to quote of packets that were not taken.
    refused: Vec<(Vec<u8>, Refused)>,
    /// Something is served: the host relays.
    serves: bool,
    /// What packets of its connections cost it.
    work: Option<HostWork>,
    /// Packets that came before the node sees them, who transmitted them, and when the kernel
    /// received them, by the wall clock.
    came: Vec<(Ticket, Option<Neighbour>, Option<u64>)>,
}

/// When a packet was received that has a stamp of the wall clock, which is so much ahead of ours:
/// not after `now`, whatever becomes of the wall clock.
fn received(stamp: u64, offset: u64, now: Time) -> Time {
    Time(stamp.saturating_sub(offset)).min(now)
}

/// An address of whose way a node knows.
fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(a) => Some(a),
        IpAddr::V6(_) => None,
    }
}

impl Hop {
    /// A node that serves these.
    ///
    /// # Errors
    /// A handler that cannot act here, or what the monitor says.
    pub(crate) fn open(
        endpoint: EndpointConfig,
        registry: &Registry,
        served: &[Arc<Protocol>],
        sources: Sources,
        (mtu, work, scheduler): (usize, Option<HostWork>, Scheduler),
    ) -> Result<Hop, DaemonError> {
        // Several may have one hop half in common.
        let halves = tell_apart(served).map_err(DaemonError::Serve)?;
        let rng = Rng::new(endpoint.seed).split("node");
        let mut node = Node::new(0);
        let lanes = LanesConfig {
            mtu: mtu as u32,
            scheduler,
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
            told: &sources.told,
        };
        let mut chain = Chain::new();
        for protocol in &halves {
            let appended = protocol.append(&mut chain, &rng.split("served"), ground);
            appended.map_err(|e| DaemonError::Serve(e.to_string()))?;
        }
        if !chain.is_empty() {
            node.set_chain(chain);
        }
        lanes.into_iter().for_each(|lanes| node.set_lanes(lanes));
        node.set_end(end);
        work.into_iter()
            .for_each(|work| node.set_cost(work.cost.slower(work.slower)));
        // Applications may open connections over whatever is known.
        node.heed(Heeds::declared(registry.kinds()));
        let heard = |f: fn(&Blueprint) -> bool| served.iter().any(|p| f(&p.ends));
        node.listen(heard(Blueprint::overhears), heard(|b| b.hears("status")));
        let (air, ears) = sources.listen(served)?;
        Ok(Hop {
            node,
            store: Store::new(mtu),
            known: RefCell::new(sources.known),
            changes: sources.changes,
            changed: false,
            air,
            ears,
            drivers: sources.drivers,
            renewing: Vec::new(),
            renewed: Time::ZERO,
            late: BTreeSet::new(),
            told: Vec::new(),
            counters: HopCounters::default(),
            errors: Errors::new(),
            refused: Vec::new(),
            serves: !served.is_empty(),
            work,
            came: Vec::new(),
        })
    }

    /// Let `poller` watch what it listens to.
    ///
    /// # Errors
    /// What the poller says.
    pub(crate) fn attach(&self, poller: &Poller) -> io::Result<()> {
        if self.serves {
            poller.add(&self.changes, TOKEN + CHANGES, Interest::READ)?;
        }
        if let Some(air) = &self.air {
            poller.add(air, TOKEN + AIR, Interest::READ)?;
        }
        self.ears.attach(poller, TOKEN + EARS)
    }

    /// The poller saw a descriptor of the node's ready. What the monitor shows is taken with what
    /// comes.
    pub(crate) fn on_event(&mut self, event: &Event) {
        if event.token == TOKEN + CHANGES {
            self.changed |= self.changes.any();
        }
    }

    /// Whether packets meet nothing here but the end.
    #[inline]
    pub(crate) fn is_passed(&self) -> bool {
        !self.serves && self.work.is_none()
    }

    /// Whether it relays what it serves.
    pub(crate) fn serves(&self) -> bool {
        self.serves
    }

    /// Learn what changed in the kernel's tables: end and lanes are told of their ways anew. Many
    /// ways are asked for a few at a time: packets come in between.
    pub(crate) fn look(&mut self, now: Time, net: &mut Net) {
        self.changed |= self.drivers.has_news();
        if self.changed && now >= self.renewed + SELDOM {
            self.changed = false;
            self.renewed = now;
            self.known.get_mut().renew();
            let names = self.known.get_mut().names();
            self.drivers.know(&names);
            for (interface, name) in &names {
                if !net.has_link(*interface) && self.late.insert(*interface) {
                    tracing::warn!(
                        "{name} came later: what comes by it for others the kernel forwards, until \
                         the daemon is started again"
                    );
                }
            }
            let peers: BTreeSet<Ipv4Addr> = {
                let end = self.end();
                let conns = end.conns().filter_map(|id| end.conn(id));
                conns
                    .filter_map(|conn| v4(conn.tuple().remote.ip()))
                    .collect()
            };
            self.renewing = self.known.get_mut().told(|peer| peers.contains(peer));
            let (node, mut here) = self.at(now, net);
            node.reroute(&mut here);
        }
        for _ in 0..RENEWALS {
            let Some(peer) = self.renewing.pop() else {
                return;
            };
            if let Some(route) = self.known.get_mut().news(peer, now, &self.drivers) {
                self.end_mut().set_route(now, peer, route);
            }
        }
    }

    /// When it looks again by itself.
    fn looks_at(&self, now: Time) -> Time {
        match (self.renewing.is_empty(), self.changed) {
            (false, _) => now,
            (true, true) => self.renewed + SELDOM,
            (true, false) => Time::NEVER,
        }
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

    /// The end, to call it, and the lanes beside it.
    #[inline]
    pub(crate) fn end_and_lanes(&mut self) -> (&mut Endpoint, Option<&Lanes>) {
        let (end, lanes) = self.node.end_and_lanes();
        (end.expect("it was opened with one"), lanes)
    }

    fn at<'a>(&'a mut self, now: Time, net: &'a mut Net) -> (&'a mut Node, Here<'a>) {
        let here = Here {
            now,
            store: &mut self.store,
            known: &self.known,
            net,
            counters: &mut self.counters,
            air: self.air.as_mut(),
            drivers: &self.drivers,
            errors: &mut self.errors,
        };
        (&mut self.node, here)
    }

    /// A packet came: it is copied, because the node sends by what it lies in. What is of IPv6
    /// meets the end alone.
    pub(crate) fn take(&mut self, now: Time, arrival: &Arrival<'_>) {
        let Some(ip) = arrival.ip.v4() else {
            let end = self.end_mut();
            return end.handle_packet(now, &arrival.ip, arrival.payload);
        };
        let (came, transmitter) = match arrival.came {
            carrier::Came::Host => (Came::Host, None),
            carrier::Came::Link(from) => (Came::Link, from),
            carrier::Came::All(from) => (Came::All, from),
        };
        // The kernel looks at what its IP layer brings.
        let (known, lanes) = (self.known.get_mut(), self.node.lanes_mut());
        if came != Came::Host && known.is_martian(&ip, transmitter, arrival.frame, lanes) {
            self.counters.martian += 1;
            return;
        }
        if arrival.fragment {
            self.counters.fragments += 1;
            let first = |f: &&[u8]| came == Came::Link && ip::is_first_fragment(f);
            if let Some(frame) = arrival.frame.filter(first) {
                self.refuse_later(frame, Refused::Fragment);
            }
            return;
        }
        // What only the end reads may have come in whatever its carrier wraps around it.
        let ticket = match arrival.frame.filter(|_| self.serves) {
            Some(frame) => self.store.copy_of(frame, came),
            None => self.store.segment(&ip, arrival.payload, came),
        };
        match ticket {
            Some(ticket) => self.came.push((ticket, transmitter, arrival.stamp)),
            None => {
                self.counters.too_long += 1;
                if let Some(frame) = arrival.frame.filter(|_| came == Came::Link) {
                    self.refuse_later(frame, Refused::Long(self.store.mtu() as u16));
                }
            }
        }
    }

    /// A packet is not taken, which its sender shall be told.
    fn refuse_later(&mut self, packet: &[u8], why: Refused) {
        if self.refused.len() < AT_ONCE {
            let quoted = packet[..packet.len().min(QUOTED)].to_vec();
            self.refused.push((quoted, why));
        }
    }

    /// Tell who sent packets that were not taken.
    fn refuse(&mut self, now: Time, net: &mut Net) {
        for (packet, why) in self.refused.drain(..) {
            if let Some((error, to)) = self.errors.about(now, &packet, why)
                && net.stray(error, to)
            {
                self.counters.icmp += 1;
            }
        }
    }

    /// What the monitor showed and what was taken meets the node.
    pub(crate) fn arrive(&mut self, now: Time, net: &mut Net) {
        self.refuse(now, net);
        if let Some(air) = &mut self.air {
            air.listen(now, &mut self.store, &mut self.told);
        }
        self.ears.listen(&mut self.store, &mut self.told);
        let mut told = core::mem::take(&mut self.told);
        for told in told.drain(..) {
            let (node, mut here) = self.at(now, net);
            let ticket = match told {
                Told::Overheard(ticket, facts) => {
                    node.overhear(&mut here, ticket, facts);
                    ticket
                }
                Told::Reported(ticket, status) => {
                    node.report(&mut here, ticket, &status);
                    ticket
                }
            };
            self.store.release(ticket);
        }
        self.told = told;
        let mut came = core::mem::take(&mut self.came);
        let stamped = came.iter().any(|c| c.2.is_some());
        let offset = stamped.then(Poller::wall_offset);
        for (ticket, transmitter, stamp) in came.drain(..) {
            let received = |(stamp, offset)| Moment::new(received(stamp, offset, now));
            let shown = self.air.as_mut();
            let shown = shown.and_then(|air| air.signal(self.store.octets(ticket)));
            let facts = FrameFacts {
                transmitter,
                received: stamp.zip(offset).and_then(received),
                ..shown.unwrap_or_else(|| self.drivers.frame(transmitter))
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
        let looks_at = self.looks_at(now);
        let (node, mut here) = self.at(now, net);
        node.poll_timeout(&mut here).min(looks_at)
    }

    /// What is due.
    pub(crate) fn handle_timeout(&mut self, now: Time, net: &mut Net) {
        if self.is_passed() {
            return self.end_mut().handle_timeout(now);
        }
        let (node, mut here) = self.at(now, net);
        node.handle_timeout(&mut here);
        if self.work.is_some() {
            // What the host is done with may fill the kernel's buffer. It takes up the next packet
            // only after that is known: for one in its hands it would be too late to wait.
            net.flush();
        }
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

    /// What the monitor showed, if there is one.
    pub(crate) fn monitor(&mut self) -> Option<MonitorCounters> {
        self.air.as_mut().map(Air::counters)
    }

    /// What drivers of Wi-Fi told last, if there are any.
    pub(crate) fn wifi(&self) -> Option<serde_json::Value> {
        self.drivers.account(&self.known.borrow().names())
    }

    /// What lanes did, if there are any.
    pub(crate) fn lanes(&self) -> Option<LaneCounters> {
        self.node.lanes().map(Lanes::counters)
    }

    /// What packets of its connections cost it, by the clock of the network, if anything.
    pub(crate) fn host(&self) -> Option<HostCounters> {
        let (work, counters) = (self.work?, self.node.host()?);
        Some(HostCounters {
            busy_s: counters.busy_s / work.slower,
            ..counters
        })
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

/// Errors about packets that are not taken, of those that come at once.
const AT_ONCE: usize = 8;

/// Marks tokens of the node: the upper half of a token, whose lower half says what it is.
const TOKEN: u64 = 0x2000 << 48;
const CHANGES: u64 = 0;
const AIR: u64 = 1;
/// The first of those of interfaces that are listened on.
const EARS: u64 = 2;
/// Ways that are asked for anew before anything else gets its turn.
const RENEWALS: usize = 16;
/// Time between two readings of the kernel's tables.
const SELDOM: Span = Span(10_000_000);

/// Whether an event of the poller is the node's.
pub(crate) fn is_hop_token(token: u64) -> bool {
    token >> 48 == TOKEN >> 48
}

/// What a daemon's node knows of its host, and who else tells it facts.
pub(crate) struct Sources {
    changes: Changes,
    known: Known,
    monitor: Option<String>,
    overhear: Vec<String>,
    drivers: Drivers,
    /// Facts that are told here.
    told: Vec<Fact>,
}

impl Sources {
    /// Of this thread's network namespace; drivers are asked if somebody is served, and their news
    /// wake `poller`.
    ///
    /// # Errors
    /// What the route socket says, and a device that is named and not there.
    pub(crate) fn open(config: &DaemonConfig, poller: &Poller) -> Result<Sources, DaemonError> {
        // Before the tables are read: what changes from here on is told.
        let changes = Changes::open()?;
        let known = Known::open(&config.devices)?;
        known.check().map_err(DaemonError::Serve)?;
        let names = match config.serve.is_empty() {
            false => known.names(),
            true => BTreeMap::new(),
        };
        let config = &config.facts;
        let absent = |e| DaemonError::Serve(format!("--delay-dir: {e}"));
        let drivers = Drivers::open(config, &names, poller.waker()).map_err(absent)?;
        let mut tellers = vec![Teller::Live];
        tellers.extend(config.monitor.as_ref().map(|_| Teller::LiveMonitor));
        tellers.extend(config.overhear.first().map(|_| Teller::LiveEar));
        let mut told = told(&tellers);
        told.extend(drivers.told());
        Ok(Sources {
            changes,
            known,
            monitor: config.monitor.clone(),
            overhear: config.overhear.clone(),
            drivers,
            told,
        })
    }

    /// Listen on its monitor and on what else overhears, to packets of what is served.
    ///
    /// # Errors
    /// An interface that cannot be listened on.
    fn listen(&self, served: &[Arc<Protocol>]) -> Result<(Option<Air>, Ears), DaemonError> {
        let mut numbers: Vec<u8> = served.iter().flat_map(|p| p.numbers()).collect();
        let in_udp = served.iter().any(|p| !p.ports.is_empty());
        numbers.extend(in_udp.then_some(ip::UDP));
        let ears = Ears::open(&self.overhear, numbers.clone());
        let deaf = |(device, e)| DaemonError::Serve(format!("--overhear {device}: {e}"));
        let air = self.monitor.as_ref().map(|device| {
            let silent = |e| DaemonError::Serve(format!("--monitor {device}: {e}"));
            Air::open(device, numbers).map_err(silent)
        });
        Ok((air.transpose()?, ears.map_err(deaf)?))
    }

    /// Where that is, for people.
    fn place(&self) -> &'static str {
        match self.monitor.is_some() || !self.overhear.is_empty() {
            false => "`wifu daemon` without `--monitor`",
            true => "`wifu daemon` with what it was given",
        }
    }

    /// Say in the log what the parts and handlers of these act upon and nobody tells them, and what
    /// they ask of nodes that hosts do not do.
    pub(crate) fn warn(&self, registry: &Registry, served: &[Arc<Protocol>]) {
        for protocol in served {
            let short = protocol.handlers.short_of(registry.kinds(), &self.told);
            for (handler, fact) in short {
                let who = format!("{} ({handler})", protocol.ends.name);
                tracing::warn!("{}", facts::without(&who, fact, self.place()));
            }
            for said in protocol.goes_without(self.place(), &self.told) {
                tracing::warn!("{}: {said}", protocol.ends.name);
            }
            let chain = &protocol.handlers.handlers;
            if Heeds::of(registry.kinds(), [&*protocol.ends], chain).hastens() {
                // In the simulator, too, unless a scenario says host.prio_feedback.
                tracing::info!(
                    "{}: its packets leave in the order in which they come; annotations feedback \
                     and priority act in the simulator alone",
                    protocol.ends.name
                );
            }
        }
    }

    /// Say in the log what drivers tell.
    pub(crate) fn log(&self) {
        tracing::info!("drivers: {}", self.drivers.describe(&self.known.names()));
    }
}

/// The compositions that are served.
pub(crate) fn served(
    registry: &Registry,
    names: &[String],
    sources: &Sources,
) -> Result<Vec<Arc<Protocol>>, DaemonError> {
    let overhears = sources.monitor.is_some() || !sources.overhear.is_empty();
    let mut served = Vec::new();
    for name in names {
        let protocol = registry.resolve_on(name, Substrate::Live)?;
        protocol.informed(sources.place(), &sources.told)?;
        if !overhears && !protocol.has_hops() && protocol.informed("", &[]).is_ok() {
            let name = &protocol.ends.name;
            return Err(DaemonError::Serve(format!(
                "{name} brings nothing for nodes on the way: without --monitor or --overhear its ends \
                 need no --serve"
            )));
        }
        if let Err(what) = check_number(protocol.ends.number) {
            let name = &protocol.ends.name;
            return Err(DaemonError::Serve(format!("{name}: {what}")));
        }
        served.push(protocol);
    }
    Ok(served)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_was_received_by_our_clock_and_never_in_the_future() {
        let now = Time(5_000);
        // Our clock began at 100 of the wall's.
        assert_eq!(received(3_100, 100, now), Time(3_000));
        assert_eq!(received(5_100, 100, now), now);
        // The wall clock was set back, or forth, since the packet came.
        assert_eq!(received(9_100, 100, now), now);
        assert_eq!(received(90, 100, now), Time::ZERO);
    }
}

//! The host's network as its node sees it: what [`wifu_node::Node`] asks for.

use super::air::Air;
use super::icmp::{Errors, Refused};
use super::{Came, Drivers, HopCounters, Store};
use crate::carrier::neighbour;
use crate::neighbours::{Ethernet, Neighbours, Way, is_among};
use crate::net::{By, Net};
use crate::sys::LinkAddress;
use core::net::Ipv4Addr;
use core::num::NonZeroU16;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use wifu_core::ip;
use wifu_engine::{Endpoint, RouteFacts, Ticket};
use wifu_node::{Bound, Lanes, Lost, Reader, Relayed, Ways};
use wifu_wire::ipv4::{self, HEADER};
use wifu_wire::names::unknown;
use wifu_wire::{Ecn, IpInfo, LinkFacts, Neighbour, Notes, Span, Time};

/// How long an answer of the kernel about a way holds.
const FRESH: Span = Span::SECOND;
/// ... while the kernel looks for the next hop's station.
const SOON: Span = Span(10_000_000);
/// Ways remembered; beyond it all are asked for afresh.
const REMEMBERED: usize = 4096;
/// The station that all of a link are.
const ALL: [u8; 6] = [0xFF; 6];

/// What the kernel said of a destination.
#[derive(Clone, Copy)]
struct Answer {
    way: Option<Way>,
    until: Time,
    /// A packet took the way through the IP layer since then, which lets the kernel confirm its
    /// neighbour.
    confirmed: bool,
}

/// What a node knows of its host.
pub(crate) struct Known {
    neighbours: Neighbours,
    ways: BTreeMap<Ipv4Addr, Answer>,
    /// Addresses of stations that ways led to.
    stations: BTreeMap<Neighbour, Ipv4Addr>,
    local: Vec<Ipv4Addr>,
    /// Names of interfaces, if not all are to be its links.
    devices: Vec<String>,
    /// Interfaces with addresses that are its links.
    interfaces: Vec<i32>,
    ethernets: BTreeMap<i32, Ethernet>,
    /// What the end was told of the ways of its connections.
    told: BTreeMap<Ipv4Addr, RouteFacts>,
}

impl Known {
    /// Of this thread's network namespace; its links are the Ethernet interfaces of these names, or
    /// all if none is named.
    ///
    /// # Errors
    /// What the route socket says.
    pub(crate) fn open(devices: &[String]) -> io::Result<Known> {
        let mut known = Known {
            neighbours: Neighbours::open()?,
            ways: BTreeMap::new(),
            stations: BTreeMap::new(),
            local: Vec::new(),
            devices: devices.to_vec(),
            interfaces: Vec::new(),
            ethernets: BTreeMap::new(),
            told: BTreeMap::new(),
        };
        known.interfaces = known.look()?;
        Ok(known)
    }

    /// Whether all interfaces that were named are there.
    ///
    /// # Errors
    /// Which one is not, or has no address, for people.
    pub(crate) fn check(&self) -> Result<(), String> {
        let links = self.names();
        for device in &self.devices {
            if links.values().any(|name| name == device) {
                continue;
            }
            let all: Vec<&str> = self.ethernets.values().map(|e| e.name.as_str()).collect();
            let why = match all.contains(&device.as_str()) {
                true => format!("{device} has no IPv4 address: give it one first"),
                false => unknown("Ethernet interface", device, all),
            };
            return Err(format!("--device {device}: {why}"));
        }
        Ok(())
    }

    /// Learn this host's addresses; gives the interfaces that have any and are its links.
    fn look(&mut self) -> io::Result<Vec<i32>> {
        self.ethernets = self.neighbours.ethernets()?;
        let ethernets = &self.ethernets;
        let addresses = self.neighbours.local_addresses()?;
        let is_link = |e: &Ethernet| is_among(&self.devices, &e.name);
        let on_links = addresses
            .iter()
            .filter(|(i, _)| ethernets.get(i).is_some_and(is_link));
        let mut interfaces: Vec<i32> = on_links.clone().map(|(i, _)| *i).collect();
        interfaces.sort_unstable();
        interfaces.dedup();
        // Those on links first: by the first one headers name this host.
        self.local = on_links.map(|(_, a)| *a).collect();
        self.local.extend(addresses.iter().map(|(_, a)| *a));
        Ok(interfaces)
    }

    /// Something changed in the kernel's tables: it is asked again.
    pub(crate) fn renew(&mut self) {
        self.ways.clear();
        match self.look() {
            Ok(interfaces) => self.interfaces = interfaces,
            Err(e) => tracing::warn!("this host's addresses are not known anew: {e}"),
        }
    }

    /// Those of whose ways the end was told. Who is no peer of it any more goes.
    pub(crate) fn told(&mut self, is_peer: impl Fn(&Ipv4Addr) -> bool) -> Vec<Ipv4Addr> {
        self.told.retain(|to, _| is_peer(to));
        self.told.keys().copied().collect()
    }

    /// What the end has to be told of the way to a peer, unless it knows.
    pub(crate) fn news(
        &mut self,
        to: Ipv4Addr,
        now: Time,
        drivers: &Drivers,
    ) -> Option<RouteFacts> {
        let route = self.route(to, now, drivers).unwrap_or_default();
        if self.told.len() >= REMEMBERED {
            self.told.clear();
        }
        (self.told.insert(to, route) != Some(route)).then_some(route)
    }

    fn route(&mut self, to: Ipv4Addr, now: Time, drivers: &Drivers) -> Option<RouteFacts> {
        let way = self.way(to, now)?;
        let route = RouteFacts {
            next_hop: way.station.and_then(neighbour),
            last_hop: way.hop == to,
            ..RouteFacts::default()
        };
        Some(drivers.complete(route, way.station))
    }

    pub(crate) fn interfaces(&self) -> &[i32] {
        &self.interfaces
    }

    /// Names of the interfaces by which others are reached.
    pub(crate) fn names(&self) -> BTreeMap<i32, String> {
        let named = |i: &i32| Some((*i, self.ethernets.get(i)?.name.clone()));
        self.interfaces.iter().filter_map(named).collect()
    }

    fn me(&self) -> Ipv4Addr {
        self.local.first().copied().unwrap_or(Ipv4Addr::LOCALHOST)
    }

    fn is_local(&self, address: Ipv4Addr) -> bool {
        self.local.contains(&address)
    }

    /// Whether no packet that comes over a link can be from there or for there: it could reach
    /// what listens on loopback only.
    fn is_nowhere(ip: &IpInfo) -> bool {
        let never = |a: Ipv4Addr| a.octets()[0] == 0 || a.is_loopback() || a.octets()[0] >= 224;
        never(ip.src) || never(ip.dst)
    }

    /// Whether a packet that came over a link cannot have: one from this host could go round for
    /// ever. But a neighbour to which ways lead says what it has of a flow from here in packets
    /// with the flow's own addresses, which go no further than the lanes.
    pub(crate) fn is_martian(
        &self,
        ip: &IpInfo,
        from: Option<Neighbour>,
        frame: Option<&[u8]>,
        lanes: Option<&mut Lanes>,
    ) -> bool {
        if Known::is_nowhere(ip) || !self.is_local(ip.src) {
            return Known::is_nowhere(ip);
        }
        let known = from.is_some_and(|from| self.stations.contains_key(&from));
        let lanes = lanes.filter(|_| known && !self.is_local(ip.dst));
        !lanes.zip(frame).is_some_and(|(l, f)| l.ends_here(f))
    }

    /// How packets to a destination leave.
    fn way(&mut self, to: Ipv4Addr, now: Time) -> Option<Way> {
        if let Some(answer) = self.ways.get(&to)
            && now < answer.until
        {
            return answer.way;
        }
        let way = self.neighbours.ask(to).ok().flatten();
        if self.ways.len() >= REMEMBERED {
            self.ways.clear();
            self.stations.clear();
        }
        let sought = way.is_some_and(|w| w.station.is_none());
        let answer = Answer {
            way,
            until: now + if sought { SOON } else { FRESH },
            confirmed: false,
        };
        self.ways.insert(to, answer);
        if let Some(Way {
            hop,
            station: Some(station),
            ..
        }) = way
            && let Some(neighbour) = neighbour(station)
        {
            self.stations.insert(neighbour, hop);
        }
        way
    }
}

impl Known {
    /// The station that a packet to a destination goes to; not for the first one after each
    /// answer.
    fn station(&mut self, to: Ipv4Addr) -> Option<LinkAddress> {
        let answer = self.ways.get_mut(&to)?;
        let confirmed = core::mem::replace(&mut answer.confirmed, true);
        answer.way.filter(|_| confirmed)?.station
    }
}

/// The network around a daemon's node.
pub(crate) struct Here<'a> {
    pub(crate) now: Time,
    pub(crate) store: &'a mut Store,
    pub(crate) known: &'a RefCell<Known>,
    pub(crate) net: &'a mut Net,
    pub(crate) counters: &'a mut HopCounters,
    pub(crate) air: Option<&'a mut Air>,
    pub(crate) drivers: &'a Drivers,
    pub(crate) errors: &'a mut Errors,
}

impl Here<'_> {
    /// Tell who sent a packet that it cannot go on, if it came over a link for this host.
    fn refuse(&mut self, packet: Ticket, why: Refused) {
        if self.store.is_own(packet) || self.store.came(packet) == Came::All {
            return;
        }
        let octets = self.store.octets(packet);
        if let Some((error, to)) = self.errors.about(self.now, octets, why)
            && self.net.stray(error, to)
        {
            self.counters.icmp += 1;
        }
    }

    /// Whether a packet that is sent on is longer than the link takes by which it would leave: then
    /// it is lost.
    fn is_too_long(&mut self, packet: Ticket, interface: i32) -> bool {
        let mtu = self.known.borrow().ethernets.get(&interface).map(|e| e.mtu);
        let mtu = mtu.filter(|mtu| self.store.octets(packet).len() > *mtu as usize);
        let Some(mtu) = mtu.filter(|_| !self.store.is_own(packet)) else {
            return false;
        };
        self.counters.too_long += 1;
        self.refuse(packet, Refused::Long(mtu as u16));
        self.store.release(packet);
        true
    }

    /// A packet left for an interface, if that is known.
    fn left(&mut self, packet: Ticket, interface: Option<i32>) {
        let octets = self.store.octets(packet);
        let reported = |air: &mut Air| {
            let device = interface.and_then(|i| u32::try_from(i).ok());
            device.is_some_and(|device| air.left(self.now, packet, octets, device))
        };
        if !self.air.as_deref_mut().is_some_and(reported) {
            self.store.release(packet);
        }
    }

    /// Hand a packet to a carrier.
    fn put(&mut self, packet: Ticket, by: By) -> Result<(), Lost> {
        let ip = self.ip(packet);
        let own = || ip.src.is_loopback() || self.known.borrow().is_local(ip.src);
        let by = match ip.proto == ip::UDP && self.net.has_udp() && own() {
            true => By::Carrier,
            false => by,
        };
        match self.net.put(self.now, &ip, self.store.octets(packet), by) {
            true => Ok(()),
            false => Err(Lost::Queue),
        }
    }
}

impl Ways for Here<'_> {
    fn now(&self) -> Time {
        self.now
    }

    fn me(&self) -> Ipv4Addr {
        self.known.borrow().me()
    }

    fn address(&self, neighbour: Neighbour) -> Option<Ipv4Addr> {
        self.known.borrow().stations.get(&neighbour).copied()
    }

    fn log(&mut self, line: String) {
        tracing::info!("{line}");
    }

    fn route(&self, to: Ipv4Addr) -> Option<RouteFacts> {
        self.known.borrow_mut().route(to, self.now, self.drivers)
    }

    fn link(&self, to: Option<Ipv4Addr>) -> LinkFacts {
        let known = &mut *self.known.borrow_mut();
        let way = to.and_then(|to| known.way(to, self.now));
        let room = way.map(|way| self.net.link_room(way.station.map(|s| s.interface)));
        let first = known.interfaces.first().copied();
        let Some(interface) = way.map(|way| way.interface).or(first) else {
            return LinkFacts::default();
        };
        let station = way.and_then(|way| way.station);
        let files = self.drivers.link(interface, station, self.now);
        let shown = self.air.as_deref().and_then(|air| air.link(interface));
        let shown = shown.unwrap_or_default();
        // The driver knows its own delay better: the monitor's has the queue before it as well.
        let by = if files.delay.is_some() { files } else { shown };
        LinkFacts {
            delay: by.delay,
            sample: by.sample,
            first: shown.first.or(files.first),
            last_done: files.last_done.max(shown.last_done),
            busy: files.busy,
            rate: shown.rate.or(files.rate),
            room,
            ..shown
        }
    }

    fn room(&mut self, to: Ipv4Addr) -> u32 {
        match self.known.borrow_mut().way(to, self.now) {
            Some(way) => self.net.link_room(way.station.map(|s| s.interface)),
            None => 0,
        }
    }

    /// The poller tells of a carrier's room, and the kernel of a route when it is asked again.
    fn room_at(&mut self, to: Ipv4Addr) -> Time {
        let known = self.known.borrow();
        let answer = known.ways.get(&to).filter(|a| a.way.is_none());
        answer.map_or(Time::NEVER, |a| a.until)
    }

    fn tell_room(&mut self, end: &mut Endpoint) -> Time {
        let mut named = false;
        for (interface, room) in self.net.link_rooms() {
            let device = u16::try_from(interface).ok().and_then(NonZeroU16::new);
            if let Some(device) = device {
                end.set_device_room(device, room);
                named = true;
            }
        }
        match named {
            true => end.set_other_room(self.net.room()),
            false => end.set_room(self.net.room()),
        }
        Time::NEVER
    }

    fn emit(&mut self, end: &mut Endpoint) -> Option<(Ticket, Notes)> {
        if !end.is_waiting() {
            return None;
        }
        let packet = self.store.insert(Came::Own);
        let room = self.store.room(packet);
        let (datagram, ip) = loop {
            let Some(datagram) = end.poll_transmit(self.now, &mut room[HEADER..]) else {
                self.store.release(packet);
                return None;
            };
            match datagram.ip.v4() {
                Some(ip) => break (datagram, ip),
                // A node knows nothing of IPv6. That there is no room here is as if it was lost.
                None => {
                    let segment = &room[HEADER..][..datagram.len];
                    self.net.send_past(self.now, &datagram.ip, segment);
                }
            }
        };
        ipv4::emit(&ip, datagram.len, room);
        self.store.set_len(packet, HEADER + datagram.len);
        let to = ip.dst;
        if datagram.conn.is_some()
            && let Some(route) = self.known.borrow_mut().news(to, self.now, self.drivers)
        {
            end.set_route(self.now, to, route);
        }
        let conn = datagram.conn.and_then(|id| end.conn(id));
        Some((packet, conn.map_or(Notes::EMPTY, |c| c.aside().notes)))
    }

    fn ip(&self, packet: Ticket) -> IpInfo {
        let octets = self.store.octets(packet);
        let (src, dst) = ip::addresses(octets);
        IpInfo {
            src,
            dst,
            proto: octets[9],
            ttl: octets[8],
            ecn: Ecn::of(octets[1]),
        }
    }

    fn octets(&self, packet: Ticket) -> &[u8] {
        self.store.octets(packet)
    }

    fn rewrite(&mut self, packet: Ticket, octets: &[u8]) -> bool {
        self.store.rewrite(packet, octets)
    }

    fn patch(&mut self, packet: Ticket, change: &mut dyn FnMut(&mut [u8])) {
        change(self.store.octets_mut(packet));
    }

    fn is_own(&self, packet: Ticket) -> bool {
        self.store.is_own(packet)
    }

    fn copy(&mut self, packet: Ticket) -> Ticket {
        self.store.again(packet, true)
    }

    fn twin(&mut self, packet: Ticket) -> Ticket {
        self.store.keep(packet, true);
        self.store.again(packet, false)
    }

    fn go(&mut self, packet: Ticket) {
        self.store.keep(packet, false);
    }

    fn made(&mut self, octets: &[u8]) -> Option<Ticket> {
        let packet = self.store.copy_of(octets, Came::Own)?;
        ip::repair(self.store.octets_mut(packet));
        Some(packet)
    }

    fn free(&mut self, packet: Ticket) {
        match self.store.is_kept(packet) || self.store.came(packet) == Came::All {
            true => self.store.release(packet),
            false => self.lose(packet, Lost::Hop),
        }
    }

    fn lose(&mut self, packet: Ticket, why: Lost) {
        let counters = &mut *self.counters;
        let count = match why {
            Lost::Queue | Lost::Link | Lost::Wire | Lost::Lane => &mut counters.queue,
            Lost::Route => &mut counters.route,
            Lost::Hop => &mut counters.hop,
            Lost::Host => &mut counters.host,
            Lost::Late => &mut counters.late,
        };
        *count += 1;
        if why == Lost::Route {
            let expired = self.store.octets(packet)[8] == 0;
            let why = match expired {
                true => Refused::Expired,
                false => Refused::NoRoute,
            };
            self.refuse(packet, why);
        }
        self.store.release(packet);
    }

    fn bound(&self, packet: Ticket) -> Bound {
        let (_, dst) = ip::addresses(self.store.octets(packet));
        let came = self.store.came(packet);
        if came == Came::Host || self.known.borrow().is_local(dst) {
            Bound::Here
        } else if came == Came::All {
            Bound::Heard
        } else {
            Bound::Onward
        }
    }

    fn relay(&mut self, packet: Ticket) -> Relayed {
        if !self.ready(packet) {
            return Relayed::Expired;
        }
        self.counters.forwarded += 1;
        Relayed::Now
    }

    fn ready(&mut self, packet: Ticket) -> bool {
        if self.store.came(packet) == Came::Own {
            return true;
        }
        self.store.set_came(packet, Came::Own);
        let octets = self.store.octets_mut(packet);
        let ttl = octets[8].saturating_sub(1);
        ip::lower_ttl(octets, ttl);
        ttl > 0
    }

    fn send(&mut self, packet: Ticket) -> Result<(), Lost> {
        let (_, dst) = ip::addresses(self.store.octets(packet));
        let (way, station) = {
            let known = &mut *self.known.borrow_mut();
            (known.way(dst, self.now), known.station(dst))
        };
        match way {
            Some(way) if self.is_too_long(packet, way.interface) => return Ok(()),
            Some(way) => match (self.put(packet, By::Way(station)), way.station) {
                // It was to confirm the neighbour, and the kernel is busy finding others.
                (Err(_), Some(station)) => self.put(packet, By::Station(station))?,
                (put, _) => put?,
            },
            // What this host sends to itself, or by a device of its own.
            None if self.store.is_own(packet) => self.put(packet, By::Carrier)?,
            None => return Err(Lost::Route),
        }
        self.left(packet, way.map(|w| w.interface));
        Ok(())
    }

    fn send_to(&mut self, packet: Ticket, to: Option<Neighbour>) -> Result<(), Lost> {
        let station = |n: Neighbour| LinkAddress {
            interface: i32::from(n.device.get()),
            mac: n.address,
        };
        if let Some(to) = to {
            if self.is_too_long(packet, i32::from(to.device.get())) {
                return Ok(());
            }
            self.put(packet, By::Station(station(to)))?;
        } else {
            let interfaces = self.known.borrow().interfaces.clone();
            let all = interfaces.into_iter().map(|interface| LinkAddress {
                interface,
                mac: ALL,
            });
            // It left if any of them took it.
            let mut left = Err(Lost::Queue);
            for all in all {
                left = left.or(self.put(packet, By::Station(all)));
            }
            left?;
        }
        // What is for all is reported once, by the first.
        let first = self.known.borrow().interfaces.first().copied();
        let interface = to.map(|to| i32::from(to.device.get())).or(first);
        self.left(packet, interface);
        Ok(())
    }

    fn hasten(&mut self, _: Ticket) {}

    fn is_for_end(&self, _: Ticket) -> bool {
        true
    }

    /// No application of the daemon reads datagrams.
    fn deliver(&mut self, _: Ticket) -> bool {
        false
    }

    fn delivered(&mut self, packet: Ticket, _: Reader) {
        self.store.release(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::Lab;
    use crate::poller::{Coalesce, Poller};
    use crate::settings::FactsConfig;

    #[test]
    fn who_is_no_peer_any_more_is_forgotten() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let mut lab = Lab::create(&format!("t-known-{}", std::process::id())).unwrap();
        let ns = lab.node("a").unwrap();
        let waker = Poller::new(Coalesce::OFF).unwrap().waker();
        let open = || {
            let drivers = Drivers::open(&FactsConfig::default(), &BTreeMap::new(), waker.clone());
            (Known::open(&[]).unwrap(), drivers.unwrap())
        };
        let (mut known, drivers) = ns.run(open).unwrap();
        let peers = [1, 2, 3].map(|i| Ipv4Addr::new(10, 79, 0, i));
        for peer in peers {
            assert!(known.news(peer, Time(1), &drivers).is_some(), "{peer}");
            assert!(
                known.news(peer, Time(2), &drivers).is_none(),
                "{peer}, again"
            );
        }
        assert_eq!(known.told(|peer| *peer == peers[1]), [peers[1]]);
        // Who becomes one again is told of.
        assert!(known.news(peers[0], Time(3), &drivers).is_some());
        assert!(known.news(peers[1], Time(3), &drivers).is_none());
    }
}

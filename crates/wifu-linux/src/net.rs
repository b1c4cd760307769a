//! What a daemon sends and receives by: its carriers, the capture, and faults on order.

mod open;

use crate::capture::Capture;
use crate::carrier::{BATCH, Came, Carrier, ICMP, Stack};
use crate::doubles::Doubles;
use crate::faults::{FaultCounters, Faults};
use crate::kind::Kind;
use crate::links::Links;
use crate::names::numbers;
use crate::poller::{Event, Poller};
use crate::settings::{DaemonConfig, DaemonError};
use crate::sys::LinkAddress;
use crate::unreachable::{Ear, Unreachable, understand, unwrapped};
use core::net::{IpAddr, Ipv4Addr};
use open::{bare, doubles, ear, open_carrier, ways};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use wifu_core::ip::UDP;
use wifu_engine::Endpoint;
use wifu_wire::pcapng::Direction;
use wifu_wire::{AnyIpInfo, IpInfo, Time, ipv6};

/// Tokens of carriers: carrier number in the low bits, above this.
const CARRIERS: u64 = 1 << 62;

/// The tokens of the sockets that hear ICMP and ICMPv6.
const ERRORS: u64 = 1 << 60;
const ERRORS_V6: u64 = ERRORS + 1;

/// Errors that wait for the end of a round; more are dropped, as a network may do.
const HEARD: usize = 256;

/// How many descriptors a carrier may have: distance between the tokens of two carriers.
const DESCRIPTORS: u64 = 1 << 16;

/// Segments received before anything else gets its turn.
const BURST: usize = 512;

/// Of the faults: those of packets that leave, and of those that come.
pub(crate) const OUT: usize = 0;
pub(crate) const IN: usize = 1;

/// A packet that came.
pub(crate) struct Arrival<'a> {
    pub(crate) ip: AnyIpInfo,
    pub(crate) payload: &'a [u8],
    /// The whole packet, unless faults had it.
    pub(crate) frame: Option<&'a [u8]>,
    pub(crate) came: Came,
    /// When the kernel received it, nanoseconds since 1970, where that is known.
    pub(crate) stamp: Option<u64>,
    /// A fragment, of which only the header is whole.
    pub(crate) fragment: bool,
}

/// By what a packet is to leave.
#[derive(Clone, Copy)]
pub(crate) enum By {
    /// The carrier of its protocol.
    Carrier,
    /// To the next hop of its route, as far as its station is known.
    Way(Option<LinkAddress>),
    /// To this station.
    Station(LinkAddress),
}

/// Carriers, and what sees or spoils the packets on them.
pub(crate) struct Net {
    carriers: Vec<Carrier>,
    /// The carrier of each protocol number.
    ways: [u8; 256],
    /// The numbers of protocols on the carrier `udp`, where there is `raw` as well.
    doubles: Option<Doubles>,
    /// The number of which datagrams of `udp` say 0.
    tcp: Option<u8>,
    capture: Option<Capture>,
    /// What goes wrong on the way out, and in.
    faults: [Option<Faults>; 2],
    /// Where segments are written before it is known which of several carriers is theirs.
    spare: Vec<u8>,
    /// Past the carriers, for a host that relays.
    links: Option<Links>,
    /// Hears what networks say of packets that do not arrive, where that is allowed.
    ear: Option<Ear>,
    heard: Vec<Unreachable>,
}

impl Net {
    /// Open carriers, with the numbers that this host relays, those of them that the kernel
    /// forwards not even when the daemon was killed, and the UDP ports of what it relays.
    ///
    /// # Errors
    /// What a carrier or the capture's file says.
    pub(crate) fn open(
        config: &DaemonConfig,
        (relayed, guarded): (&[u8], &[u8]),
        services: &[u16],
        poller: &Poller,
    ) -> Result<Net, DaemonError> {
        let mut all = numbers(config.registry.library());
        all.extend(relayed);
        all.sort_unstable();
        all.dedup();
        let doubles = doubles(config, &all)?;
        let tcp = bare(config)?;
        let mut carriers = Vec::new();
        for (i, c) in config.carriers.iter().enumerate() {
            // Packets of IPv6 would cost a host with a profile nothing.
            let asked = (&config.devices[..], config.host.is_none());
            let halves = (relayed, guarded, services);
            let mut carrier = open_carrier(c, &all, halves, asked, (doubles.as_ref(), tcp))?;
            carrier.attach(poller, CARRIERS + i as u64 * DESCRIPTORS)?;
            carriers.push(carrier);
        }
        let create = |path| {
            let names: Vec<&str> = carriers.iter().map(Carrier::name).collect();
            Capture::create(path, &names, Poller::wall_offset())
        };
        let capture = config.pcap.as_ref().map(|path| {
            create(path).map_err(|source| DaemonError::Capture {
                path: path.clone(),
                source,
            })
        });
        let faults = [(config.faults, "out"), (config.faults_in, "in")];
        let mut net = Net {
            capture: capture.transpose()?,
            ways: ways(&carriers, doubles.as_ref()),
            carriers,
            doubles,
            tcp,
            faults: faults.map(|(config, way)| Some(Faults::new(config?, way))),
            spare: Vec::new(),
            links: None,
            ear: ear(config, poller)?,
            heard: Vec::new(),
        };
        net.spare = vec![0; net.mtu()];
        Ok(net)
    }

    /// Open queues of their own for these interfaces.
    ///
    /// # Errors
    /// What the sockets or the poller say.
    pub(crate) fn link(&mut self, interfaces: &[i32], poller: &Poller) -> io::Result<()> {
        let links = Links::open(interfaces, self.mtu())?;
        links.attach(poller, self.links_base())?;
        self.links = Some(links);
        Ok(())
    }

    /// Tokens of links follow those of carriers.
    fn links_base(&self) -> u64 {
        CARRIERS + self.carriers.len() as u64 * DESCRIPTORS
    }

    /// The longest IP packet that all carriers send; protocols that `udp` wraps know themselves
    /// that theirs are shorter.
    pub(crate) fn mtu(&self) -> usize {
        let mtus = self.carriers.iter().map(Carrier::mtu);
        mtus.min().unwrap_or(1500)
    }

    /// Let the carrier `udp` have these sockets, at their ports.
    ///
    /// # Errors
    /// What the poller says, or the kernel of an option.
    pub(crate) fn adopt(&mut self, ports: Vec<(u16, OwnedFd)>, poller: &Poller) -> io::Result<()> {
        let base = CARRIERS + u64::from(self.ways[usize::from(UDP)]) * DESCRIPTORS;
        let carrier = self.carrier(UDP);
        for port in ports {
            self.carriers[carrier].adopt(port, (poller, base))?;
        }
        Ok(())
    }

    /// Let it give up those at these ports.
    pub(crate) fn release(&mut self, ports: BTreeSet<u16>) {
        let carrier = self.carrier(UDP);
        for port in ports {
            self.carriers[carrier].release(port);
        }
    }

    /// The carriers, for people.
    pub(crate) fn described(&self) -> String {
        let all: Vec<String> = self.carriers.iter().map(Carrier::described).collect();
        all.join(", ")
    }

    /// The addresses of connections on a TUN device, if there is one.
    pub(crate) fn stack(&self) -> Option<Stack> {
        self.carriers.iter().find_map(Carrier::stack)
    }

    /// Those that carry no IPv6, and why.
    pub(crate) fn v4_alone(&self) -> Vec<(Kind, &'static str)> {
        let all = self.carriers.iter();
        all.filter_map(|c| Some((c.kind(), c.carries_v6().err()?)))
            .collect()
    }

    /// The numbers of protocols on the carrier `udp`, where there is `raw` as well.
    pub(crate) fn doubles(&self) -> Option<&Doubles> {
        self.doubles.as_ref()
    }

    /// The poller saw a carrier ready.
    pub(crate) fn on_event(&mut self, event: &Event) {
        if let Some(ear) = &mut self.ear
            && [ERRORS, ERRORS_V6].contains(&event.token)
        {
            return match event.token {
                ERRORS => ear.hear(&mut self.heard),
                _ => ear.hear_v6(&mut self.heard),
            };
        }
        if event.token >= self.links_base() {
            self.links.iter_mut().for_each(Links::flush);
            return;
        }
        let token = event.token - CARRIERS;
        let carrier = &mut self.carriers[(token / DESCRIPTORS) as usize];
        if event.readable() {
            carrier.mark_ready((token % DESCRIPTORS) as usize);
        }
        if event.writable() {
            carrier.flush();
        }
    }

    /// What was heard of packets that did not arrive.
    pub(crate) fn take_heard(&mut self) -> impl Iterator<Item = Unreachable> {
        self.heard.truncate(HEARD);
        let (doubles, tcp) = (self.doubles.as_ref(), self.tcp);
        self.heard
            .drain(..)
            .map(move |told| unwrapped(told, doubles, tcp))
    }

    /// Hand over what the carriers have, up to a burst each; gives how many packets came.
    pub(crate) fn receive(&mut self, now: Time, mut take: impl FnMut(Arrival<'_>)) -> usize {
        let mut total = 0;
        for (i, carrier) in self.carriers.iter_mut().enumerate() {
            let mut count = 0;
            while count < BURST || carrier.holds() {
                let Some(packets) = carrier.receive() else {
                    break;
                };
                for packet in packets {
                    count += 1;
                    if let Some(capture) = &mut self.capture {
                        let frame = packet.frame;
                        note(capture, &self.doubles, (i, now), frame, Direction::In);
                    }
                    let icmp = match packet.ip.dst {
                        IpAddr::V4(_) => ICMP,
                        IpAddr::V6(_) => ipv6::ICMP,
                    };
                    if packet.ip.proto == icmp {
                        self.heard.extend(understand(packet.frame));
                        continue;
                    }
                    match &mut self.faults[IN] {
                        Some(f) if !packet.fragment => {
                            f.put(now, (i, packet.came), &packet.ip, packet.payload)
                        }
                        _ => take(Arrival {
                            ip: packet.ip,
                            payload: packet.payload,
                            frame: Some(packet.frame),
                            came: packet.came,
                            stamp: packet.stamp,
                            fragment: packet.fragment,
                        }),
                    }
                }
            }
            total += count;
        }
        if let Some(faults) = &mut self.faults[IN] {
            while let Some(packet) = faults.take(now) {
                take(Arrival {
                    ip: packet.ip,
                    payload: &packet.segment,
                    frame: None,
                    came: packet.came,
                    stamp: None,
                    fragment: false,
                });
                faults.done(packet);
            }
        }
        total
    }

    /// Packets that each carrier takes now.
    pub(crate) fn room(&self) -> u32 {
        self.carriers.iter().map(Carrier::room).min().unwrap_or(0)
    }

    /// ... and each link, by its interface; none of them where faults see what leaves. The carrier
    /// `udp` sends by the same interfaces.
    pub(crate) fn link_rooms(&self) -> impl Iterator<Item = (i32, u32)> {
        let udp = self.carriers.iter().filter(|c| c.kind() == Kind::Udp);
        let most = udp.map(Carrier::room).min().unwrap_or(u32::MAX);
        let links = self.links.iter().filter(|_| self.faults[OUT].is_none());
        links
            .flat_map(Links::rooms)
            .map(move |(i, room)| (i, room.min(most)))
    }

    /// Whether any of them takes packets now.
    pub(crate) fn has_room(&self) -> bool {
        let links = self.links.as_ref().is_some_and(Links::has_room);
        links || self.room() > 0
    }

    /// Whether an interface has a queue of its own.
    pub(crate) fn has_link(&self, interface: i32) -> bool {
        self.links
            .as_ref()
            .is_some_and(|links| links.has(interface))
    }

    /// Packets that leave by an interface and that are taken now; without one, or where it has no
    /// queue of its own, the kernel takes them, or not.
    pub(crate) fn link_room(&self, interface: Option<i32>) -> u32 {
        let links = self.links.as_ref();
        match (links, interface) {
            _ if self.faults[OUT].is_some() => self.room(),
            (Some(links), Some(interface)) if links.has(interface) => links.room(interface),
            _ => BATCH as u32,
        }
    }

    /// Give the kernel what carriers have.
    pub(crate) fn flush(&mut self) {
        self.carriers.iter_mut().for_each(Carrier::flush);
        self.links.iter_mut().for_each(Links::flush);
    }

    /// Let the poller tell of room where there is none.
    ///
    /// # Errors
    /// What the poller says.
    pub(crate) fn rearm(&mut self, poller: &Poller) -> io::Result<()> {
        for (i, carrier) in self.carriers.iter_mut().enumerate() {
            carrier.rearm(poller, CARRIERS + i as u64 * DESCRIPTORS)?;
        }
        let base = self.links_base();
        if let Some(links) = &mut self.links {
            links.rearm(poller, base)?;
        }
        Ok(())
    }

    /// By which carrier a packet leaves.
    fn carrier(&self, proto: u8) -> usize {
        usize::from(self.ways[usize::from(proto)])
    }

    /// By which carrier packets of others go on: only raw sockets have any.
    fn relaying(&self) -> usize {
        let raw = self.carriers.iter().position(|c| c.kind() == Kind::Raw);
        raw.unwrap_or(0)
    }

    /// Whether a carrier sends datagrams of UDP that are such by their own format.
    pub(crate) fn has_udp(&self) -> bool {
        self.carriers.iter().any(|c| c.kind() == Kind::Udp)
    }

    /// Send the next segment of the end; false if there is none, or no room.
    pub(crate) fn send_one(&mut self, now: Time, endpoint: &mut Endpoint) -> bool {
        if let ([only], None) = (&mut self.carriers[..], &self.faults[OUT]) {
            let Some(slot) = only.slot() else {
                return false;
            };
            let Some(d) = endpoint.poll_transmit(now, slot) else {
                return false;
            };
            let packet = only.commit(&d.ip, d.len);
            if let Some(capture) = &mut self.capture {
                capture.packet(0, now, packet, Direction::Out);
            }
            return true;
        }
        let Some(d) = endpoint.poll_transmit(now, &mut self.spare) else {
            return false;
        };
        let at = self.carrier(d.ip.proto);
        if let Some(faults) = &mut self.faults[OUT] {
            faults.put(now, (at, Came::Host), &d.ip, &self.spare[..d.len]);
            self.send_late(now);
            return true;
        }
        let Some(packet) = self.carriers[at].load(&d.ip, &self.spare[..d.len]) else {
            return false;
        };
        if let Some(capture) = &mut self.capture {
            note(capture, &self.doubles, (at, now), packet, Direction::Out);
        }
        true
    }

    /// Send a whole packet; false without room. Faults see what takes its route.
    pub(crate) fn put(&mut self, now: Time, ip: &IpInfo, octets: &[u8], by: By) -> bool {
        let at = match by {
            // A datagram of this host's own leaves by its carrier.
            By::Way(_) | By::Station(_) if ip.proto == UDP => self.relaying(),
            _ => self.carrier(ip.proto),
        };
        if let Some(faults) = &mut self.faults[OUT]
            && !matches!(by, By::Station(_))
            && let Some(header) = wifu_core::ip::header(octets)
        {
            faults.put(now, (at, Came::Host), &ip.any(), &octets[header..]);
            return true;
        }
        let sent = match (&mut self.links, by) {
            _ if self.carriers[at].kind() != Kind::Raw => self.carriers[at].put(octets, ip.dst),
            (Some(links), By::Station(station)) => links.put(octets, station),
            (Some(links), By::Way(Some(station))) if links.is_linked(station) => {
                links.put(octets, station)
            }
            (Some(links), By::Way(_)) => links.stray(octets, ip.dst),
            _ => self.carriers[at].put(octets, ip.dst),
        };
        if let (Some(capture), true) = (&mut self.capture, sent) {
            note(capture, &self.doubles, (at, now), octets, Direction::Out);
        }
        sent
    }

    /// Send a segment that no node sees; false without room.
    pub(crate) fn send_past(&mut self, now: Time, ip: &AnyIpInfo, segment: &[u8]) -> bool {
        let at = self.carrier(ip.proto);
        if let Some(faults) = &mut self.faults[OUT] {
            faults.put(now, (at, Came::Host), ip, segment);
            return true;
        }
        let packet = self.carriers[at].load(ip, segment);
        if let (Some(capture), Some(packet)) = (&mut self.capture, packet) {
            note(capture, &self.doubles, (at, now), packet, Direction::Out);
        }
        packet.is_some()
    }

    /// Hand a packet of this host's own to the IP layer; false without links, or without room.
    pub(crate) fn stray(&mut self, octets: &[u8], to: Ipv4Addr) -> bool {
        let links = self.links.as_mut();
        links.is_some_and(|links| links.stray(octets, to))
    }

    /// Send what faults have let through; gives the room that is left. A capture shows what went
    /// out, not what should have.
    pub(crate) fn send_late(&mut self, now: Time) -> u32 {
        let Self {
            carriers,
            capture,
            faults,
            doubles,
            ..
        } = self;
        while let Some(faults) = &mut faults[OUT]
            && carriers.iter().all(|c| c.room() > 0)
            && let Some(packet) = faults.take(now)
        {
            let at = packet.carrier;
            if let Some(frame) = carriers[at].load(&packet.ip, &packet.segment)
                && let Some(capture) = capture
            {
                note(capture, doubles, (at, now), frame, Direction::Out);
            }
            faults.done(packet);
        }
        self.room()
    }

    /// When a packet that faults hold is due. While a carrier is full, its room wakes the loop.
    pub(crate) fn faults_timeout(&self) -> Time {
        let due = |f: &Option<Faults>| f.as_ref().map_or(Time::NEVER, Faults::poll_timeout);
        let out = if self.room() > 0 {
            due(&self.faults[OUT])
        } else {
            Time::NEVER
        };
        out.min(due(&self.faults[IN]))
    }

    /// Nothing came: there is time to write the capture.
    pub(crate) fn rests(&mut self) {
        if let Some(capture) = &mut self.capture {
            capture.hand_over();
        }
    }

    /// Carriers by name, with their counters.
    pub(crate) fn carriers(&self) -> Vec<(&str, crate::carrier::Counters)> {
        let all = self.carriers.iter().map(|c| (c.name(), c.counters()));
        let links = self.links.iter().map(|l| ("links", l.counters()));
        all.chain(links).collect()
    }

    /// What faults did on the way out or in.
    pub(crate) fn faulted(&self, way: usize) -> Option<FaultCounters> {
        self.faults[way].as_ref().map(Faults::counters)
    }
}

/// Let a capture show a packet of a carrier, as it is on the wire.
fn note(
    capture: &mut Capture,
    doubles: &Option<Doubles>,
    (carrier, now): (usize, Time),
    packet: &[u8],
    way: Direction,
) {
    match doubles.as_ref().and_then(|d| d.shown(packet)) {
        Some(shown) => capture.packet(carrier, now, &shown, way),
        None => capture.packet(carrier, now, packet, way),
    }
}

//! A substrate of nothing but bytes: packets in a map, with the TTL where IP has it. What it sends
//! lies in a list until the test takes it.
#![allow(dead_code)]

use core::net::Ipv4Addr;
use core::num::NonZeroU8;
use std::collections::{BTreeMap, VecDeque};
use wifu_core::{LinkTo, ip};
use wifu_engine::{Endpoint, RouteFacts, Ticket};
use wifu_node::{Bound, Lost, Reader, Relayed, Ways};
use wifu_wire::ipv4::{self, HEADER};
use wifu_wire::{IpInfo, LinkFacts, Neighbour, Notes, Time};

/// Bytes of the largest packet.
pub const MTU: usize = 1_500;

struct Entry {
    bytes: Vec<u8>,
    /// It came over a link, and its TTL has not been lowered.
    came: bool,
    own: bool,
    kept: bool,
}

/// The world around a node whose address is `me`.
pub struct World {
    pub me: Ipv4Addr,
    pub now: Time,
    packets: BTreeMap<u32, Entry>,
    /// Packets that the way to an address takes; nine where nothing is said.
    pub rooms: BTreeMap<Ipv4Addr, u32>,
    made: u32,
    /// So many packets are refused though their way has room.
    pub refuses: u32,
    /// What left, and to whom.
    pub sent: VecDeque<(LinkTo, Vec<u8>)>,
    /// What was lost.
    pub lost: Vec<Lost>,
    /// What was read here.
    pub read: Vec<Reader>,
    pub lines: Vec<String>,
}

impl World {
    pub fn new(me: Ipv4Addr) -> World {
        World {
            me,
            now: Time(1_000),
            packets: BTreeMap::new(),
            rooms: BTreeMap::new(),
            made: 0,
            refuses: 0,
            sent: VecDeque::new(),
            lost: Vec::new(),
            read: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// A packet that is here; `came` if it is to be relayed yet.
    pub fn insert(&mut self, bytes: Vec<u8>, came: bool) -> Ticket {
        self.made += 1;
        let entry = Entry {
            bytes,
            came,
            own: !came,
            kept: false,
        };
        self.packets.insert(self.made, entry);
        Ticket(self.made)
    }

    /// Packets that are here.
    pub fn packets(&self) -> usize {
        self.packets.len()
    }

    fn entry(&mut self, packet: Ticket) -> &mut Entry {
        self.packets.get_mut(&packet.0).expect("it is here")
    }

    fn take(&mut self, packet: Ticket) -> Entry {
        self.packets.remove(&packet.0).expect("it is here")
    }

    fn again(&mut self, packet: Ticket, kept: bool) -> Ticket {
        let first = self.entry(packet);
        let (bytes, came) = (first.bytes.clone(), first.came);
        let next = self.insert(bytes, came);
        self.entry(next).kept = kept;
        next
    }
}

impl Ways for World {
    fn now(&self) -> Time {
        self.now
    }
    fn me(&self) -> Ipv4Addr {
        self.me
    }
    fn address(&self, neighbour: Neighbour) -> Option<Ipv4Addr> {
        Some(Ipv4Addr::new(10, 0, 0, neighbour.address[5]))
    }
    fn log(&mut self, line: String) {
        self.lines.push(line);
    }
    fn route(&self, to: Ipv4Addr) -> Option<RouteFacts> {
        let room = self.rooms.get(&to).copied().unwrap_or(9);
        Some(RouteFacts {
            next_hop: Neighbour::new(1, [2, 0, 0, 0, 0, to.octets()[3]]),
            hops: NonZeroU8::new(room.min(255) as u8),
            last_hop: true,
            ..RouteFacts::default()
        })
    }
    fn link(&self, _: Option<Ipv4Addr>) -> LinkFacts {
        LinkFacts::default()
    }
    fn room(&mut self, to: Ipv4Addr) -> u32 {
        self.rooms.get(&to).copied().unwrap_or(9)
    }
    fn room_at(&mut self, _: Ipv4Addr) -> Time {
        Time::NEVER
    }
    fn tell_room(&mut self, end: &mut Endpoint) -> Time {
        end.set_room(9);
        Time::NEVER
    }
    fn emit(&mut self, end: &mut Endpoint) -> Option<(Ticket, Notes)> {
        let mut bytes = vec![0; MTU];
        let datagram = end.poll_transmit(self.now, &mut bytes[HEADER..])?;
        bytes.truncate(HEADER + datagram.len);
        ipv4::emit(&datagram.ip, datagram.len, &mut bytes);
        let conn = datagram.conn.and_then(|id| end.conn(id));
        let notes = conn.map_or(Notes::EMPTY, |conn| conn.aside().notes);
        Some((self.insert(bytes, false), notes))
    }
    fn ip(&self, packet: Ticket) -> IpInfo {
        let bytes = self.octets(packet);
        let (src, dst) = match ip::header(bytes) {
            Some(_) => ip::addresses(bytes),
            None => (Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED),
        };
        let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
        IpInfo {
            src,
            dst,
            proto: at(9),
            ttl: at(8),
        }
    }
    fn octets(&self, packet: Ticket) -> &[u8] {
        &self.packets[&packet.0].bytes
    }
    fn rewrite(&mut self, packet: Ticket, octets: &[u8]) -> bool {
        let fits = octets.len() <= MTU;
        if fits {
            self.entry(packet).bytes = octets.to_vec();
        }
        fits
    }
    fn patch(&mut self, packet: Ticket, change: &mut dyn FnMut(&mut [u8])) {
        change(&mut self.entry(packet).bytes);
    }
    fn is_own(&self, packet: Ticket) -> bool {
        self.packets[&packet.0].own
    }
    fn copy(&mut self, packet: Ticket) -> Ticket {
        self.again(packet, true)
    }
    fn twin(&mut self, packet: Ticket) -> Ticket {
        self.entry(packet).kept = true;
        self.again(packet, false)
    }
    fn go(&mut self, packet: Ticket) {
        self.entry(packet).kept = false;
    }
    fn made(&mut self, octets: &[u8]) -> Option<Ticket> {
        ip::header(octets).filter(|_| octets.len() <= MTU)?;
        let mut bytes = octets.to_vec();
        ip::repair(&mut bytes);
        Some(self.insert(bytes, false))
    }
    fn free(&mut self, packet: Ticket) {
        if !self.take(packet).kept {
            self.lost.push(Lost::Queue);
        }
    }
    fn lose(&mut self, packet: Ticket, why: Lost) {
        self.take(packet);
        self.lost.push(why);
    }
    fn bound(&self, packet: Ticket) -> Bound {
        match self.ip(packet).dst == self.me {
            true => Bound::Here,
            false => Bound::Onward,
        }
    }
    fn relay(&mut self, packet: Ticket) -> Relayed {
        match self.ready(packet) {
            true => Relayed::Now,
            false => Relayed::Expired,
        }
    }
    fn ready(&mut self, packet: Ticket) -> bool {
        let entry = self.entry(packet);
        if !core::mem::take(&mut entry.came) {
            return true;
        }
        let ttl = entry.bytes[8] - 1;
        ip::lower_ttl(&mut entry.bytes, ttl);
        ttl > 0
    }
    fn send(&mut self, packet: Ticket) -> Result<(), Lost> {
        if self.refuses > 0 {
            self.refuses -= 1;
            return Err(Lost::Queue);
        }
        let dst = self.ip(packet).dst;
        if let Some(room) = self.rooms.get_mut(&dst) {
            *room = room.checked_sub(1).ok_or(Lost::Queue)?;
        }
        let entry = self.take(packet);
        self.sent.push_back((LinkTo::Route, entry.bytes));
        Ok(())
    }
    fn send_to(&mut self, packet: Ticket, to: Option<Neighbour>) -> Result<(), Lost> {
        let entry = self.take(packet);
        let to = to.map_or(LinkTo::All, LinkTo::Neighbour);
        self.sent.push_back((to, entry.bytes));
        Ok(())
    }
    fn deliver(&mut self, _: Ticket) -> bool {
        false
    }
    fn delivered(&mut self, packet: Ticket, by: Reader) {
        self.take(packet);
        self.read.push(by);
    }
}

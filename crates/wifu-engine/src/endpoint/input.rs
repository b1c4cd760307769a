//! Input: packets and deadlines.

use super::listen::Opener;
use super::replies::REPLY;
use super::{ConnId, Datagram, Endpoint, ListenId, Served};
use crate::admission::{Admission, Claim, Tuple};
use crate::blueprint::Blueprint;
use crate::conn::Transmit;
use crate::signal::Status;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use wifu_wire::ip::{TTL, header_to};
use wifu_wire::{AnyIpInfo, Class, Ecn, FrameFacts, Head, IpInfo, Time};

impl Endpoint {
    /// A packet arrived: its IP header's facts and what follows the header.
    #[inline]
    pub fn handle_packet<A>(&mut self, now: Time, ip: &IpInfo<A>, segment: &[u8])
    where
        A: Copy + Into<IpAddr>,
    {
        self.handle_frame(now, ip, segment, FrameFacts::NONE);
    }

    /// A packet arrived with what its carrier knows of it: radio, transmitter, and what handlers
    /// left for it (`bytes` is filled in here).
    #[inline]
    pub fn handle_frame<A>(&mut self, now: Time, ip: &IpInfo<A>, segment: &[u8], frame: FrameFacts)
    where
        A: Copy + Into<IpAddr>,
    {
        self.handle(now, &ip.any(), segment, frame);
    }

    fn handle(&mut self, now: Time, ip: &AnyIpInfo, segment: &[u8], mut frame: FrameFacts) {
        if !are_hosts(ip) && (is_group(ip.dst) || is_group(ip.src)) {
            return self.drops.count("group address"); //= rfc9293#section-3.9.2.3
        }
        let Some(served) = &self.served[usize::from(ip.proto)] else {
            return self.drops.count("protocol not served");
        };
        let wire = &served.wire;
        if !wire.verify(&ip.pseudo(), segment) {
            return self.drops.count("checksum");
        }
        let header = match wire.parse(segment, &mut self.head) {
            Ok(n) => n,
            Err(reason) => return self.drops.count(reason),
        };
        (self.head.ttl, self.head.ecn) = (ip.ttl, ip.ecn);
        let answers = served.admission;
        let tuple = Tuple {
            proto: ip.proto,
            local: SocketAddr::new(ip.dst, self.head.dport),
            remote: SocketAddr::new(ip.src, self.head.sport),
        };
        let bytes = segment.len() + header_to(ip.dst);
        frame.bytes = u16::try_from(bytes).unwrap_or(u16::MAX);
        frame.unserved = match (self.config.unserved, served.hop_count) {
            (None, None) => None,
            (note, count) => {
                let told = note.and_then(|n| frame.notes.get(n));
                let missing = || {
                    let counted = count.and_then(|_| served.wire.counted(segment))?;
                    missing(served.wire.class(segment), counted, ip.ttl)
                };
                told.map(|n| n.min(255) as u8).or_else(missing)
            }
        };
        frame.told = self.head.unserved;
        let found = self.table.find_again(answers, &tuple, self.head.conn_id);
        let index = match found {
            Some(i) if !self.table.at(i).rests => Some(i),
            _ => self.admit(now, answers, (tuple, found), &segment[..header], &frame),
        };
        let payload = &segment[header..];
        let Some(i) = index else {
            return self.refuse(answers, &tuple, payload.len() as u32);
        };
        let slot = self.table.at_mut(i);
        let Some(conn) = slot.conn.as_mut() else {
            return;
        };
        slot.heard = now;
        if slot.embryo && !slot.proved {
            slot.proved = answers.proves(&self.head, conn.board().tx.iss);
        }
        let dropped = conn.handle_segment(now, &mut self.head, payload, &frame);
        if let Some(reason) = dropped {
            self.drops.count(reason);
        }
        if frame.tells_of_unserved() {
            *self.unserved.entry(ip.proto).or_default() += 1;
        }
        self.touch(i);
    }

    /// Whose a packet is that finds no connection by its key, or one that rests.
    fn admit(
        &mut self,
        now: Time,
        answers: &'static dyn Admission,
        (tuple, found): (Tuple, Option<u32>),
        header: &[u8],
        frame: &FrameFacts,
    ) -> Option<u32> {
        let (opens, conn_id) = (answers.opens(&self.head), self.head.conn_id);
        let listener = self.listeners.find(tuple.proto, tuple.local);
        if opens && let Some(i) = self.table.holder(answers, &tuple, conn_id) {
            match self.table.claim(now, answers, i, &self.head) {
                Claim::Own => return Some(i),
                Claim::Refused => return None,
                // Nobody would open the new one.
                Claim::Replaces if listener.is_none() => return found,
                Claim::Replaces => self.table.give_way(now, i, &mut self.listeners),
            }
        } else if found.is_some() {
            return found;
        }
        let (id, key) = (listener?, answers.key(&tuple, conn_id));
        let cached = self.listeners.get_mut(id)?.cached(&key, now);
        if let Some(old) = cached.filter(|o| answers.restores(&self.head, o.iss)) {
            let old = old.clone();
            return self.restore(now, id, old);
        }
        if !opens {
            return None;
        }
        let blueprint = Arc::clone(&self.listeners.get_mut(id)?.blueprint);
        let (rng, iss) = self.numbers.draw(now, &tuple);
        let opener = Opener {
            blueprint,
            tuple,
            conn_id,
            answers,
            at: now,
            header: header.into(),
            ttl: self.head.ttl,
            frame: *frame,
            rng,
            iss,
        };
        self.embryo(now, id, opener)
    }

    /// Puts a connection among the embryos of a listener. Under a flood the oldest one makes room:
    /// memory stays bounded, and nobody is locked out. A peer that answers after that, or repeats
    /// its opener, finds its connection made again, see [`Endpoint::restore`].
    fn embryo(&mut self, now: Time, id: ListenId, opener: Opener) -> Option<u32> {
        self.listeners.ask(id);
        let evicted = self.listeners.get_mut(id)?.evict();
        if let Some(old) = evicted
            && let Some(slot) = self.table.slot(old).filter(|s| s.embryo)
        {
            // The list knows already.
            slot.embryo = false;
            self.drops.count("backlog full: oldest embryo evicted");
            self.answer_before(now, old);
            self.remove(old.index);
        }
        let drawn = (opener.rng, opener.iss);
        let opened = self.open(drawn, &opener.blueprint, opener.tuple, opener.conn_id);
        let i = opened.ok()?;
        let embryo = self.table.id(i);
        let slot = self.table.at_mut(i);
        (slot.listener, slot.embryo) = (Some(id), true);
        if let Some(conn) = slot.conn.as_mut() {
            conn.listen(opener.at);
        }
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.embryo(embryo, opener);
        }
        Some(i)
    }

    /// What an embryo that makes room has not sent yet, its answer: many openers may come before
    /// the first answer is polled.
    fn answer_before(&mut self, now: Time, id: ConnId) {
        let mut out = [0; 2_048];
        let Some(conn) = self.table.conn_mut(id.index) else {
            return;
        };
        let sent = conn.poll_transmit(now, &mut self.answer, &mut out);
        if let Some(Transmit::Bytes(len)) = sent {
            let datagram = Datagram::of(conn, id, len, self.answer.ecn);
            self.reply(datagram.ip, &out[..len]);
        }
    }

    /// Makes an embryo that made room again, as it was: its answer included, which is not sent
    /// twice.
    fn restore(&mut self, now: Time, id: ListenId, opener: Opener) -> Option<u32> {
        let (at, frame, mut head) = (opener.at, opener.frame, Head::default());
        let served = self.served[usize::from(opener.tuple.proto)].as_ref()?;
        served.wire.parse(&opener.header, &mut head).ok()?;
        head.ttl = opener.ttl;
        let i = self.embryo(now, id, opener)?;
        let conn = self.table.conn_mut(i)?;
        conn.handle_segment(at, &mut head, &[], &frame);
        let mut unsent = [0; 2_048];
        while conn.poll_transmit(at, &mut head, &mut unsent).is_some() {}
        Some(i)
    }

    /// Answers a packet of no connection, unless a listener has nothing to say to it.
    fn refuse(&mut self, answers: &'static dyn Admission, tuple: &Tuple, len: u32) {
        let speaks = answers.opens(&self.head) || answers.refuses(&self.head);
        if !speaks && self.listeners.find(tuple.proto, tuple.local).is_some() {
            return self.drops.count("means nothing to a listener");
        }
        self.drops.count("no such connection");
        let Some(Served { wire, .. }) = &self.served[usize::from(tuple.proto)] else {
            return;
        };
        if !wire.refuse(&self.head, len, &mut self.answer) {
            return;
        }
        let ip = IpInfo {
            src: tuple.local.ip(),
            dst: tuple.remote.ip(),
            proto: tuple.proto,
            ttl: TTL,
            ecn: Ecn::NotEct,
        };
        let mut bytes = [0; REPLY];
        let len = wire.emit(&self.answer, &mut bytes);
        wire.seal(&ip.pseudo(), &mut bytes[..len]);
        self.reply(ip, &bytes[..len]);
        if self.config.between {
            self.wake(answers, tuple);
        }
    }

    /// Makes the end at the other side of this one speak, if it has a connection with the one that
    /// spoke, to refuse it as well.
    fn wake(&mut self, answers: &'static dyn Admission, tuple: &Tuple) {
        let Some(Served { wire, .. }) = &self.served[usize::from(tuple.proto)] else {
            return;
        };
        if !answers.wakes(&self.head, &mut self.answer) {
            return;
        }
        let ip = IpInfo {
            src: tuple.remote.ip(),
            dst: tuple.local.ip(),
            proto: tuple.proto,
            ttl: TTL,
            ecn: Ecn::NotEct,
        };
        let mut bytes = [0; REPLY];
        let len = wire.emit(&self.answer, &mut bytes);
        wire.seal(&ip.pseudo(), &mut bytes[..len]);
        self.reply(ip, &bytes[..len]);
    }

    /// Send this for no connection, as soon as there is room.
    fn reply(&mut self, ip: AnyIpInfo, segment: &[u8]) {
        if let Err(reason) = self.replies.push(ip, segment) {
            self.drops.count(reason);
        }
    }

    /// A radio overheard a packet that this node sent, or that is on its way to it.
    pub fn handle_overheard(&mut self, now: Time, ip: &IpInfo, segment: &[u8], frame: &FrameFacts) {
        let ip = &ip.any();
        // What we sent first: a packet to ourselves is not on the air.
        for along in [true, false] {
            let Some((i, header)) = self.hearer(ip, segment, along, Blueprint::overhears) else {
                continue;
            };
            let bytes = u16::try_from(segment.len() + header_to(ip.dst)).unwrap_or(u16::MAX);
            let frame = FrameFacts {
                bytes,
                along,
                ..*frame
            };
            if let Some(conn) = self.table.conn_mut(i) {
                conn.handle_overheard(now, &self.head, &segment[header..], &frame);
                self.touch(i);
            }
        }
    }

    /// The driver reported a packet that this node sent; number and class of the status are filled
    /// in here.
    pub fn handle_status(&mut self, now: Time, ip: &IpInfo, segment: &[u8], status: &Status) {
        let ip = &ip.any();
        let hears = |b: &Blueprint| b.hears("status");
        if let Some((i, _)) = self.hearer(ip, segment, true, hears)
            && let Some(conn) = self.table.conn_mut(i)
        {
            let class = conn.blueprint().wire.class(segment);
            conn.handle_status(now, &self.head, class, status);
            self.touch(i);
        }
    }

    /// The connection that sent a packet of which a network says that it does not arrive, if the
    /// packet is one that may be on its way. `segment` is what followed its IP header, as far as it
    /// is quoted: at least the header of its protocol.
    //= rfc5927#section-4.1
    pub fn sender_of(&mut self, ip: &AnyIpInfo, segment: &[u8]) -> Option<ConnId> {
        let (i, _) = self.hearer(ip, segment, true, |_| true)?;
        let conn = self.table.at(i).conn.as_ref()?;
        conn.may_be_on_its_way(&self.head).then(|| self.table.id(i))
    }

    /// The connection that sent a packet (`along`) or is to get it, if its parts hear of that; and
    /// the length of the header. `self.head` is the packet's.
    fn hearer(
        &mut self,
        ip: &AnyIpInfo,
        segment: &[u8],
        along: bool,
        hears: fn(&Blueprint) -> bool,
    ) -> Option<(u32, usize)> {
        let Served { wire, .. } = self.served[usize::from(ip.proto)].as_ref()?;
        let header = wire.parse(segment, &mut self.head).ok()?;
        (self.head.ttl, self.head.ecn) = (ip.ttl, ip.ecn);
        let source = SocketAddr::new(ip.src, self.head.sport);
        let target = SocketAddr::new(ip.dst, self.head.dport);
        let (local, remote) = if along {
            (source, target)
        } else {
            (target, source)
        };
        let proto = ip.proto;
        let tuple = Tuple {
            proto,
            local,
            remote,
        };
        let i = self.find(&tuple, self.head.conn_id)?;
        let conn = self.table.at(i).conn.as_ref()?;
        hears(conn.blueprint()).then_some((i, header))
    }

    /// Deadlines that passed.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(i) = self.table.due(now) {
            if let Some(conn) = self.table.conn_mut(i) {
                conn.handle_timeout(now);
            }
            self.touch(i);
        }
    }
}

/// Whether both addresses are of one node each, as most first octets of IPv4 say at once.
#[inline]
fn are_hosts(ip: &AnyIpInfo) -> bool {
    let plain = |a: Ipv4Addr| (1..224).contains(&a.octets()[0]);
    matches!((ip.src, ip.dst), (IpAddr::V4(src), IpAddr::V4(dst)) if plain(src) && plain(dst))
}

/// Whether an address means more than one node, or none.
fn is_group(a: IpAddr) -> bool {
    match a {
        IpAddr::V4(a) => a.is_multicast() || a.is_broadcast() || a.is_unspecified(),
        // One of the other family in disguise is on no wire (RFC 4291 2.5.5.2).
        IpAddr::V6(a) => a.is_multicast() || a.is_unspecified() || a.to_ipv4_mapped().is_some(),
    }
}

/// Nodes on the way that did not look at a packet: those that it counts are fewer than its TTL
/// says. A sender counts itself, and each node that lowers the TTL should.
fn missing(class: Class, counted: u32, ttl: u8) -> Option<u8> {
    let passed = u32::from(TTL.saturating_sub(ttl)) + 1;
    let ends_only = matches!(class, Class::Feedback | Class::Hop);
    (!ends_only).then_some(passed.saturating_sub(counted).min(255) as u8)
}

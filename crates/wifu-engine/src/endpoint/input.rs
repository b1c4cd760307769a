//! Input: packets and deadlines.

use super::*;

impl Endpoint {
    /// A packet arrived: its IP header's facts and what follows the header.
    pub fn handle_packet(&mut self, now: Time, ip: &IpInfo, segment: &[u8]) {
        self.handle_frame(now, ip, segment, &FrameFacts::default());
    }

    /// A packet arrived with what its carrier knows of it: radio, transmitter, and what handlers
    /// left for it (`bytes` is filled in here).
    pub fn handle_frame(&mut self, now: Time, ip: &IpInfo, segment: &[u8], facts: &FrameFacts) {
        let many = |a: Ipv4Addr| a.is_multicast() || a.is_broadcast() || a.is_unspecified();
        if many(ip.dst) || many(ip.src) {
            return self.count_drop("group address"); //= rfc9293#section-3.9.2.3
        }
        let Some(wire) = &self.wires[usize::from(ip.proto)] else {
            return self.count_drop("protocol not served");
        };
        let pseudo = Pseudo {
            src: ip.src,
            dst: ip.dst,
            proto: ip.proto,
        };
        if !wire.verify(&pseudo, segment) {
            return self.count_drop("checksum");
        }
        let header = match wire.parse(segment, &mut self.head) {
            Ok(n) => n,
            Err(reason) => return self.count_drop(reason),
        };
        self.head.ttl = ip.ttl;
        let tuple = Tuple {
            proto: ip.proto,
            local: SocketAddrV4::new(ip.dst, self.head.dport),
            remote: SocketAddrV4::new(ip.src, self.head.sport),
        };
        let frame = FrameFacts {
            bytes: u16::try_from(segment.len() + wifu_wire::ipv4::HEADER).unwrap_or(u16::MAX),
            unserved: self.unserved(&**wire, segment, ip.ttl, facts),
            ..*facts
        };
        let found = match self.latest {
            Some((t, i)) if t == tuple => Some(i),
            _ => self.demux.get(&tuple).copied(),
        };
        let index = match found {
            Some(i) if self.reopens(i) => {
                self.give_way(i);
                self.embryo(now, tuple, &segment[..header], &frame)
            }
            Some(i) => Some(i),
            None if self.head.flags.has(Flags::SYN) => {
                self.embryo(now, tuple, &segment[..header], &frame)
            }
            None => self.restore_by_ack(now, tuple),
        };
        let payload = &segment[header..];
        let Some(i) = index else {
            return self.refuse(ip, payload.len() as u32);
        };
        self.latest = Some((tuple, i));
        let Some(conn) = self.slots[i as usize].conn.as_mut() else {
            return;
        };
        let dropped = conn.handle_segment(now, &mut self.head, payload, &frame);
        if let Some(reason) = dropped {
            self.count_drop(reason);
        }
        self.touch(i);
    }

    /// Nodes on the way that did not look at a packet: a handler says so, or the packet's own count
    /// is less than the TTL that it lost.
    fn unserved(&self, wire: &dyn Wire, segment: &[u8], ttl: u8, facts: &FrameFacts) -> Option<u8> {
        if let Some(told) = self.config.unserved.and_then(|n| facts.notes.get(n)) {
            return Some(told.min(255) as u8);
        }
        let count = wire.hop_count()?;
        let ends_only = matches!(wire.class(segment), Class::Feedback | Class::Hop);
        // The sender counts itself, and each node that lowers the TTL should.
        let looked = u32::from(TTL.saturating_sub(ttl)) + 1;
        let missing = looked.saturating_sub(count.read(segment));
        (!ends_only).then_some(missing.min(255) as u8)
    }

    /// A new SYN for a connection that only waits for old segments to die out: it may open anew if
    /// its number lies beyond all that was received (RFC 9293 3.10.7.4, TIME-WAIT), or if its
    /// timestamp does: fast transfers outrun the clock of initial numbers (RFC 6191).
    pub(super) fn reopens(&self, i: u32) -> bool {
        let Some(conn) = &self.slots[i as usize].conn else {
            return false;
        };
        let (head, rx) = (&self.head, &conn.board().rx);
        let later = |ts: u32| ts.wrapping_sub(rx.ts_recent) as i32 > 0;
        let stamped = rx.ts_recent_at.is_some() && head.ts.is_some_and(later);
        conn.state() == State::TimeWait
            && head.flags.has(Flags::SYN)
            && !head.flags.has(Flags::RST)
            && head.ack.is_none()
            && (head.seq.after(rx.nxt) || stamped)
            && self
                .listeners
                .find(conn.tuple().proto, conn.tuple().local)
                .is_some()
    }

    /// Open an embryonic connection if the segment is a SYN for a listener.
    fn embryo(
        &mut self,
        now: Time,
        tuple: Tuple,
        header: &[u8],
        frame: &FrameFacts,
    ) -> Option<u32> {
        let head = &self.head;
        let opens = head.flags.has(Flags::SYN)
            && head.ack.is_none()
            && !head.flags.has(Flags::RST)
            && tuple.remote.port() != 0;
        if !opens {
            return None;
        }
        let id = self.listeners.find(tuple.proto, tuple.local)?;
        if let Some(old) = self.listeners.get_mut(id)?.cached(&tuple, now).cloned() {
            // Repeated while the SYN+ACK is under way: a second one has to be the same. One with
            // another number is the connection's own affair (RFC 5961 section 4).
            return self.restore(now, id, old);
        }
        let (rng, iss) = self.draw(now, &tuple);
        let syn = Syn {
            tuple,
            at: now,
            header: header.into(),
            ttl: self.head.ttl,
            frame: *frame,
            rng,
            iss,
        };
        self.admit(now, id, syn)
    }

    /// Puts a connection among the embryos of a listener. Under a flood the oldest one makes room:
    /// memory stays bounded, and nobody is locked out. A peer that answers after that, or repeats
    /// its SYN, finds its connection made again, see [`Endpoint::restore`].
    fn admit(&mut self, now: Time, id: ListenId, syn: Syn) -> Option<u32> {
        let listener = self.listeners.get_mut(id)?;
        let blueprint = Arc::clone(&listener.blueprint);
        let evicted = listener.evict();
        if let Some(old) = evicted
            && let Some(slot) = self.slot(old).filter(|s| s.embryo)
        {
            // The list knows already.
            slot.embryo = false;
            self.count_drop("backlog full: oldest embryo evicted");
            self.answer_before(now, old.index);
            self.remove(old.index);
        }
        let i = self
            .open_as((syn.rng, syn.iss), &blueprint, syn.tuple)
            .ok()?;
        let id_conn = self.id(i);
        let slot = &mut self.slots[i as usize];
        (slot.listener, slot.embryo) = (Some(id), true);
        if let Some(conn) = slot.conn.as_mut() {
            conn.listen(syn.at);
        }
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.uncache(&syn.tuple);
            listener.embryos.push_back((id_conn, syn));
        }
        Some(i)
    }

    /// What an embryo that makes room has not sent yet, its SYN+ACK: many SYNs may come before the
    /// first is polled.
    fn answer_before(&mut self, now: Time, i: u32) {
        let mut out = [0; 2_048];
        let Some(conn) = self.slots[i as usize].conn.as_mut() else {
            return;
        };
        let sent = conn.poll_transmit(now, &mut self.answer, &mut out);
        if let Some(Transmit::Bytes(len)) = sent
            && let Some(datagram) = self.datagram(i, len)
        {
            self.reply(datagram.ip, &out[..len]);
        }
    }

    /// The answer to a SYN+ACK whose embryo made room in the meantime: the peer believes in the
    /// connection already.
    fn restore_by_ack(&mut self, now: Time, tuple: Tuple) -> Option<u32> {
        let ack = self.head.ack.filter(|_| !self.head.flags.has(Flags::RST))?;
        let id = self.listeners.find(tuple.proto, tuple.local)?;
        let syn = self.listeners.get_mut(id)?.cached(&tuple, now)?.clone();
        if ack != syn.iss.plus(1) {
            return None;
        }
        self.restore(now, id, syn)
    }

    /// Makes an embryo that made room again, as it was: its SYN+ACK included, which is not sent
    /// twice.
    fn restore(&mut self, now: Time, id: ListenId, syn: Syn) -> Option<u32> {
        let (at, frame, mut head) = (syn.at, syn.frame, Head::default());
        let wire = self.wires[usize::from(syn.tuple.proto)].as_ref()?;
        wire.parse(&syn.header, &mut head).ok()?;
        head.ttl = syn.ttl;
        let i = self.admit(now, id, syn)?;
        let conn = self.slots[i as usize].conn.as_mut()?;
        conn.handle_segment(at, &mut head, &[], &frame);
        let mut unsent = [0; 2_048];
        while conn.poll_transmit(at, &mut head, &mut unsent).is_some() {}
        Some(i)
    }

    pub(super) fn refuse(&mut self, ip: &IpInfo, len: u32) {
        self.count_drop("no such connection");
        let Some(wire) = &self.wires[usize::from(ip.proto)] else {
            return;
        };
        if !wire.refuse(&self.head, len, &mut self.answer) {
            return;
        }
        let ip = IpInfo {
            src: ip.dst,
            dst: ip.src,
            proto: ip.proto,
            ttl: TTL,
        };
        let mut bytes = [0; REPLY];
        let len = wire.emit(&self.answer, &mut bytes);
        let pseudo = Pseudo {
            src: ip.src,
            dst: ip.dst,
            proto: ip.proto,
        };
        wire.seal(&pseudo, &mut bytes[..len]);
        self.reply(ip, &bytes[..len]);
    }

    /// Send this for no connection, as soon as there is room.
    fn reply(&mut self, ip: IpInfo, segment: &[u8]) {
        if self.replies.len() >= REPLIES {
            return self.count_drop("answer queue full");
        }
        if segment.len() > REPLY {
            return self.count_drop("answer too long to wait");
        }
        let mut bytes = [0; REPLY];
        bytes[..segment.len()].copy_from_slice(segment);
        let len = segment.len();
        self.replies.push_back(Reply { ip, bytes, len });
    }

    /// Deadlines that passed.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((at, i)) = self.deadlines.first() {
            if at > now {
                return;
            }
            self.deadlines.set(i, Time::NEVER);
            if let Some(conn) = self.slots[i as usize].conn.as_mut() {
                conn.handle_timeout(now);
            }
            self.touch(i);
        }
    }
}

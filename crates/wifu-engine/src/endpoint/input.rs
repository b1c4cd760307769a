//! Input: packets and deadlines.

use super::*;
use crate::admission::{Claim, Holder};

impl Endpoint {
    /// A packet arrived: its IP header's facts and what follows the header.
    pub fn handle_packet(&mut self, now: Time, ip: &IpInfo, segment: &[u8]) {
        self.handle_frame(now, ip, segment, FrameFacts::NONE);
    }

    /// A packet arrived with what its carrier knows of it: radio, transmitter, and what handlers
    /// left for it (`bytes` is filled in here).
    pub fn handle_frame(&mut self, now: Time, ip: &IpInfo, segment: &[u8], mut frame: FrameFacts) {
        let many = |a: Ipv4Addr| a.is_multicast() || a.is_broadcast() || a.is_unspecified();
        if many(ip.dst) || many(ip.src) {
            return self.count_drop("group address"); //= rfc9293#section-3.9.2.3
        }
        let Some(served) = &self.served[usize::from(ip.proto)] else {
            return self.count_drop("protocol not served");
        };
        let wire = &served.wire;
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
        let answers = served.admission;
        let tuple = Tuple {
            proto: ip.proto,
            local: SocketAddrV4::new(ip.dst, self.head.dport),
            remote: SocketAddrV4::new(ip.src, self.head.sport),
        };
        let bytes = segment.len() + wifu_wire::ipv4::HEADER;
        frame.bytes = u16::try_from(bytes).unwrap_or(u16::MAX);
        frame.unserved = self.unserved(served, segment, ip.ttl, &frame);
        let found = match self.latest {
            Some((t, id, i)) if t == tuple && id == self.head.conn_id => Some(i),
            _ => {
                let key = answers.key(&tuple, self.head.conn_id);
                let found = self.demux.get(&key).copied();
                if let Some(i) = found {
                    self.latest = Some((tuple, self.head.conn_id, i));
                }
                found
            }
        };
        let index = match found {
            Some(i) if !self.slots[i as usize].rests => Some(i),
            _ => self.admit(now, answers, (tuple, found), &segment[..header], &frame),
        };
        let payload = &segment[header..];
        let Some(i) = index else {
            return self.refuse(ip, payload.len() as u32);
        };
        let slot = &mut self.slots[i as usize];
        let Some(conn) = slot.conn.as_mut() else {
            return;
        };
        slot.heard = now;
        if slot.embryo && !slot.proved {
            slot.proved = answers.proves(&self.head);
        }
        let dropped = conn.handle_segment(now, &mut self.head, payload, &frame);
        if let Some(reason) = dropped {
            self.count_drop(reason);
        }
        self.touch(i);
    }

    /// Nodes on the way that did not look at a packet: a handler says so, or the packet's own count
    /// is less than the TTL that it lost.
    #[inline]
    fn unserved(&self, of: &Served, segment: &[u8], ttl: u8, facts: &FrameFacts) -> Option<u8> {
        if let Some(told) = self.config.unserved.and_then(|n| facts.notes.get(n)) {
            return Some(told.min(255) as u8);
        }
        let count = of.hop_count?;
        let ends_only = matches!(of.wire.class(segment), Class::Feedback | Class::Hop);
        // The sender counts itself, and each node that lowers the TTL should.
        let looked = u32::from(TTL.saturating_sub(ttl)) + 1;
        let missing = looked.saturating_sub(count.read(segment));
        (!ends_only).then_some(missing.min(255) as u8)
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
        if opens && let Some(i) = self.holder(answers, &tuple, conn_id) {
            match self.claim(now, answers, i) {
                Claim::Own => return Some(i),
                Claim::Refused => return None,
                // Nobody would open the new one.
                Claim::Replaces if listener.is_none() => return found,
                Claim::Replaces => self.give_way(now, i),
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
        let (rng, iss) = self.draw(now, &tuple);
        let opener = Opener {
            tuple,
            conn_id,
            key,
            at: now,
            header: header.into(),
            ttl: self.head.ttl,
            frame: *frame,
            rng,
            iss,
        };
        self.embryo(now, id, opener)
    }

    fn claim(&self, now: Time, answers: &dyn Admission, i: u32) -> Claim {
        let slot = &self.slots[i as usize];
        let Some(conn) = &slot.conn else {
            return Claim::Refused;
        };
        let holder = Holder {
            board: conn.board(),
            rests: slot.rests,
            silent: now - slot.heard,
        };
        answers.claim(&holder, &self.head)
    }

    /// Puts a connection among the embryos of a listener. Under a flood the oldest one makes room:
    /// memory stays bounded, and nobody is locked out. A peer that answers after that, or repeats
    /// its opener, finds its connection made again, see [`Endpoint::restore`].
    fn embryo(&mut self, now: Time, id: ListenId, opener: Opener) -> Option<u32> {
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
        let drawn = (opener.rng, opener.iss, opener.conn_id);
        let i = self.open_as(drawn, &blueprint, opener.tuple).ok()?;
        let id_conn = self.id(i);
        let slot = &mut self.slots[i as usize];
        (slot.listener, slot.embryo) = (Some(id), true);
        if let Some(conn) = slot.conn.as_mut() {
            conn.listen(opener.at);
        }
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.uncache(&opener.key);
            listener.embryos.push_back((id_conn, opener));
        }
        Some(i)
    }

    /// What an embryo that makes room has not sent yet, its answer: many openers may come before
    /// the first answer is polled.
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

    /// Makes an embryo that made room again, as it was: its answer included, which is not sent
    /// twice.
    fn restore(&mut self, now: Time, id: ListenId, opener: Opener) -> Option<u32> {
        let (at, frame, mut head) = (opener.at, opener.frame, Head::default());
        let served = self.served[usize::from(opener.tuple.proto)].as_ref()?;
        served.wire.parse(&opener.header, &mut head).ok()?;
        head.ttl = opener.ttl;
        let i = self.embryo(now, id, opener)?;
        let conn = self.slots[i as usize].conn.as_mut()?;
        conn.handle_segment(at, &mut head, &[], &frame);
        let mut unsent = [0; 2_048];
        while conn.poll_transmit(at, &mut head, &mut unsent).is_some() {}
        Some(i)
    }

    pub(super) fn refuse(&mut self, ip: &IpInfo, len: u32) {
        self.count_drop("no such connection");
        let Some(Served { wire, .. }) = &self.served[usize::from(ip.proto)] else {
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

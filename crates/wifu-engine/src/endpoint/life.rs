//! Connections come and go.

use super::*;

impl Endpoint {
    pub(super) fn id(&self, index: u32) -> ConnId {
        ConnId {
            index,
            generation: self.slots[index as usize].generation,
        }
    }

    pub(super) fn open(
        &mut self,
        now: Time,
        blueprint: &Arc<Blueprint>,
        tuple: Tuple,
        conn_id: u32,
    ) -> Result<u32, ConnectError> {
        let (rng, isn) = self.draw(now, &tuple);
        let i = self.open_as((rng, isn, conn_id), blueprint, tuple)?;
        self.slots[i as usize].heard = now;
        Ok(i)
    }

    /// Random numbers and the initial number of the next connection.
    pub(super) fn draw(&mut self, now: Time, tuple: &Tuple) -> (Rng, Seq) {
        self.opened += 1;
        (self.rng.split_n(self.opened), self.isn(tuple, now))
    }

    pub(super) fn open_as(
        &mut self,
        (rng, isn, conn_id): (Rng, Seq, u32),
        blueprint: &Arc<Blueprint>,
        tuple: Tuple,
    ) -> Result<u32, ConnectError> {
        if self.len() >= self.config.max_conns {
            self.count_drop("too many connections");
            return Err(ConnectError::TooMany);
        }
        let mut site = SiteFacts {
            me: self.config.node,
            mtu: self.config.mtu,
            isn,
            conn_id,
            ..SiteFacts::default()
        };
        if let Some(route) = self.ways.get(tuple.remote.ip()) {
            site.set_route(route);
        }
        let conn = blueprint.open(tuple, site, rng)?;
        self.serve(blueprint);
        let i = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[i as usize];
        let (ready, noisy) = (slot.ready, slot.noisy);
        let lane = blueprint.lane.as_ref().filter(|_| self.config.lanes);
        let lane_room = lane.map(|lane| lane.engine_int("packets"));
        self.laned += u32::from(lane_room.is_some());
        let generation = slot.generation.wrapping_add(1);
        let answers = admission(blueprint);
        let key = answers.key(&tuple, conn_id);
        let place = Some(answers.place(&tuple, conn_id)).filter(|p| *p != key);
        *slot = Slot {
            generation,
            conn: Some(conn),
            key: Some(key),
            place,
            ready,
            noisy,
            lane_room,
            ..Slot::default()
        };
        self.demux.insert(key, i);
        if let Some(place) = place {
            self.places.insert(place, i);
        }
        Ok(i)
    }

    /// RFC 6528: a clock of 4 us ticks plus a keyed hash of the two ends.
    pub(super) fn isn(&self, tuple: &Tuple, now: Time) -> Seq {
        use core::hash::{Hash, Hasher};
        let [a, b] = self.isn_key;
        let mut h = siphasher::sip::SipHasher13::new_with_keys(a, b);
        (tuple.proto, tuple.local, tuple.remote).hash(&mut h);
        Seq((h.finish() as u32).wrapping_add((now.0 / 4_000) as u32))
    }

    pub(super) fn unlink(&mut self, i: u32) {
        let slot = &self.slots[i as usize];
        if slot.conn.is_none() {
            return;
        }
        if let Some(key) = slot.key.filter(|k| self.demux.get(k) == Some(&i)) {
            self.demux.remove(&key);
        }
        if let Some(place) = slot.place.filter(|p| self.places.get(p) == Some(&i)) {
            self.places.remove(&place);
        }
        self.latest = None;
        self.deadlines.set(i, Time::NEVER);
    }

    /// A connection leaves its place to a new one. What its application has not read stays, and
    /// its end is still reported: of one that rests, when it has rested, of another one at once.
    pub(super) fn give_way(&mut self, now: Time, i: u32) {
        let slot = &mut self.slots[i as usize];
        if slot.orphan || slot.embryo {
            return self.remove(i);
        }
        if let Some(conn) = slot.conn.as_mut().filter(|_| !slot.rests && !slot.ended) {
            conn.replaced(now);
        }
        self.unlink(i);
        self.touch(i);
    }

    pub(super) fn remove(&mut self, i: u32) {
        self.unlink(i);
        let id = self.id(i);
        let slot = &mut self.slots[i as usize];
        if slot.conn.take().is_none() {
            return;
        }
        slot.news = News::default();
        self.laned -= u32::from(slot.lane_room.take().is_some());
        if let (Some(listener), true) = (slot.listener, slot.embryo)
            && let Some(l) = self.listeners.get_mut(listener)
        {
            l.no_embryo(id);
        }
        self.free.push(i);
    }

    /// After anything happened to a connection: it may send, and there may be news.
    pub(super) fn touch(&mut self, i: u32) {
        let slot = &mut self.slots[i as usize];
        let Some(conn) = slot.conn.as_mut() else {
            return;
        };
        if !slot.ready {
            slot.ready = true;
            self.ready.push_back(i);
        }
        let news = conn.take_news();
        if slot.embryo && slot.proved && conn.opened_at().is_some() {
            slot.embryo = false;
            if let Some(l) = slot.listener.and_then(|l| self.listeners.get_mut(l)) {
                let id = ConnId {
                    index: i,
                    generation: slot.generation,
                };
                l.no_embryo(id);
            }
        }
        if news != News::default() {
            let have = &mut slot.news;
            have.opened |= news.opened;
            have.readable |= news.readable;
            have.writable |= news.writable;
            have.eof |= news.eof;
            have.ended = have.ended.or(news.ended);
            slot.ended |= have.ended.is_some();
        }
        // Those of an embryo wait until it is one no more.
        if slot.news != News::default() && !slot.noisy {
            slot.noisy = true;
            self.noisy.push_back(i);
        }
        if conn.state() != slot.state {
            slot.state = conn.state();
            let served = &self.served[usize::from(conn.tuple().proto)];
            slot.rests = served
                .as_ref()
                .is_some_and(|s| s.admission.rests(slot.state));
        }
        if slot.rests && slot.orphan {
            conn.detach();
        }
        if slot.rests && !slot.listed {
            slot.listed = true;
            let id = self.id(i);
            self.rest(id);
        }
    }

    /// Keep a connection that only rests; beyond the limit the oldest one is forgotten.
    fn rest(&mut self, id: ConnId) {
        // Those that are over go first: the list is as long as the wait, not as long as its limit.
        while let Some(&old) = self.resting.front() {
            if self.slot(old).is_some_and(|s| s.listed && !s.ended) {
                break;
            }
            self.resting.pop_front();
        }
        self.resting.push_back(id);
        while self.resting.len() > self.config.max_time_wait {
            let Some(old) = self.resting.pop_front() else {
                return;
            };
            // One whose application has not let go stays: it counts against max_conns.
            if self.slot(old).is_some_and(|s| s.listed && s.orphan) {
                self.remove(old.index);
            }
        }
    }

    /// A finished connection has said all it had to say.
    pub(super) fn bury(&mut self, i: u32) {
        let slot = &self.slots[i as usize];
        if slot.conn.is_none() || !slot.ended || slot.ready {
            return;
        }
        if slot.orphan || slot.embryo {
            self.remove(i);
        } else {
            self.unlink(i);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_numbers_of_two_ends_only_grow_whatever_happens_meanwhile() {
        let mut endpoint = Endpoint::new(EndpointConfig::default());
        let tuple = |port| Tuple {
            proto: 6,
            local: "10.0.0.1:80".parse().unwrap(),
            remote: SocketAddrV4::new([10, 0, 0, 2].into(), port),
        };
        let first = endpoint.isn(&tuple(1), Time(0));
        assert_ne!(first, endpoint.isn(&tuple(2), Time(0)));
        // An ephemeral port is drawn, as every connect does.
        let _ = endpoint.rng.next_u64();
        let later = endpoint.isn(&tuple(1), Time(4_000_000));
        assert_eq!(
            later.0.wrapping_sub(first.0),
            1000,
            "a tick every 4 us (RFC 6528 3)"
        );
    }
}

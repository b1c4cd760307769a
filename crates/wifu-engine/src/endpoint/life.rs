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
    ) -> Result<u32, ConnectError> {
        let drawn = self.draw(now, &tuple);
        self.open_as(drawn, blueprint, tuple)
    }

    /// Random numbers and the initial number of the next connection.
    pub(super) fn draw(&mut self, now: Time, tuple: &Tuple) -> (Rng, Seq) {
        self.opened += 1;
        (self.rng.split_n(self.opened), self.isn(tuple, now))
    }

    pub(super) fn open_as(
        &mut self,
        (rng, isn): (Rng, Seq),
        blueprint: &Arc<Blueprint>,
        tuple: Tuple,
    ) -> Result<u32, ConnectError> {
        if self.len() >= self.config.max_conns {
            self.count_drop("too many connections");
            return Err(ConnectError::TooMany);
        }
        let site = SiteFacts {
            me: self.config.node,
            mtu: self.config.mtu,
            isn,
            ..SiteFacts::default()
        };
        let mut conn = blueprint.open(tuple, site, rng)?;
        if self.config.trace {
            conn.start_trace();
        }
        self.serve(blueprint);
        let i = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[i as usize];
        let (ready, noisy) = (slot.ready, slot.noisy);
        let generation = slot.generation.wrapping_add(1);
        *slot = Slot {
            generation,
            conn: Some(conn),
            ready,
            noisy,
            ..Slot::default()
        };
        self.demux.insert(tuple, i);
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
        let Some(conn) = &self.slots[i as usize].conn else {
            return;
        };
        let tuple = conn.tuple();
        if self.demux.get(&tuple) == Some(&i) {
            self.demux.remove(&tuple);
        }
        self.latest = None;
        self.deadlines.set(i, Time::NEVER);
    }

    /// A connection in TIME_WAIT leaves its two ends to a new one. What its application has not
    /// read stays, and the end of the wait is still reported.
    pub(super) fn give_way(&mut self, i: u32) {
        if self.slots[i as usize].orphan {
            return self.remove(i);
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
        if news.opened && slot.embryo {
            slot.embryo = false;
            if let Some(l) = slot.listener.and_then(|l| self.listeners.get_mut(l)) {
                let id = ConnId {
                    index: i,
                    generation: slot.generation,
                };
                l.no_embryo(id);
            }
        }
        let have = &mut slot.news;
        have.opened |= news.opened;
        have.readable |= news.readable;
        have.writable |= news.writable;
        have.eof |= news.eof;
        have.ended = have.ended.or(news.ended);
        if *have != News::default() && !slot.noisy {
            slot.noisy = true;
            self.noisy.push_back(i);
        }
        if slot.news.ended.is_some() && !slot.ended {
            slot.ended = true;
        }
        let (waits, orphan) = (conn.state() == State::TimeWait, slot.orphan);
        if waits && orphan {
            conn.detach();
        }
        if waits && !slot.time_wait {
            slot.time_wait = true;
            let id = self.id(i);
            self.enter_time_wait(id);
        }
    }

    pub(super) fn enter_time_wait(&mut self, id: ConnId) {
        // Those that are over go first: the list is as long as the wait, not as long as its limit.
        while let Some(&old) = self.time_wait.front() {
            if self.slot(old).is_some_and(|s| s.time_wait && !s.ended) {
                break;
            }
            self.time_wait.pop_front();
        }
        self.time_wait.push_back(id);
        while self.time_wait.len() > self.config.max_time_wait {
            let Some(old) = self.time_wait.pop_front() else {
                return;
            };
            // One whose application has not let go stays: it counts against max_conns.
            if self.slot(old).is_some_and(|s| s.time_wait && s.orphan) {
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

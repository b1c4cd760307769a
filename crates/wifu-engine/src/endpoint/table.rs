//! The connections of an endpoint: whose a packet is, whose turn it is, what is to be told.

use super::deadlines::Deadlines;
use super::listen::Listeners;
use super::types::{ConnId, Event, ListenId};
use crate::admission::{Admission, Claim, Holder, Key, Plain};
use crate::board::State;
use crate::conn::{Conn, News, Tuple};
use std::collections::{BTreeMap, VecDeque};
use wifu_wire::{Head, Time};

/// A connection and what the endpoint knows of it.
pub(super) struct Slot {
    generation: u32,
    pub(super) conn: Option<Conn>,
    ready: bool,
    /// In the list of connections with news.
    noisy: bool,
    news: News,
    pub(super) listener: Option<ListenId>,
    /// Passive, not yet open or its peer not yet proved: counts against the listener's backlog.
    pub(super) embryo: bool,
    /// A packet showed that the peer hears us.
    pub(super) proved: bool,
    /// By what its packets find it, and what it occupies beyond that.
    key: Option<Key>,
    place: Option<Key>,
    answers: &'static dyn Admission,
    /// When its peer was heard last; of one that we opened, when that was.
    pub(super) heard: Time,
    /// The manager's state when the admission was asked last whether it rests, and the answer.
    state: State,
    pub(super) rests: bool,
    /// The application let go of it.
    pub(super) orphan: bool,
    pub(super) ended: bool,
    /// In the list of those that rest.
    listed: bool,
    /// Packets that the lane behind it takes; `None` if there is none.
    pub(super) lane_room: Option<u32>,
    /// It was polled while its device had no room.
    starved: bool,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot {
            generation: 0,
            conn: None,
            ready: false,
            noisy: false,
            news: News::default(),
            listener: None,
            embryo: false,
            proved: false,
            key: None,
            place: None,
            answers: &Plain,
            heard: Time::ZERO,
            state: Default::default(),
            rests: false,
            orphan: false,
            ended: false,
            listed: false,
            lane_room: None,
            starved: false,
        }
    }
}

/// All connections, by slot number.
pub(super) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_key: BTreeMap<Key, u32>,
    /// Who occupies a place that is not its key.
    places: BTreeMap<Key, u32>,
    /// Ends and identifier of the latest packet, and whose it was.
    latest: Option<(Tuple, u32, u32)>,
    /// Those that may have something to send.
    ready: VecDeque<u32>,
    /// Those whose news wait.
    noisy: VecDeque<u32>,
    deadlines: Deadlines,
    resting: VecDeque<ConnId>,
    max_resting: usize,
    /// Connections in front of lanes.
    laned: u32,
    /// Those of them that were polled while their device had no room.
    starved: VecDeque<ConnId>,
}

impl Table {
    /// No connections. Of those that only rest `max_resting` are kept.
    pub(super) fn new(max_resting: usize) -> Table {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            by_key: BTreeMap::new(),
            places: BTreeMap::new(),
            latest: None,
            ready: VecDeque::new(),
            noisy: VecDeque::new(),
            deadlines: Deadlines::default(),
            resting: VecDeque::new(),
            max_resting,
            laned: 0,
            starved: VecDeque::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Numbers of all slots, empty ones included.
    pub(super) fn indices(&self) -> core::ops::Range<u32> {
        0..self.slots.len() as u32
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ConnId> + '_ {
        let taken = self.indices().filter(|i| self.at(*i).conn.is_some());
        taken.map(|i| self.id(i))
    }

    #[inline]
    pub(super) fn id(&self, index: u32) -> ConnId {
        let generation = self.at(index).generation;
        ConnId { index, generation }
    }

    #[inline]
    pub(super) fn at(&self, i: u32) -> &Slot {
        &self.slots[i as usize]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, i: u32) -> &mut Slot {
        &mut self.slots[i as usize]
    }

    #[inline]
    pub(super) fn conn_mut(&mut self, i: u32) -> Option<&mut Conn> {
        self.slots[i as usize].conn.as_mut()
    }

    /// The connection, while it exists.
    pub(super) fn conn(&self, id: ConnId) -> Option<&Conn> {
        let slot = self.slots.get(id.index as usize)?;
        let conn = slot.conn.as_ref();
        conn.filter(|_| slot.generation == id.generation)
    }

    /// Its slot, while it exists.
    pub(super) fn slot(&mut self, id: ConnId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(id.index as usize)?;
        (slot.generation == id.generation && slot.conn.is_some()).then_some(slot)
    }

    /// Whose the packets between these ends are.
    pub(super) fn find(&self, answers: &dyn Admission, ends: &Tuple, id: u32) -> Option<u32> {
        self.by_key.get(&answers.key(ends, id)).copied()
    }

    /// The same for a packet that arrived: the next one is likely to be of the same connection.
    /// One caller: the call would cost as much as the comparison.
    #[inline(always)]
    pub(super) fn find_again(
        &mut self,
        answers: &dyn Admission,
        ends: &Tuple,
        id: u32,
    ) -> Option<u32> {
        if let Some((t, n, i)) = &self.latest
            && *n == id
            && t == ends
        {
            return Some(*i);
        }
        let found = self.find(answers, ends, id)?;
        self.latest = Some((*ends, id, found));
        Some(found)
    }

    /// Who occupies the place of a connection between these ends.
    pub(super) fn holder(&self, answers: &dyn Admission, ends: &Tuple, id: u32) -> Option<u32> {
        let (key, place) = (answers.key(ends, id), answers.place(ends, id));
        let found = self.by_key.get(&key);
        let found = found.or_else(|| self.places.get(&place).filter(|_| place != key));
        found.copied()
    }

    /// What a packet that opens is to this connection.
    pub(super) fn claim(&self, now: Time, answers: &dyn Admission, i: u32, head: &Head) -> Claim {
        let slot = self.at(i);
        let Some(conn) = &slot.conn else {
            return Claim::Refused;
        };
        let holder = Holder {
            board: conn.board(),
            rests: slot.rests,
            silent: now - slot.heard,
        };
        answers.claim(&holder, head)
    }

    /// A new connection, with the room of its lane.
    pub(super) fn insert(
        &mut self,
        conn: Conn,
        answers: &'static dyn Admission,
        lane_room: Option<u32>,
    ) -> u32 {
        let i = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let (tuple, id) = (conn.tuple(), conn.board().site.conn_id);
        let key = answers.key(&tuple, id);
        let place = Some(answers.place(&tuple, id)).filter(|p| *p != key);
        self.laned += u32::from(lane_room.is_some());
        let slot = self.at_mut(i);
        *slot = Slot {
            generation: slot.generation.wrapping_add(1),
            // It may be in the lists still.
            ready: slot.ready,
            noisy: slot.noisy,
            conn: Some(conn),
            key: Some(key),
            place,
            answers,
            lane_room,
            ..Slot::default()
        };
        self.by_key.insert(key, i);
        if let Some(place) = place {
            self.places.insert(place, i);
        }
        i
    }

    /// Packets find it no more, time neither.
    fn unlink(&mut self, i: u32) {
        let slot = &self.slots[i as usize];
        if slot.conn.is_none() {
            return;
        }
        if let Some(key) = slot.key.filter(|k| self.by_key.get(k) == Some(&i)) {
            self.by_key.remove(&key);
        }
        if let Some(place) = slot.place.filter(|p| self.places.get(p) == Some(&i)) {
            self.places.remove(&place);
        }
        self.latest = None;
        self.deadlines.set(i, Time::NEVER);
    }

    /// A connection leaves its place to a new one. What its application has not read stays, and
    /// its end is still reported: of one that rests, when it has rested, of another one at once.
    pub(super) fn give_way(&mut self, now: Time, i: u32, listeners: &mut Listeners) {
        let slot = self.at_mut(i);
        if slot.orphan || slot.embryo {
            return self.remove(i, listeners);
        }
        if let Some(conn) = slot.conn.as_mut().filter(|_| !slot.rests && !slot.ended) {
            conn.replaced(now);
        }
        self.unlink(i);
        self.touch(i, listeners);
    }

    pub(super) fn remove(&mut self, i: u32, listeners: &mut Listeners) {
        self.unlink(i);
        let id = self.id(i);
        let slot = self.at_mut(i);
        if slot.conn.take().is_none() {
            return;
        }
        slot.news = News::default();
        if let (Some(listener), true) = (slot.listener, slot.embryo) {
            listeners.no_embryo(listener, id);
        }
        let laned = slot.lane_room.take().is_some();
        self.laned -= u32::from(laned);
        self.free.push(i);
    }

    /// After anything happened to a connection: it may send, and there may be news.
    pub(super) fn touch(&mut self, i: u32, listeners: &mut Listeners) {
        let slot = &mut self.slots[i as usize];
        let Some(conn) = slot.conn.as_mut() else {
            return;
        };
        if !slot.ready {
            slot.ready = true;
            self.ready.push_back(i);
        }
        if conn.has_news() {
            slot.news.add(conn.take_news());
            slot.ended |= slot.news.ended.is_some();
        }
        if slot.embryo && slot.proved && conn.opened_at().is_some() {
            slot.embryo = false;
            if let Some(listener) = slot.listener {
                let generation = slot.generation;
                listeners.no_embryo(
                    listener,
                    ConnId {
                        index: i,
                        generation,
                    },
                );
            }
        }
        // Those of an embryo wait until it is one no more.
        if !slot.noisy && !slot.news.is_empty() {
            slot.noisy = true;
            self.noisy.push_back(i);
        }
        if conn.state() != slot.state {
            slot.state = conn.state();
            slot.rests = slot.answers.rests(slot.state);
        }
        if slot.rests {
            if slot.orphan {
                conn.detach();
            }
            if !slot.listed {
                slot.listed = true;
                self.rest(i, listeners);
            }
        }
    }

    /// Keep a connection that only rests; beyond the limit the oldest one is forgotten.
    fn rest(&mut self, i: u32, listeners: &mut Listeners) {
        // Those that are over go first: the list is as long as the wait, not as long as its limit.
        while let Some(&old) = self.resting.front() {
            if self.slot(old).is_some_and(|s| s.listed && !s.ended) {
                break;
            }
            self.resting.pop_front();
        }
        self.resting.push_back(self.id(i));
        while self.resting.len() > self.max_resting {
            let Some(old) = self.resting.pop_front() else {
                return;
            };
            // One whose application has not let go stays: it counts against max_conns.
            if self.slot(old).is_some_and(|s| s.listed && s.orphan) {
                self.remove(old.index, listeners);
            }
        }
    }

    /// Whether anything waits for its turn, or for room.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        !self.ready.is_empty() || !self.starved.is_empty()
    }

    /// How many wait for their turn.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// Those that wait for their turn.
    pub(super) fn ready(&self) -> impl Iterator<Item = &Conn> {
        self.ready.iter().filter_map(|i| self.at(*i).conn.as_ref())
    }

    /// Whether lanes take what some connections send.
    #[inline]
    pub(super) fn has_lanes(&self) -> bool {
        self.laned > 0
    }

    /// Whose turn it is; [`Table::again`] or [`Table::rested`] says how it went.
    #[inline]
    pub(super) fn turn(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    /// There may be more: it gets another turn after the others.
    #[inline]
    pub(super) fn again(&mut self, i: u32) {
        self.ready.push_back(i);
    }

    /// It has nothing to send until its deadline, or (`starved`) until its device has room: then
    /// it may have something that no lane takes.
    #[inline]
    pub(super) fn rested(&mut self, i: u32, starved: bool, listeners: &mut Listeners) {
        let slot = &mut self.slots[i as usize];
        slot.ready = false;
        let Some(conn) = &slot.conn else { return };
        self.deadlines.set(i, conn.poll_timeout());
        if starved && !core::mem::replace(&mut slot.starved, true) {
            let generation = slot.generation;
            self.starved.push_back(ConnId {
                index: i,
                generation,
            });
        }
        // A finished connection has said all it had to say.
        if !slot.ended {
            return;
        }
        if slot.orphan || slot.embryo {
            self.remove(i, listeners);
        } else {
            self.unlink(i);
        }
    }

    /// Those who found no room try again.
    #[inline]
    pub(super) fn retry_starved(&mut self, listeners: &mut Listeners) {
        while let Some(id) = self.starved.pop_front() {
            if let Some(slot) = self.slot(id) {
                slot.starved = false;
                self.touch(id.index, listeners);
            }
        }
    }

    /// The earliest deadline.
    pub(super) fn deadline(&self) -> Time {
        self.deadlines.first().map_or(Time::NEVER, |(at, _)| at)
    }

    /// A connection whose deadline passed; it has none then.
    pub(super) fn due(&mut self, now: Time) -> Option<u32> {
        let (at, i) = self.deadlines.first()?;
        if at > now {
            return None;
        }
        self.deadlines.set(i, Time::NEVER);
        Some(i)
    }

    /// The next thing that an application has to learn.
    #[inline]
    pub(super) fn poll_event(&mut self) -> Option<(ConnId, Event)> {
        if self.noisy.is_empty() {
            return None;
        }
        self.next_event()
    }

    fn next_event(&mut self) -> Option<(ConnId, Event)> {
        while let Some(&i) = self.noisy.front() {
            let id = self.id(i);
            let slot = self.at_mut(i);
            let silent = slot.conn.is_none() || slot.orphan;
            // The news of an embryo wait until it is one no more.
            if silent || slot.embryo || slot.news.is_empty() {
                if silent {
                    slot.news = News::default();
                }
                slot.noisy = false;
                self.noisy.pop_front();
                continue;
            }
            let news = &mut slot.news;
            let event = if core::mem::take(&mut news.opened) {
                slot.listener.map_or(Event::Connected, Event::Accepted)
            } else if core::mem::take(&mut news.readable) {
                Event::Readable
            } else if core::mem::take(&mut news.eof) {
                Event::PeerClosed
            } else if core::mem::take(&mut news.writable) {
                Event::Writable
            } else {
                Event::Closed(news.ended.take().flatten())
            };
            return Some((id, event));
        }
        None
    }
}

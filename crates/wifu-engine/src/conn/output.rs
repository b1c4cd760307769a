//! Output: deadlines and segments.

use super::{Conn, Core, Slot, Transmit};
use crate::board::{Board, State};
use crate::component::{Out, Payload};
use crate::descriptor::Role;
use crate::permit::{Kind, Limit, Permit, Reason, Want};
use crate::signal::{Sent, Signal};
use crate::store::{SendStore, StoreKind};
use wifu_wire::{Flags, Head, Pseudo, Span, Time, Wire};

impl Conn {
    /// The next deadline; [`Time::NEVER`] if there is none.
    #[must_use]
    pub fn poll_timeout(&self) -> Time {
        self.core.wake.min(self.core.outbox.timers.first())
    }

    /// The next segment to send, or `None`: kinds in order of precedence; gates meet; the owner
    /// fills; everyone stamps; the codec encodes once.
    #[must_use]
    pub fn poll_transmit(
        &mut self,
        now: Time,
        head: &mut Head,
        out: &mut [u8],
    ) -> Option<Transmit> {
        let app = &self.core.board.app;
        let (data_room, device_room) = (app.local_room > 0, app.device_room > 0);
        if !data_room && !device_room {
            // The next poll comes with room, not with time: a deadline left here would spin.
            self.core.wake = Time::NEVER;
            self.limited(now, Limit::Queue);
            return None;
        }
        self.cut_record();
        self.core.wake = Time::NEVER;
        let (mut blocked, mut due) = (None, Time::NEVER);
        let mut next = None;
        let slots = &self.slots[..];
        for &(kind, i) in &self.routes.offer {
            let Slot { part, desc } = &slots[i as usize];
            let Some(want) = part.offer(kind, &self.core.board, now) else {
                continue;
            };
            // After the end only the manager may speak: a last RST.
            if self.over && desc.role != Role::Manager {
                continue;
            }
            // The node takes nothing of this kind now.
            if !(if kind.is_data() {
                data_room
            } else {
                device_room
            }) {
                // As above: it goes on with room. Of data a lane has none while the device has.
                blocked = blocked.or(kind.is_data().then_some(Limit::Lane));
                continue;
            }
            let permit = self.permit(&want, now);
            if let Some((why, at)) = permit.refuses(&want, now) {
                self.core.wake = self.core.wake.min(at);
                if kind.is_data() {
                    due = due.min(at);
                    blocked.get_or_insert(why);
                }
                continue;
            }
            let bytes = want.bytes.min(permit.bytes);
            next = Some((i, Want { bytes, ..want }));
            break;
        }
        if let Some((i, want)) = next {
            // Data that waited for a time; an ACK that leaves first does not take its lateness.
            let late = if want.kind.is_data() && self.core.due != Time::NEVER {
                now - core::mem::replace(&mut self.core.due, Time::NEVER)
            } else {
                Span::ZERO
            };
            let transmit = self.send(now, i as usize, &want, late, head, out);
            // Whoever polls on learns better at once; if nobody does, the local queue was full.
            self.limited(now, Limit::Queue);
            return Some(transmit);
        }
        self.core.due = due;
        self.limited(now, blocked.unwrap_or_else(|| self.nothing_to_send()));
        None
    }

    /// Why no part offers data.
    fn nothing_to_send(&self) -> Limit {
        let Board { tx, conn, app, .. } = &self.core.board;
        if conn.asking {
            Limit::Feedback
        } else if !conn.running {
            Limit::State
        } else if tx.una != tx.max {
            // Who wrote all has no use for a larger buffer, and who has room and may write more
            // waits for nobody. Packets come from lanes, not from applications.
            let packets = self.core.stores.plan.kind == StoreKind::Packets;
            if app.fin || packets {
                Limit::Drain
            } else if app.room < conn.mss {
                Limit::Buffer
            } else {
                Limit::Source
            }
        } else {
            Limit::Source
        }
    }

    /// A packet may leave and the application paused within a record: it goes as it is, else
    /// interactive data never leaves.
    fn cut_record(&mut self) {
        if let Some(SendStore::Records(r)) = self.core.stores.kept.as_mut().map(|s| &mut s.tx)
            && r.end() == self.core.board.tx.nxt
        {
            r.cut();
            self.core.board.app.end = r.end();
        }
    }

    fn permit(&self, want: &Want, now: Time) -> Permit {
        let gates = self.routes.permit.iter();
        gates.fold(Permit::OPEN, |p, &g| {
            p.and(
                self.slots[g as usize]
                    .part
                    .permit(want, &self.core.board, now),
            )
        })
    }

    fn send(
        &mut self,
        now: Time,
        slot: usize,
        want: &Want,
        late: Span,
        head: &mut Head,
        out: &mut [u8],
    ) -> Transmit {
        let Self {
            slots,
            routes,
            core,
            wire,
            path,
            aside,
            ..
        } = self;
        head.reset();
        (head.sport, head.dport) = path.ports;
        head.conn_id = core.board.site.conn_id;
        head.unserved = core.board.site.unserved.coming;
        let mut seg = Out::new(want.kind, head, aside);
        let s = &mut slots[slot];
        s.part.fill(want, &mut seg, &mut core.cx(now, slot, s.desc));
        for &t in &routes.stamp {
            let s = &mut slots[t as usize];
            s.part
                .stamp(&mut seg, &mut core.cx(now, t as usize, s.desc));
        }
        let (reason, payload, kind) = (seg.reason, seg.payload, want.kind);
        let (seq, acks) = (head.seq, head.ack.is_some());
        let opens = kind == Kind::Control && reason == Reason::First;
        if opens && head.flags.has(Flags::SYN) {
            self.tally.opens(&mut self.counters);
        }
        let (transmit, octets) = match payload {
            Payload::Packet { ticket, keep } => (Transmit::Packet { ticket, keep }, 0),
            _ => {
                let (n, octets) = encode(&**wire, head, core, payload, &path.pseudo, out);
                (Transmit::Bytes(n), octets)
            }
        };
        let sent = Sent {
            kind,
            reason,
            acks,
            seq,
            bytes: want.bytes,
            late,
        };
        core.outbox.ring.push(Signal::Sent(sent));
        self.last_sent = Some(sent);
        self.counters.segments_out += 1;
        if octets > 0 || matches!(transmit, Transmit::Packet { .. }) {
            self.counters.data_out += 1;
            self.counters.octets_out += u64::from(octets);
            if reason != Reason::First {
                self.counters.octets_again += u64::from(octets);
            } else if octets > 0 {
                self.delivered.sent(now, self.counters.octets_acked);
            }
        }
        self.settle(now);
        let tx = &self.core.board.tx;
        self.tally.sent(now, (reason, acks), tx, &mut self.counters);
        transmit
    }

    /// What is binding is outside: who sends for it knows better.
    pub(crate) fn held(&mut self, now: Time, limit: Limit) {
        self.limited(now, limit);
    }

    /// Latch what is binding and run its stopwatch.
    fn limited(&mut self, now: Time, limit: Limit) {
        if self.is_limited() {
            let last = self.core.board.app.limited.index();
            self.limits[last] = self.limits[last] + (now - self.limit_since);
            self.limit_since = now;
            self.said_all = self.core.board.conn.state.has_said_all();
        }
        self.core.board.app.limited = limit;
    }

    /// The manager's state.
    pub fn state(&self) -> State {
        self.core.board.conn.state
    }
}

/// Emit the header, copy the payload in, seal. The header may use what the payload leaves of the
/// MTU, so that optional parts (SACK ranges) yield to data. Returns the segment's length and the
/// payload's.
fn encode(
    wire: &dyn Wire,
    head: &Head,
    core: &Core,
    payload: Payload,
    pseudo: &Pseudo,
    out: &mut [u8],
) -> (usize, u32) {
    let pieces: [&[u8]; 2] = match (payload, core.stores.kept.as_ref().map(|s| &s.tx)) {
        (Payload::Stream { start, len }, Some(SendStore::Octets(ring))) => ring.slice(start, len),
        (Payload::Record(number), Some(SendStore::Records(records))) => records.record(number),
        _ => [&[], &[]],
    };
    let octets = pieces[0].len() + pieces[1].len();
    if let Payload::Stream { start, len } = payload {
        debug_assert_eq!(octets, len as usize, "{start:?} is not all in the store");
    }
    let mtu = core.board.site.mtu as usize;
    let room = mtu.saturating_sub(core.board.site.ip_header as usize + octets);
    let unstamped = if head.ts.is_none() { wire.stamps() } else { 0 };
    let least = wire.overhead().saturating_sub(unstamped);
    let room = room.max(least as usize).min(out.len());
    let mut n = wire.emit(head, &mut out[..room]);
    for piece in pieces {
        out[n..n + piece.len()].copy_from_slice(piece);
        n += piece.len();
    }
    wire.seal(pseudo, &mut out[..n]);
    (n, octets as u32)
}

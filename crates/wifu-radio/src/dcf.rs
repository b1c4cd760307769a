//! The distributed coordination function: back-off, exchanges, repetition.

use crate::channel::control_signal;
use crate::driver::{Finished, Times};
use crate::phy::{ACK, CTS, OVERHEAD, RTS};
use crate::queue::{Queue, Wake};
use crate::radio::{Event, Radio, link_to};
use crate::station::{Answer, Job, Phase, Response, Signal, Station};
use crate::trace::{FrameKind, NOBODY, Record, What};
use wifu_wire::{Span, Time};

/// A station senses the medium at the beginning of a slot (CCA takes 4 of 9 us, or 15 of 20) and
/// has decided when the rest of the slot begins: what starts within these last 5 us before its
/// own transmission, it does not notice (IEEE 802.11-2012, 9.3.7: slot = CCA + turnaround + MAC
/// processing + propagation).
const BLIND: Span = Span(5_000);

/// What the count of slots goes by.
#[derive(Clone, Copy)]
pub(crate) struct Spaces {
    /// DIFS, and EIFS.
    pub ifs: [Span; 2],
    pub slot: Span,
}

impl Station {
    /// The medium became busy: slots that passed are counted off, and the slot in which it became
    /// busy too, as EDCA and Bianchi's model have it (legacy DCF doesn't count it). An access that
    /// the station has decided on goes ahead.
    #[inline]
    pub(crate) fn gets_busy(&mut self, node: usize, now: Time, slot: Span, queue: &mut Queue) {
        self.busy = true;
        self.busy_since = now;
        if !self.backoff && self.phase != Phase::Contend {
            return;
        }
        let access_at = queue.when(node, Wake::Access);
        if access_at <= now + BLIND {
            return;
        }
        if self.backoff && now >= self.count_from {
            let passed = (now - self.count_from).0 / slot.0 + u64::from(!self.legacy);
            self.slots -= passed.min(u64::from(self.slots)) as u32;
            if self.slots == 0 && self.job.is_none() {
                self.backoff = false;
            }
        }
        if access_at != Time::NEVER {
            queue.cancel(node, Wake::Access);
        }
    }

    /// The medium became idle: the count goes on after the interframe space.
    #[inline]
    pub(crate) fn gets_idle(&mut self, node: usize, now: Time, spaces: &Spaces, queue: &mut Queue) {
        self.busy = false;
        self.counters.busy = self.counters.busy + (now - self.busy_since);
        self.driver.meter.note(now, self.counters.busy);
        self.idle_since = now.max(self.nav);
        self.count_on(node, now, spaces, queue);
    }

    /// Slots count from now on, or as soon as the interframe space is over.
    #[inline(always)]
    fn count_on(&mut self, node: usize, now: Time, spaces: &Spaces, queue: &mut Queue) {
        let contends = self.phase == Phase::Contend;
        if self.busy || !(self.backoff || contends) {
            return;
        }
        self.count_from = (self.idle_since + spaces.ifs[usize::from(self.eifs)]).max(now);
        if contends {
            let at = self.count_from + spaces.slot * u64::from(self.slots);
            queue.set(node, Wake::Access, at);
        }
    }
}

impl Radio {
    /// See [`Station::count_on`].
    #[inline(never)]
    fn count_on(&mut self, node: usize) {
        self.stations[node].count_on(node, self.now, &self.spaces, &mut self.queue);
    }

    /// Draw a back-off from the present window.
    fn draw(&mut self, node: usize) {
        let s = &mut self.stations[node];
        s.slots = s.backoff_rng.below(u64::from(s.cw) + 1) as u32;
        s.backoff = true;
        if self.tracing {
            let (slots, job) = (self.stations[node].slots, self.stations[node].job);
            if let Some(job) = job {
                self.record(Record {
                    value: slots,
                    tries: job.tries(),
                    ..self.entry(What::Deferred, job.item.frame, node as u16, job.item.to)
                });
            }
        }
    }

    /// The hardware takes the next packet if it has none.
    pub(crate) fn next_job(&mut self, node: usize) {
        let now = self.now;
        let s = &mut self.stations[node];
        if s.phase != Phase::Idle {
            return;
        }
        let Some(item) = s.driver.take() else { return };
        s.seq = s.seq.wrapping_add(1) & 0xFFF;
        let mpdu = u32::from(item.bytes) + OVERHEAD;
        s.job = Some(Job {
            item,
            seq: s.seq,
            mode: s.rate,
            short: 0,
            long: 0,
            rts: item.to != NOBODY && mpdu > s.rts_threshold,
            sent: 0,
            taken: now,
            first: Time::NEVER,
            last: now,
        });
        s.phase = Phase::Contend;
        self.contend(node);
    }

    /// Wait for the medium, or take it at once.
    fn contend(&mut self, node: usize) {
        let now = self.now;
        let Spaces { ifs, slot } = self.spaces;
        let s = &mut self.stations[node];
        if s.backoff {
            if s.busy {
                return;
            }
            let at = s.count_from + slot * u64::from(s.slots);
            if at > now {
                self.queue.set(node, Wake::Access, at);
                return;
            }
            s.backoff = false;
        }
        if !s.busy && now >= s.idle_since + ifs[usize::from(s.eifs)] {
            self.start(node);
            return;
        }
        self.draw(node);
        self.count_on(node);
    }

    /// The back-off expired.
    pub(crate) fn granted(&mut self, node: usize) {
        let s = &mut self.stations[node];
        if s.phase == Phase::Contend && s.sending.is_none() {
            s.backoff = false;
            s.slots = 0;
            self.start(node);
        }
    }

    /// Begin an attempt.
    fn start(&mut self, node: usize) {
        let now = self.now;
        let s = &mut self.stations[node];
        let Some(job) = &mut s.job else { return };
        let broadcast = job.item.to == NOBODY;
        job.mode = match &mut s.minstrel {
            _ if broadcast => s.broadcast,
            Some(m) => m.choose(&self.phy, job.item.to, job.tries(), now),
            None => s.rate,
        };
        if job.first == Time::NEVER {
            job.first = now;
        }
        job.last = now;
        s.phase = Phase::Sending;
        if !job.rts {
            self.send_data(node);
            return;
        }
        let (mode, item) = (job.mode, job.item);
        let control = s.control[usize::from(mode.0)];
        s.counters.rts += 1;
        let sifs = self.phy.sifs;
        let answer = self.timing[node][usize::from(mode.0)].ack;
        let data = self.phy.airtime(mode, u32::from(item.bytes) + OVERHEAD);
        let signal = Signal {
            duration: sifs * 3 + answer * 2 + data,
            frame: item.frame,
            ..control_signal(FrameKind::Rts, item.to, control, RTS)
        };
        self.transmit(node, signal);
    }

    fn send_data(&mut self, node: usize) {
        let s = &mut self.stations[node];
        let Some(job) = &mut s.job else { return };
        let retry = job.sent > 0;
        job.sent = job.sent.saturating_add(1);
        s.phase = Phase::Sending;
        s.counters.attempts += 1;
        s.counters.retries += u64::from(retry);
        let answer = self.timing[node][usize::from(job.mode.0)].ack;
        let broadcast = job.item.to == NOBODY;
        let signal = Signal {
            seq: job.seq,
            retry,
            cookie: job.item.cookie,
            frame: job.item.frame,
            duration: if broadcast {
                Span::ZERO
            } else {
                self.phy.sifs + answer
            },
            ..control_signal(
                FrameKind::Data,
                job.item.to,
                job.mode,
                u32::from(job.item.bytes) + OVERHEAD,
            )
        };
        self.transmit(node, signal);
    }

    /// A station's own transmission ended, which will be answered or not.
    pub(crate) fn sent(&mut self, node: usize, kind: FrameKind, to: u16, answered: bool) {
        match kind {
            FrameKind::Data if to == NOBODY => self.complete(node, true),
            FrameKind::Data => self.await_answer(node, Phase::AwaitAck, answered),
            FrameKind::Rts => self.await_answer(node, Phase::AwaitCts, answered),
            FrameKind::Ack => self.unanswered(to, Phase::AwaitAck),
            FrameKind::Cts => self.unanswered(to, Phase::AwaitCts),
        }
    }

    /// Wait for CTS or ACK. Whether the other side will answer is known to the model: only if it
    /// won't is a timer set here, else [`Radio::unanswered`] sees to it. Unless some frame is
    /// decoded, EIFS follows, as it does for those that could not decode this transmission: all
    /// count their slots from the same moment.
    fn await_answer(&mut self, node: usize, phase: Phase, answered: bool) {
        let deadline = self.now + self.phy.ack_timeout();
        let s = &mut self.stations[node];
        s.phase = phase;
        s.deadline = deadline;
        s.late = false;
        s.eifs = true;
        if answered {
            self.queue.cancel(node, Wake::Timeout);
        } else {
            self.queue.set(node, Wake::Timeout, deadline);
        }
    }

    /// An answer was sent, or couldn't be: whoever still waits for it did not get it.
    fn unanswered(&mut self, to: u16, phase: Phase) {
        let now = self.now;
        let Some(s) = self.stations.get_mut(usize::from(to)) else {
            return;
        };
        if s.phase != phase {
            return;
        }
        let at = s.deadline.max(now);
        self.queue.set(usize::from(to), Wake::Timeout, at);
    }

    /// CTS or ACK did not begin in time. A frame that is being received may be it.
    pub(crate) fn timeout(&mut self, node: usize) {
        let s = &mut self.stations[node];
        if !matches!(s.phase, Phase::AwaitAck | Phase::AwaitCts) {
            return;
        }
        if s.lock.is_some() {
            s.late = true;
        } else {
            self.failed(node);
        }
    }

    /// An attempt failed.
    pub(crate) fn failed(&mut self, node: usize) {
        let s = &mut self.stations[node];
        let Some(job) = &mut s.job else { return };
        let data = s.phase == Phase::AwaitAck;
        let gone = if data && job.rts {
            job.long += 1;
            job.long >= s.attempts_long
        } else {
            job.short += 1;
            job.short >= s.attempts
        };
        s.late = false;
        self.queue.cancel(node, Wake::Timeout);
        let job = *job;
        if data && let Some(m) = &mut s.minstrel {
            m.report(job.item.to, job.mode, false);
        }
        self.note(node as u64, u64::from(job.item.frame) << 8 | 0xFA);
        if self.tracing {
            self.record(Record {
                mode: job.mode.0,
                tries: job.short + job.long,
                ..self.entry(What::Failed, job.item.frame, node as u16, job.item.to)
            });
        }
        if gone {
            self.complete(node, false);
            return;
        }
        let s = &mut self.stations[node];
        s.cw = (2 * s.cw + 1).min(s.cw_max);
        s.phase = Phase::Contend;
        self.draw(node);
        self.count_on(node);
    }

    /// The ACK came.
    pub(crate) fn acknowledged(&mut self, node: usize) {
        let s = &mut self.stations[node];
        if s.phase != Phase::AwaitAck {
            return;
        }
        s.late = false;
        self.queue.cancel(node, Wake::Timeout);
        if let (Some(m), Some(job)) = (&mut s.minstrel, &s.job) {
            m.report(job.item.to, job.mode, true);
        }
        self.complete(node, true);
    }

    /// The packet is finished: post-back-off, report, next.
    fn complete(&mut self, node: usize, delivered: bool) {
        let now = self.now;
        let s = &mut self.stations[node];
        let Some(job) = s.job.take() else { return };
        s.phase = Phase::Idle;
        s.cw = s.cw_min;
        s.counters.delivered += u64::from(delivered);
        s.counters.failed += u64::from(!delivered);
        let item = job.item;
        let tries = match delivered {
            true => job.tries(),
            false => job.short.saturating_add(job.long),
        };
        let times = Times {
            queue: job.taken - item.queued,
            contention: job.first - job.taken,
            retries: job.last - job.first,
            air: now - job.last,
        };
        let finished = Finished {
            item,
            delivered,
            tries,
            mode: job.mode,
            seq: job.seq,
            times,
        };
        let raised = s.driver.finish(finished);
        if item.to != NOBODY
            && let Some(link) = link_to(&mut self.links[node], item.to, s.target)
        {
            let c = &mut link.counters;
            c.frames += 1;
            c.acked += u64::from(delivered);
            c.failed += u64::from(!delivered);
        }
        if self.tracing {
            let what = if delivered {
                What::Acknowledged
            } else {
                What::Dropped
            };
            self.record(Record {
                mode: job.mode.0,
                tries,
                value: (now - item.queued).0.min(u64::from(u32::MAX)) as u32,
                ..self.entry(what, item.frame, node as u16, item.to)
            });
        }
        if let Some(latency) = raised {
            self.queue.set(node, Wake::Interrupt, now + latency);
        }
        self.draw(node);
        self.count_on(node);
        self.next_job(node);
    }

    /// The driver reports what is finished.
    pub(crate) fn interrupt(&mut self, node: usize) {
        let now = self.now;
        self.stations[node].driver.interrupt(now);
        while let Some((f, sample)) = self.stations[node].driver.report(now) {
            let to = f.item.to;
            if self.tracing {
                self.record(Record {
                    tries: f.tries,
                    value: sample.0.min(u64::from(u32::MAX)) as u32,
                    ..self.entry(What::Reported, f.item.frame, node as u16, to)
                });
            }
            self.events.push_back(Event::Done {
                node: node as u16,
                to: (to != NOBODY).then_some(to),
                cookie: f.item.cookie,
                delivered: f.delivered,
                tries: f.tries,
                mode: f.mode,
                seq: f.seq,
                sample,
                times: f.times,
            });
        }
        if self.stations[node].driver.refill(now) {
            self.events.push_back(Event::Room { node: node as u16 });
        }
        self.next_job(node);
    }

    /// A data frame for this station was decoded: ACK after SIFS, whatever the medium. Only a
    /// station that owes another answer already cannot give two.
    pub(crate) fn answer_data(&mut self, node: usize, number: u32, signal: &Signal) {
        if self.stations[node].answer.is_none() {
            self.signals[number as usize].answered = true;
            self.answer(node, Answer::Ack, signal);
        }
    }

    /// An RTS for this station was decoded: CTS after SIFS, unless the medium is reserved or
    /// another answer is due.
    pub(crate) fn asked(&mut self, node: usize, number: u32, signal: &Signal) {
        let s = &self.stations[node];
        if s.nav <= self.now && s.answer.is_none() {
            self.signals[number as usize].answered = true;
            self.answer(node, Answer::Cts, signal);
        }
    }

    /// The CTS came: the data follows after SIFS.
    pub(crate) fn cleared(&mut self, node: usize, signal: &Signal) {
        let s = &mut self.stations[node];
        // With another answer due, the data cannot follow: the CTS is as good as lost.
        if s.phase != Phase::AwaitCts || s.answer.is_some() {
            return;
        }
        s.phase = Phase::Cleared;
        s.late = false;
        self.queue.cancel(node, Wake::Timeout);
        self.answer(node, Answer::Data, signal);
    }

    fn answer(&mut self, node: usize, answer: Answer, signal: &Signal) {
        self.stations[node].answer = Some(Response {
            answer,
            to: signal.from,
            mode: signal.mode,
            left: signal.duration,
            frame: signal.frame,
        });
        let at = self.now + self.phy.sifs;
        self.queue.set(node, Wake::Respond, at);
    }

    /// SIFS is over.
    pub(crate) fn respond(&mut self, node: usize) {
        let s = &mut self.stations[node];
        let Some(r) = s.answer.take() else { return };
        let can = s.sending.is_none();
        let length = self.answer_time(node, r.mode);
        let left = Span(r.left.0.saturating_sub((self.phy.sifs + length).0));
        let s = &mut self.stations[node];
        let mode = s.control[usize::from(r.mode.0)];
        match r.answer {
            Answer::Data => {
                if s.phase == Phase::Cleared && s.job.is_some() && can {
                    self.send_data(node);
                } else if s.phase == Phase::Cleared {
                    s.phase = Phase::AwaitCts;
                    self.failed(node);
                }
            }
            Answer::Ack if can => {
                s.counters.acks += 1;
                self.transmit(
                    node,
                    Signal {
                        duration: left,
                        frame: r.frame,
                        ..control_signal(FrameKind::Ack, r.to, mode, ACK)
                    },
                );
            }
            Answer::Cts if can => {
                s.counters.cts += 1;
                self.transmit(
                    node,
                    Signal {
                        duration: left,
                        frame: r.frame,
                        ..control_signal(FrameKind::Cts, r.to, mode, CTS)
                    },
                );
            }
            Answer::Ack => self.unanswered(r.to, Phase::AwaitAck),
            Answer::Cts => self.unanswered(r.to, Phase::AwaitCts),
        }
    }
}

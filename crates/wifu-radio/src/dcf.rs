//! The distributed coordination function: back-off, exchanges, repetition.

use crate::driver::{Finished, Times};
use crate::event::Event;
use crate::mac::Mac;
use crate::medium::Medium;
use crate::phy::{ACK, CTS, OVERHEAD, RTS};
use crate::queue::Wake;
use crate::run::Run;
use crate::signal::Signal;
use crate::station::{Answer, Job, Phase, Response, Spaces, Station};
use crate::trace::{FrameKind, NOBODY, Record, What};
use wifu_wire::{Span, Time};

impl Mac {
    /// The hardware takes the next packet if it has none.
    #[inline]
    pub(crate) fn next_job(&mut self, node: usize, medium: &mut Medium, run: &mut Run) {
        let s = &self.stations[node];
        if s.phase == Phase::Idle && s.driver.ready() {
            self.take_job(node, medium, run);
        }
    }

    #[inline(never)]
    fn take_job(&mut self, node: usize, medium: &mut Medium, run: &mut Run) {
        let now = run.now;
        let s = &mut self.stations[node];
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
        self.contend(node, medium, run);
    }

    /// Wait for the medium, or take it at once.
    fn contend(&mut self, node: usize, medium: &mut Medium, run: &mut Run) {
        let now = run.now;
        let Spaces { ifs, slot } = self.spaces;
        let s = &mut self.stations[node];
        if s.backoff {
            if s.busy {
                return;
            }
            let at = s.count_from + slot * u64::from(s.slots);
            if at > now {
                run.queue.set(node, Wake::Access, at);
                return;
            }
            s.backoff = false;
        }
        if !s.busy && now >= s.idle_since + ifs[usize::from(s.eifs)] {
            self.start(node, medium, run);
            return;
        }
        draw(s, node, run);
        count_on(s, node, &self.spaces, run);
    }

    /// The back-off expired.
    pub(crate) fn granted(&mut self, node: usize, medium: &mut Medium, run: &mut Run) {
        let s = &mut self.stations[node];
        if s.phase == Phase::Contend && medium.at(node).sending.is_none() {
            s.backoff = false;
            s.slots = 0;
            self.start(node, medium, run);
        }
    }

    /// Begin an attempt.
    fn start(&mut self, node: usize, medium: &mut Medium, run: &mut Run) {
        let now = run.now;
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
            self.send_data(node, medium);
            return;
        }
        let (mode, item) = (job.mode, job.item);
        let control = s.control[usize::from(mode.0)];
        s.counters.rts += 1;
        let sifs = self.phy.sifs;
        let answer = self.stations[node].answer_time[usize::from(mode.0)];
        let data = self.phy.airtime(mode, u32::from(item.bytes) + OVERHEAD);
        let signal = Signal {
            duration: sifs * 3 + answer * 2 + data,
            frame: item.frame,
            ..Signal::new(FrameKind::Rts, item.to, control, RTS)
        };
        medium.put(node, signal);
    }

    fn send_data(&mut self, node: usize, medium: &mut Medium) {
        let s = &mut self.stations[node];
        let Some(job) = &mut s.job else { return };
        let retry = job.sent > 0;
        job.sent = job.sent.saturating_add(1);
        s.phase = Phase::Sending;
        s.counters.attempts += 1;
        let answer = s.answer_time[usize::from(job.mode.0)];
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
            ..Signal::new(
                FrameKind::Data,
                job.item.to,
                job.mode,
                u32::from(job.item.bytes) + OVERHEAD,
            )
        };
        medium.put(node, signal);
    }

    /// A station's own transmission ended, which will be answered or not.
    pub(crate) fn sent(
        &mut self,
        node: usize,
        signal: &Signal,
        answered: bool,
        medium: &mut Medium,
        run: &mut Run,
    ) {
        let to = signal.to;
        match signal.kind {
            FrameKind::Data if to == NOBODY => self.complete(node, true, medium, run),
            FrameKind::Data => self.await_answer(node, Phase::AwaitAck, answered, run),
            FrameKind::Rts => self.await_answer(node, Phase::AwaitCts, answered, run),
            FrameKind::Ack => self.unanswered(to, Phase::AwaitAck, run),
            FrameKind::Cts => self.unanswered(to, Phase::AwaitCts, run),
        }
    }

    /// Wait for CTS or ACK. Whether the other side will answer is known to the model: only if it
    /// won't is a timer set here, else [`Mac::unanswered`] sees to it. Unless some frame is
    /// decoded, EIFS follows, as it does for those that could not decode this transmission: all
    /// count their slots from the same moment.
    fn await_answer(&mut self, node: usize, phase: Phase, answered: bool, run: &mut Run) {
        let deadline = run.now + self.phy.ack_timeout();
        let s = &mut self.stations[node];
        s.phase = phase;
        s.deadline = deadline;
        s.late = false;
        s.eifs = true;
        if answered {
            run.queue.cancel(node, Wake::Timeout);
        } else {
            run.queue.set(node, Wake::Timeout, deadline);
        }
    }

    /// An answer was sent, or couldn't be: whoever still waits for it did not get it.
    fn unanswered(&mut self, to: u16, phase: Phase, run: &mut Run) {
        let now = run.now;
        let Some(s) = self.stations.get_mut(usize::from(to)) else {
            return;
        };
        if s.phase != phase {
            return;
        }
        let at = s.deadline.max(now);
        run.queue.set(usize::from(to), Wake::Timeout, at);
    }

    /// CTS or ACK did not begin in time. A frame that is being received may be it.
    pub(crate) fn timeout(&mut self, node: usize, medium: &mut Medium, run: &mut Run) {
        let s = &mut self.stations[node];
        if !matches!(s.phase, Phase::AwaitAck | Phase::AwaitCts) {
            return;
        }
        if medium.at(node).lock.is_some() {
            s.late = true;
        } else {
            self.failed(node, medium, run);
        }
    }

    /// An attempt failed.
    pub(crate) fn failed(&mut self, node: usize, medium: &mut Medium, run: &mut Run) {
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
        run.queue.cancel(node, Wake::Timeout);
        let job = *job;
        if data && let Some(m) = &mut s.minstrel {
            m.report(job.item.to, job.mode, false);
        }
        run.note(node as u64, u64::from(job.item.frame) << 8 | 0xFA);
        if run.tracing {
            run.record(Record {
                mode: job.mode.0,
                tries: job.short + job.long,
                ..run.entry(What::Failed, job.item.frame, node as u16, job.item.to)
            });
        }
        if gone {
            self.complete(node, false, medium, run);
            return;
        }
        s.cw = (2 * s.cw + 1).min(s.cw_max);
        s.phase = Phase::Contend;
        draw(s, node, run);
        count_on(s, node, &self.spaces, run);
    }

    /// The ACK came.
    pub(crate) fn acknowledged(&mut self, node: usize, medium: &mut Medium, run: &mut Run) {
        let s = &mut self.stations[node];
        if s.phase != Phase::AwaitAck {
            return;
        }
        s.late = false;
        run.queue.cancel(node, Wake::Timeout);
        if let (Some(m), Some(job)) = (&mut s.minstrel, &s.job) {
            m.report(job.item.to, job.mode, true);
        }
        self.complete(node, true, medium, run);
    }

    /// The packet is finished: post-back-off, report, next.
    fn complete(&mut self, node: usize, delivered: bool, medium: &mut Medium, run: &mut Run) {
        let now = run.now;
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
        s.counters.tries += u64::from(tries);
        s.counters.retries += u64::from(tries.saturating_sub(1));
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
            && let Some(c) = medium.account(node, item.to)
        {
            c.frames += 1;
            c.tries += u64::from(tries);
            c.acked += u64::from(delivered);
            c.failed += u64::from(!delivered);
        }
        if run.tracing {
            let what = if delivered {
                What::Acknowledged
            } else {
                What::Dropped
            };
            run.record(Record {
                mode: job.mode.0,
                tries,
                value: (now - item.queued).0.min(u64::from(u32::MAX)) as u32,
                ..run.entry(what, item.frame, node as u16, item.to)
            });
        }
        if let Some(latency) = raised {
            run.queue.set(node, Wake::Interrupt, now + latency);
        }
        draw(s, node, run);
        count_on(s, node, &self.spaces, run);
        self.next_job(node, medium, run);
    }

    /// The driver reports what is finished.
    #[inline(always)]
    pub(crate) fn interrupt(&mut self, node: usize, medium: &mut Medium, run: &mut Run) {
        let now = run.now;
        let s = &mut self.stations[node];
        s.driver.interrupt(now);
        while let Some((f, sample)) = s.driver.report(now) {
            let to = f.item.to;
            if run.tracing {
                run.record(Record {
                    tries: f.tries,
                    value: sample.0.min(u64::from(u32::MAX)) as u32,
                    ..run.entry(What::Reported, f.item.frame, node as u16, to)
                });
            }
            run.events.push_back(Event::Done {
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
        let room = s.driver.refill(now);
        self.acted(node, run);
        if room {
            run.events.push_back(Event::Room { node: node as u16 });
        }
        self.next_job(node, medium, run);
    }

    /// A frame for this station was decoded. Data gets an ACK after SIFS, whatever the medium; an
    /// RTS its CTS unless the medium is reserved. A station that owes another answer already
    /// cannot give two.
    pub(crate) fn owe(
        &mut self,
        node: usize,
        (what, number): (Answer, u32),
        signal: &Signal,
        medium: &mut Medium,
        run: &mut Run,
    ) {
        let s = &mut self.stations[node];
        let reserved = what == Answer::Cts && s.nav > run.now;
        if s.answer.is_none() && !reserved {
            medium.will_answer(number);
            answer(s, node, (what, self.phy.sifs), signal, run);
        }
    }

    /// The CTS came: the data follows after SIFS.
    pub(crate) fn cleared(&mut self, node: usize, signal: &Signal, run: &mut Run) {
        let s = &mut self.stations[node];
        // With another answer due, the data cannot follow: the CTS is as good as lost.
        if s.phase != Phase::AwaitCts || s.answer.is_some() {
            return;
        }
        s.phase = Phase::Cleared;
        s.late = false;
        run.queue.cancel(node, Wake::Timeout);
        answer(s, node, (Answer::Data, self.phy.sifs), signal, run);
    }

    /// SIFS is over.
    pub(crate) fn respond(&mut self, node: usize, medium: &mut Medium, run: &mut Run) {
        let s = &mut self.stations[node];
        let Some(r) = s.answer.take() else { return };
        let can = medium.at(node).sending.is_none();
        let length = s.answer_time[usize::from(r.mode.0)];
        let left = Span(r.left.0.saturating_sub((self.phy.sifs + length).0));
        let s = &mut self.stations[node];
        let mode = s.control[usize::from(r.mode.0)];
        match r.answer {
            Answer::Data => {
                if s.phase == Phase::Cleared && s.job.is_some() && can {
                    self.send_data(node, medium);
                } else if s.phase == Phase::Cleared {
                    s.phase = Phase::AwaitCts;
                    self.failed(node, medium, run);
                }
            }
            Answer::Ack if can => {
                s.counters.acks += 1;
                medium.put(
                    node,
                    Signal {
                        duration: left,
                        frame: r.frame,
                        ..Signal::new(FrameKind::Ack, r.to, mode, ACK)
                    },
                );
            }
            Answer::Cts if can => {
                s.counters.cts += 1;
                medium.put(
                    node,
                    Signal {
                        duration: left,
                        frame: r.frame,
                        ..Signal::new(FrameKind::Cts, r.to, mode, CTS)
                    },
                );
            }
            Answer::Ack => self.unanswered(r.to, Phase::AwaitAck, run),
            Answer::Cts => self.unanswered(r.to, Phase::AwaitCts, run),
        }
    }
}

/// See [`Station::count_on`].
#[inline(never)]
fn count_on(s: &mut Station, node: usize, spaces: &Spaces, run: &mut Run) {
    s.count_on(node, run.now, spaces, &mut run.queue);
}

/// Draw a back-off from the present window.
fn draw(s: &mut Station, node: usize, run: &mut Run) {
    s.slots = s.backoff_rng.below(u64::from(s.cw) + 1) as u32;
    s.backoff = true;
    if run.tracing
        && let Some(job) = &s.job
    {
        run.record(Record {
            value: s.slots,
            tries: job.tries(),
            ..run.entry(What::Deferred, job.item.frame, node as u16, job.item.to)
        });
    }
}

/// An answer to this frame is due after SIFS.
fn answer(
    s: &mut Station,
    node: usize,
    (answer, sifs): (Answer, Span),
    signal: &Signal,
    run: &mut Run,
) {
    s.answer = Some(Response {
        answer,
        to: signal.from,
        mode: signal.mode,
        left: signal.duration,
        frame: signal.frame,
    });
    run.queue.set(node, Wake::Respond, run.now + sifs);
}

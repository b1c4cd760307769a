//! `cumulative`: reliability by cumulative acknowledgements (RFC 5681, RFC 6582, Behaviour 4.4 to
//! 4.7).
//!
//! Contributes the sender's sequence space, the retransmission timer, loss detection by duplicate
//! ACKs and the recovery episode: go-back-N (Tahoe), Reno or NewReno, which differ in nothing else.
//! Hears segments; emits `acked`, `dup-ack`, `lost`, `recovered`, `gave-up`; writes `tx`. Behind a
//! pacer that is a queue (`rate.behind`) what goes again waits for what the window had let in.
//!
//! There is no window inflation: a duplicate ACK says that a segment left, so `pipe` shrinks
//! (Behaviour 16.8). The same segments leave, and `cwnd` is the number that the RFCs mean.

use wifu_engine::board::TxFacts;
use wifu_engine::component::Cx;
use wifu_engine::kit::{Expiry, SENDER_PARAMS, SENDING, Sender};
use wifu_engine::signal::Lost;
use wifu_engine::{
    Admit, Board, Cause, Component, Descriptor, Facts, Kind, Out, ParamSpec, Params, Reason,
    Segment, Signal, Value, Want,
};
use wifu_wire::{Flags, Seq, Time};

/// See the module.
pub static CUMULATIVE: Descriptor = Descriptor {
    name: "cumulative",
    doc: "Cumulative acknowledgements, the retransmission timer, and recovery by go-back-N \
          (Tahoe), Reno or NewReno.",
    cites: &[
        "RFC 9293 section 3.8",
        "RFC 5681",
        "RFC 6582",
        "RFC 3042",
        "Behaviour 4.4 to 4.7",
    ],
    params: &[
        SENDER_PARAMS[0],
        SENDER_PARAMS[1],
        SENDER_PARAMS[2],
        SENDER_PARAMS[3],
        SENDER_PARAMS[4],
        ParamSpec::text(
            "recovery",
            "newreno",
            &["go-back-n", "reno", "newreno"],
            "What follows the third duplicate ACK.",
        ),
        ParamSpec::int(
            "dupthresh",
            3,
            1,
            100,
            "Duplicate ACKs that mean a loss (RFC 5681).",
        ),
        ParamSpec::flag(
            "ltx",
            false,
            "Limited transmit on the first duplicates (RFC 3042).",
        ),
    ],
    probes: &["dupacks", "recover"],
    wants: SENDING.wants.with(Facts::RATE),
    // A judge that excuses the loss would let the window that was rewound leave in one burst.
    needs_with: &[("recovery", "go-back-n", "judge", &["loss-is-congestion"])],
    build: |p| Ok(Box::new(Cumulative::new(p))),
    ..SENDING
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Recovery {
    GoBackN,
    Reno,
    NewReno,
}

struct Cumulative {
    sender: Sender,
    recovery: Recovery,
    dupthresh: u32,
    ltx: bool,
    recover: Option<Seq>,
    in_recovery: bool,
    /// The RTO timer was restarted by a partial ACK of this episode ("impatient").
    restarted: bool,
    dupacks: u32,
    /// Octets that duplicate ACKs say have left, beyond the cumulative acknowledgement.
    departed: i64,
    /// Octets sent by limited transmit: not in flight for ssthresh.
    limited: u32,
    rescue: Option<Reason>,
    /// What is to go again waits behind this.
    queue: Option<Queue>,
    /// Why the cursor was pulled back.
    rewound: Reason,
    last_window: u32,
}

/// What a pacer that is a queue had let in when a loss was noticed.
#[derive(Clone, Copy)]
struct Queue {
    /// Full segments, 1 or more.
    segments: u32,
    /// How many they were when the timer ran out last.
    at_expiry: u32,
    /// What goes again behind them, and whether all behind that goes again, too.
    reason: Reason,
    rewinds: bool,
}

impl Cumulative {
    fn new(p: &Params<'_>) -> Cumulative {
        Cumulative {
            sender: Sender::new(p),
            recovery: match p.text("recovery") {
                "go-back-n" => Recovery::GoBackN,
                "reno" => Recovery::Reno,
                _ => Recovery::NewReno,
            },
            dupthresh: p.int("dupthresh") as u32,
            ltx: p.flag("ltx"),
            recover: None,
            in_recovery: false,
            restarted: false,
            dupacks: 0,
            departed: 0,
            limited: 0,
            rescue: None,
            queue: None,
            rewound: Reason::First,
            last_window: 0,
        }
    }

    fn publish(&self, cx: &mut Cx<'_>) {
        let flight = i64::from(cx.board.tx.nxt.since(cx.board.tx.una));
        let pipe = (flight - self.departed).max(0) as u32;
        let recovering = self.in_recovery;
        let mss = cx.board.conn.mss;
        let quota = self.queue.map(|q| q.segments.saturating_mul(mss));
        cx.write(|t: &mut TxFacts| {
            (t.pipe, t.recovering, t.quota) = (pipe, recovering, quota);
        });
    }

    /// Full segments that wait beyond the cursor, inside this window.
    fn waiting(board: &Board, window: u32) -> u32 {
        let peer = match board.peer.max_window {
            0 => u32::MAX,
            _ => board.peer.window,
        };
        let room = window
            .min(peer)
            .saturating_sub(board.tx.nxt.since(board.tx.una));
        room.min(board.app.end.beyond(board.tx.nxt)) / board.conn.mss.max(1)
    }

    /// The segment at `una` goes again: at once, or behind what the window let into the pacer's
    /// queue and did not leave it yet. With `rewinds` all behind it follows.
    //= spec#16.1
    // "at the loss note q = bytes that min(cwnd, rwnd) allowed and the pacer had not released"
    fn go_again(&mut self, reason: Reason, rewinds: bool, cx: &mut Cx<'_>) {
        let mut segments = 0;
        if cx.board.rate.behind {
            // By now the window may be reduced; what it let in before remains, unless the peer
            // takes it no more.
            let before = self.queue.map_or(0, |q| q.segments);
            let remain = before.min(Self::waiting(&cx.board, u32::MAX));
            segments = Self::waiting(&cx.board, cx.board.win.cwnd).max(remain);
            // What another gate refuses for the whole time of the timer is in nobody's queue.
            let stuck = self.queue.is_some_and(|q| q.segments == q.at_expiry);
            if stuck && reason == Reason::Timeout {
                segments = 0;
            }
        }
        let at_expiry = match (reason, self.queue) {
            (Reason::Timeout, _) => segments,
            (_, queue) => queue.map_or(0, |q| q.at_expiry),
        };
        let queue = Queue {
            segments,
            at_expiry,
            reason,
            rewinds: rewinds || self.queue.is_some_and(|q| q.rewinds),
        };
        self.queue = Some(queue).filter(|q| q.segments > 0);
        if self.queue.is_none() {
            self.in_turn(queue, cx);
        }
    }

    fn in_turn(&mut self, queue: Queue, cx: &mut Cx<'_>) {
        self.rescue = Some(queue.reason);
        if queue.rewinds {
            self.rewound = queue.reason;
            cx.write(|t: &mut TxFacts| t.nxt = t.una);
        }
    }

    /// Data left in turn: one of those before what is to go again.
    fn left(&mut self, cx: &mut Cx<'_>) {
        if let Some(mut queue) = self.queue.take() {
            queue.segments -= 1;
            if queue.segments > 0 {
                self.queue = Some(queue);
            } else {
                self.in_turn(queue, cx);
            }
        }
    }

    /// The window at `una` has not been reduced since `recover`.
    fn fresh(&self, board: &Board) -> bool {
        self.recover.is_none_or(|r| board.tx.una.after(r))
    }

    fn on_advance(&mut self, ack: Seq, cx: &mut Cx<'_>) {
        let full = self.recover.is_none_or(|r| ack.from(r));
        let partial = self.in_recovery && self.recovery == Recovery::NewReno && !full;
        let restart = !partial || !self.restarted;
        let advance = self.sender.advance(ack, restart, cx);
        let was = self.in_recovery;
        self.rescue = None;
        let queue = self.queue.take();
        // Once passed, `recover` says nothing more; kept, it would come to lie ahead after half
        // the sequence space.
        if self.fresh(&cx.board) {
            self.recover = None;
        }
        if partial {
            self.restarted = true;
            self.queue = queue;
            self.go_again(Reason::Partial, false, cx);
            let next = cx.board.conn.mss.min(cx.board.tx.max.since(ack));
            cx.write(|t: &mut TxFacts| t.lost += u64::from(next));
            // RFC 6582 3.2 step 3: deflate by what was acknowledged, inflate by one segment.
            let mss = i64::from(cx.board.conn.mss);
            self.departed -= i64::from(advance.space);
            if i64::from(advance.space) >= mss {
                self.departed += mss;
            }
        } else {
            (self.in_recovery, self.dupacks) = (false, 0);
            (self.departed, self.limited) = (0, 0);
        }
        self.publish(cx);
        advance.announce(ack, was, self.in_recovery, cx);
    }

    fn on_duplicate(&mut self, cx: &mut Cx<'_>) {
        let mss = i64::from(cx.board.conn.mss);
        self.dupacks += 1;
        cx.out.emit(Signal::DupAck);
        if self.dupacks == self.dupthresh {
            self.on_threshold(cx);
        } else if self.dupacks > self.dupthresh && self.in_recovery {
            self.departed += mss;
        } else if self.dupacks < self.dupthresh && self.ltx && self.dupacks <= 2 {
            // Two segments at the most, whose room the departed ones left (RFC 3042).
            self.departed = i64::from(self.dupacks) * mss;
            self.limited = (self.dupacks as i64 * mss) as u32;
        }
        self.publish(cx);
    }

    fn on_threshold(&mut self, cx: &mut Cx<'_>) {
        if !self.fresh(&cx.board) {
            return;
        }
        let (una, max, mss) = (cx.board.tx.una, cx.board.tx.max, cx.board.conn.mss);
        let flight = cx
            .board
            .tx
            .nxt
            .since(una)
            .saturating_sub(self.sent_limited(cx));
        match self.recovery {
            Recovery::GoBackN => {
                self.recover = Some(max);
                self.departed = 0;
            }
            Recovery::Reno | Recovery::NewReno => {
                if self.recovery == Recovery::NewReno {
                    self.recover = Some(max);
                }
                (self.in_recovery, self.restarted) = (true, false);
                self.departed = i64::from(self.dupthresh) * i64::from(mss);
            }
        }
        let rewinds = self.recovery == Recovery::GoBackN;
        self.go_again(Reason::DupAck, rewinds, cx);
        let bytes = mss.min(max.since(una));
        cx.write(|t: &mut TxFacts| t.lost += u64::from(bytes));
        cx.out.emit(Signal::Lost(Lost {
            bytes,
            flight,
            cause: Cause::DupAcks,
            new_episode: true,
            repeat: false,
        }));
    }

    /// Octets that limited transmit really sent: at most what it was allowed.
    fn sent_limited(&self, cx: &Cx<'_>) -> u32 {
        let beyond = cx
            .board
            .tx
            .nxt
            .since(cx.board.tx.una)
            .saturating_sub(cx.board.win.cwnd);
        self.limited.min(beyond)
    }

    //= rfc5681#section-2
    //= spec#4.4
    // "duplicate acknowledgment"
    fn is_duplicate(&self, seg: &Segment<'_>, ack: Seq, board: &Board) -> bool {
        ack == board.tx.una
            && seg.payload.is_empty()
            && !seg.head.flags.has(Flags::SYN.with(Flags::FIN))
            && seg.head.window <= self.last_window
            && board.tx.una != board.tx.max
            && !board.peer.persist
    }

    fn on_expiry(&mut self, repeat: bool, cx: &mut Cx<'_>) {
        let (una, max) = (cx.board.tx.una, cx.board.tx.max);
        let flight = cx.board.tx.nxt.since(una);
        let flying = u64::from(cx.board.tx.pipe);
        cx.write(|t: &mut TxFacts| t.lost += flying);
        self.recover = Some(max);
        (self.in_recovery, self.dupacks) = (false, 0);
        (self.departed, self.limited) = (0, 0);
        self.go_again(Reason::Timeout, true, cx);
        self.publish(cx);
        cx.out.emit(Signal::Lost(Lost {
            bytes: max.since(una),
            flight,
            cause: Cause::Timeout,
            new_episode: true,
            repeat,
        }));
    }

    fn fill_again(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let seq = match want.kind {
            Kind::Rescue => cx.board.tx.una,
            _ => cx.board.tx.nxt,
        };
        out.reason = match want.kind {
            Kind::Rescue => self.rescue.take().unwrap_or_default(),
            _ => self.rewound,
        };
        // In the middle of what is in flight a rescue takes no new data along.
        let (nxt, max) = (cx.board.tx.nxt, cx.board.tx.max);
        let bytes = if nxt == seq {
            want.bytes
        } else {
            want.bytes.min(max.since(seq))
        };
        let end = self.sender.put(seq, bytes, out, &cx.board);
        cx.write(|t: &mut TxFacts| {
            t.retransmits += 1;
            t.max = t.max.later(end);
            t.nxt = if t.nxt == seq { end } else { t.nxt.later(end) };
        });
        self.sender.arm_if_idle(cx);
    }
}

impl Component for Cumulative {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        self.sender.on_segment(seg.head, &cx.board);
        let Some(ack) = seg.head.ack else {
            return Admit::Pass;
        };
        if ack.after(cx.board.tx.una) && ack.upto(cx.board.tx.max) {
            self.on_advance(ack, cx);
        } else if self.is_duplicate(seg, ack, &cx.board) {
            self.on_duplicate(cx);
        }
        self.last_window = seg.head.window;
        Admit::Pass
    }

    fn on_timer(&mut self, timer: u8, cx: &mut Cx<'_>) {
        match self.sender.on_timer(timer, cx) {
            Expiry::Nothing | Expiry::Syn => {}
            Expiry::GaveUp => cx.out.emit(Signal::GaveUp),
            Expiry::Data { repeat } => self.on_expiry(repeat, cx),
        }
    }

    fn offer(&self, kind: Kind, board: &Board, _now: Time) -> Option<Want> {
        let tx = &board.tx;
        match kind {
            Kind::Control => self.sender.offer_syn(board),
            Kind::Rescue => {
                // Gates let it pass, so it takes along nothing that was not sent before: the peer's
                // window might not hold it.
                self.rescue?;
                let sent = tx.max.since(tx.una);
                let w = Sender::want(board, kind, tx.una).filter(|_| sent > 0)?;
                Some(Want {
                    bytes: w.bytes.min(sent),
                    least: w.least.min(sent),
                    ..w
                })
            }
            Kind::Resend if tx.nxt != tx.max && !board.peer.persist => {
                // From `una` on segments are cut anew; later ones take no new data along, which
                // might not fit the peer's window.
                let w = Sender::want(board, kind, tx.nxt)?;
                let most = if tx.nxt == tx.una {
                    w.bytes
                } else {
                    tx.max.since(tx.nxt)
                };
                Some(Want {
                    bytes: w.bytes.min(most),
                    least: w.least.min(most),
                    ..w
                })
            }
            Kind::New => self.sender.offer_new(board),
            Kind::Probe => self.sender.offer_probe(board),
            _ => None,
        }
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        match want.kind {
            Kind::Control => self.sender.fill_syn(out, cx),
            Kind::Probe => self.sender.fill_probe(want, out, cx),
            Kind::Rescue | Kind::Resend => self.fill_again(want, out, cx),
            _ => self.sender.fill_new(want, out, cx),
        }
        if want.kind.in_turn() {
            self.left(cx);
        }
        self.publish(cx);
    }

    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        self.sender.stamp(out, &cx.board);
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        self.sender.set(param, value)
    }

    fn on_set(&mut self, cx: &mut Cx<'_>) {
        self.sender.on_set(cx);
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("dupacks", f64::from(self.dupacks));
        probe("recover", self.recover.map_or(0.0, |r| f64::from(r.0)));
    }
}

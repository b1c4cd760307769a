//! `reassemble`: the receiver of stream protocols (RFC 9293 3.10.7.4, RFC 2018, RFC 7323).
//!
//! Contributes reassembly, the advertised window, the acknowledgement number on everything that
//! leaves, SACK ranges, TS.Recent and its echo. Hears segments and the application's reads; emits
//! `arrived` and `ack-now`; writes `rx`. When a bare ACK is worth sending is the ACK policy's
//! business.

use wifu_engine::board::RxFacts;
use wifu_engine::component::Cx;
use wifu_engine::signal::Arrived;
use wifu_engine::{
    Admit, Arrival, Component, Descriptor, Facts, FieldUse, Out, ParamSpec, Params, Role, Segment,
    Signal,
};
use wifu_wire::{Ecn, Flags, Head, HeadField, Seq, Span};

/// See the module.
pub static REASSEMBLE: Descriptor = Descriptor {
    name: "reassemble",
    role: Role::Receive,
    doc: "Puts bytes in order, advertises the window and acknowledges on everything that leaves.",
    cites: &[
        "RFC 9293 section 3.10.7.4",
        "RFC 2018",
        "RFC 2883",
        "RFC 7323 section 4.3",
        "Behaviour 4.4, 4.8",
    ],
    params: &[
        ParamSpec::flag(
            "sack",
            false,
            "Permit and report selective acknowledgements (RFC 2018).",
        ),
        ParamSpec::flag(
            "dsack",
            false,
            "Report as the first range what came twice (RFC 2883), where ranges are agreed.",
        ),
        ParamSpec::text(
            "ts_echo",
            "last",
            &["last", "rfc7323", "linux"],
            "Which timestamp is echoed: the last received, or TS.Recent (Behaviour 4.4 says what \
             this does to delayed acknowledgements); linux: TS.Recent, to which a segment that came \
             twice counts too if all before its end is acknowledged and nothing more (tcp_sequence), \
             so that the answer to a needless retransmission times that.",
        ),
    ],
    wants: Facts::CONN,
    writes: Facts::RX,
    hears: &[("segment", &["arrived", "ack-now"]), ("read", &["ack-now"])],
    hooks: &["segment", "stamp"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::SYN),
        FieldUse::of(HeadField::FIN),
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::Window),
        FieldUse::of(HeadField::Scale).optional(),
        FieldUse::of(HeadField::TsEcho).optional(),
        FieldUse::of(HeadField::Ranges).unless("sack", "off"),
        FieldUse::of(HeadField::SackOk).unless("sack", "off"),
    ],
    build: |p| Ok(Box::new(Reassemble::new(p))),
    ..Descriptor::EMPTY
};

/// TS.Recent older than this is invalid: 2^30 us, a quarter of the fastest clock's range
/// (Behaviour 4.1).
const TS_AGE: Span = Span(1_073_741_824_000);

/// Text and end of the stream that a segment carries.
struct Text<'a> {
    at: Seq,
    octets: &'a [u8],
    fin: bool,
    /// It was marked: congestion experienced.
    ce: bool,
}

/// The text of a SYN, which waits for the connection to open.
struct Early {
    at: Seq,
    octets: Vec<u8>,
    fin: bool,
}

struct Reassemble {
    sack: bool,
    dsack: bool,
    /// What came twice last, until it is reported: once.
    twice: Option<(Seq, Seq)>,
    echo_last: bool,
    /// `ts_echo=linux`.
    echo_twice: bool,
    /// The last timestamp received.
    ts_last: u32,
    /// Where the peer's FIN is, once it was seen.
    fin_at: Option<Seq>,
    /// Right edge of the window as last advertised: it never retreats.
    edge: Seq,
    /// The right edge that the peer was told.
    told: Seq,
    last_ack: Seq,
    /// Where data last came beyond a hole, newest first: the order of reports (RFC 2018 4). More
    /// than a segment has room for, because several may lie in one range.
    recent: Vec<Seq>,
    early: Option<Box<Early>>,
    /// The connection was open once: there are, or were, stores.
    open: bool,
}

/// Arrivals beyond holes that are remembered.
const RECENT: usize = 8;

impl Reassemble {
    fn new(p: &Params<'_>) -> Reassemble {
        Reassemble {
            sack: p.flag("sack"),
            dsack: p.flag("dsack"),
            twice: None,
            echo_last: p.text("ts_echo") == "last",
            echo_twice: p.text("ts_echo") == "linux",
            ts_last: 0,
            fin_at: None,
            edge: Seq(0),
            told: Seq(0),
            last_ack: Seq(0),
            recent: Vec::with_capacity(RECENT + 1),
            early: None,
            open: false,
        }
    }

    fn on_syn(&mut self, head: &Head, cx: &mut Cx<'_>) {
        if cx.board.rx.synced {
            return;
        }
        let (irs, site) = (head.seq, &cx.board.site);
        let (first, window) = (irs.plus(1), site.rcv_buf.min(site.window_most()));
        (self.edge, self.last_ack) = (first.plus(window), first);
        self.told = self.edge;
        let (ts, now) = (head.ts, cx.now);
        self.ts_last = ts.unwrap_or(0);
        let dsack = self.dsack && self.sack && cx.board.conn.peer.sack_ok || self.echo_twice;
        cx.write(|r: &mut RxFacts| {
            r.dsack = dsack;
            (r.irs, r.synced, r.nxt) = (irs, true, first);
            r.window = window;
            (r.ts_recent, r.ts_recent_at) = (ts.unwrap_or(0), ts.map(|_| now));
        });
    }

    //= rfc7323#section-4.3
    fn note_ts(&mut self, head: &Head, cx: &mut Cx<'_>) {
        let Some(ts) = head.ts else { return };
        self.ts_last = ts;
        let (now, rx) = (cx.now, &cx.board.rx);
        let newer = (ts.wrapping_sub(rx.ts_recent) as i32) >= 0;
        // After so long a silence the peer's clock may have gone half round and look older for
        // ever: what is remembered says nothing any more (RFC 7323 5.5).
        let valid = rx.ts_recent_at.is_some_and(|at| now - at <= TS_AGE);
        if head.seq.upto(self.last_ack) && (newer || !valid) {
            cx.write(|r: &mut RxFacts| (r.ts_recent, r.ts_recent_at) = (ts, Some(now)));
        }
    }

    /// The text of a SYN is legal, and processed once the connection is open. Until then it is not
    /// acknowledged, so that it comes again if it is forgotten: with an embryonic connection that
    /// made room, or beyond what one packet carries.
    //= rfc9293#section-3.10.7.3
    #[cold]
    fn keep(&mut self, text: &Text<'_>, cx: &Cx<'_>) {
        let most = text.octets.len().min(cx.board.site.mtu as usize);
        let whole = most == text.octets.len();
        self.early.get_or_insert_with(|| {
            Box::new(Early {
                at: text.at,
                octets: text.octets[..most].to_vec(),
                fin: text.fin && whole,
            })
        });
    }

    /// The connection is open: what came with its SYN counts now.
    #[cold]
    fn catch_up(&mut self, cx: &mut Cx<'_>) {
        if let Some(early) = self.early.take() {
            let (at, octets, fin) = (early.at, &early.octets[..], early.fin);
            let ce = false; // SYNs are not to be marked
            self.on_data(
                &Text {
                    at,
                    octets,
                    fin,
                    ce,
                },
                cx,
            );
        }
    }

    // The other caller is cold.
    #[inline(always)]
    fn on_data(&mut self, text: &Text<'_>, cx: &mut Cx<'_>) {
        let (seq, bytes) = (text.at, text.octets.len() as u32);
        let fin_seq = seq.plus(bytes);
        if text.fin && !cx.board.rx.fin {
            // It needs no room: one behind data that fills the window is taken too.
            let fits = fin_seq.upto(cx.board.rx.nxt.plus(cx.store.window()));
            if fits && self.fin_at.is_none() {
                self.fin_at = Some(fin_seq);
            }
        }
        if self.dsack && cx.board.rx.dsack && bytes > 0 {
            self.twice = Self::repeated(text, cx).or(self.twice);
        }
        let (mut order, mut gap) = (Arrival::Duplicate, 0);
        if bytes > 0
            && !cx.board.rx.fin
            && let Some(i) = cx.store.insert(seq, self.inside(text))
        {
            (order, gap) = (i.order, i.gap);
            self.note_recent(cx.store.newest(), seq);
            if i.advanced > 0 {
                if cx.board.app.gone {
                    cx.store.discard();
                }
                cx.write(|r: &mut RxFacts| r.nxt = r.nxt.plus(i.advanced));
            }
        }
        let fin = self.fin_at == Some(cx.board.rx.nxt) && !cx.board.rx.fin;
        if fin {
            cx.write(|r: &mut RxFacts| (r.nxt, r.fin) = (r.nxt.plus(1), true));
            if bytes == 0 {
                order = Arrival::InOrder;
            }
        } else if bytes == 0 && self.fin_at.is_some_and(|f| f.after(cx.board.rx.nxt)) {
            order = Arrival::Ahead;
        }
        self.publish(cx);
        cx.out.emit(Signal::Arrived(Arrived {
            seq,
            bytes,
            gap,
            order,
            fin,
            ce: text.ce,
        }));
    }

    /// The first part of a text that came before.
    //= rfc2883#section-4
    fn repeated(text: &Text<'_>, cx: &Cx<'_>) -> Option<(Seq, Seq)> {
        let (from, to) = (text.at, text.at.plus(text.octets.len() as u32));
        let nxt = cx.board.rx.nxt;
        if from.before(nxt) {
            return Some((from, to.earlier(nxt)));
        }
        let mut ranges = cx.store.ranges().iter();
        let known = ranges.find(|r| from.before(r.1) && r.0.before(to))?;
        Some((from.later(known.0), to.earlier(known.1)))
    }

    /// What of a segment lies inside the window as it was advertised: a probe of a shut window is
    /// refused even where a few octets would fit, else it would trickle in octet by octet.
    fn inside<'a>(&self, text: &Text<'a>) -> &'a [u8] {
        let room = self.edge.beyond(text.at) as usize;
        &text.octets[..text.octets.len().min(room)]
    }

    /// Data came at `seq` in the range `newest`: that range is reported first from now on.
    #[inline]
    fn note_recent(&mut self, newest: Option<(Seq, Seq)>, seq: Seq) {
        let Some((start, end)) = newest else { return };
        self.recent.retain(|at| at.before(start) || at.from(end));
        self.recent.insert(0, seq.later(start));
        self.recent.truncate(RECENT);
    }

    /// Octets from `nxt` to the right edge that may be advertised: it moves in steps worth a
    /// segment (RFC 9293 3.8.6.2.2), never back, and no further than the format's field can say by
    /// its unit, or by the scale that was agreed.
    fn publish(&mut self, cx: &mut Cx<'_>) {
        let nxt = cx.board.rx.nxt;
        let most = cx.board.site.window_most() << cx.board.conn.rcv_shift;
        let right = nxt.plus(cx.store.window().min(most));
        if right.after(self.edge) && right.since(self.edge) >= self.step(cx) {
            self.edge = right;
        }
        let window = self.edge.beyond(nxt);
        cx.write(|r: &mut RxFacts| r.window = window);
    }

    fn echo(&self, rx: &RxFacts) -> u32 {
        if self.echo_last {
            self.ts_last
        } else {
            rx.ts_recent
        }
    }

    fn step(&self, cx: &Cx<'_>) -> u32 {
        cx.board.conn.mss.min(cx.board.site.rcv_buf / 2).max(1)
    }
}

impl Component for Reassemble {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let syn = seg.head.flags.has(Flags::SYN);
        if syn {
            self.on_syn(seg.head, cx);
        }
        if !cx.board.rx.synced {
            return Admit::Pass;
        }
        let text = Text {
            at: seg.head.seq.plus(u32::from(syn)),
            octets: seg.payload,
            fin: seg.head.flags.has(Flags::FIN),
            ce: seg.head.ecn == Ecn::Ce,
        };
        // What is shown only to be reported lies outside the window: its timestamp is not taken,
        // but where a kernel would.
        let end = text.at.plus(seg.payload.len() as u32);
        let inside = text.octets.is_empty() || end.after(cx.board.rx.nxt);
        if !cx.board.rx.dsack || inside || self.echo_twice && end.from(self.last_ack) {
            self.note_ts(seg.head, cx);
        }
        let carries = !text.octets.is_empty() || text.fin;
        self.open |= cx.store.attached();
        if carries && !self.open {
            self.keep(&text, cx);
            return Admit::Pass;
        }
        if self.open && self.early.is_some() {
            self.catch_up(cx);
        }
        if carries {
            self.on_data(&text, cx);
        } else if cx.store.attached() {
            self.publish(cx);
        }
        Admit::Pass
    }

    fn on_signal(&mut self, _read: &Signal, cx: &mut Cx<'_>) {
        if !cx.board.rx.synced || cx.board.rx.fin || !cx.store.attached() {
            return;
        }
        self.publish(cx);
        // A window update, once it is worth a segment (Behaviour 4.4) and the peer has less than
        // half of the buffer left to fill. One at every read would leave no acknowledgement
        // delayed.
        let nxt = cx.board.rx.nxt;
        let left = self.told.beyond(nxt);
        if self.edge.after(self.told) && left <= cx.board.site.rcv_buf / 2 {
            cx.out.emit(Signal::AckNow);
        }
    }

    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let (head, rx) = (&mut *out.head, &cx.board.rx);
        let (conn, site) = (&cx.board.conn, &cx.board.site);
        if head.flags.has(Flags::RST) {
            // Without an acknowledgement an echo says nothing (RFC 7323 3.2).
            if rx.synced && head.ack.is_some() {
                head.ts_echo = self.echo(rx);
            }
            return;
        }
        let syn = head.flags.has(Flags::SYN);
        if syn {
            let may = !rx.synced || conn.peer.scale.is_some();
            head.options.scale = site.scale().filter(|_| may);
            head.options.sack_ok = self.sack && (!rx.synced || conn.peer.sack_ok);
            head.window = site.rcv_buf.min(site.window_most());
        } else {
            head.window = (rx.window >> conn.rcv_shift).min(site.window_most());
        }
        if !rx.synced {
            return;
        }
        head.ack = Some(rx.nxt);
        head.ts_echo = self.echo(rx);
        (self.last_ack, self.told) = (rx.nxt, self.edge);
        if self.sack && conn.peer.sack_ok && !syn {
            // The range around it follows even if it is the same.
            if let Some(twice) = self.twice.take() {
                head.push_range(twice);
            }
            let reported = head.ranges().len();
            let covering = |at: &Seq| {
                let ranges = cx.store.ranges().iter();
                ranges.copied().find(|r| r.0.upto(*at) && at.before(r.1))
            };
            for r in self.recent.iter().filter_map(covering) {
                if !head.ranges()[reported..].contains(&r) {
                    head.push_range(r);
                }
            }
        }
    }
}

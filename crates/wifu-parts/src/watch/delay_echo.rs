//! `delay-echo`: averages the largest delay of the path that arriving packets bring, and feeds it
//! back with whatever leaves (WiFu paper V.B, Behaviour 9).
//!
//! Hears segments, `arrived` and `read`; says nothing; writes no facts. Both delays are
//! annotations: the handler `tpa-shim` takes the one out of a packet's shim and puts the other into
//! it. Only what takes up sequence space is averaged, for a bare acknowledgement meets another
//! direction's queues. A reader that is slower than the network counts as a delay of the path,
//! while more than half of the buffer is full.

use wifu_engine::component::Cx;
use wifu_engine::descriptor::NoteSpec;
use wifu_engine::kit::{Ewma, Reader};
use wifu_engine::{
    Access, Admit, Board, Component, Descriptor, Facts, Out, ParamSpec, Role, Segment, Signal,
};
use wifu_wire::{Flags, Note};

const MAX_DELAY: NoteSpec = NoteSpec {
    name: "max_delay",
    access: Access::Read,
    unit: "us",
    doc: "The largest delay on the path of an arriving packet; absent, or 0: nobody said.",
};

const FB_DELAY: NoteSpec = NoteSpec {
    name: "fb_delay",
    access: Access::Write,
    unit: "us",
    doc: "Of a packet that leaves: what to feed back; absent: nothing.",
};

/// See the module.
pub static DELAY_ECHO: Descriptor = Descriptor {
    name: "delay-echo",
    role: Role::Watch,
    doc: "Feeds the average of the path's delay back with whatever leaves, or the reader's if that \
          is slower.",
    cites: &["WiFu paper V.B", "Behaviour 9"],
    params: &[ParamSpec::real(
        "beta",
        0.75,
        0.0,
        0.99,
        "Weight of the old average when a packet brings a delay (WiFu's code: 0.75).",
    )],
    notes: &[MAX_DELAY, FB_DELAY],
    probes: &["delay_us", "max_us", "mean_us", "samples"],
    reads: Facts::CONN.with(Facts::RX),
    hears: &[("segment", &[]), ("arrived", &[]), ("read", &[])],
    hooks: &["segment", "stamp"],
    build: |p| {
        Ok(Box::new(DelayEcho {
            notes: [MAX_DELAY, FB_DELAY].map(|n| p.note(n.name)),
            average: Ewma::new(p.real("beta")),
            reader: Reader::default(),
            latest: 0,
            sum: 0,
            samples: 0,
        }))
    },
    ..Descriptor::EMPTY
};

struct DelayEcho {
    /// `max_delay`, `fb_delay`.
    notes: [Note; 2],
    /// D_avg, microseconds.
    average: Ewma,
    reader: Reader,
    /// What came last, microseconds.
    latest: u32,
    /// Of all that came, microseconds, and how many they were.
    sum: u64,
    samples: u64,
}

impl DelayEcho {
    fn add(&mut self, us: u32) {
        self.average.add(f64::from(us));
        self.latest = us;
        self.sum += u64::from(us);
        self.samples += 1;
    }

    /// What is fed back, microseconds: the slower one of the network and the reader.
    //= spec#9
    // "every ACK carries fb_delay = max(D_avg, app_delay)"
    fn delay(&self, board: &Board) -> u32 {
        let path = self.average.value().unwrap_or(0.0);
        path.max(self.reader.us(board)).round() as u32
    }
}

impl Component for DelayEcho {
    //= spec#9
    // "`D_avg` EWMA beta=0.75 [WC ATP_BETA] initialised by the SYN's max_delay"
    fn on_segment(&mut self, seg: &Segment<'_>, _cx: &mut Cx<'_>) -> Admit {
        let flags = seg.head.flags;
        if flags.has(Flags::SYN) {
            self.average.clear();
        }
        let takes = flags.has(Flags::SYN) || flags.has(Flags::FIN) || !seg.payload.is_empty();
        let delay = seg.frame.notes.get(self.notes[0]).unwrap_or(0);
        if takes && delay > 0 {
            self.add(delay);
        }
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Arrived(_) => self.reader.arrived(&cx.board, cx.now),
            Signal::Read => self.reader.read(&cx.board, cx.now),
            _ => {}
        }
    }

    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let delay = self.delay(&cx.board);
        if delay > 0 {
            out.aside.notes.set(self.notes[1], delay);
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("delay_us", self.average.value().unwrap_or(0.0));
        probe("max_us", f64::from(self.latest));
        probe("mean_us", self.sum as f64 / self.samples.max(1) as f64);
        probe("samples", self.samples as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::signal::Arrived;
    use wifu_engine::{Arrival, Bench, Kind};
    use wifu_wire::{FrameFacts, Head, Notes, Seq, Span, Time};

    const MSS: u32 = 1_436;

    fn receiver() -> Bench {
        let mut t = Bench::new(&DELAY_ECHO, &[]).unwrap();
        t.board.conn.mss = MSS;
        t.board.site.rcv_buf = 100_000;
        t.now = Time(1_000_000_000);
        t
    }

    /// A segment arrives whose path had this delay.
    fn comes(t: &mut Bench, delay: u32, flags: Flags, payload: &[u8]) {
        let (mut frame, mut notes) = (FrameFacts::default(), Notes::default());
        notes.set(Note(0), delay);
        frame.notes = notes;
        let mut head = Head::default();
        head.flags = flags;
        let _ = t.segment_by(&head, payload, &frame);
    }

    /// What leaves feeds back.
    fn fed(t: &mut Bench) -> Option<u32> {
        t.stamp(Kind::Ack, &mut Head::default()).get(Note(1))
    }

    #[test]
    fn the_syn_begins_the_average_and_what_takes_sequence_space_moves_it() {
        let mut t = receiver();
        assert_eq!(fed(&mut t), None, "nothing came");
        comes(&mut t, 700, Flags::SYN, &[]);
        assert_eq!(fed(&mut t), Some(700));
        for (delay, expected) in [(900, 750), (1_500, 938), (700, 878)] {
            comes(&mut t, delay, Flags(0), &[0; 9]);
            assert_eq!(fed(&mut t), Some(expected), "{delay}");
        }
        assert_eq!(t.probe("delay_us"), Some(878.125));
        // An acknowledgement, and a packet whose path said nothing.
        comes(&mut t, 9_000, Flags(0), &[]);
        comes(&mut t, 0, Flags(0), &[0; 9]);
        assert_eq!(fed(&mut t), Some(878));
        let told = ["max_us", "mean_us", "samples"].map(|p| t.probe(p).unwrap());
        assert_eq!(told, [700.0, 950.0, 4.0]);
        comes(&mut t, 700, Flags::FIN, &[]);
        assert_eq!(t.probe("samples"), Some(5.0));
        // A SYN that comes again begins anew.
        comes(&mut t, 500, Flags::SYN, &[]);
        assert_eq!(fed(&mut t), Some(500));
    }

    #[test]
    fn a_reader_that_is_slower_than_the_network_is_a_delay_of_the_path() {
        let mut t = receiver();
        comes(&mut t, 1_000, Flags(0), &[0; 9]);
        (t.board.rx.nxt, t.board.app.unread) = (Seq(60_000), 60_000);
        t.signal(Signal::Arrived(Arrived {
            seq: Seq(0),
            bytes: MSS,
            gap: 0,
            order: Arrival::InOrder,
            fin: false,
            ce: false,
        }));
        // Two segments in 10 ms.
        t.now += Span::MILLI * 10;
        t.board.app.unread -= 2 * MSS;
        t.signal(Signal::Read);
        assert_eq!(fed(&mut t), Some(5_000));
        // More than half of the buffer is free.
        t.board.app.unread = 40_000;
        t.signal(Signal::Read);
        assert_eq!(fed(&mut t), Some(1_000));
    }
}

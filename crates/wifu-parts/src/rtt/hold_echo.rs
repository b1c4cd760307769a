//! `hold-echo`: round trips by feedback (Behaviour 8.3).
//!
//! Feedback echoes the clock of the packet that came last and says how long it was held: what is
//! left of the time since is the round trip. Contributes samples and their average; hears segments;
//! writes `rtt`. Its `rto` is no timeout of data, of which there is none: it is how long an answer
//! to a question may take, by which a shut window is probed.

use wifu_engine::board::RttFacts;
use wifu_engine::component::Cx;
use wifu_engine::kit::{Ewma, epoch};
use wifu_engine::{Admit, Component, Descriptor, Facts, FieldUse, Role, Segment, WordSpec};
use wifu_wire::{Class, HeadField, Span, Word};

/// See the module.
pub static HOLD_ECHO: Descriptor = Descriptor {
    name: "hold-echo",
    role: Role::Rtt,
    doc: "Times round trips by what feedback echoes, less how long the receiver held it.",
    cites: &["Behaviour 8.1, 8.3"],
    words: &[
        WordSpec::new("feedback", 1).marking(Class::Feedback).read(),
        WordSpec::new("hold", 32).read(),
    ],
    probes: &["srtt_s"],
    wants: Facts::CONN,
    writes: Facts::RTT,
    hears: &[("segment", &[])],
    hooks: &["segment"],
    fields: &[FieldUse::of(HeadField::TsEcho)],
    build: |p| {
        Ok(Box::new(HoldEcho {
            feedback: p.word("feedback"),
            hold: p.word("hold"),
            srtt: Ewma::new(WEIGHT),
        }))
    },
    ..Descriptor::EMPTY
};

/// Of the old average (Behaviour 8.3).
const WEIGHT: f64 = 0.875;

struct HoldEcho {
    feedback: Word,
    hold: Word,
    /// Nanoseconds.
    srtt: Ewma,
}

impl Component for HoldEcho {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        if seg.head.get(self.feedback) != 1 {
            return Admit::Pass;
        }
        let since = cx.now.wire_micros().wrapping_sub(seg.head.ts_echo);
        let us = since.saturating_sub(seg.head.get(self.hold)).max(1);
        // A clock that went half round is none.
        if us > i32::MAX as u32 {
            return Admit::Pass;
        }
        let last = Span::MICRO * u64::from(us);
        let srtt = Span(self.srtt.add(last.0 as f64) as u64);
        //= spec#8.3
        // "probe (SACK_REQ) every max(1.1E, 2 srtt)"
        let rto = epoch::deadline(epoch::of(&cx.board)).max(srtt * 2);
        cx.write(|r: &mut RttFacts| {
            let least = if r.samples == 0 { last } else { r.min };
            (r.last, r.srtt, r.rto) = (last, srtt, rto);
            (r.min, r.samples) = (least.min(last), r.samples + 1);
        });
        Admit::Pass
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("srtt_s", self.srtt.value().unwrap_or(0.0) / 1e9);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::Bench;
    use wifu_wire::{Head, Time};

    #[test]
    fn what_the_receiver_held_is_no_part_of_the_round_trip() {
        let mut t = Bench::new(&HOLD_ECHO, &[]).unwrap();
        t.board.conn.epoch = Span::MILLI * 40;
        let mut feedback = |at_us: u32, echo: u32, hold: u32| {
            let mut head = Head::default();
            (head.ts_echo, t.now) = (echo, Time(u64::from(at_us) * 1_000));
            for (word, value) in [(0, 1), (1, hold)] {
                head.set(Word(word), value);
            }
            let _ = t.segment(&head, &[]);
            (t.board.rtt.last, t.board.rtt.srtt, t.board.rtt.rto)
        };
        let us = |n: u64| Span::MICRO * n;
        let first = feedback(1_050_000, 1_000_000, 40_000);
        assert_eq!(first, (us(10_000), us(10_000), us(44_000)));
        let second = feedback(2_100_000, 2_000_000, 10_000);
        assert_eq!(second, (us(90_000), us(20_000), us(44_000)));
        let third = feedback(3_500_000, 3_000_000, 160_000);
        assert_eq!(third, (us(340_000), us(60_000), us(120_000)));
        assert_eq!((t.board.rtt.min, t.board.rtt.samples), (us(10_000), 3));
    }
}

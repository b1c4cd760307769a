//! Why attempts failed, on every link of a run, counted from the trace of frames.

use std::collections::BTreeMap;

use wifu_radio::trace::{FrameKind, NOBODY, Record, What, Why};

use crate::stalls::Stalls;

/// Why attempts of data frames on one directed link failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// RTS put on the air, and data frames that follow none.
    pub attempts: u64,
    /// Data frames that collided at the receiver, by the strongest interferer.
    pub collisions: BTreeMap<u16, u64>,
    /// Nobody else was on the air: lost to noise alone.
    pub noise: u64,
    /// What is no 802.11 was on.
    pub interference: u64,
    /// Too weak for the receiver to notice, by itself.
    pub weak: u64,
    /// An event of the scenario had cut the link, whichever frame of the attempt met that.
    pub cut: u64,
    /// Too weak for the receiver to notice beside others, by the strongest of these.
    pub drowned: BTreeMap<u16, u64>,
    /// The receiver was listening to this other node.
    pub locked: BTreeMap<u16, u64>,
    /// Of `collisions`, `drowned` and `locked`, those by stations that the sender did not sense
    /// when it happened.
    pub hidden: BTreeMap<u16, u64>,
    /// Of `collisions`, `drowned`, `locked` and `transmitting`, those by stations that the sender
    /// senses on the mean, and that yet did not begin in the same slot.
    pub unheard: u64,
    /// The receiver was transmitting.
    pub transmitting: u64,
    /// The RTS did not arrive, for whatever reason.
    pub rts_lost: u64,
    /// The RTS arrived, and no CTS was sent: the receiver's medium was reserved, or it was sending.
    pub rts_unanswered: u64,
    /// The CTS did not arrive, or no data could follow it.
    pub cts_lost: u64,
    /// The data arrived, and no ACK was sent: the receiver had another answer to send.
    pub ack_unsent: u64,
    /// The ACK did not arrive.
    pub ack_lost: u64,
    /// What the RTS, CTS and ACK were lost to that are counted above, as far as records tell.
    pub rts: Fates,
    /// See `rts`; their sender is the receiver of the data.
    pub cts: Fates,
    /// See `cts`.
    pub ack: Fates,
    /// Attempts that got no answer, for whatever reason.
    pub failed: u64,
    /// The sender's queue was full.
    pub refused: u64,
    stage: Stage,
    /// What its last control frame was lost to.
    fate: Option<Record>,
}

/// What control frames were lost to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fates {
    /// Stations that were on the air, by the strongest.
    pub stations: BTreeMap<u16, u64>,
    /// Of `stations`, those that the frame's sender did not sense when it happened.
    pub hidden: BTreeMap<u16, u64>,
    /// The receiver was transmitting.
    pub transmitting: u64,
    /// Nobody else was on the air.
    pub noise: u64,
    /// What is no 802.11 was on.
    pub interference: u64,
}

impl Fates {
    fn add(&mut self, fate: Option<Record>) {
        let Some(fate) = fate else { return };
        match (fate.why, fate.other) {
            // What met a cut is no frame's.
            (Why::None | Why::Cut, _) => {}
            (Why::Transmitting, _) => self.transmitting += 1,
            (Why::Interference, _) => self.interference += 1,
            (Why::Noise, _) | (_, NOBODY) => self.noise += 1,
            (_, other) => {
                *self.stations.entry(other).or_default() += 1;
                if fate.unsensed() {
                    *self.hidden.entry(other).or_default() += 1;
                }
            }
        }
    }

    /// How many are known.
    pub fn known(&self) -> u64 {
        let stations: u64 = self.stations.values().sum();
        stations + self.transmitting + self.noise + self.interference
    }

    /// How many of `lost` frames of this kind were lost to what, in words.
    fn words(&self, lost: u64, what: &str, name: &dyn Fn(u16) -> String) -> Vec<(u64, String)> {
        let stations = self.stations.iter();
        let mut all: Vec<(u64, String)> = stations
            .map(|(other, n)| (*n, format!("{what} lost to {}", name(*other))))
            .collect();
        all.extend([
            (self.transmitting, format!("{what} lost, receiver sending")),
            (self.noise, format!("{what} lost to noise")),
            (self.interference, format!("{what} lost to interference")),
            (lost.saturating_sub(self.known()), format!("{what} lost")),
        ]);
        all
    }
}

/// What an attempt failed by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A station was on the air that the sender does not sense.
    Hidden,
    /// A station that it senses, or the receiver, began in the same slot.
    Together,
    /// See [`Link::unheard`].
    Unheard,
    /// Noise alone.
    Noise,
    /// What is no 802.11.
    Interference,
    /// An event of the scenario had cut the link.
    Cut,
    /// The RTS was lost.
    RtsLost,
    /// See [`Link::rts_unanswered`].
    RtsUnanswered,
    /// The CTS was lost.
    CtsLost,
    /// The data came, and the receiver could not send its ACK.
    AckUnsent,
    /// The ACK was lost.
    AckLost,
}

impl Cause {
    /// How many there are.
    pub const COUNT: usize = 11;

    /// Of data that was lost.
    fn of(r: &Record) -> Option<Cause> {
        match r.why {
            Why::None => None,
            Why::Noise => Some(Cause::Noise),
            Why::Weak if r.other == NOBODY => Some(Cause::Noise),
            Why::Interference => Some(Cause::Interference),
            Why::Cut => Some(Cause::Cut),
            Why::Collision | Why::Captured | Why::Weak | Why::Locked | Why::Transmitting => {
                Some(match (r.unsensed(), r.unheard()) {
                    (true, _) => Cause::Hidden,
                    (false, true) => Cause::Unheard,
                    (false, false) => Cause::Together,
                })
            }
        }
    }
}

/// How far the present attempt came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    RtsSent,
    RtsHeard,
    /// The CTS was sent; whether or not it arrived, no data followed yet.
    CtsSent,
    DataSent,
    DataHeard,
    AckSent,
}

/// Why attempts failed, on every link of a run.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    /// By transmitter and receiver.
    pub links: BTreeMap<(u16, u16), Link>,
    /// Broadcasts put on the air, by transmitter.
    pub broadcasts: BTreeMap<u16, u64>,
    /// Records of the trace that were counted.
    pub records: u64,
    /// First and last time, ns.
    pub span: Option<(u64, u64)>,
    /// What attempts failed by while senders waited for timeouts, of whom that is told.
    pub stalls: Stalls,
}

impl Causes {
    /// Count a record; they come in order of time.
    pub fn add(&mut self, r: &Record) {
        self.records += 1;
        let first = self.span.map_or(r.time.0, |s| s.0);
        self.span = Some((first, r.time.0));
        match (r.what, r.kind) {
            (What::Sent, FrameKind::Data) if r.peer == NOBODY => {
                *self.broadcasts.entry(r.node).or_default() += 1;
            }
            (What::Sent, FrameKind::Data) => {
                let link = self.link(r.node, r.peer);
                // What follows a CTS is of the attempt that the RTS began.
                link.attempts += u64::from(link.stage != Stage::CtsSent);
                link.reach(Stage::DataSent);
            }
            (What::Refused, _) => self.link(r.node, r.peer).refused += 1,
            (What::Sent, FrameKind::Rts) => {
                let link = self.link(r.node, r.peer);
                link.attempts += 1;
                link.reach(Stage::RtsSent);
            }
            (What::Failed, _) => {
                let cause = self.link(r.node, r.peer).fail();
                self.stalls.failed(r.time, (r.node, r.peer), cause);
            }
            (What::Lost, FrameKind::Data) => {
                self.lost(r);
                self.stalls.failed(r.time, (r.peer, r.node), Cause::of(r));
            }
            (What::Lost, FrameKind::Rts) => self.link(r.peer, r.node).fate = Some(*r),
            (What::Lost, FrameKind::Cts | FrameKind::Ack) => {
                self.link(r.node, r.peer).fate = Some(*r);
            }
            // What the receiver does about an attempt.
            (What::Received, FrameKind::Rts) => self.reach(r, Stage::RtsHeard),
            (What::Received, FrameKind::Data) => self.reach(r, Stage::DataHeard),
            (What::Sent, FrameKind::Cts) => self.reach(r, Stage::CtsSent),
            (What::Sent, FrameKind::Ack) => self.reach(r, Stage::AckSent),
            _ => {}
        }
    }

    /// The attempt of `peer` to send to `node` came so far; a broadcast is none.
    fn reach(&mut self, r: &Record, stage: Stage) {
        if let Some(link) = self.links.get_mut(&(r.peer, r.node)) {
            link.reach(stage);
        }
    }

    fn link(&mut self, from: u16, to: u16) -> &mut Link {
        self.links.entry((from, to)).or_default()
    }

    fn lost(&mut self, r: &Record) {
        let other = r.other;
        let link = self.link(r.peer, r.node);
        if r.unsensed() {
            *link.hidden.entry(other).or_default() += 1;
        }
        link.unheard += u64::from(r.unheard());
        match r.why {
            Why::Collision | Why::Captured => *link.collisions.entry(other).or_default() += 1,
            Why::Noise => link.noise += 1,
            Why::Interference => link.interference += 1,
            Why::Weak if other == NOBODY => link.weak += 1,
            Why::Weak => *link.drowned.entry(other).or_default() += 1,
            Why::Locked => *link.locked.entry(other).or_default() += 1,
            Why::Transmitting => link.transmitting += 1,
            Why::Cut => link.cut += 1,
            Why::None => {}
        }
    }
}

impl Link {
    /// The present attempt came so far.
    fn reach(&mut self, stage: Stage) {
        (self.stage, self.fate) = (stage, None);
    }

    /// An attempt failed: by what, but for data, whose cause was told when it was lost.
    fn fail(&mut self) -> Option<Cause> {
        self.failed += 1;
        let fate = self.fate.take();
        let stage = std::mem::take(&mut self.stage);
        if fate.is_some_and(|fate| fate.why == Why::Cut) {
            self.cut += 1;
            return Some(Cause::Cut);
        }
        match stage {
            Stage::RtsSent => {
                self.rts_lost += 1;
                self.rts.add(fate);
                Some(Cause::RtsLost)
            }
            Stage::RtsHeard => {
                self.rts_unanswered += 1;
                Some(Cause::RtsUnanswered)
            }
            Stage::CtsSent => {
                self.cts_lost += 1;
                self.cts.add(fate);
                Some(Cause::CtsLost)
            }
            Stage::DataHeard => {
                self.ack_unsent += 1;
                Some(Cause::AckUnsent)
            }
            Stage::AckSent => {
                self.ack_lost += 1;
                self.ack.add(fate);
                Some(Cause::AckLost)
            }
            Stage::Idle | Stage::DataSent => None,
        }
    }

    /// Attempts that failed, in words, the most frequent causes first. `name` names a node.
    pub fn words(&self, most: usize, name: &dyn Fn(u16) -> String) -> String {
        let with = |what: &str, other: u16| match other {
            NOBODY => what.trim_end_matches(" with").to_string(),
            other => format!("{what} {}", name(other)),
        };
        let collisions = self.collisions.iter();
        let mut causes: Vec<(u64, String)> = collisions
            .map(|(other, n)| (*n, with("collision with", *other)))
            .collect();
        let locked = self.locked.iter();
        causes.extend(locked.map(|(other, n)| (*n, with("receiver busy with", *other))));
        let drowned = self.drowned.iter();
        causes.extend(drowned.map(|(other, n)| (*n, with("drowned by", *other))));
        causes.extend([
            (self.noise, String::from("noise")),
            (self.interference, String::from("interference")),
            (self.weak, String::from("too weak to notice")),
            (self.cut, String::from("link cut")),
            (self.transmitting, String::from("receiver sending too")),
            (self.rts_unanswered, String::from("RTS not answered")),
            (self.ack_unsent, String::from("ACK not sent")),
        ]);
        causes.extend(self.rts.words(self.rts_lost, "RTS", name));
        causes.extend(self.cts.words(self.cts_lost, "CTS", name));
        causes.extend(self.ack.words(self.ack_lost, "ACK", name));
        causes.retain(|(n, _)| *n > 0);
        causes.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let others: u64 = causes.iter().skip(most).map(|(n, _)| n).sum();
        causes.truncate(most);
        if others > 0 {
            let what = if others == 1 { "other" } else { "others" };
            causes.push((others, String::from(what)));
        }
        let words: Vec<String> = causes.iter().map(|(n, w)| format!("{n} {w}")).collect();
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_wire::Time;

    fn record(what: What, kind: FrameKind, node: u16, peer: u16) -> Record {
        Record {
            time: Time(1_500_000_000),
            frame: 3,
            node,
            peer,
            what,
            mode: 8,
            tries: 2,
            why: Why::None,
            bytes: 1536,
            signal: -7_750,
            other: NOBODY,
            kind,
            flags: 1,
            value: 7,
        }
    }

    fn count(all: &[Record]) -> Causes {
        let mut causes = Causes::default();
        for r in all {
            causes.add(r);
        }
        causes
    }

    #[test]
    fn causes_are_counted_on_the_link_of_the_data() {
        let mut all = Vec::new();
        let lost = [
            (Why::Collision, 3),
            (Why::Collision, 3),
            (Why::Noise, NOBODY),
            (Why::Weak, NOBODY),
            (Why::Weak, 2),
            (Why::Weak, 2),
            (Why::Weak, 2),
        ];
        for (why, other) in lost {
            all.push(record(What::Sent, FrameKind::Data, 0, 1));
            all.push(Record {
                why,
                other,
                ..record(What::Lost, FrameKind::Data, 1, 0)
            });
            all.push(record(What::Failed, FrameKind::Data, 0, 1));
        }
        all.extend([
            record(What::Sent, FrameKind::Data, 0, 1),
            record(What::Received, FrameKind::Data, 1, 0),
            record(What::Sent, FrameKind::Ack, 1, 0),
            record(What::Failed, FrameKind::Data, 0, 1),
            record(What::Sent, FrameKind::Data, 2, NOBODY),
            record(What::Received, FrameKind::Data, 1, 2),
        ]);
        let causes = count(&all);
        let link = &causes.links[&(0, 1)];
        assert_eq!((link.attempts, link.failed), (8, 8));
        let words = |most| link.words(most, &|n| format!("n{}", n + 1));
        let all = "3 drowned by n3, 2 collision with n4, 1 ACK lost, 1 noise, 1 too weak to notice";
        assert_eq!(words(9), all);
        assert_eq!(words(1), "3 drowned by n3, 5 others");
        assert_eq!(causes.links.len(), 1);
        assert_eq!(causes.broadcasts[&2], 1);
    }

    #[test]
    fn lost_rts_cts_and_ack_are_causes_of_their_own() {
        use FrameKind::{Ack, Cts, Data, Rts};
        let rts = [record(What::Sent, Rts, 0, 1)];
        let heard = [rts[0], record(What::Received, Rts, 1, 0)];
        let cts = [heard[0], heard[1], record(What::Sent, Cts, 1, 0)];
        let cleared = [cts[0], cts[1], cts[2], record(What::Received, Cts, 0, 1)];
        let data = [
            &cleared[..],
            &[
                record(What::Sent, Data, 0, 1),
                record(What::Received, Data, 1, 0),
            ],
        ]
        .concat();
        let acked = [&data[..], &[record(What::Sent, Ack, 1, 0)]].concat();
        let failed = record(What::Failed, Data, 0, 1);
        let mut all = Vec::new();
        // A different number of each, and one that comes to its end.
        let kinds: [(&[Record], usize); 6] = [
            (&rts, 7),
            (&heard, 6),
            (&cts, 2),
            (&cleared, 1),
            (&data, 4),
            (&acked, 5),
        ];
        for (attempt, times) in kinds {
            for _ in 0..times {
                all.extend_from_slice(attempt);
                all.push(failed);
            }
        }
        all.extend_from_slice(&acked);
        all.push(record(What::Acknowledged, Data, 0, 1));
        let link = &count(&all).links[&(0, 1)];
        assert_eq!(
            link.words(9, &|n| n.to_string()),
            "7 RTS lost, 6 RTS not answered, 5 ACK lost, 4 ACK not sent, 3 CTS lost"
        );
        assert_eq!((link.attempts, link.failed), (26, 25));
    }

    #[test]
    fn frames_with_rts_and_without_are_attempts_of_one_link() {
        use FrameKind::{Cts, Data, Rts};
        let (sent, failed) = (
            record(What::Sent, Data, 0, 1),
            record(What::Failed, Data, 0, 1),
        );
        let reserved = [
            record(What::Sent, Rts, 0, 1),
            record(What::Received, Rts, 1, 0),
            record(What::Sent, Cts, 1, 0),
            sent,
            failed,
        ];
        let all = [
            &reserved[..],
            &[sent, failed],
            &[reserved[0], failed],
            &[sent, failed],
        ]
        .concat();
        let link = &count(&all).links[&(0, 1)];
        assert_eq!((link.attempts, link.failed), (4, 4));
    }

    #[test]
    fn lost_control_frames_say_to_whom() {
        use FrameKind::{Ack, Cts, Data, Rts};
        let lost = |kind, why, other| {
            let (node, peer) = if kind == Rts { (1, 0) } else { (0, 1) };
            let record = record(What::Lost, kind, node, peer);
            Record {
                why,
                other,
                ..record
            }
        };
        let rts = [record(What::Sent, Rts, 0, 1)];
        let cts = [
            rts[0],
            record(What::Received, Rts, 1, 0),
            record(What::Sent, Cts, 1, 0),
        ];
        let ack = [
            record(What::Sent, Data, 0, 1),
            record(What::Received, Data, 1, 0),
            record(What::Sent, Ack, 1, 0),
        ];
        let attempts: [(&[Record], Record, usize); 9] = [
            (&rts, lost(Rts, Why::Collision, 3), 1),
            (&rts, lost(Rts, Why::Locked, 3), 1),
            (&rts, lost(Rts, Why::Captured, 3), 1),
            (&rts, lost(Rts, Why::Weak, 2), 1),
            (&rts, lost(Rts, Why::Weak, NOBODY), 1),
            (&rts, lost(Rts, Why::Noise, NOBODY), 1),
            (&rts, lost(Rts, Why::Transmitting, 1), 4),
            (&cts, lost(Cts, Why::Interference, NOBODY), 5),
            (&ack, lost(Ack, Why::Collision, 4), 6),
        ];
        let mut all = Vec::new();
        for (attempt, lost, times) in attempts {
            for _ in 0..times {
                all.extend_from_slice(attempt);
                all.push(lost);
                all.push(record(What::Failed, Data, 0, 1));
            }
        }
        // The one before says nothing of an ACK that was lost without a record.
        all.extend_from_slice(&ack);
        all.push(record(What::Failed, Data, 0, 1));
        let causes = count(&all);
        let link = &causes.links[&(0, 1)];
        assert_eq!(
            link.words(9, &|n| n.to_string()),
            "6 ACK lost to 4, 5 CTS lost to interference, 4 RTS lost, receiver sending, \
             3 RTS lost to 3, 2 RTS lost to noise, 1 ACK lost, 1 RTS lost to 2"
        );
        assert_eq!((link.rts_lost, link.cts_lost, link.ack_lost), (10, 5, 7));
        assert_eq!((link.rts.known(), link.ack.known()), (10, 6));
        assert!(link.collisions.is_empty(), "data alone");
        assert_eq!(causes.links.len(), 1);
    }
}

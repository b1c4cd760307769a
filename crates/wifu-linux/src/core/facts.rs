//! What a driver says of its delay, read from two files (Behaviour 7.3): `Da`, the average, and
//! `sample`, the last, each a decimal number of microseconds, and of an emulated radio `busy`, for
//! how many millionths of the last tenth of a second the medium was busy; and what a monitor
//! interface shows of our own frames.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use wifu_core::{LinkFacts, Site};
use wifu_wire::{Rate, Span, Time};

/// Files are read again after this time.
const FRESH: Span = Span(5_000_000);
/// Between two looks at whether who writes them still lives.
const WHOSE: Span = Span(1_000_000_000);

/// What is known of the link by its driver.
pub(crate) struct Driver {
    node: u16,
    dir: Option<PathBuf>,
    facts: Cell<LinkFacts>,
    read_at: Cell<Time>,
    written: Cell<Option<SystemTime>>,
    /// When it was asked whose the files are, and whether he was killed: what he left says nothing
    /// of the present.
    asked_at: Cell<Time>,
    orphaned: Cell<bool>,
}

impl Driver {
    /// `first` is assumed before it has told anything.
    pub(crate) fn new(node: u16, dir: Option<PathBuf>, first: Option<Span>) -> Driver {
        Driver {
            node,
            dir,
            facts: Cell::new(LinkFacts {
                first,
                ..LinkFacts::default()
            }),
            read_at: Cell::new(Time(0)),
            written: Cell::new(None),
            asked_at: Cell::new(Time(0)),
            orphaned: Cell::new(false),
        }
    }

    /// The directory of its files, if they are read.
    pub(crate) fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// Packets that were let go and not reported yet.
    pub(crate) fn set_queued(&self, queued: u32) {
        self.facts.set(LinkFacts {
            queued: Some(queued),
            ..self.facts.get()
        });
    }

    /// The driver reported a frame: the time since its packet was let go, if that is known, and its
    /// rate if it was for one station. The driver's own files know the delay better.
    pub(crate) fn reported(&self, now: Time, sample: Option<Span>, rate: Option<Rate>) {
        let mut facts = self.facts.get();
        facts.last_done = Some(now);
        facts.rate = rate.or(facts.rate);
        if let (Some(sample), None) = (sample, &self.dir) {
            let before = facts.delay.unwrap_or(sample);
            facts.delay = Some(Span((3 * before.0 + sample.0) / 4));
            facts.sample = Some(sample);
        }
        self.facts.set(facts);
    }

    /// Whether who writes the files was killed.
    fn is_orphaned(&self, dir: &Path, now: Time) -> bool {
        if self.asked_at.get() == Time(0) || now - self.asked_at.get() >= WHOSE {
            self.asked_at.set(now);
            let owner = crate::delay::owner(dir);
            self.orphaned.set(owner.is_some_and(|o| !o.is_alive()));
        }
        self.orphaned.get()
    }

    /// Read the files again if what is known is old. What is not there, or was left by a killed
    /// process, is not known.
    pub(crate) fn refresh(&self, now: Time) {
        let Some(dir) = &self.dir else { return };
        if self.read_at.get() != Time(0) && now - self.read_at.get() < FRESH {
            return;
        }
        self.read_at.set(now);
        let mut facts = self.facts.get();
        let lives = !self.is_orphaned(dir, now);
        let said = |name: &str| number(&dir.join(name)).filter(|_| lives);
        let us = |name| said(name).map(|us| Span(us.saturating_mul(1000)));
        let (delay, sample) = (us("Da"), us("sample"));
        facts.busy = said("busy").map(|millionths| (millionths as f64 / 1e6).min(1.0) as f32);
        // A driver's file in /proc, of length 0, has no time of its own: there a new value tells.
        let written = std::fs::metadata(dir.join("sample"))
            .ok()
            .filter(|m| m.len() > 0)
            .and_then(|m| m.modified().ok());
        // A driver that has not sampled yet may say 0: that is nothing new.
        let before = facts.sample.unwrap_or(Span::ZERO);
        let new = sample.is_some_and(|sample| sample != before)
            || delay.is_some() && delay != facts.delay
            || written.is_some() && written != self.written.get();
        if new && lives {
            facts.last_done = Some(now);
        }
        self.written.set(written);
        (facts.delay, facts.sample) = (delay, sample);
        self.facts.set(facts);
    }
}

/// The number on a file's first line: of a longer one that was there before, the end may still
/// follow.
fn number(path: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next()?.trim().parse().ok()
}

impl Site for Driver {
    fn node(&self) -> u16 {
        self.node
    }

    fn link(&self) -> LinkFacts {
        self.facts.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::Owner;
    use wifu_engine::Fact;
    use wifu_node::Teller;

    /// That these are the facts of the link which the table says that somebody tells.
    fn as_declared(link: &LinkFacts, teller: Teller) {
        let known = [
            (Fact::LinkDelay, link.delay.is_some()),
            (Fact::LinkQueued, link.queued.is_some()),
            (Fact::LinkRoom, link.room.is_some()),
            (Fact::LinkDone, link.last_done.is_some()),
            (Fact::LinkBusy, link.busy.is_some()),
            (Fact::LinkRate, link.rate.is_some()),
        ];
        for (fact, there) in known {
            assert_eq!(teller.tells().contains(&fact), there, "{teller:?}: {fact}");
        }
    }

    #[test]
    fn the_drivers_delay_is_read_again_in_time_and_an_idle_driver_is_seen() {
        let dir = std::env::temp_dir().join(format!("wifu-facts-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let here = Driver::new(3, Some(dir.clone()), Some(Span(681_500)));
        let ms = |n: u64| Time(n * 1_000_000);
        here.refresh(ms(1));
        assert_eq!(here.link().reported(ms(1)).0, Span(681_500));
        std::fs::write(dir.join("Da"), "1234\n").unwrap();
        std::fs::write(dir.join("sample"), "900\n").unwrap();
        here.refresh(ms(2));
        assert_eq!(here.link().delay, None, "read a moment ago");
        here.refresh(ms(10));
        let facts = here.link();
        assert_eq!(
            (facts.delay, facts.sample),
            (Some(Span(1_234_000)), Some(Span(900_000)))
        );
        assert_eq!(facts.reported(ms(50)), (Span(1_234_000), false));
        as_declared(&facts, Teller::DriverFiles);
        here.refresh(ms(60));
        assert_eq!(here.link().reported(ms(200)), (Span(1_234_000), true));
        // An emulated radio says how busy the medium is: then nobody is idle (Behaviour 7.4).
        std::fs::write(dir.join("busy"), "50000\n").unwrap();
        here.refresh(ms(210));
        assert_eq!(here.link().busy, Some(0.05));
        assert_eq!(here.link().reported(ms(211)), (Span(1_234_000), false));
        // Somebody writes a shorter number just now.
        std::fs::write(dir.join("Da"), "99\n4\n").unwrap();
        here.refresh(ms(220));
        assert_eq!(here.link().delay, Some(Span(99_000)));
        std::fs::remove_file(dir.join("Da")).unwrap();
        std::fs::remove_file(dir.join("sample")).unwrap();
        here.refresh(ms(230));
        let facts = here.link();
        assert_eq!((facts.delay, facts.sample), (None, None));
        assert_eq!(facts.last_done, Some(ms(220)), "the last report was then");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_no_delay() {
        let dir = std::env::temp_dir().join(format!("wifu-orphan-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let here = Driver::new(3, Some(dir.clone()), Some(Span(681_500)));
        let s = |n: u64| Time(n * 1_000_000_000);
        for name in ["Da", "sample", "busy"] {
            std::fs::write(dir.join(name), "1234\n").unwrap();
        }
        let mut owner = Owner::this();
        std::fs::write(dir.join("owner"), owner.tag()).unwrap();
        here.refresh(s(1));
        assert_eq!(here.link().delay, Some(Span(1_234_000)));
        owner.start += 1;
        std::fs::write(dir.join("owner"), owner.tag()).unwrap();
        here.refresh(s(2));
        let facts = here.link();
        assert_eq!((facts.delay, facts.sample, facts.busy), (None, None, None));
        assert_eq!(facts.last_done, Some(s(1)));
        assert_eq!(facts.first, Some(Span(681_500)), "what is assumed stays");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn reports_of_the_radio_count_unless_the_driver_tells_its_delay() {
        let ms = |n: u64| Time(n * 1_000_000);
        let rate = Rate(6_000_000);
        let here = Driver::new(3, None, Some(Span(681_500)));
        as_declared(&here.link(), Teller::Core);
        here.set_queued(2);
        here.reported(ms(5), Some(Span(4_000)), Some(rate));
        here.reported(ms(6), Some(Span(8_000)), None);
        here.reported(ms(7), None, None);
        let wanted = LinkFacts {
            delay: Some(Span(5_000)), // 3/4 of 4 and 1/4 of 8
            sample: Some(Span(8_000)),
            first: Some(Span(681_500)),
            queued: Some(2),
            last_done: Some(ms(7)),
            rate: Some(rate),
            ..LinkFacts::default()
        };
        assert_eq!(here.link(), wanted);
        as_declared(&here.link(), Teller::Monitor);
        let told = Driver::new(3, Some(PathBuf::from("/nonexistent")), Some(Span(681_500)));
        told.reported(ms(5), Some(Span(4_000)), Some(rate));
        let facts = told.link();
        assert_eq!((facts.delay, facts.sample), (None, None));
        assert_eq!((facts.last_done, facts.rate), (Some(ms(5)), Some(rate)));
    }
}

//! What an interception counts, and what it learns from others' counters.

use super::lead::Lead;
use super::report::{Queues, Report};
use super::unseen::{Count, Counts, unseen};
use super::watch::State;
use super::{Interception, PATIENCE};
use crate::poller::Poller;
use wifu_core::Hook;
use wifu_wire::Span;

/// Reports that nobody asked for ask the rules no more often: it costs a process each time.
const BETWEEN_COUNTS: Span = Span(1_000_000_000);

impl Interception {
    /// What the rules counted, if anything can have passed that was not seen; `asked` for, or not
    /// too often.
    pub(super) fn counted(&mut self, lead: &mut Lead, asked: bool) -> Option<Counts> {
        let now = Poller::now();
        if !self.compares() || !(asked || now >= self.next_count) {
            return None;
        }
        self.next_count = now + BETWEEN_COUNTS;
        lead.counts()
    }

    /// Whether packets can pass that the handlers should see: those that failed see nothing, and
    /// what is closed lets nothing pass.
    fn compares(&self) -> bool {
        !self.closed()
            && self.gate.lets_pass_when_full()
            && matches!(self.shared.state(), State::Working | State::Ended)
    }

    /// The account now, with the handlers' newest snapshot if they are at work.
    pub(super) fn report(&mut self, lead: &mut Lead, asked: bool) -> Report {
        // In this order: what is counted waits after that, and what waits is seen by then, or
        // waits still.
        let counted = self.counted(lead, asked);
        let kernel = self.gate.queues();
        self.compare(counted.as_ref(), &kernel);
        self.account(kernel)
    }

    /// Have a snapshot newer than these, and learn from it what passed without handlers, unless
    /// they are too slow to give one.
    pub(super) fn compare(&mut self, counted: Option<&Counts>, kernel: &Queues) {
        if self.shared.state() != State::Working {
            return;
        }
        self.shared.want_snapshot();
        self.wake_worker();
        self.wait_for(PATIENCE, |s| !s.wanted());
        if !self.shared.wanted() {
            self.note_unseen(counted, kernel, None);
        }
    }

    pub(super) fn account(&self, kernel: Queues) -> Report {
        let mut handlers = self.shared.snapshot();
        for (name, count) in &self.passed {
            let hook = handlers.hooks.entry(name).or_default();
            hook.passed_unseen = count.packets;
            hook.passed_unseen_octets = count.octets;
        }
        Report {
            seconds: (Poller::now() - self.begun).as_secs_f64(),
            state: match self.shared.state() {
                State::Working | State::Ended => "working",
                State::Panicked => "panicked",
                State::Stalled => "stalled",
                State::Broken => "broken",
            },
            handlers,
            kernel,
            tun: self.gate.tun(),
            failed_open: self.failed[0],
            failed_closed: self.failed[1],
        }
    }

    /// Learn what passed without handlers, and say so the first time. The handlers' snapshot is
    /// newer than what was `counted`, and than what the kernel said `then`: what came in between
    /// makes it less, never more, and so the most that was found is kept. At the `end`, all that
    /// waited at its beginning is seen, or waits still; if nothing came since then, that is exact.
    pub(super) fn note_unseen(
        &mut self,
        counted: Option<&Counts>,
        then: &Queues,
        end: Option<(&Queues, &Queues)>,
    ) {
        if !self.compares() {
            return;
        }
        let snapshot = self.shared.snapshot();
        for name in self.hooks.iter().map(Hook::name) {
            let of = |queues: &Queues| queues.get(name).copied().unwrap_or_default();
            let seen = snapshot.hooks.get(name).copied().unwrap_or_default();
            let then = of(then);
            let waiting = match end {
                None => then.waiting,
                // Whoever came last waits.
                Some((_, now)) => {
                    let since = of(now).packets.saturating_sub(then.packets);
                    of(now).waiting.saturating_sub(since)
                }
            };
            // Those held are seen, and some of the others may be by now.
            let waiting = waiting.saturating_sub(seen.shape.held_now);
            let waiting = waiting.min(then.packets.saturating_sub(seen.packets));
            let count = counted.and_then(|c| c.get(name));
            let found = match count {
                Some(count) => unseen(*count, &seen, waiting),
                // Then only those that the socket's buffer had no room for are known. The kernel
                // numbers a packet before it counts it as waiting: one may be in between.
                None => Count {
                    packets: then.packets.saturating_sub(seen.packets + waiting + 1),
                    octets: 0,
                },
            };
            let known = self.passed.entry(name).or_default();
            if known.packets == 0 && found.packets > 0 {
                tracing::warn!(
                    "{} packets passed the hook {name} without the handlers: its queue or the \
                     socket's buffer was full (reports count them as passed_unseen)",
                    found.packets
                );
            }
            let quiet = end.is_some_and(|(before, now)| of(before).packets == of(now).packets);
            if quiet && count.is_some() {
                *known = found;
            } else {
                known.packets = known.packets.max(found.packets);
                known.octets = known.octets.max(found.octets);
            }
        }
        self.passed.retain(|_, count| count.packets > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::queue::tests::full_socket;
    use crate::core::report::{HookCounters, KernelQueue, Snapshot};
    use crate::core::rules::Rules;
    use crate::core::tests::interception;
    use std::collections::BTreeMap;
    use wifu_core::{Full, Hooks};

    /// An interception at one hook, with handlers that saw so many packets.
    fn seen(packets: u64) -> Interception {
        let (socket, _kernel) = full_socket();
        let mut open = interception(socket, State::Ended);
        open.hooks = Hooks::of(&[Hook::Input]);
        see(&open, packets);
        open
    }

    fn see(open: &Interception, packets: u64) {
        see_and_hold(open, packets, 0);
    }

    fn see_and_hold(open: &Interception, packets: u64, held: u64) {
        let mut hook = HookCounters::default();
        (hook.packets, hook.octets) = (packets, packets * 100);
        hook.shape.held_now = held;
        let hooks = BTreeMap::from([("input", hook)]);
        let stale = Snapshot::default();
        open.shared.give(Snapshot { hooks, ..stale }, 1);
    }

    fn counted(packets: u64) -> Counts {
        let octets = packets * 100;
        BTreeMap::from([("input", Count { packets, octets })])
    }

    fn queued(packets: u64, waiting: u64) -> Queues {
        let queue = KernelQueue {
            packets,
            waiting,
            ..Default::default()
        };
        BTreeMap::from([("input", queue)])
    }

    fn unseen_in(open: &Interception) -> u64 {
        let report = open.account(Queues::new());
        report.handlers.hooks["input"].passed_unseen
    }

    #[test]
    fn the_most_that_was_found_unseen_is_kept_until_an_end_without_traffic() {
        let mut open = seen(90);
        open.note_unseen(Some(&counted(100)), &queued(90, 0), None);
        assert_eq!(unseen_in(&open), 10);
        see(&open, 105);
        open.note_unseen(Some(&counted(110)), &queued(105, 0), None);
        assert_eq!(unseen_in(&open), 10, "some came since they were counted");
        see(&open, 193);
        let quiet = queued(193, 0);
        open.note_unseen(Some(&counted(200)), &quiet, Some((&quiet, &quiet)));
        assert_eq!(unseen_in(&open), 7);
        open.note_unseen(None, &quiet, Some((&quiet, &quiet)));
        assert_eq!(unseen_in(&open), 7, "the counters could not be read");
    }

    #[test]
    fn a_packet_that_has_its_number_and_does_not_wait_yet_is_no_loss() {
        let mut open = seen(90);
        open.note_unseen(None, &queued(100, 9), None);
        assert_eq!(unseen_in(&open), 0);
        open.note_unseen(None, &queued(100, 5), None);
        assert_eq!(unseen_in(&open), 4);
    }

    #[test]
    fn what_is_held_at_the_end_was_seen() {
        let mut open = seen(0);
        see_and_hold(&open, 960, 30);
        // The socket's buffer had no room for 40.
        let quiet = queued(1000, 30);
        open.note_unseen(Some(&counted(1000)), &quiet, Some((&quiet, &quiet)));
        assert_eq!(unseen_in(&open), 40);
    }

    #[test]
    fn what_came_after_the_last_count_takes_nothing_back() {
        // Fast handlers saw 300 that came after it.
        let mut open = seen(1000);
        let then = queued(1000, 0);
        open.note_unseen(Some(&counted(1200)), &then, None);
        see(&open, 1300);
        let end = Some((&then, &queued(1300, 0)));
        open.note_unseen(Some(&counted(1200)), &then, end);
        assert_eq!(unseen_in(&open), 200);
        // Slow ones see none of these: they wait behind 3960 that were counted.
        let mut open = seen(1040);
        let (then, now) = (queued(5000, 4000), queued(5300, 4260));
        open.note_unseen(Some(&counted(6000)), &then, Some((&then, &now)));
        assert_eq!(unseen_in(&open), 1000);
        // Handlers that were slow to give a snapshot saw what waited when it was asked for.
        let mut open = seen(1000);
        open.note_unseen(Some(&counted(1200)), &queued(1000, 300), None);
        assert_eq!(unseen_in(&open), 200);
    }

    #[test]
    fn rules_are_asked_only_when_it_tells_something_and_not_too_often() {
        let log = std::env::temp_dir().join(format!("wifu-asked-{}", std::process::id()));
        std::fs::write(&log, "").unwrap();
        let script = format!(
            "while read -r _; do echo >> {}; echo none; echo; done",
            log.display()
        );
        let mut rules = Lead::Rules(Rules::guarded(
            std::process::Command::new("sh").args(["-c", &script]),
        ));
        let times = || std::fs::read(&log).unwrap().len();
        let (socket, _kernel) = full_socket();
        let mut failed = interception(socket.clone(), State::Stalled);
        failed.report(&mut rules, true);
        assert_eq!(times(), 0, "the answer would be thrown away");
        let mut closed = interception(socket.clone(), State::Working);
        closed.settings.when_full = Full::Closed;
        closed.counted(&mut rules, true);
        assert_eq!(times(), 0, "nothing passes");
        let mut open = interception(socket, State::Working);
        for (asked, wanted) in [(false, 1), (false, 1), (true, 2), (false, 2)] {
            open.counted(&mut rules, asked);
            assert_eq!(times(), wanted, "{asked}");
        }
        std::fs::remove_file(log).unwrap();
    }
}

//! WiFu Core live: a chain of handlers behind NFQUEUE, one queue for each hook, numbered as in the
//! WiFu paper (Behaviour 3), or behind TUN devices, one for each hook that these can serve.
//!
//! Two threads: one runs the handlers, the other watches over it. If a handler panics or takes too
//! long for one packet, the watching thread takes the queues over and lets everything pass, or
//! drops it, as configured; either is counted.

mod account;
pub mod by;
pub mod config;
mod copies;
pub(crate) mod ear;
mod error;
pub(crate) mod facts;
mod fallback;
mod gate;
mod held;
pub mod lead;
mod message;
pub(crate) mod monitor;
pub(crate) mod pending;
mod queue;
mod repair;
pub mod report;
pub mod routes;
pub mod rules;
mod sender;
mod tunnel;
pub mod unseen;
mod watch;
mod worker;

use crate::poller::{Coalesce, Event, Poller, Waker};
use by::By;
use config::{Needs, Settings};
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use ear::Ear;
pub use error::CoreError;
use fallback::Fallback;
use gate::Gate;
use lead::Lead;
use monitor::Monitor;
use queue::Ticket;
use report::Report;
use sender::Sender;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use unseen::Counts;
pub(crate) use watch::panicked_in_library;
use watch::{Shared, State, Stopwatch};
use wifu_core::{Chain, Full, Hooks};
use wifu_wire::{Span, Time};
use worker::{LAST, Worker};

/// Lines of handlers that wait for being read.
const LINES: usize = 4096;
/// The handlers' turn on a processor: short, so that they go before those whose packets they hold.
const SLICE: core::time::Duration = core::time::Duration::from_micros(100);
/// A snapshot is waited for so long, and at the end what handlers still do.
const PATIENCE: Span = Span(100_000_000);
const PATIENCE_AT_END: Span = Span(500_000_000);
/// Without handlers, packets are decided about for so long before signals have their turn.
const TURN: Span = Span(10_000_000);
/// The shortest interval between reports.
const SHORTEST: Span = Span(1_000_000);
/// The kernel's ids go up one by one: this far ahead of any, nothing waits.
const AHEAD: u32 = 0x3FFF_FFFF;

/// Asks an interception for things, from other threads.
#[derive(Clone)]
pub struct Remote {
    waker: Waker,
    stop: Arc<AtomicBool>,
    reports: Arc<AtomicU8>,
}

impl Remote {
    /// End the interception, as one of [`Control::end`] does.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Ask for a [`Report`], which comes as [`Told::Report`].
    pub fn report(&self) {
        self.reports.fetch_add(1, Ordering::AcqRel);
        self.waker.wake();
    }
}

/// What an interception tells its user.
pub enum Told {
    /// A line of a handler.
    Line(String),
    /// An account: the first after a signal or an interval, the last at the end.
    Report(Box<Report>),
    /// Handlers failed: how, and what becomes of packets from now on.
    Failed(&'static str, Full),
}

/// How it is controlled.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// Signals that end it.
    pub end: Vec<i32>,
    /// Signals after which it reports.
    pub report: Vec<i32>,
    /// Time between reports, at least 1 ms; none: on request, after a signal and at the end only.
    pub interval: Option<Span>,
}

/// Handlers with their queues open.
pub struct Interception {
    poller: Poller,
    gate: Gate,
    hooks: Hooks,
    shared: Arc<Shared>,
    lines: Receiver<String>,
    settings: Settings,
    ready: Option<Worker>,
    worker: Option<Waker>,
    remote: Remote,
    begun: Time,
    failed: [u64; 2],
    /// What passed without handlers, by hook.
    passed: Counts,
    /// Before that, a report that nobody asked for asks no rules.
    next_count: Time,
}

/// See whether the interfaces that shall be listened on are there, and of the right kind: what
/// [`Interception::open`] would find that needs no privilege.
///
/// # Errors
/// If one is not.
pub fn check_devices(settings: &Settings) -> Result<(), CoreError> {
    use rustix::net::{AddressFamily, SocketType, netdevice, socket};
    let fd = socket(AddressFamily::INET, SocketType::DGRAM, None).map_err(io::Error::from)?;
    for device in &settings.overhear {
        let found = netdevice::name_to_index(&fd, device);
        found.map_err(|error| CoreError::Overhear {
            device: device.clone(),
            error: error.into(),
        })?;
    }
    if let Some(device) = &settings.monitor {
        monitor::check(&fd, device).map_err(|error| CoreError::Monitor {
            device: device.clone(),
            error,
        })?;
    }
    Ok(())
}

/// What opening does beyond rules, for people to read.
pub fn steps(hooks: Hooks, settings: &Settings, needs: Needs) -> Vec<String> {
    let length = settings.queue_length.saturating_add(needs.most_held);
    let flags = match (settings.when_full, needs.super_packets) {
        (Full::Open, true) => "fail-open, gso",
        (Full::Open, false) => "fail-open",
        (Full::Closed, true) => "gso",
        (Full::Closed, false) => "no flags",
    };
    let queue = |h: wifu_core::Hook| {
        let n = h.number();
        format!("nfqueue {n}: bind, copy 65535 bytes, at most {length} packets, {flags}")
    };
    let wired = hooks.and(Hooks::WIRED).iter();
    let gates: Vec<String> = match &settings.by {
        By::Nfqueue => wired.map(queue).collect(),
        // Those of the user's are somebody else's to make, which is told with the routes.
        By::Tun(tun) if !tun.devices.is_empty() => Vec::new(),
        By::Tun(tun) => {
            let made = |h| format!("ip tuntap add dev {} mode tun", tun.device(h));
            wired.map(made).collect()
        }
    };
    let ear = |d: &String| format!("packet socket on {d}: promiscuous, frames to others");
    let ears = settings.overhear.iter().map(ear);
    let monitor = |d: &String| format!("packet socket on {d}: 802.11 frames behind radiotap");
    let monitor = settings.monitor.iter().map(monitor);
    let sends = needs.sends && settings.by == By::Nfqueue;
    let sender = sends.then(|| "raw socket to send by".to_owned());
    gates
        .into_iter()
        .chain(ears)
        .chain(monitor)
        .chain(sender)
        .collect()
}

impl Interception {
    /// Open queues or TUN devices for `hooks`, in the calling thread's network namespace. Packets
    /// come once rules or routes send them.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN, or CAP_NET_RAW where that is needed; if another program has a queue.
    pub fn open(
        chain: Chain,
        hooks: Hooks,
        settings: &Settings,
        needs: Needs,
    ) -> Result<Interception, CoreError> {
        let hooks = hooks.and(Hooks::WIRED);
        let gate = Gate::open(hooks, settings, needs)?;
        let ears = settings.overhear.iter().map(|device| {
            Ear::open(device).map_err(|error| CoreError::Overhear {
                device: device.clone(),
                error,
            })
        });
        let ears = ears.collect::<Result<Vec<_>, _>>()?;
        let monitor = settings.monitor.as_ref().map(|device| {
            Monitor::open(device).map_err(|error| CoreError::Monitor {
                device: device.clone(),
                error,
            })
        });
        let listeners = (ears, monitor.transpose()?);
        let sender = match Sender::open(&gate) {
            Ok(sender) => Some(sender),
            Err(e) if needs.sends => return Err(CoreError::Send(e)),
            // A handler may send without having to: then that is counted.
            Err(_) => None,
        };
        let poller = Poller::new(Coalesce::OFF)?;
        let (give, lines) = sync_channel(LINES);
        let shared = Shared::new(give, poller.waker());
        let remote = Remote {
            waker: poller.waker(),
            stop: Arc::default(),
            reports: Arc::default(),
        };
        Ok(Interception {
            gate: gate.clone(),
            hooks,
            ready: Some(Worker::new(
                chain,
                (settings, hooks),
                (gate, sender),
                listeners,
                shared.clone(),
            )),
            shared,
            lines,
            settings: settings.clone(),
            worker: None,
            remote,
            poller,
            begun: Poller::now(),
            failed: [0; 2],
            passed: BTreeMap::new(),
            next_count: Time(0),
        })
    }

    /// Something that other threads can ask by.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Catch signals; before [`run`](Interception::run), in a thread from which all others start.
    ///
    /// # Errors
    /// What `signalfd` says.
    pub fn catch_signals(&mut self, control: &Control) -> io::Result<()> {
        let all = [&control.end[..], &control.report[..]].concat();
        self.poller.catch_signals(&all)
    }

    /// Run the handlers until asked to end. Then what leads packets to us goes, and what waits is
    /// judged after that, for a moment: what waits still passes without handlers, or is dropped.
    ///
    /// # Errors
    /// If the queues' socket or a TUN device fails.
    pub fn run(
        mut self,
        control: &Control,
        mut tell: impl FnMut(Told),
        lead: impl Into<Lead>,
    ) -> io::Result<Report> {
        let mut lead = lead.into();
        self.start()?;
        let mut watch = Stopwatch::new(self.settings.stall);
        let interval = control.interval.map(|i| i.max(SHORTEST));
        let mut next = interval.map_or(Time::NEVER, |i| self.begun + i);
        let mut fallback: Option<Fallback> = None;
        let mut events: Vec<Event> = Vec::new();
        loop {
            let now = Poller::now();
            let look = match &fallback {
                None => now + watch.pause(),
                Some(fallback) => fallback.outbox.wake_by(Time::NEVER),
            };
            self.poller.wait(look.min(next), 0, &mut events)?;
            let now = Poller::now();
            while let Ok(line) = self.lines.try_recv() {
                tell(Told::Line(line));
            }
            if fallback.is_none() {
                fallback = self.check(&mut watch, now, &mut tell)?;
                if fallback.is_some() {
                    self.gate.watch(&self.poller, 0)?;
                }
            }
            if let Some(fallback) = &mut fallback {
                self.decide(fallback, now + TURN)?;
            }
            let signal = self.poller.take_signal();
            let asked = self.remote.reports.swap(0, Ordering::AcqRel) > 0
                || signal.is_some_and(|s| control.report.contains(&s));
            if asked || now >= next {
                tell(Told::Report(Box::new(self.report(&mut lead, asked))));
            }
            if let (Some(interval), true) = (interval, now >= next) {
                next = following(next, interval, Poller::now());
            }
            let end = signal.is_some_and(|s| control.end.contains(&s));
            if end || self.remote.stop.load(Ordering::Acquire) {
                break;
            }
        }
        self.end(watch, fallback, lead, tell)
    }

    /// What leads packets to us goes; what waits is judged for a moment, and then no more.
    fn end(
        mut self,
        mut watch: Stopwatch,
        fallback: Option<Fallback>,
        mut lead: Lead,
        mut tell: impl FnMut(Told),
    ) -> io::Result<Report> {
        // Packets come until the rules are gone. So what passed unseen is learnt now, and once
        // more when all that waits now is seen.
        let before = self.gate.queues();
        let counted = self.counted(&mut lead, true);
        let then = self.gate.queues();
        self.compare(counted.as_ref(), &then);
        drop(lead);
        self.shared.ask_to_end();
        self.wake_worker();
        self.wait_for(PATIENCE_AT_END, |s| s.state() != State::Working);
        let now = self.gate.queues();
        if self.shared.state() == State::Ended {
            self.note_unseen(counted.as_ref(), &then, Some((&before, &now)));
        }
        let fallback = match fallback {
            Some(fallback) => Ok(fallback),
            None => match self.check(&mut watch, Poller::now(), &mut tell) {
                Ok(None) => Ok(self.leave_behind()),
                Ok(Some(fallback)) => Ok(fallback),
                Err(e) => Err(e),
            },
        };
        let decided = fallback.and_then(|mut fallback| {
            self.decide(&mut fallback, Poller::now() + PATIENCE_AT_END)?;
            fallback.outbox.hand_over_until(Poller::now() + LAST);
            Ok(())
        });
        while let Ok(line) = self.lines.try_recv() {
            tell(Told::Line(line));
        }
        let mut report = self.account(self.gate.queues());
        // What was is gone by now, too.
        (report.handlers.held_now, report.handlers.held_octets) = (0, 0);
        (report.handlers.copies_now, report.handlers.copies_octets) = (0, 0);
        tell(Told::Report(Box::new(report.clone())));
        self.gate.give_up(self.hooks);
        decided.map(|()| report)
    }

    fn closed(&self) -> bool {
        self.settings.when_full == Full::Closed
    }

    fn start(&mut self) -> io::Result<()> {
        let Some(worker) = self.ready.take() else {
            return Ok(());
        };
        let coalesce = self.settings.coalesce;
        let (give, take) = std::sync::mpsc::channel();
        let work = move || {
            if let Err(e) = crate::sys::set_slice(SLICE) {
                tracing::debug!("the scheduler grants no short slice: {e}");
            }
            // Of the thread that waits in it.
            let poller = Poller::new(coalesce);
            let made = poller.as_ref().map(Poller::waker);
            let _ = give.send(made.map_err(|e| io::Error::new(e.kind(), e.to_string())));
            if let Ok(poller) = poller {
                worker.run(poller);
            }
        };
        // Never joined: a handler that hangs must not keep the program from ending.
        std::thread::Builder::new()
            .name("wifu-handlers".into())
            .spawn(work)?;
        let waker = take.recv().map_err(io::Error::other)??;
        self.worker = Some(waker);
        Ok(())
    }

    fn wake_worker(&self) {
        if let Some(waker) = &self.worker {
            waker.wake();
        }
    }

    /// See how the handlers are; take the queues over if they failed.
    fn check(
        &mut self,
        watch: &mut Stopwatch,
        now: Time,
        tell: &mut impl FnMut(Told),
    ) -> io::Result<Option<Fallback>> {
        if watch.is_over(&self.shared, now) {
            self.shared.replace(State::Stalled);
        }
        let how = match self.shared.state() {
            State::Working | State::Ended => return Ok(None),
            State::Broken => return Err(io::Error::other("packets come no more")),
            State::Panicked => "panicked",
            State::Stalled => "stalled",
        };
        tell(Told::Failed(how, self.settings.when_full));
        Ok(Some(self.take_over()))
    }

    /// Handlers did not fail, but their time is over: what still waits has to do without them.
    fn leave_behind(&mut self) -> Fallback {
        self.shared.replace(State::Ended);
        let before = self.failed;
        let fallback = self.take_over();
        let left = self.failed.iter().sum::<u64>() - before.iter().sum::<u64>();
        if left > 0 {
            let (fate, count) = match self.closed() {
                true => ("were dropped", "failed_closed"),
                false => ("passed without them", "failed_open"),
            };
            tracing::warn!(
                "{left} packets that still waited for the handlers at the end {fate} (the last \
                 report counts them as {count})"
            );
        }
        fallback
    }

    /// Decide instead of the handlers about all that waits, and count it.
    fn take_over(&mut self) -> Fallback {
        let mut fallback = Fallback::new(&self.gate);
        let queues = self.gate.queues();
        for hook in self.hooks.iter() {
            if let Some(queue) = queues.get(hook.name()) {
                self.failed[usize::from(self.closed())] += queue.waiting;
                fallback.note_counted(hook, queue.packets);
            }
        }
        for last in self.shared.taken() {
            let ahead = Ticket {
                id: last.id.wrapping_add(AHEAD),
                ..last
            };
            fallback.outbox.verdict_up_to(ahead, !self.closed());
            fallback.outbox.hand_over();
        }
        fallback
    }

    /// Let it decide about what came since, and count that.
    fn decide(&mut self, fallback: &mut Fallback, until: Time) -> io::Result<()> {
        self.failed[usize::from(self.closed())] += fallback.decide(!self.closed(), until)?;
        Ok(())
    }

    fn wait_for(&mut self, patience: Span, done: impl Fn(&Shared) -> bool) {
        let until = Poller::now() + patience;
        let mut events = Vec::new();
        while !done(&self.shared) && Poller::now() < until {
            // Any event ends a wait; an error would be told by the next use.
            let _ = self.poller.wait(until, 0, &mut events);
        }
    }
}

/// When the next report is due: a report that takes longer than the interval delays it.
fn following(due: Time, interval: Span, now: Time) -> Time {
    let next = due + interval;
    if next > now { next } else { now + interval }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::steps::Steps;
    use core::time::Duration;
    use queue::Socket;
    use queue::tests::{full_socket, handed_over};
    use rules::Rules;

    pub(super) fn interception(socket: Socket, state: State) -> Interception {
        let poller = Poller::new(Coalesce::OFF).unwrap();
        let (sender, lines) = sync_channel(1);
        let shared = Shared::new(sender, poller.waker());
        shared.leave(state);
        let remote = Remote {
            waker: poller.waker(),
            stop: Arc::default(),
            reports: Arc::default(),
        };
        Interception {
            poller,
            gate: Gate::Queues(socket),
            hooks: Hooks::NONE,
            shared,
            lines,
            settings: Settings::default(),
            ready: None,
            worker: None,
            remote,
            begun: Poller::now(),
            failed: [0; 2],
            passed: BTreeMap::new(),
            next_count: Time(0),
        }
    }

    #[test]
    fn what_is_refused_after_handlers_failed_is_handed_over_although_nothing_comes() {
        let (socket, kernel) = full_socket();
        let (give, take) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let failed = interception(socket, State::Stalled);
            let remote = failed.remote();
            let rules = Rules::install(&[], &mut Steps::dry()).unwrap();
            let tell = |told| {
                if let Told::Failed(how, _) = told {
                    give.send((how, remote.clone())).unwrap();
                }
            };
            failed.run(&Control::default(), tell, rules)
        });
        let (how, remote) = take.recv().unwrap();
        assert_eq!(how, "stalled");
        // It has decided about all that waited, and sleeps.
        std::thread::sleep(Duration::from_millis(50));
        let mut wanted = Vec::new();
        for queue in 0..5 {
            message::verdict_up_to(&mut wanted, queue, AHEAD, true);
        }
        let seen = handed_over(&kernel, Duration::from_secs(2));
        remote.stop();
        thread.join().unwrap().unwrap();
        assert_eq!(seen, wanted);
    }

    #[test]
    fn a_socket_that_breaks_at_the_end_leaves_a_report_and_no_queue() {
        let (socket, kernel) = full_socket();
        handed_over(&kernel, Duration::from_millis(200));
        // The answer to what gives the queue up.
        let ok = [20, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        kernel.send(&ok).unwrap();
        let mut broken = interception(socket, State::Broken);
        broken.hooks = Hooks::of(&[wifu_core::Hook::Input]);
        let rules = Rules::install(&[], &mut Steps::dry()).unwrap();
        let mut states = Vec::new();
        let tell = |told| {
            if let Told::Report(report) = told {
                states.push(report.state);
            }
        };
        let watch = Stopwatch::new(Span(1_000_000_000));
        assert!(broken.end(watch, None, rules.into(), tell).is_err());
        assert_eq!(states, ["broken"]);
        let given_up = handed_over(&kernel, Duration::from_millis(500));
        assert_eq!(given_up, message::bind(0, false));
    }

    #[test]
    fn a_report_that_takes_longer_than_the_interval_delays_the_next() {
        let due = |now| following(Time(1000), Span(100), Time(now));
        assert_eq!(due(1001), Time(1100));
        assert_eq!(due(1099), Time(1100));
        assert_eq!(due(1100), Time(1200));
        assert_eq!(due(5000), Time(5100));
    }
}

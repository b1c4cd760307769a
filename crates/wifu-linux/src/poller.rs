//! The event loop's waiting room: epoll with nanosecond deadlines, a monotonic clock, signals and
//! a wake-up from other threads.
//!
//! **Coalescing.** On a busy link, what bounds the packet rate is not the system calls but the
//! wake-ups: a receiver that sleeps inside epoll is woken for nearly every packet. So after a busy
//! round the poller does not wait in epoll but sleeps for a fixed short time, in which packets
//! gather without waking anybody, and then looks. A quiet loop (request and answer) never pays
//! that delay, because a round with little work waits in epoll as usual.
//!
//! A pause comes last of all, too, after the last packet of a transfer, and must stay a small part
//! of it: it grows with the age of the burst, up to what is asked. And a burst's first moments are
//! gathered awake, giving way to whoever else is ready ([`Coalesce::awake`]): waking a processor
//! that sleeps takes longer than the segments of a short transfer are apart. Through a long burst
//! the loop sleeps, for that leaves the processors to applications.

use crate::sys;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use wifu_wire::units::{Span, Time};

/// What a descriptor is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest(epoll::EventFlags);

impl Interest {
    /// Nothing but errors and hang-ups, which are always told.
    pub const NONE: Interest = Interest(epoll::EventFlags::empty());
    /// Input, and the peer's half-close.
    pub const READ: Interest = Interest(epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP));
    /// Output: the descriptor takes at least one more octet.
    pub const WRITE: Interest = Interest(epoll::EventFlags::OUT);
    /// The peer's half-close without input.
    pub const HALF_CLOSE: Interest = Interest(epoll::EventFlags::RDHUP);
    /// Tell changes only, not states.
    pub const EDGE: Interest = Interest(epoll::EventFlags::ET);

    /// What either asks for.
    pub const fn and(self, other: Interest) -> Interest {
        Interest(self.0.union(other.0))
    }
}

/// What happened to a watched descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The token it was added with.
    pub token: u64,
    flags: epoll::EventFlags,
}

impl Event {
    /// There is input, or an end of input.
    pub fn readable(&self) -> bool {
        self.flags.contains(epoll::EventFlags::IN)
    }

    /// There is room for output.
    pub fn writable(&self) -> bool {
        self.flags.contains(epoll::EventFlags::OUT)
    }

    /// The peer has shut down its sending side.
    pub fn half_closed(&self) -> bool {
        self.flags.contains(epoll::EventFlags::RDHUP)
    }

    /// Both sides are shut down.
    pub fn hung_up(&self) -> bool {
        self.flags.contains(epoll::EventFlags::HUP)
    }

    /// The descriptor holds an error.
    pub fn failed(&self) -> bool {
        self.flags.contains(epoll::EventFlags::ERR)
    }
}

/// When the loop sleeps instead of waiting for the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesce {
    /// How long it sleeps at most; zero switches coalescing off.
    pub pause: Span,
    /// A round that handled at least this many packets was busy.
    pub threshold: usize,
    /// So long from the start of a burst the loop pauses awake.
    pub awake: Span,
}

/// The pause of a young burst, or what is asked if that is less.
const SHORT: Span = Span(50_000);
/// Of its age, a burst's pause is this part.
const PART: u64 = 128;
/// A burst ends when nothing comes for so long.
const QUIET: Span = Span(1_000_000);

impl Coalesce {
    /// No coalescing: wait in epoll always.
    pub const OFF: Coalesce = Coalesce {
        pause: Span::ZERO,
        threshold: usize::MAX,
        awake: Span::ZERO,
    };
}

impl Default for Coalesce {
    fn default() -> Coalesce {
        Coalesce {
            pause: Span(50_000),
            threshold: 4,
            awake: Span::ZERO,
        }
    }
}

/// What the loop did, to judge its settings by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PollCounters {
    /// Looks at the descriptors.
    pub looks: u64,
    /// Of these, such that could block.
    pub waits: u64,
    /// Pauses made to let packets gather.
    pub pauses: u64,
}

/// Wakes a [`Poller`] from another thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Let the poller's current or next wait end.
    pub fn wake(&self) {
        // It fails only if the counter is full, and then the poller is awake already.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// The token of the poller's own descriptors; not for others.
const OWN: u64 = u64::MAX;
/// Events taken by one look.
const EVENTS: usize = 256;

/// Waits for descriptors, deadlines, signals and other threads.
pub struct Poller {
    epoll: OwnedFd,
    waker: Waker,
    signals: Option<OwnedFd>,
    raised: Option<i32>,
    coalesce: Coalesce,
    events: Vec<epoll::Event>,
    counters: PollCounters,
    /// When the burst began.
    burst: Option<Time>,
}

impl Poller {
    /// A poller for the calling thread, whose timer slack becomes 1 ns: with the default of 50 us,
    /// deadlines would be met that much later.
    ///
    /// # Errors
    /// What the system calls say.
    pub fn new(coalesce: Coalesce) -> io::Result<Poller> {
        rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let poller = Poller {
            epoll,
            waker: Waker(Arc::new(fd)),
            signals: None,
            raised: None,
            coalesce,
            events: Vec::with_capacity(EVENTS),
            counters: PollCounters::default(),
            burst: None,
        };
        poller.add(&*poller.waker.0, OWN, Interest::READ)?;
        Ok(poller)
    }

    /// The time now: nanoseconds of `CLOCK_MONOTONIC`.
    pub fn now() -> Time {
        let t = clock_gettime(ClockId::Monotonic);
        Time(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
    }

    /// What to add to [`now`](Poller::now) to get nanoseconds since 1970.
    pub fn wall_offset() -> u64 {
        let wall = clock_gettime(ClockId::Realtime);
        let wall = wall.tv_sec as u64 * 1_000_000_000 + wall.tv_nsec as u64;
        wall.saturating_sub(Poller::now().0)
    }

    /// Something that wakes this poller.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// From now on, `signals` end a wait instead of acting on the process; see
    /// [`take_signal`](Poller::take_signal). Call it before other threads start.
    ///
    /// # Errors
    /// What `signalfd` says.
    pub fn catch_signals(&mut self, signals: &[i32]) -> io::Result<()> {
        let fd = sys::signal_fd(signals)?;
        self.add(&fd, OWN, Interest::READ)?;
        self.signals = Some(fd);
        Ok(())
    }

    /// The number of a signal that came, once.
    pub fn take_signal(&mut self) -> Option<i32> {
        self.raised.take()
    }

    /// Watch `fd`; its events will carry `token`, which must not be `u64::MAX`.
    ///
    /// # Errors
    /// `AlreadyExists` if it is watched.
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        Ok(epoll::add(&self.epoll, fd, data, interest.0)?)
    }

    /// Watch `fd` for something else.
    ///
    /// # Errors
    /// `NotFound` if it is not watched.
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        Ok(epoll::modify(&self.epoll, fd, data, interest.0)?)
    }

    /// Watch `fd` no more. Closing its last copy does the same.
    ///
    /// # Errors
    /// `NotFound` if it is not watched.
    pub fn delete(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Wait until a descriptor has something, `deadline` passes ([`Time::NEVER`]: none), a signal
    /// comes or a [`Waker`] wakes. `events` is emptied and filled. `handled` is how many packets
    /// the caller has handled since the last wait: it decides about coalescing.
    ///
    /// # Errors
    /// What epoll says; interruptions are no errors.
    pub fn wait(
        &mut self,
        deadline: Time,
        handled: usize,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        events.clear();
        if handled >= self.coalesce.threshold && self.coalesce.pause > Span::ZERO {
            self.pause(deadline);
            if self.look(Some(Span::ZERO), events)? > 0 {
                return Ok(());
            }
        }
        let now = Poller::now();
        let timeout = (deadline != Time::NEVER).then(|| deadline - now);
        self.look(timeout, events)?;
        if Poller::now() - now >= QUIET {
            self.burst = None;
        }
        Ok(())
    }

    /// Let packets gather, but not beyond `deadline`.
    fn pause(&mut self, deadline: Time) {
        let now = Poller::now();
        let age = now - *self.burst.get_or_insert(now);
        let pause = SHORT.max(age / PART).min(self.coalesce.pause);
        let pause = pause.min(deadline - now);
        if pause == Span::ZERO {
            return;
        }
        self.counters.pauses += 1;
        if age < self.coalesce.awake {
            give_way_until(now + pause);
        } else {
            pause_for(pause);
        }
    }

    /// Looks, waits and pauses so far.
    pub fn counters(&self) -> PollCounters {
        self.counters
    }

    /// One `epoll_pwait2`; gives how many descriptors had something, our own included.
    fn look(&mut self, timeout: Option<Span>, events: &mut Vec<Event>) -> io::Result<usize> {
        self.counters.looks += 1;
        self.counters.waits += u64::from(timeout != Some(Span::ZERO));
        let spec = timeout.map(timespec);
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, room, spec.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(0),
            Err(e) => return Err(e.into()),
        }
        let mut own = false;
        for e in &self.events {
            let (token, flags) = (e.data.u64(), e.flags);
            if token == OWN {
                own = true;
            } else {
                events.push(Event { token, flags });
            }
        }
        if own {
            self.drain_own();
        }
        Ok(self.events.len())
    }

    fn drain_own(&mut self) {
        let mut count = [0u8; 8];
        // Empty already if it was a signal: then there is nothing to do.
        let _ = rustix::io::read(&*self.waker.0, &mut count);
        // One at a time: the next makes the next wait end.
        if let (Some(fd), None) = (&self.signals, self.raised) {
            self.raised = sys::read_signal(fd).ok();
        }
    }
}

fn timespec(span: Span) -> Timespec {
    Timespec {
        tv_sec: (span.0 / 1_000_000_000) as i64,
        tv_nsec: (span.0 % 1_000_000_000) as i64,
    }
}

/// Let others run, and look at the clock between them.
fn give_way_until(end: Time) {
    while Poller::now() < end {
        rustix::thread::sched_yield();
    }
}

/// Sleep; an interruption ends it early, which harms nobody.
fn pause_for(span: Span) {
    let _ = rustix::thread::nanosleep(&timespec(span));
}

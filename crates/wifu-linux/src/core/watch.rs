//! What the thread that runs handlers and the one that watches over it share.
//!
//! A handler that panics or takes too long cannot be ended from outside. It is left behind: its
//! thread, should it ever come back, finds that it was replaced, and the packets' fate is decided
//! without it.

use super::queue::Ticket;
use super::report::Snapshot;
use crate::poller::{Poller, Waker};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::cell::RefCell;
use std::panic::PanicHookInfo;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, Once};
use wifu_node::export::Print;
use wifu_wire::{Span, Time};

/// How the handlers are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Working,
    Panicked,
    Stalled,
    /// The loop itself failed.
    Broken,
    Ended,
}

const STATES: [State; 5] = [
    State::Working,
    State::Panicked,
    State::Stalled,
    State::Broken,
    State::Ended,
];

pub(crate) struct Shared {
    state: AtomicU8,
    /// Of the handlers' thread while it hands verdicts over, and of whoever replaces them.
    turn: Mutex<()>,
    /// Odd while a handler is at work, one more at each step.
    steps: AtomicU64,
    /// The last packet taken from each queue; all before it were taken too.
    taken: [AtomicU32; 5],
    /// End, after what waits has its verdict.
    end: AtomicBool,
    /// Number of the last request for a snapshot, and of the last that was answered.
    requested: AtomicU64,
    answered: AtomicU64,
    snapshot: Mutex<Snapshot>,
    lines: SyncSender<String>,
    watcher: Waker,
}

impl Shared {
    pub(crate) fn new(lines: SyncSender<String>, watcher: Waker) -> Arc<Shared> {
        Arc::new(Shared {
            state: AtomicU8::new(0),
            turn: Mutex::new(()),
            steps: AtomicU64::new(0),
            taken: Default::default(),
            end: AtomicBool::new(false),
            requested: AtomicU64::new(1),
            answered: AtomicU64::new(0),
            snapshot: Mutex::new(Snapshot::default()),
            lines,
            watcher,
        })
    }

    pub(crate) fn state(&self) -> State {
        STATES[usize::from(self.state.load(Ordering::Acquire))]
    }

    /// Leave `Working` for another state; only the first who tries succeeds.
    pub(crate) fn leave(&self, state: State) -> bool {
        let to = STATES.iter().position(|s| *s == state).unwrap_or(0) as u8;
        let left = self
            .state
            .compare_exchange(0, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        self.watcher.wake();
        left
    }

    /// [`Shared::leave`], from another thread than the handlers': what they have not handed over by
    /// then, they never do, and it can be counted.
    pub(crate) fn replace(&self, state: State) {
        let _turn = self.turn.lock();
        self.leave(state);
    }

    /// While this is held, handlers are not replaced. `None` if they were.
    pub(crate) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        let turn = self.turn.lock().ok()?;
        (self.state() == State::Working).then_some(turn)
    }

    /// A handler begins or ends its work.
    pub(crate) fn step(&self) {
        // One writer: no read-modify-write is needed.
        let steps = self.steps.load(Ordering::Relaxed);
        self.steps.store(steps + 1, Ordering::Release);
    }

    pub(crate) fn note_taken(&self, ticket: Ticket) {
        self.taken[usize::from(ticket.queue)].store(ticket.id, Ordering::Release);
    }

    pub(crate) fn taken(&self) -> impl Iterator<Item = Ticket> {
        (0..5).map(|queue: u16| Ticket {
            queue,
            id: self.taken[usize::from(queue)].load(Ordering::Acquire),
        })
    }

    pub(crate) fn ask_to_end(&self) {
        self.end.store(true, Ordering::Release);
    }

    pub(crate) fn shall_end(&self) -> bool {
        self.end.load(Ordering::Acquire)
    }

    pub(crate) fn want_snapshot(&self) {
        self.requested.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether a snapshot is wanted.
    pub(crate) fn wanted(&self) -> bool {
        self.requested() != self.answered.load(Ordering::Acquire)
    }

    /// Whether the other thread waits for the one that runs handlers.
    pub(crate) fn is_awaited(&self) -> bool {
        self.wanted() || self.shall_end()
    }

    /// Number of the last request: a snapshot that is made from now on answers it.
    pub(crate) fn requested(&self) -> u64 {
        self.requested.load(Ordering::Acquire)
    }

    /// Hand over a snapshot: the answer to all requests up to this one's number.
    pub(crate) fn give(&self, snapshot: Snapshot, request: u64) {
        if let Ok(mut place) = self.snapshot.lock() {
            *place = snapshot;
        }
        self.answered.store(request, Ordering::Release);
        self.watcher.wake();
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot.lock().map(|s| s.clone()).unwrap_or_default()
    }

    /// Pass a handler's line on; gives whether there was room.
    pub(crate) fn say(&self, line: String) -> bool {
        !matches!(self.lines.try_send(line), Err(TrySendError::Full(_)))
    }

    pub(crate) fn wake_watcher(&self) {
        self.watcher.wake();
    }
}

/// Sees whether a handler takes too long.
pub(crate) struct Stopwatch {
    limit: Span,
    seen: u64,
    since: Time,
}

impl Stopwatch {
    pub(crate) fn new(limit: Span) -> Stopwatch {
        Stopwatch {
            limit,
            seen: 0,
            since: Poller::now(),
        }
    }

    /// Whether the same work goes on for longer than the limit.
    pub(crate) fn is_over(&mut self, shared: &Shared, now: Time) -> bool {
        let steps = shared.steps.load(Ordering::Acquire);
        if steps != self.seen {
            (self.seen, self.since) = (steps, now);
        }
        steps % 2 == 1 && now - self.since > self.limit
    }

    /// How long may pass between two looks.
    pub(crate) fn pause(&self) -> Span {
        Span((self.limit.0 / 4).clamp(1_000_000, 250_000_000))
    }
}

thread_local! {
    /// Set on threads that run handlers.
    static OWN: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

/// From now on, a panic of the calling thread is told to its watcher, and leaves the thread behind
/// where it would end the process.
pub(crate) fn survive_panics(shared: &Arc<Shared>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // Where panics unwind, the thread ends by itself.
            panicked(info, &*before, cfg!(panic = "abort"));
        }));
    });
    OWN.with(|o| *o.borrow_mut() = Some(shared.clone()));
}

/// The same for panics in a loaded library, of which the hook above does not hear. They never
/// unwind: what catches panics here takes those of another runtime for a reason to abort.
pub(crate) fn panicked_in_library(info: &PanicHookInfo<'_>, print: Print<'_>) {
    panicked(info, print, true);
}

/// Tell the watcher of a thread that runs handlers. `stay`: the thread stays behind for good, which
/// is the only way not to take the process along.
fn panicked(info: &PanicHookInfo<'_>, print: Print<'_>, stay: bool) {
    let own = OWN.try_with(|o| o.borrow().clone()).ok().flatten();
    let Some(shared) = own else {
        return print(info);
    };
    // First: packets wait, and telling the story takes its time.
    shared.leave(State::Panicked);
    print(info);
    if stay {
        loop {
            std::thread::park();
        }
    }
}

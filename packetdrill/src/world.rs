//! A stack that two threads use, and whose time they move.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::ThreadId;
use wifu_engine::ConnInfo;
use wifu_testkit::packetdrill::{Answer, Begun, Call, CallId, Errno, Left, Setup, Stack};
use wifu_wire::{Span, Time};

/// How long of the stack's time a packet, or a call of the first thread, is waited for.
pub const PATIENCE: Span = Span(600_000_000_000);

/// Looks at the clock in a row that tell nothing. packetdrill looks a few times per event; one that
/// looks more often waits for the time to pass, and then each look passes a microsecond.
const LOOKS: u32 = 16;

struct Inner {
    stack: Stack,
    looks: u32,
    /// When calls of the second thread finished that has not looked at the clock since.
    stamp: Option<(ThreadId, Time)>,
    /// The stack's descriptors by the process's.
    fds: BTreeMap<i32, i32>,
    /// The call of the second thread.
    waits: Option<(ThreadId, CallId)>,
    result: Option<(Time, Answer)>,
}

/// See the module.
pub struct World {
    inner: Mutex<Inner>,
    woken: Condvar,
    first: ThreadId,
}

impl World {
    /// A world whose first thread is the caller's. `flags` is the text of [`Setup::parse`].
    ///
    /// # Errors
    /// What is wrong with the text, for the user to read.
    pub fn new(flags: &str) -> Result<World, String> {
        let setup = Setup::parse(flags)?;
        let stack = Stack::new(setup).map_err(|e| e.to_string())?;
        Ok(World {
            inner: Mutex::new(Inner {
                stack,
                looks: 0,
                stamp: None,
                fds: BTreeMap::new(),
                waits: None,
                result: None,
            }),
            woken: Condvar::new(),
            first: std::thread::current().id(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic ends the process: the functions that C calls cannot unwind.
        match self.inner.lock() {
            Ok(inner) => inner,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Something was done: a call of the second thread may have finished.
    fn done(&self, inner: &mut Inner) {
        inner.looks = 0;
        if let Some((_, id)) = inner.waits
            && inner.result.is_none()
        {
            inner.result = inner.stack.finished(id);
            if inner.result.is_some() {
                self.woken.notify_all();
            }
        }
    }

    /// Makes a call. One that waits does so here: in the first thread by letting time pass, in
    /// another until the first has let enough of it pass.
    ///
    /// # Errors
    /// The call's; `EDEADLK` if nothing would ever finish it, or another waits already.
    pub fn call(&self, call: Call) -> Answer {
        let mut inner = self.lock();
        let begun = inner.stack.begin(call);
        self.done(&mut inner);
        let id = match begun {
            Begun::Done(answer) => return answer,
            Begun::Waits(id) => id,
        };
        let me = std::thread::current().id();
        if me == self.first {
            let limit = inner.stack.now() + PATIENCE;
            let finished = inner.stack.finish(id, limit);
            self.done(&mut inner);
            return finished.map_or(Err(Errno(libc::EDEADLK)), |(_, answer)| answer);
        }
        if inner.waits.is_some() {
            return Err(Errno(libc::EDEADLK));
        }
        inner.waits = Some((me, id));
        loop {
            if let Some((at, answer)) = inner.result.take() {
                inner.waits = None;
                inner.stamp = Some((me, at));
                return answer;
            }
            inner = match self.woken.wait(inner) {
                Ok(inner) => inner,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
    }

    /// The stack's descriptor for one of the process; -1 if it is no socket of ours.
    pub fn fd(&self, fd: i32) -> i32 {
        self.lock().fds.get(&fd).copied().unwrap_or(-1)
    }

    /// A descriptor of the process for one of the stack. packetdrill closes those that a script
    /// leaves open as it would the kernel's, so each has to exist.
    ///
    /// # Errors
    /// What the system says if there is none left.
    pub fn name(&self, fd: i32) -> Result<i32, Errno> {
        let file = File::open("/dev/null");
        let file = file.map_err(|e| Errno(e.raw_os_error().unwrap_or(libc::EMFILE)))?;
        let mut inner = self.lock();
        // A number that comes again was closed behind our back: that socket is gone.
        if let Some(old) = inner.fds.remove(&file.as_raw_fd()) {
            let _ = inner.stack.begin(Call::Close(old));
        }
        let name = file.into_raw_fd();
        inner.fds.insert(name, fd);
        Ok(name)
    }

    /// The name of a socket that was closed goes, too.
    pub fn unname(&self, fd: OwnedFd) {
        self.lock().fds.remove(&fd.as_raw_fd());
    }

    /// The numbers of a descriptor's connection.
    pub fn info(&self, fd: i32) -> Option<ConnInfo> {
        let inner = self.lock();
        inner.stack.info(*inner.fds.get(&fd)?)
    }

    /// A packet arrives; false if it is none.
    pub fn deliver(&self, packet: &[u8]) -> bool {
        let mut inner = self.lock();
        let taken = inner.stack.deliver(packet).is_ok();
        self.done(&mut inner);
        taken
    }

    /// The next packet that leaves, within [`PATIENCE`].
    pub fn packet(&self) -> Option<Left> {
        let mut inner = self.lock();
        let limit = inner.stack.now() + PATIENCE;
        let left = inner.stack.packet(limit);
        self.done(&mut inner);
        left
    }

    /// Lets time pass.
    pub fn sleep(&self, span: Span) {
        let mut inner = self.lock();
        let until = inner.stack.now() + span;
        inner.stack.advance(until);
        self.done(&mut inner);
    }

    /// The time; to a thread whose call has just finished, when it did.
    pub fn now(&self) -> Time {
        let mut inner = self.lock();
        let me = std::thread::current().id();
        if let Some((thread, at)) = inner.stamp
            && thread == me
        {
            inner.stamp = None;
            return at;
        }
        inner.looks += 1;
        if inner.looks > LOOKS {
            let looks = inner.looks;
            let until = inner.stack.now() + Span(1_000);
            inner.stack.advance(until);
            self.done(&mut inner);
            inner.looks = looks;
        }
        inner.stack.now()
    }
}

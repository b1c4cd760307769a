//! `SO_LINGER` with a time: `close` waits until the peer has acknowledged what was sent, or for so
//! long. The kernel's own waiting is for the protocols that it carries, so the library waits before
//! it closes. It can't know whether a copy of the descriptor is left, at which the kernel would not
//! wait; and what ends by the end of the program is not waited for, as with the kernel's TCP.

use crate::opt;
use crate::sys::{self, Errno};
use crate::tag::Tag;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use wifu_wire::front::SEND_QUEUE;

/// A socket of this process lingers: others need not ask each descriptor that they close.
static ANY: AtomicBool = AtomicBool::new(false);

/// The longest pause between two questions, milliseconds.
const PAUSE_MS: u64 = 20;

/// `SO_LINGER` was set with a time.
pub fn remember() {
    ANY.store(true, Ordering::Relaxed);
}

/// Before a descriptor is closed.
pub fn wait(fd: c_int) {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    let Some((tag, limit_ms)) = Tag::read(fd).and_then(|tag| Some((tag, limit(fd, tag)?))) else {
        return;
    };
    let start = sys::monotonic_ms();
    let mut pause = 1;
    while opt::number(fd, tag, SEND_QUEUE).is_some_and(|n| n > 0) {
        let passed = sys::monotonic_ms().saturating_sub(start);
        if passed >= limit_ms {
            return;
        }
        // A signal ends the waiting, as the kernel's.
        if sys::poll(-1, 0, Some(pause.min(limit_ms - passed))) == Err(Errno(libc::EINTR)) {
            return;
        }
        pause = (2 * pause).min(PAUSE_MS);
    }
}

/// How long closing this socket may take, milliseconds; `None` if it takes none.
fn limit(fd: c_int, tag: Tag) -> Option<u64> {
    let v: libc::linger = sys::getsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER).ok()?;
    let seconds = u64::try_from(v.l_linger).ok().filter(|s| *s > 0)?;
    let connected = v.l_onoff != 0 && sys::getpeername(fd).is_ok();
    let begun = |fd| sys::poll(fd, libc::POLLOUT, Some(0)).is_ok_and(|e| e & libc::POLLOUT != 0);
    // What begins to open is given up; what is unread makes it a reset.
    let waits = connected && (!tag.has(Tag::CONNECTING) || begun(fd)) && sys::unread(fd) == Ok(0);
    waits.then_some(seconds * 1000)
}

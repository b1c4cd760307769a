//! The way to the daemon for a program that changes its root.
//!
//! The daemon's socket has a path, which means nothing, or something else, behind a new root. A
//! directory that is kept open from before would be a way out for whoever is in there. So the
//! program asks the daemon for its other address, which is an abstract name and needs no path, and
//! for what opens the door there. Both are numbers: no descriptor leads anywhere.

use crate::config;
use crate::daemon;
use crate::note::Once;
use crate::sys::{self, Errno, Result, UnixAddr};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use wifu_wire::front::{HEADER_LEN, Key, Request};

const EMPTY: u8 = 0;
const WRITING: u8 = 1;
const READY: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(EMPTY);
/// The octets of the key, complete once STATE is READY.
static KEPT: [AtomicU8; Key::LEN] = [const { AtomicU8::new(0) }; Key::LEN];
/// Whose the daemon's socket is: he, or root, answers at the abstract name.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// How long the daemon may have no room for one more, seconds: names have no permissions, and who
/// has its name may be somebody who never answers.
const PATIENCE_S: i64 = 1;

/// Before the root changes: asks for the way to the daemon, and says whether it is known since now.
/// A second change is from where the path is not known any more: the first counts.
pub fn keep() -> bool {
    static SAID: Once = Once::new();
    if kept().is_some() {
        return false;
    }
    config::remember_namespace();
    let mut path = [0; 108];
    let text = config::config().path();
    path[..text.as_bytes().len()].copy_from_slice(text.as_bytes());
    let owner = sys::stat(&path).map(|(_, owner)| owner);
    let reply = daemon::ask_ok(&Request::Key);
    let key = reply.map(|r| r.answer().value.and_then(|t| Key::parse(t.as_bytes())));
    let (Ok(owner), Ok(Some(key))) = (owner, key) else {
        SAID.say(format_args!(
            "the daemon gives no key before chroot: behind the new root it may be out of reach"
        ));
        return false;
    };
    let begun = STATE.compare_exchange(EMPTY, WRITING, Ordering::Acquire, Ordering::Relaxed);
    if begun.is_ok() {
        OWNER.store(owner, Ordering::Relaxed);
        for (place, octet) in KEPT.iter().zip(key.text().bytes()) {
            place.store(octet, Ordering::Relaxed);
        }
        STATE.store(READY, Ordering::Release);
    }
    begun.is_ok()
}

/// The root is what it was: the daemon is whoever has the path.
pub fn forget() {
    STATE.store(EMPTY, Ordering::Release);
}

/// What the daemon gave, if the root was changed.
fn kept() -> Option<Key> {
    if STATE.load(Ordering::Acquire) != READY {
        return None;
    }
    let text: [u8; Key::LEN] = core::array::from_fn(|i| KEPT[i].load(Ordering::Relaxed));
    Key::parse(&text)
}

/// Connects to the socket with this path, or to the daemon that was there before the root changed.
///
/// # Errors
/// `ENAMETOOLONG`, or what the kernel says.
pub fn connect(fd: c_int, path: &[u8]) -> Result<()> {
    match kept() {
        Some(key) => enter(fd, &key),
        None => sys::connect(fd, &UnixAddr::new(path).ok_or(Errno(libc::ENAMETOOLONG))?),
    }
}

fn enter(fd: c_int, key: &Key) -> Result<()> {
    let name = UnixAddr::new(key.name().as_bytes()).ok_or(Errno(libc::EINVAL))?;
    connect_soon(fd, &name)?;
    let there: libc::ucred = sys::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED)?;
    let mut frame = [0; HEADER_LEN + 2 * Key::LEN];
    let secret = key.secret();
    let n = Request::Admit { secret }.encode(&mut frame, 0);
    let n = n.map_err(|_| Errno(libc::EINVAL))?;
    let trusted = there.uid == 0 || there.uid == OWNER.load(Ordering::Relaxed);
    let shown = match trusted {
        // A fresh send buffer has room for so little.
        true => sys::send(fd, &frame[..n], libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT),
        // Names have no permissions: the daemon is gone, and somebody else has taken its own.
        false => Err(Errno(libc::ECONNREFUSED)),
    };
    if shown != Ok(n) {
        // The next `connect` begins anew.
        let _ = sys::shutdown(fd, libc::SHUT_RDWR);
        return Err(Errno(libc::ECONNREFUSED));
    }
    Ok(())
}

/// A blocking socket does not wait for longer than [`PATIENCE_S`].
fn connect_soon(fd: c_int, name: &UnixAddr) -> Result<()> {
    let level = libc::SOL_SOCKET;
    let own: libc::timeval = sys::getsockopt(fd, level, libc::SO_SNDTIMEO)?;
    let limit = libc::timeval {
        tv_sec: PATIENCE_S,
        tv_usec: 0,
    };
    sys::setsockopt(fd, level, libc::SO_SNDTIMEO, limit)?;
    let connected = sys::connect(fd, name);
    sys::setsockopt(fd, level, libc::SO_SNDTIMEO, own)?;
    let waits = sys::fcntl(fd, libc::F_GETFL, 0)? & libc::O_NONBLOCK == 0;
    match connected {
        Err(Errno(libc::EAGAIN)) if waits => Err(Errno(libc::ECONNREFUSED)),
        done => done,
    }
}

/// Who owns the file with this path, or owned it before the root changed. `path` ends with a NUL.
///
/// # Errors
/// What the kernel says.
pub fn owner(path: &[u8]) -> Result<u32> {
    match kept() {
        Some(_) => Ok(OWNER.load(Ordering::Relaxed)),
        None => sys::stat(path).map(|(_, owner)| owner),
    }
}

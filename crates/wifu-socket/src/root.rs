//! The way to the daemon for a program that changes its root.
//!
//! The daemon's socket has a path, which means nothing, or something else, behind a new root. So
//! the directory from which that path leads is kept open from before. A socket is connected to a
//! path by the working directory alone, which all threads of a process share: a helper that has
//! one of its own does that, and ends.

use crate::config;
use crate::sys::{self, Errno, Result, UnixAddr};
use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// The lowest number that the descriptor gets, if there may be so many: programs count on low ones.
const HIGH: [c_int; 2] = [900, 200];

static KEPT: AtomicI32 = AtomicI32::new(-1);
/// The inode of what is kept: a program may close descriptors that it does not know.
static INODE: AtomicU64 = AtomicU64::new(0);

/// Before the root changes: keeps where the daemon's path leads from. A second change is from where
/// the path is not known any more: the first counts.
pub fn keep() {
    if kept().is_some() {
        return;
    }
    config::remember_namespace();
    let path = config::config().path();
    let from: &[u8] = match path.as_bytes().first() {
        Some(b'/') => b"/\0",
        _ => b".\0",
    };
    let Ok(low) = sys::open_directory(from) else {
        return;
    };
    let mut high = HIGH.iter();
    let high = high.find_map(|n| sys::fcntl(low, libc::F_DUPFD_CLOEXEC, *n).ok());
    if high.is_some() {
        sys::close(low);
    }
    let fd = high.unwrap_or(low);
    if let Ok((inode, _)) = sys::fstat(fd) {
        INODE.store(inode, Ordering::Relaxed);
        KEPT.store(fd, Ordering::Release);
    }
}

/// The kept directory, if the root was changed and the descriptor is still that.
fn kept() -> Option<c_int> {
    let fd = KEPT.load(Ordering::Acquire);
    let same = |(inode, _)| inode == INODE.load(Ordering::Relaxed);
    (fd >= 0 && sys::fstat(fd).is_ok_and(same)).then_some(fd)
}

/// A path as it is from the kept directory.
fn relative(path: &[u8]) -> &[u8] {
    let start = path.iter().take_while(|c| **c == b'/').count();
    &path[start..]
}

/// Connects to the socket with this path, as it was before the root changed.
///
/// # Errors
/// `ENAMETOOLONG`, or what the kernel says.
pub fn connect(fd: c_int, path: &[u8]) -> Result<()> {
    let address = |path| UnixAddr::new(path).ok_or(Errno(libc::ENAMETOOLONG));
    match kept() {
        Some(directory) => sys::connect_from(directory, fd, &address(relative(path))?),
        None => sys::connect(fd, &address(path)?),
    }
}

/// Who owns the file with this path, as it was before the root changed. `path` ends with a NUL.
///
/// # Errors
/// What the kernel says.
pub fn owner(path: &[u8]) -> Result<u32> {
    let (_, owner) = match kept() {
        Some(directory) => sys::stat_at(directory, relative(path))?,
        None => sys::stat(path)?,
    };
    Ok(owner)
}

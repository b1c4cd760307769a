//! The epoll sets of this process that watch a socket: when another one comes into its place, they
//! watch that one for the same, as they go on with a TCP socket whose `connect` failed.
//!
//! A set knows files, not descriptors: it forgets what is closed, and would keep a copy. What it
//! watches, and with which word of the program's, the kernel tells in `/proc` (proc_pid_fdinfo(5)).
//! Sets that only other processes have are not found, nor any behind a root without `/proc`.

use crate::sys::{self, Result};
use core::ffi::{CStr, c_int};

/// So many sets of one process that watch one socket are found.
const MOST: usize = 32;

/// Octets of a line of `/proc`, with room for numbers that no kernel writes so long.
const LINE: usize = 1024;

/// One set, and what it is to be told of the socket.
#[derive(Clone, Copy, Default)]
struct Watch {
    set: c_int,
    events: u32,
    word: u64,
}

/// The sets that watched a socket.
#[must_use]
pub struct Watches {
    list: [Watch; MOST],
    count: usize,
}

impl Watches {
    /// Takes a socket out of all sets that watch it.
    pub fn take(fd: c_int) -> Watches {
        let mut found = Watches {
            list: [Watch::default(); MOST],
            count: 0,
        };
        // Without `/proc` there is nothing to be done.
        let _ = found.look(fd);
        let list = &found.list[..found.count];
        list.iter().for_each(|w| sys::epoll_forget(w.set, fd));
        found
    }

    /// They watch what has this number now.
    pub fn give(self, fd: c_int) {
        for w in &self.list[..self.count] {
            // A set may be closed meanwhile, by another thread.
            let _ = sys::epoll_add(w.set, fd, w.events, w.word);
        }
    }

    fn look(&mut self, fd: c_int) -> Result<()> {
        let (_, inode) = sys::identity(fd)?;
        let all = sys::open(c"/proc/thread-self/fd", libc::O_DIRECTORY)?;
        let done = sys::entries(all, |name| {
            if is_set(all, name) {
                self.look_into(name, fd, inode);
            }
        });
        sys::close(all);
        done
    }

    /// The descriptor with this name is a set's: finds the socket in it.
    fn look_into(&mut self, name: &CStr, fd: c_int, inode: u64) {
        let (Some(set), Ok(about)) = (number(name.to_bytes(), 10), info(name)) else {
            return;
        };
        let _ = lines(about, |line| {
            if self.count < MOST
                && let Some((events, word)) = watched(line, fd, inode)
            {
                let set = set as c_int;
                self.list[self.count] = Watch { set, events, word };
                self.count += 1;
            }
        });
        sys::close(about);
    }
}

/// Whether a descriptor is an epoll set's.
fn is_set(all: c_int, name: &CStr) -> bool {
    const SET: &[u8] = b"anon_inode:[eventpoll]";
    let mut target = [0; SET.len() + 1];
    sys::readlink(all, name, &mut target).is_ok_and(|n| &target[..n] == SET)
}

/// What the kernel tells of a descriptor.
fn info(name: &CStr) -> Result<c_int> {
    const PATH: &[u8] = b"/proc/thread-self/fdinfo/";
    let mut path = [0; PATH.len() + 24];
    let name = name.to_bytes();
    path[..PATH.len()].copy_from_slice(PATH);
    let room = &mut path[PATH.len()..];
    let n = name.len().min(room.len() - 1);
    room[..n].copy_from_slice(&name[..n]);
    let path = CStr::from_bytes_until_nul(&path).unwrap_or(c"");
    sys::open(path, 0)
}

/// Calls `each` with every line of a file.
fn lines(file: c_int, mut each: impl FnMut(&[u8])) -> Result<()> {
    let mut buffer = [0; 4 * LINE];
    let mut have = 0;
    loop {
        let n = sys::read(file, &mut buffer[have..])?;
        if n == 0 {
            return Ok(());
        }
        let end = have + n;
        let mut start = 0;
        while let Some(n) = buffer[start..end].iter().position(|b| *b == b'\n') {
            each(&buffer[start..start + n]);
            start += n + 1;
        }
        buffer.copy_within(start..end, 0);
        // No line is so long: what can't be one is dropped.
        have = if end - start > LINE { 0 } else { end - start };
    }
}

/// For what a line says that this socket is watched, and with which word:
/// `tfd: 5 events: 19 data: 5  pos:0 ino:3039 sdev:9`. The descriptor that a file had when it was
/// put into the set may be another's by now.
fn watched(line: &[u8], fd: c_int, inode: u64) -> Option<(u32, u64)> {
    let (mut at, mut events, mut word, mut file) = (None, None, None, Some(inode));
    let mut key: &[u8] = b"";
    for w in line.split(|b| *b == b' ').filter(|w| !w.is_empty()) {
        match w.iter().position(|b| *b == b':') {
            Some(end) if end + 1 == w.len() => key = w,
            // Kernels before 4.13 say nothing of the file.
            Some(end) if &w[..end] == b"ino" => file = number(&w[end + 1..], 16),
            Some(_) => {}
            None => match key {
                b"tfd:" => at = number(w, 10),
                b"events:" => events = number(w, 16),
                b"data:" => word = number(w, 16),
                _ => {}
            },
        }
    }
    let ours = at == Some(fd as u64) && file == Some(inode);
    Some((events? as u32, word?)).filter(|_| ours)
}

/// A number without a sign.
fn number(text: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(text).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_understood() {
        let line = b"tfd:       11 events: 8000201d data: deadbeef0000000b  pos:0 ino:3039 sdev:9";
        let says = Some((0x8000_201d, 0xdead_beef_0000_000b));
        assert_eq!(watched(line, 11, 0x3039), says);
        assert_eq!(watched(line, 12, 0x3039), None);
        assert_eq!(watched(line, 11, 0x3038), None);
        let old = b"tfd:       11 events:       19 data:                b";
        assert_eq!(watched(old, 11, 7), Some((0x19, 11)));
        for line in [
            &b"pos:\t0"[..],
            b"flags:\t02",
            b"",
            b"tfd: 11 events: data: 1",
        ] {
            assert_eq!(watched(line, 11, 7), None);
        }
    }

    #[test]
    fn a_set_watches_what_comes_into_the_place_of_a_socket() {
        // SAFETY: no pointers.
        let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        let [one, other] = sys::socketpair().unwrap();
        let copy = sys::fcntl(one, libc::F_DUPFD_CLOEXEC, 0).unwrap();
        let [third, fourth] = sys::socketpair().unwrap();
        let events = libc::EPOLLIN as u32 | libc::EPOLLET as u32;
        sys::epoll_add(set, one, events, 1 << 40 | 7).unwrap();
        let watches = Watches::take(one);
        let w = watches.list[0];
        assert_eq!((watches.count, w.set, w.word), (1, set, 1 << 40 | 7));
        // It is no longer there, though a copy is open.
        assert_eq!(Watches::take(one).count, 0);
        sys::dup3(third, one, libc::O_CLOEXEC).unwrap();
        watches.give(one);
        let again = Watches::take(one);
        assert_eq!((again.count, again.list[0].events & events), (1, events));
        again.give(one);
        assert_eq!(Watches::take(other).count, 0);
        [set, one, other, copy, third, fourth]
            .into_iter()
            .for_each(sys::close);
    }
}

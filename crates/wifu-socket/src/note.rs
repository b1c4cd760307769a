//! Notes on standard error: one line each, once per process, without allocation. Where descriptor 2
//! is something else by now, they would be data in a file or on a connection: then nothing is said.

use crate::config::{Notes, config};
use crate::sys;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Something said at most once.
pub struct Once(AtomicBool);

impl Once {
    /// A text that was not said yet.
    #[expect(clippy::new_without_default, reason = "needed in statics only")]
    pub const fn new() -> Once {
        Once(AtomicBool::new(false))
    }

    /// Says it, unless it was said before.
    pub fn say(&self, text: core::fmt::Arguments<'_>) {
        if !self.0.swap(true, Ordering::Relaxed) {
            line(text);
        }
    }
}

/// Says once per level and option that it is unsupported.
pub fn unsupported(what: &str, level: i32, name: i32) {
    // A collision hides a note, which is better than repeating one.
    static SEEN: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
    let slot = (level.wrapping_mul(31).wrapping_add(name) as u32 % 256) as usize;
    let bit = 1 << (slot % 64);
    if SEEN[slot / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        match called(level, name) {
            Some(known) => line(format_args!("{what} of {known} is not supported")),
            None => line(format_args!(
                "{what} of option {name} at level {level} is not supported"
            )),
        }
    }
}

/// The name of an option that some programs set and that does nothing here.
fn called(level: i32, name: i32) -> Option<&'static str> {
    Some(match (level, name) {
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => "IPV6_V6ONLY",
        (libc::IPPROTO_IP, libc::IP_OPTIONS) => "IP_OPTIONS",
        (libc::SOL_SOCKET, libc::SO_BINDTODEVICE) => "SO_BINDTODEVICE",
        (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER) => "SO_ATTACH_FILTER",
        (libc::IPPROTO_TCP, libc::TCP_MD5SIG) => "TCP_MD5SIG",
        (libc::IPPROTO_TCP, libc::TCP_REPAIR) => "TCP_REPAIR",
        (libc::IPPROTO_TCP, libc::TCP_ULP) => "TCP_ULP",
        _ => return None,
    })
}

/// Whether descriptor 2 is for notes.
fn is_heard() -> bool {
    match config().notes() {
        Notes::Always => true,
        Notes::Never => false,
        Notes::While(device, inode) => {
            sys::identity(2) == Ok((device, inode)) || sys::is_terminal(2)
        }
    }
}

fn line(text: core::fmt::Arguments<'_>) {
    if !is_heard() {
        return;
    }
    let mut l = Line { b: [0; 512], n: 0 };
    // What doesn't fit is cut off.
    let _ = write!(l, "wifu: {text}");
    let n = l.n.min(l.b.len() - 1);
    l.b[n] = b'\n';
    sys::write_stderr(&l.b[..=n]);
}

struct Line {
    b: [u8; 512],
    n: usize,
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        let n = s.len().min(self.b.len() - self.n);
        self.b[self.n..self.n + n].copy_from_slice(&s.as_bytes()[..n]);
        self.n += n;
        Ok(())
    }
}

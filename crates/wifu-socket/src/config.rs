//! What the environment says, read once: programs such as nginx clear theirs.

use crate::sys;
use core::cell::UnsafeCell;
use core::fmt::Write;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use wifu_wire::front;

/// Names the composition of new sockets: `tcp-newreno,iw=4`.
pub const ENV_PROTOCOL: &core::ffi::CStr = c"WIFU_PROTOCOL";
/// Names the daemon's socket.
pub const ENV_SOCKET: &core::ffi::CStr = c"WIFU_SOCKET";
/// Whether the library says what it has to say: `always`, `never`, or as long as descriptor 2 is
/// the file with this device and inode, as in `12:3456`.
pub const ENV_NOTES: &core::ffi::CStr = c"WIFU_NOTES";
/// The composition of sockets for which nothing else is said.
pub const DEFAULT_SPEC: &str = "tcp-newreno";

/// Bytes of fixed room.
#[derive(Clone, Copy)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    /// Empty, to be filled once the environment is read.
    #[expect(clippy::new_without_default, reason = "needed in statics only")]
    pub const fn new() -> Text<N> {
        Text {
            bytes: [0; N],
            len: 0,
        }
    }

    /// The text; empty if it isn't UTF-8.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }

    /// The text as bytes, without a closing zero.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn set(&mut self, b: &[u8]) -> bool {
        let fits = b.len() <= N;
        if fits {
            self.bytes[..b.len()].copy_from_slice(b);
            self.len = b.len();
        }
        fits
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        let end = self.len + s.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(core::fmt::Error)?;
        room.copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Where notes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notes {
    /// To descriptor 2, whatever it is.
    Always,
    /// Nowhere.
    Never,
    /// To descriptor 2 while it is this file, by device and inode, or a terminal: programs put
    /// files and connections in its place, where a note would be data.
    While(u64, u64),
}

impl Notes {
    /// What the environment says; without a word, the file that descriptor 2 is now.
    fn read(text: Option<&[u8]>) -> Notes {
        let text = text.and_then(|t| core::str::from_utf8(t).ok());
        let pair = text.and_then(|t| t.split_once(':'));
        let numbers = pair.and_then(|(d, i)| Some((d.parse().ok()?, i.parse().ok()?)));
        match (text, numbers) {
            (Some("always"), _) => Notes::Always,
            (Some("never"), _) => Notes::Never,
            (_, Some((device, inode))) => Notes::While(device, inode),
            _ => sys::identity(2).map_or(Notes::While(0, 0), |(d, i)| Notes::While(d, i)),
        }
    }
}

/// What the environment said.
pub struct Config {
    spec: Text<{ front::MAX_SPEC }>,
    path: Text<107>,
    wanted: bool,
    notes: Notes,
}

impl Config {
    /// Where notes go ([`ENV_NOTES`]).
    pub fn notes(&self) -> Notes {
        self.notes
    }

    /// The composition that sockets get (`WIFU_PROTOCOL`), such as `tcp-cubic,iw=10`.
    pub fn spec(&self) -> &str {
        self.spec.as_str()
    }

    /// Whether [`ENV_PROTOCOL`] is set, so that the preloaded library carries new sockets.
    pub fn wanted(&self) -> bool {
        self.wanted
    }

    /// Path of the daemon's socket; by default one per network namespace.
    pub fn path(&self) -> Text<107> {
        if self.path.len > 0 {
            return self.path;
        }
        let mut path = Text::new();
        let inode = namespace().unwrap_or_else(|| NAMESPACE.load(Ordering::Relaxed));
        // 107 bytes hold any number.
        let _ = write!(path, "/run/wifu/{inode}/daemon.sock");
        path
    }
}

/// The number of the network namespace, for when /proc is out of reach.
static NAMESPACE: AtomicU64 = AtomicU64::new(0);

fn namespace() -> Option<u64> {
    let there = sys::stat(b"/proc/self/ns/net\0").ok();
    there.map(|(inode, _)| inode)
}

/// Keeps the number of the network namespace: /proc may be gone from now on.
pub fn remember_namespace() {
    if let Some(inode) = namespace() {
        NAMESPACE.store(inode, Ordering::Relaxed);
    }
}

struct Shared(UnsafeCell<Config>);

// SAFETY: written by the one thread that moved STATE from EMPTY to WRITING, and read only after
// STATE is READY.
unsafe impl Sync for Shared {}

const EMPTY: u8 = 0;
const WRITING: u8 = 1;
const READY: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(EMPTY);
static CONFIG: Shared = Shared(UnsafeCell::new(Config {
    spec: Text::new(),
    path: Text::new(),
    wanted: false,
    notes: Notes::Never,
}));

/// The configuration, read at the first call.
pub fn config() -> &'static Config {
    while STATE.load(Ordering::Acquire) != READY {
        match STATE.compare_exchange(EMPTY, WRITING, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                // SAFETY: this thread alone moved STATE to WRITING; nobody reads before READY.
                fill(unsafe { &mut *CONFIG.0.get() });
                STATE.store(READY, Ordering::Release);
            }
            Err(_) => core::hint::spin_loop(),
        }
    }
    // SAFETY: READY: nobody writes any more.
    unsafe { &*CONFIG.0.get() }
}

fn fill(c: &mut Config) {
    let protocol = variable(ENV_PROTOCOL);
    c.wanted = protocol.is_some_and(|p| !p.is_empty());
    let spec = protocol
        .filter(|p| !p.is_empty())
        .unwrap_or(DEFAULT_SPEC.as_bytes());
    if !c.spec.set(spec) {
        // Too long for any composition: let the daemon refuse it by name.
        c.spec.set(&spec[..front::MAX_SPEC]);
    }
    c.notes = Notes::read(variable(ENV_NOTES));
    if let Some(path) = variable(ENV_SOCKET) {
        c.path.set(path);
    }
}

fn variable(name: &core::ffi::CStr) -> Option<&'static [u8]> {
    // SAFETY: the name ends with a NUL. The value is copied at once by the only caller; a program
    // that changes its environment in another thread meanwhile breaks libc's own rules.
    unsafe {
        let p = libc::getenv(name.as_ptr());
        (!p.is_null()).then(|| core::ffi::CStr::from_ptr(p).to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_notes_go_is_one_of_three() {
        let read = |t: &str| Notes::read(Some(t.as_bytes()));
        assert_eq!(read("always"), Notes::Always);
        assert_eq!(read("never"), Notes::Never);
        assert_eq!(read("12:3456"), Notes::While(12, 3456));
        let (device, inode) = sys::identity(2).unwrap();
        for odd in [
            Some(&b"12"[..]),
            Some(b"a:b"),
            Some(b"\xff"),
            Some(b""),
            None,
        ] {
            assert_eq!(Notes::read(odd), Notes::While(device, inode));
        }
    }
}

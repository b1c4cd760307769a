//! What marks a socket as ours: a value in the socket itself, in an option that AF_UNIX stores and
//! ignores. So copies by `dup`, `fork`, `exec` and descriptor passing keep it, and no table in the
//! process can disagree with the kernel.

use crate::sys::{self, Result};
use core::ffi::c_int;
use wifu_wire::front::Options;

/// Not in the libc crate for all targets; Linux has one number for all but SPARC and PA-RISC.
const SO_MAX_PACING_RATE: c_int = 47;

/// "WiFu" in the upper half. As a pacing rate this is 6.3 EB/s, which nobody sets.
const MAGIC: u64 = 0x5769_4675 << 32;

/// The lower half: small facts that must be known without asking the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tag(u32);

impl Tag {
    /// A non-blocking connect has begun and its end was not yet reported.
    pub const CONNECTING: Tag = Tag(1);
    /// `TCP_NODELAY`.
    pub const NODELAY: Tag = Tag(2);
    /// `SO_LINGER` with time 0.
    pub const LINGER0: Tag = Tag(4);
    /// Made by `socket(AF_INET6)`: addresses of IPv4 are mapped ones.
    pub const V6: Tag = Tag(8);
    /// `IPV6_V6ONLY`.
    pub const V6ONLY: Tag = Tag(16);

    /// Whether all bits of `o` are set.
    pub fn has(self, o: Tag) -> bool {
        self.0 & o.0 == o.0
    }

    /// With the bits of `o` set or cleared.
    pub fn set(self, o: Tag, on: bool) -> Tag {
        Tag(if on { self.0 | o.0 } else { self.0 & !o.0 })
    }

    /// `SO_SNDBUF` was set so small that the kernel's own buffer has that size, too.
    pub const SMALL: Tag = Tag(32);

    /// `SO_REUSEPORT`.
    pub const SHARED: Tag = Tag(64);

    /// Whether the `nth` of the options that the kernel keeps in the socket was set, of sixteen.
    pub fn tuned(self, nth: usize) -> bool {
        self.0 >> 16 >> nth & 1 != 0
    }

    /// With the `nth` of them set.
    pub fn tune(self, nth: usize) -> Tag {
        Tag(self.0 | 1 << 16 << nth)
    }

    /// The IP protocol number given to `wifu_socket`, 0 if none.
    pub fn protocol(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// With this IP protocol number.
    pub fn with_protocol(self, n: u8) -> Tag {
        Tag(self.0 & !0xff00 | u32::from(n) << 8)
    }

    /// What an accepted socket inherits from its listening one.
    pub fn inherited(self) -> Tag {
        self.set(Tag::CONNECTING, false)
    }

    /// The bits that the daemon wants to know.
    pub fn options(self) -> Options {
        let mut o = Options::default();
        if self.has(Tag::NODELAY) {
            o = o.with(Options::NODELAY);
        }
        if self.has(Tag::LINGER0) {
            o = o.with(Options::LINGER0);
        }
        if self.has(Tag::SHARED) {
            o = o.with(Options::SHARED);
        }
        o
    }

    /// The tag of a descriptor, or `None` if it is not ours.
    pub fn read(fd: c_int) -> Option<Tag> {
        let v: u64 = sys::getsockopt(fd, libc::SOL_SOCKET, SO_MAX_PACING_RATE).ok()?;
        (v & (u64::MAX << 32) == MAGIC).then_some(Tag(v as u32))
    }

    /// Stores the tag in the descriptor itself, where every process that has it finds it.
    pub fn write(self, fd: c_int) -> Result<()> {
        let v = MAGIC | u64::from(self.0);
        sys::setsockopt(fd, libc::SOL_SOCKET, SO_MAX_PACING_RATE, v)
    }
}

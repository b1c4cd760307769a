//! Socket options that go with a question, as bits.

/// Socket options that the library knows without asking the daemon, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options(pub u32);

impl Options {
    /// `TCP_NODELAY`.
    pub const NODELAY: Options = Options(1);
    /// `SO_LINGER` with time 0: close destroys the connection.
    pub const LINGER0: Options = Options(2);
    /// The application's send buffer is too small for a held byte (see the crate `wifu-socket`).
    pub const NO_HOLD: Options = Options(4);
    /// `SO_REUSEPORT`: listening sockets of one user may share an address.
    pub const SHARED: Options = Options(8);

    /// A socket that listens takes connections of IPv6, too: `::` is its address as well as
    /// 0.0.0.0.
    pub const DUAL: Options = Options(16);

    /// Which of the names of its address a listening socket has
    /// ([`Name::service_nth`](super::Name::service_nth)).
    pub const fn nth(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// With this one.
    pub const fn with_nth(self, nth: u8) -> Options {
        Options(self.0 & 0x00ff_ffff | (nth as u32) << 24)
    }

    /// Whether all bits of `o` are set.
    pub const fn has(self, o: Options) -> bool {
        self.0 & o.0 == o.0
    }

    /// Both sets together.
    pub const fn with(self, o: Options) -> Options {
        Options(self.0 | o.0)
    }
}

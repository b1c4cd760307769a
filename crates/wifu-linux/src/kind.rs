//! What kinds of carriers there are.

/// The kinds of carriers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Raw sockets.
    Raw,
    /// A TUN device.
    Tun,
    /// A UDP socket.
    Udp,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Raw, Kind::Tun, Kind::Udp];

    /// As `--carrier` and compositions name it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Raw => "raw",
            Kind::Tun => "tun",
            Kind::Udp => "udp",
        }
    }
}

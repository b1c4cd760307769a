//! A socket of the stack, as the application's descriptor names it.

use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::{BTreeMap, VecDeque};
use wifu_engine::{ConnId, Fault, ListenId};

/// What a descriptor stands for.
pub(super) enum Role {
    /// Neither listens nor connects.
    Fresh,
    /// Takes connections.
    Listening {
        id: ListenId,
        /// Most that are half open.
        backlog: usize,
        /// Opened and not accepted yet, oldest first.
        queue: VecDeque<ConnId>,
    },
    /// One connection.
    Connection(ConnId),
    /// A `connect` failed: there is no connection any more.
    Failed,
}

/// What one descriptor of a script stands for.
pub(super) struct Socket {
    pub(super) role: Role,
    /// `O_NONBLOCK`.
    pub(super) nonblocking: bool,
    pub(super) local: SocketAddrV4,
    pub(super) remote: Option<SocketAddrV4>,
    /// Parameters of the composition that options set, in their order.
    pub(super) params: Vec<(String, String)>,
    /// Another composition than the stack's.
    pub(super) protocol: Option<String>,
    /// Options that are kept for whoever reads them back: by level and name.
    pub(super) kept: BTreeMap<(i32, i32), i32>,
    /// `SO_LINGER` with time 0: `close` destroys the connection.
    pub(super) linger0: bool,
    /// The application reads no more.
    pub(super) deaf: bool,
    /// The application writes no more.
    pub(super) mute: bool,
    /// `connect` was begun and nobody was told how it ended.
    pub(super) connecting: bool,
    /// What the next call, or `SO_ERROR`, is told.
    pub(super) error: Option<i32>,
}

impl Socket {
    pub(super) fn new() -> Socket {
        Socket {
            role: Role::Fresh,
            nonblocking: false,
            local: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
            remote: None,
            params: Vec::new(),
            protocol: None,
            kept: BTreeMap::new(),
            linger0: false,
            deaf: false,
            mute: false,
            connecting: false,
            error: None,
        }
    }

    /// Of an accepted connection.
    pub(super) fn accepted(id: ConnId, ends: (SocketAddrV4, SocketAddrV4)) -> Socket {
        Socket {
            role: Role::Connection(id),
            local: ends.0,
            remote: Some(ends.1),
            ..Socket::new()
        }
    }

    /// Its connection, if it has one.
    pub(super) fn conn(&self) -> Option<ConnId> {
        match self.role {
            Role::Connection(id) => Some(id),
            _ => None,
        }
    }

    /// Sets a parameter; the last value counts.
    pub(super) fn set_param(&mut self, name: &str, value: &str) {
        self.params.retain(|(n, _)| n != name);
        self.params.push((name.into(), value.into()));
    }
}

/// What happened to a connection so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Life {
    /// It opened.
    pub(super) open: bool,
    /// The peer sends no more.
    pub(super) peer_ended: bool,
    /// It is over, with its fault if it ended badly.
    pub(super) over: Option<Option<Fault>>,
    /// Somebody was told of the fault.
    pub(super) told: bool,
}

/// The error number of a fault.
pub(super) fn errno(fault: Fault, connecting: bool) -> i32 {
    match fault {
        Fault::Refused => libc::ECONNREFUSED,
        // A RST in answer to a SYN is a refusal, whatever the manager calls it.
        Fault::Reset if connecting => libc::ECONNREFUSED,
        Fault::Reset => libc::ECONNRESET,
        Fault::TimedOut => libc::ETIMEDOUT,
        Fault::Aborted => libc::ECONNABORTED,
    }
}

//! The stores: where the data of a connection waits. They belong to the engine; parts borrow them
//! through [`crate::component::Lent`], by grant.

mod inbox;
mod octets;
mod packets;
mod receive;
mod records;
mod ring;

pub use inbox::{Accepted, Inbox};
pub use octets::SendRing;
pub use packets::{Packets, Ticket};
pub use receive::{Insert, RANGES, Reassembly};
pub use records::Records;

use crate::board::Board;
use wifu_wire::Seq;

/// Which store a composition uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// A stream of octets.
    Octets,
    /// Octets cut once into numbered packets, never re-cut.
    Records,
    /// Whole packets by ticket: the lanes of hop protocols.
    Packets,
}

impl StoreKind {
    /// The name in compositions.
    pub fn name(self) -> &'static str {
        match self {
            StoreKind::Octets => "octets",
            StoreKind::Records => "records",
            StoreKind::Packets => "packets",
        }
    }

    /// What sequence numbers count.
    pub fn unit(self) -> &'static str {
        match self {
            StoreKind::Octets => "octets",
            StoreKind::Records | StoreKind::Packets => "packets",
        }
    }
}

/// The sending half of a store.
#[derive(Debug)]
pub enum SendStore {
    /// See [`StoreKind::Octets`].
    Octets(SendRing),
    /// See [`StoreKind::Records`].
    Records(Records),
    /// See [`StoreKind::Packets`].
    Packets(Packets),
}

/// Both halves. Attached when the connection opens, so that an embryonic connection costs little.
#[derive(Debug)]
pub struct Store {
    /// What the application wrote.
    pub tx: SendStore,
    /// What came for the application.
    pub rx: Reassembly,
    /// Of records: what came beyond a hole.
    pub inbox: Option<Inbox>,
}

/// What is needed to make the stores of a connection.
#[derive(Clone, Copy, Debug)]
pub struct StorePlan {
    /// Which store.
    pub kind: StoreKind,
    /// Packets that a packet store holds.
    pub packets: usize,
}

impl StorePlan {
    pub(crate) fn build(&self, board: &Board, first: Seq, receive: Seq) -> Store {
        let snd = board.site.snd_buf;
        let tx = match self.kind {
            StoreKind::Octets => SendStore::Octets(SendRing::new(snd, first)),
            StoreKind::Records => SendStore::Records(Records::new(snd, board.conn.mss, first)),
            StoreKind::Packets => SendStore::Packets(Packets::new(self.packets)),
        };
        let rcv = if self.kind == StoreKind::Packets {
            0
        } else {
            board.site.rcv_buf
        };
        let records = self.kind == StoreKind::Records;
        // A record comes whole: with less room than that for one nothing ever would.
        let rcv = if records {
            rcv.max(board.conn.mss)
        } else {
            rcv
        };
        Store {
            tx,
            rx: Reassembly::new(rcv, receive),
            inbox: records.then(|| Inbox::new(rcv, board.conn.mss, receive)),
        }
    }
}

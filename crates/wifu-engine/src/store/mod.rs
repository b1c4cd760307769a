//! The stores: where the data of a connection waits. They belong to the engine; parts borrow them
//! through [`crate::component::Lent`], by grant.

mod octets;
mod packets;
mod receive;
mod records;

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
        Store {
            tx,
            rx: Reassembly::new(rcv, receive),
        }
    }
}

/// A ring of octets: memory is a power of two, so that positions wrap with a mask.
#[derive(Debug)]
pub(crate) struct Ring {
    memory: Box<[u8]>,
}

impl Ring {
    /// Room for at least `octets`. Zeroed memory of this size comes lazily from the kernel, so
    /// that a buffer costs only what is touched.
    pub(crate) fn new(octets: u32) -> Ring {
        Ring {
            memory: vec![0; (octets as usize).max(1).next_power_of_two()].into(),
        }
    }

    fn at(&self, position: u32) -> usize {
        position as usize & (self.memory.len() - 1)
    }

    /// `len` octets from `position`, in two pieces.
    pub(crate) fn pieces(&self, position: u32, len: u32) -> [&[u8]; 2] {
        let (at, len) = (self.at(position), len as usize);
        let first = len.min(self.memory.len() - at);
        [&self.memory[at..at + first], &self.memory[..len - first]]
    }

    /// The same, to write into.
    pub(crate) fn pieces_mut(&mut self, position: u32, len: u32) -> [&mut [u8]; 2] {
        let (at, len) = (self.at(position), len as usize);
        let first = len.min(self.memory.len() - at);
        let (low, high) = self.memory.split_at_mut(at);
        let rest = (len - first).min(low.len());
        [&mut high[..first], &mut low[..rest]]
    }

    /// Copy `bytes` to `position`.
    pub(crate) fn put(&mut self, position: u32, bytes: &[u8]) {
        let [a, b] = self.pieces_mut(position, bytes.len() as u32);
        let cut = a.len();
        a.copy_from_slice(&bytes[..cut]);
        b.copy_from_slice(&bytes[cut..]);
    }
}

//! Packets at a daemon's node, in memory that is used again.

use wifu_core::ip;
use wifu_engine::Ticket;
use wifu_wire::ipv4::{self, HEADER, IpInfo};

/// How a packet came to the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Came {
    /// The node's own end, handlers or lanes sent it.
    Own,
    /// By the kernel's IP layer: it is for this host.
    Host,
    /// Over a link, and its TTL has not been lowered here.
    Link,
    /// The same, and it was for all stations.
    All,
}

struct Entry {
    octets: Vec<u8>,
    len: usize,
    came: Came,
    own: bool,
    /// Somebody keeps it: it is on no way.
    kept: bool,
    live: bool,
}

/// Packets by ticket.
pub(crate) struct Store {
    entries: Vec<Entry>,
    free: Vec<u32>,
    mtu: usize,
}

impl Store {
    /// For packets of up to `mtu` octets.
    pub(crate) fn new(mtu: usize) -> Store {
        Store {
            entries: Vec::new(),
            free: Vec::new(),
            mtu,
        }
    }

    /// An empty packet, to be written into.
    pub(crate) fn insert(&mut self, came: Came) -> Ticket {
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry {
                octets: vec![0; self.mtu],
                len: 0,
                came,
                own: false,
                kept: false,
                live: false,
            });
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[id as usize];
        (entry.len, entry.came, entry.kept, entry.live) = (0, came, false, true);
        entry.own = came == Came::Own;
        Ticket(id)
    }

    /// A packet with these octets; `None` if they are no IPv4 packet, or more than the MTU.
    pub(crate) fn copy_of(&mut self, octets: &[u8], came: Came) -> Option<Ticket> {
        ip::header(octets).filter(|_| octets.len() <= self.mtu)?;
        let ticket = self.insert(came);
        self.write(ticket, octets);
        Some(ticket)
    }

    /// A packet with this header's facts; `None` if it is longer than the MTU.
    pub(crate) fn segment(&mut self, ip: &IpInfo, segment: &[u8], came: Came) -> Option<Ticket> {
        let len = HEADER + segment.len();
        if len > self.mtu {
            return None;
        }
        let ticket = self.insert(came);
        let room = self.room(ticket);
        room[HEADER..len].copy_from_slice(segment);
        ipv4::emit(ip, segment.len(), room);
        self.set_len(ticket, len);
        Some(ticket)
    }

    /// Octets of the longest packet.
    pub(crate) fn mtu(&self) -> usize {
        self.mtu
    }

    fn write(&mut self, packet: Ticket, octets: &[u8]) {
        let entry = &mut self.entries[packet.0 as usize];
        entry.octets[..octets.len()].copy_from_slice(octets);
        entry.len = octets.len();
    }

    /// Another octets; false, and nothing changed, if they are no packet or too many.
    pub(crate) fn rewrite(&mut self, packet: Ticket, octets: &[u8]) -> bool {
        let fits = (HEADER..=self.mtu).contains(&octets.len());
        if fits {
            self.write(packet, octets);
        }
        fits
    }

    /// A further packet of the same content.
    pub(crate) fn again(&mut self, packet: Ticket, kept: bool) -> Ticket {
        let Entry { came, own, .. } = self.entries[packet.0 as usize];
        let next = self.insert(came);
        let octets = core::mem::take(&mut self.entries[packet.0 as usize].octets);
        let len = self.entries[packet.0 as usize].len;
        self.write(next, &octets[..len]);
        self.entries[packet.0 as usize].octets = octets;
        let entry = &mut self.entries[next.0 as usize];
        (entry.own, entry.kept) = (own, kept);
        next
    }

    /// The packet's octets.
    pub(crate) fn octets(&self, packet: Ticket) -> &[u8] {
        let entry = &self.entries[packet.0 as usize];
        &entry.octets[..entry.len]
    }

    /// The same, to be changed.
    pub(crate) fn octets_mut(&mut self, packet: Ticket) -> &mut [u8] {
        let entry = &mut self.entries[packet.0 as usize];
        &mut entry.octets[..entry.len]
    }

    /// All memory of a packet, which is `len` long from now on when that is said by
    /// [`Store::set_len`].
    pub(crate) fn room(&mut self, packet: Ticket) -> &mut [u8] {
        &mut self.entries[packet.0 as usize].octets
    }

    /// It is so long.
    pub(crate) fn set_len(&mut self, packet: Ticket, len: usize) {
        self.entries[packet.0 as usize].len = len;
    }

    pub(crate) fn came(&self, packet: Ticket) -> Came {
        self.entries[packet.0 as usize].came
    }

    pub(crate) fn set_came(&mut self, packet: Ticket, came: Came) {
        self.entries[packet.0 as usize].came = came;
    }

    /// The node's own end sent it.
    pub(crate) fn is_own(&self, packet: Ticket) -> bool {
        self.entries[packet.0 as usize].own
    }

    pub(crate) fn is_kept(&self, packet: Ticket) -> bool {
        self.entries[packet.0 as usize].kept
    }

    pub(crate) fn keep(&mut self, packet: Ticket, kept: bool) {
        self.entries[packet.0 as usize].kept = kept;
    }

    /// Nobody has it any more.
    pub(crate) fn release(&mut self, packet: Ticket) {
        let entry = &mut self.entries[packet.0 as usize];
        debug_assert!(entry.live, "packet {} released twice", packet.0);
        entry.live = false;
        self.free.push(packet.0);
    }
}

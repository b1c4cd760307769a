//! What the lane and the ends of a protocol of hops share: the words that each node writes on data,
//! and whom a node believes (HxH thesis 2, Behaviour 10.1).

use crate::component::{Cx, Segment};
use crate::descriptor::WordSpec;
use wifu_wire::{Word, hxh};

/// What the packet is: a number of [`hxh`].
pub const TYPE: WordSpec = WordSpec::new("type", 4);
/// All packets up to this number reached the destination, as far as the transmitter knows.
pub const PACK: WordSpec = WordSpec::new("pack", 32).by_hops();
/// Packets that the transmitter takes beyond those it has.
pub const CREDITS: WordSpec = WordSpec::new("credits", 16).by_hops();
/// The destination acknowledges each packet to the node before it, which keeps it so long.
pub const LH: WordSpec = WordSpec::new("lh", 1);
/// The source sends it again.
pub const RTX: WordSpec = WordSpec::new("rtx", 1);
/// The largest payload that an end takes, bytes: on SYN and SYNACK.
pub const MSS: WordSpec = WordSpec::new("mss", 16);
/// Who transmits this copy: the runner of lanes writes it.
pub const TRANSMITTER: WordSpec = WordSpec::transmitter("transmitter");

/// Whether the next hop sent this on, data of the flow that this node sends. Where substrates do
/// not tell of next hops and transmitters ([`crate::Fact`]), nothing ever is.
pub fn is_next(seg: &Segment<'_>, kind: Word, cx: &Cx<'_>) -> bool {
    let from = seg.frame.transmitter;
    let data = seg.frame.along && seg.head.get(kind) == hxh::DATA;
    data && from.is_some() && from == cx.board.site.next_hop
}

/// Packets of a queue of so many places that its node says it takes while it has `taken`: half of
/// the rest, because who hears nothing sends all the same (Behaviour 10.2).
pub fn advertised(places: u32, taken: u32) -> u32 {
    places.saturating_sub(taken) / 2
}

//! Who looks on: captures at nodes and on the air. A tap changes nothing.

use wifu_radio::OnAir;
use wifu_radio::phy::Mode;
use wifu_wire::Time;
use wifu_wire::pcapng::Direction;

/// An IP packet at a node.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The node's number.
    pub node: u16,
    /// Since the start of the run.
    pub at: Time,
    /// In: it arrived over a link. Out: it is handed to a link.
    pub direction: Direction,
    /// The node at the other end of the link.
    pub peer: u16,
    /// How it was received, if by radio.
    pub radio: Option<RadioFacts>,
    /// The packet from its IP header on, as it looks here.
    pub bytes: &'a [u8],
}

/// How a frame was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RadioFacts {
    /// Received power, dBm.
    pub rssi_dbm: i8,
    /// Rate.
    pub mode: Mode,
}

/// Looks on.
pub trait Tap {
    /// A packet at a node.
    fn packet(&mut self, seen: &Seen<'_>);

    /// A transmission began; with the packet in it, for data. Called if [`Tap::wants_air`].
    fn aired(&mut self, _frame: &OnAir, _packet: Option<&[u8]>) {}

    /// Whether it wants [`Tap::aired`]. Asked once.
    fn wants_air(&self) -> bool {
        false
    }
}

//! What only a substrate knows: facts of a way, of a frame and of a link layer. Where one is not
//! known it is absent, `None` or never said. A part or handler that cannot do without declares it
//! (`requires` of its descriptor) and is refused where nobody tells it; one that declares nothing
//! has a behaviour of its own for the absence.

use crate::params::Value;
use core::fmt;

/// A fact that a part or a handler may require.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Fact {
    /// Device and link-layer address of the next hop: [`crate::board::SiteFacts::next_hop`], with
    /// `last_hop`; of handlers, `Site::next_hop`.
    NextHop,
    /// Hops to the peer by the routing table: [`crate::board::SiteFacts::route_hops`]; of handlers,
    /// `NextHop::hops`.
    RouteHops,
    /// Rate of unicast data on the link to the next hop: [`crate::board::SiteFacts::rate`].
    SiteRate,
    /// Carrier-sense threshold, dBm: [`crate::board::SiteFacts::sense_dbm`].
    Sense,
    /// Transmit power, dBm: [`crate::board::SiteFacts::tx_power_dbm`].
    TxPower,
    /// Received signal strength of a frame, dBm: [`wifu_wire::FrameFacts::rssi_dbm`].
    Rssi,
    /// Data rate of a frame: [`wifu_wire::FrameFacts::rate`].
    FrameRate,
    /// Who transmitted a frame: [`wifu_wire::FrameFacts::transmitter`].
    Transmitter,
    /// When the device received a frame: [`wifu_wire::FrameFacts::received`].
    Received,
    /// Frames for other stations: the hook `overheard`.
    Overheard,
    /// What became of a transmission: [`crate::Signal::Status`]; of handlers, `on_tx_status`.
    Status,
    /// Average delay of the link layer and its last sample: [`wifu_wire::LinkFacts::delay`].
    LinkDelay,
    /// Packets in the driver's queue: [`wifu_wire::LinkFacts::queued`].
    LinkQueued,
    /// Packets that the driver's queue takes: [`wifu_wire::LinkFacts::room`].
    LinkRoom,
    /// When the driver last reported: [`wifu_wire::LinkFacts::last_done`].
    LinkDone,
    /// Share of time during which the medium is busy: [`wifu_wire::LinkFacts::busy`].
    LinkBusy,
    /// Rate of unicast data: [`wifu_wire::LinkFacts::rate`].
    LinkRate,
}

/// Who can read a fact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Readers {
    Parts,
    Handlers,
    Both,
}

impl Fact {
    /// All, in the order of the documentation.
    pub const ALL: [Fact; 17] = [
        Fact::NextHop,
        Fact::RouteHops,
        Fact::SiteRate,
        Fact::Sense,
        Fact::TxPower,
        Fact::Rssi,
        Fact::FrameRate,
        Fact::Transmitter,
        Fact::Received,
        Fact::Overheard,
        Fact::Status,
        Fact::LinkDelay,
        Fact::LinkQueued,
        Fact::LinkRoom,
        Fact::LinkDone,
        Fact::LinkBusy,
        Fact::LinkRate,
    ];

    const fn row(self) -> (&'static str, &'static str, Readers) {
        use Readers::{Both, Handlers, Parts};
        match self {
            Fact::NextHop => ("site.next_hop", "the next hop", Both),
            Fact::RouteHops => ("site.route_hops", "hops by the routing table", Both),
            Fact::SiteRate => ("site.rate", "rate of the link to the next hop", Parts),
            Fact::Sense => ("site.sense_dbm", "carrier-sense threshold", Parts),
            Fact::TxPower => ("site.tx_power_dbm", "transmit power", Parts),
            Fact::Rssi => ("frame.rssi_dbm", "received signal strength", Both),
            Fact::FrameRate => ("frame.rate", "data rate of a frame", Both),
            Fact::Transmitter => ("frame.transmitter", "who transmitted a frame", Both),
            Fact::Received => ("frame.received", "when a frame was received", Both),
            Fact::Overheard => ("overheard", "frames for other stations", Both),
            Fact::Status => ("status", "what became of transmissions", Both),
            Fact::LinkDelay => ("link.delay", "delay of the link layer", Handlers),
            Fact::LinkQueued => ("link.queued", "packets in the driver's queue", Handlers),
            Fact::LinkRoom => ("link.room", "room in the driver's queue", Handlers),
            Fact::LinkDone => ("link.last_done", "the driver's last report", Handlers),
            Fact::LinkBusy => ("link.busy", "how busy the medium is", Handlers),
            Fact::LinkRate => ("link.rate", "rate of unicast data", Handlers),
        }
    }

    /// Its name: the field of the board (`site`), of `seg.frame` or of `LinkFacts` (`link`), or the
    /// signal or hook by which it comes.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// What it is, a few words for people.
    pub const fn doc(self) -> &'static str {
        self.row().1
    }

    /// Whether parts can read it.
    pub const fn for_parts(self) -> bool {
        !matches!(self.row().2, Readers::Handlers)
    }

    /// Whether handlers can read it.
    pub const fn for_handlers(self) -> bool {
        !matches!(self.row().2, Readers::Parts)
    }
}

/// The name, and what it means: `frame.rssi_dbm (received signal strength)`.
impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.doc())
    }
}

/// A fact that a part acts upon and can do without.
#[derive(Clone, Copy, Debug)]
pub struct Preference {
    /// What it acts upon where a substrate tells it.
    pub fact: Fact,
    /// The parameter that stands in for it; if it is set, it takes precedence.
    pub param: Option<&'static str>,
    /// What the part does without both: a clause.
    pub then: &'static str,
}

impl Preference {
    /// Whether the part asks for the fact with these values of its parameters.
    pub fn counts(&self, values: &[(&'static str, Value)]) -> bool {
        let value = values.iter().find(|v| Some(v.0) == self.param);
        value.is_none_or(|v| v.1.is_auto())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fact_stands_once_in_the_list_and_has_a_name_of_its_own() {
        for (i, fact) in Fact::ALL.into_iter().enumerate() {
            assert_eq!(fact as usize, i);
            let same = Fact::ALL.iter().filter(|f| f.name() == fact.name());
            assert_eq!(same.count(), 1, "{fact}");
            assert!(fact.for_parts() || fact.for_handlers());
        }
    }
}

//! Who may send what, when: kinds, wants and permits.

use wifu_wire::Time;

/// What is to be sent, in order of precedence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Kind {
    /// SYN, RST: what makes and breaks connections.
    Control,
    /// An ACK that must leave before data.
    Urgent,
    /// The one segment that a recovery turns on.
    Rescue,
    /// Sent before, goes again in turn.
    Resend,
    /// New data, FIN included.
    New,
    /// Coded data outside sequence space.
    Repair,
    /// A question to a silent or closed peer.
    Probe,
    /// A bare acknowledgement.
    Ack,
}

impl Kind {
    /// All kinds, in order.
    pub const ALL: [Kind; 8] = [
        Kind::Control,
        Kind::Urgent,
        Kind::Rescue,
        Kind::Resend,
        Kind::New,
        Kind::Repair,
        Kind::Probe,
        Kind::Ack,
    ];

    /// Carries data.
    pub fn is_data(self) -> bool {
        matches!(self, Kind::Rescue | Kind::Resend | Kind::New | Kind::Repair)
    }

    /// Data that waits its turn: what windows and pacers restrict.
    pub fn in_turn(self) -> bool {
        matches!(self, Kind::Resend | Kind::New | Kind::Repair)
    }
}

/// Why a segment is retransmitted (the ResendPacket reasons of Behaviour 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reason {
    /// Sent for the first time.
    #[default]
    First,
    /// The retransmission timer fired.
    Timeout,
    /// Duplicate acknowledgements.
    DupAck,
    /// A partial acknowledgement in NewReno's recovery.
    Partial,
    /// The scoreboard says it is lost.
    Sack,
    /// A window probe.
    Probe,
}

impl Reason {
    /// The name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Reason::First => "",
            Reason::Timeout => "timeout",
            Reason::DupAck => "dupack",
            Reason::Partial => "partial",
            Reason::Sack => "sack",
            Reason::Probe => "probe",
        }
    }
}

/// What was binding when the sender stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Limit {
    /// Nothing.
    #[default]
    None,
    /// Nothing to send: who writes may write more, and does not.
    Source,
    /// All that there will be is sent, waiting for acknowledgements.
    Drain,
    /// All sent, waiting for acknowledgements, and the send buffer takes no further segment.
    Buffer,
    /// Not running.
    State,
    /// The congestion window.
    Window,
    /// The peer's window.
    Peer,
    /// A pacer.
    Pace,
    /// The driver's queue.
    Queue,
    /// Its host, which takes time for each packet.
    Host,
    /// The lane of its own node, which is full: it waits for the next node.
    Lane,
    /// A small segment waits for an acknowledgement (RFC 896).
    Nagle,
    /// No feedback: the way is asked for anew.
    Feedback,
    /// A part's own reason.
    Custom(u8),
}

impl Limit {
    /// How many stopwatches a connection keeps.
    pub const COUNT: usize = 14;

    /// Number of the stopwatch.
    pub fn index(self) -> usize {
        match self {
            Limit::None => 0,
            Limit::Source => 1,
            Limit::Drain => 2,
            Limit::Buffer => 3,
            Limit::State => 4,
            Limit::Window => 5,
            Limit::Peer => 6,
            Limit::Pace => 7,
            Limit::Queue => 8,
            Limit::Host => 9,
            Limit::Lane => 10,
            Limit::Nagle => 11,
            Limit::Feedback => 12,
            Limit::Custom(_) => 13,
        }
    }

    /// Names by [`Limit::index`].
    pub const NAMES: [&'static str; Limit::COUNT] = [
        "none", "source", "drain", "buffer", "state", "window", "peer", "pace", "queue", "host",
        "lane", "small", "feedback", "custom",
    ];

    /// Its name in reports and in the lab.
    pub fn name(self) -> &'static str {
        Limit::NAMES[self.index()]
    }
}

/// Something a source would like to send.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// What it is for: gates treat kinds differently.
    pub kind: Kind,
    /// How much sequence space at the most.
    pub bytes: u32,
    /// The smallest size worth sending; 0: no payload needed.
    pub least: u32,
}

impl Want {
    /// A segment without payload.
    pub const fn bare(kind: Kind) -> Want {
        Want {
            kind,
            bytes: 0,
            least: 0,
        }
    }
}

/// What one gate allows: not before a time, at most some bytes; each half names its limit.
/// Permits form a meet-semilattice (latest time x fewest bytes), so gates compose in any order.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// Earliest time.
    pub not_before: Time,
    /// Most octets.
    pub bytes: u32,
    /// Who said when.
    pub wait: Limit,
    /// Who said how much.
    pub size: Limit,
}

impl Permit {
    /// No restriction.
    pub const OPEN: Permit = Permit {
        not_before: Time::ZERO,
        wait: Limit::None,
        bytes: u32::MAX,
        size: Limit::None,
    };

    /// Not before `t`.
    pub fn at(t: Time, wait: Limit) -> Permit {
        Permit {
            not_before: t,
            wait,
            ..Permit::OPEN
        }
    }

    /// At most `bytes`.
    pub fn upto(bytes: u32, size: Limit) -> Permit {
        Permit {
            bytes,
            size,
            ..Permit::OPEN
        }
    }

    /// Not until some event opens it again.
    pub fn shut(why: Limit) -> Permit {
        Permit {
            not_before: Time::NEVER,
            wait: why,
            bytes: 0,
            size: why,
        }
    }

    /// Both restrictions together.
    pub fn and(self, o: Permit) -> Permit {
        let (not_before, wait) = if o.not_before > self.not_before {
            (o.not_before, o.wait)
        } else {
            (self.not_before, self.wait)
        };
        let (bytes, size) = if o.bytes < self.bytes {
            (o.bytes, o.size)
        } else {
            (self.bytes, self.size)
        };
        Permit {
            not_before,
            bytes,
            wait,
            size,
        }
    }

    /// Why not now, and when by itself. Shortage of bytes needs an event and so outranks waiting
    /// for a time.
    pub fn refuses(&self, want: &Want, now: Time) -> Option<(Limit, Time)> {
        if self.bytes < want.least {
            return Some((self.size, Time::NEVER));
        }
        (self.not_before > now).then_some((self.wait, self.not_before))
    }
}

const _: () = assert!(size_of::<Permit>() <= 16 && size_of::<Want>() <= 12);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_meet_in_any_order() {
        let a = Permit::at(Time(5), Limit::Pace);
        let b = Permit::upto(100, Limit::Window);
        let c = Permit::upto(50, Limit::Peer);
        assert_eq!(a.and(b).and(c), c.and(a).and(b));
        assert_eq!(a.and(b).and(c).bytes, 50);
        assert_eq!(Permit::OPEN.and(a), a);
    }

    #[test]
    fn a_want_larger_than_the_permit_is_cut_or_refused() {
        let p = Permit::upto(50, Limit::Window);
        let want = Want {
            kind: Kind::New,
            bytes: 100,
            least: 100,
        };
        assert_eq!(
            p.refuses(&want, Time(0)),
            Some((Limit::Window, Time::NEVER))
        );
        assert_eq!(p.refuses(&Want { least: 1, ..want }, Time(0)), None);
        let late = Permit::at(Time(9), Limit::Pace);
        assert_eq!(late.refuses(&want, Time(8)), Some((Limit::Pace, Time(9))));
    }
}

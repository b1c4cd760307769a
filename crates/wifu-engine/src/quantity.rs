//! Numbers of a connection by name: those on the board, and the probes of its parts. All that
//! records or shows them (the simulator's series, `wifu ss`, the lab) asks here.

use crate::blueprint::Blueprint;
use crate::board::{Board, Facts, RttFacts};
use crate::descriptor::Descriptor;
use crate::store::StoreKind;
use wifu_wire::{Span, names};

/// A number on the board.
#[derive(Debug)]
pub struct Quantity {
    /// Its name, in series and in `wifu ss`.
    pub name: &'static str,
    /// Of its values; empty for counts and for yes (1) and no (0).
    pub unit: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// The section that it is in: nobody knows it in a composition that has no writer of that.
    /// [`Facts::NONE`] if the engine writes it.
    pub section: Facts,
    /// It is of a retransmission timer: nobody knows it where who writes the section has none
    /// ([`Descriptor::times_out`]).
    pub timed: bool,
    /// It is a stretch of sequence space: packets where these are numbered. Not so the quantities
    /// that are bytes in every protocol, peaks and cumulative counts of data.
    pub sequence: bool,
    get: fn(&Board) -> Option<f64>,
}

impl Quantity {
    /// Its value; `None` while nobody knows it.
    pub fn of(&self, board: &Board) -> Option<f64> {
        (self.get)(board)
    }

    const fn of_timer(self) -> Quantity {
        Quantity {
            timed: true,
            ..self
        }
    }

    const fn of_sequence(self) -> Quantity {
        Quantity {
            sequence: true,
            ..self
        }
    }

    /// The unit of its values in a composition with this store.
    fn unit_of(&self, store: StoreKind) -> &'static str {
        let octets = SEQUENCE.iter().any(|s| s.0 == self.name);
        match store {
            StoreKind::Octets => self.unit,
            StoreKind::Records if octets => self.unit,
            StoreKind::Packets if self.name == "room" => store.unit(),
            _ if self.sequence => store.unit(),
            _ => self.unit,
        }
    }
}

const fn quantity(
    name: &'static str,
    unit: &'static str,
    section: Facts,
    doc: &'static str,
    get: fn(&Board) -> Option<f64>,
) -> Quantity {
    Quantity {
        name,
        unit,
        doc,
        section,
        timed: false,
        sequence: false,
        get,
    }
}

fn number(n: u32) -> Option<f64> {
    Some(f64::from(n))
}

fn seconds(span: Span) -> Option<f64> {
    Some(span.as_secs_f64())
}

/// Of round-trip times, of which nothing is known before the first sample.
fn sampled(rtt: &RttFacts, span: Span) -> Option<f64> {
    (rtt.samples > 0).then(|| span.as_secs_f64())
}

const NONE: Facts = Facts::NONE;
const OCTETS: &str = "octets";
const BPS: &str = "bit/s";

/// A stretch of sequence space of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stretch {
    Flight,
    Unacked,
    Unsent,
}

/// Stretches of sequence space that ends tell in octets, whatever their numbers count.
pub(crate) const SEQUENCE: [(&str, Stretch); 3] = [
    ("flight", Stretch::Flight),
    ("send_q", Stretch::Unacked),
    ("unsent", Stretch::Unsent),
];

/// The numbers on the board, with the units that they have where octets are numbered
/// ([`Blueprint::recordable`]).
#[rustfmt::skip]
pub const QUANTITIES: &[Quantity] = &[
    quantity("cwnd", OCTETS, Facts::WIN, "Congestion window, without inflation.",
        |b| number(b.win.cwnd)),
    quantity("ssthresh", OCTETS, Facts::WIN, "Slow start threshold.",
        |b| number(b.win.ssthresh)),
    quantity("rate", BPS, Facts::RATE, "What the pacer allows.",
        |b| b.rate.rate.map(|r| r.0 as f64)),
    quantity("gap", "s", Facts::RATE, "Between full segments, as the pacer lets them leave.",
        |b| b.rate.gap.and_then(seconds)),
    quantity("srtt", "s", Facts::RTT, "Smoothed round-trip time.",
        |b| sampled(&b.rtt, b.rtt.srtt)),
    quantity("rttvar", "s", Facts::RTT, "Variation of the round-trip time.",
        |b| sampled(&b.rtt, b.rtt.var)),
    quantity("last_rtt", "s", Facts::RTT, "Latest sample of the round-trip time.",
        |b| sampled(&b.rtt, b.rtt.last)),
    quantity("min_rtt", "s", Facts::RTT, "Smallest sample of the round-trip time.",
        |b| sampled(&b.rtt, b.rtt.min)),
    quantity("rtt_samples", "", Facts::RTT, "Samples of the round-trip time so far.",
        |b| number(b.rtt.samples)),
    quantity("rto", "s", Facts::TX, "Retransmission timeout in force, with back-off.",
        |b| seconds(b.tx.rto).filter(|s| *s > 0.0)).of_timer(),
    quantity("backoff", "", Facts::TX, "Timeouts in a row without progress.",
        |b| number(b.tx.backoff)).of_timer(),
    quantity("flight", OCTETS, Facts::TX, "Sent and not acknowledged.",
        |b| number(b.tx.flight())).of_sequence(),
    quantity("pipe", OCTETS, Facts::TX, "Believed to be in the network (RFC 6675).",
        |b| number(b.tx.pipe)).of_sequence(),
    quantity("sacked", OCTETS, Facts::TX, "Selectively acknowledged.",
        |b| number(b.tx.sacked)).of_sequence(),
    quantity("retransmits", "", Facts::TX, "Segments retransmitted so far.",
        |b| number(b.tx.retransmits)),
    quantity("lost", OCTETS, Facts::TX, "Taken for lost so far, each transmission once.",
        |b| Some(b.tx.lost as f64)).of_sequence(),
    quantity("timeouts", "", Facts::TX, "Retransmission timeouts so far.",
        |b| number(b.tx.timeouts)).of_timer(),
    quantity("recovering", "", Facts::TX, "Whether a recovery episode is under way.",
        |b| number(b.tx.recovering.into())),
    quantity("peer_window", OCTETS, Facts::PEER, "The peer's receive window.",
        |b| number(b.peer.window)),
    quantity("window", OCTETS, Facts::RX, "The receive window that we allow.",
        |b| number(b.rx.window)),
    quantity("hops", "", Facts::PATH, "Hops to the peer, as its packets tell.",
        |b| b.path.hops.map(|h| f64::from(h.get()))),
    quantity("mss", OCTETS, Facts::CONN, "Payload of a full segment.",
        |b| number(b.conn.mss).filter(|_| b.conn.mss > 0)),
    quantity("send_q", OCTETS, NONE, "Written and not acknowledged.",
        |b| number(b.unacked())).of_sequence(),
    quantity("unsent", OCTETS, NONE, "Written and never sent.",
        |b| number(b.unsent())).of_sequence(),
    quantity("recv_q", OCTETS, NONE, "Received and not read.",
        |b| number(b.app.unread)),
    quantity("room", OCTETS, NONE, "Free to write; packets in a store of packets.",
        |b| number(b.app.room)),
    quantity("queued", "packets", NONE, "Waiting in a store of packets.",
        |b| number(b.app.queued)),
    quantity("route_hops", "", NONE, "Hops to the peer by the routing table.",
        |b| b.site.route_hops.map(|h| f64::from(h.get()))),
    quantity("unserved", "", NONE, "Nodes of the path, there or back, that do not serve the protocol, as last told.",
        |b| number(b.site.unserved.most().into())),
    quantity("link_rate", BPS, NONE, "Rate of unicast data on the link to the next hop.",
        |b| b.site.rate.map(|r| r.0 as f64)),
];

/// To which the engine adds what parts do not count.
const RETRANSMITS: &str = "retransmits";

/// Payload octets that a connection sent, each once: among its counters, not on the board.
const OFFERED: &str = "offered";

/// A name, resolved for the connections of one blueprint ([`Blueprint::watched`]).
#[derive(Clone, Copy, Debug)]
pub struct Watched(pub(crate) Of);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    Board(&'static Quantity),
    /// One of [`SEQUENCE`].
    Sequence(Stretch),
    Offered,
    /// What parts count, and openers that they do not.
    Retransmits,
    /// By the number of its slot.
    Probe(usize, &'static str),
}

/// Something that can be recorded of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recordable {
    /// `cwnd`; `PART.PROBE`, as in `cubic.w_max`.
    pub name: String,
    /// Of its values, as far as it is declared: names of probes tell their own.
    pub unit: &'static str,
    /// What it is.
    pub doc: &'static str,
}

impl Blueprint {
    /// Whether a part writes this section of the board.
    pub fn writes(&self, section: Facts) -> bool {
        self.parts.iter().any(|p| p.desc.writes.has(section))
    }

    /// Whether a part has a retransmission timer: if not, there are no timeouts to be counted.
    pub fn times_out(&self) -> bool {
        self.parts.iter().any(|p| p.desc.times_out())
    }

    /// Whether its round-trip times are from when packets left first, with what these waited to be
    /// repaired.
    pub fn times_repairs(&self) -> bool {
        self.parts.iter().any(|p| p.desc.times_repairs)
    }

    /// Whether a part takes losses from what arrives: if not, there are no recoveries without a
    /// timeout to be counted.
    pub fn finds_losses(&self) -> bool {
        self.parts.iter().any(|p| p.desc.finds_losses())
    }

    /// The numbers on the board that something in this composition writes.
    fn quantities(&self) -> impl Iterator<Item = &'static Quantity> {
        let written = |q: &&Quantity| self.writes(q.section) && (!q.timed || self.times_out());
        QUANTITIES.iter().filter(written)
    }

    /// All that can be recorded of a connection of this protocol: the board's, then probes in the
    /// order of the parts.
    pub fn recordable(&self) -> Vec<Recordable> {
        let board = self.quantities().map(|q| Recordable {
            name: q.name.to_string(),
            unit: q.unit_of(self.store_kind()),
            doc: q.doc,
        });
        let offered = Recordable {
            name: OFFERED.to_string(),
            unit: OCTETS,
            doc: "Payload sent, repetitions excluded.",
        };
        let probes = self.parts.iter().flat_map(|p| {
            p.desc.probes.iter().map(|probe| Recordable {
                name: format!("{}.{probe}", p.desc.name),
                unit: "",
                doc: "",
            })
        });
        board.chain([offered]).chain(probes).collect()
    }

    /// What to ask a connection of this protocol for ([`crate::Conn::value`]).
    ///
    /// # Errors
    /// Nothing here has this name: why, or the nearest name that there is.
    pub fn watched(&self, name: &str) -> Result<Watched, String> {
        if let Some(q) = self.quantities().find(|q| q.name == name) {
            if name == RETRANSMITS {
                return Ok(Watched(Of::Retransmits));
            }
            let sequence = SEQUENCE.iter().find(|s| s.0 == name);
            return Ok(Watched(
                sequence.map_or(Of::Board(q), |s| Of::Sequence(s.1)),
            ));
        }
        if name == OFFERED {
            return Ok(Watched(Of::Offered));
        }
        if let Some(q) = QUANTITIES.iter().find(|q| q.name == name) {
            if self.writes(q.section) {
                return Err(format!(
                    "no part of {} has a retransmission timer, which {name} is of",
                    self.name
                ));
            }
            let section: Vec<&str> = q.section.names().collect();
            let section = section.join(", ");
            return Err(format!(
                "no part of {} writes the facts `{section}`, where {name} is",
                self.name
            ));
        }
        let (part, probe) = name.split_once('.').unwrap_or((name, ""));
        let slots = self.parts.iter().enumerate();
        for (slot, plan) in slots.filter(|(_, p)| p.desc.name == part) {
            if let Some(known) = plan.desc.probes.iter().find(|p| **p == probe) {
                return Ok(Watched(Of::Probe(slot, known)));
            }
        }
        let known = self.recordable();
        let known = known.iter().map(|r| r.name.as_str());
        let what = format!("quantity of {}", self.name);
        Err(names::unknown(&what, name, known))
    }
}

/// Whether some composition of these parts may know the name.
///
/// # Errors
/// None does: the nearest name.
pub fn check(name: &str, parts: &[&'static Descriptor]) -> Result<(), String> {
    let probes = parts.iter().flat_map(|d| {
        let named = |probe: &&str| format!("{}.{probe}", d.name);
        d.probes.iter().map(named).collect::<Vec<_>>()
    });
    let board = QUANTITIES.iter().map(|q| q.name.to_string());
    let known: Vec<String> = board.chain([OFFERED.to_string()]).chain(probes).collect();
    if known.iter().any(|k| k == name) {
        return Ok(());
    }
    let known = known.iter().map(String::as_str);
    Err(names::unknown("quantity", name, known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use wifu_wire::Rate;

    #[test]
    fn each_name_is_unique_and_documented() {
        let names: BTreeSet<&str> = QUANTITIES.iter().map(|q| q.name).collect();
        assert_eq!(names.len(), QUANTITIES.len());
        for q in QUANTITIES {
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(q.name.chars().all(plain), "{}", q.name);
            assert!(q.doc.len() > 10 && q.doc.ends_with('.'), "{}", q.name);
            assert!(Facts::EVERY.has(q.section), "{}", q.name);
        }
    }

    #[test]
    fn what_nobody_knows_has_no_value() {
        let value = |board: &Board, name: &str| {
            let q = QUANTITIES.iter().find(|q| q.name == name);
            q.expect("a known name").of(board)
        };
        let mut board = Board::default();
        for unknown in ["srtt", "min_rtt", "rto", "rate", "gap", "hops", "link_rate"] {
            assert_eq!(value(&board, unknown), None, "{unknown}");
        }
        board.rtt.samples = 1;
        board.rtt.srtt = Span::MILLI * 20;
        board.rate.rate = Some(Rate(1_500_000));
        board.rate.gap = Some(Span::MILLI);
        assert_eq!(value(&board, "srtt"), Some(0.02));
        assert_eq!(value(&board, "rate"), Some(1.5e6));
        assert_eq!(value(&board, "gap"), Some(0.001));
        assert_eq!(value(&board, "cwnd"), Some(0.0));
        board.site.unserved.coming = Some(2);
        board.site.unserved.leaving = Some(0);
        assert_eq!(value(&board, "unserved"), Some(2.0));
    }
}

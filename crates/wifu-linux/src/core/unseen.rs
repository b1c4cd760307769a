//! Packets that our rules sent to a queue and that passed without handlers: while the queue was
//! full, or the socket's buffer. The kernel counts them nowhere; what the rules counted and we did
//! not see is left.

use super::report::HookCounters;
use std::collections::BTreeMap;

/// What the rules of one hook counted: a super-packet once, from the IP header on.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Count {
    /// Packets that matched.
    pub packets: u64,
    /// Octets of `packets`, IP headers included.
    pub octets: u64,
}

/// ... of all hooks, by name.
pub type Counts = BTreeMap<&'static str, Count>;

/// Which part of the packets seen the estimate is made from: what a segment and the super-packet
/// that it was cut from don't have in common is headers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// Packets that carry data,
    pub(crate) data_packets: u64,
    /// ... octets of these, IP headers included,
    pub(crate) data_octets: u64,
    /// ... and those of them that are headers.
    pub(crate) header_octets: u64,
    /// Octets of the longest packet.
    pub(crate) longest: u64,
    /// Packets held now.
    pub(crate) held_now: u64,
}

impl Shape {
    /// A packet is seen.
    pub(crate) fn note(&mut self, packet: &[u8]) {
        let (length, headers) = (packet.len() as u64, headers_of(packet));
        self.longest = self.longest.max(length);
        if length > headers {
            self.data_packets += 1;
            self.data_octets += length;
            self.header_octets += headers;
        }
    }
}

/// Octets of the headers of IPv4 and, if it is there, of TCP or UDP.
fn headers_of(packet: &[u8]) -> u64 {
    let ip = packet.first().map_or(0, |b| usize::from(b & 15) * 4);
    let at = |i: usize| packet.get(i).copied().unwrap_or(0);
    let is_first = at(6) & 0x1F == 0 && at(7) == 0;
    let transport = match at(9) {
        6 if is_first => usize::from(at(ip + 12) >> 4) * 4,
        17 if is_first => 8,
        _ => 0,
    };
    (ip + transport) as u64
}

/// What passed unseen, of what rules counted, before or at the time that `seen` was true;
/// `waiting` packets are still to be seen.
///
/// Exact where packets come as the rules saw them. Where the kernel cut super-packets in between,
/// the rules counted fewer of them than came, and it is estimated from the octets: segments that
/// were not seen are taken for as long as those that were.
pub(crate) fn unseen(counted: Count, seen: &HookCounters, waiting: u64) -> Count {
    /// Of all octets, what an estimate may be wrong by: one in so many.
    const DOUBT: f64 = 1000.0;
    let shape = &seen.shape;
    let longest = shape.longest.max(1500) as f64;
    // Not told as missing while it only waits, whatever its length.
    let doubt = waiting as f64 * longest;
    let packets = counted.packets as i64 - (seen.packets + waiting) as i64;
    let octets = counted.octets as f64 - seen.octets as f64 - doubt;
    let alike = packets >= 0 && (-doubt..=packets as f64 * longest).contains(&octets);
    if alike || seen.packets == 0 || shape.data_packets == 0 {
        return Count {
            packets: packets.max(0) as u64,
            octets: if packets > 0 {
                octets.max(0.0) as u64
            } else {
                0
            },
        };
    }
    let n = shape.data_packets as f64;
    let headers = shape.header_octets as f64 / n;
    let data = shape.data_octets as f64 / n - headers;
    let missing = octets - headers * packets as f64;
    if missing < data / 2.0 + counted.octets as f64 / DOUBT {
        return Count::default();
    }
    let segments = (missing / data).round().max(1.0).max(packets as f64);
    Count {
        packets: segments as u64,
        octets: (missing + segments * headers) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(data: usize) -> Vec<u8> {
        let mut packet = vec![0; 52 + data];
        (packet[0], packet[9], packet[32]) = (0x45, 6, 0x80);
        packet
    }

    fn seen(packets: &[Vec<u8>]) -> HookCounters {
        let mut counters = HookCounters::default();
        for packet in packets {
            counters.packets += 1;
            counters.octets += packet.len() as u64;
            counters.shape.note(packet);
        }
        counters
    }

    fn count(packets: u64, octets: u64) -> Count {
        Count { packets, octets }
    }

    #[test]
    fn packets_that_come_as_they_were_counted_are_counted_exactly() {
        let some = seen(&[tcp(1448), tcp(0), tcp(100)]);
        assert_eq!(some.octets, 1704);
        assert_eq!(unseen(count(3, 1704), &some, 0), count(0, 0));
        assert_eq!(unseen(count(5, 3304), &some, 0), count(2, 1600));
        assert_eq!(unseen(count(5, 3304), &some, 2).packets, 0, "they wait");
        assert_eq!(unseen(count(2, 204), &some, 0), count(0, 0), "read before");
        let nothing = HookCounters::default();
        assert_eq!(unseen(count(9, 900), &nothing, 0), count(9, 900));
    }

    #[test]
    fn segments_of_super_packets_are_estimated() {
        // Ten times 40 segments and 100 acknowledgements, of which the rules counted 110 packets.
        let packets: Vec<_> = (0..500)
            .map(|i| tcp(if i < 400 { 1448 } else { 0 }))
            .collect();
        let whole = count(110, 110 * 52 + 400 * 1448);
        assert_eq!(unseen(whole, &seen(&packets), 0), count(0, 0));
        let half = seen(&packets[200..]);
        assert_eq!(unseen(whole, &half, 0), count(200, 200 * 1500));
        let few = seen(&packets[380..]);
        assert_eq!(unseen(whole, &few, 0), count(380, 380 * 1500));
    }
}

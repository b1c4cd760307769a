//! The receiving half of a store of records: by number, what came beyond a hole.

use super::receive::Reassembly;
use crate::signal::Arrival;
use wifu_wire::Seq;

/// Most records that wait, however large the buffer is.
const MOST: u32 = 4_096;

/// What became of a record that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// How it fits.
    pub order: Arrival,
    /// Numbers missing for the first time before it.
    pub gap: u32,
    /// Records by which the in-order end moved.
    pub advanced: u32,
}

/// Records beyond a hole. Those in order go on to the stream of octets that the application reads.
#[derive(Debug)]
pub struct Inbox {
    /// The next in order.
    next: Seq,
    /// One past the highest that came.
    top: Seq,
    /// Lengths of those that wait, at number modulo their count; and their octets, a slot each.
    waiting: Vec<Option<u32>>,
    memory: Box<[u8]>,
    slot: usize,
    /// Octets that wait.
    octets: u32,
    /// Records that came although they had come before.
    pub duplicates: u64,
}

impl Inbox {
    /// For records of up to `payload` octets from number `first` on, as many as `limit` octets
    /// hold.
    pub fn new(limit: u32, payload: u32, first: Seq) -> Inbox {
        let slot = payload.max(1);
        let places = (limit / slot).clamp(1, MOST) as usize;
        Inbox {
            next: first,
            top: first,
            waiting: vec![None; places],
            // Comes lazily from the kernel: a path in order touches none of it.
            memory: vec![0; places * slot as usize].into(),
            slot: slot as usize,
            octets: 0,
            duplicates: 0,
        }
    }

    /// The next in order.
    pub fn next(&self) -> Seq {
        self.next
    }

    /// One past the highest that came.
    pub fn top(&self) -> Seq {
        self.top
    }

    /// Octets that wait beyond a hole.
    pub fn octets(&self) -> u32 {
        self.octets
    }

    /// Whether a record has come.
    pub fn has(&self, number: Seq) -> bool {
        number.before(self.next) || (number.before(self.top) && self.at(number).is_some())
    }

    fn place(&self, number: Seq) -> usize {
        number.0 as usize % self.waiting.len()
    }

    fn at(&self, number: Seq) -> Option<u32> {
        self.waiting[self.place(number)]
    }

    /// Whether a record of so many octets that has not come would be taken.
    pub fn fits(&self, stream: &Reassembly, number: Seq, octets: usize) -> bool {
        let before = number.since(self.next) as usize;
        // Those that are missing before it must fit as well, or it would take their room for ever.
        let room = (stream.window() as usize).saturating_sub(before.saturating_mul(self.slot));
        before < self.waiting.len() && octets <= self.slot && octets <= room
    }

    /// A record came; `None` if there is no room for it: what is read and what waits share `limit`.
    pub fn accept(
        &mut self,
        stream: &mut Reassembly,
        number: Seq,
        record: &[u8],
    ) -> Option<Accepted> {
        if self.has(number) {
            self.duplicates += 1;
            return Some(Accepted {
                order: Arrival::Duplicate,
                gap: 0,
                advanced: 0,
            });
        }
        if !self.fits(stream, number, record.len()) {
            return None;
        }
        let gap = if number.before(self.top) {
            0
        } else {
            number.since(self.top)
        };
        let ahead = !number.before(self.top);
        self.top = self.top.later(number.plus(1));
        if number != self.next {
            let place = self.place(number);
            self.waiting[place] = Some(record.len() as u32);
            self.octets += record.len() as u32;
            let at = place * self.slot;
            self.memory[at..at + record.len()].copy_from_slice(record);
            let order = if ahead {
                Arrival::Ahead
            } else {
                Arrival::Fills
            };
            return Some(Accepted {
                order,
                gap,
                advanced: 0,
            });
        }
        stream.insert(stream.nxt(), record);
        self.next = self.next.plus(1);
        let advanced = 1 + self.drain(stream);
        let order = if ahead {
            Arrival::InOrder
        } else {
            Arrival::Fills
        };
        Some(Accepted {
            order,
            gap,
            advanced,
        })
    }

    /// What waits and is in order goes on; returns how many records. There is always room for
    /// them: they were taken with it.
    fn drain(&mut self, stream: &mut Reassembly) -> u32 {
        let mut moved = 0;
        while self.next.before(self.top) {
            let place = self.place(self.next);
            let Some(length) = self.waiting[place].take() else {
                break;
            };
            let at = place * self.slot;
            stream.insert(stream.nxt(), &self.memory[at..at + length as usize]);
            self.octets -= length;
            self.next = self.next.plus(1);
            moved += 1;
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rig(limit: u32) -> (Inbox, Reassembly) {
        (Inbox::new(limit, 4, Seq(1)), Reassembly::new(limit, Seq(0)))
    }

    fn read(stream: &Reassembly) -> Vec<u8> {
        stream.readable().concat()
    }

    #[test]
    fn records_are_delivered_in_the_order_of_their_numbers() {
        let (mut inbox, mut stream) = rig(40);
        let mut came = |number: u32, record: &[u8]| inbox.accept(&mut stream, Seq(number), record);
        let said = |order, gap, advanced| {
            Some(Accepted {
                order,
                gap,
                advanced,
            })
        };
        assert_eq!(came(1, b"ab"), said(Arrival::InOrder, 0, 1));
        assert_eq!(came(4, b"gh"), said(Arrival::Ahead, 2, 0));
        assert_eq!(came(3, b"ef"), said(Arrival::Fills, 0, 0));
        assert_eq!(came(4, b"gh"), said(Arrival::Duplicate, 0, 0));
        assert_eq!(came(2, b"cd"), said(Arrival::Fills, 0, 3));
        assert_eq!(came(1, b"ab"), said(Arrival::Duplicate, 0, 0));
        assert_eq!(came(5, b""), said(Arrival::InOrder, 0, 1));
        assert_eq!(read(&stream), b"abcdefgh");
        assert_eq!(
            (inbox.duplicates, inbox.octets(), inbox.next()),
            (2, 0, Seq(6))
        );
    }

    #[test]
    fn what_waits_leaves_room_for_what_is_missing_before_it() {
        let (mut inbox, mut stream) = rig(12);
        assert!(inbox.accept(&mut stream, Seq(1), b"abcd").is_some());
        assert!(inbox.accept(&mut stream, Seq(3), b"ijkl").is_some());
        let beyond = inbox.accept(&mut stream, Seq(4), b"mnop");
        assert_eq!(beyond, None, "2, 3 and 4 need 12 bytes, 8 are left");
        assert_eq!(
            inbox.accept(&mut stream, Seq(9), b""),
            None,
            "too far ahead"
        );
        assert_eq!(
            inbox.accept(&mut stream, Seq(2), b"efghi"),
            None,
            "too long"
        );
        let filled = inbox.accept(&mut stream, Seq(2), b"efgh").expect("it fits");
        assert_eq!((filled.advanced, inbox.next()), (2, Seq(4)));
        assert_eq!(
            inbox.accept(&mut stream, Seq(4), b"m"),
            None,
            "nobody has read"
        );
        stream.consume(4);
        assert!(inbox.accept(&mut stream, Seq(4), b"mnop").is_some());
        assert_eq!(read(&stream), b"efghijklmnop");
    }

    #[test]
    fn numbers_wrap() {
        let mut inbox = Inbox::new(40, 4, Seq(u32::MAX));
        let mut stream = Reassembly::new(40, Seq(0));
        for number in [Seq(0), Seq(u32::MAX), Seq(1)] {
            assert!(inbox.accept(&mut stream, number, b"x").is_some());
        }
        assert_eq!(
            (inbox.next(), inbox.has(Seq(1)), inbox.has(Seq(2))),
            (Seq(2), true, false)
        );
    }
}

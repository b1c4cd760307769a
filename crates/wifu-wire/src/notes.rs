//! Annotations: values that a packet carries inside one node only, between handlers, lanes and the
//! parts of an end. They are on no wire. Each has a name and a unit, declared by whoever writes or
//! reads it, and is absent where nobody set it; here they are numbers behind an index of their own.

use crate::units::Time;

/// Nanoseconds.
const MICRO: u64 = 1_000;

/// How many different annotations one registry may declare.
pub const NOTES: usize = 8;

/// Number of an annotation in [`Notes`], given out by the registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Note(pub u8);

/// The annotations of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Notes {
    values: [u32; NOTES],
    /// One bit per annotation that was set.
    set: u8,
}

impl Notes {
    /// None are set.
    pub const EMPTY: Notes = Notes {
        values: [0; NOTES],
        set: 0,
    };

    /// The value, if somebody set it.
    pub fn get(&self, note: Note) -> Option<u32> {
        let at = usize::from(note.0);
        (self.set & 1 << note.0 != 0).then(|| self.values[at])
    }

    /// Whether nothing is set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.set == 0
    }

    /// The time that an annotation says ([`Notes::set_time`]), as the last one before or the next
    /// one after `now` that it may mean: up to 35 minutes away.
    pub fn time(&self, note: Note, now: Time) -> Option<Time> {
        let ahead = self.get(note)?.wrapping_sub(now.wire_micros()) as i32;
        let whole = now.0 - now.0 % MICRO;
        let away = u64::from(ahead.unsigned_abs()) * MICRO;
        Some(Time(match ahead < 0 {
            true => whole.saturating_sub(away),
            false => whole.saturating_add(away),
        }))
    }

    /// Set a value that is a time: microseconds on the node's clock, modulo 2^32. One that is more
    /// than 35 minutes away is read as another ([`Notes::time`]).
    ///
    /// # Panics
    /// If `note` is not below [`NOTES`].
    pub fn set_time(&mut self, note: Note, at: Time) {
        self.set(note, at.wire_micros());
    }

    /// Add what another set; where both did, its value counts.
    pub fn add(&mut self, other: &Notes) {
        for at in (0..NOTES).filter(|at| other.set & 1 << at != 0) {
            self.values[at] = other.values[at];
        }
        self.set |= other.set;
    }

    /// Set a value.
    ///
    /// # Panics
    /// If `note` is not below [`NOTES`].
    pub fn set(&mut self, note: Note, value: u32) {
        self.values[usize::from(note.0)] = value;
        self.set |= 1 << note.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_nearest_one_that_is_meant() {
        let (note, mut notes) = (Note(3), Notes::EMPTY);
        assert_eq!(notes.time(note, Time(5)), None);
        // 2^32 us are 4294.967296 s: on both sides of where the value begins anew.
        let turn = 4_294_967_296_000;
        for now in [0, 17_000_999, turn - 1, turn, 7 * turn + 123_456_789] {
            for away in [0, 1, 999_999, 2_000_000_000] {
                let later = (now / MICRO + away) * MICRO;
                notes.set_time(note, Time(later + 999));
                assert_eq!(
                    notes.time(note, Time(now)),
                    Some(Time(later)),
                    "{now} {away}"
                );
                let Some(earlier) = (now / MICRO).checked_sub(away) else {
                    continue;
                };
                notes.set_time(note, Time(earlier * MICRO));
                let found = notes.time(note, Time(now));
                assert_eq!(found, Some(Time(earlier * MICRO)), "{now} {away}");
            }
        }
    }

    #[test]
    fn what_nobody_set_is_absent() {
        let mut notes = Notes::EMPTY;
        assert_eq!(notes.get(Note(2)), None);
        notes.set(Note(2), 0);
        assert_eq!((notes.get(Note(2)), notes.get(Note(3))), (Some(0), None));
        let mut more = Notes::EMPTY;
        assert!(more.is_empty() && !notes.is_empty());
        more.set(Note(2), 5);
        more.set(Note(7), 6);
        notes.add(&more);
        notes.add(&Notes::EMPTY);
        assert_eq!((notes.get(Note(2)), notes.get(Note(7))), (Some(5), Some(6)));
    }
}

//! Annotations: values that a packet carries inside one node only, between handlers, lanes and the
//! parts of an end. They are on no wire. Each has a name and a unit, declared by whoever writes or
//! reads it, and is absent where nobody set it; here they are numbers behind an index of their own.

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

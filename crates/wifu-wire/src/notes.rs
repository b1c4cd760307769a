//! Annotations: values that a packet carries inside one node only, between handlers, lanes and the
//! parts of an end. They are on no wire. Each has a name, a unit and a default, declared by whoever
//! writes or reads it; here they are numbers behind an index of their own.

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
    }
}

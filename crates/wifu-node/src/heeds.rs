//! Annotations that mean something to the node itself, where packets leave it.

use wifu_core::{HandlerConfig, Kinds};
use wifu_engine::Blueprint;
use wifu_engine::descriptor::{DEADLINE, FEEDBACK, NoteSpec, PRIORITY};
use wifu_wire::Note;

/// The annotations that a node heeds where packets leave, as far as somebody on it may write them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Heeds {
    /// [`PRIORITY`].
    pub priority: Option<Note>,
    /// [`FEEDBACK`].
    pub feedback: Option<Note>,
    /// [`DEADLINE`].
    pub deadline: Option<Note>,
}

impl Heeds {
    /// Those that some part of these ends and their lanes, or one of these handlers, writes.
    pub fn of<'a>(
        kinds: &Kinds,
        ends: impl IntoIterator<Item = &'a Blueprint>,
        handlers: impl IntoIterator<Item = &'a HandlerConfig>,
    ) -> Heeds {
        let parts = ends.into_iter().flat_map(|b| {
            let lane = b.lane.iter().flat_map(|lane| &lane.parts);
            b.parts.iter().chain(lane).map(|p| p.desc.notes)
        });
        let handlers = handlers
            .into_iter()
            .filter_map(|h| kinds.find(&h.name).ok());
        let notes = parts.chain(handlers.map(|d| d.notes)).flatten();
        let written: Vec<&str> = notes
            .filter(|n| n.access.writes())
            .map(|n| n.name)
            .collect();
        let number = |spec: NoteSpec| {
            let note = written
                .contains(&spec.name)
                .then(|| kinds.parts.note(spec.name));
            note.flatten()
        };
        Heeds {
            priority: number(PRIORITY),
            feedback: number(FEEDBACK),
            deadline: number(DEADLINE),
        }
    }

    /// Those that some part or handler that is known declares: a host's applications may open
    /// connections over any of them.
    pub fn declared(kinds: &Kinds) -> Heeds {
        let number = |spec: NoteSpec| kinds.parts.note(spec.name);
        Heeds {
            priority: number(PRIORITY),
            feedback: number(FEEDBACK),
            deadline: number(DEADLINE),
        }
    }

    /// Whether packets may leave that go before others.
    pub fn hastens(&self) -> bool {
        self.priority.is_some() || self.feedback.is_some()
    }
}

/// What became of packets by annotations that the node heeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Heeded {
    /// Lost: their deadline had passed when they were to be handed to a device.
    pub late: u64,
    /// Taken by a device as those that go first: they carry feedback, or have priority.
    pub first: u64,
}

//! Annotations that mean something to the node itself, where packets leave it.

use crate::node::Node;
use crate::passage::{Mask, Passage};
use crate::ways::{Lost, Ways};
use wifu_core::{HandlerConfig, Kinds};
use wifu_engine::Blueprint;
use wifu_engine::descriptor::{DEADLINE, FEEDBACK, NoteSpec, PRIORITY};
use wifu_wire::{Note, Span};

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
    /// Handed to a device as those that go first: they carry feedback, or have priority.
    pub first: u64,
}

impl Node {
    /// Annotations that may be on packets that leave from now on, and mean something to the node.
    pub fn heed(&mut self, heeds: Heeds) {
        self.mask = self.mask.with(Mask::NOTED, heeds != Heeds::default());
        self.heeds = heeds;
    }

    /// What became of packets by annotations that it heeds.
    pub fn heeded(&self) -> Heeded {
        self.heeded
    }

    /// Heed what is noted on a packet that is handed to a device next: whether its deadline has
    /// passed, and it is lost.
    #[inline(never)]
    pub(crate) fn is_late(&mut self, ways: &mut impl Ways, way: &Passage) -> bool {
        let (heeds, notes, now) = (self.heeds, &way.facts.notes, ways.now());
        let deadline = heeds.deadline.and_then(|note| notes.time(note, now));
        // Deadlines are whole microseconds: one lasts until it is over.
        if deadline.is_some_and(|at| now - at >= Span::MICRO) {
            self.heeded.late += 1;
            ways.lose(way.packet, Lost::Late);
            return true;
        }
        let first = [heeds.feedback, heeds.priority].into_iter().flatten();
        if first.filter_map(|note| notes.get(note)).any(|n| n > 0) {
            self.heeded.first += 1;
            ways.hasten(way.packet);
        }
        false
    }
}

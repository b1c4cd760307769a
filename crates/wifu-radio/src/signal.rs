//! A transmission on the air.

use crate::phy::Mode;
use crate::trace::{FrameKind, NOBODY, Why};
use wifu_wire::{Span, Time};

/// A transmission on the air.
#[derive(Clone, Debug)]
pub(crate) struct Signal {
    pub from: u16,
    /// [`NOBODY`]: all.
    pub to: u16,
    pub kind: FrameKind,
    pub mode: Mode,
    pub retry: bool,
    pub seq: u16,
    /// Length of the MPDU.
    pub bytes: u32,
    pub cookie: u32,
    pub frame: u32,
    pub start: Time,
    pub preamble_end: Time,
    pub plcp_end: Time,
    pub end: Time,
    /// The Duration field: for how long the medium is taken after the end.
    pub duration: Span,
    /// Why `to` is not listening to it.
    pub miss: Why,
    pub miss_other: u16,
    /// `to` will answer.
    pub answered: bool,
}

impl Signal {
    pub fn nobody() -> Signal {
        Signal {
            from: NOBODY,
            to: NOBODY,
            kind: FrameKind::Data,
            mode: Mode(0),
            retry: false,
            seq: 0,
            bytes: 0,
            cookie: 0,
            frame: 0,
            start: Time::ZERO,
            preamble_end: Time::ZERO,
            plcp_end: Time::ZERO,
            end: Time::ZERO,
            duration: Span::ZERO,
            miss: Why::None,
            miss_other: NOBODY,
            answered: false,
        }
    }

    /// A frame that begins; the medium adds the times.
    pub fn new(kind: FrameKind, to: u16, mode: Mode, bytes: u32) -> Signal {
        Signal {
            kind,
            to,
            mode,
            bytes,
            ..Signal::nobody()
        }
    }
}

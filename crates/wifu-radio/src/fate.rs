//! Whether a frame survives: what is weighed while a receiver follows it.

use crate::error::ErrorTable;
use crate::phy::Mode;
use crate::power::Power;
use crate::station::{Lock, Signal};
use wifu_wire::{Span, Time};

/// Logarithms of probabilities: above, a frame survives surely; below, it surely does not.
const SURE: f64 = -1e-9;
const HOPELESS: f64 = -30.0;

/// Account for the part of the followed frame that ends now.
#[inline]
pub(crate) fn weigh(
    lock: &mut Lock,
    signal: &Signal,
    table: &ErrorTable,
    headers: &[Mode; 12],
    now: Time,
) {
    let since = core::mem::replace(&mut lock.since, now);
    if since >= now || lock.ln_ok < HOPELESS {
        return;
    }
    let sinr = lock.power.over(lock.interference);
    if sinr < table.sure(signal.mode) {
        survive(lock, signal, table, headers, (since, now), sinr);
    }
}

/// The chance that a frame is right, from its logarithm.
pub(crate) fn odds(ln_ok: f64) -> f64 {
    match ln_ok {
        ln if ln > SURE => 1.0,
        ln if ln < HOPELESS => 0.0,
        ln => libm::exp(ln),
    }
}

/// What was found for a frame that was followed from its first moment to its last while nothing
/// changed beside it.
#[derive(Clone, Copy)]
struct Found {
    power: Power,
    interference: Power,
    /// Length and mode.
    frame: (u32, Mode),
    odds: f64,
}

/// The chances of the last of such frames: on one link they repeat until its fading moves on.
pub(crate) struct Memory(Box<[Found; 32]>);

impl Memory {
    pub fn new() -> Memory {
        let nothing = Found {
            power: Power::ZERO,
            interference: Power::ZERO,
            frame: (u32::MAX, Mode(0)),
            odds: 0.0,
        };
        Memory(Box::new([nothing; 32]))
    }

    /// The chance that the frame, of which no part was weighed yet, is right at its end.
    #[inline]
    pub fn odds(
        &mut self,
        lock: &mut Lock,
        signal: &Signal,
        table: &ErrorTable,
        headers: &[Mode; 12],
    ) -> f64 {
        let frame = (signal.bytes, signal.mode);
        let mixed = (lock.power.0 ^ u64::from(signal.bytes) << 32).wrapping_mul(SPREAD);
        let found = &mut self.0[(mixed >> 59) as usize];
        if (found.power, found.interference) != (lock.power, lock.interference)
            || found.frame != frame
        {
            weigh(lock, signal, table, headers, signal.end);
            *found = Found {
                power: lock.power,
                interference: lock.interference,
                frame,
                odds: odds(lock.ln_ok),
            };
        }
        found.odds
    }
}

/// The golden ratio's fraction, which spreads neighbouring numbers.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The chance that the part of a frame between two times survives at this SINR.
fn survive(
    lock: &mut Lock,
    signal: &Signal,
    table: &ErrorTable,
    headers: &[Mode; 12],
    (since, now): (Time, Time),
    sinr: f64,
) {
    if now > signal.plcp_end {
        let (from, whole) = (since.max(signal.plcp_end), signal.end - signal.plcp_end);
        let bits = f64::from(signal.bytes * 8) * share(now - from, whole);
        lock.ln_ok += table.ln_bit(signal.mode, sinr) * bits;
    }
    let header = headers[usize::from(signal.mode.0)];
    if since < signal.plcp_end && sinr < table.sure(header) {
        // The header follows the preamble: 24 bits in 4 us, or 48 bits.
        let from = since.max(signal.preamble_end);
        let part = now.min(signal.plcp_end) - from; // none before the preamble's end
        let bits = if header.is_ofdm() { 24.0 } else { 48.0 };
        let whole = signal.plcp_end - signal.preamble_end;
        lock.ln_ok += table.ln_bit(header, sinr) * bits * share(part, whole);
    }
}

/// A part of a whole as a number from 0 to 1.
fn share(part: Span, whole: Span) -> f64 {
    if part == whole {
        1.0
    } else {
        part.0 as f64 / whole.0 as f64
    }
}

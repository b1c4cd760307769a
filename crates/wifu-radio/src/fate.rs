//! Whether a frame survives: what is weighed while a receiver follows it.

use crate::error::ErrorTable;
use crate::phy::Mode;
use crate::power::Power;
use crate::signal::Signal;
use wifu_wire::{Rng, Span, Time};

/// The frame that a receiver follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock {
    pub signal: u32,
    pub power: Power,
    /// All else on the air, and noise.
    pub interference: Power,
    /// Since when the interference is that.
    pub since: Time,
    /// Logarithm of the probability that everything up to `since` is right.
    pub ln_ok: f64,
    /// The strongest interferer so far.
    pub worst: u16,
    pub worst_power: Power,
    /// Stronger was what is no 802.11.
    pub jammed: bool,
}

impl Lock {
    /// What is no 802.11 has this power now.
    pub fn jammed_by(&mut self, power: Power) {
        if power > self.worst_power {
            (self.jammed, self.worst_power) = (true, power);
        }
    }
}

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

/// Whether a frame is right whose chance has this logarithm: draws a number unless that is certain.
#[inline]
pub(crate) fn survives(ln_ok: f64, rng: &mut Rng) -> bool {
    if ln_ok > SURE {
        return true;
    }
    if ln_ok < HOPELESS {
        return false;
    }
    let drawn = rng.unit();
    // The first terms of the exponential's series are bounds of it, nearly always good enough.
    let linear = 1.0 + ln_ok;
    if drawn < linear - MARGIN {
        return true;
    }
    if drawn > linear + 0.5 * ln_ok * ln_ok + MARGIN || ln_ok < RARE && drawn > EXP_RARE {
        return false;
    }
    drawn < libm::exp(ln_ok)
}

/// More than the errors of rounding.
const MARGIN: f64 = 1e-12;
/// A logarithm, and a number above its exponential.
const RARE: f64 = -3.0;
const EXP_RARE: f64 = 0.05;

/// What was found for a frame that was followed from its first moment to its last while nothing
/// changed beside it.
#[derive(Clone, Copy)]
struct Found {
    power: Power,
    interference: Power,
    /// Length and mode.
    frame: (u32, Mode),
    ln_ok: f64,
}

/// What was found for the last of such frames: on one link they repeat until its fading moves on.
pub(crate) struct Memory(Box<[Found; 64]>);

impl Memory {
    pub fn new() -> Memory {
        let nothing = Found {
            power: Power::ZERO,
            interference: Power::ZERO,
            frame: (u32::MAX, Mode(0)),
            ln_ok: 0.0,
        };
        Memory(Box::new([nothing; 64]))
    }

    /// The logarithm of the chance that the frame, of which no part was weighed yet, is right at
    /// its end.
    #[inline]
    pub fn ln_ok(
        &mut self,
        lock: &mut Lock,
        signal: &Signal,
        table: &ErrorTable,
        headers: &[Mode; 12],
    ) -> f64 {
        let frame = (signal.bytes, signal.mode);
        let mixed = (lock.power.0 ^ u64::from(signal.bytes) << 32).wrapping_mul(SPREAD);
        let found = &mut self.0[(mixed >> 58) as usize];
        if (found.power, found.interference) != (lock.power, lock.interference)
            || found.frame != frame
        {
            weigh(lock, signal, table, headers, signal.end);
            *found = Found {
                power: lock.power,
                interference: lock.interference,
                frame,
                ln_ok: lock.ln_ok,
            };
        }
        found.ln_ok
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

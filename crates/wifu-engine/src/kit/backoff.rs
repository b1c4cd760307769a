//! Exponential back-off of a timeout (RFC 6298 5.5).

use wifu_wire::Span;

/// Doubles up to a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    tries: u32,
}

impl Backoff {
    /// One more timeout without progress; returns how many there were.
    pub fn fail(&mut self) -> u32 {
        self.tries += 1;
        self.tries
    }

    /// There was progress.
    pub fn clear(&mut self) {
        self.tries = 0;
    }

    /// Consecutive timeouts.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// `base` doubled once per try, at most `max`.
    pub fn apply(&self, base: Span, max: Span) -> Span {
        let factor = 1u64 << self.tries.min(32);
        (base * factor).min(max.max(base.min(max)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_the_limit() {
        let mut b = Backoff::default();
        let spans: Vec<u64> = (0..8)
            .map(|_| {
                b.fail();
                b.apply(Span::SECOND, Span::SECOND * 60).as_secs_f64() as u64
            })
            .collect();
        assert_eq!(spans, [2, 4, 8, 16, 32, 60, 60, 60]);
    }
}

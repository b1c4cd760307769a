//! What applications write and when: the plan of a flow's sender, step by step.

use crate::scenario::{AppKind, FlowSpec, Octets, Secs};
use wifu_wire::{Rng, Span, Time};

/// An application at work.
#[derive(Clone, Debug)]
pub(crate) enum App {
    /// Without end.
    Bulk,
    /// So many octets.
    File(u64),
    /// As much as goes, until then.
    Stream,
    /// One file after the other, each over its own connection.
    Http(Files),
    /// Talk and silence.
    OnOff(Talk),
    /// Requests and answers over one connection.
    Request(Dialogue),
    /// Rows of (since the start, octets).
    Trace { rows: Vec<(Span, u64)>, next: usize },
}

/// Files as the web has them (Behaviour 14, X-T7).
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pause: Span,
    pub(crate) left: Option<u64>,
    shape: f64,
    scale: f64,
    cap: f64,
    rng: Rng,
}

/// Talk at a constant rate, and silence; both exponential.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    on: Span,
    off: Span,
    /// Between two chunks.
    gap: Span,
    /// Octets at a time.
    pub(crate) chunk: u64,
    silence: Time,
    rng: Rng,
}

/// Requests and answers.
#[derive(Clone, Debug)]
pub(crate) struct Dialogue {
    pub(crate) request: u64,
    pub(crate) response: u64,
    pause: Option<Span>,
    pub(crate) left: Option<u64>,
    rng: Rng,
}

/// Octets that a talking application writes at once.
const CHUNK: u64 = 1_000;

impl App {
    /// The application of a flow; `rng` is its own stream.
    pub(crate) fn new(spec: &FlowSpec, rng: &Rng) -> App {
        let span = |s: Option<Secs>| s.map_or(Span::ZERO, |s| s.0);
        let octets = |o: Option<Octets>, default| o.map_or(default, |o| o.0);
        match spec.app {
            AppKind::Bulk => App::Bulk,
            AppKind::File => App::File(octets(spec.bytes, 0)),
            AppKind::Stream => App::Stream,
            AppKind::Http => App::Http(Files {
                pause: span(spec.pause),
                left: spec.count,
                shape: spec.shape.unwrap_or(1.5),
                scale: octets(spec.scale, 10_000) as f64,
                cap: octets(spec.cap, 10_000_000) as f64,
                rng: rng.split("files"),
            }),
            AppKind::OnOff => App::OnOff(Talk::new(spec, CHUNK, rng)),
            AppKind::Request => App::Request(Dialogue {
                request: octets(spec.request, 200),
                response: octets(spec.response, 30_000),
                pause: spec.pause.map(|p| p.0),
                left: spec.count,
                rng: rng.split("pauses"),
            }),
            AppKind::Trace => {
                let rows = spec.rows.iter().flatten();
                App::Trace {
                    rows: rows.map(|(t, n)| (Span::from_secs_f64(*t), *n)).collect(),
                    next: 0,
                }
            }
        }
    }
}

impl Files {
    /// The length of the next file.
    pub(crate) fn size(&mut self) -> u64 {
        let u = 1.0 - self.rng.unit();
        let size = self.scale * libm::pow(u, -1.0 / self.shape);
        size.min(self.cap).round().max(1.0) as u64
    }

    /// The next pause.
    pub(crate) fn pause(&mut self) -> Span {
        exponential(&mut self.rng, self.pause)
    }
}

impl Talk {
    /// Talk in chunks of so many octets.
    pub(crate) fn new(spec: &FlowSpec, chunk: u64, rng: &Rng) -> Talk {
        let span = |s: Option<Secs>| s.map_or(Span::ZERO, |s| s.0);
        let rate = spec.rate.map_or(1, |r| r.0.0.max(1));
        Talk {
            on: span(spec.on),
            off: span(spec.off),
            gap: Span((chunk * 8_000_000_000).div_ceil(rate).max(1)),
            chunk,
            silence: Time::ZERO,
            rng: rng.split("talk"),
        }
    }

    /// A chunk was written at `now`, or talk begins: when the next one is due.
    pub(crate) fn next(&mut self, now: Time) -> Time {
        if self.silence == Time::ZERO {
            self.silence = now + exponential(&mut self.rng, self.on);
        }
        let mut next = now + self.gap;
        // A talk may be shorter than the gap between two chunks.
        while next > self.silence {
            let resumes = self.silence + exponential(&mut self.rng, self.off);
            self.silence = resumes + exponential(&mut self.rng, self.on);
            next = next.max(resumes);
        }
        next
    }
}

impl Dialogue {
    /// The next pause.
    pub(crate) fn pause(&mut self) -> Span {
        let mean = self.pause.unwrap_or_default();
        exponential(&mut self.rng, mean)
    }
}

/// Exponential with this mean.
pub(crate) fn exponential(rng: &mut Rng, mean: Span) -> Span {
    let u = 1.0 - rng.unit();
    Span((-libm::log(u) * mean.0 as f64).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Bps;
    use wifu_wire::Rate;

    #[test]
    fn files_have_the_mean_that_was_asked_for() {
        let spec = FlowSpec {
            app: AppKind::Http,
            cap: Some(Octets(u64::MAX)),
            shape: Some(2.5),
            scale: Some(Octets(18_000)),
            ..FlowSpec::default()
        };
        let App::Http(mut files) = App::new(&spec, &Rng::new(1)) else {
            panic!("an http application");
        };
        let sizes: Vec<u64> = (0..200_000).map(|_| files.size()).collect();
        let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
        assert!((mean / 30_000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!(sizes.iter().all(|s| *s >= 18_000));
    }

    #[test]
    fn talk_fills_its_share_of_the_time() {
        let spec = FlowSpec {
            app: AppKind::OnOff,
            rate: Some(Bps(Rate(800_000))),
            on: Some(Secs(Span::SECOND)),
            off: Some(Secs(Span::SECOND * 3)),
            ..FlowSpec::default()
        };
        let mut talk = Talk::new(&spec, 1000, &Rng::new(2));
        let (mut now, mut chunks) = (Time::ZERO, 0u64);
        while now < Time(4_000_000_000_000) {
            now = talk.next(now);
            chunks += 1;
        }
        // 100 chunks of 1000 octets per second, a quarter of 4000 seconds.
        assert!((90_000..110_000).contains(&chunks), "{chunks}");
    }

    #[test]
    fn exponential_spans_have_their_mean() {
        let mut rng = Rng::new(3);
        let n = 100_000;
        let sum: u64 = (0..n).map(|_| exponential(&mut rng, Span::SECOND).0).sum();
        assert!((sum as f64 / n as f64 / 1e9 - 1.0).abs() < 0.02);
    }
}

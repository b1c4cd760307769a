//! What the radio's thread and the thread that watches the host tell each other.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Stands for no value in the atomics below.
const NONE: u64 = u64::MAX;

/// What the two threads tell each other of one node.
#[derive(Debug)]
pub(crate) struct NodeShared {
    /// Somebody captures packets in its namespace, or frames of others are wanted anyhow.
    pub listens: AtomicBool,
    /// Somebody listens on its monitor.
    pub monitored: AtomicBool,
    /// Average and last sample of the driver's delay, microseconds.
    delay: AtomicU64,
    sample: AtomicU64,
    /// Share of the last tenth of a second in which the medium was busy, in thousandths.
    busy: AtomicU64,
    /// Frames that did not fit into the TAP's ring.
    pub dropped: AtomicU64,
}

/// What the two threads tell each other of the nodes and of the host.
#[derive(Debug)]
pub(crate) struct Shared {
    pub nodes: Vec<NodeShared>,
    /// Stolen share of processor time, in millionths; [`NONE`] if unknown.
    steal: AtomicU64,
    /// Share of time in which some process waited for a processor, in millionths.
    pressure: AtomicU64,
    /// How often kernels were given other routes, and how late at most, microseconds of model time.
    pub reroutes: AtomicU64,
    pub reroute_late: AtomicU64,
    pub stop: AtomicBool,
}

impl Shared {
    /// `listens`: every node hears the frames of others from the start.
    pub fn new(nodes: usize, listens: bool) -> Shared {
        let node = |_| NodeShared {
            listens: AtomicBool::new(listens),
            monitored: AtomicBool::new(false),
            delay: AtomicU64::new(NONE),
            sample: AtomicU64::new(NONE),
            busy: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        };
        Shared {
            nodes: (0..nodes).map(node).collect(),
            steal: AtomicU64::new(NONE),
            pressure: AtomicU64::new(NONE),
            reroutes: AtomicU64::new(0),
            reroute_late: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    pub fn set_steal(&self, share: Option<f64>) {
        self.steal.store(millionths(share), Ordering::Relaxed);
    }

    pub fn steal(&self) -> Option<f64> {
        share(self.steal.load(Ordering::Relaxed))
    }

    pub fn set_pressure(&self, share: Option<f64>) {
        self.pressure.store(millionths(share), Ordering::Relaxed);
    }

    pub fn pressure(&self) -> Option<f64> {
        share(self.pressure.load(Ordering::Relaxed))
    }

    pub fn dropped(&self) -> u64 {
        self.nodes
            .iter()
            .map(|n| n.dropped.load(Ordering::Relaxed))
            .sum()
    }
}

impl NodeShared {
    /// Whether somebody listens on its monitor.
    pub fn monitors(&self) -> bool {
        self.monitored.load(Ordering::Relaxed)
    }

    /// Average and last sample, microseconds.
    pub fn set_delay(&self, delay: u64, sample: u64) {
        self.delay.store(delay, Ordering::Relaxed);
        self.sample.store(sample, Ordering::Relaxed);
    }

    /// How busy the medium was, 0 to 1. Files follow: thousandths are enough.
    pub fn set_busy(&self, share: f32) {
        self.busy
            .store((share * 1e3).round() as u64, Ordering::Relaxed);
    }

    /// The same, in millionths.
    pub fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed) * 1000
    }

    /// As before the first sample; the files keep what they say until there is one.
    pub fn forget_delay(&self) {
        self.delay.store(NONE, Ordering::Relaxed);
        self.sample.store(NONE, Ordering::Relaxed);
    }

    /// What was set last; none before.
    pub fn delay(&self) -> Option<(u64, u64)> {
        let read = |a: &AtomicU64| Some(a.load(Ordering::Relaxed)).filter(|v| *v != NONE);
        Some((read(&self.delay)?, read(&self.sample)?))
    }
}

fn millionths(share: Option<f64>) -> u64 {
    share.map_or(NONE, |s| (s * 1e6) as u64)
}

fn share(millionths: u64) -> Option<f64> {
    (millionths != NONE).then(|| millionths as f64 / 1e6)
}

//! The traffic of applications (`--app`): the simulator's models of them on real connections.
//!
//! The client has the application and its clock; the server reads what comes, and answers where the
//! application wants answers. Both are one loop over sockets that never block.

pub mod client;
mod conn;
pub mod server;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::bail;
use serde::Serialize;
use wifu_linux::bsd::Signals;
use wifu_sim::outcome::Percentiles;
use wifu_sim::scenario::AppKind;

use super::control::{Control, Message};
use super::measured::{Recorder, Results, Stack};
use super::outcome::Name;
use super::parameters::{Application, Test};

/// Connections that may wait to be accepted, as in the simulator.
pub const BACKLOG: i32 = 16;

/// The number of the flow in reports: its connections come and go.
const FLOW: i32 = 1;

/// What became of an application.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Outcome {
    /// Its name, as `--app` takes it.
    pub app: &'static str,
    /// Files or answers that arrived whole.
    pub requests: Vec<Request>,
    /// It came to its end, and all that it wrote arrived.
    pub finished: bool,
    /// Connections that were begun.
    pub connections: u32,
    /// When the first was established, seconds since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected_s: Option<f64>,
    /// Why a connection ended badly, if one did; the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// When that was, seconds since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault_s: Option<f64>,
    /// Segment size of the last connection, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss: Option<u32>,
    /// Bytes that the client asked with, where only the answers count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_bytes: Option<u64>,
    /// Segments that the client retransmitted; absent if a connection was over before it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// The client's smoothed round-trip time when it was asked last, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<u32>,
    /// What the client's stack counted, all connections together.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Stack>,
    /// Round-trip times as the client's stack of WiFu's timed them, each sample once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<Percentiles>,
    /// The client's congestion window then, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snd_cwnd: Option<u64>,
}

/// A file, or an answer.
#[derive(Debug, Clone, Serialize)]
pub struct Request {
    /// When it was asked for, or its connection begun: seconds since the start.
    pub start_s: f64,
    /// Its length.
    pub bytes: u64,
    /// Until its last byte had arrived and the client knew, seconds.
    pub delay_s: f64,
}

/// Whether it makes sense, wherever it comes from.
pub fn sound(app: &Application) -> bool {
    let steady = matches!(
        app.spec.app,
        AppKind::Bulk | AppKind::File | AppKind::Stream
    );
    let seconds = app.seconds.is_none_or(|s| (0.0..=86_400.0).contains(&s));
    !steady && seconds && app.spec.check("app").is_ok()
}

/// Whether the answers count, not what is asked.
fn answers(test: &Test) -> bool {
    let app = test.app.as_ref().map(|app| app.spec.app);
    app == Some(AppKind::Request)
}

/// The flow as the report names it, by the ends of its last connection, this one first; without
/// one they are not specified.
pub fn name(test: &Test, server: bool, ends: Option<(SocketAddr, SocketAddr)>) -> Name {
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let (here, there) = ends.unwrap_or((nowhere, nowhere));
    let sends = server == answers(test);
    Name {
        socket: FLOW,
        sends,
        ends: if sends { (here, there) } else { (there, here) },
    }
}

/// What has been counted at one end.
struct Count {
    epoch: Instant,
    bytes: u64,
    times: Option<(f64, f64)>,
    recorder: Option<Recorder>,
}

impl Count {
    fn new(test: &Test, records: bool) -> Self {
        Self {
            epoch: Instant::now(),
            bytes: 0,
            times: None,
            recorder: test.arrivals.filter(|_| records).map(Recorder::new),
        }
    }

    fn add(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let now = self.epoch.elapsed();
        self.bytes += bytes;
        let at = now.as_secs_f64();
        self.times = Some((self.times.map_or(at, |times| times.0), at));
        if let Some(recorder) = &mut self.recorder {
            recorder.add(now, self.bytes);
        }
    }
}

/// Why a test ends.
enum Ending {
    /// The application is done; this side says so first.
    Regular,
    /// A signal, of this number, came to this process.
    Signal(i32),
    /// The other side said so, with a reason if it was not as planned.
    Told(Option<String>),
    /// The other side is gone.
    Lost(String),
}

impl Ending {
    /// Tells the other side, unless it was the one to say so: what was in the way.
    fn tell(&self, control: &mut Control, me: &str, patience: Duration) -> Option<String> {
        let error = match self {
            Self::Lost(error) => return Some(error.clone()),
            Self::Told(_) => return None,
            Self::Signal(number) => Some(format!("signal {number} to the {me}")),
            Self::Regular => None,
        };
        let sent = control.send(&Message::End { error }, patience);
        sent.err().map(|error| format!("{error:#}"))
    }

    /// What the report says of it, with the signal. `lost` is why the other side's results are not
    /// there.
    fn error(self, me: &str, other: &str, lost: Option<String>) -> (Option<String>, Option<i32>) {
        let lost = lost.map(|error| format!("lost the {other}: {error}"));
        match self {
            Self::Signal(number) => {
                let error = format!("interrupt - the {me} has terminated");
                (Some(error), Some(number))
            }
            Self::Told(Some(why)) => (Some(format!("the {other} ended the test: {why}")), None),
            _ => (lost, None),
        }
    }
}

/// Waits for the other side's results, unless a signal comes.
fn results(
    control: &mut Control,
    signals: &Signals,
    patience: Duration,
) -> anyhow::Result<Results> {
    let deadline = Instant::now() + patience;
    loop {
        match control.try_receive()? {
            Some(Message::Results(results)) => return Ok(*results),
            Some(Message::Error { message }) => bail!(message),
            Some(_) => continue,
            None => {}
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("no results on the control connection for {patience:?}");
        }
        conn::wait(&[control.as_fd(), signals.as_fd()], &[], Some(left));
        if signals.take().is_some() {
            bail!("interrupted while waiting for results");
        }
    }
}

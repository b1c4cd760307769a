//! The test itself, on either side: starts the streams, reports at intervals, notices the end,
//! and exchanges results.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use wifu_linux::bsd::{self, Signals, TcpInfo};

use super::app::Outcome;
use super::control::{Control, Message};
use super::measured::{Extremes, Results, Stack, Totals};
use super::outcome::{Sum, rate};
use super::output::Output;
use super::parameters::Test;
use super::report::{Interval, Row, RowWifu, TcpRow};
use super::stream::{Shared, Stream};
use super::usage::{Usage, monotonic_at};

/// How long the results of the other side may take once the user wants to leave.
pub const IMPATIENCE: Duration = Duration::from_secs(3);

/// How late the client's word of the end may be before the server's last row is written without.
const GRACE: Duration = Duration::from_secs(1);

/// A last row shorter than this, in which nothing moved, is left out.
const SLIVER: Duration = Duration::from_millis(5);

/// A test about to start.
pub struct Session<'a> {
    /// The test, with all that both ends know of it.
    pub test: &'a Test,
    /// This is the server.
    pub server: bool,
    /// The data streams by index.
    pub streams: &'a [Stream],
    /// To the other side.
    pub control: &'a mut Control,
    /// Signals, any of which ends the test early.
    pub signals: &'a Signals,
    /// Where rows are written as they come.
    pub output: &'a mut Output,
    /// Time between rows; none: one row at the end.
    pub interval: Option<Duration>,
    /// How long an answer on the control connection may take.
    pub patience: Duration,
}

/// A test that is over.
pub struct Finished {
    /// The rows of all intervals, in order.
    pub intervals: Vec<Interval>,
    /// When it began, by the host's monotonic clock, seconds.
    pub begun: f64,
    /// What became of the application whose traffic it was, at the client.
    pub application: Option<Outcome>,
    /// The two ends, this one first, of the last connection of an application.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// What this side measured.
    pub own: Results,
    /// What the other side measured, if it still said.
    pub other: Option<Results>,
    /// Why the test failed or ended early.
    pub error: Option<String>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// Why a test ends.
enum Ending {
    /// As planned; this side says so first.
    Regular,
    /// A stream's thread failed; joining it tells why.
    Failed,
    /// A signal, of this number, came to this process.
    Signal(i32),
    /// The other side said so, with a reason if it was not as planned.
    Told(Option<String>),
    /// The other side is gone.
    Lost(String),
}

struct Run<'a> {
    session: Session<'a>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    meters: Vec<Meter>,
    usage: Usage,
    /// When counting began, since the epoch: the end of the omitted time.
    base: Duration,
    /// Where the row being measured began, since the epoch.
    row_start: Duration,
    omitting: bool,
    /// This side has sent `done`.
    announced: bool,
    /// The other side has sent `done`.
    other_done: bool,
    intervals: Vec<Interval>,
    /// The monotonic clock at the epoch, seconds.
    begun: f64,
}

impl Session<'_> {
    /// Runs the test to its end, whatever that is.
    ///
    /// # Errors
    /// The streams' threads cannot be started.
    pub fn run(self) -> anyhow::Result<Finished> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let epoch = Instant::now();
        let begun = monotonic_at(epoch);
        let length = self
            .length()
            .map(|end| if self.server { end + GRACE } else { end });
        let shared = Arc::new(Shared {
            epoch,
            deadline: length.map(|length| epoch + length),
            stop: AtomicBool::new(false),
            budget: AtomicU64::new(u64::MAX),
            finished: AtomicU32::new(0),
            failed: AtomicBool::new(false),
            wake: wake.context("making an event descriptor")?,
        });
        let mut run = Run {
            meters: self.streams.iter().map(Meter::new).collect(),
            threads: Vec::new(),
            shared,
            usage: Usage::now(),
            base: Duration::ZERO,
            row_start: Duration::ZERO,
            omitting: self.test.omit > 0.0,
            announced: false,
            other_done: false,
            intervals: Vec::new(),
            begun,
            session: self,
        };
        if !run.omitting {
            run.set_budget();
        }
        for stream in run.session.streams {
            run.threads
                .push(stream.start(run.session.test, &run.shared)?);
        }
        let ending = run.until_the_end();
        Ok(run.wind_up(ending))
    }

    /// How long the test takes, if time is what ends it.
    fn length(&self) -> Option<Duration> {
        let test = self.test;
        let timed = test.bytes.is_none();
        timed.then(|| Duration::from_secs_f64(test.omit + test.seconds))
    }
}

impl Run<'_> {
    fn until_the_end(&mut self) -> Ending {
        loop {
            let now = self.shared.epoch.elapsed();
            let omit = Duration::from_secs_f64(self.session.test.omit);
            if self.omitting && now >= omit {
                self.end_of_omission(now);
            } else if self.next_row().is_some_and(|due| now >= due) {
                self.row(now);
            }
            if self.end().is_some_and(|end| now >= end) && !self.session.server {
                return Ending::Regular;
            }
            // Messages before threads: a `done` completes what the threads have finished.
            if let Some(ending) = self.look_at_messages() {
                return ending;
            }
            if let Some(ending) = self.look_at_threads() {
                return ending;
            }
            if let Some(number) = self.session.signals.take() {
                return Ending::Signal(number);
            }
            let due = [self.next_row(), self.end(), self.omitting.then_some(omit)];
            let due = due.into_iter().flatten().filter(|due| *due > now).min();
            self.wait(due);
        }
    }

    /// Sleeps until `due` or until something happens.
    fn wait(&self, due: Option<Duration>) {
        let now = self.shared.epoch.elapsed();
        let timeout = due.map(|due| due.saturating_sub(now));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut fds = [
            PollFd::new(&self.session.control, PollFlags::IN),
            PollFd::new(&self.session.signals, PollFlags::IN),
            PollFd::new(&self.shared.wake, PollFlags::IN),
        ];
        // Whatever poll says, the caller looks at everything again.
        let _ = poll(&mut fds, timeout.as_ref());
        let _ = rustix::io::read(&self.shared.wake, &mut [0u8; 8]);
    }

    /// When the time is up, since the epoch.
    fn end(&self) -> Option<Duration> {
        self.session.length()
    }

    /// When the row being measured ends. The last row is written by [`Run::wind_up`]; the
    /// server, whose clock is not the one that decides, waits a little for the client's word.
    fn next_row(&self) -> Option<Duration> {
        let interval = self.session.interval?;
        let due = self.row_start + interval;
        match self.end() {
            Some(end) if due + interval / 20 >= end => {
                self.session.server.then(|| due.max(end) + GRACE)
            }
            _ => Some(due),
        }
    }

    fn set_budget(&self) {
        if let Some(bytes) = self.session.test.bytes {
            self.shared.budget.store(bytes, Relaxed);
        }
    }

    fn end_of_omission(&mut self, now: Duration) {
        self.row(now);
        self.omitting = false;
        self.base = now;
        for (meter, stream) in self.meters.iter_mut().zip(self.session.streams) {
            stream.counters.first.store(0, Relaxed);
            meter.restart();
        }
        self.set_budget();
    }

    /// Measures the row that ends now.
    fn row(&mut self, now: Duration) {
        let (start, end) = (self.row_start, now);
        let seconds = (end - start).as_secs_f64();
        let mut rows = Vec::with_capacity(self.meters.len());
        for (meter, stream) in self.meters.iter_mut().zip(self.session.streams) {
            let info = if stream.sends { stream.info() } else { None };
            let told = info.as_ref().map(|info| (info, stream.stack(info)));
            let (bytes, tcp) = meter.row(stream.counters.bytes.load(Relaxed), told);
            rows.push(Row {
                socket: stream.id(),
                start: start.saturating_sub(self.base).as_secs_f64(),
                end: end.saturating_sub(self.base).as_secs_f64(),
                seconds,
                bytes,
                bits_per_second: rate(bytes, seconds),
                tcp,
                omitted: self.omitting,
                sender: stream.sends,
                wifu: RowWifu::new(stream.ends(), info.as_ref()),
            });
        }
        self.row_start = now;
        let split = self.session.test.streams as usize;
        let (forward, backward) = rows.split_at(split.min(rows.len()));
        let sum_bidir_reverse = (!backward.is_empty()).then(|| sum(backward));
        let interval = Interval {
            sum: sum(forward),
            sum_bidir_reverse,
            streams: rows,
        };
        self.session.output.interval(&interval);
        self.intervals.push(interval);
    }

    fn look_at_messages(&mut self) -> Option<Ending> {
        loop {
            match self.session.control.try_receive() {
                Ok(None) => return None,
                Ok(Some(Message::Done)) => self.other_done = true,
                Ok(Some(Message::End { error })) => return Some(Ending::Told(error)),
                Ok(Some(Message::Error { message })) => return Some(Ending::Lost(message)),
                Ok(Some(_)) => return Some(Ending::Lost("message out of turn".to_owned())),
                Err(error) => return Some(Ending::Lost(format!("{error:#}"))),
            }
        }
    }

    fn look_at_threads(&mut self) -> Option<Ending> {
        if self.shared.failed.load(Relaxed) {
            return Some(Ending::Failed);
        }
        let all = self.shared.finished.load(Relaxed) as usize == self.threads.len();
        if !all || self.session.test.bytes.is_none() {
            return None;
        }
        if !self.session.server {
            return self.other_done.then_some(Ending::Regular);
        }
        if !std::mem::replace(&mut self.announced, true) {
            let sent = self
                .session
                .control
                .send(&Message::Done, self.session.patience);
            return sent.err().map(|error| Ending::Lost(format!("{error:#}")));
        }
        None
    }

    /// Stops the threads, writes the last row and exchanges results.
    fn wind_up(mut self, ending: Ending) -> Finished {
        let stopped = self.shared.epoch.elapsed();
        self.shared.stop.store(true, Relaxed);
        let (me, other) = if self.session.server {
            ("server", "client")
        } else {
            ("client", "server")
        };
        let why = match &ending {
            Ending::Signal(number) => Some(format!("signal {number} to the {me}")),
            Ending::Failed => Some(format!("a stream of the {me} failed")),
            Ending::Regular | Ending::Told(_) | Ending::Lost(_) => None,
        };
        let mut lost = match &ending {
            Ending::Lost(error) => Some(error.clone()),
            Ending::Told(_) => None,
            _ => {
                let message = Message::End { error: why };
                let sent = self.session.control.send(&message, IMPATIENCE);
                sent.err().map(|error| format!("{error:#}"))
            }
        };
        let failures = self.join();
        if self.intervals.is_empty() || stopped > self.row_start + SLIVER || self.unreported() {
            self.row(stopped.max(self.row_start));
        }
        let own = self.results(
            stopped,
            matches!(ending, Ending::Regular | Ending::Told(None)),
        );
        let hurry = matches!(ending, Ending::Signal(_) | Ending::Failed);
        let patience = if hurry {
            IMPATIENCE
        } else {
            self.session.patience
        };
        let mut results = None;
        if lost.is_none() {
            match self.exchange(&own, patience) {
                Ok(other) => results = Some(other),
                Err(error) => lost = Some(format!("{error:#}")),
            }
        }
        let lost = lost.map(|error| format!("lost the {other}: {error}"));
        let failed = (!failures.is_empty()).then(|| failures.join("; "));
        let (error, signal) = match ending {
            Ending::Signal(number) => (
                Some(format!("interrupt - the {me} has terminated")),
                Some(number),
            ),
            Ending::Told(Some(why)) => (
                failed.or(Some(format!("the {other} ended the test: {why}"))),
                None,
            ),
            Ending::Lost(_) => (lost, None),
            _ => (failed.or(lost), None),
        };
        Finished {
            intervals: self.intervals,
            begun: self.begun,
            application: None,
            ends: None,
            own,
            other: results,
            error,
            signal,
        }
    }

    /// Whether bytes have moved since the last row.
    fn unreported(&self) -> bool {
        let mut pairs = self.meters.iter().zip(self.session.streams);
        pairs.any(|(meter, stream)| stream.counters.bytes.load(Relaxed) > meter.row.0)
    }

    /// Waits for the threads and returns what went wrong in them.
    fn join(&mut self) -> Vec<String> {
        let mut failures = Vec::new();
        for (thread, stream) in self.threads.drain(..).zip(self.session.streams) {
            let result = thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("panic")));
            if let Err(error) = result {
                let (from, to) = stream.ends();
                failures.push(format!("stream {} ({from} > {to}): {error}", stream.id()));
            }
        }
        failures
    }

    /// What this side measured, up to `stopped`.
    fn results(&self, stopped: Duration, whole: bool) -> Results {
        let end = stopped.saturating_sub(self.base).as_secs_f64();
        let sized = self.session.test.bytes.is_some() && whole;
        let streams = self
            .meters
            .iter()
            .zip(self.session.streams)
            .map(|(meter, stream)| {
                let times = self.times(stream);
                let last = times.map(|times| times.1).filter(|last| *last > 0.0);
                Totals {
                    bytes: meter.total(),
                    omitted: Some(meter.base.0),
                    seconds: last.filter(|_| sized).unwrap_or(end),
                    times,
                    arrivals: stream.counters.points(),
                    corrupt: stream.counters.corrupt(),
                    tcp: meter.extremes(),
                    retransmits: None,
                    stack: meter.stack(),
                    feedback_segments: meter.feedback(stream),
                    connect_s: stream.connect_time.map(|time| time.as_secs_f64()),
                    monotonic_s: Some(self.begun + self.base.as_secs_f64()),
                }
            });
        let first = self.session.streams.iter().find(|stream| stream.sends);
        let first = first.or_else(|| self.session.streams.first());
        Results {
            streams: streams.collect(),
            congestion: first.and_then(|stream| bsd::congestion(&*stream.socket).ok()),
            ..self.usage.since()
        }
    }

    /// First and last completion on `stream`, seconds since counting began.
    fn times(&self, stream: &Stream) -> Option<(f64, f64)> {
        let since = |stamp: u64| {
            let at = stamp.checked_sub(1).map(Duration::from_nanos)?;
            Some(at.saturating_sub(self.base).as_secs_f64())
        };
        let counters = &stream.counters;
        Some((
            since(counters.first.load(Relaxed))?,
            since(counters.last.load(Relaxed))?,
        ))
    }

    /// The client sends its results first; the server's follow when its report is complete.
    fn exchange(&mut self, own: &Results, patience: Duration) -> anyhow::Result<Results> {
        if !self.session.server {
            let message = Message::Results(Box::new(own.clone()));
            self.session.control.send(&message, patience)?;
        }
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // In slices, so that a second interrupt is obeyed.
            match self.session.control.try_receive()? {
                Some(Message::Results(results)) => return Ok(*results),
                Some(Message::Error { message }) => anyhow::bail!(message),
                Some(_) => continue,
                None if left.is_zero() => {
                    anyhow::bail!("no results on the control connection for {patience:?}")
                }
                None => self.wait(Some(self.shared.epoch.elapsed() + left)),
            }
            if self.session.signals.take().is_some() {
                anyhow::bail!("interrupted while waiting for results");
            }
        }
    }
}

/// The sum of the rows of one direction.
pub fn sum(rows: &[Row]) -> Sum {
    let bytes = rows.iter().map(|row| row.bytes).sum();
    let first = rows.first();
    let seconds = first.map_or(0.0, |row| row.seconds);
    let states = rows.iter().filter_map(|row| row.tcp.as_ref());
    Sum {
        start: first.map_or(0.0, |row| row.start),
        end: first.map_or(0.0, |row| row.end),
        seconds,
        bytes,
        bits_per_second: rate(bytes, seconds),
        retransmits: states.map(|tcp| tcp.retransmits).reduce(|a, b| a + b),
        omitted: Some(first.is_some_and(|row| row.omitted)),
        sender: first.is_some_and(|row| row.sender),
        wifu: None,
    }
}

/// What a stream's rows and totals are computed from.
#[derive(Debug, Default)]
struct Meter {
    /// Counters at the start, or at the end of the omitted time.
    base: (u64, u32),
    /// Counters at the start of the row being measured: bytes, retransmissions.
    row: (u64, u32),
    /// What the stack had counted then, and has by now.
    stack: (Stack, Stack),
    /// Segments that a receiver's stack had sent when the test began.
    feedback: u32,
    /// Sum and number of the round-trip times seen.
    rtts: (u64, u64),
    extremes: Option<Extremes>,
}

impl Meter {
    fn new(stream: &Stream) -> Self {
        let info = stream.info();
        let feedback = info.map_or(0, |info| info.segs_out);
        let info = info.filter(|_| stream.sends);
        let mark = (0, info.map_or(0, |info| info.total_retrans));
        let counted = info.as_ref().map(|info| stream.stack(info));
        let counted = counted.unwrap_or_default();
        Self {
            base: mark,
            row: mark,
            feedback,
            stack: (counted.clone(), counted),
            ..Self::default()
        }
    }

    fn restart(&mut self) {
        *self = Self {
            base: self.row,
            row: self.row,
            stack: (self.stack.1.clone(), self.stack.1.clone()),
            feedback: self.feedback,
            ..Self::default()
        };
    }

    /// Takes the counters at a row's end; returns the row's bytes and the sender's state.
    fn row(&mut self, bytes: u64, told: Option<(&TcpInfo, Stack)>) -> (u64, Option<TcpRow>) {
        let mut has = (true, true);
        let info = told.map(|(info, stack)| {
            has = (stack.has("snd_cwnd"), stack.has("snd_wnd"));
            self.stack.1 = stack;
            info
        });
        let retrans = info.map_or(self.row.1, |info| info.total_retrans);
        let before = std::mem::replace(&mut self.row, (bytes, retrans));
        let tcp = info.map(|info| TcpRow {
            retransmits: retrans.wrapping_sub(before.1).into(),
            snd_cwnd: has
                .0
                .then(|| u64::from(info.snd_cwnd) * u64::from(info.snd_mss)),
            snd_wnd: has.1.then(|| info.snd_wnd.into()),
            rtt: info.rtt_us,
            rttvar: info.rttvar_us,
            pmtu: info.pmtu,
            reorder: info.reordering,
        });
        if let Some(tcp) = &tcp {
            self.rtts = (self.rtts.0 + u64::from(tcp.rtt), self.rtts.1 + 1);
            let known = self.extremes;
            self.extremes = Some(Extremes {
                retransmits: retrans.wrapping_sub(self.base.1).into(),
                max_snd_cwnd: known.and_then(|x| x.max_snd_cwnd).max(tcp.snd_cwnd),
                max_snd_wnd: known.and_then(|x| x.max_snd_wnd).max(tcp.snd_wnd),
                max_rtt: known.map_or(0, |x| x.max_rtt).max(tcp.rtt),
                min_rtt: known.map_or(u32::MAX, |x| x.min_rtt).min(tcp.rtt),
                mean_rtt: u32::try_from(self.rtts.0 / self.rtts.1).unwrap_or(u32::MAX),
            });
        }
        (bytes - before.0, tcp)
    }

    fn total(&self) -> u64 {
        self.row.0 - self.base.0
    }

    /// Segments that a receiver's stack has sent; none at a sender, or where it does not tell.
    fn feedback(&self, stream: &Stream) -> Option<u64> {
        let info = stream.info().filter(|_| !stream.sends)?;
        Some(info.segs_out.wrapping_sub(self.feedback).into())
    }

    fn extremes(&self) -> Option<Extremes> {
        self.extremes
    }

    /// What the stack counted; none at a receiver.
    fn stack(&self) -> Option<Stack> {
        let (before, now) = &self.stack;
        self.extremes.map(|_| now.clone().since(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(total_retrans: u32, rtt_us: u32, snd_cwnd: u32) -> TcpInfo {
        TcpInfo {
            total_retrans,
            rtt_us,
            snd_cwnd,
            snd_mss: 1000,
            timeouts: Some(total_retrans / 2),
            min_rtt_us: rtt_us / 2,
            segs_out: 1_000 * total_retrans,
            bytes_sent: Some(1_000 * u64::from(total_retrans)),
            bytes_retrans: 100 * u64::from(total_retrans),
            ..TcpInfo::default()
        }
    }

    fn told(info: &TcpInfo) -> Option<(&TcpInfo, Stack)> {
        Some((info, Stack::new(info, None)))
    }

    #[test]
    fn a_meter_gives_differences_and_keeps_extremes() {
        let mut meter = Meter {
            base: (0, 2),
            row: (0, 2),
            ..Meter::default()
        };
        let (bytes, tcp) = meter.row(500, told(&info(5, 100, 10)));
        let tcp = tcp.unwrap();
        assert_eq!(
            (bytes, tcp.retransmits, tcp.snd_cwnd),
            (500, 3, Some(10_000))
        );
        let (bytes, tcp) = meter.row(800, told(&info(5, 300, 4)));
        assert_eq!((bytes, tcp.unwrap().retransmits), (300, 0));
        let extremes = meter.extremes().unwrap();
        assert_eq!(
            (extremes.retransmits, extremes.max_snd_cwnd),
            (3, Some(10_000))
        );
        assert_eq!(
            (extremes.min_rtt, extremes.mean_rtt, extremes.max_rtt),
            (100, 200, 300)
        );
        assert_eq!(meter.total(), 800);
        let stack = meter.stack().unwrap();
        assert_eq!((stack.timeouts, stack.smallest_rtt), (None, Some(150)));
        assert_eq!(stack.segments, 5_000);
    }

    #[test]
    fn windows_that_a_protocol_has_not_are_absent() {
        let mut meter = Meter::default();
        let text = r#"{"lacks":["snd_cwnd","snd_wnd"],"limited_s":{},"rtt":""}"#;
        let info = info(5, 100, 0);
        let stack = Stack::new(&info, super::super::measured::Counted::of(text));
        let (_, tcp) = meter.row(500, Some((&info, stack)));
        let tcp = tcp.unwrap();
        assert_eq!((tcp.snd_cwnd, tcp.snd_wnd), (None, None));
        let extremes = meter.extremes().unwrap();
        assert_eq!((extremes.max_snd_cwnd, extremes.max_snd_wnd), (None, None));
        let told = serde_json::to_string(&(tcp, extremes)).unwrap();
        assert!(!told.contains("cwnd") && !told.contains("wnd"), "{told}");
    }

    #[test]
    fn what_was_omitted_does_not_count() {
        let mut meter = Meter::default();
        meter.row(500, told(&info(7, 900, 90)));
        meter.restart();
        assert_eq!((meter.total(), meter.extremes()), (0, None));
        meter.row(600, told(&info(8, 100, 10)));
        let extremes = meter.extremes().unwrap();
        assert_eq!(
            (meter.total(), extremes.retransmits, extremes.max_rtt),
            (100, 1, 100)
        );
        let stack = meter.stack().unwrap();
        assert_eq!((stack.timeouts, stack.segments), (Some(1), 1_000));
        assert_eq!(stack.sent_bytes, Some(900));
    }
}

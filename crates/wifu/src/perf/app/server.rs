//! The server of a test with an application: it reads what comes, answers where answers are wanted,
//! and tells the client what has arrived.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::Context;
use rustix::event::PollFlags;
use wifu_linux::bsd::Signals;
use wifu_sim::traffic::App;
use wifu_wire::Rng;

use super::conn::{Conn, wait};
use super::{Count, Ending, FLOW, answers, name, results};
use crate::perf::args::Args;
use crate::perf::control::{Control, Message, plain};
use crate::perf::measured::{Results, Totals};
use crate::perf::outcome::rate;
use crate::perf::output::Output;
use crate::perf::parameters::Test;
use crate::perf::report::{Interval, Row, RowWifu};
use crate::perf::session::{Finished, IMPATIENCE, sum};
use crate::perf::stream::payload;
use crate::perf::usage::{Usage, monotonic_at};

/// Bytes written or read at once.
const BLOCK: usize = 128 * 1024;

/// Connections at a time, and announcements of connections that have not come: an application has
/// one, and one that is about to close.
const MOST: usize = 256;

/// How long a connection stays that its client has closed: it can still ask its stack how it went.
const LINGER: Duration = Duration::from_millis(20);

/// Serves one test to its end, whatever that is. `control` and `signals` go together.
///
/// # Errors
/// The listening socket fails.
pub fn run(
    args: &Args,
    test: &Test,
    listener: &TcpListener,
    (control, signals): (&mut Control, &Signals),
    output: &mut Output,
) -> anyhow::Result<Finished> {
    let app = test.app.as_ref().context("no application")?;
    control.send(&Message::Start, args.control_patience())?;
    let server = Server {
        test,
        listener,
        // It draws nothing: the client decides what is asked for when.
        app: App::new(&app.spec, &Rng::from_state(app.stream)),
        control,
        signals,
        output,
        count: Count::new(test, !answers(test)),
        interval: args.report_interval(),
        row: (Duration::ZERO, 0),
        intervals: Vec::new(),
        peers: Vec::new(),
        ends: None,
        expected: BTreeMap::new(),
        block: payload(BLOCK),
        buffer: vec![0; BLOCK],
        patience: args.control_patience(),
        sent: Some((0, 0)),
    };
    server.run()
}

/// A connection of the client's.
struct Peer {
    from: SocketAddr,
    /// None once it is closed.
    conn: Option<Conn>,
    read: u64,
    /// The client knows that all that it announced has arrived.
    told: bool,
    /// When it is closed, since the start: the client has closed it.
    until: Option<Duration>,
}

struct Server<'a> {
    test: &'a Test,
    listener: &'a TcpListener,
    app: App,
    control: &'a mut Control,
    signals: &'a Signals,
    output: &'a mut Output,
    count: Count,
    interval: Option<Duration>,
    /// Where the row being measured began: since the start, bytes.
    row: (Duration, u64),
    intervals: Vec<Interval>,
    peers: Vec<Peer>,
    /// The ends of the last connection, this one first.
    ends: Option<(SocketAddr, SocketAddr)>,
    /// What the client said of connections that it has not been told of yet.
    expected: BTreeMap<SocketAddr, u64>,
    block: Vec<u8>,
    buffer: Vec<u8>,
    patience: Duration,
    /// Segments that its connections have sent which are over, and again; none once one did not
    /// tell.
    sent: Option<(u64, u64)>,
}

impl Server<'_> {
    fn run(mut self) -> anyhow::Result<Finished> {
        let (begun, usage) = (monotonic_at(self.count.epoch), Usage::now());
        let ending = self.until_the_end()?;
        let stopped = self.count.epoch.elapsed();
        for peer in &mut self.peers {
            over(&mut self.sent, &mut peer.conn);
        }
        let (hurry, patience) = (matches!(ending, Ending::Signal(_)), self.patience);
        let mut lost = ending.tell(self.control, "server", IMPATIENCE);
        self.row(stopped);
        let used = usage.since();
        let own = Results {
            streams: vec![Totals {
                bytes: self.count.bytes,
                omitted: Some(0),
                seconds: stopped.as_secs_f64(),
                times: self.count.times,
                arrivals: self.count.recorder.as_ref().map(|r| r.points()),
                corrupt: None,
                tcp: None,
                retransmits: self.sent.map(|sent| sent.1),
                stack: None,
                feedback_segments: self.sent.map(|sent| sent.0),
                connect_s: None,
                monotonic_s: Some(begun),
            }],
            ..used
        };
        let mut other = None;
        if lost.is_none() {
            let patience = if hurry { IMPATIENCE } else { patience };
            match results(self.control, self.signals, patience) {
                Ok(results) => other = Some(results),
                Err(error) => lost = Some(format!("{error:#}")),
            }
        }
        let (error, signal) = ending.error("server", "client", lost);
        Ok(Finished {
            intervals: self.intervals,
            begun,
            application: None,
            ends: self.ends,
            own,
            other,
            error,
            signal,
        })
    }

    fn until_the_end(&mut self) -> anyhow::Result<Ending> {
        self.listener.set_nonblocking(true)?;
        loop {
            let now = self.count.epoch.elapsed();
            let due = self.interval.map(|interval| self.row.0 + interval);
            if due.is_some_and(|due| now >= due) {
                self.row(now);
            }
            if let Some(ending) = self.look_at_messages() {
                return Ok(ending);
            }
            if let Some(number) = self.signals.take() {
                return Ok(Ending::Signal(number));
            }
            let left = self.close(now);
            let mut idle = vec![self.control.as_fd(), self.signals.as_fd()];
            if self.peers.len() < MOST {
                idle.push(self.listener.as_fd());
            }
            let conns: Vec<Option<&Conn>> = self.peers.iter().map(|p| p.conn.as_ref()).collect();
            let ready = wait(&idle, &conns, left);
            self.accept()?;
            for (at, ready) in ready.into_iter().enumerate() {
                self.progress(at, ready);
            }
            if let Err(error) = self.tell() {
                return Ok(Ending::Lost(format!("{error:#}")));
            }
        }
    }

    /// Closes what the client has closed long enough ago. How long there is nothing to do.
    fn close(&mut self, now: Duration) -> Option<Duration> {
        for peer in &mut self.peers {
            if peer.until.is_some_and(|until| now >= until) {
                peer.until = None;
                over(&mut self.sent, &mut peer.conn);
            }
        }
        let row = self.interval.map(|interval| self.row.0 + interval);
        let peers = self.peers.iter().filter_map(|peer| peer.until);
        let due = peers.chain(row).min();
        due.map(|due| due.saturating_sub(self.count.epoch.elapsed()))
    }

    fn accept(&mut self) -> anyhow::Result<()> {
        while self.peers.len() < MOST {
            match self.listener.accept() {
                Ok((socket, from)) => {
                    let (conn, from) = (Conn::accepted(socket)?, plain(from));
                    self.ends = conn.local().ok().map(|here| (here, from)).or(self.ends);
                    self.peers.push(Peer {
                        from,
                        conn: Some(conn),
                        read: 0,
                        told: false,
                        until: None,
                    });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // One that was reset before it was taken is none.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error).context("accepting a connection"),
            }
        }
        Ok(())
    }

    /// Lets a connection do what it is ready for.
    fn progress(&mut self, at: usize, ready: PollFlags) {
        let peer = &mut self.peers[at];
        let Some(conn) = &mut peer.conn else { return };
        if ready.is_empty() {
            return;
        }
        let mut result = conn.progress(ready, &self.block, &mut self.buffer);
        let mut wrote = 0;
        if let Ok(news) = &result {
            peer.read += news.read;
            wrote = news.wrote;
        }
        if let (Ok(news), Some(owed)) = (&result, self.app.owed(peer.read)) {
            let over = news.over;
            conn.write_up_to(owed);
            result = conn.progress(PollFlags::empty(), &self.block, &mut self.buffer);
            if let Ok(news) = &mut result {
                wrote += news.wrote;
                news.over = over;
            }
        }
        let count = match (answers(self.test), &result) {
            (true, _) => wrote,
            (false, Ok(news)) => news.read,
            (false, Err(_)) => 0,
        };
        match result {
            Ok(news) if news.over => {
                peer.until
                    .get_or_insert(self.count.epoch.elapsed() + LINGER);
            }
            Ok(_) => {}
            Err(_) => over(&mut self.sent, &mut peer.conn),
        }
        self.count.add(count);
    }

    /// Tells the client what of its connections has arrived.
    fn tell(&mut self) -> anyhow::Result<()> {
        for peer in self.peers.iter_mut().filter(|peer| !peer.told) {
            let from = peer.from;
            if self.expected.get(&from) == Some(&peer.read) {
                self.expected.remove(&from);
                peer.told = true;
                self.control
                    .send(&Message::Arrived { from }, self.patience)?;
            }
        }
        // Of a connection that is closed the client may still say what it was given.
        let crowded = self.peers.len() >= MOST;
        let stays = |peer: &Peer| peer.conn.is_some() || !(peer.told || crowded);
        self.peers.retain(stays);
        Ok(())
    }

    fn look_at_messages(&mut self) -> Option<Ending> {
        loop {
            match self.control.try_receive() {
                Ok(None) => return None,
                Ok(Some(Message::Expect { from, bytes })) => {
                    // What never came is forgotten.
                    if self.expected.len() >= MOST {
                        self.expected.clear();
                    }
                    self.expected.insert(from, bytes);
                    // One that brings a further file.
                    for peer in self.peers.iter_mut().filter(|peer| peer.from == from) {
                        peer.told = false;
                    }
                    if let Err(error) = self.tell() {
                        return Some(Ending::Lost(format!("{error:#}")));
                    }
                }
                Ok(Some(Message::End { error })) => return Some(Ending::Told(error)),
                Ok(Some(Message::Error { message })) => return Some(Ending::Lost(message)),
                Ok(Some(_)) => return Some(Ending::Lost("message out of turn".to_owned())),
                Err(error) => return Some(Ending::Lost(format!("{error:#}"))),
            }
        }
    }

    /// Measures the row that ends now.
    fn row(&mut self, now: Duration) {
        let (start, before) = std::mem::replace(&mut self.row, (now, self.count.bytes));
        let (seconds, bytes) = ((now - start).as_secs_f64(), self.count.bytes - before);
        let name = name(self.test, true, self.ends);
        let row = Row {
            socket: FLOW,
            start: start.as_secs_f64(),
            end: now.as_secs_f64(),
            seconds,
            bytes,
            bits_per_second: rate(bytes, seconds),
            tcp: None,
            omitted: false,
            sender: name.sends,
            wifu: RowWifu::new(name.ends, None),
        };
        let interval = Interval {
            sum: sum(std::slice::from_ref(&row)),
            sum_bidir_reverse: None,
            streams: vec![row],
        };
        self.output.interval(&interval);
        self.intervals.push(interval);
    }
}

/// A connection is over: what it has sent counts.
fn over(sent: &mut Option<(u64, u64)>, conn: &mut Option<Conn>) {
    if let Some(conn) = conn.take() {
        let one = conn.info();
        let one = one.map(|info| (u64::from(info.segs_out), u64::from(info.total_retrans)));
        *sent = sent.zip(one).map(|(a, b)| (a.0 + b.0, a.1 + b.1));
    }
}

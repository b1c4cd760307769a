//! The client of a test with an application: it has the application, connects, and says at the end
//! what became of it.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::event::PollFlags;
use wifu_linux::bsd::Signals;
use wifu_node::Registry;
use wifu_sim::scenario::AppKind;
use wifu_sim::traffic::{App, Step};
use wifu_wire::{Rng, Span, Time};

use super::conn::{Conn, wait};
use super::{Count, Ending, Outcome, Request, answers, results};
use crate::perf::args::Args;
use crate::perf::control::{Control, Hello, Message};
use crate::perf::measured::{Results, Stack, Totals};
use crate::perf::output::Output;
use crate::perf::parameters::{Application, Test};
use crate::perf::session::{Finished, IMPATIENCE};
use crate::perf::stream::{advice, payload, prepared_socket};
use crate::perf::units;
use crate::perf::usage::{Usage, monotonic_at};

/// Bytes written or read at once.
const BLOCK: usize = 128 * 1024;

/// Runs one test with an application whose connections go to `remote`.
///
/// # Errors
/// It has none.
pub fn run(
    (args, registry, remote): (&Args, &Registry, SocketAddr),
    test: &Test,
    (control, signals): (&mut Control, &Signals),
    output: &mut Output,
) -> anyhow::Result<Finished> {
    let app = test.app.as_ref().context("no application")?;
    let client = Client {
        link: Link {
            args,
            registry,
            test,
            remote,
        },
        app: App::new(&app.spec, &Rng::from_state(app.stream)),
        control,
        signals,
        output,
        count: Count::new(test, answers(test)),
        told: Outcome {
            app: app.spec.app.name(),
            retransmits: Some(0),
            stack: Some(Stack::none()),
            asked_bytes: answers(test).then_some(0),
            ..Outcome::default()
        },
        conn: None,
        announced: None,
        ends: None,
        deadline: Time::NEVER,
        next: Time::NEVER,
        stop_at: stop_at(app),
        stopped: false,
        under_way: None,
        answered: 0,
        done: false,
        block: payload(BLOCK),
        buffer: vec![0; BLOCK],
    };
    Ok(client.run())
}

fn stop_at(app: &Application) -> Time {
    app.seconds
        .map_or(Time::NEVER, |s| Time::ZERO + Span::from_secs_f64(s))
}

/// Agrees with the server on the test: the port to which the connections go.
pub fn agree(hello: Hello, control: &mut Control, patience: Duration) -> anyhow::Result<u16> {
    control.send(&Message::Hello(Box::new(hello)), patience)?;
    let data_port = match control.receive(patience).context("the server")? {
        Message::Ready { data_port } => data_port,
        other => bail!("the server answered out of turn: {other:?}"),
    };
    let streams = Vec::new();
    control.send(&Message::Connected { streams }, patience)?;
    match control.receive(patience).context("the server")? {
        Message::Start => Ok(data_port),
        other => bail!("the server answered out of turn: {other:?}"),
    }
}

/// Where connections go, and over what.
#[derive(Clone, Copy)]
struct Link<'a> {
    args: &'a Args,
    registry: &'a Registry,
    test: &'a Test,
    remote: SocketAddr,
}

impl Link<'_> {
    fn connect(&self) -> anyhow::Result<Conn> {
        let socket = prepared_socket(self.test, self.remote)?;
        if let Some(ip) = self.args.bind {
            let local = SocketAddr::new(ip, 0);
            wifu_linux::bsd::bind(&socket, local).with_context(|| format!("binding to {local}"))?;
        }
        Conn::connect(socket, self.remote).map_err(|error| {
            let hint = advice(&error, &self.test.protocol, self.registry);
            let what = format!("connecting to {}{hint}", self.remote);
            anyhow::Error::new(error).context(what)
        })
    }
}

struct Client<'a> {
    link: Link<'a>,
    app: App,
    control: &'a mut Control,
    signals: &'a Signals,
    output: &'a mut Output,
    count: Count,
    told: Outcome,
    conn: Option<Conn>,
    /// The present connection's end here, and how much of what it is given the server knows of.
    announced: Option<(SocketAddr, u64)>,
    /// The ends of the last connection that was established, this one first.
    ends: Option<(SocketAddr, SocketAddr)>,
    /// When the present connection has to be established.
    deadline: Time,
    /// When the application acts next by itself.
    next: Time,
    stop_at: Time,
    stopped: bool,
    /// The request under way: since when, how long.
    under_way: Option<(Time, u64)>,
    /// Bytes of the answers before the one under way.
    answered: u64,
    done: bool,
    block: Vec<u8>,
    buffer: Vec<u8>,
}

impl Client<'_> {
    fn run(mut self) -> Finished {
        let (begun, usage) = (monotonic_at(self.count.epoch), Usage::now());
        let step = self.app.begin(Time::ZERO);
        self.act(&step);
        let ending = self.until_the_end();
        self.look();
        self.told.round_trips = self.told.stack.as_ref().and_then(Stack::percentiles);
        let patience = match ending {
            Ending::Signal(_) => IMPATIENCE,
            _ => self.link.args.control_patience(),
        };
        let seconds = self.count.epoch.elapsed().as_secs_f64();
        let mut lost = ending.tell(self.control, "client", IMPATIENCE);
        // Until its end the server still reads what a connection has.
        self.conn = None;
        let used = usage.since();
        let own = Results {
            streams: vec![Totals {
                bytes: self.count.bytes,
                omitted: Some(0),
                seconds,
                times: self.count.times,
                arrivals: self.count.recorder.as_ref().map(|r| r.points()),
                corrupt: None,
                tcp: None,
                retransmits: self.told.retransmits,
                stack: None,
                feedback_segments: None,
                connect_s: self.told.connected_s,
                monotonic_s: Some(begun),
            }],
            ..used
        };
        let mut other = None;
        if lost.is_none() {
            match self.exchange(&own, patience) {
                Ok(results) => other = Some(results),
                Err(error) => lost = Some(format!("{error:#}")),
            }
        }
        let (error, signal) = ending.error("client", "server", lost);
        Finished {
            intervals: Vec::new(),
            begun,
            application: Some(self.told),
            ends: self.ends,
            own,
            other,
            error,
            signal,
        }
    }

    fn exchange(&mut self, own: &Results, patience: Duration) -> anyhow::Result<Results> {
        let message = Message::Results(Box::new(own.clone()));
        self.control.send(&message, patience)?;
        results(self.control, self.signals, patience)
    }

    fn now(&self) -> Time {
        let nanos = self.count.epoch.elapsed().as_nanos();
        Time(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn until_the_end(&mut self) -> Ending {
        loop {
            let now = self.now();
            // By the times that were planned, however late it is: what is drawn for how long does
            // not depend on this host.
            while !self.stopped && self.next <= now && self.next < self.stop_at {
                let due = std::mem::replace(&mut self.next, Time::NEVER);
                let step = self.app.step(due);
                self.act(&step);
            }
            if !self.stopped && now >= self.stop_at {
                self.stop();
            }
            if self.deadline <= now {
                self.failed("timed out".to_owned());
            }
            if let Err(error) = self.announce() {
                return Ending::Lost(format!("{error:#}"));
            }
            if let Some(ending) = self.look_at_messages() {
                return ending;
            }
            if self.done {
                return Ending::Regular;
            }
            if let Some(number) = self.signals.take() {
                return Ending::Signal(number);
            }
            let stop_at = if self.stopped {
                Time::NEVER
            } else {
                self.stop_at
            };
            let due = self.next.min(stop_at).min(self.deadline);
            let left = (due < Time::NEVER).then(|| Duration::from_nanos((due - self.now()).0));
            let idle = [self.control.as_fd(), self.signals.as_fd()];
            let ready = wait(&idle, &[self.conn.as_ref()], left);
            self.progress(ready[0]);
        }
    }

    /// Does what the application wants.
    fn act(&mut self, step: &Step) {
        let now = self.now();
        self.next = step.next;
        if let Some(bytes) = step.expects {
            self.under_way = Some((now, bytes));
        }
        if step.connect {
            self.told.connections += 1;
            self.announced = None;
            match self.link.connect() {
                Ok(conn) => self.conn = Some(conn),
                Err(error) => return self.failed(format!("{error:#}")),
            }
            self.deadline = now + Span(self.link.args.connect_timeout.saturating_mul(1_000_000));
        }
        if let Some(conn) = &mut self.conn {
            conn.write_more(step.write, step.last);
        }
        self.progress(PollFlags::empty());
    }

    /// Lets the connection do what it is ready for.
    fn progress(&mut self, ready: PollFlags) {
        let Some(conn) = &mut self.conn else { return };
        match conn.progress(ready, &self.block, &mut self.buffer) {
            Ok(news) => {
                let open = conn.open();
                let count = answers(self.link.test);
                if let Some(asked) = &mut self.told.asked_bytes {
                    *asked += news.wrote;
                }
                self.count.add(if count { news.read } else { news.wrote });
                if open && self.deadline < Time::NEVER {
                    self.deadline = Time::NEVER;
                    let local = conn.local().ok();
                    self.ends = local.map(|local| (local, self.link.remote)).or(self.ends);
                    let now = self.now().as_secs_f64();
                    self.told.connected_s.get_or_insert(now);
                }
                self.look_at_answers();
            }
            Err(error) => self.failed(error.to_string()),
        }
    }

    fn look_at_answers(&mut self) {
        let (Some(conn), Some((_, bytes))) = (&self.conn, self.under_way) else {
            return;
        };
        if !answers(self.link.test) || conn.read() < self.answered + bytes {
            return;
        }
        self.answered += bytes;
        self.complete();
    }

    /// A file or an answer is complete.
    fn complete(&mut self) {
        let now = self.now();
        if let Some((since, bytes)) = self.under_way.take() {
            let delay = (now - since).as_secs_f64();
            let number = self.told.requests.len() + 1;
            let start_s = since.as_secs_f64();
            self.output.line(&format!(
                "[{:3}] {start_s:6.2} sec  {} {number}: {} in {delay:.4} sec",
                super::FLOW,
                if answers(self.link.test) {
                    "answer"
                } else {
                    "file"
                },
                units::bytes(bytes as f64),
            ));
            self.told.requests.push(Request {
                start_s,
                bytes,
                delay_s: delay,
            });
        }
        match self.app.completed(now, self.stopped) {
            Some(at) => self.next = at,
            None => self.finish(),
        }
    }

    /// All has been done, and has arrived.
    fn finish(&mut self) {
        (self.told.finished, self.done) = (true, true);
    }

    /// The connection ended badly, or could not be opened.
    fn failed(&mut self, why: String) {
        self.output.line(&format!("[{:3}] {why}", super::FLOW));
        self.look();
        self.told.fault = Some(why);
        self.told.fault_s = Some(self.now().as_secs_f64());
        (self.conn, self.deadline, self.under_way) = (None, Time::NEVER, None);
        match self.app.failed(self.now(), self.stopped) {
            Some(at) => self.next = at,
            None => {
                self.told.finished = matches!(self.app, App::Http(_));
                self.done = true;
            }
        }
    }

    fn asks(&self) -> bool {
        let app = self.link.test.app.as_ref();
        app.is_some_and(|app| app.spec.app.asks())
    }

    /// Begins nothing new; what is under way is completed.
    fn stop(&mut self) {
        self.stopped = true;
        self.next = Time::NEVER;
        if self.asks() {
            if self.under_way.is_none() {
                self.finish();
            }
            return;
        }
        match &mut self.conn {
            Some(conn) => conn.write_no_more(),
            None => self.done = true,
        }
        self.progress(PollFlags::empty());
    }

    /// Tells the server what to expect of the present connection, once both are known.
    fn announce(&mut self) -> anyhow::Result<()> {
        let Some(conn) = self.conn.as_ref().filter(|conn| conn.open()) else {
            return Ok(());
        };
        // What comes behind other files on their connection is told of when it begins.
        let files = self.app.persistent().then(|| conn.goal());
        let Some(bytes) = conn.whole().or(files) else {
            return Ok(());
        };
        if self.announced.is_none_or(|(_, before)| before != bytes) {
            let from = conn.local().context("asking for an address")?;
            let patience = self.link.args.control_patience();
            self.control
                .send(&Message::Expect { from, bytes }, patience)?;
            self.announced = Some((from, bytes));
        }
        Ok(())
    }

    fn look_at_messages(&mut self) -> Option<Ending> {
        loop {
            match self.control.try_receive() {
                Ok(None) => return None,
                Ok(Some(Message::Arrived { from })) => self.arrived(from),
                Ok(Some(Message::End { error })) => return Some(Ending::Told(error)),
                Ok(Some(Message::Error { message })) => return Some(Ending::Lost(message)),
                Ok(Some(_)) => return Some(Ending::Lost("message out of turn".to_owned())),
                Err(error) => return Some(Ending::Lost(format!("{error:#}"))),
            }
        }
    }

    /// All that the connection from there was given has arrived.
    fn arrived(&mut self, from: SocketAddr) {
        if self.conn.is_none() || self.announced.map(|(end, _)| end) != Some(from) {
            return;
        }
        if self.link.test.app.as_ref().map(|app| app.spec.app) == Some(AppKind::Http) {
            if !self.app.persistent() {
                self.look();
                self.conn = None;
            }
            self.complete();
        } else if !self.asks() {
            self.finish();
        }
    }

    /// What the present connection says of itself, before it is gone.
    fn look(&mut self) {
        let Some(conn) = &self.conn else { return };
        let Some(info) = conn.info() else {
            if conn.open() {
                self.told.retransmits = None;
                self.told.stack = None;
            }
            return;
        };
        self.told.mss = Some(info.snd_mss);
        // 0 of a protocol without a window.
        let cwnd = u64::from(info.snd_cwnd) * u64::from(info.snd_mss);
        self.told.snd_cwnd = Some(cwnd).filter(|cwnd| *cwnd > 0);
        if info.rtt_us > 0 {
            self.told.rtt = Some(info.rtt_us);
        }
        let before = self.told.retransmits;
        self.told.retransmits = before.map(|sum| sum + u64::from(info.total_retrans));
        let now = conn.stack(&info);
        let stack = self.told.stack.take();
        self.told.stack = stack.map(|sum| sum.and(now));
    }
}

//! The server: one process that listens, and one worker process for each test.
//!
//! A test's protocol is the client's choice and, for WiFu's, a matter of the process's
//! environment; hence the worker, which inherits the control connection as its standard input
//! and executes itself anew when the greeting asks for a WiFu protocol.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, setsid};
use wifu_linux::bsd::{self, Signals};
use wifu_linux::sys::spawn_leashed;
use wifu_node::Registry;

use super::app;
use super::args::Args;
use super::control::{Control, ControlListener, Hello, Message, VERSION, plain};
use super::outcome::Name;
use super::output::Output;
use super::parameters::{OutputKind, Test};
use super::protocol::Protocol;
use super::report::{HostPort, Start};
use super::session::{Finished, Session};
use super::stream::{Stream, advice, prepared_socket};

/// How long a client may take to say what it wants.
const GREETING: Duration = Duration::from_secs(5);

/// How long a client that comes while a test runs is listened to before it is turned away.
const TURNED_AWAY: Duration = Duration::from_millis(200);
/// How long a worker takes to go when its client is gone.
const ABOUT_TO: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 250_000_000,
};

const RULE: &str = "-----------------------------------------------------------";

/// Runs the server, or the part of it that this process is.
///
/// # Errors
/// The port cannot be had, or a worker cannot be started.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<ExitCode> {
    if let Some(number) = args.worker {
        return work(args, number, registry);
    }
    if args.daemonized {
        // The foreground half waits on standard input for how it went.
        let starter = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let result = setsid()
            .context("leaving the terminal")
            .and_then(|_| Server::new(args));
        let text = result
            .as_ref()
            .err()
            .map(|error| format!("{error:#}"))
            .unwrap_or_default();
        // It waits for the end of the stream, which standard input's being open would withhold.
        let _ = (&starter).write_all(text.as_bytes());
        let _ = starter.shutdown(Shutdown::Both);
        return result?.serve();
    }
    if args.daemon {
        return daemonize();
    }
    Server::new(args)?.serve()
}

/// Starts this program in the background and returns when it listens.
fn daemonize() -> anyhow::Result<ExitCode> {
    let (ours, theirs) = UnixStream::pair()?;
    super::this_program()
        .args(std::env::args_os().skip(1))
        .arg("--daemonized")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting the background process")?;
    // The child shuts its end down, or dies, when it knows.
    let problem = io::read_to_string(ours)?;
    ensure!(problem.is_empty(), problem);
    Ok(ExitCode::SUCCESS)
}

struct Server<'a> {
    args: &'a Args,
    listener: ControlListener,
    signals: Signals,
    output: Output,
    tests: u64,
    /// Who came while a worker was about to go.
    next: Option<OwnedFd>,
}

impl<'a> Server<'a> {
    fn new(args: &'a Args) -> anyhow::Result<Self> {
        let signals = Signals::block().context("blocking signals")?;
        let listener = listen(args)?;
        if let Some(path) = &args.pidfile {
            fs::write(path, format!("{}\n", std::process::id()))
                .with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(Self {
            args,
            listener,
            signals,
            output: Output::open(args)?,
            tests: 0,
            next: None,
        })
    }

    fn serve(mut self) -> anyhow::Result<ExitCode> {
        let code = self.until_told();
        if let Some(path) = &self.args.pidfile {
            let _ = fs::remove_file(path);
        }
        code
    }

    fn until_told(&mut self) -> anyhow::Result<ExitCode> {
        self.announce();
        loop {
            if self.next.is_none() {
                let mut fds = [
                    PollFd::new(&self.listener, PollFlags::IN),
                    PollFd::new(&self.signals, PollFlags::IN),
                ];
                // Both are looked at below, whatever poll says.
                let _ = poll(&mut fds, None);
            }
            if let Some(number) = self.signals.take() {
                self.output
                    .line("wifu perf: interrupt - the server has terminated");
                return Ok(super::exit_code(Some(number), true));
            }
            let connection = match self.next.take() {
                Some(connection) => Some(connection),
                None => self.listener.accept().context("accepting a client")?,
            };
            let Some(connection) = connection else {
                continue;
            };
            self.tests += 1;
            let code = self.attend(connection)?;
            if let (true, code) | (_, code @ Some(_)) = (self.args.one_off, code) {
                return Ok(code.unwrap_or(ExitCode::SUCCESS));
            }
            self.announce();
        }
    }

    fn announce(&mut self) {
        self.output.line(RULE);
        let (port, test) = (self.args.port, self.tests + 1);
        self.output
            .line(&format!("Server listening on {port} (test #{test})"));
        self.output.line(RULE);
    }

    /// Has a worker serve `connection`, and waits for it. A status means that the server is to
    /// exit with it.
    fn attend(&mut self, connection: OwnedFd) -> anyhow::Result<Option<ExitCode>> {
        let mut command = super::this_program();
        command
            .args(std::env::args_os().skip(1))
            .args(["--worker", &self.tests.to_string()])
            .stdin(connection)
            // A terminal's Ctrl-C comes to this process, which passes it on once.
            .process_group(0);
        // Of a server that is killed it would be left with a test that nobody ends.
        spawn_leashed(&mut command);
        let mut worker = command.spawn().context("starting a worker")?;
        let pid = Pid::from_child(&worker);
        let exited = pidfd_open(pid, PidfdFlags::empty()).context("watching a worker")?;
        let mut told = None;
        loop {
            let mut fds = [
                PollFd::new(&exited, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
                PollFd::new(&self.listener, PollFlags::IN),
            ];
            let _ = poll(&mut fds, None);
            if let Some(status) = worker.try_wait()? {
                let failed = ExitCode::from(u8::from(!status.success()));
                return Ok(match told {
                    Some(number) => Some(super::exit_code(Some(number), true)),
                    None => self.args.one_off.then_some(failed),
                });
            }
            if let Some(number) = self.signals.take() {
                told = Some(number);
                pass_on(&worker, number);
            }
            if self.next.is_none()
                && let Ok(Some(connection)) = self.listener.accept()
            {
                // The client before it may have gone a moment ago, and its worker is about to.
                let mut fds = [PollFd::new(&exited, PollFlags::IN)];
                match poll(&mut fds, Some(&ABOUT_TO)) {
                    Ok(1) => self.next = Some(connection),
                    _ => turn_away(connection),
                }
            }
        }
    }
}

fn pass_on(worker: &Child, number: i32) {
    if let Some(signal) = Signal::from_named_raw(number) {
        // It fails only for a worker that has just exited.
        let _ = kill_process(Pid::from_child(worker), signal);
    }
}

/// Tells a client that it came at the wrong time. Its greeting is read first, because closing
/// with unread data would reset the connection and lose the answer.
fn turn_away(connection: OwnedFd) {
    if let Ok(mut control) = Control::new(connection) {
        let _ = control.receive(TURNED_AWAY);
        let message = "the server is busy running a test. try again later".to_owned();
        let _ = control.send(&Message::Error { message }, TURNED_AWAY);
    }
}

fn listen(args: &Args) -> anyhow::Result<ControlListener> {
    let attempt = |ip: IpAddr| ControlListener::bind(SocketAddr::new(ip, args.port));
    let result = match args.bind {
        Some(ip) => attempt(ip),
        None if args.version4 => attempt(Ipv4Addr::UNSPECIFIED.into()),
        None => match attempt(Ipv6Addr::UNSPECIFIED.into()) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse && !args.version6 => {
                attempt(Ipv4Addr::UNSPECIFIED.into())
            }
            result => result,
        },
    };
    result.with_context(|| format!("listening on port {}", args.port))
}

/// Serves one test: that of the client whose control connection is standard input.
fn work(args: &Args, number: u64, registry: &Registry) -> anyhow::Result<ExitCode> {
    let connection = io::stdin().as_fd().try_clone_to_owned()?;
    let mut control = Control::new(connection).context("taking over the client's connection")?;
    let mut output = Output::open(args)?;
    let result = serve_test(args, registry, number, &mut control, &mut output);
    if let Err(error) = &result {
        output.line(&format!("wifu perf: {error:#}"));
        let message = Message::Error {
            message: format!("{error:#}"),
        };
        // The client may be what failed.
        let _ = control.send(&message, Duration::from_secs(1));
        return Ok(ExitCode::FAILURE);
    }
    result
}

fn serve_test(
    args: &Args,
    registry: &Registry,
    number: u64,
    control: &mut Control,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let signals = Signals::block().context("blocking signals")?;
    let client = control.peer_addr()?;
    let hello = match &args.greeting {
        Some(text) => serde_json::from_str(text).context("the greeting")?,
        None => greeting(args, registry, control, client)?,
    };
    let test = &hello.test;
    let extra = [
        "--greeting".into(),
        OsString::from(serde_json::to_string(&hello)?),
    ];
    super::settle(&test.protocol, args.socket.as_deref(), &extra)?;

    if test.server_output == Some(OutputKind::Text) {
        output.keep();
    }
    let mut start = accepted(client, &hello);
    output.line(&format!(
        "Accepted connection from {}, port {}",
        client.ip(),
        client.port()
    ));

    let patience = args.control_patience();
    let listener = listen_for_data(args, registry, &hello)?;
    let data_port = listener
        .local_addr()
        .context("asking the data port's number")?
        .port();
    control.send(&Message::Ready { data_port }, patience)?;
    let streams = accept_streams(test, &listener, control, &signals, patience)?;
    let signals = &signals;
    let (finished, names) = if test.app.is_some() {
        output.begin(super::layout(test, true), &start);
        let finished = app::server::run(args, test, &listener, (&mut *control, signals), output)?;
        let names = vec![app::name(test, true, finished.ends)];
        (finished, names)
    } else {
        drop(listener);
        super::add_streams(&mut start, test, &streams);
        output.begin(super::layout(test, true), &start);
        control.send(&Message::Start, patience)?;
        let session = Session {
            test,
            server: true,
            streams: &streams,
            control,
            signals,
            output,
            interval: args.report_interval(),
            patience,
        };
        (session.run()?, super::names(&streams))
    };
    let told = (start, number);
    conclude(told, test, &names, finished, control, output, patience)
}

/// What is known before there are streams, of the test that a client wants.
fn accepted(client: SocketAddr, hello: &Hello) -> Start {
    Start {
        accepted_connection: Some(HostPort {
            host: client.ip().to_string(),
            port: client.port(),
        }),
        cookie: Some(hello.cookie.clone()),
        ..super::start_of_program()
    }
}

/// Writes the report and sends the client this side's results.
fn conclude(
    (start, number): (Start, u64),
    test: &Test,
    names: &[Name],
    finished: Finished,
    control: &mut Control,
    output: &mut Output,
    patience: Duration,
) -> anyhow::Result<ExitCode> {
    let (signal, failed) = (finished.signal, finished.error.is_some());
    let mut results = finished.own.clone();
    let client = start.accepted_connection.as_ref();
    let client = client.map_or_else(String::new, |client| format!(" with {}", client.host));
    output.line(&format!("Test #{number}{client}:"));
    let report = super::report(start, test, names, finished, "server");
    output.finish(&report, names);
    results.output_text = output.take_kept();
    if test.server_output == Some(OutputKind::Json) {
        results.output_json = Some(serde_json::to_value(&report)?);
    }
    let sent = control.send(&Message::Results(Box::new(results)), patience);
    if let (Err(error), false) = (sent, failed) {
        output.line(&format!(
            "wifu perf: the client did not take the results: {error:#}"
        ));
        return Ok(ExitCode::FAILURE);
    }
    Ok(super::exit_code(signal, failed))
}

/// Reads the client's wishes and refuses what no client of ours would ask.
fn greeting(
    args: &Args,
    registry: &Registry,
    control: &mut Control,
    client: SocketAddr,
) -> anyhow::Result<Hello> {
    let message = control.receive(GREETING);
    let Message::Hello(hello) = message.with_context(|| format!("client {client}"))? else {
        bail!("client {client} does not greet");
    };
    ensure!(
        hello.version == VERSION,
        "client {client} speaks version {} of wifu perf's messages, this server {VERSION}",
        hello.version
    );
    let test = &hello.test;
    let sound = (1..=1000).contains(&test.streams)
        && (1..=1 << 26).contains(&test.block)
        && (0.0..=86_400.0).contains(&test.seconds)
        && (0.0..=86_400.0).contains(&test.omit)
        && (1..=1000).contains(&test.burst)
        && !(test.reverse && test.bidir)
        && test
            .arrivals
            .is_none_or(|gap| (1e-4..=60.0).contains(&gap) && test.omit == 0.0)
        && test.app.as_ref().is_none_or(app::sound);
    ensure!(sound, "client {client} asks for something impossible");
    if let Some(spec) = test.protocol.wifu() {
        // What comes from the network names parameters, not files.
        ensure!(
            !spec.contains('/'),
            "protocol {spec:?}: no paths over the network"
        );
    }
    test.protocol.check(registry)?;
    if let Some(only) = args.congestion.as_deref() {
        let only = Protocol::choose(Some(only))?;
        ensure!(
            only == test.protocol,
            "this server serves {only} only, not {}",
            test.protocol
        );
    }
    Ok(*hello)
}

fn listen_for_data(args: &Args, registry: &Registry, hello: &Hello) -> anyhow::Result<TcpListener> {
    let ip = args.bind.unwrap_or(match hello.ipv6 {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    });
    let addr = SocketAddr::new(ip, args.data_port);
    let socket = prepared_socket(&hello.test, addr)?;
    if args.data_port != 0 {
        bsd::set_reuse_address(&socket).context("setting SO_REUSEADDR")?;
    }
    bsd::bind(&socket, addr).with_context(|| format!("binding to {addr} for data"))?;
    let backlog = match hello.test.app {
        Some(_) => app::BACKLOG,
        None => i32::try_from(hello.test.stream_count())?,
    };
    bsd::listen(socket, backlog).map_err(|error| {
        let hint = advice(&error, &hello.test.protocol, registry);
        let what = format!("listening for {} streams{hint}", hello.test.protocol);
        anyhow::Error::new(error).context(what)
    })
}

/// Accepts the test's streams and puts them into the client's order.
fn accept_streams(
    test: &Test,
    listener: &TcpListener,
    control: &mut Control,
    signals: &Signals,
    patience: Duration,
) -> anyhow::Result<Vec<Stream>> {
    // An application's connections come while the test runs.
    let wanted = match test.app {
        Some(_) => 0,
        None => test.stream_count() as usize,
    };
    let deadline = Instant::now() + patience;
    let mut accepted = Vec::new();
    let mut announced: Option<Vec<SocketAddr>> = None;
    listener.set_nonblocking(true)?;
    while accepted.len() < wanted || announced.is_none() {
        let left = deadline.saturating_duration_since(Instant::now());
        ensure!(
            !left.is_zero(),
            "{} of {wanted} streams arrived within {patience:?}",
            accepted.len()
        );
        let timeout = Timespec::try_from(left)?;
        let mut fds = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(&*control, PollFlags::IN),
            PollFd::new(signals, PollFlags::IN),
        ];
        // All three are looked at below, whatever poll says.
        let _ = poll(&mut fds, Some(&timeout));
        match listener.accept() {
            Ok((socket, peer)) => accepted.push((socket, plain(peer))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("accepting a stream"),
        }
        match control.try_receive()? {
            None => {}
            Some(Message::Connected { streams }) => announced = Some(streams),
            Some(Message::Error { message }) => bail!(message),
            Some(other) => bail!("the client answered out of turn: {other:?}"),
        }
        ensure!(
            signals.take().is_none(),
            "interrupt - the server has terminated"
        );
    }
    let announced = announced.unwrap_or_default();
    ensure!(
        announced.len() == wanted,
        "the client announced {} streams",
        announced.len()
    );
    let mut streams = Vec::with_capacity(wanted);
    for (index, end) in (0..).zip(&announced) {
        let found = accepted.iter().position(|(_, peer)| peer == end);
        let Some(found) = found else {
            bail!(
                "the client's stream {index} comes from {end}, but no connection from there \
                 arrived; an address translator on the path would explain it"
            );
        };
        let (socket, peer) = accepted.swap_remove(found);
        socket.set_nonblocking(false)?;
        streams.push(Stream::new(test, socket, peer, !test.client_sends(index))?);
    }
    Ok(streams)
}

//! The client: asks the server for a test, connects the streams, runs it.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use wifu_linux::bsd::Signals;
use wifu_node::Registry;
use wifu_sim::scenario::FlowSpec;
use wifu_wire::Rng;

use super::app;
use super::args::Args;
use super::control::{Control, Hello, Message, VERSION};
use super::output::Output;
use super::parameters::{Application, OutputKind, Test};
use super::protocol::Protocol;
use super::report::{HostPort, Start};
use super::session::Session;
use super::stream::{Stream, carried_socket};

/// How long a test lasts unless it is said, seconds.
const DEFAULT_SECONDS: f64 = 10.0;

/// Runs one test.
///
/// # Errors
/// The test could not begin and the output is for people; in the JSON forms the document says
/// why instead.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<ExitCode> {
    let mut output = Output::open(args)?;
    let mut start = super::start_of_program();
    let mut known = Protocol::KernelDefault;
    let result = attempt(args, registry, &mut output, &mut start, &mut known);
    if let (Err(error), OutputKind::Json) = (&result, output.kind()) {
        output.finish(&super::failed_report(start, &known, error), &[]);
        return Ok(ExitCode::FAILURE);
    }
    result
}

/// What stopped the client before it asked anything of the server, whose end some may wait for.
pub fn unasked(error: &anyhow::Error, host: &str) -> anyhow::Error {
    anyhow!("{error:#}; a server on {host} was asked for nothing and waits on, with -1, too")
}

/// Looks at the protocol before anybody is asked for anything, and has sockets carried by it.
fn prepare(protocol: &Protocol, args: &Args, registry: &Registry) -> anyhow::Result<()> {
    protocol.check(registry)?;
    crate::catalog::note_unused(protocol.wifu(), registry);
    // Under `wifu exec`, and once this program is executed anew, the name has been looked at.
    if let (Some(spec), None) = (protocol.wifu(), super::protocol::ambient()) {
        crate::exec::check(spec, args.socket.as_deref(), registry)?;
    }
    super::settle(protocol, args.socket.as_deref(), &[])
}

fn attempt(
    args: &Args,
    registry: &Registry,
    output: &mut Output,
    start: &mut Start,
    known: &mut Protocol,
) -> anyhow::Result<ExitCode> {
    let host = args.client.as_deref().context("no server named")?;
    let stopped = |error| unasked(&error, host);
    let protocol = Protocol::choose(args.congestion.as_deref()).map_err(stopped)?;
    known.clone_from(&protocol);
    prepare(&protocol, args, registry).map_err(stopped)?;

    let target = resolve(args, host, protocol.wifu().is_some())?;
    // Before anything is asked of the server.
    drop(carried_socket(&protocol, target).map_err(stopped)?);
    output.line(&format!("Connecting to host {host}, port {}", args.port));
    start.connecting_to = Some(HostPort {
        host: host.to_owned(),
        port: args.port,
    });
    let mut control = connect_control(args, host, target)?;
    let hello = Hello {
        version: VERSION,
        cookie: cookie()?,
        ipv6: target.is_ipv6(),
        test: test(args, protocol, output.kind()),
    };
    start.cookie = Some(hello.cookie.clone());
    let test = hello.test.clone();
    if test.app.is_some() {
        return run_application((args, registry, target), hello, control, start, output);
    }
    let streams = negotiate(args, registry, hello, &mut control, target)?;
    // Until here a signal simply ends the process: there is nothing to report yet.
    let signals = Signals::block().context("blocking signals")?;

    super::add_streams(start, &test, &streams);
    if test.reverse {
        output.line(&format!("Reverse mode, remote host {host} is sending"));
    }
    if args.verbose {
        tell_more(output, start, &test);
    }
    output.begin(super::layout(&test, false), start);
    let session = Session {
        test: &test,
        server: false,
        streams: &streams,
        control: &mut control,
        signals: &signals,
        output,
        interval: args.report_interval(),
        patience: args.control_patience(),
    };
    let finished = session.run()?;
    let (signal, failed) = (finished.signal, finished.error.is_some());
    let names = super::names(&streams);
    let report = super::report(start.clone(), &test, &names, finished, "client");
    output.finish(&report, &names);
    show_server_output(output, report.server_output_text.as_deref());
    if !failed {
        output.line("");
        output.line("wifu perf Done.");
    }
    Ok(super::exit_code(signal, failed))
}

/// Runs a test with an application to its end.
fn run_application(
    (args, registry, target): (&Args, &Registry, SocketAddr),
    hello: Hello,
    mut control: Control,
    start: &mut Start,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let test = hello.test.clone();
    let data_port = app::client::agree(hello, &mut control, args.control_patience())?;
    let remote = SocketAddr::new(target.ip(), data_port);
    let signals = Signals::block().context("blocking signals")?;
    super::add_streams(start, &test, &[]);
    output.begin(super::layout(&test, false), start);
    let place = (args, registry, remote);
    let finished = app::client::run(place, &test, (&mut control, &signals), output)?;
    let told = finished.application.as_ref();
    let failed = finished.error.is_some() || told.is_some_and(|told| !told.finished);
    let signal = finished.signal;
    let names = [app::name(&test, false, finished.ends)];
    let report = super::report(start.clone(), &test, &names, finished, "client");
    output.finish(&report, &names);
    Ok(super::exit_code(signal, failed))
}

/// Agrees with the server on the test and connects its streams; the server has started the test
/// when this returns.
fn negotiate(
    args: &Args,
    registry: &Registry,
    hello: Hello,
    control: &mut Control,
    target: SocketAddr,
) -> anyhow::Result<Vec<Stream>> {
    let patience = args.control_patience();
    let test = hello.test.clone();
    control.send(&Message::Hello(Box::new(hello)), patience)?;
    let data_port = match control.receive(patience).context("the server")? {
        Message::Ready { data_port } => data_port,
        other => bail!("the server answered out of turn: {other:?}"),
    };
    let timeout = Duration::from_millis(args.connect_timeout);
    let local = args.bind.map(|ip| SocketAddr::new(ip, 0));
    let remote = SocketAddr::new(target.ip(), data_port);
    let mut streams = Vec::new();
    for index in 0..test.stream_count() {
        match Stream::connect(&test, index, local, remote, timeout, registry) {
            Ok(stream) => streams.push(stream),
            Err(error) => {
                // The server may have failed first and said so; otherwise it learns why.
                if let Ok(Message::Error { message }) = control.next(Duration::from_millis(300)) {
                    bail!("the server: {message}");
                }
                let message = format!("the client: {error:#}");
                let _ = control.send(&Message::Error { message }, Duration::from_secs(1));
                return Err(error);
            }
        }
    }
    let ends = streams.iter().map(|stream| stream.local).collect();
    control.send(&Message::Connected { streams: ends }, patience)?;
    match control.receive(patience).context("the server")? {
        Message::Start => Ok(streams),
        other => bail!("the server answered out of turn: {other:?}"),
    }
}

fn tell_more(output: &mut Output, start: &Start, test: &Test) {
    output.line(&start.version);
    output.line(&start.system_info);
    if let (Some(time), Some(cookie)) = (&start.timestamp, &start.cookie) {
        output.line(&format!("Time: {}", time.time));
        output.line(&format!("      Cookie: {cookie}"));
    }
    if let Some(mss) = start.tcp_mss_default {
        output.line(&format!("      Segment size: {mss}"));
    }
    let length = match test.bytes {
        Some(bytes) => format!("{bytes} bytes to send"),
        None => format!("{} second test", test.seconds),
    };
    output.line(&format!(
        "Starting Test: protocol: {}, {} streams, {} byte blocks, omitting {} seconds, {length}",
        test.protocol, test.streams, test.block, test.omit
    ));
}

fn show_server_output(output: &mut Output, text: Option<&str>) {
    if let Some(text) = text {
        output.line("");
        output.line("Server output:");
        for line in text.lines() {
            output.line(line);
        }
    }
}

/// The data host's address. WiFu's protocols run over IPv4.
fn resolve(args: &Args, host: &str, wifu: bool) -> anyhow::Result<SocketAddr> {
    ensure!(
        !(wifu && args.version6),
        "WiFu's protocols run over IPv4 only: -6 cannot work"
    );
    let found: Vec<SocketAddr> = (host, args.port)
        .to_socket_addrs()
        .with_context(|| format!("looking up {host}"))?
        .collect();
    let wanted = |addr: &&SocketAddr| match args.bind {
        Some(local) if local.is_ipv4() != addr.is_ipv4() => false,
        _ if wifu || args.version4 => addr.is_ipv4(),
        _ => !args.version6 || addr.is_ipv6(),
    };
    match found.iter().find(wanted) {
        Some(addr) => Ok(*addr),
        None if wifu => bail!("{host} has no IPv4 address; WiFu's protocols run over IPv4 only"),
        None => bail!("{host} has no address of the wanted family"),
    }
}

/// Connects to the server by kernel TCP, from the address of `-B` if the path is the test's.
fn connect_control(args: &Args, host: &str, target: SocketAddr) -> anyhow::Result<Control> {
    let timeout = Duration::from_millis(args.connect_timeout);
    let (name, addr, bind): (_, _, Option<IpAddr>) = match &args.control_host {
        None => (host, target, args.bind),
        Some(name) => {
            let mut found = (name.as_str(), args.port)
                .to_socket_addrs()
                .with_context(|| format!("looking up {name}"))?;
            let addr = found
                .next()
                .with_context(|| format!("{name} has no address"))?;
            (name.as_str(), addr, None)
        }
    };
    Control::connect(addr, bind, timeout).with_context(|| {
        format!(
            "connecting to the server at {name}, port {} (is `wifu perf -s` running there?)",
            args.port
        )
    })
}

fn test(args: &Args, protocol: Protocol, kind: OutputKind) -> Test {
    let blocks = args.blockcount;
    Test {
        protocol,
        streams: args.parallel,
        reverse: args.reverse,
        bidir: args.bidir,
        seconds: args.time.unwrap_or(DEFAULT_SECONDS),
        bytes: args
            .bytes
            .or(blocks.map(|blocks| blocks.saturating_mul(args.block()))),
        blocks,
        omit: args.omit,
        block: args.block(),
        rate: args.bitrate.0,
        burst: args.bitrate.1,
        window: args.window,
        mss: args.set_mss,
        no_delay: args.no_delay,
        app: args.app.clone().map(|spec| application(args, spec)),
        arrivals: args.arrivals,
        rcv_timeout_ms: args.rcv_timeout,
        interval: args.interval,
        title: args.title.clone(),
        extra_data: args.extra_data.clone(),
        server_output: args.get_server_output.then_some(kind),
    }
}

/// Without a time and an end of its own it ends after as long as any other test.
fn application(args: &Args, spec: FlowSpec) -> Application {
    let seed = || Rng::new(args.seed.unwrap_or(1)).state();
    let endless = args.time.is_none() && !spec.is_finite();
    Application {
        stream: args.stream.unwrap_or_else(seed),
        seconds: args.time.or(endless.then_some(DEFAULT_SECONDS)),
        spec,
    }
}

/// 36 random characters of iperf3's alphabet.
fn cookie() -> anyhow::Result<String> {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut random = [0u8; 36];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut random))
        .context("reading /dev/urandom")?;
    Ok(random
        .iter()
        .map(|byte| char::from(ALPHABET[usize::from(byte % 32)]))
        .collect())
}

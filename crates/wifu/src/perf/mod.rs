//! `wifu perf`: throughput by iperf3's letters and JSON, over WiFu protocols and kernel TCP.
//!
//! Data streams use ordinary BSD sockets through libc. Over a WiFu protocol the process first
//! executes itself anew under the preload library, as `wifu exec` does for any program; over
//! kernel TCP it runs as it is. Everything else (`control`) stays on plain kernel sockets.
//!
//! Who measures what: senders count what their socket took, receivers what they got out of
//! theirs. The standard keys have iperf3's meaning. `goodput_bits_per_second`, below `wifu`, is
//! the receiver's bytes over the time from its first completed receive call to its last.

mod app;
mod args;
mod client;
mod control;
mod measured;
mod outcome;
mod output;
mod parameters;
mod protocol;
mod report;
mod server;
mod session;
mod stream;
mod units;
mod usage;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;
use wifu_node::Registry;

pub use args::Args;

use self::outcome::{End, EndStream, Name, jain};
use self::output::Layout;
use self::parameters::Test;
pub use self::protocol::{Protocol, check_name, kernel_has, names_one};
use self::report::{Connected, Daemons, Machines, Report, Start, TestStart, Wifu, timestamp};
use self::session::Finished;
use self::stream::Stream;
pub use self::units::{parse_bytes, parse_rate_burst, parse_seconds};
use crate::limits::allow_descriptors;

/// Runs `wifu perf`.
///
/// # Errors
/// Flags that make no sense together, or a test that could not even begin.
pub fn run(args: Args, registry: &Registry) -> anyhow::Result<ExitCode> {
    let registry = &args.known.with(registry)?;
    if args.congestion.as_deref() == Some("list") {
        println!("{}", protocol::list(registry.library()).join("\n"));
        return Ok(ExitCode::SUCCESS);
    }
    if let Err(error) = args.check() {
        return Err(match &args.client {
            Some(host) => client::unasked(&error, host),
            None => error,
        });
    }
    // A thousand streams each way are more than the usual 1024.
    allow_descriptors(None);
    if args.server {
        server::run(&args, registry)
    } else {
        client::run(&args, registry)
    }
}

/// Makes this process one whose sockets belong to `protocol`, by executing it anew with the
/// variables that takes and the further arguments `extra`; returns if it is one already.
fn settle(protocol: &Protocol, socket: Option<&Path>, extra: &[OsString]) -> anyhow::Result<()> {
    let ambient = protocol::ambient();
    let elsewhere = socket.is_some_and(|path| {
        std::env::var_os("WIFU_SOCKET").is_none_or(|current| current != path.as_os_str())
    });
    let wanted = protocol.wifu().map(crate::exec::here);
    if ambient == wanted && !(ambient.is_some() && elsewhere) {
        return Ok(());
    }
    let mut command = this_program();
    command.args(std::env::args_os().skip(1)).args(extra);
    match wanted {
        Some(spec) => command.envs(crate::exec::environment(&spec, socket, None)?),
        None => command.env_remove("WIFU_PROTOCOL"),
    };
    Err(command.exec()).context("executing this program anew")
}

/// This program, to be run anew: by its name where it has one, for a server must go on when its
/// file was replaced by a newer one.
fn this_program() -> Command {
    let named = std::env::current_exe().ok().filter(|path| path.exists());
    let mut command = Command::new(named.as_deref().unwrap_or(Path::new("/proc/self/exe")));
    command.arg0(std::env::args_os().next().unwrap_or_else(|| "wifu".into()));
    command
}

/// What is known before there are streams.
fn start_of_program() -> Start {
    let uname = rustix::system::uname();
    let parts = [
        uname.sysname(),
        uname.nodename(),
        uname.release(),
        uname.version(),
    ];
    let mut parts: Vec<_> = parts.iter().map(|part| part.to_string_lossy()).collect();
    parts.push(uname.machine().to_string_lossy());
    Start {
        version: format!("wifu {}", env!("CARGO_PKG_VERSION")),
        system_info: parts.join(" "),
        timestamp: Some(timestamp()),
        ..Start::default()
    }
}

/// Adds what the streams tell.
fn add_streams(start: &mut Start, test: &Test, streams: &[Stream]) {
    start.connected = streams
        .iter()
        .map(|stream| Connected {
            socket: stream.id(),
            local_host: stream.local.ip().to_string(),
            local_port: stream.local.port(),
            remote_host: stream.remote.ip().to_string(),
            remote_port: stream.remote.port(),
        })
        .collect();
    start.timestamp = Some(timestamp());
    start.target_bitrate = Some(test.rate);
    start.fq_rate = Some(0);
    start.sock_bufsize = Some(test.window.unwrap_or(0));
    start.test_start = Some(TestStart::new(test));
    if let Some(stream) = streams.first() {
        start.tcp_mss_default = stream.info().map(|info| info.snd_mss);
        let buffers = wifu_linux::bsd::buffers(&*stream.socket).ok();
        start.sndbuf_actual = buffers.map(|(sndbuf, _)| sndbuf);
        start.rcvbuf_actual = buffers.map(|(_, rcvbuf)| rcvbuf);
    }
}

fn layout(test: &Test, server: bool) -> Layout {
    Layout {
        bidir: test.bidir,
        several: test.streams > 1,
        sends: test.bidir || test.reverse == server,
        omits: test.omit > 0.0,
        server,
    }
}

fn names(streams: &[Stream]) -> Vec<Name> {
    let name = |stream: &Stream| Name {
        socket: stream.id(),
        sends: stream.sends,
        ends: stream.ends(),
    };
    streams.iter().map(name).collect()
}

/// The report of a test that took place.
fn report(
    start: Start,
    test: &Test,
    names: &[Name],
    mut finished: Finished,
    role: &'static str,
) -> Report {
    let split = test.streams as usize;
    let reversed: Vec<bool> = (0..names.len()).map(|at| at >= split).collect();
    let end = End::new(names, &reversed, &finished.own, finished.other.as_ref());
    let fairness = |part: &[EndStream]| {
        let rates: Vec<f64> = part
            .iter()
            .map(|end| end.receiver.bits_per_second)
            .collect();
        jain(&rates)
    };
    let (forward, backward) = end
        .streams
        .as_deref()
        .unwrap_or_default()
        .split_at(split.min(names.len()));
    let remote = finished
        .other
        .as_ref()
        .map_or(0.0, |other| other.machine_percent);
    let wifu = Wifu {
        schema: "1.0",
        substrate: "live",
        role,
        protocol: test.protocol.to_string(),
        interrupted: finished.error.is_some(),
        monotonic_s: Some(finished.begun),
        fault: None,
        application: finished.application.take(),
        jain: fairness(forward),
        jain_bidir_reverse: fairness(backward),
        daemon_cpu_percent: test.protocol.wifu().map(|_| Daemons {
            host: finished.own.daemon_percent,
            remote: finished.other.as_ref().and_then(|o| o.daemon_percent),
        }),
        machine_cpu_percent: Some(Machines {
            host: finished.own.machine_percent,
            remote,
        }),
    };
    let other = finished.other.as_mut();
    let (json, text) = other.map_or((None, None), |o| {
        (o.output_json.take(), o.output_text.take())
    });
    Report {
        start,
        intervals: finished.intervals,
        end,
        title: test.title.clone(),
        extra_data: test.extra_data.clone(),
        server_output_json: json,
        server_output_text: text,
        error: finished.error,
        wifu,
    }
}

/// The report of a test that did not take place.
fn failed_report(start: Start, protocol: &Protocol, error: &anyhow::Error) -> Report {
    Report {
        start,
        intervals: Vec::new(),
        end: End::default(),
        title: None,
        extra_data: None,
        server_output_json: None,
        server_output_text: None,
        error: Some(format!("{error:#}")),
        wifu: Wifu {
            schema: "1.0",
            substrate: "live",
            role: "client",
            protocol: protocol.to_string(),
            interrupted: false,
            monotonic_s: None,
            fault: error
                .downcast_ref::<stream::Unconnected>()
                .filter(|u| u.kind == std::io::ErrorKind::TimedOut)
                .map(|_| "TimedOut"),
            application: None,
            jain: None,
            jain_bidir_reverse: None,
            daemon_cpu_percent: None,
            machine_cpu_percent: None,
        },
    }
}

/// The exit status after a test: as shells have it after a signal, 1 after a failure.
fn exit_code(signal: Option<i32>, failed: bool) -> ExitCode {
    match signal.and_then(|number| u8::try_from(number).ok()) {
        Some(number) => ExitCode::from(128u8.saturating_add(number)),
        None => ExitCode::from(u8::from(failed)),
    }
}

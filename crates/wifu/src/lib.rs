//! The `wifu` command, made of what a registry names: the whole command with parts, handlers,
//! formats and compositions of a crate of one's own.
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     wifu::run(wifu::standard())
//! }
//! ```
#![forbid(unsafe_code)]

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use wifu_node::Registry;

mod arguments;
mod catalog;
mod clean;
mod core;
mod delay;
mod dissector;
mod emu;
mod exec;
mod front;
mod known;
mod limits;
mod live;
mod mock;
mod perf;
mod sim;
mod ss;
mod topo;

#[derive(Parser)]
#[command(
    name = "wifu",
    version,
    about = "Composable transport protocols under real programs"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List protocols, parts and profiles
    List(catalog::ListArgs),
    /// Describe a protocol, with all parameters, or a part
    Describe(catalog::DescribeArgs),
    /// Check the compositions of a TOML file
    Check(catalog::CheckArgs),
    /// Print a plug-in by which Wireshark reads our protocols' packets
    Dissector(dissector::Args),
    /// Carry applications' connections: one per host, or per network namespace
    Daemon(live::DaemonArgs),
    /// Show the daemon's connections, as `ss -ti` does
    Ss(ss::Args),
    /// Say what this host offers and lacks
    Doctor(live::DoctorArgs),
    /// Remove what dead WiFu processes left on this host
    Clean(clean::CleanArgs),
    /// Run handlers on every packet that passes this host
    Core(core::CoreArgs),
    /// Measure the delay of a device, for handlers that collect it
    Delay(delay::DelayArgs),
    /// Run a program with its TCP sockets carried by a WiFu protocol
    Exec(exec::Args),
    /// Run a protocol over a network in virtual time: losses, traces, captures
    Mock(Box<mock::Args>),
    /// Run protocols over a mesh of radios in virtual time: how they do, and why
    Sim(Box<sim::Args>),
    /// Linux hosts joined by emulated radios, in real time: kernels and programs unmodified
    Emu(Box<emu::Args>),
    /// Read the trace of frames that `wifu sim --frames` wrote
    Trace(sim::TraceArgs),
    /// Measure throughput with iperf3's letters and JSON, over WiFu protocols and kernel TCP
    Perf(Box<perf::Args>),
}

/// What comes with WiFu.
pub fn standard() -> Registry {
    Registry::new(wifu_parts::registry(), wifu_parts::library())
}

/// `println!` and `eprintln!` panic when they cannot write: whose output has no place has no use
/// for a backtrace.
fn end_where_nothing_can_be_printed() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.payload_as_str().unwrap_or_default();
        if let Some(why) = said.strip_prefix("failed printing to stdout: ") {
            // Both may be one pipe, and a panic in here would abort.
            let _ = writeln!(io::stderr(), "wifu: standard output: {why}");
            std::process::exit(1);
        }
        if said.starts_with("failed printing to stderr: ") {
            std::process::exit(1);
        }
        before(panic);
    }));
}

/// What may help who was refused something.
fn rights(error: &anyhow::Error) -> &'static str {
    let denied = |e: &std::io::Error| e.kind() == std::io::ErrorKind::PermissionDenied;
    let mut causes = error
        .chain()
        .filter_map(|e| e.downcast_ref::<std::io::Error>());
    match causes.any(denied) && !rustix::process::geteuid().is_root() {
        true => "\n  this may need root (sudo); `wifu doctor` says what this host lacks",
        false => "",
    }
}

/// Run the command that this process was started as, with what the registry names.
pub fn run(registry: Registry) -> ExitCode {
    let registry = &registry;
    end_where_nothing_can_be_printed();
    let command = arguments::parse::<Cli>().command;
    // Not where a socket's end must be an error, or something has to be taken away at the end.
    if !matches!(
        command,
        Command::Daemon(_)
            | Command::Core(_)
            | Command::Delay(_)
            | Command::Emu(_)
            | Command::Exec(_)
            | Command::Perf(_)
    ) {
        wifu_linux::sys::end_with_closed_pipe();
    }
    let result = match command {
        Command::List(args) => catalog::list(&args, registry),
        Command::Describe(args) => catalog::describe(&args, registry),
        Command::Check(args) => catalog::check(&args, registry),
        Command::Dissector(args) => dissector::run(&args, registry),
        Command::Daemon(args) => live::daemon(&args, registry),
        Command::Ss(args) => ss::run(&args, registry),
        Command::Doctor(args) => live::doctor(&args),
        Command::Clean(args) => clean::clean(&args),
        Command::Core(args) => core::run(&args, registry),
        Command::Delay(args) => delay::run(&args),
        Command::Exec(args) => exec::run(&args, registry),
        Command::Mock(args) => mock::run(&args, registry),
        Command::Sim(args) => sim::run(&args, registry),
        Command::Emu(args) => emu::run(&args, registry),
        Command::Trace(args) => sim::trace(&args),
        Command::Perf(args) => perf::run(*args, registry),
    };
    result.unwrap_or_else(|error| {
        let own = known::brought(&format!("{error:#}"));
        eprintln!("wifu: {error:#}{}{own}", rights(&error));
        ExitCode::FAILURE
    })
}

//! The `wifu` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod exec;
mod perf;

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
    /// Run a program with its TCP sockets carried by a WiFu protocol
    Exec(exec::Args),
    /// Measure throughput with iperf3's letters and JSON, over WiFu protocols and kernel TCP
    Perf(Box<perf::Args>),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Exec(args) => exec::run(&args),
        Command::Perf(args) => perf::run(*args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("wifu: {error:#}");
        ExitCode::FAILURE
    })
}

//! `wifu clean`: what dead processes of ours left goes.

use std::process::ExitCode;

use clap::Args;
use wifu_linux::clean::{Options as CleanOptions, clean as remove};

/// `wifu clean`.
#[derive(Args)]
pub struct CleanArgs {
    /// Only print the steps
    #[arg(long)]
    dry_run: bool,
    /// Also what living processes of ours own
    #[arg(long)]
    all: bool,
    /// For machines
    #[arg(long)]
    json: bool,
}

/// `wifu clean` without options.
///
/// # Errors
/// The host can't be asked what there is.
pub fn clean_stale() -> anyhow::Result<ExitCode> {
    clean(&CleanArgs {
        dry_run: false,
        all: false,
        json: false,
    })
}

/// Remove what dead WiFu processes left on this host, and nothing else.
///
/// # Errors
/// The host can't be asked what there is.
pub fn clean(args: &CleanArgs) -> anyhow::Result<ExitCode> {
    let report = remove(CleanOptions {
        dry_run: args.dry_run,
        all: args.all,
    })?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        for step in &report.steps {
            println!("{step}");
        }
        for kept in &report.kept {
            println!("kept: {kept}");
        }
        for failed in &report.failed {
            eprintln!("failed: {failed}");
        }
        if report.dropped > 0 {
            let n = report.dropped;
            println!("{n} packets of lanes were dropped since their daemons were killed");
        }
        if report.steps.is_empty() {
            println!("nothing of ours to remove");
        }
    }
    Ok(if report.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

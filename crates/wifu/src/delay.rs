//! `wifu delay`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use wifu_linux::delay::{Files, Measure, Meter, Setup, Stamp};
use wifu_linux::poller::{Coalesce, Poller};
use wifu_wire::Span;

/// `wifu delay`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wifu delay --dev wlan0\n  \
    wifu delay --dev eth0 --measure queue    a device that does not report transmissions\n  \
    wifu core --config atp.toml --delay-dir /run/wifu/delay/wlan0\n\n\
    Needs root (CAP_BPF, CAP_PERFMON) and a kernel with BTF; `wifu doctor` says what is missing.")]
pub struct DelayArgs {
    /// The device, in this network namespace
    #[arg(long, value_name = "DEVICE")]
    dev: String,
    /// Where the files `Da` and `sample` are written, in microseconds
    /// [default: /run/wifu/delay/DEVICE, with -NAMESPACE if that is not the host's]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// From where to where: `driver` (its ring to its report), `queue` (the queueing discipline),
    /// `both`
    #[arg(long, default_value = "driver")]
    measure: Measure,
    /// Write this often, if there is something new
    #[arg(long, value_name = "TIME", default_value = "5 ms")]
    interval: Span,
    /// Stamp the delay into ATP packets that leave through the device, as the handler
    /// delay-collector does, but inside the kernel (Linux 6.6)
    #[arg(long)]
    stamp: bool,
    /// ... and always this delay: nothing is measured
    #[arg(long, value_name = "TIME", requires = "stamp")]
    fixed: Option<Span>,
    /// UDP port of ATP
    #[arg(long, default_value_t = 9438)]
    port: u16,
    /// Pin the map of the reading here, for other BPF programs (in /sys/fs/bpf)
    #[arg(long, value_name = "PATH")]
    pin: Option<PathBuf>,
    /// Only print the privileged steps
    #[arg(long)]
    dry_run: bool,
}

const ENDS: [i32; 3] = [1, 2, 15]; // SIGHUP, SIGINT, SIGTERM

/// Measure until ended by a signal, then say what was measured, as JSON.
///
/// # Errors
/// What this host lacks.
pub fn run(args: &DelayArgs) -> anyhow::Result<ExitCode> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => wifu_linux::delay::default_directory(&args.dev).context("/proc")?,
    };
    let stamp = Stamp {
        port: args.port,
        fixed: args.fixed,
        ..Stamp::default()
    };
    let setup = Setup {
        measure: args.measure,
        stamp: args.stamp.then_some(stamp),
    };
    if args.dry_run {
        let pin = args.pin.as_deref();
        let (up, down) = wifu_linux::delay::dry_run(&args.dev, &setup, &dir, pin);
        say(&format!(
            "# up\n{}\n# down\n{}",
            up.join("\n"),
            down.join("\n")
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut poller = Poller::new(Coalesce::OFF)?;
    poller.catch_signals(&ENDS)?;
    let mut files = Files::create(&dir).with_context(|| dir.display().to_string())?;
    let meter = Meter::open(&args.dev, &setup)?;
    if let Some(pin) = &args.pin {
        files.pin(&meter, pin)?;
    }
    wifu_linux::privileges::give_up(&dir).context("giving up privileges")?;
    let interval = args.interval.max(Span(100_000));
    let begun = format!("wifu delay: {}, in {}", args.dev, dir.display());
    // Whoever read it may have gone; we measure all the same.
    let _ = writeln!(std::io::stderr(), "{begun}");
    wifu_linux::delay::run(&meter, &mut files, interval, poller)?;
    let reading = meter.read()?;
    // First: they go, whatever becomes of what we say.
    drop(files);
    drop(meter);
    say(&serde_json::to_string(&reading)?)?;
    Ok(ExitCode::SUCCESS)
}

fn say(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{text}").context("standard output")
}

//! `wifu core`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use wifu_core::{Full, Hook, Hooks, Kinds};
use wifu_linux::core::by::{By, Selector, TunSettings};
use wifu_linux::core::config::{CoreConfig, Settings, hooks_of};
use wifu_linux::core::lead::Lead;
use wifu_linux::core::routes::Routes;
use wifu_linux::core::rules::Rules;
use wifu_linux::core::{Control, Interception, Told, check_devices, steps};
use wifu_linux::poller::Coalesce;
use wifu_linux::steps::{StepError, Steps};
use wifu_node::Registry;
use wifu_wire::Span;

use crate::known::Known;

/// `wifu core`.
#[derive(Args)]
#[command(after_help = "A configuration in TOML:\n\n    \
    [[handler]]\n    use = \"drop\"\n    protocol = 17\n    hooks = [\"forward\"]\n    p = 0.1\n\n\
    or in the paper's form, rules as iptables wants them and handlers:\n\n    \
    OUTPUT -p udp -j NFQUEUE --queue-num 1\n    handler delay-collector 17\n\n\
    A protocol is an IP protocol number or the name of one of WiFu's (`wifu list protocols`).\n\
    Without rules, they follow from the handlers' hooks and protocols. Queues: INPUT 0, OUTPUT 1,\n\
    FORWARD 2, PREROUTING 3, POSTROUTING 4. One `wifu core` per network namespace; needs\n\
    CAP_NET_ADMIN, and CAP_NET_RAW for overhearing and for handlers that send. SIGUSR1 makes it report.\n\n\
    Without NFQUEUE or iptables, `--by tun` leads packets through TUN devices by policy routing, at the\n\
    hooks output and forward:\n\n    \
    wifu core --by tun --to 10.0.0.0/8 --config loss.toml\n\n\
    It needs CAP_NET_ADMIN to begin, and no right at all with devices that belong to you\n\
    (--tun output=tun0; with --dry-run it says what root has to do once).")]
pub struct CoreArgs {
    /// Handlers, rules and settings; in TOML if the name ends so
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// By what packets come: `nfqueue` (all hooks) or `tun` (output and forward) [default: nfqueue]
    #[arg(long, value_name = "nfqueue|tun", value_parser = by)]
    by: Option<By>,
    /// By TUN devices, only packets to this network; repeat for more [default: to wherever]
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    to: Vec<String>,
    /// Use a TUN device that is there, for a hook; may be given twice. Whoever made it leads
    /// packets to it
    #[arg(long, value_name = "HOOK=DEVICE", value_parser = own_device)]
    tun: Vec<(Hook, String)>,
    /// While a queue is full, and after a handler failed: `open` lets packets pass, `closed` drops
    /// them [default: open]
    #[arg(long, value_name = "open|closed", value_parser = full)]
    when_full: Option<Full>,
    /// A handler that takes longer for one packet has failed [default: 1 s]
    #[arg(long, value_name = "TIME")]
    stall: Option<Span>,
    /// Packets that wait in a queue at most, besides those that handlers hold [default: 4096]
    #[arg(long, value_name = "PACKETS")]
    queue_length: Option<u32>,
    /// Receive buffer of the queues' socket, bytes [default: 8388608]
    #[arg(long, value_name = "OCTETS")]
    receive_buffer: Option<usize>,
    /// When busy, let packets gather for this long ("0 s" switches off) [default: 50 us]
    #[arg(long, value_name = "TIME")]
    coalesce: Option<Span>,
    /// Where the driver's delay is: files `Da` and `sample`, in microseconds
    #[arg(long, value_name = "DIR")]
    delay_dir: Option<PathBuf>,
    /// Overhear frames to others on this interface; may be given twice
    #[arg(long, value_name = "DEVICE")]
    overhear: Vec<String>,
    /// Overhear frames to others, and learn what became of ours, on this monitor interface of the
    /// radio, whose frames have radiotap headers
    #[arg(long, value_name = "DEVICE")]
    monitor: Option<String>,
    /// Report this often
    #[arg(long, value_name = "TIME")]
    interval: Option<Span>,
    /// Append reports to this file, one line of JSON each, instead of standard output
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    known: Known,
    /// Only print the privileged steps
    #[arg(long)]
    dry_run: bool,
}

fn full(word: &str) -> Result<Full, String> {
    wifu_linux::core::config::full(word).map_err(|e| e.to_string())
}

fn by(word: &str) -> Result<By, String> {
    wifu_linux::core::by::by(word).map_err(|e| e.to_string())
}

fn network(text: &str) -> Result<String, String> {
    wifu_linux::core::by::network(text).map_err(|e| e.to_string())
}

fn own_device(text: &str) -> Result<(Hook, String), String> {
    wifu_linux::core::by::own_device(text).map_err(|e| e.to_string())
}

/// Which packets the handlers get, and by what.
enum Leading {
    Rules(Vec<String>),
    Routes(TunSettings, Vec<Selector>),
}

impl Leading {
    fn of(config: &CoreConfig, kinds: &Kinds) -> anyhow::Result<Leading> {
        Ok(match &config.settings.by {
            By::Nfqueue => Leading::Rules(config.all_rules(kinds)?),
            By::Tun(tun) => Leading::Routes(tun.clone(), config.led(tun, kinds)?),
        })
    }

    fn hooks(&self) -> anyhow::Result<Hooks> {
        match self {
            Leading::Rules(rules) => Ok(hooks_of(rules)?),
            Leading::Routes(_, led) => {
                let hooks: Vec<Hook> = led.iter().map(|s| s.hook).collect();
                Ok(Hooks::of(&hooks))
            }
        }
    }

    fn install(&self, settings: &Settings, steps: &mut Steps) -> Result<Lead, StepError> {
        match self {
            Leading::Rules(rules) => Ok(Rules::install(rules, steps)?.into()),
            Leading::Routes(tun, led) => Ok(Routes::install(led, settings, tun, steps)?.into()),
        }
    }

    fn removal(&self, settings: &Settings) -> Result<Vec<String>, StepError> {
        match self {
            Leading::Rules(rules) => Ok(Rules::removal(rules)),
            Leading::Routes(tun, led) => Routes::removal(led, settings, tun),
        }
    }

    /// Whether somebody else leads packets to the user's devices.
    fn is_others(&self) -> bool {
        matches!(self, Leading::Routes(tun, _) if !tun.devices.is_empty())
    }
}

/// Run handlers.
///
/// # Errors
/// What is wrong with the configuration; what could not be set up. Nothing of ours stays.
pub fn run(args: &CoreArgs, registry: &Registry) -> anyhow::Result<ExitCode> {
    log_to_stderr();
    let registry = &args.known.with(registry)?;
    let config = read(args)?;
    let setting = &config.settings;
    setting.check()?;
    let kinds = &*config.kinds(registry)?;
    let chain = config.chain(kinds)?;
    let mistakes = config.mistakes(registry)?;
    for said in config.short_of(kinds).into_iter().chain(mistakes) {
        tracing::warn!("{said}");
    }
    let leading = Leading::of(&config, kinds)?;
    let needs = config.needs(kinds)?;
    let hooks = leading.hooks()?;
    check_ears(setting, chain.hooks(), hooks)?;
    check_devices(setting)?;
    if args.dry_run {
        return dry_run(&leading, setting, steps(hooks, setting, needs));
    }
    let report: Box<dyn std::io::Write> = match &args.report {
        Some(path) => Box::new(append_to(path)?),
        None => Box::new(std::io::stdout()),
    };
    let control = Control {
        end: vec![SIGINT, SIGTERM, SIGHUP],
        report: vec![SIGUSR1],
        interval: args.interval,
    };
    let by_queues = setting.by == By::Nfqueue;
    let or_tun = || by_queues.then_some(OR_TUN);
    let opened = Interception::open(chain, hooks, setting, needs);
    let mut interception = with_hint(opened, or_tun())?;
    interception.catch_signals(&control)?;
    let lead = leading.install(setting, &mut Steps::real());
    let lead = with_hint(lead, or_tun())?;
    // Every packet waits for us; what else runs here shall not make it wait longer.
    if let Err(e) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!("the scheduler grants no higher priority: {e}");
    }
    let given_up = match by_queues {
        true => wifu_linux::privileges::keep_net_admin(),
        false => wifu_linux::privileges::give_up_all(),
    };
    given_up.context("giving up privileges")?;
    tracing::info!("ready: {}", how(&leading, hooks, needs.super_packets));
    interception.run(&control, teller(report), lead)?;
    Ok(ExitCode::SUCCESS)
}

/// What to do where NFQUEUE is not to be had.
const OR_TUN: &str = "without NFQUEUE, at the hooks output and forward: wifu core --by tun";

fn with_hint<T, E>(result: Result<T, E>, hint: Option<&str>) -> anyhow::Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    match (result, hint) {
        (Err(e), Some(hint)) => bail!("{e}; {hint}"),
        (result, _) => Ok(result?),
    }
}

/// How packets come, for people.
fn how(leading: &Leading, hooks: Hooks, super_packets: bool) -> String {
    match leading {
        Leading::Rules(rules) => {
            let way = if super_packets {
                "whole, super-packets included"
            } else {
                "one by one"
            };
            format!("{} rules at {hooks}; packets come {way}", rules.len())
        }
        Leading::Routes(tun, led) => {
            let devices: Vec<&str> = led.iter().map(|s| tun.device(s.hook)).collect();
            let devices = devices.join(" and ");
            format!("packets at {hooks} come by {devices}, one by one")
        }
    }
}

/// Whether frames to others can be heard and are wanted, and anything at all comes.
fn check_ears(setting: &Settings, all: Hooks, hooks: Hooks) -> anyhow::Result<()> {
    let overheard = all.and(Hooks::of(&[Hook::Overheard]));
    if overheard == Hooks::NONE && !setting.overhear.is_empty() {
        bail!("interfaces are overheard, but no handler works at the hook overheard");
    }
    if setting.monitor.is_some() && !setting.overhear.is_empty() {
        bail!("frames to others come from the monitor: leave out which interfaces are overheard");
    }
    let ears = !setting.overhear.is_empty() || setting.monitor.is_some();
    if hooks == Hooks::NONE && !ears {
        bail!("no rule sends packets anywhere: name handlers, or rules with --queue-num");
    }
    Ok(())
}

fn dry_run(leading: &Leading, setting: &Settings, opened: Vec<String>) -> anyhow::Result<ExitCode> {
    let mut dry = Steps::dry();
    leading.install(setting, &mut dry)?;
    if leading.is_others() {
        println!("# by root, before:");
    }
    for line in opened.iter().chain(dry.lines()) {
        println!("{line}");
    }
    match leading.is_others() {
        true => println!("# by root, when nobody needs it any more:"),
        false => println!("# at the end:"),
    }
    for line in leading.removal(setting)? {
        println!("{line}");
    }
    Ok(ExitCode::SUCCESS)
}

fn log_to_stderr() {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("WIFU_LOG").unwrap_or("info".into()),
        )
        .with_writer(std::io::stderr)
        .init();
}

/// Our priority among ordinary processes, -20 (highest) to 19.
const NICE: i32 = -10;

/// Numbers of signals, the same on all architectures that Linux has but the oldest.
const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGUSR1: i32 = 10;
const SIGTERM: i32 = 15;

fn append_to(path: &Path) -> anyhow::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    let file = options.append(true).create(true).open(path);
    file.with_context(|| format!("opening {}", path.display()))
}

/// Writes what handlers and their watcher tell.
fn teller(mut report: Box<dyn std::io::Write>) -> impl FnMut(Told) {
    move |told| match told {
        // Whoever closed the pipe does not want to read it.
        Told::Line(line) => {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        Told::Report(account) => {
            let line = serde_json::to_string(&account).expect("plain data");
            let _ = writeln!(report, "{line}");
            let _ = report.flush();
        }
        Told::Failed(how, full) => {
            let fate = match full {
                Full::Open => "pass without them",
                Full::Closed => "are dropped",
            };
            tracing::error!("the handlers {how}: from now on, packets {fate}");
        }
    }
}

fn read(args: &CoreArgs) -> anyhow::Result<CoreConfig> {
    let path = &args.config;
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let is_toml = path.extension().is_some_and(|e| e == "toml");
    let mut config =
        CoreConfig::read(&text, is_toml).with_context(|| path.display().to_string())?;
    let s = &mut config.settings;
    if let Some(by) = &args.by
        && core::mem::discriminant(by) != core::mem::discriminant(&s.by)
    {
        s.by = by.clone();
    }
    match &mut s.by {
        By::Tun(tun) => {
            tun.to.extend(args.to.iter().cloned());
            tun.devices.extend(args.tun.iter().cloned());
            if args.receive_buffer.is_some() {
                bail!("--receive-buffer: a TUN device has none; --queue-length is its queue");
            }
        }
        By::Nfqueue if !(args.to.is_empty() && args.tun.is_empty()) => {
            bail!("--to and --tun say what is led to TUN devices: write --by tun");
        }
        By::Nfqueue => {}
    }
    s.when_full = args.when_full.unwrap_or(s.when_full);
    s.stall = args.stall.unwrap_or(s.stall);
    s.queue_length = args.queue_length.unwrap_or(s.queue_length);
    s.receive_buffer = args.receive_buffer.unwrap_or(s.receive_buffer);
    if let Some(pause) = args.coalesce {
        s.coalesce = Coalesce {
            pause,
            ..Coalesce::default()
        };
    }
    s.delay_dir = args.delay_dir.clone().or(s.delay_dir.take());
    s.overhear.extend(args.overhear.iter().cloned());
    s.monitor = args.monitor.clone().or(s.monitor.take());
    Ok(config)
}

//! `wifu emu`: Linux hosts joined by emulated 802.11 radios, with a command line like Mininet's.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::known::Known;
use crate::limits::allow_descriptors;
use anyhow::{Context, bail, ensure};
use clap::{Subcommand, ValueEnum};
use rustix::thread::CapabilitySet;
use serde_json::json;
use wifu_linux::bsd::Signals;
use wifu_linux::emu::control::ask_socket;
use wifu_linux::emu::{Emulation, Order, Overhear, Reply, RoutingKind, dry_run, socket_path};
use wifu_node::{Registry, Substrate};
use wifu_wire::Span;

mod alone;
mod daemons;
mod input;
mod map;
mod options;
mod programs;
mod scenario;
mod session;
mod words;

/// Without `--topo`.
const DEFAULT_TOPO: &str = "minimal";

/// Without `--name`.
const DEFAULT_NAME: &str = "emu";

/// So many hosts are told what they take.
const MANY: usize = 100;

/// The commands of the prompt, for `--help` and `help`.
macro_rules! commands {
    () => {
        "  n1 ping -c3 n3        run a program on a host; names of hosts become addresses
  pingall               ping every host from every other
  iperf n1 n3 [...]     throughput, by iperf3 or for a protocol of WiFu's by wifu perf; iperf3's
                        words may follow: -t 5 -u -b 6M, -C reno, -C tcp-newreno
  n1 iperf [...] n3     the same; `&` at the end: in the background, for several flows at once
  wait                  until the iperfs in the background are over
  links | dump | net    links with SNR and counts | hosts with queues and delays | who hears whom
  snr n1 n2 12          give a direction a mean SNR, dB
  cut n1 n2, restore    let nothing pass between two hosts; undo one cut, or all
  pause n2, resume n2   make a host's radio deaf and mute
  restart n2 [2]        off for 2 s (or 1): what its radio and kernel had queued or learned is lost
  move n2 30 10 [0]     put a host elsewhere, metres
  play                  let what moves or is cut in the scenario begin (--hold)
  status                how late, how much was stolen, and the stamp
  map                   a map that updates until a key is pressed
  kill n2, serve n2     kill a host's daemon; start it again
  xterm n2              a window on a host
  sh CMD, source FILE   run a program on this machine; commands from a file
  help, exit

From a file or a pipe: exit status 1 if a command failed"
    };
}

const COMMANDS: &str = commands!();

const HELP: &str = concat!(
    "\
A namespace for each node, with an emulated 802.11 radio wlan0: real contention, collisions, hidden
nodes, retries and overhearing, decided by the model that `wifu sim` runs. Any program, the kernel's
TCP and routing daemons run unmodified. How late the emulation was is measured, and each run is
stamped VALID, SUSPECT or INVALID.

Topologies are those of `wifu sim`. As in Mininet, but without switches: linear,3 has 3 nodes and 2
hops. KEY=VALUE sets any key of the radio: radio.rate=6M radio.rts_threshold=0.

At the prompt:

",
    commands!(),
    "

From another terminal: wifu emu ctl snr n1 n2 12, and ip netns exec wifu-emu-n1 bash.

Examples:

  sudo wifu emu --topo linear,4 --set TB-B
  sudo wifu emu --topo linear,3 radio.rate=6M --test pingall+iperf --json
  sudo wifu emu --topo linear,3 --file mine.toml          then: iperf n1 n3 -C mine
  sudo wifu emu --custom mytopo.py --topo mytopo,3
  sudo wifu emu --scenario moving.toml
  echo 'n1 ping -c3 n2' | sudo wifu emu --topo minimal"
);

/// `wifu emu`.
#[derive(clap::Args)]
#[command(
    after_long_help = HELP,
    after_help = "Commands and examples: wifu emu --help",
    args_conflicts_with_subcommands = true
)]
pub struct Args {
    #[command(subcommand)]
    ctl: Option<Ctl>,
    /// The nodes: linear,4 | grid,3,3 | random,10 | parallel,3,2 | FILE.toml
    #[arg(long, value_name = "WORDS", default_value = DEFAULT_TOPO)]
    topo: String,
    /// A file with the topology: FILE.toml, or FILE.py as for Mininet, whose `topos` has the one
    /// that --topo names (NAME,ARGUMENTS)
    #[arg(long, value_name = "FILE")]
    custom: Option<PathBuf>,
    /// Nodes, links and routes of a scenario of `wifu sim`; what moves or is cut in it does so here
    /// at the same times, and routes follow. Its flows are not run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["topo", "custom", "set", "seed", "run"])]
    scenario: Option<PathBuf>,
    /// Let nothing of the scenario move or be cut before `play` is said, at the prompt or by
    /// `wifu emu ctl play`
    #[arg(long)]
    hold: bool,
    /// A testbed's radios and links: TB-A, TB-B, TB-W3, ...
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
    /// Keys of the radio: "rate=6M attempts=2"
    #[arg(long, value_name = "WORDS")]
    link: Option<String>,
    /// Decides everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Which replicate of the seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    run: u64,
    /// Let time on the radio pass this many times slower, for machines that cannot keep up
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    dilation: f64,
    /// Static routes [default: auto, or what the scenario says]
    #[arg(long, value_enum)]
    routing: Option<Routes>,
    /// Whose kernels see frames for others
    #[arg(long, value_enum, default_value_t = Hears::Captured)]
    overhear: Hears,
    /// Let a driver stop its queue while its ring is full, so that sockets wait; off: packets that
    /// do not fit are dropped
    #[arg(long, value_enum, default_value_t = Switch::On)]
    push_back: Switch,
    /// Where drivers' delays appear as NODE/Da and NODE/sample [default: /run/wifu/emu/NAME]
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    /// Names the run: namespaces are called wifu-NAME-n1, ...
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME)]
    name: String,
    /// Never sleep: less late, for one processor
    #[arg(long)]
    spin: bool,
    /// So long the radio waits for what programs answer to what their hosts receive, which then
    /// leaves as if they took no time (300us is enough); 0s: their answers leave when they come
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = span)]
    patience: Span,
    /// Instead of asking for commands: pingall, iperf, or pingall+iperf
    #[arg(long, value_name = "TESTS", value_delimiter = '+')]
    test: Vec<Test>,
    /// Commands to run first
    #[arg(long, value_name = "FILE")]
    pre: Option<PathBuf>,
    /// Commands to run last
    #[arg(long, value_name = "FILE")]
    post: Option<PathBuf>,
    /// Remove what dead WiFu processes left, as `wifu clean`, and nothing else
    #[arg(short, long)]
    clean: bool,
    /// Only print the privileged steps
    #[arg(long)]
    dry_run: bool,
    /// What is told on standard error: error, warn, info, or debug (each privileged step)
    #[arg(short, long, value_name = "LEVEL", default_value = "warn")]
    verbosity: tracing::Level,
    /// Print the outcome as JSON in the end
    #[arg(long)]
    json: bool,
    /// Run beside other emulations on this host, which make each other late
    #[arg(long, conflicts_with = "wait")]
    share: bool,
    /// Wait until no other emulation runs on this host, and what one of this name left is gone
    #[arg(long)]
    wait: bool,
    /// Start a daemon on every host that runs what this composition brings for nodes on the way,
    /// with the host's mon0; repeat for more
    #[arg(long, value_name = "PROTOCOL")]
    serve: Vec<String>,
    #[command(flatten)]
    known: Known,
    /// Set any key of the radio: radio.rate=6M
    #[arg(value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

#[derive(Subcommand)]
enum Ctl {
    /// Change or ask a running emulation: snr, move, pause, resume, cut, restore, restart, play,
    /// status, links, nodes
    Ctl {
        /// Which
        #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME)]
        name: String,
        /// For machines
        #[arg(long)]
        json: bool,
        /// As at the prompt: snr n1 n2 12
        #[arg(
            required = true,
            trailing_var_arg = true,
            allow_negative_numbers = true
        )]
        words: Vec<String>,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Routes {
    /// Along the rows of a topology that has rows, elsewhere as etx
    Auto,
    /// Least sum of expected transmissions
    Etx,
    /// Fewest hops
    Shortest,
    /// None: for routing daemons
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum Hears {
    /// Of nodes where a program captures packets
    Captured,
    /// Of all nodes
    Always,
    /// Of none
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Test {
    Pingall,
    Iperf,
}

impl From<Routes> for RoutingKind {
    fn from(kind: Routes) -> RoutingKind {
        match kind {
            Routes::Auto => RoutingKind::Auto,
            Routes::Etx => RoutingKind::Etx,
            Routes::Shortest => RoutingKind::Shortest,
            Routes::None => RoutingKind::None,
        }
    }
}

impl From<Hears> for Overhear {
    fn from(hears: Hears) -> Overhear {
        match hears {
            Hears::Captured => Overhear::Captured,
            Hears::Always => Overhear::Always,
            Hears::Never => Overhear::Never,
        }
    }
}

/// That this process may make namespaces and devices.
fn rights() -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "namespaces and TAP devices need root: sudo $(which wifu) emu ... (--dry-run shows the \
             steps)"
        );
    }
    let rights = rustix::thread::capabilities(None).context("capabilities")?;
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    ensure!(
        rights.effective.contains(needed),
        "namespaces and TAP devices need CAP_SYS_ADMIN and CAP_NET_ADMIN, which root has not here, as in a \
         container: `wifu doctor` says what this host lacks"
    );
    Ok(())
}

/// Run it.
///
/// # Errors
/// A word that means nothing, a step that failed. Whatever was made is gone again.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<ExitCode> {
    if let Some(Ctl::Ctl { name, json, words }) = &args.ctl {
        return ctl(name, *json, words);
    }
    if args.clean {
        return crate::clean::clean_stale();
    }
    tracing_subscriber::fmt()
        .with_max_level(args.verbosity)
        .with_writer(std::io::stderr)
        .without_time()
        .init();
    // For the programs on its hosts: better said before they run than by them.
    let known = args.known.with(registry)?;
    for protocol in &args.serve {
        known.resolve_on(protocol, Substrate::Emu)?;
    }
    crate::catalog::note_unused(args.serve.iter().map(String::as_str), &known);
    let options::Meant {
        config,
        script,
        replicate: (seed, run),
        host,
    } = options::config(args)?;
    for note in &config.plan.notes {
        eprintln!("Note: {note}");
    }
    if config.plan.nodes.len() < 2 {
        bail!("one node only, which has nobody to talk to: take two at least, such as linear,2");
    }
    if let Some(note) = takes(config.plan.nodes.len(), !args.serve.is_empty()) {
        eprintln!("Note: {note}");
    }
    // Each host takes two devices and four files, and the usual 1024 are gone at 170.
    allow_descriptors(Some(16 * config.plan.nodes.len() as u64 + 256));
    if args.dry_run {
        let (up, down) = dry_run(&config)?;
        println!("# up");
        up.iter().for_each(|line| println!("{line}"));
        println!("# down");
        down.iter().for_each(|line| println!("{line}"));
        return Ok(ExitCode::SUCCESS);
    }
    rights()?;
    let _lock = alone::alone(args)?;
    // Before any thread starts, so that none is killed by them.
    let signals = Signals::block().context("blocking signals")?;
    let mut told = args.known.told()?;
    told.extend(crate::exec::transport(&config.plan));
    let emulation = Emulation::start_with(config, script, args.hold)?;
    let mut session = session::Session::new(emulation, signals, (host, told, known), args)?;
    let code = session.run(args)?;
    let daemons = session.end();
    let status = session.ask(Order::Status)?;
    let text = if args.json {
        let all = outcome(args, (seed, run), &session, (status, daemons))?;
        serde_json::to_string_pretty(&all)?
    } else {
        session.last_word(&status)
    };
    writeln!(std::io::stdout(), "{text}").context("standard output")?;
    Ok(code)
}

/// What so many hosts take, if it is worth a word: measured of rows of 20, 60 and 200 of them, with
/// other work on both cores (0.05 to 0.07 s a host to make it, and as long to remove it; 0.5 to
/// 1.2 MB), and of 20 with a daemon each (18 MB).
fn takes(hosts: usize, daemons: bool) -> Option<String> {
    if hosts < MANY {
        return None;
    }
    let hosts = hosts as f64;
    let memory = hosts * if daemons { 19.2 } else { 1.2 };
    let each = if daemons { ", each with a daemon," } else { "" };
    let seconds = 0.07 * hosts;
    Some(format!(
        "{hosts} hosts{each} take about {seconds:.0} s to be made, as long to be removed, and {memory:.0} MB; \
         the more of them send, the later is their radio, which `status` tells (--dilation 2 gives \
         it twice the time)"
    ))
}

/// A time in words.
fn span(text: &str) -> Result<Span, String> {
    text.parse().map_err(|e| format!("{e}"))
}

/// Everything measured, with what it was measured on.
fn outcome(
    args: &Args,
    (seed, run): (u64, u64),
    session: &session::Session,
    (status, daemons): (Reply, serde_json::Value),
) -> anyhow::Result<serde_json::Value> {
    Ok(json!({
        "wifu": {
            "schema": "1.0",
            "substrate": "emu",
            "topology": args.scenario.is_none().then_some(&args.topo),
            "custom": args.custom,
            "scenario": args.scenario,
            "set": args.set,
            "seed": seed,
            "run": run,
            "status": status,
            "tests": session.tests,
            "daemons": daemons,
            "nodes": session.ask(Order::Nodes)?,
            "links": session.ask(Order::Links)?,
        }
    }))
}

fn ctl(name: &str, json: bool, words: &[String]) -> anyhow::Result<ExitCode> {
    let path = socket_path(name);
    let answer = ask_socket(&path, &words.join(" "))
        .with_context(|| format!("no emulation \"{name}\" answers at {}", path.display()))?;
    let ok = answer["ok"] == true;
    if json {
        println!("{answer}");
    } else if ok {
        println!("{}", answer["text"].as_str().unwrap_or_default());
    } else {
        bail!("{}", answer["text"].as_str().unwrap_or("no answer"));
    }
    Ok(if ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::takes;

    #[test]
    fn hundreds_of_hosts_are_told_what_they_take() {
        assert_eq!(takes(99, true), None);
        let said = takes(200, false).expect("a note");
        assert!(said.starts_with("200 hosts take about 14 s"), "{said}");
        assert!(said.contains("240 MB"), "{said}");
        let said = takes(500, true).expect("a note");
        assert!(said.starts_with("500 hosts, each with a daemon,"), "{said}");
        assert!(said.contains("9600 MB"), "{said}");
    }
}

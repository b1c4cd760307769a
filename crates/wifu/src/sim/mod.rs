//! `wifu sim`: transports over a mesh in virtual time, and why they did as they did.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, ensure};
use wifu_linux::bsd::Signals;
use wifu_node::{HostCost, Registry};
use wifu_radio::plan::HostProfile;
use wifu_radio::topology::PlacementKind;
use wifu_sim::Span;
use wifu_sim::air_pcap::Captures;
use wifu_sim::causes::Causes;
use wifu_sim::mesh::{self, Simulation};
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::{FlowSpec, RecordSpec, Scenario, Secs, StopSpec};
use wifu_sim::stage::Stage;

use crate::known::Known;

use alike::Difference;

mod alike;
mod before;
pub(crate) mod flows;
mod frames;
mod handlers;
mod json;
mod link;
mod lost;
mod options;
mod progress;
mod report;
mod state;
mod table;
mod waits;
mod wanted;

pub use frames::{TraceArgs, trace};
pub use options::read as scenario_of;
pub(crate) use table::number_of;

const HELP: &str = "\
The scenario. Every option only writes a key of a scenario; --print-scenario shows what the options
mean, and a file with that text runs the same again. The order is: --scenario FILE, options,
KEY=VALUE words. The same scenario gives the same bytes in every file. All keys, with units,
defaults and examples: docs/src/scenario.md.

Topologies (--topo). As in Mininet, but without switches: linear,3 has 3 nodes and 2 hops.

  minimal        two nodes                     random,N         N nodes placed at random
  linear,N       a chain n1 ... nN             parallel,N,ROWS  ROWS chains of N nodes each
  grid,R,C       R rows of C nodes             stack            three parallel chains
  FILE.toml      a topology file               All but FILE take KEY=VALUE as well:
                                               spacing=120 gap=50 snr=20 area=70x45, radio keys

Links (--link). Words of tc make the topology's links wires, KEY=VALUE words set keys of the radio:

  --link \"rate 6mbit delay 10ms loss 1% limit 1000\"
  --link \"rate 6mbit delay 10ms 5ms\"        delays of 10 to 15 ms, in order (tc's are 10 +- 5 ms)
  --link \"rate=6M rts_threshold=0\"          the same as radio.rate=6M radio.rts_threshold=0

Flows (--flow SOURCE:DESTINATION:PROTOCOL[,KEY=VALUE...], as often as wanted). Keys of the flow:

  bytes=2M  send this and close             time=30s  send for this long and close
  start=1s jitter=5ms stop_at=20s           when it connects, and when its application falls silent
  rate=2M size=1500                         udp; without a rate it saturates its node
  pause=1s [scale= shape= cap= count=]      http: files with pauses between them, each over its own
                                            connection (persistent=true: all over one)
  rate= on= off=                            talk and silence
  request=200 response=30k [pause= count=]  questions and answers
  Everything else is a parameter of the protocol (iw=4). Neither bytes nor time: it never ends.

Examples:

  How does NewReno do over six wireless hops, and why?
    wifu sim --topo linear,7 --set TB-B --protocol tcp-newreno -n 2M

  Two flows across each other in a grid where only neighbours hear each other well, so that they
  meet in n13 (tables of hops show it); ten minutes, at 6 Mb/s with RTS:
    wifu sim --topo grid,5,5,spacing=75 --flow n11:n15:tcp-sack --flow n3:n23:tcp-cubic \\
      --stop 10min radio.rate=6M radio.rts_threshold=0

  What a chain can carry at all, node by node:
    wifu sim --topo linear,8 --flow n1:n8:udp,size=1500 --stop 30s --nodes --links

  Seen in Wireshark, with radio headers and retry bits:
    wifu sim --topo linear,4 --set TB-W3 --protocol tcp-sack -n 100k --pcap-radio air.pcapng

  Queues that mark at 10 packets instead of dropping at 100, and what they marked:
    wifu sim --topo linear,3,wire=10M,delay=10ms,queue=100 --protocol tcp-newreno,ecn=on -t 30 \\
      --nodes host.queue.kind=step host.queue.above=10

  Ten replicates for a program:
    for r in $(seq 10); do wifu sim --scenario mine.toml --run $r --json > $r.json; done

The exit status is 1 if a flow failed (its connection timed out, nobody hears its sender), after the
report. A flow that --stop ends before it is done has not failed.

Sizes: 2M = 2,000,000 bytes, 64KiB = 65,536. Times: 500ms, 30s, 10min; a bare number is seconds.
Rates: 6M, 6mbit, 6Mb/s.";

/// `wifu sim`.
#[derive(clap::Args)]
#[command(after_long_help = HELP, after_help = "Topologies, flows and examples: wifu sim --help")]
pub struct Args {
    /// The nodes: linear,7 | grid,3,3 | random,20 | parallel,3,2 | stack | FILE.toml
    #[arg(long, value_name = "WORDS")]
    topo: Option<String>,
    /// A testbed's radios and links: TB-A, TB-B, TB-W3, ...
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
    /// Make the links wires, in tc's words, or set keys of the radio
    #[arg(long, value_name = "WORDS")]
    link: Option<String>,
    /// A flow: n1:n7:tcp-newreno,bytes=2M or n1:n7:udp,rate=2M; repeat for more
    #[arg(long, value_name = "SRC:DST:PROTO,...")]
    flow: Vec<String>,
    /// One flow from the first to the last node, over this protocol: tcp-newreno,iw=4
    ///
    /// With parallel and stack, one in each row.
    /// `wifu list protocols` names them; udp as well.
    /// Every TCP has the constants of `profile=rfc-modern` unless it names another profile.
    #[arg(long, short, value_name = "NAME")]
    protocol: Option<String>,
    /// With --protocol: send this much, then close
    #[arg(long, short = 'n', value_name = "OCTETS", allow_hyphen_values = true)]
    bytes: Option<String>,
    /// With --protocol: send for this long, then close [default: 10s]
    #[arg(
        long,
        short = 't',
        value_name = "TIME",
        conflicts_with = "bytes",
        allow_hyphen_values = true
    )]
    time: Option<String>,
    /// Split TCP connections at these nodes: n4 | n3,n5,far=tcp-cubic; repeat for others
    ///
    /// The node answers for the destination, opens a second connection there and moves octets
    /// between the two. Keys: near and far (what each half runs), restart (a time).
    #[arg(long, value_name = "NODE,...")]
    split: Vec<String>,
    /// End after this much virtual time, whatever still runs
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    stop: Option<String>,
    /// Decides everything random
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Which replicate of the seed
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    run: Option<u64>,
    /// Begin with this scenario (TOML)
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Print the scenario that the options mean, and run nothing
    #[arg(long)]
    print_scenario: bool,
    #[command(flatten)]
    known: Known,
    /// Print the outcome in iperf3's JSON, what only we know below a key `wifu`
    #[arg(long)]
    json: bool,
    /// Length of the intervals in --json, seconds
    #[arg(
        long,
        short,
        value_name = "SECONDS",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    interval: f64,
    /// Also print a table of the nodes, and one of what their handlers did
    #[arg(long)]
    nodes: bool,
    /// Also print a table of the links
    #[arg(long)]
    links: bool,
    /// Write the IP packets at all nodes' interfaces (pcapng)
    #[arg(long, value_name = "FILE")]
    pcap: Option<String>,
    /// Write the 802.11 frames that nodes send and those for them, behind radiotap headers (pcapng)
    #[arg(long, value_name = "FILE")]
    pcap_radio: Option<PathBuf>,
    /// Write the series as CSV: windows, round-trip times, deliveries, queues
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// With --trace: these series instead, such as flow.1.cwnd,flow.1.cubic.w_max; `wifu describe
    /// PROTOCOL` lists what there is, `all` is the usual ones
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    series: Vec<String>,
    /// Write what became of each frame; `wifu trace` reads it
    #[arg(long, value_name = "FILE")]
    frames: Option<PathBuf>,
    /// Write the lines of handlers (`logger`) there [default: standard error]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Set any key of the scenario: radio.rate=6M routing.kind=shortest flow.1.start=2s
    #[arg(value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

/// Simulated time between two looks at signals and the terminal.
const STEP: Span = Span(20_000_000);

/// Run it.
///
/// # Errors
/// An option, word or key that means nothing, with what would; a file that cannot be read or
/// written.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<ExitCode> {
    ensure!(
        args.interval >= 0.001 && args.interval.is_finite(),
        "--interval {}: write a number of seconds, 0.001 or more",
        args.interval
    );
    ensure!(
        args.series.is_empty() || args.trace.is_some(),
        "--series {}: says what --trace writes, and there is none: --trace FILE",
        args.series.join(",")
    );
    let registry = &args.known.with(registry)?;
    let mut scenario = options::parsed(args, registry)?;
    name_ends(&mut scenario, registry)?;
    if args.print_scenario {
        tell_host(&mut scenario);
        print!("{}", toml::to_string(&scenario)?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut traced = scenario.clone();
    // The report says why attempts failed, and a trace changes nothing.
    traced.record.frames = true;
    let mut simulation = Simulation::new(&traced, registry)?;
    simulation.watch_waits();
    before::tell(&scenario, &simulation, registry);
    let signals = Signals::block().context("blocking signals")?;
    let begun = Instant::now();
    let mut watch = Watch::new(args, &scenario, &mut simulation)?;
    let mut signal = None;
    let mut progress = progress::Progress::new();
    while !simulation.step_until(simulation.now() + STEP) {
        watch.look(&mut simulation, &mut progress)?;
        let now = simulation.progress();
        progress.update(now.seconds, (now.share > 0.0).then_some(now.share));
        signal = signals.take();
        if signal.is_some() {
            break;
        }
    }
    progress.clear();
    watch.look(&mut simulation, &mut progress)?;
    for wait in simulation.take_all_waits() {
        watch.causes.stalls.waited(&wait);
    }
    let took = begun.elapsed().as_secs_f64();
    let outcome = simulation.outcome();
    watch.finish(&outcome)?;
    let simulated = Simulated {
        scenario: &scenario,
        outcome: &outcome,
        causes: &watch.causes,
        title: title(&simulation, &scenario, &outcome, took),
    };
    simulated.print(args, &simulation, registry)?;
    for name in handlers::idle(&outcome) {
        eprintln!("Note: the handler {name} was asked about no packet: none here was for it");
    }
    if let Some(number) = signal {
        eprintln!(
            "wifu: interrupted after {:.3} simulated seconds",
            outcome.sim_seconds
        );
        return Ok(ExitCode::from(128 + number as u8));
    }
    Ok(verdict(&outcome))
}

/// What is to be told of a run.
struct Simulated<'a> {
    scenario: &'a Scenario,
    outcome: &'a Outcome,
    causes: &'a Causes,
    title: String,
}

impl Simulated<'_> {
    fn print(&self, args: &Args, of: &Simulation, registry: &Registry) -> anyhow::Result<()> {
        let outcome = self.outcome;
        let spoken = outcome.flows.iter().map(|f| f.protocol.clone());
        let protocols: Vec<String> = spoken.collect();
        let there = protocols.iter().map(|p| of.plan().transport(p));
        let differences = alike::differences(&there.collect::<Vec<_>>(), registry);
        if args.json {
            let mut all = json::iperf(self.scenario, outcome, args.interval);
            all["wifu"]["why"] = report::told(outcome, self.causes);
            all["wifu"]["differences"] = differences.iter().map(Difference::to_json).collect();
            println!("{}", serde_json::to_string_pretty(&all)?);
        } else {
            let wants = report::Wants {
                nodes: args.nodes,
                links: args.links,
                walk: !self.scenario.mobility.is_empty(),
                profiles: alike::profiles(&protocols, registry),
                content: wanted::content(&self.scenario.flow, outcome),
                step: wanted::step(of.plan(), self.scenario, outcome),
            };
            print!(
                "{}",
                report::report(&self.title, outcome, self.causes, &wants)
            );
        }
        let differences = differences.iter().map(Difference::words);
        for note in differences.chain(outcome.warnings.iter().cloned()) {
            eprintln!("Note: {note}");
        }
        Ok(())
    }
}

/// Failure if a flow failed; says which and why.
fn verdict(outcome: &Outcome) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for flow in &outcome.flows {
        if let Some(why) = state::failure(outcome, flow) {
            eprintln!("wifu: flow {}, {} > {}: {why}", flow.id, flow.from, flow.to);
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// The short form's flow goes from the first to the last node; of each row, where rows are apart
/// and neither end is said (`flow.1.to=n3`).
fn name_ends(scenario: &mut Scenario, registry: &Registry) -> anyhow::Result<()> {
    let short = |f: &FlowSpec| f.from.is_empty() || f.to.is_empty();
    if !scenario.flow.iter().any(short) {
        return Ok(());
    }
    // The same scenario without flows, which only its topology can make fail.
    let mut empty = scenario.clone();
    empty.flow.clear();
    // Without flows nobody serves or splits anything.
    empty.host.unserved.clear();
    empty.host.prio_feedback = false;
    empty.split.clear();
    empty.record = RecordSpec::default();
    empty.stop = StopSpec {
        time: Some(Secs(Span::SECOND)),
        ..StopSpec::default()
    };
    let placement = mesh::topology(&empty)?.placement;
    let simulation = Simulation::new(&empty, registry)?;
    let names: Vec<&str> = simulation
        .plan()
        .nodes
        .iter()
        .map(|n| n.name.as_str())
        .collect();
    let row = match placement {
        Some(p) if p.kind == PlacementKind::Rows => usize::from(p.count),
        _ => names.len(),
    };
    let flows = std::mem::take(&mut scenario.flow);
    for flow in flows {
        if !short(&flow) {
            scenario.flow.push(flow);
            continue;
        }
        let row = match flow.from.is_empty() && flow.to.is_empty() {
            true => row,
            false => names.len(),
        };
        let or = |given: &str, end: &str| match given {
            "" => end.to_string(),
            given => given.to_string(),
        };
        for row in names.chunks_exact(row.max(1)) {
            let (Some(first), Some(last)) = (row.first(), row.last()) else {
                continue;
            };
            ensure!(first != last, "the topology has one node only");
            scenario.flow.push(FlowSpec {
                from: or(&flow.from, first),
                to: or(&flow.to, last),
                ..flow.clone()
            });
        }
    }
    Ok(())
}

/// A scenario that is printed says what packets cost its hosts if its topology does, where there
/// are flows that it concerns.
fn tell_host(scenario: &mut Scenario) {
    let concerned = scenario.flow.iter().any(|f| f.protocol != "udp");
    if concerned
        && scenario.host.profile.is_none()
        && let Ok(stage) = Stage::new(scenario)
        && stage.plan().host != HostProfile::Off
    {
        scenario.host.profile = Some(stage.plan().host);
    }
}

/// That the topology's hosts take their time over packets, if they do: the scenario does not say
/// so itself.
fn of_host(scenario: &Scenario, outcome: &Outcome) -> Option<String> {
    let acts = outcome.nodes.iter().any(|n| n.host.is_some());
    (acts && scenario.host.profile.is_none()).then(|| {
        let cost = HostCost::PY;
        format!(
            "Note: the set says host.profile=py: each packet that a host sends takes it {:.1} ms, and \
             each that it receives {:.1} ms; host.profile=off is without\n",
            cost.tx.as_secs_f64() * 1e3,
            cost.rx.as_secs_f64() * 1e3
        )
    })
}

fn title(simulation: &Simulation, scenario: &Scenario, outcome: &Outcome, took: f64) -> String {
    let mut text = of_host(scenario, outcome).unwrap_or_default();
    for note in &simulation.plan().notes {
        text += &format!("Note: {note}\n");
    }
    let speed = outcome.sim_seconds / took.max(1e-6);
    text + &format!(
        "{} nodes, seed {}, run {}; {:.3} s simulated in {took:.3} s ({speed:.0} times as fast as \
         life), {} events, hash {}",
        outcome.nodes.len(),
        outcome.seed,
        outcome.run,
        outcome.sim_seconds,
        outcome.events,
        outcome.trace_hash
    )
}

/// Everything that is written while the simulation runs. Files are made before it begins.
struct Watch {
    causes: Causes,
    captures: Option<Captures>,
    frames: Option<BufWriter<File>>,
    pcap: Option<File>,
    radio: Option<File>,
    series: Option<BufWriter<File>>,
    log: Option<BufWriter<File>>,
}

fn created(option: &str, path: Option<&Path>) -> anyhow::Result<Option<File>> {
    let file = path.map(|p| File::create(p).with_context(|| format!("{option} {}", p.display())));
    file.transpose()
}

impl Watch {
    fn new(args: &Args, scenario: &Scenario, simulation: &mut Simulation) -> anyhow::Result<Watch> {
        let frames = created("--frames", args.frames.as_deref())?;
        let series = created("--trace", args.trace.as_deref())?;
        let pcap = created("--pcap", scenario.record.pcap.as_deref().map(Path::new))?;
        let radio = created("--pcap-radio", args.pcap_radio.as_deref())?;
        let log = created("--log", args.log.as_deref())?;
        let captures = (pcap.is_some() || radio.is_some())
            .then(|| Captures::new(simulation.plan(), pcap.is_some(), radio.is_some()));
        if let Some(captures) = &captures {
            simulation.set_tap(captures.tap());
        }
        Ok(Watch {
            causes: Causes::default(),
            captures,
            frames: frames.map(BufWriter::new),
            pcap,
            radio,
            series: series.map(BufWriter::new),
            log: log.map(BufWriter::new),
        })
    }

    /// What handlers wrote, and what happened to frames, since the last look.
    fn look(
        &mut self,
        simulation: &mut Simulation,
        progress: &mut progress::Progress,
    ) -> anyhow::Result<()> {
        let lines = simulation.take_lines();
        match &mut self.log {
            Some(file) => {
                for (_, line) in lines {
                    writeln!(file, "{line}").context("--log")?;
                }
            }
            None if !lines.is_empty() => {
                progress.clear();
                let mut screen = std::io::stderr().lock();
                for (_, line) in lines {
                    // Nobody is told that the terminal went away.
                    let _ = writeln!(screen, "{line}");
                }
            }
            None => {}
        }
        let records = simulation.take_frames();
        for record in &records {
            self.causes.add(record);
            if let Some(file) = &mut self.frames {
                file.write_all(&record.encode()).context("--frames")?;
            }
        }
        for wait in simulation.take_waits() {
            self.causes.stalls.waited(&wait);
        }
        let Some(captures) = &self.captures else {
            return Ok(());
        };
        captures.records(&records);
        if let Some(file) = &mut self.pcap {
            file.write_all(&captures.take_ip()).context("--pcap")?;
        }
        if let Some(file) = &mut self.radio {
            file.write_all(&captures.take_radio())
                .context("--pcap-radio")?;
        }
        Ok(())
    }

    fn finish(&mut self, outcome: &Outcome) -> anyhow::Result<()> {
        if let Some(file) = &mut self.frames {
            file.flush().context("--frames")?;
        }
        if let Some(file) = &mut self.log {
            file.flush().context("--log")?;
        }
        if let Some(file) = &mut self.series {
            series(file, outcome).context("--trace")?;
        }
        Ok(())
    }
}

/// All series as tidy CSV, one after the other. What was not known is empty.
fn series(out: &mut impl Write, outcome: &Outcome) -> std::io::Result<()> {
    writeln!(out, "time_s,series,value")?;
    for (name, points) in &outcome.series {
        for (time, value) in points {
            match value.is_nan() {
                true => writeln!(out, "{time:.9},{name},")?,
                false => writeln!(out, "{time:.9},{name},{value}")?,
            }
        }
    }
    out.flush()
}

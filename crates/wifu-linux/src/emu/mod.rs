//! The emulated radio: Linux hosts in network namespaces, joined by the 802.11 model that the
//! simulator runs, in real time.
//!
//! Each node is a namespace with a TAP device `wlan0`, and another, `mon0`, that shows frames with
//! radiotap headers as a driver's monitor interface does. One thread runs all radios against
//! `CLOCK_MONOTONIC`: carrier sense, collisions, retries and overhearing are decided in model time,
//! and the wall clock only gates when frames enter and leave. How late they left is measured, and
//! every run is stamped with it ([`verdict`]).

mod air;
mod clock;
pub mod control;
mod credit;
mod engine;
mod late;
mod monitor;
pub mod net;
mod reroute;
mod routes;
pub mod script;
mod shared;
mod slab;
mod valve;
pub mod verdict;
mod watch;

pub use control::{Control, Order, Reply};
pub use late::{Lateness, Quantiles};
pub use net::Host;
pub use routes::{NextHops, Routing, RoutingKind, routes};
pub use script::{Change, Script};

use crate::netns::{Lab, NETNS, RUN};
use crate::poller::{Coalesce, Poller};
use crate::steps::StepError;
use crate::sys;
use clock::Clock;
use reroute::Rerouter;
use script::Play;
use shared::Shared;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;
use wifu_radio::Radio;
use wifu_radio::plan::Plan;
use wifu_wire::{Rng, Span};

/// Which nodes' kernels are shown frames for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overhear {
    /// Those in whose namespace a packet socket is open.
    #[default]
    Captured,
    /// Every node, whether somebody looks or not.
    Always,
    /// No node.
    Never,
}

/// What to emulate, and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// Names the run: namespaces are called `wifu-<label>-<node>`.
    pub label: String,
    /// What the radio simulates: nodes, radios, and the SNR of every direction.
    pub plan: Plan,
    /// Whether links follow from positions, so that nodes can be moved.
    pub movable: bool,
    /// Which routes the kernels are given.
    pub routing: Routing,
    /// Where every random number comes from: same seed, same fading and back-off.
    pub rng: Rng,
    /// Seconds per model second, at least 1.
    pub dilation: f64,
    /// Never sleep: less late, and a whole processor gone.
    pub spin: bool,
    /// So long, by the clock on the wall, the model waits for what programs answer to what their
    /// hosts were handed; it then enters at the time of that delivery. 0: it enters when it comes.
    pub patience: Span,
    /// Which kernels are shown frames for others.
    pub overhear: Overhear,
    /// Let drivers stop their queues while their rings are full.
    pub push_back: bool,
    /// Where drivers' delays are exported; none: in the lab's directory.
    pub export: Option<PathBuf>,
}

/// Longest turn of the radio's thread on a processor that others want, too.
const SLICE: Duration = Duration::from_micros(100);

/// A running emulation; ends, and leaves nothing, when it is dropped.
pub struct Emulation {
    hosts: Arc<Vec<Host>>,
    control: Control,
    shared: Arc<Shared>,
    radio: Option<JoinHandle<io::Result<()>>>,
    /// They end when the radio has.
    threads: Vec<JoinHandle<()>>,
    /// Files outside the lab's directory.
    export: PathBuf,
    foreign: bool,
    // Last, so that namespaces go after everything that looks into them.
    lab: Lab,
}

/// Where the socket of the emulation with this label is.
pub fn socket_path(label: &str) -> PathBuf {
    Path::new(RUN).join("emu").join(label).join("control.sock")
}

/// The privileged steps that [`Emulation::start`] would take, and those that undo them.
///
/// # Errors
/// If names cannot be used.
pub fn dry_run(config: &Config) -> Result<(Vec<String>, Vec<String>), StepError> {
    check(config)?;
    let mut lab = Lab::dry_run(&config.label)?;
    net::build(&mut lab, &config.plan, &config.routing, config.push_back)?;
    let mut steps = lab.steps().to_vec();
    steps.push(format!("mkdir -p {}", lab.directory().display()));
    Ok((steps, lab.teardown_steps()))
}

impl Emulation {
    /// Make the hosts and start the radio.
    ///
    /// # Errors
    /// The step that failed; what was made is gone again.
    pub fn start(config: Config) -> Result<Emulation, StepError> {
        Emulation::start_with(config, None, false)
    }

    /// The same with a script of what moves and is cut by itself. It begins with the model's time,
    /// or if `held` when [`Order::Play`] says so.
    ///
    /// # Errors
    /// The step that failed; what was made is gone again.
    pub fn start_with(
        config: Config,
        script: Option<Box<dyn Script>>,
        held: bool,
    ) -> Result<Emulation, StepError> {
        check(&config)?;
        let mut lab = Lab::create(&config.label)?;
        let built = net::build(&mut lab, &config.plan, &config.routing, config.push_back)?;
        let (hosts, devices) = (built.hosts, built.devices);
        let (valves, credits) =
            open_valves(&config.plan, &hosts, built.no_push_back).map_err(|error| {
                StepError::File {
                    path: NETNS.into(),
                    error,
                }
            })?;
        let directory = lab.directory();
        let file = |path: &Path, error| StepError::File {
            path: path.display().to_string(),
            error,
        };
        std::fs::create_dir_all(&directory).map_err(|e| file(&directory, e))?;
        let export = config.export.clone().unwrap_or(directory.clone());
        let listens = config.overhear == Overhear::Always;
        let shared = Arc::new(Shared::new(hosts.len(), listens));
        let places: Vec<_> = hosts
            .iter()
            .map(|h| (h.name.clone(), h.namespace.clone()))
            .collect();
        let captures = config.overhear == Overhear::Captured;
        let watch = watch::Watch::new(&export, &places, shared.clone(), captures)
            .map_err(|e| file(&export, e))?;
        let network = Arc::new(built.network);
        // Nobody else changes routes.
        let told = hosts.iter().filter(|_| script.is_some());
        let spaces = told.map(|h| &h.namespace);
        let (reroute, inbox) = channel();
        let rerouter = Rerouter::open(spaces, inbox, network.clone(), shared.clone())
            .map_err(|e| file(Path::new(NETNS), e))?;
        let play = Play::new(script, held, reroute);
        let hosts = Arc::new(hosts);
        let clock = Clock::new(Poller::now(), config.dilation);
        let timed = (clock, play);
        let (control, radio) =
            start_radio(&config, &hosts, network, devices, &shared, credits, timed)?;
        // From here on, dropping it ends what was begun.
        let mut emulation = Emulation {
            hosts,
            control,
            shared,
            radio: Some(radio),
            threads: Vec::new(),
            export,
            foreign: config.export.is_some(),
            lab,
        };
        let waker = emulation.control.waker.clone();
        emulation.spawn("emu-valves", move || valves.run(&waker))?;
        emulation.spawn("emu-routes", move || rerouter.run(clock))?;
        emulation.spawn("emu-watch", move || watch.run())?;
        let socket = directory.join("control.sock");
        let served = emulation.control.serve(&socket);
        served.map_err(|e| file(&socket, e))?;
        Ok(emulation)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), StepError> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(run);
        self.threads.push(thread.map_err(|error| StepError::Start {
            line: format!("thread {name}"),
            error,
        })?);
        Ok(())
    }

    /// The hosts, in the order of the plan.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Something that changes and asks it, from any thread.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Where drivers' delays are: files `Da` and `sample` in a folder of each node's name.
    pub fn export(&self) -> &Path {
        &self.export
    }

    /// The privileged steps that were taken.
    pub fn steps(&self) -> &[String] {
        self.lab.steps()
    }

    /// Whether the radio still runs.
    pub fn is_running(&self) -> bool {
        self.radio.as_ref().is_some_and(|t| !t.is_finished())
    }
}

fn check(config: &Config) -> Result<(), StepError> {
    let wrong = |text: &str| Err(StepError::Invalid(text.into()));
    if !config.plan.wires.is_empty() {
        return wrong("wires are not emulated: join namespaces by veth pairs and tc instead");
    }
    if !(1.0..=1000.0).contains(&config.dilation) {
        return wrong("the dilation is 1 to 1000");
    }
    if config.plan.nodes.len() > 1000 {
        return wrong("at most 1000 nodes are emulated; the simulator takes more");
    }
    Ok(())
}

/// Both ends of what lets kernels hand down packets; `none` says why there is nothing.
fn open_valves(
    plan: &Plan,
    hosts: &[Host],
    none: Option<String>,
) -> io::Result<(valve::Valves, valve::Credits)> {
    let told = Arc::new(valve::PushBackState::new(hosts.len(), none));
    let queues = plan.nodes.iter().map(|n| n.radio.queue);
    let places = hosts.iter().map(|h| &h.namespace).zip(queues);
    let (grants, granted) = channel();
    let valves = valve::Valves::open(places, granted, told.clone())?;
    let rings: Vec<u32> = plan.nodes.iter().map(|n| n.radio.ring).collect();
    Ok((valves, valve::Credits::new(&rings, grants, told)))
}

/// The kernel has the queue; see `net`.
fn without_queues(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for node in &mut plan.nodes {
        node.radio.queue = 1;
    }
    plan
}

type Started = (Control, JoinHandle<io::Result<()>>);

fn start_radio(
    config: &Config,
    hosts: &Arc<Vec<Host>>,
    network: Arc<net::Network>,
    devices: net::Devices,
    shared: &Arc<Shared>,
    credits: valve::Credits,
    (clock, play): (Clock, Play),
) -> Result<Started, StepError> {
    let plan = without_queues(&config.plan);
    let radio = Radio::new(&plan, &config.rng);
    let monitors = monitor::Monitors::new(&plan, devices.monitors);
    let taps = devices.radios;
    let air = air::Air::new(&plan, config.movable);
    let (orders, inbox) = channel();
    let (tell, started) = channel();
    let (dilation, spin, patience) = (config.dilation, config.spin, config.patience);
    let (known, shared) = (hosts.clone(), shared.clone());
    let run = move || {
        // Made by the thread that waits on it: it sets that thread's timer slack.
        let poller = Poller::new(Coalesce::OFF)?;
        let waker = poller.waker();
        // A thread that never sleeps would be stopped for using up what urgent ones may have.
        let urgent = !spin && sys::set_urgent().is_ok();
        if !urgent && let Err(e) = sys::set_slice(SLICE) {
            tracing::debug!("the scheduler grants no short slice: {e}");
        }
        let engine = engine::Engine::new(engine::Parts {
            radio,
            air,
            play,
            clock,
            dilation,
            spin,
            patience,
            poller,
            taps,
            monitors,
            hosts: known,
            orders: inbox,
            shared,
            credits,
        })?;
        let _ = tell.send(waker);
        engine.run()
    };
    let failed = |error| StepError::Start {
        line: "thread of the radio".into(),
        error,
    };
    let thread = std::thread::Builder::new()
        .name("emu-radio".into())
        .spawn(run)
        .map_err(failed)?;
    match started.recv() {
        Ok(waker) => Ok((
            Control {
                orders,
                waker,
                hosts: hosts.clone(),
                network,
            },
            thread,
        )),
        Err(_) => Err(failed(match thread.join() {
            Ok(Err(error)) => error,
            _ => io::Error::other("it ended at once"),
        })),
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        self.shared
            .stop
            .store(true, core::sync::atomic::Ordering::Relaxed);
        self.control.waker.wake();
        let failed = match self.radio.take().map(JoinHandle::join) {
            Some(Ok(result)) => result.err().map(|e| e.to_string()),
            Some(Err(_)) => Some("it panicked".into()),
            None => None,
        };
        if let Some(why) = failed {
            tracing::error!("the radio's thread failed: {why}");
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if self.foreign {
            for host in self.hosts.iter() {
                crate::delay::remove(&self.export.join(&host.name));
            }
        }
    }
}

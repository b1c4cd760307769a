//! How long packets are under way in a device, measured on any driver without a patch: a BPF
//! program on the kernel's tracepoints (bpf/delay.bpf.c), exported as the two files of
//! Behaviour 7.3.

use crate::poller::Poller;
use aya::maps::{Array, Map, MapData, MapError};
use aya::programs::links::LinkOrder;
use aya::programs::tc::TcAttachOptions;
use aya::programs::{BtfTracePoint, ProgramError, SchedClassifier, TcAttachType};
use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader, include_bytes_aligned};
use core::str::FromStr;
use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use wifu_wire::{Format, Span, Time, atp};

mod dir;
mod files;
mod layout;
mod pin;

pub(crate) use dir::Dir;
pub use files::Files;
pub(crate) use files::{owner, pinned, remove};
pub(crate) use pin::is_bpf;

/// Made by bpf/build.sh.
static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/delay.bpf.o");

/// Tracepoints, and the programs on them.
const QUEUED: (&str, &str) = ("net_dev_queue", "on_queue");
const STARTED: (&str, &str) = ("net_dev_start_xmit", "on_start");
const CONSUMED: (&str, &str) = ("consume_skb", "on_consume");
const FREED: (&str, &str) = ("kfree_skb", "on_free");

/// How a header is stamped (Behaviour 7.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Which: one with the words `delay`, `hops` and `feedback`.
    pub format: &'static Format,
    /// UDP port of the service; 0: only the format's own IP protocol number is looked at.
    pub port: u16,
    /// What the delay is taken for before the first sample.
    pub first: Span,
    /// An idle node reports this many times its delay, unless the flow is adaptive.
    pub eta: u32,
    /// Report always this, and measure nothing.
    pub fixed: Option<Span>,
}

impl Default for Stamp {
    fn default() -> Stamp {
        Stamp {
            format: &atp::FORMAT,
            port: atp::FORMAT.port.unwrap_or(0),
            // D0 of 802.11a at 24 Mb/s (Behaviour 7.4).
            first: Span(681_500),
            eta: 3,
            fixed: None,
        }
    }
}

/// Flags of the program's configuration.
const FROM_QUEUE: u32 = 1;
const TO_START: u32 = 2;

/// Between which two points packets are timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Measure {
    /// From the driver's ring to the report of the transmission, as the thesis has it
    /// (Behaviour 7.1).
    #[default]
    Driver,
    /// In the queueing discipline, up to the driver. For devices that do not report transmissions,
    /// such as veth.
    Queue,
    /// From the queueing discipline to the report.
    Both,
}

impl Measure {
    /// The measure as bits of `flags` in bpf/delay.bpf.c.
    fn flags(self) -> u32 {
        match self {
            Measure::Driver => 0,
            Measure::Queue => FROM_QUEUE | TO_START,
            Measure::Both => FROM_QUEUE,
        }
    }

    /// Where packets have to be seen. What is not needed is not attached: `consume_skb` is at every
    /// packet of the host.
    fn points(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Measure::Driver => &[STARTED, CONSUMED, FREED],
            Measure::Queue => &[QUEUED, STARTED, FREED],
            Measure::Both => &[QUEUED, CONSUMED, FREED],
        }
    }
}

impl FromStr for Measure {
    type Err = String;
    fn from_str(s: &str) -> Result<Measure, String> {
        match s {
            "driver" => Ok(Measure::Driver),
            "queue" => Ok(Measure::Queue),
            "both" => Ok(Measure::Both),
            other => Err(format!("\"{other}\": write driver, queue or both")),
        }
    }
}

/// What is done with a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Setup {
    /// Between which points its packets are timed.
    pub measure: Measure,
    /// The delay is stamped into ATP packets that leave through it.
    pub stamp: Option<Stamp>,
}

/// What was measured so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Reading {
    /// EWMA with weight 3/4 for what was, ns; 0 before the first sample.
    pub average: u64,
    /// The last sample, ns.
    pub sample: u64,
    /// Packets that were timed.
    pub samples: u64,
    /// When the last was, ns of CLOCK_MONOTONIC.
    pub last: u64,
    /// Packets that passed the first of the two points.
    pub entered: u64,
    /// Dropped on the way by the queue.
    pub dropped: u64,
    /// Under way for more than 10 s: taken for another packet at the same address.
    pub stale: u64,
}

impl Reading {
    /// From a map that another process has pinned.
    ///
    /// # Errors
    /// If there is none, or it is not such a map.
    pub fn pinned(path: &Path) -> Result<Reading, DelayError> {
        Reading::of(&Map::Array(MapData::from_pin(path)?))
    }

    fn of(map: &Map) -> Result<Reading, DelayError> {
        let map: Array<&MapData, [u64; 8]> = map.try_into()?;
        let [average, sample, samples, last, entered, dropped, stale, _] = map.get(&0, 0)?;
        Ok(Reading {
            average,
            sample,
            samples,
            last,
            entered,
            dropped,
            stale,
        })
    }
}

/// Why nothing can be measured here; for the user to read.
#[derive(Debug, thiserror::Error)]
pub enum DelayError {
    /// There is no such device, or it cannot be asked.
    #[error("device {0}: {1}")]
    Device(String, io::Error),
    /// The kernel does not describe itself.
    #[error("the kernel has no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF): {0}")]
    Btf(#[from] BtfError),
    /// The kernel refused the BPF program.
    #[error("the kernel does not take the BPF program (root, or CAP_BPF and CAP_PERFMON): {0}")]
    Load(#[from] EbpfError),
    /// One of the tracepoints.
    #[error("tracepoint {0}: {1}")]
    Tracepoint(&'static str, ProgramError),
    /// The program that stamps headers could not be attached where packets leave.
    #[error("stamping at the device's egress (Linux 6.6): {0}")]
    Stamp(ProgramError),
    /// The program can't write into such a header.
    #[error("the header of {0} cannot be stamped: {1}")]
    Format(&'static str, String),
    /// The name for other programs.
    #[error("{0}: {1}")]
    Pin(PathBuf, io::Error),
    /// A map of the program could not be read or written.
    #[error("the BPF program's data: {0}")]
    Map(#[from] MapError),
    /// The number of the network namespace, by which packets are told apart, is unknown.
    #[error("/proc: {0}")]
    Io(#[from] io::Error),
}

/// What [`Meter::open`] asks of the kernel, and [`Files::create`] of the file system, with `pin`
/// [`Files::pin`], too; then by what it ends. Nothing is done.
pub fn dry_run(
    device: &str,
    setup: &Setup,
    dir: &Path,
    pin: Option<&Path>,
) -> (Vec<String>, Vec<String>) {
    let mut up: Vec<String> = setup
        .points()
        .iter()
        .map(|(point, program)| format!("bpf: load {program}, attach it to tracepoint {point}"))
        .collect();
    if setup.stamp.is_some() {
        up.push(format!(
            "bpf: load stamp, attach it to tcx egress of {device}"
        ));
    }
    let dir = dir.display();
    up.push(format!("mkdir -p {dir}"));
    up.push(format!("write {dir}/owner, {dir}/Da, {dir}/sample"));
    let mut down = vec![String::from(
        "bpf: what was attached goes with this process, be it killed",
    )];
    down.push(format!("rm {dir}/owner {dir}/Da {dir}/sample"));
    down.push(format!("rmdir {dir}"));
    if let Some(pin) = pin {
        let (make, remove) = pin::dry_run(pin);
        let note = files::note_dir("MAP");
        let note = note.display();
        up.push(format!("mkdir -p {note} # MAP: the number of the map"));
        up.push(format!("write {note}/owner, {note}/pin"));
        up.extend(make);
        down.extend(remove);
        down.push(format!("rm {note}/owner {note}/pin"));
        down.push(format!("rmdir {note}"));
    }
    (up, down)
}

impl Setup {
    /// Where programs are attached.
    fn points(&self) -> &'static [(&'static str, &'static str)] {
        match self.stamp.and_then(|s| s.fixed) {
            Some(_) => &[],
            None => self.measure.points(),
        }
    }
}

/// Measures one device until it is dropped.
pub struct Meter {
    /// A fixed delay is stamped: nothing changes.
    fixed: bool,
    readings: Map,
    /// The programs stay attached as long as this lives.
    _programs: Ebpf,
}

impl Meter {
    /// Measure a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// What is missing: the device, BPF in the kernel, or the right to use it. A kernel before
    /// Linux 6.6 cannot attach the program that stamps such that it goes with us.
    pub fn open(device: &str, setup: &Setup) -> Result<Meter, DelayError> {
        let index = || {
            let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
            netdevice::name_to_index(&any, device)
        };
        let index = index().map_err(|e| DelayError::Device(device.to_owned(), e.into()))?;
        let namespace = crate::netns::own_inode()? as u32;
        let btf = Btf::from_sys_fs()?;
        let how = setup.stamp.unwrap_or_default();
        let us = |s: Span| (s.0 / 1000).min(u64::from(u32::MAX)) as u32;
        let (port, first, fixed) = (u32::from(how.port), us(how.first), how.fixed.map_or(0, us));
        let flags = setup.measure.flags();
        let layout =
            layout::of(how.format).map_err(|why| DelayError::Format(how.format.name, why))?;
        let values = [index, namespace, flags, port, first, how.eta, fixed];
        let values = [&values[..], &layout[..]].concat();
        let mut loader = EbpfLoader::new();
        let mut programs = loader
            .override_global("CONFIG", &values[..], true)
            .load(OBJECT)?;
        for (tracepoint, name) in setup.points().iter().copied() {
            let program = programs.program_mut(name).ok_or_else(broken)?;
            attach(program, tracepoint, &btf).map_err(|e| DelayError::Tracepoint(tracepoint, e))?;
        }
        if setup.stamp.is_some() {
            let program = programs.program_mut("stamp").ok_or_else(broken)?;
            stamp_at(program, device).map_err(DelayError::Stamp)?;
        }
        let readings = programs.take_map("READING").ok_or_else(broken)?;
        Ok(Meter {
            fixed: how.fixed.is_some(),
            readings,
            _programs: programs,
        })
    }

    /// That of the [`Reading`].
    fn map(&self) -> &Map {
        &self.readings
    }

    /// What was measured so far.
    ///
    /// # Errors
    /// What `bpf` says.
    pub fn read(&self) -> Result<Reading, DelayError> {
        Reading::of(&self.readings)
    }
}

fn attach(
    program: &mut aya::programs::Program,
    tracepoint: &str,
    btf: &Btf,
) -> Result<(), ProgramError> {
    let program: &mut BtfTracePoint = program.try_into()?;
    program.load(tracepoint, btf)?;
    program.attach()?;
    Ok(())
}

fn stamp_at(program: &mut aya::programs::Program, device: &str) -> Result<(), ProgramError> {
    let program: &mut SchedClassifier = program.try_into()?;
    program.load()?;
    // By a link, not by a filter of a queueing discipline: it goes with its descriptor, and nobody
    // else's discipline is touched.
    let first = TcAttachOptions::TcxOrder(LinkOrder::first());
    program.attach_with_options(device, TcAttachType::Egress, first)?;
    Ok(())
}

/// The object in this binary lacks something: it cannot be.
fn broken() -> DelayError {
    DelayError::Io(io::Error::other("delay.bpf.o lacks a program or map"))
}

/// Where the delay of a device is written unless said otherwise: in `/run/wifu/delay`, by the name
/// of the device, with the number of the network namespace if it is not the host's.
///
/// # Errors
/// If /proc is not mounted.
pub fn default_directory(device: &str) -> io::Result<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let here = crate::netns::own_inode()?;
    let host = std::fs::metadata("/proc/1/ns/net").map(|m| m.ino());
    let name = match host {
        Ok(host) if host == here => device.to_owned(),
        _ => format!("{device}-{here}"),
    };
    Ok(Path::new(crate::netns::RUN).join("delay").join(name))
}

/// Write a device's delay into files until a signal comes, this often.
///
/// # Errors
/// What stops it.
pub fn run(
    meter: &Meter,
    files: &mut Files,
    interval: Span,
    mut poller: Poller,
) -> Result<(), DelayError> {
    let mut events = Vec::new();
    let mut next = Poller::now();
    while poller.take_signal().is_none() {
        files.write(&meter.read()?)?;
        next = match meter.fixed {
            true => Time::NEVER,
            false => Time(next.0.max(Poller::now().0)) + interval,
        };
        poller.wait(next, 0, &mut events)?;
    }
    Ok(())
}

/// Whether this host can measure: what a probe says.
///
/// # Errors
/// What is missing.
pub fn probe() -> Result<(), DelayError> {
    Meter::open("lo", &Setup::default()).map(|_| ())
}

//! Network namespaces joined by veth pairs: testbeds for tests, the demo and benchmarks.
//!
//! Everything made here says whose it is: namespaces are named `wifu-<label>-<node>`, each one's
//! loopback carries the alias `wifu:<pid>:<start>` of its owner, and a state file under
//! [`RUN`] lists what belongs together. A [`Lab`] takes everything down when it is dropped, and a
//! small guardian process does so when the owner dies, be it of Ctrl-C, a panic or SIGKILL: it
//! holds the other end of a pipe that only the owner has open.

use crate::steps::{StepError, Steps};
use crate::sys;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use wifu_wire::units::Rate;

/// Where sockets and state files of this project live.
pub const RUN: &str = "/run/wifu";
/// Where iproute2 keeps the names of namespaces.
pub const NETNS: &str = "/run/netns";
/// How the names of all our namespaces begin.
pub const PREFIX: &str = "wifu-";

/// A process, told apart from later ones with the same number by its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot (field 22 of /proc/PID/stat).
    pub start: u64,
}

impl Owner {
    /// The process that asks.
    pub fn this() -> Owner {
        let pid = std::process::id();
        Owner {
            pid,
            start: start_of(pid).unwrap_or(0),
        }
    }

    /// What our links carry as their alias.
    pub fn tag(&self) -> String {
        format!("wifu:{}:{}", self.pid, self.start)
    }

    /// The owner in an alias, if the alias is one of ours.
    pub fn from_tag(alias: &str) -> Option<Owner> {
        let (pid, start) = alias.strip_prefix("wifu:")?.split_once(':')?;
        Some(Owner {
            pid: pid.parse().ok()?,
            start: start.parse().ok()?,
        })
    }

    /// Does the process still run? One that has ended and only waits for its parent to ask about
    /// it does not.
    pub fn is_alive(&self) -> bool {
        let state: Option<char> = stat_of(self.pid, 3);
        let over = matches!(state, None | Some('Z' | 'X' | 'x'));
        !over && start_of(self.pid) == Some(self.start)
    }
}

fn start_of(pid: u32) -> Option<u64> {
    stat_of(pid, 22)
}

/// The process above a process, if it has one.
pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    stat_of(pid, 4).filter(|parent| *parent != 0)
}

/// A field of /proc/PID/stat, from 3 on; the command's name before it may hold blanks and
/// parentheses.
fn stat_of<T: core::str::FromStr>(pid: u32, field: usize) -> Option<T> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(field - 3)?.parse().ok()
}

/// What a state file under [`RUN`] says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabState {
    /// Version of this layout, 1.
    pub version: u32,
    /// Label of the lab: its namespaces are `wifu-<label>-<node>`.
    pub label: String,
    /// The process that made it; once that is gone, `wifu clean` removes it.
    pub owner: Owner,
    /// Full names of its namespaces, listed before they are made.
    pub namespaces: Vec<String>,
}

/// A named network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// The namespace that `ip netns` knows by `name`; it need not exist yet.
    pub fn named(name: &str) -> Namespace {
        Namespace { name: name.into() }
    }

    /// Its full name, as in `ip netns exec NAME`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A descriptor that keeps it alive.
    ///
    /// # Errors
    /// `NotFound` if there is no such namespace.
    pub fn open(&self) -> io::Result<OwnedFd> {
        let opened = std::fs::File::open(Path::new(NETNS).join(&self.name));
        let named = |e: io::Error| match e.kind() {
            io::ErrorKind::NotFound => {
                io::Error::new(e.kind(), format!("no network namespace {}", self.name))
            }
            _ => e,
        };
        Ok(opened.map_err(named)?.into())
    }

    /// Whether there is one of this name.
    pub fn exists(&self) -> bool {
        Path::new(NETNS).join(&self.name).exists()
    }

    /// Its number: the inode behind the name.
    ///
    /// # Errors
    /// `NotFound` if there is no such namespace.
    pub fn inode(&self) -> io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        Ok(std::fs::metadata(Path::new(NETNS).join(&self.name))?.ino())
    }

    /// A command that will run inside.
    ///
    /// # Errors
    /// `NotFound` if there is no such namespace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> io::Result<Command> {
        let mut command = Command::new(program);
        sys::spawn_inside(&mut command, self.open()?);
        Ok(command)
    }

    /// Run `f` on a thread of its own inside, and wait for it. What `f` opens stays inside; threads
    /// it starts are inside too.
    ///
    /// # Errors
    /// If the namespace is missing or may not be entered.
    ///
    /// # Panics
    /// If `f` panics.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> io::Result<T> {
        let fd = self.open()?;
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                sys::enter_network(&fd)?;
                Ok(f())
            });
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

/// The number of the calling thread's network namespace.
///
/// # Errors
/// If /proc is not mounted.
pub fn own_inode() -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata("/proc/thread-self/ns/net")?.ino())
}

/// One end of a [`Lab::link`].
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// Name of the node, hence of its namespace.
    pub node: &'a str,
    /// Name of the interface, at most 15 octets.
    pub device: &'a str,
    /// Address with prefix length, such as `10.0.0.1/24`; empty for none.
    pub address: &'a str,
}

/// What a token bucket does to an interface's output.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Rate in bits per second of Ethernet frames (14 octets more than the IP packet).
    pub rate: Rate,
    /// Depth of the bucket in octets; at least one frame.
    pub burst: u32,
    /// What may wait, in octets; beyond it packets are dropped.
    pub limit: u32,
}

impl Shape {
    /// A bucket of 2 ms at this rate, at least two frames of 1514 octets, and a queue of `queue`
    /// such frames.
    pub fn new(rate: Rate, queue: u32) -> Shape {
        let burst = (rate.0 / 8 / 500).clamp(2 * 1514, 1 << 20) as u32;
        Shape {
            rate,
            burst,
            limit: queue * 1514,
        }
    }
}

/// Namespaces that belong together and go together.
pub struct Lab {
    state: LabState,
    nodes: Vec<String>,
    steps: Steps,
    guardian: Option<Child>,
}

impl Lab {
    /// An empty lab. Starts its guardian.
    ///
    /// # Errors
    /// If the label has other characters than `a-z`, `0-9` and `-`, a lab of this label exists, or
    /// [`RUN`] cannot be written.
    pub fn create(label: &str) -> Result<Lab, StepError> {
        let mut lab = Lab::plan(label, Steps::real())?;
        let path = lab.state_path();
        if path.exists() {
            let text = format!(
                "{} exists: a lab \"{label}\" runs, or `wifu clean` has work to do",
                path.display()
            );
            return Err(StepError::Invalid(text));
        }
        lab.guardian = Some(start_guardian(&path, &lab.directory())?);
        lab.save()?;
        Ok(lab)
    }

    /// A lab that makes nothing: its [`steps`](Lab::steps) say what it would do.
    ///
    /// # Errors
    /// If the label has other characters than `a-z`, `0-9` and `-`.
    pub fn dry_run(label: &str) -> Result<Lab, StepError> {
        Lab::plan(label, Steps::dry())
    }

    fn plan(label: &str, steps: Steps) -> Result<Lab, StepError> {
        check_word("label", label)?;
        Ok(Lab {
            state: LabState {
                version: 1,
                label: label.into(),
                owner: Owner::this(),
                namespaces: Vec::new(),
            },
            nodes: Vec::new(),
            steps,
            guardian: None,
        })
    }

    /// Every privileged step so far.
    pub fn steps(&self) -> &[String] {
        self.steps.lines()
    }

    /// The steps by which it will be taken down.
    pub fn teardown_steps(&self) -> Vec<String> {
        let names = self.state.namespaces.iter();
        let mut lines: Vec<String> = names.map(|n| format!("ip netns del {n}")).collect();
        lines.push(format!("rm -rf {}", self.directory().display()));
        lines.push(format!("rm -f {}", self.state_path().display()));
        lines
    }

    /// Add a node: a namespace with its loopback up.
    ///
    /// # Errors
    /// If the name is malformed or in use, or a step fails.
    pub fn node(&mut self, node: &str) -> Result<Namespace, StepError> {
        check_word("node", node)?;
        if self.nodes.iter().any(|n| n == node) {
            return Err(StepError::Invalid(format!(
                "node \"{node}\" exists already"
            )));
        }
        let name = format!("{PREFIX}{}-{node}", self.state.label);
        if Path::new(NETNS).join(&name).exists() && !self.steps.is_dry() {
            let text = format!("namespace {name} exists; `wifu clean` removes stale ones");
            return Err(StepError::Invalid(text));
        }
        self.nodes.push(node.into());
        self.state.namespaces.push(name.clone());
        self.save()?;
        if let Some(guardian) = &mut self.guardian {
            tell(guardian, &name)?;
        }
        let tag = self.state.owner.tag();
        self.steps.run(&format!("ip netns add {name}"))?;
        self.steps
            .run(&format!("ip -n {name} link set dev lo alias {tag} up"))?;
        Ok(Namespace { name })
    }

    /// The namespace of a node.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn namespace(&self, node: &str) -> Result<Namespace, StepError> {
        let at = self.nodes.iter().position(|n| n == node);
        let at = at.ok_or_else(|| StepError::Invalid(format!("no node \"{node}\"")))?;
        Ok(Namespace {
            name: self.state.namespaces[at].clone(),
        })
    }

    /// Join two nodes by a veth pair with `mtu`, in octets of IP.
    ///
    /// # Errors
    /// If a node is unknown or a step fails.
    pub fn link(&mut self, a: End<'_>, b: End<'_>, mtu: u32) -> Result<(), StepError> {
        let (na, nb) = (self.namespace(a.node)?, self.namespace(b.node)?);
        self.steps.run(&format!(
            "ip link add name {} netns {} type veth peer name {} netns {}",
            a.device, na.name, b.device, nb.name
        ))?;
        let tag = self.state.owner.tag();
        for (end, ns) in [(a, na), (b, nb)] {
            let (ns, device) = (ns.name, end.device);
            // No router solicitations in captures: nobody speaks IPv6 here.
            self.steps.run(&format!(
                "ip -n {ns} link set dev {device} alias {tag} addrgenmode none mtu {mtu} up"
            ))?;
            if !end.address.is_empty() {
                let line = format!("ip -n {ns} addr add {} dev {device}", end.address);
                self.steps.run(&line)?;
            }
        }
        Ok(())
    }

    /// Shape what leaves `node` through `device`; replaces an earlier shape.
    ///
    /// # Errors
    /// If the node is unknown or the kernel has no tbf.
    pub fn shape(&mut self, node: &str, device: &str, shape: Shape) -> Result<(), StepError> {
        let ns = self.namespace(node)?.name;
        let (rate, burst, limit) = (shape.rate.0, shape.burst, shape.limit);
        self.steps.run(&format!(
            "tc -n {ns} qdisc replace dev {device} root tbf \
             rate {rate}bit burst {burst}b limit {limit}b"
        ))?;
        Ok(())
    }

    /// A route at `node` to `destination` (`10.2.0.0/24`, `default`) via a neighbour's address.
    ///
    /// # Errors
    /// If the node is unknown or the kernel refuses the route.
    pub fn route(&mut self, node: &str, destination: &str, via: &str) -> Result<(), StepError> {
        let ns = self.namespace(node)?.name;
        self.steps
            .run(&format!("ip -n {ns} route replace {destination} via {via}"))?;
        Ok(())
    }

    /// Let `node` forward IPv4 packets.
    ///
    /// # Errors
    /// If the node is unknown or the setting cannot be written.
    pub fn forward(&mut self, node: &str) -> Result<(), StepError> {
        self.settings(node, &[("net/ipv4/ip_forward", "1")])
    }

    /// Write settings of the kernel that belong to `node`'s namespace: paths below /proc/sys, and
    /// what to write there.
    ///
    /// # Errors
    /// If the node is unknown or a setting cannot be written.
    pub fn settings(&mut self, node: &str, all: &[(&str, &str)]) -> Result<(), StepError> {
        let ns = self.namespace(node)?;
        let mut real = false;
        for (path, value) in all {
            let key = path.replace('/', ".");
            let line = format!("ip netns exec {} sysctl {key}={value}", ns.name);
            real = self.steps.note(line);
        }
        if !real {
            return Ok(());
        }
        let file = |path: String, error| StepError::File { path, error };
        let written = ns.run(|| {
            for (path, value) in all {
                let path = format!("/proc/sys/{path}");
                std::fs::write(&path, value).map_err(|e| file(path, e))?;
            }
            Ok(())
        });
        written.map_err(|e| file(ns.name.clone(), e))?
    }

    /// Run lines of `ip`, without the leading `ip`, in the namespace of `node`.
    ///
    /// # Errors
    /// If the node is unknown or a line fails.
    pub fn ip(&mut self, node: &str, lines: &[String]) -> Result<(), StepError> {
        let ns = self.namespace(node)?.name;
        self.steps.run_batch(&format!("ip -n {ns}"), lines)
    }

    /// Run lines of `tc`, without the leading `tc`, in the namespace of `node`.
    ///
    /// # Errors
    /// If the node is unknown or a line fails.
    pub fn tc(&mut self, node: &str, lines: &[String]) -> Result<(), StepError> {
        let ns = self.namespace(node)?.name;
        self.steps.run_batch(&format!("tc -n {ns}"), lines)
    }

    /// Make a TAP device in the namespace of `node`; `None` in a dry run. It lives as long as the
    /// descriptor.
    ///
    /// # Errors
    /// If the node is unknown or the kernel refuses.
    pub fn tap(&mut self, node: &str, device: &str) -> Result<Option<OwnedFd>, StepError> {
        let ns = self.namespace(node)?;
        let line = format!("ip netns exec {} ip tuntap add {device} mode tap", ns.name);
        if !self.steps.note(line.clone()) {
            return Ok(None);
        }
        match ns.run(|| sys::open_tap(device)).flatten() {
            Ok((fd, _)) => Ok(Some(fd)),
            Err(error) => Err(StepError::Start { line, error }),
        }
    }

    /// As [`tap`](Lab::tap), but what is written to the device are frames behind radiotap headers.
    ///
    /// # Errors
    /// As [`tap`](Lab::tap).
    pub fn monitor(&mut self, node: &str, device: &str) -> Result<Option<OwnedFd>, StepError> {
        let tap = self.tap(node, device)?;
        let name = self.namespace(node)?.name;
        let line = format!("tun: link type {} for {device} of {name}", sys::RADIOTAP);
        self.steps.note(line.clone());
        let told = tap.as_ref().map(|fd| sys::set_tap_link(fd, sys::RADIOTAP));
        match told.transpose() {
            Ok(_) => Ok(tap),
            Err(error) => Err(StepError::Start { line, error }),
        }
    }

    /// The tag that what belongs to this lab carries as its alias.
    pub fn tag(&self) -> String {
        self.state.owner.tag()
    }

    /// A directory for what belongs to this lab; it goes with the lab. Its owner makes it.
    pub fn directory(&self) -> PathBuf {
        lab_directory(Path::new(RUN), &self.state.label)
    }

    /// Take everything down and wait until it is gone; dropping does the same.
    pub fn close(self) {}

    fn state_path(&self) -> PathBuf {
        state_file(&self.state.label)
    }

    fn save(&mut self) -> Result<(), StepError> {
        let path = self.state_path();
        if self.steps.is_dry() {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(&self.state).expect("plain data");
        let write = || {
            std::fs::create_dir_all(RUN)?;
            // Never half a file: others may read it at any time.
            let fresh = path.with_extension("json.new");
            std::fs::write(&fresh, text)?;
            std::fs::rename(&fresh, &path)
        };
        write().map_err(|error| StepError::File {
            path: path.display().to_string(),
            error,
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut guardian) = self.guardian.take() {
            // The end of its input is what it waits for.
            drop(guardian.stdin.take());
            let _ = guardian.wait();
        }
    }
}

/// The state file of a lab of this label. It goes last when the lab is taken down.
pub fn state_file(label: &str) -> PathBuf {
    Path::new(RUN).join(format!("lab-{label}.json"))
}

/// Where a lab of this label keeps what belongs to it. The label is a checked word.
fn lab_directory(run: &Path, label: &str) -> PathBuf {
    run.join("emu").join(label)
}

/// The directory of a lab whose state file was found, unless the file was not written by us.
pub(crate) fn directory_of(run: &Path, state: &LabState) -> Option<PathBuf> {
    check_word("label", &state.label).ok()?;
    Some(lab_directory(run, &state.label))
}

fn check_word(what: &str, word: &str) -> Result<(), StepError> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if word.is_empty() || word.len() > 40 || !word.chars().all(fine) {
        let text = format!("{what} \"{word}\": use 1 to 40 of a-z, 0-9 and -");
        return Err(StepError::Invalid(text));
    }
    Ok(())
}

/// What the guardian does: read names until its input ends, ask what runs inside to end, then
/// force it, and remove the namespaces, their daemons' directories, the lab's directory and the
/// state file.
const GUARDIAN: &str = r#"
trap '' HUP INT TERM
names=
while read -r name; do names="$names $name"; done
pids() { for n in $names; do ip netns pids "$n" 2>/dev/null; done; }
p=$(pids); [ -z "$p" ] || kill -TERM $p 2>/dev/null
i=0
while [ $i -lt 40 ] && [ -n "$(pids)" ]; do sleep 0.05; i=$((i + 1)); done
p=$(pids); [ -z "$p" ] || kill -KILL $p 2>/dev/null
for n in $names; do
  inode=$(stat -L -c %i "$2/$n" 2>/dev/null)
  ip netns del "$n" 2>/dev/null
  case "$inode" in '' | *[!0-9]*) ;; *) rm -rf "$3/$inode" ;; esac
done
rm -rf "$4"
rmdir "${4%/*}" 2>/dev/null
rm -f "$1"
"#;

fn start_guardian(state: &Path, directory: &Path) -> Result<Child, StepError> {
    let mut command = Command::new("sh");
    command.args(["-c", GUARDIAN, "wifu-guardian"]);
    command.arg(state).args([NETNS, RUN]).arg(directory);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // The terminal's Ctrl-C is for the owner; the guardian acts after the owner is gone.
    sys::spawn_detached(&mut command);
    command.spawn().map_err(|error| StepError::Start {
        line: "sh -c <guardian>".into(),
        error,
    })
}

fn tell(guardian: &mut Child, name: &str) -> Result<(), StepError> {
    let pipe = guardian.stdin.as_mut().expect("piped when started");
    writeln!(pipe, "{name}").map_err(|error| StepError::Start {
        line: "guardian".into(),
        error,
    })
}

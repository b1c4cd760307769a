//! Daemons on hosts: with `--serve` on every one, with the host's monitor interface; else where a
//! connection of WiFu's is measured.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map as Object, Value as Json};
use wifu_linux::emu::Host;
use wifu_linux::guard::remove_stale;
use wifu_linux::netns::RUN;
use wifu_node::Scheduler;
use wifu_sim::scenario::HostProfile;

use super::scenario::HostKeys;

/// How long a daemon may take to start, and to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// What its log says when it serves, and what precedes its counters in the end.
const READY: &str = "ready: ";
const COUNTED: &str = "counted: ";

/// The daemons of an emulation's hosts.
pub struct Daemons {
    all: Vec<Daemon>,
    /// Where hosts' drivers tell their delays, by names of the hosts.
    folder: PathBuf,
    all_of: Serving,
}

/// What they are started with.
pub struct Serving {
    /// Compositions.
    pub serve: Vec<String>,
    /// Files of compositions and libraries.
    pub told: Vec<(&'static str, OsString)>,
    /// What they make of the hosts.
    pub host: HostKeys,
    /// How many times slower the radio's time passes.
    pub dilation: f64,
}

struct Daemon {
    host: Host,
    log: PathBuf,
    /// Where in the log the words of this one begin: those of others before it were killed.
    begins: u64,
    /// None: it was killed, or has ended.
    child: Option<Child>,
}

impl Daemons {
    /// One on each host, with logs in `folder`/NODE/daemon.log, where drivers tell their delays,
    /// too; none if nothing is to be served.
    ///
    /// # Errors
    /// One does not start: what it said.
    pub fn start(hosts: &[Host], all_of: Serving, folder: &Path) -> anyhow::Result<Daemons> {
        let hosts = match all_of.serve.is_empty() {
            true => &[],
            false => hosts,
        };
        let mut daemons = Daemons {
            all: Vec::new(),
            folder: folder.to_owned(),
            all_of,
        };
        for host in hosts {
            // All start at once, and are waited for below.
            daemons.add(host)?;
        }
        for daemon in &mut daemons.all {
            daemon.is_ready()?;
        }
        Ok(daemons)
    }

    /// Whether hosts run what compositions bring for nodes on the way.
    pub fn serve_any(&self) -> bool {
        !self.all_of.serve.is_empty()
    }

    fn add(&mut self, host: &Host) -> anyhow::Result<()> {
        let log = self.folder.join(&host.name).join("daemon.log");
        // Not what another emulation left.
        File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        self.all.push(Daemon {
            host: host.clone(),
            log,
            begins: 0,
            child: None,
        });
        self.spawn(self.all.len() - 1)
    }

    /// A daemon for the connections of a host: that of `--serve`, one that somebody started there,
    /// or else a new one, which stays until the emulation ends.
    ///
    /// # Errors
    /// It does not start, or was killed by `kill`.
    pub fn ensure(&mut self, host: &Host) -> anyhow::Result<()> {
        if let Ok(i) = self.index(&host.name) {
            ensure!(
                self.all[i].runs(),
                "the daemon of {0} does not run: serve {0}",
                host.name
            );
            return Ok(());
        }
        let inode = host.namespace.inode().context("the host's namespace")?;
        if UnixStream::connect(format!("{RUN}/{inode}/daemon.sock")).is_ok() {
            return Ok(());
        }
        self.add(host)?;
        let last = self.all.last_mut().context("the daemon that was added")?;
        last.is_ready()
    }

    fn spawn(&mut self, i: usize) -> anyhow::Result<()> {
        let daemon = &mut self.all[i];
        let program = std::env::current_exe().context("finding the wifu executable")?;
        let (log, begins) =
            more_of(&daemon.log).with_context(|| format!("opening {}", daemon.log.display()))?;
        daemon.begins = begins;
        let mut command = daemon.host.namespace.command(program)?;
        command.args(["daemon", "--ends-with-parent"]);
        if !self.all_of.serve.is_empty() {
            let mut delays = OsString::from("wlan0=");
            delays.push(self.folder.join(&daemon.host.name));
            command.args(["--monitor", "mon0", "--delay-dir"]);
            command.arg(delays);
        }
        for protocol in &self.all_of.serve {
            command.arg("--serve").arg(protocol);
        }
        let HostKeys { profile, lanes } = self.all_of.host;
        if lanes != Scheduler::default() {
            command.args(["--lanes", lanes.name()]);
        }
        if profile != HostProfile::Off {
            command.args(["--host-profile", profile.name()]);
            command.args(["--host-slower", &self.all_of.dilation.to_string()]);
        }
        command.envs(self.all_of.told.iter().cloned());
        command.env("WIFU_LOG", "info");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // A Ctrl-C at the prompt is for the command that runs there.
        command.stderr(log).process_group(0);
        daemon.child = Some(command.spawn().context("wifu daemon")?);
        Ok(())
    }

    fn index(&self, host: &str) -> anyhow::Result<usize> {
        let found = self.all.iter().position(|d| d.host.name == host);
        found.with_context(|| {
            format!(
                "no daemon is on \"{host}\": leave (`exit`), and start the hosts anew with \
                 `wifu emu --serve PROTOCOL`"
            )
        })
    }

    /// Kill a host's daemon, so that it ends at once and undoes nothing.
    ///
    /// # Errors
    /// There is none.
    pub fn kill(&mut self, host: &str) -> anyhow::Result<()> {
        let i = self.index(host)?;
        let Some(mut child) = self.all[i].child.take() else {
            bail!("the daemon of {host} does not run");
        };
        child.kill().context("killing a daemon")?;
        child.wait().context("waiting for a daemon")?;
        Ok(())
    }

    /// Start a host's daemon again.
    ///
    /// # Errors
    /// It runs, or does not start.
    pub fn serve(&mut self, host: &str) -> anyhow::Result<()> {
        let i = self.index(host)?;
        if self.all[i].runs() {
            bail!("the daemon of {host} runs");
        }
        self.spawn(i)?;
        self.all[i].is_ready()
    }

    /// End all; gives the counters of each by its host's name, null of one that was killed.
    pub fn end(&mut self) -> Json {
        let running = self.all.iter_mut().map(|d| d.child.take());
        let ended = end_all(running.collect(), PATIENCE);
        let counted = self.all.iter().zip(ended).map(|(daemon, ended)| {
            let counted = ended.then(|| daemon.counted()).flatten();
            (daemon.host.name.clone(), counted.unwrap_or(Json::Null))
        });
        let counted = Json::Object(counted.collect::<Object<_, _>>());
        if !self.all.is_empty() {
            // What those that were killed had made on their hosts.
            let namespaces = self.all.iter().map(|d| d.host.namespace.inode());
            remove_stale(&namespaces.flatten().collect::<Vec<_>>());
        }
        counted
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        self.end();
    }
}

impl Daemon {
    fn runs(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    fn said(&self) -> String {
        said_since(&self.log, self.begins).unwrap_or_default()
    }

    /// Wait until it serves.
    fn is_ready(&mut self) -> anyhow::Result<()> {
        let limit = Instant::now() + PATIENCE;
        while !self.said().contains(READY) {
            if !self.runs() || Instant::now() > limit {
                let said = self.said();
                let last = said.lines().last().unwrap_or("it says nothing");
                bail!("the daemon of {} does not start: {last}", self.host.name);
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Its counters, after its end.
    fn counted(&self) -> Option<Json> {
        let said = self.said();
        let line = said.lines().rev().find_map(|l| l.split_once(COUNTED));
        serde_json::from_str(line?.1).ok()
    }
}

/// A log, to go on with it, and how long it is so far.
fn more_of(log: &Path) -> io::Result<(File, u64)> {
    let file = File::options().append(true).create(true).open(log)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

/// What was written to a log from an offset on.
fn said_since(log: &Path, begins: u64) -> io::Result<String> {
    let mut file = File::open(log)?;
    file.seek(io::SeekFrom::Start(begins))?;
    let mut said = Vec::new();
    file.read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// Tell processes to end, and kill those that have not when the time that all have together is
/// over; gives which there were.
fn end_all(mut all: Vec<Option<Child>>, patience: Duration) -> Vec<bool> {
    for child in all.iter().flatten() {
        if let Some(pid) = Pid::from_raw(child.id() as i32) {
            // One that has just ended is not there any more.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
    let limit = Instant::now() + patience;
    for child in all.iter_mut().flatten() {
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > limit {
                let _ = child.kill();
                let _ = child.wait();
                break;
            }
            std::thread::sleep(LOOK);
        }
    }
    all.iter().map(Option::is_some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::Command;

    #[test]
    fn daemons_that_hang_are_waited_for_together() {
        let start = |script: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]).stdout(Stdio::piped());
            let mut child = shell.spawn().expect("sh");
            // It has said what it does upon a signal.
            let out = child.stdout.as_mut().expect("piped");
            out.read_exact(&mut [0; 3]).expect("a line");
            child
        };
        let hangs = "trap '' TERM; echo ok; exec sleep 60";
        let mut all: Vec<_> = (0..4).map(|_| Some(start(hangs))).collect();
        all.push(None);
        all.push(Some(start("echo ok; exec sleep 60")));
        let pids: Vec<u32> = all.iter().flatten().map(Child::id).collect();
        let begun = Instant::now();
        let patience = Duration::from_secs(3);
        assert_eq!(
            end_all(all, patience),
            [true, true, true, true, false, true]
        );
        let took = begun.elapsed();
        assert!(patience < took && took < 2 * patience, "{took:?}");
        for pid in pids {
            assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid} runs");
        }
    }

    #[test]
    fn a_log_goes_on_where_a_killed_daemon_left_it() {
        let log = std::env::temp_dir().join(format!("wifu-log-{}", std::process::id()));
        let mut begins = Vec::new();
        for words in ["first\n", "again\n"] {
            let (mut file, at) = more_of(&log).expect("a log");
            file.write_all(words.as_bytes()).expect("words");
            begins.push(at);
        }
        assert_eq!(begins, [0, 6]);
        assert_eq!(said_since(&log, 0).expect("a log"), "first\nagain\n");
        assert_eq!(said_since(&log, 6).expect("a log"), "again\n");
        std::fs::remove_file(log).expect("it was there");
    }
}

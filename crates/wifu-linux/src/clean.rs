//! Removal of what dead processes of this project left behind, and of nothing else.
//!
//! Ours is what says so: state files under [`RUN`], namespaces named `wifu-...`
//! whose loopback carries our tag, interfaces whose alias is our tag, daemon directories named by
//! the number of a namespace, rules whose comment is our tag, rules of policy routing with our
//! protocol number. What a living process owns stays,
//! unless everything is asked for.

use crate::core::{routes, rules};
use crate::delay;
use crate::guard::{self, Note};
use crate::netns::{LabState, NETNS, Namespace, Owner, PREFIX, RUN, directory_of, own_inode};
use crate::steps::{StepError, Steps, output_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// What [`clean`] did, or would do in a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Every privileged step, in order.
    pub steps: Vec<String>,
    /// What was left alone although its name looks like ours, and why.
    pub kept: Vec<String>,
    /// Steps that failed, and why.
    pub failed: Vec<String>,
    /// Packets of lanes that were dropped since their daemons were killed.
    pub dropped: u64,
}

/// How far [`clean`] goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Only say what would be done.
    pub dry_run: bool,
    /// Remove what living processes own, too. Only a living daemon's socket stays.
    pub all: bool,
}

/// As much as we need of `ip -json link show`.
#[derive(Deserialize)]
struct Link {
    ifname: String,
    #[serde(default)]
    ifalias: String,
}

struct Cleaner {
    steps: Steps,
    all: bool,
    report: Report,
    run: PathBuf,
    /// Numbers of the namespaces that go, or would.
    going: BTreeSet<u64>,
}

/// Remove what is stale.
///
/// # Errors
/// If the host cannot be asked what there is (`ip` is missing). Steps that fail are in the report
/// and stop nothing.
pub fn clean(options: Options) -> Result<Report, StepError> {
    clean_under(Path::new(RUN), options)
}

fn clean_under(run: &Path, options: Options) -> Result<Report, StepError> {
    let mut cleaner = Cleaner {
        steps: if options.dry_run {
            Steps::dry()
        } else {
            Steps::real()
        },
        all: options.all,
        report: Report::default(),
        run: run.into(),
        going: BTreeSet::new(),
    };
    cleaner.namespaces()?;
    cleaner.links()?;
    cleaner.rules();
    cleaner.routes();
    cleaner.guards();
    cleaner.lab_files();
    cleaner.daemon_directories();
    cleaner.delays();
    let Cleaner {
        steps, mut report, ..
    } = cleaner;
    report.steps = steps.lines().to_vec();
    Ok(report)
}

impl Cleaner {
    fn may_go(&self, owner: Owner) -> bool {
        self.all || !owner.is_alive()
    }

    /// A step; what is `gone` although it failed, somebody else removed meanwhile: a guardian, or
    /// another one who cleans.
    fn step(&mut self, line: &str, gone: impl Fn() -> bool) {
        if let Err(e) = self.steps.run(line)
            && !gone()
        {
            self.report.failed.push(e.to_string());
        }
    }

    fn namespaces(&mut self) -> Result<(), StepError> {
        for name in entries(Path::new(NETNS)) {
            if name.starts_with(PREFIX) {
                self.namespace(&name)?;
            }
        }
        Ok(())
    }

    fn namespace(&mut self, name: &str) -> Result<(), StepError> {
        match namespace_owner(name)? {
            Some(owner) if self.may_go(owner) => self.remove_namespace(name),
            Some(owner) => {
                let text = format!("namespace {name}: process {} runs", owner.pid);
                self.report.kept.push(text);
            }
            // Another one who cleans was faster.
            None if !Namespace::named(name).exists() => {}
            None => {
                let text = format!("namespace {name}: does not carry our tag");
                self.report.kept.push(text);
            }
        }
        Ok(())
    }

    /// End what runs inside, then remove the name; the kernel removes the rest.
    fn remove_namespace(&mut self, name: &str) {
        let pids = output_of(&format!("ip netns pids {name}")).unwrap_or_default();
        for pid in pids.split_whitespace() {
            let process = PathBuf::from(format!("/proc/{pid}"));
            self.step(&format!("kill -KILL {pid}"), || !process.exists());
        }
        if let Ok(inode) = Namespace::named(name).inode() {
            self.going.insert(inode);
            self.remove_directory(&self.run.join(inode.to_string()));
        }
        let gone = || !Namespace::named(name).exists();
        self.step(&format!("ip netns del {name}"), gone);
    }

    /// Interfaces of ours in this namespace: TUN devices and ends of veth pairs.
    fn links(&mut self) -> Result<(), StepError> {
        for link in links_of("ip -json link show")? {
            // Of a namespace we are in, the loopback carries the tag and cannot go.
            let Some(owner) = Owner::from_tag(&link.ifalias).filter(|_| link.ifname != "lo") else {
                continue;
            };
            if self.may_go(owner) {
                let name = &link.ifname;
                let gone = || {
                    let left = links_of("ip -json link show");
                    left.is_ok_and(|l| l.iter().all(|l| l.ifname != *name))
                };
                self.step(&format!("ip link del dev {name}"), gone);
            } else {
                let text = format!("interface {}: process {} runs", link.ifname, owner.pid);
                self.report.kept.push(text);
            }
        }
        Ok(())
    }

    /// Rules of ours in this namespace.
    fn rules(&mut self) {
        for rule in rules::installed() {
            if !self.may_go(rule.owner) {
                let text = format!("rule of process {}, which runs", rule.owner.pid);
                self.report.kept.push(text);
            } else if self.steps.note(rule.removal.clone())
                && let Err(e) = rules::remove(&rule)
                && rules::installed().iter().any(|r| r.removal == rule.removal)
            {
                self.report.failed.push(e.to_string());
            }
        }
    }

    /// Rules and tables in this namespace that lead packets to handlers' TUN devices.
    fn routes(&mut self) {
        let Some(found) = routes::installed() else {
            return;
        };
        if let Some(owner) = found.owner.filter(|o| !self.may_go(*o)) {
            let text = format!("routing rules of process {}, which runs", owner.pid);
            return self.report.kept.push(text);
        }
        for line in &found.removal {
            self.step(line, || routes::installed().is_none());
        }
    }

    /// Programs that keep the kernel from forwarding what daemons had which were killed: of this
    /// namespace, as with rules and routes, and of those that are gone. Elsewhere they go on to
    /// drop what others rely on, until somebody says there that they need not.
    fn guards(&mut self) {
        let mut alive = living_namespaces();
        alive.retain(|number| !self.going.contains(number));
        let here = own_inode().ok();
        for note in guard::installed() {
            if let Some(why) = self.guard_stays(note, here, &alive) {
                self.report.kept.push(why);
            } else if self.steps.note(format!("rm -r {}", note.path().display())) {
                match note.remove() {
                    Ok(dropped) => self.report.dropped += dropped.unwrap_or(0),
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    Err(e) => self.report.failed.push(format!("{note}: {e}")),
                }
            }
        }
    }

    /// Why a guard is none of ours to remove, seen from namespace `here`.
    fn guard_stays(&self, note: Note, here: Option<u64>, alive: &BTreeSet<u64>) -> Option<String> {
        let Note { namespace, owner } = note;
        if self.all || !alive.contains(&namespace) {
            None
        } else if owner.is_alive() {
            Some(format!("program of daemon {}, which runs", owner.pid))
        } else if here != Some(namespace) {
            Some(format!(
                "program of daemon {}, which was killed: in network namespace {namespace}, not here",
                owner.pid
            ))
        } else {
            None
        }
    }

    /// State files whose namespaces are all gone, or would be.
    fn lab_files(&mut self) {
        for name in entries(&self.run) {
            if name.starts_with("lab-") && name.ends_with(".json") {
                self.lab_file(&self.run.join(&name));
            }
        }
    }

    fn lab_file(&mut self, path: &Path) {
        let text = match std::fs::read_to_string(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return,
            text => text.unwrap_or_default(),
        };
        match serde_json::from_str::<LabState>(&text) {
            Ok(state) if self.may_go(state.owner) => {
                if let Some(directory) = directory_of(&self.run, &state) {
                    self.remove_directory(&directory);
                }
                self.remove_file(path);
            }
            Ok(state) => {
                let text = format!("{}: process {} runs", path.display(), state.owner.pid);
                self.report.kept.push(text);
            }
            Err(e) => {
                let text = format!("{}: not ours: {e}", path.display());
                self.report.kept.push(text);
            }
        }
    }

    /// `RUN/<namespace number>/`: gone if the namespace is; else the socket if nobody listens.
    fn daemon_directories(&mut self) {
        let alive = living_namespaces();
        for name in entries(&self.run) {
            let Ok(inode) = name.parse::<u64>() else {
                continue;
            };
            let path = self.run.join(&name);
            if !alive.contains(&inode) {
                self.remove_directory(&path);
                continue;
            }
            let socket = path.join("daemon.sock");
            match UnixStream::connect(&socket) {
                Ok(_) => {
                    let text = format!("{}: a daemon runs", socket.display());
                    self.report.kept.push(text);
                }
                Err(e) if e.kind() == ErrorKind::ConnectionRefused && self.all => {
                    // With the registrations that a restarted daemon would have taken up again.
                    self.remove_directory(&path);
                }
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => self.remove_file(&socket),
                Err(_) => {}
            }
        }
    }

    /// Files of devices' delays whose writer is dead.
    fn delays(&mut self) {
        let all = self.run.join("delay");
        for name in entries(&all) {
            let path = all.join(name);
            let Some(owner) = delay::owner(&path) else {
                continue;
            };
            if !self.may_go(owner) {
                let text = format!("{}: process {} runs", path.display(), owner.pid);
                self.report.kept.push(text);
                continue;
            }
            let pin = delay::pinned(&path);
            // As inside of `ip netns exec`. Without the note nobody would find it again.
            if let Some(pin) = pin.as_ref().filter(|pin| !pin.is_visible()) {
                let (note, pin) = (path.display(), pin.path.display());
                let text = format!("{note}: pin {pin}: its BPF file system is not visible here");
                self.report.kept.push(text);
                continue;
            }
            for step in pin.iter().flat_map(|pin| pin.removal()) {
                // It is done with the directory's.
                let _ = self.steps.note(step);
            }
            if self.steps.note(format!("rm -rf {}", path.display())) {
                pin.iter().for_each(|pin| pin.remove());
                delay::remove(&path);
            }
        }
    }

    fn remove_file(&mut self, path: &Path) {
        if self.steps.note(format!("rm -f {}", path.display()))
            && let Err(e) = std::fs::remove_file(path)
            && e.kind() != ErrorKind::NotFound
        {
            self.report.failed.push(format!("{}: {e}", path.display()));
        }
    }

    fn remove_directory(&mut self, path: &Path) {
        // A symbolic link is nothing that we make.
        let real = std::fs::symlink_metadata(path).is_ok_and(|m| m.is_dir());
        if real
            && self.steps.note(format!("rm -rf {}", path.display()))
            && let Err(e) = std::fs::remove_dir_all(path)
            && e.kind() != ErrorKind::NotFound
        {
            self.report.failed.push(format!("{}: {e}", path.display()));
        }
    }
}

/// Names in a directory, in order; none if it does not exist.
fn entries(path: &Path) -> Vec<String> {
    let Ok(list) = std::fs::read_dir(path) else {
        return Vec::new();
    };
    let mut names: Vec<String> = list
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Whom the tag on the namespace's loopback names; `None` if it has no tag or is no namespace.
fn namespace_owner(name: &str) -> Result<Option<Owner>, StepError> {
    let links = match links_of(&format!("ip -n {name} -json link show dev lo")) {
        Ok(links) => links,
        // A name left over from before a restart has no namespace behind it.
        Err(StepError::Failed { .. }) => return Ok(None),
        Err(e) => return Err(e),
    };
    Ok(links.iter().find_map(|l| Owner::from_tag(&l.ifalias)))
}

fn links_of(line: &str) -> Result<Vec<Link>, StepError> {
    let text = output_of(line)?;
    serde_json::from_str(&text).map_err(|e| StepError::Failed {
        line: line.into(),
        message: format!("unexpected answer: {e}"),
    })
}

/// The numbers of all network namespaces that a name or a process keeps alive.
fn living_namespaces() -> BTreeSet<u64> {
    let named = entries(Path::new(NETNS))
        .into_iter()
        .map(|n| Path::new(NETNS).join(n));
    let of_processes = entries(Path::new("/proc"))
        .into_iter()
        .filter(|n| n.parse::<u32>().is_ok())
        .map(|n| PathBuf::from(format!("/proc/{n}/ns/net")));
    named
        .chain(of_processes)
        .filter_map(|p| std::fs::metadata(p).ok())
        .map(|m| m.ino())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_dead_owners_go_and_strangers_stay() {
        let run = std::env::temp_dir().join(format!("wifu-clean-{}", std::process::id()));
        std::fs::create_dir_all(run.join("1")).expect("directory");
        let file = |name: &str, text: &str| std::fs::write(run.join(name), text).expect("file");
        let state = |owner: Owner| {
            serde_json::to_string(&LabState {
                version: 1,
                label: "x".into(),
                owner,
                namespaces: Vec::new(),
            })
            .expect("plain data")
        };
        let dead = Owner {
            start: 0,
            ..Owner::this()
        };
        file("lab-dead.json", &state(dead));
        file("lab-alive.json", &state(Owner::this()));
        file("lab-odd.json", "no state of ours");
        file("notes.txt", "somebody else's");
        let files = Cleaner {
            steps: Steps::real(),
            all: false,
            report: Report::default(),
            run: run.clone(),
            going: BTreeSet::new(),
        };
        let mut dry = Cleaner {
            steps: Steps::dry(),
            report: Report::default(),
            run: run.clone(),
            ..files
        };
        dry.lab_files();
        dry.daemon_directories();
        assert_eq!(dry.steps.lines().len(), 2);
        assert!(
            run.join("lab-dead.json").exists(),
            "a dry run changes nothing"
        );
        let mut real = Cleaner {
            steps: Steps::real(),
            ..dry
        };
        real.lab_files();
        // No namespace has the number 1: those of the kernel start at 4026531840.
        real.daemon_directories();
        let left = entries(&run);
        assert_eq!(left, ["lab-alive.json", "lab-odd.json", "notes.txt"]);
        std::fs::remove_dir_all(&run).expect("removal");
    }

    #[test]
    fn a_process_that_only_waits_for_its_parent_owns_nothing() {
        let mut child = std::process::Command::new("cat");
        let mut child = child
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("stat");
        let start = stat.split_whitespace().nth(21).expect("22 fields");
        let owner = Owner::from_tag(&format!("wifu:{}:{start}", child.id())).expect("a tag");
        assert!(owner.is_alive());
        drop(child.stdin.take());
        let ended = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id()));
            stat.expect("it is not waited for").contains(") Z ")
        };
        while !ended() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!owner.is_alive());
        child.wait().expect("our own child");
    }

    #[test]
    fn what_keeps_packets_back_in_another_namespace_stays() {
        let mut cleaner = Cleaner {
            steps: Steps::dry(),
            all: false,
            report: Report::default(),
            run: PathBuf::new(),
            going: BTreeSet::new(),
        };
        let dead = Owner {
            start: 0,
            ..Owner::this()
        };
        let (here, there, gone) = (1, 2, 3);
        let alive = BTreeSet::from([here, there]);
        let stays = |cleaner: &Cleaner, namespace, owner| {
            let note = Note { namespace, owner };
            cleaner.guard_stays(note, Some(here), &alive)
        };
        assert_eq!(stays(&cleaner, here, dead), None);
        assert_eq!(stays(&cleaner, gone, dead), None);
        let why = stays(&cleaner, there, dead).expect("it stays");
        assert!(why.ends_with("in network namespace 2, not here"), "{why}");
        for namespace in [here, there] {
            let why = stays(&cleaner, namespace, Owner::this()).expect("it stays");
            assert!(why.ends_with("which runs"), "{why}");
        }
        cleaner.all = true;
        for namespace in [here, there] {
            for owner in [dead, Owner::this()] {
                assert_eq!(stays(&cleaner, namespace, owner), None);
            }
        }
    }

    #[test]
    fn what_another_one_removed_meanwhile_is_gone_and_not_kept() {
        let run = std::env::temp_dir().join("wifu-clean-none");
        let mut cleaner = Cleaner {
            steps: Steps::dry(),
            all: false,
            report: Report::default(),
            run: run.clone(),
            going: BTreeSet::new(),
        };
        // As if they had been listed just before.
        cleaner.lab_file(&run.join("lab-gone.json"));
        cleaner.namespace("wifu-no-such").expect("ip");
        assert_eq!(cleaner.report, Report::default());
    }
}

//! One emulation at a time on a host: two make each other late.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock, major, minor};
use wifu_linux::netns::{LabState, RUN, state_file};

use super::{Args, DEFAULT_NAME};

/// So long hosts that an emulation left may take to go: programs on them are asked to end, and
/// killed after two seconds.
const GOING: Duration = Duration::from_secs(5);

/// So much longer for each host.
const EACH: Duration = Duration::from_millis(200);

/// The right to be this host's only emulation, until it is dropped; none with `--share`. With
/// `--wait` nothing is left then of an emulation of this name that ended.
///
/// # Errors
/// Another one has it, unless it is waited for.
pub fn alone(args: &Args) -> anyhow::Result<Option<File>> {
    if args.share {
        return Ok(None);
    }
    let lock = locked(args)?;
    if args.wait {
        wait_until_gone(&state_file(&args.name), GOING);
    }
    Ok(Some(lock))
}

/// Waits until an emulation is gone whose process ended, hosts and all. What nobody removes any
/// more is left to `wifu clean`, which whoever finds it is told.
fn wait_until_gone(state: &Path, patience: Duration) {
    let begun = Instant::now();
    let mut told = false;
    while let Ok(text) = std::fs::read_to_string(state) {
        let lab = serde_json::from_str(&text);
        let Ok(LabState {
            owner, namespaces, ..
        }) = lab
        else {
            return;
        };
        let patience = patience + EACH * namespaces.len() as u32;
        if owner.is_alive() || begun.elapsed() > patience {
            return;
        }
        if !told {
            eprintln!("Waiting for the hosts of an emulation that ended to be removed");
            told = true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The lock, which this host's only emulation has.
fn locked(args: &Args) -> anyhow::Result<File> {
    std::fs::create_dir_all(RUN).context(RUN)?;
    let directory = File::open(RUN).context(RUN)?;
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok(directory),
        Err(rustix::io::Errno::WOULDBLOCK) => {}
        Err(e) => return Err(e).context(RUN),
    }
    let who = holder(&directory).map_or(String::new(), |who| format!(" ({who})"));
    if !args.wait {
        bail!(
            "another emulation runs on this host{who}, and two make each other late: --wait for \
             its end, or --share the machine"
        );
    }
    eprintln!("Waiting for another emulation on this host to end{who}");
    flock(&directory, FlockOperation::LockExclusive).context(RUN)?;
    Ok(directory)
}

/// Who has the lock of a file, as far as the kernel tells.
fn holder(file: &File) -> Option<String> {
    let facts = file.metadata().ok()?;
    let (dev, inode) = (facts.dev(), facts.ino());
    let file = format!("{:02x}:{:02x}:{inode}", major(dev), minor(dev));
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let pid = locks.lines().find_map(|line| held(line, &file))?;
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = words
        .split(|b| *b == 0)
        .map(String::from_utf8_lossy)
        .collect();
    let name = named(&words).unwrap_or(DEFAULT_NAME);
    Some(format!("\"{name}\", process {pid}"))
}

/// The process that holds a lock on a file by flock(2), of a line of /proc/locks. Who waits for it
/// has an arrow before the kind.
fn held(line: &str, file: &str) -> Option<u32> {
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, "FLOCK", _, _, pid, of, ..] if of == file => pid.parse().ok().filter(|pid| *pid > 0),
        _ => None,
    }
}

/// What `--name` says among the words of a command line.
fn named<W: AsRef<str>>(words: &[W]) -> Option<&str> {
    let mut words = words.iter().map(AsRef::as_ref);
    loop {
        match words.next()? {
            "--name" => return words.next(),
            word => {
                if let Some(name) = word.strip_prefix("--name=") {
                    return Some(name);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_linux::netns::Owner;

    #[test]
    fn who_holds_a_lock_is_found_and_not_who_waits() {
        let lines = [
            "1: POSIX  ADVISORY  READ 99 fe:00:105 128 128",
            "2: FLOCK  ADVISORY  WRITE 98 fe:00:106 0 EOF",
            "3: -> FLOCK  ADVISORY  WRITE 97 fe:00:105 0 EOF",
            "4: FLOCK  ADVISORY  WRITE 24101 fe:00:105 0 EOF",
        ];
        let found = |file| lines.iter().find_map(|line| held(line, file));
        assert_eq!(found("fe:00:105"), Some(24_101));
        assert_eq!(found("fe:01:105"), None);
        // Of another PID namespace.
        assert_eq!(
            held("4: FLOCK  ADVISORY  WRITE 0 fe:00:105 0 EOF", "fe:00:105"),
            None
        );
    }

    #[test]
    fn this_process_is_told_of_by_its_number() {
        let file = tempfile();
        assert_eq!(holder(&file), None);
        flock(&file, FlockOperation::LockExclusive).expect("nobody has it");
        let who = holder(&file).expect("this process");
        let me = format!("process {}", std::process::id());
        assert!(who.ends_with(&me), "{who}");
    }

    fn tempfile() -> File {
        let path = std::env::temp_dir().join(format!("wifu-alone-{}", std::process::id()));
        let file = File::create(&path).expect("a file");
        std::fs::remove_file(&path).expect("it is there");
        file
    }

    #[test]
    fn what_an_ended_emulation_left_is_waited_for() {
        let path = std::env::temp_dir().join(format!("wifu-left-{}.json", std::process::id()));
        let write = |pid: u32| {
            let owner = Owner {
                pid,
                ..Owner::this()
            };
            let state = LabState {
                version: 1,
                label: String::from("left"),
                owner,
                namespaces: Vec::new(),
            };
            let text = serde_json::to_string(&state).expect("plain data");
            std::fs::write(&path, text).expect("a file");
        };
        let waited = |patience: u64| {
            let begun = Instant::now();
            wait_until_gone(&path, Duration::from_millis(patience));
            begun.elapsed()
        };
        // No process has the greatest number of all.
        write(u32::MAX);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                std::fs::remove_file(&path).expect("it is there");
            });
            assert!(waited(60_000) >= Duration::from_millis(50));
            assert!(!path.exists());
        });
        assert!(waited(60_000) < Duration::from_secs(30), "there is nothing");
        write(u32::MAX);
        assert!(waited(50) >= Duration::from_millis(50), "it stays");
        write(std::process::id());
        assert!(waited(60_000) < Duration::from_secs(30), "it runs");
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn an_emulation_has_the_name_of_its_command_line() {
        assert_eq!(named(&["wifu", "emu", "--name", "a", "--wait"]), Some("a"));
        assert_eq!(named(&["wifu", "emu", "--name=b"]), Some("b"));
        assert_eq!(named(&["wifu", "emu"]), None);
    }
}

//! The thread beside the radio's: it exports drivers' delays as files, sees who captures packets,
//! and asks the host what it did to us.

use super::shared::Shared;
use crate::netns::Namespace;
use core::sync::atomic::Ordering;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks; files change no more often.
const ROUND: Duration = Duration::from_millis(10);
/// Rounds between two looks for captures, and at what the host did.
const CAPTURES: u32 = 5;
const HOST: u32 = 20;

/// What is read and written for one node, kept open.
struct Watched {
    /// The files `Da` and `sample` with the driver's delay, and `busy`.
    export: [Number; 3],
    /// `/proc/net/packet` and `/proc/net/dev` of its namespace.
    packet: File,
    devices: File,
    /// Number of its monitor there.
    monitor: u32,
}

/// A file that holds a number.
struct Number {
    file: File,
    written: Option<u64>,
    length: usize,
}

impl Number {
    fn write(&mut self, value: u64) {
        if self.written == Some(value) {
            return;
        }
        let text = format!("{value}\n");
        // Whoever reads in between sees the new line first. A full disk stops exports
        // only, and the next change tries again.
        let written = self.file.write_all_at(text.as_bytes(), 0);
        if written.is_ok() && text.len() < self.length {
            let _ = self.file.set_len(text.len() as u64);
        }
        (self.written, self.length) = (Some(value), text.len());
    }
}

pub(crate) struct Watch {
    nodes: Vec<Watched>,
    shared: Arc<Shared>,
    /// Whether nodes overhear only while somebody captures there.
    captures: bool,
    first: Option<Ticks>,
}

/// Processor time of the whole machine, in clock ticks.
#[derive(Clone, Copy)]
struct Ticks {
    all: u64,
    stolen: u64,
}

impl Watch {
    /// Open everything: `Da`, `sample` and `busy` in a folder of each node's name below
    /// `directory`, unless somebody else has files of these names there.
    pub fn new(
        directory: &Path,
        hosts: &[(String, Namespace)],
        shared: Arc<Shared>,
        captures: bool,
    ) -> io::Result<Watch> {
        let open = |(name, namespace): &(String, Namespace)| {
            let folder = directory.join(name);
            let claimed = crate::delay::Dir::claim(&folder)?;
            let file = |name: &str| {
                claimed.fresh(name).map(|file| Number {
                    file,
                    written: None,
                    length: 0,
                })
            };
            let inside = |name: &str| {
                let path = format!("/proc/thread-self/net/{name}");
                namespace.run(|| File::open(path)).flatten()
            };
            Ok(Watched {
                export: [file("Da")?, file("sample")?, file("busy")?],
                packet: inside("packet")?,
                devices: inside("dev")?,
                monitor: namespace.run(|| number(super::net::MONITOR)).flatten()?,
            })
        };
        let mut nodes = Vec::with_capacity(hosts.len());
        for host in hosts {
            match open(host) {
                Ok(node) => nodes.push(node),
                Err(e) => {
                    let made = &hosts[..nodes.len()];
                    made.iter()
                        .for_each(|(name, _)| crate::delay::remove(&directory.join(name)));
                    return Err(e);
                }
            }
        }
        Ok(Watch {
            nodes,
            shared,
            captures,
            first: ticks(),
        })
    }

    /// Until the emulation ends.
    pub fn run(mut self) {
        let mut round = 0u32;
        loop {
            let last = self.shared.stop.load(Ordering::Relaxed);
            self.export();
            if round.is_multiple_of(CAPTURES) {
                self.look_for_captures();
            }
            if round.is_multiple_of(HOST) || last {
                self.ask_host();
            }
            if last {
                return;
            }
            round = round.wrapping_add(1);
            std::thread::sleep(ROUND);
        }
    }

    fn export(&mut self) {
        for (node, told) in self.nodes.iter_mut().zip(&self.shared.nodes) {
            let [average, last, busy] = &mut node.export;
            if let Some((delay, sample)) = told.delay() {
                average.write(delay);
                last.write(sample);
            }
            busy.write(told.busy());
        }
    }

    fn look_for_captures(&self) {
        for (node, told) in self.nodes.iter().zip(&self.shared.nodes) {
            let text = read(&node.packet).unwrap_or_default();
            let (others, monitor) = captures(&text, node.monitor);
            told.monitored.store(monitor, Ordering::Relaxed);
            if self.captures {
                told.listens.store(others, Ordering::Relaxed);
            }
        }
    }

    fn ask_host(&self) {
        for (node, told) in self.nodes.iter().zip(&self.shared.nodes) {
            if let Some(n) = read(&node.devices).as_deref().and_then(drops) {
                told.dropped.store(n, Ordering::Relaxed);
            }
        }
        let steal = match (self.first, ticks()) {
            (Some(a), Some(b)) if b.all > a.all => {
                Some(b.stolen.saturating_sub(a.stolen) as f64 / (b.all - a.all) as f64)
            }
            _ => None,
        };
        self.shared.set_steal(steal);
        let text = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
        self.shared.set_pressure(pressure(&text));
    }
}

/// All of a small file below /proc, from the start.
fn read(file: &File) -> Option<String> {
    let mut buffer = [0u8; 4096];
    let n = file.read_at(&mut buffer, 0).ok()?;
    Some(String::from_utf8_lossy(&buffer[..n]).into_owned())
}

/// What packet sockets in /proc/net/packet receive: whether some does besides those of the
/// interface `monitor`, and whether some does of that one. Who listens on every interface does
/// not ask for radiotap.
fn captures(text: &str, monitor: u32) -> (bool, bool) {
    // A line of headings, then one for each socket. Those of protocol 0 only send, as ours do.
    let interface = |l: &str| {
        let mut columns = l.split_whitespace().skip(3);
        let receives = columns.next()? != "0000";
        let number = columns.next()?.parse::<u32>().ok()?;
        receives.then_some(number)
    };
    let of = text.lines().skip(1).filter_map(interface);
    of.fold((false, false), |(others, own), n| {
        (others | (n != monitor), own | (n == monitor))
    })
}

/// The number of an interface in the calling thread's namespace.
fn number(name: &str) -> io::Result<u32> {
    use rustix::net::{AddressFamily, SocketType, netdevice, socket};
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(netdevice::name_to_index(&any, name)?)
}

/// Frames that the radio's TAP dropped on their way out, from `/proc/net/dev`.
fn drops(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|l| l.trim().strip_prefix(super::net::DEVICE)?.strip_prefix(':'))?;
    line.split_whitespace().nth(11)?.parse().ok()
}

fn ticks() -> Option<Ticks> {
    stat(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// The first line of /proc/stat; the eighth column is what others took.
fn stat(text: &str) -> Option<Ticks> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let columns: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
    Some(Ticks {
        // The time of guests is in that of users.
        all: columns.iter().take(8).sum(),
        stolen: *columns.get(7)?,
    })
}

/// `some avg10=1.23 ...` as a share.
fn pressure(text: &str) -> Option<f64> {
    let words = text.lines().find(|l| l.starts_with("some"))?;
    let value = words.split("avg10=").nth(1)?.split(' ').next()?;
    Some(value.parse::<f64>().ok()? / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_understood() {
        let s = stat("cpu  10 2 30 400 5 6 7 8 9 10\ncpu0 1\n").unwrap();
        assert_eq!((s.all, s.stolen), (468, 8));
        let p = pressure("some avg10=1.50 avg60=0 avg300=0 total=9\nfull avg10=0.00").unwrap();
        assert!((p - 0.015).abs() < 1e-12);
        let dev = "Inter-| Receive\n face |bytes\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n \
                   wlan0: 1 2 3 4 5 6 7 8 9 10 11 42 13 14 15 16\n";
        assert_eq!(drops(dev), Some(42));
        let head = "sk RefCnt Type Proto Iface R Rmem User Inode\n";
        let ours = "00000000c71bd2c4 3 3 0000 2 0 0 0 8012\n";
        let theirs = "000000008fd3ab45 3 3 0003 3 1 0 0 8013\n";
        let both = format!("{head}{ours}{theirs}");
        assert_eq!(captures(head, 3), (false, false));
        assert_eq!(captures(&format!("{head}{ours}"), 3), (false, false));
        assert_eq!(captures(&both, 3), (false, true));
        assert_eq!(captures(&both, 2), (true, false));
        assert!(stat("").is_none() && pressure("").is_none() && drops("").is_none());
    }
}

//! What can be asked of a running emulation, in words and by a UNIX socket.

use super::late::Quantiles;
use super::net::{Host, Network};
use super::verdict::{Limits, Verdict};
use crate::poller::Waker;
use crate::steps::Steps;
use core::fmt::{self, Write as _};
use serde::Serialize;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use wifu_radio::topology::MOST_SNR_DB;
use wifu_wire::names::hint;

/// Something to do, or to tell. Nodes are numbers from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// Give a direction a mean SNR, dB.
    Snr(u16, u16, f64),
    /// Put a node elsewhere, metres.
    Move(u16, [f64; 3]),
    /// Make a node deaf and mute.
    Pause(u16),
    /// Let a paused node hear and speak again.
    Resume(u16),
    /// Let nothing pass between two nodes.
    Cut(u16, u16),
    /// Restart a node: its radio is off for so long, its queues and its kernel's routes are lost.
    Restart(u16, Duration),
    /// The radio's part of it: off or on. No words mean it.
    Switch(u16, bool),
    /// Undo one cut, or all.
    Restore(Option<(u16, u16)>),
    /// Let the scenario's movements and cuts begin, if they were held.
    Play,
    /// How well the run goes.
    Status,
    /// Tell of every link, each direction by itself.
    Links,
    /// Tell of every node.
    Nodes,
}

/// The words of each order.
pub const WORDS: [&str; 11] = [
    "snr A B DB",
    "move N X Y [Z]",
    "pause N",
    "resume N",
    "cut A B",
    "restore [A B]",
    "restart N [SECONDS]",
    "play",
    "status",
    "links",
    "nodes",
];

/// The first words of all orders.
pub fn names() -> impl Iterator<Item = &'static str> {
    WORDS.iter().filter_map(|words| words.split(' ').next())
}

/// What would have been right instead of a line that is no order.
fn instead(line: &str) -> String {
    let first = line.split_whitespace().next().unwrap_or_default();
    let usage = names().zip(WORDS).find(|(name, _)| *name == first);
    match usage {
        Some((_, words)) => format!("write {words}"),
        None => format!("no command is called `{first}`{}", hint(first, names())),
    }
}

/// How long a restart takes unless said otherwise, and at most.
const RESTART: Duration = Duration::from_secs(1);
const LONGEST_RESTART: f64 = 8.0;

impl Order {
    /// From words; `find` knows the nodes' numbers by name.
    ///
    /// # Errors
    /// What would have been right.
    pub fn parse(line: &str, find: impl Fn(&str) -> Option<u16>) -> Result<Order, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let node = |w: &str| find(w).ok_or_else(|| format!("there is no node \"{w}\""));
        let number = |w: &str| match w.parse::<f64>() {
            Ok(n) if n.is_finite() => Ok(n),
            _ => Err(format!("\"{w}\" is no number")),
        };
        let pair = |a: &str, b: &str| match (node(a)?, node(b)?) {
            (a, b) if a != b => Ok((a, b)),
            _ => Err(String::from("two different nodes, please")),
        };
        Ok(match words.as_slice() {
            ["snr", a, b, db] => {
                let ((a, b), db) = (pair(a, b)?, number(db)?);
                if db > MOST_SNR_DB {
                    return Err(format!("{db} dB: no link has more than {MOST_SNR_DB} dB"));
                }
                Order::Snr(a, b, db)
            }
            ["move", n, x, y] => Order::Move(node(n)?, [number(x)?, number(y)?, 0.0]),
            ["move", n, x, y, z] => Order::Move(node(n)?, [number(x)?, number(y)?, number(z)?]),
            ["pause", n] => Order::Pause(node(n)?),
            ["resume", n] => Order::Resume(node(n)?),
            ["cut", a, b] => {
                let (a, b) = pair(a, b)?;
                Order::Cut(a, b)
            }
            ["restore"] => Order::Restore(None),
            ["restore", a, b] => Order::Restore(Some(pair(a, b)?)),
            ["play"] => Order::Play,
            ["restart", n] => Order::Restart(node(n)?, RESTART),
            ["restart", n, seconds] => match number(seconds)? {
                s if (0.0..=LONGEST_RESTART).contains(&s) => {
                    Order::Restart(node(n)?, Duration::from_secs_f64(s))
                }
                _ => return Err(format!("a restart takes 0 to {LONGEST_RESTART} s")),
            },
            ["status"] => Order::Status,
            ["links"] => Order::Links,
            ["nodes"] => Order::Nodes,
            _ => return Err(instead(line)),
        })
    }
}

/// How well a run goes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// Whether the run was enough in time for its numbers to be used.
    pub verdict: Verdict,
    /// What speaks against it.
    pub reasons: Vec<String>,
    /// Hosts that somebody has taken the device or the namespace from: what makes the run invalid
    /// however much in time it was.
    pub gone: Vec<String>,
    /// Model time since the start, s.
    pub seconds: f64,
    /// Seconds per model second.
    pub dilation: f64,
    /// Number of nodes, each of them a network namespace.
    pub nodes: usize,
    /// Frames handed to kernels: how late, microseconds of model time.
    pub deliveries: Quantiles,
    /// Events of the radio: how late they were looked at, microseconds of model time.
    pub events: Quantiles,
    /// Share of processor time that the hypervisor gave to others, 0 to 1.
    pub steal: Option<f64>,
    /// Share of the last 10 s in which some process on this host waited for a processor, 0 to 1.
    /// Told, not judged.
    pub pressure: Option<f64>,
    /// Frames that kernels sent.
    pub sent: u64,
    /// Those of them that a kernel sent while it was handed another one, or a program while that
    /// was waited for: they entered the model at the time of that delivery.
    pub at_once: u64,
    /// Frames to addresses that no node has, dropped.
    pub unknown: u64,
    /// Frames that did not fit into the queue in front of a radio: drops of the network, not of the
    /// emulation.
    pub queue_drops: u64,
    /// Nodes whose drivers stop their queue while their ring is full.
    pub push_back: usize,
    /// Why no node stops its queue; none if they do.
    pub no_push_back: Option<String>,
    /// Frames that a kernel did not take, for its interface was down.
    pub refused: u64,
    /// How often kernels were given other routes because nodes moved or links were cut.
    pub reroutes: u64,
    /// The longest that passed until they had them, microseconds of model time. Told, not judged.
    pub reroute_late_us: u64,
    /// The limits of VALID.
    pub valid: Limits,
    /// The limits of SUSPECT.
    pub suspect: Limits,
}

/// A direction between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkRow {
    /// Name of the node that sends.
    pub from: String,
    /// Name of the node that receives.
    pub to: String,
    /// Mean SNR now, dB; none if nothing is received.
    pub snr_db: Option<f64>,
    /// Whether `cut` lets nothing pass, until `restore`.
    pub cut: bool,
    /// Packets that the MAC has done with: acknowledged or given up.
    pub frames: u64,
    /// Transmissions of data frames, repeated ones included.
    pub attempts: u64,
    /// Attempts at the packets that the MAC has done with, an RTS that got no answer included.
    pub tries: u64,
    /// Packets of `frames` that the receiver acknowledged.
    pub acked: u64,
    /// Packets of `frames` whose last attempt failed, too.
    pub failed: u64,
    /// Frames for others that the receiver decoded.
    pub overheard: u64,
}

/// A node of the emulation: who it is, and what its driver and radio did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeRow {
    /// Name in the topology.
    pub name: String,
    /// The name of its namespace.
    pub namespace: String,
    /// IPv4 address of its radio's device.
    pub address: String,
    /// Metres, if known.
    pub position: Option<[f64; 3]>,
    /// Whether `pause` or a restart keeps it from sending and receiving.
    pub paused: bool,
    /// Packets in its driver.
    pub queued: u32,
    /// Average delay of its driver, microseconds; none before the first packet.
    pub delay_us: Option<u64>,
    /// Share of the last 0.1 s in which its medium was busy.
    pub busy: f64,
    /// Packets its driver took.
    pub sent: u64,
    /// Of these, given up.
    pub failed: u64,
    /// Attempts besides the first of each packet, an RTS that got no answer included.
    pub retries: u64,
    /// Packets for it, or for all, that its radio received.
    pub received: u64,
    /// Packets of others decoded.
    pub overheard: u64,
    /// Packets that did not fit into its queue.
    pub queue_drops: u64,
}

/// What the emulation answers to an [`Order`], as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// It was done; or why not.
    Done(Result<String, String>),
    /// How well it goes.
    Status(Box<Status>),
    /// A row for each direction of each link.
    Links(Vec<LinkRow>),
    /// A row for each node, in the order of the topology.
    Nodes(Vec<NodeRow>),
}

impl Status {
    fn routes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reroutes == 0 {
            return Ok(());
        }
        writeln!(
            f,
            "  routes        laid anew {} times, late by at most {:.1} ms",
            self.reroutes,
            self.reroute_late_us as f64 / 1e3
        )
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} after {:.1} s of model time",
            self.verdict, self.seconds
        )?;
        if self.dilation != 1.0 {
            write!(f, ", each of which took {} s", self.dilation)?;
        }
        let why = match self.reasons.is_empty() {
            true => String::from("all limits are kept"),
            false => self.reasons.join("; "),
        };
        writeln!(f, " ({why})")?;
        for (name, q) in [
            ("deliveries", &self.deliveries),
            ("radio events", &self.events),
        ] {
            writeln!(
                f,
                "  {name:<13} {:>9}  late by p50 {:.0}  p99 {:.0}  p99.9 {:.0}  max {:.0} us",
                q.count, q.p50, q.p99, q.p999, q.max
            )?;
        }
        let share = |s: Option<f64>| s.map_or("unknown".into(), |s| format!("{:.1} %", s * 100.0));
        writeln!(
            f,
            "  processors    stolen {}, somebody waiting for one {} of the last 10 s",
            share(self.steal),
            share(self.pressure)
        )?;
        let lost = [self.queue_drops, self.unknown, self.refused];
        writeln!(
            f,
            "  frames        {} sent, {} of them at the time of a delivery; dropped: {} for a full \
             queue, {} for unknown addresses, {} for interfaces that were down",
            self.sent, self.at_once, lost[0], lost[1], lost[2]
        )?;
        self.routes(f)?;
        let lost = self.nodes.saturating_sub(self.push_back);
        if let Some(why) = &self.no_push_back {
            writeln!(f, "  queues        do not push back: {why}")?;
        } else if lost > 0 {
            writeln!(
                f,
                "  queues        {lost} of {} do not push back: their queueing discipline is not \
                 ours any more",
                self.nodes
            )?;
        }
        let (v, s) = (&self.valid, &self.suspect);
        write!(
            f,
            "  VALID up to p50 {:.0}, p99 {:.0}, p99.9 {:.0} us, {:.0} % stolen; SUSPECT up to \
             {:.0}, {:.0}, {:.0} us, {:.0} %",
            v.p50_us,
            v.p99_us,
            v.p999_us,
            v.steal * 100.0,
            s.p50_us,
            s.p99_us,
            s.p999_us,
            s.steal * 100.0
        )
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Done(Ok(text)) => f.write_str(text),
            Reply::Done(Err(text)) => write!(f, "error: {text}"),
            Reply::Status(status) => status.fmt(f),
            Reply::Links(rows) => links(f, rows),
            Reply::Nodes(rows) => nodes(f, rows),
        }
    }
}

fn links(f: &mut fmt::Formatter<'_>, rows: &[LinkRow]) -> fmt::Result {
    write!(
        f,
        "{:<12} {:>8} {:>9} {:>9} {:>8} {:>9} {:>9}",
        "link", "SNR dB", "packets", "attempts", "acked", "given up", "overheard"
    )?;
    for r in rows {
        let snr = match (r.cut, r.snr_db) {
            (true, _) => String::from("cut"),
            (false, Some(db)) => format!("{db:.1}"),
            (false, None) => String::from("-"),
        };
        let name = format!("{}-{}", r.from, r.to);
        write!(
            f,
            "\n{name:<12} {snr:>8} {:>9} {:>9} {:>8} {:>9} {:>9}",
            r.frames, r.tries, r.acked, r.failed, r.overheard
        )?;
    }
    Ok(())
}

fn nodes(f: &mut fmt::Formatter<'_>, rows: &[NodeRow]) -> fmt::Result {
    write!(
        f,
        "{:<8} {:<18} {:<12} {:>9} {:>12} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7}",
        "node",
        "namespace",
        "address",
        "queue now",
        "delay now ms",
        "busy now",
        "sent",
        "given up",
        "retries",
        "received",
        "drops"
    )?;
    for r in rows {
        let delay = r
            .delay_us
            .map_or("-".into(), |d| format!("{:.2}", d as f64 / 1e3));
        write!(
            f,
            "\n{:<8} {:<18} {:<12} {:>9} {delay:>12} {:>7.0}% {:>8} {:>8} {:>8} {:>8} {:>7}{}",
            r.name,
            r.namespace,
            r.address,
            r.queued,
            r.busy * 100.0,
            r.sent,
            r.failed,
            r.retries,
            r.received,
            r.queue_drops,
            if r.paused { "  paused" } else { "" }
        )?;
    }
    Ok(())
}

/// An order on its way, and where its answer goes.
pub(crate) type Asked = (Order, Sender<Reply>);

/// Reaches a running emulation from any thread.
#[derive(Clone)]
pub struct Control {
    pub(crate) orders: Sender<Asked>,
    pub(crate) waker: Waker,
    pub(crate) hosts: Arc<Vec<Host>>,
    pub(crate) network: Arc<Network>,
}

/// Longer than any answer takes on a machine that works at all.
const PATIENCE: Duration = Duration::from_secs(10);

impl Control {
    /// The number of a node.
    pub fn find(&self, name: &str) -> Option<u16> {
        let at = self.hosts.iter().position(|h| h.name == name)?;
        u16::try_from(at).ok()
    }

    /// Have something done or told.
    ///
    /// # Errors
    /// If the emulation has ended or does not answer.
    pub fn ask(&self, order: Order) -> Result<Reply, String> {
        if let Order::Restart(node, pause) = order {
            return self.restart(node, pause);
        }
        let (reply, answer) = channel();
        let ended = || String::from("the emulation has ended");
        self.orders.send((order, reply)).map_err(|_| ended())?;
        self.waker.wake();
        answer
            .recv_timeout(PATIENCE)
            .map_err(|_| String::from("the emulation does not answer"))
    }

    /// As after a power failure: the radio is off meanwhile, and the kernel's part is made anew.
    /// Programs on the host go on; what they had in its queues is lost.
    fn restart(&self, node: u16, pause: Duration) -> Result<Reply, String> {
        let host = self.hosts.get(usize::from(node)).ok_or("no such node")?;
        let namespace = host.namespace.name();
        self.ask(Order::Switch(node, false))?;
        let mut steps = Steps::real();
        let mut ip = |lines: &[String]| {
            let done = steps.run_batch(&format!("ip -n {namespace}"), lines);
            done.map_err(|e| e.to_string())
        };
        let done = ip(&Network::down()).and_then(|()| {
            std::thread::sleep(pause);
            let routing = self.network.routing();
            ip(&self.network.up(node, &routing))
        });
        self.ask(Order::Switch(node, true))?;
        done?;
        Ok(Reply::Done(Ok(format!("{} has restarted", host.name))))
    }

    /// The same in words.
    ///
    /// # Errors
    /// If they mean nothing, or as [`ask`](Control::ask).
    pub fn ask_words(&self, line: &str) -> Result<Reply, String> {
        self.ask(Order::parse(line, |name| self.find(name))?)
    }

    /// Answer at a UNIX socket until the process ends: a line of words, then `{"ok":...}` with
    /// `text` and `data`.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn serve(&self, path: &Path) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let control = self.clone();
        let serve = move || {
            for stream in listener.incoming().flatten() {
                let control = control.clone();
                // A client that says nothing holds up nobody else, and itself not for long.
                std::thread::spawn(move || {
                    let _ = stream.set_read_timeout(Some(PATIENCE));
                    let _ = stream.set_write_timeout(Some(PATIENCE));
                    let _ = control.answer(&stream);
                });
            }
        };
        std::thread::Builder::new()
            .name("emu-control".into())
            .spawn(serve)?;
        Ok(())
    }

    fn answer(&self, stream: &UnixStream) -> io::Result<()> {
        let mut line = String::new();
        BufReader::new(stream.take(4096)).read_line(&mut line)?;
        let reply = match self.ask_words(line.trim()) {
            Ok(Reply::Done(Err(error))) | Err(error) => {
                serde_json::json!({"ok": false, "text": error})
            }
            Ok(reply) => {
                serde_json::json!({"ok": true, "text": reply.to_string(), "data": reply})
            }
        };
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{reply}");
        (&*stream).write_all(text.as_bytes())
    }
}

/// Ask an emulation by the socket at `path`.
///
/// # Errors
/// If nobody listens there, or what comes back is no answer.
pub fn ask_socket(path: &Path, line: &str) -> io::Result<serde_json::Value> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(2 * PATIENCE))?;
    writeln!(stream, "{line}")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_orders() {
        let find = |name: &str| name.strip_prefix('n')?.parse::<u16>().ok()?.checked_sub(1);
        let parse = |line: &str| Order::parse(line, find);
        assert_eq!(parse("snr n1 n2 12.5"), Ok(Order::Snr(0, 1, 12.5)));
        assert_eq!(parse("move n3 1 2"), Ok(Order::Move(2, [1.0, 2.0, 0.0])));
        assert_eq!(parse("restore"), Ok(Order::Restore(None)));
        assert_eq!(parse(" cut  n1 n2 "), Ok(Order::Cut(0, 1)));
        let half = Duration::from_millis(500);
        assert_eq!(parse("restart n2 0.5"), Ok(Order::Restart(1, half)));
        for (line, hint) in [
            ("cut n1 n1", "different"),
            ("cut n1 x", "no node \"x\""),
            ("restart n1 60", "0 to 8 s"),
            ("snr n1 n2 nan", "no number"),
            ("snr n1 n2 9999", "no link has more than 150 dB"),
            ("restart", "write restart N [SECONDS]"),
            ("pause n1 n2", "write pause N"),
            ("jump n1", "no command is called `jump`"),
            ("puase n1", "did you mean `pause`?"),
            ("", "no command is called ``"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(hint), "{line}: {error}");
            assert!(error.len() < 60, "without the whole list: {error}");
        }
    }
}

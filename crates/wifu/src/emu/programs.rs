//! Programs on hosts: the user's, ping, iperf3 and `wifu perf`.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _, Read};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::Value as Json;
use wifu_linux::bsd::Signals;
use wifu_linux::emu::Host;
use wifu_linux::terminal::{Terminal, goes_on_if_stopped};

use crate::perf::{Protocol, parse_bytes, parse_rate_burst, parse_seconds};

/// How often a running program is looked at.
pub const LOOK: Duration = Duration::from_millis(10);

/// Number of SIGINT on all architectures of Linux.
pub const SIGINT: i32 = 2;

/// How a program ended.
pub enum Ended {
    /// It ended by itself, with this status.
    Status(ExitStatus),
    /// We were told to end, by this signal.
    Signal(i32),
    /// It goes on, and the terminal is not its own any more: Ctrl-Z.
    Behind,
}

/// The names of hosts among the words become their addresses.
pub fn with_addresses(line: &str, hosts: &[Host]) -> String {
    let word = |w: &str| match hosts.iter().find(|h| h.name == w) {
        Some(host) => host.address.to_string(),
        None => w.to_string(),
    };
    // Blanks may be quoted: they stay as they are.
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A shell's command line, on a host or (`None`) on this machine.
pub fn shell(host: Option<&Host>, line: &str) -> io::Result<Command> {
    let mut command = match host {
        Some(host) => host.namespace.command("sh")?,
        None => Command::new("sh"),
    };
    command.arg("-c").arg(line);
    if let Some(path) = with_ours(std::env::var_os("PATH")) {
        command.env("PATH", path);
    }
    // A script's remaining lines are for us.
    if !io::stdin().is_terminal() {
        command.stdin(Stdio::null());
    }
    Ok(command)
}

/// Where programs are looked for, and last beside this one: `n1 wifu ss` is typed where root's PATH
/// has no `wifu`. None if that cannot be said.
fn with_ours(path: Option<OsString>) -> Option<OsString> {
    let own = std::env::current_exe().ok()?;
    let path = path.unwrap_or_default();
    let every = std::env::split_paths(&path).chain(own.parent().map(PathBuf::from));
    std::env::join_paths(every).ok()
}

/// What the book types on hosts and `scripts/setup.sh emu` installs.
const OF_BOOK: [&str; 3] = ["ping", "tcpdump", "iperf3"];

/// What to say of a line that the shell found no program for, if the book's are missing in it: of
/// any other one the shell has said its name, and nobody knows where it is to be had.
pub fn missing(line: &str, path: Option<&OsStr>) -> String {
    let of_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let words: Vec<&str> = line.split(|c| !of_name(c)).collect();
    let there = |name: &str| {
        let mut folders = path.into_iter().flat_map(std::env::split_paths);
        folders.any(|folder| folder.join(name).is_file())
    };
    let missing = |name: &&str| words.contains(name) && !there(name);
    let missing: Vec<&str> = OF_BOOK.into_iter().filter(missing).collect();
    match &missing[..] {
        [] => String::new(),
        some => format!("; `scripts/setup.sh emu` installs {}", some.join(" and ")),
    }
}

/// The signal that ends us, if one came. At a terminal, Ctrl-C is for the program that runs, and
/// noted in `pressed`.
pub fn for_us(signals: &Signals, pressed: &Cell<bool>) -> Option<i32> {
    let for_it = |n: &i32| *n == SIGINT && io::stdin().is_terminal();
    let number = signals.take()?;
    pressed.set(pressed.get() || for_it(&number));
    Some(number).filter(|n| !for_it(n))
}

/// Wait for a program, and end it once `told` gives a signal. At a terminal it is lent that, and
/// goes on behind if it is stopped.
///
/// # Errors
/// If it cannot be started or waited for.
pub fn run(command: &mut Command, told: &dyn Fn() -> Option<i32>) -> io::Result<Ended> {
    let Some(terminal) = Terminal::ours() else {
        return wait(&mut command.spawn()?, told, false);
    };
    terminal.lend(command);
    let ended = command
        .spawn()
        .and_then(|mut child| wait(&mut child, told, true));
    // A terminal that is gone is nobody's.
    let _ = terminal.take_back();
    ended
}

fn wait(child: &mut Child, told: &dyn Fn() -> Option<i32>, lent: bool) -> io::Result<Ended> {
    loop {
        let ended = child.try_wait()?;
        // Also when it has ended: of a Ctrl-C, as a rule.
        if let Some(number) = told() {
            child.kill()?;
            child.wait()?;
            return Ok(Ended::Signal(number));
        }
        if let Some(status) = ended {
            return Ok(Ended::Status(status));
        }
        if lent && goes_on_if_stopped(child)? {
            return Ok(Ended::Behind);
        }
        std::thread::sleep(LOOK);
    }
}

/// The round-trip time of one ping, ms; none if no answer came.
///
/// # Errors
/// If ping cannot be started.
pub fn ping(from: &Host, to: &Host, patience: Duration) -> anyhow::Result<Option<f64>> {
    let output = from
        .namespace
        .command("ping")?
        .args(["-n", "-c1", "-W"])
        .arg(format!("{:.1}", patience.as_secs_f64()))
        .arg(to.address.to_string())
        .stdin(Stdio::null())
        .output()
        .context("ping (Debian: iputils-ping)")?;
    Ok(round_trip(&String::from_utf8_lossy(&output.stdout)))
}

fn round_trip(text: &str) -> Option<f64> {
    let value = text.split("time=").nth(1)?.split(' ').next()?;
    value.trim().parse().ok()
}

/// What a measurement between two hosts found.
pub struct Throughput {
    /// One direction, or with `--bidir` both.
    pub ways: Vec<Way>,
    /// The whole JSON of the program.
    pub all: Json,
    /// Segments that the sender's kernel retransmitted, on all its connections, until what arrived
    /// had been counted; none of protocols of WiFu's, of datagrams and of both directions.
    pub again: Option<u64>,
}

/// What went in one direction.
pub struct Way {
    /// From the second of the two hosts to the first: `-R`, or the other half of `--bidir`.
    pub back: bool,
    /// What arrived, bit/s of real time; none if the program does not say.
    pub received: Option<f64>,
    /// Of datagrams, share lost, per cent.
    pub lost: Option<f64>,
    /// Segments that the sender retransmitted while it wrote; none for datagrams.
    pub retransmits: Option<u64>,
    /// Bytes that the sender had written and that had not arrived when the time was over, if they
    /// are worth a word; none of datagrams.
    pub late: Option<f64>,
    /// What a sender of datagrams sent where it was held back, and what it was to send, bit/s of
    /// real time.
    pub held: Option<(f64, f64)>,
    /// For how long the server of datagrams counted after their sender had stopped, until it heard
    /// of that, seconds of real time, if that is worth a word: what waited in queues came
    /// meanwhile, and may come later.
    pub tail: Option<f64>,
}

/// A sender of datagrams that got less than this share of its rate off was held back.
const OFF: f64 = 0.95;

/// It is told that a server counted datagrams for more than this share of the time for which their
/// sender sent, after that had stopped.
const TAIL: f64 = 0.05;

/// The directions that the JSON of a client tells of, `datagram`s or not.
fn ways(all: &Json, datagram: bool) -> Vec<Way> {
    let end = &all["end"];
    // Answers that count are sent by the server, too.
    let answers = end["sum_sent"]["sender"] == false;
    let reverse = all["start"]["test_start"]["reverse"] == 1 || answers;
    let way = |back: bool, which: &str| {
        let sums = ["sum_sent", "sum_received"].map(|s| &end[format!("{s}{which}")]);
        let rate = |sum: &Json| sum["bits_per_second"].as_f64();
        // A server of datagrams must tell itself what it received.
        let told = match back {
            true => all,
            false => &all["server_output_json"],
        };
        let queued = datagrams(told).filter(|_| datagram);
        let wanted = all["start"]["test_start"]["target_bitrate"].as_f64();
        let streams = all["start"]["test_start"]["num_streams"].as_f64();
        let [sent_s, received_s] = sums.map(|sum| sum["seconds"].as_f64());
        let tail = sent_s.zip(received_s);
        let tail = tail.and_then(|(s, r)| (r - s > TAIL * s).then_some(r - s));
        let held = rate(sums[0]).zip(wanted.zip(streams).map(|(each, n)| each * n));
        Way {
            back,
            received: queued.or(rate(sums[1])),
            lost: end["sum"]["lost_percent"].as_f64(),
            retransmits: sums[0]["retransmits"].as_u64(),
            late: late(sums).filter(|_| !datagram),
            held: held.filter(|(sent, wanted)| datagram && *sent < OFF * wanted),
            tail: tail.filter(|_| datagram),
        }
    };
    let other = end["sum_received_bidir_reverse"].is_object();
    let second = other.then(|| way(true, "_bidir_reverse"));
    [way(reverse, "")].into_iter().chain(second).collect()
}

/// What measures between two hosts, with iperf3's words.
pub struct Meter {
    /// The words of the client, without the server's address.
    words: Vec<String>,
    /// A protocol of WiFu's instead of the kernel's TCP.
    pub wifu: Option<String>,
}

impl Meter {
    /// From the words behind `iperf A B`: `-C` names a congestion control of the kernel's (`reno`,
    /// `kernel:reno`), which iperf3 measures, or a protocol of WiFu's, which `wifu perf` does.
    ///
    /// # Errors
    /// A `-C` without a name, a `-t` that is no time (iperf3 takes that for one without end), an
    /// amount with a unit that there is not (iperf3 leaves it out), or an `&` in between.
    pub fn new(words: &[&str]) -> anyhow::Result<Meter> {
        ensure!(
            !words.iter().any(|w| w.ends_with('&')),
            "`&` stands at the end of a line: the next flow is another line"
        );
        if let Some(text) = given(words, "-t", "--time") {
            let seconds = parse_seconds(text).map_err(|why| anyhow!("-t {text}: {why}"))?;
            ensure!(seconds > 0.0, "-t needs a time to transmit");
        }
        for (short, long) in AMOUNTS {
            if let Some(text) = given(words, short, long) {
                parse_bytes(text).map_err(|why| anyhow!("{short} {text}: {why}"))?;
            }
        }
        ensure!(
            !(words.contains(&"--bidir") && words.iter().any(|w| is_datagrams(w))),
            "-u with --bidir: iperf3 tells neither direction's datagrams apart; measure them by two \
             lines, the first with an `&`, the second with -R"
        );
        if let Some(text) = given(words, "-b", "--bitrate") {
            parse_rate_burst(text).map_err(|why| anyhow!("-b {text}: {why}"))?;
        }
        let mut words: Vec<String> = words.iter().map(|w| (*w).to_string()).collect();
        let at = words.iter().position(|w| w == "-C" || w == "--congestion");
        let mut wifu = None;
        if let Some(at) = at {
            let name = words.get(at + 1).context("-C NAME: reno, tcp-newreno")?;
            match Protocol::choose(Some(name))? {
                Protocol::Wifu(spec) => wifu = Some(spec),
                Protocol::Kernel(name) => words[at + 1] = name,
                Protocol::KernelDefault => drop(words.drain(at..=at + 1)),
            }
        }
        Ok(Meter { words, wifu })
    }

    /// The protocol that was measured, for people: `tcp-newreno`, or `kernel:cubic` as far as
    /// iperf3 says it.
    pub fn protocol(&self, found: &Json) -> String {
        if let Some(spec) = &self.wifu {
            return spec.clone();
        }
        if found["start"]["test_start"]["protocol"] == "UDP" {
            return String::from("UDP");
        }
        match found["end"]["sender_tcp_congestion"].as_str() {
            Some(name) => format!("kernel:{name}"),
            None => String::from("kernel"),
        }
    }

    /// The kernel's congestion control that iperf3 is to set.
    pub fn kernel(&self) -> Option<&str> {
        let words: Vec<&str> = self.words.iter().map(|w| &**w).collect();
        given(&words, "-C", "--congestion").filter(|_| self.wifu.is_none())
    }

    /// Whether iperf3 measures datagrams.
    fn datagrams(&self) -> bool {
        self.wifu.is_none() && self.words.iter().any(|w| is_datagrams(w))
    }

    /// What it is called, and where it comes from.
    fn name(&self) -> &'static str {
        match self.wifu {
            Some(_) => "wifu perf",
            None => "iperf3 (Debian: iperf3)",
        }
    }

    fn command(&self, host: &Host, told: &[(&'static str, OsString)]) -> anyhow::Result<Command> {
        let Some(_) = self.wifu else {
            return Ok(host.namespace.command("iperf3")?);
        };
        let program = std::env::current_exe().context("finding the wifu executable")?;
        let mut command = host.namespace.command(program)?;
        command.arg("perf").envs(told.iter().cloned());
        Ok(command)
    }

    /// Have a server listen on a host.
    fn serve(&self, command: &mut Command, (host, port): (&Host, u16)) -> anyhow::Result<Reaped> {
        // It tells what it received of datagrams as it would say it itself.
        let told: &[&str] = if self.datagrams() { &["-J"] } else { &[] };
        let server = command
            .args(["-s", "-1"])
            .args(told)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context(self.name())?;
        let mut server = Reaped(server);
        let deadline = Instant::now() + Duration::from_secs(5);
        while !listens(host, port)? {
            ensure!(Instant::now() < deadline, "the server does not listen");
            ensure!(server.0.try_wait()?.is_none(), "the server ended at once");
            std::thread::sleep(LOOK);
        }
        Ok(server)
    }

    /// Measure from one host to another at a port; `known` is for programs of WiFu's. The signal
    /// instead if `told` gave one, which ended it. What runs behind is in a group of its own,
    /// which no key of the terminal reaches.
    ///
    /// # Errors
    /// If the program is missing or fails, with what it said.
    pub fn run(
        &self,
        (from, to, port): (&Host, &Host, u16),
        known: &[(&'static str, OsString)],
        (behind, told): (bool, &dyn Fn() -> Option<i32>),
    ) -> anyhow::Result<Result<Throughput, i32>> {
        let place = ["-p", &port.to_string()].map(String::from);
        let command = |host| {
            let mut command = self.command(host, known)?;
            if behind {
                command.process_group(0);
            }
            anyhow::Ok(command)
        };
        let _server = self.serve(command(to)?.args(&place), (to, port))?;
        let datagram = self.datagrams();
        let tell: &[&str] = match datagram {
            true => &["--get-server-output"],
            false => &[],
        };
        let mut client = command(from)?;
        let address = to.address.to_string();
        client.args(["-J", "-c", &address]).args(&place);
        if self.wifu.is_none() {
            client.args(CONNECTS);
        }
        client.args(tell).args(&self.words);
        let both = || [from, to].map(retransmitted);
        let before = if self.wifu.is_none() && !datagram {
            both()
        } else {
            [None; 2]
        };
        let (stdout, stderr) = match output(&mut client, told).context(self.name())? {
            Ok(both) => both,
            Err(number) => return Ok(Err(number)),
        };
        let wrong = || String::from_utf8_lossy(&stderr).trim().to_string();
        ensure!(!stdout.is_empty(), "{}", wrong());
        let all: Json = serde_json::from_slice(&stdout).with_context(wrong)?;
        if let Some(error) = all["error"].as_str() {
            bail!("{error}");
        }
        let ways = ways(&all, datagram);
        let again = match &ways[..] {
            [way] => {
                let sender = usize::from(way.back);
                let now = both()[sender];
                before[sender].and_then(|then| now?.checked_sub(then))
            }
            _ => None,
        };
        Ok(Ok(Throughput { ways, all, again }))
    }
}

/// How long iperf3 tries to reach its server, ms: without it as long as the kernel, two minutes,
/// of which nobody sees anything where a link is cut. A later word of the user's counts.
const CONNECTS: [&str; 2] = ["--connect-timeout", "30000"];

/// iperf3's words that are amounts.
const AMOUNTS: [(&str, &str); 4] = [
    ("-n", "--bytes"),
    ("-k", "--blockcount"),
    ("-l", "--length"),
    ("-w", "--window"),
];

/// Whether a word of iperf3's asks for datagrams.
fn is_datagrams(word: &str) -> bool {
    matches!(word, "-u" | "--udp")
}

/// What the words of iperf3 say behind an option, the last time.
fn given<'a>(words: &[&'a str], short: &str, long: &str) -> Option<&'a str> {
    let equals = format!("{long}=");
    let named = |w: &&str| *w == long || w.starts_with(&equals) || w.starts_with(short);
    let at = words.iter().rposition(named)?;
    let word = words[at];
    let joined = word.strip_prefix(&equals).or(word.strip_prefix(short));
    match joined.filter(|text| !text.is_empty()) {
        Some(text) => Some(text),
        None => Some(words.get(at + 1).copied().unwrap_or_default()),
    }
}

/// What a program says on both outputs.
type Both = (Vec<u8>, Vec<u8>);

/// What a program says, or the signal that ended it.
fn output(command: &mut Command, told: &dyn Fn() -> Option<i32>) -> io::Result<Result<Both, i32>> {
    fn all(pipe: Option<impl Read>) -> Vec<u8> {
        let mut octets = Vec::new();
        // What was read so far will do.
        let _ = pipe.map(|mut p| p.read_to_end(&mut octets));
        octets
    }
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn()?;
    let (said, wrong) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let said = scope.spawn(|| all(said));
        let wrong = scope.spawn(|| all(wrong));
        if let Ended::Signal(number) = wait(&mut child, told, false)? {
            return Ok(Err(number));
        }
        let ended = |_| io::Error::other("a thread that reads has panicked");
        Ok(Ok((
            said.join().map_err(ended)?,
            wrong.join().map_err(ended)?,
        )))
    })
}

/// What the end of a test that tells these intervals received of datagrams, bit/s. Its sender's
/// duration says nothing: queues empty long after it ended. Neither do the intervals at both ends.
fn datagrams(told: &Json) -> Option<f64> {
    let intervals = told["intervals"].as_array()?;
    let whole = intervals.get(1..intervals.len().checked_sub(1)?)?;
    let whole = if whole.is_empty() { intervals } else { whole };
    let sum = |key: &str| -> f64 { whole.iter().flat_map(|i| i["sum"][key].as_f64()).sum() };
    let seconds = sum("seconds");
    (seconds > 0.0).then(|| sum("bytes") * 8.0 / seconds)
}

/// What was in the send buffer or on its way at the end of a test, if it is more than a hundredth
/// of what had arrived, as `wifu perf` tells by itself.
fn late(sums: [&Json; 2]) -> Option<f64> {
    let [sent, received] = sums.map(|sum| sum["bytes"].as_f64());
    let (sent, received) = (sent?, received?);
    (sent - received > 0.01 * received).then_some(sent - received)
}

/// Segments that a host's kernel has retransmitted since the host began (RFC 4022
/// tcpRetransSegs); none if it does not say so.
fn retransmitted(host: &Host) -> Option<u64> {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
    retransmitted_of(&host.namespace.run(read).ok()?)
}

/// The same of the text of `/proc/net/snmp`: a line of names, and one of values.
fn retransmitted_of(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split(' ').position(|name| name == "RetransSegs")?;
    values.split(' ').nth(at)?.parse().ok()
}

/// Whether somebody listens at a port.
fn listens(host: &Host, port: u16) -> anyhow::Result<bool> {
    let read = || {
        let both = ["tcp", "tcp6"].map(|n| format!("/proc/thread-self/net/{n}"));
        both.map(|p| std::fs::read_to_string(p).unwrap_or_default())
    };
    // State LISTEN.
    let end = format!(":{port:04X}");
    let open = |text: &String| {
        let lines = text.lines();
        lines.map(str::to_string).any(|l| {
            let words: Vec<&str> = l.split_whitespace().collect();
            words.get(1).is_some_and(|w| w.ends_with(&end)) && words.get(3) == Some(&"0A")
        })
    };
    Ok(host.namespace.run(read)?.iter().any(open))
}

/// A program that does not outlive this value.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        // It has ended by itself, as a rule.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_programs_are_found_last() {
        let own = std::env::current_exe().expect("a test has a file");
        let own = own.parent().expect("in a folder");
        let found = with_ours(Some("/usr/bin:/bin".into())).expect("paths");
        let all: Vec<PathBuf> = std::env::split_paths(&found).collect();
        assert_eq!(all, [PathBuf::from("/usr/bin"), "/bin".into(), own.into()]);
    }

    #[test]
    fn how_long_a_server_counts_datagrams_is_told() {
        let tail = |datagram: bool, seconds: f64| {
            let all = serde_json::json!({"end": {"sum_sent": {"seconds": 2.0},
                "sum_received": {"seconds": seconds}}});
            ways(&all, datagram)[0].tail
        };
        assert_eq!(tail(true, 2.75), Some(0.75));
        assert_eq!((tail(true, 2.05), tail(false, 2.75)), (None, None));
    }

    #[test]
    fn answers_come_back() {
        let sum = |sender: bool| serde_json::json!({"bits_per_second": 4e6, "bytes": 10, "sender": sender});
        let back = |sender: bool| {
            let all = serde_json::json!({"start": {"test_start": {"reverse": 0}},
                "end": {"sum_sent": sum(sender), "sum_received": sum(sender)}});
            ways(&all, false)[0].back
        };
        assert!(back(false) && !back(true));
    }

    #[test]
    fn a_kernel_says_how_many_segments_it_retransmitted() {
        let text = "Ip: Forwarding\nIp: 1\nTcp: MaxConn RetransSegs InErrs\nTcp: -1 183 4\n";
        assert_eq!(retransmitted_of(text), Some(183));
        assert_eq!(retransmitted_of("Tcp: MaxConn\nTcp: -1\n"), None);
        assert_eq!(retransmitted_of(""), None);
    }

    #[test]
    fn a_congestion_control_is_iperf3s_and_a_protocol_of_ours_is_not() {
        let of = |line: &str| Meter::new(&line.split(' ').collect::<Vec<_>>()).expect("words");
        let kernel = of("-t 5 -C kernel:reno");
        assert_eq!(
            (kernel.wifu, kernel.words.join(" ")),
            (None, "-t 5 -C reno".into())
        );
        assert_eq!(of("-C bbr").words, ["-C", "bbr"]);
        assert_eq!(of("-t 5 -C kernel:bbr").kernel(), Some("bbr"));
        assert_eq!(of("-C tcp-newreno").kernel(), None);
        assert_eq!(of("-C kernel -t 5").words, ["-t", "5"]);
        let ours = of("-C tcp-newreno,iw=4 -t 5");
        assert_eq!(ours.wifu.as_deref(), Some("tcp-newreno,iw=4"));
        assert_eq!(ours.words.join(" "), "-C tcp-newreno,iw=4 -t 5");
        assert!(Meter::new(&["-C"]).is_err());
    }

    #[test]
    fn who_lacks_a_program_of_the_book_is_told_how_to_get_that_one() {
        let none = Some(OsStr::new("/nonexistent"));
        let both = missing("ping -c1 10.0.0.2; tcpdump -i wlan0", none);
        assert_eq!(both, "; `scripts/setup.sh emu` installs ping and tcpdump");
        for other in ["nosuch 10.0.0.2", "./ping.sh", "fping 10.0.0.2"] {
            assert_eq!(missing(other, none), "", "{other}");
        }
        let folder = std::env::temp_dir().join(format!("wifu-path-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("ping"), "").expect("a file");
        let there = Some(folder.as_os_str());
        assert_eq!(missing("nosuch; ping 10.0.0.2", there), "");
        assert_eq!(
            missing("iperf3|ping", there),
            "; `scripts/setup.sh emu` installs iperf3"
        );
        std::fs::remove_dir_all(&folder).expect("it was there");
    }

    #[test]
    fn a_line_is_one_flow() {
        for line in ["-t 10 & iperf n2 n4", "-C tcp-sack& iperf"] {
            let words: Vec<&str> = line.split(' ').collect();
            let error = Meter::new(&words).err().expect(line).to_string();
            assert!(error.contains("another line"), "{line}: {error}");
        }
    }

    #[test]
    fn an_amount_with_an_unknown_unit_is_refused_before_iperf3_leaves_it_out() {
        for line in [
            "-n 1X",
            "-n1X",
            "--bytes=1Q",
            "-t 5 -w 64x",
            "-l 1,5",
            "-u -b 6Q",
            "-n",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let why = Meter::new(&words).err().expect(line).to_string();
            assert!(
                why.contains("expected a number, with K, M, G or T"),
                "{why}"
            );
        }
        for line in [
            "-n 1M",
            "--bytes=64k",
            "-w 128K -l 1.5k",
            "-u -b 6M/10",
            "-k 50",
            "--length 1",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert!(Meter::new(&words).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_time_that_is_none_is_refused_before_iperf3_takes_it_for_no_end() {
        let wrong = [
            "-t abc",
            "-tabc",
            "--time abc",
            "--time=abc",
            "-t",
            "-t 0",
            "-P 2 -t -3",
        ];
        for line in wrong {
            let words: Vec<&str> = line.split(' ').collect();
            let why = Meter::new(&words).err().expect(line).to_string();
            assert!(why.starts_with("-t "), "{line}: {why}");
        }
        for line in [
            "-t 5",
            "-t5",
            "--time 0.5",
            "--time=5",
            "-u -b 6M",
            "--tos 4",
        ] {
            assert!(
                Meter::new(&line.split(' ').collect::<Vec<_>>()).is_ok(),
                "{line}"
            );
        }
    }

    #[test]
    fn what_was_measured_has_a_name() {
        let of = |words: &[&str], all: Json| Meter::new(words).expect("words").protocol(&all);
        let told = |name: &str| serde_json::json!({"end": {"sender_tcp_congestion": name}});
        assert_eq!(of(&[], told("bbr")), "kernel:bbr");
        assert_eq!(of(&[], Json::Null), "kernel");
        let udp = serde_json::json!({"start": {"test_start": {"protocol": "UDP"}}});
        assert_eq!(of(&["-u"], udp), "UDP");
        assert_eq!(of(&["-C", "tcp-sack,iw=4"], Json::Null), "tcp-sack,iw=4");
    }

    #[test]
    fn datagrams_count_between_the_first_and_the_last_interval() {
        let of = |n: u64| serde_json::json!({"sum": {"bytes": n, "seconds": 1.0}});
        let all = |list: Vec<Json>| serde_json::json!({"intervals": list});
        assert_eq!(
            datagrams(&all(vec![of(10), of(500), of(700), of(20)])),
            Some(4800.0)
        );
        assert_eq!(datagrams(&all(vec![of(10)])), None);
        assert_eq!(datagrams(&Json::Null), None);
    }

    #[test]
    fn what_outlasts_the_time_is_told_if_it_is_much() {
        let end = |sent: u64, received: u64| {
            let sum = |bytes: u64| serde_json::json!({"bytes": bytes});
            late([&sum(sent), &sum(received)])
        };
        assert_eq!(end(5_000, 4_000), Some(1_000.0));
        assert_eq!(end(5_000, 0), Some(5_000.0));
        assert_eq!((end(1_000, 1_000), end(1_005, 1_000)), (None, None));
        assert_eq!(late([&Json::Null; 2]), None);
    }

    #[test]
    fn each_direction_is_told_as_the_one_that_it_is() {
        let sum = |bytes: u64| serde_json::json!({"bytes": bytes, "bits_per_second": bytes * 8});
        let found = |reverse: u8, end: Json| {
            let start = serde_json::json!({"test_start": {"reverse": reverse}});
            let all = ways(&serde_json::json!({"start": start, "end": end}), false);
            all.into_iter()
                .map(|w| (w.back, w.received, w.late))
                .collect::<Vec<_>>()
        };
        let one = serde_json::json!({"sum_sent": sum(10), "sum_received": sum(10)});
        assert_eq!(found(0, one.clone()), [(false, Some(80.0), None)]);
        assert_eq!(found(1, one), [(true, Some(80.0), None)]);
        let both = serde_json::json!({
            "sum_sent": sum(10), "sum_received": sum(10),
            "sum_sent_bidir_reverse": sum(30), "sum_received_bidir_reverse": sum(20),
        });
        let (there, back) = ((false, Some(80.0), None), (true, Some(160.0), Some(10.0)));
        assert_eq!(found(0, both), [there, back]);
    }

    #[test]
    fn a_sender_of_datagrams_that_was_held_back_is_told() {
        let held = |sent: f64| {
            let all = serde_json::json!({
                "start": {"test_start": {"reverse": 0, "target_bitrate": 9e6, "num_streams": 2}},
                "end": {"sum_sent": {"bits_per_second": sent}},
            });
            ways(&all, true)[0].held
        };
        assert_eq!(held(5e6), Some((5e6, 18e6)));
        assert_eq!(held(17.5e6), None);
    }

    #[test]
    fn the_time_of_an_answer_is_found() {
        let text = "64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=3.21 ms\n";
        assert_eq!(round_trip(text), Some(3.21));
        assert_eq!(round_trip("1 packets transmitted, 0 received"), None);
    }
}

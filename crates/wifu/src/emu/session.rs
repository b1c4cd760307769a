//! The command line of a running emulation.

use std::cell::Cell;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Map as Object, Value as Json, json};
use wifu_linux::bsd::Signals;
use wifu_linux::emu::control::names;
use wifu_linux::emu::{Emulation, Host, Order, Reply};
use wifu_node::Registry;
use wifu_wire::names::ending;

use super::daemons::{Daemons, Serving};
use super::input::Input;
use super::map::Map;
use super::programs::{self, Ended};
use super::scenario::HostKeys;
use super::{Args, COMMANDS, Test};
use iperf::{Behind, behind};
use unknown::{elsewhere, no_host};

mod iperf;
mod unknown;

/// What a terminal is asked with.
const PROMPT: &str = "wifu> ";

/// What the prompt knows besides programs on hosts and the orders of a running emulation.
const NAMES: [&str; 13] = [
    "pingall", "iperf", "wait", "dump", "net", "map", "xterm", "kill", "serve", "sh", "source",
    "help", "exit",
];

/// An emulation and who asks for what.
pub struct Session {
    /// They end before their hosts.
    daemons: Daemons,
    emulation: Emulation,
    signals: Signals,
    dilation: f64,
    name: String,
    /// Nothing but the JSON at the end goes to standard output.
    quiet: bool,
    /// For the programs on hosts: files of compositions and libraries, and what the testbed says of
    /// protocols.
    told: Vec<(&'static str, OsString)>,
    /// The protocols that there are, those of files and libraries included.
    known: Registry,
    input: Input,
    /// A signal told us to end.
    ended: Option<i32>,
    /// Flows that are measured in the background.
    behind: Vec<Behind>,
    /// Nothing was asked for since `status`, which has told all of it.
    told_status: bool,
    /// Commands that failed: refused here, or programs that ended with another status than 0.
    failed: usize,
    /// Outcomes of pingall and iperf.
    pub tests: Json,
}

/// Whether to go on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    More,
    Exit,
}

impl Session {
    /// Nothing has been asked yet.
    pub fn new(
        emulation: Emulation,
        signals: Signals,
        (host, told, known): (HostKeys, Vec<(&'static str, OsString)>, Registry),
        args: &Args,
    ) -> anyhow::Result<Session> {
        let folder = emulation.export().to_path_buf();
        let all = Serving {
            serve: args.serve.clone(),
            told: told.clone(),
            host,
            dilation: args.dilation,
        };
        let daemons = Daemons::start(emulation.hosts(), all, &folder)?;
        Ok(Session {
            daemons,
            emulation,
            signals,
            dilation: args.dilation,
            name: args.name.clone(),
            quiet: args.json,
            told,
            known,
            input: Input::default(),
            ended: None,
            behind: Vec::new(),
            told_status: false,
            failed: 0,
            tests: json!({}),
        })
    }

    /// Everything that the options ask for, or what comes from standard input.
    ///
    /// # Errors
    /// If a file of commands cannot be read, or a test cannot be run.
    pub fn run(&mut self, args: &Args) -> anyhow::Result<ExitCode> {
        self.greet();
        if let Some(path) = &args.pre {
            self.source(path)?;
        }
        for test in &args.test {
            if self.ended.is_some() {
                break;
            }
            match test {
                Test::Pingall => self.pingall()?,
                Test::Iperf => {
                    let (first, last) = self.ends()?;
                    self.iperf(&[&first, &last])?;
                }
            }
        }
        if args.test.is_empty() {
            self.prompt()?;
        }
        if let Some(path) = &args.post
            && self.ended.is_none()
        {
            self.source(path)?;
        }
        self.end_all();
        // Who types commands has seen it.
        let seen = io::stdin().is_terminal() && args.test.is_empty();
        if self.failed > 0 && !seen && self.ended.is_none() {
            eprintln!("commands that failed: {}", self.failed);
            return Ok(ExitCode::FAILURE);
        }
        Ok(match self.ended {
            Some(number) => ExitCode::from(128 + number as u8),
            None => ExitCode::SUCCESS,
        })
    }

    /// End the daemons of hosts; gives their counters by host.
    pub fn end(&mut self) -> Json {
        self.daemons.end()
    }

    /// Have something done or told by the radio's thread.
    ///
    /// # Errors
    /// If it has ended.
    pub fn ask(&self, order: Order) -> anyhow::Result<Reply> {
        self.emulation
            .control()
            .ask(order)
            .map_err(anyhow::Error::msg)
    }

    /// What is said in the end: how well it went, of which who has just asked for it is told the
    /// stamp alone.
    pub fn last_word(&self, status: &Reply) -> String {
        let all = status.to_string();
        match all.lines().next() {
            Some(stamp) if self.told_status => stamp.to_owned(),
            _ => all,
        }
    }

    /// To standard output, or beside it. If nobody reads it any more, hosts still go in order.
    fn say(&self, text: &str) {
        let _ = match self.quiet {
            true => writeln!(io::stderr(), "{text}"),
            false => writeln!(io::stdout(), "{text}"),
        };
    }

    fn greet(&self) {
        let hosts = self.emulation.hosts();
        let (Some(first), Some(last)) = (hosts.first(), hosts.last()) else {
            return;
        };
        self.say(&format!(
            "{} hosts: {} ({}, {}) to {} ({}, {}); drivers' delays in {}",
            hosts.len(),
            first.name,
            first.address,
            first.namespace.name(),
            last.name,
            last.address,
            last.namespace.name(),
            self.emulation.export().display()
        ));
    }

    fn ends(&self) -> anyhow::Result<(String, String)> {
        match self.emulation.hosts() {
            [first, .., last] => Ok((first.name.clone(), last.name.clone())),
            _ => bail!("there is one host only"),
        }
    }

    fn host(&self, name: &str) -> anyhow::Result<&Host> {
        let hosts = self.emulation.hosts();
        let found = hosts.iter().find(|h| h.name == name);
        found.with_context(|| no_host(name, hosts.iter().map(|h| &*h.name)))
    }

    /// Commands from standard input until it ends.
    fn prompt(&mut self) -> anyhow::Result<()> {
        let terminal = io::stdin().is_terminal();
        while self.ended.is_none() && self.emulation.is_running() {
            if terminal {
                print!("{PROMPT}");
                io::stdout().flush()?;
            }
            let Some(line) = self.next_line()? else {
                break;
            };
            if self.obey(&line) == Then::Exit {
                break;
            }
            // A Ctrl-C during a command was for the command.
            self.interrupted();
            self.gather();
        }
        Ok(())
    }

    /// Whether a signal came since the last look. The terminal's Ctrl-C ends the command that runs,
    /// everything else the emulation.
    fn interrupted(&mut self) -> bool {
        let Some(number) = self.signals.take() else {
            return false;
        };
        if !(number == programs::SIGINT && io::stdin().is_terminal()) {
            self.ended = Some(number);
        }
        true
    }

    /// The next line of standard input; none at its end, or when a signal came. Who types Ctrl-C
    /// where no command runs is told how to end, and ends by another one.
    fn next_line(&mut self) -> anyhow::Result<Option<String>> {
        let mut told = false;
        loop {
            if let Some(line) = self.input.line() {
                return Ok(Some(line));
            }
            if self.input.is_closed() {
                return Ok(None);
            }
            let stdin = io::stdin();
            let mut wanted = [
                PollFd::new(&stdin, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
            ];
            let second = Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            match poll(&mut wanted, Some(&second)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e).context("waiting for commands"),
            }
            let readable = !wanted[0].revents().is_empty();
            if self.interrupted() {
                if self.ended.is_some() || told {
                    self.ended.get_or_insert(programs::SIGINT);
                    return Ok(None);
                }
                told = true;
                println!("\n(`exit`, Ctrl-D or another Ctrl-C ends the emulation)");
                print!("{PROMPT}");
                io::stdout().flush()?;
                continue;
            }
            if !self.emulation.is_running() {
                bail!("the radio's thread has ended");
            }
            if self.is_over_behind() && stdin.is_terminal() {
                println!();
                self.gather();
                print!("{PROMPT}");
                io::stdout().flush()?;
            }
            if readable {
                self.input.read(&stdin)?;
            }
        }
    }

    fn source(&mut self, path: &Path) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        for line in text.lines() {
            if self.ended.is_some() || self.obey(line) == Then::Exit {
                break;
            }
        }
        Ok(())
    }

    fn obey(&mut self, line: &str) -> Then {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Then::More;
        }
        if matches!(line, "exit" | "quit" | "EOF") {
            return Then::Exit;
        }
        self.told_status = line == "status";
        if let Err(error) = self.command(line) {
            eprintln!("{error:#}");
            self.failed += 1;
        }
        Then::More
    }

    fn command(&mut self, line: &str) -> anyhow::Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (first, rest) = (words[0], &words[1..]);
        if self.host(first).is_ok() {
            let line = line[first.len()..].trim_start().to_string();
            return self.on_host(first, &line);
        }
        match first {
            "help" | "?" => self.say(COMMANDS),
            "pingall" => self.pingall()?,
            "iperf" => self.iperf(rest)?,
            "wait" => self.wait_for_all(),
            "net" => self.net()?,
            "dump" => self.say(&self.ask(Order::Nodes)?.to_string()),
            "map" => self.map()?,
            "xterm" => self.xterm(rest)?,
            "kill" | "serve" => match rest {
                [name] if first == "kill" => self.daemons.kill(name)?,
                [name] => self.daemons.serve(name)?,
                _ => bail!("{first} HOST: its daemon, of those that --serve started"),
            },
            "sh" => {
                let line = line["sh".len()..].trim_start();
                self.foreground(&mut programs::shell(None, line)?, line)?;
            }
            "py" => bail!(
                "there is no Python in here: `from wifu.emu import Emulation` has all of this, and \
                 `sh python3` runs a program"
            ),
            "source" => match rest {
                [path] => self.source(Path::new(path))?,
                _ => bail!("source FILE"),
            },
            _ if names().any(|name| name == first) => {
                match self.emulation.control().ask_words(line) {
                    Ok(Reply::Done(Err(error))) | Err(error) => bail!(error),
                    Ok(reply) => self.say(&reply.to_string()),
                }
            }
            // Mininet's.
            "link" => match rest {
                [a, b, "down"] => bail!("write cut {a} {b}"),
                [a, b, "up"] => bail!("write restore {a} {b}"),
                _ => bail!("links are cut by `cut HOST HOST`; `restore` undoes that"),
            },
            _ => bail!(self.unknown(first)),
        }
        Ok(())
    }

    /// What is said of a first word that is neither a command nor a host.
    fn unknown(&self, word: &str) -> String {
        let hosts = self.emulation.hosts().iter().map(|h| &*h.name);
        if let Some(said) = elsewhere(word, hosts.clone()) {
            return said;
        }
        let all: Vec<&str> = NAMES.into_iter().chain(names()).collect();
        let question = ending(word, hosts.chain(all.iter().map(|name| &**name)));
        let there = match self.ends() {
            Ok((first, last)) => format!("; hosts are {first} to {last}"),
            Err(_) => String::new(),
        };
        format!("no command or host is called `{word}`{question} `help` lists the commands{there}")
    }

    fn on_host(&mut self, name: &str, line: &str) -> anyhow::Result<()> {
        let host = self.host(name)?;
        if line.is_empty() {
            bail!("{name} COMMAND, such as {name} ip addr");
        }
        if let Some((to, words)) = self.measured(line) {
            let all: Vec<&str> = [name, &to].into_iter().chain(words).collect();
            return self.iperf(&all);
        }
        let line = programs::with_addresses(line, self.emulation.hosts());
        let mut command = programs::shell(Some(host), &line)?;
        command.envs(self.told.iter().cloned());
        self.foreground(&mut command, &line)
    }

    /// Whom `n1 iperf -C tcp-newreno n3` measures to, and the other words. A line with `-c` or `-s`
    /// runs the program of that name.
    fn measured<'a>(&self, line: &'a str) -> Option<(String, Vec<&'a str>)> {
        let words: Vec<&str> = line.strip_prefix("iperf ")?.split_whitespace().collect();
        let (mut words, is_behind) = behind(&words);
        let own = |w: &&str| matches!(*w, "-c" | "--client" | "-s" | "--server");
        if words.iter().any(own) {
            return None;
        }
        let at = words.iter().position(|w| self.host(w).is_ok())?;
        let to = words.remove(at).to_string();
        words.extend(is_behind.then_some("&"));
        Some((to, words))
    }

    /// Run the command that a line became, and wait for it.
    fn foreground(&mut self, command: &mut Command, line: &str) -> anyhow::Result<()> {
        if self.quiet {
            command.stdout(io::stderr());
        }
        let pressed = Cell::new(false);
        let told = || programs::for_us(&self.signals, &pressed);
        match programs::run(command, &told).context("sh")? {
            Ended::Status(status) => {
                if let Some(code) = status.code().filter(|c| *c != 0) {
                    // The shell's word for a command that there is not.
                    let hint = match code {
                        127 => programs::missing(line, std::env::var_os("PATH").as_deref()),
                        _ => String::new(),
                    };
                    self.say(&format!("(exit status {code}{hint})"));
                }
                self.failed += usize::from(!status.success());
            }
            Ended::Signal(number) => self.ended = Some(number),
            Ended::Behind => self.say("\n(goes on in the background)"),
        }
        Ok(())
    }

    /// Every host pings every other once.
    fn pingall(&mut self) -> anyhow::Result<()> {
        let patience = Duration::from_secs_f64(self.dilation);
        let (mut sent, mut received) = (0, 0);
        let mut times = Object::new();
        let hosts = self.emulation.hosts().to_vec();
        for from in &hosts {
            let mut line = format!("{} ->", from.name);
            for to in hosts.iter().filter(|h| h.name != from.name) {
                if self.interrupted() {
                    return Ok(());
                }
                let time = programs::ping(from, to, patience)?;
                sent += 1;
                received += u32::from(time.is_some());
                line += " ";
                line += if time.is_some() { &to.name } else { "X" };
                times.insert(format!("{}-{}", from.name, to.name), json!(time));
            }
            self.say(&line);
        }
        let dropped = 100.0 * f64::from(sent - received) / f64::from(sent.max(1));
        self.say(&format!(
            "{dropped:.0}% dropped ({received}/{sent} received)"
        ));
        self.tests["pingall"] = json!({"sent": sent, "received": received, "rtt_ms": times});
        Ok(())
    }

    /// Print a table of who hears whom, and how well.
    fn net(&self) -> anyhow::Result<()> {
        let Reply::Links(links) = self.ask(Order::Links)? else {
            return Ok(());
        };
        for host in self.emulation.hosts() {
            let heard = links.iter().filter(|l| l.to == host.name);
            let words: Vec<String> = heard
                .filter_map(|l| Some(format!("{} ({:.1} dB)", l.from, l.snr_db?)))
                .collect();
            self.say(&format!("{} wlan0 hears {}", host.name, words.join(", ")));
        }
        Ok(())
    }

    fn xterm(&self, words: &[&str]) -> anyhow::Result<()> {
        let [name] = words else {
            bail!("xterm HOST");
        };
        let namespace = self.host(name)?.namespace.clone();
        let instead = format!(
            "`ip netns exec {} bash` in another terminal",
            namespace.name()
        );
        if std::env::var_os("DISPLAY").is_none() {
            bail!("there is no display (DISPLAY is not set): {instead}");
        }
        namespace
            .command("xterm")?
            .args(["-T", name])
            .envs(self.told.iter().cloned())
            .stdin(Stdio::null())
            // Ctrl-C at the prompt is not for windows.
            .process_group(0)
            .spawn()
            .with_context(|| format!("xterm (Debian: xterm); or {instead}"))?;
        Ok(())
    }

    /// A map; on a terminal, again and again until a key is pressed.
    fn map(&mut self) -> anyhow::Result<()> {
        let mut map = Map::default();
        let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let mut last = Instant::now();
        self.picture(&mut map, Duration::ZERO)?;
        if !terminal {
            return Ok(());
        }
        // The terminal's keys one by one, instead of lines.
        let stty = |words: &[&str]| Command::new("stty").args(words).status();
        stty(&["-icanon", "-echo"]).context("stty")?;
        let half = Timespec {
            tv_sec: 0,
            tv_nsec: 500_000_000,
        };
        let result = loop {
            let stdin = io::stdin();
            let mut wanted = [
                PollFd::new(&stdin, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
            ];
            let _ = poll(&mut wanted, Some(&half));
            if !wanted[0].revents().is_empty() {
                let mut key = [0; 16];
                break rustix::io::read(&stdin, &mut key)
                    .map(drop)
                    .map_err(Into::into);
            }
            if self.interrupted() {
                break Ok(());
            }
            print!("\x1b[H\x1b[2J");
            let since = last.elapsed();
            last = Instant::now();
            if let Err(error) = self.picture(&mut map, since) {
                break Err(error);
            }
            println!("any key: back to the prompt");
        };
        stty(&["icanon", "echo"]).context("stty")?;
        result
    }

    fn picture(&self, map: &mut Map, since: Duration) -> anyhow::Result<()> {
        let (nodes, links) = (self.ask(Order::Nodes)?, self.ask(Order::Links)?);
        if let (Reply::Nodes(nodes), Reply::Links(links)) = (nodes, links) {
            let picture = map.draw(&nodes, &links, since, height());
            self.say(&format!("{}\n{picture}", self.name));
        }
        Ok(())
    }
}

/// Lines of the terminal, if there is one.
fn height() -> Option<usize> {
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return None;
    }
    let mut stty = Command::new("stty");
    let output = stty.arg("size").stdin(Stdio::inherit()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.split_whitespace().next()?.parse().ok()?;
    // One that does not know its size says 0.
    Some(lines).filter(|n| *n > 0)
}

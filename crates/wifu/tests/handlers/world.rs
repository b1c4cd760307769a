//! A small network, and programs of ours at work in it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wifu_linux::netns::{End, Lab, Namespace};

pub const WIFU: &str = env!("CARGO_BIN_EXE_wifu");
pub const A: &str = "10.84.1.1";
pub const B: &str = "10.84.2.1";
/// A handler that does nothing, at every packet that is forwarded.
pub const NULL: &str = "[[handler]]\nuse = \"null\"\nhooks = [\"forward\"]\n";

pub fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Hosts a and b, and r between them.
pub struct World {
    pub dir: PathBuf,
    pub a: Namespace,
    pub r: Namespace,
    pub b: Namespace,
    pub lab: Option<Lab>,
}

impl World {
    pub fn new(test: &str) -> World {
        let name = format!("t-hook-{test}-{}", std::process::id());
        let mut lab = Lab::create(&name).expect("lab");
        let [a, r, b] = ["a", "r", "b"].map(|n| lab.node(n).expect("node"));
        let join = |lab: &mut Lab, node, net, device| {
            let (here, there) = (format!("10.84.{net}.1/24"), format!("10.84.{net}.2/24"));
            let end = |node, device, address| End {
                node,
                device,
                address,
            };
            lab.link(end(node, "eth0", &here), end("r", device, &there), 1500)
                .expect("link");
            let gateway = format!("10.84.{net}.2");
            lab.route(node, "default", &gateway).expect("route");
        };
        join(&mut lab, "a", 1, "eth0");
        join(&mut lab, "b", 2, "eth1");
        lab.forward("r").expect("forwarding");
        let dir = std::env::temp_dir().join(format!("wifu-{name}"));
        std::fs::create_dir_all(&dir).expect("directory");
        World {
            dir,
            a,
            r,
            b,
            lab: Some(lab),
        }
    }

    /// Begin `wifu core` in `ns` with this configuration, and wait until it is ready.
    pub fn core(&self, ns: &Namespace, name: &str, text: &str, args: &[&str]) -> Core {
        let config = self.dir.join(name);
        std::fs::write(&config, text).expect("configuration");
        let paths = ["out", "err"].map(|e| self.dir.join(format!("{name}-{}.{e}", ns.name())));
        let [out, err] = [&paths[0], &paths[1]].map(|p| File::create(p).expect("log"));
        let mut command = ns.command(WIFU).expect("namespace");
        command.args(["core", "--config"]).arg(&config).args(args);
        let child = command.stdout(out).stderr(err).spawn().expect("wifu core");
        let [out, err] = paths;
        let mut core = Core { child, out, err };
        wait_until(|| core.said().contains("ready") || core.is_over());
        assert!(core.said().contains("ready"), "{}", core.said());
        core
    }

    /// Begin this `wifu delay`, and wait until it is at work or over.
    pub fn delay(&self, name: &str, command: &mut Command) -> Core {
        let err = self.dir.join(format!("{name}.err"));
        let log = File::create(&err).expect("log");
        let child = command.stdout(Stdio::null()).stderr(log).spawn();
        let mut delay = Core {
            child: child.expect("wifu delay"),
            out: self.dir.join("none"),
            err,
        };
        wait_until(|| delay.said().contains("wifu delay:") || delay.is_over());
        delay
    }

    /// Packets of a ping from a to b that were answered, and the median round trip in ms.
    pub fn ping(&self, count: u32) -> (u32, f64) {
        let count = count.to_string();
        let args = ["-c", &count, "-i", "0.005", "-W", "1", B];
        let said = text(&output(
            self.a.command("ping").expect("namespace").args(args),
        ));
        let mut times: Vec<f64> = said
            .lines()
            .filter_map(|l| l.split_once("time=")?.1.split(' ').next()?.parse().ok())
            .collect();
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied().unwrap_or(f64::NAN);
        (times.len() as u32, median)
    }

    /// A server at b of these octets.
    pub fn web(&self, data: &[u8]) -> Ended {
        std::fs::write(self.dir.join("data"), data).expect("file");
        let mut server = self.b.command("python3").expect("namespace");
        server.args(["-m", "http.server", "8000", "--bind", B]);
        server.current_dir(&self.dir).stderr(Stdio::null());
        Ended(server.stdout(Stdio::null()).spawn().expect("python3"))
    }

    /// What a gets of that server.
    pub fn fetch(&self) -> Vec<u8> {
        let mut curl = self.a.command("curl").expect("namespace");
        let url = format!("http://{B}:8000/data");
        output(curl.args(["-s", "--max-time", "60", &url])).stdout
    }

    /// Kill all that runs on a host; stopped first, so that none of them sees another's end.
    pub fn kill_all(&self, ns: &Namespace) {
        let mut pids = Command::new("ip");
        let pids = text(&output(pids.args(["netns", "pids", ns.name()])));
        for signal in [Signal::STOP, Signal::KILL] {
            for pid in pids.split_whitespace() {
                let pid = Pid::from_raw(pid.parse().expect("pid")).expect("pid");
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// What `wifu core` has against this configuration, before any privileged step.
    pub fn refused(&self, name: &str, configuration: &str, args: &[&str]) -> String {
        let config = self.dir.join(name);
        std::fs::write(&config, configuration).expect("configuration");
        let mut command = self.r.command(WIFU).expect("namespace");
        command.args(["core", "--dry-run", "--config"]).arg(&config);
        let done = output(command.args(args));
        let said = errors(&done);
        assert!(!done.status.success(), "{args:?}: {said}");
        assert_eq!(text(&done), "", "{args:?}: {said}");
        said
    }

    /// Let the kernel's TCP lose one packet in fifty at a hook of r, and Snoop before it repair
    /// that: its report. What it sent is counted, and spares the sender a third at least.
    pub fn snooped(&self, hook: &str, args: &[&str]) -> Value {
        let lossy =
            format!("[[handler]]\nuse = \"drop\"\nprotocol = 6\nhooks = [\"{hook}\"]\np = 0.02\n");
        let snoop = format!("[[handler]]\nuse = \"snoop\"\n{lossy}");
        let alone = self.core(&self.r, "lossy.toml", &lossy, args);
        let without = self.kernel_transfer();
        alone.end(Signal::TERM);
        let both = self.core(&self.r, "snoop.toml", &snoop, args);
        let with = self.kernel_transfer();
        let report = both.end(Signal::TERM);
        let snoop = &report["handlers"][0];
        let number = |of: &Value| of.as_u64().expect("a number");
        let [resent, timeouts] = ["resent", "timeouts"].map(|key| number(&snoop["counts"][key]));
        assert!(resent > 10, "{snoop}");
        assert_eq!(number(&snoop["sent"]), resent + timeouts, "{snoop}");
        assert!(
            3 * with < 2 * without,
            "{with} with it, {without} without: {snoop}"
        );
        report
    }

    /// Three megabytes by the kernel's TCP from a to b; how many segments a sent more than once.
    fn kernel_transfer(&self) -> u64 {
        let retransmitted = || {
            let read = || std::fs::read_to_string("/proc/thread-self/net/snmp").expect("counters");
            let all = self.a.run(read).expect("namespace");
            let mut lines = all.lines().filter(|l| l.starts_with("Tcp:"));
            let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
            let mut both = names.split(' ').zip(values.split(' '));
            let found = both.find(|(name, _)| *name == "RetransSegs");
            found
                .and_then(|(_, n)| n.parse::<u64>().ok())
                .expect("a number")
        };
        let octets: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        let before = retransmitted();
        let listener = self.b.run(|| TcpListener::bind((B, 0)).expect("listener"));
        let listener = listener.expect("namespace");
        // A window of some fifty segments: no more are copied than a handler may hold.
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 65_536).expect("buffer");
        let at = listener.local_addr().expect("address");
        let sender = self.a.run(|| TcpStream::connect(at).expect("connection"));
        let mut sender = sender.expect("namespace");
        let came = std::thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let mut came = Vec::new();
                let (mut stream, _) = listener.accept().expect("connection");
                stream.read_to_end(&mut came).expect("data");
                came
            });
            sender.write_all(&octets).expect("data");
            sender.shutdown(Shutdown::Write).expect("end");
            receiver.join().expect("receiver")
        });
        assert!(came == octets);
        retransmitted() - before
    }

    pub fn rules(&self, ns: &Namespace) -> Vec<String> {
        let args = ["-w", "-t", "mangle", "-S"];
        let said = text(&output(
            ns.command("iptables").expect("namespace").args(args),
        ));
        let rules = said.lines().filter(|l| l.starts_with("-A"));
        rules.map(str::to_owned).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.lab.take());
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

pub fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().expect("program")
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A running `wifu core`, or `wifu delay`.
pub struct Core {
    pub child: Child,
    pub out: PathBuf,
    pub err: PathBuf,
}

impl Core {
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap_or_default()
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("wait").is_some()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("signal");
    }

    pub fn reports(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.out).unwrap_or_default();
        let each = text.lines().map(serde_json::from_str);
        each.collect::<Result<_, _>>().expect("reports are JSON")
    }

    /// Ends it as `signal` does; gives its last report.
    pub fn end(mut self, signal: Signal) -> Value {
        self.signal(signal);
        assert!(wait_until(|| self.is_over()), "{}", self.said());
        let status = self.child.wait().expect("wait");
        assert!(status.success(), "{status}: {}", self.said());
        self.reports().pop().expect("a report at the end")
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that ends with the test.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An ATP packet's payload: version and type, no flags, then zeros.
pub fn atp() -> Vec<u8> {
    let mut payload = vec![0; 140];
    payload[0] = 1;
    payload[1] = 1;
    payload
}

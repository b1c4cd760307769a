//! A small network, and programs of ours at work in it.

use std::fs::File;
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

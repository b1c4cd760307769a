//! Namespaces with daemons, and programs in them.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wifu_linux::netns::{End, Lab, Namespace};

/// The command under test.
pub const WIFU: &str = env!("CARGO_BIN_EXE_wifu");

/// The kernel's address on the TUN device, and WiFu's.
pub const KERNEL: &str = "10.79.0.1";
pub const STACK: &str = "10.79.0.2";

/// Addresses of the two hosts of [`World::raw`].
pub const A: &str = "10.79.1.1";
pub const B: &str = "10.79.1.2";

/// Addresses of the host in the middle of [`World::row`], and of the one beyond it.
pub const RELAY: [&str; 2] = ["10.79.1.3", "10.79.2.3"];
pub const FAR: &str = "10.79.2.2";

/// Longest that any program here may take, far beyond what it needs.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Where cargo puts libraries; the newest file is of the last build.
pub fn built(name: &str) -> PathBuf {
    let dir = Path::new(WIFU).parent().expect("target/<profile>");
    let places = ["", "deps"].map(|d| dir.join(d).join(name));
    let age = |p: &PathBuf| Some(p.metadata().ok()?.modified().ok()?.elapsed().ok());
    let found = places.into_iter().filter_map(|p| Some((age(&p)?, p))).min();
    let missing = || {
        panic!(
            "{name} is not in {}: cargo build --workspace",
            dir.display()
        )
    };
    found.unwrap_or_else(missing).1
}

/// A program in the background, which does not outlive this value.
pub struct Running {
    pub child: Child,
    /// What it says on both outputs.
    log: PathBuf,
}

impl Running {
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Waits until it has said `text`.
    pub fn says(&mut self, text: &str) {
        let log = self.log.clone();
        let said = || {
            std::fs::read_to_string(&log)
                .unwrap_or_default()
                .contains(text)
        };
        wait_until(Duration::from_secs(20), || {
            said() || self.child.try_wait().expect("wait").is_some()
        });
        assert!(said(), "never said {text:?}: {}", self.said());
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("signal");
    }

    /// Its end, which must come in time.
    pub fn ends(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return status;
            }
            assert!(Instant::now() < deadline, "still runs: {}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its end without error; gives what it said.
    pub fn succeeds(&mut self) -> String {
        let status = self.ends();
        assert!(status.success(), "{status}: {}", self.said());
        self.said()
    }

    /// The last line it said, as JSON.
    pub fn report(&mut self) -> Value {
        let said = self.succeeds();
        let line = said.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {said}"))
    }

    pub fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits, at most so long.
pub fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !done() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// A host: a network namespace, in which a daemon may run.
pub struct Host {
    pub ns: Namespace,
    dir: PathBuf,
    pub daemon: Option<Running>,
    /// Arguments of its daemon.
    args: Vec<String>,
    programs: std::cell::Cell<u32>,
}

impl Host {
    fn new(ns: Namespace, dir: &Path, args: &[&str]) -> Host {
        Host {
            ns,
            dir: dir.to_owned(),
            daemon: None,
            args: args.iter().map(|a| (*a).to_owned()).collect(),
            programs: std::cell::Cell::new(0),
        }
    }

    /// Starts the daemon with `more` arguments, and waits until it is ready.
    pub fn start_daemon(&mut self, more: &[&str]) {
        self.daemon = None;
        // Descriptors as most systems grant them: 1024 unless a program asks for more.
        let mut command = self.command("prlimit");
        command.args(["--nofile=1024:", WIFU, "daemon"]);
        command.args(&self.args).args(more);
        let mut daemon = self.start(&mut command);
        daemon.says("ready: ");
        self.daemon = Some(daemon);
    }

    /// Ends the daemon as a service manager does; gives its counters.
    pub fn stop_daemon(&mut self) -> Value {
        let mut daemon = self.daemon.take().expect("a daemon");
        daemon.signal(Signal::TERM);
        let said = daemon.succeeds();
        let counted = said.lines().find_map(|l| l.split_once("counted: "));
        let (_, counted) = counted.unwrap_or_else(|| panic!("no counters: {said}"));
        serde_json::from_str(counted).expect("JSON")
    }

    /// The daemon ends without a chance to do anything about it.
    pub fn kill_daemon(&mut self) {
        self.daemon.take().expect("a daemon").kill();
    }

    /// What the daemon has in memory, octets.
    pub fn memory(&self) -> u64 {
        let pid = self.daemon.as_ref().expect("a daemon").child.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
        let line = status.lines().find(|l| l.starts_with("VmRSS:"));
        let kib = line.and_then(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok());
        kib.expect("a number") * 1024
    }

    /// The applications' socket.
    pub fn socket(&self) -> PathBuf {
        let inode = self.ns.inode().expect("namespace");
        PathBuf::from(format!("{}/{inode}/daemon.sock", wifu_linux::netns::RUN))
    }

    /// A program over the kernel's TCP.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.ns.command(program).expect("namespace");
        command.current_dir(&self.dir).stdin(Stdio::null());
        command
    }

    /// A program over a WiFu protocol.
    pub fn over(&self, spec: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.command(WIFU);
        command.env("WIFU_PRELOAD", built("libwifu_preload.so"));
        command
            .args(["exec", "--protocol", spec, "--"])
            .arg(program);
        command
    }

    /// Begins a program, in the background.
    pub fn start(&self, command: &mut Command) -> Running {
        self.programs.set(self.programs.get() + 1);
        let name = format!("{}-{}.log", self.ns.name(), self.programs.get());
        let log = self.dir.join(name);
        let file = File::create(&log).expect("log");
        let both = file.try_clone().expect("log");
        let child = command.stdout(file).stderr(both).spawn();
        let child = child.unwrap_or_else(|e| panic!("{command:?}: {e}"));
        Running { child, log }
    }

    /// Begins a server and waits until it listens at `port` over WiFu.
    pub fn serve(&self, port: u16, command: &mut Command) -> Running {
        let mut server = self.start(command);
        let end = format!(":{port}");
        let listens = |c: &Value| {
            c["state"] == "LISTEN" && c["local"].as_str().is_some_and(|l| l.ends_with(&end))
        };
        let there = wait_until(Duration::from_secs(20), || {
            self.connections().iter().any(listens) || server.child.try_wait().unwrap().is_some()
        });
        let there = there && self.connections().iter().any(listens);
        assert!(there, "nobody listens at {port}: {}", server.said());
        server
    }

    /// Runs a program to its end; it must succeed.
    pub fn run(&self, command: &mut Command) -> Output {
        let output = command
            .output()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{command:?}: {}: {said}",
            output.status
        );
        output
    }

    /// What `wifu ss --json` lists.
    pub fn connections(&self) -> Vec<Value> {
        let output = self.run(self.command(WIFU).args(["ss", "--json"]));
        let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        all.as_array().expect("a list").clone()
    }

    /// A counter of the kernel in this namespace, such as `TcpExt: TCPWinProbe`.
    pub fn kernel(&self, layer: &str, field: &str) -> u64 {
        let read = || {
            let files = ["snmp", "netstat"].map(|f| format!("/proc/thread-self/net/{f}"));
            files
                .map(|f| std::fs::read_to_string(f).expect("counters"))
                .concat()
        };
        let text = self.ns.run(read).expect("namespace");
        let start = format!("{layer}:");
        let mut lines = text.lines().filter(|l| l.split(' ').next() == Some(&start));
        let names: Vec<&str> = lines.next().expect("names").split(' ').collect();
        let values: Vec<&str> = lines.next().expect("values").split(' ').collect();
        let at = names.iter().position(|n| *n == field);
        let at = at.unwrap_or_else(|| panic!("no {layer} {field}"));
        values[at].parse().expect("number")
    }
}

/// Hosts, a directory and a lab that go together.
pub struct World {
    pub hosts: Vec<Host>,
    pub dir: PathBuf,
    _lab: Lab,
}

impl World {
    fn begin(test: &str) -> (Lab, PathBuf) {
        let name = format!("t-{test}-{}", std::process::id());
        let lab = Lab::create(&name).expect("lab");
        let dir = std::env::temp_dir().join(format!("wifu-{name}"));
        std::fs::create_dir_all(&dir).expect("directory");
        (lab, dir)
    }

    /// One host whose kernel talks to WiFu through a TUN device. No daemon runs yet.
    pub fn tun(test: &str) -> World {
        let (mut lab, dir) = World::begin(test);
        let ns = lab.node("a").expect("node");
        let args = [
            "--carrier",
            "tun",
            "--address",
            STACK,
            "--kernel-address",
            KERNEL,
        ];
        let hosts = vec![Host::new(ns, &dir, &args)];
        World {
            hosts,
            dir,
            _lab: lab,
        }
    }

    /// Two hosts on a link. No daemon runs yet.
    pub fn raw(test: &str) -> World {
        let (mut lab, dir) = World::begin(test);
        let (a, b) = (lab.node("a").expect("node"), lab.node("b").expect("node"));
        let ends = [("a", A), ("b", B)].map(|(node, ip)| (node, format!("{ip}/24")));
        let [a_end, b_end] = [&ends[0], &ends[1]].map(|(node, address)| End {
            node,
            device: "eth0",
            address,
        });
        lab.link(a_end, b_end, 1500).expect("link");
        let hosts = vec![Host::new(a, &dir, &[]), Host::new(b, &dir, &[])];
        World {
            hosts,
            dir,
            _lab: lab,
        }
    }

    /// Three hosts in a row, with the addresses [`A`], [`RELAY`] and [`FAR`]. No daemon runs yet.
    pub fn row(test: &str) -> World {
        let (mut lab, dir) = World::begin(test);
        let [a, r, c] = ["a", "r", "c"].map(|n| lab.node(n).expect("node"));
        for (node, ip, device, beyond) in [("a", A, "eth0", RELAY[0]), ("c", FAR, "eth1", RELAY[1])]
        {
            let ends = [format!("{ip}/24"), format!("{beyond}/24")];
            let near = End {
                node,
                device: "eth0",
                address: &ends[0],
            };
            let far = End {
                node: "r",
                device,
                address: &ends[1],
            };
            lab.link(near, far, 1500).expect("link");
        }
        let hosts = [a, r, c].map(|ns| Host::new(ns, &dir, &[]));
        for (host, by) in [(&hosts[0], RELAY[0]), (&hosts[2], RELAY[1])] {
            let mut ip = host.command("ip");
            host.run(ip.args(["route", "add", "default", "via", by]));
        }
        World {
            hosts: hosts.into(),
            dir,
            _lab: lab,
        }
    }

    /// Two hosts on a link, each with its daemon.
    pub fn raw_up(test: &str) -> World {
        let mut w = World::raw(test);
        w.hosts.iter_mut().for_each(|h| h.start_daemon(&[]));
        w
    }

    /// A file of random octets, and its digest.
    pub fn random_file(&self, name: &str, size: usize) -> String {
        let mut rng = wifu_wire::Rng::new(size as u64);
        let words = (0..size.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes());
        let mut data: Vec<u8> = words.collect();
        data.truncate(size);
        std::fs::write(self.dir.join(name), data).expect("file");
        self.digest(name)
    }

    /// The SHA-256 of a file.
    pub fn digest(&self, name: &str) -> String {
        let path = self.dir.join(name);
        let output = Command::new("sha256sum")
            .arg(&path)
            .output()
            .expect("sha256sum");
        assert!(output.status.success(), "{}", path.display());
        let text = String::from_utf8(output.stdout).expect("text");
        text.split(' ').next().expect("digest").to_owned()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.hosts.clear();
        if std::thread::panicking() {
            eprintln!("logs are kept in {}", self.dir.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// The script that plays either end.
pub fn peer(mut command: Command, args: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/peer.py");
    command.arg("-u").arg(script).args(args);
    command
}

/// An nginx with two workers that serves the world's directory at port 8080 of `ip`.
pub fn nginx(mut command: Command, w: &World, ip: &str) -> Command {
    let dir = w.dir.display();
    let name = format!("nginx-{ip}.conf");
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {dir}/{kind};"))
        .concat();
    let text = format!(
        "user root; daemon off; worker_processes 2; pid {dir}/{name}.pid;\n\
         error_log stderr warn; events {{ worker_connections 512; }}\n\
         http {{ access_log off; sendfile on; {paths}\n\
         server {{ listen {ip}:8080; root {dir}; autoindex on; }} }}\n"
    );
    std::fs::write(w.dir.join(&name), text).expect("configuration");
    command
        .arg("-p")
        .arg(&w.dir)
        .arg("-c")
        .arg(w.dir.join(name));
    command
}

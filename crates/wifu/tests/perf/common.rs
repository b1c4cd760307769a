//! What the tests of the command share: processes that end with their owner, ports, JSON.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The command under test.
pub const WIFU: &str = env!("CARGO_BIN_EXE_wifu");

/// Where cargo puts libraries and examples of this build.
pub fn built(name: &str) -> PathBuf {
    let directory = Path::new(WIFU).parent().expect("target/<profile>");
    let places = [directory.join(name), directory.join("examples").join(name)];
    places
        .iter()
        .find(|path| path.exists())
        .cloned()
        .unwrap_or_else(|| {
            panic!(
                "{} lacks {name}: cargo build -p wifu-preload --lib --examples",
                directory.display()
            )
        })
}

/// A port nobody has at the moment.
pub fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

/// A program that runs in the background and does not outlive this value.
pub struct Running(pub Child);

impl Running {
    /// Starts `command` and waits until it prints a line that contains `ready`.
    pub fn start(command: &mut Command, ready: &str) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let found = lines.any(|line| line.unwrap().contains(ready));
        assert!(found, "{command:?} never said {ready:?}");
        // The rest must be read, or the program would stop when the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        Self(child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// The exit status, which must come within ten seconds.
    pub fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match self.0.try_wait().unwrap() {
                Some(status) => return status,
                None => assert!(Instant::now() < deadline, "still running"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A `wifu perf` server on a port of its own.
pub struct Server {
    pub process: Running,
    pub port: String,
}

impl Server {
    pub fn start(more: &[&str]) -> Self {
        let port = free_port();
        let mut command = Command::new(WIFU);
        command.args(["perf", "-s", "-p", &port]).args(more);
        Self {
            process: Running::start(&mut command, "Server listening"),
            port,
        }
    }

    /// A client of this server that writes JSON.
    pub fn client(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(WIFU);
        command
            .args(["perf", "-c", "127.0.0.1", "-p", &self.port, "-J"])
            .args(arguments);
        command
    }

    /// The report of a test that must succeed.
    pub fn test(&self, arguments: &[&str]) -> Value {
        // The server may still be tidying up after the test before.
        let mut tries = 0;
        let (output, report) = loop {
            let output = self.client(arguments).output().unwrap();
            let report = report(&output);
            let busy = report
                .get("error")
                .and_then(Value::as_str)
                .is_some_and(|e| e.contains("busy"));
            if !busy || tries == 100 {
                break (output, report);
            }
            tries += 1;
            std::thread::sleep(std::time::Duration::from_millis(50));
        };
        assert_eq!(report.get("error"), None, "{arguments:?}: {output:?}");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        report
    }

    /// The worker of the test that is running.
    pub fn worker(&self) -> Pid {
        let pid = self.process.0.id();
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(path).unwrap();
        Pid::from_raw(children.trim().parse().unwrap()).unwrap()
    }
}

/// Starts `client` with its output kept, for interfering with it.
pub fn begin(mut client: Command) -> Running {
    Running(
        client
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    )
}

/// The report and the exit code of a client that was interfered with.
pub fn finish(mut client: Running) -> (Value, Option<i32>) {
    let mut text = String::new();
    client
        .0
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let status = client.end();
    (
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")),
        status.code(),
    )
}

/// What a program wrote, as JSON.
pub fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

/// The value at `path`, as in `end.sum_received.bytes`.
pub fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    let pointer = format!("/{}", path.replace('.', "/"));
    value
        .pointer(&pointer)
        .unwrap_or_else(|| panic!("no {path} in {value:#}"))
}

pub fn number(value: &Value, path: &str) -> f64 {
    at(value, path)
        .as_f64()
        .unwrap_or_else(|| panic!("{path} is no number"))
}

/// Every key with its type, `[]` standing for an array's items. `wifu` is not entered.
pub fn keys(value: &Value) -> BTreeMap<String, &'static str> {
    fn walk(value: &Value, path: &str, found: &mut BTreeMap<String, &'static str>) {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        found.insert(path.to_owned(), kind);
        match value {
            Value::Array(items) => items
                .iter()
                .for_each(|v| walk(v, &format!("{path}[]"), found)),
            Value::Object(map) => map
                .iter()
                .filter(|(key, _)| *key != "wifu")
                .for_each(|(key, v)| walk(v, &format!("{path}.{key}"), found)),
            _ => {}
        }
    }
    let mut found = BTreeMap::new();
    walk(value, "", &mut found);
    found
}

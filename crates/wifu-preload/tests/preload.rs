//! The preloaded library and the C library under real programs, with the relay (examples/relay.rs)
//! in the daemon's place.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wifu_wire::front::{Answer, HEADER_LEN, Header, Kind};

/// Where cargo puts libraries and examples of this build. `cargo test` and `cargo build` differ in
/// that: the newest file is of the last build.
fn built(name: &str) -> PathBuf {
    let exe = std::env::current_exe().expect("a test has a path");
    let dir = exe
        .parent()
        .and_then(Path::parent)
        .expect("target/<profile>/deps/<test>");
    let places = ["", "deps", "examples"].map(|d| dir.join(d).join(name));
    let age = |p: &PathBuf| Some(p.metadata().ok()?.modified().ok()?.elapsed().ok());
    places
        .into_iter()
        .filter_map(|p| Some((age(&p)?, p)))
        .min()
        .unwrap_or_else(|| panic!("{name} is not in {}: build the package", dir.display()))
        .1
}

/// A process that dies with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A relay and a directory for what belongs to it.
struct World {
    dir: PathBuf,
    relay: Option<Running>,
}

impl World {
    fn new(name: &str) -> World {
        let dir = std::env::temp_dir().join(format!("wifu-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut w = World { dir, relay: None };
        w.start_relay();
        w
    }

    fn start_relay(&mut self) {
        let mut relay = Command::new(built("relay"))
            .arg(self.socket())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(relay.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        self.relay = Some(Running(relay));
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("daemon.sock")
    }

    fn file(&self, name: &str, size: usize) -> (PathBuf, Vec<u8>) {
        let bytes: Vec<u8> = (0..size)
            .map(|i| ((i * 2_654_435_761usize) >> 13) as u8)
            .collect();
        let path = self.dir.join(name);
        std::fs::write(&path, &bytes).unwrap();
        (path, bytes)
    }

    /// A command whose sockets are ours.
    fn command(&self, program: &str) -> Command {
        let mut c = Command::new(program);
        c.env("LD_PRELOAD", built("libwifu_preload.so"))
            .env("WIFU_PROTOCOL", "tcp-newreno,iw=4")
            .env("WIFU_SOCKET", self.socket())
            .current_dir(&self.dir);
        c
    }

    /// Runs to the end within a minute and returns standard output.
    fn run(&self, command: &mut Command) -> Result<Vec<u8>, String> {
        let text = format!("{command:?}");
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .stdin(Stdio::null());
        let mut child = Running(child.spawn().map_err(|e| format!("{text}: {e}"))?);
        let (mut out, mut err) = (
            child.0.stdout.take().unwrap(),
            child.0.stderr.take().unwrap(),
        );
        let out = std::thread::spawn(move || {
            let mut b = Vec::new();
            out.read_to_end(&mut b).map(|_| b)
        });
        let err = std::thread::spawn(move || {
            let mut b = Vec::new();
            err.read_to_end(&mut b).map(|_| b)
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        let status = loop {
            match child.0.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > deadline => {
                    break child.0.kill().map(|()| child.0.wait().unwrap()).unwrap();
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let (out, err) = (out.join().unwrap().unwrap(), err.join().unwrap().unwrap());
        if status.success() {
            return Ok(out);
        }
        Err(format!(
            "{text}: {status}\n{}\n{}",
            String::from_utf8_lossy(&out),
            String::from_utf8_lossy(&err)
        ))
    }

    fn start(&self, command: &mut Command) -> Running {
        let text = format!("{command:?}");
        let c = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Running(c.spawn().unwrap_or_else(|e| panic!("{text}: {e}")))
    }

    /// Waits until a listening socket with this port is registered.
    fn wait_for(&self, port: u16) {
        let deadline = Instant::now() + Duration::from_secs(10);
        let end = format!(":{port}\"");
        while !self.listeners().contains(&end) {
            assert!(Instant::now() < deadline, "nobody listens on port {port}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The relay's list of listening sockets, as `wifu ss` would ask for it.
    fn listeners(&self) -> String {
        let mut s = UnixStream::connect(self.socket()).unwrap();
        let header = Header {
            kind: Kind::Stats,
            body: 0,
            pad: 0,
        };
        s.write_all(&header.encode()).unwrap();
        let mut got = Vec::new();
        s.read_to_end(&mut got).unwrap();
        let answer = Answer::decode(&got[HEADER_LEN..]).unwrap();
        answer.value.unwrap_or_default().to_owned()
    }

    fn fetch(&self, port: u16, name: &str, want: &[u8]) {
        let url = format!("http://127.0.0.1:{port}/{name}");
        let got = self
            .run(
                self.command("curl")
                    .args(["-sSf", "--max-time", "30", &url]),
            )
            .unwrap();
        assert!(
            got == want,
            "curl: {} bytes instead of {}",
            got.len(),
            want.len()
        );
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.relay = None;
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn what_tcp_programs_rely_on() {
    let w = World::new("semantics");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/semantics.py");
    let out = w.run(w.command("python3").arg(script)).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert_eq!(
        out.lines().filter(|l| l.starts_with("ok ")).count(),
        33,
        "{out}"
    );
}

/// What the script asks of us is what the kernel's own TCP does.
#[test]
fn the_kernel_does_as_the_script_says() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/semantics.py");
    let checks = [
        "epoll_goes_on_after_a_failure",
        "accepted_sockets_have_what_the_listening_one_was_allowed",
    ];
    let out = Command::new("python3").arg(script).args(checks).output();
    let out = out.expect("python3");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.lines().count() == 2, "{said}");
}

#[test]
fn python_http_server_with_curl_and_wget() {
    let w = World::new("http");
    let (_, bytes) = w.file("f", 5_000_000);
    let _server = w.start(w.command("python3").args(["-m", "http.server", "18081"]));
    w.wait_for(18081);
    w.fetch(18081, "f", &bytes);
    let url = "http://127.0.0.1:18081/f";
    let got = w
        .run(w.command("wget").args(["-q", "-O", "-", "-T", "20", url]))
        .unwrap();
    assert!(got == bytes, "wget: {} bytes", got.len());
    // Refused, with curl's own exit code for that.
    let e = w
        .run(w.command("curl").args(["-sS", "http://127.0.0.1:18099/"]))
        .unwrap_err();
    assert!(e.contains("exit status: 7"), "{e}");
}

#[test]
fn nginx_with_several_workers() {
    let w = World::new("nginx");
    let (_, bytes) = w.file("f", 3_000_000);
    let dir = w.dir.display();
    let conf = format!(
        "daemon off; pid {dir}/pid; error_log {dir}/error.log; worker_processes 3; user root;\n\
         events {{ worker_connections 200; }}\n\
         http {{ access_log off; sendfile on; tcp_nopush on;\n\
           client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3;\n\
           uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;\n\
           server {{ listen 18082; root {dir};\n\
             location /via/ {{ proxy_pass http://127.0.0.1:18082/; }} }} }}\n"
    );
    std::fs::write(w.dir.join("nginx.conf"), conf).unwrap();
    let conf = w.dir.join("nginx.conf");
    let mut nginx = w.start(w.command("nginx").arg("-c").arg(conf));
    w.wait_for(18082);
    for _ in 0..10 {
        w.fetch(18082, "f", &bytes);
    }
    // As a proxy its workers connect, whose environment nginx has cleared.
    w.fetch(18082, "via/f", &bytes);
    // SAFETY: a signal to our own child, which stops its workers on it.
    unsafe { libc::kill(nginx.0.id() as i32, libc::SIGTERM) };
    assert!(nginx.0.wait().unwrap().success());
}

#[test]
fn socat_echo() {
    let w = World::new("socat");
    let (path, bytes) = w.file("f", 1_000_000);
    let _server = w.start(
        w.command("socat")
            .args(["TCP4-LISTEN:18083,fork,reuseaddr", "EXEC:cat"]),
    );
    w.wait_for(18083);
    let mut c = w.command("socat");
    c.args(["-t", "20", "-", "TCP4:127.0.0.1:18083"])
        .stdin(std::fs::File::open(path).unwrap());
    let out = c
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    assert!(out.stdout == bytes, "{} bytes came back", out.stdout.len());
}

#[test]
fn iperf3_unmodified() {
    let w = World::new("iperf3");
    // Its server prefers an IPv6 socket that takes IPv4 too.
    let _server = w.start(w.command("iperf3").args(["-s", "-p", "18084"]));
    w.wait_for(18084);
    for more in [&[][..], &["-R"], &["-P", "3"]] {
        let mut c = w.command("iperf3");
        c.args(["-c", "127.0.0.1", "-p", "18084", "-t", "1", "-J"])
            .args(more);
        let out = String::from_utf8(w.run(&mut c).unwrap()).unwrap();
        assert!(out.contains("\"sum_received\""), "{out}");
        assert!(
            out.contains("tcp-newreno"),
            "congestion control is named: {out}"
        );
    }
}

/// A C program, linked with the static library.
fn c_program(w: &World, source: &Path) -> String {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wifu-c");
    let program = w.dir.join(source.file_stem().unwrap());
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"]);
    cc.arg(&program).arg("-I").arg(crate_dir.join("include"));
    cc.arg(source).arg(built("libwifu.a"));
    w.run(cc.args(["-lpthread", "-ldl", "-lm"])).unwrap();
    program.to_str().unwrap().to_owned()
}

#[test]
fn calls_of_the_static_library_fail_as_preloaded_ones_do() {
    let w = World::new("c-errors");
    let source = w.dir.join("errors.c");
    let text = "\
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include \"wifu.h\"
int main(void) {
    int wifu = wifu_socket(AF_INET, SOCK_STREAM, 0), pair[2];
    if (wifu < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
    int r = wifu_shutdown(wifu, SHUT_WR);
    printf(\"%d %d\\n\", r, r ? errno == ENOTCONN : 0);
    r = wifu_shutdown(pair[0], SHUT_WR);
    printf(\"%d %d\\n\", r, (int)read(pair[1], &r, 1));
    return 0;
}
";
    std::fs::write(&source, text).unwrap();
    let mut command = w.command(&c_program(&w, &source));
    let out = w.run(command.env_remove("LD_PRELOAD")).unwrap();
    // Not connected; and what is not ours ends as ever.
    assert_eq!(String::from_utf8(out).unwrap(), "-1 1\n0 0\n");
}

#[test]
fn c_program_on_the_static_library() {
    let w = World::new("c");
    let (path, _) = w.file("f", 4_000_000);
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wifu-c");
    let program = c_program(&w, &crate_dir.join("examples-c/wifu-file.c"));
    // Linked, not preloaded.
    let command = || {
        let mut c = w.command(&program);
        c.env_remove("LD_PRELOAD");
        c
    };
    let _server = w.start(command().args(["serve", "18085", "2"]));
    w.wait_for(18085);
    for _ in 0..2 {
        let out = w
            .run(command().args(["send", "127.0.0.1", "18085"]).arg(&path))
            .unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(
            out.starts_with("4000000 bytes there and back over tcp-newreno"),
            "{out}"
        );
    }
}

#[test]
fn a_killed_daemon_is_a_reset_and_a_new_one_works() {
    let mut w = World::new("killed");
    let script = "\
import socket, sys
s = socket.socket(); s.bind(('127.0.0.1', 18086)); s.listen(4)
c = socket.create_connection(('127.0.0.1', 18086)); a, _ = s.accept()
q = socket.create_connection(('127.0.0.1', 18086)); s.accept
c.sendall(b'12'); assert a.recv(9) == b'12'
p = socket.socket(); p.setblocking(False); assert p.connect_ex(('192.0.2.1', 80)) == 115
print('up', flush=True); sys.stdin.readline()
for name, x in (('client', c), ('server', a), ('unaccepted', q)):
    try: print(name, 'read', x.recv(9))
    except OSError as e: print(name, e.errno)
print('pending', p.getsockopt(1, 4))
try: s.accept()
except OSError as e: print('accept', e.errno)
try: socket.create_connection(('127.0.0.1', 18086))
except OSError as e: print('connect', e.errno, flush=True)
sys.stdin.readline()
s.listen(4)
c = socket.create_connection(('127.0.0.1', 18086)); a, _ = s.accept()
c.sendall(b'again'); print(a.recv(9).decode(), flush=True)
";
    let mut c = w.command("python3");
    c.args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut app = Running(c.spawn().unwrap());
    let mut input = app.0.stdin.take().unwrap();
    let mut lines = BufReader::new(app.0.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("up"));
    w.relay = None; // SIGKILL
    input.write_all(b"\n").unwrap();
    let reset = libc::ECONNRESET;
    assert_eq!(lines.next(), Some(format!("client {reset}")));
    assert_eq!(lines.next(), Some(format!("server {reset}")));
    assert_eq!(lines.next(), Some(format!("unaccepted {reset}")));
    assert_eq!(
        lines.next(),
        Some(format!("pending {}", libc::ECONNREFUSED))
    );
    assert_eq!(lines.next(), Some(format!("accept {}", libc::ECONNABORTED)));
    assert_eq!(lines.next(), Some(format!("connect {}", libc::ENETDOWN)));
    w.start_relay();
    input.write_all(b"\n").unwrap();
    assert_eq!(lines.next().as_deref(), Some("again"));
    assert!(app.0.wait().unwrap().success());
}

#[test]
fn without_a_daemon_programs_are_told() {
    let mut w = World::new("none");
    w.relay = None;
    let e = w
        .run(w.command("curl").args(["-sS", "http://127.0.0.1:1/"]))
        .unwrap_err();
    assert!(
        e.contains("wifu: no daemon at") && e.contains("start one with"),
        "{e}"
    );
    assert_eq!(e.matches("no daemon at").count(), 1, "{e}");
    // And one that isn't asked for WiFu needs no daemon.
    let mut c = w.command("python3");
    c.env_remove("WIFU_PROTOCOL");
    c.args([
        "-c",
        "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()",
    ]);
    w.run(&mut c).unwrap();
}

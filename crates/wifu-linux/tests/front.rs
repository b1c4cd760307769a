//! The daemon's front under real programs: examples/front_loop.rs joins them by the engine itself,
//! without carriers or privileges.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wifu_wire::front::{Answer, HEADER_LEN, Header, Key, Options, Request};

/// Where cargo puts libraries and examples; the newest file is of the last build.
fn built(name: &str) -> PathBuf {
    let exe = std::env::current_exe().expect("a test has a path");
    let dir = exe
        .parent()
        .and_then(Path::parent)
        .expect("target/<profile>/deps/<test>");
    let places = ["", "deps", "examples"].map(|d| dir.join(d).join(name));
    let age = |p: &PathBuf| Some(p.metadata().ok()?.modified().ok()?.elapsed().ok());
    let found = places.into_iter().filter_map(|p| Some((age(&p)?, p))).min();
    found
        .unwrap_or_else(|| panic!("{name} is not in {}: build the package", dir.display()))
        .1
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct World {
    dir: PathBuf,
    daemon: Option<Running>,
}

impl World {
    fn new(name: &str) -> World {
        let dir = std::env::temp_dir().join(format!("wifu-front-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut w = World { dir, daemon: None };
        w.start();
        w
    }

    /// Starts the daemon and returns its first line.
    fn start(&mut self) -> String {
        let mut d = Command::new(built("front_loop"))
            .args([self.socket(), self.dir.join("listeners.json")])
            .arg("660")
            // Else glibc keeps the hole (8 MB) that a table leaves as it grows, or not: chance.
            .env("MALLOC_MMAP_THRESHOLD_", "131072")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(d.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.starts_with("ready"), "{line}");
        self.daemon = Some(Running(d));
        line
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("daemon.sock")
    }

    fn command(&self, program: &str) -> Command {
        let mut c = Command::new(program);
        c.env("LD_PRELOAD", built("libwifu_preload.so"))
            // A connection that nobody answers fails after 0.4 + 0.8 s.
            .env("WIFU_PROTOCOL", "tcp-newreno,rto_initial=400ms,syn_tries=2")
            .env("WIFU_TEST_BLACK", "127.9.9.9")
            .env("WIFU_SOCKET", self.socket())
            .current_dir(&self.dir);
        c
    }

    fn script(&self, args: &[&str]) -> Command {
        let mut c = self.command("python3");
        c.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/front.py"))
            .args(args);
        c
    }

    fn run(&self, args: &[&str]) {
        let out = self.script(args).output().unwrap();
        let err = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{args:?}: {}\n{err}", out.status);
    }

    /// Descriptors and resident memory (kB) of the daemon.
    fn cost(&self) -> (usize, u64) {
        let pid = self.daemon.as_ref().unwrap().0.id();
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .count();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let rss = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
        (fds, rss.split_whitespace().nth(1).unwrap().parse().unwrap())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.daemon = None;
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn what_tcp_programs_rely_on() {
    let w = World::new("semantics");
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../wifu-preload/tests/semantics.py"
    );
    let out = w.command("python3").arg(script).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{text}\n{err}");
    assert!(text.lines().count() >= 27, "{text}");
}

#[test]
fn five_hundred_connections_at_once() {
    World::new("many").run(&["many_at_once", "500"]);
}

#[test]
fn descriptors_and_memory_stay_flat() {
    let w = World::new("flat");
    // More than are kept in TIME_WAIT.
    w.run(&["open_close", "5000"]);
    let (fds, before) = w.cost();
    w.run(&["open_close", "10000"]);
    let (fds_after, after) = w.cost();
    assert_eq!(fds, fds_after);
    assert!(after < before + 4_000, "{before} kB grew to {after} kB");
}

#[test]
fn resets_where_tcp_has_them() {
    let w = World::new("resets");
    w.run(&["linger"]);
    w.run(&["reset_before_accept"]);
    w.run(&["unread_data_is_a_reset"]);
    w.run(&["names_after_the_end"]);
}

#[test]
fn an_early_answer_reaches_a_client_that_still_writes() {
    World::new("early").run(&["early_answers", "30"]);
}

#[test]
fn a_destroyed_connection_does_not_wait_forever_to_be_heard() {
    World::new("words").run(&["last_words_have_an_end"]);
}

#[test]
fn options_without_effect_are_told_once() {
    let w = World::new("options");
    let out = w.script(&["options_without_effect"]).output().unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{err}");
    let mut lines: Vec<&str> = err.lines().collect();
    lines.sort();
    let wanted = [
        "wifu: TCP_CORK is taken and has no effect",
        "wifu: TCP_SYNCNT is taken and has no effect",
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn notes_go_to_standard_error_and_not_to_what_is_in_its_place() {
    use std::os::unix::fs::MetadataExt;
    let w = World::new("notes");
    let (first, later) = (w.dir.join("first"), w.dir.join("later"));
    let said = |notes: Option<&str>| {
        let _ = std::fs::remove_file(&later);
        let stderr = std::fs::File::create(&first).unwrap();
        let mut c = w.script(&["noted", "later"]);
        if let Some(notes) = notes {
            c.env("WIFU_NOTES", notes);
        }
        assert!(c.stderr(stderr).status().unwrap().success());
        let read = |path| std::fs::read_to_string(path).unwrap();
        (read(&first), read(&later))
    };
    let [cork, count] =
        ["TCP_CORK", "TCP_SYNCNT"].map(|o| format!("wifu: {o} is taken and has no effect\n"));
    let none = String::new;
    assert_eq!(said(None), (cork.clone(), none()));
    let file = first.metadata().unwrap();
    let same = format!("{}:{}", file.dev(), file.ino());
    assert_eq!(said(Some(&same)), (cork.clone(), none()));
    // As under `wifu exec`, for a program of the program that got something else.
    assert_eq!(said(Some("0:0")), (none(), none()));
    assert_eq!(said(Some("always")), (cork, count));
    assert_eq!(said(Some("never")), (none(), none()));
}

#[test]
fn options_that_tune_the_protocol_reach_its_connections() {
    let w = World::new("tuned");
    let out = w.script(&["options_with_effect"]).output().unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && err.is_empty(), "{err}");
}

#[test]
fn too_many_waiting_sockets_are_told() {
    let w = World::new("waiting");
    let out = w.script(&["too_many_waiting"]).output().unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{err}");
    assert!(err.contains("wifu: the daemon hung up"), "{err}");
}

#[test]
fn the_list_of_listeners_lives_as_long_as_they_do() {
    let mut w = World::new("list");
    let state = w.dir.join("listeners.json");
    let end = |w: &mut World| {
        let mut daemon = w.daemon.take().unwrap();
        // SAFETY: no pointers; our own child, which was not waited for.
        unsafe { libc::kill(daemon.0.id() as i32, libc::SIGTERM) };
        assert!(daemon.0.wait().unwrap().success());
    };
    assert!(!state.exists(), "nothing listens");
    end(&mut w);
    assert!(!state.exists(), "nothing ever listened");
    // Whoever may write there names a file of others: it stays what it is.
    let other = w.dir.join("other");
    std::fs::write(&other, "kept").unwrap();
    for name in ["listeners.new", "listeners.json.new"] {
        std::os::unix::fs::symlink(&other, w.dir.join(name)).unwrap();
    }
    w.start();
    let mut server = w.script(&["serve_one", "7107"]);
    let mut server = Running(server.stdout(Stdio::piped()).spawn().unwrap());
    let mut said = BufReader::new(server.0.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "up");
    end(&mut w);
    assert!(state.exists(), "for the next daemon");
    assert_eq!(
        state.metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "kept");
    assert_eq!(w.start(), "ready, 1 restored\n");
    drop(server);
    end(&mut w);
    assert!(!state.exists(), "nobody listens any more");
}

#[test]
fn a_damaged_list_of_listeners_is_set_aside() {
    let mut w = World::new("damaged");
    w.daemon = None;
    let state = w.dir.join("listeners.json");
    std::fs::write(&state, "[{\"cookie\": 1,").unwrap();
    assert_eq!(w.start(), "ready, 0 restored\n");
    assert!(!state.exists());
    let kept = std::fs::read_to_string(w.dir.join("listeners.json.damaged"));
    assert_eq!(kept.unwrap(), "[{\"cookie\": 1,");
    // What is no damage names the file.
    w.daemon = None;
    std::fs::create_dir(&state).unwrap();
    let mut daemon = Command::new(built("front_loop"));
    let out = daemon.args([w.socket(), state.clone()]).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains(&*state.to_string_lossy()), "{said}");
}

#[test]
fn no_folders_are_made_for_a_socket() {
    let w = World::new("folders");
    let folder = w.dir.join("a");
    let args = [folder.join("b/c.sock"), folder.join("state.json")];
    let out = Command::new(built("front_loop")).args(args).output();
    assert!(!out.unwrap().status.success());
    assert!(!folder.exists());
}

#[test]
fn urgent_data_are_data_and_harm_nobody() {
    let w = World::new("urgent");
    w.run(&["urgent"]);
    w.run(&["open_close", "3"]);
}

#[test]
fn a_killed_program_closes_its_connections() {
    World::new("program").run(&["killed_program"]);
}

#[test]
fn listening_sockets() {
    let w = World::new("listening");
    w.run(&["full_queue"]);
    w.run(&["dead_listener"]);
    w.run(&["closed_listener"]);
    w.run(&["wildcard_conflict"]);
    w.run(&["shared_by_clients"]);
}

#[test]
fn listening_sockets_that_share_a_port() {
    open_to_all("shared").run(&["shared_port"]);
}

/// A script under the kernel, whose own sockets set the measure, and under WiFu.
fn as_the_kernel(w: &World, what: &str) {
    let mut kernels = w.script(&[what]);
    for variable in ["LD_PRELOAD", "WIFU_PROTOCOL", "WIFU_SOCKET"] {
        kernels.env_remove(variable);
    }
    let out = kernels.output().unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "the kernel: {err}");
    w.run(&[what]);
}

#[test]
fn a_socket_that_was_refused_keeps_its_options() {
    let w = World::new("refused");
    as_the_kernel(&w, "options_survive_a_refusal");
    as_the_kernel(&w, "a_shared_port_survives_a_refusal");
}

#[test]
fn closing_waits_as_long_as_a_socket_lingers() {
    as_the_kernel(&World::new("linger"), "linger_for_a_time");
}

#[test]
fn an_accepted_socket_has_the_options_of_its_listening_one() {
    as_the_kernel(&World::new("inherited"), "options_are_inherited");
}

#[test]
fn sockets_that_share_a_port_are_tuned_one_by_one() {
    as_the_kernel(&World::new("tuned-one"), "shared_port_tuned");
}

#[test]
fn tuning_is_at_nobodys_cost_who_waits_to_be_accepted() {
    as_the_kernel(&World::new("tuned-wait"), "tuned_while_clients_wait");
}

#[test]
fn what_the_others_had_not_acts_once_they_are_gone() {
    World::new("tuned-left").run(&["tuned_alone_at_last"]);
}

#[test]
fn back_pressure_reaches_the_sender() {
    World::new("slow").run(&["slow_reader", "20000000"]);
}

#[test]
fn what_waits_to_be_acknowledged_is_told() {
    World::new("outq").run(&["send_queue"]);
}

#[test]
fn a_small_send_buffer_is_one() {
    let w = World::new("sndbuf");
    let mut script = w.script(&["small_send_buffer"]);
    // It fills what the peer's host holds, by a few octets at a time: not by megabytes.
    script.env("WIFU_PROTOCOL", "tcp-newreno,profile=wifu-tahoe");
    let out = script.output().unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}\n{err}", out.status);
}

#[test]
fn mistakes_in_the_composition_are_told() {
    let w = World::new("mistakes");
    let out = w
        .script(&["unknown_protocol"])
        .env("WIFU_PROTOCOL", "tcp-nwreno")
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{err}");
    assert!(err.contains("tcp-nwreno"), "the reason is told: {err}");
}

#[test]
fn a_restarted_daemon_serves_running_programs() {
    let mut w = World::new("restart");
    let mut c = w.script(&["restart"]);
    let mut app = Running(
        c.stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut input = app.0.stdin.take().unwrap();
    let mut lines = BufReader::new(app.0.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("up"));
    w.daemon = None; // SIGKILL
    input.write_all(b"\n").unwrap();
    let reset = libc::ECONNRESET.to_string();
    assert_eq!(lines.next(), Some(reset.clone()));
    assert_eq!(lines.next(), Some(reset));
    assert_eq!(w.start(), "ready, 1 restored\n");
    input.write_all(b"\n").unwrap();
    assert_eq!(lines.next().as_deref(), Some("again"));
    assert!(app.0.wait().unwrap().success());
    // The listener died with its program: a third daemon finds nothing to restore.
    w.daemon = None;
    assert_eq!(w.start(), "ready, 0 restored\n");
}

#[test]
fn only_a_socket_that_nobody_answers_is_replaced() {
    let mut w = World::new("replaced");
    w.daemon = None; // SIGKILL: its socket stays
    assert!(w.socket().exists());
    w.start();
    w.run(&["open_close", "1"]);
    w.daemon = None;
    let (file, link) = (w.dir.join("file"), w.dir.join("link"));
    std::fs::write(&file, "kept").unwrap();
    std::os::unix::fs::symlink(w.socket(), &link).unwrap();
    for (path, what) in [
        (&file, "a file"),
        (&link, "a symbolic link"),
        (&w.dir, "a directory"),
    ] {
        let mut daemon = Command::new(built("front_loop"));
        let out = daemon.args([path, &w.dir.join("other.json")]).output();
        let said = String::from_utf8(out.unwrap().stderr).unwrap();
        assert!(
            said.contains(&format!("{} is {what}", path.display())),
            "{said}"
        );
        assert!(path.symlink_metadata().is_ok(), "{what} is still there");
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "kept");
    assert!(w.socket().exists(), "where the link leads");
}

#[test]
fn what_took_the_place_of_the_socket_stays() {
    let mut w = World::new("place");
    std::fs::remove_file(w.socket()).unwrap();
    std::fs::write(w.socket(), "kept").unwrap();
    let mut daemon = w.daemon.take().unwrap();
    // SAFETY: no pointers; our own child, which was not waited for.
    unsafe { libc::kill(daemon.0.id() as i32, libc::SIGTERM) };
    assert!(daemon.0.wait().unwrap().success());
    assert_eq!(std::fs::read_to_string(w.socket()).unwrap(), "kept");
}

#[test]
fn a_program_behind_another_root_reaches_the_daemon() {
    let mut w = World::new("chroot");
    let mut c = w.script(&["chrooted", "root"]);
    let (input, output) = (Stdio::piped(), Stdio::piped());
    let mut app = Running(c.stdin(input).stdout(output).spawn().unwrap());
    let mut said = BufReader::new(app.0.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "in");
    // Another daemon than the one that ran when the root changed.
    w.daemon = None;
    w.start();
    app.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(app.0.wait().unwrap().success());
}

#[test]
fn a_program_behind_another_root_has_no_way_out() {
    World::new("out").run(&["no_way_out", "root"]);
}

/// A program that says `in` once it has done something about its root, and goes on when the world
/// is another one.
fn behind_a_root(name: &str, what: &str, change: impl FnOnce(&mut World)) {
    let mut w = World::new(name);
    let mut c = w.script(&[what, "root"]);
    let (input, output) = (Stdio::piped(), Stdio::piped());
    let mut app = Running(c.stdin(input).stdout(output).spawn().unwrap());
    let mut said = BufReader::new(app.0.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "in");
    change(&mut w);
    app.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(app.0.wait().unwrap().success());
}

#[test]
fn who_takes_the_daemons_name_learns_no_key() {
    behind_a_root("robbed", "robbed_behind_a_root", |w| w.daemon = None);
}

#[test]
fn nobody_waits_for_who_takes_the_daemons_name() {
    behind_a_root("busy", "robbed_by_who_is_busy", |w| w.daemon = None);
}

#[test]
fn a_root_that_was_not_changed_leaves_the_way_as_it_was() {
    behind_a_root("unchanged", "root_refused", |w| {
        w.daemon = None;
        // The next daemon has another key, if it is asked for one.
        let _ = std::fs::remove_file(w.dir.join("listeners.key"));
        w.start();
    });
}

#[test]
fn the_door_for_programs_behind_roots_opens_to_the_key_alone() {
    use std::os::linux::net::SocketAddrExt;
    let mut w = World::new("key");
    let key_of = |w: &World| ask_as(0, w, &Request::Key).1.unwrap();
    let text = key_of(&w);
    let key = Key::parse(text.as_bytes()).unwrap();
    let file = w.dir.join("listeners.key");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let asked = |frames: &[Request<'_>]| {
        let name = key.name();
        let name = std::os::unix::net::SocketAddr::from_abstract_name(&name.as_bytes()[1..]);
        let mut s = UnixStream::connect_addr(&name.unwrap()).unwrap();
        for frame in frames {
            let mut room = [0; 256];
            let n = frame.encode(&mut room, 0).unwrap();
            // It may be closed by now.
            let _ = s.write_all(&room[..n]);
        }
        let mut answer = Vec::new();
        let _ = s.read_to_end(&mut answer);
        !answer.is_empty()
    };
    let secret = key.secret();
    let zeros = "0".repeat(secret.len());
    for daemon in 0..2 {
        let right = Request::Admit { secret };
        assert!(asked(&[right, Request::Ping]), "{daemon}");
        assert!(!asked(&[Request::Ping]));
        assert!(!asked(&[right, right, right]), "no frame but the first");
        for secret in ["", &zeros, &secret[1..]] {
            assert!(!asked(&[Request::Admit { secret }, Request::Ping]));
        }
        // It is the next daemon's, too.
        w.daemon = None;
        w.start();
        assert_eq!(key_of(&w), text);
    }
    // A key that is none is no reason to serve nobody.
    w.daemon = None;
    std::fs::write(&file, "0123").unwrap();
    w.start();
    assert_ne!(key_of(&w), text);
}

#[test]
fn a_second_daemon_is_refused() {
    let w = World::new("second");
    let mut c = Command::new(built("front_loop"));
    let out = c
        .args([w.socket(), w.dir.join("other.json")])
        .output()
        .unwrap();
    assert!(!out.status.success());
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("AddrInUse"),
        "{out:?}"
    );
    w.run(&["open_close", "1"]);
}

#[test]
fn garbage_is_refused_and_harms_nobody() {
    let w = World::new("garbage");
    let (fds, _) = w.cost();
    let mut seed = 1u64;
    for round in 0..300 {
        let mut s = UnixStream::connect(w.socket()).unwrap();
        s.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut bytes: Vec<u8> = (0..200 + round)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 33) as u8
            })
            .collect();
        match round % 4 {
            // A right header, then nonsense in the body.
            0 => bytes[..16].copy_from_slice(b"WIFU\x01\0\x01\0\x50\0\0\0\0\0\0\0"),
            // A body that is too long.
            1 => bytes[..16].copy_from_slice(b"WIFU\x01\0\x02\0\0\0\x01\0\0\0\0\0"),
            // An answer is no request.
            2 => bytes[..16].copy_from_slice(b"WIFU\x01\0\x64\0\x50\0\0\0\0\0\0\0"),
            _ => {}
        }
        let _ = s.write_all(&bytes);
        let mut got = Vec::new();
        // Closed with our bytes unread: an end or a reset, and no answer.
        let _ = s.read_to_end(&mut got);
        assert!(got.is_empty(), "round {round}: {got:?}");
    }
    w.run(&["open_close", "3"]);
    assert_eq!(w.cost().0, fds);
}

#[test]
fn half_a_frame_is_not_waited_for_forever() {
    let w = World::new("half");
    let mut s = UnixStream::connect(w.socket()).unwrap();
    s.write_all(b"WIFU\x01\0").unwrap();
    s.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let start = Instant::now();
    let _ = s.read_to_end(&mut Vec::new());
    let waited = start.elapsed().as_secs_f64();
    assert!((4.0..8.0).contains(&waited), "{waited} s");
}

#[test]
fn access_follows_the_mode() {
    // SAFETY: no pointers.
    if unsafe { libc::getuid() } != 0 {
        panic!("run as root: another user is tried");
    }
    let w = World::new("mode");
    std::fs::set_permissions(&w.dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(
        w.socket().metadata().unwrap().permissions().mode() & 0o777,
        0o660
    );
    let as_nobody = || {
        let code = "import os, socket; os.setgid(65534); os.setuid(65534); s = socket.socket(); \
                    print(s.connect_ex(('127.0.0.1', 1)))";
        let out = w.command("python3").args(["-c", code]).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(as_nobody(), libc::EACCES.to_string());
    std::fs::set_permissions(w.socket(), std::fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(as_nobody(), libc::ECONNREFUSED.to_string());
}

/// What the daemon answers this user: errno and text.
fn ask_as(uid: u32, w: &World, request: &Request<'_>) -> (u32, Option<String>) {
    let mut frame = [0; 1024];
    let n = request.encode(&mut frame, 0).unwrap();
    let (frame, path) = (frame[..n].to_vec(), w.socket());
    let asks = move || {
        // SAFETY: no pointers. The call itself, unlike libc's function, changes this thread only.
        let done = unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) };
        assert_eq!(done, 0, "run as root: other users are tried");
        let mut s = UnixStream::connect(path).unwrap();
        s.write_all(&frame).unwrap();
        let mut answer = Vec::new();
        s.read_to_end(&mut answer).unwrap();
        Header::decode(&answer).unwrap().unwrap();
        let a = Answer::decode(&answer[HEADER_LEN..]).unwrap();
        (a.errno, a.value.map(str::to_owned))
    };
    std::thread::spawn(asks).join().unwrap()
}

/// A world that other users reach.
fn open_to_all(name: &str) -> World {
    let w = World::new(name);
    for (path, mode) in [(w.dir.clone(), 0o755), (w.socket(), 0o666)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    w
}

#[test]
fn a_stolen_name_gets_no_connection() {
    let w = World::new("stolen");
    w.run(&["stolen_name", "0"]);
    w.run(&["stolen_name", "65534"]);
}

#[test]
fn low_ports_are_roots() {
    let w = open_to_all("ports");
    w.run(&["privileged_port"]);
    w.run(&["drops_privileges"]);
}

#[test]
fn users_reach_only_what_is_theirs() {
    const NOBODY: u32 = 65_534;
    const SPEC: &str = "tcp-newreno";
    let w = open_to_all("users");
    let mut server = w.script(&["serve_one", "7104"]);
    let mut server = Running(server.stdout(Stdio::piped()).spawn().unwrap());
    let mut said = BufReader::new(server.0.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "up");
    let list = |uid| -> Vec<serde_json::Value> {
        serde_json::from_str(&ask_as(uid, &w, &Request::Stats).1.unwrap()).unwrap()
    };
    let all = list(0);
    assert_eq!(all.len(), 3, "a listening socket and both ends: {all:?}");
    assert!(list(NOBODY).iter().all(|c| c["cookie"].is_null()));
    let cookie = |state: &str| {
        let c = all.iter().find(|c| c["state"] == state).unwrap();
        c["cookie"].as_u64().unwrap()
    };
    let (listening, open) = (cookie("LISTEN"), cookie("ESTAB"));

    // Connections of others.
    let errno = |uid, request: &Request<'_>| ask_as(uid, &w, request).0 as i32;
    assert_eq!(errno(0, &Request::Info { cookie: open }), 0);
    assert_eq!(errno(NOBODY, &Request::Info { cookie: open }), libc::ENOENT);
    assert_eq!(
        errno(NOBODY, &Request::Names { cookie: open }),
        libc::ENOENT
    );
    for cookie in [open, listening] {
        let set = Request::SetOpt {
            cookie,
            spec: SPEC,
            name: "rto_min",
            value: "777 ms",
        };
        errno(NOBODY, &set);
        let get = Request::GetOpt {
            cookie,
            spec: SPEC,
            name: "protocol",
        };
        let (_, spec) = ask_as(0, &w, &get);
        assert!(
            !spec.unwrap().contains("777"),
            "somebody else set an option"
        );
    }

    // Listening sockets of others.
    let inode = || -> Option<u64> {
        let table = std::fs::read_to_string("/proc/net/unix").unwrap();
        let mut lines = table
            .lines()
            .filter(|l| l.ends_with("@wifu/s/127.0.0.1/7104"));
        let line = lines.find(|l| l.contains(" 00010000 "))?;
        line.split_ascii_whitespace().nth(6)?.parse().ok()
    };
    let listen = |cookie, inode, port: u16| Request::Listen {
        cookie,
        inode,
        local: format!("127.0.0.1:{port}").parse().unwrap(),
        spec: SPEC,
        backlog: 1,
        options: Options(0),
    };
    let inode = inode().unwrap();
    let takes = |cookie, inode, port| errno(NOBODY, &listen(cookie, inode, port));
    assert_eq!(takes(listening, inode, 7104), libc::EPERM);
    assert_eq!(
        takes(listening + 1, inode, 7104),
        libc::EINVAL,
        "not its cookie"
    );
    assert_eq!(takes(open, inode, 7106), libc::EINVAL, "not its name");
    assert_eq!(takes(1, 1, 80), libc::EACCES);
    let mut after = list(0);
    after.retain(|c| c["state"] == "LISTEN");
    assert_eq!(after.len(), 1);
    assert_eq!(after[0]["uid"], 0);
}

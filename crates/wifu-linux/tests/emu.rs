//! What an emulation tells by files, and leaves behind when it cannot start. Needs root; namespaces
//! of its own.

mod common;

use std::net::UdpSocket;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use common::privileged;
use wifu_linux::emu::{Config, Emulation, Order, Overhear, Reply, Routing, socket_path};
use wifu_radio::topology::{Topology, resolve};
use wifu_wire::{Rng, Span};

/// Threads are counted: one test at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Threads of this process that run radios.
fn radios() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("/proc");
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    let names = tasks.flatten().flat_map(name);
    names.filter(|n| n.trim() == "emu-radio").count()
}

fn config(test: &str) -> Config {
    let rng = Rng::new(1);
    let topology = Topology::from_words("linear,2", None).expect("topology");
    Config {
        label: format!("t-{test}-{}", std::process::id()),
        plan: resolve(&topology, &rng).expect("plan"),
        movable: true,
        routing: Routing::None,
        rng,
        dilation: 1.0,
        spin: false,
        patience: Span(300_000),
        overhear: Overhear::Never,
        push_back: true,
        export: None,
    }
}

#[test]
fn an_export_leaves_files_of_others_alone() {
    if !privileged() {
        return;
    }
    let _alone = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let dir = std::env::temp_dir().join(format!("wifu-export-{}", std::process::id()));
    let config = Config {
        export: Some(dir.clone()),
        ..config("export")
    };
    let foreign = dir.join("n2/sample");
    std::fs::create_dir_all(dir.join("n2")).expect("directory");
    std::fs::write(&foreign, "somebody else's").expect("file");
    let failed = Emulation::start(config.clone()).err().expect("refused");
    assert!(failed.to_string().contains("not ours"), "{failed}");
    let kept = std::fs::read_to_string(&foreign).expect("it is there");
    assert_eq!(kept, "somebody else's");
    assert!(!dir.join("n1").exists(), "what was begun is gone");
    std::fs::remove_file(foreign).expect("removal");
    let emulation = Emulation::start(config).expect("emulation");
    assert!(dir.join("n2/Da").exists());
    drop(emulation);
    std::fs::remove_dir(&dir).expect("nothing is left in it");
}

#[test]
fn an_emulation_that_cannot_be_controlled_ends() {
    if !privileged() {
        return;
    }
    let _alone = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let config = config("start");
    let socket = socket_path(&config.label);
    let directory = socket.parent().expect("a directory").to_owned();
    std::fs::create_dir_all(&directory).expect("directory");
    std::fs::write(&socket, "in the way").expect("file");
    let failed = Emulation::start(config.clone()).err();
    assert!(failed.is_some_and(|e| e.to_string().contains("control.sock")));
    assert_eq!(radios(), 0, "its radio runs on");
    assert!(!directory.exists());
    let emulation = Emulation::start(config).expect("emulation");
    assert_eq!(radios(), 1);
    drop(emulation);
    let deadline = Instant::now() + Duration::from_secs(5);
    while radios() > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(radios(), 0);
}

#[test]
fn how_busy_the_medium_is_stands_in_a_file_until_it_is_quiet() {
    if !privileged() {
        return;
    }
    let _alone = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let emulation = Emulation::start(config("busy")).expect("emulation");
    let [a, b] = [0, 1].map(|i| emulation.hosts()[i].clone());
    let file = emulation.export().join(&b.name).join("busy");
    // Thousandths, written as millionths.
    let share = || {
        let text = std::fs::read_to_string(&file).expect("file");
        text.lines()
            .next()
            .map(|l| l.parse::<f64>().expect("a number") / 1e6)
    };
    let within = |what: &str, holds: &dyn Fn(f64) -> bool| {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !share().is_some_and(holds) {
            assert!(Instant::now() < deadline, "{what}: {:?}", share());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    within("nothing was sent", &|s| s == 0.0);
    let mut ping = a.namespace.command("ping").expect("namespace");
    let to = b.address.to_string();
    let ping = ping.args(["-q", "-i", "0.002", "-s", "1400", "-w", "30", &to]);
    let mut ping = ping
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("ping");
    // From the limit on from which a node is not idle (Behaviour 7.4).
    within("pings", &|s| s > 0.05);
    // Both are of the last tenth of a second.
    let mut apart = Vec::new();
    for _ in 0..100 {
        let Ok(Reply::Nodes(nodes)) = emulation.control().ask(Order::Nodes) else {
            panic!("no answer");
        };
        apart.push((nodes[1].busy - share().expect("a share")).abs());
        std::thread::sleep(Duration::from_millis(10));
    }
    apart.sort_by(f64::total_cmp);
    assert!(apart[50] < 0.1, "{apart:?}");
    ping.kill().expect("ping");
    ping.wait().expect("ping");
    within("nothing is sent", &|s| s == 0.0);
}

/// How many frames of a hundred questions and answers, and what else kernels sent, entered the
/// model with a delivery.
fn answered_at_once(patience: Span) -> u64 {
    let config = Config {
        patience,
        ..config("answers")
    };
    let emulation = Emulation::start(config).expect("emulation");
    let [a, b] = [0, 1].map(|i| emulation.hosts()[i].clone());
    let server = (b.address, 7_000);
    let bound = |address| move || UdpSocket::bind(address);
    let echo = b.namespace.run(bound(server)).expect("namespace");
    let echo = echo.expect("socket");
    let asks = a.namespace.run(bound((a.address, 0))).expect("namespace");
    let asks = asks.expect("socket");
    for socket in [&echo, &asks] {
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("timeout");
    }
    let program = std::thread::spawn(move || {
        let mut buffer = [0; 100];
        for _ in 0..100 {
            let (bytes, from) = echo.recv_from(&mut buffer).expect("a question");
            echo.send_to(&buffer[..bytes], from).expect("an answer");
        }
    });
    let mut buffer = [0; 100];
    for _ in 0..100 {
        asks.send_to(&[0; 50], server).expect("a question");
        asks.recv_from(&mut buffer).expect("an answer");
        // Whoever asks anew at once has answered, too.
        std::thread::sleep(Duration::from_millis(10));
    }
    program.join().expect("program");
    let Ok(Reply::Status(status)) = emulation.control().ask(Order::Status) else {
        panic!("no answer");
    };
    status.at_once
}

#[test]
fn what_programs_answer_enters_with_what_they_answer() {
    if !privileged() {
        return;
    }
    let _alone = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let (waited, none) = (
        answered_at_once(Span::MILLI * 5),
        answered_at_once(Span::ZERO),
    );
    assert!(waited >= 90, "{waited}");
    // Address resolution is the kernel's.
    assert!(none <= 10, "{none}");
}

//! What an emulation that cannot start leaves behind. Needs root; namespaces of its own.

mod common;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use common::privileged;
use wifu_linux::emu::{Config, Emulation, Overhear, Routing, socket_path};
use wifu_radio::topology::{Topology, resolve};
use wifu_wire::Rng;

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

//! `--scenario`: nodes move, links are cut and routes follow as in the simulator.

use super::*;
use wifu_sim::scenario::Scenario;
use wifu_sim::stage::Stage;

/// Three nodes, each in reach of its neighbours only; `more` is what changes.
fn scenario(more: &str) -> String {
    format!(
        "seed = 7\n[topology.placement]\nkind = \"line\"\ncount = 3\nspacing_m = 60.0\n\
         [topology.propagation]\nanchor = {{ snr_db = 12.0, distance_m = 60.0 }}\n\
         [routing]\nkind = \"shortest\"\n{more}"
    )
}

/// Model time, s.
fn seconds(emu: &Emu) -> f64 {
    emu.ctl("status")["data"]["seconds"]
        .as_f64()
        .expect("seconds")
}

/// How n1's kernel reaches n3: by whom, or not.
fn way(emu: &Emu) -> String {
    let output = emu.on("n1", "ip", &["-o", "route", "get", "10.0.0.3"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let via = text.split(" via ").nth(1).and_then(|t| t.split(' ').next());
    match (output.status.success(), via) {
        (false, _) => String::from("nowhere"),
        (true, None) => String::from("direct"),
        (true, Some(via)) => via.into(),
    }
}

/// Model time since `zero` when n1's kernel first had this way to n3.
fn when(emu: &Emu, zero: f64, expected: &str) -> f64 {
    let limit = Instant::now() + Duration::from_secs(30);
    while way(emu) != expected {
        assert!(Instant::now() < limit, "{} to the end", way(emu));
        std::thread::sleep(Duration::from_millis(10));
    }
    seconds(emu) - zero
}

#[test]
fn nodes_are_where_the_simulator_has_them_at_each_time() {
    if !privileged() {
        return;
    }
    let text = scenario(
        "[[mobility]]\nkind = \"waypoint\"\narea = [0, 0, 120, 60]\nspeed = [2, 9]\npause = 0.3\n",
    );
    let dir = Scratch::new("moves");
    let file = dir.0.join("walk.toml");
    std::fs::write(&file, &text).expect("a file");
    let emu = Emu::start(
        "walk",
        &["--scenario", file.to_str().expect("UTF-8"), "--hold"],
    );
    let places = |emu: &Emu| -> Vec<[f64; 2]> {
        let rows = emu.ctl("nodes")["data"].clone();
        let rows = rows.as_array().expect("rows").iter();
        let number = |v: &Value| v.as_f64().expect("metres");
        rows.map(|r| [number(&r["position"][0]), number(&r["position"][1])])
            .collect()
    };
    std::thread::sleep(Duration::from_millis(300));
    let line = vec![[0.0, 0.0], [60.0, 0.0], [120.0, 0.0]];
    assert_eq!(places(&emu), line, "held");
    let before = seconds(&emu);
    emu.done("play");
    let after = seconds(&emu);
    assert_eq!(emu.ctl("play")["ok"], false, "it plays already");
    let mut stage = Stage::new(&Scenario::from_toml(&text).expect("a scenario")).expect("a stage");
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(370));
        let from = seconds(&emu) - after;
        let seen = places(&emu);
        let to = seconds(&emu) - before;
        let mut candidates = Vec::new();
        while stage.next().as_secs_f64() <= to {
            let now = stage.next();
            stage.step(now, &mut |_| {});
            let here = stage
                .plan()
                .nodes
                .iter()
                .map(|n| n.position.expect("metres"));
            let here: Vec<[f64; 2]> = here.map(|p| [p[0], p[1]]).collect();
            // It holds until the next step, 0.1 s later.
            if now.as_secs_f64() >= from - 0.1 {
                candidates.push(here);
            }
        }
        // JSON may round the last bit.
        let same = |c: &Vec<[f64; 2]>| {
            let pairs = c.iter().flatten().zip(seen.iter().flatten());
            pairs.fold(0.0, |most: f64, (a, b)| most.max((a - b).abs())) < 1e-9
        };
        assert!(
            candidates.iter().any(same),
            "{seen:?} between {from:.3} and {to:.3} s, not one of {candidates:?}"
        );
    }
    assert_ne!(places(&emu), line, "they did move");
}

#[test]
fn the_kernels_routes_follow_cuts_and_movements_and_outlive_a_restart() {
    if !privileged() {
        return;
    }
    // n1 reaches n3 by n2; without n2 by itself, until it has gone too far.
    let text = scenario(
        "[[event]]\nat = 1.4\ncut = [\"n1\", \"n2\"]\n\
         [[event]]\nat = 3\nrestore = [\"n2\", \"n1\"]\n\
         [[mobility]]\nkind = \"trace\"\nrows = [[0, \"n3\", 90, 0], [4.1, \"n3\", 90, 0], \
         [5, \"n3\", 135, 0], [7.1, \"n3\", 135, 0], [8, \"n3\", 9000, 0]]\n",
    );
    let dir = Scratch::new("routes");
    let file = dir.0.join("routes.toml");
    std::fs::write(&file, &text).expect("a file");
    let emu = Emu::start(
        "cuts",
        &["--scenario", file.to_str().expect("UTF-8"), "--hold"],
    );
    let ping = |args: &[&str]| emu.on("n1", "ping", args).status.success();
    let zero = seconds(&emu);
    emu.done("play");
    // At 90 m n3 hears n1 well enough to be its neighbour.
    let direct = when(&emu, zero, "direct");
    assert!(direct >= 0.0, "{direct}");
    while emu.link("n1", "n2")["cut"] == false {
        assert!(seconds(&emu) - zero < 30.0, "it is never cut");
        std::thread::sleep(Duration::from_millis(10));
    }
    let cut = seconds(&emu) - zero;
    assert!(cut >= 1.4, "cut at {cut} s");
    let around = emu.on("n1", "ip", &["-o", "route", "get", "10.0.0.2"]);
    println!("{}", String::from_utf8_lossy(&around.stdout));
    let via = when(&emu, zero, "10.0.0.2");
    assert!(via >= 5.0, "too far since 5 s, noticed at {via} s");
    if via < 7.0 {
        assert!(
            ping(&["-c", "3", "-i", "0.2", "-W", "2", "10.0.0.3"]),
            "by n2"
        );
    }
    let nowhere = when(&emu, zero, "nowhere");
    assert!(nowhere >= 8.0, "gone since 8 s, noticed at {nowhere} s");
    emu.done("restart n1 0.1");
    assert_eq!(way(&emu), "nowhere", "not the routes of the beginning");
    let status = emu.ctl("status")["data"].clone();
    assert!(status["reroutes"].as_u64() >= Some(4), "{status}");
    emu.done("move n3 60 30");
    assert_eq!(way(&emu), "nowhere", "moves by hand change no routes");
}

#[test]
fn a_source_that_is_no_802_11_silences_who_hears_it() {
    if !privileged() {
        return;
    }
    let dir = Scratch::new("oven");
    let file = dir.0.join("oven.toml");
    let text = "words = \"linear,3\"\nset = \"TB-W3\"\n[[interferer]]\n\
                received_dbm = { n3 = -40 }\n";
    std::fs::write(&file, text).expect("a file");
    let emu = Emu::start("oven", &["--topo", file.to_str().expect("UTF-8")]);
    let ping = |to: &str| {
        let args = ["-c", "5", "-i", "0.2", "-W", "1", to];
        emu.on("n1", "ping", &args).status.success()
    };
    assert!(ping("10.0.0.2"), "n2 does not hear it");
    assert!(!ping("10.0.0.3"), "n3 is deaf and mute");
    let link = emu.link("n2", "n3");
    println!("{link}");
    assert!(link["failed"].as_u64() >= Some(5), "{link}");
}

#[test]
fn what_no_emulation_can_do_is_refused_before_it_begins() {
    let dir = Scratch::new("refused");
    let refused = |name: &str, text: &str, args: &[&str]| {
        let file = dir.0.join(name);
        std::fs::write(&file, text).expect("a file");
        let output = Command::new(WIFU)
            .args(["emu", "--dry-run", "--scenario"])
            .arg(&file)
            .args(args)
            .output()
            .expect("wifu emu");
        assert!(!output.status.success(), "{name}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = refused("olsr.toml", &scenario("olsr = {}\n"), &[]);
    assert!(
        said.contains("routing.olsr: runs in the simulator only"),
        "{said}"
    );
    let said = refused(
        "split.toml",
        &scenario("[[split]]\nnodes = [\"n2\"]\n"),
        &[],
    );
    assert!(said.contains("split: runs in the simulator only"), "{said}");
    let said = refused("host.toml", &scenario("[host]\nmtu = 1400\n"), &[]);
    assert!(
        said.contains("host: hosts are this machine's kernels"),
        "{said}"
    );
    let said = refused("py.toml", &scenario("[host]\nprofile = \"py\"\n"), &[]);
    assert!(
        said.contains("host.profile = \"py\": acts in daemons, which --serve starts"),
        "{said}"
    );
    let said = refused(
        "strict.toml",
        &scenario("[host]\nlanes = \"strict\"\n"),
        &[],
    );
    assert!(
        said.contains("host.lanes = \"strict\": acts in daemons, which --serve starts"),
        "{said}"
    );
    let events = "[[event]]\nat = 1\ncut = [\"n1\", \"nx\"]\n";
    let said = refused("cut.toml", &scenario(events), &[]);
    assert!(said.contains("event.1.cut: no node `nx`"), "{said}");
    let said = refused("two.toml", &scenario(""), &["--topo", "linear,3"]);
    assert!(said.contains("--topo"), "{said}");
    let output = Command::new(WIFU)
        .args(["emu", "--dry-run", "--hold"])
        .output()
        .expect("wifu emu");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("that takes --scenario"), "{said}");
}

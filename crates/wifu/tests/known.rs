//! What the command knows: handlers and formats beside parts and protocols, and files of
//! compositions.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value as Json;

fn wifu(args: &[&str], told: &str) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wifu"));
    let output = command.args(args).env("WIFU_FILE", told).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

fn said(args: &[&str]) -> String {
    let (ok, said) = wifu(args, "");
    assert!(ok, "{args:?}: {said}");
    said
}

fn json(args: &[&str]) -> Json {
    serde_json::from_str(&said(args)).unwrap()
}

/// A file that is removed in the end.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let name = format!("wifu-known-{}-{name}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        File(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn handlers_are_listed_and_described() {
    assert!(said(&["list", "handlers"]).contains("\n  tpa-shim "));
    let text = said(&["describe", "drop"]);
    assert!(
        text.starts_with("drop (handler)") && text.contains("Parameters"),
        "{text}"
    );
    let text = said(&["describe", "tpa-shim"]);
    assert!(
        text.contains("Inserts") && text.contains("Annotation max_delay"),
        "{text}"
    );
    let all = json(&["list", "--json"]);
    let drop = &json(&["describe", "drop", "--json"]);
    assert_eq!(drop["params"][0]["name"], "p");
    assert!(all["handlers"].as_array().unwrap().contains(drop));
    assert!(!wifu(&["describe", "drpo"], "").0);
}

#[test]
fn formats_say_each_word_and_who_writes_it_on_which_type() {
    assert!(said(&["list", "formats"]).contains("\n  atp "));
    let atp = json(&["describe", "format:atp", "--json"]);
    let words = atp["words"].as_array().unwrap();
    let told = |w: &&Json| !w["zero"].as_str().unwrap().is_empty();
    assert!(words.iter().any(|w| told(&w)), "what zero means");
    let types: Vec<&str> = atp["types"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|t| t["name"].as_str())
        .collect();
    for w in words {
        for (on, by) in w["writers"].as_object().unwrap() {
            assert!(types.contains(&on.as_str()) && by.is_string(), "{w}");
        }
    }
    assert!(words.iter().any(|w| {
        w["writers"]
            .as_object()
            .unwrap()
            .values()
            .any(|b| b != "end")
    }));
    // The protocol has its name, and says so.
    let text = said(&["describe", "atp"]);
    assert!(text.starts_with("atp (protocol)"), "{text}");
    assert!(text.contains("wifu describe format:atp"), "{text}");
    assert!(!wifu(&["describe", "part:atp"], "").0);
    let text = said(&["describe", "format:atp"]);
    for part in ["Packet types", "Zero means: ", "end and hop", "UDP: port"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let tcp = json(&["describe", "tcp", "--json"]);
    let seq = tcp["words"]
        .as_array()
        .unwrap()
        .iter()
        .find(|w| w["name"] == "seq")
        .unwrap();
    assert_eq!(
        (&seq["byte"], &seq["bits"]),
        (&Json::from(4), &Json::from(32))
    );
}

#[test]
fn a_file_that_is_not_there_has_a_near_name() {
    let file = File::new(
        "near",
        "[protocol.near]\nextends = \"tcp-reno\"\nnumber = 240\n",
    );
    let wrong = file.path().replace("near.toml", "naer.toml");
    let question = format!(
        "{wrong}: there is no such file; did you mean `{}`?",
        file.path()
    );
    for words in [
        &["check", &wrong][..],
        &["list", "protocols", "--file", &wrong],
    ] {
        let (ok, said) = wifu(words, "");
        assert!(!ok && said.contains(&question), "{words:?}: {said}");
    }
    let (ok, said) = wifu(&["check", "/nonexistent/mine.toml"], "");
    assert!(!ok && said.contains("No such file or directory"), "{said}");
}

#[test]
fn who_lacks_a_library_is_told_how_to_load_it() {
    let file = File::new(
        "lacks",
        "[protocol.lacks]\nextends = \"tcp-reno\"\nnumber = 240\njudge = \"late-loss\"\n",
    );
    let sim = ["sim", "--topo", "linear,2", "--protocol"];
    for words in [
        &["check", file.path()][..],
        &["mock", "--file", file.path(), "--protocol", "lacks"],
        &[&sim[..], &["tcp-reno,judge=late-loss"]].concat(),
    ] {
        let (ok, said) = wifu(words, "");
        let hint = "parts of your own come with their library: --load LIBRARY";
        assert!(!ok && said.contains(hint), "{words:?}: {said}");
    }
    let (ok, said) = wifu(&["mock", "--protocol", "mine"], "");
    assert!(!ok && said.contains("come with --file FILE.toml"), "{said}");
    let (ok, said) = wifu(&["check", "tcp-reno,iwx=4"], "");
    assert!(!ok && !said.contains("of your own"), "{said}");
}

#[test]
fn sizes_that_64_bits_do_not_hold_are_refused() {
    let wrong = "17179869184GiB";
    let sim = ["sim", "--topo", "linear,2", "-p", "tcp-reno", "-n", wrong];
    for words in [
        &sim[..],
        &["mock", "-p", "tcp-reno", "--time", "1s", "--bytes", wrong],
    ] {
        let (ok, said) = wifu(words, "");
        let why = format!("\"{wrong}\" is 16 EiB or more");
        assert!(!ok && said.contains(&why), "{words:?}: {said}");
    }
}

#[test]
fn files_add_to_each_other_and_to_those_of_the_environment() {
    let one = File::new(
        "one",
        "[protocol.one]\nextends = \"tcp-reno\"\nnumber = 240\n",
    );
    let two = File::new("two", "[protocol.two]\nextends = \"one\"\nnumber = 241\n");
    let mock = ["mock", "-p", "two", "--bytes", "10k", "--file"];
    let both = [&mock[..], &[one.path(), "--file", two.path()]].concat();
    assert!(wifu(&both, "").0);
    let alone = [&mock[..], &[two.path()]].concat();
    assert!(wifu(&alone, one.path()).0, "one is told by the environment");
    let (ok, said) = wifu(&alone, "");
    assert!(!ok && said.contains("one"), "{said}");
    let sim = [
        "sim", "--topo", "linear,2", "--set", "TB-W9", "-p", "two", "-n", "10k",
    ];
    assert!(wifu(&sim, &format!("{}:{}", one.path(), two.path())).0);
    let check = ["check", two.path(), "--file", one.path()];
    assert!(wifu(&check, "").1.contains("two: ok"));
    let listed = wifu(&["list", "protocols", "--file", one.path()], "").1;
    assert!(listed.contains("\n  one "), "{listed}");
    assert!(
        wifu(&["perf", "-C", "list", "--file", one.path()], "")
            .1
            .contains("\n  one ")
    );
    let emu = [
        "emu",
        "--topo",
        "linear,2",
        "--dry-run",
        "--file",
        "/nonexistent.toml",
    ];
    assert!(
        !wifu(&emu, "").0,
        "a file that is not there is said at once"
    );
}

/// Libraries and files of compositions have an option each; who takes one for the other is told.
#[test]
fn a_library_is_no_file_of_compositions() {
    let elf = env!("CARGO_BIN_EXE_wifu");
    for library in ["libmine.so", "/nonexistent/libmine.so", elf] {
        for args in [
            &[
                "sim", "--topo", "linear,2", "-p", "tcp-reno", "--file", library,
            ][..],
            &["check", "./libmine.so", "--file", library],
        ] {
            let (ok, told) = wifu(args, "");
            let meant =
                format!("{library}: this is a shared library, which --load {library} loads");
            assert!(!ok && told.contains(&meant), "{told}");
        }
    }
    let (ok, told) = wifu(&["list", "--load", "mine.toml"], "");
    let meant = "--load mine.toml: this is no shared library; a TOML file with compositions is";
    assert!(!ok && told.contains(meant), "{told}");
}

/// A protocol that brings handlers, and one that brings none.
const BRINGS: &str = "[protocol.shimmed]\nextends = \"tcp-newreno\"\nnumber = 240\n\
    [handlers.shimmed]\nchain = [\"tpa-shim\"]\n\
    [protocol.bare]\nextends = \"tcp-newreno\"\nnumber = 241\n";

#[test]
fn what_brings_handlers_does_not_run_where_they_cannot_act() {
    let file = File::new("brings", BRINGS);
    let why =
        "shimmed brings handlers (tpa-shim), which act in `wifu sim` and `wifu daemon --serve`";
    let mock = |name| {
        let known = ["--file", file.path(), "--bytes", "20k", "--set", "iw=2"];
        wifu(&[&["mock", "--protocol", name], &known[..]].concat(), "")
    };
    let (ok, said) = mock("shimmed");
    assert!(!ok && said.contains(why), "{said}");
    assert!(mock("bare").0);
}

#[test]
fn check_says_on_which_substrate_a_protocol_acts() {
    let file = File::new("acts", BRINGS);
    let check = |on| wifu(&["check", file.path(), "--substrate", on], "");
    assert!(wifu(&["check", file.path()], "").0);
    for on in ["sim", "emu", "live"] {
        assert!(check(on).0, "{on}");
    }
    let (ok, said) = check("mock");
    let why = "handlers.shimmed: shimmed brings handlers (tpa-shim), which act in `wifu sim`";
    assert!(!ok && said.contains(why), "{said}");
    assert!(said.contains("bare: ok") && !said.contains("shimmed: ok"));
    let (ok, said) = check("lab");
    assert!(
        !ok && said.contains("there are sim, mock, emu, live"),
        "{said}"
    );
}

#[test]
fn check_says_what_a_part_goes_without_and_what_it_does_then() {
    let check = |spec: &str, on| wifu(&["check", spec, "--substrate", on], "");
    let (ok, said) = check("tcp-ap11", "sim");
    assert!(ok && said.contains("tcp-ap11: ok"), "{said}");
    // Plans have received powers only; it moves no estimate.
    let why = "ap11 goes without site.tx_power_dbm (transmit power), which is not known in `wifu \
               sim`: l1_db is not reported unless tx_power_dbm is set; it is in `wifu daemon \
               --serve` on Wi-Fi";
    assert!(said.contains(why), "{said}");
    assert_eq!(said.matches("goes without").count(), 1, "{said}");
    let (ok, said) = check("tcp-ap11", "live");
    let why = "ap11 goes without site.sense_dbm (carrier-sense threshold), which is not known in \
               `wifu daemon`: H_cs is 3 unless sense_dbm is set; it is in `wifu sim` with radios";
    assert!(ok && said.contains(why), "{said}");
    let (_, said) = check("tcp-ap11,sense_dbm=-90", "live");
    assert!(!said.contains("site.sense_dbm"), "{said}");
    let (_, said) = check("tcp-ap05", "emu");
    assert!(
        said.contains("it takes links of 24 Mb/s unless bandwidth is set"),
        "{said}"
    );
    let (ok, said) = check("ap-next", "sim");
    assert!(ok && !said.contains("goes without"), "{said}");
    let (ok, said) = check("ap-next", "mock");
    let why = "learned hears frames for other stations, which it is not shown in `wifu mock`";
    assert!(!ok && said.contains(why), "{said}");
    let (ok, said) = check("tcp-ap12", "live");
    assert!(!ok && said.contains("did you mean"), "{said}");
}

#[test]
fn check_names_the_nearest_of_what_is_no_file() {
    let check = |spec: &str| wifu(&["check", spec], "");
    let (ok, said) = check("tcp-vegass");
    assert!(!ok && said.contains("did you mean `tcp-vegas`"), "{said}");
    let (ok, said) = check("tcp-newreno,gama=2");
    assert!(
        !ok && said.contains("gama") && !said.contains("reading"),
        "{said}"
    );
    for file in ["there/is-none", "mine.toml"] {
        let (ok, said) = check(file);
        assert!(!ok && said.contains(&format!("reading {file}")), "{said}");
    }
}

#[test]
fn a_limit_by_hops_is_refused_where_nobody_counts_them() {
    let part = said(&["describe", "hop-window"]);
    let either =
        "  Requires site.route_hops (hops by the routing table), or a part that writes path\n";
    assert!(part.contains(either), "{part}");
    let check = |spec: &str, on| wifu(&["check", spec, "--substrate", on], "");
    let bare = "tcp-newreno,gates.add=hop-window";
    let counts = "tcp-newreno,gates.add=hop-window,watch.add=ttl-hops";
    assert!(check(bare, "sim").0);
    for (on, place) in [("mock", "mock"), ("emu", "emu"), ("live", "daemon")] {
        let (ok, said) = check(bare, on);
        let why = format!(
            "hop-window requires site.route_hops (hops by the routing table), which is \
             not known in `wifu {place}`; it is in `wifu sim` with radios, `wifu sim` over wires; \
             a part that writes path stands in for site.route_hops"
        );
        assert!(!ok && said.contains(&why), "{said}");
        assert!(check(counts, on).0, "{on}");
    }
    // Pacers that take the path for one hop until they know.
    let (by_ttl, by_route) = ("tcp-newreno,gates.add=ap05", "tcp-newreno,gates.add=ap11");
    let (ok, said) = check(by_ttl, "sim");
    assert!(
        !ok && said.contains("ap05 reads path, which nothing"),
        "{said}"
    );
    assert!(check(by_route, "sim").0);
    let (ok, said) = check(by_route, "live");
    assert!(
        !ok && said.contains("ap11 requires site.route_hops"),
        "{said}"
    );
    let (ok, said) = check("tcp-newreno,gates.add=ap11,ap_hops=ttl", "sim");
    let why = "ap11 with ttl needs watch = ttl-hops, but here it is missing";
    assert!(!ok && said.contains(why), "{said}");
    let (ok, said) = check("tcp-ap11,ap_hops=ttl", "live");
    assert!(
        ok && said.contains("it counts hops by the TTL of what arrives"),
        "{said}"
    );
    let mock = |spec| wifu(&["mock", "--protocol", spec, "--bytes", "20k"], "").0;
    assert!(!mock(bare) && mock(counts));
}

#[test]
fn what_a_protocol_brings_is_described() {
    let file = File::new("described", BRINGS);
    let describe = |name: &str| said(&["describe", name, "--file", file.path()]);
    let text = describe("shimmed");
    assert!(text.contains("Brings handlers: tpa-shim.\n"), "{text}");
    assert!(text.contains("add 12 bytes"), "{text}");
    assert!(!describe("bare").contains("Brings"));
    let all = json(&["describe", "shimmed", "--json", "--file", file.path()]);
    assert_eq!(all["brings"]["handlers"][0]["use"], "tpa-shim");
    assert_eq!(all["brings"]["adds"], 12);
}

#[test]
fn annotations_and_the_shim_are_listed_and_described() {
    assert!(said(&["list", "annotations"]).contains("\n  max_delay "));
    let text = said(&["describe", "max_delay"]);
    assert!(text.contains("Written by tpa-shim"), "{text}");
    let text = said(&["describe", "unserved"]);
    assert!(text.contains("read by the engine"), "{text}");
    // What the node reads is known before anybody writes it.
    for (name, by) in [
        ("priority", "nobody here"),
        ("feedback", "epochs, delay-collector"),
        ("deadline", "nobody here"),
    ] {
        assert!(said(&["list", "annotations"]).contains(&format!("\n  {name} ")));
        let text = said(&["describe", name]);
        let written = format!("Written by {by}; read by the node.");
        assert!(text.contains(&written), "{text}");
    }
    assert!(said(&["list", "formats"]).contains("\n  shim "));
    assert!(said(&["describe", "shim"]).starts_with("shim (wire format)"));
}

#[test]
fn a_full_disk_is_an_error_and_no_panic() {
    let full = std::fs::File::create("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wifu"));
    let output = command.args(["list", "parts"]).stdout(full).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.starts_with("wifu: standard output: No space left"),
        "{said}"
    );
    // Where both are closed, as in a pipe to `head`, nothing can be said of it.
    for words in [&["list", "parts"][..], &["list", "nothing"]] {
        let full = || std::fs::File::create("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_wifu"));
        let status = command.args(words).stdout(full()).stderr(full()).status();
        assert_eq!(status.unwrap().code().map(|code| code > 0), Some(true));
    }
}

#[test]
fn a_number_of_the_kernels_is_refused_for_hosts_and_not_for_the_simulator() {
    let mine = "[protocol.mine]\nextends = \"tcp-sack\"\nnumber = 17\n";
    let file = File::new("number", mine);
    let path = file.0.display().to_string();
    for (on, fine) in [
        ("sim", true),
        ("mock", true),
        ("emu", false),
        ("live", false),
    ] {
        let (ok, said) = wifu(&["check", &path, "--substrate", on], "");
        assert_eq!(ok, fine, "{said}");
        assert_eq!(
            said.contains("number 17 belongs to the kernel"),
            !fine,
            "{said}"
        );
    }
}

#[test]
fn the_simulator_says_of_numbers_that_daemons_would_refuse() {
    let short = ["--topo", "linear,2", "--bytes", "10k"];
    for (number, why) in [
        (
            "",
            Some("IP protocol 216 is that of tcp-sack, and of what extends it"),
        ),
        (
            "number = 17\n",
            Some("IP protocol number 17 belongs to the kernel"),
        ),
        ("number = 240\n", None),
    ] {
        let mine = format!("[protocol.mine]\nextends = \"tcp-sack\"\n{number}");
        let file = File::new("sim-number", &mine);
        let words = ["sim", "--file", file.path(), "--protocol", "mine,iw=2"];
        let (ok, said) = wifu(&[&words[..], &short].concat(), "");
        assert!(ok, "{said}");
        let told = said
            .lines()
            .find(|l| l.starts_with("Note: mine: IP protocol"));
        assert_eq!(told.is_some(), why.is_some(), "{said}");
        let needs = told.is_none_or(|l| l.contains(why.unwrap_or("-")) && l.contains("emu, live"));
        assert!(needs, "{said}");
    }
}

#[test]
fn a_parameter_of_the_lane_is_found_without_its_prefix() {
    for (word, question) in [
        ("cache=3", "did you mean `lane.cache`?"),
        ("cach=3", "did you mean `lane.cache`?"),
        ("lane.cach=3", "did you mean `cache`?"),
        ("blok=3", "did you mean `block`?"),
    ] {
        let (ok, said) = wifu(&["check", &format!("hop,{word}")], "");
        assert!(!ok && said.contains(question), "{word}: {said}");
        let flow = format!("n1:n2:hop,{word}");
        let (ok, said) = wifu(&["sim", "--topo", "linear,2", "--flow", &flow], "");
        assert!(!ok && said.contains(question), "{word}: {said}");
    }
}

#[test]
fn series_without_a_trace_say_what_is_missing() {
    let (ok, said) = wifu(
        &["sim", "--topo", "linear,2", "--series", "flow.1.cwnd"],
        "",
    );
    let told = "--series flow.1.cwnd: says what --trace writes, and there is none: --trace FILE";
    assert!(!ok && said.contains(told), "{said}");
}

#[test]
fn check_warns_of_a_number_that_is_not_free_and_says_whence_it_is() {
    for (number, why) in [
        ("number = 17", "mine: ok"),
        (
            "number = 17",
            "number 17 belongs to the kernel; 143 to 252 are unassigned",
        ),
        (
            "number = 89",
            "number 89 is assigned to another protocol; 143 to 252 are unassigned",
        ),
        (
            "",
            "of tcp-sack, and of what extends it without a number of its own: give `number = N`",
        ),
    ] {
        let mine = format!("[protocol.mine]\nextends = \"tcp-sack\"\n{number}\n");
        let file = File::new("foreign", &mine);
        let (_, said) = wifu(&["check", file.path()], "");
        assert!(said.contains(why), "{said}");
    }
    let file = File::new(
        "free",
        "[protocol.mine]\nextends = \"tcp-sack\"\nnumber = 240\n",
    );
    let (_, said) = wifu(&["check", file.path()], "");
    assert!(
        said.contains("mine: ok") && !said.contains("warning"),
        "{said}"
    );
    let file = File::new(
        "wrong",
        "[protocol.mine]\nextends = \"tcp-sack\"\nfoo = 1\n",
    );
    let (_, said) = wifu(&["check", file.path()], "");
    let told = format!("{}: protocol.mine.foo: unknown key", file.path());
    assert!(said.contains(&told), "{said}");
}

/// Who takes over a known name is told so, once for each file, and not where nothing is other.
#[test]
fn a_protocol_in_the_place_of_another_is_noted() {
    let text = "[protocol.tcp-sack]\nextends = \"tcp-newreno\"\nnumber = 241\n";
    let place =
        "in place of the protocol of this name that is built in, or that an earlier file has";
    let sack = File::new("sack", text);
    let checked = said(&["check", sack.path()]);
    assert!(
        checked.starts_with("tcp-sack: ok, id ") && checked.contains(place),
        "{checked}"
    );
    let reports = json(&["check", "--json", sack.path()]);
    assert_eq!(reports[0]["replaces"], true, "{reports}");
    let sim = [
        "sim",
        "--topo",
        "linear,2",
        "--set",
        "TB-W9",
        "-p",
        "tcp-sack",
        "-n",
        "10k",
        "--file",
        sack.path(),
    ];
    let note = format!("Note: tcp-sack is what {} says, {place}", sack.path());
    let told = said(&sim);
    assert_eq!(told.matches(&note).count(), 1, "{told}");
    let twice = said(&[&sim[..], &["--file", sack.path()]].concat());
    assert_eq!(twice.matches(&note).count(), 1, "it is the same: {twice}");
    let mine = text.replace("tcp-sack", "mine");
    let (one, two) = (
        File::new("mine-1", &mine),
        File::new("mine-2", &mine.replace("241", "242")),
    );
    let other = said(&["check", two.path(), "--file", one.path()]);
    assert!(
        other.contains("that an earlier file or library has"),
        "{other}"
    );
    let alone = said(&["check", one.path()]);
    assert!(!alone.contains("in place of"), "{alone}");
}

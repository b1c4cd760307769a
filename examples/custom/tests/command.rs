//! The whole command with this crate's names in it.

use std::process::Command;

fn custom(args: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_custom"))
        .args(args)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn part_handler_and_composition_are_listed_and_described() {
    for (kind, name) in [
        ("protocols", "paced"),
        ("gates", "four-hop-delay"),
        ("handlers", "weak-signal"),
        ("formats", "short"),
    ] {
        let (ok, said) = custom(&["list", kind]);
        assert!(ok && said.contains(&format!("\n  {name}")), "{said}");
        let (ok, said) = custom(&["describe", name]);
        assert!(ok && said.starts_with(&format!("{name} (")), "{said}");
    }
}

#[test]
fn the_dissector_reads_the_format_word_by_word() {
    let (ok, said) = custom(&["dissector"]);
    assert!(ok, "{said}");
    for line in [
        "carry(246, declared[\"short\"], \"hxh-short\")",
        "carry(247, declared[\"hxh\"], \"ungated\")",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    let (ok, said) = custom(&["dissector", "--json"]);
    assert!(ok, "{said}");
    let formats: serde_json::Value = serde_json::from_str(&said).unwrap();
    let formats = formats.as_array().unwrap();
    let own = formats.iter().find(|f| f["name"] == "short").unwrap();
    let words = own["words"].as_array().unwrap();
    for w in custom::short_wire::FORMAT.words.iter() {
        assert!(words.iter().any(|found| found["name"] == w.name), "{own}");
    }
}

#[test]
fn the_composition_runs_in_both_simulators() {
    let (ok, said) = custom(&["mock", "--protocol", "paced", "--bytes", "100k", "--json"]);
    assert!(ok, "{said}");
    let flow = "n1:n3:paced,bytes=50k";
    let (ok, said) = custom(&[
        "sim", "--topo", "linear,3", "--set", "TB-W9", "--flow", flow,
    ]);
    assert!(ok, "{said}");
}

#[test]
fn a_file_adds_to_what_is_embedded() {
    let path = std::env::temp_dir().join(format!("custom-{}.toml", std::process::id()));
    let mine = "[protocol.mine]\nextends = \"paced\"\nnumber = 242\nset = { hop_factor = 3.0 }\n";
    std::fs::write(&path, mine).unwrap();
    let file = path.display().to_string();
    let checked = custom(&["check", &file]);
    let described = custom(&["describe", "mine", "--file", &file]);
    std::fs::remove_file(&path).unwrap();
    assert!(checked.0 && checked.1.contains("mine: ok"), "{}", checked.1);
    assert!(described.1.contains("four-hop-delay"), "{}", described.1);
}

#[test]
fn what_parts_require_is_shown_and_refused_where_nobody_tells_it() {
    let (ok, said) = custom(&["describe", "hop-credit"]);
    let credit = "Requires site.next_hop (the next hop)\n  Requires frame.transmitter (who";
    assert!(ok && said.contains(credit), "{said}");
    let (_, said) = custom(&["describe", "hxh-short"]);
    let hop = "  Requires site.next_hop (the next hop): hop-queue, hop-credit.\n";
    assert!(said.contains(hop), "{said}");
    let (_, said) = custom(&["list", "facts"]);
    let known = "\n  site.next_hop      the next hop: wifu sim with radios, wifu sim over wires, wifu daemon \
                 --serve\n";
    assert!(said.contains(known), "{said}");

    let path = std::env::temp_dir().join(format!("custom-hop-{}.toml", std::process::id()));
    let mine = "[protocol.mine]\nextends = \"hxh-short\"\nnumber = 248\n";
    std::fs::write(&path, mine).unwrap();
    let file = path.display().to_string();
    let checked = |on| custom(&["check", &file, "--substrate", on, "--json"]);
    let (sim, mock) = (checked("sim"), checked("mock"));
    let live = ["emu", "live"].map(checked);
    std::fs::remove_file(&path).unwrap();
    assert!(sim.0, "{}", sim.1);
    assert!(live.iter().all(|l| l.0), "{live:?}");
    let key = "\"key\": \"lane.mine.gates\"";
    let why = "\"problem\": \"hop-credit requires site.next_hop (the next hop), which is not known \
               in `wifu mock`; it is in `wifu sim` with radios, `wifu sim` over wires, \
               `wifu daemon --serve`\"";
    assert!(
        !mock.0 && mock.1.contains(key) && mock.1.contains(why),
        "{}",
        mock.1
    );
}

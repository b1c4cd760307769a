//! Every example of the page on scenarios runs as it is printed.

use std::path::Path;
use std::process::Command;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/scenario.md");
/// What the first line of a block is that is a topology file.
const FILE: &str = "# topology file ";

fn run(folder: &Path, block: &str) {
    std::fs::write(folder.join("scenario.toml"), block).expect("a file in the folder");
    let output = Command::new(env!("CARGO_BIN_EXE_wifu"))
        .args(["sim", "--scenario", "scenario.toml", "--json"])
        .current_dir(folder)
        .output()
        .expect("wifu runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{block}");
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let flows = outcome["wifu"]["flows"].as_array().expect("flows");
    for flow in flows {
        let delivered = flow["bytes"].as_u64().unwrap_or(0);
        assert!(delivered > 0, "nothing was delivered\n{block}");
    }
}

#[test]
fn every_example_runs_and_delivers() {
    let folder = std::env::temp_dir().join(format!("wifu-scenario-page-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let blocks = page.split("```toml\n").skip(1);
    let blocks: Vec<&str> = blocks.filter_map(|b| b.split("```").next()).collect();
    assert!(blocks.len() > 20, "{} examples", blocks.len());
    for block in blocks {
        match block.strip_prefix(FILE).and_then(|b| b.split_once('\n')) {
            Some((name, text)) => std::fs::write(folder.join(name), text).expect("a file"),
            None => run(&folder, block),
        }
    }
    // Of a table that both say something in, each key is taken from the more special one.
    let both = "topology = { file = \"three.toml\", radio = { rate = \"6Mb/s\" } }\n";
    std::fs::write(folder.join("both.toml"), both).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_wifu"))
        .args(["sim", "--scenario", "both.toml", "--print-scenario"])
        .args(["--protocol", "tcp-reno"])
        .current_dir(&folder)
        .output()
        .expect("wifu runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("rate = \"6Mb/s\""), "{printed}");
    assert!(printed.contains("attempts = 3"), "{printed}");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

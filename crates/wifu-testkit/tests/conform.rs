//! Every registered part keeps what the engine, the documentation and other parts rely on.

use wifu_engine::Facts;
use wifu_testkit::conform;

fn hold(mut check: impl FnMut(&'static wifu_engine::Descriptor) -> Vec<String>) {
    let faults: Vec<String> = wifu_parts::PARTS.iter().flat_map(|d| check(d)).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_part_says_what_it_is() {
    hold(conform::described);
}

#[test]
fn declared_hooks_are_the_overridden_ones() {
    hold(conform::hooked);
}

#[test]
fn every_edge_of_every_parameter_builds() {
    hold(conform::edges_build);
}

#[test]
fn every_part_declares_the_sections_of_the_board_that_its_source_reads() {
    let parts = concat!(env!("CARGO_MANIFEST_DIR"), "/../wifu-parts/src");
    let mut seen = 0;
    hold(|d| {
        let file = format!("{}.rs", d.name.replace('-', "_"));
        let folders = std::fs::read_dir(parts).expect("the sources of the parts");
        let paths = folders.flatten().map(|f| f.path().join(&file));
        let source = paths.filter_map(|p| std::fs::read_to_string(p).ok()).next();
        let source = source.unwrap_or_else(|| panic!("no source file of {}", d.name));
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        let declared = d.reads.with(d.wants).with(d.writes);
        let read = |name: &str| {
            let uses = code
                .match_indices("board.")
                .map(|(at, w)| &code[at + w.len()..]);
            let mut fields = uses.map(|rest| {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                &rest[..end.unwrap_or(rest.len())]
            });
            fields.any(|f| f == name)
        };
        let sections = Facts::ALL.into_iter().filter(|(_, name)| read(name));
        let (known, missing): (Vec<_>, Vec<_>) = sections.partition(|(f, _)| declared.has(*f));
        seen += known.len();
        let fault = |(_, name)| format!("{} reads board.{name} and does not declare it", d.name);
        missing.into_iter().map(fault).collect()
    });
    assert!(
        seen > 20,
        "only {seen} uses were found: are they written differently now?"
    );
}

#[test]
fn every_signal_that_a_part_hears_exists() {
    let faults = conform::edges_known(wifu_parts::PARTS);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_part_keeps_its_word_under_random_events() {
    hold(|d| conform::alone(d, 20, 1500));
}

#[test]
fn every_part_works_in_a_whole_protocol_over_a_bad_wire() {
    let faults = conform::together(&wifu_parts::library(), &wifu_parts::registry(), 6);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

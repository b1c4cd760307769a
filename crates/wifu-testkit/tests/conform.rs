//! Every registered part keeps what the engine, the documentation and other parts rely on, and so
//! does the tutorial's.

#[path = "../../../examples/hopwise/src/heard_window.rs"]
mod heard_window;

use wifu_engine::descriptor::SOURCES;
use wifu_engine::hooks::HOOKS;
use wifu_engine::{Facts, Kind, Signal};
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
fn the_part_of_the_tutorial_keeps_its_word() {
    let part = &heard_window::HEARD_WINDOW;
    let faults = [
        conform::described(part),
        conform::hooked(part),
        conform::edges_build(part),
        conform::edges_known(&[part]),
        conform::alone(part, 20, 1500),
    ];
    assert!(faults.concat().is_empty(), "{faults:#?}");
}

#[test]
fn every_part_works_in_a_whole_protocol_over_a_bad_wire() {
    let faults = conform::together(&wifu_parts::library(), &wifu_parts::registry(), 6);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The row of a table on the page about parts whose first cell is `name`, below `title`.
fn row<'a>(page: &'a str, title: &str, name: &str) -> &'a str {
    let from = page.find(title).unwrap_or_else(|| panic!("no {title}"));
    let start = format!("| `{name}` |");
    let mut lines = page[from..].lines().skip(1);
    let table = lines.by_ref().take_while(|l| !l.starts_with("**"));
    let mut rows = table.filter(|l| l.starts_with(&start));
    let found = rows.next().map(|l| l.trim_start_matches(&start));
    found.unwrap_or_else(|| panic!("the page has no row {name} below {title}"))
}

#[test]
fn the_page_about_parts_lists_all_that_can_be_heard_read_and_offered_and_by_whom() {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/src/adding-a-part.md"
    );
    let page = std::fs::read_to_string(page).expect("the page");
    let from_engine = |name: &str| Signal::FROM_ENGINE.contains(&name);
    for name in Signal::NAMES {
        let says = row(&page, "**Signals**", name);
        assert_eq!(says.starts_with(" engine |"), from_engine(name), "{name}");
        for d in wifu_parts::PARTS {
            let said = d.hears.iter().any(|(_, e)| e.contains(&name));
            let role = says.split('|').next().unwrap_or_default();
            let listed = role.split(',').any(|r| r.trim() == d.role.key());
            assert!(!said || listed, "{} says {name}: {role}", d.role.key());
        }
    }
    for (section, name) in Facts::ALL {
        let says = row(&page, "**Facts**", name);
        let role = says.split('|').next().unwrap_or_default();
        for d in wifu_parts::PARTS.iter().filter(|d| d.writes.has(section)) {
            let listed = role.split(',').any(|r| r.trim() == d.role.key());
            assert!(listed, "{} writes {name}: {role}", d.role.key());
        }
    }
    for kind in Kind::ALL {
        row(&page, "**Wants**", &format!("{kind:?}").to_lowercase());
    }
    for hook in HOOKS {
        row(&page, "**Hooks**", hook);
    }
    for source in SOURCES {
        assert!(page.contains(&format!("`{source}` (")), "{source}");
    }
}

#[test]
fn protocol_numbers_are_the_same_everywhere() {
    use wifu_wire::numbers::{composition, numbers};
    let library = wifu_parts::library();
    let names = library.protocols();
    for name in names {
        let number = wifu_parts::blueprint(name)
            .expect("it is registered")
            .number;
        assert_eq!(
            composition(number),
            Some(name.as_str()),
            "wifu_wire::numbers"
        );
    }
    assert_eq!(names.len(), numbers().count());
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../wifu-c/include/wifu.h");
    let header = std::fs::read_to_string(header).expect("it is part of the tree");
    // Others than of protocols are smaller.
    let number = |line: &str| line.rsplit(' ').next()?.parse::<u32>().ok();
    let defines = header.lines().filter(|l| l.starts_with("#define WIFU_"));
    let defined = defines.filter(|l| number(l).is_some_and(|n| n > 200));
    assert_eq!(defined.count(), names.len(), "wifu.h");
    for (name, number) in numbers() {
        let define = name.to_uppercase().replace('-', "_");
        let line = format!("#define WIFU_{define} {number}\n");
        assert!(header.contains(&line), "wifu.h lacks {line}");
    }
}

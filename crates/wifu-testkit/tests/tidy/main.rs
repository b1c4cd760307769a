//! Holds the house style: the arrows between the crates, what each crate may call, and how long a
//! function may be. It reads the tree, so it needs no list of files; its messages say what to do.

mod arrows;
mod callers;
mod citations;
mod hearing;
mod rules;
mod shape;
mod source;
mod told;
mod words;

use source::{Finding, Source};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize()
        .expect("the workspace is two folders up")
}

fn hold(mut found: Vec<Finding>) {
    found.sort();
    let lines: Vec<String> = found.iter().map(Finding::to_string).collect();
    assert!(
        lines.is_empty(),
        "house style, {} findings:\n{}\n",
        lines.len(),
        lines.join("\n")
    );
}

fn hold_each(rule: fn(&Source) -> Vec<Finding>) {
    hold(source::read_tree(&root()).iter().flat_map(rule).collect());
}

#[test]
fn crates_know_only_crates_below_them() {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join("crates")).expect("the tree is readable") {
        let folder = entry.expect("the tree is readable").path();
        let Ok(manifest) = std::fs::read_to_string(folder.join("Cargo.toml")) else {
            continue;
        };
        let name = folder
            .file_name()
            .expect("a crate's folder has a name")
            .to_string_lossy();
        found.extend(arrows::check(
            &format!("crates/{name}/Cargo.toml"),
            &manifest,
        ));
    }
    hold(found);
}

#[test]
fn the_engine_names_no_component() {
    let tree = source::read_tree(&root());
    let names = rules::part_names(&tree);
    hold(
        tree.iter()
            .flat_map(|s| rules::engine_names_no_component(s, &names))
            .collect(),
    );
}

#[test]
fn a_part_imports_no_other_part() {
    hold_each(rules::part_imports_no_part);
}

#[test]
fn every_part_is_listed() {
    hold(rules::every_part_is_listed(&source::read_tree(&root())));
}

#[test]
fn every_file_is_declared() {
    hold(rules::every_file_is_declared(&source::read_tree(&root())));
}

#[test]
fn sans_io_crates_call_nothing_of_the_system() {
    hold_each(rules::banned_calls);
}

#[test]
fn unsafe_code_stays_where_it_is_allowed() {
    hold_each(rules::unsafe_code);
}

#[test]
fn functions_files_and_comments_are_short() {
    hold_each(rules::lengths);
}

#[test]
fn the_methods_of_a_type_fill_few_files() {
    hold(shape::types_fill_few_files(&source::read_tree(&root())));
}

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    hold(shape::files_form_no_circle(&source::read_tree(&root())));
}

#[test]
fn what_the_node_and_those_below_it_offer_is_called() {
    let example = root().join("examples/custom/src");
    hold(callers::check(&source::read_tree(&root()), &example));
}

#[test]
fn a_part_knows_the_signals_that_it_hears() {
    hold_each(hearing::arms);
}

#[test]
fn a_part_declares_the_facts_that_it_reads() {
    let example = root().join("examples/loaded/src/hop_acks.rs");
    let text = std::fs::read_to_string(example).expect("the tree is readable");
    let example = Source::new("loaded/src/hop_acks.rs", &text);
    let mut found = told::undeclared(&example);
    found.extend(source::read_tree(&root()).iter().flat_map(told::declared));
    hold(found);
}

#[test]
fn citations_have_one_form_and_lead_somewhere() {
    hold(citations::check_tree(&root()));
}

#[test]
fn which_name_was_meant_is_asked_in_one_way() {
    hold_each(rules::questions);
}

#[test]
fn a_doc_comment_says_more_than_the_name_below_it() {
    hold_each(words::restated);
}

#[test]
fn nothing_is_left_unfinished() {
    hold_each(rules::leftovers);
}

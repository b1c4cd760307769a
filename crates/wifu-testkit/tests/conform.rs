//! Every registered part keeps what the engine, the documentation and other parts rely on.

use wifu_testkit::conform;

fn hold(check: impl Fn(&'static wifu_engine::Descriptor) -> Vec<String>) {
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

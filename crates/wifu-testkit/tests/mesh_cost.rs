//! Protocols that live on hops allocate nothing per packet on the mesh, once memory has grown to
//! what the worst moment needs. Two are of examples, file by file: their libraries allocate by the
//! C library.

#[path = "../../../examples/hopwise/src/heard_window.rs"]
mod heard_window;
#[path = "../../../examples/custom/src/paced.rs"]
mod paced;

use wifu_engine::Library;
use wifu_node::Registry;
use wifu_sim::mesh::Simulation;
use wifu_sim::scenario::Scenario;
use wifu_testkit::alloc::{Counting, allocations_in};
use wifu_wire::{Span, Time};

#[global_allocator]
static COUNTING: Counting = Counting;

fn registry() -> Registry {
    let parts = wifu_parts::registry().with(&[&paced::PACED, &heard_window::HEARD_WINDOW]);
    let texts = [
        paced::PROTOCOL,
        include_str!("../../../examples/hopwise/src/hopwise.toml"),
    ];
    let own = texts.map(|text| Library::parse(text).unwrap_or_else(|e| panic!("{e}")));
    let library = own.into_iter().fold(wifu_parts::library(), Library::merge);
    Registry::new(parts, library)
}

#[test]
fn a_packet_costs_no_allocation() {
    for protocol in ["paced", "atp", "atp-adaptive,elfn=on", "hxh", "hopwise"] {
        let text = format!(
            "[topology]\nwords = \"linear,5\"\nset = \"TB-W9\"\n[radio]\nattempts = 2\n\
             [[flow]]\nfrom = \"n1\"\nto = \"n5\"\nprotocol = \"{protocol}\"\napp = \"file\"\n\
             bytes = \"100M\"\n"
        );
        let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
        let mut simulation =
            Simulation::new(&scenario, &registry()).unwrap_or_else(|e| panic!("{e}"));
        // At each node something is lost for good once, which takes the memory of a notice; and
        // lists of what is missing grow to the longest.
        let lists = ["elfn", "hxh", "hopwise"]
            .iter()
            .any(|n| protocol.contains(n));
        let warm = Span::SECOND * if lists { 300 } else { 60 };
        simulation.step_until(Time::ZERO + warm);
        let segments = |s: &mut Simulation| s.outcome().flows[0].segments;
        let before = segments(&mut simulation);
        let taken = allocations_in(|| {
            simulation.step_until(Time::ZERO + warm + Span::SECOND * 30);
        });
        let packets = segments(&mut simulation) - before;
        println!("{protocol}: {taken} allocations, {packets} segments");
        assert!(
            packets > 500 && taken == 0,
            "{protocol}: {taken} allocations"
        );
    }
}

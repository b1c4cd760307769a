//! Protocols that live on hops allocate nothing per packet on the mesh, once memory has grown to
//! what the worst moment needs. Beside ATP they are those of `examples/custom`, part by part: that
//! crate has an allocator of its own.

#[path = "../../../examples/custom/src/hop_ends.rs"]
mod hop_ends;
#[path = "../../../examples/custom/src/hop_lane.rs"]
mod hop_lane;
#[path = "../../../examples/custom/src/opener.rs"]
mod opener;
#[path = "../../../examples/custom/src/paced.rs"]
mod paced;
#[path = "../../../examples/custom/src/record_wire.rs"]
mod record_wire;

use wifu_engine::Library;
use wifu_node::Registry;
use wifu_sim::mesh::Simulation;
use wifu_sim::scenario::Scenario;
use wifu_testkit::alloc::{Counting, allocations_in};
use wifu_wire::{Span, Time};

#[global_allocator]
static COUNTING: Counting = Counting;

fn registry() -> Registry {
    let parts = wifu_parts::registry().with(&[
        &opener::PLAIN_OPENER,
        &paced::PACED,
        &hop_lane::HOP_QUEUE,
        &hop_lane::HOP_CREDIT,
        &hop_ends::RECORD_SOURCE,
        &hop_ends::RECORD_SINK,
    ]);
    let texts = [
        paced::PROTOCOL,
        include_str!("../../../examples/custom/src/hop.toml"),
    ];
    let own = texts.map(|text| Library::parse(text).unwrap_or_else(|e| panic!("{e}")));
    let library = own.into_iter().fold(wifu_parts::library(), Library::merge);
    Registry::new(parts, library).with_wires(&[&record_wire::WIRE])
}

#[test]
fn a_packet_costs_no_allocation() {
    for protocol in ["paced", "atp", "atp-adaptive,elfn=on", "hop"] {
        let text = format!(
            "[topology]\nwords = \"linear,5\"\nset = \"TB-W9\"\n[radio]\nattempts = 2\n\
             [[flow]]\nfrom = \"n1\"\nto = \"n5\"\nprotocol = \"{protocol}\"\napp = \"file\"\n\
             bytes = \"100M\"\n"
        );
        let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
        let mut simulation =
            Simulation::new(&scenario, &registry()).unwrap_or_else(|e| panic!("{e}"));
        // At each node something is lost for good once, which takes the memory of a notice.
        let warm = Span::SECOND * if protocol.contains("elfn") { 300 } else { 60 };
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

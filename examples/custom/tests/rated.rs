//! The rate-gated protocol over a chain of radios: every node raises the word that it brings a
//! handler for, the sender paces by what comes back, and without the handler it does not start.

use wifu_engine::Library;
use wifu_node::Registry;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;

fn registry() -> Registry {
    wifu::standard()
        .with_parts(custom::PARTS)
        .with_wires(custom::WIRES)
        .with_library(custom::library())
}

/// A file of 300 kB over a chain of five nodes.
fn simulation(registry: &Registry, more: &str) -> Result<Simulation, String> {
    let text = format!(
        "[topology]\nwords = \"linear,5,snr=20\"\nset = \"TB-W9\"\n[radio]\nattempts = 7\n\
         [stop]\ntime = \"120s\"\n\
         [record]\nseries = [\"flow.1.delay-rate.delay_us\", \"flow.1.peer.epoch-feedback.hops\", \
         \"flow.1.unserved\"]\n\
         {more}[[flow]]\nfrom = \"n1\"\nto = \"n5\"\nprotocol = \"rated\"\napp = \"file\"\n\
         bytes = \"300k\"\n"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
    Simulation::new(&scenario, registry).map_err(|e| e.to_string())
}

fn outcome(more: &str) -> Outcome {
    let mut simulation = simulation(&registry(), more).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    let outcome = simulation.outcome();
    let flow = &outcome.flows[0];
    assert!(flow.finished, "{flow:?}");
    assert_eq!(
        (flow.bytes, flow.corrupt, flow.timeouts),
        (300_000, 0, None)
    );
    outcome
}

#[test]
fn each_hop_raises_the_word_and_the_sender_paces_by_it() {
    let outcome = outcome("");
    let flow = &outcome.flows[0];
    let paced = flow.limited_s.get("pace").copied().unwrap_or_default();
    println!("limited by the rate {paced:.3} s of {:.3} s", flow.until_s);
    assert!(paced > 0.5 * flow.until_s, "{:?}", flow.limited_s);
    assert_eq!((flow.unserved, flow.cwnd), (0, None));
    for node in &outcome.nodes[..4] {
        assert!(
            node.handlers[0].changed > 100,
            "{}: {:?}",
            node.name,
            node.handlers
        );
    }
    let values = |name: &str| -> Vec<f64> {
        let series = outcome.series.get(name);
        let series = series.unwrap_or_else(|| panic!("{name}: {:?}", outcome.series.keys()));
        series.iter().map(|(_, value)| *value).collect()
    };
    let hops = values("flow.1.peer.epoch-feedback.hops");
    assert_eq!(hops.iter().copied().fold(0.0, f64::max), 4.0, "{hops:?}");
    // From the first guess of 20 ms to what a packet costs here, a few milliseconds at most.
    let delays = values("flow.1.delay-rate.delay_us");
    assert!(
        delays.iter().any(|us| (500.0..15_000.0).contains(us)),
        "{delays:?}"
    );
}

#[test]
fn a_relay_that_does_not_serve_is_named() {
    let outcome = outcome("[host]\nunserved = [\"n3\"]\n");
    assert!(outcome.flows[0].unserved > 100);
    assert_eq!(outcome.flows[0].unserved_at, ["n3"]);
    // Nodes do not count themselves on feedback: the sender is told.
    let told = outcome.series["flow.1.unserved"].last();
    assert_eq!(told.map(|p| p.1), Some(1.0));
}

#[test]
fn without_its_handler_it_is_refused_with_what_is_missing() {
    let ends = custom::RATED.split("[handlers.rated]").next().unwrap();
    let bare = registry().with_library(Library::parse(ends).unwrap());
    let said = simulation(&bare, "").err().unwrap();
    let word = "delay-rate reads the header word \"delay\", which nodes write";
    assert!(
        said.contains(word) && said.contains("[handlers.rated]"),
        "{said}"
    );
}

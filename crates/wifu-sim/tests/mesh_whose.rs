//! Handlers that name the composition whose packets they are asked about.

use wifu_engine::Library;
use wifu_node::Registry;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;

/// Two that keep their numbers, since they have something to do on hops, and one that is run by
/// nobody.
const PROTOCOLS: &str = r#"
[protocol.mine]
extends = "tcp-newreno"
number = 240

[handlers.mine]
chain = ["null"]

[protocol.other]
extends = "tcp-newreno"
number = 241

[handlers.other]
chain = ["null"]

[protocol.idle]
extends = "tcp-newreno"
number = 242

[handlers.idle]
chain = ["null"]
"#;

fn registry() -> Registry {
    let own = Library::parse(PROTOCOLS).unwrap_or_else(|e| panic!("{e}"));
    let library = wifu_parts::library().merge(own);
    Registry::new(wifu_parts::registry(), library)
}

/// Files from the first of three nodes to the last, with a handler.
fn scenario(handler: &str, protocols: &[&str]) -> Scenario {
    let flow = |protocol: &&str| {
        let app = match *protocol {
            "udp" => "rate = \"100kb/s\"\ntime = \"1s\"\n",
            _ => "app = \"file\"\nbytes = \"50k\"\n",
        };
        format!("[[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"{protocol}\"\n{app}")
    };
    let flows: String = protocols.iter().map(flow).collect();
    let text = format!(
        "[topology]\nwords = \"linear,3,wire=10Mb/s\"\n[stop]\ntime = \"30s\"\n\
         [[handler]]\n{handler}\n{flows}"
    );
    Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn run(handler: &str, protocols: &[&str]) -> Outcome {
    let simulation = Simulation::new(&scenario(handler, protocols), &registry());
    let mut simulation = simulation.unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    simulation.outcome()
}

fn refused(handler: &str, protocols: &[&str]) -> String {
    let simulation = Simulation::new(&scenario(handler, protocols), &registry());
    let error = simulation.err().expect("it is refused").to_string();
    println!("{error}");
    error
}

const AT_RELAY: &str = "use = \"drop\"\nnodes = [\"n2\"]\nhooks = [\"forward\"]\np = 1";

#[test]
fn a_handler_acts_on_the_named_compositions_packets_and_on_no_others() {
    for (named, spared) in [("mine", "other"), ("other", "mine")] {
        let handler = format!("{AT_RELAY}\nprotocol = \"{named}\"");
        let outcome = run(&handler, &["mine", "other"]);
        let of = |name: &str| {
            let mut flows = outcome.flows.iter();
            flows.find(|f| f.protocol == name).expect("its flow")
        };
        assert_eq!((of(named).bytes, of(named).finished), (0, false));
        let spared = of(spared);
        assert!(spared.finished && spared.bytes == 50_000, "{spared:?}");
        assert_eq!(
            (spared.timeouts, spared.fast_retransmits),
            (Some(0), Some(0))
        );
        let relay = &outcome.nodes[1].handlers[0];
        assert_eq!(
            (relay.name.as_str(), relay.packets),
            ("drop", relay.dropped)
        );
        assert!((2..20).contains(&relay.dropped), "SYNs alone: {relay:?}");
    }
}

#[test]
fn variants_of_a_composition_are_of_its_name() {
    let handler = format!("{AT_RELAY}\nprotocol = \"mine\"");
    let outcome = run(&handler, &["mine,iw=1", "mine,iw=4", "other"]);
    let finished: Vec<bool> = outcome.flows.iter().map(|f| f.finished).collect();
    assert_eq!(finished, [false, false, true]);
}

#[test]
fn a_tcp_that_brings_nothing_for_hops_is_named_like_others() {
    // Beside datagrams it is the only one with the number of TCP, by which it goes here.
    let handler = format!("{AT_RELAY}\nprotocol = \"tcp-newreno\"");
    let outcome = run(&handler, &["tcp-newreno", "udp", "mine"]);
    let got: Vec<bool> = outcome.flows.iter().map(|f| f.bytes > 0).collect();
    assert_eq!(got, [false, true, true]);
    let said = refused(&handler, &["tcp-newreno", "tcp-cubic"]);
    let wanted = "handler.1.protocol: tcp-newreno and tcp-cubic have packets of one kind (IP \
                  protocol 6), so no node could tell which to ask the handler about; write protocol \
                  = 6 to mean both";
    assert_eq!(said, wanted);
    let said = refused(&handler, &["tcp-cubic"]);
    let wanted = "no flow has the protocol tcp-newreno, and tcp-newreno and tcp-cubic have packets";
    assert!(said.contains(wanted), "{said}");
    // Hosts have their own numbers for them.
    let scenario = scenario(&handler, &["tcp-newreno", "tcp-cubic"]);
    assert_eq!(
        Simulation::check_among_others(&scenario, &registry()).map_err(|e| e.to_string()),
        Ok(())
    );
}

#[test]
fn names_that_mean_nothing_are_refused() {
    let named = |name: &str| format!("{AT_RELAY}\nprotocol = \"{name}\"");
    let said = refused(&named("tcp-newremo"), &["tcp-newreno"]);
    assert!(said.starts_with("handler.1.protocol: "), "{said}");
    assert!(said.contains("did you mean `tcp-newreno`"), "{said}");
    let said = refused(&named("idle"), &["mine"]);
    let wanted = "no packet is for it: it is asked about idle, IP protocol 242, and flows here send \
                  240 (mine)";
    assert!(said.contains(wanted), "{said}");
    let said = refused(&named("mine,iww=3"), &["mine"]);
    assert!(said.contains("iww"), "{said}");
}

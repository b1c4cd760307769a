//! A handler that no packet of the scenario can be for is refused before the first one; others are
//! not, and act.

use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;

fn open(spec: &str) -> Result<Arc<Blueprint>, String> {
    wifu_parts::blueprint(spec).map_err(|e| e.to_string())
}

/// Three nodes in a row, with these flows from n1 to n3 and what else there is.
fn run(flows: &[&str], rest: &str) -> Result<Outcome, String> {
    let flow = |protocol: &&str| {
        let app = match *protocol {
            "udp" => "rate = \"1Mb/s\"",
            _ => "app = \"file\"",
        };
        format!(
            "[[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"{protocol}\"\n{app}\nbytes = 20000\n"
        )
    };
    let flows: String = flows.iter().map(flow).collect();
    let text = format!(
        "[topology]\nwords = \"linear,3\"\nset = \"TB-W9\"\n{flows}[stop]\ntime = \"20s\"\n{rest}"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut simulation = Simulation::new(&scenario, &open).map_err(|e| e.to_string())?;
    simulation.run();
    Ok(simulation.outcome())
}

fn refused(flows: &[&str], rest: &str) -> String {
    match run(flows, rest) {
        Ok(_) => panic!("it ran: {flows:?} with\n{rest}"),
        Err(said) => said,
    }
}

/// Packets that the handler of this place in the chain was asked about, at all nodes.
fn asked(flows: &[&str], rest: &str, handler: usize) -> u64 {
    let outcome = run(flows, rest).unwrap_or_else(|e| panic!("{e}"));
    assert!(outcome.flows.iter().all(|f| f.bytes == 20_000), "{rest}");
    let nodes = outcome.nodes.iter();
    nodes.map(|n| n.handlers[handler].packets).sum()
}

const SHIM: &str = "[[handler]]\nuse = \"tpa-shim\"\n";
const SHIM_OF_TCP: &str = "[[handler]]\nuse = \"tpa-shim\"\nprotocol = 6\n";
const TCP: &str = "tcp-newreno,mss=1400";

#[test]
fn a_handler_for_a_protocol_that_no_flow_sends_is_refused_with_those_that_are_sent() {
    assert_eq!(
        refused(&[TCP, "tcp-tahoe", "udp"], SHIM),
        "handler.1: tpa-shim: no packet is for it: it is asked about IP protocol 208, and flows \
         here send 6 (tcp-newreno, tcp-tahoe), 17 (udp). Give it a flow, change its `protocol`, or \
         leave it out"
    );
    let second = format!("{SHIM_OF_TCP}{SHIM}");
    assert!(refused(&[TCP], &second).starts_with("handler.2: tpa-shim: no packet is for it"));
    assert!(asked(&[TCP], SHIM_OF_TCP, 0) > 50);
}

#[test]
fn a_handler_for_a_format_is_refused_where_no_flow_has_it() {
    let collector = "[[handler]]\nuse = \"delay-collector\"\n";
    assert_eq!(
        refused(&[TCP], collector),
        "handler.1: delay-collector: no packet is for it: it is asked about IP protocol 219 or UDP \
         port 9438, and flows here send 6 (tcp-newreno). Give it a flow, or leave it out"
    );
    let inside = |n: u16| format!("{collector}protocol = 17\nport = {n}\n");
    let said = refused(&["udp"], &inside(9438));
    assert!(
        said.contains("UDP port 9438, of these 17 alone, and flows here send 17 (udp)."),
        "{said}"
    );
    // The first flow's port: what its datagrams hold is not looked at beforehand.
    run(&["udp"], &inside(10_000)).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn what_another_handler_inserts_or_sends_may_be_what_it_waits_for() {
    let of = |n: u8| format!("[[handler]]\nuse = \"logger\"\nprotocol = {n}\n");
    assert!(refused(&[TCP], &of(253)).contains("IP protocol 253"));
    assert!(asked(&[TCP], &format!("{SHIM_OF_TCP}{}", of(253)), 1) > 50);
    // Nobody knows of what protocol the packets are that a handler sends.
    let snoop = "[[handler]]\nuse = \"snoop\"\n";
    assert_eq!(asked(&[TCP], &format!("{snoop}{}", of(17)), 1), 0);
    // It is told what became of packets that it was not asked about.
    assert_eq!(asked(&[TCP], &format!("{}status = true\n", of(17)), 0), 0);
}

#[test]
fn routing_messages_meet_no_handler_and_are_nothing_to_wait_for() {
    let drop = "[routing]\nkind = \"etx\"\n[routing.olsr]\nhello = \"1s\"\n\
                [[handler]]\nuse = \"drop\"\nprotocol = 17\np = 1.0\n";
    let said = refused(&[TCP], drop);
    assert!(
        said.contains("send 6 (tcp-newreno); routing messages meet no handler."),
        "{said}"
    );
}

#[test]
fn a_handler_that_routes_may_lead_packets_past_is_not_refused() {
    let elsewhere = "[[handler]]\nuse = \"null\"\nnodes = [\"n1\"]\nhooks = [\"forward\"]\n";
    let outcome = run(&[TCP], elsewhere).unwrap();
    assert_eq!(outcome.nodes[0].handlers[0].packets, 0);
}

#[test]
fn idle_handlers_do_not_vouch_for_each_other() {
    let snoop = "[[handler]]\nuse = \"snoop\"\n";
    let said = refused(&["udp"], &snoop.repeat(2));
    assert!(
        said.starts_with("handler.1: snoop: no packet is for it"),
        "{said}"
    );
}

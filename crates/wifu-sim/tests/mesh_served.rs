//! Compositions bring their handlers along: they act at every node that serves, what is missing is
//! said before the first packet, and a relay that does not serve is noticed.

use std::sync::Mutex;
use wifu_core::{Descriptor as HandlerDescriptor, Handler, Hook, Hooks, HopCx, HopWordSpec};
use wifu_core::{LinkTo, Packet, TxStatus, Verbs, Verdict};
use wifu_engine::descriptor::NoteSpec;
use wifu_engine::{Access, Admit, Component, Cx, Descriptor, Library, Role, Segment};
use wifu_node::Registry;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;
use wifu_wire::{Note, Span};

/// The largest delay that each arriving segment brought.
static SEEN: Mutex<Vec<Option<u32>>> = Mutex::new(Vec::new());

/// Reads what the shim's handler notes.
static READER: Descriptor = Descriptor {
    name: "delay-reader",
    role: Role::Watch,
    doc: "Reads the largest delay of the path.",
    notes: &[NoteSpec {
        name: "max_delay",
        access: Access::Read,
        unit: "us",
        doc: "",
    }],
    hooks: &["segment"],
    build: |p| Ok(Box::new(Reader(p.note("max_delay")))),
    ..Descriptor::EMPTY
};

struct Reader(Note);

impl Component for Reader {
    fn on_segment(&mut self, seg: &Segment<'_>, _: &mut Cx<'_>) -> Admit {
        SEEN.lock().unwrap().push(seg.frame.notes.get(self.0));
        Admit::Pass
    }
}

/// Keeps a copy of each third packet and sends it a second time.
static ECHO: HandlerDescriptor = HandlerDescriptor {
    name: "echo",
    doc: "Sends a copy of each third packet after it.",
    hooks: Hooks::of(&[Hook::Forward, Hook::Postrouting]),
    needs: Verbs::COPY.with(Verbs::SEND),
    holds: 1,
    counts: &["echoes", "reported"],
    build: |_| Ok(Box::new(Echo { seen: 0, met: 0 })),
    ..HandlerDescriptor::EMPTY
};

struct Echo {
    seen: u32,
    met: u32,
}

impl Handler for Echo {
    fn on_packet(&mut self, hook: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        if hook == Hook::Postrouting {
            self.met += 1;
            return Verdict::Accept;
        }
        self.seen += 1;
        if self.seen.is_multiple_of(3)
            && let Some(copy) = packet.copy()
        {
            assert_eq!(packet.copy(), None, "one copy of a packet");
            cx.send_kept(copy, false, LinkTo::Route);
            cx.count(0);
        }
        Verdict::Accept
    }

    fn on_tx_status(&mut self, status: &TxStatus, cx: &mut HopCx<'_>) {
        let air = status.airtime.expect("a radio knows it");
        assert!(air > Span::ZERO && air <= status.delay, "{status:?}");
        cx.count(1);
    }
}

/// Looks at the count of nodes and counts nothing.
static LOOKS: HandlerDescriptor = HandlerDescriptor {
    name: "looks",
    doc: "Reads the count of nodes.",
    hooks: Hooks::of(&[Hook::Forward]),
    words: &[HopWordSpec::read("hops")],
    build: |_| Ok(Box::new(Looks)),
    ..HandlerDescriptor::EMPTY
};

struct Looks;

impl Handler for Looks {
    fn on_packet(&mut self, _: Hook, _: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
        Verdict::Accept
    }
}

const PROTOCOLS: &str = r#"
[protocol.delayed]
extends = "tcp-newreno"
number = 240
watch.add = ["delay-reader"]

[handlers.delayed]
chain = ["tpa-shim"]

[protocol.echoed]
extends = "tcp-newreno"
number = 241

[handlers.echoed]
chain = [{ use = "echo" }]
"#;

fn registry(text: &str) -> Registry {
    let own = Library::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let library = wifu_parts::library().merge(own);
    let parts = wifu_parts::registry().with(&[&READER]);
    Registry::new(parts, library).with_handlers(&[&ECHO, &LOOKS])
}

fn made(text: &str, protocol: &str, more: &str) -> Result<Simulation, String> {
    let scenario = format!(
        "[topology]\nwords = \"linear,4\"\nset = \"TB-W9\"\n[radio]\nattempts = 7\n{more}\
         [[flow]]\nfrom = \"n1\"\nto = \"n4\"\nprotocol = \"{protocol}\"\napp = \"file\"\n\
         bytes = \"50k\"\n[stop]\ntime = \"60s\"\n"
    );
    let scenario = Scenario::from_toml(&scenario).unwrap_or_else(|e| panic!("{e}"));
    Simulation::new(&scenario, &registry(text)).map_err(|e| e.to_string())
}

fn run(protocol: &str, more: &str) -> Outcome {
    let simulation = made(PROTOCOLS, protocol, more);
    let mut simulation = simulation.unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    let outcome = simulation.outcome();
    assert!(outcome.flows[0].finished && outcome.flows[0].corrupt == 0);
    assert_eq!(outcome.flows[0].bytes, 50_000);
    outcome
}

#[test]
fn a_composition_brings_its_handlers_and_a_relay_that_does_not_serve_is_noticed() {
    let served = run("delayed", "");
    let seen = core::mem::take(&mut *SEEN.lock().unwrap());
    assert!(
        seen.len() > 30 && seen.iter().all(|d| *d > Some(0)),
        "{seen:?}"
    );
    assert_eq!(served.flows[0].unserved, 0);
    // The sender, two relays and the receiver, each with its own account.
    let packets: Vec<u64> = served.nodes.iter().map(|n| n.handlers[0].packets).collect();
    assert!(packets.iter().all(|n| *n > 30), "{packets:?}");
    let unserved = run("delayed", "[host]\nunserved = [\"n2\"]\n");
    assert!(unserved.nodes[1].handlers.is_empty());
    assert!(unserved.flows[0].unserved > 30, "data and ACKs tell");
    assert_eq!(unserved.flows[0].unserved_at, ["n2"]);
    SEEN.lock().unwrap().clear();
}

#[test]
fn a_composition_without_its_handlers_is_refused_with_what_is_missing() {
    let bare = "[protocol.delayed]\nextends = \"tcp-newreno\"\nwatch.add = [\"delay-reader\"]\n";
    let said = made(bare, "delayed", "").err().unwrap();
    assert!(
        said.contains("delay-reader reads the annotation \"max_delay\"")
            && said.contains("[handlers.delayed]"),
        "{said}"
    );
    let blind = "[protocol.p]\nextends = \"tcp-newreno\"\n[handlers.p]\n\
                 chain = [\"delay-collector\"]\n";
    let said = made(blind, "p", "").err().unwrap();
    assert!(
        said.contains("header word \"delay\", which tcp does not have"),
        "{said}"
    );
    let near = "[protocol.p]\nextends = \"tcp-newreno\"\n[handlers.p]\nchain = [\"tpa-shin\"]\n";
    let said = made(near, "p", "").err().unwrap();
    assert!(said.contains("did you mean `tpa-shim`"), "{said}");
    let orphan = Library::parse("[handlers.p]\nchain = []\n").err().unwrap();
    assert!(orphan.to_string().contains("no [protocol.p]"), "{orphan}");
}

#[test]
fn two_compositions_whose_packets_are_alike_and_their_hops_not_are_refused() {
    let alike = PROTOCOLS.replace("number = 241", "number = 240");
    let more = "[[flow]]\nfrom = \"n2\"\nto = \"n3\"\nprotocol = \"echoed\"\napp = \"file\"\n\
                bytes = \"10k\"\n";
    let said = made(&alike, "delayed", more).err().unwrap();
    assert!(said.contains("no node could tell which to ask"), "{said}");
    assert!(made(PROTOCOLS, "delayed", more).is_ok());
}

#[test]
fn a_handler_keeps_copies_and_sends_them_and_does_not_meet_them_again() {
    let outcome = run("echoed", "");
    let relays: Vec<_> = [1, 2].map(|n| &outcome.nodes[n].handlers[0]).into();
    let copies: u64 = relays.iter().map(|h| h.sent).sum();
    assert!(
        copies > 10 && copies == outcome.flows[0].packets.copies,
        "{relays:?}"
    );
    let p = &outcome.flows[0].packets;
    let known = p.delivered + p.queue + p.link + p.wire + p.route + p.hop + p.inside;
    assert_eq!(p.sent + p.copies, known, "{p:?}");
    assert!(
        p.delivered > p.sent,
        "the receiver got segments twice: {p:?}"
    );
    // At forward it sees what comes, copies of others included, at postrouting what it did not
    // send itself.
    for h in relays {
        assert_eq!(h.packets % 2, 0, "each twice, its own copies never: {h:?}");
        assert!(h.counts["reported"] > 30, "{h:?}");
    }
}

/// A second flow, of this protocol, the other way.
fn beside(protocol: &str) -> String {
    format!(
        "[[flow]]\nfrom = \"n4\"\nto = \"n1\"\nprotocol = \"{protocol}\"\napp = \"file\"\n\
         bytes = \"50k\"\n"
    )
}

#[test]
fn variants_of_a_composition_have_its_handlers_once() {
    for unserved in ["", "[host]\nunserved = [\"n2\"]\n"] {
        let outcome = run("delayed", &format!("{unserved}{}", beside("delayed,iw=4")));
        let counts = outcome.nodes.iter().map(|n| n.handlers.len());
        let wanted = |n: &str| usize::from(unserved.is_empty() || n != "n2");
        let names = outcome.nodes.iter().map(|n| wanted(&n.name));
        assert!(counts.eq(names), "{unserved}");
        for flow in &outcome.flows {
            assert_eq!(flow.unserved > 30, !unserved.is_empty(), "{flow:?}");
        }
    }
    SEEN.lock().unwrap().clear();
}

/// ATP's header has a count of nodes. Where those that serve write it, who does not is missed;
/// where nobody writes it, nobody is.
#[test]
fn relays_are_missed_only_where_those_that_serve_count_themselves() {
    let missed = |handler: &str| {
        let text = format!(
            "[protocol.mine]\nextends = \"tcp-newreno\"\nnumber = 240\nwire = \"atp\"\n\
             set.timestamps = \"off\"\n[handlers.mine]\nchain = [\"{handler}\"]\n"
        );
        let unserved = "[host]\nunserved = [\"n2\"]\n";
        let mut simulation = made(&text, "mine", unserved).unwrap_or_else(|e| panic!("{e}"));
        simulation.run();
        let outcome = simulation.outcome();
        assert!(outcome.flows[0].finished, "{handler}");
        outcome.flows[0].unserved
    };
    assert_eq!(missed("looks"), 0);
    assert!(missed("delay-collector") > 0);
}

#[test]
fn protocols_of_one_number_that_nodes_or_ends_cannot_tell_apart_are_refused() {
    // In the mesh plain TCP has number 6, too.
    let six = PROTOCOLS.replace("number = 240", "number = 6");
    let said = made(&six, "delayed", &beside("tcp-newreno")).err().unwrap();
    assert!(
        said.contains("IP protocol 6") && said.contains("handlers"),
        "{said}"
    );
    let shims = "[protocol.a]\nextends = \"tcp-newreno\"\nnumber = 240\nwire = \"shim\"\n\
                 [protocol.b]\nextends = \"tcp-newreno\"\nnumber = 240\n";
    let said = made(shims, "a", &beside("b")).err();
    // Plain TCP has another number here; live it would have its own.
    let said = said.expect("refused");
    let wanted = ["b and a", "IP protocol 240", "not one header"];
    assert!(wanted.iter().all(|w| said.contains(w)), "{said}");
    let shims = shims.replace("number = 240\nwire", "number = 6\nwire");
    let said = made(&shims, "a", &beside("b")).err().unwrap();
    assert!(said.contains("IP protocol 6"), "{said}");
    let snooped = "[protocol.a]\nextends = \"tcp-newreno\"\nnumber = 240\n\
                   [handlers.a]\nchain = [\"snoop\"]\n\
                   [protocol.b]\nextends = \"tcp-sack\"\nnumber = 240\n";
    let said = made(snooped, "a", &beside("b")).err().expect("refused");
    assert!(said.contains("not the same handlers"), "{said}");
}

#[test]
fn nodes_that_do_not_serve_are_named_in_vain_where_nothing_is_served() {
    let said = made(PROTOCOLS, "tcp-newreno", "[host]\nunserved = [\"n2\"]\n").err();
    let said = said.expect("it would do nothing");
    let why = "host.unserved: no flow's protocol brings handlers or a lane";
    assert!(said.contains(why), "{said}");
    let said = made(PROTOCOLS, "tcp-newreno", "[host]\nlanes = \"fifo\"\n").err();
    let said = said.expect("it would do nothing");
    let why = "host.lanes: no flow's protocol has lanes";
    assert!(said.contains(why), "{said}");
}

//! What a registry makes of compositions that bring handlers along, and where they act.

use std::sync::Arc;
use wifu_core::{Descriptor as HandlerDescriptor, Hooks, HopWordSpec};
use wifu_engine::descriptor::NoteSpec;
use wifu_engine::{
    Access, Board, Component, Cx, Descriptor, Fact, Facts, Kind, Library, Role, Segment, Want,
};
use wifu_node::{Lanes, LanesConfig, Registry, Substrate, Teller, facts};
use wifu_wire::ipv4::{self, HEADER, TTL};
use wifu_wire::{Ecn, Head, IpInfo, Rng, Time, hxh};

const FILE: &str = r#"
[protocol.mine]
extends = "tcp-newreno"
number = 240

[handlers.mine]
chain = [{ use = "tpa-shim", eta = 3 }]
"#;

fn registry(text: &str) -> Registry {
    let library = wifu_parts::library().merge(Library::parse(text).unwrap());
    Registry::new(wifu_parts::registry(), library)
}

fn id(text: &str) -> u32 {
    registry(text).resolve("mine").unwrap().ends.id
}

#[test]
fn what_hops_do_is_part_of_the_identity_of_a_composition() {
    let ends = FILE.split("[handlers").next().unwrap();
    let mut ids = vec![
        id(ends),
        id(FILE),
        id(&FILE.replace("eta = 3", "eta = 4")),
        id(&FILE.replace("240", "241")),
    ];
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert_eq!(id(FILE), id(FILE));
    // Ends alone keep theirs, under whatever number.
    assert_eq!(id(ends), id(&ends.replace("240", "241")));
    let plain = registry(FILE).resolve("tcp-newreno").unwrap().ends.id;
    assert_eq!(plain, wifu_parts::blueprint("tcp-newreno").unwrap().id);
}

/// `atp` brings `link-notice` with `elfn=on` alone, and only then is another composition.
#[test]
fn a_switch_of_the_parts_decides_about_a_handler() {
    let registry = registry(FILE);
    let names = |spec: &str| -> Vec<String> {
        let protocol = registry.resolve(spec).unwrap();
        let handlers = protocol.handlers.handlers.iter();
        handlers.map(|h| h.name.clone()).collect()
    };
    for spec in ["atp", "atp-aggressive", "atp-adaptive", "atp-next"] {
        assert_eq!(names(spec), ["delay-collector"]);
        assert_eq!(names(&format!("{spec},elfn=off")), ["delay-collector"]);
        let with = names(&format!("{spec},elfn=on"));
        assert_eq!(with, ["delay-collector", "link-notice"]);
    }
    // Nodes could not tell one's packets from the other's.
    let both = ["atp", "atp,elfn=on"].map(|s| registry.resolve(s).unwrap());
    let said = wifu_node::tell_apart(&both).unwrap_err();
    assert!(said.contains("but not the same handlers"), "{said}");
    let same = ["atp", "atp,kappa=0.3"].map(|s| registry.resolve(s).unwrap());
    assert_eq!(wifu_node::tell_apart(&same).unwrap().len(), 1);
}

#[test]
fn a_packet_in_udp_meets_the_handlers_of_several_that_share_a_port_once() {
    let registry = registry("");
    let names = [
        "atp",
        "atp-adaptive",
        "atp-aggressive",
        "atp-adaptive",
        "tcp-reno",
    ];
    let served = names.map(|s| Arc::new(registry.resolve(s).unwrap().at_ports(&[9438, 7000])));
    let halves = wifu_node::tell_apart(&served).unwrap();
    let told: Vec<_> = halves
        .iter()
        .map(|p| (p.ends.number, &p.ports[..]))
        .collect();
    assert_eq!(told, [(219, &[9438, 7000][..]), (231, &[]), (230, &[])]);
    assert!(served[4].ports.is_empty(), "TCP has no service in UDP");
}

#[test]
fn a_switch_that_no_part_has_is_named_with_the_nearest() {
    let wrong = "[protocol.mine]\nextends = \"atp\"\n[handlers.mine]\n\
                 chain = [\"delay-collector\", { use = \"link-notice\", with = \"elfm\" }]\n";
    let said = registry(wrong).resolve("mine").unwrap_err().to_string();
    assert_eq!(
        said,
        "handlers.mine: chain.2: with = \"elfm\": no part here has a switch of this name; did you \
         mean `elfn`?"
    );
    let number = wrong.replace("elfm", "syn_tries");
    let said = registry(&number).resolve("mine").unwrap_err().to_string();
    assert!(said.contains("no part here has a switch"), "{said}");
}

static LISTENER: Descriptor = Descriptor {
    name: "listener",
    hooks: &["overheard"],
    build: |_| Ok(Box::new(Listener)),
    ..Descriptor::EMPTY
};

struct Listener;

impl Component for Listener {
    fn on_overheard(&mut self, _: &Segment<'_>, _: &mut Cx<'_>) {}
}

#[test]
fn a_part_that_must_overhear_does_not_run_where_nothing_is_overheard() {
    let text = "[protocol.mine]\nextends = \"tcp-newreno\"\nwatch.add = [\"listener\"]\n";
    let registry = registry(text).with_parts(&[&LISTENER]);
    for on in [Substrate::Sim, Substrate::Emu, Substrate::Live] {
        assert!(registry.resolve_on("mine", on).is_ok());
    }
    let said = registry.resolve_on("mine", Substrate::Mock).unwrap_err();
    assert_eq!(
        said.to_string(),
        "protocol.mine: listener hears frames for other stations, which it is not shown in \
         `wifu mock`; it is in `wifu sim` with radios, `wifu sim` over wires with `overheard_by`, \
         `wifu daemon --monitor`, `wifu daemon --overhear`"
    );
}

/// A watcher that requires these facts, and a registry whose `mine` has it.
fn requiring(name: &'static str, requires: &'static [Fact], more: &str) -> Registry {
    let watcher = Box::leak(Box::new(Descriptor {
        name,
        role: Role::Watch,
        requires,
        build: |_| Ok(Box::new(Idle)),
        ..Descriptor::EMPTY
    }));
    let mine = format!("[protocol.mine]\nextends = \"tcp-newreno\"\nwatch.add = [\"{name}\"]\n");
    registry(&format!("{mine}{more}")).with_parts(&[watcher])
}

struct Idle;

impl Component for Idle {}

#[test]
fn a_part_that_requires_a_fact_is_refused_where_nobody_tells_it() {
    let said = |facts, on| {
        let registry = requiring("watcher", facts, "");
        let refused = registry.resolve_on("mine", on).map(|p| p.ends.id);
        refused.map_err(|e| e.to_string())
    };
    assert!(said(&[Fact::Rssi, Fact::Sense, Fact::Status], Substrate::Sim).is_ok());
    for (on, place, fact, elsewhere) in [
        (
            Substrate::Mock,
            "`wifu mock`",
            Fact::RouteHops,
            ", `wifu sim` over wires",
        ),
        (Substrate::Emu, "`wifu emu`", Fact::Sense, ""),
        (Substrate::Live, "`wifu daemon`", Fact::Sense, ""),
    ] {
        assert!(said(&[], on).is_ok());
        assert_eq!(
            said(core::slice::from_ref(Box::leak(Box::new(fact))), on).unwrap_err(),
            format!(
                "mine.watch: watcher requires {fact}, which is not known in {place}; it is in \
                 `wifu sim` with radios{elsewhere}"
            )
        );
    }
    for on in [Substrate::Sim, Substrate::Mock, Substrate::Emu] {
        let said = said(&[Fact::NextHop, Fact::TxPower], on).unwrap_err();
        let power = "watcher requires site.tx_power_dbm (transmit power), which is not known in";
        assert!(said.contains(power), "{said}");
        let elsewhere = "it is in `wifu daemon --serve` on Wi-Fi";
        assert!(said.contains(elsewhere), "{said}");
        let hop = "watcher requires site.next_hop (the next hop), which";
        assert_eq!(said.contains(hop), on == Substrate::Mock, "{said}");
    }
}

#[test]
fn a_part_that_takes_a_section_for_a_fact_is_refused_where_there_is_neither() {
    static COUNTS: Descriptor = Descriptor {
        name: "counts",
        requires_either: &[(Fact::RouteHops, Facts::PATH)],
        build: |_| Ok(Box::new(Idle)),
        ..Descriptor::EMPTY
    };
    let resolved = |watch: &str, on| {
        let mine = format!("[protocol.mine]\nextends = \"tcp-newreno\"\nwatch.add = [{watch}]\n");
        let resolved = registry(&mine)
            .with_parts(&[&COUNTS])
            .resolve_on("mine", on);
        resolved.map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(resolved("\"counts\"", Substrate::Sim), Ok(()));
    for on in [Substrate::Mock, Substrate::Emu, Substrate::Live] {
        let said = resolved("\"counts\"", on).unwrap_err();
        let who = "mine.watch: counts requires site.route_hops (hops by the routing table), which";
        let or = "; a part that writes path stands in for site.route_hops";
        assert!(said.starts_with(who) && said.ends_with(or), "{said}");
        assert_eq!(resolved("\"ttl-hops\", \"counts\"", on), Ok(()));
    }
}

#[test]
fn what_the_network_of_a_scenario_does_not_tell_is_refused_there() {
    let protocol = requiring("watcher", &[Fact::Rssi, Fact::RouteHops], "").resolve("mine");
    let protocol = protocol.unwrap();
    let informed = |tellers: &[Teller]| protocol.informed("this one", &facts::told(tellers));
    assert!(informed(&[Teller::Radios]).is_ok());
    assert!(informed(&[Teller::Radios, Teller::Wires]).is_ok());
    let said = informed(&[Teller::Wires]).unwrap_err();
    assert_eq!(said.problems.len(), 1, "{said}");
    assert_eq!(said.problems[0].key, "mine.watch");
    let why = "not known in this one; it is in `wifu sim` with radios, `wifu daemon --monitor`, \
               `wifu daemon --serve` on Wi-Fi";
    assert!(said.problems[0].what.ends_with(why), "{said}");
}

#[test]
fn parts_require_what_parts_can_read_and_handlers_what_they_can() {
    let said = requiring("watcher", &[Fact::LinkBusy], "").resolve("mine");
    assert_eq!(
        said.unwrap_err().to_string(),
        "mine.watch: watcher requires link.busy (how busy the medium is), which handlers are told \
         and parts are not"
    );
    static SENSES: HandlerDescriptor = HandlerDescriptor {
        name: "senses",
        requires: &[Fact::Sense],
        hooks: Hooks::ALL,
        ..HandlerDescriptor::EMPTY
    };
    let brings = "[handlers.mine]\nchain = [\"senses\"]\n";
    let registry = requiring("watcher", &[], brings).with_handlers(&[&SENSES]);
    let said = registry.resolve("mine").unwrap_err().to_string();
    let why = "it requires site.sense_dbm (carrier-sense threshold), which parts are told and";
    assert!(said.contains(why), "{said}");
}

#[test]
fn handlers_that_a_protocol_brings_are_looked_at_with_their_parameters() {
    let brings = |status| {
        let chain = format!("chain = [{{ use = \"logger\", status = {status} }}]");
        let registry = requiring("watcher", &[], &format!("[handlers.mine]\n{chain}\n"));
        registry.resolve_on("mine", Substrate::Sim).unwrap()
    };
    let wires = facts::told(&[Teller::Wires]);
    assert!(brings(false).informed("this one", &wires).is_ok());
    assert_eq!(
        brings(true)
            .informed("this one", &wires)
            .unwrap_err()
            .to_string(),
        "handlers.mine: logger requires status (what became of transmissions), which is not known \
         in this one; it is in `wifu sim` with radios, `wifu daemon --monitor`, `wifu core \
         --monitor`"
    );
}

/// Asks nothing of the header.
static QUIET: Descriptor = Descriptor {
    name: "quiet",
    role: Role::Manager,
    offers: &[Kind::Control],
    build: |_| Ok(Box::new(Quiet)),
    ..Descriptor::EMPTY
};

struct Quiet;

impl Component for Quiet {
    fn offer(&self, _: Kind, _: &Board, _: Time) -> Option<Want> {
        None
    }
}

/// What a composition of these handlers is told, over this wire.
fn refused(wire: &str, chain: &str, handler: Option<&'static HandlerDescriptor>) -> String {
    let ends = match wire {
        "atp" => "manager = \"quiet\"",
        _ => "extends = \"tcp-newreno\"",
    };
    let text = format!(
        "[protocol.mine]\n{ends}\nwire = \"{wire}\"\nnumber = 240\n\
         [handlers.mine]\nchain = [{chain}]\n"
    );
    let own: Vec<_> = handler.into_iter().collect();
    let registry = registry(&text).with_parts(&[&QUIET]).with_handlers(&own);
    let made = registry.resolve("mine");
    made.map_or_else(|e| e.to_string(), |p| format!("made: {}", p.ends.name))
}

static DEAF: HandlerDescriptor = HandlerDescriptor {
    name: "deaf",
    hooks: Hooks::ALL,
    build: |_| Ok(Box::new(Hurries)),
    ..HandlerDescriptor::EMPTY
};

#[test]
fn a_handler_that_writes_what_only_ends_write_is_refused() {
    static PACES: HandlerDescriptor = HandlerDescriptor {
        name: "paces",
        words: &[HopWordSpec::written("hops"), HopWordSpec::written("ds")],
        ..DEAF
    };
    assert_eq!(
        refused("atp", "\"paces\"", Some(&PACES)),
        "handlers.mine: chain.1 (paces): it writes the header word \"ds\", which atp lets ends alone \
         write, not nodes: they may write idle, hops, delay"
    );
    static READS: HandlerDescriptor = HandlerDescriptor {
        name: "reads",
        words: &[HopWordSpec::read("ds"), HopWordSpec::written("delay")],
        ..DEAF
    };
    let said = refused("atp", "\"reads\"", Some(&READS));
    assert!(!said.contains("header word"), "{said}");
}

#[test]
fn a_handler_that_reads_another_header_than_the_compositions_is_refused() {
    assert_eq!(
        refused("shim", "\"null\", \"snoop\"", None),
        "handlers.mine: chain.2 (snoop): it reads the header of tcp by itself, and the packets of \
         this composition have that of shim: write wire = \"tcp\", or leave the handler out"
    );
    assert_eq!(refused("tcp", "\"snoop\"", None), "made: mine");
}

#[test]
fn what_is_wrong_with_a_handler_is_said_with_its_place_and_the_nearest_word() {
    let at = |chain: &str| refused("tcp", chain, None);
    let said = at("\"null\", { use = \"drop\", p = 1.5 }");
    assert!(
        said.starts_with("handlers.mine: chain.2 (drop): p = \"1.5\": "),
        "{said}"
    );
    let said = at("{ use = \"logger\", evry = 3 }");
    assert!(
        said.starts_with("handlers.mine: chain.1 (logger): no parameter is called `evry`"),
        "{said}"
    );
    static TYPO: HandlerDescriptor = HandlerDescriptor {
        name: "typo",
        words: &[HopWordSpec::read("deley")],
        ..DEAF
    };
    let said = refused("atp", "\"typo\"", Some(&TYPO));
    assert!(
        said.contains("word \"deley\", which atp does not have; did you mean `delay`?"),
        "{said}"
    );
}

#[test]
fn a_port_that_tells_no_packet_is_refused() {
    static PORTED: HandlerDescriptor = HandlerDescriptor {
        name: "ported",
        params: &[wifu_engine::ParamSpec::int("port", 9438, 1, 65_535, "")],
        port_param: Some("port"),
        ..DEAF
    };
    assert_eq!(
        refused("tcp", "{ use = \"ported\", port = 7000 }", Some(&PORTED)),
        "handlers.mine: chain.1 (ported): port = 7000: the format of these packets has no service \
         port in UDP, so the key would do nothing; leave it out"
    );
    assert_eq!(refused("tcp", "\"ported\"", Some(&PORTED)), "made: mine");
}

#[test]
fn a_relay_that_does_not_serve_is_noticed_by_what_counts_the_nodes() {
    let made = |handlers: &str| {
        let text = FILE.replace("{ use = \"tpa-shim\", eta = 3 }", handlers);
        registry(&text).resolve("mine").unwrap()
    };
    assert!(!made("\"tpa-shim\"").relays_unnoticed(), "its shim counts");
    assert!(
        made("\"snoop\"").relays_unnoticed(),
        "TCP's header does not"
    );
    let plain = registry(FILE).resolve("tcp-newreno").unwrap();
    assert!(!plain.relays_unnoticed(), "nobody need serve it");
}

#[test]
fn a_format_that_does_not_carry_what_a_part_needs_of_it_is_refused() {
    let said = |more: &str| {
        let text = format!(
            "[protocol.mine]\nextends = \"tcp-sack\"\nwire = \"atp\"\nnumber = 240\n{more}"
        );
        let made = registry(&text).with_parts(&[&QUIET]).resolve("mine");
        made.map_or_else(|e| e.to_string(), |p| format!("made: {}", p.ends.name))
    };
    assert_eq!(
        said(""),
        "mine.wire: rfc6298 needs what wire = \"atp\" does not carry: timestamp beside its echo, \
         offer of timestamps; timestamps = off does without; wire = \"shim\" carries all\n\
         mine.wire: selective needs what wire = \"atp\" does not carry: offer of ranges; wire = \
         \"shim\" carries all\n\
         mine.wire: reassemble needs what wire = \"atp\" does not carry: offer of ranges; sack = \
         off does without; wire = \"shim\" carries all"
    );
    let without = said("set = { timestamps = false, sack = false }\n");
    assert!(
        !without.contains("rfc6298") && !without.contains("reassemble"),
        "{without}"
    );
    assert!(without.contains("mine.wire: selective needs"), "{without}");
}

static COUNT_READER: HandlerDescriptor = HandlerDescriptor {
    name: "count-reader",
    words: &[HopWordSpec::read("hops")],
    ..DEAF
};

#[test]
fn nodes_are_missed_only_where_somebody_counts_them() {
    let counted = |wire: &str, more: &str| {
        let text = format!(
            "[protocol.mine]\nextends = \"tcp-newreno\"\nwire = \"{wire}\"\nnumber = 240\n\
             set.timestamps = \"off\"\n{more}"
        );
        let mine = registry(&text).with_handlers(&[&COUNT_READER]);
        let mine = mine.resolve("mine").unwrap();
        // What `wifu describe` says, too.
        assert_eq!(mine.counts_nodes, mine.ends.counted);
        mine.ends.counted
    };
    assert!(!counted("atp", ""), "its header has the word");
    assert!(!counted("shim", ""));
    let reads = "[handlers.mine]\nchain = [\"count-reader\"]\n";
    assert!(!counted("atp", reads), "who reads the word counts nothing");
    assert!(counted(
        "atp",
        "[handlers.mine]\nchain = [\"delay-collector\"]\n"
    ));
}

static WORDS: Descriptor = Descriptor {
    name: "words",
    role: Role::Watch,
    build: |_| Ok(Box::new(Idle)),
    ..Descriptor::EMPTY
};

#[test]
fn a_word_is_declared_as_its_format_has_it() {
    use wifu_engine::WordSpec;
    let with = |part: &'static Descriptor| {
        let text = format!(
            "[protocol.mine]\nextends = \"tcp-newreno\"\nwire = \"atp\"\nwatch.add = [\"{}\"]\n",
            part.name
        );
        let made = registry(&text).with_parts(&[part]).resolve("mine");
        made.map_or_else(|e| e.to_string(), |_| String::from("made"))
    };
    static NARROW: Descriptor = Descriptor {
        name: "narrow",
        words: &[WordSpec::new("ds", 8)],
        ..WORDS
    };
    let said = with(&NARROW);
    let why = "mine.wire: narrow declares the header word \"ds\" differently: it has 8 bits to it and \
               32 in wire = \"atp\"";
    assert!(said.contains(why), "{said}");
    static NAMES: Descriptor = Descriptor {
        name: "names",
        words: &[WordSpec::transmitter("delay")],
        ..WORDS
    };
    let said = with(&NAMES);
    assert!(
        said.contains("it names the transmitter to it, and is none"),
        "{said}"
    );
    static COUNTS: Descriptor = Descriptor {
        name: "counts",
        words: &[WordSpec::new("delay", 32).counting_hops()],
        ..WORDS
    };
    assert!(with(&COUNTS).contains("it counts the nodes to it, and does not"));
    static MARKS: Descriptor = Descriptor {
        name: "marks",
        words: &[WordSpec::new("idle", 1).marking(wifu_wire::Class::Hop)],
        ..WORDS
    };
    assert!(with(&MARKS).contains("marks packets of class hop to it, and tells no such type"));
    static ALIKE: Descriptor = Descriptor {
        name: "alike",
        words: &[
            WordSpec::new("ds", 32),
            WordSpec::new("feedback", 1).marking(wifu_wire::Class::Feedback),
        ],
        ..WORDS
    };
    assert!(!with(&ALIKE).contains("differently"));
}

/// Reads what a part may have noted.
static HURRIES: wifu_core::Descriptor = wifu_core::Descriptor {
    name: "hurries",
    hooks: wifu_core::Hooks::of(&[wifu_core::Hook::Output]),
    notes: &[URGENCY],
    build: |_| Ok(Box::new(Hurries)),
    ..wifu_core::Descriptor::EMPTY
};

const URGENCY: NoteSpec = NoteSpec {
    name: "urgency",
    access: Access::Read,
    unit: "",
    doc: "How soon a packet is to leave.",
};

struct Hurries;

impl wifu_core::Handler for Hurries {
    fn on_packet(
        &mut self,
        _: wifu_core::Hook,
        _: &mut wifu_core::Packet<'_>,
        _: &mut wifu_core::HopCx<'_>,
    ) -> wifu_core::Verdict {
        wifu_core::Verdict::Accept
    }
}

static SAYS: Descriptor = Descriptor {
    name: "says",
    role: Role::Watch,
    notes: &[NoteSpec {
        access: Access::Write,
        ..URGENCY
    }],
    build: |_| Ok(Box::new(Idle)),
    ..Descriptor::EMPTY
};

#[test]
fn an_annotation_that_a_handler_reads_must_be_written_by_somebody() {
    let text = "[protocol.mine]\nextends = \"tcp-newreno\"\n\
                [handlers.mine]\nchain = [{ use = \"hurries\" }]\n";
    let with = |text: &str| {
        let registry = registry(text)
            .with_parts(&[&SAYS])
            .with_handlers(&[&HURRIES]);
        registry.resolve("mine").map_err(|e| e.to_string())
    };
    assert_eq!(
        with(text).unwrap_err(),
        "handlers.mine: hurries reads the annotation \"urgency\", and no part or handler of this \
         composition writes it"
    );
    let says = text.replace("[handlers", "watch.add = [\"says\"]\n[handlers");
    assert!(with(&says).is_ok());
}

/// Control between neighbours, and nothing else, ends at lanes that are for it.
#[test]
fn only_what_lanes_say_to_each_other_ends_at_lanes() {
    let registry = registry("");
    let hxh = registry.resolve("hxh").unwrap();
    let mut lanes = Lanes::new(LanesConfig::default(), &[Arc::clone(&hxh)], Rng::new(1)).unwrap();
    let wire = &hxh.ends.wire;
    let kind = wire.place("type").unwrap().word;
    let packet = |what: u32, proto: u8| {
        let mut head = Head::default();
        head.set(kind, what);
        let mut packet = vec![0; 200];
        let len = wire.emit(&head, &mut packet[HEADER..]);
        let ip = IpInfo {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 5].into(),
            proto,
            ttl: TTL,
            ecn: Ecn::NotEct,
        };
        ipv4::emit(&ip, len, &mut packet);
        packet.truncate(HEADER + len);
        packet
    };
    let own = hxh.ends.number;
    for between in [hxh::CREDIT_REQUEST, hxh::CREDITS, hxh::HOP_ACK] {
        let told = packet(between, own);
        assert!(lanes.ends_here(&told), "{between}");
        assert!(!lanes.ends_here(&told[..HEADER + 10]), "{between}, cut off");
        // Of another protocol, which nobody serves here.
        assert!(!lanes.ends_here(&packet(between, own - 1)), "{between}");
    }
    for passes in [hxh::DATA, hxh::ACK, hxh::NACK, hxh::SYN, hxh::RST] {
        assert!(!lanes.ends_here(&packet(passes, own)), "{passes}");
    }
    assert!(!lanes.ends_here(&[0x45; 20]) && !lanes.ends_here(&[]));
}

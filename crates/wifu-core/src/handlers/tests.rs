//! Tests of the handlers, through the chain that a configuration makes.

use crate::{
    Chain, Config, Ground, Header, Hook, Kinds, LinkFacts, LinkTo, NextHop, Octets, Own, Packet,
    Site, TxStatus, Verbs, Verdict, What, Whose, ip, shim,
};
use core::net::Ipv4Addr;
use wifu_engine::Fact;
use wifu_wire::ipv4::emit;
use wifu_wire::{Ecn, Flags, Head, IpInfo, Neighbour, Rng, Seq, Span, Time};

struct Node(LinkFacts);

impl Site for Node {
    fn node(&self) -> u16 {
        3
    }
    fn link(&self) -> LinkFacts {
        self.0
    }
}

fn node(delay_us: u64) -> Node {
    Node(LinkFacts {
        delay: Some(Span(delay_us * 1000)),
        queued: Some(1),
        ..LinkFacts::default()
    })
}

fn idle(delay_us: u64) -> Node {
    Node(LinkFacts {
        queued: Some(0),
        ..node(delay_us).0
    })
}

fn ground(kinds: &Kinds, can: Verbs) -> Ground<'_> {
    let told = &Fact::ALL;
    Ground { kinds, can, told }
}

fn made(toml: &str, can: Verbs) -> Result<Chain, crate::ConfigError> {
    let config = Config::from_toml(toml).unwrap();
    let kinds = &Kinds::new(wifu_engine::Registry::new(&[]));
    config.chain(&Rng::new(1), ground(kinds, can))
}

fn chain(toml: &str) -> Chain {
    made(toml, Verbs::ALL).unwrap_or_else(|e| panic!("{e}"))
}

fn error(toml: &str) -> String {
    match made(toml, Verbs::ALL) {
        Ok(_) => panic!("accepted"),
        Err(e) => e.to_string(),
    }
}

fn packet(proto: u8, payload: &[u8]) -> Vec<u8> {
    let info = IpInfo {
        src: Ipv4Addr::new(10, 0, 0, 1),
        dst: Ipv4Addr::new(10, 0, 0, 2),
        proto,
        ttl: 60,
        ecn: Ecn::NotEct,
    };
    let mut packet = vec![0; 20];
    emit(&info, payload.len(), &mut packet);
    packet.extend_from_slice(payload);
    packet
}

fn ask(chain: &mut Chain, hook: Hook, bytes: &mut Vec<u8>, ticket: u64, site: &Node) -> Verdict {
    let mut packet = Packet::new(bytes, ticket);
    let verdict = chain.on_packet(hook, &mut packet, LATER, site);
    if packet.changed() {
        ip::repair(bytes);
    }
    verdict
}

const LATER: Time = Time(10_000_000_000);

#[test]
fn packets_are_dropped_as_often_as_asked_for_and_only_of_the_protocol() {
    let mut c =
        chain("[[handler]]\nuse = \"drop\"\nprotocol = 17\np = 0.25\nhooks = [\"forward\"]\n");
    let site = node(0);
    let mut dropped = 0;
    for i in 0..4000 {
        let verdict = ask(&mut c, Hook::Forward, &mut packet(17, &[0; 30]), i, &site);
        dropped += u32::from(verdict == Verdict::Drop("drop"));
        assert_eq!(
            ask(&mut c, Hook::Forward, &mut packet(6, &[0; 30]), i, &site),
            Verdict::Accept
        );
        assert_eq!(
            ask(&mut c, Hook::Input, &mut packet(17, &[0; 30]), i, &site),
            Verdict::Accept
        );
    }
    assert!((900..1100).contains(&dropped), "{dropped}");
    let counters: Vec<_> = c
        .counters()
        .map(|(n, c)| (n.to_owned(), c.packets))
        .collect();
    assert_eq!(counters, [("drop".to_owned(), 4000)]);
}

#[test]
fn a_delayed_packet_goes_on_to_the_next_handler_when_its_time_has_come() {
    let text =
        "[[handler]]\nuse = \"delay\"\nt = \"5ms\"\nmost_held = 2\n[[handler]]\nuse = \"logger\"\n";
    let mut c = chain(text);
    let site = node(0);
    let mut bytes = packet(6, &[0; 20]);
    for ticket in [7, 8] {
        assert_eq!(
            ask(&mut c, Hook::Output, &mut bytes, ticket, &site),
            Verdict::Hold
        );
    }
    assert_eq!(
        ask(&mut c, Hook::Output, &mut bytes, 9, &site),
        Verdict::Accept,
        "full: open"
    );
    assert_eq!((c.held(), c.take_lines().len()), (2, 1));
    assert_eq!(c.poll_timeout(), LATER + Span(5_000_000));
    c.handle_timeout(LATER + Span(5_000_000), &site);
    for ticket in [7, 8] {
        let released = c.poll_released().unwrap();
        assert_eq!(
            (released.ticket, released.verdict),
            (ticket, Verdict::Accept)
        );
        let mut p = Packet::new(&mut bytes, ticket);
        assert_eq!(c.resume(released, &mut p, LATER, &site), Verdict::Accept);
    }
    assert_eq!(
        (c.poll_released(), c.held(), c.take_lines().len()),
        (None, 0, 2)
    );
    assert_eq!(c.poll_timeout(), Time::NEVER);
    // The third was let go although its handler still believes that it holds it.
    assert_eq!(c.counters().next().unwrap().1.overflows, 1);
    let closed = text.replacen("most_held = 2", "most_held = 1\nwhen_full = \"closed\"", 1);
    let mut c = chain(&closed);
    let mut ask = |ticket| ask(&mut c, Hook::Output, &mut bytes, ticket, &site);
    assert_eq!(ask(1), Verdict::Hold);
    assert_eq!(ask(2), Verdict::Drop("handler full"));
}

#[test]
fn a_packet_that_the_substrate_lost_is_forgotten() {
    let mut c = chain("[[handler]]\nuse = \"delay\"\nmost_held = 1\n");
    let site = node(0);
    let mut bytes = packet(6, &[0; 20]);
    assert_eq!(
        ask(&mut c, Hook::Input, &mut bytes, 1, &site),
        Verdict::Hold
    );
    c.forget(1);
    assert_eq!(
        ask(&mut c, Hook::Input, &mut bytes, 2, &site),
        Verdict::Hold
    );
    c.handle_timeout(Time(u64::MAX - 1), &site);
    assert_eq!(c.poll_released().map(|r| r.ticket), Some(2));
    assert_eq!(c.poll_released(), None);
}

/// Ask about a packet at `at` milliseconds.
fn ask_at(chain: &mut Chain, at: u64, ticket: u64) -> Verdict {
    let mut bytes = packet(6, &[0; 20]);
    let mut packet = Packet::new(&mut bytes, ticket);
    chain.on_packet(Hook::Output, &mut packet, ms(at), &node(0))
}

/// The tickets of those that are let go at `at` milliseconds.
fn let_go_at(chain: &mut Chain, at: u64) -> Vec<u64> {
    chain.handle_timeout(ms(at), &node(0));
    let mut found = Vec::new();
    while let Some(released) = chain.poll_released() {
        found.push(released.ticket);
        let mut bytes = packet(6, &[0; 20]);
        let mut packet = Packet::new(&mut bytes, released.ticket);
        let _ = chain.resume(released, &mut packet, ms(at), &node(0));
    }
    found
}

fn ms(at: u64) -> Time {
    LATER + Span(at * 1_000_000)
}

#[test]
fn a_handler_that_was_full_does_not_let_another_ones_packet_go() {
    let mut c = chain(
        "[[handler]]\nuse = \"delay\"\nt = \"5ms\"\nmost_held = 1\nhooks = [\"output\"]\n\
         [[handler]]\nuse = \"delay\"\nt = \"20ms\"\n",
    );
    for ticket in [1, 2] {
        assert_eq!(ask_at(&mut c, 0, ticket), Verdict::Hold);
    }
    // The second passed the first handler, which was full.
    assert_eq!(let_go_at(&mut c, 5), [1]);
    assert_eq!(let_go_at(&mut c, 20), [2]);
    assert_eq!(let_go_at(&mut c, 25), [1]);
    assert_eq!(c.held(), 0);
}

#[test]
fn a_ticket_of_a_packet_that_was_not_held_may_be_anothers_later() {
    let text = "[[handler]]\nuse = \"delay\"\nt = \"5ms\"\nmost_held = 1\n";
    let mut c = chain(text);
    assert_eq!(ask_at(&mut c, 0, 1), Verdict::Hold);
    assert_eq!(ask_at(&mut c, 4, 2), Verdict::Accept, "full");
    assert_eq!(let_go_at(&mut c, 5), [1]);
    assert_eq!(ask_at(&mut c, 6, 2), Verdict::Hold);
    assert_eq!(let_go_at(&mut c, 9), [], "it came 3 ms ago");
    assert_eq!(let_go_at(&mut c, 11), [2]);
    // The same with one that the substrate lost.
    assert_eq!(ask_at(&mut c, 12, 3), Verdict::Hold);
    c.forget(3);
    assert_eq!(ask_at(&mut c, 14, 3), Verdict::Hold);
    assert_eq!(let_go_at(&mut c, 17), []);
    assert_eq!(let_go_at(&mut c, 19), [3]);
    // The substrate need not say that it did.
    assert_eq!(ask_at(&mut c, 20, 4), Verdict::Hold);
    assert_eq!(ask_at(&mut c, 22, 4), Verdict::Hold);
    assert_eq!(let_go_at(&mut c, 25), []);
    assert_eq!((let_go_at(&mut c, 27), c.held()), (vec![4], 0));
    assert_eq!(c.counters().next().unwrap().1.overflows, 1);
}

/// An ATP packet over UDP.
fn atp(control: u16, hops: u8, delay: u32) -> Vec<u8> {
    let mut body = vec![0; 8 + 40 + 100];
    body[..2].copy_from_slice(&9438u16.to_be_bytes());
    body[8] = 1;
    body[9] = 1;
    body[10..12].copy_from_slice(&control.to_be_bytes());
    body[14] = hops;
    body[24..28].copy_from_slice(&delay.to_be_bytes());
    packet(17, &body)
}

fn fields(bytes: &[u8]) -> (u16, u8, u32) {
    let h = &bytes[28..];
    let word = u32::from_be_bytes([h[16], h[17], h[18], h[19]]);
    (u16::from_be_bytes([h[2], h[3]]), h[6], word)
}

#[test]
fn the_collector_keeps_the_largest_delay_of_the_path() {
    let mut c = chain("[[handler]]\nuse = \"delay-collector\"\n");
    let mut bytes = atp(0, 0, 0);
    for (i, site) in [node(900), node(2044), node(700)].iter().enumerate() {
        let hook = if i == 0 { Hook::Output } else { Hook::Forward };
        assert_eq!(ask(&mut c, hook, &mut bytes, 0, site), Verdict::Accept);
    }
    assert_eq!(fields(&bytes), (0, 3, 2044));
    assert!(wifu_wire::ipv4::parse(&bytes).is_ok());
    // An idle node counts three times, and says so; not for adaptive flows.
    let mut bytes = atp(0, 255, 2044);
    let _ = ask(&mut c, Hook::Forward, &mut bytes, 0, &idle(800));
    assert_eq!(fields(&bytes), (0x0400, 255, 2400));
    let mut bytes = atp(0x0800, 0, 500);
    let _ = ask(&mut c, Hook::Forward, &mut bytes, 0, &idle(800));
    assert_eq!(fields(&bytes), (0x0C00, 1, 800));
    // A busier node later takes the mark away again.
    let _ = ask(&mut c, Hook::Forward, &mut bytes, 0, &node(900));
    assert_eq!(fields(&bytes), (0x0800, 2, 900));
}

#[test]
fn the_collector_knows_a_service_by_its_port() {
    let other = |port: u16| {
        let mut bytes = atp(0, 0, 0);
        bytes[20..22].copy_from_slice(&port.to_be_bytes());
        bytes
    };
    let (udp, ip) = ("protocol = 17\n", "protocol = 219\n");
    for (given, port) in [("", 9438), ("port = 7000\n", 7000), (udp, 9438)] {
        let mut c = chain(&format!("[[handler]]\nuse = \"delay-collector\"\n{given}"));
        for (at, hops) in [(port, 1), (port + 1, 0)] {
            let mut bytes = other(at);
            let _ = ask(&mut c, Hook::Forward, &mut bytes, 0, &node(900));
            assert_eq!(fields(&bytes).1, hops, "{given}{at}");
        }
    }
    // Two services take two collectors, each of which counts its own packets.
    let one = "[[handler]]\nuse = \"delay-collector\"\n";
    let mut c = chain(&format!("{one}{one}port = 7000\n"));
    for at in [9438, 7000] {
        let mut bytes = other(at);
        let _ = ask(&mut c, Hook::Forward, &mut bytes, 0, &node(900));
        assert_eq!(fields(&bytes).1, 1, "{at}");
    }
    let mut c = chain(&format!("[[handler]]\nuse = \"delay-collector\"\n{ip}"));
    let mut bytes = other(9438);
    let _ = ask(&mut c, Hook::Forward, &mut bytes, 0, &node(900));
    assert_eq!(fields(&bytes).1, 0, "not in UDP");
}

#[test]
fn on_long_paths_the_collector_may_count_idle_nodes_more() {
    for (given, at_fifth) in [("", 2400), ("eta_long = 5.0\n", 4000)] {
        let mut c = chain(&format!("[[handler]]\nuse = \"delay-collector\"\n{given}"));
        for (hops, expected) in [(3, 2400), (4, at_fifth), (200, at_fifth)] {
            let mut bytes = atp(0, hops, 0);
            let _ = ask(&mut c, Hook::Forward, &mut bytes, 0, &idle(800));
            assert_eq!(fields(&bytes), (0x0400, hops + 1, expected));
        }
    }
}

#[test]
fn each_handler_that_changes_a_packet_is_counted() {
    let twice = "[[handler]]\nuse = \"delay-collector\"\n".repeat(2);
    let mut c = chain(&twice);
    let _ = ask(&mut c, Hook::Forward, &mut atp(0, 0, 0), 0, &node(900));
    let changed: Vec<u64> = c.counters().map(|(_, c)| c.changed).collect();
    assert_eq!(changed, [1, 1]);
}

#[test]
fn feedback_and_what_is_not_atp_pass_the_collector_untouched() {
    let mut c = chain("[[handler]]\nuse = \"delay-collector\"\n");
    let mut other = atp(0, 0, 0);
    other[20..22].copy_from_slice(&53u16.to_be_bytes());
    for mut bytes in [
        atp(0x4000, 4, 9),
        other,
        packet(17, &[1; 20]),
        packet(6, &[1; 90]),
    ] {
        let before = bytes.clone();
        assert_eq!(
            ask(&mut c, Hook::Forward, &mut bytes, 0, &node(5000)),
            Verdict::Accept
        );
        assert_eq!(bytes, before);
    }
}

#[test]
fn when_a_node_is_idle_and_forgets_is_the_collectors_to_say() {
    let raised = |more: &str| {
        let mut c = chain(&format!("[[handler]]\nuse = \"delay-collector\"\n{more}"));
        let mut bytes = atp(0, 0, 0);
        let _ = ask(&mut c, Hook::Forward, &mut bytes, 0, &idle(5000));
        fields(&bytes).2
    };
    assert_eq!(raised(""), 15_000);
    assert_eq!(raised("idle_after = \"60s\"\n"), 5_000);
    // It forgets what it measured, and knows of no D0.
    assert_eq!(raised("stale_reset = true\n"), 0);
}

#[test]
fn the_shim_of_tp_alpha_goes_in_is_raised_and_comes_out_with_the_delay() {
    let mut c = chain("[[handler]]\nuse = \"tpa-shim\"\n");
    let mut tcp = vec![0; 40];
    tcp[13] = 0x10;
    let plain = packet(208, &tcp);
    let mut bytes = plain.clone();
    assert_eq!(
        ask(&mut c, Hook::Output, &mut bytes, 0, &node(700)),
        Verdict::Accept
    );
    assert_eq!((bytes.len(), bytes[9]), (plain.len() + 12, shim::PROTOCOL));
    let _ = ask(&mut c, Hook::Forward, &mut bytes, 0, &idle(5000));
    let _ = ask(&mut c, Hook::Forward, &mut bytes, 0, &node(400));
    let mut p = Packet::new(&mut bytes, 0);
    assert_eq!(
        c.on_packet(Hook::Input, &mut p, LATER, &node(0)),
        Verdict::Accept
    );
    let kinds = Kinds::new(wifu_engine::Registry::new(&[]));
    let note = |name: &str| p.notes.get(kinds.parts.note(name).unwrap());
    assert_eq!(note("max_delay"), Some(5000), "eta is for SYN only");
    // Sender and two nodes looked at it, but its TTL says that five routers had it.
    assert_eq!((note("fb_delay"), note("unserved")), (Some(0), Some(3)));
    assert_eq!(bytes, plain);
    // The peer is told.
    let mut back = packet(208, &tcp);
    for at in 12..16 {
        back.swap(at, at + 4);
    }
    let _ = ask(&mut c, Hook::Output, &mut back, 0, &node(0));
    assert_eq!(back[28], 3);
    // On a SYN an idle node counts three times.
    tcp[13] = 0x02;
    let mut bytes = packet(208, &tcp);
    let _ = ask(&mut c, Hook::Output, &mut bytes, 0, &idle(500));
    let (_, start) = shim::parse(&bytes).unwrap();
    let place = shim::DELAY_FORMAT.place("max_delay").unwrap();
    assert_eq!(place.read(&bytes[start..]), 1500);
}

#[test]
fn a_shim_too_short_for_its_words_passes_untouched() {
    let mut c = chain("[[handler]]\nuse = \"tpa-shim\"\n");
    for length in [4, 11] {
        let mut tcp = vec![0; 40];
        tcp[..4].copy_from_slice(&[1, shim::DELAY, 208, length]);
        let mut bytes = packet(shim::PROTOCOL, &tcp);
        let before = bytes.clone();
        for hook in [Hook::Forward, Hook::Input] {
            let verdict = ask(&mut c, hook, &mut bytes, 0, &node(700));
            assert_eq!((verdict, &bytes), (Verdict::Accept, &before));
        }
    }
}

#[test]
fn the_papers_lines_and_wrong_configurations_are_understood() {
    let line = Config::line("handler drop 17 p=0.5 # half")
        .unwrap()
        .unwrap();
    assert_eq!(
        (line.name.as_str(), line.protocol.clone()),
        ("drop", Some(Whose::Number(17)))
    );
    let config = Config {
        handlers: vec![line],
    };
    let kinds = &Kinds::new(wifu_engine::Registry::new(&[]));
    let ground = Ground {
        kinds,
        can: Verbs::NONE,
        told: &[],
    };
    assert!(config.chain(&Rng::new(1), ground).is_ok());
    let held = "[[handler]]\nuse = \"delay\"\n";
    let said = made(held, Verbs::COPY.with(Verbs::SEND)).err().unwrap();
    assert!(said.to_string().contains("it must hold packets"), "{said}");
    let reports = "[[handler]]\nuse = \"logger\"\nstatus = true\n";
    assert!(made(reports, Verbs::NONE).is_ok());
    let config = Config::from_toml(reports).unwrap();
    let said = config.chain(&Rng::new(1), ground).err().unwrap();
    assert_eq!(
        said.to_string(),
        "handler.1 (logger): with status = on it requires status (what became of transmissions), \
         which is not known here"
    );
    let quiet = Config::from_toml("[[handler]]\nuse = \"logger\"\n").unwrap();
    assert!(quiet.chain(&Rng::new(1), ground).is_ok());
    assert_eq!(
        Config::line("OUTPUT -p udp -j NFQUEUE --queue-num 1"),
        Ok(None)
    );
    for line in ["handler drop", "handler drop 300", "handler drop -"] {
        assert!(Config::line(line).is_err(), "{line}");
    }
    let named = Config::line("handler drop tcp-newreno p=0.5").unwrap();
    let named = named.unwrap().protocol;
    assert_eq!(named, Some(Whose::Composition(String::from("tcp-newreno"))));
    let cases = [
        ("[[handler]]\nuse = \"dorp\"\n", "did you mean `drop`"),
        (
            "[[handler]]\nuse = \"drop\"\nq = 1\n",
            "no parameter is called `q`",
        ),
        ("[[handler]]\nuse = \"drop\"\np = 2\n", "between 0 and 1"),
        (
            "[[handler]]\nuse = \"drop\"\nhooks = [\"inputs\"]\n",
            "is no hook",
        ),
        (
            "[[handler]]\nuse = \"delay\"\nhooks = [\"overheard\"]\n",
            "does nothing at overheard",
        ),
        (
            "[[handler]]\nuse = \"drop\"\nhooks = [\"overheard\"]\n",
            "does nothing at overheard",
        ),
        (
            "[[handler]]\nuse = \"drop\"\nhooks = []\n",
            "hooks = []: then it is never asked; name some of input, output",
        ),
        (
            "[[handler]]\nuse = \"delay\"\nmost_held = 0\n",
            "most_held = 0: then it holds nothing; write 1 or more",
        ),
        (
            "[[handler]]\nuse = \"delay\"\nwhen_full = \"shut\"\n",
            "open or closed",
        ),
    ];
    for (text, expected) in cases {
        let found = error(text);
        assert!(found.contains(expected), "{found}");
    }
}

/// Packets of a number, and the header that tells which of two compositions they are of.
fn of_composition(id: u32) -> Vec<u8> {
    use wifu_wire::Wire as _;
    let codec = wifu_wire::shim::codec(id, &[]).unwrap();
    let mut body = vec![0; 60];
    let n = codec.emit(&wifu_wire::Head::default(), &mut body);
    packet(200, &body[..n])
}

#[test]
fn a_composition_by_name_is_told_from_another_of_its_number() {
    let mut kinds = Kinds::new(wifu_engine::Registry::new(&[]));
    let codec = wifu_wire::shim::codec(1, &[]).unwrap();
    let wire = std::sync::Arc::new(codec);
    kinds.headers.add("mine", Header { wire, number: 200 });
    let text = "[[handler]]\nuse = \"drop\"\nprotocol = \"mine\"\np = 1\n";
    let config = Config::from_toml(text).unwrap();
    let mut chain = config
        .chain(&Rng::new(1), ground(&kinds, Verbs::ALL))
        .unwrap();
    let mut asked = |mut octets: Vec<u8>| ask(&mut chain, Hook::Forward, &mut octets, 0, &node(0));
    assert_eq!(asked(of_composition(1)), Verdict::Drop("drop"));
    assert_eq!(asked(of_composition(2)), Verdict::Accept);
    assert_eq!(asked(packet(6, &[0; 40])), Verdict::Accept);
    // Rules go by the number; ones that nobody looked up are no packets at all.
    assert_eq!(config.handlers[0].place(&kinds).unwrap().1, Some(vec![200]));
    let said = error(text);
    assert!(said.contains("compositions are not known here"), "{said}");
    // Its words are those of the composition's format.
    let text = "[[handler]]\nuse = \"delay-collector\"\nprotocol = \"mine\"\n";
    let config = Config::from_toml(text).unwrap();
    let said = config.chain(&Rng::new(1), ground(&kinds, Verbs::ALL));
    let said = said.err().unwrap().to_string();
    assert!(said.contains("which shim does not have"), "{said}");
}

/// What is wrong with a handler that a composition brings.
fn brought(toml: &str) -> Option<String> {
    let kinds = &Kinds::new(wifu_engine::Registry::new(&[]));
    let ground = ground(kinds, Verbs::ALL);
    let own = Own {
        wire: &wifu_wire::tcp::Tcp,
        number: 240,
        ports: &[],
    };
    let config = Config::from_toml(toml).unwrap();
    let made = config.append(&mut Chain::new(), &Rng::new(1), ground, Some(own));
    made.err().map(|e| e.to_string())
}

#[test]
fn a_composition_decides_about_which_packets_its_handlers_are_asked() {
    let drop = "[[handler]]\nuse = \"drop\"\n";
    assert_eq!(brought(drop), None);
    let found = brought(&format!("{drop}protocol = 17\n")).unwrap();
    assert!(
        found.contains("protocol = 17: a handler that a composition brings"),
        "{found}"
    );
    assert!(found.contains("(protocol 240); leave the key out"));
}

#[test]
fn a_shim_that_nobody_puts_in_or_takes_out_is_refused() {
    let at = |hooks: &str| {
        brought(&format!(
            "[[handler]]\nuse = \"tpa-shim\"\nhooks = [{hooks}]\n"
        ))
    };
    assert_eq!(at("\"output\", \"input\""), None);
    for hooks in ["\"forward\"", "\"output\"", "\"input\", \"forward\""] {
        let found = at(hooks).unwrap();
        assert!(found.contains("puts a header in at output"), "{found}");
    }
}

#[test]
fn a_parameter_called_port_is_no_selection_unless_its_handler_says_so() {
    use crate::{Descriptor, Hooks};
    use wifu_engine::descriptor::ParamSpec;
    const PORT: ParamSpec = ParamSpec::int("port", 1, 1, 65_535, "Port of the building.");
    static TALLY: Descriptor = Descriptor {
        name: "tally",
        hooks: Hooks::WIRED,
        format: Some(&wifu_wire::atp::FORMAT),
        params: &[PORT],
        build: |_| Ok(Box::new(Tally)),
        ..Descriptor::EMPTY
    };
    struct Tally;
    impl crate::Handler for Tally {
        fn on_packet(&mut self, _: Hook, _: &mut Packet<'_>, _: &mut crate::HopCx<'_>) -> Verdict {
            Verdict::Accept
        }
    }
    let kinds = &Kinds::new(wifu_engine::Registry::new(&[])).with(&[&TALLY]);
    let config = Config::from_toml("[[handler]]\nuse = \"tally\"\nport = 7\n").unwrap();
    let ground = ground(kinds, Verbs::ALL);
    let mut c = config.chain(&Rng::new(1), ground).unwrap();
    let _ = ask(&mut c, Hook::Forward, &mut atp(0, 0, 0), 0, &node(0));
    assert_eq!(c.counters().next().unwrap().1.packets, 1);
}

#[test]
#[should_panic(expected = "two handlers are called drop: give yours a name of its own")]
fn a_handler_does_not_hide_another_of_its_name() {
    static DROP: crate::Descriptor = crate::Descriptor {
        name: "drop",
        ..crate::Descriptor::EMPTY
    };
    let _ = Kinds::new(wifu_engine::Registry::new(&[])).with(&[&DROP]);
}

/// A packet of which the substrate keeps copies, under the ticket given with it.
struct Kept(Vec<u8>, u64);

impl Octets for Kept {
    fn get(&self) -> &[u8] {
        &self.0
    }
    fn get_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
    fn replace(&mut self, octets: &[u8]) {
        self.0.replace(octets);
    }
    fn copy(&mut self) -> Option<u64> {
        Some(self.1)
    }
}

/// A data segment of the flow from this port.
fn segment(port: u16, number: u32) -> Vec<u8> {
    let mut tcp = vec![0; 20 + 100];
    tcp[..2].copy_from_slice(&port.to_be_bytes());
    tcp[4..8].copy_from_slice(&(1 + number * 100).to_be_bytes());
    tcp[12..14].copy_from_slice(&[0x50, 0x10]);
    packet(6, &tcp)
}

#[test]
fn snoop_has_room_for_a_flow_though_others_vanished_with_all_its_places() {
    let mut c = chain("[[handler]]\nuse = \"snoop\"\nmost_held = 60\n");
    let site = node(0);
    let mut tickets = 0..;
    let mut dropped = 0;
    let mut pass = |at: Time, port: u16, number: u32| {
        let mut octets = Kept(segment(port, number), tickets.next().unwrap());
        let mut packet = Packet::new(&mut octets, 0);
        let verdict = c.on_packet(Hook::Forward, &mut packet, at, &site);
        assert_eq!(verdict, Verdict::Accept);
        dropped += core::iter::from_fn(|| c.poll_dropped()).count();
        (c.counters().next().unwrap().1.kept, dropped)
    };
    for (at, port) in [(0, 1000), (10, 2000)] {
        for number in 0..30 {
            pass(ms(at), port, number);
        }
    }
    // All are awake: nobody makes room.
    assert_eq!(pass(ms(1000), 3000, 0), (60, 0));
    // The first segment finds none, those behind it do.
    assert_eq!(pass(ms(9000), 3000, 1), (60, 30));
    for number in 2..32 {
        pass(ms(9000), 3000, number);
    }
    assert_eq!(pass(ms(9000), 3000, 32), (90, 60));
    assert_eq!(pass(ms(9000), 3000, 33), (91, 60));
}

/// A flow that snoop watches at its relay, and what becomes of its packets there.
struct Snooped {
    chain: Chain,
    at: Time,
    ticket: u64,
}

impl Snooped {
    fn new() -> Snooped {
        Snooped {
            chain: chain("[[handler]]\nuse = \"snoop\"\n"),
            at: ms(1),
            ticket: 0,
        }
    }

    fn pass(&mut self, octets: Vec<u8>) -> bool {
        self.at += Span(1000);
        self.ticket += 1;
        let mut octets = Kept(octets, self.ticket);
        let mut packet = Packet::new(&mut octets, 0);
        let verdict = self
            .chain
            .on_packet(Hook::Forward, &mut packet, self.at, &node(0));
        while self.chain.poll_dropped().is_some() {}
        verdict == Verdict::Accept
    }

    /// The sender's segment of this number, with this timestamp.
    fn data(&mut self, number: u32, ts: u32) {
        let mut octets = segment(1000, number);
        let data = octets.split_off(40);
        octets[20 + 12] = 0x80;
        octets.extend([1, 1, 8, 10]);
        octets.extend(ts.to_be_bytes());
        octets.extend([0; 4]);
        octets.extend(data);
        let total = octets.len() as u16;
        octets[2..4].copy_from_slice(&total.to_be_bytes());
        assert!(self.pass(octets), "data goes on");
    }

    /// Whether the receiver's acknowledgement of all before this number goes on, and how many
    /// segments it made go again.
    fn ack(&mut self, number: u32) -> (bool, usize) {
        self.ack_with(number, 0, None)
    }

    /// ... with this window, and a SACK block from one number to another.
    fn ack_with(&mut self, number: u32, window: u16, block: Option<[u32; 2]>) -> (bool, usize) {
        let mut octets = segment(0, 0);
        octets.truncate(40);
        octets[12..20].rotate_left(4);
        octets[22..24].copy_from_slice(&1000u16.to_be_bytes());
        octets[28..32].copy_from_slice(&(1 + number * 100).to_be_bytes());
        octets[34..36].copy_from_slice(&window.to_be_bytes());
        if let Some(ends) = block {
            octets[32] = 0x80;
            octets.extend([1, 1, 5, 10]);
            octets.extend(ends.iter().flat_map(|n| (1 + n * 100).to_be_bytes()));
        }
        let total = octets.len() as u16;
        octets[2..4].copy_from_slice(&total.to_be_bytes());
        let goes_on = self.pass(octets);
        let sent = core::iter::from_fn(|| self.chain.poll_sending()).count();
        (goes_on, sent)
    }
}

#[test]
fn snoop_waits_with_what_a_full_device_would_drop() {
    let mut s = Snooped::new();
    s.data(0, 1);
    let mut wakes = |room| {
        let site = Node(LinkFacts {
            room: Some(room),
            ..node(0).0
        });
        let at = s.chain.poll_timeout();
        s.chain.handle_timeout(at, &site);
        let sent = core::iter::from_fn(|| s.chain.poll_sending()).count();
        (at, sent)
    };
    let [(first, none), (again, one), (last, more)] = [0, 1, 1].map(&mut wakes);
    assert_eq!((none, one, more), (0, 1, 1));
    // Waiting for room is no attempt: only what was sent doubles the time to the next.
    assert_eq!(last - again, (again - first) * 2);
}

#[test]
fn snoop_knows_duplicates_by_their_blocks_if_the_window_grows_meanwhile() {
    let mut flow = Snooped::new();
    for number in 0..4 {
        flow.data(number, 7);
    }
    assert_eq!(flow.ack_with(1, 100, None), (true, 0));
    // Without blocks it is news of the window; a block of what came twice says nothing.
    assert_eq!(flow.ack_with(1, 110, None), (true, 0));
    assert_eq!(flow.ack_with(1, 110, Some([0, 1])), (true, 0));
    assert_eq!(flow.ack_with(1, 110, Some([2, 3])), (false, 1));
    assert_eq!(flow.ack_with(1, 120, Some([2, 4])), (false, 0));
    assert_eq!(flow.ack_with(4, 120, None), (true, 0));
}

#[test]
fn snoop_lets_the_answer_to_a_sender_pass_that_missed_an_acknowledgement() {
    let mut s = Snooped::new();
    for number in 0..4 {
        s.data(number, 1);
    }
    assert_eq!(s.ack(2), (true, 0));
    assert_eq!(s.ack(2), (false, 1), "the third segment is lost");
    // The first acknowledgement was lost on its way back.
    s.data(0, 2);
    assert_eq!(s.ack(2), (true, 0), "that the sender waits for");
    assert!(!s.ack(2).0, "and one is enough");
}

#[test]
fn snoop_leaves_to_the_sender_what_its_newer_timestamp_makes_worthless() {
    let mut s = Snooped::new();
    for number in [0, 2, 3] {
        s.data(number, 1);
    }
    assert_eq!(s.ack(1), (true, 0));
    // Lost before the relay, and repaired with a newer timestamp: the receiver takes no older one.
    s.data(1, 5);
    assert_eq!(s.ack(3), (true, 0));
    assert_eq!(s.ack(3), (true, 0), "no copy that would be refused");
    s.data(3, 6);
    s.data(4, 6);
    assert_eq!(s.ack(4), (true, 0));
    assert_eq!(s.ack(4), (false, 1), "newer ones are as good as ever");
}

#[test]
fn a_handler_that_keeps_and_says_not_how_many_is_refused() {
    use crate::{Descriptor, Hooks};
    static KEEPS: Descriptor = Descriptor {
        name: "keeps",
        hooks: Hooks::ALL,
        needs: Verbs::COPY.with(Verbs::SEND),
        build: |_| Err(String::from("it is not made")),
        ..Descriptor::EMPTY
    };
    let kinds = &Kinds::new(wifu_engine::Registry::new(&[])).with(&[&KEEPS]);
    let made = |toml: &str| {
        let config = Config::from_toml(toml).unwrap();
        let ground = ground(kinds, Verbs::ALL);
        let made = config.append(&mut Chain::new(), &Rng::new(1), ground, None);
        made.unwrap_err().to_string()
    };
    let said = made("[[handler]]\nuse = \"keeps\"\n");
    assert!(said.contains("its descriptor's `holds` is 0"), "{said}");
    let said = made("[[handler]]\nuse = \"keeps\"\nmost_held = 5\n");
    assert!(said.contains("it is not made"), "{said}");
}

/// A node that has a route, or none.
struct Routed(bool);

impl Site for Routed {
    fn node(&self) -> u16 {
        3
    }
    fn link(&self) -> LinkFacts {
        LinkFacts::default()
    }
    fn has_route(&self, _: Ipv4Addr) -> bool {
        self.0
    }
    fn next_hop(&self, _: Ipv4Addr) -> Option<NextHop> {
        self.0.then(|| NextHop {
            neighbour: Neighbour::new(1, [2, 0, 0, 0, 0, 9]).expect("a device"),
            last: false,
            hops: None,
        })
    }
}

/// A packet of ATP with one of its flags set, or none, and so many octets of payload.
fn of_atp(flag: &str, conn_id: u32, seq: u32, len: usize) -> Vec<u8> {
    let wire = (wifu_wire::atp::WIRE.make)();
    let mut head = Head::default();
    (head.sport, head.dport) = (40_000, 9_438);
    (head.conn_id, head.seq, head.ack) = (conn_id, Seq(seq), Some(Seq(1)));
    match flag {
        "" => {}
        "fin" => head.flags = Flags::FIN,
        name => head.set(wire.place(name).expect("a word").word, 1),
    }
    let mut body = vec![0; 48 + len];
    assert_eq!(wire.emit(&head, &mut body), 48);
    packet(219, &body)
}

/// The notices that a handler sent: connection and number of each, and that they are in order.
fn notices(c: &mut Chain) -> Vec<(u32, u32)> {
    let wire = (wifu_wire::atp::WIRE.make)();
    let mut all = Vec::new();
    while let Some(sending) = c.poll_sending() {
        let What::Octets(octets) = sending.what else {
            panic!("made by itself");
        };
        assert_eq!((octets.len(), sending.to), (20 + 48, LinkTo::Route));
        let (ip, segment) = wifu_wire::ipv4::parse(&octets).expect("IPv4");
        let back = [ip.src, ip.dst].map(|a| a.octets()[3]);
        assert_eq!((back, ip.proto), ([2, 1], 219), "the way that it came");
        assert!(wire.verify(&ip.pseudo(), segment));
        let mut head = Head::default();
        assert_eq!(wire.parse(segment, &mut head), Ok(segment.len()));
        assert_eq!((head.sport, head.dport, head.ack), (9_438, 40_000, None));
        let down = wire.place("link_down").expect("a word");
        assert_eq!(
            (segment[10], segment[11]),
            (1, 0),
            "LINK_DOWN and no other flag"
        );
        assert_eq!(head.get(down.word), 1);
        all.push((head.conn_id, head.seq.0));
    }
    all
}

/// An ATP packet leaves, at this time.
fn leaves(c: &mut Chain, mut octets: Vec<u8>, ticket: u64, ms: u64, route: bool) {
    let mut packet = Packet::new(&mut octets, ticket);
    let at = LATER + Span::MILLI * ms;
    let verdict = c.on_packet(Hook::Postrouting, &mut packet, at, &Routed(route));
    assert!(verdict == Verdict::Accept && !packet.changed());
}

fn reported(c: &mut Chain, ticket: u64, delivered: bool, ms: u64) {
    let status = TxStatus {
        ticket,
        delivered,
        attempts: 7,
        airtime: None,
        delay: Span::MILLI,
    };
    c.on_tx_status(&status, LATER + Span::MILLI * ms, &Routed(true));
}

//= spec#8.6
#[test]
fn the_sender_is_told_of_data_without_a_route_and_of_no_other_packets() {
    let mut c = chain("[[handler]]\nuse = \"link-notice\"\n");
    for (flag, len) in [
        ("feedback", 0),
        ("request", 0),
        ("link_down", 0),
        ("", 0),
        ("rst", 0),
    ] {
        let other = match flag {
            "rst" => packet(219, &[0; 7]),
            _ => of_atp(flag, 7, 100, len),
        };
        leaves(&mut c, other, 1, 0, false);
    }
    leaves(&mut c, packet(6, &[0; 60]), 1, 0, false);
    assert_eq!(notices(&mut c), []);
    leaves(&mut c, of_atp("", 7, 100, 1_000), 1, 0, true);
    assert_eq!(notices(&mut c), [], "it has a route");
    leaves(&mut c, of_atp("", 7, 1_100, 1_000), 2, 0, false);
    leaves(&mut c, of_atp("fin", 8, 9, 0), 3, 0, false);
    assert_eq!(notices(&mut c), [(7, 1_100), (8, 9)]);
    // One in a tenth of a second for each connection.
    for (ms, told) in [
        (1, false),
        (99, false),
        (100, true),
        (199, false),
        (200, true),
    ] {
        leaves(&mut c, of_atp("", 7, ms as u32, 1_000), 4, ms, false);
        let wanted: &[(u32, u32)] = if told { &[(7, ms as u32)] } else { &[] };
        assert_eq!(notices(&mut c), wanted, "after {ms} ms");
    }
    let counts = c.counters().next().expect("one").1.counts;
    assert_eq!(counts, [("no_route", 4), ("failed", 0), ("spared", 3)]);
}

//= spec#8.6
#[test]
fn the_sender_is_told_of_data_whose_last_attempt_failed() {
    let mut c = chain("[[handler]]\nuse = \"link-notice\"\n");
    for ticket in 1..=5 {
        leaves(&mut c, of_atp("", 7, ticket as u32, 1_000), ticket, 0, true);
    }
    leaves(&mut c, of_atp("request", 7, 6, 0), 6, 0, true);
    reported(&mut c, 1, true, 1);
    reported(&mut c, 9, false, 1);
    reported(&mut c, 6, false, 1);
    assert_eq!(notices(&mut c), []);
    reported(&mut c, 3, false, 1);
    assert_eq!(notices(&mut c), [(7, 3)]);
    // The driver never took the second: its ticket may be any packet's now.
    for ticket in [2, 3] {
        reported(&mut c, ticket, false, 500);
        assert_eq!(notices(&mut c), []);
    }
    // Nor is it the fourth's when another has that one.
    leaves(&mut c, of_atp("", 8, 40, 1_000), 4, 500, true);
    reported(&mut c, 4, false, 500);
    assert_eq!(notices(&mut c), [(8, 40)]);
}

/// A node that does not know its routes, or looks for the next hop, has not lost the route.
#[test]
fn where_the_next_hop_is_not_known_nobody_is_told_of_a_route() {
    let mut c = chain("[[handler]]\nuse = \"link-notice\"\n");
    let mut octets = of_atp("", 7, 100, 1_000);
    assert_eq!(
        ask(&mut c, Hook::Postrouting, &mut octets, 1, &node(0)),
        Verdict::Accept
    );
    assert_eq!(notices(&mut c), []);
    reported(&mut c, 1, false, 1);
    assert_eq!(notices(&mut c), [(7, 100)]);
}

#[test]
fn what_a_node_remembers_of_data_and_connections_is_bounded() {
    let mut c = chain("[[handler]]\nuse = \"link-notice\"\n");
    for ticket in 1..=3_000 {
        leaves(&mut c, of_atp("", 7, ticket as u32, 1_000), ticket, 0, true);
    }
    reported(&mut c, 3_000 - 1_024, false, 1);
    assert_eq!(notices(&mut c), [], "the oldest are forgotten");
    reported(&mut c, 3_000 - 1_023, false, 1);
    assert_eq!(notices(&mut c), [(7, 3_000 - 1_023)]);
    for conn_id in 100..1_100 {
        leaves(&mut c, of_atp("", conn_id, 1, 1_000), 1, 2, false);
    }
    assert_eq!(notices(&mut c).len(), 1_000);
    leaves(&mut c, of_atp("", 1_099, 2, 1_000), 1, 2, false);
    leaves(&mut c, of_atp("", 100, 2, 1_000), 1, 2, false);
    assert_eq!(
        notices(&mut c),
        [(100, 2)],
        "told so long ago that it is forgotten"
    );
}

#[test]
fn only_compositions_have_handlers_with_a_switch() {
    let found = error("[[handler]]\nuse = \"link-notice\"\nwith = \"elfn\"\n");
    assert!(found.contains("the chain of a composition"), "{found}");
}

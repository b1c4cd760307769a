//! The mesh simulator over radios: what holds whatever the physics, and that the same scenario is
//! the same run.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use wifu_core::{Chain, Handler, Hook, Hooks, HopCx, Packet, Seat, Verdict};
use wifu_engine::Blueprint;
use wifu_radio::OnAir;
use wifu_radio::trace::{FrameKind, NOBODY, What};
use wifu_sim::causes::Causes;
use wifu_sim::mesh::{Seen, Simulation, Tap};
use wifu_sim::outcome::{HopOutcome, Outcome, PacketOutcome};
use wifu_sim::scenario::Scenario;
use wifu_sim::why;
use wifu_wire::pcapng::Direction;
use wifu_wire::{Rng, Time};

fn open(spec: &str) -> Result<Arc<Blueprint>, String> {
    wifu_parts::blueprint(spec).map_err(|e| e.to_string())
}

fn simulation(text: &str) -> Simulation {
    let scenario = Scenario::from_toml(text).unwrap_or_else(|e| panic!("{e}"));
    Simulation::new(&scenario, &open).unwrap_or_else(|e| panic!("{e}"))
}

fn run(text: &str) -> Outcome {
    let mut simulation = simulation(text);
    simulation.run();
    let outcome = simulation.outcome();
    sound(&outcome);
    outcome
}

/// What holds for every run: no octet was changed, no packet is unaccounted for.
fn sound(outcome: &Outcome) {
    for flow in &outcome.flows {
        assert_eq!(flow.corrupt, 0, "flow {}", flow.id);
        let p = flow.packets;
        let known = p.delivered + p.queue + p.link + p.wire + p.route + p.hop + p.inside;
        assert_eq!(p.sent + p.copies, known, "flow {}: {p:?}", flow.id);
        let crossed = |reverse: bool, hop: u32| {
            let of = outcome
                .hops
                .iter()
                .filter(|h| (h.flow, h.reverse) == (flow.id, reverse));
            of.filter(|h| h.hop == hop).map(|h| h.packets).sum::<u64>()
        };
        let entered = |reverse: bool, hop: u32| {
            let of = outcome
                .hops
                .iter()
                .filter(|h| (h.flow, h.reverse) == (flow.id, reverse));
            of.filter(|h| h.hop == hop)
                .map(|h| h.packets + h.lost + h.queue_drops + h.lane_drops)
                .sum::<u64>()
        };
        for reverse in [false, true] {
            for hop in 1..flow.hops {
                let (out, next) = (crossed(reverse, hop), entered(reverse, hop + 1));
                // Some wait at the node between, or were lost there; a lane may send one twice.
                assert!(
                    next <= out + p.copies,
                    "flow {} hop {hop}: {out} came, {next} left",
                    flow.id
                );
            }
        }
    }
}

fn flow(from: &str, to: &str, rest: &str) -> String {
    format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\njitter = \"5ms\"\n{rest}\n")
}

const CHAIN: &str = "[topology]\nwords = \"linear,4\"\nset = \"TB-W9\"\n[radio]\nattempts = 7\n";

#[test]
fn every_protocol_delivers_every_octet_over_a_chain() {
    for protocol in wifu_parts::library().protocols() {
        let rest = format!("protocol = \"{protocol}\"\napp = \"file\"\nbytes = \"300k\"");
        let outcome = run(&format!("{CHAIN}{}", flow("n1", "n4", &rest)));
        let flow = &outcome.flows[0];
        assert!(flow.finished, "{protocol}: {flow:?}");
        assert_eq!((flow.bytes, flow.hops), (300_000, 3), "{protocol}");
        assert!(flow.known_s >= flow.last_byte_s && flow.first_byte_s > flow.connected_s);
        let forwarded: Vec<u64> = outcome.nodes.iter().map(|n| n.forwarded).collect();
        assert!(
            forwarded[0] == 0 && forwarded[1] > 210 && forwarded[3] == 0,
            "{forwarded:?}"
        );
    }
}

fn mixed(seed: u64, run: u64) -> String {
    let tcp = "protocol = \"tcp-newreno\"\napp = \"file\"\nbytes = \"200k\"";
    let udp = "protocol = \"udp\"\nrate = \"300kb/s\"\ntime = \"3s\"\nsize = 700";
    format!(
        "seed = {seed}\nrun = {run}\n{CHAIN}{}{}",
        flow("n1", "n4", tcp),
        flow("n4", "n2", udp)
    )
}

#[test]
fn the_same_scenario_is_the_same_run() {
    let one = run(&mixed(1, 1));
    assert_eq!(
        one.to_json().to_string(),
        run(&mixed(1, 1)).to_json().to_string()
    );
    for (seed, replicate) in [(2, 1), (1, 2)] {
        let other = run(&mixed(seed, replicate));
        assert_ne!(one.trace_hash, other.trace_hash);
        assert_ne!(one.flows[0].last_byte_s, other.flows[0].last_byte_s);
    }
}

/// Ties are decided by the seed alone where nothing else is random.
#[test]
fn ties_vary_with_the_seed() {
    let hosts: String = ["a", "b", "r", "c"]
        .iter()
        .map(|n| format!("[[topology.node]]\nname = \"{n}\"\nwired_only = true\n"))
        .collect();
    let wires: String = [("a", "r", 1000), ("b", "r", 1000), ("r", "c", 0)]
        .iter()
        .map(|(a, b, queue)| {
            format!(
                "[[topology.wire]]\na = \"{a}\"\nb = \"{b}\"\nrate = \"10Mb/s\"\nqueue = {queue}\n"
            )
        })
        .collect();
    let udp = "protocol = \"udp\"\nrate = \"4Mb/s\"\ntime = \"1s\"";
    let flow = |from: &str| format!("[[flow]]\nfrom = \"{from}\"\nto = \"c\"\n{udp}\n");
    let lost = |seed: u64| {
        let o = run(&format!(
            "seed = {seed}\n{hosts}{wires}{}{}",
            flow("a"),
            flow("b")
        ));
        (o.flows[0].packets.queue, o.flows[1].packets.queue)
    };
    // Both arrive at the same instants: one of each pair is lost, whose is chance.
    let (a, b) = lost(1);
    assert!(a.min(b) as f64 > 0.4 * (a + b) as f64, "{a} {b}: fair");
    assert_eq!(lost(1), (a, b));
    assert_ne!(lost(2), (a, b));
}

#[derive(Default)]
struct Notes {
    packets: u64,
    wrong: u64,
    aired: u64,
    with_packet: u64,
}

struct Look(Rc<RefCell<Notes>>);

impl Tap for Look {
    fn packet(&mut self, seen: &Seen<'_>) {
        let mut notes = self.0.borrow_mut();
        notes.packets += 1;
        let ttl = |hops: u8| 65 - hops;
        match wifu_wire::ipv4::parse(seen.bytes) {
            // Where it is tells how many hops it came along the chain.
            Ok((ip, _)) => {
                let source = ip.src.octets()[3].abs_diff(seen.node as u8 + 1);
                let hops = source - u8::from(seen.direction == Direction::In);
                notes.wrong += u64::from(ip.ttl != ttl(hops));
            }
            Err(_) => notes.wrong += 1,
        }
    }

    fn aired(&mut self, _frame: &OnAir, packet: Option<&[u8]>) {
        let mut notes = self.0.borrow_mut();
        notes.aired += 1;
        notes.with_packet += u64::from(packet.is_some_and(|p| wifu_wire::ipv4::parse(p).is_ok()));
    }

    fn wants_air(&self) -> bool {
        true
    }
}

#[test]
fn looking_on_changes_nothing() {
    let plain = run(&mixed(3, 1));
    let text = format!("{}[record]\nseries = true\nframes = true\n", mixed(3, 1));
    let mut watched = simulation(&text);
    let notes = Rc::new(RefCell::new(Notes::default()));
    watched.set_tap(Box::new(Look(Rc::clone(&notes))));
    watched.run();
    let mut outcome = watched.outcome();
    assert!(outcome.series["flow.1.delivered"].len() > 50);
    assert!(outcome.series["flow.1.cwnd"].len() > 5);
    assert!(outcome.series["flow.1.sent"].len() > 100);
    assert!(outcome.series.contains_key("node.n2.queue"));
    let last = outcome.series["flow.1.delivered"].last().copied();
    assert_eq!(last.map(|(_, octets)| octets), Some(200_000.0));
    outcome.series.clear();
    assert_eq!(outcome, plain);
    let frames = watched.take_frames();
    assert!(frames.len() > 1_000);
    let notes = notes.borrow();
    assert!(
        notes.packets > 500 && notes.wrong == 0,
        "{} of {}",
        notes.wrong,
        notes.packets
    );
    assert!(notes.aired > notes.with_packet && notes.with_packet > 500);
}

/// Two pairs that cannot hear each other: the second flow is none of the first one's business.
#[test]
fn a_flow_elsewhere_shifts_nothing() {
    let nodes = "[topology]\nwords = \"parallel,2\"\nset = \"TB-W9\"\n\
                 [topology.placement]\nkind = \"rows\"\ncount = 2\nrows = 2\nspacing_m = 13\n\
                 gap_m = 5000\n";
    let tcp = "protocol = \"tcp-newreno\"";
    let stop = "[stop]\ntime = \"5s\"\n";
    let alone = run(&format!("{nodes}{}{stop}", flow("n1", "n2", tcp)));
    let both = run(&format!(
        "{nodes}{}{}{stop}",
        flow("n1", "n2", tcp),
        flow("n3", "n4", tcp)
    ));
    assert!(alone.flows[0].bytes > 5_000_000 && both.flows[1].bytes > 5_000_000);
    assert_eq!(alone.flows[0], both.flows[0]);
    assert_eq!(alone.nodes[..2], both.nodes[..2]);
}

/// The same with what is random in traffic: starts, files, pauses, talk. The other flow comes first
/// in the scenario, or last, and is there at the same time.
#[test]
fn a_flow_in_front_shifts_no_random_stream() {
    let nodes = "[topology]\nwords = \"parallel,2\"\nset = \"TB-W9\"\n\
                 [topology.placement]\nkind = \"rows\"\ncount = 2\nrows = 2\nspacing_m = 13\n\
                 gap_m = 5000\n";
    let stop = "[stop]\ntime = \"5s\"\n";
    let tcp = "protocol = \"tcp-newreno\"";
    let traffic = [
        tcp.to_string(),
        format!("{tcp}\napp = \"http\"\npause = \"0.1s\""),
        format!("{tcp}\napp = \"onoff\"\nrate = \"1Mb/s\"\non = \"0.3s\"\noff = \"0.2s\""),
        format!("{tcp}\napp = \"request\"\npause = \"0.1s\""),
        String::from("protocol = \"udp\"\nrate = \"1Mb/s\""),
    ];
    // But for its number, from which its ports follow.
    let of = |outcome: &Outcome, at: usize| {
        let mut flow = outcome.flows[at].clone();
        (flow.id, flow.port, flow.sender_port) = (0, 0, None);
        flow
    };
    for this in &traffic {
        for (from, to) in [("n1", "n2"), ("n2", "n1")] {
            let this = flow(from, to, this);
            let alone = of(&run(&format!("{nodes}{this}{stop}")), 0);
            assert!(alone.bytes > 50_000, "{this}: {}", alone.bytes);
            for other in &traffic {
                let other = flow("n3", "n4", other);
                let before = run(&format!("{nodes}{other}{this}{stop}"));
                let behind = run(&format!("{nodes}{this}{other}{stop}"));
                assert!(behind.flows[1].bytes > 50_000, "{other}");
                assert_eq!(alone, of(&before, 1), "{other}{this}");
                assert_eq!(alone, of(&behind, 0), "{this}{other}");
                assert_eq!(of(&before, 0), of(&behind, 1), "{other}");
            }
        }
    }
    // Equal flows are told apart by their order, and others do not count among them.
    let file = flow("n1", "n2", &traffic[0]);
    let talk = flow("n1", "n2", &traffic[2]);
    let two = run(&format!("{nodes}{file}{file}{stop}"));
    assert_ne!(two.flows[0].start_s, two.flows[1].start_s);
    let three = run(&format!("{nodes}{talk}{file}{file}{stop}"));
    for i in 0..2 {
        assert_eq!(two.flows[i].start_s, three.flows[i + 1].start_s);
    }
}

#[test]
fn a_run_in_steps_is_the_same_run() {
    let whole = run(&mixed(4, 1));
    let mut steps = simulation(&mixed(4, 1));
    let mut at = wifu_sim::Time::ZERO;
    let mut shares = Vec::new();
    while !steps.step_until(at) {
        shares.push(steps.progress().share);
        at += wifu_sim::Span::MILLI * 7;
    }
    assert!(shares.len() > 100 && shares.is_sorted());
    assert_eq!(steps.progress().share, 1.0);
    assert_eq!(steps.outcome(), whole);
}

/// Hop 1 of datagrams on an idle medium: DIFS or back-off, 536 us of data at 24 Mb/s, SIFS and an
/// ACK of 28 us (Behaviour 11.1).
#[test]
fn the_waterfall_of_an_idle_link_is_the_frames_own_time() {
    let udp = "protocol = \"udp\"\nrate = \"500kb/s\"\ntime = \"20s\"\nsize = 1500";
    let outcome = run(&format!("{CHAIN}{}", flow("n1", "n2", udp)));
    let hop = &outcome.hops[0];
    assert!(hop.packets > 800 && outcome.hops.len() == 1);
    let us = |sum: f64| sum * 1e6 / hop.packets as f64;
    assert!((579.5..580.5).contains(&us(hop.air_s)), "{}", us(hop.air_s));
    assert!(us(hop.queue_s) < 1.0, "{}", us(hop.queue_s));
    assert!(us(hop.contention_s) < 40.0, "{}", us(hop.contention_s));
}

/// A packet that is given up has no attempt that succeeded, and its time is in no mean of those
/// that crossed the hop.
#[test]
fn what_is_lost_on_a_hop_takes_no_time_of_what_crosses_it() {
    let udp = "protocol = \"udp\"\nrate = \"500kb/s\"\ntime = \"20s\"\nsize = 1500";
    // So near to what this rate needs that noise spoils many frames.
    let pair =
        "[topology]\nwords = \"linear,2,snr=13\"\n[radio]\nrate = \"24Mb/s\"\nattempts = 2\n";
    let outcome = run(&format!("{pair}{}", flow("n1", "n2", udp)));
    let hop = &outcome.hops[0];
    assert!(hop.lost > 50 && hop.packets > 200, "{hop:?}");
    let us = |sum: f64| sum * 1e6 / hop.packets as f64;
    assert!((579.5..580.5).contains(&us(hop.air_s)), "{}", us(hop.air_s));
}

/// Refused by a relay's full ring, or dropped by the discipline in front of it: neither was tried,
/// so neither is lost on the hop.
#[test]
fn what_never_left_a_radio_s_queue_is_not_lost_on_its_hop() {
    let udp = "protocol = \"udp\"\nrate = \"20Mb/s\"\ntime = \"5s\"\nsize = 1500";
    for (more, disciplined) in [
        ("[radio]\nring = 2\nqueue = 5\nattempts = 1\n", false),
        (
            "[radio]\nring = 2\nqueue = 50\nattempts = 1\n[host]\nqueue = { kind = \"codel\" }\n",
            true,
        ),
    ] {
        let words = "[topology]\nwords = \"linear,3\"\nset = \"TB-W9\"\n";
        let flows = flow("n1", "n3", udp) + &flow("n3", "n1", udp);
        let outcome = run(&format!("{words}{more}{flows}"));
        let sum = |of: fn(&HopOutcome) -> u64| outcome.hops.iter().map(of).sum::<u64>();
        let of_flows = |of: fn(&PacketOutcome) -> u64| {
            let all = outcome.flows.iter().map(|f| of(&f.packets));
            all.sum::<u64>()
        };
        assert_eq!(sum(|h| h.queue_drops), of_flows(|p| p.queue));
        let given_up: u64 = outcome.nodes.iter().map(|n| n.failed).sum();
        let (lost, early) = (sum(|h| h.lost), sum(|h| h.early_drops));
        assert!(lost > 0 && lost <= given_up && lost >= of_flows(|p| p.link));
        assert!(
            sum(|h| h.queue_drops) > 0 && (early > 0) == disciplined,
            "{early}"
        );
    }
}

#[test]
fn a_saturated_source_keeps_its_queue_from_running_empty() {
    let udp = "protocol = \"udp\"";
    let pair = "[topology]\nwords = \"linear,2,snr=30\"\n[radio]\nrate = \"24Mb/s\"\n";
    let stop = "[stop]\ntime = \"5s\"\n";
    let outcome = run(&format!("{pair}{}{stop}", flow("n1", "n2", udp)));
    // 681.5 us per packet (Behaviour 11.1): 17.6 Mb/s of IP, 1472 of 1500 octets of them payload.
    let expected = 1472.0 * 8.0 / 681.5e-6;
    let ratio = outcome.flows[0].goodput_bps / expected;
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
}

/// Counts what it sees by hook, and changes what it overhears.
struct Count {
    seen: Arc<Mutex<[u64; 6]>>,
    drop: bool,
}

impl Handler for Count {
    fn on_packet(&mut self, hook: Hook, packet: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
        self.seen.lock().unwrap()[usize::from(hook.number())] += 1;
        // What a hop writes must not reach those who were not to see it.
        if hook == Hook::Overheard {
            packet.octets_mut()[30..].fill(0xEE);
        }
        match self.drop && hook == Hook::Forward {
            true => Verdict::Drop("test"),
            false => Verdict::Accept,
        }
    }
}

#[test]
fn handlers_see_packets_at_their_hooks_and_may_drop_them() {
    for drop in [false, true] {
        let tcp = "protocol = \"tcp-newreno\"\napp = \"file\"\nbytes = \"100k\"";
        let text = format!("{CHAIN}{}[stop]\ntime = \"30s\"\n", flow("n1", "n4", tcp));
        let mut simulation = simulation(&text);
        let seen: Vec<_> = (0..4).map(|_| Arc::new(Mutex::new([0; 6]))).collect();
        for (node, seen) in (0..).zip(&seen) {
            let count = Count {
                seen: Arc::clone(seen),
                drop: drop && node == 2,
            };
            let mut chain = Chain::new();
            let seat = Seat::new("count", Hooks::ALL, Rng::new(1));
            chain.push(seat, Box::new(count));
            simulation.set_chain(node, chain);
        }
        simulation.run();
        let outcome = simulation.outcome();
        sound(&outcome);
        let of = |node: usize, hook: Hook| seen[node].lock().unwrap()[usize::from(hook.number())];
        let flow = &outcome.flows[0];
        assert_eq!(flow.finished, !drop);
        if drop {
            assert!(flow.packets.hop > 0 && flow.packets.hop == of(2, Hook::Forward));
        } else {
            assert_eq!(of(0, Hook::Output) + of(3, Hook::Output), flow.packets.sent);
            let arrived = of(0, Hook::Input) + of(3, Hook::Input);
            assert_eq!(arrived, flow.packets.delivered);
            assert_eq!(of(1, Hook::Forward), outcome.nodes[1].forwarded);
            assert_eq!(of(1, Hook::Prerouting), of(1, Hook::Forward));
            assert_eq!(of(1, Hook::Postrouting), of(1, Hook::Forward));
            assert!(of(3, Hook::Overheard) > 0 && of(0, Hook::Overheard) > 0);
        }
    }
}

#[test]
fn a_scenario_puts_handlers_at_nodes() {
    let tcp = "protocol = \"tcp-newreno\"\napp = \"file\"\nbytes = \"50k\"";
    let base = format!("{CHAIN}{}[stop]\ntime = \"60s\"\n", flow("n1", "n4", tcp));
    let time = |handlers: &str| {
        let outcome = run(&format!("{base}{handlers}"));
        assert!(outcome.flows[0].finished, "{handlers}");
        let done = outcome.flows[0].last_byte_s.unwrap();
        (done, outcome)
    };
    let (plain, _) = time("");
    // Held for 20 ms at each hop, and each octet still right (`run` checks).
    let (late, outcome) =
        time("[[handler]]\nuse = \"delay\"\nt = \"20ms\"\nhooks = [\"forward\"]\n");
    assert!(late > plain + 0.2, "{late} after {plain}");
    let held: Vec<u64> = outcome.nodes.iter().map(|n| n.handlers[0].held).collect();
    assert!(held[0] == 0 && held[1] > 50 && held[2] > 50, "{held:?}");
    let (_, outcome) =
        time("[[handler]]\nuse = \"drop\"\np = 0.1\nnodes = [\"n3\"]\nhooks = [\"forward\"]\n");
    assert!(outcome.nodes[0].handlers.is_empty());
    let account = &outcome.nodes[2].handlers[0];
    assert!(account.dropped > 0 && outcome.flows[0].packets.hop == account.dropped);
    assert!(outcome.flows[0].retransmissions > 0);
    // The shim goes in at n1, is raised on the way and is gone where the packet arrives.
    // The host that inserts it must leave room: what is longer than the MTU does not leave.
    let base = base.replace("tcp-newreno", "tcp-newreno,mss=1436");
    let shim = "[[handler]]\nuse = \"tpa-shim\"\nprotocol = 6\n";
    let outcome = run(&format!("{base}{shim}"));
    assert!(outcome.flows[0].finished);
    let changed: Vec<u64> = outcome
        .nodes
        .iter()
        .map(|n| n.handlers[0].changed)
        .collect();
    assert!(changed[0] > 50 && changed[3] > 50, "{changed:?}");
    let wrong = Scenario::from_toml(&format!("{base}[[handler]]\nuse = \"dorp\"\n"));
    let error = Simulation::new(&wrong.unwrap(), &open)
        .map(|_| ())
        .unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("handler.1: dorp: no handler") && said.contains("`drop`"),
        "{said}"
    );
}

/// n2 and n3 both lead from n1 to n4; n2 walks away at 20 s.
fn diamond(olsr: &str) -> String {
    let place = [("n1", 0, 0), ("n2", 20, 10), ("n3", 21, -12), ("n4", 40, 0)];
    let nodes: String = place
        .iter()
        .map(|(n, x, y)| format!("[[topology.node]]\nname = \"{n}\"\nposition = [{x}, {y}, 0]\n"))
        .collect();
    let udp = "protocol = \"udp\"\nrate = \"100kb/s\"\ntime = \"60s\"\nsize = 500";
    format!(
        "[radio]\nrate = \"24Mb/s\"\n[topology]\n[topology.radio]\npower_dbm = 8\n{nodes}\
         [routing]\nkind = \"shortest\"\n{olsr}{}\
         [[mobility]]\nkind = \"trace\"\n\
         rows = [[20, \"n2\", 20, 10], [22, \"n2\", 400, 400]]\n",
        flow("n1", "n4", udp)
    )
}

#[test]
fn routes_follow_nodes_that_move() {
    let outcome = run(&diamond(""));
    let flow = &outcome.flows[0];
    assert_eq!(flow.hops, 2);
    assert_eq!(outcome.nodes[1].position, Some([400.0, 400.0, 0.0]));
    let (second, third) = (outcome.nodes[1].forwarded, outcome.nodes[2].forwarded);
    assert!(second > 500 && third > 900, "{second} {third}");
    let share = flow.packets.delivered as f64 / flow.packets.sent as f64;
    assert!(share > 0.97, "{share}");
}

#[test]
fn routes_follow_a_node_that_moves_for_a_moment_only() {
    // Within its first step n2 is still a good way; at rest, half a second later, it is none.
    let brief = diamond("").replace(
        "[[20, \"n2\", 20, 10], [22, \"n2\", 400, 400]]",
        "[[20, \"n2\", 20, 10], [20.5, \"n2\", 20, 30]]",
    );
    let flow = &run(&brief).flows[0];
    let share = flow.packets.delivered as f64 / flow.packets.sent as f64;
    assert!(share > 0.97, "{share}");
}

#[test]
fn who_is_heard_by_nobody_at_first_may_come_near() {
    let outcome = run(&format!(
        "[topology]\nwords = \"linear,2,spacing=3000\"\n{}[[mobility]]\nkind = \"trace\"\n\
         rows = [[0, \"n2\", 3000, 0], [2, \"n2\", 20, 0]]\n",
        flow(
            "n1",
            "n2",
            "protocol = \"udp\"\nrate = \"100kb/s\"\ntime = \"20s\"\nsize = 500"
        )
    ));
    let p = outcome.flows[0].packets;
    assert!(p.delivered as f64 > 0.8 * p.sent as f64, "{p:?}");
}

#[test]
fn a_daemon_broadcasts_and_withdraws_links_that_fall_silent() {
    let outcome = run(&diamond("[routing.olsr]\n"));
    let quiet = run(&diamond(""));
    let frames = |o: &Outcome| o.nodes.iter().map(|n| n.frames).sum::<u64>();
    // 4 nodes, 60 s: about 35 HELLOs each, and 13 TCs of the relay that n1 and n4 need. All
    // others hear it themselves.
    let overhead = frames(&outcome) - frames(&quiet);
    assert!((137..165).contains(&overhead), "{overhead}");

    // Nothing moves, but the link by which shortest routes lead is so bad that no HELLO passes for
    // long: with withdrawal the other way is taken.
    let cut = |withdraw: bool| {
        format!(
            "[topology.matrix]\nsnr_db = [[0.0, 8.0, 30.0, -99.0], [8.0, 0.0, -99.0, 30.0], \
             [30.0, -99.0, 0.0, 30.0], [-99.0, 30.0, 30.0, 0.0]]\n\
             [radio]\nrate = \"6Mb/s\"\n[topology.fading]\nsigma_db = 6\ntau = \"20s\"\n\
             [routing]\nkind = \"shortest\"\n[routing.olsr]\nwithdraw = {withdraw}\n{}",
            flow(
                "n1",
                "n4",
                "protocol = \"udp\"\nrate = \"50kb/s\"\ntime = \"200s\"\nsize = 500"
            )
        )
    };
    let (kept, withdrawn) = (run(&cut(false)), run(&cut(true)));
    let later = run(&cut(true).replace("withdraw = true", "withdraw = true\nmisses = 4"));
    assert!(later.flows[0].bytes < withdrawn.flows[0].bytes);
    let counted = [&outcome, &kept, &later, &withdrawn].map(|o| o.withdrawals);
    assert_eq!(counted[..2], [None, None], "nothing is ever withdrawn");
    assert!(
        counted[2] > Some(0) && counted[2] < counted[3],
        "{counted:?}"
    );
    // There is always a way; with the bad link alone there is none while it is withdrawn.
    assert_eq!(
        [&kept, &withdrawn].map(|o| o.flows[0].routeless_s),
        [0.0; 2]
    );
    let alone = |withdraw: bool| {
        let bad = "snr_db = [[0.0, 8.0], [8.0, 0.0]]\n";
        let (_, rest) = cut(withdraw)
            .split_once("[radio]")
            .map(|(a, b)| (a.to_string(), b.to_string()))
            .expect("a radio");
        format!(
            "[topology.matrix]\n{bad}[radio]{}",
            rest.replace("n4", "n2")
        )
    };
    let without = [false, true].map(|w| run(&alone(w)).flows[0].routeless_s);
    assert_eq!(without[0], 0.0);
    assert!((1.0..100.0).contains(&without[1]), "{without:?} s");
    let idle = cut(false).replace("withdraw = false", "misses = 4");
    let error = Scenario::from_toml(&idle)
        .expect_err("no effect")
        .to_string();
    assert!(
        error.contains("routing.olsr.misses") && error.contains("withdraw"),
        "{error}"
    );
    assert_eq!(kept.nodes[2].forwarded, 0, "n2 has the lower number");
    assert!(withdrawn.nodes[2].forwarded > 0 && withdrawn.nodes[1].forwarded > 0);
    let (a, b) = (kept.flows[0].bytes, withdrawn.flows[0].bytes);
    assert!(b > a, "{a} bytes without, {b} with withdrawal");
}

/// Forwarding takes its time at every hop between.
#[test]
fn forwarding_costs_what_it_is_said_to_cost() {
    let udp = "protocol = \"udp\"\nrate = \"10kb/s\"\ntime = \"10s\"\nsize = 500";
    let text = |host: &str| format!("{CHAIN}{host}{}", flow("n1", "n4", udp));
    let first = |o: Outcome| o.flows[0].first_byte_s.unwrap() - o.flows[0].start_s;
    let (free, costly) = (run(&text("")), run(&text("[host]\nfwd_cost = \"5ms\"\n")));
    // It is at the hop behind each router, and at none where it costs nothing.
    let stays = |o: &Outcome| -> Vec<f64> {
        let hops = o.hops.iter().filter(|h| !h.reverse);
        hops.map(|h| h.node_s * 1e3 / h.packets as f64).collect()
    };
    assert_eq!(stays(&free), [0.0; 3]);
    let told = stays(&costly);
    assert!(told[0] == 0.0 && told[1..].iter().all(|ms| (ms - 5.0).abs() < 1e-6));
    let more = first(costly) - first(free);
    assert!(
        (0.0095..0.0105).contains(&more),
        "{more} s more over two routers"
    );
}

/// What a handler holds, at the source and on the way, over radios and a wire: the times of the
/// hops together are what datagrams take.
#[test]
fn the_times_of_all_hops_are_what_packets_take() {
    let udp = "protocol = \"udp\"\nrate = \"50kb/s\"\ntime = \"10s\"\nsize = 500";
    let hold = "[[handler]]\nuse = \"delay\"\nt = \"40ms\"\nnodes = [\"n2\"]\nhooks = [\"forward\"]\n\
                [[handler]]\nuse = \"delay\"\nt = \"15ms\"\nnodes = [\"n1\"]\nhooks = [\"output\"]\n";
    for words in ["linear,3,snr=20", "linear,3,wire=2Mb/s,delay=3ms"] {
        let topology = format!("[topology]\nwords = \"{words}\"\n[radio]\nattempts = 7\n");
        let outcome = run(&format!("{topology}{hold}{}", flow("n1", "n3", udp)));
        let each = |of: fn(&HopOutcome) -> f64| -> Vec<f64> {
            let hops = outcome.hops.iter();
            hops.map(|h| of(h) * 1e3 / h.packets as f64).collect()
        };
        let stays = each(|h| h.node_s);
        assert!(
            (stays[0] - 15.0).abs() < 1e-6 && (stays[1] - 40.0).abs() < 1e-6,
            "{stays:?}"
        );
        let whole: f64 =
            each(|h| h.node_s + h.queue_s + h.contention_s + h.retry_s + h.air_s + h.propagation_s)
                .iter()
                .sum();
        let took = outcome.flows[0].one_way.expect("datagrams").p50_s * 1e3;
        assert!(
            (whole / took - 1.0).abs() < 0.07,
            "{words}: {whole} of {took} ms"
        );
    }
}

/// Two nodes 41 m apart whose link varies by 6 dB; one of them comes from afar, or does not.
#[test]
fn a_link_that_comes_near_varies_as_it_would_have_from_the_start() {
    let failed = |start: u32| {
        let udp = "protocol = \"udp\"\nrate = \"200kb/s\"\nstart = \"5s\"";
        let text = format!(
            "[topology]\nwords = \"linear,2,spacing={start}\"\n[topology.fading]\nsigma_db = 6\n\
             tau = \"1s\"\n{}[[mobility]]\nkind = \"trace\"\n\
             rows = [[0, \"n2\", {start}, 0], [1, \"n2\", 60, 0]]\n[stop]\ntime = \"120s\"\n",
            flow("n1", "n2", udp)
        );
        let outcome = run(&text);
        let link = outcome.links.iter().find(|l| l.from == "n1").unwrap();
        link.attempts as f64 / link.frames as f64
    };
    let (near, far) = (failed(61), failed(5000));
    assert!(near > 1.3, "{near} attempts per packet");
    assert!(
        (near / far - 1.0).abs() < 0.05,
        "{near} from near, {far} from afar"
    );
}

/// Three nodes in a row, each in reach of its neighbours only, with datagrams from end to end;
/// `more` is what happens.
fn row(more: &str) -> String {
    format!(
        "[topology.placement]\nkind = \"line\"\ncount = 3\nspacing_m = 60.0\n\
         [topology.propagation]\nanchor = {{ snr_db = 12.0, distance_m = 60.0 }}\n\
         [record]\ndelivery = true\n{}{more}",
        flow(
            "n1",
            "n3",
            "protocol = \"udp\"\nrate = \"100kb/s\"\ntime = \"6s\"\nsize = 500"
        )
    )
}

const CUT: &str = "[[event]]\nat = 2\ncut = [\"n3\", \"n2\"]\n\
                   [[event]]\nat = \"4s\"\nrestore = [\"n2\", \"n3\"]\n";

#[test]
fn nothing_passes_a_link_that_is_cut_until_it_is_restored() {
    let outcome = run(&row(CUT));
    let times: Vec<f64> = outcome.series["flow.1.delivered"]
        .iter()
        .map(|p| p.0)
        .collect();
    let within = |a: f64, b: f64| times.iter().filter(|t| (a..b).contains(*t)).count();
    assert!(within(0.0, 2.0) > 40 && within(4.0, 6.1) > 40, "{times:?}");
    // What was on the air at 2 s still arrives.
    assert_eq!(within(2.01, 4.0), 0, "{times:?}");
    assert!(
        outcome.flows[0].packets.link > 40,
        "{:?}",
        outcome.flows[0].packets
    );
    let whole = run(&row(""));
    assert_eq!(
        whole.flows[0].packets.delivered,
        whole.flows[0].packets.sent
    );
}

#[test]
fn routes_lead_around_a_cut_from_the_next_full_second_on() {
    // n4 is a second way from n1 to n3.
    let text = |at: &str| {
        row(&CUT.replace("at = 2\n", &format!("at = {at}\n")))
            .replace("[record]", "[routing]\nkind = \"shortest\"\n[record]")
            .replace(
                "[topology.propagation]",
                "[[topology.node]]\nname = \"n4\"\nposition = [60, 30, 0]\n[topology.propagation]",
            )
    };
    let run = |at: &str| {
        let mut simulation = simulation(&text(at));
        simulation.step_until(wifu_wire::Time(2_900_000_000));
        let before = simulation.route(0, 2);
        simulation.step_until(wifu_wire::Time(3_100_000_000));
        (before, simulation.route(0, 2))
    };
    assert_eq!(run("2.1"), (vec![0, 1, 2], vec![0, 3, 2]));
    assert_eq!(run("2"), (vec![0, 3, 2], vec![0, 3, 2]));
}

/// A testbed's world is stamped on the run, and what it says of a protocol acts.
#[test]
fn the_world_of_a_set_acts_and_is_stamped() {
    let ran = |set: &str, protocol: &str| {
        let text = format!(
            "topology = {{ set = \"{set}\" }}\nstop.time = \"20s\"\n[[flow]]\nfrom = \"n1\"\n\
             to = \"n3\"\napp = \"bulk\"\nprotocol = \"{protocol}\"\n"
        );
        let outcome = run(&text);
        let flow = &outcome.flows[0];
        (
            outcome.world.clone(),
            flow.protocol.clone(),
            flow.timeouts.expect("of TCP"),
            flow.bytes,
        )
    };
    let (world, protocol, timeouts, bytes) = ran("TB-STACK", "tcp-tahoe");
    assert_eq!(world.as_deref(), Some("literal"));
    assert_eq!(protocol, "tcp-tahoe,rto_min=100ms");
    let (.., slow_timeouts, slow_bytes) = ran("TB-STACK", "tcp-tahoe,rto_min=1s");
    assert!(
        timeouts > slow_timeouts && bytes > slow_bytes,
        "{timeouts} {slow_timeouts}"
    );
    let (world, protocol, ..) = ran("TB-STACK,world=driver", "tcp-tahoe");
    assert_eq!(
        (world.as_deref(), protocol.as_str()),
        (Some("driver"), "tcp-tahoe")
    );
    assert_eq!(ran("TAP-16", "tcp-tahoe").0, None);
}

/// A source that n3 alone hears, for 40 % of the time, above n2's frames.
const OVEN: &str =
    "[[topology.interferer]]\nreceived_dbm = { n3 = -74 }\nduty = 0.4\nperiod = \"20ms\"\n";

fn under(interferer: &str) -> String {
    format!(
        "[topology]\nwords = \"linear,3,attempts=7\"\nset = \"TB-W3\"\n{interferer}[[flow]]\nfrom = \"n1\"\n\
         to = \"n3\"\nprotocol = \"tcp-newreno\"\napp = \"file\"\nbytes = \"500k\"\n"
    )
}

#[test]
fn what_is_no_802_11_costs_frames_where_it_is_heard_and_time() {
    let (quiet, oven) = (run(&under("")), run(&under(OVEN)));
    assert!(quiet.flows[0].finished && oven.flows[0].finished);
    let lost: Vec<u64> = oven.nodes.iter().map(|n| n.lost.interference).collect();
    assert!(lost[2] > 50 && lost[..2] == [0, 0], "{lost:?}");
    assert_eq!(quiet.nodes[2].lost.interference, 0);
    let share = |o: &Outcome| o.nodes[2].busy_s / o.sim_seconds;
    assert!(share(&oven) > 0.4, "{}", share(&oven));
    assert!(oven.flows[0].goodput_bps < 0.8 * quiet.flows[0].goodput_bps);
    // The same again is the same, octet for octet; at random it is another run.
    assert_eq!(run(&under(OVEN)).to_json(), oven.to_json());
    let random = run(&under(&format!("{OVEN}random = true\n")));
    assert_ne!(random.trace_hash, oven.trace_hash);
}

#[test]
fn a_source_by_its_place_is_heard_where_the_law_says() {
    // The nodes of the set stand 21 m apart; 2 m beside the last one.
    let at = "[[topology.interferer]]\nposition = [42, 2, 0]\npower_dbm = -10\nduty = 0.5\nperiod = 0.01\n";
    let outcome = run(&under(at));
    let lost: Vec<u64> = outcome.nodes.iter().map(|n| n.lost.interference).collect();
    assert!(
        lost[2] > 20 && lost[2] > 4 * lost[1] && lost[0] == 0,
        "{lost:?}"
    );
}

#[test]
fn sources_that_could_do_nothing_are_refused() {
    let wrong = |text: &str| {
        let scenario = Scenario::from_toml(text);
        let made = scenario.and_then(|s| Simulation::new(&s, &open).map(drop));
        made.err().map(|e| e.to_string()).unwrap_or_default()
    };
    let of = |keys: &str| wrong(&under(&format!("[[topology.interferer]]\n{keys}\n")));
    for (keys, why) in [
        (
            "duty = 0.5\nperiod = 1",
            "topology.interferer.1: write where it is",
        ),
        (
            "received_dbm = { n9 = -70 }",
            "topology.interferer.1.received_dbm.n9: no node is called \"n9\"",
        ),
        (
            "received_dbm = { n1 = 5 }",
            "topology.interferer.1.received_dbm.n1: 5 dBm",
        ),
        (
            "received_dbm = { n1 = -130 }",
            "topology.interferer.1: has no effect",
        ),
        (
            "received_dbm = { n1 = -70 }\npower_dbm = 3",
            "topology.interferer.1.power_dbm: has no effect",
        ),
        (
            "position = [0, 0, 0]\npower_dbm = 99",
            "topology.interferer.1.power_dbm: 99 dBm",
        ),
        (
            "position = [0, 0, 0]\nduty = 1.5",
            "topology.interferer.1.duty: 1.5: write the share",
        ),
        (
            "position = [0, 0, 0]\nduty = 0.5",
            "topology.interferer.1.period: a duty below 1 needs",
        ),
        (
            "position = [0, 0, 0]\nperiod = 1",
            "topology.interferer.1.period: has no effect",
        ),
        (
            "position = [0, 0, 0]\nrandom = true",
            "topology.interferer.1.random: has no effect",
        ),
        (
            "position = [0, 0, 0]\nduty = 0.5\nperiod = \"1us\"",
            "topology.interferer.1.period: ",
        ),
        (
            "position = [0, 0, 0]\ndutty = 0.5",
            "topology.interferer.1.dutty: no key is called `dutty`; did you mean `duty`",
        ),
    ] {
        let said = of(keys);
        assert!(said.starts_with(why), "{keys}: {said}");
    }
    let moving = format!(
        "{}[[mobility]]\nkind = \"waypoint\"\narea = [0, 0, 60, 60]\nspeed = [2, 20]\n",
        under("[[topology.interferer]]\nposition = [0, 0, 0]\n").replace("linear,3", "random,3")
    );
    let said = wrong(&moving);
    assert!(
        said.starts_with("topology.interferer.1.position: what moving nodes receive"),
        "{said}"
    );
    let wired = under(OVEN).replace(
        "\"linear,3,attempts=7\"\nset = \"TB-W3\"",
        "\"linear,3,wire=2Mb/s\"",
    );
    let said = wrong(&wired);
    assert!(
        said.contains("n3: has wires only") || said.contains("no node has a radio"),
        "{said}"
    );
}

/// Of a run with `[record] frames`.
fn causes(watched: &mut Simulation) -> Causes {
    let mut causes = Causes::default();
    for record in watched.take_frames() {
        causes.add(&record);
    }
    causes
}

/// A chain in which neighbours alone hear each other: n1 is hidden from n3.
const HIDDEN: &str = "[topology]\nwords = \"linear,4,snr=30\"\n\
     [[topology.link]]\nfrom = \"n1\"\nto = \"n3\"\noff = true\n\
     [[topology.link]]\nfrom = \"n1\"\nto = \"n4\"\noff = true\n\
     [[topology.link]]\nfrom = \"n2\"\nto = \"n4\"\noff = true\n\
     [radio]\nrate = \"6Mb/s\"\nattempts = 7\nattempts_long = 7\nrts_threshold = 0\n";

#[test]
fn a_node_has_the_attempts_of_its_links_with_rts_too() {
    // Of other rates, so that they meet.
    let udp = |rate| format!("protocol = \"udp\"\nrate = \"{rate}\"\nsize = 1000\ntime = \"10s\"");
    let flows = flow("n1", "n2", &udp("2Mb/s")) + &flow("n3", "n2", &udp("2.3Mb/s"));
    let o = run(&format!("{HIDDEN}{flows}"));
    for node in &o.nodes {
        let own = o.links.iter().filter(|l| l.from == node.name);
        let (frames, tries) = own.fold((0, 0), |s, l| (s.0 + l.frames, s.1 + l.tries));
        assert_eq!((node.frames, node.tries), (frames, tries), "{}", node.name);
        assert_eq!(node.tries, node.frames + node.retries, "{}", node.name);
    }
    let [first, ..] = &o.nodes[..] else {
        panic!("there are nodes")
    };
    assert!(first.tries > first.attempts * 5 / 4, "{first:?}");
}

#[test]
fn an_rts_that_is_lost_says_to_whom() {
    // Of other rates, so that they meet.
    let udp = |rate| format!("protocol = \"udp\"\nrate = \"{rate}\"\nsize = 1000\ntime = \"20s\"");
    let text = |frames: bool| {
        let (there, beside) = (
            flow("n1", "n2", &udp("1Mb/s")),
            flow("n3", "n4", &udp("2.3Mb/s")),
        );
        format!("{HIDDEN}{there}{beside}[record]\nframes = {frames}\n")
    };
    let mut watched = simulation(&text(true));
    watched.run();
    let outcome = watched.outcome();
    let hash = run(&text(false)).trace_hash;
    assert_eq!(outcome.trace_hash, hash, "who looks changes nothing");
    let causes = causes(&mut watched);
    let link = &causes.links[&(0, 1)];
    assert!(link.rts_lost > 50, "{link:?}");
    assert_eq!(link.rts.known(), link.rts_lost, "each has a cause");
    assert_eq!(link.cts.known(), link.cts_lost);
    assert_eq!(link.ack.known(), link.ack_lost);
    // n2 hears n1 and n3 alone, and has nothing to send by itself.
    let by: Vec<u16> = link.rts.stations.keys().copied().collect();
    assert_eq!(by, [2]);
    assert!(link.rts.stations[&2] * 10 > link.rts_lost * 9, "{link:?}");
    let told = why::told(&causes, &["n1", "n2", "n3", "n4"]);
    let hidden = told["hidden"].as_array().expect("a list");
    let pair = hidden.iter().find(|row| row["frame"] == "rts");
    let pair = pair.expect("n1 and n3 do not hear each other");
    assert_eq!(
        [&pair["from"], &pair["to"], &pair["other"]],
        ["n1", "n2", "n3"]
    );
    assert_eq!(pair["attempts"], link.rts.stations[&2]);
    let words = told["words"].as_str().unwrap_or_default();
    assert!(
        words.contains("the RTS was lost (") && words.contains("n3 during n1 > n2"),
        "{words}"
    );
}

#[test]
fn attempts_over_a_link_that_an_event_cut_are_called_cut() {
    let udp = "protocol = \"udp\"\nrate = \"1Mb/s\"\nsize = 1000\ntime = \"6s\"";
    for rts in [false, true] {
        let text = |frames: bool| {
            let threshold = if rts { "rts_threshold = 0\n" } else { "" };
            let there = flow("n1", "n2", udp);
            format!(
                "[topology]\nwords = \"linear,2,snr=30\"\n[radio]\nrate = \"6Mb/s\"\n{threshold}\
                 {there}[[event]]\nat = \"2.25s\"\ncut = [\"n1\", \"n2\"]\n\
                 [[event]]\nat = \"4.5s\"\nrestore = [\"n1\", \"n2\"]\n[record]\nframes = {frames}\n"
            )
        };
        let mut watched = simulation(&text(true));
        watched.run();
        let outcome = watched.outcome();
        let hash = run(&text(false)).trace_hash;
        assert_eq!(outcome.trace_hash, hash, "who looks changes nothing");
        let causes = causes(&mut watched);
        let told = why::told(&causes, &["n1", "n2"]);
        // At 30 dB nothing else fails.
        let failed = told["failed"].as_u64().unwrap_or_default();
        assert!(failed > 300, "{told}");
        let counts = told["causes"].as_object().expect("counts by name");
        let cut = |(name, _): &(&String, _)| *name == "cut";
        let (own, others): (Vec<_>, Vec<_>) = counts.iter().partition(cut);
        assert_eq!(
            own.iter().map(|c| c.1.as_u64()).collect::<Vec<_>>(),
            [Some(failed)]
        );
        assert!(others.iter().all(|c| *c.1 == 0), "{told}");
        let words = told["words"].as_str().unwrap_or_default();
        assert!(
            words.ends_with("100 % an event had cut the link"),
            "{words}"
        );
        let link = &causes.links[&(0, 1)];
        assert_eq!(
            link.words(1, &|n| n.to_string()),
            format!("{failed} link cut")
        );
        // Who receives counts data alone.
        let lost = serde_json::to_value(outcome.nodes[1].lost).expect("counts");
        let data = (!rts).then_some(failed);
        assert_eq!(
            (lost["cut"].as_u64(), lost["noise"].as_u64()),
            (data, Some(0))
        );
    }
}

#[test]
fn who_walks_is_hidden_only_while_it_is() {
    // n1 and n3 send to n2 between them: at 20 m from it they sense each other, at 40 m not.
    let node = |n: &str, x: f64| {
        format!("[[topology.node]]\nname = \"{n}\"\nposition = [{x:?}, 0.0, 0.0]\n")
    };
    let udp = "protocol = \"udp\"\nrate = \"5Mb/s\"\nsize = 1000\ntime = \"8s\"";
    let told = |near: f64, far: f64| {
        let [n1, n2, n3] = [node("n1", -near), node("n2", 0.0), node("n3", near)];
        let rows = format!(
            "[[0.0,\"n1\",-{near:?},0.0],[0.0,\"n3\",{near:?},0.0],\
             [0.1,\"n1\",-{far:?},0.0],[0.1,\"n3\",{far:?},0.0]]"
        );
        let text = format!(
            "{n1}{n2}{n3}[topology.propagation]\nexponent = 3.5\n[topology.radio]\nrate = \"6Mb/s\"\n\
             [routing]\nkind = \"static\"\nroutes = [{{from=\"n1\",to=\"n2\",via=\"n2\"}},\
             {{from=\"n3\",to=\"n2\",via=\"n2\"}}]\n[[mobility]]\nkind = \"trace\"\nrows = {rows}\n\
             {}{}[record]\nframes = true\n[stop]\ntime = \"8s\"\n",
            flow("n1", "n2", udp),
            flow("n3", "n2", udp)
        );
        let mut watched = simulation(&text);
        watched.run();
        let told = why::told(&causes(&mut watched), &["n1", "n2", "n3"]);
        let count = |key: &str| told["causes"][key].as_u64().unwrap_or_default();
        (count("hidden"), count("together"))
    };
    let (hidden, together) = told(20.0, 40.0);
    assert!(hidden > 20 * together, "apart: {hidden} {together}");
    let (hidden, together) = told(40.0, 20.0);
    assert!(
        together > 5 * hidden && hidden > 0,
        "near: {hidden} {together}"
    );
}

#[test]
fn a_link_on_which_no_rts_is_answered_is_one() {
    let text = format!(
        "[topology]\nwords = \"linear,2,snr=2\"\n[topology.radio]\nrts_threshold = 0\nrate = \"6Mb/s\"\n\
         {}[stop]\ntime = \"20s\"\n",
        flow("n1", "n2", "protocol = \"udp\"\nrate = \"100kb/s\"")
    );
    let outcome = run(&text);
    let link = outcome
        .links
        .iter()
        .find(|l| l.from == "n1")
        .expect("it was tried");
    assert!(
        link.tries > 20 && link.acked == 0 && link.attempts == 0,
        "{link:?}"
    );
    assert_eq!(outcome.nodes[0].tries, link.tries);
}

#[test]
fn who_is_too_weak_to_be_noticed_is_blamed_for_what_it_spoils() {
    // n7's frames reach n4 with 8.4 dB, where n2, hidden from n7, has less than it takes to be
    // noticed: alone they all arrive, beside n2 hardly any.
    let told = |other: &str| {
        let text = format!(
            "[topology]\nwords = \"grid,3,3,spacing=75\"\n[topology.radio]\nrate = \"6Mb/s\"\n{}{other}\
             [record]\nframes = true\n[stop]\ntime = \"40s\"\n",
            flow("n7", "n4", "protocol = \"udp\"\nrate = \"200kb/s\"")
        );
        let mut watched = simulation(&text);
        watched.run();
        let names: Vec<String> = (1..10).map(|n| format!("n{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let told = why::told(&causes(&mut watched), &names);
        let links = told["links"].as_array().expect("links").clone();
        let mut own = links
            .into_iter()
            .filter(|l| l["from"] == "n7" && l["to"] == "n4");
        let own = own.next().expect("it carried frames");
        let count = |key: &str| own["causes"][key].as_u64().unwrap_or_default();
        (own["failed"].as_u64(), count("hidden"), count("noise"))
    };
    assert_eq!(told(""), (Some(0), 0, 0), "no frame is lost to noise");
    let (failed, hidden, noise) = told(&flow("n2", "n3", "protocol = \"tcp-newreno\""));
    let failed = failed.expect("a count");
    assert!(
        failed > 3000 && hidden > failed * 9 / 10,
        "{failed} {hidden}"
    );
    assert!(noise < failed / 50, "{noise}");
}

#[test]
fn who_is_hardly_heard_at_all_is_not_blamed() {
    // n3 is 19 dB below n2's noise, whoever begins first: what n2 misses of n1 it misses anyway.
    let told = |snr: f64, radio: &str| {
        let text = format!(
            "[topology.matrix]\nsnr_db = [[0.0, {snr:?}, -60.0, -60.0], [{snr:?}, 0.0, -19.0, -60.0], \
             [-60.0, -19.0, 0.0, 25.0], [-60.0, -60.0, 25.0, 0.0]]\n[topology.fading]\nsigma_db = 1.0\n\
             [topology.radio]\nrate = \"24Mb/s\"\n{radio}{}{}[record]\nframes = true\n\
             [stop]\ntime = \"10s\"\n",
            flow("n1", "n2", "protocol = \"udp\"\nrate = \"2Mb/s\""),
            flow("n3", "n4", "protocol = \"udp\"\nrate = \"9Mb/s\"")
        );
        let mut watched = simulation(&text);
        watched.run();
        let told = why::told(&causes(&mut watched), &["n1", "n2", "n3", "n4"]);
        let count = |key: &str| told["causes"][key].as_u64().unwrap_or_default();
        (count("hidden"), count("noise"))
    };
    let (hidden, noise) = told(13.0, "");
    assert!(hidden == 0 && noise > 100, "spoiled: {hidden} {noise}");
    // Nor of what the receiver does not notice by itself.
    let (hidden, noise) = told(14.0, "detect_dbm = -79.5\n");
    assert!(hidden == 0 && noise > 100, "not noticed: {hidden} {noise}");
}

#[test]
fn the_same_slot_is_where_frames_began_in_it() {
    // With fading, stations that sense each other on the mean miss each other's frames.
    let run = |sigma: &str| {
        let text = format!(
            "[topology]\nwords = \"linear,4\"\nset = \"TB-A\"\n{sigma}{}[record]\nframes = true\n\
             [stop]\ntime = \"60s\"\n",
            flow(
                "n1",
                "n4",
                "protocol = \"tcp-newreno\"\napp = \"file\"\nbytes = \"1M\""
            )
        );
        let mut watched = simulation(&text);
        watched.run();
        let mut began = vec![Vec::new(); 4];
        let (mut inside, mut outside) = ([0, 0], [0, 0]);
        for r in watched.take_frames() {
            let sent = r.what == What::Sent && r.kind == FrameKind::Data;
            if sent {
                began[usize::from(r.node)].push(r.time);
            }
            let named = r.other != NOBODY && !r.unsensed() && r.kind == FrameKind::Data;
            if r.what != What::Lost || !named {
                continue;
            }
            let own = *began[usize::from(r.peer)].last().expect("it was sent");
            let near = |at: &&Time| at.0.abs_diff(own.0) <= 9_000;
            let both = began[usize::from(r.other)]
                .iter()
                .rev()
                .take(9)
                .any(|at| near(&at));
            let of = if both { &mut inside } else { &mut outside };
            of[usize::from(r.unheard())] += 1;
        }
        (inside, outside)
    };
    let (inside, outside) = run("");
    assert_eq!(inside[1], 0, "they began in the same slot");
    assert!(
        inside[0] > 100 && outside[1] > 100,
        "{inside:?} {outside:?}"
    );
    // The rest are acknowledgements of frames that began with the lost one.
    assert!(outside[0] < inside[0], "{inside:?} {outside:?}");
    let (steady, missed) = run("[topology.fading]\nsigma_db = 0.0\n");
    assert!(
        steady[0] > 100 && missed[1] * 3 < outside[1],
        "{steady:?} {missed:?}"
    );
}

#[test]
fn what_a_sender_waits_for_when_a_run_ends_is_counted() {
    // All of the last 12 s but the first round trip are waits for timeouts, the last of which
    // would have ended at 16.6 s.
    let text = format!(
        "[topology]\nwords = \"linear,2,snr=30\"\n{}[[event]]\nat = \"2s\"\ncut = [\"n1\", \"n2\"]\n\
         [stop]\ntime = \"14s\"\n",
        flow("n1", "n2", "protocol = \"tcp-newreno\"")
    );
    let outcome = run(&text);
    let flow = &outcome.flows[0];
    let waited = flow.timeout_s.expect("it has a timer");
    assert!((11.5..12.01).contains(&waited), "{waited}");
    let (held, opened) = (flow.limited_s.values().sum::<f64>(), flow.connected_s);
    let open = 14.0 - opened.expect("it connected");
    assert!((held - open).abs() < 0.01, "{held} of {open}");
}

#[test]
fn what_held_a_sender_is_counted_to_the_end_of_each_connection() {
    // All is sent long before the last of it is acknowledged.
    let of = |keys: &str| {
        let text = format!(
            "[topology]\nwords = \"linear,5,snr=30\"\n{}[stop]\ntime = \"60s\"\n",
            flow("n1", "n5", keys)
        );
        run(&text).flows.remove(0)
    };
    let one = of("protocol = \"atp\"\napp = \"file\"\nbytes = \"200k\"");
    let open = one.known_s.zip(one.connected_s).map(|(end, at)| end - at);
    let (open, held) = (open.expect("it ended"), one.limited_s.values().sum::<f64>());
    assert!(
        (held - open).abs() < 0.01 * open,
        "{held} of {open}: {:?}",
        one.limited_s
    );
    let many = of(
        "protocol = \"tcp-newreno\"\napp = \"http\"\npause = \"10ms\"\nscale = 3000\n\
         cap = 3000\ncount = 20",
    );
    assert_eq!(many.connections, 20);
    let waited = many.limited_s.get("drain").copied().unwrap_or_default();
    let held: f64 = many.limited_s.values().sum();
    assert!(waited > 0.5 * held && waited > 0.02, "{:?}", many.limited_s);
}

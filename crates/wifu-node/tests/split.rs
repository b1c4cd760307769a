//! A node between two ends splits their connections: it answers, opens, moves octets and holds them
//! back, closes, resets, and repairs what is lost on either side by itself.

mod world;

use core::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use wifu_engine::{Blueprint, ConnId, Endpoint, EndpointConfig, Event, Fault};
use wifu_node::{Node, Split, SplitConfig, SplitCounters};
use wifu_wire::{FrameFacts, Rng, Span, Time, ipv4};
use world::World;

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const HERE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
const PORT: u16 = 80;
/// With buffers that tests fill.
const SMALL: &str = "tcp-newreno,rcv_wnd=65535,snd_buf=131072";

fn tcp(spec: &str) -> Arc<Blueprint> {
    wifu_parts::blueprint(spec).expect("it is known")
}

fn octets(n: usize, salt: usize) -> Vec<u8> {
    (0..n)
        .map(|i| ((i * 31 + i / 251 + salt) % 253) as u8)
        .collect()
}

/// An application at one end of a connection.
struct App {
    id: ConnId,
    says: Vec<u8>,
    written: usize,
    /// Close for writing when all was said; behind the peer's end only.
    closes: bool,
    closes_after_peer: bool,
    closed: bool,
    open: bool,
    got: Vec<u8>,
    eof: bool,
    over: Option<Option<Fault>>,
}

impl App {
    fn new(id: ConnId, says: Vec<u8>, open: bool) -> App {
        App {
            id,
            says,
            written: 0,
            closes: false,
            closes_after_peer: false,
            closed: false,
            open,
            got: Vec::new(),
            eof: false,
            over: None,
        }
    }
}

/// Two ends and a node between them that splits.
struct Net {
    nodes: [(Node, World); 3],
    now: Time,
    /// Of A, and of B in the order in which they were accepted.
    apps: [Vec<App>; 2],
    /// What B says to whoever comes.
    answer: Vec<u8>,
    /// B closes first, or after its peer.
    b_closes: bool,
    b_reads: bool,
    rng: Rng,
    /// Of a thousand packets, on the links A-HERE and HERE-B.
    loss: [u64; 2],
}

impl Net {
    fn new(near: &str, far: &str) -> Net {
        let nodes = [A, HERE, B].map(|me| (Node::new(u16::from(me.octets()[3])), World::new(me)));
        let mut net = Net {
            nodes,
            now: Time(1_000),
            apps: [Vec::new(), Vec::new()],
            answer: Vec::new(),
            b_closes: false,
            b_reads: true,
            rng: Rng::new(7),
            loss: [0, 0],
        };
        for i in [0, 2] {
            let config = EndpointConfig {
                node: i as u32,
                ..EndpointConfig::default()
            };
            net.nodes[i].0.set_end(Endpoint::new(config));
        }
        let mut split = Split::new(SplitConfig::default());
        // As carried by one protocol number.
        let mut far = Blueprint::clone(&tcp(far));
        far.number = tcp(near).number;
        split.serve(tcp(near), Arc::new(far));
        net.nodes[1].0.set_split(split);
        let b = net.end(1);
        b.listen(&tcp(SMALL), SocketAddrV4::new(B, PORT), 64)
            .expect("nobody listens");
        net
    }

    fn usual() -> Net {
        Net::new(SMALL, SMALL)
    }

    /// The end of A (0) or B (1).
    fn end(&mut self, which: usize) -> &mut Endpoint {
        self.nodes[2 * which].0.end_mut().expect("an end")
    }

    fn split(&self) -> SplitCounters {
        self.nodes[1]
            .0
            .split()
            .expect("it splits")
            .counters(self.now)
    }

    fn connect(&mut self, says: Vec<u8>) -> usize {
        let now = self.now;
        let (from, to) = (SocketAddrV4::new(A, 0), SocketAddrV4::new(B, PORT));
        let id = self.end(0).connect(now, &tcp(SMALL), from, to);
        self.apps[0].push(App::new(id.expect("there is room"), says, false));
        self.apps[0].len() - 1
    }

    fn act(&mut self, which: usize) {
        let now = self.now;
        let end = self.nodes[2 * which].0.end_mut().expect("an end");
        while let Some((id, event)) = end.poll_event() {
            if let Event::Accepted(_) = event {
                let mut app = App::new(id, self.answer.clone(), true);
                (app.closes, app.closes_after_peer) = (self.b_closes, true);
                self.apps[which].push(app);
                continue;
            }
            let app = self.apps[which].iter_mut().find(|a| a.id == id);
            let Some(app) = app else { continue };
            match event {
                Event::Connected => app.open = true,
                Event::PeerClosed => app.eof = true,
                Event::Closed(fault) => app.over = Some(fault),
                _ => {}
            }
        }
        for app in self.apps[which].iter_mut().filter(|a| a.open) {
            if which == 0 || self.b_reads {
                let mut part = [0; 4_096];
                loop {
                    let n = end.read(now, app.id, &mut part);
                    if n == 0 {
                        break;
                    }
                    app.got.extend_from_slice(&part[..n]);
                }
            }
            app.written += end.write(now, app.id, &app.says[app.written..]);
            let all = app.written == app.says.len();
            let closes = app.closes || app.closes_after_peer && app.eof;
            if all && closes && !app.closed {
                end.shutdown_write(now, app.id);
                app.closed = true;
            }
        }
    }

    /// A millisecond goes by.
    fn step(&mut self) {
        self.now += Span::MILLI;
        for which in [0, 1] {
            self.act(which);
        }
        for (node, world) in &mut self.nodes {
            world.now = self.now;
            if node.poll_timeout(world) <= self.now {
                node.handle_timeout(world);
            }
            while node.transmit(world) {}
        }
        for from in 0..3 {
            while let Some((_, bytes)) = self.nodes[from].1.sent.pop_front() {
                let dst = ipv4::parse(&bytes).expect("whole").0.dst;
                let (next, link) = match (from, dst == A) {
                    (0, _) => (1, 0),
                    (1, true) => (0, 0),
                    (1, false) => (2, 1),
                    _ => (1, 1),
                };
                if self.rng.below(1_000) < self.loss[link] {
                    continue;
                }
                let (node, world) = &mut self.nodes[next];
                let packet = world.insert(bytes, true);
                node.arrive(world, packet, FrameFacts::NONE);
            }
        }
    }

    fn run(&mut self, ms: u32) {
        for _ in 0..ms {
            self.step();
        }
    }

    /// Until something is so, for ten minutes at most.
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Net) -> bool) {
        for _ in 0..600_000 {
            if is_so(self) {
                return;
            }
            self.step();
        }
        let split = self.split();
        let apps = self.apps.iter().flatten();
        let apps: Vec<_> = apps
            .map(|a| (a.got.len(), a.closed, a.eof, a.over))
            .collect();
        panic!("never: {what}; {split:?}; {apps:?}");
    }

    /// No packet is left anywhere, and each is in the books.
    fn check(&self) {
        for (_, world) in &self.nodes {
            assert_eq!(world.packets(), 0);
            world.check_books();
        }
    }
}

#[test]
fn what_the_far_end_has_not_is_acknowledged_and_repaired_by_the_splitter() {
    let mut net = Net::usual();
    net.connect(Vec::new());
    net.until("joined", |n| n.split().joined == 1 && !n.apps[1].is_empty());
    // From now on nothing comes over the far link.
    net.loss = [0, 1_000];
    net.apps[0][0].says = octets(20_000, 1);
    net.run(200);
    let id = net.apps[0][0].id;
    let info = net.end(0).info(id).expect("it lives");
    assert_eq!(
        (info.unacked, info.retransmits),
        (0, 0),
        "the splitter has all"
    );
    assert_eq!(net.apps[1][0].got.len(), 0);
    assert!(net.split().far.retransmissions == 0 || net.split().far.timeouts > 0);
    net.loss = [0, 0];
    net.until("delivered", |n| n.apps[1][0].got.len() == 20_000);
    assert!(net.apps[1][0].got == net.apps[0][0].says);
    let info = net.end(0).info(id).expect("it lives");
    assert_eq!(info.retransmits, 0);
    let split = net.split();
    assert!(
        split.far.retransmissions > 0 && split.near.retransmissions == 0,
        "{split:?}"
    );
    assert_eq!((split.near.bytes, split.far.bytes), (20_000, 0));
    net.check();
}

/// Without the splitter the same loss is the source's affair.
#[test]
fn loss_beyond_the_splitter_is_not_the_sources() {
    let again = |splits: bool| {
        let mut net = Net::usual();
        if !splits {
            net.nodes[1].0 = Node::new(2);
        }
        net.loss = [0, 30];
        net.connect(octets(300_000, 2));
        net.until("all", |n| {
            n.apps[1].first().is_some_and(|a| a.got.len() == 300_000)
        });
        assert!(net.apps[1][0].got == net.apps[0][0].says);
        let id = net.apps[0][0].id;
        let far = splits.then(|| net.split().far.retransmissions);
        (net.end(0).info(id).expect("it lives").retransmits, far)
    };
    let (source, _) = again(false);
    assert!(source > 3, "{source}");
    let (source, far) = again(true);
    assert!(source == 0 && far > Some(3), "{source} {far:?}");
}

#[test]
fn a_reader_that_rests_closes_the_sources_window_and_memory_stays_bounded() {
    let mut net = Net::usual();
    net.b_reads = false;
    net.connect(octets(3_000_000, 3));
    net.run(20_000);
    let id = net.apps[0][0].id;
    let info = net.end(0).info(id).expect("it lives");
    assert!(info.peer_window.is_some_and(|w| w < info.mss), "{info:?}");
    let written = net.apps[0][0].written;
    assert!(written < 1_500_000, "{written}");
    let held = net.split().most_held;
    net.run(20_000);
    assert_eq!(net.apps[0][0].written, written, "nothing moves");
    assert_eq!(net.split().most_held, held);
    // What one half receives and the other one sends, and no more.
    let buffers = |name: &str| tcp(SMALL).engine_int(name);
    let most = u64::from(buffers("rcv_wnd") + buffers("snd_buf"));
    assert!(held > most / 2 && held <= most, "{held} of {most}");
    net.b_reads = true;
    net.until("all", |n| n.apps[1][0].got.len() == 3_000_000);
    assert!(net.apps[1][0].got == net.apps[0][0].says);
    net.check();
}

#[test]
fn each_end_may_close_its_direction_first() {
    for a_first in [true, false] {
        let mut net = Net::usual();
        net.answer = octets(50_000, 4);
        net.b_closes = !a_first;
        net.connect(octets(if a_first { 1_000 } else { 80_000 }, 5));
        net.apps[0][0].closes = a_first;
        net.apps[0][0].closes_after_peer = true;
        // B writes behind the end of A, and A behind that of B.
        net.until("closed", |n| n.split().closed == 1);
        net.until("over", |n| n.apps[0][0].eof && n.apps[1][0].eof);
        assert!(net.apps[1][0].got == net.apps[0][0].says, "{a_first}");
        assert!(net.apps[0][0].got == net.answer, "{a_first}");
        let faults = [0, 1].map(|i| net.apps[i][0].over.flatten());
        assert_eq!(faults, [None, None]);
        let split = net.split();
        assert_eq!(
            (split.accepted, split.joined, split.open, split.broken),
            (1, 1, 0, 0)
        );
        net.run(10);
        net.check();
    }
}

/// The first direction is closed for a second before the other one says anything.
#[test]
fn a_connection_that_is_half_closed_still_carries_octets() {
    let mut net = Net::usual();
    net.connect(octets(500, 6));
    net.apps[0][0].closes = true;
    net.until("B knows", |n| n.apps[1].first().is_some_and(|a| a.eof));
    // B has closed too, as it had nothing to say; another one has.
    let mut net = Net::usual();
    net.answer = vec![9];
    net.connect(octets(500, 6));
    net.until("B is there", |n| !n.apps[1].is_empty());
    net.apps[1][0].closes_after_peer = false;
    net.apps[0][0].closes = true;
    net.until("B knows", |n| n.apps[1][0].eof);
    net.run(1_000);
    assert_eq!((net.split().open, net.split().closed), (1, 0));
    net.apps[1][0].says = vec![9; 70_000];
    net.run(2_000);
    assert_eq!(net.apps[0][0].got.len(), 70_000);
    assert!(!net.apps[0][0].eof);
    net.apps[1][0].closes = true;
    net.until("A knows", |n| n.apps[0][0].eof && n.split().closed == 1);
    net.run(10);
    net.check();
}

#[test]
fn a_reset_of_one_half_resets_the_other() {
    for which in [0, 1] {
        let mut net = Net::usual();
        net.connect(octets(10_000, 7));
        net.until("some", |n| {
            n.apps[1].first().is_some_and(|a| !a.got.is_empty())
        });
        let (now, id) = (net.now, net.apps[which][0].id);
        net.end(which).abort(now, id);
        net.apps[which][0].open = false;
        net.until("the other", |n| n.apps[1 - which][0].over.is_some());
        assert_eq!(
            net.apps[1 - which][0].over,
            Some(Some(Fault::Reset)),
            "{which}"
        );
        let split = net.split();
        assert_eq!(
            (split.broken, split.open, split.closed),
            (1, 0, 0),
            "{which}"
        );
        net.run(10);
        net.check();
    }
}

#[test]
fn who_cannot_be_reached_resets_the_first_half() {
    // Nobody listens there.
    let mut net = Net::usual();
    let now = net.now;
    let (from, to) = (SocketAddrV4::new(A, 0), SocketAddrV4::new(B, PORT + 1));
    let id = net.end(0).connect(now, &tcp(SMALL), from, to);
    net.apps[0].push(App::new(id.expect("there is room"), octets(100, 8), false));
    net.until("refused", |n| n.apps[0][0].over.is_some());
    assert_eq!(net.apps[0][0].over, Some(Some(Fault::Reset)));
    let split = net.split();
    assert_eq!(
        (split.accepted, split.joined, split.unopened, split.open),
        (1, 0, 1, 0)
    );
    // There is no way.
    let mut net = Net::usual();
    net.nodes[1].1.ways.insert(B, None);
    net.connect(octets(100, 9));
    net.until("reset", |n| n.apps[0][0].over.is_some());
    assert_eq!(net.apps[0][0].over, Some(Some(Fault::Reset)));
    let split = net.split();
    assert_eq!(
        (split.accepted, split.unopened, split.far.segments),
        (1, 1, 0)
    );
    assert!(split.near.segments > 0, "its half of the opening");
    // Nobody answers.
    let mut net = Net::usual();
    net.loss = [0, 1_000];
    net.connect(octets(100, 9));
    net.until("reset", |n| n.apps[0][0].over.is_some());
    assert_eq!(net.apps[0][0].over, Some(Some(Fault::Reset)));
    assert_eq!(net.split().unopened, 1);
}

/// Whichever end speaks first, both learn that the connection is no more.
#[test]
fn a_restart_breaks_connections_at_both_ends() {
    for speaks in [0, 1] {
        let mut net = Net::usual();
        net.answer = octets(100, 10);
        net.connect(octets(100, 11));
        net.until("there", |n| {
            n.apps[1].first().is_some_and(|a| a.got.len() == 100)
        });
        net.until("back", |n| n.apps[0][0].got.len() == 100);
        net.run(300);
        let now = net.now;
        net.nodes[1].0.split_mut().expect("it splits").restart(now);
        net.run(1_000);
        assert_eq!(
            [0, 1].map(|i| net.apps[i][0].over),
            [None, None],
            "nobody has spoken"
        );
        net.apps[speaks][0].says.extend(octets(5_000, 12));
        net.run(1_000);
        let reset = Some(Some(Fault::Reset));
        assert_eq!(
            [0, 1].map(|i| net.apps[i][0].over),
            [reset, reset],
            "{speaks}"
        );
        let split = net.split();
        assert_eq!((split.forgotten, split.open), (1, 0));
        let split = net.nodes[1].0.split_mut().expect("it splits");
        let dropped = split.drops();
        assert!(!dropped.is_empty(), "what is of no connection");
        split.restart(net.now);
        assert_eq!(split.drops(), dropped, "what was before counts");
        // The next connection is one again.
        let next = net.connect(octets(3_000, 13));
        net.until("the next", |n| {
            n.apps[1].get(1).is_some_and(|a| a.got.len() == 3_000)
        });
        assert!(net.apps[1][1].got == net.apps[0][next].says);
        net.run(500);
        net.check();
    }
}

#[test]
fn many_connections_with_loss_on_both_sides_carry_every_octet_both_ways() {
    let mut net = Net::new(SMALL, "tcp-cubic");
    net.loss = [30, 30];
    net.answer = octets(60_000, 14);
    for i in 0..12 {
        net.connect(octets(20_000 + 7_001 * i, i));
        net.apps[0][i].closes = true;
        net.run(3);
    }
    net.until("all closed", |n| n.split().closed == 12);
    net.until("all over", |n| n.apps.iter().flatten().all(|a| a.eof));
    let split = net.split();
    for app in &net.apps[0] {
        assert!(app.got == net.answer);
        let twin = net.apps[1].iter().filter(|b| b.got == app.says).count();
        assert_eq!(twin, 1, "{split:?}");
    }
    assert_eq!(
        (split.accepted, split.joined, split.broken, split.open),
        (12, 12, 0, 0)
    );
    assert!(
        split.near.retransmissions > 0 && split.far.retransmissions > 0,
        "{split:?}"
    );
    assert_eq!(split.far.bytes, 12 * 60_000);
    net.loss = [0, 0];
    net.run(100);
    net.check();
}

/// What the splitter does not serve, and what is for its own node, is none of its affair.
#[test]
fn other_packets_pass_as_before() {
    let mut net = Net::usual();
    let mut bytes = vec![0; 40];
    let info = wifu_wire::IpInfo {
        src: A,
        dst: B,
        proto: 99,
        ttl: 64,
        ecn: wifu_wire::Ecn::NotEct,
    };
    ipv4::emit(&info, 20, &mut bytes);
    let (node, world) = &mut net.nodes[1];
    let packet = world.insert(bytes, true);
    node.arrive(world, packet, FrameFacts::NONE);
    let (_, left) = world.sent.pop_front().expect("it went on");
    assert_eq!(ipv4::parse(&left).expect("whole").0.ttl, 63);
    assert_eq!(net.split().taken, 0);
}

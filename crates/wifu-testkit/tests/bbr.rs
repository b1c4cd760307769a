//! BBR over a bottleneck in virtual time: each mechanism acts, and the numbers are those of the
//! path.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use wifu_testkit::pair::{Fate, Flying, Pair, Step};
use wifu_wire::{Rng, Span, Time};

/// A bottleneck, and what it did.
struct Bottleneck {
    /// Octets per second.
    rate: f64,
    /// Packets that may wait.
    limit: f64,
    /// The share of data that is lost at random.
    loss: f64,
    /// Tokens of a policer, octets, and how many it takes at the most: it drops what has none, and
    /// nothing waits.
    policer: Option<(f64, f64)>,
    /// Acknowledgements are held until the next multiple of it.
    hold: Span,
    /// When it has sent what waits.
    free: Time,
    last: Time,
    /// Packets that waited, or were being sent, as each one came.
    queue: Vec<(Time, f64)>,
    drops: u32,
    /// Data segments that came.
    data: u32,
    rng: Rng,
}

impl Bottleneck {
    fn pass(&mut self, f: &Flying) -> Fate {
        if f.from == 1 {
            let hold = self.hold.0.max(1);
            return Fate::Late(Span(f.at.0.next_multiple_of(hold) - f.at.0));
        }
        let octets = f.bytes.len() as f64 + 20.0;
        let waits = (self.free - f.at).as_secs_f64() * self.rate / PACKET;
        let data = octets > 200.0;
        self.data += u32::from(data);
        self.queue.push((f.at, waits));
        let mut lost = data && self.rng.unit() < self.loss || waits > self.limit + 1.0;
        let earned = (f.at - self.last).as_secs_f64() * self.rate;
        self.last = f.at;
        if let Some((tokens, most)) = &mut self.policer {
            *tokens = (*tokens + earned).min(*most);
            lost |= *tokens < octets;
            *tokens -= if lost { 0.0 } else { octets };
        }
        self.drops += u32::from(lost);
        match lost {
            true => Fate::Drop,
            false if self.policer.is_some() => Fate::Deliver,
            false => {
                let sent = Span::from_secs_f64(octets / self.rate);
                self.free = self.free.max(f.at) + sent;
                Fate::Late(self.free - f.at)
            }
        }
    }
}

/// A path of 40 ms with a bottleneck.
struct Path {
    pair: Pair,
    neck: Rc<RefCell<Bottleneck>>,
}

/// Payload of a segment, and the length of its packet.
const MSS: f64 = 1448.0;
const PACKET: f64 = 1500.0;
const TRIP: f64 = 0.04;

impl Path {
    /// So many Mb/s, a queue of so many packets, and this share of data lost at random.
    fn new(spec: &str, mbps: f64, limit: f64, loss: f64) -> Path {
        let mut pair = Pair::new(7);
        pair.delay = Span::MILLI * 20;
        let neck = Rc::new(RefCell::new(Bottleneck {
            rate: mbps * 1e6 / 8.0,
            limit,
            loss,
            policer: None,
            hold: Span::ZERO,
            free: Time::ZERO,
            last: Time::ZERO,
            queue: Vec::new(),
            drops: 0,
            data: 0,
            rng: Rng::new(11),
        }));
        let mine = Rc::clone(&neck);
        pair.spoil = Box::new(move |f: &Flying| mine.borrow_mut().pass(f));
        pair.record = true;
        pair.connect(&wifu_parts::blueprint(spec).unwrap());
        Path { pair, neck }
    }

    /// One that has much to send, in this state.
    fn in_state(mbps: f64, limit: f64, state: u8) -> Path {
        let mut p = Path::new("tcp-bbr", mbps, limit, 0.0);
        p.fill(100.0);
        p.until(30.0, |p| p.state() == state);
        p
    }

    fn rate(&self) -> f64 {
        self.neck.borrow().rate
    }

    fn set_rate(&mut self, mbps: f64) {
        self.neck.borrow_mut().rate = mbps * 1e6 / 8.0;
    }

    /// The application has so many octets more.
    fn write(&mut self, octets: usize) {
        let end = self.pair.apps[0].to_write.len() + octets;
        self.pair.apps[0].to_write.resize(end, b'b');
        self.pair.pump(0);
    }

    /// Octets that it takes for so many seconds at full rate.
    fn fill(&mut self, seconds: f64) {
        self.write((seconds * self.payload()) as usize);
    }

    /// Payload per second that the bottleneck carries.
    fn payload(&self) -> f64 {
        self.rate() * MSS / PACKET
    }

    /// Octets of payload that the path holds without a queue.
    fn bdp(&self) -> f64 {
        self.payload() * (TRIP + PACKET / self.rate())
    }

    /// An inner quantity of the window.
    fn probe(&self, name: &str) -> f64 {
        let mut found = None;
        self.pair.conn(0).observe(&mut |part, probe, value| {
            if (part, probe) == ("bbr", name) {
                found = Some(value);
            }
        });
        found.unwrap_or_else(|| panic!("no probe {name}"))
    }

    fn state(&self) -> u8 {
        self.probe("state") as u8
    }

    fn seconds(&self) -> f64 {
        self.pair.now.as_secs_f64()
    }

    /// Until something is so, at the latest after so many seconds in all.
    fn until(&mut self, limit: f64, mut so: impl FnMut(&Path) -> bool) {
        let limit = Time((limit * 1e9) as u64);
        while !so(self) {
            let step = self.pair.step(limit);
            assert_eq!(step, Step::Going, "it never came at {}", self.seconds());
        }
    }

    /// Runs to this second, and calls `each` after every event.
    fn run(&mut self, limit: f64, mut each: impl FnMut(&Path)) {
        let limit = Time((limit * 1e9) as u64);
        while self.pair.step(limit) == Step::Going {
            each(self);
        }
    }

    fn max_bw(&self) -> f64 {
        self.probe("max_bw_bps") / 8.0
    }

    /// Octets that the peer's application has.
    fn read(&self) -> f64 {
        self.pair.apps[1].read.len() as f64
    }
}

const STARTUP: u8 = 0;
const DRAIN: u8 = 1;
const DOWN: u8 = 2;
const CRUISE: u8 = 3;
const REFILL: u8 = 4;
const UP: u8 = 5;
const PROBE_RTT: u8 = 6;

/// The draft's first test case: the estimate within 2 % of the bottleneck, in O(log(BDP)) round
/// trips and three of plateau; then the queue is drained.
#[test]
fn startup_finds_the_bandwidth_and_drain_empties_the_queue() {
    for mbps in [2.0, 10.0, 50.0] {
        let mut p = Path::new("tcp-bbr", mbps, 10_000.0, 0.0);
        p.fill(20.0);
        p.until(5.0, |p| p.state() == DRAIN);
        let off = p.max_bw() / p.payload() - 1.0;
        assert!(off.abs() < 0.02, "{mbps}: {off}");
        let doublings = (p.bdp() / (3.0 * MSS)).log2().ceil();
        let rounds = p.probe("round");
        assert!(
            rounds <= doublings + 3.0 + 2.0,
            "{mbps}: {rounds} of {doublings}"
        );
        assert_eq!(
            (p.probe("full_bw_reached"), p.probe("full_bw_count")),
            (1.0, 3.0)
        );
        let flight = |p: &Path| f64::from(p.pair.conn(0).board().tx.pipe);
        let (most, began) = (flight(&p), p.seconds());
        assert!(most > 1.5 * p.bdp(), "{mbps}: there is a queue: {most}");
        p.until(5.0, |p| p.state() != DRAIN);
        assert!([DOWN, CRUISE].contains(&p.state()), "{mbps}: {}", p.state());
        let budget = 6.0 * MSS;
        assert!(
            flight(&p) <= (1.02 * p.bdp()).max(budget),
            "{mbps}: {}",
            flight(&p)
        );
        assert!(
            p.seconds() - began < 4.0 * TRIP,
            "{mbps}: {}",
            p.seconds() - began
        );
        assert_eq!(p.neck.borrow().drops, 0);
    }
}

/// In cruise what is in flight is what the path holds, and no queue stands.
#[test]
fn cruise_fills_the_path_and_not_the_queue() {
    let mut p = Path::new("tcp-bbr", 10.0, 10_000.0, 0.0);
    p.fill(40.0);
    p.until(5.0, |p| p.state() == CRUISE);
    let mut states = BTreeMap::new();
    let mut flights = Vec::new();
    let (began, read) = (p.seconds(), p.read());
    p.run(20.0, |p| {
        *states.entry(p.state()).or_insert(0u32) += 1;
        if p.state() == CRUISE {
            flights.push(f64::from(p.pair.conn(0).board().tx.pipe));
        }
    });
    let all = [DOWN, CRUISE, REFILL, UP, PROBE_RTT];
    assert!(all.iter().all(|s| states.contains_key(s)), "{states:?}");
    assert!(
        !states.contains_key(&STARTUP) && !states.contains_key(&DRAIN),
        "{states:?}"
    );
    let mean = flights.iter().sum::<f64>() / flights.len() as f64 / p.bdp();
    assert!((0.9..1.1).contains(&mean), "{mean}");
    let share = (p.read() - read) / ((p.seconds() - began) * p.payload());
    assert!(share > 0.95, "{share}");
    let neck = p.neck.borrow();
    let late = neck.queue.iter().filter(|q| q.0.as_secs_f64() > began);
    let waits: Vec<f64> = late.map(|q| q.1).collect();
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    assert!(mean < 5.0, "{mean} packets wait");
    let most = waits.iter().copied().fold(0.0, f64::max);
    // While it probes, at the most what the gain of the window leaves beside the path.
    assert!(
        most < 1.25 * p.bdp() / MSS,
        "{most} packets while it probes"
    );
    assert_eq!((neck.drops, p.pair.conn(0).board().tx.retransmits), (0, 0));
}

/// Every five seconds half of the path is left empty for 200 ms, and that costs two percent.
#[test]
fn probe_rtt_comes_every_five_seconds_and_halves_what_is_in_flight() {
    let mut p = Path::new("tcp-bbr", 10.0, 10_000.0, 0.0);
    p.fill(60.0);
    let (mut began, mut lasted, mut least) = (Vec::new(), Vec::new(), f64::MAX);
    let mut inside = false;
    p.run(41.0, |p| {
        let now = p.state() == PROBE_RTT;
        match (inside, now) {
            (false, true) => began.push(p.seconds()),
            (true, false) => lasted.push(p.seconds() - began[began.len() - 1]),
            (true, true) => least = least.min(f64::from(p.pair.conn(0).board().tx.pipe)),
            _ => {}
        }
        inside = now;
    });
    assert!((6..=8).contains(&began.len()), "{began:?}");
    let apart: Vec<f64> = began.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(apart.iter().all(|s| (5.0..6.5).contains(s)), "{apart:?}");
    assert!(lasted.iter().all(|s| (0.2..0.4).contains(s)), "{lasted:?}");
    assert!(least <= 0.5 * p.bdp() && least > 0.3 * p.bdp(), "{least}");
    let min_rtt = p.probe("min_rtt_s");
    let path = TRIP + PACKET / p.rate();
    assert!(min_rtt <= 1.01 * path, "{min_rtt}");
    let share = p.read() / (p.seconds() * p.payload());
    assert!(share > 0.95, "{share}");
}

/// One percent of the packets is lost at random: no congestion, and little reason to slow down.
/// Of a path of 35 packets a single one is more than the threshold of 2 %.
#[test]
fn random_losses_leave_the_rate_alone_where_newreno_loses_most_of_it() {
    let share = |spec: &str, mbps: f64| {
        let mut p = Path::new(spec, mbps, 10.0 * mbps, 0.01);
        p.fill(35.0);
        p.run(30.0, |_| ());
        let lost = p.neck.borrow().drops;
        assert!(lost > 20, "{spec}: {lost}");
        p.read() / (p.seconds() * p.payload())
    };
    for (mbps, least, most) in [(10.0, 0.75, 0.5), (50.0, 0.75, 0.1)] {
        let (bbr, newreno) = (share("tcp-bbr", mbps), share("tcp-newreno", mbps));
        assert!(bbr > least && newreno < most, "{mbps}: {bbr} {newreno}");
    }
}

/// A queue that holds a tenth of the path: probing overflows it, which bounds what is in flight.
#[test]
fn a_shallow_queue_bounds_what_is_in_flight() {
    let mut p = Path::new("tcp-bbr", 20.0, 6.0, 0.0);
    p.fill(60.0);
    let (mut bounds, mut seen) = (Vec::new(), f64::INFINITY);
    p.run(40.0, |p| {
        let bound = p.probe("inflight_longterm");
        if bound < seen && p.seconds() > 2.0 {
            bounds.push(bound / p.bdp());
        }
        seen = bound;
    });
    assert!(bounds.len() > 2, "probing found it again: {bounds:?}");
    assert!(bounds.iter().all(|b| (0.7..1.6).contains(b)), "{bounds:?}");
    let (drops, data) = (p.neck.borrow().drops, p.neck.borrow().data);
    let lost = f64::from(drops) / f64::from(data);
    assert!(lost < 0.02, "{lost}");
    let share = p.read() / (p.seconds() * p.payload());
    assert!(share > 0.85, "{share}");
    assert_eq!(p.pair.conn(0).board().tx.timeouts, 0);
}

/// An application that writes a tenth of what the path carries, for as long as the filter of the
/// bandwidth remembers, and longer: what was measured before stays.
#[test]
fn an_application_that_pauses_does_not_lower_the_estimate() {
    let mut p = Path::new("tcp-bbr", 10.0, 10_000.0, 0.0);
    p.fill(4.0);
    p.run(6.0, |_| ());
    assert_eq!(p.pair.apps[1].read.len(), p.pair.apps[0].to_write.len());
    assert_eq!(
        p.probe("app_limited"),
        1.0,
        "so say the last acknowledgements"
    );
    let known = p.max_bw();
    assert!((known / p.payload() - 1.0).abs() < 0.03, "{known}");
    for n in 0..300 {
        p.write(2896);
        assert_eq!(p.probe("app_limited"), 1.0, "{n}");
        p.run(6.1 + 0.1 * f64::from(n), |_| ());
    }
    assert_eq!(p.max_bw(), known);
    // When it has much to send again, it begins at that rate: no second Startup.
    let (began, read) = (p.seconds(), p.read());
    p.fill(10.0);
    p.run(began + 2.0, |p| assert_ne!(p.state(), STARTUP));
    let share = (p.read() - read) / (2.0 * p.payload());
    assert!(share > 0.9, "{share}");
    assert_eq!(p.neck.borrow().drops, 0);
}

/// The draft: C.next_send_time = C.next_send_time + packet.size / C.pacing_rate.
#[test]
fn segments_leave_as_far_apart_as_the_rate_says() {
    let mut p = Path::new("tcp-bbr", 10.0, 10_000.0, 0.0);
    p.fill(10.0);
    // 2.77 windows of three segments in a round trip.
    p.run(0.1, |_| ());
    let data = |p: &Path, from: f64| {
        let all = p
            .pair
            .seen
            .iter()
            .filter(|s| s.from == 0 && !s.seg.is_empty());
        let times = all.map(|s| s.at.as_secs_f64()).filter(|t| *t >= from);
        let times: Vec<f64> = times.collect();
        times.windows(2).map(|w| w[1] - w[0]).collect::<Vec<f64>>()
    };
    let first = data(&p, 0.0);
    let srtt = p.pair.seen[1].at.as_secs_f64();
    assert!(srtt > 0.0);
    for gap in &first[..2] {
        assert!(
            (gap / (0.04 / (3.0 * 2.77)) - 1.0).abs() < 0.05,
            "{first:?}"
        );
    }
    // In cruise: 99 % of the bandwidth, one by one.
    p.until(5.0, |p| p.state() == CRUISE);
    let from = p.seconds();
    p.run(from + 0.3, |_| ());
    assert_eq!(p.state(), CRUISE);
    let gap = MSS / (0.99 * p.probe("bw_bps") / 8.0);
    let board = p.pair.conn(0).board();
    let said = board.rate.gap.expect("it paces").as_secs_f64();
    assert!((said / gap - 1.0).abs() < 1e-6, "{said} {gap}");
    let gaps = data(&p, from + 0.01);
    assert!(gaps.len() > 100, "{}", gaps.len());
    let even = gaps.iter().filter(|g| (**g / gap - 1.0).abs() < 0.01);
    assert!(even.count() * 10 > gaps.len() * 9, "{gaps:?}");
    assert!(gaps.iter().all(|g| *g > 0.5 * gap), "none leave together");
}

/// Data overtaken by its successors is taken for lost; when it arrives, that is undone.
#[test]
fn a_recovery_that_was_spurious_is_undone() {
    let mut p = Path::new("tcp-bbr", 10.0, 10_000.0, 0.0);
    p.fill(6.0);
    p.until(5.0, |p| p.state() == CRUISE);
    let cwnd = p.pair.conn(0).board().win.cwnd;
    let plain = std::mem::replace(&mut p.pair.spoil, Box::new(|_| Fate::Deliver));
    let plain = RefCell::new(plain);
    let mut n = 0;
    p.pair.spoil = Box::new(move |f| {
        let fate = plain.borrow_mut()(f);
        n += u32::from(f.from == 0 && f.bytes.len() > 200);
        match fate {
            Fate::Late(by) if n == 20 && f.from == 0 => Fate::Late(by + Span::MILLI * 25),
            fate => fate,
        }
    });
    p.run(p.seconds() + 0.5, |_| ());
    let board = p.pair.conn(0).board();
    assert_eq!((p.probe("undone"), board.tx.retransmits), (1.0, 1));
    assert!(p.probe("inflight_shortterm").is_infinite());
    assert!(
        board.win.cwnd >= cwnd - 2 * MSS as u32,
        "{}",
        board.win.cwnd
    );
    assert!(!board.tx.recovering);
}

/// Nothing comes back for a second: one segment goes, and afterwards the rate is as before.
#[test]
fn after_a_timeout_the_model_knows_the_path_still() {
    let mut p = Path::new("tcp-bbr", 10.0, 10_000.0, 0.0);
    p.fill(20.0);
    p.until(5.0, |p| p.state() == CRUISE);
    let known = p.max_bw();
    let plain = std::mem::replace(&mut p.pair.spoil, Box::new(|_| Fate::Drop));
    p.until(9.0, |p| p.pair.conn(0).board().tx.timeouts > 0);
    assert!(p.pair.conn(0).board().win.cwnd <= 2 * MSS as u32);
    p.pair.spoil = plain;
    let began = p.seconds();
    p.run(began + 4.0, |_| ());
    assert!(p.max_bw() > 0.95 * known, "{}", p.max_bw());
    let read = p.read();
    p.run(began + 6.0, |_| ());
    let share = (p.read() - read) / (2.0 * p.payload());
    assert!(share > 0.9, "{share}");
}

// ------------------------------------------------- the draft's own test cases (appendix A)

/// "Exiting PROBE_UP on Bandwidth Plateau".
#[test]
fn a_plateau_of_three_round_trips_ends_up() {
    let mut p = Path::in_state(10.0, 10_000.0, UP);
    let round = p.probe("round");
    p.until(9.0, |p| p.state() != UP);
    assert_eq!((p.state(), p.probe("full_bw_count")), (DOWN, 3.0));
    let rounds = p.probe("round") - round;
    assert!((3.0..=4.0).contains(&rounds), "{rounds}");
}

/// "Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss".
#[test]
fn who_has_little_to_send_stays_in_startup() {
    let mut p = Path::new("tcp-bbr", 10.0, 100.0, 0.0);
    for n in 0..200 {
        p.write(2000);
        p.run(0.1 + 0.02 * f64::from(n), |p| {
            assert_eq!(p.state(), STARTUP)
        });
    }
    assert!(p.probe("round") > 50.0 && p.probe("full_bw_reached") == 0.0);
}

/// "Exiting PROBE_DOWN After Max Time": inflight cannot fall, so the next probe comes without
/// cruise.
#[test]
fn down_ends_when_it_is_time_to_probe_again() {
    let mut p = Path::in_state(10.0, 10_000.0, UP);
    p.until(9.0, |p| p.state() == DOWN);
    p.set_rate(8.0);
    let began = p.seconds();
    p.until(9.0, |p| p.state() != DOWN);
    if p.state() != PROBE_RTT {
        assert_eq!(p.state(), REFILL);
        let waited = p.seconds() - began;
        assert!((1.0..3.1).contains(&waited), "{waited}");
    }
}

/// "Skipping PROBE_RTT Due to Application-Limited Sending".
#[test]
fn a_silence_is_as_good_as_probe_rtt() {
    let mut p = Path::new("tcp-bbr", 10.0, 10_000.0, 0.0);
    p.fill(2.0);
    p.run(3.0, |_| ());
    assert_eq!(p.pair.conn(0).board().tx.pipe, 0);
    p.run(8.5, |_| ());
    p.fill(2.0);
    let began = p.seconds();
    p.run(began + 2.0, |p| assert_ne!(p.state(), PROBE_RTT));
    assert!(p.probe("app_limited") == 0.0 && p.read() > 2.5 * p.payload());
}

/// "Achieving Expected STARTUP (and Cruise) Bandwidth on a Link With Aggregation":
/// acknowledgements come every 20 ms, half a round trip.
#[test]
fn aggregated_acknowledgements_widen_the_window_and_the_rate_is_found() {
    let mut p = Path::new("tcp-bbr", 20.0, 10_000.0, 0.0);
    p.neck.borrow_mut().hold = Span::MILLI * 20;
    p.fill(40.0);
    p.until(9.0, |p| p.probe("full_bw_reached") == 1.0);
    let off = p.max_bw() / p.payload() - 1.0;
    assert!((-0.1..0.35).contains(&off), "{off}");
    p.until(9.0, |p| p.state() == CRUISE);
    let batch = 0.02 * p.payload();
    let extra = p.probe("extra_acked");
    assert!(
        extra > 0.5 * batch && extra < 2.0 * batch,
        "{extra} of {batch}"
    );
    let bw = p.probe("bw_bps") / 8.0;
    let cwnd = f64::from(p.pair.conn(0).board().win.cwnd);
    assert!(
        cwnd > 2.0 * bw * p.probe("min_rtt_s") + 0.5 * batch,
        "{cwnd}"
    );
    let (began, read) = (p.seconds(), p.read());
    p.run(began + 10.0, |_| ());
    let share = (p.read() - read) / (10.0 * p.payload());
    assert!(share > 0.93, "{share}");
}

/// "Correctly Managing Sub-Packet BDPs": 100 kb/s hold half a packet.
#[test]
fn a_path_that_holds_less_than_a_packet_has_a_few_in_flight() {
    let mut p = Path::new("tcp-bbr", 0.1, 10_000.0, 0.0);
    p.fill(200.0);
    p.until(60.0, |p| {
        p.probe("full_bw_reached") == 1.0 && p.state() != DRAIN
    });
    let (began, read) = (p.seconds(), p.read());
    p.run(began + 60.0, |p| {
        let cwnd = f64::from(p.pair.conn(0).board().win.cwnd);
        assert!((4.0 * MSS..=20.0 * MSS).contains(&cwnd), "{cwnd}");
    });
    let share = (p.read() - read) / (60.0 * p.payload());
    assert!(share > 0.9, "{share}");
    assert_eq!(p.pair.conn(0).board().tx.retransmits, 0);
}

/// "Increasing Bandwidth 10x and Ensuring Full Bandwidth is Reached".
#[test]
fn ten_times_the_bandwidth_is_found_by_the_next_probes() {
    let mut p = Path::in_state(5.0, 10_000.0, CRUISE);
    p.set_rate(50.0);
    let began = p.seconds();
    p.until(began + 20.0, |p| p.max_bw() > 0.95 * p.payload());
    let took = p.seconds() - began;
    assert!(took < 15.0, "{took}");
    assert_ne!(p.state(), STARTUP);
}

/// "Decreasing Bandwidth 10x and Ensuring Max Bandwidth Adapts Down".
#[test]
fn a_tenth_of_the_bandwidth_is_known_at_once_and_remembered_after_two_cycles() {
    let mut p = Path::in_state(50.0, 100.0, CRUISE);
    let known = p.max_bw();
    p.set_rate(5.0);
    let began = p.seconds();
    p.until(began + 3.0, |p| p.probe("bw_bps") / 8.0 < 0.2 * known);
    assert!(p.seconds() - began < 2.0, "{}", p.seconds() - began);
    p.until(began + 25.0, |p| p.max_bw() < 1.2 * p.payload());
    let read = p.read();
    let at = p.seconds();
    p.run(at + 10.0, |_| ());
    let share = (p.read() - read) / (10.0 * p.payload());
    assert!(share > 0.85, "{share}");
}

/// "Handling Token Bucket Policers": 50 packets at once, then 10 Mb/s, and no queue at all.
#[test]
fn a_policer_is_obeyed_without_losing_much_for_ever() {
    let mut p = Path::new("tcp-bbr", 10.0, 10_000.0, 0.0);
    p.neck.borrow_mut().policer = Some((75_000.0, 75_000.0));
    p.fill(100.0);
    let mut least = f64::INFINITY;
    p.run(30.0, |p| least = least.min(p.probe("inflight_shortterm")));
    assert!(least.is_finite(), "it felt it");
    let count = |p: &Path| {
        let n = p.neck.borrow();
        (f64::from(n.drops), f64::from(n.data), p.read())
    };
    let before = count(&p);
    p.run(60.0, |_| ());
    let after = count(&p);
    let lost = (after.0 - before.0) / (after.1 - before.1);
    assert!(lost < 0.05, "{lost}");
    let share = (after.2 - before.2) / (30.0 * p.payload());
    assert!(share > 0.8 && share <= 1.02, "{share}");
}

/// "Handling Spurious RTO Recovery": everything is late by half a second.
#[test]
fn a_timeout_that_was_spurious_is_undone() {
    let mut p = Path::in_state(10.0, 10_000.0, CRUISE);
    let (cwnd, bw) = (p.pair.conn(0).board().win.cwnd, p.probe("bw_bps"));
    let at = p.pair.now;
    let plain = RefCell::new(std::mem::replace(
        &mut p.pair.spoil,
        Box::new(|_| Fate::Deliver),
    ));
    let end = at + Span::MILLI * 1400;
    p.pair.spoil = Box::new(move |f| match plain.borrow_mut()(f) {
        Fate::Late(by) if f.from == 1 && f.at < end => Fate::Late(by + (end - f.at)),
        fate => fate,
    });
    p.run(at.as_secs_f64() + 2.0, |_| ());
    let board = p.pair.conn(0).board();
    assert!(board.tx.timeouts >= 1);
    assert_eq!(p.probe("undone"), 1.0);
    assert!(
        board.win.cwnd >= cwnd - 2 * MSS as u32,
        "{} of {cwnd}",
        board.win.cwnd
    );
    assert!(p.probe("bw_bps") > 0.95 * bw);
}

/// "Entering and Exiting PROBE_RTT During STARTUP".
#[test]
fn probe_rtt_in_startup_leads_back_to_startup() {
    let mut p = Path::new("tcp-bbr", 10.0, 100.0, 0.0);
    let mut states = Vec::new();
    for n in 0..400 {
        // Always something in flight, and never enough to fill the path.
        p.write(2896);
        p.run(0.1 + 0.02 * f64::from(n), |p| {
            if states.last() != Some(&p.state()) {
                states.push(p.state());
            }
        });
    }
    assert_eq!(states, [STARTUP, PROBE_RTT, STARTUP]);
}

/// "Handling Loss During PROBE_UP After inflight_longterm is Set", and the precaution after it.
#[test]
fn loss_while_probing_lowers_the_bound_and_the_next_probe_is_cautious() {
    let mut p = Path::new("tcp-bbr", 20.0, 8.0, 0.0);
    p.fill(60.0);
    let (mut last, mut ends) = (STARTUP, Vec::new());
    let mut began = (0.0, 0.0);
    p.run(40.0, |p| {
        let now = p.state();
        if now == UP && last != UP {
            began = (p.seconds(), f64::from(p.neck.borrow().drops));
        }
        if last == UP && now == DOWN {
            let drops = f64::from(p.neck.borrow().drops) - began.1;
            ends.push((p.seconds() - began.0, drops));
        }
        last = now;
    });
    // A long one that loses is followed by a short one, which does not or hardly.
    let lossy = ends.iter().filter(|e| e.1 > 3.0).count();
    let short = ends
        .iter()
        .filter(|e| e.0 < 2.0 * TRIP && e.1 <= 3.0)
        .count();
    assert!(lossy >= 2 && short >= 2, "{ends:?}");
}

/// "Handling Application-Limited Sending During PROBE_REFILL".
#[test]
fn a_pause_in_refill_teaches_nothing_false() {
    let mut p = Path::new("tcp-bbr", 10.0, 10_000.0, 0.0);
    p.fill(4.0);
    while p.state() != REFILL {
        p.fill(0.1);
        p.run(p.seconds() + 0.05, |_| ());
    }
    let known = p.max_bw();
    // What it had is sent; then a little at a time.
    for _ in 0..100 {
        p.run(p.seconds() + 0.1, |_| ());
        p.write(2000);
    }
    assert_eq!(p.max_bw(), known);
    p.fill(10.0);
    let read = p.read();
    let at = p.seconds();
    p.run(at + 4.0, |_| ());
    let share = (p.read() - read) / (4.0 * p.payload());
    assert!(share > 0.9, "{share}");
}

/// What is drawn comes from the connection's own stream.
#[test]
fn the_same_seed_gives_the_same_packets() {
    let run = || {
        let mut p = Path::new("tcp-bbr", 10.0, 20.0, 0.005);
        p.fill(15.0);
        p.run(10.0, |_| ());
        let all = p.pair.seen.iter().map(|s| (s.at, s.from, s.seg.seq));
        all.collect::<Vec<_>>()
    };
    assert!(run() == run());
}

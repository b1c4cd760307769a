//! What the testbed sets are calibrated on, as far as it needs no transport: losses of isolated
//! links, carrier sense and interference by pair, routes of random placements. One line per fact,
//! words separated by blanks; `tools/calibrate.py` reads them.
//!
//! ```text
//! set   NAME nodes cs_db attempts overhear_loss
//! pair  NAME from to snr_db sensed loss       mean SNR, share of time above carrier sense, loss
//! link  NAME from to snr_db loss given_up ack  as the machine runs it: attempts that are lost,
//!                                             frames after the set's attempts; of an ACK, computed
//! jam   NAME from to jammer sinr_db loss      loss while `jammer` transmits, without fading
//! place NAME run longest mean etx2            routes: longest, mean hops; connected by ETX below 2
//! ```

use wifu_radio::error::{frame_error, mean_frame_error};
use wifu_radio::etx::{Routes, etx};
use wifu_radio::phy::{ACK, Mode, OVERHEAD};
use wifu_radio::plan::{Gain, Plan};
use wifu_radio::power::linear;
use wifu_radio::topology::{Topology, resolve};
use wifu_radio::{Frame, LinkCounters, Radio, sets};
use wifu_wire::{Rng, Span, Time};

/// Octets of the MPDU whose loss is told.
const FRAME: u32 = 1500 + OVERHEAD;
/// One frame each 50 ms of simulated time.
const FRAMES: u64 = 100_000;
/// Placements of a random set.
const PLACEMENTS: u64 = 20;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for name in sets::names() {
        if wanted.is_empty() || wanted.iter().any(|w| w.eq_ignore_ascii_case(name)) {
            let topology = sets::get(name).expect("a set that comes with the crate");
            tell(name, &topology);
        }
    }
}

fn plan_of(topology: &Topology, run: u64) -> Plan {
    resolve(topology, &Rng::new(1).split_n(run)).expect("a set that comes with the crate")
}

fn tell(name: &str, topology: &Topology) {
    let plan = plan_of(topology, 1);
    let radio = &plan.nodes[0].radio;
    println!(
        "set {name} {} {:.2} {} {}",
        plan.nodes.len(),
        radio.senses_dbm() - radio.noise_dbm,
        radio.attempts,
        radio.overhear_loss
    );
    let random = topology
        .placement
        .as_ref()
        .is_some_and(|p| p.accept.is_some());
    if random {
        for run in 1..=PLACEMENTS {
            place(name, run, &plan_of(topology, run));
        }
        return;
    }
    for (from, row) in plan.gains.iter().enumerate() {
        for gain in row {
            pair(name, &plan, from as u16, gain);
        }
    }
    for (from, to) in plan.neighbours() {
        jams(name, &plan, from, to);
    }
}

trait Neighbours {
    /// Pairs whose numbers follow each other and whose link carries data.
    fn neighbours(&self) -> Vec<(u16, u16)>;
}

impl Neighbours for Plan {
    fn neighbours(&self) -> Vec<(u16, u16)> {
        let steps = (1..self.nodes.len() as u16).flat_map(|n| [(n - 1, n), (n, n - 1)]);
        let near = |&(from, to): &(u16, u16)| {
            let gain = self.gain(from, to);
            gain.is_some_and(|g| loss(self, g, FRAME, self.nodes[0].radio.rate) < 0.9)
        };
        steps.filter(near).collect()
    }
}

/// Mean loss of one attempt without interference; all is lost below the powers for carrier sense
/// and decoding.
fn loss(plan: &Plan, gain: &Gain, octets: u32, mode: Mode) -> f64 {
    let to = &plan.nodes[usize::from(gain.to)].radio;
    if gain.mean_dbm < to.detects_dbm().max(to.decode_dbm) {
        return 1.0;
    }
    let snr = gain.mean_dbm - to.noise_dbm;
    mean_frame_error(&to.error, mode, octets, snr, gain.sigma_db)
}

fn pair(name: &str, plan: &Plan, from: u16, gain: &Gain) {
    let to = &plan.nodes[usize::from(gain.to)].radio;
    let (a, b) = (
        &plan.nodes[usize::from(from)].name,
        &plan.nodes[usize::from(gain.to)].name,
    );
    let margin = gain.mean_dbm - to.senses_dbm();
    let sensed = match gain.sigma_db {
        0.0 => f64::from(u8::from(margin >= 0.0)),
        s => 0.5 * libm::erfc(-margin / s / core::f64::consts::SQRT_2),
    };
    let snr = gain.mean_dbm - to.noise_dbm;
    let mode = plan.nodes[usize::from(from)].radio.rate;
    let lost = loss(plan, gain, FRAME, mode);
    println!("pair {name} {a} {b} {snr:.2} {sensed:.4} {lost:.5}");
    if plan.neighbours().contains(&(from, gain.to)) {
        let (lost, given_up) = measure(plan, from, gain.to);
        let answer = plan.phy.control(mode, &to.control_rates);
        let ack = loss(plan, gain, ACK, answer);
        println!("link {name} {a} {b} {snr:.2} {lost:.5} {given_up:.5} {ack:.6}");
    }
}

/// The share of attempts that the receiver does not decode while nobody else transmits, and that
/// of frames that are given up.
fn measure(plan: &Plan, from: u16, to: u16) -> (f64, f64) {
    let mut once = plan.clone();
    for node in &mut once.nodes {
        node.radio.attempts = 1;
    }
    let link = counted(&once, from, to);
    let lost = 1.0 - link.decoded as f64 / link.attempts as f64;
    let link = counted(plan, from, to);
    (lost, link.failed as f64 / link.frames as f64)
}

fn counted(plan: &Plan, from: u16, to: u16) -> LinkCounters {
    let mut radio = Radio::new(plan, &Rng::new(5));
    let gap = Span::MILLI * 50;
    let mut at = Time::ZERO;
    for _ in 0..FRAMES {
        at += gap;
        let packet = Frame {
            to: Some(to),
            bytes: 1500,
            cookie: 0,
        };
        radio.send(at, from, packet);
        while radio.poll_timeout() < at + gap {
            radio.handle_timeout(radio.poll_timeout());
            while radio.poll_event().is_some() {}
        }
    }
    let link = radio.links(from).find(|l| l.0 == to);
    *link.expect("the plan has this link").2
}

/// What one other transmitter beyond the receiver does to a hop.
fn jams(name: &str, plan: &Plan, from: u16, to: u16) {
    let onward = i32::from(to) - i32::from(from);
    for k in 2..=4 {
        let Ok(jammer) = u16::try_from(i32::from(to) + onward * k) else {
            return;
        };
        let Some(gain) = plan.gain(from, to) else {
            return;
        };
        let Some(other) = plan.gain(jammer, to) else {
            continue;
        };
        let radio = &plan.nodes[usize::from(to)].radio;
        let noise = linear(radio.noise_dbm) + linear(other.mean_dbm);
        let sinr = 10.0 * (linear(gain.mean_dbm) / noise).log10();
        let mode = plan.nodes[usize::from(from)].radio.rate;
        let lost = frame_error(&radio.error, mode, FRAME, sinr);
        let label = |n: u16| &plan.nodes[usize::from(n)].name;
        println!(
            "jam {name} {} {} {} {sinr:.2} {lost:.4}",
            label(from),
            label(to),
            label(jammer)
        );
    }
}

fn place(name: &str, run: u64, plan: &Plan) {
    let costs = etx(plan);
    let routes = Routes::over(&costs);
    let n = plan.nodes.len();
    let hops: u32 = routes.hops.iter().flatten().map(|h| u32::from(*h)).sum();
    let good = |c: &f64| if *c < 2.0 { *c } else { f64::INFINITY };
    let good: Vec<Vec<f64>> = costs.iter().map(|r| r.iter().map(good).collect()).collect();
    println!(
        "place {name} {run} {} {:.2} {}",
        routes.longest(),
        f64::from(hops) / (n * (n - 1)) as f64,
        Routes::over(&good).connected()
    );
}

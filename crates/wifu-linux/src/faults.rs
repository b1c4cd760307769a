//! Faults on order, between the endpoint and the carriers: test equipment.
//!
//! Packets are lost, held back until others have overtaken them, sent twice, damaged or delayed, at
//! random by a seed: the same packets in the same order meet the same fate. It is our own code
//! because not every kernel can do it (netem is a module), and because it then works the same on
//! every carrier. It copies packets, so that speed is not to be measured with it.

use crate::carrier::Came;
use core::fmt;
use core::str::FromStr;
use serde::Serialize;
use std::collections::VecDeque;
use wifu_wire::{AnyIpInfo, Rng, Span, Time};

/// A held packet is overtaken by 1 to this many others.
const OVERTAKEN_BY: u64 = 3;

/// A held packet goes after this time at the latest, when nothing follows that could overtake it.
const HELD_FOR: Span = Span(5_000_000);

/// Packets that wait at most, in case somebody delays more than memory holds.
const WAITING: usize = 32_768;

/// What shall go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultConfig {
    /// Lost, in percent of the packets (0 to 100, as the next three).
    pub loss: f64,
    /// Held back until others have overtaken it.
    pub reorder: f64,
    /// Sent as two copies, each of which may be damaged or held back by itself.
    pub duplicate: f64,
    /// One bit flipped, behind the IP header.
    pub corrupt: f64,
    /// Every packet leaves this much later.
    pub delay: Span,
    /// Where the random numbers begin.
    pub seed: u64,
}

/// Why a text is no list of faults; for the user to read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FaultError(String);

impl FromStr for FaultConfig {
    type Err = FaultError;

    /// `"loss=2%,reorder=5%,duplicate=1%,corrupt=0.1%,delay=5ms,seed=1"`, any of them.
    fn from_str(text: &str) -> Result<FaultConfig, FaultError> {
        let mut config = FaultConfig::default();
        for item in text.split(',') {
            let (name, value) = item.split_once('=').unwrap_or((item, ""));
            match name.trim() {
                "loss" => config.loss = percent(name, value)?,
                "reorder" => config.reorder = percent(name, value)?,
                "duplicate" => config.duplicate = percent(name, value)?,
                "corrupt" => config.corrupt = percent(name, value)?,
                "delay" => {
                    let why = |e| FaultError(format!("delay: {e}"));
                    config.delay = value.parse().map_err(why)?;
                }
                "seed" => {
                    let why = |_| FaultError(format!("seed={value}: write a whole number"));
                    config.seed = value.trim().parse().map_err(why)?;
                }
                other => {
                    return Err(FaultError(format!(
                        "no fault \"{other}\"; there are loss, reorder, duplicate and corrupt \
                         (each in percent, e.g. loss=2%), delay (a time) and seed (a number)"
                    )));
                }
            }
        }
        Ok(config)
    }
}

fn percent(name: &str, value: &str) -> Result<f64, FaultError> {
    let number = value.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(p) if (0.0..=100.0).contains(&p) => Ok(p),
        _ => Err(FaultError(format!(
            "{name}={value}: write a percentage from 0 to 100, e.g. {name}=2%"
        ))),
    }
}

impl fmt::Display for FaultConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FaultConfig {
            loss,
            reorder,
            duplicate,
            corrupt,
            delay,
            seed,
        } = self;
        write!(
            f,
            "loss={loss}%,reorder={reorder}%,duplicate={duplicate}%,corrupt={corrupt}%"
        )?;
        write!(f, ",delay={delay},seed={seed}")
    }
}

/// What was done, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultCounters {
    /// Packets that were handed in.
    pub taken: u64,
    /// Packets of `taken` that were lost on order.
    pub lost: u64,
    /// Packets held back until others had overtaken them.
    pub reordered: u64,
    /// Packets that went out twice.
    pub duplicated: u64,
    /// Packets in which one bit was flipped.
    pub corrupted: u64,
    /// Lost because too many waited: a sign of a delay beyond memory, not of a fault on order.
    pub overflowed: u64,
    /// Went out, doubles included.
    pub given: u64,
}

/// A packet on its way.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The facts of its IP header.
    pub ip: AnyIpInfo,
    /// What follows the IP header.
    pub segment: Vec<u8>,
    /// Number of its carrier.
    pub carrier: usize,
    /// How it reached this host, if it did.
    pub came: Came,
}

struct Held {
    packet: Waiting,
    /// How many may still overtake it.
    left: u64,
    until: Time,
}

/// One random stream per purpose, so that turning one fault on shifts no other's choices.
struct Streams {
    loss: Rng,
    reorder: Rng,
    duplicate: Rng,
    corrupt: Rng,
}

/// Does to packets of one direction what its configuration says.
pub struct Faults {
    config: FaultConfig,
    streams: Streams,
    line: VecDeque<(Time, Waiting)>,
    held: Vec<Held>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    counters: FaultCounters,
}

impl Faults {
    /// Faults of one direction, which `name` tells apart from the other.
    pub fn new(config: FaultConfig, name: &str) -> Faults {
        let rng = Rng::new(config.seed).split(name);
        let streams = Streams {
            loss: rng.split("loss"),
            reorder: rng.split("reorder"),
            duplicate: rng.split("duplicate"),
            corrupt: rng.split("corrupt"),
        };
        Faults {
            config,
            streams,
            line: VecDeque::new(),
            held: Vec::new(),
            spare: Vec::new(),
            counters: FaultCounters::default(),
        }
    }

    /// A packet comes; [`Faults::take`] gives what becomes of it.
    pub fn put(
        &mut self,
        now: Time,
        (carrier, came): (usize, Came),
        ip: &AnyIpInfo,
        segment: &[u8],
    ) {
        let Faults {
            config,
            streams,
            counters,
            ..
        } = self;
        counters.taken += 1;
        if hit(&mut streams.loss, config.loss) {
            counters.lost += 1;
            return;
        }
        let copies = 1 + usize::from(hit(&mut streams.duplicate, config.duplicate));
        counters.duplicated += copies as u64 - 1;
        for _ in 0..copies {
            self.copy(now, (carrier, came), ip, segment);
        }
    }

    fn copy(&mut self, now: Time, (carrier, came): (usize, Came), ip: &AnyIpInfo, segment: &[u8]) {
        if self.line.len() + self.held.len() >= WAITING {
            self.counters.overflowed += 1;
            return;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(segment);
        if !bytes.is_empty() && hit(&mut self.streams.corrupt, self.config.corrupt) {
            self.counters.corrupted += 1;
            let bit = self.streams.corrupt.below(bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let packet = Waiting {
            ip: *ip,
            segment: bytes,
            carrier,
            came,
        };
        if hit(&mut self.streams.reorder, self.config.reorder) {
            self.counters.reordered += 1;
            let left = 1 + self.streams.reorder.below(OVERTAKEN_BY);
            self.held.push(Held {
                packet,
                left,
                until: now + HELD_FOR,
            });
            return;
        }
        self.line.push_back((now + self.config.delay, packet));
        for held in &mut self.held {
            held.left -= 1;
        }
        self.release(now, |held| held.left == 0);
    }

    fn release(&mut self, now: Time, mut free: impl FnMut(&Held) -> bool) {
        let due = now + self.config.delay;
        for held in self.held.extract_if(.., |h| free(h)) {
            self.line.push_back((due, held.packet));
        }
    }

    /// The next packet whose time has come; hand it back by [`Faults::done`].
    pub fn take(&mut self, now: Time) -> Option<Waiting> {
        if self.held.iter().any(|h| h.until <= now) {
            self.release(now, |held| held.until <= now);
        }
        let (due, _) = self.line.front()?;
        if *due > now {
            return None;
        }
        self.counters.given += 1;
        self.line.pop_front().map(|(_, packet)| packet)
    }

    /// A packet's memory may be used again.
    pub fn done(&mut self, packet: Waiting) {
        self.spare.push(packet.segment);
    }

    /// When [`Faults::take`] will have something.
    pub fn poll_timeout(&self) -> Time {
        let line = self.line.front().map_or(Time::NEVER, |(due, _)| *due);
        self.held.iter().map(|h| h.until).fold(line, Time::min)
    }

    /// What was done to packets since the start.
    pub fn counters(&self) -> FaultCounters {
        self.counters
    }
}

fn hit(rng: &mut Rng, percent: f64) -> bool {
    percent > 0.0 && rng.unit() * 100.0 < percent
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{IpAddr, Ipv4Addr};
    use wifu_wire::{Ecn, IpInfo};

    const IP: AnyIpInfo = IpInfo {
        src: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        dst: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
        proto: 6,
        ttl: 64,
        ecn: Ecn::NotEct,
    };

    /// Puts `n` numbered packets in, 1 us apart; gives the numbers as they come out.
    fn through(text: &str, n: u32) -> (Vec<u32>, FaultCounters) {
        let mut faults = Faults::new(text.parse().expect("faults"), "out");
        let mut out = Vec::new();
        let mut drain = |faults: &mut Faults, now: Time| {
            while let Some(p) = faults.take(now) {
                let number = p.segment[..4].try_into().expect("four bytes");
                out.push(u32::from_be_bytes(number));
                faults.done(p);
            }
        };
        for i in 0..n {
            let now = Time(u64::from(i) * 1_000);
            faults.put(now, (0, Came::Host), &IP, &i.to_be_bytes());
            drain(&mut faults, now);
        }
        while faults.poll_timeout() != Time::NEVER {
            let now = faults.poll_timeout();
            drain(&mut faults, now);
        }
        (out, faults.counters())
    }

    #[test]
    fn shares_are_as_ordered_and_everything_is_accounted_for() {
        let n = 100_000;
        let (out, c) = through("loss=2%,reorder=5%,duplicate=1%,corrupt=0.5%,seed=7", n);
        let near = |count: u64, percent: f64| {
            let expected = f64::from(n) * percent / 100.0;
            (count as f64 - expected).abs() < 5.0 * expected.sqrt()
        };
        assert!(near(c.lost, 2.0) && near(c.reordered, 4.95), "{c:?}");
        assert!(
            near(c.duplicated, 0.98) && near(c.corrupted, 0.495),
            "{c:?}"
        );
        assert_eq!(c.taken, u64::from(n));
        assert_eq!(c.given, c.taken - c.lost + c.duplicated);
        assert_eq!(c.given, out.len() as u64);
        assert_eq!(c.overflowed, 0);
    }

    #[test]
    fn the_same_seed_does_the_same_and_another_one_does_not() {
        let faults = "loss=10%,reorder=10%,duplicate=10%";
        let run = |seed| through(&format!("{faults},seed={seed}"), 1_000).0;
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn a_held_packet_is_overtaken_by_three_others_at_most_or_goes_by_itself() {
        let (out, c) = through("reorder=5%", 10_000);
        let overtaken = out.windows(2).filter(|w| w[1] < w[0]).count();
        assert!(overtaken > 300 && c.reordered > 400, "{overtaken} {c:?}");
        for (at, number) in out.iter().enumerate() {
            // Held ones do not count among those that overtake, so some few more may pass.
            assert!(
                (at as i64 - i64::from(*number)).abs() <= 8,
                "{number} at {at}"
            );
        }
        let mut alone = Faults::new("reorder=100%".parse().expect("faults"), "out");
        alone.put(Time(0), (0, Came::Host), &IP, b"lone");
        assert!(alone.take(Time(0)).is_none());
        assert_eq!(alone.poll_timeout(), Time(0) + HELD_FOR);
        assert!(alone.take(Time(0) + HELD_FOR).is_some());
    }

    #[test]
    fn delay_keeps_the_order_and_damage_is_one_bit() {
        let mut faults = Faults::new("delay=5ms,corrupt=100%".parse().expect("faults"), "out");
        for i in 0..10u8 {
            faults.put(Time(u64::from(i)), (1, Came::Host), &IP, &[i << 4; 8]);
        }
        assert!(faults.take(Time(4_999_999)).is_none());
        for i in 0..10u8 {
            let p = faults.take(Time(5_000_009)).expect("due");
            let flipped: u32 = p.segment.iter().map(|b| (b ^ (i << 4)).count_ones()).sum();
            assert_eq!((flipped, p.carrier, p.segment.len()), (1, 1, 8));
        }
    }

    #[test]
    fn mistakes_are_explained() {
        let why = |text: &str| text.parse::<FaultConfig>().expect_err(text).to_string();
        assert!(why("lose=2%").contains("there are loss, reorder"));
        assert!(why("loss=120%").contains("from 0 to 100, e.g. loss=2%"));
        assert!(why("loss").contains("percentage"));
        assert!(why("delay=5").contains("ns, us, ms"));
        assert!(why("seed=x").contains("whole number"));
        let all = "loss=2%,reorder=5%,duplicate=1%,corrupt=0.1%,delay=5 ms,seed=1";
        assert_eq!(all.parse::<FaultConfig>().expect("faults").to_string(), all);
    }
}

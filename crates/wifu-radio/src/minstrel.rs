//! Rate control after Minstrel: rates are judged by throughput times the chance of success, and a
//! tenth of the frames try another one.

use crate::phy::{Mode, OVERHEAD, Phy};
use wifu_wire::{Rng, Span, Time};

/// How often averages are renewed (mac80211's minstrel: 100 ms).
const INTERVAL: Span = Span(100_000_000);
/// Weight of the past (mac80211: 75 %).
const KEEP: f64 = 0.75;
/// Share of frames that try another rate.
const SAMPLE: f64 = 0.1;
/// Rates that succeed less often than this are no choice.
const USELESS: f64 = 0.1;
/// MPDU for which throughput is compared, octets.
const LENGTH: u32 = 1200 + OVERHEAD;

#[derive(Clone, Copy, Default, Debug)]
struct Stat {
    attempts: u32,
    successes: u32,
    /// Chance of success; `None` before the first interval with attempts.
    chance: Option<f64>,
}

#[derive(Clone, Debug)]
struct Peer {
    node: u16,
    stats: [Stat; 12],
    best: [Mode; 2],
    renew_at: Time,
}

/// One station's statistics of all its neighbours.
#[derive(Clone, Debug)]
pub(crate) struct Minstrel {
    peers: Vec<Peer>,
    first: Mode,
    rng: Rng,
}

impl Minstrel {
    /// Starts with the rate `first`.
    pub fn new(first: Mode, rng: Rng) -> Minstrel {
        Minstrel {
            peers: Vec::new(),
            first,
            rng,
        }
    }

    fn peer(&mut self, phy: &Phy, node: u16, now: Time) -> usize {
        match self.peers.iter().position(|p| p.node == node) {
            Some(at) => at,
            None => {
                self.peers.push(Peer {
                    node,
                    stats: [Stat::default(); 12],
                    best: [self.first, phy.base()],
                    renew_at: now + INTERVAL,
                });
                self.peers.len() - 1
            }
        }
    }

    /// The rate of attempt number `attempt` (from 1) of a frame: the best (or a sample), then the
    /// second best, from the fourth on the slowest.
    pub fn choose(&mut self, phy: &Phy, node: u16, attempt: u8, now: Time) -> Mode {
        let at = self.peer(phy, node, now);
        if now >= self.peers[at].renew_at {
            self.peers[at].renew(phy);
            self.peers[at].renew_at = now + INTERVAL;
        }
        let modes = phy.modes();
        match attempt {
            1 if self.rng.unit() < SAMPLE => modes[self.rng.below(modes.len() as u64) as usize],
            1 => self.peers[at].best[0],
            2 | 3 => self.peers[at].best[1],
            _ => modes[0],
        }
    }

    /// What became of an attempt.
    pub fn report(&mut self, node: u16, mode: Mode, success: bool) {
        if let Some(p) = self.peers.iter_mut().find(|p| p.node == node) {
            let stat = &mut p.stats[usize::from(mode.0)];
            stat.attempts += 1;
            stat.successes += u32::from(success);
        }
    }
}

impl Peer {
    fn renew(&mut self, phy: &Phy) {
        let mut ranked: Vec<(f64, Mode)> = Vec::with_capacity(12);
        for &mode in phy.modes() {
            let stat = &mut self.stats[usize::from(mode.0)];
            if stat.attempts > 0 {
                let now = f64::from(stat.successes) / f64::from(stat.attempts);
                stat.chance = Some(stat.chance.map_or(now, |c| KEEP * c + (1.0 - KEEP) * now));
                (stat.attempts, stat.successes) = (0, 0);
            }
            let chance = stat.chance.unwrap_or(0.0);
            if chance >= USELESS {
                ranked.push((chance / phy.airtime(mode, LENGTH).as_secs_f64(), mode));
            }
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        if let Some(best) = ranked.first() {
            self.best[0] = best.1;
            self.best[1] = ranked.get(1).map_or(phy.base(), |r| r.1);
        } else {
            self.best = [phy.base(); 2];
        }
    }
}

//! What happens by itself while an emulation runs: nodes move, links are cut, routes follow.
//!
//! Whoever starts the emulation brings the script; it is played against the clock of the model,
//! like everything on the radio: each thing at its own time, however late the thread gets to it.

use super::routes::NextHops;
use std::sync::mpsc::Sender;
use wifu_wire::Time;

/// What is different from now on. Nodes are numbers from 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A node is there, metres; what it means for links is said by itself.
    Place(u16, [f64; 3]),
    /// The mean received power of a direction, dBm.
    Gain(u16, u16, f64),
    /// Nothing passes between two nodes.
    Cut(u16, u16),
    /// It passes again.
    Restored(u16, u16),
    /// The kernels' routes.
    Routes(NextHops),
}

/// Decides what changes when. Times are those of the script, from its beginning.
pub trait Script: Send {
    /// When something changes next; [`Time::NEVER`] if nothing does any more.
    fn next(&self) -> Time;

    /// Let happen what is due at `now`, and tell what changed.
    fn step(&mut self, now: Time, tell: &mut dyn FnMut(Change));
}

/// Routes that the kernels are to have from a model time on.
pub(crate) struct Reroute {
    pub at: Time,
    pub routes: NextHops,
}

/// A script on its way.
pub(crate) struct Play {
    script: Option<Box<dyn Script>>,
    /// The model time at which it began; none while it waits for that.
    zero: Option<Time>,
    routes: Sender<Reroute>,
}

impl Play {
    /// `held`: nothing happens before [`begin`](Play::begin). New routes go to `routes`.
    pub fn new(script: Option<Box<dyn Script>>, held: bool, routes: Sender<Reroute>) -> Play {
        Play {
            script,
            zero: (!held).then_some(Time::ZERO),
            routes,
        }
    }

    /// It begins at this model time.
    ///
    /// # Errors
    /// If there is nothing to begin.
    pub fn begin(&mut self, now: Time) -> Result<(), &'static str> {
        match (&self.script, self.zero) {
            (None, _) => Err("nothing moves or is cut by itself here: that takes --scenario"),
            (_, Some(_)) => Err("it plays already"),
            _ => {
                self.zero = Some(now);
                Ok(())
            }
        }
    }

    /// The model time of what comes next.
    pub fn next(&self) -> Time {
        match (&self.script, self.zero) {
            (Some(script), Some(zero)) if script.next() != Time::NEVER => {
                Time(zero.0.saturating_add(script.next().0))
            }
            _ => Time::NEVER,
        }
    }

    /// Let happen what is due at the model time `now`.
    pub fn step(&mut self, now: Time, mut tell: impl FnMut(Change)) {
        if let (Some(script), Some(zero)) = (&mut self.script, self.zero) {
            let routes = &self.routes;
            script.step(Time((now - zero).0), &mut |change| match change {
                // Nobody is there to hear it when all ends.
                Change::Routes(next) => drop(routes.send(Reroute {
                    at: now,
                    routes: next,
                })),
                other => tell(other),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// Cuts a link at 1 s and lays routes at 2 s.
    struct Twice(u64);

    impl Script for Twice {
        fn next(&self) -> Time {
            match self.0 {
                0 => Time(1_000_000_000),
                1 => Time(2_000_000_000),
                _ => Time::NEVER,
            }
        }

        fn step(&mut self, now: Time, tell: &mut dyn FnMut(Change)) {
            assert_eq!(now, self.next());
            tell(match self.0 {
                0 => Change::Cut(0, 1),
                _ => Change::Routes(vec![vec![None]]),
            });
            self.0 += 1;
        }
    }

    #[test]
    fn a_script_waits_until_it_is_told_to_begin_and_then_has_its_own_time() {
        let (send, routes) = channel();
        let mut play = Play::new(Some(Box::new(Twice(0))), true, send);
        assert_eq!(play.next(), Time::NEVER);
        play.begin(Time(5_000_000_000)).unwrap();
        assert!(play.begin(Time(6_000_000_000)).is_err(), "once");
        assert_eq!(play.next(), Time(6_000_000_000));
        let mut told = Vec::new();
        play.step(play.next(), |c| told.push(c));
        play.step(play.next(), |c| told.push(c));
        assert_eq!(told, [Change::Cut(0, 1)]);
        let laid = routes.try_recv().unwrap();
        assert_eq!(
            (laid.at, laid.routes),
            (Time(7_000_000_000), vec![vec![None]])
        );
        assert_eq!(play.next(), Time::NEVER);
        let (send, _routes) = channel();
        assert!(Play::new(None, true, send).begin(Time::ZERO).is_err());
    }
}

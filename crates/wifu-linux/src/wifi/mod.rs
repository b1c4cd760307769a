//! What drivers of Wi-Fi tell: rate and signal of each neighbour, transmit power, and how busy the
//! medium is.
//!
//! Some drivers ask their firmware first, which takes milliseconds: a thread of its own, without
//! any privileges, asks ten times a second, and nobody waits for it.

mod nl80211;

pub(crate) use nl80211::understand;
pub use nl80211::{Interface, Nl80211, Station, Survey};

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wifu_engine::Fact;
use wifu_wire::Rate;

/// Between two questions: the time that the share of busy time is of (Behaviour 7.4).
const PERIOD: Duration = Duration::from_millis(100);
/// A driver that has counted nothing for so long does not say how busy the medium is now.
const STALE: Duration = Duration::from_secs(1);
/// Rate control tries others now and then: the rate of a link is the median of so many answers.
const RATES: usize = 9;

/// An address of the link layer.
type Mac = [u8; 6];

/// A neighbour, and its last rates.
#[derive(Clone, Default, Debug)]
struct Neighbour {
    last: Station,
    rates: VecDeque<Rate>,
    /// The rate that is told: it changes when the median has become another by a quarter.
    rate: Option<Rate>,
}

impl Neighbour {
    /// The driver answered. True if another rate is told from now on.
    fn learn(&mut self, station: Station) -> bool {
        self.last = station;
        let Some(rate) = station.tx_rate else {
            return false;
        };
        if self.rates.len() == RATES {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
        let mut sorted: Vec<Rate> = self.rates.iter().copied().collect();
        sorted.sort_unstable();
        let median = sorted[sorted.len() / 2];
        let near = |told: Rate| told.0.abs_diff(median.0) * 4 < told.0;
        if self.rate.is_some_and(near) {
            return false;
        }
        self.rate.replace(median) != Some(median)
    }
}

/// An interface.
#[derive(Clone, Default, Debug)]
struct Radio {
    tx_power_dbm: Option<i8>,
    neighbours: BTreeMap<Mac, Neighbour>,
    surveyed: Option<Survey>,
    /// When the counts of the survey last grew.
    grown: Option<Instant>,
    busy: Option<f32>,
}

/// What a driver answered.
#[derive(Default)]
struct Answer {
    tx_power_dbm: Option<i8>,
    stations: Vec<(Mac, Station)>,
    survey: Option<Survey>,
}

impl Radio {
    /// The driver answered. True if it says other things of ways than before.
    fn learn(&mut self, answer: Answer, now: Instant) -> bool {
        let mut news = self.tx_power_dbm != answer.tx_power_dbm;
        self.tx_power_dbm = answer.tx_power_dbm;
        let mut before = core::mem::take(&mut self.neighbours);
        for (mac, station) in answer.stations {
            let mut neighbour = before.remove(&mac).unwrap_or_default();
            news |= neighbour.learn(station);
            self.neighbours.insert(mac, neighbour);
        }
        news |= before.values().any(|gone| gone.rate.is_some());
        self.survey(answer.survey, now);
        news
    }

    fn survey(&mut self, survey: Option<Survey>, now: Instant) {
        let before = core::mem::replace(&mut self.surveyed, survey);
        let grown = before.zip(survey).and_then(|(before, survey)| {
            let active = survey.active.checked_sub(before.active)?;
            Some((active, survey.busy.checked_sub(before.busy)?))
        });
        match grown {
            Some((active, busy)) if active > 0 => {
                self.busy = Some((busy as f32 / active as f32).min(1.0));
                self.grown = Some(now);
            }
            // It begins to count anew, for instance on another channel.
            None => self.busy = None,
            Some(_) if self.grown.is_none_or(|at| now - at >= STALE) => self.busy = None,
            Some(_) => {}
        }
    }
}

/// Called from the thread that asks when there are news.
type Wake = Box<dyn Fn() + Send + Sync>;

/// What the thread that asks and the daemon have in common.
struct Shared {
    /// Interfaces that may be Wi-Fi, and what is known of those that are.
    known: Mutex<(Vec<i32>, BTreeMap<i32, Radio>)>,
    /// Counts changes of rates and powers.
    news: AtomicU64,
    over: AtomicBool,
    wake: Wake,
}

impl Shared {
    fn of(interfaces: &[i32], wake: Wake) -> Shared {
        Shared {
            known: Mutex::new((interfaces.to_vec(), BTreeMap::new())),
            news: AtomicU64::new(0),
            over: AtomicBool::new(false),
            wake,
        }
    }

    fn known(&self) -> MutexGuard<'_, (Vec<i32>, BTreeMap<i32, Radio>)> {
        self.known.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Ask the drivers of all interfaces once.
    ///
    /// # Errors
    /// The kernel does not answer.
    fn ask(&self, nl80211: &mut Nl80211) -> io::Result<()> {
        let interfaces = self.known().0.clone();
        for interface in interfaces {
            let known = nl80211.interface(interface)?;
            let answer = known.map(|known| Answer {
                tx_power_dbm: known.tx_power_dbm,
                // Not every driver supports the questions.
                stations: nl80211.stations(interface).unwrap_or_default(),
                survey: nl80211
                    .survey(interface, known.frequency)
                    .unwrap_or_default(),
            });
            self.learn(interface, answer, Instant::now());
        }
        Ok(())
    }

    /// What was answered of an interface; nothing if that is none of Wi-Fi any more.
    fn learn(&self, interface: i32, answer: Option<Answer>, now: Instant) {
        let news = {
            let (asked, radios) = &mut *self.known();
            match answer {
                // Nobody wants it any more since it was asked for.
                Some(_) if !asked.contains(&interface) => false,
                Some(answer) => radios.entry(interface).or_default().learn(answer, now),
                None => radios.remove(&interface).is_some(),
            }
        };
        if news {
            self.news.fetch_add(1, Ordering::Relaxed);
            (self.wake)();
        }
    }

    fn run(&self, mut nl80211: Nl80211) {
        if let Err(e) = crate::privileges::give_up_all() {
            tracing::warn!("the thread that asks Wi-Fi drivers keeps its privileges: {e}");
        }
        let mut silent = false;
        while !self.over.load(Ordering::Relaxed) {
            std::thread::sleep(PERIOD);
            match self.ask(&mut nl80211) {
                Ok(()) => silent = false,
                Err(e) => {
                    // What was known grows old.
                    self.known().1.clear();
                    if !core::mem::replace(&mut silent, true) {
                        tracing::warn!("drivers of Wi-Fi do not answer: {e}");
                    }
                }
            }
        }
    }
}

/// The Wi-Fi drivers of a network namespace, as long as this lives.
pub struct Wifi {
    shared: Arc<Shared>,
}

impl Wifi {
    /// Of this thread's network namespace; these of its interfaces are asked for. `None` if none of
    /// them is Wi-Fi. Another thread calls `wake` whenever there are [`news`](Wifi::news).
    ///
    /// # Errors
    /// The kernel does not answer, or there can be no thread.
    pub fn open(
        interfaces: &[i32],
        wake: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Option<Wifi>> {
        let Some(mut nl80211) = Nl80211::open()? else {
            return Ok(None);
        };
        let shared = Arc::new(Shared::of(interfaces, Box::new(wake)));
        shared.ask(&mut nl80211)?;
        if shared.known().1.is_empty() {
            return Ok(None);
        }
        let asks = shared.clone();
        let thread = std::thread::Builder::new().name(String::from("wifi"));
        thread.spawn(move || asks.run(nl80211))?;
        Ok(Some(Wifi { shared }))
    }

    /// These are the interfaces now.
    pub fn know(&self, interfaces: &[i32]) {
        let known = &mut *self.shared.known();
        known.0 = interfaces.to_vec();
        known
            .1
            .retain(|interface, _| interfaces.contains(interface));
    }

    /// How often rates and powers have changed so far.
    pub fn news(&self) -> u64 {
        self.shared.news.load(Ordering::Relaxed)
    }

    /// Whether an interface is Wi-Fi.
    pub fn has(&self, interface: i32) -> bool {
        self.shared.known().1.contains_key(&interface)
    }

    /// The rate at which an interface sends to a station, b/s; it follows the driver's rate control
    /// slowly, by steps of a quarter and more.
    pub fn rate(&self, interface: i32, station: Mac) -> Option<Rate> {
        self.of(interface, station, |n| n.rate)
    }

    /// The signal, dBm, and the rate, b/s, of the last frame from a station, as it was a tenth of a
    /// second ago at most.
    pub fn heard(&self, interface: i32, station: Mac) -> (Option<i8>, Option<Rate>) {
        let last = |n: &Neighbour| Some((n.last.signal_dbm, n.last.rx_rate));
        self.of(interface, station, last).unwrap_or_default()
    }

    fn of<T>(
        &self,
        interface: i32,
        station: Mac,
        f: impl Fn(&Neighbour) -> Option<T>,
    ) -> Option<T> {
        let known = self.shared.known();
        f(known.1.get(&interface)?.neighbours.get(&station)?)
    }

    /// Transmit power of an interface, dBm.
    pub fn tx_power_dbm(&self, interface: i32) -> Option<i8> {
        self.shared.known().1.get(&interface)?.tx_power_dbm
    }

    /// Share of the last tenth of a second during which an interface found the medium busy.
    pub fn busy(&self, interface: i32) -> Option<f32> {
        self.shared.known().1.get(&interface)?.busy
    }

    /// The facts that the drivers tell. Of neighbours that nobody has met so far it is supposed
    /// that the driver will know them.
    pub fn told(&self) -> Vec<Fact> {
        let known = self.shared.known();
        let mut told = vec![Fact::SiteRate, Fact::LinkRate, Fact::Rssi, Fact::FrameRate];
        let powers = known.1.values().any(|r| r.tx_power_dbm.is_some());
        told.extend(powers.then_some(Fact::TxPower));
        let surveys = known.1.values().any(|r| r.surveyed.is_some());
        told.extend(surveys.then_some(Fact::LinkBusy));
        told
    }

    /// What each interface tells, for people.
    pub fn describe(&self, name: impl Fn(i32) -> String) -> String {
        let known = self.shared.known();
        let each = known.1.iter().map(|(interface, radio)| {
            let power = match radio.tx_power_dbm {
                Some(dbm) => format!("transmit power {dbm} dBm"),
                None => String::from("no transmit power"),
            };
            let busy = match radio.surveyed {
                Some(_) => "how busy the medium is",
                None => "not how busy the medium is",
            };
            format!(
                "{} rate and signal of each neighbour, {power}, {busy}",
                name(*interface)
            )
        });
        each.collect::<Vec<_>>().join("; ")
    }

    /// What each interface told last, for programs.
    pub fn account(&self, name: impl Fn(i32) -> String) -> serde_json::Value {
        let known = self.shared.known();
        let station = |(mac, n): (&Mac, &Neighbour)| {
            let last = serde_json::json!({
                "signal_dbm": n.last.signal_dbm,
                "tx_bps": n.last.tx_rate.map(|r| r.0),
                "rx_bps": n.last.rx_rate.map(|r| r.0),
                "tx_retries": n.last.tx_retries,
                "tx_failed": n.last.tx_failed,
            });
            (mac.map(|o| format!("{o:02x}")).join(":"), last)
        };
        let radio = |(interface, radio): (&i32, &Radio)| {
            let stations = radio.neighbours.iter().map(station);
            let told = serde_json::json!({
                "tx_power_dbm": radio.tx_power_dbm,
                "busy": radio.busy,
                "stations": stations.collect::<serde_json::Map<_, _>>(),
            });
            (name(*interface), told)
        };
        serde_json::Value::Object(known.1.iter().map(radio).collect())
    }
}

impl Drop for Wifi {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poller::{Coalesce, Poller};
    use wifu_wire::Span;

    const NEAR: Mac = [2, 0, 0, 0, 1, 0];

    fn told(mbps: u64) -> Answer {
        let station = Station {
            tx_rate: Some(Rate(mbps * 1_000_000)),
            ..Station::default()
        };
        Answer {
            stations: vec![(NEAR, station)],
            ..Answer::default()
        }
    }

    #[test]
    fn a_rate_is_told_anew_when_rate_control_has_settled_elsewhere() {
        let (mut radio, now) = (Radio::default(), Instant::now());
        let rate = |radio: &Radio| radio.neighbours[&NEAR].rate.map(|r| r.0 / 1_000_000);
        assert!(radio.learn(told(54), now), "there was none");
        assert_eq!(rate(&radio), Some(54));
        // It tries others.
        for mbps in [54, 6, 54, 48, 54, 6, 48, 54] {
            assert!(!radio.learn(told(mbps), now), "{mbps}");
        }
        assert_eq!(rate(&radio), Some(54));
        let news = (0..RATES).filter(|_| radio.learn(told(12), now)).count();
        assert_eq!((news, rate(&radio)), (1, Some(12)));
        // 11 Mb/s is nearly the same.
        assert!((0..RATES).all(|_| !radio.learn(told(11), now)));
        assert!(radio.learn(Answer::default(), now), "it is gone");
        assert!(radio.neighbours.is_empty());
        let dbm = |dbm| Answer {
            tx_power_dbm: Some(dbm),
            ..Answer::default()
        };
        assert!(radio.learn(dbm(20), now) && !radio.learn(dbm(20), now));
    }

    #[test]
    fn news_wake_the_loop_that_waits() {
        let mut poller = Poller::new(Coalesce::OFF).unwrap();
        let waker = poller.waker();
        let shared = Shared::of(&[3], Box::new(move || waker.wake()));
        let mut woken = |answer: Option<Answer>, patience: Span| {
            shared.learn(3, answer, Instant::now());
            let begun = Poller::now();
            poller.wait(begun + patience, 0, &mut Vec::new()).unwrap();
            Poller::now() < begun + patience
        };
        let (long, short) = (Span::SECOND * 30, Span(20_000_000));
        assert!(woken(Some(told(54)), long), "a rate");
        assert!(!woken(Some(told(54)), short), "the same");
        assert!(woken(None, long), "it is gone");
        assert!(!woken(None, short), "still");
        assert_eq!(shared.news.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn an_answer_that_comes_late_brings_no_interface_back() {
        let shared = Arc::new(Shared::of(&[3, 4], Box::new(|| {})));
        let wifi = Wifi {
            shared: shared.clone(),
        };
        let now = Instant::now();
        shared.learn(3, Some(told(54)), now);
        shared.learn(4, Some(told(54)), now);
        assert!(wifi.has(3) && wifi.has(4));
        // While its driver is asked.
        wifi.know(&[4]);
        shared.learn(3, Some(told(6)), now);
        shared.learn(4, Some(told(54)), now);
        assert!(!wifi.has(3) && wifi.has(4));
        assert_eq!(wifi.news(), 2);
    }

    #[test]
    fn busy_is_the_share_of_what_was_counted_since_the_last_answer() {
        let (mut radio, now) = (Radio::default(), Instant::now());
        let mut busy = |ms, counts: Option<(u64, u64)>| {
            let survey = counts.map(|(active, busy)| Survey { active, busy });
            radio.survey(survey, now + Duration::from_millis(ms));
            radio.busy
        };
        assert_eq!(busy(0, Some((5_000, 900))), None, "of the time before");
        assert_eq!(busy(100, Some((5_100, 925))), Some(0.25));
        assert_eq!(busy(200, Some((5_200, 925))), Some(0.0));
        assert_eq!(busy(300, Some((5_300, 1_100))), Some(1.0), "rounded up");
        assert_eq!(
            busy(400, Some((5_300, 1_100))),
            Some(1.0),
            "not counted yet"
        );
        assert_eq!(busy(1_400, Some((5_300, 1_100))), None, "nor later");
        assert_eq!(busy(1_500, Some((5_400, 1_150))), Some(0.5));
        assert_eq!(busy(1_600, Some((90, 10))), None, "another channel");
        assert_eq!(busy(1_700, Some((190, 30))), Some(0.2));
        assert_eq!(busy(1_800, None), None);
    }
}

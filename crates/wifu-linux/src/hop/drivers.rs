//! What the drivers of a host's devices tell its daemon: each by files of its own, those of Wi-Fi
//! also by the kernel's 802.11 layer.

use super::air::FIRST;
use crate::core::facts::Driver;
use crate::delay::default_directory;
use crate::poller::Waker;
use crate::settings::{DelayDir, FactsConfig};
use crate::sys::LinkAddress;
use crate::wifi::Wifi;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use wifu_core::Site;
use wifu_engine::{Fact, RouteFacts};
use wifu_node::{Teller, facts};
use wifu_wire::{FrameFacts, LinkFacts, Neighbour, Time};

/// Stands for a device in the name of a directory.
const DEVICE: &str = "\0";

/// The drivers of a host's devices.
pub(crate) struct Drivers {
    given: Vec<DelayDir>,
    /// Where `wifu delay` writes unless told otherwise, with a [`DEVICE`].
    usual: Option<String>,
    /// By number of the interface.
    all: BTreeMap<i32, Driver>,
    wifi: Option<Wifi>,
    /// The loop that asks for news.
    waker: Waker,
    /// How often that had news when somebody last asked.
    news: u64,
}

impl Drivers {
    /// Of these interfaces of this thread's network namespace; news wake a loop.
    ///
    /// # Errors
    /// A directory is of a device that is not there.
    pub(crate) fn open(
        config: &FactsConfig,
        names: &BTreeMap<i32, String>,
        waker: Waker,
    ) -> io::Result<Drivers> {
        for given in &config.delays {
            if let Some(device) = &given.device
                && !names.values().any(|name| name == device)
            {
                let text = format!(
                    "{device} is no Ethernet interface with an address that is served: leave \
                     `{device}=` out, or name another"
                );
                return Err(io::Error::new(io::ErrorKind::NotFound, text));
            }
        }
        // Asked for now: once privileges are given up, /proc/1 may not be looked into.
        let usual = default_directory(DEVICE).ok();
        let mut drivers = Drivers {
            given: config.delays.clone(),
            usual: usual.and_then(|dir| dir.into_os_string().into_string().ok()),
            all: BTreeMap::new(),
            wifi: None,
            waker,
            news: 0,
        };
        drivers.know(names);
        Ok(drivers)
    }

    /// These are the interfaces now, by number. What is known of those that stay is kept.
    pub(crate) fn know(&mut self, names: &BTreeMap<i32, String>) {
        let mut before = core::mem::take(&mut self.all);
        for (interface, name) in names {
            let dir = self.directory(name);
            let kept = before.remove(interface);
            let kept = kept.filter(|driver| driver.dir() == dir.as_deref());
            let driver = kept.unwrap_or_else(|| Driver::new(0, dir, None));
            self.all.insert(*interface, driver);
        }
        let interfaces: Vec<i32> = names.keys().copied().collect();
        match &self.wifi {
            Some(wifi) => wifi.know(&interfaces),
            None => {
                let waker = self.waker.clone();
                match Wifi::open(&interfaces, move || waker.wake()) {
                    Ok(wifi) => self.wifi = wifi,
                    Err(e) => tracing::warn!("drivers of Wi-Fi cannot be asked: {e}"),
                }
            }
        }
    }

    /// Whether rates or powers have changed since the last call.
    pub(crate) fn has_news(&mut self) -> bool {
        let news = self.wifi.as_ref().map_or(0, Wifi::news);
        core::mem::replace(&mut self.news, news) != news
    }

    /// Where the driver of a device tells its delay, if it does.
    fn directory(&self, device: &str) -> Option<PathBuf> {
        let named = |d: &&DelayDir| d.device.as_deref() == Some(device);
        let given = self.given.iter().find(named);
        let given = given.or(self.given.iter().find(|d| d.device.is_none()));
        match (given, &self.usual) {
            (Some(given), _) => Some(given.dir.clone()),
            (None, Some(usual)) => Some(PathBuf::from(usual.replace(DEVICE, device))),
            (None, None) => None,
        }
    }

    /// The facts that are told, so far: files that come later are read as well.
    pub(crate) fn told(&self) -> Vec<Fact> {
        let dirs = || self.all.values().filter_map(Driver::dir);
        let has = |name: &str| dirs().any(|dir| dir.join(name).exists());
        let files = !self.given.is_empty() || has("Da");
        let mut tellers = Vec::new();
        tellers.extend(files.then_some(Teller::LiveFiles));
        tellers.extend(has("busy").then_some(Teller::Emulated));
        let mut told = facts::told(&tellers);
        told.extend(self.wifi.iter().flat_map(Wifi::told));
        told
    }

    /// Which device tells its delay where, for people.
    pub(crate) fn describe(&self, names: &BTreeMap<i32, String>) -> String {
        let described = self.all.iter().filter_map(|(interface, driver)| {
            let (name, dir) = (names.get(interface)?, driver.dir()?);
            let said = match (dir.join("Da").exists(), dir.join("busy").exists()) {
                (true, true) => "its delay and how busy the medium is",
                (true, false) => "its delay",
                (false, _) => "nothing so far",
            };
            Some(format!("{name} {said} ({})", dir.display()))
        });
        let mut described: Vec<String> = described.collect();
        let name = |i| names.get(&i).cloned().unwrap_or_default();
        match &self.wifi {
            Some(wifi) => described.push(wifi.describe(name)),
            None => described.push(String::from("no device is Wi-Fi")),
        }
        described.join("; ")
    }

    /// What drivers of Wi-Fi told last, for programs, by names of their devices.
    pub(crate) fn account(&self, names: &BTreeMap<i32, String>) -> Option<serde_json::Value> {
        let name = |i| names.get(&i).cloned().unwrap_or_default();
        self.wifi.as_ref().map(|wifi| wifi.account(name))
    }

    /// What the driver of an interface tells now, with the rate to a station.
    pub(crate) fn link(
        &self,
        interface: i32,
        station: Option<LinkAddress>,
        now: Time,
    ) -> LinkFacts {
        let Some(driver) = self.all.get(&interface) else {
            return LinkFacts::default();
        };
        driver.refresh(now);
        let mut link = driver.link();
        if let Some(wifi) = self.wifi.as_ref().filter(|wifi| wifi.has(interface)) {
            link.first = Some(FIRST);
            link.busy = link.busy.or(wifi.busy(interface));
            link.rate = station.and_then(|s| wifi.rate(s.interface, s.mac));
        }
        link
    }

    /// What drivers of Wi-Fi tell of a way over a station.
    pub(crate) fn complete(&self, route: RouteFacts, station: Option<LinkAddress>) -> RouteFacts {
        match (&self.wifi, station) {
            (Some(wifi), Some(s)) => RouteFacts {
                rate: wifi.rate(s.interface, s.mac),
                tx_power_dbm: wifi.tx_power_dbm(s.interface),
                ..route
            },
            _ => route,
        }
    }

    /// How frames of a neighbour come, in the words of its driver.
    pub(crate) fn frame(&self, transmitter: Option<Neighbour>) -> FrameFacts {
        let (Some(wifi), Some(from)) = (&self.wifi, transmitter) else {
            return FrameFacts::NONE;
        };
        let (rssi_dbm, rate) = wifi.heard(i32::from(from.device.get()), from.address);
        FrameFacts {
            rssi_dbm,
            rate,
            ..FrameFacts::NONE
        }
    }
}

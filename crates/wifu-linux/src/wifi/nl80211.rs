//! What the kernel's 802.11 layer says of an interface: linux/nl80211.h, by generic netlink.
//!
//! Nobody needs privileges to ask. What a driver does not say is `None`.

use crate::netlink::{Attributes, Netlink, attribute};
use std::io;
use wifu_wire::Rate;

/// linux/genetlink.h; the names are the kernel's.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// linux/nl80211.h.
const CMD_GET_INTERFACE: u8 = 5;
const CMD_GET_STATION: u8 = 17;
const CMD_GET_SURVEY: u8 = 50;
const ATTR_IFINDEX: u16 = 3;
const ATTR_MAC: u16 = 6;
const ATTR_WIPHY_FREQ: u16 = 38;
const ATTR_STA_INFO: u16 = 21;
const ATTR_SURVEY_INFO: u16 = 84;
const ATTR_WIPHY_TX_POWER_LEVEL: u16 = 98;
const STA_INFO_SIGNAL: u16 = 7;
const STA_INFO_TX_BITRATE: u16 = 8;
const STA_INFO_TX_RETRIES: u16 = 11;
const STA_INFO_TX_FAILED: u16 = 12;
const STA_INFO_RX_BITRATE: u16 = 14;
const RATE_INFO_BITRATE: u16 = 1;
const RATE_INFO_BITRATE32: u16 = 5;
const SURVEY_INFO_FREQUENCY: u16 = 1;
const SURVEY_INFO_IN_USE: u16 = 3;
const SURVEY_INFO_TIME: u16 = 4;
const SURVEY_INFO_TIME_BUSY: u16 = 5;

/// Octets of struct genlmsghdr.
const HEADER: usize = 4;

/// A neighbour in the eyes of a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Station {
    /// Signal of the last frame that came from it, dBm.
    pub signal_dbm: Option<i8>,
    /// Rate of the last unicast frame to it, b/s.
    pub tx_rate: Option<Rate>,
    /// Rate of the last frame from it, b/s.
    pub rx_rate: Option<Rate>,
    /// Attempts to it beyond the first ones, since it is known.
    pub tx_retries: Option<u32>,
    /// Packets to it that it did not acknowledge, since it is known.
    pub tx_failed: Option<u32>,
}

/// An interface in the eyes of its driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Transmit power, dBm.
    pub tx_power_dbm: Option<i8>,
    /// Its channel, MHz.
    pub frequency: Option<u32>,
}

/// How long the radio was on its channel, and how long of that it found the medium busy, since it
/// counts, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// On the channel.
    pub active: u64,
    /// Of that, while the radio sensed the medium as used; whether its own frames count is the
    /// driver's affair.
    pub busy: u64,
}

/// A socket by which the 802.11 layer is asked.
pub struct Nl80211 {
    netlink: Netlink,
    family: u16,
}

impl Nl80211 {
    /// Of this thread's network namespace; `None` if the kernel has no 802.11.
    ///
    /// # Errors
    /// What the system calls say.
    pub fn open() -> io::Result<Option<Nl80211>> {
        let mut netlink = Netlink::generic()?;
        let mut body = vec![CTRL_CMD_GETFAMILY, 1, 0, 0];
        attribute(&mut body, CTRL_ATTR_FAMILY_NAME, b"nl80211\0");
        let mut reply = [0; 8192];
        let answer = netlink.request(GENL_ID_CTRL, GENL_ID_CTRL, &body, &mut reply)?;
        let family = answer.and_then(family);
        Ok(family.map(|family| Nl80211 { netlink, family }))
    }

    fn question(command: u8, interface: i32) -> Vec<u8> {
        let mut body = vec![command, 0, 0, 0];
        attribute(&mut body, ATTR_IFINDEX, &interface.to_ne_bytes());
        body
    }

    /// What is known of an interface; `None` if it is none of 802.11.
    ///
    /// # Errors
    /// What the system calls say.
    pub fn interface(&mut self, interface: i32) -> io::Result<Option<Interface>> {
        let body = Nl80211::question(CMD_GET_INTERFACE, interface);
        let mut reply = [0; 8192];
        let family = self.family;
        let answer = self.netlink.request(family, family, &body, &mut reply)?;
        Ok(answer.map(about))
    }

    /// The neighbours that the driver of an interface knows, by address.
    ///
    /// # Errors
    /// What the kernel says, such as that the interface is gone.
    pub fn stations(&mut self, interface: i32) -> io::Result<Vec<([u8; 6], Station)>> {
        let body = Nl80211::question(CMD_GET_STATION, interface);
        let mut found = Vec::new();
        let family = self.family;
        self.netlink.dump(family, family, &body, |body| {
            found.extend(station(body));
        })?;
        Ok(found)
    }

    /// How busy the channel of an interface was, of this frequency in MHz unless the driver says
    /// which is in use; `None` if it does not count that.
    ///
    /// # Errors
    /// What the kernel says: drivers without surveys do not support the question.
    pub fn survey(&mut self, interface: i32, frequency: Option<u32>) -> io::Result<Option<Survey>> {
        let body = Nl80211::question(CMD_GET_SURVEY, interface);
        let (mut used, mut same) = (None, None);
        let family = self.family;
        self.netlink.dump(family, family, &body, |body| {
            let channel = channel(body);
            used = used.or(channel.filter(|c| c.in_use));
            same = same.or(channel.filter(|c| c.frequency.is_some() && c.frequency == frequency));
        })?;
        Ok(used.or(same).and_then(|channel| channel.survey))
    }
}

/// The attributes behind the header of an answer.
fn attributes(body: &[u8]) -> Attributes<'_> {
    Attributes(body.get(HEADER..).unwrap_or(&[]))
}

fn find<'a>(mut of: Attributes<'a>, wanted: u16) -> Option<&'a [u8]> {
    of.find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn word(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.try_into().ok()?))
}

fn long(value: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(value.try_into().ok()?))
}

fn family(body: &[u8]) -> Option<u16> {
    let id = find(attributes(body), CTRL_ATTR_FAMILY_ID)?;
    Some(u16::from_ne_bytes(id.try_into().ok()?))
}

fn about(body: &[u8]) -> Interface {
    let of = |kind| find(attributes(body), kind).and_then(word);
    // In hundredths of a dBm, signed.
    let power = of(ATTR_WIPHY_TX_POWER_LEVEL).map(|mbm| (mbm as i32).div_euclid(100));
    Interface {
        tx_power_dbm: power.and_then(|dbm| i8::try_from(dbm).ok()),
        frequency: of(ATTR_WIPHY_FREQ),
    }
}

fn station(body: &[u8]) -> Option<([u8; 6], Station)> {
    let mac = find(attributes(body), ATTR_MAC)?.try_into().ok()?;
    let info = || Attributes(find(attributes(body), ATTR_STA_INFO).unwrap_or(&[]));
    let signal = find(info(), STA_INFO_SIGNAL);
    let station = Station {
        signal_dbm: signal.and_then(|v| Some(*v.first()? as i8)),
        tx_rate: find(info(), STA_INFO_TX_BITRATE).and_then(rate),
        rx_rate: find(info(), STA_INFO_RX_BITRATE).and_then(rate),
        tx_retries: find(info(), STA_INFO_TX_RETRIES).and_then(word),
        tx_failed: find(info(), STA_INFO_TX_FAILED).and_then(word),
    };
    Some((mac, station))
}

/// A rate, which comes in units of 100 kb/s. One of 0 says that there was no such frame.
fn rate(info: &[u8]) -> Option<Rate> {
    let long = find(Attributes(info), RATE_INFO_BITRATE32).and_then(word);
    let short = || {
        let value = find(Attributes(info), RATE_INFO_BITRATE)?;
        Some(u32::from(u16::from_ne_bytes(value.try_into().ok()?)))
    };
    let units = long.or_else(short).filter(|units| *units > 0)?;
    Some(Rate(u64::from(units) * 100_000))
}

/// A channel of a survey.
#[derive(Clone, Copy)]
struct Channel {
    frequency: Option<u32>,
    in_use: bool,
    survey: Option<Survey>,
}

fn channel(body: &[u8]) -> Option<Channel> {
    let info = find(attributes(body), ATTR_SURVEY_INFO)?;
    let of = |kind| find(Attributes(info), kind);
    let counted = |kind| of(kind).and_then(long);
    let (active, busy) = (counted(SURVEY_INFO_TIME), counted(SURVEY_INFO_TIME_BUSY));
    Some(Channel {
        frequency: of(SURVEY_INFO_FREQUENCY).and_then(word),
        in_use: of(SURVEY_INFO_IN_USE).is_some(),
        survey: active
            .zip(busy)
            .map(|(active, busy)| Survey { active, busy }),
    })
}

/// Understand the body of any answer, as every kind of those that are asked for here.
///
/// # Panics
/// If what was understood cannot be.
pub(crate) fn understand(body: &[u8]) {
    let power = about(body).tx_power_dbm;
    assert!(power.is_none() || body.len() >= HEADER + 8);
    if let Some((_, station)) = station(body) {
        let rates = [station.tx_rate, station.rx_rate];
        assert!(rates.iter().flatten().all(|rate| rate.0 > 0), "{rates:?}");
    }
    let survey = channel(body).and_then(|channel| channel.survey);
    assert!(survey.is_none() || body.len() >= HEADER + 4 + 2 * 12);
    assert!(family(body).is_none() || body.len() >= HEADER + 6);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of Linux 6.12 for a radio of mac80211_hwsim, one in a line, as tools/hwsim.sh has
    /// them.
    fn answers(hex: &str) -> Vec<Vec<u8>> {
        let octet = |two: &[u8]| {
            let text = core::str::from_utf8(two).expect("hex");
            u8::from_str_radix(text, 16).expect("hex")
        };
        let line = |l: &str| l.as_bytes().chunks(2).map(octet).collect();
        hex.lines().map(line).collect()
    }

    const INTERFACE: &str = include_str!("answers/interface.hex");
    const STATIONS: &str = include_str!("answers/stations.hex");
    const SURVEY: &str = include_str!("answers/survey.hex");

    #[test]
    fn what_a_kernel_answered_is_understood() {
        let interface = about(&answers(INTERFACE)[0]);
        assert_eq!(interface.tx_power_dbm, Some(15));
        assert_eq!(interface.frequency, Some(2412));
        let stations: Vec<_> = answers(STATIONS)
            .iter()
            .filter_map(|a| station(a))
            .collect();
        let there = Station {
            signal_dbm: Some(-30),
            tx_rate: Some(Rate(54_000_000)),
            rx_rate: Some(Rate(54_000_000)),
            tx_retries: Some(0),
            tx_failed: Some(0),
        };
        assert_eq!(stations, [([2, 0, 0, 0, 1, 0], there)]);
        let channels: Vec<_> = answers(SURVEY).iter().filter_map(|a| channel(a)).collect();
        assert!(channels.len() > 10, "{}", channels.len());
        // This driver does not mark the one in use.
        assert!(channels.iter().all(|c| !c.in_use));
        let own = channels.iter().find(|c| c.frequency == Some(2412));
        let counted = Survey {
            active: 64,
            busy: 8,
        };
        assert_eq!(own.and_then(|c| c.survey), Some(counted));
    }

    #[test]
    fn what_is_cut_off_or_garbled_makes_nobody_panic() {
        let all = [INTERFACE, STATIONS, SURVEY].map(answers).concat();
        let read = understand;
        for answer in &all {
            for length in 0..answer.len() {
                read(&answer[..length]);
                let mut garbled = answer.clone();
                garbled[length] ^= 0xFF;
                read(&garbled);
            }
        }
    }
}

//! Timing of 802.11a, b and g: modes, airtime and the constants of the DCF (IEEE Std 802.11-2016,
//! clauses 15 to 18 and 10.3).

use wifu_wire::radiotap::{self, Channel};
use wifu_wire::{Rate, Span};

/// Octets of an ACK frame.
pub const ACK: u32 = 14;
/// Octets of a CTS frame.
pub const CTS: u32 = 14;
/// Octets of an RTS frame.
pub const RTS: u32 = 20;
/// Octets that a data frame adds to an IP packet: MAC header 24, LLC/SNAP 8, FCS 4.
pub const OVERHEAD: u32 = 36;
/// `rts_threshold` that no frame exceeds: RTS/CTS off.
pub const RTS_OFF: u32 = 2347;

/// Which clause of 802.11 a channel follows. All nodes of a channel follow the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standard {
    /// OFDM in 20 MHz at 5.2 GHz (clause 17).
    A,
    /// DSSS and CCK in 22 MHz at 2.4 GHz (clauses 15 and 16).
    B,
    /// ERP-OFDM in 20 MHz at 2.4 GHz without older stations (clause 18): short slot, and every
    /// frame is followed by a signal extension of 6 us.
    G,
}

impl Standard {
    /// The clause's name, `802.11a`.
    pub fn name(self) -> &'static str {
        match self {
            Standard::A => "802.11a",
            Standard::B => "802.11b",
            Standard::G => "802.11g",
        }
    }
}

/// Index into the table of modes: 0 to 3 are DSSS/CCK at 1, 2, 5.5, 11 Mb/s, 4 to 11 are OFDM at
/// 6, 9, 12, 18, 24, 36, 48, 54 Mb/s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mode(pub u8);

/// Rates of the modes in units of 100 kb/s.
const RATES: [u16; 12] = [10, 20, 55, 110, 60, 90, 120, 180, 240, 360, 480, 540];
const NAMES: [&str; 12] = [
    "1 Mb/s", "2 Mb/s", "5.5 Mb/s", "11 Mb/s", "6 Mb/s", "9 Mb/s", "12 Mb/s", "18 Mb/s", "24 Mb/s",
    "36 Mb/s", "48 Mb/s", "54 Mb/s",
];

impl Mode {
    /// Every mode, in order of the index.
    pub const ALL: [Mode; 12] = {
        let mut all = [Mode(0); 12];
        let mut i = 0;
        while i < 12 {
            all[i] = Mode(i as u8);
            i += 1;
        }
        all
    };

    /// Of a rate, if the standard has it.
    pub fn from_rate(standard: Standard, rate: Rate) -> Option<Mode> {
        let modes = modes_of(standard);
        modes.iter().copied().find(|m| m.rate() == rate)
    }

    /// Data rate of the payload.
    pub fn rate(self) -> Rate {
        Rate(u64::from(RATES[usize::from(self.0)]) * 100_000)
    }

    /// OFDM rather than DSSS or CCK.
    pub fn is_ofdm(self) -> bool {
        self.0 >= 4
    }

    /// The rate as text, e.g. `24 Mb/s`.
    pub fn name(self) -> &'static str {
        NAMES[usize::from(self.0)]
    }

    /// Data bits of one OFDM symbol of 4 us.
    fn bits_per_symbol(self) -> u64 {
        u64::from(RATES[usize::from(self.0)]) * 4 / 10
    }
}

/// The modes of a standard, slowest first.
fn modes_of(standard: Standard) -> &'static [Mode] {
    match standard {
        Standard::B => &Mode::ALL[..4],
        Standard::A | Standard::G => &Mode::ALL[4..],
    }
}

/// Constants of one channel's PHY and DCF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phy {
    /// The clause that the channel follows.
    pub standard: Standard,
    /// Short PLCP preamble (DSSS at 2 Mb/s and above, CCK); OFDM ignores it.
    pub short_preamble: bool,
    /// Slot of the back-off.
    pub slot: Span,
    /// Gap before ACK, CTS and the frame after a CTS.
    pub sifs: Span,
    /// Gap before a contention: SIFS + 2 slots.
    pub difs: Span,
    /// Smallest contention window, in slots.
    pub cw_min: u16,
    /// Largest contention window, in slots.
    pub cw_max: u16,
}

impl Phy {
    /// The constants of a standard. G is ERP-OFDM without 802.11b stations.
    pub fn new(standard: Standard, short_preamble: bool) -> Phy {
        let us = |n: u64| Span(n * 1_000);
        let (slot, sifs, cw_min) = match standard {
            Standard::A => (us(9), us(16), 15),
            Standard::B => (us(20), us(10), 31),
            Standard::G => (us(9), us(10), 15),
        };
        Phy {
            standard,
            short_preamble: short_preamble && standard == Standard::B,
            slot,
            sifs,
            difs: sifs + slot * 2,
            cw_min,
            cw_max: 1023,
        }
    }

    /// The usable modes, slowest first.
    pub fn modes(&self) -> &'static [Mode] {
        modes_of(self.standard)
    }

    /// The mode for broadcasts, EIFS and the PLCP header: 6 or 1 Mb/s.
    pub fn base(&self) -> Mode {
        self.modes()[0]
    }

    /// What a receiver uses for locking and capture: training fields or SYNC and SFD.
    /// 16 us with OFDM, 144 or 72 us else.
    pub fn preamble(&self, mode: Mode) -> Span {
        let us = match (mode.is_ofdm(), self.is_short(mode)) {
            (true, _) => 16,
            (false, false) => 144,
            (false, true) => 72,
        };
        Span(us * 1_000)
    }

    /// Preamble and PLCP header: 20 us with OFDM, 192 or 96 us else.
    pub fn plcp(&self, mode: Mode) -> Span {
        let us = match (mode.is_ofdm(), self.is_short(mode)) {
            (true, _) => 20,
            (false, false) => 192,
            (false, true) => 96,
        };
        Span(us * 1_000)
    }

    /// The mode that carries the PLCP header: 2 Mb/s in a short one, else the slowest of its kind.
    pub fn header(&self, mode: Mode) -> Mode {
        match (mode.is_ofdm(), self.is_short(mode)) {
            (true, _) => Mode(4),
            (false, false) => Mode(0),
            (false, true) => Mode(1),
        }
    }

    /// A frame at 1 Mb/s cannot have the short preamble.
    fn is_short(&self, mode: Mode) -> bool {
        self.short_preamble && mode != Mode(0)
    }

    /// A whole frame on the air: PLCP and an MPDU of `mpdu_bytes` (with header and FCS).
    pub fn airtime(&self, mode: Mode, mpdu_bytes: u32) -> Span {
        let octets = u64::from(mpdu_bytes);
        if !mode.is_ofdm() {
            return self.plcp(mode) + mode.rate().time_for(octets);
        }
        // 16 service bits and 6 tail bits around the octets, in symbols of 4 us.
        let symbols = (22 + 8 * octets).div_ceil(mode.bits_per_symbol());
        let extension = match self.standard {
            Standard::G => Span(6_000),
            _ => Span::ZERO,
        };
        self.plcp(mode) + Span(4_000) * symbols + extension
    }

    /// How long a sender waits for the start of an ACK or CTS, from the end of its own frame:
    /// SIFS + slot + 25 us (OFDM) or 192 us.
    pub fn ack_timeout(&self) -> Span {
        let header = match self.standard {
            Standard::B => 192,
            Standard::A | Standard::G => 25,
        };
        self.sifs + self.slot + Span(header * 1_000)
    }

    /// The gap that replaces DIFS after a frame that could not be decoded:
    /// SIFS + an ACK at the base rate (long preamble) + DIFS.
    pub fn eifs(&self) -> Span {
        self.sifs + self.airtime(self.base(), ACK) + self.difs
    }

    /// The mode of the ACK or CTS that answers a frame sent in `data`: the fastest of `rates` that
    /// is not faster, else the slowest of `rates`; the base rate if there are none.
    pub fn control(&self, data: Mode, rates: &[Mode]) -> Mode {
        let slower = rates.iter().copied().filter(|m| *m <= data).max();
        slower
            .or_else(|| rates.iter().copied().min())
            .unwrap_or_else(|| self.base())
    }

    /// The basic rates that control frames use unless set: 6, 12, 24 Mb/s, or 1 and 2 Mb/s.
    pub fn default_control_rates(&self) -> Vec<Mode> {
        match self.standard {
            Standard::B => vec![Mode(0), Mode(1)],
            Standard::A | Standard::G => vec![Mode(4), Mode(6), Mode(8)],
        }
    }

    /// A successful exchange of a data frame of `ip_bytes` without contention: DIFS, the mean
    /// back-off of CWmin/2 slots, the frame, SIFS and its ACK. With 1500 B this is the D0 of a
    /// node that has not sent yet.
    pub fn cycle(&self, mode: Mode, control_rates: &[Mode], ip_bytes: u32) -> Span {
        let ack = self.control(mode, control_rates);
        self.difs
            + self.slot * u64::from(self.cw_min) / 2
            + self.airtime(mode, ip_bytes + OVERHEAD)
            + self.sifs
            + self.airtime(ack, ACK)
    }

    /// Thermal noise of the channel and a noise figure, in dBm: -174 + 10 log10(bandwidth) + NF.
    pub fn noise_dbm(&self, noise_figure_db: f64) -> f64 {
        let hertz: f64 = match self.standard {
            Standard::B => 22e6,
            Standard::A | Standard::G => 20e6,
        };
        -174.0 + 10.0 * libm::log10(hertz) + noise_figure_db
    }

    /// Centre of the channel, MHz: 5200, or channel 6 at 2437.
    pub fn frequency_mhz(&self) -> f64 {
        match self.standard {
            Standard::A => 5200.0,
            Standard::B | Standard::G => 2437.0,
        }
    }

    /// The channel as radiotap says it.
    pub fn channel(&self) -> Channel {
        Channel {
            mhz: self.frequency_mhz() as u16,
            flags: match self.standard {
                Standard::A => radiotap::OFDM_5GHZ,
                Standard::B => radiotap::CCK_2GHZ,
                Standard::G => radiotap::OFDM_2GHZ,
            },
        }
    }

    /// The flags of a frame's preamble as radiotap says them.
    pub fn preamble_flags(&self, mode: Mode) -> u8 {
        match self.is_short(mode) {
            true => radiotap::SHORT_PREAMBLE,
            false => 0,
        }
    }

    /// The SINR in dB that a preamble needs for a receiver to lock: 4 with OFDM, 0 with DSSS.
    pub fn lock_db(&self) -> f64 {
        match self.standard {
            Standard::B => 0.0,
            Standard::A | Standard::G => 4.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(standard: Standard, mbps: f64) -> Mode {
        Mode::from_rate(standard, Rate((mbps * 1e6) as u64)).expect("a rate of the standard")
    }

    fn micros(s: Span) -> f64 {
        s.0 as f64 / 1e3
    }

    /// Mb/s of `per_ack` segments of `payload` octets (IP `data`) and one TCP ACK (IP `ack`) that
    /// take turns on one hop without collisions; no ACK if `per_ack` is 0.
    fn tcp(phy: &Phy, m: Mode, rates: &[Mode], payload: f64, ip: (u32, u32), per_ack: u32) -> f64 {
        let n = f64::from(per_ack.max(1));
        let acks = if per_ack == 0 { 0.0 } else { 1.0 };
        let cycle = |bytes| micros(phy.cycle(m, rates, bytes));
        n * payload * 8.0 / (n * cycle(ip.0) + acks * cycle(ip.1))
    }

    fn near(measured: f64, published: f64) {
        assert!(
            (measured - published).abs() < 0.006,
            "{measured} for {published}"
        );
    }

    #[test]
    fn anchors_of_802_11a() {
        let phy = Phy::new(Standard::A, false);
        let rates = phy.default_control_rates();
        let us = |m, bytes| micros(phy.airtime(m, bytes));
        let fast = mode(Standard::A, 24.0);
        assert_eq!(us(fast, 1536), 536.0);
        assert_eq!(us(phy.control(fast, &rates), ACK), 28.0);
        assert_eq!(micros(phy.cycle(fast, &rates, 1500)), 681.5);
        assert_eq!(micros(phy.cycle(fast, &rates, 52)), 197.5);
        near(tcp(&phy, fast, &rates, 1448.0, (1500, 52), 1), 13.18);
        near(tcp(&phy, fast, &rates, 1448.0, (1500, 52), 2), 14.85);
        near(tcp(&phy, fast, &rates, 1448.0, (1500, 52), 0), 17.0);
        let slow = mode(Standard::A, 6.0);
        assert_eq!(us(slow, 1536), 2072.0);
        assert_eq!(us(phy.control(slow, &rates), ACK), 44.0);
        assert_eq!(micros(phy.cycle(slow, &rates, 1500)), 2233.5);
        assert_eq!(micros(phy.cycle(slow, &rates, 52)), 305.5);
        near(tcp(&phy, slow, &rates, 1448.0, (1500, 52), 1), 4.56);
        near(tcp(&phy, slow, &rates, 1448.0, (1500, 52), 2), 4.85);
        near(tcp(&phy, slow, &rates, 1448.0, (1500, 52), 0), 5.19);
        assert_eq!(micros(phy.ack_timeout()), 50.0);
        assert_eq!(micros(phy.eifs()), 94.0);
        assert_eq!(
            (phy.slot, phy.sifs, phy.difs),
            (Span(9_000), Span(16_000), Span(34_000))
        );
    }

    #[test]
    fn symbols_of_every_ofdm_mode() {
        // N_DBPS of clause 17: one octet more than fills a symbol takes the next one.
        let phy = Phy::new(Standard::A, false);
        let expected = [24, 36, 48, 72, 96, 144, 192, 216];
        for (m, bits) in phy.modes().iter().zip(expected) {
            let full = (bits * 10 - 22) / 8;
            assert_eq!(phy.airtime(*m, full as u32), Span(60_000), "{}", m.name());
            assert_eq!(
                phy.airtime(*m, full as u32 + 1),
                Span(64_000),
                "{}",
                m.name()
            );
        }
    }

    #[test]
    fn anchors_of_802_11b() {
        let phy = Phy::new(Standard::B, true);
        let m = mode(Standard::B, 11.0);
        let two = phy.default_control_rates();
        near(tcp(&phy, m, &two, 1460.0, (1500, 40), 2), 5.64);
        near(tcp(&phy, m, &two, 1460.0, (1500, 40), 1), 4.85);
        // Segments of 1460 octets with timestamps make IP packets of 1512 octets.
        near(tcp(&phy, m, &two, 1460.0, (1512, 52), 2), 5.60);
        near(tcp(&phy, m, &two, 1460.0, (1512, 52), 1), 4.81);
        let long = Phy::new(Standard::B, false);
        near(tcp(&long, m, &[Mode(0)], 1460.0, (1500, 40), 2), 4.78);
        near(tcp(&long, m, &[Mode(0)], 1460.0, (1500, 40), 1), 4.02);
        assert_eq!(micros(phy.eifs()), 364.0);
        assert_eq!(micros(phy.ack_timeout()), 222.0);
        // No short preamble at 1 Mb/s.
        assert_eq!(micros(phy.airtime(Mode(0), ACK)), 304.0);
        assert_eq!(micros(phy.airtime(Mode(1), ACK)), 152.0);
        assert_eq!(
            (phy.preamble(m), phy.preamble(Mode(0))),
            (Span(72_000), Span(144_000))
        );
        assert_eq!(phy.preamble_flags(m), radiotap::SHORT_PREAMBLE);
        assert_eq!(phy.preamble_flags(Mode(0)), 0);
        assert_eq!(phy.control(Mode(0), &two), Mode(0));
        assert_eq!(phy.control(Mode(0), &[Mode(1)]), Mode(1));
    }

    #[test]
    fn erp_ofdm_has_the_short_slot_and_the_signal_extension() {
        let phy = Phy::new(Standard::G, true);
        assert_eq!(
            (phy.slot, phy.sifs, phy.difs),
            (Span(9_000), Span(10_000), Span(28_000))
        );
        assert_eq!(phy.airtime(mode(Standard::G, 24.0), 1536), Span(542_000));
        assert!(!phy.short_preamble);
    }

    #[test]
    fn noise_of_both_bandwidths() {
        assert!((Phy::new(Standard::A, false).noise_dbm(7.0) + 94.0).abs() < 0.02);
        assert!((Phy::new(Standard::B, true).noise_dbm(7.0) + 93.6).abs() < 0.03);
    }

    #[test]
    fn a_mode_is_found_by_its_rate_and_only_in_its_standard() {
        assert_eq!(Mode::from_rate(Standard::B, Rate(5_500_000)), Some(Mode(2)));
        assert_eq!(Mode::from_rate(Standard::A, Rate(11_000_000)), None);
        assert_eq!(Mode::from_rate(Standard::B, Rate(24_000_000)), None);
        assert_eq!(Mode(8).name(), "24 Mb/s");
    }
}

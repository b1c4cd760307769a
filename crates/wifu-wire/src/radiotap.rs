//! Radiotap: what a radio says of a frame, in front of it (radiotap.org). Little endian; each field
//! is aligned to its own size, counted from the beginning of the header.

use crate::units::Rate;

/// Flag: with a short preamble.
pub const SHORT_PREAMBLE: u8 = 0x02;
/// Flag: the frame ends with its check sequence.
pub const HAS_FCS: u8 = 0x10;
/// Flag: there is padding between the 802.11 header and what follows, up to a multiple of 4.
pub const PADDED: u8 = 0x20;
/// Flag: the check sequence is wrong.
pub const BAD_FCS: u8 = 0x40;

/// Transmit flag: nobody acknowledged it, although somebody should have.
pub const TX_FAILED: u16 = 0x0001;
/// Transmit flag: nobody has to acknowledge it.
pub const TX_NO_ACK: u16 = 0x0008;

/// Channel flags: OFDM at 5 GHz.
pub const OFDM_5GHZ: u16 = 0x0140;
/// Channel flags: CCK at 2.4 GHz.
pub const CCK_2GHZ: u16 = 0x00A0;
/// Channel flags: OFDM at 2.4 GHz.
pub const OFDM_2GHZ: u16 = 0x00C0;

/// Where the first field begins if there is one presence word.
const FIXED: usize = 8;
/// Another presence word follows.
const MORE: u32 = 1 << 31;

// Bits of the presence word.
const TSFT: usize = 0;
const FLAGS: usize = 1;
const RATE: usize = 2;
const CHANNEL: usize = 3;
const SIGNAL: usize = 5;
const NOISE: usize = 6;
const TX_FLAGS: usize = 15;
const DATA_RETRIES: usize = 17;

/// Alignment and size of each field, by its bit.
const FIELDS: [(usize, usize); 28] = [
    (8, 8),  // TSFT
    (1, 1),  // flags
    (1, 1),  // rate
    (2, 4),  // channel
    (2, 2),  // FHSS
    (1, 1),  // antenna signal, dBm
    (1, 1),  // antenna noise, dBm
    (2, 2),  // lock quality
    (2, 2),  // TX attenuation
    (2, 2),  // TX attenuation, dB
    (1, 1),  // TX power, dBm
    (1, 1),  // antenna
    (1, 1),  // antenna signal, dB
    (1, 1),  // antenna noise, dB
    (2, 2),  // RX flags
    (2, 2),  // TX flags
    (1, 1),  // RTS retries
    (1, 1),  // data retries
    (4, 8),  // XChannel
    (1, 3),  // MCS
    (4, 8),  // A-MPDU status
    (2, 12), // VHT
    (8, 12), // timestamp
    (2, 12), // HE
    (2, 12), // HE-MU
    (2, 6),  // HE-MU, other user
    (1, 1),  // 0-length PSDU
    (2, 4),  // L-SIG
];

/// Where in the spectrum a frame was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channel {
    /// Frequency, MHz.
    pub mhz: u16,
    /// Kind, such as [`OFDM_5GHZ`].
    pub flags: u16,
}

/// What a radio says of a frame; `None`: it does not say.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Radiotap {
    /// The radio's clock when the frame came, us.
    pub time_us: Option<u64>,
    /// Such as [`HAS_FCS`].
    pub flags: Option<u8>,
    /// Rate, in whole 500 kb/s up to 127.5 Mb/s. Those of 802.11n and later are said otherwise, and
    /// not read.
    pub rate: Option<Rate>,
    /// Frequency and band; `None` where the driver does not tell.
    pub channel: Option<Channel>,
    /// Received power, dBm.
    pub signal_dbm: Option<i8>,
    /// Power received while no frame is, dBm; `None` where the driver does not tell.
    pub noise_dbm: Option<i8>,
    /// Such as [`TX_FAILED`]; whoever has them sent the frame.
    pub tx_flags: Option<u16>,
    /// Attempts besides the first.
    pub data_retries: Option<u8>,
}

/// Why octets are no radiotap header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RadiotapError {
    /// Shorter than it says.
    Short,
    /// Another version than 0.
    Version,
    /// Its fields do not fit into it.
    Malformed,
}

impl Radiotap {
    /// Append the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; FIXED]);
        let mut present = 0u32;
        let mut field = |bit: usize, octets: Option<&[u8]>| {
            if let Some(octets) = octets {
                present |= 1 << bit;
                let at = (out.len() - start).next_multiple_of(FIELDS[bit].0);
                out.resize(start + at, 0);
                out.extend_from_slice(octets);
            }
        };
        let units = |r: Rate| (r.0 / 500_000).min(255) as u8;
        let channel = |c: Channel| {
            let ([a, b], [c, d]) = (c.mhz.to_le_bytes(), c.flags.to_le_bytes());
            [a, b, c, d]
        };
        field(
            TSFT,
            self.time_us.map(u64::to_le_bytes).as_ref().map(|o| &o[..]),
        );
        field(FLAGS, self.flags.map(|f| [f]).as_ref().map(|o| &o[..]));
        field(RATE, self.rate.map(|r| [units(r)]).as_ref().map(|o| &o[..]));
        field(CHANNEL, self.channel.map(channel).as_ref().map(|o| &o[..]));
        field(
            SIGNAL,
            self.signal_dbm.map(|d| [d as u8]).as_ref().map(|o| &o[..]),
        );
        field(
            NOISE,
            self.noise_dbm.map(|d| [d as u8]).as_ref().map(|o| &o[..]),
        );
        field(
            TX_FLAGS,
            self.tx_flags.map(u16::to_le_bytes).as_ref().map(|o| &o[..]),
        );
        field(
            DATA_RETRIES,
            self.data_retries.map(|n| [n]).as_ref().map(|o| &o[..]),
        );
        let length = (out.len() - start) as u16;
        out[start + 2..start + 4].copy_from_slice(&length.to_le_bytes());
        out[start + 4..start + FIXED].copy_from_slice(&present.to_le_bytes());
    }

    /// Read the header; gives it and the frame behind it. Fields that we do not know are passed
    /// over, and so is what is said of each antenna by itself.
    ///
    /// # Errors
    /// [`RadiotapError`] says what is wrong.
    pub fn parse(octets: &[u8]) -> Result<(Radiotap, &[u8]), RadiotapError> {
        let fixed: &[u8; FIXED] = octets.first_chunk().ok_or(RadiotapError::Short)?;
        if fixed[0] != 0 {
            return Err(RadiotapError::Version);
        }
        let length = usize::from(u16::from_le_bytes([fixed[2], fixed[3]]));
        if length < FIXED {
            return Err(RadiotapError::Malformed);
        }
        let (header, frame) = octets
            .split_at_checked(length)
            .ok_or(RadiotapError::Short)?;
        let present = word(header, 4)?;
        let (mut at, mut last) = (FIXED, present);
        while last & MORE != 0 {
            last = word(header, at)?;
            at += 4;
        }
        let mut found = Radiotap::default();
        for (bit, (align, size)) in FIELDS.into_iter().enumerate() {
            if present >> bit & 1 == 0 {
                continue;
            }
            let from = at.next_multiple_of(align);
            at = from + size;
            let value = header.get(from..at).ok_or(RadiotapError::Malformed)?;
            found.set(bit, value);
        }
        Ok((found, frame))
    }

    /// A field's octets, as many as [`FIELDS`] says.
    fn set(&mut self, bit: usize, value: &[u8]) {
        let half = |at: usize| u16::from_le_bytes([value[at], value[at + 1]]);
        match bit {
            TSFT => self.time_us = value.first_chunk().map(|o| u64::from_le_bytes(*o)),
            FLAGS => self.flags = Some(value[0]),
            RATE => self.rate = Some(Rate(u64::from(value[0]) * 500_000)),
            CHANNEL => {
                self.channel = Some(Channel {
                    mhz: half(0),
                    flags: half(2),
                });
            }
            SIGNAL => self.signal_dbm = Some(value[0] as i8),
            NOISE => self.noise_dbm = Some(value[0] as i8),
            TX_FLAGS => self.tx_flags = Some(half(0)),
            DATA_RETRIES => self.data_retries = Some(value[0]),
            _ => {}
        }
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags.is_some_and(|f| f & flag != 0)
    }

    /// The frame without its check sequence.
    pub fn without_fcs<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let fcs = if self.has(HAS_FCS) { 4 } else { 0 };
        &frame[..frame.len().saturating_sub(fcs)]
    }
}

fn word(header: &[u8], at: usize) -> Result<u32, RadiotapError> {
    let octets = header.get(at..at + 4).and_then(<[u8]>::first_chunk);
    octets
        .map(|o| u32::from_le_bytes(*o))
        .ok_or(RadiotapError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Radiotap {
        Radiotap {
            time_us: Some(0x0102_0304_0506),
            flags: Some(HAS_FCS | SHORT_PREAMBLE),
            rate: Some(Rate(5_500_000)),
            channel: Some(Channel {
                mhz: 2437,
                flags: CCK_2GHZ,
            }),
            signal_dbm: Some(-71),
            noise_dbm: Some(-94),
            tx_flags: Some(TX_FAILED),
            data_retries: Some(6),
        }
    }

    #[test]
    fn every_subset_of_fields_survives_emit_and_parse() {
        for mask in 0..256 {
            let all = full();
            let has = |bit: u32| mask >> bit & 1 == 1;
            let some = Radiotap {
                time_us: all.time_us.filter(|_| has(0)),
                flags: all.flags.filter(|_| has(1)),
                rate: all.rate.filter(|_| has(2)),
                channel: all.channel.filter(|_| has(3)),
                signal_dbm: all.signal_dbm.filter(|_| has(4)),
                noise_dbm: all.noise_dbm.filter(|_| has(5)),
                tx_flags: all.tx_flags.filter(|_| has(6)),
                data_retries: all.data_retries.filter(|_| has(7)),
            };
            let mut out = Vec::from([9; 3]);
            some.emit(&mut out);
            out.extend_from_slice(&[1, 2, 3, 4, 5]);
            let parsed = Radiotap::parse(&out[3..]);
            assert_eq!(parsed, Ok((some, &[1, 2, 3, 4, 5][..])));
            let kept = if has(1) { 1 } else { 5 };
            assert_eq!(some.without_fcs(&out[out.len() - 5..]).len(), kept);
        }
    }

    #[test]
    fn what_a_driver_writes_with_two_antennas_is_understood() {
        // ath9k: TSFT, flags, rate, channel, signal, antenna, RX flags; then by antenna.
        let mut header = vec![0, 0, 42, 0, 0x2F, 0x48, 0, 0xA0, 0x20, 0x08, 0, 0xA0];
        header.extend([0x20, 0x08, 0, 0]);
        header.extend(77u64.to_le_bytes());
        header.extend([
            0x10, 12, 0x85, 0x09, 0xC0, 0, 0xC8, 1, 0, 0, 0xC8, 0, 0xC3, 1,
        ]);
        header.extend([0, 0, 0, 0]);
        assert_eq!(header.len(), 42);
        let (found, rest) = Radiotap::parse(&header).unwrap();
        assert!(rest.is_empty());
        assert_eq!((found.time_us, found.flags), (Some(77), Some(0x10)));
        assert_eq!(
            (found.rate, found.signal_dbm),
            (Some(Rate(6_000_000)), Some(-56))
        );
        assert_eq!(found.channel.map(|c| c.mhz), Some(2437));
        assert_eq!(found.tx_flags, None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let mut whole = Vec::new();
        full().emit(&mut whole);
        for n in 0..whole.len() {
            assert_eq!(Radiotap::parse(&whole[..n]), Err(RadiotapError::Short));
        }
        let mut other = whole.clone();
        other[0] = 1;
        assert_eq!(Radiotap::parse(&other), Err(RadiotapError::Version));
        let mut small = whole.clone();
        small[2] = 9;
        assert_eq!(Radiotap::parse(&small), Err(RadiotapError::Malformed));
        // Presence words without end.
        let endless = [0, 0, 12, 0, 0, 0, 0, 0x80, 0, 0, 0, 0x80];
        assert_eq!(Radiotap::parse(&endless), Err(RadiotapError::Malformed));
    }
}

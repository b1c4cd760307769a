//! Data frames of 802.11: their header, the LLC/SNAP header of a packet in them, and the check
//! sequence of frames (IEEE 802.11-2020, 9.2 and 9.3.2).

/// A station's address.
pub type Mac = [u8; 6];

/// The identity (BSSID) of the modelled ad-hoc network: locally administered.
pub const NETWORK: Mac = [0x02, b'W', b'i', b'F', b'u', 0];

/// Octets of the header that we write.
pub const HEADER: usize = 24;
/// Octets of the LLC/SNAP header.
pub const SNAP: usize = 8;
/// The type of IPv4 packets.
pub const IPV4: u16 = 0x0800;

/// LLC/SNAP in front of a packet's type (RFC 1042).
const RFC1042: [u8; 6] = [0xAA, 0xAA, 0x03, 0, 0, 0];

// The two octets of frame control.
const KIND: u8 = 0x0F;
const DATA: u8 = 0x08;
const NO_DATA: u8 = 0x40;
const QOS: u8 = 0x80;
const BOTH_DS: u8 = 0x03;
const MORE_FRAGMENTS: u8 = 0x04;
const RETRY: u8 = 0x08;
const PROTECTED: u8 = 0x40;
const ORDER: u8 = 0x80;
/// In the first octet of QoS control: several packets in one frame.
const AGGREGATE: u8 = 0x80;

/// The header of a data frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataHeader {
    /// It is a repetition.
    pub retry: bool,
    /// How long the medium is reserved after it, us.
    pub duration_us: u16,
    /// Which station it is for, group addresses included.
    pub receiver: Mac,
    /// Which station transmits it.
    pub transmitter: Mac,
    /// The third address: in an ad-hoc network, the network's.
    pub third: Mac,
    /// Sequence number, 0 to 4095.
    pub sequence: u16,
}

/// A data frame with a packet in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data<'a> {
    /// Stations and sequence number.
    pub header: DataHeader,
    /// The packet's type, as in Ethernet.
    pub kind: u16,
    /// All octets behind the SNAP header.
    pub packet: &'a [u8],
}

/// Why octets are no packet in a data frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dot11Error {
    /// Shorter than its header.
    Short,
    /// A frame of another kind, or a data frame without data.
    NoData,
    /// Encrypted.
    Protected,
    /// A fragment, or several packets in one frame.
    Pieces,
    /// Something else than LLC/SNAP in it.
    NoSnap,
}

impl DataHeader {
    /// Append the header of a frame of an ad-hoc network.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[DATA, if self.retry { RETRY } else { 0 }]);
        out.extend_from_slice(&self.duration_us.to_le_bytes());
        out.extend_from_slice(&self.receiver);
        out.extend_from_slice(&self.transmitter);
        out.extend_from_slice(&self.third);
        out.extend_from_slice(&(self.sequence << 4).to_le_bytes());
    }
}

/// Append the LLC/SNAP header of a packet of type `kind`.
pub fn emit_snap(kind: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&RFC1042);
    out.extend_from_slice(&kind.to_be_bytes());
}

/// Read a data frame without its check sequence; `padded`: the packet begins at a multiple of 4
/// octets.
///
/// # Errors
/// [`Dot11Error`] says why there is no packet to read.
pub fn parse(frame: &[u8], padded: bool) -> Result<Data<'_>, Dot11Error> {
    let [control, bits, ..] = *frame else {
        return Err(Dot11Error::Short);
    };
    // The type, and a subtype whose bits say what a data frame has and lacks; the version is 0.
    if control & KIND != DATA || control & NO_DATA != 0 {
        return Err(Dot11Error::NoData);
    }
    let fixed: &[u8; HEADER] = frame.first_chunk().ok_or(Dot11Error::Short)?;
    let mac = |at: usize| core::array::from_fn(|i| fixed[at + i]);
    let half = |at: usize| u16::from_le_bytes([fixed[at], fixed[at + 1]]);
    let header = DataHeader {
        retry: bits & RETRY != 0,
        duration_us: half(2),
        receiver: mac(4),
        transmitter: mac(10),
        third: mac(16),
        sequence: half(22) >> 4,
    };
    let mut length = HEADER;
    if bits & BOTH_DS == BOTH_DS {
        length += 6;
    }
    if bits & PROTECTED != 0 {
        return Err(Dot11Error::Protected);
    }
    let mut pieces = bits & MORE_FRAGMENTS != 0 || half(22) & 0xF != 0;
    if control & QOS != 0 {
        pieces |= frame.get(length).ok_or(Dot11Error::Short)? & AGGREGATE != 0;
        length += 2;
        if bits & ORDER != 0 {
            length += 4;
        }
    }
    if pieces {
        return Err(Dot11Error::Pieces);
    }
    if padded {
        length = length.next_multiple_of(4);
    }
    let body = frame.get(length..).ok_or(Dot11Error::Short)?;
    let (snap, packet) = body.split_at_checked(SNAP).ok_or(Dot11Error::Short)?;
    if snap[..6] != RFC1042 {
        return Err(Dot11Error::NoSnap);
    }
    Ok(Data {
        header,
        kind: u16::from_be_bytes([snap[6], snap[7]]),
        packet,
    })
}

/// The check sequence of a frame: CRC-32 of IEEE 802.3. It goes out with its low octet first.
pub fn fcs(octets: &[u8]) -> u32 {
    let step =
        |crc: u32, octet: &u8| TABLE[((crc ^ u32::from(*octet)) & 0xFF) as usize] ^ (crc >> 8);
    !octets.iter().fold(u32::MAX, step)
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let mut crc = n as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                0xEDB8_8320 ^ (crc >> 1)
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: DataHeader = DataHeader {
        retry: true,
        duration_us: 44,
        receiver: [2, 0, 0, 0, 0, 2],
        transmitter: [2, 0, 0, 0, 0, 1],
        third: [2, 7, 7, 7, 7, 0],
        sequence: 4095,
    };

    fn frame() -> Vec<u8> {
        let mut out = Vec::new();
        FRAME.emit(&mut out);
        emit_snap(IPV4, &mut out);
        out.extend([0x45, 1, 2, 3]);
        out
    }

    #[test]
    fn the_check_sequence_is_that_of_ieee_802() {
        assert_eq!(fcs(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn a_frame_survives_emit_and_parse() {
        let out = frame();
        assert_eq!(out.len(), HEADER + SNAP + 4);
        let data = Data {
            header: FRAME,
            kind: IPV4,
            packet: &[0x45, 1, 2, 3],
        };
        assert_eq!(parse(&out, false), Ok(data));
        assert_eq!(parse(&out, true), Ok(data));
        for n in 0..HEADER + SNAP {
            assert_eq!(parse(&out[..n], false), Err(Dot11Error::Short));
        }
    }

    #[test]
    fn what_comes_between_header_and_packet_is_passed_over() {
        let whole = frame();
        let put = |control: u8, bits: u8, between: &[u8]| {
            let mut out = whole.clone();
            out[0] |= control;
            out[1] |= bits;
            out.splice(HEADER..HEADER, between.iter().copied());
            out
        };
        let packet = |out: &[u8], padded| parse(out, padded).map(|d| d.packet.to_vec());
        let wanted = Ok(vec![0x45, 1, 2, 3]);
        assert_eq!(packet(&put(QOS, 0, &[0, 0]), false), wanted);
        assert_eq!(packet(&put(QOS, 0, &[0; 4]), true), wanted);
        assert_eq!(packet(&put(QOS, ORDER, &[0; 6]), false), wanted);
        assert_eq!(packet(&put(0, BOTH_DS, &[2; 6]), false), wanted);
        assert_eq!(packet(&put(QOS, BOTH_DS, &[0; 8]), true), wanted);
    }

    #[test]
    fn frames_without_a_packet_to_read_are_told_apart() {
        let with = |at: usize, bits: u8| {
            let mut out = frame();
            out[at] |= bits;
            out
        };
        let why = |out: &[u8]| parse(out, false).unwrap_err();
        assert_eq!(why(&with(0, NO_DATA)), Dot11Error::NoData);
        assert_eq!(why(&with(0, 0x04)), Dot11Error::NoData);
        assert_eq!(why(&[0x80; 60]), Dot11Error::NoData, "a beacon");
        assert_eq!(why(&[0xD4, 0, 0, 0]), Dot11Error::NoData, "an ACK");
        assert_eq!(why(&with(1, PROTECTED)), Dot11Error::Protected);
        assert_eq!(why(&with(1, MORE_FRAGMENTS)), Dot11Error::Pieces);
        assert_eq!(why(&with(22, 1)), Dot11Error::Pieces);
        assert_eq!(why(&with(HEADER, 1)), Dot11Error::NoSnap);
        let mut many = with(0, QOS);
        many.splice(HEADER..HEADER, [AGGREGATE, 0]);
        assert_eq!(why(&many), Dot11Error::Pieces);
    }
}

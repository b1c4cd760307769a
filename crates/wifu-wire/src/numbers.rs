//! IP protocol numbers: those of the registered compositions, for those who know a number and no
//! composition (sockets, C programs; a test holds compositions and `wifu.h` against it), and those
//! of kernels' own protocols.

/// TCP proper.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;

/// Names and numbers.
pub const NUMBERS: [(&str, u8); 12] = [
    ("tcp-tahoe", 207),
    ("tcp-ap05", 211),
    ("tcp-ap11", 212),
    ("tcp-reno", 214),
    ("tcp-newreno", 215),
    ("tcp-sack", 216),
    ("tcp-cubic", 220),
    ("tcp-linux", 221),
    ("tcp-linux-reno", 222),
    ("tcp-vegas", 223),
    ("tcp-dctcp", 224),
    ("tcp-bbr", 225),
];

/// The composition of this IP protocol number.
pub fn composition(number: u8) -> Option<&'static str> {
    let found = NUMBERS.iter().find(|n| n.1 == number);
    found.map(|n| n.0)
}

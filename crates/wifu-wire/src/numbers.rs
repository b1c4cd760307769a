//! IP protocol numbers of the registered compositions, for those who know a number and no
//! composition: sockets, C programs. A test holds compositions and `wifu.h` against it.

/// Names and numbers.
pub const NUMBERS: [(&str, u8); 5] = [
    ("tcp-tahoe", 207),
    ("tcp-reno", 214),
    ("tcp-newreno", 215),
    ("tcp-sack", 216),
    ("tcp-cubic", 220),
];

/// The composition of this IP protocol number.
pub fn composition(number: u8) -> Option<&'static str> {
    let found = NUMBERS.iter().find(|n| n.1 == number);
    found.map(|n| n.0)
}

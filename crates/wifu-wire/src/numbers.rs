//! IP protocol numbers: those of the compositions that come with WiFu, for those who know a number
//! and no composition (sockets, C programs), and those of kernels' own protocols.

/// TCP proper.
pub const TCP: u8 = 6;
/// User datagrams, RFC 768.
pub const UDP: u8 = 17;

/// The compositions that come with WiFu. Their numbers are written there and nowhere else but in
/// `wifu.h`, which a test holds against it. Only two forms of line are read here: who has sockets
/// alone needs no TOML.
const COMPOSITIONS: &str = concat!(
    include_str!("../../wifu-parts/src/protocols/tcp.toml"),
    include_str!("../../wifu-parts/src/protocols/atp.toml"),
    include_str!("../../wifu-parts/src/protocols/tp-alpha.toml"),
    include_str!("../../wifu-parts/src/protocols/hxh.toml"),
    include_str!("../../wifu-parts/src/protocols/hop.toml")
);

/// Names and numbers, in the order of the file.
pub fn numbers() -> impl Iterator<Item = (&'static str, u8)> {
    let mut name = None;
    COMPOSITIONS.lines().filter_map(move |line| {
        if let Some(table) = line.strip_prefix('[') {
            name = table
                .strip_prefix("protocol.")
                .and_then(|t| t.strip_suffix(']'));
        }
        let number = line.strip_prefix("number = ")?.parse().ok()?;
        Some((name?, number))
    })
}

/// The composition of this IP protocol number.
pub fn composition(number: u8) -> Option<&'static str> {
    numbers().find(|n| n.1 == number).map(|n| n.0)
}

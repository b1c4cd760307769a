//! The abstract UNIX names of bound sockets and of accepted connections, and the marker that opens
//! an accepted connection.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Length of the first bytes on an accepted connection, from the application to the daemon.
pub const MARKER_LEN: usize = 9;
/// The longest abstract name of this module, bytes.
pub const MAX_NAME_LEN: usize = 106;

/// The first bytes that the library sends on an accepted connection: the cookie of the
/// application's socket, whose last byte the daemon holds (`hold`) or not.
pub fn marker(cookie: u64, hold: bool) -> [u8; MARKER_LEN] {
    let mut b = [0; MARKER_LEN];
    b[0] = if hold { b'A' } else { b'a' };
    b[1..].copy_from_slice(&cookie.to_le_bytes());
    b
}

/// Reads what [`marker`] wrote: the cookie, and whether a byte may be held.
pub fn parse_marker(b: &[u8; MARKER_LEN]) -> Option<(u64, bool)> {
    let hold = match b[0] {
        b'A' => true,
        b'a' => false,
        _ => return None,
    };
    Some((u64::from_le_bytes(*b.last_chunk()?), hold))
}

/// An abstract UNIX name, with its leading NUL.
#[derive(Clone, Copy)]
pub struct Name {
    bytes: [u8; MAX_NAME_LEN],
    len: usize,
}

/// What a program has from the daemon before it changes its root: where the daemon is to be found
/// behind it, by an abstract name, which needs no path; and what makes it open there, for anybody
/// may connect to such a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; Key::LEN]);

impl Key {
    /// Length of its text, octets.
    pub const LEN: usize = 64;

    /// The key of these random numbers.
    pub fn new(random: &[u8; Key::LEN / 2]) -> Key {
        let mut text = [0; Key::LEN];
        for (pair, octet) in text.chunks_exact_mut(2).zip(random) {
            let digit = |n: u8| b"0123456789abcdef"[usize::from(n)];
            pair.copy_from_slice(&[digit(octet >> 4), digit(octet & 15)]);
        }
        Key(text)
    }

    /// The key with this text, or `None` if that is none.
    pub fn parse(text: &[u8]) -> Option<Key> {
        let text: [u8; Key::LEN] = text.try_into().ok()?;
        let is_digit = |c: &u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        text.iter().all(is_digit).then_some(Key(text))
    }

    /// All of it.
    pub fn text(&self) -> &str {
        core::str::from_utf8(&self.0).unwrap_or("")
    }

    /// The half that is no secret: where the daemon listens.
    pub fn name(&self) -> Name {
        let mut n = Name {
            bytes: [0; MAX_NAME_LEN],
            len: 0,
        };
        n.push(DOOR);
        n.push(&self.0[..Key::LEN / 2]);
        n
    }

    /// The other half.
    pub fn secret(&self) -> &str {
        self.text().get(Key::LEN / 2..).unwrap_or("")
    }
}

const DOOR: &[u8] = b"\0wifu/d/";
const SERVICE: &[u8] = b"\0wifu/s/";
const PEER: &[u8] = b"\0wifu/p/";

impl Name {
    /// The name of an application's socket that is bound to `local` beside others: the `nth` one,
    /// from 0 on, which is [`Name::service`].
    pub fn service_nth(local: SocketAddr, nth: u8) -> Name {
        let mut n = Name::service(local);
        if nth > 0 {
            n.push(b"/");
            n.push_number(u64::from(nth));
        }
        n
    }

    /// The name of an application's socket that is bound to `local`.
    pub fn service(local: SocketAddr) -> Name {
        let mut n = Name {
            bytes: [0; MAX_NAME_LEN],
            len: 0,
        };
        n.push(SERVICE);
        n.push_addr(local);
        n
    }

    /// The name of the daemon's end of an accepted connection; `id` makes it unique.
    pub fn peer(remote: SocketAddr, local: SocketAddr, id: u64) -> Name {
        let mut n = Name {
            bytes: [0; MAX_NAME_LEN],
            len: 0,
        };
        n.push(PEER);
        n.push_addr(remote);
        n.push(b"/");
        n.push_addr(local);
        n.push(b"/");
        n.push_number(id);
        n
    }

    /// The bytes for `sun_path`, leading NUL included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, b: &[u8]) {
        self.bytes[self.len..self.len + b.len()].copy_from_slice(b);
        self.len += b.len();
    }

    /// Of IPv4 with dots; of IPv6 all 32 digits, so that equal addresses have equal names.
    fn push_addr(&mut self, a: SocketAddr) {
        match a.ip() {
            IpAddr::V4(ip) => {
                for (i, octet) in ip.octets().into_iter().enumerate() {
                    if i > 0 {
                        self.push(b".");
                    }
                    self.push_number(u64::from(octet));
                }
            }
            IpAddr::V6(ip) => {
                let digit = |n: u8| b"0123456789abcdef"[usize::from(n)];
                for octet in ip.octets() {
                    self.push(&[digit(octet >> 4), digit(octet & 15)]);
                }
            }
        }
        self.push(b"/");
        self.push_number(u64::from(a.port()));
    }

    fn push_number(&mut self, n: u64) {
        // Twenty digits hold any u64.
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut rest = n;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.push(&digits[at..]);
    }
}

/// The address in a name made by [`Name::service_nth`], and the number.
pub fn parse_service(name: &[u8]) -> Option<(SocketAddr, u8)> {
    let (addr, rest) = take_addr(name.strip_prefix(SERVICE)?)?;
    let Some(rest) = rest.strip_prefix(b"/") else {
        return rest.is_empty().then_some((addr, 0));
    };
    let (nth, rest) = take_number(rest)?;
    let nth = u8::try_from(nth).ok().filter(|n| *n > 0)?;
    rest.is_empty().then_some((addr, nth))
}

/// Remote address, local address and id in a name made by [`Name::peer`].
pub fn parse_peer(name: &[u8]) -> Option<(SocketAddr, SocketAddr, u64)> {
    let (remote, rest) = take_addr(name.strip_prefix(PEER)?)?;
    let (local, rest) = take_addr(rest.strip_prefix(b"/")?)?;
    let (id, rest) = take_number(rest.strip_prefix(b"/")?)?;
    rest.is_empty().then_some((remote, local, id))
}

fn take_addr(b: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let (ip, rest): (IpAddr, _) = match take_v4(b) {
        Some((ip, rest)) => (ip.into(), rest),
        None => take_v6(b).map(|(ip, rest)| (ip.into(), rest))?,
    };
    let (port, rest) = take_number(rest)?;
    Some((SocketAddr::new(ip, u16::try_from(port).ok()?), rest))
}

fn take_v4(mut b: &[u8]) -> Option<(Ipv4Addr, &[u8])> {
    let mut octets = [0; 4];
    for (octet, end) in octets.iter_mut().zip([b".", b".", b".", b"/"]) {
        let (n, rest) = take_number(b)?;
        *octet = u8::try_from(n).ok()?;
        b = rest.strip_prefix(end)?;
    }
    Some((Ipv4Addr::from(octets), b))
}

fn take_v6(b: &[u8]) -> Option<(Ipv6Addr, &[u8])> {
    let (digits, rest) = b.split_first_chunk::<32>()?;
    let mut bits = 0;
    for digit in digits {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        bits = bits << 4 | u128::from(value);
    }
    Some((Ipv6Addr::from_bits(bits), rest.strip_prefix(b"/")?))
}

/// A decimal number without leading zeros, so that equal addresses have equal names.
fn take_number(b: &[u8]) -> Option<(u64, &[u8])> {
    let len = b.iter().take_while(|c| c.is_ascii_digit()).count();
    if len == 0 || (len > 1 && b[0] == b'0') {
        return None;
    }
    let mut n = 0u64;
    for c in &b[..len] {
        n = n.checked_mul(10)?.checked_add(u64::from(c - b'0'))?;
    }
    Some((n, &b[len..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(ip: [u8; 4], port: u16) -> SocketAddr {
        SocketAddr::new(ip.into(), port)
    }

    #[test]
    fn names_of_ipv6_survive_and_fit_whatever_they_are() {
        let local: SocketAddr = "[::1]:80".parse().unwrap();
        let name = Name::service(local);
        let text = b"\0wifu/s/00000000000000000000000000000001/80";
        assert_eq!(name.as_bytes(), text);
        assert_eq!(parse_service(name.as_bytes()), Some((local, 0)));
        let longest = SocketAddr::new([0xff; 16].into(), 65_535);
        let name = Name::peer(longest, longest, u64::MAX);
        // What `sun_path` holds, less one for those who end it with a NUL.
        assert!(name.as_bytes().len() <= 107);
        let parsed = Some((longest, longest, u64::MAX));
        assert_eq!(parse_peer(name.as_bytes()), parsed);
        let mixed = Name::peer(local, addr([10, 0, 0, 1], 9), 7);
        assert_eq!(
            parse_peer(mixed.as_bytes()),
            Some((local, addr([10, 0, 0, 1], 9), 7))
        );
        for bad in [
            "0000000000000000000000000000001/80",
            "000000000000000000000000000000001/80",
            "0000000000000000000000000000000A/80",
            "00000000000000000000000000000001",
            "::1/80",
        ] {
            let name = [SERVICE, bad.as_bytes()].concat();
            assert_eq!(parse_service(&name), None, "{bad}");
        }
    }

    #[test]
    fn names_survive_and_are_canonical() {
        let local = addr([0, 10, 200, 255], 80);
        let remote = addr([255, 255, 255, 255], 65535);
        let name = Name::service(local);
        assert_eq!(name.as_bytes(), b"\0wifu/s/0.10.200.255/80");
        assert_eq!(parse_service(name.as_bytes()), Some((local, 0)));
        let name = Name::service_nth(local, 255);
        assert_eq!(name.as_bytes(), b"\0wifu/s/0.10.200.255/80/255");
        assert_eq!(parse_service(name.as_bytes()), Some((local, 255)));
        assert_eq!(
            Name::service_nth(local, 0).as_bytes(),
            Name::service(local).as_bytes()
        );
        let name = Name::peer(remote, remote, u64::MAX);
        assert!(name.as_bytes().len() <= MAX_NAME_LEN);
        assert_eq!(
            parse_peer(name.as_bytes()),
            Some((remote, remote, u64::MAX))
        );
        for bad in [
            "1.2.3.4/080",
            "1.2.3.4/65536",
            "1.2.3/80",
            "256.0.0.1/1",
            "1.2.3.4/80/",
            "1.2.3.4/80/0",
            "1.2.3.4/80/256",
            "1.2.3.4/80/1/",
        ] {
            let name = [SERVICE, bad.as_bytes()].concat();
            assert_eq!(parse_service(&name), None, "{bad}");
        }
        assert_eq!(parse_service(b"\0wifu/p/1.2.3.4/80"), None);
    }

    #[test]
    fn a_key_is_a_name_and_a_secret() {
        let mut random = [0; Key::LEN / 2];
        random[..2].copy_from_slice(&[0x0f, 0xa9]);
        random[31] = 7;
        let key = Key::new(&random);
        let name = key.name();
        assert!(name.as_bytes().starts_with(b"\0wifu/d/0fa90000"));
        assert_eq!(name.as_bytes().len(), 8 + 32);
        assert_eq!(key.secret(), format!("{}07", "0".repeat(30)));
        assert!(Key::parse(key.text().as_bytes()) == Some(key));
        for bad in ["", "0fa9", &"A".repeat(64), &"0".repeat(65)] {
            assert!(Key::parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn markers_survive() {
        assert_eq!(
            parse_marker(&marker(0x0102_0304_0506_0708, true)),
            Some((0x0102_0304_0506_0708, true))
        );
        assert_eq!(parse_marker(&marker(3, false)), Some((3, false)));
        assert_eq!(parse_marker(b"GET / HTT"), None);
    }
}

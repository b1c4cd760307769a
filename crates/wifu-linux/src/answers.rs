//! What the kernel answers by netlink, as far as it is understood: by fuzz targets.

use crate::netlink::Messages;
use crate::{neighbours, wifi};

/// Understand a datagram as answers about routes, neighbours, addresses, interfaces and Wi-Fi,
/// each as all of them; nothing comes of it.
///
/// # Panics
/// If what was understood cannot be.
pub fn understand(datagram: &[u8]) {
    let mut octets = 0;
    for message in Messages(datagram).map_while(Result::ok) {
        let body = message.body();
        octets += body.len();
        neighbours::understand(body);
        wifi::understand(body);
    }
    assert!(octets <= datagram.len(), "{octets} of {}", datagram.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute;
    use wifu_wire::Rng;

    /// Answers of Linux 6.12 for a radio of mac80211_hwsim, as tools/hwsim.sh has them, and those
    /// about a route, a neighbour, an address and an interface.
    fn answers() -> Vec<Vec<u8>> {
        let hex = concat!(
            include_str!("wifi/answers/interface.hex"),
            include_str!("wifi/answers/stations.hex"),
            include_str!("wifi/answers/survey.hex"),
        );
        let octet = |two: &[u8]| {
            let text = core::str::from_utf8(two).expect("hex");
            u8::from_str_radix(text, 16).expect("hex")
        };
        let line = |l: &str| l.as_bytes().chunks(2).map(octet).collect();
        let mut all: Vec<Vec<u8>> = hex.lines().map(line).collect();
        for (header, attributes) in [
            (
                &[2, 32, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0][..],
                [(4, 4), (5, 4)],
            ),
            (&[2, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 1], [(1, 4), (2, 6)]),
            (&[2, 24, 0, 0, 3, 0, 0, 0], [(2, 4), (3, 5)]),
            (
                &[0, 0, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                [(3, 5), (4, 4)],
            ),
        ] {
            let mut body = header.to_vec();
            for (kind, length) in attributes {
                attribute(&mut body, kind, &[7; 6][..length]);
            }
            all.push(body);
        }
        all
    }

    /// Several in one datagram, as a dump has them.
    fn datagram(bodies: &[Vec<u8>]) -> Vec<u8> {
        let mut all = Vec::new();
        for body in bodies {
            all.extend((16 + body.len() as u32).to_ne_bytes());
            all.extend([0; 12]);
            all.extend(body);
            all.resize(all.len().next_multiple_of(4), 0);
        }
        all
    }

    #[test]
    fn messages_are_found_one_behind_the_other_until_one_is_too_long() {
        let bodies = [vec![1; 5], vec![2; 8], vec![], vec![3; 3]];
        let mut all = datagram(&bodies);
        let found = |all: &[u8]| -> Vec<Option<Vec<u8>>> {
            let each = Messages(all).map(|m| m.ok().map(|m| m.body().to_vec()));
            each.collect()
        };
        assert_eq!(found(&all), bodies.clone().map(Some));
        // The second one claims to be longer than what is left.
        all[24] = 200;
        assert_eq!(found(&all), [Some(bodies[0].clone()), None]);
        all[24] = 15;
        assert_eq!(found(&all), [Some(bodies[0].clone()), None]);
    }

    #[test]
    fn answers_survive_any_change() {
        let bodies = answers();
        assert!(bodies.len() > 15, "{}", bodies.len());
        let mut rng = Rng::new(8);
        for _ in 0..50_000 {
            let first = rng.below(bodies.len() as u64) as usize;
            let some = &bodies[first..bodies.len().min(first + 3)];
            let mut octets = datagram(some);
            for _ in 0..1 + rng.below(4) {
                let at = rng.below(octets.len() as u64) as usize;
                match rng.below(8) {
                    0 => octets.truncate(at + 1),
                    1 => octets.extend_from_within(at..),
                    // Lengths and kinds are small.
                    2 => octets[at] = rng.below(32) as u8,
                    _ => octets[at] = rng.next_u32() as u8,
                }
            }
            understand(&octets);
            let noise: Vec<u8> = (0..rng.below(120)).map(|_| rng.below(20) as u8).collect();
            understand(&datagram(std::slice::from_ref(&noise)));
            understand(&noise);
        }
    }
}

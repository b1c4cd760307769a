//! Who is at the other end of a link.

use core::fmt;
use core::num::NonZeroU16;

/// A neighbour: by which device it is reached, and its link-layer address there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Neighbour {
    /// Number of the device, from 1: the interface index, live.
    pub device: NonZeroU16,
    /// Link-layer address.
    pub address: [u8; 6],
}

/// To whom a packet is sent over the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinkTo {
    /// The next hop of the route to its destination.
    #[default]
    Route,
    /// This neighbour: the last transmitter, say.
    Neighbour(Neighbour),
    /// All who hear it.
    All,
}

impl Neighbour {
    /// A neighbour; `None` for device 0, which is none.
    pub fn new(device: u16, address: [u8; 6]) -> Option<Neighbour> {
        let device = NonZeroU16::new(device)?;
        Some(Neighbour { device, address })
    }
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.address;
        let device = self.device;
        write!(
            f,
            "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}%{device}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_is_an_address_behind_a_device() {
        let n = Neighbour::new(3, [2, 0, 0, 0, 1, 255]).unwrap();
        assert_eq!(n.to_string(), "02:00:00:00:01:ff%3");
        assert_eq!(Neighbour::new(0, [0; 6]), None);
    }
}

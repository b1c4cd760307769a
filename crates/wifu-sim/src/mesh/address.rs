//! Addresses of nodes.

use core::net::Ipv4Addr;

/// The address of a node: 10.0.0.1 is number 0.
pub(crate) fn address(node: u16) -> Ipv4Addr {
    let [high, low] = (node.wrapping_add(1)).to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

/// The node of an address; [`NOBODY`] of one that no node has.
pub(crate) fn node_of(address: Ipv4Addr) -> u16 {
    match address.octets() {
        [10, 0, high, low] => u16::from_be_bytes([high, low]).wrapping_sub(1),
        _ => NOBODY,
    }
}

/// A number that no node has: its address would be 10.0.0.0.
pub(crate) const NOBODY: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbers() {
        assert_eq!(address(0), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(address(255), Ipv4Addr::new(10, 0, 1, 0));
        for node in [0, 1, 254, 255, 256, 9999] {
            assert_eq!(node_of(address(node)), node);
        }
        assert_eq!(node_of(Ipv4Addr::new(192, 168, 0, 3)), NOBODY);
        assert_eq!(node_of(Ipv4Addr::BROADCAST), NOBODY);
    }
}

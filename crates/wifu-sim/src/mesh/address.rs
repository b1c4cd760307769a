//! Addresses of nodes.

use core::net::Ipv4Addr;

/// The address of a node: 10.0.0.1 is number 0.
pub(crate) fn address(node: u16) -> Ipv4Addr {
    let [high, low] = (node.wrapping_add(1)).to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

/// The node of an address.
pub(crate) fn node_of(address: Ipv4Addr) -> u16 {
    let [_, _, high, low] = address.octets();
    u16::from_be_bytes([high, low]).wrapping_sub(1)
}

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
    }
}

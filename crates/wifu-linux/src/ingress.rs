//! Which received packets the ring takes, said twice: as a socket filter of the ring, and as a
//! program on the interfaces' ingress that drops exactly those, so that the kernel's IP layer
//! spends nothing on them. Everything else (other interfaces, other addresses, what is forwarded)
//! takes the ordinary way to the raw sockets; nothing comes twice and nothing is lost between the
//! two.
//!
//! The program is attached by a BPF link (tcx, Linux 6.6): it goes when its descriptor is closed,
//! however the process ends.

use crate::bpf;
use crate::sys::{BPF_RETURN, instruction};
use core::net::Ipv4Addr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use wifu_wire::numbers::UDP;
use wifu_wire::over_udp::KIND;

/// What the ring takes: packets of these protocols, to these addresses, in frames of no VLAN
/// addressed to this host, on these interfaces. Of protocols that this host relays, packets to any
/// address, and in frames to all hosts; but fragments of those for this host the kernel puts
/// together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Indices of the interfaces, as the kernel numbers them.
    pub interfaces: Vec<i32>,
    /// IPv4 protocol numbers.
    pub protocols: Vec<u8>,
    /// IPv4 protocol numbers whose packets are taken wherever they are bound.
    pub relayed: Vec<u8>,
    /// UDP ports of services: datagrams to or from one of them that are for others. Not those that
    /// the carrier `udp` wraps: no node has anything to do with them, and the kernel may hold
    /// several as one, without checksums.
    pub services: Vec<u16>,
    /// This host's addresses, one of which a packet has to be for.
    pub addresses: Vec<Ipv4Addr>,
}

/// Longest list in a program: jumps of the socket filter reach 255 instructions.
const LIST: usize = 200;
/// ... of ports.
pub const SERVICES: usize = 15;

impl Selection {
    /// Cut lists that are too long for the programs. What is cut takes the ordinary way.
    pub fn bounded(mut self) -> Selection {
        self.interfaces.truncate(LIST);
        self.protocols.truncate(LIST);
        self.relayed.truncate(LIST);
        self.services.truncate(SERVICES);
        self.addresses.truncate(LIST);
        self
    }

    /// The ring's socket filter: classic BPF, on a packet that begins with its IP header.
    pub(crate) fn filter(&self) -> Vec<libc::sock_filter> {
        const LOAD_WORD: u16 = 0x20;
        const LOAD_HALF: u16 = 0x28;
        const LOAD_BYTE: u16 = 0x30;
        const JUMP_EQUAL: u16 = 0x15;
        const JUMP_SET: u16 = 0x45;
        const JUMP: u16 = 0x05;
        const AND: u16 = 0x54;
        let mut program = Vec::new();
        let check = |program: &mut Vec<_>, load: u16, at: u32, values: &[u32]| {
            program.push(instruction(load, 0, 0, at));
            for (i, value) in values.iter().enumerate() {
                // Past the other values and the return.
                let skip = (values.len() - i) as u8;
                program.push(instruction(JUMP_EQUAL, skip, 0, *value));
            }
            program.push(instruction(BPF_RETURN, 0, 0, 0));
        };
        // linux/filter.h: SKF_AD_OFF and below it PROTOCOL, PKTTYPE, IFINDEX, VLAN_TAG.
        let ancillary = |field: i32| (-0x1000 + field) as u32;
        let all = &mut program;
        check(all, LOAD_WORD, ancillary(4), self.frame_values());
        all.push(instruction(LOAD_WORD, 0, 0, ancillary(44)));
        all.push(instruction(AND, 0, 0, VLAN));
        all.push(instruction(JUMP_EQUAL, 1, 0, 0));
        all.push(instruction(BPF_RETURN, 0, 0, 0));
        check(all, LOAD_WORD, ancillary(0), &[libc::ETH_P_IP as u32]);
        check(all, LOAD_WORD, ancillary(8), &self.interface_values());
        let addresses = self.address_values();
        if !self.services.is_empty() {
            all.extend(self.udp_filter());
        }
        all.push(instruction(LOAD_BYTE, 0, 0, IP_PROTOCOL));
        for (i, number) in self.relayed.iter().enumerate() {
            // Past the other numbers and the jump.
            let skip = (self.relayed.len() - i) as u8;
            all.push(instruction(JUMP_EQUAL, skip, 0, u32::from(*number)));
        }
        all.push(instruction(JUMP, 0, 0, addresses.len() as u32 + 6));
        all.push(instruction(LOAD_HALF, 0, 0, IP_FRAGMENT));
        all.push(instruction(JUMP_SET, 1, 0, FRAGMENT));
        all.push(instruction(BPF_RETURN, 0, 0, u32::from(u16::MAX)));
        all.push(instruction(LOAD_WORD, 0, 0, IP_DESTINATION));
        for (i, address) in addresses.iter().enumerate() {
            // Past the other addresses and the return.
            let skip = (addresses.len() - i) as u8;
            all.push(instruction(JUMP_EQUAL, skip, 0, *address));
        }
        all.push(instruction(BPF_RETURN, 0, 0, u32::from(u16::MAX)));
        all.push(instruction(BPF_RETURN, 0, 0, 0));
        check(all, LOAD_BYTE, IP_PROTOCOL, &self.protocol_values());
        check(all, LOAD_WORD, IP_DESTINATION, &addresses);
        all.push(instruction(BPF_RETURN, 0, 0, u32::from(u16::MAX)));
        program
    }

    /// Of the filter, what takes datagrams of services that are for others. All else goes on behind
    /// it, but what is for this host: that is the kernel's.
    fn udp_filter(&self) -> Vec<libc::sock_filter> {
        const JUMP: u16 = 0x05;
        const JUMP_EQUAL: u16 = 0x15;
        const JUMP_SET: u16 = 0x45;
        const WORD: u16 = 0x20;
        const HALF: u16 = 0x28;
        const BYTE: u16 = 0x30;
        let ask = [
            // linux/filter.h: SKF_AD_OFF + SKF_AD_PKTTYPE.
            ((WORD, (-0x1000 + 4) as u32), PACKET_HOST),
            ((BYTE, IP_PROTOCOL), u32::from(UDP)),
            ((BYTE, 0), PLAIN),
        ];
        let addresses = self.address_values();
        // What follows the questions, from the end on.
        let mut end: Vec<libc::sock_filter> = vec![instruction(WORD, 0, 0, IP_DESTINATION)];
        for (i, address) in addresses.iter().enumerate() {
            let skip = (addresses.len() - i) as u8;
            end.push(instruction(JUMP_EQUAL, skip, 0, *address));
        }
        end.push(instruction(BPF_RETURN, 0, 0, u32::from(u16::MAX)));
        end.push(instruction(BPF_RETURN, 0, 0, 0));
        let ports = self.services.len();
        let mut program: Vec<libc::sock_filter> = Vec::new();
        // Each question takes three instructions, those of fragments and of what is wrapped as
        // well, and each of the two ports one for its load and one for each value, and a jump for
        // none.
        let length = 3 * ask.len() + 6 + 2 * (1 + ports) + 1 + end.len();
        let out = |program: &Vec<libc::sock_filter>| (length - program.len() - 1) as u32;
        for ((load, at), wanted) in ask {
            program.push(instruction(load, 0, 0, at));
            program.push(instruction(JUMP_EQUAL, 1, 0, wanted));
            program.push(instruction(JUMP, 0, 0, out(&program)));
        }
        program.push(instruction(HALF, 0, 0, IP_FRAGMENT));
        program.push(instruction(JUMP_SET, 0, 1, FRAGMENT));
        program.push(instruction(JUMP, 0, 0, out(&program)));
        program.push(instruction(BYTE, 0, 0, UDP_PAYLOAD));
        program.push(instruction(JUMP_EQUAL, 0, 1, u32::from(KIND)));
        program.push(instruction(JUMP, 0, 0, out(&program)));
        for (n, at) in [UDP_PORTS, UDP_PORTS + 2].into_iter().enumerate() {
            program.push(instruction(HALF, 0, 0, at));
            for (i, port) in self.services.iter().enumerate() {
                // Past the other ports, those of the second load, and the jump.
                let skip = ports - i - 1 + if n == 0 { 1 + ports } else { 0 } + 1;
                program.push(instruction(JUMP_EQUAL, skip as u8, 0, u32::from(*port)));
            }
        }
        program.push(instruction(JUMP, 0, 0, out(&program)));
        program.extend(end);
        program
    }

    /// The same without the interfaces, for eBPF: drop, or pass on.
    fn program(&self) -> Vec<u64> {
        let mut all = begin(self.frame_values());
        let addresses = self.address_values();
        if !self.services.is_empty() {
            all.extend(self.udp_program());
        }
        // The kernel refuses programs with instructions that nothing reaches.
        if !self.relayed.is_empty() {
            all.push(packet(LOAD_BYTE, IP_PROTOCOL));
            for (i, number) in self.relayed.iter().enumerate() {
                let skip = (self.relayed.len() - i) as i16;
                all.push(ebpf(JUMP32_EQUAL, 0, skip, i32::from(*number)));
            }
            let exempt = exempt(&addresses, &[]);
            all.push(ebpf(JUMP, 0, exempt.len() as i16 + 4, 0));
            all.push(packet(LOAD_HALF, IP_FRAGMENT));
            all.push(ebpf(JUMP32_SET, 0, 2, FRAGMENT as i32));
            all.extend(end(TCX_DROP));
            all.extend(exempt);
        }
        if self.protocols.is_empty() || self.addresses.is_empty() {
            all.extend(end(TCX_NEXT));
            return all;
        }
        only(
            &mut all,
            packet(LOAD_BYTE, IP_PROTOCOL),
            &self.protocol_values(),
        );
        only(&mut all, packet(LOAD_WORD, IP_DESTINATION), &addresses);
        all.extend(end(TCX_DROP));
        all
    }

    /// Of the program, what drops datagrams of services that are for others.
    fn udp_program(&self) -> Vec<u64> {
        let others = self.address_values();
        let mut end = vec![packet(LOAD_WORD, IP_DESTINATION)];
        for (i, address) in others.iter().enumerate() {
            let skip = (others.len() - i + 1) as i16;
            end.push(ebpf(JUMP32_EQUAL, 0, skip, *address as i32));
        }
        end.extend(self::end(TCX_DROP));
        let ports = self.services.len();
        let asked = [
            // Offset in struct __sk_buff: pkt_type.
            (ebpf(LOAD_CONTEXT, 0x60, 4, 0), PACKET_HOST),
            (packet(LOAD_BYTE, IP_PROTOCOL), u32::from(UDP)),
            (packet(LOAD_BYTE, 0), PLAIN),
        ];
        // As in the filter, with two jumps more.
        let length = 3 * asked.len() + 8 + 2 * (1 + ports) + 1 + end.len();
        let out = |program: &Vec<u64>| ebpf(JUMP, 0, (length - program.len() - 1) as i16, 0);
        let mut program = Vec::new();
        for (load, wanted) in asked {
            program.push(load);
            program.push(ebpf(JUMP32_EQUAL, 0, 1, wanted as i32));
            program.push(out(&program));
        }
        program.push(packet(LOAD_HALF, IP_FRAGMENT));
        program.push(ebpf(JUMP32_SET, 0, 1, FRAGMENT as i32));
        program.push(ebpf(JUMP, 0, 1, 0));
        program.push(out(&program));
        program.push(packet(LOAD_BYTE, UDP_PAYLOAD));
        program.push(ebpf(JUMP32_EQUAL, 0, 1, i32::from(KIND)));
        program.push(ebpf(JUMP, 0, 1, 0));
        program.push(out(&program));
        for (n, at) in [UDP_PORTS, UDP_PORTS + 2].into_iter().enumerate() {
            program.push(packet(LOAD_HALF, at));
            for (i, port) in self.services.iter().enumerate() {
                let skip = ports - i - 1 + if n == 0 { 1 + ports } else { 0 } + 1;
                program.push(ebpf(JUMP32_EQUAL, 0, skip as i16, i32::from(*port)));
            }
        }
        program.push(out(&program));
        program.extend(end);
        program
    }

    /// Drops packets of what is relayed that are not for this host, and counts them in the first
    /// value of a map.
    pub(crate) fn guard(&self, map: &OwnedFd) -> Vec<u64> {
        let numbers: Vec<u32> = self.relayed.iter().map(|p| u32::from(*p)).collect();
        let mut all = begin(&[PACKET_HOST]);
        only(&mut all, packet(LOAD_BYTE, IP_PROTOCOL), &numbers);
        all.extend(exempt(&self.address_values(), &count(map)));
        all
    }

    /// Kinds of frames: what is for all hosts concerns only who relays.
    fn frame_values(&self) -> &'static [u32] {
        match self.relayed.is_empty() {
            true => &[PACKET_HOST],
            false => &[PACKET_HOST, PACKET_BROADCAST],
        }
    }

    fn interface_values(&self) -> Vec<u32> {
        self.interfaces.iter().map(|i| *i as u32).collect()
    }

    fn protocol_values(&self) -> Vec<u32> {
        self.protocols.iter().map(|p| u32::from(*p)).collect()
    }

    fn address_values(&self) -> Vec<u32> {
        self.addresses.iter().map(|a| u32::from(*a)).collect()
    }
}

/// linux/if_packet.h: addressed to this host's station.
const PACKET_HOST: u32 = 0;
/// To all hosts of the link.
pub(crate) const PACKET_BROADCAST: u32 = 1;
/// "More fragments", and where in its packet a fragment begins.
const FRAGMENT: u32 = 0x3FFF;
/// Offsets in the IPv4 header.
const IP_FRAGMENT: u32 = 6;
const IP_PROTOCOL: u32 = 9;
const IP_DESTINATION: u32 = 16;
/// A header of IPv4 without options, and where behind it UDP's ports are.
const PLAIN: u32 = 0x45;
const UDP_PORTS: u32 = 20;
const UDP_PAYLOAD: u32 = 28;
/// The number of a VLAN in a tag; 0 says that the frame is of none (IEEE 802.1Q).
const VLAN: u32 = 0x0FFF;

/// What a program on an interface answers: ask the next one, or drop.
const TCX_NEXT: i32 = -1;
const TCX_DROP: i32 = 2;

/// Operations of eBPF.
const MOVE: u8 = 0xB7;
const MOVE_REGISTER: u8 = 0xBF;
const EXIT: u8 = 0x95;
const AND32: u8 = 0x54;
const JUMP: u8 = 0x05;
const JUMP32_EQUAL: u8 = 0x16;
const JUMP32_SET: u8 = 0x46;
const LOAD_CONTEXT: u8 = 0x61;
const LOAD_WORD: u8 = 0x20;
const LOAD_HALF: u8 = 0x28;
const LOAD_BYTE: u8 = 0x30;
const LOAD_CONSTANT: u8 = 0x18;
const ADD_AT_ONCE: u8 = 0xDB;

/// The beginning of each program: frames of these kinds that hold IPv4, of no VLAN.
fn begin(kinds: &[u32]) -> Vec<u64> {
    // Offsets in struct __sk_buff: pkt_type, vlan_tci, protocol.
    let context = |at: i16| ebpf(LOAD_CONTEXT, 0x60, at, 0);
    // Loads from the packet expect its context in register 6 and answer in register 0.
    let mut program = vec![ebpf(MOVE_REGISTER, 0x16, 0, 0)];
    only(&mut program, context(4), kinds);
    program.push(context(24));
    program.push(ebpf(AND32, 0, 0, VLAN as i32));
    program.push(ebpf(JUMP32_EQUAL, 0, 2, 0));
    program.extend(end(TCX_NEXT));
    only(
        &mut program,
        context(16),
        &[u32::from(crate::sys::ETHERTYPE)],
    );
    program
}

/// Go on with those packets of which a load gives one of these values.
fn only(program: &mut Vec<u64>, load: u64, values: &[u32]) {
    program.push(load);
    for (i, value) in values.iter().enumerate() {
        let skip = (values.len() - i + 1) as i16;
        program.push(ebpf(JUMP32_EQUAL, 0, skip, *value as i32));
    }
    program.extend(end(TCX_NEXT));
}

/// Pass on what is for one of these addresses; do this with all others, and drop them.
fn exempt(addresses: &[u32], others: &[u64]) -> Vec<u64> {
    let mut program = vec![packet(LOAD_WORD, IP_DESTINATION)];
    for (i, address) in addresses.iter().enumerate() {
        let skip = (addresses.len() - 1 - i + others.len() + 2) as i16;
        program.push(ebpf(JUMP32_EQUAL, 0, skip, *address as i32));
    }
    program.extend(others);
    program.extend(end(TCX_DROP));
    if !addresses.is_empty() {
        program.extend(end(TCX_NEXT));
    }
    program
}

/// Add one to the first value of a map.
fn count(map: &OwnedFd) -> [u64; 4] {
    // linux/bpf.h: BPF_PSEUDO_MAP_VALUE, the address of a value in an array.
    const MAP_VALUE: u8 = 2;
    [
        ebpf(LOAD_CONSTANT, MAP_VALUE << 4 | 1, 0, map.as_raw_fd()),
        0,
        ebpf(MOVE, 2, 0, 1),
        ebpf(ADD_AT_ONCE, 0x21, 0, 0),
    ]
}

fn end(answer: i32) -> [u64; 2] {
    [ebpf(MOVE, 0, 0, answer), ebpf(EXIT, 0, 0, 0)]
}

/// A load from the packet. SKF_NET_OFF: from its network header on.
fn packet(code: u8, at: u32) -> u64 {
    ebpf(code, 0, 0, at as i32 - 0x10_0000)
}

/// One eBPF instruction: operation, registers (source above destination), offset, constant.
fn ebpf(code: u8, registers: u8, offset: i16, constant: i32) -> u64 {
    u64::from(code)
        | u64::from(registers) << 8
        | u64::from(offset as u16) << 16
        | u64::from(constant as u32) << 32
}

/// The program at work on its interfaces, until dropped.
#[derive(Debug)]
pub struct Ingress {
    _links: Vec<OwnedFd>,
}

impl Ingress {
    /// Drop what `selection` takes before the IP layer sees it, and before other programs on the
    /// interfaces do.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_BPF and CAP_NET_ADMIN, `InvalidInput` before Linux 6.6.
    pub fn attach(selection: &Selection) -> io::Result<Ingress> {
        let program = bpf::load(&selection.program())?;
        let links = selection.interfaces.iter();
        let links = links.map(|i| bpf::link(&program, *i));
        Ok(Ingress {
            _links: links.collect::<io::Result<_>>()?,
        })
    }
}

//! Which received packets the ring takes, said twice: as a socket filter of the ring, and as a
//! program on the interfaces' ingress that drops exactly those, so that the kernel's IP layer
//! spends nothing on them. Everything else (other interfaces, other addresses, what is forwarded)
//! takes the ordinary way to the raw sockets; nothing comes twice and nothing is lost between the
//! two.
//!
//! The program is attached by a BPF link (tcx, Linux 6.6): it goes when its descriptor is closed,
//! however the process ends.

use crate::sys::{BPF_RETURN, instruction};
use core::net::Ipv4Addr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What the ring takes: packets of these protocols, to these addresses, in frames without a VLAN
/// tag addressed to this host, on these interfaces. Of protocols that this host relays, packets to
/// any address, and in frames to all hosts, unless they are fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Indices of the interfaces, as the kernel numbers them.
    pub interfaces: Vec<i32>,
    /// IPv4 protocol numbers.
    pub protocols: Vec<u8>,
    /// IPv4 protocol numbers whose packets are taken wherever they are bound.
    pub relayed: Vec<u8>,
    /// This host's addresses, one of which a packet has to be for.
    pub addresses: Vec<Ipv4Addr>,
}

/// Longest list in a program: jumps of the socket filter reach 255 instructions.
const LIST: usize = 200;

impl Selection {
    /// Cut lists that are too long for the programs. What is cut takes the ordinary way.
    pub fn bounded(mut self) -> Selection {
        self.interfaces.truncate(LIST);
        self.protocols.truncate(LIST);
        self.relayed.truncate(LIST);
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
        // linux/filter.h: SKF_AD_OFF and below it PROTOCOL, PKTTYPE, IFINDEX, VLAN_TAG_PRESENT.
        let ancillary = |field: i32| (-0x1000 + field) as u32;
        let all = &mut program;
        check(all, LOAD_WORD, ancillary(4), self.frame_values());
        check(all, LOAD_WORD, ancillary(48), &[0]);
        check(all, LOAD_WORD, ancillary(0), &[libc::ETH_P_IP as u32]);
        check(all, LOAD_WORD, ancillary(8), &self.interface_values());
        // Fragments go past the numbers, to the jump.
        let numbers = self.relayed.len() as u8;
        all.push(instruction(LOAD_HALF, 0, 0, IP_FRAGMENT));
        all.push(instruction(JUMP_SET, numbers + 1, 0, FRAGMENT));
        all.push(instruction(LOAD_BYTE, 0, 0, IP_PROTOCOL));
        for (i, number) in self.relayed.iter().enumerate() {
            // Past the other numbers and the jump.
            let skip = (self.relayed.len() - i) as u8;
            all.push(instruction(JUMP_EQUAL, skip, 0, u32::from(*number)));
        }
        all.push(instruction(JUMP, 0, 0, 1));
        all.push(instruction(BPF_RETURN, 0, 0, u32::from(u16::MAX)));
        check(all, LOAD_BYTE, IP_PROTOCOL, &self.protocol_values());
        check(all, LOAD_WORD, IP_DESTINATION, &self.address_values());
        all.push(instruction(BPF_RETURN, 0, 0, u32::from(u16::MAX)));
        program
    }

    /// The same without the interfaces, for eBPF, as 64-bit instructions: drop, or pass on.
    fn program(&self) -> Vec<u64> {
        const TCX_NEXT: i32 = -1;
        const TCX_DROP: i32 = 2;
        const MOVE: u8 = 0xB7;
        const MOVE_REGISTER: u8 = 0xBF;
        const EXIT: u8 = 0x95;
        const JUMP32_EQUAL: u8 = 0x16;
        const LOAD_CONTEXT: u8 = 0x61;
        const JUMP32_SET: u8 = 0x46;
        const LOAD_WORD: u8 = 0x20;
        const LOAD_HALF: u8 = 0x28;
        const LOAD_BYTE: u8 = 0x30;
        const JUMP: u8 = 0x05;
        // Loads from the packet expect its context in register 6 and answer in register 0.
        let mut program = vec![ebpf(MOVE_REGISTER, 0x16, 0, 0)];
        let check = |program: &mut Vec<u64>, load: u64, values: &[u32]| {
            program.push(load);
            for (i, value) in values.iter().enumerate() {
                let skip = (values.len() - i + 1) as i16;
                program.push(ebpf(JUMP32_EQUAL, 0, skip, *value as i32));
            }
            program.push(ebpf(MOVE, 0, 0, TCX_NEXT));
            program.push(ebpf(EXIT, 0, 0, 0));
        };
        // Offsets in struct __sk_buff: pkt_type, vlan_present, protocol.
        let context = |at: i16| ebpf(LOAD_CONTEXT, 0x60, at, 0);
        // SKF_NET_OFF: from the network header on.
        let packet = |code: u8, at: u32| ebpf(code, 0, 0, at as i32 - 0x10_0000);
        let all = &mut program;
        check(all, context(4), self.frame_values());
        check(all, context(20), &[0]);
        check(all, context(16), &[u32::from(crate::sys::ETHERTYPE)]);
        // The kernel refuses programs with instructions that nothing reaches.
        if !self.relayed.is_empty() {
            let numbers = self.relayed.len() as i16;
            all.push(packet(LOAD_HALF, IP_FRAGMENT));
            all.push(ebpf(JUMP32_SET, 0, numbers + 1, FRAGMENT as i32));
            all.push(packet(LOAD_BYTE, IP_PROTOCOL));
            for (i, number) in self.relayed.iter().enumerate() {
                let skip = (self.relayed.len() - i) as i16;
                all.push(ebpf(JUMP32_EQUAL, 0, skip, i32::from(*number)));
            }
            all.push(ebpf(JUMP, 0, 2, 0));
            all.push(ebpf(MOVE, 0, 0, TCX_DROP));
            all.push(ebpf(EXIT, 0, 0, 0));
        }
        if self.protocols.is_empty() || self.addresses.is_empty() {
            all.push(ebpf(MOVE, 0, 0, TCX_NEXT));
            all.push(ebpf(EXIT, 0, 0, 0));
            return program;
        }
        check(all, packet(LOAD_BYTE, IP_PROTOCOL), &self.protocol_values());
        check(
            all,
            packet(LOAD_WORD, IP_DESTINATION),
            &self.address_values(),
        );
        all.push(ebpf(MOVE, 0, 0, TCX_DROP));
        all.push(ebpf(EXIT, 0, 0, 0));
        program
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
    /// Drop what `selection` takes before the IP layer sees it.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_BPF and CAP_NET_ADMIN, `InvalidInput` before Linux 6.6.
    pub fn attach(selection: &Selection) -> io::Result<Ingress> {
        let program = load(&selection.program())?;
        let links = selection.interfaces.iter();
        let links = links
            .map(|i| link(&program, *i))
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Ingress { _links: links })
    }
}

/// linux/bpf.h; the names are the kernel's.
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_TCX_INGRESS: u32 = 46;

/// The beginning of `union bpf_attr` for BPF_PROG_LOAD.
#[repr(C)]
struct LoadAttributes {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

/// The beginning of `union bpf_attr` for BPF_LINK_CREATE.
#[repr(C)]
struct LinkAttributes {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
    relative: u32,
    padding: u32,
    revision: u64,
}

fn load(program: &[u64]) -> io::Result<OwnedFd> {
    let mut name = [0; 16];
    name[..4].copy_from_slice(b"wifu");
    let attributes = LoadAttributes {
        kind: BPF_PROG_TYPE_SCHED_CLS,
        count: program.len() as u32,
        instructions: program.as_ptr().expose_provenance() as u64,
        // The program calls no function that asks for the GPL.
        license: c"MIT".as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name,
        interface: 0,
        attach_type: BPF_TCX_INGRESS,
    };
    bpf(BPF_PROG_LOAD, &attributes)
}

fn link(program: &OwnedFd, interface: i32) -> io::Result<OwnedFd> {
    let attributes = LinkAttributes {
        program: program.as_raw_fd() as u32,
        interface: interface as u32,
        attach_type: BPF_TCX_INGRESS,
        flags: 0,
        relative: 0,
        padding: 0,
        revision: 0,
    };
    bpf(BPF_LINK_CREATE, &attributes)
}

/// `bpf(2)` for commands that give a descriptor.
fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the pointer and the size describe `attributes`, and what it points to lives in the
    // caller; the two commands used only read them.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            core::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor (close-on-exec); nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

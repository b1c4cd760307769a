//! The object as packetdrill uses it: through its table.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use libc::{sockaddr, sockaddr_in, socklen_t, timeval};
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard};
use wifu_packetdrill::table::{Table, packetdrill_interface_init};

/// The table, for as long as the object lives.
pub struct Object(pub Table, #[allow(dead_code)] MutexGuard<'static, ()>);

/// One object at a time: they share the descriptors of the process.
static ALONE: Mutex<()> = Mutex::new(());

// SAFETY: packetdrill has it in two threads, too; what it points to is made for that.
unsafe impl Sync for Object {}

impl Object {
    pub fn new(flags: &str) -> Object {
        let alone = ALONE
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let flags = CString::new(flags).unwrap();
        let mut table = MaybeUninit::<Table>::uninit();
        // SAFETY: a C string, and room for a table, which the call fills in.
        let table = unsafe {
            packetdrill_interface_init(flags.as_ptr(), table.as_mut_ptr());
            table.assume_init()
        };
        Object(table, alone)
    }

    pub fn now(&self) -> i64 {
        let mut tv = timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        // SAFETY: the table is filled in, and there is room for a time.
        let done = unsafe { (self.0.gettimeofday)(self.0.userdata, &mut tv, null_mut()) };
        assert_eq!(done, 0);
        tv.tv_sec * 1_000_000 + tv.tv_usec
    }

    pub fn socket(&self) -> c_int {
        let (domain, kind) = (libc::AF_INET, libc::SOCK_STREAM);
        // SAFETY: the table is filled in.
        unsafe { (self.0.socket)(self.0.userdata, domain, kind, libc::IPPROTO_TCP) }
    }

    pub fn connect(&self, fd: c_int) -> c_int {
        let to = sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: 8080u16.to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from_be_bytes([192, 0, 2, 1]).to_be(),
            },
            sin_zero: [0; 8],
        };
        let (addr, len) = ((&raw const to).cast::<sockaddr>(), size_of_val(&to));
        // SAFETY: the table is filled in, and the address is one.
        unsafe { (self.0.connect)(self.0.userdata, fd, addr, len as socklen_t) }
    }

    /// The next packet and when it left.
    pub fn packet(&self) -> (Vec<u8>, i64) {
        let (mut buffer, mut at) = (vec![0u8; 2_000], 0);
        let mut n = buffer.len();
        let into = buffer.as_mut_ptr().cast::<c_void>();
        // SAFETY: the table is filled in, and the buffer is as long as `n` says.
        let done = unsafe { (self.0.netdev_receive)(self.0.userdata, into, &mut n, &mut at) };
        assert_eq!(done, 0);
        buffer.truncate(n);
        (buffer, at)
    }

    pub fn deliver(&self, packet: &[u8]) -> c_int {
        // SAFETY: the table is filled in, and the packet is as long as it is.
        unsafe { (self.0.netdev_send)(self.0.userdata, packet.as_ptr().cast(), packet.len()) }
    }

    pub fn sleep(&self, micros: u32) {
        // SAFETY: the table is filled in.
        unsafe { (self.0.usleep)(self.0.userdata, micros) };
    }

    pub fn close(&self, fd: c_int) -> c_int {
        // SAFETY: the table is filled in.
        unsafe { (self.0.close)(self.0.userdata, fd) }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the table is filled in, and nobody uses it any more.
        unsafe { (self.0.free)(self.0.userdata) };
    }
}

pub fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The SYN+ACK to a SYN.
pub fn answer(syn: &[u8]) -> Vec<u8> {
    use wifu_wire::{Ecn, IpInfo, Pseudo, ipv4};
    let (ip, tcp) = ipv4::parse(syn).unwrap();
    let mut out = vec![0; 40];
    let back = IpInfo {
        src: ip.dst,
        dst: ip.src,
        proto: 6,
        ttl: 64,
        ecn: Ecn::NotEct,
    };
    ipv4::emit(&back, 20, &mut out);
    let isn = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
    let segment = &mut out[20..];
    segment[0..2].copy_from_slice(&tcp[2..4]);
    segment[2..4].copy_from_slice(&tcp[0..2]);
    segment[8..12].copy_from_slice(&isn.wrapping_add(1).to_be_bytes());
    (segment[12], segment[13], segment[14]) = (5 << 4, 2 | 16, 0xFF);
    let pseudo = Pseudo::new(back.src, back.dst, 6);
    let sum = pseudo.sum(20).add(segment).finish();
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    out
}

//! What packetdrill asks the kernel past the table: code in `%{ }%` reads `struct tcp_info` by
//! `getsockopt` of the C library. Preloaded, the object answers for its own descriptors.

use crate::world::World;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use core::{mem, ptr};
use libc::{socklen_t, tcp_info};
use wifu_engine::ConnInfo;

/// The world whose descriptors are answered for: packetdrill has one at a time.
static CURRENT: AtomicPtr<World> = AtomicPtr::new(ptr::null_mut());

/// From now on descriptors of this world are answered for; of none, if it is null.
pub fn answer_for(world: *mut World) {
    CURRENT.store(world, Ordering::Release);
}

/// What is known of a connection; the rest stays 0, as does what its protocol does not have.
fn arrange(i: &ConnInfo) -> tcp_info {
    // SAFETY: a struct of numbers, for which zeros are a value.
    let mut info: tcp_info = unsafe { mem::zeroed() };
    let segments = |octets: u32| octets.div_ceil(i.mss.max(1));
    info.tcpi_state = i.state.number();
    // TCP_CA_Loss, TCP_CA_Recovery, TCP_CA_Disorder, TCP_CA_Open
    info.tcpi_ca_state = match (i.backoff, i.recovering, i.sacked) {
        (Some(1..), _, _) => 4,
        (_, true, _) => 3,
        (_, _, 1..) => 1,
        _ => 0,
    };
    info.tcpi_backoff = i.backoff.unwrap_or(0).min(255) as u8;
    info.tcpi_rto = i.rto.map_or(0, |rto| (rto.0 / 1_000) as u32);
    (info.tcpi_snd_mss, info.tcpi_rcv_mss) = (i.mss, i.mss);
    info.tcpi_advmss = i.mss;
    info.tcpi_unacked = segments(i.flight);
    info.tcpi_sacked = segments(i.sacked);
    info.tcpi_rtt = (i.srtt.0 / 1_000) as u32;
    info.tcpi_rttvar = (i.rttvar.0 / 1_000) as u32;
    info.tcpi_snd_ssthresh = i
        .ssthresh
        .map_or(0x7FFF_FFFF, |ssthresh| segments(ssthresh).min(0x7FFF_FFFF));
    info.tcpi_snd_cwnd = i.cwnd.map_or(0, segments);
    info.tcpi_total_retrans = i.retransmits;
    info
}

/// The C library's own.
///
/// # Safety
/// As for the C library's.
unsafe fn real(fd: c_int, level: c_int, name: c_int, v: *mut c_void, n: *mut socklen_t) -> c_int {
    type Call = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
    // SAFETY: the name ends with a NUL; the function behind this one has the type that C declares.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, c"getsockopt".as_ptr());
        if next.is_null() {
            *libc::__errno_location() = libc::ENOSYS;
            return -1;
        }
        mem::transmute::<*mut c_void, Call>(next)(fd, level, name, v, n)
    }
}

/// The C library's, but for `TCP_INFO` of the object's own connections. `TCP_CC_INFO` and
/// `SO_MEMINFO`, for which packetdrill asks each time as well, are zeros: there is no such thing.
///
/// # Safety
/// `value` has as many octets as `len` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let asked = matches!(
        (level, name),
        (libc::IPPROTO_TCP, libc::TCP_INFO | libc::TCP_CC_INFO)
            | (libc::SOL_SOCKET, libc::SO_MEMINFO)
    );
    // SAFETY: null, or a world that lives until `answer_for` says otherwise.
    let world = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
    let Some(world) = world.filter(|w| asked && w.fd(fd) >= 0) else {
        // SAFETY: the caller's promise.
        return unsafe { real(fd, level, name, value, len) };
    };
    let info = world.info(fd).filter(|_| name == libc::TCP_INFO);
    // SAFETY: the caller's promise: `*len` octets, of which no more are written.
    unsafe {
        let room = *len as usize;
        ptr::write_bytes(value.cast::<u8>(), 0, room);
        if let Some(info) = info {
            let info = arrange(&info);
            let n = room.min(size_of::<tcp_info>());
            ptr::copy_nonoverlapping((&raw const info).cast::<u8>(), value.cast::<u8>(), n);
        }
    }
    0
}

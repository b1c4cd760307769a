//! Options that are taken, said once to have no effect, and read back as they were set; and those
//! that tune a parameter which the composition may lack, and are read back so, too.

use crate::note::Once;
use crate::sys::{self, Result};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};

/// What an option is called, and the value that Linux shows for an untouched socket.
type Row = (c_int, i32, &'static str);

const TCP: [Row; 11] = [
    (libc::TCP_CORK, 0, "TCP_CORK"),
    (libc::TCP_KEEPIDLE, 7200, "TCP_KEEPIDLE"),
    (libc::TCP_KEEPINTVL, 75, "TCP_KEEPINTVL"),
    (libc::TCP_KEEPCNT, 9, "TCP_KEEPCNT"),
    (libc::TCP_SYNCNT, 6, "TCP_SYNCNT"),
    (libc::TCP_LINGER2, 60, "TCP_LINGER2"),
    (libc::TCP_DEFER_ACCEPT, 0, "TCP_DEFER_ACCEPT"),
    (libc::TCP_WINDOW_CLAMP, 0, "TCP_WINDOW_CLAMP"),
    (libc::TCP_QUICKACK, 1, "TCP_QUICKACK"),
    (libc::TCP_USER_TIMEOUT, 0, "TCP_USER_TIMEOUT"),
    (libc::TCP_NOTSENT_LOWAT, -1, "TCP_NOTSENT_LOWAT"),
];

const IP: [Row; 6] = [
    (libc::IP_TOS, 0, "IP_TOS"),
    (libc::IP_TTL, 64, "IP_TTL"),
    (libc::IP_RECVERR, 0, "IP_RECVERR"),
    (libc::IP_MTU_DISCOVER, 1, "IP_MTU_DISCOVER"),
    (libc::IP_BIND_ADDRESS_NO_PORT, 0, "IP_BIND_ADDRESS_NO_PORT"),
    (libc::IP_FREEBIND, 0, "IP_FREEBIND"),
];

const IPV6: [Row; 4] = [
    (libc::IPV6_TCLASS, 0, "IPV6_TCLASS"),
    (libc::IPV6_UNICAST_HOPS, 64, "IPV6_UNICAST_HOPS"),
    (libc::IPV6_RECVERR, 0, "IPV6_RECVERR"),
    (libc::IPV6_MTU_DISCOVER, 1, "IPV6_MTU_DISCOVER"),
];

/// The same for options that the kernel stores in the socket itself.
const SOCKET: [Row; 7] = [
    (libc::SO_KEEPALIVE, 0, "SO_KEEPALIVE"),
    (libc::SO_DONTROUTE, 0, "SO_DONTROUTE"),
    (libc::SO_PRIORITY, 0, "SO_PRIORITY"),
    (libc::SO_BUSY_POLL, 0, "SO_BUSY_POLL"),
    (libc::SO_DEBUG, 0, "SO_DEBUG"),
    (libc::SO_INCOMING_CPU, -1, "SO_INCOMING_CPU"),
    (libc::SO_MARK, 0, "SO_MARK"),
];

fn row(level: c_int, name: c_int) -> Option<(usize, &'static Row)> {
    let (first, table): (_, &'static [Row]) = match level {
        libc::IPPROTO_TCP => (0, &TCP),
        libc::IPPROTO_IP => (TCP.len(), &IP),
        libc::IPPROTO_IPV6 => (TCP.len() + IP.len(), &IPV6),
        libc::SOL_SOCKET => (TCP.len() + IP.len() + IPV6.len(), &SOCKET),
        _ => return None,
    };
    let at = table.iter().position(|(n, ..)| *n == name)?;
    Some((first + at, &table[at]))
}

/// Whether this is such an option, beside those that the kernel stores.
pub fn is(level: c_int, name: c_int) -> bool {
    level != libc::SOL_SOCKET && row(level, name).is_some()
}

/// Says, once per process and option, that it has no effect; not if it asks for what is anyway.
pub fn say(level: c_int, name: c_int, value: i32) {
    const ALL: usize = TCP.len() + IP.len() + IPV6.len() + SOCKET.len();
    static SAID: [Once; ALL] = [const { Once::new() }; ALL];
    if let Some((at, (_, default, text))) = row(level, name)
        && value != *default
    {
        SAID[at].say(format_args!("{text} is taken and has no effect"));
    }
}

/// What was set in this process, as far as there is room: in each place, 32 bits of whose value it
/// is, and the value. A socket's cookie is never used again, so nothing needs to be taken out.
static SET: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

fn place(fd: c_int, at: usize) -> Result<(usize, u64)> {
    let cookie: u64 = sys::getsockopt(fd, libc::SOL_SOCKET, libc::SO_COOKIE)?;
    // The multiplier of Knuth's 64-bit generator: spreads cookies, which count upwards.
    let hash = (cookie.wrapping_mul(32) + at as u64 + 1).wrapping_mul(6_364_136_223_846_793_005);
    let place = (hash >> 54) as usize;
    Ok((place, hash << 10 & u64::MAX << 32))
}

/// Keeps what was set, for whoever reads it back.
///
/// # Errors
/// `EBADF`.
pub fn set(fd: c_int, level: c_int, name: c_int, value: i32) -> Result<()> {
    let Some((at, _)) = row(level, name) else {
        return Ok(());
    };
    let (place, owner) = place(fd, at)?;
    SET[place].store(owner | u64::from(value as u32), Ordering::Relaxed);
    Ok(())
}

/// What was set on one socket was set on another, which comes into its place.
///
/// # Errors
/// `EBADF`.
pub fn pass_on(from: c_int, to: c_int) -> Result<()> {
    for at in 0..TCP.len() + IP.len() + IPV6.len() {
        let (old, owner) = place(from, at)?;
        let kept = SET[old].load(Ordering::Relaxed);
        if kept & u64::MAX << 32 == owner && kept != 0 {
            let (new, owner) = place(to, at)?;
            SET[new].store(owner | u64::from(kept as u32), Ordering::Relaxed);
        }
    }
    Ok(())
}

/// What was set, else what Linux shows for an untouched socket.
///
/// # Errors
/// `EBADF`.
pub fn get(fd: c_int, level: c_int, name: c_int) -> Result<Option<i32>> {
    if row(level, name).is_none() {
        return Ok(None);
    }
    let (own, default) = kept(fd, level, name)?;
    Ok(Some(own.unwrap_or(default)))
}

/// What was set, and what Linux shows for an untouched socket: 0 for what is not here.
///
/// # Errors
/// `EBADF`.
pub fn kept(fd: c_int, level: c_int, name: c_int) -> Result<(Option<i32>, i32)> {
    let Some((at, (_, default, _))) = row(level, name) else {
        return Ok((None, 0));
    };
    let (place, owner) = place(fd, at)?;
    let kept = SET[place].load(Ordering::Relaxed);
    let own = kept & u64::MAX << 32 == owner && kept != 0;
    Ok((own.then_some(kept as u32 as i32), *default))
}

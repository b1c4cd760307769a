//! What the object answers where packetdrill asks the C library. Of its own process: there is one
//! object at a time.

// Half of it is for the other tests.
#[allow(dead_code)]
mod common;

use common::{Object, answer, errno};
use core::ffi::{c_int, c_void};
use libc::{socklen_t, tcp_info};
use std::os::fd::AsRawFd;

/// `struct tcp_info` of a descriptor, with what comes behind it where programs know more.
fn info(fd: c_int) -> Option<tcp_info> {
    let mut room = [0xFFu8; 256];
    let mut len = room.len() as socklen_t;
    let into = room.as_mut_ptr().cast::<c_void>();
    // SAFETY: the room is as long as `len` says.
    let done = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, into, &mut len) };
    if done < 0 {
        return None;
    }
    assert!(len <= 256);
    // SAFETY: the room is longer, and any numbers are such a struct.
    Some(unsafe { core::ptr::read_unaligned(into.cast::<tcp_info>()) })
}

#[test]
fn connections_have_their_numbers_and_others_their_own() {
    let object = Object::new("tcp-sack,profile=rfc-modern,iw=7");
    let fd = object.socket();
    // SAFETY: the table is filled in.
    unsafe {
        (object.0.fcntl)(
            object.0.userdata,
            fd,
            libc::F_SETFL,
            libc::O_NONBLOCK.into(),
        )
    };
    assert_eq!((object.connect(fd), errno()), (-1, libc::EINPROGRESS));
    assert_eq!(info(fd).unwrap().tcpi_state, 2, "SYN_SENT");
    let (syn, _) = object.packet();
    assert_eq!(object.deliver(&answer(&syn)), 0);
    let open = info(fd).unwrap();
    assert_eq!((open.tcpi_state, open.tcpi_ca_state), (1, 0));
    assert_eq!(open.tcpi_snd_cwnd, 7);
    assert!(open.tcpi_snd_mss > 500 && open.tcpi_unacked == 0);

    // The kernel's sockets are asked of the kernel.
    let kernels = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(info(kernels.as_raw_fd()).unwrap().tcpi_state, 10, "LISTEN");
    object.close(fd);
    assert!(info(fd).is_none());
    drop(object);
    assert_eq!(info(kernels.as_raw_fd()).unwrap().tcpi_state, 10);
}

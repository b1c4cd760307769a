//! What tests that need root share.

/// Receive a datagram. With a timeout, a call that a stop of the machine ended is not begun anew by
/// the kernel (signal(7)).
#[allow(dead_code)] // Not each test has datagrams.
pub fn receive(socket: &std::net::UdpSocket, room: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match socket.recv(room) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            came => return came,
        }
    }
}

/// Whether namespaces can be made. A test that can't run fails, unless that is asked for.
pub fn privileged() -> bool {
    let root = rustix::process::geteuid().is_root();
    let skip = std::env::var_os("WIFU_SKIP_PRIVILEGED").is_some_and(|v| v == "1");
    assert!(
        root || skip,
        "this test makes network namespaces and needs root; WIFU_SKIP_PRIVILEGED=1 leaves it out"
    );
    if !root {
        eprintln!("skipped: needs root");
    }
    root
}

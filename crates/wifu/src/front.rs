//! Questions to the daemon, through its applications' socket.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use rustix::net::{SendFlags, send};
use wifu_wire::front::{Answer, HEADER_LEN, Header, Request};

/// What the daemon said.
pub struct Said {
    /// Of `errno.h`; 0 if all went well.
    pub errno: u32,
    /// The value asked for, or why there is none.
    pub text: Option<String>,
}

/// Ask the daemon at `path`.
///
/// # Errors
/// There is none, or it does not answer within ten seconds.
pub fn ask(path: &Path, request: &Request<'_>) -> anyhow::Result<Said> {
    let mut socket = reach(path)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut frame = [0; 2048];
    let n = request.encode(&mut frame, 0)?;
    // Without SIGPIPE, should it have hung up; a frame is far shorter than the socket's buffer.
    let sent = send(&socket, &frame[..n], SendFlags::NOSIGNAL).context("the daemon hung up")?;
    ensure!(sent == n, "the daemon took part of a question");
    let mut head = [0; HEADER_LEN];
    socket.read_exact(&mut head).context("the daemon hung up")?;
    let Some(header) = Header::decode(&head)? else {
        bail!("the daemon answered too little")
    };
    let mut body = vec![0; header.total() - HEADER_LEN];
    socket.read_exact(&mut body).context("the daemon hung up")?;
    let answer = Answer::decode(&body)?;
    Ok(Said {
        errno: answer.errno,
        text: answer.value.map(str::to_owned),
    })
}

/// The daemon's process, if it can be reached and seen from here.
pub fn process(path: &Path) -> Option<u32> {
    wifu_linux::bsd::peer_pid(&reach(path).ok()?).ok()?
}

/// A connection to the daemon, or what is in the way and what helps against it.
fn reach(path: &Path) -> anyhow::Result<UnixStream> {
    let failed = |error: std::io::Error| {
        let advice = match error.kind() {
            ErrorKind::PermissionDenied => "its --mode and --group say who may use it",
            _ => "start one with `wifu daemon`",
        };
        anyhow!(
            "no daemon to be reached at {}: {error}; {advice}",
            path.display()
        )
    };
    UnixStream::connect(path).map_err(failed)
}

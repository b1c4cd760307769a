//! What a daemon gives up once everything is open.
//!
//! Raw sockets, packet rings, BPF links and TUN devices need capabilities when they are opened or
//! attached, and none to send, to receive or to go. So a running daemon keeps none, except, where
//! its directory is not its own, the one to write there all the same. No program that it might
//! start could win any back.

use rustix::fs::{Mode, stat};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};
use std::io;
use std::path::Path;

/// Give up what is not needed to remove and replace files in `directory`, for the calling thread
/// and those that it starts from now on. Returns whether the capability `CAP_DAC_OVERRIDE` had to
/// be kept for that.
///
/// # Errors
/// What `stat`, `capset` or `prctl` says.
pub fn give_up(directory: &Path) -> io::Result<bool> {
    let had = capabilities(None)?;
    let needed = if may_write(directory)? {
        CapabilitySet::empty()
    } else {
        CapabilitySet::DAC_OVERRIDE
    };
    let kept = needed & had.permitted;
    keep(kept)?;
    Ok(!kept.is_empty())
}

/// Give up everything but CAP_NET_ADMIN: netfilter's queues want it for every verdict.
///
/// # Errors
/// What `capset` or `prctl` says.
pub fn keep_net_admin() -> io::Result<()> {
    keep(CapabilitySet::NET_ADMIN & capabilities(None)?.permitted)
}

/// Give up everything: for threads that work with what is open already.
///
/// # Errors
/// What `capset` or `prctl` says.
pub fn give_up_all() -> io::Result<()> {
    keep(CapabilitySet::empty())
}

fn keep(kept: CapabilitySet) -> io::Result<()> {
    set_no_new_privs(true)?;
    Ok(set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?)
}

/// Whether this user may make and remove files there without any capability. Supplementary groups
/// and access lists don't count: a daemon that could do with less then keeps more.
fn may_write(directory: &Path) -> io::Result<bool> {
    let s = stat(directory)?;
    let mode = Mode::from_raw_mode(s.st_mode);
    let wanted = if s.st_uid == geteuid().as_raw() {
        Mode::WUSR | Mode::XUSR
    } else if s.st_gid == getegid().as_raw() {
        Mode::WGRP | Mode::XGRP
    } else {
        Mode::WOTH | Mode::XOTH
    };
    Ok(mode.contains(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    /// Of a thread: `(CapEff, CapPrm, NoNewPrivs)`.
    fn status() -> (u64, u64, u64) {
        let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let field = |name: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(name)).unwrap();
            u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
        };
        (field("CapEff"), field("CapPrm"), field("NoNewPrivs"))
    }

    #[test]
    fn only_what_a_foreign_directory_needs_is_kept() {
        if !geteuid().is_root() {
            let skip = std::env::var_os("WIFU_SKIP_PRIVILEGED").is_some_and(|v| v == "1");
            assert!(skip, "needs root; WIFU_SKIP_PRIVILEGED=1 leaves it out");
            eprintln!("skipped: needs root");
            return;
        }
        let dir = std::env::temp_dir().join(format!("wifu-privileges-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        // Threads, because what they give up does not come back.
        let within = |dir: std::path::PathBuf| {
            let work = move || {
                let kept = give_up(&dir).unwrap();
                let file = dir.join("file");
                std::fs::write(&file, "x").unwrap();
                std::fs::remove_file(file).unwrap();
                (kept, status())
            };
            std::thread::spawn(work).join().unwrap()
        };
        assert_eq!(within(dir.clone()), (false, (0, 0, 1)));
        chown(&dir, Some(65_534), Some(65_534)).unwrap();
        // linux/capability.h: CAP_DAC_OVERRIDE is bit 1.
        assert_eq!(within(dir.clone()), (true, (2, 2, 1)));
        let all = std::thread::spawn(|| {
            give_up_all().unwrap();
            status()
        });
        assert_eq!(all.join().unwrap(), (0, 0, 1));
        std::fs::remove_dir_all(dir).unwrap();
    }
}

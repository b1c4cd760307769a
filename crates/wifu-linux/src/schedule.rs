//! When threads run: wishes to the scheduler.

use std::io;

/// Ask the scheduler for short turns (Linux 6.12 and later; earlier ones ignore the wish): a thread
/// with a short slice goes before a busy one with a long slice as soon as it wakes, instead of at
/// the next tick, 4 ms later. It gets no more of the processor than before.
///
/// # Errors
/// What `sched_getattr` and `sched_setattr` say.
pub fn set_slice(slice: std::time::Duration) -> io::Result<()> {
    /// linux/sched/types.h, first version.
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    let size = size_of::<SchedAttr>() as u32;
    let mut attr = SchedAttr::default();
    // SAFETY: the kernel writes at most `size` octets to the local struct; 0 is this thread.
    if unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    attr.size = size;
    attr.runtime = slice.as_nanos() as u64;
    // SAFETY: the kernel reads the local struct of the size that it names.
    if unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Put this thread before all ordinary ones (`SCHED_FIFO`, the lowest of its priorities); threads
/// and processes that it starts are ordinary again. Only for threads that sleep most of the time:
/// one that never does is stopped for 50 ms of every second.
///
/// # Errors
/// `PermissionDenied` without CAP_SYS_NICE.
pub fn set_urgent() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel reads the local struct; 0 is this thread.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slice_that_was_asked_for_is_the_threads_slice() {
        std::thread::spawn(|| {
            set_slice(std::time::Duration::from_micros(200)).unwrap();
            // A second wish shows that the first left policy and priority in order.
            set_slice(std::time::Duration::from_micros(100)).unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_urgent_thread_has_ordinary_children() {
        if !rustix::process::geteuid().is_root() {
            let skip = std::env::var_os("WIFU_SKIP_PRIVILEGED").is_some_and(|v| v == "1");
            assert!(skip, "needs root; WIFU_SKIP_PRIVILEGED=1 leaves it out");
            eprintln!("skipped: needs root");
            return;
        }
        // The policy of a thread, sched(7): 1 is SCHED_FIFO.
        let policy = || {
            let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let (_, rest) = text.rsplit_once(')').unwrap();
            rest.split_whitespace().nth(38).unwrap().to_string()
        };
        let thread = std::thread::spawn(move || {
            set_urgent().unwrap();
            (policy(), std::thread::spawn(policy).join().unwrap())
        });
        assert_eq!(thread.join().unwrap(), ("1".into(), "0".into()));
    }
}

//! A terminal whose keys (Ctrl-C, Ctrl-Z) are for one program at a time, as shells have it.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, WaitIdOptions, kill_process_group, waitid};

/// Standard input, where it is a terminal whose keys are this process's, to be lent to programs.
#[derive(Debug)]
pub struct Terminal {
    own: libc::pid_t,
}

impl Terminal {
    /// The terminal on standard input. None if there is none, or if its keys are not for this
    /// process's group.
    #[must_use]
    pub fn ours() -> Option<Terminal> {
        // SAFETY: both calls only ask; the first fails for what is no terminal of this session.
        let (front, own) = unsafe { (libc::tcgetpgrp(libc::STDIN_FILENO), libc::getpgrp()) };
        (front == own).then_some(Terminal { own })
    }

    /// Let `command` run in a process group of its own that the terminal's keys reach, and hear all
    /// signals, whichever this thread blocks. What it leaves running in the background is not
    /// reached by them once the terminal is [taken back](Terminal::take_back).
    pub fn lend(&self, command: &mut Command) {
        command.process_group(0);
        // SAFETY: the closure runs between fork and exec, captures nothing and makes system calls
        // alone: it neither allocates nor takes a lock.
        unsafe {
            command.pre_exec(|| {
                give(libc::getpid())?;
                let mut none = core::mem::MaybeUninit::<libc::sigset_t>::uninit();
                libc::sigemptyset(none.as_mut_ptr());
                let (set, before) = (none.as_ptr(), core::ptr::null_mut());
                match libc::pthread_sigmask(libc::SIG_SETMASK, set, before) {
                    0 => Ok(()),
                    error => Err(io::Error::from_raw_os_error(error)),
                }
            });
        }
    }

    /// The terminal's keys are this process's again.
    ///
    /// # Errors
    /// What `tcsetpgrp(3)` says, as of a terminal that is gone.
    pub fn take_back(&self) -> io::Result<()> {
        give(self.own)
    }
}

/// Make a group the one that the terminal on standard input is for.
fn give(group: libc::pid_t) -> io::Result<()> {
    let mut set = core::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = core::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the sets are local, and each is initialised before it is read. Who is in the
    // background is stopped by SIGTTOU when it asks for the terminal, unless it blocks that.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
        let given = libc::tcsetpgrp(libc::STDIN_FILENO, group);
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut());
        if given == 0 { Ok(()) } else { Err(error) }
    }
}

/// Whether a child that leads its group has been stopped since the last look, as by Ctrl-Z. All of
/// its group go on then.
///
/// # Errors
/// What `waitid(2)` says.
pub fn goes_on_if_stopped(child: &Child) -> io::Result<bool> {
    let pid = Pid::from_child(child);
    let how = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    if waitid(rustix::process::WaitId::Pid(pid), how)?.is_none() {
        return Ok(false);
    }
    kill_process_group(pid, Signal::CONT)?;
    Ok(true)
}

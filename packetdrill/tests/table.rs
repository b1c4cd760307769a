//! The object as packetdrill uses it: through its table, from two threads, in the order in which
//! packetdrill does things.

mod common;

use common::{Object, answer, errno};
use core::ffi::c_int;
use core::ptr::{null, null_mut};

#[test]
fn a_call_of_the_second_thread_returns_at_the_time_at_which_it_was_finished() {
    let object = &Object::new("tcp-sack,profile=rfc-modern");
    let fd = object.socket();
    let begun = object.now();
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let call = scope.spawn(move || {
            // SAFETY: it asks for a number.
            let _ = tell.send(unsafe { libc::gettid() });
            (object.connect(fd), object.now())
        });
        // As packetdrill does: it goes on once the other thread sleeps in its call.
        let stat = format!("/proc/self/task/{}/stat", told.recv().unwrap());
        while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
            std::thread::yield_now();
        }
        let (syn, at) = object.packet();
        assert_eq!(at, begun, "the SYN leaves when connect is called");
        object.sleep(100_000);
        assert_eq!(object.deliver(&answer(&syn)), 0);
        object.sleep(1_000_000);
        let (result, at) = call.join().unwrap();
        assert_eq!(result, 0);
        assert_eq!(at - begun, 100_000, "its first look at the clock");
    });
    assert_eq!(object.now() - begun, 1_100_000, "everybody else's");
    let (ack, at) = object.packet();
    assert_eq!((ack[33], at - begun), (16, 100_000));
}

#[test]
fn a_call_of_the_first_thread_lets_time_pass_itself() {
    let object = Object::new("");
    let fd = object.socket();
    let begun = object.now();
    assert_eq!((object.connect(fd), errno()), (-1, libc::ETIMEDOUT));
    assert!(object.now() - begun >= 60_000_000);
    // Nothing would ever come to a listening socket.
    let listener = object.socket();
    // SAFETY: the table is filled in.
    let accepted = unsafe {
        (object.0.listen)(object.0.userdata, listener, 1);
        (object.0.accept)(object.0.userdata, listener, null_mut(), null_mut())
    };
    assert_eq!((accepted, errno()), (-1, libc::EDEADLK));
}

#[test]
fn who_only_looks_at_the_clock_sees_it_move() {
    let object = Object::new("");
    let begun = object.now();
    // packetdrill waits for the last 20 microseconds so.
    let looks = (0..).take_while(|_| object.now() - begun < 20).count();
    assert!((20..60).contains(&looks), "{looks}");
    // Who does something between two looks does not.
    for _ in 0..100 {
        object.close(-1);
        object.now();
    }
    assert!(object.now() - begun < 25);
}

#[test]
fn descriptors_exist_in_the_process_and_end_with_the_socket() {
    let object = Object::new("");
    let fd = object.socket();
    let there = |fd: c_int| {
        // SAFETY: any number may be asked for.
        unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
    };
    assert!(there(fd));
    assert_eq!(object.close(fd), 0);
    assert!(!there(fd));
    assert_eq!((object.close(fd), errno()), (-1, libc::EBADF));
    // As packetdrill does with what a script leaves open.
    let left = object.socket();
    // SAFETY: it is the descriptor's only owner.
    unsafe { libc::close(left) };
    let again = object.socket();
    assert_eq!(again, left, "the number is free again");
    // SAFETY: the table is filled in.
    let listens = unsafe { (object.0.listen)(object.0.userdata, again, 1) };
    assert_eq!(listens, 0, "and stands for the new socket");
}

#[test]
fn what_is_not_offered_says_so() {
    let object = Object::new("");
    let other = [
        object.0.epoll_create,
        object.0.epoll_ctl,
        object.0.epoll_wait,
        object.0.pipe,
        object.0.splice,
    ];
    for call in other {
        // SAFETY: none of them looks at an argument.
        assert_eq!((unsafe { call() }, errno()), (-1, libc::ENOSYS));
    }
    let (u, fd) = (object.0.userdata, object.socket());
    // SAFETY: the table is filled in; null is what is being tried.
    unsafe {
        assert_eq!((object.0.write)(u, fd, null(), 5), -1);
        assert_eq!(errno(), libc::EFAULT);
        assert_eq!((object.0.read)(u, fd, null_mut(), 5), -1);
        assert_eq!(errno(), libc::EFAULT);
        assert_eq!((object.0.bind)(u, fd, null(), 0), -1);
        assert_eq!(errno(), libc::EAFNOSUPPORT);
        assert_eq!((object.0.fcntl)(u, fd, libc::F_GETOWN, 0), -1);
        assert_eq!(errno(), libc::EINVAL);
        assert_eq!((object.0.ioctl)(u, fd, 0, null_mut()), -1);
        assert_eq!(errno(), libc::ENOTTY);
    }
    assert_eq!(object.deliver(&[1, 2, 3]), -1);
}

#[test]
fn the_second_thread_too_waits_by_sleeping_and_looking() {
    let object = &Object::new("");
    let begun = object.now();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            object.sleep(80);
            while object.now() - begun < 100 {}
        });
        waiting.join().unwrap();
    });
    // This look is one more in a row.
    assert_eq!(object.now() - begun, 101);
}

//! The scripts of `scripts/`, and the player itself: what is wrong must be found, and shown.

use std::path::{Path, PathBuf};
use wifu_testkit::packetdrill::{Begun, Call, Errno, Problem, Script, Setup, Stack, play};
use wifu_wire::{Span, Time};

/// Scripts that fail, and why. One that passes is taken off this list.
const KNOWN: &[(&str, &str)] = &[];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")
}

fn scripts() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder()).expect("the folder is there");
    let mut all: Vec<(String, String)> = entries
        .map(|entry| {
            let path = entry.expect("the folder is readable").path();
            let name = path.file_stem().expect("a name").to_string_lossy();
            let text = std::fs::read_to_string(&path).expect("a script");
            (name.into_owned(), text)
        })
        .collect();
    all.sort();
    all
}

fn played(text: &str) -> Result<(), Problem> {
    play(&text.parse()?, &Setup::default())
}

/// A connection that a script goes on with from line 7 on.
const OPEN: &str = r#"--so_flags="tcp-sack,profile=rfc-modern,ack_every=1"
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000>
+0 > S. 0:0(0) ack 1 <...> +.1 < . 1:1(0) ack 1 win 65535 +0 accept(3, ..., ...) = 4
"#;

#[track_caller]
fn passes(rest: &str) {
    if let Err(problem) = played(&format!("{OPEN}{rest}")) {
        panic!("{problem}");
    }
}

/// What is said of a script that goes wrong.
#[track_caller]
fn fails(rest: &str) -> String {
    let played = played(&format!("{OPEN}{rest}"));
    played.expect_err("the script is to fail").to_string()
}

#[test]
fn every_script_passes_but_those_known_to_fail() {
    let mut wrong = Vec::new();
    let all = scripts();
    assert!(all.len() > 40, "{} scripts", all.len());
    for (name, text) in &all {
        let known = KNOWN.iter().find(|(n, _)| n == name);
        match (played(text), known) {
            (Ok(()), None) | (Err(_), Some(_)) => {}
            (Ok(()), Some((_, why))) => wrong.push(format!(
                "{name}: passes now; take it off the list, where it says \"{why}\""
            )),
            (Err(problem), None) => wrong.push(format!("{name}.pkt: {problem}")),
        }
    }
    for (name, _) in KNOWN {
        let there = all.iter().any(|(n, _)| n == name);
        assert!(there, "{name}: known to fail, but not there");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_expectation_shows_the_line_and_both_packets() {
    let said = fails("+0 < P. 1:101(100) ack 1 win 65535\n+0 > . 1:1(0) ack 102\n");
    let expected = "line 8: the packet's acknowledgement differs\n  \
                    expected: 0.100000 . 1:1(0) ack 102\n  \
                    actual:   0.100000 . 1:1(0) ack 101";
    assert_eq!(said, expected);
    for (wrong, what) in [
        ("F. 1:1(0) ack 101", "flags differ"),
        (". 1:11(10) ack 101", "no packet left until"),
        (". 2:2(0) ack 101", "sequence number differs"),
        (". 1:1(0) ack 101 win 7", "window differs"),
        (". 1:1(0) ack 101 <nop,nop,sack 1:2>", "options differ"),
    ] {
        let rest = format!("+0 < P. 1:101(100) ack 1 win 65535\n+0 > {wrong}\n");
        let said = fails(&rest);
        assert!(
            said.starts_with("line 8: ") && said.contains(what),
            "{said}"
        );
        assert!(said.contains(wrong), "{said}");
    }
    passes("+0 < P. 1:101(100) ack 1 win 65535\n+0 > . 1:1(0) ack 101\n");
}

#[test]
fn times_are_exact_unless_the_script_says_otherwise() {
    // The acknowledgement of what does not complete a window is due after 200 ms.
    let script = |flags: &str, time: &str| {
        let open = OPEN.replace("ack_every=1", "ack_every=2");
        let rest = "+0 < P. 1:101(100) ack 1 win 65535\n";
        played(&format!("{flags}{open}{rest}{time} > . 1:1(0) ack 101\n"))
    };
    for good in ["+.2", "0.3", "+.1~+.2", "0.25~0.35", "*"] {
        assert_eq!(script("", good), Ok(()), "{good}");
    }
    for (wrong, expected) in [
        ("+.199999", "expected at 0.299999"),
        ("+.200001", "expected at 0.300001"),
        ("+.1~+.199", "expected between 0.200000 and 0.299000"),
        ("0.31~0.32", "expected between 0.310000 and 0.320000"),
    ] {
        let said = script("", wrong)
            .expect_err("the time is wrong")
            .to_string();
        let left = "line 8: the packet left at 0.300000, ";
        assert!(said.starts_with(&format!("{left}{expected}")), "{said}");
    }
    assert_eq!(script("--tolerance_usecs=1000\n", "+.199"), Ok(()));
    assert!(script("--tolerance_usecs=999\n", "+.199").is_err());
}

#[test]
fn options_replace_what_the_composition_says() {
    let script = r#"--so_flags="tcp-sack,profile=rfc-modern,nagle=on,max_seg=1200,rcv_wnd=30000"
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 setsockopt(3, SOL_TCP, TCP_NODELAY, [0], 4) = 0
+0 setsockopt(3, SOL_TCP, TCP_NODELAY, [1], 4) = 0
+0 getsockopt(3, SOL_TCP, TCP_NODELAY, [1], [4]) = 0
+0 setsockopt(3, SOL_TCP, TCP_MAXSEG, [1100], 4) = 0
+0 setsockopt(3, SOL_SOCKET, SO_RCVBUF, [20000], 4) = 0
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000>
+0 > S. 0:0(0) ack 1 win 20000 <mss 1100>
+.1 < . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
+0 write(4, ..., 100) = 100
+0 > P. 1:101(100) ack 1
+0 write(4, ..., 100) = 100
+0 > P. 101:201(100) ack 1
"#;
    assert_eq!(played(script), Ok(()));
    // What it said is in effect where no option did.
    let plain = script.lines().filter(|l| !l.contains("sockopt"));
    let said = played(&plain.collect::<Vec<_>>().join("\n")).expect_err("other windows");
    assert!(said.to_string().contains("window differs"), "{said}");
    // What makes no sense is refused, and what was before is left.
    let refused = script.replace(
        "+0 bind",
        "+0 setsockopt(3, SOL_TCP, TCP_MAXSEG, [-1], 4) = -1 EINVAL (Invalid argument)\n+0 bind",
    );
    assert_eq!(played(&refused), Ok(()));
}

#[test]
fn what_a_call_returns_is_compared() {
    let said = fails("+0 write(4, ..., 100) = 99\n");
    assert_eq!(said, "line 7: it returned 100, expected 99");
    let said = fails("+0 write(4, ..., 100) = -1 EPIPE (Broken pipe)\n");
    assert_eq!(said, "line 7: it returned 100, expected -1 EPIPE");
    let said = fails("+0 recv(4, ..., 9, MSG_DONTWAIT) = -1 EPIPE\n");
    assert_eq!(said, "line 7: it returned -1 EAGAIN, expected -1 EPIPE");
    let said = fails("+0 getsockopt(4, SOL_SOCKET, SO_ERROR, [5], [4]) = 0\n");
    assert_eq!(said, "line 7: the value is 0, expected 5");
    let said = fails("+0 ioctl(4, SIOCINQ, [5]) = 0\n");
    assert_eq!(said, "line 7: it gave 0, expected 5");
    let said = fails("+0 poll([{fd=4, events=POLLOUT, revents=0}], 1, 0) = 1\n");
    assert!(said.starts_with("line 7: the events were"), "{said}");
    let said = fails("+0 read(9, ..., 1) = 0\n");
    assert_eq!(said, "line 7: no call of this script gave descriptor 9");
    let said = fails("+0 wriet(4, ..., 1) = 1\n");
    assert!(said.contains("did you mean `write`?"), "{said}");
}

#[test]
fn a_call_that_waits_has_its_end_in_the_script() {
    let said = fails("+0 read(4, ..., 100) = 100\n");
    assert_eq!(
        said,
        "line 7: the call waits; write until when, as in +0...0.1"
    );
    let late = "+0...0.2 read(4, ..., 100) = 100\n+.1 < P. 1:101(100) ack 1 win 65535\n";
    assert_eq!(
        fails(late),
        "line 7: the call returned at 0.200000, expected at 0.300000"
    );
    let never = fails("+0...0.2 read(4, ..., 100) = 100\n+1 write(4, ..., 1) = 1\n");
    assert_eq!(never, "line 7: the call still waits at the end");
    let soon = fails("+0...0.2 write(4, ..., 100) = 100\n");
    assert!(
        soon.contains("returned at 0.100000, expected at 0.300000"),
        "{soon}"
    );
    passes("+0...0.1 read(4, ..., 100) = 100\n+.1 < P. 1:101(100) ack 1 win 65535\n");
}

#[test]
fn what_is_no_script_is_said_with_its_line() {
    for (text, expected) in [
        ("", "the script has no events"),
        ("1 listen(3, 1) = 0", "line 1: the first event is at time 0"),
        ("--speed=4\n0 close(3) = 0", "line 1: --speed: unknown here"),
        ("0 `sysctl x`", "line 1: commands and code are for kernels"),
        (
            "`sysctl x`\n0 close(3) = 0",
            "line 1: commands are for kernels",
        ),
        (
            "0 close(3) = 0\n+0 %{ assert 1 }%",
            "line 2: commands and code",
        ),
        ("0 close(3 = 0", "line 1: expected `,`, found `= 0`"),
        (
            "0 close(3)",
            "line 1: expected `=`, but the script ends here",
        ),
        (
            "0 close(F_GETFD) = 0",
            "line 1: `F_GETFD` is unknown here; did you mean `F_GETFL`?",
        ),
        ("0 < S 0:5(4) win 0", "line 1: 0:5 are 5 octets"),
        (
            "0 < S 0:0(0) ack 1 win 0",
            "line 1: the dot among the flags and `ack`",
        ),
        ("0 < Q 0:0(0) win 0", "line 1: `Q`: flags are of"),
        (
            "0 < S 0:0(0) win 0 <...>",
            "line 1: <...> is for packets that leave",
        ),
        ("0 < S 0:0(0) win 0 <mms 5>", "line 1: expected an option"),
        (
            "0 > S 0:0(0) <mss 70000>",
            "line 1: expected octets, found `70000>`",
        ),
        (
            "0 < [tos 0x2] S 0:0(0) win 0",
            "line 1: `tos`: of the IP header this player compares noecn, ect0, ect1 and ce",
        ),
        ("0~1 < S 0:0(0) win 0", "line 1: a range of times"),
        ("0...1 < S 0:0(0) win 0", "line 1: only a call has an end"),
        (
            "2~1 > S 0:0(0)",
            "line 1: the range of times ends before it begins",
        ),
        (
            "0.1234567 close(3) = 0",
            "line 1: a time has at most six places",
        ),
        (
            "0 setsockopt(3, 1, 2, \"x) = 0",
            "line 1: the text has no end",
        ),
        ("0 close(3) = 0\n\n// more\n+0 hm", "line 4: expected `(`"),
    ] {
        let said = text.parse::<Script>().expect_err(text).to_string();
        assert!(said.starts_with(expected), "{text}: {said}");
    }
}

#[test]
fn what_the_stack_is_made_of_is_checked() {
    let refused = |flags: &str| {
        let text = format!("--so_flags=\"{flags}\"\n0 socket(..., SOCK_STREAM, 0) = 3\n");
        played(&text).expect_err(flags).to_string()
    };
    for (flags, expected) in [
        ("tcp-vegass", "tcp-vegass"),
        ("tcp-sack,iv=10", "did you mean `iw`?"),
        (
            "tcp-sack;option=linux",
            "option: unknown; after the composition",
        ),
        (
            "tcp-sack;options=bsd",
            "options=bsd: write options=linux or options=own",
        ),
        ("tcp-sack;local=here", "local=here: write an IPv4 address"),
        ("tcp-sack;seed=x", "seed=x: write a number"),
    ] {
        let said = refused(flags);
        assert!(
            said.starts_with("line 1: ") && said.contains(expected),
            "{said}"
        );
    }
    let setup = Setup::parse("tcp-cubic,iw=10; options=linux; local=10.0.0.1; seed=3").unwrap();
    assert_eq!((setup.spec.as_str(), setup.seed), ("tcp-cubic,iw=10", 3));
    assert!(setup.linux_options && setup.local.octets() == [10, 0, 0, 1]);
}

#[test]
fn the_options_of_a_syn_can_have_linux_order() {
    let script = |flags: &str, offered: &str, answered: &str| {
        let flags = format!("--so_flags=\"tcp-sack,profile=rfc-modern{flags}\"\n");
        let begin = "0 socket(..., SOCK_STREAM, 0) = 3\n+0 bind(3, ..., ...) = 0\n\
                     +0 listen(3, 1) = 0\n";
        let syn = format!("+0 < S 0:0(0) win 65535 <{offered}>\n");
        played(&format!(
            "{flags}{begin}{syn}+0 > S. 0:0(0) ack 1 <{answered}>\n"
        ))
    };
    let all = "mss 1000,sackOK,TS val 100 ecr 0,nop,wscale 7";
    let own = "mss 1460,nop,wscale 7,nop,nop,sackOK,nop,nop,TS val 1 ecr 100";
    let linux = "mss 1460,sackOK,TS val 1 ecr 100,nop,wscale 7";
    assert_eq!(script("", all, own), Ok(()));
    assert_eq!(script(";options=linux", all, linux), Ok(()));
    assert!(script("", all, linux).is_err());
    let some = "mss 1000,nop,nop,TS val 100 ecr 0";
    let linux = "mss 1460,nop,nop,TS val 1 ecr 100";
    assert_eq!(script(";options=linux", some, linux), Ok(()));
}

#[test]
fn timestamps_are_compared_if_the_script_tells_their_unit() {
    let script = |flags: &str, value: &str| {
        let open = OPEN.replace("<mss 1000>", "<mss 1000,nop,nop,TS val 100 ecr 0>");
        let open = open.replace("<...>", "<mss 1460,nop,nop,TS val 500 ecr 100>");
        let open = open.replace(
            "ack 1 win 65535 +0",
            "ack 1 win 65535 <nop,nop,TS val 101 ecr 500> +0",
        );
        let rest = "+0 < P. 1:101(100) ack 1 win 65535 <nop,nop,TS val 102 ecr 500>\n";
        let ack = format!("+0 > . 1:1(0) ack 101 <nop,nop,{value}>\n");
        played(&format!("{flags}{open}{rest}{ack}"))
    };
    let tick = "--tcp_ts_tick_usecs=1000\n";
    assert_eq!(script(tick, "TS val 600 ecr 102"), Ok(()));
    assert!(script(tick, "TS val 601 ecr 102").is_err());
    assert_eq!(script("", "TS val 601 ecr 102"), Ok(()));
    assert!(
        script("", "TS val 600 ecr 101").is_err(),
        "the echo always counts"
    );
}

#[test]
fn an_echo_of_nothing_is_a_mistake_of_the_script() {
    let said = fails("+0 < . 1:1(0) ack 1 win 9 <nop,nop,TS val 1 ecr 77>\n");
    assert_eq!(said, "line 7: no packet that left had `TS val 77`");
}

#[test]
fn sockets_answer_as_the_systems_do() {
    passes(
        "+0 connect(4, ..., ...) = -1 EISCONN\n\
         +0 bind(4, ..., ...) = -1 EINVAL\n\
         +0 accept(4, ..., ...) = -1 EINVAL\n\
         +0 listen(4, 1) = -1 EINVAL\n\
         +0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n\
         +0 fcntl(3, F_GETFL) = 0x802\n\
         +0 accept(3, ..., ...) = -1 EAGAIN\n\
         +0 read(3, ..., 1) = -1 ENOTCONN\n\
         +0 setsockopt(4, SOL_TCP, TCP_KEEPCNT, [3], 4) = 0\n\
         +0 getsockopt(4, SOL_TCP, TCP_KEEPCNT, [3], [4]) = 0\n\
         +0 getsockopt(3, SOL_SOCKET, SO_ACCEPTCONN, [1], [4]) = 0\n\
         +0 setsockopt(4, SOL_SOCKET, 9999, [3], 4) = -1 ENOPROTOOPT\n\
         +0 shutdown(4, 7) = -1 EINVAL\n\
         +0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 5\n\
         +0 shutdown(5, SHUT_WR) = -1 ENOTCONN\n\
         +0 bind(5, ..., ...) = 0\n\
         +0 listen(5, 1) = -1 EADDRINUSE\n\
         +0 close(5) = 0\n\
         +0 send(4, ..., 1, 0x4000000) = -1 EOPNOTSUPP\n",
    );
}

/// They have effect as with WiFu's sockets, also on a listening one; see `keep-alive.pkt` and
/// `user-timeout.pkt`.
#[test]
fn options_that_tune_have_the_range_that_linux_gives_them() {
    for (option, wrong) in [
        ("TCP_KEEPIDLE", "0"),
        ("TCP_KEEPINTVL", "32768"),
        ("TCP_KEEPCNT", "128"),
        ("TCP_USER_TIMEOUT", "-1"),
    ] {
        for fd in [3, 4] {
            passes(&format!(
                "+0 setsockopt({fd}, SOL_TCP, {option}, [{wrong}], 4) = -1 EINVAL\n\
                 +0 setsockopt({fd}, SOL_TCP, {option}, [5], 4) = 0\n\
                 +0 getsockopt({fd}, SOL_TCP, {option}, [5], [4]) = 0\n"
            ));
        }
    }
    let set = "+0 listen(3, 1) = 0\n\
               +0 setsockopt(3, SOL_SOCKET, SO_KEEPALIVE, [1], 4) = 0\n\
               +0 setsockopt(3, SOL_TCP, TCP_KEEPIDLE, [5], 4) = 0\n";
    let asked = OPEN.replace("+0 listen(3, 1) = 0\n", set);
    assert_eq!(played(&format!("{asked}+5 > . 0:0(0) ack 1\n")), Ok(()));
}

#[test]
fn a_syn_that_asks_for_marks_is_one() {
    let script = "--so_flags=\"tcp-sack,profile=rfc-modern,ecn=on\"\n\
                  0 socket(..., SOCK_STREAM, 0) = 3\n\
                  +0...0.1 connect(3, ..., ...) = 0\n\
                  +0 > SEW 0:0(0) <...>\n\
                  +.1 < S. 0:0(0) ack 1 win 65535 <mss 1000>\n\
                  +0 > . 1:1(0) ack 1\n";
    assert_eq!(played(script), Ok(()));
}

#[test]
fn pieces_are_read_and_written_as_one() {
    passes(
        "+0 < P. 1:101(100) ack 1 win 65535\n\
         +0 > . 1:1(0) ack 101\n\
         +0 recv(4, ..., 200, MSG_PEEK) = 100\n\
         +0 readv(4, [{..., 30}, {..., 30}], 2) = 60\n\
         +0 recvmsg(4, {msg_name(...)=..., msg_iov(1)=[{..., 90}], msg_flags=0}, 0) = 40\n\
         +0 writev(4, [{..., 0}, {..., 30}, {..., 20}], 3) = 50\n\
         +0 sendmsg(4, {msg_name(...)=..., msg_iov(1)=[{..., 50}], msg_flags=0}, 0) = 50\n\
         +0 ioctl(4, SIOCOUTQ, [100]) = 0\n\
         +.1 < . 101:101(0) ack 101 win 65535\n\
         +0 ioctl(4, SIOCOUTQ, [0]) = 0\n",
    );
}

#[test]
fn a_reset_is_told_once() {
    passes(
        "+0 < R 1:1(0) win 0\n\
         +0 poll([{fd=4, events=POLLIN, revents=POLLIN|POLLERR|POLLHUP}], 1, 0) = 1\n\
         +0 getsockopt(4, SOL_SOCKET, SO_ERROR, [104], [4]) = 0\n\
         +0 getsockopt(4, SOL_SOCKET, SO_ERROR, [0], [4]) = 0\n\
         +0 read(4, ..., 1) = 0\n\
         +0 write(4, ..., 1) = -1 EPIPE\n",
    );
}

#[test]
fn who_lingers_for_no_time_resets() {
    passes(
        "+0 setsockopt(4, SOL_SOCKET, SO_LINGER, {onoff=1, linger=0}, 8) = 0\n\
         +0 close(4) = 0\n\
         +0 > R. 1:1(0) ack 1 <...>\n",
    );
}

#[test]
fn time_moves_only_where_a_method_moves_it() {
    let mut stack = Stack::new(Setup::default()).unwrap();
    let start = stack.now();
    let begun = stack.begin(Call::Socket(libc::AF_INET, libc::SOCK_STREAM, 0));
    let Begun::Done(Ok(fd)) = begun else {
        panic!("{begun:?}");
    };
    let fd = fd.number as i32;
    let to = "192.0.2.1:8080".parse().unwrap();
    let Begun::Waits(call) = stack.begin(Call::Connect(fd, to)) else {
        panic!("connect waits");
    };
    assert_eq!(stack.now(), start);
    let syn = stack.packet(start).expect("the SYN left at once");
    assert_eq!(syn.at, start);
    assert_eq!(stack.packet(start + Span::MILLI * 999), None);
    let again = stack.packet(Time::NEVER).expect("it goes again");
    assert_eq!(again.at, start + Span::SECOND);
    assert_eq!(stack.finished(call), None);
    let (at, answer) = stack.finish(call, Time::NEVER).expect("it gives up");
    assert_eq!(answer, Err(Errno(libc::ETIMEDOUT)));
    assert_eq!(at, start + Span::SECOND * 63);
    assert_eq!(stack.elapsed(), Span::SECOND * 63);
}

#[test]
fn what_is_no_packet_is_refused() {
    let mut stack = Stack::new(Setup::default()).unwrap();
    assert!(stack.deliver(&[0x45; 10]).is_err());
    assert!(stack.deliver(&[]).is_err());
    // An IPv4 packet that is not TCP is counted.
    let mut packet = vec![0; 28];
    let ip = wifu_wire::IpInfo {
        src: [192, 0, 2, 1].into(),
        dst: [192, 168, 0, 1].into(),
        proto: 17,
        ttl: 64,
        ecn: wifu_wire::Ecn::NotEct,
    };
    wifu_wire::ipv4::emit(&ip, 8, &mut packet);
    assert_eq!(stack.deliver(&packet), Ok(()));
    assert_eq!(stack.endpoint().drops()["protocol not served"], 1);
}

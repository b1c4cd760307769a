//! Queues that push back: sockets wait for a driver whose ring is full, nothing is dropped on the
//! way down, and the radio never runs dry for it.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};
use serde_json::Value;

use super::{Emu, Scratch, privileged, simulated};

/// After this the counts of queues are known.
const KNOWN: Duration = Duration::from_millis(600);

fn status(emu: &Emu, key: &str) -> Value {
    emu.ctl("status")["data"][key].clone()
}

fn drops(emu: &Emu) -> u64 {
    std::thread::sleep(KNOWN);
    status(emu, "queue_drops").as_u64().expect("a number")
}

fn finished(emu: &Emu) -> u64 {
    emu.link("n1", "n2")["frames"].as_u64().expect("a number")
}

/// Waits until n1 has nothing more to send, and gives how many packets it sent to n2 in all.
fn drained(emu: &Emu) -> u64 {
    let mut last = finished(emu);
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = finished(emu);
        if now == last {
            return now;
        }
        last = now;
    }
}

/// A socket on n1 that sends to n2.
fn sender(emu: &Emu) -> UdpSocket {
    let made = emu.namespace("n1").run(|| UdpSocket::bind("0.0.0.0:0"));
    let socket = made.expect("namespace").expect("socket");
    socket.connect("10.0.0.2:9").expect("connect");
    socket
}

/// Sends for so long, as fast as the socket takes datagrams of these sizes in turn; gives how many
/// it took. That nobody listens, which the first may be told, is no failure.
fn pour(socket: &UdpSocket, sizes: &[usize], time: Duration) -> u64 {
    let payload = [0; 1472];
    let (start, mut sent) = (Instant::now(), 0);
    while start.elapsed() < time {
        match socket.send(&payload[..sizes[sent as usize % sizes.len()]]) {
            Ok(_) => sent += 1,
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
            Err(e) => panic!("{e}"),
        }
    }
    sent
}

#[test]
fn a_socket_waits_for_a_full_driver_also_after_a_restart() {
    if !privileged() {
        return;
    }
    let words = "linear,2,rate=6M";
    let flow = ["--flow", "n1:n2:udp,size=1500", "--stop", "5s"];
    let rate = simulated(&[&["--topo", words], &flow[..]].concat()) / (1472.0 * 8.0);
    let seconds = 3u32;
    // In three seconds as many as the radio sends, and what the ring and the socket hold.
    let most = rate * f64::from(seconds) + 200.0 + 150.0;
    let emu = Emu::start("waits", &["--topo", words]);
    assert_eq!(status(&emu, "push_back"), 2);
    for round in ["first", "restarted"] {
        let before = drained(&emu);
        let sent = pour(&sender(&emu), &[1472], Duration::from_secs(seconds.into()));
        let arrived = drained(&emu) - before;
        println!("{round}: {sent} taken of the socket, {arrived} sent by the radio, <= {most:.0}");
        assert_eq!(drops(&emu), 0, "{round}");
        assert_eq!(arrived, sent, "{round}");
        if emu.is_valid() {
            let sent = sent as f64;
            assert!(sent < 1.05 * most && sent > 0.9 * (most - 350.0), "{round}");
        }
        emu.done("restart n1 0");
    }
    assert_eq!(status(&emu, "push_back"), 2);
    emu.exit();

    let emu = Emu::start("spills", &["--topo", words, "--push-back", "off"]);
    let sent = pour(&sender(&emu), &[1472], Duration::from_secs(1));
    let (lost, arrived) = (drops(&emu), drained(&emu));
    println!("without: {sent} taken, {arrived} sent by the radio, {lost} dropped");
    assert!(sent as f64 > 2.0 * most && lost > 1000);
    let shown = emu.ctl("status")["text"].to_string();
    assert!(shown.contains("do not push back: it is off"), "{shown}");
    emu.exit();
}

/// What iperf3 says of a transfer of 10 MB by a kernel's TCP without a limited window.
fn transfer(emu: &Emu, control: &str) -> Value {
    let mut server = emu.namespace("n2").command("iperf3").expect("namespace");
    let server = server.args(["-s", "-1"]).stdout(Stdio::null()).spawn();
    let mut server = server.expect("iperf3");
    std::thread::sleep(Duration::from_millis(500));
    let args = ["-J", "-n", "10M", "-C", control, "-c", "10.0.0.2"];
    let output = emu.on("n1", "iperf3", &args);
    assert!(server.wait().expect("wait").success());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn the_kernels_tcp_loses_nothing_in_its_own_queue_however_large_its_window() {
    if !privileged() {
        return;
    }
    for (push_back, controls) in [("on", &["reno", "cubic"][..]), ("off", &["reno"])] {
        let words = "linear,2,rate=24M";
        let emu = Emu::start("window", &["--topo", words, "--push-back", push_back]);
        for control in controls {
            let end = transfer(&emu, control)["end"].clone();
            let again = end["sum_sent"]["retransmits"].as_u64().expect("a number");
            let rate = end["sum_received"]["bits_per_second"].as_f64();
            let (rate, lost) = (rate.expect("a rate") / 1e6, drops(&emu));
            println!(
                "{control}, push-back {push_back}: {lost} lost in queues, {again} repeated, \
                 {rate:.2} Mb/s"
            );
            assert_eq!(lost == 0 && again == 0, push_back == "on");
        }
        emu.print_status();
        emu.exit();
    }
}

/// Octets and frames that the kernel of n1 handed to its device.
fn handed_down(emu: &Emu) -> [f64; 2] {
    let text = emu.on("n1", "cat", &["/proc/net/dev"]).stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().find(|l| l.trim().starts_with("wlan0:"));
    let numbers = line.expect("a line").split_whitespace();
    let numbers: Vec<f64> = numbers.flat_map(str::parse).collect();
    [numbers[8], numbers[9]]
}

/// Mean time from one packet of so many octets to the next at 24 Mb/s without contention, s: a
/// line through 681.5 us for 1500 octets and 197.5 us for 52.
fn exchange(octets: f64) -> f64 {
    (197.5 + (octets - 52.0) * (681.5 - 197.5) / 1448.0) * 1e-6
}

#[test]
fn the_radio_never_runs_dry() {
    if !privileged() {
        return;
    }
    // A ring of one buffer hangs on every turn of the valve's thread, and the machine is shared.
    for (what, sizes, ring, slack) in [
        ("large", &[1472][..], "radio.ring=200", 0.02),
        ("small", &[72], "radio.ring=200", 0.02),
        ("mixed", &[1472, 72, 72, 400], "radio.ring=200", 0.02),
        ("one buffer", &[1472], "radio.ring=1", 0.1),
    ] {
        let busy = ["on", "off"].map(|push_back| {
            let words = [
                "--topo",
                "linear,2,rate=24M",
                ring,
                "--push-back",
                push_back,
            ];
            let emu = Emu::start("dry", &words);
            let socket = sender(&emu);
            let count = || {
                let seconds = status(&emu, "seconds").as_f64().expect("a number");
                (seconds, finished(&emu) as f64, handed_down(&emu))
            };
            let busy = std::thread::scope(|scope| {
                scope.spawn(|| match push_back {
                    "on" => pour(&socket, sizes, Duration::from_secs(4)),
                    // Not so fast that nothing else runs on the machine.
                    _ => {
                        for _ in 0..400 {
                            let _ = socket.send(&[0; 1472][..sizes[0]]);
                            pour(&socket, sizes, Duration::from_micros(500));
                            std::thread::sleep(Duration::from_millis(9));
                        }
                        0
                    }
                });
                std::thread::sleep(Duration::from_millis(700));
                let (t0, n0, down0) = count();
                std::thread::sleep(Duration::from_secs(2));
                let (t1, n1, down1) = count();
                let size = (down1[0] - down0[0]) / (down1[1] - down0[1]) - 14.0;
                (n1 - n0) * exchange(size) / (t1 - t0)
            });
            let valid = emu.is_valid();
            let lost = drops(&emu);
            match push_back {
                "on" => assert_eq!(lost, 0, "{what}"),
                // Where a busy machine starved the sender nothing overflows.
                _ => assert!(lost > 0 || !valid, "{what}: none lost"),
            }
            emu.exit();
            valid.then_some(busy)
        });
        println!("{what}: radio busy {busy:.4?} of the time with and without push-back");
        if let [Some(on), Some(off)] = busy {
            assert!(on > 1.0 - slack, "{what}: {on}");
            let less = 1.0 - on / off;
            // On a busy machine it is who sends without push-back that is late.
            assert!(less < slack, "{what}: {:.1} % less", less * 100.0);
        }
    }
}

#[test]
fn what_many_sockets_lose_in_a_queue_is_counted() {
    if !privileged() {
        return;
    }
    let emu = Emu::start("many", &["--topo", "linear,2,rate=6M", "radio.queue=100"]);
    let sockets: Vec<UdpSocket> = (0..40).map(|_| sender(&emu)).collect();
    let mut sent = 0;
    for socket in &sockets {
        socket.set_nonblocking(true).expect("socket");
        for _ in 0..60 {
            // One that finds the queue full counts as sent.
            sent += u64::from(socket.send(&[0; 1472]).is_ok());
        }
    }
    let (arrived, lost) = (drained(&emu), drops(&emu));
    println!("{sent} sent by 40 sockets: {arrived} left the radio, {lost} found the queue full");
    // The queue and the ring, and what left meanwhile; on a busy machine all may be sent before
    // anybody takes a packet out of the queue.
    assert!((100..500).contains(&arrived), "{arrived}");
    assert_eq!(arrived + lost, sent);
    let rows = emu.ctl("nodes")["data"].clone();
    assert_eq!(rows[0]["queue_drops"], lost);
    emu.exit();
}

/// Sends super-packets, each of 64 datagrams, for two seconds; prints how many datagrams.
const SUPER: &str = "
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_UDP, 103, 100)
s.connect(('10.0.0.2', 9))
end, sent = time.time() + 2, 0
while time.time() < end:
    try:
        s.send(bytes(6400))
        sent += 64
    except ConnectionRefusedError:
        pass
print(sent)";

#[test]
fn super_packets_are_not_lost_either() {
    if !privileged() {
        return;
    }
    for ring in ["radio.ring=200", "radio.ring=5"] {
        let emu = Emu::start("super", &["--topo", "linear,2,rate=24M", ring]);
        let output = emu.on("n1", "python3", &["-c", SUPER]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let sent: u64 = said.trim().parse().expect("a number");
        println!("{ring}: {sent} datagrams sent by a socket in super-packets");
        assert!(sent > 2000, "{sent}");
        assert_eq!((drained(&emu), drops(&emu)), (sent, 0), "{ring}");
        emu.exit();
    }
}

#[test]
fn what_makes_the_kernel_look_is_seen_by_nobody() {
    if !privileged() {
        return;
    }
    let emu = Emu::start("unseen", &["--topo", "linear,2,rate=24M"]);
    let capture = emu.capture("n1");
    let socket = sender(&emu);
    let (mut ours, mut others) = (0, Vec::new());
    std::thread::scope(|scope| {
        let pouring = scope.spawn(|| pour(&socket, &[1472], Duration::from_secs(1)));
        let mut frame = [0; 2048];
        loop {
            let ended = pouring.is_finished();
            while let Ok((n, _)) = recv(&capture, &mut frame[..], RecvFlags::DONTWAIT) {
                match frame[12..14] == [8, 0] {
                    true => ours += 1,
                    false => others.push(frame[..n.min(20)].to_vec()),
                }
            }
            if ended {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let shown = emu.on("n1", "tc", &["-s", "qdisc", "show", "dev", "wlan0"]);
    println!("{}", String::from_utf8_lossy(&shown.stdout));
    // Several rings full: more was granted than once.
    assert!(ours > 800, "{ours} seen");
    assert!(others.is_empty(), "{others:02x?}");
    emu.exit();
}

#[test]
fn the_emulation_goes_on_when_somebody_changes_the_queue() {
    if !privileged() {
        return;
    }
    let emu = Emu::start("theirs", &["--topo", "linear,2", "radio.queue=70"]);
    let tc = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let output = emu.on("n1", "tc", &words);
        assert!(output.status.success(), "{output:?}");
    };
    let answers = || emu.ping("n1", "-n -c 20 -i 0.05 -W 3 10.0.0.2").len();
    assert_eq!(answers(), 20);
    // What was granted is gone, and one frame passes in twenty seconds.
    tc("qdisc change dev wlan0 root handle 5746: tbf rate 800bit burst 2048 limit 2048 mpu 2048");
    assert_eq!(answers(), 20, "it is granted again");
    assert_eq!(status(&emu, "push_back"), 2);
    tc("qdisc replace dev wlan0 root pfifo limit 10");
    // Once it is known, the device's ring gets another length, and a kernel that changes that drops
    // what is sent meanwhile.
    assert!(answers() >= 19);
    std::thread::sleep(KNOWN);
    assert_eq!(status(&emu, "push_back"), 1);
    let shown = emu.ctl("status")["text"].to_string();
    assert!(shown.contains("1 of 2 do not push back"), "{shown}");
    // What the device's own ring holds is again what the queue of the set does.
    let link = emu.on("n1", "ip", &["link", "show", "wlan0"]);
    let link = String::from_utf8_lossy(&link.stdout).into_owned();
    assert!(link.contains("qlen 70"), "{link}");
    tc("qdisc del dev wlan0 root");
    assert_eq!(answers(), 20);
    emu.done("restart n1 0");
    assert_eq!(answers(), 20);
    emu.exit();
}

#[test]
fn without_the_disciplines_queues_drop_as_it_says() {
    if !privileged() {
        return;
    }
    // As a kernel without them: nobody to set them up.
    let dir = Scratch::new("no-tc");
    for program in ["ip", "sh", "rm", "rmdir", "cat", "sleep"] {
        let found = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
            .iter()
            .map(|d| std::path::Path::new(d).join(program))
            .find(|p| p.exists());
        symlink(found.expect(program), dir.0.join(program)).expect("link");
    }
    let path = dir.0.display().to_string();
    let emu = Emu::start_with("no-tc", &["--topo", "linear,2"], &[("PATH", &path)]);
    assert_eq!(emu.ping("n1", "-n -c 3 -i 0.1 -W 2 10.0.0.2").len(), 3);
    assert_eq!(status(&emu, "push_back"), 0);
    let shown = emu.ctl("status")["text"].to_string();
    assert!(
        shown.contains("do not push back") && shown.contains("tc"),
        "{shown}"
    );
    pour(&sender(&emu), &[1472], Duration::from_secs(1));
    assert!(drops(&emu) > 0);
    emu.exit();
}

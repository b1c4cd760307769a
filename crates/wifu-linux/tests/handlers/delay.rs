//! What programs in the kernel measure of a device's delay.

use crate::common::privileged;
use crate::world::World;
use std::net::UdpSocket;
use std::time::Duration;
use wifu_linux::delay::{Measure, Meter, Setup};
use wifu_linux::steps::output_of;

#[test]
fn a_devices_delay_is_what_its_reader_makes_of_it() {
    if !privileged() {
        return;
    }
    let w = World::new("delay");
    let measure = || {
        let (fd, name) = wifu_linux::sys::open_tun("wlan%d").expect("tun");
        // Its solicitations would come first.
        let ipv6 = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
        std::fs::write(ipv6, "1").expect("setting");
        for line in [
            format!("ip link set dev {name} up"),
            format!("ip addr add 10.85.0.1/24 dev {name}"),
        ] {
            output_of(&line).expect("ip");
        }
        let meter = Meter::open(&name, &Setup::default()).expect("meter");
        let socket = UdpSocket::bind(("10.85.0.1", 0)).expect("socket");
        let mut room = [0; 2000];
        let mut before = meter.read().expect("reading");
        assert_eq!(before.samples, 0);
        for (n, ms) in (1..).zip([2, 2, 7, 1, 4]) {
            socket.send_to(&[0; 100], "10.85.0.2:9").expect("send");
            std::thread::sleep(Duration::from_millis(ms));
            rustix::io::read(&fd, &mut room[..]).expect("packet");
            let now = meter.read().expect("reading");
            assert_eq!((now.entered, now.samples, now.dropped), (n, n, 0));
            // On a busy machine a sleep may take longer.
            assert!(
                (ms * 1_000_000..(ms + 50) * 1_000_000).contains(&now.sample),
                "{now:?}"
            );
            let wanted = match n {
                1 => now.sample,
                _ => before.average / 4 * 3 + now.sample / 4,
            };
            assert!(now.average.abs_diff(wanted) < 8, "{before:?} {now:?}");
            before = now;
        }
    };
    w.a.run(measure).expect("namespace");
}

fn queue() -> Setup {
    Setup {
        measure: Measure::Queue,
        ..Setup::default()
    }
}

#[test]
fn segments_are_not_timed_from_where_a_super_packet_began() {
    if !privileged() {
        return;
    }
    let w = World::new("cut");
    let tbf = "qdisc add dev eth0 root tbf rate 1gbit burst 3200 limit 1000000";
    output_of(&format!("tc -n {} {tbf}", w.a.name())).expect("tc");
    // Datagrams in super-packets (UDP_SEGMENT), which the bucket cuts.
    let send = "import socket, time\n\
                s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                s.setsockopt(socket.IPPROTO_UDP, 103, 1000)\n\
                for n in range(200):\n    \
                    s.sendto(bytes(20000), ('10.83.0.2', 9))\n    \
                    time.sleep(0.005)\n";
    let measure = || {
        let meter = Meter::open("eth0", &queue()).expect("meter");
        let mut python = std::process::Command::new("python3");
        let done = python.args(["-c", send]).status().expect("python3");
        assert!(done.success());
        meter.read().expect("reading")
    };
    let reading = w.a.run(measure).expect("namespace");
    assert!(reading.entered >= 200, "{reading:?}");
    // Nobody saw a segment begin; what remains is address resolution and the like.
    assert!(reading.samples <= reading.entered - 200, "{reading:?}");
}

#[test]
fn the_objects_in_the_repository_are_what_the_compiler_makes_of_the_sources() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf");
    if output_of("clang-14 --version").is_err() || output_of("llvm-strip-14 --version").is_err() {
        eprintln!("skipped: no clang-14 and llvm-14 here");
        return;
    }
    let out = std::env::temp_dir().join(format!("wifu-bpf-{}", std::process::id()));
    std::fs::create_dir_all(&out).expect("directory");
    output_of(&format!("{dir}/build.sh {}", out.display())).expect("clang");
    let mut compared = 0;
    for entry in std::fs::read_dir(&out).expect("directory").flatten() {
        let made = std::fs::read(entry.path()).expect("object");
        let kept = std::fs::read(std::path::Path::new(dir).join(entry.file_name()));
        assert!(
            kept.expect("object") == made,
            "{:?}: run bpf/build.sh",
            entry.file_name()
        );
        compared += 1;
    }
    assert!(compared > 0);
    std::fs::remove_dir_all(&out).expect("removal");
}

//! `wifu delay`: stamping in the kernel, the pinned map, the files.

use std::fs::File;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::common::{privileged, receive};
use crate::world::{A, B, Core, Ended, WIFU, World, atp, errors, output, text, wait_until};

/// ATP packets of every kind that the collector treats differently, from a to b; what arrives.
fn stamped(w: &World) -> Vec<Vec<u8>> {
    let at_b = |port| move || UdpSocket::bind((B, port)).expect("socket");
    let receivers = [9438, 9500].map(|port| w.b.run(at_b(port)).expect("namespace"));
    let sender = w.a.run(|| UdpSocket::bind((A, 0)).expect("socket"));
    let sender = sender.expect("namespace");
    let mut came = Vec::new();
    for control in [0u16, 0x0800, 0x4000, 0x0400, 0x0100] {
        for (hops, before) in [(0, 0u32), (254, 2043), (255, 2044), (7, 900_000)] {
            for (receiver, port) in receivers.iter().zip([9438, 9500]) {
                let mut payload = atp();
                payload[2..4].copy_from_slice(&control.to_be_bytes());
                payload[6] = hops;
                payload[16..20].copy_from_slice(&before.to_be_bytes());
                sender.send_to(&payload, (B, port)).expect("send");
                let patience = Some(Duration::from_secs(5));
                receiver.set_read_timeout(patience).expect("timeout");
                let mut room = [0; 200];
                let length = receive(receiver, &mut room).expect("its checksum is right");
                came.push(room[..length].to_vec());
            }
        }
    }
    came
}

#[test]
fn the_kernel_stamps_delays_as_the_handler_does() {
    if !privileged() {
        return;
    }
    let w = World::new("stamp");
    let plain = stamped(&w);
    let mut command = w.r.command(WIFU).expect("namespace");
    let dir = w.dir.join("delay");
    let args = [
        "delay", "--dev", "eth1", "--stamp", "--fixed", "2044us", "--dir",
    ];
    let mut delay = w.delay("delay", command.args(args).arg(&dir));
    assert!(!delay.is_over(), "{}", delay.said());
    let by_kernel = stamped(&w);
    delay.signal(Signal::TERM);
    assert!(wait_until(|| delay.is_over()), "{}", delay.said());
    assert_eq!(stamped(&w), plain, "it goes with its program");
    // The handler, with the same delay of a driver that is never idle.
    let files = w.dir.display().to_string();
    std::fs::write(w.dir.join("Da"), "2044\n").expect("file");
    let over = core::sync::atomic::AtomicBool::new(false);
    let by_handler = std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (0..).take_while(|_| !over.load(core::sync::atomic::Ordering::Relaxed)) {
                std::fs::write(w.dir.join("sample"), format!("{}\n", n % 2)).expect("file");
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let text = "FORWARD -i eth0 -p udp -j NFQUEUE --queue-num 2\n\
                    handler delay-collector 17\n";
        let handler = w.core(&w.r, "stamp.conf", text, &["--delay-dir", &files]);
        std::thread::sleep(Duration::from_millis(100));
        let came = stamped(&w);
        over.store(true, core::sync::atomic::Ordering::Relaxed);
        handler.end(Signal::TERM);
        came
    });
    assert_eq!(by_kernel, by_handler);
    assert_ne!(by_kernel, plain);
}

/// A BPF file system of our own, in a mount namespace of our own.
struct Bpf {
    w: World,
    /// In that namespace.
    at: PathBuf,
    _holder: Ended,
    inside: String,
}

impl Bpf {
    fn new(test: &str) -> Bpf {
        let w = World::new(test);
        let at = w.dir.join("bpf");
        std::fs::create_dir_all(&at).expect("directory");
        // And notes of our own, which nobody else adds to.
        let script = "mount --make-rprivate / && mount -t bpf bpf \"$0\" && \
                      mkdir -p /run/wifu/delay && mount -t tmpfs none /run/wifu/delay && \
                      echo ready && exec sleep 99";
        let mut holder = Command::new("unshare");
        let holder = holder.args(["-m", "sh", "-c", script]).arg(&at);
        let holder = holder.stdout(Stdio::piped()).spawn().expect("unshare");
        let mut holder = Ended(holder);
        let mut ready = [0; 5];
        let mut said = holder.0.stdout.take().expect("pipe");
        std::io::Read::read_exact(&mut said, &mut ready).expect("ready");
        let inside = holder.0.id().to_string();
        Bpf {
            w,
            at,
            _holder: holder,
            inside,
        }
    }

    fn wifu(&self, args: &[&str]) -> Command {
        let mut command = self.w.r.command("nsenter").expect("namespace");
        command.args(["-t", &self.inside, "-m", WIFU]).args(args);
        command
    }

    /// `wifu clean` with the same notes, where the file system is not visible: as inside of
    /// `ip netns exec`, which mounts /sys anew.
    fn clean_blindly(&self, args: &[&str]) -> String {
        let mut command = self.w.r.command("nsenter").expect("namespace");
        command.args(["-t", &self.inside, "-m", "unshare", "-m", "sh", "-c"]);
        command.arg("umount \"$0\" && exec \"$@\"").arg(&self.at);
        let done = output(command.args([WIFU, "clean"]).args(args));
        assert!(done.status.success(), "{}", errors(&done));
        text(&done) + &errors(&done)
    }

    /// Where we see what is at a path there.
    fn seen(&self, path: &Path) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{}", self.inside, path.display()))
    }

    /// Begin `wifu delay` with this name for its map.
    fn delay(&self, device: &str, pin: &str, more: &[&str], out: Stdio) -> Core {
        let log = self.w.dir.join(format!("delay-{device}.log"));
        let mut command = self.wifu(&["delay", "--dev", device, "--measure", "queue"]);
        let command = command.args(["--pin", pin]).args(more);
        let command = command.stderr(File::create(&log).expect("log"));
        let child = command.stdout(out).spawn().expect("wifu delay");
        let out = self.w.dir.join("none");
        let err = log;
        Core { child, out, err }
    }

    /// The same, and wait until it measures.
    fn measure(&self, device: &str, pin: &str, more: &[&str], out: Stdio) -> Core {
        let mut delay = self.delay(device, pin, more, out);
        wait_until(|| delay.said().contains("wifu delay:") || delay.is_over());
        assert!(!delay.is_over(), "{}", delay.said());
        delay
    }
}

#[test]
fn the_map_of_the_delay_is_there_for_others_and_goes_with_its_program() {
    if !privileged() {
        return;
    }
    let bpf = Bpf::new("pin");
    let w = &bpf.w;
    let above = bpf.seen(&bpf.at.join("wifu"));
    let (pin, dir) = (bpf.at.join("wifu/eth1"), w.dir.join("files"));
    let [pin_text, dir_text] = [&pin, &dir].map(|p| p.display().to_string());
    let pin = bpf.seen(&pin);
    let begin = || bpf.measure("eth1", &pin_text, &[], Stdio::null());
    let mut delay = begin();
    assert_eq!(w.ping(20).0, 20);
    let reading = wifu_linux::delay::Reading::pinned(&pin).expect("map");
    assert!(reading.samples >= 20 && reading.average > 0, "{reading:?}");
    // Another one may not take the name, and leaves it alone.
    let args = [
        "delay", "--dev", "eth0", "--pin", &pin_text, "--dir", &dir_text,
    ];
    let other = errors(&bpf.wifu(&args).output().expect("wifu"));
    assert!(other.contains("there is something already"), "{other}");
    assert!(pin.exists());
    delay.signal(Signal::TERM);
    assert!(wait_until(|| delay.is_over()), "{}", delay.said());
    assert!(!pin.exists(), "it goes with its program");
    assert!(!above.exists(), "and so does the directory made for it");
    let mut killed = begin();
    killed.signal(Signal::KILL);
    assert!(wait_until(|| killed.is_over()));
    assert!(pin.exists(), "a pin outlives its process");
    let said = text(
        &bpf.wifu(&["clean", "--dry-run"])
            .output()
            .expect("wifu clean"),
    );
    assert!(said.contains(&format!("rm -f {pin_text}\n")), "{said}");
    assert!(said.contains("/bpf/wifu\n"), "{said}");
    assert!(pin.exists(), "a dry run");
    let kept = format!("pin {pin_text}: its BPF file system is not visible here");
    for args in [&["--dry-run"][..], &[]] {
        let said = bpf.clean_blindly(args);
        assert!(said.contains(&kept), "{said}");
        assert!(!said.contains("rm -rf /run/wifu/delay/pin-"), "{said}");
    }
    assert!(bpf.wifu(&["clean"]).status().expect("wifu clean").success());
    assert!(!pin.exists(), "and is cleaned away");
    assert!(!above.exists(), "with the directory");
    // Where there is no BPF file system, it says what to do.
    let plain = w.dir.join("x").display().to_string();
    let args = [
        "delay", "--dev", "eth1", "--pin", &plain, "--dir", &dir_text,
    ];
    let wrong = errors(&bpf.wifu(&args).output().expect("wifu"));
    assert!(wrong.contains("mount -t bpf"), "{wrong}");
}

#[test]
fn a_dry_run_of_a_pin_says_which_directories_come_and_go() {
    if !privileged() {
        return;
    }
    let bpf = Bpf::new("pindry");
    let pin = bpf.at.join("a/b/c").display().to_string();
    let args = ["delay", "--dev", "eth1", "--pin", &pin, "--dry-run"];
    let said = text(&bpf.wifu(&args).output().expect("wifu delay"));
    let (up, down) = said.split_once("# down").expect("two parts");
    let at = bpf.at.display();
    assert!(
        up.contains(&format!("mkdir {at}/a\nmkdir {at}/a/b\n")),
        "{up}"
    );
    let rmdir = "rmdir --ignore-fail-on-non-empty";
    let gone = format!("rm -f {at}/a/b/c\n{rmdir} {at}/a/b\n{rmdir} {at}/a\n");
    assert!(down.contains(&gone), "{down}");
    assert!(!bpf.seen(&bpf.at.join("a")).exists());
}

#[test]
fn a_name_that_is_somebody_elses_by_now_stays_and_a_directory_goes_with_the_last() {
    if !privileged() {
        return;
    }
    let bpf = Bpf::new("pintwo");
    let [one, two] = ["eth0", "eth1"].map(|n| bpf.at.join("wifu").join(n));
    let [one_text, two_text] = [&one, &two].map(|p| p.display().to_string());
    let [one, two] = [&one, &two].map(|p| bpf.seen(p));
    let mut killed = bpf.measure("eth0", &one_text, &[], Stdio::null());
    killed.signal(Signal::KILL);
    assert!(wait_until(|| killed.is_over()));
    std::fs::remove_file(&one).expect("removal");
    // It comes into the other's directory, and under its name.
    let dir = bpf.w.dir.join("files").display().to_string();
    let mut heir = bpf.measure("eth1", &one_text, &["--dir", &dir], Stdio::null());
    assert!(bpf.wifu(&["clean"]).status().expect("wifu clean").success());
    assert!(one.exists(), "it is of a living one");
    let mut next = bpf.measure("eth0", &two_text, &[], Stdio::null());
    for delay in [&mut next, &mut heir] {
        delay.signal(Signal::TERM);
        assert!(wait_until(|| delay.is_over()), "{}", delay.said());
    }
    assert!(!one.exists() && !two.exists());
    assert!(!one.parent().expect("a directory").exists());
}

#[test]
fn everything_goes_also_when_nobody_reads_what_was_measured() {
    if !privileged() {
        return;
    }
    let bpf = Bpf::new("pinpipe");
    let pin = bpf.at.join("wifu/eth1");
    let dir = bpf.w.dir.join("files");
    let [pin_text, dir_text] = [&pin, &dir].map(|p| p.display().to_string());
    let (reader, writer) = std::io::pipe().expect("pipe");
    drop(reader);
    let mut delay = bpf.measure("eth1", &pin_text, &["--dir", &dir_text], writer.into());
    assert!(bpf.seen(&pin).exists() && dir.join("owner").exists());
    delay.signal(Signal::TERM);
    assert!(wait_until(|| delay.is_over()), "{}", delay.said());
    assert!(!dir.exists(), "{}", delay.said());
    assert!(!bpf.seen(&bpf.at.join("wifu")).exists());
    assert!(delay.said().contains("standard output"), "{}", delay.said());
}

#[test]
fn a_name_that_cannot_be_noted_is_not_given() {
    if !privileged() {
        return;
    }
    let bpf = Bpf::new("pinnote");
    let pin = bpf.at.join("wifu/eth1");
    let dir = bpf.w.dir.join("files");
    let [pin_text, dir_text] = [&pin, &dir].map(|p| p.display().to_string());
    let mut remount = Command::new("nsenter");
    remount.args(["-t", &bpf.inside, "-m", "mount", "-o", "remount,ro"]);
    let done = output(remount.arg("/run/wifu/delay"));
    assert!(done.status.success(), "{}", errors(&done));
    let mut delay = bpf.delay("eth1", &pin_text, &["--dir", &dir_text], Stdio::null());
    assert!(wait_until(|| delay.is_over()), "{}", delay.said());
    assert!(delay.said().contains("Read-only"), "{}", delay.said());
    assert!(!bpf.seen(&bpf.at.join("wifu")).exists());
    assert!(!dir.exists());
}

#[test]
fn the_name_given_by_a_killed_one_goes_wherever_its_files_are() {
    if !privileged() {
        return;
    }
    let bpf = Bpf::new("pinelsewhere");
    let (pin, dir) = (bpf.at.join("wifu/eth1"), bpf.w.dir.join("files"));
    let [pin_text, dir_text] = [&pin, &dir].map(|p| p.display().to_string());
    let pin = bpf.seen(&pin);
    let kill = || {
        let mut delay = bpf.measure("eth1", &pin_text, &["--dir", &dir_text], Stdio::null());
        delay.signal(Signal::KILL);
        assert!(wait_until(|| delay.is_over()));
        assert!(pin.exists());
    };
    kill();
    // The next one with this name takes its place.
    kill();
    let clean = |args: &[&str]| text(&output(&mut bpf.wifu(&[&["clean"], args].concat())));
    let said = clean(&["--dry-run"]);
    assert!(said.contains(&format!("rm -f {pin_text}\n")), "{said}");
    clean(&[]);
    assert!(!bpf.seen(&bpf.at.join("wifu")).exists());
    assert!(dir.join("owner").exists(), "of --dir nobody knows");
    let notes = bpf.seen(Path::new("/run/wifu/delay"));
    assert_eq!(std::fs::read_dir(notes).expect("notes").count(), 0);
}

#[test]
fn files_of_a_killed_measurement_are_cleaned_away() {
    if !privileged() {
        return;
    }
    let w = World::new("kill");
    let begin = |name: &str| {
        let mut command = w.r.command(WIFU).expect("namespace");
        w.delay(
            name,
            command.args(["delay", "--dev", "eth1", "--measure", "queue"]),
        )
    };
    let mut first = begin("first");
    assert!(!first.is_over(), "{}", first.said());
    let said = first.said();
    let dir = PathBuf::from(said.trim().rsplit(' ').next().expect("a path"));
    w.ping(20);
    let average = || std::fs::read_to_string(dir.join("Da")).unwrap_or_default();
    assert!(
        wait_until(|| average().trim().parse::<u64>().is_ok()),
        "{}",
        average()
    );
    let mut second = begin("second");
    assert!(wait_until(|| second.is_over()));
    assert!(second.said().contains("writes there"), "{}", second.said());
    let clean = || output(w.r.command(WIFU).expect("namespace").arg("clean"));
    clean();
    assert!(dir.exists(), "its owner lives");
    first.child.kill().expect("kill");
    first.child.wait().expect("wait");
    assert!(dir.exists());
    clean();
    assert!(!dir.exists());
}

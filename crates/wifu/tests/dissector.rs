//! `wifu dissector`: by its plug-in tshark reads what our protocols send as TCP.

use std::path::Path;
use std::process::{Command, Output};

use wifu_wire::pcapng::{Captured, LinkType, Writer};

fn run(program: &str, args: &[&str]) -> Output {
    let output = Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
    output
}

/// Sequence number and flags of each packet that tshark takes for TCP.
fn segments(capture: &Path, options: &[&str]) -> Vec<String> {
    let capture = capture.display().to_string();
    let fields = [
        "-Y",
        "tcp",
        "-T",
        "fields",
        "-e",
        "tcp.seq",
        "-e",
        "tcp.flags",
    ];
    let args = [options, &["-r", &capture][..], &fields[..]].concat();
    let output = run("tshark", &args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

/// A capture as the carrier `raw` writes it: one SYN from port 1000 to 2000 under this number.
fn capture(number: u8, path: &Path) {
    let tcp = [
        3, 232, 7, 208, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 2, 255, 255, 0, 0, 0, 0,
    ];
    let ip = [
        69, 0, 0, 40, 0, 0, 64, 0, 64, number, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    let mut out = Vec::new();
    let mut writer = Writer::begin(&mut out, "test", 0);
    let interface = writer.interface(&mut out, "raw", LinkType::RAW);
    let packet = Captured {
        interface,
        wall_ns: 1,
        octets: &[ip, tcp].concat(),
        direction: None,
        comment: "",
    };
    writer.packet(&mut out, &packet);
    std::fs::write(path, out).expect("capture");
}

#[test]
fn wireshark_reads_our_protocols_with_it_and_not_without() {
    let wifu = env!("CARGO_BIN_EXE_wifu");
    let dir = std::env::temp_dir().join(format!("wifu-dissector-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("directory");
    let script = dir.join("wifu.lua");
    std::fs::write(&script, run(wifu, &["dissector"]).stdout).expect("script");
    let plug_in = format!("lua_script:{}", script.display());
    let library = wifu_parts::library();
    for name in library.protocols() {
        let path = dir.join(name);
        capture(library.expand(name).expect("protocol").number, &path);
        assert_eq!(
            segments(&path, &[]),
            [""; 0],
            "{name}: nobody knows the number"
        );
        assert_eq!(segments(&path, &["-X", &plug_in]), ["0\t0x0002"], "{name}");
    }
    std::fs::remove_dir_all(dir).expect("removal");
}

//! The fuzz targets for a bounded time with fixed seeds: `make fuzz` looks further.

use wifu_testkit::fuzz;
use wifu_wire::Rng;

/// Bytes of any length up to `most`.
fn noise(rng: &mut Rng, most: u64) -> Vec<u8> {
    let n = rng.below(most);
    (0..n).map(|_| rng.next_u32() as u8).collect()
}

/// `seed` with a few bytes changed, cut or doubled.
fn mutate(rng: &mut Rng, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        match rng.below(4) {
            0 => bytes.truncate(at),
            1 => {
                let piece = bytes[at..].to_vec();
                bytes.extend_from_slice(&piece);
            }
            _ if at < bytes.len() => bytes[at] = rng.next_u32() as u8,
            _ => bytes.push(rng.next_u32() as u8),
        }
    }
    bytes.truncate(4_096);
    bytes
}

#[test]
fn the_tcp_header_survives_any_bytes() {
    let mut rng = Rng::new(1);
    for _ in 0..50_000 {
        let mut bytes = noise(&mut rng, 120);
        if bytes.len() > 13 && rng.below(4) > 0 {
            bytes[12] = ((5 + rng.below(11)) << 4) as u8;
        }
        fuzz::tcp(&bytes);
    }
}

#[test]
fn atps_header_and_holes_survive_any_bytes() {
    let mut rng = Rng::new(8);
    for _ in 0..50_000 {
        let mut bytes = noise(&mut rng, 250);
        // Whole holes, as many as there are octets, more, or fewer.
        if bytes.len() > 13 && rng.below(4) > 0 {
            bytes[12..14].copy_from_slice(&(8 * rng.below(26) as u16).to_be_bytes());
        }
        fuzz::atp(&bytes);
    }
}

#[test]
fn the_headers_and_runs_of_hxh_and_hop_survive_any_bytes() {
    let mut rng = Rng::new(12);
    for _ in 0..50_000 {
        let mut bytes = noise(&mut rng, 250);
        // So many runs as there are octets for, more, or fewer.
        if bytes.len() > 4 && rng.below(4) > 0 {
            bytes[2..4].copy_from_slice(&(rng.below(40) as u16).to_be_bytes());
        }
        fuzz::hxh(&bytes);
        fuzz::hop(&bytes);
    }
}

#[test]
fn the_ipv6_header_and_what_follows_it_survive_any_bytes() {
    let mut rng = Rng::new(10);
    let mut understood = 0;
    for _ in 0..50_000 {
        let mut bytes = noise(&mut rng, 160);
        if bytes.len() > 47 && rng.below(4) > 0 {
            let next = [0, 6, 43, 44, 60];
            let length = (bytes.len() - 40) as u16;
            bytes[0] = 0x60;
            bytes[4..6].copy_from_slice(&length.to_be_bytes());
            bytes[6] = next[rng.below(5) as usize];
            bytes[40] = next[rng.below(5) as usize];
            bytes[41] = rng.below(3) as u8;
            bytes[42..48].fill(rng.below(2) as u8);
        }
        understood += u32::from(wifu_wire::ipv6::parse(&bytes).is_ok());
        fuzz::ipv6(&bytes);
    }
    assert!(understood > 5_000, "{understood}");
}

#[test]
fn datagrams_of_the_carrier_udp_survive_any_bytes() {
    let mut rng = Rng::new(9);
    let mut ours = 0;
    for _ in 0..50_000 {
        let mut bytes = noise(&mut rng, 80);
        if bytes.len() > 3 && rng.below(4) > 0 {
            bytes[..3].copy_from_slice(&[2, 1, rng.below(2) as u8]);
        }
        ours += u32::from(wifu_wire::over_udp::parse(&bytes).is_some());
        fuzz::over_udp(&bytes);
    }
    assert!(ours > 10_000, "{ours} were understood");
}

/// The octets of an entry.
fn entry(text: &str, name: &str) -> Vec<u8> {
    let start = format!("{name}=\"");
    let found = text.lines().find_map(|l| l.strip_prefix(&start));
    let octets = found.unwrap_or_else(|| panic!("no {name} in {text}"));
    let octets = octets.strip_suffix('"').expect("the closing quote");
    let of = octets.split("\\x").skip(1);
    of.map(|o| u8::from_str_radix(o, 16).expect("two digits"))
        .collect()
}

#[test]
fn dictionaries_have_what_parsers_look_for() {
    let all = fuzz::dictionaries();
    let of = |target: &str| &all.iter().find(|(t, _)| *t == target).expect(target).1;
    assert_eq!(entry(of("atp"), "constants_0"), [1, 1]);
    assert_eq!(entry(of("atp"), "feedback_1"), [0x40]);
    assert_eq!(entry(of("atp"), "holes_16"), [0, 16]);
    assert_eq!(entry(of("atp"), "delay_4294967295"), [0xFF; 4]);
    assert_eq!(entry(of("hxh"), "type_5"), [5]);
    assert_eq!(entry(of("hxh"), "list_2"), [0, 2]);
    assert_eq!(entry(of("hop"), "type_3"), [3]);
    assert_eq!(entry(of("tcp"), "syn_1"), [2]);
    assert_eq!(entry(of("over_udp"), "constants_0"), [2, 1, 0]);
    // Version and length, (40 + 8 + 4) / 4; the identity; a word in the middle of its octets.
    assert_eq!(entry(of("shim"), "constants_0"), [1, 13]);
    assert_eq!(entry(of("shim"), "constants_8"), [0, 0, 0, 7]);
    assert_eq!(entry(of("shim"), "hops_31"), [0xF8]);
    let lines = all.iter().flat_map(|(_, text)| text.lines());
    for line in lines.filter(|l| !l.starts_with('#')) {
        let (name, rest) = line.split_once('=').expect("an entry");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
        assert!(rest.len() > 2 && rest.starts_with('"') && rest.ends_with('"'));
    }
}

#[test]
fn the_composed_header_survives_any_bytes() {
    let mut rng = Rng::new(2);
    for _ in 0..50_000 {
        let bytes = noise(&mut rng, 1_400);
        fuzz::shim(&bytes);
    }
}

#[test]
fn the_ip_header_survives_any_bytes() {
    let mut rng = Rng::new(3);
    for _ in 0..50_000 {
        let mut bytes = noise(&mut rng, 80);
        if bytes.len() > 4 && rng.below(4) > 0 {
            bytes[0] = 0x40 | (5 + rng.below(3)) as u8;
            let n = bytes.len() as u16;
            bytes[2..4].copy_from_slice(&n.to_be_bytes());
        }
        fuzz::ipv4(&bytes);
    }
}

#[test]
fn radiotap_and_data_frames_survive_any_bytes() {
    let mut seed = Vec::new();
    wifu_wire::radiotap::Radiotap {
        time_us: Some(7),
        flags: Some(0x30),
        signal_dbm: Some(-60),
        data_retries: Some(2),
        ..Default::default()
    }
    .emit(&mut seed);
    // QoS data with padding, LLC/SNAP, an IP header's first octets, and a check sequence.
    seed.extend([0x88, 0]);
    seed.extend([2; 22 + 4]);
    seed.extend([0xAA, 0xAA, 3, 0, 0, 0, 8, 0, 0x45, 0, 0, 20, 1, 2, 3, 4]);
    let mut rng = Rng::new(7);
    for _ in 0..50_000 {
        fuzz::radiotap(&mutate(&mut rng, &seed));
        let mut bytes = noise(&mut rng, 120);
        if bytes.len() > 8 && rng.below(8) > 0 {
            (bytes[0], bytes[3]) = (0, 0);
            bytes[2] = 8 + rng.below(60) as u8;
            bytes[7] &= 0x7F;
        }
        fuzz::radiotap(&bytes);
    }
}

#[test]
fn the_protocol_of_the_daemon_s_socket_survives_any_bytes() {
    use wifu_wire::front::{MAGIC, VERSION};
    let mut rng = Rng::new(4);
    for _ in 0..100_000 {
        let mut bytes = noise(&mut rng, 200);
        if bytes.len() > 16 && rng.below(8) > 0 {
            bytes[..4].copy_from_slice(&MAGIC);
            bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
            bytes[6..8].copy_from_slice(&(rng.below(16) as u16).to_le_bytes());
            let body = bytes.len() as u32 - 16;
            bytes[8..12].copy_from_slice(&body.to_le_bytes());
            bytes[12..16].fill(0);
        }
        fuzz::front(&bytes);
    }
}

#[test]
fn specifications_compositions_and_rules_survive_any_text() {
    let specs = [
        "tcp-newreno,iw=4,rto_min=200ms,gates.add=nagle",
        "tcp-cubic,profile=kernel-reno,congestion.cwv=on",
        "24 Mb/s",
        "1_000.5e9 KiB",
    ];
    let rules = "# seq ack delay\n5 -1 -1\n-1 -1 10\ndata_index 14 drop\n7 7 20000\n";
    let mut rng = Rng::new(5);
    for _ in 0..1_500 {
        for seed in specs {
            fuzz::spec(&String::from_utf8_lossy(&mutate(&mut rng, seed.as_bytes())));
        }
        fuzz::rules(&String::from_utf8_lossy(&mutate(
            &mut rng,
            rules.as_bytes(),
        )));
    }
    for _ in 0..1_000 {
        let text = mutate(&mut rng, wifu_parts::PROTOCOLS.as_bytes());
        fuzz::composition(&String::from_utf8_lossy(&text));
    }
    fuzz::composition(wifu_parts::PROTOCOLS);
}

#[test]
fn an_endpoint_survives_any_operations_and_segments() {
    let mut rng = Rng::new(6);
    let (mut specs, mut counts) = (Vec::new(), fuzz::Counts::new());
    for _ in 0..4_000 {
        let bytes = noise(&mut rng, 3_000);
        let (spec, seen) = fuzz::observed(&bytes);
        specs.push(spec);
        for (name, value) in seen {
            let most = counts.entry(name).or_insert(value);
            *most = most.max(value);
        }
    }
    // What is drawn is all that is new, in each composition that has it, and it comes to work.
    for switch in [
        "rack=on",
        "prr=on",
        "frto=on",
        "undo=on",
        "dsack=on",
        "ecn=on",
        "emulate=on",
        "quickack_again=on",
        "episodes=linux",
        "rearm=on",
    ] {
        let with = |base: &str| {
            specs
                .iter()
                .any(|s| s.starts_with(base) && s.contains(switch))
        };
        assert!(with("tcp-sack") && with("tcp-dctcp"), "{switch}");
    }
    for rare in ["dsacks", "probes", "undone", "ce", "ecn_cuts", "threshold"] {
        assert!(counts[rare] > 0.0, "{rare}: {counts:?}");
    }
}

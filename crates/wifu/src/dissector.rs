//! `wifu dissector`: what Wireshark must know to read our protocols' packets, and the declarations
//! of their headers as data.

use std::process::ExitCode;

use clap::Args as ClapArgs;
use serde_json::json;
use wifu_node::{Catalog, Registry};
use wifu_wire::Format;
use wifu_wire::format::Class;

use crate::known;

mod data;
mod lua;

/// `wifu dissector`.
#[derive(ClapArgs)]
#[command(after_help = "Examples:\n  \
    mkdir -p ~/.local/lib/wireshark/plugins\n  \
    wifu dissector > ~/.local/lib/wireshark/plugins/wifu.lua    for every capture from now on\n  \
    wifu dissector > wifu.lua; tshark -X lua_script:wifu.lua -r capture.pcapng\n  \
    tshark -X lua_script:wifu.lua -r capture.pcapng -Y 'wifu.atp.delay > 2000'\n\n\
    Without it, Wireshark shows packets of the carrier `raw` as \"Unassigned (214)\", and those of \
    `udp` as data. With it, \
    those whose header is TCP's are read as TCP, and all others word by word as they are declared: \
    wifu.FORMAT.WORD, or wifu.shim.COMPOSITION.WORD for a composition's own header. The column \
    Protocol and the filter wifu.protocol == \"tcp-newreno\" have the composition's name.")]
pub struct Args {
    #[command(flatten)]
    known: known::Known,
    /// The declared headers instead, for machines
    #[arg(long)]
    json: bool,
}

/// Print the plug-in, or what it is made from.
///
/// # Errors
/// The file can't be read or is no composition file.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<ExitCode> {
    let known = Known::of(&args.known.with(registry)?);
    if args.json {
        let all: Vec<_> = known.formats.iter().map(data::format).collect();
        println!("{}", serde_json::to_string_pretty(&json!(all))?);
    } else {
        print!("{}", lua::script(&known));
    }
    Ok(ExitCode::SUCCESS)
}

/// Name of the format that a composition makes for itself.
const SHIM: &str = "shim";

/// IP protocol of TCP itself, which Wireshark knows.
fn tcp_itself(number: u8) -> bool {
    wifu_wire::tcp::FORMAT.number == Some(number)
}

/// A declared header and who uses it.
struct Known {
    /// Each format that has a declaration of its own, those that handlers and carriers put in front
    /// of transports included, and `shim` as a composition without words has it.
    formats: Vec<Format>,
    /// The shims of compositions.
    shims: Vec<(String, Format)>,
    /// IP protocol number, format, and the composition that it tells.
    uses: Vec<(u8, Used, String)>,
}

/// Which format.
enum Used {
    /// One with a declaration of its own.
    Format(&'static str),
    /// That of a composition.
    Shim,
}

impl Known {
    fn of(registry: &Registry) -> Known {
        let library = registry.library();
        let mut formats: Vec<Format> = Vec::new();
        let handlers = registry.kinds().handlers.iter();
        let inserted = handlers.filter_map(|d| d.inserts);
        let carriers = [&wifu_wire::over_udp::FORMAT];
        for f in registry
            .parts()
            .wires()
            .iter()
            .map(|w| w.format)
            .chain(inserted)
            .chain(carriers)
        {
            if formats.iter().all(|known| known.name != f.name) {
                formats.push(f.clone());
            }
        }
        let (mut uses, mut shims) = (Vec::new(), Vec::new());
        for name in library.protocols() {
            let Ok(protocol) = registry.resolve(name) else {
                continue;
            };
            let b = &protocol.ends;
            if b.number == 0 {
                continue;
            }
            let used = match b.wire.name() {
                SHIM => {
                    shims.push((b.name.clone(), b.wire.format().clone()));
                    Used::Shim
                }
                other => Used::Format(other),
            };
            uses.push((b.number, used, b.name.clone()));
        }
        formats.push(wifu_wire::shim::format(0, &[]));
        for f in &formats {
            let taken = |n| {
                uses.iter()
                    .any(|(m, u, _)| *m == n && matches!(u, Used::Format(name) if *name == f.name))
            };
            if let Some(number) = f.number.filter(|n| !taken(*n)) {
                uses.push((number, Used::Format(f.name), String::from(f.name)));
            }
        }
        Known {
            formats,
            shims,
            uses,
        }
    }
}

/// The number of a class in the plug-in.
fn class_number(class: Class) -> usize {
    match class {
        Class::Data => 0,
        Class::Control => 1,
        Class::Ack => 2,
        Class::Feedback => 3,
        Class::Hop => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::Library;

    const MINE: &str = "[protocol.mine]\nextends = \"tcp-reno\"\nnumber = 241\n\
        [protocol.plain]\nextends = \"tcp-reno\"\nnumber = 6\n\
        [protocol.own]\nextends = \"tcp-reno\"\nwire = \"shim\"\nnumber = 242\n";

    fn known() -> Known {
        let mine = Library::parse(MINE).unwrap();
        Known::of(&crate::standard().with_library(mine))
    }

    #[test]
    fn each_protocol_with_tcps_header_is_read_as_tcp_and_others_are_named() {
        let text = lua::script(&known());
        let library = wifu_parts::library();
        for name in library.protocols() {
            let b = library.resolve(name, &wifu_parts::registry()).unwrap();
            if b.wire.name() == "tcp" {
                let line = format!("segments({}, \"{name}\")\n", b.number);
                assert!(text.contains(&line), "{name}\n{text}");
            }
        }
        assert!(text.contains("segments(241, \"mine\")\n"), "{text}");
        assert!(!text.contains("segments(6,"), "{text}");
        for line in [
            "carry(219, declared[\"atp\"], \"atp\")\n",
            "service(9438, declared[\"atp\"], \"atp\")\n",
            "service(9438, declared[\"over-udp\"], \"over-udp\")\n",
            "carry(253, declared[\"delay-shim\"], \"delay-shim\")\n",
            "carry(242, declared[\"shim own\"], \"own\")\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn every_word_is_in_the_data() {
        for f in known().formats {
            let json = data::format(&f);
            assert_eq!(json["words"].as_array().unwrap().len(), f.words.len());
            assert_eq!(json["types"].as_array().unwrap().len(), f.types.len());
        }
    }
}

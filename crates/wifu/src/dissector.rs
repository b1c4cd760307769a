//! `wifu dissector`: what Wireshark must know to read our protocols' packets.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args as ClapArgs;
use wifu_engine::Library;
use wifu_node::Registry;

use crate::known::Known;

/// `wifu dissector`.
#[derive(ClapArgs)]
#[command(after_help = "Examples:\n  \
    wifu dissector > ~/.local/lib/wireshark/plugins/wifu.lua    for every capture from now on\n  \
    wifu dissector > wifu.lua; tshark -X lua_script:wifu.lua -r capture.pcapng\n\n\
    Without it, Wireshark shows packets of the carrier `raw` as \"Unassigned (214)\": they are TCP \
    segments under protocol numbers of their own.")]
pub struct Args {
    #[command(flatten)]
    known: Known,
}

/// Print the plug-in.
///
/// # Errors
/// The file can't be read or is no composition file.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<ExitCode> {
    let registry = args.known.with(registry)?;
    print!("{}", script(registry.library(), registry.parts()));
    Ok(ExitCode::SUCCESS)
}

/// IP protocol of TCP itself.
const TCP: u8 = 6;

fn script(library: &Library, registry: &wifu_engine::Registry) -> String {
    let mut t = String::from(
        "-- Protocols of WiFu, for Wireshark; made by `wifu dissector` from the registry.\n\
         local by_number = DissectorTable.get(\"ip.proto\")\n\n",
    );
    for name in library.protocols() {
        let Ok(b) = library.resolve(name, registry) else {
            continue;
        };
        if b.number == 0 || b.number == TCP {
            continue;
        }
        let _ = match b.wire.name() {
            "tcp" => writeln!(
                t,
                "by_number:add({}, Dissector.get(\"tcp\")) -- {}: TCP's header",
                b.number, b.name
            ),
            other => writeln!(t, "-- {}: number {}, wire {other}", b.name, b.number),
        };
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_protocol_with_tcps_header_is_read_as_tcp_and_others_are_named() {
        let mine = "[protocol.mine]\nextends = \"tcp-reno\"\nnumber = 241\n\
                    [protocol.plain]\nextends = \"tcp-reno\"\nnumber = 6\n";
        let library = wifu_parts::library().merge(Library::parse(mine).unwrap());
        let text = script(&library, &wifu_parts::registry());
        for name in library.protocols().iter().filter(|n| *n != "plain") {
            let number = library.expand(name).unwrap().number;
            let line = format!("by_number:add({number}, Dissector.get(\"tcp\")) -- {name}:");
            assert!(text.contains(&line), "{name}\n{text}");
        }
        assert!(
            text.contains("add(241,") && !text.contains("add(6,"),
            "{text}"
        );
    }
}

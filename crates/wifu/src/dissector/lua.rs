//! Declared formats as the tables of the plug-in.

use super::{Known, SHIM, Used, class_number, tcp_itself};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use wifu_wire::Format;
use wifu_wire::format::{Field, PacketType, WordDecl};

/// What is the same in every plug-in.
const CODE: &str = include_str!("dissector.lua");

/// The whole plug-in.
pub fn script(known: &Known) -> String {
    let mut t = String::from(
        "-- Protocols of WiFu, for Wireshark; made by `wifu dissector` from the registry.\n",
    );
    t += CODE;
    // TCP's is Wireshark's own; `shim` is another one in each composition.
    let own = |f: &&Format| f.name != wifu_wire::tcp::FORMAT.name && f.name != SHIM;
    let mut taken = BTreeSet::new();
    for f in known.formats.iter().filter(own) {
        let abbr = free(&mut taken, format!("wifu.{}", plain(f.name)));
        t += &table(f.name, f, &abbr, &format!("WiFu {}", f.name));
    }
    for (name, f) in &known.shims {
        let abbr = free(&mut taken, format!("wifu.{SHIM}.{}", plain(name)));
        t += &table(&key_of(name), f, &abbr, &format!("WiFu {name}"));
    }
    for (number, used, name) in &known.uses {
        let key = match used {
            Used::Format(f) if *f == wifu_wire::tcp::FORMAT.name => continue,
            Used::Format(f) => quoted(f),
            Used::Shim => quoted(&key_of(name)),
        };
        let _ = writeln!(t, "carry({number}, declared[{key}], {})", quoted(name));
    }
    for (number, used, name) in &known.uses {
        if matches!(used, Used::Format(f) if *f == wifu_wire::tcp::FORMAT.name)
            && !tcp_itself(*number)
        {
            let _ = writeln!(t, "segments({number}, {})", quoted(name));
        }
    }
    for f in known.formats.iter().filter(own) {
        let Some(port) = f.port else { continue };
        let name = known.uses.iter().find(|(n, _, _)| Some(*n) == f.number);
        let name = name.map_or(f.name, |(_, _, name)| name);
        let key = quoted(f.name);
        let _ = writeln!(t, "service({port}, declared[{key}], {})", quoted(name));
    }
    t
}

/// By what the plug-in knows the shim of a composition.
fn key_of(composition: &str) -> String {
    format!("{SHIM} {composition}")
}

/// This name, or one like it that nobody has: Wireshark takes none twice.
fn free(taken: &mut BTreeSet<String>, name: String) -> String {
    let numbered = (2..).map(|n| format!("{name}_{n}"));
    let free = core::iter::once(name.clone())
        .chain(numbered)
        .find(|n| !taken.contains(n))
        .expect("there is always another number");
    taken.insert(free.clone());
    free
}

/// A name of small letters, digits and underscores only.
fn plain(name: &str) -> String {
    let letter = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() => c,
        _ => '_',
    };
    name.chars().map(letter).collect()
}

fn quoted(text: &str) -> String {
    let mut t = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => t.extend(['\\', c]),
            '\n' | '\r' => t.push(' '),
            _ => t.push(c),
        }
    }
    t + "\""
}

fn table(key: &str, f: &Format, abbr: &str, label: &str) -> String {
    let mut t = format!(
        "\ndeclared[{}] = format {{\n\tabbr = {}, label = {}, base = {}, header = {},\n",
        quoted(key),
        quoted(abbr),
        quoted(label),
        f.base,
        f.header
    );
    t += "\twords = {\n";
    for w in f.words.iter() {
        let _ = writeln!(t, "\t\t{{ {} }},", word(w));
    }
    t += "\t},\n\ttypes = {\n";
    for kind in f.types.iter() {
        let _ = writeln!(t, "\t\t{{ {} }},", packet_type(kind));
    }
    t + "\t},\n}\n"
}

fn packet_type(t: &PacketType) -> String {
    let (name, class) = (quoted(t.name), class_number(t.class));
    let mut text = format!("name = {name}, class = {class}");
    if let Some((word, value)) = t.when {
        let _ = write!(text, ", word = {}, value = {value}", quoted(word));
    }
    if let Some(some) = t.payload {
        let _ = write!(text, ", payload = {some}");
    }
    text
}

fn word(w: &WordDecl) -> String {
    let (bit, bits) = (u32::from(w.bit), u32::from(w.bits));
    let octets = (bit + bits).div_ceil(8);
    let mut t = format!(
        "name = {}, abbr = {}, byte = {}, bit = {bit}, bits = {bits}, octets = {octets}",
        quoted(w.name),
        quoted(&plain(w.name)),
        w.byte
    );
    // Five octets hold no 32 bits of a mask: there the value is cut out first.
    if bits < octets * 8 && octets <= 4 {
        let mask = ((1u64 << bits) - 1) << (octets * 8 - bit - bits);
        let _ = write!(t, ", mask = 0x{mask:X}");
    }
    for (key, text) in [("unit", w.unit), ("zero", w.zero), ("doc", w.doc)] {
        if !text.is_empty() {
            let _ = write!(t, ", {key} = {}", quoted(text));
        }
    }
    if !w.on.is_empty() {
        let on: Vec<String> =
            w.on.iter()
                .map(|n| format!("[{}] = true", quoted(n)))
                .collect();
        let _ = write!(t, ", on = {{ {} }}", on.join(", "));
    }
    t += &role(w.field);
    t
}

/// What the code of the plug-in must know of a word.
fn role(field: Field) -> String {
    let role = |name: &str| format!(", role = {}", quoted(name));
    match field {
        Field::Is(value, _) => format!(", is = {value}, hex = true"),
        Field::Sport => role("sport"),
        Field::Dport => role("dport"),
        Field::Seq => role("seq"),
        Field::Ack => role("ack"),
        Field::HasAck => role("has_ack"),
        Field::Inner => role("inner"),
        Field::ConnId | Field::Checksum => String::from(", hex = true"),
        Field::Length(unit) => format!(", length = {}", unit.max(1)),
        Field::Ranges(unit) => format!(", ranges = {}", unit.max(1)),
        Field::Runs => String::from(", ranges = 1, run = true"),
        _ => String::new(),
    }
}

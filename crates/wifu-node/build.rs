//! The interface that this WiFu has towards libraries that it loads, as a text: two builds with the
//! same text agree about every type that crosses between them.
#![forbid(unsafe_code)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whose types cross. They lie beside this crate in every checkout.
const CRATES: [&str; 4] = ["wifu-wire", "wifu-engine", "wifu-core", "wifu-node"];

fn main() {
    let own = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let mut hash = Fnv::default();
    for name in CRATES {
        let folder = own.with_file_name(name);
        let mut files = vec![folder.join("Cargo.toml")];
        collect(&folder.join("src"), &mut files);
        files.sort();
        for path in files {
            // Not the whole path: the same for every checkout.
            let inner = path.strip_prefix(&folder).expect("collected below it");
            hash.field(name.as_bytes());
            hash.field(inner.to_string_lossy().as_bytes());
            hash.field(&read(&path));
        }
        println!("cargo::rerun-if-changed={}", folder.join("src").display());
        println!(
            "cargo::rerun-if-changed={}",
            folder.join("Cargo.toml").display()
        );
    }
    println!("cargo::rerun-if-changed=build.rs");
    // The order of fields and the calling convention are the compiler's; of one, those of a target.
    // Flags may change both (`-Z randomize-layout`, `-C target-feature`). Optimisation does not.
    let compiler = compiler();
    let target = variable("TARGET");
    hash.field(compiler.as_bytes());
    hash.field(target.as_bytes());
    hash.field(variable("CARGO_ENCODED_RUSTFLAGS").as_bytes());
    let version = compiler.lines().next().unwrap_or_default();
    println!(
        "cargo::rustc-env=WIFU_INTERFACE={:016x} ({version}, {target})",
        hash.0
    );
}

/// What cargo tells build scripts.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// All that the compiler says of itself, with the commit that it was built from.
fn compiler() -> String {
    let rustc = variable("RUSTC");
    let said = Command::new(&rustc).arg("-vV").output();
    let said = said.unwrap_or_else(|e| panic!("{rustc} -vV: {e}"));
    assert!(said.status.success(), "{rustc} -vV: {}", said.status);
    String::from_utf8_lossy(&said.stdout).into_owned()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let absent = |e| panic!("{}: {e}; it belongs beside wifu-node", folder.display());
    for entry in fs::read_dir(folder).unwrap_or_else(absent) {
        let path = entry.expect("the tree is readable").path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// FNV-1a: against mistakes, not against malice.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Its length first, so that no two sequences of fields are the same octets.
    fn field(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in length.iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

//! What `--load` refuses. `examples/custom` has a library that it takes.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("wifu-load-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    /// A shared library of this text.
    fn library(&self, text: &str) -> PathBuf {
        let (source, library) = (self.0.join("mine.rs"), self.0.join("libmine.so"));
        std::fs::write(&source, text).unwrap();
        let mut rustc = Command::new(Path::new(env!("CARGO")).with_file_name("rustc"));
        rustc.args(["--crate-type", "cdylib", "--edition", "2024", "-o"]);
        assert!(rustc.arg(&library).arg(&source).status().unwrap().success());
        library
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn refused(args: &[&str], library: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wifu"));
    let output = command.args(args).arg("--load").arg(library).output();
    let output = output.unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_is_not_there_or_no_library_is_said_by_every_command() {
    let absent = Path::new("/nonexistent/libmine.so");
    let commands: [&[&str]; 6] = [
        &["list"],
        &["mock", "-p", "tcp-reno"],
        &["sim", "--topo", "linear,2", "--set", "TB-W9"],
        &["daemon"],
        &["core", "--config", "/nonexistent"],
        &["emu", "--topo", "linear,2", "--dry-run"],
    ];
    for args in commands {
        let said = refused(args, absent);
        let start = "wifu: --load /nonexistent/libmine.so: No such file";
        assert!(said.starts_with(start), "{args:?}: {said}");
    }
    let text = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    let said = refused(&["list"], text);
    assert!(
        said.contains("this is no shared library; a TOML file with compositions is read by --file"),
        "{said}"
    );
}

#[test]
fn a_library_without_the_macro_is_refused() {
    let folder = Folder::new("bare");
    let said = refused(&["list"], &folder.library("pub fn nothing() {}\n"));
    assert!(said.contains("not built with wifu_node::export!"), "{said}");
}

#[test]
fn a_library_of_another_interface_is_refused_and_both_are_said() {
    let folder = Folder::new("other");
    let library = folder.library(
        "#[unsafe(no_mangle)]\n#[allow(non_upper_case_globals)]\n\
         static wifu_interface: [u8; 15] = *b\"another (wifu)\\0\";\n\
         #[unsafe(no_mangle)]\nfn wifu_register() { std::process::abort() }\n",
    );
    let said = refused(&["list"], &library);
    for part in [
        "built against another WiFu",
        "its interface:    another (wifu)\n",
        "this program's:   ",
        "(rustc ",
    ] {
        assert!(said.contains(part), "{said}");
    }
}

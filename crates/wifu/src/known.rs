//! `--file` and `--load`: what a subcommand knows besides what its program names.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use wifu_engine::Library;
use wifu_node::Registry;
use wifu_wire::names::asked;

use crate::topo::beside;

/// Where `wifu emu` tells the programs on its hosts what it was given by `--file`, as paths behind
/// colons.
pub const FILES: &str = "WIFU_FILE";

/// The same of `--load`.
pub const LIBRARIES: &str = "WIFU_LOAD";

/// Shared libraries.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Libraries {
    /// Also know the parts, handlers, formats and protocols of this shared library, a crate with
    /// wifu_node::export! built as cdylib; may be given more than once, and comes before --file
    #[arg(long, value_name = "LIBRARY")]
    pub load: Vec<PathBuf>,
}

impl Libraries {
    /// What there is, with the libraries of the environment and of the option, each of them once.
    ///
    /// # Errors
    /// One can't be loaded, or brings a name that is taken.
    pub fn with(&self, registry: &Registry) -> anyhow::Result<Registry> {
        let mut all = registry.clone();
        let mut loaded = Vec::new();
        for path in told_by(LIBRARIES).chain(self.load.iter().cloned()) {
            let of = || format!("--load {}", path.display());
            ensure!(
                !named(&path, "toml"),
                "{}: this is no shared library; a TOML file with compositions is read by --file",
                of()
            );
            let whole = std::fs::canonicalize(&path).with_context(of)?;
            if loaded.contains(&whole) {
                continue;
            }
            let brought = wifu_linux::load::load(&whole).with_context(of)?;
            let more = all.with_brought(brought).map_err(anyhow::Error::msg);
            all = more.with_context(of)?;
            loaded.push(whole);
        }
        Ok(all)
    }
}

/// Files of compositions beside shared libraries.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Known {
    #[command(flatten)]
    pub libraries: Libraries,
    /// Also know the protocols of this TOML file, with their handlers, lanes and profiles; may be
    /// given more than once
    #[arg(long, value_name = "TOML")]
    pub file: Vec<PathBuf>,
}

impl Known {
    /// What there is, with the libraries, then with the files of the environment and of the option:
    /// their compositions may have the libraries' parts. A composition takes the place of an
    /// earlier one of its name.
    ///
    /// # Errors
    /// As [`Libraries::with`]; a file can't be read or is no composition file.
    pub fn with(&self, registry: &Registry) -> anyhow::Result<Registry> {
        let mut all = self.libraries.with(registry)?;
        for path in told_by(FILES) {
            all = all.with_library(read(&path)?);
        }
        for path in &self.file {
            let more = read(path)?;
            for name in all.library().replaced(&more) {
                let file = path.display();
                eprintln!(
                    "Note: {name} is what {file} says, {}",
                    replaces(name, registry)
                );
            }
            all = all.with_library(more);
        }
        Ok(all)
    }

    /// The environment for programs that run elsewhere, of which they learn the same.
    ///
    /// # Errors
    /// A path that is not there, or that has a colon.
    pub fn told(&self) -> anyhow::Result<Vec<(&'static str, OsString)>> {
        let options = [
            (LIBRARIES, "--load", &self.libraries.load),
            (FILES, "--file", &self.file),
        ];
        let mut told = Vec::new();
        for (variable, option, paths) in options {
            let whole = |path: &PathBuf| {
                let found = std::fs::canonicalize(path);
                found.with_context(|| format!("{option} {}", path.display()))
            };
            let paths = paths.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
            if !paths.is_empty() {
                told.push((variable, std::env::join_paths(paths).context(option)?));
            }
        }
        Ok(told)
    }
}

/// Where parts and protocols of one's own come from, for who is told that one is not there. What a
/// daemon says is of what it was started with.
pub fn brought(error: &str) -> &'static str {
    match () {
        () if error.contains("daemon") => "",
        () if error.contains("no part for ") => {
            "\n  parts of your own come with their library: --load LIBRARY"
        }
        () if error.contains("no protocol of this name") => {
            "\n  protocols of your own come with --file FILE.toml, or their library: --load LIBRARY"
        }
        () => "",
    }
}

/// Whose place a protocol of this name takes that is another one; `registry`: what is built in.
pub fn replaces(name: &str, registry: &Registry) -> String {
    let built_in = registry.library().protocols().iter().any(|n| n == name);
    let whose = match built_in {
        true => "is built in, or that an earlier file has",
        false => "an earlier file or library has",
    };
    format!("in place of the protocol of this name that {whose}")
}

/// The paths behind colons that a variable of the environment has.
fn told_by(variable: &str) -> impl Iterator<Item = PathBuf> {
    let told = std::env::var_os(variable).unwrap_or_default();
    let paths: Vec<PathBuf> = std::env::split_paths(&told).collect();
    paths.into_iter().filter(|p| !p.as_os_str().is_empty())
}

/// What ELF files begin with.
const ELF: &[u8] = b"\x7fELF";

fn named(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e == extension)
}

/// The compositions and profiles of a file.
///
/// # Errors
/// It can't be read or is no composition file.
pub fn read(path: &Path) -> anyhow::Result<Library> {
    let at = || format!("reading {}", path.display());
    let found = std::fs::read(path);
    if named(path, "so") || found.as_ref().is_ok_and(|octets| octets.starts_with(ELF)) {
        let path = path.display();
        bail!(
            "{path}: this is a shared library, which --load {path} loads; here a TOML file with \
             compositions is read"
        );
    }
    let none = |e: &std::io::Error| e.kind() == std::io::ErrorKind::NotFound;
    if found.as_ref().is_err_and(none)
        && let Some(near) = beside(path)
    {
        bail!(
            "{}: there is no such file; {}",
            path.display(),
            asked(&near)
        );
    }
    let text = String::from_utf8(found.with_context(at)?).with_context(at)?;
    Library::parse(&text).with_context(|| path.display().to_string())
}

//! `--file`: the compositions that a subcommand knows besides those of its program.

use std::path::{Path, PathBuf};

use anyhow::Context;
use wifu_engine::Library;
use wifu_node::Registry;

/// Where `wifu emu` tells the programs on its hosts what it was given by `--file`, as paths behind
/// colons.
pub const FILES: &str = "WIFU_FILE";

/// The option.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Known {
    /// Also know the protocols of this TOML file, with their handlers, lanes and profiles; may be
    /// given more than once
    #[arg(long, value_name = "TOML")]
    pub file: Vec<PathBuf>,
}

impl Known {
    /// What there is, with the files of the environment and of the option. A composition takes the
    /// place of an earlier one of its name.
    ///
    /// # Errors
    /// A file can't be read or is no composition file.
    pub fn with(&self, registry: &Registry) -> anyhow::Result<Registry> {
        let told = std::env::var_os(FILES).unwrap_or_default();
        let told = std::env::split_paths(&told).filter(|path| !path.as_os_str().is_empty());
        let mut all = registry.clone();
        for path in told.chain(self.file.iter().cloned()) {
            all = all.with_library(read(&path)?);
        }
        Ok(all)
    }

    /// The value of [`FILES`] for programs that run elsewhere; `None` without files.
    ///
    /// # Errors
    /// A path that is not there, or that has a colon.
    pub fn told(&self) -> anyhow::Result<Option<std::ffi::OsString>> {
        if self.file.is_empty() {
            return Ok(None);
        }
        let whole = |path: &PathBuf| {
            let found = std::fs::canonicalize(path);
            found.with_context(|| format!("--file {}", path.display()))
        };
        let files = self.file.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(std::env::join_paths(files).context("--file")?))
    }
}

/// The compositions and profiles of a file.
///
/// # Errors
/// It can't be read or is no composition file.
pub fn read(path: &Path) -> anyhow::Result<Library> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Library::parse(&text).with_context(|| path.display().to_string())
}

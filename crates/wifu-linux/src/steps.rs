//! Privileged steps on the host: each is one command line, recorded before it runs, so that a dry
//! run prints exactly what a real run does.

use std::fmt;
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs command lines, or only writes them down.
#[derive(Debug, Default)]
pub struct Steps {
    lines: Vec<String>,
    dry: bool,
}

/// Why a step did not work.
#[non_exhaustive]
#[derive(Debug)]
pub enum StepError {
    /// The program could not be started.
    Start {
        /// The command line, as a shell would take it.
        line: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The program ended with an error.
    Failed {
        /// The command line, as a shell would take it.
        line: String,
        /// What it wrote on its standard error, trimmed.
        message: String,
    },
    /// A file could not be read or written.
    File {
        /// The file that was to be read or written.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The caller asked for something that makes no sense.
    Invalid(String),
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepError::Start { line, error } => write!(f, "cannot run `{line}`: {error}"),
            StepError::Failed { line, message } => write!(f, "`{line}` failed: {message}"),
            StepError::File { path, error } => write!(f, "{path}: {error}"),
            StepError::Invalid(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for StepError {}

impl Steps {
    /// Steps that are carried out as they are told.
    pub fn real() -> Steps {
        Steps::default()
    }

    /// Steps that are only written down.
    pub fn dry() -> Steps {
        Steps {
            dry: true,
            ..Steps::default()
        }
    }

    /// Are steps only written down?
    pub fn is_dry(&self) -> bool {
        self.dry
    }

    /// The command lines so far, in order.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Write a step down that is no command line, such as the removal of a file; gives whether
    /// the caller shall do it.
    pub fn note(&mut self, line: String) -> bool {
        tracing::debug!(step = %line);
        self.lines.push(line);
        !self.dry
    }

    /// Run several command lines of `ip` or `tc`, all beginning with `prefix` (such as
    /// `ip -n NAME`), in one process.
    ///
    /// # Errors
    /// If it cannot be started or one of the lines fails; those before it have run.
    pub fn run_batch(&mut self, prefix: &str, lines: &[String]) -> Result<(), StepError> {
        let mut real = false;
        for line in lines {
            real = self.note(format!("{prefix} {line}"));
        }
        if !real {
            return Ok(());
        }
        let whole = format!("{prefix} -batch -");
        let start = |error| StepError::Start {
            line: whole.clone(),
            error,
        };
        let mut words = whole.split_whitespace();
        let mut child = Command::new(words.next().unwrap_or_default())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(start)?;
        if let Some(mut pipe) = child.stdin.take() {
            // A program that ended early has said why on its standard error.
            let _ = pipe.write_all((lines.join("\n") + "\n").as_bytes());
        }
        let output = child.wait_with_output().map_err(start)?;
        if !output.status.success() {
            return Err(StepError::Failed {
                message: String::from_utf8_lossy(&output.stderr).trim().to_string(),
                line: whole,
            });
        }
        Ok(())
    }

    /// Run one command line, split at white space; gives its standard output, empty when dry.
    ///
    /// # Errors
    /// If the program cannot be started or ends with an error.
    pub fn run(&mut self, line: &str) -> Result<String, StepError> {
        if !self.note(line.to_string()) {
            return Ok(String::new());
        }
        output_of(line)
    }
}

/// The standard output of a command line that changes nothing, split at white space.
///
/// # Errors
/// If the program cannot be started or ends with an error.
pub fn output_of(line: &str) -> Result<String, StepError> {
    let mut words = line.split_whitespace();
    let program = words
        .next()
        .ok_or_else(|| StepError::Invalid("empty command line".into()))?;
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| StepError::Start {
            line: line.to_string(),
            error,
        })?;
    if !output.status.success() {
        return Err(StepError::Failed {
            line: line.to_string(),
            message: String::from_utf8_lossy(&output.stderr).trim().to_string(),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

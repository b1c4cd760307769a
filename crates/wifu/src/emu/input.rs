//! Commands from standard input.

use std::collections::VecDeque;
use std::io;

use anyhow::Context as _;

/// Standard input by lines, whatever it is.
#[derive(Default)]
pub(super) struct Input {
    lines: VecDeque<String>,
    rest: Vec<u8>,
    closed: bool,
}

impl Input {
    /// The next line of what has been read; what stands behind the last end of a line is one when
    /// the input is over.
    pub(super) fn line(&mut self) -> Option<String> {
        if self.lines.is_empty() && self.closed {
            let rest = std::mem::take(&mut self.rest);
            let last = String::from_utf8_lossy(&rest).into_owned();
            return Some(last).filter(|l| !l.is_empty());
        }
        self.lines.pop_front()
    }

    /// Whether it is over.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// What there is now.
    pub(super) fn read(&mut self, stdin: &io::Stdin) -> anyhow::Result<()> {
        let mut chunk = [0; 4096];
        let n = rustix::io::read(stdin, &mut chunk).context("standard input")?;
        self.closed = n == 0;
        self.rest.extend_from_slice(&chunk[..n]);
        while let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let text = String::from_utf8_lossy(&line);
            self.lines.push_back(text.trim_end().to_string());
        }
        Ok(())
    }
}

//! A script: what is done and expected, in its order.

use super::packet::Packet;
use core::fmt;
use wifu_wire::Span;

/// What is wrong with a script, or with what it was played against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1; 0: none in particular.
    pub line: usize,
    /// What, in one or more lines.
    pub what: String,
}

impl Problem {
    pub(super) fn new(line: usize, what: impl Into<String>) -> Problem {
        let what = what.into();
        Problem { line, what }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

impl std::error::Error for Problem {}

/// A whole file: what it sets, and what is done and expected.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Script {
    /// What the stack is made of, as `--so_flags` says; `None`: the default.
    pub setup: Option<String>,
    /// How far a time may be off, as `--tolerance_usecs` says; else it must be exact.
    pub tolerance: Span,
    /// One unit of timestamps if their values are compared, as `--tcp_ts_tick_usecs` says.
    pub tick: Option<Span>,
    /// What happens.
    pub events: Vec<Event>,
}

/// Something that is done or expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where it begins, from 1.
    pub line: usize,
    /// The time that stands before it.
    pub when: When,
    /// A packet, a call, or a command.
    pub what: What,
}

/// When something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After the beginning.
    At(Span),
    /// After what was before it.
    After(Span),
    /// Between two times after the beginning.
    Between(Span, Span),
    /// Between two times after what was before it.
    AfterBetween(Span, Span),
    /// Whenever.
    Any,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A packet arrives.
    In(Packet),
    /// A packet leaves.
    Out(Packet),
    /// The application calls.
    Call {
        /// The call's name.
        name: String,
        /// Its arguments.
        args: Vec<Expr>,
        /// What it returns.
        result: i64,
        /// The error's number.
        errno: Option<i64>,
        /// When it returns, counted as its beginning is; without it does so at once.
        until: Option<Span>,
    },
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// `...`: whatever fits there.
    Any,
    /// A number, or words that stand for one.
    Number(i64),
    /// Between quotation marks.
    Text(String),
    /// In brackets.
    List(Vec<Expr>),
    /// In braces: values with their names, or without.
    Struct(Vec<(String, Expr)>),
}

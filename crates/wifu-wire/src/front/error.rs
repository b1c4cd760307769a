//! What may be wrong with a frame.

use super::{Tag, VERSION};

/// Why bytes are no frame of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrontError {
    /// The first bytes are not [`MAGIC`](super::MAGIC).
    Magic,
    /// Another version than [`VERSION`].
    Version(u16),
    /// No such kind of frame.
    Kind(u16),
    /// Body or padding longer than allowed, bytes.
    TooLong(u32),
    /// The bytes end within a record.
    Truncated,
    /// No such tag.
    Tag(u16),
    /// A record has the wrong length for its tag, or appears twice.
    Record(u16),
    /// A text is not UTF-8.
    Text(u16),
    /// A record that this kind of frame needs is missing.
    Missing(Tag),
    /// The buffer to encode into is too small.
    Space,
}

impl core::fmt::Display for FrontError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            FrontError::Magic => f.write_str("not a WiFu frame (wrong magic)"),
            FrontError::Version(v) => write!(f, "protocol version {v}, expected {VERSION}"),
            FrontError::Kind(k) => write!(f, "unknown frame kind {k}"),
            FrontError::TooLong(n) => write!(f, "frame too long ({n} bytes)"),
            FrontError::Truncated => f.write_str("frame ends within a record"),
            FrontError::Tag(t) => write!(f, "unknown record tag {t}"),
            FrontError::Record(t) => write!(f, "malformed or repeated record with tag {t}"),
            FrontError::Text(t) => write!(f, "text of the record with tag {t} is not UTF-8"),
            FrontError::Missing(t) => write!(f, "record {t:?} is missing"),
            FrontError::Space => f.write_str("buffer too small for the frame"),
        }
    }
}

impl core::error::Error for FrontError {}

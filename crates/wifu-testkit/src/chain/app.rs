//! The two applications: one writes octets that can be told by their position, the other checks
//! every one of them.

use wifu_engine::Conn;
use wifu_engine::conn::News;
use wifu_engine::signal::Fault;
use wifu_wire::Time;

/// The octet at `position` of every transfer.
pub fn octet(position: u64) -> u8 {
    (position.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// Both applications.
pub struct App {
    octets: u64,
    written: u64,
    shut: bool,
    scratch: Box<[u8]>,
    read: u64,
    /// The first octet that was not what was written.
    wrong: Option<u64>,
    eof: Option<Time>,
    closed: bool,
    /// How the source's and the sink's connections ended.
    ended: [Option<Option<Fault>>; 2],
}

impl App {
    pub(super) fn new(octets: u64) -> App {
        App {
            octets,
            written: 0,
            shut: false,
            scratch: vec![0; 16_384].into(),
            read: 0,
            wrong: None,
            eof: None,
            closed: false,
            ended: [None; 2],
        }
    }

    /// Everything arrived, as it was sent, and the source's connection ended well.
    pub fn done(&self) -> bool {
        self.byte_exact() && self.eof.is_some() && self.ended[0] == Some(None)
    }

    /// Everything arrived as it was sent.
    pub fn byte_exact(&self) -> bool {
        self.read == self.octets && self.wrong.is_none()
    }

    /// When the sink's application learnt that this was all.
    pub fn eof_at(&self) -> Option<Time> {
        self.eof
    }

    /// Octets that the sink's application read.
    pub fn octets_read(&self) -> u64 {
        self.read
    }

    /// How the source's and the sink's connections ended, if they did.
    pub fn ended(&self) -> [Option<Option<Fault>>; 2] {
        self.ended
    }

    pub(super) fn send(&mut self, now: Time, conn: &mut Conn) -> bool {
        let before = (self.written, self.shut);
        while conn.has_store() && conn.board().app.room > 0 && self.written < self.octets {
            let left = usize::try_from(self.octets - self.written).unwrap_or(usize::MAX);
            let n = left
                .min(self.scratch.len())
                .min(conn.board().app.room as usize);
            for (i, b) in self.scratch[..n].iter_mut().enumerate() {
                *b = octet(self.written + i as u64);
            }
            self.written += conn.write(now, &self.scratch[..n]) as u64;
        }
        if self.written == self.octets && !self.shut {
            self.shut = true;
            conn.shutdown_write(now);
        }
        (self.written, self.shut) != before
    }

    pub(super) fn receive(&mut self, now: Time, conn: &mut Conn) -> bool {
        let mut n = 0;
        for piece in conn.readable() {
            for b in piece {
                if *b != octet(self.read) {
                    self.wrong.get_or_insert(self.read);
                }
                self.read += 1;
            }
            n += piece.len();
        }
        conn.consumed(now, n);
        let close = self.eof.is_some() && !self.closed;
        if close {
            self.closed = true;
            conn.close(now);
        }
        n > 0 || close
    }

    pub(super) fn hear_news(&mut self, now: Time, source: bool, news: News) {
        if news.eof && !source {
            self.eof.get_or_insert(now);
        }
        let ended = &mut self.ended[usize::from(!source)];
        *ended = ended.or(news.ended);
    }
}

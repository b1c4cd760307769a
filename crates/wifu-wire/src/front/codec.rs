//! Records of a body: tag, length, value.

use super::{FrontError, HEADER_LEN, Header, Info, Kind, MAX_PAD, Tag};
use core::net::{IpAddr, SocketAddr};

/// Length of tag and length of a record, bytes.
pub(super) const RECORD_LEN: usize = 6;

pub(super) struct Writer<'b> {
    buf: &'b mut [u8],
    len: usize,
}

impl<'b> Writer<'b> {
    pub(super) fn new(buf: &'b mut [u8]) -> Result<Writer<'b>, FrontError> {
        if buf.len() < HEADER_LEN {
            return Err(FrontError::Space);
        }
        Ok(Writer {
            buf,
            len: HEADER_LEN,
        })
    }

    fn record(&mut self, tag: Tag, len: usize) -> Result<&mut [u8], FrontError> {
        let start = self.len + RECORD_LEN;
        let end = start.checked_add(len).ok_or(FrontError::Space)?;
        let room = self.buf.get_mut(self.len..end).ok_or(FrontError::Space)?;
        room[..2].copy_from_slice(&(tag as u16).to_le_bytes());
        room[2..RECORD_LEN].copy_from_slice(&(len as u32).to_le_bytes());
        self.len = end;
        Ok(&mut room[RECORD_LEN..])
    }

    pub(super) fn u64(&mut self, tag: Tag, v: u64) -> Result<(), FrontError> {
        self.record(tag, 8)?.copy_from_slice(&v.to_le_bytes());
        Ok(())
    }

    pub(super) fn u32(&mut self, tag: Tag, v: u32) -> Result<(), FrontError> {
        self.record(tag, 4)?.copy_from_slice(&v.to_le_bytes());
        Ok(())
    }

    pub(super) fn addr(&mut self, tag: Tag, a: SocketAddr) -> Result<(), FrontError> {
        let (v4, v6);
        let octets: &[u8] = match a.ip() {
            IpAddr::V4(ip) => {
                v4 = ip.octets();
                &v4
            }
            IpAddr::V6(ip) => {
                v6 = ip.octets();
                &v6
            }
        };
        let room = self.record(tag, octets.len() + 2)?;
        let (ip, port) = room.split_at_mut(octets.len());
        ip.copy_from_slice(octets);
        port.copy_from_slice(&a.port().to_le_bytes());
        Ok(())
    }

    pub(super) fn text(&mut self, tag: Tag, text: &str, max: usize) -> Result<(), FrontError> {
        if text.len() > max {
            return Err(FrontError::TooLong(text.len() as u32));
        }
        self.record(tag, text.len())?
            .copy_from_slice(text.as_bytes());
        Ok(())
    }

    pub(super) fn info(&mut self, info: &Info) -> Result<(), FrontError> {
        let room = self.record(Tag::Info, Info::LEN)?;
        for (slot, v) in room.chunks_exact_mut(8).zip(info.fields()) {
            slot.copy_from_slice(&v.to_le_bytes());
        }
        Ok(())
    }

    pub(super) fn finish(self, kind: Kind, pad: u32) -> Result<usize, FrontError> {
        if pad as usize > MAX_PAD {
            return Err(FrontError::TooLong(pad));
        }
        let body = (self.len - HEADER_LEN) as u32;
        self.buf[..HEADER_LEN].copy_from_slice(&Header { kind, body, pad }.encode());
        Ok(self.len)
    }
}

/// All records that a body may hold, each at most once.
#[derive(Default)]
pub(super) struct Records<'a> {
    pub(super) cookie: Option<u64>,
    pub(super) former: Option<u64>,
    pub(super) inode: Option<u64>,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    pub(super) options: Option<u32>,
    pub(super) backlog: Option<u32>,
    pub(super) errno: Option<u32>,
    pub(super) spec: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) value: Option<&'a str>,
    pub(super) info: Option<Info>,
}

impl<'a> Records<'a> {
    pub(super) fn decode(mut body: &'a [u8]) -> Result<Records<'a>, FrontError> {
        let mut r = Records::default();
        while !body.is_empty() {
            let (head, rest) = body
                .split_first_chunk::<RECORD_LEN>()
                .ok_or(FrontError::Truncated)?;
            let number = u16::from_le_bytes([head[0], head[1]]);
            let len = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
            let (value, rest) = rest.split_at_checked(len).ok_or(FrontError::Truncated)?;
            body = rest;
            let bad = FrontError::Record(number);
            let fresh = match Tag::from_u16(number).ok_or(FrontError::Tag(number))? {
                Tag::Cookie => r.cookie.replace(number64(value).ok_or(bad)?).is_none(),
                Tag::Former => r.former.replace(number64(value).ok_or(bad)?).is_none(),
                Tag::Inode => r.inode.replace(number64(value).ok_or(bad)?).is_none(),
                Tag::Local => r.local.replace(address(value).ok_or(bad)?).is_none(),
                Tag::Remote => r.remote.replace(address(value).ok_or(bad)?).is_none(),
                Tag::Options => r.options.replace(number32(value).ok_or(bad)?).is_none(),
                Tag::Backlog => r.backlog.replace(number32(value).ok_or(bad)?).is_none(),
                Tag::Errno => r.errno.replace(number32(value).ok_or(bad)?).is_none(),
                Tag::Spec => r.spec.replace(utf8(value, number)?).is_none(),
                Tag::Name => r.name.replace(utf8(value, number)?).is_none(),
                Tag::Value => r.value.replace(utf8(value, number)?).is_none(),
                Tag::Info => r.info.replace(numbers(value).ok_or(bad)?).is_none(),
            };
            if !fresh {
                return Err(bad);
            }
        }
        Ok(r)
    }
}

fn number64(b: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(b.try_into().ok()?))
}

fn number32(b: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(b.try_into().ok()?))
}

fn address(b: &[u8]) -> Option<SocketAddr> {
    let (ip, port) = b.split_last_chunk::<2>()?;
    let ip: IpAddr = match ip.len() {
        4 => <[u8; 4]>::try_from(ip).ok()?.into(),
        _ => <[u8; 16]>::try_from(ip).ok()?.into(),
    };
    Some(SocketAddr::new(ip, u16::from_le_bytes(*port)))
}

fn utf8(b: &[u8], tag: u16) -> Result<&str, FrontError> {
    core::str::from_utf8(b).map_err(|_| FrontError::Text(tag))
}

fn numbers(b: &[u8]) -> Option<Info> {
    if b.len() != Info::LEN {
        return None;
    }
    let mut v = [0; Info::LEN / 8];
    for (slot, chunk) in v.iter_mut().zip(b.chunks_exact(8)) {
        *slot = number64(chunk)?;
    }
    Some(Info::from_fields(v))
}

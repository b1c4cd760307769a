//! The messages of NFQUEUE, as octets (linux/netfilter/nfnetlink_queue.h).

use crate::netlink::attribute;
use wifu_wire::Neighbour;

/// Octets of a netlink header and of netfilter's own after it.
const HEAD: usize = 20;
/// `NFNL_SUBSYS_QUEUE << 8`.
const QUEUE: u16 = 3 << 8;
const PACKET: u16 = 0;
const VERDICT: u16 = 1;
const CONFIG: u16 = 2;
const VERDICT_BATCH: u16 = 3;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
/// Attributes of configuration messages.
const CFG_CMD: u16 = 1;
const CFG_PARAMS: u16 = 2;
const CFG_QUEUE_MAXLEN: u16 = 3;
const CFG_MASK: u16 = 4;
const CFG_FLAGS: u16 = 5;
/// Attributes of packets and verdicts.
const PACKET_HDR: u16 = 1;
const VERDICT_HDR: u16 = 2;
const MARK: u16 = 3;
const INDEV: u16 = 5;
const OUTDEV: u16 = 6;
const HWADDR: u16 = 9;
const PAYLOAD: u16 = 10;
const CAP_LEN: u16 = 13;
const SKB_INFO: u16 = 14;
/// Bits of `SKB_INFO`.
const CHECKSUM_NOT_READY: u32 = 1;
const SUPER_PACKET: u32 = 2;

/// `NFQA_CFG_F_FAIL_OPEN`: packets pass while the queue is full.
pub(crate) const FAIL_OPEN: u32 = 1;
/// `NFQA_CFG_F_GSO`: packets come whole that are to be cut into segments later.
pub(crate) const GSO: u32 = 4;

/// A packet in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Queued<'a> {
    /// Number of the queue.
    pub queue: u16,
    /// Its number in the queue.
    pub id: u32,
    /// From the IP header on.
    pub payload: &'a [u8],
    /// There is more than the copy.
    pub cut: bool,
    /// Its transport checksum is not filled in yet.
    pub partial: bool,
    /// It is to be cut into segments later.
    pub super_packet: bool,
    /// Who transmitted it.
    pub source: Option<Neighbour>,
    /// Number of the interface that it will leave by; 0: none.
    pub device: u32,
    /// Its mark; 0: none.
    pub mark: u32,
}

/// What the kernel says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Message<'a> {
    /// A packet wants a verdict.
    Packet(Queued<'a>),
    /// A request failed with this error number; 0: it did not.
    Answer(i32),
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Call `each` with what a datagram holds; what we don't know is passed over.
pub(crate) fn read<'a>(mut datagram: &'a [u8], mut each: impl FnMut(Message<'a>)) {
    while let (Some(length), Some(kind)) = (word(datagram, 0), half(datagram, 4)) {
        let length = length as usize;
        let Some(message) = datagram.get(..length).filter(|_| length >= 16) else {
            return;
        };
        if kind == NLMSG_ERROR {
            each(Message::Answer(word(message, 16).unwrap_or(0) as i32));
        } else if kind == QUEUE | PACKET
            && let Some(queued) = packet(message)
        {
            each(Message::Packet(queued));
        }
        datagram = datagram.get(aligned(length)..).unwrap_or(&[]);
    }
}

fn packet(message: &[u8]) -> Option<Queued<'_>> {
    let mut found = Queued {
        queue: u16::from_be(half(message, 18)?),
        id: 0,
        payload: &[],
        cut: false,
        partial: false,
        super_packet: false,
        source: None,
        device: 0,
        mark: 0,
    };
    let mut rest = message.get(HEAD..)?;
    let mut numbered = false;
    let (mut came, mut address) = (0, None);
    while let (Some(length), Some(kind)) = (half(rest, 0), half(rest, 2)) {
        let length = usize::from(length);
        let value = rest.get(4..length)?;
        match kind & 0x3FFF {
            PACKET_HDR => {
                found.id = u32::from_be(word(value, 0)?);
                numbered = true;
            }
            INDEV => came = u32::from_be(word(value, 0)?),
            MARK => found.mark = u32::from_be(word(value, 0)?),
            OUTDEV => found.device = u32::from_be(word(value, 0)?),
            PAYLOAD => found.payload = value,
            CAP_LEN => found.cut = true,
            SKB_INFO => {
                let bits = u32::from_be(word(value, 0)?);
                found.partial = bits & CHECKSUM_NOT_READY != 0;
                found.super_packet = bits & SUPER_PACKET != 0;
            }
            HWADDR if u16::from_be(half(value, 0)?) == 6 => {
                address = value.get(4..10)?.try_into().ok();
            }
            _ => {}
        }
        rest = rest.get(aligned(length)..).unwrap_or(&[]);
    }
    found.source = address.and_then(|a| Neighbour::new(u16::try_from(came).unwrap_or(0), a));
    numbered.then_some(found)
}

fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

/// Begin a message; gives where it begins.
fn begin(out: &mut Vec<u8>, kind: u16, flags: u16, queue: u16) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(QUEUE | kind).to_ne_bytes());
    out.extend_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
    out.extend_from_slice(&[0; 8]); // sequence number and sender: ours are not told apart
    out.extend_from_slice(&[libc::AF_UNSPEC as u8, 0]);
    out.extend_from_slice(&queue.to_be_bytes());
    at
}

fn end(out: &mut [u8], at: usize) {
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_ne_bytes());
}

/// Bind a queue, or give it up. The kernel answers each of the messages.
pub(crate) fn bind(queue: u16, bound: bool) -> Vec<u8> {
    const BIND: u8 = 1;
    const UNBIND: u8 = 2;
    let mut out = Vec::new();
    let at = begin(&mut out, CONFIG, NLM_F_ACK, queue);
    let command = if bound { BIND } else { UNBIND };
    attribute(&mut out, CFG_CMD, &[command, 0, 0, 0]);
    end(&mut out, at);
    out
}

/// Set a bound queue up: whole packets, at most `length` of them, and these flags.
pub(crate) fn set_up(queue: u16, length: u32, flags: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let at = begin(&mut out, CONFIG, NLM_F_ACK, queue);
    const COPY_PACKET: u8 = 2;
    attribute(&mut out, CFG_PARAMS, &[0, 0, 0xFF, 0xFF, COPY_PACKET]);
    attribute(&mut out, CFG_QUEUE_MAXLEN, &length.to_be_bytes());
    attribute(&mut out, CFG_FLAGS, &flags.to_be_bytes());
    attribute(&mut out, CFG_MASK, &(FAIL_OPEN | GSO).to_be_bytes());
    end(&mut out, at);
    out
}

fn decision(out: &mut Vec<u8>, kind: u16, queue: u16, id: u32, accept: bool) -> usize {
    let at = begin(out, kind, 0, queue);
    let mut value = [0; 8];
    value[3] = u8::from(accept); // NF_DROP is 0, NF_ACCEPT 1
    value[4..].copy_from_slice(&id.to_be_bytes());
    attribute(out, VERDICT_HDR, &value);
    at
}

/// What becomes of one packet, and what takes its place.
pub(crate) fn verdict(
    out: &mut Vec<u8>,
    queue: u16,
    id: u32,
    accept: bool,
    payload: Option<&[u8]>,
) {
    let at = decision(out, VERDICT, queue, id, accept);
    if let Some(payload) = payload {
        attribute(out, PAYLOAD, payload);
    }
    end(out, at);
}

/// What becomes of all packets up to this one.
pub(crate) fn verdict_up_to(out: &mut Vec<u8>, queue: u16, id: u32, accept: bool) {
    let at = decision(out, VERDICT_BATCH, queue, id, accept);
    end(out, at);
}

/// Octets of the first of our own messages, padding included.
pub(crate) fn first_length(messages: &[u8]) -> usize {
    let length = messages.first_chunk().map_or(0, |l| u32::from_ne_bytes(*l)) as usize;
    match aligned(length) {
        0 => messages.len(),
        n => n.min(messages.len()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A packet in queue 3, with the number 7.
    pub(crate) fn sample() -> Vec<u8> {
        let mut out = Vec::new();
        let at = begin(&mut out, PACKET, 0, 3);
        let mut header = 7u32.to_be_bytes().to_vec();
        header.extend_from_slice(&[8, 0, 4]);
        attribute(&mut out, PACKET_HDR, &header);
        attribute(&mut out, HWADDR, &[0, 6, 0, 0, 2, 0, 0, 0, 0, 9, 0, 0]);
        attribute(&mut out, INDEV, &4u32.to_be_bytes());
        attribute(&mut out, MARK, &0x5746_0009u32.to_be_bytes());
        attribute(&mut out, SKB_INFO, &3u32.to_be_bytes());
        attribute(&mut out, PAYLOAD, &[0x45, 1, 2]);
        end(&mut out, at);
        out
    }

    fn all(datagram: &[u8]) -> Vec<Message<'_>> {
        let mut found = Vec::new();
        read(datagram, |m| found.push(m));
        found
    }

    #[test]
    fn packets_are_read_with_what_is_known_of_them() {
        let two = [sample(), sample()].concat();
        let wanted = Message::Packet(Queued {
            queue: 3,
            id: 7,
            payload: &[0x45, 1, 2],
            cut: false,
            partial: true,
            super_packet: true,
            source: Neighbour::new(4, [2, 0, 0, 0, 0, 9]),
            device: 0,
            mark: 0x5746_0009,
        });
        assert_eq!(all(&two), [wanted, wanted]);
    }

    #[test]
    fn no_datagram_makes_the_reader_fall() {
        let whole = sample();
        for n in 0..whole.len() {
            assert_eq!(all(&whole[..n]), []);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 3, 255] {
                let mut bad = whole.clone();
                bad[at] = value;
                let _ = all(&bad);
            }
        }
        let mut answer = vec![20, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        answer.extend_from_slice(&(-2i32).to_ne_bytes());
        assert_eq!(all(&answer), [Message::Answer(-2)]);
    }

    #[test]
    fn a_verdict_says_queue_number_and_what_takes_the_packets_place() {
        let mut out = Vec::new();
        verdict(&mut out, 4, 0x0102_0304, true, Some(&[1, 2, 3, 4, 5]));
        assert_eq!(out.len(), 20 + 12 + 12);
        assert_eq!(out[4..6], (QUEUE | VERDICT).to_ne_bytes());
        assert_eq!(out[18..20], [0, 4]);
        assert_eq!(out[24..32], [0, 0, 0, 1, 1, 2, 3, 4]);
        assert_eq!(out[32..34], 9u16.to_ne_bytes());
        assert_eq!(first_length(&out), 44);
        verdict_up_to(&mut out, 0, 9, false);
        assert_eq!((first_length(&out), first_length(&out[44..])), (44, 32));
        assert_eq!(out[44..48], 32u32.to_ne_bytes());
        assert_eq!(out[68..72], [0, 0, 0, 0]);
    }
}

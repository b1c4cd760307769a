//! A monitor interface beside a radio: frames for other stations with their signal and rate, and
//! our own when the driver reports them, each behind a radiotap header.

use super::ear::Silence;
use super::pending::{Gone, Pending, hash_of};
use super::report::MonitorCounters;
use crate::sys::{self, BPF_RETURN, RecvBatch, instruction};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with, sockopt};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wifu_core::Hook;
use wifu_wire::dot11::{self, Dot11Error, Mac};
use wifu_wire::radiotap::{self, Radiotap};
use wifu_wire::{FrameFacts, Neighbour, Rate, Span, Time};

/// linux/if_packet.h: frames that are sent, not heard.
const PACKET_OUTGOING: u32 = 4;
/// Frames taken by one call, and octets of the longest.
const FRAMES: usize = 32;
const LONGEST: usize = 16 << 10;
/// Octets of frames that may wait: a status that is lost is a packet that stays queued.
const BUFFER: usize = 4 << 20;
/// Between two looks at the addresses of interfaces.
const LOOK_AGAIN: Span = Span(1_000_000_000);

/// What a frame tells.
#[derive(PartialEq, Debug)]
pub(crate) enum Sight<'a> {
    /// A frame for another station.
    Overheard {
        facts: FrameFacts,
        /// From the IP header on.
        packet: &'a [u8],
    },
    /// A frame for this one.
    ForUs { facts: FrameFacts, packet: &'a [u8] },
    /// The driver is done with a frame of ours.
    Reported {
        /// The packet, if it was one that we let go, and the time since.
        packet: Option<(u64, Span)>,
        delivered: bool,
        tries: u8,
        /// Of a frame for one station, if the driver says.
        rate: Option<Rate>,
    },
}

/// Makes of frames what they tell.
#[derive(Default)]
pub(crate) struct Account {
    /// Numbers of this namespace's interfaces, by address.
    own: BTreeMap<Mac, BTreeSet<u32>>,
    /// They were looked at,
    looked: Time,
    /// ... and since then a frame of ours was reported that none of them sent.
    unknown: bool,
    /// Those of them whose frames the monitor showed.
    radios: BTreeSet<u32>,
    pending: Pending,
    pub(crate) counters: MonitorCounters,
}

impl Account {
    /// These are this namespace's interfaces now.
    fn know(&mut self, own: BTreeMap<Mac, BTreeSet<u32>>, now: Time) {
        (self.own, self.looked, self.unknown) = (own, now, false);
    }

    /// Whether an interface seems to have got another address, or to be new.
    fn is_outdated(&self, now: Time) -> bool {
        self.unknown && now - self.looked >= LOOK_AGAIN
    }

    /// A packet is let go at a hook; whether a report is waited for.
    pub(crate) fn let_go(&mut self, packet: &[u8], gone: Gone) -> bool {
        let leaves = matches!(gone.hook, Hook::Output | Hook::Forward | Hook::Postrouting);
        match hash_of(packet) {
            Some(hash) if leaves && self.shows(gone.device) => {
                self.pending.add(hash, gone);
                true
            }
            _ => false,
        }
    }

    /// Whether frames by this interface are those of the monitor's radio, as far as is known.
    pub(crate) fn shows(&self, device: u32) -> bool {
        self.radios.is_empty() || self.radios.contains(&device)
    }

    /// The tickets of packets for whose report nobody waits any longer.
    pub(crate) fn take_lost(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.pending.take_left()
    }

    /// Packets let go towards the radio and not reported yet.
    pub(crate) fn queued(&self) -> u32 {
        self.pending.queued(&self.radios)
    }

    fn tidy(&mut self, now: Time) {
        self.pending.tidy(now);
        self.counters.lost = self.pending.lost();
    }

    /// A frame with its radiotap header.
    pub(crate) fn read<'a>(&mut self, octets: &'a [u8], now: Time) -> Option<Sight<'a>> {
        self.counters.frames += 1;
        let Ok((header, frame)) = Radiotap::parse(octets) else {
            self.counters.garbled += 1;
            return None;
        };
        if header.has(radiotap::BAD_FCS) {
            self.counters.garbled += 1;
            return None;
        }
        let frame = header.without_fcs(frame);
        match dot11::parse(frame, header.has(radiotap::PADDED)) {
            Ok(data) => match header.tx_flags {
                Some(flags) => Some(self.reported(&header, flags, &data, now)),
                None => self.overheard(&header, &data),
            },
            Err(Dot11Error::Short) => {
                self.counters.garbled += 1;
                None
            }
            Err(_) => {
                self.counters.other += 1;
                None
            }
        }
    }

    /// The device by which the radio's neighbours are reached: the one whose frames the monitor
    /// showed, else the first of this namespace.
    fn device(&self) -> u16 {
        let own = self.own.values().flatten().min();
        let device = self.radios.first().or(own).copied();
        device.and_then(|d| u16::try_from(d).ok()).unwrap_or(0)
    }

    fn overheard<'a>(&mut self, header: &Radiotap, data: &dot11::Data<'a>) -> Option<Sight<'a>> {
        let (to, from) = (data.header.receiver, data.header.transmitter);
        let facts = FrameFacts {
            transmitter: Neighbour::new(self.device(), from),
            rssi_dbm: header.signal_dbm,
            rate: header.rate,
            ..FrameFacts::NONE
        };
        let (for_us, packet) = (self.own.contains_key(&to), data.packet);
        if data.kind != dot11::IPV4 || to[0] & 1 == 1 || self.own.contains_key(&from) || for_us {
            self.counters.other += 1;
            let told = for_us && data.kind == dot11::IPV4;
            return told.then_some(Sight::ForUs { facts, packet });
        }
        self.counters.overheard += 1;
        Some(Sight::Overheard { facts, packet })
    }

    fn reported<'a>(
        &mut self,
        header: &Radiotap,
        flags: u16,
        data: &dot11::Data<'_>,
        now: Time,
    ) -> Sight<'a> {
        match self.own.get(&data.header.transmitter) {
            Some(devices) => self.radios.extend(devices),
            None => self.unknown = true,
        }
        let hash = Some(data.packet).filter(|_| data.kind == dot11::IPV4);
        let hash = hash.and_then(hash_of);
        let gone = hash.and_then(|hash| self.pending.settle(hash, now));
        self.counters.reported += 1;
        self.counters.failed += u64::from(flags & radiotap::TX_FAILED != 0);
        self.counters.matched += u64::from(gone.is_some());
        self.counters.unmatched += u64::from(gone.is_none());
        Sight::Reported {
            packet: gone.map(|g| (g.ticket, now - g.at)),
            delivered: flags & radiotap::TX_FAILED == 0,
            tries: header.data_retries.unwrap_or(0).saturating_add(1),
            rate: header.rate.filter(|_| data.header.receiver[0] & 1 == 0),
        }
    }
}

/// Listens on a monitor interface.
pub(crate) struct Monitor {
    fd: OwnedFd,
    batch: RecvBatch,
    pub(crate) account: Account,
    /// Frames that found the buffer full.
    missed: u64,
    pub(crate) silence: Silence,
}

impl Monitor {
    /// Listen on an interface, by name.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW; an unknown interface, or one without radiotap.
    pub(crate) fn open(device: &str) -> io::Result<Monitor> {
        // Protocol 0: nothing arrives before the filter is in place.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        let interface = netdevice::name_to_index(&fd, device)? as i32;
        check(&fd, device)?;
        let own = addresses(&fd)?;
        sys::set_filter(&fd, &filter())?;
        if sockopt::set_socket_recv_buffer_size_force(&fd, BUFFER).is_err() {
            sockopt::set_socket_recv_buffer_size(&fd, BUFFER)?;
        }
        sys::bind_packets(&fd, interface)?;
        Ok(Monitor {
            fd,
            batch: RecvBatch::new(FRAMES, LONGEST),
            account: Account {
                own,
                ..Account::default()
            },
            missed: 0,
            silence: Silence::new(device),
        })
    }

    /// Take what waits, and call `each` with what it tells and how many packets are still queued.
    /// Gives how many frames there were.
    pub(crate) fn listen(&mut self, now: Time, mut each: impl FnMut(Sight<'_>, u32)) -> usize {
        let n = self.silence.note(self.batch.receive(&self.fd));
        for i in 0..n {
            let (octets, cut) = self.batch.message(i);
            if cut {
                self.account.counters.frames += 1;
                self.account.counters.garbled += 1;
                continue;
            }
            if let Some(sight) = self.account.read(octets, now) {
                each(sight, self.account.queued());
            }
        }
        self.account.tidy(now);
        if self.account.is_outdated(now)
            && let Ok(own) = addresses(&self.fd)
        {
            self.account.know(own, now);
        }
        n
    }

    /// What happened so far.
    pub(crate) fn counters(&mut self) -> MonitorCounters {
        let missed = sys::receive_drops(&self.fd).map_or(self.missed, u64::from);
        self.missed = self.missed.max(missed);
        MonitorCounters {
            missed: self.missed,
            queued: self.account.queued(),
            ..self.account.counters
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether the interface is one whose frames have radiotap headers; needs no privilege.
pub(crate) fn check(socket: &OwnedFd, device: &str) -> io::Result<()> {
    let (kind, _) = sys::link_of(socket, device)?;
    if kind == sys::RADIOTAP {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "its frames have no radiotap header (link type {kind}, not {}); \
         `iw dev DEV interface add {device} type monitor` makes a monitor",
        sys::RADIOTAP
    )))
}

/// Interfaces of this namespace, by link address.
fn addresses(socket: &OwnedFd) -> io::Result<BTreeMap<Mac, BTreeSet<u32>>> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let mut found: BTreeMap<Mac, BTreeSet<u32>> = BTreeMap::new();
    for name in text
        .lines()
        .filter_map(|l| Some(l.split_once(':')?.0.trim()))
    {
        // One that goes away meanwhile is none of ours.
        let (Ok((_, mac)), Ok(index)) = (
            sys::link_of(socket, name),
            netdevice::name_to_index(socket, name),
        ) else {
            continue;
        };
        if mac != [0; 6] {
            found.entry(mac).or_default().insert(index);
        }
    }
    Ok(found)
}

/// What is heard or reported, not what somebody sends through the monitor.
fn filter() -> [libc::sock_filter; 4] {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_EQUAL: u16 = 0x15;
    // linux/filter.h: SKF_AD_OFF and below it PKTTYPE.
    let kind = (-0x1000 + 4) as u32;
    [
        instruction(LOAD_WORD, 0, 0, kind),
        instruction(JUMP_EQUAL, 1, 0, PACKET_OUTGOING),
        instruction(BPF_RETURN, 0, 0, u32::MAX),
        instruction(BPF_RETURN, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_wire::Rng;
    use wifu_wire::dot11::DataHeader;

    const US: Mac = [2, 0, 0, 0, 0, 1];
    const NEAR: Mac = [2, 0, 0, 0, 0, 2];
    const FAR: Mac = [2, 0, 0, 0, 0, 3];
    const RATE: Rate = Rate(24_000_000);

    fn account() -> Account {
        Account {
            own: BTreeMap::from([(US, BTreeSet::from([5]))]),
            ..Account::default()
        }
    }

    fn packet(id: u8) -> Vec<u8> {
        let mut packet = vec![0; 60];
        (packet[0], packet[3], packet[5], packet[9]) = (0x45, 60, id, 17);
        packet
    }

    fn heard(from: Mac, to: Mac, tx_flags: Option<u16>, id: u8) -> Vec<u8> {
        let mut out = Vec::new();
        let header = Radiotap {
            rate: Some(RATE),
            signal_dbm: tx_flags.is_none().then_some(-70),
            data_retries: tx_flags.map(|_| 2),
            tx_flags,
            ..Radiotap::default()
        };
        header.emit(&mut out);
        let header = DataHeader {
            retry: false,
            duration_us: 0,
            receiver: to,
            transmitter: from,
            third: [9; 6],
            sequence: 3,
        };
        header.emit(&mut out);
        dot11::emit_snap(dot11::IPV4, &mut out);
        out.extend(packet(id));
        out
    }

    fn gone(device: u32, ticket: u64) -> Gone {
        Gone {
            hook: Hook::Output,
            ticket,
            device,
            at: Time(1_000),
        }
    }

    #[test]
    fn only_frames_for_others_are_overheard() {
        let mut a = account();
        let told = heard(NEAR, FAR, None, 7);
        let facts = FrameFacts {
            transmitter: Neighbour::new(5, NEAR),
            rssi_dbm: Some(-70),
            rate: Some(RATE),
            ..FrameFacts::NONE
        };
        let packet = &packet(7);
        let wanted = Sight::Overheard { facts, packet };
        assert_eq!(a.read(&told, Time(5)), Some(wanted));
        let told = heard(NEAR, US, None, 7);
        let for_us = Sight::ForUs { facts, packet };
        assert_eq!(a.read(&told, Time(5)), Some(for_us));
        for (from, to) in [(NEAR, [0xFF; 6]), (US, FAR)] {
            assert_eq!(a.read(&heard(from, to, None, 7), Time(5)), None);
        }
        assert_eq!((a.counters.overheard, a.counters.other), (1, 3));
    }

    #[test]
    fn a_reported_frame_is_the_packet_that_was_let_go() {
        let mut a = account();
        a.let_go(&packet(1), gone(5, 11));
        a.let_go(&packet(2), gone(5, 12));
        a.let_go(&packet(3), gone(9, 13));
        assert_eq!(
            a.queued(),
            0,
            "which interface is the radio's is not known yet"
        );
        let told = heard(US, NEAR, Some(radiotap::TX_FAILED), 2);
        let failed = Sight::Reported {
            packet: Some((12, Span(500))),
            delivered: false,
            tries: 3,
            rate: Some(RATE),
        };
        assert_eq!(a.read(&told, Time(1_500)), Some(failed));
        assert_eq!(a.queued(), 1);
        a.let_go(&packet(4), gone(9, 14));
        a.let_go(&packet(5), gone(5, 15));
        assert_eq!(a.queued(), 2, "what goes elsewhere is not waited for");
        let told = heard(US, [0xFF; 6], Some(radiotap::TX_NO_ACK), 4);
        let all = Sight::Reported {
            packet: None,
            delivered: true,
            tries: 3,
            rate: None,
        };
        assert_eq!(a.read(&told, Time(1_500)), Some(all));
        let c = a.counters;
        assert_eq!((c.reported, c.matched, c.unmatched, c.failed), (2, 1, 1, 1));
    }

    #[test]
    fn an_address_that_is_not_known_is_looked_up_again() {
        let mut a = account();
        let now = LOOK_AGAIN;
        assert!(!a.is_outdated(Time(now.0 * 9)), "nobody is missed");
        let told = heard(FAR, NEAR, Some(0), 4);
        let _ = a.read(&told, Time(now.0 * 9));
        assert!(a.is_outdated(Time(now.0 * 9)));
        let own = BTreeMap::from([(FAR, BTreeSet::from([6]))]);
        a.know(own, Time(now.0 * 9));
        let _ = a.read(&heard(NEAR, US, Some(0), 4), Time(now.0 * 9));
        assert!(!a.is_outdated(Time(now.0 * 10 - 1)), "not all the time");
        assert!(a.is_outdated(Time(now.0 * 10)));
        let _ = a.read(&told, Time(now.0 * 10));
        a.let_go(&packet(5), gone(6, 15));
        assert_eq!(a.queued(), 1);
    }

    #[test]
    fn a_cut_frame_is_one_of_those_that_were_shown() {
        let (ours, air) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let mut monitor = Monitor {
            fd: OwnedFd::from(ours),
            batch: RecvBatch::new(2, 64),
            account: account(),
            missed: 0,
            silence: Silence::new("mon0"),
        };
        let whole = heard(NEAR, FAR, None, 7);
        assert!(whole.len() > 64);
        air.send(&whole).unwrap();
        air.send(&whole[..60]).unwrap();
        assert_eq!(monitor.listen(Time(5), |_, _| {}), 2);
        let c = monitor.account.counters;
        assert_eq!((c.frames, c.garbled + c.other + c.overheard), (2, 2));
    }

    #[test]
    fn garbage_is_counted_and_nothing_else() {
        let mut a = account();
        let whole = heard(NEAR, FAR, None, 7);
        let mut rng = Rng::new(3);
        for i in 0..20_000u64 {
            let mut bytes = whole.clone();
            bytes.truncate(rng.below(whole.len() as u64 + 1) as usize);
            for _ in 0..rng.below(5) {
                let at = rng.below(bytes.len().max(1) as u64) as usize;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = rng.next_u32() as u8;
                }
            }
            let _ = a.read(&bytes, Time(i));
        }
        let c = a.counters;
        assert_eq!(c.frames, 20_000);
        assert_eq!(c.garbled + c.other + c.overheard + c.reported, c.frames);
        assert!(c.garbled > 5_000 && c.overheard > 100, "{c:?}");
    }
}

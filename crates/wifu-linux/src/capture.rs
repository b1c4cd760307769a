//! Captures: pcapng files written by a thread of their own, so that disks don't delay packets.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use wifu_wire::Time;
use wifu_wire::pcapng::{Captured, Direction, InterfaceId, LinkType, Writer};

/// Octets gathered before they go to the writing thread.
const CHUNK: usize = 256 * 1024;

/// Chunks that may wait for the disk; beyond, packets are left out and counted.
const CHUNKS: usize = 64;

/// A capture file with one interface block per carrier.
pub struct Capture {
    writer: Writer,
    interfaces: Vec<InterfaceId>,
    gathered: Vec<u8>,
    to_disk: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    wall_offset: u64,
    /// Packets left out because the disk was too slow.
    pub left_out: u64,
}

impl Capture {
    /// Create the file; `carriers` are the names of the interfaces. `wall_offset` is what to add to
    /// our clock to get nanoseconds since 1970.
    ///
    /// # Errors
    /// The file can't be created or no thread can be started.
    pub fn create(path: &Path, carriers: &[&str], wall_offset: u64) -> io::Result<Capture> {
        let mut file = File::create(path)?;
        let (to_disk, chunks) = sync_channel::<Vec<u8>>(CHUNKS);
        let write = move || -> io::Result<()> {
            crate::privileges::give_up_all()?;
            for chunk in chunks {
                file.write_all(&chunk)?;
            }
            file.flush()
        };
        let thread = std::thread::Builder::new()
            .name("wifu-capture".into())
            .spawn(write)?;
        let mut gathered = Vec::with_capacity(CHUNK + 4096);
        let mut writer = Writer::begin(&mut gathered, "wifu daemon", 0);
        let interface = |name: &&str| writer.interface(&mut gathered, name, LinkType::RAW);
        let interfaces = carriers.iter().map(interface).collect();
        Ok(Capture {
            writer,
            interfaces,
            gathered,
            to_disk: Some(to_disk),
            thread: Some(thread),
            wall_offset,
            left_out: 0,
        })
    }

    /// Note a packet of carrier number `carrier`.
    pub fn packet(&mut self, carrier: usize, now: Time, packet: &[u8], direction: Direction) {
        let captured = Captured {
            interface: self.interfaces[carrier],
            wall_ns: now.0 + self.wall_offset,
            octets: packet,
            direction: Some(direction),
            comment: "",
        };
        self.writer.packet(&mut self.gathered, &captured);
        if self.gathered.len() >= CHUNK {
            self.hand_over();
        }
    }

    /// Give the writing thread what was gathered, e.g. when the loop is idle.
    pub fn hand_over(&mut self) {
        let Some(to_disk) = &self.to_disk else { return };
        if self.gathered.is_empty() {
            return;
        }
        let fresh = Vec::with_capacity(CHUNK + 4096);
        let chunk = core::mem::replace(&mut self.gathered, fresh);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = to_disk.try_send(chunk)
        {
            self.left_out += 1;
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // The last chunk may wait: nothing is urgent any more.
        if let Some(to_disk) = self.to_disk.take() {
            let _ = to_disk.send(core::mem::take(&mut self.gathered));
        }
        let written = self.thread.take().map(JoinHandle::join);
        if let Some(Ok(Err(e))) = written {
            tracing::warn!("the capture is incomplete: {e}");
        }
        if self.left_out > 0 {
            tracing::warn!("the disk was too slow: {} chunks left out", self.left_out);
        }
    }
}

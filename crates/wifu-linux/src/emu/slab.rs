//! The octets of the frames that are in the model, which knows them by a number.

/// Longer than any frame at an MTU of 1500, VLAN tags included.
pub(super) const BUFFER: usize = 2048;

/// Frames in the model, by cookie.
#[derive(Default)]
pub(super) struct Slab {
    frames: Vec<Vec<u8>>,
    free: Vec<u32>,
}

impl Slab {
    /// An empty buffer for [`BUFFER`] octets.
    pub(super) fn take(&mut self) -> (u32, &mut Vec<u8>) {
        let cookie = self.free.pop().unwrap_or_else(|| {
            self.frames.push(Vec::with_capacity(BUFFER));
            (self.frames.len() - 1) as u32
        });
        let frame = &mut self.frames[cookie as usize];
        frame.clear();
        (cookie, frame)
    }

    /// The frame has left the model.
    pub(super) fn give_back(&mut self, cookie: u32) {
        self.free.push(cookie);
    }

    pub(super) fn get(&self, cookie: u32) -> &[u8] {
        &self.frames[cookie as usize]
    }
}

//! Memory for octets by position.

/// A ring of octets: memory is a power of two, so that positions wrap with a mask.
#[derive(Debug)]
pub(crate) struct Ring {
    memory: Box<[u8]>,
}

impl Ring {
    /// Room for at least `octets`. Zeroed memory of this size comes lazily from the kernel, so
    /// that a buffer costs only what is touched.
    pub(crate) fn new(octets: u32) -> Ring {
        Ring {
            memory: vec![0; (octets as usize).max(1).next_power_of_two()].into(),
        }
    }

    fn at(&self, position: u32) -> usize {
        position as usize & (self.memory.len() - 1)
    }

    /// `len` octets from `position`, in two pieces.
    #[inline]
    pub(crate) fn pieces(&self, position: u32, len: u32) -> [&[u8]; 2] {
        let (at, len) = (self.at(position), len as usize);
        let first = len.min(self.memory.len() - at);
        [&self.memory[at..at + first], &self.memory[..len - first]]
    }

    /// The same, to write into.
    pub(crate) fn pieces_mut(&mut self, position: u32, len: u32) -> [&mut [u8]; 2] {
        let (at, len) = (self.at(position), len as usize);
        let first = len.min(self.memory.len() - at);
        let (low, high) = self.memory.split_at_mut(at);
        let rest = (len - first).min(low.len());
        [&mut high[..first], &mut low[..rest]]
    }

    /// Copy `bytes` to `position`.
    pub(crate) fn put(&mut self, position: u32, bytes: &[u8]) {
        let [a, b] = self.pieces_mut(position, bytes.len() as u32);
        let cut = a.len();
        a.copy_from_slice(&bytes[..cut]);
        b.copy_from_slice(&bytes[cut..]);
    }
}

//! A counting allocator, so that a test can assert that nothing was allocated between two marks.
//!
//! A test binary installs it with `#[global_allocator] static COUNTING: Counting = Counting;`.
//! Counts are per thread: tests that run beside each other don't disturb each other.
#![allow(unsafe_code)]

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};

thread_local! {
    /// Needs no destructor and no lazy set-up, so the allocator may touch it at any time.
    static TAKEN: Cell<u64> = const { Cell::new(0) };
    /// Octets taken and not given back.
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, counting allocations and reallocations of each thread.
pub struct Counting;

fn count() {
    TAKEN.with(|n| n.set(n.get() + 1));
}

fn weigh(taken: usize, given: usize) {
    LIVE.with(|n| n.set(n.get() + taken as i64 - given as i64));
}

// SAFETY: every call goes to `System` unchanged; counting touches only a plain thread-local cell.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        weigh(layout.size(), 0);
        // SAFETY: the caller's promises about `layout` are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        weigh(layout.size(), 0);
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        weigh(size, layout.size());
        // SAFETY: `at` came from `System` with this layout, because `alloc` passes through.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        weigh(0, layout.size());
        // SAFETY: as in `realloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Allocations of this thread so far; 0 for ever if [`Counting`] is not installed.
pub fn allocations() -> u64 {
    TAKEN.with(Cell::get)
}

/// Octets that this thread has taken and nobody has given back on it; 0 for ever if [`Counting`] is
/// not installed.
pub fn live() -> i64 {
    LIVE.with(Cell::get)
}

/// Allocations of this thread while `work` ran.
///
/// # Panics
/// If [`Counting`] is not installed: the count would mean nothing.
pub fn allocations_in(work: impl FnOnce()) -> u64 {
    let before = allocations();
    drop(core::hint::black_box(Box::new(0u8)));
    assert!(
        allocations() > before,
        "the counting allocator is not installed"
    );
    let start = allocations();
    work();
    allocations() - start
}

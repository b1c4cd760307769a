//! Parts that exist for these tests only. Nothing here is known to the engine: each file could live
//! in another crate.
#![allow(dead_code)]

pub mod opener;

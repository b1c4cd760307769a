//! The C library, `libwifu.a` and `libwifu.so`: the calls of `include/wifu.h`, which are
//! [`wifu_socket::capi`]. A crate of its own, so that only these two files have the name `wifu`.

#![forbid(unsafe_code)]

pub use wifu_socket::capi;

//! WiFu live on Linux: carriers, the daemon and its event loop.

//! BSD socket calls over WiFu: LD_PRELOAD library and C library.

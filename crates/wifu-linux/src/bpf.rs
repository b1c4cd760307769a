//! `bpf(2)` for programs that we write instruction by instruction: load them, attach them to
//! interfaces, and name what is to outlive us in a BPF file system.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// linux/bpf.h; the names are the kernel's.
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_OBJ_PIN: libc::c_int = 6;
const BPF_OBJ_GET: libc::c_int = 7;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_TCX_INGRESS: u32 = 46;
const BPF_F_BEFORE: u32 = 1 << 3;

/// The beginning of `union bpf_attr` for BPF_MAP_CREATE.
#[repr(C)]
struct MapAttributes {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

/// ... for BPF_MAP_LOOKUP_ELEM.
#[repr(C)]
struct LookUpAttributes {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// ... for BPF_OBJ_PIN and BPF_OBJ_GET.
#[repr(C)]
struct ObjectAttributes {
    path: u64,
    object: u32,
    flags: u32,
}

/// ... for BPF_PROG_LOAD.
#[repr(C)]
struct LoadAttributes {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

/// ... for BPF_LINK_CREATE.
#[repr(C)]
struct LinkAttributes {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
    relative: u32,
    padding: u32,
    revision: u64,
}

/// Load a program for the ingress of interfaces.
///
/// # Errors
/// `PermissionDenied` without CAP_BPF and CAP_NET_ADMIN; `InvalidInput` before Linux 6.6.
pub(crate) fn load(program: &[u64]) -> io::Result<OwnedFd> {
    let mut name = [0; 16];
    name[..4].copy_from_slice(b"wifu");
    let attributes = LoadAttributes {
        kind: BPF_PROG_TYPE_SCHED_CLS,
        count: program.len() as u32,
        instructions: program.as_ptr().expose_provenance() as u64,
        // The program calls no function that asks for the GPL.
        license: c"MIT".as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name,
        interface: 0,
        attach_type: BPF_TCX_INGRESS,
    };
    descriptor(BPF_PROG_LOAD, &attributes)
}

/// Let a program see what comes by an interface, before those that are there, until the descriptor
/// is closed and no name is left of it.
///
/// # Errors
/// As [`load`]; an unknown interface.
pub(crate) fn link(program: &OwnedFd, interface: i32) -> io::Result<OwnedFd> {
    let attributes = LinkAttributes {
        program: program.as_raw_fd() as u32,
        interface: interface as u32,
        attach_type: BPF_TCX_INGRESS,
        flags: BPF_F_BEFORE,
        relative: 0,
        padding: 0,
        revision: 0,
    };
    descriptor(BPF_LINK_CREATE, &attributes)
}

/// An array of one 64-bit number.
///
/// # Errors
/// `PermissionDenied` without CAP_BPF.
pub(crate) fn counter() -> io::Result<OwnedFd> {
    let attributes = MapAttributes {
        kind: BPF_MAP_TYPE_ARRAY,
        key_size: 4,
        value_size: 8,
        max_entries: 1,
    };
    descriptor(BPF_MAP_CREATE, &attributes)
}

/// The number in a [`counter`].
///
/// # Errors
/// If it is no such map.
pub(crate) fn read(counter: &OwnedFd) -> io::Result<u64> {
    let (key, mut value) = (0_u32, 0_u64);
    let attributes = LookUpAttributes {
        map: counter.as_raw_fd() as u32,
        padding: 0,
        key: core::ptr::from_ref(&key).expose_provenance() as u64,
        value: core::ptr::from_mut(&mut value).expose_provenance() as u64,
        flags: 0,
    };
    bpf(BPF_MAP_LOOKUP_ELEM, &attributes)?;
    Ok(value)
}

/// Give a program's link or a map a name in a BPF file system, which keeps it alive.
///
/// # Errors
/// What the file system says.
pub(crate) fn pin(object: &OwnedFd, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attributes = ObjectAttributes {
        path: path.as_ptr().expose_provenance() as u64,
        object: object.as_raw_fd() as u32,
        flags: 0,
    };
    bpf(BPF_OBJ_PIN, &attributes).map(drop)
}

/// What has this name in a BPF file system.
///
/// # Errors
/// What the file system says.
pub(crate) fn get(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attributes = ObjectAttributes {
        path: path.as_ptr().expose_provenance() as u64,
        object: 0,
        flags: 0,
    };
    descriptor(BPF_OBJ_GET, &attributes)
}

/// For commands that give a descriptor.
fn descriptor<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)?;
    // SAFETY: the kernel has just given this descriptor (close-on-exec); nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    // SAFETY: the pointer and the size describe `attributes`, and what it points to lives in the
    // caller and is as large as the command takes it for; only BPF_MAP_LOOKUP_ELEM writes, into the
    // caller's number.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            core::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    };
    match answer {
        ..0 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
}

//! Parts, handlers, formats and compositions from shared libraries that
//! [`wifu_node::export!`] made.
//!
//! A library stays for good: what it brings are references that never end.

use core::ffi::{CStr, c_void};
use core::mem::transmute;
use core::ptr::NonNull;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use wifu_node::export::{Brought, Host, INTERFACE, INTERFACE_SYMBOL, REGISTER_SYMBOL, Register};

/// Why a library is not loaded; complete beside its path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no such file, or it is out of reach.
    #[error(transparent)]
    Unreachable(#[from] io::Error),
    /// Whoever starts this program would have its privileges for code of their own.
    #[error(
        "this program has capabilities by its file (setcap) and lends them to no library: run a \
         copy without them as root"
    )]
    Privileged,
    /// Says the dynamic linker.
    #[error("no shared library that can be loaded: {0}")]
    NotShared(String),
    /// A symbol is not there.
    #[error("not built with wifu_node::export!: it has no symbol {}", .0.to_string_lossy())]
    NotExported(&'static CStr),
    /// Its types may be laid out otherwise than ours.
    #[error(
        "{}\n  its interface:    {theirs}\n  this program's:   {ours}",
        apart(theirs, ours, &program())
    )]
    OtherInterface {
        /// The library's interface.
        theirs: String,
        /// This program's.
        ours: &'static str,
    },
}

/// In what two interfaces differ, which of both was built how, and what to build.
fn apart(theirs: &str, ours: &str, program: &str) -> String {
    let parts = |text| str::split_once(text, ", panic = ");
    match (parts(theirs), parts(ours)) {
        (Some((its, "unwind")), Some((own, "abort"))) if its == own => format!(
            "built alike, but the library is a debug build, which unwinds at a panic, and this \
             program ({program}) a release build, which ends there. Build the library by `cargo build --release` with \
             panic = \"abort\" under [profile.release] in its Cargo.toml; or take a wifu of `cargo \
             build`, target/debug/wifu, which WIFU_BIN names to the lab"
        ),
        (Some((its, "abort")), Some((own, "unwind"))) if its == own => format!(
            "built alike, but the library is a release build, which ends at a panic, and this \
             program ({program}) unwinds there, as a debug build and the lab do. Take the library of `cargo build`, in \
             target/debug; or the wifu of `cargo build --release`, which does for all but the lab's \
             simulator"
        ),
        _ => OTHERWISE.into(),
    }
}

const OTHERWISE: &str = "built against another WiFu, with another compiler or in another profile; \
                         rebuild it";

/// The file of this program, for people.
fn program() -> String {
    let file = std::env::current_exe();
    file.map_or_else(|_| "wifu".into(), |file| file.display().to_string())
}

/// Load a library and ask what it brings. Its code runs, with this program's rights, as that of any
/// program would that its caller starts: the interface is against mistakes, not against malice.
///
/// # Errors
/// It is no library, or was built otherwise than this program.
pub fn load(path: &Path) -> Result<Brought, LoadError> {
    if lends_privileges() {
        return Err(LoadError::Privileged);
    }
    // The dynamic linker looks for names without a slash elsewhere.
    let path = std::fs::canonicalize(path)?;
    let library = Library::open(&path)?;
    let theirs = library.symbol(INTERFACE_SYMBOL)?;
    // SAFETY: by this name `export!` puts a text that ends with a zero octet, and a library stays.
    let theirs = unsafe { CStr::from_ptr(theirs.as_ptr().cast()) };
    if theirs.to_bytes() != INTERFACE.as_bytes() {
        return Err(LoadError::OtherInterface {
            theirs: theirs.to_string_lossy().into_owned(),
            ours: INTERFACE,
        });
    }
    let register = library.symbol(REGISTER_SYMBOL)?;
    // SAFETY: by this name `export!` puts a `Register`. The interface is ours, so that function has
    // the type and the calling convention that this compiler gives it here.
    let register = unsafe { transmute::<*mut c_void, Register>(register.as_ptr()) };
    Ok(register(Host {
        panicked: crate::core::panicked_in_library,
    }))
}

/// A library that is never closed.
struct Library(NonNull<c_void>);

impl Library {
    fn open(path: &Path) -> Result<Library, LoadError> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)?;
        // Everything is bound now: nothing that is missing shows up in the middle of a run.
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
        // SAFETY: a text that ends with a zero octet. What the library does when it is loaded is up
        // to whoever named it, as with a program.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        NonNull::new(handle).map(Library).ok_or_else(|| {
            let said = error();
            let prefix = format!("{}: ", path.display());
            LoadError::NotShared(said.strip_prefix(&prefix).unwrap_or(&said).to_owned())
        })
    }

    fn symbol(&self, name: &'static CStr) -> Result<NonNull<c_void>, LoadError> {
        // SAFETY: a handle that `dlopen` gave and nobody closes, and a text with a zero at its end.
        let found = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        NonNull::new(found).ok_or(LoadError::NotExported(name))
    }
}

/// What the dynamic linker says of this thread's last failure.
fn error() -> String {
    // SAFETY: gives null or a text that is this thread's until its next call of `dl*`.
    let said = unsafe { libc::dlerror() };
    if said.is_null() {
        return String::from("the dynamic linker does not say why");
    }
    // SAFETY: not null, and copied before another call.
    unsafe { CStr::from_ptr(said) }
        .to_string_lossy()
        .into_owned()
}

/// Whether the kernel gave this program more rights than its user has.
fn lends_privileges() -> bool {
    // SAFETY: reads what the kernel handed over at the start of this process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &Path) -> String {
        let error = load(path).map(|_| ()).unwrap_err();
        error.to_string()
    }

    #[test]
    fn a_refusal_says_in_what_the_profiles_differ() {
        let of = |panic| format!("dead23a12dab7fdd (rustc 1.95.0, x86_64), panic = {panic}");
        let release = "the library is a release build, which ends at a panic, and this program (W)";
        let debug = "the library is a debug build, which unwinds at a panic, and this program (W)";
        for (theirs, ours, says) in [
            (
                "unwind",
                "abort",
                &[debug, "with panic = \"abort\" under [profile.release]"][..],
            ),
            (
                "abort",
                "unwind",
                &[release, "Take the library of `cargo build`"],
            ),
        ] {
            let said = apart(&of(theirs), &of(ours), "W");
            assert!(said.starts_with("built alike, but "), "{said}");
            for part in says {
                assert!(said.contains(part), "{part}: {said}");
            }
        }
        let other = apart(
            "beef (rustc 1.94.0, x86_64), panic = unwind",
            &of("abort"),
            "W",
        );
        assert!(other.starts_with("built against another WiFu"), "{other}");
    }

    #[test]
    fn what_is_no_library_is_refused_in_words() {
        let absent = refused(Path::new("/nonexistent/libmine.so"));
        assert!(absent.starts_with("No such file"), "{absent}");
        let text = refused(Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/Cargo.toml"
        )));
        assert!(text.starts_with("no shared library"), "{text}");
        assert!(!text.contains("Cargo.toml"), "the path once: {text}");
        let folder = refused(Path::new(env!("CARGO_MANIFEST_DIR")));
        assert!(folder.starts_with("no shared library"), "{folder}");
    }
}

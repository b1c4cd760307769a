//! What a library of parts, handlers, formats and compositions shows to a command that loads it.
//!
//! Library and command each have their own copy of WiFu's crates and of the standard library. What
//! crosses between them is of WiFu's own types and the standard library's, which both sides lay out
//! alike if their [`INTERFACE`] is the same. Compositions cross as text, because their tables are
//! of another crate's types, for whose version and features nobody here can vouch.

use crate::Registry;
use std::panic::{PanicHookInfo, set_hook, take_hook};

/// What must be the same on both sides: the sources of the crates whose types cross, as a hash; the
/// compiler, its target and flags; and what becomes of panics.
pub const INTERFACE: &str = match cfg!(panic = "abort") {
    false => concat!(env!("WIFU_INTERFACE"), ", panic = unwind"),
    true => concat!(env!("WIFU_INTERFACE"), ", panic = abort"),
};

/// Octets of [`TEXT`].
pub const SIZE: usize = INTERFACE.len() + 1;

/// [`INTERFACE`] as C has it, which can be read before anything is known to be laid out alike.
pub const TEXT: [u8; SIZE] = {
    let mut text = [0; SIZE];
    let (head, _) = text.split_at_mut(INTERFACE.len());
    head.copy_from_slice(INTERFACE.as_bytes());
    text
};

/// What prints a panic.
pub type Print<'a> = &'a dyn Fn(&PanicHookInfo<'_>);

/// The command, as a library that it loads sees it.
#[derive(Clone, Copy)]
pub struct Host {
    /// Told of every panic in the library, before anything unwinds: the runtime that panics is the
    /// library's own, so hooks and `catch_unwind` of the command do not see it.
    pub panicked: fn(&PanicHookInfo<'_>, Print<'_>),
}

/// What `wifu_register` gives.
pub struct Brought {
    /// Descriptors for the registry, each beside those that come with WiFu; may be empty.
    pub parts: Vec<&'static wifu_engine::Descriptor>,
    /// The same of what nodes do with packets that pass.
    pub handlers: Vec<&'static wifu_core::Descriptor>,
    /// Wire formats.
    pub wires: Vec<&'static wifu_wire::WireSpec>,
    /// Compositions and profiles, as a composition file.
    pub compositions: String,
}

/// What `wifu_register` is.
pub type Register = fn(Host) -> Brought;

/// The name of the symbol that holds [`TEXT`].
pub const INTERFACE_SYMBOL: &core::ffi::CStr = c"wifu_interface";

/// The name of the symbol that is a [`Register`].
pub const REGISTER_SYMBOL: &core::ffi::CStr = c"wifu_register";

/// What `register` adds to a registry that has nothing; for [`export!`](crate::export!), in the
/// library.
pub fn bring(register: impl FnOnce(Registry) -> Registry, host: Host) -> Brought {
    let before = take_hook();
    set_hook(Box::new(move |info| (host.panicked)(info, &*before)));
    register(Registry::bare()).into_brought()
}

/// Makes a library of this crate, which `wifu --load` knows: `crate-type = ["cdylib"]` in its
/// manifest, and once at its root what it adds to a registry, as a function or a closure.
///
/// ```ignore
/// wifu_node::export!(|registry| registry.with_parts(PARTS).with_library(library()));
/// ```
///
/// It also settles that the crate allocates as the command does, whose values it drops and which
/// drops its own. One binary links one crate with this macro.
#[macro_export]
macro_rules! export {
    ($register:expr) => {
        #[global_allocator]
        static WIFU_ALLOCATOR: ::std::alloc::System = ::std::alloc::System;

        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        static wifu_interface: [u8; $crate::export::SIZE] = $crate::export::TEXT;

        #[unsafe(no_mangle)]
        fn wifu_register(host: $crate::export::Host) -> $crate::export::Brought {
            $crate::export::bring($register, host)
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::Library;

    #[test]
    fn the_interface_names_hash_compiler_and_what_becomes_of_panics() {
        let (hash, rest) = INTERFACE.split_once(' ').unwrap();
        assert!(hash.len() == 16 && u64::from_str_radix(hash, 16).is_ok());
        assert!(rest.starts_with("(rustc ") && rest.contains("), panic = "));
        let text = core::ffi::CStr::from_bytes_with_nul(&TEXT).unwrap();
        assert_eq!(text.to_str(), Ok(INTERFACE));
    }

    const MINE: &str = "\
        [profile.fast]\niw = 10\n\
        [protocol.mine]\nextends = \"tcp-reno\"\nnumber = 240\nset = { iw = 4 }\n\
        [handlers.mine]\nchain = [\"null\", { use = \"drop\", p = 0.5 }]\n\
        [lane.mine]\ndoc = \"between hops\"\n";

    fn brought() -> Brought {
        static PART: wifu_engine::Descriptor = wifu_engine::Descriptor {
            name: "mine",
            ..wifu_engine::Descriptor::EMPTY
        };
        static HANDLER: wifu_core::Descriptor = wifu_core::Descriptor {
            name: "mine",
            ..wifu_core::Descriptor::EMPTY
        };
        let library = Library::parse(MINE).unwrap();
        let all = Registry::bare().with_parts(&[&PART]);
        let all = all.with_handlers(&[&HANDLER]).with_library(library);
        all.into_brought()
    }

    #[test]
    fn what_a_library_adds_crosses_whole_and_nothing_else_does() {
        let brought = brought();
        assert_eq!((brought.parts.len(), brought.handlers.len()), (1, 1));
        assert!(brought.wires.is_empty());
        let base = "[protocol.tcp-reno]\nnumber = 6\n";
        let parse = |text: &str| Library::parse(text).unwrap();
        let direct = parse(base).merge(parse(MINE));
        let crossed = parse(base).merge(parse(&brought.compositions));
        assert_eq!(crossed.expand("mine"), direct.expand("mine"));
        assert_eq!(crossed.profile("fast"), direct.profile("fast"));
    }

    #[test]
    fn a_name_that_is_taken_is_refused() {
        let once = Registry::bare().with_brought(brought()).unwrap();
        let twice = once.with_brought(brought()).map(|_| ()).unwrap_err();
        assert!(twice.starts_with("its part mine has a name"), "{twice}");
    }

    #[test]
    fn a_format_that_takes_another_s_name_or_is_not_sound_is_refused() {
        use wifu_wire::{Format, WireSpec, atp};
        let refused = |format: Format| {
            let format: &'static Format = Box::leak(Box::new(format));
            let make = atp::WIRE.make;
            let spec: &'static WireSpec = Box::leak(Box::new(WireSpec { format, make }));
            let brought = Registry::bare().with_wires(&[spec]).into_brought();
            assert_eq!(brought.wires.len(), 1);
            let host = Registry::new(wifu_engine::Registry::new(&[]), Library::default());
            host.with_brought(brought).map(|_| ()).unwrap_err()
        };
        let named = |name| Format {
            name,
            ..atp::FORMAT.clone()
        };
        // One that compositions name, and one that a handler inserts.
        for taken in ["atp", "delay-shim"] {
            let said = refused(named(taken));
            let start = format!("its wire format {taken} has a name that is taken");
            assert!(said.starts_with(&start), "{said}");
        }
        let said = refused(Format {
            header: 8,
            ..named("mine")
        });
        assert!(said.starts_with("its wire format mine: word "), "{said}");
    }
}

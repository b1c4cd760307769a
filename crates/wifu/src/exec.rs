//! `wifu exec`: runs an unmodified program with its TCP sockets carried by a WiFu protocol.
//!
//! The program gets WiFu's preload library by LD_PRELOAD, and by WIFU_PROTOCOL and WIFU_SOCKET
//! what the library needs to know. Everything that would make the library ineffective without
//! an error (static linking, Go's own system calls, raised privileges) is looked for first and
//! said, because a measurement that silently ran over kernel TCP is worse than none.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};
use wifu_node::{Registry, Substrate};
use wifu_radio::plan::Plan;
use wifu_wire::front::Request;

use crate::front;
use crate::known::Known;

/// The options of `wifu exec`.
#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// Protocol and parameters, as in tcp-newreno or tcp-newreno,iw=4
    ///
    /// Every TCP has the constants of `profile=rfc-modern` unless it names another profile.
    #[arg(short, long, value_name = "SPEC")]
    protocol: String,
    /// The daemon's socket [default: /run/wifu/NAMESPACE/daemon.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Whether the program's standard error gets a line for what it asks for in vain, such as an
    /// option without effect or a daemon that is not there [default: auto, or WIFU_NOTES]
    #[arg(long, value_name = "WHEN", value_enum)]
    notes: Option<When>,
    #[command(flatten)]
    known: Known,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// When the library says something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum When {
    /// While standard error is the one of this command, or a terminal
    Auto,
    /// Whatever the program put in the place of standard error
    Always,
    Never,
}

/// The name of the preload library's file.
const LIBRARY: &str = "libwifu_preload.so";

/// The daemon's word for a composition that it refuses.
const EINVAL: u32 = rustix::io::Errno::INVAL.raw_os_error() as u32;

/// ... and for a parameter that a composition does not have.
const ENOENT: u32 = rustix::io::Errno::NOENT.raw_os_error() as u32;

/// Exit status of shells for a command that exists but cannot be run.
const CANNOT_RUN: u8 = 126;

/// Exit status of shells for a command that does not exist.
const NOT_FOUND: u8 = 127;

/// Replaces this process by the program, or says why it cannot.
///
/// # Errors
/// The preload library is missing, or there is no such protocol.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<ExitCode> {
    let protocol = here(&args.protocol);
    let environment = environment(&protocol, args.socket.as_deref(), args.notes)?;
    let registry = args.known.with(registry)?;
    crate::catalog::note_unused([&protocol[..]], &registry);
    check(&protocol, args.socket.as_deref(), &registry)?;
    let Some(name) = args.command.first() else {
        bail!("no command given")
    };
    let Some(program) = find_program(name) else {
        eprintln!("wifu exec: {}: command not found", name.display());
        return Ok(ExitCode::from(NOT_FOUND));
    };
    for warning in warnings(&program) {
        eprintln!("wifu exec: warning: {}: {warning}", program.display());
    }
    let error = Command::new(&program)
        .arg0(name)
        .args(&args.command[1..])
        .envs(environment)
        .exec();
    eprintln!("wifu exec: {}: {error}", program.display());
    let missing = error.kind() == io::ErrorKind::NotFound;
    Ok(ExitCode::from(if missing { NOT_FOUND } else { CANNOT_RUN }))
}

/// The variables that put a program's sockets on the protocol `spec`.
///
/// # Errors
/// The preload library is nowhere to be found, or `spec` has characters no protocol name or
/// parameter has.
pub fn environment(
    spec: &str,
    socket: Option<&Path>,
    notes: Option<When>,
) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_=.,:+%/".contains(c);
    ensure!(
        !spec.is_empty() && spec.chars().all(legal),
        "{spec:?} is not a protocol: expected NAME or NAME,PARAMETER=VALUE,... \
         (`wifu list` shows the names)"
    );
    let mut preload = find_library()?.into_os_string();
    if let Some(earlier) = std::env::var_os("LD_PRELOAD").filter(|value| !value.is_empty()) {
        let present = earlier.as_bytes().split(|byte| b": ".contains(byte));
        if present.into_iter().any(|entry| entry == preload.as_bytes()) {
            preload = earlier;
        } else {
            preload.push(":");
            preload.push(earlier);
        }
    }
    let socket = self::socket(socket)?.into_os_string();
    Ok(vec![
        ("LD_PRELOAD", preload),
        ("WIFU_PROTOCOL", spec.into()),
        ("WIFU_SOCKET", socket),
        (
            "WIFU_NOTES",
            self::notes(notes, std::env::var_os("WIFU_NOTES")),
        ),
    ])
}

/// What a testbed says of protocols, for the programs on its hosts: `NAME,key=value,...` with
/// semicolons between.
const TRANSPORT: &str = "WIFU_TRANSPORT";

/// The environment in which [`here`] finds a testbed's values.
pub fn transport(plan: &Plan) -> Option<(&'static str, OsString)> {
    let values = |name: &String| plan.transport(name);
    let all: Vec<String> = plan.transport.keys().map(values).collect();
    (!all.is_empty()).then(|| (TRANSPORT, all.join(";").into()))
}

/// A protocol with its parameters as the testbed has it on whose host this runs.
pub fn here(spec: &str) -> String {
    with_values(spec, &std::env::var(TRANSPORT).unwrap_or_default())
}

fn with_values(spec: &str, told: &str) -> String {
    let entry = |entry: &str| {
        let (name, values) = entry.split_once(',')?;
        let values = values.split(',').filter_map(|w| w.split_once('='));
        let values = values.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Some((name.to_owned(), values.collect()))
    };
    wifu_radio::plan::transport(&told.split(';').filter_map(entry).collect(), spec)
}

/// When the library says something, in its words: as the option says, else as the user says in
/// WIFU_NOTES (`already`), else while descriptor 2 is the same file as here. A file that is named
/// there is of the `wifu exec` around this one, whose standard error may be another one.
fn notes(option: Option<When>, already: Option<OsString>) -> OsString {
    let words = |value: &OsString| value == "always" || value == "never";
    match (option, already.filter(words)) {
        (Some(When::Always), _) => "always".into(),
        (Some(When::Never), _) => "never".into(),
        (None, Some(value)) => value,
        _ => match rustix::fs::fstat(std::io::stderr()) {
            Ok(file) => format!("{}:{}", file.st_dev, file.st_ino).into(),
            // It is closed: whatever comes in its place is something else.
            Err(_) => "0:0".into(),
        },
    }
}

/// Where the daemon is: as the option says, else WIFU_SOCKET, else the namespace's.
fn socket(option: Option<&Path>) -> anyhow::Result<PathBuf> {
    match (option, std::env::var_os("WIFU_SOCKET")) {
        (Some(path), _) => Ok(path.to_owned()),
        (None, Some(path)) => Ok(path.into()),
        (None, None) => crate::live::default_socket(),
    }
}

/// Whether there is such a protocol at a daemon, whose socket may be named.
///
/// # Errors
/// There is none, or not with these parameters.
pub fn check(spec: &str, at: Option<&Path>, registry: &Registry) -> anyhow::Result<()> {
    known(spec, &socket(at)?, registry)
}

/// Fails if the protocol does not exist, so that no program runs that could not connect. The
/// daemon knows best, because it may have read a file; without one, only what is built in counts.
fn known(spec: &str, socket: &Path, registry: &Registry) -> anyhow::Result<()> {
    // No socket has this cookie: the answer is about the composition alone.
    let request = Request::GetOpt {
        cookie: 0,
        spec,
        name: "snd_buf",
    };
    let unasked = match front::ask(socket, &request) {
        Ok(said) if said.errno == EINVAL => {
            let why = said.text.unwrap_or_default();
            bail!("--protocol {spec}: the daemon refuses it: {why}")
        }
        // A protocol of packets may lack the parameter.
        Ok(said) if [0, ENOENT].contains(&said.errno) => return Ok(()),
        Ok(said) => io::Error::from_raw_os_error(said.errno as i32).into(),
        Err(error) => error,
    };
    let name = spec.split(',').next().unwrap_or_default();
    let foreign = || registry.library().protocols().iter().all(|p| p != name);
    match registry.resolve_on(spec, Substrate::Live) {
        Ok(_) => Ok(()),
        Err(error) if foreign() => bail!(
            "--protocol {spec}: {error}\nA daemon started with --file may know more, but it \
             can't be asked: {unasked:#}"
        ),
        Err(error) => bail!("--protocol {spec}: {error}"),
    }
}

fn find_library() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("WIFU_PRELOAD").map(PathBuf::from) {
        ensure!(
            path.is_file(),
            "WIFU_PRELOAD names {}, which is no file",
            path.display()
        );
        return fs::canonicalize(&path).with_context(|| path.display().to_string());
    }
    let executable = std::env::current_exe().context("finding the wifu executable")?;
    let directory = executable
        .parent()
        .context("the wifu executable has no directory")?;
    let candidates = [
        directory.join(LIBRARY),
        directory.join("../lib/wifu").join(LIBRARY),
    ];
    match candidates.iter().find(|path| path.is_file()) {
        Some(path) => {
            // The dynamic loader would go on without one that it cannot read, over kernel TCP.
            fs::File::open(path).with_context(|| path.display().to_string())?;
            fs::canonicalize(path).with_context(|| path.display().to_string())
        }
        None => bail!(
            "the preload library {LIBRARY} is neither next to {} nor in ../lib/wifu/: \
             build it (`cargo build -p wifu-preload`) or name it by WIFU_PRELOAD",
            executable.display()
        ),
    }
}

/// Looks `name` up as execvp(3) does.
fn find_program(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return path.exists().then_some(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|candidate| {
            candidate
                .metadata()
                .is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
        })
}

/// What would keep the library from working in `program`, in sentences.
fn warnings(program: &Path) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(meta) = fs::metadata(program) {
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        let raised = (meta.mode() & 0o4000 != 0 && meta.uid() != user)
            || (meta.mode() & 0o2000 != 0 && meta.gid() != group);
        let capabilities =
            rustix::fs::getxattr(program, "security.capability", &mut [0u8; 64][..]).is_ok();
        if raised || (capabilities && user != 0) {
            found.push(
                "it gains privileges when run (setuid, setgid or file capabilities), so the \
                 dynamic linker ignores LD_PRELOAD: its sockets stay kernel TCP"
                    .to_owned(),
            );
        }
    }
    match inspect(program, 0) {
        Linkage::Dynamic | Linkage::Unknown => {}
        Linkage::Static => found.push(
            "it is statically linked, so LD_PRELOAD has no effect: its sockets stay kernel TCP"
                .to_owned(),
        ),
        Linkage::Go => found.push(
            "it is a Go program, which makes system calls without libc: its sockets stay \
             kernel TCP"
                .to_owned(),
        ),
    }
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Linkage {
    Dynamic,
    Static,
    Go,
    /// Not an ELF file of this machine's width, or unreadable: no statement.
    Unknown,
}

/// Finds out how `program` is linked; for a script, how its interpreter is.
fn inspect(program: &Path, depth: u32) -> Linkage {
    let Ok(mut file) = File::open(program) else {
        return Linkage::Unknown;
    };
    let mut head = Vec::new();
    if (&mut file).take(512).read_to_end(&mut head).is_err() {
        return Linkage::Unknown;
    }
    if let Some(rest) = head.strip_prefix(b"#!") {
        return match interpreter(rest) {
            Some(path) if depth < 4 => inspect(&path, depth + 1),
            _ => Linkage::Unknown,
        };
    }
    inspect_elf(&file, &head).unwrap_or(Linkage::Unknown)
}

/// The program that a script's first line (after `#!`) names, looking through env(1).
fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let first = Path::new(OsStr::from_bytes(words.next()?));
    if first.file_name() != Some(OsStr::new("env")) {
        return Some(first.to_owned());
    }
    let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?;
    find_program(OsStr::from_bytes(name))
}

/// Reads the ELF64 program headers for PT_INTERP and the section names for Go's build
/// information (System V ABI, "Object files").
fn inspect_elf(file: &File, head: &[u8]) -> Option<Linkage> {
    const CLASS_64: u8 = 2;
    const PT_INTERP: u32 = 3;
    if !head.starts_with(b"\x7fELF") || *head.get(4)? != CLASS_64 {
        return None;
    }
    let half =
        |bytes: &[u8], at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let word =
        |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long =
        |bytes: &[u8], at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let table = |offset: u64, entry: u16, count: u16| {
        let mut bytes = vec![0; usize::from(entry) * usize::from(count)];
        file.read_exact_at(&mut bytes, offset).ok().map(|()| bytes)
    };

    let (entry, count) = (half(head, 54)?, half(head, 56)?);
    let segments = table(long(head, 32)?, entry, count)?;
    let dynamic = segments
        .chunks_exact(usize::from(entry.max(1)))
        .any(|segment| word(segment, 0) == Some(PT_INTERP));

    let names = || {
        let (entry, count, index) = (half(head, 58)?, half(head, 60)?, half(head, 62)?);
        let sections = table(long(head, 40)?, entry, count)?;
        let strings = sections
            .chunks_exact(usize::from(entry.max(1)))
            .nth(index.into())?;
        // A name table beyond 64 KiB belongs to no program this check is about.
        let size = long(strings, 32)?.min(1 << 16);
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        file.read_exact_at(&mut bytes, long(strings, 24)?).ok()?;
        Some(bytes)
    };
    let go = names().is_some_and(|names: Vec<u8>| {
        names
            .split(|byte| *byte == 0)
            .any(|name| name == b".go.buildinfo")
    });
    Some(match (go, dynamic) {
        (true, _) => Linkage::Go,
        (false, true) => Linkage::Dynamic,
        (false, false) => Linkage::Static,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_program_is_dynamic_and_a_script_is_what_its_interpreter_is() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(inspect(&own, 0), Linkage::Dynamic);
        assert_eq!(
            interpreter(b"/bin/sh -e\necho"),
            Some(PathBuf::from("/bin/sh"))
        );
        assert_eq!(
            interpreter(b" /usr/bin/env -S A=1 sh\n"),
            find_program(OsStr::new("sh"))
        );
    }

    #[test]
    fn an_elf_file_without_interpreter_is_static_and_one_with_buildinfo_is_go() {
        let directory = std::env::temp_dir();
        for (name, expected) in [
            ("\0.text\0", Linkage::Static),
            ("\0.go.buildinfo\0", Linkage::Go),
        ] {
            let mut image = vec![0u8; 64 + 56 + 64];
            image[..5].copy_from_slice(b"\x7fELF\x02");
            image[32..40].copy_from_slice(&64u64.to_ne_bytes());
            image[40..48].copy_from_slice(&120u64.to_ne_bytes());
            for (at, value) in [(54, 56u16), (56, 1), (58, 64), (60, 1), (62, 0)] {
                image[at..at + 2].copy_from_slice(&value.to_ne_bytes());
            }
            image[64..68].copy_from_slice(&1u32.to_ne_bytes());
            image[120 + 24..120 + 32].copy_from_slice(&184u64.to_ne_bytes());
            image[120 + 32..120 + 40].copy_from_slice(&(name.len() as u64).to_ne_bytes());
            image.extend_from_slice(name.as_bytes());
            let path = directory.join(format!("wifu-elf-{}-{}", std::process::id(), name.len()));
            fs::write(&path, &image).unwrap();
            let found = inspect(&path, 0);
            fs::remove_file(&path).unwrap();
            assert_eq!(found, expected);
        }
    }

    /// A daemon that gives one answer, at a socket of its own.
    fn daemon(name: &str, errno: u32, text: &'static str) -> PathBuf {
        use wifu_wire::front::Answer;
        let name = format!("wifu-exec-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_file(&path);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            use std::io::Write as _;
            let (mut client, _) = listener.accept().unwrap();
            let _ = client.read(&mut [0; 2048]).unwrap();
            let answer = Answer {
                errno,
                value: Some(text),
                ..Answer::default()
            };
            let mut frame = [0; 512];
            let n = answer.encode(&mut frame).unwrap();
            client.write_all(&frame[..n]).unwrap();
        });
        path
    }

    #[test]
    fn the_daemon_decides_which_protocols_there_are() {
        let path = daemon("yes", 0, "131071");
        known("mine,iw=4", &path, &crate::standard()).unwrap();
        fs::remove_file(path).unwrap();
        let path = daemon("no", EINVAL, "no protocol of this name");
        let error = known("tcp-reno", &path, &crate::standard())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("refuses it: no protocol of this name"),
            "{error}"
        );
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn without_a_daemon_only_what_is_built_in_is_known() {
        let (nowhere, standard) = (Path::new("/nonexistent/daemon.sock"), crate::standard());
        known("tcp-reno,iw=4", nowhere, &standard).unwrap();
        let error = known("tcp-reno,iww=4", nowhere, &standard)
            .unwrap_err()
            .to_string();
        assert!(error.contains("did you mean `iw`"), "{error}");
        assert!(!error.contains("--file"), "{error}");
        let error = known("nope", nowhere, &standard).unwrap_err().to_string();
        assert!(
            error.contains("no protocol of this name. Known: "),
            "{error}"
        );
        assert!(
            error.contains("can't be asked: no daemon to be reached at "),
            "{error}"
        );
    }

    #[test]
    fn what_a_testbed_says_of_protocols_holds_on_its_hosts() {
        use wifu_radio::topology::{Topology, resolve};
        let none = toml::Table::new();
        let plan = |set| {
            let topology = Topology::build(Some("stack"), set, &none, &none).unwrap();
            resolve(&topology, &wifu_wire::Rng::new(1)).unwrap()
        };
        let (_, told) = transport(&plan(None)).unwrap();
        let told = told.to_str().unwrap();
        let tahoe = with_values("tcp-tahoe,iw=1", told);
        assert_eq!(tahoe, "tcp-tahoe,iw=1,rto_min=100ms");
        for own in [&tahoe, "tcp-tahoe,rtt.rto_min=1s", "tcp-reno"] {
            assert_eq!(with_values(own, told), own);
        }
        assert_eq!(with_values("tcp-tahoe", ""), "tcp-tahoe");
        assert_eq!(transport(&plan(Some("TB-STACK,world=driver"))), None);
    }

    #[test]
    fn a_command_within_another_has_the_notes_of_its_own_standard_error() {
        let file = rustix::fs::fstat(std::io::stderr()).unwrap();
        let own = OsString::from(format!("{}:{}", file.st_dev, file.st_ino));
        for around in [None, Some("0:0"), Some("12:3456"), Some(""), Some("often")] {
            assert_eq!(notes(None, around.map(OsString::from)), own, "{around:?}");
        }
        for word in ["always", "never"] {
            assert_eq!(notes(None, Some(word.into())), word);
            assert_eq!(notes(Some(When::Auto), Some(word.into())), own);
        }
        assert_eq!(notes(Some(When::Never), Some("always".into())), "never");
    }

    #[test]
    fn a_specification_with_odd_characters_is_refused() {
        let error = environment("tcp reno;rm", None, None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("not a protocol"), "{error}");
    }
}

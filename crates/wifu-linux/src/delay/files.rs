//! The two files in which a device's delay is exported, and the note of where its map is pinned.

use super::dir::{Dir, PIN};
use super::pin::Pin;
use super::{DelayError, Meter, Reading};
use crate::netns::{Owner, RUN};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Writes a device's delay as a driver does: `Da` and `sample` in a directory, decimal
/// microseconds (Behaviour 7.3). Both go when this is dropped.
pub struct Files {
    dir: Dir,
    /// Samples when they were written last.
    written: u64,
    files: [Option<Number>; 2],
    pins: Vec<Note>,
}

/// A file that holds a number.
struct Number {
    file: File,
    digits: usize,
}

/// A pin and the note of it, which go together.
struct Note {
    dir: Dir,
    pin: Pin,
}

impl Files {
    /// Write into `dir`, which is made if need be.
    ///
    /// # Errors
    /// If it cannot be made, others may write there, another process does, or a file of somebody
    /// else's has the name of one of ours.
    pub fn create(dir: &Path) -> io::Result<Files> {
        Ok(Files {
            dir: Dir::claim(dir)?,
            written: 0,
            files: [None, None],
            pins: Vec::new(),
        })
    }

    /// Pin the map of the [`Reading`] at `path`, in a BPF file system, by which other programs
    /// find it: key 0, eight numbers of 64 bits, the reading's in order and one unused. The name
    /// goes when this is dropped, and so do the directories that were made for it. It takes the
    /// place of a killed one's.
    ///
    /// # Errors
    /// If `path` is not in a BPF file system, or is taken, or it cannot be noted under
    /// `/run/wifu/delay`.
    pub fn pin(&mut self, meter: &Meter, path: &Path) -> Result<(), DelayError> {
        let note = Note::make(meter, path).map_err(|e| DelayError::Pin(path.to_owned(), e))?;
        self.pins.push(note);
        Ok(())
    }

    /// Write a reading if there is a new sample.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub fn write(&mut self, reading: &Reading) -> io::Result<()> {
        if reading.samples == self.written {
            return Ok(());
        }
        self.written = reading.samples;
        let values = [("Da", reading.average), ("sample", reading.sample)];
        for ((name, ns), known) in values.into_iter().zip(&mut self.files) {
            put(&self.dir, name, (ns + 500) / 1000, known)?;
        }
        Ok(())
    }
}

/// Others read at any time. A number of another length comes as a new file, for they must never see
/// half of it. One of the same length takes the place of its digits, which costs a tenth of that,
/// two hundred times in a second: whoever reads in the very nanoseconds of the copy may see
/// digits of both.
fn put(dir: &Dir, name: &str, number: u64, known: &mut Option<Number>) -> io::Result<()> {
    let text = format!("{number}\n");
    if let Some(n) = known
        && n.digits == text.len()
    {
        return n.file.write_all_at(text.as_bytes(), 0);
    }
    let fresh = format!(".{name}");
    let file = dir.fresh(&fresh)?;
    file.write_all_at(text.as_bytes(), 0)?;
    dir.rename(&fresh, name)?;
    let digits = text.len();
    *known = Some(Number { file, digits });
    Ok(())
}

impl Drop for Files {
    fn drop(&mut self) {
        self.dir.remove();
    }
}

impl Note {
    fn make(meter: &Meter, path: &Path) -> io::Result<Note> {
        let pin = Pin::plan(meter.map(), path, &others_than(path))?;
        // First: `wifu clean` finds it whenever we are killed.
        let place = note_dir(&pin.map.to_string());
        let dir = Dir::claim(&place);
        let note = dir.map(|dir| Note { dir, pin }).and_then(|note| {
            note.dir.write(PIN, &note.pin.to_bytes())?;
            Ok(note)
        });
        let note = note.map_err(|e| {
            let text = format!("noting it in {}: {e}", place.display());
            io::Error::new(e.kind(), text)
        })?;
        note.pin.make(meter.map())?;
        Ok(note)
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        self.pin.remove();
        self.dir.remove();
    }
}

/// Where it is noted that the map of this number is pinned: where `wifu clean` looks, and no longer
/// than the kernel gives the number to no other.
pub(super) fn note_dir(map: &str) -> PathBuf {
    Path::new(RUN).join("delay").join(format!("pin-{map}"))
}

/// What is pinned on this host. A killed process's name at `path` is not, from now on.
fn others_than(path: &Path) -> Vec<Pin> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let dead = |dir: &Path| owner(dir).is_some_and(|o| !o.is_alive());
    let mut pins = Vec::new();
    let list = std::fs::read_dir(Path::new(RUN).join("delay"));
    for dir in list.into_iter().flatten().flatten().map(|e| e.path()) {
        let Some(pin) = pinned(&dir) else { continue };
        if pin.path == path && pin.is_there() && dead(&dir) {
            pin.remove();
            remove(&dir);
        } else {
            pins.push(pin);
        }
    }
    pins
}

/// Whose the files in a directory are, if they are ours.
pub(crate) fn owner(dir: &Path) -> Option<Owner> {
    Dir::open(dir).ok()?.owner()
}

/// What is noted there as pinned, or about to be.
pub(crate) fn pinned(dir: &Path) -> Option<Pin> {
    Pin::from_bytes(&Dir::open(dir).ok()?.read(PIN)?)
}

/// Remove our files, and the directory unless somebody has put something there.
pub(crate) fn remove(dir: &Path) {
    if let Ok(dir) = Dir::open(dir) {
        dir.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::dir::OWNER;

    #[test]
    fn what_others_put_into_the_directory_stays() {
        let dir = std::env::temp_dir().join(format!("wifu-delay-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (name, free) in [("sample", false), ("owner", false), ("notes", true)] {
            let file = dir.join(name);
            std::fs::write(&file, "somebody else's\n").unwrap();
            let made = Files::create(&dir);
            assert_eq!(made.is_ok(), free, "{name}");
            if let Ok(mut files) = made {
                let reading = Reading {
                    samples: 1,
                    average: 1_234_567,
                    ..Reading::default()
                };
                files.write(&reading).unwrap();
                assert_eq!(std::fs::read_to_string(dir.join("Da")).unwrap(), "1235\n");
            }
            let kept = std::fs::read_to_string(&file).unwrap();
            assert_eq!(kept, "somebody else's\n", "{name}");
            std::fs::remove_file(file).unwrap();
        }
        // Numbers of all lengths come out whole, in whatever order.
        let mut files = Files::create(&dir).unwrap();
        for (i, us) in [7u64, 12, 99, 100, 101, 12, 7_000_000, 0]
            .into_iter()
            .enumerate()
        {
            let reading = Reading {
                samples: 1 + i as u64,
                average: us * 1000,
                sample: us * 1000 + 499,
                ..Reading::default()
            };
            files.write(&reading).unwrap();
            for name in ["Da", "sample"] {
                let said = std::fs::read_to_string(dir.join(name)).unwrap();
                assert_eq!(said, format!("{us}\n"));
            }
        }
        drop(files);
        std::fs::create_dir_all(&dir).unwrap();
        // Those of a dead process are nobody's.
        let dead = Owner {
            start: 0,
            ..Owner::this()
        };
        std::fs::write(dir.join(OWNER), dead.tag()).unwrap();
        std::fs::write(dir.join("Da"), "1\n").unwrap();
        drop(Files::create(&dir).unwrap());
        assert!(!dir.exists(), "nothing was left to keep it");
    }

    fn with_a_sample(dir: &Path) -> io::Result<Files> {
        let mut files = Files::create(dir)?;
        let reading = Reading {
            samples: 1,
            ..Reading::default()
        };
        files.write(&reading)?;
        Ok(files)
    }

    #[test]
    fn what_is_planted_in_a_directory_is_not_followed() {
        let dir = std::env::temp_dir().join(format!("wifu-planted-{}", std::process::id()));
        let victim = dir.with_extension("victim");
        std::fs::write(&victim, "somebody else's\n").unwrap();
        for name in [".Da", ".sample", "Da", "sample"] {
            std::fs::create_dir_all(&dir).unwrap();
            // As if a killed one of ours had left it.
            std::fs::write(dir.join(OWNER), "wifu:1:0").unwrap();
            std::os::unix::fs::symlink(&victim, dir.join(name)).unwrap();
            drop(with_a_sample(&dir).unwrap());
            assert_eq!(
                std::fs::read_to_string(&victim).unwrap(),
                "somebody else's\n",
                "{name}"
            );
            assert!(!dir.exists(), "{name}");
        }
        // A link that says whose it is, to a file that says so, is none of ours.
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(&victim, "wifu:1:0").unwrap();
        std::os::unix::fs::symlink(&victim, dir.join(OWNER)).unwrap();
        assert!(Files::create(&dir).is_err());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "wifu:1:0");
        // The directory itself is no link.
        let link = dir.with_extension("link");
        std::fs::remove_file(dir.join(OWNER)).unwrap();
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        for spelt in ["", "/", "/.", "//"] {
            let mut path = link.clone().into_os_string();
            path.push(spelt);
            assert!(Files::create(Path::new(&path)).is_err(), "{spelt}");
        }
        std::fs::remove_file(link).unwrap();
        std::fs::remove_file(victim).unwrap();
        std::fs::remove_dir(dir).unwrap();
    }

    #[test]
    fn whose_a_directory_is_it_says_at_any_time_and_only_one_at_a_time_takes_it() {
        let dir = std::env::temp_dir().join(format!("wifu-owner-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        // What one leaves that was killed before it said so is no obstacle.
        for left in ["", "wifu:1:0"] {
            std::fs::write(dir.join(".owner"), left).unwrap();
            drop(Files::create(&dir).unwrap());
            assert!(!dir.exists(), "nothing was left to keep it");
            std::fs::create_dir_all(&dir).unwrap();
        }
        std::fs::write(dir.join(".owner"), "somebody else's\n").unwrap();
        assert!(Files::create(&dir).is_err());
        std::fs::remove_file(dir.join(".owner")).unwrap();
        // Another one is just about to take it.
        let other = File::open(&dir).unwrap();
        let exclusive = rustix::fs::FlockOperation::LockExclusive;
        rustix::fs::flock(&other, exclusive).unwrap();
        let error = Files::create(&dir).err().unwrap();
        assert!(error.to_string().contains("another process"), "{error}");
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        drop(other);
        // From one owner to the next, a reader finds one or the other.
        let files = Files::create(&dir).unwrap();
        let over = core::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let read = || {
                while !over.load(core::sync::atomic::Ordering::Relaxed) {
                    let said = std::fs::read_to_string(dir.join(OWNER)).unwrap_or_default();
                    assert_eq!(said, Owner::this().tag());
                }
            };
            let reader = scope.spawn(read);
            for _ in 0..2000 {
                Dir::claim(&dir).unwrap();
            }
            over.store(true, core::sync::atomic::Ordering::Relaxed);
            reader.join().unwrap();
        });
        drop(files);
        assert!(!dir.exists());
    }

    #[test]
    fn a_directory_that_others_may_write_is_refused() {
        use std::os::unix::fs::{PermissionsExt, chown};
        if !rustix::process::geteuid().is_root() {
            let skip = std::env::var_os("WIFU_SKIP_PRIVILEGED").is_some_and(|v| v == "1");
            assert!(skip, "needs root; WIFU_SKIP_PRIVILEGED=1 leaves it out");
            eprintln!("skipped: needs root");
            return;
        }
        let dir = std::env::temp_dir().join(format!("wifu-foreign-{}", std::process::id()));
        for (user, mode, free) in [
            (0, 0o755, true),
            (0, 0o775, false),
            (0, 0o757, false),
            (65_534, 0o755, false),
        ] {
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::set_permissions(&dir, PermissionsExt::from_mode(mode)).unwrap();
            std::fs::write(dir.join(OWNER), "wifu:1:0").unwrap();
            chown(&dir, Some(user), None).unwrap();
            match with_a_sample(&dir) {
                Ok(_) => assert!(free, "{user} {mode:o}"),
                Err(e) => {
                    assert!(!free, "{user} {mode:o}: {e}");
                    assert!(e.to_string().contains("may write there"), "{e}");
                    // Nothing is touched.
                    let left = std::fs::read_to_string(dir.join(OWNER)).unwrap();
                    assert_eq!(left, "wifu:1:0");
                    std::fs::remove_dir_all(&dir).unwrap();
                }
            }
            assert!(!dir.exists());
        }
    }
}

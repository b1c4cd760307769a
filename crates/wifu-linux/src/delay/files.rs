//! The two files in which a device's delay is exported.

use super::pin::Pin;
use super::{DelayError, Meter, Reading};
use crate::netns::Owner;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Writes a device's delay as a driver does: `Da` and `sample` in a directory, decimal
/// microseconds (spec 7.3). Both go when this is dropped.
pub struct Files {
    dir: PathBuf,
    /// Samples when they were written last.
    written: u64,
    files: [Option<Number>; 2],
}

/// A file that holds a number.
struct Number {
    file: File,
    digits: usize,
}

impl Files {
    /// Write into `dir`, which is made if need be.
    ///
    /// # Errors
    /// If it cannot be made, another process writes there, or a file of somebody else's has the
    /// name of one of ours.
    pub fn create(dir: &Path) -> io::Result<Files> {
        claim(dir)?;
        Ok(Files {
            dir: dir.to_owned(),
            written: 0,
            files: [None, None],
        })
    }

    /// Pin the map of the [`Reading`] at `path`, in a BPF file system, by which other programs
    /// find it: key 0, eight numbers of 64 bits, the reading's in order and one unused. The name
    /// goes when this is dropped, and so do the directories that were made for it.
    ///
    /// # Errors
    /// If `path` is not in a BPF file system, or is taken, or the files cannot be written.
    pub fn pin(&self, meter: &Meter, path: &Path) -> Result<(), DelayError> {
        let pin = || {
            let others: Vec<Pin> = super::of_host().filter_map(|dir| pinned(&dir)).collect();
            let pin = Pin::plan(meter.map(), path, &others)?;
            // First: `wifu clean` finds it whenever we are killed.
            std::fs::write(self.dir.join(PIN), pin.to_bytes())?;
            pin.make(meter.map())
        };
        pin().map_err(|e| DelayError::Pin(path.to_owned(), e))
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

/// Make a directory ours, so that we may write and remove what is in [`NAMES`] there.
///
/// # Errors
/// As [`Files::create`].
pub(crate) fn claim(dir: &Path) -> io::Result<()> {
    let there = |text| Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    match owner(dir) {
        Some(other) if other != Owner::this() && other.is_alive() => {
            return there(format!("process {} writes there", other.pid));
        }
        Some(_) => unpin(dir),
        None => {
            let foreign = NAMES
                .iter()
                .find(|n| dir.join(n).symlink_metadata().is_ok());
            if let Some(name) = foreign {
                return there(format!("a file {name} is there that is not ours"));
            }
        }
    }
    std::fs::create_dir_all(dir)?;
    // By this, `wifu clean` knows when they are nobody's.
    std::fs::write(dir.join(OWNER), Owner::this().tag())
}

/// Others read at any time. A number of another length comes as a new file, for they must never see
/// half of it. One of the same length takes the place of its digits, which costs a tenth of that,
/// two hundred times in a second: whoever reads in the very nanoseconds of the copy may see
/// digits of both.
fn put(dir: &Path, name: &str, number: u64, known: &mut Option<Number>) -> io::Result<()> {
    let text = format!("{number}\n");
    if let Some(n) = known
        && n.digits == text.len()
    {
        return n.file.write_all_at(text.as_bytes(), 0);
    }
    let fresh = dir.join(format!(".{name}"));
    let file = File::create(&fresh)?;
    file.write_all_at(text.as_bytes(), 0)?;
    std::fs::rename(&fresh, dir.join(name))?;
    let digits = text.len();
    *known = Some(Number { file, digits });
    Ok(())
}

impl Drop for Files {
    fn drop(&mut self) {
        remove(&self.dir);
    }
}

/// Who writes the files.
const OWNER: &str = "owner";
/// All files that we make.
const NAMES: [&str; 6] = ["Da", "sample", ".Da", ".sample", PIN, OWNER];
/// Where the map is pinned.
const PIN: &str = "pin";

/// Whose files these are, if they are ours.
pub(crate) fn owner(dir: &Path) -> Option<Owner> {
    Owner::from_tag(&std::fs::read_to_string(dir.join(OWNER)).ok()?)
}

/// Remove our files, and the directory unless somebody has put something there.
pub(crate) fn remove(dir: &Path) {
    unpin(dir);
    for name in NAMES {
        let _ = std::fs::remove_file(dir.join(name));
    }
    let _ = std::fs::remove_dir(dir);
}

/// What the writer of these files has pinned, or was about to.
pub(crate) fn pinned(dir: &Path) -> Option<Pin> {
    Pin::from_bytes(&std::fs::read(dir.join(PIN)).ok()?)
}

/// Remove what the writer of these files has pinned.
fn unpin(dir: &Path) {
    if let Some(pin) = pinned(dir) {
        pin.remove();
        let _ = std::fs::remove_file(dir.join(PIN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}

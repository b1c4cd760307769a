//! Files of the daemon's own, in folders that may be everybody's: no link that somebody put there
//! is followed, and nothing that somebody else wrote is read.

use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

fn opened(path: &Path, flags: OFlags) -> Result<File, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(open(path, flags, Mode::RUSR | Mode::WUSR)?))
}

fn is_mine(owner: u32) -> bool {
    owner == rustix::process::geteuid().as_raw()
}

/// The whole file.
///
/// # Errors
/// `InvalidData` for a link and for another user's file; else what the system says.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let foreign = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut file = opened(path, OFlags::RDONLY | OFlags::NONBLOCK).map_err(|e| match e {
        Errno::LOOP => foreign("it is a symbolic link"),
        e => e.into(),
    })?;
    if !is_mine(fstat(&file)?.st_uid) {
        return Err(foreign("another user wrote it"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes the file, for the daemon's user alone; nobody ever sees it half written.
///
/// # Errors
/// `AlreadyExists` if another user has put something where it is written; else what the system
/// says.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = beside(path);
    // Of a daemon that was killed meanwhile.
    if new.symlink_metadata().is_ok_and(|m| is_mine(m.uid())) {
        std::fs::remove_file(&new)?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut file = opened(&new, flags).map_err(|e| match e {
        Errno::EXIST => {
            let text = format!("{} is there already, and not this user's", new.display());
            io::Error::new(io::ErrorKind::AlreadyExists, text)
        }
        e => e.into(),
    })?;
    file.write_all(bytes)?;
    std::fs::rename(new, path)
}

/// Where a file is written before it has its name.
fn beside(path: &Path) -> PathBuf {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    new.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{AtFlags, CWD, Uid, chownat};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn links_are_not_followed_and_files_of_others_not_read() {
        if !rustix::process::geteuid().is_root() {
            let skip = std::env::var_os("WIFU_SKIP_PRIVILEGED").is_some_and(|v| v == "1");
            assert!(skip, "needs root; WIFU_SKIP_PRIVILEGED=1 leaves it out");
            return;
        }
        let folder = std::env::temp_dir().join(format!("wifu-private-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (list, new, other) = (
            folder.join("list.json"),
            folder.join("list.json.new"),
            folder.join("other"),
        );
        let others = |path: &Path| {
            let nobody = Some(Uid::from_raw(65_534));
            chownat(CWD, path, nobody, None, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        };
        std::fs::write(&other, "kept").unwrap();
        symlink(&other, &new).unwrap();
        write(&list, b"one").unwrap();
        assert_eq!(read(&list).unwrap(), b"one");
        let mode = list.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!new.exists());
        // Another user's link.
        symlink(&other, &new).unwrap();
        others(&new);
        let why = write(&list, b"two").unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::AlreadyExists, "{why}");
        assert_eq!(std::fs::read(&other).unwrap(), b"kept");
        assert_eq!(read(&list).unwrap(), b"one");
        for foreign in [&new, &other] {
            others(foreign);
            let why = read(foreign).unwrap_err();
            assert_eq!(why.kind(), io::ErrorKind::InvalidData, "{why}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}

//! The folder in which DataFusion puts what does not fit memory, and which does not outlive its process for long.
//!
//! Rows of joins and sub-queries go to disk there, as they are: not enciphered, as those of our own operator are. The folder
//! is for this user alone and goes with the engine. A process that is killed cannot clear up; the next one does.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// How the folders begin, beside other things that are temporary.
const PREFIX: &str = "dither-spill-";
/// The file in a folder that its process holds locked for as long as it lives, whatever ends it.
const OWNER: &str = "owner";

/// A folder for spills of this process. It is deleted when this is dropped.
///
/// # Privacy
/// Values of rows lie in it in the clear while a question runs. Only this user can list or open it, and what a killed process
/// left is deleted by the next engine of this user that needs one; deleted bytes may stay on a disk until it writes there again.
#[derive(Debug)]
pub(super) struct Spills {
    folder: tempfile::TempDir,
    _owner: File,
}

impl Spills {
    /// A folder among the temporary ones, after those that nobody owns any more were deleted.
    ///
    /// # Errors
    /// No folder can be made or marked there.
    pub(super) fn new() -> io::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    fn within(parent: &Path) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(0o700));
        }
        let folder = builder.tempdir_in(parent)?;
        // It is locked before it has its name: nobody finds one that is not.
        let draft = folder.path().join("new");
        let owner = OpenOptions::new().write(true).create_new(true).open(&draft)?;
        owner.try_lock().map_err(io::Error::from)?;
        fs::rename(draft, folder.path().join(OWNER))?;
        let spills = Self { folder, _owner: owner };
        // What cannot be deleted now stays for the next one.
        let _ = spills.clear(parent);
        Ok(spills)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Deletes the folders of this user whose process is gone.
    fn clear(&self, parent: &Path) -> io::Result<()> {
        for entry in fs::read_dir(parent)? {
            let Ok(entry) = entry else { continue };
            let ours = entry.file_name().to_string_lossy().starts_with(PREFIX) && self.is_of_this_user(&entry);
            if ours && is_left(&entry.path().join(OWNER)) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(())
    }

    /// Whether a folder, and no link to one, is of whom this one is.
    #[cfg(unix)]
    fn is_of_this_user(&self, entry: &fs::DirEntry) -> bool {
        use std::os::unix::fs::MetadataExt;
        let user = |metadata: io::Result<fs::Metadata>| metadata.ok().filter(fs::Metadata::is_dir).map(|it| it.uid());
        let own = user(fs::symlink_metadata(self.folder.path()));
        own.is_some() && user(fs::symlink_metadata(entry.path())) == own
    }

    #[cfg(not(unix))]
    fn is_of_this_user(&self, entry: &fs::DirEntry) -> bool {
        entry.file_type().is_ok_and(|kind| kind.is_dir())
    }
}

/// Whether nobody holds the lock of a folder. One without a mark is being made, or somebody else's.
fn is_left(owner: &Path) -> bool {
    let Ok(owner) = OpenOptions::new().write(true).open(owner) else { return false };
    !matches!(owner.try_lock(), Err(TryLockError::WouldBlock | TryLockError::Error(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a killed process leaves: a folder whose lock nobody holds.
    fn left(parent: &Path, name: &str, owner: bool) -> PathBuf {
        let folder = parent.join(name);
        fs::create_dir_all(folder.join("datafusion-x")).unwrap();
        fs::write(folder.join("datafusion-x").join("rows"), "patient 4711").unwrap();
        if owner {
            fs::write(folder.join(OWNER), "").unwrap();
        }
        folder
    }

    #[test]
    fn what_a_killed_process_left_is_deleted_by_the_next_one_and_nothing_else_is() {
        let parent = tempfile::tempdir().unwrap();
        let dead = left(parent.path(), "dither-spill-dead", true);
        let unmarked = left(parent.path(), "dither-spill-unmarked", false);
        let other = left(parent.path(), "other", true);
        let first = Spills::within(parent.path()).unwrap();
        assert!(!dead.exists() && unmarked.exists() && other.exists());
        fs::write(first.path().join("rows"), "patient 4711").unwrap();
        // The control: a folder whose process lives stays, with what is in it.
        let second = Spills::within(parent.path()).unwrap();
        assert!(first.path().join("rows").exists() && first.path() != second.path());
        let gone = first.path();
        drop(first);
        assert!(!gone.exists() && second.path().exists());
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_look_into_it_and_links_are_not_followed() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let target = left(parent.path(), "kept", true);
        std::os::unix::fs::symlink(&target, parent.path().join("dither-spill-link")).unwrap();
        let spills = Spills::within(parent.path()).unwrap();
        let mode = fs::metadata(spills.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(target.join("datafusion-x").join("rows").exists());
    }
}

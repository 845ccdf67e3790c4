//! Translates system calls into what they do to files.
//!
//! Everything about the stopped thread is read from `/proc`: its memory, the files that its descriptors lead
//! to, and its working directory.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, c_long};
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use libc::pid_t;

use crate::event::{Bytes, FileId, What};

/// The calls at which a program is stopped.
pub(crate) const CALLS: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    libc::SYS_openat,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_linkat,
];

/// The longest path.
const PATH_BYTES_MAX: usize = 4096;

/// The change that a call is about to make, read when it begins; it counts only if the call succeeds.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Opens a file, and may create it.
    Open { path: PathBuf, is_there: bool, empties: bool },
    /// Writes at most these bytes.
    Write { file: FileId, offset: u64, bytes: Vec<u8>, is_durable: bool },
    /// Any change that is made as a whole.
    Whole(What),
}

/// The known files of a folder.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
    by_inode: HashMap<(u64, u64), FileId>,
    next: FileId,
    /// Directories are synced by their descriptors.
    directories: BTreeSet<PathBuf>,
}

impl Files {
    pub(crate) fn new(folder: PathBuf) -> Files {
        Files { folder, by_inode: HashMap::new(), next: 0, directories: BTreeSet::new() }
    }

    /// The change that a call, which begins, is about to make to the files of the folder; `None` if it makes
    /// none.
    pub(crate) fn asked(&mut self, thread: pid_t, call: c_long, args: [u64; 6]) -> Option<Asked> {
        let [first, second, third, fourth, _, sixth] = args;
        let here = libc::AT_FDCWD as u64;
        match call {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => self.open(thread, here, first, second),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => self.open(thread, here, first, (libc::O_CREAT | libc::O_TRUNC) as u64),
            libc::SYS_openat => self.open(thread, first, second, third),
            libc::SYS_write => self.write(thread, first, &[(second, third)], None, 0),
            libc::SYS_pwrite64 => self.write(thread, first, &[(second, third)], Some(fourth), 0),
            libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
                // Returns here for sockets, whose parts need not be read.
                self.file(thread, first)?;
                let offset = match call {
                    libc::SYS_writev => None,
                    _ => Some(fourth).filter(|offset| *offset as i64 != -1),
                };
                let flags = if call == libc::SYS_pwritev2 { sixth } else { 0 };
                self.write(thread, first, &parts(thread, second, third)?, offset, flags)
            }
            libc::SYS_fsync | libc::SYS_fdatasync => self.sync(thread, first),
            libc::SYS_ftruncate => {
                Some(Asked::Whole(What::SetLength { file: self.file(thread, first)?.0, bytes: second }))
            }
            libc::SYS_fallocate => self.allocate(thread, first, second, third, fourth),
            _ => self.names(thread, call, args).map(Asked::Whole),
        }
    }

    /// The change that a call has made which returned `result`.
    pub(crate) fn done(&mut self, thread: pid_t, asked: Asked, result: i64) -> Option<What> {
        if result < 0 {
            return None;
        }
        match asked {
            Asked::Open { path, is_there, empties } => {
                let inode = inode(&descriptor_info(thread, result as u64)?);
                if is_there {
                    let file = *self.by_inode.get(&inode)?;
                    return empties.then_some(What::SetLength { file, bytes: 0 });
                }
                self.next += 1;
                self.by_inode.insert(inode, self.next);
                Some(What::Create { path, file: self.next })
            }
            Asked::Write { file, offset, mut bytes, is_durable } => {
                bytes.truncate(result as usize);
                Some(What::Write { file, offset, bytes: Bytes::from(bytes), is_durable })
            }
            Asked::Whole(what) => {
                if let What::MakeDirectory { path } = &what {
                    self.directories.insert(path.clone());
                }
                Some(what)
            }
        }
    }

    fn open(&self, thread: pid_t, directory: u64, path: u64, flags: u64) -> Option<Asked> {
        let flags = flags as i32;
        let (creates, empties) = (flags & libc::O_CREAT != 0, flags & libc::O_TRUNC != 0);
        if !creates && !empties {
            return None;
        }
        let path = self.path(thread, directory, path)?;
        let is_there = self.folder.join(&path).symlink_metadata().is_ok();
        (empties || !is_there).then_some(Asked::Open { path, is_there, empties })
    }

    fn write(
        &self,
        thread: pid_t,
        descriptor: u64,
        parts: &[(u64, u64)],
        offset: Option<u64>,
        flags: u64,
    ) -> Option<Asked> {
        let (file, info) = self.file(thread, descriptor)?;
        let (position, opened) = position_and_flags(thread, descriptor)?;
        let offset = if opened & libc::O_APPEND != 0 { info.len() } else { offset.unwrap_or(position) };
        let mut bytes = Vec::new();
        for (address, count) in parts {
            bytes.extend(memory(thread, *address, *count as usize)?);
        }
        let syncs = (libc::RWF_DSYNC | libc::RWF_SYNC) as u64;
        let is_durable = flags & syncs != 0 || opened & (libc::O_DSYNC | libc::O_SYNC) != 0;
        Some(Asked::Write { file, offset, bytes, is_durable })
    }

    fn sync(&self, thread: pid_t, descriptor: u64) -> Option<Asked> {
        if let Some((file, _)) = self.file(thread, descriptor) {
            return Some(Asked::Whole(What::Sync { file }));
        }
        let path = fs::read_link(format!("/proc/{thread}/fd/{descriptor}")).ok()?;
        let path = path.strip_prefix(&self.folder).ok()?.to_owned();
        let is_directory = path.as_os_str().is_empty() || self.directories.contains(&path);
        is_directory.then_some(Asked::Whole(What::SyncDirectory { path }))
    }

    fn allocate(&self, thread: pid_t, descriptor: u64, mode: u64, offset: u64, count: u64) -> Option<Asked> {
        let (file, info) = self.file(thread, descriptor)?;
        let mode = mode as i32;
        let bytes = info.len().max(offset + count);
        if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0 {
            let bytes = Bytes::Zeros(count.min(info.len().saturating_sub(offset)));
            return Some(Asked::Whole(What::Write { file, offset, bytes, is_durable: false }));
        }
        let grows = mode & libc::FALLOC_FL_KEEP_SIZE == 0 && bytes > info.len();
        grows.then_some(Asked::Whole(What::SetLength { file, bytes }))
    }

    /// Calls that change names.
    fn names(&self, thread: pid_t, call: c_long, args: [u64; 6]) -> Option<What> {
        let [first, second, third, fourth, ..] = args;
        let here = libc::AT_FDCWD as u64;
        let path = |directory, path| self.path(thread, directory, path);
        match call {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => Some(What::Rename { from: path(here, first)?, to: path(here, second)? }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => Some(What::Link { from: path(here, first)?, to: path(here, second)? }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink | libc::SYS_rmdir => Some(What::Remove { path: path(here, first)? }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => Some(What::MakeDirectory { path: path(here, first)? }),
            libc::SYS_renameat | libc::SYS_renameat2 => {
                Some(What::Rename { from: path(first, second)?, to: path(third, fourth)? })
            }
            libc::SYS_linkat => Some(What::Link { from: path(first, second)?, to: path(third, fourth)? }),
            libc::SYS_unlinkat => Some(What::Remove { path: path(first, second)? }),
            libc::SYS_mkdirat => Some(What::MakeDirectory { path: path(first, second)? }),
            _ => None,
        }
    }

    /// The known file that a descriptor leads to.
    fn file(&self, thread: pid_t, descriptor: u64) -> Option<(FileId, Metadata)> {
        let info = descriptor_info(thread, descriptor)?;
        Some((*self.by_inode.get(&inode(&info))?, info))
    }

    /// A path as the program means it, from the folder on; `None` if it leads elsewhere.
    fn path(&self, thread: pid_t, directory: u64, address: u64) -> Option<PathBuf> {
        let mut text = memory(thread, address, PATH_BYTES_MAX)?;
        text.truncate(text.iter().position(|byte| *byte == 0)?);
        let path = Path::new(OsStr::from_bytes(&text));
        let from = if path.is_absolute() {
            PathBuf::new()
        } else if directory as i32 == libc::AT_FDCWD {
            fs::read_link(format!("/proc/{thread}/cwd")).ok()?
        } else {
            fs::read_link(format!("/proc/{thread}/fd/{}", directory as i32)).ok()?
        };
        let mut whole = PathBuf::new();
        for component in from.join(path).components() {
            match component {
                Component::CurDir => {}
                Component::ParentDir => drop(whole.pop()),
                other => whole.push(other),
            }
        }
        whole.strip_prefix(&self.folder).ok().map(Path::to_owned)
    }
}

fn inode(info: &Metadata) -> (u64, u64) {
    (info.dev(), info.ino())
}

fn descriptor_info(thread: pid_t, descriptor: u64) -> Option<Metadata> {
    let info = fs::metadata(format!("/proc/{thread}/fd/{}", descriptor as i32)).ok()?;
    info.is_file().then_some(info)
}

/// The position of a descriptor in its file, and the flags with which it was opened.
fn position_and_flags(thread: pid_t, descriptor: u64) -> Option<(u64, i32)> {
    let text = fs::read_to_string(format!("/proc/{thread}/fdinfo/{}", descriptor as i32)).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let flags = i32::from_str_radix(field("flags:")?, 8).ok()?;
    Some((field("pos:")?.parse().ok()?, flags))
}

/// Reads at most `count` bytes of a thread's memory.
fn memory(thread: pid_t, address: u64, count: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; count];
    let mut read = 0;
    let file = File::open(format!("/proc/{thread}/mem")).ok()?;
    while read < count {
        match file.read_at(&mut bytes[read..], address + read as u64) {
            Ok(more) if more > 0 => read += more,
            // A path may end just before memory that cannot be read.
            _ => break,
        }
    }
    bytes.truncate(read);
    Some(bytes)
}

/// The parts of a vector of buffers: address and length of each.
fn parts(thread: pid_t, address: u64, count: u64) -> Option<Vec<(u64, u64)>> {
    let bytes = memory(thread, address, count as usize * 16)?;
    let number = |bytes: &[u8]| Some(u64::from_ne_bytes(bytes.try_into().ok()?));
    bytes.chunks_exact(16).map(|part| Some((number(&part[..8])?, number(&part[8..])?))).collect()
}

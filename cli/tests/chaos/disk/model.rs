//! A disk that forgets what was not synced.
//!
//! POSIX promises little, and this disk no more: the content of a file is there once the *file* was
//! synced, its name once the *directory* was. What came after may be there or not, whole or in part.

use super::journal::{Change, Journal};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The unit in which a disk loses what was not synced.
const PAGE: usize = 4_096;

/// What happens at a power cut to what was not synced.
#[derive(Debug, Clone, Copy)]
pub enum Luck {
    /// All of it is gone.
    None,
    /// All of it is there: as after a kill.
    All,
    /// Some of it is there, chosen by this seed: for each directory its first changes, for each file
    /// nothing, everything, its first changes, or single pages.
    Some(u64),
}

type Id = usize;
type Names = BTreeMap<String, Id>;

#[derive(Debug, Clone)]
enum Inode {
    File { durable: Vec<u8>, since: Vec<Edit> },
    Dir { durable: Names, live: Names, since: Vec<Names> },
}

#[derive(Debug, Clone)]
enum Edit {
    Write { at: usize, data: Vec<u8> },
    Truncate(usize),
    Extend(usize),
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Edit::Write { at, data } => {
                let end = at + data.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*at..end].copy_from_slice(data);
            }
            Edit::Truncate(length) => bytes.resize(*length, 0),
            Edit::Extend(length) => bytes.resize(bytes.len().max(*length), 0),
        }
    }
}

/// A directory with everything below it, as it is on disk and as processes see it.
#[derive(Debug, Clone)]
pub struct Disk {
    root: PathBuf,
    inodes: Vec<Inode>,
    by_number: HashMap<u64, Id>,
}

impl Disk {
    /// What is there now, all of it synced.
    pub fn scan(root: &Path) -> Self {
        let root = fs::canonicalize(root).unwrap();
        let mut disk = Self { root: root.clone(), inodes: Vec::new(), by_number: HashMap::new() };
        disk.scan_dir(&root);
        disk
    }

    fn scan_dir(&mut self, path: &Path) -> Id {
        let id = self.add(
            fs::metadata(path).unwrap().ino(),
            Inode::Dir { durable: Names::new(), live: Names::new(), since: Vec::new() },
        );
        let mut names = Names::new();
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let child = if entry.file_type().unwrap().is_dir() {
                self.scan_dir(&entry.path())
            } else {
                let durable = fs::read(entry.path()).unwrap();
                self.add(entry.metadata().unwrap().ino(), Inode::File { durable, since: Vec::new() })
            };
            names.insert(entry.file_name().into_string().unwrap(), child);
        }
        self.inodes[id] = Inode::Dir { durable: names.clone(), live: names, since: Vec::new() };
        id
    }

    fn add(&mut self, number: u64, inode: Inode) -> Id {
        self.inodes.push(inode);
        // A number that was freed comes again, and means the new one.
        self.by_number.insert(number, self.inodes.len() - 1);
        self.inodes.len() - 1
    }

    /// Follows the changes up to a time.
    pub fn follow(&mut self, journal: &Journal, until_ns: u64) {
        for (_, change) in journal.changes.iter().take_while(|(time, _)| *time <= until_ns) {
            self.change(change);
        }
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Create { path, inode } => {
                let file = self.add(*inode, Inode::File { durable: Vec::new(), since: Vec::new() });
                self.edit_names(path, |names, name| {
                    names.insert(name.to_owned(), file);
                });
            }
            Change::MakeDir { path, inode } => {
                let dir = Inode::Dir { durable: Names::new(), live: Names::new(), since: Vec::new() };
                let dir = self.add(*inode, dir);
                self.edit_names(path, |names, name| {
                    names.insert(name.to_owned(), dir);
                });
            }
            Change::Unlink { path } | Change::RemoveDir { path } => {
                self.edit_names(path, |names, name| {
                    names.remove(name).unwrap();
                });
            }
            Change::Rename { from, to } => {
                assert_eq!(Path::new(from).parent(), Path::new(to).parent(), "a move between directories");
                let to = Path::new(to).file_name().unwrap().to_str().unwrap();
                self.edit_names(from, |names, name| {
                    let moved = names.remove(name).unwrap();
                    names.insert(to.to_owned(), moved);
                });
            }
            Change::Write { inode, at, data } => {
                let at = usize::try_from(*at).unwrap();
                self.edit(*inode, Edit::Write { at, data: data.clone() });
            }
            Change::Truncate { inode, length } => {
                self.edit(*inode, Edit::Truncate(usize::try_from(*length).unwrap()));
            }
            Change::Extend { inode, length } => {
                self.edit(*inode, Edit::Extend(usize::try_from(*length).unwrap()));
            }
            Change::Sync { inode } => self.sync(*inode),
        }
    }

    /// Changes the names in the directory that a path is in.
    fn edit_names(&mut self, path: &str, edit: impl FnOnce(&mut Names, &str)) {
        let path = Path::new(path);
        let below = path.parent().unwrap().strip_prefix(&self.root).unwrap();
        let mut at: Id = 0;
        for part in below.components() {
            let Inode::Dir { live, .. } = &self.inodes[at] else { panic!("{path:?} is below a file") };
            at = live[part.as_os_str().to_str().unwrap()];
        }
        let Inode::Dir { live, since, .. } = &mut self.inodes[at] else { panic!("{path:?} is in a file") };
        edit(live, path.file_name().unwrap().to_str().unwrap());
        since.push(live.clone());
    }

    /// Files outside the watched directory have no inode here.
    fn edit(&mut self, number: u64, edit: Edit) {
        let Some(id) = self.by_number.get(&number) else { return };
        match &mut self.inodes[*id] {
            Inode::File { since, .. } => since.push(edit),
            Inode::Dir { .. } => panic!("a directory is written to"),
        }
    }

    fn sync(&mut self, number: u64) {
        let Some(id) = self.by_number.get(&number) else { return };
        match &mut self.inodes[*id] {
            Inode::File { durable, since } => since.drain(..).for_each(|edit| edit.apply(durable)),
            Inode::Dir { durable, live, since } => {
                durable.clone_from(live);
                since.clear();
            }
        }
    }

    /// What is left after a power cut, in place of what is there.
    pub fn cut(&self, luck: Luck) {
        let rng = match luck {
            Luck::Some(seed) => Some(StdRng::seed_from_u64(seed)),
            Luck::None | Luck::All => None,
        };
        // The root stays: processes and tests have it open.
        for entry in fs::read_dir(&self.root).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
        let keep_all = matches!(luck, Luck::All);
        Cut { disk: self, rng, keep_all }.write(0, &self.root);
    }
}

struct Cut<'a> {
    disk: &'a Disk,
    rng: Option<StdRng>,
    keep_all: bool,
}

impl Cut<'_> {
    fn write(&mut self, id: Id, path: &Path) {
        match &self.disk.inodes[id] {
            Inode::File { durable, since } => fs::write(path, self.content(durable, since)).unwrap(),
            Inode::Dir { durable, live, since } => {
                fs::create_dir_all(path).unwrap();
                let names = match &mut self.rng {
                    Some(rng) if !since.is_empty() => {
                        let kept = rng.random_range(0..=since.len());
                        if kept == 0 { durable } else { &since[kept - 1] }
                    }
                    _ if self.keep_all => live,
                    _ => durable,
                };
                for (name, child) in names {
                    self.write(*child, &path.join(name));
                }
            }
        }
    }

    fn content(&mut self, durable: &[u8], since: &[Edit]) -> Vec<u8> {
        let mut bytes = durable.to_vec();
        let Some(rng) = &mut self.rng else {
            let kept = if self.keep_all { since } else { &[] };
            kept.iter().for_each(|edit| edit.apply(&mut bytes));
            return bytes;
        };
        match ["nothing", "everything", "first", "pages"].choose(rng) {
            Some(&"everything") => since.iter().for_each(|edit| edit.apply(&mut bytes)),
            Some(&"first") => {
                let kept = rng.random_range(0..=since.len());
                since[..kept].iter().for_each(|edit| edit.apply(&mut bytes));
                if let Some(Edit::Write { at, data }) = since.get(kept) {
                    let torn = data[..rng.random_range(0..=data.len())].to_vec();
                    Edit::Write { at: *at, data: torn }.apply(&mut bytes);
                }
            }
            Some(&"pages") => {
                let mut all = bytes.clone();
                since.iter().for_each(|edit| edit.apply(&mut all));
                bytes.resize(all.len(), 0);
                for (page, new) in bytes.chunks_mut(PAGE).zip(all.chunks(PAGE)) {
                    if rng.random() {
                        page.copy_from_slice(new);
                    }
                }
            }
            _ => {}
        }
        bytes
    }
}

/// Every file below a directory with its content, and every directory with none.
pub fn tree(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            if path.is_dir() {
                found.insert(name, None);
                open.push(path);
            } else {
                found.insert(name, Some(fs::read(path).unwrap()));
            }
        }
    }
    found
}

//! A graph in a file: what usearch saves, and behind it which memory and which vector each node stands for.
//!
//! usearch believes whatever it loads (a flipped byte is not noticed, or ends in a crash), so nothing is loaded
//! before its hash is right.

use super::{Graph, GraphError};
use crate::index::files::{FileError, Files, seal, unseal};
use crate::index::image::{Image, SharedImage};
use crate::index::lists::{halves, print};
use holdfast_core::space::SpaceKey;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use xxhash_rust::xxh3::Xxh3;

const EXTENSION: &str = "graph";
const MARK: [u8; 8] = *b"HFGRAPH1";
/// Rows that are looked at under one look at the image.
const BATCH: usize = 1_024;
/// Bytes that are hashed at once.
const PIECE: usize = 1 << 20;

/// The end of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Footer {
    space: SpaceKey,
    model: u8,
    dims: u32,
    generation: u32,
    /// Nodes in the graph, dead ones included.
    size: u64,
    /// Hash of what usearch saved.
    hash: u128,
    nodes: Vec<Node>,
}

/// A node that is alive.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Node {
    row: u32,
    seq: u64,
    print: u64,
}

/// Whose graph it is.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) files: &'a Files,
    pub(super) space: &'a SpaceKey,
    pub(super) image: &'a SharedImage,
    pub(super) arena: usize,
    pub(super) is_wanted: &'a dyn Fn() -> bool,
}

/// Why a graph was not saved or loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum SaveError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl From<io::Error> for SaveError {
    fn from(error: io::Error) -> Self {
        Self::File(error.into())
    }
}

fn file_name((model, dims): (u8, usize)) -> String {
    format!("{model}-{dims}.{EXTENSION}")
}

impl Site<'_> {
    fn kind(&self) -> Result<(u8, usize), FileError> {
        self.image.read().vectors.kind(self.arena).ok_or(FileError::GivenUp)
    }

    /// Removes the file.
    pub(super) fn discard(&self) -> Result<(), FileError> {
        self.files.discard(self.space, &file_name(self.kind()?))
    }

    /// Saves a graph, while searches go on. Nobody may add to it meanwhile.
    pub(super) fn save(&self, graph: &Graph) -> Result<(), SaveError> {
        let kind = self.kind()?;
        let size = graph.size();
        let nodes = self.nodes(graph)?;
        let room = graph.bytes() + nodes.len() * size_of::<Node>();
        let draft = self.files.draft(self.space, &file_name(kind), room as u64, self.is_wanted)?;
        let path = text(draft.written_to())?;
        let whole = {
            let index = graph.index.read();
            index.save(path).map_err(super::failed)?;
            index.serialized_length() as u64
        };
        let mut file = &draft.file;
        let saved = file.seek(SeekFrom::End(0))?;
        if saved != whole {
            // usearch does not say when the disk was full.
            return Err(FileError::Damaged("a part of the graph was not written").into());
        }
        let footer = Footer {
            space: self.space.clone(),
            model: kind.0,
            dims: u32::try_from(kind.1).map_err(|_| FileError::Damaged("dimensions"))?,
            generation: graph.generation,
            size: size as u64,
            hash: hash(file, saved)?,
            nodes,
        };
        file.write_all(&seal(&footer, MARK)?)?;
        self.files.publish(draft, self.is_wanted)?;
        graph.note_saved(size);
        Ok(())
    }

    /// What each row stands for that has a node.
    fn nodes(&self, graph: &Graph) -> Result<Vec<Node>, FileError> {
        let upto = graph.upto();
        let mut nodes = Vec::with_capacity(graph.size());
        for begin in (0..upto).step_by(BATCH) {
            if !(self.is_wanted)() {
                return Err(FileError::GivenUp);
            }
            let image = self.image.read();
            let model = image.vectors.kind(self.arena).map_or(0, |kind| kind.0);
            for row in begin..upto.min(begin.saturating_add(BATCH as u32)) {
                if let Some(values) = image.vector_in(self.arena, row) {
                    let print = print(model, &halves(values));
                    nodes.push(Node { row, seq: image.columns.seq[row as usize], print });
                }
            }
        }
        Ok(nodes)
    }

    /// The graph in the file, with its nodes named for the rows of this image; `None` if there is no file. `fits`
    /// says whether there is memory for so many nodes.
    pub(super) fn load(
        &self,
        fits: impl FnOnce(&Graph, usize) -> Result<(), GraphError>,
    ) -> Result<Option<Arc<Graph>>, SaveError> {
        let kind = self.kind()?;
        if !self.files.are_kept() {
            return Ok(None);
        }
        let path = self.files.path(self.space, &file_name(kind))?;
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let (footer, begin): (Footer, u64) = unseal(&file, MARK)?;
        if footer.space != *self.space || (footer.model, footer.dims as usize) != kind {
            return Err(FileError::Foreign.into());
        }
        if hash(&file, begin)? != footer.hash {
            return Err(FileError::Damaged("checksum of the graph").into());
        }
        let mut graph = Graph::new(kind.1)?;
        let size = usize::try_from(footer.size).map_err(|_| FileError::Damaged("size"))?;
        fits(&graph, size)?;
        let index = graph.index.get_mut();
        index.load(text(&path)?).map_err(super::failed)?;
        if index.size() != size || index.dimensions() != kind.1 {
            return Err(FileError::Damaged("size").into());
        }
        graph.size.store(size, Ordering::Relaxed);
        graph.note_saved(size);
        graph.bytes.store(graph.bytes_at(size), Ordering::Relaxed);
        self.rename(&mut graph, &footer)?;
        let live = self.image.read().vectors.live(self.arena);
        graph.grow(size.max(live + live / 8))?;
        Ok(Some(Arc::new(graph)))
    }

    /// Gives each node the key of the row that has its memory and its vector.
    fn rename(&self, graph: &mut Graph, footer: &Footer) -> Result<(), SaveError> {
        graph.generation = footer.generation.checked_add(1).ok_or(FileError::Damaged("generation"))?;
        let before = u64::from(footer.generation) << 32;
        graph.claim(self.image.read().rows_count());
        let mut found = 0;
        for nodes in footer.nodes.chunks(BATCH) {
            if !(self.is_wanted)() {
                return Err(FileError::GivenUp.into());
            }
            let rows: Vec<Option<u32>> = {
                let image = self.image.read();
                nodes.iter().map(|node| row_of(&image, self.arena, footer.model, node)).collect()
            };
            for (node, row) in nodes.iter().zip(rows) {
                let Some(row) = row else { continue };
                let index = graph.index.read();
                let renamed = index.rename(before | u64::from(node.row), graph.key(row));
                if renamed.map_err(super::failed)? != 1 {
                    return Err(FileError::Damaged("nodes").into());
                }
                found += 1;
            }
        }
        graph.dead.store(graph.size().saturating_sub(found), Ordering::Relaxed);
        // It would have to be built anew soon.
        if graph.is_worn() { Err(FileError::Foreign.into()) } else { Ok(()) }
    }
}

/// The row of a memory, if it has the vector of the node.
fn row_of(image: &Image, arena: usize, model: u8, node: &Node) -> Option<u32> {
    let row = image.row(node.seq)?;
    let values = image.vector_in(arena, row)?;
    (print(model, &halves(values)) == node.print).then_some(row)
}

/// The hash of the first bytes of a file.
fn hash(file: &File, len: u64) -> io::Result<u128> {
    let (mut hasher, mut piece, mut at) = (Xxh3::new(), vec![0; PIECE], 0);
    while at < len {
        let want = usize::try_from(len - at).unwrap_or(PIECE).min(PIECE);
        file.read_exact_at(&mut piece[..want], at)?;
        hasher.update(&piece[..want]);
        at += want as u64;
    }
    Ok(hasher.digest128())
}

/// usearch takes paths as text.
fn text(path: &Path) -> Result<&str, FileError> {
    path.to_str().ok_or_else(|| io::Error::other("the folder's name is not UTF-8").into())
}

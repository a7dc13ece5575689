//! Graphs and inverted lists of the spaces of this node.

use super::scrape::{C, Def, Families, G};
use crate::index::Usage;

const GRAPHS: Def = Def("holdfast_graphs", "Graphs of vectors that answer.", &[], G);
const GRAPH_BYTES: Def =
    Def("holdfast_graph_bytes", "Memory of the graphs, a part of that of the spaces.", &[], G);
const GRAPHS_BUILT: Def = Def("holdfast_graphs_built_total", "Graphs of vectors that were built.", &[], C);
const GRAPHS_LOADED: Def =
    Def("holdfast_graphs_loaded_total", "Graphs of vectors that were read from their files.", &[], C);
const GRAPHS_REFUSED: Def =
    Def("holdfast_graphs_refused_total", "Graphs given up for want of memory.", &[], C);
const GRAPH_SECONDS: Def =
    Def("holdfast_graph_build_seconds_total", "Time of threads that added vectors to graphs.", &[], C);
const LISTS: Def = Def("holdfast_lists", "Sets of vectors that are in files, in inverted lists.", &[], G);
const LIST_BYTES: Def =
    Def("holdfast_list_bytes", "Memory that goes with the lists, a part of that of the spaces.", &[], G);
const LISTS_BUILT: Def = Def("holdfast_lists_built_total", "Files of inverted lists that were made.", &[], C);
const LISTS_REFUSED: Def =
    Def("holdfast_lists_refused_total", "Inverted lists given up for want of room or of files.", &[], C);
const LIST_SECONDS: Def =
    Def("holdfast_list_build_seconds_total", "Time of threads that made inverted lists.", &[], C);
const INDEX_FILES_FAILED: Def = Def(
    "holdfast_index_files_failed_total",
    "Files of graphs or lists that were damaged or could not be written.",
    &[],
    C,
);

/// What can be told.
pub(super) const ALL: [&Def; 12] = [
    &GRAPHS,
    &GRAPH_BYTES,
    &GRAPHS_BUILT,
    &GRAPHS_LOADED,
    &GRAPHS_REFUSED,
    &GRAPH_SECONDS,
    &LISTS,
    &LIST_BYTES,
    &LISTS_BUILT,
    &LISTS_REFUSED,
    &LIST_SECONDS,
    &INDEX_FILES_FAILED,
];

/// Tells it.
pub(super) fn add(families: &mut Families, usage: &Usage) {
    families.add(&GRAPHS, &[], usage.graphs as f64);
    families.add(&GRAPH_BYTES, &[], usage.graph_bytes as f64);
    families.add(&GRAPHS_BUILT, &[], usage.graphs_built as f64);
    families.add(&GRAPHS_LOADED, &[], usage.graphs_loaded as f64);
    families.add(&GRAPHS_REFUSED, &[], usage.graphs_refused as f64);
    families.add(&GRAPH_SECONDS, &[], usage.graph_time.as_secs_f64());
    families.add(&LISTS, &[], usage.lists as f64);
    families.add(&LIST_BYTES, &[], usage.list_bytes as f64);
    families.add(&LISTS_BUILT, &[], usage.lists_built as f64);
    families.add(&LISTS_REFUSED, &[], usage.lists_refused as f64);
    families.add(&LIST_SECONDS, &[], usage.list_time.as_secs_f64());
    families.add(&INDEX_FILES_FAILED, &[], usage.files_failed as f64);
}

//! Filters: conditions on the columns and metadata of memories.

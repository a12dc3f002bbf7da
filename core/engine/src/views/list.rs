//! Lists: built anew from what is stored when something changed, delivered as the difference.

use crate::{
    batch::{Batch, ListBatch},
    delivery::Renderer,
    diff,
    shared::{Reading, Shared},
};
use pilothouse_store::StoreError;
use std::{hash::Hash, sync::Arc};

/// What a list shows and how its rows are known.
pub(crate) struct ListView<T, K> {
    shared: Arc<Shared>,
    build: fn(&Shared, &Reading<'_>) -> Result<Vec<T>, StoreError>,
    key: fn(&T) -> K,
    wrap: fn(ListBatch<T>) -> Batch,
    delivered: Option<Vec<T>>,
}

impl<T, K> ListView<T, K> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        build: fn(&Shared, &Reading<'_>) -> Result<Vec<T>, StoreError>,
        key: fn(&T) -> K,
        wrap: fn(ListBatch<T>) -> Batch,
    ) -> Self {
        Self {
            shared,
            build,
            key,
            wrap,
            delivered: None,
        }
    }
}

impl<T, K> Renderer for ListView<T, K>
where
    T: Clone + PartialEq + Send,
    K: Hash + Eq,
{
    fn render(&mut self) -> Result<Option<Batch>, String> {
        let shared = &self.shared;
        let Some(rows) = shared
            .view(|reads| (self.build)(shared, reads))
            .map_err(|error| error.to_string())?
        else {
            return Ok(None);
        };
        let batch = match &self.delivered {
            None => Some(ListBatch {
                reset: true,
                ops: diff::inserts(&rows),
            }),
            Some(before) => {
                let ops = diff::diff(before, &rows, self.key);
                (!ops.is_empty()).then_some(ListBatch { reset: false, ops })
            }
        };
        self.delivered = Some(rows);
        Ok(batch.map(self.wrap))
    }
}

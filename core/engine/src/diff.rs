//! From an old list to a new one: the fewest list operations that a screen can animate.

use crate::batch::ListOp;
use std::collections::HashMap;
use std::hash::Hash;

/// Operations that turn `old` into `new`. Rows are the same when their keys are; keys are unique within a list (a later
/// row with a key seen before is left out, in both lists alike).
///
/// A row that moved is removed and inserted again; of all rows as many as possible stay.
pub(crate) fn diff<T, K>(old: &[T], new: &[T], key: impl Fn(&T) -> K) -> Vec<ListOp<T>>
where
    T: Clone + PartialEq,
    K: Hash + Eq,
{
    let old_index: HashMap<K, usize> = old
        .iter()
        .enumerate()
        .map(|(index, row)| (key(row), index))
        .collect();
    let came_from: Vec<Option<usize>> = new
        .iter()
        .map(|row| old_index.get(&key(row)).copied())
        .collect();
    let stays = increasing(&came_from, old.len());

    let mut ops = Vec::new();
    for index in (0..old.len()).rev() {
        if !stays[index] {
            ops.push(ListOp::Remove {
                index: place(index),
            });
        }
    }
    for (index, (row, from)) in new.iter().zip(&came_from).enumerate() {
        match from {
            Some(from) if stays[*from] => {
                if old[*from] != *row {
                    ops.push(ListOp::Update {
                        index: place(index),
                        row: row.clone(),
                    });
                }
            }
            _ => ops.push(ListOp::Insert {
                index: place(index),
                row: row.clone(),
            }),
        }
    }
    ops
}

/// All rows as inserts: the operations of a reset.
pub(crate) fn inserts<T: Clone>(rows: &[T]) -> Vec<ListOp<T>> {
    rows.iter()
        .enumerate()
        .map(|(index, row)| ListOp::Insert {
            index: place(index),
            row: row.clone(),
        })
        .collect()
}

fn place(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// Marks a longest increasing run of old indices: the rows that can stay where they are.
fn increasing(came_from: &[Option<usize>], old_len: usize) -> Vec<bool> {
    // `tails[n]` is the place in `came_from` where the best run of length n + 1 ends.
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; came_from.len()];
    for (place, from) in came_from.iter().enumerate() {
        let Some(from) = from else { continue };
        let length = tails.partition_point(|&t| came_from[t].is_some_and(|f| f < *from));
        before[place] = length.checked_sub(1).map(|n| tails[n]);
        if length == tails.len() {
            tails.push(place);
        } else {
            tails[length] = place;
        }
    }
    let mut stays = vec![false; old_len];
    let mut at = tails.last().copied();
    while let Some(place) = at {
        if let Some(from) = came_from[place] {
            stays[from] = true;
        }
        at = before[place];
    }
    stays
}

#[cfg(test)]
mod tests {
    use super::{diff, inserts};
    use crate::batch::{ListBatch, ListOp};
    use proptest::prelude::*;

    type Row = (u8, u8);

    fn unique(rows: Vec<Row>) -> Vec<Row> {
        let mut seen = std::collections::BTreeSet::new();
        rows.into_iter().filter(|row| seen.insert(row.0)).collect()
    }

    proptest! {
        #[test]
        fn applying_the_operations_gives_the_new_list(
            old in prop::collection::vec((0u8..24, 0u8..3), 0..24),
            new in prop::collection::vec((0u8..24, 0u8..3), 0..24),
        ) {
            let (old, new) = (unique(old), unique(new));
            let ops = diff(&old, &new, |row| row.0);
            let mut list = old.clone();
            ListBatch { reset: false, ops }.apply(&mut list);
            prop_assert_eq!(&list, &new);
            let mut list = old;
            ListBatch { reset: true, ops: inserts(&new) }.apply(&mut list);
            prop_assert_eq!(list, new);
        }

        #[test]
        fn no_more_rows_are_touched_than_changed_or_moved(
            old in prop::collection::vec((0u8..40, 0u8..2), 0..40),
            at in 0usize..40,
        ) {
            let old = unique(old);
            let mut new = old.clone();
            new.insert(at.min(old.len()), (200, 0));
            prop_assert_eq!(diff(&old, &new, |row| row.0).len(), 1);
            prop_assert!(diff(&old, &old, |row| row.0).is_empty());
        }
    }

    #[test]
    fn a_row_that_moves_to_the_front_is_one_removal_and_one_insert() {
        let old = [(1, 0), (2, 0), (3, 0), (4, 0)];
        let new = [(4, 1), (1, 0), (2, 0), (3, 0)];
        assert_eq!(
            diff(&old, &new, |row| row.0),
            [
                ListOp::Remove { index: 3 },
                ListOp::Insert {
                    index: 0,
                    row: (4, 1)
                }
            ]
        );
    }
}

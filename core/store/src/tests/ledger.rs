//! The ledger's file.

use super::support::*;
use crate::{Durability, LedgerStore, StoreError};
use pilothouse_domain::{Event, Row};
use pilothouse_orchestrator::Rows;

#[test]
fn entries_come_back_as_they_were_appended() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = LedgerStore::open(dir.path(), EPOCH).unwrap();
    assert_eq!((store.epoch(), store.boot()), (EPOCH, 1));
    let long = "ä".repeat(5000);
    let entries = store
        .transaction(
            |tx| {
                let first = tx.append(thread(1), cause(1), 10, vec![created(thread(1))])?;
                let second = tx.append(
                    thread(1),
                    cause(2),
                    11,
                    vec![Event::ItemOpened {
                        item: item(1, &long),
                    }],
                )?;
                tx.rows(thread(1))?.put(Row::Item(item(1, "short")));
                Ok::<_, StoreError>(vec![first, second])
            },
            Durability::Synced,
        )
        .unwrap();
    let reader = store.reader().unwrap();
    assert_eq!(
        reader.entries_after(thread(1), 0, 1 << 20).unwrap(),
        entries
    );
    assert_eq!(reader.cursor(thread(1)).unwrap(), entries[1].cursor());
    assert_eq!(store.verify_chain(thread(1)).unwrap(), entries[1].cursor());
    let hash = pilothouse_domain::BlobHash::of(long.as_bytes());
    assert_eq!(reader.blob_len(hash).unwrap(), Some(10_000));
    assert_eq!(
        reader.blob(hash, 9_998, 100).unwrap().unwrap(),
        "ä".as_bytes()
    );
    assert_eq!(
        reader.tail_rows(thread(1), 1).unwrap(),
        vec![Row::Item(item(1, "short"))]
    );
}

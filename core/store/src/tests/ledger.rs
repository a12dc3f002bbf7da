//! Log, epochs, locks and versions.

use super::support::*;
use crate::{Durability, LedgerReader, LedgerStore, StoreError};
use pilothouse_domain::{
    BlobHash, Body, Cause, Chain, Cursor, Epoch, Event, ItemContent, LoggedEvent, ProviderThreadId,
    ProviderTurnId, RequestId, Row,
    binding::{Binding, BindingKey, BindingTarget},
    limits,
    row::RowKind,
};
use pilothouse_orchestrator::{Bindings, Rows};

#[test]
fn entries_come_back_as_they_were_appended_with_long_bodies_by_hash() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let long = "ä".repeat(5000);
    let entries = append_all(
        &mut store,
        thread(1),
        vec![
            vec![created(thread(1))],
            vec![
                Event::ItemOpened {
                    item: item(1, &long),
                },
                Event::ItemOpened {
                    item: item(2, "short"),
                },
            ],
            Vec::new(),
        ],
    );
    let reader = store.reader().unwrap();
    assert_eq!(
        reader.entries_after(thread(1), 0, 1 << 20).unwrap(),
        entries
    );
    assert_eq!(
        reader.entries_after(thread(1), 1, 1 << 20).unwrap(),
        entries[1..]
    );
    assert_eq!(
        reader.entries_after(thread(1), 0, 1).unwrap(),
        entries[..1],
        "at least one, whatever the limit"
    );
    assert_eq!(reader.cursor(thread(1)).unwrap(), entries[2].cursor());
    assert_eq!(store.verify_chain(thread(1)).unwrap(), entries[2].cursor());
    let LoggedEvent::Known(event) = &entries[1].events[0] else {
        panic!("{:?}", entries[1])
    };
    let Event::ItemOpened { item } = &**event else {
        panic!("{event:?}")
    };
    let ItemContent::AssistantMessage {
        text: Body::Stored(stored),
    } = &item.content
    else {
        panic!("{item:?}")
    };
    assert_eq!(
        (stored.hash, stored.bytes),
        (BlobHash::of(long.as_bytes()), 10_000)
    );
    assert_eq!(
        reader.blob(stored.hash, 0, 10_000).unwrap().unwrap(),
        long.as_bytes()
    );
}

#[test]
fn threads_do_not_see_each_others_entries() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    for n in [2, 1, 3] {
        append_all(
            &mut store,
            thread(n),
            vec![vec![created(thread(n))]; usize::from(n)],
        );
    }
    for n in [1, 2, 3] {
        let entries = store.entries_after(thread(n), 0, 1 << 20).unwrap();
        assert_eq!(entries.len(), usize::from(n));
        assert!(entries.iter().all(|entry| entry.thread == thread(n)));
        store.verify(thread(n)).unwrap();
    }
    assert_eq!(store.threads().unwrap(), [thread(2), thread(1), thread(3)]);
    assert!(
        store
            .entries_after(thread(9), 0, 1 << 20)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn every_change_behind_the_stores_back_is_found_by_the_chain() {
    for sql in [
        "UPDATE entries SET events = replace(events, 'Tidy', 'Tidx') WHERE place & 0xff = 2",
        "UPDATE entries SET hashes = CAST(x'00' || substr(hashes, 2) AS BLOB) WHERE place & 0xff = 2",
        "UPDATE entries SET host_time_ms = host_time_ms + 1 WHERE place & 0xff = 2",
        "UPDATE entries SET cause = '{\"cause\":\"host\",\"fact\":\"x\"}' WHERE place & 0xff = 2",
        "UPDATE entries SET epoch = zeroblob(16) WHERE place & 0xff = 2",
        "UPDATE entries SET chain = zeroblob(32) WHERE place & 0xff = 2",
        "DELETE FROM entries WHERE place & 0xff = 2",
        "DELETE FROM entries WHERE place & 0xff = 3",
        "UPDATE threads SET seq = 2",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        append_all(&mut store, thread(1), vec![vec![created(thread(1))]; 3]);
        store.verify_chain(thread(1)).unwrap();
        drop(store);
        tamper(&dir.path().join("ledger.db"), sql);
        let store = open(dir.path());
        assert!(
            matches!(
                store.verify_chain(thread(1)),
                Err(StoreError::Corrupt { .. })
            ),
            "not found: {sql}"
        );
    }
}

#[test]
fn an_event_of_a_newer_version_is_kept_and_read_as_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let entry = append_all(&mut store, thread(1), vec![vec![created(thread(1))]]).remove(0);
    drop(store);
    let raw = r#"{"type":"thread.sung","skippable":true,"tune":"x"}"#;
    let hash = *blake3::hash(raw.as_bytes()).as_bytes();
    let chain = Chain::default().extend(&entry.header(), &[hash]);
    let conn = rusqlite::Connection::open(dir.path().join("ledger.db")).unwrap();
    conn.execute(
        "UPDATE entries SET events = ?1, hashes = ?2, chain = ?3",
        (format!("[{raw}]"), hash, chain.0.as_bytes()),
    )
    .unwrap();
    conn.execute("UPDATE threads SET chain = ?1", [chain.0.as_bytes()])
        .unwrap();
    drop(conn);
    let store = open(dir.path());
    store.verify_chain(thread(1)).unwrap();
    let entries = store.entries_after(thread(1), 0, 1 << 20).unwrap();
    let LoggedEvent::Unknown(unknown) = &entries[0].events[0] else {
        panic!("{entries:?}")
    };
    assert_eq!(unknown.kind, "thread.sung");
    assert!(unknown.skippable);
    assert_eq!(unknown.rest["tune"], "x");
}

#[test]
fn a_transaction_that_fails_keeps_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let failed: Result<(), StoreError> = store.transaction(
        |tx| {
            tx.append(thread(1), Cause::Clock, 1, vec![created(thread(1))])?;
            tx.append(thread(2), Cause::Clock, 1, vec![created(thread(2))])?;
            Err(StoreError::Missing {
                path: "here".into(),
                what: "reason".into(),
            })
        },
        Durability::Synced,
    );
    assert!(matches!(failed, Err(StoreError::Missing { .. })));
    assert!(store.threads().unwrap().is_empty());
    assert_eq!(store.cursor(thread(1)).unwrap().seq, 0);
    // The numbers that were given to the threads are not remembered.
    append_all(&mut store, thread(2), vec![vec![created(thread(2))]]);
    append_all(&mut store, thread(1), vec![vec![created(thread(1))]; 2]);
    assert_eq!(store.entries_after(thread(2), 0, 1 << 20).unwrap().len(), 1);
    assert_eq!(store.entries_after(thread(1), 0, 1 << 20).unwrap().len(), 2);
}

#[test]
fn a_panic_inside_a_transaction_keeps_nothing_and_leaves_the_store_usable() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _: Result<(), StoreError> = store.transaction(
            |tx| {
                tx.append(thread(1), Cause::Clock, 1, Vec::new())?;
                panic!("on purpose")
            },
            Durability::Lazy,
        );
    }));
    assert!(panicked.is_err());
    append_all(&mut store, thread(1), vec![vec![created(thread(1))]]);
    assert_eq!(store.cursor(thread(1)).unwrap().seq, 1);
    store.verify(thread(1)).unwrap();
}

#[test]
fn a_row_that_cannot_be_read_refuses_the_commit() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    append_all(
        &mut store,
        thread(1),
        vec![vec![Event::ItemOpened { item: item(1, "x") }]],
    );
    drop(store);
    tamper(
        &dir.path().join("ledger.db"),
        "UPDATE rows SET json = '{\"id\":' WHERE kind = 5",
    );
    let mut store = open(dir.path());
    let key = RowKind::Item.key(item_id(1).as_bytes());
    let result: Result<(), StoreError> = store.transaction(
        |tx| {
            let mut rows = tx.rows(thread(1))?;
            assert_eq!(rows.get(key), None);
            rows.put(Row::Item(item(2, "y")));
            Ok(())
        },
        Durability::Lazy,
    );
    assert!(
        matches!(result, Err(StoreError::Corrupt { .. })),
        "{result:?}"
    );
    assert_eq!(
        store
            .row(thread(1), RowKind::Item.key(item_id(2).as_bytes()))
            .unwrap(),
        None
    );
    // The fault is of that transaction only.
    append_all(&mut store, thread(1), vec![Vec::new()]);
}

#[test]
fn boots_are_counted_and_the_epoch_stays_until_a_new_one_is_started() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    assert_eq!((store.epoch(), store.boot()), (EPOCH, 1));
    let before = append_all(&mut store, thread(1), vec![vec![created(thread(1))]])[0].cursor();
    drop(store);
    let other = Epoch::from_bytes([8; 16]);
    let mut store = LedgerStore::open(dir.path(), other).unwrap();
    assert_eq!((store.epoch(), store.boot()), (EPOCH, 2));
    assert!(store.is_on_log(thread(1), &before).unwrap());
    let reader = store.reader().unwrap();
    store.new_epoch(other, 5).unwrap();
    assert_eq!(store.epoch(), other);
    assert!(!store.is_on_log(thread(1), &before).unwrap());
    let now = store.cursor(thread(1)).unwrap();
    assert_eq!((now.epoch, now.seq, now.chain), (other, 1, before.chain));
    assert!(store.is_on_log(thread(1), &now).unwrap());
    reader
        .consistent(|reads| {
            assert_eq!(
                reads.cursor(thread(1))?,
                now,
                "a reader learns of the epoch"
            );
            Ok::<_, StoreError>(())
        })
        .unwrap();
    append_all(&mut store, thread(1), vec![Vec::new()]);
    store.verify_chain(thread(1)).unwrap();
    drop(store);
    let store = LedgerStore::open(dir.path(), EPOCH).unwrap();
    assert_eq!((store.epoch(), store.boot()), (other, 3));
}

#[test]
fn a_cursor_is_on_the_log_only_with_the_chain_that_stands_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let entries = append_all(&mut store, thread(1), vec![Vec::new(), Vec::new()]);
    let good = entries[0].cursor();
    assert!(store.is_on_log(thread(1), &good).unwrap());
    let fresh = Cursor {
        epoch: EPOCH,
        ..Cursor::default()
    };
    assert!(store.is_on_log(thread(1), &fresh).unwrap());
    for bad in [
        Cursor { seq: 2, ..good },
        Cursor { seq: 3, ..good },
        Cursor { seq: 0, ..good },
        Cursor {
            chain: Chain::default(),
            ..good
        },
    ] {
        assert!(!store.is_on_log(thread(1), &bad).unwrap(), "{bad:?}");
    }
    assert!(!store.is_on_log(thread(2), &good).unwrap());
}

#[test]
fn a_second_opener_is_told_which_process_has_the_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let error = LedgerStore::open(dir.path(), EPOCH).unwrap_err();
    let pid = std::process::id();
    assert!(
        matches!(error, StoreError::Locked { pid: Some(found), .. } if found == pid),
        "{error:?}"
    );
    assert!(
        error.to_string().contains(&format!("process {pid}")),
        "{error}"
    );
    drop(store);
    assert_eq!(open(dir.path()).boot(), 2, "the refused opening is no boot");
}

#[test]
fn a_newer_database_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let file = dir.path().join("ledger.db");
    tamper(&file, "PRAGMA user_version = 99");
    let before = std::fs::read(&file).unwrap();
    let error = LedgerStore::open(dir.path(), EPOCH).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::NewerDatabase {
                found: 99,
                known: 2,
                ..
            }
        ),
        "{error:?}"
    );
    let text = error.to_string();
    for part in ["99", "up to 2", "update this program", "ledger.db"] {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
    assert!(matches!(
        LedgerReader::open(dir.path()),
        Err(StoreError::NewerDatabase { .. })
    ));
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn a_file_of_another_kind_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(crate::ReplicaStore::open(dir.path()).unwrap());
    std::fs::rename(dir.path().join("replica.db"), dir.path().join("ledger.db")).unwrap();
    let error = LedgerStore::open(dir.path(), EPOCH).unwrap_err();
    assert!(error.to_string().contains("not a ledger"), "{error}");
    std::fs::write(
        dir.path().join("ledger.db"),
        "no database at all, but long enough to be read as a header of one; \
        so SQLite has something to look at and to say that this is not what it knows",
    )
    .unwrap();
    let error = LedgerStore::open(dir.path(), EPOCH).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
}

#[test]
fn nobody_else_can_read_what_is_stored() {
    use std::os::unix::fs::PermissionsExt;
    let above = tempfile::tempdir().unwrap();
    let dir = above.path().join("state/ledger");
    let mut store = open(&dir);
    append_all(&mut store, thread(1), vec![Vec::new()]);
    let replica = crate::ReplicaStore::open(&dir).unwrap();
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let mut files = 0;
    for file in std::fs::read_dir(&dir).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{path:?}");
        files += 1;
    }
    assert!(files >= 6, "databases, their logs and locks: {files}");
    drop((store, replica));
}

#[test]
fn a_native_id_leads_to_its_app_id_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let conversation = BindingKey::Thread {
        thread: "n1".into(),
    };
    let turn = BindingKey::Turn {
        thread: "n1".into(),
        turn: "0".into(),
    };
    let asked = |incarnation: u8| BindingKey::Request {
        incarnation: pilothouse_domain::Incarnation::from_bytes([incarnation; 16]),
        thread: "n1".into(),
        turn: Some("0".into()),
        request: "0".into(),
    };
    let provider_thread = ProviderThreadId::from_bytes([1; 16]);
    let turn_target = |ended| BindingTarget::Turn {
        turn: ProviderTurnId::from_bytes([2; 16]),
        attempt: pilothouse_domain::AttemptId::from_bytes([3; 16]),
        run: RUN,
        ordinal: 1,
        node: NODE,
        ended,
    };
    let request = RequestId::from_bytes([5; 16]);
    let bindings = [
        Binding {
            key: conversation.clone(),
            target: BindingTarget::Thread {
                provider_thread,
                node: None,
                run: None,
            },
        },
        Binding {
            key: turn.clone(),
            target: turn_target(false),
        },
        Binding {
            key: turn.clone(),
            target: turn_target(true),
        },
        Binding {
            key: asked(1),
            target: BindingTarget::Request {
                request,
                occurrence: 0,
                open: true,
            },
        },
    ];
    store
        .transaction(
            |tx| {
                for binding in &bindings {
                    tx.put_binding("codex", thread(1), binding)?;
                    let seen = tx.bindings("codex", thread(1)).get(&binding.key);
                    assert_eq!(
                        seen.as_ref(),
                        Some(&binding.target),
                        "seen before the commit"
                    );
                }
                Ok::<_, StoreError>(())
            },
            Durability::Lazy,
        )
        .unwrap();
    assert_eq!(
        store.binding("codex", &turn).unwrap(),
        Some((thread(1), turn_target(true))),
        "the last one holds"
    );
    assert_eq!(store.binding("another", &turn).unwrap(), None);
    assert_eq!(store.binding("codex", &asked(2)).unwrap(), None);
    assert_eq!(
        store.native_thread_of(provider_thread).unwrap(),
        Some(conversation)
    );
    assert_eq!(
        store
            .native_turn_of(ProviderTurnId::from_bytes([2; 16]))
            .unwrap(),
        Some(turn)
    );
    assert_eq!(store.native_request_of(request).unwrap(), Some(asked(1)));
    assert_eq!(
        store
            .native_request_of(RequestId::from_bytes([6; 16]))
            .unwrap(),
        None
    );
}

#[test]
fn a_reader_keeps_its_view_while_the_writer_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    append_all(&mut store, thread(1), vec![Vec::new()]);
    let reader = store.reader().unwrap();
    reader
        .consistent(|reads| {
            assert_eq!(reads.cursor(thread(1))?.seq, 1);
            append_all(&mut store, thread(1), vec![Vec::new()]);
            assert_eq!(reads.cursor(thread(1))?.seq, 1);
            assert_eq!(reads.entries_after(thread(1), 0, 1 << 20)?.len(), 1);
            Ok::<_, StoreError>(())
        })
        .unwrap();
    assert_eq!(reader.cursor(thread(1)).unwrap().seq, 2);
}

#[test]
fn the_write_ahead_log_stays_under_sixteen_mebibytes() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let wal = dir.path().join("ledger.db-wal");
    let mut largest = 0;
    for n in 0..64_u64 {
        store
            .transaction(
                |tx| {
                    let body = vec![u8::try_from(n % 251).unwrap(); 1024 * 1024];
                    tx.put_blob(BlobHash::of(&n.to_le_bytes()), &body)
                },
                Durability::Lazy,
            )
            .unwrap();
        largest = largest.max(std::fs::metadata(&wal).unwrap().len());
    }
    assert!(largest <= 16 * 1024 * 1024, "{largest} bytes");
    assert!(
        largest > 1024 * 1024,
        "the test has to see the log in use: {largest} bytes"
    );
}

#[test]
fn no_event_is_larger_than_a_frame_carries_and_the_log_says_where_something_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let mut long = item(1, "");
    long.content = ItemContent::Command {
        command: "echo é; ".repeat(200_000),
        cwd: "/work".to_owned(),
        output: Body::inline("x".repeat(2_000_000)),
        agent_output: None,
        exit_code: None,
        duration_ms: None,
    };
    let event = Event::ItemOpened { item: long };
    let entries = append_all(&mut store, thread(1), vec![vec![event.clone(), event]]);
    let [LoggedEvent::Known(first), _, LoggedEvent::Known(told), _] = &entries[0].events[..] else {
        panic!("{:?}", entries[0].events.len())
    };
    let json = serde_json::to_string(first).unwrap();
    assert!(json.len() <= limits::EVENT_ENCODED, "{}", json.len());
    assert!(json.contains("bytes left out"));
    let Event::FrameUnreadable { detail } = &**told else {
        panic!("{told:?}")
    };
    assert!(detail.contains("1802449 bytes"), "{detail}");
    // What is in the log is what its rows and its chain are of.
    store.verify_chain(thread(1)).unwrap();
    let Event::ItemOpened { item } = &**first else {
        panic!("{first:?}")
    };
    let key = RowKind::Item.key(item.id.as_bytes());
    let Some(Row::Item(row)) = store.row(thread(1), key).unwrap() else {
        panic!("no row")
    };
    assert_eq!(row.content, item.content);
}

#[test]
fn a_checkpoint_in_an_idle_moment_empties_the_write_ahead_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    append_all(&mut store, thread(1), vec![Vec::new(); 20]);
    assert_eq!(store.checkpoint().unwrap(), 0);
    append_all(&mut store, thread(1), vec![Vec::new(); 20]);
    store.verify_chain(thread(1)).unwrap();
}

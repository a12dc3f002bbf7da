//! Bodies by hash, and text of open items.

use super::support::*;
use crate::{Durability, LedgerStore, StoreError, open_text};
use pilothouse_domain::{
    BlobHash, Event, ItemStatus, LoggedEvent, item::Body, limits, row::OpenItem,
};
use proptest::prelude::*;

#[test]
fn any_range_of_a_stored_body_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let body: Vec<u8> = (0..700_000_u32)
        .map(|n| u8::try_from(n % 251).unwrap())
        .collect();
    let hash = BlobHash::of(&body);
    for _ in 0..2 {
        store
            .transaction(|tx| tx.put_blob(hash, &body), Durability::Lazy)
            .unwrap();
    }
    assert_eq!(store.blob_len(hash).unwrap(), Some(700_000));
    let piece = 256 * 1024;
    for (offset, len) in [
        (0, 1),
        (0, body.len()),
        (piece - 1, 2),
        (piece, piece),
        (piece - 3, 2 * piece),
        (699_999, 10),
        (700_000, 10),
        (800_000, 10),
        (5, 0),
        (0, usize::MAX),
    ] {
        let from = offset.min(body.len());
        let to = from.saturating_add(len).min(body.len());
        assert_eq!(
            store.blob(hash, offset as u64, len).unwrap().as_deref(),
            Some(&body[from..to]),
            "{len} from {offset}"
        );
    }
    let none = BlobHash::of(b"none");
    assert_eq!(store.blob(none, 0, 1).unwrap(), None);
    assert_eq!(store.blob_len(none).unwrap(), None);
    store
        .transaction(|tx| tx.put_blob(none, b""), Durability::Lazy)
        .unwrap();
    assert_eq!(store.blob(none, 0, 9).unwrap(), Some(Vec::new()));
}

#[test]
fn a_body_that_lost_a_piece_is_reported_not_shortened() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let body = vec![1; 600_000];
    let hash = BlobHash::of(&body);
    store
        .transaction(|tx| tx.put_blob(hash, &body), Durability::Lazy)
        .unwrap();
    drop(store);
    tamper(
        &dir.path().join("ledger.db"),
        "DELETE FROM blob_chunks WHERE starts_at = 262144",
    );
    let store = open(dir.path());
    assert!(store.blob(hash, 0, 100).unwrap().is_some());
    assert!(matches!(
        store.blob(hash, 0, 600_000),
        Err(StoreError::Corrupt { .. })
    ));
}

fn append_text(store: &mut LedgerStore, offset: u64, text: &str) -> Result<(), StoreError> {
    store.transaction(
        |tx| tx.append_open_text(item_id(1), thread(1), offset, text),
        Durability::Lazy,
    )
}

#[test]
fn a_piece_goes_only_where_the_saved_text_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    append_text(&mut store, 0, "größer").unwrap();
    for offset in [0, 6, 9] {
        let error = append_text(&mut store, offset, "x").unwrap_err();
        assert!(
            matches!(error, StoreError::OutOfPlace { ends_at: 8, .. }),
            "{error:?}"
        );
    }
    append_text(&mut store, 8, " als").unwrap();
    append_text(&mut store, 12, "").unwrap();
    drop(store);
    let mut store = open(dir.path());
    let open_text = store.open_text(item_id(1)).unwrap().unwrap();
    assert_eq!(
        (
            open_text.text.as_str(),
            open_text.starts_at,
            open_text.ends_at,
            open_text.dropped
        ),
        ("größer als", 0, 12, 0)
    );
    let tail = |from, text: &str| {
        vec![OpenItem {
            item: item_id(1),
            from,
            text: text.into(),
        }]
    };
    assert_eq!(
        store.open_items(thread(1), 100).unwrap(),
        tail(0, "größer als")
    );
    assert_eq!(store.open_items(thread(1), 6).unwrap(), tail(6, "er als"));
    assert_eq!(
        store.open_items(thread(1), 9).unwrap(),
        tail(4, "ßer als")
            .into_iter()
            .map(|mut open| {
                open.from = 4;
                open
            })
            .collect::<Vec<_>>(),
        "cut at a character"
    );
    assert!(store.open_items(thread(2), 100).unwrap().is_empty());
    store
        .transaction(|tx| tx.clear_open_text(item_id(1)), Durability::Lazy)
        .unwrap();
    assert_eq!(store.open_text(item_id(1)).unwrap(), None);
    assert!(store.open_items(thread(1), 100).unwrap().is_empty());
}

#[test]
fn a_text_over_the_cap_loses_its_middle_and_its_close_says_how_much() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let piece = "0123456789abcdef".repeat(256 * 1024 / 16);
    let pieces = limits::ITEM_TEXT / piece.len() + 4;
    let closed = store
        .transaction(
            |tx| {
                let mut offset = 0;
                for n in 0..pieces {
                    let text = format!("{n:06}{}", &piece[6..]);
                    tx.append_open_text(item_id(1), thread(1), offset, &text)?;
                    offset += text.len() as u64;
                }
                let streamed = tx.open_text(item_id(1))?.unwrap();
                assert_eq!(streamed.text.len(), limits::ITEM_TEXT);
                assert_eq!(streamed.dropped, 4 * piece.len() as u64);
                assert_eq!(streamed.ends_at, offset);
                assert!(streamed.text.starts_with("000000"));
                let last = &streamed.text[streamed.text.len() - piece.len()..];
                assert!(last.starts_with(&format!("{:06}", pieces - 1)));
                tx.append(
                    thread(1),
                    cause(1),
                    1,
                    vec![Event::ItemClosed {
                        item: item_id(1),
                        status: ItemStatus::Completed,
                        content: None,
                        streamed: Some(Body::inline(streamed.text)),
                    }],
                )
            },
            Durability::Lazy,
        )
        .unwrap();
    let LoggedEvent::Known(event) = &closed.events[0] else {
        panic!()
    };
    let Event::ItemClosed {
        streamed: Some(Body::Stored(stored)),
        ..
    } = &**event
    else {
        panic!()
    };
    assert_eq!(stored.bytes, limits::ITEM_TEXT as u64);
    assert_eq!(stored.dropped, 4 * piece.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pieces_of_a_text_are_the_whole_or_its_beginning_and_end(
        pieces in prop::collection::vec("[a-zäß€😀]{0,40}", 0..60),
        cap in 64_u64..2_000,
        window in 0_usize..500,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        let whole = pieces.concat();
        store
            .transaction(
                |tx| {
                    let number = tx.number(thread(1))?;
                    let mut offset = 0;
                    for piece in &pieces {
                        open_text::append(tx.db(), number, item_id(1), offset, piece, cap)?;
                        offset += piece.len() as u64;
                        let kept = open_text::read(tx.db(), item_id(1))?.unwrap();
                        assert!(kept.text.len() as u64 <= cap, "bounded at every step");
                    }
                    Ok::<_, StoreError>(())
                },
                Durability::Lazy,
            )
            .unwrap();
        let Some(kept) = store.open_text(item_id(1)).unwrap() else {
            prop_assert!(pieces.is_empty());
            return Ok(());
        };
        prop_assert_eq!(kept.ends_at, whole.len() as u64);
        prop_assert_eq!(kept.text.len() as u64 + kept.dropped, whole.len() as u64);
        if whole.len() as u64 <= cap {
            prop_assert_eq!(&kept.text, &whole);
        } else {
            // What is left is a beginning of at least half the cap and an end; the cut lies behind the beginning.
            let head = kept.text.bytes().zip(whole.bytes()).take_while(|(a, b)| a == b).count();
            prop_assert!(head as u64 >= cap / 2, "{} of {}", head, cap);
            let tail = kept.text.bytes().rev().zip(whole.bytes().rev()).take_while(|(a, b)| a == b).count();
            prop_assert!(head + tail >= kept.text.len());
        }
        let open = store.open_items(thread(1), window).unwrap().remove(0);
        prop_assert!(open.text.len() <= window);
        prop_assert_eq!(&whole[usize::try_from(open.from).unwrap()..], &open.text);
    }
}

/// A text of two-byte characters in pieces of odd lengths, long enough to be sealed.
fn long_text() -> Vec<String> {
    let lengths = [1, 700, 33_000, 5, 16_001];
    (0..40)
        .map(|n: usize| {
            let letter = char::from_u32(0xe0 + u32::try_from(n % 30).unwrap()).unwrap();
            letter.to_string().repeat(lengths[n % lengths.len()])
        })
        .collect()
}

#[test]
fn a_long_text_is_sealed_where_it_lies_and_read_by_its_hash() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let pieces = long_text();
    let whole = pieces.concat();
    let (saved, more) = pieces.split_at(37);
    let mut offset = 0;
    for piece in saved {
        append_text(&mut store, offset, piece).unwrap();
        offset += piece.len() as u64;
    }
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let sealed = store
        .transaction(
            |tx| {
                let body = tx
                    .bindings("agent", thread(1))
                    .streamed_with(item_id(1), &more);
                let Some(Body::Stored(body)) = body else {
                    panic!("{body:?}");
                };
                tx.seal_open_text(item_id(1), thread(1), &more, &body)?;
                Ok::<_, StoreError>(body)
            },
            Durability::Lazy,
        )
        .unwrap();
    let (as_offloaded, _) = Body::inline(whole.as_str()).offload().unwrap();
    assert_eq!(sealed, as_offloaded);
    assert_eq!(store.open_text(item_id(1)).unwrap(), None);
    assert!(store.open_items(thread(1), 100).unwrap().is_empty());
    assert_eq!(store.blob_len(sealed.hash).unwrap(), Some(sealed.bytes));
    for (offset, len) in [
        (0, 3),
        (1_399, 5),
        (0, 1 << 20),
        (sealed.bytes - 1, 9),
        (70_001, 65_536),
    ] {
        let from = usize::try_from(offset).unwrap();
        let expected = &whole.as_bytes()[from..whole.len().min(from + len)];
        let read = store.blob(sealed.hash, offset, len).unwrap().unwrap();
        assert!(read == expected, "{len} bytes at {offset}");
    }

    // The same text once more: its body is there already. And another item's text is not mixed up with it.
    store
        .transaction(
            |tx| {
                tx.append_open_text(item_id(2), thread(1), 0, &whole)?;
                tx.append_open_text(item_id(3), thread(1), 0, "other words")?;
                tx.seal_open_text(item_id(2), thread(1), &[], &sealed)
            },
            Durability::Lazy,
        )
        .unwrap();
    let other = store.open_text(item_id(3)).unwrap().unwrap();
    assert_eq!(other.text, "other words");
    let read = store.blob(sealed.hash, 0, whole.len()).unwrap().unwrap();
    assert!(read == whole.as_bytes());
    let wrong = store.transaction(
        |tx| tx.seal_open_text(item_id(3), thread(1), &[], &sealed),
        Durability::Lazy,
    );
    assert!(
        matches!(wrong, Err(StoreError::Corrupt { .. })),
        "{wrong:?}"
    );
}

#[test]
fn a_text_over_the_cap_is_sealed_with_what_followed_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let piece = "0123456789abcdef".repeat(256 * 1024 / 16);
    let more = ["and ", &piece[1..], "the end"];
    let (body, before) = store
        .transaction(
            |tx| {
                for n in 0..=limits::ITEM_TEXT / piece.len() {
                    tx.append_open_text(item_id(1), thread(1), (n * piece.len()) as u64, &piece)?;
                }
                let before = tx.open_text(item_id(1))?.unwrap();
                let body = tx
                    .bindings("agent", thread(1))
                    .streamed_with(item_id(1), &more);
                let Some(Body::Stored(body)) = body else {
                    panic!("{body:?}");
                };
                tx.seal_open_text(item_id(1), thread(1), &more, &body)?;
                Ok::<_, StoreError>((body, before))
            },
            Durability::Lazy,
        )
        .unwrap();
    let whole = before.text + &more.concat();
    assert_eq!(before.dropped, piece.len() as u64);
    assert_eq!(body.dropped, before.dropped);
    assert_eq!(body.bytes, whole.len() as u64);
    let read = store.blob(body.hash, 0, whole.len()).unwrap().unwrap();
    assert!(read == whole.as_bytes());
}

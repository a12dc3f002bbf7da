//! What a ledger gives fits into frames, whatever it gives.

use crate::examples::{ITEM, THREAD, entry, feed_thread, feed_update, gap};
use pilothouse_domain::row::OpenItem;
use pilothouse_wire::message::{
    EncodeError, HostMessage, PAGE_BYTES, encode, entries_in_pages, feed_in_pages,
    subscribed_in_pages,
};

fn sizes(messages: &[HostMessage]) -> Vec<usize> {
    messages
        .iter()
        .map(|message| encode(message).unwrap().len())
        .collect()
}

#[test]
fn entries_keep_their_order_and_none_is_left_out() {
    let entries: Vec<_> = (1..=2000)
        .map(|seq| pilothouse_domain::Entry { seq, ..entry() })
        .collect();
    let messages = entries_in_pages(7, entries.clone()).unwrap();
    assert!(messages.len() > 3, "{}", messages.len());
    assert!(
        sizes(&messages)
            .iter()
            .all(|size| *size < PAGE_BYTES + 4096),
        "{:?}",
        sizes(&messages)
    );
    let mut read = Vec::new();
    for message in messages {
        let HostMessage::Entries { sub: 7, entries } = message else {
            panic!("{message:?}")
        };
        read.extend(entries);
    }
    assert_eq!(read, entries);
    assert!(entries_in_pages(7, vec![]).unwrap().is_empty());
}

#[test]
fn a_large_step_of_the_feed_comes_in_parts_and_only_the_last_is_a_place_to_come_back_to() {
    let threads = vec![feed_thread(); 1000];
    let messages = feed_in_pages(1, feed_update(threads)).unwrap();
    let count = messages.len();
    assert!(count > 3, "{count}");
    let mut read = 0;
    for (index, message) in messages.into_iter().enumerate() {
        let HostMessage::Feed { sub: 1, update } = message else {
            panic!("{message:?}")
        };
        assert_eq!((update.reset, update.more), (index == 0, index + 1 < count));
        assert_eq!(update.removed.is_empty(), index > 0);
        read += update.threads.len();
    }
    assert_eq!(read, 1000);
    assert_eq!(
        feed_in_pages(1, feed_update(vec![])).unwrap().len(),
        1,
        "an empty step is still told"
    );
}

#[test]
fn threads_with_the_largest_requests_still_fit() {
    let mut thread = feed_thread();
    thread.requests[0].subject = "x".repeat(pilothouse_domain::limits::SUBJECT_TEXT);
    let messages = feed_in_pages(1, feed_update(vec![thread.clone(), thread])).unwrap();
    assert_eq!(sizes(&messages).len(), 2);
}

#[test]
fn texts_of_open_items_that_do_not_fit_beside_the_snapshot_follow() {
    let open = |bytes: usize| OpenItem {
        item: ITEM,
        from: 0,
        text: "y".repeat(bytes),
    };
    let one = subscribed_in_pages(2, THREAD, gap(vec![open(10)])).unwrap();
    assert!(
        matches!(&one[..], [HostMessage::Subscribed { answer, .. }] if answer.open_items.len() == 1)
    );

    let many = subscribed_in_pages(
        2,
        THREAD,
        gap(vec![open(400_000), open(400_000), open(400_000)]),
    )
    .unwrap();
    assert_eq!(sizes(&many).len(), 3);
    let texts: usize = many
        .iter()
        .map(|message| match message {
            HostMessage::Subscribed { answer, .. } => answer.open_items.len(),
            HostMessage::OpenItems { items, .. } => items.len(),
            other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(texts, 3);

    let error = subscribed_in_pages(2, THREAD, gap(vec![open(1 << 20)])).unwrap_err();
    assert!(matches!(
        error,
        EncodeError::TooLarge {
            kind: "open_items",
            ..
        }
    ));
}

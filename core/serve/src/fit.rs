//! Keeps what a ledger gives within what a frame can carry, where paging alone does not.

use pilothouse_domain::{feed::FeedUpdate, row::OpenItem};

/// Bytes of the text of one open item that are sent: its tail. The rest is seen when the item closes.
const OPEN_TEXT: usize = 64 * 1024;
/// Bytes of JSON of one thread's open requests in the feed; a frame holds a little more.
const REQUESTS: usize = 900 * 1024;

/// Cuts the texts of open items to their tails.
pub(crate) fn shorten(items: &mut [OpenItem]) {
    for item in items {
        let Some(excess) = item
            .text
            .len()
            .checked_sub(OPEN_TEXT)
            .filter(|&excess| excess > 0)
        else {
            continue;
        };
        let cut = (excess..=item.text.len())
            .find(|&at| item.text.is_char_boundary(at))
            .unwrap_or(item.text.len());
        item.text.drain(..cut);
        item.from += cut as u64;
    }
}

/// Leaves the largest requests out of threads whose requests do not fit into one frame: they are seen in their thread,
/// and one of them must not keep the whole list from every device.
pub(crate) fn leave_out_what_cannot_fit(update: &mut FeedUpdate) {
    for thread in &mut update.threads {
        let bytes = |request: &_| serde_json::to_vec(request).map_or(usize::MAX, |json| json.len());
        let mut sizes: Vec<usize> = thread.requests.iter().map(bytes).collect();
        while sizes
            .iter()
            .fold(0usize, |sum, &size| sum.saturating_add(size))
            > REQUESTS
        {
            let Some((largest, size)) = sizes
                .iter()
                .copied()
                .enumerate()
                .max_by_key(|(_, size)| *size)
            else {
                break;
            };
            let request = thread.requests.remove(largest);
            sizes.remove(largest);
            tracing::warn!(request = %request.id, thread = %thread.summary.thread, size, "a request is too large for the list");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilothouse_domain::ItemId;

    #[test]
    fn long_open_texts_keep_their_tails_at_the_right_offset() {
        let text = "ü".repeat(100_000);
        let mut items = vec![
            OpenItem {
                item: ItemId::default(),
                from: 10,
                text: text.clone(),
            },
            OpenItem {
                item: ItemId::default(),
                from: 0,
                text: "short".into(),
            },
        ];
        shorten(&mut items);
        assert_eq!(items[0].text.len(), OPEN_TEXT);
        assert_eq!(
            items[0].from - 10 + items[0].text.len() as u64,
            text.len() as u64
        );
        assert_eq!((items[1].from, items[1].text.as_str()), (0, "short"));
    }
}

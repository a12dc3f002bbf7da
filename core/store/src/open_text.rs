//! Text of items that are still open, saved piece by piece. The same in ledger and replica.
//!
//! Offsets count UTF-8 bytes of everything that was ever appended. Beyond the cap the middle is cut out, whole pieces
//! at a time, and counted: the first half of the cap and the newest text stay (DETAILS section 2, *Long output*).

use crate::{
    blobs,
    codec::{int, nat},
    db::Db,
    error::{Result, StoreError},
};
use pilothouse_domain::{
    Body, ItemId,
    item::{BodyBuilder, StoredBody},
    limits,
    row::OpenItem,
};

/// A longer piece is stored as several, so that the middle can be cut out in steps.
const PIECE: usize = 256 * 1024;

/// The saved text of an open item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenText {
    /// What was kept: the beginning and the end.
    pub text: String,
    /// Offset of its first byte; over 0 on a device that saw the item late.
    pub starts_at: u64,
    /// Offset behind its last byte: where the next piece goes.
    pub ends_at: u64,
    /// Bytes cut out of the middle.
    pub dropped: u64,
}

struct Head {
    number: i64,
    starts_at: u64,
    ends_at: u64,
    kept: u64,
    dropped: u64,
}

fn head(db: &Db, item: ItemId) -> Result<Option<Head>> {
    db.one(
        "reading an open item",
        "SELECT number, starts_at, ends_at, kept, dropped FROM open_texts WHERE item = ?1",
        [item.as_bytes()],
        |row| {
            Ok(Head {
                number: row.get(0)?,
                starts_at: nat(row.get(1)?),
                ends_at: nat(row.get(2)?),
                kept: nat(row.get(3)?),
                dropped: nat(row.get(4)?),
            })
        },
    )
}

/// Appends a piece. `offset` has to be where the saved text ends; for an item without saved text it says where its
/// text begins.
pub(crate) fn append(
    db: &Db,
    thread: i64,
    item: ItemId,
    offset: u64,
    text: &str,
    cap: u64,
) -> Result<()> {
    let doing = "saving an open item's text";
    let mut head = match head(db, item)? {
        Some(head) => head,
        None => {
            db.write(
                doing,
                "INSERT INTO open_texts (item, thread, starts_at, ends_at, kept) VALUES (?1, ?2, ?3, ?3, 0)",
                (item.as_bytes(), thread, int(offset)),
            )?;
            Head {
                number: db.last_rowid(),
                starts_at: offset,
                ends_at: offset,
                kept: 0,
                dropped: 0,
            }
        }
    };
    if head.ends_at != offset {
        return Err(StoreError::OutOfPlace {
            item,
            ends_at: head.ends_at,
            offset,
        });
    }
    let piece = PIECE.min(usize::try_from(cap / 8).unwrap_or(PIECE)).max(4);
    let mut rest = text;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.floor_char_boundary(piece));
        db.write(
            doing,
            "INSERT INTO open_chunks (open_text, starts_at, text) VALUES (?1, ?2, ?3)",
            (head.number, int(head.ends_at), now),
        )?;
        head.ends_at += now.len() as u64;
        head.kept += now.len() as u64;
        rest = later;
    }
    while head.kept > cap {
        let oldest = db.one(
            doing,
            "SELECT starts_at, octet_length(text) FROM open_chunks WHERE open_text = ?1 AND starts_at >= ?2 \
             ORDER BY starts_at LIMIT 1",
            (head.number, int(head.starts_at + cap / 2)),
            |row| Ok((row.get::<_, i64>(0)?, nat(row.get(1)?))),
        )?;
        let Some((starts_at, bytes)) = oldest else {
            break;
        };
        db.write(
            doing,
            "DELETE FROM open_chunks WHERE open_text = ?1 AND starts_at = ?2",
            (head.number, starts_at),
        )?;
        head.kept -= bytes;
        head.dropped += bytes;
    }
    db.write(
        doing,
        "UPDATE open_texts SET ends_at = ?2, kept = ?3, dropped = ?4 WHERE number = ?1",
        (
            head.number,
            int(head.ends_at),
            int(head.kept),
            int(head.dropped),
        ),
    )?;
    Ok(())
}

/// The saved text; `None` if nothing was saved.
pub(crate) fn read(db: &Db, item: ItemId) -> Result<Option<OpenText>> {
    let Some(head) = head(db, item)? else {
        return Ok(None);
    };
    let mut text = String::with_capacity(usize::try_from(head.kept).unwrap_or(0));
    pieces(db, head.number, |piece| text.push_str(piece))?;
    Ok(Some(OpenText {
        text,
        starts_at: head.starts_at,
        ends_at: head.ends_at,
        dropped: head.dropped,
    }))
}

/// Where the saved text ends and how much of it was cut out: (end, dropped).
pub(crate) fn extent(db: &Db, item: ItemId) -> Result<Option<(u64, u64)>> {
    Ok(head(db, item)?.map(|head| (head.ends_at, head.dropped)))
}

/// The end of the saved text, at most `max_bytes`, cut at a character.
pub(crate) fn tail(db: &Db, item: ItemId, max_bytes: usize) -> Result<Option<OpenItem>> {
    let Some(head) = head(db, item)? else {
        return Ok(None);
    };
    let mut pieces: Vec<String> = Vec::new();
    let mut bytes = 0;
    let mut from = head.ends_at;
    db.scan(
        "reading an open item's text",
        "SELECT starts_at, text FROM open_chunks WHERE open_text = ?1 ORDER BY starts_at DESC",
        [head.number],
        |row| {
            let starts_at = nat(row.get(0).map_err(db.fail("reading an open item's text"))?);
            let piece: String = row.get(1).map_err(db.fail("reading an open item's text"))?;
            if starts_at + piece.len() as u64 != from {
                return Ok(false);
            }
            let room = max_bytes.saturating_sub(bytes);
            if piece.len() > room {
                let cut = piece.ceil_char_boundary(piece.len() - room);
                from -= (piece.len() - cut) as u64;
                pieces.push(piece[cut..].to_owned());
                return Ok(false);
            }
            bytes += piece.len();
            from = starts_at;
            pieces.push(piece);
            Ok(bytes < max_bytes)
        },
    )?;
    pieces.reverse();
    Ok(Some(OpenItem {
        item,
        from,
        text: pieces.concat(),
    }))
}

/// Items of a thread with saved text.
pub(crate) fn items(db: &Db, thread: i64) -> Result<Vec<ItemId>> {
    db.all(
        "listing open items",
        "SELECT item FROM open_texts WHERE thread = ?1 ORDER BY number",
        [thread],
        |row| row.get(0).map(ItemId::from_bytes),
    )
}

/// The saved text and what follows it, in one piece if it is short, otherwise as a body by its hash, for which
/// [`seal`] has to be called once the rest is saved too. `None` if there is none.
pub(crate) fn body(db: &Db, item: ItemId, more: &[&str]) -> Result<Option<Body>> {
    let found = head(db, item)?;
    let following: u64 = more.iter().map(|text| text.len() as u64).sum();
    let kept = found.as_ref().map_or(0, |head| head.kept);
    if kept + following <= limits::STREAMED_WHOLE {
        let mut text = read(db, item)?.map(|open| open.text).unwrap_or_default();
        more.iter().for_each(|more| text.push_str(more));
        return Ok((!text.is_empty()).then_some(Body::Inline(text)));
    }
    let mut body = BodyBuilder::default();
    if let Some(head) = &found {
        pieces(db, head.number, |piece| body.push(piece))?;
    }
    more.iter().for_each(|text| body.push(text));
    let dropped = found.map_or(0, |head| head.dropped);
    Ok(Some(Body::Stored(body.finish(dropped))))
}

/// Makes the saved text a stored body, without a copy: its pieces stay where they are.
pub(crate) fn seal(db: &Db, item: ItemId, body: &StoredBody) -> Result<()> {
    let doing = "making an open item's text a stored body";
    let Some(head) = head(db, item)?.filter(|head| head.kept == body.bytes) else {
        return Err(db.corrupt(doing, format!("item {item} has another text than its body")));
    };
    if blobs::len(db, body.hash)?.is_some() {
        return clear(db, item);
    }
    blobs::put_sealed(db, body.hash, head.kept, head.number)?;
    // The row keeps its number, by which the pieces are found, from being given again.
    db.write(
        doing,
        "UPDATE open_texts SET item = ?2, thread = 0 WHERE number = ?1",
        (head.number, body.hash.as_bytes()),
    )?;
    Ok(())
}

/// Hands out the pieces of a text in their order.
fn pieces(db: &Db, number: i64, mut take: impl FnMut(&str)) -> Result<()> {
    let doing = "reading an open item's text";
    db.scan(
        doing,
        "SELECT text FROM open_chunks WHERE open_text = ?1 ORDER BY starts_at",
        [number],
        |row| {
            let piece = row
                .get_ref(0)
                .and_then(|value| value.as_str().map_err(Into::into))
                .map_err(db.fail(doing))?;
            take(piece);
            Ok(true)
        },
    )
}

/// A part of a sealed text, `len` bytes of it or fewer at its end.
pub(crate) fn sealed_range(db: &Db, number: i64, start: u64, end: u64) -> Result<Vec<u8>> {
    let doing = "reading a stored body";
    let lengths: Vec<(i64, u64)> = db.all(
        doing,
        "SELECT starts_at, octet_length(text) FROM open_chunks WHERE open_text = ?1 ORDER BY starts_at",
        [number],
        |row| Ok((row.get(0)?, nat(row.get(1)?))),
    )?;
    let mut out = Vec::with_capacity(usize::try_from(end - start).unwrap_or(0));
    let mut at = 0;
    for (starts_at, bytes) in lengths {
        let place = at..at + bytes;
        at = place.end;
        if place.end <= start || place.start >= end {
            continue;
        }
        let piece: Option<String> = db.one(
            doing,
            "SELECT text FROM open_chunks WHERE open_text = ?1 AND starts_at = ?2",
            (number, starts_at),
            |row| row.get(0),
        )?;
        let within = |offset: u64| usize::try_from(offset - place.start).unwrap_or(usize::MAX);
        let part = within(start.max(place.start))..within(end.min(place.end));
        let piece = piece.unwrap_or_default();
        out.extend_from_slice(piece.as_bytes().get(part).unwrap_or_default());
    }
    Ok(out)
}

/// Forgets the saved text of an item.
pub(crate) fn clear(db: &Db, item: ItemId) -> Result<()> {
    let doing = "clearing an open item's text";
    if let Some(head) = head(db, item)? {
        db.write(
            doing,
            "DELETE FROM open_chunks WHERE open_text = ?1",
            [head.number],
        )?;
        db.write(
            doing,
            "DELETE FROM open_texts WHERE number = ?1",
            [head.number],
        )?;
    }
    Ok(())
}

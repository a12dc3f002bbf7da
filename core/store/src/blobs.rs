//! Bodies by hash, in pieces, so that a range is read without the whole.

use crate::{
    codec::{int, nat},
    db::Db,
    error::Result,
    open_text,
};
use pilothouse_domain::BlobHash;

const PIECE: usize = 256 * 1024;

struct Found {
    number: i64,
    bytes: u64,
    /// The streamed text whose pieces are the body's, where it was sealed.
    sealed: Option<i64>,
}

fn find(db: &Db, hash: BlobHash) -> Result<Option<Found>> {
    db.one(
        "looking for a stored body",
        "SELECT number, bytes, open_text FROM blobs WHERE hash = ?1",
        [hash.as_bytes()],
        |row| {
            Ok(Found {
                number: row.get(0)?,
                bytes: nat(row.get(1)?),
                sealed: row.get(2)?,
            })
        },
    )
}

/// Keeps a streamed text as a body; its pieces stay those of the text.
pub(crate) fn put_sealed(db: &Db, hash: BlobHash, bytes: u64, open_text: i64) -> Result<()> {
    db.write(
        "storing a body",
        "INSERT INTO blobs (hash, bytes, open_text) VALUES (?1, ?2, ?3)",
        (hash.as_bytes(), int(bytes), open_text),
    )?;
    Ok(())
}

/// Stores a body; one that is there already is left alone.
pub(crate) fn put(db: &Db, hash: BlobHash, bytes: &[u8]) -> Result<()> {
    let doing = "storing a body";
    if find(db, hash)?.is_some() {
        return Ok(());
    }
    db.write(
        doing,
        "INSERT INTO blobs (hash, bytes) VALUES (?1, ?2)",
        (hash.as_bytes(), int(bytes.len() as u64)),
    )?;
    let number = db.last_rowid();
    for (index, piece) in bytes.chunks(PIECE).enumerate() {
        db.write(
            doing,
            "INSERT INTO blob_chunks (blob, starts_at, bytes) VALUES (?1, ?2, ?3)",
            (number, int((index * PIECE) as u64), piece),
        )?;
    }
    Ok(())
}

/// Size of a stored body, bytes.
pub(crate) fn len(db: &Db, hash: BlobHash) -> Result<Option<u64>> {
    Ok(find(db, hash)?.map(|found| found.bytes))
}

/// A part of a stored body; shorter at its end, `None` if there is no such body.
pub(crate) fn range(db: &Db, hash: BlobHash, offset: u64, len: usize) -> Result<Option<Vec<u8>>> {
    let doing = "reading a stored body";
    let Some(found) = find(db, hash)? else {
        return Ok(None);
    };
    let start = offset.min(found.bytes);
    let end = start.saturating_add(len as u64).min(found.bytes);
    let out = match found.sealed {
        Some(text) => open_text::sealed_range(db, text, start, end)?,
        None => chunks(db, found.number, start, end)?,
    };
    if out.len() as u64 != end - start {
        return Err(db.corrupt(doing, format!("body {hash} lacks some of its bytes")));
    }
    Ok(Some(out))
}

fn chunks(db: &Db, number: i64, start: u64, end: u64) -> Result<Vec<u8>> {
    let doing = "reading a stored body";
    let mut out = Vec::with_capacity(usize::try_from(end - start).unwrap_or(0));
    let first = start - start % PIECE as u64;
    db.scan(
        doing,
        "SELECT starts_at, bytes FROM blob_chunks WHERE blob = ?1 AND starts_at >= ?2 AND starts_at < ?3 \
         ORDER BY starts_at",
        (number, int(first), int(end)),
        |row| {
            let starts_at = nat(row.get(0).map_err(db.fail(doing))?);
            let piece = row
                .get_ref(1)
                .and_then(|value| value.as_blob().map_err(Into::into))
                .map_err(db.fail(doing))?;
            let from = usize::try_from(start.saturating_sub(starts_at)).unwrap_or(usize::MAX);
            let to = usize::try_from(end - starts_at).unwrap_or(usize::MAX).min(piece.len());
            out.extend_from_slice(piece.get(from..to).unwrap_or_default());
            Ok(true)
        },
    )?;
    Ok(out)
}

//! A part of a stored text as a binary frame, where the connection's encoding has them: the answer to a blob query.
//!
//! One byte of kind, then big-endian: the query's number (4 bytes), the text's address (32), the part's first byte (8),
//! the bytes of the whole (8), and the bytes of the part up to the end of the frame, at most [`BLOB_CHUNK`].

use super::{BLOB_CHUNK, Base64, BlobChunk, DecodeError};
use crate::stream::KIND_BLOB;
use pilothouse_domain::BlobHash;

/// Bytes before those of the part.
const HEADER: usize = 1 + 4 + 32 + 8 + 8;

pub(super) fn write(id: u32, chunk: &BlobChunk) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER + chunk.data.0.len());
    frame.push(KIND_BLOB);
    frame.extend(id.to_be_bytes());
    frame.extend(chunk.hash.as_bytes());
    frame.extend(chunk.offset.to_be_bytes());
    frame.extend(chunk.total.to_be_bytes());
    frame.extend(&chunk.data.0);
    frame
}

pub(super) fn read(frame: &[u8]) -> Result<(u32, BlobChunk), DecodeError> {
    let broken = |what: &str| DecodeError::NotAMessage(format!("a binary frame {what}"));
    let Some((&[KIND_BLOB, ref header @ ..], data)) = frame.split_first_chunk::<HEADER>() else {
        return Err(broken("is no part of a stored text"));
    };
    let (id, rest) = taken::<4>(header);
    let (hash, rest) = taken::<32>(rest);
    let (offset, rest) = taken::<8>(rest);
    let (total, _) = taken::<8>(rest);
    let (offset, total) = (u64::from_be_bytes(offset), u64::from_be_bytes(total));
    if data.len() > BLOB_CHUNK as usize {
        return Err(broken("holds more of a stored text than is allowed"));
    }
    let fits = offset
        .checked_add(data.len() as u64)
        .is_some_and(|end| end <= total);
    if !fits && !data.is_empty() {
        return Err(broken("holds more of a stored text than there is"));
    }
    let chunk = BlobChunk {
        hash: BlobHash::from_bytes(hash),
        offset,
        total,
        data: Base64(data.to_vec()),
    };
    Ok((u32::from_be_bytes(id), chunk))
}

/// The first `N` bytes of a header that is long enough.
fn taken<const N: usize>(bytes: &[u8]) -> ([u8; N], &[u8]) {
    bytes
        .split_first_chunk::<N>()
        .map_or(([0; N], &[]), |(first, rest)| (*first, rest))
}

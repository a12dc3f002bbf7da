//! Hashes: canonical bytes of a value, content hashes that a person's device checks, and the log's rolling chain.

use serde::Serialize;

/// The bytes over which a value is hashed and compared: compact JSON in declaration order.
///
/// Domain types hold no floats and no hash-ordered maps, so equal values have equal bytes.
pub fn canonical_json<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    #[expect(
        clippy::expect_used,
        reason = "domain types have string keys and no failing Serialize"
    )]
    serde_json::to_vec(value).expect("domain values serialise")
}

/// First 16 bytes of BLAKE3 over the parts, each preceded by its length, so that no two lists of parts collide.
pub fn id_bytes(parts: &[&[u8]]) -> [u8; 16] {
    let full = blake3_parts(parts);
    let mut out = [0; 16];
    out.copy_from_slice(&full[..16]);
    out
}

/// BLAKE3 over the parts, each preceded by its length (u64, little endian).
pub fn blake3_parts(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// SHA-256, for content hashes: the one hash that every device platform has natively (DETAILS section 4).
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let mut out = [0; 32];
    out.copy_from_slice(digest.as_ref());
    out
}

/// Lower-case hexadecimal.
pub fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        })
}

/// Reads lower- or upper-case hexadecimal of exactly `N` bytes.
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != N * 2 || !text.is_ascii() {
        return None;
    }
    let mut out = [0; N];
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[i * 2..i * 2 + 2], 16).ok()?;
    }
    Some(out)
}

const BASE32: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// 16 bytes as 26 characters of Crockford's base 32, lower case, most significant first.
pub fn to_base32(bytes: &[u8; 16]) -> String {
    let value = u128::from_be_bytes(*bytes);
    (0..26)
        .rev()
        .map(|i| char::from(BASE32[(value >> (i * 5) & 31) as usize]))
        .collect()
}

/// Reads what [`to_base32`] writes, in either case.
pub fn from_base32(text: &str) -> Option<[u8; 16]> {
    if text.len() != 26 {
        return None;
    }
    let mut value: u128 = 0;
    for (i, byte) in text.bytes().enumerate() {
        let digit = BASE32
            .iter()
            .position(|&c| c == byte.to_ascii_lowercase())? as u128;
        if i == 0 && digit > 7 {
            return None;
        }
        value = value << 5 | digit;
    }
    Some(value.to_be_bytes())
}

//! What kind of picture a file is, by its first bytes: a device's word for it may be wrong, and agents differ in what they do
//! then.

use crate::contract::InputFile;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use std::{io, path::Path};
use tokio::io::AsyncReadExt as _;

/// Kinds of pictures that models read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Picture {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// WebP.
    Webp,
}

impl Picture {
    /// Its MIME type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// The kind that begins so; `None` if it is none of these.
    pub fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [
                b'R',
                b'I',
                b'F',
                b'F',
                _,
                _,
                _,
                _,
                b'W',
                b'E',
                b'B',
                b'P',
                ..,
            ] => Some(Self::Webp),
            _ => None,
        }
    }
}

/// The kind of a file.
///
/// # Errors
/// What the system says when it cannot be read.
pub async fn kind(path: &Path) -> io::Result<Option<Picture>> {
    let file = tokio::fs::File::open(path).await?;
    let mut head = Vec::with_capacity(16);
    file.take(16).read_to_end(&mut head).await?;
    Ok(Picture::of(&head))
}

/// Makes sure that every file is a picture, before any is handed to an agent that would put words in the place of another
/// thing and go on as if nothing were amiss. `agent` is its name for a person.
///
/// # Errors
/// In words, which one is none, or cannot be read.
pub async fn kinds(files: &[InputFile], agent: &str) -> Result<Vec<Picture>, String> {
    let mut kinds = Vec::with_capacity(files.len());
    for file in files {
        match kind(&file.path).await {
            Ok(Some(kind)) => kinds.push(kind),
            Ok(None) => {
                return Err(format!(
                    "`{}` is no picture that {agent} reads (PNG, JPEG, GIF, WebP); nothing was sent",
                    file.name
                ));
            }
            Err(error) => return Err(unreadable(file, &error)),
        }
    }
    Ok(kinds)
}

/// A picture as it stands in a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Its kind.
    pub kind: Picture,
    /// The file in base64.
    pub data: String,
}

/// Reads pictures for an agent that takes them in its frames; together they may be `most` bytes, so that no frame grows
/// beyond what both sides read.
///
/// # Errors
/// In words, as [`kinds`]; and if they are too large together.
pub async fn encoded(files: &[InputFile], agent: &str, most: u64) -> Result<Vec<Encoded>, String> {
    let bytes = files
        .iter()
        .fold(0, |sum: u64, file| sum.saturating_add(file.bytes));
    if bytes > most {
        let mib = |bytes: u64| bytes.div_ceil(1024 * 1024);
        return Err(format!(
            "the pictures are {} MiB together, and at most {} MiB go to {agent} with one message; nothing was sent",
            mib(bytes),
            mib(most)
        ));
    }
    let mut pictures = Vec::with_capacity(files.len());
    for (file, kind) in files.iter().zip(kinds(files, agent).await?) {
        let bytes = tokio::fs::read(&file.path).await;
        let bytes = bytes.map_err(|error| unreadable(file, &error))?;
        let data = BASE64_STANDARD.encode(bytes);
        pictures.push(Encoded { kind, data });
    }
    Ok(pictures)
}

fn unreadable(file: &InputFile, error: &io::Error) -> String {
    format!("`{}` cannot be read: {error}; nothing was sent", file.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_known_by_its_first_bytes_alone() {
        let known = [
            (&b"\x89PNG\r\n\x1a\n...."[..], Picture::Png),
            (b"\xff\xd8\xff\xe0", Picture::Jpeg),
            (b"GIF89a", Picture::Gif),
            (b"RIFF\0\0\0\0WEBPVP8 ", Picture::Webp),
        ];
        for (head, kind) in known {
            assert_eq!(Picture::of(head), Some(kind));
            assert_eq!(Picture::of(&head[..2]), None);
        }
        assert_eq!(Picture::of(b"<svg xmlns="), None);
        assert_eq!(Picture::of(b""), None);
    }
}

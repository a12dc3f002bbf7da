//! What kind of picture a file is, by its first bytes: a device's word for it may be wrong, and agents differ in what they do
//! then.

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

//! Files that go with a message, laid out where an agent's process can read them.

use pilothouse_domain::thread::Attachment;
use pilothouse_providers::contract::InputFile;
use pilothouse_store::LedgerReader;
use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Bytes that are copied at a time.
const PIECE: usize = 1024 * 1024;

/// Where they stand, in a ledger's directory.
pub(crate) fn place(dir: &Path) -> PathBuf {
    dir.join("files")
}

/// Removes what an earlier life laid out: its agents are gone.
pub(crate) fn clear(dir: &Path) {
    match fs::remove_dir_all(place(dir)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, "files of earlier messages could not be removed");
        }
        _ => {}
    }
}

/// Lays files out, each under its address, so that the same picture stands there once. Says in words which one is missing.
pub(crate) async fn lay_out(
    dir: PathBuf,
    attachments: Vec<Attachment>,
) -> Result<Vec<InputFile>, String> {
    if attachments.is_empty() {
        return Ok(Vec::new());
    }
    let work = move || -> Result<Vec<InputFile>, String> {
        let reader = LedgerReader::open(&dir).map_err(|error| error.to_string())?;
        let place = place(&dir);
        make_private(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        attachments
            .into_iter()
            .map(|file| {
                let path = place.join(file_name(&file));
                if fs::metadata(&path).is_ok_and(|found| found.len() == file.bytes) {
                    return Ok(input(file, path));
                }
                copy(&reader, &file, &path)
                    .map_err(|problem| format!("`{}` {problem}", file.name))?;
                Ok(input(file, path))
            })
            .collect()
    };
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err("the files could not be laid out".to_owned()))
}

fn input(file: Attachment, path: PathBuf) -> InputFile {
    InputFile {
        name: file.name,
        media_type: file.media_type,
        bytes: file.bytes,
        path,
    }
}

/// Its address, with an ending that agents know kinds by.
fn file_name(file: &Attachment) -> String {
    let ending = match file.media_type.as_str() {
        "image/png" => ".png",
        "image/jpeg" => ".jpg",
        "image/gif" => ".gif",
        "image/webp" => ".webp",
        "text/plain" => ".txt",
        "application/pdf" => ".pdf",
        _ => "",
    };
    format!("{}{ending}", file.hash)
}

fn copy(reader: &LedgerReader, file: &Attachment, path: &Path) -> Result<(), String> {
    // Two threads may bring the same file at once: each writes its own, and the last one to be done stays.
    static PARTS: AtomicU64 = AtomicU64::new(0);
    let number = PARTS.fetch_add(1, Ordering::Relaxed);
    let part = path.with_extension(format!("{number}.part"));
    let copied = write(reader, file, &part).and_then(|()| {
        fs::rename(&part, path)
            .map_err(|error| format!("could not be laid out for the agent: {error}"))
    });
    if copied.is_err() {
        let _ = fs::remove_file(&part);
    }
    copied
}

fn write(reader: &LedgerReader, file: &Attachment, part: &Path) -> Result<(), String> {
    let failed = |problem: String| format!("could not be laid out for the agent: {problem}");
    let mut out = fs::File::create(part).map_err(|error| failed(error.to_string()))?;
    let mut at = 0;
    while at < file.bytes {
        let bytes = reader
            .blob(file.hash, at, PIECE)
            .map_err(|error| failed(error.to_string()))?
            .filter(|bytes| !bytes.is_empty())
            .ok_or("is not on the host any more; send it again")?;
        out.write_all(&bytes)
            .map_err(|error| failed(error.to_string()))?;
        at += bytes.len() as u64;
    }
    Ok(())
}

#[cfg(unix)]
fn make_private(place: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(place)
}

#[cfg(not(unix))]
fn make_private(place: &Path) -> io::Result<()> {
    fs::create_dir_all(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilothouse_domain::{BlobHash, Epoch};
    use pilothouse_store::{Durability, LedgerStore};

    #[tokio::test]
    async fn a_file_that_many_messages_bring_at_once_is_whole_for_each_and_nothing_is_left_over() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..8 * PIECE)
            .map(|n| u8::try_from(n % 251).unwrap())
            .collect();
        let hash = BlobHash::of(&bytes);
        let mut store = LedgerStore::open(dir.path(), Epoch::default()).unwrap();
        store
            .transaction(|tx| tx.put_blob(hash, &bytes), Durability::Lazy)
            .unwrap();
        let file = |hash, bytes| Attachment {
            hash,
            name: "shot.png".to_owned(),
            media_type: "image/png".to_owned(),
            bytes,
        };
        let same = file(hash, bytes.len() as u64);
        let all = (0..8).map(|_| lay_out(dir.path().to_owned(), vec![same.clone()]));
        for laid_out in futures_util::future::join_all(all).await {
            assert!(fs::read(&laid_out.unwrap()[0].path).unwrap() == bytes);
        }
        let gone = file(BlobHash::of(b"nothing"), 7);
        let problem = lay_out(dir.path().to_owned(), vec![gone]).await;
        assert!(problem.unwrap_err().contains("send it again"));
        assert_eq!(fs::read_dir(place(dir.path())).unwrap().count(), 1);
    }
}

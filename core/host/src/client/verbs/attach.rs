//! Files that go with a message.

use crate::client::{
    device::Device,
    failure::{Code, Failure},
    show,
};
use pilothouse_domain::{HostId, limits, thread::Attachment};
use pilothouse_engine::{LinkState, Scope};
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// How long another process' verb is waited for.
const OTHERS: Duration = Duration::from_secs(3);

/// A file as it was read here.
pub(super) struct File {
    name: String,
    media_type: &'static str,
    bytes: Vec<u8>,
}

/// Reads the files that were named; what is wrong with one is said before anything is sent.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<File>, Failure> {
    if paths.len() > limits::ATTACHMENTS {
        return Err(Failure::new(
            Code::Usage,
            format!(
                "{} files are attached, at most {} can be",
                paths.len(),
                limits::ATTACHMENTS
            ),
        ));
    }
    paths.iter().map(|path| read_one(path)).collect()
}

fn read_one(path: &Path) -> Result<File, Failure> {
    let shown = show::safe(&path.display().to_string());
    let failed = |error: std::io::Error| Failure::new(Code::Usage, format!("{shown}: {error}"));
    let size = fs::metadata(path).map_err(failed)?.len();
    if size == 0 || size > limits::ATTACHMENT_BYTES {
        return Err(Failure::new(
            Code::Usage,
            format!(
                "{shown} has {size} bytes; 1 to {} can be sent",
                limits::ATTACHMENT_BYTES
            ),
        ));
    }
    let bytes = fs::read(path).map_err(failed)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(File {
        name: name.into_owned(),
        media_type: media_type(path, &bytes),
        bytes,
    })
}

/// By the first bytes for pictures, by the name for the rest.
fn media_type(path: &Path, bytes: &[u8]) -> &'static str {
    if let Some(picture) = pilothouse_providers::picture::Picture::of(bytes) {
        return picture.media_type();
    }
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("pdf") => "application/pdf",
        Some("json") => "application/json",
        _ if std::str::from_utf8(bytes).is_ok() => "text/plain",
        _ => "application/octet-stream",
    }
}

/// Waits for the host to be connected, for another process that has the connection only so long as a verb of it may take. If it
/// does not come, asking it says so.
pub(super) fn reach(device: &mut Device, host: HostId, until: Instant) {
    if device.seen.hosts.is_none() {
        device.observe(Scope::Hosts);
    }
    let link = |device: &Device| {
        let mut hosts = device.seen.hosts.as_ref()?.iter();
        hosts
            .find(|row| row.host == host)
            .map(|row| row.link.clone())
    };
    let is_there =
        |device: &mut Device| (link(device) == Some(LinkState::Synchronised)).then_some(());
    let soon = until.min(Instant::now() + OTHERS);
    let _connected = device.wait(Some(soon), is_there);
    if link(device) != Some(LinkState::HeldElsewhere) {
        let _connected = device.wait(Some(until), is_there);
    }
}

/// Brings them to the host, which has to be connected for that.
pub(super) fn upload(
    device: &mut Device,
    host: HostId,
    files: Vec<File>,
    until: Instant,
) -> Result<Vec<Attachment>, Failure> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    reach(device, host, until);
    let bring = |file: File| {
        let hash = device.upload(host, &file.bytes).map_err(|error| {
            let what = format!("attaching {}: {error}", show::safe(&file.name));
            Failure::new(Code::Unconfirmed, what).next(error.next_step())
        })?;
        Ok(Attachment {
            name: file.name,
            media_type: file.media_type.to_owned(),
            hash,
            bytes: file.bytes.len() as u64,
        })
    };
    files.into_iter().map(bring).collect()
}

//! Conversations that an agent keeps as files of JSON lines: found by folder, the newest first, looked into at their beginning
//! and their end only.

use super::frames::{Line, Lines, json_of_line};
use crate::contract::{ConversationList, FoundConversation, ListConversations};
use serde_json::Value;
use std::{
    fs, io,
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// Files of a folder that are looked at.
const FILES: usize = 20_000;
/// Bytes that are read at the beginning of a file, and at its end.
const LOOKED_AT: usize = 64 * 1024;

/// A file, and when it was last written, Unix ms.
struct Found {
    path: PathBuf,
    written_ms: u64,
}

/// A page of the conversations of a folder. `look` reads one: its lines at the beginning and at the end; `None` if it is none
/// that is wanted.
pub(crate) fn list(
    folder: &Path,
    asked: &ListConversations,
    look: impl Fn(&Path, &[Value]) -> Option<FoundConversation>,
) -> ConversationList {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<Found> = entries
        .take(FILES)
        .filter_map(|entry| {
            let path = entry.path();
            let is_one = path.extension().is_some_and(|kind| kind == "jsonl");
            let written = entry
                .metadata()
                .ok()
                .filter(|meta| is_one && meta.is_file())?;
            let since = written.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
            let written_ms = u64::try_from(since.as_millis()).ok()?;
            Some(Found { path, written_ms })
        })
        .collect();
    files.sort_by(|a, b| (b.written_ms, &b.path).cmp(&(a.written_ms, &a.path)));
    let from = asked.cursor.as_deref().and_then(place);
    let mut page = ConversationList::default();
    for file in files {
        let name = file.path.file_name().unwrap_or_default().to_string_lossy();
        let at = (file.written_ms, name.into_owned());
        if from.as_ref().is_some_and(|from| at >= *from) {
            continue;
        }
        let Some(mut found) = edges(&file.path)
            .ok()
            .and_then(|lines| look(&file.path, &lines))
        else {
            continue;
        };
        found.updated_at_ms = Some(file.written_ms);
        page.found.push(found);
        if page.found.len() >= asked.limit as usize {
            page.next = Some(format!("{}:{}", at.0, at.1));
            break;
        }
    }
    page
}

/// Where a page ended, as [`list`] said it.
fn place(cursor: &str) -> Option<(u64, String)> {
    let (written, name) = cursor.split_once(':')?;
    Some((written.parse().ok()?, name.to_owned()))
}

/// The whole lines at a file's beginning and end that are objects, in their order.
fn edges(path: &Path) -> io::Result<Vec<Value>> {
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    let mut found = Vec::new();
    let mut read = |bytes: &[u8], whole_from_start: bool| {
        let mut lines = Lines::new(LOOKED_AT);
        let mut skip = !whole_from_start;
        let mut take = |line: Line<'_>| {
            if !std::mem::take(&mut skip)
                && let Line::Whole(line) = line
                && let Ok(value) = json_of_line(&String::from_utf8_lossy(line))
            {
                found.push(value);
            }
        };
        lines.split(bytes, &mut take);
    };
    let mut bytes = vec![0; LOOKED_AT];
    let first = fill(&mut file, &mut bytes)?;
    read(&bytes[..first], true);
    let rest = length.saturating_sub(first as u64);
    if rest > 0 {
        let skipped = rest.saturating_sub(LOOKED_AT as u64);
        file.seek(SeekFrom::Start(first as u64 + skipped))?;
        let last = fill(&mut file, &mut bytes)?;
        // What comes first there is the end of a line.
        read(&bytes[..last], false);
    }
    Ok(found)
}

fn fill(file: &mut fs::File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Whether two directories are the same one.
pub(crate) fn same_place(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(limit: u32, cursor: Option<String>) -> ListConversations {
        ListConversations {
            cwd: PathBuf::new(),
            limit,
            cursor,
        }
    }

    #[test]
    fn files_are_told_in_pages_the_newest_first_and_looked_into_at_both_ends() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..5u64 {
            let filler = json!({"filler": "x".repeat(40_000)}).to_string();
            let lines = format!(
                "{}\n{filler}\n{filler}\nno json\n{filler}\n{filler}\n{}\n{{\"cut",
                json!({"first": n}),
                json!({"last": n})
            );
            let path = dir.path().join(format!("{n}.jsonl"));
            fs::write(&path, lines).unwrap();
            let time = UNIX_EPOCH + std::time::Duration::from_secs(1000 + n / 2);
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(time).unwrap();
        }
        fs::write(dir.path().join("other.txt"), "{}").unwrap();
        let look = |path: &Path, lines: &[Value]| {
            let number = |key: &str| lines.iter().find_map(|line| line[key].as_u64());
            assert_eq!(number("first"), number("last"), "{path:?}");
            Some(FoundConversation {
                id: pilothouse_domain::NativeId(number("first")?.to_string()),
                title: String::new(),
                updated_at_ms: None,
            })
        };
        let mut seen = Vec::new();
        let mut cursor = None;
        loop {
            let page = list(dir.path(), &asked(2, cursor), look);
            seen.extend(page.found.iter().map(|found| found.id.0.clone()));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, ["4", "3", "2", "1", "0"]);
        let nothing = list(&dir.path().join("nowhere"), &asked(2, None), look);
        assert_eq!(nothing, ConversationList::default());
        let odd = list(dir.path(), &asked(9, Some("odd".to_owned())), look);
        assert_eq!(odd.found.len(), 5);
    }
}

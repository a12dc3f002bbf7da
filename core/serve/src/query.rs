//! What is asked once: older pages, parts of bodies, what the host has.

use crate::{
    Served,
    uploads::{Part, Progress},
};
use pilothouse_domain::DeviceId;
use pilothouse_ledger::{LedgerError, ListError};
use pilothouse_wire::message::{
    BLOB_CHUNK, Base64, BlobChunk, ErrorAbout, ErrorCode, HostMessage, OlderItems, Query,
    QueryAnswer, QueryResult, WireError,
};

/// Bytes of rows in one page at most, before escaping; a page stays well inside a frame.
const PAGE_BYTES: usize = 256 * 1024;

/// The answer to a query.
pub(crate) async fn answer(host: &Served, device: DeviceId, id: u32, query: Query) -> HostMessage {
    let answer = match result(host, device, query).await {
        Ok(result) => QueryAnswer::Result(result),
        Err((code, message, next_step)) => QueryAnswer::Error(error(id, code, message, next_step)),
    };
    HostMessage::Result { id, answer }
}

pub(crate) fn error(
    id: u32,
    code: ErrorCode,
    message: impl Into<String>,
    next_step: &str,
) -> WireError {
    let about = ErrorAbout::Query { id };
    WireError {
        about,
        code,
        message: message.into(),
        next_step: next_step.to_owned(),
    }
}

/// Takes a part of a file; the last one has it kept.
async fn put(
    host: &Served,
    device: DeviceId,
    part: Part,
    data: Vec<u8>,
) -> Result<QueryResult, Failure> {
    let hash = part.hash;
    let known = host
        .ledger
        .read(move |reader| reader.blob_len(hash))
        .await
        .map_err(|e| unreadable(&e))?;
    if let Some(have) = known {
        host.uploads.forget(device, hash);
        let complete = true;
        return Ok(QueryResult::PutBlob {
            hash,
            have,
            complete,
        });
    }
    let whole = match host.uploads.take(device, part, &data) {
        Ok(Progress::Partly { have }) => {
            let complete = false;
            return Ok(QueryResult::PutBlob {
                hash,
                have,
                complete,
            });
        }
        Ok(Progress::Whole(bytes)) => bytes,
        Err(problem) => {
            return Err((ErrorCode::Malformed, problem, "send the file anew"));
        }
    };
    let have = whole.len() as u64;
    host.ledger
        .keep_blob(whole)
        .await
        .map_err(|e| unreadable(&e))?;
    let complete = true;
    Ok(QueryResult::PutBlob {
        hash,
        have,
        complete,
    })
}

type Failure = (ErrorCode, String, &'static str);

fn unreadable(error: &LedgerError) -> Failure {
    (
        ErrorCode::Failed,
        error.to_string(),
        "look at the host: run `pilothouse doctor`",
    )
}

fn unlisted(error: &ListError) -> Failure {
    let (code, next_step) = match error {
        ListError::Unknown { .. } => (
            ErrorCode::NotFound,
            "name one that the host has; its host.toml lists them",
        ),
        ListError::FilesNotOffered { .. } => (
            ErrorCode::Failed,
            "name the file by its path in the message, as it stands in the workspace",
        ),
        ListError::ConversationsNotOffered { .. } => (
            ErrorCode::Failed,
            "make a new thread and tell it what it has to know",
        ),
        ListError::Failed { .. } => (
            ErrorCode::Failed,
            "look at the agent on the host: run `pilothouse doctor`",
        ),
    };
    (code, error.to_string(), next_step)
}

async fn result(host: &Served, device: DeviceId, query: Query) -> Result<QueryResult, Failure> {
    match query {
        Query::OlderItems {
            thread,
            before,
            max_bytes,
        } => {
            let bytes = (max_bytes as usize).min(PAGE_BYTES);
            let window = host
                .ledger
                .read(move |reader| reader.items_before(thread, before, bytes))
                .await
                .map_err(|e| unreadable(&e))?;
            Ok(QueryResult::OlderItems(OlderItems {
                rows: window.rows,
                older: window.more,
            }))
        }
        Query::Blob { hash, offset, len } => {
            let len = len.min(BLOB_CHUNK) as usize;
            let found = host
                .ledger
                .read(move |reader| Ok((reader.blob_len(hash)?, reader.blob(hash, offset, len)?)))
                .await
                .map_err(|e| unreadable(&e))?;
            match found {
                (Some(total), Some(data)) => Ok(QueryResult::Blob(BlobChunk {
                    hash,
                    offset,
                    total,
                    data: Base64(data),
                })),
                _ => Err((
                    ErrorCode::NotFound,
                    "the host does not have this text (any more)".to_owned(),
                    "it was redacted or its time was over; nothing is to be done",
                )),
            }
        }
        Query::PutBlob {
            hash,
            offset,
            total,
            data,
        } => {
            let part = Part {
                hash,
                offset,
                total,
            };
            put(host, device, part, data.0).await
        }
        Query::Agents => Ok(QueryResult::Agents {
            agents: host.facts.agents().await,
        }),
        Query::Workspaces => Ok(QueryResult::Workspaces {
            workspaces: host.facts.workspaces(),
        }),
        Query::Conversations {
            agent,
            workspace,
            cursor,
        } => match host.ledger.conversations(agent, workspace, cursor).await {
            Ok((conversations, next)) => Ok(QueryResult::Conversations {
                conversations,
                next,
            }),
            Err(error) => Err(unlisted(&error)),
        },
        Query::Files {
            agent,
            workspace,
            text,
        } => match host.ledger.files(agent, workspace, text).await {
            Ok(files) => Ok(QueryResult::Files { files }),
            Err(error) => Err(unlisted(&error)),
        },
        Query::Doctor => Ok(QueryResult::Doctor(host.facts.doctor().await)),
    }
}

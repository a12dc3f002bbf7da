//! What is in the outbox, and what the host has taken while its consequences are on their way.

use crate::{
    rows::DeliveryRow,
    shared::{Outstanding, Reading, Shared},
    views::item::preview,
};
use pilothouse_domain::{Command, CommandBody, CommandId};
use pilothouse_store::StoreError;

/// All rows, in the order in which they were submitted.
pub(crate) fn build(_: &Shared, reads: &Reading<'_>) -> Result<Vec<DeliveryRow>, StoreError> {
    let mut rows: Vec<DeliveryRow> = reads.outstanding(None)?.iter().map(row_of).collect();
    rows.sort_by_key(|row| row.saved_at_ms);
    Ok(rows)
}

/// By what a row is known.
pub(crate) fn key(row: &DeliveryRow) -> CommandId {
    row.command
}

pub(crate) fn row_of(waiting: &Outstanding) -> DeliveryRow {
    let command = &waiting.command;
    DeliveryRow {
        command: command.id,
        host: waiting.host,
        thread: command.thread,
        kind: command.body.name().to_owned(),
        preview: preview_of(command),
        request: match &command.body {
            CommandBody::RequestAnswer { request, .. } => Some(*request),
            _ => None,
        },
        saved_at_ms: waiting.saved_at_ms,
        expires_at_ms: waiting
            .saved_at_ms
            .saturating_add(crate::outbox::lifetime_ms(&command.body)),
        state: waiting.state.clone(),
    }
}

fn preview_of(command: &Command) -> String {
    use pilothouse_domain::Answer;
    match &command.body {
        CommandBody::ThreadCreate { title, .. }
        | CommandBody::ThreadFork { title, .. }
        | CommandBody::ThreadImport { title, .. } => preview(title),
        CommandBody::MessageSend { text, .. } => preview(text),
        CommandBody::RequestAnswer { answer, .. } => match answer {
            Answer::Choose { option, .. } => option.to_string(),
            // Replies can be secrets.
            Answer::Reply { .. } => String::new(),
        },
        CommandBody::RunInterrupt { .. }
        | CommandBody::ThreadRollback { .. }
        | CommandBody::ThreadCompact
        | CommandBody::ThreadSignIn
        | CommandBody::ThreadSelect { .. }
        | CommandBody::QueueRemove { .. }
        | CommandBody::QueueRelease { .. } => String::new(),
    }
}

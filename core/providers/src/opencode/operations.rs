//! What can be done with a conversation besides turns: stop a turn, read it back, copy it, take turns back,
//! shorten it, find files for it.

use super::{
    codec::Codec,
    driver::{OpencodeRuntime, run_error, strange_open},
    history::begun_by,
    outgoing::Call,
    replies::{CallError, Reply},
};
use crate::{
    contract::{
        Compacting, Compaction, ConversationList, Conversations, ForkThread, Forking, History,
        InterruptError, Interrupting, ListConversations, OpenError, RevertError, Reverted,
        Reverting, SendError,
    },
    naming::{self, FileSearch, FindFiles},
    rpc::CallFailure as _,
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{NativeId, ProviderEvent, run::ErrorCode};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// Conversations before a page of their list: more of them are not counted.
const LISTED: u32 = 20_000;
/// How long a compaction may take.
const COMPACTION: Duration = Duration::from_secs(900);

impl OpencodeRuntime {
    async fn past(&self, thread: NativeId, turns: u32) -> Result<Vec<ProviderEvent>, OpenError> {
        let failed = |error| self.open_error(error, Some(&thread));
        let get = Call::Get {
            session: thread.clone(),
        };
        let Reply::Session(session) = self.link.call(get).await.map_err(failed)? else {
            return Err(strange_open());
        };
        let status = Call::Status {
            directory: session.directory.clone(),
        };
        let working = match self.link.call(status).await.map_err(failed)? {
            Reply::Working(working) => working.get(&thread).copied(),
            _ => None,
        };
        let begun = |page: &[Value]| {
            page.iter()
                .filter(|message| begun_by(message).is_some())
                .count()
        };
        let mut held = 0;
        let enough = |page: &[Value]| {
            held += begun(page);
            held >= turns as usize
        };
        let messages = self.link.messages(&thread, enough).await.map_err(failed)?;
        Ok(Codec::past(&session, working, &messages, turns))
    }

    /// opencode's lists begin at the newest always: a page is the end of a longer list.
    async fn page(&self, asked: ListConversations) -> Result<ConversationList, OpenError> {
        let before: u32 = asked
            .cursor
            .and_then(|cursor| cursor.parse().ok())
            .unwrap_or(0)
            .min(LISTED);
        let until = before.saturating_add(asked.limit);
        let call = Call::List {
            directory: asked.cwd.display().to_string(),
            limit: until.saturating_add(1),
        };
        let listed = self.link.call(call).await;
        let Reply::Listed(listed) = listed.map_err(|error| self.open_error(error, None))? else {
            return Err(strange_open());
        };
        let more = listed.len() > until as usize;
        Ok(ConversationList {
            found: listed
                .into_iter()
                .take(until as usize)
                .skip(before as usize)
                .collect(),
            next: more.then(|| until.to_string()),
        })
    }

    async fn look_up(&self, asked: FileSearch) -> Result<Vec<String>, OpenError> {
        let call = Call::FindFiles {
            directory: asked.cwd.display().to_string(),
            text: asked.text,
            limit: asked.limit.clamp(1, 200),
        };
        let found = self.link.call(call).await;
        match found.map_err(|error| self.open_error(error, None))? {
            Reply::Files(files) => Ok(naming::fit(files, asked.limit)),
            _ => Err(strange_open()),
        }
    }

    async fn copy(&self, fork: ForkThread) -> Result<NativeId, OpenError> {
        let failed = |error| self.open_error(error, Some(&fork.source));
        let before = match &fork.through {
            None => None,
            Some(turn) => {
                let outline = self.link.outline_from(&fork.source, turn).await;
                let messages = outline.map_err(failed)?;
                match Codec::turn_after(&messages, turn) {
                    Ok(next) => next,
                    Err(problem) => {
                        return Err(OpenError::Refused {
                            error: run_error(ErrorCode::Agent, problem),
                        });
                    }
                }
            }
        };
        let call = Call::Fork {
            session: fork.source.clone(),
            before,
        };
        match self.link.call(call).await.map_err(failed)? {
            Reply::Session(session) => Ok(self.adopt(*session, fork.selection.mode, true).await),
            _ => Err(strange_open()),
        }
    }

    async fn take_back(&self, thread: NativeId, from: NativeId) -> Result<Reverted, RevertError> {
        let failed = |error: CallError| match error {
            CallError::Lost | CallError::Unreachable { .. } if self.process().has_exited() => {
                RevertError::Lost
            }
            CallError::Lost | CallError::Timeout { .. } | CallError::Unreachable { .. } => {
                RevertError::Unknown
            }
            error => RevertError::Refused {
                error: error.run_error(ErrorCode::Agent),
            },
        };
        if self
            .link
            .with_codec(|codec| codec.active_turn(&thread).is_some())
        {
            return Err(RevertError::Busy);
        }
        let outline = self.link.outline_from(&thread, &from).await;
        let messages = outline.map_err(failed)?;
        // The newest first: what a call that was cut off leaves is a shorter conversation, and the call can be made again.
        let following = Codec::messages_from(&messages, &from);
        if following.is_empty() {
            return Ok(Reverted::NotThere);
        }
        for message in following {
            let call = Call::Delete {
                session: thread.clone(),
                message,
            };
            match self.link.call(call).await {
                Ok(_) | Err(CallError::NotFound { .. }) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(Reverted::Forgotten)
    }

    async fn shorten(&self, thread: NativeId) -> Result<Compaction, SendError> {
        let refused = |error: CallError| SendError::Refused {
            error: error.run_error(ErrorCode::Agent),
        };
        if self
            .link
            .with_codec(|codec| codec.active_turn(&thread).is_some())
        {
            return Err(SendError::Busy);
        }
        let answered = |page: &[Value]| Codec::last_model(page).is_some();
        let messages = self
            .link
            .messages(&thread, answered)
            .await
            .map_err(refused)?;
        let model = Codec::last_model(&messages.0).or_else(|| self.choice.first_model());
        let Some((provider, model)) = model else {
            return Err(SendError::Refused {
                error: run_error(ErrorCode::Agent, "opencode has no model to do it with"),
            });
        };
        let call = Call::Summarize {
            session: thread,
            provider,
            model,
        };
        // It answers when it is done; a refusal comes at once.
        let link = Arc::clone(&self.link);
        let answer = tokio::spawn(async move { link.call_within(call, COMPACTION).await });
        match tokio::time::timeout(Duration::from_secs(1), answer).await {
            Ok(Ok(Err(error))) => Err(refused(error)),
            _ => Ok(Compaction::Turn { turn: None }),
        }
    }
}

impl History for OpencodeRuntime {
    fn read(
        &self,
        thread: NativeId,
        turns: u32,
    ) -> BoxFuture<'_, Result<Vec<ProviderEvent>, OpenError>> {
        Box::pin(self.past(thread, turns))
    }

    /// A prompt is accepted before it is written down: 8 of 8 that were killed right after were gone (docs/agents-probes.md).
    fn proves_absence(&self) -> bool {
        false
    }
}

impl Interrupting for OpencodeRuntime {
    fn interrupt(
        &self,
        thread: NativeId,
        turn: NativeId,
    ) -> BoxFuture<'_, Result<(), InterruptError>> {
        Box::pin(self.stop_turn(thread, turn))
    }
}

impl FindFiles for OpencodeRuntime {
    fn find(&self, asked: FileSearch) -> BoxFuture<'_, Result<Vec<String>, OpenError>> {
        Box::pin(self.look_up(asked))
    }
}

impl Conversations for OpencodeRuntime {
    fn list(&self, asked: ListConversations) -> BoxFuture<'_, Result<ConversationList, OpenError>> {
        Box::pin(self.page(asked))
    }
}

impl Forking for OpencodeRuntime {
    fn fork(&self, fork: ForkThread) -> BoxFuture<'_, Result<NativeId, OpenError>> {
        Box::pin(self.copy(fork))
    }
}

impl Reverting for OpencodeRuntime {
    fn revert(
        &self,
        thread: NativeId,
        from: NativeId,
    ) -> BoxFuture<'_, Result<Reverted, RevertError>> {
        Box::pin(self.take_back(thread, from))
    }
}

impl Compacting for OpencodeRuntime {
    fn compact(&self, thread: NativeId) -> BoxFuture<'_, Result<Compaction, SendError>> {
        Box::pin(self.shorten(thread))
    }
}

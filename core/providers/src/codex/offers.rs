//! What codex offers beyond starting turns: steering, interrupting, reading back, forking, taking back, shortening, finding
//! files.

use super::{
    driver::{CodexRuntime, open_error},
    outgoing::Call,
    profile::Permissions,
    replies::{CallError, Reply},
};
use crate::{
    contract::{
        Compacting, Compaction, ConversationList, Conversations, ForkThread, Forking, History,
        InterruptError, Interrupting, ListConversations, OpenError, RevertError, Reverted,
        Reverting, SendError, Steer, SteerError, Steering,
    },
    naming::{self, FileSearch, FindFiles},
    rpc::{CallFailure as _, frames::FRAME_LIMIT, session::lock},
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{
    ItemContent, ItemStatus, NativeId, ProviderEvent, ProviderEventKind, run::ErrorCode,
};

/// Turns asked for in the first page of history, and in the largest.
const FIRST_PAGE: u32 = 4;
const LARGEST_PAGE: u32 = 50;
/// Bytes heard for a page up to which the next may be twice as long: far from what is read of an answer.
const SMALL_PAGE: u64 = FRAME_LIMIT as u64 / 8;

impl CodexRuntime {
    async fn put_words(&self, steer: Steer) -> Result<(), SteerError> {
        let call = Call::TurnSteer {
            thread: steer.thread,
            turn: steer.turn,
            client_id: steer.client_id,
            text: steer.text,
        };
        match self.session.call(call, self.deadlines.call).await {
            Ok(_) => Ok(()),
            Err(CallError::NotThatTurn { .. }) => Err(SteerError::TurnEnded),
            Err(CallError::Lost | CallError::Timeout { .. } | CallError::Unreadable { .. }) => {
                Err(SteerError::Unknown)
            }
            Err(error) => Err(SteerError::Refused {
                error: error.run_error(ErrorCode::Agent),
            }),
        }
    }

    async fn stop_turn(&self, thread: NativeId, turn: NativeId) -> Result<(), InterruptError> {
        let call = Call::TurnInterrupt { thread, turn };
        match self.session.call(call, self.deadlines.interrupt).await {
            Ok(_) => Ok(()),
            Err(CallError::NotThatTurn { .. }) => Err(InterruptError::TurnEnded),
            Err(CallError::Lost) => Err(InterruptError::Lost),
            Err(error) => Err(InterruptError::NotTaken {
                problem: error.to_string(),
            }),
        }
    }

    async fn past(&self, thread: NativeId, turns: u32) -> Result<Vec<ProviderEvent>, OpenError> {
        let mut newest_first: Vec<Vec<ProviderEvent>> = Vec::new();
        let mut cursor = None;
        let (mut page, mut whole) = (FIRST_PAGE, true);
        loop {
            let missing = turns.saturating_sub(u32::try_from(newest_first.len()).unwrap_or(turns));
            if missing == 0 {
                break;
            }
            let asked = missing.min(page);
            let call = Call::TurnsList {
                thread: thread.clone(),
                limit: asked,
                cursor: cursor.clone(),
                whole,
            };
            let before = self.session.heard();
            match self.session.call(call, self.deadlines.call).await {
                Ok(Reply::Turns { mut turns, next }) => {
                    if !whole {
                        turns.iter_mut().for_each(left_out);
                    } else if self.session.heard() - before <= SMALL_PAGE {
                        page = (page * 2).min(LARGEST_PAGE);
                    }
                    whole = true;
                    // A page without turns could go on for ever.
                    let last = turns.is_empty() || next.is_none();
                    newest_first.extend(turns);
                    if last {
                        break;
                    }
                    cursor = next;
                }
                Ok(_) => break,
                // Its answer was too long, most likely: fewer turns are asked for, and of one alone what is short of it.
                Err(CallError::Unreadable { .. }) if asked > 1 => page = asked / 2,
                Err(CallError::Unreadable { .. }) if whole => whole = false,
                Err(error) => return Err(open_error(error, Some(&thread))),
            }
        }
        newest_first.truncate(turns as usize);
        Ok(newest_first.into_iter().rev().flatten().collect())
    }

    async fn kept(&self, asked: ListConversations) -> Result<ConversationList, OpenError> {
        let mut cwds = vec![asked.cwd];
        // It keeps the name by which a conversation was begun, which may be another one of the same place.
        if let Ok(place) = cwds[0].canonicalize()
            && place != cwds[0]
        {
            cwds.push(place);
        }
        let call = Call::ThreadList {
            cwds,
            limit: asked.limit,
            cursor: asked.cursor,
        };
        match self.session.call(call, self.deadlines.call).await {
            Ok(Reply::Conversations(list)) => Ok(list),
            Ok(_) => Err(OpenError::Lost),
            Err(error) => Err(open_error(error, None)),
        }
    }

    async fn look_up(&self, asked: FileSearch) -> Result<Vec<String>, OpenError> {
        let call = Call::FindFiles {
            cwd: asked.cwd,
            text: asked.text,
        };
        match self.session.call(call, self.deadlines.call).await {
            Ok(Reply::Files(files)) => Ok(naming::fit(files, asked.limit)),
            Ok(_) => Err(OpenError::Lost),
            Err(error) => Err(open_error(error, None)),
        }
    }

    async fn copy(&self, fork: ForkThread) -> Result<NativeId, OpenError> {
        self.check_place(&fork.cwd)?;
        let permissions = Permissions::from(fork.selection.mode);
        let given = self.mcp.at(&fork.cwd);
        let call = Call::ThreadFork {
            source: fork.source.clone(),
            through: fork.through,
            cwd: fork.cwd.clone(),
            model: fork.selection.model,
            permissions,
            mcp: given.servers,
        };
        let thread = self
            .load(call, &fork.cwd, permissions, Some(&fork.source))
            .await?;
        lock(&self.session.codec).tell(&thread, given.left_out);
        Ok(thread)
    }

    /// Codex stops a turn that goes on and takes back all the same: here that is refused.
    async fn take_back(&self, thread: NativeId, from: NativeId) -> Result<Reverted, RevertError> {
        if lock(&self.session.codec).active_turn(&thread).is_some() {
            return Err(RevertError::Busy);
        }
        let call = Call::ThreadRevert {
            thread,
            before: from,
        };
        match self.session.call(call, self.deadlines.call).await {
            Ok(_) => Ok(Reverted::Forgotten),
            Err(CallError::NoTurn { .. }) => Ok(Reverted::NotThere),
            Err(CallError::Lost) => Err(RevertError::Lost),
            Err(CallError::Timeout { .. }) => Err(RevertError::Unknown),
            Err(error) => Err(RevertError::Refused {
                error: error.run_error(ErrorCode::Agent),
            }),
        }
    }

    async fn shorten(&self, thread: NativeId) -> Result<Compaction, SendError> {
        if lock(&self.session.codec).active_turn(&thread).is_some() {
            return Err(SendError::Busy);
        }
        let call = Call::CompactStart { thread };
        match self.session.call(call, self.deadlines.call).await {
            Ok(_) => Ok(Compaction::Turn { turn: None }),
            Err(CallError::Lost | CallError::Timeout { .. }) => Err(SendError::Unknown),
            Err(error) => Err(SendError::Refused {
                error: error.run_error(ErrorCode::Agent),
            }),
        }
    }
}

/// Says in a turn of which not all could be read that it is so. Once, however often it is read: the item has a name.
fn left_out(turn: &mut Vec<ProviderEvent>) {
    let Some(ProviderEvent { place, .. }) = turn.first() else {
        return;
    };
    let Some(id) = &place.turn else { return };
    let kind = ProviderEventKind::ItemClosed {
        item: NativeId(format!("{id}/left-out")),
        status: ItemStatus::Completed,
        content: ItemContent::Error {
            code: ErrorCode::Agent,
            message: format!(
                "codex' account of this turn is too long to be read (more than {FRAME_LIMIT} bytes): only its first message and its last answer were"
            ),
            will_retry: false,
        },
        client_id: None,
    };
    let place = place.clone();
    let ended = matches!(turn.last(), Some(last) if matches!(last.kind, ProviderEventKind::TurnEnded { .. }));
    turn.insert(
        turn.len() - usize::from(ended),
        ProviderEvent { place, kind },
    );
}

impl Steering for CodexRuntime {
    fn steer(&self, steer: Steer) -> BoxFuture<'_, Result<(), SteerError>> {
        Box::pin(self.put_words(steer))
    }
}

impl Interrupting for CodexRuntime {
    fn interrupt(
        &self,
        thread: NativeId,
        turn: NativeId,
    ) -> BoxFuture<'_, Result<(), InterruptError>> {
        Box::pin(self.stop_turn(thread, turn))
    }
}

impl History for CodexRuntime {
    fn read(
        &self,
        thread: NativeId,
        turns: u32,
    ) -> BoxFuture<'_, Result<Vec<ProviderEvent>, OpenError>> {
        Box::pin(self.past(thread, turns))
    }

    /// 40 kills of 40, 5 to 80 ms after `turn/start` (docs/agents-probes.md).
    fn proves_absence(&self) -> bool {
        true
    }
}

impl Conversations for CodexRuntime {
    fn list(&self, asked: ListConversations) -> BoxFuture<'_, Result<ConversationList, OpenError>> {
        Box::pin(self.kept(asked))
    }
}

impl FindFiles for CodexRuntime {
    fn find(&self, asked: FileSearch) -> BoxFuture<'_, Result<Vec<String>, OpenError>> {
        Box::pin(self.look_up(asked))
    }
}

impl Forking for CodexRuntime {
    fn fork(&self, fork: ForkThread) -> BoxFuture<'_, Result<NativeId, OpenError>> {
        Box::pin(self.copy(fork))
    }
}

impl Reverting for CodexRuntime {
    fn revert(
        &self,
        thread: NativeId,
        from: NativeId,
    ) -> BoxFuture<'_, Result<Reverted, RevertError>> {
        Box::pin(self.take_back(thread, from))
    }
}

impl Compacting for CodexRuntime {
    fn compact(&self, thread: NativeId) -> BoxFuture<'_, Result<Compaction, SendError>> {
        Box::pin(self.shorten(thread))
    }
}

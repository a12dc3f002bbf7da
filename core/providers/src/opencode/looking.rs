//! What is read of opencode beside its stream of events: after a cut, when it is silent, and where a call was not answered.

use super::{
    codec::{Codec, id_of},
    history::begun_by,
    link::{FIRST_PAUSE, LONGEST_PAUSE, Link},
    outgoing::Call,
    replies::{CallError, Entries, Reply, Working},
};
use pilothouse_domain::NativeId;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Messages of a conversation that are read at a time, at first: those with large files in them are read one by one.
const PAGE: u32 = 40;
/// Messages of a conversation that are held at a time.
const MESSAGES: usize = 400;
/// Messages of a conversation of which only the outline is read.
const LONGEST: usize = 100_000;
/// Longest pause before another try to read what came of a call.
const RARELY: Duration = Duration::from_secs(30);

/// What is compared with what opencode says now.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope<'a> {
    /// All conversations in which something goes on.
    Working,
    /// One conversation.
    One(&'a NativeId),
    /// Those whose turn goes on here and not there, or that are not seen to have begun one.
    Silent,
}

/// Reads a conversation backwards, page by page.
struct Pages<'a> {
    session: &'a NativeId,
    limit: u32,
    before: Option<String>,
    is_over: bool,
}

impl<'a> Pages<'a> {
    fn new(session: &'a NativeId) -> Self {
        Self {
            session,
            limit: PAGE,
            before: None,
            is_over: false,
        }
    }

    /// The page before the last one; `None` if the conversation begins there.
    async fn next(&mut self, link: &Link) -> Result<Option<Entries>, CallError> {
        while !self.is_over {
            let call = Call::Messages {
                session: self.session.clone(),
                limit: self.limit,
                before: self.before.clone(),
            };
            match link.page(&call, link.deadlines.call).await {
                Ok((Reply::Messages(page), next)) => {
                    self.is_over = next.is_none() || page.0.is_empty();
                    self.before = next;
                    return Ok(Some(page));
                }
                Ok(_) => self.is_over = true,
                Err(CallError::TooLong { .. }) if self.limit > 1 => {
                    self.limit = (self.limit / 4).max(1);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

fn has_message(messages: &[Value], id: &NativeId) -> bool {
    ids(messages).any(|known| known == *id)
}

fn ids(messages: &[Value]) -> impl Iterator<Item = NativeId> {
    messages
        .iter()
        .filter_map(|message| id_of(message.get("info")?, "id"))
}

impl Link {
    /// The last messages of a conversation, oldest first: whole pages until they are `enough`, the beginning is read, or they
    /// are [`MESSAGES`].
    pub(super) async fn messages(
        &self,
        session: &NativeId,
        mut enough: impl FnMut(&[Value]) -> bool,
    ) -> Result<Entries, CallError> {
        let mut pages = Pages::new(session);
        let mut read = Vec::new();
        while let Some(mut page) = pages.next(self).await? {
            page.drop_files();
            let is_enough = enough(&page.0);
            page.0.append(&mut read);
            read = page.0;
            if is_enough || read.len() >= MESSAGES {
                break;
            }
        }
        Ok(Entries(read))
    }

    /// The messages of a conversation from one on, oldest first, and those of its page before it, without what is said in them;
    /// all of them where it is not there.
    pub(super) async fn outline_from(
        &self,
        session: &NativeId,
        from: &NativeId,
    ) -> Result<Entries, CallError> {
        let mut pages = Pages::new(session);
        let mut read = Vec::new();
        let mut count = 0;
        while let Some(page) = pages.next(self).await? {
            let page = page.outlined();
            let is_there = has_message(&page.0, from);
            count += page.0.len();
            read.push(page.0);
            if is_there {
                break;
            }
            if count > LONGEST {
                return Err(CallError::TooLong {
                    method: "a conversation's messages".to_owned(),
                });
            }
        }
        Ok(Entries(read.into_iter().rev().flatten().collect()))
    }

    /// The messages of a conversation since the turn began that goes on in it, or the last one.
    async fn since_turn(&self, session: &NativeId) -> Result<Entries, CallError> {
        let (turn, written) = self.with_codec(|codec| {
            let turn = codec.active_turn_of(session);
            (turn, codec.has_seen(session))
        });
        self.messages(session, |page| match &turn {
            Some(turn) if written => has_message(page, turn),
            // A message that opencode has not written down yet stands nowhere.
            _ => page.iter().any(|message| begun_by(message).is_some()),
        })
        .await
    }

    /// The directories of conversations.
    fn directories(&self, of: impl Fn(&Codec, &NativeId) -> bool) -> BTreeSet<String> {
        self.with_codec(|codec| {
            codec
                .opened()
                .filter(|(session, _)| of(codec, session))
                .map(|(_, directory)| directory.to_owned())
                .collect()
        })
    }

    /// Reads what may have been missed although the stream lives.
    pub(super) async fn look(self: Arc<Self>) {
        for directory in self.directories(|codec, session| codec.active_turn(session).is_some()) {
            if let Err(error) = self.synchronise(&directory, Scope::Silent).await {
                tracing::warn!(%error, directory, "a silent opencode could not be asked");
            }
        }
    }

    /// Reads what may have been missed, in all directories that are worked in.
    pub(super) async fn catch_up(self: Arc<Self>) {
        let any =
            self.with_codec(|codec| codec.opened().next().map(|(session, _)| session.clone()));
        let Some(any) = any else { return };
        self.prove(&any).await;
        for directory in self.directories(|_, _| true) {
            for pause in [FIRST_PAUSE, LONGEST_PAUSE, Duration::ZERO] {
                match self.synchronise(&directory, Scope::Working).await {
                    Ok(()) => break,
                    Err(error) => {
                        tracing::warn!(%error, directory, "what opencode did meanwhile could not be read");
                    }
                }
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Compares what is known of conversations in a directory with what opencode says now.
    pub(super) async fn synchronise(
        &self,
        directory: &str,
        scope: Scope<'_>,
    ) -> Result<(), CallError> {
        // Before all else: what is idle now says all it has to say in what is read next.
        let working = self.status(directory).await?;
        let concerned: Vec<NativeId> = self.with_codec(|codec| {
            codec
                .opened()
                .filter(|(session, place)| {
                    let here = codec.active_turn(session).is_some();
                    let there = working.contains_key(*session);
                    match scope {
                        Scope::One(only) => only == *session,
                        Scope::Working => *place == directory && (here || there),
                        Scope::Silent => {
                            *place == directory && here && (!there || !codec.has_seen(session))
                        }
                    }
                })
                .map(|(session, _)| session.clone())
                .collect()
        });
        let mut read = Ok(());
        for session in concerned {
            match self.synchronise_one(&session, &working, scope).await {
                Ok(()) => {}
                Err(CallError::NotFound { .. }) => {
                    self.tell(|codec| codec.deleted(&session)).await;
                }
                // What the others do is read all the same.
                Err(error) => read = read.and(Err(error)),
            }
        }
        self.waiting(directory, &working).await?;
        read
    }

    /// Compares what is known of a conversation and of those that work for it with what opencode says now.
    async fn synchronise_one(
        &self,
        session: &NativeId,
        working: &BTreeMap<NativeId, Working>,
        scope: Scope<'_>,
    ) -> Result<(), CallError> {
        let children = Call::Children {
            session: session.clone(),
        };
        let children = match self.call(children).await {
            Ok(Reply::Children(children)) => children,
            // What they wait for would be taken for answered.
            Err(error) if error.may_pass() => return Err(error),
            _ => Entries::default(),
        };
        let messages = self.since_turn(session).await?;
        let busy = working.get(session).copied();
        let kids = self.with_codec(|codec| {
            codec.adopt_children(&children);
            codec.children_of(&children)
        });
        self.tell(|codec| match scope {
            Scope::Silent if busy.is_none() => codec.fell_silent(session, &messages),
            _ => codec.synchronise(session, busy, &messages),
        })
        .await;
        for kid in kids {
            let busy = working.get(&kid).copied();
            let messages = match busy {
                Some(_) => self.since_turn(&kid).await,
                None => Ok(Entries::default()),
            };
            match messages {
                Ok(messages) => {
                    self.tell(|codec| codec.synchronise(&kid, busy, &messages))
                        .await
                }
                Err(CallError::NotFound { .. }) => self.tell(|codec| codec.deleted(&kid)).await,
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }

    /// Compares what waits in a directory with what is known. `working` is what its conversations did before.
    async fn waiting(
        &self,
        directory: &str,
        working: &BTreeMap<NativeId, Working>,
    ) -> Result<(), CallError> {
        let at = || directory.to_owned();
        let before: Vec<NativeId> =
            self.with_codec(|codec| codec.pending_requests().cloned().collect());
        let permissions = self.call(Call::Permissions { directory: at() }).await?;
        let questions = self.call(Call::Questions { directory: at() }).await?;
        if let (Reply::Waiting(permissions), Reply::Waiting(questions)) = (permissions, questions) {
            self.tell(|codec| codec.waiting(directory, working, &permissions, &questions, &before))
                .await;
        }
        Ok(())
    }

    /// Reads what waits each time that an answer may not have arrived: what still waits is asked again, or for the first time.
    pub(super) async fn look_for_requests(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.unsure.notified() => {}
                _ = self.process.exited() => return,
            }
            for directory in self.directories(|_, _| true) {
                let read = || async {
                    let working = self.status(&directory).await?;
                    self.waiting(&directory, &working).await
                };
                self.until_read(read).await;
            }
        }
    }

    /// What the conversations of a directory do.
    async fn status(&self, directory: &str) -> Result<BTreeMap<NativeId, Working>, CallError> {
        let directory = directory.to_owned();
        match self.call(Call::Status { directory }).await? {
            Reply::Working(working) => Ok(working),
            _ => Ok(BTreeMap::new()),
        }
    }

    /// Reads something until it could be read; `None` if opencode ended before.
    async fn until_read<T, F>(&self, read: impl Fn() -> F) -> Option<T>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let mut pause = LONGEST_PAUSE;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = self.process.exited() => return None,
            }
            match read().await {
                Ok(read) => return Some(read),
                Err(error) => {
                    tracing::warn!(%error, "what came of a call that was not answered could not be read yet");
                }
            }
            pause = (pause * 2).min(RARELY);
        }
    }

    /// Makes sure that a stopped turn is over: opencode says so twice, or once, or not at all.
    pub(super) fn confirm_stop(
        self: &Arc<Self>,
        session: NativeId,
        turn: NativeId,
        after: Duration,
    ) {
        let link = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            let directory = link.with_codec(|codec| {
                let goes_on = codec.active_turn(&session) == Some(&turn);
                let directory = codec
                    .opened()
                    .find(|(open, _)| **open == session)
                    .map(|(_, directory)| directory.to_owned());
                directory.filter(|_| goes_on)
            });
            let Some(directory) = directory else { return };
            if let Ok(working) = link.status(&directory).await
                && !working.contains_key(&session)
            {
                link.tell(|codec| codec.stopped(&session, &turn)).await;
            }
        });
    }

    /// Looks whether a prompt was heard whose answer did not come, and lets go of its turn if not.
    pub(super) fn forget_unless_taken(self: &Arc<Self>, session: NativeId, turn: NativeId) {
        let link = Arc::clone(self);
        tokio::spawn(async move {
            let taken = link
                .until_read(|| async {
                    // It is the last, or one of the last.
                    match link.messages(&session, |_| true).await {
                        Err(CallError::NotFound { .. }) => Ok(false),
                        messages => Ok(has_message(&messages?.0, &turn)),
                    }
                })
                .await;
            link.with_codec(|codec| match taken {
                Some(true) => codec.accepted(&session, &turn),
                Some(false) => codec.not_begun(&session, &turn),
                None => {}
            });
        });
    }
}

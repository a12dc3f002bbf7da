//! What is done with the conversation as a whole: copied, taken back, shortened, read back.

use super::{
    driver::{ClaudeRuntime, refused},
    outgoing::{self, Call},
    replies::{CallError, Reply, Rewound},
    starting::{Conversation, Failed, is_uuid, needs_bypass},
};
use crate::{
    contract::{
        Compacting, Compaction, ForkThread, Forking, History, OpenError, RevertError, Reverted,
        Reverting, SendError,
    },
    rpc::session::lock,
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{NativeId, ProviderEvent, run::ErrorCode};
use std::time::Duration;

/// How often the agent's file is looked at for what it is about to write: it does so every 100 ms.
const LOOK: Duration = Duration::from_millis(25);

impl ClaudeRuntime {
    /// Copies a conversation: the process that serves nothing yet gives way to one that serves the copy.
    async fn copy(&self, fork: ForkThread) -> Result<NativeId, OpenError> {
        let refuse = |message: &str| {
            let error = refused(ErrorCode::Agent, message);
            Err(OpenError::Refused { error })
        };
        if !is_uuid(fork.source.as_str()) {
            return Err(OpenError::NotFound {
                thread: fork.source,
            });
        }
        let through = match &fork.through {
            Some(turn) if !fork.whole => {
                let branch = self.files.branch(&fork.source).await;
                let Some(end) = branch.and_then(|branch| branch.end_of(turn)) else {
                    return refuse(
                        "Claude Code's conversation does not hold that turn any more; fork from a later run",
                    );
                };
                Some(end)
            }
            _ if fork.whole => None,
            _ => return refuse("it is not known which turn the copy is to end with"),
        };
        let _beginning = self.beginning.lock().await;
        let process = self.process();
        if lock(&process.session.codec).is_busy() {
            return refuse("a turn goes on in this process; a copy needs one of its own");
        }
        let may_bypass = process.may_bypass || needs_bypass(fork.selection.mode);
        let conversation = Conversation::Forked {
            source: fork.source.clone(),
            copy: self.fresh_id(),
            through,
        };
        match self.replace(&[conversation], may_bypass).await {
            Ok(()) => self.selected(&fork.selection).await,
            Err(Failed::NoConversation) => Err(OpenError::NotFound {
                thread: fork.source,
            }),
            Err(Failed::Start(error)) => Err(OpenError::Refused {
                error: refused(ErrorCode::Start, error.to_string()),
            }),
        }
    }

    /// Takes back the messages from one on. The agent does so only for whoever names the last one, and writes it down a
    /// moment after it has answered: killed before, it would remember all of it.
    async fn take_back(&self, thread: NativeId, from: NativeId) -> Result<Reverted, RevertError> {
        let refuse = |message: String| RevertError::Refused {
            error: refused(ErrorCode::Agent, message),
        };
        let process = self.process();
        if thread != process.serves {
            let problem = format!("this process of Claude Code does not serve {thread}");
            return Err(refuse(problem));
        }
        let _beginning = self.beginning.lock().await;
        if lock(&process.session.codec).is_busy() {
            return Err(RevertError::Busy);
        }
        let written = self.files.branch(&thread).await;
        let call = Call::Rewind {
            message: from.clone(),
            last: written.and_then(|branch| branch.last_prompt()),
        };
        match process
            .session
            .call(call, self.starting.deadlines.call)
            .await
        {
            Ok(Reply::Rewound(Rewound::Done)) => {}
            Ok(Reply::Rewound(Rewound::NotThere)) => return Ok(Reverted::NotThere),
            Ok(Reply::Rewound(Rewound::Busy)) => return Err(RevertError::Busy),
            Ok(Reply::Rewound(Rewound::Refused(why))) => return Err(refuse(why)),
            Err(CallError::Lost) => return Err(RevertError::Lost),
            Err(CallError::Timeout { .. }) => return Err(RevertError::Unknown),
            Ok(_) => return Err(refuse("Claude Code answered something else".to_owned())),
            Err(error) => return Err(refuse(error.to_string())),
        }
        let written = async {
            while self
                .files
                .branch(&thread)
                .await
                .is_some_and(|branch| branch.holds(&from))
            {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(self.starting.deadlines.call, written)
            .await
            .map(|()| Reverted::Forgotten)
            .map_err(|_| RevertError::Unknown)
    }
}

impl History for ClaudeRuntime {
    fn read(
        &self,
        thread: NativeId,
        turns: u32,
    ) -> BoxFuture<'_, Result<Vec<ProviderEvent>, OpenError>> {
        Box::pin(async move {
            match self.files.branch(&thread).await {
                Some(branch) => Ok(branch.last(&thread, turns)),
                None => Err(OpenError::NotFound { thread }),
            }
        })
    }

    /// It writes down what it was told 100 ms later, and begins at once.
    fn proves_absence(&self) -> bool {
        false
    }
}

impl Reverting for ClaudeRuntime {
    fn revert(
        &self,
        thread: NativeId,
        from: NativeId,
    ) -> BoxFuture<'_, Result<Reverted, RevertError>> {
        Box::pin(self.take_back(thread, from))
    }
}

impl Forking for ClaudeRuntime {
    fn fork(&self, fork: ForkThread) -> BoxFuture<'_, Result<NativeId, OpenError>> {
        Box::pin(self.copy(fork))
    }
}

impl Compacting for ClaudeRuntime {
    /// By its own command, which is a message.
    fn compact(&self, thread: NativeId) -> BoxFuture<'_, Result<Compaction, SendError>> {
        Box::pin(async move {
            if thread != self.process().serves {
                let message = format!("this process of Claude Code does not serve {thread}");
                let error = refused(ErrorCode::Resume, message);
                return Err(SendError::Refused { error });
            }
            let content = vec![outgoing::text_block("/compact")];
            let turn = self.begin(String::new(), content, None).await?;
            Ok(Compaction::Turn { turn: Some(turn) })
        })
    }
}

//! What is done with the session as a whole: read back, copied, taken back, shortened.

use super::{
    driver::{PiRuntime, refused},
    gate, messages,
    outgoing::Call,
    replies::{CallError, Reply},
};
use crate::{
    contract::{
        Compacting, Compaction, ForkThread, Forking, History, OpenError, RevertError, Reverted,
        Reverting, SendError,
    },
    rpc::{CallFailure as _, session::lock},
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{NativeId, ProviderEvent, run::ErrorCode};

impl PiRuntime {
    async fn shorten(&self) -> Result<Compaction, SendError> {
        let _starting = self.starting.lock().await;
        if lock(&self.session.codec).is_busy() {
            return Err(SendError::Busy);
        }
        match self
            .session
            .call(Call::Compact, self.deadlines.compact)
            .await
        {
            Ok(Reply::Compacted { summary }) => Ok(Compaction::Done { summary }),
            Ok(_) => Ok(Compaction::Done {
                summary: String::new(),
            }),
            Err(CallError::Lost | CallError::Timeout { .. }) => Err(SendError::Unknown),
            Err(error) => Err(SendError::Refused {
                error: error.run_error(ErrorCode::Agent),
            }),
        }
    }

    /// Takes the session back to before the message that began a turn. pi keeps it as a tree: what was taken back stays in
    /// its file, on another branch.
    async fn take_back(&self, thread: NativeId, from: NativeId) -> Result<Reverted, RevertError> {
        let refuse = |message: String| RevertError::Refused {
            error: refused(ErrorCode::Agent, message),
        };
        let _starting = self.starting.lock().await;
        if lock(&self.session.codec).is_busy() {
            return Err(RevertError::Busy);
        }
        let reached = match self.switch(&thread).await {
            Ok(()) => self.entries().await,
            Err(error) => Err(error),
        };
        let entries = match reached {
            Ok(entries) => entries,
            Err(OpenError::Lost) => return Err(RevertError::Lost),
            Err(error) => return Err(refuse(error.to_string())),
        };
        let Some(entry) = entries.entry(&from) else {
            if !messages::is_begun_by_message(&from) {
                let why = "pi did not say which message began that turn; take back from a later or an earlier one";
                return Err(refuse(why.to_owned()));
            }
            // Its file is read whole.
            return Ok(Reverted::NotThere);
        };
        let Some(text) = gate::back(entry) else {
            return Err(refuse(
                "pi names the message in a way that cannot be said".to_owned(),
            ));
        };
        match self.call(Call::Command { text }).await {
            Ok(_) => {}
            Err(CallError::Lost) => return Err(RevertError::Lost),
            Err(CallError::Timeout { .. }) => return Err(RevertError::Unknown),
            Err(error) => return Err(refuse(error.to_string())),
        }
        let told = lock(&self.session.codec)
            .gate()
            .and_then(|gate| gate.back.clone());
        match told {
            Some((told, outcome)) if told == entry => {
                outcome.map(|()| Reverted::Forgotten).map_err(refuse)
            }
            _ => Err(refuse(
                "pi's permission gate did not take it back".to_owned(),
            )),
        }
    }
}

impl Reverting for PiRuntime {
    fn revert(
        &self,
        thread: NativeId,
        from: NativeId,
    ) -> BoxFuture<'_, Result<Reverted, RevertError>> {
        Box::pin(self.take_back(thread, from))
    }
}

impl History for PiRuntime {
    fn read(
        &self,
        _thread: NativeId,
        turns: u32,
    ) -> BoxFuture<'_, Result<Vec<ProviderEvent>, OpenError>> {
        Box::pin(async move { Ok(self.entries().await?.last(turns)) })
    }

    /// pi keeps no id of ours with a message, so a message is not found by its id.
    fn proves_absence(&self) -> bool {
        false
    }
}

impl Forking for PiRuntime {
    fn fork(&self, fork: ForkThread) -> BoxFuture<'_, Result<NativeId, OpenError>> {
        Box::pin(self.copy(fork))
    }
}

impl Compacting for PiRuntime {
    fn compact(&self, _thread: NativeId) -> BoxFuture<'_, Result<Compaction, SendError>> {
        Box::pin(self.shorten())
    }
}

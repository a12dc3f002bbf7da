//! Sessions: loaded, copied, read back.

use super::{
    driver::{PiRuntime, refused},
    outgoing::Call,
    replies::{CallError, Entries, Reply},
};
use crate::{
    contract::{ForkThread, OpenError, OpenThread},
    rpc::{CallFailure as _, session::lock},
};
use pilothouse_domain::{NativeId, run::ErrorCode, thread::Selection};
use std::{path::Path, sync::atomic::Ordering};

impl PiRuntime {
    /// Has pi load the session of a file, if that is not loaded. Nobody is told before its state is asked for.
    pub(super) async fn switch(&self, thread: &NativeId) -> Result<(), OpenError> {
        if lock(&self.session.codec).home() == Some(thread) {
            return Ok(());
        }
        // pi would begin a new session in a file that is not there.
        if !Path::new(thread.as_str()).is_file() {
            return Err(OpenError::NotFound {
                thread: thread.clone(),
            });
        }
        let file = thread.as_str().to_owned();
        match self.call(Call::Switch { file }).await {
            Ok(Reply::Prevented) => {
                let error = refused(ErrorCode::Resume, "an extension of pi prevented it");
                Err(OpenError::Refused { error })
            }
            Ok(_) => Ok(()),
            Err(error) => Err(open_error(error, ErrorCode::Resume)),
        }
    }

    /// The session that is loaded, asked for now.
    async fn state(&self, call: Call) -> Result<NativeId, OpenError> {
        match self.call(call).await {
            Ok(Reply::State(state)) => Ok(NativeId(state.session)),
            Ok(_) => {
                let error = refused(ErrorCode::Protocol, "pi does not say which session it has");
                Err(OpenError::Refused { error })
            }
            Err(error) => Err(open_error(error, ErrorCode::Start)),
        }
    }

    /// pi works where its process does: nowhere else can be asked for.
    fn check_place(&self, cwd: &Path) -> Result<(), OpenError> {
        let same = |a: &Path, b: &Path| {
            a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
        };
        let message = if !cwd.is_dir() {
            format!("the workspace {} is not there", cwd.display())
        } else if !same(cwd, &self.cwd) {
            format!(
                "it works in {} and nowhere else; take `cwd` of this agent out of host.toml",
                self.cwd.display()
            )
        } else {
            return Ok(());
        };
        let error = refused(ErrorCode::Start, message);
        Err(OpenError::Refused { error })
    }

    pub(super) async fn open(&self, open: OpenThread) -> Result<NativeId, OpenError> {
        self.check_place(&open.cwd)?;
        let _starting = self.starting.lock().await;
        if let Some(thread) = &open.resume {
            self.switch(thread).await?;
            self.effort_set.store(true, Ordering::Release);
            // What it is set to decides what has to be set.
            self.state(Call::State).await?;
        }
        self.chosen(&open.selection).await
    }

    /// The session that is loaded, put where a selection wants it.
    async fn chosen(&self, selection: &Selection) -> Result<NativeId, OpenError> {
        self.select(selection)
            .await
            .map_err(|error| open_error(error, ErrorCode::Start))?;
        self.state(Call::Opened).await
    }

    pub(super) async fn copy(&self, fork: ForkThread) -> Result<NativeId, OpenError> {
        self.check_place(&fork.cwd)?;
        let _starting = self.starting.lock().await;
        self.switch(&fork.source).await?;
        let whole = Call::Clone;
        let call = match &fork.through {
            None => whole,
            Some(_) if fork.whole => whole,
            Some(turn) => {
                let entries = self.entries().await?;
                match entries.after(turn) {
                    Ok(Some(entry)) => Call::Fork {
                        entry: entry.to_owned(),
                    },
                    Ok(None) => whole,
                    Err(()) => {
                        let message =
                            "the session does not hold the turn at which it should be copied";
                        let error = refused(ErrorCode::Resume, message);
                        return Err(OpenError::Refused { error });
                    }
                }
            }
        };
        match self.call(call).await {
            Ok(Reply::Prevented) => {
                let error = refused(ErrorCode::Start, "an extension of pi prevented it");
                return Err(OpenError::Refused { error });
            }
            Ok(_) => {}
            Err(error) => return Err(open_error(error, ErrorCode::Start)),
        }
        self.effort_set.store(true, Ordering::Release);
        let copy = self.state(Call::State).await?;
        if copy == fork.source {
            let error = refused(ErrorCode::Protocol, "pi made no copy");
            return Err(OpenError::Refused { error });
        }
        self.chosen(&fork.selection).await
    }

    pub(super) async fn entries(&self) -> Result<Entries, OpenError> {
        match self.call(Call::Entries).await {
            Ok(Reply::Entries(entries)) => Ok(entries),
            Ok(_) => Ok(Entries::default()),
            Err(error) => Err(open_error(error, ErrorCode::Resume)),
        }
    }
}

fn open_error(error: CallError, code: ErrorCode) -> OpenError {
    match error {
        CallError::Lost => OpenError::Lost,
        error => OpenError::Refused {
            error: error.run_error(code),
        },
    }
}

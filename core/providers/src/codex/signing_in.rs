//! Signing codex in from anywhere, by a code that is entered in a browser (docs/decisions/033).
//!
//! Codex begins when it is asked to, and says by a notification how it ended. It has one sign-in at a time: another one gives up
//! the first. Nothing of the account or of its tokens passes through here.

use super::{
    codec::{Codec, Received},
    driver::CodexRuntime,
    outgoing::Call,
    replies::CallError,
};
use crate::{
    contract::{SendError, SigningIn},
    rpc::{
        CallFailure as _,
        answers::{Answers, Decision},
        asked::{Opened, is_bounded, request_id},
        event, facts,
        frames::{cut, text_of},
        session::lock,
    },
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{
    CapabilityFlag, CapabilityValue, NativeId, ProviderEventKind, Subject,
    provider_event::{NativePlace, Resolution},
    request::{OptionEffect, RequestKind, SignInSteps},
    run::{ErrorCode, RunError},
    thread::Selection,
};
use serde_json::Value;
use std::time::SystemTime;

/// Bytes of a page's address, of a code or of why it failed.
const WORDS: usize = 2048;

impl Codec {
    /// The request of a sign-in that goes on.
    pub(super) fn signing_in(&self) -> Option<&NativeId> {
        let mut all = self.requests.iter();
        all.find(|(_, pending)| pending.opened.kind == RequestKind::Auth)
            .map(|(request, _)| request)
    }

    /// Whether a request is asked in that conversation.
    fn asks_in(&self, request: &NativeId, thread: &NativeId) -> bool {
        let pending = self.requests.get(request);
        pending.is_some_and(|pending| pending.opened.thread == *thread)
    }

    /// Codex began to sign in: asks a person in a conversation for what is left to do.
    pub(super) fn sign_in_begun(
        &mut self,
        thread: &NativeId,
        result: &Value,
        out: &mut Vec<Received>,
    ) -> Option<()> {
        let bounded = |key: &str| text_of(result, key).filter(|text| text.len() <= WORDS);
        let login = result.get("loginId")?;
        let login = Some(login).filter(|id| id.is_string() && is_bounded(id))?;
        let url = bounded("verificationUrl")?;
        let code = bounded("userCode")?;
        let give_up = Decision::new(
            "cancel",
            "Cancel",
            OptionEffect::Deny,
            "codex stops to wait for it, and its threads wait on",
            Value::Null,
        );
        let mut opened = Opened {
            thread: thread.clone(),
            turn: None,
            item: None,
            kind: RequestKind::Auth,
            subject: Subject {
                text: Some(format!(
                    "Open {url} in any browser, sign in there, and enter the code {code}."
                )),
                sign_in: Some(SignInSteps {
                    url,
                    code: Some(code),
                }),
                options: vec![give_up.option.clone()],
                ..Subject::default()
            },
            unknown_fields: false,
            answers: Answers::Decisions(vec![give_up]),
        };
        let place = self.lineage.place(Some(thread.clone()), None);
        let closed = |place, kind| event(out, place, kind);
        // Codex waits in vain for one that has no room, until another is begun.
        let takes = self.requests.takes(login, &place, &mut opened, closed);
        takes.then(|| self.requests.open(login.clone(), place, opened, out))
    }

    /// `account/login/completed`: a sign-in ended, of ours or of anybody's who is connected with the same codex.
    pub(super) fn sign_in_ended(&mut self, params: &Value, out: &mut Vec<Received>) -> Option<()> {
        let success = params.get("success")?.as_bool()?;
        // A key that somebody gave it has none; whether that is taken, the next turn shows.
        let by_account = params.get("loginId").filter(|id| id.is_string());
        let request = by_account.map(request_id);
        if let Some((request, ended)) =
            request.and_then(|id| Some((id.clone(), self.requests.take(&id)?)))
        {
            let error = text_of(params, "error").unwrap_or_default();
            let resolution = match success {
                true => Resolution::Answered,
                false if ended.answered => Resolution::Answered,
                false if error.contains("timed out") => Resolution::Expired,
                false => Resolution::Withdrawn,
            };
            let kind = ProviderEventKind::RequestClosed {
                request,
                resolution,
            };
            event(out, ended.place.clone(), kind);
            if !success && !ended.answered {
                let message = cut(&error, WORDS);
                event(
                    out,
                    ended.place,
                    ProviderEventKind::SignInFailed { message },
                );
            }
        }
        if success && by_account.is_some() {
            event(out, NativePlace::default(), ProviderEventKind::SignedIn);
        }
        Some(())
    }
}

impl CodexRuntime {
    /// A service that takes another key than an account's is not signed in to.
    pub(super) fn learn_sign_in(&self, by_account: Option<bool>, version: &str) {
        let Some(by_account) = by_account else {
            return;
        };
        let value = match by_account {
            true => CapabilityValue::Yes,
            false => CapabilityValue::No,
        };
        let fact = facts::seen(value, version, SystemTime::now());
        lock(&self.session.capabilities).learn(CapabilityFlag::SignIn, fact);
    }

    async fn begin_to_sign_in(&self, thread: NativeId) -> Result<(), SendError> {
        let refused = |error| SendError::Refused { error };
        let _one = self.signing_in.lock().await;
        let going_on = {
            let codec = lock(&self.session.codec);
            codec
                .signing_in()
                .map(|request| codec.asks_in(request, &thread))
        };
        match going_on {
            Some(true) => return Ok(()),
            Some(false) => {
                let message =
                    "it was begun in another thread; finish or cancel it there".to_owned();
                let code = ErrorCode::Agent;
                return Err(refused(RunError { code, message }));
            }
            None => {}
        }
        let call = Call::LoginStart { thread };
        match self.session.call(call, self.deadlines.call).await {
            Ok(_) => Ok(()),
            Err(CallError::Lost | CallError::Timeout { .. }) => Err(SendError::Unknown),
            Err(error) => Err(refused(error.run_error(ErrorCode::Agent))),
        }
    }
}

impl SigningIn for CodexRuntime {
    fn begin(&self, thread: NativeId, _: Selection) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(self.begin_to_sign_in(thread))
    }
}

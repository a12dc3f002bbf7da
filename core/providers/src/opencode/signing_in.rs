//! Signing in to the provider of a thread's model from anywhere, by a page that is opened in a browser (docs/decisions/033).
//!
//! opencode begins when it is asked to, and answers a call of its own when it is over: by itself, or with the code that the page
//! shows. That wait of its cannot be taken back: what is given up here may still be finished there. A directory that opencode has
//! read keeps the sign-in that it was read with, so it is read anew before the next message. Nothing of an account or of its
//! tokens passes through here.

use super::{
    codec::{Codec, Told, tell},
    driver::{OpencodeRuntime, run_error},
    link::Link,
    outgoing::{Call, Code},
    replies::{self, CallError, Reply, SignInPage},
};
use crate::{
    contract::{RespondError, Response, SendError, SigningIn},
    rpc::{
        CallFailure as _,
        answers::{Answers, Decision},
        asked::{AnswerProblem, Opened, request_id},
        facts,
        session::lock,
    },
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{
    Answer, CapabilityFlag, CapabilityValue, NativeId, ProviderEventKind, Subject,
    provider_event::{NativePlace, Resolution},
    request::{AnswerDelivery, OptionEffect, Question, RequestKind, SignInSteps},
    run::ErrorCode,
    thread::Selection,
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};
use tokio::task::AbortHandle;

/// How long a person has, as with codex.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// For what the provider says to a code.
const JUDGED: Duration = Duration::from_secs(60);
/// Where a page comes back to that only a browser on opencode's own machine can be signed in at.
const ITS_OWN_MACHINE: [&str; 4] = [
    "redirect_uri=http%3a%2f%2flocalhost",
    "redirect_uri=http%3a%2f%2f127.0.0.1",
    "redirect_uri=http://localhost",
    "redirect_uri=http://127.0.0.1",
];

/// How many sign-ins came to their end, in all opencodes of an adapter: they share what it keeps of them.
#[derive(Debug, Default)]
pub(super) struct SignIns(AtomicU64);

/// What is known of the sign-ins of one opencode.
pub(super) struct Signer {
    all: Arc<SignIns>,
    /// How many there were when it was told last to read them.
    read: tokio::sync::Mutex<u64>,
    /// Taken while one is begun, so that there is one at a time.
    beginning: tokio::sync::Mutex<()>,
    going_on: Mutex<Option<GoingOn>>,
}

/// A sign-in that a person is asked for.
struct GoingOn {
    provider: String,
    method: usize,
    /// Waits until opencode says that it is over, where it says so by itself.
    waiting: Option<AbortHandle>,
}

impl Signer {
    pub(super) fn new(all: Arc<SignIns>) -> Self {
        let read = all.0.load(Ordering::Acquire);
        Self {
            all,
            read: tokio::sync::Mutex::new(read),
            beginning: tokio::sync::Mutex::default(),
            going_on: Mutex::default(),
        }
    }
}

impl Codec {
    /// The conversation in which a person is asked to sign in.
    fn signing_in(&self) -> Option<&NativeId> {
        let mut all = self.requests.iter();
        all.find(|(_, pending)| pending.opened.kind == RequestKind::Auth)
            .map(|(_, pending)| &pending.opened.thread)
    }

    /// Asks a person in a conversation to sign in; the request's name for events.
    fn ask_to_sign_in(
        &mut self,
        thread: &NativeId,
        page: SignInPage,
        name: String,
    ) -> (NativeId, Vec<Told>) {
        let request = request_id(&json!(name));
        let give_up = Decision::new(
            "cancel",
            "Cancel",
            OptionEffect::Deny,
            "nobody waits for it any more, and opencode's threads wait on",
            Value::Null,
        );
        let (url, instructions) = (page.url, page.instructions);
        let options = vec![give_up.option.clone()];
        let (questions, answers) = match page.by_code {
            false => (Vec::new(), Answers::Decisions(vec![give_up])),
            true => (vec![code_of_page()], Answers::Lists(vec![give_up])),
        };
        let opened = Opened {
            thread: thread.clone(),
            turn: None,
            item: None,
            kind: RequestKind::Auth,
            subject: Subject {
                text: Some(format!(
                    "Open {url} in any browser, and sign in there. {instructions}"
                )),
                sign_in: Some(SignInSteps { url, code: None }),
                questions,
                options,
                ..Subject::default()
            },
            unknown_fields: false,
            answers,
        };
        let mut out = Vec::new();
        if let Some(place) = self.place(thread) {
            self.open_request(name, place, opened, &mut out);
        }
        (request, out)
    }

    /// The code that a person gave; `None` if it was given up.
    fn answer_sign_in(
        &mut self,
        request: &NativeId,
        answer: &Answer,
    ) -> Result<Option<Code>, AnswerProblem> {
        let (_, result) = self.requests.answer(request, answer)?;
        let code = result.pointer("/answers/0/0").and_then(Value::as_str);
        Ok(code.map(|code| Code(code.trim().to_owned())))
    }

    /// A sign-in is over, and why it came to nothing.
    fn sign_in_ended(
        &mut self,
        request: &NativeId,
        resolution: Resolution,
        problem: Option<String>,
    ) -> Vec<Told> {
        let mut out = Vec::new();
        let Some(ended) = self.requests.take(request) else {
            return out;
        };
        let kind = ProviderEventKind::RequestClosed {
            request: request.clone(),
            resolution,
        };
        tell(ended.place.clone(), kind, &mut out);
        if let Some(message) = problem {
            tell(
                ended.place,
                ProviderEventKind::SignInFailed { message },
                &mut out,
            );
        }
        out
    }
}

fn code_of_page() -> Question {
    Question {
        id: "code".to_owned(),
        header: "Code".to_owned(),
        text: "What does the page show when you are signed in?".to_owned(),
        choices: Vec::new(),
        multi_select: false,
        optional: false,
        free_text: true,
        secret: true,
    }
}

/// Whether a page can be signed in at by any browser: it does not come back to a port of opencode's own machine.
fn is_for_any_browser(url: &str) -> bool {
    let url = url.to_ascii_lowercase();
    !ITS_OWN_MACHINE.iter().any(|back| url.contains(back))
}

/// Tells how a sign-in ended. `code` is what a person gave for it.
async fn ended(
    link: &Link,
    all: &SignIns,
    request: &NativeId,
    code: Option<&Code>,
    outcome: Result<Reply, CallError>,
) {
    let (resolution, problem) = match outcome {
        // Whoever reads this is told of the process' end.
        Err(_) if link.process.has_exited() => return,
        Ok(Reply::SignInEnded(true)) => (Resolution::Answered, None),
        Ok(_) => (
            Resolution::Withdrawn,
            "opencode says that it did not work".to_owned().into(),
        ),
        Err(error @ CallError::Timeout { .. }) => (Resolution::Expired, Some(error.to_string())),
        Err(error) => (Resolution::Withdrawn, Some(error.to_string())),
    };
    // A code that was given is an answer, whatever comes of it; what was said to it might repeat it.
    let (resolution, problem) = match code {
        None => (resolution, problem),
        Some(Code(code)) => {
            let problem = problem.map(|problem| problem.replace(code, "•••"));
            (Resolution::Answered, problem)
        }
    };
    let worked = problem.is_none();
    if worked {
        all.0.fetch_add(1, Ordering::AcqRel);
    }
    link.tell(|codec| {
        let mut out = codec.sign_in_ended(request, resolution, problem);
        if worked {
            tell(
                NativePlace::default(),
                ProviderEventKind::SignedIn,
                &mut out,
            );
        }
        out
    })
    .await;
}

impl OpencodeRuntime {
    /// Whether any provider that it has models of can be signed in to at a page. An opencode that somebody else started is not:
    /// reading its sign-ins anew would stop what others do there.
    pub(super) async fn learn_sign_in(&mut self, version: &str) {
        let able = match self.link.call(Call::SignInMethods).await {
            _ if self.process().is_far() => CapabilityValue::No,
            Ok(Reply::SignInMethods(methods)) => {
                let any = self.choice.models.iter().any(|model| {
                    let at_a_page = methods.get(&model.provider);
                    at_a_page.is_some_and(|places| !places.is_empty())
                });
                match any {
                    true => CapabilityValue::Yes,
                    false => CapabilityValue::No,
                }
            }
            // Without it opencode is used all the same.
            _ => CapabilityValue::No,
        };
        let fact = facts::seen(able, version, SystemTime::now());
        self.capabilities.learn(CapabilityFlag::SignIn, fact);
    }

    /// Has a conversation's directory be read anew where a sign-in came since, or was refused: it may have been renewed on its
    /// host. While something goes on there it is left as it is.
    pub(super) async fn read_sign_ins_anew(&self, session: &NativeId) {
        if self.process().is_far() {
            return;
        }
        let mut read = self.signer.read.lock().await;
        let all = self.signer.all.0.load(Ordering::Acquire);
        let directory = self.link.with_codec(|codec| {
            let stale = codec.refused || *read != all;
            let known = codec
                .conversation(session)
                .filter(|_| stale && codec.is_idle());
            known.map(|known| known.directory.clone())
        });
        let Some(directory) = directory else { return };
        let forget = Call::Forget {
            directory: directory.clone(),
        };
        if let Err(error) = self.link.call(forget).await {
            tracing::warn!(%error, "opencode could not be told to read its sign-ins anew");
            return;
        }
        *read = all;
        self.link.with_codec(|codec| codec.refused = false);
        // They were there until now.
        let problems = self.servers.add(&self.link, directory.as_ref()).await;
        self.servers.to_be_told(session, problems);
    }

    /// The provider whose sign-in a thread waits for.
    async fn provider_of(&self, thread: &NativeId, selection: &Selection) -> Option<String> {
        let named = selection.model.clone();
        let named = named.or_else(|| self.choice.own_model(selection.mode));
        if let Some((provider, _)) = named.as_deref().and_then(replies::named) {
            return Some(provider);
        }
        let used = self.model_of(thread).await;
        let (provider, _) = used.or_else(|| self.choice.first_model())?;
        Some(provider)
    }

    /// Begins by the first method of a provider that any browser can finish.
    async fn begin_at_a_page(
        &self,
        provider: &str,
    ) -> Result<Option<(usize, SignInPage)>, CallError> {
        let Reply::SignInMethods(mut methods) = self.link.call(Call::SignInMethods).await? else {
            return Ok(None);
        };
        for method in methods.remove(provider).unwrap_or_default() {
            let begin = Call::BeginSignIn {
                provider: provider.to_owned(),
                method,
            };
            if let Reply::SignInBegun(page) = self.link.call(begin).await?
                && is_for_any_browser(&page.url)
            {
                return Ok(Some((method, page)));
            }
        }
        Ok(None)
    }

    async fn begin_to_sign_in(
        &self,
        thread: NativeId,
        selection: Selection,
    ) -> Result<(), SendError> {
        let refused = |message: String| SendError::Refused {
            error: run_error(ErrorCode::Agent, message),
        };
        let _one = self.signer.beginning.lock().await;
        let going_on = self
            .link
            .with_codec(|codec| codec.signing_in().map(|there| *there == thread));
        match going_on {
            Some(true) => return Ok(()),
            Some(false) => {
                let message = "it was begun in another thread; finish or cancel it there";
                return Err(refused(message.to_owned()));
            }
            None => {}
        }
        let provider = self.provider_of(&thread, &selection).await;
        let provider =
            provider.ok_or_else(|| refused("opencode does not say which model it takes".into()))?;
        let begun = match self.begin_at_a_page(&provider).await {
            Ok(begun) => begun,
            Err(CallError::Lost | CallError::Timeout { .. }) => return Err(SendError::Unknown),
            Err(error) => {
                let error = error.run_error(ErrorCode::Agent);
                return Err(SendError::Refused { error });
            }
        };
        let (method, page) = begun.ok_or_else(|| {
            refused(format!(
                "opencode has no way to sign in to {provider} from here; on the host: `opencode auth login`"
            ))
        })?;
        let by_code = page.by_code;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let name = format!("sign_in_{}", now.unwrap_or_default().as_nanos());
        let mut request = None;
        self.link
            .tell(|codec| {
                let (asked, told) = codec.ask_to_sign_in(&thread, page, name);
                request = Some(asked);
                told
            })
            .await;
        let waiting = match request {
            Some(request) if !by_code => {
                let (link, all) = (Arc::clone(&self.link), Arc::clone(&self.signer.all));
                let wait = Call::EndSignIn {
                    provider: provider.clone(),
                    method,
                    code: None,
                };
                let waiting = tokio::spawn(async move {
                    let outcome = link.call_within(wait, PATIENCE).await;
                    ended(&link, &all, &request, None, outcome).await;
                });
                Some(waiting.abort_handle())
            }
            _ => None,
        };
        *lock(&self.signer.going_on) = Some(GoingOn {
            provider,
            method,
            waiting,
        });
        Ok(())
    }

    /// A person gives the code of the page, or gives up.
    pub(super) async fn end_sign_in(
        &self,
        response: Response,
    ) -> Result<AnswerDelivery, RespondError> {
        let request = &response.request;
        let code = self.taken(&response, |codec| {
            codec.answer_sign_in(request, &response.answer)
        })?;
        let going_on = {
            let _begun = self.signer.beginning.lock().await;
            lock(&self.signer.going_on).take()
        };
        let (Some(code), Some(going_on)) = (code, going_on.as_ref()) else {
            if let Some(waiting) = going_on.and_then(|going_on| going_on.waiting) {
                waiting.abort();
            }
            let given_up =
                |codec: &mut Codec| codec.sign_in_ended(request, Resolution::Answered, None);
            self.link.tell(given_up).await;
            return Ok(AnswerDelivery::Confirmed);
        };
        let call = Call::EndSignIn {
            provider: going_on.provider.clone(),
            method: going_on.method,
            code: Some(code.clone()),
        };
        let outcome = self.link.call_within(call, JUDGED).await;
        ended(&self.link, &self.signer.all, request, Some(&code), outcome).await;
        match self.process().has_exited() {
            true => Err(RespondError::Lost),
            false => Ok(AnswerDelivery::Confirmed),
        }
    }
}

impl SigningIn for OpencodeRuntime {
    fn begin(
        &self,
        thread: NativeId,
        selection: Selection,
    ) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(self.begin_to_sign_in(thread, selection))
    }
}

#[cfg(test)]
mod tests {
    use super::is_for_any_browser;

    #[test]
    fn a_page_that_comes_back_to_a_port_of_its_machine_is_for_no_other_browser() {
        for back in [
            "http%3A%2F%2Flocalhost%3A1455%2Fauth",
            "http://127.0.0.1:80/x",
        ] {
            let url = format!("https://example.org/authorize?a=b&redirect_uri={back}&c=d");
            assert!(!is_for_any_browser(&url), "{url}");
        }
        assert!(is_for_any_browser("http://127.0.0.1:9/device"));
        assert!(is_for_any_browser(
            "https://example.org/?redirect_uri=https%3A%2F%2Fexample.org%2Fcode"
        ));
    }
}

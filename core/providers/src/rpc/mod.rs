//! What families that speak JSON-RPC lines over a process' pipes have in common: lines and frames, a running session with
//! the calls that wait, and what an agent asks of a person.
//!
//! Knows no method of any family. A family brings a [`Peer`]: its sans-I/O codec.

pub(crate) mod answers;
pub(crate) mod asked;
pub(crate) mod bounded;
pub(crate) mod budget;
pub(crate) mod commands;
pub(crate) mod cost;
mod cutting;
pub(crate) mod date;
pub(crate) mod delivery;
pub(crate) mod facts;
pub(crate) mod form;
pub(crate) mod frames;
pub(crate) mod growth;
pub(crate) mod life;
pub(crate) mod session;
pub(crate) mod session_files;
pub(crate) mod websocket;

use asked::AnswerProblem;
use pilothouse_domain::{
    Answer, Capabilities, Incarnation, NativeId, ProviderEvent, ProviderEventKind, Subject,
    provider::TurnStatus,
    provider_event::NativePlace,
    request::RequestKind,
    run::{ErrorCode, RunError},
};
use serde_json::Value;
use std::time::Duration;

/// What came of bytes from an agent. `R` is what its family's calls give, `E` why one gave nothing.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are events; a box would cost an allocation for each delta"
)]
#[derive(Debug, Clone, PartialEq)]
pub enum Received<R, E> {
    /// Something happened.
    Event(ProviderEvent),
    /// A call of ours was answered.
    Reply {
        /// The call's number.
        call: u64,
        /// What it gave.
        reply: Result<R, E>,
    },
    /// To be written to the agent at once: a refusal or an answer that needs no person.
    Send(Vec<u8>),
}

/// The first events of an agent that is there: what it can do, and what was noticed on the way.
pub(crate) fn greeting(
    incarnation: Incarnation,
    version: String,
    capabilities: Capabilities,
    noticed: Vec<String>,
) -> Vec<ProviderEvent> {
    let ready = ProviderEventKind::SessionReady {
        incarnation,
        version,
        capabilities,
    };
    let told = noticed
        .into_iter()
        .map(|message| ProviderEventKind::Diagnostic { message });
    let at_process = |kind| ProviderEvent {
        place: NativePlace::default(),
        kind,
    };
    std::iter::once(ready).chain(told).map(at_process).collect()
}

/// A family's codec: bytes in, events and frames out. No clock, no process, no waiting.
pub(crate) trait Peer: Send + 'static {
    /// A call of ours.
    type Call: Send;
    /// What a call gives.
    type Reply: Send + 'static;
    /// Why a call gave nothing.
    type Error: CallFailure;

    /// What a person calls its agents.
    const NAME: &'static str;
    /// Whether every agent of the family answers [`Self::probe`] as long as it lives.
    const ALWAYS_ANSWERS: bool;

    /// A call's name.
    fn method(call: &Self::Call) -> &str;
    /// Registers a call and gives its number and its line.
    fn call(&mut self, call: Self::Call) -> (u64, Vec<u8>);
    /// Forgets a call whose answer is no longer waited for.
    fn forget(&mut self, call: u64);
    /// Takes bytes as they come, split anywhere.
    fn receive(&mut self, bytes: &[u8]) -> Vec<Received<Self::Reply, Self::Error>>;
    /// The stream has ended: reads what is left of the last line.
    fn finish(&mut self) -> Vec<Received<Self::Reply, Self::Error>>;
    /// Unreadable lines since the last readable frame.
    fn unreadable_in_a_row(&self) -> u32;
    /// Turns that go on while nothing in their conversation waits for a person.
    fn working(&self) -> Vec<NativePlace>;
    /// Requests opened since this was last asked that stop waiting by themselves: a number for each, and how long it waits.
    fn timed(&mut self) -> Vec<(u64, Duration)> {
        Vec::new()
    }
    /// The time of one of them is over.
    fn expire(&mut self, _timed: u64) -> Vec<Received<Self::Reply, Self::Error>> {
        Vec::new()
    }
    /// A call that costs nothing and changes nothing.
    fn probe() -> Self::Call;
    /// Whether a pending request is the one that was shown.
    fn is_same_request(
        &self,
        request: &NativeId,
        thread: &NativeId,
        kind: RequestKind,
        shown: &Subject,
    ) -> bool;
    /// The frame for a person's answer.
    fn answer(&mut self, request: &NativeId, answer: &Answer) -> Result<Vec<u8>, AnswerProblem>;
}

/// The part of a [`Peer`] that a codec has by its own, public methods of the same names.
macro_rules! by_own_methods {
    () => {
        type Call = Call;
        type Reply = Reply;
        type Error = CallError;

        fn method(call: &Call) -> &str {
            call.method()
        }

        fn call(&mut self, call: Call) -> (u64, Vec<u8>) {
            Codec::call(self, call)
        }

        fn forget(&mut self, call: u64) {
            Codec::forget(self, call);
        }

        fn receive(&mut self, bytes: &[u8]) -> Vec<Received> {
            Codec::receive(self, bytes)
        }

        fn finish(&mut self) -> Vec<Received> {
            Codec::finish(self)
        }

        fn unreadable_in_a_row(&self) -> u32 {
            Codec::unreadable_in_a_row(self)
        }

        fn is_same_request(
            &self,
            request: &NativeId,
            thread: &NativeId,
            kind: RequestKind,
            shown: &Subject,
        ) -> bool {
            Codec::is_same_request(self, request, thread, kind, shown)
        }

        fn answer(
            &mut self,
            request: &NativeId,
            answer: &Answer,
        ) -> Result<Vec<u8>, AnswerProblem> {
            Codec::answer(self, request, answer)
        }
    };
}
pub(crate) use by_own_methods;

/// Why a call gave nothing, as far as every family knows it.
pub(crate) trait CallFailure: std::fmt::Display + Send + 'static {
    /// The process ended first.
    fn lost() -> Self;
    /// No answer came in time.
    fn timeout(method: String, seconds: u64) -> Self;

    /// As the error of a run.
    fn run_error(&self, code: ErrorCode) -> RunError {
        RunError {
            code,
            message: self.to_string(),
        }
    }
}

/// Adds an event.
pub(crate) fn event<R, E>(
    out: &mut Vec<Received<R, E>>,
    place: NativePlace,
    kind: ProviderEventKind,
) {
    out.push(Received::Event(ProviderEvent { place, kind }));
}

/// Something of ours, told where the person of a conversation reads.
pub(crate) fn notice(raw: String) -> ProviderEventKind {
    ProviderEventKind::Unknown {
        label: "notice (warning)".to_owned(),
        raw,
    }
}

/// The end of a turn; before it, where it failed, why: a person reads that among the turn's items.
pub(crate) fn turn_end(status: TurnStatus, error: Option<RunError>) -> Vec<ProviderEventKind> {
    let words = error.clone().filter(|_| status == TurnStatus::Failed);
    let words = words.map(|error| ProviderEventKind::Error {
        error,
        will_retry: false,
    });
    let end = ProviderEventKind::TurnEnded { status, error };
    words.into_iter().chain([end]).collect()
}

/// A line for an agent: one JSON object and a line feed.
pub(crate) fn line(frame: &Value) -> Vec<u8> {
    let mut bytes = frame.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

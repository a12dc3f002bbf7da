//! 100,000 requests of an agent at once, through its codec and on into a thread: as many wait as a thread may have open, every
//! other one is answered at once, and the work for each is the same however many came before.

use crate::{
    ALONE, Fed, acp, claude, codex, opencode, pi,
    thread::{follow, session, thread},
};
use pilothouse_domain::limits;
use std::{ops::Range, sync::PoisonError};

const REQUESTS: usize = 100_000;

fn flood<C: Fed>(mut codec: C, asks: impl Fn(Range<usize>) -> Vec<u8>) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut thread, policy) = thread();
    let session = session();
    let (mut answered, mut events) = (0, 0);
    // Events that came of each tenth, and what they left in the log.
    let mut work = Vec::new();
    for tenth in 0..10 {
        let entries = thread.entries.len();
        let before = events;
        for part in 0..100 {
            let first = (tenth * 100 + part) * REQUESTS / 1000;
            let came = codec.feed(&asks(first..first + REQUESTS / 1000));
            answered += came.answers;
            events += came.events.len();
            for event in came.events {
                thread.provider(&session, &event);
            }
        }
        work.push((events - before, thread.entries.len() - entries));
    }
    assert_eq!(thread.state.requests.len(), limits::OPEN_REQUESTS);
    assert_eq!(answered, REQUESTS - limits::OPEN_REQUESTS);
    assert!(
        work[1..].iter().all(|tenth| *tenth == work[1]),
        "the first tenth fills what there is room for; then each makes the same work: {work:?}"
    );
    assert!(work[1].0 <= 2 * REQUESTS / 10, "{work:?}");
    follow(&thread, policy);
}

#[test]
fn requests_of_codex() {
    flood(pilothouse_providers::codex::Codec::new(), codex::asks);
}

#[test]
fn requests_of_claude() {
    flood(claude::codec(), claude::asks);
}

#[test]
fn requests_of_an_agent_that_speaks_acp() {
    flood(acp::codec(), acp::asks);
}

#[test]
fn requests_of_pi() {
    flood(pi::codec(), pi::asks);
}

#[test]
fn requests_of_opencode() {
    flood(opencode::codec(), opencode::asks);
}

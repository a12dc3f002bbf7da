//! A thread's life against an oracle: commands and an agent's doings are generated with weights by what there is to do,
//! and after each step the thread, a device that follows it, and a small model in other words have to agree.
//!
//! `PROPTEST_CASES` sets the number of threads, `PILOTHOUSE_SEED` another beginning. A failure shows the shortest course
//! that fails; what was covered stands on the error output (`--nocapture`).

mod agent;
mod course;
mod coverage;
mod oracle;
mod outcomes;
mod rules;
mod sim;

use course::{Choice, Course};
use coverage::Coverage;
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner},
};
use std::{cell::RefCell, panic::AssertUnwindSafe};

/// Threads by default, so that every cell is hit.
const CASES: u32 = 320;

/// A number from the environment, or the one by default.
#[expect(clippy::disallowed_methods, reason = "a test's switches")]
fn env(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is `{text}`, not a number")),
        Err(_) => otherwise,
    }
}

fn course() -> impl Strategy<Value = ((bool, bool, bool), Vec<Choice>)> {
    let able = prop::bool::weighted(0.8);
    let names = prop::bool::weighted(0.7);
    let choice = (any::<u16>(), any::<u16>(), any::<u16>());
    (
        (any::<bool>(), able, names),
        prop::collection::vec(choice, 1..260),
    )
}

fn live(agent: (bool, bool, bool), choices: &[Choice], coverage: &mut Coverage) {
    let (steers, stops, names_turns) = agent;
    coverage.story.clear();
    let mut course = Course::begin(steers, stops, names_turns, coverage);
    for choice in choices {
        course.step(*choice);
    }
    course.end();
}

#[test]
fn thread_device_and_oracle_agree_whatever_happens() {
    let seed = env("PILOTHOUSE_SEED", 0);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: u32::try_from(env("PROPTEST_CASES", u64::from(CASES)))
            .unwrap()
            .max(CASES),
        failure_persistence: None,
        max_shrink_time: 15_000,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let coverage = RefCell::new(Coverage::default());
    let result = runner.run(&course(), |(agent, choices)| {
        let mut coverage = coverage.borrow_mut();
        std::panic::catch_unwind(AssertUnwindSafe(|| live(agent, &choices, &mut coverage))).map_err(
            |panic| {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned()));
                let story = coverage.story.join("\n");
                TestCaseError::fail(format!("{story}\n{}", text.unwrap_or_default()))
            },
        )
    });
    match result {
        Ok(()) => coverage.borrow().assert_full(),
        Err(TestError::Fail(why, (agent, choices))) => panic!(
            "{why}\nagent (steers, stops, names turns): {agent:?}\n{} choices: {choices:?}\nseed {seed}",
            choices.len()
        ),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

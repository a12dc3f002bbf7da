//! A refused sign-in of opencode is finished from any device (docs/decisions/033): real opencode, a plugin of the test that knows
//! how to sign in, and the service of the test at which it does.

use crate::signing_in::{SignedOut, a_killed_agent_loses_it, a_killed_host_loses_it};
use pilothouse_domain::{
    Answer, RequestStatus,
    request::{QuestionReply, RequestKind, SignInSteps},
};
use pilothouse_tests::Setup;

fn signed_out(by: &str) -> SignedOut {
    let world = Setup::new().opencode_by_account(by).start();
    SignedOut::of("opencode", "demo", world)
}

#[test]
fn opencode_is_signed_in_from_a_device_and_its_threads_of_all_workspaces_go_on() {
    // A second workspace has an opencode of its own, which has read the sign-ins before there was any.
    let world = Setup::new()
        .opencode_by_account("page")
        .host_toml("[workspaces.there]\npath = \"{dir}/agent-home\"\n")
        .start();
    let out = SignedOut::of("opencode", "there", world);
    let asked = out.begin();
    assert_eq!(asked.kind, RequestKind::Auth);
    assert!(!asked.one_tap_allowed);
    // By the first method that any browser can finish.
    let steps = SignInSteps {
        url: format!("{}/device", out.issuer().url()),
        code: None,
    };
    assert_eq!(asked.subject.sign_in.as_ref(), Some(&steps));
    assert!(asked.shown.contains("CODE-0001") && asked.shown.contains(&steps.url));
    out.still_waits();

    out.comes_back();
    assert!(matches!(
        out.closed(&asked),
        RequestStatus::Answered {
            answer: None,
            by: None,
            ..
        }
    ));
    out.keeps_what_was_given();
}

#[test]
fn a_sign_in_of_opencode_that_is_refused_is_over_with_its_reason_and_another_one_can_be_begun() {
    let out = signed_out("page");
    let asked = out.begin();
    out.issuer().refuse();
    assert_eq!(out.closed(&asked), RequestStatus::Withdrawn);
    let notice = out.notice("why", |notice| notice.problem.is_some());
    let why = "opencode refused the end of a sign-in: ProviderAuthOauthCallbackFailed (HTTP 400)";
    assert_eq!(
        (notice.problem.as_deref(), notice.request),
        (Some(why), None)
    );
    out.still_waits();
    out.begin();
    out.comes_back();
}

#[test]
fn a_sign_in_of_opencode_is_given_up_and_another_one_can_be_begun() {
    let out = signed_out("page");
    let asked = out.begin();
    out.device.accepted(&out.device.choose(&asked, "cancel"));
    let closed = out.closed(&asked);
    assert!(matches!(
        closed,
        RequestStatus::Answered {
            answer: Some(_),
            by: Some(_),
            ..
        }
    ));
    // opencode waits on by itself; nobody is told here.
    out.issuer().enter();
    out.still_waits();
    out.begin();
    assert_eq!(out.issuer().begun(), 2);
    out.comes_back();
}

#[test]
fn a_sign_in_is_lost_with_the_host_though_opencode_outlives_it() {
    a_killed_host_loses_it(signed_out("page"));
}

#[test]
fn a_code_that_the_page_shows_is_given_from_a_device_and_stands_in_no_log() {
    let out = signed_out("code");
    let give = |code: &str| {
        let asked = out.begin();
        let [question] = &asked.subject.questions[..] else {
            panic!("one question: {:?}", asked.subject)
        };
        assert!(question.secret && question.free_text);
        let reply = QuestionReply {
            question: question.id.clone(),
            chosen: Vec::new(),
            text: Some(code.to_owned()),
        };
        out.device.accepted(&out.device.reply(&asked, vec![reply]));
        let RequestStatus::Answered {
            answer: Some(Answer::Reply { replies }),
            by: Some(_),
            ..
        } = out.closed(&asked)
        else {
            panic!("it was answered by a person");
        };
        assert_eq!(replies[0].text.as_deref(), Some("•••"));
    };
    give("mistyped-code");
    let notice = out.notice("why", |notice| notice.problem.is_some());
    let why = "opencode refused the end of a sign-in: ProviderAuthOauthCallbackFailed (HTTP 400)";
    assert_eq!(notice.problem.as_deref(), Some(why));
    out.still_waits();
    give("shown-at-the-end");
    out.goes_on();
    out.keeps_what_was_given();
    for code in ["mistyped-code", "shown-at-the-end"] {
        out.stands_nowhere(code);
    }
}

#[test]
fn a_sign_in_is_lost_with_opencode_alone_and_another_one_can_be_begun() {
    a_killed_agent_loses_it(&signed_out("page"));
}

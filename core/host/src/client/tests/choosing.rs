//! From what was typed to one thing and one answer.

use super::rows::{codex_options, option, questions};
use crate::client::{
    failure::{Code, Failure},
    pick::{pick, short},
    verbs::{Choice, compose},
};
use pilothouse_domain::request::{Answer, OptionEffect, RequestOption};

fn found<'a>(given: &str, all: &'a [&'a str]) -> Result<&'a str, Failure> {
    pick(
        "thread",
        given,
        all,
        |id| (*id).to_owned(),
        |_| None,
        |id| format!("thread {id}"),
        "`pilothouse threads`",
    )
    .copied()
}

#[test]
fn a_beginning_that_fits_one_id_names_it() {
    assert_eq!(found("3k", &["3kfa", "7q2b"]).unwrap(), "3kfa");
    assert_eq!(found(" 7Q2B ", &["3kfa", "7q2b"]).unwrap(), "7q2b");
}

#[test]
fn a_beginning_that_fits_several_is_refused_and_lists_them() {
    let failure = found("3", &["3kfa", "3kfb", "7q2b"]).unwrap_err();
    assert_eq!(failure.code, Code::Usage);
    assert_eq!(
        failure
            .candidates
            .iter()
            .map(|one| one.id.as_str())
            .collect::<Vec<_>>(),
        ["3kfa", "3kfb"]
    );
}

#[test]
fn a_beginning_that_fits_none_is_nothing_there_and_says_where_to_look() {
    let failure = found("9", &["3kfa"]).unwrap_err();
    assert_eq!(failure.code, Code::NothingThere);
    assert!(failure.next.unwrap().contains("pilothouse threads"));
    assert_eq!(found("", &["3kfa"]).unwrap_err().code, Code::Usage);
}

#[test]
fn the_short_form_of_an_id_fits_no_other() {
    let all = ["abcdefgh", "abcdefzz", "q1234567"].map(str::to_owned);
    assert_eq!(short("abcdefgh", all.iter().cloned()), "abcdefg");
    assert_eq!(short("q1234567", all.iter().cloned()), "q123");
}

fn chosen(choice: &Choice) -> String {
    match compose(choice, None, &codex_options(), &[]).unwrap() {
        Answer::Choose { option, .. } => option.to_string(),
        Answer::Reply { .. } => panic!("a reply"),
    }
}

#[test]
fn options_are_picked_by_what_they_do() {
    assert_eq!(chosen(&Choice::Allow), "accept");
    assert_eq!(chosen(&Choice::AllowSession), "acceptForSession");
    assert_eq!(chosen(&Choice::Deny), "decline");
    assert_eq!(chosen(&Choice::Option("cancel".to_owned())), "cancel");
}

#[test]
fn what_is_not_offered_is_not_answered_and_the_offer_is_listed() {
    let only_deny = [option("no", "No", OptionEffect::Deny, "")];
    for choice in [
        Choice::Allow,
        Choice::AllowSession,
        Choice::Option("yes".to_owned()),
    ] {
        let failure = compose(&choice, None, &only_deny, &[]).unwrap_err();
        assert_eq!(failure.code, Code::Usage);
        assert!(
            failure.what.contains("nothing was answered"),
            "{}",
            failure.what
        );
        assert_eq!(failure.next.as_deref(), Some("it offers: no (deny)"));
    }
}

#[test]
fn allow_never_takes_an_option_that_reaches_further() {
    let wide = [
        option("always", "Always", OptionEffect::AllowRule, "for ever"),
        option("session", "Session", OptionEffect::AllowSession, ""),
    ];
    assert!(compose(&Choice::Allow, None, &wide, &[]).is_err());
}

#[test]
fn two_options_that_do_the_same_have_to_be_named() {
    let twice = [
        option("a", "A", OptionEffect::AllowOnce, ""),
        option("b", "B", OptionEffect::AllowOnce, ""),
    ];
    let failure = compose(&Choice::Allow, None, &twice, &[]).unwrap_err();
    assert!(
        failure
            .next
            .unwrap()
            .contains("a (allow once), b (allow once)")
    );
}

#[test]
fn deny_takes_the_one_refusal_that_refuses_the_least_and_never_a_rule() {
    let rule = option("never", "Never", OptionEffect::DenyRule, "for ever");
    let all = option("all", "No to all", OptionEffect::DenyAll, "");
    let no = option("no", "No", OptionEffect::Deny, "");
    let denied = |options: &[RequestOption]| compose(&Choice::Deny, None, options, &[]);
    assert!(denied(std::slice::from_ref(&rule)).is_err());
    for (options, chosen) in [
        (vec![rule.clone(), all.clone()], "all"),
        (vec![all.clone(), rule, no.clone()], "no"),
    ] {
        assert!(
            matches!(denied(&options), Ok(Answer::Choose { option, .. }) if option.as_str() == chosen)
        );
    }
    let but = option("but", "No, but", OptionEffect::Deny, "");
    assert!(denied(&[no, but]).is_err());
}

#[test]
fn deny_stops_the_turn_only_where_nothing_milder_is_offered() {
    let stop = [option("cancel", "Stop", OptionEffect::DenyAndStop, "")];
    assert!(
        matches!(compose(&Choice::Deny, None, &stop, &[]), Ok(Answer::Choose { option, .. }) if option.as_str() == "cancel")
    );
}

fn replies(texts: &[(&str, &str)], labels: &[(&str, &str)]) -> Result<Answer, Failure> {
    let owned = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect()
    };
    compose(
        &Choice::Replies {
            texts: owned(texts),
            labels: owned(labels),
        },
        None,
        &[],
        &questions(),
    )
}

#[test]
fn questions_are_answered_in_order_by_number_id_or_heading() {
    let answer = replies(
        &[("Token", "s3cret"), ("tests", "and the slow ones")],
        &[("1", "Staging"), ("tests", "2"), ("2", "unit")],
    )
    .unwrap();
    let Answer::Reply { replies } = answer else {
        panic!("no reply")
    };
    assert_eq!(
        replies
            .iter()
            .map(|reply| reply.question.as_str())
            .collect::<Vec<_>>(),
        ["db", "tests", "token"]
    );
    assert_eq!(replies[0].chosen, ["Staging"]);
    assert_eq!(replies[1].chosen, ["browser", "unit"]);
    assert_eq!(replies[1].text.as_deref(), Some("and the slow ones"));
    assert_eq!(replies[2].text.as_deref(), Some("s3cret"));
}

#[test]
fn nothing_is_sent_while_a_question_is_not_answered() {
    for (texts, labels) in [
        (&[("3", "x")][..], &[("1", "Staging")][..]),
        (&[("3", "  "), ("2", "x")], &[("1", "Staging")]),
        (&[], &[]),
    ] {
        let failure = replies(texts, labels).unwrap_err();
        assert_eq!(failure.code, Code::Usage);
        assert!(failure.what.contains("is not answered"), "{}", failure.what);
    }
}

#[test]
fn what_is_optional_is_left_out_of_what_is_sent_unless_it_is_given() {
    let mut asked = questions();
    asked[1].optional = true;
    asked[2].optional = true;
    let given = |texts: &[(&str, &str)], labels: &[(&str, &str)]| {
        let owned = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
            pairs.collect()
        };
        let choice = Choice::Replies {
            texts: owned(texts),
            labels: owned(labels),
        };
        match compose(&choice, None, &[], &asked) {
            Ok(Answer::Reply { replies }) => Ok(replies
                .into_iter()
                .map(|reply| reply.question)
                .collect::<Vec<_>>()),
            Ok(other) => panic!("{other:?}"),
            Err(failure) => Err(failure.what),
        }
    };
    assert_eq!(given(&[], &[("1", "Staging")]).unwrap(), ["db"]);
    assert_eq!(
        given(&[("3", "x"), ("2", " ")], &[("1", "Staging")]).unwrap(),
        ["db", "token"]
    );
    let missing = given(&[("3", "x")], &[]).unwrap_err();
    assert!(missing.contains("question 1 (Database)"), "{missing}");
}

#[test]
fn wrong_replies_say_what_would_be_right() {
    let wrong =
        |texts: &[(&str, &str)], labels: &[(&str, &str)]| replies(texts, labels).unwrap_err();
    assert!(
        wrong(&[], &[("1", "Laptop")])
            .next
            .unwrap()
            .contains("1=Staging, 2=Production")
    );
    assert!(
        wrong(&[], &[("9", "Staging")])
            .next
            .unwrap()
            .contains("1 to 3")
    );
    assert!(
        wrong(&[], &[("1", "Staging"), ("1", "Production")])
            .what
            .contains("one choice only")
    );
    assert!(
        wrong(&[("1", "my own")], &[])
            .what
            .contains("no text of your own")
    );
    assert!(
        wrong(&[("3", "a"), ("token", "b")], &[])
            .what
            .contains("twice")
    );
    assert!(
        wrong(&[], &[("3", "x")])
            .next
            .unwrap()
            .contains("--reply 3=TEXT")
    );
}

#[test]
fn replies_to_a_request_without_questions_are_not_sent() {
    let choice = Choice::Replies {
        texts: vec![("1".to_owned(), "x".to_owned())],
        labels: Vec::new(),
    };
    assert!(
        compose(&choice, None, &codex_options(), &[])
            .unwrap_err()
            .what
            .contains("asks no question")
    );
}

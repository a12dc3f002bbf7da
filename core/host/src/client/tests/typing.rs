//! What is typed.

use crate::client::args::ClientCommand;
use clap::{CommandFactory, FromArgMatches as _, Parser, Subcommand as _};

#[derive(Debug, Parser)]
#[command(name = "pilothouse")]
struct Typed {
    #[command(subcommand)]
    verb: ClientCommand,
}

fn parse(line: &str) -> Result<ClientCommand, clap::Error> {
    Typed::try_parse_from(std::iter::once("pilothouse").chain(line.split(' ')))
        .map(|typed| typed.verb)
}

#[test]
fn the_verbs_hold_together() {
    Typed::command().debug_assert();
    assert_eq!(
        ClientCommand::augment_subcommands(clap::Command::new("x"))
            .get_subcommands()
            .map(|verb| verb.get_name().to_owned())
            .collect::<Vec<_>>(),
        [
            "join",
            "direct",
            "hosts",
            "threads",
            "new",
            "fork",
            "sessions",
            "import",
            "rollback",
            "compact",
            "sign-in",
            "select",
            "commands",
            "files",
            "send",
            "watch",
            "inbox",
            "answer",
            "interrupt",
            "queue"
        ]
    );
    assert!(ClientCommand::from_arg_matches(&clap::ArgMatches::default()).is_err());
}

#[test]
fn every_verb_takes_data_json_and_timeout_and_explains_itself() {
    let verbs = Typed::command();
    // The verbs of a verb are what is typed.
    let typed = verbs.get_subcommands().flat_map(|verb| {
        let mut inner: Vec<_> = verb.get_subcommands().collect();
        if inner.is_empty() {
            inner.push(verb);
        }
        inner.into_iter().map(|inner| (verb.get_name(), inner))
    });
    for (outer, verb) in typed {
        let names: Vec<&str> = verb
            .get_arguments()
            .filter_map(|argument| argument.get_long())
            .collect();
        // What only writes on this device waits for nobody.
        let waits = outer != "direct";
        for name in ["data", "json", "timeout"] {
            if name == "timeout" && !waits {
                continue;
            }
            assert!(names.contains(&name), "{} has no --{name}", verb.get_name());
        }
        assert!(
            verb.get_about().is_some(),
            "{} says nothing",
            verb.get_name()
        );
        for argument in verb.get_arguments() {
            assert!(
                argument.get_help().is_some(),
                "{} does not explain {}",
                verb.get_name(),
                argument.get_id()
            );
        }
    }
}

#[test]
fn a_message_goes_one_way_only() {
    for line in [
        "send t hello --queue --steer",
        "send t hello --steer --restart",
        "send t hello --queue --restart",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
    assert!(parse("send t hello --restart").is_ok());
}

#[test]
fn an_answer_is_one_thing_only() {
    for line in [
        "answer r accept --deny",
        "answer r --allow --deny",
        "answer r --allow --reply 1=x",
        "answer r accept --choose 1=x",
        "answer r --reply 1=x --note more",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
    for line in [
        "answer r",
        "answer r accept",
        "answer r --deny --note later",
        "answer r --reply 1=x --choose 2=y",
        "answer r --allow --hash 12ab",
    ] {
        assert!(parse(line).is_ok(), "{line}");
    }
}

#[test]
fn a_timeout_is_a_number_of_seconds() {
    assert!(parse("inbox --timeout 0.5").is_ok());
    for line in [
        "inbox --timeout -1",
        "inbox --timeout soon",
        "inbox --timeout NaN",
        "inbox --timeout inf",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn a_mode_that_does_not_exist_names_those_that_do() {
    let error = parse("new --agent a --workspace w --mode yolo T")
        .unwrap_err()
        .to_string();
    for mode in ["read_only", "ask", "auto_edit", "full_access"] {
        assert!(error.contains(mode), "{error}");
    }
}

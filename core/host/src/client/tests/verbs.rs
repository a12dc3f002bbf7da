//! Verbs on an empty data directory, and the exit codes.

use crate::client::{
    args::ClientCommand,
    failure::{Code, Failure},
    output::Output,
    verbs,
};
use clap::Parser;
use pilothouse_domain::{Refusal, RequestId, ThreadId};
use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

#[derive(Debug, Parser)]
struct Typed {
    #[command(subcommand)]
    verb: ClientCommand,
}

#[derive(Clone, Default)]
struct Sheet(Arc<Mutex<Vec<u8>>>);

impl Write for Sheet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sheet {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

pub(super) struct Ran {
    pub(super) code: u8,
    pub(super) out: String,
    pub(super) errors: String,
}

/// Runs a verb as the program does, on the data directory of this name.
pub(super) fn run(dir: &std::path::Path, words: &[&str]) -> Ran {
    let mut all = vec!["pilothouse"];
    all.extend(words);
    let dir = dir.to_str().unwrap();
    all.extend(["--data", dir]);
    let command = Typed::try_parse_from(all).unwrap().verb;
    let (out, errors) = (Sheet::default(), Sheet::default());
    let mut output = Output::to(
        command.device().json,
        Box::new(out.clone()),
        Box::new(errors.clone()),
    );
    let code = match verbs::run(command, &mut output) {
        Ok(()) => 0,
        Err(failure) => {
            output.failure(&failure).unwrap();
            failure.code.number()
        }
    };
    Ran {
        code,
        out: out.text(),
        errors: errors.text(),
    }
}

#[test]
fn a_device_without_hosts_says_how_to_get_one() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = run(dir.path(), &["hosts", "--timeout", "0.2"]);
    assert_eq!(hosts.code, 0);
    assert!(hosts.out.contains("pilothouse join CODE"), "{}", hosts.out);
    for words in [
        &["threads", "--timeout", "0.2"][..],
        &["inbox", "--timeout", "0.2"],
        &["inbox", "--wait", "--timeout", "0.2"],
        &["new", "--agent", "codex", "--workspace", "app", "Title"],
        &["send", "3kfa", "hello", "--timeout", "0.2"],
        &["answer", "3kfa", "--allow", "--timeout", "0.2"],
        &["interrupt", "3kfa", "--timeout", "0.2"],
        &["queue", "3kfa", "--timeout", "0.2"],
        &["watch", "3kfa", "--timeout", "0.2"],
        &["watch", "--timeout", "5"],
    ] {
        let ran = run(dir.path(), words);
        assert_eq!(ran.code, 5, "{words:?}: {}", ran.errors);
        assert!(
            ran.errors.contains("no host is paired") && ran.errors.contains("next: "),
            "{words:?}: {}",
            ran.errors
        );
        assert_eq!(ran.out, "", "{words:?}");
    }
}

#[test]
fn for_a_script_a_failure_is_an_object_on_standard_output() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run(dir.path(), &["threads", "--json", "--timeout", "0.2"]);
    let object: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (
            object["type"].as_str(),
            object["code"].as_str(),
            object["exit"].as_u64()
        ),
        (Some("error"), Some("nothing_there"), Some(5))
    );
    assert_eq!(ran.errors, "");
}

#[test]
fn a_code_that_cannot_be_read_pairs_with_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run(dir.path(), &["join", "pilothouse:pair?nonsense"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.errors.starts_with("pilothouse: pairing: "),
        "{}",
        ran.errors
    );
}

#[test]
fn an_empty_message_is_not_sent() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run(dir.path(), &["send", "3kfa", "  "]).code, 2);
}

#[test]
fn a_reply_needs_its_question() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run(dir.path(), &["answer", "3kfa", "--reply", "yes"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.errors.contains("--reply QUESTION=TEXT"),
        "{}",
        ran.errors
    );
}

#[test]
fn a_data_directory_that_cannot_be_used_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let ran = run(&file, &["hosts"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.errors.contains(file.to_str().unwrap()),
        "{}",
        ran.errors
    );
}

#[test]
fn exit_codes_tell_refused_unconfirmed_and_nothing_there_apart() {
    let code = |refusal: &Refusal| Failure::refused("it", refusal).code.number();
    assert_eq!(code(&Refusal::NotReady), 3);
    assert_eq!(
        code(&Refusal::UnknownThread {
            thread: ThreadId::default()
        }),
        5
    );
    assert_eq!(
        code(&Refusal::UnknownRequest {
            request: RequestId::default()
        }),
        5
    );
    assert_eq!(
        [
            Code::Error,
            Code::Usage,
            Code::Refused,
            Code::Unconfirmed,
            Code::NothingThere
        ]
        .map(Code::number),
        [1, 2, 3, 4, 5]
    );
}

#[test]
fn a_reader_that_left_is_no_failure_to_tell() {
    assert!(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)).silent);
    assert!(!Failure::from(io::Error::from(io::ErrorKind::StorageFull)).silent);
}

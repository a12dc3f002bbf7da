//! What an agent does without asking, though its thread's mode is to ask, is said; and nothing else is (docs/decisions/024).

use crate::stories::{runs_bash, says};
use pilothouse_domain::{ItemContent, Mode, ThreadId, TurnItem, item::Anomaly};
use pilothouse_engine::{RowContent, TimelineRow};
use pilothouse_tests::{Device, Setup, cli::Cli, until};

/// What a device shows as done unasked.
fn shown(device: &Device, thread: ThreadId) -> Vec<TimelineRow> {
    let rows = device.whole(thread).into_iter();
    rows.filter(|row| row.anomaly.is_some()).collect()
}

#[test]
fn an_agent_that_changes_a_file_without_asking_is_told_of_once_on_every_device_and_in_the_terminal()
{
    let mut world = Setup::new().fake("sly", &["edits"]).start();
    let phone = world.device("phone");
    let asking = phone.new_thread("sly", Mode::Ask);
    phone.accepted(&phone.say(asking, "go"));
    phone.completed(asking, 1);
    assert_eq!(
        world.text_of("unasked.txt").as_deref(),
        Some("nobody was asked\n")
    );

    let unasked = world.host.unasked();
    let [
        (
            thread,
            TurnItem {
                anomaly, content, ..
            },
        ),
    ] = &unasked[..]
    else {
        panic!("not exactly one: {unasked:#?}")
    };
    assert_eq!((*thread, *anomaly), (asking, Some(Anomaly::Unasked)));
    assert!(
        matches!(content, ItemContent::FileChange { .. }),
        "{content:?}"
    );
    let rows = shown(&phone, asking);
    assert!(
        matches!(
            &rows[..],
            [TimelineRow {
                content: RowContent::FileChange { .. },
                ..
            }]
        ),
        "{rows:#?}"
    );

    // Whoever chose that nothing is asked is told of nothing.
    let free = phone.new_thread("sly", Mode::FullAccess);
    phone.accepted(&phone.say(free, "go"));
    phone.completed(free, 1);
    assert_eq!(world.host.unasked().len(), 1);

    // It stands in the log: after a restart, for a device that comes later, and in words.
    world.host.kill_9();
    world.host.restart();
    phone.network_changes();
    let tablet = world.device("tablet");
    tablet.watch(asking);
    until("the tablet to show it", || match shown(&tablet, asking) {
        there if there == rows => Ok(()),
        there => Err(format!("{there:?}")),
    });
    tablet.same_as(&world.host, asking);
    let cli = Cli::paired(world.dir(), "terminal", &world.host);
    let (code, text) = cli.read(&world.host, &["watch", &asking.to_string(), "--until-idle"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(text.matches("without asking you").count(), 1, "{text}");
    world.host.verify_logs();
}

#[test]
fn what_opencode_was_allowed_for_good_in_one_thread_is_no_anomaly_in_another() {
    let world = Setup::new().opencode().start();
    let phone = world.device("phone");
    world
        .model
        .script("echo", &runs_bash("echo one >> out.txt"));
    world.model.script("word", &says("Here."));
    let first = phone.new_thread("opencode", Mode::Ask);
    phone.accepted(&phone.say(first, "go [[script:echo]]"));
    let row = phone.asked(first);
    phone.accepted(&phone.choose(&row, "always"));
    phone.completed(first, 1);
    let second = phone.new_thread("opencode", Mode::Ask);
    phone.accepted(&phone.say(second, "go [[script:echo]]"));
    phone.completed(second, 1);
    assert_eq!(world.text_of("out.txt").as_deref(), Some("one\none\n"));
    world.host.verify();
}

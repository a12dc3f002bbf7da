//! Paths that the gate of a real pi judges: it reads them as pi's own tools do.

use crate::pi_world::{PiWorld, Place};
use crate::support::{Asked, say};
use pilothouse_domain::{Mode, OptionId, provider::TurnStatus};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

fn write(path: &str) -> Value {
    json!({"tools": [{"name": "write", "args": {"path": path, "content": "written"}}]})
}

fn offers_session(asked: &Asked) -> bool {
    let session = OptionId::from("allow_session");
    asked.subject.options.iter().any(|one| one.id == session)
}

/// Starts pi in a place, with one turn that writes these paths, one after the other.
async fn writing(place: Place, mode: Mode, paths: &[String]) -> PiWorld {
    let script: Vec<_> = paths
        .iter()
        .map(|path| write(path))
        .chain([say("done")])
        .collect();
    place.model.script("s", &json!(script));
    let launch = place.launch();
    let world = PiWorld::launched(place, launch, mode).await;
    let thread = world.open(None).await;
    world.send(&thread, "go [[script:s]]").await;
    world
}

#[tokio::test]
async fn in_auto_edit_a_path_that_pi_opens_outside_the_workspace_is_asked_for() {
    let place = Place::new(&json!({}));
    let (home, workspace) = (
        place.dir.path().join("home"),
        place.dir.path().join("workspace"),
    );
    let (there, inside) = (home.display(), workspace.display());
    std::fs::create_dir(workspace.join("sub")).unwrap();
    symlink("../home", workspace.join("linked")).unwrap();
    symlink("../home/nowhere.txt", workspace.join("hanging.txt")).unwrap();
    let unasked = [
        "plain.txt".to_owned(),
        "@sub/with/at.txt".to_owned(),
        "sub\u{a0}blank.txt".to_owned(),
        format!("{inside}/absolute.txt"),
        format!("file://{inside}/url.txt"),
    ];
    let asked_for = [
        format!("file://{there}/url.txt"),
        format!("@file://{there}/at-url.txt"),
        format!("file://{there}/with%20escape.txt"),
        format!("file://localhost{there}/host.txt"),
        "file://elsewhere/host.txt".to_owned(),
        "other://x/y.txt".to_owned(),
        "~/tilde.txt".to_owned(),
        "@~/at-tilde.txt".to_owned(),
        format!("@{there}/at.txt"),
        "../home/up.txt".to_owned(),
        "linked/link.txt".to_owned(),
        "hanging.txt".to_owned(),
        ".git/hooks/pre-commit".to_owned(),
        "@.PI/extensions/e.js".to_owned(),
    ];
    let paths: Vec<_> = unasked.iter().chain(&asked_for).cloned().collect();
    let mut world = writing(place, Mode::AutoEdit, &paths).await;
    for path in &asked_for {
        let asked = world.request().await;
        assert_eq!(asked.subject.changes[0].path, *path);
        world.choose(&asked, "deny", None).await;
    }
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    for file in [
        "plain.txt",
        "sub/with/at.txt",
        "sub blank.txt",
        "absolute.txt",
        "url.txt",
    ] {
        assert!(world.has(file), "{file} is written without a question");
    }
    let names = std::fs::read_dir(home)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert_eq!(
        names.collect::<Vec<_>>(),
        [".pi"],
        "nothing is written outside"
    );
}

/// One path is allowed for the session; another that only looks like it is asked for again.
#[tokio::test]
async fn what_is_allowed_for_the_session_allows_no_file_elsewhere() {
    let place = Place::new(&json!({}));
    let home = place.dir.path().join("home");
    let there = home.display().to_string();
    let pairs = [
        ("./~/tilde.txt".to_owned(), "~/tilde.txt".to_owned()),
        (format!("./@{there}/at.txt"), format!("@{there}/at.txt")),
        ("sub/a.txt".to_owned(), "sub/a.txt".to_owned()),
    ];
    let mut paths: Vec<_> = pairs
        .iter()
        .take(2)
        .flat_map(|(first, other)| [first.clone(), first.clone(), other.clone()])
        .collect();
    // What it leads to is another place in the end.
    paths.extend([
        "sub/a.txt".to_owned(),
        "sub/a.txt".to_owned(),
        "sub/b.txt".to_owned(),
        "sub/a.txt".to_owned(),
    ]);
    paths.push(format!("file:{there}/url.txt"));
    let mut world = writing(place, Mode::Ask, &paths).await;
    for (first, other) in pairs.iter().take(2) {
        let asked = world.request().await;
        assert_eq!(
            (&asked.subject.changes[0].path, &asked.subject.reason),
            (first, &None)
        );
        assert!(offers_session(&asked));
        world.choose(&asked, "allow_session", None).await;
        let asked = world.request().await;
        assert_eq!(
            asked.subject.changes[0].path, *other,
            "the first is not asked for again"
        );
        let leads = asked.subject.reason.clone().unwrap_or_default();
        assert!(
            leads.starts_with(&format!("the path leads to {there}/")),
            "{leads}"
        );
        world.choose(&asked, "deny", None).await;
    }
    let asked = world.request().await;
    world.choose(&asked, "allow_session", None).await;
    let between = world.request().await;
    assert_eq!(between.subject.changes[0].path, "sub/b.txt");
    std::fs::remove_file(world.workspace().join("sub/a.txt")).unwrap();
    symlink(home.join("linked.txt"), world.workspace().join("sub/a.txt")).unwrap();
    world.choose(&between, "deny", None).await;
    let asked = world.request().await;
    assert_eq!(asked.subject.changes[0].path, "sub/a.txt");
    assert!(
        !offers_session(&asked),
        "a link that leads nowhere is allowed only once"
    );
    world.choose(&asked, "deny", None).await;
    let asked = world.request().await;
    assert!(
        !offers_session(&asked),
        "what may be no path is allowed only once"
    );
    let names = std::fs::read_dir(&home)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert_eq!(
        names.collect::<Vec<_>>(),
        [".pi"],
        "nothing is written outside"
    );
}

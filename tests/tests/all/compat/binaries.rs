//! An earlier version's own program against this one's: as host, as device, on each other's files. `scripts/compat` builds
//! each and runs these with it.

use super::story;
use pilothouse_domain::{Digest, Epoch, ThreadId};
use pilothouse_store::LedgerStore;
use pilothouse_tests::{Cli, Setup, World, places, process::Process};
use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// The earlier version's program.
fn earlier() -> PathBuf {
    let path = env::var_os("PILOTHOUSE_OLD_BIN").map(PathBuf::from);
    let path = path.expect("PILOTHOUSE_OLD_BIN names the earlier program; run scripts/compat");
    assert!(path.exists(), "{} is not there", path.display());
    path
}

fn world(program: &Path) -> (World, TempDir, PathBuf) {
    let aside = tempfile::tempdir().unwrap();
    let told = aside.path().join("told");
    let world = Setup::new()
        .program(program)
        .fake("fake", &["ok", &told.to_string_lossy()])
        .start();
    (world, aside, told)
}

/// Every thread of a host that does not run, verified by this version; its own files stay as they are.
fn digests(world: &World) -> BTreeMap<ThreadId, Digest> {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(world.host.state()).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("ledger.db") {
            fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
    }
    let store = LedgerStore::open(dir.path(), Epoch::default()).unwrap();
    let threads = store.threads().unwrap();
    assert!(!threads.is_empty());
    let digest = |thread: ThreadId| {
        if let Err(difference) = store.verify(thread) {
            panic!("{difference}: {difference:#?}");
        }
        let snapshot = store.snapshot(thread).unwrap();
        (thread, snapshot.state.digest(&snapshot.cursor))
    };
    threads.into_iter().map(digest).collect()
}

fn both(host: &Path, device: &Path) {
    let (mut world, _aside, told) = world(host);
    let cli = Cli::new(world.dir(), "terminal").with_program(device.to_owned());
    cli.join(&world.host, "terminal");
    let thread = story::begins(&world.host, &cli, &told);
    assert!(world.host.stop().success());
    digests(&world);
    world.host.restart();
    story::goes_on(&world.host, &cli, &thread);
    world.host.kill_9();
    world.host.restart();
    story::goes_on(&world.host, &cli, &thread);
    assert!(world.host.stop().success());
    digests(&world);
}

#[test]
#[ignore = "needs the earlier version's program: run scripts/compat"]
fn a_device_of_this_version_works_with_an_earlier_host() {
    both(&earlier(), &places::pilothouse());
}

#[test]
#[ignore = "needs the earlier version's program: run scripts/compat"]
fn an_earlier_device_works_with_a_host_of_this_version() {
    both(&places::pilothouse(), &earlier());
}

/// The reason for which an earlier device is told that a queue waits for a sign-in: `first-light` does not know the word.
fn told_of_a_sign_in() -> &'static str {
    match env::var("PILOTHOUSE_OLD_VERSION").as_deref() {
        Ok("first-light") => "failed",
        _ => "sign_in",
    }
}

/// A list of threads stays readable while one of them waits for a sign-in: what an earlier device would read nothing of is
/// told to it as a failed run.
#[test]
#[ignore = "needs the earlier version's program: run scripts/compat"]
fn an_earlier_device_reads_what_is_held_for_a_sign_in_and_lets_it_go_on() {
    let world = World::start();
    let refused = serde_json::json!([{"error": {"status": 401}}]);
    world.model.script("refused", &refused);
    world
        .model
        .script("back", &crate::stories::says("I am back."));
    let old = Cli::new(world.dir(), "terminal").with_program(earlier());
    old.join(&world.host, "terminal");
    let new = Cli::paired(world.dir(), "laptop", &world.host);
    let verb = ["new", "--agent", "codex", "--workspace", "demo", "refused"];
    let made = story::does(&world.host, &old, &verb);
    let thread = made.only("created")["thread"].as_str().unwrap().to_owned();
    story::send(&world.host, &old, &thread, "[[script:refused]]");
    assert_eq!(story::idle(&world.host, &old, &thread), "failed");
    story::send(&world.host, &old, &thread, "[[script:back]]");
    for (cli, reason) in [(&new, "sign_in"), (&old, told_of_a_sign_in())] {
        let said = story::does(&world.host, cli, &["threads"]);
        let line = said.only("thread");
        assert_eq!(
            (&line["queued"], &line["held"]),
            (&1.into(), &reason.into()),
            "{line}"
        );
    }
    let hosts = story::does(&world.host, &new, &["hosts"]);
    let notice = &hosts.only("host")["signed_out"][0];
    assert_eq!(
        (&notice["agent"], &notice["threads"]),
        (&"codex".into(), &1.into()),
        "{notice}"
    );
    story::does(&world.host, &old, &["queue", &thread, "--release"]);
    assert_eq!(story::idle(&world.host, &old, &thread), "completed");
    let hosts = story::does(&world.host, &new, &["hosts"]);
    assert!(hosts.only("host").get("signed_out").is_none(), "{hosts:#?}");
    world.host.verify();
}

/// Leaves a request open when the host is killed: the worst moment for another version to come.
fn killed_while_asking(world: &mut World, cli: &Cli, thread: &str) {
    story::send(&world.host, cli, thread, "[[do:asks]] in the worst moment?");
    story::asked(&world.host, cli);
    world.host.kill_9();
}

#[test]
#[ignore = "needs the earlier version's program: run scripts/compat"]
fn host_and_device_are_upgraded_in_place_and_nothing_is_lost_or_paired_anew() {
    let (mut world, _aside, told) = world(&earlier());
    let old = Cli::new(world.dir(), "terminal").with_program(earlier());
    old.join(&world.host, "terminal");
    let thread = story::begins(&world.host, &old, &told);
    killed_while_asking(&mut world, &old, &thread);

    world.host.use_program(places::pilothouse());
    world.host.restart();
    // The device is still the earlier version, and then no more.
    story::goes_on(&world.host, &old, &thread);
    let new = Cli::new(world.dir(), "terminal");
    story::goes_on(&world.host, &new, &thread);
    story::begins(&world.host, &new, &told);
    world.host.verify();
    let mut upgraded = world.device("phone");
    upgraded.watch(thread.parse().unwrap());
    upgraded.same_as(&world.host, thread.parse().unwrap());
    upgraded.close();
    assert!(world.host.stop().success());
    digests(&world);
}

/// A program started on files of a newer version: whether it works, or what it wrote when it ended.
fn starts(world: &World, program: &Path) -> Result<(), String> {
    let mut command = world.host.daemon_of(program);
    command.stdin(std::process::Stdio::null());
    let mut process = Process::start("earlier-host", command, world.dir());
    let ready = pilothouse_tests::until("the earlier host to start or to end", || {
        if process
            .output()
            .iter()
            .any(|line| line.contains("listening"))
        {
            return Ok(true);
        }
        match process.has_ended() {
            true => Ok(false),
            false => Err(process.errors()),
        }
    });
    if ready {
        process.stop();
        return Ok(());
    }
    assert!(!process.ended().success());
    Err(process.errors())
}

#[test]
#[ignore = "needs the earlier version's program: run scripts/compat"]
fn an_earlier_host_works_on_files_of_this_version_or_refuses_them_untouched() {
    let (mut world, _aside, told) = world(&places::pilothouse());
    // The device stays of this version, whatever the host is.
    let cli = Cli::new(world.dir(), "terminal").with_program(places::pilothouse());
    cli.join(&world.host, "terminal");
    let thread = story::begins(&world.host, &cli, &told);
    assert!(world.host.stop().success());
    let before = digests(&world);
    match starts(&world, &earlier()) {
        Ok(()) => {
            world.host.use_program(earlier());
            world.host.restart();
            story::goes_on(&world.host, &cli, &thread);
            assert!(world.host.stop().success());
            world.host.use_program(places::pilothouse());
        }
        Err(said) => {
            eprintln!("the earlier host refuses: {said}");
            assert!(
                said.contains("database version") && said.contains("update"),
                "{said}"
            );
            assert_eq!(digests(&world), before, "it was not left untouched");
        }
    }
    world.host.restart();
    story::goes_on(&world.host, &cli, &thread);
    world.host.verify();
}

/// Everything in a database that nobody has open: its version, and per table its statement and a hash over all its rows.
fn tables(file: &Path) -> BTreeMap<String, String> {
    let db = rusqlite::Connection::open(file).unwrap();
    let version: i64 = db
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .unwrap();
    let mut all = BTreeMap::from([("user_version".to_owned(), version.to_string())]);
    let mut schema = db
        .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
        .unwrap();
    let named = schema.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let named: Vec<(String, String)> = named.unwrap().collect::<Result<_, _>>().unwrap();
    for (name, sql) in named {
        let mut hash = blake3::Hasher::new();
        let mut select = db.prepare(&format!("SELECT * FROM \"{name}\"")).unwrap();
        let columns = select.column_count();
        let mut rows = select.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            for column in 0..columns {
                let value: rusqlite::types::Value = row.get(column).unwrap();
                hash.update(format!("{value:?};").as_bytes());
            }
        }
        all.insert(name, format!("{sql} {}", hash.finalize()));
    }
    all
}

#[test]
#[ignore = "needs the earlier version's program: run scripts/compat"]
fn an_earlier_device_works_on_data_of_this_version_or_refuses_it_untouched() {
    let (world, _aside, told) = world(&places::pilothouse());
    let cli = Cli::new(world.dir(), "terminal");
    cli.join(&world.host, "terminal");
    let thread = story::begins(&world.host, &cli, &told);
    let old = Cli::new(world.dir(), "terminal").with_program(earlier());
    let replica = world.dir().join("terminal").join("replica.db");
    let before = tables(&replica);
    assert!(before.len() > 5, "{:?}", before.keys());
    let said = old.run(&world.host, &["threads", "--timeout", "90"]);
    if said.code == 0 {
        story::goes_on(&world.host, &old, &thread);
    } else {
        eprintln!("the earlier device refuses: {said:#?}");
        let error = said.only("error").to_string();
        assert!(
            error.contains("newer") && error.contains("update"),
            "{error}"
        );
        assert_eq!(tables(&replica), before, "it was not left untouched");
    }
    story::goes_on(&world.host, &cli, &thread);
    world.host.verify();
}

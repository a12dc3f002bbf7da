//! The control socket: for the same user, and for nobody else.

use crate::common::{TestHost, soon};
use pilothouse_domain::Scope;
use pilothouse_host::{
    control::{Answer, Ask, AskError, ask},
    daemon::{Daemon, DaemonError},
    state::{StateError, StatePath},
};
use std::os::unix::fs::PermissionsExt;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn everything_in_the_state_directory_is_its_owners_alone() {
    let host = TestHost::start_with(|options| {
        // One that was left open by somebody is closed.
        let state = options.state.clone().unwrap();
        std::fs::create_dir_all(&state).unwrap();
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o755)).unwrap();
    })
    .await;
    let state = host.state();
    assert_eq!(mode(state.dir()), 0o700);
    assert_eq!(mode(&state.control_socket()), 0o600);
    assert_eq!(mode(&state.dir().join("host-identity.pem")), 0o600);
    assert_eq!(mode(&state.pids()), 0o700);
    host.daemon.stop().await;
}

#[tokio::test]
async fn a_question_that_is_none_is_answered_and_a_silent_one_holds_nobody_up() {
    let host = TestHost::start().await;
    let path = host.state().control_socket();
    let _silent = tokio::net::UnixStream::connect(&path).await.unwrap();
    for question in [
        "nonsense\n",
        "{\"ask\":\"fly\"}\n",
        "{\"ask\":\"revoke\"}\n",
    ] {
        let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        stream.write_all(question.as_bytes()).await.unwrap();
        let mut line = String::new();
        soon("an answer", BufReader::new(stream).read_line(&mut line))
            .await
            .unwrap();
        let answer: Answer = serde_json::from_str(&line).unwrap();
        assert!(
            matches!(answer, Answer::Error { .. }),
            "{question}{answer:?}"
        );
    }
    host.daemon.stop().await;
}

#[tokio::test]
async fn the_offer_outlives_the_one_who_asked_for_it() {
    let host = TestHost::start().await;
    let (offer, asked) = host.offer().await;
    drop(asked);
    crate::common::TestDevice::new("phone")
        .pair(&offer)
        .await
        .unwrap();
    host.daemon.stop().await;
}

#[tokio::test]
async fn without_a_daemon_one_is_told_to_start_it_and_a_dead_ones_socket_is_no_obstacle() {
    let dir = tempfile::tempdir().unwrap();
    let state = StatePath::choose(Some(dir.path())).unwrap();
    let Err(error @ AskError::NotRunning(_)) = ask(&state, &Ask::Devices).await else {
        panic!()
    };
    assert!(error.to_string().contains("pilothouse host"), "{error}");
    // What kill -9 leaves behind.
    drop(std::os::unix::net::UnixListener::bind(state.control_socket()).unwrap());
    assert!(matches!(
        ask(&state, &Ask::Devices).await,
        Err(AskError::NotRunning(_))
    ));
    let host = TestHost::start_with(|options| options.state = Some(dir.path().to_owned())).await;
    let answer = soon("an answer", async {
        ask(&state, &Ask::Devices)
            .await
            .unwrap()
            .first()
            .await
            .unwrap()
    })
    .await;
    assert_eq!(
        answer,
        Answer::Devices {
            devices: Vec::new()
        }
    );
    host.daemon.stop().await;
}

#[tokio::test]
async fn a_state_directory_with_a_very_long_name_works_too() {
    let dir = tempfile::tempdir().unwrap();
    let long = dir.path().join("a".repeat(120)).join("b".repeat(120));
    let host = TestHost::start_with(|options| options.state = Some(long.clone())).await;
    let state = StatePath::choose(Some(&long)).unwrap();
    let asked = async {
        ask(
            &state,
            &Ask::Pair {
                scopes: vec![Scope::Read],
            },
        )
        .await
        .unwrap()
        .first()
        .await
        .unwrap()
    };
    assert!(matches!(soon("an offer", asked).await, Answer::Offer(_)));
    host.daemon.stop().await;
}

#[tokio::test]
async fn a_second_daemon_is_refused_and_the_first_goes_on() {
    let host = TestHost::start().await;
    let mut options = pilothouse_host::daemon::DaemonOptions::usual();
    options.state = Some(host.state().dir().to_owned());
    options.listen = Some("127.0.0.1:0".parse().unwrap());
    let Err(error) = Daemon::start(options).await else {
        panic!("two daemons")
    };
    let DaemonError::State(StateError::InUse { pid, .. }) = &error else {
        panic!("{error}")
    };
    assert_eq!(*pid, Some(std::process::id()));
    assert!(matches!(
        host.ask(&Ask::Devices).await,
        Answer::Devices { .. }
    ));
    host.daemon.stop().await;
}

#[tokio::test]
async fn only_loopback_is_listened_on_until_pair_is_run_and_all_interfaces_from_then_on() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let nobody_chose = |options: &mut pilothouse_host::daemon::DaemonOptions| {
        (options.state, options.listen, options.port) = (Some(state.clone()), None, 0);
    };
    let host = TestHost::start_with(nobody_chose).await;
    let before = host.daemon.address();
    assert!(before.ip().is_loopback());
    let path = StatePath::choose(Some(&state)).unwrap();
    let scopes = vec![Scope::Read];
    let asked = async {
        ask(&path, &Ask::Pair { scopes })
            .await
            .unwrap()
            .first()
            .await
            .unwrap()
    };
    let Answer::Offer(offer) = soon("an offer", asked).await else {
        panic!()
    };
    let after = host.daemon.address();
    assert!(
        after.ip().is_unspecified() && after.port() == before.port(),
        "{after}"
    );
    assert!(
        offer
            .addresses
            .iter()
            .all(|address| address.ends_with(&format!(":{}", before.port()))),
        "{offer:?}"
    );
    let mut offer = pilothouse_wire::offer::PairingOffer::parse(&offer.code).unwrap();
    offer.addresses = vec![format!("127.0.0.1:{}", after.port())];
    crate::common::TestDevice::new("phone")
        .pair(&offer)
        .await
        .unwrap();
    host.daemon.stop().await;

    let host = TestHost::start_with(nobody_chose).await;
    assert!(host.daemon.address().ip().is_unspecified());
    host.daemon.stop().await;
}

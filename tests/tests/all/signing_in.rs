//! A refused sign-in is finished from any device (docs/decisions/033): real codex, and a service of the test at which it is
//! signed in by a code. opencode: signing_in_opencode.rs.

use crate::stories::says;
use pilothouse_domain::{
    CommandBody, Mode, RequestStatus, RunStatus, ThreadId,
    event::HoldReason,
    request::{LostReason, RequestKind, SignInSteps},
};
use pilothouse_engine::{InboxRow, SignedOutRow};
use pilothouse_tests::{Cli, Device, Issuer, Setup, World, process::kill_group, until};
use serde_json::json;

/// A world in which an agent is not signed in, and two of its threads wait for that: one that was refused, one that was not asked.
pub(crate) struct SignedOut {
    pub(crate) world: World,
    pub(crate) device: Device,
    pub(crate) refused: ThreadId,
    pub(crate) other: ThreadId,
}

impl SignedOut {
    fn start(setup: Setup) -> Self {
        Self::of("codex", "demo", setup.by_account().start())
    }

    /// The other thread works in the workspace that is named.
    pub(crate) fn of(agent: &str, there: &str, world: World) -> Self {
        let device = world.device("phone");
        world
            .model
            .script("refused", &json!([{"error": {"status": 401}}]));
        world.model.script("back", &says("I am back."));
        let [refused, other] =
            ["demo", there].map(|workspace| device.new_thread_in(workspace, agent, Mode::Ask));
        device.accepted(&device.say(refused, "go [[script:refused]]"));
        assert_eq!(device.ended(refused, 1).status, RunStatus::Failed);
        device.accepted(&device.say(refused, "again [[script:back]] [[id:again]]"));
        device.accepted(&device.say(other, "go [[script:back]] [[id:other]]"));
        let out = Self {
            world,
            device,
            refused,
            other,
        };
        let notice = out.notice("both to wait", |notice| notice.threads == 2);
        assert!(notice.can_sign_in);
        assert_eq!((notice.request, notice.problem), (None, None));
        out
    }

    pub(crate) fn issuer(&self) -> &Issuer {
        self.world.issuer.as_ref().unwrap()
    }

    pub(crate) fn notice(&self, what: &str, fits: impl Fn(&SignedOutRow) -> bool) -> SignedOutRow {
        notice(&self.device, what, fits)
    }

    /// Begins to sign in, and gives what is asked then.
    pub(crate) fn begin(&self) -> InboxRow {
        let thread = self.notice("a thread to try with", |_| true).thread;
        let ticket = self.device.submit(Some(thread), CommandBody::ThreadSignIn);
        self.device.accepted(&ticket);
        let asked = self.device.asked(thread);
        let notice = self.notice("what is asked", |notice| {
            notice.request == Some(asked.request)
        });
        assert_eq!(notice.problem, None, "an earlier one is over");
        asked
    }

    /// How a request was closed; nothing waits for a person then.
    pub(crate) fn closed(&self, asked: &InboxRow) -> RequestStatus {
        self.device.nothing_waits();
        until("the request to be closed", || {
            let page = self.device.request(asked.thread, asked.request);
            let status = page.request.status;
            if status.is_open() {
                Err(format!("{status:?}"))
            } else {
                Ok(status)
            }
        })
    }

    /// Both threads wait as they did, and nothing reached the model.
    pub(crate) fn still_waits(&self) {
        for thread in [self.refused, self.other] {
            let header = self.device.timeline(thread).header.unwrap();
            assert_eq!(
                (header.held, header.queue.len()),
                (Some(HoldReason::SignIn), 1)
            );
        }
        for mark in ["again", "other"] {
            assert_eq!(self.world.model.mark(mark).requests, 0, "{mark}");
        }
    }

    /// The person enters the code, and both threads go on.
    pub(crate) fn comes_back(&self) {
        self.issuer().enter();
        self.goes_on();
    }

    /// It talks to its model with what the service gave it, which nobody else has seen.
    pub(crate) fn keeps_what_was_given(&self) {
        let key = self.world.model.authorization("back").unwrap();
        assert!(key.starts_with("Bearer ey"), "{key}");
        self.stands_nowhere(key.trim_start_matches("Bearer "));
    }

    /// A secret is in no log of the threads.
    pub(crate) fn stands_nowhere(&self, secret: &str) {
        for thread in [self.refused, self.other] {
            let logged = self
                .world
                .host
                .ledger(|ledger| ledger.entries_after(thread, 0, usize::MAX));
            let logged = serde_json::to_string(&logged).unwrap();
            assert!(!logged.contains(secret));
        }
    }

    /// Both threads go on.
    pub(crate) fn goes_on(&self) {
        self.device.completed(self.other, 1);
        self.device.completed(self.refused, 2);
        no_notice(&self.device);
        for thread in [self.refused, self.other] {
            self.device.same_as(&self.world.host, thread);
        }
        self.world.host.verify();
    }
}

fn notice(device: &Device, what: &str, fits: impl Fn(&SignedOutRow) -> bool) -> SignedOutRow {
    device.wait(what, |seen| {
        let mut notices = seen.hosts.iter().flat_map(|host| &host.signed_out);
        notices.find(|notice| fits(notice)).cloned()
    })
}

fn no_notice(device: &Device) {
    device.wait("no notice", |seen| {
        let none = seen.hosts.iter().all(|host| host.signed_out.is_empty());
        none.then_some(())
    });
}

#[test]
fn two_devices_begin_one_sign_in_and_all_threads_go_on() {
    let out = SignedOut::start(Setup::new());
    let tablet = out.world.device("tablet");
    let thread = notice(&tablet, "the notice", |notice| notice.threads == 2).thread;
    let first = out.device.submit(Some(thread), CommandBody::ThreadSignIn);
    let second = tablet.submit(Some(thread), CommandBody::ThreadSignIn);
    out.device.accepted(&first);
    tablet.accepted(&second);

    let asked = out.device.asked(thread);
    assert_eq!(asked.kind, RequestKind::Auth);
    assert_eq!(asked.title, "Sign in");
    assert!(!asked.one_tap_allowed);
    let steps = SignInSteps {
        url: format!("{}/codex/device", out.issuer().url()),
        code: Some("CODE-0001".to_owned()),
    };
    assert_eq!(asked.subject.sign_in.as_ref(), Some(&steps));
    assert!(asked.shown.contains("CODE-0001") && asked.shown.contains(&steps.url));
    let there = tablet.asked(thread);
    assert_eq!(there.subject, asked.subject);
    // Also what is asked later changes nothing.
    tablet.accepted(&tablet.submit(Some(thread), CommandBody::ThreadSignIn));
    assert_eq!(out.device.seen().inbox.len(), 1);
    assert_eq!(out.issuer().begun(), 1);
    out.still_waits();

    out.comes_back();
    no_notice(&tablet);
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
fn a_sign_in_that_is_refused_is_over_with_its_reason_and_another_one_can_be_begun() {
    let out = SignedOut::start(Setup::new());
    let asked = out.begin();
    out.issuer().refuse();
    assert_eq!(out.closed(&asked), RequestStatus::Withdrawn);
    let notice = out.notice("why", |notice| notice.problem.is_some());
    assert_eq!(
        (notice.problem.as_deref(), notice.request),
        (Some("device auth failed with status 400 Bad Request"), None)
    );
    out.still_waits();
    out.begin();
    out.comes_back();
}

#[test]
fn a_sign_in_is_given_up_from_any_device_and_another_one_can_be_begun() {
    let out = SignedOut::start(Setup::new());
    let tablet = out.world.device("tablet");
    let asked = out.begin();
    let there = tablet.asked(asked.thread);
    tablet.accepted(&tablet.choose(&there, "cancel"));
    let RequestStatus::Answered {
        answer: Some(_),
        by: Some(_),
        ..
    } = out.closed(&asked)
    else {
        panic!("it was given up by a person");
    };
    // Its code is of no use any more.
    out.issuer().enter();
    out.still_waits();
    out.begin();
    assert_eq!(out.issuer().begun(), 2);
    out.comes_back();
}

pub(crate) fn a_killed_host_loses_it(mut out: SignedOut) {
    let asked = out.begin();
    out.world.host.kill_9();
    out.world.host.restart();
    assert_eq!(
        out.closed(&asked),
        RequestStatus::Lost {
            reason: LostReason::HostRestarted,
            answer: None
        }
    );
    out.still_waits();
    out.begin();
    out.comes_back();
}

#[test]
fn a_sign_in_is_lost_with_the_host_though_codex_outlives_it() {
    a_killed_host_loses_it(SignedOut::start(Setup::new()));
}

#[test]
fn a_sign_in_is_lost_with_a_host_and_its_codex() {
    a_killed_host_loses_it(SignedOut::start(Setup::new().bound()));
}

/// The agent alone ends while a person is about to sign in: the sign-in is lost with it and says so, and another one is begun with
/// the agent that is started for it.
pub(crate) fn a_killed_agent_loses_it(out: &SignedOut) {
    let asked = out.begin();
    let agents = out.world.host.outliving();
    assert!(!agents.is_empty());
    for agent in agents {
        assert!(kill_group(agent));
    }
    assert_eq!(
        out.closed(&asked),
        RequestStatus::Lost {
            reason: LostReason::AgentExited,
            answer: None
        }
    );
    let notice = out.notice("nothing to be asked", |notice| notice.request.is_none());
    assert!(notice.can_sign_in);
    out.still_waits();
    let again = out.begin();
    assert_ne!(again.request, asked.request);
    out.comes_back();
}

#[test]
fn a_sign_in_is_lost_with_codex_alone_and_another_one_can_be_begun() {
    a_killed_agent_loses_it(&SignedOut::start(Setup::new()));
}

#[test]
fn the_terminal_begins_to_sign_in_and_shows_page_and_code() {
    let out = SignedOut::start(Setup::new());
    let terminal = Cli::paired(out.world.dir(), "terminal", &out.world.host);
    let said = terminal.run(&out.world.host, &["sign-in", "codex"]);
    let steps = &said.only("request")["subject"]["sign_in"];
    assert_eq!(steps["code"], "CODE-0001");
    assert_eq!(steps["url"], format!("{}/codex/device", out.issuer().url()));
    let (_, text) = terminal.read(&out.world.host, &["inbox"]);
    assert!(text.contains("CODE-0001"), "{text}");
    out.comes_back();
    let said = terminal.run(&out.world.host, &["sign-in", &out.other.to_string()]);
    assert_eq!(said.only("error")["code"], "refused");
}

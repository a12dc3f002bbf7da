//! Agents whose process ends at every point of what they say: of the handshake, the opening, a turn, a request, an answer, a
//! stop. Every call tells so in time, the session ends once and last, nothing stays open, and a later start works.
#![expect(
    clippy::print_stderr,
    reason = "the point at which an agent hangs is read from the output"
)]

use crate::{
    exits_scripts::{self, Step, command, points},
    stage::Stage,
    support::{PATIENCE, launch},
};
use pilothouse_domain::{
    Answer, EffectOutcome, Incarnation, Mode, NativeId, ProviderEvent, ProviderEventKind,
    provider_event::NativePlace, request::LostReason, run::ErrorCode, thread::Selection,
};
use pilothouse_providers::{
    claude::{self, ClaudeAdapter},
    codex::{self, CodexAdapter},
    contract::{
        AgentRuntime, InterruptError, Launch, OpenError, OpenThread, ProviderAdapter, RespondError,
        Response, RuntimeEvents, SendError, SendTurn, StartError,
    },
    pi::{self, PiAdapter},
};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

/// Less than any deadline of a driver: whoever ends only by its deadline hangs.
const HANGS: Duration = Duration::from_secs(30);
/// Agents that run at a time.
const AT_ONCE: usize = 8;

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(HANGS, future)
        .await
        .unwrap_or_else(|_| panic!("{what} hangs"))
}

/// How far an agent came before it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reached {
    Nothing,
    Start,
    Opening,
    Turn,
    Request,
    Answer,
    Stop,
    End,
}

pub(crate) const ALL: [Reached; 8] = [
    Reached::Nothing,
    Reached::Start,
    Reached::Opening,
    Reached::Turn,
    Reached::Request,
    Reached::Answer,
    Reached::Stop,
    Reached::End,
];

/// A family whose agents end.
pub(crate) struct Dying {
    pub(crate) adapter: Box<dyn ProviderAdapter>,
}

/// An agent that lives for a while.
struct Life {
    runtime: Arc<dyn AgentRuntime>,
    events: mpsc::Receiver<RuntimeEvents>,
    heard: Vec<ProviderEvent>,
    stage: Stage,
    selection: Selection,
}

impl Dying {
    fn open(&self, cwd: &Path) -> OpenThread {
        OpenThread {
            resume: None,
            cwd: cwd.to_owned(),
            selection: self.selection(),
        }
    }

    fn selection(&self) -> Selection {
        Selection {
            agent: self.adapter.family().into(),
            model: None,
            effort: None,
            mode: Mode::Ask,
            sandbox: None,
        }
    }

    /// Starts an agent that ends somewhere, and does with it as long as it lives what a person would: a message, an answer, a
    /// stop. Then starts `sound`, which works.
    pub(crate) async fn ends(&self, ending: Launch, sound: Launch) -> Reached {
        let cwd = ending.cwd.clone();
        let (sender, mut events) = mpsc::channel(16);
        let reached = match within("the start", self.adapter.start(ending, sender)).await {
            Ok(runtime) => {
                let mut life = Life {
                    runtime,
                    events,
                    heard: Vec::new(),
                    stage: Stage::new(self.adapter.family(), self.adapter.profile()),
                    selection: self.selection(),
                };
                let reached = life.lives(self.open(&cwd)).await;
                life.is_over(reached, self.open(&cwd)).await;
                reached
            }
            Err(error) => {
                assert!(matches!(error, StartError::Handshake { .. }), "{error}");
                let told = within("the end of a start", events.recv()).await;
                assert_eq!(told, None, "what never started tells nothing");
                Reached::Nothing
            }
        };
        let (sender, _events) = mpsc::channel(64);
        let started = within("a later start", self.adapter.start(sound, sender)).await;
        let runtime = started.unwrap_or_else(|error| panic!("after one that ended: {error}"));
        let opened = within("a later opening", runtime.open_thread(self.open(&cwd))).await;
        assert!(opened.is_ok(), "after one that ended: {opened:?}");
        within("a later end", runtime.stop()).await;
        reached
    }
}

impl Life {
    /// Hears events until one of a kind; `None` if the session ends before.
    async fn until<T>(
        &mut self,
        what: &str,
        wanted: impl Fn(&ProviderEvent) -> Option<T>,
    ) -> Option<T> {
        while let Some(batch) = within(what, self.events.recv()).await {
            let mut found = None;
            for event in batch.events {
                self.stage.event(&event);
                found = found.or_else(|| wanted(&event));
                self.heard.push(event);
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// From its start to its end; every call is made, whether it lives or not.
    async fn lives(&mut self, open: OpenThread) -> Reached {
        let runtime = Arc::clone(&self.runtime);
        let thread = match within("the opening", runtime.open_thread(open)).await {
            Ok(thread) => thread,
            Err(error) => {
                assert!(matches!(error, OpenError::Lost), "{error:?}");
                return Reached::Start;
            }
        };
        // As a ledger does with what is opened, where the agent does not say so itself.
        self.stage.event(&ProviderEvent {
            place: NativePlace {
                thread: Some(thread.clone()),
                ..NativePlace::default()
            },
            kind: ProviderEventKind::ThreadBound,
        });
        let Some(turn) = self.says(&thread).await else {
            return Reached::Opening;
        };
        let asked = self.until("a request", |event| match &event.kind {
            ProviderEventKind::RequestOpened {
                request,
                kind,
                subject,
                ..
            } => Some((request.clone(), *kind, (**subject).clone())),
            _ => None,
        });
        let mut reached = Reached::Turn;
        if let Some((request, kind, subject)) = asked.await {
            let answer = Answer::Choose {
                option: subject.options[0].id.clone(),
                note: None,
            };
            let response = Response {
                thread: thread.clone(),
                request: request.clone(),
                kind,
                subject,
                answer: answer.clone(),
            };
            let answered = within("the answer", runtime.respond(response)).await;
            reached = match answered {
                Ok(_) => Reached::Answer,
                Err(_) => Reached::Request,
            };
            let outcome = match answered {
                Ok(_) => EffectOutcome::Written,
                Err(RespondError::Lost) => EffectOutcome::Unknown,
                Err(error) => panic!("{error:?}"),
            };
            self.stage.answered(&request, answer, &outcome);
        }
        self.stage.interrupt(&thread);
        let interrupting = runtime.interrupting().expect("it can be interrupted");
        match within("the stop", interrupting.interrupt(thread, turn)).await {
            Ok(()) => reached = Reached::Stop,
            Err(InterruptError::Lost | InterruptError::TurnEnded) => return reached,
            Err(error) => panic!("{error:?}"),
        }
        let ended = self.until("the end of the turn", |event| {
            matches!(event.kind, ProviderEventKind::TurnEnded { .. }).then_some(())
        });
        if ended.await.is_none() {
            return reached;
        }
        within("the end", runtime.stop()).await;
        Reached::End
    }

    fn message(&self, thread: &NativeId) -> SendTurn {
        SendTurn {
            thread: thread.clone(),
            client_id: "c".into(),
            text: "go".into(),
            attachments: Vec::new(),
            selection: self.selection.clone(),
        }
    }

    /// Sends a message; gives the turn if it is taken.
    async fn says(&mut self, thread: &NativeId) -> Option<NativeId> {
        let send = self.stage.say(thread, "go").expect("nothing goes on");
        let message = self.message(thread);
        let outcome = match within("the message", self.runtime.send_turn(message)).await {
            Ok(accepted) => {
                let turn = accepted.turn.expect("it has an id");
                self.stage.accepted(thread, &send, &turn);
                return Some(turn);
            }
            Err(SendError::Unknown) => EffectOutcome::Unknown,
            // It ended before it was given anything.
            Err(SendError::Refused { error }) if error.code == ErrorCode::RuntimeLost => {
                EffectOutcome::Failed { error }
            }
            Err(error) => panic!("{error:?}"),
        };
        let memory = self.stage.threads.get_mut(thread).unwrap();
        memory.outcome(Some(&self.stage.session), &send, &outcome);
        None
    }

    /// Its session ended once and last, nothing is open, and it takes nothing more.
    async fn is_over(&mut self, reached: Reached, open: OpenThread) {
        let none: Option<()> = self.until("the end of the session", |_| None).await;
        assert_eq!(none, None);
        let heard = &self.heard;
        assert!(
            matches!(heard[0].kind, ProviderEventKind::SessionReady { .. }),
            "{heard:#?}"
        );
        let ends: Vec<_> = heard
            .iter()
            .filter_map(|event| match &event.kind {
                ProviderEventKind::SessionEnded { reason, .. } => Some(*reason),
                _ => None,
            })
            .collect();
        let by_itself = ends == [LostReason::AgentExited];
        let stopped = reached == Reached::End && ends == [LostReason::Stopped];
        assert!(by_itself || stopped, "{ends:?}: {heard:#?}");
        assert!(
            matches!(
                heard.last().unwrap().kind,
                ProviderEventKind::SessionEnded { .. }
            ),
            "{heard:#?}"
        );
        let left = self.stage.left_open_after_loss();
        assert!(left.is_empty(), "{left:?}");
        match within("another opening", self.runtime.open_thread(open)).await {
            Err(OpenError::Lost) => {}
            // claude was started with its conversation: opening it asks nothing of it.
            Ok(thread) => {
                let sent = self.runtime.send_turn(self.message(&thread));
                let sent = within("another message", sent).await;
                assert!(
                    matches!(&sent, Err(SendError::Refused { error }) if error.code == ErrorCode::RuntimeLost),
                    "{sent:?}"
                );
            }
            Err(error) => panic!("{error:?}"),
        }
        assert_eq!(self.runtime.process_id(), None);
    }
}

/// Ends at all points of what these steps say.
async fn ends_everywhere(adapter: impl ProviderAdapter, steps: &'static [Step], parts: &[Reached]) {
    let dying = Arc::new(Dying {
        adapter: Box::new(adapter),
    });
    let launch = move |point| {
        let words = command(steps, point);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Launch {
            incarnation: life(),
            ..launch(&words, Path::new("/"))
        }
    };
    let all = points(steps, each());
    let count = all.len();
    let reached = lives(all, |point| {
        let dying = Arc::clone(&dying);
        async move {
            eprintln!("{} at {point:?}", dying.adapter.family());
            dying.ends(launch(Some(point)), launch(None)).await
        }
    });
    each_is_met(count, &reached.await, parts);
}

/// A life for each point, [`AT_ONCE`] at a time, and how many came how far.
pub(crate) async fn lives<P, L>(points: Vec<P>, life: impl Fn(P) -> L) -> BTreeMap<Reached, u32>
where
    L: Future<Output = Reached> + Send + 'static,
{
    let mut running = JoinSet::new();
    let mut reached = BTreeMap::new();
    for point in points {
        if running.len() >= AT_ONCE {
            let one = running.join_next().await.unwrap().unwrap();
            *reached.entry(one).or_default() += 1;
        }
        running.spawn(life(point));
    }
    while let Some(one) = running.join_next().await {
        *reached.entry(one.unwrap()).or_default() += 1;
    }
    reached
}

/// Each part of a life is one that an agent ended in.
pub(crate) fn each_is_met(points: usize, reached: &BTreeMap<Reached, u32>, parts: &[Reached]) {
    eprintln!("{points} points: {reached:?}");
    for part in parts {
        assert!(reached.contains_key(part), "none ended at {part:?}");
    }
}

fn all_but(part: Reached) -> Vec<Reached> {
    ALL.into_iter().filter(|one| *one != part).collect()
}

/// Whether it is to end at each byte.
pub(crate) fn each() -> bool {
    std::env::var("PILOTHOUSE_RECORDING_CUTS").is_ok_and(|cuts| cuts == "all")
}

/// A life of its own: some drivers name files by it.
pub(crate) fn life() -> Incarnation {
    static LIVES: AtomicU32 = AtomicU32::new(1);
    let mut bytes = [8; 16];
    bytes[..4].copy_from_slice(&std::process::id().to_be_bytes());
    bytes[8..12].copy_from_slice(&LIVES.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    Incarnation::from_bytes(bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_codex_that_ends_anywhere_leaves_nothing_hanging_and_nothing_open() {
    let adapter = CodexAdapter::with_deadlines(codex::Deadlines {
        handshake: PATIENCE,
        call: PATIENCE,
        confirm: PATIENCE,
        interrupt: PATIENCE,
        ..codex::Deadlines::default()
    });
    ends_everywhere(adapter, exits_scripts::CODEX, &ALL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claude_that_ends_anywhere_leaves_nothing_hanging_and_nothing_open() {
    let adapter = ClaudeAdapter::with_deadlines(claude::Deadlines {
        handshake: PATIENCE,
        call: PATIENCE,
        confirm: PATIENCE,
        interrupt: PATIENCE,
        ..claude::Deadlines::default()
    });
    // It is started with its conversation: opening it asks nothing of it.
    ends_everywhere(adapter, exits_scripts::CLAUDE, &all_but(Reached::Start)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pi_that_ends_anywhere_leaves_nothing_hanging_and_nothing_open() {
    let adapter = PiAdapter::with_deadlines(pi::Deadlines {
        handshake: PATIENCE,
        call: PATIENCE,
        write: PATIENCE,
        interrupt: PATIENCE,
        ..pi::Deadlines::default()
    });
    // It says that it was stopped once its turn has ended.
    ends_everywhere(adapter, exits_scripts::PI, &all_but(Reached::Stop)).await;
}

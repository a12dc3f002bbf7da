//! Rows, entries, effects, bindings, state.

use super::{commands::*, domain::*, id, parts::*};

pub(in crate::golden) fn rows() -> Vec<Row> {
    vec![
        Row::Message(message()),
        Row::Run(Run {
            id: id!(RunId, 3),
            ordinal: Some(1),
            status: RunStatus::Waiting,
            blocked_on: BlockedOn::Question,
            origin: Origin::External,
            message: Some(id!(MessageId, 2)),
            dispatch: Some(steer()),
            attempt: Some(id!(AttemptId, 14)),
            supersedes: Some(id!(RunId, 17)),
            usage: Some(usage()),
            error: Some(error()),
            started_at_ms: Some(26),
            ended_at_ms: Some(27),
        }),
        Row::Attempt(RunAttempt {
            id: id!(AttemptId, 14),
            run: id!(RunId, 3),
            ordinal: 1,
            root_node: id!(NodeId, 9),
            reason: AttemptReason::Initial,
            status: AttemptStatus::Completed,
            provider_thread: Some(id!(ProviderThreadId, 6)),
            turn: Some(id!(ProviderTurnId, 18)),
            correlation: Some(Correlation::Weak),
        }),
        Row::Node(node()),
        Row::Item(item()),
        Row::Request(Box::new(request())),
        Row::Session(session()),
        Row::ProviderThread(provider_thread()),
        Row::Turn(ProviderTurn {
            id: id!(ProviderTurnId, 18),
            provider_thread: id!(ProviderThreadId, 6),
            attempt: id!(AttemptId, 14),
            ended: Some(end()),
        }),
        Row::Plan(plan()),
    ]
}

pub(in crate::golden) fn summary() -> ThreadSummary {
    ThreadSummary {
        thread: id!(ThreadId, 15),
        title: "Make the tests pass".into(),
        workspace: "project".into(),
        agent: "codex".into(),
        mode: Mode::Ask,
        sandbox: None,
        lineage: None,
        active: Some(ActiveSummary {
            run: id!(RunId, 3),
            status: RunStatus::Running,
            blocked_on: BlockedOn::None,
            since_ms: 26,
        }),
        last_run: Some(EndedRun {
            id: id!(RunId, 17),
            ordinal: 1,
            status: RunStatus::Completed,
        }),
        waiting: WaitingCounts {
            approvals: 1,
            questions: 2,
        },
        queued: 3,
        held: Some(HoldReason::Failed),
        sign_in_problem: Some("device auth timed out after 15 minutes".into()),
        last_line: "Done.".into(),
        archived: false,
        created_at_ms: 28,
        updated_at_ms: 29,
        seq: 30,
    }
}

pub(in crate::golden) fn entries() -> Vec<Entry> {
    let causes = [
        Cause::Command {
            command: id!(CommandId, 19),
            device: id!(DeviceId, 1),
        },
        Cause::Internal {
            name: "finish_run".into(),
        },
        Cause::Provider {
            session: id!(SessionId, 4),
        },
        Cause::Effect {
            effect: id!(EffectId, 31),
        },
        Cause::Clock,
        Cause::Host {
            fact: "boot".into(),
        },
    ];
    let unknown = UnknownEvent {
        kind: "goal.set".into(),
        skippable: true,
        rest: serde_json::from_str(r#"{"goal":"win","weight":3}"#).unwrap(),
    };
    causes
        .into_iter()
        .map(|cause| Entry {
            thread: id!(ThreadId, 15),
            epoch: id!(Epoch, 20),
            seq: 3,
            chain: cursor().chain,
            log_format: LOG_FORMAT,
            host_time_ms: 29,
            cause,
            events: vec![
                Event::QueueHeld { reason: None }.into(),
                LoggedEvent::Unknown(unknown.clone()),
            ],
        })
        .collect()
}

pub(in crate::golden) fn effects() -> Vec<Effect> {
    let run = id!(RunId, 3);
    let attempt = id!(AttemptId, 14);
    let message = id!(MessageId, 2);
    [
        EffectKind::SendTurn {
            run,
            attempt,
            message,
        },
        EffectKind::Steer {
            run,
            attempt,
            turn: id!(ProviderTurnId, 18),
            message,
        },
        EffectKind::Interrupt {
            run,
            attempt,
            turn: None,
        },
        EffectKind::Revert {
            before: run,
            runs: vec![run, id!(RunId, 34)],
            head: summary().last_run,
        },
        EffectKind::Import,
        EffectKind::Compact { run, attempt },
        EffectKind::SignIn,
        EffectKind::Respond {
            request: id!(RequestId, 12),
            answer: words(),
        },
    ]
    .into_iter()
    .map(|kind| Effect {
        id: id!(EffectId, 31),
        kind,
    })
    .collect()
}

pub(in crate::golden) fn effect_outcomes() -> Vec<EffectOutcome> {
    vec![
        EffectOutcome::TurnAccepted {
            native_thread: "T".into(),
            native_turn: Some("U".into()),
        },
        EffectOutcome::Steered,
        EffectOutcome::TurnEnded,
        EffectOutcome::Acknowledged,
        EffectOutcome::Compacted {
            summary: "what was said".into(),
        },
        EffectOutcome::Written,
        EffectOutcome::Failed { error: error() },
        EffectOutcome::Unknown,
    ]
}

pub(in crate::golden) fn bindings() -> Vec<Binding> {
    let thread: NativeId = "T".into();
    vec![
        Binding {
            key: BindingKey::Thread {
                thread: thread.clone(),
            },
            target: BindingTarget::Thread {
                provider_thread: id!(ProviderThreadId, 6),
                node: Some(id!(NodeId, 8)),
                run: Some(id!(RunId, 3)),
            },
        },
        Binding {
            key: BindingKey::Turn {
                thread: thread.clone(),
                turn: "U".into(),
            },
            target: BindingTarget::Turn {
                turn: id!(ProviderTurnId, 18),
                attempt: id!(AttemptId, 14),
                run: id!(RunId, 3),
                ordinal: 1,
                node: id!(NodeId, 9),
                ended: true,
            },
        },
        Binding {
            key: BindingKey::Item {
                thread: thread.clone(),
                item: "c0n0".into(),
            },
            target: BindingTarget::Item {
                item: id!(ItemId, 7),
                run: id!(RunId, 3),
                node: id!(NodeId, 9),
                message: Some(id!(MessageId, 2)),
                closed: Some(BlobHash::of(b"closed")),
            },
        },
        Binding {
            key: BindingKey::Request {
                incarnation: id!(Incarnation, 5),
                thread,
                turn: Some("U".into()),
                request: "0".into(),
            },
            target: BindingTarget::Request {
                request: id!(RequestId, 12),
                occurrence: 2,
                open: true,
            },
        },
    ]
}

pub(in crate::golden) fn policy() -> Policy {
    let mut capabilities = CapabilitySet::default();
    capabilities.insert(CapabilityFlag::Interrupt, CapabilityValue::Yes);
    Policy {
        version: 1,
        agents: [(
            "codex".into(),
            AgentPolicy {
                family: "codex".into(),
                modes: Mode::ALL.to_vec(),
                capabilities,
                sandboxes: Vec::new(),
            },
        )]
        .into(),
        workspaces: vec!["project".into()],
        default_mode: Mode::Ask,
    }
}

pub(in crate::golden) fn states() -> Vec<ThreadState> {
    let empty = ThreadState::empty(id!(ThreadId, 15));
    let mut full = empty.clone();
    full.meta = Some(ThreadMeta {
        title: "Make the tests pass".into(),
        workspace: "project".into(),
        selection: selection(),
        lineage: None,
        lifecycle: Lifecycle::Active,
    });
    full.active = Some(ActiveRun {
        id: id!(RunId, 3),
        ordinal: 2,
        message: Some(id!(MessageId, 2)),
        origin: Origin::Person,
        status: RunStatus::Finalizing,
        blocked_on: BlockedOn::None,
        attempt: Some(AttemptSlot {
            id: id!(AttemptId, 14),
            message: Some(id!(MessageId, 2)),
            root_node: id!(NodeId, 9),
            status: AttemptStatus::Failed,
            turn: Some(id!(ProviderTurnId, 18)),
        }),
        attempts: 1,
        interrupting: Some(id!(AttemptId, 14)),
        stop_holds_queue: true,
        restart_pending: Some(id!(MessageId, 32)),
        steering: vec![id!(MessageId, 33)],
        answered: true,
        barrier: Some(Barrier {
            end: end(),
            error: Some(error()),
        }),
        mode_changed: false,
    });
    full.queue = vec![QueuedRun {
        run: id!(RunId, 34),
        message: id!(MessageId, 35),
        dispatch: steer(),
        origin: Origin::Person,
    }];
    full.held = Some(HoldReason::Interrupted);
    full.requests = vec![RequestSlot {
        id: id!(RequestId, 12),
        kind: RequestKind::UserInput,
        answering: true,
        content: ContentHash::of("{}").mark(),
        node: id!(NodeId, 8),
        item: Some(id!(ItemId, 7)),
    }];
    full.nodes = vec![NodeSlot {
        id: id!(NodeId, 8),
        parent: Some(id!(NodeId, 9)),
        run: id!(RunId, 3),
        kind: NodeKind::Subagent,
        status: NodeStatus::Background,
        provider_thread: Some(id!(ProviderThreadId, 6)),
    }];
    full.items = vec![ItemSlot {
        id: id!(ItemId, 7),
        node: id!(NodeId, 8),
        background: true,
        kind: ItemKind::Tool,
    }];
    full.session = Some(SessionSlot {
        id: id!(SessionId, 4),
        agent: "codex".into(),
        incarnation: id!(Incarnation, 5),
        live: true,
        capability_version: 1,
        capabilities: capabilities().set(),
    });
    full.provider_threads = vec![ProviderThreadSlot {
        id: id!(ProviderThreadId, 6),
        agent: "codex".into(),
        coverage: 2,
        status: ProviderThreadStatus::Divergent,
        owner: None,
    }];
    full.provider_thread = Some(id!(ProviderThreadId, 6));
    full.plan = Some(id!(PlanId, 13));
    full.last_run = summary().last_run;
    full.checkpoints = vec![CheckpointSlot {
        id: id!(CheckpointId, 36),
        run: id!(RunId, 17),
        captured: true,
    }];
    full.transfers = vec![TransferSlot {
        id: id!(TransferId, 37),
        kind: TransferKind::Fork,
        source: id!(ThreadId, 16),
        run: Some(id!(RunId, 17)),
    }];
    full.rollback = Some(id!(RunId, 17));
    full.read_only = Some("newer".into());
    vec![empty, full]
}

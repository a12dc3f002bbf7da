//! One message of each type and variant worth holding, filled with plausible values.

use pilothouse_domain::{
    AgentName, Answer, BlobHash, Body, Cause, Chain, Command, CommandBody, CommandId, ContentHash,
    Cursor, DeviceId, Digest, Entry, Epoch, Event, HostId, Incarnation, ItemId, MessageId, Mode,
    NodeId, OptionId, Outcome, Policy, Position, Refusal, RequestId, RequestStatus, Row, RunId,
    RunStatus, RuntimeRequest, Scope, ThreadId, ThreadSummary, WorkspaceId,
    command::DispatchMode,
    feed::{FeedCursor, Subscribed},
    policy::AgentPolicy,
    request::{RequestKind, Respondability, RiskHint},
    row::{ActiveSummary, LiveText, OpenItem, WaitingCounts},
    run::BlockedOn,
    thread::{Actor, ConversationMessage, Delivery, Role, Selection},
};
use pilothouse_wire::{
    message::{
        AgentInfo, AgentReadiness, Base64, BlobChunk, ByeReason, CheckOutcome, DeviceMessage,
        DoctorCheck, DoctorReport, ErrorAbout, ErrorCode, Hello, HostMessage, Limits, OlderItems,
        Pair, Paired, Query, QueryAnswer, QueryResult, Welcome, WireError, WorkspaceInfo,
    },
    pairing::{PairingProof, PairingRefusal},
    version::{ProtocolRange, UpdateNeeded, VersionRefusal},
};

mod conversations;
mod feed;

pub(crate) use feed::{feed_thread, feed_update, gap};

pub(crate) const THREAD: ThreadId = ThreadId::from_bytes([0x11; 16]);
const RUN: RunId = RunId::from_bytes([0x22; 16]);
const COMMAND: CommandId = CommandId::from_bytes([0x33; 16]);
const REQUEST: RequestId = RequestId::from_bytes([0x44; 16]);
const DEVICE: DeviceId = DeviceId::from_bytes([0x55; 16]);
const HOST: HostId = HostId::from_bytes([0x66; 16]);
const EPOCH: Epoch = Epoch::from_bytes([0x77; 16]);
pub(crate) const ITEM: ItemId = ItemId::from_bytes([0x88; 16]);
const MESSAGE: MessageId = MessageId::from_bytes([0x99; 16]);
const NODE: NodeId = NodeId::from_bytes([0xaa; 16]);
const NOW: u64 = 1_796_000_000_000;

fn cursor() -> Cursor {
    Cursor {
        epoch: EPOCH,
        seq: 41,
        chain: Chain(Digest::from_bytes([0xcc; 32])),
    }
}

pub(crate) fn hello() -> Hello {
    Hello {
        protocol: ProtocolRange { min: 1, max: 1 },
        device_name: "Pixel".into(),
        software: "pilothouse-android 0.1.0".into(),
        log_formats: vec![1],
        state_version: 1,
        decide_version: 1,
        encodings: Vec::new(),
        words: Vec::new(),
    }
}

fn policy() -> Policy {
    let codex = AgentPolicy {
        family: "codex".into(),
        modes: vec![Mode::Ask, Mode::FullAccess],
        ..AgentPolicy::default()
    };
    Policy {
        version: 3,
        agents: [(AgentName::from("codex"), codex)].into(),
        workspaces: vec![WorkspaceId::from("site")],
        default_mode: Mode::Ask,
    }
}

pub(crate) fn welcome() -> Welcome {
    Welcome {
        protocol: 1,
        host_id: HOST,
        host_name: "studio".into(),
        software: "pilothouse 0.1.0".into(),
        epoch: EPOCH,
        limits: Limits::default(),
        commands: CommandBody::NAMES
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        log_formats: vec![1],
        state_version: 1,
        decide_version: 1,
        policy: policy(),
        device_id: DEVICE,
        scopes: vec![Scope::Read, Scope::Operate, Scope::Approve],
        host_time_ms: NOW,
        encoding: None,
    }
}

fn request() -> RuntimeRequest {
    let subject = r#"{"command":"rm -rf build","cwd":"/srv/site"}"#;
    RuntimeRequest {
        id: REQUEST,
        run: Some(RUN),
        node: NODE,
        item: Some(ITEM),
        kind: RequestKind::Command,
        title: "Run a command".into(),
        subject: subject.into(),
        content_hash: ContentHash::of(subject),
        respondability: Respondability::Live,
        one_tap_allowed: false,
        default_to_no: true,
        hints: vec![RiskHint::DeletesFiles],
        asked_before: 0,
        incarnation: Incarnation::from_bytes([0xbb; 16]),
        status: RequestStatus::Pending,
        opened_at_ms: NOW,
        expires_at_ms: None,
    }
}

fn summary() -> ThreadSummary {
    ThreadSummary {
        thread: THREAD,
        title: "Tidy the build".into(),
        workspace: WorkspaceId::from("site"),
        agent: AgentName::from("codex"),
        mode: Mode::Ask,
        sandbox: None,
        lineage: None,
        active: Some(ActiveSummary {
            run: RUN,
            status: RunStatus::Waiting,
            blocked_on: BlockedOn::Approval,
            since_ms: NOW,
        }),
        last_run: None,
        waiting: WaitingCounts {
            approvals: 1,
            questions: 0,
        },
        queued: 2,
        held: None,
        sign_in_problem: None,
        last_line: "I will remove the old build first.".into(),
        archived: false,
        created_at_ms: NOW,
        updated_at_ms: NOW,
        seq: 41,
    }
}

fn message() -> ConversationMessage {
    ConversationMessage {
        id: MESSAGE,
        role: Role::User,
        text: Body::Inline("Tidy the build \u{1f9f9}".into()),
        attachments: vec![],
        run: RUN,
        author: Actor::Device { device: DEVICE },
        delivery: Delivery::Started,
    }
}

pub(crate) fn entry() -> Entry {
    Entry {
        thread: THREAD,
        epoch: EPOCH,
        seq: 42,
        chain: Chain(Digest::from_bytes([0xdd; 32])),
        log_format: 1,
        host_time_ms: NOW,
        cause: Cause::Command {
            command: COMMAND,
            device: DEVICE,
        },
        events: vec![
            Event::MessageAdded { message: message() }.into(),
            serde_json::from_str(r#"{"type":"thread.painted","skippable":true,"colour":"blue"}"#)
                .unwrap(),
        ],
    }
}

fn command(body: CommandBody) -> DeviceMessage {
    DeviceMessage::Command {
        command: Box::new(Command {
            id: COMMAND,
            thread: THREAD,
            device_seq: 7,
            based_on: Some(cursor()),
            issued_at_ms: NOW,
            body,
        }),
    }
}

fn query(id: u32, query: Query) -> DeviceMessage {
    DeviceMessage::Query { id, query }
}

fn result(id: u32, result: QueryResult) -> HostMessage {
    HostMessage::Result {
        id,
        answer: QueryAnswer::Result(result),
    }
}

fn bye(reason: ByeReason) -> HostMessage {
    HostMessage::Bye { reason }
}

/// What devices say, each with the name of its golden file.
pub(crate) fn of_device() -> Vec<(&'static str, DeviceMessage)> {
    let selection = Selection {
        agent: AgentName::from("codex"),
        model: None,
        effort: None,
        mode: Mode::Ask,
        sandbox: None,
    };
    vec![
        ("hello", DeviceMessage::Hello(hello())),
        (
            "pair",
            DeviceMessage::Pair(Pair {
                proof: PairingProof::from_bytes([5; 32]),
                device_name: "Pixel".into(),
                platform: "android 16".into(),
            }),
        ),
        (
            "subscribe",
            DeviceMessage::Subscribe {
                sub: 2,
                thread: THREAD,
                cursor: Some(cursor()),
                tail_bytes: 32_768,
            },
        ),
        (
            "subscribe.new",
            DeviceMessage::Subscribe {
                sub: 3,
                thread: THREAD,
                cursor: None,
                tail_bytes: 32_768,
            },
        ),
        ("unsubscribe", DeviceMessage::Unsubscribe { sub: 2 }),
        (
            "subscribe_feed",
            DeviceMessage::SubscribeFeed {
                sub: 1,
                cursor: Some(FeedCursor {
                    epoch: EPOCH,
                    revision: 900,
                }),
            },
        ),
        (
            "command.thread_create",
            command(CommandBody::ThreadCreate {
                title: "Tidy the build".into(),
                workspace: WorkspaceId::from("site"),
                selection,
            }),
        ),
        (
            "command.message_send",
            command(CommandBody::MessageSend {
                text: "Use make".into(),
                attachments: vec![],
                dispatch: DispatchMode::SteerActive { run: RUN },
                accept_stop: vec![ITEM],
            }),
        ),
        (
            "command.request_answer",
            command(CommandBody::RequestAnswer {
                request: REQUEST,
                content_hash: request().content_hash,
                answer: Answer::Choose {
                    option: OptionId::from("accept"),
                    note: None,
                },
            }),
        ),
        (
            "outcome_query",
            DeviceMessage::OutcomeQuery {
                command_ids: vec![COMMAND],
            },
        ),
        (
            "query.older_items",
            query(
                1,
                Query::OlderItems {
                    thread: THREAD,
                    before: Position {
                        run: 3,
                        arrival: 120,
                    },
                    max_bytes: 65_536,
                },
            ),
        ),
        (
            "query.blob",
            query(
                2,
                Query::Blob {
                    hash: BlobHash::of(b"x"),
                    offset: 262_144,
                    len: 262_144,
                },
            ),
        ),
        (
            "query.put_blob",
            query(
                6,
                Query::PutBlob {
                    hash: BlobHash::of(b"picture"),
                    offset: 0,
                    total: 7,
                    data: Base64(b"picture".to_vec()),
                },
            ),
        ),
        ("query.agents", query(3, Query::Agents)),
        ("query.workspaces", query(4, Query::Workspaces)),
        ("query.doctor", query(5, Query::Doctor)),
        ("query.conversations", query(7, conversations::asked())),
        ("query.files", query(8, conversations::files_asked())),
        ("ping", DeviceMessage::Ping { nonce: u64::MAX }),
        (
            "bye",
            DeviceMessage::Bye {
                reason: ByeReason::Done,
            },
        ),
    ]
}

/// What hosts say, each with the name of its golden file.
pub(crate) fn of_host() -> Vec<(&'static str, HostMessage)> {
    let refused = Outcome::Refused {
        refusal: Refusal::UnknownCommand {
            name: "thread.paint".into(),
        },
    };
    let mut all = vec![
        ("welcome", HostMessage::Welcome(Box::new(welcome()))),
        (
            "paired",
            HostMessage::Paired(Paired {
                device_id: DEVICE,
                host_id: HOST,
                host_name: "studio".into(),
                scopes: vec![Scope::Read, Scope::Operate],
            }),
        ),
        (
            "feed",
            HostMessage::Feed {
                sub: 1,
                update: Box::new(feed_update(vec![feed_thread()])),
            },
        ),
        (
            "subscribed.ok",
            HostMessage::Subscribed {
                sub: 2,
                thread: THREAD,
                answer: Box::new(Subscribed {
                    gap: None,
                    snapshot: None,
                    rows: vec![],
                    older: false,
                    open_items: vec![],
                    high_water: cursor(),
                }),
            },
        ),
        (
            "subscribed.gap",
            HostMessage::Subscribed {
                sub: 2,
                thread: THREAD,
                answer: Box::new(gap(vec![])),
            },
        ),
        (
            "entries",
            HostMessage::Entries {
                sub: 2,
                entries: vec![entry()],
            },
        ),
        (
            "open_items",
            HostMessage::OpenItems {
                sub: 2,
                items: vec![OpenItem {
                    item: ITEM,
                    from: 4096,
                    text: "… and then".into(),
                }],
                high_water: cursor(),
            },
        ),
        (
            "live",
            HostMessage::Live {
                thread: THREAD,
                live: LiveText {
                    item: ITEM,
                    offset: 4106,
                    text: " grüßt\n".into(),
                },
            },
        ),
        (
            "outcome.accepted",
            HostMessage::Outcome {
                command_id: COMMAND,
                outcome: Some(Outcome::Accepted {
                    cursor: cursor(),
                    notice: None,
                }),
            },
        ),
        (
            "outcome.refused",
            HostMessage::Outcome {
                command_id: COMMAND,
                outcome: Some(refused),
            },
        ),
        (
            "outcome.unknown",
            HostMessage::Outcome {
                command_id: COMMAND,
                outcome: None,
            },
        ),
        (
            "result.older_items",
            result(
                1,
                QueryResult::OlderItems(OlderItems {
                    rows: vec![Row::Message(message())],
                    older: true,
                }),
            ),
        ),
        (
            "result.blob",
            result(
                2,
                QueryResult::Blob(BlobChunk {
                    hash: BlobHash::of(b"x"),
                    offset: 262_144,
                    total: 262_147,
                    data: Base64(vec![0, 128, 255]),
                }),
            ),
        ),
        (
            "result.put_blob",
            result(
                6,
                QueryResult::PutBlob {
                    hash: BlobHash::of(b"picture"),
                    have: 7,
                    complete: true,
                },
            ),
        ),
        (
            "result.agents",
            result(
                3,
                QueryResult::Agents {
                    agents: vec![
                        AgentInfo {
                            name: AgentName::from("codex"),
                            family: "codex".into(),
                            version: Some("0.171.0".into()),
                            readiness: AgentReadiness::Ready,
                            modes: vec![Mode::Ask],
                        },
                        AgentInfo {
                            name: AgentName::from("other"),
                            family: "acp".into(),
                            version: None,
                            readiness: AgentReadiness::Failed {
                                reason: "it ended at once (exit 2)".into(),
                            },
                            modes: vec![],
                        },
                    ],
                },
            ),
        ),
        ("result.conversations", result(7, conversations::page())),
        ("result.files", result(8, conversations::files())),
        (
            "result.workspaces",
            result(
                4,
                QueryResult::Workspaces {
                    workspaces: vec![WorkspaceInfo {
                        id: WorkspaceId::from("site"),
                        path: "/srv/site".into(),
                        available: true,
                    }],
                },
            ),
        ),
        (
            "result.doctor",
            result(
                5,
                QueryResult::Doctor(DoctorReport {
                    checks: vec![DoctorCheck {
                        name: "port".into(),
                        outcome: CheckOutcome::Warning,
                        finding: "7433 listens on loopback only".into(),
                        next_step: Some("run `pilothouse pair` once".into()),
                    }],
                }),
            ),
        ),
        (
            "result.error",
            HostMessage::Result {
                id: 6,
                answer: QueryAnswer::Error(WireError {
                    about: ErrorAbout::Query { id: 6 },
                    code: ErrorCode::NotFound,
                    message: "no such stored text".into(),
                    next_step: "it may have been pruned".into(),
                }),
            },
        ),
        (
            "pong",
            HostMessage::Pong {
                nonce: u64::MAX,
                host_time_ms: NOW,
            },
        ),
        (
            "error",
            HostMessage::Error(WireError {
                about: ErrorAbout::Message {
                    kind: "of_next_year".into(),
                },
                code: ErrorCode::Unsupported,
                message: "a message of the unknown type `of_next_year` came".into(),
                next_step: "update the host".into(),
            }),
        ),
    ];
    let version = VersionRefusal {
        device: ProtocolRange { min: 1, max: 1 },
        host: ProtocolRange { min: 2, max: 3 },
        update: UpdateNeeded::Device,
    };
    all.extend([
        ("bye.revoked", bye(ByeReason::Revoked)),
        ("bye.shutdown", bye(ByeReason::Shutdown)),
        ("bye.replaced", bye(ByeReason::Replaced)),
        (
            "bye.protocol",
            bye(ByeReason::Protocol {
                problem: "a frame is no message".into(),
            }),
        ),
        ("bye.version", bye(ByeReason::Version { refusal: version })),
        ("bye.unauthorised", bye(ByeReason::Unauthorised)),
        (
            "bye.pairing",
            bye(ByeReason::Pairing {
                refusal: PairingRefusal::WrongProof { attempts_left: 2 },
            }),
        ),
        ("bye.slow_reader", bye(ByeReason::SlowReader)),
        ("bye.silent", bye(ByeReason::Silent)),
    ]);
    all
}

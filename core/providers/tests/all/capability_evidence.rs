//! What shows that an agent can do something: events of its recordings where the flag says what it tells. Where it says what can
//! be asked of it, that are the tests of `capability_tests`.

use pilothouse_domain::{
    Body,
    CapabilityFlag::{self, *},
    ItemContent, ProviderEvent,
    ProviderEventKind::{
        ChildClosed, ChildOpened, ItemAppended, ItemClosed, ItemOpened, ItemUpdated, RequestOpened,
        ThreadBound, TodoList, TurnEnded, TurnStarted,
    },
    provider::TurnStatus,
    request::RequestKind,
};

/// Whether one event shows what a flag says.
type Shows = fn(&ProviderEvent) -> bool;

fn is_tool(content: &ItemContent) -> bool {
    matches!(
        content,
        ItemContent::Command { .. } | ItemContent::FileChange { .. } | ItemContent::Tool { .. }
    )
}

fn asks(event: &ProviderEvent, kinds: &[RequestKind]) -> bool {
    matches!(&event.kind, RequestOpened { kind, .. } if kinds.contains(kind))
}

fn appends(event: &ProviderEvent, shape: fn(&ItemContent) -> bool) -> bool {
    matches!(&event.kind, ItemAppended { shape: of, text, .. } if shape(of) && !text.is_empty())
}

fn has_output(content: &ItemContent) -> bool {
    let full = |body: &Body| matches!(body, Body::Inline(text) if !text.is_empty());
    match content {
        ItemContent::Command { output, .. } => full(output),
        ItemContent::Tool { result, .. } => full(result),
        _ => false,
    }
}

fn begins_tool(event: &ProviderEvent) -> bool {
    matches!(&event.kind, ItemOpened { content, .. } | ItemUpdated { content, .. } if is_tool(content))
}

fn ends_tool(event: &ProviderEvent) -> bool {
    matches!(&event.kind, ItemClosed { content, .. } if is_tool(content))
}

fn ends_turn(event: &ProviderEvent, how: TurnStatus) -> bool {
    matches!(&event.kind, TurnEnded { status, .. } if *status == how)
}

/// Flags that say what an agent tells, each with what shows it.
pub(crate) const TOLD: &[(CapabilityFlag, Shows)] = &[
    (ExposesNativeThreadId, |event| {
        event.kind == ThreadBound && event.place.thread.is_some()
    }),
    (NativeThreadIds, |event| {
        event.kind == ThreadBound && event.place.thread.is_some()
    }),
    (NativeTurnIds, |event| {
        event.kind == TurnStarted && event.place.turn.is_some()
    }),
    (EmitsTurnStarted, |event| event.kind == TurnStarted),
    (EmitsTurnCompleted, |event| {
        ends_turn(event, TurnStatus::Completed)
    }),
    (TerminalStatusQuality, |event| {
        ends_turn(event, TurnStatus::Failed) || ends_turn(event, TurnStatus::Interrupted)
    }),
    (StreamsAssistantText, |event| {
        appends(event, |shape| {
            matches!(shape, ItemContent::AssistantMessage { .. })
        })
    }),
    (StreamsReasoning, |event| {
        appends(event, |shape| {
            matches!(shape, ItemContent::Reasoning { .. })
        })
    }),
    (StreamsToolOutput, |event| {
        appends(event, |shape| matches!(shape, ItemContent::Command { .. }))
    }),
    (StreamsPlanText, |event| {
        appends(event, |shape| matches!(shape, ItemContent::Plan { .. }))
    }),
    (EmitsMessageCompleted, |event| {
        matches!(
            &event.kind,
            ItemClosed {
                content: ItemContent::AssistantMessage { .. },
                ..
            }
        )
    }),
    (ExposesToolItemIds, begins_tool),
    (NativeItemIds, begins_tool),
    (EmitsToolStarted, begins_tool),
    (EmitsToolCompleted, ends_tool),
    (
        EmitsToolOutput,
        |event| matches!(&event.kind, ItemClosed { content, .. } if has_output(content)),
    ),
    (McpTools, |event| {
        matches!(
            &event.kind,
            ItemClosed {
                content: ItemContent::Tool {
                    server: Some(_),
                    ..
                },
                ..
            }
        )
    }),
    (CommandApproval, |event| {
        asks(event, &[RequestKind::Command])
    }),
    (FileReadApproval, |event| {
        asks(event, &[RequestKind::FileRead])
    }),
    (FileChangeApproval, |event| {
        asks(event, &[RequestKind::FileChange])
    }),
    (ApplyPatchApproval, |event| {
        asks(event, &[RequestKind::ApplyPatch])
    }),
    (ApprovalsHaveNativeRequestIds, |event| {
        matches!(event.kind, RequestOpened { .. })
    }),
    (NativeRequestIds, |event| {
        matches!(event.kind, RequestOpened { .. })
    }),
    (ApprovalsFromSubagents, |event| {
        matches!(event.kind, RequestOpened { .. }) && event.place.root.is_some()
    }),
    (
        EmitsTodoList,
        |event| matches!(&event.kind, TodoList { entries } if !entries.is_empty()),
    ),
    (
        EmitsPlanUpdated,
        |event| matches!(&event.kind, TodoList { entries } if !entries.is_empty()),
    ),
    (PlanDeltasHaveItemIds, |event| {
        appends(event, |shape| matches!(shape, ItemContent::Plan { .. }))
    }),
    (EmitsProposedPlan, |event| {
        asks(event, &[RequestKind::Plan])
            || matches!(
                &event.kind,
                ItemClosed {
                    content: ItemContent::Plan { .. },
                    ..
                }
            )
    }),
    (
        StructuredQuestions,
        |event| matches!(&event.kind, RequestOpened { kind: RequestKind::UserInput, subject, .. } if !subject.questions.is_empty()),
    ),
    (Subagents, |event| matches!(event.kind, ChildOpened { .. })),
    (ExposesSubagentThreadIds, |event| {
        matches!(event.kind, ChildOpened { .. })
    }),
    (EmitsSubagentLifecycle, |event| {
        matches!(event.kind, ChildClosed { .. })
    }),
];

/// Flags that no line of the product reads yet. It only shrinks.
pub(crate) const UNREAD: &[CapabilityFlag] = &[
    MultipleThreadsPerSession,
    ProviderSwitchingViaHandoff,
    PendingRequestsSurviveRestart,
    CreateEmptyThread,
    ForkFromSubagentThread,
    ExposesNativeThreadId,
    ExposesNativeTurnId,
    EmitsTurnStarted,
    EmitsTurnCompleted,
    SteeringByInterruptRestart,
    QueuedMessages,
    TerminalStatusQuality,
    StreamsAssistantText,
    StreamsReasoning,
    StreamsToolOutput,
    StreamsPlanText,
    EmitsMessageCompleted,
    ExposesToolItemIds,
    EmitsToolStarted,
    EmitsToolCompleted,
    EmitsToolOutput,
    McpTools,
    DynamicToolCallbacks,
    FileReadApproval,
    ApplyPatchApproval,
    ApprovalsHaveNativeRequestIds,
    ApprovalCallbacksAreLiveOnly,
    ApprovalsFromSubagents,
    EmitsPlanUpdated,
    EmitsTodoList,
    EmitsProposedPlan,
    StructuredQuestions,
    PlanDeltasHaveItemIds,
    Subagents,
    ExposesSubagentThreadIds,
    EmitsSubagentLifecycle,
    WaitForSubagents,
    CloseSubagents,
    ForkSubagentThread,
    AcceptsSystemContext,
    AcceptsDeveloperContext,
    AcceptsSyntheticUserContext,
    GenerateSummaries,
    ConsumeHandoffSummaries,
    DeltaHandoff,
    FullThreadHandoff,
    MaxRecommendedHandoffChars,
    ProviderCanRollbackConversation,
    ProviderRollbackReturnsSnapshot,
    ProviderCanReadConversationSnapshot,
    NativeThreadIds,
    NativeItemIds,
    NativeRequestIds,
];

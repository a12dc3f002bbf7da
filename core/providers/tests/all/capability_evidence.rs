//! What shows that an agent can do something: events of its recordings where the flag says what it tells, named tests on the
//! real agent where it says what can be asked of it.

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
    (Interrupt, |event| ends_turn(event, TurnStatus::Interrupted)),
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

/// Whose `yes` or `no` a test shows, on the real agent where it can be driven to it: flag, agent, test. The test of a `no` holds
/// that what the flag describes is refused, or answered, in a typed way.
pub(crate) const TESTED: &[(CapabilityFlag, &str, &str)] = &[
    (
        FileInput,
        "codex",
        "files_that_are_no_pictures_are_refused_by_agents_that_take_none",
    ),
    (
        FileInput,
        "claude",
        "files_that_are_no_pictures_are_refused_by_agents_that_take_none",
    ),
    (
        FileInput,
        "pi",
        "files_that_are_no_pictures_are_refused_by_agents_that_take_none",
    ),
    (
        DynamicToolCallbacks,
        "codex",
        "each_of_the_ten_requests_is_opened_or_answered_even_when_its_fields_are_missing",
    ),
    (
        DynamicToolCallbacks,
        "claude",
        "each_control_request_that_claude_can_send_is_opened_or_answered",
    ),
    (
        PendingRequestsSurviveRestart,
        "codex",
        "after_a_kill_9_of_the_host_every_device_shows_the_request_as_lost_and_the_next_message_works",
    ),
    (
        PendingRequestsSurviveRestart,
        "claude",
        "a_conversation_goes_on_after_the_host_was_killed_and_what_was_asked_before_is_lost",
    ),
    (
        PendingRequestsSurviveRestart,
        "opencode",
        "an_opencode_that_is_configured_otherwise_when_its_host_is_back_is_ended_and_another_goes_on",
    ),
    (
        PendingRequestsSurviveRestart,
        "pi",
        "a_command_is_asked_for_allowed_and_refused_with_words_and_the_conversation_survives_the_host",
    ),
    (
        ApprovalCallbacksAreLiveOnly,
        "opencode",
        "a_permission_asked_of_opencode_is_answered_after_the_host_was_killed_and_the_agent_goes_on",
    ),
    (
        McpTools,
        "codex",
        "codex_calls_a_tool_of_a_server_that_is_handed_through",
    ),
    (
        McpTools,
        "claude",
        "claude_calls_a_tool_of_a_server_that_is_handed_through",
    ),
    (
        McpTools,
        "opencode",
        "opencode_calls_a_tool_of_a_server_that_is_handed_through",
    ),
    (
        McpTools,
        "pi",
        "pi_calls_a_tool_of_a_server_that_is_handed_through",
    ),
    (
        MultipleThreadsPerSession,
        "codex",
        "a_copy_holds_what_was_said_up_to_its_turn_and_goes_its_own_way",
    ),
    (
        MultipleThreadsPerSession,
        "opencode",
        "a_conversation_is_copied_up_to_a_turn_shortened_and_turns_are_taken_back_without_touching_files",
    ),
    (
        ModelSwitchInSession,
        "codex",
        "model_effort_and_mode_are_switched_between_turns_and_reach_the_agent",
    ),
    (
        ModelSwitchInSession,
        "claude",
        "model_and_effort_are_what_was_chosen_or_refused",
    ),
    (
        ModelSwitchInSession,
        "opencode",
        "what_opencode_does_not_have_is_refused_before_anything_is_sent",
    ),
    (
        ModelSwitchInSession,
        "pi",
        "model_and_effort_are_chosen_by_name_and_what_is_not_there_is_refused",
    ),
    (
        RuntimeModeSwitchInSession,
        "codex",
        "a_change_of_mode_holds_from_the_next_turn",
    ),
    (
        RuntimeModeSwitchInSession,
        "claude",
        "each_mode_lets_pass_what_it_says_and_only_full_access_may_lift_the_checks",
    ),
    (
        RuntimeModeSwitchInSession,
        "opencode",
        "a_mode_holds_for_subagents_too_and_read_only_runs_nothing",
    ),
    (
        RuntimeModeSwitchInSession,
        "pi",
        "a_mode_says_what_is_asked_and_no_message_can_change_it",
    ),
    (
        CreateEmptyThread,
        "codex",
        "a_command_is_asked_for_approved_and_run",
    ),
    (
        CreateEmptyThread,
        "claude",
        "a_turn_is_stopped_while_it_speaks_and_its_words_so_far_stay",
    ),
    (
        CreateEmptyThread,
        "opencode",
        "case_11_every_decision_ends_the_tool_or_the_turn",
    ),
    (
        CreateEmptyThread,
        "pi",
        "a_turn_thinks_speaks_asks_for_a_command_runs_it_and_ends",
    ),
    (
        ReadThreadSnapshot,
        "codex",
        "after_a_kill_history_shows_the_cut_turn_and_the_resumed_conversation_still_asks",
    ),
    (
        ReadThreadSnapshot,
        "opencode",
        "history_names_our_messages_and_closes_what_a_killed_process_left",
    ),
    (
        ReadThreadSnapshot,
        "pi",
        "a_session_is_taken_up_again_after_the_process_was_killed_while_it_spoke",
    ),
    (
        RollbackThread,
        "codex",
        "turns_are_taken_back_once_whatever_is_asked_again_and_never_while_one_goes_on",
    ),
    (
        RollbackThread,
        "opencode",
        "a_conversation_is_copied_up_to_a_turn_shortened_and_turns_are_taken_back_without_touching_files",
    ),
    (
        ForkThread,
        "codex",
        "a_copy_holds_what_was_said_up_to_its_turn_and_goes_its_own_way",
    ),
    (
        ForkThread,
        "claude",
        "a_conversation_is_copied_whole_or_up_to_a_turn_and_the_other_stays_as_it_was",
    ),
    (
        ForkThread,
        "opencode",
        "a_conversation_is_copied_up_to_a_turn_shortened_and_turns_are_taken_back_without_touching_files",
    ),
    (
        ForkThread,
        "pi",
        "a_session_is_copied_whole_or_up_to_a_turn_and_the_source_stays",
    ),
    (
        ForkFromTurn,
        "codex",
        "a_copy_holds_what_was_said_up_to_its_turn_and_goes_its_own_way",
    ),
    (
        ForkFromTurn,
        "claude",
        "a_conversation_is_copied_whole_or_up_to_a_turn_and_the_other_stays_as_it_was",
    ),
    (
        ForkFromTurn,
        "opencode",
        "a_conversation_is_copied_up_to_a_turn_shortened_and_turns_are_taken_back_without_touching_files",
    ),
    (
        ForkFromTurn,
        "pi",
        "a_session_is_copied_whole_or_up_to_a_turn_and_the_source_stays",
    ),
    (
        ExposesNativeThreadId,
        "claude",
        "a_conversation_is_resumed_by_another_process_after_a_kill",
    ),
    (
        ExposesNativeTurnId,
        "codex",
        "words_are_put_into_exactly_the_turn_that_runs",
    ),
    (
        ExposesNativeTurnId,
        "claude",
        "case_35_a_turn_is_stopped_while_it_asks_and_what_it_asked_is_withdrawn",
    ),
    (
        ExposesNativeTurnId,
        "opencode",
        "history_names_our_messages_and_closes_what_a_killed_process_left",
    ),
    (
        ActiveSteering,
        "codex",
        "words_are_put_into_exactly_the_turn_that_runs",
    ),
    (
        ActiveSteering,
        "pi",
        "words_are_put_into_the_turn_that_goes_on_and_into_no_other",
    ),
    (
        SteeringByInterruptRestart,
        "codex",
        "a_turn_is_interrupted_in_the_middle_of_its_text",
    ),
    (
        SteeringByInterruptRestart,
        "claude",
        "a_turn_is_stopped_while_it_speaks_and_its_words_so_far_stay",
    ),
    (
        SteeringByInterruptRestart,
        "opencode",
        "case_32_case_34_a_stop_ends_text_a_tool_and_endless_retries_and_the_next_turn_runs",
    ),
    (
        SteeringByInterruptRestart,
        "pi",
        "a_turn_is_stopped_while_it_speaks_and_the_next_one_is_not",
    ),
    (
        FileChangeApproval,
        "claude",
        "each_mode_lets_pass_what_it_says_and_only_full_access_may_lift_the_checks",
    ),
    (
        ApprovalCallbacksAreLiveOnly,
        "codex",
        "after_a_kill_history_shows_the_cut_turn_and_the_resumed_conversation_still_asks",
    ),
    (
        ApprovalCallbacksAreLiveOnly,
        "claude",
        "a_conversation_goes_on_after_the_host_was_killed_and_what_was_asked_before_is_lost",
    ),
    (
        ApprovalCallbacksAreLiveOnly,
        "pi",
        "a_command_is_asked_for_allowed_and_refused_with_words_and_the_conversation_survives_the_host",
    ),
    (
        ProviderCanRollbackConversation,
        "codex",
        "turns_are_taken_back_once_whatever_is_asked_again_and_never_while_one_goes_on",
    ),
    (
        ProviderCanRollbackConversation,
        "opencode",
        "a_conversation_is_copied_up_to_a_turn_shortened_and_turns_are_taken_back_without_touching_files",
    ),
    (
        ProviderCanReadConversationSnapshot,
        "codex",
        "after_a_kill_history_shows_the_cut_turn_and_the_resumed_conversation_still_asks",
    ),
    (
        ProviderCanReadConversationSnapshot,
        "opencode",
        "history_names_our_messages_and_closes_what_a_killed_process_left",
    ),
    (
        ProviderCanReadConversationSnapshot,
        "pi",
        "a_session_is_taken_up_again_after_the_process_was_killed_while_it_spoke",
    ),
    (
        NativeThreadIds,
        "claude",
        "a_conversation_is_resumed_by_another_process_after_a_kill",
    ),
    (
        CompactOnRequest,
        "codex",
        "a_context_is_shortened_as_a_turn_with_an_item_of_its_own",
    ),
    (
        ImageInput,
        "codex",
        "case_43_a_picture_alone_one_with_words_and_twenty_reach_the_model_whole",
    ),
    (
        RollbackThread,
        "claude",
        "turns_that_were_taken_back_are_forgotten_also_by_a_process_that_is_killed_at_once",
    ),
    (
        RollbackThread,
        "pi",
        "turns_that_were_taken_back_are_forgotten_also_by_a_process_that_is_killed_at_once",
    ),
    (
        ProviderCanRollbackConversation,
        "claude",
        "turns_that_were_taken_back_are_forgotten_also_by_a_process_that_is_killed_at_once",
    ),
    (
        ProviderCanRollbackConversation,
        "pi",
        "turns_that_were_taken_back_are_forgotten_also_by_a_process_that_is_killed_at_once",
    ),
    (
        ReadThreadSnapshot,
        "claude",
        "what_is_read_back_has_the_ids_and_the_words_that_it_had_when_it_happened",
    ),
    (
        ProviderCanReadConversationSnapshot,
        "claude",
        "what_is_read_back_has_the_ids_and_the_words_that_it_had_when_it_happened",
    ),
    (
        CompactOnRequest,
        "claude",
        "claude_code_forgets_copies_switches_and_shortens",
    ),
    (
        CompactOnRequest,
        "pi",
        "pi_forgets_copies_switches_and_shortens",
    ),
    (
        ImageInput,
        "claude",
        "case_43_by_claude_code_pictures_reach_the_model_whole",
    ),
    (
        ImageInput,
        "pi",
        "case_43_by_pi_pictures_reach_the_model_whole",
    ),
    (
        CompactOnRequest,
        "opencode",
        "a_conversation_is_copied_up_to_a_turn_shortened_and_turns_are_taken_back_without_touching_files",
    ),
    (
        ImageInput,
        "opencode",
        "case_43_by_opencode_pictures_reach_the_model_whole",
    ),
    (
        FileInput,
        "opencode",
        "case_43_a_picture_alone_with_words_and_with_a_text_reaches_the_model_whole",
    ),
    (
        ListConversations,
        "codex",
        "conversations_of_codex_are_listed_and_become_threads",
    ),
    (
        ListConversations,
        "claude",
        "conversations_of_claude_code_are_listed_and_become_threads",
    ),
    (
        ListConversations,
        "opencode",
        "conversations_of_opencode_are_listed_and_become_threads",
    ),
    (
        ListConversations,
        "pi",
        "conversations_of_pi_are_listed_and_become_threads",
    ),
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

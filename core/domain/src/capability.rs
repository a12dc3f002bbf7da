//! What an agent can do: the eleven groups and 66 flags of seeds/provider-capability-system.md, and a twelfth of ours, each
//! a fact with its source, the agent's version and a date.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{collections::BTreeMap, fmt};

macro_rules! flags {
    ($($group:ident { $($variant:ident = $name:literal,)* })*) => {
        /// A flag of the capability system: the seed's, then, as `operations`, those of ours that it lacks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "the names are the seed's, which describes them")]
        pub enum CapabilityFlag { $($($variant,)*)* }

        impl CapabilityFlag {
            /// All flags, in the seed's order. A [`CapabilitySet`] has one character per flag in this order.
            pub const ALL: &'static [Self] = &[$($(Self::$variant,)*)*];

            /// `group.flagName`, the stable name.
            pub const fn name(self) -> &'static str {
                match self { $($(Self::$variant => concat!(stringify!($group), ".", $name),)*)* }
            }
        }
    };
}

flags! {
    sessions {
        MultipleThreadsPerSession = "supportsMultipleProviderThreadsPerSession",
        ModelSwitchInSession = "supportsModelSwitchInSession",
        ProviderSwitchingViaHandoff = "supportsProviderSwitchingViaHandoff",
        RuntimeModeSwitchInSession = "supportsRuntimeModeSwitchInSession",
        PendingRequestsSurviveRestart = "pendingRequestsSurviveRestart",
    }
    threads {
        CreateEmptyThread = "canCreateEmptyThread",
        ReadThreadSnapshot = "canReadThreadSnapshot",
        RollbackThread = "canRollbackThread",
        ForkThread = "canForkThread",
        ForkFromTurn = "canForkFromTurn",
        ForkFromSubagentThread = "canForkFromSubagentThread",
        ExposesNativeThreadId = "exposesNativeThreadId",
    }
    turns {
        ExposesNativeTurnId = "exposesNativeTurnId",
        EmitsTurnStarted = "emitsTurnStarted",
        EmitsTurnCompleted = "emitsTurnCompleted",
        Interrupt = "supportsInterrupt",
        ActiveSteering = "supportsActiveSteering",
        SteeringByInterruptRestart = "supportsSteeringByInterruptRestart",
        QueuedMessages = "supportsQueuedMessages",
        TerminalStatusQuality = "terminalStatusQuality",
    }
    streaming {
        StreamsAssistantText = "streamsAssistantText",
        StreamsReasoning = "streamsReasoning",
        StreamsToolOutput = "streamsToolOutput",
        StreamsPlanText = "streamsPlanText",
        EmitsMessageCompleted = "emitsMessageCompleted",
    }
    tools {
        ExposesToolItemIds = "exposesToolItemIds",
        EmitsToolStarted = "emitsToolStarted",
        EmitsToolCompleted = "emitsToolCompleted",
        EmitsToolOutput = "emitsToolOutput",
        McpTools = "supportsMcpTools",
        DynamicToolCallbacks = "supportsDynamicToolCallbacks",
    }
    approvals {
        CommandApproval = "supportsCommandApproval",
        FileReadApproval = "supportsFileReadApproval",
        FileChangeApproval = "supportsFileChangeApproval",
        ApplyPatchApproval = "supportsApplyPatchApproval",
        ApprovalsHaveNativeRequestIds = "approvalsHaveNativeRequestIds",
        ApprovalCallbacksAreLiveOnly = "approvalCallbacksAreLiveOnly",
        ApprovalsFromSubagents = "approvalsCanOriginateFromSubagents",
    }
    planning {
        EmitsPlanUpdated = "emitsPlanUpdated",
        EmitsTodoList = "emitsTodoList",
        EmitsProposedPlan = "emitsProposedPlan",
        StructuredQuestions = "supportsStructuredQuestions",
        PlanDeltasHaveItemIds = "planDeltasHaveItemIds",
    }
    subagents {
        Subagents = "supportsSubagents",
        ExposesSubagentThreadIds = "exposesSubagentThreadIds",
        EmitsSubagentLifecycle = "emitsSubagentLifecycle",
        WaitForSubagents = "canWaitForSubagents",
        CloseSubagents = "canCloseSubagents",
        ForkSubagentThread = "canForkSubagentThread",
    }
    context {
        AcceptsSystemContext = "acceptsSystemContext",
        AcceptsDeveloperContext = "acceptsDeveloperContext",
        AcceptsSyntheticUserContext = "acceptsSyntheticUserContext",
        GenerateSummaries = "canGenerateSummaries",
        ConsumeHandoffSummaries = "canConsumeHandoffSummaries",
        DeltaHandoff = "supportsDeltaHandoff",
        FullThreadHandoff = "supportsFullThreadHandoff",
        MaxRecommendedHandoffChars = "maxRecommendedHandoffChars",
    }
    checkpointing {
        AppCanCheckpointFilesystem = "appCanCheckpointFilesystem",
        NestedCheckpointScopes = "supportsNestedCheckpointScopes",
        ProviderCanRollbackConversation = "providerCanRollbackConversation",
        ProviderRollbackReturnsSnapshot = "providerRollbackReturnsSnapshot",
        ProviderCanReadConversationSnapshot = "providerCanReadConversationSnapshot",
    }
    identity {
        NativeThreadIds = "nativeThreadIds",
        NativeTurnIds = "nativeTurnIds",
        NativeItemIds = "nativeItemIds",
        NativeRequestIds = "nativeRequestIds",
    }
    operations {
        CompactOnRequest = "canCompactOnRequest",
        ImageInput = "acceptsImages",
        FileInput = "acceptsFiles",
        ListConversations = "canListConversations",
        SignIn = "canSignIn",
    }
}

impl fmt::Display for CapabilityFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for CapabilityFlag {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for CapabilityFlag {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let name = String::deserialize(d)?;
        Self::ALL
            .iter()
            .copied()
            .find(|flag| flag.name() == name)
            .ok_or_else(|| de::Error::custom(format!("unknown capability flag `{name}`")))
    }
}

/// Whether an agent can. `Unknown` is never treated as yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum CapabilityValue {
    Yes,
    No,
    #[default]
    Unknown,
}

/// One capability, with what makes us believe it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Whether the agent can.
    pub value: CapabilityValue,
    /// More than yes or no, where the seed's flag is not a boolean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
    /// Where we know it from.
    pub source: Source,
    /// The agent's version it holds for.
    pub version: String,
    /// When it was observed, `YYYY-MM-DD`.
    pub observed_at: String,
}

/// The value of a flag that is not a boolean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// Of ids and terminal statuses: strong (use as is), weak (with ordinal or fingerprint), none (`value` is no).
    Strength(Strength),
    /// Most characters recommended for a handoff.
    Chars(u32),
    /// What pending requests survive: two facts (DESIGN section 7).
    Survives {
        /// The loss of our connection to the agent.
        client_loss: bool,
        /// The end of the agent's process.
        runtime_loss: bool,
    },
}

/// How far native ids or statuses can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the seed's")]
pub enum Strength {
    Strong,
    Weak,
    None,
}

/// Where a fact comes from; a later one in this list overrides an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The family's data file.
    Profile,
    /// A cheap try.
    Probe,
    /// The agent's own handshake.
    Handshake,
    /// The person's configuration.
    User,
}

/// All that is known of an agent's capabilities. A flag without a fact is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Capabilities {
    /// Grows each time they are sent in a session.
    pub version: u32,
    /// What is known.
    pub facts: BTreeMap<CapabilityFlag, Fact>,
}

impl Capabilities {
    /// Whether the agent can.
    pub fn value(&self, flag: CapabilityFlag) -> CapabilityValue {
        self.facts
            .get(&flag)
            .map_or(CapabilityValue::Unknown, |fact| fact.value)
    }

    /// Adds a fact unless one from a stronger source is there.
    pub fn learn(&mut self, flag: CapabilityFlag, fact: Fact) {
        if self
            .facts
            .get(&flag)
            .is_none_or(|known| known.source <= fact.source)
        {
            self.facts.insert(flag, fact);
        }
    }

    /// The values alone, for state and policy.
    pub fn set(&self) -> CapabilitySet {
        let mut set = CapabilitySet::default();
        for (&flag, fact) in &self.facts {
            set.insert(flag, fact.value);
        }
        set
    }
}

/// The values of all flags, one character each (`y`, `n`, `u`), up to the last that is known and at least those of the seed: a
/// flag that was added later changes nothing of what is written of an agent of which it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapabilitySet([CapabilityValue; CapabilityFlag::ALL.len()]);

/// How many of the flags are the seed's.
const SEED_FLAGS: usize = CapabilityFlag::CompactOnRequest as usize;

impl CapabilitySet {
    /// Whether the agent can.
    pub fn value(&self, flag: CapabilityFlag) -> CapabilityValue {
        self.0[flag as usize]
    }

    /// Whether the agent certainly can.
    pub fn has(&self, flag: CapabilityFlag) -> bool {
        self.value(flag) == CapabilityValue::Yes
    }

    /// Sets a value.
    pub fn insert(&mut self, flag: CapabilityFlag, value: CapabilityValue) {
        self.0[flag as usize] = value;
    }
}

impl Default for CapabilitySet {
    fn default() -> Self {
        Self([CapabilityValue::Unknown; CapabilityFlag::ALL.len()])
    }
}

impl Serialize for CapabilitySet {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let known = self
            .0
            .iter()
            .rposition(|value| *value != CapabilityValue::Unknown)
            .map_or(0, |last| last + 1);
        let text: String = self.0[..known.max(SEED_FLAGS)]
            .iter()
            .map(|value| match value {
                CapabilityValue::Yes => 'y',
                CapabilityValue::No => 'n',
                CapabilityValue::Unknown => 'u',
            })
            .collect();
        s.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for CapabilitySet {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let mut set = Self::default();
        // A longer text comes from a newer peer that knows more flags, a shorter one from an older peer.
        for (slot, letter) in set.0.iter_mut().zip(text.chars()) {
            *slot = match letter {
                'y' => CapabilityValue::Yes,
                'n' => CapabilityValue::No,
                _ => CapabilityValue::Unknown,
            };
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_sixty_six_flags_in_eleven_groups_come_first_and_all_names_are_distinct() {
        let names: std::collections::BTreeSet<_> =
            CapabilityFlag::ALL.iter().map(|f| f.name()).collect();
        let groups: std::collections::BTreeSet<_> = CapabilityFlag::ALL
            .iter()
            .filter_map(|f| f.name().split('.').next())
            .collect();
        let ours = CapabilityFlag::ALL
            .iter()
            .position(|flag| flag.name().starts_with("operations."));
        assert_eq!((ours, SEED_FLAGS, groups.len()), (Some(66), 66, 12));
        assert_eq!(names.len(), CapabilityFlag::ALL.len());
    }

    #[test]
    fn a_fact_from_a_stronger_source_is_not_overridden_by_a_weaker_one() {
        let fact = |value, source| Fact {
            value,
            detail: None,
            source,
            version: "1".into(),
            observed_at: "2026-11-30".into(),
        };
        let mut known = Capabilities::default();
        known.learn(
            CapabilityFlag::Interrupt,
            fact(CapabilityValue::No, Source::Handshake),
        );
        known.learn(
            CapabilityFlag::Interrupt,
            fact(CapabilityValue::Yes, Source::Profile),
        );
        assert_eq!(known.value(CapabilityFlag::Interrupt), CapabilityValue::No);
        assert_eq!(
            known.value(CapabilityFlag::ForkThread),
            CapabilityValue::Unknown
        );
    }

    #[test]
    fn a_flag_of_ours_is_written_only_where_it_is_known() {
        let mut set = CapabilitySet::default();
        let written = |set: &CapabilitySet| serde_json::to_string(set).unwrap();
        assert_eq!(written(&set), format!("\"{}\"", "u".repeat(66)));
        set.insert(CapabilityFlag::ImageInput, CapabilityValue::No);
        assert_eq!(written(&set), format!("\"{}n\"", "u".repeat(67)));
        assert_eq!(
            serde_json::from_str::<CapabilitySet>(&written(&set)).unwrap(),
            set
        );
    }

    #[test]
    fn a_set_of_another_length_is_read_as_far_as_both_know() {
        let set: CapabilitySet = serde_json::from_str("\"yn\"").unwrap();
        assert!(set.has(CapabilityFlag::MultipleThreadsPerSession));
        assert_eq!(
            set.value(CapabilityFlag::NativeRequestIds),
            CapabilityValue::Unknown
        );
    }
}

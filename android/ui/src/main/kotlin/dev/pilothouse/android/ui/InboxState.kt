package dev.pilothouse.android.ui

/**
 * What the inbox screen shows and what a person can do on it. Plain data: a presenter makes it from the core's rows, and
 * notifications are drawn from the same [RequestItem]s, so that the shade and the screen cannot tell different stories.
 */
data class InboxState(
    /** In the order of the core: what has blocked longest comes first. */
    val requests: List<RequestItem>,
    /** Milliseconds since the epoch; waiting times are counted up to it. */
    val nowMs: Long,
    /** The [RequestItem.id] of the request that is open for review. */
    val reviewing: String? = null,
    /** Why nothing can be shown, and what to do. */
    val problem: String? = null,
    /** Agents whose sign-in was refused, one notice each. */
    val signIns: List<SignInNotice> = emptyList(),
)

/** One request of an agent, complete: it can be judged without looking anywhere else. */
data class RequestItem(
    val key: RequestKey,
    /** Names the exact text that is shown. An answer carries it, so that no other text can be answered by it. */
    val contentHash: String,
    val kind: RequestKind,
    val title: String,
    val host: String,
    val workspace: String,
    val thread: String,
    val subject: Subject,
    val options: List<AnswerOption>,
    /** The host's word that this may be approved without opening it. The phone only ever lowers it, see [quickApproval]. */
    val oneTapAllowed: Boolean,
    /** The host advises against it: never one tap. */
    val defaultToNo: Boolean,
    /** In words what to know before approving. */
    val hints: List<String> = emptyList(),
    val openedAtMs: Long,
    val expiresAtMs: Long?,
    val progress: Progress,
    /** In words what became of it, empty while it waits. */
    val status: String = "",
    /** Why the last answer given here was not taken. */
    val problem: String? = null,
) {
    val id: String get() = key.text
}

/** Which request on which host; [text] is its form as one word (notification tags, list keys). */
data class RequestKey(val host: String, val thread: String, val request: String) {
    val text: String get() = "$host/$thread/$request"
}

enum class RequestKind { Command, FileRead, FileChange, Permission, Tool, Plan, Question, SignIn, Unknown }

enum class Progress {
    /** Nobody has answered. */
    Waiting,

    /** An answer is on its way; the agent has not confirmed it. */
    Sending,

    /** Answered, withdrawn, expired or lost: nothing is left to do. */
    Settled,
}

/** What is asked for, verbatim. */
data class Subject(
    val command: String? = null,
    val cwd: String? = null,
    val changes: List<Change> = emptyList(),
    /** Paths or hosts that it would reach. */
    val reach: List<String> = emptyList(),
    /** A plan, or the text of something that this app does not know. */
    val text: String? = null,
    /** What the agent says that it is for. Its words, not facts. */
    val reason: String? = null,
    /** The agent sent only a part of what it asks for. */
    val incomplete: Boolean = false,
) {
    /** Everything that an approval would allow, as one text with nothing in it hidden. Made once, by whoever makes this. */
    val revealed: Revealed = reveal((listOfNotNull(command) + reach + changes.map { "${it.path}\n${it.diff}".trimEnd() } + listOfNotNull(text)).joinToString("\n"))

    val revealedCwd: Revealed? = cwd?.let(::reveal)
}

/** What becomes of one file. */
data class Change(val path: String, val diff: String)

/** An answer that the agent offers, with its own label and exact reach. */
data class AnswerOption(val id: String, val label: String, val effect: Effect, val reach: String = "")

enum class Effect {
    AllowOnce, AllowSession, AllowRule, Deny, DenyAll, DenyAndStop, DenyRule, Other;

    val allows: Boolean get() = this == AllowOnce || this == AllowSession || this == AllowRule

    /** Refuses, and leaves no rule behind. */
    val denies: Boolean get() = this == Deny || this == DenyAll || this == DenyAndStop
}

/** The option that one tap on Approve stands for, or null where the request has to be opened and read first. */
fun RequestItem.quickApproval(): AnswerOption? {
    val judgedByReading = kind == RequestKind.Question || kind == RequestKind.Plan || kind == RequestKind.SignIn || kind == RequestKind.Unknown
    if (judgedByReading || !oneTapAllowed || defaultToNo || subject.incomplete) return null
    val shown = subject.revealed
    if (shown.text.isBlank() || !shown.plain || subject.revealedCwd?.plain == false) return null
    return options.firstOrNull { it.effect == Effect.AllowOnce }
}

/**
 * The option that Deny stands for: the one that refuses the least besides. None where the agent has several of that kind,
 * of which a person has to choose.
 */
fun RequestItem.denial(): AnswerOption? = listOf(Effect.Deny, Effect.DenyAll, Effect.DenyAndStop)
    .map { effect -> options.filter { it.effect == effect } }.firstOrNull { it.isNotEmpty() }?.singleOrNull()

sealed interface InboxEvent {
    data class Review(val id: String) : InboxEvent
    data object CloseReview : InboxEvent
    data object PairHost : InboxEvent

    /** The agent is to begin to sign in, from here. */
    data class SignIn(val key: SignInKey) : InboxEvent

    /** A page that no app here opens is to be opened elsewhere. */
    data class CopyLink(val url: String) : InboxEvent

    /** A person has signed the agent in on its host: one of its threads is to try. */
    data class TryAgain(val key: SignInKey) : InboxEvent

    /** [contentHash] is that of the text that was on the screen when the button was touched. */
    data class Answer(val key: RequestKey, val contentHash: String, val option: AnswerOption) : InboxEvent
}

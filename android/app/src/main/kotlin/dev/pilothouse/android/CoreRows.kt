package dev.pilothouse.android

import android.content.Context
import dev.pilothouse.android.ui.AnswerOption
import dev.pilothouse.android.ui.BegunSignIn
import dev.pilothouse.android.ui.Change
import dev.pilothouse.android.ui.Effect
import dev.pilothouse.android.ui.Progress
import dev.pilothouse.android.ui.RequestItem
import dev.pilothouse.android.ui.RequestKey
import dev.pilothouse.android.ui.SignInKey
import dev.pilothouse.android.ui.SignInNotice
import dev.pilothouse.android.ui.SignInPage
import dev.pilothouse.android.ui.Subject
import dev.pilothouse.android.ui.reveal
import dev.pilothouse.core.ChangeRow
import dev.pilothouse.core.HostRow
import dev.pilothouse.core.InboxRow
import dev.pilothouse.core.InboxState
import dev.pilothouse.core.OptionEffect
import dev.pilothouse.core.Question
import dev.pilothouse.core.RequestKind
import dev.pilothouse.core.RequestStatus
import dev.pilothouse.core.RiskHint
import dev.pilothouse.core.RowText
import dev.pilothouse.core.SignedOutRow
import dev.pilothouse.core.SubjectRow
import dev.pilothouse.android.ui.RequestKind as ShownKind
import dev.pilothouse.core.Answer as CoreAnswer

// The core's rows as what the screen and the notifications show. Nothing is decided here, only said in other types.

internal val InboxRow.key: RequestKey get() = RequestKey(host, thread, request)

internal fun InboxRow.toItem(context: Context): RequestItem {
    val asked = kind == RequestKind.USER_INPUT || kind == RequestKind.ELICITATION
    val notes = hints.map { context.getString(it.words) } + listOfNotNull(context.getString(R.string.answer_elsewhere).takeIf { asked })
    return RequestItem(
        key = key,
        contentHash = contentHash,
        // What this version cannot read in full it cannot judge either.
        kind = if (subject.unreadable) ShownKind.Unknown else kind.shown,
        title = reveal(title).text,
        host = hostName,
        workspace = workspace,
        thread = reveal(threadTitle).text,
        subject = if (subject.unreadable) Subject(text = rawSubject, incomplete = true) else subject.shown,
        // A text that is not proven to be what an answer is for may only be refused.
        options = subject.options.map { AnswerOption(it.id, reveal(it.label).text, it.effect.shown, reveal(it.reach).text) }
            .filter { verified || it.effect.denies },
        oneTapAllowed = oneTapAllowed && verified,
        defaultToNo = defaultToNo,
        hints = notes,
        openedAtMs = openedAtMs.toLong(),
        expiresAtMs = expiresAtMs?.toLong(),
        progress = if (state is InboxState.Pending) Progress.Waiting else Progress.Sending,
        status = when (val now = state) {
            is InboxState.Pending -> ""
            is InboxState.Sending -> context.getString(if (now.onHost) R.string.on_host else if (online) R.string.sending else R.string.sent_later)
        },
        problem = refused,
    )
}

/** [asked] is the request that says how it is signed in, if there is one and the inbox has it already. */
internal fun SignedOutRow.toNotice(host: HostRow, asked: InboxRow?) = SignInNotice(
    SignInKey(host.host, agent), reveal(host.name).text, threads.toLong(), thread, signIn,
    canSignIn = canSignIn,
    begun = request?.let {
        // A page that is not proven to be the one that the host has is not opened.
        BegunSignIn(asked?.key, asked?.takeIf { row -> row.verified }?.subject?.signIn?.let { steps -> SignInPage(steps.url, steps.code) })
    },
    problem = problem,
)

private val SubjectRow.shown: Subject
    get() = Subject(
        command = command,
        cwd = cwd,
        changes = changes.map { Change(it.heading, it.diff.whole ?: "${it.diff.text}\n…\n${it.diff.tail.orEmpty()}") },
        reach = reach,
        text = (listOfNotNull(text) + questions.map { it.words }).joinToString("\n").ifEmpty { null },
        reason = reason,
        incomplete = incomplete || changes.any { it.diff.whole == null },
    )

private val ChangeRow.heading: String
    get() = listOfNotNull("${action.name.lowercase()} $path", movedTo?.let { "→ $it" }).joinToString(" ")

/** The text if all of it is held. */
private val RowText.whole: String?
    get() = text.takeIf { from == 0uL && dropped == 0uL && tail == null && text.toByteArray().size.toULong() == bytes }

private val Question.words: String
    get() = (listOf(header, text).filter { it.isNotBlank() } + choices.map { "- ${it.label}" }).joinToString("\n")

/** What became of a request that no longer waits, where this phone gave no answer. */
internal fun RequestStatus.words(context: Context, options: List<AnswerOption>): String = when (this) {
    is RequestStatus.Answered -> context.getString(R.string.answered, answer.words(context, options))
    RequestStatus.Withdrawn -> context.getString(R.string.withdrawn)
    RequestStatus.Expired -> context.getString(R.string.expired_unanswered)
    is RequestStatus.Lost -> context.getString(R.string.lost_unanswered)
    RequestStatus.Pending, is RequestStatus.Answering -> ""
}

/** An answer as its option calls itself. */
internal fun CoreAnswer?.words(context: Context, options: List<AnswerOption>): String = when (this) {
    is CoreAnswer.Choose -> options.firstOrNull { it.id == option }?.label ?: option
    is CoreAnswer.Reply -> context.getString(R.string.answered_in_words)
    null -> context.getString(R.string.answered_at_the_agent)
}

private val RequestKind.shown: ShownKind
    get() = when (this) {
        RequestKind.COMMAND -> ShownKind.Command
        RequestKind.FILE_READ -> ShownKind.FileRead
        RequestKind.FILE_CHANGE, RequestKind.APPLY_PATCH -> ShownKind.FileChange
        RequestKind.PERMISSION -> ShownKind.Permission
        RequestKind.TOOL -> ShownKind.Tool
        RequestKind.PLAN -> ShownKind.Plan
        RequestKind.USER_INPUT, RequestKind.ELICITATION -> ShownKind.Question
        RequestKind.AUTH -> ShownKind.SignIn
        RequestKind.UNKNOWN -> ShownKind.Unknown
    }

private val OptionEffect.shown: Effect
    get() = when (this) {
        OptionEffect.ALLOW_ONCE -> Effect.AllowOnce
        OptionEffect.ALLOW_SESSION -> Effect.AllowSession
        OptionEffect.ALLOW_RULE -> Effect.AllowRule
        OptionEffect.DENY -> Effect.Deny
        OptionEffect.DENY_ALL -> Effect.DenyAll
        OptionEffect.DENY_AND_STOP -> Effect.DenyAndStop
        OptionEffect.DENY_RULE -> Effect.DenyRule
        OptionEffect.OTHER -> Effect.Other
    }

private val RiskHint.words: Int
    get() = when (this) {
        RiskHint.TOO_LONG_FOR_ONE_TAP -> R.string.risk_too_long
        RiskHint.HIDDEN_CHARACTERS -> R.string.risk_hidden
        RiskHint.PADDING -> R.string.risk_padding
        RiskHint.INCOMPLETE -> R.string.risk_incomplete
        RiskHint.NEEDS_ANSWER -> R.string.risk_needs_answer
        RiskHint.UNKNOWN_KIND, RiskHint.UNKNOWN_FIELDS -> R.string.risk_unknown
        RiskHint.LEAVES_SANDBOX -> R.string.risk_leaves_sandbox
        RiskHint.DELETES_FILES -> R.string.risk_deletes
        RiskHint.NO_EXACT_TEXT -> R.string.risk_no_exact_text
    }

package dev.pilothouse.android

import dev.pilothouse.android.ui.AnswerOption
import dev.pilothouse.android.ui.Effect
import dev.pilothouse.android.ui.Progress
import dev.pilothouse.android.ui.RequestItem
import dev.pilothouse.android.ui.RequestKey
import dev.pilothouse.android.ui.RequestKind
import dev.pilothouse.android.ui.Subject

val approve = AnswerOption("yes", "Yes, proceed", Effect.AllowOnce)
val deny = AnswerOption("no", "No", Effect.Deny)

/** A request of an agent on the host wren. */
fun request(id: String, command: String = "cargo publish --dry-run") = RequestItem(
    key = RequestKey("h1", "t1", id),
    contentHash = "hash-$id",
    kind = RequestKind.Command,
    title = "Run a command ($id)",
    host = "wren",
    workspace = "pilothouse",
    thread = "Publish the crate",
    subject = Subject(command, cwd = "/home/mia/pilothouse"),
    options = listOf(approve, AnswerOption("session", "Yes, and do not ask again", Effect.AllowSession), deny),
    oneTapAllowed = true,
    defaultToNo = false,
    openedAtMs = 1_800_000_000_000,
    expiresAtMs = null,
    progress = Progress.Waiting,
)

fun RequestItem.answer(option: AnswerOption) = Answer(key, contentHash, option.id, option.effect)

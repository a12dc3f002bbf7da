package dev.pilothouse.android.ui

/** Requests as the tests of the screen need them. */
fun request(
    id: String,
    command: String = "cargo publish --dry-run",
    oneTapAllowed: Boolean = true,
    progress: Progress = Progress.Waiting,
    status: String = "",
) = RequestItem(
    key = RequestKey("h1", "t1", id),
    contentHash = "hash-$id",
    kind = RequestKind.Command,
    title = "Run a command",
    host = "wren",
    workspace = "pilothouse",
    thread = "Publish the crate",
    subject = Subject(command, cwd = "/home/mia/pilothouse", reason = "to check the package"),
    options = listOf(
        AnswerOption("yes", "Yes, proceed", Effect.AllowOnce),
        AnswerOption("session", "Yes, and do not ask again", Effect.AllowSession, "this command, until the session ends"),
        AnswerOption("no", "No", Effect.Deny),
    ),
    oneTapAllowed = oneTapAllowed,
    defaultToNo = false,
    openedAtMs = NOW - 150_000,
    expiresAtMs = null,
    progress = progress,
    status = status,
)

const val NOW = 1_800_000_000_000

fun answer(item: RequestItem, option: String) =
    InboxEvent.Answer(item.key, item.contentHash, item.options.first { it.id == option })

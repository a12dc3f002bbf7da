package dev.pilothouse

import dev.pilothouse.core.Answer
import dev.pilothouse.core.CommandBody
import dev.pilothouse.core.DispatchMode
import dev.pilothouse.core.HostId
import dev.pilothouse.core.InboxRow
import dev.pilothouse.core.Mode
import dev.pilothouse.core.NewCommand
import dev.pilothouse.core.QuestionReply
import dev.pilothouse.core.RequestOption
import dev.pilothouse.core.Selection
import dev.pilothouse.core.ThreadHeader
import dev.pilothouse.core.ThreadId
import dev.pilothouse.core.WorkspaceId

// The everyday commands, each saved like any other by Pilothouse.submit; what is not here is submitted as it is.

/** Makes a thread; nothing runs. Its id is the ticket's, at once. */
suspend fun Pilothouse.createThread(
    host: HostId,
    workspace: WorkspaceId,
    agent: String,
    title: String,
    mode: Mode = Mode.ASK,
    model: String? = null,
    effort: String? = null,
): Ticket = submit(NewCommand(host, null, CommandBody.ThreadCreate(title, workspace, Selection(agent, model, effort, mode))))

/** Sends a message; by default as a run of its own, behind what runs. */
suspend fun Pilothouse.send(
    host: HostId,
    thread: ThreadId,
    text: String,
    dispatch: DispatchMode = DispatchMode.StartImmediately,
): Ticket = submit(NewCommand(host, thread, CommandBody.MessageSend(text, emptyList(), dispatch, emptyList())))

/** Answers a request with one of its own options. The answer names the text that [row] holds; if it changed, it is refused. */
suspend fun Pilothouse.answer(row: InboxRow, option: RequestOption, note: String? = null): Ticket =
    answer(row, Answer.Choose(option.id, note))

/** Answers the questions of a request, one reply each, in order. */
suspend fun Pilothouse.reply(row: InboxRow, replies: List<QuestionReply>): Ticket = answer(row, Answer.Reply(replies))

private suspend fun Pilothouse.answer(row: InboxRow, answer: Answer): Ticket =
    submit(NewCommand(row.host, row.thread, CommandBody.RequestAnswer(row.request, row.contentHash, answer)))

/**
 * Asks the agent to stop what [header] shows as running; what is queued waits afterwards.
 *
 * @throws PilothouseException.Invalid if it shows nothing that could be stopped
 */
suspend fun Pilothouse.interrupt(header: ThreadHeader): Ticket {
    val run = header.active?.run
    val attempt = header.active?.attempt
    if (run == null || attempt == null) throw PilothouseException.Invalid("nothing runs in \"${header.title}\"", "wait until something runs")
    return submit(NewCommand(header.host, header.thread, CommandBody.RunInterrupt(run, attempt, holdQueue = true)))
}

package dev.pilothouse

import dev.pilothouse.core.Answer
import dev.pilothouse.core.Attachment
import dev.pilothouse.core.CommandBody
import dev.pilothouse.core.DispatchMode
import dev.pilothouse.core.ForkWorkspace
import dev.pilothouse.core.HostId
import dev.pilothouse.core.InboxRow
import dev.pilothouse.core.Mode
import dev.pilothouse.core.NewCommand
import dev.pilothouse.core.QuestionReply
import dev.pilothouse.core.RequestOption
import dev.pilothouse.core.RunId
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

/**
 * Makes a thread that begins as [source] stood after [run], or stands now; nothing runs before its first message. It works on
 * the same files, as they are then. Its id is the ticket's, at once.
 */
suspend fun Pilothouse.fork(host: HostId, source: ThreadId, title: String, run: RunId? = null): Ticket =
    submit(NewCommand(host, null, CommandBody.ThreadFork(title, source, run, ForkWorkspace.SAME_TREE)))

/**
 * Takes back [before] and all runs after it, of those that [header] shows: the agent forgets them, files stay as they are.
 *
 * @throws PilothouseException.Invalid if it shows no run that has ended
 */
suspend fun Pilothouse.rollback(header: ThreadHeader, before: RunId): Ticket {
    val last = header.lastRun
        ?: throw PilothouseException.Invalid("no run has ended in \"${header.title}\"", "there is nothing to take back")
    return submit(NewCommand(header.host, header.thread, CommandBody.ThreadRollback(before, last)))
}

/** Chooses what [thread] runs on from its next turn on, all of it: what is not given is the agent's or the model's default. */
suspend fun Pilothouse.select(
    host: HostId,
    thread: ThreadId,
    mode: Mode,
    model: String? = null,
    effort: String? = null,
): Ticket = submit(NewCommand(host, thread, CommandBody.ThreadSelect(model, effort, mode)))

/** Asks the agent to shorten its context; it does so in a run of its own. */
suspend fun Pilothouse.compact(host: HostId, thread: ThreadId): Ticket =
    submit(NewCommand(host, thread, CommandBody.ThreadCompact))

/**
 * Has the agent of a thread begin to sign in, where the thread is held because its sign-in was refused. What to do comes as a
 * request of kind `AUTH`, on every device.
 */
suspend fun Pilothouse.signIn(host: HostId, thread: ThreadId): Ticket =
    submit(NewCommand(host, thread, CommandBody.ThreadSignIn))

/**
 * Sends a message; by default as a run of its own, behind what runs.
 *
 * @param attachments files that [Pilothouse.upload] has brought to the host
 */
suspend fun Pilothouse.send(
    host: HostId,
    thread: ThreadId,
    text: String,
    dispatch: DispatchMode = DispatchMode.StartImmediately,
    attachments: List<Attachment> = emptyList(),
): Ticket = submit(NewCommand(host, thread, CommandBody.MessageSend(text, attachments, dispatch, emptyList())))

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

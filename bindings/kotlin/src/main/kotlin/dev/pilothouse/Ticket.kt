package dev.pilothouse

import dev.pilothouse.core.CommandId
import dev.pilothouse.core.CommandOutcome
import dev.pilothouse.core.Notice
import dev.pilothouse.core.ThreadId
import kotlinx.coroutines.Job
import kotlinx.coroutines.async
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.selects.select
import dev.pilothouse.core.Ticket as CoreTicket

/**
 * A command that is saved on this device and will reach its host. Nobody closes a ticket, and dropping it changes nothing;
 * in a later life of the program `Query.Outcome` tells what came of [command].
 *
 * @property command the command's id
 * @property thread its thread; for `ThreadCreate` the one it makes, which can be named in further commands at once
 */
class Ticket internal constructor(
    val command: CommandId,
    val thread: ThreadId,
    private val native: CoreTicket,
    private val closed: Job,
) {
    /**
     * Waits for the host's word, for as long as the host is away. May be called again, and by several at once.
     *
     * @throws PilothouseException.Closed when the [Pilothouse] is closed before
     */
    suspend fun await(): CommandOutcome = typed({ !closed.isActive }) {
        native.pollOutcome() ?: coroutineScope {
            val outcome = async { native.outcome() }
            val first = select {
                outcome.onAwait { it }
                closed.onJoin { null }
            }
            outcome.cancel()
            first ?: throw PilothouseException.Closed()
        }
    }

    /**
     * Waits until the host has taken it, and gives what its person should know.
     *
     * @throws PilothouseException.NotTaken if the host refused it, or if it will not be sent
     * @throws PilothouseException.Closed when the [Pilothouse] is closed before
     */
    suspend fun accepted(): Notice? = when (val outcome = await()) {
        is CommandOutcome.Accepted -> outcome.notice
        is CommandOutcome.Refused -> throw PilothouseException.NotTaken(outcome, outcome.reason, outcome.userAction)
        is CommandOutcome.Parked -> throw PilothouseException.NotTaken(outcome, outcome.reason, "send it after all, or discard it")
        CommandOutcome.Expired -> throw PilothouseException.NotTaken(outcome, "it waited too long and was never sent", "submit it again")
    }

    /** The host's word if it is there, without waiting. */
    fun outcome(): CommandOutcome? = typed({ !closed.isActive }) { native.pollOutcome() }
}

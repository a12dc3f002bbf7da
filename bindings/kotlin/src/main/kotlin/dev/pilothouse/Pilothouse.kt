package dev.pilothouse

import com.sun.jna.Native
import dev.pilothouse.core.Batch
import dev.pilothouse.core.Core
import dev.pilothouse.core.CoreConfig
import dev.pilothouse.core.InboxOp
import dev.pilothouse.core.InboxRow
import dev.pilothouse.core.NewCommand
import dev.pilothouse.core.Observation
import dev.pilothouse.core.Platform
import dev.pilothouse.core.Scope
import dev.pilothouse.core.Sink
import dev.pilothouse.core.Ticket
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.emitAll
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.withContext
import java.io.Closeable

/**
 * The core of one device, for Kotlin. Whoever opens it closes it; flows that are collected then end with an error. All
 * functions may be called from any thread; none waits for the network unless it says so.
 */
class Pilothouse private constructor(private val core: Core) : Closeable {
    /** What waits for a person on any paired host: the whole list, the stored one first, then after every change. */
    fun inbox(): Flow<List<InboxRow>> = list(Scope.Inbox) { batch ->
        (batch as? Batch.Inbox)?.let { Diff(it.reset, it.ops.map(InboxOp::asListOp)) }
    }

    /** Writes a command to the outbox; returns when it is on disk. */
    suspend fun submit(command: NewCommand): Ticket = withContext(Dispatchers.IO) { core.submit(command).also { it.durable() } }

    override fun close() {
        core.shutdown()
        core.close()
    }

    private fun <R> list(scope: Scope, diff: (Batch) -> Diff<R>?): Flow<List<R>> = flow {
        val list = DiffedList<R>()
        val lists = observed(
            open = { deliver -> subscription(core.observe(scope, Deliver(deliver))) },
            apply = { batch: Batch -> diff(batch)?.let { list.apply(it.reset, it.ops) } },
            state = { list.rows },
        )
        emitAll(lists)
    }

    private fun subscription(observation: Observation) = AutoCloseable {
        observation.stop()
        observation.close()
    }

    companion object {
        /** Opens the core of [config]'s data directory. Loading the library takes up to a third of a second, so this suspends. */
        suspend fun open(config: CoreConfig, platform: Platform): Pilothouse = withContext(Dispatchers.IO) { Pilothouse(Core.open(config, platform)) }
    }
}

private class Diff<R>(val reset: Boolean, val ops: List<ListOp<R>>)

/** What the core calls. An Error that left it would look like success to Rust, and an Exception would be a panic. */
private class Deliver(private val deliver: (Batch) -> Unit) : Sink {
    override fun onBatch(batch: Batch) {
        try {
            // Keeps this thread of the core attached to the JVM: attaching anew costs five times the call.
            Native.detach(false)
            deliver(batch)
        } catch (_: Throwable) {
            // Enqueueing fails only where nobody collects any more.
        }
    }
}

private fun InboxOp.asListOp(): ListOp<InboxRow> = when (this) {
    is InboxOp.Insert -> ListOp.Insert(index.toInt(), row)
    is InboxOp.Update -> ListOp.Update(index.toInt(), row)
    is InboxOp.Remove -> ListOp.Remove(index.toInt())
}

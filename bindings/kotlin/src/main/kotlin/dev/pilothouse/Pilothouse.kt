package dev.pilothouse

import com.sun.jna.Native
import dev.pilothouse.core.Attachment
import dev.pilothouse.core.Batch
import dev.pilothouse.core.CommandId
import dev.pilothouse.core.Core
import dev.pilothouse.core.CoreConfig
import dev.pilothouse.core.DeliveryRow
import dev.pilothouse.core.DirectAgent
import dev.pilothouse.core.DrivenAgent
import dev.pilothouse.core.Environment
import dev.pilothouse.core.HostId
import dev.pilothouse.core.HostRow
import dev.pilothouse.core.InboxRow
import dev.pilothouse.core.NewCommand
import dev.pilothouse.core.Page
import dev.pilothouse.core.Platform
import dev.pilothouse.core.Query
import dev.pilothouse.core.Scope
import dev.pilothouse.core.SecretStore
import dev.pilothouse.core.Sink
import dev.pilothouse.core.ThreadCounts
import dev.pilothouse.core.ThreadFilter
import dev.pilothouse.core.ThreadHeader
import dev.pilothouse.core.ThreadId
import dev.pilothouse.core.ThreadPlace
import dev.pilothouse.core.ThreadRow
import dev.pilothouse.core.TimelineRow
import dev.pilothouse.core.uniffiEnsureInitialized
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Job
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.withContext
import java.io.Closeable
import java.nio.file.Path

/**
 * The core of one device, for Kotlin: what is on this device's hosts, live and offline, and a way to steer it.
 *
 * Whoever opens it closes it. Everything may be called from any thread. Functions that suspend do their work elsewhere and
 * throw a [PilothouseException]; those that wait for the network say so.
 *
 * The flows are cold: each collector has a subscription of its own, which ends when the collector goes. The first list is
 * what this device has stored, at once and offline; after that there is one for every change, at most 60 a second, each
 * immutable. A slow collector skips lists. When the [Pilothouse] is closed its flows complete; flows that are collected
 * later throw [PilothouseException.Closed].
 */
class Pilothouse private constructor(private val core: Core) : Closeable {
    private val subscriptions = Subscriptions()
    private val life = Job()

    internal val collected: Int get() = subscriptions.size

    /** Paired hosts, and how the link to each stands. */
    fun hosts(): Flow<List<HostRow>> = list(Scope.Hosts, ::hostSteps)

    /**
     * The newest threads, the one that changed last first, with how many there are in all.
     *
     * For older ones collect again with a greater limit, or ask for pages: [query] with `Query.Threads`, behind the
     * [place] of the last row.
     *
     * @param filter which threads; by default those of all hosts that are not archived
     * @param limit how many at most, from 1 to 1,000
     */
    fun threads(filter: ThreadFilter = ThreadFilter(null, null), limit: Int = 200): Flow<Threads> = observe(
        scope = { Scope.Threads(filter, limit.coerceAtLeast(1).toUInt()) },
        start = { HeldThreads() },
        apply = { held, batch -> if (batch is Batch.Threads) held.take(batch) },
        state = { Threads(it.rows.rows, checkNotNull(it.counts) { "a batch was taken" }, it.more) },
    )

    /** What waits for a person on any host, the one that waits longest first; at most 1,000. */
    fun inbox(): Flow<List<InboxRow>> = list(Scope.Inbox, ::inboxSteps)

    /** Commands in this device's outbox, in order. */
    fun delivery(): Flow<List<DeliveryRow>> = list(Scope.Delivery, ::deliverySteps)

    /**
     * One thread: its newest items with what stands above them.
     *
     * @param tail how many of the newest items are shown, at least 1; older ones come by [query]
     */
    fun timeline(host: HostId, thread: ThreadId, tail: Int = 200): Flow<Timeline> = observe(
        scope = { Scope.Timeline(host, thread, tail.coerceAtLeast(1).toUInt()) },
        start = { HeldTimeline() },
        apply = { held, batch -> if (batch is Batch.Timeline) held.take(batch) },
        state = { Timeline(checkNotNull(it.header) { "a batch was taken" }, it.rows.rows) },
    )

    /**
     * Pairs with a host by the code that `pilothouse pair` shows there. Waits for the network.
     *
     * @throws PilothouseException.PairingFailed with what to do about it
     */
    suspend fun pair(code: String): HostId = calling { core.pair(code) }

    /**
     * Drives an agent's own server from this device, with no Pilothouse on its machine: no checkpoints, no wake-up, on this
     * device only, and only while this program runs. It is shown like a host; whether the agent is there shows in its row.
     *
     * @param secret its token or password: kept by the store of secrets, and nowhere else
     * @throws PilothouseException.NotDriven if its address is refused, or the secret cannot be kept
     */
    suspend fun addDirect(agent: DirectAgent, secret: String): HostId = calling { core.addDirect(agent, secret) }

    /** The agents that are driven from this device. */
    suspend fun directAgents(): List<DrivenAgent> = calling { core.directAgents() }

    /**
     * Takes one away, and its secret with it. Its threads can still be read; what goes on with the agent itself goes on.
     *
     * @throws PilothouseException.NotDriven if there is no such agent, or its secret could not be forgotten
     */
    suspend fun removeDirect(host: HostId) = calling { core.removeDirect(host) }

    /**
     * Saves a command; when this returns it is on disk, and it is sent as soon as its host can be reached. Cancelling does
     * not take it back.
     *
     * @throws PilothouseException.NotSubmitted if it was not saved
     * @throws PilothouseException.Invalid if an id in it is none
     */
    suspend fun submit(command: NewCommand): Ticket = calling {
        val ticket = core.submit(command)
        ticket.durable()
        Ticket(ticket.commandId(), ticket.thread(), ticket, life)
    }

    /**
     * Asks for something once. `OlderItems`, `Body`, `Conversations` and `Files` may wait for the host, the last two for up to
     * a minute. Cancelling, also by a timeout, takes effect only when that wait ends.
     *
     * @throws PilothouseException.QueryFailed if it is not held here and the host is away, or if there is no such thing
     */
    suspend fun query(query: Query): Page = calling { core.query(query) }

    /**
     * Brings a file to a host, so that a message can have it attached; waits for the host. A file that is there already is not
     * sent again.
     *
     * @param name as its person sees it; no path
     * @throws PilothouseException.QueryFailed if the host is away or does not take it
     */
    suspend fun upload(host: HostId, name: String, mediaType: String, bytes: ByteArray): Attachment =
        calling { core.upload(host, name, mediaType, bytes) }

    /** Sends a parked command after all, because its person said so; whether it was there. */
    suspend fun sendParked(command: CommandId): Boolean = calling { core.sendParked(command) }

    /** Takes a command out of the outbox that was never handed to a host; whether that could still be done. */
    suspend fun discard(command: CommandId): Boolean = calling { core.discard(command) }

    /** Says what the core may count on: coming to the foreground or onto a network makes it try its hosts at once. */
    fun setEnvironment(environment: Environment) = typed(::isClosed) {
        if (isClosed()) throw PilothouseException.Closed()
        core.setEnvironment(environment)
    }

    /**
     * Ends flows and links and leaves the data directory to others. What was submitted stays saved. May take a second, so
     * not on a screen's thread. Closing again does nothing.
     */
    override fun close() {
        if (!life.complete()) return
        subscriptions.close()
        core.shutdown()
        core.close()
    }

    private fun isClosed() = !life.isActive

    private suspend fun <T> calling(call: suspend () -> T): T = withContext(Dispatchers.IO) {
        if (isClosed()) throw PilothouseException.Closed()
        typed(::isClosed) { call() }
    }

    private fun <R> list(scope: Scope, steps: (Batch) -> Steps<R>?): Flow<List<R>> = observe(
        scope = { scope },
        start = { Differ<R>() },
        apply = { list, batch -> steps(batch)?.let { list.apply(it.reset, it.ops) } },
        state = { it.rows },
    )

    private fun <S, T> observe(scope: () -> Scope, start: () -> S, apply: (S, Batch) -> Unit, state: (S) -> T): Flow<T> =
        observed(subscriptions, { deliver -> subscribe(scope(), deliver) }, start, apply, state)

    private fun subscribe(scope: Scope, deliver: (Batch) -> Unit): AutoCloseable = typed(::isClosed) {
        if (isClosed()) throw PilothouseException.Closed()
        val observation = core.observe(scope, ContainedSink(deliver))
        AutoCloseable {
            observation.stop()
            observation.close()
        }
    }

    companion object {
        /**
         * Opens a data directory to the state it was left in: offline, and at once. Several processes may share one. The first
         * call loads the native library, which takes up to a third of a second on a thread of its own.
         *
         * @param platform this device's key and a place for log lines; without one, the key is a file in the data directory.
         *   Whatever it throws is contained.
         * @param secrets where the secrets of agents are kept that are driven from this device; with a platform of one's own and
         *   without this, none can be. Whatever it throws is contained.
         * @throws PilothouseException.OpenFailed if the data directory cannot be used
         * @throws PilothouseException.LibraryMissing if the native library does not load
         */
        suspend fun open(config: CoreConfig, platform: Platform? = null, secrets: SecretStore? = null): Pilothouse {
            var opened: Pilothouse? = null
            return try {
                withContext(Dispatchers.IO) {
                    Library.load()
                    val core = typed({ false }) { Core.open(config, platform?.let(::ContainedPlatform), secrets?.let(::ContainedSecrets)) }
                    Pilothouse(core).also { opened = it }
                }
            } catch (error: Throwable) {
                // Cancelled on the way back: nobody else would close it, and it holds the data directory's links.
                withContext(NonCancellable + Dispatchers.IO) { opened?.close() }
                throw error
            }
        }

        /** Opens a data directory on the JVM. @param deviceName what hosts show of this device, at most 80 characters */
        suspend fun open(dataDir: Path, deviceName: String): Pilothouse = open(CoreConfig(dataDir.toString(), deviceName, "jvm"))
    }
}

/**
 * A thread as it is shown.
 *
 * @property header how it stands: what runs, what is queued, what can be done
 * @property rows its newest items, oldest first
 */
data class Timeline(val header: ThreadHeader, val rows: List<TimelineRow>)

/**
 * A window of the list of threads.
 *
 * @property rows the newest threads, the one that changed last first
 * @property counts how many there are, whatever [rows] shows of them
 * @property more whether older threads exist than those in [rows]
 */
data class Threads(val rows: List<ThreadRow>, val counts: ThreadCounts, val more: Boolean)

/** A thread's place in the list, behind which the next page begins. */
val ThreadRow.place: ThreadPlace get() = ThreadPlace(updatedAtMs, thread, host)

private class HeldThreads {
    var counts: ThreadCounts? = null
    var more = false
    val rows = Differ<ThreadRow>()

    fun take(batch: Batch.Threads) {
        val steps = threadSteps(batch)
        rows.apply(steps.reset, steps.ops)
        counts = batch.counts
        more = batch.more
    }
}

private class HeldTimeline {
    var header: ThreadHeader? = null
    val rows = Differ<TimelineRow>()

    fun take(batch: Batch.Timeline) {
        val steps = timelineSteps(batch)
        rows.apply(steps.reset, steps.ops)
        rows.append(batch.texts)
        header = batch.header
    }
}

/** What the core calls. An Error that left it would look like success to Rust, and an Exception would be a panic. */
private class ContainedSink(private val deliver: (Batch) -> Unit) : Sink {
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

/** The native library, loaded once per process. */
internal object Library {
    /** The thread that loaded it. */
    @Volatile var loadedOn: Thread? = null
        private set

    @Synchronized fun load() {
        if (loadedOn != null) return
        try {
            // So that the VM runs JNI_OnLoad: JNA opens the library by itself, past the VM, and finds it open already.
            if (com.sun.jna.Platform.isAndroid()) System.loadLibrary("pilothouse")
            uniffiEnsureInitialized()
        } catch (error: LinkageError) {
            throw PilothouseException.LibraryMissing(error)
        }
        loadedOn = Thread.currentThread()
    }
}

package dev.pilothouse.android

import android.content.Context
import androidx.annotation.StringRes
import dev.pilothouse.Pilothouse
import dev.pilothouse.PilothouseException
import dev.pilothouse.android.ui.AnswerOption
import dev.pilothouse.android.ui.DirectForm
import dev.pilothouse.android.ui.DirectItem
import dev.pilothouse.android.ui.Progress
import dev.pilothouse.android.ui.RequestItem
import dev.pilothouse.android.ui.RequestKey
import dev.pilothouse.android.ui.SignInNotice
import dev.pilothouse.core.CommandBody
import dev.pilothouse.core.CommandOutcome
import dev.pilothouse.core.Environment
import dev.pilothouse.core.Network
import dev.pilothouse.core.NewCommand
import dev.pilothouse.core.Page
import dev.pilothouse.core.Query
import dev.pilothouse.core.RequestStatus
import dev.pilothouse.signIn
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Deferred
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.channelFlow
import kotlinx.coroutines.flow.combine
import kotlinx.coroutines.flow.distinctUntilChanged
import kotlinx.coroutines.flow.emitAll
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.firstOrNull
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.map
import kotlinx.coroutines.flow.mapNotNull
import kotlinx.coroutines.flow.onEach
import kotlinx.coroutines.flow.update
import kotlinx.coroutines.launch
import kotlinx.coroutines.withTimeoutOrNull
import dev.pilothouse.core.Answer as CoreAnswer

/**
 * The real core, as the app sees it. [opening] is under way on a background thread; everything here waits for it. Whoever
 * opened it closes it.
 */
class PilothouseGateway(private val context: Context, private val opening: Deferred<Pilothouse>, scope: CoroutineScope) : CoreGateway {
    private val environment = MutableStateFlow(Environment(false, Network.UNKNOWN, null))

    /** Options by request, for naming an answer that was given elsewhere. */
    private val options = MutableStateFlow(emptyMap<RequestKey, List<AnswerOption>>())

    init {
        scope.launch {
            // A core that does not open, or is closed, is told of where something is asked of it.
            runCatching { opening.await() }.onSuccess { core -> environment.collect { runCatching { core.setEnvironment(it) } } }
        }
    }

    override val inbox: Flow<List<RequestItem>> = channelFlow {
        val core = opened()
        val ended = MutableStateFlow(emptyMap<RequestKey, RequestItem>())
        var before = emptyList<RequestItem>()
        val waiting = core.inbox().mapNotNull { rows -> rows.map { it.toItem(context) } }.onEach { items ->
            options.update { known -> (known + items.associate { it.key to it.options }).newest(KEPT_OPTIONS) }
            val keys = items.map { it.key }.toSet()
            for (gone in before.filter { it.key !in keys }) {
                launch { settled(core, gone)?.let { item -> ended.update { (it + (item.key to item)).newest(KEPT_ENDED) } } }
            }
            before = items
        }
        combine(waiting, ended) { items, past -> items + past.values.reversed().filter { old -> items.none { it.key == old.key } } }
            .collect(::send)
    }

    override val signIns: Flow<List<SignInNotice>> = flow {
        val core = opened()
        val notices = combine(core.hosts(), core.inbox()) { hosts, inbox ->
            hosts.flatMap { host -> host.signedOut.map { row -> row.toNotice(host, inbox.firstOrNull { it.host == host.host && it.request == row.request }) } }
        }
        emitAll(notices.distinctUntilChanged())
    }

    override suspend fun tryAgain(notice: SignInNotice) = inTime(R.string.not_tried_in_time) { core ->
        val (host, thread) = notice.key.host to notice.thread
        val header = core.timeline(host, thread, tail = 1).first { it.header.synchronised }.header
        core.submit(NewCommand(host, thread, CommandBody.QueueRelease(header.queueRevision))).accepted()
    }

    override suspend fun signIn(notice: SignInNotice) = inTime(R.string.not_begun_in_time) { core ->
        core.signIn(notice.key.host, notice.thread).accepted()
    }

    /** [late] says what became of it where the host did not answer in time. */
    private suspend fun inTime(@StringRes late: Int, ask: suspend (Pilothouse) -> Unit) {
        try {
            withTimeoutOrNull(PATIENCE_MS) {
                ask(opened())
                true
            } ?: throw CoreUnavailable(context.getString(late))
        } catch (e: PilothouseException) {
            throw CoreUnavailable(e.inWords, e)
        }
    }

    override suspend fun answer(answer: Answer): String = try {
        val (host, thread, request) = answer.key
        val body = CommandBody.RequestAnswer(request, answer.contentHash, CoreAnswer.Choose(answer.optionId, null))
        opened().submit(NewCommand(host, thread, body)).command
    } catch (e: PilothouseException) {
        throw AnswerRefused(Outcome.NotTaken(e.inWords))
    } catch (e: CoreUnavailable) {
        throw AnswerRefused(Outcome.NotTaken(e.message))
    }

    override suspend fun outcome(answer: Answer, commandId: String): Outcome {
        val core = opened()
        return try {
            // The list tells that something changed, the query what became of this one: also for a command of an earlier process.
            val outcome = core.delivery().mapNotNull { (core.query(Query.Outcome(commandId)) as? Page.Outcome)?.outcome }.firstOrNull()
            when (outcome) {
                null -> throw CoreUnavailable(context.getString(R.string.core_closed))
                is CommandOutcome.Accepted -> ended(core, answer, taken = true)
                is CommandOutcome.Refused -> refused(core, answer, outcome)
                is CommandOutcome.Parked -> Outcome.NotTaken(outcome.reason)
                CommandOutcome.Expired -> Outcome.NotTaken(context.getString(R.string.not_sent_in_time))
            }
        } catch (e: PilothouseException.QueryFailed) {
            Outcome.NotTaken(context.getString(R.string.outcome_not_known))
        } catch (e: PilothouseException) {
            throw CoreUnavailable(e.inWords, e)
        }
    }

    override fun setEnvironment(foreground: Boolean, visibleRequest: RequestKey?) {
        environment.value = Environment(foreground, Network.UNKNOWN, visibleRequest?.request)
    }

    override suspend fun pair(code: String): String = asked { core ->
        val id = core.pair(code)
        core.hosts().first { rows -> rows.any { it.host == id } }.first { it.host == id }.name
    }

    override suspend fun directAgents(): List<DirectItem> = asked { core -> core.directAgents().map { it.toItem() } }

    override suspend fun addDirect(form: DirectForm) {
        asked { it.addDirect(form.toAgent(), form.token.trim()) }
    }

    override suspend fun removeDirect(host: String) = asked { it.removeDirect(host) }

    private suspend fun <T> asked(use: suspend (Pilothouse) -> T): T = try {
        use(opened())
    } catch (e: PilothouseException) {
        throw CoreUnavailable(e.inWords, e)
    }

    private suspend fun opened(): Pilothouse = try {
        opening.await()
    } catch (e: PilothouseException) {
        throw CoreUnavailable(e.inWords, e)
    }

    private suspend fun refused(core: Pilothouse, answer: Answer, why: CommandOutcome.Refused): Outcome = when (why.code) {
        "already_answered", "not_respondable" -> ended(core, answer, taken = false)
        "stale" -> Outcome.Changed
        "unknown_request", "unknown_thread" -> Outcome.Gone
        else -> Outcome.NotTaken("${why.reason}: ${why.userAction}")
    }

    /** How the request of an answer ended. [taken]: the host has recorded this answer, so that no other counts. */
    private suspend fun ended(core: Pilothouse, answer: Answer, taken: Boolean): Outcome = when (val status = end(core, answer.key)) {
        is RequestStatus.Answered ->
            if (taken) Outcome.Confirmed else Outcome.AnsweredElsewhere(status.answer.words(context, options.value[answer.key].orEmpty()))
        RequestStatus.Withdrawn -> Outcome.Withdrawn
        RequestStatus.Expired -> Outcome.Expired
        is RequestStatus.Lost -> Outcome.Lost
        else -> Outcome.NotTaken(context.getString(R.string.outcome_not_known))
    }

    /** A request that left the inbox, with what became of it; null if that cannot be known. */
    private suspend fun settled(core: Pilothouse, item: RequestItem): RequestItem? = try {
        end(core, item.key)?.let { item.copy(progress = Progress.Settled, status = it.words(context, item.options), problem = null) }
    } catch (_: PilothouseException) {
        null
    }

    /** Waits until the thread is as the host has it and the request is closed; null if the thread no longer holds it. */
    private suspend fun end(core: Pilothouse, key: RequestKey): RequestStatus? =
        core.timeline(key.host, key.thread, tail = 1).mapNotNull { if (it.header.synchronised) look(core, key) else null }.firstOrNull()?.status

    private suspend fun look(core: Pilothouse, key: RequestKey): Found? = try {
        when (val status = (core.query(Query.Request(key.host, key.thread, key.request)) as Page.Request).status) {
            RequestStatus.Pending, is RequestStatus.Answering -> null
            else -> Found(status)
        }
    } catch (e: PilothouseException.QueryFailed) {
        if (e.retryable) null else Found(null)
    }

    private class Found(val status: RequestStatus?)

    private companion object {
        const val KEPT_ENDED = 5
        const val KEPT_OPTIONS = 100
        const val PATIENCE_MS = 30_000L
    }
}

/** Maps keep the order in which they were filled. */
private fun <K, V> Map<K, V>.newest(count: Int): Map<K, V> = entries.drop((size - count).coerceAtLeast(0)).associate { it.toPair() }

private val PilothouseException.inWords: String get() = "$message: $userAction"

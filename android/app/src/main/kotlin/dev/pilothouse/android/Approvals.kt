package dev.pilothouse.android

import dev.pilothouse.android.ui.InboxEvent
import dev.pilothouse.android.ui.InboxState
import dev.pilothouse.android.ui.Progress
import dev.pilothouse.android.ui.RequestItem
import dev.pilothouse.android.ui.RequestKey
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.SharingStarted
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.catch
import kotlinx.coroutines.flow.combine
import kotlinx.coroutines.flow.distinctUntilChanged
import kotlinx.coroutines.flow.stateIn
import kotlinx.coroutines.flow.update
import kotlinx.coroutines.launch
import kotlinx.coroutines.sync.Mutex
import kotlinx.coroutines.sync.withLock

/**
 * The requests that wait and the answers given on this phone. The screen, the notifications' actions and the delivery job
 * all come through here, and this alone decides which face a notification wears. It knows nothing of Android.
 */
class Approvals(
    private val core: CoreGateway,
    private val board: NotificationBoard,
    private val words: Words,
    private val scope: CoroutineScope,
    clock: Flow<Long>,
    private val schedule: (Delivery) -> Unit,
) {
    /** Null until the core has told for the first time: nothing may be cancelled for not being known yet. */
    private val waiting = MutableStateFlow<List<RequestItem>?>(null)
    private val given = MutableStateFlow(emptyMap<RequestKey, GivenAnswer>())
    private val reviewing = MutableStateFlow<RequestKey?>(null)
    private val foreground = MutableStateFlow(false)
    private val trouble = MutableStateFlow<String?>(null)
    private val drawing = Mutex()

    val state: StateFlow<InboxState> = combine(waiting, given, reviewing, clock, trouble) { items, answers, open, now, problem ->
        InboxState(items.orEmpty().map { withAnswer(it, answers[it.key]) }, now, open?.text, problem)
    }.stateIn(scope, SharingStarted.WhileSubscribed(STOP_AFTER_MS), InboxState(emptyList(), 0))

    fun start() {
        scope.launch {
            core.inbox.catch { if (it is CoreUnavailable) trouble.value = it.message else throw it }.collect { items ->
                waiting.value = items
                draw()
            }
        }
        scope.launch {
            // Who looks at a request needs no wake-up for it.
            combine(foreground, reviewing) { looks, open -> looks to open.takeIf { looks } }
                .distinctUntilChanged().collect { (looks, open) -> core.setEnvironment(looks, open) }
        }
    }

    /** The screen came to the front, or left it. */
    fun onForeground(looks: Boolean) {
        foreground.value = looks
    }

    fun onEvent(event: InboxEvent) {
        when (event) {
            is InboxEvent.Review -> review(waiting.value?.firstOrNull { it.id == event.id }?.key)
            InboxEvent.CloseReview -> review(null)
            // No matters of a request.
            InboxEvent.PairHost, is InboxEvent.TryAgain, is InboxEvent.SignIn, is InboxEvent.CopyLink -> Unit
            is InboxEvent.Answer -> scope.launch { decide(Answer(event.key, event.contentHash, event.option.id, event.option.effect)) }
        }
    }

    fun review(key: RequestKey?) {
        reviewing.value = key
    }

    /** A notification's action was fired. [posting] names the notification that the button belongs to. */
    suspend fun tapped(answer: Answer, posting: String) {
        if (board.isCurrent(answer.key, posting)) decide(answer) else note(answer, commandId = null, Outcome.Changed)
    }

    /**
     * Writes the answer down, says that it is being sent, listens for what becomes of it, and asks for a job that does so
     * where this process ends before. The job alone would not do: it waits for the internet, and a host may be reached without.
     */
    private suspend fun decide(answer: Answer) {
        val before = given.value[answer.key]
        if (before != null && before.outcome == null && before.answer.contentHash == answer.contentHash) return
        val commandId = try {
            core.answer(answer)
        } catch (e: AnswerRefused) {
            return note(answer, commandId = null, e.outcome)
        }
        val delivery = Delivery(answer, commandId)
        note(answer, commandId, outcome = null)
        schedule(delivery)
        scope.launch {
            try {
                deliver(delivery)
            } catch (_: CoreUnavailable) {
                // The job asks again.
            }
        }
    }

    /** Runs also in the job, perhaps in a process that has not seen the tap. */
    suspend fun deliver(delivery: Delivery) {
        val (answer, commandId) = delivery
        val known = given.value[answer.key]
        if (known?.commandId != null && (known.outcome != null || known.commandId != commandId)) return // Heard here before, or answered anew since.
        note(answer, commandId, outcome = null)
        val outcome = core.outcome(answer, commandId)
        if (given.value[answer.key]?.commandId == commandId) note(answer, commandId, outcome)
    }

    private suspend fun note(answer: Answer, commandId: String?, outcome: Outcome?) {
        given.update { answers ->
            val sent = answers[answer.key]
            // A refused second tap says nothing about the answer that is on its way.
            if (commandId == null && sent?.commandId != null && sent.outcome == null) answers else answers + (answer.key to GivenAnswer(answer, commandId, outcome))
        }
        draw()
    }

    private suspend fun draw() = drawing.withLock {
        val items = waiting.value
        val answers = given.value
        val byKey = items.orEmpty().associateBy { it.key }
        val faces = (byKey.keys + answers.keys).mapNotNull { key -> face(byKey[key], answers[key])?.let { key to it } }.toMap()
        board.show(faces, complete = items != null)
    }

    private fun face(item: RequestItem?, given: GivenAnswer?): Face? = when {
        given == null -> when (item?.progress) {
            Progress.Waiting -> Face.Asks(item)
            Progress.Sending -> Face.Sending(item)
            Progress.Settled, null -> null
        }
        given.outcome == null -> Face.Sending(item)
        item?.progress == Progress.Waiting && !given.settles(item) -> Face.Asks(item, problem(given))
        else -> Face.Result(item, words.of(given.answer, given.outcome), passing = given.outcome == Outcome.Confirmed)
    }

    private fun withAnswer(item: RequestItem, given: GivenAnswer?): RequestItem = when {
        given == null || item.progress == Progress.Sending -> item
        item.progress == Progress.Settled -> given.outcome?.let { item.copy(status = words.of(given.answer, it)) } ?: item
        given.outcome == null -> item.copy(progress = Progress.Sending, status = words.sending)
        given.settles(item) -> item.copy(progress = Progress.Settled, status = words.of(given.answer, given.outcome))
        else -> item.copy(problem = problem(given))
    }

    private fun problem(given: GivenAnswer): String? = given.outcome?.takeIf { it != Outcome.Confirmed }?.let { words.of(given.answer, it) }

    private companion object {
        const val STOP_AFTER_MS = 5_000L
    }
}

/** An answer of this phone; without an outcome it is on its way. [commandId] is null if it was refused at once. */
private data class GivenAnswer(val answer: Answer, val commandId: String?, val outcome: Outcome?) {
    /** The core's list may lag behind the outcome. A request that still waits after a refusal can be answered again. */
    fun settles(item: RequestItem): Boolean = outcome == Outcome.Confirmed && item.contentHash == answer.contentHash
}

/** What a notification shows of its request. */
sealed interface Face {
    val item: RequestItem?

    data class Asks(override val item: RequestItem, val problem: String? = null) : Face

    /** [item] is null in a process that was started by a tap, until the core has told. */
    data class Sending(override val item: RequestItem?) : Face

    /** A [passing] result goes away by itself. */
    data class Result(override val item: RequestItem?, val text: String, val passing: Boolean) : Face
}

/** Where the faces are shown. */
interface NotificationBoard {
    /** Shows these faces; where [complete], nothing else stays. The same face again disturbs nobody. */
    fun show(faces: Map<RequestKey, Face>, complete: Boolean)

    /** Is the notification that was posted as [posting] still the one shown for this request? */
    fun isCurrent(key: RequestKey, posting: String): Boolean
}

/** An outcome in a person's language. */
interface Words {
    val sending: String
    fun of(answer: Answer, outcome: Outcome): String
}

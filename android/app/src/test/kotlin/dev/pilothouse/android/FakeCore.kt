package dev.pilothouse.android

import dev.pilothouse.android.ui.DirectForm
import dev.pilothouse.android.ui.DirectItem
import dev.pilothouse.android.ui.Progress
import dev.pilothouse.android.ui.RequestItem
import dev.pilothouse.android.ui.RequestKey
import dev.pilothouse.android.ui.SignInNotice
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.combine
import kotlinx.coroutines.flow.filterNotNull
import kotlinx.coroutines.flow.update

/** A core by hand: a list, an outbox, and a test that plays the host. */
class FakeCore : CoreGateway {
    private val rows = MutableStateFlow<List<RequestItem>?>(null)
    private val outcomes = mutableMapOf<String, CompletableDeferred<Outcome>>()

    /** Why the core cannot be used. */
    val trouble = MutableStateFlow<String?>(null)

    override val inbox = combine(rows, trouble) { items, why -> if (why == null) items else throw CoreUnavailable(why) }.filterNotNull()

    private val signedOut = MutableStateFlow<List<SignInNotice>?>(null)
    override val signIns = signedOut.filterNotNull()
    val tried = mutableListOf<String>()

    fun tellsSignIns(vararg notices: SignInNotice) {
        signedOut.value = notices.toList()
    }

    override suspend fun tryAgain(notice: SignInNotice) {
        trouble.value?.let { throw CoreUnavailable(it) }
        tried += notice.thread
    }

    val begun = mutableListOf<String>()

    override suspend fun signIn(notice: SignInNotice) {
        trouble.value?.let { throw CoreUnavailable(it) }
        begun += notice.thread
    }

    /** What was written to the outbox, in order; the place in it is the command's id. */
    val outbox = mutableListOf<Answer>()
    val delivering = mutableListOf<String>()
    val environments = mutableListOf<Pair<Boolean, RequestKey?>>()

    /** What the next answer is refused with. */
    var refusal: Outcome? = null

    fun tells(vararg items: RequestItem) {
        rows.value = items.toList()
    }

    fun becomes(key: RequestKey, progress: Progress, status: String = "") =
        rows.update { items -> items?.map { if (it.key == key) it.copy(progress = progress, status = status) else it } }

    /** The core is closed before the host's word. */
    fun closes(command: Int) {
        outcomes.remove(command.toString())?.completeExceptionally(CoreUnavailable("closed"))
    }

    /** The host has not taken the command: its request waits as before. */
    fun refuses(command: Int, why: String) {
        becomes(outbox[command].key, Progress.Waiting)
        outcomeOf(command.toString()).complete(Outcome.NotTaken(why))
    }

    /** The host's word on the command, and on its request. */
    fun decides(command: Int, outcome: Outcome) {
        becomes(outbox[command].key, Progress.Settled)
        outcomeOf(command.toString()).complete(outcome)
    }

    override suspend fun answer(answer: Answer): String {
        refusal?.let { throw AnswerRefused(it) }
        val row = rows.value?.firstOrNull { it.key == answer.key } ?: throw AnswerRefused(Outcome.Gone)
        if (row.contentHash != answer.contentHash) throw AnswerRefused(Outcome.Changed)
        outbox += answer
        becomes(answer.key, Progress.Sending, "Sending …")
        return outbox.lastIndex.toString()
    }

    override suspend fun outcome(answer: Answer, commandId: String): Outcome {
        delivering += commandId
        return outcomeOf(commandId).await()
    }

    override fun setEnvironment(foreground: Boolean, visibleRequest: RequestKey?) {
        environments += foreground to visibleRequest
    }

    /** What the next pairing fails with. */
    var pairingProblem: String? = null
    val paired = mutableListOf<String>()

    /** While it is there, a pairing waits for it. */
    var pairingGate: CompletableDeferred<Unit>? = null

    override suspend fun pair(code: String): String {
        pairingGate?.await()
        pairingProblem?.let { throw CoreUnavailable(it) }
        paired += code
        return "wren"
    }

    /** What the next agent is refused with. */
    var directProblem: String? = null
    val driven = mutableListOf<DirectForm>()

    /** While it is there, whatever concerns these agents waits for it. */
    var directGate: CompletableDeferred<Unit>? = null

    override suspend fun directAgents(): List<DirectItem> {
        directGate?.await()
        return driven.mapIndexed { at, form -> DirectItem("direct-${at + 1}", form.name, form.family, form.url, form.trust) }
    }

    override suspend fun addDirect(form: DirectForm) {
        directGate?.await()
        directProblem?.let { throw CoreUnavailable(it) }
        driven += form
    }

    override suspend fun removeDirect(host: String) {
        driven.removeAt(host.removePrefix("direct-").toInt() - 1)
    }

    private fun outcomeOf(command: String) = outcomes.getOrPut(command) { CompletableDeferred() }
}

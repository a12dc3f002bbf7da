package dev.pilothouse.android

import dev.pilothouse.android.ui.DirectForm
import dev.pilothouse.android.ui.DirectItem
import dev.pilothouse.android.ui.Effect
import dev.pilothouse.android.ui.RequestItem
import dev.pilothouse.android.ui.RequestKey
import dev.pilothouse.android.ui.SignInNotice
import kotlinx.coroutines.flow.Flow

/**
 * What the app needs of the device's core. Implementations decide nothing that the core could decide; no screen and no
 * notification sees a type of the core.
 */
interface CoreGateway {
    /**
     * What waits on any host and what became of it: always the whole list, the stored one at once, then every change.
     * Fails with [CoreUnavailable].
     */
    val inbox: Flow<List<RequestItem>>

    /** Agents whose sign-in was refused on any host: always the whole list, as [inbox]. Fails with [CoreUnavailable]. */
    val signIns: Flow<List<SignInNotice>>

    /**
     * Lets the thread that a notice names try again. Waits for the host, at most half a minute.
     * @throws CoreUnavailable where it did not come about
     */
    suspend fun tryAgain(notice: SignInNotice)

    /**
     * Has the agent of a notice begin to sign in. Waits for the host, at most half a minute.
     * @throws CoreUnavailable where it did not come about
     */
    suspend fun signIn(notice: SignInNotice)

    /**
     * Writes an answer to the outbox and returns the id of its command once it is on disk. Waits for no network.
     * @throws AnswerRefused where the core already knows that it cannot be taken, or could not write it down
     */
    suspend fun answer(answer: Answer): String

    /**
     * Waits until it is known what became of the command, however long that takes; also of one of an earlier process.
     * @throws CoreUnavailable where the same question later may be answered
     */
    suspend fun outcome(answer: Answer, commandId: String): Outcome

    /** Tells whether a person looks at the app, and at which request. */
    fun setEnvironment(foreground: Boolean, visibleRequest: RequestKey?)

    /**
     * Pairs with the host whose code this is and returns that host's name. Waits for the network.
     * @throws CoreUnavailable where it did not come about
     */
    suspend fun pair(code: String): String

    /**
     * The agents that this phone drives itself.
     * @throws CoreUnavailable where they cannot be read
     */
    suspend fun directAgents(): List<DirectItem>

    /**
     * Drives another one; its token is kept sealed. Waits for no network: whether the agent is there shows later.
     * @throws CoreUnavailable where its address is refused, or it cannot be kept
     */
    suspend fun addDirect(form: DirectForm)

    /**
     * Takes one away, and its token with it.
     * @throws CoreUnavailable where its token could not be forgotten
     */
    suspend fun removeDirect(host: String)
}

/** The core does not open, was closed, or could not do what was asked; [message] says to a person why and what to do. */
class CoreUnavailable(override val message: String, cause: Throwable? = null) : Exception(message, cause)

/** One answer to exactly one text: [contentHash] names the text, [optionId] is one of the request's own options. */
data class Answer(val key: RequestKey, val contentHash: String, val optionId: String, val effect: Effect)

/** What became of an answer. */
sealed interface Outcome {
    /** The agent has it. */
    data object Confirmed : Outcome

    /** Somebody else was first; [how] says who and what in the host's words. */
    data class AnsweredElsewhere(val how: String) : Outcome
    data object Expired : Outcome

    /** The agent took the request back. */
    data object Withdrawn : Outcome

    /** The agent died; whether the answer reached it is not known. */
    data object Lost : Outcome

    /** No such request waits any more. */
    data object Gone : Outcome

    /** The request now asks for something else than what was answered. */
    data object Changed : Outcome

    /** Not taken for another reason, in words that say what to do. */
    data class NotTaken(val why: String) : Outcome
}

class AnswerRefused(val outcome: Outcome) : Exception(outcome.toString())

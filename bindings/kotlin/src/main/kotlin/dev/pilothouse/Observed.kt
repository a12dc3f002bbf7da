package dev.pilothouse

import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.conflate
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.flowOn
import java.util.concurrent.ConcurrentHashMap

/** Subscriptions that are collected now. What is in here is held strongly and ends when its owner closes. */
internal class Subscriptions {
    private val open: MutableSet<Subscription<*>> = ConcurrentHashMap.newKeySet()

    @Volatile private var closed = false

    val size: Int get() = open.size

    fun add(subscription: Subscription<*>) {
        open.add(subscription)
        if (closed) subscription.batches.close()
    }

    fun remove(subscription: Subscription<*>) {
        open.remove(subscription)
    }

    /** Lets every collector take in what has arrived, and then end. */
    fun close() {
        closed = true
        open.forEach { it.batches.close() }
    }
}

/**
 * What one collector has of the core. The core ends an observation that nothing in Kotlin refers to (a garbage collection
 * would do), so this holds it until the collector goes.
 */
internal class Subscription<B : Any>(val batches: Channel<B>) {
    var observation: AutoCloseable? = null
}

/**
 * A subscription of the core as a cold flow of what it describes.
 *
 * [open] subscribes with a function that the core calls from its own thread; that function only enqueues. Batches are taken
 * in on [Dispatchers.Default], never on the collector's thread; a slow collector skips states, never steps.
 *
 * @param start makes the state of one collection
 * @param apply takes one batch into the state; in order, one call at a time
 * @param state what is emitted after all batches at hand were taken in
 */
internal fun <S, B : Any, T> observed(
    subscriptions: Subscriptions,
    open: (deliver: (B) -> Unit) -> AutoCloseable,
    start: () -> S,
    apply: (S, B) -> Unit,
    state: (S) -> T,
): Flow<T> = flow {
    val subscription = Subscription<B>(Channel(Channel.UNLIMITED))
    val batches = subscription.batches
    subscriptions.add(subscription)
    try {
        subscription.observation = open { batches.trySend(it) }
        val held = start()
        while (true) {
            apply(held, batches.receiveCatching().getOrNull() ?: break)
            while (true) apply(held, batches.tryReceive().getOrNull() ?: break)
            emit(state(held))
        }
    } finally {
        subscription.observation?.close()
        subscriptions.remove(subscription)
        batches.cancel()
    }
}.flowOn(Dispatchers.Default).conflate()

package dev.pilothouse

import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow

/**
 * A subscription of the core as a cold flow of what it describes.
 *
 * [open] subscribes with a function that the core calls from its own threads; that function only enqueues. What it
 * returns is closed when the collector goes, and is held by it until then: the core ends a subscription that nothing in
 * Kotlin refers to. A slow collector skips states, never steps.
 *
 * @param apply takes one batch into the state; called in the collector's coroutine, in order
 * @param state what is emitted after all batches at hand were taken in
 */
internal fun <B : Any, S> observed(open: (deliver: (B) -> Unit) -> AutoCloseable, apply: (B) -> Unit, state: () -> S): Flow<S> = flow {
    val batches = Channel<B>(Channel.UNLIMITED)
    val subscription = open { batches.trySend(it) }
    try {
        while (true) {
            apply(batches.receive())
            while (true) apply(batches.tryReceive().getOrNull() ?: break)
            emit(state())
        }
    } finally {
        subscription.close()
        batches.cancel()
    }
}

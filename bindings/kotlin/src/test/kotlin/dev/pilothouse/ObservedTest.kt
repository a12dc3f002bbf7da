package dev.pilothouse

import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

class ObservedTest {
    private class Source {
        lateinit var deliver: (Int) -> Unit
        val open = CompletableDeferred<Unit>()
        var closed = false

        fun flow(): Flow<Int> {
            var sum = 0
            return observed(
                open = {
                    deliver = it
                    open.complete(Unit)
                    AutoCloseable { closed = true }
                },
                apply = { batch: Int -> sum += batch },
                state = { sum },
            )
        }
    }

    @Test fun `every batch is taken in, also while the collector is busy`() = runBlocking {
        val source = Source()
        val seen = Channel<Int>(Channel.UNLIMITED)
        val goOn = Channel<Unit>()
        val job = launch(Dispatchers.Default) { source.flow().collect { seen.send(it); goOn.receive() } }
        source.open.await()
        source.deliver(1)
        assertEquals(1, seen.receive())
        repeat(1000) { source.deliver(1) }
        goOn.send(Unit)
        assertEquals(1001, withTimeout(10_000) { seen.receive() })
        job.cancelAndJoin()
    }

    @Test fun `a collector that goes closes the subscription, and late batches disturb nobody`() = runBlocking {
        val source = Source()
        val job = launch { source.flow().first() }
        source.open.await()
        assertFalse(source.closed)
        source.deliver(1)
        job.join()
        assertTrue(source.closed)
        source.deliver(2)
    }

    @Test fun `cancelling closes the subscription`() = runBlocking {
        val source = Source()
        val job = launch { source.flow().collect {} }
        source.open.await()
        job.cancelAndJoin()
        assertTrue(source.closed)
    }
}

package dev.pilothouse

import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.launch
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

class ObservedTest {
    private class Source {
        lateinit var deliver: (Int) -> Unit
        val subscriptions = Subscriptions()
        val open = CompletableDeferred<Unit>()

        @Volatile var closed = false

        fun flow(): Flow<Int> = observed(
            subscriptions,
            open = {
                deliver = it
                open.complete(Unit)
                AutoCloseable { closed = true }
            },
            start = { intArrayOf(0) },
            apply = { sum, batch: Int -> sum[0] += batch },
            state = { it[0] },
        )
    }

    @Test fun `every batch is taken in, also while the collector is busy`() = test {
        val source = Source()
        val seen = Channel<Int>(Channel.UNLIMITED)
        val goOn = CompletableDeferred<Unit>()
        val job = launch(Dispatchers.Default) { source.flow().collect { seen.send(it); goOn.await() } }
        source.open.await()
        source.deliver(1)
        assertEquals(1, seen.receive())
        repeat(1000) { source.deliver(1) }
        goOn.complete(Unit)
        var last = 1
        var states = 1
        while (last < 1001) {
            val next = seen.receive()
            assertTrue(next > last)
            last = next
            states++
        }
        assertEquals(1001, last)
        assertTrue(states < 1001, "states were skipped")
        job.cancelAndJoin()
    }

    @Test fun `a collector that goes closes the subscription, and late batches disturb nobody`() = test {
        val source = Source()
        val job = launch { source.flow().first() }
        source.open.await()
        assertFalse(source.closed)
        source.deliver(1)
        job.join()
        assertTrue(source.closed)
        assertEquals(0, source.subscriptions.size)
        source.deliver(2)
    }

    @Test fun `cancelling closes the subscription`() = test {
        val source = Source()
        val job = launch { source.flow().collect {} }
        source.open.await()
        assertEquals(1, source.subscriptions.size)
        job.cancelAndJoin()
        assertTrue(source.closed)
        assertEquals(0, source.subscriptions.size)
    }

    @Test fun `closing lets a collector take in what has arrived, and completes its flow`() = test {
        val source = Source()
        var last = 0
        val job = launch { source.flow().collect { last = it } }
        source.open.await()
        source.deliver(3)
        source.deliver(4)
        source.subscriptions.close()
        job.join()
        assertFalse(job.isCancelled)
        assertEquals(7, last)
        assertTrue(source.closed)
    }
}

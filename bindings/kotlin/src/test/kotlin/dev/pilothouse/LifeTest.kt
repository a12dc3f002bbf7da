package dev.pilothouse

import dev.pilothouse.core.FfiConverterTypeSink
import dev.pilothouse.core.HostId
import dev.pilothouse.core.LinkState
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.launch
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertInstanceOf
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.File
import java.lang.ref.WeakReference

/** Who holds what, for how long, and what is left afterwards. */
class LifeTest {
    @Test fun `the library is loaded off the caller's thread`() = test {
        Pilothouse.open(World.fresh("load"), "kotlin").use {
            val loadedOn = checkNotNull(Library.loadedOn)
            assertFalse(loadedOn === Thread.currentThread())
            assertTrue(loadedOn.name.startsWith("DefaultDispatcher"), loadedOn.name)
        }
    }

    @Test fun `a subscription lives through garbage collections while it is collected`() = test {
        World.device().use { device ->
            val host = device.synchronised()
            val seen = Channel<Threads>(Channel.UNLIMITED)
            val job = launch(Dispatchers.Default) { device.threads().collect { seen.send(it) } }
            seen.receive()
            repeat(5) { collectGarbage() }
            val made = device.createThread(host, "demo", "codex", "after the garbage collection").thread
            while (seen.receive().rows.none { it.thread == made && !it.pending }) { /* the next list */ }
            job.cancelAndJoin()
        }
    }

    @Test fun `a thousand collectors that came and went leave nothing behind`() = test {
        Pilothouse.open(World.fresh("thousand"), "kotlin").use { device ->
            suspend fun cycles(count: Int) = repeat(count) { device.inbox().first() }
            val sinks = FfiConverterTypeSink.handleMap.size
            cycles(200)
            collectGarbage()
            val before = Held.now()
            cycles(1_000)
            assertEquals(0, device.collected)
            // The core lets go of a sink after the batch under way; its thread tells nobody.
            val deadline = System.nanoTime() + PATIENCE.inWholeNanoseconds
            while (FfiConverterTypeSink.handleMap.size > sinks && System.nanoTime() < deadline) Thread.onSpinWait()
            assertEquals(sinks, FfiConverterTypeSink.handleMap.size, "sinks that Rust still holds")
            collectGarbage()
            val after = Held.now()
            println("measured: before 1,000 collectors $before, after them $after")
            assertTrue(after.files <= before.files, "$before, $after")
            assertTrue(after.heapKiB - before.heapKiB < 8 * 1024, "$before, $after")
            // Pages that the compiler of the JVM takes count as well; 1,000 observations that Rust kept would be more.
            assertTrue(after.residentKiB - before.residentKiB < 24 * 1024, "$before, $after")
        }
    }

    @Test fun `closing completes collected flows, ends what waits, and later calls say that it is closed`() = test {
        val device = World.device()
        val host = device.synchronised()
        World.host.frozen {
            val ticket = device.createThread(host, "demo", "codex", "never confirmed here")
            val first = CompletableDeferred<Unit>()
            val collecting = async { device.inbox().collect { first.complete(Unit) } }
            val waiting = async { runCatching { ticket.await() } }
            first.await()
            device.close()
            collecting.await()
            val waited = waiting.await()
            assertInstanceOf(PilothouseException.Closed::class.java, waited.exceptionOrNull(), "$waited")
            for (call in listOf<suspend () -> Any?>(
                { device.inbox().first() },
                { device.timeline(host, ticket.thread).first() },
                { device.createThread(host, "demo", "codex", "too late") },
                { device.pair("anything") },
                { ticket.await() },
            )) {
                assertInstanceOf(PilothouseException.Closed::class.java, runCatching { call() }.exceptionOrNull())
            }
            device.close()
        }
    }

    private suspend fun Pilothouse.synchronised(): HostId =
        hosts().until("a connected host") { hosts -> hosts.any { it.link == LinkState.Synchronised } }.single().host

    /** Returns only after the collector has taken something that was there to be taken. */
    private fun collectGarbage() {
        val garbage = WeakReference(Any())
        while (garbage.get() != null) System.gc()
    }

    /** What this process holds. The heap has a fixed size (pom.xml), so that pages which appear are not the heap's. */
    private data class Held(val files: Int, val heapKiB: Long, val residentKiB: Long) {
        companion object {
            fun now() = Held(
                files = checkNotNull(File("/proc/self/fd").list()).size,
                heapKiB = Runtime.getRuntime().run { totalMemory() - freeMemory() } / 1024,
                residentKiB = File("/proc/self/status").readLines().first { it.startsWith("VmRSS") }.filter(Char::isDigit).toLong(),
            )
        }
    }
}

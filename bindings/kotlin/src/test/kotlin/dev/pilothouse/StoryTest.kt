package dev.pilothouse

import dev.pilothouse.core.AnswerDelivery
import dev.pilothouse.core.BlockedOn
import dev.pilothouse.core.CommandOutcome
import dev.pilothouse.core.Environment
import dev.pilothouse.core.HostId
import dev.pilothouse.core.InboxRow
import dev.pilothouse.core.InboxState
import dev.pilothouse.core.ItemStatus
import dev.pilothouse.core.LinkState
import dev.pilothouse.core.Network
import dev.pilothouse.core.OptionEffect
import dev.pilothouse.core.Page
import dev.pilothouse.core.Query
import dev.pilothouse.core.RequestKind
import dev.pilothouse.core.RequestOption
import dev.pilothouse.core.RequestStatus
import dev.pilothouse.core.RowContent
import dev.pilothouse.core.RunStatus
import dev.pilothouse.core.ThreadId
import kotlinx.coroutines.flow.first
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertInstanceOf
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.BeforeAll
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestInstance

/** The whole story against real programs: codex asks, a person answers from Kotlin, the answer has its effect. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class StoryTest {
    private lateinit var phone: Pilothouse
    private lateinit var host: HostId

    @BeforeAll fun pair() = test {
        phone = World.device()
        host = phone.hosts().until("a connected host") { hosts -> hosts.any { it.link == LinkState.Synchronised } }.single().host
    }

    @AfterAll fun close() = phone.close()

    @Test fun `an allowed command runs, and the turn ends`() = test {
        val nonce = nonce()
        World.model.runs("allow-$nonce", "echo $nonce >> $nonce.txt")
        val thread = start("allow-$nonce")
        val row = asked(thread)
        assertEquals(RequestKind.COMMAND, row.kind)
        assertTrue(row.subject.command.orEmpty().contains("echo $nonce >> $nonce.txt"), row.toString())
        assertEquals(World.host.workspace.toRealPath().toString(), row.subject.cwd)
        assertTrue(row.verified)
        assertNull(World.file("$nonce.txt").textOrNull(), "it ran before it was allowed")

        phone.answer(row, row.option(OptionEffect.ALLOW_ONCE)).accepted()
        val ended = ended(thread)
        assertEquals(RunStatus.COMPLETED, ended.header.lastStatus)
        assertEquals("$nonce\n", World.file("$nonce.txt").textOrNull())
        assertEquals("After it.", ended.rows.last { it.content is RowContent.AssistantMessage }.text.text)
        val status = assertInstanceOf(RequestStatus.Answered::class.java, status(row))
        assertNotNull(status.by)
        assertEquals(AnswerDelivery.CONFIRMED, status.delivery)
        gone(row)

        // A short window ends before the beginning; what is older comes when it is asked for.
        val newest = phone.timeline(host, thread, tail = 1).until("a window of one") { it.rows.size == 1 }
        assertTrue(newest.header.older)
        val before = checkNotNull(newest.rows.single().position)
        val older = assertInstanceOf(Page.Items::class.java, phone.query(Query.OlderItems(host, thread, before, 65_536u)))
        assertEquals(ended.rows.dropLast(1), older.rows)
        assertFalse(older.older)
    }

    @Test fun `a denied command does not run, and the turn goes on`() = test {
        val nonce = nonce()
        World.model.runs("deny-$nonce", "echo $nonce >> $nonce.txt")
        val thread = start("deny-$nonce")
        val row = asked(thread)
        phone.answer(row, row.option(OptionEffect.DENY)).accepted()
        val ended = ended(thread)
        assertEquals(RunStatus.COMPLETED, ended.header.lastStatus)
        assertEquals("After it.", ended.rows.last { it.content is RowContent.AssistantMessage }.text.text)
        assertNull(World.file("$nonce.txt").textOrNull())
        gone(row)
    }

    @Test fun `a change that is allowed for the session is made, and its diff was shown`() = test {
        val nonce = nonce()
        World.model.patches("session-$nonce", listOf("$nonce.txt"))
        val thread = start("session-$nonce")
        val row = asked(thread)
        assertEquals(RequestKind.FILE_CHANGE, row.kind)
        assertTrue(row.subject.changes.single().path.endsWith("$nonce.txt"), row.toString())
        assertTrue(row.subject.changes.single().diff.text.contains("patched"), row.toString())
        assertNull(World.file("$nonce.txt").textOrNull())
        phone.answer(row, row.option(OptionEffect.ALLOW_SESSION)).accepted()
        val ended = ended(thread)
        assertEquals(RunStatus.COMPLETED, ended.header.lastStatus)
        assertTrue(ended.rows.any { it.content is RowContent.FileChange })
        assertEquals("patched\n", World.file("$nonce.txt").textOrNull())
        gone(row)
    }

    @Test fun `interrupted while it asks, the run ends and the question with it`() = test {
        val nonce = nonce()
        World.model.runs("stop-$nonce", "echo $nonce >> $nonce.txt")
        val thread = start("stop-$nonce")
        val row = asked(thread)
        val asking = phone.timeline(host, thread).until("the run that asks") { it.header.active?.blockedOn == BlockedOn.APPROVAL }
        phone.interrupt(asking.header).accepted()
        val ended = ended(thread)
        assertEquals(RunStatus.INTERRUPTED, ended.header.lastStatus)
        assertEquals(RequestStatus.Withdrawn, status(row))
        assertNull(World.file("$nonce.txt").textOrNull())
        gone(row)
        val nothing = runCatching { phone.interrupt(ended.header) }.exceptionOrNull()
        assertInstanceOf(PilothouseException.Invalid::class.java, nothing)
    }

    @Test fun `a request that is answered already refuses a second answer by name`() = test {
        val nonce = nonce()
        World.model.runs("twice-$nonce", "echo $nonce >> $nonce.txt")
        val thread = start("twice-$nonce")
        val row = asked(thread)
        phone.answer(row, row.option(OptionEffect.DENY)).accepted()
        ended(thread)
        val ticket = phone.answer(row, row.option(OptionEffect.ALLOW_ONCE))
        val error = assertInstanceOf(PilothouseException.NotTaken::class.java, runCatching { ticket.accepted() }.exceptionOrNull())
        val refused = assertInstanceOf(CommandOutcome.Refused::class.java, error.outcome)
        assertEquals(refused, ticket.await())
        assertTrue(refused.code.isNotBlank() && error.userAction.isNotBlank(), refused.toString())
        assertFalse(error.retryable)
        assertNull(World.file("$nonce.txt").textOrNull())
    }

    @Test fun `a cold start shows what waits before any live event, and answering it works`() = test {
        val nonce = nonce()
        World.model.runs("cold-$nonce", "echo $nonce >> $nonce.txt")
        val dataDir = World.fresh("cold")
        val thread = World.device(dataDir).use { first ->
            val thread = start("cold-$nonce", first)
            asked(thread, first)
            first.timeline(host, thread).until("the run that asks") { it.header.active?.blockedOn == BlockedOn.APPROVAL }
            thread
        }
        var again: Pilothouse? = null
        lateinit var row: InboxRow
        World.host.frozen {
            val began = System.nanoTime()
            again = Pilothouse.open(dataDir, "kotlin")
            row = again.inbox().first().single { it.thread == thread }
            println("measured: ${(System.nanoTime() - began) / 1_000_000} ms from open to what waits, host frozen")
            assertFalse(row.online)
            assertEquals(InboxState.Pending, row.state)
            assertTrue(row.subject.command.orEmpty().contains(nonce))
            val shown = again.timeline(host, thread).first()
            assertFalse(shown.header.synchronised)
            assertEquals(BlockedOn.APPROVAL, shown.header.active?.blockedOn)
            assertTrue(shown.rows.any { it.content is RowContent.Command && it.status == ItemStatus.OPEN }, shown.toString())
            // Saved while nobody can hear it; it goes out when the host is back.
            again.answer(row, row.option(OptionEffect.ALLOW_ONCE))
            assertInstanceOf(InboxState.Sending::class.java, again.inbox().first().single { it.thread == thread }.state)
            assertEquals(listOf(row.request), again.delivery().first().map { it.request })
        }
        again!!.use { device ->
            device.setEnvironment(Environment(foreground = true, network = Network.UNMETERED, visibleRequest = row.request))
            device.delivery().until("an empty outbox") { it.isEmpty() }
            assertEquals(RunStatus.COMPLETED, ended(thread, device).header.lastStatus)
            assertEquals("$nonce\n", World.file("$nonce.txt").textOrNull())
        }
    }

    /** A thread that was told what its script answers. */
    private suspend fun start(script: String, device: Pilothouse = phone): ThreadId {
        val thread = device.createThread(host, "demo", "codex", script).thread
        device.send(host, thread, "go [[script:$script]]").accepted()
        return thread
    }

    private suspend fun asked(thread: ThreadId, device: Pilothouse = phone): InboxRow =
        device.inbox().until("a request of $thread") { rows -> rows.any { it.thread == thread } }.single { it.thread == thread }

    private suspend fun ended(thread: ThreadId, device: Pilothouse = phone): Timeline =
        device.timeline(host, thread).until("the end of the run") { (header, _) -> header.active == null && header.lastStatus != null && header.synchronised }

    private suspend fun gone(row: InboxRow) {
        phone.inbox().until("an inbox without it") { rows -> rows.none { it.request == row.request } }
    }

    private suspend fun status(row: InboxRow): RequestStatus =
        assertInstanceOf(Page.Request::class.java, phone.query(Query.Request(row.host, row.thread, row.request))).status

    private fun InboxRow.option(effect: OptionEffect): RequestOption =
        subject.options.firstOrNull { it.effect == effect } ?: error("$effect is not offered: ${subject.options}")
}

package dev.pilothouse.android

import android.app.Notification
import android.app.NotificationManager
import android.content.Intent
import android.graphics.Bitmap
import android.net.Uri
import android.os.Looper
import androidx.compose.ui.graphics.asAndroidBitmap
import androidx.compose.ui.test.captureToImage
import androidx.compose.ui.test.junit4.v2.createEmptyComposeRule
import androidx.compose.ui.test.onAllNodesWithTag
import androidx.compose.ui.test.onNodeWithTag
import androidx.compose.ui.test.onRoot
import androidx.compose.ui.test.performClick
import androidx.test.core.app.ActivityScenario
import androidx.test.core.app.ApplicationProvider
import androidx.work.WorkManager
import androidx.work.testing.WorkManagerTestInitHelper
import dev.pilothouse.android.ui.DirectForm
import dev.pilothouse.android.ui.DirectItem
import dev.pilothouse.android.ui.DirectKind
import dev.pilothouse.android.ui.DirectTrust
import dev.pilothouse.android.ui.Effect
import dev.pilothouse.android.ui.PairEvent
import dev.pilothouse.android.ui.Progress
import dev.pilothouse.android.ui.RequestItem
import dev.pilothouse.core.HostId
import dev.pilothouse.core.RunStatus
import dev.pilothouse.core.ThreadId
import dev.pilothouse.createThread
import dev.pilothouse.interrupt
import dev.pilothouse.send
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Rule
import org.junit.Test
import org.junit.rules.RuleChain
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import java.io.File
import java.io.FileNotFoundException
import java.util.UUID
import java.util.concurrent.locks.LockSupport

/** Real codex asks, the app's notification is answered, the agent is told: with the real core, a real host, and TLS between. */
@RunWith(RobolectricTestRunner::class)
@Config(application = EndToEndApp::class, qualifiers = "w400dp-h800dp-xhdpi")
class EndToEndTest {
    private val world = EndToEndWorld()
    private val compose = createEmptyComposeRule()

    @get:Rule val rules: RuleChain = RuleChain.outerRule(world).around(compose)

    private val app = ApplicationProvider.getApplicationContext<EndToEndApp>()
    private val manager = app.service<NotificationManager>()
    private val nonce = UUID.randomUUID().toString().take(8)
    private val file get() = world.workspace.resolve("answer.txt")
    private lateinit var host: HostId
    private lateinit var thread: ThreadId

    @Test fun approved_in_the_shade_the_command_runs_and_the_notification_ends_as_approved() {
        pairByLink()
        runsCommand()
        val asked = asked()
        assertEquals("/bin/bash -lc 'echo $nonce >> answer.txt'\nin ${world.workspace}", asked.bigText)
        assertEquals(listOf("Approve", "Deny", "Review"), asked.labels)
        assertFalse("nothing ran before the answer", file.exists())
        picture("inbox-real.png")

        tap(asked, "Approve")
        until("it to be sent") { shown()?.title == "Sending …" }
        jobRuns()
        until("the host's word") { shown()?.title == "Approved" }
        until("the file") { file.exists() && file.readText() == "$nonce\n" }
        assertEquals(RunStatus.COMPLETED, end())
        world.reached("story", 2)
    }

    @Test fun an_agent_without_a_host_is_added_listed_and_taken_away_with_its_token() {
        val form = DirectForm("box", DirectKind.Codex, "wss://box.example:4500", "t0ken-$nonce", DirectTrust.Key, "ab".repeat(32), "/home/me/app")
        waiting { app.core.addDirect(form) }
        val added = waiting { app.core.directAgents() }.single()
        assertEquals(DirectItem(added.host, "box", DirectKind.Codex, "wss://box.example:4500", DirectTrust.Key), added)
        val files = { of: String -> app.noBackupFilesDir.resolve(of).walk().filter(File::isFile).toList() }
        assertEquals(1, files("secrets").size)
        for (kept in files(".")) {
            // SQLite's journals come and go meanwhile.
            val text = try { kept.readText(Charsets.ISO_8859_1) } catch (_: FileNotFoundException) { continue }
            assertFalse("$kept", text.contains(form.token))
        }

        val clear = form.copy(url = "ws://198.51.100.7:4500", trust = DirectTrust.Authorities)
        val refused = runCatching { waiting { app.core.addDirect(clear) } }.exceptionOrNull()
        assertTrue("$refused", refused is CoreUnavailable && !refused.message.contains(form.token))

        waiting { app.core.removeDirect(added.host) }
        assertEquals(emptyList<DirectItem>(), waiting { app.core.directAgents() })
        assertEquals(emptyList<File>(), files("secrets"))
    }

    @Test fun denied_in_the_shade_the_command_does_not_run_and_the_agent_goes_on() {
        pair()
        runsCommand()
        tap(asked(), "Deny")
        jobRuns()
        until("the host's word") { shown()?.title == "Denied" }
        assertEquals(RunStatus.COMPLETED, end())
        world.reached("story", 2)
        assertFalse(file.exists())
    }

    @Test fun allowed_for_the_session_after_review_the_change_is_made() {
        pair()
        val patch = "*** Begin Patch\\n*** Add File: answer.txt\\n+$nonce\\n*** End Patch\\n"
        asks("""[{"tools": [{"custom": true, "name": "apply_patch", "input": "$patch"}]}, {"text": "Done."}]""")
        val asked = asked()
        assertTrue(asked.bigText, nonce in asked.bigText.orEmpty())
        val option = item().options.single { it.effect == Effect.AllowSession }
        ActivityScenario.launch<MainActivity>(shadowOf(asked.contentIntent).savedIntent).use {
            appears("option-${option.id}")
            picture(compose.onRoot().captureToImage().asAndroidBitmap(), "review-real.png")
            assertFalse("nothing changed before the answer", file.exists())
            compose.onNodeWithTag("option-${option.id}").performClick()
        }
        jobRuns()
        until("the host's word") { shown()?.title == "Approved" }
        assertEquals(RunStatus.COMPLETED, end())
        assertEquals("$nonce\n", file.readText())
    }

    @Test fun interrupted_while_it_asks_the_notification_goes_and_the_card_says_withdrawn() {
        pair()
        runsCommand()
        asked()
        waiting { app.device.interrupt(app.device.timeline(host, thread).first { it.header.active?.attempt != null }.header).accepted() }
        until("the notification to go") { shown() == null }
        val card = waiting { app.approvals.state.first { state -> state.requests.any { it.progress == Progress.Settled } }.requests.single() }
        assertEquals("Withdrawn: the agent no longer asks.", card.status)
        assertEquals(RunStatus.INTERRUPTED, end())
        assertFalse(file.exists())
    }

    @Test fun an_answer_is_delivered_once_by_a_later_process_if_the_first_dies_before_the_host_has_it() {
        pair()
        runsCommand()
        val asked = asked()
        world.freeze()
        tap(asked, "Approve")
        until("it to be written down") { job() != null }
        app.dieAndBeginAgain()
        assertFalse(file.exists())
        until("the later process to show it as on its way") { shown()?.title == "Sending …" }

        world.resume()
        jobRuns()
        until("the host's word") { shown()?.title == "Approved" }
        assertEquals(RunStatus.COMPLETED, end())
        assertEquals("$nonce\n", file.readText())
    }

    @Test fun of_two_answers_the_first_counts_the_notification_goes_and_the_second_is_told_who_was_first() {
        pair()
        runsCommand()
        asked()
        val item = item()
        val (deny, approve) = listOf(Effect.Deny, Effect.AllowOnce).map { effect -> item.answer(item.options.single { it.effect == effect }) }
        val outcomes = waiting { listOf(deny, approve).map { it to app.core.answer(it) }.map { (answer, command) -> app.core.outcome(answer, command) } }
        val label = item.options.single { it.effect == Effect.Deny }.label
        assertEquals(listOf(Outcome.Confirmed, Outcome.AnsweredElsewhere(label)), outcomes)
        until("the notification to go") { shown() == null }
        val card = waiting { app.approvals.state.first { state -> state.requests.any { it.progress == Progress.Settled } }.requests.single() }
        assertEquals("Answered: $label", card.status)
        assertEquals(RunStatus.COMPLETED, end())
        assertFalse(file.exists())
    }

    @Test fun a_code_that_was_used_is_refused_in_words_and_so_is_one_that_is_none() {
        val used = pair()
        for (code in listOf(used, "pilothouse:pair?nonsense", "hello")) {
            app.pairing.open(code)
            app.pairing.onEvent(PairEvent.Confirm)
            val problem = waiting { checkNotNull(app.pairing.state.first { it?.problem != null }?.problem) }
            assertTrue("says what to do: $problem", problem.contains("pilothouse pair"))
        }
    }

    /** A link opens the app with the code; its person agrees on the screen. */
    private fun pairByLink() {
        val intent = Intent(Intent.ACTION_VIEW, Uri.parse(world.pairingCode())).setPackage(app.packageName)
        val target = checkNotNull(app.packageManager.resolveActivity(intent, 0)) { "no activity takes the code" }.activityInfo.name
        ActivityScenario.launch<MainActivity>(intent.setClassName(app, target)).use {
            appears("pair")
            picture(compose.onRoot().captureToImage().asAndroidBitmap(), "pair-real.png")
            compose.onNodeWithTag("pair").performClick()
            appears("paired")
            compose.onNodeWithTag("close-pairing").performClick()
        }
        findHost()
    }

    private fun pair(): String {
        val code = world.pairingCode()
        assertEquals("wren", waiting { app.core.pair(code) })
        findHost()
        return code
    }

    private fun findHost() {
        host = waiting { app.device.hosts().first { it.isNotEmpty() }.single().host }
    }

    private fun runsCommand() =
        asks("""[{"text": "I will run it.", "tools": [{"name": "exec_command", "args": {"cmd": "echo $nonce >> answer.txt"}}]}, {"text": "Done."}]""")

    private fun asks(steps: String) {
        world.script("story", steps)
        waiting {
            val made = app.device.createThread(host, "demo", "codex", "Write the answer")
            thread = made.thread
            made.accepted()
            app.device.send(host, thread, "Go [[script:story]]").accepted()
        }
    }

    /** The notification of the one request, once it is there. */
    private fun asked(): Notification {
        until("the request") { shown()?.labels.orEmpty().isNotEmpty() }
        return checkNotNull(shown())
    }

    private fun tag(): String? = manager.activeNotifications.firstOrNull { it.id == Notifications.REQUEST && it.tag.startsWith("$host/$thread/") }?.tag

    private fun shown(): Notification? = tag()?.let { shadowOf(manager).getNotification(it, Notifications.REQUEST) }

    private fun item(): RequestItem = waiting { app.approvals.state.first { it.requests.isNotEmpty() }.requests.single() }

    private fun tap(notification: Notification, label: String) = notification.actions.single { it.title == label }.actionIntent.send()

    private fun job() = tag()?.let { WorkManager.getInstance(app).getWorkInfosForUniqueWork("deliver/$it").get().lastOrNull() }

    /** There is a network, and the system lets the job run. */
    private fun jobRuns() {
        until("the job") { job() != null }
        checkNotNull(WorkManagerTestInitHelper.getTestDriver(app)).setAllConstraintsMet(checkNotNull(job()).id)
    }

    private fun end(): RunStatus? = waiting { app.device.timeline(host, thread).first { it.header.active == null && it.header.lastStatus != null }.header.lastStatus }

    private fun <T> waiting(work: suspend () -> T): T = runBlocking { withTimeout(EndToEndWorld.PATIENCE_MS) { work() } }

    private fun appears(tag: String) = compose.waitUntil("$tag appears", EndToEndWorld.PATIENCE_MS) { compose.onAllNodesWithTag(tag).fetchSemanticsNodes().isNotEmpty() }

    private fun until(what: String, reached: () -> Boolean) {
        val deadline = System.currentTimeMillis() + EndToEndWorld.PATIENCE_MS
        while (true) {
            shadowOf(Looper.getMainLooper()).idle()
            if (reached()) return
            check(System.currentTimeMillis() < deadline) { "waited for $what; the shade shows ${shown()?.everyText}; the job is ${job()}\n${world.log}" }
            LockSupport.parkNanos(5_000_000)
        }
    }

    /** The first screen as it is now. */
    private fun picture(name: String) = ActivityScenario.launch(MainActivity::class.java).use {
        appears("request-${checkNotNull(tag()).substringAfterLast('/')}")
        picture(compose.onRoot().captureToImage().asAndroidBitmap(), name)
    }

    private fun picture(picture: Bitmap, name: String) {
        val to = File("target/screens").apply { mkdirs() }.resolve(name)
        to.outputStream().use { picture.compress(Bitmap.CompressFormat.PNG, 100, it) }
    }
}

package dev.pilothouse.android

import android.content.Intent
import android.net.Uri
import androidx.test.core.app.ApplicationProvider
import androidx.work.OneTimeWorkRequestBuilder
import androidx.work.WorkInfo
import androidx.work.WorkManager
import androidx.work.testing.WorkManagerTestInitHelper
import dev.pilothouse.android.ui.InboxEvent
import dev.pilothouse.android.ui.RequestItem
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner

/** From a tap in the shade to the host's word: receiver, outbox, job. */
@RunWith(RobolectricTestRunner::class)
class DecisionTest {
    private val app = ApplicationProvider.getApplicationContext<TestApp>()
    private val shade = Shade(app)
    private val item = request("r1")

    private fun job(of: RequestItem): WorkInfo? =
        WorkManager.getInstance(app).getWorkInfosForUniqueWork("deliver/${of.id}").get().lastOrNull()

    private fun networkComes(of: RequestItem) {
        checkNotNull(WorkManagerTestInitHelper.getTestDriver(app)).setAllConstraintsMet(checkNotNull(job(of)).id)
        shade.settle()
    }

    private fun shown(of: RequestItem = item) = checkNotNull(shade.of(of))

    @Test fun case_10_a_tap_is_sending_until_the_host_has_said_approved() {
        app.core.tells(item)
        shade.tap(item, "Approve")
        assertEquals(listOf(item.answer(approve)), app.core.outbox)
        assertEquals("Sending …", shown().title)
        assertEquals(emptyList<String>(), shown().labels)
        assertEquals("written down, and listened for here", listOf("0"), app.core.delivering)
        assertEquals(WorkInfo.State.ENQUEUED, job(item)?.state)

        networkComes(item)
        assertEquals("and in the job, which keeps the process alive", listOf("0", "0"), app.core.delivering)
        assertEquals("Sending …", shown().title)
        assertEquals(WorkInfo.State.RUNNING, job(item)?.state)

        app.core.decides(0, Outcome.Confirmed)
        shade.settle()
        assertEquals("Approved", shown().title)
        assertTrue("it goes away by itself", shown().timeoutAfter > 0)
        assertEquals(WorkInfo.State.SUCCEEDED, job(item)?.state)
    }

    @Test fun what_became_of_an_answer_is_heard_where_the_job_never_runs() {
        app.core.tells(item)
        shade.tap(item, "Approve")
        app.core.refuses(0, "This phone may not approve; ask for the scope on wren.")
        assertEquals("This phone may not approve; ask for the scope on wren.", shown().note)
        shade.tap(item, "Deny")
        assertEquals(listOf(item.answer(approve), item.answer(deny)), app.core.outbox)
        assertEquals("Sending …", shown().title)

        networkComes(item)
        assertEquals("the late job of the first answer says nothing about the second", "Sending …", shown().title)
        app.core.decides(1, Outcome.Confirmed)
        assertEquals("Denied", shown().title)
    }

    @Test fun the_end_of_an_answer_says_nothing_about_one_given_to_another_text_since() {
        app.core.tells(item)
        shade.tap(item, "Approve")
        val changed = item.copy(contentHash = "other")
        app.core.tells(changed)
        app.approvals.onEvent(InboxEvent.Answer(changed.key, "other", deny))
        assertEquals(listOf(item.answer(approve), changed.answer(deny)), app.core.outbox)
        app.core.refuses(0, "stale")
        assertEquals("Sending …", shown().title)
        app.core.decides(1, Outcome.Confirmed)
        assertEquals("Denied", shown().title)
    }

    @Test fun a_tap_right_after_the_text_was_replaced_is_not_taken_for_the_new_one() {
        app.core.tells(item)
        val changed = item.copy(contentHash = "other", subject = item.subject.copy(command = "git push --force"))
        app.core.tells(changed)
        shade.tap(changed, "Approve")
        shade.tap(changed, "Deny")
        assertEquals(emptyList<Answer>(), app.core.outbox)
        assertEquals("Not sent: the request has changed. Look at it again.", shown().note)
        shade.timePasses()
        shade.tap(changed, "Approve")
        assertEquals(listOf(changed.answer(approve)), app.core.outbox)
    }

    @Test fun denying_is_confirmed_as_denied() {
        app.core.tells(item)
        shade.tap(item, "Deny")
        networkComes(item)
        app.core.decides(0, Outcome.Confirmed)
        assertEquals(listOf(item.answer(deny)), app.core.outbox)
        assertEquals("Denied", shown().title)
    }

    @Test fun every_other_end_is_told_in_words() {
        val ends = mapOf(
            Outcome.AnsweredElsewhere("approved on Tablet at 14:02") to "Already answered: approved on Tablet at 14:02",
            Outcome.Expired to "Too late: the request has expired.",
            Outcome.Withdrawn to "Withdrawn: the agent no longer asks.",
            Outcome.Lost to "Lost: the agent ended. Whether your answer reached it is not known.",
            Outcome.Gone to "Not sent: this request no longer waits.",
            Outcome.NotTaken("This phone may not approve; ask for the scope on wren.") to "This phone may not approve; ask for the scope on wren.",
        )
        val items = ends.keys.mapIndexed { n, _ -> request("r$n") }
        app.core.tells(*items.toTypedArray())
        ends.entries.forEachIndexed { n, (outcome, text) ->
            shade.tap(items[n], "Deny")
            networkComes(items[n])
            app.core.decides(n, outcome)
            assertEquals(text, shown(items[n]).title)
        }
    }

    @Test fun case_09_three_requests_are_answered_in_any_order_without_cross_talk() {
        val items = listOf(request("r1"), request("r2"), request("r3"))
        app.core.tells(*items.toTypedArray())
        shade.tap(items[2], "Deny")
        shade.tap(items[0], "Approve")
        assertEquals(listOf("Approve", "Deny", "Review"), shown(items[1]).labels)
        shade.tap(items[1], "Deny")
        assertEquals(listOf(items[2].answer(deny), items[0].answer(approve), items[1].answer(deny)), app.core.outbox)

        items.forEach(::networkComes)
        app.core.decides(1, Outcome.Confirmed)
        assertEquals(listOf("Approved", "Sending …", "Sending …"), items.map { shown(it).title })
        app.core.decides(0, Outcome.Confirmed)
        app.core.decides(2, Outcome.Confirmed)
        assertEquals(listOf("Approved", "Denied", "Denied"), items.map { shown(it).title })
    }

    @Test fun a_second_tap_on_the_same_notification_changes_nothing() {
        app.core.tells(item)
        val posted = shown()
        shade.tap(posted, "Approve")
        shade.tap(posted, "Approve")
        shade.tap(posted, "Deny")
        assertEquals(listOf(item.answer(approve)), app.core.outbox)
        assertEquals("Sending …", shown().title)
    }

    @Test fun case_17_a_button_of_an_older_text_is_refused_in_words_and_the_new_text_waits() {
        app.core.tells(item)
        val old = shown()
        val changed = item.copy(contentHash = "other", subject = item.subject.copy(command = "cargo publish"))
        app.core.tells(changed)
        shade.tap(old, "Approve")
        assertEquals(emptyList<Answer>(), app.core.outbox)
        assertNull(job(item))
        assertEquals("Not sent: the request has changed. Look at it again.", shown().note)
        assertEquals("cargo publish\nin /home/mia/pilothouse", shown().bigText)

        shade.timePasses()
        shade.tap(changed, "Approve")
        assertEquals(listOf(changed.answer(approve)), app.core.outbox)
    }

    @Test fun case_17_a_button_never_answers_a_newer_request() {
        app.core.tells(item)
        val old = shown()
        val newer = request("r2")
        app.core.tells(newer)
        shade.tap(old, "Approve")
        assertEquals(emptyList<Answer>(), app.core.outbox)
        assertEquals(listOf("Approve", "Deny", "Review"), shown(newer).labels)
        assertEquals("Not sent: the request has changed. Look at it again.", shown().title)
    }

    @Test fun case_17_a_button_of_an_earlier_posting_is_refused_even_if_the_text_is_the_same() {
        app.core.tells(item)
        val old = shown()
        app.core.tells()
        app.core.tells(item)
        shade.tap(old, "Approve")
        assertEquals(emptyList<Answer>(), app.core.outbox)
        assertEquals(listOf("Approve", "Deny", "Review"), shown().labels)
    }

    @Test fun case_17_a_tap_that_the_core_refuses_says_why() {
        app.core.tells(item)
        app.core.refusal = Outcome.Gone
        shade.tap(item, "Deny")
        assertEquals("Not sent: this request no longer waits.", shown().note)
        app.core.tells()
        assertEquals("Not sent: this request no longer waits.", shown().title)
    }

    @Test fun an_answer_that_could_not_be_written_down_can_be_given_again() {
        app.core.tells(item)
        app.core.refusal = Outcome.NotTaken("Not saved: this phone's storage is full. Free some and answer again.")
        shade.tap(item, "Approve")
        assertEquals("Not saved: this phone's storage is full. Free some and answer again.", shown().note)
        app.core.refusal = null
        shade.tap(item, "Approve")
        assertEquals(listOf(item.answer(approve)), app.core.outbox)
        assertEquals("Sending …", shown().title)
    }

    @Test fun an_intent_that_no_button_could_have_made_is_ignored() {
        app.core.tells(item)
        val good = NotificationAction(item.answer(approve), "nonce").intent(app)
        val bads = listOf(
            Intent(good).setData(null),
            Intent(good).setAction(null),
            Intent(good).setAction(NotificationAction.DENY),
            Intent(good).setData(Uri.parse("pilothouse://h1/t1?hash=x")),
            Intent(good).setData(Uri.parse("mailto:a@b")),
        )
        for (bad in bads) {
            app.sendBroadcast(bad)
            shade.settle()
        }
        assertEquals(emptyList<Answer>(), app.core.outbox)
        assertEquals(listOf("Approve", "Deny", "Review"), shown().labels)
    }

    @Test fun a_job_whose_core_was_closed_is_run_again() {
        app.core.tells(item)
        shade.tap(item, "Approve")
        networkComes(item)
        app.core.closes(0)
        shade.settle()
        assertEquals(WorkInfo.State.ENQUEUED, job(item)?.state)
        assertEquals("Sending …", shown().title)
    }

    @Test fun the_job_finishes_in_a_process_that_has_not_seen_the_tap() {
        app.core.tells(item)
        app.core.outbox += item.answer(approve)
        val work = OneTimeWorkRequestBuilder<DeliverWorker>().setInputData(Delivery(item.answer(approve), "0").toData()).build()
        WorkManager.getInstance(app).enqueue(work)
        shade.settle()
        assertEquals("Sending …", shown().title)
        app.core.decides(0, Outcome.Confirmed)
        assertEquals("Approved", shown().title)
    }
}

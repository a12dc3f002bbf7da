package dev.pilothouse.android

import android.app.Notification
import android.app.NotificationManager
import android.content.Intent
import androidx.compose.ui.test.assertIsDisplayed
import androidx.compose.ui.test.assertIsNotEnabled
import androidx.compose.ui.test.junit4.v2.createAndroidComposeRule
import androidx.compose.ui.test.onNodeWithTag
import androidx.compose.ui.test.onNodeWithText
import androidx.compose.ui.test.performClick
import androidx.compose.ui.test.performScrollTo
import dev.pilothouse.android.ui.SignInKey
import dev.pilothouse.android.ui.SignInNotice
import dev.pilothouse.android.ui.SignInPage
import dev.pilothouse.android.ui.Trying
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf

/** Case 41: one notice for an agent whose sign-in was refused, not one for each of its threads. */
@RunWith(RobolectricTestRunner::class)
class SignInsTest {
    @get:Rule val rule = createAndroidComposeRule<MainActivity>()
    private val app get() = rule.activity.application as TestApp
    private val shade by lazy { Shade(app) }

    private fun notice(threads: Long, agent: String = "codex", steps: List<String> = listOf("codex login")) =
        SignInNotice(SignInKey("h1", agent), "wren", threads, "t7", steps)

    @Test fun case_41_twenty_threads_are_one_notification_which_is_updated_in_place_and_goes() {
        for (threads in 1L..20L) {
            app.core.tellsSignIns(notice(threads))
            val (tag, shown) = shade.signIns.entries.single()
            assertEquals("h1/codex", tag)
            assertEquals("codex on wren: its sign-in was refused", shown.title)
            assertTrue(shown.flags and Notification.FLAG_ONLY_ALERT_ONCE != 0)
        }
        assertEquals("20 threads wait for it.\nSign in on wren: codex login", shade.signIns.getValue("h1/codex").bigText)
        app.core.tellsSignIns()
        assertTrue(shade.signIns.isEmpty())
    }

    @Test fun another_agent_has_a_notification_of_its_own_and_the_steps_stand_in_order() {
        app.core.tellsSignIns(notice(1), notice(2, "claude", listOf("claude", "/login")), notice(1, "mine", emptyList()))
        assertEquals(setOf("h1/codex", "h1/claude", "h1/mine"), shade.signIns.keys)
        assertEquals("2 threads wait for it.\nSign in on wren: claude → /login", shade.signIns.getValue("h1/claude").bigText)
        assertEquals("1 thread waits for it.\nSign in on wren in the agent's own way.", shade.signIns.getValue("h1/mine").bigText)
    }

    @Test fun an_agent_is_signed_in_from_here_by_a_page_and_a_code() {
        app.core.tellsSignIns(notice(2).copy(canSignIn = true, problem = "nobody came"))
        rule.onNodeWithText("The last sign-in came to nothing: nobody came").assertExists()
        rule.onNodeWithTag("begin-codex").performScrollTo().performClick()
        rule.waitUntil { app.core.begun == listOf("t7") }
        val page = SignInPage("https://auth.example.org/device", "ABCD-1234")
        app.core.tellsSignIns(notice(2).copy(canSignIn = true, page = page))
        rule.onNodeWithText("ABCD-1234").assertExists()
        rule.onNodeWithTag("begin-codex").assertDoesNotExist()
        rule.onNodeWithTag("open-page").performScrollTo().performClick()
        rule.waitForIdle()
        val opened = shadowOf(app).nextStartedActivity
        assertEquals(Intent.ACTION_VIEW to page.url, opened.action to opened.dataString)
        app.core.tellsSignIns(notice(2).copy(canSignIn = true, page = SignInPage("intent://other#Intent;end", null)))
        rule.onNodeWithTag("open-page").assertIsNotEnabled()
    }

    @Test fun what_was_swiped_away_stays_away_while_it_lasts_and_comes_again_the_next_time() {
        app.core.tellsSignIns(notice(1))
        app.service<NotificationManager>().cancel("h1/codex", SignInNotifications.SIGN_IN)
        app.core.tellsSignIns(notice(2))
        assertTrue(shade.signIns.isEmpty())
        app.core.tellsSignIns()
        app.core.tellsSignIns(notice(1))
        assertEquals(setOf("h1/codex"), shade.signIns.keys)
    }

    @Test fun one_of_an_earlier_process_goes_if_it_is_over() {
        val old = Notification.Builder(app, SignInNotifications.FAILED).setSmallIcon(R.drawable.ic_notification).build()
        app.service<NotificationManager>().notify("h1/pi", SignInNotifications.SIGN_IN, old)
        app.core.tellsSignIns(notice(1))
        assertEquals(setOf("h1/codex"), shade.signIns.keys)
    }

    @Test fun the_lock_screen_names_the_host_and_neither_agent_nor_command() {
        app.core.tellsSignIns(notice(1))
        val shown = shade.signIns.getValue("h1/codex")
        assertEquals(Notification.VISIBILITY_PRIVATE, shown.visibility)
        assertEquals("wren: a sign-in was refused", shown.publicVersion.title)
        assertFalse("codex" in shown.publicVersion.everyText)
        assertEquals(SignInNotifications.FAILED, shown.channelId)
    }

    @Test fun the_screen_says_what_to_do_and_lets_one_thread_try() {
        app.core.tells()
        app.core.tellsSignIns(notice(20))
        rule.onNodeWithText("codex on wren: its sign-in was refused").assertIsDisplayed()
        rule.onNodeWithText("20 threads wait for it.").assertIsDisplayed()
        rule.onNodeWithText("codex login").assertIsDisplayed()
        rule.onNodeWithTag("try-codex").performClick()
        rule.runOnIdle { assertEquals(listOf("t7"), app.core.tried) }
        app.core.tellsSignIns()
        rule.onNodeWithTag("sign-in-codex").assertDoesNotExist()
    }

    @Test fun why_it_could_not_be_tried_is_told_on_the_card() {
        app.core.tells()
        app.core.tellsSignIns(notice(1))
        app.core.trouble.value = "wren is away: try later"
        rule.onNodeWithTag("try-codex").performClick()
        rule.onNodeWithText("wren is away: try later").assertIsDisplayed()
        assertEquals(Trying.Refused("wren is away: try later"), app.signIns.state.value.single().trying)
    }
}

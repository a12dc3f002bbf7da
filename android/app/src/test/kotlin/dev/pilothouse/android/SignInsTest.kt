package dev.pilothouse.android

import android.Manifest
import android.app.Notification
import android.app.NotificationManager
import android.content.ClipboardManager
import android.content.Intent
import androidx.compose.ui.test.assertIsDisplayed
import androidx.compose.ui.test.assertIsNotEnabled
import androidx.compose.ui.test.junit4.v2.createAndroidComposeRule
import androidx.compose.ui.test.onNodeWithTag
import androidx.compose.ui.test.onNodeWithText
import androidx.compose.ui.test.performClick
import androidx.compose.ui.test.performScrollTo
import dev.pilothouse.android.ui.BegunSignIn
import dev.pilothouse.android.ui.RequestKey
import dev.pilothouse.android.ui.RequestKind
import dev.pilothouse.android.ui.SignInKey
import dev.pilothouse.android.ui.SignInNotice
import dev.pilothouse.android.ui.SignInPage
import dev.pilothouse.android.ui.Trying
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.test.currentTime
import kotlinx.coroutines.test.runTest
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf

/** Case 41: one notice for an agent whose sign-in was refused, not one for each of its threads. */
@OptIn(ExperimentalCoroutinesApi::class)
@RunWith(RobolectricTestRunner::class)
class SignInsTest {
    @get:Rule val rule = createAndroidComposeRule<MainActivity>()
    private val app get() = rule.activity.application as TestApp
    private val shade by lazy { Shade(app) }

    private fun notice(threads: Long, agent: String = "codex", steps: List<String> = listOf("codex login")) =
        SignInNotice(SignInKey("h1", agent), "wren", threads, "t7", steps)

    private val page = SignInPage("https://auth.example.org/device", "ABCD-1234")

    private fun begun(request: RequestKey? = RequestKey("h1", "t7", "r9"), page: SignInPage? = this.page) =
        notice(2).copy(canSignIn = true, begun = BegunSignIn(request, page))

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
        app.core.tellsSignIns(
            notice(1).copy(canSignIn = true), notice(2, "claude", listOf("claude", "/login")), notice(1, "mine", emptyList()),
        )
        assertEquals(setOf("h1/codex", "h1/claude", "h1/mine"), shade.signIns.keys)
        assertEquals(
            "1 thread waits for it.\nTap to sign in from here.\nSign in on wren: codex login",
            shade.signIns.getValue("h1/codex").bigText,
        )
        assertEquals("2 threads wait for it.\nSign in on wren: claude → /login", shade.signIns.getValue("h1/claude").bigText)
        assertEquals("1 thread waits for it.\nSign in on wren in the agent's own way.", shade.signIns.getValue("h1/mine").bigText)
    }

    @Test fun an_agent_is_signed_in_from_here_by_a_page_and_a_code() {
        app.core.tellsSignIns(notice(2).copy(canSignIn = true, problem = "nobody came"))
        rule.onNodeWithText("The last sign-in came to nothing: nobody came").assertExists()
        rule.onNodeWithTag("begin-codex").performScrollTo().performClick()
        rule.waitUntil { app.core.begun == listOf("t7") }
        app.core.tellsSignIns(begun())
        rule.onNodeWithText("ABCD-1234").assertExists()
        rule.onNodeWithTag("begin-codex").assertDoesNotExist()
        rule.onNodeWithTag("open-page").performScrollTo().performClick()
        rule.waitForIdle()
        val opened = shadowOf(app).nextStartedActivity
        assertEquals(Intent.ACTION_VIEW to page.url, opened.action to opened.dataString)
    }

    @Test fun only_an_encrypted_page_of_the_web_is_opened() {
        for (url in listOf("intent://other#Intent;end", "http://auth.example.org/device", "tel:112", "httpsx://a", "content://a")) {
            app.core.tellsSignIns(begun(page = SignInPage(url, null)))
            rule.onNodeWithTag("open-page").performScrollTo().assertIsNotEnabled()
        }
    }

    @Test fun where_no_app_opens_the_page_its_link_can_be_copied() {
        shadowOf(app).grantPermissions(Manifest.permission.POST_NOTIFICATIONS)
        shadowOf(app).checkActivities(true)
        app.core.tellsSignIns(begun())
        rule.onNodeWithTag("copy-link").assertDoesNotExist()
        rule.onNodeWithTag("open-page").performScrollTo().performClick()
        rule.onNodeWithTag("copy-link").performScrollTo().performClick()
        rule.waitForIdle()
        assertEquals(page.url, app.service<ClipboardManager>().primaryClip?.getItemAt(0)?.text?.toString())
    }

    @Test fun one_that_was_begun_elsewhere_is_shown_and_not_begun_again() {
        val asked = request("r9").copy(kind = RequestKind.SignIn)
        app.core.tells(asked)
        app.core.tellsSignIns(begun(request = null, page = null))
        rule.onNodeWithText("A sign-in was begun. How it goes on is shown here as soon as it is known.").assertExists()
        rule.onNodeWithTag("begin-codex").assertDoesNotExist()
        // A tap that was on its way when the word of the other device came.
        app.signIns.signIn(SignInKey("h1", "codex"))
        app.core.tellsSignIns(begun(request = asked.key, page = null))
        rule.onNodeWithTag("show-sign-in").performScrollTo().performClick()
        rule.onNodeWithText("Review").assertIsDisplayed()
        rule.onNodeWithText("Run a command (r9)").assertIsDisplayed()
        assertEquals(emptyList<String>(), app.core.begun)
    }

    @Test fun one_that_the_host_does_not_answer_in_time_is_not_called_tried() = runTest {
        val gateway = PilothouseGateway(app, CompletableDeferred(), backgroundScope)
        val signIn = runCatching { gateway.signIn(notice(1)) }.exceptionOrNull() as CoreUnavailable
        assertEquals("The host has not answered yet. The sign-in begins as soon as it can be reached.", signIn.message)
        val trying = runCatching { gateway.tryAgain(notice(1)) }.exceptionOrNull() as CoreUnavailable
        assertEquals("The host did not answer in time. If nothing changes once it can be reached, try again.", trying.message)
        assertEquals(60_000, currentTime)
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

package dev.pilothouse.android

import android.content.Intent
import android.graphics.Bitmap
import android.net.Uri
import androidx.compose.ui.graphics.asAndroidBitmap
import androidx.compose.ui.test.assertIsDisplayed
import androidx.compose.ui.test.assertIsNotEnabled
import androidx.compose.ui.test.assertTextContains
import androidx.compose.ui.test.assertTextEquals
import androidx.compose.ui.test.captureToImage
import androidx.compose.ui.test.junit4.v2.createAndroidComposeRule
import androidx.compose.ui.test.onNodeWithTag
import androidx.compose.ui.test.onNodeWithText
import androidx.compose.ui.test.onRoot
import androidx.compose.ui.test.performClick
import androidx.compose.ui.test.performScrollTo
import androidx.compose.ui.test.performTextInput
import androidx.lifecycle.Lifecycle
import androidx.test.platform.app.InstrumentationRegistry
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import java.io.File

@RunWith(RobolectricTestRunner::class)
@Config(qualifiers = "w400dp-h600dp-xhdpi")
class MainActivityTest {
    @get:Rule val rule = createAndroidComposeRule<MainActivity>()
    private val app get() = rule.activity.application as TestApp
    private val item = request("r1")

    @Test fun approving_on_the_screen_writes_it_down_and_shows_it_as_sending_in_the_shade_too() {
        app.core.tells(item)
        rule.onNodeWithText("cargo publish --dry-run").assertIsDisplayed()
        rule.onNodeWithTag("approve-r1").performClick()
        rule.onNodeWithText("Sending …").assertIsDisplayed()
        assertEquals(listOf(item.answer(approve)), app.core.outbox)
        assertEquals("Sending …", Shade(app).of(item)?.title)
    }

    @Test fun a_refusal_is_told_on_the_card_and_the_request_still_waits() {
        app.core.tells(item)
        app.core.refusal = Outcome.Changed
        rule.onNodeWithTag("deny-r1").performClick()
        rule.onNodeWithTag("problem-r1").assertIsDisplayed()
        rule.onNodeWithTag("approve-r1").assertIsDisplayed()
    }

    @Test fun a_notification_opens_its_request_for_review() {
        app.core.tells(request("r0"), item)
        opensNotification()
        rule.onNodeWithText("Review").assertIsDisplayed()
        rule.onNodeWithText("Run a command (r1)").assertIsDisplayed()
        assertEquals(true to item.key, app.core.environments.last())
        rule.onNodeWithTag("close-review").performClick()
        rule.onNodeWithText("Waiting for you: 2").assertIsDisplayed()
        rule.activityRule.scenario.moveToState(Lifecycle.State.CREATED)
        assertEquals(false to null, app.core.environments.last())
    }

    @Test fun a_core_that_does_not_open_says_why() {
        app.core.trouble.value = "The data directory is damaged: remove it and pair again"
        rule.onNodeWithText("The data directory is damaged: remove it and pair again").assertIsDisplayed()
    }

    @Test fun a_link_with_a_code_pairs_only_after_its_person_agreed() {
        opens(link)
        rule.onNodeWithTag("code").assertTextContains("pilothouse:pair?AWLs9eik7")
        assertEquals(emptyList<String>(), app.core.paired)
        rule.onNodeWithTag("pair").performClick()
        rule.onNodeWithTag("paired").assertIsDisplayed()
        assertEquals(listOf("pilothouse:pair?AWLs9eik7"), app.core.paired)
        rule.onNodeWithTag("close-pairing").performClick()
        rule.onNodeWithText("Nothing waits for you").assertIsDisplayed()
    }

    @Test fun a_pasted_code_that_does_not_pair_stays_with_the_reason() {
        app.core.pairingProblem = "The code has expired: run “pilothouse pair” again"
        rule.onNodeWithTag("pair-host").performClick()
        rule.onNodeWithTag("pair").assertIsNotEnabled()
        rule.onNodeWithTag("code").performTextInput("  pilothouse:pair?old ")
        rule.onNodeWithTag("pair").performClick()
        rule.onNodeWithTag("pairing-problem").assertTextEquals("The code has expired: run “pilothouse pair” again")
        app.core.pairingProblem = null
        rule.onNodeWithTag("pair").performClick()
        assertEquals(listOf("pilothouse:pair?old"), app.core.paired)
    }

    @Test fun a_link_over_the_form_of_an_agent_is_what_back_closes_and_the_form_stays() {
        rule.onNodeWithTag("pair-host").performClick()
        rule.onNodeWithTag("drive-direct").performScrollTo().performClick()
        rule.onNodeWithTag("direct-name").performScrollTo().performTextInput("box")
        opens(link)
        rule.onNodeWithTag("pair").assertIsDisplayed()
        back()
        rule.onNodeWithTag("pair").assertDoesNotExist()
        rule.onNodeWithTag("direct-name").performScrollTo().assertTextContains("box")
        back()
        rule.onNodeWithText("Nothing waits for you").assertIsDisplayed()
    }

    private fun opens(intent: Intent) =
        rule.activityRule.scenario.onActivity { InstrumentationRegistry.getInstrumentation().callActivityOnNewIntent(it, intent) }

    private val link get() = Intent(Intent.ACTION_VIEW, Uri.parse("pilothouse:pair?AWLs9eik7"), app, MainActivity::class.java)

    private fun opensNotification() = opens(shadowOf(checkNotNull(Shade(app).of(item)).contentIntent).savedIntent)

    @Test fun a_notification_opens_its_request_above_a_pairing_that_ended() {
        opens(link)
        rule.onNodeWithTag("pair").performClick()
        rule.onNodeWithTag("paired").assertIsDisplayed()
        app.core.tells(item)
        opensNotification()
        rule.onNodeWithText("Run a command (r1)").assertIsDisplayed()
        back()
        rule.onNodeWithTag("paired").assertIsDisplayed()
    }

    @Test fun a_notification_opens_its_request_above_the_form_of_an_agent_and_a_link_opens_above_both() {
        rule.onNodeWithTag("pair-host").performClick()
        rule.onNodeWithTag("drive-direct").performScrollTo().performClick()
        rule.onNodeWithTag("direct-name").performScrollTo().performTextInput("box")
        app.core.tells(item)
        opensNotification()
        rule.onNodeWithText("Run a command (r1)").assertIsDisplayed()
        opens(link)
        rule.onNodeWithTag("pair").assertIsDisplayed()
        back()
        rule.onNodeWithTag("direct-name").performScrollTo().assertTextContains("box")
    }

    @Test fun a_host_can_be_paired_after_the_request_that_a_notification_opened_has_gone() {
        app.core.tells(item)
        opensNotification()
        rule.onNodeWithText("Review").assertIsDisplayed()
        app.core.tells()
        rule.onNodeWithTag("pair-host").performClick()
        rule.onNodeWithTag("pair").assertIsDisplayed()
    }

    private fun back() = rule.runOnUiThread { rule.activity.onBackPressedDispatcher.onBackPressed() }

    @Test fun screenshot() {
        app.core.tells(item, request("r2", "git push --force-with-lease").copy(oneTapAllowed = false))
        rule.waitForIdle()
        val picture = rule.onRoot().captureToImage().asAndroidBitmap()
        File("target/screens").mkdirs()
        File("target/screens/inbox.png").outputStream().use { picture.compress(Bitmap.CompressFormat.PNG, 100, it) }
        val colours = (0 until picture.height step 8).flatMap { y -> (0 until picture.width step 8).map { x -> picture.getPixel(x, y) } }.toSet()
        assertTrue("the picture is not blank: ${colours.size} colours", colours.size > 10)
    }
}

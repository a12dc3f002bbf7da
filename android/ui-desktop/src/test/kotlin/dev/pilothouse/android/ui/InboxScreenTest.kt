package dev.pilothouse.android.ui

import androidx.compose.runtime.CompositionLocalProvider
import androidx.compose.runtime.getValue
import androidx.compose.runtime.mutableStateOf
import androidx.compose.runtime.setValue
import androidx.compose.ui.ImageComposeScene
import androidx.compose.ui.platform.LocalDensity
import androidx.compose.ui.test.ComposeUiTest
import androidx.compose.ui.test.ExperimentalTestApi
import androidx.compose.ui.test.assertIsDisplayed
import androidx.compose.ui.test.assertIsEnabled
import androidx.compose.ui.test.assertIsNotEnabled
import androidx.compose.ui.test.getBoundsInRoot
import androidx.compose.ui.test.onNodeWithTag
import androidx.compose.ui.test.onNodeWithText
import androidx.compose.ui.test.performClick
import androidx.compose.ui.test.performTouchInput
import androidx.compose.ui.test.runDesktopComposeUiTest
import androidx.compose.ui.test.swipeUp
import androidx.compose.ui.test.v2.runComposeUiTest
import androidx.compose.ui.unit.Density
import androidx.compose.ui.unit.dp
import org.jetbrains.skia.EncodedImageFormat
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import java.io.File
import javax.imageio.ImageIO

@OptIn(ExperimentalTestApi::class)
class InboxScreenTest {
    private val long = (1..120).joinToString(" &&\n") { "echo step $it" }
    private val events = mutableListOf<InboxEvent>()

    private fun ComposeUiTest.show(vararg requests: RequestItem, reviewing: String? = null) =
        setContent { InboxScreen(InboxState(requests.toList(), NOW, reviewing), events::add) }

    @Test fun a_card_shows_what_is_asked_where_and_for_how_long() = runComposeUiTest {
        show(request("r1"))
        onNodeWithText("Waiting for you: 1").assertIsDisplayed()
        onNodeWithText("cargo publish --dry-run").assertIsDisplayed()
        onNodeWithText("in /home/mia/pilothouse").assertIsDisplayed()
        onNodeWithText("wren › pilothouse › Publish the crate").assertIsDisplayed()
        onNodeWithText("Waits for 2 min").assertIsDisplayed()
    }

    @Test fun an_answer_names_the_request_and_the_text_that_was_shown() = runComposeUiTest {
        val (first, second) = listOf(request("r1"), request("r2", "git push"))
        show(first, second)
        onNodeWithTag("deny-r2").performClick()
        onNodeWithTag("approve-r1").performClick()
        runOnIdle { assertEquals(listOf<InboxEvent>(answer(second, "no"), answer(first, "yes")), events) }
    }

    @Test fun a_tap_right_after_the_card_above_went_is_not_taken_for_the_one_that_moved_up() = runComposeUiTest {
        val (first, second) = listOf(request("r1"), request("r2", "git push"))
        var shown by mutableStateOf(listOf(first, second))
        setContent { InboxScreen(InboxState(shown, NOW), events::add) }
        mainClock.autoAdvance = false
        shown = listOf(second)
        mainClock.advanceTimeByFrame()
        mainClock.advanceTimeByFrame()
        onNodeWithTag("approve-r2").performClick()
        onNodeWithTag("deny-r2").performClick()
        assertEquals(emptyList<InboxEvent>(), events)
        mainClock.advanceTimeBy(1000)
        onNodeWithTag("approve-r2").performClick()
        mainClock.advanceTimeByFrame()
        assertEquals(listOf<InboxEvent>(answer(second, "yes")), events)
        // What comes below moves nothing.
        shown = listOf(second, first)
        mainClock.advanceTimeByFrame()
        mainClock.advanceTimeByFrame()
        onNodeWithTag("deny-r2").performClick()
        mainClock.advanceTimeByFrame()
        assertEquals(2, events.size)
    }

    private val changed = request("r1", "git push --force").copy(contentHash = "other")
    private val notice = SignInNotice(SignInKey("h1", "codex"), "wren", 2, "t1", listOf("codex login"), canSignIn = true)

    /** What is tapped two frames after the screen became another answers nothing, and a second later it does. */
    private fun tapsRightAfter(before: InboxState, after: InboxState, item: RequestItem) = runComposeUiTest {
        var state by mutableStateOf(before)
        setContent { InboxScreen(state, events::add) }
        waitForIdle()
        mainClock.autoAdvance = false
        state = after
        repeat(2) { mainClock.advanceTimeByFrame() }
        onNodeWithTag("approve-${item.key.request}").performClick()
        onNodeWithTag("deny-${item.key.request}").performClick()
        assertEquals(emptyList<InboxEvent>(), events)
        mainClock.advanceTimeBy(1000)
        onNodeWithTag("approve-${item.key.request}").performClick()
        mainClock.advanceTimeByFrame()
        assertEquals(listOf<InboxEvent>(answer(item, "yes")), events)
    }

    @Test fun a_tap_right_after_the_text_was_replaced_is_not_taken_for_the_new_one() =
        tapsRightAfter(InboxState(listOf(request("r1", "git status")), NOW), InboxState(listOf(changed), NOW), changed)

    @Test fun a_tap_right_after_the_text_under_review_was_replaced_is_not_taken_for_the_new_one() =
        request("r1", "git status").let { tapsRightAfter(InboxState(listOf(it), NOW, it.id), InboxState(listOf(changed), NOW, it.id), changed) }

    @Test fun a_tap_right_after_the_sign_in_above_went_is_not_taken_for_the_card_that_moved_up() =
        request("r1").let { tapsRightAfter(InboxState(listOf(it), NOW, signIns = listOf(notice)), InboxState(listOf(it), NOW), it) }

    @Test fun a_tap_right_after_the_card_above_became_smaller_is_not_taken_for_the_one_that_moved_up() {
        val (first, second) = listOf(request("r1"), request("r2", "git push"))
        tapsRightAfter(InboxState(listOf(first, second), NOW), InboxState(listOf(first.copy(progress = Progress.Sending), second), NOW), second)
    }

    @Test fun what_comes_below_right_after_something_moved_makes_no_tap_count() = runComposeUiTest {
        var shown by mutableStateOf(listOf(request("r1", "git status")))
        setContent { InboxScreen(InboxState(shown, NOW), events::add) }
        waitForIdle()
        mainClock.autoAdvance = false
        shown = listOf(changed)
        repeat(2) { mainClock.advanceTimeByFrame() }
        shown = listOf(changed, request("r2"))
        repeat(2) { mainClock.advanceTimeByFrame() }
        onNodeWithTag("approve-r1").performClick()
        assertEquals(emptyList<InboxEvent>(), events)
    }

    @Test fun case_08_a_text_far_longer_than_the_card_is_reviewed_however_its_head_looks() = runComposeUiTest {
        show(request("r1", "ls" + "\u200a".repeat(200_000) + "; rm -rf ~"), request("r2", "\u4e00".repeat(200_000)))
        onNodeWithTag("approve-r1").assertDoesNotExist()
        onNodeWithTag("approve-r2").assertDoesNotExist()
    }

    @Test fun case_08_a_text_that_does_not_fit_the_card_is_reviewed_not_approved() = runComposeUiTest {
        show(request("r1", long))
        onNodeWithTag("approve-r1").assertDoesNotExist()
        onNodeWithTag("deny-r1").assertIsDisplayed()
        onNodeWithTag("review-r1").performClick()
        runOnIdle { assertEquals(listOf<InboxEvent>(InboxEvent.Review("h1/t1/r1")), events) }
    }

    @Test fun what_the_host_keeps_from_one_tap_is_reviewed() = runComposeUiTest {
        show(request("r1", oneTapAllowed = false))
        onNodeWithTag("approve-r1").assertDoesNotExist()
        onNodeWithTag("review-r1").assertIsDisplayed()
    }

    @Test fun case_08_approve_becomes_active_at_the_end_of_the_text() = runComposeUiTest {
        val item = request("r1", long)
        show(item, reviewing = item.id)
        onNodeWithTag("approve-r1").assertIsNotEnabled()
        onNodeWithTag("option-session").assertIsNotEnabled()
        onNodeWithTag("deny-r1").assertIsEnabled()
        repeat(10) { onNodeWithTag("subject").performTouchInput { swipeUp() } }
        onNodeWithTag("approve-r1").assertIsEnabled().performClick()
        runOnIdle { assertEquals(listOf<InboxEvent>(answer(item, "yes")), events) }
    }

    /** The four answers that codex offers to a change of files. */
    private val many = listOf(
        AnswerOption("accept", "Approve", Effect.AllowOnce, "these changes, this once"),
        AnswerOption("acceptForSession", "Approve for this session", Effect.AllowSession, "these changes, and further ones to the same files without asking until codex ends"),
        AnswerOption("decline", "Deny", Effect.Deny, "nothing is changed; the turn goes on"),
        AnswerOption("cancel", "Deny and stop", Effect.DenyAndStop, "nothing is changed and the turn is stopped"),
    )

    @Test fun a_review_can_be_read_and_answered_on_a_small_screen_and_with_a_large_font() {
        val refused = request("r1", (1..30).joinToString("\n") { "echo step $it" }).copy(options = many, problem = "Not sent: the request has changed. Look at it again. ".repeat(8))
        for (item in listOf(refused.copy(problem = null), refused)) {
            for ((width, height, font) in listOf(Triple(800, 360, 1f), Triple(891, 411, 1.3f), Triple(360, 640, 2f), Triple(640, 360, 2f))) {
                val screen = "$width x $height, font $font"
                runDesktopComposeUiTest(2 * width, 2 * height) {
                    setContent {
                        CompositionLocalProvider(LocalDensity provides Density(2f, font)) { InboxScreen(InboxState(listOf(item), NOW, item.id), events::add) }
                    }
                    for (button in listOf("deny-r1", "approve-r1")) {
                        val size = onNodeWithTag(button).fetchSemanticsNode().size
                        assertTrue("$button at $screen: $size", size.height >= 2 * 40 && size.width >= 2 * 58)
                    }
                    val text = onNodeWithTag("subject").fetchSemanticsNode().size.height / 2
                    assertTrue("the text at $screen: $text dp", text >= 100)
                    onNodeWithTag("approve-r1").assertIsNotEnabled()
                    repeat(40) { onNodeWithTag("subject").performTouchInput { swipeUp() } }
                    onNodeWithTag("option-cancel").assertIsDisplayed()
                    onNodeWithTag("approve-r1").assertIsEnabled().performClick()
                    runOnIdle { assertEquals(screen, listOf<InboxEvent>(answer(item, "accept")), events.toList()) }
                    events.clear()
                }
            }
        }
    }

    @Test fun a_short_text_can_be_approved_as_soon_as_it_is_open() = runComposeUiTest {
        show(request("r1", oneTapAllowed = false), reviewing = "h1/t1/r1")
        onNodeWithTag("approve-r1").assertIsEnabled()
        onNodeWithText("The agent says: “to check the package”").assertIsDisplayed()
        onNodeWithText("this command, until the session ends").assertIsDisplayed()
    }

    @Test fun case_08_hidden_characters_are_named_in_the_review() = runComposeUiTest {
        show(request("r1", "rm -rf ./a\u202Eb"), reviewing = "h1/t1/r1")
        onNodeWithText("rm -rf ./a⟨U+202E⟩b").assertIsDisplayed()
        onNodeWithText("Contains characters that are hidden or look like others (1), shown as ⟨U+…⟩.").assertIsDisplayed()
    }

    @Test fun what_to_know_before_approving_stands_above_the_text() = runComposeUiTest {
        show(request("r1").copy(hints = listOf("Leaves the sandbox")), reviewing = "h1/t1/r1")
        onNodeWithText("Leaves the sandbox").assertIsDisplayed()
    }

    @Test fun approve_and_deny_are_far_apart() = runComposeUiTest {
        show(request("r1"))
        val gap = onNodeWithTag("approve-r1").getBoundsInRoot().left - onNodeWithTag("deny-r1").getBoundsInRoot().right
        assertTrue("$gap", gap > 96.dp)
    }

    @Test fun case_10_an_answer_on_its_way_has_no_buttons_and_is_not_called_approved() = runComposeUiTest {
        show(request("r1", progress = Progress.Sending, status = "Sending …"))
        onNodeWithText("Sending …").assertIsDisplayed()
        onNodeWithTag("approve-r1").assertDoesNotExist()
        onNodeWithTag("deny-r1").assertDoesNotExist()
        onNodeWithText("Nothing waits for you").assertIsDisplayed()
    }

    @Test fun screenshots() {
        val unknown = request("r3", "").copy(kind = RequestKind.Unknown, title = "Something that this app cannot show")
        val refused = request("r4", "git push --force").copy(problem = "Not sent: the request has changed. Look at it again.")
        val list = listOf(request("r1"), request("r2", long), unknown, refused, request("r5", progress = Progress.Settled, status = "Approved on Pixel 9"))
        picture("inbox", InboxState(list, NOW))
        val begun = listOf(BegunSignIn(null, SignInPage("https://auth.example.org/device", "ABCD-1234")), BegunSignIn(RequestKey("h1", "t1", "r9"), null))
        val notices = listOf(notice.copy(problem = "the code has expired")) + begun.mapIndexed { at, it -> notice.copy(SignInKey("h${at + 2}", "codex"), begun = it) }
        picture("sign-in", InboxState(emptyList(), NOW, signIns = notices))
        picture("review", InboxState(list, NOW, reviewing = "h1/t1/r2"))
    }

    private fun picture(name: String, state: InboxState) {
        val scene = ImageComposeScene(width = 800, height = 1700, density = Density(2f)) { InboxScreen(state) {} }
        val png = try {
            scene.render(0)
            checkNotNull(scene.render(500_000_000).encodeToData(EncodedImageFormat.PNG)).bytes
        } finally {
            scene.close()
        }
        val file = File("target/screens/$name.png").apply { parentFile.mkdirs() }
        file.writeBytes(png)
        val image = ImageIO.read(file)
        val colours = (0 until image.height step 4).flatMap { y -> (0 until image.width step 4).map { image.getRGB(it, y) } }.toSet()
        assertTrue("the picture of $name is not blank: ${colours.size} colours", colours.size > 20)
    }
}

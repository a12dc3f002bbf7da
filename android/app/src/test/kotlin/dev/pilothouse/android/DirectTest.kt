package dev.pilothouse.android

import android.graphics.Bitmap
import android.text.InputType
import android.view.View
import android.view.ViewGroup
import android.view.inputmethod.EditorInfo
import androidx.compose.ui.graphics.asAndroidBitmap
import androidx.compose.ui.semantics.SemanticsProperties
import androidx.compose.ui.test.assertIsDisplayed
import androidx.compose.ui.test.assertIsEnabled
import androidx.compose.ui.test.assertIsFocused
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
import androidx.core.view.children
import dev.pilothouse.android.ui.DirectForm
import dev.pilothouse.android.ui.DirectKind
import dev.pilothouse.android.ui.DirectTrust
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config
import java.io.File

/** Agents that the phone drives itself, from the first screen on. */
@RunWith(RobolectricTestRunner::class)
@Config(qualifiers = "w400dp-h1000dp-xhdpi")
class DirectTest {
    @get:Rule val rule = createAndroidComposeRule<MainActivity>()
    private val app get() = rule.activity.application as TestApp
    private val token = "t0ken-of-the-agent"

    private fun tap(tag: String) = rule.onNodeWithTag(tag).performScrollTo().performClick()

    private fun type(tag: String, text: String) = rule.onNodeWithTag(tag).performScrollTo().performTextInput(text)

    private fun opened() {
        rule.onNodeWithTag("pair-host").performClick()
        tap("drive-direct")
    }

    private fun filled() {
        type("direct-name", "box")
        type("direct-url", "wss://box.example:4500")
        type("direct-token", token)
        type("direct-folders", "/home/me/app\n\n /srv ")
    }

    @Test fun an_agent_is_added_listed_and_after_a_question_removed() {
        opened()
        rule.onNodeWithTag("direct-add").performScrollTo().assertIsNotEnabled()
        filled()
        val field = rule.onNodeWithTag("direct-token").fetchSemanticsNode().config
        assertEquals("•".repeat(token.length), field[SemanticsProperties.EditableText].text)
        assertTrue("read aloud as a password", SemanticsProperties.Password in field)
        tap("direct-add")
        val said = DirectForm("box", DirectKind.Codex, "wss://box.example:4500", token, directories = "/home/me/app\n\n /srv ")
        assertEquals(listOf(said), app.core.driven)
        assertEquals(listOf("/home/me/app", "/srv"), said.paths)
        rule.onNodeWithText("codex app-server at wss://box.example:4500").performScrollTo().assertIsDisplayed()
        // The form is empty again, and its secret gone.
        assertEquals(DirectForm(), app.direct.state.value?.form)
        picture("direct.png")

        tap("remove-direct-1")
        tap("keep-direct-1")
        assertEquals(1, app.core.driven.size)
        tap("remove-direct-1")
        tap("confirm-direct-1")
        assertEquals(emptyList<DirectForm>(), app.core.driven)
        rule.onNodeWithTag("direct-direct-1").assertDoesNotExist()
        rule.onNodeWithTag("close-direct").performClick()
        rule.onNodeWithText("Nothing waits for you").assertIsDisplayed()
    }

    @Test fun no_keyboard_learns_the_token_or_corrects_what_is_typed() {
        opened()
        val password = keyboardOf("direct-token")
        assertEquals(InputType.TYPE_CLASS_TEXT or InputType.TYPE_TEXT_VARIATION_PASSWORD, password and KIND)
        assertEquals(InputType.TYPE_CLASS_TEXT or InputType.TYPE_TEXT_VARIATION_URI, keyboardOf("direct-url") and KIND)
        assertEquals(InputType.TYPE_CLASS_TEXT, keyboardOf("direct-name") and KIND)
        for (tag in listOf("direct-token", "direct-url", "direct-name", "direct-folders")) {
            assertEquals(tag, 0, keyboardOf(tag) and InputType.TYPE_TEXT_FLAG_AUTO_CORRECT)
        }
    }

    /** What the keyboard is told about a field. */
    private fun keyboardOf(tag: String): Int {
        tap(tag).assertIsFocused()
        return rule.runOnIdle {
            val asked = EditorInfo()
            val editor = checkNotNull(rule.activity.findViewById<View>(android.R.id.content)).everyView.single { it.onCheckIsTextEditor() }
            checkNotNull(editor.onCreateInputConnection(asked)).closeConnection()
            asked.inputType
        }
    }

    private val View.everyView: List<View> get() = listOf(this) + (this as? ViewGroup)?.children.orEmpty().flatMap { it.everyView }

    @Test fun a_key_has_to_be_named_where_it_is_what_is_trusted() {
        opened()
        filled()
        tap("direct-Opencode")
        tap("direct-Key")
        rule.onNodeWithTag("direct-add").performScrollTo().assertIsNotEnabled()
        type("direct-pin", "ab".repeat(32))
        rule.onNodeWithTag("direct-add").performScrollTo().assertIsEnabled()
        tap("direct-add")
        val said = app.core.driven.single()
        assertEquals(listOf(DirectKind.Opencode, DirectTrust.Key, "ab".repeat(32)), listOf(said.family, said.trust, said.pin))
    }

    @Test fun what_is_refused_stays_in_the_form_with_the_reason() {
        app.core.directProblem = "The address is not encrypted: use wss://"
        opened()
        filled()
        tap("direct-add")
        rule.onNodeWithTag("direct-problem").performScrollTo().assertTextEquals("The address is not encrypted: use wss://")
        rule.onNodeWithTag("direct-url").performScrollTo().assertTextContains("wss://box.example:4500")
        assertFalse(app.direct.state.value.toString(), app.direct.state.value.toString().contains(token))
        app.core.directProblem = null
        tap("direct-add")
        assertEquals(1, app.core.driven.size)
        rule.onNodeWithTag("direct-problem").assertDoesNotExist()
    }

    private fun picture(name: String) {
        val picture = rule.onRoot().captureToImage().asAndroidBitmap()
        File("target/screens").apply { mkdirs() }.resolve(name).outputStream().use { picture.compress(Bitmap.CompressFormat.PNG, 100, it) }
    }

    private companion object {
        const val KIND = InputType.TYPE_MASK_CLASS or InputType.TYPE_MASK_VARIATION
    }
}

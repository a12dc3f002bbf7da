package dev.pilothouse.android.ui

import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNotNull
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import java.io.File

class RevealedTest {
    @Test fun an_ordinary_command_is_shown_as_it_is() {
        val command = "printf 'naïve café\\n' > notes/résumé.txt &&\n    git diff --stat"
        assertEquals(Revealed(command, 0, plain = true), reveal(command))
    }

    @Test fun case_08_hidden_characters_stand_in_the_text_as_code_points() {
        val hidden = mapOf("bidi override" to "\u202E", "zero width space" to "\u200B", "no-break space" to "\u00A0", "soft hyphen" to "\u00AD",
            "tag letter" to "\uDB40\uDC61", "variation selector" to "\uFE0F", "Hangul filler" to "\u3164", "escape" to "\u001B", "carriage return" to "\r",
            "line separator" to "\u2028", "lone surrogate" to "\uD800")
        for ((name, character) in hidden) {
            val shown = reveal("rm -rf ./build${character}gone")
            assertEquals(name, "rm -rf ./build⟨U+%04X⟩gone".format(character.codePointAt(0)), shown.text)
            assertFalse(name, shown.plain)
        }
    }

    @Test fun case_08_letters_that_pass_for_others_are_marked() {
        assertEquals("⟨U+0441⟩url https://⟨U+0430⟩pple.com", reveal("\u0441url https://\u0430pple.com").text)
        assertEquals("rm ⟨U+FF0D⟩rf", reveal("rm \uFF0Drf").text)
        assertFalse(reveal("\u0441url example.org").plain)
    }

    @Test fun case_08_what_passes_for_a_character_of_commands_is_marked() {
        val shown = mapOf(
            "\u217Durl example.org" to "⟨U+217D⟩url example.org",
            "rm\u180Bx" to "rm⟨U+180B⟩x",
            "https://github.com\u2215evil.example" to "https://github.com⟨U+2215⟩evil.example",
            "https://github.com\u2044evil.example" to "https://github.com⟨U+2044⟩evil.example",
            "rm \u2010rf" to "rm ⟨U+2010⟩rf",
            "\u0261it push" to "⟨U+0261⟩it push",
        )
        for ((text, marked) in shown) assertEquals(Revealed(marked, 1, plain = false), reveal(text))
    }

    /** The core's own list, which its tests hold against what the core marks. */
    @Test fun case_08_every_character_that_the_core_marks_is_marked_here() {
        val lines = File("../../core/orchestrator/tests/marked.txt").readLines().filterNot { it.startsWith("#") }
        assertTrue(lines.size > 40)
        for (line in lines) {
            val ends = line.split(' ').map { it.toInt(16) }
            for (point in ends.first()..ends.last()) assertEquals("⟨U+%04X⟩".format(point), reveal(String(Character.toChars(point))).text)
        }
    }

    @Test fun a_sign_that_no_command_needs_stays_readable_but_takes_a_second_look() {
        for (text in listOf("echo “done”", "echo 3 → ½", "echo e\u0301", "echo 二〇二六")) {
            assertEquals(Revealed(text, 0, plain = false), reveal(text))
        }
    }

    @Test fun a_word_of_another_script_stays_readable_but_takes_a_second_look() {
        val shown = reveal("git commit -m 'Привет'")
        assertEquals("git commit -m 'Привет'", shown.text)
        assertFalse(shown.plain)
    }

    @Test fun case_08_padding_that_pushes_the_rest_out_of_sight_takes_a_second_look() {
        assertFalse(reveal("echo ok" + " ".repeat(80) + "; rm -rf ~").plain)
        assertFalse(reveal("echo ok\n\n\n\n\nrm -rf ~").plain)
        assertTrue("indentation is no padding", reveal("if true; then\n            echo ok\nfi").plain)
    }

    /** Milliseconds take the place of hours where the text is read anew for each of its letters. */
    @Test(timeout = 60_000) fun case_08_half_a_megabyte_without_a_blank_does_not_hold_up_the_screen() {
        for (letters in listOf("\u4e00", "\u0430", "\u200b", "a\u0430", " \t")) {
            val text = letters.repeat(512 * 1024 / letters.length)
            val shown = reveal(text)
            assertEquals(letters, shown.marked == 0, shown.text == text)
        }
    }

    @Test fun one_tap_stands_only_for_allowing_once_what_the_host_lets_pass() {
        val item = request("r1")
        assertEquals("yes", item.quickApproval()?.id)
        assertNull(item.copy(oneTapAllowed = false).quickApproval())
        assertNull(item.copy(defaultToNo = true).quickApproval())
        assertNull(item.copy(kind = RequestKind.Question).quickApproval())
        assertNull(item.copy(kind = RequestKind.Plan).quickApproval())
        assertNull(item.copy(kind = RequestKind.Unknown).quickApproval())
        assertNull(item.copy(options = item.options.filter { it.effect != Effect.AllowOnce }).quickApproval())
        assertNull(item.copy(subject = item.subject.copy(command = "ls\u200B")).quickApproval())
        assertNull(item.copy(subject = item.subject.copy(cwd = "/home/\u202Eaim")).quickApproval())
        assertNull(item.copy(subject = Subject()).quickApproval())
        assertNull(item.copy(subject = item.subject.copy(incomplete = true)).quickApproval())
    }

    @Test fun everything_that_an_approval_would_allow_is_in_the_text() {
        val subject = Subject("make", reach = listOf("/etc/hosts"), changes = listOf(Change("src/lib.rs", "-a\n+b\n")), text = "the plan")
        assertEquals("make\n/etc/hosts\nsrc/lib.rs\n-a\n+b\nthe plan", subject.revealed.text)
    }

    @Test fun deny_lets_the_turn_go_on_where_the_agent_can() {
        val item = request("r1")
        val stop = AnswerOption("stop", "No, and stop", Effect.DenyAndStop)
        assertEquals("no", item.copy(options = listOf(stop) + item.options).denial()?.id)
        assertEquals("stop", item.copy(options = listOf(stop)).denial()?.id)
        assertNull(item.copy(options = emptyList()).denial())
        val all = AnswerOption("all", "No to all", Effect.DenyAll)
        assertEquals("all", item.copy(options = listOf(stop, all)).denial()?.id)
        assertNull("of two, a person chooses", item.copy(options = item.options + AnswerOption("other", "No, but", Effect.Deny)).denial())
        assertNull("a rule is more than no", item.copy(options = listOf(AnswerOption("rule", "Never", Effect.DenyRule))).denial())
        assertNotNull(item.denial())
    }
}

package dev.pilothouse

import dev.pilothouse.core.AppendText
import dev.pilothouse.core.ItemStatus
import dev.pilothouse.core.RowContent
import dev.pilothouse.core.RowText
import dev.pilothouse.core.TimelineRow
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

class DifferTest {
    /** The file is written, and held equal to what the engine does, by the tests of bindings/ffi. */
    @Test fun `batches make of a list what they make of it in Rust`() {
        val lines = checkNotNull(javaClass.getResource("/batches.txt")).readText().lines()
        var differ = Differ<TimelineRow>()
        var case = "none"
        var reset = false
        var batches = 0
        val ops = ArrayList<ListOp<TimelineRow>>()
        val texts = ArrayList<AppendText>()
        val expected = ArrayList<TimelineRow>()
        for ((number, line) in lines.withIndex()) {
            val words = line.substringBefore(" :").split(" ")
            val text = line.substringAfter(" :", "")
            when (words[0]) {
                "case" -> {
                    differ = Differ()
                    case = words[1]
                }
                "batch", "reset" -> {
                    reset = words[0] == "reset"
                    listOf(ops, texts, expected).forEach { it.clear() }
                }
                "+" -> ops.add(ListOp.Insert(words[1].toInt(), row(words.drop(2), text)))
                "~" -> ops.add(ListOp.Update(words[1].toInt(), row(words.drop(2), text)))
                "-" -> ops.add(ListOp.Remove(words[1].toInt()))
                "&" -> texts.add(AppendText(words[1], words[2].toULong(), text))
                "=" -> expected.add(row(words.drop(1), text))
                "." -> {
                    differ.apply(reset, ops)
                    differ.append(texts)
                    assertEquals(expected, differ.rows, "case $case, line ${number + 1}")
                    batches++
                }
            }
        }
        assertTrue(batches >= 400, "$batches batches were compared")
    }

    private fun row(words: List<String>, text: String) = TimelineRow(
        id = words[0],
        position = null,
        run = null,
        node = null,
        status = ItemStatus.OPEN,
        content = RowContent.AssistantMessage,
        text = RowText(text, words[1].toULong(), words[2].toULong(), null, null, 0u),
        openedAtMs = 0u,
        closedAtMs = null,
        anomaly = null,
        pending = false,
        delivery = null,
    )

    @Test fun `a list handed out never changes`() {
        val list = Differ<String>()
        list.apply(reset = true, listOf(ListOp.Insert(0, "a")))
        val before = list.rows
        list.apply(reset = false, listOf(ListOp.Update(0, "b")))
        assertEquals(listOf("a"), before)
    }
}

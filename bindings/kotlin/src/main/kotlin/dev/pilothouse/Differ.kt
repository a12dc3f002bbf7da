package dev.pilothouse

import dev.pilothouse.core.AppendText
import dev.pilothouse.core.RowText
import dev.pilothouse.core.TimelineRow

/** One step from a list to the next. Indices count in the list as the steps before have left it. */
internal sealed interface ListOp<out R> {
    data class Insert<R>(val index: Int, val row: R) : ListOp<R>
    data class Update<R>(val index: Int, val row: R) : ListOp<R>
    data class Remove(val index: Int) : ListOp<Nothing>
}

/**
 * The list that a stream of batches describes: what the engine's own `apply` makes of them, step by step (tested against
 * vectors that the engine writes). Owned by one collector; [rows] hands out copies that never change.
 */
internal class Differ<R> {
    private val held = ArrayList<R>()

    val rows: List<R> get() = held.toList()

    /** A step out of bounds changes nothing, as in Rust: an observer that lost its place is given a reset. */
    fun apply(reset: Boolean, ops: List<ListOp<R>>) {
        if (reset) held.clear()
        for (op in ops) {
            when (op) {
                is ListOp.Insert -> held.add(op.index.coerceIn(0, held.size), op.row)
                is ListOp.Update -> if (op.index in held.indices) held[op.index] = op.row
                is ListOp.Remove -> if (op.index in held.indices) held.removeAt(op.index)
            }
        }
    }

    /** Replaces the first row that [which] picks, looked for from the end, where what is open stands. */
    fun replace(which: (R) -> Boolean, with: (R) -> R) {
        val index = held.indexOfLast(which)
        if (index >= 0) held[index] = with(held[index])
    }
}

/** Texts come after the steps of their batch; one for a row that is not there is for a row that was removed. */
internal fun Differ<TimelineRow>.append(texts: List<AppendText>) {
    for (added in texts) replace({ it.id == added.id }) { it.copy(text = it.text.append(added.at, added.text)) }
}

/** Streamed text at its offset, in UTF-8 bytes: what is there already is trimmed, a jump begins a new tail. */
internal fun RowText.append(at: ULong, added: String): RowText {
    val end = from + utf8Size(text)
    val joined = when {
        at > end -> copy(text = added, from = at)
        else -> copy(text = text + (charAtUtf8(added, end - at)?.let(added::substring) ?: ""))
    }
    return joined.copy(bytes = maxOf(bytes, joined.from + utf8Size(joined.text)))
}

private fun utf8Size(text: String): ULong {
    var size = 0L
    var at = 0
    while (at < text.length) {
        val point = text.codePointAt(at)
        size += utf8Size(point)
        at += Character.charCount(point)
    }
    return size.toULong()
}

/** Index of the character that begins at a byte of the text; null if none does. */
private fun charAtUtf8(text: String, byte: ULong): Int? {
    var left = byte.toLong()
    var at = 0
    while (left > 0 && at < text.length) {
        val point = text.codePointAt(at)
        left -= utf8Size(point)
        at += Character.charCount(point)
    }
    return at.takeIf { left == 0L }
}

private fun utf8Size(point: Int): Long = when {
    point < 0x80 -> 1
    point < 0x800 -> 2
    point < 0x10000 -> 3
    else -> 4
}

package dev.pilothouse.android.ui

/**
 * A text from an agent, made fit to be judged: what would be invisible, or pass for something else, stands in it as its
 * code point.
 */
data class Revealed(
    val text: String,
    /** How many characters had to be made visible. */
    val marked: Int,
    /** Nothing in it can deceive the eye; only such a text may be approved by one tap. */
    val plain: Boolean,
)

/**
 * Marks hidden characters and letters that pass for others, and tells whether any of it takes a second look. Reads each
 * character a fixed number of times: what an agent sends may be half a megabyte without a blank.
 */
fun reveal(raw: String): Revealed {
    val shown = StringBuilder(raw.length)
    var marked = 0
    var foreign = false
    var from = 0
    while (from < raw.length) {
        val word = !endsWord(raw[from])
        val to = if (word) wordEnd(raw, from) else from + 1
        val latin = word && hasLatinLetter(raw, from, to)
        var at = from
        while (at < to) {
            val point = raw.codePointAt(at)
            val letter = isForeignLetter(point)
            if (hides(point) || point in FULL_WIDTH || letter && latin) {
                shown.append("⟨U+").append(point.toString(16).uppercase().padStart(4, '0')).append('⟩')
                marked++
            } else {
                shown.appendCodePoint(point)
                foreign = foreign || letter
            }
            at += Character.charCount(point)
        }
        from = at
    }
    return Revealed(shown.toString(), marked, plain = marked == 0 && !foreign && !isPadded(raw))
}

/** Draws nothing, or moves what is around it. Variation selectors and fillers are letters or marks to Unicode. */
private fun hides(point: Int): Boolean = when (Character.getType(point).toByte()) {
    Character.CONTROL -> point != '\n'.code && point != '\t'.code
    Character.SPACE_SEPARATOR -> point != ' '.code
    Character.FORMAT, Character.PRIVATE_USE, Character.SURROGATE, Character.UNASSIGNED,
    Character.LINE_SEPARATOR, Character.PARAGRAPH_SEPARATOR,
    -> true
    else -> point in FILLERS || point in 0xFE00..0xFE0F || point in 0xE0100..0xE01EF
}

private val FILLERS = setOf(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)

/** Full-width forms of ASCII characters. */
private val FULL_WIDTH = 0xFF01..0xFF5E

private fun endsWord(char: Char): Boolean = char.isWhitespace() || char in "/'\"=:;|&()"

private fun wordEnd(text: String, from: Int): Int {
    var at = from
    while (at < text.length && !endsWord(text[at])) at++
    return at
}

/** A word with a Latin letter in it: letters of other scripts beside it pass for its own. */
private fun hasLatinLetter(text: String, from: Int, to: Int): Boolean {
    var at = from
    while (at < to) {
        val point = text.codePointAt(at)
        if (isLatinLetter(point)) return true
        at += Character.charCount(point)
    }
    return false
}

private fun isLatinLetter(point: Int) = Character.isLetter(point) && Character.UnicodeScript.of(point) == Character.UnicodeScript.LATIN

private fun isForeignLetter(point: Int) = Character.isLetter(point) && Character.UnicodeScript.of(point) != Character.UnicodeScript.LATIN

/** Blanks that push the rest out of sight; indentation at the beginning of a line is none. */
private fun isPadded(text: String): Boolean = PADDING.containsMatchIn(text)

private val PADDING = Regex("""\S[ \t]{8,}\S|\n[ \t]*\n[ \t]*\n[ \t]*\n""")

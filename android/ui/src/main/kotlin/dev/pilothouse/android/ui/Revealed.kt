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
 * Marks hidden characters and those that pass for others, and tells whether any of it takes a second look: so does all that
 * is neither ASCII nor a Latin letter. Reads each character a fixed number of times: what an agent sends may be half a
 * megabyte without a blank.
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
            if (hides(point) || passesForAscii(point) || latin && isForeignLetter(point)) {
                shown.append("⟨U+").append(point.toString(16).uppercase().padStart(4, '0')).append('⟩')
                marked++
            } else {
                shown.appendCodePoint(point)
                foreign = foreign || point > LAST_ASCII && !isLatinLetter(point)
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
    else -> point in FILLERS || point in 0x180B..0x180F || point in 0xFE00..0xFE0F || point in 0xE0000..0xE0FFF
}

/** Among letters, marks and symbols. */
private val FILLERS = setOf(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0xFFFC, 0x16FE4, 0x1D159)

/** Roman numerals, small and full-width forms of ASCII characters, and signs that look like those of commands. */
private fun passesForAscii(point: Int): Boolean = point in 0x2160..0x2188 || point in 0xFE50..0xFE6B || point in 0xFF01..0xFF5E || point in LOOK_ALIKES

private val LOOK_ALIKES = setOf(
    0x01C0, 0x01C3, 0x037E, 0x0589, 0x2010, 0x2011, 0x2012, 0x2024, 0x2039, 0x203A, 0x2043, 0x2044, 0x204E, 0x2212, 0x2215,
    0x2216, 0x2217, 0x2223, 0x2236, 0x223C, 0x29F5, 0x29F8, 0xA789, 0xA78A,
)

private const val LAST_ASCII = 0x7F

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

/** Of those that languages are written in: phonetic letters pass for them. */
private fun isLatinLetter(point: Int) = (point < 0x0250 || point in 0x1E00..0x1EFF) && Character.isLetter(point) &&
    Character.UnicodeScript.of(point) == Character.UnicodeScript.LATIN

private fun isForeignLetter(point: Int) = Character.isLetter(point) && !isLatinLetter(point)

/** Blanks that push the rest out of sight; indentation at the beginning of a line is none. */
private fun isPadded(text: String): Boolean = PADDING.containsMatchIn(text)

private val PADDING = Regex("""\S[ \t]{8,}\S|\n[ \t]*\n[ \t]*\n[ \t]*\n""")

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

/** Marks hidden characters and letters that pass for others, and tells whether any of it takes a second look. */
fun reveal(raw: String): Revealed {
    val shown = StringBuilder(raw.length)
    var marked = 0
    var foreign = false
    var at = 0
    while (at < raw.length) {
        val point = raw.codePointAt(at)
        if (hides(point) || isLookAlike(raw, at, point)) {
            shown.append("⟨U+").append("%04X".format(point)).append("⟩")
            marked++
        } else {
            shown.appendCodePoint(point)
            foreign = foreign || isForeignLetter(point)
        }
        at += Character.charCount(point)
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

/** A letter of another script inside a word with Latin letters, or a full-width form of an ASCII character. */
private fun isLookAlike(text: String, at: Int, point: Int): Boolean =
    point in 0xFF01..0xFF5E || isForeignLetter(point) && wordAround(text, at).codePoints().anyMatch(::isLatinLetter)

private fun wordAround(text: String, at: Int): String {
    val ends = { c: Char -> c.isWhitespace() || c in "/'\"=:;|&()" }
    val from = text.substring(0, at).indexOfLast(ends) + 1
    val to = (at until text.length).firstOrNull { ends(text[it]) } ?: text.length
    return text.substring(from, to)
}

private fun isLatinLetter(point: Int) = Character.isLetter(point) && Character.UnicodeScript.of(point) == Character.UnicodeScript.LATIN

private fun isForeignLetter(point: Int) = Character.isLetter(point) && Character.UnicodeScript.of(point) != Character.UnicodeScript.LATIN

/** Blanks that push the rest out of sight; indentation at the beginning of a line is none. */
private fun isPadded(text: String): Boolean = PADDING.containsMatchIn(text)

private val PADDING = Regex("""\S[ \t]{8,}\S|\n[ \t]*\n[ \t]*\n[ \t]*\n""")

package dev.pilothouse.android

import android.content.Context

class ResourceWords(private val context: Context) : Words {
    override val sending: String get() = context.getString(R.string.sending)

    override fun of(answer: Answer, outcome: Outcome): String = when (outcome) {
        Outcome.Confirmed -> context.getString(if (answer.effect.allows) R.string.approved else R.string.denied)
        is Outcome.AnsweredElsewhere -> context.getString(R.string.answered_elsewhere, outcome.how)
        Outcome.Expired -> context.getString(R.string.expired)
        Outcome.Withdrawn -> context.getString(R.string.withdrawn)
        Outcome.Lost -> context.getString(R.string.lost)
        Outcome.Gone -> context.getString(R.string.gone)
        Outcome.Changed -> context.getString(R.string.changed)
        is Outcome.NotTaken -> outcome.why
    }
}

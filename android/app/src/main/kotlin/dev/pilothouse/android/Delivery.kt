package dev.pilothouse.android

import androidx.work.Data
import dev.pilothouse.android.ui.Effect
import dev.pilothouse.android.ui.RequestKey

/** An answer in the outbox, as a job that may run in another process needs it. */
data class Delivery(val answer: Answer, val commandId: String) {
    fun toData(): Data = Data.Builder()
        .putString("host", answer.key.host).putString("thread", answer.key.thread).putString("request", answer.key.request)
        .putString("hash", answer.contentHash).putString("option", answer.optionId).putString("effect", answer.effect.name)
        .putString("command", commandId)
        .build()

    companion object {
        fun of(data: Data): Delivery {
            fun text(name: String) = requireNotNull(data.getString(name)) { "the job lacks $name" }
            val key = RequestKey(text("host"), text("thread"), text("request"))
            return Delivery(Answer(key, text("hash"), text("option"), Effect.valueOf(text("effect"))), text("command"))
        }
    }
}

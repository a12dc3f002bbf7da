package dev.pilothouse.android

import android.content.Context
import android.content.Intent
import android.net.Uri
import dev.pilothouse.android.ui.Effect
import dev.pilothouse.android.ui.RequestKey

/**
 * What a button of a notification stands for. All of it is in [Intent.getData] and the action, because extras are no part
 * of a PendingIntent's identity: two buttons that differ only in extras would be one (case 17).
 */
data class NotificationAction(val answer: Answer, val posting: String) {
    fun intent(context: Context): Intent = Intent(context, DecisionReceiver::class.java)
        .setAction(if (answer.effect.allows) APPROVE else DENY)
        .setData(
            requestUri(answer.key).buildUpon()
                .appendQueryParameter("hash", answer.contentHash)
                .appendQueryParameter("option", answer.optionId)
                .appendQueryParameter("effect", answer.effect.name)
                .appendQueryParameter("nonce", posting)
                .build(),
        )

    companion object {
        const val APPROVE = "dev.pilothouse.android.APPROVE"
        const val DENY = "dev.pilothouse.android.DENY"

        /** Null for an intent that none of our buttons could have made. */
        fun of(intent: Intent): NotificationAction? {
            val uri = intent.data ?: return null
            val key = requestKey(uri) ?: return null
            val effect = Effect.entries.firstOrNull { it.name == uri.getQueryParameter("effect") } ?: return null
            if (intent.action != if (effect.allows) APPROVE else DENY) return null
            val answer = Answer(key, uri.getQueryParameter("hash") ?: return null, uri.getQueryParameter("option") ?: return null, effect)
            return NotificationAction(answer, uri.getQueryParameter("nonce") ?: return null)
        }
    }
}

/** `pilothouse://host/thread/request` */
fun requestUri(key: RequestKey): Uri =
    Uri.Builder().scheme("pilothouse").authority(key.host).appendPath(key.thread).appendPath(key.request).build()

fun requestKey(uri: Uri): RequestKey? {
    val host = uri.authority
    val path = uri.pathSegments
    return if (uri.scheme == "pilothouse" && !host.isNullOrEmpty() && path.size == 2) RequestKey(host, path[0], path[1]) else null
}

package dev.pilothouse.android

import android.app.Notification
import android.app.NotificationChannel
import android.app.NotificationManager
import android.app.PendingIntent
import android.content.Context
import android.content.Intent
import dev.pilothouse.android.ui.SignInKey
import dev.pilothouse.android.ui.SignInNotice
import dev.pilothouse.android.ui.reveal

/** One notification per agent whose sign-in was refused, its tag host and agent: the same one however many threads wait. */
class SignInNotifications(private val context: Context) : SignInBoard {
    private val manager = context.service<NotificationManager>()

    /** What this process has shown; a person may have swiped it away since. */
    private val shown = mutableMapOf<SignInKey, SignInNotice>()

    fun createChannel() = manager.createNotificationChannel(
        NotificationChannel(FAILED, context.getString(R.string.channel_failed), NotificationManager.IMPORTANCE_DEFAULT),
    )

    @Synchronized
    override fun show(notices: List<SignInNotice>) {
        val there = manager.activeNotifications.filter { it.id == SIGN_IN }.map { it.tag }.toSet()
        val tags = notices.map { it.key.text }
        for (gone in there - tags.toSet()) manager.cancel(gone, SIGN_IN)
        shown.keys.retainAll(notices.map { it.key }.toSet())
        for (notice in notices) {
            val before = shown.put(notice.key, notice)
            val swiped = before != null && notice.key.text !in there
            if (before != notice && !swiped) manager.notify(notice.key.text, SIGN_IN, draw(notice))
        }
    }

    private fun draw(notice: SignInNotice): Notification {
        val here = if (notice.canSignIn) context.getString(R.string.sign_in_from_here) else null
        val there = when {
            notice.steps.isEmpty() -> context.getString(R.string.sign_in_own_way, notice.host)
            else -> context.getString(R.string.sign_in_by, notice.host, notice.steps.joinToString(" → "))
        }
        val waiting = context.resources.getQuantityString(R.plurals.sign_in_threads, notice.threads.toInt(), notice.threads)
        val text = listOfNotNull(waiting, here, there).joinToString("\n")
        val public = Notification.Builder(context, FAILED).setSmallIcon(R.drawable.ic_notification)
            .setContentTitle(context.getString(R.string.sign_in_refused_somewhere, notice.host)).build()
        val open = Intent(Intent.ACTION_MAIN, null, context, MainActivity::class.java)
        return Notification.Builder(context, FAILED).setSmallIcon(R.drawable.ic_notification)
            .setContentTitle(context.getString(R.string.sign_in_refused, reveal(notice.key.agent).text, notice.host))
            .setContentText(text).setStyle(Notification.BigTextStyle().bigText(text))
            .setGroup(notice.key.host).setOnlyAlertOnce(true)
            .setVisibility(Notification.VISIBILITY_PRIVATE).setPublicVersion(public)
            .setContentIntent(PendingIntent.getActivity(context, 0, open, PendingIntent.FLAG_IMMUTABLE or PendingIntent.FLAG_UPDATE_CURRENT))
            .build()
    }

    companion object {
        const val FAILED = "failed"
        const val SIGN_IN = 3
    }
}

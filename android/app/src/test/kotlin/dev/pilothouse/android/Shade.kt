package dev.pilothouse.android

import android.app.Notification
import android.app.NotificationManager
import android.content.Context
import android.os.Looper
import dev.pilothouse.android.ui.RequestItem
import org.robolectric.Shadows.shadowOf
import java.time.Duration

/** The notification shade as a person sees it. */
class Shade(private val context: Context) {
    private val manager = context.service<NotificationManager>()

    fun of(item: RequestItem): Notification? = shadowOf(manager).getNotification(item.id, Notifications.REQUEST)

    fun summaryOf(hostId: String): Notification? = shadowOf(manager).getNotification(hostId, Notifications.SUMMARY)

    val signIns: Map<String, Notification> get() = manager.activeNotifications.filter { it.id == SignInNotifications.SIGN_IN }.associate { it.tag to it.notification }

    val requests: Set<String> get() = manager.activeNotifications.filter { it.id == Notifications.REQUEST }.map { it.tag }.toSet()

    fun swipe(item: RequestItem) {
        val notification = checkNotNull(of(item))
        manager.cancel(item.id, Notifications.REQUEST)
        notification.deleteIntent?.send()
        settle()
    }

    /** Fires the action's own PendingIntent, as the system does. */
    fun tap(notification: Notification, label: String) {
        notification.actions.single { it.title == label }.actionIntent.send()
        settle()
    }

    fun tap(item: RequestItem, label: String) = tap(checkNotNull(of(item)), label)

    /** Time goes by, more than it takes from deciding on a tap to its end. */
    fun timePasses() = shadowOf(Looper.getMainLooper()).idleFor(Duration.ofSeconds(1))

    fun settle() = shadowOf(Looper.getMainLooper()).idle()
}

val Notification.labels: List<String> get() = actions.orEmpty().map { it.title.toString() }
val Notification.title: String? get() = extras.getCharSequence(Notification.EXTRA_TITLE)?.toString()
val Notification.note: String? get() = extras.getCharSequence(Notification.EXTRA_SUB_TEXT)?.toString()
val Notification.bigText: String? get() = extras.getCharSequence(Notification.EXTRA_BIG_TEXT)?.toString()
val Notification.everyText: String get() = extras.keySet().joinToString(" ") { @Suppress("DEPRECATION") extras.get(it).toString() }

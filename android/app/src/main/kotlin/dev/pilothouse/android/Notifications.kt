package dev.pilothouse.android

import android.app.Notification
import android.app.NotificationChannel
import android.app.NotificationManager
import android.app.PendingIntent
import android.content.Context
import android.content.Intent
import android.graphics.drawable.Icon
import android.os.Bundle
import android.os.SystemClock
import dev.pilothouse.android.ui.AnswerOption
import dev.pilothouse.android.ui.Effect
import dev.pilothouse.android.ui.RequestItem
import dev.pilothouse.android.ui.RequestKey
import dev.pilothouse.android.ui.RequestKind
import dev.pilothouse.android.ui.denial
import dev.pilothouse.android.ui.quickApproval

/**
 * One notification per request, its tag the request's key, so that posting again replaces it; one group per host. Knows how
 * a face looks, never which face it is. A swipe is no answer: nothing listens to it, and this process does not post the
 * request again before it changes; the next one does, without a sound where it can be seen that it was told of before.
 */
class Notifications(private val context: Context, private val newNonce: () -> String) : NotificationBoard {
    private val manager = context.service<NotificationManager>()

    /** What was last shown for each request; a person may have swiped it away since. */
    private val shown = mutableMapOf<RequestKey, Face>()

    fun createChannels() = manager.createNotificationChannels(
        listOf(
            NotificationChannel(APPROVALS, context.getString(R.string.channel_approvals), NotificationManager.IMPORTANCE_HIGH),
            NotificationChannel(QUESTIONS, context.getString(R.string.channel_questions), NotificationManager.IMPORTANCE_HIGH),
        ),
    )

    @Synchronized
    override fun show(faces: Map<RequestKey, Face>, complete: Boolean) {
        val changed = faces.filter { (key, face) -> shown[key] != face }
        for ((key, face) in changed) manager.notify(key.text, REQUEST, draw(key, face))
        shown += changed
        if (complete) {
            shown.keys.retainAll(faces.keys)
            // Includes what an earlier process posted and somebody answered elsewhere since; not its bad news, which nobody may have read.
            val keep = faces.keys.map { it.text }
            for (old in manager.activeNotifications) {
                if (old.id == REQUEST && old.tag !in keep && !old.notification.extras.getBoolean(STAYS)) manager.cancel(old.tag, REQUEST)
            }
        }
        summarise(faces)
    }

    /** Nor is it meant where the text was replaced just before: the finger came down on the one before. */
    override fun isCurrent(key: RequestKey, posting: String): Boolean {
        val extras = extras(key.text) ?: return false
        return extras.getString(NONCE) == posting && SystemClock.elapsedRealtime() >= extras.getLong(SETTLES)
    }

    private fun extras(tag: String): Bundle? = manager.activeNotifications.firstOrNull { it.id == REQUEST && it.tag == tag }?.notification?.extras

    private fun draw(key: RequestKey, face: Face): Notification {
        val before = extras(key.text)
        val builder = builder(face.item?.kind, key.host, face.item?.host).setContentIntent(review(key))
            // A new process draws everything again: what was told before makes no sound a second time.
            .setOnlyAlertOnce(face !is Face.Asks || before?.getString(HASH) == face.item.contentHash)
        when (face) {
            is Face.Asks -> {
                asks(builder, face, newNonce())
                val told = before?.getString(HASH)
                val settles = if (told == null || told == face.item.contentHash) before?.getLong(SETTLES) else SystemClock.elapsedRealtime() + SETTLING_MS
                settles?.let { builder.extras.putLong(SETTLES, it) }
            }
            is Face.Sending -> builder.setContentTitle(context.getString(R.string.sending)).setContentText(face.item?.title)
            is Face.Result -> {
                builder.setContentTitle(face.text).setContentText(face.item?.title).setAutoCancel(true)
                if (face.passing) builder.setTimeoutAfter(PASSING_MS) else builder.extras.putBoolean(STAYS, true)
            }
        }
        return builder.build()
    }

    private fun asks(builder: Notification.Builder, face: Face.Asks, nonce: String) {
        val item = face.item
        val text = shadeText(item)
        builder.setContentTitle(item.title).setContentText(text).setSubText(face.problem ?: "${item.host} › ${item.workspace} › ${item.thread}")
            .setStyle(Notification.BigTextStyle().bigText(text))
            .setWhen(item.openedAtMs).setShowWhen(true)
        builder.extras.putString(NONCE, nonce)
        builder.extras.putString(HASH, item.contentHash)
        item.expiresAtMs?.let { builder.setWhen(it).setUsesChronometer(true).setChronometerCountDown(true) }
        // Approving takes an unlocked device; saying no does not.
        item.quickApproval()?.takeIf { fitsShade(text) }?.let {
            builder.addAction(decision(R.string.approve, item, it, nonce).setAuthenticationRequired(true).build())
        }
        item.denial()?.let {
            val label = when (it.effect) {
                Effect.DenyAll -> R.string.deny_all
                Effect.DenyAndStop -> R.string.deny_and_stop
                else -> R.string.deny
            }
            builder.addAction(decision(label, item, it, nonce).build())
        }
        builder.addAction(Notification.Action.Builder(icon(), context.getString(R.string.review), review(item.key)).build())
    }

    /** The expanded view cuts what is longer; a larger font leaves fewer columns and fewer lines. */
    private fun fitsShade(text: String): Boolean {
        val scale = context.resources.configuration.fontScale.coerceAtLeast(1f)
        val columns = (SHADE_COLUMNS / scale).toInt()
        return text.split('\n').sumOf { wrappedLines(it, columns) } <= (SHADE_LINES / scale).toInt()
    }

    private fun shadeText(item: RequestItem): String =
        if (item.kind == RequestKind.Unknown) {
            context.getString(R.string.cannot_show, item.host)
        } else {
            listOfNotNull(item.subject.revealed.text, item.subject.revealedCwd?.let { context.getString(R.string.in_folder, it.text) }).joinToString("\n")
        }

    private fun builder(kind: RequestKind?, hostId: String, host: String?): Notification.Builder {
        val channel = if (kind == RequestKind.Question) QUESTIONS else APPROVALS
        val public = Notification.Builder(context, channel).setSmallIcon(R.drawable.ic_notification)
            .setContentTitle(if (host == null) context.getString(R.string.app_name) else context.getString(R.string.waits_for_you, host))
            .setContentText(kind?.let { context.getString(it.label) })
            .build()
        return Notification.Builder(context, channel).setSmallIcon(R.drawable.ic_notification)
            .setGroup(hostId).setGroupAlertBehavior(Notification.GROUP_ALERT_CHILDREN)
            .setVisibility(Notification.VISIBILITY_PRIVATE).setPublicVersion(public)
    }

    /** A summary counts what waits, and goes with the last of it: results go by themselves and would leave it alone. */
    private fun summarise(faces: Map<RequestKey, Face>) {
        val groups = faces.values.filterIsInstance<Face.Asks>().groupBy { it.item.key.host }
        for (old in manager.activeNotifications) if (old.id == SUMMARY && old.tag !in groups) manager.cancel(old.tag, SUMMARY)
        for ((hostId, waiting) in groups) {
            val host = waiting.first().item.host
            val style = Notification.InboxStyle()
            waiting.forEach { style.addLine(it.item.title) }
            val title = context.resources.getQuantityString(R.plurals.host_waits, waiting.size, host, waiting.size)
            manager.notify(hostId, SUMMARY, builder(null, hostId, host).setGroupSummary(true).setContentTitle(title).setStyle(style).build())
        }
    }

    private fun decision(label: Int, item: RequestItem, option: AnswerOption, nonce: String): Notification.Action.Builder {
        val action = NotificationAction(Answer(item.key, item.contentHash, option.id, option.effect), nonce)
        val pending = PendingIntent.getBroadcast(context, 0, action.intent(context), PendingIntent.FLAG_IMMUTABLE or PendingIntent.FLAG_UPDATE_CURRENT)
        return Notification.Action.Builder(icon(), context.getString(label), pending)
    }

    private fun review(key: RequestKey): PendingIntent {
        val intent = Intent(Intent.ACTION_VIEW, requestUri(key), context, MainActivity::class.java)
        return PendingIntent.getActivity(context, 0, intent, PendingIntent.FLAG_IMMUTABLE or PendingIntent.FLAG_UPDATE_CURRENT)
    }

    private fun icon() = Icon.createWithResource(context, R.drawable.ic_notification)

    companion object {
        const val APPROVALS = "approvals"
        const val QUESTIONS = "questions"
        const val REQUEST = 1
        const val SUMMARY = 2
        private const val NONCE = "nonce"
        private const val HASH = "hash"

        /** From when on its buttons count, by the clock that runs since the phone was started. */
        private const val SETTLES = "settles"

        /** It goes when its person has seen it, whichever process looks. */
        private const val STAYS = "stays"
        private const val SETTLING_MS = 1_000L
        private const val PASSING_MS = 60_000L

        /** Wide letters on a narrow phone, and what every vendor's expanded view shows. */
        private const val SHADE_COLUMNS = 32
        private const val SHADE_LINES = 6
    }
}

/** How many lines one line of a text takes where it is wrapped at blanks, and within a word only where that is longer than a line. */
internal fun wrappedLines(line: String, columns: Int): Int {
    var lines = 1
    var used = 0
    line.split(' ').forEachIndexed { at, word ->
        val wanted = used + if (at == 0) 0 else 1
        if (wanted > 0 && wanted + word.length > columns) {
            lines++
            used = word.length
        } else {
            used = wanted + word.length
        }
        if (used > columns) {
            lines += (used - 1) / columns
            used = (used - 1) % columns + 1
        }
    }
    return lines
}

private val RequestKind.label: Int
    get() = when (this) {
        RequestKind.Command -> R.string.kind_command
        RequestKind.FileRead -> R.string.kind_file_read
        RequestKind.FileChange -> R.string.kind_file_change
        RequestKind.Permission -> R.string.kind_permission
        RequestKind.Tool -> R.string.kind_tool
        RequestKind.Plan -> R.string.kind_plan
        RequestKind.Question -> R.string.kind_question
        RequestKind.SignIn -> R.string.kind_sign_in
        RequestKind.Unknown -> R.string.kind_unknown
    }

package dev.pilothouse.android.ui

import androidx.compose.foundation.layout.Arrangement
import androidx.compose.foundation.layout.Box
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.padding
import androidx.compose.material3.Button
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.OutlinedButton
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.ui.Alignment
import androidx.compose.ui.Modifier
import androidx.compose.ui.platform.testTag
import androidx.compose.ui.text.TextLayoutResult
import androidx.compose.ui.text.TextStyle
import androidx.compose.ui.text.font.FontFamily
import androidx.compose.ui.text.style.TextOverflow
import androidx.compose.ui.unit.dp

/** Title, origin, and how long it has waited. */
@Composable
internal fun RequestHeading(item: RequestItem, nowMs: Long) {
    Text(item.title, style = MaterialTheme.typography.titleMedium)
    Text("${item.host} › ${item.workspace} › ${item.thread}", style = MaterialTheme.typography.bodySmall)
    if (item.progress == Progress.Waiting) {
        val expiry = item.expiresAtMs?.let { ", expires in ${duration(it - nowMs)}" }.orEmpty()
        Text("Waits for ${duration(nowMs - item.openedAtMs)}$expiry", style = MaterialTheme.typography.bodySmall)
    }
}

/** Text of the agent, exactly. */
@Composable
internal fun Verbatim(
    text: String,
    style: TextStyle = MaterialTheme.typography.bodyMedium,
    maxLines: Int = Int.MAX_VALUE,
    overflow: TextOverflow = TextOverflow.Clip,
    onTextLayout: (TextLayoutResult) -> Unit = {},
) = Text(text, style = style, fontFamily = FontFamily.Monospace, maxLines = maxLines, overflow = overflow, onTextLayout = onTextLayout)

/** What became of it, and why an answer was not taken. */
@Composable
internal fun RequestStatus(item: RequestItem) {
    if (item.status.isNotEmpty()) Text(item.status, Modifier.testTag("status-${item.key.request}"))
    item.problem?.let { Text(it, Modifier.testTag("problem-${item.key.request}"), color = MaterialTheme.colorScheme.error) }
}

/** Two answers as far from each other as the screen allows; a side never changes, even when the other is missing or long. */
@Composable
internal fun ApartRow(start: @Composable () -> Unit, end: @Composable () -> Unit) =
    Row(Modifier.fillMaxWidth().padding(bottom = 8.dp), horizontalArrangement = Arrangement.spacedBy(16.dp)) {
        Box(Modifier.weight(1f)) { start() }
        Box(Modifier.weight(1f), Alignment.TopEnd) { end() }
    }

@Composable
internal fun DenyButton(item: RequestItem, option: AnswerOption, onEvent: (InboxEvent) -> Unit) =
    OutlinedButton({ onEvent(InboxEvent.Answer(item.key, item.contentHash, option)) }, Modifier.testTag("deny-${item.key.request}")) {
        Text(
            when (option.effect) {
                Effect.DenyAll -> "Deny all of this chat"
                Effect.DenyAndStop -> "Deny and stop"
                else -> "Deny"
            },
        )
    }

@Composable
internal fun ApproveButton(item: RequestItem, option: AnswerOption, enabled: Boolean, onEvent: (InboxEvent) -> Unit) =
    Button({ onEvent(InboxEvent.Answer(item.key, item.contentHash, option)) }, Modifier.testTag("approve-${item.key.request}"), enabled) {
        Text("Approve")
    }

/** A span of milliseconds in words of one unit. */
internal fun duration(ms: Long): String {
    val seconds = (ms / 1000).coerceAtLeast(0)
    return when {
        seconds < 60 -> "$seconds s"
        seconds < 3600 -> "${seconds / 60} min"
        seconds < 48 * 3600 -> "${seconds / 3600} h"
        else -> "${seconds / (24 * 3600)} days"
    }
}

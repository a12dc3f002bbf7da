package dev.pilothouse.android.ui

import androidx.compose.foundation.ScrollState
import androidx.compose.foundation.layout.Arrangement
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.fillMaxSize
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.heightIn
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.rememberScrollState
import androidx.compose.foundation.verticalScroll
import androidx.compose.material3.ExperimentalMaterial3Api
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.OutlinedButton
import androidx.compose.material3.Scaffold
import androidx.compose.material3.Text
import androidx.compose.material3.TextButton
import androidx.compose.material3.TopAppBar
import androidx.compose.runtime.Composable
import androidx.compose.runtime.LaunchedEffect
import androidx.compose.runtime.getValue
import androidx.compose.runtime.mutableStateOf
import androidx.compose.runtime.remember
import androidx.compose.runtime.setValue
import androidx.compose.runtime.snapshotFlow
import androidx.compose.ui.Modifier
import androidx.compose.ui.platform.testTag
import androidx.compose.ui.unit.dp
import kotlinx.coroutines.flow.first

/** One request in full. What allows it becomes active when its last line has been on the screen. */
@OptIn(ExperimentalMaterial3Api::class)
@Composable
fun ReviewScreen(item: RequestItem, nowMs: Long, onEvent: (InboxEvent) -> Unit) {
    val scroll = remember(item.contentHash) { ScrollState(0) }
    var readToTheEnd by remember(item.contentHash) { mutableStateOf(false) }
    LaunchedEffect(scroll) {
        // maxValue is Int.MAX_VALUE until the text has been laid out.
        snapshotFlow { scroll.maxValue != Int.MAX_VALUE && scroll.value >= scroll.maxValue }.first { it }
        readToTheEnd = true
    }
    Scaffold(
        topBar = {
            TopAppBar(
                title = { Text("Review") },
                navigationIcon = { TextButton({ onEvent(InboxEvent.CloseReview) }, Modifier.testTag("close-review")) { Text("Back") } },
            )
        },
    ) { insets ->
        Column(Modifier.padding(insets).padding(horizontal = 16.dp).fillMaxSize(), verticalArrangement = Arrangement.spacedBy(8.dp)) {
            // Scrolls with its text whatever a large font or a low screen would take from it.
            Column(
                Modifier.weight(1f).fillMaxWidth().verticalScroll(scroll).testTag("subject"),
                verticalArrangement = Arrangement.spacedBy(8.dp),
            ) {
                RequestHeading(item, nowMs)
                WholeSubject(item)
                if (item.progress == Progress.Waiting) Reaches(item, readToTheEnd, onEvent)
            }
            Column(Modifier.heightIn(max = STATUS_HEIGHT).verticalScroll(rememberScrollState())) { RequestStatus(item) }
            if (item.progress == Progress.Waiting) Answers(item, readToTheEnd, onEvent)
        }
    }
}

@Composable
private fun WholeSubject(item: RequestItem) {
    val subject = item.subject
    val shown = subject.revealed
    val marked = shown.marked + (subject.revealedCwd?.marked ?: 0)
    if (marked > 0) Text("Contains characters that are hidden or look like others ($marked), shown as ⟨U+…⟩.", color = MaterialTheme.colorScheme.error)
    if (subject.incomplete) Text("The agent sent only a part of it.", color = MaterialTheme.colorScheme.error)
    item.hints.forEach { Text(it, color = MaterialTheme.colorScheme.error) }
    Verbatim(shown.text)
    subject.revealedCwd?.let { Verbatim("in ${it.text}", style = MaterialTheme.typography.bodySmall) }
    subject.reason?.let { Text("The agent says: “${reveal(it).text}”", style = MaterialTheme.typography.bodyMedium) }
    if (item.kind == RequestKind.Unknown) Text("${item.host} waits for something that this app cannot show. Answer it there.")
}

/** Why an answer was not taken may be long. */
private val STATUS_HEIGHT = 64.dp

private fun RequestItem.approval(): AnswerOption? = options.firstOrNull { it.effect == Effect.AllowOnce }

/** How far the two answers below reach, and the other ones. */
@Composable
private fun Reaches(item: RequestItem, readToTheEnd: Boolean, onEvent: (InboxEvent) -> Unit) {
    val deny = item.denial()
    val approve = item.approval()
    for (option in item.options) {
        if (option == deny || option == approve) continue
        OutlinedButton(
            { onEvent(InboxEvent.Answer(item.key, item.contentHash, option)) },
            Modifier.fillMaxWidth().testTag("option-${option.id}"),
            enabled = readToTheEnd || option.effect.denies,
        ) {
            Column(Modifier.fillMaxWidth()) {
                Text(option.label)
                if (option.reach.isNotEmpty()) Text(option.reach, style = MaterialTheme.typography.bodySmall)
            }
        }
    }
    for (option in listOfNotNull(deny, approve)) {
        if (option.reach.isNotEmpty()) Text("${if (option == deny) "Deny" else "Approve"}: ${option.reach}", style = MaterialTheme.typography.bodySmall)
    }
}

@Composable
private fun Answers(item: RequestItem, readToTheEnd: Boolean, onEvent: (InboxEvent) -> Unit) {
    if (!readToTheEnd) Text("Scroll to the end to approve.", style = MaterialTheme.typography.bodySmall)
    ApartRow(
        start = { item.denial()?.let { DenyButton(item, it, onEvent) } },
        end = { item.approval()?.let { ApproveButton(item, it, readToTheEnd, onEvent) } },
    )
}

package dev.pilothouse.android.ui

import androidx.compose.foundation.isSystemInDarkTheme
import androidx.compose.foundation.layout.Arrangement
import androidx.compose.foundation.layout.Box
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.PaddingValues
import androidx.compose.foundation.layout.fillMaxSize
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.lazy.LazyColumn
import androidx.compose.foundation.lazy.items
import androidx.compose.material3.Card
import androidx.compose.material3.ExperimentalMaterial3Api
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.OutlinedButton
import androidx.compose.material3.Scaffold
import androidx.compose.material3.Text
import androidx.compose.material3.TextButton
import androidx.compose.material3.TopAppBar
import androidx.compose.material3.darkColorScheme
import androidx.compose.material3.lightColorScheme
import androidx.compose.runtime.Composable
import androidx.compose.runtime.LaunchedEffect
import androidx.compose.runtime.SideEffect
import androidx.compose.runtime.State
import androidx.compose.runtime.getValue
import androidx.compose.runtime.mutableStateOf
import androidx.compose.runtime.remember
import androidx.compose.runtime.setValue
import androidx.compose.ui.Alignment
import androidx.compose.ui.Modifier
import androidx.compose.ui.graphics.Color
import androidx.compose.ui.platform.testTag
import androidx.compose.ui.semantics.LiveRegionMode
import androidx.compose.ui.semantics.liveRegion
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.text.style.TextOverflow
import androidx.compose.ui.unit.dp
import kotlinx.coroutines.delay

/** The first screen: what waits for its person on any host, or the one request that is being reviewed. */
@Composable
fun InboxScreen(state: InboxState, onEvent: (InboxEvent) -> Unit) {
    MaterialTheme(if (isSystemInDarkTheme()) darkColorScheme() else lightColorScheme()) {
        val reviewed = state.requests.firstOrNull { it.id == state.reviewing }
        val steady by steady(if (reviewed != null) listOf("review", reviewed) else state.signIns + state.requests)
        val careful: (InboxEvent) -> Unit = { if (it !is InboxEvent.Answer || steady) onEvent(it) }
        if (reviewed != null) ReviewScreen(reviewed, state.nowMs, careful) else WaitingList(state, careful)
    }
}

/**
 * False for a moment after something has become another or has moved to another place, as when the text was replaced or
 * the request above was answered elsewhere: the finger that comes down was meant for what was there before. [shown] is what
 * is on the screen, from the top; what is added below it moves nothing.
 */
@Composable
private fun steady(shown: List<Any>): State<Boolean> {
    val before = remember { Before(shown, mutableStateOf(true)) }
    val steady = remember(shown) { mutableStateOf(before.steady.value && shown.take(before.shown.size) == before.shown) }
    SideEffect {
        before.shown = shown
        before.steady = steady
    }
    LaunchedEffect(steady) {
        delay(SETTLING_MS)
        steady.value = true
    }
    return steady
}

private class Before(var shown: List<Any>, var steady: State<Boolean>)

/** Longer than it takes from deciding on a tap to its end. */
private const val SETTLING_MS = 600L

@OptIn(ExperimentalMaterial3Api::class)
@Composable
private fun WaitingList(state: InboxState, onEvent: (InboxEvent) -> Unit) {
    val waiting = state.requests.count { it.progress == Progress.Waiting }
    val heading = if (waiting == 0) "Nothing waits for you" else "Waiting for you: $waiting"
    Scaffold(
        topBar = {
            TopAppBar(
                title = { Text(heading, Modifier.semantics { liveRegion = LiveRegionMode.Polite }) },
                actions = { TextButton({ onEvent(InboxEvent.PairHost) }, Modifier.testTag("pair-host")) { Text("Pair a host") } },
            )
        },
    ) { insets ->
        if (state.requests.isEmpty() && state.signIns.isEmpty()) {
            Box(Modifier.padding(insets).padding(16.dp).fillMaxSize(), Alignment.Center) {
                Text(
                    state.problem ?: "Agents that need an answer show up here.",
                    Modifier.testTag("nothing"),
                    color = if (state.problem == null) Color.Unspecified else MaterialTheme.colorScheme.error,
                )
            }
        } else {
            LazyColumn(
                Modifier.padding(insets).fillMaxSize(),
                verticalArrangement = Arrangement.spacedBy(8.dp),
                contentPadding = PaddingValues(16.dp),
            ) {
                items(state.signIns, key = { "sign-in/${it.key.text}" }) { SignInCard(it, onEvent) }
                items(state.requests, key = { it.id }) { RequestCard(it, state.nowMs, onEvent) }
            }
        }
    }
}

@Composable
private fun RequestCard(item: RequestItem, nowMs: Long, onEvent: (InboxEvent) -> Unit) {
    // Until the layout has said that the whole text is on the screen, Approve is not offered.
    var complete by remember(item.contentHash) { mutableStateOf(false) }
    Card(Modifier.fillMaxWidth().testTag("request-${item.key.request}")) {
        Column(Modifier.padding(16.dp), verticalArrangement = Arrangement.spacedBy(8.dp)) {
            RequestHeading(item, nowMs)
            val text = item.subject.revealed.text
            // No more is laid out than can be seen: the rest may be half a megabyte.
            val shown = text.take(COLLAPSED_CHARACTERS)
            if (shown.isNotEmpty()) {
                Verbatim(shown, maxLines = COLLAPSED_LINES, overflow = TextOverflow.Ellipsis, onTextLayout = { complete = shown.length == text.length && !it.hasVisualOverflow })
                if (!complete) Text("The text goes on.", style = MaterialTheme.typography.bodySmall)
            }
            item.subject.revealedCwd?.let { Verbatim("in ${it.text}", style = MaterialTheme.typography.bodySmall) }
            RequestStatus(item)
            if (item.progress == Progress.Waiting) CardButtons(item, item.quickApproval()?.takeIf { complete }, onEvent)
        }
    }
}

private const val COLLAPSED_LINES = 6

/** More than any screen shows in as many lines. */
private const val COLLAPSED_CHARACTERS = 4096

@Composable
private fun CardButtons(item: RequestItem, approval: AnswerOption?, onEvent: (InboxEvent) -> Unit) = ApartRow(
    start = { item.denial()?.let { DenyButton(item, it, onEvent) } },
    end = {
        if (approval != null) {
            ApproveButton(item, approval, enabled = true, onEvent)
        } else {
            OutlinedButton({ onEvent(InboxEvent.Review(item.id)) }, Modifier.testTag("review-${item.key.request}")) { Text("Review") }
        }
    },
)

package dev.pilothouse.android.ui

import androidx.compose.foundation.isSystemInDarkTheme
import androidx.compose.foundation.layout.Arrangement
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.fillMaxSize
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.rememberScrollState
import androidx.compose.foundation.verticalScroll
import androidx.compose.material3.Button
import androidx.compose.material3.ExperimentalMaterial3Api
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.OutlinedTextField
import androidx.compose.material3.Scaffold
import androidx.compose.material3.Text
import androidx.compose.material3.TextButton
import androidx.compose.material3.TopAppBar
import androidx.compose.material3.darkColorScheme
import androidx.compose.material3.lightColorScheme
import androidx.compose.runtime.Composable
import androidx.compose.ui.Modifier
import androidx.compose.ui.platform.testTag
import androidx.compose.ui.semantics.LiveRegionMode
import androidx.compose.ui.semantics.liveRegion
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.text.font.FontFamily
import androidx.compose.ui.unit.dp

/** Pairing with one host. */
data class PairState(
    /** What `pilothouse pair` shows there. */
    val code: String = "",
    /** The host is being asked. */
    val busy: Boolean = false,
    /** Why it did not come about, and what to do. */
    val problem: String? = null,
    /** The host's name, once it is paired. */
    val pairedWith: String? = null,
    /** Counts the openings of the screen: a pairing begun in an earlier one is not told of in this one. */
    val opening: Long = 0,
) {
    val canPair: Boolean get() = code.isNotBlank() && !busy && pairedWith == null
}

sealed interface PairEvent {
    data class Edit(val code: String) : PairEvent
    data object Confirm : PairEvent

    /** Rather an agent with no Pilothouse on its machine. */
    data object Direct : PairEvent
    data object Close : PairEvent
}

/** A code can come from a link on any page, so nothing happens before its person has agreed. */
@OptIn(ExperimentalMaterial3Api::class)
@Composable
fun PairScreen(state: PairState, onEvent: (PairEvent) -> Unit) {
    MaterialTheme(if (isSystemInDarkTheme()) darkColorScheme() else lightColorScheme()) {
        Scaffold(
            topBar = {
                TopAppBar(
                    title = { Text("Pair a host") },
                    navigationIcon = { TextButton({ onEvent(PairEvent.Close) }, Modifier.testTag("close-pairing")) { Text("Back") } },
                )
            },
        ) { insets ->
            Column(
                Modifier.padding(insets).padding(16.dp).fillMaxSize().verticalScroll(rememberScrollState()),
                verticalArrangement = Arrangement.spacedBy(16.dp),
            ) {
                if (state.pairedWith != null) {
                    Text("Paired with ${reveal(state.pairedWith).text}. What waits there for you will show up here.", Modifier.testTag("paired"))
                    Button({ onEvent(PairEvent.Close) }) { Text("Done") }
                } else {
                    PairingForm(state, onEvent)
                }
            }
        }
    }
}

@Composable
private fun PairingForm(state: PairState, onEvent: (PairEvent) -> Unit) {
    Text("Run “pilothouse pair” on your machine with the agents, and paste the code that it shows. Pair only by a code that you made yourself, just now.")
    OutlinedTextField(
        state.code,
        { onEvent(PairEvent.Edit(it)) },
        Modifier.fillMaxWidth().testTag("code"),
        enabled = !state.busy,
        label = { Text("Code") },
        textStyle = MaterialTheme.typography.bodySmall.copy(fontFamily = FontFamily.Monospace),
        maxLines = 6,
    )
    state.problem?.let {
        Text(it, Modifier.testTag("pairing-problem").semantics { liveRegion = LiveRegionMode.Polite }, color = MaterialTheme.colorScheme.error)
    }
    Button({ onEvent(PairEvent.Confirm) }, Modifier.testTag("pair"), enabled = state.canPair) { Text(if (state.busy) "Pairing …" else "Pair") }
    TextButton({ onEvent(PairEvent.Direct) }, Modifier.testTag("drive-direct"), enabled = !state.busy) { Text("Agents without Pilothouse on their machine") }
}

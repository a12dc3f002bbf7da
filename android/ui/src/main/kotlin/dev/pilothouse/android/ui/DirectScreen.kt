package dev.pilothouse.android.ui

import androidx.compose.foundation.isSystemInDarkTheme
import androidx.compose.foundation.layout.Arrangement
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.fillMaxSize
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.rememberScrollState
import androidx.compose.foundation.text.KeyboardOptions
import androidx.compose.foundation.verticalScroll
import androidx.compose.material3.Button
import androidx.compose.material3.Card
import androidx.compose.material3.ExperimentalMaterial3Api
import androidx.compose.material3.FilterChip
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.OutlinedButton
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
import androidx.compose.ui.text.input.KeyboardType
import androidx.compose.ui.text.input.PasswordVisualTransformation
import androidx.compose.ui.text.input.VisualTransformation
import androidx.compose.ui.unit.dp

/** Agents that this phone drives itself, and one more that may be added. */
data class DirectState(
    val agents: List<DirectItem> = emptyList(),
    val form: DirectForm = DirectForm(),
    /** The core is at work on what was asked of it. */
    val busy: Boolean = false,
    /** Why the last thing did not come about, and what to do. */
    val problem: String? = null,
    /** The [DirectItem.host] that its person is asked about before it is removed. */
    val removing: String? = null,
    /** Counts the openings of the screen: what was asked in an earlier one ends there. */
    val opening: Long = 0,
)

/** One of them. */
data class DirectItem(
    /** The host that it is shown as. */
    val host: String,
    val name: String,
    val family: DirectKind,
    val url: String,
    val trust: DirectTrust,
) {
    /** Without TLS and outside of a private network, an address is one of this phone itself. */
    val trusted: String
        get() = if (trust == DirectTrust.Authorities && !url.startsWith("wss:") && !url.startsWith("https:")) "This phone itself, unencrypted" else trust.words
}

/** Which agent's own server it is. */
enum class DirectKind(val words: String) { Codex("codex app-server"), Opencode("opencode serve") }

/** Why this phone believes that it talks to that server and to nobody else. */
enum class DirectTrust(val words: String) {
    Authorities("A public certificate"),
    Key("This key only"),
    PrivateNetwork("A private network, unencrypted"),
}

/** What its person says of an agent. Nothing of it is kept but by the core. */
data class DirectForm(
    val name: String = "",
    val family: DirectKind = DirectKind.Codex,
    val url: String = "",
    val token: String = "",
    val trust: DirectTrust = DirectTrust.Authorities,
    /** SHA-256 of the server's public key, where [trust] is that key. */
    val pin: String = "",
    /** Absolute paths on the agent's machine, one a line. */
    val directories: String = "",
) {
    val paths: List<String> get() = directories.lines().map(String::trim).filter(String::isNotEmpty)

    val complete: Boolean
        get() = name.isNotBlank() && url.isNotBlank() && token.isNotBlank() && paths.isNotEmpty() && (trust != DirectTrust.Key || pin.isNotBlank())

    /** It holds a secret, and text of it may end in a log. */
    override fun toString() = "DirectForm($name, $family, $url, $trust)"
}

sealed interface DirectEvent {
    data class Edit(val form: DirectForm) : DirectEvent
    data object Add : DirectEvent

    /** Asks whether to remove it. */
    data class Remove(val host: String) : DirectEvent
    data class ConfirmRemoval(val host: String) : DirectEvent
    data object Keep : DirectEvent
    data object Close : DirectEvent
}

@OptIn(ExperimentalMaterial3Api::class)
@Composable
fun DirectScreen(state: DirectState, onEvent: (DirectEvent) -> Unit) {
    MaterialTheme(if (isSystemInDarkTheme()) darkColorScheme() else lightColorScheme()) {
        Scaffold(
            topBar = {
                TopAppBar(
                    title = { Text("Without a host") },
                    navigationIcon = { TextButton({ onEvent(DirectEvent.Close) }, Modifier.testTag("close-direct")) { Text("Back") } },
                )
            },
        ) { insets ->
            Column(
                Modifier.padding(insets).padding(16.dp).fillMaxSize().verticalScroll(rememberScrollState()),
                verticalArrangement = Arrangement.spacedBy(12.dp),
            ) {
                Text("This phone can talk to an agent’s own server: only while the app runs, on this phone only, and with no checkpoints.")
                state.agents.forEach { AgentCard(it, state, onEvent) }
                state.problem?.let {
                    Text(it, Modifier.testTag("direct-problem").semantics { liveRegion = LiveRegionMode.Polite }, color = MaterialTheme.colorScheme.error)
                }
                AddForm(state, onEvent)
            }
        }
    }
}

@Composable
private fun AgentCard(agent: DirectItem, state: DirectState, onEvent: (DirectEvent) -> Unit) = Card(Modifier.fillMaxWidth().testTag("direct-${agent.host}")) {
    Column(Modifier.padding(16.dp), verticalArrangement = Arrangement.spacedBy(4.dp)) {
        Text(reveal(agent.name).text, style = MaterialTheme.typography.titleMedium)
        Text("${agent.family.words} at ${reveal(agent.url).text}")
        Text(agent.trusted, style = MaterialTheme.typography.bodySmall)
        if (state.removing == agent.host) {
            Text("Its token is forgotten on this phone. Its threads can still be read; what goes on with the agent goes on.")
            Row(horizontalArrangement = Arrangement.spacedBy(24.dp)) {
                OutlinedButton({ onEvent(DirectEvent.Keep) }, Modifier.testTag("keep-${agent.host}")) { Text("Keep it") }
                Button({ onEvent(DirectEvent.ConfirmRemoval(agent.host)) }, Modifier.testTag("confirm-${agent.host}"), enabled = !state.busy) { Text("Remove") }
            }
        } else {
            TextButton({ onEvent(DirectEvent.Remove(agent.host)) }, Modifier.testTag("remove-${agent.host}"), enabled = !state.busy) { Text("Remove …") }
        }
    }
}

@Composable
private fun AddForm(state: DirectState, onEvent: (DirectEvent) -> Unit) {
    val form = state.form
    val edit = { changed: DirectForm -> onEvent(DirectEvent.Edit(changed)) }
    Text("Add an agent", style = MaterialTheme.typography.titleMedium)
    Choice(DirectKind.entries, form.family, DirectKind::words, !state.busy) { edit(form.copy(family = it)) }
    Field("Name", "direct-name", form.name, state) { edit(form.copy(name = it)) }
    val address = if (form.family == DirectKind.Codex) "Address (wss://…)" else "Address (https://…)"
    Field(address, "direct-url", form.url, state, keyboard = KeyboardType.Uri) { edit(form.copy(url = it)) }
    val secret = if (form.family == DirectKind.Codex) "Token" else "Password"
    Field(secret, "direct-token", form.token, state, keyboard = KeyboardType.Password) { edit(form.copy(token = it)) }
    Text("How this phone knows the server")
    Choice(DirectTrust.entries, form.trust, DirectTrust::words, !state.busy) { edit(form.copy(trust = it)) }
    if (form.trust == DirectTrust.Key) Field("SHA-256 of its public key", "direct-pin", form.pin, state) { edit(form.copy(pin = it)) }
    Field("Folders on its machine, one a line", "direct-folders", form.directories, state, lines = 4) { edit(form.copy(directories = it)) }
    Button({ onEvent(DirectEvent.Add) }, Modifier.testTag("direct-add"), enabled = form.complete && !state.busy) { Text(if (state.busy) "One moment …" else "Add") }
}

/** None of them holds prose, and one a secret: what is typed as a password is drawn as dots, and no keyboard learns it. */
@Composable
private fun Field(
    label: String,
    tag: String,
    value: String,
    state: DirectState,
    lines: Int = 1,
    keyboard: KeyboardType = KeyboardType.Text,
    onChange: (String) -> Unit,
) = OutlinedTextField(
    value,
    onChange,
    Modifier.fillMaxWidth().testTag(tag),
    enabled = !state.busy,
    label = { Text(label) },
    visualTransformation = if (keyboard == KeyboardType.Password) PasswordVisualTransformation() else VisualTransformation.None,
    keyboardOptions = KeyboardOptions(autoCorrectEnabled = false, keyboardType = keyboard),
    singleLine = lines == 1,
    maxLines = lines,
)

@Composable
private fun <T> Choice(of: List<T>, chosen: T, words: (T) -> String, enabled: Boolean, onChoose: (T) -> Unit) =
    Column {
        of.forEach { FilterChip(it == chosen, { onChoose(it) }, { Text(words(it)) }, Modifier.testTag("direct-$it"), enabled) }
    }

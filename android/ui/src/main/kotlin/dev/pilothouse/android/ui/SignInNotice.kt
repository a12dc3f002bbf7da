package dev.pilothouse.android.ui

import androidx.compose.foundation.layout.Arrangement
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.text.selection.SelectionContainer
import androidx.compose.material3.Button
import androidx.compose.material3.Card
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.OutlinedButton
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.runtime.getValue
import androidx.compose.runtime.mutableStateOf
import androidx.compose.runtime.remember
import androidx.compose.runtime.setValue
import androidx.compose.ui.Modifier
import androidx.compose.ui.platform.LocalUriHandler
import androidx.compose.ui.platform.testTag
import androidx.compose.ui.semantics.LiveRegionMode
import androidx.compose.ui.semantics.liveRegion
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.unit.dp

/** An agent whose sign-in was refused on a host: one notice, however many of its threads wait. */
data class SignInNotice(
    val key: SignInKey,
    /** What the host calls itself. */
    val host: String,
    /** Threads that wait, at least 1. */
    val threads: Long,
    /** The one of them that tries again first; the others follow once it got through. */
    val thread: String,
    /** What is typed on the host to sign in: a command, and what is typed into the program it starts. Empty: not known. */
    val steps: List<String>,
    val trying: Trying = Trying.Not,
    /** It can be signed in from here. */
    val canSignIn: Boolean = false,
    /** It was begun, from whichever device. */
    val begun: BegunSignIn? = null,
    /** Why the last one that was begun came to nothing. */
    val problem: String? = null,
)

/** A sign-in that goes on: where its person does the rest. */
data class BegunSignIn(
    /** The request that says how; null until it has arrived here. */
    val request: RequestKey?,
    /** What it says, as far as that is understood and proven to be the host's word. */
    val page: SignInPage?,
)

/** A page that is opened in a browser, and the code that is entered there once. */
data class SignInPage(val url: String, val code: String?) {
    /** Nothing is opened for an agent but a page of the web that nobody on the way can exchange. */
    val opens: Boolean get() = url.startsWith("https://", ignoreCase = true)
}

/** Which agent on which host; [text] is its form as one word (notification tags, list keys). */
data class SignInKey(val host: String, val agent: String) {
    val text: String get() = "$host/$agent"
}

/** How far a person's "sign in" or "try again" got. */
sealed interface Trying {
    data object Not : Trying
    data object Sending : Trying

    /** Why it was not taken, and what to do. */
    data class Refused(val why: String) : Trying
}

@Composable
internal fun SignInCard(notice: SignInNotice, onEvent: (InboxEvent) -> Unit) {
    Card(Modifier.fillMaxWidth().testTag("sign-in-${notice.key.agent}").semantics { liveRegion = LiveRegionMode.Polite }) {
        Column(Modifier.padding(16.dp), verticalArrangement = Arrangement.spacedBy(8.dp)) {
            Text("${reveal(notice.key.agent).text} on ${notice.host}: its sign-in was refused", style = MaterialTheme.typography.titleMedium)
            Text(if (notice.threads == 1L) "1 thread waits for it." else "${notice.threads} threads wait for it.")
            val sending = notice.trying == Trying.Sending
            val begun = notice.begun
            if (begun != null) {
                Begun(begun, onEvent)
            } else if (notice.canSignIn) {
                notice.problem?.let { Text("The last sign-in came to nothing: ${reveal(it).text}", color = MaterialTheme.colorScheme.error) }
                Button({ onEvent(InboxEvent.SignIn(notice.key)) }, Modifier.testTag("begin-${notice.key.agent}"), enabled = !sending) { Text("Sign in") }
            }
            val or = if (notice.canSignIn || begun != null) "Or sign" else "Sign"
            if (notice.steps.isEmpty()) {
                Text("$or in on that machine in the agent's own way, then try again.")
            } else {
                Text("$or in on that machine, then try again:")
                for (step in notice.steps) Verbatim(step)
            }
            Text("A message that was refused is not said again by itself.", style = MaterialTheme.typography.bodySmall)
            (notice.trying as? Trying.Refused)?.let { Text(it.why, color = MaterialTheme.colorScheme.error) }
            OutlinedButton({ onEvent(InboxEvent.TryAgain(notice.key)) }, Modifier.testTag("try-${notice.key.agent}"), enabled = !sending) {
                Text(if (sending) "Trying …" else "Try again")
            }
        }
    }
}

@Composable
private fun Begun(begun: BegunSignIn, onEvent: (InboxEvent) -> Unit) {
    val (request, page) = begun
    when {
        page != null -> Page(page, onEvent)
        request != null -> Button({ onEvent(InboxEvent.Review(request.text)) }, Modifier.testTag("show-sign-in")) { Text("See how to sign in") }
        else -> Text("A sign-in was begun. How it goes on is shown here as soon as it is known.")
    }
}

@Composable
private fun Page(page: SignInPage, onEvent: (InboxEvent) -> Unit) {
    val browser = LocalUriHandler.current
    var noneOpens by remember(page.url) { mutableStateOf(false) }
    Text("Open this page, sign in there and enter the code. Its threads go on by themselves then.")
    Verbatim(reveal(page.url).text)
    page.code?.let { code -> SelectionContainer { Text(reveal(code).text, Modifier.testTag("code"), style = MaterialTheme.typography.headlineSmall) } }
    if (!page.opens) Text("It is not opened from here: its address does not begin with https.", color = MaterialTheme.colorScheme.error)
    val open = {
        try {
            browser.openUri(page.url)
        } catch (_: IllegalArgumentException) {
            noneOpens = true
        }
    }
    Button(open, Modifier.testTag("open-page"), enabled = page.opens) { Text("Open the page") }
    if (noneOpens) {
        Text("No app here opens it. Open it on another device.", color = MaterialTheme.colorScheme.error)
        OutlinedButton({ onEvent(InboxEvent.CopyLink(page.url)) }, Modifier.testTag("copy-link")) { Text("Copy the link") }
    }
}

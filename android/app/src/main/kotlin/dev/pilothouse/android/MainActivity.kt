package dev.pilothouse.android

import android.Manifest
import android.content.ClipData
import android.content.ClipboardManager
import android.content.Intent
import android.content.pm.PackageManager
import android.os.Build
import android.os.Bundle
import androidx.activity.ComponentActivity
import androidx.activity.compose.BackHandler
import androidx.activity.compose.setContent
import androidx.activity.enableEdgeToEdge
import androidx.activity.result.contract.ActivityResultContracts
import androidx.compose.runtime.LaunchedEffect
import androidx.compose.runtime.getValue
import androidx.lifecycle.compose.collectAsStateWithLifecycle
import dev.pilothouse.android.ui.DirectEvent
import dev.pilothouse.android.ui.DirectScreen
import dev.pilothouse.android.ui.InboxEvent
import dev.pilothouse.android.ui.InboxScreen
import dev.pilothouse.android.ui.PairEvent
import dev.pilothouse.android.ui.PairScreen

class MainActivity : ComponentActivity() {
    private val approvals get() = pilothouse.approvals
    private val pairing get() = pilothouse.pairing
    private val direct get() = pilothouse.direct
    private val askForNotifications = registerForActivityResult(ActivityResultContracts.RequestPermission()) {}

    override fun onCreate(savedInstanceState: Bundle?) {
        enableEdgeToEdge()
        super.onCreate(savedInstanceState)
        if (savedInstanceState == null) open(intent)
        setContent {
            val state by approvals.state.collectAsStateWithLifecycle()
            val signIns by pilothouse.signIns.state.collectAsStateWithLifecycle()
            val shownPairing by pairing.state.collectAsStateWithLifecycle()
            val shownDirect by direct.state.collectAsStateWithLifecycle()
            // A request under review is above a pairing, and that above the agents driven from here; Back closes the uppermost.
            val (nowPairing, nowDirect) = if (state.reviewing != null) null to null else shownPairing to shownDirect
            BackHandler(state.reviewing != null || nowPairing != null || nowDirect != null) {
                when {
                    nowPairing != null -> pairing.onEvent(PairEvent.Close)
                    nowDirect != null -> direct.onEvent(DirectEvent.Close)
                    else -> approvals.onEvent(InboxEvent.CloseReview)
                }
            }
            // Asked when there is something to be told about, not at the first start.
            if (state.requests.isNotEmpty() || signIns.isNotEmpty()) LaunchedEffect(Unit) { askOnce() }
            when {
                nowPairing != null -> PairScreen(nowPairing) { onEvent(it) }
                nowDirect != null -> DirectScreen(nowDirect, direct::onEvent)
                else -> InboxScreen(state.copy(signIns = signIns)) { onEvent(it) }
            }
        }
    }

    override fun onStart() {
        super.onStart()
        approvals.onForeground(true)
    }

    override fun onStop() {
        approvals.onForeground(false)
        super.onStop()
    }

    override fun onNewIntent(intent: Intent) {
        super.onNewIntent(intent)
        open(intent)
    }

    /** A notification opens its request for review, above all else; a host's code opens the question whether to pair. */
    private fun open(intent: Intent) {
        val uri = intent.data ?: return
        if (uri.toString().startsWith(PAIRING_PREFIX)) pair(uri.toString()) else requestKey(uri)?.let(approvals::review)
    }

    /** A request under review would be above it. */
    private fun pair(code: String) {
        approvals.review(null)
        pairing.open(code)
    }

    private fun onEvent(event: InboxEvent) {
        when (event) {
            InboxEvent.PairHost -> pair("")
            is InboxEvent.TryAgain -> pilothouse.signIns.tryAgain(event.key)
            is InboxEvent.SignIn -> pilothouse.signIns.signIn(event.key)
            is InboxEvent.CopyLink -> service<ClipboardManager>().setPrimaryClip(ClipData.newPlainText(getString(R.string.link), event.url))
            else -> approvals.onEvent(event)
        }
    }

    private fun onEvent(event: PairEvent) {
        pairing.onEvent(event)
        if (event == PairEvent.Direct) direct.open()
    }

    private fun askOnce() {
        val permission = Manifest.permission.POST_NOTIFICATIONS
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.TIRAMISU && checkSelfPermission(permission) != PackageManager.PERMISSION_GRANTED) {
            askForNotifications.launch(permission)
        }
    }

    private companion object {
        /** What every pairing code begins with. */
        const val PAIRING_PREFIX = "pilothouse:pair?"
    }
}

package dev.pilothouse.android

import android.content.BroadcastReceiver
import android.content.Context
import android.content.Intent
import kotlinx.coroutines.launch

/** A tap on Approve or Deny: one write and one job, off the main thread, no network. */
class DecisionReceiver : BroadcastReceiver() {
    override fun onReceive(context: Context, intent: Intent) {
        val action = NotificationAction.of(intent) ?: return
        val app = context.pilothouse
        val pending = goAsync()
        app.scope.launch {
            try {
                app.approvals.tapped(action.answer, action.posting)
            } finally {
                pending.finish()
            }
        }
    }
}

package dev.pilothouse.android

import dev.pilothouse.android.ui.DirectEvent
import dev.pilothouse.android.ui.DirectForm
import dev.pilothouse.android.ui.DirectItem
import dev.pilothouse.android.ui.DirectState
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asStateFlow
import kotlinx.coroutines.flow.update
import kotlinx.coroutines.launch
import kotlinx.coroutines.sync.Mutex
import kotlinx.coroutines.sync.withLock

/** Agents that this phone drives itself: adding, listing, removing. A token is here only until its agent was added. */
class DirectAgents(private val core: CoreGateway, private val scope: CoroutineScope) {
    private val now = MutableStateFlow<DirectState?>(null)

    /** Null while nobody looks. */
    val state: StateFlow<DirectState?> = now.asStateFlow()

    /** One thing at a time, also where the screen was closed and opened again meanwhile: so the last list is the latest. */
    private val working = Mutex()
    private var openings = 0L

    fun open() {
        now.value = DirectState(opening = ++openings)
        work {}
    }

    fun onEvent(event: DirectEvent) {
        when (event) {
            is DirectEvent.Edit -> now.update { if (it?.busy == false) it.copy(form = event.form) else it }
            is DirectEvent.Remove -> now.update { it?.copy(removing = event.host) }
            DirectEvent.Keep -> now.update { it?.copy(removing = null) }
            DirectEvent.Close -> now.value = null
            DirectEvent.Add -> now.value?.form?.takeIf { it.complete }?.let { form ->
                work(then = { it.copy(form = DirectForm()) }) { core.addDirect(form) }
            }
            is DirectEvent.ConfirmRemoval -> work(then = { it.copy(removing = null) }) { core.removeDirect(event.host) }
        }
    }

    /** Does [step], and [then] where it succeeded; the list is read again after it, whatever came of it. */
    private fun work(then: (DirectState) -> DirectState = { it }, step: suspend () -> Unit) {
        val begun = now.value ?: return
        if (begun.busy || !now.compareAndSet(begun, begun.copy(busy = true, problem = null))) return
        scope.launch {
            working.withLock {
                val problem = problemOf { step() }
                var agents: List<DirectItem>? = null
                val unread = problemOf { agents = core.directAgents() }
                now.update { state ->
                    // Closed meanwhile, and perhaps opened again: what was done stands, and its list is read anew there.
                    if (state == null || state.opening != begun.opening) return@update state
                    val changed = if (problem == null) then(state) else state
                    changed.copy(agents = agents ?: changed.agents, busy = false, problem = problem ?: unread)
                }
            }
        }
    }

    /** Null where it succeeded. */
    private suspend fun problemOf(what: suspend () -> Unit): String? = try {
        what()
        null
    } catch (e: CoreUnavailable) {
        e.message
    }
}

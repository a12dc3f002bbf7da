package dev.pilothouse.android

import dev.pilothouse.android.ui.DirectEvent
import dev.pilothouse.android.ui.DirectForm
import dev.pilothouse.android.ui.DirectState
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asStateFlow
import kotlinx.coroutines.flow.update
import kotlinx.coroutines.launch

/** Agents that this phone drives itself: adding, listing, removing. A token is here only until its agent was added. */
class DirectAgents(private val core: CoreGateway, private val scope: CoroutineScope) {
    private val now = MutableStateFlow<DirectState?>(null)

    /** Null while nobody looks. */
    val state: StateFlow<DirectState?> = now.asStateFlow()

    fun open() {
        now.value = DirectState()
        work { it }
    }

    fun onEvent(event: DirectEvent) {
        when (event) {
            is DirectEvent.Edit -> now.update { if (it?.busy == false) it.copy(form = event.form) else it }
            is DirectEvent.Remove -> now.update { it?.copy(removing = event.host) }
            DirectEvent.Keep -> now.update { it?.copy(removing = null) }
            DirectEvent.Close -> now.value = null
            DirectEvent.Add -> if (now.value?.form?.complete == true) {
                work { state ->
                    core.addDirect(state.form)
                    state.copy(form = DirectForm())
                }
            }
            is DirectEvent.ConfirmRemoval -> work { state ->
                core.removeDirect(event.host)
                state.copy(removing = null)
            }
        }
    }

    /** One thing at a time; the list is read again after it, whatever came of it. */
    private fun work(step: suspend (DirectState) -> DirectState) {
        val begun = now.value ?: return
        val busy = begun.copy(busy = true, problem = null)
        if (begun.busy || !now.compareAndSet(begun, busy)) return
        scope.launch {
            val done = try {
                step(busy)
            } catch (e: CoreUnavailable) {
                busy.copy(problem = e.message)
            }
            val listed = try {
                done.copy(agents = core.directAgents())
            } catch (e: CoreUnavailable) {
                done.copy(problem = done.problem ?: e.message)
            }
            // Closed meanwhile: what was done stands, nobody asks for it.
            now.update { it?.let { listed.copy(busy = false) } }
        }
    }
}

package dev.pilothouse.android

import dev.pilothouse.android.ui.PairEvent
import dev.pilothouse.android.ui.PairState
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asStateFlow
import kotlinx.coroutines.launch

/** Pairing with one host by its code. A link only fills in the code: its person has to agree. */
class Pairing(private val core: CoreGateway, private val scope: CoroutineScope) {
    private val now = MutableStateFlow<PairState?>(null)

    /** Null while nobody pairs. */
    val state: StateFlow<PairState?> = now.asStateFlow()

    fun open(code: String) {
        if (now.value?.busy != true) now.value = PairState(code)
    }

    fun onEvent(event: PairEvent) {
        val state = now.value ?: return
        when (event) {
            is PairEvent.Edit -> if (!state.busy) now.value = PairState(event.code)
            PairEvent.Close, PairEvent.Direct -> now.value = null
            PairEvent.Confirm -> if (state.canPair && now.compareAndSet(state, state.copy(busy = true, problem = null))) pair(state.code.trim())
        }
    }

    private fun pair(code: String) = scope.launch {
        val end = try {
            PairState(pairedWith = core.pair(code))
        } catch (e: CoreUnavailable) {
            PairState(code, problem = e.message)
        }
        // Closed meanwhile: the pairing stands, nobody asks for its end.
        if (now.value != null) now.value = end
    }
}

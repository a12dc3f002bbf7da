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

    private var openings = 0L

    fun open(code: String) {
        if (now.value?.busy != true) now.value = PairState(code, opening = ++openings)
    }

    fun onEvent(event: PairEvent) {
        val state = now.value ?: return
        when (event) {
            is PairEvent.Edit -> if (!state.busy) now.value = PairState(event.code, opening = state.opening)
            PairEvent.Close, PairEvent.Direct -> now.value = null
            PairEvent.Confirm -> {
                val begun = state.copy(busy = true, problem = null)
                if (state.canPair && now.compareAndSet(state, begun)) pair(begun)
            }
        }
    }

    private fun pair(begun: PairState) = scope.launch {
        val end = try {
            PairState(pairedWith = core.pair(begun.code.trim()), opening = begun.opening)
        } catch (e: CoreUnavailable) {
            begun.copy(code = begun.code.trim(), busy = false, problem = e.message)
        }
        // Closed meanwhile, and perhaps opened again: the pairing stands, nobody asks for its end.
        now.compareAndSet(begun, end)
    }
}

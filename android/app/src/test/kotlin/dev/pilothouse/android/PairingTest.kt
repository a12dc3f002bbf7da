package dev.pilothouse.android

import dev.pilothouse.android.ui.PairEvent
import dev.pilothouse.android.ui.PairState
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import org.junit.Assert.assertEquals
import org.junit.Test

/** What becomes of a pairing that outlives the screen it was begun on. */
class PairingTest {
    private val core = FakeCore()
    private val pairing = Pairing(core, CoroutineScope(Dispatchers.Unconfined))

    private val state: PairState? get() = pairing.state.value?.copy(opening = 0)

    /** Begins to pair by [code]; what is returned lets it end. */
    private fun begun(code: String): CompletableDeferred<Unit> {
        pairing.open(code)
        return CompletableDeferred<Unit>().also {
            core.pairingGate = it
            pairing.onEvent(PairEvent.Confirm)
            assertEquals(PairState(code, busy = true), state)
        }
    }

    @Test fun the_end_of_a_closed_pairing_is_not_told_in_the_next_one() {
        val first = begun("a")
        pairing.onEvent(PairEvent.Close)
        pairing.open("b")
        core.pairingProblem = "The code has expired"
        first.complete(Unit)
        assertEquals(PairState("b"), state)
    }

    @Test fun the_end_of_a_closed_pairing_is_not_told_in_the_next_one_by_the_same_code() {
        val first = begun("a")
        pairing.onEvent(PairEvent.Close)
        val second = begun("a")
        first.complete(Unit)
        assertEquals(PairState("a", busy = true), state)
        second.complete(Unit)
        assertEquals(PairState(pairedWith = "wren"), state)
    }

    @Test fun one_that_is_closed_stays_closed() {
        val first = begun("a")
        pairing.onEvent(PairEvent.Close)
        first.complete(Unit)
        assertEquals(null, pairing.state.value)
        assertEquals(listOf("a"), core.paired)
    }
}

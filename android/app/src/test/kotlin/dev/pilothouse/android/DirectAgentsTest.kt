package dev.pilothouse.android

import dev.pilothouse.android.ui.DirectEvent
import dev.pilothouse.android.ui.DirectForm
import dev.pilothouse.android.ui.DirectState
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test

/** What becomes of work that outlives the screen it was asked on. */
class DirectAgentsTest {
    private val core = FakeCore()
    private val direct = DirectAgents(core, CoroutineScope(Dispatchers.Unconfined))
    private val form = DirectForm("box", url = "wss://box.example:4500", token = "t0ken", directories = "/srv")
    private val state: DirectState get() = checkNotNull(direct.state.value)

    /** Adds an agent, closes the screen and opens it again, all while the core is at work on the first. */
    private fun reopened(): CompletableDeferred<Unit> {
        direct.open()
        direct.onEvent(DirectEvent.Edit(form))
        val adding = CompletableDeferred<Unit>().also { core.directGate = it }
        direct.onEvent(DirectEvent.Add)
        assertTrue(state.busy)
        direct.onEvent(DirectEvent.Close)
        direct.open()
        return adding
    }

    @Test fun what_an_earlier_opening_asked_for_ends_before_the_next_one_is_ready_and_brings_no_secret_back() {
        val adding = reopened()
        assertEquals(DirectForm() to true, state.form to state.busy)
        // From here on the list of the second opening waits.
        val listing = CompletableDeferred<Unit>().also { core.directGate = it }
        adding.complete(Unit)
        assertEquals(listOf(form), core.driven)
        assertEquals(DirectForm() to true, state.form to state.busy)
        listing.complete(Unit)
        assertEquals(listOf("box"), state.agents.map { it.name })
        assertEquals(DirectForm() to false, state.form to state.busy)
    }

    @Test fun a_failure_of_an_earlier_opening_is_not_told_in_the_next_one() {
        val adding = reopened()
        core.directProblem = "The address is not encrypted: use wss://"
        adding.complete(Unit)
        assertEquals(null, state.problem)
        assertFalse(state.busy)
        assertEquals(DirectForm(), state.form)
        direct.onEvent(DirectEvent.Edit(form))
        direct.onEvent(DirectEvent.Add)
        assertEquals("The address is not encrypted: use wss://" to form, state.problem to state.form)
    }

    @Test fun one_that_is_closed_stays_closed() {
        val adding = reopened()
        direct.onEvent(DirectEvent.Close)
        adding.complete(Unit)
        assertEquals(null, direct.state.value)
        assertEquals(listOf(form), core.driven)
    }
}

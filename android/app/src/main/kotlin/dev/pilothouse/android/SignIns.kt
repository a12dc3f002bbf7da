package dev.pilothouse.android

import dev.pilothouse.android.ui.SignInKey
import dev.pilothouse.android.ui.SignInNotice
import dev.pilothouse.android.ui.Trying
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.SharingStarted
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.catch
import kotlinx.coroutines.flow.combine
import kotlinx.coroutines.flow.stateIn
import kotlinx.coroutines.flow.update
import kotlinx.coroutines.launch

/** Agents whose sign-in was refused, for the screen and the shade, and a person's word to sign in or to try again. Knows nothing of Android. */
class SignIns(private val core: CoreGateway, private val board: SignInBoard, private val scope: CoroutineScope) {
    private val told = MutableStateFlow(emptyList<SignInNotice>())
    private val trying = MutableStateFlow(emptyMap<SignInKey, Trying>())

    val state: StateFlow<List<SignInNotice>> = combine(told, trying) { notices, tries ->
        notices.map { it.copy(trying = tries[it.key] ?: Trying.Not) }
    }.stateIn(scope, SharingStarted.Eagerly, emptyList())

    fun start() {
        scope.launch {
            // Why the core is not there is told where the requests are.
            core.signIns.catch { if (it !is CoreUnavailable) throw it }.collect { notices ->
                told.value = notices
                trying.update { tries -> tries.filterKeys { key -> notices.any { it.key == key } } }
                board.show(notices)
            }
        }
    }

    fun tryAgain(key: SignInKey) = ask(key, core::tryAgain)

    /** Nothing is asked for where it was begun already, also from another device: the notice says how it goes on. */
    fun signIn(key: SignInKey) {
        if (told.value.none { it.key == key && it.begun != null }) ask(key, core::signIn)
    }

    private fun ask(key: SignInKey, what: suspend (SignInNotice) -> Unit) {
        val notice = told.value.firstOrNull { it.key == key } ?: return
        if (trying.value[key] == Trying.Sending) return
        trying.update { it + (key to Trying.Sending) }
        scope.launch {
            val now = try {
                what(notice)
                Trying.Not
            } catch (e: CoreUnavailable) {
                Trying.Refused(e.message)
            }
            trying.update { it + (key to now) }
        }
    }
}

/** Where the notices are shown. */
interface SignInBoard {
    /** Shows these and no others. A number that changes disturbs nobody; what was swiped away stays away while it lasts and this process does. */
    fun show(notices: List<SignInNotice>)
}

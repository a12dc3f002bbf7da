package dev.pilothouse

import dev.pilothouse.core.CommandOutcome
import dev.pilothouse.core.CoreException
import dev.pilothouse.core.InternalException
import kotlinx.coroutines.CancellationException

/**
 * What a call of [Pilothouse] can fail with. [message] says what failed, on what and why, in words for a person.
 *
 * @property retryable whether the same call may succeed later with nothing changed by its person
 * @property userAction what a person can do about it
 */
sealed class PilothouseException(message: String, val retryable: Boolean, val userAction: String, cause: Throwable? = null) :
    Exception(message, cause) {

    /** The native library does not load: it is missing, or it is for another machine. */
    class LibraryMissing internal constructor(cause: Throwable) :
        PilothouseException(
            "the native library of Pilothouse does not load: $cause",
            false,
            "use the artifact that holds the library for ${System.getProperty("os.name")} on ${System.getProperty("os.arch")}",
            cause,
        )

    /** The data directory cannot be used: not writable, full, damaged, or written by a newer version. */
    class OpenFailed internal constructor(from: CoreException.Open) :
        PilothouseException(from.reason, from.retryable, from.userAction, from)

    /** No pairing came about: an unreadable, used or expired code, another host, or no way to it. */
    class PairingFailed internal constructor(from: CoreException.Pairing) :
        PilothouseException(from.reason, from.retryable, from.userAction, from)

    /** A command was not saved, so it will not be sent: an unknown host, a wrong command, or no room on the disk. */
    class NotSubmitted internal constructor(from: CoreException.Submit) :
        PilothouseException(from.reason, from.retryable, from.userAction, from)

    /** An agent is not driven from this device, or was not taken away: a refused address, or no store of secrets. */
    class NotDriven internal constructor(from: CoreException.Direct) :
        PilothouseException(from.reason, from.retryable, from.userAction, from)

    /** A question was not answered: not held here and the host is away, or there is no such thing. */
    class QueryFailed internal constructor(from: CoreException.Query) :
        PilothouseException(from.reason, from.retryable, from.userAction, from)

    /** An argument is not what it has to be: a text that is no id, an interrupt where nothing runs. */
    class Invalid internal constructor(message: String, userAction: String, cause: Throwable? = null) :
        PilothouseException(message, false, userAction, cause)

    /**
     * A command was saved, and then not taken; from [Ticket.accepted].
     *
     * @property outcome what came of it
     */
    class NotTaken internal constructor(val outcome: CommandOutcome, message: String, userAction: String) :
        PilothouseException(message, false, userAction)

    /** The [Pilothouse] was closed. Saved commands stay saved. */
    class Closed internal constructor(cause: Throwable? = null) :
        PilothouseException("this Pilothouse is closed", false, "open the data directory again", cause)

    /** A defect of Pilothouse itself. The core goes on. */
    class Internal internal constructor(cause: Throwable) :
        PilothouseException("Pilothouse failed inside: ${cause.message}", false, "report this, with the log", cause)
}

/** Calls the core and gives what it throws as a [PilothouseException]. */
internal inline fun <T> typed(closed: () -> Boolean, call: () -> T): T = try {
    call()
} catch (error: CancellationException) {
    throw error
} catch (error: CoreException) {
    throw if (closed()) PilothouseException.Closed(error) else error.typed()
} catch (error: InternalException) {
    throw PilothouseException.Internal(error)
} catch (error: IllegalStateException) {
    // The generated code says so of an object that was closed.
    throw if (closed()) PilothouseException.Closed(error) else PilothouseException.Internal(error)
}

internal fun CoreException.typed(): PilothouseException = when (this) {
    is CoreException.Open -> PilothouseException.OpenFailed(this)
    is CoreException.Pairing -> PilothouseException.PairingFailed(this)
    is CoreException.Submit -> PilothouseException.NotSubmitted(this)
    is CoreException.Direct -> PilothouseException.NotDriven(this)
    is CoreException.Query -> PilothouseException.QueryFailed(this)
    is CoreException.Invalid -> PilothouseException.Invalid(reason, userAction, this)
}

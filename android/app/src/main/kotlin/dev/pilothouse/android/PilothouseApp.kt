package dev.pilothouse.android

import android.app.Application
import android.content.Context
import androidx.work.Configuration
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.launch
import java.security.SecureRandom

/**
 * Owns what components share. Android creates receivers, workers and activities itself, so they reach their
 * collaborators through here; tests replace them by a subclass (robolectric.properties names it).
 */
open class PilothouseApp : Application(), Configuration.Provider {
    /** Opened on first use, which is on a background thread: loading the library takes a third of a second. */
    open val core: CoreGateway by lazy { error("the core comes with the bindings") }

    /** Milliseconds since the epoch, now and then. */
    open val clock: Flow<Long> = flow {
        while (true) {
            emit(System.currentTimeMillis())
            delay(CLOCK_MS)
        }
    }

    open val background: CoroutineDispatcher get() = Dispatchers.IO

    val scope by lazy { CoroutineScope(SupervisorJob() + background) }
    val notifications by lazy { Notifications(this, ::newNonce) }
    val approvals by lazy { Approvals(core, notifications, ResourceWords(this), scope, clock) { DeliverWorker.schedule(this, it) } }

    override val workManagerConfiguration: Configuration
        get() = Configuration.Builder().setWorkerFactory(PilothouseWorkerFactory { approvals }).build()

    override fun onCreate() {
        super.onCreate()
        notifications.createChannels()
        scope.launch { approvals.start() }
    }

    private companion object {
        const val CLOCK_MS = 15_000L
    }
}

private fun newNonce(): String = ByteArray(16).also(SecureRandom()::nextBytes).joinToString("") { "%02x".format(it) }

val Context.pilothouse: PilothouseApp get() = applicationContext as PilothouseApp

/** The framework returns null only for services that it lacks; android-all declares the result nullable, the SDK does not. */
inline fun <reified T : Any> Context.service(): T = checkNotNull(getSystemService(T::class.java)) { "no ${T::class.java.name}" }

package dev.pilothouse.android

import android.app.Application
import android.content.Context
import android.os.Build
import androidx.work.Configuration
import dev.pilothouse.Pilothouse
import dev.pilothouse.core.CoreConfig
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.async
import kotlinx.coroutines.cancel
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
    /** Opened from the start on a background thread: loading the library takes a third of a second. */
    private val opening = lazy { scope.async(Dispatchers.IO) { openCore() } }

    open val core: CoreGateway by lazy { PilothouseGateway(this, opening.value, scope) }

    open val deviceKey: DeviceKey by lazy { KeystoreKey(this) }

    open val sealingKey: SealingKey by lazy { KeystoreSealingKey() }

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
    private val signInNotifications by lazy { SignInNotifications(this) }
    val signIns by lazy { SignIns(core, signInNotifications, scope) }
    val pairing by lazy { Pairing(core, scope) }
    val direct by lazy { DirectAgents(core, scope) }
    open val approvals by lazy { Approvals(core, notifications, ResourceWords(this), scope, clock) { DeliverWorker.schedule(this, it) } }

    override val workManagerConfiguration: Configuration
        get() = Configuration.Builder().setWorkerFactory(PilothouseWorkerFactory { approvals }).build()

    override fun onCreate() {
        super.onCreate()
        notifications.createChannels()
        signInNotifications.createChannel()
        scope.launch {
            approvals.start()
            signIns.start()
        }
    }

    /** Never on a phone, where processes are killed; what runs the app in a process of its own ends it so. */
    override fun onTerminate() {
        scope.cancel()
        closeCore()
        super.onTerminate()
    }

    /** One that is still opening sees that its scope has ended, and closes itself. */
    @OptIn(ExperimentalCoroutinesApi::class)
    private fun closeCore() {
        val core = if (opening.isInitialized()) opening.value else return
        if (core.isCompleted && !core.isCancelled) core.getCompleted().close()
    }

    /** Where nothing is backed up from: a copy of the outbox on another phone would answer in this one's name. */
    protected open suspend fun openCore(): Pilothouse {
        val config = CoreConfig(noBackupFilesDir.resolve("core").path, "${Build.MANUFACTURER} ${Build.MODEL}".take(80), "android")
        return Pilothouse.open(config, AndroidPlatform(deviceKey), SealedSecrets(noBackupFilesDir.resolve("secrets"), sealingKey))
    }

    private companion object {
        const val CLOCK_MS = 15_000L
    }
}

private fun newNonce(): String = ByteArray(16).also(SecureRandom()::nextBytes).joinToString("") { "%02x".format(it) }

val Context.pilothouse: PilothouseApp get() = applicationContext as PilothouseApp

/** The framework returns null only for services that it lacks; android-all declares the result nullable, the SDK does not. */
inline fun <reified T : Any> Context.service(): T = checkNotNull(getSystemService(T::class.java)) { "no ${T::class.java.name}" }

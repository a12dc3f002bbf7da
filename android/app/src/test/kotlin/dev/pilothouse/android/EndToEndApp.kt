package dev.pilothouse.android

import android.os.Looper
import androidx.work.Configuration
import androidx.work.testing.SynchronousExecutor
import androidx.work.testing.WorkManagerTestInitHelper
import dev.pilothouse.Pilothouse
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.async
import kotlinx.coroutines.cancel
import java.security.KeyPairGenerator
import java.security.PrivateKey
import java.security.PublicKey
import java.security.spec.ECGenParameterSpec
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit

/** The app with its real core; a key in memory and WorkManager's test scheduler stand for the phone. */
class EndToEndApp : PilothouseApp() {
    override val deviceKey: DeviceKey by lazy { SoftwareKey() }
    override val sealingKey: SealingKey by lazy { SoftwareSealingKey() }
    private val opened = LinkedBlockingQueue<Pilothouse>()
    private val running = mutableListOf<Pilothouse>()
    private var laterScope: CoroutineScope? = null
    private var later: Approvals? = null

    override val approvals: Approvals get() = later ?: super.approvals

    /** The core of the process that runs now. */
    val device: Pilothouse
        get() {
            if (running.isEmpty()) running += checkNotNull(opened.poll(EndToEndWorld.PATIENCE_MS, TimeUnit.MILLISECONDS)) { "the core did not open" }
            return running.last()
        }

    override suspend fun openCore(): Pilothouse {
        check(Looper.myLooper() != Looper.getMainLooper()) { "the library is loaded on the main thread" }
        return super.openCore().also(opened::add)
    }

    override fun onCreate() {
        super.onCreate()
        val configuration = Configuration.Builder()
            .setExecutor(SynchronousExecutor())
            .setWorkerCoroutineContext(Dispatchers.IO)
            .setWorkerFactory(PilothouseWorkerFactory { approvals })
            .build()
        WorkManagerTestInitHelper.initializeTestWorkManager(this, configuration)
    }

    /** The process dies and another begins: nothing is left but what is on disk, in the shade and in WorkManager. */
    fun dieAndBeginAgain() {
        device.close()
        scope.cancel()
        running.clear()
        val next = CoroutineScope(SupervisorJob() + Dispatchers.IO)
        val core = PilothouseGateway(this, next.async { openCore() }, next)
        later = Approvals(core, Notifications(this) { "another" }, ResourceWords(this), next, clock) { DeliverWorker.schedule(this, it) }
        laterScope = next
        approvals.start()
    }

    override fun onTerminate() {
        laterScope?.cancel()
        (running + opened).forEach(Pilothouse::close)
        super.onTerminate()
        WorkManagerTestInitHelper.closeWorkDatabase()
    }
}

/** A key in memory, as AndroidKeyStore would hold it. */
class SoftwareKey : DeviceKey {
    private val pair = KeyPairGenerator.getInstance("EC").apply { initialize(ECGenParameterSpec("secp256r1")) }.generateKeyPair()
    override val public: PublicKey get() = pair.public
    override val private: PrivateKey get() = pair.private
}

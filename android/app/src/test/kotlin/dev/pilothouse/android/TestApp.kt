package dev.pilothouse.android

import androidx.work.Configuration
import androidx.work.testing.SynchronousExecutor
import androidx.work.testing.WorkManagerTestInitHelper
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flowOf

/** The app with fakes where it would leave the process. Robolectric makes a new one for each test. */
class TestApp : PilothouseApp() {
    override val core = FakeCore()
    override val clock: Flow<Long> = flowOf(1_800_000_150_000)
    override val background: CoroutineDispatcher get() = Dispatchers.Unconfined

    override fun onCreate() {
        super.onCreate()
        val configuration = Configuration.Builder()
            .setExecutor(SynchronousExecutor())
            .setWorkerCoroutineContext(Dispatchers.Unconfined)
            .setWorkerFactory(PilothouseWorkerFactory { approvals })
            .build()
        WorkManagerTestInitHelper.initializeTestWorkManager(this, configuration)
    }

    /** Robolectric calls it after each test. */
    override fun onTerminate() {
        WorkManagerTestInitHelper.closeWorkDatabase()
        super.onTerminate()
    }
}

package dev.pilothouse.android

import android.content.Context
import androidx.work.Constraints
import androidx.work.CoroutineWorker
import androidx.work.ExistingWorkPolicy
import androidx.work.ListenableWorker
import androidx.work.NetworkType
import androidx.work.OneTimeWorkRequestBuilder
import androidx.work.OutOfQuotaPolicy
import androidx.work.WorkManager
import androidx.work.WorkerFactory
import androidx.work.WorkerParameters

/** Keeps the process alive until the host has confirmed one answer. Stopped by the system, it is started again. */
class DeliverWorker(context: Context, parameters: WorkerParameters, private val approvals: Approvals) : CoroutineWorker(context, parameters) {
    override suspend fun doWork(): Result {
        return try {
            approvals.deliver(Delivery.of(inputData))
            Result.success()
        } catch (_: CoreUnavailable) {
            Result.retry()
        }
    }

    companion object {
        fun uniqueName(delivery: Delivery) = "deliver/${delivery.answer.key.text}"

        /** Expedited (minSdk 31: without a foreground notification); past the quota an ordinary job. */
        fun schedule(context: Context, delivery: Delivery) {
            val work = OneTimeWorkRequestBuilder<DeliverWorker>()
                .setInputData(delivery.toData())
                .setExpedited(OutOfQuotaPolicy.RUN_AS_NON_EXPEDITED_WORK_REQUEST)
                .setConstraints(Constraints.Builder().setRequiredNetworkType(NetworkType.CONNECTED).build())
                .build()
            // One chain per request, so that one that hangs holds up no other.
            WorkManager.getInstance(context).enqueueUniqueWork(uniqueName(delivery), ExistingWorkPolicy.APPEND_OR_REPLACE, work)
        }
    }
}

class PilothouseWorkerFactory(private val approvals: () -> Approvals) : WorkerFactory() {
    override fun createWorker(appContext: Context, workerClassName: String, workerParameters: WorkerParameters): ListenableWorker? =
        when (workerClassName) {
            DeliverWorker::class.java.name -> DeliverWorker(appContext, workerParameters, approvals())
            else -> null
        }
}

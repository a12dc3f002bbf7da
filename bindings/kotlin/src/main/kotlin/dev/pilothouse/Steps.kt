package dev.pilothouse

import dev.pilothouse.core.Batch
import dev.pilothouse.core.DeliveryOp
import dev.pilothouse.core.DeliveryRow
import dev.pilothouse.core.HostOp
import dev.pilothouse.core.HostRow
import dev.pilothouse.core.InboxOp
import dev.pilothouse.core.InboxRow
import dev.pilothouse.core.ThreadOp
import dev.pilothouse.core.ThreadRow
import dev.pilothouse.core.TimelineOp
import dev.pilothouse.core.TimelineRow

/** A batch of the generated types as steps for [Differ]. A batch of another scope has none. */
internal class Steps<R>(val reset: Boolean, val ops: List<ListOp<R>>)

internal fun hostSteps(batch: Batch): Steps<HostRow>? = (batch as? Batch.Hosts)?.run {
    Steps(reset, ops.map {
        when (it) {
            is HostOp.Insert -> ListOp.Insert(it.index.toInt(), it.row)
            is HostOp.Update -> ListOp.Update(it.index.toInt(), it.row)
            is HostOp.Remove -> ListOp.Remove(it.index.toInt())
        }
    })
}

internal fun threadSteps(batch: Batch.Threads): Steps<ThreadRow> = Steps(batch.reset, batch.ops.map {
    when (it) {
        is ThreadOp.Insert -> ListOp.Insert(it.index.toInt(), it.row)
        is ThreadOp.Update -> ListOp.Update(it.index.toInt(), it.row)
        is ThreadOp.Remove -> ListOp.Remove(it.index.toInt())
    }
})

internal fun inboxSteps(batch: Batch): Steps<InboxRow>? = (batch as? Batch.Inbox)?.run {
    Steps(reset, ops.map {
        when (it) {
            is InboxOp.Insert -> ListOp.Insert(it.index.toInt(), it.row)
            is InboxOp.Update -> ListOp.Update(it.index.toInt(), it.row)
            is InboxOp.Remove -> ListOp.Remove(it.index.toInt())
        }
    })
}

internal fun deliverySteps(batch: Batch): Steps<DeliveryRow>? = (batch as? Batch.Delivery)?.run {
    Steps(reset, ops.map {
        when (it) {
            is DeliveryOp.Insert -> ListOp.Insert(it.index.toInt(), it.row)
            is DeliveryOp.Update -> ListOp.Update(it.index.toInt(), it.row)
            is DeliveryOp.Remove -> ListOp.Remove(it.index.toInt())
        }
    })
}

internal fun timelineSteps(batch: Batch.Timeline): Steps<TimelineRow> = Steps(batch.reset, batch.ops.map {
    when (it) {
        is TimelineOp.Insert -> ListOp.Insert(it.index.toInt(), it.row)
        is TimelineOp.Update -> ListOp.Update(it.index.toInt(), it.row)
        is TimelineOp.Remove -> ListOp.Remove(it.index.toInt())
    }
})

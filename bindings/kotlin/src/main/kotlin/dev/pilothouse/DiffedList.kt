package dev.pilothouse

/** One step from a list to the next. Indices are those of the list as it is after the steps before. */
internal sealed interface ListOp<out R> {
    data class Insert<R>(val index: Int, val row: R) : ListOp<R>
    data class Update<R>(val index: Int, val row: R) : ListOp<R>
    data class Remove(val index: Int) : ListOp<Nothing>
}

/** The list that a stream of batches describes. Owned by one collector; [rows] hands out copies that never change. */
internal class DiffedList<R> {
    private val held = ArrayList<R>()

    val rows: List<R> get() = held.toList()

    /** @throws IllegalStateException if a step does not fit: the list is no longer the core's, and must not be shown */
    fun apply(reset: Boolean, ops: List<ListOp<R>>) {
        if (reset) held.clear()
        for (op in ops) {
            when (op) {
                is ListOp.Insert -> held.add(fitting(op.index, held.size, op), op.row)
                is ListOp.Update -> held[fitting(op.index, held.lastIndex, op)] = op.row
                is ListOp.Remove -> held.removeAt(fitting(op.index, held.lastIndex, op))
            }
        }
    }

    private fun fitting(index: Int, last: Int, op: ListOp<R>): Int {
        check(index in 0..last) { "the core sent a step that does not fit a list of ${held.size}: ${op::class.simpleName} at $index" }
        return index
    }
}

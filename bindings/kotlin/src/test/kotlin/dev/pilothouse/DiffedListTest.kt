package dev.pilothouse

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test
import kotlin.random.Random

class DiffedListTest {
    @Test fun `any sequence of steps gives the list it was made from`() {
        repeat(300) { seed ->
            val random = Random(seed)
            val model = ArrayList<Int>()
            val list = DiffedList<Int>()
            repeat(40) {
                val reset = random.nextInt(10) == 0
                if (reset) model.clear()
                val ops = List(random.nextInt(6)) { step(random, model) }
                list.apply(reset, ops)
                assertEquals(model, list.rows, "seed $seed")
            }
        }
    }

    private fun step(random: Random, model: MutableList<Int>): ListOp<Int> = when (if (model.isEmpty()) 0 else random.nextInt(3)) {
        0 -> ListOp.Insert(random.nextInt(model.size + 1), random.nextInt()).also { model.add(it.index, it.row) }
        1 -> ListOp.Update(random.nextInt(model.size), random.nextInt()).also { model[it.index] = it.row }
        else -> ListOp.Remove(random.nextInt(model.size)).also { model.removeAt(it.index) }
    }

    @Test fun `a list handed out never changes`() {
        val list = DiffedList<String>()
        list.apply(reset = true, listOf(ListOp.Insert(0, "a")))
        val before = list.rows
        list.apply(reset = false, listOf(ListOp.Update(0, "b")))
        assertEquals(listOf("a"), before)
    }

    @Test fun `a step that does not fit is an error and not a guess`() {
        val list = DiffedList<String>()
        for (op in listOf(ListOp.Insert(1, "a"), ListOp.Update(0, "a"), ListOp.Remove(0), ListOp.Insert(-1, "a"))) {
            assertThrows(IllegalStateException::class.java) { list.apply(reset = false, listOf(op)) }
        }
    }
}

package dev.pilothouse

import dev.pilothouse.core.LinkState
import kotlinx.coroutines.flow.first
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.ByteArrayOutputStream
import java.io.PrintStream
import kotlin.io.path.Path
import kotlin.io.path.readText

class ReadmeTest {
    @Test fun `the README's sample is the program that is tested, and short`() {
        val sample = Path("src/test/kotlin/dev/pilothouse/sample/Sample.kt").readText().substringAfter("package dev.pilothouse.sample\n\n")
        val shown = Path("README.md").readText().substringAfter("```kotlin\n").substringBefore("```")
        assertEquals(sample, shown)
        assertTrue(shown.substringAfter("/**").lines().size <= 30)
    }

    @Test fun `the README's sample allows what a thread asks for, and ends`() = test {
        val nonce = nonce()
        World.model.runs("sample-$nonce", "echo $nonce >> $nonce.txt")
        val dataDir = World.fresh("sample")
        val thread = World.device(dataDir).use { device ->
            val host = device.hosts().until("a connected host") { hosts -> hosts.any { it.link == LinkState.Synchronised } }.single().host
            val thread = device.createThread(host, "demo", "codex", "sample").thread
            device.send(host, thread, "go [[script:sample-$nonce]]").accepted()
            thread
        }
        val said = ByteArrayOutputStream()
        val console = System.out
        System.setOut(PrintStream(said, true))
        try {
            dev.pilothouse.sample.main(arrayOf("$dataDir", thread))
        } finally {
            System.setOut(console)
        }
        assertEquals("$nonce\n", World.file("$nonce.txt").textOrNull())
        val lines = said.toString().lines()
        assertTrue(lines.first().startsWith("kotlin: "), "$said")
        assertTrue(lines.any { it.contains("echo $nonce >> $nonce.txt") }, "$said")
    }
}

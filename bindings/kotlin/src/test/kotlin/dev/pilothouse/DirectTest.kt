package dev.pilothouse

import dev.pilothouse.core.CoreConfig
import dev.pilothouse.core.DirectAgent
import dev.pilothouse.core.DirectFamily
import dev.pilothouse.core.LinkState
import dev.pilothouse.core.LogLevel
import dev.pilothouse.core.OptionEffect
import dev.pilothouse.core.Platform
import dev.pilothouse.core.RunStatus
import dev.pilothouse.core.SecretStore
import kotlinx.coroutines.flow.first
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.nio.file.Files
import java.nio.file.Path
import java.util.concurrent.ConcurrentHashMap
import kotlin.io.path.createDirectories
import kotlin.io.path.isRegularFile
import kotlin.io.path.readBytes

/** A real codex that is driven from Kotlin, with no daemon on its machine. */
class DirectTest {
    private val token = "a-token-of-this-test-0123456789"

    @Test fun `a codex elsewhere is added, asks, is answered, and is taken away`() = test {
        val dir = World.fresh("elsewhere").createDirectories()
        val codex = CodexElsewhere(dir, World.model, token)
        val secrets = Kept()
        val lines = StringBuffer()
        val data = World.fresh("device")
        try {
            Pilothouse.open(config(data), Keyless(lines), secrets).use { device ->
                val agent = agent("ws://127.0.0.1:${codex.port}", codex.workspace)
                val host = device.addDirect(agent, token)
                assertEquals(listOf(host to agent), device.directAgents().map { it.host to it.agent })
                val row = device.hosts().until("it to be there") { rows -> rows.any { it.link == LinkState.Synchronised } }.single()
                assertEquals("codex", row.direct?.family)

                val nonce = nonce()
                World.model.runs("direct-$nonce", "echo $nonce >> $nonce.txt")
                val made = device.createThread(host, "workspace", "codex", "Direct")
                made.accepted()
                device.send(host, made.thread, "go [[script:direct-$nonce]]").accepted()
                val asked = device.inbox().until("what it asks") { it.isNotEmpty() }.single()
                assertTrue(asked.subject.command.orEmpty().contains("echo $nonce >> $nonce.txt"), asked.toString())
                device.answer(asked, asked.subject.options.first { it.effect == OptionEffect.ALLOW_ONCE }).accepted()
                device.timeline(host, made.thread).until("the end") { it.header.lastStatus == RunStatus.COMPLETED }
                assertEquals("$nonce\n", codex.workspace.resolve("$nonce.txt").textOrNull())

                device.removeDirect(host)
                assertTrue(device.directAgents().isEmpty() && secrets.all.isEmpty(), secrets.all.keys.toString())
                device.hosts().until("that it was taken away") { rows -> rows.single().direct?.removed == true }
                val read = device.timeline(host, made.thread).first { it.rows.isNotEmpty() }
                assertTrue(read.rows.any { it.text.text == "After it." }, read.toString())
                val refused = runCatching { device.send(host, made.thread, "more") }
                assertThrows(PilothouseException.NotSubmitted::class.java) { refused.getOrThrow() }
            }
            // The secret was in the platform's store only.
            val holding = Files.walk(data).use { files ->
                files.filter { it.isRegularFile() && it.readBytes().toString(Charsets.ISO_8859_1).contains(token) }.toList()
            }
            assertEquals(emptyList<Path>(), holding)
            assertFalse(lines.contains(token))
        } finally {
            codex.process.end()
        }
    }

    @Test fun `an address in the clear and a platform without a store of secrets are refused`() = test {
        Pilothouse.open(config(World.fresh("device")), Keyless(StringBuffer())).use { device ->
            for (url in listOf("ws://198.51.100.7:4500", "wss://box.example")) {
                val refused = runCatching { device.addDirect(agent(url, Path.of("/home/me/app")), token) }
                val error = assertThrows(PilothouseException.NotDriven::class.java) { refused.getOrThrow() }
                assertTrue(error.userAction.isNotBlank() && !error.message.orEmpty().contains(token), error.toString())
            }
            assertTrue(device.hosts().first().isEmpty())
        }
    }

    private fun agent(url: String, dir: Path) = DirectAgent("box", DirectFamily.CODEX, url, null, false, listOf("$dir"))

    private fun config(data: Path) = CoreConfig("$data", "kotlin", "jvm")

    /** Driving an agent needs no key of the device's. */
    private class Keyless(private val lines: StringBuffer) : Platform {
        override fun publicKey(): ByteArray = error("nobody asks for it")
        override fun sign(data: ByteArray): ByteArray = error("nobody asks for it")
        override fun log(level: LogLevel, target: String, line: String) {
            lines.append(line)
        }
    }

    private class Kept : SecretStore {
        val all = ConcurrentHashMap<String, String>()
        override fun secret(name: String): String? = all[name]
        override fun keep(name: String, secret: String) {
            all[name] = secret
        }
        override fun forget(name: String) {
            all.remove(name)
        }
    }
}

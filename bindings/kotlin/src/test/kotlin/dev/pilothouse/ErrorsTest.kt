package dev.pilothouse

import dev.pilothouse.core.CommandBody
import dev.pilothouse.core.CoreConfig
import dev.pilothouse.core.LinkState
import dev.pilothouse.core.LogLevel
import dev.pilothouse.core.NewCommand
import dev.pilothouse.core.Platform
import dev.pilothouse.core.Query
import kotlinx.coroutines.flow.first
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.security.KeyPairGenerator
import java.security.Signature
import java.security.interfaces.ECPublicKey
import java.security.spec.ECGenParameterSpec
import kotlin.io.path.writeText

/** What goes wrong has a type, and says what can be done. */
class ErrorsTest {
    private val nobody = "0".repeat(26)

    @Test fun `a data directory that cannot be used is said to be so`() = test {
        val file = World.fresh("file").also { it.writeText("not a directory") }
        val error = fails<PilothouseException.OpenFailed> { Pilothouse.open(file, "kotlin") }
        assertFalse(error.retryable)
        assertTrue(error.message.orEmpty().contains("$file"), error.message)
    }

    @Test fun `a code that is none, and a code that was used, pair with nobody`() = test {
        Pilothouse.open(World.fresh("device"), "kotlin").use { device ->
            val nonsense = fails<PilothouseException.PairingFailed> { device.pair("nonsense") }
            assertFalse(nonsense.retryable)
            assertTrue(nonsense.userAction.contains("pilothouse pair"), nonsense.userAction)
            val code = World.host.pairingCode()
            device.pair(code)
            Pilothouse.open(World.fresh("second"), "kotlin").use { second ->
                fails<PilothouseException.PairingFailed> { second.pair(code) }
                assertEquals(emptyList<Any>(), second.hosts().first())
            }
        }
    }

    @Test fun `what cannot be saved or found is refused at once`() = test {
        Pilothouse.open(World.fresh("device"), "kotlin").use { device ->
            val submit = fails<PilothouseException.NotSubmitted> { device.createThread(nobody, "demo", "codex", "x") }
            assertFalse(submit.retryable)
            assertTrue(submit.userAction.contains("pair"), submit.userAction)
            fails<PilothouseException.NotSubmitted> {
                device.submit(NewCommand(nobody, null, CommandBody.QueueRelease(1u)))
            }
            fails<PilothouseException.QueryFailed> { device.query(Query.Request(nobody, null, nobody)) }
        }
    }

    @Test fun `a text that is no id is refused as such, in every call`() = test {
        Pilothouse.open(World.fresh("device"), "kotlin").use { device ->
            fails<PilothouseException.Invalid> { device.createThread("no id", "demo", "codex", "x") }
            fails<PilothouseException.Invalid> { device.query(Query.Request("no id", null, nobody)) }
            fails<PilothouseException.Invalid> { device.timeline(nobody, "no id").first() }
            fails<PilothouseException.Invalid> { device.discard("no id") }
        }
    }

    @Test fun `a key of the platform's own pairs and connects`() = test {
        val key = KeyPairGenerator.getInstance("EC").apply { initialize(ECGenParameterSpec("secp256r1")) }.generateKeyPair()
        val platform = object : Platform {
            override fun publicKey(): ByteArray {
                val point = (key.public as ECPublicKey).w
                fun fixed(value: java.math.BigInteger) = value.toByteArray().let { ByteArray(32 - minOf(32, it.size)) + it.takeLast(32) }
                return byteArrayOf(4) + fixed(point.affineX) + fixed(point.affineY)
            }

            override fun sign(data: ByteArray): ByteArray =
                Signature.getInstance("SHA256withECDSA").run { initSign(key.private); update(data); sign() }

            override fun log(level: LogLevel, target: String, line: String) = throw AssertionError("a log that fails")
        }
        Pilothouse.open(config("own-key"), platform).use { device ->
            device.pair(World.host.pairingCode())
            device.hosts().until("a connected host") { hosts -> hosts.any { it.link == LinkState.Synchronised } }
        }
    }

    @Test fun `a platform that throws whatever it likes is contained`() = test {
        val platform = object : Platform {
            override fun publicKey(): ByteArray = TODO("an Error, which Rust would take for success")
            override fun sign(data: ByteArray): ByteArray = error("an exception that nobody declared")
            override fun log(level: LogLevel, target: String, line: String) = TODO()
        }
        Pilothouse.open(config("broken-key"), platform).use { device ->
            val error = fails<PilothouseException.PairingFailed> { device.pair(World.host.pairingCode()) }
            assertTrue(error.retryable)
            assertEquals(emptyList<Any>(), device.inbox().first())
        }
    }

    private fun config(name: String) = CoreConfig(World.fresh(name).toString(), "kotlin", "jvm")

    private suspend inline fun <reified E : PilothouseException> fails(crossinline call: suspend () -> Any?): E {
        val thrown = runCatching { call() }
        val error = assertThrows(E::class.java) { thrown.getOrThrow() }
        assertTrue(error.message.orEmpty().isNotBlank() && error.userAction.isNotBlank(), error.toString())
        return error
    }
}

package dev.pilothouse

import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.onEach
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import kotlinx.coroutines.withTimeoutOrNull
import org.junit.jupiter.api.Assertions.fail
import java.io.File
import java.net.InetAddress
import java.net.ServerSocket
import java.net.Socket
import java.net.URI
import java.net.http.HttpClient
import java.net.http.HttpRequest
import java.net.http.HttpResponse
import java.nio.file.Files
import java.nio.file.Path
import java.util.UUID
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit
import kotlin.io.path.createDirectories
import kotlin.io.path.readText
import kotlin.io.path.writeText
import kotlin.time.Duration.Companion.seconds

/** How long a wait may take before the test fails: many times what any of them needs on an idle machine. */
internal val PATIENCE = 90.seconds

internal fun test(block: suspend CoroutineScope.() -> Unit) = runBlocking { withTimeout(PATIENCE * 2) { block() } }

/** The first value that [found] takes; fails with the last one that was there instead. */
internal suspend fun <T> Flow<T>.until(what: String, found: (T) -> Boolean): T {
    var last: T? = null
    return withTimeoutOrNull(PATIENCE) { onEach { last = it }.first(found) } ?: fail("waited $PATIENCE for $what; instead: $last")
}

/**
 * Everything that has to run, all of it real: the scripted model server, codex, `pilothouse host`. One for all tests of
 * this JVM, since starting takes longer than most of them; each test has threads, files and devices of its own.
 */
internal object World {
    private val dir: Path = Files.createTempDirectory("ph-kt")
    val model = Model(dir)
    val host = Host(dir, model)

    init {
        Runtime.getRuntime().addShutdownHook(Thread {
            host.process.end()
            model.process.end()
            dir.toFile().deleteRecursively()
        })
    }

    fun fresh(name: String): Path = dir.resolve("$name-${UUID.randomUUID()}")

    /** A file of the workspace `demo`. */
    fun file(name: String): Path = host.workspace.resolve(name)

    /** A device on a data directory of its own, paired. */
    suspend fun device(dataDir: Path = fresh("device")): Pilothouse {
        val device = Pilothouse.open(dataDir, "kotlin")
        device.pair(host.pairingCode())
        return device
    }
}

internal fun nonce() = UUID.randomUUID().toString().take(13)

/** The program whose path a variable holds; scripts/kotlin-test sets them. */
private fun given(variable: String): String =
    System.getenv(variable)?.takeIf { Files.exists(Path.of(it)) } ?: error("$variable names no file; run scripts/kotlin-test")

/** A program, its lines of standard output as they come, its standard error in a file. */
internal class Program(name: String, dir: Path, command: List<String>, environment: Map<String, String> = emptyMap()) {
    private val errors = dir.resolve("$name.err").toFile()
    private val lines = LinkedBlockingQueue<String>()
    val process: Process = ProcessBuilder(command).redirectError(errors).directory(dir.toFile())
        .apply { environment().putAll(environment) }.start()

    init {
        Thread { process.inputStream.bufferedReader().forEachLine(lines::put) }.apply { isDaemon = true }.start()
    }

    /** The first group of [pattern] in the next line that has it. */
    fun line(pattern: Regex): String {
        while (true) {
            val line = lines.poll(PATIENCE.inWholeSeconds, TimeUnit.SECONDS) ?: error("no line like $pattern; its errors: ${errors.readText()}")
            pattern.find(line)?.let { return it.groupValues[1] }
        }
    }

    fun signal(name: String) = check(ProcessBuilder("kill", "-$name", "${process.pid()}").start().waitFor() == 0)

    /** Returns when every thread has stopped: on a busy machine some go on for a while after the signal. */
    fun freeze() {
        signal("STOP")
        val deadline = System.nanoTime() + PATIENCE.inWholeNanoseconds
        while (!stopped()) {
            check(System.nanoTime() < deadline) { "the process does not stop" }
            Thread.sleep(1)
        }
    }

    private fun stopped(): Boolean = checkNotNull(File("/proc/${process.pid()}/task").listFiles()).all {
        it.resolve("stat").readText().substringAfterLast(") ").startsWith("T")
    }

    fun end() {
        val children = process.descendants().toList()
        process.destroy()
        if (!process.waitFor(10, TimeUnit.SECONDS)) process.destroyForcibly()
        children.forEach { it.destroyForcibly() }
    }
}

/** The scripted model server. */
internal class Model(dir: Path) {
    val process = Program("model", dir, listOf("node", given("PILOTHOUSE_MODEL_SERVER"), "0", "$dir/model.jsonl", "--exit-with-stdin"))
    val port = process.line(Regex("""model on (\d+)"""))

    /** What a prompt with `[[script:NAME]]` is answered with: a JSON list of steps. */
    fun script(name: String, steps: String) {
        val put = HttpRequest.newBuilder(URI("http://127.0.0.1:$port/_script/$name")).PUT(HttpRequest.BodyPublishers.ofString(steps)).build()
        val answer = HttpClient.newHttpClient().send(put, HttpResponse.BodyHandlers.ofString())
        check(answer.statusCode() == 200) { answer.body() }
    }

    fun runs(name: String, command: String) = script(
        name,
        """[{"text": "I will run it.", "tools": [{"name": "exec_command", "args": {"cmd": "$command"}}]}, {"text": "After it."}]""",
    )

    fun patches(name: String, files: List<String>) {
        val steps = files.map {
            """{"tools": [{"custom": true, "name": "apply_patch", "input": "*** Begin Patch\n*** Add File: $it\n+patched\n*** End Patch\n"}]}"""
        }
        script(name, (steps + """{"text": "After the patches."}""").joinToString(",", "[", "]"))
    }
}

/** A private home of codex that speaks to the scripted model. */
private fun codexHome(dir: Path, model: Model): Path = dir.createDirectories().apply {
    resolve("config.toml").writeText(
        """
        model = "gpt-5.5"
        model_provider = "local"
        check_for_update_on_startup = false
        [model_providers.local]
        name = "local"
        base_url = "http://127.0.0.1:${model.port}/v1"
        wire_api = "responses"
        env_key = "LOCAL_KEY"
        [analytics]
        enabled = false
        """.trimIndent(),
    )
}

/** A real codex as its person starts it for others: on a WebSocket of this machine's loopback, behind a token, known to no host. */
internal class CodexElsewhere(dir: Path, model: Model, token: String) {
    val workspace: Path = dir.resolve("workspace").createDirectories()
    val port: Int = ServerSocket(0, 0, InetAddress.getLoopbackAddress()).use { it.localPort }
    val process: Program

    init {
        val tokenFile = dir.resolve("token").apply { writeText(token) }
        val home = codexHome(dir.resolve("codex-home"), model)
        process = Program(
            "codex-elsewhere",
            dir,
            listOf(
                given("PILOTHOUSE_CODEX"), "app-server", "--listen", "ws://127.0.0.1:$port",
                "--ws-auth", "capability-token", "--ws-token-file", "$tokenFile",
            ),
            mapOf("CODEX_HOME" to "$home", "LOCAL_KEY" to "local", "TMPDIR" to "/var/tmp", "HOME" to "$dir"),
        )
        val deadline = System.nanoTime() + PATIENCE.inWholeNanoseconds
        while (runCatching { Socket("127.0.0.1", port).close() }.isFailure) {
            check(System.nanoTime() < deadline) { "codex does not listen" }
            Thread.sleep(20)
        }
    }
}

/** The real host, with real codex that speaks to the scripted model. */
internal class Host(dir: Path, model: Model) {
    private val bin = given("PILOTHOUSE_BIN")
    private val state = dir.resolve("state")
    val workspace: Path = dir.resolve("workspace").createDirectories()
    val process: Program

    init {
        val codexHome = codexHome(dir.resolve("codex-home"), model)
        val home = dir.resolve("home").createDirectories()
        val config = dir.resolve("host.toml")
        config.writeText(
            """
            [host]
            name = "kotlin"
            [workspaces.demo]
            path = "$workspace"
            [agents.codex]
            protocol = "codex"
            command = ["${given("PILOTHOUSE_CODEX")}", "app-server"]
            env = { CODEX_HOME = "$codexHome", LOCAL_KEY = "local", TMPDIR = "/var/tmp", HOME = "$home" }
            """.trimIndent(),
        )
        val command = listOf(bin, "host", "--json", "--state", "$state", "--config", "$config", "--listen", "127.0.0.1:0")
        process = Program("host", dir, command, mapOf("HOME" to "$home"))
        process.line(Regex(""""listening":"([^"]+)""""))
    }

    /** A pairing code, made as its person makes it. */
    fun pairingCode(): String {
        val pair = ProcessBuilder(bin, "pair", "--json", "--no-wait", "--state", "$state").redirectErrorStream(true).start()
        val said = pair.inputStream.bufferedReader().readText()
        return Regex(""""code":"([^"]+)"""").find(said)?.groupValues?.get(1) ?: error("`pilothouse pair` gave no code: $said")
    }

    /** Stops the process as a frozen machine would: connections stay, nobody answers. */
    inline fun frozen(block: () -> Unit) {
        process.freeze()
        try {
            block()
        } finally {
            process.signal("CONT")
        }
    }
}

internal fun Path.textOrNull(): String? = if (Files.exists(this)) readText() else null

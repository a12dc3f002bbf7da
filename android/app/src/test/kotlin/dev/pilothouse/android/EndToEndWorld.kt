package dev.pilothouse.android

import org.junit.rules.ExternalResource
import java.io.File
import java.net.HttpURLConnection
import java.net.URI
import java.nio.file.Files
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.LockSupport

/** What is around the app in one test: the scripted model, real codex, a real host, each a process; gone with the test. */
class EndToEndWorld : ExternalResource() {
    private val processes = mutableListOf<Process>()
    private lateinit var dir: File
    private lateinit var host: Process
    private var modelPort = 0

    val workspace: File get() = dir.resolve("workspace")

    override fun before() {
        // Short, because the host's control socket stands in it.
        dir = Files.createTempDirectory("ph-").toFile()
        try {
            start()
        } catch (e: Throwable) {
            // The rule does not call after() for this.
            after()
            throw e
        }
    }

    private fun start() {
        workspace.mkdirs()
        val model = launch("model", listOf("node", place("model"), "0", dir.resolve("model.jsonl").path, "--exit-with-stdin"))
        modelPort = line("model", model) { it.startsWith("model on ") }.substringAfterLast(' ').toInt()
        val home = dir.resolve("codex-home")
        run(listOf(place("agents"), "home", home.path, modelPort.toString()))
        dir.resolve("host.toml").writeText(
            """
            [host]
            name = "wren"
            [workspaces.demo]
            path = "$workspace"
            [agents.codex]
            protocol = "codex"
            command = ["${place("codex")}", "app-server"]
            env = { CODEX_HOME = "$home", LOCAL_KEY = "local", TMPDIR = "/var/tmp", HOME = "${dir.resolve("home").apply { mkdirs() }}" }
            """.trimIndent(),
        )
        host = launch("host", pilothouse("host") + listOf("--config", dir.resolve("host.toml").path, "--listen", "127.0.0.1:0", "--json"))
        line("host", host) { "\"listening\"" in it }
    }

    /** Ends every process that was started, and what those have started. */
    override fun after() {
        resume()
        val all = processes.flatMap { it.toHandle().descendants().toList() + it.toHandle() }
        all.forEach { it.destroyForcibly() }
        all.forEach { it.onExit().get(PATIENCE_MS, TimeUnit.MILLISECONDS) }
        dir.deleteRecursively()
    }

    /** As its person makes it, in a terminal beside the host. */
    fun pairingCode(): String = checkNotNull(CODE.find(run(pilothouse("pair") + listOf("--json", "--no-wait")))) { "no code" }.groupValues[1]

    /** What the model answers to a prompt with `[[script:NAME]]`: a JSON list of steps. */
    fun script(name: String, steps: String) = http("PUT", "/_script/$name", steps)

    /** Waits until the model was asked for the [step]th step of a script: it has been told what came of the one before. */
    fun reached(name: String, step: Int) {
        val answer = http("GET", "/_wait/$name?count=$step&ms=$PATIENCE_MS")
        check("true" in answer) { "the model was not asked for step $step of $name: ${http("GET", "/_log")}\n$log" }
    }

    /** The host stops answering, as behind a bad network; its connections stay. */
    fun freeze() {
        signal("STOP")
    }

    fun resume() {
        if (::host.isInitialized && host.isAlive) signal("CONT")
    }

    val log: String get() = listOf("host", "model").joinToString("\n") { name -> "$name: " + file(name, "err").takeIf { it.exists() }?.readLines()?.takeLast(20)?.joinToString("\n") }

    private fun signal(name: String) = run(listOf("kill", "-$name", host.pid().toString()))

    private fun pilothouse(verb: String) = listOf(place("bin"), verb, "--state", dir.resolve("state").path)

    private fun file(name: String, kind: String) = dir.resolve("$name.$kind")

    private fun launch(name: String, command: List<String>): Process {
        val builder = ProcessBuilder(command).directory(dir).redirectOutput(file(name, "out")).redirectError(file(name, "err"))
        builder.environment()["HOME"] = dir.path
        val process = builder.start().also { processes += it }
        // A build that is stopped ends the JVM, and no rule is called then.
        Runtime.getRuntime().addShutdownHook(Thread { process.destroyForcibly() })
        return process
    }

    /** The first line of a program's output that is looked for, as soon as it is written. */
    private fun line(name: String, process: Process, wanted: (String) -> Boolean): String {
        val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS)
        while (true) {
            file(name, "out").readLines().firstOrNull(wanted)?.let { return it }
            check(process.isAlive) { "$name ended: $log" }
            check(System.nanoTime() < deadline) { "$name did not get ready: $log" }
            LockSupport.parkNanos(5_000_000)
        }
    }

    /** Runs a program to its end and returns what it wrote. */
    private fun run(command: List<String>): String {
        val process = ProcessBuilder(command).directory(dir).redirectErrorStream(true).apply { environment()["HOME"] = dir.path }.start()
        processes += process
        val said = process.inputStream.bufferedReader().readText()
        check(process.waitFor(PATIENCE_MS, TimeUnit.MILLISECONDS) && process.exitValue() == 0) { "$command: $said\n$log" }
        return said
    }

    private fun http(method: String, path: String, body: String? = null): String {
        val connection = URI("http://127.0.0.1:$modelPort$path").toURL().openConnection() as HttpURLConnection
        connection.requestMethod = method
        if (body != null) {
            connection.doOutput = true
            connection.outputStream.use { it.write(body.toByteArray()) }
        }
        return connection.inputStream.bufferedReader().use { it.readText() }
    }

    companion object {
        const val PATIENCE_MS = 60_000L
        private val CODE = Regex("\"code\":\"([^\"]+)\"")

        /** Where something is that scripts/android-test has made; a run without it has tested nothing. */
        private fun place(name: String): String {
            val path = System.getProperty("pilothouse.$name")
            check(path != null && File(path).isFile) { "pilothouse.$name names no file ($path): run scripts/android-test" }
            return path
        }
    }
}

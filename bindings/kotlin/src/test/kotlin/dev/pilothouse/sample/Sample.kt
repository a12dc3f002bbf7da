package dev.pilothouse.sample

import dev.pilothouse.*
import dev.pilothouse.core.*
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.flow.*
import kotlinx.coroutines.launch
import java.nio.file.Path

/** Lists hosts, watches a thread, and allows the first thing it asks for, once. */
suspend fun main(args: Array<String>) = coroutineScope {
    val (dataDir, thread) = args
    Pilothouse.open(Path.of(dataDir), "sample").use { pilothouse ->
        for (host in pilothouse.hosts().first()) println("${host.name}: ${host.link}")
        val row = pilothouse.threads().first().rows.first { it.thread == thread }
        val watching = launch {
            pilothouse.timeline(row.host, thread).collect { (header, rows) ->
                println("${header.active?.status ?: header.lastStatus}: ${rows.lastOrNull()?.text?.text}")
            }
        }
        val request = pilothouse.inbox().mapNotNull { waiting -> waiting.find { it.thread == thread } }.first()
        println("${request.title}: ${request.shown}")
        val once = request.subject.options.first { it.effect == OptionEffect.ALLOW_ONCE }
        try {
            pilothouse.answer(request, once).accepted()
        } catch (refused: PilothouseException.NotTaken) {
            println("${refused.message}; ${refused.userAction}")
        }
        pilothouse.timeline(row.host, thread).first { it.header.active == null && it.header.synchronised }
        watching.cancel()
    }
}

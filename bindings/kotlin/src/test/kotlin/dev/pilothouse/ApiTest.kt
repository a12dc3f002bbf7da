package dev.pilothouse

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import java.io.PrintWriter
import java.io.StringWriter
import java.util.spi.ToolProvider
import kotlin.io.path.Path
import kotlin.io.path.readText
import kotlin.io.path.writeText

/** What other programs compile against changes only on purpose: `UPDATE_GOLDEN=1 scripts/kotlin-test -Dtest=ApiTest`. */
class ApiTest {
    @Test fun `the public surface is the one that was agreed`() {
        val kept = Path("api.txt")
        val surface = surface()
        if (System.getenv("UPDATE_GOLDEN") != null) kept.writeText(surface)
        assertEquals(kept.readText(), surface, "if the change is meant: UPDATE_GOLDEN=1")
    }

    private fun surface(): String {
        val own = listOf("Pilothouse", "Pilothouse\$Companion", "CommandsKt", "Ticket", "Timeline", "PilothouseException")
        val errors = PilothouseException::class.java.declaredClasses.map { it.name.substringAfterLast('.') }.sorted()
        val written = StringWriter()
        val javap = ToolProvider.findFirst("javap").orElseThrow()
        val status = javap.run(
            PrintWriter(written), PrintWriter(System.err),
            "-public", "-cp", "target/classes", *(own + errors).map { "dev.pilothouse.$it" }.toTypedArray(),
        )
        check(status == 0) { "javap ended with $status" }
        // What is internal in Kotlin is public in the class file, under a name with a dollar in it.
        val internal = Regex("""\w+\$\w+\(|DefaultConstructorMarker""")
        return written.toString().lines().filterNot { it.startsWith("Compiled from") || internal.containsMatchIn(it) }.joinToString("\n")
    }
}

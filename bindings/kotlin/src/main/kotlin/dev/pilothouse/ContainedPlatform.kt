package dev.pilothouse

import dev.pilothouse.core.KeyException
import dev.pilothouse.core.LogLevel
import dev.pilothouse.core.Platform

/** A platform whose every throwable reaches Rust as what it is: an Error that left a callback would look like success. */
internal class ContainedPlatform(private val platform: Platform) : Platform {
    override fun publicKey(): ByteArray = keyed { platform.publicKey() }

    override fun sign(data: ByteArray): ByteArray = keyed { platform.sign(data) }

    override fun log(level: LogLevel, target: String, line: String) {
        try {
            platform.log(level, target, line)
        } catch (_: Throwable) {
            // A log that fails must not end what it tells of.
        }
    }

    private inline fun keyed(call: () -> ByteArray): ByteArray = try {
        call()
    } catch (error: KeyException) {
        throw error
    } catch (error: Throwable) {
        throw KeyException.Unavailable("the platform failed: $error")
    }
}

package dev.pilothouse

import dev.pilothouse.core.KeyException
import dev.pilothouse.core.LogLevel
import dev.pilothouse.core.Platform
import dev.pilothouse.core.SecretStore
import dev.pilothouse.core.SecretStoreException

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

/** A store of secrets, contained in the same way. What it throws must not hold a secret: it is shown. */
internal class ContainedSecrets(private val store: SecretStore) : SecretStore {
    override fun secret(name: String): String? = contained { store.secret(name) }

    override fun keep(name: String, secret: String) = contained { store.keep(name, secret) }

    override fun forget(name: String) = contained { store.forget(name) }

    private inline fun <T> contained(call: () -> T): T = try {
        call()
    } catch (error: SecretStoreException) {
        throw error
    } catch (error: Throwable) {
        throw SecretStoreException.Unavailable("the store failed: $error")
    }
}

package dev.pilothouse.android

import android.security.keystore.KeyPermanentlyInvalidatedException
import androidx.test.core.app.ApplicationProvider
import dev.pilothouse.core.SecretStoreException
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import java.io.File
import java.security.InvalidKeyException
import java.security.ProviderException
import java.security.UnrecoverableKeyException
import javax.crypto.SecretKey

/** How secrets are sealed, under the JDK's AES in the place of the phone's. */
@RunWith(RobolectricTestRunner::class)
class SecretsTest {
    private val directory = File(ApplicationProvider.getApplicationContext<TestApp>().noBackupFilesDir, "secrets")
    private val key = SoftwareSealingKey()
    private val secrets = SealedSecrets(directory, key)

    private fun file(name: String) = File(directory, "$name.sealed")

    @Test fun what_is_kept_is_there_for_the_next_process_and_nowhere_in_clear() {
        assertNull(secrets.secret("direct-a"))
        secrets.keep("direct-a", "gehëim-token")
        secrets.keep("direct-b", "")
        assertEquals("gehëim-token", SealedSecrets(directory, key).secret("direct-a"))
        assertEquals("", secrets.secret("direct-b"))
        for (written in directory.walk().filter(File::isFile)) assertFalse(written.readText(Charsets.ISO_8859_1).contains("token"))
        secrets.keep("direct-a", "other")
        assertEquals("other", secrets.secret("direct-a"))
    }

    @Test fun what_is_forgotten_is_gone_from_the_disk() {
        secrets.keep("direct-a", "token")
        secrets.forget("direct-a")
        assertNull(secrets.secret("direct-a"))
        assertEquals(emptyList<File>(), directory.walk().filter(File::isFile).toList())
        secrets.forget("direct-a")
    }

    @Test fun no_two_sealings_of_one_secret_are_alike() {
        val sealed = (1..20).map {
            secrets.keep("direct-a", "token")
            file("direct-a").readBytes().toList()
        }
        assertEquals(20, sealed.map { it.subList(1, 13) }.distinct().size)
        assertEquals(20, sealed.distinct().size)
    }

    @Test fun a_damaged_or_exchanged_file_is_no_secret() {
        secrets.keep("direct-a", "token")
        secrets.keep("direct-b", "token of another")
        val whole = file("direct-a").readBytes()
        for (at in whole.indices) {
            file("direct-a").writeBytes(whole.clone().also { it[at] = (it[at].toInt() xor 1).toByte() })
            assertNull("byte $at", secrets.secret("direct-a"))
        }
        for (length in whole.indices) {
            file("direct-a").writeBytes(whole.copyOf(length))
            assertNull("$length bytes", secrets.secret("direct-a"))
        }
        file("direct-b").copyTo(file("direct-a"), overwrite = true)
        assertNull(secrets.secret("direct-a"))
        file("direct-a").writeBytes(whole)
        assertEquals("token", secrets.secret("direct-a"))
    }

    @Test fun a_key_that_went_takes_its_secrets_with_it_and_the_next_one_keeps_new_ones() {
        // Where it is used, and where it is loaded.
        for (gone in listOf(KeyPermanentlyInvalidatedException(), UnrecoverableKeyException("Key permanently invalidated"))) {
            secrets.keep("direct-a", "token")
            key.trouble = gone
            assertNull(secrets.secret("direct-a"))
            secrets.keep("direct-b", "new")
            assertEquals("new", secrets.secret("direct-b"))
            assertNull(secrets.secret("direct-a"))
        }
    }

    @Test fun a_key_that_cannot_be_used_now_leaves_what_was_kept() {
        secrets.keep("direct-a", "token")
        val before = file("direct-a").readBytes()
        val unloaded = UnrecoverableKeyException("busy").apply { initCause(IllegalStateException("the keystore restarts")) }
        for (trouble in listOf(InvalidKeyException("busy"), ProviderException("busy"), unloaded)) {
            key.trouble = trouble
            assertThrows(SecretStoreException.Unavailable::class.java) { secrets.secret("direct-a") }
            val refused = assertThrows(SecretStoreException.Unavailable::class.java) { secrets.keep("direct-a", "gehëim") }
            assertTrue(refused.message, refused.reason.contains("busy") && !refused.reason.contains("gehëim"))
            assertArrayEquals(before, file("direct-a").readBytes())
        }
        key.trouble = null
        assertEquals("token", secrets.secret("direct-a"))
    }

    @Test fun no_name_leads_out_of_the_directory() {
        for (name in listOf("", "../a", "a/b", "a.b", "a".repeat(65))) {
            assertThrows(SecretStoreException.Unavailable::class.java) { secrets.keep(name, "token") }
            assertThrows(SecretStoreException.Unavailable::class.java) { secrets.secret(name) }
        }
        assertEquals(emptyList<File>(), directory.walk().filter(File::isFile).toList())
    }
}

/** A key in memory, as AndroidKeyStore would hold it; [trouble] is what it says instead until another is made. */
class SoftwareSealingKey : SealingKey {
    var trouble: Exception? = null
    private var key = made()

    override fun get(): SecretKey = trouble?.let { throw it } ?: key

    override fun renew() {
        trouble = null
        key = made()
    }

    private fun made() = javax.crypto.KeyGenerator.getInstance("AES").apply { init(256) }.generateKey()
}

package dev.pilothouse.android

import android.security.keystore.KeyPermanentlyInvalidatedException
import android.util.Log
import dev.pilothouse.core.KeyException
import dev.pilothouse.core.LogLevel
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.shadows.ShadowLog
import java.math.BigInteger
import java.security.GeneralSecurityException
import java.security.InvalidKeyException
import java.security.PrivateKey
import java.security.PublicKey
import java.security.Signature
import java.security.UnrecoverableKeyException
import java.security.interfaces.ECPublicKey
import java.security.spec.ECParameterSpec
import java.security.spec.ECPoint

/** What the core is given of the phone. AndroidKeyStore itself exists on phones only. */
@RunWith(RobolectricTestRunner::class)
class AndroidPlatformTest {
    private class AtPoint(private val x: BigInteger, private val y: BigInteger) : ECPublicKey {
        override fun getW() = ECPoint(x, y)
        override fun getParams(): ECParameterSpec = throw UnsupportedOperationException()
        override fun getAlgorithm() = "EC"
        override fun getFormat() = "none"
        override fun getEncoded() = ByteArray(0)
    }

    @Test fun coordinates_take_32_bytes_each_whatever_their_first_ones_are() {
        val high = BigInteger.ONE.shiftLeft(255)
        for ((x, y) in listOf(BigInteger.ONE to high, high to BigInteger.TEN)) {
            val bytes = uncompressed(AtPoint(x, y))
            assertEquals(65, bytes.size)
            assertEquals(4, bytes[0].toInt())
            assertEquals(listOf(x, y), listOf(bytes.copyOfRange(1, 33), bytes.copyOfRange(33, 65)).map { BigInteger(1, it) })
        }
    }

    @Test fun what_is_signed_is_verified_by_the_public_half() {
        val key = SoftwareKey()
        val platform = AndroidPlatform(key)
        val message = "hello".toByteArray()
        val signature = platform.sign(message)
        assertTrue(Signature.getInstance("SHA256withECDSA").run { initVerify(key.public); update(message); verify(signature) })
        assertEquals(platform.publicKey().toList(), platform.publicKey().toList())
    }

    @Test fun a_key_that_cannot_be_used_says_so_in_the_cores_own_terms() {
        val unloaded = UnrecoverableKeyException("the keystore restarts").apply { initCause(IllegalStateException()) }
        for (trouble in listOf(InvalidKeyException("locked"), unloaded)) {
            assertThrows(KeyException.Unavailable::class.java) { platformOf(trouble).publicKey() }
            assertThrows(KeyException.Unavailable::class.java) { platformOf(trouble).sign(ByteArray(1)) }
        }
        // Where it is used, and where it is loaded.
        for (trouble in listOf(KeyPermanentlyInvalidatedException(), UnrecoverableKeyException("Key permanently invalidated"))) {
            assertThrows(KeyException.Gone::class.java) { platformOf(trouble).publicKey() }
            assertThrows(KeyException.Gone::class.java) { platformOf(trouble).sign(ByteArray(1)) }
        }
    }

    private fun platformOf(trouble: GeneralSecurityException) = AndroidPlatform(object : DeviceKey {
        override val public: PublicKey get() = throw trouble
        override val private: PrivateKey get() = throw trouble
    })

    @Test fun log_lines_keep_their_loudness() {
        val platform = AndroidPlatform(SoftwareKey())
        for (level in LogLevel.entries) platform.log(level, "link", "line of $level")
        val lines = ShadowLog.getLogsForTag("pilothouse").map { it.type to it.msg }
        assertEquals(
            listOf(Log.ERROR to "link: line of ERROR", Log.WARN to "link: line of WARN", Log.INFO to "link: line of INFO", Log.DEBUG to "link: line of DEBUG"),
            lines,
        )
    }
}

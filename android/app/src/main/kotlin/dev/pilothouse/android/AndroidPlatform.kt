package dev.pilothouse.android

import android.content.Context
import android.content.pm.PackageManager
import android.security.keystore.KeyGenParameterSpec
import android.security.keystore.KeyPermanentlyInvalidatedException
import android.security.keystore.KeyProperties
import android.security.keystore.StrongBoxUnavailableException
import android.util.Log
import dev.pilothouse.core.KeyException
import dev.pilothouse.core.LogLevel
import dev.pilothouse.core.Platform
import java.math.BigInteger
import java.security.GeneralSecurityException
import java.security.KeyPairGenerator
import java.security.KeyStore
import java.security.PrivateKey
import java.security.PublicKey
import java.security.Signature
import java.security.UnrecoverableKeyException
import java.security.interfaces.ECPublicKey
import java.security.spec.ECGenParameterSpec

/** This device's P-256 key. Hosts know the phone by it; it is made once and never leaves its place. */
interface DeviceKey {
    val public: PublicKey
    val private: PrivateKey
}

/** What the core asks of a phone: signatures by its key, and a place for log lines. Called on the core's threads. */
class AndroidPlatform(private val key: DeviceKey) : Platform {
    override fun publicKey(): ByteArray = reach { uncompressed(key.public as ECPublicKey) }

    override fun sign(data: ByteArray): ByteArray = reach {
        Signature.getInstance("SHA256withECDSA").run {
            initSign(key.private)
            update(data)
            sign()
        }
    }

    override fun log(level: LogLevel, target: String, line: String) {
        val priority = when (level) {
            LogLevel.ERROR -> Log.ERROR
            LogLevel.WARN -> Log.WARN
            LogLevel.INFO -> Log.INFO
            LogLevel.DEBUG -> Log.DEBUG
        }
        Log.println(priority, "pilothouse", "$target: $line")
    }

    private fun <T> reach(use: () -> T): T = try {
        use()
    } catch (e: GeneralSecurityException) {
        throw if (e.keyIsGone) KeyException.Gone("the phone has invalidated it") else KeyException.Unavailable(e.toString())
    }
}

/**
 * No key will be there again. AndroidKeyStore says so by the first where a key is used, and by the second where it is loaded:
 * then without a cause. With one, the key could not be loaded just now.
 */
internal val GeneralSecurityException.keyIsGone: Boolean
    get() = this is KeyPermanentlyInvalidatedException || this is UnrecoverableKeyException && cause == null

/** 4, then both coordinates in 32 bytes each (SEC 1). */
internal fun uncompressed(key: ECPublicKey): ByteArray = byteArrayOf(4) + padded(key.w.affineX) + padded(key.w.affineY)

private fun padded(coordinate: BigInteger): ByteArray {
    val bytes = coordinate.toByteArray().dropWhile { it == 0.toByte() }
    return ByteArray(32 - bytes.size) + bytes
}

/** The key in AndroidKeyStore, in a StrongBox where the phone has one. Usable while locked: Deny works from the lock screen. */
class KeystoreKey(private val context: Context) : DeviceKey {
    private val entry by lazy {
        val store = KeyStore.getInstance(PROVIDER).apply { load(null) }
        if (!store.containsAlias(ALIAS)) make()
        store.getEntry(ALIAS, null) as KeyStore.PrivateKeyEntry
    }

    override val public: PublicKey get() = entry.certificate.publicKey
    override val private: PrivateKey get() = entry.privateKey

    private fun make() {
        if (context.packageManager.hasSystemFeature(PackageManager.FEATURE_STRONGBOX_KEYSTORE)) {
            try {
                return generate(strongBox = true)
            } catch (_: StrongBoxUnavailableException) {
                // Some are full, or lack this curve.
            }
        }
        generate(strongBox = false)
    }

    private fun generate(strongBox: Boolean) {
        val purpose = KeyGenParameterSpec.Builder(ALIAS, KeyProperties.PURPOSE_SIGN)
            .setAlgorithmParameterSpec(ECGenParameterSpec("secp256r1"))
            .setDigests(KeyProperties.DIGEST_SHA256)
            .setIsStrongBoxBacked(strongBox)
            .build()
        KeyPairGenerator.getInstance(KeyProperties.KEY_ALGORITHM_EC, PROVIDER).run {
            initialize(purpose)
            generateKeyPair()
        }
    }

    private companion object {
        const val PROVIDER = "AndroidKeyStore"
        const val ALIAS = "device"
    }
}

package dev.pilothouse.android

import android.security.keystore.KeyGenParameterSpec
import android.security.keystore.KeyProperties
import android.util.AtomicFile
import dev.pilothouse.core.SecretStore
import dev.pilothouse.core.SecretStoreException
import java.io.File
import java.io.FileNotFoundException
import java.io.IOException
import java.security.GeneralSecurityException
import java.security.KeyStore
import java.security.ProviderException
import javax.crypto.AEADBadTagException
import javax.crypto.Cipher
import javax.crypto.KeyGenerator
import javax.crypto.SecretKey
import javax.crypto.spec.GCMParameterSpec

/** The AES-256 key that seals secrets. It is made when it is first asked for, and does its work where it lies. */
interface SealingKey {
    /** @throws GeneralSecurityException if it cannot be reached just now */
    fun get(): SecretKey

    /** Makes another in its place, after which nothing that it sealed can be opened. */
    fun renew()
}

/**
 * Tokens and passwords of the agents that are driven from this phone: a file each, sealed by AES-GCM under [key], with its name
 * as what is authenticated besides, so that no file stands for another. A secret that cannot be opened any more, because its
 * key went or its file was damaged, is none: its person is asked for it again.
 */
class SealedSecrets(private val directory: File, private val key: SealingKey) : SecretStore {
    @Synchronized
    override fun secret(name: String): String? = reach {
        try {
            String(open(name, file(name).readFully()), Charsets.UTF_8)
        } catch (_: FileNotFoundException) {
            null
        } catch (e: GeneralSecurityException) {
            if (e is AEADBadTagException || e.keyIsGone) null else throw e
        }
    }

    @Synchronized
    override fun keep(name: String, secret: String) = reach {
        if (!directory.isDirectory && !directory.mkdirs()) throw IOException("$directory cannot be made")
        val sealed = try {
            seal(name, secret)
        } catch (e: GeneralSecurityException) {
            if (!e.keyIsGone) throw e
            key.renew()
            seal(name, secret)
        }
        val file = file(name)
        val stream = file.startWrite()
        try {
            stream.write(sealed)
            // Also waits until it is on the disk.
            file.finishWrite(stream)
        } catch (e: IOException) {
            file.failWrite(stream)
            throw e
        }
    }

    @Synchronized
    override fun forget(name: String) = reach {
        val file = file(name)
        file.delete()
        if (file.baseFile.exists()) throw IOException("${file.baseFile} cannot be removed")
    }

    private fun file(name: String): AtomicFile {
        if (!NAME.matches(name)) throw IOException("no secret can be kept under this name")
        return AtomicFile(File(directory, "$name.sealed"))
    }

    /** The nonce is the Keystore's own: it takes none that is given. */
    private fun seal(name: String, secret: String): ByteArray = Cipher.getInstance(CIPHER).run {
        init(Cipher.ENCRYPT_MODE, key.get())
        updateAAD(name.toByteArray())
        check(iv.size == NONCE) { "a nonce of ${iv.size} bytes" }
        byteArrayOf(FORMAT) + iv + doFinal(secret.toByteArray())
    }

    private fun open(name: String, sealed: ByteArray): ByteArray {
        if (sealed.size < 1 + NONCE || sealed[0] != FORMAT) throw AEADBadTagException("the file is none of ours")
        return Cipher.getInstance(CIPHER).run {
            init(Cipher.DECRYPT_MODE, key.get(), GCMParameterSpec(TAG_BITS, sealed, 1, NONCE))
            updateAAD(name.toByteArray())
            doFinal(sealed, 1 + NONCE, sealed.size - 1 - NONCE)
        }
    }

    /** None of what is thrown here holds a secret. */
    private fun <T> reach(use: () -> T): T = try {
        use()
    } catch (e: GeneralSecurityException) {
        throw SecretStoreException.Unavailable(e.toString())
    } catch (e: ProviderException) {
        throw SecretStoreException.Unavailable(e.toString())
    } catch (e: IOException) {
        throw SecretStoreException.Unavailable(e.toString())
    }

    private companion object {
        const val CIPHER = "AES/GCM/NoPadding"
        const val FORMAT: Byte = 1
        const val NONCE = 12
        const val TAG_BITS = 128
        val NAME = Regex("[A-Za-z0-9-]{1,64}")
    }
}

/** In AndroidKeyStore, usable while the phone is locked: the core connects again without anybody there. */
class KeystoreSealingKey : SealingKey {
    private val store by lazy { KeyStore.getInstance(PROVIDER).apply { load(null) } }

    override fun get(): SecretKey = store.getKey(ALIAS, null) as SecretKey? ?: made()

    override fun renew() {
        store.deleteEntry(ALIAS)
        made()
    }

    private fun made(): SecretKey {
        val purpose = KeyGenParameterSpec.Builder(ALIAS, KeyProperties.PURPOSE_ENCRYPT or KeyProperties.PURPOSE_DECRYPT)
            .setKeySize(256)
            .setBlockModes(KeyProperties.BLOCK_MODE_GCM)
            .setEncryptionPaddings(KeyProperties.ENCRYPTION_PADDING_NONE)
            .build()
        return KeyGenerator.getInstance(KeyProperties.KEY_ALGORITHM_AES, PROVIDER).run {
            init(purpose)
            generateKey()
        }
    }

    private companion object {
        const val PROVIDER = "AndroidKeyStore"
        const val ALIAS = "secrets"
    }
}

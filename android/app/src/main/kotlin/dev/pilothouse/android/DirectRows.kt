package dev.pilothouse.android

import dev.pilothouse.android.ui.DirectForm
import dev.pilothouse.android.ui.DirectItem
import dev.pilothouse.android.ui.DirectKind
import dev.pilothouse.android.ui.DirectTrust
import dev.pilothouse.core.DirectAgent
import dev.pilothouse.core.DirectFamily
import dev.pilothouse.core.DrivenAgent

internal fun DirectForm.toAgent() = DirectAgent(
    name = name.trim(),
    family = when (family) {
        DirectKind.Codex -> DirectFamily.CODEX
        DirectKind.Opencode -> DirectFamily.OPENCODE
    },
    url = url.trim(),
    pin = pin.trim().takeIf { trust == DirectTrust.Key },
    privateNetwork = trust == DirectTrust.PrivateNetwork,
    directories = paths,
)

internal fun DrivenAgent.toItem() = DirectItem(
    host = host,
    name = agent.name,
    family = when (agent.family) {
        DirectFamily.CODEX -> DirectKind.Codex
        DirectFamily.OPENCODE -> DirectKind.Opencode
    },
    url = agent.url,
    trust = when {
        agent.pin != null -> DirectTrust.Key
        agent.privateNetwork -> DirectTrust.PrivateNetwork
        else -> DirectTrust.Authorities
    },
)

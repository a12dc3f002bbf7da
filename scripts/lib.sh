# Shared by the other scripts (source it): places, messages, prerequisites, timed parts.
# shellcheck shell=bash
#
# Variables that the programs under test read, all absolute paths, set by use_agents and use_binaries:
#   PILOTHOUSE_CODEX         the pinned codex binary
#   PILOTHOUSE_COPILOT       the pinned copilot binary, which speaks ACP
#   PILOTHOUSE_NODE          the pinned Node, which pi needs
#   PILOTHOUSE_PI            the pinned pi, a script for Node
#   PILOTHOUSE_CLAUDE        the pinned Claude Code binary
#   PILOTHOUSE_OPENCODE      the pinned opencode binary
#   PILOTHOUSE_MODEL_SERVER  the scripted model server (run it with node)
#   PILOTHOUSE_BIN           the built `pilothouse` binary
#   PILOTHOUSE_LIB           the built library for the JVM
#   PILOTHOUSE_BINDGEN       the generator of the Kotlin bindings, of the same build
# Variables that a person may set:
#   PILOTHOUSE_CACHE         where agents and other downloads are kept (default: .cache in the checkout)
#   CARGO_TARGET_DIR         where cargo builds (default: target in the checkout)
#   PILOTHOUSE_NO_STRACE     set where strace may not trace: power cuts and counts of syncs are left out

ROOT="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck disable=SC2034  # read by the scripts that source this file
CACHE="${PILOTHOUSE_CACHE:-$ROOT/.cache}"
TARGET="${CARGO_TARGET_DIR:-$ROOT/target}"
# rustup puts cargo there, and not every shell has it on its PATH.
if ! command -v cargo >/dev/null && [ -x "${HOME:-/root}/.cargo/bin/cargo" ]; then PATH="${HOME:-/root}/.cargo/bin:$PATH"; fi
# Everything a fresh Debian 12 needs besides Rust itself.
DEBIAN_LINE='apt-get update && apt-get install -y git curl build-essential nodejs npm default-jdk-headless maven strace bubblewrap'
RUST_LINE="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"

say() { printf '%s\n' "$*"; }
warn() { printf '%s\n' "$*" >&2; }
fail() {
    warn "error: $*"
    exit 1
}

# In a container the checkout often belongs to another user, and git then refuses to look at it.
git_here() { git -c 'safe.directory=*' -C "$ROOT" "$@"; }

# commit: the checkout's commit, 40 hexadecimal digits; zeros where there is none to be had (an unpacked archive).
commit() { git_here rev-parse --verify --quiet HEAD 2>/dev/null || printf '%040d\n' 0; }

# version_at_least HAVE WANT: compares dotted versions.
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# require_tools [rust] [node] [java]: names everything that is missing at once, with the line that installs it.
require_tools() {
    local missing=() tool version
    for tool in git "$@"; do
        case "$tool" in
        rust)
            command -v cargo >/dev/null || missing+=("cargo (Rust by rustup: $RUST_LINE)")
            command -v cc >/dev/null || missing+=("cc (a C compiler)")
            ;;
        node)
            command -v npm >/dev/null || missing+=("npm")
            if command -v node >/dev/null; then
                version="$(node --version)"
                version_at_least "${version#v}" 18.3 || missing+=("node 18.3 or newer (found $version)")
            else
                missing+=("node")
            fi
            ;;
        java)
            command -v mvn >/dev/null || missing+=("mvn (Maven)")
            if command -v javac >/dev/null; then
                version="$(javac -version 2>&1 | awk '{print $2}')"
                version_at_least "$version" 17 || missing+=("a JDK of at least 17 (found $version)")
            else
                missing+=("javac (a JDK)")
            fi
            ;;
        *) command -v "$tool" >/dev/null || missing+=("$tool") ;;
        esac
    done
    [ "${#missing[@]}" -eq 0 ] && return 0
    warn "error: these are missing:"
    printf '  - %s\n' "${missing[@]}" >&2
    warn "On Debian, as root:"
    warn "  $DEBIAN_LINE"
    return 1
}

# require_room GIB: fails where the disk that is built on has less room than that.
require_room() {
    local place="$TARGET" free
    until [ -d "$place" ]; do place="$(dirname -- "$place")"; done
    free="$(df -Pk -- "$place" | awk 'NR == 2 { print int($4 / 1048576) }')"
    [ "$free" -ge "$1" ] || {
        warn "error: $place has $free GiB left on its disk, and this needs $1; make room there, or set CARGO_TARGET_DIR to a larger disk"
        return 1
    }
}

# require_debian PACKAGE …: installs what is missing of them if this is root, and says the line otherwise.
require_debian() {
    local package missing=() log
    command -v dpkg >/dev/null || {
        say "no dpkg here: assuming that what Debian calls $* is installed"
        return 0
    }
    for package in "$@"; do dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package"); done
    [ "${#missing[@]}" -gt 0 ] || return 0
    [ "$(id -u)" -eq 0 ] || fail "missing packages; as root: apt-get install -y --no-install-recommends ${missing[*]}"
    say "installing ${missing[*]}"
    log="$(mktemp)"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        fail "could not install ${missing[*]}"
    }
    rm -f -- "$log"
}

# use_agents: installs the pinned agents and says where they are.
use_agents() {
    PILOTHOUSE_CODEX="$("$ROOT/scripts/agents" codex | tail -n 1)" || return 1
    PILOTHOUSE_COPILOT="$("$ROOT/scripts/agents" copilot | tail -n 1)" || return 1
    PILOTHOUSE_NODE="$("$ROOT/scripts/agents" node | tail -n 1)" || return 1
    PILOTHOUSE_PI="$("$ROOT/scripts/agents" pi | tail -n 1)" || return 1
    PILOTHOUSE_CLAUDE="$("$ROOT/scripts/agents" claude | tail -n 1)" || return 1
    PILOTHOUSE_OPENCODE="$("$ROOT/scripts/agents" opencode | tail -n 1)" || return 1
    PILOTHOUSE_MODEL_SERVER="$ROOT/tests/model/model.mjs"
    export PILOTHOUSE_NODE PILOTHOUSE_PI PILOTHOUSE_CODEX PILOTHOUSE_COPILOT PILOTHOUSE_CLAUDE PILOTHOUSE_OPENCODE PILOTHOUSE_MODEL_SERVER
}

# use_binaries: builds the binary, the library and the bindings' generator that other parts start, and says where they are.
# The whole workspace at once, because cargo unifies features per call: built one by one, each would undo the other's.
use_binaries() {
    (cd "$ROOT" && cargo build --locked --workspace) || return 1
    PILOTHOUSE_BIN="$TARGET/debug/pilothouse"
    PILOTHOUSE_LIB="$TARGET/debug/libpilothouse.so"
    PILOTHOUSE_BINDGEN="$TARGET/debug/pilothouse-bindgen"
    export PILOTHOUSE_BIN PILOTHOUSE_LIB PILOTHOUSE_BINDGEN
}

PART_LINES=()
PARTS_FAILED=0

# What a command says that cannot run here for a stated reason.
LEFT_OUT=77

# part NAME COMMAND …: runs the command, remembers how long it took and whether it passed; a failure does not stop the others.
part() {
    local name="$1" began="$SECONDS" outcome=passed took status=0
    shift
    printf '\n=== %s\n' "$name"
    "$@" || status=$?
    case "$status" in 0) ;; "$LEFT_OUT") outcome='LEFT OUT, see above' ;; *) outcome=FAILED ;; esac
    took=$((SECONDS - began))
    [ "$outcome" != FAILED ] || PARTS_FAILED=$((PARTS_FAILED + 1))
    PART_LINES+=("$(printf '%-28s %3d:%02d  %s' "$name" $((took / 60)) $((took % 60)) "$outcome")")
}

# print_parts: the table of all parts; its status is 1 if one failed.
print_parts() {
    printf '\n%-28s %6s  %s\n' part 'min:s' outcome
    [ "${#PART_LINES[@]}" -eq 0 ] || printf '%s\n' "${PART_LINES[@]}"
    printf '%-28s %3d:%02d  %s\n' total $((SECONDS / 60)) $((SECONDS % 60)) \
        "$([ "$PARTS_FAILED" -eq 0 ] && echo passed || echo "$PARTS_FAILED FAILED")"
    [ "$PARTS_FAILED" -eq 0 ]
}

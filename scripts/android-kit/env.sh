# Puts the kit's compilers before the machine's (source it, with KIT set to the folder of scripts/android-kit/tools).
# shellcheck shell=bash
KIT_BIN="$KIT/root/usr/bin"
KIT_LIB="$KIT/root/usr/lib"
export PATH="$KIT_LIB/llvm/bin:$KIT_BIN:$PATH"
export LD_LIBRARY_PATH="$KIT_LIB/x86_64-linux-gnu:$KIT_LIB/llvm/lib"
export RUSTC="$KIT_BIN/rustc"
# What rustup or a developer's shell has set is meant for another compiler.
unset RUSTUP_TOOLCHAIN RUSTC_BOOTSTRAP RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET CARGO_BUILD_RUSTFLAGS RUSTC_WRAPPER RUSTDOC

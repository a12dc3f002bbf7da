//! Generates the Kotlin bindings from the built library. Must be of the same UniFFI version as the library: one lockfile.
#![forbid(unsafe_code)]

fn main() {
    uniffi::uniffi_bindgen_main();
}

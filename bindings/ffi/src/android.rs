//! What the library needs of Android's virtual machine, and nothing that takes or gives a Java object.
//!
//! UniFFI's Kotlin calls through JNA, which attaches a thread of ours to the VM for each callback and detaches it after
//! (with a new `Thread` object each time). [`attach_current_thread`] does that once per thread, under the thread's own
//! name; JNA then finds the thread attached and leaves it so. Without the VM everything works by JNA's own means, slower.
//!
//! [`JNI_OnLoad`] runs only when `System.loadLibrary` loads the library, which the Kotlin layer does on Android before
//! JNA does: JNA opens libraries by `dlopen`.

use jni::{
    AttachConfig, AttachmentExceptionPolicy, JavaVM,
    errors::Error,
    strings::JNIString,
    sys::{JNI_ERR, JNI_VERSION_1_6, jint},
};
use log::LevelFilter;
use std::{
    ffi::c_void,
    panic::{self, catch_unwind},
    thread,
};

/// Under which the library's own lines stand in logcat.
const TAG: &str = "pilothouse";

/// Keeps the VM and sends what the library logs to logcat. Called by the VM, once, before anything else of the library.
///
/// # Safety
/// `vm` is null or the VM that loads the library, alive as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn JNI_OnLoad(
    vm: *mut jni::sys::JavaVM,
    _reserved: *mut c_void,
) -> jint {
    if vm.is_null() {
        return JNI_ERR;
    }
    // Nothing may unwind into the VM.
    catch_unwind(|| {
        log_to_logcat();
        // Kept by the crate, one per process: `JavaVM::singleton`.
        // SAFETY: not null, and by the contract of this function a VM; every Android speaks JNI 1.6.
        drop(unsafe { JavaVM::from_raw(vm) });
        JNI_VERSION_1_6
    })
    .unwrap_or(JNI_ERR)
}

/// What the app's own sink does not take (no platform was given, a panic): by `tracing` and `log` to logcat.
fn log_to_logcat() {
    let loudest = if cfg!(debug_assertions) {
        LevelFilter::Debug
    } else {
        LevelFilter::Info
    };
    android_logger::init_once(
        android_logger::Config::default()
            .with_max_level(loudest)
            .with_tag(TAG),
    );
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        // Where, and not what: the message may quote the text of a conversation, and standard error goes nowhere.
        let place = panic.location().map(ToString::to_string);
        log::error!(
            "panic on thread {} at {}",
            thread::current().name().unwrap_or("without a name"),
            place.as_deref().unwrap_or("an unknown place")
        );
        before(panic);
    }));
}

/// Attaches this thread to the VM until it ends; cheap if it is attached. Without a VM, or if the VM will not, the
/// caller goes on: JNA attaches for the length of the call.
pub(crate) fn attach_current_thread() {
    let Ok(vm) = JavaVM::singleton() else { return };
    if matches!(vm.is_thread_attached(), Ok(true)) {
        return;
    }
    let thread = thread::current();
    let name = JNIString::from(thread.name().unwrap_or(TAG));
    let attached = vm.attach_current_thread_with_config(
        || {
            AttachConfig::new()
                .thread_name(&name)
                // No Java is run here, so there is no exception to look after.
                .exceptions_policy(AttachmentExceptionPolicy::Ignore)
        },
        None,
        |_| Ok::<(), Error>(()),
    );
    if let Err(error) = attached {
        log::warn!("a thread was not attached to the VM: {error}");
    }
}

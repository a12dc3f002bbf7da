/* Loads the library as an app would and uses it through UniFFI's functions. Prints a line per claim.
 *
 *   harness LIBRARY FOLDER CHECKSUMS [PAIRING-CODE HOST-NAME]
 *
 * FOLDER is empty. CHECKSUMS has a line per function whose result Kotlin compares at load time: its name and the number.
 * With a pairing code of a running host, the library pairs with it over TLS and its name has to arrive in a batch. */
#include "bionic.h"
#include "vm.h"
#include "uniffi.h"
#include <stdarg.h>
#include <time.h>

enum { PATIENCE_S = 120 }; /* emulated, on a busy machine */
static int failed, passed;
__attribute__((format(printf, 2, 3))) static void claim(int holds, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs(holds ? "ok    " : "FAIL  ", stdout); vprintf(format, arguments); putchar('\n'); fflush(stdout);
  va_end(arguments);
  if (holds) passed++; else failed++;
}

/* What the callbacks leave behind, under one lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_t main_thread;
static struct { int batches, on_main, detached, logs, polled, code, thrown; uint8_t last[65536]; size_t last_len; char log[400]; } seen;
static atomic_int foreign_held;
#define NOTE(what) do { pthread_mutex_lock(&lock); what; pthread_cond_broadcast(&changed); pthread_mutex_unlock(&lock); } while (0)
#define UNTIL(condition) ({ \
  struct timespec end; clock_gettime(CLOCK_REALTIME, &end); end.tv_sec += PATIENCE_S; \
  pthread_mutex_lock(&lock); \
  int late = 0; while (!(condition) && !late) late = pthread_cond_timedwait(&changed, &lock, &end) == ETIMEDOUT; \
  int holds = (condition); pthread_mutex_unlock(&lock); holds; })

/* Foreign objects; UniFFI wants odd handles for those. */
enum { SINK = 1, THROWING_SINK = 3, PLATFORM = 5 };
static void foreign_free(uint64_t handle) { (void)handle; atomic_fetch_sub(&foreign_held, 1); }
static uint64_t foreign_clone(uint64_t handle) { atomic_fetch_add(&foreign_held, 1); return handle; }
static uint64_t lend(uint64_t handle) { atomic_fetch_add(&foreign_held, 1); return handle; }

static void sink_on_batch(uint64_t handle, Buffer batch, void *nothing, Status *status) {
  (void)nothing;
  if (handle == THROWING_SINK) {
    *status = (Status){CALL_PANIC, text("thrown by the sink")};
    NOTE(seen.thrown++);
  } else {
    NOTE(seen.batches++; seen.on_main += pthread_equal(pthread_self(), main_thread) != 0; seen.detached += !vm_attached;
         seen.last_len = batch.len < sizeof seen.last ? batch.len : sizeof seen.last; memcpy(seen.last, batch.data, seen.last_len));
  }
  release(batch);
}
static void platform_key(uint64_t handle, Buffer *out, Status *status) { /* KeyError.Unavailable */
  (void)handle; (void)out;
  Written error = {0}; put_i32(&error, 2); put_text(&error, "no key here");
  *status = (Status){CALL_ERROR, written(&error)};
}
static void platform_sign(uint64_t handle, Buffer data, Buffer *out, Status *status) { release(data); platform_key(handle, out, status); }
static void platform_log(uint64_t handle, Buffer level, Buffer target, Buffer line, void *nothing, Status *status) {
  (void)handle; (void)nothing; (void)status;
  NOTE(seen.logs++; seen.detached += !vm_attached; snprintf(seen.log, sizeof seen.log, "%.*s: %.*s", (int)target.len, (char *)target.data, (int)line.len, (char *)line.data));
  release(level); release(target); release(line);
}
static struct { void (*free)(uint64_t); uint64_t (*clone)(uint64_t); void *on_batch; } sink_table = {foreign_free, foreign_clone, (void *)sink_on_batch};
static struct { void (*free)(uint64_t); uint64_t (*clone)(uint64_t); void *public_key, *sign, *log; } platform_table =
  {foreign_free, foreign_clone, (void *)platform_key, (void *)platform_sign, (void *)platform_log};

/* The calls. A method takes a reference of its own to its object. */
static Buffer config(const char *folder) {
  Written w = {0};
  put_text(&w, folder); put_text(&w, "smoke test"); put_text(&w, "android");
  return written(&w);
}
static uint64_t core_open(const char *folder, int platform, Status *status) {
  Written w = {0}, secrets = {0};
  put_u8(&w, platform != 0);
  if (platform) put_u64(&w, lend(PLATFORM));
  put_u8(&secrets, 0);
  *status = (Status){0};
  return CALL(uint64_t, "constructor_core_open", Buffer, Buffer, Buffer, Status *)(config(folder), written(&w), written(&secrets), status);
}
static uint64_t again(uint64_t core) { Status status = {0}; return CALL(uint64_t, "clone_core", uint64_t, Status *)(core, &status); }
static void core_end(uint64_t core) {
  Status status = {0};
  CALL(void, "method_core_shutdown", uint64_t, Status *)(again(core), &status);
  claim(status.code == CALL_OK, "shut down");
  CALL(void, "free_core", uint64_t, Status *)(core, &status);
}
static uint64_t observe_hosts(uint64_t core, uint64_t sink) {
  Written w = {0};
  put_i32(&w, 1);
  Status status = {0};
  uint64_t observation = CALL(uint64_t, "method_core_observe", uint64_t, Buffer, uint64_t, Status *)(again(core), written(&w), lend(sink), &status);
  claim(status.code == CALL_OK && observation, "observe the hosts");
  return observation;
}
static void observation_end(uint64_t observation) {
  Status status = {0};
  uint64_t own = CALL(uint64_t, "clone_observation", uint64_t, Status *)(observation, &status);
  CALL(void, "method_observation_stop", uint64_t, Status *)(own, &status);
  CALL(void, "free_observation", uint64_t, Status *)(observation, &status);
}
static Status submit(uint64_t core, Buffer command) {
  Status status = {0};
  CALL(uint64_t, "method_core_submit", uint64_t, Buffer, Status *)(again(core), command, &status);
  return status;
}
static Buffer release_queue(const char *host, const char *thread) { /* CommandBody.QueueRelease */
  Written w = {0};
  put_text(&w, host); put_u8(&w, 1); put_text(&w, thread); put_i32(&w, 12); put_u64(&w, 7);
  return written(&w);
}
static void polled(uint64_t data, int8_t code) { (void)data; NOTE(seen.polled = 1; seen.code = code); }
static Buffer pair(uint64_t core, const char *code, Status *status) {
  enum { READY = 0 };
  uint64_t future = CALL(uint64_t, "method_core_pair", uint64_t, Buffer)(again(core), text(code));
  int in_time = 1;
  do {
    NOTE(seen.polled = 0);
    FFI(void, "rust_future_poll_rust_buffer", uint64_t, void (*)(uint64_t, int8_t), uint64_t)(future, polled, 0);
    in_time = UNTIL(seen.polled);
  } while (in_time && seen.code != READY);
  *status = (Status){0};
  Buffer host = {0};
  if (in_time) host = FFI(Buffer, "rust_future_complete_rust_buffer", uint64_t, Status *)(future, status);
  else status->code = CALL_PANIC;
  FFI(void, "rust_future_free_rust_buffer", uint64_t)(future);
  return host;
}

/* What Kotlin compares when it loads the library. */
static void checksums(const char *file) {
  FILE *lines = fopen(file, "r");
  char name[200]; unsigned wanted; int count = 0, wrong = 0;
  while (lines && fscanf(lines, "%199s %u", name, &wanted) == 2) {
    unsigned found = strstr(name, "contract_version") ? ((unsigned (*)(void))function(name))() : ((uint16_t (*)(void))function(name))();
    if (found != wanted) { printf("      %s: the library says %u, the Kotlin %u\n", name, found, wanted); wrong++; }
    count++;
  }
  if (lines) fclose(lines);
  claim(count > 1 && !wrong, "contract version and %d checksums are those of the Kotlin", count - 1);
}

static void with_a_platform(const char *folder) {
  char unusable[600], place[600];
  snprintf(place, sizeof place, "%s/with-platform", folder);
  snprintf(unusable, sizeof unusable, "%s/file/below", folder);
  char file[600]; snprintf(file, sizeof file, "%s/file", folder); fclose(fopen(file, "w"));
  Status status;
  uint64_t core = core_open(unusable, 0, &status);
  claim(!core && status.code == CALL_ERROR && variant(status.error) == 1, "a folder that cannot be is refused as CoreError.Open: %s", reason(status.error));
  release(status.error);
  core = core_open(place, 1, &status);
  claim(status.code == CALL_OK && core, "open, with a platform");
  if (!core) { printf("      %s\n", reason(status.error)); return; }
  uint64_t good = observe_hosts(core, SINK);
  claim(UNTIL(seen.batches >= 1), "a batch came");
  claim(seen.last_len >= 5 && seen.last[3] == 1 && seen.last[4] == 1, "it is a reset of the list of hosts");
  claim(!seen.on_main && vm_knows("pilothouse-delivery"), "from the core's own thread, attached to the VM under its name");

  uint64_t bad = observe_hosts(core, THROWING_SINK);
  claim(UNTIL(seen.logs >= 1), "a sink that throws: a panic on the core's thread, caught, and told to the platform's log");
  printf("      %s\n", seen.log);
  claim(seen.thrown == 1, "it was called once and never again");
  int before = seen.batches;
  uint64_t after = observe_hosts(core, SINK);
  claim(UNTIL(seen.batches > before), "other sinks go on");
  observation_end(good); observation_end(bad); observation_end(after);
  core_end(core);
  claim(seen.detached == 0, "no callback came on a thread that was not attached");
}

static void without(const char *folder, const char *code, const char *host_name) {
  char place[600];
  snprintf(place, sizeof place, "%s/core", folder);
  Status status;
  uint64_t core = core_open(place, 0, &status);
  claim(status.code == CALL_OK && core, "open, with a key in a file");
  if (!core) { printf("      %s\n", reason(status.error)); return; }
  status = submit(core, release_queue("nonsense", "nonsense"));
  claim(status.code == CALL_ERROR && variant(status.error) == 4, "a command with no id is refused as CoreError.Invalid: %s", reason(status.error));
  release(status.error);
  status = submit(core, release_queue("00000000000000000000000000", "00000000000000000000000000"));
  claim(status.code == CALL_ERROR && variant(status.error) == 3, "one for an unknown host as CoreError.Submit: %s", reason(status.error));
  release(status.error);
  status = submit(core, (Buffer){1, 2, malloc(2)}); /* longer than it is: UniFFI asserts */
  claim(status.code == CALL_PANIC, "a panic is an error: %.*s", (int)(status.error.len > 200 ? 200 : status.error.len), (const char *)status.error.data);
  release(status.error);
  Buffer host = pair(core, "pilothouse:pair?nonsense", &status);
  claim(status.code == CALL_ERROR && variant(status.error) == 2, "a code that is none is refused as CoreError.Pairing: %s", reason(status.error));
  release(host); release(status.error);
  if (code) {
    int before = seen.batches;
    uint64_t observation = observe_hosts(core, SINK);
    host = pair(core, code, &status);
    claim(status.code == CALL_OK && host.len == 26, "paired with a real host over TLS: %s%.*s", status.code ? reason(status.error) : "", (int)host.len, (const char *)host.data);
    claim(UNTIL(seen.batches > before && memmem(seen.last, seen.last_len, host_name, strlen(host_name))), "the host stands in the list");
    release(host);
    observation_end(observation);
  }
  core_end(core);
}

int main(int count, char **given) {
  if (count < 4) return 2;
  main_thread = pthread_self();
  vm_start();
  library = dlopen(given[1], RTLD_NOW);
  claim(library != 0, "dlopen%s%s", library ? "" : ": ", library ? "" : dlerror());
  if (!library) return 1;
  checksums(given[3]);
  int (*on_load)(void *, void *) = (int (*)(void *, void *))function("JNI_OnLoad");
  claim(on_load(0, 0) == JNI_ERR, "JNI_OnLoad without a VM says JNI_ERR");
  claim(on_load(&the_vm, 0) == JNI_VERSION_1_6, "JNI_OnLoad keeps the VM and says JNI 1.6");
  vm_attached = 1; /* as a thread of the app's is */
  CALL(void, "init_callback_vtable_sink", void *)(&sink_table);
  CALL(void, "init_callback_vtable_platform", void *)(&platform_table);
  with_a_platform(given[2]);
  without(given[2], count > 5 ? given[4] : 0, count > 5 ? given[5] : 0);
  claim(vm_attaches > 0 && vm_attaches == vm_detaches, "%d threads were attached to the VM, and %d detached when they ended", vm_attaches, vm_detaches);
  claim(foreign_held == 0, "every sink and platform was let go");
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}

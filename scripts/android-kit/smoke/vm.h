/* As much of a Java virtual machine as a library needs that keeps it and attaches its threads: who is attached, under
 * which name, and that whoever came also went. Any other call into it ends the run. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum { JNI_OK = 0, JNI_ERR = -1, JNI_EDETACHED = -2, JNI_VERSION_1_6 = 0x00010006 };
static __thread int vm_attached;
static atomic_int vm_attaches, vm_detaches;
static char vm_names[32][64];

static void vm_unexpected(void) { fprintf(stderr, "[vm] a call that this machine has not\n"); abort(); }
static int env_version(void *env) { (void)env; return JNI_VERSION_1_6; }
static void *env_no_exception(void *env) { (void)env; return 0; }
static void env_nothing(void *env) { (void)env; }
static uint8_t env_false(void *env) { (void)env; return 0; }
/* Places in JNI's table of functions (Java Native Interface Specification, chapter 4). */
enum { ENV_GET_VERSION = 4, ENV_EXCEPTION_OCCURRED = 15, ENV_EXCEPTION_CLEAR = 17, ENV_EXCEPTION_CHECK = 228, ENV_FUNCTIONS = 235 };
static void *env_table[ENV_FUNCTIONS];
static void *vm_env = env_table;

static int vm_get_env(void *vm, void **env, int version) {
  (void)vm; (void)version;
  *env = vm_attached ? &vm_env : 0;
  return vm_attached ? JNI_OK : JNI_EDETACHED;
}
static int vm_attach(void *vm, void **env, void *arguments) {
  struct { int version; const char *name; void *group; } *given = arguments;
  (void)vm;
  if (!vm_attached) {
    int place = atomic_fetch_add(&vm_attaches, 1);
    if (place < 32) snprintf(vm_names[place], sizeof vm_names[place], "%s", given && given->name ? given->name : "");
  }
  vm_attached = 1;
  *env = &vm_env;
  return JNI_OK;
}
static int vm_detach(void *vm) {
  (void)vm;
  if (!vm_attached) return JNI_EDETACHED;
  vm_attached = 0;
  atomic_fetch_add(&vm_detaches, 1);
  return JNI_OK;
}
static void *vm_table[] = {0, 0, 0, (void *)vm_unexpected, (void *)vm_attach, (void *)vm_detach, (void *)vm_get_env, (void *)vm_attach};
static void *the_vm = vm_table;

static void vm_start(void) {
  for (int i = 0; i < ENV_FUNCTIONS; i++) env_table[i] = (void *)vm_unexpected;
  env_table[ENV_GET_VERSION] = (void *)env_version;
  env_table[ENV_EXCEPTION_OCCURRED] = (void *)env_no_exception;
  env_table[ENV_EXCEPTION_CLEAR] = (void *)env_nothing;
  env_table[ENV_EXCEPTION_CHECK] = (void *)env_false;
}
static int vm_knows(const char *name) {
  for (int i = 0; i < 32; i++) if (!strcmp(vm_names[i], name)) return 1;
  return 0;
}

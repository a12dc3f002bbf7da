/* What Android's C library has and musl lacks or numbers otherwise, for running an Android library on musl. In the
 * executable, so that the library finds these before musl's own. Everything else has the same layout on both: they
 * take it from the same kernel. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int __system_property_get(const char *name, char *value) { (void)name; *value = 0; return 0; }
int *__errno(void) { return &errno; }

long sysconf(int name) {
  cpu_set_t set;
  switch (name) {
    case 0x27: case 0x28: return (long)getpagesize(); /* _SC_PAGESIZE, _SC_PAGE_SIZE */
    case 0x60: case 0x61: CPU_ZERO(&set); sched_getaffinity(0, sizeof set, &set); return CPU_COUNT(&set); /* _SC_NPROCESSORS_* */
    default: fprintf(stderr, "[bionic] sysconf(0x%x) is not mapped\n", name); errno = EINVAL; return -1;
  }
}

/* Another layout, and nothing in an app may change what a signal does: ART uses them itself. */
int sigaction(int signal, const void *now, void *before) {
  (void)now; (void)before;
  fprintf(stderr, "[bionic] sigaction(%d) is not mapped\n", signal);
  errno = EINVAL;
  return -1;
}

/* canonname and addr stand the other way round. */
struct bionic_addrinfo {
  int flags, family, socktype, protocol; unsigned addrlen; char *canonname; struct sockaddr *addr; struct bionic_addrinfo *next;
};
int getaddrinfo(const char *restrict host, const char *restrict service, const struct addrinfo *restrict hints, struct addrinfo **restrict found) {
  static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
  if (!real) real = (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(RTLD_NEXT, "getaddrinfo");
  struct addrinfo asked = {0}, *answer;
  if (hints) { asked.ai_flags = hints->ai_flags; asked.ai_family = hints->ai_family; asked.ai_socktype = hints->ai_socktype; asked.ai_protocol = hints->ai_protocol; }
  int error = real(host, service, hints ? &asked : 0, &answer);
  if (error) return error;
  struct bionic_addrinfo *first = 0, **tail = &first;
  for (struct addrinfo *a = answer; a; a = a->ai_next) {
    struct bionic_addrinfo *b = calloc(1, sizeof *b + a->ai_addrlen);
    b->flags = a->ai_flags; b->family = a->ai_family; b->socktype = a->ai_socktype; b->protocol = a->ai_protocol; b->addrlen = a->ai_addrlen;
    b->addr = (struct sockaddr *)(b + 1); memcpy(b->addr, a->ai_addr, a->ai_addrlen);
    *tail = b; tail = &b->next;
  }
  *found = (struct addrinfo *)first;
  return 0;
}
void freeaddrinfo(struct addrinfo *list) {
  for (struct bionic_addrinfo *b = (struct bionic_addrinfo *)list, *next; b; b = next) { next = b->next; free(b); }
}

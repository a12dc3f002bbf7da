/* UniFFI's side of a call, by hand: buffers and what a record or an enum looks like in them (big-endian, a text with its
 * length before it), and the status of a call. As uniffi 0.32 has them, contract version 30. */
#include <stdint.h>

typedef struct { uint64_t capacity, len; uint8_t *data; } Buffer;
typedef struct { int8_t code; Buffer error; } Status;
typedef struct { int32_t len; const uint8_t *data; } Bytes;
enum { CALL_OK = 0, CALL_ERROR = 1, CALL_PANIC = 2 };

static void *library;
static void *function(const char *name) {
  void *found = dlsym(library, name);
  if (!found) { fprintf(stderr, "the library has no %s\n", name); exit(2); }
  return found;
}
#define CALL(returns, name, ...) ((returns (*)(__VA_ARGS__))function("uniffi_pilothouse_fn_" name))
#define FFI(returns, name, ...) ((returns (*)(__VA_ARGS__))function("ffi_pilothouse_" name))

static Buffer buffer(const void *data, size_t len) {
  Status status = {0};
  return FFI(Buffer, "rustbuffer_from_bytes", Bytes, Status *)((Bytes){(int32_t)len, data}, &status);
}
static Buffer text(const char *s) { return buffer(s, strlen(s)); }
static void release(Buffer b) { Status status = {0}; FFI(void, "rustbuffer_free", Buffer, Status *)(b, &status); }

typedef struct { uint8_t bytes[4096]; size_t len; } Written;
static void put(Written *w, const void *data, size_t len) { if (w->len + len > sizeof w->bytes) abort(); memcpy(w->bytes + w->len, data, len); w->len += len; }
static void put_u8(Written *w, uint8_t v) { put(w, &v, 1); }
static void put_i32(Written *w, int32_t v) { for (int shift = 24; shift >= 0; shift -= 8) put_u8(w, (uint8_t)((uint32_t)v >> shift)); }
static void put_u64(Written *w, uint64_t v) { for (int shift = 56; shift >= 0; shift -= 8) put_u8(w, (uint8_t)(v >> shift)); }
static void put_text(Written *w, const char *s) { put_i32(w, (int32_t)strlen(s)); put(w, s, strlen(s)); }
static Buffer written(const Written *w) { return buffer(w->bytes, w->len); }

/* An error enum whose variants begin with a text: which variant, and that text. */
static int32_t variant(Buffer b) { return b.len < 4 ? 0 : (int32_t)((uint32_t)b.data[0] << 24 | (uint32_t)b.data[1] << 16 | (uint32_t)b.data[2] << 8 | b.data[3]); }
static const char *reason(Buffer b) {
  static char words[400];
  if (b.len < 8) return "";
  Buffer length = {0, b.len - 4, b.data + 4};
  size_t len = (size_t)variant(length);
  if (len > b.len - 8) return "";
  snprintf(words, sizeof words, "%.*s", (int)len, (const char *)b.data + 8);
  return words;
}

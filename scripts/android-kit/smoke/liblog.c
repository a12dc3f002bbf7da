/* Android's log, on standard error. */
#include <stdio.h>
int __android_log_write(int priority, const char *tag, const char *line) { return fprintf(stderr, "[logcat %d %s] %s\n", priority, tag, line); }
int __android_log_buf_write(int buffer, int priority, const char *tag, const char *line) { (void)buffer; return __android_log_write(priority, tag, line); }

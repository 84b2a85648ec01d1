/* A preloaded library in which one system call on the ledger files fails. For the tests of this crate.
 *
 * DITHER_FAULT_CALL   `fsync`, `write` or `open`
 * DITHER_FAULT_AT     how many calls succeed first
 * DITHER_FAULT_ERRNO  the error
 * DITHER_FAULT_STAYS  set if all further calls fail as well
 * DITHER_FAULT_COUNT  a file that receives the number of calls at the end
 *
 * An fsync that fails loses what was written to the log since the last one, as Linux does when it marks the pages
 * clean after the error. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static long calls;
static off_t synced;

static const char *name_of(int fd) {
    static __thread char path[4096];
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return path;
}

static int fails(const char *call, const char *path) {
    const char *wanted = getenv("DITHER_FAULT_CALL"), *at = getenv("DITHER_FAULT_AT");
    if (!wanted || !at || strcmp(wanted, call) || !strstr(path, "ledger.db")) return 0;
    long call_number = __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST);
    if (call_number < atol(at) || (call_number > atol(at) && !getenv("DITHER_FAULT_STAYS"))) return 0;
    errno = atoi(getenv("DITHER_FAULT_ERRNO"));
    return 1;
}

__attribute__((destructor)) static void report(void) {
    FILE *file = getenv("DITHER_FAULT_COUNT") ? fopen(getenv("DITHER_FAULT_COUNT"), "w") : NULL;
    if (file) fprintf(file, "%ld", calls), fclose(file);
}

static int sync_file(int fd, const char *call) {
    const char *path = name_of(fd);
    int log = strstr(path, "-wal") != NULL;
    if (fails("fsync", path)) {
        int error = errno;
        if (log && ftruncate(fd, synced)) abort();
        errno = error;
        return -1;
    }
    int result = ((int (*)(int))dlsym(RTLD_NEXT, call))(fd);
    struct stat status;
    if (log && !result && !fstat(fd, &status)) synced = status.st_size;
    return result;
}

int fsync(int fd) { return sync_file(fd, "fsync"); }
int fdatasync(int fd) { return sync_file(fd, "fdatasync"); }

ssize_t write(int fd, const void *bytes, size_t count) {
    if (fails("write", name_of(fd))) return -1;
    return ((ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write"))(fd, bytes, count);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) {
    if (fails("write", name_of(fd))) return -1;
    return ((ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64"))(fd, bytes, count, offset);
}

static int open_file(const char *call, const char *path, int flags, mode_t mode) {
    if ((flags & O_ACCMODE) != O_RDONLY && fails("open", path)) return -1;
    return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, call))(path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open_file("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open_file("open64", path, flags, mode);
}

/* Calls of the system that go wrong, or are noted, for tools/trials: loaded with LD_PRELOAD, and asleep until a process
   asks for something with trials_fail, trials_journal or trials_clock. Files below one folder are concerned, no others. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))find(#name))

enum { CHANGE = 1, FLUSH = 2, READ = 4 };                 /* classes of calls */
enum { CREATE, WRITE, CUT, SYNC, RENAME, UNLINK, MKDIR, RMDIR, LINK }; /* entries of the journal */

static char root[PATH_MAX];
static int journal = -1;
static int classes, error_number, for_good, half;
static long at = -1, count;
static long long offset_before, offset_after, jump_at, asked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *find(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

/* -- what is asked for ---------------------------------------------------------------------------------- */

/* From the number-th call of these classes on: fail with an error, once or for good; a write leaves half if asked. */
void trials_fail(const char *folder, int which, long number, int error, int good, int short_write) {
    snprintf(root, sizeof root, "%s", folder);
    classes = which, error_number = error, for_good = good, half = short_write, count = 0, at = number;
}

void trials_journal(const char *folder, int file) {
    snprintf(root, sizeof root, "%s", folder);
    journal = file;
}

/* Seconds that are added to the time of day, up to and from the number-th question on. */
void trials_clock(long long before, long long number, long long after) {
    offset_before = before, jump_at = number, offset_after = after, asked = 0;
}

long trials_count(void) { return count; }
long long trials_asked(void) { return asked; }

/* -- which files are meant ------------------------------------------------------------------------------ */

static void join(int folder, const char *path, char *whole) {
    char start[PATH_MAX] = "";
    if (path[0] != '/') {
        if (folder == AT_FDCWD) {
            if (!getcwd(start, sizeof start)) start[0] = 0;
        } else {
            char name[64];
            snprintf(name, sizeof name, "/proc/self/fd/%d", folder);
            ssize_t size = readlink(name, start, sizeof start - 1);
            start[size > 0 ? size : 0] = 0;
        }
    }
    if (snprintf(whole, PATH_MAX, "%s%s%s", start, start[0] ? "/" : "", path) >= PATH_MAX) whole[0] = 0;
}

static int meant(const char *path) {
    size_t size = strlen(root);
    return size && !strncmp(path, root, size) && (path[size] == '/' || !path[size]);
}

static int path_of(int file, char *whole) {
    int saved = errno;
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    ssize_t size = readlink(name, whole, PATH_MAX - 1);
    errno = saved;
    whole[size > 0 ? size : 0] = 0;
    return meant(whole);
}

/* Whether this call goes wrong: 1 with errno set; 2 for a write of which half is done first. */
static int fails(int which) {
    if (at < 0 || !(which & classes)) return 0;
    pthread_mutex_lock(&lock);
    long number = count++;
    pthread_mutex_unlock(&lock);
    if (number < at || (number > at && !for_good)) return 0;
    if (half && number == at) return 2;
    errno = error_number;
    return 1;
}

/* -- the journal ---------------------------------------------------------------------------------------- */

static uint64_t inode_of(const char *path) {
    struct stat found;
    return lstat(path, &found) ? 0 : (uint64_t)found.st_ino;
}

static void put(int kind, uint64_t inode, int64_t offset, const char *one, const char *two, const void *data, size_t size) {
    if (journal < 0) return;
    int saved = errno;
    uint32_t sizes[3] = {(uint32_t)strlen(one), (uint32_t)strlen(two), (uint32_t)size};
    struct { int64_t kind, inode, offset; } head = {kind, (int64_t)inode, offset};
    struct iovec parts[5] = {{&head, sizeof head}, {sizes, sizeof sizes}, {(void *)one, sizes[0]}, {(void *)two, sizes[1]},
                             {(void *)data, size}};
    pthread_mutex_lock(&lock);
    if (REAL(writev)(journal, parts, 5) < 0) abort();
    pthread_mutex_unlock(&lock);
    errno = saved;
}

/* -- calls ---------------------------------------------------------------------------------------------- */

static int do_open(int folder, const char *path, int flags, mode_t mode) {
    char whole[PATH_MAX];
    int (*real)(int, const char *, int, ...) = (void *)find("openat");
    if (!root[0]) return real(folder, path, flags, mode);
    join(folder, path, whole);
    if (!meant(whole)) return real(folder, path, flags, mode);
    int writes = (flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT;
    if (fails(writes ? CHANGE : READ) == 1) return -1;
    uint64_t before = inode_of(whole);
    int file = real(folder, path, flags, mode);
    if (file >= 0 && writes) {
        if (!before && flags & O_CREAT) put(CREATE, inode_of(whole), 0, whole, "", "", 0);
        else if (flags & O_TRUNC) put(CUT, before, 0, whole, "", "", 0);
    }
    return file;
}

static mode_t mode_in(int flags, va_list given) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(given, mode_t) : 0; }

#define OPEN(name)                                        \
    int name(const char *path, int flags, ...) {          \
        va_list given;                                    \
        va_start(given, flags);                           \
        mode_t mode = mode_in(flags, given);              \
        va_end(given);                                    \
        return do_open(AT_FDCWD, path, flags, mode);      \
    }
#define OPENAT(name)                                      \
    int name(int folder, const char *path, int flags, ...) { \
        va_list given;                                    \
        va_start(given, flags);                           \
        mode_t mode = mode_in(flags, given);              \
        va_end(given);                                    \
        return do_open(folder, path, flags, mode);        \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

static ssize_t written(int file, const void *data, size_t size, int64_t offset) {
    char whole[PATH_MAX];
    if (!root[0] || file == journal || !path_of(file, whole))
        return offset < 0 ? REAL(write)(file, data, size) : REAL(pwrite)(file, data, size, offset);
    switch (fails(CHANGE)) {
        case 1: return -1;
        case 2: size = size > 1 ? size / 2 : size;
    }
    ssize_t done = offset < 0 ? REAL(write)(file, data, size) : REAL(pwrite)(file, data, size, offset);
    if (done > 0 && journal >= 0) {
        struct stat found;
        int64_t begin = offset < 0 ? (int64_t)lseek(file, 0, SEEK_CUR) - done : offset;
        if (!fstat(file, &found)) put(WRITE, (uint64_t)found.st_ino, begin, "", "", data, (size_t)done);
    }
    return done;
}

ssize_t write(int file, const void *data, size_t size) { return written(file, data, size, -1); }
ssize_t pwrite(int file, const void *data, size_t size, off_t offset) { return written(file, data, size, offset); }
ssize_t pwrite64(int file, const void *data, size_t size, off_t offset) { return written(file, data, size, offset); }

ssize_t read(int file, void *data, size_t size) {
    char whole[PATH_MAX];
    if (at >= 0 && classes & READ && path_of(file, whole) && fails(READ)) return -1;
    return REAL(read)(file, data, size);
}

static int flushed(int file, const char *name) {
    char whole[PATH_MAX];
    int (*real)(int) = (void *)find(name);
    if (!root[0] || !path_of(file, whole)) return real(file);
    if (fails(FLUSH) == 1) return -1;
    int done = real(file);
    struct stat found;
    if (!done && !fstat(file, &found)) put(SYNC, (uint64_t)found.st_ino, 0, whole, "", "", 0);
    return done;
}

int fsync(int file) { return flushed(file, "fsync"); }
int fdatasync(int file) { return flushed(file, "fdatasync"); }

int ftruncate(int file, off_t size) {
    char whole[PATH_MAX];
    struct stat found;
    if (!root[0] || !path_of(file, whole)) return REAL(ftruncate)(file, size);
    if (fails(CHANGE) == 1) return -1;
    int done = REAL(ftruncate)(file, size);
    if (!done && !fstat(file, &found)) put(CUT, (uint64_t)found.st_ino, size, whole, "", "", 0);
    return done;
}
int ftruncate64(int file, off_t size) { return ftruncate(file, size); }

/* The other calls change names. */
#define NAMED(kind, folder, path, call)                                          \
    char whole[PATH_MAX];                                                        \
    if (!root[0]) return call;                                                   \
    join(folder, path, whole);                                                   \
    if (!meant(whole)) return call;                                              \
    if (fails(CHANGE) == 1) return -1;                                           \
    int done = call;                                                             \
    if (!done) put(kind, kind == MKDIR ? inode_of(whole) : 0, 0, whole, "", "", 0); \
    return done;

int unlink(const char *path) { NAMED(UNLINK, AT_FDCWD, path, REAL(unlink)(path)) }
int unlinkat(int folder, const char *path, int flags) {
    NAMED((flags & AT_REMOVEDIR ? RMDIR : UNLINK), folder, path, REAL(unlinkat)(folder, path, flags))
}
int rmdir(const char *path) { NAMED(RMDIR, AT_FDCWD, path, REAL(rmdir)(path)) }
int mkdir(const char *path, mode_t mode) { NAMED(MKDIR, AT_FDCWD, path, REAL(mkdir)(path, mode)) }
int mkdirat(int folder, const char *path, mode_t mode) { NAMED(MKDIR, folder, path, REAL(mkdirat)(folder, path, mode)) }

#define TWO(kind, folder, path, other, name, call)                               \
    char whole[PATH_MAX], second[PATH_MAX];                                      \
    if (!root[0]) return call;                                                   \
    join(folder, path, whole);                                                   \
    join(other, name, second);                                                   \
    if (!meant(whole) && !meant(second)) return call;                            \
    if (fails(CHANGE) == 1) return -1;                                           \
    int done = call;                                                             \
    if (!done) put(kind, 0, 0, whole, second, "", 0);                            \
    return done;

int rename(const char *path, const char *name) { TWO(RENAME, AT_FDCWD, path, AT_FDCWD, name, REAL(rename)(path, name)) }
int renameat(int folder, const char *path, int other, const char *name) {
    TWO(RENAME, folder, path, other, name, REAL(renameat)(folder, path, other, name))
}
int link(const char *path, const char *name) { TWO(LINK, AT_FDCWD, path, AT_FDCWD, name, REAL(link)(path, name)) }
int linkat(int folder, const char *path, int other, const char *name, int flags) {
    TWO(LINK, folder, path, other, name, REAL(linkat)(folder, path, other, name, flags))
}

/* -- the clock ------------------------------------------------------------------------------------------ */

static long long now(void) {
    if (!offset_before && !offset_after) return 0;
    return asked++ < jump_at ? offset_before : offset_after;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int done = REAL(clock_gettime)(clock, time);
    if (!done && clock == CLOCK_REALTIME) time->tv_sec += now();
    return done;
}
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    int done = REAL(gettimeofday)(time, zone);
    if (!done) time->tv_sec += now();
    return done;
}
time_t time(time_t *place) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (place) *place = found.tv_sec;
    return found.tv_sec;
}

/* What stands between a tested process and the system: loaded before libc (LD_PRELOAD).
 *
 * It writes down every change to the files below CHAOS_ROOT, in the order in which the process made
 * them, with the syncs among them (CHAOS_JOURNAL); from that the tests work out which bytes would be
 * left if the power failed at any moment. And it injects what CHAOS_CONTROL says, a file of eight-byte
 * words that tests change while the process runs: see `enum word`. CHAOS_BOOT is the file that is read
 * instead of the kernel's boot id.
 *
 * A record is appended to the journal with one write after the change and before the call returns, so
 * that whatever a caller was told is in it, however the process ends. Its time is that of the
 * monotonic clock, which all processes of a machine share.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The words of the control file; the tests name them too (`mod.rs`). */
enum word {
    CLOCK_OFFSET_NS, /* added to the time of day, signed */
    FAIL_SYNC,       /* the errno of every sync, 0 for none */
    FAIL_WRITE,      /* the errno of every change that needs room */
    SYNC_DELAY_US,   /* what every sync takes longer */
    DIE_AT,          /* the number of the change after which the process kills itself, 0 for never */
    CHANGES,         /* how many changes there were, counted here */
    ONLY,            /* faults meet only paths with this in them: a number of `parts` */
    WORDS,
};

enum kind { CREATE = 1, MKDIR, RENAME, UNLINK, RMDIR, WRITE, TRUNCATE, EXTEND, SYNC };

struct head {
    uint32_t magic;
    uint16_t path, other; /* lengths of what follows */
    uint64_t kind, inode, at, data, time_ns;
};

#define MAGIC 0x43484153u
#define JOURNAL_FD 900

static char root[PATH_MAX], boot[PATH_MAX];
static dev_t device;
static int journal = -1;
static volatile uint64_t *control;
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static int real_open(const char *path, int flags, mode_t mode) {
    static int (*real)(const char *, int, ...);
    if (!real) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    return real(path, flags, mode);
}

__attribute__((constructor)) static void begin(void) {
    const char *value = getenv("CHAOS_CONTROL");
    if (value) {
        int fd = real_open(value, O_RDWR | O_CLOEXEC, 0);
        void *map = fd < 0 ? MAP_FAILED : mmap(0, WORDS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) { perror("shim: CHAOS_CONTROL"); abort(); }
        control = map;
    }
    if ((value = getenv("CHAOS_BOOT"))) snprintf(boot, sizeof boot, "%s", value);
    struct stat found;
    if ((value = getenv("CHAOS_ROOT"))) {
        snprintf(root, sizeof root, "%s", value);
        if (stat(root, &found)) { perror("shim: CHAOS_ROOT"); abort(); }
        device = found.st_dev;
    }
    if (root[0] && (value = getenv("CHAOS_JOURNAL"))) {
        int fd = real_open(value, O_WRONLY | O_CREAT | O_APPEND, 0600);
        /* Out of the way of code that counts on low numbers. */
        journal = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, JOURNAL_FD);
        if (journal < 0) { perror("shim: CHAOS_JOURNAL"); abort(); }
        close(fd);
    }
}

static uint64_t word(enum word name) { return control ? control[name] : 0; }

static int below_root(const char *path) {
    size_t length = strlen(root);
    return length && !strncmp(path, root, length) && path[length] == '/';
}

/* The absolute path of what a call names; 0 if it is none of ours. */
static int absolute(int dir, const char *path, char *out) {
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
    } else {
        char link[64], base[PATH_MAX];
        if (dir == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
        else snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        ssize_t length = readlink(link, base, sizeof base - 1);
        if (length < 0) return 0;
        base[length] = 0;
        if (snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return 0;
    }
    return below_root(out);
}

/* Whether an open file is one of ours, and its inode. */
static int ours(int fd, uint64_t *inode) {
    struct stat found;
    if (!root[0] || fstat(fd, &found) || found.st_dev != device) return 0;
    if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) return 0;
    *inode = found.st_ino;
    return 1;
}

static void record(enum kind kind, uint64_t inode, uint64_t at, const void *data, size_t length,
                   const char *path, const char *other) {
    if (journal < 0) return;
    REAL(writev);
    struct timespec now;
    pthread_mutex_lock(&order);
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct head head = {
        .magic = MAGIC, .path = path ? strlen(path) : 0, .other = other ? strlen(other) : 0, .kind = kind,
        .inode = inode, .at = at, .data = length, .time_ns = now.tv_sec * 1000000000ull + now.tv_nsec,
    };
    struct iovec parts[] = {
        { &head, sizeof head }, { (void *)path, head.path }, { (void *)other, head.other },
        { (void *)data, length },
    };
    size_t all = sizeof head + head.path + head.other + length;
    if (real(journal, parts, 4) != (ssize_t)all) { perror("shim: the journal"); abort(); }
    pthread_mutex_unlock(&order);
}

static void note(enum kind kind, uint64_t inode, uint64_t at, const void *data, size_t length,
                 const char *path, const char *other) {
    record(kind, inode, at, data, length, path, other);
    if (!control) return;
    uint64_t number = __atomic_add_fetch(&control[CHANGES], 1, __ATOMIC_SEQ_CST);
    if (control[DIE_AT] && number == control[DIE_AT]) kill(getpid(), SIGKILL);
}

/* What the word ONLY stands for. */
static const char *const parts[] = { "/", "/raft/", "/shards/", "/sled-", "/snapshots/" };

/* Whether the fault of this word meets an open file or a path. */
static int fails(enum word name, int fd, const char *path) {
    uint64_t cause = word(name);
    if (!cause) return 0;
    char found[PATH_MAX] = "";
    if (!path) {
        uint64_t inode;
        char link[64];
        if (!ours(fd, &inode)) return 0;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, found, sizeof found - 2);
        if (length < 0) return 0;
        /* A directory counts as what is in it. */
        found[length] = '/';
        found[length + 1] = 0;
        path = found;
    }
    if (!below_root(path) || !strstr(path, parts[word(ONLY) % (sizeof parts / sizeof *parts)])) return 0;
    errno = (int)cause;
    return 1;
}

/* ---- files by name ---- */

static int open_at(int dir, const char *path, int flags, mode_t mode) {
    REAL(openat);
    char full[PATH_MAX];
    if (boot[0] && !strcmp(path, "/proc/sys/kernel/random/boot_id")) path = boot;
    if (!root[0] || !(flags & (O_CREAT | O_TRUNC)) || !absolute(dir, path, full))
        return real(dir, path, flags, mode);
    if (fails(FAIL_WRITE, -1, full)) return -1;
    struct stat found;
    int there = !lstat(full, &found);
    int fd = real(dir, path, flags, mode);
    if (fd < 0 || fstat(fd, &found)) return fd;
    if (!there) note(CREATE, found.st_ino, 0, 0, 0, full, 0);
    else if (flags & O_TRUNC) note(TRUNCATE, found.st_ino, 0, 0, 0, 0, 0);
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) { MODE(flags); return open_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags); return open_at(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE(flags); return open_at(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE(flags); return open_at(dir, path, flags | O_LARGEFILE, mode); }
int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int mkdirat(int dir, const char *path, mode_t mode) {
    REAL(mkdirat);
    char full[PATH_MAX];
    if (!root[0] || !absolute(dir, path, full)) return real(dir, path, mode);
    if (fails(FAIL_WRITE, -1, full)) return -1;
    int result = real(dir, path, mode);
    struct stat found;
    if (!result && !lstat(full, &found)) note(MKDIR, found.st_ino, 0, 0, 0, full, 0);
    return result;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
    REAL(renameat2);
    char old[PATH_MAX], new[PATH_MAX];
    int watched = root[0] && absolute(from_dir, from, old) && absolute(to_dir, to, new);
    if (watched && fails(FAIL_WRITE, -1, new)) return -1;
    int result = real(from_dir, from, to_dir, to, flags);
    if (watched && !result) note(RENAME, 0, 0, 0, 0, old, new);
    return result;
}
int renameat(int from_dir, const char *from, int to_dir, const char *to) { return renameat2(from_dir, from, to_dir, to, 0); }
int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int dir, const char *path, int flags) {
    REAL(unlinkat);
    char full[PATH_MAX];
    int watched = root[0] && absolute(dir, path, full);
    int result = real(dir, path, flags);
    if (watched && !result) note(flags & AT_REMOVEDIR ? RMDIR : UNLINK, 0, 0, 0, 0, full, 0);
    return result;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

/* ---- open files ---- */

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) {
    REAL(pwrite64);
    uint64_t inode;
    if (!ours(fd, &inode)) return real(fd, data, length, at);
    if (fails(FAIL_WRITE, fd, 0)) return -1;
    ssize_t done = real(fd, data, length, at);
    if (done > 0) note(WRITE, inode, at, data, done, 0, 0);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t at) { return pwrite64(fd, data, length, at); }

ssize_t write(int fd, const void *data, size_t length) {
    REAL(write);
    uint64_t inode;
    if (!ours(fd, &inode)) return real(fd, data, length);
    if (fails(FAIL_WRITE, fd, 0)) return -1;
    ssize_t done = real(fd, data, length);
    if (done > 0) note(WRITE, inode, lseek64(fd, 0, SEEK_CUR) - done, data, done, 0, 0);
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    uint64_t inode;
    if (!ours(fd, &inode)) return real(fd, parts, count);
    /* May be cut short, as any write: the first part alone. */
    for (int i = 0; i < count; i++)
        if (parts[i].iov_len) return write(fd, parts[i].iov_base, parts[i].iov_len);
    return 0;
}

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t length, unsigned flags) {
    REAL(copy_file_range);
    uint64_t inode;
    /* Not followed; whoever asks falls back to reads and writes. */
    if (ours(to, &inode)) { errno = EXDEV; return -1; }
    return real(from, from_at, to, to_at, length, flags);
}

int ftruncate64(int fd, off64_t length) {
    REAL(ftruncate64);
    uint64_t inode;
    if (!ours(fd, &inode)) return real(fd, length);
    int result = real(fd, length);
    if (!result) note(TRUNCATE, inode, length, 0, 0, 0, 0);
    return result;
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

int fallocate64(int fd, int mode, off64_t at, off64_t length) {
    REAL(fallocate64);
    uint64_t inode;
    if (!ours(fd, &inode)) return real(fd, mode, at, length);
    if (fails(FAIL_WRITE, fd, 0)) return -1;
    if (mode) { errno = EOPNOTSUPP; return -1; }
    int result = real(fd, mode, at, length);
    if (!result) note(EXTEND, inode, at + length, 0, 0, 0, 0);
    return result;
}
int fallocate(int fd, int mode, off_t at, off_t length) { return fallocate64(fd, mode, at, length); }
int posix_fallocate64(int fd, off64_t at, off64_t length) { return fallocate64(fd, 0, at, length) ? errno : 0; }
int posix_fallocate(int fd, off_t at, off_t length) { return posix_fallocate64(fd, at, length); }

static int sync_one(int fd, int (*real)(int)) {
    uint64_t inode;
    if (!ours(fd, &inode)) return real(fd);
    uint64_t delay_us = word(SYNC_DELAY_US);
    if (delay_us) usleep(delay_us);
    if (fails(FAIL_SYNC, fd, 0)) return -1;
    /* With a journal nothing depends on the machine's own disk. */
    int result = journal < 0 ? real(fd) : 0;
    if (!result) note(SYNC, inode, 0, 0, 0, 0, 0);
    return result;
}
int fsync(int fd) { REAL(fsync); return sync_one(fd, real); }
int fdatasync(int fd) { REAL(fdatasync); return sync_one(fd, real); }

/* ---- the time of day ---- */

int clock_gettime(clockid_t clock, struct timespec *time) {
    REAL(clock_gettime);
    int result = real(clock, time);
    int64_t offset = (int64_t)word(CLOCK_OFFSET_NS);
    if (!result && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t all = time->tv_sec * 1000000000ll + time->tv_nsec + offset;
        time->tv_sec = all / 1000000000ll;
        time->tv_nsec = all % 1000000000ll;
    }
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

/* A disk that is slow or full and a clock that is set, for the process that this is loaded into
 * (LD_PRELOAD). The file named by FAULT_MACHINE is shared with the test. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

struct faults {
    int64_t clock_s;    /* added to the time of day */
    int64_t write_us;   /* what each write and flush of a file takes */
    int64_t full;       /* not 0: no file takes another byte */
};

static volatile struct faults *faults(void) {
    static volatile struct faults *shared;
    static int tried;
    if (!tried) {
        const char *name = getenv("FAULT_MACHINE");
        int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
        if (file >= 0) {
            void *map = mmap(NULL, sizeof(struct faults), PROT_READ, MAP_SHARED, file, 0);
            if (map != MAP_FAILED) shared = map;
            close(file);
        }
        tried = 1;
    }
    return shared;
}

#define REAL(name) __extension__ ({ static typeof(&name) real; \
    if (!real) { real = (typeof(&name))dlsym(RTLD_NEXT, #name); } real; })

static void wait_for_disk(void) {
    volatile struct faults *now = faults();
    if (now && now->write_us > 0) {
        struct timespec pause = {now->write_us / 1000000, now->write_us % 1000000 * 1000};
        nanosleep(&pause, NULL);
    }
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) {
    volatile struct faults *now = faults();
    wait_for_disk();
    if (now && now->full) { errno = ENOSPC; return -1; }
    return REAL(pwrite64)(file, data, size, offset);
}

int fdatasync(int file) { wait_for_disk(); return REAL(fdatasync)(file); }
int fsync(int file) { wait_for_disk(); return REAL(fsync)(file); }

int clock_gettime(clockid_t clock, struct timespec *time) {
    volatile struct faults *now = faults();
    int failed = REAL(clock_gettime)(clock, time);
    if (!failed && now && clock == CLOCK_REALTIME) time->tv_sec += now->clock_s;
    return failed;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}

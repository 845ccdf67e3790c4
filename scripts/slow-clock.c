/* Has the clocks of a program run SLOW times slower, for counting instructions under valgrind, which slows all but the clocks:
 *
 *     cc -O2 -shared -fPIC -o slow-clock.so scripts/slow-clock.c
 *     SLOW=50 LD_PRELOAD=$PWD/slow-clock.so valgrind --tool=callgrind ...
 *
 * A clock stands where it stood when it was asked for the first time, and goes on from there. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL
#define CLOCKS 16

int clock_gettime(clockid_t id, struct timespec *time) {
    static long long began_ns[CLOCKS], factor;
    int failed = syscall(SYS_clock_gettime, id, time);
    if (failed || id < 0 || id >= CLOCKS)
        return failed;
    if (!factor) {
        const char *slow = getenv("SLOW");
        factor = slow && atoi(slow) > 0 ? atoi(slow) : 1;
    }
    long long now_ns = time->tv_sec * SECOND_NS + time->tv_nsec;
    if (!began_ns[id])
        began_ns[id] = now_ns;
    now_ns = began_ns[id] + (now_ns - began_ns[id]) / factor;
    time->tv_sec = now_ns / SECOND_NS;
    time->tv_nsec = now_ns % SECOND_NS;
    return 0;
}

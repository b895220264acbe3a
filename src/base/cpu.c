/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* CPU features, found once; the environment variable PENNON_CPU caps them so that tests reach every form. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/call.h"

static int machine_level(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vbmi")) {
        return CPU_AVX512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) return CPU_AVX2;
#elif defined(__aarch64__)
    return CPU_NEON;
#endif
    return CPU_PORTABLE;
}

static int capped_level(void)
{
    static const char *const names[] = {"portable", "neon", "avx2", "avx512"};
    int level = machine_level();
    const char *cap = getenv("PENNON_CPU");
    for (int i = 0; cap && i < (int)ARRAY_LEN(names); i++) {
        if (strcmp(cap, names[i]) == 0 && i < level) level = i;
    }
    return level;
}

int cpu_level(void)
{
    /* Value + 1, 0 = not yet known. Racing threads find the same value. */
    static _Atomic(int) known;
    int level = atomic_load_explicit(&known, memory_order_relaxed);
    if (level == 0) {
        level = capped_level() + 1;
        atomic_store_explicit(&known, level, memory_order_relaxed);
    }
    return level - 1;
}

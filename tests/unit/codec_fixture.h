/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the tests of the encoding layer share: accounted memory that must be empty at the end, an error, and a buffer. */
#ifndef TESTS_CODEC_FIXTURE_H
#define TESTS_CODEC_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"

struct fixture {
    struct mem *mem;
    pennon_error err;
    struct buf buf;
};

static inline int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    pennon_error_init(&f->err);
    f->mem = mem_new(NULL, UINT64_C(1) << 30, NULL, &f->err);
    assert_non_null(f->mem);
    buf_init(&f->buf, f->mem, BUF_NO_LIMIT);
    *state = f;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    buf_free(&f->buf);
    assert_int_equal(mem_used(f->mem), 0);
    mem_release(f->mem);
    pennon_error_clear(&f->err);
    free(f);
    return 0;
}

/* A case that gets a `struct fixture *` in *state. */
#define FIXTURE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

/* Deterministic numbers that look random. */
static inline uint64_t scramble(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

#define assert_ok(f, call)                                         \
    do {                                                           \
        if ((call) != PENNON_OK) fail_msg("%s", (f)->err.message); \
    } while (0)

#endif

/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the fuzz targets of the codecs share: the fuzzer's bytes as a stream of parameters, and bounded memory. */
#ifndef TESTS_CODEC_FUZZ_H
#define TESTS_CODEC_FUZZ_H

#include <stdlib.h>

#include "encoding/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

static inline unsigned fuzz_byte(struct fuzz_input *in)
{
    if (in->left == 0) return 0;
    in->left--;
    return *in->at++;
}

static inline unsigned fuzz_u16(struct fuzz_input *in)
{
    const unsigned low = fuzz_byte(in);
    return low | fuzz_byte(in) << 8;
}

/* A copy of exactly n bytes, so that a read past the end is seen. Free with free(). */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy) abort();
    if (n > 0) memcpy(copy, data, n);
    return copy;
}

/* Memory of one run: 64 MiB. */
static inline struct mem *fuzz_mem(pennon_error *err)
{
    pennon_error_init(err);
    struct mem *mem = mem_new(NULL, 64u << 20, NULL, err);
    if (!mem) abort();
    return mem;
}

/* What must hold whatever the input is. */
#define FUZZ_CHECK(cond)      \
    do {                      \
        if (!(cond)) abort(); \
    } while (0)

#endif

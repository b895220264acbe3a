/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Flags, a NUL, a pattern, a NUL, and a text: translation, compilation, and a walk over the matches. */
#include "expr/regex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Up to the next NUL, or all. */
static struct bytes part(const uint8_t **data, size_t *size)
{
    const uint8_t *nul = *size > 0 ? memchr(*data, 0, *size) : NULL;
    const struct bytes out = bytes_of(*data, nul ? (size_t)(nul - *data) : *size);
    const size_t used = out.size + (nul != NULL);
    *data += used;
    *size -= used;
    return out;
}

static void match(const struct regex *re, struct bytes text, struct mem *m, pennon_error *err)
{
    struct match_walk walk = {0, SIZE_MAX};
    struct matcher *x = matcher_new(re, m, err);
    bool found = x != NULL;
    size_t before = 0;
    for (int i = 0; i < 100 && found; i++) {
        size_t start, end;
        if (matcher_next(x, text, &walk, &found, err) != PENNON_OK || !found) break;
        if (!matcher_group(x, 0, &start, &end) || start > end || end > text.size || end < before) __builtin_trap();
        before = end;
        for (uint32_t g = 1; g <= regex_groups(re); g++) {
            if (matcher_group(x, g, &start, &end) && (start > end || end > text.size)) __builtin_trap();
        }
    }
    matcher_free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    pennon_error_init(&err);
    struct mem *m = mem_new(NULL, (uint64_t)64 << 20, NULL, &err);
    if (!m || size > 4096) {
        mem_release(m);
        return 0;
    }
    const struct bytes flags = part(&data, &size), pattern = part(&data, &size), text = bytes_of(data, size);
    if (utf8_valid(flags.data, flags.size) && utf8_valid(pattern.data, pattern.size) && utf8_valid(text.data, text.size)) {
        struct regex *re = regex_new(pattern, flags, m, &err);
        if (re) match(re, text, m, &err);
        regex_free(re);
    }
    pennon_error_clear(&err);
    mem_release(m);
    return 0;
}

/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Random arrays of every type with offsets, slack and garbage under nulls, and rows as text: the oracle of the kernels. */
#ifndef TESTS_ARROW_GEN_H
#define TESTS_ARROW_GEN_H

#include "arrow/arrow.h"
#include "codec_fixture.h"

struct gen {
    struct mem *mem;
    pennon_error *err;
    uint64_t state;
    bool rare; /* unions and run ends too */
};

uint64_t gen_next(struct gen *g);
/* A number in [0, n). */
uint64_t gen_below(struct gen *g, uint64_t n);
/* A random field of at most `depth` levels. */
void gen_schema(struct gen *g, unsigned depth, const char *name, struct ArrowSchema *out);
/* A struct of `n` random fields. */
void gen_record_schema(struct gen *g, unsigned n, unsigned depth, struct ArrowSchema *out);
/* `n` random rows, with an offset unless `plain`. Fails the test when it cannot. */
void gen_array(struct gen *g, const struct ArrowSchema *schema, int64_t n, bool plain, struct ArrowArray *out);
/* A record batch: offset 0, no nulls at the top. */
void gen_record(struct gen *g, const struct ArrowSchema *schema, int64_t n, struct ArrowArray *out);
/* Row i as text, appended. Equal texts = equal values, whatever lies under nulls. */
void render_row(struct buf *out, const struct array_view *deep, int64_t i, pennon_error *err);
/* All rows, one a line, NUL-terminated. */
void render_array(struct buf *out, const struct ArrowSchema *schema, const struct ArrowArray *array, pennon_error *err);

#endif

/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Casts of texts, and LIKE: the first byte picks a type, up to the first zero byte stands a pattern, behind it a text. What a cast makes of the text is
 * written as text again and read again to the same value; LIKE answers alike whether its pattern was prepared or not. */
#include <stdlib.h>

#include "expr/node.h"

static const char *const formats[] = {"b",          "c",      "S",       "i",          "L",   "e",    "f",
                                      "g",          "tdD",    "tdm",     "tts",        "ttn", "tss:", "tsu:UTC",
                                      "tsn:+02:00", "d:10,2", "d:38,10", "d:60,5,256", "z",   "vu"};

#define MUST(call)                          \
    do {                                    \
        if ((call) != PENNON_OK) goto done; \
    } while (0)

struct world {
    struct mem *mem;
    pennon_error err;
    struct expr *e;
    struct call c;
    struct arena scratch;
};

/* One row of text. */
static pennon_status text_datum(struct world *w, struct bytes text, struct datum *out)
{
    pennon_status st = PENNON_OK;
    pennon_error *err = &w->err;
    const struct ArrowSchema *type = NULL;
    struct ArrowArray array = {.release = NULL};
    struct builder *b = NULL;
    TRY(expr_simple_type(w->e, "u", &type, err));
    TRY_NEW(b, builder_new(type, w->mem, err));
    TRY(builder_append_bytes(b, text, err));
    TRY(builder_finish(b, &array, err));
    TRY(datum_own(out, type, &array, false, &w->scratch, err));
done:
    builder_free(b);
    return st;
}

static void check_cast(struct world *w, const struct datum *text, const char *format)
{
    const struct ArrowSchema *type = NULL;
    struct datum first = {.scalar = false}, written = {.scalar = false}, second = {.scalar = false};
    MUST(expr_simple_type(w->e, format, &type, &w->err));
    if (cast_datum(&w->c, text, type, true, &w->scratch, 1, &first, &w->err) != PENNON_OK) abort();
    if (array_view_is_null(&first.view, 0)) goto done;
    bool is_time = first.view.type.id == ARROW_TIME32 || first.view.type.id == ARROW_TIME64;
    if (is_time && first.view.array->length == 1) {
        /* Plain numbers are taken as they are: outside of a day they have no text of their own. */
        int64_t most = first.view.type.unit == ARROW_SECOND ? 86400 : INT64_C(86400000000000);
        int64_t value = array_view_int(&first.view, 0);
        if (value < 0 || value >= most) goto done;
    }
    if (cast_datum(&w->c, &first, text->view.schema, true, &w->scratch, 1, &written, &w->err) != PENNON_OK) abort();
    if (array_view_is_null(&written.view, 0)) goto done;
    if (cast_datum(&w->c, &written, type, true, &w->scratch, 1, &second, &w->err) != PENNON_OK) abort();
    /* Years past four digits are written with a sign, which only dates read. */
    if (array_view_is_null(&second.view, 0) && first.view.type.id != ARROW_TIMESTAMP && first.view.type.id != ARROW_DATE64) abort();
    bool float_value = arrow_id_is_float(first.view.type.id); /* NaN has many forms */
    if (!float_value && !array_view_is_null(&second.view, 0) && !array_equal(type, first.view.array, second.view.array)) abort();
done:
    datum_release(&first);
    datum_release(&written);
    datum_release(&second);
}

static void check_like(struct world *w, struct bytes pattern, const struct datum *text, const struct datum *patterns, bool fold)
{
    const struct ArrowSchema *boolean = NULL;
    struct ArrowArray out[2] = {{.release = NULL}, {.release = NULL}};
    const struct ArrowArray *columns[2] = {text->view.array, patterns->view.array};
    struct node *n = NULL;
    MUST(expr_simple_type(w->e, "b", &boolean, &w->err));
    n = node_new(w->e, NODE_LIKE, 2, boolean, &w->err);
    for (uint32_t i = 0; n != NULL && i < 2; i++) {
        n->children[i] = node_new(w->e, NODE_COLUMN, 0, text->view.schema, &w->err);
        if (n->children[i] == NULL) goto done;
        n->children[i]->column = i;
    }
    if (n == NULL) goto done;
    MUST(mem_grow(w->mem, &w->e->columns, &w->e->cap_columns, 1, sizeof *w->e->columns, 8, &w->err));
    w->e->n_columns = 2;
    n->fold = fold;
    w->e->root = n;
    for (int prepared = 0; prepared < 2; prepared++) {
        if (prepared == 1) MUST(node_like_pattern(w->e, n, pattern, &w->err));
        MUST(expr_evaluate(w->e, &w->c, columns, 1, &out[prepared], &w->err));
    }
    if (!array_equal(boolean, &out[0], &out[1])) abort();
done:
    for (int i = 0; i < 2; i++) {
        if (out[i].release != NULL) array_release(&out[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world w = {.mem = NULL};
    struct datum text = {.scalar = false}, patterns = {.scalar = false};
    if (size < 2) return 0;
    const uint8_t *zero = memchr(data + 1, 0, size - 1);
    struct bytes pattern = bytes_of(data + 1, zero == NULL ? 0 : (size_t)(zero - data - 1));
    struct bytes value = zero == NULL ? bytes_of(data + 1, size - 1) : bytes_of(zero + 1, (size_t)(data + size - zero - 1));
    if (!utf8_valid(pattern.data, pattern.size) || !utf8_valid(value.data, value.size)) return 0;
    pennon_error_init(&w.err);
    w.mem = mem_new(NULL, UINT64_C(1) << 26, NULL, &w.err);
    if (w.mem == NULL) return 0;
    w.c = (struct call){.mem = w.mem, .deadline_ns = INT64_MAX, .threads = 1};
    arena_init(&w.scratch, w.mem);
    w.e = expr_new(w.mem, &w.err);
    if (w.e != NULL && text_datum(&w, value, &text) == PENNON_OK && text_datum(&w, pattern, &patterns) == PENNON_OK) {
        check_cast(&w, &text, formats[data[0] % ARRAY_LEN(formats)]);
        check_like(&w, pattern, &text, &patterns, data[0] >= 128);
    }
    datum_release(&text);
    datum_release(&patterns);
    expr_free(w.e);
    arena_reset(&w.scratch);
    mem_release(w.mem);
    pennon_error_clear(&w.err);
    return 0;
}

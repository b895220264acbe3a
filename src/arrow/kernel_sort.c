/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Sorting rows by several columns: a stable merge sort of row numbers.
 *
 * One column of integers up to 64 bits, dates, times, float32 or float64 is sorted by a radix sort over keys of 64 bits whose unsigned order is
 * the order wanted (sign bit flipped; floats turned so that they count up; inverted for descending). Everything else, and further
 * columns, by comparison: runs of 16 by insertion, then merges from one half of the scratch to the other. */
#include "arrow/arrow_internal.h"

#define INSERTION_RUN 16

struct sort_key {
    struct array_view view;
    unsigned flags;
};

struct sorter {
    const struct sort_key *keys;
    size_t n_keys;
};

static int compare_rows(const struct sorter *s, uint64_t i, uint64_t j)
{
    for (size_t k = 0; k < s->n_keys; k++) {
        const struct sort_key *key = &s->keys[k];
        bool null_i = array_view_is_null(&key->view, (int64_t)i);
        bool null_j = array_view_is_null(&key->view, (int64_t)j);
        int c = 0;
        if (null_i || null_j) {
            c = (int)null_i - (int)null_j;
            if (key->flags & ARRAY_SORT_NULLS_FIRST) c = -c;
        } else {
            c = array_compare(&key->view, (int64_t)i, &key->view, (int64_t)j);
            if (key->flags & ARRAY_SORT_DESCENDING) c = -c;
        }
        if (c != 0) return c;
    }
    return 0;
}

static void sort_run(const struct sorter *s, uint64_t *rows, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        uint64_t row = rows[i];
        size_t j = i;
        for (; j > 0 && compare_rows(s, rows[j - 1], row) > 0; j--) rows[j] = rows[j - 1];
        rows[j] = row;
    }
}

static void merge_runs(const struct sorter *s, const uint64_t *a, size_t n_a, const uint64_t *b, size_t n_b, uint64_t *to)
{
    while (n_a > 0 && n_b > 0) {
        /* The left one wins a tie: stable. */
        if (compare_rows(s, *a, *b) <= 0) {
            *to++ = *a++;
            n_a--;
        } else {
            *to++ = *b++;
            n_b--;
        }
    }
    memcpy(to, a, n_a * sizeof *a);
    memcpy(to + n_a, b, n_b * sizeof *b);
}

static void merge_sort(const struct sorter *s, uint64_t *rows, uint64_t *scratch, size_t n)
{
    uint64_t *from = rows;
    uint64_t *to = scratch;
    for (size_t i = 0; i < n; i += INSERTION_RUN) sort_run(s, rows + i, n - i < INSERTION_RUN ? n - i : INSERTION_RUN);
    for (size_t width = INSERTION_RUN; width < n; width *= 2) {
        for (size_t i = 0; i < n; i += 2 * width) {
            size_t n_a = n - i < width ? n - i : width;
            size_t n_b = n - i - n_a < width ? n - i - n_a : width;
            merge_runs(s, from + i, n_a, from + i + n_a, n_b, to + i);
        }
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != rows) memcpy(rows, from, n * sizeof *rows);
}

/* -------------------------------------------------------------------------------------------------------------- radix */

static bool has_word_key(const struct arrow_type *t)
{
    bool integer = t->id >= ARROW_DATE32 && t->id <= ARROW_INTERVAL_MONTHS;
    return arrow_id_is_integer(t->id) || arrow_id_is_float(t->id) || integer || t->id == ARROW_DECIMAL32 ||
           t->id == ARROW_DECIMAL64;
}

/* A word whose unsigned order is the order of the value. */
static uint64_t word_key(const struct array_view *v, int64_t i)
{
    uint64_t sign = (uint64_t)1 << 63;
    if (arrow_id_is_float(v->type.id)) {
        double d = array_view_double(v, i);
        uint64_t bits = 0;
        if (d != d) return UINT64_MAX; /* every NaN is one value, above all others */
        d += 0.0;                      /* -0.0 becomes 0.0 */
        memcpy(&bits, &d, sizeof bits);
        return bits & sign ? ~bits : bits | sign;
    }
    if (v->type.id == ARROW_UINT64) return (uint64_t)array_view_int(v, i);
    return (uint64_t)array_view_int(v, i) ^ sign;
}

struct keyed_row {
    uint64_t key;
    uint64_t row;
};

/* Least significant byte first; bytes that are the same in all keys are skipped. The result may lie in either array. */
static struct keyed_row *radix_sort(struct keyed_row *from, struct keyed_row *to, size_t n)
{
    for (unsigned shift = 0; shift < 64; shift += 8) {
        size_t at[256] = {0};
        size_t sum = 0;
        for (size_t i = 0; i < n; i++) at[from[i].key >> shift & 255]++;
        if (n > 0 && at[from[0].key >> shift & 255] == n) continue;
        for (size_t b = 0; b < 256; b++) {
            size_t count = at[b];
            at[b] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++) to[at[from[i].key >> shift & 255]++] = from[i];
        struct keyed_row *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static pennon_status sort_words(const struct sort_key *key, struct mem *mem, uint64_t *indices, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct array_view *v = &key->view;
    size_t n = (size_t)v->length;
    size_t valid = 0;
    size_t nulls = 0;
    size_t n_valid = n - (size_t)v->null_count;
    bool nulls_first = (key->flags & ARRAY_SORT_NULLS_FIRST) != 0;
    uint64_t *null_rows = nulls_first ? indices : indices + n_valid;
    uint64_t *value_rows = nulls_first ? indices + (n - n_valid) : indices;
    struct keyed_row *rows = NULL;
    struct keyed_row *sorted = NULL;

    TRY_NEW(rows, mem_calloc(mem, n_valid * 2, sizeof *rows, err));
    for (size_t i = 0; i < n; i++) {
        if (array_view_is_null(v, (int64_t)i)) {
            null_rows[nulls++] = i;
        } else {
            uint64_t word = word_key(v, (int64_t)i);
            rows[valid++] = (struct keyed_row){key->flags & ARRAY_SORT_DESCENDING ? ~word : word, i};
        }
    }
    ASSERT(valid == n_valid);
    sorted = radix_sort(rows, rows + n_valid, n_valid);
    for (size_t i = 0; i < n_valid; i++) value_rows[i] = sorted[i].row;
done:
    mem_free(mem, rows);
    return st;
}

pennon_status array_sort(const struct ArrowSchema *const *schemas, const struct ArrowArray *const *keys, const unsigned *flags,
                         size_t n_keys, struct mem *mem, uint64_t *indices, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena arena;
    struct sort_key *views = NULL;
    uint64_t *scratch = NULL;
    size_t n = n_keys == 0 ? 0 : (size_t)keys[0]->length;

    arena_init(&arena, mem);
    TRY_NEW(views, mem_calloc(mem, n_keys, sizeof *views, err));
    for (size_t k = 0; k < n_keys; k++) {
        if (keys[k]->length != keys[0]->length)
            FAIL(PENNON_INVALID_ARGUMENT, "sort: key %zu has another number of rows than the first", k);
        views[k].flags = flags[k];
        TRY(array_view_deep(&views[k].view, schemas[k], keys[k], &arena, err));
    }
    if (n_keys == 1 && has_word_key(&views[0].view.type)) {
        TRY(sort_words(&views[0], mem, indices, err));
    } else if (n > 0) {
        struct sorter s = {views, n_keys};
        TRY_NEW(scratch, mem_calloc(mem, n, sizeof *scratch, err));
        for (size_t i = 0; i < n; i++) indices[i] = i;
        merge_sort(&s, indices, scratch, n);
    }
done:
    mem_free(mem, scratch);
    mem_free(mem, views);
    arena_reset(&arena);
    return st;
}

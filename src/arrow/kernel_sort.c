/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Sorting rows by several columns, stably.
 *
 * Key by key: rows that are null go to their end; the others get a word of 64 bits whose unsigned order agrees with the order wanted (sign bits flipped,
 * floats turned so that they count up, the first eight bytes of texts, all inverted for descending) and are sorted by it, with digits where there
 * are many. Rows of one word are equal where the word is the whole value, and go on with the next key; else a merge sort compares
 * them by this key and all that follow: runs of 16 by insertion, then merges from one half of the scratch to the other. */
#include "arrow/arrow_internal.h"
#include "base/call.h"

#define INSERTION_RUN 16
#define RADIX_ROWS 96                /* fewer are sorted by insertion and merging */
#define CHECK_ROWS ((size_t)1 << 18) /* steps between two looks at the cancel token: some milliseconds */

struct sort_key {
    struct array_view view;
    unsigned flags;
};

struct keyed_row {
    uint64_t word;
    uint64_t row;
};

struct sorter {
    const struct sort_key *keys;
    size_t n_keys;
    size_t first;            /* compare_rows begins with this key */
    struct keyed_row *rows;  /* n, and as many behind them to sort into */
    uint64_t *scratch;       /* 2 * n */
    const struct call *call; /* or NULL */
    size_t steps;            /* since the last look at it */
    pennon_status status;    /* not OK: it was cancelled, and what is sorted does not matter */
    pennon_error *err;
};

/* Count steps, and look at the call now and then; false = stop. */
static bool go_on(struct sorter *s, size_t steps)
{
    s->steps += steps;
    if (s->steps < CHECK_ROWS || s->call == NULL) return s->status == PENNON_OK;
    s->steps = 0;
    if (s->status == PENNON_OK) s->status = call_check(s->call, s->err);
    return s->status == PENNON_OK;
}

static int compare_rows(const struct sorter *s, uint64_t i, uint64_t j)
{
    for (size_t k = s->first; k < s->n_keys; k++) {
        const struct sort_key *key = &s->keys[k];
        bool null_i = array_view_is_null(&key->view, (int64_t)i);
        bool null_j = array_view_is_null(&key->view, (int64_t)j);
        int c = 0;
        if (null_i || null_j) {
            c = (int)null_i - (int)null_j;
            if (key->flags & ARRAY_SORT_NULLS_FIRST) c = -c;
        } else {
            c = array_compare_nulls(&key->view, (int64_t)i, &key->view, (int64_t)j, array_sort_nulls_low(key->flags));
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

static void merge_runs(struct sorter *s, const uint64_t *a, size_t n_a, const uint64_t *b, size_t n_b, uint64_t *to)
{
    /* A comparison takes the time of several steps of the other sorts. */
    while (n_a > 0 && n_b > 0 && go_on(s, 8)) {
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

static void merge_sort(struct sorter *s, uint64_t *rows, uint64_t *scratch, size_t n)
{
    uint64_t *from = rows;
    uint64_t *to = scratch;
    for (size_t i = 0; i < n && go_on(s, 8 * INSERTION_RUN); i += INSERTION_RUN)
        sort_run(s, rows + i, n - i < INSERTION_RUN ? n - i : INSERTION_RUN);
    for (size_t width = INSERTION_RUN; width < n && s->status == PENNON_OK; width *= 2) {
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

/* -------------------------------------------------------------------------------------------------------------- words */

/* How much of a value its word tells. */
enum word_kind { WORD_NONE, WORD_PREFIX, WORD_ALL };

static enum word_kind word_kind(const struct arrow_type *t)
{
    bool time = t->id >= ARROW_DATE32 && t->id <= ARROW_INTERVAL_MONTHS;
    if (arrow_id_is_integer(t->id) || arrow_id_is_float(t->id) || time || t->id == ARROW_BOOL) return WORD_ALL;
    if (t->id == ARROW_DECIMAL32 || t->id == ARROW_DECIMAL64) return WORD_ALL;
    if (arrow_id_is_variable(t->id) || t->id == ARROW_FIXED_SIZE_BINARY || t->id == ARROW_DECIMAL128) return WORD_PREFIX;
    return WORD_NONE;
}

static uint64_t bytes_word(struct bytes b)
{
    uint64_t word = 0;
    for (size_t i = 0; i < 8; i++) word = word << 8 | (i < b.size ? b.data[i] : 0u);
    return word;
}

/* A word whose unsigned order is the order of the value, or of its beginning. */
static uint64_t word_of(const struct array_view *v, int64_t i)
{
    const uint64_t sign = (uint64_t)1 << 63;
    if (v->type.id == ARROW_BOOL) return array_view_bool(v, i);
    if (v->type.id == ARROW_UINT64) return (uint64_t)array_view_int(v, i);
    if (v->type.id == ARROW_DECIMAL128) {
        const struct wide w = wide_load(array_view_fixed(v, i), 16);
        return w.word[1] ^ sign;
    }
    if (arrow_id_is_float(v->type.id)) {
        double d = array_view_double(v, i);
        uint64_t bits;
        memcpy(&bits, &d, sizeof bits);
        return bits & sign ? ~bits : bits | sign;
    }
    if (v->type.bit_width == 0 || v->type.id == ARROW_FIXED_SIZE_BINARY) return bytes_word(array_view_bytes(v, i));
    return (uint64_t)array_view_int(v, i) ^ sign;
}

/* Least significant byte first; bytes that are the same in all words are skipped. `to` is n rows of scratch. */
static void radix_sort(struct sorter *s, struct keyed_row *rows, struct keyed_row *to, size_t n)
{
    struct keyed_row *from = rows;
    for (unsigned shift = 0; shift < 64; shift += 8) {
        size_t at[256] = {0};
        size_t sum = 0;
        for (size_t i = 0; i < n && go_on(s, CHECK_ROWS); i += CHECK_ROWS) {
            const size_t end = n - i < CHECK_ROWS ? n : i + CHECK_ROWS;
            for (size_t k = i; k < end; k++) at[from[k].word >> shift & 255]++;
        }
        if (s->status != PENNON_OK) return;
        if (at[from[0].word >> shift & 255] == n) continue;
        for (size_t b = 0; b < 256; b++) {
            size_t count = at[b];
            at[b] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n && go_on(s, CHECK_ROWS); i += CHECK_ROWS) {
            const size_t end = n - i < CHECK_ROWS ? n : i + CHECK_ROWS;
            for (size_t k = i; k < end; k++) to[at[from[k].word >> shift & 255]++] = from[k];
        }
        if (s->status != PENNON_OK) return;
        struct keyed_row *swap = from;
        from = to;
        to = swap;
    }
    if (from != rows) memcpy(rows, from, n * sizeof *rows);
}

static void insertion_sort(struct keyed_row *rows, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const struct keyed_row row = rows[i];
        size_t j = i;
        for (; j > 0 && rows[j - 1].word > row.word; j--) rows[j] = rows[j - 1];
        rows[j] = row;
    }
}

/* By comparison, from key `k` on. */
static void compare_sort(struct sorter *s, struct keyed_row *rows, size_t n, size_t k)
{
    s->first = k;
    for (size_t i = 0; i < n; i++) s->scratch[i] = rows[i].row;
    merge_sort(s, s->scratch, s->scratch + n, n);
    for (size_t i = 0; i < n; i++) rows[i].row = s->scratch[i];
}

/* Nulls of key `k` go to their end, the order is kept otherwise; *values is what remains. `to` is scratch. */
static struct keyed_row *part_nulls(const struct sort_key *key, struct keyed_row *rows, struct keyed_row *to, size_t n,
                                    size_t *values)
{
    size_t kept = 0, nulls = 0;
    for (size_t i = 0; i < n; i++) {
        if (array_view_is_null(&key->view, (int64_t)rows[i].row)) {
            to[nulls++] = rows[i];
        } else {
            rows[kept++] = rows[i];
        }
    }
    *values = kept;
    if (!(key->flags & ARRAY_SORT_NULLS_FIRST)) {
        memcpy(rows + kept, to, nulls * sizeof *rows);
        return rows;
    }
    memmove(rows + nulls, rows, kept * sizeof *rows);
    memcpy(rows, to, nulls * sizeof *rows);
    return rows + nulls;
}

/* Sort rows[0..n), which the keys before `k` hold equal; `to` is as much scratch. Recurses once a key. */
static void sort_by_key(struct sorter *s, struct keyed_row *rows, struct keyed_row *to, size_t n, size_t k)
{
    if (n < 2 || k == s->n_keys) return;
    const struct sort_key *key = &s->keys[k];
    size_t n_values = n;
    struct keyed_row *values = rows;
    if (key->view.validity != NULL || key->view.type.layout == LAYOUT_NULL) values = part_nulls(key, rows, to, n, &n_values);
    /* Nulls are equal. */
    if (n_values < n) sort_by_key(s, values == rows ? rows + n_values : rows, to, n - n_values, k + 1);
    const enum word_kind kind = word_kind(&key->view.type);
    if (kind == WORD_NONE) {
        compare_sort(s, values, n_values, k);
        return;
    }
    for (size_t i = 0; i < n_values && go_on(s, 1); i++) {
        const uint64_t word = word_of(&key->view, (int64_t)values[i].row);
        values[i].word = key->flags & ARRAY_SORT_DESCENDING ? ~word : word;
    }
    if (n_values < RADIX_ROWS) {
        insertion_sort(values, n_values);
    } else {
        radix_sort(s, values, to, n_values);
    }
    for (size_t i = 0, end; i < n_values && go_on(s, 1); i = end) {
        for (end = i + 1; end < n_values && values[end].word == values[i].word; end++) continue;
        if (end - i < 2) continue;
        if (kind == WORD_ALL) {
            sort_by_key(s, values + i, to, end - i, k + 1);
        } else {
            compare_sort(s, values + i, end - i, k);
        }
    }
}

pennon_status array_sort(const struct ArrowSchema *const *schemas, const struct ArrowArray *const *keys, const unsigned *flags,
                         size_t n_keys, const struct call *c, struct mem *mem, uint64_t *indices, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena arena;
    struct sort_key *views = NULL;
    struct sorter s = {.n_keys = n_keys, .call = c, .err = err};
    size_t n = n_keys == 0 ? 0 : (size_t)keys[0]->length, bytes;

    arena_init(&arena, mem);
    TRY_NEW(views, mem_calloc(mem, n_keys, sizeof *views, err));
    for (size_t k = 0; k < n_keys; k++) {
        if (keys[k]->length != keys[0]->length)
            FAIL(PENNON_INVALID_ARGUMENT, "sort: key %zu has another number of rows than the first", k);
        views[k].flags = flags[k];
        TRY(array_view_deep(&views[k].view, schemas[k], keys[k], &arena, err));
    }
    if (n == 0) goto done;
    s.keys = views;
    /* Not zeroed: the first touch of so many pages takes its time, which is to be in the loops that look at the call. */
    if (size_mul_overflows(n, 2 * sizeof *s.rows, &bytes)) FAIL(PENNON_OVER_BUDGET, "sort: %zu rows", n);
    TRY_NEW(s.rows, mem_alloc(mem, bytes, err));
    TRY_NEW(s.scratch, mem_alloc(mem, n * 2 * sizeof *s.scratch, err));
    for (size_t i = 0; i < n && go_on(&s, 1); i++) s.rows[i] = (struct keyed_row){0, i};
    TRY(s.status);
    sort_by_key(&s, s.rows, s.rows + n, n, 0);
    TRY(s.status);
    for (size_t i = 0; i < n; i++) indices[i] = s.rows[i].row;
done:
    mem_free(mem, s.rows);
    mem_free(mem, s.scratch);
    mem_free(mem, views);
    arena_reset(&arena);
    return st;
}

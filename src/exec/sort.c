/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Order and limit over a stream.
 *
 * Batches are collected into few large pieces, so that their keys can be sorted as one column and rows be given out by gathering. With a limit
 * of k rows the pieces are cut to the best k whenever they have grown to a multiple of it; from then on a row that does not come
 * before the k-th is dropped on sight (later rows lose ties, so the order stays stable).
 * Source: spec expressions 10.3. */
#include "exec/operators.h"

#define SORT_KEYS_MAX 64u
/* Bytes of a piece, about: 32-bit offsets suffice for it, and most results are one piece. */
#define PIECE_BYTES ((uint64_t)1 << 29)
/* Rows that are collected at least before the best are looked for. */
#define TOP_ROWS 32768u

struct sorting {
    struct call call;
    struct ArrowArrayStream in;
    struct ArrowSchema schema;
    struct sort_key keys[SORT_KEYS_MAX];
    size_t n_keys;
    uint64_t offset, limit, batch_rows;
    uint64_t top;              /* rows that matter: offset + limit, or UINT64_MAX */
    struct ArrowArray *pieces; /* concatenated ones */
    size_t n_pieces, cap_pieces;
    struct ArrowArray *waiting; /* batches not yet in a piece */
    size_t n_waiting, cap_waiting;
    uint64_t waiting_bytes, waiting_rows;
    uint64_t *order; /* rows of the result, as numbers over all pieces */
    uint64_t n_order, at;
    bool sorted;
    bool has_worst; /* one piece of exactly `top` rows, in order: its last row is the one to beat */
};

static void release_all(struct ArrowArray *arrays, size_t n)
{
    for (size_t i = 0; i < n; i++) array_release(&arrays[i]);
}

static bool sortable_type(const struct ArrowSchema *schema, const struct arrow_type *t)
{
    switch (t->layout) {
    case LAYOUT_SPARSE_UNION:
    case LAYOUT_DENSE_UNION:
    case LAYOUT_RUN_END: return false;
    default: break;
    }
    if (t->id == ARROW_MAP) return false;
    if (schema->dictionary) return sort_possible(schema->dictionary);
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (!sort_possible(schema->children[i])) return false;
    }
    return true;
}

bool sort_possible(const struct ArrowSchema *schema)
{
    struct arrow_type t;
    pennon_error ignored;
    pennon_error_init(&ignored);
    const bool known = arrow_type_of(schema, &t, &ignored) == PENNON_OK;
    pennon_error_clear(&ignored);
    return known && sortable_type(schema, &t);
}

/* ---- pieces ---- */

/* The batches that wait become a piece. */
static pennon_status close_piece(struct sorting *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct ArrowArray **list = NULL;
    struct ArrowArray joined = {0};
    if (s->n_waiting == 0) return PENNON_OK;
    TRY(mem_grow(s->call.mem, &s->pieces, &s->cap_pieces, s->n_pieces, sizeof *s->pieces, SIZE_MAX / 256, err));
    if (s->n_waiting == 1) {
        array_move(&s->waiting[0], &s->pieces[s->n_pieces++]);
    } else {
        TRY_NEW(list, mem_calloc(s->call.mem, s->n_waiting, sizeof *list, err));
        for (size_t i = 0; i < s->n_waiting; i++) list[i] = &s->waiting[i];
        TRY(array_concat(&s->schema, s->n_waiting, list, s->call.mem, &joined, err));
        array_move(&joined, &s->pieces[s->n_pieces++]);
    }
    release_all(s->waiting, s->n_waiting);
    s->n_waiting = 0;
    s->waiting_bytes = s->waiting_rows = 0;
done:
    mem_free(s->call.mem, list);
    return st;
}

static uint64_t rows_of_pieces(const struct sorting *s)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < s->n_pieces; i++) rows += (uint64_t)s->pieces[i].length;
    return rows;
}

/* Order of all rows of the pieces, by numbers that run through them. */
static pennon_status order_rows(struct sorting *s, uint64_t **out, uint64_t *n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray *joined = NULL;
    const struct ArrowArray **parts = NULL, **keys = NULL;
    const struct ArrowSchema **schemas = NULL;
    unsigned flags[SORT_KEYS_MAX];
    *out = NULL;
    *n = rows_of_pieces(s);
    TRY_NEW(joined, mem_calloc(s->call.mem, s->n_keys, sizeof *joined, err));
    TRY_NEW(keys, mem_calloc(s->call.mem, s->n_keys, sizeof *keys, err));
    TRY_NEW(schemas, mem_calloc(s->call.mem, s->n_keys, sizeof *schemas, err));
    TRY_NEW(parts, mem_calloc(s->call.mem, s->n_pieces + 1, sizeof *parts, err));
    for (size_t k = 0; k < s->n_keys; k++) {
        schemas[k] = s->schema.children[s->keys[k].column];
        flags[k] = s->keys[k].flags;
        for (size_t i = 0; i < s->n_pieces; i++) parts[i] = s->pieces[i].children[s->keys[k].column];
        keys[k] = parts[0];
        if (s->n_pieces == 1) continue;
        TRY(array_concat(schemas[k], s->n_pieces, parts, s->call.mem, &joined[k], err));
        keys[k] = &joined[k];
    }
    TRY_NEW(*out, mem_calloc(s->call.mem, (size_t)*n, sizeof **out, err));
    TRY(array_sort(schemas, keys, flags, s->n_keys, &s->call, s->call.mem, *out, err));
done:
    if (joined) release_all(joined, s->n_keys);
    mem_free(s->call.mem, joined);
    mem_free(s->call.mem, keys);
    mem_free(s->call.mem, schemas);
    mem_free(s->call.mem, parts);
    if (st != PENNON_OK) {
        mem_free(s->call.mem, *out);
        *out = NULL;
    }
    return st;
}

/* The rows with these numbers, in this order: gathered from each piece, joined, and put in order. */
static pennon_status gather(struct sorting *s, const uint64_t *numbers, size_t n, struct ArrowArray *out, pennon_error *err)
{
    if (s->n_pieces == 1) return array_take(&s->schema, &s->pieces[0], numbers, n, s->call.mem, out, err);
    pennon_status st = PENNON_OK;
    struct ArrowArray *parts = NULL, joined = {0};
    const struct ArrowArray **list = NULL;
    uint64_t *rows = NULL, *places = NULL, first = 0, at = 0;
    TRY_NEW(parts, mem_calloc(s->call.mem, s->n_pieces, sizeof *parts, err));
    TRY_NEW(list, mem_calloc(s->call.mem, s->n_pieces, sizeof *list, err));
    TRY_NEW(rows, mem_calloc(s->call.mem, n + 1, sizeof *rows, err));
    TRY_NEW(places, mem_calloc(s->call.mem, n + 1, sizeof *places, err));
    for (size_t i = 0; i < s->n_pieces; i++) {
        const uint64_t length = (uint64_t)s->pieces[i].length;
        size_t found = 0;
        for (size_t k = 0; k < n; k++) {
            if (numbers[k] < first || numbers[k] >= first + length) continue;
            rows[found++] = numbers[k] - first;
            places[k] = at++;
        }
        TRY(array_take(&s->schema, &s->pieces[i], rows, found, s->call.mem, &parts[i], err));
        list[i] = &parts[i];
        first += length;
    }
    ASSERT(at == n);
    TRY(array_concat(&s->schema, s->n_pieces, list, s->call.mem, &joined, err));
    TRY(array_take(&s->schema, &joined, places, n, s->call.mem, out, err));
done:
    if (parts) release_all(parts, s->n_pieces);
    array_release(&joined);
    mem_free(s->call.mem, parts);
    mem_free(s->call.mem, list);
    mem_free(s->call.mem, rows);
    mem_free(s->call.mem, places);
    return st;
}

/* Keep the best `top` rows, in order, as the one piece. */
static pennon_status keep_best(struct sorting *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray best = {0};
    uint64_t *order = NULL, n = 0;
    TRY(close_piece(s, err));
    TRY(order_rows(s, &order, &n, err));
    TRY(gather(s, order, (size_t)min_u64(n, s->top), &best, err));
    release_all(s->pieces, s->n_pieces);
    array_move(&best, &s->pieces[0]);
    s->n_pieces = 1;
    s->has_worst = n >= s->top;
done:
    mem_free(s->call.mem, order);
    return st;
}

/* ---- collecting ---- */

/* Does row i of the new batch come before the last of the best? */
static bool comes_before(const struct sorting *s, const struct array_view *batch, int64_t i, const struct array_view *worst,
                         int64_t last)
{
    for (size_t k = 0; k < s->n_keys; k++) {
        const bool null_i = array_view_is_null(&batch[k], i), null_last = array_view_is_null(&worst[k], last);
        int order;
        if (null_i || null_last) {
            order = (int)null_i - (int)null_last;
            if (s->keys[k].flags & ARRAY_SORT_NULLS_FIRST) order = -order;
        } else {
            order = array_compare_nulls(&batch[k], i, &worst[k], last, array_sort_nulls_low(s->keys[k].flags));
            if (s->keys[k].flags & ARRAY_SORT_DESCENDING) order = -order;
        }
        if (order != 0) return order < 0;
    }
    return false;
}

static pennon_status view_keys(const struct sorting *s, const struct ArrowArray *batch, struct arena *arena,
                               struct array_view **out, pennon_error *err)
{
    *out = arena_calloc(arena, s->n_keys, sizeof **out, err);
    if (!*out) return err->code;
    for (size_t k = 0; k < s->n_keys; k++) {
        const uint32_t column = s->keys[k].column;
        TRY_RETURN(array_view_deep(&(*out)[k], s->schema.children[column], batch->children[column], arena, err));
    }
    return PENNON_OK;
}

/* Rows of the batch that can still be among the best; `batch` is replaced, or released when there are none. */
static pennon_status drop_worse(struct sorting *s, struct ArrowArray *batch, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena arena;
    struct array_view *mine, *best;
    struct ArrowArray kept = {0};
    uint8_t *bits;
    uint64_t found = 0;
    arena_init(&arena, s->call.mem);
    TRY(view_keys(s, batch, &arena, &mine, err));
    TRY(view_keys(s, &s->pieces[0], &arena, &best, err));
    TRY_NEW(bits, arena_calloc(&arena, (size_t)bitmap_bytes((uint64_t)batch->length), 1, err));
    for (int64_t i = 0; i < batch->length; i++) {
        if (!comes_before(s, mine, i, best, s->pieces[0].length - 1)) continue;
        bitmap_fill(bits, (uint64_t)i, 1, true);
        found++;
    }
    if (found == (uint64_t)batch->length) goto done;
    if (found) TRY(array_filter(&s->schema, batch, bits, 0, s->call.mem, &kept, err));
    array_release(batch);
    if (found) array_move(&kept, batch);
done:
    arena_reset(&arena);
    return st;
}

static pennon_status collect(struct sorting *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray batch = {0};
    uint64_t enough;
    if (mul_overflows(max_u64(s->top, TOP_ROWS / 2), UINT64_C(2), &enough)) enough = UINT64_MAX;
    for (;;) {
        TRY(call_check(&s->call, err));
        TRY(stream_next(&s->in, &batch, err));
        if (!batch.release) break;
        if (s->has_worst && batch.length > 0) TRY(drop_worse(s, &batch, err));
        if (!batch.release || batch.length == 0) {
            array_release(&batch);
            continue;
        }
        const uint64_t bytes = array_bytes(&s->schema, &batch);
        if (s->n_waiting && s->waiting_bytes + bytes > PIECE_BYTES) TRY(close_piece(s, err));
        TRY(mem_grow(s->call.mem, &s->waiting, &s->cap_waiting, s->n_waiting, sizeof *s->waiting, SIZE_MAX / 256, err));
        s->waiting_bytes += bytes;
        s->waiting_rows += (uint64_t)batch.length;
        array_move(&batch, &s->waiting[s->n_waiting++]);
        if (rows_of_pieces(s) + s->waiting_rows >= enough) TRY(keep_best(s, err));
    }
    TRY(close_piece(s, err));
done:
    array_release(&batch);
    return st;
}

static pennon_status sort_all(struct sorting *s, pennon_error *err)
{
    TRY_RETURN(collect(s, err));
    stream_release(&s->in);
    s->sorted = true;
    if (s->n_pieces == 0) return PENNON_OK;
    TRY_RETURN(order_rows(s, &s->order, &s->n_order, err));
    s->n_order = min_u64(s->n_order, s->top);
    s->at = min_u64(s->offset, s->n_order);
    return PENNON_OK;
}

static pennon_status sort_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct sorting *s = ctx;
    out->release = NULL;
    TRY_RETURN(call_check(&s->call, err));
    if (!s->sorted) TRY_RETURN(sort_all(s, err));
    const uint64_t n = min_u64(s->n_order - s->at, s->batch_rows);
    if (n == 0) return PENNON_OK;
    TRY_RETURN(gather(s, s->order + s->at, (size_t)n, out, err));
    s->at += n;
    return PENNON_OK;
}

static void sort_free(void *ctx)
{
    struct sorting *s = ctx;
    struct call call = s->call;
    stream_release(&s->in);
    release_all(s->pieces, s->n_pieces);
    release_all(s->waiting, s->n_waiting);
    mem_free(call.mem, s->pieces);
    mem_free(call.mem, s->waiting);
    mem_free(call.mem, s->order);
    arrow_schema_release(&s->schema);
    mem_free(call.mem, s);
    call_end(&call);
}

static pennon_status check_keys(const struct sorting *s, pennon_error *err)
{
    for (size_t k = 0; k < s->n_keys; k++) {
        ASSERT(s->keys[k].column < (uint64_t)s->schema.n_children);
        const struct ArrowSchema *key = s->schema.children[s->keys[k].column];
        if (!sort_possible(key)) {
            return error_set(err, PENNON_NOT_SUPPORTED, "column '%s' has a type that has no order", key->name ? key->name : "");
        }
    }
    return PENNON_OK;
}

pennon_status sort_open(const struct call *c, struct ArrowArrayStream *in, const struct sort_key *keys, size_t n_keys,
                        uint64_t offset, uint64_t limit, uint64_t batch_rows, struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema schema = {0};
    struct sorting *s = NULL;
    ASSERT(n_keys > 0 && batch_rows > 0);
    if (n_keys > SORT_KEYS_MAX) FAIL(PENNON_INVALID_ARGUMENT, "%zu columns to order by; at most %u can be", n_keys, SORT_KEYS_MAX);
    TRY_NEW(s, mem_calloc(c->mem, 1, sizeof *s, err));
    call_copy(&s->call, c);
    stream_move(in, &s->in);
    memcpy(s->keys, keys, n_keys * sizeof *keys);
    s->n_keys = n_keys;
    s->offset = offset;
    s->limit = limit;
    s->top = limit > UINT64_MAX - offset ? UINT64_MAX : offset + limit;
    if (limit == 0) s->top = 0;
    s->sorted = s->top == 0;
    s->batch_rows = batch_rows;
    TRY(stream_schema(&s->in, &s->schema, err));
    TRY(check_keys(s, err));
    TRY(arrow_schema_copy(&s->schema, s->call.mem, &schema, err));
    st = stream_new(&schema, sort_next, sort_free, s, s->call.mem, out, err);
    s = NULL;
done:
    stream_release(in);
    if (s) sort_free(s);
    return st;
}

/* ---- limit ---- */

struct limiting {
    struct call call;
    struct ArrowArrayStream in;
    struct ArrowSchema schema;
    uint64_t skip, left;
};

/* Rows [skip, skip + n) of the batch, without copying where it is ours to share. */
static pennon_status cut(struct limiting *l, struct ArrowArray *batch, uint64_t n, struct ArrowArray *out, pennon_error *err)
{
    struct shared_array *shared = shared_array_new(batch, l->call.mem, err);
    if (!shared) return err->code;
    pennon_status st = array_slice(&l->schema, shared, (int64_t)l->skip, (int64_t)n, l->call.mem, out, err);
    shared_array_release(shared);
    return st;
}

static pennon_status limit_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct limiting *l = ctx;
    struct ArrowArray batch = {0};
    out->release = NULL;
    while (l->left > 0) {
        TRY(call_check(&l->call, err));
        TRY(stream_next(&l->in, &batch, err));
        if (!batch.release) break;
        const uint64_t rows = (uint64_t)batch.length;
        if (rows <= l->skip) {
            l->skip -= rows;
            array_release(&batch);
            continue;
        }
        const uint64_t n = min_u64(rows - l->skip, l->left);
        if (n == rows) {
            array_move(&batch, out);
        } else {
            TRY(cut(l, &batch, n, out, err));
        }
        l->skip = 0;
        if (l->left != UINT64_MAX) l->left -= n;
        break;
    }
    /* What works ahead below is not needed any more. */
    if (l->left == 0) stream_release(&l->in);
done:
    array_release(&batch);
    return st;
}

static void limit_free(void *ctx)
{
    struct limiting *l = ctx;
    struct call call = l->call;
    stream_release(&l->in);
    arrow_schema_release(&l->schema);
    mem_free(call.mem, l);
    call_end(&call);
}

pennon_status limit_open(const struct call *c, struct ArrowArrayStream *in, uint64_t offset, uint64_t limit,
                         struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema schema = {0};
    struct limiting *l;
    TRY_NEW(l, mem_calloc(c->mem, 1, sizeof *l, err));
    call_copy(&l->call, c);
    stream_move(in, &l->in);
    l->skip = offset;
    l->left = limit;
    TRY(stream_schema(&l->in, &l->schema, err));
    TRY(arrow_schema_copy(&l->schema, l->call.mem, &schema, err));
    st = stream_new(&schema, limit_next, limit_free, l, l->call.mem, out, err);
    l = NULL;
done:
    stream_release(in);
    if (l) limit_free(l);
    return st;
}

/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The right side of a left join: kept as the batches it came in, with an open hash table of row numbers over the keys.
 *
 *   keys of a batch -> hash -> slot: number of the row -> batch and row -> values, batch by batch, then put in order
 *
 * Small batches are joined first, so that the rows of a result come from few. Two nulls are the same key; floats are where their bits are.
 * Source: spec commits 8.4. */
#include "dataset/evolve_lookup.h"

#include "expr/expr.h"

#define PART_ROWS ((uint64_t)1 << 16)
#define PART_BYTES ((uint64_t)16 << 20)
#define LOOKUP_ROWS_MAX ((uint64_t)UINT32_MAX - 1)

static pennon_status split_schema(struct lookup *l, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const size_t n = (size_t)l->input.n_children;
    size_t at = 0;
    TRY(arrow_schema_plain(l->input.children[l->key], l->mem, &l->key_type, err));
    TRY(arrow_schema_new(&l->values, "+s", "", 0, n - 1, l->mem, err));
    for (size_t i = 0; i < n; i++) {
        if (i != l->key) TRY(arrow_schema_copy(l->input.children[i], l->mem, l->values.children[at++], err));
    }
done:
    return st;
}

pennon_status lookup_open(struct lookup *l, const struct call *c, struct ArrowArrayStream *data, const char *key, const char *side,
                          pennon_error *err)
{
    *l = (struct lookup){.mem = c->mem};
    arena_init(&l->arena, c->mem);
    TRY_RETURN(stream_schema(data, &l->input, err));
    TRY_RETURN(arrow_schema_validate(&l->input, err));
    const int64_t at = strcmp(l->input.format, "+s") == 0 ? arrow_schema_find(&l->input, bytes_str(key)) : -1;
    if (at < 0) {
        (void)error_set(err, PENNON_INVALID_ARGUMENT, "Column %s does not exist in the right side %s", key, side);
        return error_kind(err, "InvalidInput");
    }
    l->key = (size_t)at;
    return split_schema(l, err);
}

void lookup_end(struct lookup *l)
{
    if (!l->mem) return;
    for (size_t i = 0; i < l->n_parts; i++) {
        array_release(&l->parts[i].key);
        array_release(&l->parts[i].values);
    }
    mem_free(l->mem, l->parts);
    mem_free(l->mem, l->slots);
    mem_free(l->mem, l->tags);
    arrow_schema_release(&l->input);
    arrow_schema_release(&l->key_type);
    arrow_schema_release(&l->values);
    arena_reset(&l->arena);
    *l = (struct lookup){0};
}

/* ---- reading ---- */

/* The key and the other columns of a batch, in the form of files. */
static pennon_status split_batch(struct lookup *l, const struct call *c, struct ArrowArray *batch, struct lookup_part *p,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct shared_array *shared = NULL;
    struct ArrowArray key = {0};
    const size_t n = (size_t)l->input.n_children;
    size_t at = 0;
    TRY(array_validate(&l->input, batch, ARRAY_VALIDATE_FULL, err));
    if (batch->null_count != 0 && array_null_count(&l->input, batch) != 0)
        FAIL(PENNON_INVALID_ARGUMENT, "a record batch with null rows");
    const int64_t rows = batch->length;
    TRY_NEW(shared, shared_array_new(batch, c->mem, err));
    TRY(array_slice_child(&l->input, shared, l->key, c->mem, &key, err));
    TRY(array_copy_range(l->input.children[l->key], &key, 0, rows, ARRAY_PLAIN_VIEWS, c->mem, &p->key, err));
    TRY(array_new(&p->values, 1, n - 1, c->mem, err));
    p->values.length = rows;
    for (size_t i = 0; i < n; i++) {
        if (i != l->key) TRY(array_slice_child(&l->input, shared, i, c->mem, p->values.children[at++], err));
    }
    TRY(batch_prepare(c, &l->form, &p->values, err));
    TRY(array_view_deep(&p->view, &l->key_type, &p->key, &l->arena, err));
done:
    array_release(&key);
    shared_array_release(shared);
    return st;
}

static const struct lookup_part *part_of(const struct lookup *l, uint64_t row)
{
    size_t low = 0, high = l->n_parts;
    while (high - low > 1) {
        const size_t mid = low + (high - low) / 2;
        if (l->parts[mid].first <= row) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return &l->parts[low];
}

/* The slot of a key: its own, or a free one. */
static uint64_t find_slot(const struct lookup *l, const struct array_view *v, int64_t row, uint32_t *tag)
{
    const uint64_t hash = expr_value_hash(v, row);
    uint64_t at = hash & l->mask;
    *tag = (uint32_t)(hash >> 32);
    for (; l->slots[at] != 0; at = (at + 1) & l->mask) {
        if (l->tags[at] != *tag) continue;
        const uint64_t held = l->slots[at] - 1;
        const struct lookup_part *p = part_of(l, held);
        if (expr_value_equal(&p->view, (int64_t)(held - p->first), v, row)) break;
    }
    return at;
}

static pennon_status index_rows(struct lookup *l, const struct call *c, pennon_error *err)
{
    uint64_t cap = 16;
    while (cap < l->rows * 2) cap *= 2;
    l->mask = cap - 1;
    l->slots = mem_calloc(l->mem, (size_t)cap, sizeof *l->slots, err);
    if (!l->slots) return err->code;
    l->tags = mem_calloc(l->mem, (size_t)cap, sizeof *l->tags, err);
    if (!l->tags) return err->code;
    for (size_t k = 0; k < l->n_parts; k++) {
        const struct lookup_part *p = &l->parts[k];
        TRY_RETURN(call_check(c, err));
        for (int64_t i = 0; i < p->key.length; i++) {
            uint32_t tag;
            const uint64_t at = find_slot(l, &p->view, i, &tag);
            l->slots[at] = (uint32_t)(p->first + (uint64_t)i + 1);
            l->tags[at] = tag;
        }
    }
    return PENNON_OK;
}

pennon_status lookup_read(struct lookup *l, const struct call *c, struct ArrowArrayStream *data, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArrayStream larger = {0};
    struct ArrowArray batch = {0};
    TRY(stream_rebatch(data, PART_ROWS, PART_BYTES, c->mem, &larger, err)); /* moves the stream */
    for (;;) {
        TRY(call_check(c, err));
        TRY(stream_next(&larger, &batch, err));
        if (!batch.release) break;
        TRY(mem_grow(l->mem, &l->parts, &l->cap_parts, l->n_parts, sizeof *l->parts, SIZE_MAX / 1024, err));
        struct lookup_part *p = &l->parts[l->n_parts++];
        p->first = l->rows;
        l->rows += (uint64_t)batch.length;
        if (l->rows > LOOKUP_ROWS_MAX)
            FAIL(PENNON_NOT_SUPPORTED, "a join with more than %u rows on the right side", UINT32_MAX - 1);
        TRY(split_batch(l, c, &batch, p, err));
        array_release(&batch);
    }
    if (l->rows == 0) {
        (void)error_set(err, PENNON_INVALID_ARGUMENT, "HashJoiner: No data: the right side has no row");
        st = error_kind(err, "InvalidInput");
        goto done;
    }
    TRY(index_rows(l, c, err));
done:
    array_release(&batch);
    stream_release(&larger);
    return st;
}

/* ---- asking ---- */

pennon_status lookup_find(const struct lookup *l, const struct call *c, const struct ArrowArray *keys, uint32_t *rows,
                          pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena scratch;
    struct array_view v;
    arena_init(&scratch, c->mem);
    TRY(array_view_deep(&v, &l->key_type, keys, &scratch, err));
    for (int64_t i = 0; i < keys->length; i++) {
        uint32_t tag;
        const uint64_t at = find_slot(l, &v, i, &tag);
        rows[i] = l->slots[at] == 0 ? LOOKUP_NONE : l->slots[at] - 1;
    }
done:
    arena_reset(&scratch);
    return st;
}

/* Values from several parts on their way into one array. */
struct gathering {
    struct ArrowArray *pieces;      /* rows of one part each, then those of `other` */
    const struct ArrowArray **list; /* pointers to them */
    size_t n;
    uint64_t *order;  /* of each row of the result: its place behind one another in the pieces */
    uint64_t *wanted; /* rows of the part under way */
};

/* The rows of part `p` that are asked for become a piece. */
static pennon_status take_piece(const struct lookup *l, const struct call *c, const struct ArrowSchema *schema,
                                const uint32_t *rows, size_t n, const struct lookup_part *p, struct gathering *g, uint64_t *before,
                                pennon_error *err)
{
    const uint64_t end = p->first + (uint64_t)p->key.length;
    size_t k = 0;
    UNUSED(l);
    for (size_t i = 0; i < n; i++) {
        if (rows[i] == LOOKUP_NONE || rows[i] < p->first || rows[i] >= end) continue;
        g->order[i] = *before + k;
        g->wanted[k++] = rows[i] - p->first;
    }
    if (k == 0) return PENNON_OK;
    TRY_RETURN(array_take(schema, &p->values, g->wanted, k, c->mem, &g->pieces[g->n], err));
    g->list[g->n] = &g->pieces[g->n];
    g->n++;
    *before += k;
    return PENNON_OK;
}

static void mark_parts(const struct lookup *l, const uint32_t *rows, size_t n, bool *used)
{
    const struct lookup_part *last = NULL;
    for (size_t i = 0; i < n; i++) {
        if (rows[i] == LOOKUP_NONE) continue;
        if (!last || rows[i] < last->first || rows[i] >= last->first + (uint64_t)last->key.length) last = part_of(l, rows[i]);
        used[last - l->parts] = true;
    }
}

pennon_status lookup_gather(const struct lookup *l, const struct call *c, const struct ArrowSchema *schema, const uint32_t *rows,
                            size_t n, const struct ArrowArray *other, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct gathering g = {0};
    struct ArrowArray whole = {0};
    bool *used = NULL;
    uint64_t before = 0;
    TRY_NEW(used, mem_calloc(c->mem, l->n_parts + 1, sizeof *used, err));
    TRY_NEW(g.pieces, mem_calloc(c->mem, l->n_parts + 1, sizeof *g.pieces, err));
    TRY_NEW(g.list, mem_calloc(c->mem, l->n_parts + 1, sizeof *g.list, err));
    TRY_NEW(g.order, mem_calloc(c->mem, n + 1, sizeof *g.order, err));
    TRY_NEW(g.wanted, mem_calloc(c->mem, n + 1, sizeof *g.wanted, err));
    mark_parts(l, rows, n, used);
    for (size_t k = 0; k < l->n_parts; k++) {
        if (used[k]) TRY(take_piece(l, c, schema, rows, n, &l->parts[k], &g, &before, err));
    }
    for (size_t i = 0; i < n; i++) {
        if (rows[i] == LOOKUP_NONE) g.order[i] = other ? before + i : ARRAY_TAKE_NULL;
    }
    if (other) g.list[g.n++] = other;
    if (g.n == 0) {
        TRY(array_new(out, 1, (size_t)schema->n_children, c->mem, err));
        out->length = (int64_t)n;
        for (int64_t i = 0; i < schema->n_children; i++)
            TRY(array_nulls(schema->children[i], (int64_t)n, c->mem, out->children[i], err));
        goto done;
    }
    if (g.n > 1) TRY(array_concat(schema, g.n, g.list, c->mem, &whole, err));
    const struct ArrowArray *from = g.n > 1 ? &whole : g.list[0];
    TRY(array_new(out, 1, (size_t)schema->n_children, c->mem, err));
    out->length = (int64_t)n;
    for (int64_t i = 0; i < schema->n_children; i++)
        TRY(array_take(schema->children[i], from->children[i], g.order, n, c->mem, out->children[i], err));
done:
    for (size_t i = 0; g.pieces && i < l->n_parts; i++) array_release(&g.pieces[i]);
    array_release(&whole);
    mem_free(c->mem, used);
    mem_free(c->mem, g.pieces);
    mem_free(c->mem, g.list);
    mem_free(c->mem, g.order);
    mem_free(c->mem, g.wanted);
    if (st != PENNON_OK) array_release(out);
    return st;
}

/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A condition over a row of the source and the row of the target that it matches, for blocks of pairs.
 *
 *   source.x  rows of the chunk, taken; a part of a struct is null where a struct above it is
 *   target.x  rows of the table, taken by place: of matched rows alone, and only the columns that the condition names */
#include "dataset/merge.h"

#define BLOCK_PAIRS 8192u

struct asking {
    const struct merge_plan *p;
    const struct call *c;
    struct file_cache *files;
    const struct row_store *rows;
    const struct row_chunk *chunk;
    const struct ArrowArray *array; /* of the chunk */
    uint64_t *indices, *places;
    uint8_t *bits;
    struct ArrowArray *sources; /* of the operands */
    const struct ArrowArray **columns;
    size_t n_operands;
};

/* `child` is null where `parent` is. Both are owned, without offsets. */
static pennon_status pass_nulls(const struct ArrowArray *parent, struct ArrowArray *child, const struct ArrowSchema *schema,
                                struct mem *m, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arrow_type t;
    struct buf bits;
    buf_init(&bits, m, BUF_NO_LIMIT);
    TRY(arrow_type_of(schema, &t, err));
    if (parent->null_count == 0 || t.layout == LAYOUT_NULL || child->length == 0) goto done;
    ASSERT(parent->offset == 0 && child->offset == 0 && parent->length == child->length);
    TRY(buf_resize_zero(&bits, (size_t)bitmap_bytes((uint64_t)child->length), err));
    if (child->buffers[0] != NULL) {
        bitmap_and(bits.data, parent->buffers[0], 0, child->buffers[0], 0, (uint64_t)child->length);
    } else {
        bitmap_copy(bits.data, 0, parent->buffers[0], 0, (uint64_t)child->length);
    }
    child->null_count = child->length - (int64_t)bitmap_count(bits.data, 0, (uint64_t)child->length);
    array_give_buf(child, 0, &bits);
done:
    buf_free(&bits);
    return st;
}

/* Children from the top-level field down to `f`. */
static size_t path_of(const struct schema *s, const struct field *f, uint32_t *path)
{
    size_t n = 0;
    for (; f != NULL; f = f->parent) {
        struct field *const *all = f->parent != NULL ? f->parent->children : s->fields;
        uint32_t i = 0;
        while (all[i] != f) i++;
        path[n++] = i;
    }
    for (size_t i = 0; i < n / 2; i++) {
        const uint32_t was = path[i];
        path[i] = path[n - 1 - i];
        path[n - 1 - i] = was;
    }
    return n;
}

static pennon_status take_source(struct asking *a, const struct merge_operand *o, size_t n, struct ArrowArray *out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint32_t path[ARROW_MAX_DEPTH + 1];
    struct ArrowArray at = {0}, below = {0};
    const size_t depth = path_of(a->p->data, o->field, path);
    const struct ArrowSchema *schema = a->p->source->children[path[0]];
    TRY(array_take(schema, a->array->children[path[0]], a->indices, n, a->c->mem, &at, err));
    for (size_t i = 1; i < depth; i++) {
        schema = schema->children[path[i]];
        array_move(at.children[path[i]], &below);
        TRY(pass_nulls(&at, &below, schema, a->c->mem, err));
        array_release(&at);
        array_move(&below, &at);
    }
    array_move(&at, out);
done:
    array_release(&at);
    array_release(&below);
    return st;
}

static pennon_status ask_block(struct asking *a, struct merge_pair *pairs, size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct merge_plan *p = a->p;
    struct ArrowArray target = {0};
    uint64_t count;
    TRY(call_check(a->c, err));
    for (size_t i = 0; i < n; i++) {
        a->indices[i] = pairs[i].row - a->chunk->first;
        a->places[i] = pairs[i].place;
    }
    if (p->operands != NULL) TRY(take_places(a->c, p->s, a->files, p->operands, a->places, n, &target, err));
    for (size_t k = 0; k < a->n_operands; k++) {
        const struct merge_operand *o = &p->operand_list[k];
        if (o->source) {
            array_release(&a->sources[k]);
            TRY(take_source(a, o, n, &a->sources[k], err));
            a->columns[k] = &a->sources[k];
        } else {
            a->columns[k] = target.children[o->child];
        }
    }
    TRY(expr_select(p->matched, a->c, a->columns, (int64_t)n, a->bits, &count, err));
    for (size_t i = 0; i < n; i++) pairs[i].keep = bit_get(a->bits, i);
done:
    array_release(&target);
    return st;
}

/* Smaller blocks where one does not fit memory or 32-bit offsets. */
static pennon_status ask_pairs(struct asking *a, struct merge_pair *pairs, size_t n, pennon_error *err)
{
    size_t step = BLOCK_PAIRS;
    for (size_t at = 0; at < n;) {
        const size_t block = n - at < step ? n - at : step;
        const pennon_status st = ask_block(a, pairs + at, block, err);
        if (st == PENNON_OVER_BUDGET && block > 1) {
            pennon_error_clear(err);
            step = block / 2;
            continue;
        }
        if (st != PENNON_OK) return st;
        at += block;
    }
    return PENNON_OK;
}

static pennon_status make_room(struct asking *a, pennon_error *err)
{
    struct mem *m = a->c->mem;
    (void)expr_columns(a->p->matched, &a->n_operands);
    a->indices = mem_alloc(m, BLOCK_PAIRS * sizeof *a->indices, err);
    if (a->indices == NULL) return err->code;
    a->places = mem_alloc(m, BLOCK_PAIRS * sizeof *a->places, err);
    if (a->places == NULL) return err->code;
    a->bits = mem_alloc(m, BLOCK_PAIRS / 8 + 8, err);
    if (a->bits == NULL) return err->code;
    a->sources = mem_calloc(m, a->n_operands + 1, sizeof *a->sources, err);
    if (a->sources == NULL) return err->code;
    a->columns = mem_calloc(m, a->n_operands + 1, sizeof *a->columns, err);
    return a->columns != NULL ? PENNON_OK : err->code;
}

pennon_status merge_condition(const struct merge_plan *p, const struct call *c, struct file_cache *files,
                              const struct row_store *rows, struct merge_pair *pairs, size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct asking a = {.p = p, .c = c, .files = files, .rows = rows};
    struct shared_array *array = NULL;
    TRY(make_room(&a, err));
    for (size_t at = 0, end; at < n; at = end) {
        const size_t chunk = row_store_find(rows, pairs[at].row);
        a.chunk = &rows->chunks[chunk];
        for (end = at + 1; end < n && pairs[end].row - a.chunk->first < a.chunk->rows; end++) continue;
        shared_array_release(array);
        array = NULL;
        TRY(row_store_chunk(rows, chunk, &array, err));
        a.array = shared_array_get(array);
        TRY(ask_pairs(&a, pairs + at, end - at, err));
    }
done:
    shared_array_release(array);
    for (size_t k = 0; k < a.n_operands && a.sources != NULL; k++) array_release(&a.sources[k]);
    mem_free(c->mem, a.indices);
    mem_free(c->mem, a.places);
    mem_free(c->mem, a.bits);
    mem_free(c->mem, a.sources);
    mem_free(c->mem, a.columns);
    return st;
}

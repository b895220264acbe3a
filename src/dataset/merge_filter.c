/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The keys of the rows that a merge inserts, as a split block Bloom filter: two writers whose filters share a bit may have inserted the same key.
 *
 *   bytes   0 .. 32768   1024 blocks of 8 words, little endian
 *   hash    xxHash64, seed 0, of the key's bytes; its high half chooses the block, its low half a bit in each of the eight words
 *   key     texts and bytes as they are; int32, int64, uint32, uint64 as eight bytes; of lists, structs and several columns each part and a zero byte
 *
 * A null anywhere in a key equals nothing, so it is left out. Of other types official records nothing, and so misses what others insert; here such a key
 * sets all bits, so that the writers meet.
 * Source: spec commits 4.4. */
#include "dataset/merge.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define FILTER_BYTES 32768u
#define FILTER_BLOCKS (FILTER_BYTES / 32)

enum recorded { RECORDED, HAS_NULL, NOT_RECORDABLE };

pennon_status key_filter_init(struct key_filter *f, struct mem *m, pennon_error *err)
{
    *f = (struct key_filter){.mem = m};
    buf_init(&f->key, m, BUF_NO_LIMIT);
    f->bits = mem_calloc(m, FILTER_BYTES, 1, err);
    return f->bits != NULL ? PENNON_OK : err->code;
}

void key_filter_free(struct key_filter *f)
{
    if (f->mem == NULL) return;
    mem_free(f->mem, f->bits);
    buf_free(&f->key);
    *f = (struct key_filter){0};
}

static pennon_status put_part(const struct array_view *v, int64_t i, struct buf *out, enum recorded *how, pennon_error *err);

static pennon_status put_parts(const struct array_view *v, int64_t first, int64_t n, struct buf *out, enum recorded *how,
                               pennon_error *err)
{
    for (int64_t k = 0; k < n && *how == RECORDED; k++) {
        TRY_RETURN(put_part(v, first + k, out, how, err));
        TRY_RETURN(buf_append_byte(out, 0, err));
    }
    return PENNON_OK;
}

/* Recursion as deep as the schema, which is bounded. */
static pennon_status put_part(const struct array_view *v, int64_t i, struct buf *out, enum recorded *how, pennon_error *err)
{
    uint8_t word[8];
    int64_t start, n;
    if (array_view_is_null(v, i)) {
        *how = HAS_NULL;
        return PENNON_OK;
    }
    switch (v->type.id) {
    case ARROW_UTF8:
    case ARROW_LARGE_UTF8:
    case ARROW_BINARY:
    case ARROW_LARGE_BINARY: {
        const struct bytes b = array_view_bytes(v, i);
        return buf_append(out, b.data, b.size, err);
    }
    case ARROW_INT32:
    case ARROW_INT64:
    case ARROW_UINT32:
    case ARROW_UINT64: store_u64(word, (uint64_t)array_view_int(v, i)); return buf_append(out, word, sizeof word, err);
    case ARROW_LIST:
    case ARROW_LARGE_LIST: array_view_list(v, i, &start, &n); return put_parts(&v->children[0], start, n, out, how, err);
    case ARROW_STRUCT:
        for (int64_t k = 0; k < v->array->n_children && *how == RECORDED; k++)
            TRY_RETURN(put_parts(&v->children[k], i, 1, out, how, err));
        return PENNON_OK;
    default: *how = NOT_RECORDABLE; return PENNON_OK;
    }
}

static void insert(uint8_t *bits, struct bytes key)
{
    static const uint32_t salts[8] = {0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d,
                                      0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31};
    const uint64_t hash = XXH64(key.size > 0 ? key.data : (const uint8_t *)"", key.size, 0);
    uint8_t *block = bits + ((hash >> 32) * FILTER_BLOCKS >> 32) * 32;
    for (unsigned w = 0; w < 8; w++) {
        const uint32_t bit = (uint32_t)hash * salts[w] >> 27;
        store_u32(block + 4 * w, load_u32(block + 4 * w) | (uint32_t)1 << bit);
    }
}

static pennon_status add_row(struct key_filter *f, const struct array_view *views, size_t n, int64_t row, pennon_error *err)
{
    enum recorded how = RECORDED;
    f->key.size = 0;
    if (n == 1) {
        TRY_RETURN(put_part(&views[0], row, &f->key, &how, err));
    } else {
        for (size_t k = 0; k < n && how == RECORDED; k++) TRY_RETURN(put_parts(&views[k], row, 1, &f->key, &how, err));
    }
    if (how == RECORDED) insert(f->bits, bytes_of(f->key.data, f->key.size));
    if (how == NOT_RECORDABLE) memset(f->bits, 0xFF, FILTER_BYTES);
    return PENNON_OK;
}

pennon_status key_filter_add(struct key_filter *f, const struct merge_plan *p, const struct ArrowArray *chunk, const uint64_t *rows,
                             size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena arena;
    struct array_view *views;
    arena_init(&arena, f->mem);
    TRY_NEW(views, arena_calloc(&arena, p->n_keys, sizeof *views, err));
    for (size_t k = 0; k < p->n_keys; k++)
        TRY(array_view_deep(&views[k], p->source_side.schemas[k], chunk->children[p->source_keys[k]], &arena, err));
    for (size_t i = 0; i < n; i++) TRY(add_row(f, views, p->n_keys, (int64_t)rows[i], err));
done:
    arena_reset(&arena);
    return st;
}

pennon_status key_filter_message(const struct key_filter *f, const struct merge_plan *p, struct arena *a,
                                 struct key_filter_message **out, pennon_error *err)
{
    struct bloom_filter_message *bloom = arena_calloc(a, 1, sizeof *bloom, err);
    if (bloom == NULL) return err->code;
    struct key_filter_message *m = arena_calloc(a, 1, sizeof *m, err);
    if (m == NULL) return err->code;
    uint8_t *bits = arena_alloc(a, FILTER_BYTES, err);
    if (bits == NULL) return err->code;
    m->field_ids = arena_calloc(a, p->n_keys, sizeof *m->field_ids, err);
    if (m->field_ids == NULL) return err->code;
    memcpy(bits, f->bits, FILTER_BYTES);
    *bloom = (struct bloom_filter_message){
        .bitmap = bytes_of(bits, FILTER_BYTES), .num_bits = FILTER_BYTES * 8, .number_of_items = 8192, .probability = 0.00057};
    for (size_t k = 0; k < p->n_keys; k++) m->field_ids[m->n_field_ids++] = p->keys[k]->id;
    m->which = KEY_FILTER_BLOOM;
    m->bloom = bloom;
    *out = m;
    return PENNON_OK;
}

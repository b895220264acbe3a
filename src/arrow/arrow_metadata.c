/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Metadata of Arrow schemas: pairs of byte strings in the binary form of the C data interface.
 *
 * offset | bytes | type  | meaning
 * -------|-------|-------|------------------------------------------------
 * 0      | 4     | int32 | number of pairs, >= 0
 * then per pair:
 * +0     | 4     | int32 | bytes of the key, >= 0
 * +4     | k     |       | key, no NUL
 * +4+k   | 4     | int32 | bytes of the value, >= 0
 * +8+k   | v     |       | value, no NUL
 *
 * Integers are in the machine's byte order. The whole size is not part of the interface: counts are believed, negative ones
 * end the walk (arrow_schema_validate refuses them). Changes build a new block and swap it in.
 * Source: the Arrow C data interface. */
#include "arrow/arrow_internal.h"

/* Most bytes of one schema's metadata; larger ones are refused where they are built. */
#define METADATA_MAX ((size_t)INT32_MAX)

struct arrow_metadata_walk arrow_metadata_begin(const char *metadata)
{
    struct arrow_metadata_walk walk = {NULL, 0};
    if (metadata == NULL) return walk;
    walk.at = metadata + 4;
    walk.left = native_i32(metadata);
    return walk;
}

/* One length-prefixed string; false for a negative length. */
static bool next_string(const char **at, struct bytes *out)
{
    int32_t n = native_i32(*at);
    if (n < 0) return false;
    *out = bytes_of(*at + 4, (size_t)n);
    *at += 4 + (size_t)n;
    return true;
}

bool arrow_metadata_next(struct arrow_metadata_walk *walk, struct arrow_pair *out)
{
    if (walk->left <= 0 || !next_string(&walk->at, &out->key) || !next_string(&walk->at, &out->value)) {
        walk->left = 0;
        return false;
    }
    walk->left--;
    return true;
}

int32_t arrow_metadata_count(const char *metadata)
{
    int32_t n = metadata == NULL ? 0 : native_i32(metadata);
    return n < 0 ? 0 : n;
}

size_t arrow_metadata_size(const char *metadata)
{
    struct arrow_metadata_walk walk = arrow_metadata_begin(metadata);
    struct arrow_pair pair;
    if (metadata == NULL) return 0;
    while (arrow_metadata_next(&walk, &pair)) continue;
    return (size_t)(walk.at - metadata);
}

struct bytes arrow_metadata_get(const char *metadata, const char *key)
{
    struct arrow_metadata_walk walk = arrow_metadata_begin(metadata);
    struct arrow_pair pair;
    while (arrow_metadata_next(&walk, &pair)) {
        if (bytes_equal(pair.key, bytes_str(key))) return pair.value;
    }
    return bytes_of(NULL, 0);
}

static pennon_status append_string(struct buf *b, struct bytes text, pennon_error *err)
{
    int32_t n = (int32_t)text.size;
    if (text.size > METADATA_MAX) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "schema metadata: an entry of %zu bytes is too long", text.size);
    }
    TRY_RETURN(buf_append(b, &n, sizeof n, err));
    return text.size == 0 ? PENNON_OK : buf_append(b, text.data, text.size, err);
}

static pennon_status append_pair(struct buf *b, struct bytes key, struct bytes value, pennon_error *err)
{
    TRY_RETURN(append_string(b, key, err));
    return append_string(b, value, err);
}

/* Put the encoded block in place of the owned schema's metadata; an empty `b` removes it. */
static pennon_status swap_in(struct ArrowSchema *schema, const struct buf *b, pennon_error *err)
{
    struct schema_private *p = schema->private_data;
    char *block = NULL;
    if (b->size > METADATA_MAX) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "schema metadata of field '%s': %zu bytes are too many", field_name(schema),
                         b->size);
    }
    if (b->size > 0) {
        block = mem_alloc(p->mem, b->size, err);
        if (block == NULL) return err->code;
        memcpy(block, b->data, b->size);
    }
    mem_free(p->mem, p->metadata);
    p->metadata = block;
    schema->metadata = block;
    return PENNON_OK;
}

pennon_status arrow_metadata_replace(struct ArrowSchema *schema, const struct arrow_pair *pairs, size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf b;
    int32_t count = (int32_t)n;

    ASSERT(arrow_schema_is_owned(schema));
    buf_init(&b, ((struct schema_private *)schema->private_data)->mem, BUF_NO_LIMIT);
    if (n > INT32_MAX) FAIL(PENNON_INVALID_ARGUMENT, "schema metadata: %zu entries are too many", n);
    if (n > 0) TRY(buf_append(&b, &count, sizeof count, err));
    for (size_t i = 0; i < n; i++) TRY(append_pair(&b, pairs[i].key, pairs[i].value, err));
    TRY(swap_in(schema, &b, err));
done:
    buf_free(&b);
    return st;
}

pennon_status arrow_metadata_set(struct ArrowSchema *schema, struct bytes key, struct bytes value, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arrow_metadata_walk walk = arrow_metadata_begin(schema->metadata);
    struct arrow_pair pair;
    struct buf b;
    int32_t count = 0;
    bool placed = false;

    ASSERT(arrow_schema_is_owned(schema));
    buf_init(&b, ((struct schema_private *)schema->private_data)->mem, BUF_NO_LIMIT);
    TRY(buf_append(&b, &count, sizeof count, err));
    while (arrow_metadata_next(&walk, &pair)) {
        bool same = bytes_equal(pair.key, key);
        /* Keys may stand twice in foreign metadata: the first place takes the value, the others go. */
        if (same && (placed || value.data == NULL)) continue;
        placed = placed || same;
        TRY(append_pair(&b, pair.key, same ? value : pair.value, err));
        count++;
    }
    if (!placed && value.data != NULL) {
        TRY(append_pair(&b, key, value, err));
        count++;
    }
    memcpy(b.data, &count, sizeof count);
    if (count == 0) b.size = 0;
    TRY(swap_in(schema, &b, err));
done:
    buf_free(&b);
    return st;
}

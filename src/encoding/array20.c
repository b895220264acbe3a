/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Pages of version 2.0 files, and the plain ones of 0.1: parsing the tree, planning bytes, decoding.
 *
 * Whatever the tree looks like, a page is a handful of plain streams and what is known about them:
 *
 *   VALIDITY        a bit a row                       (SomeNull at the top)
 *   ITEM_VALIDITY+d a bit an item of fixed size list d (SomeNull inside it)
 *   VALUES          fixed values, bits, packed rows, dictionary keys, end offsets of text or lists
 *   TEXT            the bytes of text, by the end offsets; perhaps one compressed frame
 *   items           of a dictionary: a page of its own over the same buffers
 *
 * End offsets are u64 without a leading 0. A null has `adjustment` added, and repeats the end before it. The start of row i is the end of
 * row i - 1, so a stretch of rows reads one offset more in front, unless it begins the page.
 * Offsets of 0.1 have the leading one, are those of the file for text, and mark no nulls.
 * Source: spec file-format 13, 15. */
#include "encoding/array20.h"

#define STREAMS (LEAF_MAX_DIMS + 2u)
enum { STREAM_VALIDITY = 0, STREAM_ITEM_VALIDITY = 1, STREAM_VALUES = LEAF_MAX_DIMS + 1 };

/* A dictionary may hold items that are text by a table or by offsets, but no further dictionary. */
#define DICTIONARY_DEPTH 1u

enum stream_form {
    STREAM_NONE,
    STREAM_FLAT,
    STREAM_PACKED, /* a plain run of bits, least significant first */
    STREAM_GROUPS  /* groups of 1024 in the order of the bit packing kernel */
};

/* Offsets: the value in front of those of the rows, which is where the first row starts. */
enum stream_lead {
    LEAD_NONE,
    LEAD_INSIDE, /* unless the rows begin the page */
    LEAD_ALWAYS  /* the page has one value more than rows */
};

struct stream {
    enum stream_form form;
    uint32_t bits;   /* of a value in the result */
    uint32_t packed; /* of a value in the file */
    bool is_signed;  /* PACKED: extend the sign */
    enum stream_lead lead;
    uint64_t scale; /* values a row */
    enum general_scheme scheme;
    struct page_buffer at;
};

enum text_form { TEXT_NONE, TEXT_ENDS, TEXT_FIXED };

struct array20 {
    struct mem *mem;
    struct arena arena;
    const struct leaf_type *type; /* NULL = list offsets */
    const struct ae_message *root;
    uint64_t rows;
    bool all_null;
    bool items_null[LEAF_MAX_DIMS]; /* items of fixed size list d are all null */
    struct stream streams[STREAMS];
    enum text_form text;
    uint64_t text_width; /* TEXT_FIXED */
    uint64_t adjustment; /* of null offsets */
    struct page_buffer text_at;
    enum general_scheme text_scheme;
    struct fsst_decoder *fsst;
    uint64_t list_items;
    bool empty_is_null;               /* text without bytes is null */
    bool marks_nulls;                 /* end offsets from `adjustment` on are nulls */
    bool in_memory;                   /* what is read comes from `parts` */
    const struct array20_part *parts; /* borrowed */
    size_t n_parts;
    bool dictionary;
    struct array20 *items; /* dictionary; NULL when all are null */
    uint64_t n_items;
};

/* ---- parsing ---- */

struct opening {
    struct array20 *a;
    const struct page_desc *desc;
    unsigned depth; /* of dictionaries */
    pennon_error *err;
};

static const char *encoding_name(const struct ae_message *e)
{
    static const char *const names[] = {"an unknown encoding",
                                        "flat",
                                        "nullable",
                                        "fixed size list",
                                        "list",
                                        "struct",
                                        "binary",
                                        "dictionary",
                                        "fsst",
                                        "packed struct",
                                        "bitpacked",
                                        "fixed size binary",
                                        "bitpacked for non-negative values"};
    return e && e->which < ARRAY_LEN(names) ? names[e->which] : names[0];
}

static pennon_status wrong_encoding(const struct opening *o, const struct ae_message *e, const char *what)
{
    return error_set(o->err, PENNON_CORRUPT, "encoding of %s: %s", what, encoding_name(e));
}

static pennon_status find_buffer(const struct opening *o, const struct buffer_message *m, struct page_buffer *out)
{
    pennon_error *err = o->err;
    uint32_t index = m ? m->buffer_index : 0;
    if (m && m->buffer_type != 0) return error_set(err, PENNON_NOT_SUPPORTED, "encodings with buffers outside of the page");
    CHECK_FILE_RETURN(index < o->desc->n_buffers, "encoding names buffer %u of %u", index, o->desc->n_buffers);
    *out = o->desc->buffers[index];
    return PENNON_OK;
}

static pennon_status find_scheme(const struct opening *o, const struct scheme_message *m, enum general_scheme *out)
{
    *out = GENERAL_NONE;
    if (!m || bytes_equal(m->scheme, bytes_str("none"))) return PENNON_OK;
    if (bytes_equal(m->scheme, bytes_str("zstd"))) {
        *out = GENERAL_ZSTD;
    } else if (bytes_equal(m->scheme, bytes_str("lz4"))) {
        *out = GENERAL_LZ4;
    } else {
        return error_set(o->err, PENNON_NOT_SUPPORTED, "buffers compressed by '%.*s'", (int)min_u64(m->scheme.size, 64),
                         (const char *)m->scheme.data);
    }
    return PENNON_OK;
}

static pennon_status open_packed(const struct opening *o, const struct ae_bitpacked_message *m, enum stream_form form,
                                 struct stream *out)
{
    pennon_error *err = o->err;
    uint64_t bits = m->uncompressed_bits_per_value, packed = m->compressed_bits_per_value;
    CHECK_FILE_RETURN(bits == 8 || bits == 16 || bits == 32 || bits == 64, "bit packed values of %" PRIu64 " bits", bits);
    CHECK_FILE_RETURN(packed >= 1 && packed <= bits, "values of %" PRIu64 " bits packed to %" PRIu64, bits, packed);
    out->form = form;
    out->bits = (uint32_t)bits;
    out->packed = (uint32_t)packed;
    out->is_signed = form == STREAM_PACKED && m->is_signed;
    return find_buffer(o, m->buffer, &out->at);
}

/* A stream of plain values, perhaps inside a Nullable that says that there are no nulls. */
static pennon_status open_stream(const struct opening *o, const struct ae_message *e, uint64_t scale, const char *what,
                                 struct stream *out)
{
    pennon_error *err = o->err;
    if (e && e->which == AE_NULLABLE && e->nullable->which == 1) e = e->nullable->no_nulls->values;
    if (!e) return wrong_encoding(o, e, what);
    out->scale = scale;
    switch (e->which) {
    case AE_FLAT: {
        uint64_t bits = e->flat->bits_per_value;
        CHECK_FILE_RETURN(bits == 1 || (bits % 8 == 0 && bits > 0 && bits <= (uint64_t)1 << 31), "%s of %" PRIu64 " bits", what,
                          bits);
        out->form = STREAM_FLAT;
        out->bits = out->packed = (uint32_t)bits;
        TRY_RETURN(find_scheme(o, e->flat->compression, &out->scheme));
        TRY_RETURN(find_buffer(o, e->flat->buffer, &out->at));
        break;
    }
    case AE_BITPACKED: TRY_RETURN(open_packed(o, e->bitpacked, STREAM_PACKED, out)); break;
    case AE_BITPACKED_FOR_NON_NEG: TRY_RETURN(open_packed(o, e->bitpacked_for_non_neg, STREAM_GROUPS, out)); break;
    default: return wrong_encoding(o, e, what);
    }
    uint64_t values, bits;
    bool over = mul_overflows(o->a->rows, scale, &values) || values > (uint64_t)1 << 62;
    if (out->form == STREAM_GROUPS && !over) values = div_ceil(values, BITPACK_GROUP) * BITPACK_GROUP;
    over = over || mul_overflows(values, out->bits, &bits) || mul_overflows(values, out->packed, &bits);
    CHECK_FILE_RETURN(!over, "%s: %" PRIu64 " rows of %" PRIu64 " values", what, o->a->rows, scale);
    if (out->scheme != GENERAL_NONE) {
        /* The length is known when it is decompressed. */
        return out->bits % 8 == 0 ? PENNON_OK : error_set(err, PENNON_NOT_SUPPORTED, "compressed bitmaps");
    }
    CHECK_FILE_RETURN(div_ceil(bits, 8) <= out->at.size, "%s: a buffer of %" PRIu64 " bytes is too small for %" PRIu64 " rows",
                      what, out->at.size, o->a->rows);
    return PENNON_OK;
}

static pennon_status open_bitmap(const struct opening *o, const struct ae_message *e, uint64_t scale, struct stream *out)
{
    pennon_error *err = o->err;
    TRY_RETURN(open_stream(o, e, scale, "validity", out));
    CHECK_FILE_RETURN(out->form == STREAM_FLAT && out->bits == 1, "validity of %u bits a value", out->bits);
    return PENNON_OK;
}

static pennon_status open_ends(const struct opening *o, const struct ae_message *e, const char *what)
{
    pennon_error *err = o->err;
    struct stream *s = &o->a->streams[STREAM_VALUES];
    TRY_RETURN(open_stream(o, e, 1, what, s));
    CHECK_FILE_RETURN(s->bits == 64 && s->scheme == GENERAL_NONE, "%s of %u bits", what, s->bits);
    s->lead = LEAD_INSIDE;
    return PENNON_OK;
}

static pennon_status open_text_bytes(const struct opening *o, const struct ae_message *e)
{
    pennon_error *err = o->err;
    if (e && e->which == AE_NULLABLE && e->nullable->which == 1) e = e->nullable->no_nulls->values;
    if (!e || e->which != AE_FLAT) return wrong_encoding(o, e, "text bytes");
    CHECK_FILE_RETURN(e->flat->bits_per_value == 8, "text bytes of %" PRIu64 " bits", e->flat->bits_per_value);
    TRY_RETURN(find_scheme(o, e->flat->compression, &o->a->text_scheme));
    return find_buffer(o, e->flat->buffer, &o->a->text_at);
}

static pennon_status open_binary(const struct opening *o, const struct ae_message *e)
{
    struct array20 *a = o->a;
    if (!e || e->which != AE_BINARY) return wrong_encoding(o, e, "text");
    a->text = TEXT_ENDS;
    a->adjustment = e->binary->null_adjustment;
    a->marks_nulls = true;
    TRY_RETURN(open_ends(o, e->binary->indices, "end offsets of text"));
    return open_text_bytes(o, e->binary->bytes);
}

static pennon_status open_fsst(const struct opening *o, const struct ae_fsst_message *m)
{
    o->a->fsst = arena_calloc(&o->a->arena, 1, sizeof *o->a->fsst, o->err);
    if (!o->a->fsst) return o->err->code;
    TRY_RETURN(fsst_decoder_init(o->a->fsst, m->symbol_table, o->err));
    return open_binary(o, m->binary);
}

/* Text of equal lengths: bytes alone. */
static pennon_status open_fixed_text(const struct opening *o, const struct ae_fixed_binary_message *m)
{
    pennon_error *err = o->err;
    struct array20 *a = o->a;
    const struct ae_message *e = m->bytes;
    struct stream *s = &a->streams[STREAM_VALUES];
    CHECK_FILE_RETURN(m->byte_width >= 1 && m->byte_width < 1u << 28, "text values of %u bytes", m->byte_width);
    a->text = TEXT_FIXED;
    a->text_width = m->byte_width;
    TRY_RETURN(open_stream(o, e, 1, "text bytes", s));
    /* The buffer holds the values as fixed ones, though some say so in single bytes. */
    CHECK_FILE_RETURN(s->form == STREAM_FLAT && (s->bits == 8 || s->bits == (uint64_t)m->byte_width * 8),
                      "text values of %u bytes in %u bits", m->byte_width, s->bits);
    s->bits = s->packed = m->byte_width * 8;
    uint64_t size, bits;
    bool over = mul_overflows(a->rows, m->byte_width, &size) || mul_overflows(size, 8, &bits);
    CHECK_FILE_RETURN(!over, "text: %" PRIu64 " values of %u bytes", a->rows, m->byte_width);
    CHECK_FILE_RETURN(s->scheme != GENERAL_NONE || size <= s->at.size, "text: %" PRIu64 " bytes are too few", s->at.size);
    return PENNON_OK;
}

static pennon_status open_page(struct mem *m, const struct page_desc *desc, const struct ae_message *root, uint64_t rows,
                               const struct leaf_type *type, unsigned depth, struct array20 **out, pennon_error *err);

static pennon_status open_dictionary(const struct opening *o, const struct ae_dictionary_message *m)
{
    pennon_error *err = o->err;
    struct array20 *a = o->a;
    const struct leaf_type *type = a->type;
    struct stream *s = &a->streams[STREAM_VALUES];
    CHECK_FILE_RETURN(o->depth < DICTIONARY_DEPTH, "a dictionary inside a dictionary");
    if (!m->indices || !m->items) return wrong_encoding(o, m->indices ? m->items : m->indices, "a dictionary");
    a->dictionary = true;
    a->n_items = m->num_dictionary_items;
    TRY_RETURN(open_stream(o, m->indices, 1, "dictionary keys", s));
    CHECK_FILE_RETURN(s->bits == 8 || s->bits == 16 || s->bits == 32 || s->bits == 64, "dictionary keys of %u bits", s->bits);
    TRY_RETURN(open_page(a->mem, o->desc, m->items, a->n_items, type->kind == LEAF_DICTIONARY ? type->value : type, o->depth + 1,
                         &a->items, err));
    if (a->items->all_null || a->n_items == 0) {
        /* Nothing that a key could name. */
        array20_free(a->items);
        a->items = NULL;
        a->all_null = true;
        *s = (struct stream){0};
    }
    return PENNON_OK;
}

static pennon_status open_text(const struct opening *o, const struct ae_message *e)
{
    switch (e->which) {
    case AE_BINARY: return open_binary(o, e);
    case AE_FSST: return open_fsst(o, e->fsst);
    case AE_DICTIONARY: return open_dictionary(o, e->dictionary);
    case AE_FIXED_SIZE_BINARY: return open_fixed_text(o, e->fixed_size_binary);
    case AE_LIST:
        return error_set(o->err, PENNON_NOT_SUPPORTED, "text written as lists of bytes, as by early writers of version 2.0");
    default: return wrong_encoding(o, e, "text");
    }
}

/* Bytes of a row of packed children; 0 = not possible. */
static uint64_t packed_width(const struct leaf_type *t)
{
    uint64_t sum = 0;
    if (t->kind == LEAF_FIXED) return leaf_items(t) <= UINT32_MAX ? leaf_items(t) * t->width : 0;
    if (t->kind != LEAF_PACKED) return 0;
    for (uint32_t i = 0; i < t->n_children; i++) {
        uint64_t child = packed_width(&t->children[i]);
        if (child == 0) return 0;
        sum += child;
    }
    return sum;
}

static pennon_status open_packed_rows(const struct opening *o, const struct ae_message *e)
{
    pennon_error *err = o->err;
    struct array20 *a = o->a;
    struct stream *s = &a->streams[STREAM_VALUES];
    if (e->which != AE_PACKED_STRUCT) return wrong_encoding(o, e, "packed rows");
    uint64_t width = a->type->kind == LEAF_BLOB ? a->type->width : packed_width(a->type), size;
    if (width == 0 || width > 1u << 28)
        return error_set(err, PENNON_NOT_SUPPORTED, "packed structs with children that have no fixed width");
    *s = (struct stream){.form = STREAM_FLAT, .bits = (uint32_t)width * 8, .packed = (uint32_t)width * 8, .scale = 1};
    TRY_RETURN(find_buffer(o, e->packed_struct->buffer, &s->at));
    bool over = mul_overflows(a->rows, width, &size);
    CHECK_FILE_RETURN(!over && size <= s->at.size, "packed rows: %" PRIu64 " bytes are too few for %" PRIu64 " rows", s->at.size,
                      a->rows);
    return PENNON_OK;
}

static pennon_status open_values(const struct opening *o, const struct ae_message *e, uint64_t scale)
{
    pennon_error *err = o->err;
    const struct leaf_type *t = o->a->type;
    struct stream *s = &o->a->streams[STREAM_VALUES];
    switch (t->kind) {
    case LEAF_NULL: return wrong_encoding(o, e, "nulls");
    case LEAF_BITS:
    case LEAF_FIXED:
        TRY_RETURN(open_stream(o, e, scale, "values", s));
        CHECK_FILE_RETURN(s->bits == (t->kind == LEAF_BITS ? 1 : (uint64_t)t->width * 8),
                          "values of %u bits for a type of another width", s->bits);
        return PENNON_OK;
    case LEAF_VARIABLE: return open_text(o, e);
    case LEAF_DICTIONARY:
        if (e->which != AE_DICTIONARY) return wrong_encoding(o, e, "a dictionary");
        return open_dictionary(o, e->dictionary);
    case LEAF_PACKED:
        if (t->n_children == 0 && e->which == AE_STRUCT) return PENNON_OK;
        return open_packed_rows(o, e);
    case LEAF_BLOB: return open_packed_rows(o, e);
    }
    return wrong_encoding(o, e, "a column");
}

/* Nullable and FixedSizeList from the outside in, then the values. */
static pennon_status open_tree(const struct opening *o, const struct ae_message *e)
{
    pennon_error *err = o->err;
    struct array20 *a = o->a;
    uint64_t scale = 1;
    for (uint32_t dim = 0;; dim++) {
        if (e && e->which == AE_NULLABLE) {
            const struct ae_nullable_message *n = e->nullable;
            if (n->which == 3) {
                if (dim == 0) {
                    a->all_null = true;
                } else {
                    a->items_null[dim - 1] = true;
                }
                return PENNON_OK;
            }
            if (n->which == 2) TRY_RETURN(open_bitmap(o, n->some_nulls->validity, scale, &a->streams[STREAM_VALIDITY + dim]));
            e = n->which == 2 ? n->some_nulls->values : n->which == 1 ? n->no_nulls->values : NULL;
        }
        if (!e || e->which == 0 || e->which == AE_NULLABLE) return wrong_encoding(o, e, "a column");
        if (dim == a->type->n_dims) break;
        if (e->which != AE_FIXED_SIZE_LIST) return wrong_encoding(o, e, "fixed size lists");
        uint32_t want = a->type->dims[dim];
        CHECK_FILE_RETURN(e->fixed_size_list->dimension == want, "fixed size lists of %u items where %u were expected",
                          e->fixed_size_list->dimension, want);
        CHECK_FILE_RETURN(!mul_overflows(scale, want, &scale), "fixed size lists of too many items");
        e = e->fixed_size_list->items;
    }
    bool outer = a->streams[STREAM_VALIDITY].form != STREAM_NONE;
    CHECK_FILE_RETURN(!outer || (e->which != AE_BINARY && e->which != AE_FSST && e->which != AE_DICTIONARY),
                      "validity beside that of the values");
    return open_values(o, e, scale);
}

static pennon_status open_list(const struct opening *o, const struct ae_message *e)
{
    pennon_error *err = o->err;
    if (e->which != AE_LIST) return wrong_encoding(o, e, "a list");
    o->a->adjustment = e->list->null_offset_adjustment;
    o->a->marks_nulls = true;
    o->a->list_items = e->list->num_items;
    CHECK_FILE_RETURN(o->a->list_items <= (uint64_t)1 << 48, "lists of %" PRIu64 " items", o->a->list_items);
    return open_ends(o, e->list->offsets, "end offsets of lists");
}

static pennon_status open_page(struct mem *m, const struct page_desc *desc, const struct ae_message *root, uint64_t rows,
                               const struct leaf_type *type, unsigned depth, struct array20 **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct array20 *a;
    TRY_NEW(a, mem_calloc(m, 1, sizeof *a, err));
    a->mem = mem_retain(m);
    arena_init(&a->arena, m);
    a->type = type;
    a->rows = rows;
    a->root = root;
    struct opening o = {a, desc, depth, err};
    if (!a->root) {
        struct ae_message *message;
        TRY_NEW(message, arena_calloc(&a->arena, 1, sizeof *message, err));
        TRY(wire_decode(&ae_table, desc->layout, &a->arena, message, err));
        a->root = message;
    }
    TRY(type ? open_tree(&o, a->root) : open_list(&o, a->root));
    *out = a;
    a = NULL;
done:
    array20_free(a);
    return st;
}

pennon_status array20_open(struct mem *m, const struct page_desc *desc, const struct leaf_type *type, struct array20 **out,
                           pennon_error *err)
{
    CHECK_FILE_RETURN(desc->rows <= (uint64_t)1 << 48, "page of %" PRIu64 " rows", desc->rows);
    return open_page(m, desc, NULL, desc->rows, type, 0, out, err);
}

/* ---- pages of 0.1 ---- */

static pennon_status plain_stream(struct array20 *a, const struct array20_plain *p, uint64_t bits, uint64_t scale,
                                  enum stream_lead lead, pennon_error *err)
{
    uint64_t values = 0, size = 0;
    bool over = mul_overflows(p->rows, scale, &values) || add_overflows(values, lead == LEAD_ALWAYS, &values) ||
                mul_overflows(values, bits, &size);
    size = div_ceil(size, 8);
    CHECK_FILE_RETURN(!over && range_inside(p->position, size, p->file_size),
                      "page of %" PRIu64 " rows at byte %" PRIu64 " ends behind the file", p->rows, p->position);
    a->streams[STREAM_VALUES] = (struct stream){.form = STREAM_FLAT,
                                                .bits = (uint32_t)bits,
                                                .packed = (uint32_t)bits,
                                                .scale = scale,
                                                .lead = lead,
                                                .at = {p->position, size}};
    return PENNON_OK;
}

static pennon_status plain_dictionary(struct array20 *a, const struct array20_plain *p, pennon_error *err)
{
    const struct array20_items *items = p->items;
    ASSERT(items);
    a->dictionary = true;
    a->n_items = items->n;
    if (items->n == 0) {
        a->all_null = true;
        return PENNON_OK;
    }
    struct array20_plain page = {
        .position = items->position, .rows = items->n, .file_size = items->file_size, .empty_is_null = true};
    enum leaf_kind value = a->type->value->kind;
    if (value != LEAF_BITS && value != LEAF_FIXED && value != LEAF_VARIABLE)
        return error_set(err, PENNON_NOT_SUPPORTED, "dictionaries of nested types or nulls in files of version 0.1");
    TRY_RETURN(array20_open_plain(a->mem, &page, a->type->value, &a->items, err));
    a->items->in_memory = true;
    a->items->parts = items->parts;
    a->items->n_parts = items->n_parts;
    return plain_stream(a, p, (uint64_t)a->type->width * 8, 1, LEAD_NONE, err);
}

static pennon_status plain_values(struct array20 *a, const struct array20_plain *p, pennon_error *err)
{
    if (!a->type) {
        a->list_items = p->list_items;
        return plain_stream(a, p, p->large ? 64 : 32, 1, LEAD_ALWAYS, err);
    }
    switch (a->type->kind) {
    case LEAF_NULL: a->all_null = true; return PENNON_OK;
    case LEAF_BITS: return plain_stream(a, p, 1, leaf_items(a->type), LEAD_NONE, err);
    case LEAF_FIXED: return plain_stream(a, p, (uint64_t)a->type->width * 8, leaf_items(a->type), LEAD_NONE, err);
    case LEAF_VARIABLE:
        a->text = TEXT_ENDS;
        a->text_at = (struct page_buffer){0, p->file_size};
        a->empty_is_null = p->empty_is_null;
        return plain_stream(a, p, 64, 1, LEAD_ALWAYS, err);
    case LEAF_DICTIONARY: return plain_dictionary(a, p, err);
    default: return error_set(err, PENNON_NOT_SUPPORTED, "packed structs and blobs in files of version 0.1");
    }
}

pennon_status array20_open_plain(struct mem *m, const struct array20_plain *page, const struct leaf_type *type,
                                 struct array20 **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct array20 *a;
    TRY_NEW(a, mem_calloc(m, 1, sizeof *a, err));
    a->mem = mem_retain(m);
    arena_init(&a->arena, m);
    a->type = type;
    a->rows = page->rows;
    TRY(plain_values(a, page, err));
    *out = a;
    a = NULL;
done:
    array20_free(a);
    return st;
}

void array20_free(struct array20 *a)
{
    if (!a) return;
    array20_free(a->items);
    struct mem *m = a->mem;
    arena_reset(&a->arena);
    mem_free(m, a);
    mem_release(m);
}

bool array20_is_list(const struct array20 *a) { return a->type == NULL; }
uint64_t array20_list_items(const struct array20 *a) { return a->list_items; }
struct page_buffer array20_plain_place(const struct array20 *a) { return a->streams[STREAM_VALUES].at; }

/* ---- planning ---- */

struct array20_read {
    struct mem *mem;
    const struct array20 *a;
    const struct row_range *rows;
    size_t n_rows;
    uint64_t total;           /* rows */
    struct page_buffer *want; /* of this round; those of `items` stand behind the own ones */
    size_t n_want, cap, n_own;
    size_t first[STREAMS];        /* index of each stream's first range in `got` */
    size_t text_frame;            /* index of the compressed text */
    struct bytes *got, *got_text; /* of the first and the second round */
    bool text_round;              /* the second round was asked for */
    struct array20_read *items;
    struct row_range all_items; /* rows of `items` */
    struct buf plain;           /* decompressed values */
    struct buf plain_text;
    bool has_plain;
    struct buf scratch, scratch2;
};

static pennon_status add_want(struct array20_read *r, struct page_buffer at, pennon_error *err)
{
    TRY_RETURN(mem_grow(r->mem, &r->want, &r->cap, r->n_want, sizeof *r->want, SIZE_MAX / 64, err));
    r->want[r->n_want++] = at;
    return PENNON_OK;
}

/* Values of a stream that row range i needs. */
static struct row_range stream_values(const struct array20_read *r, const struct stream *s, size_t i)
{
    struct row_range v = {r->rows[i].start * s->scale, r->rows[i].end * s->scale};
    if (s->lead == LEAD_INSIDE && v.start) v.start--;
    if (s->lead == LEAD_ALWAYS) v.end++;
    return v;
}

/* Do the end offsets of row range i begin with the start of its first row? */
static bool has_lead(const struct array20_read *r, size_t i)
{
    enum stream_lead lead = r->a->streams[STREAM_VALUES].lead;
    return lead == LEAD_ALWAYS || (lead == LEAD_INSIDE && r->rows[i].start > 0);
}

/* The bytes of the file that hold them. */
static struct page_buffer stream_bytes(const struct stream *s, struct row_range v)
{
    uint64_t first, end;
    if (s->form == STREAM_GROUPS) {
        uint64_t group = (uint64_t)s->packed * BITPACK_GROUP / 8;
        first = v.start / BITPACK_GROUP * group;
        end = div_ceil(v.end, BITPACK_GROUP) * group;
    } else {
        first = v.start * s->packed / 8;
        end = div_ceil(v.end * s->packed, 8);
    }
    ASSERT(end <= s->at.size);
    return (struct page_buffer){s->at.offset + first, end - first};
}

static pennon_status want_items(struct array20_read *r, pennon_error *err)
{
    r->n_own = r->n_want;
    for (size_t i = 0; r->items && i < r->items->n_want; i++) TRY_RETURN(add_want(r, r->items->want[i], err));
    return PENNON_OK;
}

static pennon_status want_streams(struct array20_read *r, pennon_error *err)
{
    const struct array20 *a = r->a;
    for (unsigned k = 0; k < STREAMS && !a->all_null; k++) {
        const struct stream *s = &a->streams[k];
        if (s->form == STREAM_NONE) continue;
        r->first[k] = r->n_want;
        if (s->scheme != GENERAL_NONE) TRY_RETURN(add_want(r, s->at, err));
        for (size_t i = 0; s->scheme == GENERAL_NONE && i < r->n_rows; i++)
            TRY_RETURN(add_want(r, stream_bytes(s, stream_values(r, s, i)), err));
    }
    r->text_frame = r->n_want;
    if (a->text == TEXT_ENDS && a->text_scheme != GENERAL_NONE && !a->all_null) TRY_RETURN(add_want(r, a->text_at, err));
    return want_items(r, err);
}

/* Everything that is wanted lies in the parts. */
static pennon_status feed_from_memory(struct array20_read *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct bytes *found = NULL;
    while (r->n_want) {
        mem_free(r->mem, found);
        TRY_NEW(found, mem_calloc(r->mem, r->n_want, sizeof *found, err));
        for (size_t i = 0; i < r->n_want; i++) {
            for (size_t k = 0; k < r->a->n_parts && !found[i].data; k++) {
                const struct array20_part *p = &r->a->parts[k];
                if (r->want[i].offset < p->at || !range_inside(r->want[i].offset - p->at, r->want[i].size, p->bytes.size)) continue;
                found[i] = bytes_of(p->bytes.data + (r->want[i].offset - p->at), (size_t)r->want[i].size);
            }
            CHECK_FILE(found[i].data, "dictionary: bytes %" PRIu64 " to %" PRIu64 " lie outside of it", r->want[i].offset,
                       r->want[i].offset + r->want[i].size);
        }
        TRY(array20_read_feed(r, found, err));
    }
done:
    mem_free(r->mem, found);
    return st;
}

pennon_status array20_read_begin(const struct array20 *a, struct mem *m, const struct row_range *rows, size_t n,
                                 struct array20_read **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct array20_read *r;
    TRY_NEW(r, mem_calloc(m, 1, sizeof *r, err));
    r->mem = m;
    r->a = a;
    r->rows = rows;
    r->n_rows = n;
    for (size_t i = 0; i < n; i++) {
        ASSERT(rows[i].start < rows[i].end && rows[i].end <= a->rows);
        r->total += rows[i].end - rows[i].start;
    }
    buf_init(&r->plain, m, BUF_NO_LIMIT);
    buf_init(&r->plain_text, m, BUF_NO_LIMIT);
    buf_init(&r->scratch, m, BUF_NO_LIMIT);
    buf_init(&r->scratch2, m, BUF_NO_LIMIT);
    r->all_items = (struct row_range){0, a->n_items};
    if (a->items) TRY(array20_read_begin(a->items, m, &r->all_items, 1, &r->items, err));
    TRY(want_streams(r, err));
    if (a->in_memory) TRY(feed_from_memory(r, err));
    *out = r;
    r = NULL;
done:
    array20_read_free(r);
    return st;
}

void array20_read_free(struct array20_read *r)
{
    if (!r) return;
    struct mem *m = r->mem;
    array20_read_free(r->items);
    mem_free(m, r->want);
    mem_free(m, r->got);
    mem_free(m, r->got_text);
    buf_free(&r->plain);
    buf_free(&r->plain_text);
    buf_free(&r->scratch);
    buf_free(&r->scratch2);
    mem_free(m, r);
}

void array20_read_wants(const struct array20_read *r, const struct page_buffer **ranges, size_t *n)
{
    *ranges = r->want;
    *n = r->n_want;
}

/* ---- streams ---- */

/* n packed values from bit `bit` on. */
static void unpack_bits(const struct stream *s, const uint8_t *in, uint64_t bit, uint64_t n, uint8_t *out)
{
    unsigned width = s->bits / 8;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t v = 0;
        for (unsigned k = 0; k < s->packed; k++) v |= (uint64_t)bit_get(in, bit + i * s->packed + k) << k;
        if (s->is_signed && s->packed < 64 && (v >> (s->packed - 1) & 1)) v |= UINT64_MAX << s->packed;
        uint8_t word[8];
        store_u64(word, v);
        memcpy(out + i * width, word, width);
    }
}

static pennon_status unpack_groups(const struct stream *s, const uint8_t *in, struct row_range v, struct buf *out,
                                   pennon_error *err)
{
    uint64_t first = v.start / BITPACK_GROUP, end = div_ceil(v.end, BITPACK_GROUP);
    size_t group = (size_t)s->packed * BITPACK_GROUP / 8, plain = (size_t)s->bits * BITPACK_GROUP / 8;
    TRY_RETURN(buf_resize(out, (size_t)(end - first) * plain, err));
    for (uint64_t g = first; g < end; g++)
        bitunpack_1024(s->bits, s->packed, in + (size_t)(g - first) * group, out->data + (size_t)(g - first) * plain);
    return PENNON_OK;
}

/* Where the values of row range i lie: `bit` bits behind *data. Valid until the next call for the same stream. */
static pennon_status stream_get(struct array20_read *r, unsigned k, size_t i, const uint8_t **data, uint64_t *bit,
                                pennon_error *err)
{
    const struct stream *s = &r->a->streams[k];
    struct row_range v = stream_values(r, s, i);
    if (s->scheme != GENERAL_NONE) {
        ASSERT(k == STREAM_VALUES);
        if (!r->has_plain) TRY_RETURN(general_decode(s->scheme, r->got[r->first[k]], BUF_NO_LIMIT, &r->plain, err));
        r->has_plain = true;
        uint64_t width = s->bits / 8, end;
        CHECK_FILE_RETURN(!mul_overflows(v.end, width, &end) && end <= r->plain.size,
                          "compressed values of %zu bytes end before value %" PRIu64, r->plain.size, v.end);
        *data = r->plain.data + v.start * width;
        *bit = 0;
        return PENNON_OK;
    }
    const uint8_t *in = r->got[r->first[k] + i].data;
    *data = in;
    *bit = v.start * s->packed % 8;
    if (s->form == STREAM_FLAT) return PENNON_OK;
    struct buf *out = &r->scratch;
    if (s->form == STREAM_GROUPS) {
        TRY_RETURN(unpack_groups(s, in, v, out, err));
        *data = out->data + (size_t)(v.start % BITPACK_GROUP) * (s->bits / 8);
    } else {
        TRY_RETURN(buf_resize(out, (size_t)(v.end - v.start) * (s->bits / 8), err));
        unpack_bits(s, in, *bit, v.end - v.start, out->data);
        *data = out->data;
    }
    *bit = 0;
    return PENNON_OK;
}

/* End offset without the mark of a null. */
static uint64_t plain_end(const struct array20 *a, uint64_t v, bool *null)
{
    *null = a->marks_nulls && v >= a->adjustment;
    return *null ? v - a->adjustment : v;
}

/* Offset k of a stretch. */
static uint64_t offset_at(const struct array20 *a, const uint8_t *data, uint64_t k)
{
    return a->streams[STREAM_VALUES].bits == 64 ? load_u64(data + k * 8) : load_u32(data + k * 4);
}

/* First and last end offset of row range i. */
static pennon_status ends_span(struct array20_read *r, size_t i, struct row_range *out, pennon_error *err)
{
    const struct stream *s = &r->a->streams[STREAM_VALUES];
    const uint8_t *data;
    uint64_t bit;
    bool null;
    struct row_range v = stream_values(r, s, i);
    TRY_RETURN(stream_get(r, STREAM_VALUES, i, &data, &bit, err));
    out->start = has_lead(r, i) ? plain_end(r->a, offset_at(r->a, data, 0), &null) : 0;
    out->end = plain_end(r->a, offset_at(r->a, data, v.end - v.start - 1), &null);
    return PENNON_OK;
}

/* Rows [0, n) of a stretch as n + 1 offsets that begin at 0, little endian, in scratch2, and their validity behind them. *nulls = how many. */
static pennon_status read_ends(struct array20_read *r, size_t i, uint64_t base, uint64_t limit, uint64_t *nulls, pennon_error *err)
{
    const uint8_t *data;
    uint64_t bit, n = r->rows[i].end - r->rows[i].start;
    TRY_RETURN(stream_get(r, STREAM_VALUES, i, &data, &bit, err));
    uint64_t lead = has_lead(r, i) ? 1 : 0;
    TRY_RETURN(buf_resize(&r->scratch2, (size_t)(n + 1) * 8 + (size_t)bitmap_bytes(n), err));
    uint8_t *ends = r->scratch2.data, *valid = ends + (n + 1) * 8;
    memset(valid, 0, (size_t)bitmap_bytes(n));
    uint64_t before = base, count = 0;
    store_u64(ends, 0);
    for (uint64_t k = 0; k < n; k++) {
        bool null;
        uint64_t end = plain_end(r->a, offset_at(r->a, data, k + lead), &null);
        CHECK_FILE_RETURN(end >= before && end <= limit, "end offset %" PRIu64 " of row %" PRIu64 " behind %" PRIu64 " in %" PRIu64,
                          end, r->rows[i].start + k, before, limit);
        store_u64(ends + (k + 1) * 8, end - base);
        null = null || (r->a->empty_is_null && end == before);
        if (!null) bit_set(valid, k);
        count += null;
        before = end;
    }
    *nulls = count;
    return PENNON_OK;
}

/* ---- feeding ---- */

static pennon_status want_text(struct array20_read *r, pennon_error *err)
{
    for (size_t i = 0; i < r->n_rows; i++) {
        struct row_range span;
        TRY_RETURN(ends_span(r, i, &span, err));
        CHECK_FILE_RETURN(span.start <= span.end && span.end <= r->a->text_at.size,
                          "text from byte %" PRIu64 " to %" PRIu64 " of %" PRIu64, span.start, span.end, r->a->text_at.size);
        if (span.start < span.end)
            TRY_RETURN(add_want(r, (struct page_buffer){r->a->text_at.offset + span.start, span.end - span.start}, err));
    }
    return PENNON_OK;
}

static pennon_status keep(struct array20_read *r, const struct bytes *bytes, struct bytes **to, pennon_error *err)
{
    ASSERT(!*to);
    *to = mem_alloc(r->mem, (r->n_own + 1) * sizeof **to, err);
    if (!*to) return err->code;
    if (r->n_own) memcpy(*to, bytes, r->n_own * sizeof **to);
    return PENNON_OK;
}

pennon_status array20_read_feed(struct array20_read *r, const struct bytes *bytes, pennon_error *err)
{
    const struct array20 *a = r->a;
    size_t own = r->n_own;
    bool first = !r->got;
    if (first || r->text_round) TRY_RETURN(keep(r, bytes, first ? &r->got : &r->got_text, err));
    r->text_round = false;
    r->n_want = 0;
    if (first && a->text == TEXT_ENDS && a->text_scheme == GENERAL_NONE && !a->all_null) {
        TRY_RETURN(want_text(r, err));
        r->text_round = true;
    }
    if (r->items && r->items->n_want) TRY_RETURN(array20_read_feed(r->items, bytes + own, err));
    return want_items(r, err);
}

/* ---- decoding ---- */

static pennon_status append_validity(struct array20_read *r, size_t i, struct leaf_out *o, pennon_error *err)
{
    uint64_t n = r->rows[i].end - r->rows[i].start;
    const struct stream *s = &r->a->streams[STREAM_VALIDITY];
    if (s->form == STREAM_NONE) return layer_append_run(&o->layers[0], n, true, err);
    const uint8_t *bits;
    uint64_t bit;
    TRY_RETURN(stream_get(r, STREAM_VALIDITY, i, &bits, &bit, err));
    return layer_append_bits(&o->layers[0], bits, bit, n, err);
}

static pennon_status append_fixed(struct array20_read *r, size_t i, struct leaf_out *o, pennon_error *err)
{
    const struct array20 *a = r->a;
    uint64_t bit, n = r->rows[i].end - r->rows[i].start;
    const uint8_t *data;
    for (uint32_t d = 0; d < a->type->n_dims; d++) {
        bool some = a->streams[STREAM_ITEM_VALIDITY + d].form != STREAM_NONE;
        if (a->items_null[d]) {
            /* What lies deeper is not stored. */
            TRY_RETURN(leaf_append_item_nulls(o, d, n, err));
            for (uint32_t k = d + 1; k < a->type->n_dims; k++) TRY_RETURN(leaf_append_item_validity(o, k, NULL, 0, n, err));
            break;
        }
        data = NULL;
        bit = 0;
        if (some) TRY_RETURN(stream_get(r, STREAM_ITEM_VALIDITY + d, i, &data, &bit, err));
        TRY_RETURN(leaf_append_item_validity_bits(o, d, data, bit, n, err));
    }
    if (a->streams[STREAM_VALUES].form == STREAM_NONE) return leaf_append_zero_values(o, n, err);
    TRY_RETURN(stream_get(r, STREAM_VALUES, i, &data, &bit, err));
    return o->type->kind == LEAF_BITS ? leaf_append_item_bits(o, data, bit, n, err) : leaf_append_fixed(o, data, n, err);
}

static pennon_status append_fixed_text(struct array20_read *r, size_t i, struct leaf_out *o, pennon_error *err)
{
    uint64_t bit, n = r->rows[i].end - r->rows[i].start;
    const uint8_t *data;
    TRY_RETURN(stream_get(r, STREAM_VALUES, i, &data, &bit, err));
    for (uint64_t k = 0; k < n; k++)
        TRY_RETURN(leaf_append_text(o, bytes_of(data + k * r->a->text_width, (size_t)r->a->text_width), err));
    return PENNON_OK;
}

static pennon_status append_text(struct array20_read *r, size_t i, size_t *next, struct leaf_out *o, pennon_error *err)
{
    const struct array20 *a = r->a;
    struct row_range span;
    struct bytes base;
    uint64_t nulls, n = r->rows[i].end - r->rows[i].start;
    TRY_RETURN(ends_span(r, i, &span, err));
    if (a->text_scheme == GENERAL_NONE) {
        base = span.start < span.end ? r->got_text[(*next)++] : bytes_of("", 0);
    } else {
        CHECK_FILE_RETURN(span.start <= span.end && span.end <= r->plain_text.size,
                          "text from byte %" PRIu64 " to %" PRIu64 " of %zu", span.start, span.end, r->plain_text.size);
        base = span.start < span.end ? bytes_of(r->plain_text.data + span.start, (size_t)(span.end - span.start)) : bytes_of("", 0);
    }
    TRY_RETURN(read_ends(r, i, span.start, span.end, &nulls, err));
    struct variable_view v = {.base = base, .offsets = r->scratch2.data, .offset_width = 8, .n = n};
    TRY_RETURN(a->fsst ? leaf_append_fsst(o, a->fsst, &v, 0, n, err) : leaf_append_variable(o, &v, 0, n, err));
    if (nulls == 0) return layer_append_run(&o->layers[0], n, true, err);
    return layer_append_bits(&o->layers[0], r->scratch2.data + (n + 1) * 8, 0, n, err);
}

static uint64_t key_at(const uint8_t *keys, unsigned width, uint64_t i)
{
    switch (width) {
    case 1: return keys[i];
    case 2: return load_u16(keys + 2 * i);
    case 4: return load_u32(keys + 4 * i);
    default: return load_u64(keys + 8 * i);
    }
}

static bool item_null(const struct leaf_out *items, uint64_t i)
{
    const struct layer_out *l = &items->layers[0];
    return l->nulls && !bit_get(l->validity.data, i);
}

/* Keys of a row range to item numbers (8 bytes each) in scratch2, and validity behind them. Null rows get number `null_item`. */
static pennon_status read_keys(struct array20_read *r, size_t i, const struct leaf_out *items, uint64_t n_items, bool automatic,
                               uint64_t null_item, pennon_error *err)
{
    const uint8_t *data;
    uint64_t bit, n = r->rows[i].end - r->rows[i].start;
    unsigned width = r->a->streams[STREAM_VALUES].bits / 8;
    TRY_RETURN(stream_get(r, STREAM_VALUES, i, &data, &bit, err));
    TRY_RETURN(buf_resize(&r->scratch2, (size_t)n * 8 + (size_t)bitmap_bytes(n), err));
    uint8_t *numbers = r->scratch2.data, *valid = numbers + n * 8;
    memset(valid, 0, (size_t)bitmap_bytes(n));
    for (uint64_t k = 0; k < n; k++) {
        uint64_t key = key_at(data, width, k);
        bool null = automatic && key == 0;
        if (automatic && !null) key--;
        CHECK_FILE_RETURN(null || key < n_items, "dictionary key %" PRIu64 " of %" PRIu64 " items", key, n_items);
        null = null || item_null(items, key);
        store_u64(numbers + k * 8, null ? null_item : key);
        if (!null) bit_set(valid, k);
    }
    return PENNON_OK;
}

/* Item numbers as keys of the result's width. */
static pennon_status append_keys(struct array20_read *r, uint64_t n, struct leaf_out *o, pennon_error *err)
{
    unsigned width = o->type->width;
    uint64_t most = width >= 8 ? UINT64_MAX >> o->type->signed_keys : ((uint64_t)1 << (width * 8 - o->type->signed_keys)) - 1;
    TRY_RETURN(buf_grow(&o->values, (size_t)n * width, err));
    uint8_t *to = o->values.data + o->values.size;
    for (uint64_t k = 0; k < n; k++) {
        CHECK_FILE_RETURN(load_u64(r->scratch2.data + k * 8) <= most,
                          "dictionary key %" PRIu64 " is too large for the type of the keys", load_u64(r->scratch2.data + k * 8));
        memcpy(to + k * width, r->scratch2.data + k * 8, width);
    }
    o->values.size += (size_t)n * width;
    o->n += n;
    return PENNON_OK;
}

static pennon_status append_dictionary(struct array20_read *r, struct leaf_out *o, pennon_error *err)
{
    static const struct layer_spec item = {ROLE_ITEM, false, 0};
    pennon_status st = PENNON_OK;
    struct leaf_out items = {0};
    bool automatic = o->type->kind != LEAF_DICTIONARY;
    uint64_t n_items = r->a->n_items;
    TRY(leaf_out_init(&items, automatic ? o->type : o->type->value, &item, 1, r->mem, err));
    TRY(array20_read_decode(r->items, &items, err));
    /* What null rows of text repeat: nothing. */
    if (automatic) TRY(leaf_append_text(&items, bytes_of(NULL, 0), err));
    for (size_t i = 0; i < r->n_rows; i++) {
        uint64_t n = r->rows[i].end - r->rows[i].start;
        TRY(read_keys(r, i, &items, n_items, automatic, automatic ? n_items : 0, err));
        if (automatic) {
            TRY(leaf_append_gather(o, &items, 8, r->scratch2.data, n, err));
        } else {
            TRY(append_keys(r, n, o, err));
        }
        TRY(layer_append_bits(&o->layers[0], r->scratch2.data + n * 8, 0, n, err));
    }
    if (!automatic) TRY(leaf_add_dictionary(o, &items, err));
done:
    leaf_out_free(&items);
    return st;
}

/* Rows of `stride` bytes into the children. */
static pennon_status scatter(struct leaf_out *o, const uint8_t *rows, uint64_t n, size_t stride, size_t *at, pennon_error *err)
{
    if (o->type->kind == LEAF_PACKED) {
        for (uint32_t i = 0; i < o->type->n_children; i++) TRY_RETURN(scatter(&o->children[i], rows, n, stride, at, err));
        o->n += n;
        return PENNON_OK;
    }
    size_t width = (size_t)packed_width(o->type);
    ASSERT(width && *at + width <= stride);
    TRY_RETURN(buf_grow(&o->values, (size_t)n * width, err));
    uint8_t *to = o->values.data + o->values.size;
    for (uint64_t k = 0; k < n; k++) memcpy(to + k * width, rows + k * stride + *at, width);
    o->values.size += (size_t)n * width;
    o->n += n;
    *at += width;
    return PENNON_OK;
}

/* Validity of descriptors: a null is position 1, size 0. */
static pennon_status append_blob_validity(const uint8_t *rows, uint64_t n, struct array20_read *r, struct leaf_out *o,
                                          pennon_error *err)
{
    TRY_RETURN(buf_resize_zero(&r->scratch2, 0, err));
    TRY_RETURN(buf_resize_zero(&r->scratch2, (size_t)bitmap_bytes(n), err));
    for (uint64_t k = 0; k < n; k++) {
        if (load_u64(rows + 16 * k) != 1 || load_u64(rows + 16 * k + 8) != 0) bit_set(r->scratch2.data, k);
    }
    return layer_append_bits(&o->layers[0], r->scratch2.data, 0, n, err);
}

static pennon_status append_packed(struct array20_read *r, size_t i, struct leaf_out *o, pennon_error *err)
{
    const struct stream *s = &r->a->streams[STREAM_VALUES];
    uint64_t bit, n = r->rows[i].end - r->rows[i].start;
    const uint8_t *data = NULL;
    size_t at = 0;
    if (s->form != STREAM_NONE) TRY_RETURN(stream_get(r, STREAM_VALUES, i, &data, &bit, err));
    if (o->type->kind == LEAF_PACKED) {
        TRY_RETURN(scatter(o, data, n, s->bits / 8, &at, err));
        return append_validity(r, i, o, err);
    }
    TRY_RETURN(leaf_append_fixed(o, data, n, err));
    return append_blob_validity(data, n, r, o, err);
}

static pennon_status append_nulls(struct array20_read *r, struct leaf_out *o, pennon_error *err)
{
    TRY_RETURN(leaf_append_zero(o, r->total, err));
    return layer_append_run(&o->layers[0], r->total, false, err);
}

static pennon_status append_rows(struct array20_read *r, size_t i, size_t *next_text, struct leaf_out *o, pennon_error *err)
{
    const struct array20 *a = r->a;
    if (a->text == TEXT_ENDS) return append_text(r, i, next_text, o, err);
    if (o->type->kind == LEAF_PACKED || o->type->kind == LEAF_BLOB) return append_packed(r, i, o, err);
    TRY_RETURN(a->text == TEXT_FIXED ? append_fixed_text(r, i, o, err) : append_fixed(r, i, o, err));
    return append_validity(r, i, o, err);
}

pennon_status array20_read_decode(struct array20_read *r, struct leaf_out *o, pennon_error *err)
{
    const struct array20 *a = r->a;
    size_t next_text = 0;
    ASSERT(a->type && r->n_want == 0 && o->n_layers >= 1);
    if (a->all_null) {
        TRY_RETURN(append_nulls(r, o, err));
    } else if (a->dictionary) {
        TRY_RETURN(append_dictionary(r, o, err));
    } else {
        if (a->text == TEXT_ENDS && a->text_scheme != GENERAL_NONE && r->plain_text.size == 0) {
            TRY_RETURN(general_decode(a->text_scheme, r->got[r->text_frame], BUF_NO_LIMIT, &r->plain_text, err));
        }
        for (size_t i = 0; i < r->n_rows; i++) TRY_RETURN(append_rows(r, i, &next_text, o, err));
    }
    if (o->type->kind == LEAF_DICTIONARY && o->n_dictionaries) o->dictionary_ends[o->n_dictionaries - 1] = o->n;
    return PENNON_OK;
}

pennon_status array20_read_lists(struct array20_read *r, bool large, struct layer_out *l, struct row_range *items,
                                 pennon_error *err)
{
    ASSERT(!r->a->type && r->n_want == 0);
    for (size_t i = 0; i < r->n_rows; i++) {
        uint64_t nulls, n = r->rows[i].end - r->rows[i].start;
        TRY_RETURN(ends_span(r, i, &items[i], err));
        TRY_RETURN(read_ends(r, i, items[i].start, r->a->list_items, &nulls, err));
        uint64_t *ends = (uint64_t *)(void *)r->scratch2.data + 1;
        for (uint64_t k = 0; k < n; k++) ends[k] = load_u64(&ends[k]) + l->items;
        TRY_RETURN(layer_append_ends(l, large, ends, n, err));
        TRY_RETURN(nulls ? layer_append_bits(l, r->scratch2.data + (n + 1) * 8, 0, n, err) : layer_append_run(l, n, true, err));
        l->items += items[i].end - items[i].start;
    }
    return PENNON_OK;
}

/* ---- description ---- */

bool array20_is_uniform(const struct array20 *a)
{
    bool uniform = a->all_null || a->text == TEXT_NONE || (a->text == TEXT_FIXED && a->text_width == 0);
    for (unsigned k = 0; k < STREAMS && uniform && !a->all_null; k++)
        uniform = a->streams[k].form == STREAM_NONE || a->streams[k].scale == 0;
    return uniform;
}

bool array20_is_framed(const struct array20 *a)
{
    bool framed = a->text_scheme != GENERAL_NONE;
    for (unsigned k = 0; k < STREAMS && !framed; k++) framed = a->streams[k].scheme != GENERAL_NONE;
    return framed && !a->all_null;
}

static pennon_status describe_stream(const struct stream *s, struct buf *out, pennon_error *err)
{
    static const char *const forms[] = {"nothing", "flat", "bit packed", "bit packed groups"};
    static const char *const schemes[] = {"", " lz4", " zstd"};
    return buf_printf(out, err, "%s %u%s", forms[s->form], s->packed, schemes[s->scheme]);
}

pennon_status array20_describe(const struct array20 *a, struct buf *out, pennon_error *err)
{
    static const char *const schemes[] = {"", " lz4", " zstd"};
    if (a->all_null) return buf_printf(out, err, "all null");
    if (a->streams[STREAM_VALIDITY].form != STREAM_NONE) TRY_RETURN(buf_printf(out, err, "nullable: "));
    if (!a->type) {
        TRY_RETURN(buf_printf(out, err, "list of %" PRIu64 " items, ends ", a->list_items));
    } else if (a->dictionary) {
        TRY_RETURN(buf_printf(out, err, "dictionary of %" PRIu64 ": ", a->n_items));
        TRY_RETURN(array20_describe(a->items, out, err));
        TRY_RETURN(buf_printf(out, err, "; keys "));
    } else if (a->text == TEXT_ENDS) {
        TRY_RETURN(buf_printf(out, err, "%sbinary%s, ends ", a->fsst ? "fsst over " : "", schemes[a->text_scheme]));
    } else if (a->type->kind == LEAF_PACKED || a->type->kind == LEAF_BLOB) {
        TRY_RETURN(buf_printf(out, err, "%s, ", a->type->n_children || a->type->kind == LEAF_BLOB ? "packed struct" : "struct"));
    } else if (a->type->n_dims) {
        TRY_RETURN(buf_printf(out, err, "fixed size list of %" PRIu64 ", ", leaf_items(a->type)));
    }
    return describe_stream(&a->streams[STREAM_VALUES], out, err);
}

/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Changes of whole data files of 2.x. The file is taken apart into columns, pages, layouts and buffers; something in there changes; then it is put
 * together anew with places and sizes that fit:
 *
 *   buffers of the pages and columns | global buffers (0 is the FileDescriptor) | column metadata | CMO | GBO | footer
 *
 * The layout of a page stands in its encoding as an Any of a PageLayout (2.1 on) or an ArrayEncoding (2.0); it is decoded, too, so that fields
 * inside change.  Source: spec file-format 1, 2, 3. */
#include "mutate.h"

#define FOOTER 40u
#define COLUMNS_MAX 32u
#define PAGES_MAX 12u
#define BUFFERS_MAX 24u
#define GLOBALS_MAX 8u
#define SIZE_MOST ((size_t)1 << 20)

/* An Encoding with the message inside. */
struct inner {
    struct any_message any;
    const struct wire_message *table; /* NULL = there is none that is known */
    void *message;
};

struct page_model {
    struct page_message page;
    struct inner layout;
    struct bytes buffers[BUFFERS_MAX];
    size_t n_buffers;
};

struct column_model {
    struct column_metadata_message meta;
    struct inner encoding;
    struct page_model *pages;
    size_t n_pages;
    struct bytes buffers[BUFFERS_MAX];
    size_t n_buffers;
};

struct file_model {
    struct column_model columns[COLUMNS_MAX];
    size_t n_columns;
    struct bytes globals[GLOBALS_MAX];
    size_t n_globals;
    struct file_descriptor_message descriptor;
    uint16_t major, minor;
    bool lies; /* one number of the frame will be wrong */
};

/* ---- taking apart ---- */

static bool piece(struct bytes file, uint64_t at, uint64_t size, struct bytes *out)
{
    if (!range_inside(at, size, file.size)) return false;
    *out = bytes_of(file.data + at, (size_t)size);
    return true;
}

static bool ends_with(struct bytes text, const char *end)
{
    const size_t n = strlen(end);
    return text.size >= n && memcmp(text.data + text.size - n, end, n) == 0;
}

static void inner_decode(struct mutation *m, const struct encoding_message *e, struct inner *out)
{
    memset(out, 0, sizeof *out);
    if (!e || !e->direct || !mutation_decode(m, &any_table, e->direct->encoding, &out->any)) return;
    const struct wire_message *table = ends_with(out->any.type_url, "PageLayout")       ? &page_layout_table
                                       : ends_with(out->any.type_url, "ArrayEncoding")  ? &ae_table
                                       : ends_with(out->any.type_url, "ColumnEncoding") ? &column_encoding_table
                                                                                        : NULL;
    if (!table) return;
    out->message = mutation_alloc(m, table->size);
    if (mutation_decode(m, table, out->any.value, out->message)) out->table = table;
}

static bool buffers_take(struct mutation *m, struct bytes file, const uint64_t *offsets, size_t n_offsets, const uint64_t *sizes,
                         size_t n_sizes, struct bytes *out, size_t *n)
{
    if (n_offsets != n_sizes || n_sizes > BUFFERS_MAX) return false;
    for (size_t i = 0; i < n_sizes; i++) {
        if (!piece(file, offsets[i], sizes[i], &out[i])) return false;
        mutation_hint(m, sizes[i]);
    }
    *n = n_sizes;
    return true;
}

static bool column_take(struct mutation *m, struct bytes file, struct bytes text, struct column_model *c)
{
    if (!mutation_decode(m, &column_metadata_table, text, &c->meta)) return false;
    const struct column_metadata_message *meta = &c->meta;
    if (meta->n_pages > PAGES_MAX) return false;
    inner_decode(m, meta->encoding, &c->encoding);
    c->pages = mutation_alloc(m, (PAGES_MAX + 1) * sizeof *c->pages);
    c->n_pages = meta->n_pages;
    for (size_t i = 0; i < c->n_pages; i++) {
        struct page_model *p = &c->pages[i];
        p->page = meta->pages[i];
        mutation_hint(m, p->page.length);
        inner_decode(m, p->page.encoding, &p->layout);
        if (!buffers_take(m, file, p->page.buffer_offsets, p->page.n_buffer_offsets, p->page.buffer_sizes, p->page.n_buffer_sizes,
                          p->buffers, &p->n_buffers)) {
            return false;
        }
    }
    return buffers_take(m, file, meta->buffer_offsets, meta->n_buffer_offsets, meta->buffer_sizes, meta->n_buffer_sizes, c->buffers,
                        &c->n_buffers);
}

static bool file_take(struct mutation *m, struct bytes file, struct file_model *f)
{
    struct bytes table, text;
    if (file.size < FOOTER || file.size > SIZE_MOST || memcmp(file.data + file.size - 4, "LANC", 4) != 0) return false;
    const uint8_t *footer = file.data + file.size - FOOTER;
    const uint32_t n_globals = load_u32(footer + 24), n_columns = load_u32(footer + 28), version = load_u32(footer + 32);
    f->major = (uint16_t)version;
    f->minor = (uint16_t)(version >> 16);
    if (n_columns > COLUMNS_MAX || n_globals == 0 || n_globals > GLOBALS_MAX) return false;
    if (!piece(file, load_u64(footer + 16), 16 * (uint64_t)n_globals, &table)) return false;
    for (uint32_t i = 0; i < n_globals; i++) {
        if (!piece(file, load_u64(table.data + 16 * i), load_u64(table.data + 16 * i + 8), &f->globals[i])) return false;
    }
    f->n_globals = n_globals;
    if (!mutation_decode(m, &file_descriptor_table, f->globals[0], &f->descriptor)) return false;
    mutation_hint(m, f->descriptor.length);
    if (!piece(file, load_u64(footer + 8), 16 * (uint64_t)n_columns, &table)) return false;
    for (uint32_t i = 0; i < n_columns; i++) {
        if (!piece(file, load_u64(table.data + 16 * i), load_u64(table.data + 16 * i + 8), &text)) return false;
        if (!column_take(m, file, text, &f->columns[i])) return false;
    }
    f->n_columns = n_columns;
    return true;
}

/* ---- putting together ---- */

struct output {
    struct mutation *m;
    struct buf bytes;
    bool ok;
};

static void put(struct output *o, struct bytes piece_bytes)
{
    if (o->ok) o->ok = buf_append(&o->bytes, piece_bytes.data, piece_bytes.size, &o->m->err) == PENNON_OK;
}

static void put_u64(struct output *o, uint64_t v)
{
    uint8_t raw[8];
    store_u64(raw, v);
    put(o, bytes_of(raw, 8));
}

static void buffers_put(struct output *o, const struct bytes *buffers, size_t n, uint64_t **offsets, uint64_t **sizes)
{
    *offsets = mutation_alloc(o->m, n * sizeof **offsets);
    *sizes = mutation_alloc(o->m, n * sizeof **sizes);
    for (size_t i = 0; i < n; i++) {
        if (o->ok)
            o->ok = buf_append_zero(&o->bytes, (size_t)(round_up(o->bytes.size, 8) - o->bytes.size), &o->m->err) == PENNON_OK;
        (*offsets)[i] = o->bytes.size;
        (*sizes)[i] = buffers[i].size;
        put(o, buffers[i]);
    }
}

static struct encoding_message *inner_encode(struct mutation *m, struct encoding_message *e, struct inner *in)
{
    if (!in->table) return e;
    struct encoding_message *made = mutation_alloc(m, sizeof *made);
    made->which = 2;
    made->direct = mutation_alloc(m, sizeof *made->direct);
    in->any.value = mutation_encode(m, in->table, in->message);
    made->direct->encoding = mutation_encode(m, &any_table, &in->any);
    return made;
}

/* Buffers go out; the metadata says where they are. */
static void column_put(struct output *o, struct column_model *c)
{
    struct column_metadata_message *meta = &c->meta;
    meta->pages = mutation_alloc(o->m, (c->n_pages + 1) * sizeof *meta->pages);
    meta->n_pages = c->n_pages;
    for (size_t i = 0; i < c->n_pages; i++) {
        struct page_model *p = &c->pages[i];
        buffers_put(o, p->buffers, p->n_buffers, &p->page.buffer_offsets, &p->page.buffer_sizes);
        p->page.n_buffer_offsets = p->page.n_buffer_sizes = p->n_buffers;
        p->page.encoding = inner_encode(o->m, p->page.encoding, &p->layout);
        meta->pages[i] = p->page;
    }
    buffers_put(o, c->buffers, c->n_buffers, &meta->buffer_offsets, &meta->buffer_sizes);
    meta->n_buffer_offsets = meta->n_buffer_sizes = c->n_buffers;
    meta->encoding = inner_encode(o->m, meta->encoding, &c->encoding);
}

static void table_put(struct output *o, const uint64_t *offsets, const uint64_t *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        put_u64(o, offsets[i]);
        put_u64(o, sizes[i]);
    }
}

static bool file_put(struct mutation *m, struct file_model *f, struct bytes *out)
{
    struct output o = {.m = m, .ok = true};
    uint64_t *offsets, *sizes;
    struct bytes texts[COLUMNS_MAX];
    uint8_t tail[16] = {0};
    buf_init(&o.bytes, m->mem, 4 * SIZE_MOST);
    for (size_t i = 0; i < f->n_columns; i++) column_put(&o, &f->columns[i]);
    if (f->lies && f->n_columns > 0) {
        mutation_message(m, &column_metadata_table, &f->columns[mutation_below(m, f->n_columns)].meta);
    }
    f->globals[0] = mutation_encode(m, &file_descriptor_table, &f->descriptor);
    buffers_put(&o, f->globals, f->n_globals, &offsets, &sizes);
    uint64_t *global_offsets = offsets, *global_sizes = sizes;
    const uint64_t start = o.bytes.size;
    for (size_t i = 0; i < f->n_columns; i++) texts[i] = mutation_encode(m, &column_metadata_table, &f->columns[i].meta);
    buffers_put(&o, texts, f->n_columns, &offsets, &sizes);
    const uint64_t cmo = o.bytes.size;
    table_put(&o, offsets, sizes, f->n_columns);
    const uint64_t gbo = o.bytes.size;
    table_put(&o, global_offsets, global_sizes, f->n_globals);
    put_u64(&o, f->n_columns > 0 ? offsets[0] : start);
    put_u64(&o, cmo);
    put_u64(&o, gbo);
    store_u32(tail, (uint32_t)f->n_globals);
    store_u32(tail + 4, (uint32_t)f->n_columns);
    store_u32(tail + 8, f->major | (uint32_t)f->minor << 16);
    memcpy(tail + 12, "LANC", 4);
    put(&o, bytes_of(tail, sizeof tail));
    if (o.ok) {
        uint8_t *copy = mutation_alloc(m, o.bytes.size);
        memcpy(copy, o.bytes.data, o.bytes.size);
        *out = bytes_of(copy, o.bytes.size);
    }
    buf_free(&o.bytes);
    return o.ok;
}

/* ---- changes ---- */

static struct column_model *some_column(struct mutation *m, struct file_model *f)
{
    return f->n_columns > 0 ? &f->columns[mutation_below(m, f->n_columns)] : NULL;
}

static struct page_model *some_page(struct mutation *m, struct column_model *c)
{
    return c && c->n_pages > 0 ? &c->pages[mutation_below(m, c->n_pages)] : NULL;
}

static void change_layout(struct mutation *m, struct page_model *p)
{
    if (p && p->layout.table) mutation_message(m, p->layout.table, p->layout.message);
}

static void change_buffer(struct mutation *m, struct bytes *buffers, size_t *n)
{
    if (*n == 0) return;
    const size_t i = mutation_below(m, *n), j = mutation_below(m, *n);
    const struct bytes old = buffers[i];
    switch (mutation_below(m, 12)) {
    case 0: /* change places */
        buffers[i] = buffers[j];
        buffers[j] = old;
        break;
    case 1: /* one goes */
        memmove(buffers + i, buffers + i + 1, (*n - i - 1) * sizeof *buffers);
        --*n;
        break;
    case 2: /* one comes twice */
        if (*n < BUFFERS_MAX) buffers[(*n)++] = old;
        break;
    case 3: buffers[i].size = mutation_below(m, old.size + 1); break;
    default: buffers[i] = mutation_bytes(m, old); break;
    }
}

static void change_pages(struct mutation *m, struct column_model *c)
{
    struct page_model *p = some_page(m, c), *q = some_page(m, c);
    if (!p) return;
    switch (mutation_below(m, 6)) {
    case 0: p->page.length = mutation_number(m, p->page.length); break;
    case 1: p->page.priority = mutation_number(m, p->page.priority); break;
    case 2: *p = *q; break;
    case 3:
        if (c->n_pages < PAGES_MAX) c->pages[c->n_pages++] = *p;
        break;
    case 4: *p = c->pages[--c->n_pages]; break;
    default: /* one page becomes two that tell half of the rows each */
        if (c->n_pages < PAGES_MAX && p->page.length > 1) {
            const uint64_t half = p->page.length / 2;
            c->pages[c->n_pages] = *p;
            c->pages[c->n_pages++].page.length -= half;
            p->page.length = half;
        }
    }
}

static void change_columns(struct mutation *m, struct file_model *f)
{
    struct column_model *c = some_column(m, f), *d = some_column(m, f);
    if (!c) return;
    const struct column_model was = *c;
    switch (mutation_below(m, 4)) {
    case 0:
        *c = *d;
        *d = was;
        break;
    case 1:
        /* Pages of the other column stay its own: what changes afterwards changes in both. */
        *c = *d;
        break;
    case 2: *c = f->columns[--f->n_columns]; break;
    default:
        if (f->n_columns < COLUMNS_MAX) f->columns[f->n_columns++] = was;
    }
}

static void change_schema(struct mutation *m, struct file_model *f)
{
    static const char *const types[] = {"int8",
                                        "int32",
                                        "int64",
                                        "uint16",
                                        "double",
                                        "halffloat",
                                        "bool",
                                        "string",
                                        "large_string",
                                        "binary",
                                        "large_binary",
                                        "null",
                                        "struct",
                                        "list",
                                        "list.struct",
                                        "large_list",
                                        "map",
                                        "blob",
                                        "json",
                                        "date32:day",
                                        "timestamp:us:UTC",
                                        "decimal:128:10:2",
                                        "fixed_size_binary:3",
                                        "fixed_size_list:float:4",
                                        "fixed_size_list:fixed_size_list:int8:2:3",
                                        "dict:string:int8:false",
                                        "dict:int64:uint16:true",
                                        "time64:ns",
                                        "duration:ms",
                                        "string_view"};
    struct schema_message *s = f->descriptor.schema;
    if (s && s->n_fields > 0 && mutation_one_in(m, 2)) {
        struct field_message *field = &s->fields[mutation_below(m, s->n_fields)];
        if (mutation_one_in(m, 3)) {
            field->parent_id = mutation_one_in(m, 2) ? -1 : s->fields[mutation_below(m, s->n_fields)].id;
        } else {
            field->logical_type = bytes_str(types[mutation_below(m, ARRAY_LEN(types))]);
        }
    } else {
        mutation_message(m, &file_descriptor_table, &f->descriptor);
    }
}

/* All counts of rows that are equal to the file's become another one. */
static void change_rows(struct mutation *m, struct file_model *f)
{
    const uint64_t old = f->descriptor.length, now = mutation_number(m, old);
    f->descriptor.length = now;
    for (size_t i = 0; i < f->n_columns; i++) {
        for (size_t k = 0; k < f->columns[i].n_pages; k++) {
            struct page_model *p = &f->columns[i].pages[k];
            if (p->page.length == old) p->page.length = now;
        }
    }
}

static void change_file(struct mutation *m, struct file_model *f)
{
    struct column_model *c = some_column(m, f);
    struct page_model *p = some_page(m, c);
    switch (mutation_below(m, 20)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 6: change_layout(m, p); break;
    case 7: change_columns(m, f); break;
    case 8: change_pages(m, c); break;
    case 9: change_rows(m, f); break;
    case 10:
    case 11: change_schema(m, f); break;
    case 12:
        if (c && c->encoding.table && mutation_one_in(m, 2)) {
            mutation_message(m, c->encoding.table, c->encoding.message);
        } else if (c) {
            change_buffer(m, c->buffers, &c->n_buffers);
        }
        break;
    case 13:
        if (mutation_one_in(m, 4)) {
            f->major = 2;
            f->minor = (uint16_t)mutation_below(m, 4);
        } else {
            f->lies = true;
        }
        break;
    default:
        if (p) change_buffer(m, p->buffers, &p->n_buffers);
    }
}

bool mutate_file(struct mutation *m, struct bytes file, struct bytes *out)
{
    struct file_model *f = mutation_alloc(m, sizeof *f);
    if (!file_take(m, file, f)) return false;
    for (size_t times = 1 + mutation_below(m, 3); times > 0; times--) change_file(m, f);
    return file_put(m, f, out);
}

bool mutate_file_cross(struct mutation *m, struct bytes a, struct bytes b, struct bytes *out)
{
    struct file_model *f = mutation_alloc(m, sizeof *f), *g = mutation_alloc(m, sizeof *g);
    if (!file_take(m, a, f) || !file_take(m, b, g)) return false;
    struct page_model *to = some_page(m, some_column(m, f)), *from = some_page(m, some_column(m, g));
    if (!to || !from) return false;
    if (mutation_one_in(m, 2) && to->n_buffers > 0 && from->n_buffers > 0) {
        to->buffers[mutation_below(m, to->n_buffers)] = from->buffers[mutation_below(m, from->n_buffers)];
    } else if (mutation_one_in(m, 2)) {
        to->layout = from->layout;
    } else {
        *to = *from;
    }
    return file_put(m, f, out);
}

/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Reading rows of a data file of version 2.0, or of 0.1.
 *
 * Every node of the projection but a struct has a column. The rows wanted of a list's items are known only when its end offsets are, and
 * the bytes of text when the text's are, so reading goes in rounds, all columns in step:
 *
 *   1  nodes whose rows have become known open the pages that hold them
 *   2  every page says which bytes it wants next; one fetch
 *   3  lists whose offsets are there give their items the rows
 *
 * until nothing is wanted. Then the leaves are decoded in parallel and the arrays put together. Structs have no nulls in these versions.
 *
 * The versions differ in where a column's pages come from: in 2.0 the column metadata, and an opened page is kept; in 0.1 the page table, whose pages are
 * the batches of the file, and a page is opened anew each time, since opening is nothing but checking where it lies. The file says where the batches begin
 * in rows; in items, below a list, they begin where the shortest of the columns there lets them: those may be longer, and how many items the lists really
 * have is only in their offsets.
 * Source: spec file-format 4.3, 13, 15. */
#include "file/file_private.h"

/* Each list takes one round, text one more. */
#define ROUNDS_MAX (LAYERS_MAX + 3u)
#define NO_PARENT UINT32_MAX

/* Rows of one page that are wanted. */
struct use20 {
    size_t page;
    const struct array20 *open;
    struct array20 *own;    /* 0.1: the same, to be freed */
    struct row_range *rows; /* page relative, in the arena */
    size_t n_rows;
    struct array20_read *read;
    size_t first_want; /* in the fetch of this round */
    size_t n_wants;
};

struct node20 {
    const struct file_node *node;
    uint32_t parent;
    bool below_list;
    const struct file_column *col; /* has_column */
    const struct leaf_type *type;  /* leaves */
    uint32_t number;               /* of the column, for messages */
    const uint64_t *starts;        /* first row of each page, and the number of rows */
    uint64_t *item_starts;         /* 0.1, lists: the same of the items; in the arena */
    struct array20_items *items;   /* 0.1: dictionaries; in the arena */
    bool known, begun, ended;
    const struct row_range *rows; /* positions in the column */
    size_t n_rows;
    uint64_t count;
    size_t first_use, n_uses;
    struct leaf_out leaf;   /* leaves */
    struct layer_out layer; /* lists */
};

struct reading20 {
    const struct call *call;
    struct file_reader *reader;
    const struct file_projection *p;
    struct arena arena;
    struct node20 *nodes; /* pre-order */
    uint32_t n_nodes;
    size_t cap_nodes;
    struct use20 *uses;
    size_t n_uses, cap_uses;
    struct fetch fetches[ROUNDS_MAX];
    unsigned n_fetches;
};

static bool is_list(const struct node20 *n) { return !n->node->is_leaf && n->node->field->kind == FIELD_LIST; }
static bool has_column(const struct node20 *n) { return n->node->is_leaf || is_list(n); }
static bool is_legacy(const struct reading20 *rd) { return rd->reader->version == STORAGE_LEGACY; }

/* ---- nodes ---- */

static pennon_status add_node(struct reading20 *rd, const struct file_node *node, uint32_t parent, bool below_list,
                              pennon_error *err)
{
    TRY_RETURN(mem_grow(rd->call->mem, &rd->nodes, &rd->cap_nodes, rd->n_nodes, sizeof *rd->nodes, 1u << 24, err));
    uint32_t index = rd->n_nodes++;
    rd->nodes[index] = (struct node20){.node = node, .parent = parent, .below_list = below_list};
    buf_init(&rd->nodes[index].layer.validity, rd->call->mem, BUF_NO_LIMIT);
    buf_init(&rd->nodes[index].layer.offsets, rd->call->mem, BUF_NO_LIMIT);
    bool list = is_list(&rd->nodes[index]);
    for (uint32_t i = 0; i < node->n_children; i++) TRY_RETURN(add_node(rd, &node->children[i], index, below_list || list, err));
    return PENNON_OK;
}

static pennon_status load_columns(struct reading20 *rd, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint32_t *columns, n = 0;
    TRY_NEW(columns, mem_calloc(rd->call->mem, (size_t)rd->n_nodes + 1, sizeof *columns, err));
    for (uint32_t i = 0; i < rd->n_nodes; i++) {
        if (has_column(&rd->nodes[i])) columns[n++] = rd->nodes[i].node->column;
    }
    TRY(file_load_columns(rd->call, rd->reader, columns, n, err));
    for (uint32_t i = 0; i < rd->n_nodes; i++) {
        struct node20 *node = &rd->nodes[i];
        node->number = node->node->column;
        if (!has_column(node)) continue;
        node->col = &rd->reader->columns[node->number];
        node->type = &node->col->type;
        node->starts = node->col->starts;
    }
done:
    mem_free(rd->call->mem, columns);
    return st;
}

static pennon_status load_dictionary(struct reading20 *rd, struct node20 *n, pennon_error *err)
{
    n->type = n->node->type;
    if (n->type->kind != LEAF_DICTIONARY) return PENNON_OK;
    n->items = arena_calloc(&rd->arena, 1, sizeof *n->items, err);
    if (!n->items) return err->code;
    return legacy_dictionary(rd->call, rd->reader, rd->p->schema, n->node->field, &rd->arena, n->items, err);
}

/* Where the batches begin in items of a list: each has as many as the shortest column below, short of another list. */
static pennon_status count_items(struct reading20 *rd, uint32_t list, pennon_error *err)
{
    struct node20 *n = &rd->nodes[list];
    size_t pages = n->col->n_pages;
    n->item_starts = arena_calloc(&rd->arena, pages + 1, sizeof *n->item_starts, err);
    if (!n->item_starts) return err->code;
    uint64_t *items = n->item_starts + 1;
    memset(items, 0xff, pages * sizeof *items);
    for (uint32_t i = list + 1; i < rd->n_nodes && rd->nodes[i].parent != NO_PARENT && rd->nodes[i].parent >= list; i++) {
        const struct node20 *below = &rd->nodes[i];
        uint32_t up = below->parent;
        while (up != list && !is_list(&rd->nodes[up])) up = rd->nodes[up].parent;
        if (up != list || !has_column(below)) continue;
        for (size_t p = 0; p < pages; p++) items[p] = min_u64(items[p], below->col->pages[p].rows);
    }
    for (size_t p = 0; p < pages; p++) {
        CHECK_FILE_RETURN(!add_overflows(items[p], n->item_starts[p], &items[p]) && items[p] <= (uint64_t)1 << 48,
                          "lists of '%s' of more items than a file can hold", n->node->field->name);
    }
    return PENNON_OK;
}

/* The same for 0.1. */
static pennon_status load_lines(struct reading20 *rd, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct legacy_line *lines;
    size_t n = 0;
    TRY_NEW(lines, mem_calloc(rd->call->mem, (size_t)rd->n_nodes + 1, sizeof *lines, err));
    for (uint32_t i = 0; i < rd->n_nodes; i++) {
        const struct node20 *node = &rd->nodes[i];
        if (has_column(node)) lines[n++] = (struct legacy_line){.id = node->node->field->id, .list = is_list(node)};
    }
    TRY(legacy_find_lines(rd->call, rd->reader, rd->p->first_id, lines, n, err));
    n = 0;
    for (uint32_t i = 0; i < rd->n_nodes; i++) {
        struct node20 *node = &rd->nodes[i];
        if (!has_column(node)) continue;
        node->number = lines[n].line;
        node->col = lines[n++].column;
        if (node->node->is_leaf) TRY(load_dictionary(rd, node, err));
    }
    for (uint32_t i = 0; i < rd->n_nodes; i++) {
        if (is_list(&rd->nodes[i])) TRY(count_items(rd, i, err));
    }
done:
    mem_free(rd->call->mem, lines);
    return st;
}

/* ---- pages ---- */

/* Page of a 2.0 column, kept in the reader. */
static pennon_status open_kept(struct file_reader *r, uint32_t column, size_t page, bool list, const struct array20 **out,
                               pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct file_column *col = &r->columns[column];
    (void)pthread_mutex_lock(&r->lock);
    if (!col->arrays) TRY_NEW(col->arrays, arena_calloc(&r->arena, col->n_pages + 1, sizeof(void *), err));
    if (!col->arrays[page]) TRY(array20_open(r->mem, &col->pages[page], list ? NULL : &col->type, &col->arrays[page], err));
    /* Manifests can give one column to two fields. */
    CHECK_FILE(array20_is_list(col->arrays[page]) == list, "column %u serves a list and its values", column);
    *out = col->arrays[page];
done:
    (void)pthread_mutex_unlock(&r->lock);
    return st;
}

/* A failure in a page, with its place. */
static pennon_status in_page(const struct reading20 *rd, const struct node20 *n, size_t page, pennon_status st, pennon_error *err)
{
    if (st == PENNON_OK) return st;
    const struct page_desc *d = &n->col->pages[page];
    int64_t offset = is_legacy(rd) ? (int64_t)d->buffers[0].offset : PENNON_NOWHERE;
    return file_where(rd->reader, st, n->number, (int64_t)page, offset, err);
}

static pennon_status open_page(struct reading20 *rd, uint32_t index, struct use20 *u, pennon_error *err)
{
    const struct node20 *n = &rd->nodes[index];
    pennon_status st;
    if (is_legacy(rd)) {
        uint64_t rows = n->starts[u->page + 1] - n->starts[u->page];
        uint64_t items = n->item_starts ? n->item_starts[u->page + 1] - n->item_starts[u->page] : 0;
        st = legacy_open_page(rd->reader, n->col, n->node, u->page, rows, items, n->items, &u->own, err);
        u->open = u->own;
    } else {
        st = open_kept(rd->reader, n->number, u->page, is_list(n), &u->open, err);
    }
    return in_page(rd, n, u->page, st, err);
}

/* First item of each page of a list column. */
static pennon_status list_starts(struct reading20 *rd, uint32_t index, const uint64_t **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct file_reader *r = rd->reader;
    const struct node20 *n = &rd->nodes[index];
    if (is_legacy(rd)) {
        *out = n->item_starts;
        return PENNON_OK;
    }
    struct file_column *col = &r->columns[n->number];
    const struct array20 *page;
    (void)pthread_mutex_lock(&r->lock);
    *out = col->item_starts;
    uint64_t *starts = NULL;
    if (!*out) TRY_NEW(starts, arena_calloc(&r->arena, col->n_pages + 1, sizeof *starts, err));
done:
    (void)pthread_mutex_unlock(&r->lock);
    if (st != PENNON_OK || *out) return st;
    for (size_t i = 0; i < col->n_pages; i++) {
        st = open_kept(r, n->number, i, true, &page, err);
        if (st != PENNON_OK) return in_page(rd, n, i, st, err);
        starts[i + 1] = starts[i] + array20_list_items(page);
        CHECK_FILE_RETURN(starts[i + 1] <= (uint64_t)1 << 48, "lists of more items than a file can hold");
    }
    /* Another thread may have been faster, with the same numbers. */
    (void)pthread_mutex_lock(&r->lock);
    if (!col->item_starts) col->item_starts = starts;
    *out = col->item_starts;
    (void)pthread_mutex_unlock(&r->lock);
    return PENNON_OK;
}

static pennon_status add_use(struct reading20 *rd, size_t page, size_t max_rows, pennon_error *err)
{
    TRY_RETURN(mem_grow(rd->call->mem, &rd->uses, &rd->cap_uses, rd->n_uses, sizeof *rd->uses, SIZE_MAX / 256, err));
    struct use20 *u = &rd->uses[rd->n_uses];
    *u = (struct use20){.page = page};
    u->rows = arena_alloc(&rd->arena, max_rows * sizeof *u->rows, err);
    if (!u->rows) return err->code;
    rd->n_uses++;
    return PENNON_OK;
}

/* A page of 0.1 must hold the rows of its batch. */
static pennon_status check_batch(const struct reading20 *rd, const struct node20 *node, size_t page, pennon_error *err)
{
    uint64_t rows = node->starts[page + 1] - node->starts[page], have = node->col->pages[page].rows;
    if (!is_legacy(rd) || have >= rows) return PENNON_OK;
    (void)error_set(err, PENNON_CORRUPT, "page of %" PRIu64 " values in a batch of %" PRIu64, have, rows);
    return in_page(rd, node, page, PENNON_CORRUPT, err);
}

/* Split the wanted rows over the pages of the node's column. */
static pennon_status use_pages(struct reading20 *rd, const struct node20 *node, pennon_error *err)
{
    const uint64_t *starts = node->starts;
    size_t n_pages = node->col->n_pages;
    uint64_t total = starts[n_pages];
    CHECK_FILE_RETURN(node->below_list || total == rd->reader->rows, "column of %" PRIu64 " rows in a file of %" PRIu64, total,
                      rd->reader->rows);
    struct use20 *u = NULL;
    for (size_t i = 0; i < node->n_rows; i++) {
        uint64_t at = node->rows[i].start, end = node->rows[i].end;
        CHECK_FILE_RETURN(end <= total, "row %" PRIu64 " of a column of %" PRIu64, end, total);
        while (at < end) {
            size_t page = u && at < starts[u->page + 1] ? u->page : file_find_page(starts, n_pages, at);
            while (starts[page + 1] <= at) page++; /* pages without rows */
            if (!u || u->page != page) {
                TRY_RETURN(check_batch(rd, node, page, err));
                TRY_RETURN(add_use(rd, page, node->n_rows - i, err));
                u = &rd->uses[rd->n_uses - 1];
            }
            uint64_t stop = min_u64(end, starts[page + 1]);
            u->rows[u->n_rows++] = (struct row_range){at - starts[page], stop - starts[page]};
            at = stop;
        }
    }
    return PENNON_OK;
}

/* ---- rounds ---- */

/* `starts`: of the batches, in 0.1; NULL otherwise. */
static void give_rows(struct node20 *n, const struct row_range *rows, size_t n_rows, const uint64_t *starts)
{
    n->known = true;
    if (starts) n->starts = starts;
    n->rows = rows;
    n->n_rows = n_rows;
    for (size_t i = 0; i < n_rows; i++) n->count += rows[i].end - rows[i].start;
}

static void give_children(struct reading20 *rd, uint32_t index, const struct row_range *rows, size_t n, const uint64_t *starts)
{
    for (uint32_t i = index + 1; i < rd->n_nodes && rd->nodes[i].parent != NO_PARENT && rd->nodes[i].parent >= index; i++) {
        if (rd->nodes[i].parent == index) give_rows(&rd->nodes[i], rows, n, starts);
    }
}

static pennon_status begin_node(struct reading20 *rd, uint32_t index, pennon_error *err)
{
    struct node20 *n = &rd->nodes[index];
    n->begun = true;
    if (!has_column(n)) {
        give_children(rd, index, n->rows, n->n_rows, is_legacy(rd) ? n->starts : NULL);
        n->ended = true;
        return PENNON_OK;
    }
    n->first_use = rd->n_uses;
    pennon_status st = use_pages(rd, n, err);
    if (st != PENNON_OK) return file_where(rd->reader, st, n->number, PENNON_NOWHERE, PENNON_NOWHERE, err);
    n->n_uses = rd->n_uses - n->first_use;
    for (size_t i = n->first_use; i < rd->n_uses; i++) {
        struct use20 *u = &rd->uses[i];
        TRY_RETURN(open_page(rd, index, u, err));
        st = array20_read_begin(u->open, rd->call->mem, u->rows, u->n_rows, &u->read, err);
        if (st != PENNON_OK) return in_page(rd, n, u->page, st, err);
    }
    return PENNON_OK;
}

/* Offsets of a list that are all there: its layer, and the rows of the items. */
static pennon_status end_list(struct reading20 *rd, uint32_t index, pennon_error *err)
{
    struct node20 *n = &rd->nodes[index];
    bool large = n->node->field->type.layout == LAYOUT_LIST64;
    const uint64_t *starts;
    size_t total = 0, made = 0;
    TRY_RETURN(list_starts(rd, index, &starts, err));
    for (size_t i = 0; i < n->n_uses; i++) total += rd->uses[n->first_use + i].n_rows;
    struct row_range *items = arena_alloc(&rd->arena, (total + 1) * sizeof *items, err);
    if (!items) return err->code;
    TRY_RETURN(buf_append_zero(&n->layer.offsets, large ? 8 : 4, err));
    for (size_t i = 0; i < n->n_uses; i++) {
        struct use20 *u = &rd->uses[n->first_use + i];
        struct row_range *first = items + made;
        pennon_status st = array20_read_lists(u->read, large, &n->layer, first, err);
        if (st != PENNON_OK) return in_page(rd, n, u->page, st, err);
        for (size_t k = 0; k < u->n_rows; k++) {
            struct row_range range = {first[k].start + starts[u->page], first[k].end + starts[u->page]};
            if (range.start == range.end) continue;
            if (range.start > range.end || (made && range.start < items[made - 1].end)) {
                st = error_set(err, PENNON_CORRUPT,
                               "the items of a list begin at %" PRIu64 ", before those of the list before it end", range.start);
                return in_page(rd, n, u->page, st, err);
            }
            if (made && items[made - 1].end == range.start) {
                items[made - 1].end = range.end;
            } else {
                items[made++] = range;
            }
        }
    }
    n->ended = true;
    give_children(rd, index, items, made, is_legacy(rd) ? starts : NULL);
    return PENNON_OK;
}

/* Ask every page for its next ranges. */
static pennon_status collect(struct reading20 *rd, struct fetch *f, pennon_error *err)
{
    for (size_t i = 0; i < rd->n_uses; i++) {
        struct use20 *u = &rd->uses[i];
        const struct page_buffer *wants;
        array20_read_wants(u->read, &wants, &u->n_wants);
        u->first_want = f->n;
        for (size_t k = 0; k < u->n_wants; k++) TRY_RETURN(fetch_add(f, wants[k].offset, wants[k].size, err));
    }
    return PENNON_OK;
}

static pennon_status feed(struct reading20 *rd, const struct node20 *n, const struct fetch *f, bool *ready, pennon_error *err)
{
    *ready = true;
    for (size_t i = n->first_use; i < n->first_use + n->n_uses; i++) {
        struct use20 *u = &rd->uses[i];
        const struct page_buffer *wants;
        size_t more;
        if (u->n_wants) {
            pennon_status st = array20_read_feed(u->read, f->bytes + u->first_want, err);
            if (st != PENNON_OK) return in_page(rd, n, u->page, st, err);
        }
        array20_read_wants(u->read, &wants, &more);
        *ready = *ready && more == 0;
    }
    return PENNON_OK;
}

/* *more: nodes or bytes are still to come. */
static pennon_status one_round(struct reading20 *rd, bool *more, pennon_error *err)
{
    if (rd->n_fetches == ROUNDS_MAX) return error_set(err, PENNON_INTERNAL, "reading takes more than %u rounds", ROUNDS_MAX);
    TRY_RETURN(call_check(rd->call, err));
    for (uint32_t i = 0; i < rd->n_nodes; i++) {
        if (rd->nodes[i].known && !rd->nodes[i].begun) TRY_RETURN(begin_node(rd, i, err));
    }
    struct fetch *f = &rd->fetches[rd->n_fetches++];
    fetch_init(f, rd->call->mem);
    TRY_RETURN(collect(rd, f, err));
    TRY_RETURN(fetch_run(rd->call, rd->reader, f, err));
    *more = false;
    for (uint32_t i = 0; i < rd->n_nodes; i++) {
        struct node20 *n = &rd->nodes[i];
        bool ready = false;
        if (n->begun && !n->ended) {
            TRY_RETURN(feed(rd, n, f, &ready, err));
            if (ready && is_list(n)) TRY_RETURN(end_list(rd, i, err));
            n->ended = ready;
        }
        *more = *more || !n->ended;
    }
    return PENNON_OK;
}

/* ---- decoding ---- */

static pennon_status decode_node(void *arg, size_t index, pennon_error *err)
{
    struct reading20 *rd = arg;
    struct node20 *n = &rd->nodes[index];
    static const struct layer_spec item = {ROLE_ITEM, false, 0};
    if (!n->node->is_leaf) return PENNON_OK;
    TRY_RETURN(call_check(rd->call, err));
    TRY_RETURN(leaf_out_init(&n->leaf, n->type, &item, 1, rd->call->mem, err));
    for (size_t i = n->first_use; i < n->first_use + n->n_uses; i++) {
        pennon_status st = array20_read_decode(rd->uses[i].read, &n->leaf, err);
        if (st != PENNON_OK) return in_page(rd, n, rd->uses[i].page, st, err);
    }
    return PENNON_OK;
}

/* The array of the node at *next; *next moves behind all that is below it. */
static pennon_status assemble(struct reading20 *rd, uint32_t *next, const struct ArrowSchema *schema, struct ArrowArray *out,
                              pennon_error *err)
{
    struct node20 *n = &rd->nodes[(*next)++];
    if (n->node->is_leaf) return leaf_out_finish(&n->leaf, schema, out, err);
    if (!is_list(n)) n->layer.length = n->count;
    TRY_RETURN(file_layer_array(&n->layer, is_list(n) ? 2 : 1, n->node->n_children, rd->call->mem, out, err));
    for (uint32_t i = 0; i < n->node->n_children; i++) TRY_RETURN(assemble(rd, next, schema->children[i], out->children[i], err));
    return PENNON_OK;
}

static void reading_end(struct reading20 *rd)
{
    struct mem *m = rd->call->mem;
    for (size_t i = 0; i < rd->n_uses; i++) {
        array20_read_free(rd->uses[i].read);
        array20_free(rd->uses[i].own);
    }
    for (uint32_t i = 0; i < rd->n_nodes; i++) {
        leaf_out_free(&rd->nodes[i].leaf);
        buf_free(&rd->nodes[i].layer.validity);
        buf_free(&rd->nodes[i].layer.offsets);
    }
    for (unsigned i = 0; i < rd->n_fetches; i++) fetch_free(&rd->fetches[i]);
    mem_free(m, rd->nodes);
    mem_free(m, rd->uses);
    arena_reset(&rd->arena);
    mem_free(m, rd);
}

static pennon_status make_nodes(struct reading20 *rd, const struct row_range *rows, size_t n, pennon_error *err)
{
    for (uint32_t i = 0; i < rd->p->n_nodes; i++) TRY_RETURN(add_node(rd, &rd->p->nodes[i], NO_PARENT, false, err));
    const uint64_t *batches = is_legacy(rd) ? legacy_starts(rd->reader) : NULL;
    for (uint32_t i = 0; i < rd->n_nodes; i++) {
        if (rd->nodes[i].parent == NO_PARENT) give_rows(&rd->nodes[i], rows, n, batches);
    }
    return is_legacy(rd) ? load_lines(rd, err) : load_columns(rd, err);
}

pennon_status file_read_v20(const struct call *c, struct file_reader *r, const struct file_projection *p,
                            const struct row_range *rows, size_t n, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct reading20 *rd;
    bool more = true;
    uint32_t next = 0;
    out->release = NULL;
    TRY_NEW(rd, mem_calloc(c->mem, 1, sizeof *rd, err));
    rd->call = c;
    rd->reader = r;
    rd->p = p;
    arena_init(&rd->arena, c->mem);
    TRY(make_nodes(rd, rows, n, err));
    while (more) TRY(one_round(rd, &more, err));
    TRY(pool_parallel(call_pool(c), c->threads, rd->n_nodes, decode_node, rd, err));
    TRY(array_new(out, 1, p->n_nodes, c->mem, err));
    for (size_t i = 0; i < n; i++) out->length += (int64_t)(rows[i].end - rows[i].start);
    for (uint32_t i = 0; i < p->n_nodes; i++) TRY(assemble(rd, &next, p->decoded.children[i], out->children[i], err));
done:
    if (rd) reading_end(rd);
    if (st != PENNON_OK) array_release(out);
    return st;
}

/* Items of lists have columns of their own length: all bytes of a column by the rows of the file. */
uint64_t file_estimate_v20(struct file_reader *r, const struct file_projection *p, uint64_t rows)
{
    double bytes = 0;
    (void)pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < p->n_leaves; i++) {
        const struct file_column *col = &r->columns[p->leaf_columns[i]];
        for (size_t k = 0; col->parsed && k < col->n_pages; k++) {
            for (uint32_t b = 0; b < col->pages[k].n_buffers; b++) bytes += (double)col->pages[k].buffers[b].size;
        }
    }
    (void)pthread_mutex_unlock(&r->lock);
    if (r->rows == 0) return 0;
    bytes = bytes / (double)r->rows * (double)rows;
    return bytes < 1e18 ? (uint64_t)bytes : UINT64_MAX;
}

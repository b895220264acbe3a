/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Reading rows of a data file: all bytes are planned first, fetched together, then the leaves are decoded in parallel.
 *
 *   1  the pages that hold the rows, opened and initialised (their first ranges in one fetch)
 *   2  the byte ranges of the rows in each page, all columns in one fetch
 *   3  decode every leaf, assemble the nested arrays
 *
 * Where the projection maps, a leaf whose rows are one flat stretch of one page has no bytes to read and is not decoded: its array points into the file.
 *
 * Source: spec file-format 12. */
#include "file/blob_read.h"

#define KEPT_SHARE 8u /* open pages of a file: one part in so many of the memory limit */

/* Rows of one page that are wanted. */
struct page_use {
    uint32_t leaf;
    size_t page;
    struct page *open;
    struct row_range *rows; /* page relative, in an arena */
    size_t n_rows;
    struct page_plan plan;
    size_t first_range;      /* in the fetch */
    struct page_buffer flat; /* size not 0: the rows as they lie in the mapping */
};

struct reading {
    const struct call *call;
    struct file_reader *reader;
    const struct file_projection *p;
    struct arena arena;
    struct page_use *uses;
    size_t n_uses, cap_uses;
    size_t *leaf_uses; /* n_leaves + 1: first use of each leaf */
    struct fetch fetch;
    struct leaf_out *leaves;
    struct block *mapping; /* borrowed; NULL = nothing is mapped */
};

/* ---- which pages ---- */

size_t file_find_page(const uint64_t *starts, size_t n, uint64_t row)
{
    size_t low = 0, high = n;
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (starts[mid] <= row) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return low;
}

static pennon_status add_use(struct reading *rd, uint32_t leaf, size_t page, size_t max_rows, pennon_error *err)
{
    TRY_RETURN(mem_grow(rd->call->mem, &rd->uses, &rd->cap_uses, rd->n_uses, sizeof *rd->uses, SIZE_MAX / 256, err));
    struct page_use *u = &rd->uses[rd->n_uses];
    *u = (struct page_use){.leaf = leaf, .page = page};
    u->rows = arena_alloc(&rd->arena, max_rows * sizeof *u->rows, err);
    if (!u->rows) return err->code;
    rd->n_uses++;
    return PENNON_OK;
}

/* Split the wanted rows over the pages of one column. */
static pennon_status use_pages(struct reading *rd, uint32_t leaf, const struct row_range *rows, size_t n, pennon_error *err)
{
    const struct file_column *col = &rd->reader->columns[rd->p->leaf_columns[leaf]];
    uint64_t total = col->starts[col->n_pages], dim = col->dimension;
    CHECK_FILE_RETURN(total == rd->reader->rows * dim, "column of %" PRIu64 " rows in a file of %" PRIu64, total, rd->reader->rows);
    struct page_use *u = NULL;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = rows[i].start * dim, end = rows[i].end * dim;
        while (at < end) {
            size_t page = u && at < col->starts[u->page + 1] ? u->page : file_find_page(col->starts, col->n_pages, at);
            while (col->starts[page + 1] <= at) page++; /* pages without rows */
            if (!u || u->page != page) {
                TRY_RETURN(add_use(rd, leaf, page, n - i, err));
                u = &rd->uses[rd->n_uses - 1];
            }
            uint64_t stop = min_u64(end, col->starts[page + 1]);
            u->rows[u->n_rows++] = (struct row_range){at - col->starts[page], stop - col->starts[page]};
            at = stop;
        }
    }
    return PENNON_OK;
}

/* ---- opening pages ---- */

/* The page if it is open, to be given back with unuse_pages; or NULL. */
static struct page *use_page(struct file_reader *r, const struct file_column *col, size_t page)
{
    (void)pthread_mutex_lock(&r->lock);
    struct page *p = col->open[page].page;
    if (p) col->open[page].users++;
    (void)pthread_mutex_unlock(&r->lock);
    return p;
}

/* With the lock held: close the pages that nobody reads. A scan does not come back to them, and a large file has many. */
static void close_unused(struct file_reader *r)
{
    for (uint32_t i = 0; i < r->n_columns; i++) {
        const struct file_column *col = &r->columns[i];
        for (size_t k = 0; col->open && k < col->n_pages; k++) {
            struct open_page *o = &col->open[k];
            if (!o->page || o->users) continue;
            page_free(o->page);
            o->page = NULL;
        }
    }
}

/* Keep a page open and use it; when another thread was faster its page is used. */
static struct page *install_page(struct file_reader *r, struct file_column *col, size_t page, struct page *mine)
{
    (void)pthread_mutex_lock(&r->lock);
    struct open_page *o = &col->open[page];
    o->users++;
    if (!o->page) {
        o->page = mine;
        if (mem_used(r->pages_mem) > mem_limit(r->mem) / KEPT_SHARE) close_unused(r);
    }
    struct page *p = o->page;
    (void)pthread_mutex_unlock(&r->lock);
    if (p != mine) page_free(mine);
    return p;
}

static void unuse_pages(struct reading *rd)
{
    (void)pthread_mutex_lock(&rd->reader->lock);
    for (size_t i = 0; i < rd->n_uses; i++) {
        const struct page_use *u = &rd->uses[i];
        if (!u->open) continue;
        struct open_page *o = &rd->reader->columns[rd->p->leaf_columns[u->leaf]].open[u->page];
        ASSERT(o->page == u->open && o->users > 0);
        o->users--;
    }
    (void)pthread_mutex_unlock(&rd->reader->lock);
}

struct opening {
    size_t use;
    struct page *page;
    size_t first_range;
    uint32_t n_ranges;
};

static pennon_status init_pages(struct reading *rd, struct opening *opening, size_t n, const struct fetch *f, pennon_error *err)
{
    for (size_t i = 0; i < n; i++) {
        struct opening *o = &opening[i];
        struct page_use *u = &rd->uses[o->use];
        uint32_t column = rd->p->leaf_columns[u->leaf];
        pennon_status st = page_init(o->page, f->bytes + o->first_range, err);
        if (st != PENNON_OK) return file_where(rd->reader, st, column, (int64_t)u->page, PENNON_NOWHERE, err);
        u->open = install_page(rd->reader, &rd->reader->columns[column], u->page, o->page);
        o->page = NULL;
    }
    return PENNON_OK;
}

static pennon_status open_pages(struct reading *rd, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct file_reader *r = rd->reader;
    struct fetch f;
    struct opening *opening = NULL;
    size_t n = 0;
    fetch_init(&f, rd->call->mem);
    TRY_NEW(opening, mem_calloc(rd->call->mem, rd->n_uses + 1, sizeof *opening, err));
    for (size_t i = 0; i < rd->n_uses; i++) {
        struct page_use *u = &rd->uses[i];
        uint32_t column = rd->p->leaf_columns[u->leaf];
        struct file_column *col = &r->columns[column];
        u->open = use_page(r, col, u->page);
        if (u->open) continue;
        struct opening *o = &opening[n];
        o->use = i;
        st = page_open(r->pages_mem, &col->pages[u->page], &col->type, col->specs, col->n_specs, &o->page, err);
        if (st != PENNON_OK) {
            st = file_where(r, st, column, (int64_t)u->page, PENNON_NOWHERE, err);
            goto done;
        }
        n++;
        struct page_buffer ranges[PAGE_INIT_MAX];
        page_init_ranges(o->page, ranges, &o->n_ranges);
        o->first_range = f.n;
        for (uint32_t k = 0; k < o->n_ranges; k++) TRY(fetch_add(&f, ranges[k].offset, ranges[k].size, err));
    }
    TRY(fetch_run(rd->call, r, &f, err));
    TRY(init_pages(rd, opening, n, &f, err));
done:
    for (size_t i = 0; opening && i < n; i++) page_free(opening[i].page);
    mem_free(rd->call->mem, opening);
    fetch_free(&f);
    return st;
}

/* ---- the bytes ---- */

/* Items are read where they lie: at the alignment of their type, where it has one. */
static bool is_aligned(uint64_t offset, uint32_t width)
{
    const bool power = width && (width & (width - 1)) == 0;
    return !power || offset % min_u64(width, 64) == 0;
}

/* Can the rows of this use be handed out of the mapping? */
static bool use_mapping(const struct reading *rd, struct page_use *u)
{
    const bool alone = rd->leaf_uses[u->leaf + 1] - rd->leaf_uses[u->leaf] == 1 && u->n_rows == 1;
    struct page_buffer flat;
    if (!rd->mapping || !alone || !page_flat_rows(u->open, &u->rows[0], &flat)) return false;
    const struct file_column *col = &rd->reader->columns[rd->p->leaf_columns[u->leaf]];
    if (!is_aligned(flat.offset, col->type.width) || !range_inside(flat.offset, flat.size, rd->mapping->size)) return false;
    u->flat = flat;
    return flat.size > 0;
}

static pennon_status plan_bytes(struct reading *rd, pennon_error *err)
{
    if (rd->p->map) TRY_RETURN(file_mapping(rd->reader, &rd->mapping, err));
    for (size_t i = 0; i < rd->n_uses; i++) {
        struct page_use *u = &rd->uses[i];
        if (use_mapping(rd, u)) continue;
        pennon_status st = page_plan(u->open, rd->call->mem, u->rows, u->n_rows, &u->plan, err);
        if (st != PENNON_OK) return file_where(rd->reader, st, rd->p->leaf_columns[u->leaf], (int64_t)u->page, PENNON_NOWHERE, err);
        u->plan.call = rd->call;
        u->first_range = rd->fetch.n;
        for (size_t k = 0; k < u->plan.n_ranges; k++)
            TRY_RETURN(fetch_add(&rd->fetch, u->plan.ranges[k].offset, u->plan.ranges[k].size, err));
    }
    return PENNON_OK;
}

/* ---- decoding ---- */

static pennon_status decode_leaf(void *arg, size_t leaf, pennon_error *err)
{
    struct reading *rd = arg;
    TRY_RETURN(call_check(rd->call, err));
    for (size_t i = rd->leaf_uses[leaf]; i < rd->leaf_uses[leaf + 1]; i++) {
        struct page_use *u = &rd->uses[i];
        if (u->flat.size) {
            const uint8_t *at = rd->mapping->data + u->flat.offset;
            return leaf_out_map(&rd->leaves[leaf], block_retain(rd->mapping), at, u->rows[0].end - u->rows[0].start, err);
        }
        pennon_status st = page_decode(u->open, &u->plan, rd->fetch.bytes + u->first_range, &rd->leaves[leaf], err);
        if (st != PENNON_OK) return file_where(rd->reader, st, rd->p->leaf_columns[leaf], (int64_t)u->page, PENNON_NOWHERE, err);
    }
    return PENNON_OK;
}

static pennon_status decode_all(struct reading *rd, pennon_error *err)
{
    const struct file_projection *p = rd->p;
    struct mem *m = rd->call->mem;
    rd->leaves = mem_calloc(m, (size_t)p->n_leaves + 1, sizeof *rd->leaves, err);
    if (!rd->leaves) return err->code;
    for (uint32_t i = 0; i < p->n_leaves; i++) {
        const struct file_column *col = &rd->reader->columns[p->leaf_columns[i]];
        TRY_RETURN(leaf_out_init(&rd->leaves[i], &col->type, col->specs, col->n_specs, m, err));
    }
    return pool_parallel(call_pool(rd->call), rd->call->threads, p->n_leaves, decode_leaf, rd, err);
}

static void reading_end(struct reading *rd)
{
    struct mem *m = rd->call->mem;
    unuse_pages(rd);
    for (size_t i = 0; i < rd->n_uses; i++) page_plan_free(&rd->uses[i].plan);
    for (uint32_t i = 0; rd->leaves && i < rd->p->n_leaves; i++) leaf_out_free(&rd->leaves[i]);
    mem_free(m, rd->leaves);
    mem_free(m, rd->uses);
    mem_free(m, rd->leaf_uses);
    fetch_free(&rd->fetch);
    arena_reset(&rd->arena);
}

static pennon_status read_pages(const struct call *c, struct file_reader *r, const struct file_projection *p,
                                const struct row_range *rows, size_t n, uint64_t count, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct reading rd = {.call = c, .reader = r, .p = p};
    arena_init(&rd.arena, c->mem);
    fetch_init(&rd.fetch, c->mem);
    TRY(file_load_columns(c, r, p->leaf_columns, p->n_leaves, err));
    TRY_NEW(rd.leaf_uses, mem_calloc(c->mem, (size_t)p->n_leaves + 1, sizeof *rd.leaf_uses, err));
    for (uint32_t i = 0; i < p->n_leaves; i++) {
        st = use_pages(&rd, i, rows, n, err);
        if (st != PENNON_OK) {
            st = file_where(r, st, p->leaf_columns[i], PENNON_NOWHERE, PENNON_NOWHERE, err);
            goto done;
        }
        rd.leaf_uses[i + 1] = rd.n_uses;
    }
    TRY(open_pages(&rd, err));
    TRY(plan_bytes(&rd, err));
    TRY(fetch_run(c, r, &rd.fetch, err));
    TRY(decode_all(&rd, err));
    TRY(file_assemble(p, rd.leaves, count, c->mem, out, err));
done:
    reading_end(&rd);
    return st;
}

pennon_status file_read(const struct call *c, struct file_reader *r, const struct file_projection *p, const struct row_range *rows,
                        size_t n, struct ArrowArray *out, pennon_error *err)
{
    ASSERT(p->reader == r);
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (rows[i].start >= rows[i].end || rows[i].end > r->rows || (i && rows[i - 1].end > rows[i].start)) {
            (void)error_set(err, PENNON_INVALID_ARGUMENT, "rows %" PRIu64 " to %" PRIu64 " of a file of %" PRIu64, rows[i].start,
                            rows[i].end, r->rows);
            return file_where(r, err->code, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
        }
        count += rows[i].end - rows[i].start;
    }
    out->release = NULL;
    if (count == 0) return array_nulls(&p->arrow, 0, c->mem, out, err);
    pennon_status st;
    if (r->version == STORAGE_LEGACY || r->version == STORAGE_2_0) {
        st = file_read_v20(c, r, p, rows, n, out, err);
    } else {
        st = read_pages(c, r, p, rows, n, count, out, err);
    }
    if (st == PENNON_OK && p->has_blobs && (p->blobs == BLOB_AS_BYTES || p->blobs == BLOB_AS_INPUT))
        st = blob_bytes_read(c, r, p, out, err);
    /* Consumers may believe that texts are UTF-8, and a file cannot be believed. */
    if (st == PENNON_OK) st = array_check_texts(&p->arrow, out, err);
    if (st != PENNON_OK && out->release) array_release(out);
    return file_where(r, st, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
}

uint64_t file_read_estimate(struct file_reader *r, const struct file_projection *p, uint64_t rows)
{
    double bytes = 0;
    if (r->version == STORAGE_LEGACY) return 0;
    if (r->version == STORAGE_2_0) return file_estimate_v20(r, p, rows);
    (void)pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < p->n_leaves; i++) {
        const struct file_column *col = r->columns ? &r->columns[p->leaf_columns[i]] : NULL;
        for (size_t k = 0; col && col->parsed && k < col->n_pages && k < 4; k++) {
            uint64_t size = 0;
            for (uint32_t b = 0; b < col->pages[k].n_buffers; b++) size += col->pages[k].buffers[b].size;
            if (col->pages[k].rows)
                bytes += (double)size / (double)col->pages[k].rows * (double)rows / (double)(col->n_pages < 4 ? col->n_pages : 4);
        }
    }
    (void)pthread_mutex_unlock(&r->lock);
    return bytes < 1e18 ? (uint64_t)bytes : UINT64_MAX;
}

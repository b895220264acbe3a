/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Aggregates over a stream, by group.
 *
 * Each group column numbers its values, and pairs of numbers are numbered again until a row has one (numbering.h). Rows that open a group are kept
 * as they came, so that the group columns of the result need no decoding. Every aggregate then runs over the batch with the group numbers, a loop a
 * type. Source: spec expressions 12. */
#include "exec/numbering.h"
#include "exec/operators.h"

/* How an aggregate is computed. */
enum cell_kind {
    CELL_COUNT,
    CELL_SUM_INT, /* wrapping, 64 bits; the result is int64, uint64 or the duration */
    CELL_SUM_FLOAT,
    CELL_SUM_WIDE,  /* decimals */
    CELL_BEST_INT,  /* min, max of integers, times, booleans */
    CELL_BEST_UINT, /* of uint64 */
    CELL_BEST_FLOAT,
    CELL_BEST_WIDE,
    CELL_BEST_BYTES
};

struct cell {
    uint64_t count; /* values seen */
    union {
        int64_t integer;
        double real;
    };
    struct wide *wide; /* CELL_*_WIDE: of the group, in aggregate's array */
    uint8_t *bytes;    /* CELL_BEST_BYTES: the best value, a block of `capacity` */
    size_t size, capacity;
};

struct running {
    enum aggregate_kind kind;
    enum cell_kind cell;
    uint32_t column;
    struct arrow_type type; /* of the column */
    struct cell *cells;     /* one a group */
    size_t cap;
};

struct aggregating {
    struct call call;
    struct ArrowArrayStream in;
    struct ArrowSchema input, result;
    uint32_t *groups;
    size_t n_groups;
    struct running *runs;
    size_t n_runs;
    /* groups */
    uint64_t n_keys;
    struct numbering *columns; /* of each group column */
    struct numbering *pairs;   /* of each but the first: with what stands before it */
    struct ArrowArray *opened; /* rows that opened groups, group columns only */
    size_t n_opened, cap_opened;
    struct ArrowSchema group_schema; /* struct of the group columns */
    bool done;
};

/* ---- keys ---- */

/* Keep the rows of the batch that opened groups: bits set in `opened`. */
static pennon_status keep_opened(struct aggregating *a, struct ArrowArray *batch, const uint8_t *opened, struct arena *arena,
                                 pennon_error *err)
{
    TRY_RETURN(mem_grow(a->call.mem, &a->opened, &a->cap_opened, a->n_opened, sizeof *a->opened, SIZE_MAX / 256, err));
    struct ArrowArray columns = {.length = batch->length, .n_buffers = 1, .n_children = (int64_t)a->n_groups};
    const void *buffers[1] = {NULL};
    columns.buffers = buffers;
    columns.children = arena_calloc(arena, a->n_groups, sizeof *columns.children, err);
    if (!columns.children) return err->code;
    for (size_t k = 0; k < a->n_groups; k++) columns.children[k] = batch->children[a->groups[k]];
    TRY_RETURN(array_filter(&a->group_schema, &columns, opened, 0, a->call.mem, &a->opened[a->n_opened], err));
    a->n_opened++;
    return PENNON_OK;
}

/* Group number of every row. */
static pennon_status number_rows(struct aggregating *a, struct ArrowArray *batch, struct arena *arena, uint32_t **out,
                                 pennon_error *err)
{
    uint32_t *numbers, *more = NULL;
    const size_t rows = (size_t)batch->length;
    numbers = arena_calloc(arena, rows + 1, sizeof *numbers, err);
    if (!numbers) return err->code;
    if (a->n_groups > 1 && !(more = arena_calloc(arena, rows + 1, sizeof *more, err))) return err->code;
    for (size_t k = 0; k < a->n_groups; k++) {
        struct array_view v;
        TRY_RETURN(array_view_deep(&v, a->input.children[a->groups[k]], batch->children[a->groups[k]], arena, err));
        array_view_cut(&v, 0, batch->length); /* columns may be longer than their record */
        TRY_RETURN(numbering_rows(&a->columns[k], &a->call, &v, k ? more : numbers, err));
        if (k) TRY_RETURN(numbering_pairs(&a->pairs[k], &a->call, numbers, more, batch->length, numbers, err));
    }
    *out = numbers;
    const uint64_t n = a->n_groups > 1 ? a->pairs[a->n_groups - 1].n : a->columns[0].n;
    if (n == a->n_keys) return PENNON_OK;
    uint8_t *opened = arena_calloc(arena, (size_t)bitmap_bytes((uint64_t)rows) + 1, 1, err);
    if (!opened) return err->code;
    for (size_t i = 0; i < rows && a->n_keys < n; i++) {
        if (numbers[i] != a->n_keys) continue;
        bit_set(opened, i);
        a->n_keys++;
    }
    ASSERT(a->n_keys == n);
    return keep_opened(a, batch, opened, arena, err);
}

/* ---- accumulating ---- */

static bool better(int order, enum aggregate_kind kind) { return kind == AGGREGATE_MIN ? order < 0 : order > 0; }

static int order_real(double a, double b)
{
    int64_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    x ^= (int64_t)((uint64_t)(x >> 63) >> 1);
    y ^= (int64_t)((uint64_t)(y >> 63) >> 1);
    return (x > y) - (x < y);
}

static void add_int(struct cell *cell, uint64_t v) { cell->integer = (int64_t)((uint64_t)cell->integer + v); }

static void best_int(const struct running *r, struct cell *cell, int64_t v)
{
    if (cell->count == 0 || better((v > cell->integer) - (v < cell->integer), r->kind)) cell->integer = v;
}

static void best_uint(const struct running *r, struct cell *cell, uint64_t v)
{
    const uint64_t best = (uint64_t)cell->integer;
    if (cell->count == 0 || better((v > best) - (v < best), r->kind)) cell->integer = (int64_t)v;
}

static pennon_status wide_cell(struct aggregating *a, struct cell *cell, pennon_error *err)
{
    if (cell->wide) return PENNON_OK;
    cell->wide = mem_calloc(a->call.mem, 1, sizeof *cell->wide, err);
    return cell->wide ? PENNON_OK : err->code;
}

static int order_bytes(struct bytes a, struct bytes b)
{
    const size_t n = a.size < b.size ? a.size : b.size;
    const int order = n ? memcmp(a.data, b.data, n) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static pennon_status best_bytes(struct aggregating *a, const struct running *r, struct cell *cell, struct bytes v,
                                pennon_error *err)
{
    if (cell->count && !better(order_bytes(v, bytes_of(cell->bytes, cell->size)), r->kind)) return PENNON_OK;
    if (v.size > cell->capacity || !cell->bytes) {
        const size_t capacity = v.size + v.size / 2 + 16;
        mem_free(a->call.mem, cell->bytes);
        cell->capacity = 0;
        cell->bytes = mem_alloc(a->call.mem, capacity, err);
        if (!cell->bytes) return err->code;
        cell->capacity = capacity;
    }
    if (v.size) memcpy(cell->bytes, v.data, v.size);
    cell->size = v.size;
    return PENNON_OK;
}

/* One value that is not null. */
static pennon_status add_value(struct aggregating *a, const struct running *r, const struct array_view *v, int64_t i,
                               struct cell *cell, pennon_error *err)
{
    struct wide w;
    switch (r->cell) {
    case CELL_COUNT: break;
    case CELL_SUM_INT: add_int(cell, (uint64_t)array_view_int(v, i)); break;
    case CELL_SUM_FLOAT:
        cell->real += arrow_id_is_float(v->type.id) ? array_view_double(v, i)
                      : v->type.id == ARROW_UINT64  ? (double)(uint64_t)array_view_int(v, i)
                                                    : (double)array_view_int(v, i);
        break;
    case CELL_SUM_WIDE:
        TRY_RETURN(wide_cell(a, cell, err));
        w = wide_load(array_view_fixed(v, i), arrow_type_width(&v->type));
        *cell->wide = wide_add(cell->wide, &w);
        break;
    case CELL_BEST_INT:
        best_int(r, cell, v->type.layout == LAYOUT_BITS ? (int64_t)array_view_bool(v, i) : array_view_int(v, i));
        break;
    case CELL_BEST_UINT: best_uint(r, cell, (uint64_t)array_view_int(v, i)); break;
    case CELL_BEST_FLOAT: {
        const double d = array_view_double(v, i);
        if (cell->count == 0 || better(order_real(d, cell->real), r->kind)) cell->real = d;
        break;
    }
    case CELL_BEST_WIDE:
        TRY_RETURN(wide_cell(a, cell, err));
        w = wide_load(array_view_fixed(v, i), arrow_type_width(&v->type));
        if (cell->count == 0 || better(wide_compare(&w, cell->wide), r->kind)) *cell->wide = w;
        break;
    case CELL_BEST_BYTES: TRY_RETURN(best_bytes(a, r, cell, array_view_bytes(v, i), err)); break;
    }
    cell->count++;
    return PENNON_OK;
}

/* Without groups, sums of common types: loops that the compiler turns into vector code. */
static bool add_column(const struct running *r, const struct array_view *v, struct cell *cell)
{
    if (v->validity && v->null_count) return false;
    /* What says in another way that a row is null is asked row by row. */
    if (v->type.layout == LAYOUT_NULL || v->type.layout == LAYOUT_RUN_END || v->type.layout == LAYOUT_SPARSE_UNION ||
        v->type.layout == LAYOUT_DENSE_UNION || v->type.id == ARROW_DICTIONARY)
        return false;
    const int64_t n = v->length;
    const uint8_t *at = v->data + (size_t)v->offset * arrow_type_width(&v->type);
    uint64_t sum = 0;
    if (r->cell == CELL_COUNT) {
        cell->count += (uint64_t)n;
        return true;
    }
    if (r->cell != CELL_SUM_INT || (v->type.id != ARROW_INT64 && v->type.id != ARROW_INT32)) return false;
    if (v->type.id == ARROW_INT64) {
        for (int64_t i = 0; i < n; i++) {
            uint64_t x;
            memcpy(&x, at + i * 8, 8);
            sum += x;
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            int32_t x;
            memcpy(&x, at + i * 4, 4);
            sum += (uint64_t)(int64_t)x;
        }
    }
    add_int(cell, sum);
    cell->count += (uint64_t)n;
    return true;
}

/* Rows of a type that is added as TO, each to the cell of its group. */
#define ADD_GROUPED(NAME, T, TO, MEMBER)                                                     \
    static void NAME(const struct array_view *v, const uint32_t *groups, struct cell *cells) \
    {                                                                                        \
        const uint8_t *at = v->data + (size_t)v->offset * sizeof(T);                         \
        const bool nulls = v->validity && v->null_count;                                     \
        for (int64_t i = 0; i < v->length; i++) {                                            \
            T x;                                                                             \
            if (nulls && !bit_get(v->validity, (uint64_t)(v->offset + i))) continue;         \
            memcpy(&x, at + (size_t)i * sizeof x, sizeof x);                                 \
            struct cell *cell = &cells[groups[i]];                                           \
            cell->MEMBER = (__typeof__(cell->MEMBER))((TO)cell->MEMBER + (TO)x);             \
            cell->count++;                                                                   \
        }                                                                                    \
    }
ADD_GROUPED(add_i32, int32_t, uint64_t, integer)
ADD_GROUPED(add_i64, int64_t, uint64_t, integer)
ADD_GROUPED(add_u32, uint32_t, uint64_t, integer)
ADD_GROUPED(add_f32, float, double, real)
ADD_GROUPED(add_f64, double, double, real)
ADD_GROUPED(average_i32, int32_t, double, real)
ADD_GROUPED(average_i64, int64_t, double, real)

/* The loop of a common sum, or NULL. */
typedef void (*add_grouped_fn)(const struct array_view *, const uint32_t *, struct cell *);
static add_grouped_fn grouped_sum(const struct running *r)
{
    if (r->cell != CELL_SUM_INT && r->cell != CELL_SUM_FLOAT) return NULL;
    const bool real = r->cell == CELL_SUM_FLOAT;
    switch (r->type.id) {
    case ARROW_INT32: return real ? average_i32 : add_i32;
    case ARROW_INT64: return real ? average_i64 : add_i64;
    case ARROW_UINT32: return real ? NULL : add_u32;
    case ARROW_FLOAT32: return add_f32;
    case ARROW_FLOAT64: return add_f64;
    default: return NULL;
    }
}

static void count_grouped(const struct array_view *v, const uint32_t *groups, struct cell *cells)
{
    for (int64_t i = 0; i < v->length; i++) cells[groups[i]].count += !array_view_is_null(v, i);
}

static pennon_status run_aggregate(struct aggregating *a, struct running *r, const struct ArrowArray *batch, const uint32_t *groups,
                                   struct arena *arena, pennon_error *err)
{
    if (a->n_keys)
        TRY_RETURN(mem_grow(a->call.mem, &r->cells, &r->cap, (size_t)a->n_keys - 1, sizeof *r->cells, SIZE_MAX / 64, err));
    if (r->kind == AGGREGATE_COUNT_ROWS) {
        if (!groups) r->cells[0].count += (uint64_t)batch->length;
        for (int64_t i = 0; groups && i < batch->length; i++) r->cells[groups[i]].count++;
        return PENNON_OK;
    }
    struct array_view v;
    TRY_RETURN(array_view_deep(&v, a->input.children[r->column], batch->children[r->column], arena, err));
    array_view_cut(&v, 0, batch->length);
    if (!groups && add_column(r, &v, &r->cells[0])) return PENNON_OK;
    const add_grouped_fn add = groups ? grouped_sum(r) : NULL;
    if (add) {
        add(&v, groups, r->cells);
        return PENNON_OK;
    }
    if (groups && r->cell == CELL_COUNT) {
        count_grouped(&v, groups, r->cells);
        return PENNON_OK;
    }
    for (int64_t i = 0; i < batch->length; i++) {
        if (i % 65536 == 65535) TRY_RETURN(call_check(&a->call, err));
        if (array_view_is_null(&v, i)) continue;
        TRY_RETURN(add_value(a, r, &v, i, &r->cells[groups ? groups[i] : 0], err));
    }
    return PENNON_OK;
}

static pennon_status add_batch(struct aggregating *a, struct ArrowArray *batch, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena arena;
    uint32_t *groups = NULL;
    arena_init(&arena, a->call.mem);
    if (a->n_groups) TRY(number_rows(a, batch, &arena, &groups, err));
    for (size_t i = 0; i < a->n_runs; i++) TRY(run_aggregate(a, &a->runs[i], batch, groups, &arena, err));
done:
    arena_reset(&arena);
    return st;
}

/* ---- the result ---- */

/* sum / count with four more places, truncated. */
static pennon_status decimal_avg(const struct cell *cell, struct wide *out, pennon_error *err)
{
    const struct wide count = wide_from_i64((int64_t)cell->count);
    *out = *cell->wide;
    if (!wide_scale_up(out, 4)) return error_set(err, PENNON_INVALID_ARGUMENT, "the average of a decimal column overflows");
    *out = wide_divide(out, &count, NULL);
    return PENNON_OK;
}

static pennon_status put_wide(const struct arrow_type *t, const struct wide *w, struct builder *b, pennon_error *err)
{
    uint8_t bytes[32];
    if (!wide_fits_digits(w, t->precision))
        return error_set(err, PENNON_INVALID_ARGUMENT, "an aggregate does not fit its decimal of %d digits", t->precision);
    wide_store(w, bytes, arrow_type_width(t));
    return builder_append_bytes(b, bytes_of(bytes, arrow_type_width(t)), err);
}

static pennon_status put_best_int(const struct running *r, int64_t v, struct builder *b, pennon_error *err)
{
    if (r->type.id == ARROW_BOOL) return builder_append_bool(b, v != 0, err);
    uint8_t bytes[8];
    memcpy(bytes, &v, sizeof v); /* little-endian: the low bytes come first */
    return builder_append_bytes(b, bytes_of(bytes, arrow_type_width(&r->type)), err);
}

static pennon_status put_cell(const struct running *r, const struct cell *cell, const struct arrow_type *result, struct builder *b,
                              pennon_error *err)
{
    struct wide w;
    if (r->cell == CELL_COUNT) return builder_append_int(b, (int64_t)cell->count, err);
    if (cell->count == 0) return builder_append_null(b, err);
    switch (r->cell) {
    case CELL_SUM_INT:
        if (r->type.id == ARROW_DURATION)
            return put_best_int(r, r->kind == AGGREGATE_AVG ? cell->integer / (int64_t)cell->count : cell->integer, b, err);
        return result->id == ARROW_UINT64 ? builder_append_uint(b, (uint64_t)cell->integer, err)
                                          : builder_append_int(b, cell->integer, err);
    case CELL_SUM_FLOAT:
        return builder_append_double(b, r->kind == AGGREGATE_AVG ? cell->real / (double)cell->count : cell->real, err);
    case CELL_SUM_WIDE:
        if (r->kind == AGGREGATE_SUM) return put_wide(result, cell->wide, b, err);
        TRY_RETURN(decimal_avg(cell, &w, err));
        return put_wide(result, &w, b, err);
    case CELL_BEST_INT: return put_best_int(r, cell->integer, b, err);
    case CELL_BEST_UINT: return builder_append_uint(b, (uint64_t)cell->integer, err);
    case CELL_BEST_FLOAT: return builder_append_double(b, cell->real, err);
    case CELL_BEST_WIDE: return put_wide(result, cell->wide, b, err);
    default: return builder_append_bytes(b, bytes_of(cell->bytes, cell->size), err);
    }
}

static pennon_status result_column(struct aggregating *a, struct running *r, const struct ArrowSchema *schema, size_t rows,
                                   struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arrow_type type;
    struct builder *b;
    TRY_NEW(b, builder_new(schema, a->call.mem, err));
    TRY(arrow_type_of(schema, &type, err));
    if (rows) TRY(mem_grow(a->call.mem, &r->cells, &r->cap, rows - 1, sizeof *r->cells, SIZE_MAX / 64, err));
    for (size_t g = 0; g < rows; g++) TRY(put_cell(r, &r->cells[g], &type, b, err));
    TRY(builder_finish(b, out, err));
done:
    builder_free(b);
    return st;
}

static pennon_status group_columns(struct aggregating *a, struct ArrowArray *to, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray joined = {0};
    const struct ArrowArray **list = NULL;
    if (a->n_opened == 0) {
        TRY(array_nulls(&a->group_schema, 0, a->call.mem, &joined, err));
    } else {
        TRY_NEW(list, mem_calloc(a->call.mem, a->n_opened, sizeof *list, err));
        for (size_t i = 0; i < a->n_opened; i++) list[i] = &a->opened[i];
        TRY(array_concat(&a->group_schema, a->n_opened, list, a->call.mem, &joined, err));
    }
    ASSERT((uint64_t)joined.length == a->n_keys);
    for (size_t k = 0; k < a->n_groups; k++) array_move(joined.children[k], &to[k]);
done:
    array_release(&joined);
    mem_free(a->call.mem, list);
    return st;
}

static pennon_status make_result(struct aggregating *a, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const size_t rows = a->n_groups ? (size_t)a->n_keys : 1, n = a->n_groups + a->n_runs;
    struct ArrowArray *columns;
    TRY_NEW(columns, mem_calloc(a->call.mem, n + 1, sizeof *columns, err));
    if (a->n_groups) TRY(group_columns(a, columns, err));
    for (size_t i = 0; i < a->n_runs; i++) {
        const size_t at = a->n_groups + i;
        TRY(result_column(a, &a->runs[i], a->result.children[at], rows, &columns[at], err));
    }
    TRY(array_record(columns, n, (int64_t)rows, a->call.mem, out, err));
done:
    for (size_t i = 0; columns && i < n; i++) array_release(&columns[i]);
    mem_free(a->call.mem, columns);
    return st;
}

static pennon_status aggregate_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct aggregating *a = ctx;
    struct ArrowArray batch = {0};
    out->release = NULL;
    if (a->done) return PENNON_OK;
    for (;;) {
        TRY(call_check(&a->call, err));
        TRY(stream_next(&a->in, &batch, err));
        if (!batch.release) break;
        TRY(add_batch(a, &batch, err));
        array_release(&batch);
    }
    a->done = true;
    TRY(make_result(a, out, err));
done:
    array_release(&batch);
    return st;
}

static void aggregate_free(void *ctx)
{
    struct aggregating *a = ctx;
    struct call call = a->call;
    struct mem *m = call.mem;
    stream_release(&a->in);
    for (size_t i = 0; a->runs && i < a->n_runs; i++) {
        for (size_t g = 0; g < a->runs[i].cap; g++) {
            mem_free(m, a->runs[i].cells[g].wide);
            mem_free(m, a->runs[i].cells[g].bytes);
        }
        mem_free(m, a->runs[i].cells);
    }
    for (size_t i = 0; i < a->n_opened; i++) array_release(&a->opened[i]);
    mem_free(m, a->opened);
    mem_free(m, a->runs);
    mem_free(m, a->groups);
    for (size_t k = 0; a->columns && a->pairs && k < a->n_groups; k++) {
        numbering_free(&a->columns[k]);
        numbering_free(&a->pairs[k]);
    }
    mem_free(m, a->columns);
    mem_free(m, a->pairs);
    arrow_schema_release(&a->input);
    arrow_schema_release(&a->result);
    arrow_schema_release(&a->group_schema);
    mem_free(m, a);
    call_end(&call);
}

/* ---- opening ---- */

static pennon_status refuse_type(const char *what, const struct ArrowSchema *column, struct mem *m, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    buf_init(&text, m, 1 << 16);
    TRY(arrow_type_text(column, &text, err));
    TRY(buf_terminate(&text, err));
    (void)error_set(err, PENNON_INVALID_ARGUMENT, "%s of column '%s' of type %s is not defined", what, column->name,
                    (const char *)text.data);
    st = error_kind(err, "TypeMismatch");
done:
    buf_free(&text);
    return st;
}

/* A decimal of more digits and places, at most the digits of its width. */
static pennon_status decimal_type(const struct arrow_type *t, int32_t digits, int32_t places, const char *name, struct mem *m,
                                  struct ArrowSchema *out, pennon_error *err)
{
    struct arrow_type type = *t;
    static const struct {
        uint32_t bits;
        int32_t digits;
    } widths[] = {{32, 9}, {64, 18}, {128, 38}, {256, 76}};
    int32_t most = 76;
    for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
        if (widths[i].bits == t->bit_width) most = widths[i].digits;
    }
    type.precision = t->precision + digits < most ? t->precision + digits : most;
    type.scale = t->scale + places < most ? t->scale + places : most;
    return arrow_schema_new_type(out, &type, name, ARROW_FLAG_NULLABLE, 0, m, err);
}

static pennon_status plan_sum(struct running *r, const struct ArrowSchema *column, const char *name, struct mem *m,
                              struct ArrowSchema *out, pennon_error *err)
{
    const bool avg = r->kind == AGGREGATE_AVG, decimal = arrow_id_is_decimal(r->type.id);
    const bool number = arrow_id_is_integer(r->type.id) || arrow_id_is_float(r->type.id);
    if (r->type.id == ARROW_DURATION) { /* both are durations of the same unit; the average is cut */
        r->cell = CELL_SUM_INT;
        TRY_RETURN(arrow_schema_copy(column, m, out, err));
        out->flags |= ARROW_FLAG_NULLABLE;
        return arrow_schema_set_name(out, name, err);
    }
    if (!number && !decimal) return refuse_type(avg ? "the average" : "the sum", column, m, err);
    r->cell = decimal ? CELL_SUM_WIDE : avg || arrow_id_is_float(r->type.id) ? CELL_SUM_FLOAT : CELL_SUM_INT;
    if (decimal) return decimal_type(&r->type, avg ? 4 : 10, avg ? 4 : 0, name, m, out, err);
    const char *format = r->cell == CELL_SUM_FLOAT ? "g" : arrow_id_is_signed(r->type.id) ? "l" : "L";
    return arrow_schema_new(out, format, name, ARROW_FLAG_NULLABLE, 0, m, err);
}

static pennon_status plan_best(struct running *r, const struct ArrowSchema *column, const char *name, struct mem *m,
                               struct ArrowSchema *out, pennon_error *err)
{
    const enum arrow_id id = r->type.id;
    const bool integer = id == ARROW_BOOL || arrow_id_is_integer(id) || (id >= ARROW_DATE32 && id <= ARROW_DURATION);
    if (id == ARROW_UINT64) {
        r->cell = CELL_BEST_UINT;
    } else if (integer) {
        r->cell = CELL_BEST_INT;
    } else if (arrow_id_is_float(id)) {
        r->cell = CELL_BEST_FLOAT;
    } else if (arrow_id_is_decimal(id)) {
        r->cell = CELL_BEST_WIDE;
    } else if (arrow_id_is_variable(id) || id == ARROW_FIXED_SIZE_BINARY) {
        r->cell = CELL_BEST_BYTES;
    } else {
        return refuse_type(r->kind == AGGREGATE_MIN ? "the minimum" : "the maximum", column, m, err);
    }
    TRY_RETURN(arrow_schema_copy(column, m, out, err));
    out->flags |= ARROW_FLAG_NULLABLE;
    return arrow_schema_set_name(out, name, err);
}

static pennon_status plan_run(struct aggregating *a, const struct aggregate *wanted, struct running *r, struct ArrowSchema *out,
                              pennon_error *err)
{
    r->kind = wanted->kind;
    r->column = wanted->column;
    r->cell = CELL_COUNT;
    if (wanted->kind != AGGREGATE_COUNT_ROWS) {
        ASSERT(wanted->column < (uint64_t)a->input.n_children);
        TRY_RETURN(arrow_type_of(a->input.children[wanted->column], &r->type, err));
    }
    switch (wanted->kind) {
    case AGGREGATE_COUNT_ROWS:
    case AGGREGATE_COUNT: return arrow_schema_new(out, "l", wanted->name, 0, 0, a->call.mem, err);
    case AGGREGATE_SUM:
    case AGGREGATE_AVG: return plan_sum(r, a->input.children[wanted->column], wanted->name, a->call.mem, out, err);
    default: return plan_best(r, a->input.children[wanted->column], wanted->name, a->call.mem, out, err);
    }
}

static pennon_status plan_groups(struct aggregating *a, const uint32_t *groups, pennon_error *err)
{
    TRY_RETURN(arrow_schema_new(&a->group_schema, "+s", "", 0, a->n_groups, a->call.mem, err));
    for (size_t k = 0; k < a->n_groups; k++) {
        ASSERT(groups[k] < (uint64_t)a->input.n_children);
        const struct ArrowSchema *column = a->input.children[groups[k]];
        a->groups[k] = groups[k];
        if (!sort_possible(column)) return refuse_type("a group", column, a->call.mem, err);
        TRY_RETURN(arrow_schema_copy(column, a->call.mem, a->group_schema.children[k], err));
        TRY_RETURN(arrow_schema_copy(column, a->call.mem, a->result.children[k], err));
        numbering_init(&a->columns[k], column, a->call.mem);
        numbering_init_pairs(&a->pairs[k], a->call.mem);
    }
    return PENNON_OK;
}

pennon_status aggregate_open(const struct call *c, struct ArrowArrayStream *in, const uint32_t *groups, size_t n_groups,
                             const struct aggregate *aggregates, size_t n, struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema schema = {0};
    struct aggregating *a;
    TRY_NEW(a, mem_calloc(c->mem, 1, sizeof *a, err));
    call_copy(&a->call, c);
    stream_move(in, &a->in);
    a->n_groups = n_groups;
    a->n_runs = n;
    TRY_NEW(a->groups, mem_calloc(a->call.mem, n_groups + 1, sizeof *a->groups, err));
    TRY_NEW(a->columns, mem_calloc(a->call.mem, n_groups + 1, sizeof *a->columns, err));
    TRY_NEW(a->pairs, mem_calloc(a->call.mem, n_groups + 1, sizeof *a->pairs, err));
    TRY_NEW(a->runs, mem_calloc(a->call.mem, n + 1, sizeof *a->runs, err));
    TRY(stream_schema(&a->in, &a->input, err));
    TRY(arrow_schema_new(&a->result, "+s", "", 0, n_groups + n, a->call.mem, err));
    TRY(plan_groups(a, groups, err));
    for (size_t i = 0; i < n; i++) TRY(plan_run(a, &aggregates[i], &a->runs[i], a->result.children[n_groups + i], err));
    for (size_t i = 0; n_groups == 0 && i < n; i++) {
        TRY(mem_grow(a->call.mem, &a->runs[i].cells, &a->runs[i].cap, 0, sizeof *a->runs[i].cells, SIZE_MAX / 64, err));
    }
    TRY(arrow_schema_copy(&a->result, a->call.mem, &schema, err));
    st = stream_new(&schema, aggregate_next, aggregate_free, a, a->call.mem, out, err);
    a = NULL;
done:
    stream_release(in);
    if (a) aggregate_free(a);
    return st;
}

/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The plan of a filtered read: which columns are read for every row, which for the rows that pass, what is computed of them.
 *
 *   source   a column of the table or a system column that is read, each once (JSON columns once as stored for expressions, once as text)
 *   split    how the sources are divided: `first` is read for every row, and has all that the filter needs; `late` for the rows that pass
 *   output   a column of the result: a source, or an expression over sources
 *
 * A plan that may choose has two splits, the lean one (first = the filter's columns) and the wide one (first = everything); which is better
 * depends on how many rows pass. Every split gives the same rows.
 * Plans are reference counted, immutable once finished, and may be used by many threads. Source: spec expressions 10.1, 10.4, 10.6. */
#ifndef EXEC_PLAN_H
#define EXEC_PLAN_H

#include "exec/exec.h"
#include "exec/prune.h"
#include "expr/expr.h"
#include "pennon/scan.h"

#define NO_CHILD UINT32_MAX

struct plan_source {
    const char *path;
    bool as_stored;
    bool place;  /* SYSTEM_PLACE; it is the last source */
    bool filter; /* the filter needs it */
    bool wanted; /* the result needs it */
    bool early;  /* asked to be early */
};

struct split {
    struct column_plan *first;
    struct column_plan *late; /* NULL = nothing is read late */
    struct ArrowSchema kept;  /* the wanted children of `first`: what is left of it for rows that pass */
    uint32_t *first_child;    /* per source: child of `first`, or NO_CHILD */
    uint32_t *child;          /* per wanted source: child of `kept`, or behind those of `late`; else NO_CHILD */
};

struct plan_output {
    const char *name;
    struct expr *e;    /* NULL: the source is the value */
    uint32_t *sources; /* one, or those of expr_columns(e) */
    bool json;         /* the value of the expression is JSONB and becomes text */
};

enum { SPLIT_LEAN, SPLIT_WIDE, SPLITS };

struct scan_plan {
    _Atomic(uint32_t) refs;
    struct mem *mem;
    struct arena arena;
    struct ArrowSchema input; /* what expressions may name; made on first use */
    struct schema *schema;    /* of the table; retained */
    bool with_deleted;
    bool map; /* arrays may point into mapped files; set before columns are planned */
    enum blob_handling blobs;
    struct expr *filter;      /* NULL = all rows */
    uint32_t *filter_sources; /* of expr_columns(filter) */
    struct row_bounds bounds; /* of the filter */
    bool nothing;             /* no row passes, whatever is in it */
    struct plan_source *sources;
    size_t n_sources, cap_sources;
    struct plan_output *outputs;
    size_t n_outputs, cap_outputs;
    struct split splits[SPLITS]; /* those that are not used have no `first` */
    bool adaptive;               /* both are there */
    bool direct;                 /* no filter, and `first` of the wide split is the result; there are no outputs */
    struct ArrowSchema arrow;    /* of the result */
    char *filter_text;           /* for explain; NULL */
};

/* Make a plan: begin, add, finish. After a failure only scan_plan_free. */
pennon_status scan_plan_begin(const struct snapshot *s, enum blob_handling blobs, bool with_deleted, struct mem *m,
                              struct scan_plan **out, pennon_error *err) CHECKED;
struct scan_plan *scan_plan_retain(struct scan_plan *p);
void scan_plan_free(struct scan_plan *p); /* gives a reference back; NULL is allowed */
/* SQL, a Substrait message, or both, which then both must hold; either may be absent. */
pennon_status scan_plan_filter(struct scan_plan *p, const struct snapshot *s, const char *text, struct bytes substrait,
                               pennon_error *err) CHECKED;
/* A result column that is a column of the table or a system column. */
pennon_status scan_plan_column(struct scan_plan *p, const char *path, pennon_error *err) CHECKED;
/* SYSTEM_PLACE as the last column of the result; the last to be added. */
pennon_status scan_plan_place(struct scan_plan *p, pennon_error *err) CHECKED;
pennon_status scan_plan_expression(struct scan_plan *p, const struct snapshot *s, const char *name, const char *sql,
                                   pennon_error *err) CHECKED;
/* A column of the table as files hold it. */
pennon_status scan_plan_stored(struct scan_plan *p, const char *name, pennon_error *err) CHECKED;
/* A value to be stored in the top-level column: an expression, cast to the column's type. A text for a JSON column stays text, which *text tells. */
pennon_status scan_plan_value(struct scan_plan *p, const struct snapshot *s, const struct field *f, const char *sql, bool *text,
                              pennon_error *err) CHECKED;
/* The result: the columns of the request, its system columns last, and `expressions` (may be NULL) before these; without columns the expressions
 * alone. Doubled names are refused unless the request allows them. */
pennon_status scan_plan_columns(struct scan_plan *p, const struct snapshot *s, const struct column_request *r,
                                const pennon_expressions *expressions, pennon_error *err) CHECKED;
/* `style` is PENNON_MATERIALIZE_; `late` the columns of EARLY_EXCEPT. INVALID_ARGUMENT: unknown columns. */
pennon_status scan_plan_finish(struct scan_plan *p, const struct snapshot *s, int32_t style, const pennon_names *late,
                               pennon_error *err) CHECKED;
/* A finished plan of these columns alone, without filter and expressions: direct. */
pennon_status scan_plan_direct(const struct snapshot *s, const struct column_request *r, struct mem *m, struct scan_plan **out,
                               pennon_error *err) CHECKED;

/* The result from the kept children of `first` and the late ones, `rows` rows. Takes the children that are sources themselves; `late` may be NULL. */
pennon_status plan_assemble(const struct call *c, const struct scan_plan *p, const struct split *sp, struct ArrowArray *kept,
                            struct ArrowArray *late, int64_t rows, struct ArrowArray *out, pennon_error *err) CHECKED;
/* Rows of places (take_places) as the result of a plan without a filter. */
pennon_status plan_take(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct scan_plan *p,
                        const uint64_t *places, size_t n, struct ArrowArray *out, pennon_error *err) CHECKED;

/* ---- reading a stretch of a fragment ---- */

/* What a stretch gave. With `split` set the late columns are still to be read: `batch` has its kept children, `places` the rows. Without, `batch` is
 * the result (not set for no rows). */
struct piece {
    struct ArrowArray batch;
    uint64_t *places; /* in the memory of the call */
    uint64_t rows;
    const struct split *split;
    uint64_t looked_at; /* rows that the filter saw */
    uint64_t passed;    /* of them, also those past `most` */
    uint64_t bytes;     /* of the columns that were read for every row */
};
void piece_free(const struct call *c, struct piece *p);

/* Counters of a running scan; shared by its threads. */
struct scan_counters {
    struct call_counters first, late, taken; /* taken: behind a sort, for the rows that it kept */
    _Atomic(uint64_t) looked_at, passed, late_rows, stretches, late_ns, taken_rows, taken_ns;
    _Atomic(uint64_t) skipped; /* fragments that the bounds of the filter leave out */
};

struct stretch {
    const struct fragment *fragment;
    struct row_range rows;     /* physical */
    struct row_choice *choice; /* only those of `rows` are read; NULL = all. Held by whoever holds the stretch */
    uint64_t first_live;
    uint64_t most;        /* rows that are wanted at most: the first that pass */
    uint64_t late_rows;   /* late columns are read here from so many rows on */
    uint64_t dense_share; /* and read whole where one row in so many passes, else by ranges */
    const struct split *split;
};
/* `counters` may be NULL. */
pennon_status stretch_read(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct scan_plan *p,
                           const struct stretch *at, struct scan_counters *counters, struct piece *out, pennon_error *err) CHECKED;

#endif

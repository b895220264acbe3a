/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What src/expr offers: expressions over columns, from SQL text to values.
 *
 *   text --ast_parse--> syntax tree --bind--> typed tree (immutable) --evaluate, per batch--> an Arrow array, or the rows that pass
 *
 * The typed tree has resolved names, Arrow types with all casts written out, prepared state (IN sets, patterns, regular expressions), constants
 * folded. Three-valued logic lives in one place (truth.c). A compiled expression may be evaluated by many threads at once; every evaluation
 * takes its scratch from the call's budget, a number of allocations that does not depend on the rows.
 * Source: spec expressions 1-8. */
#ifndef EXPR_EXPR_H
#define EXPR_EXPR_H

#include "arrow/arrow.h"

struct expr;

/* A column that the expression reads. A path into structs is one column of its own, whose rows are null where a struct above is null. */
struct expr_column {
    const char *path;                 /* as column_plan_new takes it: dotted, parts in back ticks where needed; NUL */
    uint32_t top;                     /* child of the input schema that the path begins with */
    const struct ArrowSchema *schema; /* of the column (the path's end) */
};

/* Compile the text of a filter. `input` is a struct schema of all columns that may be named (table columns as files store them, JSON as
 * large binary with its extension name, and the system columns); it is only read during the call. The result is boolean.
 * INVALID_ARGUMENT: does not parse, unknown column or function (with the nearest name), types that do not fit, not boolean; the message
 * begins with the place in the text. Kinds: FilterSyntax, FieldNotFound, FunctionNotFound, TypeMismatch. */
pennon_status expr_compile_filter(struct bytes text, const struct ArrowSchema *input, struct mem *m, struct expr **out,
                                  pennon_error *err) CHECKED;
/* Compile a value: projections, assignments. The whole text is tried as a column's name first. */
pennon_status expr_compile(struct bytes text, const struct ArrowSchema *input, struct mem *m, struct expr **out,
                           pennon_error *err) CHECKED;
/* The same, cast to `type` where it is of another: assignments. INVALID_ARGUMENT (TypeMismatch): there is no such cast; (CastFailed): a constant that does
 * not fit. */
pennon_status expr_compile_as(struct bytes text, const struct ArrowSchema *input, const struct ArrowSchema *type, struct mem *m,
                              struct expr **out, pennon_error *err) CHECKED;
/* A filter from the bytes of a Substrait ExtendedExpression with one expression over the table's columns (those of `input` but the system columns, by
 * position). CORRUPT: no such message; NOT_SUPPORTED names the form; INVALID_ARGUMENT as expr_compile_filter. */
pennon_status expr_compile_substrait(struct bytes message, const struct ArrowSchema *input, struct mem *m, struct expr **out,
                                     pennon_error *err) CHECKED;
/* Both filters hold. Takes both, on failure too; either may be NULL (then *out is the other). Columns are those of both. */
pennon_status expr_and(struct expr *a, struct expr *b, struct expr **out, pennon_error *err) CHECKED;
void expr_free(struct expr *e); /* NULL is allowed */

const struct ArrowSchema *expr_type(const struct expr *e); /* owned by the expression; the name is "" */
/* May the value be null, as far as types tell? `input` is what the expression was compiled with. A part of a struct may always be. */
bool expr_nullable(const struct expr *e, const struct ArrowSchema *input);
/* Is the text just a cast of NULL to a type, "CAST(NULL AS int)"? False too where it does not parse. */
bool expr_is_cast_of_null(struct bytes text, struct mem *m);
/* Columns that are read, in a fixed order, each once. */
const struct expr_column *expr_columns(const struct expr *e, size_t *n);
/* The value where no column is needed: true and *is_null, *value of a constant filter. False: it depends on rows. */
bool expr_constant_filter(const struct expr *e, bool *value, bool *is_null);
/* The terms of the top AND (one for anything else); for planners. Borrowed. */
size_t expr_term_count(const struct expr *e);
/* Ranges outside of which the filter is true for no value of this uint64 column (bounds.c): no range = for none, [0, UINT64_MAX] = it says nothing.
 * Nulls are in no range, and may pass only where the filter says nothing. `out` is allocated in `m`. O(values of the filter). */
pennon_status expr_bounds(const struct expr *e, const char *path, struct mem *m, struct value_range **out, size_t *n,
                          pennon_error *err) CHECKED;

/* Values for `rows` rows. columns[i] belongs to expr_columns()[i] and has that many rows (any offset). `out` is owned, of expr_type.
 * INVALID_ARGUMENT for faults of values (division by zero, casts that fail; kinds DivideByZero, CastFailed, FunctionFailed). */
pennon_status expr_evaluate(const struct expr *e, const struct call *c, const struct ArrowArray *const *columns, int64_t rows,
                            struct ArrowArray *out, pennon_error *err) CHECKED;
/* The rows for which a boolean expression is true: bits [0, rows) of `bits` (bitmap_bytes(rows) bytes, written whole; bits behind the end
 * are zero), and how many. */
pennon_status expr_select(const struct expr *e, const struct call *c, const struct ArrowArray *const *columns, int64_t rows,
                          uint8_t *bits, uint64_t *count, pennon_error *err) CHECKED;

/* Append the bound tree as the explain output shows it: "i > Int64(1)", "s IN ([Utf8("a")])". */
pennon_status expr_print(const struct expr *e, struct buf *out, pennon_error *err) CHECKED;

/* ---- types and values of their own ---- */

/* Append the name of a type as official's messages have it: "Int64", "Timestamp(µs, "UTC")". */
pennon_status expr_type_name(const struct ArrowSchema *schema, struct buf *out, pennon_error *err) CHECKED;
/* Is there a cast between the types, whatever the values? */
bool expr_cast_possible(const struct ArrowSchema *from, const struct ArrowSchema *to);
/* Rows of deep views of one type: equal ones have one hash. Two nulls are equal; floats where their bits are. */
uint64_t expr_value_hash(const struct array_view *v, int64_t row);
bool expr_value_equal(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j);

/* Names of all functions, NULL-terminated, ascending; for completion and documentation. */
const char *const *expr_function_names(void);

#endif

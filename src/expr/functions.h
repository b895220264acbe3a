/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Shared by the families of functions: binding of arguments, results without allocations per row, and functions that are written for one row.
 *
 * A function of the last kind is a line in its family's table, a line of `struct row_function` (what the arguments and the result are) and a
 * function that computes one row. bind_rows and run_rows do the rest. Texts of results go to one growing buffer; where 32-bit offsets no
 * longer suffice the error's kind is "OffsetOverflow", and the caller tries again with fewer rows.
 * Source: spec expressions 7. */
#ifndef EXPR_FUNCTIONS_H
#define EXPR_FUNCTIONS_H

#include "expr/evaluate.h"
#include "expr/node.h"

/* ---- binding ---- */

/* INVALID_ARGUMENT of kind TypeMismatch: "lower: argument 1 is int32, not a text". `i` counts from 0. */
pennon_status bind_refuse(const struct bind_call *b, size_t i, const char *wanted, pennon_error *err);
/* Argument i is cast to a simple type. */
pennon_status bind_as(struct bind_call *b, size_t i, const char *format, pennon_error *err) CHECKED;
pennon_status bind_result(struct bind_call *b, const char *format, pennon_error *err) CHECKED;
/* The type of an argument; dictionaries count as what they hold. */
pennon_status bind_type(const struct bind_call *b, size_t i, struct arrow_type *out, pennon_error *err) CHECKED;
/* Argument i is a text (large texts stay large, everything else becomes utf8). `any`: numbers, dates and so on are printed; else refused. */
pennon_status bind_text(struct bind_call *b, size_t i, bool any, pennon_error *err) CHECKED;
/* Argument i is an integer and becomes int64. */
pennon_status bind_integer(struct bind_call *b, size_t i, pennon_error *err) CHECKED;
/* Argument i was made a large text. */
bool bind_is_large(const struct bind_call *b, size_t i);
/* The text of a constant argument; false where it is no constant, no text, or null. */
bool bind_constant_text(const struct bind_call *b, size_t i, struct bytes *out);
bool bind_constant_null(const struct bind_call *b, size_t i);

/* ---- running ---- */

/* INVALID_ARGUMENT of kind FunctionFailed; the message begins with the function's name. */
pennon_status run_fault(const struct run_call *r, pennon_error *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* No argument of the row is null (strict functions). */
static inline bool run_valid(const struct run_call *r, int64_t row) { return r->valid == NULL || bit_get(r->valid, (uint64_t)row); }
/* The row of the result is null. The first call makes the bitmap. */
pennon_status run_set_null(struct run_call *r, int64_t row, pennon_error *err) CHECKED;
/* Buffer 1 of the result: `width` bytes a row, zeroed. */
pennon_status run_values(struct run_call *r, size_t width, void *out, pennon_error *err) CHECKED;
/* Buffer 1 of a boolean result, zeroed. */
pennon_status run_bits(struct run_call *r, uint8_t **out, pennon_error *err) CHECKED;
static inline bool datum_is_null(const struct datum *d, int64_t row) { return array_view_is_null(&d->view, datum_row(d, row)); }

/* Texts or bytes of a result, row after row; 32-bit or 64-bit offsets as the result's layout says. */
struct text_out {
    struct run_call *run;
    struct ArrowArray *array; /* whose buffers 1 and 2 are made */
    struct buf bytes;
    void *offsets;
    int64_t rows; /* done */
    bool large;
};
pennon_status text_out_begin(struct text_out *o, struct run_call *r, pennon_error *err) CHECKED;
/* The same for an array that is part of the result, of `rows` rows. */
pennon_status text_out_begin_at(struct text_out *o, struct run_call *r, struct ArrowArray *array, bool large, int64_t rows,
                                pennon_error *err) CHECKED;
/* Room for n more bytes of the running row; NULL with err (kind OffsetOverflow). o->bytes.size does not change. */
uint8_t *text_out_room(struct text_out *o, size_t n, pennon_error *err) CHECKED;
static inline void text_out_grew(struct text_out *o, size_t n) { o->bytes.size += n; }
pennon_status text_out_put(struct text_out *o, struct bytes text, pennon_error *err) CHECKED;
void text_out_end_row(struct text_out *o); /* a null row is one that nothing was put in */
void text_out_finish(struct text_out *o);  /* every row is done: the buffers go to the array */
void text_out_abandon(struct text_out *o); /* idempotent; also after finish */

/* Every row of the result is the row of one argument: which[i] is its number, or FROM_NONE for a null row. The arguments have the type of the
 * result. */
#define FROM_NONE UINT8_MAX
pennon_status run_choose(struct run_call *r, const uint8_t *which, pennon_error *err) CHECKED;
/* A shallow array of the rows of a datum, for kernels that take arrays; borrowed. */
struct ArrowArray datum_rows(const struct datum *d);
/* bind of functions that are known by name and refused: NOT_SUPPORTED. */
pennon_status bind_not_supported(struct bind_call *b, pennon_error *err);

/* ---- names of types (type_names.c) ---- */

/* Append the name of a type as arrow_typeof gives it. */
pennon_status type_name_write(const struct ArrowSchema *schema, struct buf *out, pennon_error *err) CHECKED;
/* An owned schema (name "", nullable) from such a name; INVALID_ARGUMENT of kind TypeMismatch. */
pennon_status type_name_read(struct bytes text, struct mem *mem, struct ArrowSchema *out, pennon_error *err) CHECKED;

/* ---- functions of one row ---- */

#define ROW_MAX_ARGS 6

struct row {
    struct run_call *run;
    size_t n;                        /* arguments given */
    struct bytes text[ROW_MAX_ARGS]; /* of text and binary arguments */
    int64_t integer[ROW_MAX_ARGS];   /* of integers, dates, times */
    bool null[ROW_MAX_ARGS];         /* never set for strict functions */
    struct text_out out;             /* where the result is a text */
    int64_t result;                  /* where it is an integer or a boolean */
    bool is_null;                    /* set by the function: the result is null */
    struct buf scratch;              /* of the function, kept over the rows */
    struct buf scratch2;
};
typedef pennon_status (*row_fn)(struct row *row, pennon_error *err);

/* Letters of `args`: t text, a text or what can be printed, b binary or text, i integer, u integer whose bits count. Those past the ones given do not count; the last
 * stands for all further ones.
 * Letter of `result`: s text, large where the first argument is; S utf8; B binary; x binary as large as s; i int32, int64 where the first argument is large; I int32;
 * L int64; ? boolean. */
struct row_function {
    const char *args;
    char result;
    row_fn fn;
};
pennon_status bind_rows(struct bind_call *b, const struct row_function *f, pennon_error *err) CHECKED;
pennon_status run_rows(struct run_call *r, const struct row_function *f, pennon_error *err) CHECKED;

/* ---- characters (characters.c); texts are valid UTF-8 ---- */

/* Bytes of the character that begins with this byte. */
static inline size_t utf8_step(uint8_t first) { return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4; }
/* Characters of a text. */
size_t utf8_count(struct bytes text);
/* The character at `at` < size, which moves behind it. */
uint32_t utf8_next(struct bytes text, size_t *at);
/* 1 to 4 bytes. */
size_t utf8_put(uint8_t *to, uint32_t c);
/* Bytes of the first n characters; all of the text where it has fewer. */
size_t utf8_prefix(struct bytes text, size_t n);
/* A letter or a number in the sense of Unicode (alphabetic, or of a category N). */
bool char_is_alphanumeric(uint32_t c);
/* Place of the first `what` in `text` at or behind `from`; SIZE_MAX where there is none. `what` may be empty. */
size_t bytes_find(struct bytes text, struct bytes what, size_t from);
/* Full case mapping of one character without its surroundings; how many characters `to` has. */
size_t char_upper(uint32_t c, uint32_t to[3]);
size_t char_lower(uint32_t c, uint32_t to[3]);
/* Append a text in lower case, in upper case, or with the first letter of each word in upper and the others in lower case. */
pennon_status text_put_lower(struct bytes text, struct text_out *out, pennon_error *err) CHECKED;
pennon_status text_put_upper(struct bytes text, struct text_out *out, pennon_error *err) CHECKED;
pennon_status text_put_initcap(struct bytes text, struct text_out *out, pennon_error *err) CHECKED;

#endif

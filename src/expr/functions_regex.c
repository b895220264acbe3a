/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Functions of regular expressions.
 *
 * A constant pattern is compiled when the expression is bound, so that a wrong one is refused at once. Patterns that come from rows are compiled
 * as they come, the last few being kept. Match data belong to the evaluation: any number of threads may run one expression.
 *
 * Edges are official's: regexp_count gives 0 for a null and for an empty pattern, regexp_instr 0 for an empty one and the first match wherever
 * a group is asked for; a null among the flags counts as none except in regexp_replace. Replacements know $1, ${1}, $name, ${name}, $$ and \1.
 * Source: spec expressions 7; edges asked of official. */
#include "expr/regex.h"

enum regex_id { REGEX_LIKE, REGEX_MATCH, REGEX_REPLACE, REGEX_COUNT, REGEX_INSTR };

/* Argument of the flags; 0 = the function call has none. */
static size_t flags_argument(enum regex_id id, size_t n)
{
    const size_t at = id == REGEX_LIKE || id == REGEX_MATCH ? 2 : id == REGEX_REPLACE || id == REGEX_COUNT ? 3 : 4;
    return at < n ? at : 0;
}

/* ---- patterns that come from rows ---- */

#define KEPT 8u

struct kept {
    struct regex *re; /* NULL: the slot is free, or the pattern is the state's */
    struct matcher *x;
    struct buf key; /* flags, '\0', pattern */
    bool global;
};

struct patterns {
    struct run_call *run;
    struct kept fixed; /* of the state */
    struct kept slots[KEPT];
    size_t next;
    struct buf key;
};

/* Flags without g; *global tells whether it was there. Refused where the function has no use for it. */
static pennon_status split_flags(enum regex_id id, struct bytes flags, uint8_t out[16], size_t *n, bool *global, pennon_error *err)
{
    *n = 0;
    *global = false;
    for (size_t i = 0; i < flags.size; i++) {
        if (flags.data[i] == 'g' && id != REGEX_LIKE && id != REGEX_MATCH) {
            *global = true;
        } else if (*n == 16 || flags.data[i] == 'g') {
            error_fill(err, PENNON_INVALID_ARGUMENT,
                       flags.data[i] == 'g' ? "regular expression: the flag g has no meaning here"
                                            : "regular expression: too many flags");
            return error_kind(err, "FunctionFailed");
        } else {
            out[(*n)++] = flags.data[i];
        }
    }
    return PENNON_OK;
}

static struct regex *make_regex(enum regex_id id, struct bytes pattern, struct bytes flags, struct mem *m, bool *global,
                                pennon_error *err)
{
    uint8_t text[16];
    size_t n;
    if (split_flags(id, flags, text, &n, global, err) != PENNON_OK) return NULL;
    return regex_new(pattern, bytes_of(text, n), m, err);
}

/* The pattern of a constant call. */
struct fixed_pattern {
    struct regex *re;
    bool global;
};

static void free_fixed(void *state, struct mem *m)
{
    struct fixed_pattern *f = state;
    regex_free(f->re);
    mem_free(m, f);
}

static pennon_status patterns_open(struct patterns *p, struct run_call *r, pennon_error *err)
{
    memset(p, 0, sizeof *p);
    p->run = r;
    buf_init(&p->key, r->c->mem, BUF_NO_LIMIT);
    for (size_t i = 0; i < KEPT; i++) buf_init(&p->slots[i].key, r->c->mem, BUF_NO_LIMIT);
    const struct fixed_pattern *f = r->node->state;
    if (f == NULL) return PENNON_OK;
    p->fixed.global = f->global;
    p->fixed.x = matcher_new(f->re, r->c->mem, err);
    return p->fixed.x == NULL ? err->code : PENNON_OK;
}

static void patterns_close(struct patterns *p)
{
    if (p->run == NULL) return;
    matcher_free(p->fixed.x);
    for (size_t i = 0; i < KEPT; i++) {
        matcher_free(p->slots[i].x);
        regex_free(p->slots[i].re);
        buf_free(&p->slots[i].key);
    }
    buf_free(&p->key);
}

/* The matcher for a row's pattern and flags. */
static struct kept *patterns_get(struct patterns *p, struct bytes pattern, struct bytes flags, pennon_error *err)
{
    struct mem *m = p->run->c->mem;
    if (p->fixed.x != NULL) return &p->fixed;
    p->key.size = 0;
    if (buf_append(&p->key, flags.data, flags.size, err) != PENNON_OK || buf_append_byte(&p->key, 0, err) != PENNON_OK ||
        buf_append(&p->key, pattern.data, pattern.size, err) != PENNON_OK) {
        return NULL;
    }
    for (size_t i = 0; i < KEPT; i++) {
        struct kept *k = &p->slots[i];
        if (k->x != NULL && bytes_equal(bytes_of(k->key.data, k->key.size), bytes_of(p->key.data, p->key.size))) return k;
    }
    struct kept *k = &p->slots[p->next++ % KEPT];
    matcher_free(k->x);
    regex_free(k->re);
    k->x = NULL;
    k->re = make_regex((enum regex_id)p->run->node->fn->option, pattern, flags, m, &k->global, err);
    if (k->re == NULL) return NULL;
    k->x = matcher_new(k->re, m, err);
    k->key.size = 0;
    if (k->x == NULL || buf_append(&k->key, p->key.data, p->key.size, err) != PENNON_OK) return NULL;
    return k;
}

/* ---- rows ---- */

struct regex_row {
    struct patterns patterns;
    struct text_rows texts[6];
    struct kept *k;
    struct bytes text, pattern;
};

static pennon_status row_open(struct regex_row *w, struct run_call *r, pennon_error *err)
{
    for (size_t i = 0; i < r->n; i++) {
        if (arrow_id_is_text(r->args[i].view.type.id)) w->texts[i] = text_rows_of(&r->args[i].view);
    }
    return patterns_open(&w->patterns, r, err);
}

static struct bytes text_at(const struct regex_row *w, size_t arg, int64_t row)
{
    return text_row(&w->texts[arg], datum_row(&w->patterns.run->args[arg], row));
}

/* Load a row whose text and pattern are not null. */
static pennon_status row_load(struct regex_row *w, int64_t row, pennon_error *err)
{
    const struct run_call *r = w->patterns.run;
    const size_t f = flags_argument((enum regex_id)r->node->fn->option, r->n);
    struct bytes flags = {NULL, 0};
    if (row % 1024 == 0) TRY_RETURN(call_check(r->c, err));
    if (f > 0 && !datum_is_null(&r->args[f], row)) flags = text_at(w, f, row);
    w->text = text_at(w, 0, row);
    w->pattern = text_at(w, 1, row);
    w->k = patterns_get(&w->patterns, w->pattern, flags, err);
    return w->k == NULL ? err->code : PENNON_OK;
}

static bool either_null(const struct run_call *r, int64_t row)
{
    return datum_is_null(&r->args[0], row) || datum_is_null(&r->args[1], row);
}

/* ---- regexp_like ---- */

static pennon_status run_like(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct regex_row w = {0};
    uint8_t *bits;
    TRY(run_bits(r, &bits, err));
    TRY(row_open(&w, r, err));
    for (int64_t i = 0; i < r->rows; i++) {
        bool found;
        if (either_null(r, i)) {
            TRY(run_set_null(r, i, err));
            continue;
        }
        TRY(row_load(&w, i, err));
        TRY(matcher_find(w.k->x, w.text, 0, &found, err));
        if (found) bit_set(bits, (uint64_t)i);
    }
done:
    patterns_close(&w.patterns);
    return st;
}

/* ---- regexp_match ---- */

/* The groups that took part, or the whole match where the pattern has none. */
static pennon_status append_match(struct regex_row *w, struct builder *items, pennon_error *err)
{
    const struct fixed_pattern *f = w->patterns.run->node->state;
    const uint32_t groups = regex_groups(f != NULL ? f->re : w->k->re);
    size_t start, end;
    for (uint32_t g = groups > 0 ? 1 : 0; g <= groups; g++) {
        if (!matcher_group(w->k->x, g, &start, &end)) continue;
        TRY_RETURN(builder_append_bytes(items, bytes_of(w->text.data + start, end - start), err));
    }
    return PENNON_OK;
}

static pennon_status run_match(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct regex_row w = {0};
    struct builder *b;
    TRY_NEW(b, builder_new(r->node->schema, r->c->mem, err));
    TRY(row_open(&w, r, err));
    for (int64_t i = 0; i < r->rows; i++) {
        bool found = false;
        if (!either_null(r, i)) {
            TRY(row_load(&w, i, err));
            TRY(matcher_find(w.k->x, w.text, 0, &found, err));
        }
        if (found) {
            TRY(append_match(&w, builder_child(b, 0), err));
            TRY(builder_append_row(b, err));
        } else {
            TRY(builder_append_null(b, err));
        }
    }
    array_release(r->out);
    TRY(builder_finish(b, r->out, err));
done:
    builder_free(b);
    patterns_close(&w.patterns);
    return st;
}

/* ---- regexp_replace ---- */

static bool is_name_char(uint8_t c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static pennon_status put_group(struct regex_row *w, struct bytes name, struct text_out *out, pennon_error *err)
{
    const struct fixed_pattern *f = w->patterns.run->node->state;
    const struct regex *re = f != NULL ? f->re : w->k->re;
    uint32_t group = 0;
    size_t start, end;
    bool number = name.size > 0 && name.size < 10;
    for (size_t i = 0; i < name.size && number; i++) {
        number = name.data[i] >= '0' && name.data[i] <= '9';
        group = group * 10 + (name.data[i] - '0');
    }
    if (number ? group > regex_groups(re) : !regex_group(re, name, &group)) return PENNON_OK;
    if (!matcher_group(w->k->x, group, &start, &end)) return PENNON_OK;
    return text_out_put(out, bytes_of(w->text.data + start, end - start), err);
}

/* Length of a reference at `at`, whose name is told; 0 = it is none. */
static size_t read_reference(struct bytes by, size_t at, struct bytes *name)
{
    size_t end = at + 1;
    if (by.data[at] == '\\') {
        while (end < by.size && by.data[end] >= '0' && by.data[end] <= '9') end++;
        *name = bytes_of(by.data + at + 1, end - at - 1);
        return end > at + 1 ? end - at : 0;
    }
    if (end < by.size && by.data[end] == '{') {
        const uint8_t *close = memchr(by.data + end, '}', by.size - end);
        if (close == NULL) return 0;
        *name = bytes_of(by.data + end + 1, (size_t)(close - by.data) - end - 1);
        return (size_t)(close - by.data) + 1 - at;
    }
    while (end < by.size && is_name_char(by.data[end])) end++;
    *name = bytes_of(by.data + at + 1, end - at - 1);
    return end > at + 1 ? end - at : 0;
}

static pennon_status put_replacement(struct regex_row *w, struct bytes by, struct text_out *out, pennon_error *err)
{
    size_t plain = 0;
    for (size_t at = 0; at < by.size;) {
        struct bytes name;
        size_t n = 0;
        if (by.data[at] != '$' && by.data[at] != '\\') {
            at++;
            continue;
        }
        const bool dollars = by.data[at] == '$' && at + 1 < by.size && by.data[at + 1] == '$';
        if (!dollars) n = read_reference(by, at, &name);
        if (!dollars && n == 0) {
            at++;
            continue;
        }
        /* Of two dollars one stays. */
        TRY_RETURN(text_out_put(out, bytes_of(by.data + plain, at + dollars - plain), err));
        if (!dollars) TRY_RETURN(put_group(w, name, out, err));
        at += dollars ? 2 : n;
        plain = at;
    }
    return text_out_put(out, bytes_of(by.data + plain, by.size - plain), err);
}

static pennon_status replace_row(struct regex_row *w, struct bytes by, struct text_out *out, pennon_error *err)
{
    struct match_walk walk = {0, SIZE_MAX};
    size_t copied = 0;
    for (;;) {
        bool found;
        size_t start, end;
        TRY_RETURN(matcher_next(w->k->x, w->text, &walk, &found, err));
        if (!found) break;
        (void)matcher_group(w->k->x, 0, &start, &end);
        TRY_RETURN(text_out_put(out, bytes_of(w->text.data + copied, start - copied), err));
        TRY_RETURN(put_replacement(w, by, out, err));
        copied = end;
        if (!w->k->global) break;
    }
    return text_out_put(out, bytes_of(w->text.data + copied, w->text.size - copied), err);
}

static pennon_status run_replace(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct regex_row w = {0};
    struct text_out out = {0};
    TRY(text_out_begin(&out, r, err));
    TRY(row_open(&w, r, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (run_valid(r, i)) {
            TRY(row_load(&w, i, err));
            TRY(replace_row(&w, text_at(&w, 2, i), &out, err));
        }
        text_out_end_row(&out);
    }
    text_out_finish(&out);
done:
    text_out_abandon(&out);
    patterns_close(&w.patterns);
    return st;
}

/* ---- regexp_count, regexp_instr ---- */

/* An integer argument, `missing` where it is not there or null. */
static int64_t integer_or(const struct run_call *r, size_t arg, int64_t row, int64_t missing)
{
    if (arg >= r->n || datum_is_null(&r->args[arg], row)) return missing;
    return array_view_int(&r->args[arg].view, datum_row(&r->args[arg], row));
}

/* Byte that character `start` (from 1) begins at; false: it is past the end. */
static bool start_byte(struct bytes text, int64_t start, size_t *out)
{
    *out = utf8_prefix(text, (uint64_t)start - 1);
    return *out < text.size || start == 1;
}

static pennon_status count_row(struct regex_row *w, int64_t start, int64_t *out, pennon_error *err)
{
    struct match_walk walk = {0, SIZE_MAX};
    *out = 0;
    if (start < 1) return run_fault(w->patterns.run, err, "the start must be 1 or more");
    if (w->pattern.size == 0 || !start_byte(w->text, start, &walk.at)) return PENNON_OK;
    /* What stands before the start is not there: ^ matches at the start. */
    const struct bytes rest = bytes_of(w->text.data + walk.at, w->text.size - walk.at);
    walk.at = 0;
    for (;;) {
        bool found;
        TRY_RETURN(matcher_next(w->k->x, rest, &walk, &found, err));
        if (!found) return PENNON_OK;
        ++*out;
    }
}

static pennon_status instr_row(struct regex_row *w, int64_t row, int64_t *out, pennon_error *err)
{
    const struct run_call *r = w->patterns.run;
    const int64_t start = integer_or(r, 2, row, 1), nth = integer_or(r, 3, row, 1), group = integer_or(r, 5, row, 0);
    struct match_walk walk = {0, SIZE_MAX};
    bool found = false;
    size_t from, first, last;
    *out = 0;
    if (start < 1) return run_fault(r, err, "the start must be 1 or more");
    if (nth < 1) return run_fault(r, err, "the number of the match must be 1 or more");
    if (w->pattern.size == 0 || w->text.size == 0 || !start_byte(w->text, start, &from)) return PENNON_OK;
    const struct bytes rest = bytes_of(w->text.data + from, w->text.size - from);
    for (int64_t k = 0; k < (group > 0 ? 1 : nth); k++) {
        TRY_RETURN(matcher_next(w->k->x, rest, &walk, &found, err));
        if (!found) return PENNON_OK;
    }
    const struct fixed_pattern *f = r->node->state;
    if (group < 0 || group > (int64_t)regex_groups(f != NULL ? f->re : w->k->re)) return PENNON_OK;
    if (matcher_group(w->k->x, (uint32_t)group, &first, &last)) {
        *out = start + (int64_t)utf8_count(bytes_of(rest.data, first));
    }
    return PENNON_OK;
}

static pennon_status run_numbers(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct regex_row w = {0};
    int64_t *to = NULL;
    const bool count = r->node->fn->option == REGEX_COUNT;
    TRY(run_values(r, sizeof *to, &to, err));
    TRY(row_open(&w, r, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (either_null(r, i)) {
            if (!count) TRY(run_set_null(r, i, err));
            continue;
        }
        TRY(row_load(&w, i, err));
        TRY(count ? count_row(&w, integer_or(r, 2, i, 1), &to[i], err) : instr_row(&w, i, &to[i], err));
    }
done:
    patterns_close(&w.patterns);
    return st;
}

/* ---- binding ---- */

/* A list of texts as large as argument 0. */
static pennon_status bind_list_result(struct bind_call *b, pennon_error *err)
{
    struct ArrowSchema list = {0};
    pennon_status st = PENNON_OK;
    TRY(arrow_schema_new(&list, "+l", "", ARROW_FLAG_NULLABLE, 1, b->e->mem, err));
    TRY(arrow_schema_new(list.children[0], b->types[0]->format, "item", ARROW_FLAG_NULLABLE, 0, b->e->mem, err));
    TRY(expr_add_type(b->e, &list, &b->result, err));
done:
    arrow_schema_release(&list);
    return st;
}

static pennon_status bind_regex(struct bind_call *b, pennon_error *err)
{
    const enum regex_id id = (enum regex_id)b->fn->option;
    const size_t f = flags_argument(id, b->n);
    struct bytes pattern, flags = {NULL, 0};
    for (size_t i = 0; i < b->n; i++) {
        const bool integer = (id == REGEX_COUNT && i == 2) || (id == REGEX_INSTR && (i == 2 || i == 3 || i == 5));
        TRY_RETURN(integer ? bind_integer(b, i, err) : bind_text(b, i, i == 0 && (id == REGEX_MATCH || id == REGEX_REPLACE), err));
    }
    switch (id) {
    case REGEX_LIKE: TRY_RETURN(bind_result(b, "b", err)); break;
    case REGEX_MATCH: TRY_RETURN(bind_list_result(b, err)); break;
    case REGEX_REPLACE: TRY_RETURN(bind_result(b, bind_is_large(b, 0) ? "U" : "u", err)); break;
    default: TRY_RETURN(bind_result(b, "l", err)); break;
    }
    if (!bind_constant_text(b, 1, &pattern)) return PENNON_OK;
    if (f > 0 && !bind_constant_text(b, f, &flags) && !bind_constant_null(b, f)) return PENNON_OK;
    struct fixed_pattern *state = mem_calloc(b->e->mem, 1, sizeof *state, err);
    if (state == NULL) return err->code;
    state->re = make_regex(id, pattern, flags, b->e->mem, &state->global, err);
    if (state->re == NULL) {
        mem_free(b->e->mem, state);
        return err->code;
    }
    b->state = state;
    return PENNON_OK;
}

const struct function functions_regex[] = {
    {"regexp_count", 2, 4, 0, bind_regex, run_numbers, free_fixed, REGEX_COUNT},
    {"regexp_instr", 2, 6, 0, bind_regex, run_numbers, free_fixed, REGEX_INSTR},
    {"regexp_like", 2, 3, 0, bind_regex, run_like, free_fixed, REGEX_LIKE},
    {"regexp_match", 2, 3, 0, bind_regex, run_match, free_fixed, REGEX_MATCH},
    {"regexp_replace", 3, 4, FUNCTION_STRICT, bind_regex, run_replace, free_fixed, REGEX_REPLACE},
    {NULL, 0, 0, 0, NULL, NULL, NULL, 0},
};

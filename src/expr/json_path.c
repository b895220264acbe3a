/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Paths into JSON values.
 *
 *   path   [blanks] [$] step… [blanks]
 *   step   .name  :name  ."name"  ["name"]  ['name']  .*  [*]  [ranges]
 *   ranges range, … ;  range is  n,  last,  last - n,  n to m
 *
 * Names are letters, digits and '_'. [*] and ranges of what is no array: [*] gives the value itself, ranges nothing; .* of what is no object
 * gives nothing. A path is walked step by step over the list of values found so far. Source: spec expressions 7; forms asked of official. */
#include "expr/json_path.h"

#include "expr/functions.h"

#define STEPS_MAX 1024u
#define MATCHES_MAX ((size_t)1 << 24)

struct path_reader {
    struct bytes text;
    size_t at;
    struct json_path *path;
    pennon_error *err;
};

static pennon_status bad(const struct path_reader *r)
{
    error_fill(r->err, PENNON_INVALID_ARGUMENT, "invalid JSON path '%.*s' at byte %zu", (int)min_u64(r->text.size, 200),
               (const char *)r->text.data, r->at);
    return error_kind(r->err, "FunctionFailed");
}

static uint8_t peek(const struct path_reader *r) { return r->at < r->text.size ? r->text.data[r->at] : 0; }
static void skip_blanks(struct path_reader *r)
{
    while (peek(r) == ' ' || peek(r) == '\t' || peek(r) == '\n' || peek(r) == '\r') r->at++;
}
static bool take(struct path_reader *r, char c)
{
    if (r->at == r->text.size || r->text.data[r->at] != (uint8_t)c) return false;
    r->at++;
    return true;
}
static bool take_word(struct path_reader *r, const char *word)
{
    const size_t n = strlen(word);
    if (r->text.size - r->at < n || memcmp(r->text.data + r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

static bool read_name(struct path_reader *r, struct bytes *out)
{
    const size_t start = r->at;
    while (r->at < r->text.size) {
        size_t next = r->at;
        const uint32_t c = utf8_next(r->text, &next);
        if (!char_is_alphanumeric(c) && c != '_') break;
        r->at = next;
    }
    *out = bytes_of(r->text.data + start, r->at - start);
    return out->size > 0;
}

static bool read_quoted(struct path_reader *r, struct bytes *out)
{
    const uint8_t quote = peek(r);
    const size_t start = ++r->at;
    while (r->at < r->text.size && r->text.data[r->at] != quote) r->at++;
    *out = bytes_of(r->text.data + start, r->at - start);
    return take(r, (char)quote);
}

static pennon_status add_step(struct path_reader *r, struct json_step step)
{
    struct json_path *p = r->path;
    TRY_RETURN(mem_grow(p->mem, &p->steps, &p->cap_steps, p->n_steps, sizeof *p->steps, STEPS_MAX, r->err));
    p->steps[p->n_steps++] = step;
    return PENNON_OK;
}

static bool read_digits(struct path_reader *r, int64_t *out)
{
    const size_t start = r->at;
    *out = 0;
    while (peek(r) >= '0' && peek(r) <= '9' && r->at - start < 10) *out = *out * 10 + (r->text.data[r->at++] - '0');
    return r->at > start;
}

/* n, -n, last, last - n. */
static bool read_place(struct path_reader *r, int64_t *out, bool *from_end)
{
    *from_end = take_word(r, "last");
    if (!*from_end) {
        const bool negative = take(r, '-');
        if (!read_digits(r, out)) return false;
        if (negative) *out = -*out; /* no element is there */
        return true;
    }
    *out = 0;
    skip_blanks(r);
    if (!take(r, '-')) return true;
    skip_blanks(r);
    if (!read_digits(r, out)) return false;
    *out = -*out;
    return true;
}

static pennon_status read_ranges(struct path_reader *r)
{
    struct json_path *p = r->path;
    struct json_step step = {.kind = STEP_RANGES, .range = p->n_ranges};
    do {
        struct json_range range;
        skip_blanks(r);
        if (!read_place(r, &range.first, &range.first_from_end)) return bad(r);
        range.last = range.first;
        range.last_from_end = range.first_from_end;
        skip_blanks(r);
        if (take_word(r, "to ")) {
            skip_blanks(r);
            if (!read_place(r, &range.last, &range.last_from_end)) return bad(r);
            skip_blanks(r);
        }
        TRY_RETURN(mem_grow(p->mem, &p->ranges, &p->cap_ranges, p->n_ranges, sizeof *p->ranges, STEPS_MAX, r->err));
        p->ranges[p->n_ranges++] = range;
        step.n_ranges++;
    } while (take(r, ','));
    return take(r, ']') ? add_step(r, step) : bad(r);
}

static pennon_status read_bracket(struct path_reader *r)
{
    struct json_step step = {.kind = STEP_ITEMS};
    skip_blanks(r);
    if (take(r, '*')) {
        skip_blanks(r);
        return take(r, ']') ? add_step(r, step) : bad(r);
    }
    if (peek(r) != '"' && peek(r) != '\'') return read_ranges(r);
    step.kind = STEP_FIELD;
    if (!read_quoted(r, &step.name)) return bad(r);
    skip_blanks(r);
    return take(r, ']') ? add_step(r, step) : bad(r);
}

static pennon_status read_field(struct path_reader *r, bool dotted)
{
    struct json_step step = {.kind = STEP_FIELD};
    if (dotted && take(r, '*')) {
        step.kind = STEP_FIELDS;
        return add_step(r, step);
    }
    const bool read = dotted && peek(r) == '"' ? read_quoted(r, &step.name) : read_name(r, &step.name);
    return read ? add_step(r, step) : bad(r);
}

pennon_status json_path_parse(struct bytes text, struct mem *m, struct json_path *out, pennon_error *err)
{
    memset(out, 0, sizeof *out);
    out->mem = m;
    buf_init(&out->text, m, BUF_NO_LIMIT);
    TRY_RETURN(buf_append(&out->text, text.data, text.size, err));
    struct path_reader r = {bytes_of(out->text.data, out->text.size), 0, out, err};
    skip_blanks(&r);
    const bool rooted = take(&r, '$');
    /* A path may begin with a bare name. */
    const uint8_t first = peek(&r);
    if (!rooted && first != 0 && first != '.' && first != ':' && first != '[') TRY_RETURN(read_field(&r, false));
    for (skip_blanks(&r); r.at < r.text.size; skip_blanks(&r)) {
        if (take(&r, '.') || take(&r, ':')) {
            TRY_RETURN(read_field(&r, true));
        } else if (take(&r, '[')) {
            TRY_RETURN(read_bracket(&r));
        } else if (peek(&r) == '?') {
            return error_set(err, PENNON_NOT_SUPPORTED, "JSON path '%.*s': filters are not supported", (int)min_u64(text.size, 200),
                             (const char *)text.data);
        } else {
            return bad(&r);
        }
    }
    return PENNON_OK;
}

void json_path_free(struct json_path *p)
{
    if (p->mem == NULL) return;
    mem_free(p->mem, p->steps);
    mem_free(p->mem, p->ranges);
    buf_free(&p->text);
    memset(p, 0, sizeof *p);
}

/* ---- walking ---- */

static pennon_status put_value(struct buf *out, const struct jsonb_value *v, pennon_error *err)
{
    if (out->size / sizeof *v >= MATCHES_MAX) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "JSON path: more than %zu matches in one value", MATCHES_MAX);
    }
    return buf_append(out, v, sizeof *v, err);
}

/* All elements, or those of the ranges. */
static pennon_status put_items(const struct json_path *p, const struct json_step *s, const struct jsonb_value *v, struct buf *out,
                               pennon_error *err)
{
    const int64_t n = (int64_t)jsonb_count(v);
    for (size_t k = 0; k < s->n_ranges; k++) {
        const struct json_range *range = &p->ranges[s->range + k];
        const int64_t first = range->first_from_end ? n - 1 + range->first : range->first;
        const int64_t last = range->last_from_end ? n - 1 + range->last : range->last;
        struct jsonb_walk w;
        if (first < 0 || first >= n || last < first) continue;
        TRY_RETURN(jsonb_walk_begin(v, &w, err));
        for (int64_t i = 0; i <= last; i++) {
            struct bytes key;
            struct jsonb_value item;
            bool found;
            TRY_RETURN(jsonb_walk_next(&w, &key, &item, &found, err));
            if (!found) break;
            if (i >= first) TRY_RETURN(put_value(out, &item, err));
        }
    }
    return PENNON_OK;
}

static pennon_status put_children(const struct jsonb_value *v, struct buf *out, pennon_error *err)
{
    struct jsonb_walk w;
    TRY_RETURN(jsonb_walk_begin(v, &w, err));
    for (;;) {
        struct bytes key;
        struct jsonb_value child;
        bool found;
        TRY_RETURN(jsonb_walk_next(&w, &key, &child, &found, err));
        if (!found) return PENNON_OK;
        TRY_RETURN(put_value(out, &child, err));
    }
}

static pennon_status step_into(const struct json_path *p, const struct json_step *s, const struct jsonb_value *v, struct buf *out,
                               pennon_error *err)
{
    struct jsonb_value child;
    bool found;
    switch (s->kind) {
    case STEP_FIELD:
        TRY_RETURN(jsonb_field(v, s->name, &child, &found, err));
        return found ? put_value(out, &child, err) : PENNON_OK;
    case STEP_FIELDS: return v->kind == JSONB_OBJECT ? put_children(v, out, err) : PENNON_OK;
    case STEP_ITEMS: return v->kind == JSONB_ARRAY ? put_children(v, out, err) : put_value(out, v, err);
    default: return v->kind == JSONB_ARRAY ? put_items(p, s, v, out, err) : PENNON_OK;
    }
}

pennon_status json_path_find(const struct json_path *p, const struct jsonb_value *root, struct buf *out, struct buf *scratch,
                             pennon_error *err)
{
    out->size = 0;
    TRY_RETURN(put_value(out, root, err));
    for (size_t k = 0; k < p->n_steps; k++) {
        struct buf swap = *scratch;
        *scratch = *out;
        *out = swap;
        out->size = 0;
        const struct jsonb_value *from = (const struct jsonb_value *)scratch->data;
        const size_t n = scratch->size / sizeof *from;
        for (size_t i = 0; i < n; i++) TRY_RETURN(step_into(p, &p->steps[k], &from[i], out, err));
    }
    return PENNON_OK;
}

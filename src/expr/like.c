/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* LIKE and ILIKE.
 *
 * A pattern is cut at its % into segments. The first must stand at the beginning of the text, the last at its end, those between are
 * looked for one after the other, each at the first place behind the one before: no other choice can succeed where that fails, so nothing is
 * ever tried again and the time is bounded by text times the longest segment with _ in it (linear without).
 * A segment is bytes; a byte flagged as `any` is a _ and takes one character. Escapes: \% \_ \\; a backslash before anything else is dropped, at
 * the end it is itself.
 *
 *   'abc'     equal          'abc%'    begins          '%abc'    ends          '%abc%'   contains
 * have loops of their own. Contains over texts with offsets searches the bytes of all rows at once.
 * ILIKE folds pattern and text by Unicode simple folding (one character to one), then goes the same way.
 * Source: spec expressions 5. */
#include <utf8proc.h>

#include "expr/compare_forms.h"
#include "expr/evaluate.h"

enum like_kind { LIKE_EQUAL, LIKE_BEGINS, LIKE_ENDS, LIKE_CONTAINS, LIKE_GENERAL };

struct segment {
    size_t start, size; /* in bytes and any */
    size_t chars;
    bool has_any;
};

struct like_pattern {
    struct mem *mem;
    enum like_kind kind;
    bool fold;
    struct buf bytes; /* of all segments */
    struct buf any;   /* one byte each: 1 = this is a _ */
    struct buf segments;
    size_t n; /* segments: one more than there are runs of % */
};

/* Bytes and rows that are searched at once for a needle, and the longest needle that is: comparing it where its ends are found costs so much. */
#define WINDOW_BYTES ((int64_t)1 << 15)
#define WINDOW_ROWS ((int64_t)1 << 12)
#define ACROSS_ROWS_MAX 64u

static const struct segment *segment_at(const struct like_pattern *p, size_t i)
{
    return (const struct segment *)(const void *)p->segments.data + i;
}

/* ------------------------------------------------------------------------------------------------------------- folding */

/* Simple case folding: what is one letter in both cases becomes one character. The dotted and the dotless i stay apart from i. */
static utf8proc_int32_t fold_char(utf8proc_int32_t c)
{
    if (c == 0x130 || c == 0x131) return c;
    return utf8proc_tolower(utf8proc_toupper(c));
}

/* Folded bytes to `to`, which has room for 2 * n + 4 (folding makes two bytes to three at most). Bytes that are no UTF-8 stay. */
static size_t fold_text(const uint8_t *text, size_t n, uint8_t *to)
{
    size_t at = 0;
    for (size_t i = 0; i < n;) {
        uint8_t b = text[i];
        if (b < 0x80) {
            to[at++] = (uint8_t)(b >= 'A' && b <= 'Z' ? b + 32 : b);
            i++;
            continue;
        }
        utf8proc_int32_t c = 0;
        utf8proc_ssize_t taken = utf8proc_iterate(text + i, (utf8proc_ssize_t)(n - i < 4 ? n - i : 4), &c);
        if (taken <= 0) {
            to[at++] = b;
            i++;
            continue;
        }
        at += (size_t)utf8proc_encode_char(fold_char(c), to + at);
        i += (size_t)taken;
    }
    return at;
}

/* ------------------------------------------------------------------------------------------------------------ patterns */

static void pattern_init(struct like_pattern *p, struct mem *m, bool fold)
{
    *p = (struct like_pattern){.mem = m, .fold = fold};
    buf_init(&p->bytes, m, BUF_NO_LIMIT);
    buf_init(&p->any, m, BUF_NO_LIMIT);
    buf_init(&p->segments, m, BUF_NO_LIMIT);
}

static void pattern_end(struct like_pattern *p)
{
    buf_free(&p->bytes);
    buf_free(&p->any);
    buf_free(&p->segments);
}

void like_pattern_free(struct like_pattern *p)
{
    if (p == NULL) return;
    pattern_end(p);
    mem_free(p->mem, p);
}

static pennon_status end_segment(struct like_pattern *p, size_t start, size_t chars, bool has_any, pennon_error *err)
{
    struct segment s = {start, p->bytes.size - start, chars, has_any};
    p->n++;
    return buf_append(&p->segments, &s, sizeof s, err);
}

static enum like_kind kind_of(const struct like_pattern *p)
{
    for (size_t i = 0; i < p->n; i++) {
        if (segment_at(p, i)->has_any) return LIKE_GENERAL;
    }
    bool first = segment_at(p, 0)->size > 0, last = segment_at(p, p->n - 1)->size > 0;
    if (p->n == 1) return LIKE_EQUAL;
    if (p->n == 2 && !last) return LIKE_BEGINS;
    if (p->n == 2 && !first) return LIKE_ENDS;
    return p->n == 3 && !first && !last ? LIKE_CONTAINS : LIKE_GENERAL;
}

/* Cut into segments; what was there is replaced. */
static pennon_status pattern_set(struct like_pattern *p, struct bytes text, pennon_error *err)
{
    size_t start = 0, chars = 0;
    bool has_any = false;
    p->bytes.size = 0;
    p->any.size = 0;
    p->segments.size = 0;
    p->n = 0;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        bool literal = false;
        if (c == '\\' && i + 1 < text.size) {
            c = text.data[++i];
            literal = true;
        }
        if (c == '%' && !literal) {
            while (i + 1 < text.size && text.data[i + 1] == '%') i++;
            TRY_RETURN(end_segment(p, start, chars, has_any, err));
            start = p->bytes.size;
            chars = 0;
            has_any = false;
            continue;
        }
        bool any = c == '_' && !literal;
        has_any = has_any || any;
        chars += (c & 0xc0) != 0x80;
        TRY_RETURN(buf_append_byte(&p->bytes, c, err));
        TRY_RETURN(buf_append_byte(&p->any, any, err));
    }
    TRY_RETURN(end_segment(p, start, chars, has_any, err));
    p->kind = kind_of(p);
    return PENNON_OK;
}

pennon_status node_like_pattern(struct expr *e, struct node *like, struct bytes pattern, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct like_pattern *p = NULL;
    uint8_t *folded = NULL;
    TRY(expr_own(e, like, err));
    TRY_NEW(p, mem_calloc(e->mem, 1, sizeof *p, err));
    pattern_init(p, e->mem, like->fold);
    if (like->fold) {
        TRY_NEW(folded, mem_alloc(e->mem, 2 * pattern.size + 4, err));
        pattern = bytes_of(folded, fold_text(pattern.data, pattern.size, folded));
    }
    TRY(pattern_set(p, pattern, err));
    like_pattern_free(like->pattern);
    like->pattern = p;
    p = NULL;
done:
    mem_free(e->mem, folded);
    like_pattern_free(p);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ matching */

static size_t char_size(const uint8_t *p, size_t left)
{
    size_t n = 1;
    while (n < left && n < 4 && (p[n] & 0xc0) == 0x80) n++;
    return n;
}

/* The segment stands at the beginning of the text: where it ends, or NULL. */
static const uint8_t *match_here(const struct like_pattern *p, const struct segment *s, const uint8_t *at, const uint8_t *end)
{
    const uint8_t *bytes = p->bytes.data + s->start, *any = p->any.data + s->start;
    if (!s->has_any) {
        if ((size_t)(end - at) < s->size) return NULL;
        return s->size == 0 || memcmp(at, bytes, s->size) == 0 ? at + s->size : NULL;
    }
    for (size_t i = 0; i < s->size; i++) {
        if (at == end) return NULL;
        if (any[i]) {
            at += char_size(at, (size_t)(end - at));
        } else if (*at++ != bytes[i]) {
            return NULL;
        }
    }
    return at;
}

static const uint8_t *find_bytes(const uint8_t *text, size_t n, const uint8_t *needle, size_t size)
{
    if (size == 0) return text;
    if (n < size) return NULL;
    return size == 1 ? memchr(text, needle[0], n) : memmem(text, n, needle, size);
}

/* The first place of the segment: where it ends there, or NULL. */
static const uint8_t *match_somewhere(const struct like_pattern *p, const struct segment *s, const uint8_t *at, const uint8_t *end)
{
    if (!s->has_any) {
        const uint8_t *found = find_bytes(at, (size_t)(end - at), p->bytes.data + s->start, s->size);
        return found == NULL ? NULL : found + s->size;
    }
    for (; at < end; at += char_size(at, (size_t)(end - at))) {
        const uint8_t *behind = match_here(p, s, at, end);
        if (behind != NULL) return behind;
    }
    return NULL;
}

/* Where the last `chars` characters begin; NULL: there are fewer. */
static const uint8_t *back_chars(const uint8_t *at, const uint8_t *end, size_t chars)
{
    for (; chars > 0; chars--) {
        if (end == at) return NULL;
        do {
            end--;
        } while (end > at && (*end & 0xc0) == 0x80);
    }
    return end;
}

static bool match_general(const struct like_pattern *p, struct bytes text)
{
    const uint8_t *at = text.data, *end = text.data + text.size;
    const struct segment *last = segment_at(p, p->n - 1);
    at = match_here(p, segment_at(p, 0), at, end);
    if (at == NULL) return false;
    if (p->n == 1) return at == end;
    const uint8_t *tail = last->has_any                     ? back_chars(at, end, last->chars)
                          : (size_t)(end - at) < last->size ? NULL
                                                            : end - last->size;
    if (tail == NULL || match_here(p, last, tail, end) != end) return false;
    for (size_t i = 1; i + 1 < p->n; i++) {
        at = match_somewhere(p, segment_at(p, i), at, tail);
        if (at == NULL) return false;
    }
    return true;
}

static bool match_text(const struct like_pattern *p, struct bytes text)
{
    size_t size = p->bytes.size;
    if (p->kind == LIKE_GENERAL) return match_general(p, text);
    if (text.size < size) return false;
    switch (p->kind) {
    case LIKE_EQUAL: return text.size == size && (size == 0 || memcmp(text.data, p->bytes.data, size) == 0);
    case LIKE_BEGINS: return size == 0 || memcmp(text.data, p->bytes.data, size) == 0;
    case LIKE_ENDS: return size == 0 || memcmp(text.data + text.size - size, p->bytes.data, size) == 0;
    default: return find_bytes(text.data, text.size, p->bytes.data, size) != NULL;
    }
}

/* ---------------------------------------------------------------------------------------------------------------- rows */

/* Rows of one batch: texts, and a place to fold them in. */
struct like_rows {
    struct evaluation *ev;
    struct text_rows texts;
    const uint64_t *look; /* rows that are valid and needed; NULL = all */
    uint8_t *folded;      /* or NULL */
};

/* Room to fold the longest row. */
static pennon_status fold_room(struct like_rows *r, int64_t rows, pennon_error *err)
{
    size_t most = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (r->look != NULL && (r->look[i / 64] >> (i % 64) & 1) == 0) continue;
        size_t size = text_row(&r->texts, i).size;
        most = size > most ? size : most;
    }
    r->folded = arena_alloc(r->ev->scratch, 2 * most + 4, err);
    return r->folded == NULL ? err->code : PENNON_OK;
}

static struct bytes row_text(const struct like_rows *r, int64_t row)
{
    struct bytes t = text_row(&r->texts, row);
    return r->folded == NULL ? t : bytes_of(r->folded, fold_text(t.data, t.size, r->folded));
}

static pennon_status match_rows(const struct like_rows *r, const struct like_pattern *p, uint64_t *out, pennon_error *err)
{
    int64_t rows = r->ev->rows;
    for (int64_t start = 0; start < rows; start += 64) {
        int64_t n = rows - start < 64 ? rows - start : 64;
        uint64_t word = 0, known = r->look != NULL ? r->look[start / 64] : UINT64_MAX;
        if (start % ROWS_PER_CHECK == 0) TRY_RETURN(call_check(r->ev->c, err));
        if (known == 0) {
            out[start / 64] = 0;
            continue;
        }
        for (int64_t j = 0; j < n; j++) {
            if ((known >> j & 1) == 0) continue; /* what stands there may be anything, and long */
            word |= (uint64_t)match_text(p, row_text(r, start + j)) << j;
        }
        out[start / 64] = word;
    }
    return PENNON_OK;
}

/* One character or a prefix of up to 8 bytes: rows that are long enough are compared as one word. */
static bool begins_short(const struct text_rows *t, int64_t row, uint64_t want, uint64_t mask, size_t size)
{
    struct bytes b = text_row(t, row);
    uint64_t have = 0;
    if (b.size < size) return false;
    if (b.size >= 8) {
        have = load_u64(b.data);
    } else {
        for (size_t i = 0; i < size; i++) have |= (uint64_t)b.data[i] << (8 * i);
    }
    return (have & mask) == want;
}

static pennon_status match_beginnings(const struct like_rows *r, const struct like_pattern *p, uint64_t *out, pennon_error *err)
{
    int64_t rows = r->ev->rows;
    size_t size = p->bytes.size;
    uint64_t want = 0, mask = size == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * size)) - 1;
    for (size_t i = 0; i < size; i++) want |= (uint64_t)p->bytes.data[i] << (8 * i);
    for (int64_t start = 0; start < rows; start += 64) {
        int64_t n = rows - start < 64 ? rows - start : 64;
        uint64_t word = 0;
        if (start % ROWS_PER_CHECK == 0) TRY_RETURN(call_check(r->ev->c, err));
        for (int64_t j = 0; j < n; j++) word |= (uint64_t)begins_short(&r->texts, start + j, want, mask, size) << j;
        out[start / 64] = word;
    }
    return PENNON_OK;
}

static int64_t offset_at(const struct text_rows *t, int64_t i)
{
    const uint8_t *p = t->offsets + (size_t)i * t->width;
    return t->layout == LAYOUT_VAR32 ? text_i32(p) : text_i64(p);
}

/* Is a bit of [first, first + n) set? `bits` has a word more. */
static bool any_bit(const uint64_t *bits, size_t first, size_t n)
{
    for (; n > 0; n -= n < 64 ? n : 64, first += 64) {
        const unsigned shift = (unsigned)(first & 63);
        uint64_t word = bits[first / 64] >> shift;
        if (shift) word |= bits[first / 64 + 1] << (64 - shift);
        if (n < 64) word &= (UINT64_C(1) << n) - 1;
        if (word) return true;
    }
    return false;
}

/* Rows whose texts fit the window, half as many at each try; 0: not even one. */
static int64_t rows_in_window(const struct text_rows *t, int64_t row, int64_t rows)
{
    int64_t n = rows - row < WINDOW_ROWS ? rows - row : WINDOW_ROWS;
    while (n > 0 && offset_at(t, row + n) - offset_at(t, row) > WINDOW_BYTES) n /= 2;
    return n;
}

/* Contains, over the bytes of some rows as one text: where the needle begins is marked for all of them, then each row looks at its own marks. */
static pennon_status match_across_rows(const struct like_rows *r, const struct like_pattern *p, uint64_t *out, pennon_error *err)
{
    uint64_t places[WINDOW_BYTES / 64 + 3];
    const struct text_rows *t = &r->texts;
    const int64_t rows = r->ev->rows, size = (int64_t)p->bytes.size;
    const struct compare_forms *forms = compare_forms_best();
    memset(out, 0, word_count(rows) * sizeof *out);
    for (int64_t row = 0; row < rows;) {
        const int64_t n = rows_in_window(t, row, rows), first = offset_at(t, row);
        if (row % 4096 < n || n == 0) TRY_RETURN(call_check(r->ev->c, err));
        if (n == 0) {
            const struct bytes text = text_row(t, row);
            if (find_bytes(text.data, text.size, p->bytes.data, p->bytes.size)) out[row / 64] |= UINT64_C(1) << (row % 64);
            row++;
            continue;
        }
        const size_t bytes = (size_t)(offset_at(t, row + n) - first);
        forms->find(t->bytes + first, bytes, p->bytes.data, p->bytes.size, places);
        places[bytes / 64 + 1] = places[bytes / 64 + 2] = 0;
        const uint8_t *marks = (const uint8_t *)places;
        int64_t start = 0;
        for (int64_t i = row; i < row + n; i++) {
            const int64_t end = offset_at(t, i + 1) - first, most = end - start - size + 1; /* places within the row */
            uint64_t word;
            memcpy(&word, marks + start / 8, sizeof word); /* at least 57 of them */
            word = word >> (start & 7) & (most > 0 ? UINT64_MAX >> (64 - (most < 56 ? most : 56)) : 0);
            bool hit = word != 0;
            if (UNLIKELY(most > 56)) hit = hit || any_bit(places, (size_t)start + 56, (size_t)(most - 56));
            out[i / 64] |= (uint64_t)hit << (i % 64);
            start = end;
        }
        row += n;
    }
    return PENNON_OK;
}

/* So few rows are asked for that each is better looked at alone. */
static bool few_rows(const struct like_rows *r)
{
    return r->look != NULL && words_count(r->look, r->ev->rows) < (uint64_t)r->ev->rows / 16;
}

static pennon_status match_constant(struct like_rows *r, const struct like_pattern *p, uint64_t *out, pennon_error *err)
{
    size_t size = p->bytes.size;
    bool offsets = r->texts.layout == LAYOUT_VAR32 || r->texts.layout == LAYOUT_VAR64;
    if (p->fold) TRY_RETURN(fold_room(r, r->ev->rows, err));
    if (few_rows(r)) return match_rows(r, p, out, err);
    if (!p->fold && p->kind == LIKE_CONTAINS && offsets && size > 0 && size <= ACROSS_ROWS_MAX)
        return match_across_rows(r, p, out, err);
    if (!p->fold && p->kind == LIKE_BEGINS && size > 0 && size <= 8) return match_beginnings(r, p, out, err);
    return match_rows(r, p, out, err);
}

/* A pattern a row: each is cut anew, in buffers that only grow. */
static pennon_status match_patterns(struct like_rows *r, bool fold, const struct datum *patterns, uint64_t *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct like_pattern p;
    struct buf folded;
    int64_t rows = r->ev->rows;
    struct text_rows texts = text_rows_of(&patterns->view);
    pattern_init(&p, r->ev->c->mem, fold);
    buf_init(&folded, r->ev->c->mem, BUF_NO_LIMIT);
    if (fold) TRY(fold_room(r, rows, err));
    memset(out, 0, word_count(rows) * sizeof *out);
    for (int64_t i = 0; i < rows; i++) {
        if (i % ROWS_PER_CHECK == 0) TRY(call_check(r->ev->c, err));
        if (r->look != NULL && (r->look[i / 64] >> (i % 64) & 1) == 0) continue;
        struct bytes pattern = text_row(&texts, datum_row(patterns, i));
        if (fold) {
            TRY(buf_reserve(&folded, 2 * pattern.size + 4, err));
            pattern = bytes_of(folded.data, fold_text(pattern.data, pattern.size, folded.data));
        }
        TRY(pattern_set(&p, pattern, err));
        out[i / 64] |= (uint64_t)match_text(&p, row_text(r, i)) << (i % 64);
    }
done:
    buf_free(&folded);
    pattern_end(&p);
    return st;
}

/* Texts of rows, one each, of no dictionary. */
static pennon_status like_plain(struct evaluation *ev, const struct node *n, const struct datum *text, const struct datum *pattern,
                                struct truth *out, pennon_error *err)
{
    uint64_t *valid_text = NULL, *valid_pattern = NULL, *valid = NULL, *look = NULL;
    ASSERT(text->view.type.id != ARROW_DICTIONARY && (pattern != NULL || n->pattern != NULL));
    uint64_t *value = words_new(ev->scratch, ev->rows, err);
    if (value == NULL) return err->code;
    TRY_RETURN(datum_valid(ev->scratch, text, ev->rows, &valid_text, err));
    if (pattern != NULL) TRY_RETURN(datum_valid(ev->scratch, pattern, ev->rows, &valid_pattern, err));
    TRY_RETURN(words_both(ev->scratch, valid_text, valid_pattern, ev->rows, &valid, err));
    TRY_RETURN(words_both(ev->scratch, valid, ev->need, ev->rows, &look, err));
    struct like_rows r = {.ev = ev, .look = look, .texts = text_rows_of(&text->view)};
    TRY_RETURN(pattern == NULL ? match_constant(&r, n->pattern, value, err) : match_patterns(&r, n->fold, pattern, value, err));
    *out = truth_of_words(value, valid, ev->rows);
    return PENNON_OK;
}

/* Rows of plain texts where a side is a dictionary, or one text for all rows, and patterns differ. */
static pennon_status plain_rows(struct evaluation *ev, const struct datum *from, struct datum *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray array = {.release = NULL};
    struct datum values = {.scalar = false}, copy = *from;
    const struct ArrowSchema *schema = from->view.schema;
    if (from->view.type.id == ARROW_DICTIONARY) {
        schema = schema->dictionary;
        TRY(cast_datum(ev->c, from, schema, false, ev->scratch, ev->rows, &values, err));
        datum_move(&values, &copy);
    }
    copy.array.release = from->view.type.id == ARROW_DICTIONARY ? copy.array.release : NULL;
    TRY(datum_to_array(ev->c, &copy, schema, ev->rows, &array, err));
    TRY(datum_own(out, schema, &array, false, ev->scratch, err));
done:
    if (from->view.type.id == ARROW_DICTIONARY) datum_release(&copy);
    datum_release(&values);
    return st;
}

pennon_status like_data(struct evaluation *ev, const struct node *n, const struct datum *text, const struct datum *pattern,
                        struct truth *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct truth part;
    struct datum rows = {.scalar = false}, patterns = {.scalar = false};
    bool null_type = text->view.type.id == ARROW_NULL || (pattern != NULL && pattern->view.type.id == ARROW_NULL);
    if (null_type) {
        TRY(truth_constant(ev->scratch, ev->rows, false, true, out, err));
        goto done;
    }
    if (text->scalar && (pattern == NULL || pattern->scalar)) {
        struct evaluation one = evaluation_of_rows(ev, 1);
        struct datum row = {.view = text->view};
        TRY(like_data(&one, n, &row, pattern, &part, err));
        bool is_null = part.valid != NULL && (part.valid[0] & 1) == 0;
        bool yes = (part.value[0] & 1) != 0;
        TRY(truth_constant(ev->scratch, ev->rows, yes, is_null, out, err));
        goto done; /* the inner one has turned it */
    }
    if (pattern != NULL && (text->scalar || text->view.type.id == ARROW_DICTIONARY)) {
        TRY(plain_rows(ev, text, &rows, err));
        text = &rows;
    }
    if (pattern != NULL && pattern->view.type.id == ARROW_DICTIONARY) {
        TRY(plain_rows(ev, pattern, &patterns, err));
        pattern = &patterns;
    }
    if (text->view.type.id == ARROW_DICTIONARY) {
        struct datum values;
        dictionary_values(text, &values);
        struct evaluation of_values = evaluation_of_rows(ev, values.view.length);
        TRY(like_plain(&of_values, n, &values, NULL, &part, err));
        TRY(dictionary_spread(ev, text, &part, out, err));
    } else {
        TRY(like_plain(ev, n, text, pattern, out, err));
    }
    if (n->negated) truth_not(out, ev->rows);
done:
    datum_release(&rows);
    datum_release(&patterns);
    return st;
}

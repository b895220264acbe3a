/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Functions of texts, one row at a time.
 *
 * Positions and lengths count characters (code points), from 1. Large texts stay large; numbers and dates are printed where official does so and
 * refused where it refuses. Everything but concat and concat_ws is null where an argument is null.
 * Source: spec expressions 7; edges asked of official. */
#include <stdio.h>

#include "expr/functions.h"

static pennon_status put(struct row *row, struct bytes text, pennon_error *err) { return text_out_put(&row->out, text, err); }

static struct bytes part(struct bytes text, size_t start, size_t end)
{
    ASSERT(start <= end && end <= text.size);
    return bytes_of(text.data + start, end - start);
}

/* ---- lengths and codes ---- */

static pennon_status row_length(struct row *row, pennon_error *err)
{
    UNUSED(err);
    row->result = (int64_t)utf8_count(row->text[0]);
    return PENNON_OK;
}

static pennon_status row_octets(struct row *row, pennon_error *err)
{
    UNUSED(err);
    row->result = (int64_t)row->text[0].size;
    return PENNON_OK;
}

static pennon_status row_bits(struct row *row, pennon_error *err)
{
    if (row->run->node->type.id == ARROW_INT32 && row->text[0].size > INT32_MAX / 8) {
        return run_fault(row->run, err, "a text of %zu bytes has more bits than an int32 can count", row->text[0].size);
    }
    row->result = (int64_t)row->text[0].size * 8;
    return PENNON_OK;
}

static pennon_status row_ascii(struct row *row, pennon_error *err)
{
    size_t at = 0;
    UNUSED(err);
    row->result = row->text[0].size == 0 ? 0 : utf8_next(row->text[0], &at);
    return PENNON_OK;
}

static pennon_status row_chr(struct row *row, pennon_error *err)
{
    const int64_t c = row->integer[0];
    uint8_t to[4];
    if (c < 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
        return run_fault(row->run, err, "%" PRId64 " is no Unicode character", c);
    }
    return put(row, bytes_of(to, utf8_put(to, (uint32_t)c)), err);
}

/* ---- case ---- */

static pennon_status row_lower(struct row *row, pennon_error *err) { return text_put_lower(row->text[0], &row->out, err); }
static pennon_status row_upper(struct row *row, pennon_error *err) { return text_put_upper(row->text[0], &row->out, err); }
static pennon_status row_initcap(struct row *row, pennon_error *err) { return text_put_initcap(row->text[0], &row->out, err); }

/* ---- cutting ---- */

/* The first n characters, or all but the last -n. */
static size_t left_end(struct bytes text, int64_t n)
{
    if (n >= 0) return utf8_prefix(text, (uint64_t)n);
    const uint64_t count = utf8_count(text), less = 0 - (uint64_t)n;
    return less >= count ? 0 : utf8_prefix(text, count - less);
}

static pennon_status row_left(struct row *row, pennon_error *err)
{
    return put(row, part(row->text[0], 0, left_end(row->text[0], row->integer[1])), err);
}

static pennon_status row_right(struct row *row, pennon_error *err)
{
    const struct bytes text = row->text[0];
    const int64_t n = row->integer[1];
    size_t start;
    if (n < 0) {
        start = utf8_prefix(text, 0 - (uint64_t)n);
    } else {
        const uint64_t count = utf8_count(text);
        start = (uint64_t)n >= count ? 0 : utf8_prefix(text, count - (uint64_t)n);
    }
    return put(row, part(text, start, text.size), err);
}

/* From character `start` (1 = the first; earlier ones are counted but not there), `count` of them or to the end. */
static pennon_status row_substr(struct row *row, pennon_error *err)
{
    const struct bytes text = row->text[0];
    const int64_t start = row->integer[1];
    const size_t from = start <= 1 ? 0 : utf8_prefix(text, (uint64_t)start - 1);
    if (row->n < 3) return put(row, part(text, from, text.size), err);
    const int64_t count = row->integer[2];
    int64_t end;
    if (count < 0) return run_fault(row->run, err, "negative length %" PRId64, count);
    if (__builtin_add_overflow(start, count, &end)) end = INT64_MAX;
    if (end <= 1 || end <= start) return PENNON_OK;
    const struct bytes rest = part(text, from, text.size);
    return put(row, part(rest, 0, utf8_prefix(rest, (uint64_t)(end - (start < 1 ? 1 : start)))), err);
}

/* Is the character at p one of those in `set`? */
static bool in_chars(const uint8_t *p, size_t n, struct bytes set)
{
    for (size_t at = 0; at < set.size;) {
        const size_t step = utf8_step(set.data[at]);
        if (step == n && memcmp(p, set.data + at, n) == 0) return true;
        at += step;
    }
    return false;
}

enum { TRIM_LEFT = 1, TRIM_RIGHT = 2 };

static pennon_status trim(struct row *row, unsigned sides, pennon_error *err)
{
    const struct bytes text = row->text[0], set = row->n > 1 ? row->text[1] : bytes_str(" ");
    size_t start = 0, end = text.size;
    while ((sides & TRIM_LEFT) && start < end) {
        const size_t step = utf8_step(text.data[start]);
        if (!in_chars(text.data + start, step, set)) break;
        start += step;
    }
    while ((sides & TRIM_RIGHT) && start < end) {
        size_t last = end - 1;
        while (last > start && (text.data[last] & 0xc0) == 0x80) last--;
        if (!in_chars(text.data + last, end - last, set)) break;
        end = last;
    }
    return put(row, part(text, start, end), err);
}

static pennon_status row_btrim(struct row *row, pennon_error *err) { return trim(row, TRIM_LEFT | TRIM_RIGHT, err); }
static pennon_status row_ltrim(struct row *row, pennon_error *err) { return trim(row, TRIM_LEFT, err); }
static pennon_status row_rtrim(struct row *row, pennon_error *err) { return trim(row, TRIM_RIGHT, err); }

/* ---- filling ---- */

/* `count` characters of the fill text, over and over. */
static pennon_status put_fill(struct row *row, struct bytes fill, uint64_t count, pennon_error *err)
{
    const uint64_t per = utf8_count(fill);
    ASSERT(per > 0);
    /* Asked for as a whole first, so that a huge count fails before it is written. */
    uint64_t size;
    if (mul_overflows(count / per, fill.size, &size)) size = SIZE_MAX / 2;
    if (text_out_room(&row->out, (size_t)min_u64(size, SIZE_MAX / 2), err) == NULL) return err->code;
    for (uint64_t k = 0; k < count / per; k++) TRY_RETURN(put(row, fill, err));
    return put(row, part(fill, 0, utf8_prefix(fill, (size_t)(count % per))), err);
}

static pennon_status pad(struct row *row, bool left, pennon_error *err)
{
    const struct bytes text = row->text[0], fill = row->n > 2 ? row->text[2] : bytes_str(" ");
    const int64_t wanted = row->integer[1] < 0 ? 0 : row->integer[1];
    if (wanted > INT32_MAX) return run_fault(row->run, err, "a length of %" PRId64 " is too large", wanted);
    const uint64_t count = utf8_count(text);
    if ((uint64_t)wanted <= count) return put(row, part(text, 0, utf8_prefix(text, (uint64_t)wanted)), err);
    if (!left) TRY_RETURN(put(row, text, err));
    if (fill.size > 0) TRY_RETURN(put_fill(row, fill, (uint64_t)wanted - count, err));
    return left ? put(row, text, err) : PENNON_OK;
}

static pennon_status row_lpad(struct row *row, pennon_error *err) { return pad(row, true, err); }
static pennon_status row_rpad(struct row *row, pennon_error *err) { return pad(row, false, err); }

/* Bytes between two looks at the cancel token. */
#define REPEAT_STEP ((size_t)1 << 20)

static pennon_status row_repeat(struct row *row, pennon_error *err)
{
    const struct bytes text = row->text[0];
    const uint64_t times = row->integer[1] < 0 ? 0 : (uint64_t)row->integer[1];
    uint64_t size;
    if (mul_overflows(text.size, times, &size) || size > INT32_MAX) {
        return run_fault(row->run, err, "a text of %zu bytes, %" PRIu64 " times, is too large", text.size, times);
    }
    uint8_t *to = text_out_room(&row->out, (size_t)size, err);
    if (to == NULL) return err->code;
    /* What is there is copied behind itself, so that short texts too go in large steps; each is a whole number of texts. */
    if (size > 0) memcpy(to, text.data, text.size);
    for (size_t done = text.size, step; done < size; done += step) {
        const size_t most = text.size < REPEAT_STEP ? REPEAT_STEP / text.size * text.size : text.size;
        step = done < most ? done : most;
        if (step > size - done) step = (size_t)size - done;
        if (done >= REPEAT_STEP) TRY_RETURN(call_check(row->run->c, err));
        memcpy(to + done, to, step);
    }
    text_out_grew(&row->out, (size_t)size);
    return PENNON_OK;
}

static pennon_status row_reverse(struct row *row, pennon_error *err)
{
    const struct bytes text = row->text[0];
    uint8_t *to = text_out_room(&row->out, text.size, err);
    if (to == NULL) return err->code;
    for (size_t at = 0; at < text.size;) {
        const size_t step = utf8_step(text.data[at]);
        memcpy(to + text.size - at - step, text.data + at, step);
        at += step;
    }
    text_out_grew(&row->out, text.size);
    return PENNON_OK;
}

/* ---- finding ---- */

static pennon_status row_contains(struct row *row, pennon_error *err)
{
    UNUSED(err);
    row->result = bytes_find(row->text[0], row->text[1], 0) != SIZE_MAX;
    return PENNON_OK;
}

static pennon_status row_starts(struct row *row, pennon_error *err)
{
    const struct bytes text = row->text[0], what = row->text[1];
    UNUSED(err);
    row->result = what.size <= text.size && bytes_equal(bytes_of(text.data, what.size), what);
    return PENNON_OK;
}

static pennon_status row_ends(struct row *row, pennon_error *err)
{
    const struct bytes text = row->text[0], what = row->text[1];
    UNUSED(err);
    row->result = what.size <= text.size && bytes_equal(part(text, text.size - what.size, text.size), what);
    return PENNON_OK;
}

static pennon_status row_strpos(struct row *row, pennon_error *err)
{
    const size_t at = bytes_find(row->text[0], row->text[1], 0);
    UNUSED(err);
    row->result = at == SIZE_MAX ? 0 : 1 + (int64_t)utf8_count(part(row->text[0], 0, at));
    return PENNON_OK;
}

/* Place of a text in a list of texts with commas in between. */
static pennon_status row_find_in_set(struct row *row, pennon_error *err)
{
    const struct bytes what = row->text[0], list = row->text[1];
    size_t start = 0;
    UNUSED(err);
    row->result = 0;
    for (int64_t k = 1; start <= list.size; k++) {
        size_t end = bytes_find(list, bytes_str(","), start);
        if (end == SIZE_MAX) end = list.size;
        if (bytes_equal(part(list, start, end), what)) {
            row->result = k;
            break;
        }
        start = end + 1;
    }
    return PENNON_OK;
}

/* ---- parts ---- */

/* Part `n` (from 1) from the left. */
static struct bytes part_from_left(struct bytes text, struct bytes by, uint64_t n)
{
    size_t start = 0;
    for (;; n--) {
        const size_t at = bytes_find(text, by, start);
        if (n == 1) return part(text, start, at == SIZE_MAX ? text.size : at);
        if (at == SIZE_MAX) return bytes_of(NULL, 0);
        start = at + by.size;
    }
}

/* Place of the last `by` that ends at or before `end`. */
static size_t find_back(struct bytes text, struct bytes by, size_t end)
{
    for (size_t at = end; at >= by.size; at--) {
        if (memcmp(text.data + at - by.size, by.data, by.size) == 0) return at - by.size;
    }
    return SIZE_MAX;
}

static struct bytes part_from_right(struct bytes text, struct bytes by, uint64_t n)
{
    size_t end = text.size;
    for (;; n--) {
        const size_t at = find_back(text, by, end);
        if (n == 1) return part(text, at == SIZE_MAX ? 0 : at + by.size, end);
        if (at == SIZE_MAX) return bytes_of(NULL, 0);
        end = at;
    }
}

static pennon_status row_split_part(struct row *row, pennon_error *err)
{
    const struct bytes text = row->text[0], by = row->text[1];
    const int64_t n = row->integer[2];
    if (n == 0) return run_fault(row->run, err, "the position must not be zero");
    if (by.size == 0) return n == 1 || n == -1 ? put(row, text, err) : PENNON_OK;
    if (n > 0) return put(row, part_from_left(text, by, (uint64_t)n), err);
    return put(row, part_from_right(text, by, 0 - (uint64_t)n), err);
}

/* What stands before the n-th delimiter, or behind the n-th from the right. */
static pennon_status row_substr_index(struct row *row, pennon_error *err)
{
    const struct bytes text = row->text[0], by = row->text[1];
    const int64_t n = row->integer[2];
    if (n == 0 || by.size == 0) return PENNON_OK;
    if (n > 0) {
        size_t at = bytes_find(text, by, 0);
        for (int64_t k = 1; k < n && at != SIZE_MAX; k++) at = bytes_find(text, by, at + by.size);
        return put(row, part(text, 0, at == SIZE_MAX ? text.size : at), err);
    }
    size_t at = find_back(text, by, text.size);
    for (uint64_t k = 1; k < 0 - (uint64_t)n && at != SIZE_MAX; k++) at = find_back(text, by, at);
    return put(row, part(text, at == SIZE_MAX ? 0 : at + by.size, text.size), err);
}

/* ---- changing ---- */

static pennon_status row_replace(struct row *row, pennon_error *err)
{
    const struct bytes text = row->text[0], what = row->text[1], by = row->text[2];
    if (what.size == 0) {
        /* Before every character and at the end. */
        for (size_t at = 0; at < text.size;) {
            const size_t step = utf8_step(text.data[at]);
            TRY_RETURN(put(row, by, err));
            TRY_RETURN(put(row, part(text, at, at + step), err));
            at += step;
        }
        return put(row, by, err);
    }
    size_t start = 0;
    for (;;) {
        const size_t at = bytes_find(text, what, start);
        if (at == SIZE_MAX) return put(row, part(text, start, text.size), err);
        TRY_RETURN(put(row, part(text, start, at), err));
        TRY_RETURN(put(row, by, err));
        start = at + what.size;
    }
}

static pennon_status row_translate(struct row *row, pennon_error *err)
{
    const struct bytes text = row->text[0], from = row->text[1], to = row->text[2];
    for (size_t at = 0; at < text.size;) {
        const size_t step = utf8_step(text.data[at]);
        size_t f = 0, index = 0;
        while (f < from.size) {
            const size_t n = utf8_step(from.data[f]);
            if (n == step && memcmp(from.data + f, text.data + at, n) == 0) break;
            f += n;
            index++;
        }
        if (f >= from.size) {
            TRY_RETURN(put(row, part(text, at, at + step), err));
        } else {
            const size_t t = utf8_prefix(to, index);
            if (t < to.size) TRY_RETURN(put(row, part(to, t, t + utf8_step(to.data[t])), err));
        }
        at += step;
    }
    return PENNON_OK;
}

/* Characters from `start` on, `count` of them (by default as many as the new text has), are replaced. */
static pennon_status row_overlay(struct row *row, pennon_error *err)
{
    const struct bytes text = row->text[0], by = row->text[1];
    const int64_t start = row->integer[2], count = row->n > 3 ? row->integer[3] : (int64_t)utf8_count(by);
    int64_t end;
    if (start < 0) return run_fault(row->run, err, "negative start %" PRId64, start);
    if (__builtin_add_overflow(start, count, &end)) end = INT64_MAX;
    const size_t head = utf8_prefix(text, start > 1 ? (uint64_t)start - 1 : 0);
    const size_t tail = utf8_prefix(text, end > 1 ? (uint64_t)end - 1 : 0);
    TRY_RETURN(put(row, part(text, 0, head), err));
    TRY_RETURN(put(row, by, err));
    return put(row, part(text, tail, text.size), err);
}

static pennon_status row_to_hex(struct row *row, pennon_error *err)
{
    char text[17];
    const int n = snprintf(text, sizeof text, "%" PRIx64, (uint64_t)row->integer[0]);
    ASSERT(n > 0 && n <= 16);
    return put(row, bytes_of(text, (size_t)n), err);
}

/* Edits that turn one text into the other: one row of the table of distances, over the characters of the second text. */
static pennon_status row_levenshtein(struct row *row, pennon_error *err)
{
    const struct bytes a = row->text[0], b = row->text[1];
    const size_t n = utf8_count(b);
    row->scratch.size = 0;
    TRY_RETURN(buf_resize(&row->scratch, (n + 1) * 2 * sizeof(uint32_t), err));
    uint32_t *chars = (uint32_t *)row->scratch.data, *cost = chars + n + 1;
    size_t k = 0;
    for (size_t at = 0; at < b.size; k++) chars[k] = utf8_next(b, &at);
    for (size_t j = 0; j <= n; j++) cost[j] = (uint32_t)j;
    uint32_t i = 0;
    for (size_t at = 0; at < a.size; i++) {
        const uint32_t c = utf8_next(a, &at);
        uint32_t diagonal = i;
        if (i % 1024 == 0) TRY_RETURN(call_check(row->run->c, err));
        cost[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            const uint32_t above = cost[j + 1];
            uint32_t best = diagonal + (chars[j] != c);
            if (above + 1 < best) best = above + 1;
            if (cost[j] + 1 < best) best = cost[j] + 1;
            diagonal = above;
            cost[j + 1] = best;
        }
    }
    row->result = cost[n];
    return PENNON_OK;
}

/* ---- concatenation ---- */

/* Large where all texts are, as official has it, or for || where one is; concat_ws never is. */
static pennon_status bind_joined(struct bind_call *b, bool operator, pennon_error * err)
{
    size_t large = 0;
    for (size_t i = 0; i < b->n; i++) {
        TRY_RETURN(bind_text(b, i, true, err));
        large += bind_is_large(b, i);
    }
    const bool all = operator? large > 0 : large == b->n;
    return bind_result(b, all && b->fn->option == 0 ? "U" : "u", err);
}

static pennon_status bind_concat(struct bind_call *b, pennon_error *err) { return bind_joined(b, false, err); }

static pennon_status put_argument(struct text_out *out, const struct datum *d, const struct text_rows *rows, int64_t i,
                                  pennon_error *err)
{
    return text_out_put(out, text_row(rows, datum_row(d, i)), err);
}

/* All arguments from `first` on, with the text of argument 0 in between where `first` is 1. Nulls are left out; a null separator makes a null row.
 * With `strict` no argument of a row to be made is null. */
static pennon_status concatenate(struct run_call *r, size_t first, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct text_out out = {0};
    struct text_rows *rows;
    TRY_NEW(rows, arena_calloc(r->scratch, r->n, sizeof *rows, err));
    for (size_t k = 0; k < r->n; k++) rows[k] = text_rows_of(&r->args[k].view);
    TRY(text_out_begin(&out, r, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (i % ROWS_PER_CHECK == 0) TRY(call_check(r->c, err));
        const bool is_null = first == 1 && datum_is_null(&r->args[0], i);
        bool some = false;
        for (size_t k = first; k < r->n && !is_null && run_valid(r, i); k++) {
            if (datum_is_null(&r->args[k], i)) continue;
            if (first == 1 && some) TRY(put_argument(&out, &r->args[0], &rows[0], i, err));
            TRY(put_argument(&out, &r->args[k], &rows[k], i, err));
            some = true;
        }
        if (is_null) TRY(run_set_null(r, i, err));
        text_out_end_row(&out);
    }
    text_out_finish(&out);
done:
    text_out_abandon(&out);
    return st;
}

static pennon_status run_concat(struct run_call *r, pennon_error *err) { return concatenate(r, 0, err); }
static pennon_status run_concat_ws(struct run_call *r, pennon_error *err) { return concatenate(r, 1, err); }

/* The || operator: at least one side must be a text. */
static pennon_status bind_operator(struct bind_call *b, pennon_error *err)
{
    bool text = false;
    for (size_t i = 0; i < b->n; i++) {
        struct arrow_type t;
        TRY_RETURN(bind_type(b, i, &t, err));
        text = text || arrow_id_is_text(t.id) || t.id == ARROW_NULL;
    }
    return text ? bind_joined(b, true, err) : bind_refuse(b, 0, "a text", err);
}

/* ---- the table ---- */

enum text_function {
    TEXT_ASCII,
    TEXT_BITS,
    TEXT_BTRIM,
    TEXT_CHR,
    TEXT_CONTAINS,
    TEXT_ENDS,
    TEXT_FIND_IN_SET,
    TEXT_INITCAP,
    TEXT_LEFT,
    TEXT_LENGTH,
    TEXT_LEVENSHTEIN,
    TEXT_LOWER,
    TEXT_LPAD,
    TEXT_LTRIM,
    TEXT_OCTETS,
    TEXT_OVERLAY,
    TEXT_REPEAT,
    TEXT_REPLACE,
    TEXT_REVERSE,
    TEXT_RIGHT,
    TEXT_RPAD,
    TEXT_RTRIM,
    TEXT_SPLIT_PART,
    TEXT_STARTS,
    TEXT_STRPOS,
    TEXT_SUBSTR,
    TEXT_SUBSTR_INDEX,
    TEXT_TO_HEX,
    TEXT_TRANSLATE,
    TEXT_UPPER
};

static const struct row_function rows_of[] = {
    [TEXT_ASCII] = {"t", 'I', row_ascii},
    [TEXT_BITS] = {"t", 'i', row_bits},
    [TEXT_BTRIM] = {"t", 's', row_btrim},
    [TEXT_CHR] = {"i", 'S', row_chr},
    [TEXT_CONTAINS] = {"t", '?', row_contains},
    [TEXT_ENDS] = {"t", '?', row_ends},
    [TEXT_FIND_IN_SET] = {"a", 'i', row_find_in_set},
    [TEXT_INITCAP] = {"t", 's', row_initcap},
    [TEXT_LEFT] = {"ai", 's', row_left},
    [TEXT_LENGTH] = {"a", 'i', row_length},
    [TEXT_LEVENSHTEIN] = {"t", 'i', row_levenshtein},
    [TEXT_LOWER] = {"t", 's', row_lower},
    [TEXT_LPAD] = {"aia", 's', row_lpad},
    [TEXT_LTRIM] = {"t", 's', row_ltrim},
    [TEXT_OCTETS] = {"t", 'i', row_octets},
    [TEXT_OVERLAY] = {"aai", 's', row_overlay},
    [TEXT_REPEAT] = {"ti", 's', row_repeat},
    [TEXT_REPLACE] = {"t", 's', row_replace},
    [TEXT_REVERSE] = {"a", 's', row_reverse},
    [TEXT_RIGHT] = {"ai", 's', row_right},
    [TEXT_RPAD] = {"aia", 's', row_rpad},
    [TEXT_RTRIM] = {"t", 's', row_rtrim},
    [TEXT_SPLIT_PART] = {"aai", 's', row_split_part},
    [TEXT_STARTS] = {"t", '?', row_starts},
    [TEXT_STRPOS] = {"t", 'i', row_strpos},
    [TEXT_SUBSTR] = {"tii", 's', row_substr},
    [TEXT_SUBSTR_INDEX] = {"aai", 'S', row_substr_index},
    [TEXT_TO_HEX] = {"u", 'S', row_to_hex},
    [TEXT_TRANSLATE] = {"a", 's', row_translate},
    [TEXT_UPPER] = {"t", 's', row_upper},
};

static pennon_status bind_text_rows(struct bind_call *b, pennon_error *err) { return bind_rows(b, &rows_of[b->fn->option], err); }
static pennon_status run_text_rows(struct run_call *r, pennon_error *err)
{
    return run_rows(r, &rows_of[r->node->fn->option], err);
}

#define ROWS(name, least, most, which)                                                 \
    {                                                                                  \
        name, least, most, FUNCTION_STRICT, bind_text_rows, run_text_rows, NULL, which \
    }

const struct function functions_text[] = {
    {"||", 2, 255, FUNCTION_STRICT, bind_operator, run_concat, NULL, 0},
    ROWS("ascii", 1, 1, TEXT_ASCII),
    ROWS("bit_length", 1, 1, TEXT_BITS),
    ROWS("btrim", 1, 2, TEXT_BTRIM),
    ROWS("char_length", 1, 1, TEXT_LENGTH),
    ROWS("character_length", 1, 1, TEXT_LENGTH),
    ROWS("chr", 1, 1, TEXT_CHR),
    {"concat", 1, 255, 0, bind_concat, run_concat, NULL, 0},
    {"concat_ws", 2, 255, 0, bind_concat, run_concat_ws, NULL, 1},
    ROWS("contains", 2, 2, TEXT_CONTAINS),
    ROWS("ends_with", 2, 2, TEXT_ENDS),
    ROWS("find_in_set", 2, 2, TEXT_FIND_IN_SET),
    ROWS("initcap", 1, 1, TEXT_INITCAP),
    ROWS("instr", 2, 2, TEXT_STRPOS),
    ROWS("left", 2, 2, TEXT_LEFT),
    ROWS("length", 1, 1, TEXT_LENGTH),
    ROWS("levenshtein", 2, 2, TEXT_LEVENSHTEIN),
    ROWS("lower", 1, 1, TEXT_LOWER),
    ROWS("lpad", 2, 3, TEXT_LPAD),
    ROWS("ltrim", 1, 2, TEXT_LTRIM),
    ROWS("octet_length", 1, 1, TEXT_OCTETS),
    ROWS("overlay", 3, 4, TEXT_OVERLAY),
    ROWS("position", 2, 2, TEXT_STRPOS),
    ROWS("repeat", 2, 2, TEXT_REPEAT),
    ROWS("replace", 3, 3, TEXT_REPLACE),
    ROWS("reverse", 1, 1, TEXT_REVERSE),
    ROWS("right", 2, 2, TEXT_RIGHT),
    ROWS("rpad", 2, 3, TEXT_RPAD),
    ROWS("rtrim", 1, 2, TEXT_RTRIM),
    ROWS("split_part", 3, 3, TEXT_SPLIT_PART),
    ROWS("starts_with", 2, 2, TEXT_STARTS),
    ROWS("strpos", 2, 2, TEXT_STRPOS),
    ROWS("substr", 2, 3, TEXT_SUBSTR),
    ROWS("substr_index", 3, 3, TEXT_SUBSTR_INDEX),
    ROWS("substring", 2, 3, TEXT_SUBSTR),
    ROWS("substring_index", 3, 3, TEXT_SUBSTR_INDEX),
    ROWS("to_hex", 1, 1, TEXT_TO_HEX),
    ROWS("translate", 3, 3, TEXT_TRANSLATE),
    ROWS("trim", 1, 2, TEXT_BTRIM),
    ROWS("upper", 1, 1, TEXT_UPPER),
    {NULL, 0, 0, 0, NULL, NULL, NULL, 0},
};

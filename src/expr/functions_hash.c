/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Digests, encodings of bytes as text, uuids, tokens.
 *
 * md5 gives a text of hexadecimal digits, the others bytes. encode and decode know hex, base64 (written without padding, read with or without) and
 * base64pad. contains_tokens looks whether every token of the query is one of the text's; tokens are runs of letters and numbers.
 * Source: spec expressions 7; edges asked of official. */
#include "expr/digest.h"
#include "expr/functions.h"

static const char hex_digits[] = "0123456789abcdef";

static pennon_status put_hex(struct row *row, struct bytes in, pennon_error *err)
{
    size_t n;
    if (size_mul_overflows(in.size, 2, &n)) n = SIZE_MAX / 2;
    uint8_t *to = text_out_room(&row->out, n, err);
    if (to == NULL) return err->code;
    for (size_t i = 0; i < in.size; i++) {
        to[2 * i] = (uint8_t)hex_digits[in.data[i] >> 4];
        to[2 * i + 1] = (uint8_t)hex_digits[in.data[i] & 15];
    }
    text_out_grew(&row->out, n);
    return PENNON_OK;
}

/* ---- digests ---- */

static const char *const digest_names[] = {"md5", "sha224", "sha256", "sha384", "sha512"};

static pennon_status put_digest(struct row *row, enum digest_id id, pennon_error *err)
{
    uint8_t digest[DIGEST_MAX];
    digest_bytes(id, row->text[0], digest);
    return text_out_put(&row->out, bytes_of(digest, digest_size(id)), err);
}

static pennon_status row_md5(struct row *row, pennon_error *err)
{
    uint8_t digest[DIGEST_MAX];
    digest_bytes(DIGEST_MD5, row->text[0], digest);
    return put_hex(row, bytes_of(digest, digest_size(DIGEST_MD5)), err);
}

static pennon_status row_sha224(struct row *row, pennon_error *err) { return put_digest(row, DIGEST_SHA224, err); }
static pennon_status row_sha256(struct row *row, pennon_error *err) { return put_digest(row, DIGEST_SHA256, err); }
static pennon_status row_sha384(struct row *row, pennon_error *err) { return put_digest(row, DIGEST_SHA384, err); }
static pennon_status row_sha512(struct row *row, pennon_error *err) { return put_digest(row, DIGEST_SHA512, err); }

static pennon_status row_digest(struct row *row, pennon_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(digest_names); i++) {
        if (bytes_equal(row->text[1], bytes_str(digest_names[i]))) return put_digest(row, (enum digest_id)i, err);
    }
    if (row->text[1].size > 5 && memcmp(row->text[1].data, "blake", 5) == 0) {
        return error_set(err, PENNON_NOT_SUPPORTED, "digest: the algorithm '%.*s' is not supported",
                         (int)min_u64(row->text[1].size, 40), (const char *)row->text[1].data);
    }
    return run_fault(row->run, err, "there is no algorithm '%.*s'; there are md5, sha224, sha256, sha384, sha512",
                     (int)min_u64(row->text[1].size, 40), (const char *)row->text[1].data);
}

/* ---- encodings ---- */

static bool is_word(struct bytes text, const char *word) { return bytes_equal(text, bytes_str(word)); }

static pennon_status unknown_encoding(struct row *row, pennon_error *err)
{
    return run_fault(row->run, err, "there is no encoding '%.*s'; there are hex, base64, base64pad",
                     (int)min_u64(row->text[1].size, 40), (const char *)row->text[1].data);
}

static pennon_status row_encode(struct row *row, pennon_error *err)
{
    if (is_word(row->text[1], "hex")) return put_hex(row, row->text[0], err);
    const bool pad = is_word(row->text[1], "base64pad");
    if (!pad && !is_word(row->text[1], "base64")) return unknown_encoding(row, err);
    row->scratch.size = 0;
    TRY_RETURN(base64_put(row->text[0], &row->scratch, err));
    while (!pad && row->scratch.size > 0 && row->scratch.data[row->scratch.size - 1] == '=') row->scratch.size--;
    return text_out_put(&row->out, bytes_of(row->scratch.data, row->scratch.size), err);
}

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static pennon_status decode_hex(struct row *row, pennon_error *err)
{
    const struct bytes in = row->text[0];
    if (in.size % 2 != 0) return run_fault(row->run, err, "an odd number of hexadecimal digits");
    uint8_t *to = text_out_room(&row->out, in.size / 2, err);
    if (to == NULL) return err->code;
    for (size_t i = 0; i < in.size; i += 2) {
        const int high = hex_value(in.data[i]), low = hex_value(in.data[i + 1]);
        if (high < 0 || low < 0) return run_fault(row->run, err, "byte %zu is no hexadecimal digit", high < 0 ? i : i + 1);
        to[i / 2] = (uint8_t)(high << 4 | low);
    }
    text_out_grew(&row->out, in.size / 2);
    return PENNON_OK;
}

static pennon_status row_decode(struct row *row, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    if (is_word(row->text[1], "hex")) return decode_hex(row, err);
    if (!is_word(row->text[1], "base64") && !is_word(row->text[1], "base64pad")) return unknown_encoding(row, err);
    row->scratch.size = 0;
    if (!base64_parse(row->text[0], &row->scratch, &st, err)) {
        return st != PENNON_OK ? st : run_fault(row->run, err, "the text is no base64");
    }
    return text_out_put(&row->out, bytes_of(row->scratch.data, row->scratch.size), err);
}

/* ---- tokens ---- */

/* The next run of letters and numbers at or behind *at; false: there is none. */
static bool next_token(struct bytes text, size_t *at, struct bytes *out)
{
    size_t start = SIZE_MAX;
    while (*at < text.size) {
        const size_t here = *at;
        const bool inside = char_is_alphanumeric(utf8_next(text, at));
        if (inside && start == SIZE_MAX) start = here;
        if (!inside && start != SIZE_MAX) {
            *out = bytes_of(text.data + start, here - start);
            return true;
        }
    }
    if (start == SIZE_MAX) return false;
    *out = bytes_of(text.data + start, text.size - start);
    return true;
}

static bool has_token(struct bytes text, struct bytes wanted)
{
    struct bytes token;
    for (size_t at = 0; next_token(text, &at, &token);) {
        if (bytes_equal(token, wanted)) return true;
    }
    return false;
}

/* A null query has no tokens, so every text has them. */
static pennon_status row_contains_tokens(struct row *row, pennon_error *err)
{
    struct bytes token;
    UNUSED(err);
    row->is_null = row->null[0];
    row->result = 1;
    for (size_t at = 0; !row->null[1] && row->result && next_token(row->text[1], &at, &token);)
        row->result = has_token(row->text[0], token);
    return PENNON_OK;
}

/* ---- uuid ---- */

static pennon_status bind_uuid(struct bind_call *b, pennon_error *err) { return bind_result(b, "u", err); }

#define UUID_BYTES 16u
#define UUID_TEXT 36u

static pennon_status run_uuid(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct text_out out = {0};
    uint8_t *random;
    TRY_NEW(random, arena_alloc(r->scratch, (size_t)r->rows * UUID_BYTES + 1, err));
    TRY(random_bytes(random, (size_t)r->rows * UUID_BYTES, err));
    TRY(text_out_begin(&out, r, err));
    for (int64_t i = 0; i < r->rows; i++) {
        uint8_t *id = random + (size_t)i * UUID_BYTES;
        char text[UUID_TEXT + 1];
        /* Version 4, variant of RFC 4122. */
        id[6] = (uint8_t)((id[6] & 0x0f) | 0x40);
        id[8] = (uint8_t)((id[8] & 0x3f) | 0x80);
        uuid_text(id, text);
        TRY(text_out_put(&out, bytes_of(text, UUID_TEXT), err));
        text_out_end_row(&out);
    }
    text_out_finish(&out);
done:
    text_out_abandon(&out);
    return st;
}

enum hash_id {
    HASH_CONTAINS_TOKENS,
    HASH_DECODE,
    HASH_DIGEST,
    HASH_ENCODE,
    HASH_MD5,
    HASH_SHA224,
    HASH_SHA256,
    HASH_SHA384,
    HASH_SHA512
};

static const struct row_function hash_rows[] = {
    [HASH_CONTAINS_TOKENS] = {"a", '?', row_contains_tokens},
    [HASH_DECODE] = {"bt", 'x', row_decode},
    [HASH_DIGEST] = {"bt", 'B', row_digest},
    [HASH_ENCODE] = {"bt", 's', row_encode},
    [HASH_MD5] = {"b", 'S', row_md5},
    [HASH_SHA224] = {"b", 'B', row_sha224},
    [HASH_SHA256] = {"b", 'B', row_sha256},
    [HASH_SHA384] = {"b", 'B', row_sha384},
    [HASH_SHA512] = {"b", 'B', row_sha512},
};

static pennon_status bind_hash(struct bind_call *b, pennon_error *err) { return bind_rows(b, &hash_rows[b->fn->option], err); }
static pennon_status run_hash(struct run_call *r, pennon_error *err) { return run_rows(r, &hash_rows[r->node->fn->option], err); }

const struct function functions_hash[] = {
    {"contains_tokens", 2, 2, 0, bind_hash, run_hash, NULL, HASH_CONTAINS_TOKENS},
    {"decode", 2, 2, FUNCTION_STRICT, bind_hash, run_hash, NULL, HASH_DECODE},
    {"digest", 2, 2, FUNCTION_STRICT, bind_hash, run_hash, NULL, HASH_DIGEST},
    {"encode", 2, 2, FUNCTION_STRICT, bind_hash, run_hash, NULL, HASH_ENCODE},
    {"md5", 1, 1, FUNCTION_STRICT, bind_hash, run_hash, NULL, HASH_MD5},
    {"sha224", 1, 1, FUNCTION_STRICT, bind_hash, run_hash, NULL, HASH_SHA224},
    {"sha256", 1, 1, FUNCTION_STRICT, bind_hash, run_hash, NULL, HASH_SHA256},
    {"sha384", 1, 1, FUNCTION_STRICT, bind_hash, run_hash, NULL, HASH_SHA384},
    {"sha512", 1, 1, FUNCTION_STRICT, bind_hash, run_hash, NULL, HASH_SHA512},
    {"uuid", 0, 0, FUNCTION_VOLATILE, bind_uuid, run_uuid, NULL, 0},
    {NULL, 0, 0, 0, NULL, NULL, NULL, 0},
};

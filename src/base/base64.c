/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Binary as text: base64 with padding out; both alphabets, padding optional, in. Source: RFC 4648. */
#include "base/base64.h"

pennon_status base64_put(struct bytes in, struct buf *out, pennon_error *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t i = 0;
    if (in.size == 0) return PENNON_OK;
    if (in.size > SIZE_MAX / 2) return error_set(err, PENNON_OVER_BUDGET, "%zu bytes of binary", in.size);
    TRY_RETURN(buf_grow(out, (in.size + 2) / 3 * 4, err));
    uint8_t *to = out->data + out->size;
    for (; in.size - i >= 3; i += 3) {
        uint32_t w = (uint32_t)in.data[i] << 16 | (uint32_t)in.data[i + 1] << 8 | in.data[i + 2];
        for (int shift = 18; shift >= 0; shift -= 6) *to++ = (uint8_t)digits[w >> shift & 63];
    }
    if (i < in.size) {
        bool two = in.size - i == 2;
        uint32_t w = (uint32_t)in.data[i] << 16 | (two ? (uint32_t)in.data[i + 1] << 8 : 0);
        *to++ = (uint8_t)digits[w >> 18 & 63];
        *to++ = (uint8_t)digits[w >> 12 & 63];
        *to++ = two ? (uint8_t)digits[w >> 6 & 63] : '=';
        *to++ = '=';
    }
    out->size = (size_t)(to - out->data);
    return PENNON_OK;
}

static int base64_value(uint8_t c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+' || c == '-') return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

bool base64_parse(struct bytes text, struct buf *out, pennon_status *st, pennon_error *err)
{
    uint32_t word = 0;
    unsigned bits = 0;
    *st = buf_grow(out, text.size / 4 * 3 + 3, err);
    if (*st != PENNON_OK) return false;
    if (text.size > 0 && text.size % 4 == 0) { /* at most two characters of padding */
        for (int i = 0; i < 2 && text.data[text.size - 1] == '='; i++) text.size--;
    }
    if (text.size % 4 == 1) return false;
    for (size_t i = 0; i < text.size; i++) {
        int v = base64_value(text.data[i]);
        if (v < 0) return false;
        word = word << 6 | (uint32_t)v;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out->data[out->size++] = (uint8_t)(word >> bits);
        }
    }
    return (word & ((1u << bits) - 1)) == 0; /* bits that no byte holds are zero */
}

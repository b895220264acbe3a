/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* General compression of one buffer: how zstd and lz4 output is framed.
 *
 * | scheme    | bytes                                                        |
 * |-----------|--------------------------------------------------------------|
 * | zstd      | u64 decoded size, one zstd frame                             |
 * | bare zstd | one zstd frame that states its decoded size; old writers     |
 * | lz4       | u32 decoded size, one raw LZ4 block (not the frame format)   |
 *
 * A zstd buffer is a bare frame when it has fewer than 8 bytes, or begins with the magic number of zstd and bit 4 of the byte
 * behind is clear. An empty zstd buffer decodes to nothing.
 *
 * Sizes come from outside: they are bounded by the caller, and by what the scheme can expand the given bytes to.
 *
 * Source: spec file-format 8.11; RFC 8878 section 3.1.1.1 for the frame header. */
#include "encoding/codec.h"

#define ZSTD_FRAME_MAGIC 0xFD2FB528u
#define ZSTD_MAX_RATIO 43691u /* a 128 KiB block takes at least 3 bytes */
#define LZ4_MAX_RATIO 255u

static bool zstd_is_bare(struct bytes in)
{
    if (in.size < 8) return true;
    return load_u32(in.data) == ZSTD_FRAME_MAGIC && (in.data[4] & 0x10) == 0;
}

/* Decoded size out of a frame header. */
static pennon_status zstd_frame_size(struct bytes in, uint64_t *size, pennon_error *err)
{
    CHECK_FILE_RETURN(in.size >= 6 && load_u32(in.data) == ZSTD_FRAME_MAGIC, "zstd buffer of %zu bytes is not a frame", in.size);
    static const uint8_t dictionary_bytes[4] = {0, 1, 2, 4};
    const unsigned descriptor = in.data[4];
    const bool single_segment = (descriptor >> 5) & 1;
    const unsigned size_code = descriptor >> 6;
    const size_t field = size_code == 0 ? (single_segment ? 1u : 0u) : (size_t)1 << size_code;
    const size_t at = 5 + (single_segment ? 0u : 1u) + dictionary_bytes[descriptor & 3];
    if (field == 0) {
        return error_set(err, PENNON_NOT_SUPPORTED, "zstd frame that does not state its decoded size");
    }
    CHECK_FILE_RETURN(in.size >= at + field, "zstd frame of %zu bytes ends in its header", in.size);
    switch (field) {
    case 1: *size = in.data[at]; break;
    case 2: *size = (uint64_t)load_u16(in.data + at) + 256; break;
    case 4: *size = load_u32(in.data + at); break;
    default: *size = load_u64(in.data + at); break;
    }
    return PENNON_OK;
}

/* Decoded size, and the compressed bytes behind the head. */
static pennon_status frame_open(enum general_scheme scheme, struct bytes in, uint64_t *size, struct bytes *body, pennon_error *err)
{
    uint64_t ratio = 1;
    *size = 0;
    *body = in;
    if (scheme == GENERAL_NONE) {
        *size = in.size;
    } else if (scheme == GENERAL_LZ4) {
        CHECK_FILE_RETURN(in.size >= 4, "lz4 buffer of %zu bytes has no size", in.size);
        *size = load_u32(in.data);
        *body = bytes_of(in.data + 4, in.size - 4);
        ratio = LZ4_MAX_RATIO;
    } else if (scheme == GENERAL_ZSTD) {
        ratio = ZSTD_MAX_RATIO;
        if (in.size == 0) return PENNON_OK;
        if (zstd_is_bare(in)) {
            TRY_RETURN(zstd_frame_size(in, size, err));
        } else {
            *size = load_u64(in.data);
            *body = bytes_of(in.data + 8, in.size - 8);
        }
    } else {
        return error_set(err, PENNON_NOT_SUPPORTED, "buffer compression scheme %d", (int)scheme);
    }
    CHECK_FILE_RETURN(*size / ratio <= body->size, "%zu compressed bytes cannot hold %" PRIu64 " bytes", body->size, *size);
    return PENNON_OK;
}

pennon_status general_decoded_size(enum general_scheme scheme, struct bytes in, uint64_t *size, pennon_error *err)
{
    struct bytes body;
    return frame_open(scheme, in, size, &body, err);
}

pennon_status general_decode(enum general_scheme scheme, struct bytes in, uint64_t max, struct buf *out, pennon_error *err)
{
    uint64_t size = 0;
    struct bytes body;
    TRY_RETURN(frame_open(scheme, in, &size, &body, err));
    CHECK_FILE_RETURN(size <= max, "compressed buffer decodes to %" PRIu64 " bytes, at most %" PRIu64 " expected", size, max);
    if (size == 0) return PENNON_OK;
    if (scheme == GENERAL_NONE) return buf_append(out, in.data, in.size, err);
    TRY_RETURN(buf_grow(out, (size_t)size, err));
    if (scheme == GENERAL_LZ4) {
        TRY_RETURN(lz4_block_decompress(body, out->data + out->size, (size_t)size, err));
    } else {
        TRY_RETURN(zstd_decompress(body, out->data + out->size, (size_t)size, err));
    }
    out->size += (size_t)size;
    return PENNON_OK;
}

pennon_status general_encode(enum general_scheme scheme, int level, struct bytes in, struct buf *out, pennon_error *err)
{
    uint8_t head[8];
    switch (scheme) {
    case GENERAL_NONE: return buf_append(out, in.data, in.size, err);
    case GENERAL_LZ4:
        if (in.size > INT32_MAX) {
            return error_set(err, PENNON_NOT_SUPPORTED, "lz4 compression of a buffer of %zu bytes", in.size);
        }
        store_u32(head, (uint32_t)in.size);
        TRY_RETURN(buf_append(out, head, 4, err));
        return lz4_block_compress(in, out, err);
    case GENERAL_ZSTD:
        store_u64(head, in.size);
        TRY_RETURN(buf_append(out, head, 8, err));
        return zstd_compress(in, level, out, err);
    }
    return error_set(err, PENNON_NOT_SUPPORTED, "buffer compression scheme %d", (int)scheme);
}

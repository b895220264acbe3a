/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Bounded zstd and lz4: the caller states the size of the result, and a frame that says otherwise is corrupt.
 *
 * A decompression context is 100 KB and more, so each thread keeps one; it is freed when the thread ends. */
#include <limits.h>
#include <lz4.h>
#include <lz4frame.h>
#include <pthread.h>
#include <zstd.h>

#include "base/call.h"

static void free_dctx(void *ctx) { (void)ZSTD_freeDCtx(ctx); }
static void free_cctx(void *ctx) { (void)ZSTD_freeCCtx(ctx); }

static pthread_key_t dctx_key, cctx_key;
static pthread_once_t keys_once = PTHREAD_ONCE_INIT;

static void make_keys(void)
{
    (void)pthread_key_create(&dctx_key, free_dctx);
    (void)pthread_key_create(&cctx_key, free_cctx);
}

static ZSTD_DCtx *thread_dctx(void)
{
    (void)pthread_once(&keys_once, make_keys);
    ZSTD_DCtx *ctx = pthread_getspecific(dctx_key);
    if (!ctx) {
        ctx = ZSTD_createDCtx();
        if (ctx && pthread_setspecific(dctx_key, ctx) != 0) {
            free_dctx(ctx);
            ctx = NULL;
        }
    }
    return ctx;
}

static ZSTD_CCtx *thread_cctx(void)
{
    (void)pthread_once(&keys_once, make_keys);
    ZSTD_CCtx *ctx = pthread_getspecific(cctx_key);
    if (!ctx) {
        ctx = ZSTD_createCCtx();
        if (ctx && pthread_setspecific(cctx_key, ctx) != 0) {
            free_cctx(ctx);
            ctx = NULL;
        }
    }
    return ctx;
}

pennon_status zstd_decompress(struct bytes in, uint8_t *out, size_t out_size, pennon_error *err)
{
    ZSTD_DCtx *ctx = thread_dctx();
    if (!ctx) return error_set(err, PENNON_OUT_OF_MEMORY, "no memory for a zstd context");
    size_t n = ZSTD_decompressDCtx(ctx, out, out_size, in.data, in.size);
    if (ZSTD_isError(n)) return error_set(err, PENNON_CORRUPT, "zstd: %s", ZSTD_getErrorName(n));
    CHECK_FILE_RETURN(n == out_size, "zstd: %zu bytes where %zu were expected", n, out_size);
    return PENNON_OK;
}

pennon_status lz4_block_decompress(struct bytes in, uint8_t *out, size_t out_size, pennon_error *err)
{
    CHECK_FILE_RETURN(in.size <= INT_MAX && out_size <= INT_MAX, "lz4: a block of %zu bytes is over 2 GiB", in.size);
    int n = LZ4_decompress_safe((const char *)in.data, (char *)out, (int)in.size, (int)out_size);
    CHECK_FILE_RETURN(n >= 0 && (size_t)n == out_size, "lz4: the block does not give %zu bytes", out_size);
    return PENNON_OK;
}

pennon_status lz4_frame_decompress(struct bytes in, uint8_t *out, size_t out_size, pennon_error *err)
{
    LZ4F_dctx *ctx = NULL;
    pennon_status st = PENNON_OK;
    size_t at = 0, made = 0, hint = 1;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&ctx, LZ4F_VERSION))) {
        return error_set(err, PENNON_OUT_OF_MEMORY, "no memory for an lz4 context");
    }
    while (hint != 0 && at < in.size) {
        size_t room = out_size - made, take = in.size - at;
        hint = LZ4F_decompress(ctx, out + made, &room, in.data + at, &take, NULL);
        CHECK_FILE(!LZ4F_isError(hint), "lz4: %s", LZ4F_getErrorName(hint));
        CHECK_FILE(take > 0 || room > 0, "lz4: the frame gives more than %zu bytes", out_size);
        at += take;
        made += room;
    }
    CHECK_FILE(hint == 0 && made == out_size, "lz4: the frame does not give %zu bytes", out_size);
done:
    (void)LZ4F_freeDecompressionContext(ctx);
    return st;
}

pennon_status zstd_compress(struct bytes in, int level, struct buf *out, pennon_error *err)
{
    ZSTD_CCtx *ctx = thread_cctx();
    if (!ctx) return error_set(err, PENNON_OUT_OF_MEMORY, "no memory for a zstd context");
    size_t bound = ZSTD_compressBound(in.size);
    if (ZSTD_isError(bound)) return error_set(err, PENNON_INVALID_ARGUMENT, "zstd: %zu bytes are too many", in.size);
    TRY_RETURN(buf_grow(out, bound, err));
    size_t n = ZSTD_compressCCtx(ctx, out->data + out->size, bound, in.data, in.size, level == 0 ? ZSTD_CLEVEL_DEFAULT : level);
    if (ZSTD_isError(n)) return error_set(err, PENNON_INTERNAL, "zstd: %s", ZSTD_getErrorName(n));
    out->size += n;
    return PENNON_OK;
}

pennon_status lz4_block_compress(struct bytes in, struct buf *out, pennon_error *err)
{
    if (in.size > LZ4_MAX_INPUT_SIZE) return error_set(err, PENNON_INVALID_ARGUMENT, "lz4: %zu bytes are too many", in.size);
    int bound = LZ4_compressBound((int)in.size);
    TRY_RETURN(buf_grow(out, (size_t)bound, err));
    int n = LZ4_compress_default((const char *)in.data, (char *)out->data + out->size, (int)in.size, bound);
    if (n <= 0) return error_set(err, PENNON_INTERNAL, "lz4: the block could not be compressed");
    out->size += (size_t)n;
    return PENNON_OK;
}

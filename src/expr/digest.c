/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* MD5 (RFC 1321) and SHA-2 (FIPS 180-4).
 *
 * All five pad alike: a bit 1, zeros, and the length in bits at the end of a block of 64 bytes (128 for SHA-384 and SHA-512); MD5 stores words
 * little-endian, the others big-endian. The tables are the fractions of sines, square roots and cube roots that the standards name. */
#include "expr/digest.h"

/* clang-format off */
static const uint32_t md5_sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};
static const uint32_t sha256_cubes[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};
static const uint64_t sha512_cubes[80] = {
    UINT64_C(0x428a2f98d728ae22), UINT64_C(0x7137449123ef65cd), UINT64_C(0xb5c0fbcfec4d3b2f), UINT64_C(0xe9b5dba58189dbbc),
    UINT64_C(0x3956c25bf348b538), UINT64_C(0x59f111f1b605d019), UINT64_C(0x923f82a4af194f9b), UINT64_C(0xab1c5ed5da6d8118),
    UINT64_C(0xd807aa98a3030242), UINT64_C(0x12835b0145706fbe), UINT64_C(0x243185be4ee4b28c), UINT64_C(0x550c7dc3d5ffb4e2),
    UINT64_C(0x72be5d74f27b896f), UINT64_C(0x80deb1fe3b1696b1), UINT64_C(0x9bdc06a725c71235), UINT64_C(0xc19bf174cf692694),
    UINT64_C(0xe49b69c19ef14ad2), UINT64_C(0xefbe4786384f25e3), UINT64_C(0x0fc19dc68b8cd5b5), UINT64_C(0x240ca1cc77ac9c65),
    UINT64_C(0x2de92c6f592b0275), UINT64_C(0x4a7484aa6ea6e483), UINT64_C(0x5cb0a9dcbd41fbd4), UINT64_C(0x76f988da831153b5),
    UINT64_C(0x983e5152ee66dfab), UINT64_C(0xa831c66d2db43210), UINT64_C(0xb00327c898fb213f), UINT64_C(0xbf597fc7beef0ee4),
    UINT64_C(0xc6e00bf33da88fc2), UINT64_C(0xd5a79147930aa725), UINT64_C(0x06ca6351e003826f), UINT64_C(0x142929670a0e6e70),
    UINT64_C(0x27b70a8546d22ffc), UINT64_C(0x2e1b21385c26c926), UINT64_C(0x4d2c6dfc5ac42aed), UINT64_C(0x53380d139d95b3df),
    UINT64_C(0x650a73548baf63de), UINT64_C(0x766a0abb3c77b2a8), UINT64_C(0x81c2c92e47edaee6), UINT64_C(0x92722c851482353b),
    UINT64_C(0xa2bfe8a14cf10364), UINT64_C(0xa81a664bbc423001), UINT64_C(0xc24b8b70d0f89791), UINT64_C(0xc76c51a30654be30),
    UINT64_C(0xd192e819d6ef5218), UINT64_C(0xd69906245565a910), UINT64_C(0xf40e35855771202a), UINT64_C(0x106aa07032bbd1b8),
    UINT64_C(0x19a4c116b8d2d0c8), UINT64_C(0x1e376c085141ab53), UINT64_C(0x2748774cdf8eeb99), UINT64_C(0x34b0bcb5e19b48a8),
    UINT64_C(0x391c0cb3c5c95a63), UINT64_C(0x4ed8aa4ae3418acb), UINT64_C(0x5b9cca4f7763e373), UINT64_C(0x682e6ff3d6b2b8a3),
    UINT64_C(0x748f82ee5defb2fc), UINT64_C(0x78a5636f43172f60), UINT64_C(0x84c87814a1f0ab72), UINT64_C(0x8cc702081a6439ec),
    UINT64_C(0x90befffa23631e28), UINT64_C(0xa4506cebde82bde9), UINT64_C(0xbef9a3f7b2c67915), UINT64_C(0xc67178f2e372532b),
    UINT64_C(0xca273eceea26619c), UINT64_C(0xd186b8c721c0c207), UINT64_C(0xeada7dd6cde0eb1e), UINT64_C(0xf57d4f7fee6ed178),
    UINT64_C(0x06f067aa72176fba), UINT64_C(0x0a637dc5a2c898a6), UINT64_C(0x113f9804bef90dae), UINT64_C(0x1b710b35131c471b),
    UINT64_C(0x28db77f523047d84), UINT64_C(0x32caab7b40c72493), UINT64_C(0x3c9ebe0a15c9bebc), UINT64_C(0x431d67c49c100d4c),
    UINT64_C(0x4cc5d4becb3e42b6), UINT64_C(0x597f299cfc657e2a), UINT64_C(0x5fcb6fab3ad6faec), UINT64_C(0x6c44198c4a475817),
};
static const uint32_t sha224_start[8] = {
    0xc1059ed8, 0x367cd507, 0x3070dd17, 0xf70e5939, 0xffc00b31, 0x68581511, 0x64f98fa7, 0xbefa4fa4,
};
static const uint32_t sha256_start[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};
static const uint64_t sha384_start[8] = {
    UINT64_C(0xcbbb9d5dc1059ed8), UINT64_C(0x629a292a367cd507), UINT64_C(0x9159015a3070dd17), UINT64_C(0x152fecd8f70e5939),
    UINT64_C(0x67332667ffc00b31), UINT64_C(0x8eb44a8768581511), UINT64_C(0xdb0c2e0d64f98fa7), UINT64_C(0x47b5481dbefa4fa4),
};
static const uint64_t sha512_start[8] = {
    UINT64_C(0x6a09e667f3bcc908), UINT64_C(0xbb67ae8584caa73b), UINT64_C(0x3c6ef372fe94f82b), UINT64_C(0xa54ff53a5f1d36f1),
    UINT64_C(0x510e527fade682d1), UINT64_C(0x9b05688c2b3e6c1f), UINT64_C(0x1f83d9abfb41bd6b), UINT64_C(0x5be0cd19137e2179),
};
static const uint8_t md5_turns[16] = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};
/* clang-format on */

static uint32_t left32(uint32_t v, unsigned n) { return v << n | v >> (32 - n); }
static uint32_t right32(uint32_t v, unsigned n) { return v >> n | v << (32 - n); }
static uint64_t right64(uint64_t v, unsigned n) { return v >> n | v << (64 - n); }

static uint64_t load_big(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) v = v << 8 | p[i];
    return v;
}
static void store_big(uint8_t *p, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++) p[i] = (uint8_t)(v >> (8 * (n - 1 - i)));
}

static void md5_block(void *state, const uint8_t *in)
{
    uint32_t *h = state, a = h[0], b = h[1], c = h[2], d = h[3];
    for (unsigned i = 0; i < 64; i++) {
        uint32_t f;
        unsigned g;
        switch (i / 16) {
        case 0:
            f = (b & c) | (~b & d);
            g = i;
            break;
        case 1:
            f = (d & b) | (~d & c);
            g = (5 * i + 1) % 16;
            break;
        case 2:
            f = b ^ c ^ d;
            g = (3 * i + 5) % 16;
            break;
        default:
            f = c ^ (b | ~d);
            g = 7 * i % 16;
            break;
        }
        const uint32_t turned = left32(a + f + md5_sines[i] + load_u32(in + 4 * (size_t)g), md5_turns[i / 16 * 4 + i % 4]);
        a = d;
        d = c;
        c = b;
        b += turned;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
}

static void sha256_block(void *state, const uint8_t *in)
{
    uint32_t *h = state, v[8], w[64];
    for (size_t i = 0; i < 16; i++) w[i] = (uint32_t)load_big(in + 4 * i, 4);
    for (size_t i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (right32(a, 7) ^ right32(a, 18) ^ a >> 3) + w[i - 7] + (right32(b, 17) ^ right32(b, 19) ^ b >> 10);
    }
    memcpy(v, h, sizeof v);
    for (size_t i = 0; i < 64; i++) {
        const uint32_t e = v[4], a = v[0];
        const uint32_t t1 =
            v[7] + (right32(e, 6) ^ right32(e, 11) ^ right32(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + sha256_cubes[i] + w[i];
        const uint32_t t2 = (right32(a, 2) ^ right32(a, 13) ^ right32(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (size_t i = 0; i < 8; i++) h[i] += v[i];
}

static void sha512_block(void *state, const uint8_t *in)
{
    uint64_t *h = state, v[8], w[80];
    for (size_t i = 0; i < 16; i++) w[i] = load_big(in + 8 * i, 8);
    for (size_t i = 16; i < 80; i++) {
        const uint64_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (right64(a, 1) ^ right64(a, 8) ^ a >> 7) + w[i - 7] + (right64(b, 19) ^ right64(b, 61) ^ b >> 6);
    }
    memcpy(v, h, sizeof v);
    for (size_t i = 0; i < 80; i++) {
        const uint64_t e = v[4], a = v[0];
        const uint64_t t1 =
            v[7] + (right64(e, 14) ^ right64(e, 18) ^ right64(e, 41)) + ((e & v[5]) ^ (~e & v[6])) + sha512_cubes[i] + w[i];
        const uint64_t t2 = (right64(a, 28) ^ right64(a, 34) ^ right64(a, 39)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (size_t i = 0; i < 8; i++) h[i] += v[i];
}

/* Whole blocks, then one or two with the padding. */
static void run_blocks(struct bytes in, size_t block, bool little, void (*fn)(void *, const uint8_t *), void *state)
{
    uint8_t tail[256] = {0};
    const size_t whole = in.size / block * block, rest = in.size - whole, length = block / 8;
    const size_t end = rest + 1 + length <= block ? block : 2 * block;
    for (size_t i = 0; i < whole; i += block) fn(state, in.data + i);
    if (rest > 0) memcpy(tail, in.data + whole, rest);
    tail[rest] = 0x80;
    const uint64_t bits = (uint64_t)in.size << 3;
    if (little) {
        store_u64(tail + end - 8, bits);
    } else {
        store_big(tail + end - 8, bits, 8);
    }
    for (size_t i = 0; i < end; i += block) fn(state, tail + i);
}

static void sha256_bytes(const uint32_t start[8], struct bytes in, uint8_t *out)
{
    uint32_t h[8];
    memcpy(h, start, sizeof h);
    run_blocks(in, 64, false, sha256_block, h);
    for (size_t i = 0; i < 8; i++) store_big(out + 4 * i, h[i], 4);
}

static void sha512_bytes(const uint64_t start[8], struct bytes in, uint8_t *out)
{
    uint64_t h[8];
    memcpy(h, start, sizeof h);
    run_blocks(in, 128, false, sha512_block, h);
    for (size_t i = 0; i < 8; i++) store_big(out + 8 * i, h[i], 8);
}

size_t digest_size(enum digest_id id)
{
    static const uint8_t sizes[] = {16, 28, 32, 48, 64};
    return sizes[id];
}

void digest_bytes(enum digest_id id, struct bytes in, uint8_t out[DIGEST_MAX])
{
    uint32_t md5[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    switch (id) {
    case DIGEST_MD5:
        run_blocks(in, 64, true, md5_block, md5);
        for (size_t i = 0; i < 4; i++) store_u32(out + 4 * i, md5[i]);
        break;
    case DIGEST_SHA224: sha256_bytes(sha224_start, in, out); break;
    case DIGEST_SHA256: sha256_bytes(sha256_start, in, out); break;
    case DIGEST_SHA384: sha512_bytes(sha384_start, in, out); break;
    default: sha512_bytes(sha512_start, in, out); break;
    }
}

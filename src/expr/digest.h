/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Digests of bytes: MD5 and SHA-2. For values of columns, not for secrets: no care is taken against timing. */
#ifndef EXPR_DIGEST_H
#define EXPR_DIGEST_H

#include "base/base.h"

enum digest_id { DIGEST_MD5, DIGEST_SHA224, DIGEST_SHA256, DIGEST_SHA384, DIGEST_SHA512 };
#define DIGEST_MAX 64

/* Bytes of the digest. */
size_t digest_size(enum digest_id id);
void digest_bytes(enum digest_id id, struct bytes in, uint8_t out[DIGEST_MAX]);

#endif

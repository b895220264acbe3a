/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Binary as text. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/mem.h"

pennon_status base64_put(struct bytes in, struct buf *out, pennon_error *err) CHECKED;
/* Append the bytes of base64 (padding optional); false when it is none. OUT_OF_MEMORY in err is told by *st. */
bool base64_parse(struct bytes text, struct buf *out, pennon_status *st, pennon_error *err);

#endif

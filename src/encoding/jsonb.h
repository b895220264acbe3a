/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* JSONB values of json columns: the bytes in files, and JSON text.
 * Source: spec file-format 14.3. */
#ifndef ENCODING_JSONB_H
#define ENCODING_JSONB_H

#include "base/base.h"

/* Append the JSON text of one value, as official prints it. CORRUPT; depth at most 128. */
pennon_status jsonb_to_text(struct bytes in, struct buf *out, pennon_error *err) CHECKED;
/* Append the JSONB form of a JSON text. INVALID_ARGUMENT with the place for malformed text, doubled keys, depth. */
pennon_status jsonb_from_text(struct bytes text, struct mem *mem, struct buf *out, pennon_error *err) CHECKED;

#endif

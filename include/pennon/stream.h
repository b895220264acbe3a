/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The full error of a stream. Data crosses the public surface as Arrow streams, whose interface has room for an errno and a
 * text only; a stream made by this library keeps the whole error of the get_schema or get_next that failed.
 *
 *     if (stream.get_next(&stream, &batch) != 0) {
 *         pennon_stream_error(&stream, &err);
 *     }
 */
#ifndef PENNON_STREAM_H
#define PENNON_STREAM_H

#include "pennon/arrow_abi.h"
#include "pennon/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copy the error of the last failed call on `stream` into `err` (may be NULL) and return its code; PENNON_OK when none failed.
 * For a stream of another library: its own last-error text with PENNON_IO, or PENNON_OK when it has none. `stream` must not be
 * released. Not to be called while another thread uses the stream. */
PENNON_EXPORT pennon_status pennon_stream_error(struct ArrowArrayStream *stream, pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif

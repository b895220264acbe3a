/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Writing the values of blob columns: out of the batches, into the data file and its sidecars. Private to src/file. */
#ifndef FILE_BLOB_WRITE_H
#define FILE_BLOB_WRITE_H

#include "file/writer_private.h"

/* The file's path names the folder of its sidecars. INVALID_ARGUMENT when it does not end in ".lance". */
pennon_status blob_files_open(struct file_writer *w, pennon_error *err) CHECKED;
/* Write the values of the column in the batch and put what pages need in their place, BLOB_AS_PLACE. The former array is released. INVALID_ARGUMENT names
 * column and value; some values may have been written then. */
pennon_status blob_column_take(const struct call *c, struct file_writer *w, const struct column_writer *col,
                               struct ArrowArray *batch, pennon_error *err) CHECKED;
/* End the open pack file; afterwards every sidecar is visible, and durable when the call asks for it. */
pennon_status blob_files_finish(const struct call *c, struct file_writer *w, pennon_error *err) CHECKED;
/* Free everything; with `remove` the sidecars that are there are removed, best effort. */
void blob_files_end(struct file_writer *w, bool remove);

#endif

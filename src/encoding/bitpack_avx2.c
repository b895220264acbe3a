/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The bit packing kernels compiled for AVX2; reached through bitpack.c only on machines that have it. */
#if defined(__x86_64__)
#define BITPACK_FORMS_NAME bitpack_forms_avx2
#include "encoding/bitpack_kernel.h"
#endif

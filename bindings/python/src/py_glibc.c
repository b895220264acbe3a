/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* An older name for what glibc has under two: a wheel that is built where hypot is of glibc 2.35 then loads with 2.34, too.
 *
 * Both versions of the function have one meaning but for errno, which nobody reads. The linker's --wrap leads the calls here (cmake/python.cmake). */
#include "py_binding.h"

#if defined(__linux__) && defined(__x86_64__)

double __wrap_hypot(double x, double y);
float __wrap_hypotf(float x, float y);
#if defined(__GLIBC__)
double py_old_hypot(double x, double y);
float py_old_hypotf(float x, float y);
__asm__(".symver py_old_hypot, hypot@GLIBC_2.2.5");
__asm__(".symver py_old_hypotf, hypotf@GLIBC_2.2.5");
#else
double __real_hypot(double x, double y);
float __real_hypotf(float x, float y);
#define py_old_hypot __real_hypot
#define py_old_hypotf __real_hypotf
#endif

double __wrap_hypot(double x, double y) { return py_old_hypot(x, y); }
float __wrap_hypotf(float x, float y) { return py_old_hypotf(x, y); }

#endif

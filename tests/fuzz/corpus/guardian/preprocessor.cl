-I /usr/include -D N=3
#include "a.h"
#define ARGS(t) __global t *x \
	, t y
#if defined(N) && N > 2 /* more
lines */
__kernel void NAME(f, N)(ARGS(int)
# ifdef A
, int z
# endif
) {
#else
__kernel void f(float x) {
#endif
	x[0] = '"' + '\'' + "\" } {"[0];
}

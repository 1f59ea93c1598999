
__kernel void f(volatile __global int *x) { volatile int *y = x, *z; int o;
 for (;;) { atomic_inc(&x[1]); if (x[2]) break; }
 do { o = x[0]; } while (atomic_cmpxchg(x, o, o + 1) != o);
 while (atomic_cmpxchg(x, n, n) != n) mem_fence(1);
 again: goto again; }
int g(volatile int *x) { return atomic_load(x); }

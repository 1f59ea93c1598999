-Dbarrier(x)= -D K=__kernel
typedef __global int *p; static __global int *g(p a) { static int b; return a; }
__global int n[3] = {1}; __kernel void f(__read_only pipe int p) { printf("a"); enqueue_kernel(); }

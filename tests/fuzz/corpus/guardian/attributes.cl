-cl-std=CL3.0 -DN=4
__kernel void f(__global int *x) __attribute__((reqd_work_group_size(N, 1, 1)));
__attribute__((vec_type_hint(int4))) __kernel __attribute__((a(")"))) void f(__global int *x) __attribute__((b)) { barrier(CLK_LOCAL_MEM_FENCE); }


__kernel void f(__global int *x, int y)
{
	x[get_global_id(0)] += y;
}
kernel void g(void) { }
kernel void h() { }

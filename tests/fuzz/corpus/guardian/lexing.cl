
/* __kernel void a(int x){} */ // \
__kernel void b(int x){}
__ker\
nel vo\
id c(vo\
id) { "unterminated
}
#if 0
don't
#endif
<:%><% %: ??/

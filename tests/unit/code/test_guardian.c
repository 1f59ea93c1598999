/* SPDX-License-Identifier: Apache-2.0 */
/* The guardian: what is rewritten, where, and what is refused. */
#include "code/opencl/pass/guardian.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PARAMS                                                                               \
	"fermata_guard_marks_t fermata_guard_marks,fermata_guard_stop_t fermata_guard_stop," \
	"uint fermata_guard_left"
#define PROLOGUE                                                                              \
	"fermata_guard_local_t fermata_guard_here;if(fermata_guard_skip(&fermata_guard_here," \
	"fermata_guard_marks,fermata_guard_stop,fermata_guard_left))return;"

static enum fm_guardian_why why_with(const char *source, const char *options)
{
	struct fm_guardian_text t;
	enum fm_guardian_why why = fm_guardian_rewrite(source, strlen(source), options, &t);

	assert_true(why ? !t.text && !t.kernels : t.text && t.kernels);
	free(t.text);
	return why;
}

static enum fm_guardian_why why(const char *source)
{
	return why_with(source, NULL);
}

/* `expected`: the source with @ where the parameters stand, and $ for the prologue. */
static void rewrites(const char *source, const char *expected, unsigned kernels)
{
	struct fm_guardian_text t;
	const char *p;

	assert_int_equal(fm_guardian_rewrite(source, strlen(source), "", &t), FM_GUARDIAN_OK);
	assert_int_equal(t.kernels, kernels);
	assert_int_equal(t.len, strlen(t.text));
	p = strstr(t.text, "\n#line 1\n");
	assert_non_null(p);
	for (p += strlen("\n#line 1\n"); *expected; expected++) {
		const char *want = *expected == '@' ? PARAMS : *expected == '$' ? PROLOGUE : NULL;

		if (want) {
			assert_memory_equal(p, want, strlen(want));
			p += strlen(want);
		} else {
			assert_int_equal(*p, *expected);
			p++;
		}
	}
	assert_string_equal(p, "");
	free(t.text);
}

static void kernels(void **state)
{
	rewrites("__kernel void f(__global int *x) { }", "__kernel void f(__global int *x,@) {$ }",
		1);
	rewrites("kernel void f(int x){}kernel void g(int y)\n{\n}",
		"kernel void f(int x,@){$}kernel void g(int y,@)\n{$\n}", 2);
	rewrites("__kernel void f(void){}", "__kernel void f(@){$}", 1);
	rewrites("__kernel void f(){}", "__kernel void f(@){$}", 1);
	rewrites("void __kernel f(int (*x)[3]){}", "void __kernel f(int (*x)[3],@){$}", 1);
	rewrites("__kernel void f(int);__kernel void f(int x){}",
		"__kernel void f(int,@);__kernel void f(int x,@){$}", 1);
}

static void attributes(void **state)
{
	rewrites("__kernel __attribute__((a(1,2))) void f(int x){}",
		"__kernel __attribute__((a(1,2))) void f(int x,@){$}", 1);
	rewrites("__attribute__((a)) __kernel void __attribute__((b(\")\"))) f(int x) "
		 "__attribute__((c)) __attribute__((d)) {}",
		"__attribute__((a)) __kernel void __attribute__((b(\")\"))) f(int x,@) "
		"__attribute__((c)) __attribute__((d)) {$}",
		1);
	rewrites("__kernel SIZE(64) void f(int x){}", "__kernel SIZE(64) void f(int x,@){$}", 1);
}

static void lexing(void **state)
{
	rewrites(
		"/* __kernel void f(int x){} */ // kernel void g(int x){\n__kernel void h(int x){}",
		"/* __kernel void f(int x){} */ // kernel void g(int x){\n__kernel void h(int "
		"x,@){$}",
		1);
	rewrites("// a \\\n__kernel void f(int x){}\n__kernel void g(int x){}",
		"// a \\\n__kernel void f(int x){}\n__kernel void g(int x,@){$}", 1);
	rewrites("__ker\\\nnel vo\\\r\nid f(int x) /* ) { */ { \"{\\\"\" '}' }",
		"__ker\\\nnel vo\\\r\nid f(int x,@) /* ) { */ {$ \"{\\\"\" '}' }", 1);
	rewrites("#define A __kernel void f(int x) {\\\n }\n__kernel void g(int x) {}",
		"#define A __kernel void f(int x) {\\\n }\n__kernel void g(int x,@) {$}", 1);
	rewrites("#if 0\ndon't do this\n#endif\n__kernel void g(int x) {}",
		"#if 0\ndon't do this\n#endif\n__kernel void g(int x,@) {$}", 1);
	assert_int_equal(why("__kernel void f(int x) {} /* no end"), FM_GUARDIAN_UNCLEAR);
	assert_int_equal(why("?\?=define A\n__kernel void f(int x) {}"), FM_GUARDIAN_UNCLEAR);
	assert_int_equal(why("__kernel void f(int x) <% %>"), FM_GUARDIAN_UNCLEAR);
	assert_int_equal(why("%:define A\n__kernel void f(int x) {}"), FM_GUARDIAN_UNCLEAR);
}

/* Parameters and prologue as a pair, whatever the preprocessor leaves. */
static void preprocessor(void **state)
{
	rewrites("__kernel void f(int x\n#ifdef A\n, int y\n#endif\n) {}",
		"__kernel void f(int x\n#ifdef A\n, int y\n#endif\n,@) {$}", 1);
	rewrites("#ifdef A\n__kernel void f(int x) {\n#else\n__kernel void f(float x) {\n#endif\n}",
		"#ifdef A\n__kernel void f(int x,@) {$\n#else\n__kernel void f(float x,@) "
		"{$\n#endif\n}",
		2);
	rewrites("__kernel void NAME(f, 1)(int x) {}", "__kernel void NAME(f, 1)(int x,@) {$}", 1);
	/* The brace may be either: neither is touched. */
	assert_int_equal(
		why("__kernel void f(int x)\n#ifdef A\n{ int a;\n#else\n{ int b;\n#endif\n}"),
		FM_GUARDIAN_NO_KERNEL);
	assert_int_equal(why("__kernel void f(int x) BEGIN { }"), FM_GUARDIAN_NO_KERNEL);
	assert_int_equal(why("#define K __kernel\nK void f(int x) {}"), FM_GUARDIAN_NO_KERNEL);
	assert_int_equal(why("#define return\n__kernel void f(int x) {}"), FM_GUARDIAN_OPTIONS);
	assert_int_equal(why("__kernel void f(int fermata_guard_x) {}"), FM_GUARDIAN_OPTIONS);
	assert_int_equal(why("__kernel void f(int x"), FM_GUARDIAN_NO_KERNEL);
	assert_int_equal(why("int f(int x) { return x; }"), FM_GUARDIAN_NO_KERNEL);
	assert_int_equal(why(""), FM_GUARDIAN_NO_KERNEL);
}

static void refused(void **state)
{
#define K(body) "__kernel void f(__global int *x) { " body " }"
	assert_int_equal(why(K("printf(\"a\");")), FM_GUARDIAN_PRINTS);
	assert_int_equal(why(K("enqueue_kernel(q, 0, r, ^{ });")), FM_GUARDIAN_ENQUEUES);
	assert_int_equal(why("__kernel void f(__read_only pipe int p) { }"), FM_GUARDIAN_PIPES);
	assert_int_equal(why("__global int n = 3;" K("")), FM_GUARDIAN_STATICS);
	assert_int_equal(why("static global int n;" K("")), FM_GUARDIAN_STATICS);
	assert_int_equal(why(K("static int n; n++;")), FM_GUARDIAN_STATICS);
	assert_int_equal(
		why(K("") "__kernel void g(__global int *x) { f(x); }"), FM_GUARDIAN_CALLED);
	assert_int_equal(why("__kernel void f(int x); __kernel void g(int x) { f(x); }"
			     "__kernel void f(int x) { int g = x; g = (g); }"),
		FM_GUARDIAN_CALLED);
	assert_int_equal(why("typedef __global int *p; static __global int *g(p a) { return a; }"
			     "static int h(int a) { return a; }" K("")),
		FM_GUARDIAN_OK);
}

static void options(void **state)
{
	assert_int_equal(why_with(K(""), "-cl-kernel-arg-info -D N=4 -DM -I/usr/include/for "
					 "-cl-std=CL3.0 -Werror -DREAL=float"),
		FM_GUARDIAN_OK);
	assert_int_equal(why_with(K(""), "-DK=__kernel"), FM_GUARDIAN_OPTIONS);
	assert_int_equal(why_with(K(""), "-D barrier(x)="), FM_GUARDIAN_OPTIONS);
	assert_int_equal(why_with(K(""), "-Duint=int"), FM_GUARDIAN_OPTIONS);
	assert_int_equal(why_with(K(""), "-D N='a b'"), FM_GUARDIAN_OPTIONS);
	assert_int_equal(why_with(K(""), "-DADD=atomic_add"), FM_GUARDIAN_OPTIONS);
	assert_int_equal(why_with(K(""), "-cl-std=CLC++"), FM_GUARDIAN_OPTIONS);
	assert_int_equal(why_with(K(""), "-include a.h"), FM_GUARDIAN_OPTIONS);
}

/* Work-groups that may wait for each other. */
static void waits(void **state)
{
	static const char *const waiting[] = {
		K("while (atomic_add(x, 0) < 4);"),
		K("atomic_inc(x); while (atomic_load_explicit(x, a, b) != 4) ;"),
		K("for (;;) { if (atomic_or(x, 0) == 4) break; }"),
		K("for (;;) if (atom_or(x, 0) == 4) break;"),
		K("int n; do n = atomic_max(x, 0); while (n < 4);"),
		K("int n; do { n = atomic_max(x, 0); } while (n < 4);"),
		K("again: if (atomic_add(x, 0) < 4) goto again;"),
		K("while (atomic_xchg(x, 1)) ; x[1]++; atomic_xchg(x, 0);"),
		K("while (atomic_cmpxchg(x, 4, 0) != 4) ;"),
		K("while (atomic_cmpxchg(x, n, n) != n) ;"),
		K("while (*(volatile __global int *)x < 4) x[1] = *(volatile __global int *)x;"),
		K("volatile __global int *y = x; while (y[0] < 4);"),
		K("volatile __global int *z = x, *y = z; while (y[0] < 4);"),
		K("while (x[0] < 4) mem_fence(CLK_GLOBAL_MEM_FENCE);"),
		"__kernel void f(volatile __global int *x) { for (;;) { if (x[0]) break; } }",
		"int look(__global int *x) { return atomic_add(x, 0); }" K("while (look(x) < 4);"),
		"int look(volatile __global int *x) { return x[0]; }" K("while (look(x) < 4);"),
		"#define LOOK(x) atomic_add(x, 0)\n" K("while (LOOK(x) < 4);"),
		"typedef volatile int vint; __kernel void f(__global vint *x) { while (!x[0]); }",
		"#ifdef A\n" K("while (1) {") "\n#endif\n" K("x[0] = atomic_add(x, 0); } "),
		K("asm volatile(\"\");"),
	};
	static const char *const fine[] = {
		K("for (int i = 0; i < 9; i++) { atomic_inc(&x[i]); if (i) atomic_add(x, i); }"),
		K("for (int i = 0; i < 9; i++) x[i]++; int n = atomic_inc(x); x[n] = 1;"),
		K("int old; do { old = x[0]; } while (atomic_cmpxchg(x, old, old + 1) != old);"),
		K("while (x[0] < 4) x[0]++; do x[0]++; while (x[0] < 9); x[1] = atomic_inc(x);"),
		"__kernel void f(volatile __global int *x) { for (;;) { atomic_inc(&x[3]); break; "
		"} x[0]++; }",
		"void add(__global int *x) { int o; do { o = *x; } while (atomic_cmpxchg(x, o, o + "
		"1) != o); }" K("for (int i = 0; i < 3; i++) add(x);"),
		K("for (int i = 0; i < 9; i++) barrier(CLK_GLOBAL_MEM_FENCE);"),
	};

	for (size_t i = 0; i < sizeof(waiting) / sizeof(*waiting); i++)
		if (why(waiting[i]) != FM_GUARDIAN_WAITS)
			fail_msg("not refused: %s", waiting[i]);
	for (size_t i = 0; i < sizeof(fine) / sizeof(*fine); i++)
		if (why(fine[i]) != FM_GUARDIAN_OK)
			fail_msg("refused as %s: %s", fm_guardian_reason(why(fine[i])), fine[i]);
}

static void reasons(void **state)
{
	for (unsigned w = 0; w < FM_GUARDIAN_WHYS; w++) {
		const char *text = fm_guardian_reason((enum fm_guardian_why)w);

		assert_non_null(text);
		assert_in_range(strlen(text), 3, 22);
		assert_int_equal(strspn(text, "abcdefghijklmnopqrstuvwxyz -"), strlen(text));
	}
}

static void includes(void **state)
{
	const char *source = "#include \"a.h\"\n" K("");
	struct fm_guardian_text t;

	assert_int_equal(fm_guardian_rewrite(source, strlen(source), NULL, &t), FM_GUARDIAN_OK);
	assert_true(t.includes);
	free(t.text);
	assert_int_equal(fm_guardian_rewrite(K(""), strlen(K("")), NULL, &t), FM_GUARDIAN_OK);
	assert_false(t.includes);
	free(t.text);
	/* With a zero byte in it. */
	assert_int_equal(fm_guardian_rewrite("__kernel void f(int x) {\0}", 26, NULL, &t),
		FM_GUARDIAN_UNCLEAR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels),
		cmocka_unit_test(attributes),
		cmocka_unit_test(lexing),
		cmocka_unit_test(preprocessor),
		cmocka_unit_test(refused),
		cmocka_unit_test(options),
		cmocka_unit_test(waits),
		cmocka_unit_test(reasons),
		cmocka_unit_test(includes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlsym and dlerror, as programs see them. Any name that is no call of ours must be looked up as if
 * we were not there. With RTLD_NEXT and RTLD_DEFAULT the answer depends on the caller, which the C
 * library reads from the return address. So the filter looks first. What it leaves goes to the C
 * library by a jump, with registers and stack as they came.
 *
 * A name that only we have is handed to the C library with a mark behind it. The C library does not
 * find it and says so in its own words; dlerror removes the mark. So the error lasts as long as the
 * C library's own errors do, whatever the program calls in between.
 */
#include "base/util.h"
#include "lookup.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden")))

#define EXPORT __attribute__((visibility("default")))

HIDDEN void *(*fm_real_dlsym)(void *handle, const char *symbol);
HIDDEN void *(*fm_real_dlvsym)(void *handle, const char *symbol, const char *version);
static char *(*real_dlerror)(void);
/* Programs call our dlerror, or another shim's. This is false behind the stand-in. */
static bool marks_are_read;

static void *no_dlsym(void *handle, const char *symbol)
{
	return NULL;
}

static void *no_dlvsym(void *handle, const char *symbol, const char *version)
{
	return NULL;
}

static char *no_dlerror(void)
{
	return NULL;
}

/* The C library's own, which no look-up by name gives where ours is in front of it. */
static void *(*libc_dlvsym(void))(void *, const char *, const char *)
{
	void *found = __atomic_load_n(&fm_real_dlvsym, __ATOMIC_ACQUIRE);

	if (!found) {
		found = fm_find_in_libc("dlvsym");
		found = found ? found : (void *)no_dlvsym;
		__atomic_store_n((void **)&fm_real_dlvsym, found, __ATOMIC_RELEASE);
	}
	return (void *(*)(void *, const char *, const char *))found;
}

/* The oldest version exists in every C library, and is tried first. A look-up that fails would
 * allocate memory, and the caller may be the program's allocator. */
static void *next_to(const char *name, const void *ours)
{
	static const char *const versions[] = {
#ifdef __x86_64__
		"GLIBC_2.2.5",
#else
		"GLIBC_2.17",
#endif
		"GLIBC_2.34"};
	void *(*find)(void *, const char *, const char *) = libc_dlvsym();
	void *found = NULL;

	for (size_t i = 0; !found && i < FM_ARRAY_LEN(versions); i++)
		found = find(RTLD_NEXT, name, versions[i]);
	/* Behind the stand-in we come after the C library. */
	for (size_t i = 0; !found && i < FM_ARRAY_LEN(versions); i++)
		found = find(RTLD_DEFAULT, name, versions[i]);
	/* One without versions, or of another name. */
	if (!found && find == no_dlvsym)
		found = fm_find_in_libc(name);
	return found == ours ? NULL : found;
}

/* This asks the C library's own function: a sanitizer's dladdr() would first resolve everything
 * that it needs by dlsym(), which comes here again. */
static bool is_of_a_shim(const void *fn)
{
	static const char shims[] = "libfermata-";
	int (*whose)(const void *, Dl_info *) = NULL;
	const char *base;
	Dl_info info;

	*(void **)&whose = next_to("dladdr", NULL);
	if (!fn || !whose || !whose(fn, &info) || !info.dli_fname)
		return false;
	base = strrchr(info.dli_fname, '/');
	return !strncmp(base ? base + 1 : info.dli_fname, shims, strlen(shims));
}

/* Another shim's dlsym comes before the C library's, because each shim filters its own names. No
 * other library's is looked for, as if we were not there. Behind the stand-in nothing is found,
 * which leaves an error. */
static void *behind_other_shims(void *(*libc)(void *, const char *))
{
	void *next = libc(RTLD_NEXT, "dlsym");
	bool another = next != (void *)libc && next != (void *)dlsym && is_of_a_shim(next);

	return another ? next : (void *)libc;
}

/* This runs as early as possible, because a look-up of ours would clear an error that the program
 * has not read. */
__attribute__((constructor(101))) static void begin(void)
{
	fm_find_dlsym();
}

void fm_find_dlsym(void)
{
	void *error = next_to("dlerror", (void *)dlerror);
	void *found = next_to("dlsym", (void *)dlsym);
	void *(*real)(void *, const char *) =
		found ? (void *(*)(void *, const char *))found : no_dlsym;
	void *next = found ? behind_other_shims(real) : (void *)real, *read;

	__atomic_store_n(
		&real_dlerror, error ? (char *(*)(void))error : no_dlerror, __ATOMIC_RELEASE);
	/* This is the last look-up, and it succeeds, so it leaves no error for the program to
	 * read. */
	read = real(RTLD_DEFAULT, "dlerror");
	__atomic_store_n(
		&marks_are_read, read == (void *)dlerror || is_of_a_shim(read), __ATOMIC_RELEASE);
	__atomic_store_n(&fm_real_dlsym, (void *(*)(void *, const char *))next, __ATOMIC_RELEASE);
}

static char *say(void)
{
	if (FM_UNLIKELY(!__atomic_load_n(&real_dlerror, __ATOMIC_ACQUIRE)))
		fm_find_dlsym();
	return __atomic_load_n(&real_dlerror, __ATOMIC_ACQUIRE)();
}

/* The text is the C library's own copy, for this thread. */
static char *without_marks(char *text)
{
	size_t len = strlen(text), mark = strlen(FM_LOOK_UP_MARK);
	char *begun;

	if (len < mark || strcmp(text + len - mark, FM_LOOK_UP_MARK) != 0)
		return text;
	text[len - mark] = '\0';
	begun = strstr(text, FM_LOOK_UP_MARK);
	return begun ? begun + mark : text;
}

EXPORT char *dlerror(void)
{
	char *text = say();

	return text ? without_marks(text) : NULL;
}

/* An error that the program has not read yet is set again, as the name of a look-up that fails. */
HIDDEN char *fm_look_up_error_keep(void)
{
	const char *text = dlerror();
	char *kept = NULL;
	size_t mark = strlen(FM_LOOK_UP_MARK), len;

	if (FM_LIKELY(!text) || !__atomic_load_n(&marks_are_read, __ATOMIC_ACQUIRE))
		return NULL;
	len = strlen(text);
	kept = malloc(len + 2 * mark + 1);
	if (!kept)
		return NULL;
	memcpy(kept, FM_LOOK_UP_MARK, mark);
	memcpy(kept + mark, text, len);
	strcpy(kept + mark + len, FM_LOOK_UP_MARK);
	return kept;
}

HIDDEN void fm_look_up_error_put_back(char *kept)
{
	say(); /* ours, if there is one */
	if (FM_LIKELY(!kept))
		return;
	__atomic_load_n(&fm_real_dlsym, __ATOMIC_ACQUIRE)(RTLD_DEFAULT, kept);
	free(kept);
}

static bool begins_with(const char *symbol, const char *p)
{
	for (; *p; p++, symbol++)
		if (*symbol != *p)
			return false;
	return p[-1] == '_' || (*symbol >= 'A' && *symbol <= 'Z');
}

static bool is_ours(const char *symbol)
{
	for (const char *const *p = fm_look_up_prefixes; *p; p++)
		if (begins_with(symbol, *p))
			return true;
	return false;
}

/* Returns the answer; NULL: the C library is to be asked for what is in l then. */
void *fm_look_up_filter(struct fm_look_up *l);
HIDDEN __attribute__((used)) void *fm_look_up_filter(struct fm_look_up *l)
{
	const char *symbol = l->symbol;

	if (FM_UNLIKELY(!__atomic_load_n(&fm_real_dlsym, __ATOMIC_ACQUIRE)))
		fm_find_dlsym();
	if (FM_LIKELY(!symbol || !is_ours(symbol)))
		return NULL;
	return fm_look_up_answer(l);
}

/* The same for dlvsym(). */
void *fm_look_up_filter_version(const struct fm_look_up *l, const char *version);
HIDDEN __attribute__((used)) void *fm_look_up_filter_version(
	const struct fm_look_up *l, const char *version)
{
	libc_dlvsym();
	if (FM_LIKELY(!l->symbol || !version || !is_ours(l->symbol)))
		return NULL;
	return fm_look_up_answer_version(l, version);
}

/* Of shims that have nothing with versions. */
__attribute__((weak)) void *fm_look_up_answer_version(
	const struct fm_look_up *l, const char *version)
{
	(void)l, (void)version;
	return NULL;
}

/* fm_look_up_dlvsym: where a shim exports it, it does so as dlvsym. */
#if defined(__x86_64__)
__asm__(".text\n"
	".balign 16\n"
	".globl dlsym\n"
	".type dlsym, @function\n"
	"dlsym:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushq %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	pushq %rsi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	subq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	leaq 8(%rsp), %rdi\n" /* struct fm_look_up */
	"	call fm_look_up_filter\n"
	"	addq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rsi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	testq %rax, %rax\n"
	"	jz 1f\n"
	"	ret\n"
	"1:	jmp *fm_real_dlsym(%rip)\n"
	"	.cfi_endproc\n"
	".size dlsym, . - dlsym\n"
	".balign 16\n"
	".globl fm_look_up_dlvsym\n"
	".type fm_look_up_dlvsym, @function\n"
	"fm_look_up_dlvsym:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushq %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	pushq %rsi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	pushq %rdx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	leaq 8(%rsp), %rdi\n" /* struct fm_look_up */
	"	movq %rdx, %rsi\n"
	"	call fm_look_up_filter_version\n"
	"	popq %rdx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rsi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	testq %rax, %rax\n"
	"	jz 1f\n"
	"	ret\n"
	"1:	jmp *fm_real_dlvsym(%rip)\n"
	"	.cfi_endproc\n"
	".size fm_look_up_dlvsym, . - fm_look_up_dlvsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".balign 16\n"
	".globl dlsym\n"
	".type dlsym, %function\n"
	"dlsym:\n"
	"	.cfi_startproc\n"
	"	hint #34\n" /* bti c */
	"	stp x29, x30, [sp, #-32]!\n"
	"	.cfi_def_cfa_offset 32\n"
	"	.cfi_offset 29, -32\n"
	"	.cfi_offset 30, -24\n"
	"	mov x29, sp\n"
	"	stp x0, x1, [sp, #16]\n"
	"	add x0, sp, #8\n" /* struct fm_look_up */
	"	bl fm_look_up_filter\n"
	"	mov x9, x0\n"
	"	ldp x0, x1, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	"	.cfi_restore 29\n"
	"	.cfi_restore 30\n"
	"	.cfi_def_cfa_offset 0\n"
	"	cbz x9, 1f\n"
	"	mov x0, x9\n"
	"	ret\n"
	"1:	adrp x16, fm_real_dlsym\n"
	"	ldr x16, [x16, #:lo12:fm_real_dlsym]\n"
	"	br x16\n"
	"	.cfi_endproc\n"
	".size dlsym, . - dlsym\n"
	".balign 16\n"
	".globl fm_look_up_dlvsym\n"
	".type fm_look_up_dlvsym, %function\n"
	"fm_look_up_dlvsym:\n"
	"	.cfi_startproc\n"
	"	hint #34\n" /* bti c */
	"	stp x29, x30, [sp, #-48]!\n"
	"	.cfi_def_cfa_offset 48\n"
	"	.cfi_offset 29, -48\n"
	"	.cfi_offset 30, -40\n"
	"	mov x29, sp\n"
	"	stp x0, x1, [sp, #16]\n"
	"	str x2, [sp, #32]\n"
	"	add x0, sp, #8\n" /* struct fm_look_up */
	"	mov x1, x2\n"
	"	bl fm_look_up_filter_version\n"
	"	mov x9, x0\n"
	"	ldp x0, x1, [sp, #16]\n"
	"	ldr x2, [sp, #32]\n"
	"	ldp x29, x30, [sp], #48\n"
	"	.cfi_restore 29\n"
	"	.cfi_restore 30\n"
	"	.cfi_def_cfa_offset 0\n"
	"	cbz x9, 1f\n"
	"	mov x0, x9\n"
	"	ret\n"
	"1:	adrp x16, fm_real_dlvsym\n"
	"	ldr x16, [x16, #:lo12:fm_real_dlvsym]\n"
	"	br x16\n"
	"	.cfi_endproc\n"
	".size fm_look_up_dlvsym, . - fm_look_up_dlvsym\n");
#endif

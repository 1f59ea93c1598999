/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlsym, as programs see it. Whatever is no call of ours must be looked up as if we were not there:
 * with RTLD_NEXT and RTLD_DEFAULT the answer depends on who asks, which the C library reads from
 * the return address. So the filter looks first, and what it leaves goes to the C library by a jump
 * with registers and stack as they came.
 */
#include "hook.h"
#include "shim.h"
#include <dlfcn.h>

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN void *(*fm_cuda_real_dlsym)(void *handle, const char *symbol);

static void *no_dlsym(void *handle, const char *symbol)
{
	return NULL;
}

/* The oldest version is there in every C library, and first: a look-up that fails would allocate
 * memory, and the program's allocator may be what asks. */
void fm_cuda_find_dlsym(void)
{
	static const char *const versions[] = {
#ifdef __x86_64__
		"GLIBC_2.2.5",
#else
		"GLIBC_2.17",
#endif
		"GLIBC_2.34"};
	void *found = NULL;

	for (size_t i = 0; !found && i < FM_ARRAY_LEN(versions); i++)
		found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	/* Behind the stand-in we come after the C library. */
	for (size_t i = 0; !found && i < FM_ARRAY_LEN(versions); i++)
		found = dlvsym(RTLD_DEFAULT, "dlsym", versions[i]);
	if (found == (void *)dlsym)
		found = NULL;
	__atomic_store_n(&fm_cuda_real_dlsym,
		found ? (void *(*)(void *, const char *))found : no_dlsym, __ATOMIC_RELEASE);
}

/* Returns NULL to have the C library asked, FM_CUDA_NO_SYMBOL for "not found" (dlerror is set),
 * else the answer. */
HIDDEN __attribute__((used)) void *fm_cuda_dlsym(void *handle, const char *symbol)
{
	if (FM_UNLIKELY(!__atomic_load_n(&fm_cuda_real_dlsym, __ATOMIC_ACQUIRE)))
		fm_cuda_find_dlsym();
	if (FM_LIKELY(!symbol || symbol[0] != 'c' || symbol[1] != 'u' || symbol[2] < 'A' ||
		      symbol[2] > 'Z' || handle == RTLD_NEXT))
		return NULL;
	return fm_cuda_answer(handle, symbol);
}

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
	"	call fm_cuda_dlsym\n"
	"	addq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rsi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	testq %rax, %rax\n"
	"	jz 1f\n"
	"	xorl %edx, %edx\n"
	"	cmpq $1, %rax\n" /* FM_CUDA_NO_SYMBOL */
	"	cmoveq %rdx, %rax\n"
	"	ret\n"
	"1:	jmp *fm_cuda_real_dlsym(%rip)\n"
	"	.cfi_endproc\n"
	".size dlsym, . - dlsym\n");
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
	"	bl fm_cuda_dlsym\n"
	"	mov x9, x0\n"
	"	ldp x0, x1, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	"	.cfi_restore 29\n"
	"	.cfi_restore 30\n"
	"	.cfi_def_cfa_offset 0\n"
	"	cbz x9, 1f\n"
	"	cmp x9, #1\n" /* FM_CUDA_NO_SYMBOL */
	"	csel x0, xzr, x9, eq\n"
	"	ret\n"
	"1:	adrp x16, fm_cuda_real_dlsym\n"
	"	ldr x16, [x16, #:lo12:fm_cuda_real_dlsym]\n"
	"	br x16\n"
	"	.cfi_endproc\n"
	".size dlsym, . - dlsym\n");
#endif

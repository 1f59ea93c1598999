/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is loaded into programs must load into those of an older C library, too: of each function of
 * glibc the oldest version is asked for that does the same (2.17 or older). Included by the
 * compiler in front of every file of a module (cmake/modules.cmake). Functions that glibc did not
 * have then are in glibc.c.
 */
#pragma once

#if defined(__linux__) && defined(__x86_64__)
#define FM_OLD_LIBC(name, x86_64, arm64) __asm__(".symver " #name ", " #name "@GLIBC_" x86_64)
#elif defined(__linux__) && defined(__aarch64__)
#define FM_OLD_LIBC(name, x86_64, arm64) __asm__(".symver " #name ", " #name "@GLIBC_" arm64)
#endif

#ifdef FM_OLD_LIBC
FM_OLD_LIBC(dladdr, "2.2.5", "2.17");
FM_OLD_LIBC(dladdr1, "2.3.3", "2.17");
FM_OLD_LIBC(dlclose, "2.2.5", "2.17");
FM_OLD_LIBC(dlinfo, "2.3.3", "2.17");
FM_OLD_LIBC(dlmopen, "2.3.4", "2.17");
FM_OLD_LIBC(dlopen, "2.2.5", "2.17");
FM_OLD_LIBC(dlvsym, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_attr_setstacksize, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_condattr_setclock, "2.3.3", "2.17");
FM_OLD_LIBC(pthread_create, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_detach, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_getattr_np, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_getspecific, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_join, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_key_create, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_key_delete, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_kill, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_mutex_trylock, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_once, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_rwlock_destroy, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_rwlock_init, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_rwlock_rdlock, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_rwlock_tryrdlock, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_rwlock_unlock, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_rwlock_wrlock, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_setname_np, "2.12", "2.17");
FM_OLD_LIBC(pthread_setspecific, "2.2.5", "2.17");
FM_OLD_LIBC(pthread_sigmask, "2.2.5", "2.17");
#endif

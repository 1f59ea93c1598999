/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewrites all images for one architecture that are in files: those in a library's sections of
 * fatbins, or the file itself. Says how many kernels were rewritten, why others were not, what was
 * seen in them, and how much processor time it took, the files being in memory.
 *
 *   bench_cuda_images [--sm N] [--write DIR] [--cache DIR] FILE|DIR...
 *
 * With --write each result is kept as DIR/NUMBER.cubin (or .ptx), and what it was made of as
 * DIR/NUMBER.was. With --cache images are looked
 * for there first (and kept there), so that a second run says what that costs. Exit status 1 if an
 * image was broken, or the result of one was not as it should be.
 */
#include "api/cuda/cache/cache.h"
#include "base/cleanup.h"
#include "base/util.h"
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#define FATBIN_MAGIC 0xba55ed50u

struct count {
	uint64_t images[FM_IMAGE_WHYS], kernels[FM_KERNEL_WHYS];
	uint64_t trait[FM_KERNEL_TRAITS], grid;
	uint64_t bytes_in, bytes_out;
	int64_t ns, longest_ns;
};

struct bench {
	unsigned sm;
	const char *write, *keep;
	unsigned written;
	struct fm_cache cache;
	struct count all;
};

static void keep_as(struct bench *b, const char *suffix, const void *data, size_t size)
{
	char path[PATH_MAX];
	FM_CLEAN_FILE FILE *f = NULL;

	snprintf(path, sizeof(path), "%s/%05u.%s", b->write, b->written, suffix);
	f = fopen(path, "wb");
	if (!f || fwrite(data, 1, size, f) != size) {
		fprintf(stderr, "bench_cuda_images: %s: %s\n", path, strerror(errno));
		exit(2);
	}
}

static void keep(struct bench *b, const struct fm_image *image, const void *was, size_t size)
{
	/* Without the zero at the end. */
	keep_as(b, image->text ? "ptx" : "cubin", image->data, image->size - image->text);
	keep_as(b, "was", was, size);
	b->written++;
}

/* Of this thread: a busy machine does not count. */
static int64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void rewrite(struct bench *b, struct count *c, const void *data, size_t size)
{
	struct fm_image image;
	int64_t from = cpu_ns(), took;

	fm_cache_rewrite(b->keep ? &b->cache : NULL, data, size, b->sm, NULL, &image);
	took = cpu_ns() - from;
	c->ns += took;
	c->longest_ns = FM_MAX(c->longest_ns, took);
	c->images[image.why]++;
	for (unsigned i = 0; i < image.n; i++) {
		const struct fm_kernel *k = &image.kernel[i];

		c->kernels[k->why]++;
		for (unsigned t = 0; t < FM_KERNEL_TRAITS; t++)
			c->trait[t] += !k->why && (k->traits & 1u << t);
		c->grid += !k->why && fm_kernel_mode(k->traits) == FM_GUARD_GRID;
	}
	if (!image.why) {
		c->bytes_in += size;
		c->bytes_out += image.size;
		if (b->write)
			keep(b, &image, data, size);
	}
	fm_image_free(&image);
}

/* Fatbins one behind the other, with padding between them. */
static void section(struct bench *b, struct count *c, const uint8_t *p, size_t size)
{
	for (size_t at = 0; size - at >= 16;) {
		uint32_t magic;
		uint16_t head;
		uint64_t body;

		memcpy(&magic, p + at, sizeof(magic));
		memcpy(&head, p + at + 6, sizeof(head));
		memcpy(&body, p + at + 8, sizeof(body));
		if (magic != FATBIN_MAGIC || body > size - at || head > size - at - body) {
			at += FM_MIN((size_t)8, size - at);
			continue;
		}
		rewrite(b, c, p + at, head + body);
		at += FM_MIN((head + body + 7) & ~(uint64_t)7, size - at);
	}
}

/* A library or program for this kind of processor; false: something else. */
static bool library(struct bench *b, struct count *c, const uint8_t *p, size_t size)
{
	Elf64_Ehdr h;
	Elf64_Shdr s, names;

	if (size < sizeof(h))
		return false;
	memcpy(&h, p, sizeof(h));
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_machine == 190 ||
		h.e_shentsize != sizeof(s) || h.e_shoff > size ||
		(uint64_t)h.e_shnum * sizeof(s) > size - h.e_shoff || h.e_shstrndx >= h.e_shnum)
		return false;
	memcpy(&names, p + h.e_shoff + h.e_shstrndx * sizeof(s), sizeof(names));
	for (unsigned i = 0; i < h.e_shnum; i++) {
		const char *name;

		memcpy(&s, p + h.e_shoff + i * sizeof(s), sizeof(s));
		if (s.sh_type == SHT_NOBITS || s.sh_offset > size ||
			s.sh_size > size - s.sh_offset || names.sh_offset + s.sh_name >= size)
			continue;
		name = (const char *)p + names.sh_offset + s.sh_name;
		if (!strcmp(name, ".nv_fatbin"))
			section(b, c, p + s.sh_offset, s.sh_size);
	}
	return true;
}

static uint64_t kernels(const struct count *c)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < FM_KERNEL_WHYS; i++)
		n += c->kernels[i];
	return n;
}

static void add(struct count *to, const struct count *c)
{
	for (unsigned i = 0; i < FM_IMAGE_WHYS; i++)
		to->images[i] += c->images[i];
	for (unsigned i = 0; i < FM_KERNEL_WHYS; i++)
		to->kernels[i] += c->kernels[i];
	for (unsigned i = 0; i < FM_KERNEL_TRAITS; i++)
		to->trait[i] += c->trait[i];
	to->grid += c->grid;
	to->bytes_in += c->bytes_in;
	to->bytes_out += c->bytes_out;
	to->ns += c->ns;
	to->longest_ns = FM_MAX(to->longest_ns, c->longest_ns);
}

static void one_file(struct bench *b, const char *path)
{
	FM_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct count c = {0};
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || !st.st_size)
		return;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		return;
	if (!library(b, &c, p, (size_t)st.st_size))
		rewrite(b, &c, p, (size_t)st.st_size);
	munmap(p, (size_t)st.st_size);
	if (!kernels(&c) &&
		c.images[FM_IMAGE_FOREIGN] + c.images[FM_IMAGE_OK] == c.images[FM_IMAGE_FOREIGN] &&
		!c.images[FM_IMAGE_BROKEN] && !c.images[FM_IMAGE_NO_CODE])
		return;
	printf("%-44s %6" PRIu64 " of %6" PRIu64 " kernels in %5" PRIu64 " images %8.1f ms\n",
		strrchr(path, '/') ? strrchr(path, '/') + 1 : path, c.kernels[0], kernels(&c),
		c.images[FM_IMAGE_OK], (double)c.ns / 1e6);
	add(&b->all, &c);
}

static void folder(struct bench *b, const char *path)
{
	struct dirent **names;
	int n = scandir(path, &names, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		char file[PATH_MAX], real[PATH_MAX];
		struct stat st;

		snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
		/* Each library once, under its first name. */
		if (realpath(file, real) && !lstat(file, &st) && S_ISREG(st.st_mode))
			one_file(b, real);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

static void report(const struct bench *b)
{
	const struct count *c = &b->all;

	printf("\nimages for sm_%u\n", b->sm);
	for (unsigned i = 0; i < FM_IMAGE_WHYS; i++)
		if (c->images[i] || !i)
			printf("  %8" PRIu64 " %s\n", c->images[i], fm_image_reason(i));
	printf("kernels in them\n");
	for (unsigned i = 0; i < FM_KERNEL_WHYS; i++)
		if (c->kernels[i] || !i)
			printf("  %8" PRIu64 " %s\n", c->kernels[i], fm_kernel_reason(i));
	printf("of those rewritten\n");
	for (unsigned i = 0; i < FM_KERNEL_TRAITS; i++)
		printf("  %8" PRIu64 " %s\n", c->trait[i], fm_kernel_trait[i].name);
	printf("  %8" PRIu64 " stop as a whole grid or not at all\n", c->grid);
	printf("images_rewrite_total %.1f ms\n", (double)c->ns / 1e6);
	printf("images_rewrite_longest %.1f ms\n", (double)c->longest_ns / 1e6);
	if (c->kernels[0])
		printf("images_rewrite_kernel %.2f us\n",
			(double)c->ns / 1e3 / (double)c->kernels[0]);
	printf("images_in %.1f MiB\n", (double)c->bytes_in / (1 << 20));
	printf("images_out %.1f MiB\n", (double)c->bytes_out / (1 << 20));
}

int main(int argc, char **argv)
{
	struct bench b = {.sm = 90};
	int i = 1;

	for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
		if (!strcmp(argv[i], "--sm"))
			b.sm = (unsigned)strtoul(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--write"))
			b.write = argv[i + 1];
		else if (!strcmp(argv[i], "--cache"))
			b.keep = argv[i + 1];
		else
			break;
	}
	if (i == argc || argv[i][0] == '-') {
		fprintf(stderr, "usage: bench_cuda_images [--sm N] [--write DIR] [--cache DIR] "
				"FILE|DIR...\n");
		return 2;
	}
	if (b.keep && fm_cache_open(&b.cache, b.keep, 64ull << 30)) {
		fprintf(stderr, "bench_cuda_images: %s cannot be used as a cache\n", b.keep);
		return 2;
	}
	for (; i < argc; i++) {
		struct stat st;

		if (stat(argv[i], &st)) {
			perror(argv[i]);
			return 2;
		}
		if (S_ISDIR(st.st_mode))
			folder(&b, argv[i]);
		else
			one_file(&b, argv[i]);
	}
	report(&b);
	return b.all.images[FM_IMAGE_BROKEN] || b.all.images[FM_IMAGE_VERIFY] ? 1 : 0;
}

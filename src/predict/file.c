/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of templates: lines of JSON, one for the image, then one for each kernel, with their
 * members in a fixed order. They are read in programs that are not ours, so nothing is needed for
 * it but this file; what is not as it is written here is refused, and all numbers are bounded.
 */
#include "base/cleanup.h"
#include "base/util.h"
#include "template_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERSION    1
#define SIZE_LIMIT ((size_t)64 << 20)
/* A number of a template: of bytes, and of what they are made of. Products are checked when they
 * are made. */
#define NUMBER_MOST (INT64_C(1) << 60)

static const char *const axis[] = {"x", "y", "z"};

/* --- writing --- */

static void print_operand(FILE *to, struct fm_operand of)
{
	if (of.kind == FM_OPERAND_GRID || of.kind == FM_OPERAND_BLOCK)
		fprintf(to, "\"%s.%s\"", of.kind == FM_OPERAND_GRID ? "grid" : "block",
			axis[of.at % 3]);
	else
		fprintf(to, "\"u%d@%u\"", of.kind == FM_OPERAND_U32 ? 32 : 64, of.at);
}

static void print_linear(FILE *to, const char *name, const struct fm_linear *l)
{
	fprintf(to, ",\"%s\":", name);
	if (!l->n) {
		fprintf(to, "%" PRId64, l->plus);
		return;
	}
	fprintf(to, "{\"num\":%" PRId64 ",\"den\":%" PRId64 ",\"of\":[", l->num, l->den);
	for (unsigned i = 0; i < l->n; i++) {
		fputs(i ? "," : "", to);
		print_operand(to, l->of[i]);
	}
	fprintf(to, "],\"plus\":%" PRId64 "}", l->plus);
}

static void print_memo(FILE *to, const struct fm_memo *m)
{
	fprintf(to, "{\"key\":\"%016" PRIx64 "\",\"spans\":[", m->key);
	for (unsigned i = 0; i < m->n; i++)
		fprintf(to, "%s[%" PRId64 ",%" PRId64 "]", i ? "," : "", m->span[i].from,
			m->span[i].to);
	fputs("]}", to);
}

static void print_pointer(FILE *to, const struct fm_template *t)
{
	fprintf(to, "{\"at\":%u,\"form\":\"%s\"", t->at, fm_form_name(t->form));
	if (t->form == FM_FORM_FIXED || t->form == FM_FORM_LINEAR || t->form == FM_FORM_STRIDED) {
		print_linear(to, "from", &t->from);
		print_linear(to, "bytes", &t->bytes);
	}
	if (t->form == FM_FORM_STRIDED) {
		print_linear(to, "step", &t->step);
		print_linear(to, "count", &t->count);
	}
	if (t->form == FM_FORM_MEMO) {
		fputs(",\"seen\":[", to);
		for (unsigned i = 0; i < t->n; i++) {
			fputs(i ? "," : "", to);
			print_memo(to, &t->memo[i]);
		}
		fputs("]", to);
	}
	fputs("}", to);
}

void fm_templates_print_head(FILE *to, const char *image, size_t kernels)
{
	fprintf(to, "{\"fermata_kernels\":%d,\"image\":\"%s\",\"kernels\":%zu}\n", VERSION, image,
		kernels);
}

void fm_templates_print(FILE *to, const struct fm_kernel_templates *k)
{
	fputs("{\"kernel\":\"", to);
	for (const char *c = k->name; *c; c++)
		fprintf(to, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
	fprintf(to, "\",\"size\":%u,\"launches\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"pointers\":[",
		k->size, k->launches, k->failed);
	for (unsigned i = 0; i < k->n; i++) {
		fputs(i ? "," : "", to);
		print_pointer(to, &k->pointer[i]);
	}
	fputs("]}\n", to);
}

/* --- reading --- */

/* Where one is. After the first mistake nothing more is read. */
struct reader {
	const char *name, *at, *end;
	unsigned line;
	struct fm_err *err;
	int rc;
};

static int bad(struct reader *r, const char *what)
{
	if (r->rc)
		return r->rc;
	r->rc = fm_err_set(r->err, -EINVAL, "%.120s:%u: %s", r->name, r->line, what);
	fm_err_hint(r->err,
		"`fermata-lab profile' writes such a file; remove this one, and profile "
		"the program again");
	return r->rc;
}

static int no_memory(struct reader *r)
{
	if (!r->rc)
		r->rc = fm_err_set(r->err, -ENOMEM, "out of memory");
	return r->rc;
}

static void want(struct reader *r, const char *text)
{
	size_t n = strlen(text);

	if (r->rc)
		return;
	if ((size_t)(r->end - r->at) < n) {
		bad(r, "the file ends too early");
		return;
	}
	if (memcmp(r->at, text, n)) {
		bad(r, "is not what a file of templates has there");
		return;
	}
	r->at += n;
	r->line += text[n - 1] == '\n';
}

static bool comes(struct reader *r, const char *text)
{
	size_t n = strlen(text);

	if (r->rc || (size_t)(r->end - r->at) < n || memcmp(r->at, text, n))
		return false;
	r->at += n;
	return true;
}

/* As JSON writes whole numbers: no sign but a minus, no zeros in front. */
static int64_t number(struct reader *r, int64_t min, int64_t max)
{
	bool minus = comes(r, "-");
	const char *from = r->at;
	int64_t n = 0;

	for (; !r->rc && r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
		if (__builtin_mul_overflow(n, 10, &n) ||
			__builtin_sub_overflow(n, *r->at - '0', &n))
			bad(r, "a number is too large");
	if (r->rc)
		return 0;
	if (r->at == from || (*from == '0' && (r->at > from + 1 || minus)))
		bad(r, "a number is missing");
	else if (!minus && n == INT64_MIN)
		bad(r, "a number is too large");
	n = minus || r->rc ? n : -n;
	if (!r->rc && (n < min || n > max))
		bad(r, "a number is out of range");
	return r->rc ? 0 : n;
}

static int64_t named_number(struct reader *r, const char *name, int64_t min, int64_t max)
{
	want(r, name);
	return number(r, min, max);
}

/* --- pointers --- */

static struct fm_operand operand(struct reader *r, uint32_t size)
{
	struct fm_operand of = {0};
	bool wide = false;

	want(r, "\"");
	if (comes(r, "grid.") || comes(r, "block.")) {
		of.kind = r->at[-2] == 'd' ? FM_OPERAND_GRID : FM_OPERAND_BLOCK;
		for (uint16_t i = 0; i < FM_ARRAY_LEN(axis); i++)
			if (comes(r, axis[i])) {
				of.at = i;
				want(r, "\"");
				return of;
			}
		bad(r, "no axis of that name");
		return of;
	}
	wide = comes(r, "u64@");
	if (!wide)
		want(r, "u32@");
	of.kind = wide ? FM_OPERAND_U64 : FM_OPERAND_U32;
	of.at = (uint16_t)number(r, 0, FM_TEMPLATE_PARAMS);
	want(r, "\"");
	if (!r->rc && (of.at % (wide ? 8 : 4) || of.at + (wide ? 8u : 4u) > size))
		bad(r, "a scalar is not within the parameters");
	return of;
}

static struct fm_linear linear(struct reader *r, const char *name, uint32_t size)
{
	struct fm_linear l = {.den = 1};

	want(r, name);
	if (!comes(r, "{")) {
		l.plus = number(r, -NUMBER_MOST, NUMBER_MOST);
		return l;
	}
	l.num = named_number(r, "\"num\":", INT64_MIN, INT64_MAX);
	l.den = named_number(r, ",\"den\":", 1, INT64_MAX);
	want(r, ",\"of\":[");
	do {
		if (l.n == FM_FACTORS)
			bad(r, "a product has more than three factors");
		else
			l.of[l.n++] = operand(r, size);
	} while (comes(r, ","));
	want(r, "]");
	l.plus = named_number(r, ",\"plus\":", INT64_MIN, INT64_MAX);
	want(r, "}");
	return l;
}

static uint64_t key(struct reader *r)
{
	uint64_t k = 0;

	want(r, "{\"key\":\"");
	for (unsigned i = 0; i < 16 && !r->rc; i++) {
		char c = r->at < r->end ? *r->at++ : '\0';

		if (c >= '0' && c <= '9')
			k = k << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			k = k << 4 | (uint64_t)(c - 'a' + 10);
		else
			bad(r, "a key is not 16 hexadecimal digits");
	}
	want(r, "\",\"spans\":[");
	return k;
}

static void memo(struct reader *r, struct fm_memo *m)
{
	struct fm_span span[FM_TEMPLATE_SPANS];

	m->key = key(r);
	if (comes(r, "]}"))
		goto out;
	do {
		struct fm_span *s = &span[m->n];

		if (m->n == FM_TEMPLATE_SPANS) {
			bad(r, "there are more than 64 spans");
			break;
		}
		s->from = named_number(r, "[", -NUMBER_MOST, NUMBER_MOST);
		s->to = named_number(r, ",", -NUMBER_MOST, NUMBER_MOST);
		want(r, "]");
		if (!r->rc && (s->from >= s->to || (m->n && s->from <= s[-1].to)))
			bad(r, "spans do not rise");
		m->n++;
	} while (comes(r, ","));
	want(r, "]}");
out:
	if (r->rc)
		m->n = 0;
	m->span = m->n ? malloc(m->n * sizeof(*m->span)) : NULL;
	if (m->n && !m->span)
		no_memory(r);
	else if (m->n)
		memcpy(m->span, span, m->n * sizeof(*m->span));
}

/* As many as there are, without the room that was for more: there may be many such lists. */
static void *fitted(void *of, unsigned n, unsigned room, size_t each)
{
	void *less = n && n < room ? realloc(of, n * each) : NULL;

	return less ? less : of;
}

/* Room for one more, as they are read: a file may have many pointers, each with few. */
static bool has_room(struct fm_template *t, unsigned *room)
{
	unsigned wanted = *room ? 2 * *room : 4;
	struct fm_memo *more;

	if (t->n < *room)
		return true;
	more = realloc(t->memo, wanted * sizeof(*more));
	if (!more)
		return false;
	t->memo = more;
	*room = wanted;
	return true;
}

static void memos(struct reader *r, struct fm_template *t)
{
	unsigned room = 0;

	want(r, ",\"seen\":[");
	do {
		if (t->n == FM_TEMPLATE_MEMOS)
			bad(r, "there are more than 64 memos");
		if (!r->rc && !has_room(t, &room))
			no_memory(r);
		if (r->rc)
			break;
		t->memo[t->n] = (struct fm_memo){0};
		memo(r, &t->memo[t->n++]);
		if (!r->rc && t->n > 1 && t->memo[t->n - 1].key <= t->memo[t->n - 2].key)
			bad(r, "keys do not rise");
	} while (comes(r, ","));
	want(r, "]");
	t->memo = fitted(t->memo, t->n, room, sizeof(*t->memo));
}

static void form(struct reader *r, struct fm_template *t)
{
	want(r, ",\"form\":\"");
	for (unsigned i = 0; i < FM_FORMS; i++)
		if (comes(r, fm_form_name(i))) {
			t->form = (uint8_t)i;
			want(r, "\"");
			return;
		}
	bad(r, "there is no form of that name");
}

static void pointer(struct reader *r, uint32_t size, uint32_t behind, struct fm_template *t)
{
	*t = (struct fm_template){.at = (uint32_t)named_number(r, "{\"at\":", behind, size)};
	form(r, t);
	if (!r->rc && (t->at % (t->form == FM_FORM_BOX ? 64 : 8) ||
			      t->at + fm_pointer_bytes(t->form) > size))
		bad(r, "a pointer is not within the parameters");
	if (t->form == FM_FORM_FIXED || t->form == FM_FORM_LINEAR || t->form == FM_FORM_STRIDED) {
		t->from = linear(r, ",\"from\":", size);
		t->bytes = linear(r, ",\"bytes\":", size);
	}
	if (t->form == FM_FORM_STRIDED) {
		t->step = linear(r, ",\"step\":", size);
		t->count = linear(r, ",\"count\":", size);
	}
	if (!r->rc && t->form == FM_FORM_MEMO)
		memos(r, t);
	want(r, "}");
}

static void pointers(struct reader *r, struct fm_kernel_templates *k)
{
	unsigned room = 0;
	uint32_t behind = 0;

	want(r, ",\"pointers\":[");
	if (comes(r, "]}\n")) {
		r->line++;
		return;
	}
	do {
		struct fm_template *more = k->pointer;

		if (k->n == FM_TEMPLATE_POINTERS)
			bad(r, "there are more than 256 pointers");
		if (k->n == room && !r->rc) {
			room = room ? 2 * room : 4;
			more = realloc(k->pointer, room * sizeof(*more));
			if (!more)
				no_memory(r);
		}
		if (r->rc)
			return;
		k->pointer = more;
		pointer(r, k->size, behind, &k->pointer[k->n]);
		behind = k->pointer[k->n].at + fm_pointer_bytes(k->pointer[k->n].form);
		k->n++;
	} while (comes(r, ","));
	want(r, "]}\n");
	k->pointer = fitted(k->pointer, k->n, room, sizeof(*k->pointer));
}

/* --- kernels --- */

static void kernel_name(struct reader *r, struct fm_kernel_templates *k)
{
	char name[FM_TEMPLATE_NAME + 1];
	size_t n = 0;

	want(r, "{\"kernel\":\"");
	while (!r->rc && r->at < r->end && *r->at != '"') {
		comes(r, "\\");
		if (r->at == r->end || *r->at <= ' ' || *r->at > '~' || n == FM_TEMPLATE_NAME)
			bad(r, "a kernel's name has other characters, or too many");
		else
			name[n++] = *r->at++;
	}
	if (!r->rc && !n)
		bad(r, "a kernel has no name");
	name[n] = '\0';
	k->name = r->rc ? NULL : strdup(name);
	if (!k->name)
		no_memory(r);
	want(r, "\"");
}

static void kernel(struct reader *r, struct fm_kernel_templates *k)
{
	*k = (struct fm_kernel_templates){0};
	kernel_name(r, k);
	k->size = (uint32_t)named_number(r, ",\"size\":", 0, FM_TEMPLATE_PARAMS);
	k->launches = (uint64_t)named_number(r, ",\"launches\":", 0, INT64_MAX);
	k->failed = (uint64_t)named_number(r, ",\"failed\":", 0, INT64_MAX);
	if (!r->rc && k->failed > k->launches)
		bad(r, "more launches have failed than there were");
	pointers(r, k);
}

static unsigned head(struct reader *r, const char *image)
{
	unsigned n;

	if (named_number(r, "{\"fermata_kernels\":", 0, INT64_MAX) != VERSION)
		bad(r, "is not of version 1, the one that is known here");
	want(r, ",\"image\":\"");
	if (!r->rc && !comes(r, image))
		bad(r, "is about another image");
	n = (unsigned)named_number(r, "\",\"kernels\":", 0, FM_TEMPLATE_KERNELS);
	want(r, "}\n");
	return n;
}

/* Lines of kernels are some tens of bytes long: what the head says is not believed. The product
 * does not overflow, because n is FM_TEMPLATE_KERNELS at most. */
static void kernels(struct reader *r, struct fm_templates *t, unsigned n)
{
	unsigned room = 0;

	while (t->n < n && !r->rc) {
		struct fm_kernel_templates *more = t->kernel;

		if (t->n == room) {
			room = room ? 2 * room : 16;
			more = realloc(t->kernel, room * sizeof(*more));
		}
		if (!more) {
			no_memory(r);
			return;
		}
		t->kernel = more;
		kernel(r, &t->kernel[t->n++]);
		if (!r->rc && t->n > 1 &&
			strcmp(t->kernel[t->n - 1].name, t->kernel[t->n - 2].name) <= 0)
			bad(r, "names of kernels do not rise");
	}
	if (!r->rc && r->at != r->end)
		bad(r, "there is more than the first line says");
	t->kernel = fitted(t->kernel, t->n, room, sizeof(*t->kernel));
}

int fm_templates_parse(struct fm_templates *t, const char *image, const char *name,
	const char *text, size_t size, struct fm_err *err)
{
	struct reader r = {.name = name, .at = text, .end = text + size, .line = 1, .err = err};
	unsigned n;

	*t = (struct fm_templates){0};
	n = head(&r, image);
	kernels(&r, t, n);
	if (r.rc) {
		fm_templates_free(t);
		return r.rc;
	}
	snprintf(t->image, sizeof(t->image), "%s", image);
	return 0;
}

/* --- lives --- */

void fm_kernel_templates_free(struct fm_kernel_templates *k)
{
	for (unsigned i = 0; i < k->n; i++) {
		for (unsigned m = 0; m < k->pointer[i].n; m++)
			free(k->pointer[i].memo[m].span);
		free(k->pointer[i].memo);
	}
	free(k->pointer);
	free(k->name);
	*k = (struct fm_kernel_templates){0};
}

void fm_templates_free(struct fm_templates *t)
{
	for (unsigned i = 0; i < t->n; i++)
		fm_kernel_templates_free(&t->kernel[i]);
	free(t->kernel);
	*t = (struct fm_templates){0};
}

const struct fm_kernel_templates *fm_templates_find(const struct fm_templates *t, const char *name)
{
	unsigned low = 0, high = t->n;

	while (low < high) {
		unsigned mid = (low + high) / 2;

		if (strcmp(t->kernel[mid].name, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low < t->n && !strcmp(t->kernel[low].name, name) ? &t->kernel[low] : NULL;
}

/* --- files --- */

static bool is_trusted(const struct stat *st)
{
	return (st->st_uid == geteuid() || st->st_uid == 0) && !(st->st_mode & 022);
}

/* The file, if the user or root alone can have written it. A folder may be a link, for the
 * administrator's sake; what is behind it counts. */
static int open_file(const char *dir, const char *image, size_t most, size_t *size)
{
	FM_CLEAN_FD int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FM_CLEAN_FD int fd = -1;
	char name[FM_IMAGE_ID + sizeof(".jsonl")];
	struct stat st;

	if (at < 0 || fstat(at, &st))
		return -errno;
	if (!is_trusted(&st))
		return -EPERM;
	snprintf(name, sizeof(name), "%.32s.jsonl", image);
	/* Not to wait for the other end of a pipe. */
	fd = openat(at, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return errno == ELOOP ? -EPERM : -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (!is_trusted(&st))
		return -EPERM;
	if (st.st_size < 0 || (uint64_t)st.st_size > most)
		return -EFBIG;
	*size = (size_t)st.st_size;
	return fm_take_fd(&fd);
}

static int read_text(int fd, char *text, size_t size, size_t *got)
{
	for (*got = 0; *got < size;) {
		ssize_t n = read(fd, text + *got, size - *got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		*got += (size_t)n;
	}
	return 0;
}

static int cannot_read(int rc, const char *name, struct fm_err *err)
{
	if (rc != -EPERM)
		return fm_err_set(err, rc, "%.160s: cannot be read: %s", name, strerror(-rc));
	fm_err_set(
		err, rc, "%.160s: not read: others than you and root could have written it", name);
	fm_err_hint(
		err, "chown and chmod go-w the file and its folder, if you trust what is in it");
	return rc;
}

int fm_templates_load(struct fm_templates *t, const char *image, const char *dir, size_t *room,
	struct fm_err *err)
{
	size_t most = room ? FM_MIN(*room, SIZE_LIMIT) : SIZE_LIMIT;
	FM_CLEAN_FREE char *text = NULL, *name = NULL;
	FM_CLEAN_FD int fd = -1;
	size_t size = 0, got;
	int rc;

	*t = (struct fm_templates){0};
	if (asprintf(&name, "%s/%s.jsonl", dir, image) < 0) {
		name = NULL;
		return fm_err_set(err, -ENOMEM, "out of memory");
	}
	fd = open_file(dir, image, most, &size);
	if (fd < 0)
		return cannot_read(fd, name, err);
	if (room)
		*room -= size;
	text = malloc(size + 1);
	if (!text)
		return fm_err_set(err, -ENOMEM, "out of memory");
	rc = read_text(fd, text, size, &got);
	if (rc)
		return cannot_read(rc, name, err);
	return fm_templates_parse(t, image, name, text, got, err);
}

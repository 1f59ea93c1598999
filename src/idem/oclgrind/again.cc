// SPDX-License-Identifier: Apache-2.0
// What again.hh says.
#include "again.hh"
#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace oclgrind;

static const size_t most_bytes = (size_t)512 << 20; // of what is kept; a kernel that needs more is not tried
static const uint64_t longest_group = 64;

again::again(const Context *in, const char *path) : context(in)
{
	const char *plan = getenv("FERMATA_IDEMPOTENCE_PLAN");
	FILE *f = plan ? fopen(plan, "re") : nullptr;
	unsigned long long op, from;

	if (!f)
		return;
	results = fopen(path, "wxe");
	while (results && fscanf(f, "%llu %llu %*c", &op, &from) == 2) {
		if (from > op || op - from >= longest_group)
			continue;
		start[op] = from;
		for (uint64_t i = from; i <= op; i++)
			needed[i]++;
	}
	fclose(f);
}

again::~again()
{
	if (results)
		fclose(results);
}

void again::allocated(const Memory *m, uint64_t at, uint64_t size)
{
	memory = m;
	buffers[at] = size;
}

void again::freed(uint64_t at)
{
	buffers.erase(at);
}

// --- what runs ---

void again::fill(uint64_t op, uint64_t to, uint64_t size, const std::vector<uint8_t> &pattern)
{
	if (needed.count(op))
		steps[op] = step{nullptr, 0, {}, {}, {}, pattern, to, 0, size};
}

void again::copy(uint64_t op, uint64_t to, uint64_t from, uint64_t size)
{
	if (needed.count(op))
		steps[op] = step{nullptr, 0, {}, {}, {}, {}, to, from, size};
}

void again::keep(image &to)
{
	for (const auto &b : buffers) {
		const uint8_t *at = (const uint8_t *)memory->getPointer(b.first);

		to[b.first].assign(at, at + b.second);
		kept += b.second;
	}
}

void again::kernel_begins(uint64_t op, const KernelInvocation *k)
{
	logs = results && start.count(op) > 0;
	if (needed.count(op))
		steps[op] = step{std::unique_ptr<Kernel>(new Kernel(*k->getKernel())), (unsigned)k->getWorkDim(), k->getGlobalOffset(),
			k->getGlobalSize(), k->getLocalSize(), {}, 0, 0, 0};
	if (!logs)
		return;
	attempts.push_back({op, {}, {}, {}, {}, kept > most_bytes});
	if (!attempts.back().too_much)
		keep(attempts.back().before);
}

void again::add(const Memory *m, const WorkGroup *group, uint64_t at, size_t n, const uint8_t *data)
{
	attempt &a = attempts.back();

	if (m != memory || a.too_much)
		return;
	kept += sizeof(a.log[0]) + (data ? n : 0);
	a.too_much = kept > most_bytes;
	a.log.push_back({at, (uint32_t)group->getGroupIndex(), (uint32_t)n, data ? a.bytes.size() : SIZE_MAX});
	if (data)
		a.bytes.insert(a.bytes.end(), data, data + n);
}

void again::kernel_ends()
{
	if (logs && !attempts.back().too_much)
		keep(attempts.back().behind);
	logs = false;
}

// --- what runs again ---

void again::put(const image &from) const
{
	for (const auto &b : from)
		memcpy(memory->getPointer(b.first), b.second.data(), b.second.size());
}

bool again::is_same(const image &whole) const
{
	for (const auto &b : whole)
		if (memcmp(memory->getPointer(b.first), b.second.data(), b.second.size()))
			return false;
	return true;
}

// Memory as it was in front of the kernel, and what some groups have stored: of each that has begun all, or some of the first
// stores. A word of an atomic has what it had in the end, which is as wrong as anything between.
void again::cut_off(const attempt &a)
{
	std::map<uint32_t, size_t> left;

	for (const stored &s : a.log)
		left[s.group]++;
	for (auto &g : left)
		g.second = random() % 3 == 0 ? 0 : random() % 2 ? g.second : random() % (g.second + 1);
	put(a.before);
	for (const stored &s : a.log) {
		auto b = std::prev(a.behind.upper_bound(s.at));
		const uint8_t *data = s.data == SIZE_MAX ? &b->second[s.at - b->first] : &a.bytes[s.data];

		if (left[s.group] && left[s.group]--)
			memcpy(memory->getPointer(s.at), data, s.size);
	}
}

bool again::run_step(uint64_t op)
{
	auto found = steps.find(op);

	if (found == steps.end())
		return false;
	step &s = found->second;
	if (s.kernel) {
		KernelInvocation::run(context, s.kernel.get(), s.dims, s.offset, s.global, s.local);
	} else if (s.pattern.empty()) {
		memmove(memory->getPointer(s.to), memory->getPointer(s.from), s.size);
	} else {
		for (uint64_t i = 0; i < s.size; i += s.pattern.size())
			memcpy(memory->getPointer(s.to + i), s.pattern.data(), s.pattern.size());
	}
	return true;
}

char again::result_of(const attempt &a)
{
	for (unsigned turn = 0; turn < 3; turn++) {
		if (a.too_much)
			return '-';
		cut_off(a);
		for (uint64_t i = start[a.op]; i <= a.op; i++)
			if (!run_step(i))
				return '-';
		if (!is_same(a.behind))
			return '0';
	}
	return '1';
}

void again::settle()
{
	image now;

	if (attempts.empty() || runs_again)
		return;
	keep(now);
	runs_again = true;
	for (const attempt &a : attempts)
		fprintf(results, "%llu %c\n", (unsigned long long)a.op, result_of(a));
	put(now);
	runs_again = false;
	fflush(results);
	attempts.clear();
	kept = 0;
}

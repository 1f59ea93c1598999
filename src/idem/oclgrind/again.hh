// SPDX-License-Identifier: Apache-2.0
// Kernels are cut off and run again, by a plan: a line "K START b" for each operation K, of which some groups' stores are
// then there as if it had been cut off, and operations from START on run again (b or w makes no difference here). Memory must be as
// it was without that. A line "K 1" of the results says so, "K 0" that it differs, "K -" that it was not tried. Oclgrind runs no kernel
// from within another's end, so that it is done as soon as the host does something.
//
// Owns: the plan, copies of kernels, and memory as it was around those that are to be tried.
// Locks: none.
// Threads: one.
#pragma once
#include <oclgrind/Context.h>
#include <oclgrind/Kernel.h>
#include <oclgrind/KernelInvocation.h>
#include <oclgrind/Memory.h>
#include <oclgrind/WorkGroup.h>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

class again
{
	struct step { // what can run again
		std::unique_ptr<oclgrind::Kernel> kernel;
		unsigned dims;
		oclgrind::Size3 offset, global, local;
		std::vector<uint8_t> pattern; // of a fill
		uint64_t to, from, size;      // of a fill or a copy
	};
	struct stored {
		uint64_t at;
		uint32_t group, size;
		size_t data; // where in `bytes'; of atomics SIZE_MAX: what memory has when it is done
	};
	typedef std::map<uint64_t, std::vector<uint8_t>> image; // of all buffers
	struct attempt {
		uint64_t op;
		image before, behind;
		std::vector<stored> log;
		std::vector<uint8_t> bytes;
		bool too_much;
	};

	const oclgrind::Context *context;
	const oclgrind::Memory *memory = nullptr;
	FILE *results = nullptr;
	std::map<uint64_t, uint64_t> start; // the plan
	std::map<uint64_t, unsigned> needed; // operations that are to run again
	std::map<uint64_t, step> steps;
	std::map<uint64_t, uint64_t> buffers; // sizes, by address
	std::vector<attempt> attempts;        // the last one is of the kernel that runs, if that is logged
	size_t kept = 0;                      // bytes of all of them
	std::minstd_rand random;
	bool logs = false, runs_again = false;

	void add(const oclgrind::Memory *m, const oclgrind::WorkGroup *group, uint64_t at, size_t n, const uint8_t *data);
	void keep(image &to);
	void put(const image &from) const;
	bool is_same(const image &whole) const;
	void cut_off(const attempt &a);
	bool run_step(uint64_t op);
	char result_of(const attempt &a);

public:
	again(const oclgrind::Context *context, const char *path);
	~again();

	bool runs() const
	{
		return runs_again;
	}
	void allocated(const oclgrind::Memory *m, uint64_t at, uint64_t size);
	void freed(uint64_t at);
	void fill(uint64_t op, uint64_t to, uint64_t size, const std::vector<uint8_t> &pattern);
	void copy(uint64_t op, uint64_t to, uint64_t from, uint64_t size);
	void kernel_begins(uint64_t op, const oclgrind::KernelInvocation *k);
	void kernel_ends();
	void settle(); // no kernel runs
	void store(const oclgrind::Memory *m, const oclgrind::WorkGroup *group, uint64_t at, size_t n, const uint8_t *data)
	{
		if (logs && data)
			add(m, group, at, n, data);
	}
	void atomic(const oclgrind::Memory *m, const oclgrind::WorkGroup *group, uint64_t at, size_t n)
	{
		if (logs)
			add(m, group, at, n, nullptr);
	}
};

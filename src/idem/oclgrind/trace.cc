// SPDX-License-Identifier: Apache-2.0
// A plug-in of Oclgrind that writes what the kernels of a program touch, by the byte, as docs/idempotence.md has it:
// `fermata-lab idempotence record' runs programs with it. It does not print, and does not end the program.
//
// A byte is in K if each work-item that read it had written it itself, or a barrier of its group lay between. Work runs in
// one thread, so that what is seen of a group is in order.
#include "again.hh"
#include "taint.hh"
#include <oclgrind/Plugin.h>
#include <oclgrind/Program.h>
#include <oclgrind/WorkItem.h>
#include <algorithm>
#include <fcntl.h>
#include <unistd.h>
extern "C" {
#include "base/blake2b.h"
}

using namespace oclgrind;

namespace
{
const uint32_t fence_global = 2; // CLK_GLOBAL_MEM_FENCE
const uint64_t page = 4096;
const size_t largest_pattern = 128; // of a fill

enum { R = 1, W = 2, ATOMIC = 4, MANY = 8 }; // MANY: several groups have touched it

// What the kernel that runs has done to a byte; numbers are one more than they are, 0: none.
struct cell {
	uint32_t group, writer, epoch; // the first group; the last work-item that wrote, and after how many barriers
	uint32_t done;
};

struct span {
	uint64_t from, to;
};

struct buffer {
	uint64_t id, size;
};

class trace : public Plugin
{
	FILE *out;
	again repeat;
	pid_t owner = getpid();
	uint64_t op = 0, next_id = 1;
	std::map<uint64_t, buffer> buffers; // by address
	std::unordered_map<uint64_t, std::unique_ptr<cell[]>> pages;
	uint64_t last_page = UINT64_MAX;
	cell *last_cells = nullptr;
	std::unordered_map<uint64_t, uint32_t> barriers; // of each group that has begun
	struct nature {
		bool dynamic, ordered;
	};
	std::map<std::string, nature> natures; // of kernels that were looked at, by hash and name
	bool running = false, approx = false, failed = false;

	// Fills come as stores of one pattern, one behind another; copies as a load and a store of what was loaded.
	std::vector<uint8_t> pattern;
	const uint8_t *pattern_at = nullptr;
	span filled{0, 0}, loaded{0, 0};
	const void *loaded_data = nullptr;

	bool writes() const
	{
		return out && getpid() == owner;
	}

	// --- lines ---

	void put_spans(const char *name, const std::vector<span> &spans)
	{
		const char *between = "";

		fprintf(out, ",\"%s\":[", name);
		for (const span &s : spans) {
			auto b = std::prev(buffers.upper_bound(s.from));

			fprintf(out, "%s[%llu,%llu,%llu]", between, (unsigned long long)b->second.id,
				(unsigned long long)(s.from - b->first), (unsigned long long)(s.to - b->first));
			between = ",";
		}
		fputc(']', out);
	}

	void put_op(const char *kind)
	{
		fprintf(out, "{\"op\":%llu,\"queue\":0,\"kind\":\"%s\"", (unsigned long long)op++, kind);
	}

	void end_op()
	{
		fputs("}\n", out);
		fflush(out);
	}

	void put_text(const char *name, const std::string &text)
	{
		fprintf(out, ",\"%s\":\"", name);
		for (unsigned char c : text)
			if (c < 32 || c > 126 || c == '"' || c == '\\')
				fprintf(out, "\\u%04x", c);
			else
				fputc(c, out);
		fputc('"', out);
	}

	void put_dim(const char *name, Size3 n)
	{
		fprintf(out, ",\"%s\":[%zu,%zu,%zu]", name, std::max(n.x, (size_t)1), std::max(n.y, (size_t)1),
			std::max(n.z, (size_t)1));
	}

	bool is_known(uint64_t address, uint64_t size) const
	{
		auto b = buffers.upper_bound(address);

		return size && b != buffers.begin() && (--b, address - b->first < b->second.size) &&
		       size <= b->second.size - (address - b->first);
	}

	// --- what the host does ---

	// Nothing of a kernel's is on its way.
	void host_comes()
	{
		end_host();
		repeat.settle();
	}

	void end_host()
	{
		if (filled.to > filled.from && writes()) {
			bool is_fill = filled.to - filled.from > pattern.size();

			repeat.fill(op, filled.from, filled.to - filled.from, pattern);
			put_op(is_fill ? "memset" : "h2d");
			put_spans("w", {filled});
			end_op();
		}
		if (loaded.to > loaded.from && writes()) {
			put_op("d2h");
			put_spans("r", {loaded});
			end_op();
		}
		filled = loaded = {0, 0};
		pattern_at = nullptr;
	}

	bool goes_on(uint64_t address, size_t size, const uint8_t *data) const
	{
		return filled.to > filled.from && data == pattern_at && filled.to == address && size == pattern.size() &&
		       !memcmp(pattern.data(), data, size) && is_known(filled.from, address + size - filled.from);
	}

	// --- what kernels do ---

	cell *cells_of(uint64_t at)
	{
		uint64_t number = at / page;

		if (number != last_page) {
			auto &cells = pages[number];

			if (!cells)
				cells.reset(new cell[page]());
			last_page = number;
			last_cells = cells.get();
		}
		return last_cells;
	}

	// `item' is a work-item's number, or one that no item has, for what a whole group does.
	void access(uint64_t address, size_t size, const WorkGroup *group, uint32_t item, unsigned what)
	{
		uint32_t number = (uint32_t)group->getGroupIndex() + 1, epoch = barriers[number];

		for (uint64_t at = address; at < address + size; at++) {
			cell &c = cells_of(at)[at % page];

			c.done |= c.group && c.group != number ? MANY : 0;
			c.group = c.group ? c.group : number;
			if (what & R && !((c.done & (W | MANY)) == W && (c.writer == item || c.epoch < epoch)))
				c.done |= R;
			if (what & W) {
				c.writer = item;
				c.epoch = epoch;
			}
			c.done |= what & ~(unsigned)R;
		}
	}

	void access_by(const Memory *memory, const WorkItem *item, uint64_t address, size_t size, unsigned what)
	{
		if (running && memory->getAddressSpace() == AddrSpaceGlobal && is_known(address, size))
			access(address, size, item->getWorkGroup(), (uint32_t)item->getGlobalIndex() + 1, what);
	}

	void access_by(const Memory *memory, const WorkGroup *group, uint64_t address, size_t size, unsigned what)
	{
		if (running && memory->getAddressSpace() == AddrSpaceGlobal && is_known(address, size))
			access(address, size, group, UINT32_MAX - (uint32_t)group->getGroupIndex(), what);
	}

	template <typename wanted> std::vector<span> spans_that(const std::vector<uint64_t> &numbers, wanted want)
	{
		std::vector<span> spans;

		for (uint64_t number : numbers) {
			const cell *cells = pages[number].get();

			for (uint64_t i = 0; i < page; i++) {
				uint64_t at = number * page + i;

				if (!want(cells[i].done))
					continue;
				if (!spans.empty() && spans.back().to == at && !buffers.count(at))
					spans.back().to++;
				else
					spans.push_back({at, at + 1});
			}
		}
		return spans;
	}

	void put_sets()
	{
		std::vector<uint64_t> numbers;

		for (const auto &p : pages)
			numbers.push_back(p.first);
		std::sort(numbers.begin(), numbers.end());
		put_spans("r", spans_that(numbers, [](unsigned d) { return d & R; }));
		put_spans("w", spans_that(numbers, [](unsigned d) { return d & W; }));
		put_spans("k", spans_that(numbers, [](unsigned d) { return (d & (R | W | ATOMIC)) == W; }));
		put_spans("a", spans_that(numbers, [](unsigned d) { return d & ATOMIC; }));
		put_spans("b", spans_that(numbers, [](unsigned d) { return (d & MANY) && (d & (W | ATOMIC)); }));
	}

	// Of the program's text and how it was built; of what it was built to, too, where other texts may be part of it.
	static std::string hash_of(const Program *program)
	{
		const std::string &options = program->getBuildOptions();
		struct fm_hash h;
		uint8_t digest[FM_HASH_BYTES];
		char text[2 * FM_HASH_BYTES + 9] = "blake2b:";

		fm_hash_begin(&h);
		fm_hash_add(&h, program->getSource().c_str(), program->getSource().size() + 1);
		fm_hash_add(&h, options.c_str(), options.size() + 1);
		if (program->getSource().empty() || program->getSource().find("include") != std::string::npos ||
			options.find("include") != std::string::npos) {
			std::vector<unsigned char> binary(program->getBinarySize());

			program->getBinary(binary.data());
			fm_hash_add(&h, binary.data(), binary.size());
		}
		fm_hash_end(&h, digest);
		for (uint8_t byte : digest)
			snprintf(text + strlen(text), 3, "%02x", byte);
		return text;
	}

	// Arguments that are values, in order, as hexadecimal digits; others as a dot.
	void put_scalars(const KernelInvocation *k)
	{
		const Kernel *kernel = k->getKernel();
		Size3 offset = k->getGlobalOffset();

		fprintf(out, ",\"scalars\":\"%zu,%zu,%zu", offset.x, offset.y, offset.z);
		for (unsigned i = 0; i < kernel->getNumArguments(); i++) {
			const void *key = taint_argument(kernel->getFunction(), i);

			fputc(';', out);
			for (auto v = kernel->values_begin(); v != kernel->values_end(); ++v) {
				if ((const void *)v->first != key)
					continue;
				if (kernel->getArgumentAddressQualifier(i) == CL_KERNEL_ARG_ADDRESS_PRIVATE)
					for (unsigned n = 0; n < v->second.size * v->second.num; n++)
						fprintf(out, "%02x", v->second.data[n]);
				else if (kernel->getArgumentAddressQualifier(i) == CL_KERNEL_ARG_ADDRESS_LOCAL)
					fprintf(out, "l%zu", kernel->getArgumentSize(i));
				else
					fputc('.', out);
			}
		}
		fputc('"', out);
	}

	// Not by the function's address: a program's memory may be that of another one later.
	nature nature_of(const Kernel *kernel, const std::string &hash)
	{
		auto known = natures.find(hash + kernel->getName());
		const void *f = kernel->getFunction();

		if (known == natures.end())
			known = natures.emplace(hash + kernel->getName(), nature{taint_is_dynamic(f), taint_is_ordered(f)}).first;
		return known->second;
	}

public:
	trace(const Context *context, FILE *to, const char *results) : Plugin(context), out(to), repeat(context, results)
	{
		fputs("{\"v\":1,\"device\":\"Oclgrind\",\"alloc\":[]}\n", out);
	}

	~trace() override
	{
		end_host();
		if (writes())
			fclose(out);
	}

	bool isThreadSafe() const override
	{
		return false;
	}

	void memoryAllocated(const Memory *memory, size_t address, size_t size, cl_mem_flags flags, const uint8_t *) override
	{
		if (memory->getAddressSpace() != AddrSpaceGlobal || !size || !writes())
			return;
		host_comes();
		buffers[address] = {next_id, size};
		repeat.allocated(memory, address, size);
		fprintf(out, "{\"alloc\":[{\"id\":%llu,\"base\":\"0x%llx\",\"size\":%zu%s}]}\n",
			(unsigned long long)next_id++, (unsigned long long)address, size,
			flags & CL_MEM_SVM_FINE_GRAIN_BUFFER ? ",\"visible\":true" : "");
	}

	void memoryDeallocated(const Memory *memory, size_t address) override
	{
		auto b = buffers.find(address);

		if (memory->getAddressSpace() != AddrSpaceGlobal || b == buffers.end() || !writes())
			return;
		host_comes();
		put_op("free");
		put_spans("w", {{address, address + b->second.size}});
		end_op();
		buffers.erase(b);
		repeat.freed(address);
	}

	void hostMemoryLoad(const Memory *memory, size_t address, size_t size) override
	{
		if (memory->getAddressSpace() != AddrSpaceGlobal || !is_known(address, size))
			return;
		host_comes();
		loaded = {address, address + size};
		loaded_data = memory->getPointer(address);
	}

	void hostMemoryStore(const Memory *memory, size_t address, size_t size, const uint8_t *data) override
	{
		bool copies = loaded.to - loaded.from == size && data == loaded_data;
		span from = loaded;

		if (memory->getAddressSpace() != AddrSpaceGlobal || !is_known(address, size) || !writes())
			return;
		if (goes_on(address, size, data)) {
			filled.to += size;
			return;
		}
		loaded = copies ? span{0, 0} : loaded;
		host_comes();
		if (!copies && size <= largest_pattern && data) {
			pattern.assign(data, data + size);
			pattern_at = data;
			filled = {address, address + size};
			return;
		}
		if (copies)
			repeat.copy(op, address, from.from, size);
		put_op(copies ? "d2d" : "h2d");
		if (copies)
			put_spans("r", {from});
		put_spans("w", {{address, address + size}});
		end_op();
	}

	// The host may read, or write, from here to the end of the mapping: nothing goes over either.
	void memoryMap(const Memory *, size_t, size_t, size_t, cl_map_flags) override
	{
		host_comes();
		if (!writes())
			return;
		put_op("host_fn");
		end_op();
	}

	void memoryUnmap(const Memory *memory, size_t address, const void *) override
	{
		memoryMap(memory, address, 0, 0, 0);
	}

	void kernelBegin(const KernelInvocation *k) override
	{
		if (repeat.runs())
			return;
		end_host();
		repeat.kernel_begins(op, k);
		pages.clear();
		barriers.clear();
		last_page = UINT64_MAX;
		running = true;
		approx = failed = false;
	}

	// Oclgrind leaves a kernel at what it cannot do: what it would touch behind that is not known.
	void log(MessageType type, const char *) override
	{
		failed |= type == ERROR;
	}

	void kernelEnd(const KernelInvocation *k) override
	{
		if (repeat.runs())
			return;
		running = false;
		if (!writes())
			return;
		repeat.kernel_ends();
		const std::string hash = hash_of(k->getKernel()->getProgram());
		const nature is = nature_of(k->getKernel(), hash);

		approx |= is.ordered;
		put_op("kernel");
		put_text("name", k->getKernel()->getName());
		put_text("hash", hash);
		put_dim("grid", k->getNumGroups());
		put_dim("block", k->getLocalSize());
		put_scalars(k);
		put_sets();
		fprintf(out, ",\"flags\":[%s%s%s]", is.dynamic || failed ? "\"dynamic\"" : "",
			approx && (is.dynamic || failed) ? "," : "", approx ? "\"approx\"" : "");
		end_op();
		pages.clear();
	}

	void workGroupBarrier(const WorkGroup *group, uint32_t flags) override
	{
		if (flags & fence_global)
			barriers[(uint32_t)group->getGroupIndex() + 1]++;
	}

	void memoryLoad(const Memory *m, const WorkItem *i, size_t at, size_t n) override
	{
		access_by(m, i, at, n, R);
	}
	void memoryLoad(const Memory *m, const WorkGroup *g, size_t at, size_t n) override
	{
		access_by(m, g, at, n, R);
	}
	void memoryStore(const Memory *m, const WorkItem *i, size_t at, size_t n, const uint8_t *data) override
	{
		access_by(m, i, at, n, W);
		if (running)
			repeat.store(m, i->getWorkGroup(), at, n, data);
	}
	void memoryStore(const Memory *m, const WorkGroup *g, size_t at, size_t n, const uint8_t *data) override
	{
		access_by(m, g, at, n, W);
		if (running)
			repeat.store(m, g, at, n, data);
	}
	void memoryAtomicLoad(const Memory *m, const WorkItem *i, AtomicOp, size_t at, size_t n) override
	{
		access_by(m, i, at, n, R | W | ATOMIC);
	}
	// Which of several comes last, or first, is not the same each time.
	void memoryAtomicStore(const Memory *m, const WorkItem *i, AtomicOp op_, size_t at, size_t n) override
	{
		access_by(m, i, at, n, R | W | ATOMIC);
		if (running)
			repeat.atomic(m, i->getWorkGroup(), at, n);
		approx |= running && (op_ == AtomicCmpXchg || op_ == AtomicXchg);
	}
};

trace *loaded;
} // namespace

extern "C" __attribute__((visibility("default"))) void initializePlugins(Context *context)
{
	const char *dir = getenv("FERMATA_IDEMPOTENCE");
	char path[4096], results[4096];
	int fd;
	FILE *out;

	if (loaded || !dir || (size_t)snprintf(path, sizeof(path), "%s/%d.trace", dir, (int)getpid()) >= sizeof(path))
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	out = fd < 0 ? nullptr : fdopen(fd, "w");
	if (!out)
		return;
	snprintf(results, sizeof(results), "%s/tried", dir);
	loaded = new trace(context, out, results);
	context->registerPlugin(loaded);
}

extern "C" __attribute__((visibility("default"))) void releasePlugins(Context *context)
{
	if (!loaded)
		return;
	context->unregisterPlugin(loaded);
	delete loaded;
	loaded = nullptr;
}

// SPDX-License-Identifier: Apache-2.0
// Values that come of memory, to a fixed point over all functions that a kernel calls. Memory of a work-item or group counts
// by the variable that it is; what cannot be told is taken to come of memory.
#include "taint.hh"
#include <cctype>
#include <cstring>
#include <set>
#include <string>

// Of LLVM's stable interface for C, llvm-c/Core.h, of which no header is needed.
extern "C" {
typedef struct LLVMOpaqueValue *LLVMValueRef;
typedef struct LLVMOpaqueType *LLVMTypeRef;
typedef struct LLVMOpaqueBasicBlock *LLVMBasicBlockRef;
LLVMBasicBlockRef LLVMGetFirstBasicBlock(LLVMValueRef);
LLVMBasicBlockRef LLVMGetNextBasicBlock(LLVMBasicBlockRef);
LLVMValueRef LLVMGetFirstInstruction(LLVMBasicBlockRef);
LLVMValueRef LLVMGetNextInstruction(LLVMValueRef);
int LLVMGetInstructionOpcode(LLVMValueRef);
int LLVMGetNumOperands(LLVMValueRef);
LLVMValueRef LLVMGetOperand(LLVMValueRef, unsigned);
LLVMValueRef LLVMGetCalledValue(LLVMValueRef);
unsigned LLVMGetNumArgOperands(LLVMValueRef);
LLVMValueRef LLVMGetParam(LLVMValueRef, unsigned);
unsigned LLVMCountParams(LLVMValueRef);
LLVMTypeRef LLVMTypeOf(LLVMValueRef);
int LLVMGetTypeKind(LLVMTypeRef);
unsigned LLVMGetPointerAddressSpace(LLVMTypeRef);
const char *LLVMGetValueName2(LLVMValueRef, size_t *);
LLVMValueRef LLVMIsAFunction(LLVMValueRef);
LLVMValueRef LLVMIsAGlobalVariable(LLVMValueRef);
LLVMValueRef LLVMIsAConstantExpr(LLVMValueRef);
LLVMValueRef LLVMIsAInstruction(LLVMValueRef);
int LLVMIsConditional(LLVMValueRef);
int LLVMGetConstOpcode(LLVMValueRef);
struct LLVMOpaqueUse *LLVMGetFirstUse(LLVMValueRef);
}

namespace
{
enum { RET = 1, BR = 2, SWITCH = 3, ALLOCA = 26, LOAD = 27, STORE = 28, GEP = 29, BITCAST = 41, CALL = 45, CMPXCHG = 56, RMW = 57, SPACE = 60 };
enum { POINTER = 12, INTEGER = 8 }; // kinds of types
enum { OWN, GLOBAL, CONSTANT, GROUP, GENERIC }; // spaces of addresses

class analysis
{
	std::set<const void *> values, memory, returns;
	std::set<LLVMValueRef> reached;
	bool all_memory = false, changed = true, found = false;

	static bool is_pointer(LLVMValueRef v)
	{
		return LLVMGetTypeKind(LLVMTypeOf(v)) == POINTER;
	}

	static unsigned space(LLVMValueRef v)
	{
		return LLVMGetPointerAddressSpace(LLVMTypeOf(v));
	}

	// The variable that it points into, or NULL.
	static LLVMValueRef base_of(LLVMValueRef v)
	{
		for (unsigned steps = 0; steps < 64; steps++) {
			int op = LLVMIsAInstruction(v)	  ? LLVMGetInstructionOpcode(v)
				 : LLVMIsAConstantExpr(v) ? LLVMGetConstOpcode(v)
							  : 0;

			if (op == ALLOCA || LLVMIsAGlobalVariable(v))
				return v;
			if (op != GEP && op != BITCAST && op != SPACE)
				return nullptr;
			v = LLVMGetOperand(v, 0);
		}
		return nullptr;
	}

	// Of a pointer that may lead anywhere (generic, of OpenCL 2.0) it must be seen that it does not.
	static bool is_global(LLVMValueRef v)
	{
		LLVMValueRef base;

		if (!is_pointer(v) || space(v) == OWN || space(v) == GROUP)
			return false;
		base = space(v) == GENERIC ? base_of(v) : nullptr;
		return !base || (space(base) != OWN && space(base) != GROUP);
	}

	bool has(LLVMValueRef v) const
	{
		return values.count(v) > 0;
	}

	void add(LLVMValueRef v)
	{
		changed |= values.insert(v).second;
	}

	void add_memory(LLVMValueRef pointer)
	{
		LLVMValueRef base = base_of(pointer);

		if (base) {
			changed |= memory.insert(base).second;
		} else if (!all_memory) {
			all_memory = true;
			changed = true;
		}
	}

	// What lies behind a pointer to memory of a work-item, or a group.
	bool has_memory(LLVMValueRef pointer) const
	{
		LLVMValueRef base = base_of(pointer);

		return all_memory || (base ? memory.count(base) > 0 : !memory.empty());
	}

	bool any_operand(LLVMValueRef i) const
	{
		for (int n = LLVMGetNumOperands(i); n-- > 0;)
			if (has(LLVMGetOperand(i, (unsigned)n)))
				return true;
		return false;
	}

	void load(LLVMValueRef i)
	{
		LLVMValueRef from = LLVMGetOperand(i, 0), base = base_of(from);

		if (is_global(from))
			found |= has(from);
		if (has(from) || (is_global(from) && (!base || space(base) != CONSTANT)) || has_memory(from))
			add(i);
	}

	void store(LLVMValueRef i)
	{
		LLVMValueRef what = LLVMGetOperand(i, 0), to = LLVMGetOperand(i, 1);

		if (is_global(to))
			found |= has(to);
		else if (has(what) || has(to))
			add_memory(to);
	}

	static bool contains(const std::string &name, const char *part)
	{
		return name.find(part) != std::string::npos;
	}

	// A function of the language: what it is given is what it touches, and what it gives back is of that.
	void builtin(LLVMValueRef i, const std::string &name)
	{
		unsigned n = LLVMGetNumArgOperands(i);
		bool atomic = contains(name, "atom"), global = false, tainted = atomic;

		for (unsigned a = 0; a < n; a++) {
			LLVMValueRef arg = LLVMGetOperand(i, a);

			global |= is_global(arg);
			tainted |= is_global(arg) || has(arg) || (is_pointer(arg) && has_memory(arg));
		}
		for (unsigned a = 0; a < n; a++) {
			LLVMValueRef arg = LLVMGetOperand(i, a);
			int kind = LLVMGetTypeKind(LLVMTypeOf(arg));
			bool data = (contains(name, "vstore") && !a) || (atomic && a);

			if (global && has(arg) && !data && (kind == POINTER || kind == INTEGER || contains(name, "image")))
				found = true;
			if (tainted && kind == POINTER && !is_global(arg))
				add_memory(arg);
		}
		if (tainted)
			add(i);
	}

	void call(LLVMValueRef i)
	{
		LLVMValueRef f = LLVMIsAFunction(LLVMGetCalledValue(i));
		size_t length = 0;
		const char *text = f ? LLVMGetValueName2(f, &length) : "";
		std::string name(text, length);

		if (name.rfind("llvm.dbg", 0) == 0 || name.rfind("llvm.lifetime", 0) == 0)
			return;
		if (!f || !LLVMGetFirstBasicBlock(f)) {
			builtin(i, name);
			return;
		}
		for (unsigned a = 0; a < LLVMCountParams(f); a++)
			if (has(LLVMGetOperand(i, a)))
				add(LLVMGetParam(f, a));
		if (returns.count(f))
			add(i);
	}

	void instruction(LLVMValueRef f, LLVMValueRef i)
	{
		switch (LLVMGetInstructionOpcode(i)) {
		case LOAD:
			load(i);
			return;
		case STORE:
			store(i);
			return;
		case CMPXCHG:
		case RMW:
			found |= is_global(LLVMGetOperand(i, 0)) && has(LLVMGetOperand(i, 0));
			if (!is_global(LLVMGetOperand(i, 0)))
				add_memory(LLVMGetOperand(i, 0));
			add(i);
			return;
		case CALL:
			call(i);
			return;
		case BR:
			found |= LLVMIsConditional(i) && has(LLVMGetOperand(i, 0));
			return;
		case SWITCH:
			found |= has(LLVMGetOperand(i, 0));
			return;
		case RET:
			if (any_operand(i))
				changed |= returns.insert(f).second;
			return;
		default:
			if (any_operand(i))
				add(i);
		}
	}

	// What an atomic gives back is of the order in which work-items come.
	static bool uses_order(LLVMValueRef i)
	{
		int op = LLVMGetInstructionOpcode(i);
		LLVMValueRef f = op == CALL ? LLVMIsAFunction(LLVMGetCalledValue(i)) : nullptr;
		size_t length = 0;

		if (!LLVMGetFirstUse(i))
			return false;
		return op == CMPXCHG || op == RMW ||
		       (f && !LLVMGetFirstBasicBlock(f) && contains(std::string(LLVMGetValueName2(f, &length)), "atom"));
	}

	// The functions that it calls, and so on.
	void reach(LLVMValueRef f)
	{
		if (!reached.insert(f).second)
			return;
		for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
			for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
				LLVMValueRef next = LLVMGetInstructionOpcode(i) == CALL ? LLVMIsAFunction(LLVMGetCalledValue(i)) : nullptr;

				if (next && LLVMGetFirstBasicBlock(next))
					reach(next);
			}
	}

public:
	bool is_ordered(LLVMValueRef kernel)
	{
		reach(kernel);
		for (LLVMValueRef f : reached)
			for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
				for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
					if (uses_order(i))
						return true;
		return false;
	}

	bool is_dynamic(LLVMValueRef kernel)
	{
		reach(kernel);
		while (changed && !found) {
			changed = false;
			for (LLVMValueRef f : reached)
				for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
					for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
						instruction(f, i);
		}
		return found;
	}
};
} // namespace

const void *taint_argument(const void *function, unsigned i)
{
	return LLVMGetParam((LLVMValueRef)function, i);
}

bool taint_is_dynamic(const void *function)
{
	return analysis().is_dynamic((LLVMValueRef)function);
}

bool taint_is_ordered(const void *function)
{
	return analysis().is_ordered((LLVMValueRef)function);
}

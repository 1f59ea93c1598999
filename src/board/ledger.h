/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger: what one client has allocated on its devices, in shared memory beside the board. The
 * client makes both at the same time, sends the ledger's descriptor before HELLO (MEMORY, proto.h),
 * and keeps it for life: a daemon that restarts is sent the same one.
 *
 * The daemon hands out numbers, never memory. It trusts nothing in here: each word is read once,
 * atomically, and clamped. A client that claims less than it has can be found out by the driver's
 * figures for processes alone.
 *
 * Memory order. Claim: the client raises `claimed`, then (full fence) reads `allowed`; the daemon
 * lowers `allowed`, then (full fence) reads `claimed`. One of the two sees the other, so two
 * clients of a group never both get the last bytes. A client that finds `claimed` above `allowed`
 * takes its claim back, stores what it needs in `wanted`, sends MEMORY_BELL, and waits for
 * `answered` to become the number of its request. Then it has what `allowed` says, and no more. A
 * client does not raise `claimed` where it sees that it would be too much: two claims that are
 * taken back must not refuse each other. For the same reason the daemon takes nothing back of what
 * it has granted to a request until the client has stored the request's number in `settled`.
 *
 * While there is no daemon, the client writes `allowed` itself, as its own hints say. Before it
 * offers the ledger to a daemon it stores 0 there, so that its first claim waits for an answer.
 *
 * Owns: the layout, and the mapping of one ledger. Each word belongs to the client or to the
 * daemon, as its comment says.
 * Locks: none. Words are atomic, and each has one writer.
 * Threads: any of the client's; the daemon's loop.
 */
#pragma once
#include "base/count.h"
#include "board/proto.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FM_LEDGER_MAGIC   0x44454c46u /* "FLED" */
#define FM_LEDGER_VERSION 5
#define FM_LEDGER_DEVICES 16

/* What memory is: X(ID, name). The first may move. Those of FM_MEM_PINNED are Fermata's to move and
 * stay on the device, for the reason that the name says. All others are the driver's own (foreign):
 * they are counted and never touched. */
#define FM_MEM_MAP(X)                         \
	X(FM_MEM_MOVABLE, "movable")          \
	X(FM_MEM_PIN_WISH, "pinned")          \
	X(FM_MEM_PIN_PROGRAM, "program")      \
	X(FM_MEM_PIN_SHARED, "shared")        \
	X(FM_MEM_PIN_WORDS, "stream-words")   \
	X(FM_MEM_PIN_ENGINE, "engine")        \
	X(FM_MEM_PIN_RETAINED, "retained")    \
	X(FM_MEM_PIN_UNKNOWN, "unknown-call") \
	X(FM_MEM_PLAIN, "plain")              \
	X(FM_MEM_SMALL, "small")              \
	X(FM_MEM_POOL, "pool")                \
	X(FM_MEM_GRAPH, "graph")              \
	X(FM_MEM_VMM, "vmm")                  \
	X(FM_MEM_ARRAY, "array")              \
	X(FM_MEM_GLOBAL, "global")            \
	X(FM_MEM_MANAGED, "unified")          \
	X(FM_MEM_IMPORTED, "imported")        \
	X(FM_MEM_CONTEXT, "context")

enum fm_mem_kind {
#define FM_MEM_ID(id, name) id,
	FM_MEM_MAP(FM_MEM_ID)
#undef FM_MEM_ID
		FM_MEM_KINDS
};

static inline bool fm_mem_pinned(enum fm_mem_kind kind)
{
	return kind >= FM_MEM_PIN_WISH && kind <= FM_MEM_PIN_UNKNOWN;
}

/* Where movable memory is to be: the daemon's wish. OUT: the client rests, and moves towards having
 * `share' of it on the device, as often as that changes; 0 is all out, and an early load is OUT
 * with a larger share. IN: all of it, or with a smaller share as much of it as that, comes in, and
 * the rest ends. What is beyond the share is mapped from the host then, and does not come to the
 * device before the share is larger. */
enum fm_mem_wish { FM_MEM_STAY, FM_MEM_OUT, FM_MEM_IN };

/* What keeps memory from being where it is wished to be: X(ID, text, remedy). Those from
 * FM_MEM_REFUSED on hold for the life of the process, whose memory is then the driver's own. */
#define FM_MEM_TROUBLE_MAP(X)                                                                    \
	X(FM_MEM_FINE, "", "")                                                                   \
	X(FM_MEM_NO_REST, "its work on the device does not end, or cannot be stopped",           \
		"wait until the kernel that runs has ended")                                     \
	X(FM_MEM_HOST_FULL, "the host has no memory left for the rest of it",                    \
		"free memory of the host, or of the program's cgroup")                           \
	X(FM_MEM_HOST_BUDGET, "no budget of the host's memory has room for the rest of it",      \
		"end other programs, or have memory_host or host in fermatad.conf raised")       \
	X(FM_MEM_DEVICE_FULL, "the device has no room for the rest of it",                       \
		"put another group's memory out: fermata suspend --out TARGET")                  \
	X(FM_MEM_DRIVER, "the driver refuses to move it", "fermata doctor")                      \
	X(FM_MEM_PINNED_ALL, "the program uses the device in ways that no gate stops",           \
		"fermata ps --memory has the reason")                                            \
	X(FM_MEM_REFUSED, "the driver does not have what it takes to move it", "fermata doctor") \
	/* of clients of an older version */                                                     \
	X(FM_MEM_REFUSED_RANKS, "the program has several ranks or devices",                      \
		"run it without --memory")                                                       \
	X(FM_MEM_REFUSED_IPC,                                                                    \
		"the program shares memory with other processes (cuIpcGetMemHandle)",            \
		"run it without --memory")                                                       \
	X(FM_MEM_REFUSED_TOOL, "a tool looks into the program", "run it without the tool")       \
	X(FM_MEM_REFUSED_MPS, "the program shares its context with others (MPS)",                \
		"end the MPS daemon, and start the program anew; `fermata doctor memory' tells") \
	X(FM_MEM_REFUSED_ADDRESSES, "the process has too few addresses for it (ulimit -v)",      \
		"start the program anew without a limit of addresses (`ulimit -v unlimited')")

/* Memory that was used though nothing named it: how that was seen, and what was brought in. */
enum fm_mem_miss { FM_MEM_MISS_TIME, FM_MEM_MISS_WRITE, FM_MEM_MISSES };
enum fm_mem_cure { FM_MEM_CURE_NAMED, FM_MEM_CURE_ALL, FM_MEM_CURES };
/* The address of a device on the bus, as Linux writes it, with its end. */
#define FM_BUS_MAX 16

enum fm_mem_trouble {
#define FM_MEM_TROUBLE_ID(id, text, remedy) id,
	FM_MEM_TROUBLE_MAP(FM_MEM_TROUBLE_ID)
#undef FM_MEM_TROUBLE_ID
		FM_MEM_TROUBLES
};

/* One device. All sizes in bytes. */
struct fm_ledger_device {
	/* Written by the client, once, before `capacity` leaves zero. */
	FM_LINE char key[FM_DEVKEY_MAX]; /* as in QUEUE */
	char bus[FM_BUS_MAX];            /* "0000:3b:00.0", or "": not known */
	_Atomic uint64_t capacity;       /* all memory of the device; 0: the row is free */

	/* Written by the client. */
	FM_LINE _Atomic uint64_t claimed; /* all kinds together, and what is being allocated */
	_Atomic uint64_t kind[FM_MEM_KINDS];
	_Atomic uint64_t peak;              /* the most that was ever allocated at one time */
	_Atomic uint64_t refused;           /* allocations that a limit refused */
	_Atomic uint64_t resident;          /* of movable memory: what is on the device, */
	_Atomic uint64_t host;              /* and what is on the host; the rest is empty, */
	_Atomic uint64_t mapped;            /* or runs from the host, mapped for the device */
	_Atomic uint64_t went_out, came_in; /* bytes copied; never falling */
	_Atomic uint64_t kept;    /* bytes that were evicted without a copy; never falling */
	_Atomic uint64_t wanted;  /* `claimed` as it would be after the allocation that waits */
	_Atomic uint32_t asked;   /* number of the request in `wanted`; raised after it */
	_Atomic uint32_t settled; /* the newest request whose answer has been used */
	_Atomic uint32_t trouble; /* enum fm_mem_trouble */
	_Atomic uint32_t misses;  /* 1: the program waits for memory that is out */
	_Atomic uint64_t lacks; /* the driver has no memory for an allocation of so much; 0: none */
	_Atomic uint32_t lacking; /* number of the request in `lacks`; raised after it */
	_Atomic uint64_t grain;   /* the most that moves as a whole; 0: not known */
	/* OUT: the share for which nothing is left to be moved. UINT64_MAX: none. */
	_Atomic uint64_t reached;
	/* Of movable memory: chunks of which the work of the last turns named something.
	 * UINT64_MAX: it is not known of which. */
	_Atomic uint64_t hot;
	/* Of `mapped', and of what is neither there nor on the device: what is in use. All of it,
	 * if that is not known. */
	_Atomic uint64_t hot_mapped, hot_out;
	/* So often its work used memory, while it ran from the host, that it was not known to use;
	 * never falling. How that was last seen, and what was done: enum fm_mem_miss, and
	 * fm_mem_cure. Raised after them. */
	_Atomic uint64_t missed;
	_Atomic uint32_t missed_how, missed_cure;
	/* Bytes that the program itself keeps on the device (fermata/memory.h), with those that it
	 * asks for; and the number of the request, raised after it. */
	_Atomic uint64_t keeps;
	_Atomic uint32_t keeping;
	/* Memory of the host for what is not on the device: what the client has of it, with copies
	 * that it only keeps; of that, what is not on the device's NUMA node; and what it would
	 * have with what it waits for, 0: it waits for none. The number of the request in
	 * `host_wants', raised after it. */
	_Atomic uint64_t host_has, host_strayed, host_wants;
	_Atomic uint32_t host_asks;
	/* Bytes that ran from the host and have come in the place of others, which are used less;
	 * never falling. */
	_Atomic uint64_t exchanged;

	/* Written by the daemon. */
	FM_LINE _Atomic uint64_t allowed; /* `claimed` may be this much; UINT64_MAX: any amount */
	_Atomic uint64_t limit;  /* of the group, for people and for the program; 0: none */
	_Atomic uint64_t others; /* what the other clients of the group have claimed */
	_Atomic uint64_t
		granted; /* what was allowed by the newest answer, whatever is allowed since */
	_Atomic uint32_t answered; /* the newest request that was looked at */
	_Atomic uint32_t wish;     /* enum fm_mem_wish; `share' is written before it */
	/* 1: in the newest answer it is the device that has no room for all of it, which counts as
	 * having less than it has ([memory] device_limit); no limit refuses. */
	_Atomic uint32_t full;
	_Atomic uint64_t
		share; /* of movable memory so much may be on the device; UINT64_MAX: all */
	/* The newest request in `lacks` that was answered, times two; and 1 if there is room now.
	 */
	_Atomic uint64_t roomed;
	/* The newest request in `keeps' that was answered, times two; and 1 if it is granted. */
	_Atomic uint64_t kept_for;
	/* Of movable memory no more than this may be on the device, whatever is wished: a limit has
	 * sunk, and the rest runs from the host. UINT64_MAX: any amount. */
	_Atomic uint64_t cap;
	/* `host_has' may be this much; UINT64_MAX: any amount. Less than it is: copies that it only
	 * keeps are to go. The newest request in `host_wants' that was answered. */
	_Atomic uint64_t host_may;
	_Atomic uint32_t host_told;
};

/* What pins memory, by name: what the program did ("table UUID", or a call), and in whose code (the
 * name of a library, or ""). The client writes each once. */
#define FM_LEDGER_PINS 8
#define FM_PIN_WHAT    48
#define FM_PIN_BY      48
struct fm_ledger_pin {
	_Atomic uint32_t kind; /* enum fm_mem_kind, one that is pinned; written last */
	char what[FM_PIN_WHAT], by[FM_PIN_BY];
};
struct fm_ledger_pins {
	struct fm_ledger_pin pin[FM_LEDGER_PINS];
};

/* What is known of the kernels that the program has launched (templates of what they touch,
 * predict/template.h), in numbers: X(ID, name). Kernels; files that were not read; and pointers of
 * such kernels, by form. */
#define FM_MEM_FORETOLD_MAP(X)                  \
	X(FM_FORETOLD_TRIAL, "trial")           \
	X(FM_FORETOLD_TRUSTED, "trusted")       \
	X(FM_FORETOLD_DISTRUSTED, "distrusted") \
	X(FM_FORETOLD_NOT, "none")              \
	X(FM_FORETOLD_REFUSED, "refused")       \
	X(FM_FORETOLD_ANY, "any")               \
	X(FM_FORETOLD_FIXED, "fixed")           \
	X(FM_FORETOLD_LINEAR, "linear")         \
	X(FM_FORETOLD_STRIDED, "strided")       \
	X(FM_FORETOLD_BOX, "box")               \
	X(FM_FORETOLD_MEMO, "memo")
enum fm_mem_foretold {
#define FM_MEM_FORETOLD_ID(id, name) id,
	FM_MEM_FORETOLD_MAP(FM_MEM_FORETOLD_ID)
#undef FM_MEM_FORETOLD_ID
		FM_MEM_FORETOLDS
};

/* The client's memory is in the arena, and may move. EARLY: what of it leaves the device runs from
 * the host, so that the client goes on before it has come back (xqueue/early.h). */
#define FM_LEDGER_MANAGED 1u
#define FM_LEDGER_EARLY   2u

struct fm_ledger {
	/* Constant after creation. */
	FM_LINE uint32_t magic;
	uint16_t version;
	uint16_t devices;
	uint32_t size;
	uint32_t managed; /* FM_LEDGER_*; 0: the client's memory does not move */

	struct fm_ledger_device device[FM_LEDGER_DEVICES];
	struct fm_ledger_pins pins;                  /* written by the client */
	_Atomic uint32_t foretold[FM_MEM_FORETOLDS]; /* written by the client */
};

/* Client side: create a sealed ledger. *ledger is mapped, *fd to be sent to the daemon (or, with fd
 * NULL, it is private memory). `allowed`, `share`, `cap`, `reached`
 * and `host_may` are UINT64_MAX in all
 * rows. 0 or a
 * negative errno. */
int fm_ledger_create(struct fm_ledger **ledger, int *fd);

/* Daemon side: map a descriptor that came from a client. -EINVAL unless it is a memfd of exactly
 * the right size, sealed against shrinking and growing, with a valid header. The descriptor stays
 * the caller's. */
int fm_ledger_map(struct fm_ledger **ledger, int fd);

void fm_ledger_unmap(struct fm_ledger *ledger);

/* Replace the mapping by private memory of zeros, at the same address: for the child after fork,
 * which has none of its parent's memory. Async-signal-safe. */
void fm_ledger_detach(struct fm_ledger *ledger);

/* Client side. The claim, if it is within what is allowed; false: nothing has changed. */
bool fm_ledger_claim(struct fm_ledger_device *row, uint64_t bytes);
/* Asks for so much more than there is now. Returns the number of the request. One at a time. */
uint32_t fm_ledger_ask(struct fm_ledger_device *row, uint64_t bytes);
/* That request was answered. 0: the claim is made; -ENOMEM: it is refused; both settle the request.
 * -EAGAIN: what it was given is gone, to other threads or to a limit that has changed, or something
 * was returned: ask again. */
int fm_ledger_take(struct fm_ledger_device *row, uint32_t number, uint64_t bytes);
/* No more is expected of that request. */
void fm_ledger_settle(struct fm_ledger_device *row, uint32_t number);

/* Daemon side. Lowers `allowed`, and returns what the client has claimed by then. */
uint64_t fm_ledger_lower(struct fm_ledger_device *row, uint64_t allowed);
/* The number of the newest request, and what it asks for. */
uint32_t fm_ledger_asked(struct fm_ledger_device *row, uint64_t *wanted);
bool fm_ledger_settled(const struct fm_ledger_device *row, uint32_t number);
/* Answers that request, with what is allowed from now on. */
void fm_ledger_answer(struct fm_ledger_device *row, uint32_t number, uint64_t allowed);

/* Room. Client side: the driver has no memory for so much. Returns the number of the request. The
 * allocation waits until fm_ledger_roomed(), and stores 0 in `lacks` when it waits no more. */
uint32_t fm_ledger_lack(struct fm_ledger_device *row, uint64_t bytes);
bool fm_ledger_roomed(const struct fm_ledger_device *row, uint32_t number, bool *room);
/* Daemon side. Answers that request. */
void fm_ledger_room(struct fm_ledger_device *row, uint32_t number, bool room);

/* Keeping memory on the device. Client side: so many bytes more, or less if it is negative. Returns
 * the number of the request; after one that was refused the same bytes are taken back. */
uint32_t fm_ledger_keep(struct fm_ledger_device *row, int64_t bytes);
bool fm_ledger_keep_answered(const struct fm_ledger_device *row, uint32_t number, bool *granted);
/* Daemon side. Answers that request. */
void fm_ledger_keep_answer(struct fm_ledger_device *row, uint32_t number, bool granted);

/* Memory of the host, as claims are made above. Client side: it will have so much. False: that is
 * not allowed, and nothing has changed. Less than it has is always allowed. */
bool fm_ledger_host_take(struct fm_ledger_device *row, uint64_t bytes);
/* Asks for that. Returns the number of the request. */
uint32_t fm_ledger_host_ask(struct fm_ledger_device *row, uint64_t bytes);
bool fm_ledger_host_told(const struct fm_ledger_device *row, uint32_t number);
/* Daemon side. Sets what it may have, and returns what it has by then. */
uint64_t fm_ledger_host_allow(struct fm_ledger_device *row, uint64_t bytes);
/* Answers that request, with what it may have by then. */
void fm_ledger_host_answer(struct fm_ledger_device *row, uint32_t number);

/* Pins, by name (ledger_pins.c). What is longer is cut. Client side: notes one, if it is not noted
 * yet, and if there is room for it. Async-signal-safe; any threads. */
void fm_ledger_pin(
	struct fm_ledger_pins *pins, enum fm_mem_kind kind, const char *what, const char *by);
/* Either side. Copies number i, where it is a pin, and makes it printable. */
struct fm_mem_pin {
	enum fm_mem_kind kind;
	char what[FM_PIN_WHAT], by[FM_PIN_BY];
};
bool fm_ledger_pinned(const struct fm_ledger_pins *pins, unsigned i, struct fm_mem_pin *pin);

/* Is it such an address? */
bool fm_mem_is_bus(const char *text);
const char *fm_mem_kind_name(enum fm_mem_kind kind);
/* "" for FM_MEM_FINE, and for what is no trouble that is known. */
const char *fm_mem_trouble_text(enum fm_mem_trouble trouble);
const char *fm_mem_trouble_remedy(enum fm_mem_trouble trouble);

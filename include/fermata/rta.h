/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real-time analysis: whether all jobs of a set of tasks that share one GPU meet their deadlines,
 * and bounds on their response times. Also global EDF for the CPUs alone.
 *
 * Units. Every time is a whole number of nanoseconds. Bounds are computed exactly, in integers,
 * without floating point. A result that does not fit 64 bits is -EOVERFLOW, never wrapped.
 *
 * Model. Sporadic tasks with constrained deadlines, each on one CPU, by fixed priorities
 * (rate-monotonic or not; larger is more urgent, and no two real-time tasks have the same). A job
 * computes for cpu_time on its CPU, and uses the GPU in segments. A segment takes `total` at most:
 * `misc` of it on the CPU (launching, copying), `gpu` of it on the GPU alone; total is no less than
 * the two together. Best-effort tasks have no bound, but use the GPU as well.
 *
 * Sources, by method:
 *   gcaps-*  Wang, Liu, Wong, Kim: GCAPS, ECRTS 2024, section 6.3 and 6.4: a GPU segment is
 * preempted by one of higher priority; the switch costs epsilon. In busy mode a task that uses no
 * GPU is charged with the waiting of others in front of it, too, which Eq. 10 to 12 leave out. rr-*
 * the same paper, Eq. 3 and 5 to 8: the driver's own round robin, of slices with a context switch
 * (theta) each. fmlp-*   Brandenburg: FMLP+, ECRTS 2014: a FIFO lock around each segment, with
 * boosting. mpcp-*   MPCP (Rajkumar, ICDCS 1990): a lock whose waiters are served by priority, with
 *            boosting. Blocking by requests after Lakshmanan, de Niz, Rajkumar, RTSS 2009; by jobs,
 *            whichever is less, after Patel, Baek, Kim, Rajkumar, RTAS 2018; jitter of tasks that
 *            suspend themselves after Chen et al., Real-Time Systems 55, 2019. docs/analysis.md
 *            writes it out.
 *   -suspend while its GPU segment runs the task leaves its CPU to others; -busy: it spins.
 *   GFB  Goossens, Funk, Baruah, Real-Time Systems 25, 2003.   BAK  Baker, RTSS 2003.
 *   RTA  Bertogna, Cirinei, RTSS 2007.   BAR  Baruah, RTSS 2007.
 *
 * Errors: 0 or a negative errno. -EINVAL: a task is invalid (fm_rta_fault has the task and the
 * reason); -EOVERFLOW; -ENOMEM. No function prints, blocks, or reads a clock or a file.
 * Every loop is bounded: an iteration that does not converge within FM_RTA_STEPS ends, and the
 * task's deadline counts as not met.
 *
 * Ownership and threads: an fm_rta copies its input. It does not change afterwards, and several
 * threads may use it at once; results go into the caller's memory. The other functions keep no
 * state.
 */
#ifndef FERMATA_RTA_H
#define FERMATA_RTA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FM_RTA_BEST_EFFORT (-1)        /* priority of a task without a deadline to keep */
#define FM_RTA_UNSET       INT64_C(-1) /* a time that is not given */
#define FM_RTA_NONE        SIZE_MAX    /* no task, no segment */
#define FM_RTA_STEPS       (1u << 20)  /* fewer where there are more than 64 tasks */

/* X(ID, name, summary) */
#define FM_RTA_METHOD_MAP(X)                                                               \
	X(FM_RTA_GCAPS_SUSPEND, "gcaps-suspend", "preemption by priority, tasks suspend")  \
	X(FM_RTA_GCAPS_BUSY, "gcaps-busy", "preemption by priority, tasks spin")           \
	X(FM_RTA_RR_SUSPEND, "rr-suspend", "the driver's round robin, tasks suspend")      \
	X(FM_RTA_RR_BUSY, "rr-busy", "the driver's round robin, tasks spin")               \
	X(FM_RTA_FMLP_SUSPEND, "fmlp-suspend",                                             \
		"a FIFO lock around segments, tasks suspend (not safe)")                   \
	X(FM_RTA_FMLP_BUSY, "fmlp-busy", "a FIFO lock around segments, tasks spin")        \
	X(FM_RTA_MPCP_SUSPEND, "mpcp-suspend", "a lock served by priority, tasks suspend") \
	X(FM_RTA_MPCP_BUSY, "mpcp-busy", "a lock served by priority, tasks spin")

enum fm_rta_method {
#define FM_RTA_METHOD_ID(id, name, summary) id,
	FM_RTA_METHOD_MAP(FM_RTA_METHOD_ID)
#undef FM_RTA_METHOD_ID
		FM_RTA_METHODS
};

struct fm_rta_segment {
	int64_t total, misc, gpu;
};

struct fm_rta_task {
	int64_t priority; /* 0 and above, or FM_RTA_BEST_EFFORT */
	int64_t cpu;      /* any number */
	int64_t period, deadline, cpu_time;
	const struct fm_rta_segment *segment;
	size_t segments;   /* one of length zero counts as well */
	int64_t gpu_total; /* all segments of a job together; FM_RTA_UNSET: the sum of the totals */
	/* A lower limit of its bound, such as the bound in a set to which tasks were added:
	 * fm_rta_analyze() begins there. 0: none is known. */
	int64_t at_least;
};

struct fm_rta_set {
	const struct fm_rta_task *task;
	size_t tasks;
	int64_t epsilon; /* gcaps: a switch of the GPU between tasks; FM_RTA_UNSET: not known */
	int64_t slice;   /* rr: length of a turn */
	int64_t theta;   /* rr: context switch */
	/* Limit for callers with little time: number of looks of one task at another in an
	 * analysis; the task at which they are used up is FM_RTA_GAVE_UP. 0: only FM_RTA_STEPS. */
	uint64_t effort;
};

/* What is wrong with a set. */
struct fm_rta_fault {
	size_t task, segment; /* or FM_RTA_NONE */
	const char *field;    /* the member's name; static */
	const char *reason;   /* static */
};

typedef struct fm_rta fm_rta;

/* Checks and copies the set. -EINVAL, -EOVERFLOW (fault has the place; may be NULL), -ENOMEM. */
int fm_rta_new(fm_rta **rta, const struct fm_rta_set *set, struct fm_rta_fault *fault);
void fm_rta_free(fm_rta *rta);

/* "gcaps-busy"; NULL outside the enum. */
const char *fm_rta_method_name(enum fm_rta_method method);
const char *fm_rta_method_summary(enum fm_rta_method method);
/* -ENOENT for an unknown name. */
int fm_rta_method_find(const char *name, enum fm_rta_method *method);
/* Whether the method has separate GPU priorities: the gcaps methods. */
bool fm_rta_method_gpu_priority(enum fm_rta_method method);
/* NULL if the set has the method's parameters (epsilon, slice, theta), else the missing one. */
const char *fm_rta_method_lacks(const fm_rta *rta, enum fm_rta_method method);

enum fm_rta_verdict {
	FM_RTA_SKIPPED,  /* best effort, or after the first that misses */
	FM_RTA_MEETS,    /* wcrt is a bound, not beyond the deadline */
	FM_RTA_MISSES,   /* wcrt is beyond the deadline: not a bound, but a lower limit */
	FM_RTA_GAVE_UP,  /* no convergence within FM_RTA_STEPS */
	FM_RTA_OVERFLOW, /* does not fit 64 bits */
};

struct fm_rta_bound {
	enum fm_rta_verdict verdict;
	int64_t wcrt;
	int64_t at; /* the response time that wcrt was computed for; equal to it if it MEETS */
};

/* Bounds of all tasks, in the set's order; `bound` has an element for each. Tasks are analysed in
 * the order of priority, up to the first that does not meet its deadline. -EINVAL if the set lacks
 * a parameter of the method; -EOVERFLOW, with the task's verdict. */
int fm_rta_analyze(const fm_rta *rta, enum fm_rta_method method, struct fm_rta_bound *bound,
	bool *schedulable);

/* GPU priorities for a gcaps method, after Audsley: level[], in the set's order, from 1 upward, 0
 * for none. Tasks of one CPU keep the order of their CPU priorities, otherwise tasks could wait for
 * each other. assigned: every task has a level and meets its deadline, with the bounds in bound[]
 * (may be NULL), which do not depend on those of other tasks. */
int fm_rta_gpu_priorities(const fm_rta *rta, enum fm_rta_method method, uint32_t *level,
	struct fm_rta_bound *bound, bool *assigned);

/* The terms of a bound. X(ID, name for programs, text for people) */
#define FM_RTA_TERM_MAP(X)                                                                 \
	X(FM_RTA_OWN_CPU, "own-cpu", "its own CPU time")                                   \
	X(FM_RTA_OWN_GPU, "own-gpu", "its own GPU segments")                               \
	X(FM_RTA_OWN_UPDATE, "own-updates", "its own runlist updates")                     \
	X(FM_RTA_INTERLEAVE, "interleaving", "turns of others during its segments")        \
	X(FM_RTA_CPU_OF, "cpu-of", "CPU time of")                                          \
	X(FM_RTA_GPU_OF, "gpu-of", "GPU segments of")                                      \
	X(FM_RTA_UPDATE_OF, "updates-of", "runlist updates of")                            \
	X(FM_RTA_INTERLEAVE_OF, "interleaving-of", "turns of others while it spins:")      \
	X(FM_RTA_LOCK_OF, "lock-of", "waiting for the lock, held by")                      \
	X(FM_RTA_LOCK_LOWER, "lock-lower", "waiting for the lock, held by lower-priority") \
	X(FM_RTA_BOOST_OF, "boost-of", "boosted execution of lower-priority")

enum fm_rta_kind {
#define FM_RTA_TERM_ID(id, name, text) id,
	FM_RTA_TERM_MAP(FM_RTA_TERM_ID)
#undef FM_RTA_TERM_ID
		FM_RTA_KINDS
};

const char *fm_rta_kind_name(enum fm_rta_kind kind);
const char *fm_rta_kind_text(enum fm_rta_kind kind);

struct fm_rta_term {
	enum fm_rta_kind kind;
	size_t task;   /* the task that causes it; FM_RTA_NONE: the task itself */
	int64_t count; /* number of times */
	int64_t each;
	int64_t total; /* count * each */
};

/* The terms whose sum is bound[task].wcrt, without those of zero. bound: the result of
 * fm_rta_analyze() or, with `level` (else NULL), fm_rta_gpu_priorities() for this method. Writes up
 * to `cap` and returns the number of terms. -ENOENT: the task was skipped; -EINVAL, -EOVERFLOW. */
int fm_rta_explain(const fm_rta *rta, enum fm_rta_method method, const struct fm_rta_bound *bound,
	const uint32_t *level, size_t task, struct fm_rta_term *term, size_t cap);

/*
 * Global EDF: `cpus` processors, tasks move freely, deadlines are the periods. Each test is
 * sufficient: one that passes suffices.
 */
struct fm_gedf_task {
	int64_t cpu_time, period;
};

enum fm_gedf_test { FM_GEDF_BAK, FM_GEDF_GFB, FM_GEDF_RTA, FM_GEDF_BAR, FM_GEDF_TESTS };

/* The cost of scheduling a GPU from the CPU (Bakita, Anderson: on-GPU scheduling): none, a
 * dedicated CPU, or 165 us for each started or each whole 2 ms of CPU time. */
enum fm_gedf_charge {
	FM_GEDF_NONE,
	FM_GEDF_DEDICATED,
	FM_GEDF_CEIL,
	FM_GEDF_FLOOR,
	FM_GEDF_CHARGES
};

const char *fm_gedf_test_name(enum fm_gedf_test test);
const char *fm_gedf_charge_name(enum fm_gedf_charge charge);

#define FM_GEDF_CPUS 4096

/* passes[]: by enum fm_gedf_test; all false if a task needs more than its period, or all tasks
 * together more than the CPUs. A test that needs more than FM_RTA_STEPS points does not pass.
 * cpus: 1 to FM_GEDF_CPUS. */
int fm_gedf_analyze(const struct fm_gedf_task *task, size_t tasks, uint32_t cpus,
	enum fm_gedf_charge charge, bool passes[FM_GEDF_TESTS]);

/* As above, but stops at the first test that passes. */
int fm_gedf_schedulable(const struct fm_gedf_task *task, size_t tasks, uint32_t cpus,
	enum fm_gedf_charge charge, bool *schedulable);

/* Likewise for tasks of a device that order themselves, by EDF on `slots` (<fermata/gpu_sched.h>).
 * A job is cut into chunks of at most `chunk`, which are not stopped; `decision` is charged before
 * each, and to each job one chunk of a task with a later deadline (docs/analysis.md). -EINVAL: no
 * slots, or more than FM_GEDF_CPUS; a chunk that is not positive; a negative time. -EOVERFLOW. */
struct fm_gedf_gpu {
	uint32_t slots;
	int64_t chunk, decision;
};
int fm_gedf_gpu_schedulable(const struct fm_gedf_task *task, size_t tasks,
	const struct fm_gedf_gpu *gpu, bool *schedulable);

/*
 * The same for one set of such tasks, whose jobs are cut into equal chunks, with costs that were
 * measured, and what is charged to each task. A chunk's end may have to wait for a decision that is
 * under way before the next one, its own, is made. So two are charged for each chunk; of a job's
 * the first is its start. A task without a deadline is only waited for.
 */
struct fm_gedf_gpu_task {
	int64_t time;             /* of the device, for a job */
	int64_t period, deadline; /* deadline <= period; both 0: none */
	uint32_t chunks;          /* 0: 1 */
};

struct fm_gedf_gpu_costs {
	uint32_t slots;
	int64_t decision; /* from a chunk's end to the next one's begin */
	int64_t start; /* from a release, where nothing runs, to the begin; counts as the decision
			* where it is less */
};

struct fm_gedf_gpu_charge {
	int64_t decisions; /* of a job, the start among them: two for each chunk */
	int64_t overhead;  /* their time */
	size_t blocker;    /* whose chunk its jobs may have to wait for; FM_RTA_NONE */
	int64_t blocking;  /* that chunk, the decision to run it, and the one after it */
	int64_t cost;      /* time, overhead, and on several slots `slots` times blocking */
	/* Parts in FM_RTA_ONE, rounded up: what its jobs and, on one slot, those with deadlines
	 * that are no longer, take of the time up to the deadline. 0: it has no deadline. */
	int64_t load;
	bool meets; /* it is shown to; true where there is no deadline */
};

/* `charge` has an element for each task. On several slots the tasks pass together, or none does.
 * -EINVAL: no slots, or more than FM_GEDF_CPUS; a negative time; a deadline without a period, or
 * beyond it. -EOVERFLOW, -ENOMEM. */
int fm_gedf_gpu_analyze(const struct fm_gedf_gpu_task *task, size_t tasks,
	const struct fm_gedf_gpu_costs *costs, struct fm_gedf_gpu_charge *charge,
	bool *schedulable);

/*
 * Random sets of tasks. The same seed gives the same set on every machine: integers throughout, no
 * C library's random numbers and no powers of floating point.
 */
struct fm_rta_random {
	uint64_t state[4];
};

/* Streams of different numbers are independent, whatever the seeds. */
void fm_rta_seed(struct fm_rta_random *r, uint64_t seed, uint64_t stream);
uint64_t fm_rta_next(struct fm_rta_random *r);
/* Uniform in [min, max], both included. */
int64_t fm_rta_uniform(struct fm_rta_random *r, int64_t min, int64_t max);

/* Shares are parts in a billion. */
#define FM_RTA_ONE INT64_C(1000000000)

/* UUniFast (Bini, Buttazzo 2005): n shares whose sum is `total`, evenly over all such. */
void fm_rta_uunifast(struct fm_rta_random *r, int64_t total, size_t n, int64_t *share);

/* Worst-fit decreasing: the largest share first, each to the bin that is the least full. */
int fm_rta_worst_fit(const int64_t *share, size_t n, uint32_t bins, uint32_t *bin);

struct fm_rta_range {
	int64_t min, max; /* both included */
};

/* The generator of the GCAPS paper's experiments (section 7.1.1, Table 3). */
struct fm_rta_generator {
	uint32_t cpus;
	struct fm_rta_range tasks_per_cpu;
	uint32_t tasks; /* not 0: their number, each with task_share, spread by worst fit */
	struct fm_rta_range task_share; /* only used with `tasks` */
	struct fm_rta_range cpu_share;  /* utilisation of each CPU */
	struct fm_rta_range gpu_tasks;  /* share of tasks that use the GPU */
	struct fm_rta_range gpu_to_cpu; /* G/C of those; up to 1000 times FM_RTA_ONE */
	struct fm_rta_range misc;       /* Gm/G of a segment */
	struct fm_rta_range segments;   /* of a task */
	struct fm_rta_range period;     /* ns, whole milliseconds are drawn */
	int64_t best_effort;            /* share of best-effort tasks, rounded down */
	int64_t epsilon, slice, theta;
	bool worst_fit; /* spread the tasks over the CPUs anew, by worst fit */
};

/* Table 3 of the paper. */
void fm_rta_generator_default(struct fm_rta_generator *g);

/* Allocates a set in priority order (rate-monotonic, best effort last), to be freed by
 * fm_rta_set_free(). -EINVAL, -ENOMEM. */
int fm_rta_generate(
	const struct fm_rta_generator *g, struct fm_rta_random *r, struct fm_rta_set **set);
void fm_rta_set_free(struct fm_rta_set *set);

/* The generator of the on-GPU paper's study: periods of 10 to 100 ms, utilisations of 10 to 40 %;
 * the first task with which the sum would exceed `cap` is dropped, and ends the set. Times are
 * whole microseconds. Returns the number of tasks, at most `max`. */
size_t fm_gedf_generate(
	struct fm_rta_random *r, int64_t cap, struct fm_gedf_task *task, size_t max);

#ifdef __cplusplus
}
#endif
#endif

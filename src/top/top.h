/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live view, without a terminal and without a socket: what keys do, what replies change, what
 * the screen shows. Requests are put into a queue, which top_link.h empties.
 *
 * Owns: the model of what is shown, and the requests that have not been sent.
 * Locks: none.
 * Threads: one, that of main().
 */
#pragma once
#include "cmd/cli.h"
#include "top_grid.h"
#include "top_model.h"

/* Printable keys are themselves. */
enum top_key {
	TOP_KEY_UP = 0x1000,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_ENTER,
	TOP_KEY_ESCAPE,
	TOP_KEY_BACKSPACE,
};

enum top_about {
	TOP_PAGE, /* of groups */
	TOP_TASKS,
	TOP_GROUP,    /* "ps" of one group, in full */
	TOP_POLICIES, /* "policy" */
	TOP_CHANGE,   /* a change; a look follows at once */
};

struct top_request {
	enum top_about about;
	json_t *body;
	unsigned walk; /* the look that its page or tasks belong to */
	char what[96]; /* shown when the request is done */
};

enum top_panel { TOP_LIST, TOP_HELP, TOP_DETAIL, TOP_CHOOSE_POLICY, TOP_CHOOSE_SORT };
enum top_prompt { TOP_NO_PROMPT, TOP_ENTER_PRIORITY, TOP_ENTER_USER, TOP_ENTER_INTERVAL };

#define TOP_REQUESTS 16
#define TOP_NAME     128
#define TOP_WORD     48
#define TOP_TEXT     256

/* Names a group independently of the sample in which it was seen. */
struct top_who {
	int64_t uid;
	char name[TOP_NAME]; /* "": no group */
};

struct top_lines {
	char **line;
	size_t n;
};

/* A look that is under way. A new look ends the one before. */
struct top_walk {
	unsigned number, pages;
	json_t *groups, *tasks; /* what came so far, as top_model_take() takes it */
	bool whole, told;       /* all pages have come; the tasks have come */
	json_t *users;          /* names by number */
};

struct top {
	struct top_model model;
	struct top_walk walk;
	const char *passwd; /* names of users */
	struct top_grid grid;
	struct top_request request[TOP_REQUESTS]; /* a ring */
	unsigned first_request, requests;
	unsigned changes; /* changes that were asked for and not answered */
	bool stale;       /* the screen is older than the last change */

	/* What the user chose. */
	enum top_sort sort;
	bool reverse, paused, quit;
	char user[TOP_WORD]; /* "": all */
	double interval;     /* s */

	/* The list, and the selected group. */
	const struct top_group **list;
	size_t groups, at, scroll, page;
	struct top_who selected, mark[TOP_MARKS];
	struct top_who
		wished; /* the group whose priority was set; the model does not show it yet */
	int priority;

	enum top_panel panel;
	size_t cursor, panel_scroll; /* of the panel */
	json_t *policies;            /* the reply */
	struct top_lines detail;

	enum top_prompt prompt;
	struct top_who prompted; /* the group that the prompt is about */
	char typed[TOP_WORD];

	char message[2 * TOP_TEXT];
	bool message_bad;
	char lost[TOP_TEXT]; /* why the daemon does not answer; "": it does */
};

void top_init(struct top *t);
void top_free(struct top *t);

void top_press(struct top *t, int key);

/* Begins a look at the present state. Called at each interval. */
void top_look(struct top *t);
/* Takes a reply to a page or to the tasks of the look (NULL: refused). True: the look is complete.
 */
bool top_walk_take(struct top *t, const struct top_request *r, json_t *reply);
void top_walk_end(struct top *t); /* forget the look */

/* Takes the oldest request, for the caller to send and to free. False: there is none. */
bool top_next_request(struct top *t, struct top_request *r);
void top_request_free(struct top_request *r);

/* Takes the reply to a request that came at `now`, and its reference. True: there may be something
 * new to show. */
bool top_reply(struct top *t, const struct top_request *r, json_t *reply, uint64_t now);

/* lost: the daemon is gone. Requests are forgotten, and the screen stays as it is. found: there is
 * a daemon again. */
void top_lost(struct top *t, const char *why);
void top_found(struct top *t);

/* Draw into t->grid. */
void top_draw(struct top *t);

/* The rest is shared only by the files of the view. */

/* Sets the message in the last line. The daemon's texts are cleaned when they are drawn. */
void top_say(struct top *t, bool bad, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts a request into the queue, and takes its reference; NULL is ignored. `what` is shown when the
 * request is done. */
void top_ask(struct top *t, enum top_about about, json_t *body, const char *what, ...)
	__attribute__((format(printf, 4, 5)));

const struct top_group *top_selected(const struct top *t);
void top_select(struct top *t, size_t at);

/* Makes the list again, from the model and the user's choices. */
void top_arrange(struct top *t);

/* The group's mark, 1 to TOP_MARKS, or 0. */
unsigned top_mark_of(const struct top *t, const struct top_group *g);

void top_lines_free(struct top_lines *l);

/* Describes the selected group in lines. reply: the reply to TOP_GROUP, or NULL. */
void top_describe(struct top *t, const json_t *reply);

/* Draws a panel that hides the list, in `rows` rows from `row` on. */
void top_draw_panel(struct top *t, int row, int rows);
size_t top_panel_rows(const struct top *t); /* how many lines it has */

/* "12us", "3.40ms", "1.2s"; "-" if it is not known. At most six characters where possible. */
const char *top_us(double us, char buf[16]);
/* "97.3": percent, rounded down; "-" if it is not known. */
const char *top_percent(double share, bool known, char buf[16]);
const char *top_rate(double rate, bool known, char buf[16]);
/* "1.5G"; "-": none. */
const char *top_bytes(double bytes, char buf[16]);

/* `fermata top'. */
int cli_top(struct cli *cli, int argc, char **argv);

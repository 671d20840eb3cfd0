// SPDX-License-Identifier: MIT
/* What ps found, as tables for people and as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ps.h"

#define NS_PER_S	UINT64_C(1000000000)

static uint64_t seconds_since(uint64_t ns)
{
	uint64_t now = (uint64_t)time(NULL), then = ns / NS_PER_S;

	return now > then ? now - then : 0;
}

/* "12s", "5m", "3h", "2d": two digits say enough of an age. */
static const char *human_age(uint64_t ns, char buffer[HUMAN_SIZE])
{
	uint64_t s = seconds_since(ns);

	if (s < 120)
		snprintf(buffer, HUMAN_SIZE, "%" PRIu64 "s", s);
	else if (s < 120 * 60)
		snprintf(buffer, HUMAN_SIZE, "%" PRIu64 "m", s / 60);
	else if (s < 48 * 3600)
		snprintf(buffer, HUMAN_SIZE, "%" PRIu64 "h", s / 3600);
	else
		snprintf(buffer, HUMAN_SIZE, "%" PRIu64 "d", s / 86400);
	return buffer;
}

static const char *user_name(unsigned int uid, char buffer[HUMAN_SIZE])
{
	const struct passwd *user = getpwuid(uid);

	if (user)
		snprintf(buffer, HUMAN_SIZE, "%.*s", HUMAN_SIZE - 1, user->pw_name);
	else
		snprintf(buffer, HUMAN_SIZE, "%u", uid);
	return buffer;
}

/* ---- for people ---- */

/* "0:1G:2 1:2M:5" as the reserve's SPECs have it. */
static void add_extents(struct table *table, const struct ps_region *region)
{
	char text[256] = "";

	for (size_t i = 0; i < region->info.nr_extents; i++) {
		const struct hugepin_extent_info *extent = &region->extents[i];
		size_t used = strlen(text);

		snprintf(text + used, sizeof(text) - used, "%s%d:%s:%" PRIu64, used ? " " : "", extent->node,
			 class_name(extent->page_class), extent->bytes / class_bytes(extent->page_class));
	}
	table_cell(table, STYLE_PLAIN, "%s", text);
}

int ps_print_regions(const struct ps *ps, bool forgotten, bool colour, FILE *out)
{
	static const char *const headings[] = {
		"ID", "-OWNER", "SIZE", "-PAGES", "AGE", "USED", "OPEN", "MAPS", "HELD", "-STATE", "-NAME",
	};
	struct table *table = table_create(headings, sizeof(headings) / sizeof(headings[0]));
	char text[HUMAN_SIZE];
	int err;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < ps->nr_regions; i++) {
		const struct ps_region *region = &ps->regions[i];
		const struct hugepin_listed_region *info = &region->info;
		bool is_forgotten = ps_is_forgotten(region);

		if (forgotten && !is_forgotten)
			continue;
		table_cell(table, STYLE_PLAIN, "%" PRIu64, info->id);
		table_cell(table, STYLE_PLAIN, "%s", user_name(info->charged_uid, text));
		table_cell(table, STYLE_BOLD, "%s", human_bytes(info->bytes, text));
		add_extents(table, region);
		table_cell(table, STYLE_PLAIN, "%s", human_age(info->created_ns, text));
		table_cell(table, STYLE_PLAIN, "%s", human_age(info->used_ns, text));
		table_cell(table, info->opens ? STYLE_PLAIN : STYLE_DIM, "%" PRIu64, info->opens);
		table_cell(table, info->mappings ? STYLE_PLAIN : STYLE_DIM, "%" PRIu64, info->mappings);
		table_cell(table, info->held_bytes ? STYLE_YELLOW : STYLE_DIM, "%s",
			   human_bytes(info->held_bytes, text));
		table_cell(table, is_forgotten ? STYLE_RED : STYLE_PLAIN, "%s",
			   is_forgotten ? "forgotten" : info->held_bytes ? "held" : "in use");
		table_cell(table, region->path ? STYLE_PLAIN : STYLE_DIM, "%s%s", info->path_is_cut ? "..." : "",
			   region->path ? region->path : "(no name)");
	}
	err = table_print(table, out, colour);
	table_free(table);
	return err;
}

static int print_holders(const struct ps *ps, bool colour)
{
	static const char *const headings[] = { "REGION", "PID", "-USER", "DESCRIPTORS", "MAPPED", "-COMMAND" };
	struct table *table = table_create(headings, sizeof(headings) / sizeof(headings[0]));
	char text[HUMAN_SIZE];
	int err;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < ps->nr_holders; i++) {
		const struct holder *holder = &ps->holders[i];

		table_cell(table, STYLE_PLAIN, "%" PRIu64, ps->regions[holder->region].info.id);
		table_cell(table, STYLE_BOLD, "%d", holder->pid);
		table_cell(table, STYLE_PLAIN, "%s", user_name(holder->uid, text));
		table_cell(table, STYLE_PLAIN, "%u", holder->descriptors);
		table_cell(table, STYLE_PLAIN, "%s", human_bytes(holder->mapped_bytes, text));
		table_cell(table, STYLE_PLAIN, "%s", holder->comm);
	}
	putchar('\n');
	err = table_print(table, stdout, colour);
	table_free(table);
	return err;
}

static int print_users(const struct ps *ps, bool colour)
{
	static const char *const headings[] = { "-USER", "1G", "2M", "SIZE", "QUARANTINED", "PINNED" };
	struct table *table = table_create(headings, sizeof(headings) / sizeof(headings[0]));
	char text[HUMAN_SIZE];
	int err;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < ps->nr_users; i++) {
		const struct hugepin_listed_user *user = &ps->users[i];
		uint64_t gib = class_bytes(HUGEPIN_PAGES_1G), mib2 = class_bytes(HUGEPIN_PAGES_2M);

		table_cell(table, STYLE_PLAIN, "%s%s", user_name(user->uid, text),
			   user->depth ? " (in a user namespace)" : "");
		table_cell(table, STYLE_PLAIN, "%" PRIu64, user->held_1g_pages);
		table_cell(table, STYLE_PLAIN, "%" PRIu64, user->held_2m_pages);
		table_cell(table, STYLE_BOLD, "%s",
			   human_bytes(user->held_1g_pages * gib + user->held_2m_pages * mib2, text));
		table_cell(table, STYLE_PLAIN, "%s",
			   human_bytes(user->quarantined_1g_pages * gib + user->quarantined_2m_pages * mib2, text));
		table_cell(table, STYLE_PLAIN, "%s", human_bytes(user->pinned_bytes, text));
	}
	putchar('\n');
	err = table_print(table, stdout, colour);
	table_free(table);
	return err;
}

static void print_notes(const struct ps *ps)
{
	uint64_t count = 0, bytes = 0;
	char text[HUMAN_SIZE];

	for (size_t i = 0; i < ps->nr_regions; i++) {
		if (!ps_is_forgotten(&ps->regions[i]))
			continue;
		count++;
		bytes += ps->regions[i].info.bytes;
	}
	if (count)
		printf("\n%" PRIu64
		       " %s forgotten, %s: rm its name below its mount of hugepinfs (/run/hugepin) to free it\n",
		       count, count == 1 ? "region is" : "regions are", human_bytes(bytes, text));
	if (!ps->users_known)
		printf("%sonly the mount of hugepinfs was looked at: other regions, and users, are shown to those who "
		       "may open /dev/hugepin\n",
		       count ? "" : "\n");
	if (ps->unseen)
		printf("%s%u process%s of other users could not be looked into: only root sees all holders\n",
		       count || !ps->users_known ? "" : "\n", ps->unseen, ps->unseen == 1 ? "" : "es");
}

int ps_print(const struct ps *ps, bool forgotten)
{
	bool colour = colour_wanted(stdout);
	int err = 0;

	if (ps->nr_regions)
		err = ps_print_regions(ps, forgotten, colour, stdout);
	else
		puts("no region is alive");
	if (!err && ps->nr_holders && !forgotten)
		err = print_holders(ps, colour);
	if (!err && ps->nr_users && !forgotten)
		err = print_users(ps, colour);
	if (!err)
		print_notes(ps);
	return err;
}

/* ---- as JSON ---- */

static int put_extents(struct json_object *root, const struct ps_region *region)
{
	struct json_object *array = json_object_new_array(), *entry;
	int err = json_put(root, "pages", array);

	for (size_t i = 0; !err && i < region->info.nr_extents; i++) {
		const struct hugepin_extent_info *extent = &region->extents[i];

		err = json_push_object(array, &entry);
		err = err ? err : json_put_uint(entry, "node", (uint64_t)extent->node);
		err = err ? err : json_put_text(entry, "class", class_name(extent->page_class));
		err = err ? err : json_put_uint(entry, "bytes", extent->bytes);
	}
	return err;
}

static int put_holders(struct json_object *root, const struct ps *ps, size_t region)
{
	struct json_object *array = json_object_new_array(), *entry;
	int err = json_put(root, "processes", array);

	for (size_t i = 0; !err && i < ps->nr_holders; i++) {
		const struct holder *holder = &ps->holders[i];

		if (holder->region != region)
			continue;
		err = json_push_object(array, &entry);
		err = err ? err : json_put_uint(entry, "pid", (uint64_t)holder->pid);
		err = err ? err : json_put_uint(entry, "uid", holder->uid);
		err = err ? err : json_put_text(entry, "command", holder->comm);
		err = err ? err : json_put_uint(entry, "descriptors", holder->descriptors);
		err = err ? err : json_put_uint(entry, "mapped_bytes", holder->mapped_bytes);
	}
	return err;
}

static int put_region(struct json_object *entry, const struct ps *ps, size_t index)
{
	const struct ps_region *region = &ps->regions[index];
	const struct hugepin_listed_region *info = &region->info;
	char mode[8];
	int err = json_put_uint(entry, "id", info->id);

	snprintf(mode, sizeof(mode), "%04o", info->mode & 07777);
	if (!err && region->path)
		err = json_put_text(entry, "name", region->path);
	err = err ? err : json_put(entry, "forgotten", json_object_new_boolean(ps_is_forgotten(region)));
	err = err ? err : json_put_uint(entry, "charged_uid", info->charged_uid);
	err = err ? err : json_put_uint(entry, "uid", info->uid);
	err = err ? err : json_put_uint(entry, "gid", info->gid);
	err = err ? err : json_put_text(entry, "mode", mode);
	err = err ? err : json_put_uint(entry, "dev", info->dev);
	err = err ? err : json_put_uint(entry, "inode", info->ino);
	err = err ? err : json_put_uint(entry, "bytes", info->bytes);
	err = err ? err : json_put_uint(entry, "created_seconds", info->created_ns / NS_PER_S);
	err = err ? err : json_put_uint(entry, "used_seconds", info->used_ns / NS_PER_S);
	err = err ? err : json_put_uint(entry, "opens", info->opens);
	err = err ? err : json_put_uint(entry, "mappings", info->mappings);
	err = err ? err : json_put_uint(entry, "held_bytes", info->held_bytes);
	err = err ? err : json_put_uint(entry, "references", info->references);
	err = err ? err : put_extents(entry, region);
	return err ? err : put_holders(entry, ps, index);
}

static int put_users(struct json_object *root, const struct ps *ps)
{
	struct json_object *array = json_object_new_array(), *entry;
	int err = json_put(root, "users", array);

	for (size_t i = 0; !err && i < ps->nr_users; i++) {
		const struct hugepin_listed_user *user = &ps->users[i];

		err = json_push_object(array, &entry);
		err = err ? err : json_put_uint(entry, "uid", user->uid);
		err = err ? err : json_put_uint(entry, "depth", user->depth);
		err = err ? err : json_put_uint(entry, "held_1g", user->held_1g_pages);
		err = err ? err : json_put_uint(entry, "held_2m", user->held_2m_pages);
		err = err ? err : json_put_uint(entry, "quarantined_1g", user->quarantined_1g_pages);
		err = err ? err : json_put_uint(entry, "quarantined_2m", user->quarantined_2m_pages);
		err = err ? err : json_put_uint(entry, "pinned_bytes", user->pinned_bytes);
	}
	return err;
}

int ps_print_json(const struct ps *ps, bool forgotten)
{
	struct json_object *root = json_object_new_object(), *array = json_object_new_array(), *entry;
	int err = json_put(root, "regions", array);

	err = err ? err : json_put_text(root, "version", hugepin_version());
	for (size_t i = 0; !err && i < ps->nr_regions; i++) {
		if (forgotten && !ps_is_forgotten(&ps->regions[i]))
			continue;
		err = json_push_object(array, &entry);
		err = err ? err : put_region(entry, ps, i);
	}
	if (!err && ps->users_known)
		err = put_users(root, ps);
	err = err ? err : json_put_uint(root, "unseen_processes", ps->unseen);
	if (!err)
		err = json_print(root, stdout);
	json_object_put(root);
	return err;
}

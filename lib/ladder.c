// SPDX-License-Identifier: MIT
/*
 * Ladders: the (provider, classes) pairs a pool tries in order, and what each said when none of them gave memory.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

/* Every rung there is, in one place: parser and error texts are made from it. */
static const struct {
	const char *text;
	struct hpi_rung rung;
} known[] = {
	{ "kmod:1G", { &hpi_provider_kmod, HUGEPIN_CLASSES_1G } },
	{ "kmod:1G+2M", { &hpi_provider_kmod, HUGEPIN_CLASSES_1G | HUGEPIN_CLASSES_2M } },
	{ "kmod:2M", { &hpi_provider_kmod, HUGEPIN_CLASSES_2M } },
	{ "hugetlb:1G", { &hpi_provider_hugetlb, HUGEPIN_CLASSES_1G } },
	{ "hugetlb:2M", { &hpi_provider_hugetlb, HUGEPIN_CLASSES_2M } },
	{ "thp", { &hpi_provider_thp, HUGEPIN_CLASSES_2M } },
	{ "base", { &hpi_provider_base, 1u << HUGEPIN_PAGES_BASE } },
	{ "runtime", { &hpi_provider_runtime, 1u << HUGEPIN_PAGES_BASE } },
	{ "device:1G", { &hpi_provider_device, HUGEPIN_CLASSES_1G } },
	{ "device:2M", { &hpi_provider_device, HUGEPIN_CLASSES_2M } },
};

#define KNOWN		(sizeof(known) / sizeof(known[0]))
#define KNOWN_HOST	(KNOWN - 2)	/* that a ladder may name: a device pool makes its own */

static bool same_rung(const struct hpi_rung *a, const struct hpi_rung *b)
{
	return a->provider == b->provider && a->classes == b->classes;
}

static const char *rung_text(const struct hpi_rung *rung)
{
	size_t i;

	for (i = 0; i < KNOWN; i++)
		if (same_rung(&known[i].rung, rung))
			return known[i].text;
	return "?";
}

static int refuse_rung(const char *ladder, const char *text, size_t length)
{
	char list[128] = "";
	size_t i, used = 0;

	for (i = 0; i < KNOWN_HOST; i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", known[i].text);
	return hpi_error(-EINVAL, "ladder \"%.200s\": \"%.*s\" is not a rung; there are %s", ladder,
			 length < 64 ? (int)length : 64, text, list);
}

static int add_rung(const char *ladder, const char *text, size_t length, struct hpi_ladder *out)
{
	size_t i, k;

	for (k = 0; k < KNOWN_HOST; k++)
		if (strlen(known[k].text) == length && !memcmp(known[k].text, text, length))
			break;
	if (k == KNOWN_HOST)
		return refuse_rung(ladder, text, length);
	for (i = 0; i < out->count; i++)
		if (same_rung(&out->rungs[i], &known[k].rung))
			return hpi_error(-EINVAL, "ladder \"%.200s\": %s is there twice", ladder, known[k].text);
	_Static_assert(KNOWN_HOST <= HPI_LADDER_MAX, "without duplicates a ladder always fits");
	out->rungs[out->count++] = known[k].rung;
	return 0;
}

int hpi_ladder_parse(const char *text, struct hpi_ladder *out)
{
	struct hpi_ladder ladder = { .count = 0 };
	const char *at = text;
	size_t length;
	int err;

	if (!text || !*text)
		return hpi_error(-EINVAL, "the ladder is empty");
	for (;;) {
		length = strcspn(at, ",");
		err = add_rung(text, at, length, &ladder);
		if (err)
			return err;
		at += length;
		if (!*at)
			break;
		at++;
	}
	*out = ladder;
	return 0;
}

uint64_t hpi_ladder_granule(const struct hpi_rung *rung)
{
	if (rung->classes & 1u << HUGEPIN_PAGES_BASE)
		return (uint64_t)sysconf(_SC_PAGESIZE);
	return rung->classes & HUGEPIN_CLASSES_2M ? HPI_2M : HPI_1G;
}

static bool goes_on(int err)
{
	return err == -ENOMEM || err == -EDQUOT || err == -ENODEV || err == -EOPNOTSUPP;
}

/* Of two rungs' failures the one that says more: short here beats forbidden here beats not here. */
static int worse(int a, int b)
{
	static const int order[] = { -ENOMEM, -EDQUOT, -EOPNOTSUPP, -ENODEV };
	size_t i;

	for (i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (a == order[i] || b == order[i])
			return order[i];
	return a;
}

static int try_rung(struct hugepin_context *ctx, const struct hpi_rung *rung, const struct hpi_request *request,
		    struct hpi_mapping *out)
{
	struct hpi_request rounded = *request;
	uint64_t granule = hpi_ladder_granule(rung);

	if (request->bytes > INT64_MAX - granule)
		return hpi_error(-ENOMEM, "%llu bytes are more than any address space",
				 (unsigned long long)request->bytes);
	rounded.bytes = hpi_round_up(request->bytes, granule);
	rounded.classes = rung->classes;
	return rung->provider->map(ctx, &rounded, out);
}

int hpi_ladder_map(struct hugepin_context *ctx, const struct hpi_ladder *ladder, size_t first,
		   const struct hpi_request *request, struct hpi_mapping *out, size_t *rung)
{
	char reasons[1024] = "";
	size_t i, used = 0;
	int err = 0, rung_err;

	if (first >= ladder->count)
		return hpi_error(-EINVAL, "ladder: no rung %zu, there are %zu", first, ladder->count);
	for (i = first; i < ladder->count; i++) {
		rung_err = try_rung(ctx, &ladder->rungs[i], request, out);
		if (!rung_err) {
			hpi_error_clear();
			*rung = i;
			return 0;
		}
		if (used < sizeof(reasons))
			used += (size_t)snprintf(reasons + used, sizeof(reasons) - used, "%s%s: %s",
						 i > first ? "; " : "", rung_text(&ladder->rungs[i]), hugepin_error());
		hpi_log(HUGEPIN_LOG_DEBUG, "ladder: %s gave nothing: %s", rung_text(&ladder->rungs[i]),
			hugepin_error());
		err = err ? worse(err, rung_err) : rung_err;
		if (!goes_on(rung_err)) {
			err = rung_err;
			break;
		}
	}
	return hpi_error(err, "no memory from the ladder for %llu bytes: %s", (unsigned long long)request->bytes,
			 reasons);
}

// SPDX-License-Identifier: MIT
/* One value: numbers, sizes, lists of nodes, policies and ladders, and every option with it. */
#include <errno.h>
#include <math.h>

#include "fuzz.h"
#include "internal.h"

static void check_numbers(const char *text)
{
	char again[64];
	uint64_t u = 1, u2;
	int64_t i = 1, i2;
	double d = 0.5, d2;

	if (!hpi_size_parse_uint(text, &u)) {
		snprintf(again, sizeof(again), "%llu", (unsigned long long)u);
		PROPERTY(!hpi_size_parse_uint(again, &u2) && u2 == u);
		/* What a plain number is, bytes and signed numbers agree on. */
		PROPERTY(!hpi_size_parse_bytes(text, &u2) && u2 == u);
		PROPERTY(u > INT64_MAX || (!hpi_size_parse_int(text, &i) && (uint64_t)i == u));
		PROPERTY(!hpi_size_parse_double(text, &d) && fabs(d - (double)u) <= (double)u * 0x1p-52);
	} else {
		PROPERTY(u == 1);
	}
	i = 1;
	if (!hpi_size_parse_int(text, &i)) {
		snprintf(again, sizeof(again), "%lld", (long long)i);
		PROPERTY(!hpi_size_parse_int(again, &i2) && i2 == i);
	} else {
		PROPERTY(i == 1);
	}
	d = 0.5;
	if (!hpi_size_parse_double(text, &d)) {
		PROPERTY(isfinite(d) && !(d == 0 && signbit(d)));
		snprintf(again, sizeof(again), "%.17g", d);
		PROPERTY(!hpi_size_parse_double(again, &d2) && d2 == d);
		if (d >= 0 && d <= 1) {
			PROPERTY(hpi_options_share(d, UINT64_MAX) <= UINT64_MAX);
			PROPERTY(hpi_options_share(d, 1ull << 53) <= 1ull << 53);
			PROPERTY(hpi_options_share(d, 12345) <= 12345);
		}
	} else {
		PROPERTY(d == 0.5);
	}
}

static void check_bytes(const char *text)
{
	char again[64], small[4];
	uint64_t bytes = 1, bytes2;

	if (hpi_size_parse_bytes(text, &bytes)) {
		PROPERTY(bytes == 1);
		return;
	}
	snprintf(again, sizeof(again), "%llu", (unsigned long long)bytes);
	PROPERTY(!hpi_size_parse_bytes(again, &bytes2) && bytes2 == bytes);
	PROPERTY(hpi_size_format(bytes, again, sizeof(again)) == (int)strlen(again));
	PROPERTY(hpi_size_format(bytes, small, sizeof(small)) == (int)strlen(again) && strlen(small) == 3);
}

static void check_nodes(const char *text)
{
	struct hpi_nodes nodes, again;
	enum hugepin_policy policy;
	char list[8192];
	bool local;

	if (!hpi_nodes_parse(text, &nodes)) {
		PROPERTY(hpi_nodes_count(&nodes) > 0);
		PROPERTY(hpi_nodes_format(&nodes, list, sizeof(list)) == (int)strlen(list));
		PROPERTY(!hpi_nodes_parse(list, &again) && !memcmp(&nodes, &again, sizeof(nodes)));
	}
	if (!hpi_policy_split(text, &policy, &nodes, &local))
		PROPERTY(local == !hpi_nodes_count(&nodes) && (!local || policy == HUGEPIN_NODES_PREFERRED));
}

/* "kmod:1G+2M"; what is of neither class is named without one, and so is thp, which has no other than 2M. */
static int write_rung(const struct hpi_rung *rung, char *out, size_t size)
{
	const char *name = rung->provider->name;

	if (!(rung->classes & (HUGEPIN_CLASSES_1G | HUGEPIN_CLASSES_2M)) || !strcmp(name, "thp"))
		return snprintf(out, size, "%s", name);
	return snprintf(out, size, "%s:%s%s%s", name, rung->classes & HUGEPIN_CLASSES_1G ? "1G" : "",
			rung->classes == (HUGEPIN_CLASSES_1G | HUGEPIN_CLASSES_2M) ? "+" : "",
			rung->classes & HUGEPIN_CLASSES_2M ? "2M" : "");
}

static void check_ladder(const char *text)
{
	struct hpi_ladder ladder, again;
	char written[256] = "";
	size_t i, used = 0;

	if (hpi_ladder_parse(text, &ladder))
		return;
	PROPERTY(ladder.count > 0 && ladder.count <= HPI_LADDER_MAX);
	for (i = 0; i < ladder.count; i++) {
		const struct hpi_rung *rung = &ladder.rungs[i];

		PROPERTY(rung->classes && !(rung->classes & ~rung->provider->classes));
		if (i)
			written[used++] = ',';
		used += (size_t)write_rung(rung, written + used, sizeof(written) - used);
	}
	PROPERTY(used < sizeof(written) && !strcmp(written, text) && !hpi_ladder_parse(written, &again));
}

/* Every option either takes the value as it is written, or keeps the one it had. */
static void check_options(const char *text)
{
	struct hugepin_option_info info = { .size = sizeof(info) };
	struct hugepin_options *options;
	uint64_t bytes;
	size_t i;

	PROPERTY(!hugepin_options_create(&options));
	for (i = 0; !hugepin_options_at(options, i, &info); i++) {
		int err = hugepin_options_set(options, info.name, text);

		PROPERTY(!err || err == -EINVAL);
		PROPERTY(!hugepin_options_at(options, i, &info));
		PROPERTY(!strcmp(info.value, err ? info.default_value : text));
		if (!strcmp(info.unit, "MB") || !strcmp(info.unit, "GB"))
			hpi_options_scaled(options, (enum hpi_option_id)i, &bytes);
	}
	hugepin_options_destroy(options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);

	check_numbers(text);
	check_bytes(text);
	check_nodes(text);
	check_ladder(text);
	check_options(text);
	free(text);
	return 0;
}

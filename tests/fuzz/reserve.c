// SPDX-License-Identifier: GPL-2.0
/* The module's parameter reserve=, by its own parser, on a machine of three nodes of which one is small. */
#include "../../kmod/hugepin.h"
#include "fuzz.h"

#define NODES		4

static const u64 present[NODES] = { 16ull << 18, 16ull << 18, 0, 96 << 8 };	/* 16 GiB, 16 GiB, none, 96 MiB */
static struct hugepin_node nodes[NODES];
static u64 held[NODES][HUGEPIN_CLASS_COUNT];
static unsigned int resized[NODES][HUGEPIN_CLASS_COUNT];

nodemask_t hugepin_nodes_online = { 1 << 0 | 1 << 1 | 1 << 3 };
unsigned int hugepin_absent[HUGEPIN_CLASS_COUNT];

struct hugepin_node *hugepin_node(int id)
{
	return id < NODES && node_isset(id, hugepin_nodes_online) ? &nodes[id] : NULL;
}

unsigned long long node_present_pages(int node)
{
	PROPERTY(hugepin_node(node));
	return present[node];
}

/* An eighth of a node is left to the kernel. */
u64 hugepin_node_max_pages(int node, unsigned int class)
{
	PROPERTY(hugepin_node(node) && class < HUGEPIN_CLASS_COUNT);
	return (present[node] - present[node] / 8) >> hugepin_class_order(class);
}

int hugepin_reserve_resize(struct hugepin_reserve *reserve, u64 pages)
{
	PROPERTY(pages <= hugepin_node_max_pages(reserve->node, reserve->class));
	held[reserve->node][reserve->class] = pages;
	resized[reserve->node][reserve->class]++;
	return pages % 3 ? 0 : -ENOMEM;
}

u64 hugepin_reserve_total(struct hugepin_reserve *reserve)
{
	return held[reserve->node][reserve->class];
}

/* What is applied fits into every node, all classes together, and is applied once. */
static void check_applied(const struct hugepin_spec *specs, unsigned int count)
{
	int node;

	memset(held, 0, sizeof(held));
	memset(resized, 0, sizeof(resized));
	hugepin_spec_apply(specs, count);
	for (node = 0; node < NODES; node++) {
		PROPERTY(resized[node][HUGEPIN_CLASS_2M] <= 1 && resized[node][HUGEPIN_CLASS_1G] <= 1);
		u64 pages = (held[node][HUGEPIN_CLASS_2M] << HUGEPIN_ORDER_2M) +
			    (held[node][HUGEPIN_CLASS_1G] << HUGEPIN_ORDER_1G);

		PROPERTY(pages <= present[node] - present[node] / 8);
	}
}

/* An entry a node: "*" in the text is here the nodes that no later entry names. */
static char *write_specs(const struct hugepin_spec *specs, unsigned int count)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	unsigned int i;
	int node;

	PROPERTY(out);
	for (i = 0; i < count; i++) {
		for_each_node_mask(node, specs[i].nodes)
			fprintf(out, "%s%d:%s:%llu%s", ftell(out) ? "," : "", node, hugepin_class_name(specs[i].class),
				specs[i].count, specs[i].percent ? "%" : "");
	}
	PROPERTY(!fclose(out));
	return text;
}

static void check_specs(const struct hugepin_spec *specs, unsigned int count)
{
	struct hugepin_spec again[HUGEPIN_SPEC_MAX];
	u64 pages[NODES][HUGEPIN_CLASS_COUNT];
	unsigned int i, count_again;
	char *text;

	PROPERTY(count > 0 && count <= HUGEPIN_SPEC_MAX);
	for (i = 0; i < count; i++) {
		PROPERTY(specs[i].class < HUGEPIN_CLASS_COUNT && !hugepin_absent[specs[i].class]);
		PROPERTY(!(specs[i].nodes.bits & ~hugepin_nodes_online.bits));
		PROPERTY(!specs[i].percent || specs[i].count <= 100);
	}
	check_applied(specs, count);
	memcpy(pages, held, sizeof(pages));
	text = write_specs(specs, count);
	PROPERTY(!hugepin_spec_parse(text, again, &count_again));
	check_applied(again, count_again);
	PROPERTY(!memcmp(pages, held, sizeof(pages)));
	free(text);
}

/* The first byte says whether this machine has 1G pages. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hugepin_spec specs[HUGEPIN_SPEC_MAX];
	unsigned int count, class;
	char *text;
	int id;

	if (!size)
		return 0;
	for (id = 0; id < NODES; id++) {
		for (class = 0; class < HUGEPIN_CLASS_COUNT; class++) {
			nodes[id].reserve[class].node = id;
			nodes[id].reserve[class].class = class;
		}
	}
	hugepin_absent[HUGEPIN_CLASS_1G] = data[0] == '-';
	text = fuzz_text(data + 1, size - 1);
	if (!hugepin_spec_parse(text, specs, &count))
		check_specs(specs, count);
	free(text);
	return 0;
}

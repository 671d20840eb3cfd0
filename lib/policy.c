// SPDX-License-Identifier: MIT
/*
 * Node policy: which nodes a request may use, checked against the machine, and carried over to the kernel for memory
 * that the kernel itself places (the module is told the nodes instead).
 */
#include <errno.h>
#include <numaif.h>
#include <string.h>

#include "internal.h"

static bool is_usable(const struct hpi_node *node)
{
	return node && node->has_memory && node->allowed;
}

int hpi_policy_check_nodes(const struct hpi_nodes *nodes, const struct hpi_topology *topology)
{
	const struct hpi_node *node;
	unsigned int id;

	for (id = 0; id < HPI_NODES_MAX; id++) {
		if (!hpi_nodes_has(nodes, id))
			continue;
		node = hpi_topology_node(topology, id);
		if (is_usable(node))
			continue;
		return hpi_error(-ENODEV, "node %u %s", id, !node ? "does not exist on this machine" :
				 !node->has_memory ? "has no memory" : "is not allowed to this process by its cpuset");
	}
	return 0;
}

int hpi_policy_parse(const char *text, const struct hpi_topology *topology, struct hpi_policy *out)
{
	struct hpi_policy policy;
	bool local;
	int err;

	err = hpi_policy_split(text, &policy.policy, &policy.nodes, &local);
	if (err)
		return err;
	err = hpi_policy_check_nodes(&policy.nodes, topology);
	if (err)
		return hpi_error_add(err, ": node policy \"%.200s\"", text);
	*out = policy;
	return 0;
}

static bool is_local(const struct hpi_policy *policy)
{
	return !hpi_nodes_count(&policy->nodes);
}

void hpi_policy_nodes(const struct hpi_policy *policy, const struct hpi_topology *topology, struct hpi_nodes *out)
{
	int here, best = -1;

	*out = policy->nodes;
	if (!is_local(policy))
		return;
	here = hpi_topology_local_node();
	if (here >= 0)
		best = hpi_topology_nearest(topology, (unsigned int)here);
	if (best >= 0)
		hpi_nodes_set(out, (unsigned int)best);
	else
		hpi_topology_default_nodes(topology, out);
}

static int bind(void *addr, uint64_t bytes, int mode, const struct hpi_nodes *nodes)
{
	/* The kernel takes one off the number of bits. */
	int err = hpi_sys_fault ? -hpi_sys_fault("mbind") : 0;

	if (!err && mbind(addr, bytes, mode, (const unsigned long *)nodes->bits, HPI_NODES_MAX + 1, 0))
		err = -errno;
	return err;
}

static int bind_preferred(void *addr, uint64_t bytes, const struct hpi_nodes *nodes)
{
	struct hpi_nodes first = { { 0 } };
	unsigned int id = 0;
	int err = bind(addr, bytes, MPOL_PREFERRED_MANY, nodes);

	if (err != -EINVAL)
		return err;
	/* A kernel before 5.15 knows one preferred node. */
	while (id < HPI_NODES_MAX - 1 && !hpi_nodes_has(nodes, id))
		id++;
	hpi_nodes_set(&first, id);
	return bind(addr, bytes, MPOL_PREFERRED, &first);
}

/* Every node this process can get memory from is in the set: there is nothing to bind. */
static bool covers_all(const struct hpi_nodes *nodes, const struct hpi_topology *topology)
{
	size_t i;

	for (i = 0; i < topology->count; i++)
		if (is_usable(&topology->nodes[i]) && !hpi_nodes_has(nodes, topology->nodes[i].id))
			return false;
	return true;
}

/*
 * Where the thread has no policy of its own the kernel takes the nearest memory, that of nodes without CPUs included
 * once the others are full: those are only for who names them. Bound to the rest, the nearest is still taken first.
 */
static void keep_to_default_nodes(const struct hpi_topology *topology, void *addr, uint64_t bytes)
{
	struct hpi_nodes usable, defaults;
	int mode, err;

	hpi_topology_usable(topology, &usable);
	hpi_topology_default_nodes(topology, &defaults);
	if (!memcmp(&usable, &defaults, sizeof(usable)))
		return;
	err = hpi_sys_fault ? hpi_sys_fault("get_mempolicy") : 0;
	if (err || get_mempolicy(&mode, NULL, 0, NULL, 0) || mode != MPOL_DEFAULT)
		return;
	err = bind(addr, bytes, MPOL_BIND, &defaults);
	if (err)
		hpi_log(HUGEPIN_LOG_WARNING, "keeping %llu bytes to nodes that have CPUs: mbind: %s", (unsigned long long)bytes,
			strerror(-err));
}

int hpi_policy_apply(const struct hpi_policy *policy, const struct hpi_topology *topology, void *addr, uint64_t bytes)
{
	static const int modes[] = {
		[HUGEPIN_NODES_BIND] = MPOL_BIND,
		[HUGEPIN_NODES_INTERLEAVE] = MPOL_INTERLEAVE,
	};
	char list[128];
	int err;

	_Static_assert(sizeof(unsigned long) == sizeof(uint64_t), "a node set's words are the kernel's");
	if (is_local(policy)) {
		keep_to_default_nodes(topology, addr, bytes);
		return 0;
	}
	if (policy->policy == HUGEPIN_NODES_PREFERRED)
		err = bind_preferred(addr, bytes, &policy->nodes);
	else
		err = bind(addr, bytes, modes[policy->policy], &policy->nodes);
	if (!err)
		return 0;
	/* A kernel without NUMA, or a container whose seccomp filter takes mbind away: harmless with one node. */
	if ((err == -ENOSYS || err == -EPERM) &&
	    covers_all(&policy->nodes, topology) &&
	    (policy->policy != HUGEPIN_NODES_INTERLEAVE || hpi_nodes_count(&policy->nodes) == 1))
		return 0;
	hpi_nodes_name(&policy->nodes, list, sizeof(list));
	return hpi_error(err == -EPERM || err == -ENOSYS ? -EOPNOTSUPP : err,
			 "binding %llu bytes to %s: mbind: %s%s", (unsigned long long)bytes, list, strerror(-err),
			 err == -EPERM ? " (does the container's seccomp profile allow mbind?)" : "");
}

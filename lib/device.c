// SPDX-License-Identifier: MIT
/*
 * Devices as pools see them: numbered by visible_device_list, with the node next to each, and work on their memory.
 *
 * Outside this library a device is a number in that list; in it, the runtime's own number.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* ---- which device ---- */

/* The entry at a position of the list, as options have checked it; -ENOENT beyond its end. */
static int list_entry(const char *list, int position, int *out)
{
	char text[16];
	size_t length;
	int64_t id;

	for (; position && *list; position--)
		list += strcspn(list, ",") + (list[strcspn(list, ",")] == ',');
	length = strcspn(list, ",");
	if (!length || length >= sizeof(text))
		return -ENOENT;
	memcpy(text, list, length);
	text[length] = '\0';
	if (hpi_size_parse_int(text, &id) || id < 0 || id > INT32_MAX)
		return -ENOENT;
	*out = (int)id;
	return 0;
}

int hpi_device_find(struct hugepin_context *ctx, int number, int *out)
{
	const char *list = hpi_options_string(ctx->options, HPI_OPT_TF_VISIBLE_DEVICES);
	const struct hpi_runtime *runtime = ctx->runtime;
	int count, code, err, device = number;

	if (number < 0)
		return hpi_error(-EINVAL, "%d is no number of a device", number);
	err = runtime->device_count(&count, &code);
	if (err)
		return err;
	if (*list && list_entry(list, number, &device))
		return hpi_error(-ENODEV, "device %d: visible_device_list \"%.300s\", set by %s, does not have as many",
				 number, list, hpi_options_source(ctx->options, HPI_OPT_TF_VISIBLE_DEVICES));
	if (device >= count)
		return hpi_error(-ENODEV, "device %d: runtime %s has %d devices%s%s", device, runtime->name, count,
				 *list ? ", visible_device_list is " : "", list);
	*out = device;
	return 0;
}

/* ---- inside a scope on a device ---- */

struct scope {
	struct hpi_runtime_scope scope;
	struct hpi_runtime_thread thread;
};

static int scope_enter(struct hugepin_context *ctx, int device, struct scope *scope)
{
	const struct hpi_runtime *runtime = ctx->runtime;
	int code, err;

	if (!runtime->begin_on)
		return hpi_error(-EOPNOTSUPP, "runtime %s has no devices", runtime->name);
	err = runtime->begin_on(&scope->scope, device, &code);
	if (err)
		return err;
	err = runtime->enter(&scope->scope, &scope->thread, &code);
	if (err)
		runtime->end(&scope->scope);
	return err;
}

static void scope_leave(struct hugepin_context *ctx, struct scope *scope)
{
	ctx->runtime->leave(&scope->thread);
	ctx->runtime->end(&scope->scope);
}

static int read_device(struct hugepin_context *ctx, int device, struct hpi_device *out)
{
	struct scope scope;
	int code, err = scope_enter(ctx, device, &scope);

	if (err)
		return err;
	err = ctx->runtime->device_read(device, out, &code);
	scope_leave(ctx, &scope);
	return err;
}

int hpi_device_memory(struct hugepin_context *ctx, int device, uint64_t *total, uint64_t *available)
{
	struct hpi_device found;
	int err = read_device(ctx, device, &found);

	if (err)
		return err;
	*total = found.total_bytes;
	*available = found.free_bytes == UINT64_MAX ? found.total_bytes : found.free_bytes;
	return 0;
}

static int no_memory_of(struct hugepin_context *ctx)
{
	return hpi_error(-EOPNOTSUPP, "runtime %s gives no memory of devices", ctx->runtime->name);
}

int hpi_device_reserve(struct hugepin_context *ctx, int device, uint64_t bytes, void **out)
{
	const struct hpi_runtime *runtime = ctx->runtime;
	struct scope scope;
	uint64_t granule;
	int code, err;

	if (!runtime->memory_reserve)
		return no_memory_of(ctx);
	err = scope_enter(ctx, device, &scope);
	if (err)
		return err;
	err = runtime->memory_granule(device, &granule, &code);
	if (!err && HPI_2M % granule)
		err = hpi_error(-EOPNOTSUPP, "device %d gives memory by %llu bytes, of which 2M is no multiple",
				device, (unsigned long long)granule);
	if (!err)
		err = runtime->memory_reserve(bytes, out, &code);
	scope_leave(ctx, &scope);
	return err;
}

/* A context that is gone, or a driver at exit, has released it already. */
int hpi_device_release(struct hugepin_context *ctx, int device, void *addr, uint64_t bytes)
{
	struct scope scope;
	int code, err = scope_enter(ctx, device, &scope);

	if (err)
		return err == -ESHUTDOWN ? 0 : err;
	err = ctx->runtime->memory_release(addr, bytes, &code);
	scope_leave(ctx, &scope);
	return err;
}

int hpi_device_map(struct hugepin_context *ctx, int device, void *addr, uint64_t bytes, enum hugepin_class page_class)
{
	struct scope scope;
	int code, err = scope_enter(ctx, device, &scope);

	if (err)
		return err;
	err = ctx->runtime->memory_map(device, addr, bytes, page_class, &code);
	scope_leave(ctx, &scope);
	return err;
}

int hpi_device_unmap(struct hugepin_context *ctx, int device, void *addr, uint64_t bytes)
{
	struct scope scope;
	int code, err = scope_enter(ctx, device, &scope);

	if (err)
		return err == -ESHUTDOWN ? 0 : err;
	err = ctx->runtime->memory_unmap(addr, bytes, &code);
	scope_leave(ctx, &scope);
	return err;
}

int hpi_device_set(struct hugepin_context *ctx, int device, void *addr, unsigned char value, uint64_t bytes)
{
	struct scope scope;
	int code, err = scope_enter(ctx, device, &scope);

	if (err)
		return err;
	err = ctx->runtime->memory_set(addr, value, bytes, &code);
	scope_leave(ctx, &scope);
	return err;
}

int hpi_device_copy(struct hugepin_context *ctx, int device, void *to, const void *from, uint64_t bytes)
{
	struct scope scope;
	int code, err = scope_enter(ctx, device, &scope);

	if (err)
		return err;
	err = ctx->runtime->memory_copy(to, from, bytes, &code);
	scope_leave(ctx, &scope);
	return err;
}

/* ---- the node next to a device ---- */

int hpi_device_node(const char *root, const char *pci_address)
{
	char path[160], text[16];
	int64_t node;

	if (!*pci_address)
		return -1;
	snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/numa_node", root, pci_address);
	if (hpi_sys_read_file(path, text, sizeof(text)) || hpi_size_parse_int(text, &node))
		return -1;
	return node < 0 || node >= HPI_NODES_MAX ? -1 : (int)node;
}

int hpi_device_policy(struct hugepin_context *ctx, int number, struct hpi_policy *out)
{
	struct hpi_device found;
	int device, node, err;

	err = hpi_device_find(ctx, number, &device);
	if (!err)
		err = read_device(ctx, device, &found);
	if (err)
		return hpi_error_add(err, ", for a node policy next to device %d", number);
	node = hpi_device_node("", found.pci_address);
	*out = (struct hpi_policy){ .policy = HUGEPIN_NODES_PREFERRED };
	if (node >= 0)
		node = hpi_topology_nearest(&ctx->topology, (unsigned int)node);
	if (node >= 0)
		hpi_nodes_set(&out->nodes, (unsigned int)node);
	else
		hpi_log(HUGEPIN_LOG_WARNING, "device %d at \"%s\": its node is not told; memory is placed locally",
			number, found.pci_address);
	return 0;
}

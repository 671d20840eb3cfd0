// SPDX-License-Identifier: MIT
/*
 * Provider runtime: host memory that the accelerator's runtime allocates and pins itself, for machines on which it
 * cannot register any (NPUs before the series A2, kernels up to 5.10). It lies where the runtime puts it, outside its
 * pool's window: a segment of it never becomes larger, and has neighbours by accident only.
 */
#include <errno.h>
#include <unistd.h>

#include "internal.h"

struct scope {
	const struct hpi_runtime *runtime;
	struct hpi_runtime_scope scope;
	struct hpi_runtime_thread thread;
};

static int scope_enter(struct hugepin_context *ctx, struct scope *scope)
{
	int code, err;

	scope->runtime = ctx->runtime;
	err = scope->runtime->begin(&scope->scope, &code);
	if (err)
		return err;
	err = scope->runtime->enter(&scope->scope, &scope->thread, &code);
	if (err)
		scope->runtime->end(&scope->scope);
	return err;
}

static void scope_leave(struct scope *scope)
{
	scope->runtime->leave(&scope->thread);
	scope->runtime->end(&scope->scope);
}

/* A page more, that nobody uses: two segments must not touch, or a block might lie across them. */
static uint64_t with_guard(uint64_t bytes)
{
	return bytes + (uint64_t)sysconf(_SC_PAGESIZE);
}

static int map(struct hugepin_context *ctx, const struct hpi_request *request, struct hpi_mapping *out)
{
	struct scope scope;
	void *addr = NULL;
	int code, err;

	if (!ctx->runtime->host_alloc)
		return hpi_error(-EOPNOTSUPP, "runtime: %s allocates no host memory for others", ctx->runtime->name);
	if (request->addr)
		return hpi_error(-EOPNOTSUPP, "runtime: %s puts host memory where it likes", ctx->runtime->name);
	err = hpi_room_check("", &ctx->topology, NULL, "runtime", request->bytes);
	if (!err)
		err = scope_enter(ctx, &scope);
	if (err)
		return err;
	err = ctx->runtime->host_alloc(with_guard(request->bytes), &addr, &code);
	scope_leave(&scope);
	if (err)
		return hpi_error_add(err, ": %llu bytes", (unsigned long long)request->bytes);
	*out = (struct hpi_mapping){
		.addr = addr,
		.bytes = request->bytes,
		.provider = HUGEPIN_PROVIDER_RUNTIME,
		.node = -1,
		.fd = -1,
	};
	return 0;
}

/* Of a runtime that is shutting down nothing is left to give back. */
static int unmap(struct hugepin_context *ctx, struct hpi_mapping *mapping, bool reserve)
{
	struct scope scope;
	int code, err = scope_enter(ctx, &scope);

	(void)reserve;				/* it was not in a reservation */
	if (err)
		return err == -ESHUTDOWN ? 0 : err;
	err = ctx->runtime->host_free(mapping->addr, &code);
	scope_leave(&scope);
	return err;
}

const struct hpi_provider hpi_provider_runtime = {
	.name = "runtime",
	.id = HUGEPIN_PROVIDER_RUNTIME,
	.classes = 1u << HUGEPIN_PAGES_BASE,
	.places_itself = true,
	.map = map,
	.unmap = unmap,
};

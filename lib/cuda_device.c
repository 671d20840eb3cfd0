// SPDX-License-Identifier: MIT
/*
 * Runtime cuda: the devices and their memory, by the driver's virtual memory management.
 *
 * Pages are created, mapped and then known by their address alone: the handle is given back at once, the mapping keeps
 * the pages. The driver's pages of this kind are 2 MiB; it has no others to choose.
 */
#include <errno.h>

#include "cuda.h"

static int failed(CUresult code, const char *what)
{
	int err = code == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : code == CUDA_ERROR_NOT_SUPPORTED ? -EOPNOTSUPP : -EIO;

	return hpi_error(err, "CUDA: %s: %s (%d)", what, hpi_cuda_name(code), code);
}

/* ---- devices ---- */

int hpi_cuda_device_count(int *count, int *code)
{
	*code = hpi_cu.device_count(count);
	return *code ? failed(*code, "counting devices") : 0;
}

/* The driver tells it in a context only, and none is made for this. */
static uint64_t free_bytes(CUdevice device)
{
	uint64_t bytes = UINT64_MAX;
	CUcontext ctx, current;
	size_t free, total;
	unsigned int flags;
	int active;

	if (hpi_cu.primary_state(device, &flags, &active) || !active || hpi_cu.primary_retain(&ctx, device))
		return bytes;
	if (!hpi_cu.ctx_push(ctx)) {
		if (!hpi_cu.mem_info(&free, &total))
			bytes = free;
		hpi_cu.ctx_pop(&current);
	}
	hpi_cu.primary_release(device);
	return bytes;
}

/* As sysfs writes it. */
static void lower_case(char *text)
{
	for (; *text; text++)
		if (*text >= 'A' && *text <= 'F')
			*text += 'a' - 'A';
}

int hpi_cuda_device_read(int id, struct hpi_device *out, int *code)
{
	struct hpi_device found = { .id = id };
	CUdevice device;
	size_t total;

	*code = hpi_cu.device_get(&device, id);
	if (*code == CUDA_ERROR_INVALID_DEVICE)
		return hpi_error(-ENODEV, "CUDA: there is no device %d", id);
	if (!*code)
		*code = hpi_cu.device_total(&total, device);
	if (!*code)
		*code = hpi_cu.device_pci(found.pci_address, (int)sizeof(found.pci_address), device);
	if (*code)
		return failed(*code, "reading a device");
	lower_case(found.pci_address);
	found.total_bytes = total;
	found.free_bytes = free_bytes(device);
	*out = found;
	return 0;
}

/* ---- address space and pages ---- */

static CUmemAllocationProp memory_of(CUdevice device)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device },
	};
}

/* Ordinals and handles of devices are the same numbers in the driver API, but only cuDeviceGet() says so. */
static int find_device(int id, CUdevice *device, int *code)
{
	*code = hpi_cu.device_get(device, id);
	return *code ? failed(*code, "finding a device") : 0;
}

int hpi_cuda_memory_granule(int id, uint64_t *bytes, int *code)
{
	CUmemAllocationProp prop;
	CUdevice device;
	size_t granule;
	int err = find_device(id, &device, code);

	if (err)
		return err;
	prop = memory_of(device);
	*code = hpi_cu.mem_granularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
	if (*code)
		return failed(*code, "the granularity of device memory");
	*bytes = granule;
	return 0;
}

int hpi_cuda_memory_reserve(uint64_t bytes, void **out, int *code)
{
	CUdeviceptr addr;

	*code = hpi_cu.mem_reserve(&addr, bytes, 0, 0, 0);
	if (*code)
		return failed(*code, "reserving address space");
	*out = (void *)(uintptr_t)addr;
	return 0;
}

int hpi_cuda_memory_release(void *addr, uint64_t bytes, int *code)
{
	*code = hpi_cu.mem_address_free((uintptr_t)addr, bytes);
	return *code && *code != CUDA_ERROR_DEINITIALIZED ? failed(*code, "releasing address space") : 0;
}

static CUresult map_pages(CUdevice device, CUdeviceptr addr, uint64_t bytes)
{
	CUmemAllocationProp prop = memory_of(device);
	CUmemAccessDesc access = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	CUresult code = hpi_cu.mem_create(&handle, bytes, &prop, 0);

	if (code)
		return code;
	code = hpi_cu.mem_map(addr, bytes, 0, handle, 0);
	hpi_cu.mem_release(handle);
	if (code)
		return code;
	code = hpi_cu.mem_access(addr, bytes, &access, 1);
	if (code)
		hpi_cu.mem_unmap(addr, bytes);
	return code;
}

int hpi_cuda_memory_map(int id, void *addr, uint64_t bytes, enum hugepin_class page_class, int *code)
{
	CUdevice device;
	int err;

	*code = 0;
	if (page_class == HUGEPIN_PAGES_1G)
		return hpi_error(-EOPNOTSUPP, "CUDA: device memory has no 1G pages to ask for");
	err = find_device(id, &device, code);
	if (err)
		return err;
	*code = map_pages(device, (uintptr_t)addr, bytes);
	if (*code)
		return hpi_error_add(failed(*code, "mapping device memory"), ": %llu bytes on device %d",
				     (unsigned long long)bytes, id);
	return 0;
}

int hpi_cuda_memory_unmap(void *addr, uint64_t bytes, int *code)
{
	*code = hpi_cu.mem_unmap((uintptr_t)addr, bytes);
	return *code && *code != CUDA_ERROR_DEINITIALIZED ? failed(*code, "unmapping device memory") : 0;
}

/* ---- work of our own ---- */

/*
 * In a stream of its own that waits for no other: the legacy stream would wait for the program's, and cannot be used
 * while one of them is captured.
 */
static int in_own_stream(CUresult (*give)(CUstream stream, const void *arg), const void *arg, const char *what,
			 int *code)
{
	CUresult end;
	CUstream stream;

	*code = hpi_cu.stream_create(&stream, CU_STREAM_NON_BLOCKING);
	if (*code)
		return failed(*code, what);
	*code = give(stream, arg);
	end = hpi_cu.stream_synchronize(stream);
	if (!*code)
		*code = end;
	hpi_cu.stream_destroy(stream);
	return *code ? failed(*code, what) : 0;
}

struct span {
	CUdeviceptr to, from;
	unsigned char value;
	uint64_t bytes;
};

static CUresult give_set(CUstream stream, const void *arg)
{
	const struct span *span = arg;

	return hpi_cu.memset_async(span->to, span->value, span->bytes, stream);
}

static CUresult give_copy(CUstream stream, const void *arg)
{
	const struct span *span = arg;

	return hpi_cu.copy_async(span->to, span->from, span->bytes, stream);
}

int hpi_cuda_memory_set(void *addr, unsigned char value, uint64_t bytes, int *code)
{
	struct span span = { .to = (uintptr_t)addr, .value = value, .bytes = bytes };

	return in_own_stream(give_set, &span, "setting device memory", code);
}

int hpi_cuda_memory_copy(void *to, const void *from, uint64_t bytes, int *code)
{
	struct span span = { .to = (uintptr_t)to, .from = (uintptr_t)from, .bytes = bytes };

	return in_own_stream(give_copy, &span, "copying device memory", code);
}

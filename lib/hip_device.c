// SPDX-License-Identifier: MIT
/*
 * Runtime hip: devices and their memory, by HIP's virtual memory management.
 *
 * As runtime cuda, with two differences. A mapping is not known to keep pages whose handle was released, in every
 * release of ROCm: so the handle is kept until the range is unmapped. And hipMemAllocationProp had its members in
 * another order in ROCm 5.2, which the library's version tells from the others: that one is asked for no memory.
 *
 * Not run on hardware.
 */
#include <errno.h>
#include <stdlib.h>

#include "hip.h"

#define VERSION_LEAST	50300000	/* HIP 5.3, as major * 10^7 + minor * 10^5 + patch */

/* ---- devices ---- */

static hipError_t ask_count(void *count)
{
	return hpi_hip.device_count(count);
}

static hipError_t ask_device(void *arg)
{
	struct hpi_device *device = arg;
	size_t free_bytes, total;
	hipError_t code = hpi_hip.device_pci(device->pci_address, (int)sizeof(device->pci_address), device->id);

	if (!code)
		code = hpi_hip.mem_info(&free_bytes, &total);
	if (code)
		return code;
	device->free_bytes = free_bytes;
	device->total_bytes = total;
	return hipSuccess;
}

int hpi_hip_device_count(int *count, int *code)
{
	*code = hpi_hip_call(ask_count, count, HPI_HIP_ANY_DEVICE);
	return *code ? hpi_hip_failed(*code, "counting devices") : 0;
}

int hpi_hip_device_read(int id, struct hpi_device *out, int *code)
{
	struct hpi_device device = { .id = id };

	*code = hpi_hip_call(ask_device, &device, id);
	if (*code)
		return hpi_hip_failed(*code, "reading a device");
	*out = device;
	return 0;
}

/* ---- what is mapped ---- */

struct mapped {
	struct mapped *next;
	char *addr;
	uint64_t bytes;
	int device;
	hipMemGenericAllocationHandle_t handle;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapped *all_mapped;

/* Lock held. The link to what holds the byte at @addr, or to the NULL at the end. */
static struct mapped **find(const void *addr)
{
	struct mapped **link = &all_mapped;

	while (*link && ((const char *)addr < (*link)->addr || (const char *)addr >= (*link)->addr + (*link)->bytes))
		link = &(*link)->next;
	return link;
}

static void note(struct mapped *mapped)
{
	pthread_mutex_lock(&lock);
	mapped->next = all_mapped;
	all_mapped = mapped;
	pthread_mutex_unlock(&lock);
}

/* Exactly a range that was mapped; NULL: there is none. */
static struct mapped *take_note(const void *addr, uint64_t bytes)
{
	struct mapped **link, *mapped;

	pthread_mutex_lock(&lock);
	link = find(addr);
	mapped = *link;
	if (mapped && (mapped->addr != addr || mapped->bytes != bytes))
		mapped = NULL;
	if (mapped)
		*link = mapped->next;
	pthread_mutex_unlock(&lock);
	return mapped;
}

static int device_of(const void *addr)
{
	const struct mapped *mapped;
	int device;

	pthread_mutex_lock(&lock);
	mapped = *find(addr);
	device = mapped ? mapped->device : HPI_HIP_ANY_DEVICE;
	pthread_mutex_unlock(&lock);
	return device;
}

/* ---- address space ---- */

/* What is asked for here has been checked: an argument that the runtime refuses is no mistake of the caller's. */
static int failed(hipError_t code, const char *what)
{
	int err = hpi_hip_failed(code, what);

	return err == -EINVAL ? -EIO : err;
}

static hipMemAllocationProp memory_of(int device)
{
	return (hipMemAllocationProp){
		.type = hipMemAllocationTypePinned,
		.location = { .type = hipMemLocationTypeDevice, .id = device },
	};
}

struct space {
	void *addr;
	size_t bytes;
};

static hipError_t ask_granule(void *arg)
{
	struct mapped *of = arg;
	hipMemAllocationProp prop = memory_of(of->device);

	return hpi_hip.mem_granularity(&of->bytes, &prop, hipMemAllocationGranularityRecommended);
}

static hipError_t ask_version(void *version)
{
	return hpi_hip.runtime_version(version);
}

/* 0, or -EOPNOTSUPP. */
static int check_release(int *code)
{
	int version = 0;

	*code = hpi_hip_call(ask_version, &version, HPI_HIP_ANY_DEVICE);
	if (*code)
		return failed(*code, "asking for the release");
	if (version < VERSION_LEAST || !hpi_hip.mem_granularity || !hpi_hip.mem_reserve || !hpi_hip.mem_address_free ||
	    !hpi_hip.mem_create || !hpi_hip.mem_release || !hpi_hip.mem_map || !hpi_hip.mem_unmap || !hpi_hip.mem_access)
		return hpi_error(-EOPNOTSUPP, "HIP %d.%d gives no memory to be mapped: that takes ROCm 5.3", version / 10000000,
				 version / 100000 % 100);
	return 0;
}

int hpi_hip_memory_granule(int device, uint64_t *bytes, int *code)
{
	struct mapped of = { .device = device };
	int err = check_release(code);

	if (err)
		return err;
	*code = hpi_hip_call(ask_granule, &of, device);
	if (*code)
		return failed(*code, "the granularity of device memory");
	*bytes = of.bytes;
	return 0;
}

static hipError_t give_reserve(void *arg)
{
	struct space *space = arg;

	return hpi_hip.mem_reserve(&space->addr, space->bytes, 0, NULL, 0);
}

static hipError_t give_release(void *arg)
{
	struct space *space = arg;

	return hpi_hip.mem_address_free(space->addr, space->bytes);
}

int hpi_hip_memory_reserve(uint64_t bytes, void **out, int *code)
{
	struct space space = { .bytes = bytes };

	*code = hpi_hip_call(give_reserve, &space, HPI_HIP_ANY_DEVICE);
	if (*code)
		return failed(*code, "reserving address space");
	*out = space.addr;
	return 0;
}

int hpi_hip_memory_release(void *addr, uint64_t bytes, int *code)
{
	struct space space = { .addr = addr, .bytes = bytes };

	*code = hpi_hip_call(give_release, &space, HPI_HIP_ANY_DEVICE);
	return *code && *code != hipErrorDeinitialized ? failed(*code, "releasing address space") : 0;
}

/* ---- pages ---- */

static hipError_t give_map(void *arg)
{
	struct mapped *mapped = arg;
	hipMemAllocationProp prop = memory_of(mapped->device);
	hipMemAccessDesc access = { .location = prop.location, .flags = hipMemAccessFlagsProtReadWrite };
	hipError_t code = hpi_hip.mem_create(&mapped->handle, mapped->bytes, &prop, 0);

	if (code)
		return code;
	code = hpi_hip.mem_map(mapped->addr, mapped->bytes, 0, mapped->handle, 0);
	if (code)
		goto release;
	code = hpi_hip.mem_access(mapped->addr, mapped->bytes, &access, 1);
	if (!code)
		return hipSuccess;
	hpi_hip.mem_unmap(mapped->addr, mapped->bytes);
release:
	hpi_hip.mem_release(mapped->handle);
	return code;
}

int hpi_hip_memory_map(int device, void *addr, uint64_t bytes, enum hugepin_class page_class, int *code)
{
	struct mapped *mapped;

	*code = 0;
	if (page_class == HUGEPIN_PAGES_1G)
		return hpi_error(-EOPNOTSUPP, "HIP: device memory has no 1G pages to ask for");
	mapped = hpi_sys_fault && hpi_sys_fault("malloc") ? NULL : malloc(sizeof(*mapped));
	if (!mapped)
		return hpi_error(-ENOMEM, "no memory to note a mapping of device memory");
	*mapped = (struct mapped){ .addr = addr, .bytes = bytes, .device = device };
	*code = hpi_hip_call(give_map, mapped, device);
	if (*code) {
		free(mapped);
		return hpi_error_add(failed(*code, "mapping device memory"), ": %llu bytes on device %d",
				     (unsigned long long)bytes, device);
	}
	note(mapped);
	return 0;
}

static hipError_t give_unmap(void *arg)
{
	const struct mapped *mapped = arg;

	return hpi_hip.mem_unmap(mapped->addr, mapped->bytes);
}

static hipError_t give_handle(void *arg)
{
	return hpi_hip.mem_release(((struct mapped *)arg)->handle);
}

/* Once it is unmapped nobody can get at it: a handle that the runtime does not take back leaks pages, and is told of. */
int hpi_hip_memory_unmap(void *addr, uint64_t bytes, int *code)
{
	struct mapped *mapped = take_note(addr, bytes);
	hipError_t end;

	*code = hipErrorInvalidValue;
	if (!mapped)
		return hpi_error(-EIO, "HIP: %llu bytes at %p were not mapped as one", (unsigned long long)bytes, addr);
	*code = hpi_hip_call(give_unmap, mapped, mapped->device);
	if (*code && *code != hipErrorDeinitialized) {
		note(mapped);
		return failed(*code, "unmapping device memory");
	}
	end = hpi_hip_call(give_handle, mapped, mapped->device);
	if (end && end != hipErrorDeinitialized)
		hpi_log(HUGEPIN_LOG_WARNING, "HIP: releasing %llu bytes of device memory: %s (%d)", (unsigned long long)bytes,
			hpi_hip.error_name(end), end);
	free(mapped);
	return 0;
}

/* ---- work of our own ---- */

struct work {
	void *to, *from;			/* from: NULL to set @value */
	unsigned char value;
	uint64_t bytes;
};

/* In a stream of its own that waits for no other, as runtime cuda. */
static hipError_t give_work(void *arg)
{
	const struct work *work = arg;
	hipStream_t stream;
	hipError_t code = hpi_hip.stream_create(&stream, hipStreamNonBlocking), end;

	if (code)
		return code;
	code = work->from ? hpi_hip.copy_async(work->to, work->from, work->bytes, stream) :
			    hpi_hip.memset_async(work->to, work->value, work->bytes, stream);
	end = hpi_hip.stream_synchronize(stream);
	hpi_hip.stream_destroy(stream);
	return code ? code : end;
}

int hpi_hip_memory_set(void *addr, unsigned char value, uint64_t bytes, int *code)
{
	struct work work = { .to = addr, .value = value, .bytes = bytes };

	*code = hpi_hip_call(give_work, &work, device_of(addr));
	return *code ? failed(*code, "setting device memory") : 0;
}

int hpi_hip_memory_copy(void *to, const void *from, uint64_t bytes, int *code)
{
	struct work work = { .to = to, .from = (void *)from, .bytes = bytes };

	*code = hpi_hip_call(give_work, &work, device_of(to));
	return *code ? failed(*code, "copying device memory") : 0;
}

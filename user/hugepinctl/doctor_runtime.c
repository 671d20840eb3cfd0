// SPDX-License-Identifier: MIT
/* doctor on accelerators: devices and the libraries that drive them, and the IOMMU between them and memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"

struct runtime {
	const char *name;
	const char *device;
	const char *libraries[3];	/* any of them will do */
	const char *folder;		/* where its own package puts them */
	const char *package;
};
static const struct runtime runtimes[] = {
	{ "cuda",
	  "/dev/nvidiactl",
	  { "libcuda.so.1" },
	  "/usr/local/cuda/compat",
	  "NVIDIA's driver with its user libraries" },
	{ "ascend",
	  "/dev/davinci_manager",
	  { "libascendcl.so" },
	  "/usr/local/Ascend/ascend-toolkit/latest/lib64",
	  "Ascend's CANN toolkit" },
	{ "hip",
	  "/dev/kfd",
	  { "libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6" },
	  "/opt/rocm/lib",
	  "ROCm's HIP runtime" },
};

static bool in_folder(const struct runtime *runtime, const char *folder, size_t length)
{
	for (size_t i = 0; i < sizeof(runtime->libraries) / sizeof(runtime->libraries[0]); i++)
		if (runtime->libraries[i] && host_exists("%.*s/%s", (int)length, folder, runtime->libraries[i]))
			return true;
	return false;
}

/* Nothing is loaded to look: a driver's constructor is no business of ours. */
static bool has_library(const struct runtime *runtime)
{
	static const char *const folders[] = {
		"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib/x86_64-linux-gnu", "/usr/local/lib",
	};
	const char *path = getenv("LD_LIBRARY_PATH");

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (in_folder(runtime, folders[i], strlen(folders[i])))
			return true;
	while (path && *path) {
		size_t length = strcspn(path, ":");

		if (length && in_folder(runtime, path, length))
			return true;
		path += length + (path[length] == ':');
	}
	return in_folder(runtime, runtime->folder, strlen(runtime->folder));
}

static unsigned int examine_runtime(struct doctor *doctor, const struct runtime *runtime)
{
	bool device = host_exists("%s", runtime->device), library = has_library(runtime);

	if (device && library) {
		found(doctor, HEALTH_OK, "runtime", "%s: device and library are there", runtime->name);
	} else if (device) {
		found(doctor, HEALTH_BAD, "runtime", "%s: %s is there, but no %s", runtime->name, runtime->device,
		      runtime->libraries[0]);
		advice(doctor, "install %s, or add its folder to LD_LIBRARY_PATH", runtime->package);
	} else if (library) {
		found(doctor, HEALTH_WARN, "runtime", "%s: a library is there, but no %s", runtime->name,
		      runtime->device);
		advice(doctor, "load the driver, or pass the device to the container");
	}
	return device || library;
}

/* Types of the default domains: "identity" lets transfers through, "DMA" and "DMA-FQ" translate them. */
static void examine_iommu(struct doctor *doctor)
{
	uint64_t *groups = NULL;
	size_t count = 0, translated = 0;

	if (host_numbered("/sys/kernel/iommu_groups", "", &groups, &count) || !count) {
		found(doctor, HEALTH_OK, "iommu", "off: devices reach memory directly");
		free(groups);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		char type[32];

		if (!host_read(type, sizeof(type), "/sys/kernel/iommu_groups/%llu/type", (unsigned long long)groups[i]))
			translated += !strncmp(type, "DMA", 3);
	}
	free(groups);
	found(doctor, translated ? HEALTH_WARN : HEALTH_OK, "iommu", "%zu groups, %zu of them translate", count,
	      translated);
	if (translated)
		advice(doctor,
		       "registering costs a table of the IOMMU, too; iommu=pt on the kernel's command line lets the "
		       "host's devices through");
}

/* As the library pins where there is no runtime: by the module if its device may be used, else by mlock(). */
static bool module_pins(const struct reserve_view *view)
{
	int fd = host_open(O_RDWR, "/dev/hugepin");
	struct stat st;
	bool device;

	if (fd < 0)
		return false;
	device = !fstat(fd, &st) && S_ISCHR(st.st_mode);
	close(fd);
	return device && view->there;
}

void examine_runtimes(struct doctor *doctor, const struct reserve_view *view)
{
	unsigned int known = 0;

	examine_iommu(doctor);
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
		known += examine_runtime(doctor, &runtimes[i]);
	if (!known)
		found(doctor, HEALTH_OK, "runtime", "no accelerator's: memory is %s",
		      module_pins(view) ? "pinned by the module" : "locked by mlock(), since the module cannot pin it");
}

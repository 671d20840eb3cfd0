// SPDX-License-Identifier: MIT
/*
 * doctor on the module: loaded, usable by this process, with which classes, a reserve, a mount; signed where it must
 * be.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <mntent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "doctor.h"

#define SYSFS		"/sys/class/misc/hugepin"
#define SECURE_BOOT	"/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

/* ---- loaded ---- */

static bool is_built(const char *release)
{
	static const char *const folders[] = { "updates/dkms", "updates", "extra" };
	static const char *const suffixes[] = { "", ".xz", ".zst", ".gz" };

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		for (size_t j = 0; j < sizeof(suffixes) / sizeof(suffixes[0]); j++)
			if (host_exists("/lib/modules/%s/%s/hugepin.ko%s", release, folders[i], suffixes[j]))
				return true;
	return false;
}

static bool examine_loaded(struct doctor *doctor, const struct reserve_view *view)
{
	struct utsname kernel;
	char version[32];
	int err = host_read(version, sizeof(version), SYSFS "/uapi_version");

	uname(&kernel);
	if (!err) {
		found(doctor, HEALTH_OK, "module", "loaded on %s, interface version %s, library %s", kernel.release,
		      version, hugepin_version());
		return true;
	}
	if (view->there) {
		found(doctor, HEALTH_WARN, "module",
		      "answers, but has no " SYSFS " here: its reserve cannot be changed");
		advice(doctor, "mount -t sysfs sysfs /sys");
		return true;
	}
	found(doctor, HEALTH_BAD, "module", "not loaded on %s", kernel.release);
	if (is_built(kernel.release))
		advice(doctor, "modprobe hugepin");
	else
		advice(doctor, "install hugepin-dkms and the headers of this kernel, then modprobe hugepin");
	return false;
}

/* ---- signatures ---- */

static bool secure_boot(void)
{
	unsigned char value[5] = { 0 };
	int fd = host_open(O_RDONLY, SECURE_BOOT);
	bool on;

	if (fd < 0)
		return false;
	on = read(fd, value, sizeof(value)) == (ssize_t)sizeof(value) && value[4] == 1;
	close(fd);
	return on;
}

/* "[none] integrity confidentiality": what stands in brackets is in force. */
static bool locked_down(void)
{
	char text[128];

	return !host_read(text, sizeof(text), "/sys/kernel/security/lockdown") && !strstr(text, "[none]");
}

static void examine_signature(struct doctor *doctor, bool loaded)
{
	char taint[32] = "", enforce[8] = "";
	bool unsigned_module, wanted;

	host_read(taint, sizeof(taint), "/sys/module/hugepin/taint");
	host_read(enforce, sizeof(enforce), "/sys/module/module/parameters/sig_enforce");
	unsigned_module = strchr(taint, 'E');
	wanted = secure_boot() || locked_down() || !strcmp(enforce, "Y");
	if (loaded)
		found(doctor, HEALTH_OK, "signature", "module %s, the kernel %s signatures",
		      unsigned_module ? "is not signed" : "is signed", wanted ? "enforces" : "does not enforce");
	else if (wanted)
		found(doctor, HEALTH_WARN, "signature", "the kernel takes signed modules only (%s)",
		      secure_boot() ? "Secure Boot" : "lockdown");
	else
		found(doctor, HEALTH_OK, "signature", "the kernel takes modules without a signature");
	if (!loaded && wanted)
		advice(doctor,
		       "sign hugepin.ko with your key; DKMS does, after 'mokutil --import /var/lib/dkms/mok.pub'");
}

/* ---- access ---- */

static const char *group_name(gid_t gid, char buffer[32])
{
	const struct group *group = getgrgid(gid);

	if (group)
		snprintf(buffer, 32, "%.31s", group->gr_name);
	else
		snprintf(buffer, 32, "%u", gid);
	return buffer;
}

static void examine_device(struct doctor *doctor)
{
	char group[32];
	struct stat st;
	int fd;

	fd = host_open(O_PATH, "/dev/hugepin");
	if (fd < 0) {
		found(doctor, HEALTH_WARN, "device", "/dev/hugepin: %s", strerror(-fd));
		advice(doctor, "in a container, pass the device or bind-mount a mount of hugepinfs");
		return;
	}
	if (fstat(fd, &st))
		st.st_gid = 0;
	close(fd);
	fd = host_open(O_RDWR, "/dev/hugepin");
	if (fd >= 0) {
		close(fd);
		found(doctor, HEALTH_OK, "device", "/dev/hugepin may be used, mode %04o, group %s", st.st_mode & 07777,
		      group_name(st.st_gid, group));
		return;
	}
	found(doctor, HEALTH_BAD, "device", "/dev/hugepin: %s; mode %04o, group %s", strerror(-fd), st.st_mode & 07777,
	      group_name(st.st_gid, group));
	if (st.st_gid && (st.st_mode & 0060) == 0060)
		advice(doctor, "join the group and log in again: usermod -aG %s USER", group);
	else
		advice(doctor,
		       "give a group the device by a udev rule: KERNEL==\"hugepin\", GROUP=\"hugepin\", MODE=\"0660\"");
}

static void examine_mount(struct doctor *doctor)
{
	FILE *mounts = host_open_text("/proc/self/mounts");
	const struct mntent *mount;
	unsigned int count = 0;

	while (mounts && (mount = getmntent(mounts))) {
		if (strcmp(mount->mnt_type, "hugepinfs"))
			continue;
		count++;
		found(doctor, HEALTH_OK, "mount", "hugepinfs on %s (%s)", mount->mnt_dir, mount->mnt_opts);
	}
	if (mounts)
		endmntent(mounts);
	if (count)
		return;
	found(doctor, HEALTH_WARN, "mount",
	      "hugepinfs is not mounted: regions cannot have names, tables do not outlive a job");
	advice(doctor, "mkdir -p /run/hugepin && mount -t hugepinfs none /run/hugepin");
}

void examine_module(struct doctor *doctor, const struct reserve_view *view)
{
	bool loaded = examine_loaded(doctor, view);

	examine_signature(doctor, loaded);
	if (view->library_fails)
		found(doctor, HEALTH_BAD, "library", "does not work here: %s", view->why.text);
	if (!loaded)
		return;
	examine_device(doctor);
	if (!view->there && !view->library_fails && view->err != -EACCES && view->err != -ENODEV)
		found(doctor, HEALTH_BAD, "module", "does not answer: %s", view->why.text);
	examine_mount(doctor);
}

/* ---- the reserve ---- */

static void examine_entry(struct doctor *doctor, const struct hugepin_reserve_info *info)
{
	const char *class = class_name(info->page_class);
	uint64_t percent = 100;

	if (pages_short(info)) {
		found(doctor, HEALTH_WARN, "reserve", "node %d: %s: asked %" PRIu64 ", got %" PRIu64, info->node, class,
		      info->asked_pages, pages_usable(info));
		advice(doctor, "hugepinctl explain %d", info->node);
	} else if (info->total_pages) {
		found(doctor, HEALTH_OK, "reserve", "node %d: %s: %" PRIu64 " page%s, %" PRIu64 " free", info->node,
		      class, info->total_pages, PLURAL(info->total_pages), pages_free(info));
	}
	if (info->poisoned_pages) {
		found(doctor, HEALTH_WARN, "reserve", "node %d: %s: %" PRIu64 " faulty page%s held back", info->node,
		      class, info->poisoned_pages, info->poisoned_pages == 1 ? " is" : "s are");
		advice(doctor, "look for memory errors of that node in the kernel log, have the module replaced");
	}
	if (host_read_number(&percent, SYSFS "/node%d/hugepages-%" PRIu64 "kB/user_limit_percent", info->node,
			     class_bytes(info->page_class) >> 10) || percent >= 100 || !info->total_pages)
		return;
	found(doctor, percent ? HEALTH_OK : HEALTH_WARN, "reserve", "node %d: %s: a user may hold %" PRIu64 " %% of it",
	      info->node, class, percent);
	if (!percent)
		advice(doctor, "nobody gets any, root included: raise user_limit_percent");
}

void examine_reserve(struct doctor *doctor, const struct reserve_view *view)
{
	uint64_t total = 0;

	if (!view->there)
		return;
	for (int c = CLASS_LAST; c >= CLASS_FIRST; c--) {
		const char *absent = view->snapshot.absent[c];

		if (!absent) {
			found(doctor, HEALTH_OK, "classes", "%s pages can be held", class_name((enum hugepin_class)c));
			continue;
		}
		found(doctor, HEALTH_WARN, "classes", "%s pages are absent: %s", class_name((enum hugepin_class)c),
		      absent);
		if (strstr(absent, "this kernel"))
			advice(doctor, "kernels from 6.12 on have them; on this one everything is made of 2M pages");
	}
	for (size_t i = 0; i < view->snapshot.count; i++) {
		total += view->snapshot.entries[i].total_pages;
		examine_entry(doctor, &view->snapshot.entries[i]);
	}
	if (total)
		return;
	found(doctor, HEALTH_WARN, "reserve", "nothing is reserved");
	advice(doctor,
	       "hugepinctl reserve NODE:CLASS:COUNT, best at boot; 'hugepinctl explain' tells how many 1G pages fit");
}

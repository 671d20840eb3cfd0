// SPDX-License-Identifier: GPL-2.0
/* The calls: structs in and out. What they do is elsewhere. */
#include <linux/cred.h>
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/fs_struct.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "hugepin.h"

/* The size each struct had in its first version; shorter is malformed. */
#define INFO_SIZE_0		48
#define CREATE_SIZE_0		72
#define REGION_INFO_SIZE_0	48
#define PIN_SIZE_0		48
#define EXPORT_SIZE_0		32
#define LIST_SIZE_0		48
#define USERS_SIZE_0		32

static_assert(sizeof(struct hugepin_info) == INFO_SIZE_0);
static_assert(sizeof(struct hugepin_create) == CREATE_SIZE_0);
static_assert(offsetofend(struct hugepin_region_info, created_ns) == REGION_INFO_SIZE_0);
static_assert(sizeof(struct hugepin_pin_range) == PIN_SIZE_0);
static_assert(sizeof(struct hugepin_export) == EXPORT_SIZE_0);
static_assert(sizeof(struct hugepin_list) == LIST_SIZE_0);
static_assert(sizeof(struct hugepin_users) == USERS_SIZE_0);

/* Every struct begins with its size as the caller knows it. */
static int copy_in(void *dst, size_t known, size_t least, void __user *user, u32 *size)
{
	if (get_user(*size, (u32 __user *)user))
		return -EFAULT;
	if (*size < least)
		return -EINVAL;
	if (*size > PAGE_SIZE)
		return -E2BIG;
	return copy_struct_from_user(dst, known, user, *size);
}

/* Never more than the caller has room for. */
static int copy_out(void __user *user, u32 size, const void *src, size_t known)
{
	return copy_to_user(user, src, min_t(size_t, size, known)) ? -EFAULT : 0;
}

/* ---- INFO ---- */

static int info_pages(u64 user, u32 room, u32 *count)
{
	struct hugepin_info_pages __user *out = u64_to_user_ptr(user);
	struct hugepin_info_pages pages;
	struct hugepin_node *node;
	int id, class;

	*count = 0;
	for_each_hugepin_node(node, id) {
		for (class = HUGEPIN_CLASS_COUNT - 1; class >= 0; class--) {
			if (hugepin_absent[class])
				continue;
			if (user && *count < room) {
				hugepin_reserve_snapshot(&node->reserve[class], &pages);
				if (copy_to_user(&out[*count], &pages, sizeof(pages)))
					return -EFAULT;
			}
			(*count)++;
		}
	}
	return 0;
}

static long ioctl_info(void __user *user)
{
	struct hugepin_info info;
	u32 size, count;
	int ret;

	ret = copy_in(&info, sizeof(info), INFO_SIZE_0, user, &size);
	if (ret)
		return ret;
	if (info.flags || info.pad)
		return -EINVAL;
	hugepin_quarantine_check();
	ret = info_pages(info.pages, info.nr_pages, &count);
	if (ret)
		return ret;
	info.version = HUGEPIN_UAPI_VERSION;
	info.features = HUGEPIN_FEATURE_PIN | HUGEPIN_FEATURE_DMABUF | HUGEPIN_FEATURE_LIST;
	memcpy(info.absent, hugepin_absent, sizeof(info.absent));
	info.regions = hugepin_region_count();
	info.nr_pages = count;
	return copy_out(user, size, &info, sizeof(info));
}

/* ---- CREATE ---- */

static int read_nodes(const struct hugepin_create *create, nodemask_t *nodes)
{
	unsigned int words = DIV_ROUND_UP(create->nodemask_bits, 64), word, bit;
	const u64 __user *user = u64_to_user_ptr(create->nodemask);
	u64 mask;

	if (!create->nodemask) {
		*nodes = hugepin_nodes_online;
		return create->nodemask_bits ? -EINVAL : 0;
	}
	if (!create->nodemask_bits || create->nodemask_bits > HUGEPIN_NODES_MAX)
		return -EINVAL;
	nodes_clear(*nodes);
	for (word = 0; word < words; word++) {
		if (get_user(mask, user + word))
			return -EFAULT;
		for (bit = 0; bit < 64; bit++) {
			unsigned int id = word * 64 + bit;

			if (!(mask >> bit & 1))
				continue;
			if (id >= create->nodemask_bits)
				return -EINVAL;
			if (!hugepin_node(id))
				return -ENODEV;
			node_set(id, *nodes);
		}
	}
	return nodes_empty(*nodes) ? -EINVAL : 0;
}

static char *read_name(u64 user)
{
	char *name = strndup_user(u64_to_user_ptr(user), HUGEPIN_NAME_MAX + 2);
	int err = 0;

	if (IS_ERR(name))	/* EINVAL from there means too long */
		return PTR_ERR(name) == -EINVAL ? ERR_PTR(-ENAMETOOLONG) : name;
	if (strlen(name) > HUGEPIN_NAME_MAX)
		err = -ENAMETOOLONG;
	else if (!*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
		err = -EINVAL;
	if (!err)
		return name;
	kfree(name);
	return ERR_PTR(err);
}

static int check_create(const struct hugepin_create *create)
{
	const u32 all = BIT(HUGEPIN_CLASS_COUNT) - 1;

	if (create->flags & ~HUGEPIN_CREATE_FLAGS)
		return -EINVAL;
	if (!create->classes || create->classes & ~all)
		return -EINVAL;
	if (create->policy > HUGEPIN_POLICY_PREFERRED)
		return -EINVAL;
	if (create->mode & ~0777u)
		return -EINVAL;
	/* so that rounding up never wraps and the length is a file's */
	if (!create->bytes || create->bytes > MAX_LFS_FILESIZE - PUD_SIZE)
		return -EINVAL;
	return 0;
}

/* 1G pages where there are none: left out with fallback, else an error if the length would have some. */
static int check_classes(const struct hugepin_create *create, struct hugepin_request *request)
{
	unsigned int class;

	for (class = 0; class < HUGEPIN_CLASS_COUNT; class++) {
		if (!(create->classes & BIT(class)) || !hugepin_absent[class])
			continue;
		if (create->classes == BIT(class))
			return -EOPNOTSUPP;
		if (!(create->flags & HUGEPIN_CREATE_FALLBACK) && create->bytes >= hugepin_class_bytes(class))
			return -EOPNOTSUPP;
		request->classes &= ~BIT(class);
	}
	return 0;
}

static int write_shortfall(const struct hugepin_create *create, const struct hugepin_request *request)
{
	if (!create->shortfall || request->shortfall.reason == HUGEPIN_SHORT_NOT)
		return 0;
	return copy_to_user(u64_to_user_ptr(create->shortfall), &request->shortfall, sizeof(request->shortfall)) ?
		-EFAULT : 0;
}

static int write_extents(const struct hugepin_region *region, u64 user, u32 *count)
{
	u32 room = user ? min(*count, region->nr_extents) : 0;

	*count = region->nr_extents;
	return room && copy_to_user(u64_to_user_ptr(user), region->extents, room * sizeof(*region->extents)) ?
		-EFAULT : 0;
}

/* The answer is written before the name is seen, since after that nothing may fail; a failure takes it back. */
static int write_answer(const struct hugepin_region *region, struct hugepin_create *create, int fd, void __user *user,
			u32 size)
{
	int ret;

	create->fd = fd;
	create->bytes = hugepin_region_bytes(region);
	ret = write_extents(region, create->extents, &create->nr_extents);
	return ret ?: copy_out(user, size, create, sizeof(*create));
}

static umode_t named_mode(const struct hugepin_create *create)
{
	return (create->mode ?: 0600) & ~current_umask();
}

/* Consumes @region. */
static struct file *open_region(struct file *from, struct hugepin_region *region, const struct hugepin_create *create,
				const char *name)
{
	struct vfsmount *mnt = hugepin_fs_is_dir(from) ? from->f_path.mnt : hugepin_hidden_mount();
	umode_t mode = name ? named_mode(create) : create->mode ?: 0600;
	struct inode *inode;

	inode = hugepin_fs_inode(mnt, name ? file_inode(from) : NULL, region, mode);
	if (IS_ERR(inode)) {
		hugepin_region_discard(region);
		return ERR_CAST(inode);
	}
	return name ? hugepin_fs_open_named(from, name, inode) : hugepin_fs_open_unnamed(mnt, inode);
}

static long create_region(struct file *from, struct hugepin_request *request, struct hugepin_create *create,
			  const char *name, void __user *user, u32 size)
{
	const struct hugepin_create before = *create;
	struct hugepin_region *region;
	struct file *file;
	int fd, ret;

	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	region = hugepin_region_make(request);
	if (IS_ERR(region)) {
		ret = PTR_ERR(region);
		if (write_shortfall(create, request))
			ret = -EFAULT;
		goto out_fd;
	}
	ret = write_answer(region, create, fd, user, size);
	if (ret) {
		hugepin_region_discard(region);
		goto out_restore;
	}
	file = open_region(from, region, create, name);
	if (IS_ERR(file)) {
		ret = PTR_ERR(file);
		goto out_restore;
	}
	fd_install(fd, file);
	return 0;

out_restore:
	if (copy_out(user, size, &before, sizeof(before)))
		ret = -EFAULT;
out_fd:
	put_unused_fd(fd);
	return ret;
}

/* Who may make a region here, and under which name: the directory's answer, before any page is taken. */
static int check_place(struct file *file, const char *name, umode_t mode)
{
	int ret;

	if (!hugepin_fs_is_dir(file))
		return file->f_mode & FMODE_WRITE ? 0 : -EBADF;
	/* as for O_TMPFILE, also without a name: who may not write here may not use the mount's limits up */
	ret = file_permission(file, MAY_WRITE | MAY_EXEC);
	if (ret || !name)
		return ret;
	if (file->f_path.mnt->mnt_flags & MNT_NODEV)	/* it could never be opened by its name */
		return -EACCES;
	return hugepin_fs_check_name(file, name, mode);
}

static long ioctl_create(struct file *file, void __user *user)
{
	struct hugepin_create create;
	struct hugepin_request request = {};
	bool on_dir = hugepin_fs_is_dir(file);
	char *name = NULL;
	u32 size;
	long ret;

	ret = copy_in(&create, sizeof(create), CREATE_SIZE_0, user, &size);
	if (!ret)
		ret = check_create(&create);
	if (ret)
		return ret;
	request.bytes = create.bytes;
	request.classes = create.classes;
	request.flags = create.flags;
	request.policy = create.policy;
	ret = check_classes(&create, &request);
	if (!ret)
		ret = read_nodes(&create, &request.nodes);
	if (ret)
		return ret;
	if (create.name) {
		if (!on_dir)
			return -EINVAL;
		name = read_name(create.name);
		if (IS_ERR(name))
			return PTR_ERR(name);
	}
	if (on_dir) {
		request.mount = hugepin_fs_account(file);
		ret = mnt_want_write_file(file);
		if (ret)
			goto out_name;
	}
	ret = check_place(file, name, named_mode(&create));
	if (!ret)
		ret = create_region(file, &request, &create, name, user, size);
	if (on_dir)
		mnt_drop_write_file(file);
out_name:
	kfree(name);
	return ret;
}

/* ---- PIN ---- */

static int check_pin(const struct file *file, const struct hugepin_pin_range *pin)
{
	if (hugepin_fs_is_dir(file))
		return -ENOTTY;
	if (!(file->f_mode & FMODE_WRITE))
		return -EBADF;
	if (pin->flags || pin->pad || !pin->bytes || !PAGE_ALIGNED(pin->addr | pin->bytes))
		return -EINVAL;
	if (pin->addr + pin->bytes < pin->addr || pin->addr + pin->bytes > ULONG_MAX)
		return -EOVERFLOW;
	return 0;
}

static long ioctl_pin(struct file *from, void __user *user)
{
	struct hugepin_limit limit = {};
	struct hugepin_pin_range pin;
	struct file *file;
	u32 size;
	int fd, ret;

	ret = copy_in(&pin, sizeof(pin), PIN_SIZE_0, user, &size);
	if (!ret)
		ret = check_pin(from, &pin);
	if (ret)
		return ret;
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	file = hugepin_pin_make(untagged_addr(pin.addr), pin.bytes, &limit);
	ret = PTR_ERR_OR_ZERO(file);
	if (ret == -EDQUOT) {
		pin.held = limit.held;
		pin.limit = limit.limit;
	} else if (!ret) {
		pin.fd = fd;
	}
	if ((!ret || ret == -EDQUOT) && copy_out(user, size, &pin, sizeof(pin))) {
		if (!ret)
			fput(file);
		ret = -EFAULT;
	}
	if (ret)
		put_unused_fd(fd);
	else
		fd_install(fd, file);
	return ret;
}

/* ---- LIST, USERS ---- */

static long ioctl_list(struct file *file, void __user *user)
{
	struct hugepin_list list;
	u32 size;
	int ret;

	ret = copy_in(&list, sizeof(list), LIST_SIZE_0, user, &size);
	if (ret)
		return ret;
	if (list.flags || list.pad)
		return -EINVAL;
	ret = hugepin_list_regions(hugepin_fs_is_dir(file) ? file_inode(file)->i_sb : NULL, &list);
	if ((!ret || ret == -EMSGSIZE) && copy_out(user, size, &list, sizeof(list)))
		ret = -EFAULT;
	return ret;
}

static long ioctl_users(struct file *file, void __user *user)
{
	struct hugepin_users users;
	u32 size;
	int ret;

	if (hugepin_fs_is_dir(file))
		return -ENOTTY;
	ret = copy_in(&users, sizeof(users), USERS_SIZE_0, user, &size);
	if (ret)
		return ret;
	if (users.flags)
		return -EINVAL;
	ret = hugepin_list_users(&users);
	return ret ?: copy_out(user, size, &users, sizeof(users));
}

long hugepin_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	switch (cmd) {
	case HUGEPIN_IOC_LIST:
		return ioctl_list(file, (void __user *)arg);
	case HUGEPIN_IOC_USERS:
		return ioctl_users(file, (void __user *)arg);
	case HUGEPIN_IOC_INFO:
		return ioctl_info((void __user *)arg);
	case HUGEPIN_IOC_CREATE:
		return ioctl_create(file, (void __user *)arg);
	case HUGEPIN_IOC_PIN:
		return ioctl_pin(file, (void __user *)arg);
	default:
		return -ENOTTY;
	}
}

/* ---- EXPORT ---- */

static int check_export(const struct file *file, struct hugepin_export *export)
{
	bool pin = hugepin_pin_is(file);
	u64 all = pin ? hugepin_pin_bytes(file) : hugepin_region_bytes(file_inode(file)->i_private);
	u64 unit = pin ? PAGE_SIZE : PMD_SIZE;

	if ((file->f_mode & (FMODE_READ | FMODE_WRITE)) != (FMODE_READ | FMODE_WRITE))
		return -EBADF;
	if (export->flags || export->pad || (export->offset | export->bytes) & (unit - 1) || export->offset >= all)
		return -EINVAL;
	if (!export->bytes)
		export->bytes = all - export->offset;
	return export->bytes > all - export->offset ? -EINVAL : 0;
}

static long ioctl_export(struct file *file, void __user *user)
{
	struct hugepin_export export;
	struct dma_buf *dmabuf;
	u32 size;
	int fd, ret;

	ret = copy_in(&export, sizeof(export), EXPORT_SIZE_0, user, &size);
	if (!ret)
		ret = check_export(file, &export);
	if (ret)
		return ret;
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	dmabuf = hugepin_dmabuf_make(file, export.offset, export.bytes);
	ret = PTR_ERR_OR_ZERO(dmabuf);
	export.fd = fd;
	if (!ret && copy_out(user, size, &export, sizeof(export))) {
		dma_buf_put(dmabuf);
		ret = -EFAULT;
	}
	if (ret)
		put_unused_fd(fd);
	else
		fd_install(fd, dmabuf->file);
	return ret;
}

/* ---- REGION_INFO ---- */

static long ioctl_region_info(struct file *file, void __user *user)
{
	const struct hugepin_region *region = file_inode(file)->i_private;
	struct hugepin_region_info info;
	struct hugepin_use use;
	u32 size;
	int ret;

	ret = copy_in(&info, sizeof(info), REGION_INFO_SIZE_0, user, &size);
	if (ret)
		return ret;
	if (info.flags)
		return -EINVAL;
	ret = write_extents(region, info.extents, &info.nr_extents);
	if (ret)
		return ret;
	info.bytes = hugepin_region_bytes(region);
	info.bytes_1g = region->nr_1g << PUD_SHIFT;
	info.uid = from_kuid_munged(current_user_ns(), region->owner);
	info.created_ns = region->created_ns;
	hugepin_region_use(region, &use);
	info.id = region->id;
	info.used_ns = use.used_ns;
	info.mappings = use.mappings;
	info.opens = use.opens;
	info.held_bytes = use.held_bytes;
	info.refs = use.refs;
	return copy_out(user, size, &info, sizeof(info));
}

long hugepin_region_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	switch (cmd) {
	case HUGEPIN_IOC_REGION_INFO:
		return ioctl_region_info(file, (void __user *)arg);
	case HUGEPIN_IOC_EXPORT:
		return ioctl_export(file, (void __user *)arg);
	default:
		return -ENOTTY;
	}
}

long hugepin_pin_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return cmd == HUGEPIN_IOC_EXPORT ? ioctl_export(file, (void __user *)arg) : -ENOTTY;
}

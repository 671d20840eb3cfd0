// SPDX-License-Identifier: GPL-2.0
/*
 * hugepinfs: regions as inodes, so that names, owners, modes, ls, rm, stat, lsof, bind mounts and passing descriptors
 * are the file system's usual ones. Regions are made by an ioctl on an open directory, never by open(O_CREAT).
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/fs_parser.h>
#include <linux/fs_struct.h>
#include <linux/fsnotify.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/pagemap.h>
#include <linux/security.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/statfs.h>

#include "compat.h"
#include "hugepin.h"

/*
 * A name costs the kernel's own memory, some 2 KiB of it, which the limits in pages do not bound: directories take
 * none, and the reserve may be large.
 */
#define NAMES_DEFAULT	65536

struct fs_options {
	u64 limit[HUGEPIN_CLASS_COUNT];
	u64 names;
	kuid_t uid;
	kgid_t gid;
	umode_t mode;
};

static const struct inode_operations dir_iops;
static const struct file_operations dir_fops;

/* What a superblock has of its own. */
struct fs_info {
	struct hugepin_account *account;	/* the mount's limits and what it holds */
	atomic64_t names;			/* regions that were made with a name, and directories but the root */
	u64 names_max;
};

static struct fs_info *fs_info(const struct super_block *sb)
{
	return sb->s_fs_info;
}

static struct hugepin_account *fs_account(const struct super_block *sb)
{
	return fs_info(sb)->account;
}

/* A name counts until its inode goes, as it does for the memory it costs. */
static int take_name(struct super_block *sb)
{
	struct fs_info *info = fs_info(sb);

	if (atomic64_inc_return(&info->names) <= READ_ONCE(info->names_max))
		return 0;
	atomic64_dec(&info->names);
	return -ENOSPC;
}

static void put_name(struct super_block *sb)
{
	atomic64_dec(&fs_info(sb)->names);
}

static bool names_left(const struct super_block *sb)
{
	return atomic64_read(&fs_info(sb)->names) < READ_ONCE(fs_info(sb)->names_max);
}

bool hugepin_fs_is_dir(const struct file *file)
{
	return file->f_op == &dir_fops;
}

struct hugepin_account *hugepin_fs_account(const struct file *dir)
{
	return fs_account(file_inode(dir)->i_sb);
}

/* ---- inodes ---- */

/* The core may want to take a folio apart (MADV_COLD): the answer is no, before it tries. */
static bool region_release_folio(struct folio *folio, gfp_t gfp)
{
	return false;
}

static const struct address_space_operations region_aops = {
	.dirty_folio	= noop_dirty_folio,
	.release_folio	= region_release_folio,
};

struct inode *hugepin_fs_inode(struct vfsmount *mnt, const struct inode *dir, struct hugepin_region *region,
			       umode_t mode)
{
	struct inode *inode;

	if (dir && take_name(mnt->mnt_sb))
		return ERR_PTR(-ENOSPC);
	inode = new_inode(mnt->mnt_sb);
	if (!inode) {
		if (dir)
			put_name(mnt->mnt_sb);
		return ERR_PTR(-ENOMEM);
	}
	inode->i_ino = get_next_ino();
	hugepin_inode_init_owner(inode, dir, S_IFCHR | mode);
	init_special_inode(inode, inode->i_mode, 0);
	inode->i_fop = &hugepin_region_fops;	/* def_chr_fops would look for a driver of device 0:0 */
	inode->i_mapping->a_ops = &region_aops;
	mapping_set_release_always(inode->i_mapping);
	inode->i_flags |= S_DAX;
	i_size_write(inode, hugepin_region_bytes(region));
	inode->i_blocks = hugepin_region_bytes(region) >> 9;
	hugepin_inode_init_times(inode);
	region->named = dir;
	inode->i_private = region;
	if (hugepin_list_add(region, inode)) {
		inode->i_private = NULL;	/* the region stays the caller's */
		iput(inode);
		if (dir)
			put_name(mnt->mnt_sb);
		return ERR_PTR(-ENOMEM);
	}
	hugepin_region_attach(region, inode->i_mapping);
	return inode;
}

/* i_private of a directory that is a name; the root is none. */
#define COUNTED	((void *)1)

static void fs_evict_inode(struct inode *inode)
{
	struct hugepin_region *region = S_ISCHR(inode->i_mode) ? inode->i_private : NULL;

	truncate_inode_pages_final(&inode->i_data);
	clear_inode(inode);
	if (S_ISDIR(inode->i_mode) ? inode->i_private == COUNTED : region && region->named)
		put_name(inode->i_sb);
	if (region) {
		hugepin_list_remove(region);
		hugepin_region_end(region);
	}
}

/* Consumes @inode, also on failure. */
struct file *hugepin_fs_open_unnamed(struct vfsmount *mnt, struct inode *inode)
{
	struct file *file;

	/* a file made this way does not take the reference on f_op->owner that its end drops */
	__module_get(hugepin_region_fops.owner);
	file = alloc_file_pseudo(inode, mnt, "hugepin", O_RDWR | O_LARGEFILE, &hugepin_region_fops);
	if (IS_ERR(file)) {
		module_put(hugepin_region_fops.owner);
		iput(inode);
		return file;
	}
	hugepin_region_opened(inode->i_private);	/* nor is ->open called, but ->release will be */
	return file;
}

/* As hugepin_name_begin(), and asks the security modules that look at paths, as mknod(2) does. */
static struct dentry *begin_name(struct file *dir, const char *name, umode_t mode)
{
	struct dentry *dentry = hugepin_name_begin(dir, name, strlen(name));
	int ret;

	if (IS_ERR(dentry))
		return dentry;
	ret = security_path_mknod(&dir->f_path, dentry, S_IFCHR | mode, 0);
	if (!ret)
		return dentry;
	hugepin_name_end(dir, dentry);
	return ERR_PTR(ret);
}

/*
 * 0 if @name is free now and there may be one more. So that no page is taken and zeroed for a name that exists; making
 * it decides.
 */
int hugepin_fs_check_name(struct file *dir, const char *name, umode_t mode)
{
	struct dentry *dentry = begin_name(dir, name, mode);

	if (IS_ERR(dentry))
		return PTR_ERR(dentry);
	hugepin_name_end(dir, dentry);
	return names_left(file_inode(dir)->i_sb) ? 0 : -ENOSPC;
}

/* Takes a name back that could not be opened, unless somebody was quicker. */
static void remove_name(struct file *dir, struct dentry *dentry)
{
	struct inode *inode = file_inode(dir);

	inode_lock_nested(inode, I_MUTEX_PARENT);
	if (!d_unhashed(dentry) && d_really_is_positive(dentry) && dentry->d_parent == dir->f_path.dentry) {
		simple_unlink(inode, dentry);
		d_drop(dentry);
	}
	inode_unlock(inode);
}

/*
 * Consumes @inode, also on failure; the caller has write access to the mount. The file is opened without the
 * directory's lock, since opening asks permission listeners, who may want that directory.
 */
struct file *hugepin_fs_open_named(struct file *dir, const char *name, struct inode *inode)
{
	struct path path = { .mnt = dir->f_path.mnt };
	struct file *file;

	path.dentry = begin_name(dir, name, inode->i_mode & 0777);
	if (IS_ERR(path.dentry)) {
		iput(inode);
		return ERR_CAST(path.dentry);
	}
	dget(path.dentry);
	hugepin_name_make(path.dentry, inode);
	hugepin_inode_touch(file_inode(dir));
	fsnotify_create(file_inode(dir), path.dentry);
	hugepin_name_end(dir, path.dentry);

	file = dentry_open(&path, O_RDWR | O_LARGEFILE, current_cred());
	if (IS_ERR(file))
		remove_name(dir, path.dentry);
	dput(path.dentry);
	return file;
}

static struct inode *new_dir(struct super_block *sb, const struct inode *parent, umode_t mode)
{
	struct inode *inode = new_inode(sb);

	if (!inode)
		return NULL;
	inode->i_ino = get_next_ino();
	hugepin_inode_init_owner(inode, parent, S_IFDIR | mode);
	inode->i_op = &dir_iops;
	inode->i_fop = &dir_fops;
	set_nlink(inode, 2);
	hugepin_inode_init_times(inode);
	return inode;
}

static int make_dir(struct inode *dir, struct dentry *dentry, umode_t mode)
{
	struct inode *inode;
	int ret = take_name(dir->i_sb);

	if (ret)
		return ret;
	inode = new_dir(dir->i_sb, dir, mode);
	if (!inode) {
		put_name(dir->i_sb);
		return -ENOMEM;
	}
	inode->i_private = COUNTED;
	inc_nlink(dir);
	hugepin_name_make(dentry, inode);
	hugepin_inode_touch(dir);
	return 0;
}

HUGEPIN_MKDIR(dir_mkdir, make_dir)

static const struct inode_operations dir_iops = {
	.lookup		= simple_lookup,
	.mkdir		= dir_mkdir,
	.rmdir		= simple_rmdir,
	.unlink		= simple_unlink,
	.rename		= simple_rename,
};

static const struct file_operations dir_fops = {
	.owner		= THIS_MODULE,
	.open		= dcache_dir_open,
	.release	= dcache_dir_close,
	.llseek		= dcache_dir_lseek,
	.read		= generic_read_dir,
	.iterate_shared	= dcache_readdir,
	.fsync		= noop_fsync,
	.unlocked_ioctl	= hugepin_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
};

/* ---- the superblock ---- */

/*
 * In blocks of 2 MiB: what this mount may hold in all and what is left of it: its limits, or less where the reserve is
 * less. Its files are names.
 */
static int fs_statfs(struct dentry *dentry, struct kstatfs *buf)
{
	struct hugepin_account *account = fs_account(dentry->d_sb);
	const struct fs_info *info = fs_info(dentry->d_sb);
	struct hugepin_node *node;
	int id, class;

	buf->f_files = READ_ONCE(info->names_max);
	buf->f_ffree = buf->f_files - min_t(u64, buf->f_files, atomic64_read(&info->names));
	buf->f_type = HUGEPIN_FS_MAGIC;
	buf->f_fsid = u64_to_fsid(huge_encode_dev(dentry->d_sb->s_dev));
	buf->f_bsize = PMD_SIZE;
	buf->f_namelen = HUGEPIN_NAME_MAX;
	for (class = 0; class < HUGEPIN_CLASS_COUNT; class++) {
		u64 limit = hugepin_account_limit(account, class), held = hugepin_account_held_class(account, class);
		u64 total = 0, free = 0, blocks = hugepin_class_bytes(class) / PMD_SIZE;

		for_each_hugepin_node(node, id) {
			total += hugepin_reserve_total(&node->reserve[class]);
			free += hugepin_reserve_free(&node->reserve[class]);
		}
		buf->f_blocks += min(total, limit) * blocks;
		buf->f_bfree += min(free, limit - min(limit, held)) * blocks;
	}
	buf->f_bavail = buf->f_bfree;
	return 0;
}

static int fs_show_options(struct seq_file *m, struct dentry *root)
{
	struct hugepin_account *account = fs_account(root->d_sb);
	const struct inode *inode = d_inode(root);
	u64 limit_1g = hugepin_account_limit(account, HUGEPIN_CLASS_1G);
	u64 limit_2m = hugepin_account_limit(account, HUGEPIN_CLASS_2M);

	if (limit_1g != U64_MAX)
		seq_printf(m, ",limit_1g=%llu", limit_1g);
	if (limit_2m != U64_MAX)
		seq_printf(m, ",limit_2m=%llu", limit_2m);
	if (fs_info(root->d_sb)->names_max != NAMES_DEFAULT)
		seq_printf(m, ",nr_names=%llu", fs_info(root->d_sb)->names_max);
	seq_printf(m, ",uid=%u,gid=%u,mode=%o", from_kuid_munged(&init_user_ns, inode->i_uid),
		   from_kgid_munged(&init_user_ns, inode->i_gid), inode->i_mode & 07777);
	return 0;
}

static const struct super_operations fs_sops = {
	.evict_inode	= fs_evict_inode,
	.statfs		= fs_statfs,
	.show_options	= fs_show_options,
};

static int fs_fill_super(struct super_block *sb, struct fs_context *fc)
{
	const struct fs_options *options = fc->fs_private;
	struct fs_info *info;
	struct inode *root;

	info = kzalloc(sizeof(*info), GFP_KERNEL_ACCOUNT);
	sb->s_fs_info = info;		/* ended by fs_kill_super(), also on failure */
	if (!info)
		return -ENOMEM;
	info->names_max = options->names;
	info->account = hugepin_account_mount(options->limit);
	if (!info->account)
		return -ENOMEM;
	sb->s_maxbytes = MAX_LFS_FILESIZE;
	sb->s_blocksize = PAGE_SIZE;
	sb->s_blocksize_bits = PAGE_SHIFT;
	sb->s_magic = HUGEPIN_FS_MAGIC;
	sb->s_op = &fs_sops;
	sb->s_time_gran = 1;
	sb->s_iflags &= ~SB_I_NODEV;	/* regions are character inodes; a mount with nodev cannot open them */

	root = new_dir(sb, NULL, options->mode);
	if (!root)
		return -ENOMEM;
	root->i_uid = options->uid;
	root->i_gid = options->gid;
	sb->s_root = d_make_root(root);
	return sb->s_root ? 0 : -ENOMEM;
}

static void fs_kill_super(struct super_block *sb)
{
	struct fs_info *info = fs_info(sb);

	hugepin_kill_super(sb);
	if (info)
		hugepin_account_put(info->account);
	kfree(info);
}

/* ---- mount options ---- */

enum { OPT_LIMIT_1G, OPT_LIMIT_2M, OPT_NR_NAMES, OPT_UID, OPT_GID, OPT_MODE };

static const struct fs_parameter_spec fs_parameters[] = {
	fsparam_string("limit_1g",	OPT_LIMIT_1G),
	fsparam_string("limit_2m",	OPT_LIMIT_2M),
	fsparam_string("nr_names",	OPT_NR_NAMES),
	fsparam_string("uid",		OPT_UID),
	fsparam_string("gid",		OPT_GID),
	fsparam_string("mode",		OPT_MODE),
	{}
};

static int parse_number(struct fs_context *fc, const struct fs_parameter *param, unsigned int base, u64 max, u64 *out)
{
	const char *p = param->string;

	if (hugepin_parse_digits(&p, base, max, out) || *p)
		return invalf(fc, base == 8 ? "hugepinfs: %s=%s: want an octal number of at most %llo" :
					      "hugepinfs: %s=%s: want a decimal number of at most %llu",
			      param->key, param->string, max);
	return 0;
}

static int fs_parse_param(struct fs_context *fc, struct fs_parameter *param)
{
	struct fs_options *options = fc->fs_private;
	struct fs_parse_result result;
	u64 value;
	int opt, ret;

	opt = fs_parse(fc, fs_parameters, param, &result);
	if (opt < 0)
		return opt;
	ret = parse_number(fc, param, opt == OPT_MODE ? 8 : 10,
			   opt == OPT_MODE ? 07777 : opt == OPT_UID || opt == OPT_GID ? U32_MAX - 1 : U64_MAX - 1,
			   &value);
	if (ret)
		return ret;
	switch (opt) {
	case OPT_LIMIT_1G:
		options->limit[HUGEPIN_CLASS_1G] = value;
		return 0;
	case OPT_LIMIT_2M:
		options->limit[HUGEPIN_CLASS_2M] = value;
		return 0;
	case OPT_NR_NAMES:
		options->names = min_t(u64, value, S64_MAX);
		return 0;
	case OPT_UID:
		options->uid = make_kuid(fc->user_ns, value);
		if (!uid_valid(options->uid))
			return invalf(fc, "hugepinfs: uid=%s: no such user here", param->string);
		break;
	case OPT_GID:
		options->gid = make_kgid(fc->user_ns, value);
		if (!gid_valid(options->gid))
			return invalf(fc, "hugepinfs: gid=%s: no such group here", param->string);
		break;
	case OPT_MODE:
		options->mode = value;
		break;
	}
	return 0;
}

static int fs_get_tree(struct fs_context *fc)
{
	return get_tree_nodev(fc, fs_fill_super);
}

static int fs_reconfigure(struct fs_context *fc)
{
	const struct fs_options *options = fc->fs_private;
	const struct inode *root = d_inode(fc->root);

	if (!uid_eq(options->uid, root->i_uid) || !gid_eq(options->gid, root->i_gid) ||
	    options->mode != (root->i_mode & 07777))
		return invalf(fc, "hugepinfs: uid, gid and mode are for the first mount; use chown and chmod");
	hugepin_account_set_limits(fs_account(fc->root->d_sb), options->limit);
	WRITE_ONCE(fs_info(fc->root->d_sb)->names_max, options->names);
	return 0;
}

static void fs_free_context(struct fs_context *fc)
{
	kfree(fc->fs_private);
}

static const struct fs_context_operations fs_context_ops = {
	.parse_param	= fs_parse_param,
	.get_tree	= fs_get_tree,
	.reconfigure	= fs_reconfigure,
	.free		= fs_free_context,
};

/* @hidden: the mount behind /dev/hugepin is nobody's, whoever opens the device first. */
static void default_options(struct fs_options *options, bool hidden)
{
	int class;

	options->uid = hidden ? GLOBAL_ROOT_UID : current_fsuid();
	options->gid = hidden ? GLOBAL_ROOT_GID : current_fsgid();
	options->mode = hidden ? 0700 : 01777;
	options->names = NAMES_DEFAULT;
	for (class = 0; class < HUGEPIN_CLASS_COUNT; class++)
		options->limit[class] = U64_MAX;
}

/* What is in force: mount(8) gives all options again, and those not given stay. */
static void present_options(struct fs_options *options, const struct dentry *root)
{
	int class;

	options->uid = d_inode(root)->i_uid;
	options->gid = d_inode(root)->i_gid;
	options->mode = d_inode(root)->i_mode & 07777;
	options->names = fs_info(root->d_sb)->names_max;
	for (class = 0; class < HUGEPIN_CLASS_COUNT; class++)
		options->limit[class] = hugepin_account_limit(fs_account(root->d_sb), class);
}

static int fs_init_context(struct fs_context *fc)
{
	struct fs_options *options = kzalloc(sizeof(*options), GFP_KERNEL);

	if (!options)
		return -ENOMEM;
	if (fc->purpose == FS_CONTEXT_FOR_RECONFIGURE)
		present_options(options, fc->root);
	else
		default_options(options, fc->sb_flags & SB_KERNMOUNT);
	if (fc->sb_flags & SB_KERNMOUNT) {
		fc->global = true;		/* also when the opener is in a user namespace */
		fc->sb_flags |= SB_NOUSER;
	}
	fc->fs_private = options;
	fc->ops = &fs_context_ops;
	return 0;
}

struct file_system_type hugepinfs_type = {
	.owner			= THIS_MODULE,
	.name			= HUGEPIN_FS_NAME,
	.init_fs_context	= fs_init_context,
	.parameters		= fs_parameters,
	.kill_sb		= fs_kill_super,
};
MODULE_ALIAS_FS(HUGEPIN_FS_NAME);

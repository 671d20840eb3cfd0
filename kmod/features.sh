#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# features.sh INCLUDE - what this kernel's headers offer, as -DHAVE_... for the compiler. Only compat.h asks for these.
# Features, not versions: distributions carry changes back.
set -eu
cd "$1"

has() { # NAME FILE... PATTERN: -DHAVE_NAME if a file has a line matching the basic regular expression
	name=$1; shift
	for pattern; do :; done
	for file; do
		[ -f "$file" ] && grep -q -- "$pattern" "$file" && { echo "-DHAVE_$name"; return; }
	done
	return 0
}

echo -DHAVE_PROBED
has FOLIO_INSERT huge_mm.h '^vm_fault_t vmf_insert_folio_pmd('
has HUGE_FAULT_ORDER mm.h 'huge_fault)(struct vm_fault \*vmf, unsigned int order'
has CONTIG_FROZEN gfp.h 'alloc_contig_frozen_pages'
has CONTIG_COMPOUND gfp.h 'folio_alloc_gigantic'
has MM_UNMAPPED_AREA sched/mm.h '^unsigned long mm_get_unmapped_area(struct file'
has MM_UNMAPPED_AREA_MM sched/mm.h '^unsigned long mm_get_unmapped_area(struct mm_struct'
has FOLIO_MAPCOUNT mm.h '^static inline int folio_mapcount('
has PIN_AREAS mm.h 'struct vm_area_struct \*\*vmas);'
has VM_FLAGS_SET mm.h 'void vm_flags_set('
has START_CREATING namei.h 'start_creating(struct mnt_idmap'
has PERSISTENT_DENTRY dcache.h 'd_make_persistent('
has MKDIR_DENTRY fs.h 'struct dentry \*(\*mkdir)'
has MNT_IDMAP fs.h 'struct mnt_idmap'
has IMPORT_NS_STRING module.h 'define MODULE_IMPORT_NS(ns)[[:space:]]*MODULE_INFO(import_ns, ns)'
has INODE_TS fs.h 'simple_inode_init_ts('
has DMEM cgroup_dmem.h 'dmem_cgroup_try_charge('
has DMEM_INIT cgroup_dmem.h '^struct dmem_cgroup_init {'

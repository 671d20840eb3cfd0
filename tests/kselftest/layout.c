// SPDX-License-Identifier: MIT
/*
 * Where each member of the ABI's structs is, for good: a member may be added at a struct's end, and its line here, but
 * no offset ever changes. tools/check-abi asks for a line for every member, and compiles this for 64 and for 32 bits.
 */
#include <stddef.h>

#include "uapi/hugepin.h"

#define SIZE(type, bytes)		_Static_assert(sizeof(struct type) == (bytes), "size of " #type)
#define AT(type, member, bytes)		_Static_assert(offsetof(struct type, member) == (bytes), #type "." #member)

SIZE(hugepin_info_pages, 64);
AT(hugepin_info_pages, node, 0);
AT(hugepin_info_pages, class, 4);
AT(hugepin_info_pages, asked, 8);
AT(hugepin_info_pages, total, 16);
AT(hugepin_info_pages, clean, 24);
AT(hugepin_info_pages, dirty, 32);
AT(hugepin_info_pages, in_use, 40);
AT(hugepin_info_pages, quarantined, 48);
AT(hugepin_info_pages, poisoned, 56);

SIZE(hugepin_info, 48);
AT(hugepin_info, size, 0);
AT(hugepin_info, flags, 4);
AT(hugepin_info, version, 8);
AT(hugepin_info, features, 12);
AT(hugepin_info, absent, 16);
AT(hugepin_info, regions, 24);
AT(hugepin_info, pages, 32);
AT(hugepin_info, nr_pages, 40);
AT(hugepin_info, pad, 44);

SIZE(hugepin_shortfall, 48);
AT(hugepin_shortfall, reason, 0);
AT(hugepin_shortfall, class, 4);
AT(hugepin_shortfall, node, 8);
AT(hugepin_shortfall, pad, 12);
AT(hugepin_shortfall, asked, 16);
AT(hugepin_shortfall, available, 24);
AT(hugepin_shortfall, limit, 32);
AT(hugepin_shortfall, held, 40);

SIZE(hugepin_extent, 16);
AT(hugepin_extent, node, 0);
AT(hugepin_extent, class, 4);
AT(hugepin_extent, pages, 8);

SIZE(hugepin_create, 72);
AT(hugepin_create, size, 0);
AT(hugepin_create, flags, 4);
AT(hugepin_create, bytes, 8);
AT(hugepin_create, classes, 16);
AT(hugepin_create, policy, 20);
AT(hugepin_create, nodemask, 24);
AT(hugepin_create, nodemask_bits, 32);
AT(hugepin_create, mode, 36);
AT(hugepin_create, name, 40);
AT(hugepin_create, extents, 48);
AT(hugepin_create, nr_extents, 56);
AT(hugepin_create, fd, 60);
AT(hugepin_create, shortfall, 64);

SIZE(hugepin_region_info, 96);
AT(hugepin_region_info, size, 0);
AT(hugepin_region_info, flags, 4);
AT(hugepin_region_info, bytes, 8);
AT(hugepin_region_info, bytes_1g, 16);
AT(hugepin_region_info, extents, 24);
AT(hugepin_region_info, nr_extents, 32);
AT(hugepin_region_info, uid, 36);
AT(hugepin_region_info, created_ns, 40);
AT(hugepin_region_info, id, 48);
AT(hugepin_region_info, used_ns, 56);
AT(hugepin_region_info, mappings, 64);
AT(hugepin_region_info, opens, 72);
AT(hugepin_region_info, held_bytes, 80);
AT(hugepin_region_info, refs, 88);

SIZE(hugepin_list_entry, 632);
AT(hugepin_list_entry, id, 0);
AT(hugepin_list_entry, dev, 8);
AT(hugepin_list_entry, ino, 16);
AT(hugepin_list_entry, bytes, 24);
AT(hugepin_list_entry, bytes_1g, 32);
AT(hugepin_list_entry, created_ns, 40);
AT(hugepin_list_entry, used_ns, 48);
AT(hugepin_list_entry, mappings, 56);
AT(hugepin_list_entry, opens, 64);
AT(hugepin_list_entry, held_bytes, 72);
AT(hugepin_list_entry, refs, 80);
AT(hugepin_list_entry, charged_uid, 88);
AT(hugepin_list_entry, uid, 92);
AT(hugepin_list_entry, gid, 96);
AT(hugepin_list_entry, mode, 100);
AT(hugepin_list_entry, flags, 104);
AT(hugepin_list_entry, nr_extents, 108);
AT(hugepin_list_entry, first_extent, 112);
AT(hugepin_list_entry, pad, 116);
AT(hugepin_list_entry, path, 120);

SIZE(hugepin_list, 48);
AT(hugepin_list, size, 0);
AT(hugepin_list, flags, 4);
AT(hugepin_list, cursor, 8);
AT(hugepin_list, entries, 16);
AT(hugepin_list, nr_entries, 24);
AT(hugepin_list, entry_size, 28);
AT(hugepin_list, extents, 32);
AT(hugepin_list, nr_extents, 40);
AT(hugepin_list, pad, 44);

SIZE(hugepin_user_entry, 48);
AT(hugepin_user_entry, uid, 0);
AT(hugepin_user_entry, depth, 4);
AT(hugepin_user_entry, held, 8);
AT(hugepin_user_entry, quarantined, 24);
AT(hugepin_user_entry, pinned, 40);

SIZE(hugepin_users, 32);
AT(hugepin_users, size, 0);
AT(hugepin_users, flags, 4);
AT(hugepin_users, cursor, 8);
AT(hugepin_users, entries, 16);
AT(hugepin_users, nr_entries, 24);
AT(hugepin_users, entry_size, 28);

SIZE(hugepin_pin_range, 48);
AT(hugepin_pin_range, size, 0);
AT(hugepin_pin_range, flags, 4);
AT(hugepin_pin_range, addr, 8);
AT(hugepin_pin_range, bytes, 16);
AT(hugepin_pin_range, held, 24);
AT(hugepin_pin_range, limit, 32);
AT(hugepin_pin_range, fd, 40);
AT(hugepin_pin_range, pad, 44);

SIZE(hugepin_export, 32);
AT(hugepin_export, size, 0);
AT(hugepin_export, flags, 4);
AT(hugepin_export, offset, 8);
AT(hugepin_export, bytes, 16);
AT(hugepin_export, fd, 24);
AT(hugepin_export, pad, 28);

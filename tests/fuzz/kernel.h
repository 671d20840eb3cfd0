/* SPDX-License-Identifier: GPL-2.0 */
/*
 * As much of the kernel as kmod/spec.c and the module's header need to be compiled in user space. The headers that they
 * include are empty there (fuzz.mk makes them), this one comes before all else.
 */
#ifndef HUGEPIN_TESTS_FUZZ_KERNEL_H
#define HUGEPIN_TESTS_FUZZ_KERNEL_H

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64, __u64;
typedef uint32_t __u32;
typedef int32_t __s32;
typedef int64_t s64, __s64;
typedef uint8_t __u8;
typedef uint16_t __u16;
typedef unsigned long pgoff_t;
typedef unsigned short umode_t;
typedef struct { unsigned int val; } kuid_t;
typedef struct { long long counter; } atomic64_t;
typedef struct { int lock; } spinlock_t;
typedef struct { int wait; } wait_queue_head_t;
typedef struct { unsigned long bits; } nodemask_t;

struct list_head { struct list_head *next, *prev; };
struct work_struct { int work; };
struct mutex { int mutex; };

struct address_space;
struct attribute_group;
struct file;
struct inode;
struct kobject;
struct page;
struct super_block;
struct vfsmount;
struct vm_area_struct;
struct workqueue_struct;

#define U64_MAX		UINT64_MAX
#define PAGE_SHIFT	12
#define PAGE_SIZE	4096ul
#define PMD_SHIFT	21
#define PUD_SHIFT	30
#define MAX_NUMNODES	64
#define GFP_KERNEL	0
#define __init
#define __always_unused	__attribute__((unused))

#define node_isset(node, mask)		((mask).bits >> (node) & 1)
#define nodemask_of_node(node)		((nodemask_t){ 1ul << (node) })
#define nodes_andnot(to, a, b)		((to).bits = (a).bits & ~(b).bits)
#define for_each_node_mask(node, mask) \
	for ((node) = 0; (node) < MAX_NUMNODES; (node)++) \
		if (node_isset(node, mask))

/* Formats, so that a wrong argument is found, and prints nothing. */
static inline __attribute__((format(printf, 1, 2))) void pr_line(const char *format, ...)
{
	char *text;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		abort();
	va_end(args);
	free(text);
}
#define pr_err		pr_line
#define pr_warn		pr_line
#define pr_info		pr_line

static inline char *kstrdup(const char *text, int flags) { return flags == GFP_KERNEL ? strdup(text) : NULL; }
static inline void kfree(void *memory) { free(memory); }

unsigned long long node_present_pages(int node);

#endif /* HUGEPIN_TESTS_FUZZ_KERNEL_H */

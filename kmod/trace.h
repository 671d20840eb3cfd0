/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints of the module: what happens to the reserve and its pages, to regions and to quarantined pages. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM hugepin

#if !defined(HUGEPIN_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define HUGEPIN_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(hugepin_resize,
	TP_PROTO(int node, unsigned int class, u64 asked, u64 got, int ret),
	TP_ARGS(node, class, asked, got, ret),
	TP_STRUCT__entry(
		__field(int, node)
		__field(unsigned int, class)
		__field(u64, asked)
		__field(u64, got)
		__field(int, ret)
	),
	TP_fast_assign(
		__entry->node = node;
		__entry->class = class;
		__entry->asked = asked;
		__entry->got = got;
		__entry->ret = ret;
	),
	TP_printk("node=%d class=%u asked=%llu got=%llu ret=%d", __entry->node, __entry->class, __entry->asked,
		  __entry->got, __entry->ret)
);

TRACE_EVENT(hugepin_region_make,
	TP_PROTO(u64 nr_1g, u64 nr_2m, u64 dirty),
	TP_ARGS(nr_1g, nr_2m, dirty),
	TP_STRUCT__entry(
		__field(u64, nr_1g)
		__field(u64, nr_2m)
		__field(u64, dirty)
	),
	TP_fast_assign(
		__entry->nr_1g = nr_1g;
		__entry->nr_2m = nr_2m;
		__entry->dirty = dirty;
	),
	TP_printk("pages_1g=%llu pages_2m=%llu zeroed_by_caller=%llu", __entry->nr_1g, __entry->nr_2m, __entry->dirty)
);

TRACE_EVENT(hugepin_region_end,
	TP_PROTO(u64 nr_1g, u64 nr_2m),
	TP_ARGS(nr_1g, nr_2m),
	TP_STRUCT__entry(
		__field(u64, nr_1g)
		__field(u64, nr_2m)
	),
	TP_fast_assign(
		__entry->nr_1g = nr_1g;
		__entry->nr_2m = nr_2m;
	),
	TP_printk("pages_1g=%llu pages_2m=%llu", __entry->nr_1g, __entry->nr_2m)
);

TRACE_EVENT(hugepin_scrub,
	TP_PROTO(int node, unsigned int class, unsigned int steps, int ret),
	TP_ARGS(node, class, steps, ret),
	TP_STRUCT__entry(
		__field(int, node)
		__field(unsigned int, class)
		__field(unsigned int, steps)
		__field(int, ret)
	),
	TP_fast_assign(
		__entry->node = node;
		__entry->class = class;
		__entry->steps = steps;
		__entry->ret = ret;
	),
	TP_printk("node=%d class=%u steps=%u ret=%d", __entry->node, __entry->class, __entry->steps, __entry->ret)
);

TRACE_EVENT(hugepin_quarantine,
	TP_PROTO(int node, unsigned int class, int refs),
	TP_ARGS(node, class, refs),
	TP_STRUCT__entry(
		__field(int, node)
		__field(unsigned int, class)
		__field(int, refs)
	),
	TP_fast_assign(
		__entry->node = node;
		__entry->class = class;
		__entry->refs = refs;
	),
	TP_printk("node=%d class=%u refs=%d", __entry->node, __entry->class, __entry->refs)
);

TRACE_EVENT(hugepin_release,
	TP_PROTO(int node, unsigned int class),
	TP_ARGS(node, class),
	TP_STRUCT__entry(
		__field(int, node)
		__field(unsigned int, class)
	),
	TP_fast_assign(
		__entry->node = node;
		__entry->class = class;
	),
	TP_printk("node=%d class=%u", __entry->node, __entry->class)
);

#endif /* HUGEPIN_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>

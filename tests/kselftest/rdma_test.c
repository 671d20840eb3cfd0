// SPDX-License-Identifier: MIT
/*
 * A real consumer of pinned pages: RDMA's memory regions (ibv_reg_mr) over pages of ours, written and read by the
 * device, which talks to itself. Needs an RDMA device whose port is up; soft-RoCE is one (tests/kselftest/rdma sets it
 * up).
 */
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "region.h"
#include "reserve.h"

#define PORT		1
#define IO_BYTES	(1 * MiB)	/* of one transfer */
#define MR_BYTES	(512 * MiB)	/* soft-RoCE keeps 16 bytes for each base page, in one piece */
#define ACCESS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define WAIT_MS		20000		/* soft-RoCE's processor is an emulated one */

/* Two ends of a connection of the device with itself. */
struct link {
	struct ibv_context *device;
	struct ibv_pd *domain;
	struct ibv_cq *completions;
	struct ibv_qp *ends[2];
	char *buffer;			/* ordinary memory */
	struct ibv_mr *buffer_mr;
};

/* ---- the connection ---- */

static struct ibv_context *device_with_port(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *device;
	struct ibv_port_attr port;

	if (!list || !count)
		ktap_skip("no RDMA device here: tests/kselftest/rdma makes one on kernels that have rdma_rxe");
	device = ibv_open_device(list[0]);
	CHECK(device, "%s: %s", ibv_get_device_name(list[0]), strerror(errno));
	ibv_free_device_list(list);
	CHECK(!ibv_query_port(device, PORT, &port), "port: %s", strerror(errno));
	CHECK(port.state == IBV_PORT_ACTIVE, "the port is not up");
	return device;
}

/* A global address that routes: the last one of the table, since those of the link alone come first. */
static int gid_of(struct ibv_context *device, union ibv_gid *gid)
{
	union ibv_gid other;
	int index, last = -1;

	for (index = 0; !ibv_query_gid(device, PORT, index, &other); index++)
		if (other.global.interface_id) {
			*gid = other;
			last = index;
		}
	CHECK(last >= 0, "the device has no address");
	return last;
}

static struct ibv_qp *end_make(const struct link *link)
{
	struct ibv_qp_init_attr make = {
		.send_cq = link->completions, .recv_cq = link->completions, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *end = ibv_create_qp(link->domain, &make);

	CHECK(end, "%s", strerror(errno));
	return end;
}

static void end_connect(const struct link *link, struct ibv_qp *end, const struct ibv_qp *other)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = ACCESS };
	struct ibv_qp_attr receive = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = other->qp_num,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = PORT, .grh.hop_limit = 4 },
	};
	struct ibv_qp_attr send = {
		.qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
	};

	receive.ah_attr.grh.sgid_index = gid_of(link->device, &receive.ah_attr.grh.dgid);
	CHECK_EQ(ibv_modify_qp(end, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
	CHECK_EQ(ibv_modify_qp(end, &receive, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
	CHECK_EQ(ibv_modify_qp(end, &send, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), 0);
}

/* As much of the range, up to its end, as one memory region may be. */
static struct ibv_mr *register_range(const struct link *link, char *start, uint64_t bytes)
{
	uint64_t skip = bytes > MR_BYTES ? bytes - MR_BYTES : 0;
	struct ibv_mr *mr = ibv_reg_mr(link->domain, start + skip, bytes - skip, ACCESS);

	CHECK(mr, "ibv_reg_mr of %llu MiB: %s", (unsigned long long)((bytes - skip) / MiB), strerror(errno));
	return mr;
}

static struct link link_open(void)
{
	struct link link = { .device = device_with_port() };

	link.domain = ibv_alloc_pd(link.device);
	CHECK(link.domain, "%s", strerror(errno));
	link.completions = ibv_create_cq(link.device, 8, NULL, NULL, 0);
	CHECK(link.completions, "%s", strerror(errno));
	link.ends[0] = end_make(&link);
	link.ends[1] = end_make(&link);
	end_connect(&link, link.ends[0], link.ends[1]);
	end_connect(&link, link.ends[1], link.ends[0]);
	link.buffer = aligned_alloc(PAGE_4K, IO_BYTES);
	CHECK(link.buffer, "no memory");
	link.buffer_mr = register_range(&link, link.buffer, IO_BYTES);
	return link;
}

/* RDMA_WRITE goes from the buffer to @remote in the memory region @mr, RDMA_READ the other way. */
static void transfer(const struct link *link, enum ibv_wr_opcode opcode, const struct ibv_mr *mr, uint64_t remote)
{
	struct ibv_sge local = { (uintptr_t)link->buffer, IO_BYTES, link->buffer_mr->lkey };
	struct ibv_send_wr request = {
		.sg_list = &local, .num_sge = 1, .opcode = opcode,
		.wr.rdma = { .remote_addr = remote, .rkey = mr->rkey },
	}, *refused;
	struct ibv_wc done;
	int waited_ms;

	CHECK_EQ(ibv_post_send(link->ends[0], &request, &refused), 0);
	for (waited_ms = 0; ibv_poll_cq(link->completions, 1, &done) != 1; waited_ms++) {
		CHECK(waited_ms < WAIT_MS, "no completion in %d ms", WAIT_MS);
		poll(NULL, 0, 1);
	}
	CHECK(done.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(done.status));
}

/* ---- the cases ---- */

static const unsigned int class_2m = HUGEPIN_CLASS_2M, class_1g = HUGEPIN_CLASS_1G;

/* Of the class, and of one page more: of 2M after a 1G page. */
static uint64_t bytes_of(unsigned int class)
{
	if (class == HUGEPIN_CLASS_2M)
		return 4 * PAGE_2M;
	if (class_absent(class))
		ktap_skip("this kernel has no 1G class");
	if (!reserve_free_class(class))
		ktap_skip("the reserve has no 1G page");
	return PAGE_1G + PAGE_2M;
}

static int region_of(unsigned int class, uint64_t bytes)
{
	return region_make(bytes, class == HUGEPIN_CLASS_2M ? CLASS_2M : CLASS_1G | CLASS_2M);
}

/* Half before and half behind the border between the first page and the second. */
static uint64_t crossing(unsigned int class)
{
	return (class == HUGEPIN_CLASS_2M ? PAGE_2M : PAGE_1G) - IO_BYTES / 2;
}

static void a_device_writes_and_reads_it(const void *arg)
{
	unsigned int class = *(const unsigned int *)arg;
	uint64_t bytes = bytes_of(class), at = crossing(class);
	struct link link = link_open();
	char *start = region_map(region_of(class, bytes), 0, bytes, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = register_range(&link, start, bytes);

	marks_write(link.buffer, at, IO_BYTES, 1);
	transfer(&link, IBV_WR_RDMA_WRITE, mr, (uintptr_t)start + at);
	CHECK_MARKS(start + at, at, IO_BYTES, 1);
	CHECK_ZERO(start + at - PAGE_4K, PAGE_4K);
	CHECK_ZERO(start + at + IO_BYTES, PAGE_4K);

	marks_write(start + at, at, IO_BYTES, 2);
	transfer(&link, IBV_WR_RDMA_READ, mr, (uintptr_t)start + at);
	CHECK_MARKS(link.buffer, at, IO_BYTES, 2);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

/* C059: what is registered stays where it is: written by the device after its region is gone, and nobody else's. */
static void a_registered_page_outlives_its_region(const void *arg)
{
	unsigned int class = *(const unsigned int *)arg, node;
	uint64_t bytes = bytes_of(class) - PAGE_2M;
	struct link link = link_open();
	struct hugepin_info_pages before;
	struct ibv_mr *mr;
	char *start;
	int fd;

	node = reserve_node_with(class, 1);
	fd = region_make_on(node, bytes, 1u << class);
	start = region_map(fd, 0, bytes, PROT_READ | PROT_WRITE);
	before = reserve_of(node, class);
	mr = register_range(&link, start, bytes);
	CHECK_OK(munmap(start, bytes));
	close(fd);
	CHECK(reserve_wait_quarantined(node, class, before.quarantined + before.in_use), "not kept for the device");
	marks_write(link.buffer, 0, IO_BYTES, 3);
	transfer(&link, IBV_WR_RDMA_WRITE, mr, (uintptr_t)mr->addr);
	memset(link.buffer, 0, IO_BYTES);
	transfer(&link, IBV_WR_RDMA_READ, mr, (uintptr_t)mr->addr);
	CHECK_MARKS(link.buffer, 0, IO_BYTES, 3);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK(reserve_wait_quarantined(node, class, before.quarantined), "still kept after it was let go");
}

/* The device lets go by itself, which the hooks look for; and nothing of it is seen again. */
static void a_killed_owner_leaves_nothing(const void *arg)
{
	unsigned int class = *(const unsigned int *)arg;
	uint64_t bytes = bytes_of(class), at = crossing(class);
	pid_t child = ktap_fork();
	int fd;

	if (!child) {
		struct link link = link_open();
		char *start = region_map(region_of(class, bytes), 0, bytes, PROT_READ | PROT_WRITE);
		struct ibv_mr *mr = register_range(&link, start, bytes);

		marks_write(link.buffer, at, IO_BYTES, 4);
		transfer(&link, IBV_WR_RDMA_WRITE, mr, (uintptr_t)start + at);
		kill(getpid(), SIGKILL);
	}
	ktap_join_killed(child, SIGKILL);
	CHECK(reserve_wait_quarantined(reserve_node_with(class, 0), class, 0), "still quarantined");
	fd = region_of(class, bytes);
	CHECK_ZERO(region_map(fd, 0, bytes, PROT_READ) + at, IO_BYTES);
}

#define CASE(f, class)	{ .name = #f, .run = f, .arg = &(class), .variant = #class, .timeout_s = 90 }

static const struct ktap_case cases[] = {
	CASE(a_device_writes_and_reads_it, class_2m),
	CASE(a_device_writes_and_reads_it, class_1g),
	CASE(a_registered_page_outlives_its_region, class_2m),
	CASE(a_registered_page_outlives_its_region, class_1g),
	CASE(a_killed_owner_leaves_nothing, class_2m),
	CASE(a_killed_owner_leaves_nothing, class_1g),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}

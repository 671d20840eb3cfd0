# SPDX-License-Identifier: MIT
# Recorder and replay of allocation traces. Included by the root Makefile.
# Debian: libzstd-dev zlib1g-dev libjson-c-dev

TRACE_FORMAT_OBJ := $(addprefix $(O)/tools/trace/,read.o write.o totals.o storage.o)
TRACE_FORMAT_LIBS := -lzstd -lz
TRACE_RECORD_OBJ := $(addprefix $(O)/tools/trace/,record.o convert.o) $(TRACE_FORMAT_OBJ)
TRACE_REPLAY_OBJ := $(addprefix $(O)/tools/trace/,replay.o play.o backend_libc.o backend_hugepin.o) $(TRACE_FORMAT_OBJ)

# The recorder and what it is tried on are built without $(SAN): a sanitizer has a malloc of its own and wants to be first.
TRACE_PLAIN_CFLAGS := $(filter-out $(SAN),$(CFLAGS))
TRACE_PLAIN_LDFLAGS := $(filter-out $(SAN),$(LDFLAGS))

$(O)/tools/trace/preload.o: CFLAGS := $(TRACE_PLAIN_CFLAGS) -fPIC -fvisibility=hidden

$(O)/lib/libtrace-record.so: $(O)/tools/trace/preload.o
	@mkdir -p $(@D)
	$(CC) -shared $(TRACE_PLAIN_LDFLAGS) -Wl,-z,defs -Wl,-z,relro,-z,now -o $@ $< -ldl

$(O)/bin/hugepin-trace-record: $(TRACE_RECORD_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(TRACE_FORMAT_LIBS)

$(O)/bin/hugepin-trace-replay: $(TRACE_REPLAY_OBJ) $(LIB_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIB_LIBS) $(TRACE_FORMAT_LIBS) -ljson-c

# For check: a program that calls all of the malloc family; a compiler that knows malloc would leave calls out.
$(O)/tools/trace/exercise.o: CFLAGS := $(TRACE_PLAIN_CFLAGS) -fno-builtin
$(O)/tools/trace/exercise: $(O)/tools/trace/exercise.o
	$(CC) $(TRACE_PLAIN_LDFLAGS) -o $@ $<

TRACE := $(O)/lib/libtrace-record.so $(O)/bin/hugepin-trace-record $(O)/bin/hugepin-trace-replay
all: $(TRACE)

.PHONY: trace-check
trace-check: $(TRACE) $(O)/tools/trace/exercise
	tools/trace/check $(O)

# tests/tests.mk links the objects among the prerequisites.
$(O)/tests/unit/trace_format_test: $(TRACE_FORMAT_OBJ)
$(O)/tests/unit/trace_format_test: UNIT_LIBS += $(TRACE_FORMAT_LIBS)

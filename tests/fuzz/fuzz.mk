# SPDX-License-Identifier: MIT
# Fuzzers of what parses in user space (libFuzzer, clang), with the address and undefined behaviour sanitizers.
#
#	make fuzz DURATION=60	each for so many seconds, from the inputs in tests/fuzz/corpus/
#	make fuzz FUZZ=values	that one; several in quotes
#	make fuzz-build
#	make fuzz-kernel DURATION=60 FUZZ_VM=7-debug	the module's alone (tests/fuzz/kernel), in a virtual machine; "make
#			fuzz" ends with it

FUZZ ?= options_file options_proto options_environment values reserve trace sysfs snapshot json host
DURATION ?= 60
FUZZ_O ?= $(O)/fuzz
FUZZ_SAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined
FUZZ_BIN := $(FUZZ:%=$(O)/tests/fuzz/%)

.PHONY: fuzz fuzz-build fuzz-programs

# The library as well is built for them, in a folder of its own.
fuzz-build:
	$(MAKE) O=$(FUZZ_O) CC=clang OPT="-O1 -g" SAN="-fsanitize=fuzzer-no-link $(FUZZ_SAN)" FUZZ="$(FUZZ)" fuzz-programs

fuzz: fuzz-build
	tests/fuzz/run $(FUZZ_O) $(DURATION) $(FUZZ)
	$(MAKE) fuzz-kernel

fuzz-programs: $(FUZZ_BIN) $(O)/tests/fuzz/words.dict

$(FUZZ_BIN): CPPFLAGS += -Ilib -Itools/trace
$(FUZZ_BIN): $(O)/tests/fuzz/%: $(O)/tests/fuzz/%.o $(LIB_A)
	$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $(filter %.o,$^) $(LIB_A) $(LIB_LIBS) $(FUZZ_LIBS)

$(O)/tests/fuzz/trace: $(addprefix $(O)/tools/trace/,read.o write.o totals.o storage.o)
$(O)/tests/fuzz/trace: FUZZ_LIBS := -lzstd -lz

$(O)/tests/fuzz/snapshot: FUZZ_LIBS := -ljson-c
# hugepinctl but for its main()
$(O)/tests/fuzz/json $(O)/tests/fuzz/host: $(CTL_TESTED)
$(O)/tests/fuzz/json $(O)/tests/fuzz/host: FUZZ_LIBS := -ljson-c
$(O)/tests/fuzz/json.o $(O)/tests/fuzz/host.o: CPPFLAGS += -Iuser/hugepinctl

# kmod/spec.c with empty headers in place of the kernel's, and as the kernel compiles.
FUZZ_KERNEL := $(O)/tests/fuzz/kernel
FUZZ_KERNEL_FLAGS = -I$(FUZZ_KERNEL) -include tests/fuzz/kernel.h

$(FUZZ_KERNEL): kmod/spec.c kmod/hugepin.h kmod/uapi/hugepin.h
	mkdir -p $@/linux
	sed -n 's,^#include <linux/\(.*\)>.*,$@/linux/\1,p' $^ | xargs touch
	touch $@

$(O)/tests/fuzz/reserve.o $(O)/tests/fuzz/spec.o: $(FUZZ_KERNEL)
$(O)/tests/fuzz/reserve.o: CPPFLAGS += $(FUZZ_KERNEL_FLAGS)
$(O)/tests/fuzz/spec.o: kmod/spec.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(FUZZ_KERNEL_FLAGS) $(CFLAGS) -funsigned-char -Wno-sign-compare -c $< -o $@
$(O)/tests/fuzz/reserve: $(O)/tests/fuzz/spec.o

# The options' names and variables, from their reference page.
$(O)/tests/fuzz/words.dict: Documentation/options.md
	@mkdir -p $(@D)
	sed -n 's/^### \(.*\)/"\1"/p; s/^| environment | .\(.*\). |$$/"\1"/p' $< >$@

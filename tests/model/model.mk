# SPDX-License-Identifier: MIT
# The model of the pages' states, and the module's own code beside it, in user space (see model.h).
#
#	make model-check	every state of both; that leaving out a guard is found; that no function is missing

MODEL_O := $(O)/tests/model
MODEL_CODE := kmod/reserve.c kmod/account.c
# Headers of the kernel's that are empty here, and how the kernel compiles.
MODEL_KERNEL := $(MODEL_O)/kernel
MODEL_FLAGS := -I$(MODEL_KERNEL) -include tests/model/kernel.h -Ikmod -funsigned-char -Wno-sign-compare -Wno-unused-parameter

$(MODEL_KERNEL)/made: $(MODEL_CODE) kmod/hugepin.h kmod/trace.h kmod/uapi/hugepin.h
	@mkdir -p $(MODEL_KERNEL)/linux $(MODEL_KERNEL)/trace
	sed -n 's,^#include <\(.*\)>.*,$(MODEL_KERNEL)/\1,p' $^ | xargs touch
	touch $@

$(MODEL_O)/code.o: CFLAGS += $(MODEL_FLAGS)
$(MODEL_O)/code.o: $(MODEL_KERNEL)/made
$(MODEL_O)/kmod_%.o: kmod/%.c $(MODEL_KERNEL)/made
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(MODEL_FLAGS) -c $< -o $@

$(MODEL_O)/explore: $(MODEL_O)/explore.o $(MODEL_O)/model.o
	$(CC) $(LDFLAGS) -o $@ $^
$(MODEL_O)/code: $(MODEL_O)/code.o $(MODEL_O)/model.o $(MODEL_CODE:kmod/%.c=$(MODEL_O)/kmod_%.o)
	$(CC) $(LDFLAGS) -o $@ $^

tests: $(MODEL_O)/explore $(MODEL_O)/code

.PHONY: model-check
model-check: $(MODEL_O)/explore $(MODEL_O)/code
	tests/model/run $(MODEL_O)

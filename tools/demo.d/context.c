// SPDX-License-Identifier: MIT
/*
 * A context of the library. The demo says itself what it wants: options in the environment of whoever runs it must not
 * change what is shown. Each client makes its own context, since a child's calls on its parent's are refused.
 */
#include "demo.h"

int context_open(const struct setting *settings, size_t count, struct hugepin_context **out)
{
	struct hugepin_options *options;
	int err = hugepin_options_create(&options);

	if (err)
		return err;
	for (size_t i = 0; !err && i < count; i++)
		err = hugepin_options_set(options, settings[i].key, settings[i].value);
	if (!err)
		err = hugepin_context_create(options, out);
	hugepin_options_destroy(options);
	return err;
}

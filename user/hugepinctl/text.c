// SPDX-License-Identifier: MIT
/*
 * Text that others chose, made fit to be shown. Names of regions, processes and control groups are any bytes: a
 * terminal would obey some of them, and a reader of JSON refuses what is not UTF-8.
 */
#include <stdbool.h>
#include <stddef.h>

#include "hugepinctl.h"

/* Bytes of the character at @text, 0 where there is none: cut short, longer than it need be, or no character's. */
static size_t character_bytes(const unsigned char *text)
{
	size_t bytes = text[0] < 0x80 ? 1 : text[0] < 0xc2 ? 0 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;

	if (text[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < bytes; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
	    (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
		return 0;
	return bytes;
}

/* ASCII's control characters, and those of Latin-1 in their two bytes. */
static bool is_control(const unsigned char *text)
{
	return text[0] < 0x20 || text[0] == 0x7f || (text[0] == 0xc2 && text[1] < 0xa0);
}

static void replace(char *text, bool controls)
{
	unsigned char *at = (unsigned char *)text;

	while (*at) {
		size_t bytes = character_bytes(at);

		if (bytes && !(controls && is_control(at))) {
			at += bytes;
			continue;
		}
		for (bytes = bytes ? bytes : 1; bytes; bytes--)
			*at++ = '?';
	}
}

void text_for_json(char *text)
{
	replace(text, false);
}

void text_for_terminal(char *text)
{
	replace(text, true);
}

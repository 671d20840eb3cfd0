// SPDX-License-Identifier: MIT
/*
 * Ways to end with blocks in use and other threads at work: `exits return|exit|_exit|thread|misuse`. The status is 0,
 * but for misuse, a double free, which must end in SIGABRT.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "expect.h"

#define MIB	((size_t)1 << 20)

static void *churn(void *arg)
{
	(void)arg;
	for (;;) {
		char *block = malloc(2 * MIB);

		block[0] = 1;
		free(block);
	}
	return NULL;
}

static void *leave(void *arg)
{
	(void)arg;
	exit(0);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	char *volatile block = malloc(5 * MIB);	/* the compiler would see the double free */
	pthread_t thread;

	block[0] = 1;
	if (!strcmp(how, "misuse")) {		/* with other threads it could be theirs by the second time */
		free(block);
		free(block);
	}
	EXPECT(!pthread_create(&thread, NULL, churn, NULL));
	EXPECT(!pthread_create(&thread, NULL, churn, NULL));
	usleep(20000);
	if (!strcmp(how, "exit"))
		exit(0);
	if (!strcmp(how, "_exit"))
		_exit(0);
	if (!strcmp(how, "thread")) {
		EXPECT(!pthread_create(&thread, NULL, leave, NULL));
		pause();
	}
	return 0;
}

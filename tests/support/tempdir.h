// The temporary folder of a test program: made below $TMPDIR, else /tmp, when it is first asked for,
// removed with all that is in it when the program ends, whether its tests passed or not.

#ifndef TEST_TEMPDIR_H
#define TEST_TEMPDIR_H

#include <stddef.h>

// Its absolute path; fails the test when it cannot be made.
const char* tempdir(void);

// The path of a file in it. The text lives for the next seven calls.
const char* tempdir_path(const char* name);

// Write a file into it: a text, or bytes. Returns tempdir_path(name).
const char* tempdir_write(const char* name, const char* text);
const char* tempdir_write_bytes(const char* name, const void* bytes, size_t size);

// The whole file, NUL-terminated, to be freed; "" when there is none. file_text() takes any path.
char* tempdir_read(const char* name);
char* file_text(const char* path);

// Make a folder in it. Returns tempdir_path(name).
const char* tempdir_mkdir(const char* name);

// Remove the folder now; the next call of a function above makes another.
void tempdir_remove(void);

#endif

// Recordings of real machines, which are not part of the project: NEURALSIM_DATA names their folder
// (`make test` sets it when there is a folder ../shared/data).

#ifndef TEST_REALDATA_H
#define TEST_REALDATA_H

// The path of a file or folder below it; skips the test when it is not there. The text lives until
// the next call.
const char* need_data(const char* name);

#endif

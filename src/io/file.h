// Whole files.

#ifndef NSI_IO_FILE_H
#define NSI_IO_FILE_H

#include "base/base.h"

typedef NSI_ARRAY(char) nsi_bytes;

// Read a file to its end, or to one byte past `most`, so that the caller sees that it is too long.
// `out` starts empty and must be freed in any case.
// @return NS_OK, NS_ERR_IO, NS_ERR_NOMEM
ns_status nsi_file_read(const char* path, uint32_t most, const ns_allocator* allocator,
                        nsi_bytes* out, ns_error* error);

// Is there a file of this name: not a folder, and nothing that might never end?
bool nsi_file_exists(const char* path);

#endif

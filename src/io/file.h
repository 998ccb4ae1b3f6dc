// Read and write entire files.

#ifndef NSI_IO_FILE_H
#define NSI_IO_FILE_H

#include "base/common.h"

typedef NSI_ARRAY(char) nsi_bytes;

// Read a file to its end, or to one byte past `most`, so that the caller sees that it is too long.
// `out` starts empty and must be freed in any case.
// @return NS_OK, NS_ERR_IO, NS_ERR_NOMEM
ns_status nsi_file_read(const char* path, uint32_t most, const ns_allocator* allocator,
                        nsi_bytes* out, ns_error* error);

// Write a file so that at every moment, and after every failure, it has its old content or the new:
// under another name in the same folder first, then renamed. What is no regular file (/dev/stdout)
// is written to directly. An existing file keeps its permissions; links are followed.
// @return NS_OK, NS_ERR_IO, NS_ERR_NOMEM
ns_status nsi_file_write(const char* path, const void* bytes, size_t size,
                         const ns_allocator* allocator, ns_error* error);

// The same without waiting for the disk, which may take long: for what is of no use after the machine
// went down. The file may then be empty.
ns_status nsi_file_write_soon(const char* path, const void* bytes, size_t size,
                              const ns_allocator* allocator, ns_error* error);

// The folder of a file, ending with '/' or empty; NULL when out of memory.
char* nsi_file_folder(const char* path, const ns_allocator* allocator);

// The folders that data is searched in, in this order: `own`, the folder of the file that names the
// data, and the folder of the environment variable NEURALSIM_DATA unless it is empty or not set.
// @return their number, 1 or 2
enum { NSI_DATA_FOLDERS = 2 };
uint32_t nsi_data_folders(const char* own, const char* out[NSI_DATA_FOLDERS]);

// Search a data file below NEURALSIM_DATA, by a relative name without "..", whose links stay there. `out`
// receives a path to be freed, or NULL when there is none. False when out of memory.
bool nsi_file_find_data(const char* name, const ns_allocator* allocator, char** out);

// Is a file, named by an absolute path, below a folder, whose links are resolved?
bool nsi_file_below(const char* file, const char* folder);

// Is there a file of this name: not a folder, and nothing that might never end?
bool nsi_file_exists(const char* path);

#endif

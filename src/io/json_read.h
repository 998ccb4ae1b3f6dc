// Read JSON files with jansson; messages have the form of those for other files.

#ifndef NSI_IO_JSON_READ_H
#define NSI_IO_JSON_READ_H

#include "base/common.h"

#include <jansson.h>

// @param path  of the file, for messages
// @param most  bytes
// @param out   to be given back by json_decref()
// @return NS_OK; NS_ERR_LIMIT, NS_ERR_PARSE with line and column; NS_ERR_NOMEM
ns_status nsi_json_read(const char* text, size_t size, const char* path, size_t most, json_t** out,
                        ns_error* error);

#endif

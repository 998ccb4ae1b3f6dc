// Lists of numbers in files, the same in every locale.

#ifndef NSI_IO_NUMBERS_H
#define NSI_IO_NUMBERS_H

#include "base/common.h"

// Read between `min` and `max` finite numbers separated by white space; `count` receives how many
// there were.
// @return NS_OK; NS_ERR_PARSE with a message that quotes what is wrong
ns_status nsi_numbers_parse(const char* text, uint32_t min, uint32_t max, double* out,
                            uint32_t* count, ns_error* error);

// A text for a message: in quotes, cut off when long, control characters replaced.
enum { NSI_QUOTE_SIZE = 72 };
const char* nsi_quote(const char* text, size_t size, char out[NSI_QUOTE_SIZE]);

#endif

// Text that other readers of robot files take for XML, made well-formed.

#ifndef NSI_IO_XML_TIDY_H
#define NSI_IO_XML_TIDY_H

#include "io/xml.h"

// What was in the way, as bits, and how messages call it.
enum {
    NSI_XML_LEADING = 1,  // white space or a byte order mark before the XML declaration
    NSI_XML_TRAILING = 2, // zero bytes at the end
    NSI_XML_DASHES = 4,   // "--" in a comment
    NSI_XML_BYTES = 8,    // bytes that are no UTF-8, or control characters
    NSI_XML_FAULTS = 4    // how many there are
};
extern const char* const nsi_xml_fault_names[NSI_XML_FAULTS];

// Change the text in place so that lines stay where they are: what is in the way becomes white space,
// and bytes that are no UTF-8 become question marks. The text may become shorter.
// @return the faults that were found
uint32_t nsi_xml_tidy(char* text, size_t* size);

#endif

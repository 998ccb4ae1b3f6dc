// The script of our pages and its style, bundled from web/ and kept in the library; they are empty
// where the library was built without npm.

#ifndef NSI_REPORT_WEB_BUNDLE_H
#define NSI_REPORT_WEB_BUNDLE_H

#include "base/common.h"

typedef struct nsi_web_bundle {
    const char *script, *style; // not terminated
    size_t script_size, style_size;
    const char* hash; // of the script: base64 of its SHA-256, terminated
} nsi_web_bundle;

// False when there is none.
bool nsi_web_bundle_get(nsi_web_bundle* out);

// What to tell a person when there is none.
#define NSI_WEB_BUNDLE_MISSING                                                                     \
    "this program was built without the page's script; install npm and run 'make' again"

#endif

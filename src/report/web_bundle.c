// Files that the build made, as they are.

#include "report/web_bundle.h"

#ifdef NSI_WEB_FOLDER

#ifdef __APPLE__
#define SECTION ".const_data\n"
#define SYMBOL(name) "_" #name
#else
#define SECTION ".section .rodata\n"
#define SYMBOL(name) #name
#endif

// A zero byte follows, so that a text is terminated.
#define EMBED(name, file)                                                                          \
    __asm__(SECTION ".global " SYMBOL(name) "\n" SYMBOL(                                           \
        name) ":\n"                                                                                \
              ".incbin \"" NSI_WEB_FOLDER "/" file "\"\n"                                          \
              ".global " SYMBOL(name##_end) "\n" SYMBOL(name##_end) ":\n"                          \
                                                                    ".byte 0\n.text\n");           \
    extern const char name[], name##_end[]

EMBED(nsi_web_bundle_script, "page.js");
EMBED(nsi_web_bundle_style, "page.css");
EMBED(nsi_web_bundle_hash, "page.sha256");

// To C these are two arrays, which have no distance.
#define SIZE(name) ((size_t)((uintptr_t)name##_end - (uintptr_t)name))

bool nsi_web_bundle_get(nsi_web_bundle* out) {
    *out = (nsi_web_bundle){.script = nsi_web_bundle_script,
                            .style = nsi_web_bundle_style,
                            .script_size = SIZE(nsi_web_bundle_script),
                            .style_size = SIZE(nsi_web_bundle_style),
                            .hash = nsi_web_bundle_hash};
    return out->script_size > 0;
}

#else

bool nsi_web_bundle_get(nsi_web_bundle* out) {
    *out = (nsi_web_bundle){.hash = ""};
    return false;
}

#endif

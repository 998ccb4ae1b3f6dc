/// @file live_page.h
/// The page of a fit that is running: a server hands it out, and its script asks for the progress.
///
///     ns_live_page page = {.title = "pendulum", .progress_url = "progress",
///                          .text = "A fit is running. Load this page again to see its report."};
///     ns_text html;
///     ns_live_page_write(&page, NULL, &html, &error);
///
/// What the script expects at `progress_url` is in web/README.md.

#ifndef NEURALSIM_LIVE_PAGE_H
#define NEURALSIM_LIVE_PAGE_H

#include "neuralsim/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Texts are plain text; they are escaped.
typedef struct ns_live_page {
    const char* title;
    const char* text;         ///< first paragraph. With a progress_url it is for browsers without
                              ///< scripts
    const char* progress_url; ///< where the script asks for the progress; NULL: nothing is running
    const char* message;      ///< second paragraph, or NULL
    const char* report_url;   ///< of an earlier report, or NULL
} ns_live_page;

/// Write the page as HTML.
/// @param allocator  NULL for ns_default_allocator()
/// @param out        to be freed by ns_text_free(); zeroed after a failure
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_live_page_write(const ns_live_page* page, const ns_allocator* allocator,
                                    ns_text* out, ns_error* error);

#ifdef __cplusplus
}
#endif

#endif

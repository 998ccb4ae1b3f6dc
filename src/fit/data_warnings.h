// Warnings of data checks for fits, discoveries and scorings: one line each.

#ifndef NSI_FIT_DATA_WARNINGS_H
#define NSI_FIT_DATA_WARNINGS_H

#include "base/common.h"
#include "neuralsim/data_check.h"
#include "neuralsim/json.h"
#include "neuralsim/report.h"

// Zero, with the allocator of the arena set, is none.
typedef struct nsi_data_warnings {
    nsi_arena arena; // of the texts
    NSI_ARRAY(const char*) texts;
} nsi_data_warnings;

// Check data sets, whose rows were kept (nsi_dataset_keep_rows()) and are dropped now.
// @param sets   (nset) NULL: there is no such set
// @param names  (nset)
// @param model  or NULL
ns_status nsi_data_warnings_check(nsi_data_warnings* warnings, ns_dataset* const* sets,
                                  const char* const* names, uint32_t nset, const ns_model* model,
                                  ns_error* error);
void nsi_data_warnings_free(nsi_data_warnings* warnings);

// A section "Data" with a note for each; nothing when there are none.
void nsi_data_warnings_report(const char* const* texts, uint32_t count, ns_report* report);

// The member "data_warnings".
void nsi_data_warnings_record(const nsi_data_warnings* warnings, ns_json* j);

#endif

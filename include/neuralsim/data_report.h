/// @file data_report.h
/// Report of a data check (data_check.h): findings, statistics, and channels as curves with findings
/// marked. Link libneuralsim_report.a before libneuralsim.a.

#ifndef NEURALSIM_DATA_REPORT_H
#define NEURALSIM_DATA_REPORT_H

#include "neuralsim/data_check.h"
#include "neuralsim/report.h"

#ifdef __cplusplus
extern "C" {
#endif

/// @param check  outlives the report
/// @param out    to be freed by ns_report_free()
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_data_check_report(const ns_data_check* check, ns_report** out, ns_error* error);

#ifdef __cplusplus
}
#endif

#endif

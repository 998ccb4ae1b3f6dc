// Parameters of a pendulum, asked for and read.

#ifndef TEST_PARAMETER_RIG_H
#define TEST_PARAMETER_RIG_H

#include "model/model_data.h"
#include "support/assert.h"
#include "sysid/parameter_map.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 64 };

// ---- making them -------------------------------------------------------------------------------

static ns_model* pendulum;

static ns_system_options no_options;

static inline int load_pendulum(void** state) {
    (void)state;
    no_options = ns_default_system_options();
    ns_error error;
    return ns_model_load(NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf", NULL, &pendulum,
                         &error);
}

static inline int free_pendulum(void** state) {
    (void)state;
    ns_model_free(pendulum);
    return 0;
}

static inline nsi_parameter_request ask(const char* name) {
    return (nsi_parameter_request){
        .name = name, .how = ns_default_parameter(), .line = 3, .column = 5};
}

static inline nsi_parameter_request ask_own(const char* name, double start, double lower,
                                            double upper) {
    nsi_parameter_request r = ask(name);
    r.how.initial = start;
    r.how.lower = lower;
    r.how.upper = upper;
    return r;
}

static inline nsi_setting_request set(const char* name, const char* formula) {
    return (nsi_setting_request){.name = name, .formula = formula, .line = 7, .column = 9};
}

static inline ns_parameters* make(const nsi_parameter_request* requests, uint32_t nrequest,
                                  const nsi_setting_request* settings, uint32_t nsetting) {
    ns_parameters* v = NULL;
    ns_error error = {0};
    ns_status status =
        nsi_parameters_read(&(ns_variant){.model = pendulum, .options = &no_options}, 1, "e.yaml",
                            requests, nrequest, settings, nsetting, NULL, &v, &error);
    must(status, &error);
    return v;
}

static inline void refuse(const nsi_parameter_request* requests, uint32_t nrequest,
                          const nsi_setting_request* settings, uint32_t nsetting, const char* place,
                          const char* says) {
    ns_parameters* v = NULL;
    ns_error error = {0};
    ns_status status =
        nsi_parameters_read(&(ns_variant){.model = pendulum, .options = &no_options}, 1, "e.yaml",
                            requests, nrequest, settings, nsetting, NULL, &v, &error);
    assert_int_equal(status, NS_ERR_PARSE);
    assert_null(v);
    char start[32];
    snprintf(start, sizeof start, "e.yaml:%s: ", place);
    if (strncmp(error.message, start, strlen(start)) != 0 || !strstr(error.message, says)) {
        fail_msg("'%s', not '%s...%s'", error.message, start, says);
    }
}

static inline void assert_near(double a, double b, double tolerance, const char* what) {
    if (!(fabs(a - b) <= tolerance * fmax(1.0, fmax(fabs(a), fabs(b))))) {
        fail_msg("%s: %.17g is not %.17g", what, a, b);
    }
}

static inline double* scratch_of(const ns_parameters* v) {
    double* scratch = malloc(nsi_parameters_scratch(v) * sizeof *scratch);
    assert_non_null(scratch);
    return scratch;
}

// Derivatives of both maps at z against central differences.
static inline void check_derivatives(const ns_parameters* v, const double* z) {
    uint32_t n = ns_parameters_count(v), np = nsi_parameters_param_count(v, 0);
    double *scratch = scratch_of(v), *dv = calloc(n * n + 1, sizeof *dv);
    double *dp = calloc(np * n + 1, sizeof *dp), at[MOST], low[MOST], high[MOST], moved[MOST];
    nsi_parameters_from_z(v, z, at, dv, scratch);
    for (uint32_t j = 0; j < n; j++) {
        double h = 1e-5;
        memcpy(moved, z, n * sizeof *z);
        moved[j] = z[j] + h;
        nsi_parameters_from_z(v, moved, high, NULL, scratch);
        moved[j] = z[j] - h;
        nsi_parameters_from_z(v, moved, low, NULL, scratch);
        for (uint32_t i = 0; i < n; i++) {
            assert_near(dv[i * n + j], (high[i] - low[i]) / (2.0 * h), 1e-8, "dv/dz");
        }
    }
    nsi_parameters_params(v, 0, at, low, dp, scratch);
    for (uint32_t j = 0; j < n; j++) {
        double h = 1e-5 * fmax(1.0, fabs(at[j]));
        memcpy(moved, at, n * sizeof *z);
        moved[j] = at[j] + h;
        nsi_parameters_params(v, 0, moved, high, NULL, scratch);
        moved[j] = at[j] - h;
        nsi_parameters_params(v, 0, moved, low, NULL, scratch);
        for (uint32_t i = 0; i < np; i++) {
            assert_near(dp[i * n + j], (high[i] - low[i]) / (2.0 * h), 1e-8, "dp/dv");
        }
    }
    free(scratch);
    free(dv);
    free(dp);
}

#endif

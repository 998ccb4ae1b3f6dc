// Recordings beside what the model made of them before and after the fit, to be looked at.
//
// Predictions follow one another: each starts from a state that the model fits to the samples before
// it, or that is recorded, sees nothing afterwards, and ends at the longest horizon, or later where
// there would be too many of them.

#ifndef NSI_FIT_PREDICTION_TRACES_H
#define NSI_FIT_PREDICTION_TRACES_H

#include "fit/fit_state.h"
#include "report/motion_data.h"

// One recording; parts of it that belong to other sets are in it, too.
typedef struct nsi_trace {
    const char* name;
    uint32_t variant;     // of the robot
    uint32_t first, rows; // its rows
} nsi_trace;

typedef struct nsi_traces {
    ns_allocator allocator;
    NSI_ARRAY(nsi_trace) list;
    uint32_t left_out; // recordings for which there was no room
    uint32_t cut;      // recordings of which only the beginning is there
    uint32_t nchannel, nx, nc, rows;
    uint32_t ahead; // samples of a prediction; 0: to the end
    double* time;   // (rows) s
    uint8_t*
        roles; // (rows) an ns_data_role; NS_ROLE_COUNT: a row without numbers between two parts
    double* recorded;  // (rows x nchannel)
    double* measured;  // (rows x nx) states as recorded, NULL: coordinates are not all recorded
    double* controls;  // (rows x nc)
    double* values[2]; // (rows x nchannel) before and after the fit
    double* states[2]; // (rows x nx)
    double*
        bands[2]; // (rows x nchannel) 5 % and 95 % over draws of the posterior; NULL: there is none
} nsi_traces;

enum { NSI_BEFORE, NSI_AFTER };

// Recordings to test on come first, then those for validation and training, as long as there is room.
// @return NS_OK; NS_ERR_NOMEM
ns_status nsi_traces_make(const ns_fit* fit, nsi_traces* out, ns_error* error);
void nsi_traces_free(nsi_traces* traces); // zeroed and freed ones are allowed

// The variant whose recordings a page shows: that of the first.
static inline uint32_t nsi_traces_variant(const nsi_traces* traces) {
    return traces->list.count > 0 ? traces->list.data[0].variant : 0;
}

// To be looked at in a page.
// @param viewer  of the model of nsi_traces_variant()
ns_status nsi_traces_show(const nsi_traces* traces, const ns_fit* fit, ns_motion* viewer,
                          ns_error* error);

// As a table: traj, t, test, then each channel, with /before and /after, and with a posterior /low and /high.
ns_status nsi_traces_write(const nsi_traces* traces, const ns_fit* fit, const char* path,
                           ns_error* error);

#endif

// Checkpoint file of a fit: everything a resumed fit needs to reach the same result.
//
// One line with a checksum, then JSON. A new checkpoint replaces the old one in one go, and that one
// stays beside it with ".old" at the end of its name: whenever the program is killed, one of the two
// is whole.

#ifndef NSI_FIT_CHECKPOINT_H
#define NSI_FIT_CHECKPOINT_H

#include "fit/result.h"

// Arrays are borrowed when writing; after reading they belong to the checkpoint.
typedef struct nsi_checkpoint {
    uint64_t fingerprint; // of the experiment
    double seconds;       // so far
    uint32_t phase;       // at work
    uint32_t iteration;   // of the phase
    bool converged;       // the phase is at its end

    double *z, *w, *x; // numbers, weights, initial states
    uint32_t nz, nw, nx;
    double* solver; // state of the solver
    uint32_t nsolver;
    double *kept, kept_value; // the best point so far (nkept: 0 for none) and its value
    uint32_t nkept;
    double* best; // where the search ended (nbest: 0 for none)
    uint32_t nbest;

    ns_fit_phase* phases; // done; texts are not kept: name and finish are NULL after reading
    uint32_t nphase;
    ns_fit_history_point* history;
    uint32_t nhistory;
    ns_sparsity_point* path; // after reading, the norms of all begin with those of the first
    uint32_t npath, npath_name;
    bool has_path; // after reading: false in those of earlier versions
    ns_allocator allocator;
} nsi_checkpoint;

// @return NS_OK, NS_ERR_IO, NS_ERR_NOMEM
ns_status nsi_checkpoint_write(const char* path, const nsi_checkpoint* checkpoint,
                               const ns_allocator* allocator, ns_error* error);

// The newest of the two that is whole.
// @param fingerprint  of the experiment: another one is refused
// @param damaged      receives whether the newest was not
// @return NS_OK; NS_ERR_IO: there is none; NS_ERR_PARSE: none is whole, or it belongs to another
//         experiment; NS_ERR_NOMEM
ns_status nsi_checkpoint_read(const char* path, uint64_t fingerprint, const ns_allocator* allocator,
                              nsi_checkpoint* out, bool* damaged, ns_error* error);
void nsi_checkpoint_free(nsi_checkpoint* checkpoint); // one that was read; zeroed is allowed

// A 64-bit hash of bytes (FNV-1a), continued from `hash`; begin with NSI_HASH_START.
#define NSI_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t nsi_hash64(uint64_t hash, const void* bytes, size_t size);

#endif

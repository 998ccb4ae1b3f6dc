// Discovery: what is missing in a model, found from recordings.
//
//     library      every term that might be missing: a parameter that is wrong, or a formula at a
//                  force; one system has them all, with coefficients of 0 (candidate_*.c)
//     workspace    that system, and recordings cut into windows, with one objective per fold
//                  (workspace.c); refits of active terms (workspace_refit.c)
//     gram         normal equations of all terms per fold, initial states eliminated: what a term
//                  would explain, also in held-out folds, is small dense algebra (gram.c)
//     selection    forward, backward and exchange steps (selection.h)
//     thresholds   every number that decides (discover_thresholds.h)
//
// A term has one unknown number: the change of a parameter, or a coefficient that several formulas
// share (drag along x, y and z). The unknowns of the objective are called columns; a term is a sum
// of them.

#ifndef NSI_DISCOVER_DISCOVER_STATE_H
#define NSI_DISCOVER_DISCOVER_STATE_H

#include "discover/discover_thresholds.h"
#include "fit/fit_state.h"
#include "neuralsim/discover.h"

// ---- candidate_library.c ---------------------------------------------------------------------

typedef enum nsi_term_kind {
    NSI_TERM_PARAMETER,
    NSI_TERM_FORMULA,
    NSI_TERM_SHAPE, // a number inside a formula, the v of tanh(qd / v): active with its term
    NSI_TERM_GIVEN  // a parameter that the file itself fits: always active
} nsi_term_kind;

// What a term acts on.
typedef enum nsi_site_kind {
    NSI_SITE_JOINT,           // force of a joint with one coordinate
    NSI_SITE_JOINT_COMPONENT, // one force of a ball or floating joint
    NSI_SITE_JOINT_PAIR,      // equal and opposite forces of two joints
    NSI_SITE_LINK_FORCE,
    NSI_SITE_LINK_TORQUE,
    NSI_SITE_PARAMETER
} nsi_site_kind;

typedef struct nsi_site {
    nsi_site_kind kind;
    const char* name;   // "joint/elbow/tau", "link/a/force", "link/*/force/x", "link/a/mass"
    uint32_t link;      // that the joint carries, or that the force acts on; NSI_NONE: all links
    uint32_t other;     // of pairs: the link of the second joint; otherwise NSI_NONE
    uint32_t component; // of a joint's forces; x y z of a link's; NSI_NONE: all of them. Of a
                        // parameter: its variable
} nsi_site;

// A coefficient in a formula of the library: "k3" of k3 * tanh("joint/a/velocity" / s3).
typedef struct nsi_atom {
    uint32_t output;       // number of the quantity it adds to
    uint32_t host;         // the quantity whose formula holds it in the library, to the same effect
    const char* factor;    // formula that the coefficient multiplies
    uint32_t speed_link;   // link of the joint whose speed scales the shape s; NSI_NONE: no shape
    uint32_t shape_number; // the 3 of "s3"
    double speed_share;    // of that speed where s starts
    uint32_t column;       // of the coefficient
    uint32_t shape_column; // of s, or NSI_NONE
} nsi_atom;

typedef struct nsi_term_part {
    uint32_t column;
    double sign;   // 1 or -1
    uint32_t atom; // NSI_NONE: a parameter
} nsi_term_part;

typedef struct nsi_term {
    nsi_term_kind kind;
    bool extended;        // of the extended library
    const char* name;     // "joint/elbow/tau: qd", "link/link1/mass"; unique
    uint32_t site;        // NSI_NONE: a shape
    const char* quantity; // name of the site
    const char* form;     // of formulas: "qd", "|v| v"
    const char* unit;     // of parameters
    uint32_t equivalent;  // parameter with the same effect and the opposite sign, or NSI_NONE
    double start;         // of parameters and shapes: their value when the term's number is 0
    double complexity;    // among terms the data cannot distinguish, the simplest is taken
    uint32_t shape;       // the term of its shape, or NSI_NONE
    uint32_t owner;       // of shapes: the term they belong to
    const nsi_term_part* parts;
    uint32_t npart;
} nsi_term;

typedef struct nsi_term_library {
    ns_allocator allocator;
    nsi_arena arena;
    NSI_ARRAY(nsi_site) sites;
    NSI_ARRAY(const char*) outputs; // quantities with a formula
    NSI_ARRAY(nsi_atom) atoms;
    NSI_ARRAY(nsi_term) terms;
    ns_blueprint* blueprint; // that of the model, if it has one, and all atoms
    ns_parameters* variables;
    uint32_t ncolumn, nz; // columns: variables, then weights
    uint32_t omitted;     // kinds of terms beyond nsi_thresholds.library
} nsi_term_library;

// @param extended  the link of a joint at which there are many more terms; NSI_NONE: none
// @return NS_OK; NS_ERR_PARSE: a glob of the file matches nothing; NS_ERR_NOMEM, ...
ns_status nsi_term_library_make(ns_fit* fit, uint32_t extended, nsi_term_library* out,
                                ns_error* error);
void nsi_term_library_free(nsi_term_library* library);

// Columns of atoms and parts, once the system exists.
ns_status nsi_term_library_bind(nsi_term_library* library, const ns_system* system,
                                ns_error* error);

// ---- candidate_blueprint.c -------------------------------------------------------------------

// The blueprint with the given terms only.
// @param values  (terms)
ns_status nsi_term_library_blueprint(const nsi_term_library* library, const ns_fit* fit,
                                     const uint32_t* terms, uint32_t nterm, const double* values,
                                     ns_blueprint** out, ns_error* error);

// The blueprint of the file or the model, or NULL.
const ns_blueprint* nsi_discover_base(const ns_fit* fit);

// ---- candidate_parameters.c ------------------------------------------------------------------

// A parameter's value before anything is found: the model's, or that of the hybrid file.
double nsi_discover_value(const ns_fit* fit, const ns_param* param);

// The number of a scalar parameter by what it is; NSI_NONE: the model has none.
uint32_t nsi_discover_find_param(const ns_model* model, ns_param_kind kind, uint32_t owner);

// ---- workspace.c -----------------------------------------------------------------------------

// Receives the current activity and may stop the search; shared by a discovery and its second pass.
typedef struct nsi_discover_progress {
    ns_discover_observer* observe; // or NULL
    void* context;
    double began;
    char activity[300];
    bool stopped; // the search ends, and the observer is not called again
} nsi_discover_progress;

// Call the observer; true: stop.
bool nsi_discover_poll(nsi_discover_progress* progress);
// The same for nsi_lm(), whose context it is.
bool nsi_discover_poll_lm(void* progress, const ns_solver_progress* unused);

typedef struct nsi_workspace {
    ns_fit* fit;
    const nsi_term_library* library;
    nsi_discover_progress* progress;
    ns_allocator allocator;
    ns_system* system;
    nsi_problem* problem;
    uint32_t nx, nt;
    uint32_t length; // of windows, samples
    nsi_objective* folds[NSI_FOLDS];
    uint32_t nfold;
    double* values;        // (terms) the current point
    double *z0, *w0;       // of the model
    double *S, *b, *step;  // scratch: (columns x columns), (columns), (columns)
    double *A, *rhs, *old; // scratch of refits: (terms x terms), (terms), (terms)
    double* held;          // (terms) steps that are imposed; NaN: the term is free
    uint32_t *chosen,
        *at; // (columns) those of the active terms, and the position of each among them
    uint32_t nchosen;
} nsi_workspace;

ns_status nsi_workspace_make(ns_fit* fit, nsi_term_library* library, nsi_workspace* out,
                             ns_error* error);
void nsi_workspace_free(nsi_workspace* workspace);

// Cut the recordings into windows of so many samples; initial states are guessed anew, values of
// terms stay. Folds are recordings, or stretches where there are too few.
ns_status nsi_workspace_cut(nsi_workspace* workspace, uint32_t length, ns_error* error);

// Characteristic half-period in samples, from the range and speed of the coordinates.
uint32_t nsi_workspace_half_period(const nsi_workspace* workspace);

// The sum of squared residuals at the current point; INFINITY when a simulation does not stay
// finite.
double nsi_workspace_cost(nsi_workspace* workspace);

// Copy of the current point, initial states included, to be freed; and back to it.
double* nsi_workspace_save(const nsi_workspace* workspace);
void nsi_workspace_restore(nsi_workspace* workspace, const double* saved);

// A system with this blueprint and the variables of the library, for the same recordings.
ns_status nsi_workspace_system(const nsi_workspace* workspace, const ns_system_options* options,
                               const ns_blueprint* blueprint, ns_system** system,
                               nsi_problem** problem, ns_error* error);
// Weights of the networks and formulas of the model, copied into those of a system with more.
ns_status nsi_discover_base_weights(const ns_fit* fit, const ns_system* system, double* out,
                                    ns_error* error);
// Its variables for these values of terms (nz).
void nsi_workspace_variables(const nsi_workspace* workspace, const double* values, double* z);

// Samples of the longest recording.
uint32_t nsi_workspace_longest(const ns_dataset* data);

// Window options of all objectives; and how many windows keep to
// nsi_thresholds.windows.max_residuals.
ns_window_options nsi_workspace_windows(const nsi_workspace* workspace, uint32_t length);
uint32_t nsi_workspace_max_windows(const nsi_problem* problem, uint32_t length);

// Mean and mean square of a component of the state, guessed along the training recordings.
typedef struct nsi_state_spread {
    double sum, squares;
    uint32_t count;
} nsi_state_spread;
// @param x  (nx) scratch
nsi_state_spread nsi_workspace_spread(const nsi_workspace* workspace, uint32_t component,
                                      double* x);

// ---- workspace_refit.c -----------------------------------------------------------------------

// Minimise the sum of squares over all initial states and the given terms; returns it. When it is
// stopped: that of the current point, or INFINITY while that is not known.
double nsi_workspace_refit(nsi_workspace* workspace, const uint32_t* active, uint32_t nactive,
                           nsi_refit_limits limits);

// ---- integrator_error.c ----------------------------------------------------------------------

// How much of the residuals, with all terms as they are, the integrator explains: the sum of
// squares without its error, as other integrators and time steps show it.
// @param other  receives the one that explains most, or ""
ns_status nsi_workspace_numerical(nsi_workspace* workspace, double* squares, char other[80],
                                  ns_error* error);

// Root mean square of residuals for a set of recordings, initial states fitted; NaN: not finite.
ns_status nsi_workspace_score(nsi_workspace* workspace, const ns_dataset* data,
                              const double* values, double* out, ns_error* error);

// ---- gram.c ----------------------------------------------------------------------------------

typedef struct nsi_gram {
    ns_allocator allocator;
    uint32_t n, nfold;             // n: terms
    double* G[NSI_FOLDS + 1];      // (n x n) full; the last: of all folds
    double* h[NSI_FOLDS + 1];      // (n)
    double squares[NSI_FOLDS + 1]; // after initial states alone are fitted
    double freedom;                // residuals less initial states, in all
    // Scratch of the solves below.
    double* factor;                    // (n x n)
    double *scale, *solution, *column; // (n)
    bool* dropped;                     // (n)
    uint32_t* subset;                  // (n)
} nsi_gram;

// At the current point of the workspace. When it is stopped, the result is incomplete.
ns_status nsi_gram_take(nsi_workspace* workspace, nsi_gram* out, ns_error* error);
// An empty one for n terms and so many folds.
ns_status nsi_gram_make(const ns_allocator* allocator, uint32_t n, uint32_t nfold, nsi_gram* out,
                        ns_error* error);
void nsi_gram_free(nsi_gram* gram); // zeroed and freed ones are allowed

// The minimal sum of squares over steps of these different terms; ridge: share of the diagonal that
// is added. Terms that depend on others do not move.
double nsi_gram_explain(const nsi_gram* gram, const uint32_t* terms, uint32_t count, double ridge);
// The same in held-out folds: each fold with the step of all others.
double nsi_gram_held_out(const nsi_gram* gram, const uint32_t* terms, uint32_t count, double ridge);
// Variance of the step of each term (count) for residuals of variance 1; INFINITY: not
// identifiable.
void nsi_gram_variances(const nsi_gram* gram, const uint32_t* terms, uint32_t count,
                        double* variances);
// Share of a term's effect that these others do not have. 1: orthogonal to them; 0: a combination
// of them.
double nsi_gram_own_share(const nsi_gram* gram, const uint32_t* terms, uint32_t count,
                          uint32_t term);

// ---- selection.c -----------------------------------------------------------------------------

// A candidate that explains nearly as much as the term that entered.
typedef struct nsi_rival {
    uint32_t term;
    double squares; // with it instead
    bool equal;     // the data cannot distinguish them
} nsi_rival;

typedef enum nsi_step_kind { NSI_STEP_FORWARD, NSI_STEP_EXCHANGE, NSI_STEP_BACKWARD } nsi_step_kind;

typedef struct nsi_selection_step {
    nsi_step_kind kind;
    uint32_t term, replaced;                // exchanged: the new term and the old one
    uint32_t length;                        // of windows
    double before, after;                   // sums of squares
    double held_out_before, held_out_after; // mean squares of held-out folds
    const nsi_rival* rivals;
    uint32_t nrival;
} nsi_selection_step;

typedef struct nsi_rank {
    uint32_t site;
    const char* quantity; // its name
    double share;         // of the sum of squares that its best few terms explain in held-out folds
} nsi_rank;
typedef NSI_ARRAY(nsi_rank) nsi_ranks;

typedef struct nsi_level { // one length of windows
    uint32_t length, windows, residuals;
    double before, after; // root mean square residuals
} nsi_level;

// A network, where no formula fits.
typedef struct nsi_learned_force {
    ns_blueprint* blueprint; // of all that was found, formulas included; NULL: there is no network
    ns_system* system;
    double* weights;
    const char *quantity, *form, *text;
    double before, after; // root mean square residuals of held-out windows
} nsi_learned_force;

struct ns_discovery {
    ns_allocator allocator;
    nsi_arena arena;
    ns_fit* fit;
    nsi_term_library library;
    nsi_workspace workspace;
    bool ran;
    const char* extended; // the joint's force whose library was extended, or NULL

    NSI_ARRAY(uint32_t) active; // terms, shapes included
    NSI_ARRAY(nsi_selection_step) steps;
    nsi_ranks ranks; // best first
    nsi_ranks rest;  // the same of what was left at the end
    NSI_ARRAY(nsi_level) levels;
    uint32_t ncandidate, ninert;   // terms with and without effect
    double* errors;                // (terms) standard errors
    bool* traded;                  // (terms) part of a group below
    NSI_ARRAY(const char*) groups; // of parameters that can be traded against each other, in words
    nsi_learned_force learned;
    bool numerical; // it ended where what is left is the integrator's error
    char other[80]; // integrator and time step that show it
    double numerical_share;
    double noise; // root mean square residual from noise of the recordings alone; NaN: not known
    double held_out[2];             // root mean square residuals of held-out windows: before, after
    double score[NS_ROLE_COUNT][2]; // the same of sets of recordings; NaN: none
    double seconds;
    NSI_ARRAY(ns_discovered) found;
    NSI_ARRAY(ns_note) notes;

    nsi_discover_progress* progress;
};

// Report the current activity to the observer; true: stop.
bool nsi_discover_report_activity(ns_discovery* d, const char* activity);

ns_status nsi_discover_select(ns_discovery* d, ns_error* error);

// ---- site_ranking.c --------------------------------------------------------------------------

typedef NSI_ARRAY(uint32_t) nsi_site_list;

// Forces of joints at which a law seems to be missing that the library does not have: where many
// terms came together, and when much is left the best of the ranking. To be freed.
ns_status nsi_discover_suspects(const ns_discovery* d, nsi_site_list* out, ns_error* error);

// ---- selection_summary.c ---------------------------------------------------------------------

// Is much more left than noise, and of the first residual?
bool nsi_discover_is_open(const ns_discovery* d);

// ---- network_fallback.c ----------------------------------------------------------------------

// Is what is left far above the noise?
bool nsi_discover_is_misfit(const ns_discovery* d);

// When much is left that no formula explains: a small network at a joint's force, with as few
// inputs as possible. It stays when held-out windows confirm it.
ns_status nsi_discover_learn(ns_discovery* d, ns_error* error);

// Can the term be proposed?
static inline bool nsi_term_is_candidate(const nsi_term* t) {
    return t->kind == NSI_TERM_PARAMETER || t->kind == NSI_TERM_FORMULA;
}

#endif

// Discovery: what is missing in a model, found from recordings.
//
//     dictionary   every term that might be missing: a parameter that is wrong, or a formula at a force;
//                  one big system has them all, with coefficients of 0 (candidates.c)
//     bench        that system, recordings cut into windows, and one evaluator per fold; refits of chosen
//                  terms by Levenberg-Marquardt (workspace.c)
//     moments      normal equations of all terms per fold, start states eliminated: every question of
//                  "what would this term explain, also where it was not fitted" is small dense algebra
//                  (gram.c)
//     selection    terms enter, are exchanged and leave (selection.c)
//
// A term has one unknown number: the change of a parameter, or a coefficient that several formulas share
// (drag along x, y and z). The evaluator's unknowns are called columns; a term is a sum of them.

#ifndef NSI_DISCOVER_DISCOVER_STATE_H
#define NSI_DISCOVER_DISCOVER_STATE_H

#include "fit/fit_state.h"
#include "neuralsim/discover.h"

// ---- candidates.c --------------------------------------------------------------------------

typedef enum nsi_term_kind {
    NSI_TERM_PARAMETER,
    NSI_TERM_FORMULA,
    NSI_TERM_SHAPE, // a number inside of a formula, the v of tanh(qd / v): goes along with its term
    NSI_TERM_GIVEN  // a parameter that the file itself fits: always in
} nsi_term_kind;

// A coefficient in a formula of the dictionary: "k3" of k3 * tanh("joint/a/velocity" / s3).
typedef struct nsi_atom {
    uint32_t output; // number of the quantity it adds to
    uint32_t
        host; // the quantity at whose formula it stands in the dictionary, which comes to the same
    const char* factor; // text of what it is multiplied by, a formula
    const char* speed;  // the quantity by which s is scaled, or NULL: there is none
    double share;       // of the speed's size that s starts with
    uint32_t column;    // of the coefficient
    uint32_t shape;     // column of s, or NSI_NONE
    uint32_t index;     // number in its host's formula
} nsi_atom;

typedef struct nsi_term_part {
    uint32_t column;
    double sign;   // 1 or -1
    uint32_t atom; // NSI_NONE: a parameter
} nsi_term_part;

typedef struct nsi_term {
    nsi_term_kind kind;
    bool wide;        // of the second dictionary
    const char* name; // "joint/elbow/tau: qd", "link/link1/mass"; unique
    const char*
        place; // what it stands at: "joint/elbow/tau", "link/a/force", "link/*/force", or the name
    const char* form;    // of formulas: "qd", "|v| v"
    const char* unit;    // of parameters
    const char* same_as; // a parameter that does the same with the opposite sign, or NULL
    double start;        // of parameters and shapes: their value when the term's number is 0
    double cost; // how far-fetched it is: of two that explain the same, the cheaper one is taken
    uint32_t of; // of shapes: the term. Of terms: their shape, or NSI_NONE
    const nsi_term_part* parts;
    uint32_t npart;
} nsi_term;

typedef struct nsi_dictionary {
    ns_allocator allocator;
    nsi_arena arena;
    NSI_ARRAY(const char*) outputs; // quantities with a formula
    NSI_ARRAY(nsi_atom) atoms;
    NSI_ARRAY(nsi_term) terms;
    ns_blueprint* blueprint; // that of the model, if it has one, and all atoms
    ns_parameters* variables;
    uint32_t ncolumn, nz; // columns: variables, then weights
    uint32_t left_out;    // terms for which there was no room
} nsi_dictionary;

// @param wide  the force of a joint at which there are many more terms; NULL: none
// @return NS_OK; NS_ERR_PARSE: a glob of the file fits nothing; NS_ERR_NOMEM, ...
ns_status nsi_dictionary_make(ns_fit* fit, const char* wide, nsi_dictionary* out, ns_error* error);
void nsi_dictionary_free(nsi_dictionary* dictionary);

// After the system is there: columns of atoms and parts.
ns_status nsi_dictionary_bind(nsi_dictionary* dictionary, const ns_system* system, ns_error* error);

// The blueprint with the given terms only.
// @param values  (terms)
ns_status nsi_dictionary_blueprint(const nsi_dictionary* dictionary, const ns_fit* fit,
                                   const uint32_t* terms, uint32_t nterm, const double* values,
                                   ns_blueprint** out, ns_error* error);

// A parameter's value before anything is found: the model's, or that of the hybrid file.
double nsi_discover_value(const ns_fit* fit, const ns_param* param);

// The blueprint that the file or the model brings along, or NULL.
const ns_blueprint* nsi_discover_base(const ns_fit* fit);

// ---- workspace.c --------------------------------------------------------------------------

enum { NSI_FOLDS = 5 };

// Who is told what is being done, and may stop it; shared by a discovery and its second looks.
typedef struct nsi_watch {
    ns_discover_observer* observe; // or NULL
    void* context;
    double began;
    char doing[300];
    bool stopped; // nothing more is looked for, and it is not asked again
} nsi_watch;

// Ask the observer; true: stop.
bool nsi_watch_asks(nsi_watch* watch);
// The same for nsi_objective_lm(), whose context it is.
bool nsi_watch_lm(void* watch, const ns_solver_progress* progress);

typedef struct nsi_workspace {
    ns_fit* fit;
    const nsi_dictionary* dictionary;
    nsi_watch* watch;
    ns_allocator allocator;
    ns_system* system;
    nsi_problem* problem;
    uint32_t nx, nt;
    uint32_t length; // of windows, samples
    nsi_objective* folds[NSI_FOLDS];
    uint32_t nfold;
    double* values;        // (terms) where it stands
    double *z0, *w0;       // of the model
    double *S, *b, *step;  // scratch: (columns x columns), (columns), (columns)
    double *A, *rhs, *old; // scratch of refits: (terms x terms), (terms), (terms)
    double* moves;         // (terms) of those that are held in a step; NaN: not held
    uint32_t *chosen, *at; // (columns) those of the terms at work, and the place of each among them
    uint32_t nchosen;
} nsi_workspace;

ns_status nsi_workspace_make(ns_fit* fit, nsi_dictionary* dictionary, nsi_workspace* out,
                             ns_error* error);
void nsi_workspace_free(nsi_workspace* bench);

// The same terms in a bench with windows of so many samples; start states are guessed anew. Folds are
// recordings, or where there are too few, parts of them.
ns_status nsi_workspace_cut(nsi_workspace* bench, uint32_t length, ns_error* error);

// Half a swing or so, in samples: by how far and how fast coordinates go.
uint32_t nsi_workspace_pace(const nsi_workspace* bench);

// The sum of squared residuals where it stands; INFINITY when a simulation does not stay finite.
double nsi_workspace_value(nsi_workspace* bench);

// Move all start states and the given terms to where the sum of squares is least; returns it. When it is
// stopped: that of where it has come to, or INFINITY while that is not known.
double nsi_workspace_refit(nsi_workspace* bench, const uint32_t* active, uint32_t nactive,
                           uint32_t iterations, double tolerance);

// Where it stands, start states included: to be freed; and go back there.
double* nsi_workspace_save(const nsi_workspace* bench);
void nsi_workspace_restore(nsi_workspace* bench, const double* saved);

// How much of the residuals, of all terms as they are, is due to numbers of the simulation: the sum of squares
// that is left when the error of the integrator is taken away, as other integrators and steps show it.
// @param other  receives which one explains most, or ""
ns_status nsi_workspace_numerical(nsi_workspace* bench, double* squares, char other[80],
                                  ns_error* error);

// A system with this blueprint and the variables of the dictionary, for the same recordings.
ns_status nsi_workspace_system(const nsi_workspace* bench, const ns_system_options* options,
                               const ns_blueprint* blueprint, ns_system** system,
                               nsi_problem** problem, ns_error* error);
// Weights of the networks and formulas that the model brings along, into those of a system with more.
ns_status nsi_discover_base_weights(const ns_fit* fit, const ns_system* system, double* out,
                                    ns_error* error);
// Its variables for these values of terms (nz).
void nsi_workspace_variables(const nsi_workspace* bench, const double* values, double* z);

// Root mean square of residuals for a set of recordings, start states fitted; NaN: cannot be told.
ns_status nsi_workspace_score(nsi_workspace* bench, const ns_dataset* data, const double* values,
                              double* out, ns_error* error);

// ---- gram.c ------------------------------------------------------------------------

typedef struct nsi_gram {
    ns_allocator allocator;
    uint32_t n, nfold;             // n: terms
    double* G[NSI_FOLDS + 1];      // (n x n) full; the last: of all folds
    double* h[NSI_FOLDS + 1];      // (n)
    double squares[NSI_FOLDS + 1]; // of what start states alone leave
    double freedom;                // residuals less start states, in all
} nsi_gram;

// At the point where the bench stands. When it is stopped they are of no use.
ns_status nsi_gram_take(nsi_workspace* bench, nsi_gram* out, ns_error* error);
void nsi_gram_free(nsi_gram* moments); // zeroed and freed ones are allowed

// The least sum of squares with steps of these terms; `step` (count) or NULL; ridge: share of the diagonal
// that is added. Terms that others make superfluous do not move.
double nsi_gram_explain(const nsi_gram* m, const uint32_t* terms, uint32_t count, double ridge,
                        double* step);
// The same where it was not fitted: each fold with the step of all others.
double nsi_gram_held_out(const nsi_gram* m, const uint32_t* terms, uint32_t count, double ridge);
// Variance of the step of each term (count) for residuals of variance 1; INFINITY: not determined.
void nsi_gram_variances(const nsi_gram* m, const uint32_t* terms, uint32_t count,
                        double* variances);
// Is the term, but for the others, determined at all? 1: nothing in common with them; 0: theirs.
double nsi_gram_own_share(const nsi_gram* m, const uint32_t* terms, uint32_t count, uint32_t term);

// ---- selection.c -------------------------------------------------------------------------

// What explains nearly as much as a term that was taken.
typedef struct nsi_rival {
    uint32_t term;
    double squares; // with it instead
    bool equal;     // the data cannot tell them apart
} nsi_rival;

typedef enum nsi_move_kind { NSI_MOVE_ENTER, NSI_MOVE_SWAP, NSI_MOVE_LEAVE } nsi_move_kind;

typedef struct nsi_move { // of the selection
    nsi_move_kind kind;
    uint32_t term, instead;                 // swapped in, for this one
    uint32_t length;                        // of windows
    double before, after;                   // sums of squares
    double held_out_before, held_out_after; // mean squares of what was not fitted
    const nsi_rival* rivals;
    uint32_t nrival;
} nsi_move;

typedef struct nsi_rank {
    const char* place;
    double share; // of the sum of squares that its best few terms explain, held out
} nsi_rank;
typedef NSI_ARRAY(nsi_rank) nsi_ranks;

typedef struct nsi_level { // one length of windows
    uint32_t length, windows, residuals;
    double before, after; // root mean square residuals
} nsi_level;

// A network, where no formula says it.
typedef struct nsi_learned_force {
    ns_blueprint* blueprint; // of all that was found, formulas included; NULL: there is no network
    ns_system* system;
    double* weights;
    const char *place, *form, *text;
    double before, after; // root mean square residuals of windows that it was not trained on
} nsi_learned_force;

struct ns_discovery {
    ns_allocator allocator;
    nsi_arena arena;
    ns_fit* fit;
    nsi_dictionary dictionary;
    nsi_workspace bench;
    bool ran;
    const char* wide; // the joint's force whose dictionary was widened, or NULL

    NSI_ARRAY(uint32_t) active; // terms, shapes included
    NSI_ARRAY(nsi_move) moves;
    nsi_ranks ranks; // best first
    nsi_ranks rest;  // the same of what was left at the end
    NSI_ARRAY(nsi_level) levels;
    uint32_t ncandidate, nidle; // terms with and without effect
    double first;               // mean square before, at the first level
    double* errors;             // (terms) standard errors
    nsi_learned_force learned;
    bool numerical; // it ended where what is left is the integrator's
    char other[80]; // integrator and step that tell so
    double numerical_share;
    double
        noise; // root mean square residual that noise of the recordings would leave; NaN: not known
    double held_out[2]; // root mean square residuals of windows that were not fitted: before, after
    double score[NSI_ROLES][2]; // the same of sets of recordings; NaN: none
    double seconds;
    NSI_ARRAY(ns_discovered) found;
    NSI_ARRAY(ns_note) notes;

    nsi_watch* watch;
};

// Tell the observer; true: stop.
bool nsi_discover_tell(ns_discovery* d, const char* doing);

ns_status nsi_discover_select(ns_discovery* d, ns_error* error);

// Forces of joints at which a law seems to be missing that the dictionary has not: where many terms came
// together, and when much is left the best of the ranking. NULL: there is none with this number.
const char* nsi_discover_suspect(const ns_discovery* d, uint32_t number);

// Is much more left than noise, and of what was there at first?
bool nsi_discover_is_open(const ns_discovery* d);

// ---- network_fallback.c ------------------------------------------------------------------------

// When much is left that no formula says: a small network at a joint's force, of as few coordinates as do. It is
// kept when windows that it was not trained on say so.
ns_status nsi_discover_learn(ns_discovery* d, ns_error* error);

// Is it a term that can be proposed?
static inline bool nsi_term_is_candidate(const nsi_term* t) {
    return t->kind == NSI_TERM_PARAMETER || t->kind == NSI_TERM_FORMULA;
}

#endif

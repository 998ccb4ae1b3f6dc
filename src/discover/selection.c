// Selection: terms enter one at a time, are exchanged for better ones and leave again, in windows that
// grow. Which terms are worth a try is told by the normal equations; which one is taken by refits, since
// a wrong mass of a fifth is not a small change.
//
// A term enters when
//   - an F test with Bonferroni's correction for the number of candidates says that it is no chance,
//   - it explains more where it was not fitted (recordings left out), and a share worth having,
//   - the error of the integrator does not explain the same.
// Of terms that the data cannot tell apart, the least far-fetched is taken and the others are told.

#include "discover/discover_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_MOVES = 12,
    TRIALS = 6,         // refits of candidates, the best by the normal equations
    TRIALS_OF_KIND = 2, // and the best of parameters and of formulas
    LEVELS = 3
};

static const double least_share = 0.003; // of the sum of squares that a term must explain
static const double chance = 1e-4;       // that one of all candidates enters by chance
static const double nothing = 1e-7; // share of the first sum of squares that is as good as none
static const double worth = 1e-5;   // share of it that a term must explain

typedef struct trial {
    uint32_t term;
    double linear;  // sum of squares by the normal equations
    double squares; // by a refit
    double* point;
    uint32_t same; // the trial whose term does exactly the same here, or NSI_NONE
} trial;

typedef struct selection {
    ns_discovery* d;
    ns_error* error;
    nsi_gram m;
    double squares;   // where the bench stands
    double first;     // without any term, at this length of windows
    double numerical; // sum of squares without the integrator's error; NaN: not asked yet
    bool* idle;       // (terms) without effect
} selection;

static const nsi_term* term_of(const selection* s, uint32_t k) {
    return &s->d->dictionary.terms.data[k];
}

bool nsi_watch_asks(nsi_watch* w) {
    if (!w->stopped && w->observe) {
        w->stopped = w->observe(w->context, w->doing, nsi_clock_wall() - w->began);
    }
    return w->stopped;
}

bool nsi_discover_tell(ns_discovery* d, const char* doing) {
    snprintf(d->watch->doing, sizeof d->watch->doing, "%s", doing);
    return nsi_watch_asks(d->watch);
}

static bool is_stopped(const selection* s) {
    return s->d->watch->stopped;
}

// What is too little to be looked at.
static double floor_of(const selection* s) {
    return fmax(nothing * s->first, 1e-13 * s->m.freedom);
}

static double least_gain(const selection* s) {
    return fmax(worth * s->first, floor_of(s));
}

// F that a candidate must reach, from the tail of the normal distribution: freedom is large.
static double least_f(const selection* s) {
    double p = chance / (s->d->ncandidate + 1.0), low = 0.0, high = 20.0;
    for (int k = 0; k < 60; k++) {
        double t = 0.5 * (low + high);
        *(erfc(t / sqrt(2.0)) > p ? &low : &high) = t;
    }
    return high * high;
}

static double mean_square(const selection* s, double squares, uint32_t terms) {
    double freedom = s->m.freedom - terms;
    return squares / (freedom > 1.0 ? freedom : 1.0);
}

static bool is_active(const selection* s, uint32_t term) {
    for (uint32_t k = 0; k < s->d->active.count; k++) {
        if (s->d->active.data[k] == term) return true;
    }
    return false;
}

// A friction at another speed of the grid is the same candidate.
static bool is_sibling(const selection* s, uint32_t term) {
    const nsi_term* t = term_of(s, term);
    if (t->kind != NSI_TERM_FORMULA || t->of == NSI_NONE) return false;
    for (uint32_t k = 0; k < s->d->active.count; k++) {
        const nsi_term* a = term_of(s, s->d->active.data[k]);
        if (a->kind == NSI_TERM_FORMULA && a->of != NSI_NONE && strcmp(a->place, t->place) == 0)
            return true;
    }
    return false;
}

static bool may_enter(const selection* s, uint32_t term) {
    return nsi_term_is_candidate(term_of(s, term)) && !s->idle[term] && !is_active(s, term) &&
           !is_sibling(s, term);
}

static ns_status push_active(selection* s, uint32_t term) {
    ns_discovery* d = s->d;
    const nsi_term* t = term_of(s, term);
    bool ok = nsi_array_push(&d->allocator, &d->active, term);
    if (ok && t->kind == NSI_TERM_FORMULA && t->of != NSI_NONE) {
        ok = nsi_array_push(&d->allocator, &d->active, t->of);
    }
    return ok ? NS_OK : nsi_fail_nomem(s->error);
}

// Out of the active ones, with its shape, to where the model has it.
static void drop_active(selection* s, uint32_t term) {
    ns_discovery* d = s->d;
    uint32_t kept = 0, shape = term_of(s, term)->of;
    for (uint32_t k = 0; k < d->active.count; k++) {
        uint32_t t = d->active.data[k];
        if (t == term || t == shape) {
            d->bench.values[t] = 0.0;
        } else {
            d->active.data[kept++] = t;
        }
    }
    d->active.count = kept;
}

// When it is stopped, the moments of the point before have to do.
static ns_status look(selection* s) {
    nsi_gram next;
    ns_status status = nsi_gram_take(&s->d->bench, &next, s->error);
    if (status != NS_OK) return status;
    nsi_gram_free(is_stopped(s) ? &next : &s->m);
    if (!is_stopped(s)) s->m = next;
    return NS_OK;
}

// ---- candidates --------------------------------------------------------------------------------

static int by_linear(const void* a, const void* b) {
    const trial *x = a, *y = b;
    if (x->linear != y->linear) return x->linear < y->linear ? -1 : 1;
    return (x->term > y->term) - (x->term < y->term);
}

// Active terms and one more, for the moments.
static uint32_t with(const selection* s, uint32_t term, uint32_t* list, uint32_t room) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < s->d->active.count && count + 1 < room; k++) {
        list[count++] = s->d->active.data[k];
    }
    if (term != NSI_NONE) list[count++] = term;
    return count;
}

// Candidates that may enter, the best first; their number.
static uint32_t list_candidates(selection* s, trial* out) {
    uint32_t list[64], count = 0, n = with(s, NSI_NONE, list, 64);
    double before = nsi_gram_explain(&s->m, list, n, 0.0, NULL);
    double held_out = nsi_gram_held_out(&s->m, list, n, 0.0), f = least_f(s);
    for (uint32_t k = 0; k < s->m.n; k++) {
        if (!may_enter(s, k)) continue;
        if (nsi_gram_own_share(&s->m, list, n, k) < 1e-7) continue;
        uint32_t all = with(s, k, list, 64);
        double after = nsi_gram_explain(&s->m, list, all, 0.0, NULL);
        double gain = before - after;
        if (!(gain > least_share * before) || !(gain > least_gain(s))) continue;
        if (gain < f * mean_square(s, after, all)) continue;
        if (nsi_gram_held_out(&s->m, list, all, 0.0) > held_out * (1.0 - 0.3 * least_share)) {
            continue;
        }
        out[count++] = (trial){.term = k, .linear = after, .squares = INFINITY, .same = NSI_NONE};
    }
    qsort(out, count, sizeof *out, by_linear);
    return count;
}

// Sums of squares that noise makes of the same.
static double tolerance_of(const selection* s, double squares) {
    return 9.0 * mean_square(s, squares, s->d->active.count + 1) + floor_of(s);
}

// In a plane, drag along x is drag across z: of terms that do exactly the same, the least far-fetched is
// tried, and stands for the others.
static void find_same(selection* s, trial* list, uint32_t count) {
    uint32_t active[64], n = with(s, NSI_NONE, active, 62);
    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t i = k; i-- > 0 && list[k].same == NSI_NONE;) {
            if (fabs(list[i].linear - list[k].linear) > 1e-6 * s->squares) break;
            uint32_t first = list[i].same == NSI_NONE ? i : list[i].same;
            active[n] = list[first].term;
            if (nsi_gram_own_share(&s->m, active, n + 1, list[k].term) > 1e-8) continue;
            list[k].same = first;
            if (term_of(s, list[k].term)->cost < term_of(s, list[first].term)->cost) {
                uint32_t term = list[k].term;
                list[k].term = list[first].term;
                list[first].term = term;
            }
        }
    }
}

// To be tried: the best, the best of each kind, and what is as good for all that is known and less
// far-fetched; not what is far behind. The others are marked by a term of NSI_NONE.
static void shorten(const selection* s, trial* list, uint32_t count) {
    uint32_t tried = 0, of_kind[2] = {0};
    if (count == 0) return;
    double most = list[0].linear + 0.4 * (s->squares - list[0].linear), cheapest = INFINITY;
    double equal = list[0].linear + tolerance_of(s, list[0].linear);
    for (uint32_t k = 0; k < count; k++) {
        if (list[k].same != NSI_NONE) continue;
        const nsi_term* t = term_of(s, list[k].term);
        uint32_t kind = t->kind == NSI_TERM_FORMULA;
        bool cheap = list[k].linear <= equal && t->cost < cheapest;
        bool take =
            list[k].linear <= most && (tried < TRIALS || of_kind[kind] < TRIALS_OF_KIND || cheap);
        cheapest = fmin(cheapest, t->cost);
        of_kind[kind]++;
        tried += take;
        if (!take) list[k].term = NSI_NONE;
    }
}

// Refit with each; back to where it was after each.
static ns_status run_trials(selection* s, trial* list, uint32_t count) {
    ns_discovery* d = s->d;
    double* here = nsi_workspace_save(&d->bench);
    if (!here) return nsi_fail_nomem(s->error);
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < count && status == NS_OK && !is_stopped(s); k++) {
        uint32_t before = d->active.count;
        if (list[k].term == NSI_NONE || list[k].same != NSI_NONE) continue;
        char doing[300];
        snprintf(doing, sizeof doing, "windows of %u samples: trying %.200s", d->bench.length,
                 term_of(s, list[k].term)->name);
        if (nsi_discover_tell(s->d, doing)) break;
        status = push_active(s, list[k].term);
        if (status != NS_OK) break;
        list[k].squares = nsi_workspace_refit(&d->bench, d->active.data, d->active.count, 12, 1e-5);
        list[k].point = nsi_workspace_save(&d->bench);
        if (!list[k].point) status = nsi_fail_nomem(s->error);
        d->active.count = before;
        nsi_workspace_restore(&d->bench, here);
    }
    for (uint32_t k = 0; k < count; k++) {
        if (list[k].same != NSI_NONE) list[k].squares = list[list[k].same].squares;
    }
    nsi_free(&d->allocator, here);
    return status;
}

static void free_trials(selection* s, trial* list, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) nsi_free(&s->d->allocator, list[k].point);
}

// The best, or one that is as good and less far-fetched.
static uint32_t choose(const selection* s, const trial* list, uint32_t count) {
    uint32_t best = NSI_NONE, chosen;
    for (uint32_t k = 0; k < count; k++) {
        if (!list[k].point || !isfinite(list[k].squares)) continue;
        if (best == NSI_NONE || list[k].squares < list[best].squares) best = k;
    }
    if (best == NSI_NONE) return NSI_NONE;
    double most = list[best].squares + tolerance_of(s, list[best].squares);
    chosen = best;
    for (uint32_t k = 0; k < count; k++) {
        if (!list[k].point || !(list[k].squares <= most)) continue;
        double cost = term_of(s, list[k].term)->cost, least = term_of(s, list[chosen].term)->cost;
        if (cost < least || (cost == least && list[k].squares < list[chosen].squares)) chosen = k;
    }
    return chosen;
}

// Of a law of two terms at one place, such as a spring with a rest angle, each alone may explain less than
// something else does. When two leave much less than any term alone, also by a refit, the better one of
// them goes first: its number in the list, or NSI_NONE.
static ns_status find_pair(selection* s, const trial* list, uint32_t count, uint32_t* first) {
    const double much = 0.1;
    ns_discovery* d = s->d;
    uint32_t other = NSI_NONE, n, terms[64], chosen = choose(s, list, count);
    *first = NSI_NONE;
    if (chosen == NSI_NONE) return NS_OK;
    double least = much * list[chosen].squares;
    for (uint32_t k = 0; k < count; k++) {
        const nsi_term* t = list[k].point ? term_of(s, list[k].term) : NULL;
        if (!t || t->kind != NSI_TERM_FORMULA) continue;
        for (uint32_t i = 0; i < s->m.n; i++) {
            const nsi_term* u = term_of(s, i);
            bool both_shaped = t->of != NSI_NONE && u->of != NSI_NONE;
            if (i == list[k].term || both_shaped || !may_enter(s, i)) continue;
            if (u->kind != NSI_TERM_FORMULA || strcmp(u->place, t->place) != 0) continue;
            n = with(s, list[k].term, terms, 63);
            terms[n] = i;
            double squares = nsi_gram_explain(&s->m, terms, n + 1, 0.0, NULL);
            if (squares < least) least = squares, *first = k, other = i;
        }
    }
    if (*first == NSI_NONE) return NS_OK;
    double* here = nsi_workspace_save(&d->bench);
    if (!here) return nsi_fail_nomem(s->error);
    uint32_t before = d->active.count;
    ns_status status = push_active(s, list[*first].term);
    if (status == NS_OK) status = push_active(s, other);
    if (status == NS_OK) {
        double squares = nsi_workspace_refit(&d->bench, d->active.data, d->active.count, 12, 1e-5);
        if (!(squares < much * list[chosen].squares)) *first = NSI_NONE;
    }
    d->active.count = before;
    nsi_workspace_restore(&d->bench, here);
    nsi_free(&d->allocator, here);
    return status;
}

static int by_squares(const void* a, const void* b) {
    const nsi_rival *x = a, *y = b;
    if (x->squares != y->squares) return x->squares < y->squares ? -1 : 1;
    return (x->term > y->term) - (x->term < y->term);
}

// What explains nearly as much as the chosen one.
static ns_status keep_rivals(selection* s, const trial* list, uint32_t count, uint32_t chosen,
                             nsi_move* move) {
    nsi_rival* rivals = nsi_arena_alloc(&s->d->arena, ((size_t)count + 1) * sizeof *rivals);
    if (!rivals) return nsi_fail_nomem(s->error);
    double squares = list[chosen].squares, gain = s->squares - squares;
    for (uint32_t k = 0; k < count; k++) {
        if (list[k].term == NSI_NONE || !(s->squares - list[k].squares > 0.95 * gain)) continue;
        // Friction at another speed is no other explanation.
        const nsi_term *a = term_of(s, list[k].term), *b = term_of(s, list[chosen].term);
        bool same = strcmp(a->place, b->place) == 0 && a->of != NSI_NONE && b->of != NSI_NONE;
        if (k == chosen || same) continue;
        bool equal = list[k].squares <= squares + tolerance_of(s, squares);
        rivals[move->nrival++] = (nsi_rival){list[k].term, list[k].squares, equal};
    }
    qsort(rivals, move->nrival, sizeof *rivals, by_squares);
    move->rivals = rivals;
    return NS_OK;
}

// ---- moves -------------------------------------------------------------------------------------

static double held_out_now(selection* s) {
    uint32_t list[64], n = with(s, NSI_NONE, list, 64);
    return nsi_gram_held_out(&s->m, list, n, 0.0) / fmax(s->m.freedom, 1.0);
}

static ns_status keep_move(selection* s, nsi_move move, double held_out) {
    move.length = s->d->bench.length;
    move.after = s->squares;
    move.held_out_before = held_out;
    move.held_out_after = held_out_now(s);
    bool done = nsi_array_push(&s->d->allocator, &s->d->moves, move);
    return done ? NS_OK : nsi_fail_nomem(s->error);
}

// Does the error of the integrator explain as much as a candidate would?
static ns_status ask_integrator(selection* s, double squares, bool* is_numerical) {
    ns_discovery* d = s->d;
    *is_numerical = false;
    if (isnan(s->numerical)) {
        char other[80];
        ns_status status = nsi_workspace_numerical(&d->bench, &s->numerical, other, s->error);
        if (status != NS_OK) return status;
        snprintf(d->other, sizeof d->other, "%s", other);
    }
    double gain = s->squares - squares, numerical = s->squares - s->numerical;
    if (!(numerical > 0.8 * gain) || squares < 0.1 * s->numerical) return NS_OK;
    *is_numerical = true;
    d->numerical_share = numerical / s->squares;
    d->numerical = d->numerical_share > 0.5; // otherwise only what the candidate would explain is
    return NS_OK;
}

// One term more, if one is worth it.
static ns_status enter(selection* s, bool* moved) {
    ns_discovery* d = s->d;
    *moved = false;
    trial* list = nsi_alloc_zeroed(&d->allocator, ((size_t)s->m.n + 1) * sizeof *list);
    if (!list) return nsi_fail_nomem(s->error);
    uint32_t count = list_candidates(s, list);
    find_same(s, list, count);
    shorten(s, list, count);
    ns_status status = run_trials(s, list, count);
    uint32_t chosen = NSI_NONE;
    if (status == NS_OK && !is_stopped(s)) status = find_pair(s, list, count, &chosen);
    if (status == NS_OK && chosen == NSI_NONE) chosen = choose(s, list, count);
    if (status == NS_OK && chosen != NSI_NONE && !is_stopped(s)) {
        const trial* t = &list[chosen];
        double gain = s->squares - t->squares;
        bool good = gain > least_share * s->squares && gain > least_gain(s) &&
                    gain > least_f(s) * mean_square(s, t->squares, d->active.count + 1);
        bool is_numerical = false;
        if (good) status = ask_integrator(s, t->squares, &is_numerical);
        if (status == NS_OK && good && !is_numerical && !is_stopped(s)) {
            nsi_move move = {
                .kind = NSI_MOVE_ENTER, .term = t->term, .instead = NSI_NONE, .before = s->squares};
            double held_out = held_out_now(s);
            status = keep_rivals(s, list, count, chosen, &move);
            if (status == NS_OK) status = push_active(s, t->term);
            if (status == NS_OK) {
                nsi_workspace_restore(&d->bench, t->point);
                s->squares = fmin(t->squares, nsi_workspace_refit(&d->bench, d->active.data,
                                                                  d->active.count, 30, 1e-10));
                s->numerical = NAN;
                d->numerical = false; // was said of what is explained now
                status = look(s);
            }
            if (status == NS_OK) status = keep_move(s, move, held_out);
            *moved = true;
        }
    }
    free_trials(s, list, count);
    nsi_free(&d->allocator, list);
    return status;
}

// The moments as they would be with a term at 0; `back` undoes it.
static void shift(nsi_gram* m, uint32_t term, double value, bool back) {
    double by = back ? -value : value; // the step is -value
    for (uint32_t f = 0; f <= NSI_FOLDS; f++) {
        if (!m->G[f]) continue;
        const double* row = m->G[f] + (size_t)term * m->n;
        m->squares[f] += 2.0 * by * m->h[f][term] + by * by * row[term];
        for (uint32_t k = 0; k < m->n; k++) m->h[f][k] += by * row[k];
    }
}

// Active terms without one and its shape.
static uint32_t without(const selection* s, uint32_t term, uint32_t* list, uint32_t room) {
    uint32_t count = 0, shape = term_of(s, term)->of;
    for (uint32_t k = 0; k < s->d->active.count && count + 1 < room; k++) {
        uint32_t t = s->d->active.data[k];
        if (t != term && t != shape) list[count++] = t;
    }
    return count;
}

// Go on without a term, and with another in its place unless that is NSI_NONE; back if that is not better by `least`.
static ns_status exchange(selection* s, uint32_t term, uint32_t other, double least, bool* moved) {
    ns_discovery* d = s->d;
    double *here = nsi_workspace_save(&d->bench), before = s->squares, held_out = held_out_now(s);
    uint32_t count = d->active.count;
    uint32_t* old = nsi_alloc(&d->allocator, (count + 1) * sizeof *old);
    if (!here || !old) {
        nsi_free(&d->allocator, here);
        nsi_free(&d->allocator, old);
        return nsi_fail_nomem(s->error);
    }
    memcpy(old, d->active.data, count * sizeof *old);
    double* there = NULL;
    drop_active(s, term);
    ns_status status = other == NSI_NONE ? NS_OK : push_active(s, other);
    // The bench stands where values say.
    there = nsi_workspace_save(&d->bench);
    if (status == NS_OK && !there) status = nsi_fail_nomem(s->error);
    if (status == NS_OK) {
        nsi_workspace_restore(&d->bench, there);
        double squares = nsi_workspace_refit(&d->bench, d->active.data, d->active.count, 30, 1e-10);
        *moved = isfinite(squares) && squares < before - least;
        if (*moved) {
            s->squares = squares;
            s->numerical = NAN;
            status = look(s);
            nsi_move move = {.kind = other == NSI_NONE ? NSI_MOVE_LEAVE : NSI_MOVE_SWAP,
                             .term = other == NSI_NONE ? term : other,
                             .instead = other == NSI_NONE ? NSI_NONE : term,
                             .before = before};
            if (status == NS_OK) status = keep_move(s, move, held_out);
        } else {
            memcpy(d->active.data, old, count * sizeof *old);
            d->active.count = count;
            nsi_workspace_restore(&d->bench, here);
            nsi_workspace_value(&d->bench);
        }
    }
    nsi_free(&d->allocator, old);
    nsi_free(&d->allocator, here);
    nsi_free(&d->allocator, there);
    return status;
}

// Terms that are worth nothing beside the others leave.
static ns_status leave(selection* s, bool* moved) {
    *moved = false;
    double keep = 0.5 * least_f(s) * mean_square(s, s->squares, s->d->active.count);
    keep = fmax(keep, fmax(0.5 * least_gain(s), 0.5 * least_share * s->squares));
    uint32_t weakest = NSI_NONE;
    double least = INFINITY;
    for (uint32_t k = 0; k < s->d->active.count; k++) {
        uint32_t term = s->d->active.data[k], list[64];
        if (!nsi_term_is_candidate(term_of(s, term))) continue;
        uint32_t n = without(s, term, list, 64);
        double value = s->d->bench.values[term];
        shift(&s->m, term, value, false);
        double loss = nsi_gram_explain(&s->m, list, n, 0.0, NULL) - s->squares;
        shift(&s->m, term, value, true);
        if (loss < least) least = loss, weakest = term;
    }
    if (weakest == NSI_NONE || least > keep) return NS_OK;
    return exchange(s, weakest, NSI_NONE, -keep, moved);
}

// A term that does better in the place of another takes it.
static ns_status swap(selection* s, bool* moved) {
    *moved = false;
    uint32_t best = NSI_NONE, place = NSI_NONE, candidates = 0;
    double least = INFINITY, f = least_f(s) * mean_square(s, s->squares, s->d->active.count);
    for (uint32_t k = 0; k < s->d->active.count; k++) {
        uint32_t term = s->d->active.data[k], list[64];
        if (!nsi_term_is_candidate(term_of(s, term))) continue;
        candidates++;
        uint32_t n = without(s, term, list, 64);
        double value = s->d->bench.values[term];
        shift(&s->m, term, value, false);
        for (uint32_t i = 0; i < s->m.n; i++) {
            if (!may_enter(s, i)) continue;
            list[n] = i;
            double squares = nsi_gram_explain(&s->m, list, n + 1, 0.0, NULL);
            if (squares < least) least = squares, best = i, place = term;
        }
        shift(&s->m, term, value, true);
    }
    // Only what has much to gain is tried: the normal equations are not made for steps this long.
    if (best == NSI_NONE || candidates < 2 || least > 0.5 * s->squares) return NS_OK;
    if (s->squares < floor_of(s)) return NS_OK;
    return exchange(s, place, best, fmax(f, 0.3 * s->squares), moved);
}

// ---- ranking -----------------------------------------------------------------------------------

static int by_share(const void* a, const void* b) {
    const nsi_rank *x = a, *y = b;
    if (x->share != y->share) return x->share > y->share ? -1 : 1;
    return strcmp(x->place, y->place);
}

// "link/a/force" of "link/a/force/x"; what several places share counts for none.
static bool stands_at(const nsi_term* t, const char* place) {
    size_t size = strlen(place);
    return t->kind != NSI_TERM_SHAPE && strncmp(t->place, place, size) == 0 &&
           (t->place[size] == '\0' || (t->place[size] == '/' && size > 0));
}

// The least that up to three terms at a place, taken one after another, leave where they were not fitted. All
// terms there together would fit noise, and a place that matters could seem to be worth nothing.
static double best_few(const selection* s, const char* place) {
    enum { FEW = 3 };
    uint32_t list[64], n = with(s, NSI_NONE, list, 20);
    double least = nsi_gram_held_out(&s->m, list, n, 0.0);
    for (int k = 0; k < FEW; k++, n++) {
        uint32_t best = NSI_NONE;
        for (uint32_t i = 0; i < s->m.n; i++) {
            const nsi_term* t = term_of(s, i);
            if (!stands_at(t, place) || t->wide || !may_enter(s, i)) continue;
            list[n] = i;
            double squares = nsi_gram_held_out(&s->m, list, n + 1, 1e-6);
            if (squares < least) least = squares, best = i;
        }
        if (best == NSI_NONE) break;
        list[n] = best;
    }
    return least;
}

static ns_status rank(selection* s, nsi_ranks* out) {
    ns_discovery* d = s->d;
    uint32_t always[64], nalways = with(s, NSI_NONE, always, 20);
    out->count = 0;
    double before = nsi_gram_held_out(&s->m, always, nalways, 0.0);
    for (uint32_t k = 0; k < s->m.n; k++) {
        const nsi_term* t = term_of(s, k);
        if (!nsi_term_is_candidate(t) || strchr(t->place, '*') || strchr(t->place, ',')) continue;
        bool known = false, axis = false;
        for (uint32_t i = 0; i < out->count && !known; i++) {
            known = strcmp(out->data[i].place, t->place) == 0;
        }
        // An axis of a force belongs to the force, unless `outputs` has left only the axis.
        for (uint32_t i = 0; i < s->m.n && t->kind == NSI_TERM_FORMULA && !axis; i++) {
            const char* whole = term_of(s, i)->place;
            axis = strlen(whole) + 2 == strlen(t->place) && strncmp(whole, "link/", 5) == 0 &&
                   stands_at(t, whole);
        }
        if (known || axis || s->idle[k]) continue;
        double after = best_few(s, t->place);
        nsi_rank r = {t->place, before > 0.0 ? fmax(1.0 - after / before, 0.0) : 0.0};
        if (!nsi_array_push(&d->allocator, out, r)) return nsi_fail_nomem(s->error);
    }
    if (out->count > 0) qsort(out->data, out->count, sizeof *out->data, by_share);
    return NS_OK;
}

// ---- levels ------------------------------------------------------------------------------------

static void find_idle(selection* s) {
    ns_discovery* d = s->d;
    d->ncandidate = d->nidle = 0;
    for (uint32_t k = 0; k < s->m.n; k++) {
        if (!nsi_term_is_candidate(term_of(s, k))) continue;
        // A coefficient that moves nothing: its column is 0 but for rounding. Units of terms differ, so
        // that only the residuals' scale can be compared with.
        double g = s->m.G[NSI_FOLDS][(size_t)k * s->m.n + k];
        s->idle[k] = !(g > 1e-16);
        *(s->idle[k] ? &d->nidle : &d->ncandidate) += 1;
    }
}

static uint32_t candidates_in(const selection* s) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < s->d->active.count; k++) {
        count += nsi_term_is_candidate(term_of(s, s->d->active.data[k]));
    }
    return count;
}

// Cut into windows of this length; the sum of squares of the model as it is, and with what was found. Of no
// use when it is stopped.
static ns_status begin_level(selection* s, uint32_t length) {
    ns_discovery* d = s->d;
    nsi_workspace* b = &d->bench;
    ns_status status = nsi_workspace_cut(b, length, s->error);
    if (status != NS_OK) return status;
    s->numerical = NAN;
    uint32_t ngiven = 0; // they are the first
    while (ngiven < d->active.count && term_of(s, d->active.data[ngiven])->kind == NSI_TERM_GIVEN) {
        ngiven++;
    }
    double* here = nsi_workspace_save(b);
    if (!here) return nsi_fail_nomem(s->error);
    for (uint32_t k = 0; k < d->active.count; k++) {
        if (term_of(s, d->active.data[k])->kind != NSI_TERM_GIVEN)
            b->values[d->active.data[k]] = 0.0;
    }
    double* bare = nsi_workspace_save(b);
    if (bare) nsi_workspace_restore(b, bare);
    s->first = bare ? nsi_workspace_refit(b, d->active.data, ngiven, 15, 1e-6) : INFINITY;
    if (candidates_in(s) > 0 && bare) {
        nsi_workspace_restore(b, here);
        s->squares = nsi_workspace_refit(b, d->active.data, d->active.count, 30, 1e-10);
    } else {
        s->squares = s->first;
    }
    nsi_free(&d->allocator, here);
    if (!bare) return nsi_fail_nomem(s->error);
    nsi_free(&d->allocator, bare);
    if (is_stopped(s)) return NS_OK;
    if (!isfinite(s->squares)) {
        return nsi_fail(
            s->error, NS_ERR_NONFINITE,
            "%.200s: the simulation does not stay finite in windows of %u samples; take a"
            " smaller time step",
            d->fit->plan->path, length);
    }
    return look(s);
}

static ns_status run_level(selection* s) {
    ns_status status = NS_OK;
    for (int k = 0; k < MOST_MOVES && status == NS_OK && !is_stopped(s); k++) {
        bool moved = false;
        if (s->squares < floor_of(s)) break;
        status = enter(s, &moved);
        if (status != NS_OK || !moved) break;
        bool changed = true;
        for (int i = 0; i < 4 && changed && status == NS_OK && !is_stopped(s); i++) {
            status = leave(s, &changed);
            if (status == NS_OK && !changed) status = swap(s, &changed);
        }
    }
    return status;
}

static ns_status end_level(selection* s) {
    ns_discovery* d = s->d;
    nsi_level level = {.length = d->bench.length};
    bool moved = true;
    ns_status status = NS_OK;
    while (moved && status == NS_OK && !is_stopped(s)) status = leave(s, &moved);
    for (uint32_t f = 0; f < d->bench.nfold; f++) {
        level.windows += nsi_objective_window_count(d->bench.folds[f]);
        level.residuals += nsi_objective_residual_count(d->bench.folds[f]);
    }
    level.before = sqrt(s->first / fmax(level.residuals, 1));
    level.after = sqrt(s->squares / fmax(level.residuals, 1));
    if (status == NS_OK && !nsi_array_push(&d->allocator, &d->levels, level)) {
        status = nsi_fail_nomem(s->error);
    }
    return status;
}

// Noise of the recordings: as given, otherwise by their fourth differences, which smooth motion has hardly: an
// upper bound.
static double estimate_noise(const ns_discovery* d) {
    const ns_dataset* train = d->fit->data[NSI_ROLE_TRAIN];
    const nsi_problem* p = d->bench.problem;
    double sum = 0.0;
    uint32_t count = 0;
    for (uint32_t c = 0; c < p->nchannel; c++) {
        double given = ns_dataset_channel(train, c)->sigma * p->sources[c].scale;
        for (uint32_t k = 0; k < ns_dataset_recording_count(train); k++) {
            const ns_recording* r = ns_dataset_recording(train, k);
            for (uint32_t i = 4; i < r->nsample; i++) {
                const double* x = r->values + (size_t)(i - 4) * p->nchannel + c;
                size_t n = p->nchannel;
                double d4 = x[0] - 4.0 * x[n] + 6.0 * x[2 * n] - 4.0 * x[3 * n] + x[4 * n];
                if (!isfinite(d4) || p->sources[c].scale == 0.0) continue;
                d4 *= p->sources[c].scale;
                sum += given > 0.0 ? given * given : d4 * d4 / 70.0;
                count++;
            }
        }
    }
    return count > 0 ? sqrt(sum / count) : NAN;
}

static ns_status conclude(selection* s) {
    ns_discovery* d = s->d;
    uint32_t list[64], n = with(s, NSI_NONE, list, 64);
    double variances[64];
    double sigma = mean_square(s, s->squares, n);
    nsi_gram_variances(&s->m, list, n, variances);
    for (uint32_t k = 0; k < n; k++) d->errors[list[k]] = sqrt(sigma * variances[k]);
    const nsi_level* last = &d->levels.data[d->levels.count - 1];
    double count = fmax(last->residuals, 1);
    d->held_out[0] = sqrt(s->first / count);
    d->held_out[1] = sqrt(fmax(nsi_gram_held_out(&s->m, list, n, 0.0), 0.0) / count);
    d->noise = estimate_noise(d);
    ns_status status = rank(s, &d->rest);
    for (int role = 0; role < NSI_ROLES; role++) d->score[role][0] = d->score[role][1] = NAN;
    if (status != NS_OK || is_stopped(s)) return status;
    double* none = nsi_alloc_zeroed(&d->allocator, ((size_t)s->m.n + 1) * sizeof *none);
    if (!none) return nsi_fail_nomem(s->error);
    for (uint32_t k = 0; k < s->m.n; k++) {
        if (term_of(s, k)->kind == NSI_TERM_GIVEN) none[k] = d->bench.values[k];
    }
    for (int role = 0; role < NSI_ROLES && status == NS_OK; role++) {
        if (!d->fit->data[role]) continue;
        status =
            nsi_workspace_score(&d->bench, d->fit->data[role], none, &d->score[role][0], s->error);
        if (status == NS_OK) {
            status = nsi_workspace_score(&d->bench, d->fit->data[role], d->bench.values,
                                         &d->score[role][1], s->error);
        }
    }
    nsi_free(&d->allocator, none);
    return status;
}

static ns_status select_all(selection* s) {
    ns_discovery* d = s->d;
    const ns_dataset* train = d->fit->data[NSI_ROLE_TRAIN];
    uint32_t longest = 0, pace = nsi_workspace_pace(&d->bench), before = 0;
    static const double growth[LEVELS] = {1.0, 2.5, 5.0};
    ns_status status = NS_OK;
    size_t size = d->dictionary.terms.count * sizeof(double);
    double* kept = nsi_alloc(&d->allocator, size + 1);
    if (!kept) return nsi_fail_nomem(s->error);
    for (uint32_t k = 0; k < ns_dataset_recording_count(train); k++) {
        uint32_t n = ns_dataset_recording(train, k)->nsample;
        if (n > longest) longest = n;
    }
    for (uint32_t k = 0; k < s->d->dictionary.terms.count && status == NS_OK; k++) {
        if (term_of(s, k)->kind == NSI_TERM_GIVEN) status = push_active(s, k);
    }
    for (int k = 0; k < LEVELS && status == NS_OK && !is_stopped(s); k++) {
        uint32_t length = (uint32_t)(growth[k] * pace);
        if (length > longest - 1) length = longest > 1 ? longest - 1 : 1;
        if (length == before) break;
        char doing[100];
        snprintf(doing, sizeof doing, "windows of %u samples", length);
        if (nsi_discover_tell(s->d, doing)) break;
        double squares = s->squares, first = s->first;
        memcpy(kept, d->bench.values, size);
        status = begin_level(s, length);
        bool last = status == NS_ERR_NONFINITE && k > 0;
        if (last) { // what shorter ones tell is an answer, too
            status = begin_level(s, before);
        }
        if (is_stopped(s)) { // the level before is the last one
            memcpy(d->bench.values, kept, size);
            s->squares = squares;
            s->first = first;
            break;
        }
        if (last) break;
        before = length;
        if (status == NS_OK && k == 0) find_idle(s);
        bool some = s->first > 1e-20 * s->m.freedom; // not only rounding
        if (status == NS_OK && some && candidates_in(s) == 0) status = rank(s, &d->ranks);
        if (status == NS_OK) status = run_level(s);
        if (status == NS_OK) status = end_level(s);
    }
    nsi_free(&d->allocator, kept);
    if (status == NS_OK && d->levels.count > 0) status = conclude(s);
    return status;
}

ns_status nsi_discover_select(ns_discovery* d, ns_error* error) {
    selection s = {.d = d, .error = error, .numerical = NAN};
    size_t terms = (size_t)d->dictionary.terms.count + 1;
    s.m.allocator = d->allocator;
    s.idle = nsi_alloc_zeroed(&d->allocator, terms);
    ns_status status = s.idle ? select_all(&s) : nsi_fail_nomem(error);
    nsi_gram_free(&s.m);
    nsi_free(&d->allocator, s.idle);
    return status;
}

// The n-th different place, among those offered.
typedef struct suspects {
    const char* list[8];
    uint32_t count;
} suspects;

// Only forces of joints with one coordinate: "joint/a/tau", neither "joint/free/tau/0" nor those of two.
static void offer(suspects* s, const char* place) {
    const char* end = strrchr(place, '/');
    if (strncmp(place, "joint/", 6) != 0 || strcmp(end, "/tau") != 0) return;
    if (strchr(place, ',') || s->count >= 8) return;
    for (uint32_t k = 0; k < s->count; k++) {
        if (strcmp(s->list[k], place) == 0) return;
    }
    s->list[s->count++] = place;
}

const char* nsi_discover_suspect(const ns_discovery* d, uint32_t number) {
    enum { MANY = 3 }; // terms at one place
    const nsi_term* terms = d->dictionary.terms.data;
    suspects s = {.count = 0};
    for (uint32_t k = 0; k < d->active.count; k++) {
        const nsi_term* t = &terms[d->active.data[k]];
        uint32_t count = 0;
        if (t->kind != NSI_TERM_FORMULA) continue;
        for (uint32_t i = 0; i < d->active.count; i++) {
            const nsi_term* other = &terms[d->active.data[i]];
            count += other->kind == NSI_TERM_FORMULA && strcmp(other->place, t->place) == 0;
        }
        if (count >= MANY) offer(&s, t->place);
    }
    if (!d->numerical && nsi_discover_is_open(d)) {
        for (uint32_t k = 0; k < d->ranks.count && k < 12; k++) offer(&s, d->ranks.data[k].place);
        for (uint32_t k = 0; k < d->rest.count && k < 12; k++) offer(&s, d->rest.data[k].place);
    }
    return number < s.count ? s.list[number] : NULL;
}

bool nsi_discover_is_open(const ns_discovery* d) {
    const nsi_level* last = d->levels.count > 0 ? &d->levels.data[d->levels.count - 1] : NULL;
    return last && isfinite(d->noise) && last->after > 3.0 * d->noise &&
           last->after > 0.003 * last->before;
}

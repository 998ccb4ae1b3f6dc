// Quantiles and diagnostics of the posterior of a fit, whose modes have different probabilities.

#include "fit/posterior_summary.h"

#include <math.h>
#include <stdlib.h>

static const ns_choice posterior_rows[] = {NS_POSTERIOR_MAP(NS_CHOICE_ROW)};
const ns_choices ns_posterior_methods = NS_CHOICES("posterior method", posterior_rows);

typedef struct weighted {
    double value, weight;
} weighted;

static int compare_weighted(const void* a, const void* b) {
    const weighted *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

double nsi_posterior_weight(const ns_posterior* p, uint32_t chain) {
    uint32_t same = 0;
    for (uint32_t c = 0; c < p->chains; c++) same += p->mode[c] == p->mode[chain];
    return p->probability[p->mode[chain]] / ((double)same * p->count);
}

size_t nsi_posterior_pick(const ns_posterior* p, double share) {
    double below = 0.0;
    for (uint32_t c = 0; c < p->chains; c++) {
        double weight = nsi_posterior_weight(p, c) * p->count;
        if (share < below + weight || c + 1 == p->chains) {
            uint32_t k = (uint32_t)fmax(0.0, (share - below) / weight * p->count);
            return (size_t)c * p->count + (k < p->count ? k : p->count - 1);
        }
        below += weight;
    }
    return 0;
}

// Samples of a number in order, with the weights of their chains; to be freed. NULL: out of memory.
static weighted* sort_number(const ns_posterior* p, uint32_t number) {
    ns_allocator memory = ns_default_allocator();
    const size_t all = (size_t)p->chains * p->count;
    weighted* sorted = nsi_alloc(&memory, (all + 1) * sizeof *sorted);
    for (uint32_t c = 0; sorted && c < p->chains; c++) {
        double weight = nsi_posterior_weight(p, c);
        for (uint32_t k = 0; k < p->count; k++) {
            size_t at = (size_t)c * p->count + k;
            sorted[at] = (weighted){p->samples[at * p->n + number], weight};
        }
    }
    if (sorted) qsort(sorted, all, sizeof *sorted, compare_weighted);
    return sorted;
}

// The value below which a share p of the weight lies, between the middles of neighbours.
static double weighted_quantile(const weighted* sorted, size_t count, double p) {
    double below = 0.0, last = NAN, last_at = 0.0;
    for (size_t k = 0; k < count; k++) {
        double middle = below + 0.5 * sorted[k].weight;
        if (middle >= p) {
            if (k == 0 || middle == last_at) return sorted[k].value;
            double share = (p - last_at) / (middle - last_at);
            return last + share * (sorted[k].value - last);
        }
        last = sorted[k].value;
        last_at = middle;
        below += sorted[k].weight;
    }
    return last;
}

double ns_posterior_quantile(const ns_posterior* posterior, uint32_t number, double p) {
    ns_allocator memory = ns_default_allocator();
    weighted* sorted = sort_number(posterior, number);
    if (!sorted) return NAN;
    size_t count = (size_t)posterior->chains * posterior->count;
    double value = weighted_quantile(sorted, count, p);
    nsi_free(&memory, sorted);
    return value;
}

// R-hat and effective sizes of the chains of one mode, which agree only with one another.
static bool diagnose_mode(const ns_posterior* p, uint32_t number, uint32_t mode, double* column,
                          ns_chain_summary* out) {
    uint32_t chains = 0;
    for (uint32_t c = 0; c < p->chains; c++) {
        if (p->mode[c] != mode) continue;
        for (uint32_t k = 0; k < p->count; k++) {
            size_t at = (size_t)c * p->count + k;
            column[(size_t)chains * p->count + k] = p->samples[at * p->n + number];
        }
        chains++;
    }
    return ns_chains_summarise(column, chains, p->count, out);
}

bool nsi_posterior_summarise(const ns_posterior* p, uint32_t number, ns_chain_summary* out) {
    ns_allocator memory = ns_default_allocator();
    const size_t all = (size_t)p->chains * p->count;
    double* column = nsi_alloc(&memory, (all + 1) * sizeof *column);
    weighted* sorted = sort_number(p, number);
    bool ok = column && sorted;
    double square = 0.0;
    *out = (ns_chain_summary){0};

    // Moments are mixed by the probabilities of the modes; sizes add.
    for (uint32_t m = 0; m < p->nmode && ok; m++) {
        ns_chain_summary one;
        ok = diagnose_mode(p, number, m, column, &one);
        out->mean += p->probability[m] * one.mean;
        square += p->probability[m] * (one.deviation * one.deviation + one.mean * one.mean);
        out->rhat = m == 0 ? one.rhat : fmax(out->rhat, one.rhat);
        out->ess_bulk += one.ess_bulk;
        out->ess_tail += one.ess_tail;
        if (p->nmode == 1) out->deviation = one.deviation;
    }
    if (p->nmode > 1) out->deviation = sqrt(fmax(square - out->mean * out->mean, 0.0));
    if (ok) {
        out->lower = weighted_quantile(sorted, all, 0.05);
        out->median = weighted_quantile(sorted, all, 0.5);
        out->upper = weighted_quantile(sorted, all, 0.95);
    }
    nsi_free(&memory, column);
    nsi_free(&memory, sorted);
    return ok;
}

// Ranking of sites: where terms would explain most.

#include "discover/selection.h"

#include <math.h>
#include <stdlib.h>

static int compare_shares(const void* a, const void* b) {
    const nsi_rank *x = a, *y = b;
    if (x->share != y->share) return x->share > y->share ? -1 : 1;
    return strcmp(x->quantity, y->quantity);
}

// Is the second site the same, or one axis of the first, a force of a link?
static bool contains_site(const nsi_site* whole, const nsi_site* part) {
    if (whole->kind != part->kind || whole->link != part->link || whole->other != part->other) {
        return false;
    }
    bool of_link = whole->kind == NSI_SITE_LINK_FORCE || whole->kind == NSI_SITE_LINK_TORQUE;
    return whole->component == part->component || (of_link && whole->component == NSI_NONE);
}

// Sites of one joint, link or parameter; what several share is not ranked.
static bool is_single_site(const nsi_site* site) {
    return site->kind == NSI_SITE_PARAMETER ||
           (site->kind != NSI_SITE_JOINT_PAIR && site->link != NSI_NONE);
}

// The minimal cost that a few terms at a site, added one after another, leave in held-out folds.
// All terms of the site together would fit noise, and a site that matters could seem to be worth
// nothing.
static double best_few(const nsi_selection* s, const nsi_site* site) {
    const nsi_site* sites = s->d->library.sites.data;
    uint32_t n = nsi_selection_active_plus(s, NSI_NONE);
    double least = nsi_gram_held_out(&s->gram, s->subset, n, 0.0);
    for (uint32_t k = 0; k < nsi_thresholds.ranking.max_terms; k++, n++) {
        uint32_t best = NSI_NONE;
        for (uint32_t i = 0; i < s->gram.n; i++) {
            const nsi_term* t = nsi_selection_term(s, i);
            if (t->extended || !nsi_selection_may_enter(s, i)) continue;
            if (!contains_site(site, &sites[t->site])) continue;
            s->subset[n] = i;
            double squares =
                nsi_gram_held_out(&s->gram, s->subset, n + 1, nsi_thresholds.ranking.ridge);
            if (squares < least) least = squares, best = i;
        }
        if (best == NSI_NONE) break;
        s->subset[n] = best;
    }
    return least;
}

// Is the site ranked already, or part of a force that is ranked as a whole?
static bool is_covered(const nsi_selection* s, const nsi_ranks* ranks, const nsi_term* term) {
    const nsi_site *sites = s->d->library.sites.data, *site = &sites[term->site];
    for (uint32_t k = 0; k < ranks->count; k++) {
        if (ranks->data[k].site == term->site) return true;
    }
    if (site->component == NSI_NONE) return false;
    for (uint32_t k = 0; k < s->gram.n; k++) {
        uint32_t other = nsi_selection_term(s, k)->site;
        if (other != NSI_NONE && other != term->site && contains_site(&sites[other], site)) {
            return true;
        }
    }
    return false;
}

ns_status nsi_selection_rank_sites(nsi_selection* s, nsi_ranks* out) {
    ns_discovery* d = s->d;
    uint32_t n = nsi_selection_active_plus(s, NSI_NONE);
    double before = nsi_gram_held_out(&s->gram, s->subset, n, 0.0);
    out->count = 0;
    for (uint32_t k = 0; k < s->gram.n; k++) {
        const nsi_term* t = nsi_selection_term(s, k);
        if (!nsi_term_is_candidate(t) || s->inert[k]) continue;
        const nsi_site* site = &d->library.sites.data[t->site];
        if (!is_single_site(site) || is_covered(s, out, t)) continue;
        double after = best_few(s, site);
        nsi_rank rank = {.site = t->site,
                         .quantity = site->name,
                         .share = before > 0.0 ? fmax(1.0 - after / before, 0.0) : 0.0};
        if (!nsi_array_push(&d->allocator, out, rank)) return nsi_fail_nomem(s->error);
    }
    if (out->count > 0) qsort(out->data, out->count, sizeof *out->data, compare_shares);
    return NS_OK;
}

// ---- suspects ----------------------------------------------------------------------------------

// Only forces of joints with one coordinate, each once.
static bool offer_suspect(const ns_discovery* d, nsi_site_list* list, uint32_t site) {
    if (d->library.sites.data[site].kind != NSI_SITE_JOINT) return true;
    for (uint32_t k = 0; k < list->count; k++) {
        if (list->data[k] == site) return true;
    }
    return nsi_array_push(&d->allocator, list, site);
}

static bool offer_ranks(const ns_discovery* d, nsi_site_list* list, const nsi_ranks* ranks) {
    bool ok = true;
    for (uint32_t k = 0; k < ranks->count && k < nsi_thresholds.ranking.max_suspects && ok; k++) {
        ok = offer_suspect(d, list, ranks->data[k].site);
    }
    return ok;
}

ns_status nsi_discover_suspects(const ns_discovery* d, nsi_site_list* out, ns_error* error) {
    const nsi_term* terms = d->library.terms.data;
    bool ok = true;
    *out = (nsi_site_list){0};

    // Where several formulas came together.
    for (uint32_t k = 0; k < d->active.count && ok; k++) {
        const nsi_term* t = &terms[d->active.data[k]];
        uint32_t count = 0;
        if (t->kind != NSI_TERM_FORMULA) continue;
        for (uint32_t i = 0; i < d->active.count; i++) {
            const nsi_term* other = &terms[d->active.data[i]];
            count += other->kind == NSI_TERM_FORMULA && other->site == t->site;
        }
        if (count >= nsi_thresholds.ranking.crowded) ok = offer_suspect(d, out, t->site);
    }

    // When much is left: the best sites, before and after terms were found.
    if (!d->numerical && nsi_discover_is_open(d)) {
        ok = ok && offer_ranks(d, out, &d->ranks) && offer_ranks(d, out, &d->rest);
    }
    if (ok) return NS_OK;
    nsi_array_free(&d->allocator, out);
    return nsi_fail_nomem(error);
}

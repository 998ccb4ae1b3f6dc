// A discovery for programs.

#include "discover/discover_words.h"
#include "fit/result_words.h"
#include "neuralsim/json.h"

#include <math.h>

static void add_found(ns_json* j, const ns_discovery* d) {
    ns_json_open(j, "found", '[');
    for (uint32_t k = 0; k < d->found.count; k++) {
        const ns_discovered* f = &d->found.data[k];
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "kind",
                     f->parameter      ? "parameter"
                     : isnan(f->value) ? "network"
                                       : "formula");
        ns_json_text(j, "quantity", f->quantity);
        ns_json_text(j, "form", f->form);
        ns_json_text(j, "text", f->text);
        ns_json_number(j, "value", f->value);
        ns_json_number(j, "standard_error", f->standard_error);
        ns_json_number(j, "start", f->start);
        ns_json_number(j, "shape", f->shape);
        ns_json_close(j);
    }
    ns_json_close(j);
}

static void add_moves(ns_json* j, const ns_discovery* d) {
    static const char* const kinds[] = {"enter", "swap", "leave"};
    const nsi_term* terms = d->dictionary.terms.data;
    ns_json_open(j, "moves", '[');
    for (uint32_t k = 0; k < d->moves.count; k++) {
        const nsi_move* m = &d->moves.data[k];
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "move", kinds[m->kind]);
        ns_json_text(j, "term", terms[m->term].name);
        if (m->instead != NSI_NONE) ns_json_text(j, "instead_of", terms[m->instead].name);
        ns_json_count(j, "windows", m->length);
        ns_json_number(j, "squares_before", m->before);
        ns_json_number(j, "squares_after", m->after);
        ns_json_number(j, "held_out_before", m->held_out_before);
        ns_json_number(j, "held_out_after", m->held_out_after);
        ns_json_open(j, "rivals", '[');
        for (uint32_t i = 0; i < m->nrival; i++) {
            ns_json_open(j, NULL, '{');
            ns_json_text(j, "term", terms[m->rivals[i].term].name);
            ns_json_number(j, "squares", m->rivals[i].squares);
            ns_json_bool(j, "indistinguishable", m->rivals[i].equal);
            ns_json_close(j);
        }
        ns_json_close(j);
        ns_json_close(j);
    }
    ns_json_close(j);
}

ns_status ns_discover_json(const ns_discovery* d, ns_text* out, ns_error* error) {
    ns_json* j = ns_json_create(&d->allocator);
    ns_json_text(j, "title", d->fit->plan->title);
    ns_json_text(j, "model", d->fit->plan->model);
    ns_json_bool(j, "complete", !d->watch->stopped);
    add_found(j, d);
    ns_json_open(j, "notes", '[');
    for (uint32_t k = 0; k < d->notes.count; k++) ns_json_text(j, NULL, d->notes.data[k]);
    ns_json_close(j);
    ns_json_open(j, "ranking", '[');
    for (uint32_t k = 0; k < d->ranks.count; k++) {
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "quantity", d->ranks.data[k].place);
        ns_json_number(j, "share", d->ranks.data[k].share);
        ns_json_close(j);
    }
    ns_json_close(j);
    add_moves(j, d);
    ns_json_open(j, "levels", '[');
    for (uint32_t k = 0; k < d->levels.count; k++) {
        const nsi_level* l = &d->levels.data[k];
        ns_json_open(j, NULL, '{');
        ns_json_count(j, "length", l->length);
        ns_json_count(j, "windows", l->windows);
        ns_json_count(j, "residuals", l->residuals);
        ns_json_number(j, "before", l->before);
        ns_json_number(j, "after", l->after);
        ns_json_close(j);
    }
    ns_json_close(j);
    ns_json_open(j, "held_out", '{');
    ns_json_number(j, "before", d->held_out[0]);
    ns_json_number(j, "after", d->held_out[1]);
    ns_json_close(j);
    for (int role = 0; role < NSI_ROLES; role++) {
        if (!d->fit->data[role]) continue;
        ns_json_open(j, nsi_role_name((nsi_role)role), '{');
        ns_json_number(j, "before", d->score[role][0]);
        ns_json_number(j, "after", d->score[role][1]);
        ns_json_close(j);
    }
    ns_json_number(j, "noise", d->noise);
    ns_json_bool(j, "numerical", d->numerical);
    ns_json_count(j, "terms", d->ncandidate);
    ns_json_count(j, "without_effect", d->nidle);
    ns_json_count(j, "left_out", d->dictionary.left_out);
    ns_json_number(j, "seconds", d->seconds);
    return ns_json_finish(j, out, error);
}

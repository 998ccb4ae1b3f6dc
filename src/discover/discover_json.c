// A discovery for programs.

#include "discover/discover_words.h"
#include "fit/result_words.h"
#include "io/json.h"

#include <math.h>

static void add_found(nsi_json* j, const ns_discovery* d) {
    nsi_json_open(j, "found", '[');
    for (uint32_t k = 0; k < d->found.count; k++) {
        const ns_discovered* f = &d->found.data[k];
        nsi_json_open(j, NULL, '{');
        nsi_json_text(j, "kind",
                      f->parameter      ? "parameter"
                      : isnan(f->value) ? "network"
                                        : "formula");
        nsi_json_text(j, "quantity", f->quantity);
        nsi_json_text(j, "form", f->form);
        nsi_json_text(j, "text", f->text);
        nsi_json_number(j, "value", f->value);
        nsi_json_number(j, "standard_error", f->standard_error);
        nsi_json_number(j, "start", f->start);
        nsi_json_number(j, "shape", f->shape);
        nsi_json_close(j);
    }
    nsi_json_close(j);
}

static void add_moves(nsi_json* j, const ns_discovery* d) {
    static const char* const kinds[] = {"enter", "swap", "leave"};
    const nsi_term* terms = d->dictionary.terms.data;
    nsi_json_open(j, "moves", '[');
    for (uint32_t k = 0; k < d->moves.count; k++) {
        const nsi_move* m = &d->moves.data[k];
        nsi_json_open(j, NULL, '{');
        nsi_json_text(j, "move", kinds[m->kind]);
        nsi_json_text(j, "term", terms[m->term].name);
        if (m->instead != NSI_NONE) nsi_json_text(j, "instead_of", terms[m->instead].name);
        nsi_json_count(j, "windows", m->length);
        nsi_json_number(j, "squares_before", m->before);
        nsi_json_number(j, "squares_after", m->after);
        nsi_json_number(j, "held_out_before", m->held_out_before);
        nsi_json_number(j, "held_out_after", m->held_out_after);
        nsi_json_open(j, "rivals", '[');
        for (uint32_t i = 0; i < m->nrival; i++) {
            nsi_json_open(j, NULL, '{');
            nsi_json_text(j, "term", terms[m->rivals[i].term].name);
            nsi_json_number(j, "squares", m->rivals[i].squares);
            nsi_json_bool(j, "indistinguishable", m->rivals[i].equal);
            nsi_json_close(j);
        }
        nsi_json_close(j);
        nsi_json_close(j);
    }
    nsi_json_close(j);
}

ns_status ns_discover_json(const ns_discovery* d, ns_text* out, ns_error* error) {
    nsi_json j = nsi_json_begin(&d->allocator);
    nsi_json_text(&j, "title", d->fit->plan->title);
    nsi_json_text(&j, "model", d->fit->plan->model);
    nsi_json_bool(&j, "complete", !d->watch->stopped);
    add_found(&j, d);
    nsi_json_open(&j, "notes", '[');
    for (uint32_t k = 0; k < d->notes.count; k++) nsi_json_text(&j, NULL, d->notes.data[k]);
    nsi_json_close(&j);
    nsi_json_open(&j, "ranking", '[');
    for (uint32_t k = 0; k < d->ranks.count; k++) {
        nsi_json_open(&j, NULL, '{');
        nsi_json_text(&j, "quantity", d->ranks.data[k].place);
        nsi_json_number(&j, "share", d->ranks.data[k].share);
        nsi_json_close(&j);
    }
    nsi_json_close(&j);
    add_moves(&j, d);
    nsi_json_open(&j, "levels", '[');
    for (uint32_t k = 0; k < d->levels.count; k++) {
        const nsi_level* l = &d->levels.data[k];
        nsi_json_open(&j, NULL, '{');
        nsi_json_count(&j, "length", l->length);
        nsi_json_count(&j, "windows", l->windows);
        nsi_json_count(&j, "residuals", l->residuals);
        nsi_json_number(&j, "before", l->before);
        nsi_json_number(&j, "after", l->after);
        nsi_json_close(&j);
    }
    nsi_json_close(&j);
    nsi_json_open(&j, "held_out", '{');
    nsi_json_number(&j, "before", d->held_out[0]);
    nsi_json_number(&j, "after", d->held_out[1]);
    nsi_json_close(&j);
    for (int role = 0; role < NSI_ROLES; role++) {
        if (!d->fit->data[role]) continue;
        nsi_json_open(&j, nsi_role_name((nsi_role)role), '{');
        nsi_json_number(&j, "before", d->score[role][0]);
        nsi_json_number(&j, "after", d->score[role][1]);
        nsi_json_close(&j);
    }
    nsi_json_number(&j, "noise", d->noise);
    nsi_json_bool(&j, "numerical", d->numerical);
    nsi_json_count(&j, "terms", d->ncandidate);
    nsi_json_count(&j, "without_effect", d->nidle);
    nsi_json_count(&j, "left_out", d->dictionary.left_out);
    nsi_json_number(&j, "seconds", d->seconds);
    return nsi_json_finish(&j, out, error);
}

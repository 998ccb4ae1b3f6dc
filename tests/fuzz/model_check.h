// Is a model that was loaded from any bytes a sound one?

#ifndef FUZZ_MODEL_CHECK_H
#define FUZZ_MODEL_CHECK_H

#include "model/model_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static inline void check_numbers(const double* v, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) REQUIRE(isfinite(v[i]));
}

static inline void check_model(const ns_model* model) {
    ns_model_sizes sizes = ns_model_get_sizes(model);
    uint32_t nq = 0, nv = 0;
    for (uint32_t i = 0; i < sizes.nlink; i++) {
        const nsi_link* link = &model->links[i];
        REQUIRE(link->parent == NSI_NONE || link->parent < i);
        REQUIRE(link->mimic == NSI_NONE || (link->mimic < i && link->nq == 0));
        REQUIRE(link->nq == 0 || (link->q == nq && link->v == nv));
        nq += link->nq, nv += link->nv;
        REQUIRE(!nsi_inertia_fault(link->def.mass, link->def.inertia));
        check_numbers(link->def.origin.position, 3);
        check_numbers(link->def.origin.quaternion, 4);
        check_numbers(link->def.axis, 3);
    }
    REQUIRE(nq == sizes.nq && nv == sizes.nv);
    for (uint32_t i = 0; i < sizes.ngeom; i++) {
        const ns_geom_def* geom = ns_model_geom(model, i);
        check_numbers(geom->size, 3);
        check_numbers(geom->vertices, 3 * geom->nvertex);
    }
    for (uint32_t i = 0; i < sizes.ncontact; i++) {
        const nsi_contact* contact = &model->contacts[i];
        const nsi_geom *a = &model->geoms[contact->a], *b = &model->geoms[contact->b];
        REQUIRE(nsi_geoms_can_touch(&a->def, &b->def));
        REQUIRE(nsi_link_body(model->links, a->link) != nsi_link_body(model->links, b->link));
        REQUIRE(a->param != NSI_NONE && b->param != NSI_NONE);
    }
    for (uint32_t i = 0; i < sizes.nparam; i++) {
        const ns_param* param = ns_model_param(model, i);
        check_numbers(&param->value, 1);
        REQUIRE(ns_model_find_param(model, param->name) == i);
    }
}

#endif

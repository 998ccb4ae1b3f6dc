// The block scene_respond: what the contacts in the list do to the velocities and coordinates.
//
// Row i of a contact is J_i = w_i T, with w_i its direction as a wrench about the world's origin and T
// the twists of the velocities that move its bodies; Z_i = J_i L^-1 D^-1/2 with the factors M = L'DL of
// the mass matrix (ltdl). Contacts of an island, and the velocities they touch, make the problem of
// contact_step.h. What comes of its impulses l is Z'l; the graph turns that into velocities.

#include "contact/contact_step.h"
#include "contact/scene_kernel.h"
#include "contact/sparse_step.h"

typedef struct respond_inputs {
    const double *pose, *twist, *factor, *qd, *qdd, *share, *param, *contacts, *missing;
    const double* start; // poses at the start of the step
} respond_inputs;

static respond_inputs split_inputs(const nsi_scene* s, const double* x) {
    respond_inputs in = {.pose = x};
    in.twist = in.pose + NSI_SCENE_POSE * s->ngeom;
    in.factor = in.twist + 6 * s->naxis;
    in.qd = in.factor + s->nfactor;
    in.qdd = in.qd + s->nv;
    in.share = in.qdd + s->nv;
    in.param = in.share + s->ntree;
    in.contacts = in.param + NSI_SCENE_PARAMS * s->npair;
    in.missing = in.contacts + NSI_SCENE_CONTACT * s->ncontact;
    in.start = in.missing + 1;
    return in;
}

// The rows of a contact, over the velocities that move its bodies.
typedef struct contact_rows {
    uint32_t pair, point;
    uint32_t next;   // of its island, or NSI_NONE
    uint32_t number; // in its island
    uint32_t count;  // velocities
    uint32_t* v;     // (count) ascending
    double *J, *Z;   // (3 x count) each
    double* wrench;  // (3 x 6)
} contact_rows;

typedef struct respond {
    const nsi_scene* s;
    respond_inputs in;
    uint32_t count; // contacts
    contact_rows* rows;
    uint32_t *island, *first, *last; // (ntree) root; of a root its first and last contact
    uint32_t* local;                 // (nv) number in the island, or NSI_NONE
    uint32_t *used, nused;           // velocities of the island
    uint32_t *tree, ntree;           // trees of the island
    bool* has_tree;                  // (ntree of the scene) is it one of them?
    uint32_t* params;                // of the island's step (sparse_step.h)
    double *args, *found;            // of functions
    double* work;                    // the rest
} respond;

enum { STEP_TERMS = 10, STEP_SMOOTH_TERMS = 9, STEP_KEPT = 13, STEP_LEVELS = 4, STEP_TOLD = 4 };

// ---- velocities of a contact -----------------------------------------------------------------------

static bool scene_carries(const nsi_scene* s, uint32_t ancestor, uint32_t body) {
    while (body != NSI_NONE && body > ancestor) body = s->bodies[body].parent;
    return body == ancestor;
}

static void insert_velocity(contact_rows* c, uint32_t v) {
    uint32_t at = c->count;
    while (at > 0 && c->v[at - 1] > v) at--;
    if (at > 0 && c->v[at - 1] == v) return;
    for (uint32_t k = c->count++; k > at; k--) c->v[k] = c->v[k - 1];
    c->v[at] = v;
}

static uint32_t find_velocity(const contact_rows* c, uint32_t v) {
    uint32_t k = 0;
    while (c->v[k] != v) k++;
    return k;
}

static uint32_t side_body(const nsi_scene* s, uint32_t pair, int side) {
    return s->geoms[side == 0 ? s->pairs[pair].a : s->pairs[pair].b].body;
}

// All velocities that the chains of both bodies have.
static void find_velocities(const nsi_scene* s, contact_rows* c) {
    c->count = 0;
    for (int side = 0; side < 2; side++) {
        for (uint32_t b = side_body(s, c->pair, side); b != NSI_NONE; b = s->bodies[b].parent) {
            const nsi_scene_tree* tree = &s->trees[s->bodies[b].tree];
            for (uint32_t k = 0; tree->dense && k < tree->nv; k++) {
                insert_velocity(c, s->dofs[tree->first + k]);
            }
            if (tree->dense) break;
            for (uint32_t k = 0; k < s->bodies[b].naxis; k++) {
                insert_velocity(c, s->axis_v[s->bodies[b].first_axis + k]);
            }
        }
    }
}

// Call for every axis that moves the two bodies differently: its number, the contact's velocity it is,
// the sign of its side.
typedef void axis_visitor(void* context, contact_rows* c, uint32_t axis, uint32_t k, double sign);

static void each_axis(const nsi_scene* s, contact_rows* c, axis_visitor* visit, void* context) {
    for (int side = 0; side < 2; side++) {
        const uint32_t other = side_body(s, c->pair, 1 - side);
        for (uint32_t b = side_body(s, c->pair, side); b != NSI_NONE; b = s->bodies[b].parent) {
            if (other != NSI_NONE && scene_carries(s, b, other)) break;
            for (uint32_t i = 0; i < s->bodies[b].naxis; i++) {
                const uint32_t axis = s->bodies[b].first_axis + i;
                visit(context, c, axis, find_velocity(c, s->axis_v[axis]), side == 0 ? 1.0 : -1.0);
            }
        }
    }
}

// Where row i of a tree's factor begins; its last number is the root of the inverse pivot.
static size_t factor_row(const nsi_scene* s, uint32_t v) {
    const uint32_t i = s->dof_local[v];
    return s->trees[s->dof_tree[v]].factor + (size_t)i * (i + 1) / 2;
}

// ---- rows --------------------------------------------------------------------------------------

typedef struct axis_rows {
    const double* twist;
    double* twist_bar; // or NULL
    double *wrench, *J;
} axis_rows;

static void add_axis(void* context, contact_rows* c, uint32_t axis, uint32_t k, double sign) {
    const axis_rows* r = context;
    const double* t = r->twist + 6 * (size_t)axis;
    for (uint32_t i = 0; i < 3; i++) {
        const double* w = r->wrench + 6 * i;
        double sum = 0.0;
        for (int n = 0; n < 6; n++) sum += w[n] * t[n];
        r->J[i * c->count + k] += sign * sum;
    }
}

static void adjoint_axis(void* context, contact_rows* c, uint32_t axis, uint32_t k, double sign) {
    const axis_rows* r = context;
    const double* t = r->twist + 6 * (size_t)axis;
    for (uint32_t i = 0; i < 3; i++) {
        const double g = sign * r->J[i * c->count + k];
        for (uint32_t n = 0; n < 6; n++) {
            r->wrench[6 * i + n] += g * t[n];
            r->twist_bar[6 * (size_t)axis + n] += g * c->wrench[6 * i + n];
        }
    }
}

// Z from J: x L^-1 D^-1/2, a row at a time.
static void weigh_rows(const nsi_scene* s, const double* factor, contact_rows* c) {
    for (uint32_t row = 0; row < 3; row++) {
        double* z = c->Z + row * c->count;
        for (uint32_t k = 0; k < c->count; k++) z[k] = c->J[row * c->count + k];
        for (uint32_t i = c->count; i-- > 0;) {
            const uint32_t tree = s->dof_tree[c->v[i]];
            const double* L = factor + factor_row(s, c->v[i]);
            for (uint32_t j = 0; j < i; j++) {
                if (s->dof_tree[c->v[j]] == tree) z[j] -= L[s->dof_local[c->v[j]]] * z[i];
            }
        }
        for (uint32_t i = 0; i < c->count; i++) {
            z[i] *= factor[factor_row(s, c->v[i]) + s->dof_local[c->v[i]]];
        }
    }
}

// dZ from dJ, in place, and the direction of the factors.
static void weigh_rows_tangent(const nsi_scene* s, const double* factor, const double* dfactor,
                               const contact_rows* c, double* dJ) {
    for (uint32_t row = 0; row < 3; row++) {
        const double* z = c->Z + row * c->count;
        double* dz = dJ + row * c->count;
        for (uint32_t i = c->count; i-- > 0;) {
            const uint32_t v = c->v[i];
            const size_t at = factor_row(s, v);
            const double x = z[i] / factor[at + s->dof_local[v]];
            for (uint32_t j = 0; j < i; j++) {
                if (s->dof_tree[c->v[j]] != s->dof_tree[v]) continue;
                const size_t k = at + s->dof_local[c->v[j]];
                dz[j] -= dfactor[k] * x + factor[k] * dz[i];
            }
        }
        for (uint32_t i = 0; i < c->count; i++) {
            const size_t at = factor_row(s, c->v[i]) + s->dof_local[c->v[i]];
            dz[i] = dz[i] * factor[at] + z[i] / factor[at] * dfactor[at];
        }
    }
}

// Jbar from Zbar, in place; adds to the adjoint of the factors.
static void weigh_rows_adjoint(const nsi_scene* s, const double* factor, const contact_rows* c,
                               double* Zbar, double* factor_bar) {
    for (uint32_t row = 0; row < 3; row++) {
        const double* z = c->Z + row * c->count;
        double* bar = Zbar + row * c->count;
        for (uint32_t i = 0; i < c->count; i++) {
            const size_t at = factor_row(s, c->v[i]) + s->dof_local[c->v[i]];
            factor_bar[at] += bar[i] * z[i] / factor[at];
            bar[i] *= factor[at];
        }
        for (uint32_t i = 0; i < c->count; i++) {
            const uint32_t v = c->v[i];
            const size_t at = factor_row(s, v);
            const double x = z[i] / factor[at + s->dof_local[v]];
            for (uint32_t j = 0; j < i; j++) {
                if (s->dof_tree[c->v[j]] != s->dof_tree[v]) continue;
                const size_t k = at + s->dof_local[c->v[j]];
                factor_bar[k] -= x * bar[j];
                bar[i] -= factor[k] * bar[j];
            }
        }
    }
}

// The inputs of a pair's rows: both shapes, and where they were at the start.
enum { SHAPE_INPUTS = 4 * NSI_SCENE_POSE };

static void gather_shapes(const nsi_scene* s, uint32_t pair, const respond_inputs* in,
                          double* out) {
    const double* poses[2] = {in->pose, in->start};
    for (int k = 0; k < 2; k++, out += 2 * NSI_SCENE_POSE) {
        const double* a = poses[k] + NSI_SCENE_POSE * s->pairs[pair].a;
        const double* b = poses[k] + NSI_SCENE_POSE * s->pairs[pair].b;
        memcpy(out, a, NSI_SCENE_POSE * sizeof *out);
        memcpy(out + NSI_SCENE_POSE, b, NSI_SCENE_POSE * sizeof *out);
    }
}

// Rows of all contacts in the list, then islands of them.
static void respond_begin(respond* r, const nsi_scene* s, const double* x, double* scratch) {
    *r = (respond){.s = s, .in = split_inputs(s, x)};
    double* at = scratch;
    const size_t n = s->ncontact, chain = s->chain;
    r->rows = (contact_rows*)(void*)nsi_take(&at, n * ((sizeof(contact_rows) + 7) / 8));
    r->island = nsi_take_counts(&at, s->ntree);
    r->first = nsi_take_counts(&at, s->ntree);
    r->last = nsi_take_counts(&at, s->ntree);
    r->local = nsi_take_counts(&at, s->nv);
    r->used = nsi_take_counts(&at, s->nv);
    r->tree = nsi_take_counts(&at, s->ntree);
    r->has_tree = (bool*)(void*)nsi_take(&at, s->ntree / 8 + 1);
    r->params = nsi_take_counts(&at, NSI_SPARSE_BEGIN + s->ntree + 1 + n * chain);
    r->args = nsi_take(&at, s->most_inputs);
    r->found = nsi_take(&at, s->most_outputs);
    uint32_t* velocities = nsi_take_counts(&at, n * chain);
    double* numbers = nsi_take(&at, n * (6 * chain + 18));

    uint32_t known = NSI_NONE;
    for (uint32_t c = 0; c < s->ncontact; c++) {
        contact_rows* k = &r->rows[c];
        if (!nsi_scene_contact_of(r->in.contacts + NSI_SCENE_CONTACT * c, &k->pair, &k->point))
            break;
        k->v = velocities + c * chain;
        k->J = numbers + c * (6 * chain + 18);
        k->Z = k->J + 3 * chain;
        k->wrench = k->Z + 3 * chain;
        if (k->pair != known) {
            gather_shapes(s, k->pair, &r->in, r->args);
            nsi_scene_run(s->kinds[s->pairs[k->pair].kind].rows.value, r->args, r->found, at);
            known = k->pair;
        }
        memcpy(k->wrench, r->found + 18 * (size_t)k->point, 18 * sizeof *k->wrench);
        find_velocities(s, k);
        for (uint32_t i = 0; i < 3 * k->count; i++) k->J[i] = 0.0;
        axis_rows rows = {.twist = r->in.twist, .wrench = k->wrench, .J = k->J};
        each_axis(s, k, add_axis, &rows);
        weigh_rows(s, r->in.factor, k);
        r->count++;
    }
    r->work = at;

    // Contacts of an island in a list, in their order.
    for (uint32_t t = 0; t < s->ntree; t++) {
        r->island[t] = t;
        r->first[t] = NSI_NONE;
        r->has_tree[t] = false;
    }
    for (uint32_t v = 0; v < s->nv; v++) r->local[v] = NSI_NONE;
    for (uint32_t c = 0; c < r->count; c++) {
        const contact_rows* k = &r->rows[c];
        nsi_island_join(r->island, s->dof_tree[k->v[0]], s->dof_tree[k->v[k->count - 1]]);
    }
    for (uint32_t c = 0; c < r->count; c++) {
        const uint32_t root = nsi_island_root(r->island, s->dof_tree[r->rows[c].v[0]]);
        r->rows[c].next = NSI_NONE;
        if (r->first[root] == NSI_NONE) {
            r->first[root] = c;
        } else {
            r->rows[r->last[root]].next = c;
        }
        r->last[root] = c;
    }
}

// ---- the problem of an island ------------------------------------------------------------------------

// The inputs of a step for n contacts: where each begins. Rows of Z have `width` numbers.
typedef struct island_inputs {
    uint32_t n, width;
    double *Z, *u, *h, *term; // term: STEP_TERMS rows of n
    double* end;
} island_inputs;

static island_inputs lay_out_island(uint32_t n, uint32_t width, double* x) {
    island_inputs in = {.n = n, .width = width, .Z = x};
    in.u = in.Z + (size_t)3 * n * width;
    in.h = in.u + 3 * n;
    in.term = in.h + 3 * n;
    in.end = in.term + (size_t)STEP_TERMS * n;
    return in;
}

// Number the contacts and velocities of an island, velocities by trees, and write the parameters of its
// step. Returns how many contacts it has.
static uint32_t number_island(respond* r, uint32_t first) {
    const nsi_scene* s = r->s;
    uint32_t n = 0;
    r->nused = r->ntree = 0;
    for (uint32_t c = first; c != NSI_NONE; c = r->rows[c].next) {
        contact_rows* k = &r->rows[c];
        k->number = n++;
        for (uint32_t i = 0; i < k->count; i++) {
            const uint32_t tree = s->dof_tree[k->v[i]];
            r->local[k->v[i]] = 0; // one of them
            if (!r->has_tree[tree]) r->tree[r->ntree++] = tree;
            r->has_tree[tree] = true;
        }
    }

    // Velocities, tree by tree.
    uint32_t* begin = r->params + NSI_SPARSE_BEGIN;
    for (uint32_t t = 0; t < r->ntree; t++) {
        const nsi_scene_tree* tree = &s->trees[r->tree[t]];
        begin[t] = r->nused;
        for (uint32_t i = 0; i < tree->nv; i++) {
            const uint32_t v = s->dofs[tree->first + i];
            if (r->local[v] == NSI_NONE) continue;
            r->local[v] = r->nused;
            r->used[r->nused++] = v;
        }
    }
    begin[r->ntree] = r->nused;

    const uint32_t sizes[NSI_SPARSE_BEGIN] = {n, s->friction, s->chain, r->nused, r->ntree};
    memcpy(r->params, sizes, sizeof sizes);
    uint32_t* column = begin + r->ntree + 1;
    for (uint32_t c = first; c != NSI_NONE; c = r->rows[c].next) {
        const contact_rows* k = &r->rows[c];
        for (uint32_t i = 0; i < s->chain; i++) {
            column[k->number * s->chain + i] = i < k->count ? r->local[k->v[i]] : UINT32_MAX;
        }
    }
    return n;
}

static void forget_island(respond* r) {
    for (uint32_t i = 0; i < r->nused; i++) r->local[r->used[i]] = NSI_NONE;
    for (uint32_t t = 0; t < r->ntree; t++) r->has_tree[r->tree[t]] = false;
}

static double tree_share(const respond* r, const contact_rows* k) {
    return r->in.share[r->s->dof_tree[k->v[0]]];
}

// Inputs of the terms of a contact.
static void term_inputs(const respond* r, uint32_t c, double out[NSI_TERM_INPUTS]) {
    const contact_rows* k = &r->rows[c];
    const double* contact = r->in.contacts + NSI_SCENE_CONTACT * c;
    const double* param = r->in.param + NSI_SCENE_PARAMS * k->pair;
    const unsigned kind = (unsigned)contact[NSI_SCENE_KIND];
    out[NSI_TERM_PHI] = contact[NSI_SCENE_PHI];
    out[NSI_TERM_VN] = contact[NSI_SCENE_VN];
    out[NSI_TERM_A] = contact[NSI_SCENE_A];
    out[NSI_TERM_SHARE] = tree_share(r, k);
    out[NSI_TERM_BETA] = param[3];
    out[NSI_TERM_MAX_PUSH] = param[4];
    out[NSI_TERM_HIT] = kind & NSI_CONTACT_HIT ? 1.0 : 0.0;
    out[NSI_TERM_LATE] = kind & NSI_SCENE_LATE ? 1.0 : 0.0;
}

// mu, cfm, restitution, gap, share, slack, slack_after, goal, rise, kind.
static void fill_island(respond* r, uint32_t first, island_inputs* in) {
    const nsi_scene* s = r->s;
    for (uint32_t c = first; c != NSI_NONE; c = r->rows[c].next) {
        const contact_rows* k = &r->rows[c];
        for (uint32_t row = 0; row < 3; row++) {
            const uint32_t i = 3 * k->number + row;
            double u = 0.0, h = 0.0, *z = in->Z + (size_t)i * in->width;
            for (uint32_t j = 0; j < in->width; j++) {
                z[j] = j < k->count ? k->Z[row * k->count + j] : 0.0;
            }
            for (uint32_t j = 0; j < k->count; j++) {
                u += k->J[row * k->count + j] * r->in.qd[k->v[j]];
                h += k->J[row * k->count + j] * r->in.qdd[k->v[j]];
            }
            in->u[i] = u;
            in->h[i] = s->dt * h;
        }

        double x[NSI_TERM_INPUTS], terms[NSI_TERM_OUTPUTS];
        term_inputs(r, c, x);
        nsi_scene_run(s->terms.value, x, terms, r->work);
        const double* param = r->in.param + NSI_SCENE_PARAMS * k->pair;
        unsigned kind = (unsigned)r->in.contacts[NSI_SCENE_CONTACT * c + NSI_SCENE_KIND];
        if (param[2] != 0.0) kind &= ~(unsigned)NSI_CONTACT_FOLLOWS; // late in the next step
        const double term[STEP_TERMS] = {
            param[0], param[1], param[2], terms[0], tree_share(r, k),
            terms[1], terms[2], terms[3], terms[4], kind & ~(unsigned)NSI_SCENE_LATE};
        for (uint32_t t = 0; t < STEP_TERMS; t++) in->term[t * in->n + k->number] = term[t];
    }
}

// The velocities, as an island's Z'l.
static void add_response(const respond* r, uint32_t first, const double* l, double* out) {
    for (uint32_t c = first; c != NSI_NONE; c = r->rows[c].next) {
        const contact_rows* k = &r->rows[c];
        for (uint32_t row = 0; row < 3; row++) {
            const double impulse = l[3 * k->number + row];
            for (uint32_t j = 0; j < k->count; j++) {
                out[k->v[j]] += k->Z[row * k->count + j] * impulse;
            }
        }
    }
}

static const nsi_sparse_step* island_kernels(void) {
#ifdef NSI_HAVE_AVX2_KERNELS
    if (nsi_cpu_has_avx2_fma()) return &nsi_sparse_step_avx2;
#endif
    return &nsi_sparse_step_generic;
}

// Numbers that one island can need: of inputs, of outputs, of the kernel itself.
static size_t island_room(const nsi_scene* s, size_t* outputs, size_t* scratch) {
    const size_t n = s->ncontact, smooth = 3 * n * (s->chain + 2) + STEP_SMOOTH_TERMS * n;
    const size_t value = 19 * n + STEP_LEVELS + STEP_TOLD;
    *outputs = smooth > value ? smooth : value;
    *scratch = nsi_sparse_step_scratch(n, s->chain, s->nv, s->ntree);
    return 2 * smooth + n + (STEP_KEPT + 6) * n + STEP_LEVELS;
}

size_t nsi_scene_respond_scratch(const nsi_scene* s) {
    size_t outputs, scratch, inputs = island_room(s, &outputs, &scratch);
    const size_t n = s->ncontact, chain = s->chain;
    const size_t rows = n * ((sizeof(contact_rows) + 7) / 8) + 4 * (size_t)s->ntree + s->nv + 16 +
                        n * chain + s->most_inputs + s->most_outputs + n * (7 * chain + 19);
    return rows + inputs + outputs + scratch + s->work + n * (3 * chain + 18) + 64;
}

// ---- value ---------------------------------------------------------------------------------------

// Numbers of a contact that derivatives read: impulses and shifts, those of the four problems, the
// position impulse, the levels.
static void keep_contact(const island_inputs* in, const double* y, uint32_t i, double* kept) {
    const size_t n = in->n;
    for (size_t k = 0; k < 6; k++) {
        for (size_t row = 0; row < 3; row++) kept[3 * k + row] = y[3 * n * k + 3 * i + row];
    }
    kept[18] = y[18 * n + i];
    for (size_t k = 0; k < STEP_LEVELS; k++) kept[19 + k] = y[19 * n + k];
}

static void respond_value(const nsi_scene* s, const double* x, double* y, double* scratch) {
    respond r;
    respond_begin(&r, s, x, scratch);
    size_t outputs, kernel, room = island_room(s, &outputs, &kernel);
    double *at = r.work + s->work, *inputs = nsi_take(&at, room), *out = nsi_take(&at, outputs);
    double *velocities = y, *shift = y + s->nv, *kept = shift + s->nv;
    double* told = kept + NSI_SCENE_KEPT * s->ncontact;
    for (uint32_t k = 0; k < nsi_scene_respond_outputs(s); k++) y[k] = 0.0;

    for (uint32_t t = 0; t < s->ntree; t++) {
        if (r.first[t] == NSI_NONE) continue;
        const uint32_t first = r.first[t], n = number_island(&r, first);
        island_inputs in = lay_out_island(n, s->chain, inputs);
        fill_island(&r, first, &in);
        island_kernels()->value(r.params, inputs, out, at);
        add_response(&r, first, out, velocities);
        add_response(&r, first, out + NSI_CONTACT_STEP_SHIFT(n), shift);
        for (uint32_t c = first; c != NSI_NONE; c = r.rows[c].next) {
            keep_contact(&in, out, r.rows[c].number, kept + NSI_SCENE_KEPT * c);
        }

        // The worst residual and relaxation, and all the work.
        const double* said = out + NSI_CONTACT_STEP_TOLD(n);
        for (int k = 0; k < 2; k++) told[k] = said[k] > told[k] ? said[k] : told[k];
        for (int k = 2; k < STEP_TOLD; k++) told[k] += said[k];
        forget_island(&r);
    }
    if (*r.in.missing != 0.0 && told[0] < 1.0) told[0] = 1.0;
}

// ---- derivatives ---------------------------------------------------------------------------------

// What the value kept, behind the inputs of a derivative of contact_step.
static void recall_island(const respond* r, uint32_t first, const island_inputs* in,
                          const double* kept) {
    const size_t n = in->n;
    double *impulses = in->end, *positions = impulses + 12 * n, *levels = positions + n;
    for (uint32_t c = first; c != NSI_NONE; c = r->rows[c].next) {
        const double* from = kept + NSI_SCENE_KEPT * c;
        const size_t i = r->rows[c].number;
        for (size_t k = 0; k < 4; k++) {
            for (size_t row = 0; row < 3; row++) {
                impulses[3 * n * k + 3 * i + row] = from[6 + 3 * k + row];
            }
        }
        positions[i] = from[18];
        for (size_t k = 0; k < STEP_LEVELS; k++) levels[k] = from[19 + k];
    }
}

// Directions of a contact's inputs in its island.
static void contact_direction(const respond* r, uint32_t c, const respond_inputs* d, double* dJ,
                              const island_inputs* to) {
    const nsi_scene* s = r->s;
    contact_rows* k = &r->rows[c];
    for (uint32_t row = 0; row < 3; row++) {
        double du = 0.0, dh = 0.0;
        for (uint32_t j = 0; j < k->count; j++) {
            const double J = k->J[row * k->count + j], change = dJ[row * k->count + j];
            du += change * r->in.qd[k->v[j]] + J * d->qd[k->v[j]];
            dh += change * r->in.qdd[k->v[j]] + J * d->qdd[k->v[j]];
        }
        to->u[3 * k->number + row] = du;
        to->h[3 * k->number + row] = s->dt * dh;
    }
    weigh_rows_tangent(s, r->in.factor, d->factor, k, dJ);
    for (uint32_t row = 0; row < 3; row++) {
        double* dz = to->Z + (size_t)(3 * k->number + row) * to->width;
        for (uint32_t j = 0; j < to->width; j++) {
            dz[j] = j < k->count ? dJ[row * k->count + j] : 0.0;
        }
    }

    double x[2 * NSI_TERM_INPUTS], terms[NSI_TERM_OUTPUTS];
    respond moved = {.s = s, .in = *d, .rows = r->rows};
    term_inputs(r, c, x);
    term_inputs(&moved, c, x + NSI_TERM_INPUTS);
    x[NSI_TERM_INPUTS + NSI_TERM_HIT] = x[NSI_TERM_INPUTS + NSI_TERM_LATE] = 0.0;
    nsi_scene_run(s->terms.tangent, x, terms, r->work);
    const double* param = d->param + NSI_SCENE_PARAMS * k->pair;
    const double term[STEP_SMOOTH_TERMS] = {
        param[0], param[1], param[2], terms[0], tree_share(&moved, k),
        terms[1], terms[2], terms[3], terms[4]};
    for (uint32_t t = 0; t < STEP_SMOOTH_TERMS; t++) to->term[t * to->n + k->number] = term[t];
}

// Directions of the rows J of a contact.
static void row_direction(const respond* r, uint32_t c, const respond_inputs* d,
                          const double* dwrench, double* dJ) {
    contact_rows* k = &r->rows[c];
    double copy[18];
    for (uint32_t i = 0; i < 3 * k->count; i++) dJ[i] = 0.0;
    memcpy(copy, dwrench, sizeof copy);
    axis_rows by_wrench = {.twist = r->in.twist, .wrench = copy, .J = dJ};
    axis_rows by_twist = {.twist = d->twist, .wrench = k->wrench, .J = dJ};
    each_axis(r->s, k, add_axis, &by_wrench);
    each_axis(r->s, k, add_axis, &by_twist);
}

// The direction of Z'l.
static void add_response_direction(const respond* r, uint32_t first, const double* kept,
                                   uint32_t from, const double* dl, const island_inputs* d,
                                   double* out) {
    add_response(r, first, dl, out);
    for (uint32_t c = first; c != NSI_NONE; c = r->rows[c].next) {
        const contact_rows* k = &r->rows[c];
        for (uint32_t row = 0; row < 3; row++) {
            const double l = kept[NSI_SCENE_KEPT * c + from + row];
            for (uint32_t j = 0; j < k->count; j++) {
                out[k->v[j]] += d->Z[(size_t)(3 * k->number + row) * d->width + j] * l;
            }
        }
    }
}

// x: inputs, what contacts keep, direction of the inputs. Outputs: directions of both responses.
static void respond_tangent(const nsi_scene* s, const double* x, double* y, double* scratch) {
    respond r;
    respond_begin(&r, s, x, scratch);
    const double* kept = x + nsi_scene_respond_inputs(s);
    const respond_inputs d = split_inputs(s, kept + NSI_SCENE_KEPT * s->ncontact);
    size_t outputs, kernel, room = island_room(s, &outputs, &kernel);
    double *at = r.work + s->work, *inputs = nsi_take(&at, room), *out = nsi_take(&at, outputs);
    double* dwrench = nsi_take(&at, 18 * (size_t)s->ncontact);
    double* dJ = nsi_take(&at, 3 * s->chain);
    for (uint32_t k = 0; k < 2 * s->nv; k++) y[k] = 0.0;

    // Directions of the wrenches, all points of a pair at once.
    uint32_t known = NSI_NONE;
    for (uint32_t c = 0; c < r.count; c++) {
        const contact_rows* k = &r.rows[c];
        if (k->pair != known) {
            gather_shapes(s, k->pair, &r.in, r.args);
            gather_shapes(s, k->pair, &d, r.args + SHAPE_INPUTS);
            nsi_scene_run(s->kinds[s->pairs[k->pair].kind].rows.tangent, r.args, r.found, r.work);
            known = k->pair;
        }
        memcpy(dwrench + 18 * (size_t)c, r.found + 18 * (size_t)k->point, 18 * sizeof *dwrench);
    }

    // Islands: inputs of the step and their direction, then that of the impulses.
    for (uint32_t t = 0; t < s->ntree; t++) {
        if (r.first[t] == NSI_NONE) continue;
        const uint32_t first = r.first[t], n = number_island(&r, first);
        island_inputs in = lay_out_island(n, s->chain, inputs);
        fill_island(&r, first, &in);
        recall_island(&r, first, &in, kept);
        island_inputs direction =
            lay_out_island(n, s->chain, in.end + (size_t)STEP_KEPT * n + STEP_LEVELS);
        for (uint32_t c = first; c != NSI_NONE; c = r.rows[c].next) {
            row_direction(&r, c, &d, dwrench + 18 * (size_t)c, dJ);
            contact_direction(&r, c, &d, dJ, &direction);
        }
        island_kernels()->tangent(r.params, inputs, out, at);
        add_response_direction(&r, first, kept, 0, out, &direction, y);
        add_response_direction(&r, first, kept, 3, out + 3 * (size_t)n, &direction, y + s->nv);
        forget_island(&r);
    }
}

// Adjoints of an island's impulses from those of Z'l.
static void impulse_bars(const respond* r, uint32_t first, const double* ybar, double* lbar) {
    for (uint32_t c = first; c != NSI_NONE; c = r->rows[c].next) {
        const contact_rows* k = &r->rows[c];
        for (uint32_t row = 0; row < 3; row++) {
            double sum = 0.0;
            for (uint32_t j = 0; j < k->count; j++) {
                sum += k->Z[row * k->count + j] * ybar[k->v[j]];
            }
            lbar[3 * k->number + row] = sum;
        }
    }
}

// The adjoints of all inputs, by their names; `bar` of respond_adjoint().
typedef struct respond_bars {
    double *pose, *twist, *factor, *qd, *qdd, *share, *param, *contacts;
} respond_bars;

static respond_bars split_bars(const nsi_scene* s, double* y) {
    respond_bars bar = {.pose = y};
    bar.twist = bar.pose + NSI_SCENE_POSE * s->ngeom;
    bar.factor = bar.twist + 6 * s->naxis;
    bar.qd = bar.factor + s->nfactor;
    bar.qdd = bar.qd + s->nv;
    bar.share = bar.qdd + s->nv;
    bar.param = bar.share + s->ntree;
    bar.contacts = bar.param + NSI_SCENE_PARAMS * s->npair;
    return bar;
}

static void term_adjoint(const respond* r, uint32_t c, const island_inputs* from,
                         respond_bars* to) {
    const contact_rows* k = &r->rows[c];
    const size_t n = from->n, i = k->number;
    double *param = to->param + NSI_SCENE_PARAMS * k->pair,
           *contact = to->contacts + NSI_SCENE_CONTACT * c;
    double* share = &to->share[r->s->dof_tree[k->v[0]]];
    for (size_t t = 0; t < 3; t++) param[t] += from->term[t * n + i];
    *share += from->term[4 * n + i];

    double x[NSI_TERM_INPUTS + NSI_TERM_OUTPUTS], bar[NSI_TERM_INPUTS];
    static const size_t term[NSI_TERM_OUTPUTS] = {3, 5, 6, 7, 8};
    term_inputs(r, c, x);
    for (size_t t = 0; t < NSI_TERM_OUTPUTS; t++)
        x[NSI_TERM_INPUTS + t] = from->term[term[t] * n + i];
    nsi_scene_run(r->s->terms.adjoint, x, bar, r->work);
    contact[NSI_SCENE_PHI] += bar[NSI_TERM_PHI];
    contact[NSI_SCENE_VN] += bar[NSI_TERM_VN];
    contact[NSI_SCENE_A] += bar[NSI_TERM_A];
    *share += bar[NSI_TERM_SHARE];
    param[3] += bar[NSI_TERM_BETA];
    param[4] += bar[NSI_TERM_MAX_PUSH];
}

// Of a contact's rows: from the adjoints of Z, u, h, and of Z'l by Z, to those of directions, twists, factors
// and velocities.
static void row_adjoint(const respond* r, uint32_t c, const island_inputs* from, const double* kept,
                        const double* ybar, double* Jbar, double* wrench_bar, respond_bars* to) {
    const nsi_scene* s = r->s;
    contact_rows* k = &r->rows[c];
    const double* l = kept + NSI_SCENE_KEPT * c;
    for (uint32_t row = 0; row < 3; row++) {
        for (uint32_t j = 0; j < k->count; j++) {
            const size_t i = (size_t)(3 * k->number + row) * from->width + j;
            Jbar[row * k->count + j] =
                from->Z[i] + l[row] * ybar[k->v[j]] + l[3 + row] * ybar[s->nv + k->v[j]];
        }
    }
    weigh_rows_adjoint(s, r->in.factor, k, Jbar, to->factor);
    for (uint32_t row = 0; row < 3; row++) {
        const double ubar = from->u[3 * k->number + row];
        const double hbar = s->dt * from->h[3 * k->number + row];
        for (uint32_t j = 0; j < k->count; j++) {
            const uint32_t v = k->v[j];
            const double J = k->J[row * k->count + j];
            Jbar[row * k->count + j] += ubar * r->in.qd[v] + hbar * r->in.qdd[v];
            to->qd[v] += ubar * J;
            to->qdd[v] += hbar * J;
        }
    }
    for (int i = 0; i < 18; i++) wrench_bar[i] = 0.0;
    axis_rows rows = {
        .twist = r->in.twist, .twist_bar = to->twist, .wrench = wrench_bar, .J = Jbar};
    each_axis(s, k, adjoint_axis, &rows);
}

// From the adjoints of directions to those of the shapes, pair by pair.
static void shape_adjoints(const respond* r, const double* wrench_bar, respond_bars* to) {
    const nsi_scene* s = r->s;
    for (uint32_t c = 0, end; c < r->count; c = end) {
        const uint32_t pair = r->rows[c].pair;
        const nsi_scene_function* rows = &s->kinds[s->pairs[pair].kind].rows;
        double* seed = r->args + rows->ninput;
        for (uint32_t i = 0; i < rows->noutput; i++) seed[i] = 0.0;
        for (end = c; end < r->count && r->rows[end].pair == pair; end++) {
            memcpy(seed + 18 * (size_t)r->rows[end].point, wrench_bar + 18 * (size_t)end,
                   18 * sizeof *seed);
        }
        gather_shapes(s, pair, &r->in, r->args);
        nsi_scene_run(rows->adjoint, r->args, r->found, r->work);
        for (uint32_t k = 0; k < NSI_SCENE_POSE; k++) {
            to->pose[NSI_SCENE_POSE * s->pairs[pair].a + k] += r->found[k];
            to->pose[NSI_SCENE_POSE * s->pairs[pair].b + k] += r->found[NSI_SCENE_POSE + k];
        }
    }
}

// x: inputs, what contacts keep, adjoints of both responses.
static void respond_adjoint(const nsi_scene* s, const double* x, double* y, double* scratch) {
    respond r;
    respond_begin(&r, s, x, scratch);
    const double* kept = x + nsi_scene_respond_inputs(s);
    const double* ybar = kept + NSI_SCENE_KEPT * s->ncontact;
    respond_bars bar = split_bars(s, y);
    size_t outputs, kernel, room = island_room(s, &outputs, &kernel);
    double *at = r.work + s->work, *inputs = nsi_take(&at, room), *out = nsi_take(&at, outputs);
    double* wrench_bar = nsi_take(&at, 18 * (size_t)s->ncontact);
    double* Jbar = nsi_take(&at, 3 * s->chain);
    for (uint32_t k = 0; k < nsi_scene_respond_inputs(s); k++) y[k] = 0.0;

    // Islands: adjoints of the impulses, of the step's inputs, and of what these are made of.
    for (uint32_t t = 0; t < s->ntree; t++) {
        if (r.first[t] == NSI_NONE) continue;
        const uint32_t first = r.first[t], n = number_island(&r, first);
        island_inputs in = lay_out_island(n, s->chain, inputs);
        fill_island(&r, first, &in);
        recall_island(&r, first, &in, kept);
        double* lbar = in.end + (size_t)STEP_KEPT * n + STEP_LEVELS;
        impulse_bars(&r, first, ybar, lbar);
        impulse_bars(&r, first, ybar + s->nv, lbar + 3 * (size_t)n);
        island_kernels()->adjoint(r.params, inputs, out, at);
        const island_inputs from = lay_out_island(n, s->chain, out);
        for (uint32_t c = first; c != NSI_NONE; c = r.rows[c].next) {
            term_adjoint(&r, c, &from, &bar);
            row_adjoint(&r, c, &from, kept, ybar, Jbar, wrench_bar + 18 * (size_t)c, &bar);
        }
        forget_island(&r);
    }

    // Wrenches, all points of a pair at once.
    shape_adjoints(&r, wrench_bar, &bar);
}

// ---- the kinds -----------------------------------------------------------------------------------

static void respond_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                        uint32_t dsink, nsi_id* dy) {
    (void)dsource, (void)dsink;
    const nsi_scene* s = (const nsi_scene*)(const void*)block->data;
    nsi_id node = nsi_scene_append(g, &nsi_scene_respond_tangent, block, 2 * s->nv,
                                   NSI_SCENE_KEPT * s->ncontact, dx, block->ninput, 2 * s->nv,
                                   nsi_scene_respond_scratch(s));
    for (uint32_t k = 0; k < 2 * s->nv && node != NSI_NONE; k++) dy[k] = nsi_graph_out(g, node, k);
}

static void respond_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                        uint32_t source_bar, nsi_id* xbar) {
    (void)sink_seed, (void)source_bar;
    const nsi_scene* s = (const nsi_scene*)(const void*)block->data;
    nsi_id node = nsi_scene_append(g, &nsi_scene_respond_adjoint, block, 2 * s->nv,
                                   NSI_SCENE_KEPT * s->ncontact, ybar, 2 * s->nv, block->ninput,
                                   nsi_scene_respond_scratch(s));
    for (uint32_t k = 0; k < block->ninput && node != NSI_NONE; k++) {
        xbar[k] = nsi_graph_out(g, node, k);
    }
}

NSI_SCENE_KERNEL(respond_value)
NSI_SCENE_KERNEL(respond_tangent)
NSI_SCENE_KERNEL(respond_adjoint)

#define PARAMS .nparam = 3, .param_names = {"inputs", "outputs", "scratch"}

const nsi_block_kind nsi_scene_respond = {.name = "scene_respond",
                                          .has_data = true,
                                          PARAMS,
                                          .sizes = nsi_scene_sizes,
                                          .jvp = respond_jvp,
                                          .vjp = respond_vjp,
                                          .kernel = respond_value_kernel};

const nsi_block_kind nsi_scene_respond_tangent = {.name = "scene_respond_tangent",
                                                  .has_data = true,
                                                  PARAMS,
                                                  .sizes = nsi_scene_sizes,
                                                  .jvp = nsi_ncp_no_jvp,
                                                  .vjp = nsi_ncp_no_vjp,
                                                  .kernel = respond_tangent_kernel};

const nsi_block_kind nsi_scene_respond_adjoint = {.name = "scene_respond_adjoint",
                                                  .has_data = true,
                                                  PARAMS,
                                                  .sizes = nsi_scene_sizes,
                                                  .jvp = nsi_ncp_no_jvp,
                                                  .vjp = nsi_ncp_no_vjp,
                                                  .kernel = respond_adjoint_kernel};

// Contacts near a switch: one more rollout that observes rigid contact, point by point.
//
// The derivative of a rigid contact is that of the pattern it is in: apart, sticking or sliding. It changes
// where both sides of a complementarity condition vanish together, so a point is near a switch when
//
//     touching       force, gap and normal velocity are all about 0
//     sliding        the friction force is at its bound, and the slip is about 0
//     simultaneous   two points of a step are hit at the same time
//
// "About 0" is a share of what one step of weight does: m g, g dt and g dt^2.

#include "contact/scene.h"
#include "model/model_data.h"
#include "sim/certificate_notes.h"
#include "sim/system.h"

#include <stdio.h>

// Columns of a point's observations.
enum {
    POINT_DEPTH,
    POINT_NORMAL_VELOCITY,
    POINT_SLIP1,
    POINT_SLIP2,
    POINT_NORMAL_FORCE,
    POINT_FRICTION1,
    POINT_FRICTION2,
    POINT_MU,
    POINT_COLUMNS
};

static const char* const point_quantity[POINT_COLUMNS] = {
    "depth",        "velocity/normal", "velocity/tangent1", "velocity/tangent2",
    "force/normal", "force/tangent1",  "force/tangent2",    "mu"};

typedef struct monitored_point {
    uint32_t column[POINT_COLUMNS]; // of the observations; NSI_NONE: there is no such quantity
    bool acts;                      // in this rollout: it presses, or its gap changes
} monitored_point;

struct ns_contact_monitor {
    ns_allocator allocator;
    const ns_system* system;
    uint32_t steps;
    ns_system* observer; // NULL: there is no rigid contact, or it is found at run time
    ns_workspace* work;
    nsi_arena arena;
    monitored_point* points;
    uint32_t npoint;
    uint32_t* param;      // (np of the observer) its parameters in the model's registry
    double* params;       // (np of the observer) their values
    double* observations; // (steps + 1 x ny)
    double* controls;     // (steps + 1 x nc) with the last one held
    double* hits;         // (npoint) times of impacts in a step
    uint32_t ny;
};

// Sizes of what weight does in one step.
typedef struct switch_scale {
    double force, velocity, way;
} switch_scale;

// ---- the observer ------------------------------------------------------------------------------

static int pair_law(const ns_system* s, uint32_t pair) {
    return s->options.contact >= 0 ? s->options.contact : (int)s->model->contacts[pair].def.model;
}

static bool is_rigid_pair(const ns_system* s, uint32_t pair) {
    return ns_contact_law_get(pair_law(s, pair))->stage == NS_CONTACT_STAGE_IMPULSES;
}

static uint32_t find_observation(const ns_system* s, const char* name) {
    for (uint32_t k = 0; k < s->sizes.ny; k++) {
        if (strcmp(ns_system_observation_name(s, k), name) == 0) return k;
    }
    return NSI_NONE;
}

// The columns of point `index` of a pair; false when the pair has no such point. Parameters of contact
// belong to a pair.
static bool find_monitored_point(const ns_contact_monitor* m, const char* pair, uint32_t index,
                                 monitored_point* out) {
    char name[NSI_PAIR_MAX_NAME + 64];
    for (int k = 0; k < POINT_COLUMNS; k++) {
        snprintf(name, sizeof name, "contact/%s/%u/%s", pair, index, point_quantity[k]);
        out->column[k] = find_observation(m->observer, name);
    }
    if (out->column[POINT_MU] == NSI_NONE) {
        snprintf(name, sizeof name, "contact/%s/mu", pair);
        out->column[POINT_MU] = find_observation(m->observer, name);
    }
    return out->column[POINT_NORMAL_FORCE] != NSI_NONE;
}

// Free in the observer: what is free in the system, and friction, which is observed as networks leave it.
static const char** observer_free_params(ns_contact_monitor* m, uint32_t* count) {
    uint32_t np = m->system->sizes.np;
    const char** names = nsi_arena_alloc(&m->arena, ((size_t)np + 1) * sizeof *names);
    for (uint32_t k = 0; names && k < np; k++) names[k] = ns_system_param_name(m->system, k);
    if (names) names[np] = "contact/**/mu";
    *count = np + 1;
    return names;
}

static ns_status create_observer(ns_contact_monitor* m, ns_error* error) {
    static const char* const observed[] = {"contact/**/depth", "contact/**/velocity",
                                           "contact/**/force/normal", "contact/**/force/tangent?",
                                           "contact/**/mu"};
    ns_system_options options = m->system->options;
    options.free_params = observer_free_params(m, &options.nfree);
    if (!options.free_params) return nsi_fail_nomem(error);
    options.observe = observed;
    options.nobserve = sizeof observed / sizeof *observed;
    options.backend = NS_BACKEND_INTERP;
    ns_status status = nsi_system_create_like(m->system, &options, &m->observer, error);
    if (status != NS_OK) return status;
    m->ny = m->observer->sizes.ny;
    ns_workspace_size size = {.batch = 1, .steps = m->steps + 1, .threads = 1};
    return ns_workspace_create(m->observer, &size, &m->work, error);
}

static ns_status allocate_monitor(ns_contact_monitor* m, ns_error* error) {
    const ns_system_sizes* z = &m->observer->sizes;
    size_t rows = (size_t)m->steps + 1;
    m->points = nsi_arena_alloc(&m->arena, ((size_t)m->ny + 1) * sizeof *m->points);
    m->param = nsi_arena_alloc(&m->arena, ((size_t)z->np + 1) * sizeof *m->param);
    m->params = nsi_arena_alloc(&m->arena, ((size_t)z->np + 1) * sizeof *m->params);
    m->observations = nsi_arena_alloc(&m->arena, (rows * m->ny + 1) * sizeof *m->observations);
    m->controls = nsi_arena_alloc(&m->arena, (rows * z->nc + 1) * sizeof *m->controls);
    m->hits = nsi_arena_alloc(&m->arena, ((size_t)m->ny + 1) * sizeof *m->hits);
    if (!m->points || !m->param || !m->params || !m->observations || !m->controls || !m->hits) {
        return nsi_fail_nomem(error);
    }

    // Where a parameter of the observer comes from: a free one of the system, or the system's value
    for (uint32_t k = 0; k < z->np; k++) {
        uint32_t number = m->observer->free_param[k];
        m->param[k] = NSI_NONE;
        m->params[k] = m->system->params[number];
        for (uint32_t i = 0; i < m->system->sizes.np; i++) {
            if (m->system->free_param[i] == number) m->param[k] = i;
        }
    }

    // The points of all pairs with rigid contact
    for (uint32_t pair = 0; pair < m->system->model->sizes.ncontact; pair++) {
        if (!is_rigid_pair(m->system, pair)) continue;
        const char* name = m->system->model->contacts[pair].def.name;
        for (uint32_t i = 0; find_monitored_point(m, name, i, &m->points[m->npoint]); i++)
            m->npoint++;
    }
    return NS_OK;
}

ns_status ns_contact_monitor_create(const ns_system* system, uint32_t steps,
                                    ns_contact_monitor** out, ns_error* error) {
    *out = NULL;
    if (!system || steps == 0 || steps == UINT32_MAX) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "a contact monitor needs a system and steps");
    }
    if (!system->model) {
        return nsi_fail(error, NS_ERR_UNSUPPORTED, "a learned system has no contacts to monitor");
    }
    ns_contact_monitor* m = nsi_alloc_zeroed(&system->allocator, sizeof *m);
    if (!m) return nsi_fail_nomem(error);
    m->allocator = m->arena.allocator = system->allocator;
    m->system = system;
    m->steps = steps;
    ns_status status = NS_OK;
    if (system->nsolver > 0 && !nsi_scene_is_part_of(system->graph)) {
        status = create_observer(m, error);
        if (status == NS_OK) status = allocate_monitor(m, error);
    }
    if (status != NS_OK) {
        ns_contact_monitor_free(m);
        return status;
    }
    *out = m;
    return NS_OK;
}

void ns_contact_monitor_free(ns_contact_monitor* m) {
    if (!m) return;
    ns_allocator memory = m->allocator;
    ns_workspace_free(m->work);
    ns_system_free(m->observer);
    nsi_arena_free(&m->arena);
    nsi_free(&memory, m);
}

// ---- switches ----------------------------------------------------------------------------------

// Sizes by the weight of the robot; without gravity by an acceleration of 1 m/s^2.
static switch_scale scale_switches(const ns_system* s) {
    const ns_model* model = s->model;
    double dt = s->sizes.timestep, mass = 0.0, square = 0.0;
    for (uint32_t k = 0; k < model->sizes.nlink; k++) {
        mass += s->params[model->links[k].param + NSI_LINK_MASS];
    }
    for (uint32_t k = 0; k < 3; k++) {
        double g = s->params[model->gravity_param + k];
        square += g * g;
    }
    double g = square > 0.0 ? sqrt(square) : 1.0;
    return (switch_scale){.force = NS_SWITCH_TOLERANCE * (mass > 0.0 ? mass : 1.0) * g,
                          .velocity = NS_SWITCH_TOLERANCE * g * dt,
                          .way = NS_SWITCH_TOLERANCE * g * dt * dt};
}

static double observed(const double* row, const monitored_point* p, int what) {
    return p->column[what] == NSI_NONE ? NAN : row[p->column[what]];
}

// Nothing presses, but gap and normal velocity after the step are nothing, too.
static bool just_touches(const monitored_point* p, const double* row, const double* next,
                         const switch_scale* about) {
    return p->acts && observed(row, p, POINT_NORMAL_FORCE) < about->force &&
           fabs(observed(next, p, POINT_DEPTH)) < about->way &&
           fabs(observed(next, p, POINT_NORMAL_VELOCITY)) < about->velocity;
}

// Friction is at its bound, but the slip after the step is nothing.
static bool just_sticks(const ns_system* s, const monitored_point* p, const double* row,
                        const double* next, const switch_scale* about) {
    double normal = observed(row, p, POINT_NORMAL_FORCE), mu = observed(row, p, POINT_MU);
    double f1 = fabs(observed(row, p, POINT_FRICTION1)),
           f2 = fabs(observed(row, p, POINT_FRICTION2));
    double v1 = fabs(observed(next, p, POINT_SLIP1)), v2 = fabs(observed(next, p, POINT_SLIP2));
    double bound = mu * normal;
    if (!(normal > about->force && mu > 0.0)) return false;
    if (s->options.friction == NS_FRICTION_CONE) {
        return fabs(1.0 - hypot(f1, f2) / bound) < NS_SWITCH_TOLERANCE &&
               hypot(v1, v2) < about->velocity;
    }
    return (fabs(1.0 - f1 / bound) < NS_SWITCH_TOLERANCE && v1 < about->velocity) ||
           (fabs(1.0 - f2 / bound) < NS_SWITCH_TOLERANCE && v2 < about->velocity);
}

// The time of an impact within the step; NAN: there is none, or it rests already.
static double impact_time(const monitored_point* p, const double* row, double dt,
                          const switch_scale* about) {
    double gap = -observed(row, p, POINT_DEPTH), vn = observed(row, p, POINT_NORMAL_VELOCITY);
    bool hit =
        gap > about->way && gap + dt * vn < 0.0 && observed(row, p, POINT_NORMAL_FORCE) > 0.0;
    return hit ? -gap / vn : NAN;
}

// Points that are hit at the same time as one before them.
static uint32_t count_simultaneous(const ns_contact_monitor* m, const double* row,
                                   const switch_scale* about) {
    uint32_t count = 0, nhit = 0;
    double dt = m->system->sizes.timestep;
    for (uint32_t i = 0; i < m->npoint; i++) {
        double time = impact_time(&m->points[i], row, dt, about);
        if (isnan(time)) continue;
        bool tie = false;
        for (uint32_t k = 0; k < nhit; k++) {
            tie = tie || fabs(m->hits[k] - time) < NS_SWITCH_TOLERANCE * dt;
        }
        count += tie;
        m->hits[nhit++] = time;
    }
    return count;
}

// Some points touch for good and cannot press, such as those of a slider beside its rail.
static void find_acting_points(ns_contact_monitor* m, uint32_t steps, const switch_scale* about) {
    for (uint32_t i = 0; i < m->npoint; i++) {
        monitored_point* p = &m->points[i];
        double start = observed(m->observations, p, POINT_DEPTH);
        p->acts = false;
        for (uint32_t step = 0; step <= steps && !p->acts; step++) {
            const double* row = m->observations + (size_t)step * m->ny;
            p->acts = observed(row, p, POINT_NORMAL_FORCE) > 0.0 ||
                      fabs(observed(row, p, POINT_DEPTH) - start) > about->way;
        }
    }
}

static void count_switches(ns_contact_monitor* m, uint32_t steps, ns_gradient_certificate* c) {
    switch_scale about = scale_switches(m->system);
    find_acting_points(m, steps, &about);
    c->switching_steps = c->switching_step = c->touching = c->sliding = c->simultaneous = 0;
    for (uint32_t step = 0; step < steps; step++) {
        const double *row = m->observations + (size_t)step * m->ny, *next = row + m->ny;
        uint32_t touching = 0, sliding = 0;
        for (uint32_t i = 0; i < m->npoint; i++) {
            touching += just_touches(&m->points[i], row, next, &about);
            sliding += just_sticks(m->system, &m->points[i], row, next, &about);
        }
        uint32_t simultaneous = count_simultaneous(m, row, &about);
        if (touching + sliding + simultaneous == 0) continue;
        if (c->switching_steps++ == 0) c->switching_step = step;
        c->touching += touching;
        c->sliding += sliding;
        c->simultaneous += simultaneous;
    }
}

// ---- run ---------------------------------------------------------------------------------------

// One robot: a step more, for the velocities after the last one.
static ns_status observe_robot(ns_contact_monitor* m, const ns_rollout_args* args, uint32_t robot,
                               ns_error* error) {
    const ns_system_sizes *z = &m->system->sizes, *zo = &m->observer->sizes;
    const double* controls =
        args->controls ? args->controls + (size_t)robot * args->steps * z->nc : NULL;
    const double* params = args->params;
    if (params && args->per_robot_params) params += (size_t)robot * z->np;

    // The parameters of the observer, and controls with the last one held
    for (uint32_t k = 0; params && k < zo->np; k++) {
        if (m->param[k] != NSI_NONE) m->params[k] = params[m->param[k]];
    }
    for (size_t k = 0; controls && k < ((size_t)args->steps + 1) * z->nc; k++) {
        bool last = k >= (size_t)args->steps * z->nc;
        m->controls[k] = controls[last ? k - z->nc : k];
    }

    ns_rollout_args alone = {.batch = 1,
                             .steps = args->steps + 1,
                             .x0 = args->x0 + (size_t)robot * z->nx,
                             .controls = controls ? m->controls : NULL,
                             .params = m->params,
                             .weights = args->weights,
                             .observations = m->observations};
    return ns_rollout(m->observer, m->work, &alone, error);
}

ns_status ns_contact_monitor_run(ns_contact_monitor* m, const ns_rollout_args* args,
                                 ns_gradient_certificate* certificates, ns_error* error) {
    if (!m || !args || !certificates || !args->x0) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "a contact monitor needs arguments of a rollout and certificates");
    }
    if (args->steps == 0 || args->steps > m->steps) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "a monitor for 1 to %u steps cannot watch %u",
                        m->steps, args->steps);
    }
    for (uint32_t robot = 0; robot < args->batch; robot++) {
        ns_gradient_certificate* c = &certificates[robot];
        if (m->observer) {
            ns_status status = observe_robot(m, args, robot, error);
            if (status != NS_OK) return status;
            count_switches(m, args->steps, c);
        }
        nsi_certificate_judge(m->system, c);
    }
    return NS_OK;
}

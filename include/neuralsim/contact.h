/// @file contact.h
/// Contact laws: the force between two bodies at a contact point, and how to add one.
///
///     static void linear_force(void* context, const ns_contact_point* p, ns_expr force[3]) {
///         ns_expr elastic = ns_mul(p->params[0], p->depth);
///         ns_expr damping = ns_mul(p->params[1], p->velocity[0]);
///         force[0] = ns_max(ns_sub(elastic, damping), ns_const(0.0));
///         force[1] = force[2] = ns_const(0.0);
///     }
///
///     static const ns_contact_param params[] = {
///         {.name = "linear_stiffness", .unit = "N/m", .value = 1e4, .upper = INFINITY},
///         {.name = "linear_damping", .unit = "N s/m", .value = 10.0, .upper = INFINITY}};
///     static const ns_contact_law linear = {.name = "linear",
///                                           .help = "linear spring and damper, no friction",
///                                           .params = params,
///                                           .nparam = 2,
///                                           .stage = NS_CONTACT_STAGE_FORCES,
///                                           .force = linear_force};
///     int number;
///     ns_contact_law_register(&linear, &number, &error);    // before models are built
///     options.contact = number;                             // or "contact: linear" in a file
///
/// Parameters of a law are parameters of every pair, "contact/<pair>/linear_stiffness": they can be
/// set, set free and fitted like any other.
///
/// Laws are registered for the whole process and stay: files name laws, so the readers of files must
/// know them wherever they are called, and numbers of laws are held by models and systems for as long
/// as these live. Registering is safe from any thread; a model has the parameters of the laws that
/// there were when it was built.

#ifndef NEURALSIM_CONTACT_H
#define NEURALSIM_CONTACT_H

#include "neuralsim/expr.h"
#include "neuralsim/model.h"
#include "neuralsim/words.h"

#ifdef __cplusplus
extern "C" {
#endif

/// When in a step a law acts.
typedef enum ns_contact_stage {
    NS_CONTACT_STAGE_NONE,    ///< never
    NS_CONTACT_STAGE_FORCES,  ///< forces, before the accelerations are computed
    NS_CONTACT_STAGE_IMPULSES ///< impulses, after them
} ns_contact_stage;

/// A parameter of a law. Laws that name the same parameter share it, so its unit must be the same.
typedef struct ns_contact_param {
    const char* name;    ///< letters, digits and '_'
    const char* unit;    ///< "" for none
    const char* help;    ///< or NULL
    double value;        ///< default
    double lower, upper; ///< bounds; may be infinite
    bool positive;       ///< the bound lower = 0 is excluded
    bool may_vanish;     ///< see ns_param
    bool attribute;      ///< can be given as an attribute of a <pair> in MJCF

    // For laws of the library; false, NULL and 0 for others.
    bool constant;       ///< fixed when the model is built: not in the registry of parameters
    bool optional;       ///< at the constant 0 what it belongs to is not there: it is no quantity
    const char* follows; ///< with the default NS_CONTACT_AUTO: equals this parameter
    size_t field;        ///< offset of the field of ns_contact_def that holds it; 0: `values` does
} ns_contact_param;

/// A contact point as a law sees it. Component 0 of a vector is along the normal, which points from
/// geometry b to geometry a; 1 and 2 are along the tangents.
typedef struct ns_contact_point {
    ns_expr depth;       ///< m, positive; without contact some depth at which a law can be computed
    ns_expr touching;    ///< 1 in contact, else 0: then the force is dropped
    ns_expr velocity[3]; ///< m/s, of a relative to b; [0] is negative while the bodies approach
    const ns_expr* params; ///< (nparam of the law) in its order
} ns_contact_point;

typedef struct ns_contact_law {
    const char* name; ///< letters, digits and '_'; unique
    const char* help; ///< a phrase: "linear spring and damper"
    const ns_contact_param* params;
    uint32_t nparam; ///< at most NS_CONTACT_MAX_PARAMS
    ns_contact_stage stage;

    /// Trace the force on geometry a, N; the opposite one acts on b. Called while a step is traced, once
    /// per point, possibly from several threads. Derivatives follow from the trace. Stage FORCES.
    void (*force)(void* context, const ns_contact_point* point, ns_expr force[3]);
    void* context;
} ns_contact_law;

enum { NS_CONTACT_MAX_LAWS = 16, NS_CONTACT_MAX_PARAMS = 16 };

/// Add a law of stage FORCES. The record and what it points to must stay for the rest of the process.
/// @param number  receives its number, for ns_system_options.contact and ns_contact_def.model
/// @return NS_OK; NS_ERR_ARGUMENT naming the field that is wrong, also when there is a law of this name
///         with another record (the same one again is found); NS_ERR_LIMIT
NS_API ns_status ns_contact_law_register(const ns_contact_law* law, int* number, ns_error* error);

/// Laws by number from 0, those of ns_contact_model first; NULL for a number that is too large.
NS_API const ns_contact_law* ns_contact_law_get(int number);

/// All laws, for options and files.
extern NS_API const ns_choices ns_contact_laws;

/// @return the number of a law, or -1
NS_API int ns_contact_law_find(const char* name);

/// For laws: name a quantity of the point, "contact/<pair>/<k>/<what>", by which it can be observed and
/// augmented. Names of forces are "force/normal", "force/tangent1", "force/tangent2".
/// @param unit  a constant; "" for none
/// @return what to go on with
NS_API ns_expr ns_contact_quantity(const ns_contact_point* point, const char* what,
                                   const char* unit, ns_expr x);

#ifdef __cplusplus
}
#endif

#endif

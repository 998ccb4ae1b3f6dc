// Contact laws inside the library. A law is one file that defines a record and one line of
// NS_CONTACT_LAWS (neuralsim/model.h), which makes its enumerator and its place in the table of laws.c;
// laws from outside are registered behind those (neuralsim/contact.h). The registry of parameters, file
// formats, options and quantities all read the records.
//
// A pair has the parameters of all laws, since a system may choose another law for all pairs. Those of
// the same name are one; they come in the order of laws, and of each law's list.

#ifndef NSI_CONTACT_LAW_H
#define NSI_CONTACT_LAW_H

#include "base/common.h"
#include "neuralsim/contact.h"

typedef struct nsi_robot nsi_robot;
typedef struct nsi_contact_options nsi_contact_options;
typedef struct nsi_impact nsi_impact;

// What automatic values of a pair's parameters can be derived from.
typedef struct nsi_pair_bodies {
    const ns_geom_def *a, *b;
    double tree_mass; // kg, of the lighter of the two trees of links; infinite: both are the world
    double body_mass; // the same of the two bodies alone
    double timestep;  // s
} nsi_pair_bodies;

typedef struct nsi_contact_law {
    ns_contact_law law;

    // Replace values that are NS_CONTACT_AUTO; those of mu and restitution have been. NULL: there are
    // none.
    void (*choose)(const nsi_pair_bodies* bodies, ns_contact_def* def);

    // Stage IMPULSES: the impulses of law `number`, as nsi_contact_impulses() says.
    void (*impulses)(const nsi_robot* robot, const nsi_contact_options* options, int number,
                     double dt, const ns_expr* qdd, const ns_expr* added, nsi_impact* impact);
} nsi_contact_law;

#define DECLARE_LAW(ENUMERATOR, record) extern const nsi_contact_law nsi_contact_##record;
NS_CONTACT_LAWS(DECLARE_LAW)
#undef DECLARE_LAW

// How many laws there are, and one of them, by number; NULL for a number that is none.
int nsi_contact_law_count(void);
const nsi_contact_law* nsi_contact_law_get(int number);

// ---- parameters of pairs -------------------------------------------------------------------

// The most parameters of a pair that are in the registry: bits of nsi_contact.follows.
enum { NSI_CONTACT_MAX_SLOTS = 64 };

// How many are there now? A model keeps the count of the time when it was built.
uint32_t nsi_contact_slot_count(void);

// Parameter number `slot` of a pair.
const ns_contact_param* nsi_contact_slot(uint32_t slot);

// The slot of a parameter, by name; NSI_NONE: there is none, or it is a constant.
uint32_t nsi_contact_find_slot(const char* name);

// A parameter of any law by name, constants included; NULL when there is none.
const ns_contact_param* nsi_contact_find_param(const char* name);

// Does a parameter of a model, with this constant value, belong to something that is not there?
bool nsi_contact_param_is_absent(const ns_param* param, double value);

// Its value in a definition, chosen by nobody yet: NS_CONTACT_AUTO where that is left open.
double nsi_contact_value(const ns_contact_def* def, const ns_contact_param* param);

// NULL, or what is wrong with a value, as the end of "... must be".
const char* nsi_contact_value_fault(const ns_contact_param* param, double value);

// Call a function for every parameter, constants included, until it returns a status that is not NS_OK.
typedef ns_status nsi_contact_param_visitor(void* context, const ns_contact_param* param,
                                            ns_error* error);
ns_status nsi_contact_each_param(nsi_contact_param_visitor* visit, void* context, ns_error* error);

#endif

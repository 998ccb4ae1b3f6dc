// The table of contact laws, and the parameters that pairs have because of them.

#define _POSIX_C_SOURCE 200809L // pthread_mutex_t

#include "contact/law.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

const nsi_contact_law nsi_contact_none = {.law = {.name = "none", .help = "bodies pass through"}};

static const nsi_contact_law* const built_in[] = {
#define LAW_ROW(ENUMERATOR, record) [NS_CONTACT_##ENUMERATOR] = &nsi_contact_##record,
    NS_CONTACT_LAWS(LAW_ROW)
#undef LAW_ROW
};

enum { NBUILT_IN = sizeof built_in / sizeof *built_in };

// Laws from outside. They are only ever added, and counted after they are complete: readers need no
// lock.
static nsi_contact_law registered[NS_CONTACT_MAX_LAWS];
static const ns_contact_law* registered_as[NS_CONTACT_MAX_LAWS]; // the caller's record
static atomic_int nregistered;
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;

int nsi_contact_law_count(void) {
    return NBUILT_IN + atomic_load_explicit(&nregistered, memory_order_acquire);
}

const nsi_contact_law* nsi_contact_law_get(int number) {
    if (number < 0 || number >= nsi_contact_law_count()) return NULL;
    return number < NBUILT_IN ? built_in[number] : &registered[number - NBUILT_IN];
}

const ns_contact_law* ns_contact_law_get(int number) {
    const nsi_contact_law* law = nsi_contact_law_get(number);
    return law ? &law->law : NULL;
}

int ns_contact_law_find(const char* name) {
    for (int k = 0; name && k < nsi_contact_law_count(); k++) {
        if (strcmp(nsi_contact_law_get(k)->law.name, name) == 0) return k;
    }
    return -1;
}

static bool law_choice(uint32_t k, ns_choice* out) {
    const nsi_contact_law* law = k < INT_MAX ? nsi_contact_law_get((int)k) : NULL;
    if (law) *out = (ns_choice){(int)k, law->law.name, law->law.help};
    return law != NULL;
}

const ns_choices ns_contact_laws = {.what = "contact law", .at = law_choice};

// ---- parameters by number ------------------------------------------------------------------

static const ns_contact_param* slots[NSI_CONTACT_MAX_SLOTS]; // each once
static atomic_uint nslot;
static pthread_once_t indexed_once = PTHREAD_ONCE_INIT;

static uint32_t find_indexed(const char* name) {
    for (uint32_t k = 0; k < atomic_load_explicit(&nslot, memory_order_acquire); k++) {
        if (strcmp(slots[k]->name, name) == 0) return k;
    }
    return NSI_NONE;
}

// Parameters of a law, of which some may be there already.
static void index_params(const ns_contact_law* law) {
    for (uint32_t k = 0; k < law->nparam; k++) {
        const ns_contact_param* param = &law->params[k];
        if (param->constant || find_indexed(param->name) != NSI_NONE) continue;
        uint32_t count = atomic_load(&nslot);
        slots[count] = param;
        atomic_store_explicit(&nslot, count + 1, memory_order_release);
    }
}

static void index_built_in(void) {
    for (int k = 0; k < NBUILT_IN; k++) index_params(&built_in[k]->law);
}

// ---- parameters ----------------------------------------------------------------------------

// Parameter k of all laws' lists in a row, however often its name occurs; NULL behind the last.
static const ns_contact_param* listed_param(uint32_t k) {
    for (int i = 0; i < nsi_contact_law_count(); i++) {
        const ns_contact_law* law = &nsi_contact_law_get(i)->law;
        if (k < law->nparam) return &law->params[k];
        k -= law->nparam;
    }
    return NULL;
}

const ns_contact_param* nsi_contact_find_param(const char* name) {
    const ns_contact_param* param;
    for (uint32_t k = 0; (param = listed_param(k)); k++) {
        if (strcmp(param->name, name) == 0) return param;
    }
    return NULL;
}

ns_status nsi_contact_each_param(nsi_contact_param_visitor* visit, void* context, ns_error* error) {
    const ns_contact_param* param;
    for (uint32_t k = 0; (param = listed_param(k)); k++) {
        if (nsi_contact_find_param(param->name) != param) continue; // an earlier law has it
        ns_status status = visit(context, param, error);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

uint32_t nsi_contact_slot_count(void) {
    pthread_once(&indexed_once, index_built_in);
    return atomic_load_explicit(&nslot, memory_order_acquire);
}

const ns_contact_param* nsi_contact_slot(uint32_t slot) {
    return slot < nsi_contact_slot_count() ? slots[slot] : NULL;
}

uint32_t nsi_contact_find_slot(const char* name) {
    pthread_once(&indexed_once, index_built_in);
    return find_indexed(name);
}

bool nsi_contact_param_is_absent(const ns_param* param, double value) {
    if (param->kind != NS_PARAM_CONTACT || value != 0.0) return false;
    return nsi_contact_slot(param->component)->optional;
}

double nsi_contact_value(const ns_contact_def* def, const ns_contact_param* param) {
    if (param->field > 0) {
        double value;
        memcpy(&value, (const char*)def + param->field, sizeof value);
        return value;
    }
    for (uint32_t k = def->nvalue; k-- > 0;) { // later ones win
        if (strcmp(def->values[k].param, param->name) == 0) return def->values[k].value;
    }
    return param->value;
}

const char* nsi_contact_value_fault(const ns_contact_param* param, double value) {
    if (value == NS_CONTACT_AUTO && param->value == NS_CONTACT_AUTO) return NULL;
    bool endless = param->constant && param->upper == INFINITY && value == INFINITY;
    if (!isfinite(value) && !endless) return "finite";
    if (value >= param->lower && value <= param->upper && !(param->positive && value <= 0.0)) {
        return NULL;
    }
    if (param->upper == INFINITY && param->lower == 0.0) {
        return param->positive ? "positive" : "zero or positive";
    }
    if (param->upper == INFINITY && param->lower == 1.0) return "1 or more";
    return param->lower == 0.0 && param->upper == 1.0 ? "between 0 and 1" : "within its bounds";
}

// ---- registering ---------------------------------------------------------------------------

static bool is_law_word(const char* name) {
    if (!name || !name[0] || strlen(name) > 40) return false;
    for (const char* c = name; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        if (!letter && !(*c >= '0' && *c <= '9') && *c != '_') return false;
    }
    return true;
}

static ns_status check_law_param(const ns_contact_law* law, uint32_t k, ns_error* error) {
    const ns_contact_param* param = &law->params[k];
    if (!is_law_word(param->name) || !param->unit) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "contact law \"%s\": parameter %u needs a name of letters, digits and '_',"
                        " and a unit, if only \"\"",
                        law->name, k);
    }
    for (uint32_t i = 0; i < k; i++) {
        if (strcmp(law->params[i].name, param->name) == 0) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "contact law \"%s\": parameter \"%s\" is listed twice", law->name,
                            param->name);
        }
    }

    // A parameter of another law is shared, with its value and bounds; a new one brings its own.
    const ns_contact_param* shared = nsi_contact_find_param(param->name);
    if (shared && strcmp(shared->unit, param->unit) != 0) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "contact law \"%s\": parameter \"%s\" has the unit \"%s\"; another law has"
                        " this parameter in \"%s\": choose another name",
                        law->name, param->name, param->unit, shared->unit);
    }
    if (shared) return NS_OK;
    if (param->field > 0 || param->follows || param->constant || param->optional) {
        return nsi_fail(
            error, NS_ERR_ARGUMENT,
            "contact law \"%s\": parameter \"%s\": field, follows, constant and optional"
            " are for laws of the library",
            law->name, param->name);
    }

    // Its default must be a value that it can have.
    const char* fault = param->lower < param->upper && param->value != NS_CONTACT_AUTO
                            ? nsi_contact_value_fault(param, param->value)
                            : "within its bounds, and lower less than upper";
    if (!fault) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT,
                    "contact law \"%s\": the default of parameter \"%s\" must be %s", law->name,
                    param->name, fault);
}

static ns_status check_law(const ns_contact_law* law, ns_error* error) {
    if (!is_law_word(law->name)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_contact_law_register: name must be 1 to 40 letters, digits and '_'");
    }
    if (ns_contact_law_find(law->name) >= 0) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "contact law \"%s\": another law has this name",
                        law->name);
    }
    if (law->stage != NS_CONTACT_STAGE_FORCES || !law->force || !law->help) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "contact law \"%s\": stage must be NS_CONTACT_STAGE_FORCES, and force and"
                        " help must be given",
                        law->name);
    }
    if (law->nparam > NS_CONTACT_MAX_PARAMS || (law->nparam > 0 && !law->params)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "contact law \"%s\": at most %d params, not %u",
                        law->name, NS_CONTACT_MAX_PARAMS, law->nparam);
    }
    for (uint32_t k = 0; k < law->nparam; k++) {
        ns_status status = check_law_param(law, k, error);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

// With the lock held.
static ns_status add_law(const ns_contact_law* law, int* number, ns_error* error) {
    int count = atomic_load(&nregistered);
    for (int k = 0; k < count; k++) {
        if (registered_as[k] != law) continue;
        *number = NBUILT_IN + k;
        return NS_OK;
    }
    ns_status status = check_law(law, error);
    if (status != NS_OK) return status;
    if (NBUILT_IN + count >= NS_CONTACT_MAX_LAWS ||
        nsi_contact_slot_count() + law->nparam > NSI_CONTACT_MAX_SLOTS) {
        return nsi_fail(error, NS_ERR_LIMIT,
                        "contact law \"%s\": there are at most %d laws and %d parameters of pairs",
                        law->name, NS_CONTACT_MAX_LAWS, NSI_CONTACT_MAX_SLOTS);
    }
    registered[count] = (nsi_contact_law){.law = *law};
    registered_as[count] = law;
    index_params(law);
    atomic_store_explicit(&nregistered, count + 1, memory_order_release);
    *number = NBUILT_IN + count;
    return NS_OK;
}

ns_status ns_contact_law_register(const ns_contact_law* law, int* number, ns_error* error) {
    int ignored;
    if (!number) number = &ignored;
    *number = -1;
    if (!law) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_contact_law_register: the law is NULL");
    pthread_mutex_lock(&registering);
    ns_status status = add_law(law, number, error);
    pthread_mutex_unlock(&registering);
    return status;
}

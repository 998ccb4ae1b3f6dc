// The closed sets of models.

#include "neuralsim/model.h"

static const ns_choice geom_types[] = {NS_GEOM_TYPE_MAP(NS_CHOICE_ROW)};
static const ns_choice actuator_types[] = {NS_ACTUATOR_TYPE_MAP(NS_CHOICE_ROW)};
static const ns_choice dynamics_types[] = {NS_DYNAMICS_MAP(NS_CHOICE_ROW)};
static const ns_choice equality_types[] = {NS_EQUALITY_TYPE_MAP(NS_CHOICE_ROW)};
static const ns_choice integrators[] = {NS_INTEGRATOR_MAP(NS_CHOICE_ROW)};
static const ns_choice transforms[] = {NS_TRANSFORM_MAP(NS_CHOICE_ROW)};

const ns_choices ns_geom_types = NS_CHOICES("geometry", geom_types);
const ns_choices ns_actuator_types = NS_CHOICES("actuator", actuator_types);
const ns_choices ns_actuator_dynamics_types = NS_CHOICES("dynamics", dynamics_types);
const ns_choices ns_equality_types = NS_CHOICES("equality", equality_types);
const ns_choices ns_integrators = NS_CHOICES("integrator", integrators);
const ns_choices ns_param_transforms = NS_CHOICES("transform", transforms);

static const ns_sensor_info sensor_types[] = {
#define SENSOR_ROW(ENUMERATOR, word, help, size, object) {word, help, size, NS_SENSOR_OF_##object},
    NS_SENSOR_TYPE_MAP(SENSOR_ROW)
#undef SENSOR_ROW
};

const ns_sensor_info* ns_sensor_type_info(ns_sensor_type type) {
    size_t number = (size_t)type;
    return number < sizeof sensor_types / sizeof *sensor_types ? &sensor_types[number] : NULL;
}

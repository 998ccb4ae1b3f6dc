// Tables of the fields of a result.json.

#include "fit/result_fields.h"

#include <math.h>
#include <stddef.h>

#define TEXT_FIELD(T, key, member)                                                                 \
    { key, NSI_FIELD_TEXT, offsetof(T, member), 0.0 }
#define COUNT_FIELD(T, key, member)                                                                \
    { key, NSI_FIELD_COUNT, offsetof(T, member), 0.0 }
#define BOOL_FIELD(T, key, member)                                                                 \
    { key, NSI_FIELD_BOOL, offsetof(T, member), 0.0 }
#define NUMBER_FIELD(T, key, member, null)                                                         \
    { key, NSI_FIELD_NUMBER, offsetof(T, member), null }
#define RECORD_TYPE(fields)                                                                        \
    { fields, sizeof(fields) / sizeof *(fields) }

static const nsi_record_field result_fields[] = {
    TEXT_FIELD(nsi_result, "title", title),
    TEXT_FIELD(nsi_result, "model", model),
    TEXT_FIELD(nsi_result, "treatment", treatment),
    TEXT_FIELD(nsi_result, "setting", setting),
    TEXT_FIELD(nsi_result, "citation", citation),
    TEXT_FIELD(nsi_result, "unreliable_gradients", unreliable_gradients),
    TEXT_FIELD(nsi_result, "failure", failure),
    TEXT_FIELD(nsi_result, "doubts", doubts),
    BOOL_FIELD(nsi_result, "complete", complete),
    NUMBER_FIELD(nsi_result, "seconds", seconds, NAN),
    NUMBER_FIELD(nsi_result, "sigma", sigma, NAN),
    BOOL_FIELD(nsi_result, "noise_known", noise_known),
    COUNT_FIELD(nsi_result, "residuals", nresidual),
    COUNT_FIELD(nsi_result, "weights", nweight)};
const nsi_record_type nsi_result_fields = RECORD_TYPE(result_fields);

// A standard error of null and the verdict need each other: see below.
static const nsi_record_field estimate_fields[] = {
    TEXT_FIELD(ns_estimate, "name", name),
    TEXT_FIELD(ns_estimate, "unit", unit),
    NUMBER_FIELD(ns_estimate, "initial", initial, NAN),
    NUMBER_FIELD(ns_estimate, "value", value, NAN),
    NUMBER_FIELD(ns_estimate, "standard_error", standard_error, NAN),
    NUMBER_FIELD(ns_estimate, "lower", lower, -INFINITY),
    NUMBER_FIELD(ns_estimate, "upper", upper, INFINITY)};
const nsi_record_type nsi_estimate_fields = RECORD_TYPE(estimate_fields);

static const nsi_record_field coefficient_fields[] = {
    TEXT_FIELD(ns_fitted_coefficient, "set", set), TEXT_FIELD(ns_fitted_coefficient, "name", name),
    NUMBER_FIELD(ns_fitted_coefficient, "initial", initial, NAN),
    NUMBER_FIELD(ns_fitted_coefficient, "value", value, NAN),
    NUMBER_FIELD(ns_fitted_coefficient, "standard_error", standard_error, NAN)};
const nsi_record_type nsi_coefficient_fields = RECORD_TYPE(coefficient_fields);

static const nsi_record_field direction_fields[] = {
    BOOL_FIELD(ns_parameter_direction, "null", null),
    NUMBER_FIELD(ns_parameter_direction, "error", error, INFINITY)};
const nsi_record_type nsi_direction_fields = RECORD_TYPE(direction_fields);

static const nsi_record_field score_fields[] = {
    NUMBER_FIELD(ns_score, "loss", loss, NAN), NUMBER_FIELD(ns_score, "rmse_q", rmse_q, NAN),
    NUMBER_FIELD(ns_score, "rmse_qd", rmse_qd, NAN), COUNT_FIELD(ns_score, "windows", windows),
    COUNT_FIELD(ns_score, "lost", lost)};
const nsi_record_type nsi_score_fields = RECORD_TYPE(score_fields);

static const nsi_record_field horizon_fields[] = {
    NUMBER_FIELD(ns_horizon_error, "seconds", seconds, NAN),
    NUMBER_FIELD(ns_horizon_error, "pooled", pooled, INFINITY),
    NUMBER_FIELD(ns_horizon_error, "median", median, INFINITY),
    COUNT_FIELD(ns_horizon_error, "windows", windows),
    COUNT_FIELD(ns_horizon_error, "samples", samples)};
const nsi_record_type nsi_horizon_fields = RECORD_TYPE(horizon_fields);

static const nsi_record_field metric_fields[] = {
    TEXT_FIELD(ns_metric_score, "name", name), TEXT_FIELD(ns_metric_score, "unit", unit),
    NUMBER_FIELD(ns_metric_score, "mean", mean, INFINITY),
    NUMBER_FIELD(ns_metric_score, "median", median, INFINITY)};
const nsi_record_type nsi_metric_fields = RECORD_TYPE(metric_fields);

static const nsi_record_field phase_fields[] = {
    TEXT_FIELD(ns_fit_phase, "name", name),
    COUNT_FIELD(ns_fit_phase, "iterations", iterations),
    COUNT_FIELD(ns_fit_phase, "evaluations", evaluations),
    NUMBER_FIELD(ns_fit_phase, "seconds", seconds, NAN),
    NUMBER_FIELD(ns_fit_phase, "value", value, NAN),
    TEXT_FIELD(ns_fit_phase, "finish", finish)};
const nsi_record_type nsi_phase_fields = RECORD_TYPE(phase_fields);

static const nsi_record_field history_fields[] = {
    COUNT_FIELD(ns_fit_history_point, "phase", phase),
    COUNT_FIELD(ns_fit_history_point, "iteration", iteration),
    NUMBER_FIELD(ns_fit_history_point, "seconds", seconds, NAN),
    NUMBER_FIELD(ns_fit_history_point, "value", value, NAN)};
const nsi_record_type nsi_history_fields = RECORD_TYPE(history_fields);

static const nsi_record_field path_fields[] = {
    COUNT_FIELD(ns_sparsity_point, "phase", phase),
    COUNT_FIELD(ns_sparsity_point, "iteration", iteration),
    NUMBER_FIELD(ns_sparsity_point, "l1", l1, NAN),
    NUMBER_FIELD(ns_sparsity_point, "group", group, NAN),
    NUMBER_FIELD(ns_sparsity_point, "loss", loss, NAN)};
const nsi_record_type nsi_path_fields = RECORD_TYPE(path_fields);

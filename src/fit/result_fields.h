// The fields of a result.json: one table for each part of the record, which the writer (result_json.c) and
// the reader (result_read.c) share.

#ifndef NSI_FIT_RESULT_FIELDS_H
#define NSI_FIT_RESULT_FIELDS_H

#include "fit/result_words.h"

typedef enum nsi_field_type {
    NSI_FIELD_TEXT,
    NSI_FIELD_NUMBER,
    NSI_FIELD_COUNT,
    NSI_FIELD_BOOL
} nsi_field_type;

typedef struct nsi_record_field {
    const char* key;
    nsi_field_type type;
    size_t offset;
    double null; // what null stands for, of numbers
} nsi_record_field;

typedef struct nsi_record_type {
    const nsi_record_field* fields;
    uint32_t count;
} nsi_record_type;

extern const nsi_record_type nsi_result_fields;   // numbers and texts of the whole
extern const nsi_record_type nsi_estimate_fields; // besides the verdict, which a null error needs
extern const nsi_record_type nsi_coefficient_fields;
extern const nsi_record_type nsi_direction_fields;
extern const nsi_record_type nsi_score_fields;
extern const nsi_record_type nsi_horizon_fields;
extern const nsi_record_type nsi_metric_fields;
extern const nsi_record_type nsi_phase_fields;
extern const nsi_record_type nsi_history_fields;
extern const nsi_record_type nsi_path_fields;

#endif

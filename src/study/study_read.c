// Reading parts of study.yaml: after a failure, which sticks, these functions do nothing.

#include "study/study_state.h"

static void study_miss(ns_study* s, const nsi_yaml_node* map, const char* key) {
    if (s->status == NS_OK) {
        s->status = nsi_yaml_fail(&s->yaml, map, &s->error, "`%s` is missing", key);
    }
}

void nsi_study_fault(ns_study* s, const nsi_yaml_node* node, const char* what) {
    if (s->status == NS_OK) s->status = nsi_yaml_fail(&s->yaml, node, &s->error, "%s", what);
}

void* nsi_study_zeros(ns_study* s, size_t size) {
    if (s->status != NS_OK) return NULL;
    void* block = nsi_arena_alloc(&s->yaml.arena, size);
    if (block) {
        memset(block, 0, size);
    } else {
        nsi_study_fail_nomem(s);
    }
    return block;
}

double* nsi_study_numbers(ns_study* s, const nsi_yaml_node* list, uint32_t* count) {
    *count = 0;
    if (!list || s->status != NS_OK) return NULL;
    s->status = nsi_yaml_check_list(&s->yaml, list, &s->error);
    double* numbers = nsi_study_zeros(s, ((size_t)list->count + 1) * sizeof *numbers);
    if (!numbers) return NULL;
    for (const nsi_yaml_node* n = list->first; n && s->status == NS_OK; n = n->next) {
        s->status = nsi_yaml_number(&s->yaml, n, -1e300, 1e300, &numbers[(*count)++], &s->error);
    }
    return numbers;
}

const nsi_yaml_node* nsi_study_list(ns_study* s, const nsi_yaml_node* map, const char* key,
                                    bool needed, uint32_t* count) {
    const nsi_yaml_node* list = map->type == NSI_YAML_MAP ? nsi_yaml_find(map, key) : NULL;
    *count = 0;
    if (s->status == NS_OK) s->status = nsi_yaml_check_list(&s->yaml, list, &s->error);
    if (needed && (!list || list->count == 0)) study_miss(s, map, key);
    if (!list || s->status != NS_OK) return NULL;
    *count = list->count;
    return list->first;
}

bool nsi_study_read(ns_study* s, const nsi_schema* schema, const nsi_yaml_node* map, void* context,
                    void* out) {
    nsi_schema_reader r = {
        .yaml = &s->yaml, .arena = &s->yaml.arena, .context = context, .error = &s->error};
    if (s->status == NS_OK) s->status = nsi_schema_read(&r, schema, map, out);
    return s->status == NS_OK;
}

bool nsi_study_read_list(ns_study* s, const nsi_schema* schema, const nsi_yaml_node* list,
                         void* context, size_t size, void* items, uint32_t* count) {
    *count = 0;
    if (s->status == NS_OK) s->status = nsi_yaml_check_list(&s->yaml, list, &s->error);
    char* data = nsi_study_zeros(s, ((list ? (size_t)list->count : 0) + 1) * size);
    memcpy(items, &data, sizeof data);
    for (const nsi_yaml_node* n = list ? list->first : NULL; n && s->status == NS_OK; n = n->next) {
        nsi_schema_defaults(schema, data + *count * size);
        nsi_study_read(s, schema, n, context, data + *count * size);
        (*count)++;
    }
    return s->status == NS_OK;
}

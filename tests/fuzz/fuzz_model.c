// Any bytes as a model file. What loads must be a sound model; what does not must say where it
// fails, with and without all options, and must leave no memory behind.

#include "fuzz/model_check.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    for (int with = 0; with < 2; with++) {
        ns_load_options options = ns_default_load_options();
        options.strict = options.ground = options.self_collision = with == 1;
        ns_model* model = NULL;
        ns_error error = {0};
        ns_status status =
            ns_model_parse((const char*)data, size, "fuzz", &options, &model, &error);
        REQUIRE((status == NS_OK) == (model != NULL));
        REQUIRE(status == error.status);
        REQUIRE(status == NS_OK || strncmp(error.message, "fuzz:", 5) == 0);
        if (model) check_model(model);
        ns_model_free(model);
    }
    return 0;
}

// Names of quantities.

#include "quantity_args.h"

#include <stdlib.h>
#include <string.h>

static bool is_index_digit(char c) {
    return c >= '0' && c <= '9';
}

// Length of `name` without the digits at its end.
static size_t before_digits(const char* name, size_t size) {
    while (size > 0 && is_index_digit(name[size - 1])) size--;
    return size;
}

// The numbers at the end of a name: 2 for mass_matrix/0/1 with `index` 0, 1; `size` receives the
// length of the name before them.
static uint32_t quantity_indices(const char* quantity, uint32_t index[2], size_t* size) {
    uint32_t count = 0;
    *size = strlen(quantity);
    while (count < 2) {
        size_t rest = before_digits(quantity, *size);
        if (rest == *size || rest < 2 || quantity[rest - 1] != '/') break;
        if (count == 1) index[1] = index[0];
        index[0] = (uint32_t)strtoul(quantity + rest, NULL, 10);
        *size = rest - 1;
        count++;
    }
    return count;
}

const char* quantity_column(cli_pool* pool, const char* quantity) {
    uint32_t index[2] = {0};
    size_t size;
    uint32_t count = quantity_indices(quantity, index, &size);
    if (count == 1) return cli_pool_format(pool, "%.*s%u", (int)size, quantity, index[0]);
    if (count == 2) {
        return cli_pool_format(pool, "%.*s_%u_%u", (int)size, quantity, index[0], index[1]);
    }
    return cli_pool_format(pool, "%s", quantity);
}

// All quantities have a '/'; without one, digits at the end are indices: qdd3, mass_matrix_0_1.
const char* quantity_pattern(cli_pool* pool, const char* name) {
    size_t size = strlen(name), rest = before_digits(name, size);
    if (rest == size || rest == 0 || strchr(name, '/')) return name;
    size_t row = name[rest - 1] == '_' ? before_digits(name, rest - 1) : rest;
    if (row < rest - 1 && row > 1 && name[row - 1] == '_') { // _0_1
        return cli_pool_format(pool, "%.*s/%.*s/%s", (int)row - 1, name, (int)(rest - 1 - row),
                               name + row, name + rest);
    }
    return cli_pool_format(pool, "%.*s/%s", (int)rest, name, name + rest);
}

ns_system* quantity_system(const cli_model* model, const cli_contact* contact) {
    static const char* const all[] = {"**"};
    ns_system_options options = ns_default_system_options();
    cli_model_apply(model, &options);
    options.observe = all;
    options.nobserve = 1;
    cli_set_contact(contact, &options);
    options.backend = NS_BACKEND_INTERP; // it is not going to run
    return cli_create_system(model->model, &options);
}

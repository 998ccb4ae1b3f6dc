// Recursive descent to a program for a machine with a stack:
//
//     sum     = product { (+|-) product }
//     product = signed { (*|/) signed }
//     signed  = (+|-) signed | power
//     power   = atom [ ^ signed ]
//     atom    = number | name | "name" | function ( sum {, sum} {, whole number} ) | ( sum )

#include "expr/formula_syntax.h"

#include "base/series.h"
#include "neuralsim/words.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

typedef enum code {
    NUMBER,
    VARIABLE,
    ADD, // of two from here
    SUB,
    MUL,
    DIV,
    POW,
    ATAN2,
    MIN,
    MAX,
    NEG, // of one from here
    SIN,
    COS,
    TAN,
    ASIN,
    ACOS,
    ATAN,
    EXP,
    LOG,
    SQRT,
    ABS,
    TANH,
    SIGN,
    UNWRAP, // of a column from here
    SMOOTH,
    RATE,
    SHIFT,
    FIRST,
    FORWARD
} code;

static const struct {
    const char* name;
    code code;
    int arity;  // formulas it takes
    int wholes; // and whole numbers after them
} functions[] = {
    {"sin", SIN, 1, 0},       {"cos", COS, 1, 0},       {"tan", TAN, 1, 0},
    {"asin", ASIN, 1, 0},     {"acos", ACOS, 1, 0},     {"atan", ATAN, 1, 0},
    {"exp", EXP, 1, 0},       {"log", LOG, 1, 0},       {"sqrt", SQRT, 1, 0},
    {"abs", ABS, 1, 0},       {"tanh", TANH, 1, 0},     {"sign", SIGN, 1, 0},
    {"atan2", ATAN2, 2, 0},   {"min", MIN, 2, 0},       {"max", MAX, 2, 0},
    {"unwrap", UNWRAP, 1, 0}, {"smooth", SMOOTH, 1, 2}, {"rate", RATE, 1, 2},
    {"shift", SHIFT, 1, 1},   {"first", FIRST, 1, 0},   {"forward", FORWARD, 1, 0},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };
static const struct {
    const char* name;
    double value;
} constants[] = {
    {"pi", 3.14159265358979323846},
    {"deg", 3.14159265358979323846 / 180.0},
    {"mm", 0.001},
};
enum { CONSTANTS = sizeof constants / sizeof *constants };

typedef struct op {
    code code;
    uint32_t variable;
    double number;
    int32_t whole[2];        // of smooth, rate: n, order; of shift: n
    uint32_t offset, length; // of smooth, rate: their text
} op;

typedef struct variable {
    const char* name;
    size_t offset;
    unsigned forms;
} variable;

struct ns_formula {
    nsi_arena arena; // names of variables
    NSI_ARRAY(op) ops;
    NSI_ARRAY(variable) variables;
};

typedef struct parser {
    const char *start, *at, *end;
    int depth;
    bool columns;
    ns_formula* out;
    const char* fault;
    ns_error* error;
} parser;

static ns_status formula_fail(parser* p, const char* where, ns_status status, const char* format,
                              ...) NSI_PRINTF(4, 5);
static ns_status formula_fail(parser* p, const char* where, ns_status status, const char* format,
                              ...) {
    char message[NS_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    p->fault = where;
    return nsi_fail(p->error, status, "%s", message);
}

static ns_status emit(parser* p, op o) {
    if (p->out->ops.count == NSI_FORMULA_MAX_OPS) {
        return formula_fail(p, p->at, NS_ERR_LIMIT,
                            "the formula has more than %d numbers and operations",
                            NSI_FORMULA_MAX_OPS);
    }
    if (!nsi_array_push(&p->out->arena.allocator, &p->out->ops, o)) {
        return nsi_fail_nomem(p->error);
    }
    return NS_OK;
}

static ns_status emit_code(parser* p, code c) {
    return emit(p, (op){.code = c});
}

// The next character that is no space, '\0' at the end.
static char peek_token(parser* p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t')) p->at++;
    return p->at < p->end ? *p->at : '\0';
}

static ns_status expect(parser* p, char c) {
    if (peek_token(p) != c) return formula_fail(p, p->at, NS_ERR_PARSE, "expected '%c'", c);
    p->at++;
    return NS_OK;
}

static bool is_formula_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_formula_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_formula_word(const char* text, size_t size, const char* word) {
    return strlen(word) == size && memcmp(word, text, size) == 0;
}
static int shown(size_t size) { // of a name in a message
    return (int)(size > 40 ? 40 : size);
}

// ---- grammar -------------------------------------------------------------------------------

static ns_status parse_sum(parser* p);

static ns_status parse_number(parser* p) {
    const char* start = p->at;
    while (p->at < p->end && (is_formula_digit(*p->at) || *p->at == '.')) p->at++;
    if (p->at < p->end && (*p->at == 'e' || *p->at == 'E')) {
        p->at++;
        if (p->at < p->end && (*p->at == '+' || *p->at == '-')) p->at++;
        while (p->at < p->end && is_formula_digit(*p->at)) p->at++;
    }
    double number;
    size_t size = (size_t)(p->at - start);
    if (nsi_text_read_double(start, size, &number) != NS_OK) {
        return formula_fail(p, start, NS_ERR_PARSE, "'%.*s' is not a number", shown(size), start);
    }
    return emit(p, (op){.code = NUMBER, .number = number});
}

// A whole number with a sign, of at most seven digits.
static ns_status parse_whole(parser* p, int32_t* out) {
    bool negative = peek_token(p) == '-';
    if (negative) p->at++;
    const char* start = p->at;
    *out = 0;
    while (p->at < p->end && is_formula_digit(*p->at) && p->at - start < 7) {
        *out = *out * 10 + (*p->at++ - '0');
    }
    if (negative) *out = -*out;
    if (p->at > start && (peek_token(p) == ',' || peek_token(p) == ')')) return NS_OK;
    return formula_fail(p, start, NS_ERR_PARSE, "expected a whole number of at most seven digits");
}

static ns_status check_window(parser* p, const char* where, const op* o) {
    int32_t n = o->whole[0], order = o->whole[1];
    if (n < 3 || n > NSI_SERIES_MAX_WINDOW || n % 2 == 0) {
        return formula_fail(p, where, NS_ERR_PARSE,
                            "%d rows: the number must be odd and from 3 to %d", n,
                            NSI_SERIES_MAX_WINDOW);
    }
    int32_t most = n - 1 < NSI_SERIES_MAX_ORDER ? n - 1 : NSI_SERIES_MAX_ORDER;
    int32_t least = o->code == RATE ? 1 : 0;
    if (order < least || order > most) {
        return formula_fail(p, where, NS_ERR_PARSE,
                            "order %d: with %d rows it must be from %d to %d", order, n, least,
                            most);
    }
    return NS_OK;
}

static ns_status parse_call(parser* p, int which, const char* start) {
    op o = {.code = functions[which].code};
    if (o.code >= UNWRAP && !p->columns) {
        return formula_fail(p, start, NS_ERR_PARSE,
                            "%s() is for columns of a table, and there are none",
                            functions[which].name);
    }
    ns_status status = expect(p, '(');
    for (int k = 0; k < functions[which].arity && status == NS_OK; k++) {
        if (k > 0) status = expect(p, ',');
        if (status == NS_OK) status = parse_sum(p);
    }
    const char* wholes = p->at;
    for (int k = 0; k < functions[which].wholes && status == NS_OK; k++) {
        status = expect(p, ',');
        if (status == NS_OK) status = parse_whole(p, &o.whole[k]);
    }
    if (status == NS_OK) status = expect(p, ')');
    if (status == NS_OK && (o.code == SMOOTH || o.code == RATE)) {
        status = check_window(p, wholes, &o);
        o.offset = (uint32_t)(start - p->start);
        o.length = (uint32_t)(p->at - start);
    }
    return status == NS_OK ? emit(p, o) : status;
}

static ns_status emit_variable(parser* p, const char* name, size_t size, const char* where,
                               unsigned form) {
    ns_formula* f = p->out;
    for (uint32_t k = 0; k < f->variables.count; k++) {
        if (is_formula_word(name, size, f->variables.data[k].name)) {
            f->variables.data[k].forms |= form;
            return emit(p, (op){.code = VARIABLE, .variable = k});
        }
    }
    variable v = {nsi_arena_string(&f->arena, name, size), (size_t)(where - p->start), form};
    if (!v.name || !nsi_array_push(&f->arena.allocator, &f->variables, v)) {
        return nsi_fail_nomem(p->error);
    }
    return emit(p, (op){.code = VARIABLE, .variable = f->variables.count - 1});
}

static ns_status parse_quoted(parser* p) {
    const char* start = ++p->at;
    while (p->at < p->end && *p->at != '"') p->at++;
    if (p->at == p->end) {
        return formula_fail(p, start - 1, NS_ERR_PARSE, "the quoted name does not end");
    }
    if (p->at == start) return formula_fail(p, start - 1, NS_ERR_PARSE, "the name is empty");
    return emit_variable(p, start, (size_t)(p->at++ - start), start - 1, NSI_FORMULA_QUOTED);
}

static ns_status fail_no_function(parser* p, const char* start, size_t size) {
    char wanted[NS_WORD_SIZE], list[200] = "", hint[NS_HINT_SIZE];
    snprintf(wanted, sizeof wanted, "%.*s", shown(size), start);
    ns_nearest nearest = {.wanted = wanted};
    size_t used = 0;
    for (int k = 0; k < FUNCTIONS; k++) {
        if (functions[k].code >= UNWRAP && !p->columns) continue;
        used += (size_t)snprintf(list + used, sizeof list - used, " %s", functions[k].name);
        ns_nearest_offer(&nearest, functions[k].name);
    }
    bool likely = ns_nearest_likely(&nearest);
    return formula_fail(p, start, NS_ERR_PARSE, "'%s' is no function; there are%s%s", wanted, list,
                        likely ? ns_nearest_hint(&nearest, hint) : "");
}

static ns_status parse_name(parser* p) {
    const char* start = p->at;
    while (p->at < p->end && (is_formula_letter(*p->at) || is_formula_digit(*p->at))) p->at++;
    size_t size = (size_t)(p->at - start);
    for (int k = 0; k < CONSTANTS; k++) {
        if (is_formula_word(start, size, constants[k].name)) {
            return emit(p, (op){.code = NUMBER, .number = constants[k].value});
        }
    }
    for (int k = 0; k < FUNCTIONS; k++) {
        if (is_formula_word(start, size, functions[k].name)) return parse_call(p, k, start);
    }
    if (peek_token(p) == '(') {
        return fail_no_function(p, start, size);
    }
    return emit_variable(p, start, size, start, NSI_FORMULA_BARE);
}

static ns_status parse_atom(parser* p) {
    char c = peek_token(p);
    if (is_formula_digit(c) || c == '.') return parse_number(p);
    if (is_formula_letter(c)) return parse_name(p);
    if (c == '"') return parse_quoted(p);
    if (c == '(') {
        p->at++;
        ns_status status = parse_sum(p);
        return status == NS_OK ? expect(p, ')') : status;
    }
    if (p->at == p->end) {
        return formula_fail(p, p->at, NS_ERR_PARSE, "the formula ends where a number should come");
    }
    return formula_fail(p, p->at, NS_ERR_PARSE, "expected a number, a name, a function or '('");
}

static ns_status parse_signed(parser* p) {
    if (++p->depth > NSI_FORMULA_MAX_DEPTH) {
        return formula_fail(p, p->at, NS_ERR_LIMIT, "more than %d things within each other",
                            NSI_FORMULA_MAX_DEPTH);
    }
    ns_status status;
    char c = peek_token(p);
    if (c == '-' || c == '+') {
        p->at++;
        status = parse_signed(p);
        if (status == NS_OK && c == '-') status = emit_code(p, NEG);
    } else {
        status = parse_atom(p);
        if (status == NS_OK && peek_token(p) == '^') {
            p->at++;
            status = parse_signed(p);
            if (status == NS_OK) status = emit_code(p, POW);
        }
    }
    p->depth--;
    return status;
}

static ns_status parse_product(parser* p) {
    ns_status status = parse_signed(p);
    while (status == NS_OK) {
        char c = peek_token(p);
        if (c != '*' && c != '/') break;
        p->at++;
        status = parse_signed(p);
        if (status == NS_OK) status = emit_code(p, c == '*' ? MUL : DIV);
    }
    return status;
}

static ns_status parse_sum(parser* p) {
    ns_status status = parse_product(p);
    while (status == NS_OK) {
        char c = peek_token(p);
        if (c != '+' && c != '-') break;
        p->at++;
        status = parse_product(p);
        if (status == NS_OK) status = emit_code(p, c == '+' ? ADD : SUB);
    }
    return status;
}

ns_status ns_formula_parse(const char* text, size_t size, bool columns,
                           const ns_allocator* allocator, ns_formula** out, size_t* where,
                           ns_error* error) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    // On failure, `where` is the position of the error.
    *out = NULL;
    *where = 0;
    ns_formula* f = nsi_alloc_zeroed(&memory, sizeof *f);
    if (!f) return nsi_fail_nomem(error);
    f->arena.allocator = memory;

    // Parse one expression, with nothing behind it.
    parser p = {.start = text,
                .at = text,
                .end = text + size,
                .columns = columns,
                .out = f,
                .fault = text,
                .error = error};
    // Positions are 32-bit numbers.
    ns_status status = size > UINT32_MAX
                           ? formula_fail(&p, text, NS_ERR_LIMIT, "the formula is too long")
                           : parse_sum(&p);

    // Show the offending character only if it is printable.
    if (status == NS_OK && peek_token(&p) > ' ' &&
        peek_token(&p) < 0x7f) { // not half of a UTF-8 character
        status = formula_fail(&p, p.at, NS_ERR_PARSE, "expected an operator, not '%c'", *p.at);
    } else if (status == NS_OK && p.at < p.end) {
        status = formula_fail(&p, p.at, NS_ERR_PARSE, "expected an operator");
    }

    // Report the position in bytes.
    if (status != NS_OK) {
        *where = (size_t)(p.fault - text);
        ns_formula_free(f);
        return status;
    }

    *out = f;
    return NS_OK;
}

void ns_formula_free(ns_formula* f) {
    if (!f) return;
    ns_allocator memory = f->arena.allocator;
    nsi_array_free(&memory, &f->ops);
    nsi_array_free(&memory, &f->variables);
    nsi_arena_free(&f->arena);
    nsi_free(&memory, f);
}

uint32_t ns_formula_variable_count(const ns_formula* f) {
    return f->variables.count;
}
const char* ns_formula_variable(const ns_formula* f, uint32_t number) {
    return number < f->variables.count ? f->variables.data[number].name : NULL;
}
size_t ns_formula_variable_offset(const ns_formula* f, uint32_t number) {
    return number < f->variables.count ? f->variables.data[number].offset : 0;
}

unsigned nsi_formula_variable_forms(const ns_formula* f, uint32_t number) {
    return number < f->variables.count ? f->variables.data[number].forms : 0;
}

bool nsi_formula_is_name(const char* text) {
    size_t size = strlen(text);
    if (!is_formula_letter(text[0])) return false;
    for (size_t k = 0; k < size; k++) {
        if (!is_formula_letter(text[k]) && !is_formula_digit(text[k])) return false;
    }
    for (int k = 0; k < CONSTANTS; k++) {
        if (is_formula_word(text, size, constants[k].name)) return false;
    }
    for (int k = 0; k < FUNCTIONS; k++) {
        if (is_formula_word(text, size, functions[k].name)) return false;
    }
    return true;
}

bool nsi_formula_filter(const ns_formula* f, uint32_t number, size_t* offset, size_t* size) {
    for (uint32_t k = 0; k < f->ops.count; k++) {
        const op* o = &f->ops.data[k];
        if ((o->code != SMOOTH && o->code != RATE) || number-- > 0) continue;
        *offset = o->offset;
        *size = o->length;
        return true;
    }
    return false;
}

// ---- values --------------------------------------------------------------------------------

static bool takes_two(code c) {
    return c >= ADD && c <= MAX;
}

// A missing number makes the result missing, also where C has another idea: fmin(1, NaN), NaN^0.
static double apply_code(code c, double a, double b) {
    switch (c) {
    // Operators.
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case DIV: return a / b;
    // pow(NaN, 0) is 1 in C.
    case POW: return isnan(a) || isnan(b) ? NAN : pow(a, b);
    case ATAN2: return atan2(a, b);
    // fmin() and fmax() ignore NaN.
    case MIN: return isnan(a) || a < b ? a : b;
    case MAX: return isnan(a) || a > b ? a : b;
    case NEG: return -a;
    // Functions of one argument.
    case SIN: return sin(a);
    case COS: return cos(a);
    case TAN: return tan(a);
    case ASIN: return asin(a);
    case ACOS: return acos(a);
    case ATAN: return atan(a);
    case EXP: return exp(a);
    case LOG: return log(a);
    case SQRT: return sqrt(a);
    case ABS: return fabs(a);
    case TANH: return tanh(a);
    // NaN has no sign.
    case SIGN: return isnan(a) ? a : (a > 0.0) - (a < 0.0);
    // Operands and column operations are handled by the caller.
    case NUMBER:
    case VARIABLE:
    case UNWRAP:
    case SMOOTH:
    case RATE:
    case SHIFT:
    case FIRST:
    case FORWARD: break;
    }
    return NAN;
}

double ns_formula_eval(const ns_formula* f, const double* variables) {
    double stack[NSI_FORMULA_MAX_OPS] = {0};
    uint32_t top = 0;
    for (uint32_t k = 0; k < f->ops.count; k++) {
        const op* o = &f->ops.data[k];
        if (o->code == NUMBER || o->code == VARIABLE) {
            stack[top++] = o->code == NUMBER ? o->number : variables[o->variable];
        } else if (takes_two(o->code)) {
            top--;
            stack[top - 1] = apply_code(o->code, stack[top - 1], stack[top]);
        } else {
            stack[top - 1] = apply_code(o->code, stack[top - 1], 0.0);
        }
    }
    return stack[0];
}

static ns_expr trace_code(code c, ns_expr a, ns_expr b) {
    switch (c) {
    // Operators.
    case ADD: return ns_add(a, b);
    case SUB: return ns_sub(a, b);
    case MUL: return ns_mul(a, b);
    case DIV: return ns_div(a, b);
    case POW: return ns_pow(a, b);
    // Functions of two arguments.
    case ATAN2: return ns_atan2(a, b);
    case MIN: return ns_min(a, b);
    case MAX: return ns_max(a, b);
    // Functions of one argument.
    case NEG: return ns_neg(a);
    case SIN: return ns_sin(a);
    case COS: return ns_cos(a);
    case TAN: return ns_tan(a);
    case ASIN: return ns_asin(a);
    case ACOS: return ns_acos(a);
    case ATAN: return ns_atan(a);
    case EXP: return ns_exp(a);
    case LOG: return ns_log(a);
    case SQRT: return ns_sqrt(a);
    // Kinks as in ns_abs() and ns_sign().
    case ABS: return ns_abs(a);
    case TANH: return ns_tanh(a);
    case SIGN: return ns_sign(a);
    // Operands are handled by the caller; column operations do not occur in a step.
    case NUMBER:
    case VARIABLE:
    case UNWRAP:
    case SMOOTH:
    case RATE:
    case SHIFT:
    case FIRST:
    case FORWARD: break;
    }
    // Not reached for formulas that were checked.
    return ns_const(NAN);
}

ns_expr nsi_formula_trace(const ns_formula* f, const ns_expr* variables) {
    ns_expr stack[NSI_FORMULA_MAX_OPS] = {{0}};
    uint32_t top = 0;
    for (uint32_t k = 0; k < f->ops.count; k++) {
        const op* o = &f->ops.data[k];
        if (o->code == NUMBER || o->code == VARIABLE) {
            stack[top++] = o->code == NUMBER ? ns_const(o->number) : variables[o->variable];
        } else if (takes_two(o->code)) {
            top--;
            stack[top - 1] = trace_code(o->code, stack[top - 1], stack[top]);
        } else {
            stack[top - 1] = trace_code(o->code, stack[top - 1], stack[top - 1]);
        }
    }
    return stack[0];
}

// ---- columns -------------------------------------------------------------------------------

// Most columns that are on the stack at a time.
static uint32_t stack_depth(const ns_formula* f) {
    uint32_t top = 0, most = 0;
    for (uint32_t k = 0; k < f->ops.count; k++) {
        code c = f->ops.data[k].code;
        if (c == NUMBER || c == VARIABLE) top++;
        if (takes_two(c)) top--;
        if (top > most) most = top;
    }
    return most;
}

static void shift_rows(double* x, uint32_t count, int32_t rows) {
    uint32_t size = (uint32_t)(rows < 0 ? -rows : rows);
    if (size > count) size = count;
    if (rows > 0) {
        memmove(x + size, x, (count - size) * sizeof *x);
        for (uint32_t k = 0; k < size; k++) x[k] = NAN;
    } else {
        memmove(x, x + size, (count - size) * sizeof *x);
        for (uint32_t k = count - size; k < count; k++) x[k] = NAN;
    }
}

// The slope to the next row; in the last one that of the row before.
static void slope_forward(double* x, const double* times, uint32_t count) {
    for (uint32_t k = 0; k + 1 < count; k++) {
        x[k] = (x[k + 1] - x[k]) / (times ? times[k + 1] - times[k] : 1.0);
    }
    x[count - 1] = count > 1 ? x[count - 2] : NAN;
}

// A function of one column; `spare` has room for another.
static void apply_column(const op* o, const double* times, uint32_t count, double* x,
                         double* spare) {
    switch (o->code) {
    case UNWRAP: nsi_series_unwrap(x, count); break;
    case SMOOTH:
    case RATE:
        nsi_series_smooth(x, times, count, (uint32_t)o->whole[0], (uint32_t)o->whole[1],
                          o->code == RATE, spare);
        memcpy(x, spare, count * sizeof *x);
        break;
    case SHIFT: shift_rows(x, count, o->whole[0]); break;
    case FIRST:
        for (uint32_t k = 1; k < count; k++) x[k] = x[0];
        break;
    case FORWARD: slope_forward(x, times, count); break;
    default:
        for (uint32_t k = 0; k < count; k++) x[k] = apply_code(o->code, x[k], 0.0);
    }
}

ns_status ns_formula_columns(const ns_formula* f, const double* const* columns, const double* times,
                             uint32_t count, double* out, ns_error* error) {
    // An empty recording has no values.
    if (count == 0) return NS_OK;
    // Memory for the deepest stack, one column per entry.
    size_t depth = stack_depth(f);
    if (depth == 0 || count > SIZE_MAX / sizeof(double) / depth) return nsi_fail_nomem(error);
    double* stack = nsi_alloc(&f->arena.allocator, depth * count * sizeof *stack);
    if (!stack) return nsi_fail_nomem(error);

    // Execute the postfix code on a stack of columns.
    double* top = stack; // the free column above the last
    for (uint32_t k = 0; k < f->ops.count; k++) {
        const op* o = &f->ops.data[k];
        // Push a column.
        if (o->code == VARIABLE) {
            memcpy(top, columns[o->variable], count * sizeof *top);
            top += count;
        } else if (o->code == NUMBER) {
            for (uint32_t row = 0; row < count; row++) top[row] = o->number;
            top += count;
        } else if (takes_two(o->code)) {
            top -= count;
            double* a = top - count;
            for (uint32_t row = 0; row < count; row++)
                a[row] = apply_code(o->code, a[row], top[row]);
        } else {
            // Unary operation in place; `out` serves as scratch.
            apply_column(o, times, count, top - count, out);
        }
    }

    // One column remains: the result.
    memcpy(out, stack, count * sizeof *out);
    nsi_free(&f->arena.allocator, stack);
    return NS_OK;
}

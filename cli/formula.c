// Recursive descent to postfix:
//
//     sum     = product { (+|-) product }
//     product = signed { (*|/) signed }
//     signed  = (+|-) signed | power
//     power   = atom [ ^ signed ]
//     atom    = number | t | pi | name ( sum {, sum} ) | ( sum )

#include "formula.h"

#include "base/base.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

typedef enum code {
    NUMBER,
    TIME,
    ADD,
    SUB,
    MUL,
    DIV,
    POW,
    NEG,
    SIN,
    COS,
    TAN,
    EXP,
    LOG,
    SQRT,
    ABS,
    TANH,
    MIN,
    MAX
} code;

static const struct {
    const char* name;
    code code;
    int arity;
} functions[] = {
    {"sin", SIN, 1},   {"cos", COS, 1}, {"tan", TAN, 1},   {"exp", EXP, 1}, {"log", LOG, 1},
    {"sqrt", SQRT, 1}, {"abs", ABS, 1}, {"tanh", TANH, 1}, {"min", MIN, 2}, {"max", MAX, 2},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

typedef struct parser {
    const char *start, *at, *end;
    int depth;
    formula* out;
    size_t* where;
    char* message;
} parser;

static bool fail(parser* p, const char* where, const char* format, ...) NSI_PRINTF(3, 4);
static bool fail(parser* p, const char* where, const char* format, ...) {
    char message[FORMULA_MESSAGE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    memcpy(p->message, message, sizeof message);
    *p->where = (size_t)(where - p->start);
    return false;
}

static bool emit(parser* p, code c, double number) {
    if (p->out->count == FORMULA_MAX_OPS) {
        return fail(p, p->at, "the formula has more than %d numbers and operations",
                    FORMULA_MAX_OPS);
    }
    p->out->ops[p->out->count].code = (uint8_t)c;
    p->out->ops[p->out->count++].number = number;
    return true;
}

// The next character that is no space, '\0' at the end.
static char peek(parser* p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t')) p->at++;
    return p->at < p->end ? *p->at : '\0';
}

static bool expect(parser* p, char c) {
    if (peek(p) != c) return fail(p, p->at, "expected '%c'", c);
    p->at++;
    return true;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// ---- grammar -------------------------------------------------------------------------------

static bool parse_sum(parser* p);

static bool parse_number(parser* p) {
    const char* start = p->at;
    while (p->at < p->end && (is_digit(*p->at) || *p->at == '.')) p->at++;
    if (p->at < p->end && (*p->at == 'e' || *p->at == 'E')) {
        p->at++;
        if (p->at < p->end && (*p->at == '+' || *p->at == '-')) p->at++;
        while (p->at < p->end && is_digit(*p->at)) p->at++;
    }
    double number;
    if (nsi_text_read_double(start, (size_t)(p->at - start), &number) != NS_OK) {
        return fail(p, start, "'%.*s' is not a number",
                    (int)(p->at - start > 40 ? 40 : p->at - start), start);
    }
    return emit(p, NUMBER, number);
}

static bool parse_call(parser* p, int which) {
    if (!expect(p, '(')) return false;
    for (int k = 0; k < functions[which].arity; k++) {
        if (k > 0 && !expect(p, ',')) return false;
        if (!parse_sum(p)) return false;
    }
    return expect(p, ')') && emit(p, functions[which].code, 0.0);
}

static bool parse_name(parser* p) {
    const char* start = p->at;
    while (p->at < p->end && (is_letter(*p->at) || is_digit(*p->at))) p->at++;
    size_t size = (size_t)(p->at - start);
    if (size == 1 && *start == 't') return emit(p, TIME, 0.0);
    if (size == 2 && memcmp(start, "pi", 2) == 0) return emit(p, NUMBER, 3.14159265358979323846);
    for (int k = 0; k < FUNCTIONS; k++) {
        if (strlen(functions[k].name) == size && memcmp(functions[k].name, start, size) == 0) {
            return parse_call(p, k);
        }
    }
    return fail(p, start,
                "'%.*s' is not known; there are t, pi, sin cos tan exp log sqrt abs tanh min max",
                (int)(size > 40 ? 40 : size), start);
}

static bool parse_atom(parser* p) {
    char c = peek(p);
    if (is_digit(c) || c == '.') return parse_number(p);
    if (is_letter(c)) return parse_name(p);
    if (c == '(') {
        p->at++;
        return parse_sum(p) && expect(p, ')');
    }
    if (p->at == p->end) return fail(p, p->at, "the formula ends where a number should come");
    return fail(p, p->at, "expected a number, t, a function or '('");
}

static bool parse_signed(parser* p) {
    if (++p->depth > FORMULA_MAX_DEPTH) {
        return fail(p, p->at, "more than %d things within each other", FORMULA_MAX_DEPTH);
    }
    bool ok;
    char c = peek(p);
    if (c == '-' || c == '+') {
        p->at++;
        ok = parse_signed(p) && (c == '+' || emit(p, NEG, 0.0));
    } else {
        ok = parse_atom(p);
        if (ok && peek(p) == '^') {
            p->at++;
            ok = parse_signed(p) && emit(p, POW, 0.0);
        }
    }
    p->depth--;
    return ok;
}

static bool parse_product(parser* p) {
    if (!parse_signed(p)) return false;
    for (;;) {
        char c = peek(p);
        if (c != '*' && c != '/') return true;
        p->at++;
        if (!parse_signed(p) || !emit(p, c == '*' ? MUL : DIV, 0.0)) return false;
    }
}

static bool parse_sum(parser* p) {
    if (!parse_product(p)) return false;
    for (;;) {
        char c = peek(p);
        if (c != '+' && c != '-') return true;
        p->at++;
        if (!parse_product(p) || !emit(p, c == '+' ? ADD : SUB, 0.0)) return false;
    }
}

bool formula_parse(const char* text, size_t size, formula* out, size_t* where,
                   char message[FORMULA_MESSAGE]) {
    parser p = {.start = text,
                .at = text,
                .end = text + size,
                .out = out,
                .where = where,
                .message = message};
    out->count = 0;
    if (!parse_sum(&p)) return false;
    peek(&p);
    if (p.at < p.end) return fail(&p, p.at, "expected an operator, not '%c'", *p.at);
    return true;
}

// ---- evaluation ----------------------------------------------------------------------------

static double apply(code c, double a, double b) {
    switch (c) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case DIV: return a / b;
    case POW: return pow(a, b);
    case MIN: return fmin(a, b);
    case MAX: return fmax(a, b);
    case NEG: return -a;
    case SIN: return sin(a);
    case COS: return cos(a);
    case TAN: return tan(a);
    case EXP: return exp(a);
    case LOG: return log(a);
    case SQRT: return sqrt(a);
    case ABS: return fabs(a);
    case TANH: return tanh(a);
    case NUMBER:
    case TIME: break;
    }
    return NAN;
}

static bool takes_two(code c) {
    return (c >= ADD && c <= POW) || c == MIN || c == MAX;
}

double formula_eval(const formula* f, double t) {
    double stack[FORMULA_MAX_OPS] = {0};
    uint32_t top = 0;
    for (uint32_t k = 0; k < f->count; k++) {
        code c = (code)f->ops[k].code;
        if (c == NUMBER || c == TIME) {
            stack[top++] = c == TIME ? t : f->ops[k].number;
        } else if (takes_two(c)) {
            top--;
            stack[top - 1] = apply(c, stack[top - 1], stack[top]);
        } else {
            stack[top - 1] = apply(c, stack[top - 1], 0.0);
        }
    }
    return top > 0 ? stack[top - 1] : NAN;
}

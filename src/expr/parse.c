// Reading a graph from text, as print.c writes it.
//
// One pass over the lines, without recursion. Every node goes through the constructors, so reading
// simplifies as building does. The text is not trusted: memory stays in proportion to its size,
// every number has a limit, and operands must be defined on an earlier line, which rules out
// cycles. A `%` number in the text is only a name, looked up in a hash index.

#include "expr/call.h"

#include <stdarg.h>
#include <stdio.h>

// A line has room for the largest block: 2^15 operands of up to 12 bytes, and some more.
enum { MAX_LINE = 1 << 20, MAX_ID = INT32_MAX, QUOTE_SIZE = 48 };

typedef struct definition { // %id = ...
    uint32_t id, line;
    nsi_id node;
} definition;

// What a graph's lines refer to.
typedef struct scope {
    ns_graph* g;
    NSI_ARRAY(definition) definitions;
    nsi_index index; // of definitions, by id
} scope;

typedef struct parser {
    const char* text_name;
    const char* end;      // of the text
    const char* at;       // what is read next
    const char* line;     // start of the current line
    const char* line_end; // its '\n', or the end of the text
    uint32_t line_number;
    bool has_header;

    scope now;     // of the graph or of a function in it
    scope outside; // of the graph, inside of a function
    bool in_function;
    NSI_ARRAY(nsi_function*) functions; // read so far
    NSI_ARRAY(double) off;              // of the outputs of the function
    NSI_ARRAY(nsi_id) operands;
    char name[NSI_MAX_NAME]; // the string last read

    ns_status status; // of the first failure
    ns_error* error;
} parser;

// ---- messages ------------------------------------------------------------------------------

// Fail at the byte `at` of the current line.
NSI_PRINTF(4, 5)
static void report(parser* p, ns_status status, const char* at, const char* format, ...) {
    char message[NS_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    p->status = nsi_fail(p->error, status, "%.200s:%u:%zu: %s", p->text_name, p->line_number,
                         (size_t)(at - p->line) + 1, message);
}

// The functions that read return false when they fail.
#define fail_with(p, status, at, ...) (report(p, status, at, __VA_ARGS__), false)
#define fail(p, at, ...) fail_with(p, NS_ERR_PARSE, at, __VA_ARGS__)

static bool parse_fail_nomem(parser* p) {
    return fail_with(p, NS_ERR_NOMEM, p->at, "%s", ns_status_text(NS_ERR_NOMEM));
}

// Hand over what the constructors had to say.
static bool check_graph(parser* p, const char* at) {
    const ns_error* error = &p->now.g->error;
    if (error->status == NS_OK) return true;
    bool keep = error->status == NS_ERR_NOMEM || error->status == NS_ERR_LIMIT;
    return fail_with(p, keep ? error->status : NS_ERR_PARSE, at, "%s", error->message);
}

// A piece of the text for a message: cut when long, and without bytes that could upset a terminal.
typedef struct quote {
    char text[QUOTE_SIZE];
} quote;

static quote quoted(const char* at, const char* end) {
    quote q = {0};
    size_t size = (size_t)(end - at), room = QUOTE_SIZE - sizeof "...";
    size_t shown = size <= room ? size : room;
    for (size_t i = 0; i < shown; i++) {
        q.text[i] = at[i] >= 0x20 && at[i] < 0x7f ? at[i] : '?';
    }
    if (shown < size) memcpy(q.text + shown, "...", 3);
    return q;
}

static const char* plural(uint32_t n) {
    return n == 1 ? "" : "s";
}

// ---- pieces of a line ----------------------------------------------------------------------

static bool is_graph_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_graph_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}
static bool is_graph_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_graph_digit(c);
}

// Skip blanks; false at the end of the line or at a comment.
static bool more(parser* p) {
    while (p->at < p->line_end && is_graph_blank(*p->at)) p->at++;
    return p->at < p->line_end && *p->at != '#';
}

static bool next_is(parser* p, char c) {
    return more(p) && *p->at == c;
}

static const char* end_of_word(const parser* p) {
    const char* at = p->at;
    while (at < p->line_end && is_graph_word(*at)) at++;
    return at;
}

static const char* end_of_token(const parser* p) {
    const char* at = p->at;
    while (at < p->line_end && !is_graph_blank(*at) && *at != '#') at++;
    return at;
}

// "expected <what>", and what there is instead.
static bool fail_expected(parser* p, const char* what) {
    if (!more(p)) return fail(p, p->at, "the line ends here; expected %s", what);
    return fail(p, p->at, "found \"%s\"; expected %s", quoted(p->at, end_of_token(p)).text, what);
}

static bool read_char(parser* p, char c, const char* what) {
    if (!next_is(p, c)) return fail_expected(p, what);
    p->at++;
    return true;
}

// A word, whose length is returned; 0 after failing.
static size_t parse_word(parser* p, const char** word, const char* what) {
    *word = more(p) ? p->at : NULL;
    size_t length = *word ? (size_t)(end_of_word(p) - p->at) : 0;
    if (length == 0) {
        fail_expected(p, what);
        return 0;
    }
    p->at += length;
    return length;
}

static bool word_is(const char* word, size_t length, const char* wanted) {
    return strlen(wanted) == length && memcmp(word, wanted, length) == 0;
}

// A decimal number up to `limit`.
static bool parse_graph_number(parser* p, uint32_t limit, uint32_t* out, const char* what) {
    if (!more(p) || !is_graph_digit(*p->at)) return fail_expected(p, what);
    const char* start = p->at;
    uint64_t value = 0;
    for (; p->at < p->line_end && is_graph_digit(*p->at); p->at++) {
        if (value <= limit) value = value * 10 + (uint64_t)(*p->at - '0');
    }
    if (value > limit) {
        return fail(p, start, "%s is too large; %s is at most %u", quoted(start, p->at).text, what,
                    limit);
    }
    *out = (uint32_t)value;
    return true;
}

static bool read_id(parser* p, uint32_t* id) {
    if (!read_char(p, '%', "a node such as %0")) return false;
    if (p->at == p->line_end || !is_graph_digit(*p->at)) {
        return fail(p, p->at, "\"%%\" without a number; nodes are called %%0, %%1, ...");
    }
    return parse_graph_number(p, MAX_ID, id, "the number of a node");
}

static int hex_digit(char c) {
    if (is_graph_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The character after a backslash at p->at - 1.
static bool read_escape(parser* p, char* out) {
    const char* start = p->at - 1;
    size_t left = (size_t)(p->line_end - p->at);
    if (left >= 1 && (*p->at == '"' || *p->at == '\\')) {
        *out = *p->at++;
        return true;
    }
    int high = left >= 3 && p->at[0] == 'x' ? hex_digit(p->at[1]) : -1;
    int low = high >= 0 ? hex_digit(p->at[2]) : -1;
    if (low < 0) return fail(p, start, "unknown escape; write \\\", \\\\ or \\xNN");
    *out = (char)(unsigned char)(high * 16 + low);
    if (*out == '\0') return fail(p, start, "a name cannot contain a NUL byte; leave it out");
    p->at += 3;
    return true;
}

// A quoted string, into p->name; `start` receives where it stands.
static bool parse_graph_name(parser* p, const char** start) {
    if (!read_char(p, '"', "a name in double quotes")) return false;
    *start = p->at - 1;
    size_t length = 0;
    for (;;) {
        if (p->at == p->line_end) {
            return fail(p, *start, "the name does not end on this line; close it with \"");
        }
        char c = *p->at++;
        if (c == '"') break;
        if (((unsigned char)c < 0x20 || c == 0x7f)) {
            return fail(p, p->at - 1, "control character in a name; write it as \\x%02x",
                        (unsigned)(unsigned char)c);
        }
        if (c == '\\' && !read_escape(p, &c)) return false;
        if (length == NSI_MAX_NAME - 1) {
            return fail(p, *start, "the name is longer than %d bytes; shorten it",
                        NSI_MAX_NAME - 1);
        }
        p->name[length++] = c;
    }
    p->name[length] = '\0';
    return length > 0 || fail(p, *start, "the name is empty; give it one");
}

static bool read_end(parser* p) {
    if (!more(p)) return true;
    return fail(p, p->at, "unexpected \"%s\" after the end of the statement; remove it",
                quoted(p->at, end_of_token(p)).text);
}

// ---- nodes ---------------------------------------------------------------------------------

static uint32_t id_hash(uint32_t id) {
    return nsi_hash_bytes(&id, sizeof id);
}

static const definition* find_definition(const parser* p, uint32_t id) {
    uint32_t number;
    for (uint32_t at = nsi_index_first(&p->now.index, id_hash(id));
         nsi_index_at(&p->now.index, at, &number); at = nsi_index_next(&p->now.index, at)) {
        if (p->now.definitions.data[number].id == id) return &p->now.definitions.data[number];
    }
    return NULL;
}

static bool define(parser* p, uint32_t id, nsi_id node) {
    definition entry = {id, p->line_number, node};
    const ns_allocator* allocator = &p->now.g->allocator;
    return (nsi_array_push(allocator, &p->now.definitions, entry) &&
            nsi_index_insert(allocator, &p->now.index, id_hash(id),
                             p->now.definitions.count - 1)) ||
           parse_fail_nomem(p);
}

// A node defined before: a number, or a block.
static bool read_operand(parser* p, bool want_block, nsi_id* out) {
    uint32_t id = 0;
    more(p);
    const char* start = p->at;
    if (!read_id(p, &id)) return false;
    const definition* found = find_definition(p, id);
    if (!found) {
        return fail(p, start, "%%%u is not defined; operands must be defined on an earlier line",
                    id);
    }
    bool is_block = p->now.g->nodes.data[found->node].op == NSI_BLOCK;
    if (is_block && !want_block) {
        return fail(p, start, "%%%u is a block, not a number; take one of its outputs with out",
                    id);
    }
    if (!is_block && want_block) {
        return fail(p, start, "%%%u is a number, not a block; out takes a block", id);
    }
    *out = found->node;
    return true;
}

// As many operands as there are, into p->operands.
static bool read_operands(parser* p) {
    p->operands.count = 0;
    while (next_is(p, '%')) {
        nsi_id operand;
        if (!read_operand(p, false, &operand)) return false;
        if (!nsi_array_push(&p->now.g->allocator, &p->operands, operand))
            return parse_fail_nomem(p);
    }
    return true;
}

static bool read_double(parser* p, double* value) {
    if (!more(p)) return fail_expected(p, "a number");
    const char *start = p->at, *end = end_of_token(p);
    ns_status status = nsi_text_read_double(start, (size_t)(end - start), value);
    if (status == NS_ERR_LIMIT) {
        return fail(p, start,
                    "\"%s\" is too large or too long; a double is below 1.8e308, and %d "
                    "characters are enough for it",
                    quoted(start, end).text, NSI_MAX_NUMBER);
    }
    if (status != NS_OK) {
        return fail(p, start, "\"%s\" is not a number; write it like -1.5e-3, inf, -inf or nan",
                    quoted(start, end).text);
    }
    p->at = end;
    return true;
}

static bool parse_const(parser* p, nsi_id* out) {
    double value;
    if (!read_double(p, &value)) return false;
    *out = nsi_graph_const(p->now.g, value);
    return true;
}

static bool parse_input_node(parser* p, nsi_id* out) {
    more(p);
    const char* start = p->at;
    uint32_t number = 0;
    if (!parse_graph_number(p, UINT32_MAX, &number, "the number of an input")) return false;
    if (number >= p->now.g->inputs.count) {
        return fail(p, start, "there is no input %u; %u are declared on earlier lines", number,
                    p->now.g->inputs.count);
    }
    *out = p->now.g->inputs.data[number].node;
    return true;
}

static bool parse_out(parser* p, nsi_id* out) {
    nsi_id block;
    if (!read_operand(p, true, &block)) return false;
    more(p);
    const char* start = p->at;
    uint32_t output = 0, noutput = p->now.g->blocks.data[p->now.g->nodes.data[block].a].noutput;
    if (!parse_graph_number(p, UINT32_MAX, &output, "the number of an output of the block"))
        return false;
    if (output >= noutput) {
        return fail(p, start, "the block has no output %u; it has %u, counted from 0", output,
                    noutput);
    }
    *out = nsi_graph_out(p->now.g, block, output);
    return true;
}

// "from @0+12" or "into @0+12": where a block reads or adds. `length` elements are needed, or no
// array at all.
static bool parse_range(parser* p, const char* keyword, const nsi_arrays* arrays, uint32_t length,
                        uint32_t* array, uint32_t* offset) {
    // The default is no array.
    *array = NSI_NONE;
    *offset = 0;
    more(p);
    const char *start = p->at, *end = end_of_word(p);

    // Without the keyword, the block must not need an array.
    if (!word_is(start, (size_t)(end - start), keyword)) {
        if (length == 0) return true;
        return fail(p, start,
                    "the block needs an array of %u elements; add \"%s @<array>+<offset>\"", length,
                    keyword);
    }

    // With the keyword, it must need one.
    if (length == 0) return fail(p, start, "this block has no array there; remove \"%s\"", keyword);
    p->at = end;

    if (!read_char(p, '@', "an array such as @0+0")) return false;
    start = p->at;
    if (!parse_graph_number(p, UINT32_MAX, array, "the number of an array")) return false;
    // Arrays are declared before they are used.
    if (*array >= arrays->count) {
        return fail(p, start, "there is no array @%u; %u are declared on earlier lines", *array,
                    arrays->count);
    }

    // Offset, and whether the range is in bounds.
    if (!read_char(p, '+', "+ and an offset")) return false;
    start = p->at;
    if (!parse_graph_number(p, UINT32_MAX, offset, "the offset")) return false;
    uint32_t size = arrays->data[*array].size;
    // Written so that the sum cannot overflow.
    if (*offset > size || length > size - *offset) {
        return fail(p, start, "%u elements from offset %u on do not fit; the array has %u", length,
                    *offset, size);
    }
    return true;
}

static bool parse_params(parser* p, nsi_block* block) {
    const nsi_block_kind* kind = block->kind;
    for (uint32_t k = 0; k < kind->nparam; k++) {
        const char* word;
        size_t length = parse_word(p, &word, kind->param_names[k]);
        if (length == 0) return false;
        if (!word_is(word, length, kind->param_names[k])) {
            return fail(p, word, "found \"%s\"; parameter %u of block %s is %s",
                        quoted(word, word + length).text, k + 1, kind->name, kind->param_names[k]);
        }
        if (!read_char(p, '=', "=") ||
            !parse_graph_number(p, UINT32_MAX, &block->params[k], kind->param_names[k])) {
            return false;
        }
    }
    return true;
}

// "dense nin=4 nout=10 (%0 %1 %2 %3) from @0+0"
static bool parse_block(parser* p, nsi_id* out) {
    const char* word;
    size_t length = parse_word(p, &word, "the kind of the block, such as dense");
    if (length == 0) return false;
    // Kinds are looked up in the table of blocks.
    nsi_block block = {.kind = nsi_block_kind_find(word, length)};
    if (!block.kind) {
        return fail(p, word, "unknown kind of block \"%s\"; is it misspelt, or newer than this?",
                    quoted(word, word + length).text);
    }

    // Parameters determine all sizes.
    if (!parse_params(p, &block)) return false;
    // A call names its function by number.
    if (block.kind == &nsi_call) {
        if (block.params[0] >= p->functions.count) {
            return fail(p, word, "there is no function %u; %u are defined on earlier lines",
                        block.params[0], p->functions.count);
        }
        block.function = p->functions.data[block.params[0]];
        block.params[0] = 0;
    }
    // Bounds memory before anything is allocated.
    nsi_block_sizes sizes;
    if (!nsi_block_get_sizes(&block, &sizes)) {
        return fail(p, word,
                    "the parameters of block %s are out of range; they must be positive "
                    "and not huge",
                    block.kind->name);
    }

    // Inputs in parentheses.
    more(p);
    const char* start = p->at;
    if (!read_char(p, '(', "( and the inputs of the block") || !read_operands(p) ||
        !read_char(p, ')', "another input of the block or )")) {
        return false;
    }
    // Their number must match the parameters.
    if (p->operands.count != sizes.ninput) {
        return fail(p, start, "block %s is given %u input%s; its parameters ask for %u",
                    block.kind->name, p->operands.count, plural(p->operands.count), sizes.ninput);
    }
    block.ninput = sizes.ninput;
    block.inputs = p->operands.data;

    // Arrays it reads and adds to.
    if (!parse_range(p, "from", &p->now.g->arrays, sizes.source, &block.source,
                     &block.source_offset) ||
        !parse_range(p, "into", &p->now.g->sinks, sizes.sink, &block.sink, &block.sink_offset)) {
        return false;
    }

    // The graph validates once more, and merges equal blocks.
    *out = nsi_graph_block(p->now.g, &block);
    return true;
}

static bool fail_unknown_op(parser* p, const char* word, size_t length) {
    char copy[32] = "", hint[NS_HINT_SIZE];
    ns_nearest nearest = {.wanted = copy};
    quote q = quoted(word, word + length);
    if (length >= sizeof copy) {
        return fail(p, word, "unknown operation \"%s\"; no name is that long", q.text);
    }
    memcpy(copy, word, length);
    for (uint32_t op = 0; op < NSI_OP_COUNT; op++) ns_nearest_offer(&nearest, nsi_ops[op].name);
    return fail(p, word, "unknown operation \"%s\"%s", q.text, ns_nearest_hint(&nearest, hint));
}

static bool parse_op(parser* p, const char* word, size_t length, nsi_id* out) {
    uint32_t op = 0;
    while (op < NSI_OP_COUNT &&
           (nsi_ops[op].kind == NSI_KIND_LEAF || !word_is(word, length, nsi_ops[op].name))) {
        op++;
    }
    if (op == NSI_OP_COUNT) return fail_unknown_op(p, word, length);
    if (!read_operands(p)) return false;
    uint32_t arity = nsi_ops[op].arity, count = p->operands.count;
    if (count != arity) {
        // More operands may follow something that is none; that is what is wrong then.
        if (count < arity && more(p)) return fail_expected(p, "an operand such as %0");
        return fail(p, word, "%s is given %u operand%s; it takes %u", nsi_ops[op].name, count,
                    plural(count), arity);
    }
    nsi_id operands[3] = {NSI_NONE, NSI_NONE, NSI_NONE};
    for (uint32_t k = 0; k < arity; k++) operands[k] = p->operands.data[k];
    *out = nsi_make(p->now.g, (nsi_op)op, operands[0], operands[1], operands[2]);
    return true;
}

// "%3 = mul %1 %2"
static bool parse_definition(parser* p) {
    const char *start = p->at, *word;
    uint32_t id = 0;
    if (!read_id(p, &id)) return false;
    const definition* earlier = find_definition(p, id);
    if (earlier) {
        return fail(p, start, "%%%u is defined already, on line %u; use another number", id,
                    earlier->line);
    }
    if (!read_char(p, '=', "= and an operation")) return false;
    size_t length = parse_word(p, &word, "an operation such as add");
    if (length == 0) return false;

    nsi_id node = NSI_NONE;
    bool ok = word_is(word, length, "const")   ? parse_const(p, &node)
              : word_is(word, length, "input") ? parse_input_node(p, &node)
              : word_is(word, length, "block") ? parse_block(p, &node)
              : word_is(word, length, "out")   ? parse_out(p, &node)
                                               : parse_op(p, word, length, &node);
    return ok && check_graph(p, start) && read_end(p) && define(p, id, node);
}

// ---- ports ---------------------------------------------------------------------------------

static bool read_new_name(parser* p, nsi_port_kind kind, const char** start) {
    if (!parse_graph_name(p, start)) return false;
    if (nsi_graph_find(p->now.g, kind, p->name) == NSI_NONE) return true;
    return fail(p, *start, "%s is taken already; names must differ", quoted(*start, p->at).text);
}

static bool parse_input(parser* p) {
    const char* start;
    if (!read_new_name(p, NSI_PORT_INPUT, &start) || !read_end(p)) return false;
    nsi_graph_input(p->now.g, p->name);
    return check_graph(p, start);
}

// "otherwise 1e3": an output of a function where the call is inactive; zero when not given.
static bool parse_otherwise(parser* p) {
    double value = 0.0;
    if (more(p) && *p->at == 'o') {
        const char* word;
        size_t length = parse_word(p, &word, "otherwise");
        if (!word_is(word, length, "otherwise")) {
            p->at = word;
            return fail_expected(p, "otherwise or the end of the line");
        }
        if (!read_double(p, &value)) return false;
    }
    return nsi_array_push(&p->now.g->allocator, &p->off, value) || parse_fail_nomem(p);
}

static bool parse_output(parser* p) {
    const char* start;
    nsi_id node;
    if (!read_new_name(p, NSI_PORT_OUTPUT, &start) || !read_operand(p, false, &node) ||
        (p->in_function && !parse_otherwise(p)) || !read_end(p)) {
        return false;
    }
    nsi_graph_output(p->now.g, p->name, node);
    return check_graph(p, start);
}

static bool parse_array(parser* p, nsi_port_kind kind) {
    const char *start, *word;
    uint32_t size = 0;
    if (!read_new_name(p, kind, &start) ||
        !parse_graph_number(p, NSI_MAX_ARRAY, &size, "the size of an array")) {
        return false;
    }
    if (size == 0) return fail(p, start, "the array has size 0; it must be at least 1");
    bool per_lane = more(p) && is_graph_word(*p->at);
    if (per_lane) {
        size_t length = parse_word(p, &word, "per_lane");
        if (!word_is(word, length, "per_lane")) {
            p->at = word;
            return fail_expected(p, "per_lane or the end of the line");
        }
    }
    if (!read_end(p)) return false;
    if (kind == NSI_PORT_ARRAY) {
        nsi_graph_array(p->now.g, p->name, size, per_lane);
    } else {
        nsi_graph_sink(p->now.g, p->name, size, per_lane);
    }
    return check_graph(p, start);
}

// ---- functions -----------------------------------------------------------------------------

static void scope_free(scope* s) {
    if (!s->g) return;
    nsi_array_free(&s->g->allocator, &s->definitions);
    nsi_index_free(&s->g->allocator, &s->index);
    ns_graph_free(s->g);
    *s = (scope){0};
}

// "function": the lines up to "end" are a graph of its own.
static bool parse_function(parser* p, const char* word) {
    if (p->in_function) return fail(p, word, "a function inside a function; close it with end");
    if (!read_end(p)) return false;
    ns_graph* body;
    if (ns_graph_create(&p->now.g->allocator, &body, NULL) != NS_OK) return parse_fail_nomem(p);
    p->outside = p->now;
    p->now = (scope){.g = body};
    p->off.count = 0;
    p->in_function = true;
    return true;
}

static bool parse_function_end(parser* p, const char* word) {
    if (!p->in_function) return fail(p, word, "end without function");
    if (!read_end(p)) return false;

    // The body belongs to the function from here on, or is gone.
    ns_graph* body = p->now.g;
    nsi_array_free(&body->allocator, &p->now.definitions);
    nsi_index_free(&body->allocator, &p->now.index);
    p->now = p->outside;
    p->outside = (scope){0};
    p->in_function = false;
    nsi_function* function;
    ns_error error;
    ns_status status = nsi_function_create(body, p->off.data, &function, &error);
    if (status != NS_OK) {
        return fail_with(p, status == NS_ERR_NOMEM ? status : NS_ERR_PARSE, word, "%s",
                         error.message);
    }
    if (nsi_array_push(&p->now.g->allocator, &p->functions, function)) return true;
    nsi_function_release(function);
    return parse_fail_nomem(p);
}

// ---- lines ---------------------------------------------------------------------------------

static bool parse_header(parser* p) {
    const char *word = p->at, *end = end_of_word(p);
    if (!word_is(word, (size_t)(end - word), "graph")) {
        return fail(p, word, "found \"%s\"; a graph starts with the line \"graph 1\"",
                    quoted(word, end_of_token(p)).text);
    }
    p->at = end;
    uint32_t version = 0;
    more(p);
    const char* start = p->at;
    if (!parse_graph_number(p, UINT32_MAX, &version, "the version of the form, 1")) return false;
    if (version != 1) {
        return fail(p, start, "version %u of the form is not known; this library reads version 1",
                    version);
    }
    p->has_header = true;
    if (more(p) && *p->at == 'l') {
        size_t length = parse_word(p, &word, "lowered");
        if (!word_is(word, length, "lowered")) {
            p->at = word;
            return fail_expected(p, "lowered or the end of the line");
        }
        p->now.g->lowered = true;
    }
    return read_end(p);
}

static bool parse_statement(parser* p) {
    if (!more(p)) return true;
    if (!p->has_header) return parse_header(p);
    if (*p->at == '%') return parse_definition(p);
    const char* word = p->at;
    size_t length = (size_t)(end_of_word(p) - word);
    p->at += length;
    if (word_is(word, length, "input")) return parse_input(p);
    if (word_is(word, length, "array")) return parse_array(p, NSI_PORT_ARRAY);
    if (word_is(word, length, "sink")) return parse_array(p, NSI_PORT_SINK);
    if (word_is(word, length, "output")) return parse_output(p);
    if (word_is(word, length, "function")) return parse_function(p, word);
    if (word_is(word, length, "end")) return parse_function_end(p, word);
    if (word_is(word, length, "graph")) {
        return fail(p, word, "a second header; a text holds one graph");
    }
    p->at = word;
    return fail_expected(
        p, "input, array, sink, output, function or a definition such as %0 = const 1");
}

// One line, from p->line on; leaves p->line at the next one.
static bool parse_line(parser* p) {
    const char* newline = memchr(p->line, '\n', (size_t)(p->end - p->line));
    p->line_end = newline ? newline : p->end;
    p->line_number++;
    p->at = p->line;
    size_t size = (size_t)(p->line_end - p->line);
    if (size > MAX_LINE) {
        return fail(p, p->line, "the line is longer than %d bytes; this is no graph", MAX_LINE);
    }
    const char* nul = memchr(p->line, '\0', size);
    if (nul) return fail(p, nul, "NUL byte; the file is not text or is damaged");
    if (!parse_statement(p)) return false;
    p->line = newline ? newline + 1 : p->end;
    return true;
}

ns_status ns_graph_parse(const char* text, size_t size, const char* name,
                         const ns_allocator* allocator, ns_graph** out, ns_error* error) {
    // On failure there is no graph.
    *out = NULL;
    if (size == 0) text = "";
    // Messages start with the name of the text.
    parser p = {
        .text_name = name ? name : "graph", .line = text, .end = text + size, .error = error};
    p.status = ns_graph_create(allocator, &p.now.g, error);
    if (p.status != NS_OK) return p.status;

    // Parse line by line, up to the first error.
    while (p.line < p.end && parse_line(&p)) {
    }
    // Empty texts and texts of comments have no header.
    if (p.status == NS_OK && (!p.has_header || p.in_function)) {
        p.line_number++;
        report(&p, NS_ERR_PARSE, p.line,
               p.has_header ? "the text ends inside a function; close it with end"
                            : "the text has no graph; a graph starts with the line \"graph 1\"");
    }

    // Free the tables; an incomplete graph is not handed out.
    ns_allocator memory = p.now.g->allocator;
    for (uint32_t k = 0; k < p.functions.count; k++) nsi_function_release(p.functions.data[k]);
    nsi_array_free(&memory, &p.functions);
    nsi_array_free(&memory, &p.off);
    nsi_array_free(&memory, &p.operands);
    if (p.status == NS_OK) {
        *out = p.now.g;
        nsi_array_free(&memory, &p.now.definitions);
        nsi_index_free(&memory, &p.now.index);
        NSI_DEBUG_VALIDATE(*out);
        return NS_OK;
    }
    scope_free(&p.now);
    scope_free(&p.outside);
    return p.status;
}

// Write texts as YAML scalars, quoted where necessary.

#include "io/utf8.h"
#include "io/yaml.h"

bool nsi_yaml_is_typed(const char* text) {
    static const char* const words[] = {"",    "~",   "null", "true", "false", "yes",
                                        "no",  "on",  "off",  "y",    "n",     ".inf",
                                        "nan", "inf", ".nan", "<<",   "="};
    char lower[8] = {0};
    size_t size = strlen(text);
    for (size_t i = 0; i < size && size < sizeof lower; i++) {
        lower[i] = text[i];
        if (text[i] >= 'A' && text[i] <= 'Z') lower[i] = (char)(text[i] + ('a' - 'A'));
    }
    for (size_t k = 0; k < sizeof words / sizeof *words && size < sizeof lower; k++) {
        if (strcmp(lower, words[k]) == 0) return true;
    }
    double number;
    return nsi_text_read_double(text, size, &number) != NS_ERR_PARSE;
}

// YAML takes some characters past ASCII for line ends or refuses them.
void nsi_yaml_add_quoted(nsi_text_builder* text, const char* value) {
    size_t size = strlen(value);
    nsi_text_add_bytes(text, "\"", 1);
    for (size_t at = 0, length; at < size; at += length) {
        uint32_t code = 0;
        length = nsi_utf8_next(value + at, size - at, &code);
        NS_ASSERT(length > 0); // it was checked
        if (code == '"' || code == '\\') {
            nsi_text_add(text, "\\%c", (char)code);
        } else if (code == 0x2028 || code == 0x2029 || code == 0xFEFF || code == 0xFFFE ||
                   code == 0xFFFF) {
            nsi_text_add(text, "\\u%04X", code);
        } else {
            nsi_text_add_bytes(text, value + at, length);
        }
    }
    nsi_text_add_bytes(text, "\"", 1);
}

void nsi_yaml_add_text(nsi_text_builder* text, const char* value) {
    size_t size = strlen(value);
    bool plain = !nsi_yaml_is_typed(value) && value[0] != '-';
    for (size_t i = 0; i < size; i++) {
        char c = value[i];
        plain = plain && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == '/');
    }
    if (plain) {
        nsi_text_add_bytes(text, value, size);
    } else {
        nsi_yaml_add_quoted(text, value);
    }
}

// ---- trees -----------------------------------------------------------------------------------

static void add_indent(nsi_text_builder* text, uint32_t depth) {
    for (uint32_t k = 0; k < depth; k++) nsi_text_add(text, "  ");
}

// A value after "key:" or "-": on the same line, or as a block below it. Recursion is bounded by the depth
// of a tree.
static void add_value(nsi_text_builder* text, const nsi_yaml_node* node, uint32_t depth) {
    if (node->type == NSI_YAML_SCALAR) {
        nsi_text_add(text, node->plain && !*node->text ? "" : " ");
        if (node->plain) {
            nsi_text_add_bytes(text, node->text, strlen(node->text));
        } else {
            nsi_yaml_add_quoted(text, node->text);
        }
        nsi_text_add(text, "\n");
        return;
    }
    bool map = node->type == NSI_YAML_MAP;
    nsi_text_add(text, node->count > 0 ? "\n" : map ? " {}\n" : " []\n");
    for (const nsi_yaml_node* n = node->first; n; n = n->next) {
        add_indent(text, depth);
        if (map) nsi_yaml_add_text(text, n->key);
        nsi_text_add(text, map ? ":" : "-");
        add_value(text, n, depth + 1);
    }
}

void nsi_yaml_add_node(nsi_text_builder* text, const nsi_yaml_node* node) {
    nsi_text_add(text, "---"); // so that a value can stand alone
    add_value(text, node, 0);
}

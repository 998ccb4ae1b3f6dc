// Reading pictures.

#include "support/picture.h"

#include <expat.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_DEPTH = 20 };

static picture seen;
static uint32_t open_items[MOST_DEPTH];
static int depth;

static double number(const char* text) {
    char* end;
    double value = strtod(text, &end);
    if (end == text || !isfinite(value)) fail_msg("\"%s\" is not a finite number", text);
    return value;
}

static void read_points(picture* p, picture_item* item, const char* text) {
    item->point = p->npoint;
    while (*(text += strspn(text, " ")) != '\0') {
        char* comma = strchr(text, ',');
        assert_non_null(comma);
        assert_true(p->npoint < PICTURE_POINTS);
        p->points[p->npoint][0] = number(text);
        p->points[p->npoint++][1] = number(comma + 1);
        text += strcspn(text, " ");
    }
    item->count = p->npoint - item->point;
}

static void on_start(void* user, const XML_Char* name, const XML_Char** attributes) {
    picture* p = user;
    assert_true(p->nitem < PICTURE_MOST && depth < MOST_DEPTH);
    picture_item* item = &p->items[p->nitem];
    snprintf(item->element, sizeof item->element, "%s", name);
    item->text = p->size;
    for (; *attributes; attributes += 2) {
        const char *key = attributes[0], *value = attributes[1];
        if (strstr(key, "href") || strstr(value, "url(") || strncmp(key, "on", 2) == 0 ||
            strcmp(key, "src") == 0) {
            fail_msg("%s=\"%s\"", key, value);
        }
        if (strcmp(key, "class") == 0) snprintf(item->class, sizeof item->class, "%s", value);
        bool share = strchr(value, '%') != NULL;
        if (strcmp(key, "x") == 0 || strcmp(key, "x1") == 0 || strcmp(key, "cx") == 0) {
            item->x = number(value);
        }
        if (strcmp(key, "y") == 0 || strcmp(key, "y1") == 0 || strcmp(key, "cy") == 0) {
            item->y = number(value);
        }
        if (strcmp(key, "x2") == 0 || (strcmp(key, "width") == 0 && !share))
            item->x2 = number(value);
        if (strcmp(key, "y2") == 0 || (strcmp(key, "height") == 0 && !share))
            item->y2 = number(value);
        if (strcmp(key, "points") == 0) read_points(p, item, value);
        if (strcmp(key, "viewBox") == 0) {
            assert_int_equal(sscanf(value, "0 0 %lf %lf", &p->width, &p->height), 2);
        }
    }
    assert_true(strcmp(name, "image") != 0 && strcmp(name, "script") != 0);
    open_items[depth++] = p->nitem++;
}

static void on_end(void* user, const XML_Char* name) {
    picture* p = user;
    (void)name;
    picture_item* item = &p->items[open_items[--depth]];
    item->size = p->size - item->text;
    assert_true(p->size + 1 < PICTURE_TEXT);
    p->text[p->size++] = '\n';
}

static void on_text(void* user, const XML_Char* text, int size) {
    picture* p = user;
    assert_true(p->size + (size_t)size + 1 < PICTURE_TEXT);
    memcpy(p->text + p->size, text, (size_t)size);
    p->size += (size_t)size;
}

const picture* picture_read(const char* text, size_t size) {
    memset(&seen, 0, sizeof seen);
    depth = 0;
    XML_Parser parser = XML_ParserCreate("UTF-8");
    assert_non_null(parser);
    XML_SetUserData(parser, &seen);
    XML_SetElementHandler(parser, on_start, on_end);
    XML_SetCharacterDataHandler(parser, on_text);
    if (XML_Parse(parser, text, (int)size, 1) != XML_STATUS_OK) {
        fail_msg("line %lu: %s", XML_GetCurrentLineNumber(parser),
                 XML_ErrorString(XML_GetErrorCode(parser)));
    }
    XML_ParserFree(parser);
    return &seen;
}

static bool is_like(const picture_item* item, const char* element, const char* class) {
    return strcmp(item->element, element) == 0 && (!class || strcmp(item->class, class) == 0);
}

uint32_t picture_count(const picture* p, const char* element, const char* class) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < p->nitem; k++) count += is_like(&p->items[k], element, class);
    return count;
}

const picture_item* picture_item_at(const picture* p, const char* element, const char* class,
                                    uint32_t number_of) {
    for (uint32_t k = 0; k < p->nitem; k++) {
        if (is_like(&p->items[k], element, class) && number_of-- == 0) return &p->items[k];
    }
    fail_msg("no such <%s class=\"%s\">", element, class ? class : "*");
    return NULL;
}

bool picture_says(const picture* p, const char* text) {
    size_t size = strlen(text);
    for (const char* at = p->text; (at = strstr(at, text)) != NULL; at++) {
        if ((at == p->text || at[-1] == '\n') && at[size] == '\n') return true;
    }
    return false;
}

// Widths of DejaVu Sans at 10 px, in hundredths, from ' ' to '~'.
static const short widths[] = {
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361,  318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
    575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635,  611, 732, 684, 989, 685,
    611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352,  635, 634, 278, 278, 579,
    278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592,  525, 636, 337, 636, 838};

// What is drawn of a label: a whole name may stand before it, as its title.
static double label_width(const picture* p, const picture_item* item) {
    const char *text = p->text + item->text, *end = text + item->size;
    for (const char* c = text; c < end; c++) {
        if (*c == '\n') text = c + 1;
    }
    double width = 0.0;
    for (; text < end; text++) {
        unsigned char c = (unsigned char)*text;
        if (c >= ' ' && c <= '~') width += widths[c - ' '] / 100.0;
        if (c >= 0xc0) width += c >= 0xe1 ? 10.0 : 6.4; // others are parts of characters
    }
    return width;
}

void picture_check_labels(const picture* p, bool apart) {
    double lefts[200], rights[200], heights[200];
    uint32_t count = 0;
    for (uint32_t k = 0; k < p->nitem; k++) {
        const picture_item* item = &p->items[k];
        bool rotated = item->x == 0.0 && item->y == 0.0;
        if (strcmp(item->element, "text") != 0 || rotated || item->size == 0) continue;
        double width = label_width(p, item), left = item->x;
        if (item->class[0] == 'e') left -= width;
        if (item->class[0] == 'm') left -= 0.5 * width;
        if (left < 0.0 || left + width > p->width || item->y > p->height) {
            fail_msg("at %g to %g of %g: %.*s", left, left + width, p->width, (int)item->size,
                     p->text + item->text);
        }
        for (uint32_t i = 0; i < count && apart; i++) {
            bool beside =
                fabs(heights[i] - item->y) > 8.0 || left >= rights[i] || left + width <= lefts[i];
            if (!beside) fail_msg("over another: %.*s", (int)item->size, p->text + item->text);
        }
        if (count < 200) {
            lefts[count] = left;
            rights[count] = left + width;
            heights[count++] = item->y;
        }
    }
}

// A picture read back with expat: what is drawn, and the text in it.

#ifndef TEST_PICTURE_H
#define TEST_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PICTURE_MOST = 20000, PICTURE_POINTS = 100000, PICTURE_TEXT = 1 << 20 };

typedef struct picture_item {
    char element[12], class[40];
    double x, y, x2,
        y2; // of lines and circles (x, y); of rectangles with width and height; of texts
    uint32_t point, count; // of polylines, in `points`
    size_t text, size;     // own text, in `text`
} picture_item;

typedef struct picture {
    picture_item items[PICTURE_MOST];
    uint32_t nitem;
    double points[PICTURE_POINTS][2];
    uint32_t npoint;
    double width, height; // of the view box
    char text[PICTURE_TEXT];
    size_t size;
} picture;

// The text must be XML, fetch and run nothing, and have no number that is not finite. The result lives
// until the next call.
const picture* picture_read(const char* text, size_t size);

// Number of elements of a class (NULL: of any).
uint32_t picture_count(const picture* p, const char* element, const char* class);

// The k-th of them.
const picture_item* picture_item_at(const picture* p, const char* element, const char* class,
                                    uint32_t k);

// All labels must be inside of the picture, by the widths of a usual font; rotated ones are not looked
// at. Labels of the same height must not lie over one another if `apart`.
void picture_check_labels(const picture* p, bool apart);

// Is this the whole text of an element?
bool picture_says(const picture* p, const char* text);

#endif

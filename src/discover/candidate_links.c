// Candidate formulas at links: drag forces and torques.

#include "discover/candidate_library.h"

#include <stdio.h>

enum { AXIS_X = 1, AXIS_Y = 2, AXIS_Z = 4, ALL_AXES = 7 };

typedef enum drag_speed {
    DRAG_LINEAR,  // no factor
    DRAG_OWN,     // speed along the axis itself
    DRAG_COMBINED // speed along all axes of the law
} drag_speed;

// A drag law by the axes it acts along, and the speed that multiplies the velocity.
typedef struct drag_law {
    const char* forms[2]; // of forces, of torques; NULL: none
    uint32_t axes;
    drag_speed speed;
    double complexity; // of a force; one more of a torque
} drag_law;

static const drag_law drag_laws[] = {{{"|v| v", "|w| w"}, ALL_AXES, DRAG_COMBINED, 1.8},
                                     {{"v", "w"}, ALL_AXES, DRAG_LINEAR, 1.9},
                                     {{"|v| v", "|w| w"}, AXIS_X, DRAG_OWN, 2.2},
                                     {{"|v| v", "|w| w"}, AXIS_Y, DRAG_OWN, 2.2},
                                     {{"|v| v", "|w| w"}, AXIS_Z, DRAG_OWN, 2.2},
                                     {{"|v_yz| v_yz", NULL}, AXIS_Y | AXIS_Z, DRAG_COMBINED, 2.1},
                                     {{"|v_xz| v_xz", NULL}, AXIS_X | AXIS_Z, DRAG_COMBINED, 2.1},
                                     {{"|v_xy| v_xy", NULL}, AXIS_X | AXIS_Y, DRAG_COMBINED, 2.1},
                                     {{"v", "w"}, AXIS_X, DRAG_LINEAR, 2.4},
                                     {{"v", "w"}, AXIS_Y, DRAG_LINEAR, 2.4},
                                     {{"v", "w"}, AXIS_Z, DRAG_LINEAR, 2.4}};
enum { DRAG_LAWS = sizeof drag_laws / sizeof *drag_laws };

// One coefficient for all links is simpler than one for a link of its own.
static const double shared_complexity = -0.2;

static const char* const loads[] = {"force", "torque"};
static const char* const velocities[] = {"com", "angular"};

// The only axis of a law, or NSI_NONE.
static uint32_t single_axis(const drag_law* law) {
    return law->axes == AXIS_X ? 0 : law->axes == AXIS_Y ? 1 : law->axes == AXIS_Z ? 2 : NSI_NONE;
}

static uint32_t count_axes(const drag_law* law) {
    return (law->axes & 1) + (law->axes >> 1 & 1) + (law->axes >> 2);
}

// "sqrt(vx^2 + vy^2)" of the axes of a law.
static const char* combined_speed(nsi_library_builder* b, const drag_law* law,
                                  const char* const v[3]) {
    const char* sum = "";
    for (uint32_t k = 0; k < 3; k++) {
        if (law->axes >> k & 1) sum = nsi_library_text(b, "%s%s%s^2", sum, *sum ? " + " : "", v[k]);
    }
    return nsi_library_text(b, "sqrt(%s)", sum);
}

static void add_drag_parts(nsi_library_builder* b, nsi_part_list* parts, const char* link,
                           int torque, const drag_law* law) {
    const char *v[3], *factor = "";
    for (int k = 0; k < 3; k++) {
        v[k] =
            nsi_library_text(b, "\"link/%s/velocity/%s/%c\"", link, velocities[torque], "xyz"[k]);
    }
    for (uint32_t k = 0; k < 3 && !b->failed; k++) {
        if (!(law->axes >> k & 1)) continue;
        switch (law->speed) {
        case DRAG_LINEAR: factor = v[k]; break;
        case DRAG_OWN: factor = nsi_library_text(b, "abs(%s) * %s", v[k], v[k]); break;
        case DRAG_COMBINED:
            factor = nsi_library_text(b, "%s * %s", combined_speed(b, law, v), v[k]);
            break;
        }
        const char* output = nsi_library_text(b, "link/%s/%s/%c", link, loads[torque], "xyz"[k]);
        nsi_library_add_part(b, parts, output, NULL, factor, 1.0);
    }
}

// @param link  NSI_NONE: all links
static uint32_t drag_site(nsi_library_builder* b, uint32_t link, int torque, const drag_law* law) {
    const char* name = link == NSI_NONE ? "*" : ns_model_link(b->model, link)->name;
    uint32_t axis = single_axis(law);
    char end[3] = {0};
    if (axis != NSI_NONE) snprintf(end, sizeof end, "/%c", "xyz"[axis]);
    return nsi_library_site(
        b, (nsi_site){.kind = torque ? NSI_SITE_LINK_TORQUE : NSI_SITE_LINK_FORCE,
                      .name = nsi_library_text(b, "link/%s/%s%s", name, loads[torque], end),
                      .link = link,
                      .other = NSI_NONE,
                      .component = axis});
}

// A law at each link that moves, and with one coefficient at all of them.
static void add_drag_law(nsi_library_builder* b, const drag_law* law, int torque, uint32_t moving) {
    nsi_part_list shared = {0};
    for (uint32_t k = 0; k < ns_model_get_sizes(b->model).nlink; k++) {
        const char* link = ns_model_link(b->model, k)->name;
        if (!nsi_library_link_moves(b, k)) continue;
        nsi_part_list own = {0};
        add_drag_parts(b, &own, link, torque, law);
        add_drag_parts(b, &shared, link, torque, law);
        nsi_library_add_formula(b, &own, drag_site(b, k, torque, law), law->forms[torque],
                                law->complexity + torque);
    }
    if (moving < 2) shared.missing = true;
    nsi_library_add_formula(b, &shared, drag_site(b, NSI_NONE, torque, law), law->forms[torque],
                            law->complexity + shared_complexity + torque);
}

void nsi_library_add_links(nsi_library_builder* b) {
    uint32_t moving = 0;
    for (uint32_t k = 0; k < ns_model_get_sizes(b->model).nlink; k++) {
        moving += nsi_library_link_moves(b, k);
    }
    for (int torque = 0; torque < 2; torque++) {
        for (int k = 0; k < DRAG_LAWS && !b->failed; k++) {
            const drag_law* law = &drag_laws[k];
            if (!law->forms[torque]) continue;
            if (nsi_library_has_room(b, count_axes(law) * moving)) {
                add_drag_law(b, law, torque, moving);
            }
        }
    }
}

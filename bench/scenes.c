// Scenes of many bodies of 10 cm, generated as MJCF text, so that the benchmark needs no files and
// other simulators read the same.

#include "bench/scenes.h"
#include "bench/bench.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;
static const char box[] = "type=\"box\" size=\".05 .05 .05\" mass=\"1\"";

// A free body, turned by the rotation vector `turn`.
static void put_body_at(nsi_text_builder* t, const double at[3], const double turn[3],
                        const char* geom) {
    double angle = sqrt(turn[0] * turn[0] + turn[1] * turn[1] + turn[2] * turn[2]);
    double part = angle > 0.0 ? sin(0.5 * angle) / angle : 0.0;
    nsi_text_add(t,
                 "<body pos=\"%.9g %.9g %.9g\" quat=\"%.12g %.12g %.12g %.12g\"><freejoint/>"
                 "<geom %s/></body>\n",
                 at[0], at[1], at[2], cos(0.5 * angle), part * turn[0], part * turn[1],
                 part * turn[2], geom);
}

static void put_stack(nsi_text_builder* t, uint32_t height) {
    for (uint32_t k = 0; k < height; k++) {
        put_body_at(t, (double[]){0, 0, 0.05 + 0.1 * k}, (double[3]){0}, box);
    }
}

// Rows of rows, rows - 1, ... 1 boxes with 5 mm between them.
static void put_pyramid(nsi_text_builder* t, uint32_t rows) {
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t k = 0; k < rows - row; k++) {
            double x = 0.105 * (k - 0.5 * (rows - row - 1));
            put_body_at(t, (double[]){x, 0, 0.05 + 0.1 * row}, (double[3]){0}, box);
        }
    }
}

// Spheres in rings above a bowl of eight inclined planes.
static void put_bowl(nsi_text_builder* t, uint32_t spheres) {
    enum { SIDES = 8, RING = 6 };
    for (uint32_t k = 0; k < SIDES; k++) {
        double c = cos(2.0 * pi * k / SIDES), s = sin(2.0 * pi * k / SIDES);
        nsi_text_add(t,
                     "<geom type=\"plane\" size=\"5 5 1\" pos=\"%.9g %.9g 0\""
                     " zaxis=\"%.9g %.9g 1\"/>\n",
                     0.15 * c, 0.15 * s, -c, -s);
    }
    for (uint32_t k = 0; k < spheres; k++) {
        uint32_t ring = k / RING;
        double angle = 2.0 * pi * (k % RING) / RING + 0.5 * ring;
        put_body_at(t, (double[]){0.13 * cos(angle), 0.13 * sin(angle), 0.2 + 0.11 * ring},
                    (double[3]){0}, "type=\"sphere\" size=\".05\" mass=\".5\"");
    }
}

// Tilted boxes 13 cm apart, 5 by 5 in a layer.
static void put_pile(nsi_text_builder* t, uint32_t boxes) {
    enum { SIDE = 5 };
    ns_rng rng = ns_rng_seed(4);
    for (uint32_t k = 0; k < boxes; k++) {
        double turn[3];
        for (int i = 0; i < 3; i++) turn[i] = ns_rng_uniform(&rng, -0.15, 0.15);
        uint32_t column = k % SIDE, row = k / SIDE % SIDE, layer = k / (SIDE * SIDE);
        put_body_at(t, (double[]){0.13 * column, 0.13 * row, 0.07 + 0.13 * layer}, turn, box);
    }
}

void bench_put_scene(nsi_text_builder* t, const char* name) {
    // Other simulators reserve their room beforehand.
    nsi_text_add(t,
                 "<mujoco model=\"%s\"><option timestep=\"0.001\" cone=\"elliptic\"/>"
                 "<size njmax=\"12000\" nconmax=\"3000\"/><worldbody>"
                 "<geom name=\"floor\" type=\"plane\" size=\"5 5 1\"/>\n",
                 name);
    if (strncmp(name, "stack10", 7) == 0) put_stack(t, 10);
    if (strncmp(name, "pyramid21", 9) == 0) put_pyramid(t, 6);
    if (strncmp(name, "bowl30", 6) == 0) put_bowl(t, 30);
    if (strncmp(name, "pile100", 7) == 0) put_pile(t, 100);
    nsi_text_add(t, "</worldbody></mujoco>\n");
}

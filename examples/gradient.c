// Trace a function, differentiate it, run the gradient: the whole of neuralsim's core in one page.
// The function is the total energy of a double pendulum; its gradient is checked against the
// equation it must satisfy.

#include <neuralsim/neuralsim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// E(q1, q2, v1, v2) of two point masses of 1 kg on rods of 1 m; angles from the vertical.
static void trace_energy(void) {
    ns_expr q1 = ns_input("q1"), q2 = ns_input("q2"), v1 = ns_input("v1"), v2 = ns_input("v2");
    ns_expr cross = ns_mul(ns_mul(v1, v2), ns_cos(ns_sub(q1, q2)));
    ns_expr kinetic = ns_add(ns_add(ns_mul(v1, v1), ns_mul(ns_const(0.5), ns_mul(v2, v2))), cross);
    ns_expr height = ns_add(ns_mul(ns_const(2.0), ns_cos(q1)), ns_cos(q2));
    ns_output("energy", ns_sub(kinetic, ns_mul(ns_const(9.81), height)));
}

int main(void) {
    ns_error error = {0};
    ns_graph *energy = NULL, *gradient = NULL;
    ns_program* program = NULL;
    void* work = NULL;

    // 1. Trace. 2. Differentiate: one more graph. 3. Make it a program.
    if (ns_graph_create(NULL, &energy, &error) != NS_OK) goto failed;
    if (ns_trace_begin(energy, &error) != NS_OK) goto failed;
    trace_energy();
    if (ns_trace_end(&error) != NS_OK) goto failed;
    if (ns_graph_vjp(energy, NULL, &gradient, &error) != NS_OK) goto failed;
    if (ns_program_build(gradient, NULL, &program, &error) != NS_OK) goto failed;
    work = malloc(ns_program_work_size(program));
    if (!work) goto failed;

    // 4. Run it. Inputs: q1 q2 v1 v2 and the seed; outputs: the energy and its four derivatives.
    double in[5] = {0.5, -0.3, 1.0, 0.4, 1.0}, out[5];
    ns_program_run(program, &(ns_run){.in = in, .out = out, .work = work});

    ns_program_info info = ns_program_get_info(program);
    printf("%u operations, %u steps, backend %s, made in %.2f ms\n", ns_graph_op_count(gradient),
           info.step_count, ns_backend_name(info.backend), 1e3 * info.build_seconds);
    for (uint32_t k = 0; k < ns_graph_output_count(gradient); k++) {
        printf("%-8s = %+.15f\n", ns_graph_output_name(gradient, k), out[k]);
    }

    // Turning both angles together changes only the height: dE/dq1 + dE/dq2 = g (2 sin q1 + sin
    // q2).
    double difference = out[1] + out[2] - 9.81 * (2.0 * sin(in[0]) + sin(in[1]));
    printf("check: dE/dq1 + dE/dq2 - g (2 sin q1 + sin q2) = %.1e\n", difference);

    free(work);
    ns_program_free(program);
    ns_graph_free(gradient);
    ns_graph_free(energy);
    return fabs(difference) < 1e-13 ? 0 : 1;

failed:
    fprintf(stderr, "%s\n", error.status != NS_OK ? error.message : "out of memory");
    return 1;
}

#!/usr/bin/env python3
"""Which sources have no test of the same name?

src/x/y.c should have tests/x/test_y.c, apps/quadruped/y.c tests/quadruped/test_y.c. EXCEPTIONS names
the sources that are tested elsewhere and says where. Exits with 1 when a source has neither, or when
an exception is no longer one.

    tools/test_names.py          check
    tools/test_names.py --list   also print the exceptions and the longest test files
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Source -> the tests that cover it: parts of one algorithm that has one test, drawings that are looked
# at through their figure, tables of constants.
EXCEPTIONS = {
    "apps/contact/drops.c": "contact/test_contact_trials",
    "apps/contact/impacts.c": "contact/test_contact_trials",
    "apps/contact/mujoco_peer.c": "contact/test_contact_trials",
    "apps/contact/pushes.c": "contact/test_contact_trials",
    "apps/contact/rig.c": "contact/test_contact_trials",
    "apps/contact/stance.c": "contact/test_contact_trials",
    "apps/contact/targets.c": "contact/test_contact_trials",
    "apps/models/model_trial.c": "models/test_model_trials",
    "apps/models/mujoco_robot.c": "models/test_model_trials",
    "apps/quadruped/imitation.c": "quadruped/test_tuning quadruped/test_walk_experiment",
    "apps/quadruped/quadruped_main.c": "quadruped/test_walk_experiment",
    "apps/quadruped/support.c": "quadruped/test_walk_experiment",
    "apps/quadruped/walk_cases.c": "quadruped/test_walk_experiment",
    "apps/quadruped/walk_report.c": "quadruped/test_walk_experiment",
    "src/contact/baumgarte.c": "contact/test_cases contact/test_resting",
    "src/contact/convex_kernels.c": "contact/test_convex_block",
    "src/contact/contact_classes.c": "contact/test_scene",
    "src/contact/contact_rows.c": "contact/test_forces contact/test_cases",
    "src/contact/convex_features.c": "contact/test_convex_pairs contact/test_convex_distance",
    "src/contact/hfield_features.c": "contact/test_hfield",
    "src/contact/ncp_kernels.c": "contact/test_ncp",
    "src/contact/scene_detect.c": "contact/test_scene",
    "src/contact/scene_functions.c": "contact/test_scene",
    "src/contact/scene_kernel.c": "contact/test_scene",
    "src/contact/scene_respond.c": "contact/test_scene",
    "src/contact/second_derivative_kernels.c": "contact/test_second_derivative",
    "src/contact/sparse_step_kernels.c": "contact/test_scene",
    "src/contact/stages.c": "contact/test_laws contact/test_cases",
    "src/contact/sweeps.c": "contact/test_resting contact/test_cases",
    "src/data/rows.c": "data/test_data_check data/test_check_time",
    "src/data/signals.c": "data/test_data_check data/test_check_velocities data/test_check_units",
    "src/data/state_number.c": "data/test_check_velocities cli/test_new_user",
    "src/discover/backward_selection.c": "discover/test_discover",
    "src/discover/candidate_blueprint.c": "discover/test_candidate_library discover/test_discover",
    "src/discover/candidate_joints.c": "discover/test_candidate_library discover/test_discover",
    "src/discover/candidate_links.c": "discover/test_candidate_library discover/test_discover",
    "src/discover/candidate_parameters.c": "discover/test_candidate_library discover/test_discover",
    "src/discover/discover_notes.c": "cli/test_discover",
    "src/discover/discover_report.c": "cli/test_discover",
    "src/discover/discover_thresholds.c": "discover/test_discover",
    "src/discover/forward_selection.c": "discover/test_discover",
    "src/discover/integrator_error.c": "discover/test_discover",
    "src/discover/network_fallback.c": "discover/test_discover",
    "src/discover/selection.c": "discover/test_discover",
    "src/discover/selection_summary.c": "discover/test_discover",
    "src/discover/site_ranking.c": "discover/test_discover",
    "src/discover/workspace.c": "discover/test_discover",
    "src/discover/workspace_refit.c": "discover/test_discover",
    "src/dyn/aba.c": "dyn/test_forward_dynamics dyn/test_mujoco_oracle",
    "src/dyn/crba.c": "dyn/test_forward_dynamics dyn/test_mujoco_oracle",
    "src/dyn/gyroscopic.c": "sim/test_spin",
    "src/dyn/joints/fixed.c": "dyn/test_joint dyn/test_robot",
    "src/dyn/joints/floating.c": "dyn/test_joint dyn/test_dynamics",
    "src/dyn/joints/prismatic.c": "dyn/test_joint dyn/test_dynamics",
    "src/dyn/joints/revolute.c": "dyn/test_joint dyn/test_dynamics",
    "src/dyn/joints/spherical.c": "dyn/test_joint dyn/test_dynamics",
    "src/dyn/rnea.c": "dyn/test_forward_dynamics dyn/test_mujoco_oracle",
    "src/expr/amd64/amd64.c": "expr/test_random_graphs expr/test_program",
    "src/expr/code.c": "expr/test_program expr/test_regions",
    "src/expr/contract.c": "expr/test_lower expr/test_random_graphs",
    "src/expr/cpu.c": "expr/test_kernels",
    "src/expr/dense.c": "nn/test_layer expr/test_kernels",
    "src/expr/interp.c": "expr/test_random_graphs expr/test_check",
    "src/expr/kinds.c": "expr/test_random_graphs expr/test_validate",
    "src/expr/native.c": "expr/test_random_graphs expr/test_program",
    "src/expr/regalloc.c": "expr/test_program expr/test_random_graphs",
    "src/io/mjcf_mesh.c": "io/test_mjcf_mass io/test_mujoco_files",
    "src/fit/data_warnings.c": "cli/test_data cli/test_new_user",
    "src/fit/assemble.c": "fit/test_fit_run fit/test_spec",
    "src/fit/create_fit.c": "fit/test_fit_api",
    "src/fit/diagnostics.c": "fit/test_fit_report",
    "src/fit/fit_result.c": "fit/test_fit_run fit/test_result",
    "src/fit/least_squares_fit.c": "fit/test_fit_api",
    "src/fit/load_fit.c": "fit/test_spec fit/test_start fit/test_fit_run",
    "src/fit/posterior_figures.c": "fit/test_sample_posterior cli/test_plot",
    "src/fit/posterior_report.c": "fit/test_sample_posterior",
    "src/fit/posterior_summary.c": "fit/test_sample_posterior",
    "src/fit/prediction_traces_motion.c": "fit/test_prediction_traces",
    "src/fit/result_fields.c": "fit/test_result_json fit/test_result_read",
    "src/fit/result_words.c": "fit/test_fit_report",
    "src/fit/save.c": "fit/test_fit_run fit/test_variants",
    "src/fit/score.c": "fit/test_fit_run sysid/test_metrics",
    "src/fit/scoring_report.c": "fit/test_scoring",
    "src/fit/source_files.c": "fit/test_portable",
    "src/io/json_read.c": "io/test_tensors_broken fit/test_result_read",
    "src/io/learned_file.c": "io/test_hybrid_file",
    "src/io/mjcf_values.c": "io/test_mjcf io/test_mjcf_body",
    "src/io/reader.c": "io/test_urdf io/test_mjcf",
    "src/io/robot_file.c": "io/test_urdf io/test_mjcf",
    "src/io/yaml_write.c": "io/test_hybrid_file_write nn/test_blueprint_write",
    "src/math/vec.c": "math/test_spatial",
    "src/model/finish.c": "model/test_builder model/test_pairs",
    "src/model/model_choices.c": "io/test_mjcf cli/test_inspect",
    "src/model/model_defaults.c": "model/test_builder model/test_builder_links",
    "src/nn/augment.c": "sim/test_augment sim/test_augment_gradients",
    "src/nn/layers.c": "nn/test_layer",
    "src/report/data_report.c": "cli/test_data",
    "src/report/bar_chart.c": "report/test_figure",
    "src/report/curves.c": "report/test_figure",
    "src/report/drawing.c": "report/test_figure",
    "src/report/heatmap.c": "report/test_figure",
    "src/report/html.c": "report/test_render_html report/test_figure",
    "src/report/motion_observer.c": "report/test_motion",
    "src/report/network_charts.c": "fit/test_result_figures",
    "src/report/report_figures.c": "cli/test_plot cli/test_plot_network",
    "src/report/scale.c": "report/test_line_chart",
    "src/sim/system.c": "sim/test_rollout sim/test_rollout_errors sim/test_hybrid_system",
    "src/study/study_files.c": "study/test_study study/test_study_grid",
    "src/study/study_grid_report.c": "study/test_study_grid",
    "src/study/study_grid_run.c": "study/test_study_grid",
    "src/study/study_predictions.c": "study/test_study_figures study/test_study_planes",
    "src/study/study_read.c": "study/test_study_fits study/test_study_grid",
    "src/sysid/gauss_newton.c": "sysid/test_objective fit/test_recovery",
    "src/sysid/information.c": "sysid/test_objective fit/test_recovery",
    "src/sysid/normal_equations.c": "sysid/test_objective",
    "src/sysid/objective_cost.c": "sysid/test_objective",
    "src/sysid/prediction.c": "fit/test_prediction_traces sysid/test_adapt sysid/test_metrics",
    "src/sysid/problem.c": "sysid/test_objective fit/test_variants",
    "src/sysid/stage_solver.c": "fit/test_fit_run fit/test_checkpoint",
}


def sources():
    for path in sorted([*ROOT.glob("src/**/*.c"), *ROOT.glob("apps/*/*.c")]):
        yield path.relative_to(ROOT).as_posix()


def test_of(source):
    """tests/x/test_y.c for src/x/y.c, src/x/z/y.c and apps/x/y.c"""
    parts = source.split("/")
    return f"tests/{parts[1]}/test_{parts[-1]}"


def main():
    there = {p.relative_to(ROOT).as_posix() for p in ROOT.glob("tests/*/test_*.c")}
    wrong = 0
    for source in sources():
        test = test_of(source)
        if test not in there and source not in EXCEPTIONS:
            print(f"{source}: there is no {test}")
            wrong += 1
        if test in there and source in EXCEPTIONS:
            print(f"{source}: {test} exists; remove the exception from {sys.argv[0]}")
            wrong += 1
    for source, tests in EXCEPTIONS.items():
        for test in tests.split():
            if not (ROOT / source).exists() or f"tests/{test}.c" not in there:
                print(f"{source}: the exception names {test}, which is not there")
                wrong += 1
    if "--list" in sys.argv:
        for source, tests in EXCEPTIONS.items():
            print(f"{source}: {tests}")
        longest = sorted(((len((ROOT / t).read_text().splitlines()), t) for t in there), reverse=True)
        for lines, test in longest[:20]:
            print(f"{lines:5d} {test}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

// Read the part of MJCF that a tree of rigid bodies needs:
//
//   compiler  angle, autolimits, eulerseq, folders of files, masses and inertias
//   option    timestep, gravity, integrator, density, viscosity, wind, cone; flags gravity and contact
//   default   classes, nested, for joints, geoms, actuators, meshes, materials; class, childclass
//   include   files, nested (mjcf_include.c)
//   worldbody frame, replicate (mjcf_frame.c), body, inertial, joint (hinge, slide, ball, free), freejoint, geom; extensions:
//             geoms of type polygon, ellipse, points
//   asset     mesh files and vertices, colours of materials
//   contact   pair, exclude; of geoms contype, conaffinity, condim, friction, priority;
//             extension: the contact law of a pair and its parameters
//   equality  joint, connect, weld (mjcf_equality.c)
//   keyframe  key: qpos, qvel, ctrl, act (mjcf_keyframe.c)
//   tendon    fixed; spatial with sites, geoms and pulleys (mjcf_tendon.c)
//   sensor    those of ns_sensor_type (mjcf_sensor.c)
//   actuator  motor, position, velocity, intvelocity, damper, cylinder, muscle, general (mjcf_actuator.c)
//
// Everything else is listed as ignored. How bodies become links:
//
//   order     Links are in MuJoCo's order of bodies: depth first, in the order of the file.
//   joints    A body with several joints is carried by massless links, one for each joint but the
//             last, named <body>_<joint>; the first joint is the outermost.
//   pos       A hinge or ball turns about the point `pos` of its body, so the links of the joints
//             have their frames there. When the last one's is not zero, it too becomes a massless
//             link, and the body is fixed to it: the link named after the body always has the
//             body's frame. A slide's pos has no effect.
//   ref       The joint's coordinate is `ref` where the file draws it, and by default. The joint frame
//             is moved back by `ref`, so that coordinates have MuJoCo's values.
//   names     A body without a name is "body<k>", counting all bodies from 1; a joint without one
//             is "<body>_joint", or "<body>_joint<k>", counting the body's joints from 0, when
//             there are several. Underscores are added where such a name is taken.
//   inertia   As MuJoCo: from <inertial>, or else from the geoms with their mass or density.

#include "io/mjcf.h"

#define ORIENTATION "quat axisangle euler xyaxes zaxis"
// What moves an actuator differently from its force law.
#define ACTUATOR_CHANGING                                                                          \
    "dyntype dynprm actdim actrange actlimited actearly timeconst delay nsample inheritrange "     \
    "dampratio body cranksite slidersite cranklength damping armature"
#define TENDON "limited range frictionloss stiffness damping springlength rgba width material group"
#define TENDON_CHANGING                                                                            \
    "solreflimit solimplimit solreffriction solimpfriction margin armature actuatorfrcrange "      \
    "actuatorfrclimited"
#define ACTIVATION "actlimited actrange"

// Softness of contact and joints, of which nsi_mjcf_note_softness() tells.
#define SOFT_CONTACT " solref solimp margin gap"
#define SOFT_JOINT " solreflimit solimplimit solreffriction solimpfriction margin"
#define PAIR_LAW "model " NSI_SCHEMA_CONTACT // not MuJoCo's
#define GEOM_CHANGING "fluidshape fluidcoef"

static const char in_bodies[] = "worldbody body frame replicate";
static const char in_joints[] = "body frame replicate";
static const char in_actuators[] = "actuator default";

const nsi_schema_row nsi_mjcf_schema[] = {
    {"", "mujoco", "model", NULL},
    {"mujoco", "compiler",
     "angle autolimits eulerseq inertiafromgeom inertiagrouprange meshdir assetdir texturedir "
     "strippath coordinate balanceinertia boundmass boundinertia settotalmass exactmeshinertia "
     "fitaabb discardvisual fusestatic convexhull usethread",
     "alignfree"},
    {"mujoco", "option",
     "timestep gravity integrator density viscosity wind cone impratio noslip_iterations",
     "actuatorgroupdisable collision"},
    {"option", "flag", "gravity contact",
     "limit frictionloss passive spring damper actuation clampctrl equality constraint "
     "filterparent "
     "eulerdamp override"},
    {"mujoco", "worldbody", "", NULL},
    {in_bodies, "body", "name pos childclass gravcomp " ORIENTATION, "mocap"},
    {in_bodies, "frame", "name pos childclass " ORIENTATION, NULL},
    {in_bodies, "replicate", "count offset euler sep childclass", NULL},
    {in_bodies, "geom",
     "name class type size fromto pos mass density friction rgba contype conaffinity condim "
     "priority group mesh fitscale hfield material vertex file shellinertia solmix" SOFT_CONTACT
     " " ORIENTATION,
     GEOM_CHANGING},
    {"default", "geom",
     "type size fromto pos mass density friction rgba contype conaffinity condim "
     "priority group mesh fitscale hfield material vertex file shellinertia solmix" SOFT_CONTACT
     " " ORIENTATION,
     GEOM_CHANGING},
    {in_joints, "inertial", "pos mass diaginertia fullinertia " ORIENTATION, NULL},
    {in_joints, "joint",
     "name class type axis pos stiffness springref damping frictionloss armature range limited ref "
     "actuatorfrcrange actuatorfrclimited" SOFT_JOINT,
     "springdamper actuatorgravcomp"},
    {"default", "joint",
     "type axis pos stiffness springref damping frictionloss armature range limited ref "
     "actuatorfrcrange actuatorfrclimited" SOFT_JOINT,
     "springdamper actuatorgravcomp"},
    {in_joints, "freejoint", "name", NULL},
    {"mujoco default", "default", "class", NULL},
    {"mujoco", "asset", "", NULL},
    {"asset", "mesh", "name class file scale vertex face refpos refquat inertia", NULL},
    {"default", "mesh", "scale refpos refquat inertia", NULL},
    {"asset", "hfield", "name file size nrow ncol elevation", NULL},
    {"asset", "material", "name class rgba", NULL},
    {"default", "material", "rgba", NULL},
    {"mujoco", "contact", "", NULL},
    {"contact", "pair",
     "name class geom1 geom2 condim friction " PAIR_LAW SOFT_CONTACT " solreffriction", NULL},
    {"default", "pair", "condim friction " PAIR_LAW SOFT_CONTACT " solreffriction", NULL},
    {"contact", "exclude", "name body1 body2", NULL},
    {"mujoco", "equality", "", NULL},
    {"equality", "joint", "name class active solref solimp joint1 joint2 polycoef", NULL},
    {"equality", "connect", "name class active solref solimp body1 body2 anchor site1 site2", NULL},
    {"equality", "weld",
     "name class active solref solimp body1 body2 anchor relpose torquescale site1 site2", NULL},
    // Of these nsi_mjcf_read_equalities() tells.
    {"equality", "tendon", "name class active solref solimp tendon1 tendon2 polycoef", NULL},
    {"equality", "distance", "name class active solref solimp geom1 geom2 distance", NULL},
    {"default", "equality", "active solref solimp", NULL},
    {"mujoco", "keyframe", "", NULL},
    {"keyframe", "key", "name qpos qvel ctrl act", "mpos mquat"},
    {in_bodies, "site", "name class pos type size rgba group material fromto " ORIENTATION, NULL},
    {"default", "site", "pos type size rgba group material fromto " ORIENTATION, NULL},
    {"mujoco", "sensor", "", NULL},
    {"sensor", "jointpos", "name cutoff joint", NULL},
    {"sensor", "jointvel", "name cutoff joint", NULL},
    {"sensor", "ballquat", "name cutoff joint", NULL},
    {"sensor", "ballangvel", "name cutoff joint", NULL},
    {"sensor", "actuatorpos", "name cutoff actuator", NULL},
    {"sensor", "actuatorvel", "name cutoff actuator", NULL},
    {"sensor", "actuatorfrc", "name cutoff actuator", NULL},
    {"sensor", "tendonpos", "name cutoff tendon", NULL},
    {"sensor", "tendonvel", "name cutoff tendon", NULL},
    {"sensor", "gyro", "name cutoff site", NULL},
    {"sensor", "velocimeter", "name cutoff site", NULL},
    {"sensor", "accelerometer", "name cutoff site", NULL},
    {"sensor", "framepos", "name cutoff objtype objname reftype refname", NULL},
    {"sensor", "framequat", "name cutoff objtype objname reftype refname", NULL},
    {"sensor", "framexaxis", "name cutoff objtype objname reftype refname", NULL},
    {"sensor", "frameyaxis", "name cutoff objtype objname reftype refname", NULL},
    {"sensor", "framezaxis", "name cutoff objtype objname reftype refname", NULL},
    {"sensor", "framelinvel", "name cutoff objtype objname reftype refname", NULL},
    {"sensor", "frameangvel", "name cutoff objtype objname reftype refname", NULL},
    {"sensor", "framelinacc", "name cutoff objtype objname", NULL},
    {"sensor", "frameangacc", "name cutoff objtype objname", NULL},
    {"sensor", "subtreecom", "name cutoff body", NULL},
    {"sensor", "subtreelinvel", "name cutoff body", NULL},
    {"mujoco", "tendon", "", NULL},
    {"default", "tendon", TENDON, TENDON_CHANGING},
    {"tendon", "fixed", "name class " TENDON, TENDON_CHANGING},
    {"tendon", "spatial", "name class " TENDON, TENDON_CHANGING},
    {"fixed", "joint", "joint coef", NULL},
    {"spatial", "site", "site", NULL},
    {"spatial", "pulley", "divisor", NULL},
    {"spatial", "geom", "geom sidesite", NULL},
    {"mujoco", "actuator", "", NULL},
    {in_actuators, "motor", NSI_MJCF_ACTUATOR, ACTUATOR_CHANGING},
    {in_actuators, "position", NSI_MJCF_ACTUATOR " kp kv dampratio timeconst inheritrange",
     ACTUATOR_CHANGING},
    {in_actuators, "velocity", NSI_MJCF_ACTUATOR " kv", ACTUATOR_CHANGING},
    {in_actuators, "general",
     NSI_MJCF_ACTUATOR " gaintype gainprm biastype biasprm dyntype dynprm lengthrange " ACTIVATION,
     ACTUATOR_CHANGING},
    {in_actuators, "intvelocity", NSI_MJCF_ACTUATOR " kp kv dampratio inheritrange " ACTIVATION,
     ACTUATOR_CHANGING},
    {in_actuators, "damper", NSI_MJCF_ACTUATOR " kv", ACTUATOR_CHANGING},
    {in_actuators, "cylinder", NSI_MJCF_ACTUATOR " timeconst area diameter bias",
     ACTUATOR_CHANGING},
    {in_actuators, "muscle",
     NSI_MJCF_ACTUATOR " lengthrange timeconst range force scale lmin lmax vmax fpmax fvmax",
     ACTUATOR_CHANGING " tausmooth"},
    {NULL, NULL, NULL, NULL},
};

// Not read though they change the motion.
static const char changing[] = "flex adhesion plugin dcmotor";
// Without these the model would lack bodies.
static const char refused[] = "composite flexcomp attach";

// Elements that are not read and do not change the motion; sensors only measure.
static const nsi_schema_row known_elements[] = {
    {"mujoco", NULL, "visual statistic size custom extension deformable", NULL},
    {"deformable", NULL, "skin", NULL},
    {"asset", NULL, "texture skin", NULL},
    {"worldbody body frame replicate default", NULL, "camera light", NULL},
    {"sensor", NULL,
     "touch force torque magnetometer camprojection rangefinder jointactuatorfrc "
     "tendonactuatorfrc jointlimitpos jointlimitvel jointlimitfrc tendonlimitpos tendonlimitvel "
     "tendonlimitfrc subtreeangmom insidesite distance normal fromto contact e_potential "
     "e_kinetic clock tactile user plugin",
     NULL},
    {"material", NULL, "layer", NULL},
    {NULL, NULL, NULL, NULL},
};

// The same for attributes: for drawing and for users; numerics of MuJoCo's solver; noise of sensors.
static const nsi_known_names known = {
    "user rgba material group name class dclass width "
    "texture texrepeat texuniform emission specular shininess reflectance metallic roughness "
    "smoothnormal maxhullvert texcoord normal octree content_type material "
    "builtin params "
    "saveinertial "
    "tolerance iterations solver jacobian apirate ls_iterations ls_tolerance "
    "noslip_tolerance mpr_iterations mpr_tolerance ccd_iterations ccd_tolerance "
    "sdf_iterations sdf_initpoints sleep_tolerance magnetic o_margin o_solref o_solimp o_friction "
    "warmstart refsafe sensor midphase nativeccd multiccd energy fwdinv invdiscrete sensornoise "
    "island autoreset sleep "
    "time lengthrange noise nsample interp delay interval "
    "align",
    known_elements};

// ---- compiler and option ---------------------------------------------------------------------

static bool read_eulerseq(nsi_mjcf* m, const nsi_xml_element* element) {
    const char* text = nsi_xml_value(element, "eulerseq");
    if (!text) return true;
    bool good = strlen(text) == 3;
    for (int i = 0; good && i < 3; i++) good = strchr("xyzXYZ", text[i]) != NULL;
    if (!good) {
        return nsi_reader_fail(m->reader, element, NS_ERR_PARSE,
                               "eulerseq: \"%.40s\" is not three letters of xyzXYZ", text);
    }
    memcpy(m->eulerseq, text, sizeof m->eulerseq);
    return true;
}

static bool read_compiler(nsi_mjcf* m) {
    // Words of MJCF, in the order of their values.
    static const char* const angles[] = {"degree", "radian", NULL};
    static const char* const coordinates[] = {"local", "global", NULL};
    static const char* const false_true[] = {"false", "true", NULL};
    static const char* const false_true_auto[] = {"false", "true", "auto", NULL};
    enum { NO, YES, AUTO };

    // MuJoCo merges all <compiler> elements; later attributes override earlier ones.
    const nsi_xml_element* element = nsi_xml_child(m->reader->xml->root, "compiler");
    uint32_t angle = 0, autolimits = YES, coordinate = 0, inertia = AUTO, count;
    uint32_t balance = NO, exact = NO, fit = NO, strip = NO;
    for (; element; element = nsi_xml_next(element, "compiler")) {
        nsi_mjcf_item c = nsi_mjcf_plain(element);
        // Attributes that are absent keep their value.
        if (!nsi_mjcf_word(m, c, "angle", angles, &angle) ||
            !nsi_mjcf_word(m, c, "autolimits", false_true, &autolimits) ||
            !nsi_mjcf_word(m, c, "coordinate", coordinates, &coordinate) ||
            !nsi_mjcf_word(m, c, "inertiafromgeom", false_true_auto, &inertia) ||
            !read_eulerseq(m, element)) {
            return false;
        }

        // Bounds of masses, and which geoms count.
        if (!nsi_mjcf_number(m, c, "boundmass", &m->bound_mass) ||
            !nsi_mjcf_number(m, c, "boundinertia", &m->bound_inertia) ||
            !nsi_mjcf_number(m, c, "settotalmass", &m->total_mass) ||
            !nsi_mjcf_numbers(m, c, "inertiagrouprange", 2, 2, m->inertia_groups, &count) ||
            !nsi_mjcf_word(m, c, "balanceinertia", false_true, &balance) ||
            !nsi_mjcf_word(m, c, "exactmeshinertia", false_true, &exact) ||
            !nsi_mjcf_word(m, c, "fitaabb", false_true, &fit) ||
            !nsi_mjcf_word(m, c, "strippath", false_true, &strip)) {
            return false;
        }
        if (m->bound_mass < 0.0 || m->bound_inertia < 0.0) {
            return nsi_reader_fail(m->reader, element, NS_ERR_PARSE, "%s is negative",
                                   m->bound_mass < 0.0 ? "boundmass" : "boundinertia");
        }

        // Newer versions of MuJoCo do not support global coordinates either.
        if (coordinate == 1) {
            return nsi_reader_fail(m->reader, element, NS_ERR_UNSUPPORTED,
                                   "global coordinates are not supported; convert the model to "
                                   "local ones");
        }

        // meshdir overrides assetdir.
        const char* folder = nsi_xml_value(element, "assetdir");
        if (folder) m->mesh_folder = folder;
        folder = nsi_xml_value(element, "meshdir");
        if (folder) m->mesh_folder = folder;
    }

    // Angles are in degrees unless the file says otherwise.
    const double degree = 3.14159265358979323846 / 180.0;
    m->angle = angle == 0 ? degree : 1.0;

    // Whether a range implies a limit.
    m->autolimits = autolimits == YES;
    // Inertia from geoms: always, never, or if <inertial> is absent.
    m->inertia_from_geom = inertia == YES;
    m->inertia_never_from_geom = inertia == NO;
    m->balance_inertia = balance == YES;
    m->exact_mesh_inertia = exact == YES;
    m->fit_bounds = fit == YES;
    m->strip_path = strip == YES;
    return true;
}

// Settings that make MuJoCo's friction slip less. Those that are the default change nothing.
static bool note_friction(nsi_mjcf* m, nsi_mjcf_item c) {
    double ratio = 1.0, rounds = 0.0;
    if (!nsi_mjcf_number(m, c, "impratio", &ratio) ||
        !nsi_mjcf_number(m, c, "noslip_iterations", &rounds)) {
        return false;
    }
    if (ratio != 1.0 &&
        !nsi_reader_note(m->reader, c.element, "impratio: not represented; changes the motion")) {
        return false;
    }
    return rounds == 0.0 ||
           nsi_reader_note(m->reader, c.element,
                           "noslip_iterations: not represented; changes the motion");
}

static bool read_option(nsi_mjcf* m) {
    // MuJoCo has two implicit integrators; we have one.
    static const char* const integrators[] = {"Euler", "RK4", "implicit", "implicitfast", NULL};
    // MuJoCo's Euler takes joint damping at the end of the step, as our implicit does; its implicit
    // also velocity products, as our gyro does for those of single bodies.
    static const ns_integrator types[] = {NS_INTEGRATOR_IMPLICIT, NS_INTEGRATOR_RK4,
                                          NS_INTEGRATOR_GYRO, NS_INTEGRATOR_IMPLICIT};
    static const char* const switches[] = {"disable", "enable", NULL};
    static const char* const cones[] = {"pyramidal", "elliptic", NULL};
    enum { PYRAMID, CONE };

    nsi_reader* reader = m->reader;
    const nsi_xml_element* root = reader->xml->root;
    ns_world_def world = ns_default_world_def();
    world.timestep = 0.002; // MuJoCo's default, not ours
    uint32_t integrator = 0, gravity = 1, contact = 1;

    // As with <compiler>, later elements override earlier ones.
    const nsi_xml_element* element = nsi_xml_child(root, "option");
    const nsi_xml_element* last = root;
    for (; element; element = nsi_xml_next(element, "option")) {
        nsi_mjcf_item c = nsi_mjcf_plain(element);
        // Errors of the merged settings refer to the last element.
        last = element;

        // Supported settings.
        if (!nsi_mjcf_number(m, c, "timestep", &world.timestep) ||
            !nsi_reader_vector(reader, element, "gravity", world.gravity) ||
            !nsi_mjcf_number(m, c, "density", &world.density) ||
            !nsi_mjcf_number(m, c, "viscosity", &world.viscosity) ||
            !nsi_reader_vector(reader, element, "wind", world.wind) ||
            !nsi_mjcf_word(m, c, "integrator", integrators, &integrator)) {
            return false;
        }

        // Settings that we do not reproduce are reported, since they change the motion.
        uint32_t cone = CONE; // what this element says; MuJoCo's default is in docs/models.md
        if (!nsi_mjcf_word(m, c, "cone", cones, &cone) ||
            (cone == PYRAMID &&
             !nsi_reader_note(
                 reader, element,
                 "cone: a pyramidal cone is ignored (--friction pyramid enables it); changes the "
                 "motion"))) {
            return false;
        }
        if (!note_friction(m, c)) return false;

        // Flags switch gravity and contact off.
        const nsi_xml_element* flag = nsi_xml_child(element, "flag");
        for (; flag; flag = nsi_xml_next(flag, "flag")) {
            if (!nsi_mjcf_word(m, nsi_mjcf_plain(flag), "gravity", switches, &gravity) ||
                !nsi_mjcf_word(m, nsi_mjcf_plain(flag), "contact", switches, &contact)) {
                return false;
            }
        }
    }

    // Apply the merged settings.
    world.integrator = types[integrator];
    m->contact = contact == 1;
    if (gravity == 0) memset(world.gravity, 0, sizeof world.gravity);
    return nsi_reader_set_world(reader, last, &world);
}

// ---- all of it -------------------------------------------------------------------------------

// After all links.
static bool set_total_mass(nsi_mjcf* m) {
    if (m->total_mass > 0.0) nsi_model_builder_set_total_mass(m->reader->builder, m->total_mass);
    return true;
}

bool nsi_mjcf_read(nsi_reader* reader) {
    static const nsi_format format = {nsi_mjcf_schema, changing, refused, &known};
    const nsi_xml_element* root = reader->xml->root;
    const ns_allocator* allocator = &reader->allocator;
    nsi_mjcf m = {.reader = reader,
                  .strings = {.allocator = *allocator},
                  .eulerseq = "xyz",
                  .inertia_groups = {0.0, 5.0}};
    const char* name = nsi_xml_value(root, "model");
    if (reader->options.no_self_collision) {
        nsi_model_builder_forbid_self_collision(reader->builder);
    }
    bool read = nsi_mjcf_include(reader) && nsi_mjcf_drop_blanks(reader) &&
                nsi_reader_note_unread(reader, &format) &&
                (!name || !*name || nsi_reader_set_name(reader, root, name)) && read_compiler(&m) &&
                nsi_mjcf_note_softness(&m) && nsi_mjcf_expand_frames(&m) && read_option(&m) &&
                nsi_mjcf_read_defaults(&m) && nsi_mjcf_read_assets(&m) &&
                nsi_mjcf_collect_pairs(&m) && nsi_mjcf_read_worldbody(&m) && set_total_mass(&m) &&
                nsi_mjcf_read_tendons(&m) && nsi_mjcf_read_actuators(&m) &&
                nsi_mjcf_read_sensors(&m) && nsi_mjcf_read_contacts(&m) &&
                nsi_mjcf_read_equalities(&m) && nsi_mjcf_read_keyframes(&m);

    nsi_mjcf_free_defaults(&m);
    nsi_names_free(allocator, &m.body_names);
    nsi_names_free(allocator, &m.joint_names);
    nsi_names_free(allocator, &m.meshes);
    nsi_names_free(allocator, &m.materials);
    nsi_names_free(allocator, &m.hfields);
    nsi_names_free(allocator, &m.paired);
    nsi_names_free(allocator, &m.left_out);
    nsi_array_free(allocator, &m.mesh_data);
    nsi_arena_free(&m.strings);
    return read;
}

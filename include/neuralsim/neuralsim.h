/// @file neuralsim.h
/// Everything public.

#ifndef NEURALSIM_NEURALSIM_H
#define NEURALSIM_NEURALSIM_H

#include "neuralsim/base.h"
#include "neuralsim/blueprint.h"
#include "neuralsim/certificate.h"
#include "neuralsim/contact.h"
#include "neuralsim/convert.h"
#include "neuralsim/data.h"
#include "neuralsim/discover.h"
#include "neuralsim/estimates.h"
#include "neuralsim/expr.h"
#include "neuralsim/figure.h"
#include "neuralsim/fit.h"
#include "neuralsim/formula.h"
#include "neuralsim/gradcheck.h"
#include "neuralsim/hybrid.h"
#include "neuralsim/io_names.h"
#include "neuralsim/json.h"
#include "neuralsim/learned.h"
#include "neuralsim/live_page.h"
#include "neuralsim/model.h"
#include "neuralsim/motion.h"
#include "neuralsim/nn.h"
#include "neuralsim/parameters.h"
#include "neuralsim/posterior.h"
#include "neuralsim/program.h"
#include "neuralsim/random.h"
#include "neuralsim/report.h"
#include "neuralsim/residuals.h"
#include "neuralsim/scoring.h"
#include "neuralsim/sim.h"
#include "neuralsim/smoothing.h"
#include "neuralsim/solver.h"
#include "neuralsim/study.h"
#include "neuralsim/table.h"
#include "neuralsim/tensors.h"
#include "neuralsim/words.h"

#endif

// A picture of a dense network as SVG: layers as columns of circles, weights as lines between them.

#ifndef NSI_REPORT_NETWORK_DIAGRAM_H
#define NSI_REPORT_NETWORK_DIAGRAM_H

#include "base/common.h"
#include "neuralsim/figure.h"

enum {
    NSI_NETWORK_FULL_SIZE = 40, // nodes of a layer up to which they have their full size
    NSI_NETWORK_MAX = 200,      // more than this are not drawn, but only the
    NSI_NETWORK_STRONGEST = 40  // strongest
};

// Draw it: the same network gives the same bytes, in every locale. One <circle> for each node and
// bias, class "bias" for those; one <line> for each weight between nodes that are drawn, class "p"
// or "n" by its sign, width proportional to its size, relative to the largest of its layer. There
// are no other circles and lines.
// @return NS_OK; NS_ERR_NONFINITE naming a weight that is not; NS_ERR_NOMEM
ns_status nsi_network_diagram_draw(nsi_text_builder* b, const ns_network_diagram* network,
                                   ns_error* error);

#endif

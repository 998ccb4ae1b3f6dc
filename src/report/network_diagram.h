// A picture of a dense network as SVG: layers as columns of circles, weights as lines between them.

#ifndef NSI_REPORT_NETWORK_DIAGRAM_H
#define NSI_REPORT_NETWORK_DIAGRAM_H

#include "base/common.h"

enum {
    NSI_NETWORK_FULL_SIZE = 40, // nodes of a layer up to which they have their full size
    NSI_NETWORK_MOST = 200,     // more than this are not drawn, but only the
    NSI_NETWORK_STRONGEST = 40  // strongest
};

// Weights from one layer to the next: row j leads from node j, the last one from the bias if there
// is one; columns are the nodes of the next layer.
typedef struct nsi_network_picture_layer {
    const double* weights; // (rows x columns)
    uint32_t rows, columns;
    bool bias;
    const char* heading; // over the next layer's nodes, such as "tanh"
} nsi_network_picture_layer;

typedef struct nsi_network_picture {
    const char* title;
    const char* const* notes; // (nnote) lines under the title
    uint32_t nnote;
    const nsi_network_picture_layer*
        layers;                 // each has as many columns as the next has rows, without its bias
    uint32_t nlayer;            // at least 1
    const char* const* inputs;  // names: of the rows of the first layer without its bias,
    const char* const* outputs; // of the columns of the last. Anything: what XML does not allow is
                                // replaced by U+FFFD
} nsi_network_picture;

// Draw it: the same network gives the same bytes, in every locale. One <circle> for each node and
// bias, class "bias" for those; one <line> for each weight between nodes that are drawn, class "p"
// or "n" by its sign, width proportional to its size, relative to the largest of its layer. There
// are no other circles and lines.
// @return NS_OK; NS_ERR_NONFINITE naming a weight that is not; NS_ERR_NOMEM
ns_status nsi_network_draw(nsi_text_builder* b, const nsi_network_picture* network,
                           ns_error* error);

#endif

// Copying a graph while some of its inputs, the placeholders, are replaced by expressions. These may be
// made from any nodes of the graph, also from ones that come after the placeholder, as long as nothing
// depends on itself.
//
// A node can be copied in several variants, which differ in what stands for placeholders.

#ifndef NSI_SUBSTITUTE_H
#define NSI_SUBSTITUTE_H

#include "expr/graph.h"

enum { NSI_MAX_VARIANTS = 2 };

typedef struct nsi_substitution nsi_substitution;

// The node of the copy that stands for placeholder `number` (from 0) in a variant. It calls
// nsi_substitute() for the nodes that it needs; asked once for each variant.
typedef nsi_id nsi_placeholder_value(void* context, nsi_substitution* s, uint32_t number,
                                     uint32_t variant);

struct nsi_substitution {
    const ns_graph* from;
    ns_graph* to;
    uint32_t first; // input of `from` that is the first placeholder; all after it are, too
    nsi_placeholder_value* value;
    void* context;
    nsi_id* map[NSI_MAX_VARIANTS];   // (nodes of `from`) node of the copy, or NSI_NONE
    uint32_t* visit;                 // (nodes of `from`) the last search that came by
    uint8_t* busy[NSI_MAX_VARIANTS]; // (placeholders) being computed
    uint32_t nvisit;
    uint32_t cyclic; // the placeholder that depends on itself, or NSI_NONE
};

// Begin, with a copy that has the ports of `from` but the placeholders, and no outputs.
// @return NS_OK; NS_ERR_NOMEM
ns_status nsi_substitution_begin(const ns_graph* from, uint32_t first, nsi_placeholder_value* value,
                                 void* context, nsi_substitution* out, ns_error* error);

// A node of the original in the copy. NSI_NONE when the copy failed: NS_ERR_STATE when a placeholder
// depends on itself.
nsi_id nsi_substitute(nsi_substitution* s, nsi_id node, uint32_t variant);

// Copy all nodes that are not there yet, and which of them are rounded.
void nsi_substitution_finish(nsi_substitution* s);

// Free the working memory. The copy stays.
void nsi_substitution_free(nsi_substitution* s);

#endif

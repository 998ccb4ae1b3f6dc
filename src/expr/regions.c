// Pass: regions, steps that only one side of a select needs. Last before the backends; linear but
// for a search among the selects of one condition; moves steps, changes none.
//
// A value read by nothing but the `then` operands of selects with condition m, or by steps that
// themselves belong there, belongs to the group (m, then); likewise `otherwise`. What is computed
// in a group matters only in lanes where its condition has the group's value: in other lanes the
// selects throw it away, whatever it is. So a backend may jump over a group when there is no such
// lane. The selects stay, and with them every bit.
//
//      m = a < b                     m = a < b
//      t = sqrt x                    u = ...
//      u = ...                 ->    t = sqrt x     } one region, needed where m is true
//      s = sin t                     s = sin t      }
//      y = select m s u              y = select m s u
//
// Groups do not nest: a select that belongs to a group takes all it needs along, unless its condition
// is needed outside, too: then it stays outside itself. A condition belongs to no group, since
// a select outside reads it. Blocks and outputs belong to none.
//
// Nobody else reads members, so they can wait until the first select that does; members that stand
// behind that select, for another one, come forward when all they need is there in time. Members
// that need more wait for a later select of the group, hence one group may make several regions.

#include "expr/code.h"

// A jump over a region has to fit 31 bits; no step takes more than 180 bytes of machine code.
enum { MAX_STEPS = 1 << 23 };

// Owner of a value: its group, or one of these.
#define UNREAD NSI_NONE
#define SHARED (NSI_NONE - 1)

// Group 2*c is of the steps needed where condition c is false, 2*c + 1 of those where it is true.
typedef struct group {
    uint32_t size;                  // members
    uint32_t first_anchor, nanchor; // in step order
    uint32_t next;                  // anchor to come, while they are filled and moved
    bool kept;                      // makes a region
} group;

// A select outside of a group that reads it, and the members that stand before it in the end.
typedef struct anchor {
    uint32_t select;       // step
    uint32_t first, count; // of members
} anchor;

typedef struct finder {
    nsi_code* code;
    const ns_allocator* memory;
    uint32_t* owner;             // per value
    uint32_t* condition;         // per value: its number as a condition, or NSI_NONE
    NSI_ARRAY(uint32_t) selects; // steps: selects outside of groups, last first
    NSI_ARRAY(uint32_t) inside;  // steps: members of groups, last first
    NSI_ARRAY(group) groups;
    uint32_t* ready;           // per member: 1 + the last value outside that it waits for, or 0
    uint32_t* place;           // per member: its anchor
    NSI_ARRAY(anchor) anchors; // those of a group follow each other
    nsi_step* members;         // by anchor
    uint32_t begin, end;       // range of steps that moves
    nsi_step* moved;           // these in their new order
} finder;

static bool is_group(const finder* f, uint32_t owner) {
    return owner < f->groups.count;
}

static uint32_t group_of(const finder* f, uint32_t condition, bool when) {
    return 2 * f->condition[NSI_REF_COMPONENT(condition)] + when;
}

// ---- who needs what ------------------------------------------------------------------------

static void read_by(finder* f, uint32_t ref, uint32_t owner) {
    if (!nsi_is_value(ref)) return;
    uint32_t* o = &f->owner[NSI_REF_COMPONENT(ref)];
    *o = *o == UNREAD || *o == owner ? owner : SHARED;
}

// A select that belongs to no group.
static bool read_by_select(finder* f, uint32_t i) {
    const nsi_step* step = &f->code->steps.data[i];
    uint32_t* number = &f->condition[NSI_REF_COMPONENT(step->a)];
    if (*number == NSI_NONE) {
        *number = f->groups.count / 2;
        if (!nsi_array_push(f->memory, &f->groups, (group){0})) return false;
        if (!nsi_array_push(f->memory, &f->groups, (group){0})) return false;
    }
    read_by(f, step->a, SHARED);
    read_by(f, step->b, group_of(f, step->a, true));
    read_by(f, step->c, group_of(f, step->a, false));
    return nsi_array_push(f->memory, &f->selects, i);
}

// A select of a group stays outside when its condition is computed outside anyway: what it reads then
// belongs to groups of that condition, which others may read as well.
static bool divides_group(const finder* f, const nsi_step* step, uint32_t owner) {
    if (step->op != NSI_SELECT || !nsi_is_value(step->a)) return false;
    uint32_t condition = NSI_REF_COMPONENT(step->a);
    return f->owner[condition] == SHARED && f->condition[condition] != owner / 2;
}

// From the last step to the first, so that all readers of a value have been seen before its step.
static bool find_owners(finder* f) {
    const nsi_code* code = f->code;

    // Outputs and inputs of blocks are needed whatever a select chooses.
    for (uint32_t k = 0; k < code->outputs.count; k++) read_by(f, code->outputs.data[k], SHARED);
    for (uint32_t i = code->steps.count; i-- > 0;) {
        const nsi_step* step = &code->steps.data[i];
        // Blocks are never skipped.
        if (step->op == NSI_BLOCK) {
            const nsi_code_block* block = &code->blocks.data[step->a];
            for (uint32_t k = 0; k < block->ninput; k++) {
                read_by(f, code->block_inputs.data[block->first_input + k], SHARED);
            }
            for (uint32_t k = 0; k < block->noutput; k++) f->owner[block->first_value + k] = SHARED;
            continue;
        }

        // A step belongs to the side of a select if only that side reads it.
        uint32_t owner = f->owner[NSI_REF_COMPONENT(step->dst)];
        if (is_group(f, owner) && divides_group(f, step, owner)) {
            owner = f->owner[NSI_REF_COMPONENT(step->dst)] = SHARED;
        }
        if (is_group(f, owner)) {
            // It can be skipped together with the rest of the side.
            f->groups.data[owner].size++;
            if (!nsi_array_push(f->memory, &f->inside, i)) return false;
        } else if (step->op == NSI_SELECT && nsi_is_value(step->a)) {
            // A select opens two groups, one per side.
            if (!read_by_select(f, i)) return false;
            continue;
        } else {
            // Everything else is always executed.
            owner = SHARED;
        }

        // Operands belong to the same owner; those past the arity repeat the first.
        read_by(f, step->a, owner);
        read_by(f, step->b, owner);
        read_by(f, step->c, owner);
    }
    return true;
}

// ---- where it goes -------------------------------------------------------------------------

// The group of a step, if it makes a region, or NULL.
static const group* member_of(const finder* f, const nsi_step* step) {
    if (step->op == NSI_BLOCK) return NULL;
    uint32_t owner = f->owner[NSI_REF_COMPONENT(step->dst)];
    return is_group(f, owner) && f->groups.data[owner].kept ? &f->groups.data[owner] : NULL;
}

// The group that this select, which is in none, reads on this side, if it makes a region, or NULL.
static group* group_read(const finder* f, const nsi_step* select, bool when) {
    uint32_t ref = when ? select->b : select->c, owner = group_of(f, select->a, when);
    if (!nsi_is_value(ref) || f->owner[NSI_REF_COMPONENT(ref)] != owner) return NULL;
    return f->groups.data[owner].kept ? &f->groups.data[owner] : NULL;
}

// List the selects that read long groups.
static bool find_anchors(finder* f) {
    uint32_t count = 0;
    for (uint32_t n = f->selects.count; n-- > 0;) {
        for (int when = 0; when < 2; when++) {
            group* g = group_read(f, &f->code->steps.data[f->selects.data[n]], when);
            if (g) g->nanchor++, count++;
        }
    }
    if (!nsi_array_reserve(f->memory, &f->anchors, count)) return false;
    for (uint32_t k = 0; k < f->groups.count; k++) {
        group* g = &f->groups.data[k];
        g->first_anchor = g->next = f->anchors.count;
        f->anchors.count += g->nanchor;
    }
    for (uint32_t n = f->selects.count; n-- > 0;) {
        uint32_t i = f->selects.data[n];
        for (int when = 0; when < 2; when++) {
            group* g = group_read(f, &f->code->steps.data[i], when);
            if (g) f->anchors.data[g->next++] = (anchor){.select = i};
        }
    }
    return true;
}

// Does this anchor stand behind all values below `ready`? So far values are numbered in the order of
// steps.
static bool is_behind(const finder* f, uint32_t k, uint32_t ready) {
    return NSI_REF_COMPONENT(f->code->steps.data[f->anchors.data[k].select].dst) >= ready;
}

static uint32_t first_behind(const finder* f, const group* g, uint32_t ready) {
    uint32_t low = g->first_anchor, high = g->first_anchor + g->nanchor - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (is_behind(f, middle, ready)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    NS_ASSERT(is_behind(f, low, ready));
    return low;
}

static void place_members(finder* f) {
    for (uint32_t n = f->inside.count; n-- > 0;) {
        const nsi_step* step = &f->code->steps.data[f->inside.data[n]];
        const group* g = member_of(f, step);
        if (!g) continue;
        uint32_t value = NSI_REF_COMPONENT(step->dst), ready = 0;
        for (uint32_t k = 0; k < nsi_ops[step->op].arity; k++) {
            uint32_t ref = nsi_step_operand(step, k);
            if (!nsi_is_value(ref)) continue;
            uint32_t operand = NSI_REF_COMPONENT(ref);
            bool member = f->owner[operand] == f->owner[value];
            uint32_t wait = member ? f->ready[operand] : operand + 1;
            if (wait > ready) ready = wait;
        }
        f->ready[value] = ready;
        f->place[value] = first_behind(f, g, ready);
        f->anchors.data[f->place[value]].count++;
    }
}

static bool long_enough(uint32_t count) {
    return count >= NSI_REGION_STEPS && count <= MAX_STEPS;
}

// A group whose members are scattered over many selects stays as it was. True when one is left.
static bool keep_concentrated(finder* f) {
    bool left = false;
    for (uint32_t k = 0; k < f->groups.count; k++) {
        group* g = &f->groups.data[k];
        g->kept = false;
        for (uint32_t n = 0; n < g->nanchor && !g->kept; n++) {
            g->kept = long_enough(f->anchors.data[g->first_anchor + n].count);
        }
        left = left || g->kept;
    }
    return left;
}

// ---- moving --------------------------------------------------------------------------------

// Sort members by anchor, and find the range of steps that moves.
static void collect_members(finder* f) {
    uint32_t first = 0;
    for (uint32_t k = 0; k < f->anchors.count; k++) {
        anchor* a = &f->anchors.data[k];
        a->first = first;
        first += a->count;
        if (a->count > 0 && a->select >= f->end) f->end = a->select + 1;
        a->count = 0;
    }
    f->begin = f->code->steps.count;
    for (uint32_t n = f->inside.count; n-- > 0;) {
        uint32_t i = f->inside.data[n];
        const nsi_step* step = &f->code->steps.data[i];
        if (!member_of(f, step)) continue;
        anchor* a = &f->anchors.data[f->place[NSI_REF_COMPONENT(step->dst)]];
        f->members[a->first + a->count++] = *step;
        if (i < f->begin) f->begin = i;
        if (i >= f->end) f->end = i + 1;
    }
}

// The members that go before this select.
static bool move_members(finder* f, const nsi_step* select, uint32_t* at) {
    for (int when = 1; when >= 0; when--) {
        group* g = group_read(f, select, when);
        if (!g) continue;
        const anchor* a = &f->anchors.data[g->next++];
        nsi_region region = {*at, a->count, select->a, when};
        memcpy(f->moved + (*at - f->begin), f->members + a->first, a->count * sizeof(nsi_step));
        *at += a->count;
        if (!long_enough(a->count)) continue;
        if (!nsi_array_push(f->memory, &f->code->regions, region)) return false;
    }
    return true;
}

static bool move_steps(finder* f) {
    nsi_code* code = f->code;
    for (uint32_t k = 0; k < f->groups.count; k++) {
        f->groups.data[k].next = f->groups.data[k].first_anchor;
    }
    uint32_t at = f->begin, next = f->selects.count;
    while (next > 0 && f->selects.data[next - 1] < f->begin) next--;
    for (uint32_t i = f->begin; i < f->end; i++) {
        const nsi_step* step = &code->steps.data[i];
        if (member_of(f, step)) continue;
        if (next > 0 && f->selects.data[next - 1] == i) {
            next--;
            if (!move_members(f, step, &at)) return false;
        }
        if (step->op == NSI_BLOCK) code->blocks.data[step->a].step = at;
        f->moved[at++ - f->begin] = *step;
    }
    NS_ASSERT(at == f->end);
    memcpy(code->steps.data + f->begin, f->moved, (f->end - f->begin) * sizeof(nsi_step));
    return true;
}

static bool find_regions(finder* f) {
    // Find out who reads each value.
    size_t values = (size_t)f->code->nvalue * sizeof(uint32_t);
    f->owner = nsi_alloc(f->memory, values);
    f->condition = nsi_alloc(f->memory, values);
    if (!f->owner || !f->condition) return false;
    memset(f->owner, 0xff, values); // UNREAD
    memset(f->condition, 0xff, values);
    if (!find_owners(f)) return false;

    // Keep groups that are worth a jump.
    bool found = false;
    for (uint32_t k = 0; k < f->groups.count; k++) {
        f->groups.data[k].kept = f->groups.data[k].size >= NSI_REGION_STEPS;
        found = found || f->groups.data[k].kept;
    }
    // Most programs have none.
    if (!found) return true;

    // Find a position for each group that keeps its steps together.
    f->ready = nsi_alloc(f->memory, values);
    f->place = nsi_alloc(f->memory, values);
    if (!f->ready || !f->place || !find_anchors(f)) return false;
    place_members(f);
    // Scattered groups would lengthen the lifetimes of their values.
    if (!keep_concentrated(f)) return true;

    // Move the steps.
    f->members = nsi_alloc(f->memory, f->inside.count * sizeof(nsi_step));
    if (!f->members) return false;
    collect_members(f);
    f->moved = nsi_alloc(f->memory, (f->end - f->begin) * sizeof(nsi_step));
    return f->moved && move_steps(f);
}

bool nsi_code_find_regions(nsi_code* code) {
    bool selects = false;
    for (uint32_t i = 0; i < code->steps.count && !selects; i++) {
        selects = code->steps.data[i].op == NSI_SELECT;
    }
    if (!selects) return true;

    finder f = {.code = code, .memory = &code->allocator};
    bool done = find_regions(&f);
    nsi_free(f.memory, f.owner);
    nsi_free(f.memory, f.condition);
    nsi_array_free(f.memory, &f.selects);
    nsi_array_free(f.memory, &f.inside);
    nsi_array_free(f.memory, &f.groups);
    nsi_free(f.memory, f.ready);
    nsi_free(f.memory, f.place);
    nsi_array_free(f.memory, &f.anchors);
    nsi_free(f.memory, f.members);
    nsi_free(f.memory, f.moved);
    return done;
}

// Checks of the times of rows: backwards, uneven, missing.

#include "data/check_state.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

// Files whose rows do not follow one another in time.
static void check_late(ns_data_check* c) {
    for (uint32_t r = 0; r < c->nrecording; r++) {
        const nsi_checked_recording* recording = &c->recordings[r];
        for (uint32_t i = 0; recording->rows && i < c->map->sources.count; i++) {
            const nsi_source_rows* rows = &recording->rows->sources[i];
            if (rows->late == 0) continue;
            // The map asks to repair them; otherwise they are left out here, and a fit refuses them.
            bool repaired = c->map->sources.data[i].time_repair;
            nsi_places places = {.kept = 1, .count = rows->late, .recordings = 1};
            places.data[0] = (ns_data_place){recording->recording->name, recording->recording->file,
                                             rows->late_line, rows->late_time};
            nsi_find(
                c, NS_DATA_TIME_BACKWARDS, repaired ? NS_DATA_NOTE : NS_DATA_PROBLEM, NULL, &places,
                rows->late,
                "correct the rows, name the column that tells recordings apart as trajectory, or "
                "set time_repair: true in the map",
                "the time goes back, repeats or is missing in %u row%s, first at %.6g s",
                rows->late, rows->late == 1 ? "" : "s", rows->late_time);
        }
    }
}

// One finding for all of them: the worst one says how much.
static void check_uneven(ns_data_check* c) {
    const double most = 0.2; // of the distance of rows
    nsi_places places = {0};
    const ns_data_recording* worst = NULL;
    for (uint32_t r = 0; r < c->nrecording && c->map->row_samples == 0; r++) {
        const nsi_checked_recording* recording = &c->recordings[r];
        const ns_data_recording* s = &recording->stats;
        if (!(s->jitter * s->rate > most) || s->rows < 8) continue;
        ns_data_place place = {s->name, s->file, recording->recording->line, s->start};
        places.count++;
        places.recordings++;

        // The worst one is the first place.
        bool worse = !worst || s->jitter * s->rate > worst->jitter * worst->rate;
        if (worse) worst = s;
        if (worse && places.kept > 0) {
            ns_data_place before = places.data[0];
            places.data[0] = place;
            place = before;
        }
        if (places.kept < NSI_MAX_PLACES) places.data[places.kept++] = place;
    }
    if (!worst) return;
    char count[60] = "";
    if (places.count > 1) {
        snprintf(count, sizeof count, "in %u of %u recordings, ", places.count, c->nrecording);
    }
    nsi_find(c, NS_DATA_UNEVEN, NS_DATA_NOTE, NULL, &places, worst->jitter,
             "rows are interpolated onto an even grid; check the clock",
             "%sthe distance of rows varies by %s%.2g ms around %.4g ms", count,
             places.count > 1 ? "up to " : "", 1e3 * worst->jitter, 1e3 / worst->rate);
}

// A column whose name begins with "time" or is "t" with something behind it.
static bool is_like_time(const char* name) {
    const char* words[] = {"time", "stamp", "t_", "t ", "t("};
    char lower[16] = "";
    for (size_t k = 0; k < sizeof lower - 1 && name[k]; k++)
        lower[k] = (char)tolower((unsigned char)name[k]);
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        if (strncmp(lower, words[k], strlen(words[k])) == 0) return true;
    }
    return strcmp(lower, "t") == 0;
}

static void check_no_time(ns_data_check* c) {
    if (c->has_time) return;
    for (uint32_t k = 0; k < c->nchannel; k++) {
        const nsi_signal* s = &c->signals[k];
        char advice[400], unit[30] = "";
        if (!is_like_time(s->name)) continue;

        // Renamed alone, milliseconds would stay milliseconds.
        double factor = c->nrecording > 0 ? nsi_clock_of_column(c, k) : 1.0;
        const char* quote = nsi_yaml_quote(s->formula);
        if (factor > 1.0) {
            snprintf(unit, sizeof unit, " in %s", nsi_clock_name(factor));
            snprintf(
                advice, sizeof advice,
                "divide \"%.60s\" by %g and rename it to t, or write `time: %s%.80s * %g%s` in "
                "a map",
                s->name, factor, quote, s->formula, 1.0 / factor, quote);
        } else {
            snprintf(advice, sizeof advice,
                     "rename \"%.60s\" to t, or write `time: %s%.80s%s` in a "
                     "map",
                     s->name, quote, s->formula, quote);
        }
        nsi_find(c, NS_DATA_NO_TIME, NS_DATA_WARNING, s->name, NULL, factor > 1.0 ? factor : NAN,
                 advice, "it seems to be the time%s, but is not called t or time", unit);
        return;
    }
    nsi_find(c, NS_DATA_NO_TIME, NS_DATA_WARNING, NULL, NULL, NAN,
             "add a column t in s, or give a map with `rate:` rows per second",
             "no column is the time");
}

void nsi_check_time(ns_data_check* c) {
    check_no_time(c);
    check_late(c);
    check_uneven(c);
}

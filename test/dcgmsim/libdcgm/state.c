// The script: one statement a line, read again on every call from the file that
// LOCKSTEP_DCGMSIM_STATE names. See state.go for what can be said.

#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_state sim;

static int level_of(const char *word)
{
    if (strcmp(word, "gpu") == 0)
        return DCGM_FE_GPU;
    if (strcmp(word, "switch") == 0)
        return DCGM_FE_SWITCH;
    if (strcmp(word, "link") == 0)
        return DCGM_FE_LINK;
    if (strcmp(word, "connectx") == 0)
        return DCGM_FE_CONNECTX;
    return DCGM_FE_NONE;
}

static void add_entity(int level, unsigned id, const char *uuid, int status)
{
    if (sim.entities == SIM_MAX_ENTITIES)
        return;
    struct sim_entity *e = &sim.entity[sim.entities++];
    e->level = level;
    e->id = id;
    e->status = status;
    snprintf(e->uuid, sizeof e->uuid, "%s", uuid);
}

static void read_devices(const char *line)
{
    char word[SIM_TEXT] = "", text[SIM_TEXT] = "";
    unsigned id, index;
    int number;
    if (sscanf(line, "gpu %u %79s %d", &id, text, &number) == 3)
        add_entity(DCGM_FE_GPU, id, text, number);
    else if (sscanf(line, "switch %u", &id) == 1)
        add_entity(DCGM_FE_SWITCH, id, "", DcgmEntityStatusOk);
    else if (sscanf(line, "connectx %u", &id) == 1)
        add_entity(DCGM_FE_CONNECTX, id, "", DcgmEntityStatusOk);
    else if (sscanf(line, "link %15s %u %u %d", word, &id, &index, &number) == 4 && sim.links < SIM_MAX_LINKS)
        sim.link[sim.links++] = (struct sim_link){level_of(word), id, index, number};
}

static void read_values(const char *line)
{
    char word[16] = "", kind[16] = "", text[SIM_TEXT] = "";
    unsigned id, field, system, health;
    long long code, usec;
    if (sscanf(line, "field %15s %u %u %15s %159[^\n]", word, &id, &field, kind, text) >= 4 && sim.fields < SIM_MAX_FIELDS) {
        struct sim_field *f = &sim.field[sim.fields++];
        f->level = level_of(word);
        f->id = id;
        f->field = field;
        snprintf(f->kind, sizeof f->kind, "%s", kind);
        snprintf(f->text, sizeof f->text, "%s", text);
    } else if (sscanf(line, "xid %u %lld %lld", &id, &code, &usec) == 3 && sim.xids < SIM_MAX_XIDS) {
        sim.xid[sim.xids++] = (struct sim_xid){id, code, usec};
    } else if (sscanf(line, "incident %15s %u %u %u %u %159[^\n]", word, &id, &system, &health, &field, text) == 6
               && sim.incidents < SIM_MAX_FAULTS) {
        struct sim_incident *i = &sim.incident[sim.incidents++];
        *i = (struct sim_incident){level_of(word), id, system, health, field, ""};
        snprintf(i->text, sizeof i->text, "%s", text);
    }
}

static void read_engine(const char *line)
{
    struct sim_fault fault = {"", 0};
    unsigned field;
    if (strncmp(line, "engine down", 11) == 0)
        sim.down = true;
    else if (strncmp(line, "trace", 5) == 0)
        sim.trace = true;
    else if (sscanf(line, "version %63s", sim.version) == 1 || sscanf(line, "epoch %ld", &sim.epoch) == 1
             || sscanf(line, "clock %lld", &sim.clock) == 1)
        return;
    else if (sscanf(line, "fail %63s %d", fault.function, &fault.code) == 2 && sim.fails < SIM_MAX_FAULTS)
        sim.fail[sim.fails++] = fault;
    else if (sscanf(line, "stall %63s", fault.function) == 1 && sim.stalls < SIM_MAX_FAULTS)
        sim.stall[sim.stalls++] = fault;
    else if (sscanf(line, "unknown %u", &field) == 1 && sim.unknowns < SIM_MAX_FAULTS)
        sim.unknown[sim.unknowns++] = field;
}

// slurp reads a whole file; -1 where it cannot be read.
static long slurp(const char *path, char *into, long room)
{
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file)
        return -1;
    long n = (long)fread(into, 1, room, file);
    fclose(file);
    return n;
}

void sim_load(void)
{
    static char script[SIM_MAX_SCRIPT + 1], last[SIM_MAX_SCRIPT + 1];
    static long known = -2;
    long n = slurp(getenv("LOCKSTEP_DCGMSIM_STATE"), script, SIM_MAX_SCRIPT);
    if (n == known && (n < 0 || memcmp(script, last, n) == 0))
        return; // it says what it said
    known = n;
    memset(&sim, 0, sizeof sim);
    strcpy(sim.version, "4.6.0");
    if (n < 0) {
        sim.down = true; // an engine that nobody has scripted does not run
        return;
    }
    memcpy(last, script, n);
    script[n] = '\0';
    for (char *rest = script, *line; (line = strsep(&rest, "\n")) != NULL;) {
        read_engine(line);
        read_devices(line);
        read_values(line);
    }
}

const struct sim_entity *sim_entity(int level, unsigned id)
{
    for (int i = 0; i < sim.entities; i++)
        if (sim.entity[i].level == level && sim.entity[i].id == id)
            return &sim.entity[i];
    return NULL;
}

// The simulator: what a text file scripts of a host engine, and how a call enters it.

#ifndef LOCKSTEP_DCGMSIM_H
#define LOCKSTEP_DCGMSIM_H

#include "dcgm_agent.h"
#include "dcgm_errors.h"
#include "dcgm_fields.h"
#include "dcgm_structs.h"
#include <stdbool.h>
#include <stdint.h>

#define SIM_TEXT 160
#define SIM_MAX_SCRIPT (1 << 20) // bytes
#define SIM_MAX_ENTITIES 64
#define SIM_MAX_LINKS 2048
#define SIM_MAX_FIELDS 4096
#define SIM_MAX_XIDS 1024
#define SIM_MAX_FAULTS 64

// A GPU or a switch.
struct sim_entity {
    int level; // DCGM_FE_*
    unsigned id;
    int status; // DcgmEntityStatus_t
    char uuid[80];
};

struct sim_link {
    int level;
    unsigned parent, index;
    int state; // dcgmNvLinkLinkState_t
};

// What a field of an entity reads: kind is int, double, string, blank, nodata or notwatched.
struct sim_field {
    int level;
    unsigned id;
    unsigned field;
    char kind[16];
    char text[SIM_TEXT];
};

struct sim_xid {
    unsigned gpu;
    long long code, usec;
};

struct sim_incident {
    int level;
    unsigned id;
    unsigned system, health, code;
    char text[SIM_TEXT];
};

// A function that fails with a code, or that blocks.
struct sim_fault {
    char function[64];
    int code;
};

struct sim_state {
    char version[64];
    bool down, trace;
    long long clock; // microseconds that the engine's clock is ahead of the machine's
    long epoch; // of the engine's life: a handle of an earlier life is not valid
    int entities, links, fields, xids, incidents, fails, stalls, unknowns;
    struct sim_entity entity[SIM_MAX_ENTITIES];
    struct sim_link link[SIM_MAX_LINKS];
    struct sim_field field[SIM_MAX_FIELDS];
    struct sim_xid xid[SIM_MAX_XIDS];
    struct sim_incident incident[SIM_MAX_FAULTS];
    struct sim_fault fail[SIM_MAX_FAULTS];
    struct sim_fault stall[SIM_MAX_FAULTS];
    unsigned unknown[SIM_MAX_FAULTS]; // fields that this engine has never heard of
};

extern struct sim_state sim;

// sim_load reads the script again.
void sim_load(void);
// sim_enter begins a call: it locks, reads the script, blocks while the script says so, and
// returns what the call fails with; the lock is held only after DCGM_ST_OK.
dcgmReturn_t sim_enter(const char *function);
// sim_enter_handle does so for a call on a connection.
dcgmReturn_t sim_enter_handle(const char *function, dcgmHandle_t handle);
dcgmReturn_t sim_leave(dcgmReturn_t rc);

const struct sim_entity *sim_entity(int level, unsigned id);
// sim_forget drops groups, field groups and watches: they die with the connection.
void sim_forget(void);

long long sim_now(void);

#define ENTER(function)                                  \
    do {                                                 \
        dcgmReturn_t entered = sim_enter(function);      \
        if (entered != DCGM_ST_OK)                       \
            return entered;                              \
    } while (0)

#define ENTER_HANDLE(handle)                                         \
    do {                                                             \
        dcgmReturn_t entered = sim_enter_handle(__func__, (handle)); \
        if (entered != DCGM_ST_OK)                                   \
            return entered;                                          \
    } while (0)

#endif

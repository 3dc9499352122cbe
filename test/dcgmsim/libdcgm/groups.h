// Groups of entities and of fields, as the calls that read fields see them.

#ifndef LOCKSTEP_DCGMSIM_GROUPS_H
#define LOCKSTEP_DCGMSIM_GROUPS_H

#include "sim.h"

#define SIM_MAX_GROUPS 64

struct sim_group {
    bool used;
    int n;
    dcgmGroupEntityPair_t entity[DCGM_GROUP_MAX_ENTITIES_V2];
};

struct sim_fieldgroup {
    bool used;
    int n;
    unsigned short field[DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP];
};

struct sim_group *sim_group(dcgmGpuGrp_t id);
struct sim_fieldgroup *sim_fieldgroup(dcgmFieldGrp_t id);
bool sim_watched(dcgmGpuGrp_t group, dcgmFieldGrp_t fields);

#endif

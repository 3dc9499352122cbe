// Groups of entities, groups of fields, and which of them are watched together.

#include "groups.h"
#include <string.h>

struct sim_group sim_groups[SIM_MAX_GROUPS];
struct sim_fieldgroup sim_fieldgroups[SIM_MAX_GROUPS];
static struct {
    dcgmGpuGrp_t group;
    dcgmFieldGrp_t fields;
} watches[SIM_MAX_GROUPS];

void sim_forget(void)
{
    memset(sim_groups, 0, sizeof sim_groups);
    memset(sim_fieldgroups, 0, sizeof sim_fieldgroups);
    memset(watches, 0, sizeof watches);
}

struct sim_group *sim_group(dcgmGpuGrp_t id)
{
    return id > 0 && id < SIM_MAX_GROUPS && sim_groups[id].used ? &sim_groups[id] : NULL;
}

struct sim_fieldgroup *sim_fieldgroup(dcgmFieldGrp_t id)
{
    return id > 0 && id < SIM_MAX_GROUPS && sim_fieldgroups[id].used ? &sim_fieldgroups[id] : NULL;
}

bool sim_watched(dcgmGpuGrp_t group, dcgmFieldGrp_t fields)
{
    for (int i = 0; i < SIM_MAX_GROUPS; i++)
        if (watches[i].group && watches[i].group == group && watches[i].fields == fields)
            return true;
    return false;
}

dcgmReturn_t dcgmGroupCreate(dcgmHandle_t handle, dcgmGroupType_t type, const char *name, dcgmGpuGrp_t *group)
{
    (void)type, (void)name;
    ENTER_HANDLE(handle);
    for (int i = 1; i < SIM_MAX_GROUPS; i++) {
        if (sim_groups[i].used)
            continue;
        sim_groups[i] = (struct sim_group){.used = true};
        *group = i;
        return sim_leave(DCGM_ST_OK);
    }
    return sim_leave(DCGM_ST_MAX_LIMIT);
}

dcgmReturn_t dcgmGroupAddEntity(dcgmHandle_t handle, dcgmGpuGrp_t group, dcgm_field_entity_group_t level, dcgm_field_eid_t id)
{
    ENTER_HANDLE(handle);
    struct sim_group *g = sim_group(group);
    if (!g || g->n == DCGM_GROUP_MAX_ENTITIES_V2)
        return sim_leave(DCGM_ST_BADPARAM);
    if (level != DCGM_FE_LINK && !sim_entity(level, id))
        return sim_leave(DCGM_ST_BADPARAM);
    g->entity[g->n++] = (dcgmGroupEntityPair_t){level, id};
    return sim_leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmGroupDestroy(dcgmHandle_t handle, dcgmGpuGrp_t group)
{
    ENTER_HANDLE(handle);
    struct sim_group *g = sim_group(group);
    if (!g)
        return sim_leave(DCGM_ST_NOT_CONFIGURED);
    g->used = false;
    return sim_leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmFieldGroupCreate(dcgmHandle_t handle, int n, const unsigned short *ids, const char *name, dcgmFieldGrp_t *fields)
{
    (void)name;
    ENTER_HANDLE(handle);
    if (n < 1 || n > DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP)
        return sim_leave(DCGM_ST_MAX_LIMIT);
    for (int i = 0; i < n; i++)
        for (int u = 0; u < sim.unknowns; u++)
            if (sim.unknown[u] == ids[i])
                return sim_leave(DCGM_ST_UNKNOWN_FIELD);
    for (int i = 1; i < SIM_MAX_GROUPS; i++) {
        if (sim_fieldgroups[i].used)
            continue;
        sim_fieldgroups[i] = (struct sim_fieldgroup){.used = true, .n = n};
        memcpy(sim_fieldgroups[i].field, ids, n * sizeof ids[0]);
        *fields = i;
        return sim_leave(DCGM_ST_OK);
    }
    return sim_leave(DCGM_ST_MAX_LIMIT);
}

dcgmReturn_t dcgmFieldGroupDestroy(dcgmHandle_t handle, dcgmFieldGrp_t fields)
{
    ENTER_HANDLE(handle);
    struct sim_fieldgroup *f = sim_fieldgroup(fields);
    if (!f)
        return sim_leave(DCGM_ST_NOT_CONFIGURED);
    f->used = false;
    return sim_leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmWatchFields(dcgmHandle_t handle, dcgmGpuGrp_t group, dcgmFieldGrp_t fields, long long every, double age, int n)
{
    (void)every, (void)age, (void)n;
    ENTER_HANDLE(handle);
    struct sim_group *g = sim_group(group);
    if (!g || !sim_fieldgroup(fields))
        return sim_leave(DCGM_ST_NOT_CONFIGURED);
    if (g->n == 0)
        return sim_leave(DCGM_ST_GROUP_IS_EMPTY);
    for (int i = 0; i < SIM_MAX_GROUPS; i++) {
        if (watches[i].group)
            continue;
        watches[i].group = group;
        watches[i].fields = fields;
        return sim_leave(DCGM_ST_OK);
    }
    return sim_leave(DCGM_ST_MAX_LIMIT);
}

dcgmReturn_t dcgmUnwatchFields(dcgmHandle_t handle, dcgmGpuGrp_t group, dcgmFieldGrp_t fields)
{
    ENTER_HANDLE(handle);
    for (int i = 0; i < SIM_MAX_GROUPS; i++)
        if (watches[i].group == group && watches[i].fields == fields)
            watches[i].group = 0;
    return sim_leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmUpdateAllFields(dcgmHandle_t handle, int wait)
{
    (void)wait;
    ENTER_HANDLE(handle);
    return sim_leave(DCGM_ST_OK);
}

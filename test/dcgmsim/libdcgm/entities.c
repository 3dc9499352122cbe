// Devices: GPUs, switches, their links and their health.

#include "sim.h"
#include <stdio.h>
#include <string.h>

dcgmReturn_t dcgmGetEntityGroupEntities(dcgmHandle_t handle, dcgm_field_entity_group_t level, dcgm_field_eid_t *ids, int *n,
                                        unsigned flags)
{
    ENTER_HANDLE(handle);
    int room = *n, found = 0;
    for (int i = 0; i < sim.entities && found < room; i++) {
        const struct sim_entity *e = &sim.entity[i];
        bool usable = e->status == DcgmEntityStatusOk || e->status == DcgmEntityStatusFake;
        if (e->level == (int)level && (usable || !(flags & DCGM_GEGE_FLAG_ONLY_SUPPORTED)))
            ids[found++] = e->id;
    }
    *n = found;
    return sim_leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmGetGpuStatus(dcgmHandle_t handle, unsigned gpu, DcgmEntityStatus_t *status)
{
    ENTER_HANDLE(handle);
    const struct sim_entity *e = sim_entity(DCGM_FE_GPU, gpu);
    *status = e ? e->status : DcgmEntityStatusUnknown;
    return sim_leave(DCGM_ST_OK);
}

static dcgmNvLinkLinkState_t link_state(int level, unsigned parent, unsigned index, dcgmNvLinkLinkState_t otherwise)
{
    for (int i = 0; i < sim.links; i++)
        if (sim.link[i].level == level && sim.link[i].parent == parent && sim.link[i].index == index)
            return sim.link[i].state;
    return otherwise;
}

dcgmReturn_t dcgmGetNvLinkLinkStatus(dcgmHandle_t handle, dcgmNvLinkStatus_v5 *status)
{
    ENTER_HANDLE(handle);
    if (status->version != dcgmNvLinkStatus_version5)
        return sim_leave(DCGM_ST_VER_MISMATCH);
    status->numGpus = status->numNvSwitches = 0;
    for (int i = 0; i < sim.entities; i++) {
        const struct sim_entity *e = &sim.entity[i];
        if (e->level == DCGM_FE_GPU && e->status == DcgmEntityStatusOk && status->numGpus < DCGM_MAX_NUM_DEVICES) {
            dcgmNvLinkGpuLinkStatus_v4 *gpu = &status->gpus[status->numGpus++];
            gpu->entityId = e->id;
            for (unsigned l = 0; l < DCGM_NVLINK_MAX_LINKS_PER_GPU; l++)
                gpu->linkState[l] = link_state(DCGM_FE_GPU, e->id, l, DcgmNvLinkLinkStateNotSupported);
        } else if (e->level == DCGM_FE_SWITCH && status->numNvSwitches < DCGM_MAX_NUM_SWITCHES) {
            dcgmNvLinkNvSwitchLinkStatus_t *sw = &status->nvSwitches[status->numNvSwitches++];
            sw->entityId = e->id;
            for (unsigned l = 0; l < DCGM_NVLINK_MAX_LINKS_PER_NVSWITCH; l++)
                sw->linkState[l] = link_state(DCGM_FE_SWITCH, e->id, l, DcgmNvLinkLinkStateDisabled);
        }
    }
    return sim_leave(DCGM_ST_OK);
}

static dcgmHealthSystems_t watched_systems;

dcgmReturn_t dcgmHealthSet(dcgmHandle_t handle, dcgmGpuGrp_t group, dcgmHealthSystems_t systems)
{
    (void)group;
    ENTER_HANDLE(handle);
    watched_systems = systems;
    return sim_leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmHealthGet(dcgmHandle_t handle, dcgmGpuGrp_t group, dcgmHealthSystems_t *systems)
{
    (void)group;
    ENTER_HANDLE(handle);
    *systems = watched_systems;
    return sim_leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmHealthCheck(dcgmHandle_t handle, dcgmGpuGrp_t group, dcgmHealthResponse_t *response)
{
    (void)group;
    ENTER_HANDLE(handle);
    if (response->version != dcgmHealthResponse_version5)
        return sim_leave(DCGM_ST_VER_MISMATCH);
    response->overallHealth = DCGM_HEALTH_RESULT_PASS;
    response->incidentCount = 0;
    for (int i = 0; i < sim.incidents; i++) {
        const struct sim_incident *from = &sim.incident[i];
        const struct sim_entity *e = sim_entity(from->level, from->id);
        // A check looks at active entities only: a lost GPU takes its incidents with it
        // (DCGM's modules/health/DcgmHealthWatch.cpp).
        if (!(from->system & watched_systems) || (e && e->status != DcgmEntityStatusOk))
            continue;
        dcgmIncidentInfo_t *to = &response->incidents[response->incidentCount++];
        to->system = from->system;
        to->health = from->health;
        to->error.code = from->code;
        snprintf(to->error.msg, sizeof to->error.msg, "%s", from->text);
        to->entityInfo.entityGroupId = from->level;
        to->entityInfo.entityId = from->id;
        if (to->health > response->overallHealth)
            response->overallHealth = to->health;
    }
    return sim_leave(DCGM_ST_OK);
}

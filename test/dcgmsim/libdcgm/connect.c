// Calls and connections: how a call enters and leaves, and who is connected.

#include "sim.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// One connection at a time: go-dcgm has a single handle, too.
static dcgmHandle_t connected;
static long connected_epoch;
static dcgmHandle_t last_handle;

long long sim_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000 + sim.clock;
}

static const struct sim_fault *find(const struct sim_fault *faults, int n, const char *function)
{
    for (int i = 0; i < n; i++)
        if (strcmp(faults[i].function, function) == 0 || strcmp(faults[i].function, "*") == 0)
            return &faults[i];
    return NULL;
}

static void trace(const char *function)
{
    char path[4096];
    const char *state = getenv("LOCKSTEP_DCGMSIM_STATE");
    if (!sim.trace || !state)
        return;
    snprintf(path, sizeof path, "%s.calls", state);
    FILE *file = fopen(path, "a");
    if (file) {
        fprintf(file, "%s\n", function);
        fclose(file);
    }
}

dcgmReturn_t sim_enter(const char *function)
{
    pthread_mutex_lock(&lock);
    sim_load();
    trace(function);
    while (find(sim.stall, sim.stalls, function)) {
        pthread_mutex_unlock(&lock);
        usleep(5000);
        pthread_mutex_lock(&lock);
        sim_load();
    }
    const struct sim_fault *fault = find(sim.fail, sim.fails, function);
    if (fault) {
        pthread_mutex_unlock(&lock);
        return fault->code;
    }
    return DCGM_ST_OK;
}

dcgmReturn_t sim_enter_handle(const char *function, dcgmHandle_t handle)
{
    ENTER(function);
    if (sim.down || handle == 0 || handle != connected || connected_epoch != sim.epoch) {
        pthread_mutex_unlock(&lock);
        return DCGM_ST_CONNECTION_NOT_VALID;
    }
    return DCGM_ST_OK;
}

dcgmReturn_t sim_leave(dcgmReturn_t rc)
{
    pthread_mutex_unlock(&lock);
    return rc;
}

dcgmReturn_t dcgmInit(void)
{
    ENTER(__func__);
    return sim_leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmShutdown(void)
{
    ENTER(__func__);
    return sim_leave(DCGM_ST_OK);
}

static dcgmReturn_t establish(dcgmHandle_t *handle)
{
    if (sim.down)
        return sim_leave(DCGM_ST_CONNECTION_NOT_VALID);
    sim_forget();
    connected = ++last_handle;
    connected_epoch = sim.epoch;
    *handle = connected;
    return sim_leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmConnect_v2(const char *address, dcgmConnectV2Params_t *params, dcgmHandle_t *handle)
{
    ENTER(__func__);
    if (!address || !params || params->version != dcgmConnectV2Params_version)
        return sim_leave(DCGM_ST_VER_MISMATCH);
    return establish(handle);
}

dcgmReturn_t dcgmConnect_v3(const char *address, dcgmConnectV3Params_t *params, dcgmHandle_t *handle)
{
    ENTER(__func__);
    if (!address || !params)
        return sim_leave(DCGM_ST_BADPARAM);
    return establish(handle);
}

dcgmReturn_t dcgmStartEmbedded(dcgmOperationMode_t mode, dcgmHandle_t *handle)
{
    (void)mode;
    ENTER(__func__);
    return establish(handle);
}

// Both close the connection whether or not the engine still answers.
static dcgmReturn_t release(dcgmHandle_t handle)
{
    if (handle != connected)
        return sim_leave(DCGM_ST_CONNECTION_NOT_VALID);
    connected = 0;
    sim_forget();
    return sim_leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmDisconnect(dcgmHandle_t handle)
{
    ENTER(__func__);
    return release(handle);
}

dcgmReturn_t dcgmStopEmbedded(dcgmHandle_t handle)
{
    ENTER(__func__);
    return release(handle);
}

static dcgmReturn_t version(dcgmVersionInfo_t *info)
{
    if (info->version != dcgmVersionInfo_version)
        return sim_leave(DCGM_ST_VER_MISMATCH);
    snprintf(info->rawBuildInfoString, sizeof info->rawBuildInfoString,
             "version:%s;arch:x86_64;buildtype:Release;buildid:0;commit:simulated", sim.version);
    return sim_leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmVersionInfo(dcgmVersionInfo_t *info)
{
    ENTER(__func__);
    return version(info);
}

dcgmReturn_t dcgmHostengineVersionInfo(dcgmHandle_t handle, dcgmVersionInfo_t *info)
{
    ENTER_HANDLE(handle);
    return version(info);
}

const char *errorString(dcgmReturn_t rc)
{
    switch (rc) {
    case DCGM_ST_OK: return "Success";
    case DCGM_ST_BADPARAM: return "Bad parameter passed to function";
    case DCGM_ST_NOT_SUPPORTED: return "This request is not supported by DCGM";
    case DCGM_ST_VER_MISMATCH: return "API version mismatch";
    case DCGM_ST_UNKNOWN_FIELD: return "Unknown field";
    case DCGM_ST_NO_DATA: return "No data is available";
    case DCGM_ST_NOT_WATCHED: return "Field is not being watched";
    case DCGM_ST_GPU_IS_LOST: return "GPU is lost";
    case DCGM_ST_CONNECTION_NOT_VALID: return "The connection to the host engine is not valid any longer";
    case DCGM_ST_TIMEOUT: return "Timeout";
    default: return "simulated error";
    }
}
